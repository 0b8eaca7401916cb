/* philox.h - the counter-based random generator Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1,
 * 2, 3", SC 2011, section 3.2 and its multipliers and Weyl constants. Private to libpipesim. */
#ifndef PIPESIM_PHILOX_H
#define PIPESIM_PHILOX_H

#include <glib.h>

#define PS_PHILOX_ROUNDS 10
#define PS_PHILOX_KEY_0 0x9e3779b9U /* added to the key after each round */
#define PS_PHILOX_KEY_1 0xbb67ae85U

/* One round on four words. */
static inline void
ps_philox_round (guint32 *c0, guint32 *c1, guint32 *c2, guint32 *c3, guint32 k0, guint32 k1)
{
  guint64 a = (guint64)*c0 * 0xd2511f53U, b = (guint64)*c2 * 0xcd9e8d57U;
  guint32 next0 = (guint32)(b >> 32) ^ *c1 ^ k0, next2 = (guint32)(a >> 32) ^ *c3 ^ k1;

  *c1 = (guint32)b;
  *c3 = (guint32)a;
  *c0 = next0;
  *c2 = next2;
}

/* Replaces four words, the counter, by four random ones. */
static inline void
ps_philox (guint32 words[4], guint64 key)
{
  guint32 k0 = (guint32)key, k1 = (guint32)(key >> 32);

  for (guint i = 0; i < PS_PHILOX_ROUNDS; i++)
    {
      ps_philox_round (&words[0], &words[1], &words[2], &words[3], k0, k1);
      k0 += PS_PHILOX_KEY_0;
      k1 += PS_PHILOX_KEY_1;
    }
}

#endif

/* random.h - a small generator with a state of its own, so that equal seeds give equal searches. */
#ifndef PS_SEARCH_RANDOM_H
#define PS_SEARCH_RANDOM_H

#include <glib.h>

/* SplitMix64: a counter through a mixing function (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
 * OOPSLA 2014). */
typedef struct
{
  guint64 state;
} Random;

static inline guint64
random_next (Random *random)
{
  guint64 z = random->state += 0x9e3779b97f4a7c15u;

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* 0 .. n - 1 */
static inline guint
random_below (Random *random, guint n)
{
  return (guint)(((random_next (random) >> 32) * n) >> 32);
}

/* [0, 1) */
static inline double
random_unit (Random *random)
{
  return (double)(random_next (random) >> 11) * 0x1p-53;
}

#endif

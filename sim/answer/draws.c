/* draws.c - Philox by sample and purpose, and the quantiles of log-normal distributions. */
#include "draws.h"

#include <pipesim/philox.h>

#include <math.h>

/* A call of the generator makes the words of four samples; its counter is { its number, a, b, stream }. */
void ps_draw (guint64 seed, guint first, PsPurpose purpose, guint32 *words)
{
  for (guint call = 0; call < PS_DRAW_LANES / 4; call++) {
    guint32 made[4] = { first / 4 + call, purpose.a, purpose.b, purpose.stream };

    ps_philox (made, seed);
    for (guint i = 0; i < 4; i++)
      words[PS_DRAW_LANES / 4 * i + call] = made[i];
  }
}

#define N_OCTAVES 32
#define CELL_BITS 6
#define N_CELLS (1 << CELL_BITS) /* of each octave of probabilities */
#define N_ENTRIES (N_OCTAVES * N_CELLS + 1)

/* Entry octave * N_CELLS + cell is for p = 2^octave (1 + cell / N_CELLS) / 2^33. */
struct _PsJitter {
  double factors[2][N_ENTRIES]; /* of the lower and the upper tail */
};

/* z >= 0 with P (normal > z) = p, by halving an interval; erfc falls. */
static double normal_quantile (double p)
{
  double low = 0, high = 8;

  for (guint i = 0; i < 50; i++) {
    double middle = (low + high) / 2;

    *(erfc (middle * M_SQRT1_2) / 2 > p ? &low : &high) = middle;
  }
  return low;
}

static const double *normal_quantiles (void)
{
  static double quantiles[N_ENTRIES];
  static gsize are_known;

  if (g_once_init_enter (&are_known)) {
    for (int i = 0; i < N_ENTRIES; i++)
      quantiles[i] = normal_quantile (ldexp (1 + (double)(i % N_CELLS) / N_CELLS, i / N_CELLS - 33));
    g_once_init_leave (&are_known, 1);
  }
  return quantiles;
}

PsJitter *ps_jitter_new (double relative_deviation)
{
  double variance = log1p (relative_deviation * relative_deviation), sigma = sqrt (variance);
  const double *quantiles = normal_quantiles ();
  PsJitter *jitter = g_new (PsJitter, 1);

  for (guint i = 0; i < N_ENTRIES; i++) {
    jitter->factors[0][i] = exp (-sigma * quantiles[i] - variance / 2);
    jitter->factors[1][i] = exp (sigma * quantiles[i] - variance / 2);
  }
  return jitter;
}

void ps_jitter_free (PsJitter *jitter)
{
  g_free (jitter);
}

double ps_jitter_factor (const PsJitter *jitter, guint32 word)
{
  guint32 odd = word | 1; /* 2^33 p */
  guint octave = 31 - (guint)__builtin_clz (odd);
  guint64 place = (guint64)odd << (32 + CELL_BITS - octave); /* in cells, times 2^32 */
  const double *at = &jitter->factors[word & 1][octave * N_CELLS + (place >> 32) - N_CELLS];

  return at[0] + (double)(guint32)place / 4294967296.0 * (at[1] - at[0]);
}

double ps_jitter_largest (const PsJitter *jitter)
{
  return ps_jitter_factor (jitter, 1);
}

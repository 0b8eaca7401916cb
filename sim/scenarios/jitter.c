/* jitter.c - random words, and log-normal factors from them. */
#include "jitter.h"

#include <pipesim/philox.h>

#define CALLS (PS_SCENARIO_LANES / 4) /* calls of the generator, which makes four words */
#define CELL_BITS 6
#define CELLS (1U << CELL_BITS) /* cells of an octave */
#define N_CELLS ((31 - CELL_BITS) * CELLS + CELLS)

/* The lanes are computed side by side, so that the compiler makes vectors of them. */
void
ps_draw (guint64 seed, guint first, PsPurpose purpose, guint32 *words)
{
  guint32 c0[CALLS], c1[CALLS], c2[CALLS], c3[CALLS];
  guint32 k0 = (guint32)seed, k1 = (guint32)(seed >> 32);

  for (guint i = 0; i < CALLS; i++)
    {
      c0[i] = first / 4 + i;
      c1[i] = purpose.a;
      c2[i] = purpose.b;
      c3[i] = purpose.stream;
    }
  for (guint round = 0; round < PS_PHILOX_ROUNDS; round++)
    {
      for (guint i = 0; i < CALLS; i++)
        ps_philox_round (&c0[i], &c1[i], &c2[i], &c3[i], k0, k1);
      k0 += PS_PHILOX_KEY_0;
      k1 += PS_PHILOX_KEY_1;
    }
  for (guint i = 0; i < CALLS; i++)
    {
      words[i] = c0[i];
      words[CALLS + i] = c1[i];
      words[2 * CALLS + i] = c2[i];
      words[3 * CALLS + i] = c3[i];
    }
}

/* [0] lower tail, [1] upper; entry i is the factor at the lower end of cell i. */
struct _PsJitter
{
  gint64 factor[2][N_CELLS + 1];
};

/* z >= 0 with P (normal > z) = p, by halving an interval; erfc falls. */
static double
normal_quantile (double p)
{
  double low = 0, high = 40;

  for (guint i = 0; i < 64; i++)
    {
      double middle = (low + high) / 2;

      if (erfc (middle * M_SQRT1_2) / 2 > p)
        low = middle;
      else
        high = middle;
    }
  return low;
}

/* The smallest word of a cell. */
static double
cell_begin (guint cell)
{
  guint octave = cell / CELLS;

  return octave == 0 ? cell : ldexp (CELLS + cell % CELLS, (int)octave - 1);
}

PsJitter *
ps_jitter_new (double relative_deviation)
{
  PsJitter *jitter = g_new (PsJitter, 1);
  double variance = log1p (relative_deviation * relative_deviation), sigma = sqrt (variance);

  for (guint cell = 0; cell <= N_CELLS; cell++)
    {
      double z = normal_quantile ((cell_begin (cell) + 0.5) / 4294967296.0);

      jitter->factor[0][cell] = llrint (ldexp (exp (-sigma * z - variance / 2), 32));
      jitter->factor[1][cell] = llrint (ldexp (exp (sigma * z - variance / 2), 32));
    }
  return jitter;
}

void
ps_jitter_free (PsJitter *jitter)
{
  g_free (jitter);
}

double
ps_jitter_largest (const PsJitter *jitter)
{
  return ldexp ((double)jitter->factor[1][0], -32);
}

static inline double
factor_of (const PsJitter *jitter, guint32 word)
{
  const gint64 *table = jitter->factor[word >> 31];
  guint32 rest = word & 0x7fffffff;
  guint shift = rest < CELLS ? 0 : 31 - CELL_BITS - (guint)__builtin_clz (rest);
  guint cell = rest < CELLS ? rest : (shift << CELL_BITS) + (rest >> shift);
  gint64 within = rest & ((1U << shift) - 1);

  return (double)(table[cell] + (((table[cell + 1] - table[cell]) * within) >> shift)) * (1 / 4294967296.0);
}

void
ps_jitter_factors (const PsJitter *jitter, const guint32 *words, double *factors)
{
  for (guint i = 0; i < PS_SCENARIO_LANES; i++)
    factors[i] = factor_of (jitter, words[i]);
}

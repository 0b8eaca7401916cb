/* random.h - a small generator that keeps its own state, so that equal seeds give equal searches. */
#pragma once

#include <pipesim/philox.h>
#include <pipesim/simulate.h>

#include <glib.h>

/* A generator of ps_splitmix_next's numbers. */
typedef struct
{
  guint64 state;
} PsRandom;

static inline guint64
ps_random_next (PsRandom *random)
{
  return ps_splitmix_next (&random->state);
}

/* 0 .. n - 1 */
static inline guint
ps_random_below (PsRandom *random, guint n)
{
  return (guint)(((ps_random_next (random) >> 32) * n) >> 32);
}

/* [0, 1) */
static inline double
ps_random_unit (PsRandom *random)
{
  return (double)(ps_random_next (random) >> 11) * 0x1p-53;
}

/* Exponentially distributed with mean 1: -log of a uniform number. It uses products and sums alone, so it is the same
 * on every machine. With u = m 2^-e, m in [1, 2), and s = (m - 1) / (m + 1): log m = 2 (s + s^3 / 3 + s^5 / 5 + ..). */
static inline double
ps_random_exponential (PsRandom *random)
{
  guint64 bits = (ps_random_next (random) >> 11) | 1;
  guint e = 53 - g_bit_storage (bits) + 1;
  double m = (double)bits / (double)((guint64)1 << (53 - e)), s = (m - 1) / (m + 1), square = s * s, sum = 0;

  for (int k = 15; k > 0; k -= 2)
    sum = sum * square + 1.0 / k;
  return e * 0.69314718055994530942 - 2 * s * sum;
}

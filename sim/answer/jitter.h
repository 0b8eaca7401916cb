/* jitter.h - random words by sample and purpose, and log-normal factors from words. Private to libpipesim. */
#pragma once

#include <pipesim/simulate.h>
#include <pipesim/answer.h>

#include <math.h>

/* The purpose of a draw. Words of different purposes are independent. */
typedef struct
{
  guint32 a, b;
  guint32 stream;
} PsPurpose;

enum
{
  PS_STREAM_OP,
  PS_STREAM_TRANSFER,
  PS_STREAM_SLOWNESS,
  PS_N_STREAMS
};

#define PS_STREAM_RUN G_MAXUINT32 /* of a whole run: iterations before a sample have none of their own */

/* The first two rounds of a purpose's draws, in as far as they are the same for all samples. */
typedef struct
{
  guint32 c0, c2, c3;
  guint32 stream;
} PsDrawStart;

PsDrawStart ps_draw_start (guint64 seed, PsPurpose purpose);

/* Draws words for PS_SCENARIO_LANES samples from `first` on, a multiple of that. */
void ps_draw_from (guint64 seed, guint first, PsDrawStart start, guint32 *words);
void ps_draw (guint64 seed, guint first, PsPurpose purpose, guint32 *words);

/* Log-normal factors with mean 1. The lowest bit of a word w chooses the lower tail or, if set, the upper; the others
 * are the probability p = (w / 2 + 1/2) / 2^32 of a value further out. In each octave of p the factor is a polynomial
 * of degree 4, off by at most 3e-4 of p, in single precision with every product and sum rounded. So every processor
 * gets the same factor from the same word, and vector registers hold the coefficients of the 16 most probable octaves.
 */
typedef struct _PsJitter PsJitter;

PsJitter *ps_jitter_new (double relative_deviation);
void ps_jitter_free (PsJitter *jitter);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsJitter, ps_jitter_free)

double ps_jitter_largest (const PsJitter *jitter);

/* Replaces words by their factors. */
void ps_jitter_factors (const PsJitter *jitter, const guint32 *words, double *factors);

/* A time that jitters: a word in each lane, its factor, and the product with base_ns. */
typedef struct
{
  PsDrawStart start;
  const double *base_ns; /* [PS_SCENARIO_LANES] */
  gpointer ns;           /* [PS_SCENARIO_LANES] the product to the nearest nanosecond: gint64 or guint32 */
} PsJitterTime;

/* Finds n times for samples from `first` on, as integers of 64 or 32 bits. Every kernel gives the same ones. */
void ps_jitter_times (const PsJitter *jitter, PsKernel kernel, guint64 seed, guint first, guint bits,
                      const PsJitterTime *times, guint n);

/* Rounds products to the nearest nanosecond; none is negative. */
void ps_jitter_round (const double *base_ns, const double *factors, guint bits, gpointer ns);

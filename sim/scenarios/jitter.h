/* jitter.h - draws and what they become: random words by sample and purpose, and log-normal factors from words. Private
 * to libpipesim. */
#ifndef PIPESIM_JITTER_H
#define PIPESIM_JITTER_H

#include <pipesim/uncertainty.h>

#include <math.h>

/* What a draw is for. Words of different purposes are independent. */
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

/* Words of PS_SCENARIO_LANES samples from `first`, a multiple of that, on. */
void ps_draw (guint64 seed, guint first, PsPurpose purpose, guint32 *words);

/* Log-normal factors, mean 1. A word w below 2^31 stands for the lower tail, probability p = (w + 1/2) / 2^32, one
 * above for the upper tail of the rest. Both tails are tables over p whose cells are 1/64 of an octave, linear in
 * between and in integers of 2^-32, so that every processor gets the same factor from the same word. */
typedef struct _PsJitter PsJitter;

PsJitter *ps_jitter_new (double relative_deviation);
void ps_jitter_free (PsJitter *jitter);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsJitter, ps_jitter_free)

double ps_jitter_largest (const PsJitter *jitter);

/* Replaces words by factors. */
void ps_jitter_factors (const PsJitter *jitter, const guint32 *words, double *factors);

#endif

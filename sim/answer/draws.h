/* draws.h - random words by sample and purpose, and log-normal factors from words. Private to libpipesim. */
#pragma once

#include <glib.h>

/* The purpose of a draw. Words of different purposes are independent. */
typedef struct {
  guint32 a, b;
  guint32 stream;
} PsPurpose;

#define PS_DRAW_LANES 16

/* Draws words for PS_DRAW_LANES samples from `first` on, a multiple of that. */
void ps_draw (guint64 seed, guint first, PsPurpose purpose, guint32 *words);

/* Log-normal factors with mean 1. The lowest bit of a word chooses the lower tail or, if set, the upper; the others are
 * the probability p = (word / 2 + 1/2) / 2^32 of a value further out. Factors are interpolated in a table, off by at
 * most 1e-4 of p. */
typedef struct _PsJitter PsJitter;

PsJitter *ps_jitter_new (double relative_deviation);
void ps_jitter_free (PsJitter *jitter);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsJitter, ps_jitter_free)

double ps_jitter_factor (const PsJitter *jitter, guint32 word);
double ps_jitter_largest (const PsJitter *jitter);

/* diff.h - the changes from one profile to another, measurement by measurement. */
#pragma once

#include <pipesim/costdb.h>

/* The measurements of one key in two profiles. */
typedef struct {
  const PsMeasurement *a; /* NULL: only in b */
  const PsMeasurement *b; /* NULL: only in a */
  double change;          /* change of the median, (b - a) / a; NaN: one is missing, or a's is 0 */
  double noise_ns;        /* largest distance of the medians by chance: the sum of both notches; NaN: too few samples */
  gboolean beyond_noise;  /* the medians are further apart; FALSE if noise_ns is not known */
  gboolean by_clock;      /* with beyond_noise: at b's clock a's median would be within noise of b's */
} PsProfileChange;

/* Compares a with b; either may be NULL. */
PsProfileChange ps_measurement_compare (const PsMeasurement *a, const PsMeasurement *b);

/* Returns an array of PsProfileChange: the keys of a in their order, then the keys of b alone. a and b keep their
 * measurements. */
GArray *ps_profile_diff (const PsProfileContents *a, const PsProfileContents *b);

/* Returns half the width of a median's notch: 1.57 (q3 - q1) / sqrt (n). NaN for n < 6, for which ps_median_ranks has
 * no interval. Two medians whose notches do not overlap differ at about the 95 % level (McGill, Tukey, Larsen:
 * Variations of Box Plots, The American Statistician 32, 1978). */
double ps_median_notch (const PsStatistics *time);

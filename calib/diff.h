/* diff.h - what has changed between two profiles, measurement by measurement. */
#ifndef PIPESIM_CALIB_DIFF_H
#define PIPESIM_CALIB_DIFF_H

#include <pipesim/profile.h>

G_BEGIN_DECLS

/* One key of either profile. */
typedef struct
{
  const PsMeasurement *a; /* NULL: only in b */
  const PsMeasurement *b; /* NULL: only in a */
  double change;          /* of the median, (b - a) / a; NaN unless both are there and a's is not 0 */
  double noise_ns;        /* how far medians may be apart by chance: both notches; NaN: too few samples to say */
  gboolean beyond_noise;  /* they are further apart; FALSE where noise_ns is not known */
  gboolean by_clock;      /* not any more once a's is what it would be at b's clock; with beyond_noise only */
} PsProfileChange;

/* From a to b; either may be NULL. */
PsProfileChange ps_measurement_compare (const PsMeasurement *a, const PsMeasurement *b);

/* Of PsProfileChange: keys of a in their order, then those of b alone. The measurements stay a's and b's. */
GArray *ps_profile_diff (const PsProfileContents *a, const PsProfileContents *b);

/* Half the width of a median's notch: 1.57 (q3 - q1) / sqrt (n); NaN for n < 6, for which ps_median_ranks knows no
 * interval. Where the notches of two medians do not overlap, these
 * differ at about the 95 % level (McGill, Tukey, Larsen: Variations of Box Plots, The American Statistician 32, 1978).
 */
double ps_median_notch (const PsStatistics *time);

G_END_DECLS

#endif

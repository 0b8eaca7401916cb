/* statistics.h - what a series of measured times says, without assuming how they are distributed. */
#ifndef PIPESIM_CALIB_STATISTICS_H
#define PIPESIM_CALIB_STATISTICS_H

#include <pipesim/costdb.h>

G_BEGIN_DECLS

/* Median, quartiles, median absolute deviation and minimum by nearest rank: of n sorted values the median is number
 * ceil (n / 2), the quartiles are numbers ceil (n / 4) and ceil (3n / 4), counted from 1. n > 0. */
void ps_statistics_compute (const gint64 *samples, guint n, PsStatistics *statistics);

/* Ranks (from 1) of the two order statistics between which the true median lies with at least 95 % probability,
 * whatever the distribution: the largest low with P (Binomial (n, 1/2) < low) <= 2.5 %, high = n + 1 - low. FALSE when
 * n < 6: there is no such interval. */
gboolean ps_median_ranks (guint n, guint *low, guint *high);

/* Whether that interval lies within precision times the median on both sides of the median. */
gboolean ps_median_is_precise (const gint64 *samples, guint n, double precision);

/* Mann-Kendall test for a monotonic slope: the number of pairs that rise minus that of pairs that fall, over its
 * standard deviation without a slope. Beyond +-1.96 a slope is significant at 5 %. 0 for n < 3. Takes n^2 / 2 steps. */
double ps_slope_z (const gint64 *samples, guint n);

/* A significant slope that matters: the medians of both halves differ by more than precision times the median. */
gboolean ps_has_drift (const gint64 *samples, guint n, double precision);

G_END_DECLS

#endif

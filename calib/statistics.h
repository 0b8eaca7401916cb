/* statistics.h - statistics of measured times, without assuming a distribution. */
#pragma once

#include <pipesim/costdb.h>

/* Computes median, quartiles, median absolute deviation and minimum by nearest rank. The median of n sorted
 * values is number ceil (n / 2), counted from 1. The quartiles are numbers ceil (n / 4) and ceil (3n / 4). n > 0. */
void ps_statistics_compute (const gint64 *samples, guint n, PsStatistics *statistics);

/* Gives the ranks (from 1) of two order statistics. The true median lies between them with at least 95 % probability,
 * whatever the distribution. low is the largest rank with P (Binomial (n, 1/2) < low) <= 2.5 %. high is n + 1 - low.
 * FALSE for n < 6: there is no such interval. */
gboolean ps_median_ranks (guint n, guint *low, guint *high);

/* TRUE if that interval lies within precision times the median on both sides of the median. */
gboolean ps_median_is_precise (const gint64 *samples, guint n, double precision);

/* Mann-Kendall test for a monotonic slope. Returns the number of pairs that rise minus the number that fall, over the
 * standard deviation without a slope. Beyond +-1.96 a slope is significant at 5 %. 0 for n < 3. Takes n^2 / 2 steps. */
double ps_slope_z (const gint64 *samples, guint n);

/* TRUE for a significant slope that matters: the medians of both halves differ by more than precision times the
 * median. */
gboolean ps_has_drift (const gint64 *samples, guint n, double precision);

/* statistics.c - median, spread, confidence and drift of measured times. */
#include "statistics.h"

#include <math.h>
#include <stdlib.h>

static gint64 *sorted_copy (const gint64 *samples, guint n)
{
  gint64 *sorted = g_memdup2 (samples, n * sizeof *samples);

  qsort (sorted, n, sizeof *sorted, ps_compare_int64);
  return sorted;
}

void ps_statistics_compute (const gint64 *samples, guint n, PsStatistics *statistics)
{
  g_return_if_fail (n > 0);
  g_autofree gint64 *sorted = sorted_copy (samples, n);
  gint64 median = sorted[(n + 1) / 2 - 1];
  *statistics = (PsStatistics){ .median_ns = median,
                                .q1_ns = sorted[(n + 3) / 4 - 1],
                                .q3_ns = sorted[(3 * (gsize)n + 3) / 4 - 1],
                                .min_ns = sorted[0],
                                .n = n };
  for (guint i = 0; i < n; i++)
    sorted[i] = ABS (sorted[i] - median);
  statistics->mad_ns = ps_median (sorted, n);
}

gboolean ps_median_ranks (guint n, guint *low, guint *high)
{
  double below = 0; /* P (Binomial (n, 1/2) <= rank) */
  guint rank = 0;
  int sign;

  for (;; rank++) {
    double choices = lgamma_r (n + 1.0, &sign) - lgamma_r (rank + 1.0, &sign) - lgamma_r (n - rank + 1.0, &sign);

    below += exp (choices - n * G_LN2);
    if (below > 0.025)
      break;
  }
  *low = rank;
  *high = n + 1 - rank;
  return rank > 0;
}

gboolean ps_median_is_precise (const gint64 *samples, guint n, double precision)
{
  guint low, high;

  if (n == 0 || !ps_median_ranks (n, &low, &high))
    return FALSE;
  g_autofree gint64 *sorted = sorted_copy (samples, n);
  gint64 median = sorted[(n + 1) / 2 - 1];
  double margin = precision * (double)median;
  return (double)(median - sorted[low - 1]) <= margin && (double)(sorted[high - 1] - median) <= margin;
}

double ps_slope_z (const gint64 *samples, guint n)
{
  gint64 rising = 0;

  if (n < 3)
    return 0;
  for (guint i = 0; i < n; i++)
    for (guint j = i + 1; j < n; j++)
      rising += ps_compare_int64 (&samples[j], &samples[i]);
  /* Variance without ties, which are rare in nanoseconds. With ties z only gets smaller than it could be. */
  double deviation = sqrt (n * (n - 1.0) * (2.0 * n + 5) / 18);
  gint64 continuity = (rising > 0) - (rising < 0);
  return (double)(rising - continuity) / deviation;
}

gboolean ps_has_drift (const gint64 *samples, guint n, double precision)
{
  PsStatistics all, first, second;

  if (n < 4 || fabs (ps_slope_z (samples, n)) <= 1.96)
    return FALSE;
  ps_statistics_compute (samples, n, &all);
  ps_statistics_compute (samples, n / 2, &first);
  ps_statistics_compute (samples + n / 2, n - n / 2, &second);
  return fabs ((double)(second.median_ns - first.median_ns)) > precision * (double)all.median_ns;
}

/* diff.c - compares two profiles. */
#include "diff.h"

#include "statistics.h"

#include <math.h>

double ps_median_notch (const PsStatistics *time)
{
  guint low, high;

  return ps_median_ranks (time->n, &low, &high) ? 1.57 * (double)(time->q3_ns - time->q1_ns) / sqrt (time->n) : NAN;
}

static gboolean same_key (const PsMeasurement *a, const PsMeasurement *b)
{
  return a->subject == b->subject && a->kind == b->kind && a->bytes == b->bytes && a->devices == b->devices
         && a->sharing == b->sharing && a->share == b->share && a->cache == b->cache
         && g_str_equal (a->shape, b->shape);
}

static const PsMeasurement *find (const PsProfileContents *contents, const PsMeasurement *key)
{
  for (guint i = 0; i < contents->measurements->len; i++)
    if (same_key (contents->measurements->pdata[i], key))
      return contents->measurements->pdata[i];
  return NULL;
}

PsProfileChange ps_measurement_compare (const PsMeasurement *a, const PsMeasurement *b)
{
  PsProfileChange change = { .a = a, .b = b, .change = NAN, .noise_ns = NAN };

  if (a == NULL || b == NULL)
    return change;
  double distance = (double)(b->time.median_ns - a->time.median_ns);
  change.noise_ns = ps_median_notch (&a->time) + ps_median_notch (&b->time);
  change.beyond_noise = fabs (distance) > change.noise_ns;
  gint64 clock_a = ps_measurement_clock_mhz (a), clock_b = ps_measurement_clock_mhz (b);
  if (change.beyond_noise && clock_a > 0 && clock_b > 0)
    change.by_clock
        = fabs ((double)b->time.median_ns - (double)(a->time.median_ns * clock_a) / (double)clock_b) <= change.noise_ns;
  if (a->time.median_ns > 0)
    change.change = distance / (double)a->time.median_ns;
  return change;
}

GArray *ps_profile_diff (const PsProfileContents *a, const PsProfileContents *b)
{
  GArray *changes = g_array_new (FALSE, FALSE, sizeof (PsProfileChange));

  for (guint i = 0; i < a->measurements->len; i++) {
    const PsMeasurement *m = a->measurements->pdata[i];
    PsProfileChange change = ps_measurement_compare (m, find (b, m));

    g_array_append_val (changes, change);
  }
  for (guint i = 0; i < b->measurements->len; i++) {
    PsProfileChange change = ps_measurement_compare (NULL, b->measurements->pdata[i]);

    if (find (a, change.b) == NULL)
      g_array_append_val (changes, change);
  }
  return changes;
}

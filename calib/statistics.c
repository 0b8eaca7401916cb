/* statistics.c - median, spread, confidence and drift of measured times; samplers; comparisons. */
#include "statistics.h"

#include "clock.h"

#include <pipesim/answer.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
  *low = ps_binomial_quantile (n, 0.5, 0.025);
  *high = n + 1 - *low;
  return *low > 0;
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

/* Samplers */

void ps_sampler_init (PsSampler *sampler, const PsSamplingRule *rule)
{
  *sampler = (PsSampler){ .rule = rule,
                          .samples = g_array_new (FALSE, FALSE, sizeof (gint64)),
                          .next_check = MAX (rule->min_samples, 1) };
}

void ps_sampler_clear (PsSampler *sampler)
{
  g_clear_pointer (&sampler->samples, g_array_unref);
}

static gboolean has_converged (PsSampler *sampler)
{
  const gint64 *samples = (const gint64 *)(gpointer)sampler->samples->data;
  guint n = sampler->samples->len;

  if (n < sampler->next_check)
    return FALSE;
  /* Each look takes time that grows with the samples, so the next look comes later. */
  sampler->next_check = n + MAX (n / 16, 1);
  return ps_median_is_precise (samples, n, sampler->rule->within) && !ps_has_drift (samples, n, sampler->rule->within);
}

gboolean ps_sampler_add (PsSampler *sampler, gint64 ns, gint64 elapsed_ns)
{
  if (sampler->stop != NULL)
    return FALSE;
  g_array_append_val (sampler->samples, ns);
  if (has_converged (sampler))
    sampler->stop = "converged";
  else if (sampler->samples->len >= sampler->rule->max_samples)
    sampler->stop = "sample cap";
  else if (elapsed_ns >= sampler->rule->time_limit_ns)
    sampler->stop = "time cap";
  return sampler->stop != NULL;
}

gboolean ps_sampler_reject (PsSampler *sampler, gint64 elapsed_ns)
{
  if (sampler->stop != NULL || elapsed_ns < sampler->rule->time_limit_ns)
    return FALSE;
  sampler->stop = sampler->samples->len > 0 ? "time cap" : "no accepted samples";
  return TRUE;
}

void ps_measurement_complete (PsMeasurement *measurement, const char *stop, const gint64 *samples_ns, guint n)
{
  measurement->stop = g_strdup (stop);
  measurement->taken = ps_moment_now ();
  measurement->n_samples = n;
  measurement->samples_ns = g_memdup2 (samples_ns, n * sizeof *samples_ns);
  if (n > 0)
    ps_statistics_compute (samples_ns, n, &measurement->time);
}

void ps_sampler_finish (const PsSampler *sampler, PsMeasurement *measurement)
{
  g_return_if_fail (sampler->stop != NULL);

  ps_measurement_complete (measurement, sampler->stop, (const gint64 *)(gpointer)sampler->samples->data,
                           sampler->samples->len);
}

PsMeasurement *ps_measurement_join (const PsMeasurement *before, const PsMeasurement *m)
{
  PsMeasurement *both = g_memdup2 (m, sizeof *m);
  guint n_before = before != NULL ? before->n_samples : 0;

  both->shape = g_strdup (m->shape);
  both->stop = g_strdup (m->stop);
  both->taken = g_strdup (m->taken);
  both->n_samples = n_before + m->n_samples;
  both->samples_ns = g_new (gint64, both->n_samples);
  if (n_before > 0) {
    both->before = before->before;
    memcpy (both->samples_ns, before->samples_ns, n_before * sizeof *both->samples_ns);
  }
  memcpy (both->samples_ns + n_before, m->samples_ns, m->n_samples * sizeof *both->samples_ns);
  ps_statistics_compute (both->samples_ns, both->n_samples, &both->time);
  return both;
}

/* Two profiles */

double ps_median_notch (const PsStatistics *time)
{
  guint low, high;

  return ps_median_ranks (time->n, &low, &high) ? 1.57 * (double)(time->q3_ns - time->q1_ns) / sqrt (time->n) : NAN;
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
    PsProfileChange change = ps_measurement_compare (m, ps_measurement_find (b->measurements, m));

    g_array_append_val (changes, change);
  }
  for (guint i = 0; i < b->measurements->len; i++) {
    PsProfileChange change = ps_measurement_compare (NULL, b->measurements->pdata[i]);

    if (ps_measurement_find (a->measurements, change.b) == NULL)
      g_array_append_val (changes, change);
  }
  return changes;
}

/* Stage shapes left out */

#define MAX_PARTS 6

/* The parts that shapes are made of: "layers" and the words after it. */
typedef struct {
  GPtrArray *names;
  double matrix[MAX_PARTS][MAX_PARTS + 1]; /* normal equations of the least squares, the right side last */
} Fit;

static guint find_part (Fit *fit, const char *name)
{
  for (guint i = 0; i < fit->names->len; i++)
    if (g_str_equal (fit->names->pdata[i], name))
      return i;
  g_ptr_array_add (fit->names, g_strdup (name));
  return fit->names->len - 1;
}

/* How much of each part the shape "layers=2,embedding" has. FALSE: more parts than a fit can have. */
static gboolean count_parts (Fit *fit, const char *shape, double *counts)
{
  g_auto (GStrv) words = g_strsplit (shape, ",", -1);

  memset (counts, 0, MAX_PARTS * sizeof *counts);
  for (char **word = words; *word != NULL; word++) {
    char *equals = strchr (*word, '=');
    gboolean number = equals != NULL && g_ascii_isdigit (equals[1]);
    double count = number ? g_ascii_strtod (equals + 1, NULL) : 1;

    if (number)
      *equals = '\0';
    guint part = find_part (fit, *word);
    if (part >= MAX_PARTS)
      return FALSE;
    counts[part] += count;
  }
  return TRUE;
}

/* Errors are relative, so each shape counts by its time. */
static void add_shape (Fit *fit, const double *counts, gint64 ns)
{
  for (guint i = 0; i < MAX_PARTS; i++) {
    double weighed = counts[i] / (double)ns;

    for (guint k = 0; k < MAX_PARTS; k++)
      fit->matrix[i][k] += weighed * counts[k] / (double)ns;
    fit->matrix[i][MAX_PARTS] += weighed;
  }
}

/* Takes the row of a part out of all other rows. FALSE: the samples do not separate the part from those before. */
static gboolean eliminate (Fit *fit, guint part, guint n, double least)
{
  double *row = fit->matrix[part], first = row[part];

  if (first <= least)
    return FALSE;
  for (guint k = 0; k <= MAX_PARTS; k++)
    row[k] /= first;
  for (guint i = 0; i < n; i++) {
    double factor = fit->matrix[i][part];

    for (guint k = 0; i != part && k <= MAX_PARTS; k++)
      fit->matrix[i][k] -= factor * row[k];
  }
  return TRUE;
}

static double sum_parts (Fit *fit, const double *counts)
{
  guint n = fit->names->len;
  double sum = 0, largest = 0;

  for (guint i = 0; i < n; i++)
    largest = MAX (largest, fit->matrix[i][i]);
  for (guint i = 0; i < n; i++)
    if (!eliminate (fit, i, n, 1e-9 * largest))
      return NAN;
  for (guint i = 0; i < n; i++)
    sum += counts[i] * fit->matrix[i][MAX_PARTS];
  return sum;
}

/* TRUE: measured in the same way; shapes may differ. */
static gboolean is_alike (const PsMeasurement *a, const PsMeasurement *b)
{
  return a->subject == PS_SUBJECT_OP && b->subject == PS_SUBJECT_OP && a->kind == b->kind && a->devices == b->devices
         && a->sharing == b->sharing && a->share == b->share && a->cache == b->cache
         && strstr (a->shape, ",slice=") == NULL && strstr (b->shape, ",slice=") == NULL
         && !g_str_has_suffix (a->shape, PS_WARM_SUFFIX) && !g_str_has_suffix (b->shape, PS_WARM_SUFFIX)
         && strstr (a->shape, ",blocks=") == NULL && strstr (b->shape, ",blocks=") == NULL;
}

static double error_of (GPtrArray *measurements, const PsMeasurement *left_out)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  Fit fit = { .names = names };
  double counts[MAX_PARTS], wanted[MAX_PARTS];

  if (!g_str_has_prefix (left_out->shape, "layers=") || left_out->time.median_ns <= 0
      || !count_parts (&fit, left_out->shape, wanted))
    return NAN;
  for (guint i = 0; i < measurements->len; i++) {
    const PsMeasurement *m = measurements->pdata[i];

    if (m == left_out || !is_alike (m, left_out) || m->time.median_ns <= 0)
      continue;
    if (!count_parts (&fit, m->shape, counts))
      return NAN;
    add_shape (&fit, counts, m->time.median_ns);
  }
  return fabs (sum_parts (&fit, wanted) / (double)left_out->time.median_ns - 1);
}

double ps_shape_error (GPtrArray *measurements, guint *n)
{
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < measurements->len; i++) {
    const PsMeasurement *m = measurements->pdata[i];
    double error = m->subject == PS_SUBJECT_OP ? error_of (measurements, m) : NAN;

    if (!isnan (error))
      g_array_append_val (errors, error);
  }
  g_array_sort (errors, ps_compare_double);
  *n = errors->len;
  return errors->len > 0 ? g_array_index (errors, double, (errors->len - 1) / 2) : NAN;
}

char *ps_shape_error_to_text (GPtrArray *measurements)
{
  guint n;
  double error = ps_shape_error (measurements, &n);

  if (n == 0)
    return g_strdup ("");
  return g_strdup_printf ("a stage shape left out and put together from layers, embedding and head of the others is "
                          "off by %.1f %%, the median over %u ops",
                          100 * error, n);
}

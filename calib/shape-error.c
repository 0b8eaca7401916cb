/* shape-error.c - leaves out one stage shape after the other. */
#include "shape-error.h"

#include <math.h>
#include <string.h>

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

/* Takes the row of a part out of all other rows. FALSE: the part cannot be told from those before. */
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

/* figures.c - errors and rank correlations of predictions. */
#include "figures.h"

#include <math.h>

static double value_of (const Row *row, FigureKind kind, gboolean predicted)
{
  if (kind == FIGURE_MEMORY)
    return predicted ? row_stated_bytes (row) : row->measured_bytes;
  return !predicted ? row->measured_s : kind == FIGURE_TIME ? row->predicted_s : row->from_one_s;
}

gboolean row_error (const Row *row, FigureKind kind, double *error)
{
  double measured = value_of (row, kind, FALSE), predicted = value_of (row, kind, TRUE);

  if (row->reason != NULL || (kind == FIGURE_MEMORY && row->memory_reason != NULL)
      || (kind == FIGURE_TIME && row->set->ratios) || !(measured > 0) || !(predicted > 0))
    return FALSE;
  *error = predicted / measured - 1;
  return TRUE;
}

static int compare_doubles (gconstpointer a, gconstpointer b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

static double quantile (GArray *sorted, double part)
{
  guint i = (guint)ceil (part * sorted->len);

  return g_array_index (sorted, double, MAX (i, 1) - 1);
}

/* The factor is the median of measured / predicted: that of fewest errors without sign. */
static double mape_after_factor (GArray *errors)
{
  g_autoptr (GArray) sorted = g_array_copy (errors);
  double sum = 0;

  g_array_sort (sorted, compare_doubles);
  for (guint i = 0; i < errors->len; i++)
    sum += ABS ((1 + g_array_index (errors, double, i)) / (1 + quantile (sorted, 0.5)) - 1);
  return sum / errors->len;
}

/* The mean place, from 0, of a value among all of the series. */
static double rank_of (const GPtrArray *series, FigureKind kind, gboolean predicted, guint i)
{
  double mine = value_of (series->pdata[i], kind, predicted), rank = 0;

  for (guint k = 0; k < series->len; k++) {
    double value = value_of (series->pdata[k], kind, predicted);

    rank += value < mine ? 1 : value > mine || k == i ? 0 : 0.5;
  }
  return rank;
}

static double rank_correlation (const GPtrArray *series, FigureKind kind)
{
  double mean = (series->len - 1) / 2.0, xy = 0, xx = 0, yy = 0;

  for (guint i = 0; i < series->len; i++) {
    double x = rank_of (series, kind, FALSE, i) - mean, y = rank_of (series, kind, TRUE, i) - mean;

    xy += x * y;
    xx += x * x;
    yy += y * y;
  }
  return xx > 0 && yy > 0 ? xy / sqrt (xx * yy) : 0;
}

static double mean_rank_correlation (const GPtrArray *rows, const DataSet *set, FigureKind kind)
{
  g_autoptr (GHashTable) all = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify)g_ptr_array_unref);
  GHashTableIter iter;
  gpointer value;
  double sum = 0, n = 0, error;

  for (guint i = 0; i < rows->len; i++) {
    Row *row = rows->pdata[i];
    GPtrArray *series = row->series != NULL ? g_hash_table_lookup (all, row->series) : NULL;

    if ((set != NULL && row->set != set) || row->series == NULL || !row_error (row, kind, &error))
      continue;
    if (series == NULL)
      g_hash_table_insert (all, row->series, series = g_ptr_array_new ());
    g_ptr_array_add (series, row);
  }
  g_hash_table_iter_init (&iter, all);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (((GPtrArray *)value)->len >= 3) {
      sum += rank_correlation (value, kind) * ((GPtrArray *)value)->len;
      n += ((GPtrArray *)value)->len;
    }
  return n > 0 ? sum / n : NAN;
}

Figures figures_of (const GPtrArray *rows, const DataSet *set, FigureKind kind)
{
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (double));
  Figures figures = { .rank = NAN };

  for (guint i = 0; i < rows->len; i++) {
    const Row *row = rows->pdata[i];
    double error, size;

    if ((set != NULL && row->set != set) || !row_error (row, kind, &error))
      continue;
    size = ABS (error);
    g_array_append_val (errors, error);
    g_array_append_val (sizes, size);
    figures.bias += error;
    figures.mape += size;
    if (size > ABS (figures.worst))
      figures.worst = error;
  }
  figures.n = errors->len;
  if (figures.n == 0)
    return figures;
  g_array_sort (sizes, compare_doubles);
  figures.bias /= figures.n;
  figures.mape /= figures.n;
  figures.median = quantile (sizes, 0.5);
  figures.p95 = quantile (sizes, 0.95);
  figures.constant = mape_after_factor (errors);
  figures.rank = mean_rank_correlation (rows, set, kind);
  return figures;
}

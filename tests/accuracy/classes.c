/* classes.c - errors of predicted steps by class. */
#include "classes.h"

#include "figures.h"

#include <math.h>

#define LEAST_ROWS 3 /* that an interval rests on */

struct _Classes {
  GPtrArray *keys;    /* "h100-80gb,file,16,dense", sorted when they are printed */
  GHashTable *errors; /* GArray of double, by key: logarithms of predicted / measured */
};

Classes *classes_new (void)
{
  Classes *classes = g_new (Classes, 1);

  classes->keys = g_ptr_array_new_with_free_func (g_free);
  classes->errors = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify)g_array_unref);
  return classes;
}

void classes_free (Classes *classes)
{
  if (classes == NULL)
    return;
  g_hash_table_unref (classes->errors);
  g_ptr_array_unref (classes->keys);
  g_free (classes);
}

void classes_take (Classes *classes, const GPtrArray *rows, const char *values)
{
  for (guint i = 0; i < rows->len; i++) {
    const Row *row = rows->pdata[i];
    double error;

    if (row->model == NULL || row->routes || !row_error (row, FIGURE_TIME, &error))
      continue;
    char *key
        = g_strdup_printf ("%s,%s,%u,%s", row_cluster_name (row), values, ps_number_formats[row->model->precision].bits,
                           ps_class_layers (row->model, row->setting->n_devices));
    GArray *errors = g_hash_table_lookup (classes->errors, key);
    double log_error = log1p (error);
    if (errors == NULL) {
      g_ptr_array_add (classes->keys, key);
      g_hash_table_insert (classes->errors, key, errors = g_array_new (FALSE, FALSE, sizeof (double)));
    } else
      g_free (key);
    g_array_append_val (errors, log_error);
  }
}

/* Student's t that 9 of 10 lie below, by the first terms of its expansion in the normal quantile (Abramowitz and
 * Stegun, 26.7.5). */
static double student_p90 (double freedom)
{
  const double z = 1.281552;

  return z + (pow (z, 3) + z) / 4 / freedom + (5 * pow (z, 5) + 16 * pow (z, 3) + 3 * z) / 96 / freedom / freedom;
}

/* Where the error of one more row lies in 8 of 10 cases, if logarithms of errors are normal (a prediction interval:
 * mean and deviation are those of n rows). first, step: every step-th row. FALSE: too few rows. */
static gboolean find_interval (const GArray *errors, guint first, guint step, double *p10, double *p90)
{
  double sum = 0, squares = 0, n = 0;

  for (guint i = first; i < errors->len; i += step, n++) {
    double e = g_array_index (errors, double, i);

    sum += e;
    squares += e * e;
  }
  if (n < LEAST_ROWS)
    return FALSE;
  double mean = sum / n, deviation = sqrt (MAX (squares - n * mean * mean, 0) / (n - 1));
  double half = student_p90 (n - 1) * deviation * sqrt (1 + 1 / n);
  *p10 = expm1 (mean - half);
  *p90 = expm1 (mean + half);
  return TRUE;
}

static guint count_inside (const GArray *errors, guint first, double p10, double p90)
{
  guint n = 0;

  for (guint i = first; i < errors->len; i += 2) {
    double error = expm1 (g_array_index (errors, double, i));

    n += p10 <= error && error <= p90;
  }
  return n;
}

static int compare_keys (gconstpointer a, gconstpointer b)
{
  return g_strcmp0 (*(const char *const *)a, *(const char *const *)b);
}

void classes_print (const Classes *classes)
{
  guint n_left_out = 0, n_held = 0;

  g_print (
      "\n| machine, values of its file or its datasheet, bits, layers | rows | p10 | p90 | rows left out | inside |\n"
      "|---|---|---|---|---|---|\n");
  g_ptr_array_sort (classes->keys, compare_keys);
  for (guint i = 0; i < classes->keys->len; i++) {
    const GArray *errors = g_hash_table_lookup (classes->errors, classes->keys->pdata[i]);
    guint left_out = 0, inside = 0;
    double p10, p90;

    if (!find_interval (errors, 0, 1, &p10, &p90))
      continue;
    for (guint half = 0; half < 2; half++) {
      double low, high;

      if (!find_interval (errors, 1 - half, 2, &low, &high))
        continue;
      left_out += (errors->len + 1 - half) / 2;
      inside += count_inside (errors, half, low, high);
    }
    g_print ("| %s | %u | %+.1f | %+.1f | %u | %u |\n", (char *)classes->keys->pdata[i], errors->len, 100 * p10,
             100 * p90, left_out, inside);
    n_left_out += left_out;
    n_held += inside;
  }
  g_print ("\n- %u rows left out of the intervals of their class; %u of them lie inside, %.0f %%.\n", n_left_out,
           n_held, 100.0 * n_held / MAX (n_left_out, 1));
}

char *classes_to_csv (const Classes *classes)
{
  GString *csv = g_string_new ("machine,values,bits,layers,rows,p10,p90\n");

  g_ptr_array_sort (classes->keys, compare_keys);
  for (guint i = 0; i < classes->keys->len; i++) {
    const GArray *errors = g_hash_table_lookup (classes->errors, classes->keys->pdata[i]);
    double p10, p90;

    if (find_interval (errors, 0, 1, &p10, &p90))
      g_string_append_printf (csv, "%s,%u,%.3f,%.3f\n", (char *)classes->keys->pdata[i], errors->len, p10, p90);
  }
  return g_string_free (csv, FALSE);
}

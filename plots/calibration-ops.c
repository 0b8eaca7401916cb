/* calibration-ops.c - the ops of a profile, one row for each kind and stage shape. */
#include "calibration-private.h"

#include "scale.h"
#include "series.h"
#include "ticks.h"

#include <math.h>
#include <string.h>

#define ROW 15      /* pixels, at least */
#define MARK_STEP 8 /* from mark to mark in a row */
#define LEAST_LEFT 84
#define KEY 10 /* from the panel's top up to the names of the ways */

/* An op of a shape, as it was measured in each of the ways. */
typedef struct
{
  const PsMeasurement **way; /* [ways]; NULL: not measured */
  const PsMeasurement *any;
} Row;

static void
row_free (gpointer data)
{
  g_free (((Row *)data)->way);
  g_free (data);
}

static Row *
find_row (GPtrArray *rows, const PsMeasurement *m, guint n_ways)
{
  Row *row;

  for (guint i = 0; i < rows->len; i++)
    {
      row = rows->pdata[i];
      if (row->any->kind == m->kind && g_str_equal (row->any->shape, m->shape))
        return row;
    }
  row = g_new0 (Row, 1);
  row->way = g_new0 (const PsMeasurement *, n_ways);
  row->any = m;
  g_ptr_array_add (rows, row);
  return row;
}

static int
compare_rows (gconstpointer a, gconstpointer b)
{
  const PsMeasurement *x = (*(const Row *const *)a)->any, *y = (*(const Row *const *)b)->any;
  int order = strcmp (x->shape, y->shape);

  return order != 0 ? order : (int)x->kind - (int)y->kind;
}

/* By shape, then kind. */
static GPtrArray *
collect_rows (const GPtrArray *ways)
{
  GPtrArray *rows = g_ptr_array_new_with_free_func (row_free);

  for (guint w = 0; w < ways->len; w++)
    {
      const GPtrArray *all = ((const PsCalibrationWay *)ways->pdata[w])->rows;

      for (guint i = 0; i < all->len; i++)
        find_row (rows, all->pdata[i], ways->len)->way[w] = all->pdata[i];
    }
  g_ptr_array_sort (rows, compare_rows);
  return rows;
}

static char *
row_name (const Row *row)
{
  return g_strdup_printf ("%s of %s", ps_op_kind_name (row->any->kind), row->any->shape);
}

double
ps_calibration_ops_height (const GPtrArray *ways, gboolean terminal)
{
  g_autoptr (GPtrArray) rows = collect_rows (ways);

  return rows->len * (terminal ? (double)PS_TERMINAL_ROW * ways->len : MAX (ROW, MARK_STEP * ways->len + 3));
}

double
ps_calibration_ops_left (const GPtrArray *ways, double letter)
{
  g_autoptr (GPtrArray) rows = collect_rows (ways);
  double left = LEAST_LEFT;

  for (guint i = 0; i < rows->len; i++)
    {
      g_autofree char *name = row_name (rows->pdata[i]);

      left = MAX (left, letter * (double)g_utf8_strlen (name, -1) + 16);
    }
  return left;
}

static PsPlotRange
find_range (const GPtrArray *rows, guint n_ways)
{
  double smallest = INFINITY, largest = 1;

  for (guint i = 0; i < rows->len; i++)
    for (guint w = 0; w < n_ways; w++)
      {
        const PsMeasurement *m = ((const Row *)rows->pdata[i])->way[w];

        smallest = m != NULL ? MIN (smallest, (double)MAX (m->time.min_ns, 1)) : smallest;
        largest = m != NULL ? MAX (largest, (double)m->time.q3_ns) : largest;
      }
  return ps_plot_range (smallest, largest);
}

/* y counts rows from the top. */
static void
append_mark (PsCalibrationData *data, const PsMeasurement *m, double y, guint w)
{
  guint32 colour = ps_plot_op_colour (m->kind, 0, 1);
  double low = (double)MAX (m->time.q1_ns, 1);

  g_string_append_printf (data->points, "%.9g %.4f %u %u\n", (double)MAX (m->time.median_ns, 1), y,
                          ps_plot_series_mark (w), colour);
  g_string_append_printf (data->bars, "%.9g %.4f %.9g 0 %u\n", low, y, (double)MAX (m->time.q3_ns, 1) - low,
                          ps_plot_tint (colour));
  g_string_append_printf (data->least, "%.9g %.4f %u\n", (double)MAX (m->time.min_ns, 1), y, colour);
}

/* "3 % n = 2": for each way the median absolute deviation over the median. Few samples say nothing about it. */
static char *
deviations (const Row *row, guint n_ways)
{
  GString *text = g_string_new (NULL);

  for (guint w = 0; w < n_ways; w++)
    {
      const PsMeasurement *m = row->way[w];

      g_string_append (text, w ? "  " : "");
      if (m != NULL && m->time.n < PS_MEDIAN_MIN_SAMPLES)
        g_string_append_printf (text, "n = %u", m->time.n);
      else if (m != NULL)
        g_string_append_printf (text, "%.1f %%", 100.0 * (double)m->time.mad_ns / (double)MAX (m->time.median_ns, 1));
      else
        g_string_append_c (text, '-');
    }
  return g_string_free (text, FALSE);
}

static void
append_row (PsCalibrationData *data, const PsPanel *panel, const Row *row, guint i, double height, guint n_ways)
{
  g_autofree char *name = row_name (row), *spread = deviations (row, n_ways);
  double y = panel->top - (i + 0.5) * height;

  for (guint w = 0; w < n_ways; w++)
    if (row->way[w] != NULL)
      append_mark (data, row->way[w], i + 0.12 + 0.76 * (w + 0.5) / n_ways, w);
  ps_gnuplot_append_label (data->right, panel->left - 8, y, name, PS_CALIBRATION_TEXT);
  ps_gnuplot_append_label (data->texts, panel->right + 12, y, spread, PS_CALIBRATION_TEXT);
}

/* Draws the marks of the ways above the panel, from right to left, so that the caption has room. */
static void
append_key (PsCalibrationData *data, const PsPanel *panel, const GPtrArray *ways)
{
  double x = panel->right, y = panel->top + KEY;

  for (guint w = ways->len; w > 0; w--)
    {
      const PsCalibrationWay *way = ways->pdata[w - 1];

      x -= panel->letter * (double)g_utf8_strlen (way->name, -1);
      ps_gnuplot_append_label (data->texts, x, y, way->name, PS_CALIBRATION_TEXT);
      g_string_append_printf (data->marks, "%g %g %u %u\n", x - 10, y, ps_plot_series_mark (w - 1),
                              PS_CALIBRATION_FAINT);
      x -= 28;
    }
  ps_gnuplot_append_label (data->texts, panel->right + 12, y, "MAD / median", PS_CALIBRATION_FAINT);
}

void
ps_calibration_append_ops (PsCalibrationData *data, const PsPanel *panel, const GPtrArray *ways)
{
  g_autoptr (GPtrArray) rows = collect_rows (ways);
  PsPlotRange range = find_range (rows, ways->len);
  double height = (panel->top - panel->bottom) / rows->len;

  for (guint i = 0; i < rows->len; i++)
    append_row (data, panel, rows->pdata[i], i, height, ways->len);
  append_key (data, panel, ways);
  g_string_append_printf (data->script, "n_rows = %u\n", rows->len);
  ps_plot_append_time_ticks (data->script, "op", &range,
                             ps_plot_most_ticks (panel->right - panel->left, panel->letter));
}

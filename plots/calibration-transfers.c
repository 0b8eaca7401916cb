/* calibration-transfers.c - messages against their size, and the line fitted to each way of sending. */
#include "calibration-private.h"

#include "series.h"
#include "ticks.h"

#include <pipesim/fit.h>

#include <math.h>

#define FIT_STEPS 160
#define LINE 16    /* from text to text */
#define SHIFT 1.05 /* of one way's points against those of the next, so that both show */

typedef struct
{
  double smallest_bytes;
  double largest_bytes;
  double smallest_ns;
  double largest_ns;
} Extent;

static double
at_least_one (gint64 value)
{
  return (double)MAX (value, 1);
}

static Extent
find_extent (const GPtrArray *ways)
{
  Extent extent = { INFINITY, 0, INFINITY, 0 };

  for (guint w = 0; w < ways->len; w++)
    {
      const GPtrArray *rows = ((const PsCalibrationWay *)ways->pdata[w])->rows;

      for (guint i = 0; i < rows->len; i++)
        {
          const PsMeasurement *m = rows->pdata[i];

          extent.smallest_bytes = MIN (extent.smallest_bytes, at_least_one (m->bytes));
          extent.largest_bytes = MAX (extent.largest_bytes, at_least_one (m->bytes));
          extent.smallest_ns = MIN (extent.smallest_ns, at_least_one (m->time.min_ns));
          extent.largest_ns = MAX (extent.largest_ns, at_least_one (m->time.q3_ns));
        }
    }
  return extent;
}

static void
append_points (PsCalibrationData *data, const PsCalibrationWay *way, guint w)
{
  guint32 colour = ps_plot_series_colour (w);

  for (guint i = 0; i < way->rows->len; i++)
    {
      const PsMeasurement *m = way->rows->pdata[i];
      double x = at_least_one (m->bytes) * pow (SHIFT, w), low = at_least_one (m->time.q1_ns);

      g_string_append_printf (data->points, "%.9g %.9g %u %u\n", x, at_least_one (m->time.median_ns),
                              ps_plot_series_mark (w), colour);
      g_string_append_printf (data->bars, "%.9g %.9g 0 %.9g %u\n", x, low, at_least_one (m->time.q3_ns) - low,
                              ps_plot_tint (colour));
      g_string_append_printf (data->least, "%.9g %.9g %u\n", x, at_least_one (m->time.min_ns), colour);
    }
}

/* Fits a line to a way's measurements; FALSE: too few sizes. */
static gboolean
fit_way (const PsCalibrationWay *way, PsTransferFit *fit)
{
  g_autofree gint64 *bytes = g_new (gint64, way->rows->len), *ns = g_new (gint64, way->rows->len);

  for (guint i = 0; i < way->rows->len; i++)
    {
      const PsMeasurement *m = way->rows->pdata[i];

      bytes[i] = m->bytes;
      ns[i] = MAX (m->time.median_ns, 1);
    }
  if (way->rows->len < 2)
    return FALSE;
  ps_transfer_fit (bytes, ns, way->rows->len, fit);
  return TRUE;
}

static void
append_line (GString *script, const PsTransferFit *fit, const PsCalibrationWay *way, guint n)
{
  const PsMeasurement *first = way->rows->pdata[0], *last = way->rows->pdata[way->rows->len - 1];
  double from = at_least_one (first->bytes), to = at_least_one (last->bytes);

  g_string_append_printf (script, "$fit%u << EOD\n", n);
  for (guint i = 0; i <= FIT_STEPS; i++)
    {
      double bytes = from * pow (to / from, (double)i / FIT_STEPS);

      g_string_append_printf (script, "%.9g %.9g\n", bytes, MAX (ps_transfer_fit_at (fit, bytes), 1));
    }
  g_string_append (script, "EOD\n");
}

/* Appends the result of a fit, line by line below the way's name; returns the place of the next line. */
static double
append_fit_texts (GString *texts, const PsTransferFit *fit, double x, double y)
{
  g_autofree char *text = ps_transfer_fit_to_text (fit);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (guint i = 0; lines[i] != NULL; i++, y -= LINE)
    ps_gnuplot_append_label (texts, x, y, lines[i], PS_CALIBRATION_FAINT);
  return y;
}

void
ps_calibration_append_transfers (PsCalibrationData *data, const PsPanel *panel, const GPtrArray *ways)
{
  Extent extent = find_extent (ways);
  const PsPlotRange sizes = { extent.smallest_bytes / 1.6, extent.largest_bytes * 1.6 * pow (SHIFT, ways->len), TRUE };
  const PsPlotRange times = ps_plot_range (extent.smallest_ns, extent.largest_ns);
  double x = panel->right + 30, y = panel->top - 6;
  guint n_fits = 0;

  g_string_append_printf (data->script, "array fit_colour[%u]\n", ways->len);
  for (guint w = 0; w < ways->len; w++)
    {
      const PsCalibrationWay *way = ways->pdata[w];
      guint32 colour = ps_plot_series_colour (w);
      PsTransferFit fit;

      append_points (data, way, w);
      g_string_append_printf (data->marks, "%g %g %u %u\n", x - 10, y, ps_plot_series_mark (w), colour);
      ps_gnuplot_append_label (data->texts, x, y, way->name, PS_CALIBRATION_TEXT);
      y -= LINE;
      if (fit_way (way, &fit))
        {
          append_line (data->script, &fit, way, ++n_fits);
          g_string_append_printf (data->script, "fit_colour[%u] = %u\n", n_fits, colour);
          y = append_fit_texts (data->texts, &fit, x, y) - 4;
        }
    }
  /* gnuplot has no empty loops: a line far outside stands for none. */
  if (n_fits == 0)
    g_string_append (data->script, "$fit1 << EOD\n-1 -1\nEOD\nfit_colour[1] = 0\n");
  g_string_append_printf (data->script, "n_fits = %u\n", MAX (n_fits, 1));
  ps_plot_append_size_ticks (data->script, "size", &sizes,
                             ps_plot_most_ticks (panel->right - panel->left, panel->letter));
  ps_plot_append_time_ticks (data->script, "time", &times, 12);
}

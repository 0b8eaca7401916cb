/* accuracy-plot.c - lays out predictions against runs, for accuracy.gp to draw. */
#include "accuracy-plot.h"

#include "scale.h"
#include "series.h"

#include <math.h>

/* Layout in pixels. */
#define SIDE 640 /* of the square frame, with its margins */
#define LEFT 84
#define RIGHT 200
#define TOP 44
#define BOTTOM 52

typedef struct
{
  guint n;
  gint64 smallest_ns;
  gint64 largest_ns;
  GArray *errors; /* of gint64: |predicted - measured| / measured in millionths */
} Summary;

static void
summary_add (Summary *summary, const PsRunRecord *run)
{
  double error = fabs ((double)run->predicted_iteration_ns / (double)run->measured_iteration_ns - 1);
  gint64 millionths = (gint64)llround (MIN (error, 1e6) * 1e6);

  summary->smallest_ns = MIN (summary->smallest_ns, MIN (run->predicted_iteration_ns, run->measured_iteration_ns));
  summary->largest_ns = MAX (summary->largest_ns, MAX (run->predicted_iteration_ns, run->measured_iteration_ns));
  summary->n++;
  g_array_append_val (summary->errors, millionths);
}

static void
collect (PsPlotSeriesSet *set, const GPtrArray *runs, Summary *summary)
{
  for (guint i = 0; i < runs->len; i++)
    {
      const PsRunRecord *run = runs->pdata[i];
      g_autofree char *name = g_strdup_printf ("%s on %s", run->schedule, run->device);

      if (run->predicted_iteration_ns <= 0 || run->measured_iteration_ns <= 0)
        continue;
      summary_add (summary, run);
      ps_plot_series_set_add (set, name, run->schedule, (double)run->measured_iteration_ns,
                              (double)run->predicted_iteration_ns);
    }
}

static void
to_unit (PsPlotSeriesSet *set, double unit)
{
  for (guint i = 0; i < set->all->len; i++)
    {
      GArray *points = ((PsPlotSeries *)set->all->pdata[i])->points;

      for (guint k = 0; k < points->len; k++)
        {
          g_array_index (points, PsPlotPoint, k).x /= unit;
          g_array_index (points, PsPlotPoint, k).y /= unit;
        }
    }
}

static void
append_frame (GString *script, const PsPicture *picture, const Summary *summary, const PsPlotUnit *unit, guint width,
              guint height)
{
  gint64 median = ps_median ((gint64 *)(gpointer)summary->errors->data, summary->n);
  g_autofree char *title = g_strdup_printf ("predictions against %u run%s: half of them within %.2f %%", summary->n,
                                            summary->n == 1 ? "" : "s", (double)median / 1e4);
  g_autofree char *x_label = g_strdup_printf ("measured iteration time (%s)", unit->name);
  g_autofree char *y_label = g_strdup_printf ("simulated iteration time (%s)", unit->name);
  gboolean is_log = summary->largest_ns > 8 * summary->smallest_ns;
  double low = (double)summary->smallest_ns, high = (double)summary->largest_ns;
  double air = is_log ? 0 : MAX (high - low, 0.1 * high) * 0.08;

  ps_gnuplot_append_text (script, "title", picture->title != NULL ? picture->title : title);
  ps_gnuplot_append_text (script, "x_label", x_label);
  ps_gnuplot_append_text (script, "y_label", y_label);
  ps_gnuplot_append_number (script, "width", width);
  ps_gnuplot_append_number (script, "height", height);
  ps_gnuplot_append_number (script, "left", LEFT);
  ps_gnuplot_append_number (script, "right", width - RIGHT);
  ps_gnuplot_append_number (script, "bottom", BOTTOM);
  ps_gnuplot_append_number (script, "top", height - TOP);
  ps_gnuplot_append_number (script, "low", (is_log ? low / 1.3 : low - air) / unit->size);
  ps_gnuplot_append_number (script, "high", (is_log ? high * 1.3 : high + air) / unit->size);
  g_string_append_printf (script, "is_log = %d\n", is_log);
}

static gboolean
check (const PsPlotSeriesSet *set, const char *path, GError **error)
{
  if (set->all->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no real run with its prediction; pipesim exec --db stores them",
                      path);
  return TRUE;
}

gboolean
ps_accuracy_plot (const PsPicture *picture, const char *path, PsCostDb *db, GError **error)
{
  g_autoptr (GPtrArray) runs = ps_costdb_runs (db, error);
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr (GString) script = g_string_new (NULL);
  g_auto (PsPlotSeriesSet) set = { 0 };
  Summary summary = { .smallest_ns = G_MAXINT64, .errors = errors };
  guint width = picture->width > 0 ? picture->width : SIDE - TOP - BOTTOM + LEFT + RIGHT;
  guint height = picture->height > 0 ? picture->height : SIDE;

  if (runs == NULL)
    return FALSE;
  ps_plot_series_set_init (&set);
  collect (&set, runs, &summary);
  if (!check (&set, path, error))
    return FALSE;
  PsPlotUnit unit = ps_plot_time_unit (summary.largest_ns);
  to_unit (&set, unit.size);
  append_frame (script, picture, &summary, &unit, width, height);
  ps_plot_series_set_append (&set, script);
  g_autofree double *at = g_new (double, set.all->len);
  for (guint i = 0; i < set.all->len; i++)
    at[i] = height - TOP;
  ps_plot_append_names (script, &set, at, width - RIGHT, BOTTOM, height - TOP, FALSE);
  return ps_gnuplot_draw (picture, width, height, script->str, "accuracy.gp", error);
}

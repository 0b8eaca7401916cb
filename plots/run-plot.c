/* run-plot.c - pictures of real runs: predictions against them, and their losses. */
#include "plots.h"

#include <math.h>
#include <string.h>

/* Predictions against runs. A frame about as high as it is wide, and room for the names right of it. */
#define ACCURACY_WIDTH 828
#define ACCURACY_HEIGHT 640

gboolean
ps_accuracy_plot (const PsPicture *picture, const char *path, PsCostDb *db, GError **error)
{
  g_autoptr (GPtrArray) runs = ps_costdb_runs (db, error), all = ps_plot_series_new ();
  g_autoptr (GArray) millionths = g_array_new (FALSE, FALSE, sizeof (gint64)); /* |predicted - measured| / measured */
  g_autoptr (GString) script = g_string_new (NULL);
  gint64 longest_ns = 0;

  for (guint i = 0; runs != NULL && i < runs->len; i++)
    {
      const PsRunRecord *run = runs->pdata[i];
      gint64 predicted_ns = run->predicted_iteration_ns, measured_ns = run->measured_iteration_ns;
      g_autofree char *name = g_strdup_printf ("%s on %s", run->schedule, run->device);

      if (predicted_ns <= 0 || measured_ns <= 0)
        continue;
      double deviation = fabs ((double)predicted_ns / (double)measured_ns - 1);
      g_array_append_val (millionths, ((gint64){ llround (MIN (deviation, 1e6) * 1e6) }));
      longest_ns = MAX (longest_ns, MAX (predicted_ns, measured_ns));
      ps_plot_series_add (all, name, run->schedule, (double)measured_ns, (double)predicted_ns, NULL);
    }
  if (runs == NULL)
    return FALSE;
  if (all->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no real run with its prediction; pipesim exec --db stores them",
                      path);
  PsPlotUnit unit = ps_plot_time_unit (longest_ns);
  gint64 median = ps_median ((gint64 *)(gpointer)millionths->data, millionths->len);
  g_autofree char *title = g_strdup_printf ("predictions against %u run%s: half of them within %.2f %%",
                                            millionths->len, millionths->len == 1 ? "" : "s", (double)median / 1e4);
  g_autofree char *x_label = g_strdup_printf ("measured iteration time (%s)", unit.name);
  g_autofree char *y_label = g_strdup_printf ("simulated iteration time (%s)", unit.name);
  ps_gnuplot_append_text (script, "x_label", x_label);
  ps_gnuplot_append_text (script, "y_label", y_label);
  ps_plot_series_append (all, "series", unit.size, unit.size, script);
  return ps_gnuplot_draw (picture, title, ACCURACY_WIDTH, ACCURACY_HEIGHT, script->str, "accuracy.gp", error);
}

/* Losses. */
#define LOSS_WIDTH 720
#define LOSS_HEIGHT 400

/* The place of a column in the first line; -1: it has none of that name. */
static int
find_column (char *const *head, const char *name)
{
  for (int i = 0; head[i] != NULL; i++)
    if (g_str_equal (head[i], name))
      return i;
  return -1;
}

static gboolean
read_number (char *const *cells, int column, double *value)
{
  char *end;

  if ((guint)column >= g_strv_length ((char **)cells))
    return FALSE;
  *value = g_ascii_strtod (cells[column], &end);
  return end != cells[column] && *end == '\0' && fabs (*value) < 1e15;
}

/* Adds the lines of a file, whose end a killed run may have left without a line end. */
static gboolean
add_file (GPtrArray *all, const char *path, GError **error)
{
  g_autofree char *text = NULL, *name = g_path_get_basename (path);

  if (!ps_read_file (path, &text, NULL, error))
    return FALSE;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1), head = g_strsplit (lines[0] != NULL ? lines[0] : "", ",", -1);
  int step = find_column (head, "step"), loss = find_column (head, "loss");
  if (step < 0 || loss < 0)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s:1: has no columns 'step' and 'loss'; pipesim exec --losses writes them", path);
  for (guint i = 1; lines[i] != NULL && *lines[i] != '\0'; i++)
    {
      g_auto (GStrv) cells = g_strsplit (lines[i], ",", -1);
      double x, y;

      if (!read_number (cells, step, &x) || !read_number (cells, loss, &y))
        return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: step or loss is no number", path, i + 1);
      ps_plot_series_add (all, name, NULL, x, y, NULL);
    }
  return TRUE;
}

gboolean
ps_loss_plot (const PsPicture *picture, char *const *paths, guint n, GError **error)
{
  g_autoptr (GPtrArray) all = ps_plot_series_new ();
  g_autoptr (GString) script = g_string_new (NULL);

  for (guint i = 0; i < n; i++)
    if (!add_file (all, paths[i], error))
      return FALSE;
  if (all->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: no step has ended", paths[0]);
  ps_plot_series_append (all, "series", 1, 1, script);
  return ps_gnuplot_draw (picture, "measured loss of each step", LOSS_WIDTH, LOSS_HEIGHT, script->str, "loss.gp",
                          error);
}

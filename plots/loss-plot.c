/* loss-plot.c - reads files of losses and lays their lines out, for loss.gp to draw. */
#include "loss-plot.h"

#include "series.h"

#include <stdlib.h>
#include <math.h>

/* Layout in pixels. */
#define WIDTH 720
#define HEIGHT 400
#define LEFT 64
#define TOP 44
#define BOTTOM 52

typedef struct
{
  double last_step;
  double smallest;
  double largest;
} Range;

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
add_lines (PsPlotSeriesSet *set, const char *path, char *const *lines, Range *range, GError **error)
{
  g_auto (GStrv) head = g_strsplit (lines[0] != NULL ? lines[0] : "", ",", -1);
  int step = find_column (head, "step"), loss = find_column (head, "loss");
  g_autofree char *name = g_path_get_basename (path);

  if (step < 0 || loss < 0)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s:1: has no columns 'step' and 'loss'; pipesim exec --losses writes them", path);
  for (guint i = 1; lines[i] != NULL && *lines[i] != '\0'; i++)
    {
      g_auto (GStrv) cells = g_strsplit (lines[i], ",", -1);
      double x, y;

      if (!read_number (cells, step, &x) || !read_number (cells, loss, &y))
        return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: step or loss is no number", path, i + 1);
      ps_plot_series_set_add (set, name, NULL, x, y);
      *range = (Range){ MAX (range->last_step, x), MIN (range->smallest, y), MAX (range->largest, y) };
    }
  return TRUE;
}

static gboolean
read_file (PsPlotSeriesSet *set, const char *path, Range *range, GError **error)
{
  g_autofree char *text = NULL;

  if (!ps_read_file (path, &text, NULL, error))
    return FALSE;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  return add_lines (set, path, lines, range, error);
}

static void
append_frame (GString *script, const PsPicture *picture, guint width, guint height, double right, double last,
              double low, double high)
{
  ps_gnuplot_append_text (script, "title", picture->title != NULL ? picture->title : "measured loss of each step");
  ps_gnuplot_append_number (script, "width", width);
  ps_gnuplot_append_number (script, "height", height);
  ps_gnuplot_append_number (script, "left", LEFT);
  ps_gnuplot_append_number (script, "right", right);
  ps_gnuplot_append_number (script, "bottom", BOTTOM);
  ps_gnuplot_append_number (script, "top", height - TOP);
  ps_gnuplot_append_number (script, "last", MAX (last, 1));
  ps_gnuplot_append_number (script, "low", low);
  ps_gnuplot_append_number (script, "high", high);
}

gboolean
ps_loss_plot (const PsPicture *picture, char *const *paths, guint n, GError **error)
{
  g_auto (PsPlotSeriesSet) set = { 0 };
  g_autoptr (GString) script = g_string_new (NULL);
  double at[PS_LOSS_MAX_FILES], right;
  Range range = { .smallest = INFINITY, .largest = -INFINITY };
  guint width = picture->width > 0 ? picture->width : WIDTH, height = picture->height > 0 ? picture->height : HEIGHT;

  ps_plot_series_set_init (&set);
  for (guint i = 0; i < n; i++)
    if (!read_file (&set, paths[i], &range, error))
      return FALSE;
  if (set.all->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: no step has ended", paths[0]);
  const double air = MAX (0.05 * (range.largest - range.smallest), 1e-3);
  const double low = range.smallest - air, high = range.largest + air;
  right = width - ps_plot_names_width (&set, picture);
  append_frame (script, picture, width, height, right, range.last_step, low, high);
  ps_plot_series_set_append (&set, script);
  for (guint i = 0; i < set.all->len; i++)
    {
      const GArray *points = ((const PsPlotSeries *)set.all->pdata[i])->points;
      const double end = g_array_index (points, PsPlotPoint, points->len - 1).y;

      at[i] = BOTTOM + (end - low) / (high - low) * (height - TOP - BOTTOM);
    }
  ps_plot_append_names (script, &set, at, right, BOTTOM, height - TOP, TRUE);
  return ps_gnuplot_draw (picture, width, height, script->str, "loss.gp", error);
}

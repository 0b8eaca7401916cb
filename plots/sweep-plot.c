/* sweep-plot.c - lays out the lines and fronts of a sweep, for sweep.gp to draw. */
#include "sweep-plot.h"

#include "scale.h"
#include "series.h"
#include "sweep-rows.h"

#include <math.h>
#include <string.h>

/* Layout in pixels. */
#define WIDTH 1000
#define HEIGHT 560
#define LEFT 84
#define TOP 44
#define BOTTOM 52
#define MAX_TICKS 14
#define MAX_FRONTS 6

typedef struct
{
  guint width;
  guint height;
  double right;
  double bottom;
  double top;
  gboolean log_x;
  gboolean log_y;
  double x_low;
  double x_high;
  double y_low;
  double y_high;
} Layout;

/* The different x of all series, ascending. */
static GArray *
distinct_x (const PsPlotSeriesSet *set)
{
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (double));
  guint n = 0;

  for (guint i = 0; i < set->all->len; i++)
    {
      const PsPlotSeries *series = set->all->pdata[i];

      for (guint k = 0; k < series->points->len; k++)
        g_array_append_val (all, g_array_index (series->points, PsPlotPoint, k).x);
    }
  ps_plot_sort_numbers (all);
  for (guint i = 0; i < all->len; i++)
    if (i == 0 || g_array_index (all, double, i) > g_array_index (all, double, n - 1))
      g_array_index (all, double, n++) = g_array_index (all, double, i);
  g_array_set_size (all, n);
  return g_steal_pointer (&all);
}

/* An axis is logarithmic as the user asked, else as it reads better. */
static gboolean
wants_log (const PsSweepPicture *what, char letter, const PsPlotAxis *axis, const char *field)
{
  if (what->log == NULL)
    return ps_plot_axis_crowds (axis, field);
  return axis->smallest > 0 && strchr (what->log, letter) != NULL && !g_str_equal (what->log, "none");
}

static void
layout_frame (Layout *layout, GString *script, const PsPicture *picture, const PsSweepRows *rows,
              const PsPlotSeriesSet *set)
{
  layout->width = picture->width > 0 ? picture->width : WIDTH;
  layout->height = picture->height > 0 ? picture->height : MAX (HEIGHT, TOP + BOTTOM + 16 * set->all->len);
  layout->top = layout->height
                - ps_plot_append_about (script, rows->scope->about, picture, LEFT, layout->width, layout->height);
  layout->right = MAX (layout->width - ps_plot_names_width (set, picture), LEFT + 40);
  layout->bottom = BOTTOM;
  layout->top -= TOP;
}

/* Widens [low, high] by some air, also if both are equal. */
static void
widen (double *low, double *high, gboolean is_log, double part)
{
  double air = (*high - *low) * part, factor = pow (*high / *low, part);

  if (is_log && factor > 1)
    {
      *low /= factor;
      *high *= factor;
      return;
    }
  if (air <= 0 && *high == 0)
    {
      *high = 1;
      return;
    }
  if (air <= 0)
    air = fabs (*high) * 0.05;
  *low -= air;
  *high += air;
}

/* The part of the way from low to high at which a value lies. */
static double
part_of (double value, double low, double high, gboolean is_log)
{
  return is_log ? log (value / low) / log (high / low) : (value - low) / (high - low);
}

static double
place_x (const Layout *layout, double x)
{
  return LEFT + part_of (x, layout->x_low, layout->x_high, layout->log_x) * (layout->right - LEFT);
}

static double
place_y (const Layout *layout, double y)
{
  return layout->bottom + part_of (y, layout->y_low, layout->y_high, layout->log_y) * (layout->top - layout->bottom);
}

static void
append_frame (GString *script, const Layout *layout, const char *title, const char *x_label, const char *y_label)
{
  ps_gnuplot_append_text (script, "title", title);
  ps_gnuplot_append_text (script, "x_label", x_label);
  ps_gnuplot_append_text (script, "y_label", y_label);
  ps_gnuplot_append_number (script, "width", layout->width);
  ps_gnuplot_append_number (script, "height", layout->height);
  ps_gnuplot_append_number (script, "left", LEFT);
  ps_gnuplot_append_number (script, "right", layout->right);
  ps_gnuplot_append_number (script, "bottom", layout->bottom);
  ps_gnuplot_append_number (script, "top", layout->top);
  ps_gnuplot_append_number (script, "x_low", layout->x_low);
  ps_gnuplot_append_number (script, "x_high", layout->x_high);
  ps_gnuplot_append_number (script, "y_low", layout->y_low);
  ps_gnuplot_append_number (script, "y_high", layout->y_high);
  g_string_append_printf (script, "x_log = %d\ny_log = %d\n", layout->log_x, layout->log_y);
}

static void
append_ticks (GString *script, const GArray *x)
{
  guint n = x->len <= MAX_TICKS ? x->len : 0;

  g_string_append_printf (script, "n_ticks = %u\narray tick[%u]\n", n, MAX (n, 1));
  for (guint i = 0; i < n; i++)
    {
      g_autofree char *name = g_strdup_printf ("tick[%u]", i + 1);

      ps_gnuplot_append_number (script, name, g_array_index (x, double, i));
    }
}

static gboolean
check_series (const PsPlotSeriesSet *set, const PsSweepRows *rows, const char *field, GError **error)
{
  g_autofree char *apart = ps_sweep_rows_apart (rows);

  if (set->all->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "sweep: no setting is left to draw; fewer --where, or other columns");
  if (set->all->len > PS_PLOT_MAX_SERIES)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--series: '%s'%s%s has %u values, a picture shows %d; narrow with --where", field,
                      *apart ? " with " : "", apart, set->all->len, PS_PLOT_MAX_SERIES);
  return TRUE;
}

/* Columns of rows: series, x, y. Rows without x or y are left out. `apart`: what is held apart has series of its own.
 */
static void
collect (PsPlotSeriesSet *set, const PsSweepRows *rows, const char *series, gboolean apart, const PsPlotAxis *x,
         const PsPlotAxis *y)
{
  for (guint row = 0; row < rows->values->n_rows; row++)
    {
      const PsValue *cells = ps_sweep_rows_at (rows, row);
      double at = ps_plot_value_number (&cells[1]), value = ps_plot_value_number (&cells[2]);
      g_autofree char *text = series != NULL ? ps_result_value_text (series, &cells[0]) : g_strdup ("");
      g_autoptr (GString) name = g_string_new (text);

      if (apart)
        ps_sweep_rows_append_apart (rows, row, name);
      if (!isnan (at) && !isnan (value))
        ps_plot_series_set_add (set, name->str, g_strcmp0 (series, "schedule") == 0 ? text : NULL, at / x->unit,
                                value / y->unit);
    }
}

/* Lays out lines. An axis whose values do not spread much begins at 0. */
static void
layout_lines (Layout *layout, const PsSweepPicture *what, const PsPlotAxis *x, const PsPlotAxis *y)
{
  layout->x_low = x->smallest;
  layout->x_high = x->largest;
  layout->log_x = wants_log (what, 'x', x, what->x);
  layout->log_y = wants_log (what, 'y', y, what->y);
  layout->y_low = layout->log_y ? y->smallest : MIN (y->smallest, 0);
  layout->y_high = y->largest > layout->y_low ? y->largest : layout->y_low + 1;
  widen (&layout->x_low, &layout->x_high, layout->log_x, 0.01);
  if (layout->log_y)
    widen (&layout->y_low, &layout->y_high, TRUE, 0.04);
  else
    layout->y_high += (layout->y_high - layout->y_low) * 0.04;
}

/* Appends the name of each line beside its end; a line that ends early is named at the height of its last point. */
static void
append_line_names (GString *script, const Layout *layout, const PsPlotSeriesSet *set)
{
  g_autofree double *at = g_new (double, set->all->len);

  for (guint i = 0; i < set->all->len; i++)
    {
      const GArray *points = ((const PsPlotSeries *)set->all->pdata[i])->points;

      at[i] = place_y (layout, g_array_index (points, PsPlotPoint, points->len - 1).y);
    }
  ps_plot_append_names (script, set, at, layout->right, layout->bottom, layout->top, TRUE);
}

static char *
line_title (const PsSweepPicture *what)
{
  g_autofree char *x = ps_plot_field_name (what->x), *y = ps_plot_field_name (what->y);
  g_autofree char *series = what->series != NULL ? ps_plot_field_name (what->series) : NULL;

  return g_strdup_printf ("simulated %s against %s%s%s", y, x, series != NULL ? ", by " : "",
                          series != NULL ? series : "");
}

gboolean
ps_sweep_plot (const PsPicture *picture, PsResults *results, const PsSweepPicture *what, GError **error)
{
  const char *series = what->series != NULL ? what->series : what->x;
  const char *columns[] = { series, what->x, what->y, NULL }, *per[] = { series, what->x, "devices", NULL };
  PsQuestion question = what->question;
  g_auto (PsSweepRows) rows = { 0 };
  g_autoptr (GString) script = g_string_new (NULL);
  g_auto (PsPlotAxis) x = { 0 }, y = { 0 };
  g_auto (PsPlotSeriesSet) set = { 0 };
  g_autofree char *title = NULL;
  Layout layout = { 0 };

  question.per = (char **)per;
  if (!ps_sweep_rows_read (&rows, results, &question, columns, error))
    return FALSE;
  ps_plot_axis_init (&x, what->x, rows.values, 1);
  ps_plot_axis_init (&y, what->y, rows.values, 2);
  ps_plot_series_set_init (&set);
  collect (&set, &rows, what->series, TRUE, &x, &y);
  if (!check_series (&set, &rows, series, error))
    return FALSE;
  g_autoptr (GArray) distinct = distinct_x (&set);
  layout_frame (&layout, script, picture, &rows, &set);
  layout_lines (&layout, what, &x, &y);
  title = picture->title != NULL ? g_strdup (picture->title) : line_title (what);
  append_frame (script, &layout, title, x.label, y.label);
  append_ticks (script, distinct);
  g_string_append (script, "with_lines = 1\n");
  ps_plot_series_set_append (&set, script);
  append_line_names (script, &layout, &set);
  g_string_append_printf (script, "with_leaders = %d\n", set.all->len > 1 && !picture->terminal);
  return ps_gnuplot_draw (picture, layout.width, layout.height, script->str, "sweep.gp", error);
}

/* Fronts */

typedef struct
{
  gint64 devices;
  char *front; /* "4 devices", and what else is held apart */
  double memory;
  double time;
} Place;

static void
place_clear (gpointer place)
{
  g_free (((Place *)place)->front);
}

static int
compare_places (gconstpointer a, gconstpointer b)
{
  const Place *x = a, *y = b;

  if (x->devices != y->devices)
    return x->devices < y->devices ? -1 : 1;
  if (!g_str_equal (x->front, y->front))
    return strcmp (x->front, y->front);
  if (x->memory < y->memory || x->memory > y->memory)
    return x->memory < y->memory ? -1 : 1;
  return x->time < y->time ? -1 : x->time > y->time;
}

/* Collects columns of rows: series, memory, time, devices. Sorted by front, memory and time. */
static GArray *
collect_places (const PsSweepRows *rows, const PsPlotAxis *x, const PsPlotAxis *y)
{
  GArray *places = g_array_new (FALSE, FALSE, sizeof (Place));

  g_array_set_clear_func (places, place_clear);
  for (guint row = 0; row < rows->values->n_rows; row++)
    {
      const PsValue *cells = ps_sweep_rows_at (rows, row);
      GString *front = g_string_new (NULL);
      Place place = { .devices = cells[3].integer,
                      .memory = ps_plot_value_number (&cells[1]) / x->unit,
                      .time = ps_plot_value_number (&cells[2]) / y->unit };

      g_string_printf (front, "%" G_GINT64_FORMAT " devices", place.devices);
      ps_sweep_rows_append_apart (rows, row, front);
      place.front = g_string_free (front, FALSE);
      g_array_append_val (places, place);
    }
  g_array_sort (places, compare_places);
  return places;
}

/* The name of a front, in pixels. */
typedef struct
{
  double x;
  double y;
  double width;
} Name;

static gboolean
is_free (const Name *name, const GArray *placed, double step)
{
  for (guint i = 0; i < placed->len; i++)
    {
      const Name *other = &g_array_index (placed, Name, i);

      if (fabs (other->y - name->y) < step && other->x < name->x + name->width && name->x < other->x + other->width)
        return FALSE;
    }
  return TRUE;
}

/* Places a name above the first place of its front, or as near to there as other names let it. */
static void
append_front_name (GString *names, GArray *placed, const Layout *layout, const PsPicture *picture, const Place *place)
{
  double step = picture->terminal ? PS_TERMINAL_ROW : 13, above = place_y (layout, place->time) + 8, below = above - 16;
  Name name = { place_x (layout, place->memory) + 5, above,
                ps_picture_letter (picture) * (double)(strlen (place->front) + 1) };

  for (guint k = 0; k <= 2 * placed->len && (name.y > layout->top || !is_free (&name, placed, step)); k++)
    name.y = k % 2 ? above + (k + 1) / 2 * step : below - k / 2 * step;
  g_array_append_val (placed, name);
  ps_gnuplot_append_label (names, name.x, name.y, place->front, 0);
}

/* Appends each front, through the places that are faster than all with less memory. Returns the number of fronts. */
static guint
append_fronts (GString *script, const Layout *layout, const PsPicture *picture, const GArray *places)
{
  g_autoptr (GArray) placed = g_array_new (FALSE, FALSE, sizeof (Name));
  g_autoptr (GString) names = g_string_new ("$front_names << EOD\n");
  const Place *best = NULL;
  guint n = 0;

  for (guint i = 0; i < places->len; i++)
    {
      const Place *place = &g_array_index (places, Place, i);
      gboolean first = best == NULL || !g_str_equal (best->front, place->front);

      if (!first && place->time >= best->time)
        continue;
      if (first)
        {
          g_string_append_printf (script, "%s$front%u << EOD\n", n ? "EOD\n" : "", n + 1);
          append_front_name (names, placed, layout, picture, place);
          n++;
        }
      g_string_append_printf (script, "%.9g %.9g\n", place->memory, place->time);
      best = place;
    }
  g_string_append_printf (script, "EOD\nn_fronts = %u\n%sEOD\n", n, names->str);
  return n;
}

static void
layout_pareto (Layout *layout, const PsSweepPicture *what, const PsPlotAxis *x, const PsPlotAxis *y)
{
  layout->x_low = x->smallest;
  layout->x_high = x->largest;
  layout->y_low = y->smallest;
  layout->y_high = y->largest;
  layout->log_x = wants_log (what, 'x', x, "peak_memory_bytes");
  layout->log_y = wants_log (what, 'y', y, what->question.by);
  widen (&layout->x_low, &layout->x_high, layout->log_x, 0.06);
  widen (&layout->y_low, &layout->y_high, layout->log_y, 0.06);
}

static gboolean
refuse_fronts (const PsSweepRows *rows, guint n, GError **error)
{
  g_autofree char *apart = ps_sweep_rows_apart (rows);

  return ps_refuse (error, PS_ERROR_USAGE, "--pareto: p, %s make %u fronts, a picture shows %d; narrow with --where",
                    apart, n, MAX_FRONTS);
}

gboolean
ps_pareto_plot (const PsPicture *picture, PsResults *results, const PsSweepPicture *what, GError **error)
{
  const char *series = what->series != NULL ? what->series : "schedule", *time = what->question.by;
  const char *columns[] = { series, "peak_memory_bytes", time, "devices", NULL };
  const char *per[] = { series, "devices", "peak_memory_bytes", NULL };
  PsQuestion question = what->question;
  g_auto (PsSweepRows) rows = { 0 };
  g_autoptr (GString) script = g_string_new (NULL);
  g_auto (PsPlotAxis) x = { 0 }, y = { 0 };
  g_auto (PsPlotSeriesSet) set = { 0 };
  Layout layout = { 0 };

  question.per = (char **)per;
  if (!ps_sweep_rows_read (&rows, results, &question, columns, error))
    return FALSE;
  ps_plot_axis_init (&x, "peak_memory_bytes", rows.values, 1);
  ps_plot_axis_init (&y, time, rows.values, 2);
  ps_plot_series_set_init (&set);
  collect (&set, &rows, series, FALSE, &x, &y);
  if (!check_series (&set, &rows, series, error))
    return FALSE;
  layout_frame (&layout, script, picture, &rows, &set);
  layout_pareto (&layout, what, &x, &y);
  g_autoptr (GArray) places = collect_places (&rows, &x, &y);
  g_autofree double *at = g_new (double, set.all->len);
  for (guint i = 0; i < set.all->len; i++)
    at[i] = layout.top;
  append_frame (script, &layout,
                picture->title != NULL ? picture->title : "simulated time against peak memory, and the front", x.label,
                y.label);
  g_string_append (script, "with_lines = 0\nn_ticks = 0\n");
  ps_plot_series_set_append (&set, script);
  guint n_fronts = append_fronts (script, &layout, picture, places);
  if (n_fronts > MAX_FRONTS)
    return refuse_fronts (&rows, n_fronts, error);
  ps_plot_append_names (script, &set, at, layout.right, layout.bottom, layout.top, FALSE);
  return ps_gnuplot_draw (picture, layout.width, layout.height, script->str, "sweep.gp", error);
}

/* plots.c - parts shared by all pictures: the start of their programs, units, colours, marks and series. */
#include "plots.h"

#include <pipesim/schedule.h>
#include <pipesim/formats.h>

#include <locale.h>
#include <math.h>

int ps_plot_program (const char *name, gboolean (*run) (int argc, char **argv, GError **error), int argc, char **argv)
{
  g_autoptr (GError) error = NULL;

  ps_log_to_stderr ();
  ps_catch_signals ();
  /* Names may hold any character; numbers keep their decimal point. */
  setlocale (LC_CTYPE, "");
  g_set_prgname (name);
  if (run (argc, argv, &error))
    return 0;
  return ps_error_report (name, error, argv);
}

PsTimeline *ps_plot_load (const char *path, GError **error)
{
  PsTimeline *timeline = ps_timeline_load (path, error);

  if (timeline != NULL && timeline->remark != NULL)
    g_printerr ("%s: %s\n", g_get_prgname (), timeline->remark);
  return timeline;
}

PsPlotUnit ps_plot_time_unit (gint64 longest_ns)
{
  if (longest_ns < 10 * 1000)
    return (PsPlotUnit){ "us", 1e3 };
  if (longest_ns > G_GINT64_CONSTANT (100) * 1000 * 1000 * 1000)
    return (PsPlotUnit){ "s", 1e9 };
  return (PsPlotUnit){ "ms", 1e6 };
}

PsPlotUnit ps_plot_size_unit (gint64 largest_bytes)
{
  static const PsPlotUnit units[] = {
    { "B", 1 }, { "KiB", 1024 }, { "MiB", 1048576 }, { "GiB", 1073741824 }, { "TiB", 1099511627776 },
  };
  guint unit = 0;

  while (unit + 1 < G_N_ELEMENTS (units) && (double)largest_bytes >= 2 * units[unit + 1].size)
    unit++;
  return units[unit];
}

/* a at part = 0, b at part = 1, channel by channel. */
#define N_FORMS 5 /* of marks */

static guint32 mix_colours (guint32 a, guint32 b, double part)
{
  guint32 colour = 0;

  for (int shift = 16; shift >= 0; shift -= 8) {
    double from = (a >> shift) & 0xff, to = (b >> shift) & 0xff;

    colour |= (guint32)lround (from + (to - from) * part) << shift;
  }
  return colour;
}

guint32 ps_plot_op_colour (PsOpKind kind, guint chunk, guint n_chunks)
{
  static const guint32 hues[PS_N_OP_KINDS] = {
    [PS_OP_F] = 0x0072b2,  [PS_OP_B] = 0x009e73, [PS_OP_W] = 0xe69f00,
    [PS_OP_BW] = 0xd55e00, [PS_OP_R] = 0xcc79a7, [PS_OP_O] = 0x666666,
  };

  return mix_colours (hues[kind], 0xffffff, n_chunks > 1 ? 0.62 * chunk / (n_chunks - 1) : 0);
}

guint32 ps_plot_series_colour (guint series)
{
  static const guint32 colours[PS_PLOT_N_COLOURS]
      = { 0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9, 0x333333 };

  return colours[series % PS_PLOT_N_COLOURS];
}

guint ps_plot_series_mark (guint series)
{
  static const guint marks[2 * N_FORMS] = { 7, 5, 9, 11, 13, 6, 4, 8, 10, 12 }; /* filled, then empty */

  return marks[series % G_N_ELEMENTS (marks)];
}

/* The number of a schedule in all pictures: its place in the catalogue. A file's own schedule has one after those, by
 * its name. */
static guint schedule_number (const char *name)
{
  guint n, i = 0;
  const PsFamily *const *families = ps_family_table (&n);

  while (i < n && !g_str_equal (families[i]->name, name))
    i++;
  return i < n ? i : n + g_str_hash (name) % 47;
}

/* The plain colours, then darker ones, then paler ones, then the darkest. */
guint32 ps_plot_schedule_colour (const char *name)
{
  static const struct {
    guint32 with;
    double part;
  } shades[] = { { 0x000000, 0 }, { 0x000000, 0.4 }, { 0xffffff, 0.35 }, { 0x000000, 0.65 } };
  guint number = schedule_number (name), shade = number / PS_PLOT_N_COLOURS % G_N_ELEMENTS (shades);

  return mix_colours (ps_plot_series_colour (number), shades[shade].with, shades[shade].part);
}

static void point_clear (gpointer point)
{
  g_free (((PsPlotPoint *)point)->hover);
}

static void series_free (gpointer data)
{
  PsPlotSeries *series = data;

  g_free (series->name);
  g_free (series->schedule);
  g_array_unref (series->points);
  g_free (series);
}

GPtrArray *ps_plot_series_new (void)
{
  return g_ptr_array_new_with_free_func (series_free);
}

/* Families differ in the form of their mark or in their colour: 5 and 7 have no common divisor. A second series of a
 * schedule has another dash, and its mark empty for filled. */
static PsPlotSeries *add_series (GPtrArray *all, const char *name, const char *schedule)
{
  PsPlotSeries *series = g_new0 (PsPlotSeries, 1);
  guint number = schedule != NULL ? schedule_number (schedule) : all->len, before = 0;

  for (guint i = 0; schedule != NULL && i < all->len; i++)
    before += g_strcmp0 (((const PsPlotSeries *)all->pdata[i])->schedule, schedule) == 0;
  series->name = g_strdup (name);
  series->schedule = g_strdup (schedule);
  series->points = g_array_new (FALSE, FALSE, sizeof (PsPlotPoint));
  g_array_set_clear_func (series->points, point_clear);
  series->mark = ps_plot_series_mark ((schedule != NULL ? number % N_FORMS : number) + N_FORMS * before);
  series->dash = 1 + (schedule != NULL ? before : number / PS_PLOT_N_COLOURS);
  series->colour = schedule != NULL ? ps_plot_schedule_colour (schedule) : ps_plot_series_colour (number);
  g_ptr_array_add (all, series);
  return series;
}

void ps_plot_series_add (GPtrArray *all, const char *name, const char *schedule, double x, double y, char *hover)
{
  PsPlotPoint point = { x, y, hover };
  guint i = 0;

  while (i < all->len && !g_str_equal (((const PsPlotSeries *)all->pdata[i])->name, name))
    i++;
  PsPlotSeries *series = i < all->len ? all->pdata[i] : add_series (all, name, schedule);
  g_array_append_val (series->points, point);
}

void ps_plot_series_append (const GPtrArray *all, const char *name, double x_unit, double y_unit, GString *script)
{
  static const char *const arrays[] = { "name", "colour", "dash", "mark" };
  g_autofree char *names = g_strconcat (name, "_name", NULL);
  g_autoptr (GString) points = g_string_new (NULL);

  g_string_append_printf (script, "n_%s = %u\n", name, all->len);
  for (guint i = 0; i < G_N_ELEMENTS (arrays); i++) {
    g_autofree char *array = g_strconcat (name, "_", arrays[i], NULL);

    ps_gnuplot_append_array (script, array, all->len);
  }
  for (guint i = 0; i < all->len; i++) {
    const PsPlotSeries *series = all->pdata[i];

    ps_gnuplot_append_element (script, names, i + 1, series->name);
    g_string_append_printf (script, "%s_colour[%u] = %u\n%s_dash[%u] = %u\n%s_mark[%u] = %u\n", name, i + 1,
                            series->colour, name, i + 1, series->dash, name, i + 1, series->mark);
    for (guint k = 0; k < series->points->len; k++) {
      const PsPlotPoint *point = &g_array_index (series->points, PsPlotPoint, k);
      g_autofree char *hover = g_uri_escape_string (point->hover != NULL ? point->hover : "", " ,:;", TRUE);

      g_string_append_printf (points, "%.9g %.9g ", point->x / x_unit, point->y / y_unit);
      ps_gnuplot_append_quoted (points, hover);
      g_string_append_c (points, '\n');
    }
    g_string_append (points, "\n\n");
  }
  g_string_append_printf (script, "$%s << EOD\n%sEOD\n", name, points->str);
}

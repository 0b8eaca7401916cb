/* series.c - points in named series and their names. */
#include "series.h"

#define NAME_STEP 16 /* pixels from name to name: a row of a terminal */
#define LEADER 26    /* length of the line from a series' end to its sample */
#define SAMPLE 26    /* length of the piece of a series' line before its name */
#define NO_NAMES 30  /* right margin if there are no names */
#define OUTSIDE (-1000)
#define ABOUT_STEP 14 /* pixels from line to line below the title */
#define MARK 10       /* from the middle of a mark to its name */

static void
series_free (PsPlotSeries *series)
{
  g_free (series->name);
  g_free (series->schedule);
  g_array_unref (series->points);
  g_free (series);
}

void
ps_plot_series_set_init (PsPlotSeriesSet *set)
{
  set->all = g_ptr_array_new_with_free_func ((GDestroyNotify)series_free);
  set->by_name = g_hash_table_new (g_str_hash, g_str_equal);
}

void
ps_plot_series_set_clear (PsPlotSeriesSet *set)
{
  g_clear_pointer (&set->by_name, g_hash_table_unref);
  g_clear_pointer (&set->all, g_ptr_array_unref);
}

/* A second series of a schedule has another dash, and its mark empty for filled. */
static PsPlotSeries *
series_new (const PsPlotSeriesSet *set, const char *name, const char *schedule)
{
  PsPlotSeries *series = g_new0 (PsPlotSeries, 1);
  guint number = schedule != NULL ? ps_plot_schedule_number (schedule) : set->all->len, before = 0;

  for (guint i = 0; schedule != NULL && i < set->all->len; i++)
    before += g_strcmp0 (((const PsPlotSeries *)set->all->pdata[i])->schedule, schedule) == 0;
  series->name = g_strdup (name);
  series->schedule = g_strdup (schedule);
  series->points = g_array_new (FALSE, FALSE, sizeof (PsPlotPoint));
  series->mark = ps_plot_series_mark (number + 5 * before);
  series->dash = 1 + (schedule != NULL ? before : number / PS_PLOT_N_COLOURS);
  series->colour = schedule != NULL ? ps_plot_schedule_colour (number) : ps_plot_series_colour (number);
  return series;
}

void
ps_plot_series_set_add (PsPlotSeriesSet *set, const char *name, const char *schedule, double x, double y)
{
  PsPlotSeries *series = g_hash_table_lookup (set->by_name, name);
  PsPlotPoint point = { x, y };

  if (series == NULL)
    {
      series = series_new (set, name, schedule);
      g_ptr_array_add (set->all, series);
      g_hash_table_insert (set->by_name, series->name, series);
    }
  g_array_append_val (series->points, point);
}

guint
ps_plot_series_mark (guint series)
{
  static const guint marks[] = { 7, 5, 9, 11, 13, 6, 4, 8, 10, 12 }; /* filled first, then empty */

  return marks[series % G_N_ELEMENTS (marks)];
}

void
ps_plot_series_set_append (const PsPlotSeriesSet *set, GString *script)
{
  g_string_append_printf (script, "n_series = %u\narray colour[%u]\narray dash[%u]\narray mark[%u]\n", set->all->len,
                          set->all->len, set->all->len, set->all->len);
  for (guint i = 0; i < set->all->len; i++)
    {
      const PsPlotSeries *series = set->all->pdata[i];

      g_string_append_printf (script, "colour[%u] = %u\ndash[%u] = %u\nmark[%u] = %u\n$series%u << EOD\n", i + 1,
                              series->colour, i + 1, series->dash, i + 1, series->mark, i + 1);
      for (guint k = 0; k < series->points->len; k++)
        {
          const PsPlotPoint *point = &g_array_index (series->points, PsPlotPoint, k);

          g_string_append_printf (script, "%.9g %.9g\n", point->x, point->y);
        }
      g_string_append (script, "EOD\n");
    }
}

static int
compare_heights (gconstpointer a, gconstpointer b, gpointer data)
{
  const double *heights = data;
  guint i = *(const guint *)a, k = *(const guint *)b;

  return heights[i] != heights[k] ? (heights[i] > heights[k] ? -1 : 1) : (i > k) - (i < k); /* the highest first */
}

/* Moves heights (pixels, one per name) apart until they are at least `step` from each other, keeping their order. They
 * stay in [bottom, top] if they fit, and as near to their places as possible. */
static void
spread (double *heights, guint n, double bottom, double top, double step)
{
  g_autofree guint *order = g_new (guint, n + 1);

  for (guint i = 0; i < n; i++)
    order[i] = i;
  qsort_r (order, n, sizeof *order, compare_heights, heights);
  for (guint i = 0; i < n; i++)
    heights[order[i]] = MIN (heights[order[i]], i > 0 ? heights[order[i - 1]] - step : top);
  for (guint i = n; i > 0; i--)
    heights[order[i - 1]] = MAX (heights[order[i - 1]], i < n ? heights[order[i]] + step : bottom);
}

/* Appends a piece of each line as it is drawn; a blank line between two pieces lets gnuplot tell them apart. */
static void
append_samples (GString *script, const double *heights, guint n, double x)
{
  g_string_append (script, "$samples << EOD\n");
  for (guint i = 0; i < n; i++)
    g_string_append_printf (script, "%.1f %.1f\n%.1f %.1f\n\n", x, heights[i], x + SAMPLE, heights[i]);
  g_string_append (script, "EOD\n");
}

/* A leader outside the picture keeps the block from being empty. */
static void
append_leaders (GString *script, const PsPlotSeriesSet *set, const double *at, const double *heights, double x)
{
  g_string_append (script, "$leaders << EOD\n-100 -100 1 1 0\n");
  for (guint i = 0; i < set->all->len; i++)
    g_string_append_printf (script, "%.1f %.1f %d %.1f %u\n", x, at[i], LEADER, heights[i] - at[i],
                            ((const PsPlotSeries *)set->all->pdata[i])->colour);
  g_string_append (script, "EOD\n");
}

void
ps_plot_append_names (GString *script, const PsPlotSeriesSet *set, const double *at, double x, double bottom,
                      double top, gboolean lines)
{
  guint n = set->all->len;
  g_autofree double *heights = g_memdup2 (at, n * sizeof *at);
  double sample = x + 4 + LEADER, name = lines ? sample + SAMPLE + 6 : x + 20 + MARK;

  spread (heights, n, bottom, top, MIN (NAME_STEP, (top - bottom) / MAX (n, 2)));
  if (n == 1 && *((const PsPlotSeries *)set->all->pdata[0])->name == '\0')
    heights[0] = OUTSIDE;
  g_string_append (script, "$names << EOD\n");
  for (guint i = 0; i < n; i++)
    {
      const PsPlotSeries *series = set->all->pdata[i];

      g_string_append_printf (script, "%.1f %.1f ", name, heights[i]);
      ps_gnuplot_append_quoted (script, series->name);
      g_string_append_printf (script, " %u %u %.1f\n", series->colour, series->mark,
                              lines ? sample + SAMPLE / 2 : name - MARK);
    }
  g_string_append (script, "EOD\n");
  if (!lines)
    return;
  append_samples (script, heights, n, sample);
  append_leaders (script, set, at, heights, x + 4);
}

double
ps_plot_names_width (const PsPlotSeriesSet *set, const PsPicture *picture)
{
  glong longest = 0;

  for (guint i = 0; i < set->all->len; i++)
    longest = MAX (longest, g_utf8_strlen (((const PsPlotSeries *)set->all->pdata[i])->name, -1));
  if (longest == 0)
    return NO_NAMES;
  return CLAMP (4 + LEADER + SAMPLE + 6 + ps_picture_letter (picture) * (double)longest + 10, 160, 400);
}

guint
ps_plot_append_about (GString *script, const char *about, const PsPicture *picture, guint left, guint width,
                      guint height)
{
  guint row = picture->terminal ? PS_TERMINAL_ROW : ABOUT_STEP, n = 0;
  gsize room = (gsize)MAX ((width - left) / ps_picture_letter (picture), 20);
  g_auto (GStrv) words = g_strsplit (about, " ", -1);
  g_autoptr (GString) line = g_string_new (NULL);

  g_string_append (script, "$about << EOD\n-100 -100 \"\" 0\n"); /* a label outside keeps the block from being empty */
  for (guint i = 0; words[i] != NULL; i++)
    {
      g_string_append_printf (line, "%s%s", line->len ? " " : "", words[i]);
      if (words[i + 1] != NULL && line->len + 1 + strlen (words[i + 1]) <= room)
        continue;
      ps_gnuplot_append_label (script, left, (double)height - 20 - ++n * row, line->str, 0x555555);
      g_string_truncate (line, 0);
    }
  g_string_append (script, "EOD\n");
  return n * row;
}

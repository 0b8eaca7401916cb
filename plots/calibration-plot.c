/* calibration-plot.c - lays out the panels of a profile, for calibration.gp to draw. */
#include "calibration-plot.h"
#include "gnuplot.h"
#include "scale.h"
#include "series.h"

#include <pipesim/cluster.h>
#include <pipesim/costdb.h>

#include <math.h>
#include <string.h>

/* Measurements taken in one way: with the same number of busy devices and of sharers of the accelerator, and the same
 * caches. */
typedef struct
{
  char *name;      /* "2 busy", "alone, cold" */
  GPtrArray *rows; /* of PsMeasurement, not owned, as the profile has them */
} PsCalibrationWay;

/* A part of the picture, in pixels from its lower left corner. */
typedef struct
{
  double left;
  double right;
  double top;
  double bottom;
  double letter; /* width of a letter */
} PsPanel;

/* Output of a panel. Texts are in pixels, all else is in the panel's axes. */
typedef struct
{
  GString *script; /* everything else */
  GString *points; /* x y pointtype colour */
  GString *bars;   /* x y dx dy colour: from quartile to quartile */
  GString *least;  /* x y colour */
  GString *texts;  /* x y "text" colour */
  GString *right;  /* the same, ending at x */
  GString *marks;  /* x y pointtype colour, in pixels */
} PsCalibrationData;

#define PS_CALIBRATION_TEXT 0x333333

#define PS_CALIBRATION_FAINT 0x666666

typedef struct
{
  double low; /* ends of the axis, in ns or bytes */
  double high;
  gboolean is_log;
} PsPlotRange;

/* Axes whose ticks are named one by one. */

#define AIR 0.05 /* of the axis, at each end */
#define TICK_LETTERS 8

/* A range around values from smallest to largest (> 0), with some air. It is logarithmic if they differ by more than a
 * factor of eight, else it begins at 0. */
static PsPlotRange
plot_range (double smallest, double largest)
{
  double factor = pow (largest / smallest, AIR);

  if (largest > 8 * smallest)
    return (PsPlotRange){ smallest / factor, largest * factor, TRUE };
  return (PsPlotRange){ 0, largest * (1 + AIR), FALSE };
}

/* How many named ticks fit along an axis; its length and the width of a letter are in pixels. */
static guint
plot_most_ticks (double length, double letter)
{
  return (guint)MAX (length / (TICK_LETTERS * letter), 2);
}

static void
append_axis_frame (GString *script, const char *name, const PsPlotRange *range)
{
  g_autofree char *low = g_strconcat ("low_", name, NULL), *high = g_strconcat ("high_", name, NULL);

  ps_gnuplot_append_number (script, low, range->low);
  ps_gnuplot_append_number (script, high, range->high);
  g_string_append_printf (script, "log_%s = %d\n", name, range->is_log);
}

typedef char *(*Format) (gint64 value);

static void
append_ticks (GString *script, const char *name, const GArray *at, Format format)
{
  g_string_append_printf (script, "n_%s = %u\narray tick_%s[%u]\narray text_%s[%u]\n", name, at->len, name,
                          MAX (at->len, 1), name, MAX (at->len, 1));
  for (guint i = 0; i < at->len; i++)
    {
      double value = g_array_index (at, double, i);
      g_autofree char *tick = g_strdup_printf ("tick_%s[%u]", name, i + 1);
      g_autofree char *text = g_strdup_printf ("text_%s[%u]", name, i + 1);
      g_autofree char *formatted = format (llround (value));

      ps_gnuplot_append_number (script, tick, value);
      ps_gnuplot_append_text (script, text, formatted);
    }
}

/* Ticks at 1, 2 and 5 times powers of ten; at the powers alone if those are too many, at more digits if they are
 * few. */
static void
collect_log (GArray *at, const PsPlotRange *range, guint most)
{
  static const double few[] = { 1, 1.5, 2, 3, 4, 5, 6, 8 }, usual[] = { 1, 2, 5 };
  double ratio = range->high / range->low;
  gboolean is_short = ratio < 20;
  gboolean is_long = log10 (ratio) * G_N_ELEMENTS (usual) > most;
  const double *digits = is_short ? few : usual;
  guint n_digits = is_short ? G_N_ELEMENTS (few) : is_long ? 1 : G_N_ELEMENTS (usual);

  for (int power = (int)floor (log10 (range->low)); power <= log10 (range->high); power++)
    for (guint i = 0; i < n_digits; i++)
      {
        double value = pow (10, power) * digits[i];

        if (value >= MAX (range->low, 1) && value <= range->high)
          g_array_append_val (at, value);
      }
}

static void
collect_linear (GArray *at, const PsPlotRange *range, guint most)
{
  double step = MAX (1, ps_plot_tick_step (range->high - range->low, most));

  for (guint i = 0; i * step <= range->high; i++)
    {
      double value = i * step;

      g_array_append_val (at, value);
    }
}

/* Appends low_NAME, high_NAME, log_NAME, n_NAME and the arrays tick_NAME and text_NAME of a time axis; about `most`
 * ticks. */
static void
plot_append_time_ticks (GString *script, const char *name, const PsPlotRange *range, guint most)
{
  g_autoptr (GArray) at = g_array_new (FALSE, FALSE, sizeof (double));

  if (range->is_log)
    collect_log (at, range, most);
  else
    collect_linear (at, range, most);
  append_axis_frame (script, name, range);
  append_ticks (script, name, at, ps_format_time);
}

/* Appends the same for a logarithmic axis of sizes: ticks at powers of eight, or of 64 if those would be more than
 * `most`. */
static void
plot_append_size_ticks (GString *script, const char *name, const PsPlotRange *range, guint most)
{
  g_autoptr (GArray) at = g_array_new (FALSE, FALSE, sizeof (double));
  guint bits = log2 (range->high / range->low) / 3 > most ? 6 : 3;

  for (guint i = 0; i <= log2 (range->high); i += bits)
    {
      double value = exp2 (i);

      if (value >= range->low)
        g_array_append_val (at, value);
    }
  append_axis_frame (script, name, range);
  append_ticks (script, name, at, ps_format_size);
}

/* The ops of a profile, one row for each kind and stage shape. */

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

/* The height that the panel of the ops needs, and the width that their names need left of it. */
static double
calibration_ops_height (const GPtrArray *ways, gboolean terminal)
{
  g_autoptr (GPtrArray) rows = collect_rows (ways);

  return rows->len * (terminal ? (double)PS_TERMINAL_ROW * ways->len : MAX (ROW, MARK_STEP * ways->len + 3));
}

static double
calibration_ops_left (const GPtrArray *ways, double letter)
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
  return plot_range (smallest, largest);
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

static void
calibration_append_ops (PsCalibrationData *data, const PsPanel *panel, const GPtrArray *ways)
{
  g_autoptr (GPtrArray) rows = collect_rows (ways);
  PsPlotRange range = find_range (rows, ways->len);
  double height = (panel->top - panel->bottom) / rows->len;

  for (guint i = 0; i < rows->len; i++)
    append_row (data, panel, rows->pdata[i], i, height, ways->len);
  append_key (data, panel, ways);
  g_string_append_printf (data->script, "n_rows = %u\n", rows->len);
  plot_append_time_ticks (data->script, "op", &range, plot_most_ticks (panel->right - panel->left, panel->letter));
}

/* Messages against their size, and the line fitted to each way of sending. */

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

static void
calibration_append_transfers (PsCalibrationData *data, const PsPanel *panel, const GPtrArray *ways)
{
  Extent extent = find_extent (ways);
  const PsPlotRange sizes = { extent.smallest_bytes / 1.6, extent.largest_bytes * 1.6 * pow (SHIFT, ways->len), TRUE };
  const PsPlotRange times = plot_range (extent.smallest_ns, extent.largest_ns);
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
  plot_append_size_ticks (data->script, "size", &sizes, plot_most_ticks (panel->right - panel->left, panel->letter));
  plot_append_time_ticks (data->script, "time", &times, 12);
}

/* Layout in pixels. */
#define WIDTH 1000
#define RIGHT 216 /* room for fits, and for the spread of ops */
#define TOP 62    /* title, and where and how the profile was measured */
#define CAPTION 28
#define AXIS 46 /* ticks and their label */
#define TRANSFERS 330

static void
way_free (gpointer data)
{
  PsCalibrationWay *way = data;

  g_free (way->name);
  g_ptr_array_unref (way->rows);
  g_free (way);
}

static char *
way_name (const PsMeasurement *m)
{
  GString *name = g_string_new (NULL);

  if (m->subject == PS_SUBJECT_SELF_SEND)
    g_string_append_printf (name, "%s, launching only", m->shape);
  else if (m->devices == 1)
    g_string_append (name, "alone");
  else
    g_string_append_printf (name, "%u busy", m->devices);
  if (m->subject == PS_SUBJECT_TRANSFER && *m->shape != '\0')
    g_string_append_printf (name, ", %s", m->shape);
  if (m->subject == PS_SUBJECT_ALL_REDUCE)
    g_string_append (name, ", all-reduce");
  if (m->sharing > 1)
    g_string_append_printf (name, ", %u sharing", m->sharing);
  if (m->share > 0)
    g_string_append_printf (name, ", share %u", m->share);
  if (m->subject == PS_SUBJECT_OP && m->cache != PS_CACHE_RUN)
    g_string_append_printf (name, ", %s", ps_cache_state_name (m->cache));
  return g_string_free (name, FALSE);
}

static PsCalibrationWay *
find_way (GPtrArray *ways, const char *name)
{
  PsCalibrationWay *way;

  for (guint i = 0; i < ways->len; i++)
    {
      way = ways->pdata[i];
      if (g_str_equal (way->name, name))
        return way;
    }
  way = g_new0 (PsCalibrationWay, 1);
  way->name = g_strdup (name);
  way->rows = g_ptr_array_new ();
  g_ptr_array_add (ways, way);
  return way;
}

/* The ways in which messages (ops: FALSE), or ops, were measured, of PsCalibrationWay. Pairs and the host's times are
 * neither. */
static GPtrArray *
find_ways (const PsProfileContents *contents, gboolean ops)
{
  const guint kinds = ops ? 1U << PS_SUBJECT_OP
                          : 1U << PS_SUBJECT_TRANSFER | 1U << PS_SUBJECT_SELF_SEND | 1U << PS_SUBJECT_ALL_REDUCE;
  GPtrArray *ways = g_ptr_array_new_with_free_func (way_free);

  for (guint i = 0; i < contents->measurements->len; i++)
    {
      PsMeasurement *m = contents->measurements->pdata[i];
      g_autofree char *name = way_name (m);

      if (kinds & 1U << m->subject)
        g_ptr_array_add (find_way (ways, name)->rows, m);
    }
  return ways;
}

static void
data_init (PsCalibrationData *data)
{
  *data = (PsCalibrationData){ .script = g_string_new (NULL),
                               .points = g_string_new (NULL),
                               .bars = g_string_new (NULL),
                               .least = g_string_new (NULL),
                               .texts = g_string_new (NULL),
                               .right = g_string_new (NULL),
                               .marks = g_string_new (NULL) };
}

static void
data_clear (PsCalibrationData *data)
{
  GString **all[]
      = { &data->script, &data->points, &data->bars, &data->least, &data->texts, &data->right, &data->marks };

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    if (*all[i] != NULL)
      g_string_free (g_steal_pointer (all[i]), TRUE);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsCalibrationData, data_clear)

/* "$NAME << EOD"; one point far outside keeps a block from being empty. */
static void
append_block (GString *script, const char *panel, const char *name, const char *outside, GString *rows)
{
  g_string_append_printf (script, "$%s%s << EOD\n%s\n%sEOD\n", panel, name, outside, rows->str);
  g_string_truncate (rows, 0);
}

/* Appends everything that a panel has in its own axes. */
static void
append_panel (PsCalibrationData *data, const char *panel, const PsPanel *place)
{
  g_autofree char *top = g_strconcat (panel, "_top", NULL), *bottom = g_strconcat (panel, "_bottom", NULL);

  append_block (data->script, panel, "_points", "-1 -1 1 0", data->points);
  append_block (data->script, panel, "_bars", "-1 -1 0 0 0", data->bars);
  append_block (data->script, panel, "_least", "-1 -1 0", data->least);
  ps_gnuplot_append_number (data->script, top, place->top);
  ps_gnuplot_append_number (data->script, bottom, place->bottom);
}

/* Heights of the panels, 0 for one with nothing to show. */
typedef struct
{
  guint width;
  guint height;
  double transfers;
  double ops;
} Layout;

static double
fixed_height (gboolean shown)
{
  return shown ? CAPTION + AXIS : 0;
}

/* Sets the heights. Height beyond the need of the ops goes to the transfers, or to the ops if there are no transfers.
 * In a terminal the picture is as high as it needs to be. */
static void
layout_init (Layout *layout, const PsPicture *picture, const GPtrArray *transfers, const GPtrArray *ops)
{
  double fixed = TOP + fixed_height (transfers->len > 0) + fixed_height (ops->len > 0);
  double wanted = picture->terminal ? 0 : picture->height;

  layout->width = picture->width > 0 ? picture->width : WIDTH;
  layout->transfers = transfers->len > 0 ? TRANSFERS : 0;
  layout->ops = ops->len > 0 ? calibration_ops_height (ops, picture->terminal) : 0;
  if (wanted > 0)
    {
      double part = MAX (wanted - fixed, 40) / (layout->transfers + layout->ops);

      layout->transfers *= part;
      layout->ops *= part;
    }
  layout->height = wanted > 0 ? picture->height : (guint)(fixed + layout->transfers + layout->ops);
}

static void
append_frame (PsCalibrationData *data, const PsPicture *picture, const PsProfile *profile, const Layout *layout,
              const PsPanel *place)
{
  g_autofree char *title = g_strdup_printf ("measured: profile '%s', %s over %s, %s", profile->name, profile->device,
                                            profile->transport, profile->model_name);
  gboolean known = *profile->host != '\0';
  g_autofree char *machine = g_strdup_printf ("%s%s%s%sfrom %.10s on", profile->host, known ? ", " : "",
                                              profile->processor, known ? ", " : "", profile->created);

  ps_gnuplot_append_text (data->script, "title", picture->title != NULL ? picture->title : title);
  ps_gnuplot_append_label (data->texts, place->left, layout->height - 40.0, machine, PS_CALIBRATION_FAINT);
  ps_gnuplot_append_number (data->script, "width", layout->width);
  ps_gnuplot_append_number (data->script, "height", layout->height);
  ps_gnuplot_append_number (data->script, "left", place->left);
  ps_gnuplot_append_number (data->script, "right", place->right);
}

static void
append_transfers (PsCalibrationData *data, PsPanel place, const GPtrArray *ways)
{
  g_string_append_printf (data->script, "has_transfers = %d\n", ways->len > 0);
  if (ways->len == 0)
    return;
  ps_gnuplot_append_label (data->texts, place.left, place.top + 10,
                           "messages: median, quartiles and least; a fitted line (predictions interpolate)",
                           PS_CALIBRATION_TEXT);
  calibration_append_transfers (data, &place, ways);
  append_panel (data, "transfers", &place);
}

static void
append_ops (PsCalibrationData *data, PsPanel place, const GPtrArray *ways)
{
  g_string_append_printf (data->script, "has_ops = %d\n", ways->len > 0);
  if (ways->len == 0)
    return;
  ps_gnuplot_append_label (data->texts, place.left, place.top + 10, "ops", PS_CALIBRATION_TEXT);
  calibration_append_ops (data, &place, ways);
  append_panel (data, "ops", &place);
}

gboolean
ps_calibration_plot (const PsPicture *picture, const char *where, const PsProfileContents *contents, GError **error)
{
  g_autoptr (GPtrArray) transfers = find_ways (contents, FALSE);
  g_autoptr (GPtrArray) ops = find_ways (contents, TRUE);
  g_auto (PsCalibrationData) data = { 0 };
  Layout layout = { 0 };

  if (transfers->len + ops->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' holds no measurement", where, contents->profile->name);
  data_init (&data);
  layout_init (&layout, picture, transfers, ops);
  PsPanel place = { .left = calibration_ops_left (ops, ps_picture_letter (picture)),
                    .right = layout.width - RIGHT,
                    .letter = ps_picture_letter (picture) };
  append_frame (&data, picture, contents->profile, &layout, &place);
  place.top = layout.height - TOP - CAPTION;
  place.bottom = place.top - layout.transfers;
  append_transfers (&data, place, transfers);
  place.top = transfers->len > 0 ? place.bottom - AXIS - CAPTION : place.top;
  place.bottom = place.top - layout.ops;
  append_ops (&data, place, ops);
  append_block (data.script, "", "texts", "-100 -100 \"\" 0", data.texts);
  append_block (data.script, "", "right_texts", "-100 -100 \"\" 0", data.right);
  append_block (data.script, "", "marks", "-100 -100 1 0", data.marks);
  return ps_gnuplot_draw (picture, layout.width, layout.height, data.script->str, "calibration.gp", error);
}

/* timeline-plot.c - lays out a timeline picture in pixels, for timeline.gp to draw. */
#include "timeline-plot.h"
#include "gnuplot.h"
#include "scale.h"

#include <pipesim/timeline.h>

#include <math.h>
#include <string.h>
#include <glib.h>

/* Many thin boxes as pieces of a few broad lines. */

typedef struct
{
  guint32 colour;
  double width;
  double left; /* the latest piece, which may still grow; NaN: none yet */
  double right;
  double y;
  GString *rows;
} Stroke;

struct _PsPlotStrokes
{
  GPtrArray *all; /* of Stroke */
  guint begin;    /* first of the lines that pieces are added to */
};

static void
stroke_free (gpointer data)
{
  g_string_free (((Stroke *)data)->rows, TRUE);
  g_free (data);
}

PsPlotStrokes *
ps_plot_strokes_new (void)
{
  PsPlotStrokes *strokes = g_new0 (PsPlotStrokes, 1);

  strokes->all = g_ptr_array_new_with_free_func (stroke_free);
  return strokes;
}

void
ps_plot_strokes_free (PsPlotStrokes *strokes)
{
  if (strokes == NULL)
    return;
  g_ptr_array_unref (strokes->all);
  g_free (strokes);
}

/* Finds the line to add to. There is one for each op kind, chunk and way to share a row; most pieces go to the line
 * used last. */
static Stroke *
find (PsPlotStrokes *strokes, guint32 colour, double width)
{
  Stroke *stroke;

  for (guint i = strokes->begin; i < strokes->all->len; i++)
    {
      stroke = strokes->all->pdata[i];
      if (stroke->colour == colour && stroke->width == width)
        return stroke;
    }
  stroke = g_new0 (Stroke, 1);
  *stroke = (Stroke){ .colour = colour, .width = width, .left = NAN, .rows = g_string_new (NULL) };
  g_ptr_array_add (strokes->all, stroke);
  return stroke;
}

static void
append_piece (GString *rows, const Stroke *stroke)
{
  if (!isnan (stroke->left))
    g_string_append_printf (rows, "%.9g %g\n%.9g %g\n\n", stroke->left, stroke->y, stroke->right, stroke->y);
}

/* Adds a box from left to right around y, with `width` pixels of height. Boxes of one colour that touch become one
 * piece. Boxes of one row come from left to right. */
static void
plot_strokes_add (PsPlotStrokes *strokes, guint32 colour, double left, double right, double y, double width)
{
  Stroke *stroke = find (strokes, colour, width);

  if (isnan (stroke->left) || stroke->y != y || stroke->right != left)
    {
      append_piece (stroke->rows, stroke);
      stroke->left = left;
      stroke->y = y;
    }
  stroke->right = right;
}

/* Begins new lines for the next panel. */
static void
plot_strokes_begin (PsPlotStrokes *strokes)
{
  strokes->begin = strokes->all->len;
}

/* The number of lines so far. */
static guint
plot_strokes_n (const PsPlotStrokes *strokes)
{
  return strokes->all->len;
}

void
ps_plot_strokes_append (const PsPlotStrokes *strokes, GString *script)
{
  guint n = strokes->all->len;

  g_string_append_printf (script, "array stroke_colour[%u]\narray stroke_width[%u]\n", MAX (n, 1), MAX (n, 1));
  for (guint i = 0; i < n; i++)
    {
      const Stroke *stroke = strokes->all->pdata[i];
      g_autofree char *width = g_strdup_printf ("stroke_width[%u]", i + 1);

      g_string_append_printf (script, "stroke_colour[%u] = %u\n$strokes%u << EOD\n%s", i + 1, stroke->colour, i + 1,
                              stroke->rows->str);
      append_piece (script, stroke);
      g_string_append (script, "EOD\n");
      ps_gnuplot_append_number (script, width, stroke->width);
    }
}

/* Sums of colours over columns. */

#define N_CHANNELS 3
#define SHADES 16 /* shades per channel */

typedef struct
{
  double covered; /* part of the column that boxes cover */
  double sum[N_CHANNELS];
} Column;

struct _PsPlotMix
{
  guint n_columns;
  double width;
  guint begin; /* columns that boxes touch: begin .. end - 1 */
  guint end;
  Column *columns;
};

static void
restart (PsPlotMix *mix)
{
  memset (mix->columns, 0, mix->n_columns * sizeof *mix->columns);
  mix->begin = mix->n_columns;
  mix->end = 0;
}

PsPlotMix *
ps_plot_mix_new (guint n_columns, double column)
{
  PsPlotMix *mix = g_new0 (PsPlotMix, 1);

  mix->n_columns = n_columns;
  mix->width = column;
  mix->columns = g_new (Column, n_columns);
  restart (mix);
  return mix;
}

void
ps_plot_mix_free (PsPlotMix *mix)
{
  if (mix == NULL)
    return;
  g_free (mix->columns);
  g_free (mix);
}

void
ps_plot_mix_add (PsPlotMix *mix, guint32 colour, double left, double right)
{
  guint first = (guint)MAX (0, left / mix->width), last = (guint)MAX (0, ceil (right / mix->width));

  for (guint i = first; i < MIN (last, mix->n_columns); i++)
    {
      Column *column = &mix->columns[i];
      double part = (MIN (right, (i + 1) * mix->width) - MAX (left, i * mix->width)) / mix->width;

      if (part <= 0)
        continue;
      column->covered += part;
      for (guint channel = 0; channel < N_CHANNELS; channel++)
        column->sum[channel] += part * (colour >> 8 * channel & 0xff);
      mix->begin = MIN (mix->begin, i);
      mix->end = MAX (mix->end, i + 1);
    }
}

static guint32
column_colour (const Column *column)
{
  double covered = MAX (column->covered, 1);
  guint32 colour = 0;

  for (guint channel = 0; channel < N_CHANNELS; channel++)
    {
      double mean = (column->sum[channel] + (covered - column->covered) * 0xff) / covered;
      guint32 step = (guint32)lround (mean / 0xff * (SHADES - 1));

      colour |= step * 0xff / (SHADES - 1) << 8 * channel;
    }
  return colour;
}

void
ps_plot_mix_flush (PsPlotMix *mix, PsPlotStrokes *strokes, double y, double width)
{
  for (guint i = mix->begin; i < mix->end; i++)
    if (mix->columns[i].covered > 0)
      plot_strokes_add (strokes, column_colour (&mix->columns[i]), i * mix->width, (i + 1) * mix->width, y, width);
  restart (mix);
}

/* Texts of titles and captions, and memory curves, of a timeline; shared by the pictures. */

char *
ps_timeline_caption (const PsTimeline *timeline)
{
  g_auto (PsMetrics) metrics = { 0 };
  g_autofree char *iteration = ps_format_time (timeline->iteration_ns);

  ps_metrics_from_timeline (timeline, &metrics);
  gboolean early = timeline->origin == PS_ORIGIN_SIMULATED && timeline->iteration_ns < metrics.makespan_ns;
  g_autofree char *peak = ps_format_size (metrics.peak_memory_bytes);
  return g_strdup_printf (
      "%s %s: iteration %s, bubble %.1f %% of iteration%s%s%s", ps_origin_name (timeline->origin), timeline->schedule,
      iteration, metrics.bubble_ratio * 100, metrics.peak_memory_bytes > 0 ? ", peak memory " : "",
      metrics.peak_memory_bytes > 0 ? peak : "", early ? "; the next one begins before this one ends" : "");
}

char *
ps_timeline_title (PsTimeline *const *timelines, guint n)
{
  const PsTimeline *first = timelines[0], *last = timelines[n - 1];
  gboolean same = g_str_equal (first->schedule, last->schedule) && first->n_devices == last->n_devices
                  && first->n_stages == last->n_stages && first->n_microbatches == last->n_microbatches;

  if (!same)
    return g_strdup_printf ("%s above %s", first->schedule, last->schedule);
  return g_strdup_printf ("%s: %u devices, %u stages, %u microbatches", first->schedule, first->n_devices,
                          first->n_stages, first->n_microbatches);
}

static void
append_point (GArray *points, guint device, gint64 time_ns, gint64 bytes)
{
  const PsMemoryPoint *last = points->len ? &g_array_index (points, PsMemoryPoint, points->len - 1) : NULL;
  const PsMemoryPoint point = { .time_ns = time_ns, .bytes = bytes, .device = (guint16)device };

  if (last == NULL || last->device != device || last->bytes != bytes)
    g_array_append_val (points, point);
}

/* Memory with one point per grain, its largest, and the level that holds after a grain until the next change. */
static GArray *
coarse_memory (const GArray *memory, gint64 grain_ns)
{
  GArray *coarse = g_array_new (FALSE, FALSE, sizeof (PsMemoryPoint));
  const PsMemoryPoint *points = (const PsMemoryPoint *)(gpointer)memory->data;
  gint64 bytes = 0;

  for (guint i = 0, next; i < memory->len; i = next)
    {
      gint64 begin_ns = points[i].time_ns - points[i].time_ns % grain_ns, end_ns = begin_ns + grain_ns;
      gboolean fresh = i == 0 || points[i - 1].device != points[i].device || points[i].time_ns == begin_ns;
      gint64 largest = fresh ? 0 : bytes;

      for (next = i; next < memory->len && points[next].device == points[i].device && points[next].time_ns < end_ns;)
        {
          bytes = points[next++].bytes;
          largest = MAX (largest, bytes);
        }
      append_point (coarse, points[i].device, begin_ns, largest);
      if (next == memory->len || points[next].device != points[i].device || points[next].time_ns >= end_ns + grain_ns)
        append_point (coarse, points[i].device, end_ns, bytes);
    }
  return coarse;
}

void
ps_timeline_append_memory (GString *script, const PsTimeline *timeline, double x_unit, double y_unit, gint64 end_ns,
                           gint64 grain_ns)
{
  g_autoptr (GArray) memory
      = grain_ns > 0 ? coarse_memory (timeline->memory, grain_ns) : g_array_ref (timeline->memory);
  const PsMemoryPoint *points = (const PsMemoryPoint *)(gpointer)memory->data;

  for (guint i = 0; i < memory->len; i++)
    {
      gboolean last = i + 1 == memory->len || points[i + 1].device != points[i].device;
      gint64 until_ns = last ? end_ns : points[i + 1].time_ns;
      guint32 colour = ps_plot_device_colour (points[i].device, timeline->n_devices);

      for (guint side = 0; side < 2; side++)
        g_string_append_printf (script, "%.9g %.9g %u\n", (double)(side ? until_ns : points[i].time_ns) / x_unit,
                                (double)points[i].bytes / y_unit, colour);
      g_string_append (script, last ? "\n" : "");
    }
}

/* A picture of more ops is coarse: MANY_OPS in SVG, VERY_MANY_OPS elsewhere. */
#define MANY_OPS 4000
#define VERY_MANY_OPS 40000

gboolean
ps_timeline_is_coarse (const PsPicture *picture, const PsTimeline *timeline)
{
  gboolean is_svg = picture->output != NULL && g_str_has_suffix (picture->output, ".svg");

  return timeline->ops->len > (is_svg ? MANY_OPS : VERY_MANY_OPS);
}

gint64
ps_timeline_end (const PsTimeline *timeline)
{
  gint64 end_ns = 1;

  for (guint i = 0; i < timeline->ops->len; i++)
    end_ns = MAX (end_ns, g_array_index (timeline->ops, PsSpan, i).end_ns);
  return end_ns;
}

gint64
ps_timeline_max_memory (const PsTimeline *timeline)
{
  gint64 bytes = 0;

  for (guint i = 0; i < timeline->memory->len; i++)
    bytes = MAX (bytes, g_array_index (timeline->memory, PsMemoryPoint, i).bytes);
  return bytes;
}

static gint64
timeline_min_memory (const PsTimeline *timeline)
{
  gint64 bytes = G_MAXINT64;

  for (guint i = 0; i < timeline->memory->len; i++)
    bytes = MIN (bytes, g_array_index (timeline->memory, PsMemoryPoint, i).bytes);
  return bytes;
}

/* The meaning of paler shades and of letters after numbers in a timeline whose devices have up to n_chunks: "2
 * chunks, later ones lighter", "2 directions, the second lighter", "4 slices of a microbatch: 0a, 0b, ..."; "" for
 * nothing. Free with g_free. */
static char *
timeline_shades (const PsTimeline *timeline, guint n_chunks)
{
  guint n_slices = ps_timeline_n_slices (timeline), own = MAX (timeline->n_stages / timeline->n_devices, 1);
  g_autofree char *slices
      = n_slices > 1 ? g_strdup_printf ("%u slices of a microbatch: 0a, 0b, ...", n_slices) : g_strdup ("");

  if (n_chunks <= 1)
    return g_steal_pointer (&slices);
  return g_strdup_printf ("%u %s%s%s", n_chunks > own ? 2 : n_chunks,
                          n_chunks > own ? "directions, the second lighter" : "chunks, later ones lighter",
                          *slices ? "; " : "", slices);
}

/* Layout in pixels. */
#define WIDTH 1200
#define LEFT 74
#define RIGHT 18
#define TOP 62    /* title and legend */
#define BOTTOM 34 /* numbers and name of the time axis */
#define CAPTION 24
#define STRIP 80    /* memory */
#define STRIP_GAP 7 /* between the rows and their memory strip */
#define BLOCK_GAP 10
#define OUTLINE_WIDTH 5 /* boxes at least this wide get an outline */
#define DIGIT_WIDTH 5.9 /* of the numbers' font */
#define THIN 1          /* boxes below that width are mixed */
#define COLUMN 2        /* width of the columns for thin boxes and of a grain of memory */
#define TRANSFER_GAP 3  /* if transfers begin closer together than this, one is drawn */
#define NUMBER_ROW 11   /* rows lower than this hold no numbers */

typedef struct
{
  guint width;
  guint height;
  double row; /* height of a device's row */
  gint64 end_ns;
  PsPlotUnit time;
  double pixels_per_ns;
  guint digits; /* of the largest microbatch, and one for its slice; boxes with room for them carry numbers */
  gboolean has_slices;
  PsPlotUnit size;
  gint64 max_memory; /* of all panels, on one scale; 0: none knows its memory */
  gint64 min_memory;
} Layout;

/* One timeline's panel. y counts pixels from the picture's lower edge. */
typedef struct
{
  const PsTimeline *timeline;
  guint *n_chunks; /* [n_devices] */
  double rows_top;
  double rows_bottom;
  gint64 max_memory; /* 0: no strip */
  guint n_outlined;
  guint n_numbers;
  guint n_transfers;      /* drawn */
  gboolean is_mixed;      /* of boxes */
  gboolean is_thinned;    /* of transfers */
  PsPlotStrokes *strokes; /* takes thin boxes; NULL: they are boxes like all others */
  guint first_stroke;
  guint last_stroke;
} Panel;

static double
row_height (guint n_devices)
{
  if (n_devices <= 8)
    return 30;
  if (n_devices <= 16)
    return 22;
  return MAX (4, 448.0 / n_devices);
}

static double
panel_extra (const PsTimeline *timeline)
{
  return CAPTION + BLOCK_GAP + (ps_timeline_max_memory (timeline) > 0 ? STRIP_GAP + STRIP : 0);
}

/* Sets the layout. Rows get lower or higher to reach the height that was asked for. */
static void
layout_init (Layout *layout, const PsPicture *picture, PsTimeline *const *timelines, guint n)
{
  double extra = TOP + BOTTOM;
  guint n_rows = 0, most = 0;

  for (guint i = 0; i < n; i++)
    {
      extra += panel_extra (timelines[i]);
      n_rows += timelines[i]->n_devices;
      most = MAX (most, timelines[i]->n_devices);
      layout->end_ns = MAX (layout->end_ns, ps_timeline_end (timelines[i]));
      layout->digits = MAX (layout->digits, (guint)log10 (MAX (1, timelines[i]->n_microbatches - 1)) + 1);
      layout->has_slices |= ps_timeline_n_slices (timelines[i]) > 1;
      layout->max_memory = MAX (layout->max_memory, ps_timeline_max_memory (timelines[i]));
      layout->min_memory = MIN (i ? layout->min_memory : G_MAXINT64, timeline_min_memory (timelines[i]));
    }
  layout->digits += layout->has_slices;
  layout->size = ps_plot_size_unit (layout->max_memory);
  layout->width = picture->width > 0 ? picture->width : WIDTH;
  layout->row = picture->height > 0 ? MAX (1, (picture->height - extra) / n_rows) : row_height (most);
  layout->height = picture->height > 0 ? picture->height : (guint)(extra + layout->row * n_rows);
  layout->time = ps_plot_time_unit (layout->end_ns);
  layout->pixels_per_ns = (layout->width - LEFT - RIGHT) / (double)layout->end_ns;
}

static guint *
count_chunks (const PsTimeline *timeline)
{
  guint *n_chunks = g_new0 (guint, timeline->n_devices);

  for (guint i = 0; i < timeline->ops->len; i++)
    {
      const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

      n_chunks[span->device] = MAX (n_chunks[span->device], span->chunk + 1U);
    }
  return n_chunks;
}

/* A box in the coordinates of its panel: time, and device counted downwards. */
typedef struct
{
  double left;
  double right;
  double top;
  double bottom;
  double pixels; /* width */
  guint32 colour;
} Box;

/* The two ops of a pair share their time: the first takes the upper half of the row. */
static Box
span_box (const Layout *layout, const Panel *panel, const PsSpan *span, gboolean first, gboolean second)
{
  return (Box){ .left = (double)span->start_ns / layout->time.size,
                .right = (double)span->end_ns / layout->time.size,
                .top = span->device - (second ? 0 : 0.46),
                .bottom = span->device + (first ? 0 : 0.46),
                .pixels = (double)(span->end_ns - span->start_ns) * layout->pixels_per_ns,
                .colour = ps_plot_op_colour (span->op.kind, span->chunk, panel->n_chunks[span->device]) };
}

static void
append_box (GString *rows, const Box *box)
{
  g_string_append_printf (rows, "%.9g %g %.9g %.9g %g %g %u\n", (box->left + box->right) / 2,
                          (box->top + box->bottom) / 2, box->left, box->right, box->top, box->bottom, box->colour);
}

static gboolean
number_fits (const Layout *layout, const Box *box)
{
  return box->pixels >= DIGIT_WIDTH * layout->digits + 3 && layout->row * (box->bottom - box->top) >= NUMBER_ROW;
}

static void
append_number (GString *rows, Panel *panel, const Layout *layout, const PsSpan *span, const Box *box)
{
  if (span->op.kind == PS_OP_O || !number_fits (layout, box))
    return;
  panel->n_numbers++;
  g_string_append_printf (rows, "%.9g %g \"%u", (box->left + box->right) / 2, (box->top + box->bottom) / 2,
                          (guint)span->op.microbatch);
  if (layout->has_slices)
    g_string_append_c (rows, (char)('a' + span->op.slice % 26));
  g_string_append_printf (rows, "\" %u\n", ps_plot_text_colour (box->colour));
}

/* A box fills its row, or its upper or lower half as part of a pair. */
#define N_FILLS 3

static gboolean
is_thin (const Panel *panel, const Box *box)
{
  return panel->strokes != NULL && box->pixels < THIN;
}

static void
flush_row (Panel *panel, const Layout *layout, guint device, PsPlotMix *const *mixes)
{
  static const double middles[N_FILLS] = { 0, -0.23, 0.23 }, heights[N_FILLS] = { 0.92, 0.46, 0.46 };

  for (guint fill = 0; fill < N_FILLS; fill++)
    ps_plot_mix_flush (mixes[fill], panel->strokes, device + middles[fill], layout->row * heights[fill]);
}

/* Draws boxes below a pixel, under all others. */
static void
mix_boxes (Panel *panel, const Layout *layout)
{
  const GArray *ops = panel->timeline->ops;
  double column = COLUMN / layout->pixels_per_ns / layout->time.size;
  guint n_columns = (layout->width - LEFT - RIGHT + COLUMN - 1) / COLUMN;
  gboolean second = FALSE;
  PsPlotMix *mixes[N_FILLS];

  for (guint fill = 0; fill < N_FILLS; fill++)
    mixes[fill] = ps_plot_mix_new (n_columns, column);
  for (guint i = 0; i < ops->len; i++)
    {
      const PsSpan *span = &g_array_index (ops, PsSpan, i);
      Box box = span_box (layout, panel, span, span->op.paired, second);

      if (is_thin (panel, &box))
        ps_plot_mix_add (mixes[span->op.paired ? 1 : second ? 2 : 0], box.colour, box.left, box.right);
      panel->is_mixed |= is_thin (panel, &box);
      second = span->op.paired;
      if (i + 1 == ops->len || span[1].device != span->device)
        flush_row (panel, layout, span->device, mixes);
    }
  for (guint fill = 0; fill < N_FILLS; fill++)
    ps_plot_mix_free (mixes[fill]);
}

/* Appends the data blocks $boxesN, $outlinesN and $numbersN of panel N. */
static void
append_boxes (GString *script, const Layout *layout, Panel *panel, guint n)
{
  g_autoptr (GString) outlines = g_string_new (NULL);
  g_autoptr (GString) numbers = g_string_new (NULL);
  gboolean second = FALSE;

  g_string_append_printf (script, "$boxes%u << EOD\n", n);
  for (guint i = 0; i < panel->timeline->ops->len; i++)
    {
      const PsSpan *span = &g_array_index (panel->timeline->ops, PsSpan, i);
      Box box = span_box (layout, panel, span, span->op.paired, second);

      second = span->op.paired;
      if (is_thin (panel, &box))
        continue;
      if (panel->strokes != NULL && box.pixels < OUTLINE_WIDTH)
        plot_strokes_add (panel->strokes, box.colour, box.left, box.right, (box.top + box.bottom) / 2,
                          layout->row * (box.bottom - box.top));
      else
        append_box (script, &box);
      if (box.pixels >= OUTLINE_WIDTH && ++panel->n_outlined)
        append_box (outlines, &box);
      append_number (numbers, panel, layout, span, &box);
    }
  g_string_append_printf (script, "EOD\n$outlines%u << EOD\n%sEOD\n$numbers%u << EOD\n%sEOD\n", n, outlines->str, n,
                          numbers->str);
}

/* Where the last transfer from one device's row to another's was drawn. */
typedef struct
{
  GHashTable *last_ns; /* sender and receiver as one number -> time */
  gint64 gap_ns;
} Thinning;

static gboolean
is_crowded (Thinning *thinning, const PsSpan *span)
{
  gpointer key = GUINT_TO_POINTER ((guint)span->device << 16 | span->peer), last;
  gboolean found = g_hash_table_lookup_extended (thinning->last_ns, key, NULL, &last);

  if (found && span->start_ns - (gint64)GPOINTER_TO_SIZE (last) < thinning->gap_ns)
    return TRUE;
  g_hash_table_insert (thinning->last_ns, key, GSIZE_TO_POINTER ((gsize)span->start_ns));
  return FALSE;
}

/* Appends lines of activations, or of gradients, from the edge of the sender's row to that of the receiver's. */
static void
append_lines (GString *script, const Layout *layout, Panel *panel, gboolean forward)
{
  Thinning thinning = { .last_ns = g_hash_table_new (NULL, NULL),
                        .gap_ns = panel->strokes != NULL ? (gint64)(TRANSFER_GAP / layout->pixels_per_ns) : 0 };

  for (guint i = 0; i < panel->timeline->transfers->len; i++)
    {
      const PsSpan *span = &g_array_index (panel->timeline->transfers, PsSpan, i);
      double edge = span->peer > span->device ? 0.46 : -0.46;

      if ((span->op.kind == PS_OP_F) != forward)
        continue;
      if (is_crowded (&thinning, span))
        {
          panel->is_thinned = TRUE;
          continue;
        }
      g_string_append_printf (script, "%.9g %g\n%.9g %g\n\n", (double)span->start_ns / layout->time.size,
                              span->device + edge, (double)span->end_ns / layout->time.size, span->peer - edge);
      panel->n_transfers++;
    }
  g_hash_table_unref (thinning.last_ns);
}

/* Appends the data blocks $activationsN and $gradientsN; a line outside the picture keeps each from being empty. */
static void
append_transfers (GString *script, const Layout *layout, Panel *panel, guint n)
{
  g_string_append_printf (script, "$activations%u << EOD\n-2 0\n-1 0\n\n", n);
  append_lines (script, layout, panel, TRUE);
  g_string_append_printf (script, "EOD\n$gradients%u << EOD\n-2 0\n-1 0\n\n", n);
  append_lines (script, layout, panel, FALSE);
  g_string_append (script, "EOD\n");
}

static void
append_indexed (GString *script, const char *name, guint n, double value)
{
  g_autofree char *indexed = g_strdup_printf ("%s[%u]", name, n);

  ps_gnuplot_append_number (script, indexed, value);
}

/* Appends the memory axis. It may begin above 0, at weights below which no curve ever goes, so that changes can be
 * seen; its numbers say so. */
static void
append_memory_axis (GString *script, const Layout *layout)
{
  double top = (double)layout->max_memory / layout->size.size, low = (double)layout->min_memory / layout->size.size;
  double bottom = low > top / 3 ? low - (top - low) * 0.1 : 0;

  if (layout->max_memory == 0)
    return;
  top = MAX (top + (top - bottom) * 0.1, bottom * 1.01);
  ps_gnuplot_append_text (script, "memory_unit", layout->size.name);
  ps_gnuplot_append_number (script, "memory_top", top);
  ps_gnuplot_append_number (script, "memory_bottom", bottom);
  ps_gnuplot_append_number (script, "memory_tick", ps_plot_tick_step (top - bottom, 4));
}

static void
append_memory (GString *script, const Layout *layout, const Panel *panel, guint n)
{
  g_string_append_printf (script, "$memory%u << EOD\n", n);
  ps_timeline_append_memory (script, panel->timeline, layout->time.size, layout->size.size, layout->end_ns,
                             panel->strokes != NULL ? (gint64)(COLUMN / layout->pixels_per_ns) : 0);
  g_string_append (script, "EOD\n");
}

static void
append_panel (GString *script, const Layout *layout, Panel *panel, gboolean transfers, guint n)
{
  g_autofree char *caption = ps_timeline_caption (panel->timeline);
  g_autofree char *name = g_strdup_printf ("caption[%u]", n), *text = NULL;
  guint n_devices = panel->timeline->n_devices;

  panel->first_stroke = panel->strokes != NULL ? plot_strokes_n (panel->strokes) + 1 : 1;
  if (panel->strokes != NULL)
    {
      plot_strokes_begin (panel->strokes);
      mix_boxes (panel, layout);
      plot_strokes_begin (panel->strokes);
    }
  append_boxes (script, layout, panel, n);
  panel->last_stroke = panel->strokes != NULL ? plot_strokes_n (panel->strokes) : 0;
  if (transfers)
    append_transfers (script, layout, panel, n);
  text = g_strconcat (caption, panel->is_mixed ? "; ops below a pixel are mixed" : "",
                      panel->is_thinned ? "; of near transfers one is drawn" : "", NULL);
  ps_gnuplot_append_text (script, name, text);
  if (panel->max_memory > 0)
    append_memory (script, layout, panel, n);
  append_indexed (script, "has_memory", n, panel->max_memory > 0);
  append_indexed (script, "devices", n, n_devices);
  append_indexed (script, "device_tick", n, n_devices * 13 <= layout->row * n_devices ? 1 : ceil (13 / layout->row));
  append_indexed (script, "rows_top", n, panel->rows_top);
  append_indexed (script, "rows_bottom", n, panel->rows_bottom);
  append_indexed (script, "n_outlined", n, panel->n_outlined);
  append_indexed (script, "n_numbers", n, panel->n_numbers);
  append_indexed (script, "n_transfers", n, panel->n_transfers);
  append_indexed (script, "first_stroke", n, panel->first_stroke);
  append_indexed (script, "last_stroke", n, panel->last_stroke);
}

/* The op kinds that occur, and the most chunks of a device. */
static guint
used_kinds (const Panel *panels, guint n, guint *max_chunks)
{
  guint kinds = 0;

  *max_chunks = 1;
  for (guint p = 0; p < n; p++)
    for (guint i = 0; i < panels[p].timeline->ops->len; i++)
      {
        const PsSpan *span = &g_array_index (panels[p].timeline->ops, PsSpan, i);

        kinds |= 1U << span->op.kind;
        *max_chunks = MAX (*max_chunks, span->chunk + 1U);
      }
  return kinds;
}

/* Appends, left of each row, a chip in the colour of the device's memory curve. */
static void
append_chips (GString *script, const Layout *layout, const Panel *panel)
{
  double half = MIN (layout->row * 0.3, 5);

  for (guint d = 0; panel->max_memory > 0 && d < panel->timeline->n_devices; d++)
    {
      double y = panel->rows_top - (d + 0.5) * layout->row;

      append_box (script, &(Box){ LEFT - 8, LEFT - 4, y - half, y + half, 0,
                                  ps_plot_device_colour (d, panel->timeline->n_devices) });
    }
}

/* Appends swatches in pixels, one shade per chunk (four at most), and after them the name of the kind. */
static void
append_legend (GString *script, const Layout *layout, const Panel *panels, guint n)
{
  g_autoptr (GString) labels = g_string_new (NULL);
  guint max_chunks, kinds = used_kinds (panels, n, &max_chunks), shades = MIN (max_chunks, 4);
  double x = LEFT, y = layout->height - 45.0;

  g_string_append (script, "$legend << EOD\n");
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    {
      const char *label = ps_plot_kind_label (kind);

      if (!(kinds & 1U << kind))
        continue;
      for (guint s = 0; s < shades; s++, x += 16)
        append_box (script, &(Box){ x, x + 15, y - 6, y + 6, 0, ps_plot_op_colour (kind, s, shades) });
      g_string_append_printf (labels, "%g %g \"%s\"\n", x + 4, y, label);
      x += 22 + 5.6 * (double)strlen (label);
    }
  for (guint p = 0; p < n; p++)
    append_chips (script, layout, &panels[p]);
  g_autofree char *shades_label = timeline_shades (panels[0].timeline, max_chunks);
  if (*shades_label)
    g_string_append_printf (labels, "%g %g \"(%s)\"\n", x, y, shades_label);
  g_string_append_printf (script, "EOD\n$legend_labels << EOD\n%sEOD\n", labels->str);
}

static void
append_picture (GString *script, const PsPicture *picture, const Layout *layout, PsTimeline *const *timelines, guint n)
{
  g_autofree char *own_title = ps_timeline_title (timelines, n);
  g_autofree char *time_label = g_strdup_printf ("time (%s)", layout->time.name);

  ps_gnuplot_append_text (script, "title", picture->title != NULL ? picture->title : own_title);
  ps_gnuplot_append_text (script, "time_label", time_label);
  ps_gnuplot_append_number (script, "width", layout->width);
  ps_gnuplot_append_number (script, "height", layout->height);
  ps_gnuplot_append_number (script, "left", LEFT);
  ps_gnuplot_append_number (script, "right", layout->width - RIGHT);
  ps_gnuplot_append_number (script, "strip_gap", STRIP_GAP);
  ps_gnuplot_append_number (script, "strip", STRIP);
  ps_gnuplot_append_number (script, "time_end", (double)layout->end_ns / layout->time.size);
  ps_gnuplot_append_number (script, "time_tick", ps_plot_tick_step ((double)layout->end_ns / layout->time.size, 12));
  g_string_append_printf (script, "panels = %u\n", n);
  append_memory_axis (script, layout);
  g_string_append (script,
                   "array caption[2]\narray has_memory[2]\narray devices[2]\narray device_tick[2]\narray rows_top[2]\n"
                   "array rows_bottom[2]\narray n_outlined[2]\narray n_numbers[2]\narray n_transfers[2]\n"
                   "array first_stroke[2]\narray last_stroke[2]\n");
}

gboolean
ps_timeline_plot (const PsPicture *picture, PsTimeline *const *timelines, guint n, GError **error)
{
  g_autoptr (GString) script = g_string_new (NULL);
  g_autoptr (PsPlotStrokes) strokes = ps_plot_strokes_new ();
  Layout layout = { 0 };
  Panel panels[2] = { 0 };

  g_return_val_if_fail (n >= 1 && n <= G_N_ELEMENTS (panels), FALSE);
  layout_init (&layout, picture, timelines, n);
  append_picture (script, picture, &layout, timelines, n);
  double y = layout.height - TOP;
  for (guint i = 0; i < n; i++)
    {
      panels[i] = (Panel){ .timeline = timelines[i],
                           .n_chunks = count_chunks (timelines[i]),
                           .rows_top = y - CAPTION,
                           .rows_bottom = y - CAPTION - layout.row * timelines[i]->n_devices,
                           .max_memory = ps_timeline_max_memory (timelines[i]),
                           .strokes = ps_timeline_is_coarse (picture, timelines[i]) ? strokes : NULL };
      append_panel (script, &layout, &panels[i], picture->transfers, i + 1);
      y -= panel_extra (timelines[i]) + layout.row * timelines[i]->n_devices;
    }
  ps_plot_strokes_append (strokes, script);
  append_legend (script, &layout, panels, n);
  for (guint i = 0; i < n; i++)
    g_free (panels[i].n_chunks);
  return ps_gnuplot_draw (picture, layout.width, layout.height, script->str, "timeline.gp", error);
}

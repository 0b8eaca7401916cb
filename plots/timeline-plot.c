/* timeline-plot.c - pictures of timelines: rows of ops, and memory. */
#include "timeline-plot.h"

#include <math.h>
#include <string.h>

/* Layout in pixels; timeline.gp has the rest. */
#define WIDTH 1200
#define RIGHT (WIDTH - PS_TIMELINE_RIGHT)
#define TOP 86           /* title, key and the first caption */
#define BOTTOM 44        /* numbers and name of the time axis */
#define STRIP 87         /* memory, and its distance from the rows */
#define BETWEEN 34       /* distance of panels, with a caption */
#define NARROW 5         /* boxes of a coarse picture that are narrower are pieces of lines */
#define THIN 1           /* narrower ones are mixed */
#define MEMORY_LEFT 80   /* left of the curves of memory, as in memory.gp */
#define MEMORY_RIGHT 130 /* right of them, with the names of devices */
#define MEMORY_AROUND 88 /* above and below the panels */
#define MEMORY_PANEL 338
#define MEMORY_LEAST 120 /* width and height of a panel whose curves can be read */
#define COLUMN 2         /* width of the columns for thin boxes, and of a grain of memory */
#define TRANSFER_GAP 3   /* if transfers begin closer together than this, one is drawn */

/* A coarse picture has more ops than this. */
#define MANY_OPS 4000
#define VERY_MANY_OPS 40000
#define LEAST_ROW 6 /* pixels of a device's row that ops can be seen in */

/* What all panels of a picture share. */
typedef struct {
  const PsPicture *picture;
  guint width;
  double row; /* height of a device's row */
  gint64 end_ns;
  double pixel_ns;
  PsPlotUnit time;
  PsPlotUnit size;
  gint64 max_memory; /* 0: none knows its memory */
  gint64 min_memory;
  gboolean has_slices;
} Layout;

static gboolean is_coarse (const PsPicture *picture, const PsTimeline *timeline)
{
  gboolean is_svg = picture->inlined != NULL || (picture->output != NULL && g_str_has_suffix (picture->output, ".svg"));

  return timeline->ops->len > (is_svg ? MANY_OPS : VERY_MANY_OPS);
}

double ps_timeline_row_height (const PsTimeline *timeline)
{
  return timeline->n_devices <= 8 ? 30 : timeline->n_devices <= 16 ? 22 : MAX (4, 448.0 / timeline->n_devices);
}

/* The schedule and its size. Free with g_free. */
static char *title_of (PsTimeline *const *timelines, guint n)
{
  const PsTimeline *first = timelines[0], *last = timelines[n - 1];
  gboolean same = g_str_equal (first->schedule, last->schedule) && first->n_devices == last->n_devices
                  && first->n_stages == last->n_stages && first->n_microbatches == last->n_microbatches;

  if (!same)
    return g_strdup_printf ("%s above %s", first->schedule, last->schedule);
  return g_strdup_printf ("%s: %u devices, %u stages, %u microbatches", first->schedule, first->n_devices,
                          first->n_stages, first->n_microbatches);
}

static void append_number (GString *script, const char *array, guint i, double value)
{
  g_autofree char *name = g_strdup_printf ("%s[%u]", array, i);

  ps_gnuplot_append_number (script, name, value);
}

guint ps_timeline_kinds (const PsTimeline *timeline)
{
  guint kinds = 0;

  for (guint i = 0; i < timeline->ops->len; i++)
    kinds |= 1U << g_array_index (timeline->ops, PsSpan, i).op.kind;
  return kinds;
}

/* Memory. */

static void append_point (GArray *points, guint device, gint64 time_ns, gint64 bytes)
{
  const PsMemoryPoint *last = points->len ? &g_array_index (points, PsMemoryPoint, points->len - 1) : NULL;
  const PsMemoryPoint point = { .time_ns = time_ns, .bytes = bytes, .device = (guint16)device };

  if (last == NULL || last->device != device || last->bytes != bytes)
    g_array_append_val (points, point);
}

/* Memory with one point per grain, its largest, and the level that holds after a grain until the next change. */
static GArray *coarse_memory (const GArray *memory, gint64 grain_ns)
{
  GArray *coarse = g_array_new (FALSE, FALSE, sizeof (PsMemoryPoint));
  const PsMemoryPoint *points = (const PsMemoryPoint *)(gpointer)memory->data;
  gint64 bytes = 0;

  for (guint i = 0, next; i < memory->len; i = next) {
    gint64 begin_ns = points[i].time_ns - points[i].time_ns % grain_ns, end_ns = begin_ns + grain_ns;
    gboolean fresh = i == 0 || points[i - 1].device != points[i].device || points[i].time_ns == begin_ns;
    gint64 largest = fresh ? 0 : bytes;

    for (next = i; next < memory->len && points[next].device == points[i].device && points[next].time_ns < end_ns;) {
      bytes = points[next++].bytes;
      largest = MAX (largest, bytes);
    }
    append_point (coarse, points[i].device, begin_ns, largest);
    if (next == memory->len || points[next].device != points[i].device || points[next].time_ns >= end_ns + grain_ns)
      append_point (coarse, points[i].device, end_ns, bytes);
  }
  return coarse;
}

/* Appends the block $memoryN. */
static void append_memory (GString *script, const Layout *layout, const PsTimeline *timeline, guint n)
{
  g_autoptr (GArray) memory = is_coarse (layout->picture, timeline)
                                  ? coarse_memory (timeline->memory, MAX ((gint64)(COLUMN * layout->pixel_ns), 1))
                                  : g_array_ref (timeline->memory);

  g_string_append_printf (script, "$memory%u << EOD\n", n);
  for (guint device = 0, i = 0; device < timeline->n_devices; device++) {
    double level = NAN;

    for (; i < memory->len && g_array_index (memory, PsMemoryPoint, i).device == device; i++) {
      const PsMemoryPoint *point = &g_array_index (memory, PsMemoryPoint, i);

      level = (double)point->bytes / layout->size.size;
      g_string_append_printf (script, "%.9g %.9g\n", (double)point->time_ns / layout->time.size, level);
    }
    g_string_append_printf (script, "%.9g %.9g\n\n\n", (double)layout->end_ns / layout->time.size, level);
  }
  g_string_append (script, "EOD\n");
}

/* Appends what pictures of timelines share: time_end, time_label, panels, the arrays caption and devices, and memory.
 */
static void append_common (GString *script, const Layout *layout, PsTimeline *const *timelines, guint n)
{
  g_autofree char *time_label = g_strdup_printf ("time (%s)", layout->time.name);

  ps_gnuplot_append_text (script, "time_label", time_label);
  ps_gnuplot_append_number (script, "time_end", (double)layout->end_ns / layout->time.size);
  g_string_append_printf (script, "panels = %u\n", n);
  ps_gnuplot_append_array (script, "caption", n);
  ps_gnuplot_append_array (script, "devices", n);
  for (guint i = 0; i < n; i++) {
    g_string_append_printf (script, "devices[%u] = %u\n", i + 1, timelines[i]->n_devices);
    append_memory (script, layout, timelines[i], i + 1);
  }
}

/* Appends the caption of a panel, and how the picture is coarse. */
static void append_caption (GString *script, const PsTimeline *timeline, guint n, const char *remark, const char *other)
{
  g_autofree char *caption = ps_timeline_caption (timeline), *text = g_strconcat (caption, remark, other, NULL);

  ps_gnuplot_append_element (script, "caption", n, text);
}

static void layout_init (Layout *layout, const PsPicture *picture, PsTimeline *const *timelines, guint n,
                         double margins)
{
  *layout = (Layout){ .picture = picture, .end_ns = 1, .min_memory = G_MAXINT64 };
  for (guint t = 0; t < n; t++) {
    layout->has_slices |= ps_timeline_n_slices (timelines[t]) > 1;
    for (guint i = 0; i < timelines[t]->ops->len; i++)
      layout->end_ns = MAX (layout->end_ns, g_array_index (timelines[t]->ops, PsSpan, i).end_ns);
    for (guint i = 0; i < timelines[t]->memory->len; i++) {
      gint64 bytes = g_array_index (timelines[t]->memory, PsMemoryPoint, i).bytes;

      layout->max_memory = MAX (layout->max_memory, bytes);
      layout->min_memory = MIN (layout->min_memory, bytes);
    }
  }
  layout->width = picture->width > 0 ? picture->width : WIDTH;
  layout->pixel_ns = (double)layout->end_ns / (layout->width - margins);
  layout->time = ps_plot_time_unit (layout->end_ns);
  layout->size = ps_plot_size_unit (layout->max_memory);
}

static gboolean has_memory (const PsTimeline *timeline)
{
  for (guint i = 0; i < timeline->memory->len; i++)
    if (g_array_index (timeline->memory, PsMemoryPoint, i).bytes > 0)
      return TRUE;
  return FALSE;
}

/* Finds the smallest and largest memory of the devices before their first op, which they hold throughout. */
static void find_baseline (const PsTimeline *timeline, gint64 *low, gint64 *high)
{
  int device = -1;

  *low = G_MAXINT64;
  *high = 0;
  for (guint i = 0; i < timeline->memory->len; i++) {
    const PsMemoryPoint *point = &g_array_index (timeline->memory, PsMemoryPoint, i);

    if (point->device == device)
      continue;
    device = point->device;
    *low = MIN (*low, point->bytes);
    *high = MAX (*high, point->bytes);
  }
}

gboolean ps_memory_plot (const PsPicture *picture, PsTimeline *const *timelines, guint n, gint64 limit_bytes,
                         GError **error)
{
  g_autoptr (GString) script = g_string_new (NULL);
  g_autofree char *title = title_of (timelines, n), *limit = ps_format_size (limit_bytes);
  g_autofree char *limit_label = g_strdup_printf ("limit %s", limit);
  Layout layout;

  g_return_val_if_fail (n >= 1 && n <= 2, FALSE);
  for (guint i = 0; i < n; i++)
    if (!has_memory (timelines[i]))
      return ps_refuse (error, PS_ERROR_INPUT, "timeline %u (%s): knows no memory", i + 1, timelines[i]->schedule);
  guint width = MAX (picture->width, MEMORY_LEFT + MEMORY_RIGHT + MEMORY_LEAST);
  guint height = MAX (picture->height, MEMORY_AROUND + MEMORY_LEAST * n);
  if (picture->width > 0 && !picture->terminal && (picture->width < width || picture->height < height))
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--size %ux%u: too small for %u panel%s of memory; %ux%u or more would be right", picture->width,
                      picture->height, n, n == 1 ? "" : "s", width, height);
  layout_init (&layout, picture, timelines, n, MEMORY_LEFT + MEMORY_RIGHT);
  gint64 top = MAX (layout.max_memory, limit_bytes);
  layout.size = ps_plot_size_unit (top);
  g_autofree char *size_label = g_strdup_printf ("memory (%s)", layout.size.name);
  append_common (script, &layout, timelines, n);
  ps_gnuplot_append_text (script, "size_label", size_label);
  ps_gnuplot_append_text (script, "limit_label", limit_label);
  ps_gnuplot_append_number (script, "limit", (double)limit_bytes / layout.size.size);
  ps_gnuplot_append_number (script, "size_top", (double)top / layout.size.size);
  ps_gnuplot_append_array (script, "weights_low", n);
  ps_gnuplot_append_array (script, "weights_high", n);
  for (guint i = 0; i < n; i++) {
    gint64 low, high;

    append_caption (script, timelines[i], i + 1,
                    is_coarse (picture, timelines[i]) ? "; of every 2 pixels the largest is drawn" : "", "");
    find_baseline (timelines[i], &low, &high);
    append_number (script, "weights_low", i + 1, (double)low / layout.size.size);
    append_number (script, "weights_high", i + 1, (double)high / layout.size.size);
  }
  return ps_gnuplot_draw (picture, title, 1000, MEMORY_AROUND + MEMORY_PANEL * n, script->str, "memory.gp", error);
}

/* Ops. Those that are narrow in a coarse picture are drawn as pieces of broad lines. */

/* An op is in the whole row of its device; the first of a pair is in its upper half, the second in the lower. */
typedef enum { WHOLE, UPPER, LOWER, N_PARTS } Part;

typedef struct {
  guint32 colour;
  guint device;
  Part part;
  double left_ns;
  double right_ns;
} Piece;

/* Sums of colours over columns. */

#define N_CHANNELS 3
#define SHADES 16 /* shades per channel: coarse, so that similar neighbours become one piece */

typedef struct {
  double covered; /* part of the column that boxes cover */
  double sum[N_CHANNELS];
} Column;

static void mix (Column *columns, guint n, guint32 colour, double left, double right)
{
  for (guint i = (guint)left; i < MIN ((guint)ceil (right), n); i++) {
    double part = MIN (right, i + 1) - MAX (left, i);

    columns[i].covered += part;
    for (guint channel = 0; channel < N_CHANNELS; channel++)
      columns[i].sum[channel] += part * (colour >> 8 * channel & 0xff);
  }
}

/* Free parts of a column count as white. */
static guint32 column_colour (const Column *column)
{
  double covered = MAX (column->covered, 1);
  guint32 colour = 0;

  for (guint channel = 0; channel < N_CHANNELS; channel++) {
    double mean = (column->sum[channel] + (covered - column->covered) * 0xff) / covered;
    guint32 step = (guint32)lround (mean / 0xff * (SHADES - 1));

    colour |= step * 0xff / (SHADES - 1) << 8 * channel;
  }
  return colour;
}

/* Pieces of one row come from left to right; those of one colour that touch become one. */
static void add_piece (GArray *pieces, const Piece *piece)
{
  Piece *last = pieces->len > 0 ? &g_array_index (pieces, Piece, pieces->len - 1) : NULL;

  if (last != NULL && last->colour == piece->colour && last->device == piece->device && last->part == piece->part
      && last->right_ns == piece->left_ns)
    last->right_ns = piece->right_ns;
  else
    g_array_append_vals (pieces, piece, 1);
}

/* Makes the mixed columns of a device pieces, and empties them. */
static void flush_columns (Column *columns, guint n, double column_ns, guint device, GArray *pieces)
{
  for (guint i = 0; i < N_PARTS * n; i++)
    if (columns[i].covered > 0)
      add_piece (pieces, &(Piece){ column_colour (&columns[i]), device, (Part)(i / n), i % n * column_ns,
                                   (i % n + 1) * column_ns });
  memset (columns, 0, N_PARTS * n * sizeof *columns);
}

/* gnuplot writes pieces of one colour that follow each other as one short path. */
static int compare_pieces (gconstpointer a, gconstpointer b)
{
  const Piece *x = a, *y = b;

  if (x->colour != y->colour)
    return PS_COMPARE (x->colour, y->colour);
  return x->device != y->device ? PS_COMPARE (x->device, y->device) : PS_COMPARE (x->left_ns, y->left_ns);
}

static guint *count_chunks (const PsTimeline *timeline)
{
  guint *n_chunks = g_new0 (guint, timeline->n_devices);

  for (guint i = 0; i < timeline->ops->len; i++) {
    const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

    n_chunks[span->device] = MAX (n_chunks[span->device], span->chunk + 1U);
  }
  return n_chunks;
}

static void append_row (GString *rows, const Layout *layout, const Piece *piece)
{
  g_string_append_printf (rows, "%.9g %.9g %u %d %u", piece->left_ns / layout->time.size,
                          piece->right_ns / layout->time.size, piece->device,
                          piece->part == UPPER   ? 1
                          : piece->part == LOWER ? -1
                                                 : 0,
                          piece->colour);
}

/* Appends an op and the number of its microbatch, with a letter for its slice. */
static void append_op (GString *rows, const Layout *layout, const PsSpan *span, const Piece *piece)
{
  append_row (rows, layout, piece);
  if (span->op.kind == PS_OP_O)
    g_string_append (rows, " \"\"\n");
  else if (layout->has_slices)
    g_string_append_printf (rows, " \"%u%c\"\n", (guint)span->op.microbatch, 'a' + span->op.slice % 26);
  else
    g_string_append_printf (rows, " \"%u\"\n", (guint)span->op.microbatch);
}

/* Appends the blocks $opsN and $denseN. Returns whether ops are mixed. */
static gboolean append_ops (GString *script, const Layout *layout, const PsTimeline *timeline, guint n)
{
  g_autofree guint *n_chunks = count_chunks (timeline);
  g_autoptr (GArray) pieces = g_array_new (FALSE, FALSE, sizeof (Piece));
  gboolean coarse = is_coarse (layout->picture, timeline), mixes = coarse && layout->picture->inlined == NULL;
  double column_ns = COLUMN * layout->pixel_ns;
  guint n_columns = (guint)ceil ((double)layout->end_ns / column_ns);
  g_autofree Column *columns = g_new0 (Column, N_PARTS * n_columns);
  gboolean mixed = FALSE;
  Part part = WHOLE;

  g_string_append_printf (script, "$ops%u << EOD\n", n);
  for (guint i = 0; i < timeline->ops->len; i++) {
    const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);
    double pixels = (double)(span->end_ns - span->start_ns) / layout->pixel_ns;

    part = span->op.paired ? UPPER : part == UPPER ? LOWER : WHOLE;
    const Piece piece = { ps_plot_op_colour (span->op.kind, span->chunk, n_chunks[span->device]), span->device, part,
                          (double)span->start_ns, (double)span->end_ns };
    mixed |= mixes && pixels < THIN;
    if (mixes && pixels < THIN)
      mix (columns + part * n_columns, n_columns, piece.colour, piece.left_ns / column_ns, piece.right_ns / column_ns);
    else if (coarse && pixels < NARROW)
      add_piece (pieces, &piece);
    else
      append_op (script, layout, span, &piece);
    if (i + 1 == timeline->ops->len || span[1].device != span->device)
      flush_columns (columns, n_columns, column_ns, span->device, pieces);
  }
  g_array_sort (pieces, compare_pieces);
  g_string_append_printf (script, "EOD\n$dense%u << EOD\n", n);
  for (guint i = 0; i < pieces->len; i++) {
    append_row (script, layout, &g_array_index (pieces, Piece, i));
    g_string_append_c (script, '\n');
  }
  g_string_append (script, "EOD\n");
  return mixed;
}

/* Appends the block $transfersN. In a coarse picture, of transfers between two rows that begin close together one is
 * drawn. Returns whether others are left out. */
static gboolean append_transfers (GString *script, const Layout *layout, const PsTimeline *timeline, guint n)
{
  gint64 gap_ns = is_coarse (layout->picture, timeline) ? (gint64)(TRANSFER_GAP * layout->pixel_ns) : 0;
  gboolean thinned = FALSE;
  g_autoptr (GHashTable) drawn = g_hash_table_new (NULL, NULL); /* sender, receiver and kind as a number -> PsSpan */

  g_string_append_printf (script, "$transfers%u << EOD\n", n);
  for (guint i = 0; layout->picture->transfers && i < timeline->transfers->len; i++) {
    const PsSpan *span = &g_array_index (timeline->transfers, PsSpan, i);
    gboolean forward = span->op.kind == PS_OP_F;
    gpointer key = GSIZE_TO_POINTER ((gsize)forward << 32 | (gsize)span->device << 16 | span->peer);
    const PsSpan *last = g_hash_table_lookup (drawn, key);

    if (last != NULL && span->start_ns - last->start_ns < gap_ns) {
      thinned = TRUE;
      continue;
    }
    g_hash_table_insert (drawn, key, (gpointer)span);
    g_string_append_printf (script, "%.9g %u %.9g %u %u\n", (double)span->start_ns / layout->time.size, span->device,
                            (double)span->end_ns / layout->time.size, span->peer, forward ? 0x222222 : 0xcc3311);
  }
  g_string_append (script, "EOD\n");
  return thinned;
}

/* The meaning of paler shades and of letters after numbers in a timeline whose devices have up to n_chunks: "2
 * chunks, later ones lighter", "2 directions, the second lighter", "4 slices of a microbatch: 0a, 0b, ..."; "" for
 * nothing. Free with g_free. */
static char *meaning_of_shades (const PsTimeline *timeline, guint n_chunks)
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

/* Appends n_kinds, and the arrays kind and kind_colour: the kinds of ops that occur, and the meaning of shades. */
static void append_key (GString *script, PsTimeline *const *timelines, guint n)
{
  guint max_chunks = 1, most = 0, kinds = 0, k = 0; /* most: the first timeline with an op of so many chunks */

  ps_gnuplot_append_array (script, "kind", PS_N_OP_KINDS + 1);
  ps_gnuplot_append_array (script, "kind_colour", PS_N_OP_KINDS + 1);
  for (guint t = 0; t < n; t++) {
    kinds |= ps_timeline_kinds (timelines[t]);
    for (guint i = 0; i < timelines[t]->ops->len; i++)
      if (g_array_index (timelines[t]->ops, PsSpan, i).chunk >= max_chunks) {
        max_chunks = g_array_index (timelines[t]->ops, PsSpan, i).chunk + 1U;
        most = t;
      }
  }
  for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++)
    if (kinds & 1U << kind) {
      g_autofree char *name = g_strdup_printf ("%s  %s", ps_op_kind_name (kind), ps_op_kind_title (kind));

      ps_gnuplot_append_element (script, "kind", ++k, name);
      g_string_append_printf (script, "kind_colour[%u] = %u\n", k, ps_plot_op_colour (kind, 0, 1));
    }
  g_autofree char *shades = meaning_of_shades (timelines[most], max_chunks), *remark = g_strdup_printf ("(%s)", shades);
  if (*shades) {
    ps_gnuplot_append_element (script, "kind", ++k, remark);
    g_string_append_printf (script, "kind_colour[%u] = %u\n", k, 0xffffff);
  }
  g_string_append_printf (script, "n_kinds = %u\n", k);
}

gboolean ps_timeline_plot (const PsPicture *picture, PsTimeline *const *timelines, guint n, GError **error)
{
  g_autoptr (GString) script = g_string_new (NULL);
  g_autofree char *title = title_of (timelines, n);
  gboolean bare = picture->inlined != NULL;
  double top = bare ? PS_TIMELINE_TOP : TOP, extra = top + BOTTOM + (n - 1) * BETWEEN;
  guint n_rows = 0, most = 0;
  Layout layout;

  g_return_val_if_fail (n >= 1 && n <= 2, FALSE);
  layout_init (&layout, picture, timelines, n, PS_TIMELINE_LEFT + RIGHT);
  append_common (script, &layout, timelines, n);
  ps_gnuplot_append_array (script, "has_memory", n);
  for (guint i = 0; i < n; i++) {
    gboolean mixed = append_ops (script, &layout, timelines[i], i + 1);
    gboolean thinned = append_transfers (script, &layout, timelines[i], i + 1);

    append_caption (script, timelines[i], i + 1, mixed ? "; ops below a pixel are mixed" : "",
                    thinned ? "; of near transfers one is drawn" : "");
    g_string_append_printf (script, "has_memory[%u] = %d\n", i + 1, has_memory (timelines[i]));
    extra += has_memory (timelines[i]) ? STRIP : 0;
    n_rows += timelines[i]->n_devices;
    most = MAX (most, timelines[i]->n_devices);
    layout.row = MIN (i ? layout.row : G_MAXDOUBLE, ps_timeline_row_height (timelines[i]));
  }
  /* Rows get lower or higher to reach the height that was asked for. */
  if (picture->height > 0) {
    double least = MIN (layout.row, LEAST_ROW);

    layout.row = (picture->height - extra) / n_rows;
    if (layout.row < least)
      return ps_refuse (error, PS_ERROR_USAGE,
                        "--size %ux%u: too low for %u rows of devices; %ux%u or more would be right", picture->width,
                        picture->height, n_rows, picture->width, (guint)ceil (extra + least * n_rows));
  }
  append_key (script, timelines, n);
  ps_gnuplot_append_text (script, "memory_label", layout.size.name);
  ps_gnuplot_append_number (script, "memory_low", (double)layout.min_memory / layout.size.size);
  ps_gnuplot_append_number (script, "memory_high", (double)layout.max_memory / layout.size.size);
  ps_gnuplot_append_number (script, "left", PS_TIMELINE_LEFT);
  ps_gnuplot_append_number (script, "right", layout.width - RIGHT);
  ps_gnuplot_append_number (script, "top", top);
  ps_gnuplot_append_number (script, "row", layout.row);
  g_string_append_printf (script, "bare = %d\n", bare);
  return ps_gnuplot_draw (picture, title, layout.width, (guint)(extra + layout.row * n_rows), script->str,
                          "timeline.gp", error);
}

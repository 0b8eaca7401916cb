/* timeline-text.c - draws timelines with letters, a row for each device. */
#include <pipesim/timeline.h>

#include <pipesim/option.h>

#include <math.h>
#include <string.h>

#define LABEL 6         /* "  0 | " */
#define TICK_COLUMNS 12 /* between the ticks of the time axis, about */
#define IDLE '.'
#define BAR '\1' /* a thin bar at the beginning of an op without room for its number, so that neighbours stay apart */

/* Kinds of ops, and pairs of them. */
#define PAIR PS_N_OP_KINDS
#define N_KINDS (PS_N_OP_KINDS + 1)

typedef struct {
  const PsTimelineText *style;
  gint64 end_ns;
  guint columns; /* of a row */
  guint width;   /* letters of a column; in cells, at whose edges ops begin and end, more than 1 */
  guint n_chunks;
  gboolean has_slices;
  gboolean has_numbers; /* an op had room for its own */
} Drawing;

const char *ps_op_kind_title (PsOpKind kind)
{
  static const char *const titles[PS_N_OP_KINDS] = {
    [PS_OP_F] = "forward",        [PS_OP_B] = "backward for input", [PS_OP_W] = "backward for weights",
    [PS_OP_BW] = "full backward", [PS_OP_R] = "recompute",          [PS_OP_O] = "optimizer",
  };

  return titles[kind];
}

char *ps_timeline_caption (const PsTimeline *timeline)
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

static guint kind_of (const PsSpan *op)
{
  return op->op.paired ? PAIR : op->op.kind;
}

/* Kind and microbatch, and the stage where a device holds more than one; a pair's two are joined. */
static char *full_name (const PsTimeline *timeline, const PsSpan *op)
{
  const PsSpan *last = &g_array_index (timeline->ops, PsSpan, timeline->ops->len - 1);
  GString *name = g_string_new (NULL);

  for (const PsSpan *part = op;; part++) {
    g_string_append_printf (name, "%s%u", ps_op_kind_name ((PsOpKind)part->op.kind), part->op.microbatch);
    if (timeline->n_stages > timeline->n_devices)
      g_string_append_printf (name, ".%u", part->op.stage);
    if (part->op.slice)
      g_string_append_printf (name, "/%u", part->op.slice);
    if (!part->op.paired || part == last)
      return g_string_free (name, FALSE);
    g_string_append_c (name, '+');
  }
}

/* The second op of a pair has the time of the first and is not drawn. */
static gboolean is_second (const PsTimeline *timeline, guint i)
{
  const PsSpan *op = &g_array_index (timeline->ops, PsSpan, i);

  return i > 0 && op[-1].device == op->device && op[-1].op.paired;
}

/* The longest time that divides every start and end. */
static gint64 common_cell (const PsTimeline *timeline)
{
  gint64 cell = 0;

  for (guint i = 0; i < timeline->ops->len; i++) {
    const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

    cell = ps_common_divisor (ps_common_divisor (cell, span->start_ns), span->end_ns);
  }
  return MAX (cell, 1);
}

/* A cell has room for the longest name and a blank. */
static guint cell_width (const PsTimeline *timeline)
{
  gsize width = 1;

  for (guint i = 0; i < timeline->ops->len; i++) {
    g_autofree char *name = full_name (timeline, &g_array_index (timeline->ops, PsSpan, i));

    width = is_second (timeline, i) ? width : MAX (width, strlen (name));
  }
  return (guint)width + 1;
}

static gint64 column_begin (const Drawing *drawing, guint column)
{
  return (gint64)((double)drawing->end_ns * column / drawing->columns);
}

/* The part of a column that an op fills, ns. */
static gint64 overlap (const Drawing *drawing, const PsSpan *op, guint column)
{
  return MIN (op->end_ns, column_begin (drawing, column + 1)) - MAX (op->start_ns, column_begin (drawing, column));
}

/* What fills a column: the time of each kind, and its longest op. */
typedef struct {
  gint64 time_ns[N_KINDS];
  const PsSpan *longest[N_KINDS];
} Column;

static Column *fill_columns (const Drawing *drawing, const PsTimeline *timeline, guint device)
{
  Column *columns = g_new0 (Column, drawing->columns + 1);

  for (guint i = 0; i < timeline->ops->len; i++) {
    const PsSpan *op = &g_array_index (timeline->ops, PsSpan, i);
    guint c = (guint)((double)op->start_ns / (double)drawing->end_ns * drawing->columns);

    if (op->device != device || is_second (timeline, i))
      continue;
    for (; c < drawing->columns && column_begin (drawing, c) < op->end_ns; c++) {
      const PsSpan **longest = &columns[c].longest[kind_of (op)];

      columns[c].time_ns[kind_of (op)] += MAX (overlap (drawing, op, c), 0);
      if (*longest == NULL || overlap (drawing, op, c) > overlap (drawing, *longest, c))
        *longest = op;
    }
  }
  return columns;
}

/* NULL where the device is idle for more than half of the column; else an op of the kind with the most time in this
 * column and in the last ones that it has not been shown for. So kinds whose ops are narrower than a column are shown
 * in proportion to their time. */
static const PsSpan *choose_owner (const Column *column, gint64 width_ns, gint64 *owed_ns)
{
  gint64 busy_ns = 0;
  guint most = 0;

  for (guint kind = 0; kind < N_KINDS; kind++)
    busy_ns += column->time_ns[kind];
  if (2 * busy_ns < width_ns || busy_ns == 0)
    return NULL;
  for (guint kind = 0; kind < N_KINDS; kind++) {
    owed_ns[kind] = column->time_ns[kind] < busy_ns ? owed_ns[kind] + column->time_ns[kind] : busy_ns;
    if (column->longest[kind] != NULL && (column->longest[most] == NULL || owed_ns[kind] > owed_ns[most]))
      most = kind;
  }
  owed_ns[most] -= busy_ns;
  if (column->time_ns[most] == busy_ns)
    memset (owed_ns, 0, N_KINDS * sizeof *owed_ns);
  return column->longest[most];
}

/* The op of the device that each column shows. */
static const PsSpan **find_owners (const Drawing *drawing, const PsTimeline *timeline, guint device)
{
  const PsSpan **owners = g_new0 (const PsSpan *, drawing->columns + 1);
  g_autofree Column *columns = fill_columns (drawing, timeline, device);
  gint64 owed_ns[N_KINDS] = { 0 };

  for (guint c = 0; c < drawing->columns; c++)
    owners[c] = choose_owner (&columns[c], column_begin (drawing, c + 1) - column_begin (drawing, c), owed_ns);
  return owners;
}

/* An op's letters. In cells it has its whole name; elsewhere a small letter says that its
 * chunk is not the first, and the number appears where it fits. */
static void write_op (Drawing *drawing, const PsTimeline *timeline, const PsSpan *op, char *letters, guint length)
{
  gboolean colour = drawing->style->colour, in_cells = drawing->width > 1;
  g_autofree char *number = drawing->has_slices
                                ? g_strdup_printf ("%u%c", (guint)op->op.microbatch, 'a' + op->op.slice % 26)
                                : g_strdup_printf ("%u", (guint)op->op.microbatch);
  const char *capital = op->op.paired ? "P" : ps_op_kind_name ((PsOpKind)op->op.kind);
  g_autofree char *kind = op->chunk > 0 ? g_ascii_strdown (capital, -1) : g_strdup (capital);
  g_autofree char *name = in_cells ? full_name (timeline, op) : g_strconcat (colour ? "" : kind, number, NULL);
  gboolean fits = strlen (name) + (colour && !in_cells) <= length;
  const char *shown = fits ? name : colour ? (length > 1 ? "\1" : " ") : kind;

  memset (letters, colour || (in_cells && length <= drawing->width) ? ' ' : '=', length);
  memcpy (letters, shown, MIN (strlen (shown), length));
  if (in_cells)
    letters[length - 1] = ' ';
  drawing->has_numbers |= fits;
}

/* Colours of most terminals' 256 (16 and 36 red + 6 green + blue, from 0 to 5 each), close to the pictures' colours;
 * later chunks are lighter. */
static void append_paint (GString *text, guint kind, guint chunk)
{
  static const struct {
    guint8 colour;
    gboolean is_light;
  } paints[N_KINDS][2] = {
    [PS_OP_F] = { { 25, FALSE }, { 74, FALSE } }, [PS_OP_B] = { { 36, FALSE }, { 79, TRUE } },
    [PS_OP_W] = { { 178, TRUE }, { 222, TRUE } }, [PS_OP_BW] = { { 166, FALSE }, { 209, TRUE } },
    [PS_OP_R] = { { 175, TRUE }, { 218, TRUE } }, [PS_OP_O] = { { 59, FALSE }, { 145, TRUE } },
    [PAIR] = { { 60, FALSE }, { 60, FALSE } },
  };
  const guint light = chunk > 0;

  g_string_append_printf (text, "\033[38;5;%d;48;5;%um", paints[kind][light].is_light ? 16 : 231,
                          paints[kind][light].colour);
}

/* Appends the letters of some columns, without blanks at their end. */
static void append_part (GString *text, const Drawing *drawing, const PsSpan *const *owners, const char *letters,
                         guint begin, guint end)
{
  for (guint i = begin, next; i < end; i = next) {
    const char *from = letters + i * drawing->width;
    gboolean colour = drawing->style->colour;

    for (next = i + 1; next < end && owners[next] == owners[i]; next++)
      ;
    gsize length = (next - i) * drawing->width;
    while (next == end && from[length - 1] == ' ' && (!colour || owners[i] == NULL))
      length--;
    if (colour && owners[i] != NULL)
      append_paint (text, kind_of (owners[i]), owners[i]->chunk);
    else if (colour)
      g_string_append (text, "\033[90m");
    if (*from == BAR)
      g_string_append (text, "▏");
    g_string_append_len (text, from + (*from == BAR), (gssize)length - (*from == BAR));
    if (colour)
      g_string_append (text, "\033[0m");
  }
}

/* Appends each device's row, folded between two cells into blocks below each other. */
static void append_rows (GString *text, Drawing *drawing, const PsTimeline *timeline)
{
  guint room = drawing->style->fold > LABEL ? (drawing->style->fold - LABEL) / drawing->width : 0;
  guint block = drawing->style->fold == 0 ? MAX (drawing->columns, 1) : MAX (room, 1);
  g_autoptr (GPtrArray) blocks = g_ptr_array_new ();

  for (guint device = 0; device < timeline->n_devices; device++) {
    g_autofree const PsSpan **owners = find_owners (drawing, timeline, device);
    g_autofree char *letters = g_strnfill (drawing->columns * drawing->width, ' ');

    for (guint i = 0, next; i < drawing->columns; i = next) {
      for (next = i + 1; owners[i] != NULL && next < drawing->columns && owners[next] == owners[i]; next++)
        ;
      letters[i * drawing->width] = IDLE;
      if (owners[i] != NULL)
        write_op (drawing, timeline, owners[i], letters + i * drawing->width, (next - i) * drawing->width);
    }
    for (guint begin = 0, n = 0; n == 0 || begin < drawing->columns; begin += block, n++) {
      if (n == blocks->len)
        g_ptr_array_add (blocks, g_string_new (NULL));
      g_string_append_printf (blocks->pdata[n], "%3u | ", device);
      append_part (blocks->pdata[n], drawing, owners, letters, begin, MIN (begin + block, drawing->columns));
      g_string_append_c (blocks->pdata[n], '\n');
    }
  }
  for (guint n = 0; n < blocks->len; n++) {
    g_string_append_printf (text, "%s%s", n ? "\n" : "", ((GString *)blocks->pdata[n])->str);
    g_string_free (blocks->pdata[n], TRUE);
  }
}

/* Two lines: marks, 1, 2 or 5 times a power of ten apart, and the times that belong to them. */
static void append_axis (GString *text, const Drawing *drawing)
{
  double rough = (double)drawing->end_ns / MAX (drawing->columns / TICK_COLUMNS, 1);
  double power = pow (10, MAX (floor (log10 (rough)), 0)), digit = rough / power;
  double step = power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
  g_autofree char *marks = g_strnfill (drawing->columns, '-');
  g_autoptr (GString) times = g_string_new (NULL);

  for (guint i = 0; i * step < (double)drawing->end_ns; i++) {
    guint column = (guint)(i * step / (double)drawing->end_ns * drawing->columns);
    g_autofree char *time = ps_format_time ((gint64)(i * step));

    marks[column] = '+';
    if (column + strlen (time) <= drawing->columns)
      g_string_append_printf (times, "%*s%s", (int)column - (int)times->len, "", time);
  }
  g_string_append_printf (text, "%*s%s\n%*s%s\n", LABEL, "", marks, LABEL, "", times->str);
}

/* Appends an entry, on a new line where it would leave the window. */
static void append_entry (GString *text, const Drawing *drawing, guint *column, int kind, const char *entry)
{
  guint width = (guint)strlen (entry) + (kind >= 0 && drawing->style->colour ? 5 : 2);

  if (*column > 0 && *column + width > drawing->style->columns) {
    g_string_truncate (text, text->len - 2);
    g_string_append_c (text, '\n');
    *column = 0;
  }
  if (kind >= 0 && drawing->style->colour) {
    append_paint (text, (guint)kind, 0);
    g_string_append (text, "  \033[0m ");
  }
  g_string_append_printf (text, "%s  ", entry);
  *column += width;
}

static void append_legend (GString *text, const Drawing *drawing, PsTimeline *const *timelines, guint n)
{
  guint kinds = 0, column = 0;
  gboolean has_directions = drawing->n_chunks * timelines[0]->n_devices > timelines[0]->n_stages;

  for (guint t = 0; t < n; t++)
    for (guint i = 0; i < timelines[t]->ops->len; i++) {
      const PsSpan *op = &g_array_index (timelines[t]->ops, PsSpan, i);

      kinds |= 1U << op->op.kind | 1U << kind_of (op);
    }
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    if (kinds & 1U << kind) {
      g_autofree char *entry = g_strdup_printf ("%s  %s", ps_op_kind_name (kind), ps_op_kind_title (kind));

      append_entry (text, drawing, &column, (int)kind, entry);
    }
  if (kinds & 1U << PAIR)
    append_entry (text, drawing, &column, PAIR, "P  overlapped pair");
  if (drawing->n_chunks > 1) {
    g_autofree char *later = g_strconcat (drawing->style->colour ? "lighter: " : "small letters: ",
                                          has_directions ? "second direction" : "later chunks", NULL);

    append_entry (text, drawing, &column, -1, later);
  }
  append_entry (text, drawing, &column, -1,
                !drawing->has_numbers ? "a wider window (COLUMNS) has room for numbers"
                : drawing->has_slices ? "number: microbatch, letter after it: slice"
                                      : "number: microbatch");
  g_string_truncate (text, text->len - 2);
  g_string_append_c (text, '\n');
}

/* Sets the size: the window's, or cells, or columns in true proportion where those would be too many. */
static void drawing_init (Drawing *drawing, PsTimeline *const *timelines, guint n, const PsTimelineText *style,
                          gint64 *cell_ns)
{
  *drawing = (Drawing){ .style = style, .width = 1, .n_chunks = 1 };
  for (guint t = 0; t < n; t++) {
    drawing->has_slices |= ps_timeline_n_slices (timelines[t]) > 1;
    for (guint i = 0; i < timelines[t]->ops->len; i++) {
      const PsSpan *op = &g_array_index (timelines[t]->ops, PsSpan, i);

      drawing->end_ns = MAX (drawing->end_ns, op->end_ns);
      drawing->n_chunks = MAX (drawing->n_chunks, op->chunk + 1U);
    }
  }
  *cell_ns = common_cell (timelines[0]);
  if (style->columns > 0)
    drawing->columns = MAX (style->columns, LABEL + 1) - LABEL;
  else {
    drawing->width = cell_width (timelines[0]);
    if (drawing->end_ns / *cell_ns > style->max_columns / drawing->width) {
      drawing->width = 1;
      *cell_ns = MAX ((drawing->end_ns + style->max_columns - 1) / style->max_columns, 1);
    }
    drawing->columns = (guint)((drawing->end_ns + *cell_ns - 1) / *cell_ns);
    drawing->end_ns = drawing->columns * *cell_ns;
  }
  drawing->end_ns = MAX (drawing->end_ns, 1);
}

char *ps_timelines_to_text (PsTimeline *const *timelines, guint n, const PsTimelineText *style, gint64 *cell_ns)
{
  GString *text = g_string_new (NULL);
  Drawing drawing;
  gint64 own_ns;

  drawing_init (&drawing, timelines, n, style, cell_ns != NULL ? cell_ns : &own_ns);
  for (guint t = 0; t < n; t++) {
    g_autofree char *caption = ps_timeline_caption (timelines[t]), *line = ps_format_line (caption);

    if (style->columns > 0)
      g_string_append_printf (text, "%s\n", line);
    append_rows (text, &drawing, timelines[t]);
  }
  if (style->columns > 0) {
    append_axis (text, &drawing);
    append_legend (text, &drawing, timelines, n);
  }
  return g_string_free (text, FALSE);
}

/* draw.c - a timeline as text, one row per device as papers draw it. */
#include "draw.h"

#include <pipesim/option.h>

#include <string.h>
#include <unistd.h>

#define MIN_FOLD 40
#define LABEL_WIDTH 6 /* "  0 | " */
#define PAIR PS_N_OP_KINDS
#define IDLE (PAIR + 1)

void
ps_draw_style_init (PsDrawStyle *style, guint max_width)
{
  guint columns = ps_window_columns ();

  *style = (PsDrawStyle){ .max_width = max_width };
  style->colour = isatty (STDOUT_FILENO) && (g_getenv ("NO_COLOR") == NULL || *g_getenv ("NO_COLOR") == '\0');
  style->fold = columns > 0 ? MAX (columns, MIN_FOLD) : 0;
}

static gint64
last_end (const PsTimeline *timeline)
{
  gint64 end = 0;

  for (guint i = 0; i < timeline->ops->len; i++)
    end = MAX (end, g_array_index (timeline->ops, PsSpan, i).end_ns);
  return end;
}

/* The longest time that divides every start and end. */
static gint64
common_cell (const PsTimeline *timeline)
{
  gint64 cell = 0;

  for (guint i = 0; i < timeline->ops->len; i++)
    {
      const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

      cell = ps_common_divisor (ps_common_divisor (cell, span->start_ns), span->end_ns);
    }
  return MAX (cell, 1);
}

/* Kind and microbatch, and the stage where a device holds more than one: on a row of its own device it says nothing. */
static void
append_name (GString *name, PsOp op, gboolean with_stage)
{
  g_string_append_printf (name, "%s%u", ps_op_kind_name ((PsOpKind)op.kind), op.microbatch);
  if (with_stage)
    g_string_append_printf (name, ".%u", op.stage);
  if (op.slice)
    g_string_append_printf (name, "/%u", op.slice);
}

/* The name of the op at index i, joined with its partner's when it begins a pair; *next is the index after it. */
static char *
span_name (const PsTimeline *timeline, guint i, guint *next)
{
  gboolean with_stage = timeline->n_stages > timeline->n_devices;
  GString *name = g_string_new (NULL);
  const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

  append_name (name, span->op, with_stage);
  while (span->op.paired && i + 1 < timeline->ops->len)
    {
      span = &g_array_index (timeline->ops, PsSpan, ++i);
      g_string_append_c (name, '+');
      append_name (name, span->op, with_stage);
    }
  *next = i + 1;
  return g_string_free (name, FALSE);
}

static guint
cell_width (const PsTimeline *timeline)
{
  gsize width = 1;

  for (guint i = 0, next; i < timeline->ops->len; i = next)
    {
      g_autofree char *name = span_name (timeline, i, &next);

      width = MAX (width, strlen (name));
    }
  return (guint)width + 1;
}

/* To the nearest boundary, so that ops that follow each other never share a cell. */
static gsize
cell_of (gint64 time_ns, gint64 cell_ns)
{
  return (gsize)((time_ns + cell_ns / 2) / cell_ns);
}

/* One device's row: characters, and for each what colours it: a kind, PAIR or IDLE. */
typedef struct
{
  char *text;
  guint8 *kind;
  gsize length;
} Row;

static void
row_clear (gpointer data)
{
  Row *row = data;

  g_free (row->text);
  g_free (row->kind);
}

/* Fills the cells of one op: its name as far as it fits, and '=' while it goes on. Cells wider than a character end in
 * a blank. */
static void
draw_span (Row *row, const PsSpan *span, const char *name, gint64 cell_ns, guint width)
{
  gsize start = cell_of (span->start_ns, cell_ns) * width;
  gsize end = cell_of (span->end_ns, cell_ns) * width;

  if (start == end)
    return;
  memset (row->text + start, end - start > width ? '=' : ' ', end - start);
  if (width > 1)
    row->text[end - 1] = ' ';
  memcpy (row->text + start, name, MIN (strlen (name), end - start));
  memset (row->kind + start, span->op.paired ? PAIR : span->op.kind, end - start);
}

static Row
empty_row (gsize n_cells, guint width)
{
  Row row = { .length = n_cells * width };

  row.text = g_malloc (row.length + 1);
  row.kind = g_malloc (row.length + 1);
  memset (row.text, ' ', row.length);
  memset (row.kind, IDLE, row.length);
  for (gsize cell = 0; cell < n_cells; cell++)
    row.text[cell * width] = '.';
  return row;
}

/* Rows of all devices. */
static GArray *
draw_rows (const PsTimeline *timeline, gint64 cell_ns, guint width)
{
  gsize n_cells = cell_of (last_end (timeline), cell_ns);
  GArray *rows = g_array_new (FALSE, FALSE, sizeof (Row));

  g_array_set_clear_func (rows, row_clear);
  for (guint device = 0, i = 0; device < timeline->n_devices; device++)
    {
      Row row = empty_row (n_cells, width);

      while (i < timeline->ops->len && g_array_index (timeline->ops, PsSpan, i).device == device)
        {
          const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);
          g_autofree char *name = span_name (timeline, i, &i);

          draw_span (&row, span, name, cell_ns, width);
        }
      g_array_append_val (rows, row);
    }
  return rows;
}

/* Colours as PyTorch's and most papers' pictures have them. */
static const char *
colour_of (guint kind)
{
  static const char *const colours[IDLE + 1]
      = { [PS_OP_F] = "34", [PS_OP_B] = "36", [PS_OP_W] = "32", [PS_OP_BW] = "33",
          [PS_OP_R] = "35", [PS_OP_O] = "31", [PAIR] = "95",    [IDLE] = "90" };

  return colours[kind];
}

static void
append_coloured (GString *text, const Row *row, gsize start, gsize end)
{
  for (gsize i = start, next; i < end; i = next)
    {
      for (next = i; next < end && row->kind[next] == row->kind[i]; next++)
        ;
      g_string_append_printf (text, "\033[%sm%.*s\033[0m", colour_of (row->kind[i]), (int)(next - i), row->text + i);
    }
}

static void
append_row (GString *text, const Row *row, guint device, gsize start, gsize end, gboolean colour)
{
  while (end > start && row->text[end - 1] == ' ')
    end--;
  g_string_append_printf (text, "%3u | ", device);
  if (colour)
    append_coloured (text, row, start, end);
  else
    g_string_append_len (text, row->text + start, (gssize)(end - start));
  g_string_append_c (text, '\n');
}

/* Folds between two cells. */
static gsize
block_length (const Row *row, const PsDrawStyle *style, guint width)
{
  gsize room = style->fold > LABEL_WIDTH ? (style->fold - LABEL_WIDTH) / width * width : 0;

  return style->fold == 0 ? MAX (row->length, 1) : MAX (room, width);
}

static char *
join_rows (GArray *rows, const PsDrawStyle *style, guint width)
{
  GString *text = g_string_new (NULL);
  const Row *first = &g_array_index (rows, Row, 0);
  gsize length = block_length (first, style, width);

  for (gsize start = 0; start == 0 || start < first->length; start += length)
    {
      if (start > 0)
        g_string_append_c (text, '\n');
      for (guint device = 0; device < rows->len; device++)
        append_row (text, &g_array_index (rows, Row, device), device, start, MIN (start + length, first->length),
                    style->colour);
    }
  return g_string_free (text, FALSE);
}

char *
ps_draw_timeline (const PsTimeline *timeline, const PsDrawStyle *style, gint64 *cell_ns)
{
  guint width = cell_width (timeline);
  gint64 end = last_end (timeline);

  *cell_ns = common_cell (timeline);
  if (end / *cell_ns > style->max_width / width)
    {
      width = 1;
      *cell_ns = MAX ((end + style->max_width - 1) / style->max_width, 1);
    }
  g_autoptr (GArray) rows = draw_rows (timeline, *cell_ns, width);
  return join_rows (rows, style, width);
}

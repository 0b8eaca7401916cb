/* draw.c - a timeline as text, one row per device as papers draw it. */
#include "draw.h"

#include <string.h>

static gint64
greatest_common_divisor (gint64 a, gint64 b)
{
  while (b != 0)
    {
      gint64 rest = a % b;

      a = b;
      b = rest;
    }
  return a;
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

      cell = greatest_common_divisor (greatest_common_divisor (cell, span->start_ns), span->end_ns);
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

/* The name of the op at index i, joined with its partner's when it begins a pair; *next is the index behind it. */
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

/* Fills the cells of one op: its name as far as it fits, and '=' while it goes on. Cells wider than a character end in
 * a blank. */
static void
draw_span (char *row, const PsSpan *span, const char *name, gint64 cell_ns, guint width)
{
  gsize start = cell_of (span->start_ns, cell_ns) * width;
  gsize end = cell_of (span->end_ns, cell_ns) * width;

  if (start == end)
    return;
  memset (row + start, end - start > width ? '=' : ' ', end - start);
  if (width > 1)
    row[end - 1] = ' ';
  memcpy (row + start, name, MIN (strlen (name), end - start));
}

static char *
empty_row (gsize n_cells, guint width)
{
  gsize length = n_cells * width;
  char *row = g_malloc (length + 1);

  memset (row, ' ', length);
  for (gsize cell = 0; cell < n_cells; cell++)
    row[cell * width] = '.';
  row[length] = '\0';
  return row;
}

static char *
draw_rows (const PsTimeline *timeline, gint64 cell_ns, guint width)
{
  gsize n_cells = cell_of (last_end (timeline), cell_ns);
  GString *text = g_string_new (NULL);

  for (guint device = 0, i = 0; device < timeline->n_devices; device++)
    {
      g_autofree char *row = empty_row (n_cells, width);

      while (i < timeline->ops->len && g_array_index (timeline->ops, PsSpan, i).device == device)
        {
          const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);
          g_autofree char *name = span_name (timeline, i, &i);

          draw_span (row, span, name, cell_ns, width);
        }
      g_string_append_printf (text, "%3u | %s\n", device, g_strchomp (row));
    }
  return g_string_free (text, FALSE);
}

char *
ps_draw_timeline (const PsTimeline *timeline, guint max_width, gint64 *cell_ns)
{
  guint width = cell_width (timeline);
  gint64 end = last_end (timeline);

  *cell_ns = common_cell (timeline);
  if (end / *cell_ns > max_width / width)
    {
      width = 1;
      *cell_ns = MAX ((end + max_width - 1) / max_width, 1);
    }
  return draw_rows (timeline, *cell_ns, width);
}

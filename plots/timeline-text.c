/* timeline-text.c - draws timelines with letters. */
#include "timeline-text.h"

#include "scale.h"
#include "timeline-plot.h"

#include <math.h>
#include <string.h>

#define RESET "\033[0m"
#define IDLE '.'
#define PAIR_COLOUR 0x6a3d9a
#define TICK_COLUMNS 12 /* between the ticks of the time axis, about */

typedef struct
{
  guint columns; /* of the time axis */
  guint label;   /* width of a row's label */
  gboolean plain;
  gint64 end_ns;
  guint n_chunks; /* the most of a device */
  gboolean has_slices;
  gboolean has_numbers; /* an op had room for its own */
} Sheet;

static guint
count_digits (guint number)
{
  return number < 10 ? 1 : 1 + count_digits (number / 10);
}

/* The nearest colour of the 6 x 6 x 6 cube that most terminals know. Its levels are 0, then 95 to 255 in steps of 40.
 */
static guint
cube_colour (guint32 colour)
{
  guint number = 16;

  for (int shift = 16, weight = 36; shift >= 0; shift -= 8, weight /= 6)
    {
      guint part = colour >> shift & 0xff;

      number += (guint)weight * (part < 48 ? 0 : part < 115 ? 1 : (part - 35) / 40);
    }
  return number;
}

static void
append_paint (GString *text, guint32 colour)
{
  g_string_append_printf (text, "\033[38;5;%u;48;5;%um", ps_plot_text_colour (colour) == 0 ? 16U : 231U,
                          cube_colour (colour));
}

/* Later chunks are lighter, but never so light that the cube gives two kinds one colour. */
static guint32
colour_of (const Sheet *sheet, const PsSpan *op)
{
  return op->op.paired ? PAIR_COLOUR : ps_plot_op_colour (op->op.kind, op->chunk, 2 * sheet->n_chunks);
}

static gint64
column_begin (const Sheet *sheet, guint column)
{
  return (gint64)((double)sheet->end_ns * column / sheet->columns);
}

/* The part of a column that an op fills, ns. */
static gint64
overlap (const Sheet *sheet, const PsSpan *op, guint column)
{
  return MIN (op->end_ns, column_begin (sheet, column + 1)) - MAX (op->start_ns, column_begin (sheet, column));
}

/* Kinds of ops, and pairs of them. */
#define N_KINDS (PS_N_OP_KINDS + 1)

/* What fills a column: the time of each kind, and its longest op. */
typedef struct
{
  gint64 time_ns[N_KINDS];
  const PsSpan *longest[N_KINDS];
} Column;

/* The second op of a pair has the time of the first and is left out. */
static Column *
fill_columns (const Sheet *sheet, const PsTimeline *timeline, guint device)
{
  Column *columns = g_new0 (Column, sheet->columns);

  for (guint i = 0; i < timeline->ops->len; i++)
    {
      const PsSpan *op = &g_array_index (timeline->ops, PsSpan, i);
      guint c = (guint)((double)op->start_ns / (double)sheet->end_ns * sheet->columns);
      guint kind = op->op.paired ? PS_N_OP_KINDS : op->op.kind;

      if (op->device != device || (i > 0 && op[-1].device == device && op[-1].op.paired))
        continue;
      for (; c < sheet->columns && column_begin (sheet, c) < op->end_ns; c++)
        {
          const PsSpan **longest = &columns[c].longest[kind];

          columns[c].time_ns[kind] += MAX (overlap (sheet, op, c), 0);
          if (*longest == NULL || overlap (sheet, op, c) > overlap (sheet, *longest, c))
            *longest = op;
        }
    }
  return columns;
}

/* NULL where the device is idle for more than half of the column; else an op of the kind with the most time in this
 * column and in the last ones that it has not been shown for. So kinds whose ops are narrower than a column take turns
 * in proportion to their time. */
static const PsSpan *
choose_owner (const Column *column, gint64 width_ns, gint64 *owed_ns)
{
  gint64 busy_ns = 0;
  guint most = 0;

  for (guint kind = 0; kind < N_KINDS; kind++)
    busy_ns += column->time_ns[kind];
  if (2 * busy_ns < width_ns)
    return NULL;
  for (guint kind = 0; kind < N_KINDS; kind++)
    {
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
static const PsSpan **
find_owners (const Sheet *sheet, const PsTimeline *timeline, guint device)
{
  const PsSpan **owners = g_new0 (const PsSpan *, sheet->columns);
  g_autofree Column *columns = fill_columns (sheet, timeline, device);
  gint64 owed_ns[N_KINDS] = { 0 };

  for (guint c = 0; c < sheet->columns; c++)
    owners[c] = choose_owner (&columns[c], column_begin (sheet, c + 1) - column_begin (sheet, c), owed_ns);
  return owners;
}

/* The microbatch, and a letter for its slice: "3b". Free with g_free. */
static char *
number_of (const Sheet *sheet, const PsSpan *op)
{
  return sheet->has_slices ? g_strdup_printf ("%u%c", (guint)op->op.microbatch, 'a' + op->op.slice % 26)
                           : g_strdup_printf ("%u", (guint)op->op.microbatch);
}

static void
append_plain (GString *text, Sheet *sheet, const PsSpan *op, guint length)
{
  gsize begin = text->len;

  while (text->len < begin + length)
    g_string_append_c (text, op != NULL ? '-' : IDLE);
  if (op != NULL)
    {
      const char *kind = op->op.paired ? "P" : ps_op_kind_name (op->op.kind);
      g_autofree char *letters = op->chunk > 0 ? g_ascii_strdown (kind, -1) : g_strdup (kind);
      g_autofree char *number = number_of (sheet, op), *name = g_strconcat (letters, number, NULL);
      const char *shown = strlen (name) <= length ? name : letters;

      sheet->has_numbers |= shown == name;

      memcpy (text->str + begin, shown, MIN (strlen (shown), length));
    }
}

/* An op without room for its number begins with a thin bar, so that neighbours stay apart. */
static void
append_painted (GString *text, Sheet *sheet, const PsSpan *op, guint length)
{
  g_autofree char *number = op != NULL ? number_of (sheet, op) : NULL;
  guint used = 0;

  if (op != NULL)
    append_paint (text, colour_of (sheet, op));
  if (op != NULL && length > strlen (number))
    {
      g_string_append (text, number);
      used = (guint)strlen (number);
      sheet->has_numbers = TRUE;
    }
  else if (op != NULL && length > 1)
    {
      g_string_append (text, "▏");
      used = 1;
    }
  g_string_append_printf (text, "%*s", (int)(length - used), "");
  if (op != NULL)
    g_string_append (text, RESET);
}

static void
append_row (GString *text, Sheet *sheet, const PsTimeline *timeline, guint device)
{
  g_autofree const PsSpan **owners = find_owners (sheet, timeline, device);

  g_string_append_printf (text, "%*u ", (int)sheet->label - 1, device);
  for (guint i = 0, end; i < sheet->columns; i = end)
    {
      for (end = i + 1; end < sheet->columns && owners[end] == owners[i]; end++)
        ;
      if (sheet->plain)
        append_plain (text, sheet, owners[i], end - i);
      else
        append_painted (text, sheet, owners[i], end - i);
    }
  g_string_append_c (text, '\n');
}

/* Two lines: marks, and the times that belong to them. */
static void
append_axis (GString *text, const Sheet *sheet)
{
  PsPlotUnit unit = ps_plot_time_unit (sheet->end_ns);
  double end = (double)sheet->end_ns / unit.size, step = ps_plot_tick_step (end, sheet->columns / TICK_COLUMNS);
  g_autofree char *marks = g_strnfill (sheet->columns, '-');
  g_autoptr (GString) times = g_string_new (NULL);

  for (guint i = 0; i * step < end; i++)
    {
      guint column = (guint)(i * step / end * sheet->columns);

      marks[column] = '+';
      g_string_append_printf (times, "%*s%g", (int)column - (int)times->len, "", i * step);
      if (i == 0)
        g_string_append_printf (times, " %s", unit.name);
    }
  g_string_append_printf (text, "%*s%s\n%*s%s\n", (int)sheet->label, "", marks, (int)sheet->label, "", times->str);
}

/* Appends an entry, on a new line where it would leave the window. */
static void
append_entry (GString *text, const Sheet *sheet, guint *column, gint64 colour, const char *entry)
{
  guint width = (guint)strlen (entry) + (colour >= 0 ? 5 : 2);

  if (*column > 0 && *column + width > sheet->label + sheet->columns)
    {
      g_string_truncate (text, text->len - 2);
      g_string_append_c (text, '\n');
      *column = 0;
    }
  if (colour >= 0)
    {
      append_paint (text, (guint32)colour);
      g_string_append (text, "  " RESET " ");
    }
  g_string_append_printf (text, "%s  ", entry);
  *column += width;
}

static void
append_legend (GString *text, const Sheet *sheet, PsTimeline *const *timelines, guint n)
{
  guint kinds = 0, column = 0;
  gboolean pairs = FALSE, has_directions = sheet->n_chunks * timelines[0]->n_devices > timelines[0]->n_stages;

  for (guint t = 0; t < n; t++)
    for (guint i = 0; i < timelines[t]->ops->len; i++)
      {
        const PsSpan *op = &g_array_index (timelines[t]->ops, PsSpan, i);

        kinds |= 1U << op->op.kind;
        pairs |= op->op.paired;
      }
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    if (kinds & 1U << kind)
      append_entry (text, sheet, &column, sheet->plain ? -1 : (gint64)ps_plot_op_colour (kind, 0, 2 * sheet->n_chunks),
                    ps_plot_kind_label (kind));
  if (pairs)
    append_entry (text, sheet, &column, sheet->plain ? -1 : PAIR_COLOUR, "P  overlapped pair");
  if (sheet->n_chunks > 1)
    {
      g_autofree char *later = g_strconcat (
          sheet->plain ? "small letters: " : "lighter: ", has_directions ? "second direction" : "later chunks", NULL);

      append_entry (text, sheet, &column, -1, later);
    }
  append_entry (text, sheet, &column, -1,
                !sheet->has_numbers ? "a wider window (COLUMNS) has room for numbers"
                : sheet->has_slices ? "number: microbatch, letter after it: slice"
                                    : "number: microbatch");
  g_string_truncate (text, text->len - 2);
  g_string_append_c (text, '\n');
}

static void
sheet_init (Sheet *sheet, PsTimeline *const *timelines, guint n, guint columns, gboolean plain)
{
  guint most = 1;

  *sheet = (Sheet){ .plain = plain, .n_chunks = 1 };
  for (guint t = 0; t < n; t++)
    {
      most = MAX (most, timelines[t]->n_devices);
      sheet->end_ns = MAX (sheet->end_ns, ps_timeline_end (timelines[t]));
      sheet->has_slices |= ps_timeline_n_slices (timelines[t]) > 1;
      for (guint i = 0; i < timelines[t]->ops->len; i++)
        sheet->n_chunks = MAX (sheet->n_chunks, g_array_index (timelines[t]->ops, PsSpan, i).chunk + 1U);
    }
  sheet->label = count_digits (most - 1) + 1;
  sheet->columns = columns - sheet->label;
}

char *
ps_timeline_to_text (PsTimeline *const *timelines, guint n, guint columns, gboolean plain)
{
  GString *text = g_string_new (NULL);
  Sheet sheet;

  sheet_init (&sheet, timelines, n, columns, plain);
  for (guint t = 0; t < n; t++)
    {
      g_autofree char *caption = ps_timeline_caption (timelines[t]), *line = ps_format_line (caption);

      g_string_append_printf (text, "%s\n", line);
      for (guint device = 0; device < timelines[t]->n_devices; device++)
        append_row (text, &sheet, timelines[t], device);
    }
  append_axis (text, &sheet);
  append_legend (text, &sheet, timelines, n);
  return g_string_free (text, FALSE);
}

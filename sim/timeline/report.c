/* report.c - one table, printed as aligned text or as JSON. */
#include "json/json-text.h"
#include "report-private.h"

#include <errno.h>
#include <math.h>

PsTable *
ps_table_new (const PsColumn *columns, guint n_columns)
{
  PsTable *table = g_new0 (PsTable, 1);

  table->columns = columns;
  table->n_columns = n_columns;
  table->rows = g_ptr_array_new ();
  return table;
}

static void
cell_clear (PsCell *cell, PsColumnType type)
{
  if (cell->set && type == PS_COLUMN_TEXT)
    g_free (cell->text);
  else if (cell->set && type == PS_COLUMN_TABLE)
    ps_table_free (cell->table);
  else if (cell->set && type == PS_COLUMN_NUMBERS)
    g_array_unref (cell->numbers);
  else if (cell->set && type == PS_COLUMN_LISTS)
    g_ptr_array_unref (cell->lists);
  cell->set = FALSE;
}

void
ps_table_free (PsTable *table)
{
  if (table == NULL)
    return;
  for (guint i = 0; i < table->rows->len; i++)
    {
      PsCell *row = table->rows->pdata[i];

      for (guint c = 0; c < table->n_columns; c++)
        cell_clear (&row[c], table->columns[c].type);
      g_free (row);
    }
  g_ptr_array_unref (table->rows);
  g_free (table);
}

/* Filling */

void
ps_table_add_row (PsTable *table)
{
  g_ptr_array_add (table->rows, g_new0 (PsCell, table->n_columns));
}

static guint
find_column (const PsTable *table, const char *key)
{
  for (guint c = 0; c < table->n_columns; c++)
    if (g_str_equal (table->columns[c].key, key))
      return c;
  g_error ("no column '%s'", key);
}

#define TYPE(type) (1U << (type))

/* The cleared cell of the last row under that key, marked as set. */
static PsCell *
touch (PsTable *table, const char *key, guint types)
{
  guint c = find_column (table, key);
  PsCell *cell;

  g_assert (table->rows->len > 0);
  g_assert (types & TYPE (table->columns[c].type));
  cell = (PsCell *)table->rows->pdata[table->rows->len - 1] + c;
  cell_clear (cell, table->columns[c].type);
  cell->set = TRUE;
  return cell;
}

void
ps_table_set_text (PsTable *table, const char *key, const char *value)
{
  touch (table, key, TYPE (PS_COLUMN_TEXT))->text = g_strdup (value != NULL ? value : "");
}

void
ps_table_set_integer (PsTable *table, const char *key, gint64 value)
{
  touch (table, key, TYPE (PS_COLUMN_INTEGER) | TYPE (PS_COLUMN_TIME) | TYPE (PS_COLUMN_SIZE))->integer = value;
}

void
ps_table_set_ratio (PsTable *table, const char *key, double value)
{
  PsCell *cell = touch (table, key, TYPE (PS_COLUMN_RATIO) | TYPE (PS_COLUMN_NUMBER) | TYPE (PS_COLUMN_PERCENT));

  cell->ratio = value;
  cell->set = !isnan (value);
}

void
ps_table_set_boolean (PsTable *table, const char *key, gboolean value)
{
  touch (table, key, TYPE (PS_COLUMN_BOOLEAN))->integer = value;
}

void
ps_table_set_table (PsTable *table, const char *key, PsTable *value)
{
  touch (table, key, TYPE (PS_COLUMN_TABLE))->table = value;
}

void
ps_table_set_numbers (PsTable *table, const char *key, const double *values, guint n)
{
  GArray *numbers = g_array_sized_new (FALSE, FALSE, sizeof (double), n);

  if (n > 0)
    g_array_append_vals (numbers, values, n);
  touch (table, key, TYPE (PS_COLUMN_NUMBERS))->numbers = numbers;
}

void
ps_table_set_lists (PsTable *table, const char *key, GPtrArray *lists)
{
  touch (table, key, TYPE (PS_COLUMN_LISTS))->lists = lists;
}

guint
ps_table_n_rows (const PsTable *table)
{
  return table->rows->len;
}

/* Sorting */

typedef struct
{
  guint column;
  gboolean ratio;
  gboolean descending;
} SortKey;

static int
compare_rows (gconstpointer a, gconstpointer b, gpointer data)
{
  const SortKey *key = data;
  const PsCell *x = *(PsCell *const *)a + key->column, *y = *(PsCell *const *)b + key->column;
  int order;

  if (!x->set || !y->set)
    return y->set - x->set;
  if (key->ratio)
    order = (x->ratio > y->ratio) - (x->ratio < y->ratio);
  else
    order = (x->integer > y->integer) - (x->integer < y->integer);
  return key->descending ? -order : order;
}

void
ps_table_sort (PsTable *table, const char *key, gboolean descending)
{
  guint c = find_column (table, key);
  PsColumnType type = table->columns[c].type;
  SortKey sort = { c, type == PS_COLUMN_RATIO || type == PS_COLUMN_NUMBER || type == PS_COLUMN_PERCENT, descending };

  g_assert (sort.ratio || type == PS_COLUMN_INTEGER || type == PS_COLUMN_TIME || type == PS_COLUMN_SIZE
            || type == PS_COLUMN_BOOLEAN);
  g_ptr_array_sort_with_data (table->rows, compare_rows, &sort);
}

/* Text */

static gboolean
is_printed (const PsColumn *column)
{
  return column->title != NULL && column->type != PS_COLUMN_TABLE && column->type != PS_COLUMN_NUMBERS
         && column->type != PS_COLUMN_LISTS;
}

static char *
cell_to_text (const PsCell *cell, PsColumnType type)
{
  if (!cell->set)
    return g_strdup ("-");
  switch (type)
    {
    case PS_COLUMN_TEXT:
      return ps_format_line (cell->text);
    case PS_COLUMN_INTEGER:
      return g_strdup_printf ("%" G_GINT64_FORMAT, cell->integer);
    case PS_COLUMN_TIME:
      return ps_format_time (cell->integer);
    case PS_COLUMN_SIZE:
      return ps_format_size (cell->integer);
    case PS_COLUMN_RATIO:
      return g_strdup_printf ("%.4f", cell->ratio);
    case PS_COLUMN_NUMBER:
      return g_strdup_printf ("%.6g", cell->ratio);
    case PS_COLUMN_PERCENT:
      return g_strdup_printf ("%+.2f %%", cell->ratio * 100);
    case PS_COLUMN_BOOLEAN:
      return g_strdup (cell->integer ? "yes" : "no");
    case PS_COLUMN_TABLE:
    case PS_COLUMN_NUMBERS:
    case PS_COLUMN_LISTS:
    default:
      g_assert_not_reached ();
    }
}

static gboolean
is_left (PsColumnType type)
{
  return type == PS_COLUMN_TEXT || type == PS_COLUMN_BOOLEAN;
}

static void
append_padded (GString *line, const char *text, glong width, gboolean left)
{
  glong pad = width - g_utf8_strlen (text, -1);

  if (line->len > 0)
    g_string_append (line, "  ");
  g_string_append_printf (line, "%*s%s%*s", left ? 0 : (int)pad, "", text, left ? (int)pad : 0, "");
}

/* texts: [1 + rows][columns], the heading first; NULL where a column is not printed. */
static char **
all_texts (const PsTable *table)
{
  guint n = table->n_columns;
  char **texts = g_new0 (char *, (gsize)(table->rows->len + 1) * n + 1);

  for (guint c = 0; c < n; c++)
    {
      if (!is_printed (&table->columns[c]))
        continue;
      texts[c] = g_strdup (table->columns[c].title);
      for (guint r = 0; r < table->rows->len; r++)
        texts[(r + 1) * n + c] = cell_to_text ((PsCell *)table->rows->pdata[r] + c, table->columns[c].type);
    }
  return texts;
}

static glong
column_width (char *const *texts, guint n_rows, guint n_columns, guint column)
{
  glong width = 0;

  for (guint r = 0; r < n_rows; r++)
    width = MAX (width, g_utf8_strlen (texts[r * n_columns + column], -1));
  return width;
}

static void
free_texts (char **texts, guint n)
{
  for (guint i = 0; i < n; i++)
    g_free (texts[i]);
  g_free (texts);
}

char *
ps_table_to_text (const PsTable *table)
{
  guint n = table->n_columns, n_rows = table->rows->len + 1;
  char **texts = all_texts (table);
  g_autofree glong *widths = g_new0 (glong, n);
  GString *text = g_string_new (NULL);

  for (guint c = 0; c < n; c++)
    widths[c] = texts[c] != NULL ? column_width (texts, n_rows, n, c) : 0;
  for (guint r = 0; r < n_rows; r++)
    {
      g_autoptr (GString) line = g_string_new (NULL);

      for (guint c = 0; c < n; c++)
        if (texts[c] != NULL)
          append_padded (line, texts[r * n + c], widths[c], is_left (table->columns[c].type));
      g_string_append_printf (text, "%s\n", g_strchomp (line->str));
    }
  free_texts (texts, n_rows * n);
  return g_string_free (text, FALSE);
}

/* Markdown */

/* A bar would end the cell. */
static void
append_markdown_cell (GString *text, const char *cell)
{
  g_auto (GStrv) parts = g_strsplit (cell, "|", -1);
  g_autofree char *escaped = g_strjoinv ("\\|", parts);

  g_string_append_printf (text, " %s |", escaped);
}

char *
ps_table_to_markdown (const PsTable *table)
{
  guint n = table->n_columns, n_rows = table->rows->len + 1;
  char **texts = all_texts (table);
  GString *text = g_string_new (NULL);

  for (guint r = 0; r < n_rows; r++)
    {
      g_string_append_c (text, '|');
      for (guint c = 0; c < n; c++)
        if (texts[c] != NULL)
          append_markdown_cell (text, texts[r * n + c]);
      g_string_append (text, r == 0 ? "\n|" : "\n");
      for (guint c = 0; r == 0 && c < n; c++)
        if (texts[c] != NULL)
          g_string_append (text, is_left (table->columns[c].type) ? " --- |" : " ---: |");
      g_string_append (text, r == 0 ? "\n" : "");
    }
  free_texts (texts, n_rows * n);
  return g_string_free (text, FALSE);
}

/* JSON */

static void append_object (GString *json, const PsTable *table, guint row, int indent);

static void
append_rows (GString *json, const PsTable *table, int indent)
{
  for (guint r = 0; r < table->rows->len; r++)
    {
      g_string_append_printf (json, "%s\n%*s", r ? "," : "", indent + 2, "");
      append_object (json, table, r, indent + 2);
    }
  if (table->rows->len > 0)
    g_string_append_printf (json, "\n%*s", indent, "");
}

/* One list to a line. */
static void
append_lists (GString *json, const GPtrArray *lists, int indent)
{
  g_string_append_c (json, '[');
  for (guint i = 0; i < lists->len; i++)
    {
      const char *const *list = lists->pdata[i];

      g_string_append_printf (json, "%s\n%*s[", i ? "," : "", indent + 2, "");
      for (guint k = 0; list[k] != NULL; k++)
        {
          g_string_append (json, k ? ", " : "");
          ps_json_append_string (json, list[k]);
        }
      g_string_append_c (json, ']');
    }
  if (lists->len > 0)
    g_string_append_printf (json, "\n%*s", indent, "");
  g_string_append_c (json, ']');
}

static void
append_cell (GString *json, const PsCell *cell, PsColumnType type, int indent)
{
  switch (type)
    {
    case PS_COLUMN_TEXT:
      ps_json_append_string (json, cell->text);
      return;
    case PS_COLUMN_RATIO:
    case PS_COLUMN_NUMBER:
    case PS_COLUMN_PERCENT:
      ps_json_append_double (json, cell->ratio);
      return;
    case PS_COLUMN_BOOLEAN:
      g_string_append (json, cell->integer ? "true" : "false");
      return;
    case PS_COLUMN_TABLE:
    case PS_COLUMN_NUMBERS:
      g_string_append_c (json, '[');
      if (type == PS_COLUMN_TABLE)
        append_rows (json, cell->table, indent);
      for (guint i = 0; type == PS_COLUMN_NUMBERS && i < cell->numbers->len; i++)
        {
          g_string_append (json, i ? ", " : "");
          ps_json_append_double (json, g_array_index (cell->numbers, double, i));
        }
      g_string_append_c (json, ']');
      return;
    case PS_COLUMN_LISTS:
      append_lists (json, cell->lists, indent);
      return;
    case PS_COLUMN_INTEGER:
    case PS_COLUMN_TIME:
    case PS_COLUMN_SIZE:
    default:
      g_string_append_printf (json, "%" G_GINT64_FORMAT, cell->integer);
      return;
    }
}

static void
append_object (GString *json, const PsTable *table, guint row, int indent)
{
  const PsCell *cells = table->rows->pdata[row];

  g_string_append_c (json, '{');
  for (guint c = 0; c < table->n_columns; c++)
    {
      g_string_append_printf (json, "%s\n%*s\"%s\": ", c ? "," : "", indent + 2, "", table->columns[c].key);
      if (cells[c].set)
        append_cell (json, &cells[c], table->columns[c].type, indent + 2);
      else
        g_string_append (json, "null");
    }
  g_string_append_printf (json, "\n%*s}", indent, "");
}

char *
ps_table_to_json (const PsTable *table, const char *format, const char *const *extra)
{
  GString *json = g_string_new ("{\n  \"format\": ");

  ps_json_append_string (json, format);
  for (; extra != NULL && extra[0] != NULL; extra += 2)
    {
      g_string_append_printf (json, ",\n  \"%s\": ", extra[0]);
      ps_json_append_string (json, extra[1]);
    }
  g_string_append (json, ",\n  \"results\": [");
  append_rows (json, table, 2);
  g_string_append (json, "]\n}\n");
  return g_string_free (json, FALSE);
}

gboolean
ps_print (const char *text, GError **error)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autofree char *safe = NULL;

  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_autofree char *line = lines[i];

      lines[i] = ps_format_line (line);
    }
  safe = g_strjoinv ("\n", lines);
  return ps_print_raw (safe, error);
}

gboolean
ps_print_raw (const char *text, GError **error)
{
  if (fputs (text, stdout) != EOF && fflush (stdout) == 0)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_IO, "standard output: %s", g_strerror (errno));
  clearerr (stdout);
  return FALSE;
}

/* table.c - the cells of a table, and the table as JSON. */
#include "json.h"
#include "table-private.h"

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
ps_table_truncate (PsTable *table, guint n)
{
  while (table->rows->len > n)
    {
      PsCell *row = g_ptr_array_steal_index (table->rows, table->rows->len - 1);

      for (guint c = 0; c < table->n_columns; c++)
        cell_clear (&row[c], table->columns[c].type);
      g_free (row);
    }
}

void
ps_table_free (PsTable *table)
{
  if (table == NULL)
    return;
  ps_table_truncate (table, 0);
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

/* The cleared cell of the last row under that key, marked as set. */
static PsCell *
touch (PsTable *table, const char *key, guint types)
{
  guint c = find_column (table, key);

  g_assert (table->rows->len > 0);
  g_assert (types & PS_COLUMN_BIT (table->columns[c].type));
  PsCell *cell = (PsCell *)table->rows->pdata[table->rows->len - 1] + c;
  cell_clear (cell, table->columns[c].type);
  cell->set = TRUE;
  return cell;
}

void
ps_table_set_text (PsTable *table, const char *key, const char *value)
{
  touch (table, key, PS_COLUMN_BIT (PS_COLUMN_TEXT))->text = g_strdup (value != NULL ? value : "");
}

void
ps_table_set_integer (PsTable *table, const char *key, gint64 value)
{
  touch (table, key,
         PS_COLUMN_BIT (PS_COLUMN_INTEGER) | PS_COLUMN_BIT (PS_COLUMN_TIME) | PS_COLUMN_BIT (PS_COLUMN_SIZE))
      ->integer
      = value;
}

void
ps_table_set_ratio (PsTable *table, const char *key, double value)
{
  PsCell *cell = touch (table, key, PS_COLUMNS_OF_REALS);

  cell->ratio = value;
  cell->set = !isnan (value);
}

void
ps_table_set_boolean (PsTable *table, const char *key, gboolean value)
{
  touch (table, key, PS_COLUMN_BIT (PS_COLUMN_BOOLEAN))->integer = value;
}

void
ps_table_set_table (PsTable *table, const char *key, PsTable *value)
{
  touch (table, key, PS_COLUMN_BIT (PS_COLUMN_TABLE))->table = value;
}

void
ps_table_set_numbers (PsTable *table, const char *key, const double *values, guint n)
{
  GArray *numbers = g_array_sized_new (FALSE, FALSE, sizeof (double), n);

  if (n > 0)
    g_array_append_vals (numbers, values, n);
  touch (table, key, PS_COLUMN_BIT (PS_COLUMN_NUMBERS))->numbers = numbers;
}

void
ps_table_set_lists (PsTable *table, const char *key, GPtrArray *lists)
{
  touch (table, key, PS_COLUMN_BIT (PS_COLUMN_LISTS))->lists = lists;
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
  gboolean text;
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
  if (key->text)
    order = strcmp (x->text, y->text);
  else if (key->ratio)
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
  SortKey sort = { c, (PS_COLUMN_BIT (type) & PS_COLUMNS_OF_REALS) != 0, type == PS_COLUMN_TEXT, descending };

  g_assert (sort.ratio || sort.text || type == PS_COLUMN_INTEGER || type == PS_COLUMN_TIME || type == PS_COLUMN_SIZE
            || type == PS_COLUMN_BOOLEAN);
  g_ptr_array_sort_with_data (table->rows, compare_rows, &sort);
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
    case PS_COLUMN_RATE:
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
ps_table_to_json_with (const PsTable *table, const char *format, const char *const *extra, const char *const *values)
{
  GString *json = g_string_new ("{\n  \"format\": ");

  ps_json_append_string (json, format);
  for (; extra != NULL && extra[0] != NULL; extra += 2)
    {
      g_string_append_printf (json, ",\n  \"%s\": ", extra[0]);
      ps_json_append_string (json, extra[1]);
    }
  for (; values != NULL && values[0] != NULL; values += 2)
    g_string_append_printf (json, ",\n  \"%s\": %s", values[0], values[1]);
  g_string_append (json, ",\n  \"results\": [");
  append_rows (json, table, 2);
  g_string_append (json, "]\n}\n");
  return g_string_free (json, FALSE);
}

char *
ps_table_to_json (const PsTable *table, const char *format, const char *const *extra)
{
  return ps_table_to_json_with (table, format, extra, NULL);
}

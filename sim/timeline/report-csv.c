/* report-csv.c - a table as comma-separated values. */
#include "json/json-text.h"
#include "report-private.h"

#include <string.h>

static void
append_csv_text (GString *csv, const char *cell)
{
  g_autofree char *line = ps_format_line (cell);
  const char *text = line;

  if (strpbrk (text, ",\"") == NULL)
    {
      g_string_append (csv, text);
      return;
    }
  g_string_append_c (csv, '"');
  for (; *text; text++)
    g_string_append_printf (csv, *text == '"' ? "\"\"" : "%c", *text);
  g_string_append_c (csv, '"');
}

static void
append_csv_cell (GString *csv, const PsCell *cell, PsColumnType type)
{
  if (!cell->set)
    return;
  if (type == PS_COLUMN_TEXT)
    append_csv_text (csv, cell->text);
  else if ((PS_COLUMN_BIT (type) & PS_COLUMNS_OF_REALS) != 0)
    ps_json_append_double (csv, cell->ratio);
  else if (type == PS_COLUMN_BOOLEAN)
    g_string_append (csv, cell->integer ? "true" : "false");
  else
    g_string_append_printf (csv, "%" G_GINT64_FORMAT, cell->integer);
}

/* Without a choice CSV has all that it can hold. */
static GArray *
csv_columns (const PsTable *table)
{
  GArray *columns;

  if (table->choice != NULL && table->choice->columns != NULL)
    return ps_table_shown (table);
  columns = g_array_new (FALSE, FALSE, sizeof (guint));
  for (guint c = 0; c < table->n_columns; c++)
    if (ps_column_is_flat (&table->columns[c]))
      g_array_append_val (columns, c);
  return columns;
}

char *
ps_table_to_csv (const PsTable *table)
{
  g_autoptr (GArray) columns = csv_columns (table);
  GString *csv = g_string_new (NULL);

  for (guint r = 0; r <= table->rows->len; r++)
    {
      for (guint i = 0; i < columns->len; i++)
        {
          guint c = g_array_index (columns, guint, i);

          g_string_append (csv, i > 0 ? "," : "");
          if (r == 0)
            append_csv_text (csv, table->columns[c].key);
          else
            append_csv_cell (csv, (const PsCell *)table->rows->pdata[r - 1] + c, table->columns[c].type);
        }
      g_string_append_c (csv, '\n');
    }
  return g_string_free (csv, FALSE);
}

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

static gboolean
is_flat (PsColumnType type)
{
  return type != PS_COLUMN_TABLE && type != PS_COLUMN_NUMBERS && type != PS_COLUMN_LISTS;
}

static void
append_csv_cell (GString *csv, const PsCell *cell, PsColumnType type)
{
  if (!cell->set)
    return;
  if (type == PS_COLUMN_TEXT)
    append_csv_text (csv, cell->text);
  else if (type == PS_COLUMN_RATIO || type == PS_COLUMN_NUMBER || type == PS_COLUMN_PERCENT)
    ps_json_append_double (csv, cell->ratio);
  else if (type == PS_COLUMN_BOOLEAN)
    g_string_append (csv, cell->integer ? "true" : "false");
  else
    g_string_append_printf (csv, "%" G_GINT64_FORMAT, cell->integer);
}

char *
ps_table_to_csv (const PsTable *table)
{
  GString *csv = g_string_new (NULL);

  for (guint r = 0; r <= table->rows->len; r++)
    {
      const char *comma = "";

      for (guint c = 0; c < table->n_columns; c++)
        {
          if (!is_flat (table->columns[c].type))
            continue;
          g_string_append (csv, comma);
          comma = ",";
          if (r == 0)
            append_csv_text (csv, table->columns[c].key);
          else
            append_csv_cell (csv, (const PsCell *)table->rows->pdata[r - 1] + c, table->columns[c].type);
        }
      g_string_append_c (csv, '\n');
    }
  return g_string_free (csv, FALSE);
}

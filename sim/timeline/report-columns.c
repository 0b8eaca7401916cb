/* report-columns.c - the columns that a printed table shows, and what people call them. */
#include "report-private.h"

#include <string.h>

const PsOption ps_column_rows[] = {
  PS_OPTION ("columns", 0, PS_LIST (PsColumnChoice, columns), "NAME,...",
             "Columns of the printed table, by their headings or JSON keys, in this order",
             .otherwise = "the usual ones", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("wide", 0, PS_FLAG (PsColumnChoice, wide), NULL, "Print all columns", .group = PS_GROUP_OUTPUT),
  PS_OPTION_END,
};

static char
simplify (char letter)
{
  return letter == '_' || letter == ' ' ? '-' : g_ascii_tolower (letter);
}

static gboolean
is_alike (const char *a, const char *b)
{
  for (; *a != '\0' && simplify (*a) == simplify (*b); a++)
    b++;
  return *a == *b;
}

gboolean
ps_column_is_called (const PsColumn *column, const char *name)
{
  return is_alike (column->key, name) || (column->title != NULL && is_alike (column->title, name));
}

gboolean
ps_column_is_flat (const PsColumn *column)
{
  return column->type != PS_COLUMN_TABLE && column->type != PS_COLUMN_NUMBERS && column->type != PS_COLUMN_LISTS;
}

/* The index of the flat column that is called so; n: there is none. */
static guint
find_called (const PsColumn *columns, guint n, const char *name)
{
  guint i = 0;

  while (i < n && !(ps_column_is_flat (&columns[i]) && ps_column_is_called (&columns[i], name)))
    i++;
  return i;
}

gboolean
ps_column_choice_check_json (const PsColumnChoice *choice, gboolean json, GError **error)
{
  if (!json || (!choice->wide && choice->columns == NULL))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--%s: is for printed tables; the JSON holds all columns",
                    choice->wide ? "wide" : "columns");
}

static gboolean
check_names (const PsColumnChoice *choice, const PsTable *tables, guint n, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();

  for (guint t = 0; t < n; t++)
    for (guint i = 0; i < tables[t].n_columns; i++)
      if (tables[t].columns[i].title != NULL && ps_column_is_flat (&tables[t].columns[i])
          && !g_ptr_array_find_with_equal_func (names, tables[t].columns[i].title, g_str_equal, NULL))
        g_ptr_array_add (names, (gpointer)tables[t].columns[i].title);
  for (guint i = 0; choice->columns != NULL && choice->columns[i] != NULL; i++)
    {
      guint t = 0;

      while (t < n && find_called (tables[t].columns, tables[t].n_columns, choice->columns[i]) == tables[t].n_columns)
        t++;
      g_autofree char *problem = g_strdup_printf ("--columns: '%s' is no column; there are", choice->columns[i]);
      if (t == n)
        return ps_refuse_name (error, problem, choice->columns[i], (const char *const *)names->pdata, names->len);
    }
  return TRUE;
}

gboolean
ps_column_choice_check (const PsColumnChoice *choice, const PsColumn *columns, guint n, gboolean json, GError **error)
{
  const PsTable table = { .columns = columns, .n_columns = n };

  return ps_column_choice_check_json (choice, json, error) && check_names (choice, &table, 1, error);
}

gboolean
ps_tables_choose (PsTable *const *tables, guint n, const PsColumnChoice *choice, GError **error)
{
  g_autofree PsTable *all = g_new (PsTable, n);

  for (guint i = 0; i < n; i++)
    all[i] = *tables[i];
  if (!check_names (choice, all, n, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    ps_table_choose (tables[i], choice, tables[i]->usual);
  return TRUE;
}

void
ps_table_choose (PsTable *table, const PsColumnChoice *choice, const char *const *usual)
{
  table->choice = choice;
  table->usual = usual;
}

GArray *
ps_table_shown (const PsTable *table)
{
  GArray *shown = g_array_new (FALSE, FALSE, sizeof (guint));
  const PsColumnChoice *choice = table->choice;
  gboolean all = table->usual == NULL || (choice != NULL && choice->wide);

  for (guint i = 0; choice != NULL && choice->columns != NULL && choice->columns[i] != NULL; i++)
    {
      guint c = find_called (table->columns, table->n_columns, choice->columns[i]);

      if (c < table->n_columns)
        g_array_append_val (shown, c);
    }
  for (guint c = 0; (choice == NULL || choice->columns == NULL) && c < table->n_columns; c++)
    if (table->columns[c].title != NULL && ps_column_is_flat (&table->columns[c])
        && (all || g_strv_contains (table->usual, table->columns[c].key)))
      g_array_append_val (shown, c);
  return shown;
}

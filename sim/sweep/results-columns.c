/* results-columns.c - the columns of a prediction: those of the options of SETTING, and figures as data/results.sql has
 * them. */
#include "results-private.h"
#include "setting/options.h"

#include <string.h>

static const PsResultColumn figures[PS_N_FIGURES] = {
  [PS_FIGURE_MAKESPAN_NS] = { { "makespan_ns", "makespan", PS_COLUMN_TIME }, PS_ROLE_FIGURE },
  [PS_FIGURE_MAX_SPAN_NS] = { { "max_span_ns", "longest span", PS_COLUMN_TIME }, PS_ROLE_FIGURE },
  [PS_FIGURE_ITERATION_NS] = { { "iteration_ns", "iteration", PS_COLUMN_TIME }, PS_ROLE_FIGURE },
  [PS_FIGURE_BUBBLE_RATIO] = { { "bubble_ratio", "bubble of iteration", PS_COLUMN_RATIO }, PS_ROLE_FIGURE },
  [PS_FIGURE_BUBBLE_RATIO_SPAN] = { { "bubble_ratio_span", "bubble of span", PS_COLUMN_RATIO }, PS_ROLE_FIGURE },
  [PS_FIGURE_LOWER_BOUND_NS] = { { "lower_bound_ns", "lower bound", PS_COLUMN_TIME }, PS_ROLE_FIGURE },
  [PS_FIGURE_PEAK_MEMORY_BYTES] = { { "peak_memory_bytes", "peak memory", PS_COLUMN_SIZE }, PS_ROLE_FIGURE },
  [PS_FIGURE_FEASIBLE] = { { "feasible", "fits", PS_COLUMN_BOOLEAN }, PS_ROLE_FIGURE },
  [PS_FIGURE_ASYNCHRONOUS] = { { "asynchronous", "async", PS_COLUMN_BOOLEAN }, PS_ROLE_FIGURE },
  [PS_FIGURE_PERIOD_ITERATIONS] = { { "period_iterations", "period", PS_COLUMN_INTEGER }, PS_ROLE_FIGURE },
  [PS_FIGURE_DEVICES_DETAIL] = { { "devices_detail", NULL, PS_COLUMN_TEXT }, PS_ROLE_FIGURE },
  [PS_FIGURE_ORIGIN] = { { "origin", "origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  [PS_FIGURE_COSTS_ORIGIN] = { { "costs_origin", "costs origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  [PS_FIGURE_TRANSFERS_ORIGIN] = { { "transfers_origin", "transfers origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  [PS_FIGURE_MEMORY_ORIGIN] = { { "memory_origin", "memory origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  [PS_FIGURE_UNREST] = { { "unrest", "unrest", PS_COLUMN_RATIO }, PS_ROLE_ORIGIN },
  [PS_FIGURE_SEQUENCE_NS] = { { "sequence_ns", "per sequence", PS_COLUMN_TIME }, PS_ROLE_DERIVED },
  [PS_FIGURE_SEQUENCES_PER_SECOND] = { { "sequences_per_second", "sequences/s", PS_COLUMN_NUMBER }, PS_ROLE_DERIVED },
  [PS_FIGURE_ABOVE_BOUND] = { { "above_bound", "over bound", PS_COLUMN_RATIO }, PS_ROLE_DERIVED },
};

static PsResultColumn *
make_columns (void)
{
  guint n = ps_setting_n_options;
  PsResultColumn *columns = g_new (PsResultColumn, n + PS_N_FIGURES);

  for (guint i = 0; i < n; i++)
    columns[i] = (PsResultColumn){ ps_setting_options[i].sweep->column, PS_ROLE_SETTING };
  memcpy (columns + n, figures, sizeof figures);
  return columns;
}

const PsResultColumn *
ps_result_columns (guint *n)
{
  static PsResultColumn *columns;

  if (g_once_init_enter (&columns))
    g_once_init_leave (&columns, make_columns ());
  *n = ps_setting_n_options + PS_N_FIGURES;
  return columns;
}

int
ps_result_column_find (const char *name)
{
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);

  for (guint i = 0; i < n; i++)
    if (g_str_equal (columns[i].column.key, name))
      return (int)i;
  return -1;
}

const PsValue *
ps_result_value (const PsResult *result, const char *column)
{
  return &result->values[ps_result_column_find (column)];
}

char *
ps_results_list_columns (void)
{
  GString *list = g_string_new ("point, digest");
  guint n_columns;
  const PsResultColumn *columns = ps_result_columns (&n_columns);

  for (guint i = 0; i < ps_setting_n_options + PS_N_STORED_FIGURES; i++)
    g_string_append_printf (list, ", %s", columns[i].column.key);
  return g_string_free (list, FALSE);
}

void
ps_results_quote (GString *sql, const PsValue *value)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];

  if (value->type == PS_VALUE_INTEGER)
    g_string_append_printf (sql, "%" G_GINT64_FORMAT, value->integer);
  else if (value->type == PS_VALUE_REAL)
    g_string_append (sql, g_ascii_formatd (number, sizeof number, "%#.17g", value->real));
  else if (value->type == PS_VALUE_TEXT)
    {
      g_auto (GStrv) parts = g_strsplit (value->text, "'", -1);
      g_autofree char *doubled = g_strjoinv ("''", parts);

      g_string_append_printf (sql, "'%s'", doubled);
    }
  else
    g_string_append (sql, "NULL");
}

char **
ps_results_names (PsDatabase *file, const char *table, GError **error)
{
  g_autofree char *query = g_strdup_printf ("SELECT group_concat (name) FROM pragma_table_info ('%s', 'main')", table);
  g_autoptr (PsRows) rows = ps_rows_new (file, error, query, "");
  g_autofree char *names = NULL;
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return NULL;
  names = ps_rows_text (rows, 0);
  return g_strsplit (names, ",", -1);
}

/* question-values.c - single columns of a sweep, for pictures. */
#include "questions-private.h"

void
ps_result_values_free (PsResultValues *values)
{
  if (values == NULL)
    return;
  for (guint i = 0; i < values->n_rows * values->n_columns; i++)
    ps_value_clear (&values->values[i]);
  g_free (values->values);
  g_free (values);
}

static gboolean
check (const char *const *columns, GError **error)
{
  for (guint i = 0; columns[i] != NULL; i++)
    if (!ps_question_check_key ("column", columns[i], FALSE, error))
      return FALSE;
  return TRUE;
}

static char *
make_query (const PsQuestion *question, const PsScope *scope, const char *const *columns, GError **error)
{
  g_autofree char *shown = g_strjoinv (", ", (char **)columns), *groups = g_strjoinv (", ", scope->per);
  g_autoptr (GString) sql = g_string_new (NULL);

  g_string_printf (
      sql,
      "SELECT %s FROM (SELECT *, row_number () OVER (%s %s ORDER BY %s, peak_memory_bytes, point) AS place FROM result",
      shown, *groups ? "PARTITION BY" : "", groups, question->by);
  if (!ps_question_append_where (question, sql, error))
    return NULL;
  g_string_append_printf (sql, ") WHERE place = 1%s%s", *groups ? " ORDER BY " : "", groups);
  return g_string_free (g_steal_pointer (&sql), FALSE);
}

PsResultValues *
ps_results_values (PsResults *results, const PsQuestion *question, const char *const *columns, GError **error)
{
  g_autoptr (PsScope) scope = check (columns, error) ? ps_question_scope (results, question, error) : NULL;
  g_autofree char *sql = scope != NULL ? make_query (question, scope, columns, error) : NULL;
  g_autoptr (PsRows) rows = sql != NULL ? ps_rows_new (results->file, error, sql, "") : NULL;
  g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (PsValue));
  PsResultValues *answer = rows != NULL ? g_new0 (PsResultValues, 1) : NULL;
  gboolean found = rows != NULL;

  while (found)
    {
      if (!ps_rows_next (rows, &found, error))
        {
          g_clear_pointer (&answer, g_free);
          break;
        }
      for (guint i = 0; found && columns[i] != NULL; i++)
        {
          PsValue value = ps_rows_value (rows, (int)i, ps_result_column (columns[i]));

          g_array_append_val (values, value);
        }
    }
  if (answer == NULL)
    {
      for (guint i = 0; i < values->len; i++)
        ps_value_clear (&g_array_index (values, PsValue, i));
      return NULL;
    }
  answer->n_columns = g_strv_length ((char **)columns);
  answer->n_rows = values->len / answer->n_columns;
  answer->values = (PsValue *)(gpointer)g_array_free (g_steal_pointer (&values), FALSE);
  return answer;
}

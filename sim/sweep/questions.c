/* questions.c - the Pareto front and the best of a sweep. The database does the work. */
#include "questions-private.h"

void
ps_answer_free (PsAnswer *answer)
{
  if (answer == NULL)
    return;
  ps_table_free (answer->table);
  g_free (answer->columns);
  g_free (answer->about);
  g_free (answer);
}

PsAnswer *
ps_answer_new (const PsColumn *columns, guint n)
{
  PsAnswer *answer = g_new0 (PsAnswer, 1);

  answer->columns = g_memdup2 (columns, n * sizeof *columns);
  answer->n_columns = n;
  answer->table = ps_table_new (answer->columns, n);
  return answer;
}

void
ps_answer_set (PsAnswer *answer, const PsColumn *column, const PsValue *value)
{
  if (value->type == PS_VALUE_REAL)
    ps_table_set_ratio (answer->table, column->key, value->real);
  else if (value->type == PS_VALUE_TEXT)
    ps_table_set_text (answer->table, column->key, value->text);
  else if (value->type == PS_VALUE_INTEGER && column->type == PS_COLUMN_BOOLEAN)
    ps_table_set_boolean (answer->table, column->key, value->integer != 0);
  else if (value->type == PS_VALUE_INTEGER)
    ps_table_set_integer (answer->table, column->key, value->integer);
}

/* Answers */

static const PsColumn within = { "within_bytes", "within", PS_COLUMN_SIZE };

static void
add_column (GArray *columns, const PsColumn *column)
{
  for (guint i = 0; i < columns->len; i++)
    if (g_str_equal (g_array_index (columns, PsColumn, i).key, column->key))
      return;
  g_array_append_val (columns, *column);
}

/* Groups, what differs, figures. */
static GArray *
shown_columns (const PsScope *scope, const PsQuestion *question)
{
  static const char *const figures[]
      = { "iteration_ns", "sequence_ns", "bubble_ratio", "peak_memory_bytes", "costs_origin" };
  GArray *columns = g_array_new (FALSE, FALSE, sizeof (PsColumn));

  for (guint i = 0; scope->per[i] != NULL; i++)
    add_column (columns, ps_result_column (scope->per[i]));
  add_column (columns, ps_result_column ("schedule"));
  if (scope->asynchronous)
    add_column (columns, ps_result_column ("asynchronous"));
  for (guint i = 0; scope->varying[i] != NULL; i++)
    add_column (columns, ps_result_column (scope->varying[i]));
  add_column (columns, ps_result_column (question->by));
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    add_column (columns, ps_result_column (figures[i]));
  for (guint i = 0; question->columns != NULL && question->columns[i] != NULL; i++)
    add_column (columns, ps_result_column (question->columns[i]));
  return columns;
}

static void
append_columns (GString *sql, const GArray *columns)
{
  for (guint i = 0; i < columns->len; i++)
    g_string_append_printf (sql, "%s%s", i ? ", " : "", g_array_index (columns, PsColumn, i).key);
}

/* "a, b, " or nothing. */
static char *
list_groups (const PsScope *scope)
{
  g_autofree char *joined = g_strjoinv (", ", scope->per);

  return *joined ? g_strconcat (joined, ", ", NULL) : g_strdup ("");
}

static char *
partition (const PsScope *scope)
{
  g_autofree char *joined = g_strjoinv (", ", scope->per);

  return *joined ? g_strconcat ("PARTITION BY ", joined, " ", NULL) : g_strdup ("");
}

static gboolean
add_rows (PsAnswer *answer, const GArray *columns, PsRows *rows, const gint64 *limit, GError **error)
{
  gboolean found = TRUE;

  while (found)
    {
      if (!ps_rows_next (rows, &found, error))
        return FALSE;
      if (!found)
        break;
      ps_table_add_row (answer->table);
      if (limit != NULL)
        ps_table_set_integer (answer->table, within.key, *limit);
      for (guint i = 0; i < columns->len; i++)
        {
          const PsColumn *column = &g_array_index (columns, PsColumn, i);
          PsValue value = ps_rows_value (rows, (int)i, column);

          ps_answer_set (answer, column, &value);
          ps_value_clear (&value);
        }
    }
  return TRUE;
}

PsAnswer *
ps_results_pareto (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (PsScope) scope = ps_question_scope (results, question, error);
  g_autoptr (GArray) columns = scope != NULL ? shown_columns (scope, question) : NULL;
  g_autoptr (GString) sql = g_string_new ("SELECT ");
  g_autofree char *groups = NULL, *parts = NULL;
  g_autoptr (PsAnswer) answer = NULL;
  g_autoptr (PsRows) rows = NULL;

  if (scope == NULL)
    return NULL;
  groups = list_groups (scope);
  parts = partition (scope);
  append_columns (sql, columns);
  g_string_append_printf (sql,
                          " FROM (SELECT *, min (%s) OVER (%sORDER BY peak_memory_bytes, %s, point"
                          " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS least FROM result",
                          question->by, parts, question->by);
  if (!ps_question_append_where (question, sql, error))
    return NULL;
  g_string_append_printf (sql, ") WHERE least IS NULL OR %s < least ORDER BY %speak_memory_bytes", question->by,
                          groups);
  rows = ps_rows_new (results->file, error, sql->str, "");
  answer = ps_answer_new ((const PsColumn *)(gconstpointer)columns->data, columns->len);
  answer->about = g_steal_pointer (&scope->about);
  return rows != NULL && add_rows (answer, columns, rows, NULL, error) ? g_steal_pointer (&answer) : NULL;
}

static gboolean
add_best (PsResults *results, const PsQuestion *question, const PsScope *scope, const GArray *columns,
          const gint64 *limit, PsAnswer *answer, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT ");
  g_autofree char *groups = list_groups (scope), *parts = partition (scope);
  g_autoptr (PsRows) rows = NULL;

  append_columns (sql, columns);
  g_string_append_printf (
      sql, " FROM (SELECT *, row_number () OVER (%sORDER BY %s, peak_memory_bytes, point) AS place FROM result", parts,
      question->by);
  if (!ps_question_append_where (question, sql, error))
    return FALSE;
  if (limit != NULL)
    g_string_append_printf (sql, " AND peak_memory_bytes <= %" G_GINT64_FORMAT, *limit);
  g_string_append_printf (sql, ") WHERE place <= %u ORDER BY %splace", question->top, groups);
  rows = ps_rows_new (results->file, error, sql->str, "");
  return rows != NULL && add_rows (answer, columns, rows, limit, error);
}

PsAnswer *
ps_results_best (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (PsScope) scope = ps_question_scope (results, question, error);
  g_autoptr (GArray) columns = scope != NULL ? shown_columns (scope, question) : NULL;
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (PsColumn));
  g_autoptr (PsAnswer) answer = NULL;

  if (scope == NULL)
    return NULL;
  if (question->n_limits)
    g_array_append_val (all, within);
  g_array_append_vals (all, columns->data, columns->len);
  answer = ps_answer_new ((const PsColumn *)(gconstpointer)all->data, all->len);
  for (guint i = 0; i < MAX (question->n_limits, 1); i++)
    if (!add_best (results, question, scope, columns, question->n_limits ? &question->limits[i] : NULL, answer, error))
      return NULL;
  answer->about = g_steal_pointer (&scope->about);
  return g_steal_pointer (&answer);
}

gboolean
ps_question_refuse_none (PsResults *results, const PsQuestion *question, const char *path, GError **error)
{
  guint64 predicted, skipped, missing;

  if (!ps_results_count (results, &predicted, &skipped, &missing, error))
    return FALSE;
  if (predicted > 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no setting that fits its memory limit%s", path,
                      question->where != NULL || question->n_limits > 0 ? " and what else is asked for" : "");
  if (skipped + missing == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no sweep yet", path);
  return ps_refuse (error, PS_ERROR_INPUT,
                    missing > 0 ? "%s: holds no prediction; pipesim sweep SPEC.ini --db %s --resume makes them"
                                : "%s: holds no prediction: no setting is possible; SELECT * FROM skipped_reason in it "
                                  "says why",
                    path, path);
}

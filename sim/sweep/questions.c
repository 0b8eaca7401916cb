/* questions.c - the Pareto front and the best of a sweep. The database does the work. */
#include "questions-private.h"

#include <math.h>
#include <string.h>

void
ps_answer_free (PsAnswer *answer)
{
  if (answer == NULL)
    return;
  ps_table_free (answer->table);
  g_free (answer->columns);
  g_free (answer);
}

PsAnswer *
ps_answer_new (const PsColumn *columns, guint n)
{
  PsAnswer *answer = g_new0 (PsAnswer, 1);

  answer->columns = g_memdup2 (columns, n * sizeof *columns);
  answer->table = ps_table_new (answer->columns, n);
  return answer;
}

PsValue
ps_rows_value (PsRows *rows, int index, const PsColumn *column)
{
  if (ps_rows_is_null (rows, index))
    return (PsValue){ .type = PS_VALUE_NONE };
  switch (column->type)
    {
    case PS_COLUMN_RATIO:
    case PS_COLUMN_NUMBER:
      return (PsValue){ .type = PS_VALUE_REAL, .real = ps_rows_real (rows, index) };
    case PS_COLUMN_BOOLEAN:
    case PS_COLUMN_INTEGER:
      return (PsValue){ .type = PS_VALUE_INTEGER, .integer = ps_rows_integer (rows, index) };
    case PS_COLUMN_TIME: /* some are means */
    case PS_COLUMN_SIZE:
      return (PsValue){ .type = PS_VALUE_INTEGER, .integer = llround (ps_rows_real (rows, index)) };
    default:
      return (PsValue){ .type = PS_VALUE_TEXT, .text = ps_rows_text (rows, index) };
    }
}

void
ps_value_clear (PsValue *value)
{
  if (value->type == PS_VALUE_TEXT)
    g_free ((char *)value->text);
  value->type = PS_VALUE_NONE;
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

const PsColumn *
ps_result_column (const char *name)
{
  guint n;

  return &ps_result_columns (&n)[ps_result_column_find (name)].column;
}

/* Checking */

gboolean
ps_result_column_check (const char *option, const char *name, gboolean number, GError **error)
{
  g_autoptr (GString) names = g_string_new (NULL);
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);
  int index = ps_result_column_find (name);

  if (index >= 0 && columns[index].column.title != NULL && (!number || columns[index].column.type != PS_COLUMN_TEXT))
    return TRUE;
  for (guint i = 0; i < n; i++)
    if (columns[i].column.title != NULL && (!number || columns[i].column.type != PS_COLUMN_TEXT))
      g_string_append_printf (names, "%s%s", names->len ? " " : "", columns[i].column.key);
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is no column%s; there are %s", option, name,
                    number ? " of numbers" : "", names->str);
}

gboolean
ps_question_check (const PsQuestion *question, GError **error)
{
  for (guint i = 0; question->per != NULL && question->per[i] != NULL; i++)
    if (!ps_result_column_check ("--per", question->per[i], FALSE, error))
      return FALSE;
  return ps_result_column_check ("--by", question->by, TRUE, error);
}

static gboolean
read_number (const PsColumn *column, const char *text, double *number, GError **error)
{
  char *end;

  *number = g_ascii_strtod (text, &end);
  if (end != text && *end == '\0' && isfinite (*number))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is no number, as %s is", text, column->key);
}

static gboolean
read_quantity (const PsColumn *column, const char *text, gint64 *value, GError **error)
{
  *value = g_str_equal (text, "yes");
  if (column->type == PS_COLUMN_TIME)
    return ps_parse_time ("--where", text, value, error);
  if (column->type == PS_COLUMN_SIZE)
    return ps_parse_size ("--where", text, value, error);
  if (*value || g_str_equal (text, "no"))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is not yes, no or any, as %s is", text, column->key);
}

static gboolean
append_value (GString *sql, const PsColumn *column, const char *text, GError **error)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];
  g_auto (GStrv) parts = NULL;
  g_autofree char *quoted = NULL;
  double number = 0;
  gint64 value = 0;

  if (column->type == PS_COLUMN_TEXT)
    {
      parts = g_strsplit (text, "'", -1);
      quoted = g_strjoinv ("''", parts);
      g_string_append_printf (sql, "'%s'", quoted);
      return TRUE;
    }
  if (column->type == PS_COLUMN_BOOLEAN && g_str_equal (text, "any"))
    {
      g_string_append (sql, column->key); /* equals itself */
      return TRUE;
    }
  if (column->type == PS_COLUMN_INTEGER || column->type == PS_COLUMN_NUMBER || column->type == PS_COLUMN_RATIO)
    {
      if (!read_number (column, text, &number, error))
        return FALSE;
      g_string_append (sql, g_ascii_dtostr (buffer, sizeof buffer, number));
      return TRUE;
    }
  if (!read_quantity (column, text, &value, error))
    return FALSE;
  g_string_append_printf (sql, "%" G_GINT64_FORMAT, value);
  return TRUE;
}

/* "devices>=8": column, operator, value. */
static gboolean
append_condition (GString *sql, const char *text, GError **error)
{
  gsize name_length = strcspn (text, "!<>="), length = strspn (text + name_length, "!<>=");
  g_autofree char *name = g_strndup (text, name_length), *sign = g_strndup (text + name_length, length);
  static const char *const signs[] = { "=", "!=", "<=", ">=", "<", ">", NULL };

  if (!g_strv_contains (signs, sign))
    return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is not COLUMN=VALUE, nor with one of != <= >= < >", text);
  if (!ps_result_column_check ("--where", name, FALSE, error))
    return FALSE;
  g_string_append_printf (sql, " AND %s %s ", name, sign);
  return append_value (sql, ps_result_column (name), text + name_length + length, error);
}

static gboolean
append_conditions (const PsQuestion *question, GString *sql, GError **error)
{
  for (guint i = 0; question->where != NULL && question->where[i] != NULL; i++)
    if (!append_condition (sql, question->where[i], error))
      return FALSE;
  return TRUE;
}

static gboolean
counts_asynchronous (const PsQuestion *question)
{
  for (guint i = 0; question->where != NULL && question->where[i] != NULL; i++)
    if (g_str_has_prefix (question->where[i], "schedule=") || g_str_has_prefix (question->where[i], "asynchronous"))
      return TRUE;
  return FALSE;
}

char *
ps_question_left_out (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT group_concat (DISTINCT schedule) FROM result WHERE asynchronous");
  g_autoptr (PsRows) rows = NULL;
  g_autofree char *names = NULL;
  gboolean found;

  if (counts_asynchronous (question))
    return g_strdup ("");
  g_string_append (sql, " AND feasible");
  if (!append_conditions (question, sql, error))
    return NULL;
  rows = ps_rows_new (results->file, error, sql->str, "");
  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return NULL;
  if (ps_rows_is_null (rows, 0))
    return g_strdup ("");
  names = ps_rows_text (rows, 0);
  return g_strdup_printf (
      "%s: asynchronous, their gradients are of older weights; --where asynchronous=any counts them", names);
}

gboolean
ps_question_append_where (const PsQuestion *question, GString *sql, GError **error)
{
  g_string_append (sql, counts_asynchronous (question) ? " WHERE feasible" : " WHERE feasible AND NOT asynchronous");
  return append_conditions (question, sql, error);
}

/* One pass over the table says it of all columns. */
char **
ps_question_varying (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT count (*)");
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();
  g_autoptr (PsRows) rows = NULL;
  gboolean found;
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);

  for (guint i = 0; columns[i].role == PS_ROLE_SETTING; i++)
    g_string_append_printf (sql, ", min (%s) IS NOT max (%s) OR count (%s) NOT IN (0, count (*))",
                            columns[i].column.key, columns[i].column.key, columns[i].column.key);
  g_string_append (sql, " FROM result");
  if (!ps_question_append_where (question, sql, error))
    return NULL;
  rows = ps_rows_new (results->file, error, sql->str, "");
  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return NULL;
  for (guint i = 0; columns[i].role == PS_ROLE_SETTING; i++)
    if (ps_rows_integer (rows, (int)i + 1))
      g_strv_builder_add (names, columns[i].column.key);
  return g_strv_builder_end (names);
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
shown_columns (PsResults *results, const PsQuestion *question, GError **error)
{
  static const char *const figures[]
      = { "iteration_ns", "sequence_ns", "bubble_ratio", "peak_memory_bytes", "costs_origin" };
  g_autoptr (GArray) columns = g_array_new (FALSE, FALSE, sizeof (PsColumn));
  g_auto (GStrv) varying = ps_question_varying (results, question, error);

  if (varying == NULL)
    return NULL;
  for (guint i = 0; question->per != NULL && question->per[i] != NULL; i++)
    add_column (columns, ps_result_column (question->per[i]));
  add_column (columns, ps_result_column ("schedule"));
  for (guint i = 0; varying[i] != NULL; i++)
    add_column (columns, ps_result_column (varying[i]));
  add_column (columns, ps_result_column (question->by));
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    add_column (columns, ps_result_column (figures[i]));
  return g_steal_pointer (&columns);
}

static void
append_columns (GString *sql, const GArray *columns)
{
  for (guint i = 0; i < columns->len; i++)
    g_string_append_printf (sql, "%s%s", i ? ", " : "", g_array_index (columns, PsColumn, i).key);
}

/* "a, b, " or nothing. */
static char *
list_groups (const PsQuestion *question)
{
  g_autofree char *joined = question->per != NULL ? g_strjoinv (", ", question->per) : NULL;

  return joined != NULL && *joined ? g_strconcat (joined, ", ", NULL) : g_strdup ("");
}

static char *
partition (const PsQuestion *question)
{
  g_autofree char *joined = question->per != NULL ? g_strjoinv (", ", question->per) : NULL;

  return joined != NULL && *joined ? g_strconcat ("PARTITION BY ", joined, " ", NULL) : g_strdup ("");
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
  g_autoptr (GArray) columns = ps_question_check (question, error) ? shown_columns (results, question, error) : NULL;
  g_autoptr (GString) sql = g_string_new ("SELECT ");
  g_autofree char *groups = list_groups (question), *parts = partition (question);
  g_autoptr (PsAnswer) answer = NULL;
  g_autoptr (PsRows) rows = NULL;

  if (columns == NULL)
    return NULL;
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
  return rows != NULL && add_rows (answer, columns, rows, NULL, error) ? g_steal_pointer (&answer) : NULL;
}

static gboolean
add_best (PsResults *results, const PsQuestion *question, const GArray *columns, const gint64 *limit, PsAnswer *answer,
          GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT ");
  g_autofree char *groups = list_groups (question), *parts = partition (question);
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
  g_autoptr (GArray) columns = ps_question_check (question, error) ? shown_columns (results, question, error) : NULL;
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (PsColumn));
  g_autoptr (PsAnswer) answer = NULL;

  if (columns == NULL)
    return NULL;
  if (question->n_limits)
    g_array_append_val (all, within);
  g_array_append_vals (all, columns->data, columns->len);
  answer = ps_answer_new ((const PsColumn *)(gconstpointer)all->data, all->len);
  for (guint i = 0; i < MAX (question->n_limits, 1); i++)
    if (!add_best (results, question, columns, question->n_limits ? &question->limits[i] : NULL, answer, error))
      return NULL;
  return g_steal_pointer (&answer);
}

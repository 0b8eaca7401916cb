/* questions.c - the Pareto front and the best of a sweep. The database does the work. */
#include "questions-private.h"
#include "setting/options.h"
#include "results-private.h"

#include <pipesim/costdb.h>
#include <pipesim/sweep.h>

#include <math.h>
#include <string.h>

/* The columns of results, their values as text, and the conditions of a question. */

/* The value of a column as its type has it; its text is the caller's, value_clear frees it. */
static PsValue
rows_value (PsRows *rows, int index, const PsColumn *column)
{
  if (ps_rows_is_null (rows, index))
    return (PsValue){ .type = PS_VALUE_NONE };
  switch (column->type)
    {
    case PS_COLUMN_RATIO:
    case PS_COLUMN_NUMBER:
    case PS_COLUMN_RATE:
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

static void
value_clear (PsValue *value)
{
  if (value->type == PS_VALUE_TEXT)
    g_free ((char *)value->text);
  value->type = PS_VALUE_NONE;
}

/* The column of the result of that name, which is one. */
static const PsColumn *
result_column (const char *name)
{
  guint n;

  return &ps_result_columns (&n)[ps_result_column_find (name)].column;
}

char *
ps_result_value_text (const char *name, const PsValue *value)
{
  const PsColumn *column = result_column (name);

  if (value->type == PS_VALUE_NONE)
    return g_strdup ("none");
  if (value->type == PS_VALUE_TEXT)
    return g_strdup (value->text);
  if (column->type == PS_COLUMN_RATE)
    return ps_format_rate (value->real);
  if (value->type == PS_VALUE_REAL)
    return g_strdup_printf ("%.6g", value->real);
  if (column->type == PS_COLUMN_TIME)
    return ps_format_time (value->integer);
  if (column->type == PS_COLUMN_SIZE)
    return ps_format_size (value->integer);
  if (column->type == PS_COLUMN_BOOLEAN)
    return g_strdup (value->integer ? "yes" : "no");
  return g_strdup_printf ("%" G_GINT64_FORMAT, value->integer);
}

/* Checking */

static const PsColumn *
find_called (const char *option, const char *name, gboolean number, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autofree char *problem
      = g_strdup_printf ("%s: '%s' is no column%s; there are", option, name, number ? " of numbers" : "");
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);

  for (guint i = 0; i < n; i++)
    {
      const PsColumn *column = &columns[i].column;

      if (column->title == NULL || (number && column->type == PS_COLUMN_TEXT))
        continue;
      if (ps_column_is_called (column, name))
        return column;
      g_ptr_array_add (names, (gpointer)column->title);
    }
  ps_refuse_name (error, problem, name, (const char *const *)names->pdata, names->len);
  return NULL;
}

gboolean
ps_result_column_resolve (const char *option, char **name, gboolean number, GError **error)
{
  const PsColumn *column = find_called (option, *name, number, error);

  if (column == NULL)
    return FALSE;
  g_free (*name);
  *name = g_strdup (column->key);
  return TRUE;
}

/* Refuses a name that is no key of a column, or with `number` of no column of numbers. */
static gboolean
question_check_key (const char *option, const char *name, gboolean number, GError **error)
{
  const PsColumn *column = find_called (option, name, number, error);

  return column != NULL
         && (g_str_equal (column->key, name)
             || ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is no key of a column; %s is", option, name, column->key));
}

/* Checks the columns of a question. Errors: PS_ERROR_USAGE. */
static gboolean
question_check (const PsQuestion *question, GError **error)
{
  for (guint i = 0; question->per != NULL && question->per[i] != NULL; i++)
    if (!question_check_key ("--per", question->per[i], FALSE, error))
      return FALSE;
  for (guint i = 0; question->columns != NULL && question->columns[i] != NULL; i++)
    if (!question_check_key ("--columns", question->columns[i], FALSE, error))
      return FALSE;
  return question_check_key ("--by", question->by, TRUE, error);
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
  if (column->type == PS_COLUMN_RATE)
    return ps_parse_rate ("--where", text, value, error);
  if (*value || g_str_equal (text, "no"))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is not yes, no or any, as %s is", text, column->key);
}

static gboolean
append_value (GString *sql, const PsColumn *column, const char *text, GError **error)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];
  double number = 0;
  gint64 value = 0;

  if (column->type == PS_COLUMN_TEXT)
    {
      g_auto (GStrv) parts = g_strsplit (text, "'", -1);
      g_autofree char *doubled = g_strjoinv ("''", parts);

      g_string_append_printf (sql, "'%s'", doubled);
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
  const PsColumn *column;

  if (!g_strv_contains (signs, sign))
    return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is not COLUMN=VALUE, nor with one of != <= >= < >", text);
  column = find_called ("--where", g_strstrip (name), FALSE, error);
  if (column == NULL)
    return FALSE;
  g_string_append_printf (sql, " AND %s %s ", column->key, sign);
  return append_value (sql, column, text + name_length + length, error);
}

static gboolean
append_conditions (const PsQuestion *question, GString *sql, GError **error)
{
  for (guint i = 0; question->where != NULL && question->where[i] != NULL; i++)
    if (!append_condition (sql, question->where[i], error))
      return FALSE;
  return TRUE;
}

/* Whether a condition on the column begins with one of the signs. */
static gboolean
question_asks (const PsQuestion *question, const PsColumn *column, const char *signs)
{
  for (guint i = 0; question->where != NULL && question->where[i] != NULL; i++)
    {
      const char *text = question->where[i];
      gsize length = strcspn (text, "!<>=");
      g_autofree char *name = g_strndup (text, length);

      if (ps_column_is_called (column, name) && strchr (signs, text[length]) != NULL)
        return TRUE;
    }
  return FALSE;
}

/* Whether a condition lets asynchronous schedules count. */
static gboolean
question_counts_asynchronous (const PsQuestion *question)
{
  return question_asks (question, result_column ("schedule"), "=")
         || question_asks (question, result_column ("asynchronous"), "!<>=");
}

char *
ps_question_left_out (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (GString) sql
      = g_string_new ("SELECT replace (group_concat (DISTINCT schedule), ',', ', ') FROM result WHERE asynchronous");
  g_autoptr (PsRows) rows = NULL;
  g_autofree char *names = NULL;
  gboolean found;

  if (question_counts_asynchronous (question))
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
  g_string_append (sql, question_counts_asynchronous (question) ? " WHERE feasible"
                                                                : " WHERE feasible AND NOT asynchronous");
  return append_conditions (question, sql, error);
}

/* Single columns of a sweep, for pictures. */

void
ps_result_values_free (PsResultValues *values)
{
  if (values == NULL)
    return;
  for (guint i = 0; i < values->n_rows * values->n_columns; i++)
    value_clear (&values->values[i]);
  g_free (values->values);
  g_free (values);
}

static gboolean
check (const char *const *columns, GError **error)
{
  for (guint i = 0; columns[i] != NULL; i++)
    if (!question_check_key ("column", columns[i], FALSE, error))
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
          PsValue value = rows_value (rows, (int)i, result_column (columns[i]));

          g_array_append_val (values, value);
        }
    }
  if (answer == NULL)
    {
      for (guint i = 0; i < values->len; i++)
        value_clear (&g_array_index (values, PsValue, i));
      return NULL;
    }
  answer->n_columns = g_strv_length ((char **)columns);
  answer->n_rows = values->len / answer->n_columns;
  answer->values = (PsValue *)(gpointer)g_array_free (g_steal_pointer (&values), FALSE);
  return answer;
}

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

/* An answer with these columns and no rows; columns are copied. */
static PsAnswer *
answer_new (const PsColumn *columns, guint n)
{
  PsAnswer *answer = g_new0 (PsAnswer, 1);

  answer->columns = g_memdup2 (columns, n * sizeof *columns);
  answer->n_columns = n;
  answer->table = ps_table_new (answer->columns, n);
  return answer;
}

/* Sets a cell of the last row, unless there is no value. */
static void
answer_set (PsAnswer *answer, const PsColumn *column, const PsValue *value)
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
    add_column (columns, result_column (scope->per[i]));
  add_column (columns, result_column ("schedule"));
  if (scope->asynchronous)
    add_column (columns, result_column ("asynchronous"));
  for (guint i = 0; scope->varying[i] != NULL; i++)
    add_column (columns, result_column (scope->varying[i]));
  add_column (columns, result_column (question->by));
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    add_column (columns, result_column (figures[i]));
  for (guint i = 0; question->columns != NULL && question->columns[i] != NULL; i++)
    add_column (columns, result_column (question->columns[i]));
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
          PsValue value = rows_value (rows, (int)i, column);

          answer_set (answer, column, &value);
          value_clear (&value);
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
  answer = answer_new ((const PsColumn *)(gconstpointer)columns->data, columns->len);
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
  answer = answer_new ((const PsColumn *)(gconstpointer)all->data, all->len);
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

/* What a question holds fixed or apart, and what it leaves to be chosen. */

/* The schedule, and the columns that come with it: they are no question of their own. */
static const char *const with_schedule[]
    = { "schedule", "chunks", "slices", "group_size", "defer_head", "placement", "layout", NULL };

/* Columns that whoever trains decides. All others are circumstances: the machine, the model and the training, which are
 * as they are. */
static const char *const decided[]
    = { "devices",    "microbatches", "microbatch_size",  "recompute", "offload", "replicas", "adjacent_replicas",
        "tensor",     "context",      "experts",          "zero",      "reduce",  "sync",     "cuda_graphs",
        "comm_order", "ready_order",  "microbatch_order", NULL };

static const char *const nothing[] = { NULL };

/* Columns that follow from one of the question, or that only a prediction knows. */
/* Whether the column follows from one of `per`, or is known to predictions alone. */
static gboolean
question_follows (const char *column, const char *const *per)
{
  static const char *const causes[][2] = { { "link_bandwidth", "bandwidth_factor" },
                                           { "link_latency_ns", "latency_factor" },
                                           { "microbatches", "global_batch" } };

  if (g_str_equal (column, "link_bandwidth") || g_str_equal (column, "link_latency_ns"))
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (causes); i++)
    if (g_str_equal (column, causes[i][1]) && g_strv_contains (per, causes[i][0]))
      return TRUE;
  return FALSE;
}

/* Circumstances, and with the microbatches what makes the batch of them. */
static gboolean
is_held (const char *column, const char *const *per)
{
  if (g_str_equal (column, "replicas") || g_str_equal (column, "microbatch_size"))
    return g_strv_contains (per, "microbatches");
  return !g_strv_contains (with_schedule, column) && !g_strv_contains (decided, column)
         && !question_follows (column, per);
}

void
ps_scope_free (PsScope *scope)
{
  if (scope == NULL)
    return;
  g_strfreev (scope->per);
  g_strfreev (scope->varying);
  g_free (scope->about);
  g_free (scope);
}

static gboolean
is_default (guint column, const PsSetting *defaults, const PsColumn *shown, const PsValue *value)
{
  const PsOption *option = &ps_setting_options[column];
  PsValue usual = ps_setting_column (option, defaults);
  g_autofree char *a = ps_result_value_text (shown->key, value), *b = ps_result_value_text (shown->key, &usual);

  return value->type == PS_VALUE_NONE || g_str_equal (a, b);
}

/* Appends "p = 4" of a column that has one value, unless the value goes without saying and was not asked for. */
static void
append_fixed (GString *fixed, guint index, const PsColumn *column, PsRows *rows, const PsQuestion *question)
{
  gboolean implied = g_strv_contains (with_schedule + 1, column->key) || question_follows (column->key, nothing);
  g_autoptr (PsSetting) defaults = ps_setting_new ();
  PsValue value = rows_value (rows, 2 * (int)index + 2, column);
  g_autofree char *text = ps_result_value_text (column->key, &value);

  if (column->title != NULL && !implied
      && (!is_default (index, defaults, column, &value) || question_asks (question, column, "=")))
    g_string_append_printf (fixed, "%s%s = %s", fixed->len ? ", " : "", column->title, text);
  value_clear (&value);
}

static void
append_title (GString *list, const PsColumn *column)
{
  if (column->title != NULL)
    g_string_append_printf (list, "%s%s", list->len ? ", " : "", column->title);
}

/* One row: for each column whether it varies, and its least value; last the largest unrest. */
static PsRows *
survey (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT count (*)");
  g_autoptr (PsRows) rows = NULL;
  gboolean found;
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);

  for (guint i = 0; columns[i].role == PS_ROLE_SETTING; i++)
    {
      const char *key = columns[i].column.key;

      g_string_append_printf (sql, ", min (%s) IS NOT max (%s) OR count (%s) NOT IN (0, count (*)), min (%s)", key, key,
                              key, key);
    }
  g_string_append (sql, ", max (unrest) FROM result");
  if (!ps_question_append_where (question, sql, error))
    return NULL;
  rows = ps_rows_new (results->file, error, sql->str, "");
  return rows != NULL && ps_rows_next (rows, &found, error) ? g_steal_pointer (&rows) : NULL;
}

static char *
describe (const GString *fixed, const GString *apart, const GString *chosen, gboolean asynchronous, double unrest)
{
  g_autofree char *restless = ps_unrest_to_text (unrest, "");

  return g_strdup_printf ("%s%s%s%s%s%s%s%s%s%s%s", fixed->len ? "fixed: " : "", fixed->str,
                          fixed->len && apart->len + chosen->len ? "; " : "", apart->len ? "held apart: " : "",
                          apart->str, apart->len && chosen->len ? "; " : "", chosen->len ? "chosen: " : "", chosen->str,
                          asynchronous ? "; asynchronous schedules count" : "", *restless ? "; " : "", restless);
}

PsScope *
ps_question_scope (PsResults *results, const PsQuestion *question, GError **error)
{
  const char *const *asked = question->per != NULL ? (const char *const *)question->per : nothing;
  g_autoptr (PsRows) rows = question_check (question, error) ? survey (results, question, error) : NULL;
  g_autoptr (GStrvBuilder) per = g_strv_builder_new (), varying = g_strv_builder_new ();
  g_autoptr (GString) fixed = g_string_new (NULL), apart = g_string_new (NULL), chosen = g_string_new (NULL);
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);
  PsScope *scope;
  guint n_settings = 0;

  if (rows == NULL)
    return NULL;
  g_strv_builder_addv (per, (const char **)asked);
  for (guint i = 0; columns[i].role == PS_ROLE_SETTING; i++, n_settings++)
    {
      const PsColumn *column = &columns[i].column;
      gboolean is_asked = g_strv_contains (asked, column->key), held = *asked != NULL && is_held (column->key, asked);

      if (!ps_rows_integer (rows, 2 * (int)i + 1))
        {
          append_fixed (fixed, i, column, rows, question);
          continue;
        }
      g_strv_builder_add (varying, column->key);
      if (held && !is_asked)
        g_strv_builder_add (per, column->key);
      if (is_asked || !question_follows (column->key, asked))
        append_title (is_asked || held ? apart : chosen, column);
    }
  scope = g_new0 (PsScope, 1);
  scope->per = g_strv_builder_end (per);
  scope->varying = g_strv_builder_end (varying);
  scope->asynchronous = question_counts_asynchronous (question);
  scope->about = describe (fixed, apart, chosen, scope->asynchronous, ps_rows_real (rows, 2 * (int)n_settings + 1));
  return scope;
}

/* Where one schedule overtakes another. */

/* All that is known at one value of the column, in one group. */
typedef struct
{
  PsValue *cells;    /* [n_held + 1] the group, and the value; texts owned */
  GHashTable *times; /* schedule -> double, its time there */
  char *fastest;
  char *second; /* NULL: there is no other */
} Value;

typedef struct
{
  PsResults *results;
  const PsQuestion *question;
  const PsColumn *over;
  char **held;
  guint n_held;
  char *about;
  GPtrArray *values; /* of Value, by group, then value */
  PsAnswer *answer;
} Task;

static void
task_clear (Task *task)
{
  g_strfreev (task->held);
  g_free (task->about);
  g_ptr_array_unref (task->values);
  ps_answer_free (task->answer);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Task, task_clear)

/* Which columns are held fixed */

/* `over`, then --per; where that is not given all columns that vary but those that come with a schedule. */
static char **
asked_columns (const Task *task, const char *const *varying)
{
  char **per = task->question->per;
  g_autoptr (GStrvBuilder) asked = g_strv_builder_new ();

  g_strv_builder_add (asked, task->over->key);
  if (per != NULL)
    g_strv_builder_addv (asked, (const char **)per);
  for (guint i = 0; per == NULL && varying[i] != NULL; i++)
    if (!g_str_equal (varying[i], task->over->key) && !g_strv_contains (with_schedule, varying[i])
        && !question_follows (varying[i], (const char *[]){ task->over->key, "microbatches", NULL }))
      g_strv_builder_add (asked, varying[i]);
  return g_strv_builder_end (asked);
}

/* Finds the columns that are held fixed, and how the answer says so. */
static gboolean
hold_columns (Task *task, GError **error)
{
  g_autoptr (PsScope) scope = ps_question_scope (task->results, task->question, error), along = NULL;
  g_auto (GStrv) asked = scope != NULL ? asked_columns (task, (const char *const *)scope->varying) : NULL;
  PsQuestion question = *task->question;

  question.per = asked;
  along = scope != NULL ? ps_question_scope (task->results, &question, error) : NULL;
  if (along == NULL)
    return FALSE;
  task->held = g_strdupv (along->per + 1);
  task->n_held = g_strv_length (task->held);
  task->about = g_steal_pointer (&along->about);
  return TRUE;
}

/* Reading */

static void
free_cells (PsValue *cells, guint n)
{
  for (guint i = 0; i < n; i++)
    value_clear (&cells[i]);
  g_free (cells);
}

static void
value_free (Value *value, guint n_cells)
{
  free_cells (value->cells, n_cells);
  g_hash_table_unref (value->times);
  g_free (value->fastest);
  g_free (value->second);
  g_free (value);
}

static PsValue *
read_cells (const Task *task, PsRows *rows)
{
  PsValue *cells = g_new0 (PsValue, task->n_held + 1);

  for (guint i = 0; i < task->n_held; i++)
    cells[i] = rows_value (rows, (int)i, result_column (task->held[i]));
  cells[task->n_held] = rows_value (rows, (int)task->n_held, task->over);
  return cells;
}

static gboolean
same_cells (const PsValue *a, const PsValue *b, guint n)
{
  for (guint i = 0; i < n; i++)
    if (a[i].type != b[i].type || (a[i].type == PS_VALUE_INTEGER && a[i].integer != b[i].integer)
        || (a[i].type == PS_VALUE_REAL && (a[i].real < b[i].real || a[i].real > b[i].real))
        || (a[i].type == PS_VALUE_TEXT && !g_str_equal (a[i].text, b[i].text)))
      return FALSE;
  return TRUE;
}

/* Rows of one value come fastest first. */
static void
add_time (Value *value, char *schedule, double time)
{
  if (value->fastest == NULL)
    value->fastest = g_strdup (schedule);
  else if (value->second == NULL)
    value->second = g_strdup (schedule);
  g_hash_table_insert (value->times, schedule, g_memdup2 (&time, sizeof time));
}

static void
read_row (Task *task, PsRows *rows)
{
  Value *value = task->values->len ? task->values->pdata[task->values->len - 1] : NULL;
  PsValue *cells = read_cells (task, rows);

  if (value != NULL && same_cells (value->cells, cells, task->n_held + 1))
    free_cells (cells, task->n_held + 1);
  else
    {
      value = g_new0 (Value, 1);
      value->cells = cells;
      value->times = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
      g_ptr_array_add (task->values, value);
    }
  add_time (value, ps_rows_text (rows, (int)task->n_held + 1), ps_rows_real (rows, (int)task->n_held + 2));
}

static gboolean
read_values (Task *task, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT ");
  g_autofree char *joined = g_strjoinv (", ", task->held);
  g_autofree char *groups = *joined ? g_strconcat (joined, ", ", NULL) : g_strdup ("");
  g_autoptr (PsRows) rows = NULL;
  gboolean found = TRUE;

  g_string_append_printf (sql, "%s%s, schedule, min (%s) AS least FROM result", groups, task->over->key,
                          task->question->by);
  if (!ps_question_append_where (task->question, sql, error))
    return FALSE;
  g_string_append_printf (sql, " AND %s IS NOT NULL GROUP BY %s%s, schedule ORDER BY %s%s, least, schedule",
                          task->over->key, groups, task->over->key, groups, task->over->key);
  rows = ps_rows_new (task->results->file, error, sql->str, "");
  while (rows != NULL && found)
    {
      if (!ps_rows_next (rows, &found, error))
        return FALSE;
      if (found)
        read_row (task, rows);
    }
  return rows != NULL;
}

/* Answering */

static double
time_of (const Value *value, const char *schedule)
{
  const double *time = schedule != NULL ? g_hash_table_lookup (value->times, schedule) : NULL;

  return time != NULL ? *time : NAN;
}

static double
number_of (const PsValue *value)
{
  return value->type == PS_VALUE_INTEGER ? (double)value->integer : value->type == PS_VALUE_REAL ? value->real : NAN;
}

/* Between the last value at which the old winner was ahead, and this one. NaN where either is not known at both. */
static double
break_even (const Task *task, const Value *last, const char *before, const Value *now)
{
  double left = time_of (last, now->fastest) - time_of (last, before);
  double ahead = time_of (now, before) - time_of (now, now->fastest);
  double from = number_of (&last->cells[task->n_held]), to = number_of (&now->cells[task->n_held]);

  return from + (to - from) * left / (left + ahead);
}

/* "zb-v beats zb-h1 from m = 8 to 16". */
static void
set_statement (const Task *task, const char *before, const Value *first, const Value *last)
{
  g_autofree char *from = ps_result_value_text (task->over->key, &first->cells[task->n_held]);
  g_autofree char *to = ps_result_value_text (task->over->key, &last->cells[task->n_held]);
  g_autofree char *text
      = g_strdup_printf ("%s %s%s %s %s = %s%s%s", first->fastest, before != NULL ? "beats " : "is the fastest",
                         before != NULL ? before : "", first != last ? "from" : "at", task->over->title, from,
                         first != last ? " to " : "", first != last ? to : "");

  ps_table_set_text (task->answer->table, "statement", text);
}

static const PsColumn *
column_of (const Task *task, const char *key)
{
  for (const PsColumn *column = task->answer->columns;; column++)
    if (g_str_equal (column->key, key))
      return column;
}

/* last, before: NULL at the beginning of a group. */
static void
begin_stretch (const Task *task, const Value *last, const char *before, const Value *now)
{
  PsTable *table = task->answer->table;
  double best = time_of (now, now->fastest), second = time_of (now, now->second);

  ps_table_add_row (table);
  for (guint i = 0; i < task->n_held; i++)
    answer_set (task->answer, result_column (task->held[i]), &now->cells[i]);
  answer_set (task->answer, column_of (task, "from"), &now->cells[task->n_held]);
  ps_table_set_text (table, "winner", now->fastest);
  ps_table_set_ratio (table, "ahead", (second - best) / second);
  if (before == NULL)
    return;
  ps_table_set_text (table, "before", before);
  ps_table_set_ratio (table, "break_even", break_even (task, last, before, now));
}

static void
answer (const Task *task)
{
  const Value *last = NULL, *first = NULL;
  const char *winner = NULL, *before = NULL;

  for (guint i = 0; i < task->values->len; i++)
    {
      const Value *now = task->values->pdata[i];

      if (last == NULL || !same_cells (last->cells, now->cells, task->n_held))
        winner = NULL;
      if (winner == NULL || !(time_of (now, winner) <= time_of (now, now->fastest)))
        {
          begin_stretch (task, last, winner, now);
          before = winner;
          winner = now->fastest;
          first = now;
        }
      /* The stretch reaches to here so far. */
      answer_set (task->answer, column_of (task, "to"), &now->cells[task->n_held]);
      set_statement (task, before, first, now);
      last = now;
    }
}

static void
prepare_answer (Task *task)
{
  static const PsColumn figures[] = { { "winner", "winner", PS_COLUMN_TEXT },
                                      { "ahead", "ahead", PS_COLUMN_RATIO },
                                      { "before", "before", PS_COLUMN_TEXT },
                                      { "break_even", "break even", PS_COLUMN_NUMBER },
                                      { "statement", "in words", PS_COLUMN_TEXT } };
  g_autoptr (GArray) columns = g_array_new (FALSE, FALSE, sizeof (PsColumn));
  PsColumn from = { "from", "from", task->over->type }, to = { "to", "to", task->over->type };

  for (guint i = 0; i < task->n_held; i++)
    g_array_append_vals (columns, result_column (task->held[i]), 1);
  g_array_append_val (columns, from);
  g_array_append_val (columns, to);
  g_array_append_vals (columns, figures, G_N_ELEMENTS (figures));
  task->answer = answer_new ((const PsColumn *)(gconstpointer)columns->data, columns->len);
  task->answer->about = g_steal_pointer (&task->about);
}

static gboolean
check_over (const char *over, GError **error)
{
  guint n;
  int index = ps_result_column_find (over);

  if (index >= 0 && ps_result_columns (&n)[index].role == PS_ROLE_SETTING && !g_str_equal (over, "schedule"))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--over: '%s' is no setting; a column such as microbatches is", over);
}

PsAnswer *
ps_results_sensitivity (PsResults *results, const PsQuestion *question, GError **error)
{
  const char *over = question->over != NULL ? question->over : "microbatches";
  g_auto (Task) task = { .results = results, .question = question, .values = g_ptr_array_new () };
  gboolean done;

  if (!question_check (question, error) || !check_over (over, error))
    return NULL;
  task.over = result_column (over);
  done = hold_columns (&task, error) && read_values (&task, error);
  if (done)
    {
      prepare_answer (&task);
      answer (&task);
    }
  for (guint i = 0; i < task.values->len; i++)
    value_free (task.values->pdata[i], task.n_held + 1);
  return done ? g_steal_pointer (&task.answer) : NULL;
}

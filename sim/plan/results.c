/* results.c - the database of a sweep's predictions, and the questions that it answers: the Pareto front, the best
 * settings, and where one schedule overtakes another. */
#include "setting/options.h"
#include "store/database.h"

#include <pipesim/costdb.h>
#include <pipesim/sweep.h>

#include <math.h>
#include <string.h>

struct _PsResults {
  PsDatabase *file;
  PsRows *predicted; /* statements that insert a row; NULL: not made yet */
  PsRows *skipped;
};

/* The columns of a prediction are those of the options of SETTING, then these, as data/results.sql has them. */
static const char *const shared[]
    = { "makespan_ns",    "max_span_ns",       "iteration_ns", "bubble_ratio", "bubble_ratio_span",
        "lower_bound_ns", "peak_memory_bytes", "feasible",     "asynchronous", "first_token_ns" };
static const PsResultColumn own[PS_N_FIGURES - G_N_ELEMENTS (shared)] = {
  { { "period_iterations", "period", PS_COLUMN_INTEGER }, PS_ROLE_FIGURE },
  { { "devices_detail", NULL, PS_COLUMN_TEXT }, PS_ROLE_FIGURE },
  { { "origin", "origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  { { "costs_origin", "costs origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  { { "transfers_origin", "transfers origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  { { "memory_origin", "memory origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  { { "unrest", "unrest", PS_COLUMN_RATIO }, PS_ROLE_ORIGIN },
  { { "sequence_ns", "per sequence", PS_COLUMN_TIME }, PS_ROLE_DERIVED },
  { { "sequences_per_second", "sequences/s", PS_COLUMN_NUMBER }, PS_ROLE_DERIVED },
  { { "above_bound", "over bound", PS_COLUMN_RATIO }, PS_ROLE_DERIVED },
};

const PsResultColumn *ps_result_columns (guint *n)
{
  static PsResultColumn *all;

  *n = ps_setting_n_options + PS_N_FIGURES;
  if (g_once_init_enter (&all)) {
    PsResultColumn *columns = g_new (PsResultColumn, *n), *figures = columns + ps_setting_n_options;

    for (guint i = 0; i < ps_setting_n_options; i++)
      columns[i] = (PsResultColumn){ ps_setting_options[i].sweep->column, PS_ROLE_SETTING };
    for (guint i = 0; i < G_N_ELEMENTS (shared); i++)
      figures[i] = (PsResultColumn){ *ps_figure (shared[i]), PS_ROLE_FIGURE };
    memcpy (figures + G_N_ELEMENTS (shared), own, sizeof own);
    g_once_init_leave (&all, columns);
  }
  return all;
}

int ps_result_column_find (const char *name)
{
  static GHashTable *indices;
  gpointer index;
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);

  if (g_once_init_enter (&indices)) {
    GHashTable *by_key = g_hash_table_new (g_str_hash, g_str_equal);

    for (guint i = 0; i < n; i++)
      g_hash_table_insert (by_key, (gpointer)columns[i].column.key, GUINT_TO_POINTER (i));
    g_once_init_leave (&indices, by_key);
  }
  return g_hash_table_lookup_extended (indices, name, NULL, &index) ? GPOINTER_TO_INT (index) : -1;
}

/* The column of that name, which is one. */
static const PsColumn *result_column (const char *name)
{
  guint n;

  return &ps_result_columns (&n)[ps_result_column_find (name)].column;
}

const PsValue *ps_result_value (const PsResult *result, const char *column)
{
  return &result->values[ps_result_column_find (column)];
}

void ps_result_free (PsResult *result)
{
  if (result == NULL)
    return;
  g_free (result->reason);
  g_free (result->values);
  g_free (result->detail);
  g_free (result->layout);
  g_free (result);
}

/* The file */

/* "point, digest, schedule, devices, ...": the columns of a prediction. Free with g_free. */
static char *list_columns (void)
{
  GString *list = g_string_new ("point, digest");
  guint n_columns;
  const PsResultColumn *columns = ps_result_columns (&n_columns);

  for (guint i = 0; i < ps_setting_n_options + PS_N_STORED_FIGURES; i++)
    g_string_append_printf (list, ", %s", columns[i].column.key);
  return g_string_free (list, FALSE);
}

#define OPTIONS_LINE "  -- OPTIONS\n" /* of data/results.sql */

/* "  replicas INTEGER NOT NULL, -- Data-parallel copies of the pipeline (default: 1)" for every option. */
static char *add_options (const char *schema)
{
  g_autoptr (GString) columns = g_string_new (NULL);
  g_auto (GStrv) parts = g_strsplit (schema, OPTIONS_LINE, 2);

  for (const PsOption *option = ps_setting_options; option->name != NULL; option++) {
    PsColumnType type = option->sweep->column.type;
    gboolean real = type == PS_COLUMN_NUMBER || type == PS_COLUMN_RATE || type == PS_COLUMN_RATIO;

    g_string_append_printf (columns, "  %s %s%s, -- %s\n", option->sweep->column.key,
                            type == PS_COLUMN_TEXT ? "TEXT"
                            : real                 ? "REAL"
                                                   : "INTEGER",
                            option->flags & PS_FIELD_NULL ? "" : " NOT NULL", option->help);
  }
  return g_strconcat (parts[0], columns->str, parts[1], NULL);
}

static const PsDatabaseKind kind = {
  .what = "result database",
  .schema = "results.sql",
  .complete = add_options,
  .application_id = 0x50535257, /* "PSRW" */
  .version = PS_RESULTS_VERSION,
  .page_bytes = 16384,
};

/* The table of predictions has the columns of this build. */
static gboolean check_columns (PsDatabase *file, GError **error)
{
  g_autoptr (PsRows) rows
      = ps_rows_new (file, error, "SELECT group_concat (name, ', ') FROM pragma_table_info ('prediction')", "");
  g_autofree char *columns = NULL, *wanted = list_columns ();
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  columns = ps_rows_text (rows, 0);
  return g_str_equal (columns, wanted)
         || ps_refuse (error, PS_ERROR_INPUT,
                       "%s: was predicted by a build of pipesim with other options; give another database", file->path);
}

PsResults *ps_results_open (const char *path, PsResultsMode mode, GError **error)
{
  g_autoptr (PsResults) results = g_new0 (PsResults, 1);

  results->file = ps_database_open (path, &kind, mode == PS_RESULTS_WRITE, error);
  return results->file != NULL && check_columns (results->file, error) ? g_steal_pointer (&results) : NULL;
}

void ps_results_close (PsResults *results)
{
  if (results == NULL)
    return;
  ps_rows_free (results->predicted);
  ps_rows_free (results->skipped);
  ps_database_close (results->file);
  g_free (results);
}

const char *ps_results_path (const PsResults *results)
{
  return results->file->path;
}

/* Storing */

static void set_value (PsRows *insert, int parameter, const PsValue *value)
{
  if (value->type == PS_VALUE_INTEGER)
    ps_rows_set_integer (insert, parameter, value->integer);
  else if (value->type == PS_VALUE_REAL)
    ps_rows_set_real (insert, parameter, value->real);
  else if (value->type == PS_VALUE_TEXT)
    ps_rows_set_text (insert, parameter, value->text);
  else
    ps_rows_set_null (insert, parameter);
}

static gboolean prepare (PsResults *results, GError **error)
{
  g_autofree char *columns = list_columns ();
  g_autoptr (GString) sql = g_string_new (NULL);

  g_string_append_printf (sql, "INSERT OR IGNORE INTO main.prediction (%s) VALUES (?, ?", columns);
  for (guint i = 0; i < ps_setting_n_options + PS_N_STORED_FIGURES; i++)
    g_string_append (sql, ", ?");
  g_string_append_c (sql, ')');
  if (results->predicted == NULL)
    results->predicted = ps_rows_new (results->file, error, sql->str, "");
  if (results->skipped == NULL && results->predicted != NULL)
    results->skipped = ps_rows_new (results->file, error, "INSERT OR IGNORE INTO skipped VALUES (?, ?, ?)", "");
  return results->skipped != NULL;
}

static gboolean store_row (PsResults *results, const PsResult *row, GError **error)
{
  PsRows *insert = row->reason != NULL ? results->skipped : results->predicted;
  gboolean found;

  ps_rows_repeat (insert);
  ps_rows_set_integer (insert, 0, (gint64)row->point);
  ps_rows_set_text (insert, 1, row->digest);
  if (row->reason != NULL)
    ps_rows_set_text (insert, 2, row->reason);
  for (guint i = 0; row->reason == NULL && i < ps_setting_n_options + PS_N_STORED_FIGURES; i++)
    set_value (insert, (int)i + 2, &row->values[i]);
  return ps_rows_next (insert, &found, error);
}

gboolean ps_results_store (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  gboolean ok = ps_database_begin (results->file, error);

  if (!ok)
    return FALSE;
  ok = prepare (results, error);
  for (guint i = 0; ok && i < n; i++)
    ok = store_row (results, rows[i], error);
  return ps_database_end (results->file, ok, error);
}

gboolean ps_results_sweep (PsResults *results, char **spec, char **digest, guint64 *n_points, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (results->file, error, "SELECT version, spec, digest, points FROM sweep", "");
  g_autofree char *version = NULL;
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  if (!found)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no sweep yet", results->file->path);
  version = ps_rows_text (rows, 0);
  if (!g_str_equal (version, PS_VERSION))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: was predicted by pipesim %s, this is %s", results->file->path,
                      version, PS_VERSION);
  *spec = ps_rows_text (rows, 1);
  *digest = ps_rows_text (rows, 2);
  *n_points = (guint64)ps_rows_integer (rows, 3);
  return TRUE;
}

gboolean ps_results_begin (PsResults *results, const char *digest, const char *spec, guint64 n_points, GError **error)
{
  g_autofree char *stored = NULL, *stored_spec = NULL;
  guint64 n_stored;

  if (!ps_database_execute (results->file, error, "INSERT OR IGNORE INTO sweep VALUES (1, ?1, ?2, ?3, ?4)", "ssis",
                            digest, spec, (gint64)n_points, PS_VERSION)
      || !ps_results_sweep (results, &stored_spec, &stored, &n_stored, error))
    return FALSE;
  return g_str_equal (stored, digest)
         || ps_refuse (error, PS_ERROR_INPUT,
                       "%s: holds another sweep (digest %.8s, this is %.8s); another spec, or changed files in it, "
                       "needs another database",
                       results->file->path, stored, digest);
}

GHashTable *ps_results_digests (PsResults *results, GError **error)
{
  g_autoptr (PsRows) rows
      = ps_rows_new (results->file, error, "SELECT digest FROM prediction UNION ALL SELECT digest FROM skipped", "");
  g_autoptr (GHashTable) digests = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gboolean found;

  while (rows != NULL && ps_rows_next (rows, &found, error)) {
    if (!found)
      return g_steal_pointer (&digests);
    g_hash_table_add (digests, ps_rows_text (rows, 0));
  }
  return NULL;
}

gboolean ps_results_count (PsResults *results, guint64 *predicted, guint64 *skipped, guint64 *missing, GError **error)
{
  gint64 n_predicted, n_skipped, n_points;

  if (!ps_database_integer (results->file, "SELECT count (*) FROM prediction", &n_predicted, error)
      || !ps_database_integer (results->file, "SELECT count (*) FROM skipped", &n_skipped, error)
      || !ps_database_integer (results->file, "SELECT points FROM sweep", &n_points, error))
    return FALSE;
  *predicted = (guint64)n_predicted;
  *skipped = (guint64)n_skipped;
  *missing = (guint64)(n_points - n_predicted - n_skipped);
  return TRUE;
}

gboolean ps_results_merge (PsResults *results, const char *path, GError **error)
{
  g_autoptr (PsResults) other = ps_results_open (path, PS_RESULTS_READ, error);
  g_autofree char *columns = list_columns (), *spec = NULL, *digest = NULL, *sql = NULL;
  guint64 n_points;
  gboolean done;

  if (other == NULL || !ps_results_sweep (other, &spec, &digest, &n_points, error))
    return FALSE;
  if (!ps_results_begin (results, digest, spec, n_points, error)) {
    g_prefix_error (error, "%s: ", path);
    return FALSE;
  }
  if (!ps_database_execute (results->file, error, "ATTACH ?1 AS other", "s", other->file->name))
    return FALSE;
  sql = g_strdup_printf ("INSERT OR IGNORE INTO main.prediction (%s) SELECT %s FROM other.prediction; "
                         "INSERT OR IGNORE INTO main.skipped SELECT * FROM other.skipped",
                         columns, columns);
  done = ps_database_begin (results->file, error)
         && ps_database_end (results->file, ps_database_script (results->file, sql, error), error);
  return ps_database_execute (results->file, done ? error : NULL, "DETACH other", "") && done;
}

/* Values of columns */

static void value_clear (PsValue *value)
{
  if (value->type == PS_VALUE_TEXT)
    g_free ((char *)value->text);
  value->type = PS_VALUE_NONE;
}

/* The value of a column as its type has it; its text is the caller's, value_clear frees it. */
static PsValue rows_value (PsRows *rows, int index, const PsColumn *column)
{
  if (ps_rows_is_null (rows, index))
    return (PsValue){ .type = PS_VALUE_NONE };
  switch (column->type) {
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

void ps_result_values_free (PsResultValues *values)
{
  if (values == NULL)
    return;
  for (guint i = 0; i < values->n_rows * values->n_columns; i++)
    value_clear (&values->values[i]);
  g_free (values->values);
  g_free (values->points);
  g_free (values);
}

/* Runs a query for a point and these columns (of PsColumn). */
static PsResultValues *select_values (PsResults *results, const char *sql, const GPtrArray *columns, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (results->file, error, sql, "");
  g_autoptr (GArray) points = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (PsValue));
  gboolean found;

  g_array_set_clear_func (values, (GDestroyNotify)value_clear);
  while (rows != NULL && ps_rows_next (rows, &found, error)) {
    if (!found) {
      PsResultValues *answer = g_new0 (PsResultValues, 1);

      answer->n_columns = columns->len;
      answer->n_rows = points->len;
      answer->points = (guint64 *)(gpointer)g_array_free (g_steal_pointer (&points), FALSE);
      answer->values = (PsValue *)(gpointer)g_array_free (g_steal_pointer (&values), FALSE);
      return answer;
    }
    guint64 point = (guint64)ps_rows_integer (rows, 0);
    g_array_append_val (points, point);
    for (guint i = 0; i < columns->len; i++) {
      PsValue value = rows_value (rows, (int)i + 1, columns->pdata[i]);

      g_array_append_val (values, value);
    }
  }
  return NULL;
}

char *ps_result_value_text (const char *name, const PsValue *value)
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

void ps_answer_free (PsAnswer *answer)
{
  if (answer == NULL)
    return;
  ps_table_free (answer->table);
  g_free (answer->columns);
  g_free (answer->about);
  g_free (answer);
}

/* An answer with these columns (of PsColumn, which are copied) and no rows. */
static PsAnswer *answer_new (const GPtrArray *columns)
{
  PsAnswer *answer = g_new0 (PsAnswer, 1);

  answer->columns = g_new (PsColumn, columns->len);
  for (guint i = 0; i < columns->len; i++)
    answer->columns[i] = *(const PsColumn *)columns->pdata[i];
  answer->table = ps_table_new (answer->columns, columns->len);
  return answer;
}

/* Sets a cell of the last row, unless there is no value. */
static void answer_set (PsAnswer *answer, const PsColumn *column, const PsValue *value)
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

PsTable *ps_results_reasons (PsResults *results, guint most, GError **error)
{
  static const PsColumn columns[]
      = { { "reason", "reason", PS_COLUMN_TEXT }, { "settings", "settings", PS_COLUMN_INTEGER } };
  g_autoptr (PsRows) rows
      = ps_rows_new (results->file, error, "SELECT reason, settings FROM skipped_reason LIMIT ?1", "i", (gint64)most);
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));
  gboolean found = TRUE;

  while (rows != NULL && ps_rows_next (rows, &found, error)) {
    g_autofree char *reason = NULL;

    if (!found)
      return g_steal_pointer (&table);
    reason = ps_rows_text (rows, 0);
    ps_table_add_row (table);
    ps_table_set_text (table, "reason", reason);
    ps_table_set_integer (table, "settings", ps_rows_integer (rows, 1));
  }
  return NULL;
}

/* The conditions of a question */

static const PsColumn *find_called (const char *option, const char *name, gboolean number, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);

  for (guint i = 0; i < n; i++) {
    const PsColumn *column = &columns[i].column;

    if (column->title == NULL || (number && column->type == PS_COLUMN_TEXT))
      continue;
    if (ps_column_is_called (column, name))
      return column;
    g_ptr_array_add (names, (gpointer)column->title);
  }
  g_autofree char *problem
      = g_strdup_printf ("%s: '%s' is no column%s; there are", option, name, number ? " of numbers" : "");
  ps_refuse_name (error, problem, name, (const char *const *)names->pdata, names->len);
  return NULL;
}

gboolean ps_result_column_resolve (const char *option, char **name, gboolean number, GError **error)
{
  const PsColumn *column = find_called (option, *name, number, error);

  if (column == NULL)
    return FALSE;
  g_free (*name);
  *name = g_strdup (column->key);
  return TRUE;
}

/* Refuses names (ending with NULL; NULL: none) that are no keys of columns, or with `number` of no column of numbers.
 */
static gboolean check_keys (const char *option, const char *const *names, gboolean number, GError **error)
{
  for (guint i = 0; names != NULL && names[i] != NULL; i++) {
    const PsColumn *column = find_called (option, names[i], number, error);

    if (column == NULL)
      return FALSE;
    if (!g_str_equal (column->key, names[i]))
      return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is no key of a column; %s is", option, names[i], column->key);
  }
  return TRUE;
}

/* Checks the columns of a question. Errors: PS_ERROR_USAGE. */
static gboolean check_question (const PsQuestion *question, GError **error)
{
  const char *by[] = { question->by, NULL };

  return check_keys ("--per", (const char *const *)question->per, FALSE, error)
         && check_keys ("--columns", (const char *const *)question->columns, FALSE, error)
         && check_keys ("--by", by, TRUE, error);
}

/* Appends the value of a condition as SQL has it. */
static gboolean append_value (GString *sql, const PsColumn *column, const char *text, GError **error)
{
  gint64 value = 0;
  gboolean ok = TRUE;

  if (column->type == PS_COLUMN_TEXT) {
    g_auto (GStrv) parts = g_strsplit (text, "'", -1);
    g_autofree char *doubled = g_strjoinv ("''", parts);

    g_string_append_printf (sql, "'%s'", doubled);
    return TRUE;
  }
  if (column->type == PS_COLUMN_INTEGER || column->type == PS_COLUMN_NUMBER || column->type == PS_COLUMN_RATIO) {
    char *end, buffer[G_ASCII_DTOSTR_BUF_SIZE];
    double number = g_ascii_strtod (text, &end);

    if (end == text || *end != '\0' || !isfinite (number))
      return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is no number, as %s is", text, column->key);
    g_string_append (sql, g_ascii_dtostr (buffer, sizeof buffer, number));
    return TRUE;
  }
  if (column->type == PS_COLUMN_TIME)
    ok = ps_parse_time ("--where", text, &value, error);
  else if (column->type == PS_COLUMN_SIZE)
    ok = ps_parse_size ("--where", text, &value, error);
  else if (column->type == PS_COLUMN_RATE)
    ok = ps_parse_rate ("--where", text, &value, error);
  else if (g_str_equal (text, "any")) {
    g_string_append (sql, column->key); /* equals itself */
    return TRUE;
  } else if (g_str_equal (text, "yes") || g_str_equal (text, "no"))
    value = *text == 'y';
  else
    ok = ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is not yes, no or any, as %s is", text, column->key);
  g_string_append_printf (sql, "%" G_GINT64_FORMAT, value);
  return ok;
}

/* Splits "devices>=8" into its name and its sign; returns the value. */
static const char *split_condition (const char *text, char **name, char **sign)
{
  gsize name_length = strcspn (text, "!<>="), length = strspn (text + name_length, "!<>=");

  *name = g_strstrip (g_strndup (text, name_length));
  *sign = g_strndup (text + name_length, length);
  return text + name_length + length;
}

/* Whether a condition on the column begins with one of the signs. */
static gboolean has_condition (const PsQuestion *question, const char *column, const char *signs)
{
  gboolean found = FALSE;

  for (guint i = 0; question->where != NULL && question->where[i] != NULL; i++) {
    g_autofree char *name = NULL, *sign = NULL;

    split_condition (question->where[i], &name, &sign);
    found = found || (ps_column_is_called (result_column (column), name) && *sign && strchr (signs, *sign) != NULL);
  }
  return found;
}

static gboolean append_conditions (const PsQuestion *question, GString *sql, GError **error)
{
  static const char *const signs[] = { "=", "!=", "<=", ">=", "<", ">", NULL };

  for (guint i = 0; question->where != NULL && question->where[i] != NULL; i++) {
    g_autofree char *name = NULL, *sign = NULL;
    const char *value = split_condition (question->where[i], &name, &sign);

    if (!g_strv_contains (signs, sign))
      return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is not COLUMN=VALUE, nor with one of != <= >= < >",
                        question->where[i]);
    const PsColumn *column = find_called ("--where", name, FALSE, error);
    if (column == NULL)
      return FALSE;
    g_string_append_printf (sql, " AND %s %s ", column->key, sign);
    if (!append_value (sql, column, value, error))
      return FALSE;
  }
  return TRUE;
}

/* Whether a condition lets asynchronous schedules count. */
static gboolean counts_asynchronous (const PsQuestion *question)
{
  return has_condition (question, "schedule", "=") || has_condition (question, "asynchronous", "!<>=");
}

/* Whether a condition lets settings count that do not fit. */
static gboolean counts_unfit (const PsQuestion *question)
{
  return has_condition (question, "feasible", "!<>=");
}

/* " WHERE feasible AND ..." with the values as SQL literals. Errors: PS_ERROR_USAGE. */
static gboolean append_where (const PsQuestion *question, GString *sql, GError **error)
{
  g_string_append_printf (sql, " WHERE %s%s", counts_unfit (question) ? "TRUE" : "feasible",
                          counts_asynchronous (question) ? "" : " AND NOT asynchronous");
  return append_conditions (question, sql, error);
}

/* How many settings do not fit and would count if they did; -1 on error. */
static gint64 count_unfit (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT count(*) FROM result WHERE NOT feasible");
  gboolean found;

  if (counts_unfit (question))
    return 0;
  g_string_append (sql, counts_asynchronous (question) ? "" : " AND NOT asynchronous");
  g_autoptr (PsRows) rows
      = append_conditions (question, sql, error) ? ps_rows_new (results->file, error, sql->str, "") : NULL;
  return rows != NULL && ps_rows_next (rows, &found, error) ? ps_rows_integer (rows, 0) : -1;
}

/* *text: the value of a query of one, NULL if it is NULL. Free with g_free. */
static gboolean query_text (PsResults *results, const char *sql, char **text, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (results->file, error, sql, "");
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  *text = ps_rows_is_null (rows, 0) ? NULL : ps_rows_text (rows, 0);
  return TRUE;
}

char *ps_question_left_out (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT replace (group_concat (DISTINCT schedule), ',', ', ') FROM result "
                                          "WHERE asynchronous AND feasible");
  const gint64 n_unfit = count_unfit (results, question, error);
  g_autofree char *unfit = n_unfit > 0 ? g_strdup_printf ("settings that do not fit their memory: %" G_GINT64_FORMAT
                                                          "; --where fits=any counts them",
                                                          n_unfit)
                                       : g_strdup ("");
  g_autofree char *names = NULL;

  if (n_unfit < 0)
    return NULL;
  if (counts_asynchronous (question))
    return g_steal_pointer (&unfit);
  if (!append_conditions (question, sql, error) || !query_text (results, sql->str, &names, error))
    return NULL;
  if (names == NULL)
    return g_steal_pointer (&unfit);
  return g_strdup_printf (
      "%s: asynchronous, their gradients are of older weights; --where asynchronous=any counts them%s%s", names,
      *unfit != '\0' ? ". Also " : "", unfit);
}

#define MOST_VALUES 20u /* that an error names */

/* Fails where no setting at all meets one of the conditions: names it, and values that the column has. */
static gboolean refuse_condition (PsResults *results, const PsQuestion *question, const char *path, GError **error)
{
  for (guint i = 0; question->where != NULL && question->where[i] != NULL; i++) {
    char *one[] = { question->where[i], NULL };
    const PsQuestion alone = { .where = one };
    g_autoptr (GString) sql = g_string_new ("SELECT max (1) FROM result WHERE TRUE");
    g_autofree char *name = NULL, *sign = NULL, *values = NULL, *met = NULL;

    if (!append_conditions (&alone, sql, error) || !query_text (results, sql->str, &met, error))
      return FALSE;
    split_condition (one[0], &name, &sign);
    const PsColumn *column = find_called ("--where", name, FALSE, NULL);
    if (met != NULL || column == NULL)
      continue;
    if (column->type == PS_COLUMN_TEXT || column->type == PS_COLUMN_INTEGER) {
      g_string_printf (sql,
                       "SELECT replace (group_concat (value), ',', ', ') FROM (SELECT DISTINCT %s AS value FROM result "
                       "ORDER BY value LIMIT %u)",
                       column->key, MOST_VALUES);
      if (!query_text (results, sql->str, &values, error))
        return FALSE;
    }
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no setting with %s%s%s", path, one[0],
                      values != NULL ? "; there are " : "", values != NULL ? values : "");
  }
  return TRUE;
}

gboolean ps_question_refuse_none (PsResults *results, const PsQuestion *question, const char *path, GError **error)
{
  guint64 predicted, skipped, missing;

  if (!ps_results_count (results, &predicted, &skipped, &missing, error))
    return FALSE;
  if (predicted > 0)
    return refuse_condition (results, question, path, error)
           && ps_refuse (error, PS_ERROR_INPUT, "%s: holds no setting that fits its memory limit%s", path,
                         question->where != NULL || question->n_limits > 0 ? " and what else is asked for" : "");
  if (skipped + missing == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no sweep yet", path);
  return ps_refuse (error, PS_ERROR_INPUT,
                    missing > 0 ? "%s: holds no prediction; pipesim sweep SPEC.ini --db %s --resume makes them"
                                : "%s: holds no prediction: no setting is possible; SELECT * FROM skipped_reason in it "
                                  "says why",
                    path, path);
}

/* The settings that a question holds fixed or apart, and those that it leaves to be chosen */

/* PsFieldFlags of the option whose column it is. */
static guint flags_of (const char *column)
{
  return ps_setting_options[ps_result_column_find (column)].flags;
}

static const char *const nothing[] = { NULL };

/* Whether the column follows from one of `per`, or is known to predictions alone. */
static gboolean follows (const char *column, const char *const *per)
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

/* Circumstances, and with the microbatches the columns whose product the batch is. */
static gboolean is_held (const char *column, const char *const *per)
{
  if (g_str_equal (column, "replicas") || g_str_equal (column, "microbatch_size"))
    return g_strv_contains (per, "microbatches");
  return !(flags_of (column) & (PS_FIELD_SCHEDULE | PS_FIELD_DECIDED)) && !follows (column, per);
}

void ps_scope_free (PsScope *scope)
{
  if (scope == NULL)
    return;
  g_strfreev (scope->per);
  g_strfreev (scope->varying);
  g_free (scope->about);
  g_free (scope);
}

static void append_item (GString *list, const char *title, const char *equals, const char *text)
{
  if (title != NULL)
    g_string_append_printf (list, "%s%s%s%s", list->len ? ", " : "", title, equals, text);
}

/* Appends "p = 4" of a column that has one value, unless the value goes without saying and was not asked for. */
static void append_fixed (GString *fixed, const PsOption *option, const PsValue *value, const PsQuestion *question)
{
  const PsColumn *column = &option->sweep->column;
  g_autoptr (PsSetting) defaults = ps_setting_new ();
  const PsValue usual = ps_setting_column (option, defaults);
  g_autofree char *text = ps_result_value_text (column->key, value);
  g_autofree char *usual_text = ps_result_value_text (column->key, &usual);
  gboolean chosen = g_str_equal (column->key, "schedule") || g_str_equal (column->key, "chunk");
  gboolean implied = (option->flags & PS_FIELD_SCHEDULE && !chosen) || follows (column->key, nothing);
  gboolean is_usual = value->type == PS_VALUE_NONE || g_str_equal (text, usual_text);

  if (!implied && (!is_usual || has_condition (question, column->key, "=")))
    append_item (fixed, column->title, " = ", text);
}

/* One row: for each option whether it varies, and its least value; last the largest unrest. */
static PsRows *survey (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT max (unrest)");
  g_autoptr (PsRows) rows = NULL;
  gboolean found;

  for (guint i = 0; i < ps_setting_n_options; i++) {
    const char *key = ps_setting_options[i].sweep->column.key;

    g_string_append_printf (sql, ", min (%s) IS NOT max (%s) OR count (%s) NOT IN (0, count (*)), min (%s)", key, key,
                            key, key);
  }
  g_string_append (sql, " FROM result");
  if (!append_where (question, sql, error))
    return NULL;
  rows = ps_rows_new (results->file, error, sql->str, "");
  return rows != NULL && ps_rows_next (rows, &found, error) ? g_steal_pointer (&rows) : NULL;
}

PsScope *ps_question_scope (PsResults *results, const PsQuestion *question, GError **error)
{
  const char *const *asked = question->per != NULL ? (const char *const *)question->per : nothing;
  g_autoptr (PsRows) rows = check_question (question, error) ? survey (results, question, error) : NULL;
  g_autoptr (GStrvBuilder) per = g_strv_builder_new (), varying = g_strv_builder_new ();
  g_autoptr (GString) fixed = g_string_new (NULL), apart = g_string_new (NULL), chosen = g_string_new (NULL);
  g_autoptr (GString) about = g_string_new (NULL);

  if (rows == NULL)
    return NULL;
  g_strv_builder_addv (per, (const char **)asked);
  for (guint i = 0; i < ps_setting_n_options; i++) {
    const PsColumn *column = &ps_setting_options[i].sweep->column;
    gboolean is_asked = g_strv_contains (asked, column->key), held = *asked != NULL && is_held (column->key, asked);

    if (!ps_rows_integer (rows, 2 * (int)i + 1)) {
      PsValue value = rows_value (rows, 2 * (int)i + 2, column);

      append_fixed (fixed, &ps_setting_options[i], &value, question);
      value_clear (&value);
      continue;
    }
    g_strv_builder_add (varying, column->key);
    if (held && !is_asked)
      g_strv_builder_add (per, column->key);
    if (is_asked || !follows (column->key, asked))
      append_item (is_asked || held ? apart : chosen, column->title, "", "");
  }
  PsScope *scope = g_new0 (PsScope, 1);
  scope->per = g_strv_builder_end (per);
  scope->varying = g_strv_builder_end (varying);
  scope->asynchronous = counts_asynchronous (question);
  g_autofree char *unrest = ps_unrest_to_text (ps_rows_real (rows, 0), "");
  const struct {
    const char *title, *text;
  } parts[] = { { "fixed: ", fixed->str }, { "held apart: ", apart->str }, { "chosen: ", chosen->str } };
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    if (*parts[i].text)
      g_string_append_printf (about, "%s%s%s", about->len ? "; " : "", parts[i].title, parts[i].text);
  g_string_append_printf (about, "%s%s%s", scope->asynchronous ? "; asynchronous schedules count" : "",
                          *unrest ? "; " : "", unrest);
  scope->about = g_strdup (about->str);
  return scope;
}

/* The best of each group */

/* "a, b, " or nothing. */
static char *list_groups (char *const *columns)
{
  g_autofree char *joined = g_strjoinv (", ", (char **)columns);

  return *joined ? g_strconcat (joined, ", ", NULL) : g_strdup ("");
}

/* Appends the keys of columns (of PsColumn), each after a comma. */
static void append_columns (GString *sql, const GPtrArray *columns)
{
  for (guint i = 0; i < columns->len; i++)
    g_string_append_printf (sql, ", %s", ((const PsColumn *)columns->pdata[i])->key);
}

/* The `top` fastest settings of each group that need no more memory than the limit (NULL: none). */
static PsResultValues *select_best (PsResults *results, const PsQuestion *question, const PsScope *scope,
                                    const GPtrArray *columns, guint top, const gint64 *limit, GError **error)
{
  g_autofree char *groups = list_groups (scope->per), *parts = g_strjoinv (", ", scope->per);
  g_autoptr (GString) sql = g_string_new ("SELECT point");

  append_columns (sql, columns);
  g_string_append_printf (
      sql, " FROM (SELECT *, row_number () OVER (%s %s ORDER BY %s, peak_memory_bytes, point) AS place FROM result",
      *parts ? "PARTITION BY" : "", parts, question->by);
  if (!append_where (question, sql, error))
    return NULL;
  if (limit != NULL)
    g_string_append_printf (sql, " AND peak_memory_bytes <= %" G_GINT64_FORMAT, *limit);
  g_string_append_printf (sql, ") WHERE place <= %u ORDER BY %splace", top, groups);
  return select_values (results, sql->str, columns, error);
}

/* The settings of each group that no other one beats in both time and memory. */
static PsResultValues *select_front (PsResults *results, const PsQuestion *question, const PsScope *scope,
                                     const GPtrArray *columns, GError **error)
{
  g_autofree char *groups = list_groups (scope->per), *parts = g_strjoinv (", ", scope->per);
  g_autoptr (GString) sql = g_string_new ("SELECT point");

  append_columns (sql, columns);
  g_string_append_printf (sql,
                          " FROM (SELECT *, min (%s) OVER (%s %s ORDER BY peak_memory_bytes, %s, point"
                          " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS least FROM result",
                          question->by, *parts ? "PARTITION BY" : "", parts, question->by);
  if (!append_where (question, sql, error))
    return NULL;
  g_string_append_printf (sql, ") WHERE least IS NULL OR %s < least ORDER BY %speak_memory_bytes", question->by,
                          groups);
  return select_values (results, sql->str, columns, error);
}

PsResultValues *ps_results_values (PsResults *results, const PsQuestion *question, const char *const *columns,
                                   GError **error)
{
  g_autoptr (PsScope) scope
      = check_keys ("column", columns, FALSE, error) ? ps_question_scope (results, question, error) : NULL;
  g_autoptr (GPtrArray) shown = g_ptr_array_new ();

  if (scope == NULL)
    return NULL;
  for (guint i = 0; columns[i] != NULL; i++)
    g_ptr_array_add (shown, (gpointer)result_column (columns[i]));
  return select_best (results, question, scope, shown, 1, NULL, error);
}

static const PsColumn within = { "within_bytes", "within", PS_COLUMN_SIZE };

static void add_column (GPtrArray *columns, const char *name)
{
  const PsColumn *column = result_column (name);

  if (!g_ptr_array_find (columns, column, NULL))
    g_ptr_array_add (columns, (gpointer)column);
}

/* Groups, columns that differ, figures. */
static GPtrArray *shown_columns (const PsScope *scope, const PsQuestion *question)
{
  static const char *const usual[]
      = { "iteration_ns", "sequence_ns", "bubble_ratio", "peak_memory_bytes", "costs_origin" };
  GPtrArray *columns = g_ptr_array_new ();

  for (guint i = 0; scope->per[i] != NULL; i++)
    add_column (columns, scope->per[i]);
  add_column (columns, "schedule");
  if (scope->asynchronous)
    add_column (columns, "asynchronous");
  for (guint i = 0; scope->varying[i] != NULL; i++)
    add_column (columns, scope->varying[i]);
  add_column (columns, question->by);
  for (guint i = 0; i < G_N_ELEMENTS (usual); i++)
    add_column (columns, usual[i]);
  for (guint i = 0; question->columns != NULL && question->columns[i] != NULL; i++)
    add_column (columns, question->columns[i]);
  return columns;
}

static void add_rows (PsAnswer *answer, const GPtrArray *columns, const PsResultValues *values, const gint64 *limit)
{
  for (guint row = 0; row < values->n_rows; row++) {
    ps_table_add_row (answer->table);
    if (limit != NULL)
      ps_table_set_integer (answer->table, within.key, *limit);
    for (guint i = 0; i < columns->len; i++)
      answer_set (answer, columns->pdata[i], &values->values[row * columns->len + i]);
  }
}

PsAnswer *ps_results_pareto (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (PsScope) scope = ps_question_scope (results, question, error);
  g_autoptr (GPtrArray) columns = scope != NULL ? shown_columns (scope, question) : NULL;
  g_autoptr (PsResultValues) values = scope != NULL ? select_front (results, question, scope, columns, error) : NULL;
  PsAnswer *answer = values != NULL ? answer_new (columns) : NULL;

  if (answer == NULL)
    return NULL;
  add_rows (answer, columns, values, NULL);
  answer->about = g_steal_pointer (&scope->about);
  return answer;
}

PsAnswer *ps_results_best (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (PsScope) scope = ps_question_scope (results, question, error);

  if (scope == NULL)
    return NULL;
  g_autoptr (GPtrArray) columns = shown_columns (scope, question), all = g_ptr_array_copy (columns, NULL, NULL);
  if (question->n_limits)
    g_ptr_array_insert (all, 0, (gpointer)&within);
  g_autoptr (PsAnswer) answer = answer_new (all);
  for (guint i = 0; i < MAX (question->n_limits, 1); i++) {
    const gint64 *limit = question->n_limits ? &question->limits[i] : NULL;
    g_autoptr (PsResultValues) values = select_best (results, question, scope, columns, question->top, limit, error);

    if (values == NULL)
      return NULL;
    add_rows (answer, columns, values, limit);
  }
  answer->about = g_steal_pointer (&scope->about);
  return g_steal_pointer (&answer);
}

/* Where one schedule overtakes another */

/* The rows of one value of the column, in one group, fastest first: [n * n_columns] with the group, the value, the
 * schedule and its time. */
typedef struct {
  const PsValue *rows;
  guint n;
} Place;

typedef struct {
  const PsColumn *over;
  char **held;
  guint n_held;
  guint n_columns; /* n_held + 3 */
  PsAnswer *answer;
} Task;

/* `over`, then --per; where that is not given all columns that vary but those that come with a schedule. */
static char **asked_columns (const PsQuestion *question, const char *over, const char *const *varying)
{
  const char *const causes[] = { over, "microbatches", NULL };
  g_autoptr (GStrvBuilder) asked = g_strv_builder_new ();

  g_strv_builder_add (asked, over);
  if (question->per != NULL)
    g_strv_builder_addv (asked, (const char **)question->per);
  for (guint i = 0; question->per == NULL && varying[i] != NULL; i++)
    if (!g_str_equal (varying[i], over) && !(flags_of (varying[i]) & PS_FIELD_SCHEDULE)
        && !follows (varying[i], causes))
      g_strv_builder_add (asked, varying[i]);
  return g_strv_builder_end (asked);
}

/* The columns of a task: those that are held, the column, the schedule and its least time. */
static GPtrArray *task_columns (const Task *task)
{
  static const PsColumn least = { "least", NULL, PS_COLUMN_NUMBER };
  GPtrArray *columns = g_ptr_array_new ();

  for (guint i = 0; i < task->n_held; i++)
    g_ptr_array_add (columns, (gpointer)result_column (task->held[i]));
  g_ptr_array_add (columns, (gpointer)task->over);
  g_ptr_array_add (columns, (gpointer)result_column ("schedule"));
  g_ptr_array_add (columns, (gpointer)&least);
  return columns;
}

/* The least time of each schedule at each value of the column. */
static PsResultValues *select_times (PsResults *results, const PsQuestion *question, const Task *task, GError **error)
{
  g_autofree char *groups = list_groups (task->held);
  g_autoptr (GPtrArray) columns = task_columns (task);
  g_autoptr (GString) sql = g_string_new (NULL);
  const char *over = task->over->key;

  g_string_append_printf (sql, "SELECT point, %s%s, schedule, min (%s) AS least FROM result", groups, over,
                          question->by);
  if (!append_where (question, sql, error))
    return NULL;
  g_string_append_printf (sql, " AND %s IS NOT NULL GROUP BY %s%s, schedule ORDER BY %s%s, least, schedule", over,
                          groups, over, groups, over);
  return select_values (results, sql->str, columns, error);
}

static gboolean same_cells (const PsValue *a, const PsValue *b, guint n)
{
  for (guint i = 0; i < n; i++)
    if (a[i].type != b[i].type || (a[i].type == PS_VALUE_INTEGER && a[i].integer != b[i].integer)
        || (a[i].type == PS_VALUE_REAL && (a[i].real < b[i].real || a[i].real > b[i].real))
        || (a[i].type == PS_VALUE_TEXT && !g_str_equal (a[i].text, b[i].text)))
      return FALSE;
  return TRUE;
}

static const char *schedule_at (const Task *task, const Place *place, guint i)
{
  return place->rows[i * task->n_columns + task->n_held + 1].text;
}

/* NaN where the schedule is not known there. */
static double time_of (const Task *task, const Place *place, const char *schedule)
{
  for (guint i = 0; i < place->n; i++)
    if (g_str_equal (schedule_at (task, place, i), schedule))
      return place->rows[i * task->n_columns + task->n_held + 2].real;
  return NAN;
}

static double number_of (const PsValue *value)
{
  return value->type == PS_VALUE_INTEGER ? (double)value->integer : value->type == PS_VALUE_REAL ? value->real : NAN;
}

/* Between the last place at which the old winner was ahead, and this one. NaN where either is not known at both. */
static double break_even (const Task *task, const Place *last, const char *before, const Place *now)
{
  const char *winner = schedule_at (task, now, 0);
  double left = time_of (task, last, winner) - time_of (task, last, before);
  double ahead = time_of (task, now, before) - time_of (task, now, winner);
  double from = number_of (&last->rows[task->n_held]), to = number_of (&now->rows[task->n_held]);

  return from + (to - from) * left / (left + ahead);
}

/* Begins a row for the stretch that the fastest schedule of `now` wins. last, before: NULL at the beginning of a group.
 */
static void begin_stretch (const Task *task, const Place *last, const char *before, const Place *now)
{
  PsTable *table = task->answer->table;
  const char *winner = schedule_at (task, now, 0);
  double second = now->n > 1 ? time_of (task, now, schedule_at (task, now, 1)) : NAN;

  ps_table_add_row (table);
  for (guint i = 0; i < task->n_held; i++)
    answer_set (task->answer, result_column (task->held[i]), &now->rows[i]);
  answer_set (task->answer, &task->answer->columns[task->n_held], &now->rows[task->n_held]);
  ps_table_set_text (table, "winner", winner);
  ps_table_set_ratio (table, "ahead", (second - time_of (task, now, winner)) / second);
  if (before == NULL)
    return;
  ps_table_set_text (table, "before", before);
  ps_table_set_ratio (table, "break_even", break_even (task, last, before, now));
}

/* Lets the row say that its stretch reaches to here so far: "zb-v beats zb-h1 from m = 8 to 16". tied: somewhere in it
 * another schedule is as fast. */
static void extend_stretch (const Task *task, const char *before, const Place *first, const Place *now, gboolean tied)
{
  const PsValue *from = &first->rows[task->n_held], *to = &now->rows[task->n_held];
  g_autofree char *from_text = ps_result_value_text (task->over->key, from);
  g_autofree char *to_text = ps_result_value_text (task->over->key, to);
  gboolean longer = from != to;
  const char *winner = schedule_at (task, first, 0);
  g_autofree char *wins = before != NULL ? g_strdup_printf ("%s beats %s", winner, before)
                          : tied         ? g_strdup_printf ("no schedule is faster than %s", winner)
                                         : g_strdup_printf ("%s is the fastest", winner);
  g_autofree char *text = g_strdup_printf ("%s %s %s = %s%s%s", wins, longer ? "from" : "at", task->over->title,
                                           from_text, longer ? " to " : "", longer ? to_text : "");

  answer_set (task->answer, &task->answer->columns[task->n_held + 1], to);
  ps_table_set_text (task->answer->table, "statement", text);
}

static void list_stretches (const Task *task, const PsResultValues *values)
{
  Place last = { NULL, 0 }, first = { NULL, 0 };
  const char *winner = NULL, *before = NULL;
  gboolean tied = FALSE;

  for (guint row = 0; row < values->n_rows;) {
    Place now = { &values->values[row * task->n_columns], 1 };

    for (row++; row < values->n_rows && same_cells (now.rows, &values->values[row * task->n_columns], task->n_held + 1);
         row++)
      now.n++;
    if (last.rows == NULL || !same_cells (last.rows, now.rows, task->n_held))
      winner = NULL;
    if (winner == NULL || !(time_of (task, &now, winner) <= time_of (task, &now, schedule_at (task, &now, 0)))) {
      begin_stretch (task, &last, winner, &now);
      before = winner;
      winner = schedule_at (task, &now, 0);
      first = now;
      tied = FALSE;
    }
    tied |= now.n > 1
            && time_of (task, &now, schedule_at (task, &now, 0)) == time_of (task, &now, schedule_at (task, &now, 1));
    extend_stretch (task, before, &first, &now, tied);
    last = now;
  }
}

static PsAnswer *stretches_new (const Task *task)
{
  static const PsColumn found[] = { { "winner", "winner", PS_COLUMN_TEXT },
                                    { "ahead", "ahead", PS_COLUMN_RATIO },
                                    { "before", "before", PS_COLUMN_TEXT },
                                    { "break_even", "break even", PS_COLUMN_NUMBER },
                                    { "statement", "in words", PS_COLUMN_TEXT } };
  const PsColumn from = { "from", "from", task->over->type }, to = { "to", "to", task->over->type };
  g_autoptr (GPtrArray) columns = task_columns (task);

  g_ptr_array_set_size (columns, (int)task->n_held);
  g_ptr_array_add (columns, (gpointer)&from);
  g_ptr_array_add (columns, (gpointer)&to);
  for (guint i = 0; i < G_N_ELEMENTS (found); i++)
    g_ptr_array_add (columns, (gpointer)&found[i]);
  return answer_new (columns);
}

PsAnswer *ps_results_sensitivity (PsResults *results, const PsQuestion *asked, GError **error)
{
  const char *over = asked->over != NULL ? asked->over : "microbatches";
  int index = ps_result_column_find (over);
  PsQuestion question = *asked;

  if (!check_question (asked, error))
    return NULL;
  if (index < 0 || index >= (int)ps_setting_n_options || g_str_equal (over, "schedule"))
    return ps_refuse_null (error, PS_ERROR_USAGE, "--over: '%s' is no setting; a column such as microbatches is", over);
  g_autoptr (PsScope) scope = ps_question_scope (results, asked, error);
  g_auto (GStrv) per = scope != NULL ? asked_columns (asked, over, (const char *const *)scope->varying) : NULL;
  question.per = per;
  g_autoptr (PsScope) along = scope != NULL ? ps_question_scope (results, &question, error) : NULL;
  if (along == NULL)
    return NULL;
  Task task = { .over = result_column (over), .held = along->per + 1 };
  task.n_held = g_strv_length (task.held);
  task.n_columns = task.n_held + 3;
  g_autoptr (PsResultValues) values = select_times (results, asked, &task, error);
  if (values == NULL)
    return NULL;
  task.answer = stretches_new (&task);
  task.answer->about = g_steal_pointer (&along->about);
  list_stretches (&task, values);
  return task.answer;
}

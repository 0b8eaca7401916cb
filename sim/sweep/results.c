/* results.c - predictions in their database. */
#include "results-private.h"
#include "setting/options.h"
#include "database/database.h"

#include <pipesim/results.h>

#include <string.h>
#include <math.h>

/* The columns of a prediction: those of the options of SETTING, and figures as data/results.sql has
 * them. */

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

/* "point, digest, schedule, devices, ...": the columns of a prediction. Free with g_free. */
static char *
results_list_columns (void)
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

/* The columns of a table or view of the file; empty: there is none of that name. Free with g_strfreev. */
static char **
results_names (PsDatabase *file, const char *table, GError **error)
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

/* Stores predictions. A sweep changes few of their columns, and a row takes as long as it has
 * columns: a column is stored from the first prediction on that differs in it from those before. */

#define ROWS_AT_ONCE 16 /* of one statement */

static guint
n_columns (void)
{
  return ps_setting_n_options + PS_N_STORED_FIGURES;
}

static const PsColumn *
column_at (guint index)
{
  guint n;

  return &ps_result_columns (&n)[index].column;
}

/* SQL */

static const char *
sql_type (PsColumnType type)
{
  gboolean real = type == PS_COLUMN_NUMBER || type == PS_COLUMN_RATE || type == PS_COLUMN_RATIO;

  return type == PS_COLUMN_TEXT ? "TEXT" : real ? "REAL" : "INTEGER";
}

/* Appends "replicas INTEGER NOT NULL": a column of a prediction by its index. */
static void
results_declare (GString *sql, guint column)
{
  gboolean may_be_null = column < ps_setting_n_options && ps_setting_options[column].flags & PS_FIELD_NULL;

  g_string_append_printf (sql, "%s %s%s", column_at (column)->key, sql_type (column_at (column)->type),
                          may_be_null ? "" : " NOT NULL");
}

/* "point, digest, schedule, makespan_ns": the columns of the table. */
static void
append_stored (const PsResults *results, GString *sql)
{
  g_string_append (sql, "point, digest");
  for (guint i = 0; i < n_columns (); i++)
    if (results->varies[i])
      g_string_append_printf (sql, ", %s", column_at (i)->key);
}

/* How the file keeps predictions */

/* Forgets how the file keeps predictions, and frees the statements for them. */
static void
results_forget (PsResults *results)
{
  for (guint i = 0; results->same != NULL && i < n_columns (); i++)
    if (results->same[i].type == PS_VALUE_TEXT)
      g_free ((char *)results->same[i].text);
  g_clear_pointer (&results->same, g_free);
  g_clear_pointer (&results->varies, g_free);
  g_clear_pointer (&results->many, ps_rows_free);
  g_clear_pointer (&results->single, ps_rows_free);
  results->schema = -1;
}

static PsValue *
copy_values (const PsValue *values)
{
  PsValue *copy = g_memdup2 (values, n_columns () * sizeof *values);

  for (guint i = 0; i < n_columns (); i++)
    if (values[i].type == PS_VALUE_TEXT)
      copy[i].text = g_strdup (values[i].text);
  return copy;
}

static PsValue
read_value (PsRows *rows, guint column)
{
  const char *type = sql_type (column_at (column)->type);
  int index = (int)column + 2; /* after point and digest */

  if (ps_rows_is_null (rows, index))
    return (PsValue){ .type = PS_VALUE_NONE };
  if (g_str_equal (type, "TEXT"))
    return (PsValue){ .type = PS_VALUE_TEXT, .text = ps_rows_text (rows, index) };
  if (g_str_equal (type, "REAL"))
    return (PsValue){ .type = PS_VALUE_REAL, .real = ps_rows_real (rows, index) };
  return (PsValue){ .type = PS_VALUE_INTEGER, .integer = ps_rows_integer (rows, index) };
}

/* Some prediction of a database, "main" or "other"; its texts are the caller's. *values is NULL if there is none. */
static gboolean
read_any (PsResults *results, const char *database, PsValue **values, GError **error)
{
  g_autofree char *columns = results_list_columns ();
  g_autofree char *sql = g_strdup_printf ("SELECT %s FROM %s.prediction LIMIT 1", columns, database);
  g_autoptr (PsRows) rows = ps_rows_new (results->file, error, sql, "");
  gboolean found;

  *values = NULL;
  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  if (!found)
    return TRUE;
  *values = g_new (PsValue, n_columns ());
  for (guint i = 0; i < n_columns (); i++)
    (*values)[i] = read_value (rows, i);
  return TRUE;
}

static gboolean
read_schema (PsResults *results, gint64 *schema, GError **error)
{
  return ps_database_integer (results->file, "PRAGMA main.schema_version", schema, error);
}

/* Finds out what is known after predictions have been stored. Another process may have changed it since. */
static gboolean
read_form (PsResults *results, GError **error)
{
  g_auto (GStrv) names = NULL;
  PsValue *values;
  gint64 schema;

  if (!read_schema (results, &schema, error))
    return FALSE;
  if (results->varies != NULL && schema == results->schema)
    return TRUE;
  results_forget (results);
  names = results_names (results->file, "varying", error);
  if (names == NULL || !read_any (results, "main", &values, error))
    return FALSE;
  if (values == NULL)
    return TRUE;
  results->whole = names[0] == NULL;
  results->same = values;
  results->varies = g_new0 (gboolean, n_columns ());
  for (guint i = 0; i < n_columns (); i++)
    results->varies[i] = results->whole || g_strv_contains ((const char *const *)names, column_at (i)->key);
  results->schema = schema;
  return TRUE;
}

/* Whether SQLite reads the literal of a number as that number: it rounds some decimals another way. */
static gboolean
reads_back (PsResults *results, const PsValue *value)
{
  g_autoptr (GString) sql = g_string_new ("SELECT ");
  g_autoptr (PsRows) rows = NULL;
  gboolean found;

  if (value->type != PS_VALUE_REAL)
    return TRUE;
  if (!isfinite (value->real))
    return FALSE;
  ps_results_quote (sql, value);
  rows = ps_rows_new (results->file, NULL, sql->str, "");
  return rows != NULL && ps_rows_next (rows, &found, NULL) && found && ps_rows_real (rows, 0) == value->real;
}

/* Stores columns that `differs` names from now on: in a new table, or added to the one that is there, with the value
 * that they had in all its rows. A transaction that fails must forget the form. */
static gboolean
store_columns (PsResults *results, const gboolean *differs, gboolean is_new, GError **error)
{
  g_autoptr (GString) sql = g_string_new (NULL), view = g_string_new (NULL);

  g_clear_pointer (&results->many, ps_rows_free);
  g_clear_pointer (&results->single, ps_rows_free);
  if (is_new)
    g_string_append (sql, "CREATE TABLE main.varying (point INTEGER PRIMARY KEY, digest TEXT NOT NULL");
  for (guint i = 0; i < n_columns (); i++)
    {
      if (differs[i] && !results->varies[i])
        {
          results->varies[i] = TRUE;
          g_string_append (sql, is_new ? ", " : "ALTER TABLE main.varying ADD COLUMN ");
          results_declare (sql, i);
          if (!is_new)
            {
              g_string_append (sql, " DEFAULT ");
              ps_results_quote (sql, &results->same[i]);
              g_string_append (sql, ";\n");
            }
        }
      g_string_append (view, ",\n  ");
      if (!results->varies[i])
        {
          g_string_append (view, "CAST (");
          ps_results_quote (view, &results->same[i]);
          g_string_append_printf (view, " AS %s) AS ", sql_type (column_at (i)->type));
        }
      g_string_append (view, column_at (i)->key);
    }
  g_string_append_printf (sql,
                          "%s;\nDROP VIEW IF EXISTS main.prediction;\n"
                          "CREATE VIEW main.prediction AS SELECT point, digest%s\nFROM varying",
                          is_new ? ") STRICT" : "", view->str);
  return ps_database_script (results->file, sql->str, error) && read_schema (results, &results->schema, error);
}

/* Drops what keeps predictions, of which there are none. Takes the values of the first one. */
static gboolean
begin_same (PsResults *results, PsValue *values, GError **error)
{
  g_auto (GStrv) names = results_names (results->file, "varying", error);

  results->same = values;
  results->varies = g_new0 (gboolean, n_columns ());
  results->whole = FALSE;
  return names != NULL
         && ps_database_script (
             results->file,
             names[0] != NULL
                 ? "DROP VIEW main.prediction; DROP TABLE main.varying"
                 : "DROP TABLE main.prediction; PRAGMA main.user_version = " G_STRINGIFY (PS_RESULTS_VERSION),
             error);
}

/* Rows */

static gboolean
is_same (const PsValue *a, const PsValue *b)
{
  return a->type == b->type
         && (a->integer == b->integer || (a->type == PS_VALUE_TEXT && g_str_equal (a->text, b->text)));
}

/* Marks columns that do not vary yet and in which a row has another value. `seen` has the texts of the row before: most
 * are at the same place. */
static gboolean
find_differences (const PsResults *results, PsResult *const *rows, guint n, gboolean *differs)
{
  g_autofree guint *columns = g_new (guint, n_columns ());
  g_autofree PsValue *seen = g_memdup2 (results->same, n_columns () * sizeof *seen);
  gboolean any = FALSE;
  guint n_same = 0;

  for (guint i = 0; i < n_columns (); i++)
    if (!results->varies[i])
      columns[n_same++] = i;
  for (guint i = 0; i < n; i++)
    for (guint k = 0; rows[i]->reason == NULL && k < n_same; k++)
      {
        guint c = columns[k];
        const PsValue *value = &rows[i]->values[c];

        if (value->type == seen[c].type && value->integer == seen[c].integer)
          continue;
        if (!is_same (value, &results->same[c]))
          any = differs[c] = TRUE;
        else if (value->text != rows[i]->layout && value->text != rows[i]->detail)
          seen[c] = *value;
      }
  return any;
}

static gboolean
vary (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  g_autofree gboolean *differs = g_new0 (gboolean, n_columns ());

  return !find_differences (results, rows, n, differs) || store_columns (results, differs, FALSE, error);
}

/* The columns that vary within the first rows are stored from the start. */
static gboolean
begin_form (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  g_autofree gboolean *differs = g_new0 (gboolean, n_columns ());
  guint first = 0;

  while (first < n && rows[first]->reason != NULL)
    first++;
  if (first == n)
    return TRUE;
  if (!begin_same (results, copy_values (rows[first]->values), error))
    return FALSE;
  find_differences (results, rows, n, differs);
  for (guint i = 0; i < n_columns (); i++)
    differs[i] |= !reads_back (results, &results->same[i]);
  return store_columns (results, differs, TRUE, error);
}

static PsRows *
insert_new (PsResults *results, guint n_rows, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("INSERT OR IGNORE INTO main."), row = g_string_new ("(?, ?");

  g_string_append_printf (sql, "%s (", results->whole ? "prediction" : "varying");
  append_stored (results, sql);
  for (guint i = 0; i < n_columns (); i++)
    g_string_append (row, results->varies[i] ? ", ?" : "");
  for (guint i = 0; i < n_rows; i++)
    g_string_append_printf (sql, "%s %s)", i ? "," : ") VALUES", row->str);
  return ps_rows_new (results->file, error, sql->str, "");
}

static void
set_value (PsRows *insert, int parameter, const PsValue *value)
{
  switch (value->type)
    {
    case PS_VALUE_INTEGER:
      ps_rows_set_integer (insert, parameter, value->integer);
      return;
    case PS_VALUE_REAL:
      ps_rows_set_real (insert, parameter, value->real);
      return;
    case PS_VALUE_TEXT:
      ps_rows_set_text (insert, parameter, value->text);
      return;
    case PS_VALUE_NONE:
    default:
      ps_rows_set_null (insert, parameter);
      return;
    }
}

static gboolean
store_predicted (const PsResults *results, PsRows *insert, PsResult *const *rows, guint n, GError **error)
{
  int parameter = 0;
  gboolean found;

  ps_rows_repeat (insert);
  for (guint i = 0; i < n; i++)
    {
      ps_rows_set_integer (insert, parameter++, (gint64)rows[i]->point);
      ps_rows_set_text (insert, parameter++, rows[i]->digest);
      for (guint c = 0; c < n_columns (); c++)
        if (results->varies[c])
          set_value (insert, parameter++, &rows[i]->values[c]);
    }
  return ps_rows_next (insert, &found, error);
}

static gboolean
store_all_predicted (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  if (results->many == NULL)
    results->many = insert_new (results, ROWS_AT_ONCE, error);
  if (results->many == NULL)
    return FALSE;
  if (results->single == NULL)
    results->single = insert_new (results, 1, error);
  if (results->single == NULL)
    return FALSE;
  for (; n >= ROWS_AT_ONCE; rows += ROWS_AT_ONCE, n -= ROWS_AT_ONCE)
    if (!store_predicted (results, results->many, rows, ROWS_AT_ONCE, error))
      return FALSE;
  for (; n > 0; rows++, n--)
    if (!store_predicted (results, results->single, rows, 1, error))
      return FALSE;
  return TRUE;
}

static gboolean
store_skipped (PsResults *results, const PsResult *row, GError **error)
{
  gboolean found;

  if (results->skipped == NULL)
    results->skipped = ps_rows_new (results->file, error, "INSERT OR IGNORE INTO skipped VALUES (?, ?, ?)", "");
  if (results->skipped == NULL)
    return FALSE;
  ps_rows_repeat (results->skipped);
  ps_rows_set_integer (results->skipped, 0, (gint64)row->point);
  ps_rows_set_text (results->skipped, 1, row->digest);
  ps_rows_set_text (results->skipped, 2, row->reason);
  return ps_rows_next (results->skipped, &found, error);
}

static gboolean
store_rows (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  g_autoptr (GPtrArray) predicted = g_ptr_array_sized_new (n);

  if (!read_form (results, error))
    return FALSE;
  if (results->varies != NULL ? !vary (results, rows, n, error) : !begin_form (results, rows, n, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    if (rows[i]->reason == NULL)
      g_ptr_array_add (predicted, rows[i]);
    else if (!store_skipped (results, rows[i], error))
      return FALSE;
  return predicted->len == 0
         || store_all_predicted (results, (PsResult *const *)predicted->pdata, predicted->len, error);
}

/* Ends a transaction that stored rows, as ps_database_end does. The form is forgotten where it fails. */
static gboolean
results_end (PsResults *results, gboolean ok, GError **error)
{
  if (ps_database_end (results->file, ok, error))
    return TRUE;
  results_forget (results);
  return FALSE;
}

gboolean
ps_results_store (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  return ps_database_begin (results->file, error) && results_end (results, store_rows (results, rows, n, error), error);
}

/* Merging */

/* Marks columns that do not vary here and in which a prediction of `other` has another value. */
static gboolean
find_differences_of_other (PsResults *results, gboolean *differs, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT count (*)");
  g_autoptr (PsRows) rows = NULL;
  gboolean found;

  for (guint i = 0; i < n_columns (); i++)
    {
      g_string_append_printf (sql, ", max (%s IS NOT ", column_at (i)->key);
      ps_results_quote (sql, &results->same[i]);
      g_string_append (sql, ")");
    }
  g_string_append (sql, " FROM other.prediction");
  rows = ps_rows_new (results->file, error, sql->str, "");
  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  for (guint i = 0; i < n_columns (); i++)
    differs[i] = ps_rows_integer (rows, (int)i + 1) || !reads_back (results, &results->same[i]);
  return TRUE;
}

static gboolean
begin_like_other (PsResults *results, GError **error)
{
  PsValue *values;

  return read_any (results, "other", &values, error) && (values == NULL || begin_same (results, values, error));
}

static gboolean
copy_predicted (PsResults *results, gboolean is_new, GError **error)
{
  g_autofree gboolean *differs = g_new0 (gboolean, n_columns ());
  g_autoptr (GString) sql = g_string_new ("INSERT OR IGNORE INTO main.");
  g_autoptr (GString) columns = g_string_new (NULL);

  if (!results->whole
      && (!find_differences_of_other (results, differs, error) || !store_columns (results, differs, is_new, error)))
    return FALSE;
  append_stored (results, columns);
  g_string_append_printf (sql, "%s (%s) SELECT %s FROM other.prediction", results->whole ? "prediction" : "varying",
                          columns->str, columns->str);
  return ps_database_script (results->file, sql->str, error);
}

/* Within a transaction: adds the predictions and skipped settings of the attached database `other`. */
static gboolean
results_copy (PsResults *results, GError **error)
{
  gboolean is_new;

  if (!read_form (results, error))
    return FALSE;
  is_new = results->varies == NULL;
  return (!is_new || begin_like_other (results, error))
         && (results->varies == NULL || copy_predicted (results, is_new, error))
         && ps_database_script (results->file, "INSERT OR IGNORE INTO main.skipped SELECT * FROM other.skipped", error);
}

#define OPTIONS_LINE "  -- OPTIONS\n" /* of data/results.sql */

/* "  replicas INTEGER NOT NULL, -- Data-parallel copies of the pipeline (default: 1)" for every option. */
static char *
add_options (const char *schema)
{
  g_autoptr (GString) columns = g_string_new (NULL);
  g_auto (GStrv) parts = g_strsplit (schema, OPTIONS_LINE, 2);

  for (const PsOption *option = ps_setting_options; option->name != NULL; option++)
    {
      g_string_append (columns, "  ");
      results_declare (columns, (guint)(option - ps_setting_options));
      g_string_append_printf (columns, ", -- %s\n", option->help);
    }
  return g_strconcat (parts[0], columns->str, parts[1], NULL);
}

static const PsDatabaseKind kind = {
  .what = "result database",
  .schema = "results.sql",
  .complete = add_options,
  .application_id = 0x50535257, /* "PSRW" */
  .version = PS_RESULTS_VERSION,
  .oldest = 4,
  .page_bytes = 16384,
};

/* ", 1.0 AS offload": an option that the database is too old to have, with the value of one that is not given. */
static void
append_option (const PsOption *option, const PsSetting *defaults, GString *sql)
{
  PsValue value = ps_setting_column (option, defaults);

  g_string_append (sql, ", ");
  ps_results_quote (sql, &value);
  g_string_append_printf (sql, " AS %s", option->sweep->column.key);
}

/* A database may be older than an option, or than the figure unrest. Questions then see a view result that has it, in
 * place of the file's. */
static gboolean
show_new_columns (PsDatabase *file, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("CREATE TEMP VIEW result AS SELECT *");
  g_autoptr (PsSetting) defaults = ps_setting_new ();
  gsize length = sql->len;
  g_auto (GStrv) names = results_names (file, "prediction", error);

  if (names == NULL)
    return FALSE;
  for (const PsOption *option = ps_setting_options; option->name != NULL; option++)
    if (!g_strv_contains ((const char *const *)names, option->sweep->column.key))
      append_option (option, defaults, sql);
  if (!g_strv_contains ((const char *const *)names, "unrest"))
    g_string_append (sql, ", 0.0 AS unrest");
  g_string_append (sql, " FROM main.result");
  return sql->len == length + strlen (" FROM main.result")
         || (ps_database_script (file, "PRAGMA query_only = OFF", error) && ps_database_script (file, sql->str, error)
             && ps_database_script (file, "PRAGMA query_only = ON", error));
}

PsResults *
ps_results_open (const char *path, PsResultsMode mode, GError **error)
{
  PsDatabase *file = ps_database_open (path, &kind, mode == PS_RESULTS_WRITE, error);
  PsResults *results;

  if (file == NULL)
    return NULL;
  results = g_new0 (PsResults, 1);
  results->file = file;
  if (mode == PS_RESULTS_WRITE || show_new_columns (file, error))
    return results;
  ps_results_close (results);
  return NULL;
}

void
ps_results_close (PsResults *results)
{
  if (results == NULL)
    return;
  results_forget (results);
  ps_rows_free (results->skipped);
  ps_database_close (results->file);
  g_free (results);
}

void
ps_result_free (PsResult *result)
{
  if (result == NULL)
    return;
  g_free (result->reason);
  g_free (result->values);
  g_free (result->detail);
  g_free (result->layout);
  g_free (result);
}

/* The sweep of the database is there, is the one asked for, and has the columns of this build. */
static gboolean
check_sweep (PsResults *results, const char *digest, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (
      results->file, error,
      "SELECT digest, version, (SELECT group_concat (name, ', ') FROM pragma_table_info ('prediction')) FROM sweep",
      "");
  g_autofree char *stored = NULL, *version = NULL, *columns = NULL, *wanted = results_list_columns ();
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  g_assert (found);
  stored = ps_rows_text (rows, 0);
  version = ps_rows_text (rows, 1);
  columns = ps_rows_text (rows, 2);
  if (!g_str_equal (stored, digest))
    return ps_refuse (
        error, PS_ERROR_INPUT,
        "%s: holds another sweep (digest %.8s, this is %.8s); another spec, or changed files in it, needs "
        "another database",
        results->file->path, stored, digest);
  if (!g_str_equal (version, PS_VERSION))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: was predicted by pipesim %s, this is %s", results->file->path,
                      version, PS_VERSION);
  if (!g_str_equal (columns, wanted))
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: was predicted by a build of pipesim with other options; give another database",
                      results->file->path);
  return TRUE;
}

gboolean
ps_results_begin (PsResults *results, const char *digest, const char *spec, guint64 n_points, GError **error)
{
  return ps_database_execute (results->file, error, "INSERT OR IGNORE INTO sweep VALUES (1, ?1, ?2, ?3, ?4)", "ssis",
                              digest, spec, (gint64)n_points, PS_VERSION)
         && check_sweep (results, digest, error);
}

gboolean
ps_results_digests (PsResults *results, GHashTable *digests, GError **error)
{
  g_autoptr (PsRows) rows
      = ps_rows_new (results->file, error, "SELECT digest FROM prediction UNION ALL SELECT digest FROM skipped", "");
  gboolean found = rows != NULL;

  while (found)
    {
      if (!ps_rows_next (rows, &found, error))
        return FALSE;
      if (found)
        g_hash_table_add (digests, ps_rows_text (rows, 0));
    }
  return rows != NULL;
}

gboolean
ps_results_count (PsResults *results, guint64 *predicted, guint64 *skipped, guint64 *missing, GError **error)
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

/* Results of the same sweep: found by name, checked, and attached as `other`. */
static gboolean
begin_like (PsResults *results, PsResults *other, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (other->file, error, "SELECT digest, spec, points FROM sweep", "");
  g_autofree char *digest = NULL, *spec = NULL;
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  if (!found)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no sweep yet", other->file->path);
  digest = ps_rows_text (rows, 0);
  spec = ps_rows_text (rows, 1);
  if (ps_results_begin (results, digest, spec, (guint64)ps_rows_integer (rows, 2), error))
    return check_sweep (other, digest, error);
  g_prefix_error (error, "%s: ", other->file->path);
  return FALSE;
}

gboolean
ps_results_merge (PsResults *results, const char *path, GError **error)
{
  g_autoptr (PsResults) other = ps_results_open (path, PS_RESULTS_READ, error);
  gboolean done;

  if (other == NULL || !begin_like (results, other, error)
      || !ps_database_execute (results->file, error, "ATTACH ?1 AS other", "s", other->file->name))
    return FALSE;
  done = ps_database_begin (results->file, error) && results_end (results, results_copy (results, error), error);
  return ps_database_execute (results->file, done ? error : NULL, "DETACH other", "") && done;
}

PsTable *
ps_results_reasons (PsResults *results, guint most, GError **error)
{
  static const PsColumn columns[]
      = { { "reason", "reason", PS_COLUMN_TEXT }, { "settings", "settings", PS_COLUMN_INTEGER } };
  g_autoptr (PsRows) rows
      = ps_rows_new (results->file, error, "SELECT reason, settings FROM skipped_reason LIMIT ?1", "i", (gint64)most);
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));
  gboolean found = rows != NULL;

  while (found)
    {
      g_autofree char *reason = NULL;

      if (!ps_rows_next (rows, &found, error))
        return NULL;
      if (!found)
        break;
      reason = ps_rows_text (rows, 0);
      ps_table_add_row (table);
      ps_table_set_text (table, "reason", reason);
      ps_table_set_integer (table, "settings", ps_rows_integer (rows, 1));
    }
  return rows != NULL ? g_steal_pointer (&table) : NULL;
}

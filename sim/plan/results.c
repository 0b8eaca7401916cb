/* results.c - predictions in their database. */
#include "results-private.h"
#include "setting/options.h"
#include "store/database.h"

#include <pipesim/sweep.h>

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

/* Stores predictions. */

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

static PsRows *
insert_new (PsResults *results, guint n_rows, GError **error)
{
  g_autofree char *columns = results_list_columns ();
  g_autoptr (GString) sql = g_string_new (NULL), row = g_string_new ("(?, ?");

  g_string_append_printf (sql, "INSERT OR IGNORE INTO main.prediction (%s) VALUES", columns);
  for (guint i = 0; i < n_columns (); i++)
    g_string_append (row, ", ?");
  for (guint i = 0; i < n_rows; i++)
    g_string_append_printf (sql, "%s %s)", i ? "," : "", row->str);
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
store_predicted (PsRows *insert, PsResult *const *rows, guint n, GError **error)
{
  int parameter = 0;
  gboolean found;

  ps_rows_repeat (insert);
  for (guint i = 0; i < n; i++)
    {
      ps_rows_set_integer (insert, parameter++, (gint64)rows[i]->point);
      ps_rows_set_text (insert, parameter++, rows[i]->digest);
      for (guint c = 0; c < n_columns (); c++)
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
    if (!store_predicted (results->many, rows, ROWS_AT_ONCE, error))
      return FALSE;
  for (; n > 0; rows++, n--)
    if (!store_predicted (results->single, rows, 1, error))
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

  for (guint i = 0; i < n; i++)
    if (rows[i]->reason == NULL)
      g_ptr_array_add (predicted, rows[i]);
    else if (!store_skipped (results, rows[i], error))
      return FALSE;
  return predicted->len == 0
         || store_all_predicted (results, (PsResult *const *)predicted->pdata, predicted->len, error);
}

gboolean
ps_results_store (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  return ps_database_begin (results->file, error)
         && ps_database_end (results->file, store_rows (results, rows, n, error), error);
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
  .application_id = 0x50535253, /* "PSRS" */
  .version = PS_RESULTS_VERSION,
  .page_bytes = 16384,
};

/* The table of predictions has the columns of this build. */
static gboolean
check_columns (PsDatabase *file, GError **error)
{
  g_autoptr (PsRows) rows
      = ps_rows_new (file, error, "SELECT group_concat (name, ', ') FROM pragma_table_info ('prediction')", "");
  g_autofree char *columns = NULL, *wanted = results_list_columns ();
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  columns = ps_rows_text (rows, 0);
  return g_str_equal (columns, wanted)
         || ps_refuse (error, PS_ERROR_INPUT,
                       "%s: was predicted by a build of pipesim with other options; give another database", file->path);
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
  if (check_columns (file, error))
    return results;
  ps_results_close (results);
  return NULL;
}

void
ps_results_close (PsResults *results)
{
  if (results == NULL)
    return;
  ps_rows_free (results->many);
  ps_rows_free (results->single);
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

/* The sweep of the database is there, and is the one asked for. */
static gboolean
check_sweep (PsResults *results, const char *digest, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (results->file, error, "SELECT digest, version FROM sweep", "");
  g_autofree char *stored = NULL, *version = NULL;
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  g_assert (found);
  stored = ps_rows_text (rows, 0);
  version = ps_rows_text (rows, 1);
  if (!g_str_equal (stored, digest))
    return ps_refuse (
        error, PS_ERROR_INPUT,
        "%s: holds another sweep (digest %.8s, this is %.8s); another spec, or changed files in it, needs "
        "another database",
        results->file->path, stored, digest);
  if (!g_str_equal (version, PS_VERSION))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: was predicted by pipesim %s, this is %s", results->file->path,
                      version, PS_VERSION);
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
  g_autofree char *columns = NULL, *sql = NULL;
  gboolean done;

  if (other == NULL || !begin_like (results, other, error)
      || !ps_database_execute (results->file, error, "ATTACH ?1 AS other", "s", other->file->name))
    return FALSE;
  columns = results_list_columns ();
  sql = g_strdup_printf ("INSERT OR IGNORE INTO main.prediction (%s) SELECT %s FROM other.prediction; "
                         "INSERT OR IGNORE INTO main.skipped SELECT * FROM other.skipped",
                         columns, columns);
  done = ps_database_begin (results->file, error)
         && ps_database_end (results->file, ps_database_script (results->file, sql, error), error);
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

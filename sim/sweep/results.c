/* results.c - predictions in their database. */
#include "results-private.h"
#include "setting/options.h"

#include <string.h>

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
      ps_results_declare (columns, (guint)(option - ps_setting_options));
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
  g_auto (GStrv) names = ps_results_names (file, "prediction", error);

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
  ps_results_forget (results);
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
  g_autofree char *stored = NULL, *version = NULL, *columns = NULL, *wanted = ps_results_list_columns ();
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
  done = ps_database_begin (results->file, error) && ps_results_end (results, ps_results_copy (results, error), error);
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

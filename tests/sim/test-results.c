/* test-results.c - results on disk: the same whatever the threads, shards and interruptions. test-questions.c tests the
 * questions asked of them. */
#include "results-rig.h"
#include "setting/options.h"
#include <pipesim/sweep.h>

#include <pipesim/costdb.h>

/* All columns of all rows, as text. */
static char *
dump (const char *name)
{
  static const char *const tables[]
      = { "SELECT * FROM sweep", "SELECT * FROM prediction ORDER BY point", "SELECT * FROM skipped ORDER BY point" };
  g_autoptr (PsResults) results = open_results (name, PS_RESULTS_READ);
  g_autoptr (PsDatabase) file = tables_of (results);
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    {
      g_autoptr (PsRows) rows = ps_rows_new (file, NULL, tables[i], "");
      gboolean found;

      while (ps_rows_next (rows, &found, NULL) && found)
        for (int c = 0; c < (i == 1 ? 2 + (int)(ps_setting_n_options + PS_N_STORED_FIGURES) : 3); c++)
          {
            g_autofree char *cell = ps_rows_text (rows, c);

            g_string_append_printf (text, "%s|", cell);
          }
    }
  return g_string_free (text, FALSE);
}

static void
change (const char *name, const char *script)
{
  g_autoptr (PsResults) results = open_results (name, PS_RESULTS_WRITE);
  g_autoptr (PsDatabase) file = tables_of (results);

  fine (ps_database_script (file, script, &error));
}

/* The table of columns in C is that of the schema. */
static void
test_columns (void)
{
  g_autoptr (PsResults) results = open_results ("columns.db", PS_RESULTS_WRITE);
  g_autoptr (PsDatabase) file = tables_of (results);
  g_autoptr (PsRows) rows = ps_rows_new (file, NULL, "SELECT name FROM pragma_table_info ('result')", "");
  guint n, i = 0;
  const PsResultColumn *columns = ps_result_columns (&n);
  gboolean found;

  for (; ps_rows_next (rows, &found, NULL) && found; i++)
    {
      g_autofree char *name = ps_rows_text (rows, 0);

      g_assert_cmpstr (name, ==, i == 0 ? "point" : i == 1 ? "digest" : columns[i - 2].column.key);
    }
  g_assert_cmpuint (i, ==, n + 2);
}

/* A database of another version, or of a build with other options, is refused. */
static void
test_other_version (void)
{
  g_autofree char *path = path_of ("earlier.db");

  change ("earlier.db", "PRAGMA user_version = 6");
  refused (ps_results_open (path, PS_RESULTS_READ, &error), PS_ERROR_INPUT,
           "*earlier.db: result database of version 6;*");
  refused (ps_results_open (path, PS_RESULTS_WRITE, &error), PS_ERROR_INPUT,
           "*earlier.db: result database of version 6;*");
  path = (g_free (path), path_of ("options.db"));
  change ("options.db", "DROP TABLE prediction; CREATE TABLE prediction (point, digest, schedule)");
  refused (ps_results_open (path, PS_RESULTS_READ, &error), PS_ERROR_INPUT,
           "*options.db: was predicted by a build of pipesim with other options; give another database");
}

/* Whether a column of a row holds a value. */
static gboolean
holds (PsRows *rows, int column, const PsValue *value)
{
  g_autofree char *text = ps_rows_text (rows, column);

  if (value->type == PS_VALUE_NONE || ps_rows_is_null (rows, column))
    return value->type == PS_VALUE_NONE && ps_rows_is_null (rows, column);
  if (value->type == PS_VALUE_TEXT)
    return g_str_equal (text, value->text);
  return value->type == PS_VALUE_REAL ? ps_rows_real (rows, column) == value->real
                                      : ps_rows_integer (rows, column) == value->integer;
}

/* Every column of every row is what was predicted, whether or not it varies, and also for numbers whose decimals SQLite
 * might read as others. */
static void
test_stored (void)
{
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = all\ndevices = 2, 4\nmicrobatches = 4..24 step 4\nmemory-limit = 16MiB, 32MiB\n"
               "costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB; f=1ms,b=2ms,w=1ms\n"
               "bandwidth-factor = 0.30000000000000004\n");
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (sweep);
  gboolean found;
  guint n = 0;

  run (sweep, "stored.db", 3, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("stored.db", PS_RESULTS_READ);
  g_autoptr (PsDatabase) file = tables_of (results);
  g_autoptr (PsRows) rows = ps_rows_new (file, NULL, "SELECT * FROM prediction ORDER BY point", "");
  for (; ps_rows_next (rows, &found, NULL) && found; n++)
    {
      g_autoptr (PsResult) result = fine (ps_sweep_worker_predict (worker, (guint64)ps_rows_integer (rows, 0), &error));

      g_assert_null (result->reason);
      for (guint c = 0; c < ps_setting_n_options + PS_N_STORED_FIGURES; c++)
        g_assert_true (holds (rows, 2 + (int)c, &result->values[c]));
    }
  g_assert_cmpuint (n, >, 500);
}

/* A value that a column may hold: mostly its usual one. */
static PsValue
draw_value (guint column, gboolean usual)
{
  static const char *const texts[]
      = { "", "'", "it''s", "a\nb\\", "100 %s %n", "\"\303\251\"", "'); DROP TABLE prediction; --" };
  static const gint64 integers[] = { 0, 1, -1, G_MAXINT64, G_MININT64, (G_GINT64_CONSTANT (1) << 53) + 1 };
  static const double reals[] = { 0, -0.0, 0.1, 0.30000000000000004, 1.0 / 3, 4.9e-324, -1.7e308, 9007199254740994, 1 };
  guint n, which = usual ? column : (guint)g_test_rand_int_range (0, 100);
  PsColumnType type = ps_result_columns (&n)[column].column.type;

  if (column < ps_setting_n_options && ps_setting_options[column].flags & PS_FIELD_NULL && which % 3 == 0)
    return (PsValue){ .type = PS_VALUE_NONE };
  if (type == PS_COLUMN_TEXT)
    return (PsValue){ .type = PS_VALUE_TEXT, .text = texts[which % G_N_ELEMENTS (texts)] };
  if (type == PS_COLUMN_NUMBER || type == PS_COLUMN_RATE || type == PS_COLUMN_RATIO)
    return (PsValue){ .type = PS_VALUE_REAL, .real = reals[which % G_N_ELEMENTS (reals)] };
  return (PsValue){ .type = PS_VALUE_INTEGER, .integer = integers[which % G_N_ELEMENTS (integers)] };
}

/* `rare`: one value of that many is not the usual one. */
static PsResult *
draw_row (guint64 point, gint rare)
{
  PsResult *row = g_new0 (PsResult, 1);

  row->point = point;
  g_snprintf (row->digest, sizeof row->digest, "%" G_GUINT64_FORMAT, point);
  row->values = g_new (PsValue, ps_setting_n_options + PS_N_STORED_FIGURES);
  for (guint c = 0; c < ps_setting_n_options + PS_N_STORED_FIGURES; c++)
    row->values[c] = draw_value (c, g_test_rand_int_range (0, rare) > 0);
  return row;
}

static void
check_rows (PsResults *results, const GPtrArray *stored)
{
  g_autoptr (PsDatabase) file = tables_of (results);
  g_autoptr (PsRows) rows = ps_rows_new (file, NULL, "SELECT * FROM prediction ORDER BY point", "");
  gboolean found;
  guint n = 0;

  for (; ps_rows_next (rows, &found, NULL) && found; n++)
    {
      const PsResult *row = stored->pdata[n];

      g_assert_cmpint (ps_rows_integer (rows, 0), ==, (gint64)row->point);
      for (guint c = 0; c < ps_setting_n_options + PS_N_STORED_FIGURES; c++)
        g_assert_true (holds (rows, 2 + (int)c, &row->values[c]));
    }
  g_assert_cmpuint (n, ==, stored->len);
}

/* Values of any kind are read as they were stored, by two programs that store in turns, merge, and delete all. */
static void
test_any_values (void)
{
  const char *const names[] = { "any.db", "any.db", "any-other.db" };
  g_autofree char *path = path_of (names[2]);
  PsResults *results[3];
  guint64 point = 0;

  for (guint i = 0; i < 3; i++)
    {
      results[i] = open_results (names[i], PS_RESULTS_WRITE);
      fine (ps_results_begin (results[i], "digest", "spec", 1000, &error));
    }
  for (guint round = 0; round < 6; round++)
    {
      g_autoptr (GPtrArray) stored = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_result_free);

      for (guint i = 0; i < 12; i++)
        {
          guint first = stored->len, n = (guint)g_test_rand_int_range (1, 150);

          while (stored->len < first + n)
            g_ptr_array_add (stored, draw_row (point++, 10000 >> 2 * round));
          fine (ps_results_store (results[i % 3], (PsResult *const *)stored->pdata + first, n, &error));
          if (i % 3 == 2)
            fine (ps_results_merge (results[i % 2], path, &error));
        }
      check_rows (results[0], stored);
      change (names[0], "DELETE FROM prediction");
      change (names[2], "DELETE FROM prediction");
    }
  for (guint i = 0; i < 3; i++)
    ps_results_close (results[i]);
}

/* A store that fails leaves the file as it was, and the stores after it work. */
static void
test_failed_store (void)
{
  g_autoptr (PsResults) results = open_results ("failed.db", PS_RESULTS_WRITE);
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_result_free);
  guint column = (guint)ps_result_column_find ("makespan_ns");

  fine (ps_results_begin (results, "digest", "spec", 3, &error));
  for (guint64 point = 0; point < 3; point++)
    {
      PsResult *row = draw_row (point, G_MAXINT32);

      row->values[column] = (PsValue){ .type = PS_VALUE_INTEGER, .integer = point > 0 };
      g_ptr_array_add (rows, row);
    }
  fine (ps_results_store (results, (PsResult *const *)rows->pdata, 1, &error));
  change ("failed.db", "CREATE TRIGGER stop BEFORE INSERT ON prediction WHEN NEW.point = 1 "
                       "BEGIN SELECT RAISE (ABORT, 'stop'); END");
  refused (ps_results_store (results, (PsResult *const *)rows->pdata + 1, 1, &error), PS_ERROR_INPUT, "*stop");
  fine (ps_results_store (results, (PsResult *const *)rows->pdata + 2, 1, &error));
  g_ptr_array_remove_index (rows, 1);
  check_rows (results, rows);
}

static void
test_same (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  PsSweepProgress first = run (sweep, "one.db", 1, (PsShard){ 0, 1 });
  g_autofree char *one = dump ("one.db"), *again = NULL, *three = NULL;

  g_assert_cmpuint (first.predicted, >, 1000);
  g_assert_cmpuint (first.skipped, >=, 40);
  run (sweep, "again.db", 1, (PsShard){ 0, 1 });
  run (sweep, "three.db", 3, (PsShard){ 0, 1 });
  again = dump ("again.db");
  three = dump ("three.db");
  g_assert_true (strcmp (one, again) == 0);
  g_assert_true (strcmp (one, three) == 0);
}

/* Rows that an interruption lost come back as they were, and nothing else is computed. */
static void
test_resume (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  g_autofree char *whole = NULL, *mended = NULL;
  PsSweepProgress progress = run (sweep, "resume.db", 2, (PsShard){ 0, 1 });
  guint64 predicted = progress.predicted, skipped = progress.skipped;

  whole = dump ("resume.db");
  progress = run (sweep, "resume.db", 2, (PsShard){ 0, 1 });
  g_assert_cmpuint (progress.present, ==, predicted + skipped);
  change ("resume.db", "DELETE FROM prediction WHERE point % 3 = 0 OR point > 1000;"
                       "DELETE FROM skipped WHERE point % 2 = 0");
  progress = run (sweep, "resume.db", 2, (PsShard){ 0, 1 });
  g_assert_cmpuint (progress.predicted, >, 0);
  g_assert_cmpuint (progress.predicted, <, predicted);
  mended = dump ("resume.db");
  g_assert_true (strcmp (whole, mended) == 0);
}

/* A merge, and a sweep that goes on, add what is missing, whatever the order of rows. */
static void
test_missing (void)
{
  static const char *const deletions[] = { "DELETE FROM prediction WHERE point <> 500", "DELETE FROM prediction" };
  g_autoptr (PsSweep) sweep = parse (SPEC "reduce = overlapped, exposed\n");
  g_autofree char *whole = NULL, *path = path_of ("whole-two.db");

  run (sweep, "whole-two.db", 2, (PsShard){ 0, 1 });
  whole = dump ("whole-two.db");
  for (guint i = 0; i < G_N_ELEMENTS (deletions); i++)
    {
      g_autofree char *name = g_strdup_printf ("part-%u.db", i), *merged = NULL, *resumed = NULL;

      run (sweep, name, 1, (PsShard){ 0, 40 });
      change (name, deletions[i]);
      {
        g_autoptr (PsResults) results = open_results (name, PS_RESULTS_WRITE);

        fine (ps_results_merge (results, path, &error));
      }
      merged = dump (name);
      g_assert_cmpstr (merged, ==, whole);
      change (name, deletions[i]);
      run (sweep, name, 2, (PsShard){ 0, 1 });
      resumed = dump (name);
      g_assert_cmpstr (resumed, ==, whole);
    }
}

static void
test_shards (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  g_autofree char *whole = NULL;
  guint64 points = 0;

  run (sweep, "whole.db", 2, (PsShard){ 0, 1 });
  whole = dump ("whole.db");
  for (guint i = 0; i < 4; i++)
    {
      g_autofree char *name = g_strdup_printf ("shard-%u.db", i);
      PsSweepProgress progress = run (sweep, name, 1, (PsShard){ i, 4 });

      g_assert_cmpuint (progress.n_points, >, ps_sweep_n_points (sweep) / 8);
      points += progress.n_points;
    }
  g_assert_cmpuint (points, ==, ps_sweep_n_points (sweep));
  for (guint round = 0; round < 2; round++)
    {
      g_autofree char *merged = NULL;

      for (guint i = 0; i < 4; i++)
        {
          g_autoptr (PsResults) results = open_results ("merged.db", PS_RESULTS_WRITE);
          g_autofree char *name = g_strdup_printf ("shard-%u.db", i), *path = path_of (name);

          fine (ps_results_merge (results, path, &error));
        }
      merged = dump ("merged.db");
      g_assert_true (strcmp (whole, merged) == 0);
    }
}

/* More shards than settings: some have nothing to do. */
static void
test_tiny_shards (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = 1f1b, gpipe, zb-h1\ndevices = 2\nmicrobatches = 4\n"
                                     "costs = f=1ms,b=1ms,w=1ms\n");

  for (guint i = 0; i < 5; i++)
    {
      g_autofree char *name = g_strdup_printf ("tiny-%u.db", i);

      g_assert_cmpuint (run (sweep, name, 2, (PsShard){ i, 5 }).predicted, ==, i < 3);
    }
}

static void
test_foreign (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC), other = parse (SPEC "sync = bypass\n");
  g_autoptr (PsResults) results = NULL, merged = NULL;
  g_autofree char *path = path_of ("other.db"), *empty = path_of ("empty.db"), *mine = path_of ("mine.db");
  PsSweepRun how = { .n_jobs = 1, .shard = { 0, 1 } };
  PsSweepProgress progress;
  g_autoptr (GError) error = NULL;

  run (other, "other.db", 1, (PsShard){ 0, 50 });
  results = open_results ("mine.db", PS_RESULTS_WRITE);
  g_autoptr (PsDatabase) file = tables_of (results);
  how.shard = (PsShard){ 0, 50 };
  g_assert_true (ps_sweep_run (sweep, results, &how, &progress, NULL));
  refused (ps_sweep_run (other, results, &how, &progress, &error), PS_ERROR_INPUT, "*mine.db: holds another sweep*");
  g_assert_false (ps_results_merge (results, path, &error));
  g_assert_nonnull (strstr (error->message, "holds another sweep"));
  g_clear_error (&error);
  ps_results_close (open_results ("empty.db", PS_RESULTS_WRITE));
  g_assert_false (ps_results_merge (results, empty, &error));
  g_assert_nonnull (strstr (error->message, "empty.db: holds no sweep yet"));
  g_clear_error (&error);
  g_assert_true (ps_database_script (file, "UPDATE sweep SET version = '0.0.1'", NULL));
  g_assert_false (ps_sweep_run (sweep, results, &how, &progress, &error));
  g_assert_nonnull (strstr (error->message, "was predicted by pipesim 0.0.1"));
  g_clear_error (&error);
  g_assert_true (ps_database_script (file, "ALTER TABLE prediction DROP COLUMN offload", NULL));
  merged = open_results ("merged.db", PS_RESULTS_WRITE);
  g_assert_false (ps_results_merge (merged, mine, &error));
  g_assert_nonnull (strstr (error->message, "mine.db: was predicted by a build of pipesim with other options"));
}

/* A view of the file goes on for ever: questions, resumed sweeps and merges come to an end. */
static void
test_endless (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  PsQuestion question = { .by = "sequence_ns", .top = 1 };
  PsSweepRun how = { .n_jobs = 1, .shard = { 0, 1 } };
  PsSweepProgress progress;
  g_autofree char *path = path_of ("endless.db");

  run (sweep, "endless.db", 1, (PsShard){ 0, 50 });
  change ("endless.db", "CREATE TABLE row AS SELECT * FROM prediction LIMIT 1; DROP TABLE prediction;"
                        "CREATE VIEW prediction AS WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n)"
                        "SELECT row.* FROM row, n WHERE i < 0");
  g_autoptr (PsResults) results = open_results ("endless.db", PS_RESULTS_READ),
                        resumed = open_results ("endless.db", PS_RESULTS_WRITE),
                        merged = open_results ("merged-endless.db", PS_RESULTS_WRITE);
  refused (ps_results_best (results, &question, &error), PS_ERROR_INPUT, "*endless.db: its views take more steps*");
  refused (ps_sweep_run (sweep, resumed, &how, &progress, &error), PS_ERROR_INPUT, "*its views take more steps*");
  refused (ps_results_merge (merged, path, &error), PS_ERROR_INPUT, "*its views take more steps*");
}

/* A name is that of a file, also where SQLite would see a URI or a database in memory. */
static void
test_names (void)
{
  static const char *const names[] = { ":memory:", "file:x.db?mode=memory", "file::memory:" };
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = gpipe\ndevices = 2\nmicrobatches = 4\ncosts = f=1ms,bw=1ms\n");
  g_autoptr (PsResults) merged = open_results ("of-names.db", PS_RESULTS_WRITE);
  g_autoptr (GError) error = NULL;
  g_autofree char *before = g_get_current_dir ();
  PsSweepRun how = { .n_jobs = 1, .shard = { 0, 1 } };

  g_assert_cmpint (g_chdir (folder), ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (PsResults) results = ps_results_open (names[i], PS_RESULTS_WRITE, &error);
      PsSweepProgress progress;

      g_assert_no_error (error);
      g_assert_true (ps_sweep_run (sweep, results, &how, &progress, NULL));
      g_assert_cmpuint (progress.predicted, ==, 1);
      g_assert_true (g_file_test (names[i], G_FILE_TEST_IS_REGULAR));
      g_assert_true (ps_results_merge (merged, names[i], NULL));
    }
  g_assert_cmpint (g_chdir (before), ==, 0);
  refused (ps_results_open ("", PS_RESULTS_WRITE, &error), PS_ERROR_USAGE,
           "'': names no file; give the path of a result database");
}

/* A cost database is not a result database, nor the reverse. */
static void
test_kinds (void)
{
  g_autofree char *path = path_of ("kind.db");
  g_autoptr (GError) error = NULL;

  ps_results_close (open_results ("kind.db", PS_RESULTS_WRITE));
  g_assert_null (ps_costdb_open (path, PS_COSTDB_READ, &error));
  g_assert_nonnull (strstr (error->message, "not a pipesim cost database"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/results/columns", test_columns);
  g_test_add_func ("/results/other-version", test_other_version);
  g_test_add_func ("/results/stored", test_stored);
  g_test_add_func ("/results/any-values", test_any_values);
  g_test_add_func ("/results/failed-store", test_failed_store);
  g_test_add_func ("/results/same", test_same);
  g_test_add_func ("/results/resume", test_resume);
  g_test_add_func ("/results/missing", test_missing);
  g_test_add_func ("/results/shards", test_shards);
  g_test_add_func ("/results/tiny-shards", test_tiny_shards);
  g_test_add_func ("/results/foreign", test_foreign);
  g_test_add_func ("/results/endless", test_endless);
  g_test_add_func ("/results/names", test_names);
  g_test_add_func ("/results/kinds", test_kinds);
  return run_in_folder ();
}

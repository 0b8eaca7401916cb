/* test-results.c - results on disk: the same whatever the threads, shards and interruptions; and questions asked of
 * them, against brute force over their rows. */
#include "folder-rig.h"
#include "plan/sweep-private.h"
#include "store/database.h"
#include "setting/options.h"

#include <pipesim/sweep.h>
#include <pipesim/costdb.h>

#include <string.h>

static PsSweep *parse (const char *text)
{
  return fine (ps_sweep_parse ("s.ini", text, strlen (text), &error));
}

#define SPEC                                                                                                           \
  "[sweep]\nschedule = all\ndevices = 2, 4\nmicrobatches = 4..12 step 4\n"                                             \
  "costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB; f=1ms,b=2ms,w=1ms,c=500us,act=3MiB\n"                         \
  "bandwidth-factor = 0.25..4 x2\nmemory-limit = 16MiB, 32MiB\n"

static PsResults *open_results (const char *name, PsResultsMode mode)
{
  g_autofree char *path = path_of (name);

  return fine (ps_results_open (path, mode, &error));
}

/* The tables of a database of results. */
static PsDatabase *tables_of (const PsResults *results)
{
  static const PsDatabaseKind kind
      = { .what = "result database", .application_id = 0x50535257, .version = PS_RESULTS_VERSION };

  return fine (ps_database_open (ps_results_path (results), &kind, TRUE, &error));
}

static PsSweepProgress run (const PsSweep *sweep, const char *name, guint n_jobs, PsShard shard)
{
  g_autoptr (PsResults) results = open_results (name, PS_RESULTS_WRITE);
  PsSweepRun how = { .n_jobs = n_jobs, .shard = shard };
  PsSweepProgress progress;

  fine (ps_sweep_run (sweep, results, &how, &progress, &error));
  g_assert_cmpuint (progress.present + progress.predicted + progress.skipped, ==, progress.n_points);
  return progress;
}

/* All columns of all rows, as text. */
static char *dump (const char *name)
{
  static const char *const tables[]
      = { "SELECT * FROM sweep", "SELECT * FROM prediction ORDER BY point", "SELECT * FROM skipped ORDER BY point" };
  g_autoptr (PsResults) results = open_results (name, PS_RESULTS_READ);
  g_autoptr (PsDatabase) file = tables_of (results);
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (tables); i++) {
    g_autoptr (PsRows) rows = ps_rows_new (file, NULL, tables[i], "");
    gboolean found;

    while (ps_rows_next (rows, &found, NULL) && found)
      for (int c = 0; c < (i == 1 ? 2 + (int)(ps_setting_n_options + PS_N_STORED_FIGURES) : 3); c++) {
        g_autofree char *cell = ps_rows_text (rows, c);

        g_string_append_printf (text, "%s|", cell);
      }
  }
  return g_string_free (text, FALSE);
}

static void change (const char *name, const char *script)
{
  g_autoptr (PsResults) results = open_results (name, PS_RESULTS_WRITE);
  g_autoptr (PsDatabase) file = tables_of (results);

  fine (ps_database_script (file, script, &error));
}

/* The table of columns in C is that of the schema. */
static void test_columns (void)
{
  g_autoptr (PsResults) results = open_results ("columns.db", PS_RESULTS_WRITE);
  g_autoptr (PsDatabase) file = tables_of (results);
  g_autoptr (PsRows) rows = ps_rows_new (file, NULL, "SELECT name FROM pragma_table_info ('result')", "");
  guint n, i = 0;
  const PsResultColumn *columns = ps_result_columns (&n);
  gboolean found;

  for (; ps_rows_next (rows, &found, NULL) && found; i++) {
    g_autofree char *name = ps_rows_text (rows, 0);

    g_assert_cmpstr (name, ==, i == 0 ? "point" : i == 1 ? "digest" : columns[i - 2].column.key);
  }
  g_assert_cmpuint (i, ==, n + 2);
}

/* A database of another version, or of a build with other options, is refused. */
static void test_other_version (void)
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
static gboolean holds (PsRows *rows, int column, const PsValue *value)
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
static void test_stored (void)
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
  for (; ps_rows_next (rows, &found, NULL) && found; n++) {
    g_autoptr (PsResult) result = fine (ps_sweep_worker_predict (worker, (guint64)ps_rows_integer (rows, 0), &error));

    g_assert_null (result->reason);
    for (guint c = 0; c < ps_setting_n_options + PS_N_STORED_FIGURES; c++)
      g_assert_true (holds (rows, 2 + (int)c, &result->values[c]));
  }
  g_assert_cmpuint (n, >, 500);
}

/* A value that a column may hold: mostly its usual one. */
static PsValue draw_value (guint column, gboolean usual)
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
static PsResult *draw_row (guint64 point, gint rare)
{
  PsResult *row = g_new0 (PsResult, 1);

  row->point = point;
  g_snprintf (row->digest, sizeof row->digest, "%" G_GUINT64_FORMAT, point);
  row->values = g_new (PsValue, ps_setting_n_options + PS_N_STORED_FIGURES);
  for (guint c = 0; c < ps_setting_n_options + PS_N_STORED_FIGURES; c++)
    row->values[c] = draw_value (c, g_test_rand_int_range (0, rare) > 0);
  return row;
}

static void check_rows (PsResults *results, const GPtrArray *stored)
{
  g_autoptr (PsDatabase) file = tables_of (results);
  g_autoptr (PsRows) rows = ps_rows_new (file, NULL, "SELECT * FROM prediction ORDER BY point", "");
  gboolean found;
  guint n = 0;

  for (; ps_rows_next (rows, &found, NULL) && found; n++) {
    const PsResult *row = stored->pdata[n];

    g_assert_cmpint (ps_rows_integer (rows, 0), ==, (gint64)row->point);
    for (guint c = 0; c < ps_setting_n_options + PS_N_STORED_FIGURES; c++)
      g_assert_true (holds (rows, 2 + (int)c, &row->values[c]));
  }
  g_assert_cmpuint (n, ==, stored->len);
}

/* Values of any kind are read as they were stored, by two programs that store in turns, merge, and delete all. */
static void test_any_values (void)
{
  const char *const names[] = { "any.db", "any.db", "any-other.db" };
  g_autofree char *path = path_of (names[2]);
  PsResults *results[3];
  guint64 point = 0;

  for (guint i = 0; i < 3; i++) {
    results[i] = open_results (names[i], PS_RESULTS_WRITE);
    fine (ps_results_begin (results[i], "digest", "spec", 1000, &error));
  }
  for (guint round = 0; round < 6; round++) {
    g_autoptr (GPtrArray) stored = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_result_free);

    for (guint i = 0; i < 12; i++) {
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
static void test_failed_store (void)
{
  g_autoptr (PsResults) results = open_results ("failed.db", PS_RESULTS_WRITE);
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_result_free);
  guint column = (guint)ps_result_column_find ("makespan_ns");

  fine (ps_results_begin (results, "digest", "spec", 3, &error));
  for (guint64 point = 0; point < 3; point++) {
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

static void test_same (void)
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
static void test_resume (void)
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
static void test_missing (void)
{
  static const char *const deletions[] = { "DELETE FROM prediction WHERE point <> 500", "DELETE FROM prediction" };
  g_autoptr (PsSweep) sweep = parse (SPEC "reduce = overlapped, exposed\n");
  g_autofree char *whole = NULL, *path = path_of ("whole-two.db");

  run (sweep, "whole-two.db", 2, (PsShard){ 0, 1 });
  whole = dump ("whole-two.db");
  for (guint i = 0; i < G_N_ELEMENTS (deletions); i++) {
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

static void test_shards (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  g_autofree char *whole = NULL;
  guint64 points = 0;

  run (sweep, "whole.db", 2, (PsShard){ 0, 1 });
  whole = dump ("whole.db");
  for (guint i = 0; i < 4; i++) {
    g_autofree char *name = g_strdup_printf ("shard-%u.db", i);
    PsSweepProgress progress = run (sweep, name, 1, (PsShard){ i, 4 });

    g_assert_cmpuint (progress.n_points, >, ps_sweep_n_points (sweep) / 8);
    points += progress.n_points;
  }
  g_assert_cmpuint (points, ==, ps_sweep_n_points (sweep));
  for (guint round = 0; round < 2; round++) {
    g_autofree char *merged = NULL;

    for (guint i = 0; i < 4; i++) {
      g_autoptr (PsResults) results = open_results ("merged.db", PS_RESULTS_WRITE);
      g_autofree char *name = g_strdup_printf ("shard-%u.db", i), *path = path_of (name);

      fine (ps_results_merge (results, path, &error));
    }
    merged = dump ("merged.db");
    g_assert_true (strcmp (whole, merged) == 0);
  }
}

/* More shards than settings: some have nothing to do. */
static void test_tiny_shards (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = 1f1b, gpipe, zb-h1\ndevices = 2\nmicrobatches = 4\n"
                                     "costs = f=1ms,b=1ms,w=1ms\n");

  for (guint i = 0; i < 5; i++) {
    g_autofree char *name = g_strdup_printf ("tiny-%u.db", i);

    g_assert_cmpuint (run (sweep, name, 2, (PsShard){ i, 5 }).predicted, ==, i < 3);
  }
}

static void test_foreign (void)
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

/* A view of the file has 10^20 rows that all are looked at, each in three steps of SQLite that take no memory:
 * questions, resumed sweeps and merges come to an end. */
static void test_endless (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  PsQuestion question = { .by = "sequence_ns", .top = 1 };
  PsSweepRun how = { .n_jobs = 1, .shard = { 0, 1 } };
  PsSweepProgress progress;
  g_autofree char *path = path_of ("endless.db");

  run (sweep, "endless.db", 1, (PsShard){ 0, 50 });
  change ("endless.db",
          "CREATE TABLE row AS SELECT * FROM prediction LIMIT 1; DROP TABLE prediction;"
          "CREATE TABLE ten (i); INSERT INTO ten VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);"
          "CREATE VIEW hundred AS SELECT a.i FROM ten a CROSS JOIN ten;"
          "CREATE VIEW many AS SELECT a.i FROM hundred a CROSS JOIN hundred CROSS JOIN hundred CROSS JOIN hundred "
          "CROSS JOIN hundred;"
          "CREATE VIEW prediction AS SELECT row.* FROM row CROSS JOIN many CROSS JOIN many b WHERE b.i < 0");
  g_autoptr (PsResults) results = open_results ("endless.db", PS_RESULTS_READ),
                        resumed = open_results ("endless.db", PS_RESULTS_WRITE),
                        merged = open_results ("merged-endless.db", PS_RESULTS_WRITE);
  refused (ps_results_best (results, &question, &error), PS_ERROR_INPUT, "*endless.db: its views take more steps*");
  refused (ps_sweep_run (sweep, resumed, &how, &progress, &error), PS_ERROR_INPUT, "*its views take more steps*");
  refused (ps_results_merge (merged, path, &error), PS_ERROR_INPUT, "*its views take more steps*");
}

/* A name is that of a file, also where SQLite would see a URI or a database in memory. */
static void test_names (void)
{
  static const char *const names[] = { ":memory:", "file:x.db?mode=memory", "file::memory:" };
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = gpipe\ndevices = 2\nmicrobatches = 4\ncosts = f=1ms,bw=1ms\n");
  g_autoptr (PsResults) merged = open_results ("of-names.db", PS_RESULTS_WRITE);
  g_autoptr (GError) error = NULL;
  g_autofree char *before = g_get_current_dir ();
  PsSweepRun how = { .n_jobs = 1, .shard = { 0, 1 } };

  g_assert_cmpint (g_chdir (folder), ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
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
static void test_kinds (void)
{
  g_autofree char *path = path_of ("kind.db");
  g_autoptr (GError) error = NULL;

  ps_results_close (open_results ("kind.db", PS_RESULTS_WRITE));
  g_assert_null (ps_costdb_open (path, PS_COSTDB_READ, &error));
  g_assert_nonnull (strstr (error->message, "not a pipesim cost database"));
}

/* Questions asked of results, against brute force over their rows. */

typedef struct {
  gint64 point, devices, microbatches, iteration_ns, batch, peak;
  double bandwidth;
  char *schedule, *costs, *limit;
  double time;
} Row;

static void row_clear (gpointer data)
{
  Row *row = data;

  g_free (row->schedule);
  g_free (row->costs);
  g_free (row->limit);
}

static GArray *feasible_rows (PsResults *results)
{
  GArray *all = g_array_new (FALSE, TRUE, sizeof (Row));
  g_autoptr (PsDatabase) file = tables_of (results);
  g_autoptr (PsRows) rows = ps_rows_new (file, NULL,
                                         "SELECT point, devices, microbatches, iteration_ns, global_batch,"
                                         " peak_memory_bytes, bandwidth_factor, schedule, costs, memory_limit_bytes"
                                         " FROM prediction WHERE feasible AND NOT asynchronous",
                                         "");
  gboolean found;

  g_array_set_clear_func (all, row_clear);
  while (ps_rows_next (rows, &found, NULL) && found) {
    Row row = { .point = ps_rows_integer (rows, 0),
                .devices = ps_rows_integer (rows, 1),
                .microbatches = ps_rows_integer (rows, 2),
                .iteration_ns = ps_rows_integer (rows, 3),
                .batch = ps_rows_integer (rows, 4),
                .peak = ps_rows_integer (rows, 5),
                .bandwidth = ps_rows_real (rows, 6),
                .schedule = ps_rows_text (rows, 7),
                .costs = ps_rows_text (rows, 8),
                .limit = ps_rows_text (rows, 9) };

    row.time = (double)row.iteration_ns / (double)row.batch;
    g_array_append_val (all, row);
  }
  return all;
}

#define ROW(rows, i) (&g_array_index (rows, Row, i))

/* Whether two settings are under the same circumstances. */
static gboolean is_comparable (const Row *a, const Row *b)
{
  return a->batch == b->batch && !(a->bandwidth < b->bandwidth) && !(a->bandwidth > b->bandwidth)
         && g_str_equal (a->costs, b->costs) && g_str_equal (a->limit, b->limit);
}

/* Nothing of the same devices and circumstances dominates it, and nothing equal comes before it. */
static gboolean is_on_front (const GArray *rows, const Row *row)
{
  for (guint i = 0; i < rows->len; i++) {
    const Row *other = ROW (rows, i);

    if (other->devices != row->devices || !is_comparable (other, row) || other->time > row->time
        || other->peak > row->peak || other == row)
      continue;
    if (other->time < row->time || other->peak < row->peak || other->point < row->point)
      return FALSE;
  }
  return TRUE;
}

static char **csv_lines (const PsAnswer *answer)
{
  g_autofree char *csv = ps_table_to_csv (answer->table);

  return g_strsplit (g_strchomp (csv), "\n", -1);
}

static guint column_in (const char *heading, const char *name)
{
  g_auto (GStrv) names = g_strsplit (heading, ",", -1);

  for (guint i = 0; names[i] != NULL; i++)
    if (g_str_equal (names[i], name))
      return i;
  g_error ("no column %s in %s", name, heading);
}

static char *per_devices[] = { (char *)"devices", NULL };

static void test_pareto (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  PsQuestion question = { .per = per_devices, .by = (char *)"sequence_ns" };

  run (sweep, "pareto.db", 2, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("pareto.db", PS_RESULTS_READ);
  g_autoptr (GArray) rows = feasible_rows (results);
  g_autoptr (GPtrArray) front = g_ptr_array_new ();
  g_autoptr (PsAnswer) answer = fine (ps_results_pareto (results, &question, &error));
  for (guint i = 0; i < rows->len; i++)
    if (is_on_front (rows, ROW (rows, i)))
      g_ptr_array_add (front, ROW (rows, i));
  g_assert_cmpuint (front->len, >, 6);
  g_assert_cmpuint (ps_table_n_rows (answer->table), ==, front->len);
  {
    g_auto (GStrv) lines = csv_lines (answer);
    guint iteration = column_in (lines[0], "iteration_ns"), peak = column_in (lines[0], "peak_memory_bytes");
    guint batch = column_in (lines[0], "global_batch"), bandwidth = column_in (lines[0], "bandwidth_factor");
    guint limit = column_in (lines[0], "memory_limit_bytes"), commas = 0;

    /* The costs, whose commas are quoted, vary: compare from the end, where no text stands but the origin. */
    for (const char *c = lines[0]; *c; c++)
      commas += *c == ',';
    for (guint k = 1; lines[k] != NULL; k++) {
      g_auto (GStrv) cells = g_strsplit (lines[k], ",", -1);
      guint shift = g_strv_length (cells) - 1 - commas, found = 0;

      for (guint i = 0; i < front->len; i++) {
        const Row *row = front->pdata[i];

        found += strstr (lines[k], row->costs) != NULL && row->batch == g_ascii_strtoll (cells[batch], NULL, 10)
                 && row->bandwidth == g_ascii_strtod (cells[bandwidth + shift], NULL)
                 && g_str_equal (row->limit, cells[limit + shift])
                 && row->iteration_ns == g_ascii_strtoll (cells[iteration + shift], NULL, 10)
                 && row->peak == g_ascii_strtoll (cells[peak + shift], NULL, 10);
      }
      g_assert_cmpuint (found, ==, 1);
    }
  }
}

/* The fastest that fits of its devices and circumstances; among equals the one with less memory, then the first. */
static gboolean is_best (const GArray *rows, const Row *row, gint64 limit)
{
  for (guint i = 0; i < rows->len; i++) {
    const Row *other = ROW (rows, i);
    const gint64 differences[]
        = { other->iteration_ns - row->iteration_ns, other->peak - row->peak, other->point - row->point };
    guint k = 0;

    while (k < 2 && differences[k] == 0)
      k++;
    if (other->devices == row->devices && is_comparable (other, row) && other->peak <= limit && differences[k] < 0)
      return FALSE;
  }
  return row->peak <= limit;
}

static void test_best (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  gint64 limits[] = { 6 << 20, 12 << 20, 24 << 20 };
  PsQuestion question = { .per = per_devices, .by = (char *)"iteration_ns", .top = 1, .limits = limits, .n_limits = 3 };
  guint n = 0;

  run (sweep, "best.db", 2, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("best.db", PS_RESULTS_READ);
  g_autoptr (GArray) rows = feasible_rows (results);
  g_autoptr (PsAnswer) answer = ps_results_best (results, &question, NULL);
  g_auto (GStrv) lines = csv_lines (answer);
  for (guint limit = 0; limit < 3; limit++)
    for (guint i = 0; i < rows->len; i++)
      if (is_best (rows, ROW (rows, i), limits[limit])) {
        const Row *row = ROW (rows, i);
        g_autofree char *line = g_strdup_printf ("%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT
                                                 ",\"%s\",%g,%s,%s,%" G_GINT64_FORMAT ",",
                                                 limits[limit], row->devices, row->batch, row->costs, row->bandwidth,
                                                 row->limit, row->schedule, row->microbatches);
        guint found = 0;

        for (guint k = 1; lines[k] != NULL; k++)
          found += g_str_has_prefix (lines[k], line);
        g_assert_cmpuint (found, ==, 1);
        n++;
      }
  g_assert_cmpuint (n, >, 100);
  g_assert_cmpuint (ps_table_n_rows (answer->table), ==, n);
}

/* The three fastest of each group, in their order; fewer where there are no more. */
static void test_top (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = gpipe, 1f1b, zb-h1, zb-h2\ndevices = 2, 4\nmicrobatches = 8\n"
                                     "costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB\n");
  PsQuestion question = { .per = per_devices, .by = (char *)"iteration_ns" };

  run (sweep, "top.db", 1, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("top.db", PS_RESULTS_READ);
  g_autoptr (GArray) rows = feasible_rows (results);
  for (question.top = 1; question.top <= 5; question.top += 2) {
    g_autoptr (PsAnswer) answer = fine (ps_results_best (results, &question, &error));
    g_auto (GStrv) lines = csv_lines (answer);
    guint iteration = column_in (lines[0], "iteration_ns"), devices = column_in (lines[0], "devices"), at = 1;

    for (gint64 p = 2; p <= 4; p += 2)
      for (guint i = 0; i < MIN (question.top, 4); i++, at++) {
        g_auto (GStrv) cells = g_strsplit (lines[at], ",", -1);
        gint64 time = g_ascii_strtoll (cells[iteration], NULL, 10);
        guint n_faster = 0, n_equal = 0;

        g_assert_cmpint (g_ascii_strtoll (cells[devices], NULL, 10), ==, p);
        for (guint k = 0; k < rows->len; k++) {
          n_faster += ROW (rows, k)->devices == p && ROW (rows, k)->iteration_ns < time;
          n_equal += ROW (rows, k)->devices == p && ROW (rows, k)->iteration_ns == time;
        }
        g_assert_cmpuint (n_faster, <=, i);
        g_assert_cmpuint (n_faster + n_equal, >, i);
      }
    g_assert_null (lines[at]);
  }
}

/* A database without an answer says why, and the reasons that come most often come first. */
static void test_none (void)
{
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = 1f1b, zb-v, dualpipe-v\ndevices = 2, 4\nmicrobatches = 3\nchunks = 1\n"
               "costs = f=1ms,b=1ms,w=1ms,act=2MiB\nmemory-limit = 1MiB\n");
  char *where[] = { (char *)"devices=2", NULL };
  gint64 limits[] = { 1 };
  const PsQuestion all = { .by = (char *)"iteration_ns" }, some = { .by = (char *)"iteration_ns", .where = where };
  const PsQuestion within = { .by = (char *)"iteration_ns", .limits = limits, .n_limits = 1 };
  guint64 predicted, skipped, missing;
  g_autoptr (PsResults) results = open_results ("none.db", PS_RESULTS_WRITE);

  refused (ps_question_refuse_none (results, &all, "x", &error), PS_ERROR_INPUT, "*");
  g_assert_true (ps_results_begin (results, sweep->digest, sweep->text, 6, NULL));
  fine (ps_results_count (results, &predicted, &skipped, &missing, &error));
  g_assert_cmpuint (predicted + skipped, ==, 0);
  g_assert_cmpuint (missing, ==, 6);
  refused (ps_question_refuse_none (results, &all, "x", &error), PS_ERROR_INPUT,
           "x: holds no prediction; pipesim sweep SPEC.ini --db x --resume makes them");
  ps_results_close (g_steal_pointer (&results));
  run (sweep, "none.db", 1, (PsShard){ 0, 1 });
  results = open_results ("none.db", PS_RESULTS_WRITE);
  fine (ps_results_count (results, &predicted, &skipped, &missing, &error));
  g_assert_cmpuint (predicted, ==, 2); /* 1f1b, which does not fit */
  g_assert_cmpuint (skipped, ==, 4);
  g_assert_cmpuint (missing, ==, 0);
  refused (ps_question_refuse_none (results, &all, "x", &error), PS_ERROR_INPUT,
           "x: holds no setting that fits its memory limit");
  refused (ps_question_refuse_none (results, &some, "x", &error), PS_ERROR_INPUT,
           "x: holds no setting that fits its memory limit and what else is asked for");
  refused (ps_question_refuse_none (results, &within, "x", &error), PS_ERROR_INPUT,
           "x: holds no setting that fits its memory limit and what else is asked for");
  g_autoptr (PsDatabase) file = tables_of (results);
  g_assert_true (ps_database_script (file, "DELETE FROM prediction; UPDATE sweep SET points = 4", NULL));
  refused (ps_question_refuse_none (results, &all, "x", &error), PS_ERROR_INPUT,
           "x: holds no prediction: no setting is possible; SELECT * FROM skipped_reason in it says why");
  for (guint most = 1; most <= 9; most *= 3) {
    g_autoptr (PsTable) table = fine (ps_results_reasons (results, most, &error));
    g_autofree char *csv = ps_table_to_csv (table);
    g_auto (GStrv) lines = g_strsplit (g_strchomp (csv), "\n", -1);
    gint64 sum = 0, last = G_MAXINT64;

    for (guint i = 1; lines[i] != NULL; i++) {
      gint64 n = g_ascii_strtoll (strrchr (lines[i], ',') + 1, NULL, 10);

      g_assert_cmpint (n, <=, last);
      last = n;
      sum += n;
    }
    g_assert_cmpuint (ps_table_n_rows (table), <=, most);
    if (most == 9)
      g_assert_cmpint (sum, ==, 4);
  }
}

#define FIXED                                                                                                          \
  "fixed: p = 2, microbatch size = 6, model = gpt-1.5b, precision = fp16, cluster = h100-80gb, memory limit = 1 TiB"

/* Circumstances are said to be held apart, and whether the batch or its microbatches are asked for is all the same. */
static void test_circumstances (void)
{
  static const struct {
    const char *per, *about;
    guint n_rows;
  } cases[] = {
    { "devices",
      FIXED "; held apart: global batch, bandwidth factor; "
            "chosen: schedule, m, replicas",
      3 * 2 },
    { "microbatches",
      FIXED "; held apart: m, bandwidth factor, replicas; chosen: "
            "schedule",
      2 * 2 * 2 },
    { "schedule",
      FIXED "; held apart: schedule, global batch, bandwidth factor; "
            "chosen: m, replicas",
      2 * 3 * 2 },
    { NULL,
      FIXED "; "
            "chosen: schedule, m, global batch, bandwidth factor, replicas",
      1 },
  };
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = 1f1b, gpipe\ndevices = 2\nmicrobatches = 4, 8\nreplicas = 1, 2\nlayout = even\n"
               "model = gpt-1.5b\ncluster = h100-80gb\nmemory-limit = 1TiB\nbandwidth-factor = 0.5, 1\n");

  run (sweep, "circumstances.db", 1, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("circumstances.db", PS_RESULTS_READ);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    char *per[] = { (char *)cases[i].per, NULL };
    const PsQuestion question = { .per = per, .by = (char *)"sequence_ns", .top = 1 };
    g_autoptr (PsAnswer) answer = fine (ps_results_best (results, &question, &error));

    g_assert_cmpstr (answer->about, ==, cases[i].about);
    g_assert_cmpuint (ps_table_n_rows (answer->table), ==, cases[i].n_rows);
  }
}

/* PipeDream is the fastest and needs no more memory, but wins only where it is asked for. */
static void test_asynchronous (void)
{
  static const struct {
    const char *where, *winner;
  } cases[] = { { NULL, "1f1b" },
                { "schedule!=gpipe", "1f1b" },
                { "asynchronous=no", "1f1b" },
                { "asynchronous=any", "pipedream" },
                { "asynchronous=yes", "pipedream" },
                { "schedule=pipedream", "pipedream" } };
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = 1f1b, gpipe, pipedream\ndevices = 4\nmicrobatches = 4, 8\ncosts = f=1ms,bw=2ms\n");

  run (sweep, "asynchronous.db", 1, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("asynchronous.db", PS_RESULTS_READ);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    char *where[] = { (char *)cases[i].where, NULL };
    const PsQuestion question = { .by = (char *)"sequence_ns", .where = where, .top = 1 };
    g_autoptr (PsAnswer) best = ps_results_best (results, &question, NULL);
    g_autoptr (PsAnswer) front = ps_results_pareto (results, &question, NULL);
    g_autoptr (PsAnswer) along = ps_results_sensitivity (results, &question, NULL);
    g_autofree char *left_out = ps_question_left_out (results, &question, NULL);
    g_auto (GStrv) b = csv_lines (best), p = csv_lines (front), s = csv_lines (along);

    g_assert_true (g_str_has_prefix (b[1], cases[i].winner) && g_str_has_prefix (p[1], cases[i].winner));
    g_assert_nonnull (strstr (s[1], cases[i].winner));
    g_assert_cmpint (g_str_has_prefix (left_out, "pipedream: asynchronous"), ==, i < 2);
  }
}

/* Two schedules whose times cross between known values: gpipe with m microbatches takes (m + p - 1) (f + b), the naive
 * schedule m p (f + b): at p = 2 and m = 1 both 2 (f + b), from m = 2 on gpipe is ahead. With transfers of c the naive
 * one needs 2 c for each microbatch, gpipe only 2 c in all. */
static void test_sensitivity (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = naive, gpipe\ndevices = 2\nmicrobatches = 1..4\n"
                                     "costs = f=1ms,b=1ms,w=0\n");
  PsQuestion question = { .by = (char *)"iteration_ns" };

  run (sweep, "cross.db", 1, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("cross.db", PS_RESULTS_READ);
  g_autoptr (PsAnswer) answer = ps_results_sensitivity (results, &question, NULL);
  g_autofree char *csv = ps_table_to_csv (answer->table);
  /* At m = 1 both take 4 ms; the first by name wins a tie and stays so: gpipe. */
  g_assert_cmpstr (csv, ==,
                   "from,to,winner,ahead,before,break_even,statement\n1,4,gpipe,0,,,no schedule is faster than gpipe "
                   "from m = 1 to 4\n");
}

static double time_at (const GArray *rows, const char *schedule, double bandwidth)
{
  for (guint i = 0; i < rows->len; i++)
    if (g_str_equal (ROW (rows, i)->schedule, schedule) && ROW (rows, i)->bandwidth == bandwidth)
      return (double)ROW (rows, i)->iteration_ns;
  g_assert_not_reached ();
}

/* The times of the fastest and of the second at a bandwidth. */
static void two_fastest (const GArray *rows, double bandwidth, double *best, double *second)
{
  *best = *second = G_MAXDOUBLE;
  for (guint i = 0; i < rows->len; i++)
    if (ROW (rows, i)->bandwidth == bandwidth) {
      double time = (double)ROW (rows, i)->iteration_ns;

      *second = MIN (*second, MAX (time, *best));
      *best = MIN (*best, time);
    }
}

/* Where a stretch begins: how far its winner is ahead of the second, and where the straight lines of both winners'
 * times between the last value and this one cross. */
static void check_beginning (const GArray *rows, char *const *cells, char *const *before)
{
  double from = g_ascii_strtod (cells[0], NULL), best, second;
  g_autofree char *words = NULL, *wins = NULL;
  gboolean tied = FALSE;

  two_fastest (rows, from, &best, &second);
  g_assert_cmpfloat (time_at (rows, cells[2], from), ==, best);
  g_assert_cmpfloat_with_epsilon (g_ascii_strtod (cells[3], NULL), (second - best) / second, 1e-6);
  for (guint i = 0; i < rows->len; i++) {
    double there = ROW (rows, i)->bandwidth;

    two_fastest (rows, there, &best, &second);
    tied |= there >= from && there <= g_ascii_strtod (cells[1], NULL) && best == second;
  }
  wins = before != NULL ? g_strdup_printf ("%s beats %s", cells[2], before[2])
         : tied         ? g_strdup_printf ("no schedule is faster than %s", cells[2])
                        : g_strdup_printf ("%s is the fastest", cells[2]);
  words = g_strdup_printf ("%s %s bandwidth factor = ", wins, g_str_equal (cells[0], cells[1]) ? "at" : "from");
  g_assert_true (g_str_has_prefix (cells[6], words));
  g_assert_cmpint (strstr (cells[6], " to ") != NULL, ==, !g_str_equal (cells[0], cells[1]));
  g_assert_cmpstr (cells[4], ==, before != NULL ? before[2] : "");
  if (before == NULL)
    return;
  double last = g_ascii_strtod (before[1], NULL);
  double behind = time_at (rows, cells[2], last) - time_at (rows, before[2], last);
  double ahead = time_at (rows, before[2], from) - time_at (rows, cells[2], from);
  g_assert_cmpfloat_with_epsilon (g_ascii_strtod (cells[5], NULL), last + (from - last) * behind / (behind + ahead),
                                  1e-5 * from);
}

/* Against brute force: at every bandwidth the winner of the stretch is as fast as any, and break-even points lie
 * between. */
static void test_stretches (void)
{
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = 1f1b, eager-1f1b, interleaved, zb-h1, zb-v, gpipe\ndevices = 4\n"
               "microbatches = 8\ncosts = f=1ms,b=1ms,w=1ms,c=100us\n"
               "bandwidth-factor = 0.01..4 x1.1\n");
  PsQuestion question = { .by = (char *)"iteration_ns", .over = (char *)"bandwidth_factor" };
  double last = 0;
  guint checked = 0;

  run (sweep, "stretches.db", 1, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("stretches.db", PS_RESULTS_READ);
  g_autoptr (GArray) rows = feasible_rows (results);
  g_autoptr (PsAnswer) answer = ps_results_sensitivity (results, &question, NULL);
  g_auto (GStrv) lines = csv_lines (answer);
  g_assert_cmpuint (g_strv_length (lines), >=, 3); /* two stretches at least */
  for (guint k = 1; lines[k] != NULL; k++) {
    g_auto (GStrv) cells = g_strsplit (lines[k], ",", -1); /* from,to,winner,ahead,before,break_even,statement */
    double from = g_ascii_strtod (cells[0], NULL), to = g_ascii_strtod (cells[1], NULL);

    g_assert_cmpfloat (from, >, last);
    if (k > 1) {
      double even = g_ascii_strtod (cells[5], NULL);

      g_assert_cmpfloat (even, >=, last);
      g_assert_cmpfloat (even, <=, from);
    }
    last = to;
    g_auto (GStrv) previous = k > 1 ? g_strsplit (lines[k - 1], ",", -1) : NULL;
    check_beginning (rows, cells, previous);
    for (guint i = 0; i < rows->len; i++)
      for (guint j = 0; j < rows->len && ROW (rows, i)->bandwidth >= from && ROW (rows, i)->bandwidth <= to; j++)
        if (ROW (rows, j)->bandwidth == ROW (rows, i)->bandwidth && g_str_equal (ROW (rows, i)->schedule, cells[2])) {
          g_assert_cmpint (ROW (rows, i)->iteration_ns, <=, ROW (rows, j)->iteration_ns);
          checked++;
        }
  }
  g_assert_cmpuint (checked, ==, rows->len);
}

static void check_refused (PsResults *results, PsQuestion question, const char *wanted)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (ps_results_pareto (results, &question, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_nonnull (strstr (error->message, wanted));
}

static void test_conditions (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  char *per[] = { (char *)"colour", NULL }, *none[] = { NULL }, *text[] = { (char *)"schedule", NULL };
  char *wrong[] = { (char *)"schedule", NULL }, *sign[] = { (char *)"devices=>2", NULL };
  char *size[] = { (char *)"peak_memory_bytes<=12XB", NULL };
  char *number[] = { (char *)"devices=4x", NULL }, *flag[] = { (char *)"blocking=maybe", NULL };
  char *quote[] = { (char *)"schedule=1f1b' OR 1 --", NULL };
  char *two[] = { (char *)"schedule!=zb-v", (char *)"peak_memory_bytes<=8MiB", (char *)"devices>=4", NULL };
  PsQuestion question = { .per = none, .where = two, .by = (char *)"iteration_ns", .top = 1 };
  g_autoptr (PsAnswer) answer = NULL, nothing = NULL;

  run (sweep, "where.db", 2, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("where.db", PS_RESULTS_READ);
  check_refused (results, (PsQuestion){ .per = per, .by = (char *)"iteration_ns" }, "--per: 'colour' is no column");
  check_refused (results, (PsQuestion){ .by = (char *)"schedule" }, "--by: 'schedule' is no column of numbers");
  check_refused (results, (PsQuestion){ .by = (char *)"iteration_ns", .where = wrong }, "--where: 'schedule' is not");
  check_refused (results, (PsQuestion){ .by = (char *)"iteration_ns", .where = sign }, "--where: 'devices=>2' is not");
  check_refused (results, (PsQuestion){ .by = (char *)"iteration_ns", .where = size }, "'12XB'");
  check_refused (results, (PsQuestion){ .by = (char *)"iteration_ns", .where = number },
                 "'4x' is no number, as devices is");
  check_refused (results, (PsQuestion){ .by = (char *)"iteration_ns", .where = flag }, "'maybe' is not yes, no or any");
  answer = ps_results_best (results, &question, NULL);
  g_assert_cmpuint (ps_table_n_rows (answer->table), ==, 1);
  question.where = quote;
  question.per = text;
  nothing = ps_results_best (results, &question, NULL);
  g_assert_cmpuint (ps_table_n_rows (nothing->table), ==, 0);
}

/* The options' letters, names and headings are names of columns. */
static void test_called (void)
{
  static const char *const names[][2] = { { "p", "devices" },
                                          { "memory-limit", "memory_limit_bytes" },
                                          { "peak memory", "peak_memory_bytes" },
                                          { "Bubble-of-iteration", "bubble_ratio" },
                                          { "costs.reduce", "cost_reduce_ns" },
                                          { "reduce", "reduce" } };
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = 1f1b, zb-h1, pipedream\np = 2, 4\nm = 8\n"
                                     "memory_limit = none, 1GiB\ncosts.f = 1ms\ncosts = b=1ms,w=1ms,act=1MiB\n");
  g_autofree char *wrong = g_strdup ("colour");
  char *where[] = { (char *)"p=4", (char *)"memory-limit=1GiB", (char *)"async=any", NULL };
  char *columns[] = { (char *)"lower_bound_ns", NULL };
  PsQuestion question = { .where = where, .by = (char *)"iteration_ns", .columns = columns, .top = 9 };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autofree char *name = g_strdup (names[i][0]);

    g_assert_true (ps_result_column_resolve ("--per", &name, FALSE, NULL));
    g_assert_cmpstr (name, ==, names[i][1]);
  }
  g_assert_false (ps_result_column_resolve ("--per", &wrong, FALSE, NULL));
  run (sweep, "names.db", 1, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("names.db", PS_RESULTS_READ);
  g_autoptr (PsAnswer) answer = ps_results_best (results, &question, NULL);
  g_assert_cmpuint (ps_table_n_rows (answer->table), ==, 3);
  {
    g_auto (GStrv) lines = csv_lines (answer);

    column_in (lines[0], "lower_bound_ns");
  }
}

int main (int argc, char **argv)
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
  g_test_add_func ("/questions/pareto", test_pareto);
  g_test_add_func ("/questions/best", test_best);
  g_test_add_func ("/questions/top", test_top);
  g_test_add_func ("/questions/none", test_none);
  g_test_add_func ("/questions/circumstances", test_circumstances);
  g_test_add_func ("/questions/sensitivity", test_sensitivity);
  g_test_add_func ("/questions/asynchronous", test_asynchronous);
  g_test_add_func ("/questions/stretches", test_stretches);
  g_test_add_func ("/questions/conditions", test_conditions);
  g_test_add_func ("/questions/names", test_called);
  return run_in_folder ();
}

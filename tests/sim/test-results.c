/* test-results.c - results on disk: the same whatever the threads, shards and interruptions; and the questions asked of
 * them, against brute force over their rows. */
#include "sweep/results-private.h"
#include "folder-rig.h"

#include <pipesim/costdb.h>
#include <pipesim/questions.h>
#include <pipesim/sweep.h>

#include <string.h>

static PsSweep *
parse (const char *text)
{
  g_autoptr (GError) error = NULL;
  PsSweep *sweep = ps_sweep_parse ("s.ini", text, strlen (text), &error);

  g_assert_no_error (error);
  return sweep;
}

#define SPEC                                                                                                           \
  "[sweep]\nschedule = all\ndevices = 2, 4\nmicrobatches = 4..12 step 4\n"                                             \
  "costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB; f=1ms,b=2ms,w=1ms,c=500us,act=3MiB\n"                         \
  "bandwidth-factor = 0.25..4 x2\nmemory-limit = 16MiB, 32MiB\n"

static PsResults *
open_results (const char *name, PsResultsMode mode)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = path_of (name);
  PsResults *results = ps_results_open (path, mode, &error);

  g_assert_no_error (error);
  return results;
}

static PsSweepProgress
run (const PsSweep *sweep, const char *name, guint n_jobs, PsShard shard)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsResults) results = open_results (name, PS_RESULTS_WRITE);
  PsSweepRun how = { .n_jobs = n_jobs, .shard = shard };
  PsSweepProgress progress;

  ps_sweep_run (sweep, results, &how, &progress, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (progress.present + progress.predicted + progress.skipped, ==, progress.n_points);
  return progress;
}

/* All columns of all rows, as text. */
static char *
dump (const char *name)
{
  static const char *const tables[]
      = { "SELECT * FROM sweep", "SELECT * FROM prediction ORDER BY point", "SELECT * FROM skipped ORDER BY point" };
  g_autoptr (PsResults) results = open_results (name, PS_RESULTS_READ);
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    {
      g_autoptr (PsRows) rows = ps_rows_new (results->file, NULL, tables[i], "");
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

/* The table of columns in C is that of the schema. */
static void
test_columns (void)
{
  g_autoptr (PsResults) results = open_results ("columns.db", PS_RESULTS_WRITE);
  g_autoptr (PsRows) rows = ps_rows_new (results->file, NULL, "SELECT name FROM pragma_table_info ('result')", "");
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

/* A database is older than an option: questions see what the option says where it is not given. */
static void
test_older (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  char *per[] = { "offload", "reduce", "group_size", "devices", NULL };
  PsQuestion question = { .by = "sequence_ns", .per = per, .top = 1 };
  g_autoptr (PsResults) old = NULL;
  g_autoptr (PsAnswer) whole = NULL, answer = NULL;
  g_autofree char *expected = NULL, *found = NULL;
  g_autoptr (GError) error = NULL;

  run (sweep, "older.db", 2, (PsShard){ 0, 1 });
  old = open_results ("older.db", PS_RESULTS_WRITE);
  whole = ps_results_best (old, &question, &error);
  g_assert_no_error (error);
  g_assert_true (ps_database_script (old->file,
                                     "ALTER TABLE prediction DROP COLUMN offload;"
                                     "ALTER TABLE prediction DROP COLUMN reduce;"
                                     "ALTER TABLE prediction DROP COLUMN group_size",
                                     NULL));
  ps_results_close (old);
  old = open_results ("older.db", PS_RESULTS_READ);
  answer = ps_results_best (old, &question, &error);
  g_assert_no_error (error);
  expected = ps_table_to_text (whole->table);
  found = ps_table_to_text (answer->table);
  g_assert_cmpstr (found, ==, expected);
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
  {
    g_autoptr (PsResults) results = open_results ("resume.db", PS_RESULTS_WRITE);

    g_assert_true (ps_database_script (results->file,
                                       "DELETE FROM prediction WHERE point % 3 = 0 OR point > 1000;"
                                       "DELETE FROM skipped WHERE point % 2 = 0",
                                       NULL));
  }
  progress = run (sweep, "resume.db", 2, (PsShard){ 0, 1 });
  g_assert_cmpuint (progress.predicted, >, 0);
  g_assert_cmpuint (progress.predicted, <, predicted);
  mended = dump ("resume.db");
  g_assert_true (strcmp (whole, mended) == 0);
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
          g_autoptr (GError) error = NULL;

          ps_results_merge (results, path, &error);
          g_assert_no_error (error);
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
  g_autoptr (PsResults) results = NULL;
  g_autofree char *path = path_of ("other.db"), *empty = path_of ("empty.db");
  PsSweepRun how = { .n_jobs = 1, .shard = { 0, 1 } };
  PsSweepProgress progress;
  g_autoptr (GError) error = NULL;

  run (other, "other.db", 1, (PsShard){ 0, 50 });
  results = open_results ("mine.db", PS_RESULTS_WRITE);
  how.shard = (PsShard){ 0, 50 };
  g_assert_true (ps_sweep_run (sweep, results, &how, &progress, NULL));
  g_assert_false (ps_sweep_run (other, results, &how, &progress, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  g_assert_nonnull (strstr (error->message, "mine.db: holds another sweep"));
  g_clear_error (&error);
  g_assert_false (ps_results_merge (results, path, &error));
  g_assert_nonnull (strstr (error->message, "holds another sweep"));
  g_clear_error (&error);
  ps_results_close (open_results ("empty.db", PS_RESULTS_WRITE));
  g_assert_false (ps_results_merge (results, empty, &error));
  g_assert_nonnull (strstr (error->message, "empty.db: holds no sweep yet"));
  g_clear_error (&error);
  g_assert_true (ps_database_script (results->file, "UPDATE sweep SET version = '0.0.1'", NULL));
  g_assert_false (ps_sweep_run (sweep, results, &how, &progress, &error));
  g_assert_nonnull (strstr (error->message, "was predicted by pipesim 0.0.1"));
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
  g_assert_null (ps_results_open ("", PS_RESULTS_WRITE, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_cmpstr (error->message, ==, "'': names no file; give the path of a result database");
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

/* Questions */

typedef struct
{
  gint64 point, devices, microbatches, iteration_ns, batch, peak;
  double bandwidth;
  char *schedule, *costs, *limit;
  double time;
} Row;

static void
row_clear (gpointer data)
{
  Row *row = data;

  g_free (row->schedule);
  g_free (row->costs);
  g_free (row->limit);
}

static GArray *
feasible_rows (PsResults *results)
{
  GArray *all = g_array_new (FALSE, TRUE, sizeof (Row));
  g_autoptr (PsRows) rows = ps_rows_new (results->file, NULL,
                                         "SELECT point, devices, microbatches, iteration_ns, global_batch,"
                                         " peak_memory_bytes, bandwidth_factor, schedule, costs, memory_limit_bytes"
                                         " FROM prediction WHERE feasible AND NOT asynchronous",
                                         "");
  gboolean found;

  g_array_set_clear_func (all, row_clear);
  while (ps_rows_next (rows, &found, NULL) && found)
    {
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

/* Nothing of the same devices dominates it, and nothing equal comes before it. */
static gboolean
is_on_front (const GArray *rows, const Row *row)
{
  for (guint i = 0; i < rows->len; i++)
    {
      const Row *other = ROW (rows, i);

      if (other->devices != row->devices || other->time > row->time || other->peak > row->peak || other == row)
        continue;
      if (other->time < row->time || other->peak < row->peak || other->point < row->point)
        return FALSE;
    }
  return TRUE;
}

static char **
csv_lines (const PsAnswer *answer)
{
  g_autofree char *csv = ps_table_to_csv (answer->table);

  return g_strsplit (g_strchomp (csv), "\n", -1);
}

static guint
column_in (const char *heading, const char *name)
{
  g_auto (GStrv) names = g_strsplit (heading, ",", -1);

  for (guint i = 0; names[i]; i++)
    if (g_str_equal (names[i], name))
      return i;
  g_error ("no column %s in %s", name, heading);
}

static char *per_devices[] = { (char *)"devices", NULL };

static void
test_pareto (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  g_autoptr (PsResults) results = NULL;
  g_autoptr (GArray) rows = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (PsAnswer) answer = NULL;
  PsQuestion question = { .per = per_devices, .by = (char *)"sequence_ns" };
  guint n = 0;

  run (sweep, "pareto.db", 2, (PsShard){ 0, 1 });
  results = open_results ("pareto.db", PS_RESULTS_READ);
  rows = feasible_rows (results);
  answer = ps_results_pareto (results, &question, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < rows->len; i++)
    n += is_on_front (rows, ROW (rows, i));
  g_assert_cmpuint (n, >, 6);
  g_assert_cmpuint (ps_table_n_rows (answer->table), ==, n);
  {
    g_auto (GStrv) lines = csv_lines (answer);
    guint iteration = column_in (lines[0], "iteration_ns"), peak = column_in (lines[0], "peak_memory_bytes");
    guint commas = 0;

    /* The costs, whose commas are quoted, vary: compare from the end, where no text stands but the origin. */
    for (const char *c = lines[0]; *c; c++)
      commas += *c == ',';
    for (guint k = 1; lines[k]; k++)
      {
        g_auto (GStrv) cells = g_strsplit (lines[k], ",", -1);
        guint shift = g_strv_length (cells) - 1 - commas, found = 0;

        for (guint i = 0; i < rows->len; i++)
          found += is_on_front (rows, ROW (rows, i))
                   && ROW (rows, i)->iteration_ns == g_ascii_strtoll (cells[iteration + shift], NULL, 10)
                   && ROW (rows, i)->peak == g_ascii_strtoll (cells[peak + shift], NULL, 10);
        g_assert_cmpuint (found, ==, 1);
      }
  }
}

static void
test_best (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  g_autoptr (PsResults) results = NULL;
  g_autoptr (GArray) rows = NULL;
  gint64 limits[] = { 6 << 20, 12 << 20, 24 << 20 };
  PsQuestion question = { .per = per_devices, .by = (char *)"iteration_ns", .top = 1, .limits = limits, .n_limits = 3 };
  g_autoptr (PsAnswer) answer = NULL;
  g_auto (GStrv) lines = NULL;
  guint k = 0;

  run (sweep, "best.db", 2, (PsShard){ 0, 1 });
  results = open_results ("best.db", PS_RESULTS_READ);
  rows = feasible_rows (results);
  answer = ps_results_best (results, &question, NULL);
  lines = csv_lines (answer);
  for (guint limit = 0; limit < 3; limit++)
    for (gint64 devices = 2; devices <= 4; devices += 2)
      {
        const Row *best = NULL;
        g_autofree char *begin = NULL;

        for (guint i = 0; i < rows->len; i++)
          {
            const Row *row = ROW (rows, i);

            if (row->devices == devices && row->peak <= limits[limit]
                && (!best || row->iteration_ns < best->iteration_ns
                    || (row->iteration_ns == best->iteration_ns && row->peak < best->peak)))
              best = row;
          }
        g_assert_nonnull (best);
        begin = g_strdup_printf ("%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%s,%" G_GINT64_FORMAT ",", limits[limit],
                                 devices, best->schedule, best->microbatches);
        g_assert_true (g_str_has_prefix (lines[++k], begin));
      }
  g_assert_null (lines[k + 1]);
}

/* PipeDream is the fastest and needs no more memory, but wins only where it is asked for. */
static void
test_asynchronous (void)
{
  static const struct
  {
    const char *where, *winner;
  } cases[] = { { NULL, "1f1b" },
                { "schedule!=gpipe", "1f1b" },
                { "asynchronous=no", "1f1b" },
                { "asynchronous=any", "pipedream" },
                { "asynchronous=yes", "pipedream" },
                { "schedule=pipedream", "pipedream" } };
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = 1f1b, gpipe, pipedream\ndevices = 4\nmicrobatches = 4, 8\ncosts = f=1ms,bw=2ms\n");
  g_autoptr (PsResults) results = NULL;

  run (sweep, "asynchronous.db", 1, (PsShard){ 0, 1 });
  results = open_results ("asynchronous.db", PS_RESULTS_READ);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      char *where[] = { (char *)cases[i].where, NULL };
      const PsQuestion question = { .by = (char *)"sequence_ns", .where = where, .top = 1 };
      g_autoptr (PsAnswer) best = ps_results_best (results, &question, NULL);
      g_autoptr (PsAnswer) front = ps_results_pareto (results, &question, NULL);
      g_autoptr (PsAnswer) along = ps_results_sensitivity (results, &question, "microbatches", NULL);
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
static void
test_sensitivity (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = naive, gpipe\ndevices = 2\nmicrobatches = 1..4\n"
                                     "costs = f=1ms,b=1ms,w=0\n");
  g_autoptr (PsResults) results = NULL;
  g_autoptr (PsAnswer) answer = NULL;
  g_autofree char *csv = NULL;
  PsQuestion question = { .by = (char *)"iteration_ns" };

  run (sweep, "cross.db", 1, (PsShard){ 0, 1 });
  results = open_results ("cross.db", PS_RESULTS_READ);
  answer = ps_results_sensitivity (results, &question, "microbatches", NULL);
  csv = ps_table_to_csv (answer->table);
  /* At m = 1 both take 4 ms; the first by name wins a tie and stays so: gpipe. */
  g_assert_cmpstr (
      csv, ==, "from,to,winner,ahead,before,break_even,statement\n1,4,gpipe,0,,,gpipe is the fastest from m = 1 on\n");
}

/* Against brute force: at every bandwidth the winner of the stretch is as fast as any, and break-even points lie
 * between. */
static void
test_stretches (void)
{
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = 1f1b, eager-1f1b, interleaved, zb-h1, zb-v, gpipe\ndevices = 4\n"
               "microbatches = 8\ncosts = f=1ms,b=1ms,w=1ms,c=100us\n"
               "bandwidth-factor = 0.01..4 x1.1\n");
  g_autoptr (PsResults) results = NULL;
  g_autoptr (GArray) rows = NULL;
  g_autoptr (PsAnswer) answer = NULL;
  g_auto (GStrv) lines = NULL;
  PsQuestion question = { .by = (char *)"iteration_ns" };
  double last = 0;
  guint checked = 0;

  run (sweep, "stretches.db", 1, (PsShard){ 0, 1 });
  results = open_results ("stretches.db", PS_RESULTS_READ);
  rows = feasible_rows (results);
  answer = ps_results_sensitivity (results, &question, "bandwidth_factor", NULL);
  lines = csv_lines (answer);
  g_assert_cmpuint (g_strv_length (lines), >=, 3); /* two stretches at least */
  for (guint k = 1; lines[k]; k++)
    {
      g_auto (GStrv) cells = g_strsplit (lines[k], ",", -1); /* from,to,winner,ahead,before,break_even,statement */
      double from = g_ascii_strtod (cells[0], NULL), to = g_ascii_strtod (cells[1], NULL);

      g_assert_cmpfloat (from, >, last);
      if (k > 1)
        {
          double even = g_ascii_strtod (cells[5], NULL);

          g_assert_cmpfloat (even, >=, last);
          g_assert_cmpfloat (even, <=, from);
        }
      last = to;
      for (guint i = 0; i < rows->len; i++)
        for (guint j = 0; j < rows->len && ROW (rows, i)->bandwidth >= from && ROW (rows, i)->bandwidth <= to; j++)
          if (ROW (rows, j)->bandwidth == ROW (rows, i)->bandwidth && g_str_equal (ROW (rows, i)->schedule, cells[2]))
            {
              g_assert_cmpint (ROW (rows, i)->iteration_ns, <=, ROW (rows, j)->iteration_ns);
              checked++;
            }
    }
  g_assert_cmpuint (checked, ==, rows->len);
}

static void
check_refused (PsResults *results, PsQuestion question, const char *wanted)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (ps_results_pareto (results, &question, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_nonnull (strstr (error->message, wanted));
}

static void
test_conditions (void)
{
  g_autoptr (PsSweep) sweep = parse (SPEC);
  g_autoptr (PsResults) results = NULL;
  char *per[] = { (char *)"colour", NULL }, *none[] = { NULL }, *text[] = { (char *)"schedule", NULL };
  char *wrong[] = { (char *)"schedule", NULL }, *sign[] = { (char *)"devices=>2", NULL };
  char *size[] = { (char *)"peak_memory_bytes<=12XB", NULL };
  char *number[] = { (char *)"devices=4x", NULL }, *flag[] = { (char *)"blocking=maybe", NULL };
  char *quote[] = { (char *)"schedule=1f1b' OR 1 --", NULL };
  char *two[] = { (char *)"schedule!=zb-v", (char *)"peak_memory_bytes<=8MiB", (char *)"devices>=4", NULL };
  PsQuestion question = { .per = none, .where = two, .by = (char *)"iteration_ns", .top = 1 };
  g_autoptr (PsAnswer) answer = NULL, nothing = NULL;

  run (sweep, "where.db", 2, (PsShard){ 0, 1 });
  results = open_results ("where.db", PS_RESULTS_READ);
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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/results/columns", test_columns);
  g_test_add_func ("/results/older", test_older);
  g_test_add_func ("/results/same", test_same);
  g_test_add_func ("/results/resume", test_resume);
  g_test_add_func ("/results/shards", test_shards);
  g_test_add_func ("/results/tiny-shards", test_tiny_shards);
  g_test_add_func ("/results/foreign", test_foreign);
  g_test_add_func ("/results/names", test_names);
  g_test_add_func ("/results/kinds", test_kinds);
  g_test_add_func ("/results/pareto", test_pareto);
  g_test_add_func ("/results/best", test_best);
  g_test_add_func ("/results/sensitivity", test_sensitivity);
  g_test_add_func ("/results/asynchronous", test_asynchronous);
  g_test_add_func ("/results/stretches", test_stretches);
  g_test_add_func ("/results/conditions", test_conditions);
  return run_in_folder ();
}

/* test-questions.c - questions asked of results, against brute force over their rows. */
#include "results-rig.h"

#include <pipesim/sweep.h>

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
  g_autoptr (PsDatabase) file = tables_of (results);
  g_autoptr (PsRows) rows = ps_rows_new (file, NULL,
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

/* Whether two settings are under the same circumstances. */
static gboolean
is_comparable (const Row *a, const Row *b)
{
  return a->batch == b->batch && !(a->bandwidth < b->bandwidth) && !(a->bandwidth > b->bandwidth)
         && g_str_equal (a->costs, b->costs) && g_str_equal (a->limit, b->limit);
}

/* Nothing of the same devices and circumstances dominates it, and nothing equal comes before it. */
static gboolean
is_on_front (const GArray *rows, const Row *row)
{
  for (guint i = 0; i < rows->len; i++)
    {
      const Row *other = ROW (rows, i);

      if (other->devices != row->devices || !is_comparable (other, row) || other->time > row->time
          || other->peak > row->peak || other == row)
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

  for (guint i = 0; names[i] != NULL; i++)
    if (g_str_equal (names[i], name))
      return i;
  g_error ("no column %s in %s", name, heading);
}

static char *per_devices[] = { (char *)"devices", NULL };

static void
test_pareto (void)
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
    for (guint k = 1; lines[k] != NULL; k++)
      {
        g_auto (GStrv) cells = g_strsplit (lines[k], ",", -1);
        guint shift = g_strv_length (cells) - 1 - commas, found = 0;

        for (guint i = 0; i < front->len; i++)
          {
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
static gboolean
is_best (const GArray *rows, const Row *row, gint64 limit)
{
  for (guint i = 0; i < rows->len; i++)
    {
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

static void
test_best (void)
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
      if (is_best (rows, ROW (rows, i), limits[limit]))
        {
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
static void
test_top (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = gpipe, 1f1b, zb-h1, zb-h2\ndevices = 2, 4\nmicrobatches = 8\n"
                                     "costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB\n");
  PsQuestion question = { .per = per_devices, .by = (char *)"iteration_ns" };

  run (sweep, "top.db", 1, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("top.db", PS_RESULTS_READ);
  g_autoptr (GArray) rows = feasible_rows (results);
  for (question.top = 1; question.top <= 5; question.top += 2)
    {
      g_autoptr (PsAnswer) answer = fine (ps_results_best (results, &question, &error));
      g_auto (GStrv) lines = csv_lines (answer);
      guint iteration = column_in (lines[0], "iteration_ns"), devices = column_in (lines[0], "devices"), at = 1;

      for (gint64 p = 2; p <= 4; p += 2)
        for (guint i = 0; i < MIN (question.top, 4); i++, at++)
          {
            g_auto (GStrv) cells = g_strsplit (lines[at], ",", -1);
            gint64 time = g_ascii_strtoll (cells[iteration], NULL, 10);
            guint n_faster = 0, n_equal = 0;

            g_assert_cmpint (g_ascii_strtoll (cells[devices], NULL, 10), ==, p);
            for (guint k = 0; k < rows->len; k++)
              {
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
static void
test_none (void)
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
  g_assert_true (ps_results_begin (results, ps_sweep_digest (sweep), ps_sweep_text (sweep), 6, NULL));
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
  for (guint most = 1; most <= 9; most *= 3)
    {
      g_autoptr (PsTable) table = fine (ps_results_reasons (results, most, &error));
      g_autofree char *csv = ps_table_to_csv (table);
      g_auto (GStrv) lines = g_strsplit (g_strchomp (csv), "\n", -1);
      gint64 sum = 0, last = G_MAXINT64;

      for (guint i = 1; lines[i] != NULL; i++)
        {
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
static void
test_circumstances (void)
{
  static const struct
  {
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
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      char *per[] = { (char *)cases[i].per, NULL };
      const PsQuestion question = { .per = per, .by = (char *)"sequence_ns", .top = 1 };
      g_autoptr (PsAnswer) answer = fine (ps_results_best (results, &question, &error));

      g_assert_cmpstr (answer->about, ==, cases[i].about);
      g_assert_cmpuint (ps_table_n_rows (answer->table), ==, cases[i].n_rows);
    }
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

  run (sweep, "asynchronous.db", 1, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("asynchronous.db", PS_RESULTS_READ);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
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
static void
test_sensitivity (void)
{
  g_autoptr (PsSweep) sweep = parse ("[sweep]\nschedule = naive, gpipe\ndevices = 2\nmicrobatches = 1..4\n"
                                     "costs = f=1ms,b=1ms,w=0\n");
  PsQuestion question = { .by = (char *)"iteration_ns" };

  run (sweep, "cross.db", 1, (PsShard){ 0, 1 });
  g_autoptr (PsResults) results = open_results ("cross.db", PS_RESULTS_READ);
  g_autoptr (PsAnswer) answer = ps_results_sensitivity (results, &question, NULL);
  g_autofree char *csv = ps_table_to_csv (answer->table);
  /* At m = 1 both take 4 ms; the first by name wins a tie and stays so: gpipe. */
  g_assert_cmpstr (
      csv, ==,
      "from,to,winner,ahead,before,break_even,statement\n1,4,gpipe,0,,,gpipe is the fastest from m = 1 to 4\n");
}

static double
time_at (const GArray *rows, const char *schedule, double bandwidth)
{
  for (guint i = 0; i < rows->len; i++)
    if (g_str_equal (ROW (rows, i)->schedule, schedule) && ROW (rows, i)->bandwidth == bandwidth)
      return (double)ROW (rows, i)->iteration_ns;
  g_assert_not_reached ();
}

/* The times of the fastest and of the second at a bandwidth. */
static void
two_fastest (const GArray *rows, double bandwidth, double *best, double *second)
{
  *best = *second = G_MAXDOUBLE;
  for (guint i = 0; i < rows->len; i++)
    if (ROW (rows, i)->bandwidth == bandwidth)
      {
        double time = (double)ROW (rows, i)->iteration_ns;

        *second = MIN (*second, MAX (time, *best));
        *best = MIN (*best, time);
      }
}

/* Where a stretch begins: how far its winner is ahead of the second, and where the straight lines of both winners'
 * times between the last value and this one cross. */
static void
check_beginning (const GArray *rows, char *const *cells, char *const *before)
{
  double from = g_ascii_strtod (cells[0], NULL), best, second;
  g_autofree char *words = NULL;

  two_fastest (rows, from, &best, &second);
  g_assert_cmpfloat (time_at (rows, cells[2], from), ==, best);
  g_assert_cmpfloat_with_epsilon (g_ascii_strtod (cells[3], NULL), (second - best) / second, 1e-6);
  words = g_strdup_printf ("%s %s%s %s bandwidth factor = ", cells[2], before != NULL ? "beats " : "is the fastest",
                           before != NULL ? before[2] : "", g_str_equal (cells[0], cells[1]) ? "at" : "from");
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
static void
test_stretches (void)
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
  for (guint k = 1; lines[k] != NULL; k++)
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
      g_auto (GStrv) previous = k > 1 ? g_strsplit (lines[k - 1], ",", -1) : NULL;
      check_beginning (rows, cells, previous);
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
static void
test_names (void)
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

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/questions/pareto", test_pareto);
  g_test_add_func ("/questions/best", test_best);
  g_test_add_func ("/questions/top", test_top);
  g_test_add_func ("/questions/none", test_none);
  g_test_add_func ("/questions/circumstances", test_circumstances);
  g_test_add_func ("/questions/sensitivity", test_sensitivity);
  g_test_add_func ("/questions/asynchronous", test_asynchronous);
  g_test_add_func ("/questions/stretches", test_stretches);
  g_test_add_func ("/questions/conditions", test_conditions);
  g_test_add_func ("/questions/names", test_names);
  return run_in_folder ();
}

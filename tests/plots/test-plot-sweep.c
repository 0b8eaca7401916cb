/* Tests of the pictures of sweeps and of accuracy: what is drawn where, and what is refused. */
#include "program-rig.h"

#include <pipesim/costdb.h>
#include <pipesim/sweep.h>

typedef struct {
  char *folder;
  char *results;
  char *costs;
} Fixture;

/* Three schedules on 4 devices; naive never overlaps, so its bubble ratio does not fall with m. */
static const char spec[] = "[sweep]\nschedule = 1f1b, gpipe, naive\ndevices = 4\nmicrobatches = 4..16 x2\n"
                           "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\nbandwidth-factor = 0.5, 1\n";

static void fill_results (const char *path, const char *text, guint n)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSweep) sweep = ps_sweep_parse ("spec", text, strlen (text), &error);
  g_autoptr (PsResults) results = ps_results_open (path, PS_RESULTS_WRITE, &error);
  PsSweepRun run = { .n_jobs = 1, .shard = { 0, 1 } };
  PsSweepProgress progress;

  g_assert_no_error (error);
  fine (ps_sweep_run (sweep, results, &run, &progress, &error));
  g_assert_cmpuint (progress.predicted, ==, n);
}

static void fill_costs (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_WRITE, &error);
  const PsRunRecord runs[] = {
    { (char *)"", (char *)"1f1b", (char *)"cpu", (char *)"threads", 4, 1, 8, 5, 96, 100, 1, 2, 0, (char *)"not run",
      (char *)"2026-01-01T00:00:00Z" },
    { (char *)"", (char *)"zb-h1", (char *)"cpu", (char *)"threads", 4, 1, 8, 5, 101, 100, 1, 2, 0, (char *)"bit-equal",
      (char *)"2026-01-02T00:00:00Z" },
    { (char *)"", (char *)"gpipe", (char *)"cpu", (char *)"threads", 4, 1, 8, 5, 0, 100, 0, 2, 0, (char *)"not run",
      (char *)"2026-01-03T00:00:00Z" }, /* without a prediction */
  };

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (runs); i++)
    g_assert_true (ps_costdb_store_run (db, &runs[i], NULL));
}

static void set_up (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  fixture->folder = g_dir_make_tmp ("pipesim-plot-XXXXXX", NULL);
  fixture->results = g_build_filename (fixture->folder, "r.db", NULL);
  fixture->costs = g_build_filename (fixture->folder, "c.db", NULL);
  fill_results (fixture->results, spec, 3 * 3 * 2);
  fill_costs (fixture->costs);
}

static void tear_down (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  remove_folder (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->results);
  g_free (fixture->costs);
}

static char *draw (const Fixture *fixture, const char *arguments)
{
  g_autofree char *line = g_strconcat (arguments, " -o a.svg", NULL), *talk = NULL;
  g_autofree char *path = g_build_filename (fixture->folder, "a.svg", NULL);
  char *svg = NULL;

  if (!have_program ("gnuplot"))
    return NULL;
  g_assert_cmpint (run_program (fixture->folder, "pipesim-plot", line, NULL, NULL, &talk), ==, 0);
  g_assert_cmpstr (talk, ==, "");
  g_assert_true (g_file_get_contents (path, &svg, NULL, NULL));
  return svg;
}

/* Of GPipe and 1F1B without transfers the bubble ratio is (p - 1) / (m + p - 1), of naive (p - 1) / p. */
static void test_values (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const columns[] = { "schedule", "microbatches", "bubble_ratio", NULL };
  char *per[] = { (char *)"schedule", (char *)"microbatches", NULL };
  const PsQuestion question = { .per = per, .by = (char *)"sequence_ns" };
  g_autoptr (PsResults) results = ps_results_open (fixture->results, PS_RESULTS_READ, NULL);
  g_autoptr (PsResultValues) values = ps_results_values (results, &question, columns, NULL);

  g_assert_cmpuint (values->n_columns, ==, 3);
  g_assert_cmpuint (values->n_rows, ==, 9 * 2); /* each bandwidth by itself */
  for (guint i = 0; i < 9; i++) {
    const PsValue *row = &values->values[2 * i * 3];
    gint64 m = 4 << i % 3;

    g_assert_cmpstr (row[0].text, ==, ((const char *[]){ "1f1b", "gpipe", "naive" })[i / 3]);
    g_assert_cmpint (row[1].integer, ==, m);
    g_assert_cmpfloat_with_epsilon (row[2].real, i / 3 == 2 ? 0.75 : 3.0 / (double)(m + 3), 1e-9);
  }
}

static void test_runs (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (fixture->costs, PS_COSTDB_READ, NULL);
  g_autoptr (GPtrArray) runs = ps_costdb_runs (db, NULL);

  g_assert_cmpuint (runs->len, ==, 3);
  const PsRunRecord *run = runs->pdata[1];
  g_assert_cmpstr (run->schedule, ==, "zb-h1");
  g_assert_cmpstr (run->check, ==, "bit-equal");
  g_assert_cmpint (run->predicted_iteration_ns, ==, 101);
  g_assert_cmpint (run->measured_iteration_ns, ==, 100);
  g_assert_cmpint (run->measured_peak_bytes, ==, 2);
  g_assert_cmpuint (run->n_microbatches, ==, 8);
}

static void test_lines (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg
      = draw (fixture, "sweep r.db --x microbatches --y bubble_ratio --series schedule --where bandwidth_factor=1");

  if (svg == NULL)
    return;
  g_assert_nonnull (strstr (svg, "simulated bubble ratio against microbatches, by schedule"));
  g_assert_cmpuint (count (svg, ">1f1b<"), ==, 1);
  g_assert_cmpuint (count (svg, ">gpipe<"), ==, 1);
  g_assert_cmpuint (count (svg, ">naive<"), ==, 1);
  /* Three points each and one in the key for each name, one tick for each m. */
  g_assert_cmpuint (count (svg, ") scale("), ==, 9 + 3);
  g_assert_nonnull (strstr (svg, ">16<"));
}

/* 1F1B looks the same whatever else is drawn: the colour of its place in the catalogue. */
static void test_looks (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char line[]
      = "sweep r.db --x microbatches --y bubble_ratio --series schedule --where bandwidth_factor=1";
  g_autofree char *few = g_strconcat (line, " --where schedule=1f1b", NULL), *all = draw (fixture, line);
  g_autofree char *one = draw (fixture, few), *map = NULL;

  if (all == NULL)
    return;
  map = draw (fixture, "sweep r.db --x bandwidth_factor --y microbatches --heat schedule --where schedule=1f1b");
  g_assert_cmpuint (count (all, "rgb(  0, 158, 115)"), >, 0);
  g_assert_cmpuint (count (one, "rgb(  0, 158, 115)"), >, 0);
  g_assert_cmpuint (count (map, "rgb(  0, 158, 115)"), >, 0);
  g_assert_cmpuint (count (all, "rgb(213,  94,   0)"), >, 0); /* GPipe */
  g_assert_cmpuint (count (one, "rgb(213,  94,   0)"), ==, 0);
}

/* A line for each schedule, bandwidth and number of devices; the picture says so. A map has room for one value. */
static void test_apart (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char two[] = "[sweep]\nschedule = 1f1b, gpipe\ndevices = 2, 4\nmicrobatches = 4, 8\n"
                            "costs = f=1ms,b=1ms,w=1ms,c=1ms\nbandwidth-factor = 0.5, 1\n";
  g_autofree char *path = g_build_filename (fixture->folder, "two.db", NULL), *svg = NULL;

  fill_results (path, two, 2 * 2 * 2 * 2);
  svg = draw (fixture, "sweep two.db --x microbatches --y bubble_ratio --series schedule");
  if (svg == NULL)
    return;
  g_assert_cmpuint (count (svg, ">1f1b, p 2, bandwidth factor 0.5<"), ==, 1);
  g_assert_cmpuint (count (svg, ">gpipe, p 4, bandwidth factor 1<"), ==, 1);
  g_assert_cmpuint (count (svg, ") scale("), ==, 8 * 2 + 8);
  g_assert_cmpuint (count (svg, "held apart: schedule, p, m, bandwidth factor"), ==, 1);
  check_refused (fixture->folder, "pipesim-plot", "sweep two.db --x microbatches --y devices --heat schedule -o a.svg",
                 2, "--heat: bandwidth factor: several values, a map shows one; *");
  check_refused (fixture->folder, "pipesim-plot", "sweep two.db --pareto -o a.svg", 2,
                 "--pareto: p, global batch, bandwidth factor make 8 fronts, a picture shows 6; *");
}

static void test_where (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = draw (
      fixture, "sweep r.db --x microbatches --y iteration_ns --where schedule=gpipe --where bandwidth_factor>0.5 "
               "--log xy");

  if (svg == NULL)
    return;
  g_assert_cmpuint (count (svg, ") scale("), ==, 3);
  g_assert_nonnull (strstr (svg, "iteration time (ms)"));
}

static void test_pareto (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = draw (fixture, "sweep r.db --pareto --where bandwidth_factor=1");

  if (svg == NULL)
    return;
  g_assert_nonnull (strstr (svg, "peak memory (MiB)"));
  g_assert_cmpuint (count (svg, ">4 devices, global batch 16<"), ==, 1);
  /* GPipe, 1F1B and the naive schedule with each batch, and three in the key. */
  g_assert_cmpuint (count (svg, ") scale("), ==, 3 * 3 + 3);
  /* A browser shows what a point is. 16 microbatches of 3 ms on 4 devices: (16 + 3) 3 / 16 ms each. */
  g_assert_cmpuint (count (svg, "<title>1f1b, 4 devices, 16 microbatches: 3.562 ms, 8 MiB</title>"), ==, 1);
  g_assert_cmpuint (count (svg, "onmousemove"), ==, 0);
}

static void test_heat (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = draw (fixture, "sweep r.db --x bandwidth_factor --y microbatches --heat iteration_ns");

  if (svg == NULL)
    return;
  g_assert_nonnull (strstr (svg, "simulated: iteration time of the fastest setting"));
  /* (m + p - 1) * 3 ms in both boxes of m = 4: 21. */
  g_assert_cmpuint (count (svg, ">21<"), ==, 2);
  g_autofree char *words = draw (fixture, "sweep r.db --x bandwidth_factor --y microbatches --heat schedule");
  /* The same time, and 1F1B needs less memory where m > p, as much where m = p; six boxes and the legend. */
  g_assert_cmpuint (count (words, ">1f1b<") + count (words, ">gpipe<"), >=, 7);
  g_assert_cmpuint (count (words, ">naive<"), ==, 0);
}

/* Nine schedules, one for each m: seven have colours of their own, the other two share one. */
static void test_heat_others (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char many[] = "[sweep]\ndevices = 4\ncosts = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\n[zip size]\n"
                             "microbatches = 4, 5, 6, 7, 8, 9, 10, 11, 12\n"
                             "schedule = 1f1b, gpipe, naive, zb-h1, zb-h2, eager-1f1b, zb-auto, interleaved, "
                             "interleaved-zb\n";
  g_autofree char *path = g_build_filename (fixture->folder, "many.db", NULL), *svg = NULL;

  fill_results (path, many, 9);
  svg = draw (fixture, "sweep many.db --x microbatches --y devices --heat schedule");
  if (svg == NULL)
    return;
  g_assert_cmpuint (count (svg, ">2 others<"), ==, 1);
  g_assert_cmpuint (count (svg, ">naive<"), ==, 1 + 1);
  g_assert_cmpuint (count (svg, "fill = 'rgb(221, 221, 221)'"), ==, 2 + 1);
}

/* |96 - 100| / 100 and |101 - 100| / 100: the lower of the two middle ones is 1 %. */
static void test_accuracy (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = draw (fixture, "accuracy c.db");

  if (svg == NULL)
    return;
  g_assert_nonnull (strstr (svg, "predictions against 2 runs: half of them within 1.00 %"));
  g_assert_cmpuint (count (svg, ") scale("), ==, 2 + 2);
  g_assert_null (strstr (svg, "gpipe"));
}

/* Text, without colours where standard output is no terminal, as wide as COLUMNS says. */
static void test_terminal (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *text = NULL, *talk = NULL;
  g_auto (GStrv) lines = NULL, environment = g_get_environ ();

  if (!have_program ("gnuplot"))
    return;
  environment = g_environ_setenv (environment, "COLUMNS", "90", TRUE);
  environment = g_environ_setenv (environment, "LINES", "30", TRUE);
  g_assert_cmpint (
      run_program (fixture->folder, "pipesim-plot", "sweep r.db --pareto --terminal", environment, &text, &talk), ==,
      0);
  g_assert_cmpstr (talk, ==, "");
  g_assert_null (strchr (text, '\x1b'));
  g_assert_nonnull (strstr (text, "simulated time against peak memory"));
  g_assert_nonnull (strstr (text, "  sequence time (")); /* above its axis */
  g_assert_nonnull (strstr (text, "1f1b\n"));
  lines = g_strsplit (text, "\n", -1);
  g_assert_cmpuint (g_strv_length (lines), <=, 31);
  for (guint i = 0; lines[i] != NULL; i++)
    g_assert_cmpuint (g_utf8_strlen (lines[i], -1), <=, 90);
}

static void test_refusals (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const Refusal cases[] = {
    { "sweep r.db -o a.svg", 2, "--x: missing; give --x COLUMN --y COLUMN, or --pareto" },
    { "sweep r.db --x devices -o a.svg", 2, "--y: missing*" },
    { "sweep r.db --x devics --y bubble_ratio -o a.svg", 2, "--x: 'devics' is no column of numbers; there are *" },
    { "sweep r.db --x schedule --y bubble_ratio -o a.svg", 2, "--x: 'schedule' is no column of numbers; *" },
    { "sweep r.db --x devices --y comm -o a.svg", 2, "--y: 'comm' is no column of numbers; *" },
    { "sweep r.db --x devices --y bubble_ratio --series name -o a.svg", 2, "--series: 'name' is no column; *" },
    { "sweep r.db --x devices --y microbatches --heat name -o a.svg", 2, "--heat: 'name' is no column; *" },
    { "sweep r.db --x devices --y bubble_ratio --where devices~4 -o a.svg", 2, "--where: 'devices~4' is not *" },
    { "sweep r.db --x devices --y bubble_ratio --log z -o a.svg", 2, "--log: 'z' is not one of none, x, y, xy" },
    { "sweep r.db --pareto --by schedule -o a.svg", 2, "--by: 'schedule' is no column of numbers; *" },
    { "sweep r.db --pareto --x devices -o a.svg", 2, "--pareto: '--x' does not go with it; *" },
    { "sweep r.db --x devices --y microbatches --heat schedule --series comm -o a.svg", 2,
      "--heat: '--series' does not go with it; *" },
    { "sweep r.db --x devices --y bubble_ratio --where devices=5 -o a.svg", 1, "sweep: no setting is left to draw; *" },
    { "sweep r.db --x memory_limit_bytes --y bubble_ratio -o a.svg", 1, "sweep: no setting is left to draw; *" },
    { "sweep r.db --pareto --where devices=5 -o a.svg", 1, "sweep: no setting is left to draw; *" },
    { "sweep r.db --x devices --y chunks --heat schedule --where devices=5 -o a.svg", 1, "sweep: no setting *" },
    { "sweep r.db c.db --pareto -o a.svg", 2, "sweep: 2 files given; one RESULTS.db of pipesim sweep is wanted" },
    { "sweep r.db --pareto --terminal -o a.svg", 2, "--terminal: 'a.svg' does not go with it; -o writes a file" },
    { "sweep r.db --pareto --terminal --size 300x300", 2, "--terminal: '300x300' does not go with it; *" },
    { "timeline t.json --terminal --transfers", 2, "--terminal: '--transfers' does not go with it; *" },
    { "sweep c.db --pareto -o a.svg", 1, "c.db: *" },
    { "accuracy r.db -o a.svg", 1, "r.db: *" },
    { "accuracy nowhere.db -o a.svg", 1, "nowhere.db: *" },
    { "accuracy c.db --x devices -o a.svg", 2, "--x: belongs to sweep, not to accuracy" },
  };

  check_refusals (fixture->folder, "pipesim-plot", cases, G_N_ELEMENTS (cases));
}

static void test_no_runs (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_remove (fixture->costs);
  {
    g_autoptr (PsCostDb) db = ps_costdb_open (fixture->costs, PS_COSTDB_WRITE, NULL);

    g_assert_nonnull (db);
  }
  check_refused (fixture->folder, "pipesim-plot", "accuracy c.db -o a.svg", 1,
                 "c.db: holds no real run with its prediction; *");
}

#define ADD(path, function) g_test_add (path, Fixture, NULL, set_up, function, tear_down)

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/plot-sweep/values", test_values);
  ADD ("/plot-sweep/runs", test_runs);
  ADD ("/plot-sweep/lines", test_lines);
  ADD ("/plot-sweep/looks", test_looks);
  ADD ("/plot-sweep/apart", test_apart);
  ADD ("/plot-sweep/where", test_where);
  ADD ("/plot-sweep/pareto", test_pareto);
  ADD ("/plot-sweep/heat", test_heat);
  ADD ("/plot-sweep/heat-others", test_heat_others);
  ADD ("/plot-sweep/accuracy", test_accuracy);
  ADD ("/plot-sweep/terminal", test_terminal);
  ADD ("/plot-sweep/refusals", test_refusals);
  ADD ("/plot-sweep/no-runs", test_no_runs);
  return g_test_run ();
}

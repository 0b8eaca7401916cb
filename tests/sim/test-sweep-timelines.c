/* Tests of sweep.h: that a sweep comes back from its database, and its timelines with it. */
#include "program-rig.h"
#include "plan/sweep-private.h"

#include <pipesim/sweep.h>

static const char spec[] = "[sweep]\nschedule = 1f1b, gpipe, zb-v\ndevices = 2, 4\n"
                           "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB; f=2ms,b=1ms,w=1ms # two of them\n"
                           "[zip size]\nmicrobatches = 4..16 x2\nbandwidth-factor = 1, 0.5, 2\n"
                           "[zip more]\nsync = global, bypass\neager = 0, 1KiB\n";

static PsSweep *parse (const char *text)
{
  return fine (ps_sweep_parse ("spec", text, strlen (text), &error));
}

static PsResults *open_results (const char *name)
{
  g_autofree char *path = path_of (name);

  return ps_results_open (path, PS_RESULTS_WRITE, NULL);
}

static PsResults *run (const char *name, const PsSweep *sweep)
{
  PsResults *results = open_results (name);
  PsSweepRun run = { .n_jobs = 1, .shard = { 0, 1 } };
  PsSweepProgress progress;

  g_assert_true (ps_sweep_run (sweep, results, &run, &progress, NULL));
  return results;
}

static void test_sweep (void)
{
  g_autoptr (PsSweep) sweep = parse (spec), back = NULL;
  g_autoptr (PsResults) results = run ("sweep.db", sweep);

  back = fine (ps_sweep_from_results (results, &error));
  g_assert_cmpstr (back->text, ==, sweep->text);
  g_assert_cmpstr (back->digest, ==, sweep->digest);
  g_assert_cmpuint (ps_sweep_n_points (back), ==, 3 * 2 * 2 * 3 * 2);
  for (guint64 i = 0; i < ps_sweep_n_points (back); i++) {
    char was[PS_DIGEST_LENGTH + 1], is[PS_DIGEST_LENGTH + 1];

    ps_sweep_point_digest (sweep, i, was);
    ps_sweep_point_digest (back, i, is);
    g_assert_cmpstr (is, ==, was);
  }
}

/* The settings that ps_results_values calls the fastest, one after the other. */
static void test_timelines (void)
{
  static const char *const columns[] = { "schedule", "devices", "microbatches", "iteration_ns", NULL };
  char *per[] = { (char *)"schedule", (char *)"devices", NULL }, *where[] = { (char *)"sync=global", NULL };
  const PsQuestion question = { .per = per, .where = where, .by = (char *)"sequence_ns" };
  g_autoptr (PsSweep) sweep = parse (spec);
  g_autoptr (PsResults) results = run ("timelines.db", sweep);
  g_autoptr (PsResultValues) values = ps_results_values (results, &question, columns, NULL);
  guint n_left;
  g_autoptr (GPtrArray) timelines = fine (ps_results_timelines (results, &question, G_MAXUINT, &n_left, &error));

  g_assert_cmpuint (n_left, ==, 0);
  g_assert_cmpuint (timelines->len, ==, 6 * 2 * 3); /* costs and batches are circumstances */
  g_assert_cmpuint (values->n_rows, ==, 6 * 2 * 3);
  for (guint i = 0; i < timelines->len; i++) {
    const PsTimeline *timeline = timelines->pdata[i];
    const PsValue *row = &values->values[i * values->n_columns];

    g_assert_cmpint (timeline->origin, ==, PS_ORIGIN_SIMULATED);
    g_assert_cmpstr (timeline->schedule, ==, row[0].text);
    g_assert_cmpuint (timeline->n_devices, ==, row[1].integer);
    g_assert_cmpuint (timeline->n_microbatches, ==, row[2].integer);
    g_assert_cmpint (timeline->iteration_ns, ==, row[3].integer);
  }
}

/* 16 sequences in microbatches of 2 on 2 replicas are 4 microbatches. */
static void test_global_batch (void)
{
  char *per[] = { (char *)"devices", NULL };
  const PsQuestion question = { .per = per, .by = (char *)"sequence_ns" };
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = 1f1b\ndevices = 2, 4, 8\nmodel = gpt-1.5b\ncluster = h100-80gb\n"
               "microbatch-size = 2\nreplicas = 2\nglobal-batch = 16\n");
  g_autoptr (PsResults) results = run ("batch.db", sweep);
  guint n_left;
  g_autoptr (GPtrArray) timelines = fine (ps_results_timelines (results, &question, G_MAXUINT, &n_left, &error));

  g_assert_cmpuint (timelines->len, ==, 3);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpuint (((const PsTimeline *)timelines->pdata[i])->n_microbatches, ==, 4);
}

/* As many as fit: 1F1B on p devices has p * 8 * 2 ops, so 2 and 4 devices have 96. */
static void test_left (void)
{
  char *per[] = { (char *)"devices", NULL };
  const PsQuestion question = { .per = per, .by = (char *)"sequence_ns" };
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = 1f1b\ndevices = 2, 4, 8, 16\nmicrobatches = 8\ncosts = f=1ms,b=1ms,w=1ms\n");
  g_autoptr (PsResults) results = run ("left.db", sweep);
  g_autoptr (GPtrArray) some = NULL, fewer = NULL;
  guint n_left;

  some = ps_results_timelines (results, &question, 96, &n_left, NULL);
  g_assert_cmpuint (some->len, ==, 2);
  g_assert_cmpuint (n_left, ==, 2);
  fewer = ps_results_timelines (results, &question, 95, &n_left, NULL);
  g_assert_cmpuint (fewer->len, ==, 1);
  g_assert_cmpuint (n_left, ==, 3);
}

/* A database whose rows are of other costs than it says. */
static void test_wrong_rows (void)
{
  const PsQuestion question = { .by = (char *)"sequence_ns" };
  const char said[] = "[sweep]\nschedule = 1f1b\ndevices = 2\nmicrobatches = 8\ncosts = f=1ms,b=1ms,w=1ms\n",
             real[] = "[sweep]\nschedule = 1f1b\ndevices = 2\nmicrobatches = 8\ncosts = f=2ms,b=1ms,w=1ms\n";
  g_autoptr (PsSweep) sweep = parse (said), other = parse (real);
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (other);
  g_autoptr (PsResult) row = ps_sweep_worker_predict (worker, 0, NULL);
  g_autoptr (PsResults) results = open_results ("wrong.db");
  g_autoptr (GError) error = NULL;
  guint n_left;

  g_assert_true (ps_results_begin (results, sweep->digest, sweep->text, 1, NULL));
  g_assert_true (ps_results_store (results, &row, 1, NULL));
  g_assert_null (ps_results_timelines (results, &question, G_MAXUINT, &n_left, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  /* (8 + 2 - 1) times 3 and 4 ms. */
  g_assert_true (g_str_has_suffix (error->message,
                                   "setting 0 takes 27000000 ns when simulated again, the database says 36000000"));
}

static void test_refusals (void)
{
  char *per[] = { (char *)"colour", NULL };
  const PsQuestion question = { .per = per, .by = (char *)"sequence_ns" }, sound = { .by = (char *)"sequence_ns" };
  g_autoptr (PsSweep) sweep
      = parse ("[sweep]\nschedule = 1f1b\ndevices = 2\nmicrobatches = 8\ncosts = f=1ms,b=1ms,w=1ms\n");
  g_autoptr (PsResults) results = run ("refusals.db", sweep), empty = open_results ("empty.db");
  g_autoptr (PsResults) foreign = open_results ("foreign.db");
  g_autoptr (GError) column = NULL, none = NULL, digest = NULL;
  guint n_left;

  g_assert_null (ps_results_timelines (results, &question, G_MAXUINT, &n_left, &column));
  g_assert_error (column, PS_ERROR, PS_ERROR_USAGE);
  g_assert_null (ps_results_timelines (empty, &sound, G_MAXUINT, &n_left, &none));
  assert_error (&none, PS_ERROR_INPUT, "*empty.db: holds no sweep yet");
  g_assert_true (ps_results_begin (foreign, "0123456789", sweep->text, 1, NULL));
  g_assert_null (ps_sweep_from_results (foreign, &digest));
  assert_error (&digest, PS_ERROR_INPUT, "*files that its spec names have changed since (digest 01234567 then, *");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sweep-timelines/sweep", test_sweep);
  g_test_add_func ("/sweep-timelines/timelines", test_timelines);
  g_test_add_func ("/sweep-timelines/global-batch", test_global_batch);
  g_test_add_func ("/sweep-timelines/left", test_left);
  g_test_add_func ("/sweep-timelines/wrong-rows", test_wrong_rows);
  g_test_add_func ("/sweep-timelines/refusals", test_refusals);
  return run_in_folder ();
}

/* Tests of answer.h: samples held against a simulation of their own, statistics by known tables. */
#include "answer/draws.h"
#include "lower.h"
#include "random-schedule.h"

#include <pipesim/answer.h>

#include <math.h>
#include <string.h>

static gint64 *sample (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty, guint n,
                       guint64 seed, guint n_jobs)
{
  PsSampling sampling = { .n_samples = n, .seed = seed, .n_jobs = n_jobs };

  return fine (ps_uncertainty_sample (program, costs, uncertainty, &sampling, &error));
}

/* Draws op by op as the header says and simulates by the relaxation engine. */
static gint64 expected_iteration (const PsProgram *program, const PsCosts *costs, const PsJitter *jitter, guint64 seed,
                                  guint index, PsReduce reduce)
{
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_autofree gint64 *times = g_new0 (gint64, 2 * (gsize)program->n_steps);

  for (guint i = 0; i < program->n_steps; i++)
    for (guint stream = 0; stream < 2; stream++) {
      PsOp op = program->schedule->ops[program->op_of[i]];
      guint kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;
      guint32 words[PS_DRAW_LANES];
      gint64 base = stream == 0 ? ps_step_duration (program, costs, i) : costs->transfer_ns[program->steps[i].transfer];

      ps_draw (seed, index - index % PS_DRAW_LANES,
               (PsPurpose){ op.microbatch, op.stage | (guint)op.slice << 16 | kind << 24, stream }, words);
      times[stream * program->n_steps + i]
          = (gint64)((double)base * ps_jitter_factor (jitter, words[index % PS_DRAW_LANES]) + 0.5);
    }
  ps_simulate_steps (program, costs, times, times + program->n_steps, simulation);
  return ps_iteration (program, costs, simulation, PS_SYNC_GLOBAL, reduce).period_ns;
}

static PsCosts *some_costs (guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++)
    costs->op[i].duration_ns = 1000000 + 1000 * (i % 7);
  for (guint i = 1; i <= 2 * n_stages; i++)
    costs->transfer_ns[i] = 300000 + 100 * i;
  return costs;
}

static void test_samples (void)
{
  g_autoptr (PsJitter) jitter = ps_jitter_new (0.1);
  PsUncertainty uncertainty = { .jitter = 0.1 };
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < 2 * n; i++) {
    g_autoptr (PsProgram) program = lower_family (families[i / 2]->name, i % 2 ? 4 : 2, i % 2 ? 8 : 22, 0);
    g_autoptr (PsCosts) costs = some_costs (program->schedule->placement->n_stages);

    if (program->schedule->asynchronous)
      continue; /* see test-steady.c */
    g_autofree gint64 *samples = sample (program, costs, &uncertainty, 300, 5, 1);
    for (guint k = 0; k < 300; k += 23)
      g_assert_cmpint (samples[k], ==, expected_iteration (program, costs, jitter, 5, k, PS_REDUCE_OVERLAPPED));
  }
}

/* All-reduces of up to half an iteration, so that no device is always the last; by both engines. */
static void check_reductions (const PsProgram *program, const PsCosts *costs, PsReduce reduce)
{
  g_autoptr (PsJitter) jitter = ps_jitter_new (0.1);
  const PsUncertainty uncertainty = { .jitter = 0.1 };
  const PsEventsSetting latency = { .comm = PS_CHANNEL_LATENCY };
  PsSampling sampling = { .n_samples = 300, .seed = 5, .n_jobs = 1, .reduce = reduce };
  g_autofree gint64 *samples = ps_uncertainty_sample (program, costs, &uncertainty, &sampling, NULL);

  sampling.events = &latency;
  g_autofree gint64 *events = ps_uncertainty_sample (program, costs, &uncertainty, &sampling, NULL);
  g_assert_cmpmem (samples, 300 * sizeof *samples, events, 300 * sizeof *events);
  for (guint k = 0; k < 300; k += 23)
    g_assert_cmpint (samples[k], ==, expected_iteration (program, costs, jitter, 5, k, reduce));
}

static void test_reductions (void)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < 2 * n; i++) {
    g_autoptr (PsProgram) program = lower_family (families[i / 2]->name, 4, 8, 0);
    g_autoptr (PsCosts) costs = some_costs (program->schedule->placement->n_stages);

    for (guint stage = 0; stage < costs->n_stages; stage++)
      costs->stage[stage].reduce_ns = costs->stage[stage].reduce2_ns = 3000000 * (gint64)stage;
    if (!program->schedule->asynchronous)
      check_reductions (program, costs, i % 2 ? PS_REDUCE_EXPOSED : PS_REDUCE_OVERLAPPED);
  }
}

/* The same on any number of threads; more samples go on where fewer ended; another seed gives others. */
static void test_repeatable (void)
{
  g_autoptr (PsProgram) program = lower_family ("zb-h1", 4, 8, 0);
  g_autoptr (PsCosts) costs = some_costs (4);
  const PsSlowness slowness[] = { { .a = 1, .factor = 1.5, .probability = 0.3 } };
  PsUncertainty uncertainty = { .jitter = 0.05, .slowness = slowness, .n_slowness = 1 };
  g_autofree gint64 *one = sample (program, costs, &uncertainty, 3000, 7, 1);
  g_autofree gint64 *four = sample (program, costs, &uncertainty, 3000, 7, 4);
  g_autofree gint64 *many = sample (program, costs, &uncertainty, 3000, 7, 100);
  g_autofree gint64 *fewer = sample (program, costs, &uncertainty, 777, 7, 2);
  g_autofree gint64 *other = sample (program, costs, &uncertainty, 3000, 8, 1);

  g_assert_cmpmem (one, 3000 * sizeof *one, four, 3000 * sizeof *four);
  g_assert_cmpmem (one, 3000 * sizeof *one, many, 3000 * sizeof *many);
  g_assert_cmpmem (one, 777 * sizeof *one, fewer, 777 * sizeof *fewer);
  g_assert_cmpint (memcmp (one, other, 3000 * sizeof *one), !=, 0);
}

/* Nothing varies: every sample is the prediction. */
static void test_certain (void)
{
  g_autoptr (PsProgram) program = lower_family ("dualpipe", 4, 8, 0);
  g_autoptr (PsCosts) costs = some_costs (4);
  PsUncertainty uncertainty = { 0 };
  g_autoptr (PsSimulation) simulation = simulated (program, costs);
  g_autofree gint64 *samples = sample (program, costs, &uncertainty, 40, 1, 2);

  for (guint i = 0; i < 40; i++)
    g_assert_cmpint (samples[i], ==, simulation->makespan_ns + simulation->optimizer_ns);
}

/* gpipe, p = 2, m = 2, f = bw = 1, c = 1 (ms): F0.0 0-1, F1.0 0 -> 1 arrives 2; F0.1 2-3, F1.1 3-4; BW1.1 or BW0.1 ...
 * the last F of stage 1 ends at 4, its two BW at 6, the gradient of the last is there at 7, its BW ends at 8. Device 1
 * twice as slow: F 2-4, 4-6, BW 6-8, 8-10, + 1 + 1 = 12. Link 0-1 three times as slow: F 4-5, 5-6, BW 6-7, 7-8, + 3 + 1
 * =
 * 12. Both: F 4-6, 6-8, BW 8-10, 10-12, + 3 + 1 = 16. A link that is not used slows nothing. */
static void test_slowness (void)
{
  g_autoptr (PsProgram) program = lower_family ("gpipe", 2, 2, 0);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,bw=1ms,c=1ms", 2, 1, NULL);
  const PsSlowness slowness[] = { { .a = 1, .factor = 2, .probability = 1 },
                                  { .link = TRUE, .a = 1, .b = 0, .factor = 3, .probability = 1 },
                                  { .a = 1, .factor = 2, .probability = 0.25 } };
  static const gint64 expected_ms[] = { 12, 12, 16 };

  for (guint i = 0; i < 3; i++) {
    PsUncertainty uncertainty = { .slowness = &slowness[i == 1], .n_slowness = i == 2 ? 2 : 1 };
    g_autofree gint64 *samples = sample (program, costs, &uncertainty, 3, 1, 1);

    g_assert_cmpint (samples[0], ==, expected_ms[i] * 1000000);
    g_assert_cmpint (samples[2], ==, expected_ms[i] * 1000000);
  }
  /* 12 ms in about a quarter of 10000 samples, standard deviation 43, and 8 ms in the rest. */
  PsUncertainty sometimes = { .slowness = &slowness[2], .n_slowness = 1 };
  g_autofree gint64 *samples = sample (program, costs, &sometimes, 10000, 1, 1);
  guint slow = 0;
  for (guint i = 0; i < 10000; i++) {
    g_assert_true (samples[i] == 8000000 || samples[i] == 12000000);
    slow += samples[i] == 12000000;
  }
  g_assert_cmpuint (slow, >, 2500 - 5 * 43);
  g_assert_cmpuint (slow, <, 2500 + 5 * 43);
}

static void test_slowness_parse (void)
{
  static const char *const wrong[] = { "",      "1",       "1:",   ":2",    "1:2:3:4", "1:0",  "1:-2", "1:nan",
                                       "1:1e9", "1:2:1.5", "-1:2", "1:0x2", "4096:2",  "1:2x", "0-1:2" };
  static const char *const wrong_links[] = { "1:2", "0-1-2:2", "0-:2", "0-x:2", "0-1", "0-1:2:-1" };
  PsSlowness slowness;

  g_assert_true (ps_slowness_parse ("--straggler", "3:1.5", FALSE, &slowness, NULL));
  g_assert_cmpuint (slowness.a, ==, 3);
  g_assert_cmpfloat (slowness.factor, ==, 1.5);
  g_assert_cmpfloat (slowness.probability, ==, 1);
  g_assert_true (ps_slowness_parse ("--slow-link", "2-3:10:0.25", TRUE, &slowness, NULL));
  g_assert_cmpuint (slowness.a, ==, 2);
  g_assert_cmpuint (slowness.b, ==, 3);
  g_assert_cmpfloat (slowness.probability, ==, 0.25);
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++) {
    refused (ps_slowness_parse ("--straggler", wrong[i], FALSE, &slowness, &error), PS_ERROR_USAGE, "--straggler: *");
  }
  for (guint i = 0; i < G_N_ELEMENTS (wrong_links); i++)
    g_assert_false (ps_slowness_parse ("--slow-link", wrong_links[i], TRUE, &slowness, NULL));
}

static void test_slowness_check (void)
{
  const PsSlowness device = { .a = 4, .factor = 2, .probability = 1 },
                   self = { .link = TRUE, .a = 1, .b = 1, .factor = 2, .probability = 1 };
  g_autoptr (GError) error = NULL, other = NULL;

  g_assert_true (ps_uncertainty_check (&(PsUncertainty){ .slowness = &device, .n_slowness = 1 }, 5, &error));
  g_assert_false (ps_uncertainty_check (&(PsUncertainty){ .slowness = &device, .n_slowness = 1 }, 4, &error));
  g_assert_cmpstr (error->message, ==, "--straggler: there is no device 4; they are 0 to 3");
  g_assert_false (ps_uncertainty_check (&(PsUncertainty){ .slowness = &self, .n_slowness = 1 }, 4, &other));
  g_assert_error (other, PS_ERROR, PS_ERROR_USAGE);
}

/* F takes 1 or 3 times its median, BW is not known to vary: one device, one microbatch, f = 1, bw = 2 (ms): 3 or 5 ms,
 * half of the time each. */
static void test_measured (void)
{
  static const double factors[] = { 1, 3 };
  g_autoptr (PsProgram) program = lower_family ("gpipe", 1, 1, 0);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,bw=2ms", 1, 1, NULL);
  g_autoptr (GArray) samples_of_f = g_array_new (FALSE, FALSE, sizeof (double));
  GArray *op[PS_N_OP_KINDS] = { samples_of_f };
  PsCostSpread spread = { .n_stages = 1, .op = op, .largest = 3 };
  PsUncertainty uncertainty = { .measured = &spread };

  g_array_append_vals (samples_of_f, factors, 2);
  g_autofree gint64 *samples = sample (program, costs, &uncertainty, 10000, 3, 1);
  guint slow = 0;
  for (guint i = 0; i < 10000; i++) {
    g_assert_true (samples[i] == 3000000 || samples[i] == 5000000);
    slow += samples[i] == 5000000;
  }
  g_assert_cmpuint (slow, >, 5000 - 250);
  g_assert_cmpuint (slow, <, 5000 + 250);
}

/* Without channels both engines give the same samples, on any number of threads. */
static void test_events (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsProgram) program = lower_family ("interleaved", 4, 8, 0);
  g_autoptr (PsCosts) costs = some_costs (8);
  PsUncertainty uncertainty = { .jitter = 0.1 };
  PsEventsSetting latency = { .comm = PS_CHANNEL_LATENCY }, rank = { .comm = PS_CHANNEL_RANK };
  PsSampling sampling = { .n_samples = 600, .seed = 4, .n_jobs = 2, .events = &latency };
  g_autofree gint64 *expected = sample (program, costs, &uncertainty, 600, 4, 1);
  g_autofree gint64 *events = ps_uncertainty_sample (program, costs, &uncertainty, &sampling, &error);

  g_assert_no_error (error);
  g_assert_cmpmem (events, 600 * sizeof *events, expected, 600 * sizeof *expected);
  sampling.events = &rank;
  g_autofree gint64 *queued = ps_uncertainty_sample (program, costs, &uncertainty, &sampling, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 600; i++)
    g_assert_cmpint (queued[i], >=, expected[i]);
}

/* Durations that could leave the integers are refused. */
static void test_overflow (void)
{
  g_autoptr (PsProgram) program = lower_family ("gpipe", 2, 8, 0);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1000000s,bw=1000000s", 2, 1, NULL);
  const PsSlowness slowness[] = { { .a = 0, .factor = 1000, .probability = 1 } };
  PsUncertainty uncertainty = { .jitter = 1, .slowness = slowness, .n_slowness = 1 };
  PsSampling sampling = { .n_samples = 10, .n_jobs = 1 };

  refused (ps_uncertainty_sample (program, costs, &uncertainty, &sampling, &error), PS_ERROR_USAGE,
           "gpipe: all ops together take up to *");
}

/* Tables of distribution-free intervals of the median at 95 %: n = 10 has the 2nd and the 9th, n = 100 the 40th and the
 * 61st sample. Five samples are too few: the extremes. */
static void test_quantiles (void)
{
  gint64 values[100];

  for (guint i = 0; i < 100; i++)
    values[i] = i + 1;
  PsQuantile ten = ps_quantile (values, 10, 0.5), hundred = ps_quantile (values, 100, 0.5),
             five = ps_quantile (values, 5, 0.5), p99 = ps_quantile (values, 100, 0.99),
             p90 = ps_quantile (values, 100, 0.9), one = ps_quantile (values, 1, 0.5);
  g_assert_cmpint (ten.value_ns, ==, 5);
  g_assert_cmpint (ten.low_ns, ==, 2);
  g_assert_cmpint (ten.high_ns, ==, 9);
  g_assert_cmpint (hundred.value_ns, ==, 50);
  g_assert_cmpint (hundred.low_ns, ==, 40);
  g_assert_cmpint (hundred.high_ns, ==, 61);
  g_assert_cmpint (five.low_ns, ==, 1);
  g_assert_cmpint (five.high_ns, ==, 5);
  g_assert_cmpint (p99.value_ns, ==, 99);
  g_assert_cmpint (p99.high_ns, ==, 100);
  g_assert_cmpint (p90.value_ns, ==, 90);
  g_assert_cmpint (one.value_ns, ==, 1);
  g_assert_cmpint (one.high_ns, ==, 1);
}

/* The interval of the 90 % quantile of 500 uniform numbers holds it in at least 95 % of 2000 trials (less 4 standard
 * deviations of that count, 10). */
static void test_coverage (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (31);
  guint held = 0;

  for (guint trial = 0; trial < 2000; trial++) {
    g_autofree gint64 *values = g_new (gint64, 500);

    for (guint i = 0; i < 500; i++)
      values[i] = g_rand_int_range (rand, 0, 1000000000);
    PsDistribution distribution;
    ps_distribution_init (&distribution, values, 500, FALSE);
    held += distribution.p90.low_ns <= 900000000 && distribution.p90.high_ns >= 900000000;
  }
  g_assert_cmpuint (held, >=, 1900 - 4 * 10);
  g_assert_cmpuint (held, <, 1970);
}

/* 2, 4, 4, 4, 5, 5, 7, 9: mean 5, squared deviations add up to 32: sqrt (32 / 7). */
static void test_distribution (void)
{
  const gint64 values[] = { 9, 2, 4, 5, 4, 7, 5, 4 }, others[] = { 10, 2, 3, 6, 5, 8, 5, 4 };
  PsDistribution distribution;

  ps_distribution_init (&distribution, values, 8, FALSE);
  g_assert_cmpfloat_with_epsilon (distribution.mean_ns, 5, 1e-12);
  g_assert_cmpfloat_with_epsilon (distribution.deviation_ns, sqrt (32.0 / 7), 1e-12);
  g_assert_cmpint (distribution.p50.value_ns, ==, 4);
  g_assert_cmpint (distribution.p99.value_ns, ==, 9);
  g_assert_cmpfloat (ps_win_probability (values, others, 8), ==, 4 / 8.0);
  g_assert_cmpfloat (ps_win_probability (others, values, 8), ==, 1 / 8.0);
  g_assert_cmpfloat (ps_win_probability (values, values, 8), ==, 0);
}

/* 4e9 s is the most that ops, transfers and optimizer steps may take together, each at its longest. GPipe on 2 devices
 * has 4 m ops, here of 1e6 s each. */
static void test_sum_limit (void)
{
  static const struct {
    guint m;
    gint64 transfer_s, optimizer_s;
    double factor; /* of device 0 */
    gboolean fits;
    double jitter;
  } rows[] = {
    { 999, 0, 0, 1, TRUE, 0 },
    { 1000, 0, 0, 1, FALSE, 0 },
    { 999, 0, 1990000, 1, TRUE, 0 },
    { 999, 0, 2000000, 1, FALSE, 0 }, /* of each device: 3.996e9 + 2 * 2e6 */
    { 999, 1990, 0, 1, TRUE, 0 },
    { 999, 2100, 0, 1, FALSE, 0 }, /* 2 m transfers */
    { 499, 0, 0, 2, TRUE, 0 },
    { 500, 0, 0, 2, FALSE, 0 }, /* as if all devices were slow */
    { 999, 0, 0, 0.5, TRUE, 0 },
    { 1000, 0, 0, 0.5, FALSE, 0 },
    /* The rarest of 2^32 values is 6.2 deviations from the middle: exp (0.0998 * 6.2 - 0.005) = 1.85. */
    { 530, 0, 0, 1, TRUE, 0.1 },
    { 550, 0, 0, 1, FALSE, 0.1 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const PsFamilySetting family = { .n_devices = 2, .n_microbatches = rows[i].m, .n_chunks = 1 };
    const PsSlowness slow = { .a = 0, .factor = rows[i].factor, .probability = 0.5 };
    const PsUncertainty uncertainty = { .jitter = rows[i].jitter, .slowness = &slow, .n_slowness = 1 };
    const PsSampling sampling = { .n_samples = 1, .seed = 1, .n_jobs = 1 };
    g_autoptr (PsProgram) program = lower (ps_family_generate (ps_family_find ("gpipe"), &family, NULL));
    g_autoptr (PsCosts) costs = ps_costs_new (2);
    g_autoptr (GError) error = NULL;

    for (guint k = 0; k < PS_N_OP_KINDS * 2; k++)
      costs->op[k].duration_ns = PS_MAX_TIME_NS;
    for (guint s = 0; s < 2; s++)
      ps_costs_op (costs, PS_OP_O, s)->duration_ns = rows[i].optimizer_s * 1000000000;
    for (guint k = 1; k <= 4; k++)
      costs->transfer_ns[k] = rows[i].transfer_s * 1000000000;
    g_autofree gint64 *ns = ps_uncertainty_sample (program, costs, &uncertainty, &sampling, &error);
    g_test_message ("row %u: %s", i, error != NULL ? error->message : "fits");
    g_assert_true ((ns != NULL) == rows[i].fits);
    if (!rows[i].fits)
      g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/uncertainty/samples", test_samples);
  g_test_add_func ("/uncertainty/reductions", test_reductions);
  g_test_add_func ("/uncertainty/repeatable", test_repeatable);
  g_test_add_func ("/uncertainty/certain", test_certain);
  g_test_add_func ("/uncertainty/slowness", test_slowness);
  g_test_add_func ("/uncertainty/slowness-parse", test_slowness_parse);
  g_test_add_func ("/uncertainty/slowness-check", test_slowness_check);
  g_test_add_func ("/uncertainty/measured", test_measured);
  g_test_add_func ("/uncertainty/events", test_events);
  g_test_add_func ("/uncertainty/overflow", test_overflow);
  g_test_add_func ("/uncertainty/quantiles", test_quantiles);
  g_test_add_func ("/uncertainty/coverage", test_coverage);
  g_test_add_func ("/uncertainty/distribution", test_distribution);
  g_test_add_func ("/uncertainty/sum-limit", test_sum_limit);
  return g_test_run ();
}

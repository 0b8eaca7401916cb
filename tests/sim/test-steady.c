/* Tests of answer.h where devices never meet: iteration times held against evaluators of another kind, op by op at
 * the same draws, and against what theory says of their mean. */
#include "answer/draws.h"
#include "lower.h"
#include "queued-rig.h"
#include "random-costs.h"
#include "random-schedule.h"

#include <pipesim/answer.h>

#define SETTLE 256
#define WARM_UP 16
#define BLOCK (PS_STEADY_RUNS * PS_STEADY_ITERATIONS)

static gint64 *sample (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty, guint n,
                       const PsEventsSetting *events)
{
  PsSampling sampling = { .n_samples = n, .seed = 5, .n_jobs = 1, .events = events, .sync = PS_SYNC_BYPASS };

  return fine (ps_uncertainty_sample (program, costs, uncertainty, &sampling, &error));
}

/* One word of a lane as the header says: of the sample, or of so many iterations before it. */
static guint32 draw (guint index, guint before, PsPurpose purpose)
{
  guint32 words[PS_DRAW_LANES];

  purpose.stream += 3 * before;
  ps_draw (5, index - index % PS_DRAW_LANES, purpose, words);
  return words[index % PS_DRAW_LANES];
}

static double factor (const PsJitter *jitter, guint32 word)
{
  return jitter != NULL ? ps_jitter_factor (jitter, word) : 1;
}

/* Times of one iteration of one run, [2 n_steps]: of ops, then of messages. Device 1 is twice as slow with probability
 * 0.25 where `slow`. */
typedef struct {
  const PsProgram *program;
  const PsCosts *costs;
  const PsJitter *jitter; /* NULL: none */
  gboolean slow;
  gint64 *times;
} Times;

static const PsSlowness sometimes = { .a = 1, .factor = 2, .probability = 0.25 };

static void draw_times (const Times *times, Queued *run, guint index, guint before)
{
  const PsProgram *program = times->program;
  gboolean slow = times->slow && draw (index, before, (PsPurpose){ 0, 0, 2 }) < 1U << 30;

  run->slowness[1] = slow ? 2 : 1;
  for (guint i = 0; i < program->n_steps; i++) {
    PsOp op = program->schedule->ops[program->op_of[i]];
    guint kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind, b = op.stage | (guint)op.slice << 16 | kind << 24;
    double duration = (double)ps_step_duration (program, times->costs, i);
    double transfer = (double)times->costs->transfer_ns[program->steps[i].transfer];

    if (slow && program->steps[i].device == 1)
      duration *= 2;
    duration *= factor (times->jitter, draw (index, before, (PsPurpose){ op.microbatch, b, 0 }));
    transfer *= factor (times->jitter, draw (index, before, (PsPurpose){ op.microbatch, b, 1 }));
    times->times[i] = (gint64)(duration + 0.5);
    times->times[program->n_steps + i] = (gint64)(transfer + 0.5);
  }
}

/* 1 + 0.25 (2 - 1) times as slow on average. */
static void mean_times (const Times *times, Queued *run)
{
  const PsProgram *program = times->program;

  run->slowness[1] = times->slow ? 1.25 : 1;
  for (guint i = 0; i < program->n_steps; i++) {
    double mean = times->slow && program->steps[i].device == 1 ? 1.25 : 1;

    times->times[i] = (gint64)((double)ps_step_duration (program, times->costs, i) * mean + 0.5);
    times->times[program->n_steps + i] = times->costs->transfer_ns[program->steps[i].transfer];
  }
}

static gint64 last_ready (const Queued *run)
{
  gint64 last = 0;

  for (guint device = 0; device < run->program->schedule->placement->n_devices; device++)
    last = MAX (last, run->ready[device]);
  return last;
}

/* What iterations at mean times are shorter than their mean, by those that came before: SETTLE of them, and then
 * n_after before the first; 0 without a cycle of up to 64. */
static void find_missing (const gint64 *before_ns, guint n_after, gint64 missing_ns[PS_STEADY_ITERATIONS])
{
  const gint64 *last = &before_ns[SETTLE - 128];
  gint64 total = 0;
  guint n = 1;

  while (n <= 64 && memcmp (last, last - n, 128 * sizeof *last) != 0)
    n++;
  for (guint i = 0; i < n; i++)
    total += before_ns[SETTLE - n + i];
  for (guint i = 0; i < PS_STEADY_ITERATIONS; i++)
    missing_ns[i] = n <= 64 ? (2 * total + n) / (2 * (gint64)n) - before_ns[SETTLE - n + (n_after + i) % n] : 0;
}

/* All samples of the run that `index`, one of a first iteration, begins, after so many iterations at mean times and at
 * times of their own. */
static void check_run (const Times *times, const PsEventsSetting *setting, guint n_settle, guint n_warm_up,
                       const gint64 *samples, guint index)
{
  PsEventsSetting own = *setting;
  gint64 settling[SETTLE], missing[PS_STEADY_ITERATIONS] = { 0 };
  g_auto (Queued) run = { 0 };

  own.duration_ns = times->times;
  own.transfer_ns = times->times + times->program->n_steps;
  queued_init (&run, times->program, times->costs, &own);
  mean_times (times, &run);
  for (guint i = 0; i < n_settle; i++) {
    gint64 begin = last_ready (&run);

    queued_iterate (&run);
    settling[i] = last_ready (&run) - begin;
  }
  if (n_settle > 0)
    find_missing (settling, n_warm_up, missing);
  for (guint before = n_warm_up; before > 0; before--) {
    draw_times (times, &run, index, before);
    queued_iterate (&run);
  }
  for (guint i = 0; i < PS_STEADY_ITERATIONS; i++) {
    gint64 begin = last_ready (&run);

    draw_times (times, &run, index + i * PS_STEADY_RUNS, 0);
    queued_iterate (&run);
    g_assert_cmpint (samples[index + i * PS_STEADY_RUNS], ==, last_ready (&run) - begin + missing[i]);
  }
}

static gboolean check_random (GRand *rand, gboolean pairs)
{
  g_autoptr (PsProgram) program = lower (random_schedule (rand, pairs));
  g_autoptr (PsCosts) costs
      = random_times (rand, program->schedule->placement->n_stages, 1, g_rand_boolean (rand) ? 8 : 1000);

  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    costs->message_bytes[i] = g_rand_int_range (rand, 0, 100);
  g_autoptr (PsJitter) jitter = random_below (rand, 4) ? ps_jitter_new (0.3) : NULL;
  g_autofree gint64 *own = g_new (gint64, 2 * (gsize)program->n_steps);
  gboolean slow = program->schedule->placement->n_devices > 1 && g_rand_boolean (rand);
  const PsEventsSetting setting = { .comm = (PsChannel)random_below (rand, 4),
                                    .eager_bytes = g_rand_boolean (rand) ? 50 : 0,
                                    .blocking = random_below (rand, 4) == 0 };
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  if (!ps_events_simulate (program, costs, &setting, simulation, NULL))
    return FALSE; /* blocking programs may deadlock */
  PsUncertainty uncertainty
      = { .jitter = jitter != NULL ? 0.3 : 0, .slowness = slow ? &sometimes : NULL, .n_slowness = slow ? 1 : 0 };
  g_autofree gint64 *samples = sample (program, costs, &uncertainty, 2 * BLOCK, &setting);
  Times times = { program, costs, jitter, slow, own };
  check_run (&times, &setting, SETTLE, WARM_UP, samples, random_below (rand, PS_STEADY_RUNS));
  check_run (&times, &setting, SETTLE, WARM_UP, samples, BLOCK + random_below (rand, PS_STEADY_RUNS));
  return TRUE;
}

static void test_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (41);
  guint ran = 0;

  for (guint i = 0; i < 40; i++)
    ran += check_random (rand, i % 2 == 1);
  g_assert_cmpuint (ran, >=, 30);
}

/* What is run round by round, because durations might depend on what else goes on, where they do not: nobody sends
 * while it computes when transfers take no time, and of messages that do not queue none overtakes. */
static void test_entangled (void)
{
  static const PsEventsSetting latency = { .comm = PS_CHANNEL_LATENCY },
                               settings[] = { { .overlap_slowdown = 3 }, { .ready_order = 1 } };
  g_autoptr (GRand) rand = g_rand_new_with_seed (43);
  g_autoptr (PsJitter) jitter = ps_jitter_new (0.3);
  const PsUncertainty uncertainty = { .jitter = 0.3 };

  for (guint i = 0; i < 20; i++) {
    g_autoptr (PsProgram) program = lower (random_schedule (rand, FALSE));
    guint n_stages = program->schedule->placement->n_stages;
    g_autoptr (PsCosts) costs = random_times (rand, n_stages, 1, 1000);
    g_autofree gint64 *own = g_new (gint64, 2 * (gsize)program->n_steps);

    if (i % 2 == 0)
      memset (costs->transfer_ns, 0, (1 + 2 * n_stages) * sizeof *costs->transfer_ns);
    g_autofree gint64 *samples = sample (program, costs, &uncertainty, 2 * BLOCK, &settings[i % 2]);
    Times times = { program, costs, jitter, FALSE, own };
    check_run (&times, &latency, 0, 64, samples, random_below (rand, PS_STEADY_RUNS));
    check_run (&times, &latency, 0, 64, samples, BLOCK + random_below (rand, PS_STEADY_RUNS));
  }
}

static PsCosts *some_costs (guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++)
    costs->op[i].duration_ns = 1000000 + 1000 * (i % 7);
  for (guint i = 1; i <= 2 * n_stages; i++)
    costs->transfer_ns[i] = 300000 + 100 * i;
  for (guint i = 0; i < n_stages; i++)
    costs->stage[i].reduce_ns = costs->stage[i].reduce2_ns = 500000;
  return costs;
}

typedef void (*Check) (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                       PsIteration iteration);

/* Every family, with pure latency and with channels. */
static void for_each_family (Check check)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < 2 * n; i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (PsProgram) program = lower_family (families[i / 2]->name, 4, 8, 0);
    g_autoptr (PsCosts) costs = some_costs (program->schedule->placement->n_stages);
    const PsEventsSetting rank = { .comm = PS_CHANNEL_RANK }, *setting = i % 2 ? &rank : NULL;
    PsIteration iteration;
    g_autoptr (PsSimulation) simulation = simulated (program, costs);

    g_assert_true (setting == NULL || ps_events_simulate (program, costs, setting, simulation, NULL));
    g_assert_true (ps_iteration_events (program, costs, simulation, setting, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED,
                                        &iteration, &error));
    g_test_message ("%s: period %" G_GINT64_FORMAT " ns, repeats after %u", families[i / 2]->name, iteration.period_ns,
                    iteration.n_iterations);
    check (program, costs, setting, iteration);
  }
}

/* Nothing varies: every sample is the period. */
static void check_certain (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                           PsIteration iteration)
{
  const PsUncertainty nothing = { 0 };
  g_autofree gint64 *samples = sample (program, costs, &nothing, BLOCK, setting);

  for (guint i = 0; i < BLOCK; i++)
    g_assert_cmpint (samples[i], ==, iteration.period_ns);
}

static void test_certain (void)
{
  for_each_family (check_certain);
}

/* The mean under jitter is no less than the period of the mean times (Jensen). */
static void check_convex (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                          PsIteration iteration)
{
  const PsUncertainty jitter = { .jitter = 0.2 };
  g_autofree gint64 *samples = sample (program, costs, &jitter, 2 * BLOCK, setting);
  PsDistribution distribution;

  ps_distribution_init (&distribution, samples, 2 * BLOCK, TRUE);
  double half = (distribution.mean_high_ns - distribution.mean_low_ns) / 2;
  g_assert_cmpfloat (distribution.mean_ns + 2 * half, >=, (double)iteration.period_ns);
}

static void test_convex (void)
{
  for_each_family (check_convex);
}

/* One device: an iteration is the sum of its ops and O. m = 4 of f = 1, b = 2, w = 3, o = 5 (ms), jitter 10 %: mean 29,
 * variance 4 (1 + 4 + 9) 0.01 = 0.56, and iterations do not depend on each other. */
static void test_one_device (void)
{
  g_autoptr (PsProgram) program = lower_family ("zb-h1", 1, 4, 0);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=2ms,w=3ms,o=5ms", 1, 1, NULL);
  const PsUncertainty uncertainty = { .jitter = 0.1 };
  g_autofree gint64 *samples = sample (program, costs, &uncertainty, 20000, NULL);
  PsDistribution distribution, independent;

  ps_distribution_init (&distribution, samples, 20000, TRUE);
  ps_distribution_init (&independent, samples, 20000, FALSE);
  g_assert_cmpfloat_with_epsilon (distribution.mean_ns, 29e6, 4 * 748e3 / sqrt (20000));
  g_assert_cmpfloat_with_epsilon (distribution.deviation_ns, 748.3e3, 15e3);
  double half = (distribution.mean_high_ns - distribution.mean_low_ns) / 2,
         same = (independent.mean_high_ns - independent.mean_low_ns) / 2;
  g_assert_cmpfloat_with_epsilon (half / same, 1, 0.15);
  g_assert_cmpfloat_with_epsilon (same, 1.96 * 748.3e3 / sqrt (20000), 200);
}

/* PipeDream, m >= p, is 1F1B for ever: p - d forwards, then a backward and a forward in turn, and an O of 1 us after
 * every backward (PipeDream-2BW: every m-th). Forward i of a device is microbatch i mod m; draws are those of the round
 * in which it runs: the first p - d of round k + 1 run in round k. */
#define P 3
#define M 5
#define ROUNDS (WARM_UP + PS_STEADY_ITERATIONS)

typedef struct {
  const PsCosts *costs;
  const PsJitter *jitter;
  guint run;
  guint every;                                  /* backwards before an O */
  gint64 forward[P][(ROUNDS + SETTLE + 1) * M]; /* ends */
  gint64 backward[P][(ROUNDS + SETTLE + 1) * M];
} Endless;

static gint64 endless_time (const Endless *endless, guint stream, PsOpKind kind, guint stage, guint microbatch,
                            guint round)
{
  guint b = stage | (guint)(kind == PS_OP_F ? PS_OP_F : PS_OP_B) << 24, at = round - SETTLE;
  gint64 base = stream == 0       ? ps_costs_op (endless->costs, kind, stage)->duration_ns
                : kind == PS_OP_F ? endless->costs->transfer_ns[stage]
                                  : endless->costs->transfer_ns[1 + P + stage + 1];

  if (round < SETTLE)
    return base;
  guint32 word = at < WARM_UP
                     ? draw (endless->run, WARM_UP - at, (PsPurpose){ microbatch, b, stream })
                     : draw (endless->run + (at - WARM_UP) * PS_STEADY_RUNS, 0, (PsPurpose){ microbatch, b, stream });
  return (gint64)((double)base * factor (endless->jitter, word) + 0.5);
}

/* The device's round; `clock` is when it is ready. The very first forwards run before round 0, in no time. */
static gint64 endless_device (Endless *endless, guint device, guint round, gint64 clock)
{
  guint warm = P - device;

  for (guint i = round * M; i < (round + 1) * M; i++) {
    gint64 gradient = device + 1 < P
                          ? endless->backward[device + 1][i] + endless_time (endless, 1, PS_OP_BW, device, i % M, round)
                          : 0;

    clock = MAX (clock, gradient) + endless_time (endless, 0, PS_OP_BW, device, i % M, round);
    endless->backward[device][i] = clock;
    clock += (i + 1) % endless->every == 0 ? 1000 : 0;
    guint next = i + warm;
    gint64 activation
        = device > 0 ? endless->forward[device - 1][next] + endless_time (endless, 1, PS_OP_F, device, next % M, round)
                     : 0;
    clock = MAX (clock, activation) + endless_time (endless, 0, PS_OP_F, device, next % M, round);
    endless->forward[device][next] = clock;
  }
  return clock;
}

/* Devices in one pass after the other: what an op waits for is right one pass later at most. */
static void endless_round (Endless *endless, guint round, gint64 *ready_ns)
{
  gint64 ends[P];

  for (guint pass = 0; pass < 2 * P * M; pass++)
    for (guint device = 0; device < P; device++)
      ends[device] = endless_device (endless, device, round, ready_ns[device]);
  for (guint device = 0; device < P; device++)
    ready_ns[device] = ends[device];
}

static void check_endless (const char *family, guint every)
{
  g_autoptr (PsProgram) program = lower_family (family, P, M, 0);
  g_autoptr (PsCosts) costs
      = fine (ps_costs_parse ("f=90us:100us:95us,bw=205us:180us:190us,c=20us,o=1us:1us:1us", P, 1, &error));

  g_autoptr (PsJitter) jitter = ps_jitter_new (0.2);
  const PsUncertainty uncertainty = { .jitter = 0.2 };
  g_autofree gint64 *samples = sample (program, costs, &uncertainty, BLOCK, NULL);

  for (guint run = 0; run < PS_STEADY_RUNS; run += 5) {
    g_autofree Endless *endless = g_new0 (Endless, 1);
    gint64 ready[P] = { 0 }, before = 0, settling[SETTLE], missing[PS_STEADY_ITERATIONS] = { 0 };

    *endless = (Endless){ .costs = costs, .jitter = jitter, .run = run, .every = every };
    for (guint round = 0; round < SETTLE + ROUNDS; round++) {
      endless_round (endless, round, ready);
      gint64 end = MAX (MAX (ready[0], ready[1]), ready[2]);
      if (round < SETTLE)
        settling[round] = end - before;
      else if (round == SETTLE)
        find_missing (settling, WARM_UP, missing);
      if (round >= SETTLE + WARM_UP)
        g_assert_cmpint (samples[(round - SETTLE - WARM_UP) * PS_STEADY_RUNS + run], ==,
                         end - before + missing[round - SETTLE - WARM_UP]);
      before = end;
    }
  }
}

static void test_endless (void)
{
  check_endless ("pipedream", 1);
  check_endless ("pipedream-2bw", M);
}

/* The same on any number of threads, and where more samples follow. */
static void test_repeatable (void)
{
  g_autoptr (PsProgram) program = lower_family ("zb-h2", 4, 8, 0);
  g_autoptr (PsCosts) costs = some_costs (4);
  const PsUncertainty uncertainty = { .jitter = 0.05, .slowness = &sometimes, .n_slowness = 1 };
  g_autofree gint64 *one = sample (program, costs, &uncertainty, 3000, NULL);
  g_autofree gint64 *fewer = sample (program, costs, &uncertainty, 777, NULL);
  PsSampling sampling = { .n_samples = 3000, .seed = 5, .n_jobs = 3, .sync = PS_SYNC_BYPASS };
  g_autofree gint64 *three = ps_uncertainty_sample (program, costs, &uncertainty, &sampling, NULL);

  g_assert_cmpmem (one, 3000 * sizeof *one, three, 3000 * sizeof *three);
  g_assert_cmpmem (one, 777 * sizeof *one, fewer, 777 * sizeof *fewer);
}

/* Iterations of a run depend on each other: a late one makes the next shorter. The intervals of mean and median of 512
 * samples hold what 200,000 samples say in at least 95 % of 400 trials (less 4 standard deviations of that count, 17),
 * and that of the mean is narrower than independent samples would make it. */
static void test_coverage (void)
{
  g_autoptr (PsProgram) program = lower_family ("zb-h2", 3, 4, 0);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=1ms,w=1ms,c=200us", 3, 1, NULL);
  const PsUncertainty uncertainty = { .jitter = 0.2 };
  g_autofree gint64 *samples = sample (program, costs, &uncertainty, 800 * BLOCK, NULL);
  PsDistribution all, part, independent;
  guint means = 0, medians = 0;
  double width = 0, independent_width = 0;

  ps_distribution_init (&all, samples, 800 * BLOCK, TRUE);
  for (guint i = 0; i < 400; i++) {
    ps_distribution_init (&part, samples + i * BLOCK, BLOCK, TRUE);
    ps_distribution_init (&independent, samples + i * BLOCK, BLOCK, FALSE);
    means += part.mean_low_ns <= all.mean_ns && all.mean_ns <= part.mean_high_ns;
    medians += part.p50.low_ns <= all.p50.value_ns && all.p50.value_ns <= part.p50.high_ns;
    width += part.mean_high_ns - part.mean_low_ns;
    independent_width += independent.mean_high_ns - independent.mean_low_ns;
  }
  g_test_message ("mean held %u of 400 times, median %u, width %.3g of independent samples'", means, medians,
                  width / independent_width);
  g_assert_cmpuint (means, >=, 380 - 17);
  g_assert_cmpuint (medians, >=, 380 - 17);
  g_assert_cmpfloat (width, <, independent_width);
}

/* What cannot be sampled says so: schedules that never drain where durations depend on what else goes on, and times
 * that leave the integers over all iterations of a run. */
static void test_refusals (void)
{
  g_autoptr (PsProgram) program = lower_family ("pipedream", 2, 4, 0);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1000000s,b=1000000s,w=0", 2, 1, NULL);
  const PsEventsSetting slowed = { .comm = PS_CHANNEL_RANK, .overlap_slowdown = 2 };
  const PsUncertainty uncertainty = { .jitter = 1 };
  g_autoptr (GError) entangled = NULL, overflow = NULL;
  PsSampling sampling = { .n_samples = 10, .n_jobs = 1, .sync = PS_SYNC_BYPASS, .events = &slowed };

  g_assert_null (ps_uncertainty_sample (program, costs, &uncertainty, &sampling, &entangled));
  g_assert_error (entangled, PS_ERROR, PS_ERROR_SCHEDULE);
  sampling.events = NULL;
  g_assert_null (ps_uncertainty_sample (program, costs, &uncertainty, &sampling, &overflow));
  g_assert_error (overflow, PS_ERROR, PS_ERROR_USAGE);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/steady/random", test_random);
  g_test_add_func ("/steady/entangled", test_entangled);
  g_test_add_func ("/steady/certain", test_certain);
  g_test_add_func ("/steady/convex", test_convex);
  g_test_add_func ("/steady/one-device", test_one_device);
  g_test_add_func ("/steady/endless", test_endless);
  g_test_add_func ("/steady/repeatable", test_repeatable);
  g_test_add_func ("/steady/coverage", test_coverage);
  g_test_add_func ("/steady/refusals", test_refusals);
  return g_test_run ();
}

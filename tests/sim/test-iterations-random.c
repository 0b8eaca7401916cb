/* Tests of simulate.h on random schedules: periods against an evaluator of another kind, which runs one iteration
 * after the other, and what must hold for every schedule. */
#include "cases.h"
#include "simulate/rounds.h"
#include "lower.h"
#include "queued-rig.h"
#include "random-costs.h"
#include "random-schedule.h"

#include <pipesim/simulate.h>

#include <string.h>

/* Another way to the same numbers: one iteration after the other, each from the devices' ready times that the one
 * before left, with a fixed point over the devices' orders inside. */
typedef struct {
  const PsSchedule *schedule;
  const PsCosts *costs;
  PsReduce reduce;
  gint64 *end;   /* [n_ops] of this iteration */
  gint64 *ready; /* [n_devices] */
} Unrolled;

static gint64 unrolled_arrival (const Unrolled *run, PsOp op)
{
  guint n_stages = run->schedule->placement->n_stages;
  gboolean forward = op.kind == PS_OP_F;

  if (op.kind == PS_OP_W || op.stage == (forward ? 0 : n_stages - 1))
    return 0;
  guint from = forward ? op.stage - 1U : op.stage + 1U;
  for (guint i = 0; i < ps_schedule_n_ops (run->schedule); i++) {
    PsOp other = run->schedule->ops[i];
    gboolean backward = other.kind == PS_OP_B || other.kind == PS_OP_BW;

    if (other.stage != from || other.microbatch != op.microbatch || !(forward ? other.kind == PS_OP_F : backward))
      continue;
    gboolean local = ps_schedule_device (run->schedule, from, op.microbatch)
                     == ps_schedule_device (run->schedule, op.stage, op.microbatch);
    guint transfer = forward ? 1 + from : 1 + n_stages + from;
    return run->end[i] + (local ? 0 : run->costs->transfer_ns[transfer]);
  }
  g_assert_not_reached ();
}

static gboolean unrolled_relax (Unrolled *run, guint device)
{
  const PsSchedule *schedule = run->schedule;
  gint64 clock = run->ready[device];
  gboolean changed = FALSE;

  for (guint i = schedule->first[device], n; i < schedule->first[device + 1]; i += n) {
    gint64 duration = 0;

    n = schedule->ops[i].paired ? 2 : 1;
    for (guint k = 0; k < n; k++) {
      clock = MAX (clock, unrolled_arrival (run, schedule->ops[i + k]));
      duration
          += ps_costs_op (run->costs, (PsOpKind)schedule->ops[i + k].kind, schedule->ops[i + k].stage)->duration_ns;
    }
    clock += duration;
    for (guint k = 0; k < n; k++) {
      changed |= run->end[i + k] != clock;
      run->end[i + k] = clock;
    }
  }
  return changed;
}

/* When the gradients of all stages of a device are reduced: stages in the order in which their last ops stand. */
static gint64 unrolled_reduced (const Unrolled *run, guint device)
{
  const PsSchedule *schedule = run->schedule;
  guint n_stages = schedule->placement->n_stages, end = schedule->first[device + 1];
  gint64 own = end > schedule->first[device] ? run->end[end - 1] : run->ready[device];
  gint64 time = run->reduce == PS_REDUCE_EXPOSED ? own : 0;
  g_autofree guint *last = g_new0 (guint, n_stages);

  for (guint i = schedule->first[device]; i < end; i++)
    if (schedule->ops[i].kind == PS_OP_W || schedule->ops[i].kind == PS_OP_BW)
      last[schedule->ops[i].stage] = i + 1;
  for (guint i = schedule->first[device]; i < end; i++)
    for (guint stage = 0; stage < n_stages; stage++)
      if (last[stage] == i + 1)
        time = MAX (time, run->end[i])
               + (run->schedule->placement->n_copies == 2 ? run->costs->stage[stage].reduce2_ns
                                                          : run->costs->stage[stage].reduce_ns);
  return MAX (own, time);
}

static void unrolled_iterate (Unrolled *run)
{
  guint n_devices = run->schedule->placement->n_devices;
  gint64 state = 0;
  gboolean changed = TRUE;

  memset (run->end, 0, ps_schedule_n_ops (run->schedule) * sizeof *run->end);
  while (changed) {
    changed = FALSE;
    for (guint device = 0; device < n_devices; device++)
      changed |= unrolled_relax (run, device);
  }
  for (guint device = 0; device < n_devices; device++) {
    state = MAX (state, unrolled_reduced (run, device));
    run->ready[device] = state;
    for (guint stage = 0; stage < run->schedule->placement->n_stages; stage++)
      if (run->schedule->placement->device[stage] == device)
        run->ready[device] += ps_costs_op (run->costs, PS_OP_O, stage)->duration_ns;
  }
}

/* A pair takes what its ops take: the evaluators here know no better. */
static PsCosts *random_iteration (GRand *rand, guint n_stages)
{
  gint32 scale = g_rand_boolean (rand) ? 8 : 1000;
  PsCosts *costs = random_times (rand, n_stages, 1, scale);

  for (guint stage = 0; stage < n_stages; stage++) {
    costs->stage[stage].pair_ns = -1;
    costs->stage[stage].reduce_ns = g_rand_boolean (rand) ? g_rand_int_range (rand, 0, 3 * scale) : 0;
    costs->stage[stage].reduce2_ns = g_rand_boolean (rand) ? g_rand_int_range (rand, 0, 3 * scale) : 0;
  }
  return costs;
}

#define UNROLLED 50

/* How far the slowest device got in the last n of the unrolled iterations, where every device got as far in the n
 * before them. */
static gboolean repeats (gint64 (*ready)[4], guint n_devices, guint n, gint64 *total_ns)
{
  *total_ns = 0;
  for (guint device = 0; device < n_devices; device++) {
    gint64 growth = ready[UNROLLED - 1][device] - ready[UNROLLED - 1 - n][device];

    if (growth != ready[UNROLLED - 1 - n][device] - ready[UNROLLED - 1 - 2 * n][device])
      return FALSE;
    *total_ns = MAX (*total_ns, growth);
  }
  return TRUE;
}

/* Whether 50 iterations showed the period. */
static gboolean check_unrolled (GRand *rand, gboolean pairs)
{
  g_autoptr (PsSchedule) schedule = random_schedule (rand, pairs);
  g_autoptr (PsCosts) costs = random_iteration (rand, schedule->placement->n_stages);
  g_autofree gint64 *end = g_new0 (gint64, ps_schedule_n_ops (schedule));
  guint n_devices = schedule->placement->n_devices;
  PsReduce reduce = g_rand_boolean (rand) ? PS_REDUCE_OVERLAPPED : PS_REDUCE_EXPOSED;
  gint64 ready[UNROLLED][4], clock[4] = { 0 }, total_ns;
  Unrolled run = { schedule, costs, reduce, end, clock };

  for (guint i = 0; i < UNROLLED; i++) {
    unrolled_iterate (&run);
    memcpy (ready[i], clock, sizeof clock);
  }
  g_autoptr (PsProgram) program = lower (ps_schedule_copy (schedule));
  PsIteration iteration = ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, reduce);
  if (iteration.n_iterations > UNROLLED / 2 - 1 || !repeats (ready, n_devices, iteration.n_iterations, &total_ns))
    return FALSE;
  g_assert_cmpint (iteration.period_ns, ==,
                   (2 * total_ns + iteration.n_iterations) / (2 * (gint64)iteration.n_iterations));
  for (guint n = 2; n <= iteration.n_iterations; n++)
    g_assert_false (total_ns % n == 0 && iteration.n_iterations % n == 0);
  return TRUE;
}

static void test_unrolled (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  guint n = n_cases (1000), shown = 0;

  for (guint i = 0; i < n; i++)
    shown += check_unrolled (rand, i % 2 == 1);
  g_test_message ("%u of 1000 random schedules repeat exactly within %d iterations", shown, UNROLLED);
  g_assert_cmpuint (shown, >=, n * 9 / 10);
}

/* A setting whose durations are known beforehand, and costs without all-reduces, with messages of some size. */
static PsCosts *random_queue (GRand *rand, guint n_stages, PsEventsSetting *setting)
{
  PsCosts *costs = random_iteration (rand, n_stages);

  for (guint i = 0; i < n_stages; i++)
    costs->stage[i].reduce_ns = 0;
  for (guint i = 1; i <= 2 * n_stages; i++)
    costs->message_bytes[i] = g_rand_int_range (rand, 0, 100);
  *setting = (PsEventsSetting){ .comm = (PsChannel)random_below (rand, 4),
                                .eager_bytes = g_rand_boolean (rand) ? 50 : 0,
                                .blocking = random_below (rand, 4) == 0 };
  return costs;
}

static gboolean check_queued (GRand *rand, gboolean pairs)
{
  g_autoptr (GError) error = NULL;
  PsEventsSetting setting;
  g_autoptr (PsSchedule) schedule = random_schedule (rand, pairs);
  g_autoptr (PsCosts) costs = random_queue (rand, schedule->placement->n_stages, &setting);
  guint n_devices = schedule->placement->n_devices;
  g_autoptr (PsProgram) program = lower (g_steal_pointer (&schedule));
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  if (!ps_events_simulate (program, costs, &setting, simulation, NULL))
    return FALSE; /* blocking programs may deadlock */
  guint n = program->n_steps;
  g_auto (Queued) run = { 0 };
  queued_init (&run, program, costs, &setting);
  gint64 ready[UNROLLED][4], total_ns;
  for (guint i = 0; i < UNROLLED; i++) {
    queued_iterate (&run);
    memcpy (ready[i], run.ready, sizeof run.ready);
    for (guint step = 0; i == 0 && step < n; step++)
      g_assert_cmpint (run.end[step], ==, simulation->end_ns[step + 1]);
  }
  PsIteration iteration;
  g_assert_true (ps_iteration_events (program, costs, simulation, &setting, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED,
                                      &iteration, &error));
  if (iteration.n_iterations > UNROLLED / 2 - 1 || !repeats (ready, n_devices, iteration.n_iterations, &total_ns))
    return FALSE;
  g_assert_cmpint (iteration.period_ns, ==,
                   (2 * total_ns + iteration.n_iterations) / (2 * (gint64)iteration.n_iterations));
  return TRUE;
}

static void test_channels (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (23);
  guint n = n_cases (600), shown = 0;

  for (guint i = 0; i < n; i++)
    shown += check_queued (rand, i % 2 == 1);
  g_test_message ("%u of 600 random schedules run and repeat exactly within %d iterations", shown, UNROLLED);
  g_assert_cmpuint (shown, >=, n * 5 / 6);
}

/* What is run round by round, because durations might depend on what else goes on, finds the same period where they do
 * not: nobody sends while it computes when transfers take no time, and of messages that do not queue none overtakes. */
static void test_entangled (void)
{
  static const PsEventsSetting settings[] = { { .overlap_slowdown = 3 }, { .ready_order = 1 } };
  g_autoptr (GRand) rand = g_rand_new_with_seed (31);
  guint repeated = 0;

  for (guint i = 0; i < 200; i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (PsSchedule) schedule = random_schedule (rand, FALSE);
    guint n_stages = schedule->placement->n_stages;
    g_autoptr (PsCosts) costs = random_iteration (rand, n_stages);
    g_autoptr (PsProgram) program = lower (g_steal_pointer (&schedule));

    if (i % 2 == 0)
      memset (costs->transfer_ns, 0, (1 + 2 * n_stages) * sizeof *costs->transfer_ns);
    PsIteration known = ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED), found;
    g_assert_true (ps_iteration_events (program, costs, NULL, &settings[i % 2], PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED,
                                        &found, &error));
    if (found.n_iterations == 0)
      continue;
    g_assert_cmpint (found.period_ns, ==, known.period_ns);
    g_assert_cmpuint (found.n_iterations, ==, known.n_iterations);
    repeated++;
  }
  g_assert_cmpuint (repeated, >=, 180);
}

/* An endless asynchronous run, another way: PipeDream of n m microbatches is n iterations of m; in the long run every
 * further 60 of them add as much to the makespan: any pattern of 1 to 5 devices repeats in 60. */
static gint64 run_for (guint p, guint m, const PsCosts *costs)
{
  g_autoptr (PsProgram) program = lower_family ("pipedream", p, m, 1);
  g_autoptr (PsSimulation) simulation = simulated (program, costs);

  return simulation->makespan_ns;
}

static void test_endless (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);

  for (guint i = 0; i < 100; i++) {
    guint p = 1 + random_below (rand, 5), m = p + random_below (rand, 8);
    g_autoptr (PsProgram) program = lower_family ("pipedream", p, m, 1);
    g_autoptr (PsCosts) costs = random_iteration (rand, p);

    for (guint stage = 0; stage < p; stage++)
      ps_costs_op (costs, PS_OP_O, stage)->duration_ns = costs->stage[stage].reduce_ns = 0;
    PsIteration iteration = ps_iteration (program, costs, NULL, PS_SYNC_GLOBAL, PS_REDUCE_OVERLAPPED);
    gint64 total_ns = run_for (p, 160 * m, costs) - run_for (p, 100 * m, costs);
    g_assert_cmpuint (60 % iteration.n_iterations, ==, 0);
    g_assert_cmpint (iteration.period_ns, ==, (2 * total_ns + 60) / 120);
  }
}

/* The moments of one iteration in steady state: an op starts no sooner than its input is there, ops of a device do not
 * overlap, and the first op starts at 0. Most ops start when their input comes or an op of their device ends. */
static void test_moments (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (37);
  guint n_caused = 0, n_ops = 0;

  for (guint i = 0; i < 100; i++) {
    guint p = 1 + random_below (rand, 5), m = p + random_below (rand, 6);
    g_autoptr (PsProgram) program = lower_family (i % 2 ? "pipedream" : "pipedream-2bw", p, m, 1);
    g_autoptr (PsCosts) costs = random_iteration (rand, p);
    g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
    gint64 first = G_MAXINT64, last = 0;

    for (guint k = 0; k < PS_OP_O * p; k++)
      costs->op[k].duration_ns++; /* ops that take no time overlap with others */
    ps_iteration_times (program, costs, NULL, simulation);
    for (guint a = 0; a < program->n_steps; a++) {
      const PsStep *step = &program->steps[a];
      gint64 end = simulation->end_ns[a + 1], start = end - ps_step_duration (program, costs, a);
      gint64 arrival
          = step->input > 0 ? simulation->end_ns[step->input] + costs->transfer_ns[step->transfer] : G_MININT64;
      gboolean has_cause = start == arrival;

      g_assert_cmpint (start, >=, arrival);
      for (guint b = 0; b < program->n_steps; b++)
        if (b != a && program->steps[b].device == step->device) {
          gint64 other = simulation->end_ns[b + 1];

          has_cause |= start == other;
          g_assert_true (other <= start || other - ps_step_duration (program, costs, b) >= end);
        }
      n_caused += has_cause;
      n_ops++;
      first = MIN (first, start);
      last = MAX (last, end);
    }
    g_assert_cmpint (first, ==, 0);
    g_assert_cmpint (last, ==, simulation->makespan_ns);
  }
  g_test_message ("%u of %u ops have a cause", n_caused, n_ops);
  g_assert_cmpuint (n_caused, >=, n_ops * 3 / 4);
}

/* The longest circle of events takes the period that rounds which repeat each other have. */
static void test_circle (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (31);

  for (guint i = 0; i < n_cases (2000); i++) {
    guint p = 1 + random_below (rand, 6);
    g_autoptr (PsProgram) program
        = i % 2 ? lower_family (i % 4 == 1 ? "pipedream" : "pipedream-2bw", p, p * (1 + random_below (rand, 4)), 1)
                : ps_program_lower (random_schedule (rand, i % 4 == 0), PS_COMM_ASAP, NULL);
    g_autoptr (PsCosts) costs = random_iteration (rand, program->schedule->placement->n_stages);
    PsReduce reduce = i % 8 < 4 ? PS_REDUCE_OVERLAPPED : PS_REDUCE_EXPOSED;
    PsIteration iteration = ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, reduce);
    g_autoptr (PsRounds) rounds = fine (ps_rounds_new (program, costs, NULL, reduce, &error));
    g_autoptr (GArray) circle = ps_rounds_circle (rounds);
    gint64 total_ns = 0, n = 0;

    for (guint k = 0; k < circle->len; k++) {
      total_ns += g_array_index (circle, PsCircleEvent, k).duration_ns;
      n += g_array_index (circle, PsCircleEvent, k).before;
    }
    g_assert_cmpint (iteration.period_ns, ==, (2 * total_ns + n) / (2 * MAX (n, 1)));
    g_assert_true (n == 0 || total_ns * iteration.n_iterations % n == 0);
  }
}

/* More of anything never makes an iteration shorter. */
static void test_monotone (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (29);

  for (guint i = 0; i < 200; i++) {
    g_autoptr (PsSchedule) schedule = random_schedule (rand, FALSE);
    guint n_stages = schedule->placement->n_stages;
    g_autoptr (PsCosts) costs = random_iteration (rand, n_stages);
    g_autoptr (PsProgram) program = lower (g_steal_pointer (&schedule));
    gint64 before = ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns;
    gint64 exposed = ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, PS_REDUCE_EXPOSED).period_ns;

    g_assert_cmpint (exposed, >=, before);
    guint stage = random_below (rand, n_stages);
    gint64 *what[]
        = { &costs->stage[stage].reduce_ns, &costs->transfer_ns[1 + stage],
            &ps_costs_op (costs, PS_OP_O, stage)->duration_ns, &ps_costs_op (costs, PS_OP_F, stage)->duration_ns };
    *what[random_below (rand, G_N_ELEMENTS (what))] += 500;
    g_assert_cmpint (ps_iteration (program, costs, NULL, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED).period_ns, >=, before);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/iterations/random/unrolled", test_unrolled);
  g_test_add_func ("/iterations/random/channels", test_channels);
  g_test_add_func ("/iterations/random/entangled", test_entangled);
  g_test_add_func ("/iterations/random/endless", test_endless);
  g_test_add_func ("/iterations/random/moments", test_moments);
  g_test_add_func ("/iterations/random/circle", test_circle);
  g_test_add_func ("/iterations/random/monotone", test_monotone);
  return g_test_run ();
}

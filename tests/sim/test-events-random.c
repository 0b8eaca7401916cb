/* Tests of simulate.h on schedules and costs drawn at random: against the relaxation engine, and against the
 * definition.
 */
#include "drawn-events.h"
#include "naive-events.h"
#include "program/program-private.h"
#include "simulate/events-links.h"

#include <pipesim/bound.h>

#include <math.h>
#include <string.h>

/* Rounds to no slow-down at all, but makes the engine take its events in the order of time. */
#define BY_TIME 1.0001

/* Pure latency, in any order of sends and receives, by both loops, and with messages that go as they come. */
static void test_relaxation (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (41);
  static const PsEventsSetting settings[] = { { 0 }, { .overlap_slowdown = BY_TIME }, { .ready_order = 1 } };

  for (guint i = 0; i < 10000; i++) {
    g_auto (Drawn) drawn = { 0 };

    draw (&drawn, rand, (PsCommOrder)(i % 3), 0);
    if (i % 2)
      forget_messages (drawn.costs);
    g_autoptr (PsSimulation) events = ps_simulation_new (drawn.program);
    g_autoptr (PsSimulation) relaxation = simulated (drawn.program, drawn.costs);
    /* With ready_order buffers count in the order that has run, ps_events_realise. */
    for (guint k = 0; k < G_N_ELEMENTS (settings) - (i % 2 == 0); k++) {
      fine (ps_events_simulate (drawn.program, drawn.costs, &settings[k], events, &error));
      assert_same (&drawn, events, relaxation);
    }
  }
}

static gint position (const PsProgram *program, guint op)
{
  guint device = 0, n = 0;

  while (program->schedule->first[device + 1] <= op)
    device++;
  for (guint i = program->first[device]; i < program->first[device + 1]; i++)
    if (program->instructions[i].type == PS_INSTRUCTION_COMPUTE && n++ == op - program->schedule->first[device])
      return (gint)i;
  g_assert_not_reached ();
}

static void assert_as_defined (const Drawn *drawn, const Naive *naive, const PsSimulation *simulation)
{
  for (guint i = 0; i < drawn->program->n_steps; i++) {
    gint at = position (drawn->program, drawn->program->op_of[i]), send;

    /* The first op of a pair has no times of its own. */
    if (!drawn->program->schedule->ops[drawn->program->op_of[i]].paired) {
      g_assert_cmpint (simulation->end_ns[i + 1], ==, naive->end_ns[at]);
      g_assert_cmpint (simulation->start_ns[i], ==, naive->start_ns[at]);
    }
    if (drawn->program->steps[i].input == 0)
      continue;
    send = naive_find (naive, PS_INSTRUCTION_SEND, ps_program_producer (drawn->program, i));
    g_assert_cmpint (simulation->transfer_start_ns[i], ==, naive->start_ns[send]);
    g_assert_cmpint (simulation->transfer_end_ns[i], ==, naive->end_ns[naive->other[send]]);
  }
}

/* Every channel, with and without eager messages and blocking; both loops. Orders that deadlock do so in all three. */
static void test_definition (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (43);
  guint n_deadlocks = 0;

  for (guint i = 0; i < 4000; i++) {
    g_auto (Drawn) drawn = { 0 };
    PsEventsSetting setting = { .comm = (PsChannel)random_below (rand, 4),
                                .eager_bytes = g_rand_boolean (rand) ? g_rand_int_range (rand, 0, 120) : 0,
                                .blocking = random_below (rand, 4) == 0 };

    draw (&drawn, rand, (PsCommOrder)(i % 3), 1);
    g_autoptr (PsSimulation) simulation = ps_simulation_new (drawn.program);
    g_auto (Naive) naive = { .program = drawn.program, .costs = drawn.costs, .setting = &setting };
    naive_run (&naive);
    n_deadlocks += naive.deadlock != 0;
    for (guint loop = 0; loop < 2; loop++) {
      g_autoptr (GError) error = NULL;

      setting.overlap_slowdown = loop ? BY_TIME : 0;
      setting.overlap_waiting = loop && i % 2;
      gboolean ran = ps_events_simulate (drawn.program, drawn.costs, &setting, simulation, &error);
      g_assert_cmpint (ran, ==, !naive.deadlock);
      if (ran)
        assert_as_defined (&drawn, &naive, simulation);
      else
        g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
    }
  }
  g_test_message ("%u of 4000 deadlock", n_deadlocks);
  g_assert_cmpuint (n_deadlocks, >, 100);
  g_assert_cmpuint (n_deadlocks, <, 2000);
}

/* The check without time says the same as the run, and both name a circle. */
static void test_check (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (47);

  for (guint i = 0; i < 3000; i++) {
    g_auto (Drawn) drawn = { 0 };

    draw (&drawn, rand, (PsCommOrder)(i % 3), 0);
    g_autoptr (PsSimulation) simulation = ps_simulation_new (drawn.program);
    for (guint channel = 0; channel < n_channels (); channel++) {
      g_autoptr (GError) check = NULL, run = NULL;
      gboolean checked = ps_program_check (drawn.program, (PsChannel)channel, &check);
      gboolean ran
          = ps_events_simulate (drawn.program, drawn.costs, &(PsEventsSetting){ .comm = channel }, simulation, &run);

      g_assert_cmpint (checked, ==, ran);
      g_assert_true (checked || i % 3 == PS_COMM_DEFERRED);
    }
  }
}

static gint64 optimizer_at (const PsSimulation *simulation, const double *speed)
{
  gint64 longest = 0;

  for (guint device = 0; device < simulation->n_devices; device++)
    longest = MAX (longest, llrint ((double)simulation->device[device].optimizer_ns / speed[device]));
  return longest;
}

/* Speeds are durations divided, O's too, but not host times. */
static void test_speed (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (53);

  for (guint i = 0; i < 500; i++) {
    g_auto (Drawn) drawn = { 0 };

    draw (&drawn, rand, PS_COMM_ASAP, 0);
    g_autofree double *speed = g_new (double, drawn.n_devices);
    g_autofree gint64 *durations = g_new (gint64, drawn.program->n_steps);
    g_autofree gint64 *transfers = g_new (gint64, drawn.program->n_steps);
    g_autoptr (PsSimulation) events = ps_simulation_new (drawn.program);
    g_autoptr (PsSimulation) relaxation = ps_simulation_new (drawn.program);
    for (guint device = 0; device < drawn.n_devices; device++)
      speed[device] = g_rand_double_range (rand, 0.3, 2);
    for (guint k = 0; k < drawn.program->n_steps; k++) {
      gint64 host = ps_host_time_sum (ps_step_host_time (drawn.program, drawn.costs, k));

      durations[k] = host
                     + llrint ((double)(ps_step_duration (drawn.program, drawn.costs, k) - host)
                               / speed[drawn.program->steps[k].device]);
      transfers[k] = g_rand_int_range (rand, 0, 50);
    }
    ps_simulate_steps (drawn.program, drawn.costs, durations, transfers, relaxation);
    gint64 optimizer_ns = relaxation->optimizer_ns;
    relaxation->optimizer_ns = optimizer_at (relaxation, speed);
    g_assert_true (ps_events_simulate (drawn.program, drawn.costs,
                                       &(PsEventsSetting){ .speed = speed, .transfer_ns = transfers }, events, NULL));
    assert_same_times (events, relaxation);
    relaxation->optimizer_ns = optimizer_ns;
    g_assert_true (ps_events_simulate (drawn.program, drawn.costs,
                                       &(PsEventsSetting){ .duration_ns = durations, .transfer_ns = transfers }, events,
                                       NULL));
    assert_same_times (events, relaxation);
  }
}

static gint64 makespan_of (const Drawn *drawn, PsCommOrder order, const PsEventsSetting *setting)
{
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (drawn->program->schedule), order, NULL);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  gboolean ran = ps_events_simulate (program, drawn->costs, setting, simulation, NULL);

  g_assert_true (ran || order == PS_COMM_DEFERRED);
  return ran ? simulation->makespan_ns : G_MAXINT64;
}

/* Planned orders run on every channel and are never slower than the two rules. */
static void test_plan (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (59);
  guint n_better = 0;

  for (guint i = 0; i < 2000; i++) {
    g_auto (Drawn) drawn = { 0 };
    PsEventsSetting setting = { .comm = (PsChannel)(i % 4), .blocking = i % 5 == 0, .eager_bytes = i % 3 * 40 };

    draw (&drawn, rand, PS_COMM_DEFERRED, (gint32)random_below (rand, 2));
    gint64 asap = makespan_of (&drawn, PS_COMM_ASAP, &setting);
    gint64 deferred = makespan_of (&drawn, PS_COMM_DEFERRED, &setting);
    fine (ps_events_plan (drawn.program, drawn.costs, &setting, &error));
    g_autoptr (PsSimulation) simulation = simulated_with (drawn.program, drawn.costs, &setting);
    g_assert_cmpint (simulation->makespan_ns, <=, asap);
    g_assert_true (setting.eager_bytes || simulation->makespan_ns <= deferred);
    n_better += simulation->makespan_ns < MIN (asap, deferred);
    for (guint channel = 0; channel < n_channels (); channel++) {
      fine (ps_program_check (drawn.program, (PsChannel)channel, &error));
    }
  }
  g_test_message ("better than both rules in %u of 2000", n_better);
  g_assert_cmpuint (n_better, >, 200);
}

/* The order in which the transfers of a run began: kept to, nothing happens later than in that run, even where much of
 * it takes no time. */
static void test_arrange (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (83);

  for (guint i = 0; i < 2000; i++) {
    g_auto (Drawn) drawn = { 0 };
    PsEventsSetting setting = { .comm = (PsChannel)(1 + i % 3), .ready_order = i / 3 % 2 };

    draw (&drawn, rand, i % 5 ? PS_COMM_ASAP : PS_COMM_PLANNED, 0);
    g_autoptr (PsSimulation) before = simulated_with (drawn.program, drawn.costs, &setting);
    ps_program_arrange (drawn.program, before->transfer_start_ns, before->transfer_end_ns, NULL);
    setting.ready_order = 0;
    g_autoptr (PsSimulation) after = simulated_with (drawn.program, drawn.costs, &setting);
    for (guint k = 0; k <= drawn.program->n_steps; k++)
      g_assert_cmpint (after->end_ns[k], <=, before->end_ns[k]);
  }
}

/* Where the order is kept every time is a sum of durations: faster transfers or devices delay nothing, and k times the
 * durations take k times as long. */
static void test_monotone (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (61);

  for (guint i = 0; i < 1000; i++) {
    g_auto (Drawn) drawn = { 0 };
    PsEventsSetting setting = { .comm = (PsChannel)(i % 4), .blocking = i % 7 == 0, .eager_bytes = i % 3 * 30 };

    draw (&drawn, rand, PS_COMM_ASAP, 0);
    g_autoptr (PsSimulation) before = simulated_with (drawn.program, drawn.costs, &setting);
    g_autoptr (PsCosts) changed = ps_costs_copy (drawn.costs);
    changed->transfer_ns[1 + random_below (rand, 2 * changed->n_stages)] /= 2;
    changed->op[random_below (rand, PS_N_OP_KINDS * changed->n_stages)].duration_ns /= 2;
    g_autoptr (PsSimulation) after = simulated_with (drawn.program, changed, &setting);
    for (guint k = 0; k <= drawn.program->n_steps; k++)
      g_assert_cmpint (after->end_ns[k], <=, before->end_ns[k]);
    g_autoptr (PsCosts) scaled = ps_costs_copy (drawn.costs);
    for (guint k = 0; k < PS_N_OP_KINDS * scaled->n_stages; k++)
      scaled->op[k].duration_ns *= 7;
    for (guint k = 0; k <= 2 * scaled->n_stages; k++)
      scaled->transfer_ns[k] *= 7;
    for (guint k = 0; k < scaled->n_stages; k++)
      scaled->stage[k].pair_ns *= scaled->stage[k].pair_ns > 0 ? 7 : 1;
    g_assert_true (ps_events_simulate (drawn.program, scaled, &setting, after, NULL));
    for (guint k = 0; k <= drawn.program->n_steps; k++)
      g_assert_cmpint (after->end_ns[k], ==, 7 * before->end_ns[k]);
  }
}

/* Ops that are slowed down take between their cost and the factor times that, and are busy for as long, less their host
 * times. No bound is above the makespan. */
static void test_busy (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (67);

  for (guint i = 0; i < 1000; i++) {
    g_auto (Drawn) drawn = { 0 };
    PsEventsSetting setting
        = { .comm = (PsChannel)(i % 4), .overlap_slowdown = 1.7, .ready_order = i % 2 * 5, .eager_bytes = i % 3 * 50 };

    draw (&drawn, rand, PS_COMM_ASAP, 0);
    g_autofree gint64 *busy = g_new0 (gint64, drawn.n_devices);
    const PsSchedule *schedule = drawn.program->schedule;
    const PsPlacement *placement = schedule->placement;
    g_autoptr (PsSimulation) simulation = simulated_with (drawn.program, drawn.costs, &setting);
    for (guint k = 0; k < drawn.program->n_steps; k++) {
      gint64 cost = ps_step_duration (drawn.program, drawn.costs, k);
      gint64 took = simulation->end_ns[k + 1] - simulation->start_ns[k];

      g_assert_cmpint (took, >=, cost);
      g_assert_cmpint (took, <=, llrint (ceil (1.7 * (double)cost)));
      busy[drawn.program->steps[k].device]
          += took - ps_host_time_sum (ps_step_host_time (drawn.program, drawn.costs, k));
    }
    for (guint device = 0; device < drawn.n_devices; device++)
      g_assert_cmpint (simulation->device[device].busy_ns, ==, busy[device]);
    if (placement->n_copies == 1) {
      guint n, m = schedule->n_microbatches * schedule->n_slices;
      const PsChannelModel *model = &ps_channel_table (&n)[setting.comm];

      g_assert_cmpint (ps_lower_bound_channels (placement, m, drawn.costs, &setting, model), <=,
                       simulation->makespan_ns);
    }
  }
}

/* Shared links lengthen transfers or leave them alone; links without limit leave them all alone. */
static void test_links (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (71);
  PsCluster cluster = { .nodes = 2, .devices_per_node = 2, .link_shared = TRUE, .network_shared = TRUE };
  guint n_longer = 0;

  for (guint i = 0; i < 1000; i++) {
    g_auto (Drawn) drawn = { 0 };
    PsEventsSetting setting = { .comm = (PsChannel)(i % 4), .links = &cluster };

    draw (&drawn, rand, PS_COMM_ASAP, 0);
    cluster.link_bandwidth = cluster.network_bandwidth = i % 2 ? 1e9 : 1e18;
    cluster.link_latency_ns = cluster.network_latency_ns = random_below (rand, 5);
    g_autoptr (PsSimulation) shared = simulated_with (drawn.program, drawn.costs, &setting);
    setting.links = NULL;
    g_autoptr (PsSimulation) alone = simulated_with (drawn.program, drawn.costs, &setting);
    if (i % 2 == 0)
      assert_same_times (shared, alone);
    for (guint k = 0; k < drawn.program->n_steps; k++) {
      gint64 least = drawn.costs->transfer_ns[drawn.program->steps[k].transfer];
      gint64 took = shared->transfer_end_ns[k] - shared->transfer_start_ns[k];

      if (drawn.program->steps[k].input == 0)
        continue;
      g_assert_cmpint (took, >=, least);
      n_longer += took > least;
    }
  }
  g_test_message ("%u transfers took longer", n_longer);
  g_assert_cmpuint (n_longer, >, 100);
}

/* Every run of an engine is as the first run of one of its own, under other costs each time. */
static void test_runs (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (83);

  for (guint i = 0; i < 1000; i++) {
    g_auto (Drawn) drawn = { 0 };

    draw (&drawn, rand, PS_COMM_ASAP, 0);
    g_autofree gint64 *ready = g_new0 (gint64, drawn.n_devices);
    g_autofree double *speed = g_new (double, drawn.n_devices);
    PsEventsSetting setting = { .comm = (PsChannel)(i % 4), .blocking = i % 3 == 0, .ready_ns = ready };
    setting.eager_bytes = i % 5 == 0 ? 30 : 0;
    setting.speed = i % 7 == 0 ? speed : NULL;
    for (guint device = 0; device < drawn.n_devices; device++)
      speed[device] = 0.5 + random_below (rand, 4);
    g_autoptr (PsEvents) events = fine (ps_events_new (drawn.program, drawn.costs, &setting, &error));
    for (guint run = 0; run < 5; run++) {
      g_autoptr (PsSimulation) again = ps_simulation_new (drawn.program);

      for (guint stage = 0; stage < drawn.costs->n_stages; stage++)
        ps_costs_op (drawn.costs, (PsOpKind)(run % 3), stage)->duration_ns += random_below (rand, 50);
      for (guint device = 0; device < drawn.n_devices; device++)
        ready[device] = random_below (rand, 100);
      g_assert_true (ps_events_run (events, drawn.costs, again, NULL));
      g_autoptr (PsSimulation) alone = simulated_with (drawn.program, drawn.costs, &setting);
      assert_same (&drawn, again, alone);
    }
  }
}

/* The queue of the loop by time, few ids and many, against a table that is searched. */
static void test_queue (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (48);

  for (guint n = 1; n <= 1000; n *= 10) {
    PsQueue queue;
    g_autofree gint64 *time_ns = g_new (gint64, n);

    ps_queue_init (&queue, n);
    for (guint i = 0; i < n; i++)
      time_ns[i] = G_MAXINT64;
    for (guint step = 0; step < 10000; step++) {
      guint32 id = random_below (rand, n), first = 0;

      for (guint i = 0; i < n; i++) {
        g_assert_cmpint (ps_queue_time (&queue, i), ==, time_ns[i]);
        first = time_ns[i] < time_ns[first] ? i : first;
      }
      g_assert_cmpint (ps_queue_first_ns (&queue), ==, time_ns[first]);
      if (random_below (rand, 3) > 0 || time_ns[first] == G_MAXINT64) {
        time_ns[id] = random_below (rand, step / 10 + 10);
        ps_queue_set (&queue, id, time_ns[id]);
        continue;
      }
      g_assert_cmpuint (ps_queue_take (&queue), ==, first);
      time_ns[first] = G_MAXINT64;
    }
    ps_queue_clear (&queue);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/events-random/relaxation", test_relaxation);
  g_test_add_func ("/events-random/definition", test_definition);
  g_test_add_func ("/events-random/check", test_check);
  g_test_add_func ("/events-random/speed", test_speed);
  g_test_add_func ("/events-random/plan", test_plan);
  g_test_add_func ("/events-random/arrange", test_arrange);
  g_test_add_func ("/events-random/monotone", test_monotone);
  g_test_add_func ("/events-random/busy", test_busy);
  g_test_add_func ("/events-random/links", test_links);
  g_test_add_func ("/events-random/runs", test_runs);
  g_test_add_func ("/events-random/queue", test_queue);
  return g_test_run ();
}

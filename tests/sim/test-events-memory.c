/* Tests of simulate.h on schedules and costs drawn at random: what devices hold, and orders that keep to a limit. */
#include "drawn-events.h"

#include <math.h>
#include <string.h>

/* Bytes that a device holds beside its weights, at most, when its ops run in the order of the schedule. */
static gint64 peak_of_order (const PsProgram *program, const PsCosts *costs, guint device)
{
  g_autoptr (PsSimulation) simulation = simulated (program, costs);

  return simulation->device[device].peak_bytes;
}

/* In what came of ready order every op starts after what it needs, on a device that is free; it is a valid schedule,
 * within the limit if the order given was, and the times under its ids are those of the run. */
static void check_realised (const PsProgram *program, const Drawn *drawn, const PsSimulation *simulation,
                            const gint64 *limit)
{
  fine (ps_schedule_validate (program->schedule, &error));
  for (guint i = 0; i < program->n_steps; i++) {
    const PsStep *step = &program->steps[i];
    gint64 duration = ps_step_duration (program, drawn->costs, i);

    g_assert_cmpint (simulation->end_ns[i + 1] - simulation->start_ns[i], ==, duration);
    g_assert_cmpint (simulation->start_ns[i], >=, simulation->end_ns[step->previous]);
    if (step->input == 0)
      continue;
    g_assert_cmpint (simulation->start_ns[i], >=, simulation->transfer_end_ns[i]);
    g_assert_cmpint (simulation->transfer_start_ns[i], >=, simulation->end_ns[step->input]);
    g_assert_cmpint (simulation->transfer_end_ns[i] - simulation->transfer_start_ns[i], ==,
                     drawn->costs->transfer_ns[step->transfer]);
  }
  for (guint device = 0; device < drawn->n_devices; device++) {
    g_assert_cmpint (peak_of_order (program, drawn->costs, device), ==, simulation->device[device].peak_bytes);
    g_assert_cmpint (simulation->device[device].peak_bytes, <=, limit[device]);
  }
}

static void test_ready_order (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (73);
  guint n_faster = 0, n_reordered = 0;

  for (guint i = 0; i < 2000; i++) {
    g_auto (Drawn) drawn = { 0 };

    draw (&drawn, rand, PS_COMM_ASAP, 0);
    forget_messages (drawn.costs); /* the limit is that of ops */
    g_autofree gint64 *limit = g_new (gint64, drawn.n_devices);
    PsEventsSetting setting
        = { .comm = (PsChannel)(i % 4), .ready_order = 1 + random_below (rand, 8), .memory_limit = limit };
    for (guint device = 0; device < drawn.n_devices; device++)
      limit[device] = peak_of_order (drawn.program, drawn.costs, device) + (i % 3) * 100;
    PsSimulation *simulation = ps_simulation_new (drawn.program);
    g_autoptr (PsEvents) events = fine (ps_events_new (drawn.program, drawn.costs, &setting, &error));
    fine (ps_events_run (events, drawn.costs, simulation, &error));
    gint64 makespan = simulation->makespan_ns;
    g_autoptr (PsProgram) realised = ps_events_realise (events, &simulation);
    check_realised (realised, &drawn, simulation, limit);
    g_assert_cmpint (simulation->makespan_ns, ==, makespan);
    ps_simulation_free (simulation);
    setting.ready_order = 0;
    g_autoptr (PsSimulation) kept = simulated_with (drawn.program, drawn.costs, &setting);
    n_faster += makespan < kept->makespan_ns;
    n_reordered
        += memcmp (realised->schedule->ops, drawn.program->schedule->ops, drawn.program->n_steps * sizeof (PsOp)) != 0;
  }
  g_test_message ("%u of 2000 in another order, %u faster", n_reordered, n_faster);
  g_assert_cmpuint (n_reordered, >, 500);
  g_assert_cmpuint (n_faster, >, 300);
}

/* Without the buffers of messages peaks count ops alone, and nothing else changes. */
static void test_times_only (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (89);

  for (guint i = 0; i < 200; i++) {
    g_auto (Drawn) drawn = { 0 };
    PsEventsSetting setting = { .comm = (PsChannel)(i % 4) };

    draw (&drawn, rand, PS_COMM_ASAP, 0);
    g_autoptr (PsSimulation) times = ps_simulation_new (drawn.program);
    times->times_only = TRUE;
    g_assert_true (ps_events_simulate (drawn.program, drawn.costs, &setting, times, NULL));
    forget_messages (drawn.costs);
    g_autoptr (PsSimulation) ops = simulated_with (drawn.program, drawn.costs, &setting);
    assert_same (&drawn, times, ops);
  }
}

/* Before the first op of a device, or pair, and after its last one: no part of a timeline. */
static gint64 outer_host_time (const Drawn *drawn, guint device)
{
  const PsSchedule *schedule = drawn->program->schedule;
  guint first = schedule->first[device], end = schedule->first[device + 1];

  if (first == end)
    return 0;
  return ps_step_host_time (drawn->program, drawn->costs, drawn->program->step_of[first + schedule->ops[first].paired])
             .before_ns
         + ps_step_host_time (drawn->program, drawn->costs, drawn->program->step_of[end - 1]).after_ns;
}

/* The memory curve of the timeline and the breakdown of simulate.h count the same buffers, what takes no time
 * included. */
static void test_buffers (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (79);

  for (guint i = 0; i < 1000; i++) {
    g_auto (Drawn) drawn = { 0 };
    PsEventsSetting setting = { .comm = (PsChannel)(i % 4) };

    draw (&drawn, rand, i % 8 < 4 ? PS_COMM_ASAP : PS_COMM_PLANNED, 0);
    g_autoptr (PsSimulation) simulation = simulated_with (drawn.program, drawn.costs, &setting);
    g_autoptr (PsTimeline) timeline = ps_timeline_from_simulation (drawn.program, drawn.costs, simulation);
    g_autoptr (PsMemory) memory = ps_memory_new (drawn.program, drawn.costs, simulation);
    g_auto (PsMetrics) metrics = { 0 };
    ps_metrics_from_timeline (timeline, &metrics);
    for (guint device = 0; device < drawn.n_devices; device++) {
      g_assert_cmpint (simulation->device[device].peak_bytes, ==, memory->device[device].peak_bytes);
      g_assert_cmpint (metrics.device[device].peak_memory_bytes, ==, memory->device[device].peak_bytes);
      g_assert_cmpint (metrics.device[device].busy_ns, ==, simulation->device[device].busy_ns);
      g_assert_cmpint (metrics.device[device].span_ns, ==,
                       simulation->device[device].end_ns - simulation->device[device].start_ns
                           - outer_host_time (&drawn, device));
    }
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/events-memory/ready-order", test_ready_order);
  g_test_add_func ("/events-memory/times-only", test_times_only);
  g_test_add_func ("/events-memory/buffers", test_buffers);
  return g_test_run ();
}

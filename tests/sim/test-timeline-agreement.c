/* Tests of timeline.h: figures of simulations and of their timelines agree, and files read back. */
#include "lower.h"
#include "random-schedule.h"
#include "timeline-rig.h"

static void
assert_same_metrics (const PsMetrics *a, const PsMetrics *b)
{
  g_assert_cmpint (a->makespan_ns, ==, b->makespan_ns);
  g_assert_cmpint (a->max_span_ns, ==, b->max_span_ns);
  g_assert_cmpint (a->iteration_ns, ==, b->iteration_ns);
  g_assert_cmpfloat (a->bubble_ratio, ==, b->bubble_ratio);
  g_assert_cmpfloat (a->bubble_ratio_span, ==, b->bubble_ratio_span);
  g_assert_cmpint (a->peak_memory_bytes, ==, b->peak_memory_bytes);
  g_assert_cmpuint (a->n_devices, ==, b->n_devices);
  for (guint d = 0; d < a->n_devices; d++)
    {
      g_assert_cmpint (a->device[d].busy_ns, ==, b->device[d].busy_ns);
      g_assert_cmpint (a->device[d].span_ns, ==, b->device[d].span_ns);
      g_assert_cmpint (a->device[d].peak_memory_bytes, ==, b->device[d].peak_memory_bytes);
      g_assert_cmpuint (a->device[d].peak_activations, ==, b->device[d].peak_activations);
    }
}

static PsCosts *
random_costs (GRand *random, guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint s = 0; s < n_stages; s++)
    {
      gint64 act = g_rand_int_range (random, 0, 1000);

      for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++)
        {
          int duration_ns = g_rand_int_range (random, -10, 100);

          /* Some ops take no time at all: their memory must not vanish from the curve. */
          ps_costs_op (costs, kind, s)->duration_ns = MAX (0, duration_ns);
        }
      ps_costs_set_memory (costs, s, act, act / 2);
      /* What an op needs only while it runs. */
      ps_costs_op (costs, PS_OP_B, s)->take_bytes += 77;
      ps_costs_op (costs, PS_OP_B, s)->give_bytes += 77;
      costs->stage[s].weight_bytes = g_rand_int_range (random, 0, 5000);
      costs->transfer_ns[ps_transfer_forward (costs, s)] = g_rand_int_range (random, 0, 20);
      costs->transfer_ns[ps_transfer_backward (costs, s)] = g_rand_int_range (random, 0, 20);
    }
  return costs;
}

/* Replaying a simulated timeline gives the simulation again; with an op of another schedule in it, it is refused. */
static void
check_replay (const PsProgram *program, const PsCosts *costs, PsTimeline *timeline, const PsSimulation *expected)
{
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  fine (ps_timeline_replay (program, costs, timeline, simulation, &error));
  g_assert_cmpmem (simulation->end_ns, (simulation->n_steps + 1) * sizeof (gint64), expected->end_ns,
                   (expected->n_steps + 1) * sizeof (gint64));
  g_assert_cmpint (simulation->makespan_ns, ==, expected->makespan_ns);
  g_array_index (timeline->ops, PsSpan, 0).op.microbatch += 1;
  refused (ps_timeline_replay (program, costs, timeline, simulation, &error), PS_ERROR_INPUT,
           "*: device 0: the timeline does not go on with F*");
}

static void
check_agreement (PsSchedule *schedule, GRand *random)
{
  g_autoptr (PsProgram) program = lower (schedule);
  g_auto (PsMetrics) from_simulation = { 0 };
  g_auto (PsMetrics) from_timeline = { 0 };
  g_autoptr (PsCosts) costs = random_costs (random, program->schedule->placement->n_stages);
  g_autoptr (PsSimulation) simulation = simulated (program, costs);

  ps_metrics_from_simulation (program, simulation, &from_simulation);
  g_autoptr (PsTimeline) timeline = ps_timeline_from_simulation (program, costs, simulation);
  ps_metrics_from_timeline (timeline, &from_timeline);
  assert_same_metrics (&from_simulation, &from_timeline);
  g_autofree char *json = ps_timeline_to_json (timeline);
  check_round_trip (json);
  check_replay (program, costs, timeline, simulation);
}

/* Both definitions of every figure agree exactly, for every family and random costs, and its file reads back. */
static void
test_agreement (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (7);
  guint n_families;
  const PsFamily *const *families = ps_family_table (&n_families);

  for (guint f = 0; f < n_families; f++)
    for (guint i = 0; i < 40; i++)
      {
        guint p = (guint)g_rand_int_range (random, 1, 7);
        PsFamilySetting setting = { .n_devices = p,
                                    .n_microbatches = p * (guint)g_rand_int_range (random, 1, 4),
                                    .n_chunks = families[f]->default_chunks };

        g_autoptr (PsSchedule) schedule = ps_family_generate (families[f], &setting, NULL);

        if (schedule != NULL)
          check_agreement (g_steal_pointer (&schedule), random);
      }
}

/* The same for schedules drawn at random, overlapped pairs included. */
static void
test_agreement_random (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (8);

  for (guint i = 0; i < 100; i++)
    check_agreement (random_schedule (random, TRUE), random);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/timeline/metrics/agreement", test_agreement);
  g_test_add_func ("/timeline/metrics/agreement-random", test_agreement_random);
  return g_test_run ();
}

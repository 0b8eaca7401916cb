/* Tests of answer.h where devices never meet: the critical circle and what a faster part saves. */
#include <pipesim/answer.h>

#include "family-case.h"
#include "random-costs.h"
#include "random-schedule.h"

#include <math.h>

#define US 1000

static gint64 time_on_path (const PsExplanation *explanation, PsPathKind kind)
{
  gint64 sum = 0;

  for (guint i = 0; i < explanation->path->len; i++) {
    const PsPathPart *part = &g_array_index (explanation->path, PsPathPart, i);

    sum += part->kind == kind ? part->end_ns - part->start_ns : 0;
  }
  return sum;
}

/* One device, GPipe of 2 microbatches: F F B B W W, then the all-reduce and O before the next F: 2 (1 + 2 + 3) + 4 + 5
 * us, and everything is on the circle. */
static void test_one_device (void)
{
  g_auto (Case) test = { 0 };

  predict (&test, "gpipe", 1, 2, 1, "f=1us,b=2us,w=3us,reduce=4us,o=5us");
  g_autoptr (PsExplanation) explanation
      = fine (ps_explain_steady (test.program, test.costs, NULL, PS_REDUCE_OVERLAPPED, &error));
  g_assert_cmpuint (explanation->n_iterations, ==, 1);
  g_assert_cmpint (explanation->makespan_ns, ==, 21 * US);
  g_assert_cmpint (time_on_path (explanation, PS_PATH_OP), ==, 12 * US);
  g_assert_cmpint (time_on_path (explanation, PS_PATH_REDUCE), ==, 4 * US);
  g_assert_cmpint (time_on_path (explanation, PS_PATH_OPTIMIZER), ==, 5 * US);
  g_assert_cmpint (time_on_path (explanation, PS_PATH_TRANSFER), ==, 0);
}

/* PipeDream, p = 2, transfers of 10 us: device 1 has one microbatch under way, device 0 two, so that a circle goes F0
 * -> F1 -> BW1 -> BW0 and round to F0 of two microbatches later: (1 + 10 + 1 + 2 + 10 + 2) us for every two of them. */
static void test_slow_transfers (void)
{
  g_auto (Case) test = { 0 };

  predict (&test, "pipedream", 2, 2, 1, "f=1us,bw=2us,c=10us");
  g_autoptr (PsExplanation) explanation
      = fine (ps_explain_steady (test.program, test.costs, NULL, PS_REDUCE_OVERLAPPED, &error));
  g_assert_cmpint (explanation->makespan_ns, ==, 26 * US * explanation->n_iterations);
  g_assert_cmpint (time_on_path (explanation, PS_PATH_TRANSFER), ==, 20 * US * explanation->n_iterations);
  g_autoptr (GArray) what_ifs
      = fine (ps_what_if_steady (test.program, test.costs, NULL, PS_REDUCE_OVERLAPPED, 0.5, 1, &error));
  const PsWhatIf *best = &g_array_index (what_ifs, PsWhatIf, 0);
  g_assert_cmpint (best->part.kind, ==, PS_PART_LINK);
  g_assert_cmpint (best->iteration_ns, ==, 16 * US);
  /* Without transfers each device is always busy: 3 us per microbatch. */
  g_assert_cmpint (best->least_ns, ==, 6 * US);
}

/* PipeDream steps its optimizer after each BW: one device is always busy, (1 + 2 + 5) us for each microbatch, and each
 * O on the path is that of the op before it. */
static void test_single_steps (void)
{
  g_auto (Case) test = { 0 };
  guint n_found = 0;

  predict (&test, "pipedream", 1, 3, 1, "f=1us,bw=2us,o=5us");
  g_autoptr (PsExplanation) explanation
      = fine (ps_explain_steady (test.program, test.costs, NULL, PS_REDUCE_OVERLAPPED, &error));
  g_assert_cmpint (explanation->makespan_ns, ==, 24 * US);
  g_assert_cmpint (time_on_path (explanation, PS_PATH_OPTIMIZER), ==, 15 * US);
  for (guint i = 0; i < explanation->path->len; i++) {
    const PsPathPart *part = &g_array_index (explanation->path, PsPathPart, i);
    guint before = (i + explanation->path->len - 1) % explanation->path->len;

    if (part->kind != PS_PATH_OPTIMIZER)
      continue;
    n_found++;
    g_assert_cmpuint (part->step, ==, g_array_index (explanation->path, PsPathPart, before).step);
    g_assert_cmpint (test.program->schedule->ops[test.program->op_of[part->step]].kind, ==, PS_OP_BW);
  }
  g_assert_cmpuint (n_found, ==, 3);
}

/* What a part waits for stands before it: with ops that take time and transfers that do not queue. */
static gboolean follows (const PsProgram *program, const PsPathPart *before, const PsPathPart *part)
{
  const PsStep *steps = program->steps;
  gboolean same = steps[before->step].device == steps[part->step].device;
  gboolean makes = before->step == steps[part->step].input - 1;

  if (part->kind == PS_PATH_TRANSFER)
    return before->kind == PS_PATH_OP && makes;
  if (part->kind == PS_PATH_OP)
    return before->kind == PS_PATH_TRANSFER ? before->step == part->step
           : before->kind == PS_PATH_OP     ? same || makes
                                            : same && before->kind == PS_PATH_OPTIMIZER;
  return before->kind != PS_PATH_TRANSFER && (part->kind == PS_PATH_OPTIMIZER || before->kind != PS_PATH_OPTIMIZER);
}

/* The iteration with a part saving a third, each time simulated. */
static gint64 saved_time (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events,
                          PsReduce reduce, const PsPart *part)
{
  g_autoptr (GError) error = NULL;
  g_autofree gint64 *duration_ns = g_new0 (gint64, program->n_steps), *transfer_ns = g_new0 (gint64, program->n_steps);
  PsEventsSetting setting = *events;
  PsIteration iteration;

  for (guint i = 0; i < program->n_steps; i++) {
    duration_ns[i]
        = ps_step_duration (program, costs, i) - llrint (1.0 / 3 * (double)ps_part_of_op (part, program, costs, i));
    transfer_ns[i] = costs->transfer_ns[program->steps[i].transfer]
                     - llrint (1.0 / 3 * (double)ps_part_of_transfer (part, program, costs, i));
  }
  setting.duration_ns = duration_ns;
  setting.transfer_ns = transfer_ns;
  g_autoptr (PsSimulation) simulation = simulated_with (program, costs, &setting);
  g_assert_true (
      ps_iteration_events (program, costs, simulation, &setting, PS_SYNC_BYPASS, reduce, &iteration, &error));
  return iteration.period_ns;
}

/* However few parts are asked for, they are those of the whole list, whose times are right. */
static void check_best (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events, PsReduce reduce)
{
  g_autoptr (GArray) all = ps_what_if_steady (program, costs, events, reduce, 1.0 / 3, G_MAXUINT, NULL);

  for (guint n = 1; n < 4; n++) {
    g_autoptr (GArray) best = ps_what_if_steady (program, costs, events, reduce, 1.0 / 3, n, NULL);

    g_assert_cmpuint (best->len, ==, MIN (n, all->len));
    for (guint i = 0; i < best->len; i++) {
      const PsWhatIf *x = &g_array_index (best, PsWhatIf, i), *y = &g_array_index (all, PsWhatIf, i);

      g_assert_cmpmem (&x->part, sizeof x->part, &y->part, sizeof y->part);
      g_assert_cmpint (x->iteration_ns, ==, y->iteration_ns);
      g_assert_cmpint (x->least_ns, ==, y->least_ns);
    }
  }
  for (guint i = 0; i < all->len; i++) {
    const PsWhatIf *what_if = &g_array_index (all, PsWhatIf, i);

    g_assert_cmpint (what_if->iteration_ns, ==, saved_time (program, costs, events, reduce, &what_if->part));
  }
}

/* The circle's time is the iteration time, exactly, and a part that is not on it saves nothing. */
static void check (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                   const PsEventsSetting *events, PsReduce reduce)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsExplanation) explanation = fine (ps_explain_steady (program, costs, events, reduce, &error));

  const GArray *path = explanation->path;
  gint64 n = explanation->n_iterations;
  PsIteration iteration;

  g_assert_true (ps_iteration_events (program, costs, simulation, events, PS_SYNC_BYPASS, reduce, &iteration, &error));
  if (path->len == 0) {
    g_assert_cmpint (iteration.period_ns, ==, 0);
    return;
  }
  g_assert_cmpint (iteration.period_ns, ==, (2 * explanation->makespan_ns + n) / (2 * n));
  for (guint i = 0; i + 1 < path->len; i++) {
    const PsPathPart *part = &g_array_index (path, PsPathPart, i);

    g_assert_cmpint (part[0].end_ns, ==, part[1].start_ns);
    g_assert_true (events->comm != PS_CHANNEL_LATENCY || follows (program, &part[0], &part[1]));
    if (part->kind == PS_PATH_OP)
      g_assert_cmpint (part->end_ns - part->start_ns, ==, ps_step_duration (program, costs, part->step));
    if (part->kind == PS_PATH_TRANSFER)
      g_assert_cmpint (part->end_ns - part->start_ns, ==, costs->transfer_ns[program->steps[part->step].transfer]);
  }
  g_autoptr (GArray) what_ifs = fine (ps_what_if_steady (program, costs, events, reduce, 1, G_MAXUINT, &error));
  for (guint i = 0; i < what_ifs->len; i++) {
    const PsWhatIf *what_if = &g_array_index (what_ifs, PsWhatIf, i);

    g_assert_cmpint (what_if->iteration_ns, <=, iteration.period_ns);
    g_assert_cmpint (what_if->iteration_ns, ==, what_if->least_ns);
  }
  check_best (program, costs, events, reduce);
}

static void test_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (19);

  for (guint i = 0; i < 300; i++) {
    g_autoptr (PsSchedule) schedule = random_schedule (rand, i % 2 == 1);
    g_autoptr (PsCosts) costs = random_costs (rand, schedule->placement->n_stages, 0);
    const PsEventsSetting events = { .comm = (PsChannel)(i % 4) };
    PsReduce reduce = i % 3 ? PS_REDUCE_OVERLAPPED : PS_REDUCE_EXPOSED;

    for (guint stage = 0; stage < costs->n_stages; stage++)
      costs->stage[stage].reduce_ns = costs->stage[stage].reduce2_ns = g_rand_int_range (rand, 1, 200);
    for (guint k = 0; k < PS_N_OP_KINDS * costs->n_stages; k++)
      costs->op[k].duration_ns++;
    g_autoptr (PsProgram) program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, NULL);
    g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
    if (!ps_events_simulate (program, costs, &events, simulation, NULL))
      continue;
    check (program, costs, simulation, &events, reduce);
  }
}

/* Kinds and stages faster by costs that say so. */
static void test_what_if (void)
{
  g_auto (Case) test = { 0 };

  predict (&test, "zb-h2", 4, 8, 1, "f=100us,b=120us,w=80us,c=7us,o=10us,reduce=30us");
  g_autoptr (GArray) what_ifs
      = fine (ps_what_if_steady (test.program, test.costs, NULL, PS_REDUCE_OVERLAPPED, 0.25, G_MAXUINT, &error));
  for (guint i = 0; i < what_ifs->len; i++) {
    const PsWhatIf *what_if = &g_array_index (what_ifs, PsWhatIf, i);
    g_autoptr (PsCosts) costs = ps_costs_copy (test.costs);

    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      for (guint stage = 0; stage < costs->n_stages; stage++)
        if (kind != PS_OP_O && (what_if->part.kind == PS_PART_KIND ? kind : stage) == what_if->part.a)
          ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns
              = ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns * 3 / 4;
    if (what_if->part.kind == PS_PART_LINK)
      continue;
    PsIteration iteration = ps_iteration (test.program, costs, NULL, PS_SYNC_BYPASS, PS_REDUCE_OVERLAPPED);
    g_assert_cmpint (what_if->iteration_ns, ==, iteration.period_ns);
  }
  g_assert_cmpuint (what_ifs->len, ==, 3 + 4 + 3);
}

static void test_unknown_times (void)
{
  const PsEventsSetting events = { .overlap_slowdown = 1.5 };
  g_auto (Case) test = { 0 };

  predict (&test, "1f1b", 2, 2, 1, "f=1us,bw=2us");
  refused (ps_explain_steady (test.program, test.costs, &events, PS_REDUCE_OVERLAPPED, &error), PS_ERROR_SCHEDULE,
           "1f1b: with shared links, overlap slow-down or ready order no one circle sets the pace; *");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/explain-steady/one-device", test_one_device);
  g_test_add_func ("/explain-steady/slow-transfers", test_slow_transfers);
  g_test_add_func ("/explain-steady/single-steps", test_single_steps);
  g_test_add_func ("/explain-steady/random", test_random);
  g_test_add_func ("/explain-steady/what-if", test_what_if);
  g_test_add_func ("/explain-steady/unknown-times", test_unknown_times);
  return g_test_run ();
}

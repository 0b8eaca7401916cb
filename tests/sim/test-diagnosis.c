/* Tests of observe.h, and of a timeline as schedule, simulation and explanation: hand-made timelines with a planted
 * straggler or a known cause of waiting, and simulated ones, whose explanation is known from the simulation. */
#include "lower.h"
#include "plan/diagnosis.h"

#include <pipesim/observe.h>
#include <pipesim/answer.h>
#include <pipesim/formats.h>

#include <string.h>

static PsTimeline *parse (const char *text)
{
  return fine (ps_timeline_parse_json ("test", text, -1, &error));
}

static PsProgram *program_of (const PsTimeline *timeline)
{
  PsSchedule *schedule = fine (ps_timeline_schedule (timeline, &error));

  return lower (schedule);
}

/* A family simulated. */
typedef struct {
  PsProgram *program;
  PsCosts *costs;
  PsSimulation *simulation;
  PsTimeline *timeline;
} Case;

static void case_clear (Case *test)
{
  ps_timeline_free (test->timeline);
  ps_simulation_free (test->simulation);
  ps_costs_free (test->costs);
  ps_program_free (test->program);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

static void simulate (Case *test, const char *family, guint p, guint m)
{
  g_autoptr (PsCosts) whole = NULL;

  test->program = lower_family (family, p, m, 0);
  whole = fine (ps_costs_parse ("f=10ms,b=11ms,w=7ms,c=2ms,o=3ms,act=4KiB,weights=3KiB", p,
                                test->program->schedule->placement->n_stages / p, &error));
  test->costs = ps_costs_slice (whole, test->program->schedule->n_slices);
  test->simulation = ps_simulation_new (test->program);
  ps_simulate (test->program, test->costs, test->simulation);
  test->timeline = ps_timeline_from_simulation (test->program, test->costs, test->simulation);
}

/* Idle time does not depend on what O takes elsewhere: the run's own counts. */
static void test_updates (void)
{
  g_autoptr (PsTimeline) timeline = parse (
      "{\"format\": \"pipesim-timeline/1\", \"origin\": \"measured\", \"schedule\": \"x\", \"source\": \"\", "
      "\"devices\": 1, \"stages\": 1, \"microbatches\": 1, \"iteration_ns\": 34, \"ops\": [[0, \"F0.0\", 0, 10, "
      "0], [0, \"BW0.0\", 10, 30, 0], [0, \"O0.0\", 30, 34, 0]], \"transfers\": [], \"memory\": []}");
  g_autoptr (PsProgram) program = program_of (timeline);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=10ns,bw=20ns,b=10ns,w=10ns,o=9ns", 1, 1, NULL);
  g_autoptr (PsSimulation) measured = ps_timeline_simulation (program, costs, timeline, NULL);
  g_autofree gint64 *host_ns = ps_timeline_host_times (program, timeline, measured);
  g_autoptr (PsExplanation) explanation = ps_explain_measured (program, measured, host_ns, timeline->iteration_ns);

  g_assert_cmpint (measured->device[0].optimizer_ns, ==, 4);
  g_assert_cmpint (explanation->idle_ns[PS_IDLE_SYNC], ==, 0);
}

static const struct {
  const char *family;
  guint p;
  guint m;
} families[] = { { "1f1b", 4, 8 },     { "zb-h1", 3, 7 },   { "interleaved", 2, 4 }, { "zb-v", 3, 6 },
                 { "dualpipe", 4, 8 }, { "chimera", 4, 4 }, { "dualpipe-v", 2, 4 },  { "gpipe", 1, 3 } };

/* The timeline of a schedule gives the schedule back: two weight copies and pairs included. */
static void test_schedule (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (families); i++) {
    g_auto (Case) test = { 0 };
    g_autoptr (PsSchedule) schedule = NULL;

    simulate (&test, families[i].family, families[i].p, families[i].m);
    const PsSchedule *expected = test.program->schedule;
    schedule = fine (ps_timeline_schedule (test.timeline, &error));
    g_assert_cmpmem (schedule->ops, ps_schedule_n_ops (schedule) * sizeof (PsOp), expected->ops,
                     ps_schedule_n_ops (expected) * sizeof (PsOp));
    g_assert_cmpint (schedule->placement->kind, ==, expected->placement->kind);
    g_assert_cmpuint (schedule->placement->n_copies, ==, expected->placement->n_copies);
    g_assert_cmpuint (schedule->n_slices, ==, expected->n_slices);
  }
}

static void test_no_schedule (void)
{
  g_autoptr (PsTimeline) timeline
      = parse ("{\"format\": \"pipesim-timeline/1\", \"origin\": \"measured\", \"schedule\": \"x\", \"source\": \"\", "
               "\"devices\": 1, \"stages\": 1, \"microbatches\": 2, \"iteration_ns\": 9, \"ops\": [[0, \"F0.0\", 0, 1, "
               "0]], \"transfers\": [], \"memory\": []}");

  refused (ps_timeline_schedule (timeline, &error), PS_ERROR_INPUT, "*stage 0 and microbatch 1*");
}

/* Read as if it had been measured, a simulated timeline has the path and the idle times of the simulation. */
static void test_simulated (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (families); i++) {
    g_auto (Case) test = { 0 };
    g_autoptr (PsExplanation) expected = NULL, explanation = NULL;
    gint64 iteration_ns;

    simulate (&test, families[i].family, families[i].p, families[i].m);
    iteration_ns = test.timeline->iteration_ns;
    g_autoptr (PsSimulation) measured = fine (ps_timeline_simulation (test.program, test.costs, test.timeline, &error));
    g_assert_cmpint (measured->makespan_ns, ==, test.simulation->makespan_ns);
    for (guint d = 0; d < measured->n_devices; d++) {
      g_assert_cmpint (measured->device[d].busy_ns, ==, test.simulation->device[d].busy_ns);
      g_assert_cmpint (measured->device[d].peak_bytes, ==, test.simulation->device[d].peak_bytes);
      g_assert_cmpint (measured->device[d].start_ns, ==, test.simulation->device[d].start_ns);
      g_assert_cmpint (measured->device[d].end_ns, ==, test.simulation->device[d].end_ns);
    }
    g_autofree gint64 *host_ns = ps_timeline_host_times (test.program, test.timeline, measured);
    expected = ps_explain (test.program, test.costs, test.simulation, iteration_ns);
    explanation = ps_explain_measured (test.program, measured, host_ns, iteration_ns);
    g_assert_cmpmem (explanation->idle_ns, explanation->n_devices * PS_N_IDLE * sizeof (gint64), expected->idle_ns,
                     expected->n_devices * PS_N_IDLE * sizeof (gint64));
    g_assert_cmpmem (explanation->path->data, explanation->path->len * sizeof (PsPathPart), expected->path->data,
                     expected->path->len * sizeof (PsPathPart));
  }
}

/* One microbatch through two devices:
 *
 *   device 0: F 0-10 .............................. BW 50-70
 *   device 1:          F 14-24, BW 25-45
 *
 * The activation travels from 10 to 12 and the gradient from 45 to 48; device 0 posts its receive from 47 to 49. */
#define RUN                                                                                                            \
  "{\"format\": \"pipesim-timeline/1\", \"origin\": \"measured\", \"schedule\": \"run\", \"source\": \"hand\", "       \
  "\"devices\": 2, \"stages\": 2, \"microbatches\": 1, \"iteration_ns\": 75, "                                         \
  "\"ops\": [[0, \"F0.0\", 0, 10, 0], [0, \"BW0.0\", 50, 70, 0], [1, \"F0.1\", 14, 24, 0], [1, \"BW0.1\", 25, 45, "    \
  "0]], "                                                                                                              \
  "\"memory\": [], \"posts\": [[0, \"RECEIVE B0.1\", 47, 49]], "

#define TRANSFERS "\"transfers\": [[0, 1, \"F0.0\", 10, 12], [1, 0, \"B0.1\", 45, 48]]}"

/* The same known by their waits: device 1 waits for the activation from the beginning until 12. */
#define WAITS "\"transfers\": [], \"waits\": [[0, \"B0.1\", 10, 48], [1, \"F0.0\", 0, 12]]}"

static void check_idle (const PsExplanation *explanation, guint device, const gint64 *expected)
{
  g_assert_cmpmem (&explanation->idle_ns[device * PS_N_IDLE], PS_N_IDLE * sizeof (gint64), expected,
                   PS_N_IDLE * sizeof (gint64));
}

static void test_causes (gconstpointer text)
{
  static const gint64 idle[2][PS_N_IDLE] = {
    /* Between F and BW: until 45 the backward, until 48 the transfer, then 1 of the post, and 1 for nothing. */
    { [PS_IDLE_BACKWARD] = 35,
      [PS_IDLE_TRANSFER] = 3,
      [PS_IDLE_HOST] = 1,
      [PS_IDLE_UNEXPLAINED] = 1,
      [PS_IDLE_SYNC] = 5 },
    { [PS_IDLE_WARM_UP] = 14, [PS_IDLE_UNEXPLAINED] = 1, [PS_IDLE_DRAIN] = 25, [PS_IDLE_SYNC] = 5 },
  };
  static const struct {
    PsPathKind kind;
    gint64 end_ns;
  } path[]
      = { { PS_PATH_OP, 10 }, { PS_PATH_TRANSFER, 12 }, { PS_PATH_WAIT, 14 }, { PS_PATH_OP, 24 }, { PS_PATH_WAIT, 25 },
          { PS_PATH_OP, 45 }, { PS_PATH_TRANSFER, 48 }, { PS_PATH_WAIT, 50 }, { PS_PATH_OP, 70 } };
  g_autoptr (PsTimeline) timeline = parse (text);
  g_autoptr (PsProgram) program = program_of (timeline);
  g_autoptr (PsCosts) costs = ps_costs_new (2);
  g_autoptr (PsSimulation) measured = ps_timeline_simulation (program, costs, timeline, NULL);
  g_autofree gint64 *host_ns = ps_timeline_host_times (program, timeline, measured);
  g_autoptr (PsExplanation) explanation = ps_explain_measured (program, measured, host_ns, timeline->iteration_ns);

  check_idle (explanation, 0, idle[0]);
  check_idle (explanation, 1, idle[1]);
  g_assert_cmpuint (explanation->path->len, ==, G_N_ELEMENTS (path));
  for (guint i = 0; i < G_N_ELEMENTS (path); i++) {
    const PsPathPart *part = &g_array_index (explanation->path, PsPathPart, i);

    g_assert_cmpint (part->kind, ==, path[i].kind);
    g_assert_cmpint (part->end_ns, ==, path[i].end_ns);
  }
}

/* The activation of microbatch 1 is made at 20, when device 1 is busy until 40, and there at 45: its transfer is on the
 * path from 40 on, after the op that device 1 was busy with. */
static void test_late_receiver (void)
{
  static const gint64 ends[] = { 10, 12, 40, 45, 60, 70, 80, 83, 95 };
  g_autoptr (PsTimeline) timeline = parse (
      "{\"format\": \"pipesim-timeline/1\", \"origin\": \"measured\", \"schedule\": \"run\", \"source\": \"hand\", "
      "\"devices\": 2, \"stages\": 2, \"microbatches\": 2, \"iteration_ns\": 95, "
      "\"ops\": [[0, \"F0.0\", 0, 10, 0], [0, \"F1.0\", 10, 20, 0], [0, \"BW0.0\", 72, 80, 0], [0, \"BW1.0\", 83, 95, "
      "0], "
      "[1, \"F0.1\", 12, 40, 0], [1, \"F1.1\", 45, 60, 0], [1, \"BW0.1\", 60, 70, 0], [1, \"BW1.1\", 70, 80, 0]], "
      "\"memory\": [], \"transfers\": [], \"waits\": [[0, \"B0.1\", 20, 72], [0, \"B1.1\", 80, 83], "
      "[1, \"F0.0\", 0, 12], [1, \"F1.0\", 40, 45]]}");
  g_autoptr (PsProgram) program = program_of (timeline);
  g_autoptr (PsCosts) costs = ps_costs_new (2);
  g_autoptr (PsSimulation) measured = ps_timeline_simulation (program, costs, timeline, NULL);
  g_autofree gint64 *host_ns = ps_timeline_host_times (program, timeline, measured);
  g_autoptr (PsExplanation) explanation = ps_explain_measured (program, measured, host_ns, timeline->iteration_ns);

  g_assert_cmpuint (explanation->path->len, ==, G_N_ELEMENTS (ends));
  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    g_assert_cmpint (g_array_index (explanation->path, PsPathPart, i).end_ns, ==, ends[i]);
}

/* Without gaps the ops and transfers take 10 + 2 + 10 + 20 + 3 + 20 = 65. */
static void test_replay (gconstpointer text)
{
  g_autoptr (PsTimeline) timeline = parse (text);
  g_autoptr (PsProgram) program = program_of (timeline);
  g_autoptr (PsCosts) costs = ps_costs_new (2);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  g_assert_true (ps_timeline_replay (program, costs, timeline, simulation, NULL));
  g_assert_cmpint (simulation->makespan_ns, ==, 65);
}

/* Only waits of messages are known: from 11 to 12 and from 46 to 48, 1 and 2 ns long. The messages take that, or what
 * the costs say if that is more, but no longer than from the end of their op to the end of the wait: 2 and 3 ns. */
static void test_replay_waits (void)
{
  static const gint64 costs_ns[][2]
      = { { 0, 60 + 1 + 2 }, { 1, 60 + 1 + 2 }, { 2, 60 + 2 + 2 }, { 3, 60 + 2 + 3 }, { 9, 60 + 2 + 3 } };
  g_autoptr (PsTimeline) timeline
      = parse (RUN "\"transfers\": [], \"waits\": [[0, \"B0.1\", 46, 48], [1, \"F0.0\", 11, 12]]}");
  g_autoptr (PsProgram) program = program_of (timeline);

  for (guint i = 0; i < G_N_ELEMENTS (costs_ns); i++) {
    g_autoptr (PsCosts) costs = ps_costs_new (2);
    g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

    costs->transfer_ns[ps_transfer_forward (costs, 0)] = costs->transfer_ns[ps_transfer_backward (costs, 1)]
        = costs_ns[i][0];
    g_assert_true (ps_timeline_replay (program, costs, timeline, simulation, NULL));
    g_assert_cmpint (simulation->makespan_ns, ==, costs_ns[i][1]);
  }
}

/* Iterations of 1f1b on four devices, 10 ms for each F and 20 ms for each BW. */
static GPtrArray *iterations_of (guint n)
{
  GPtrArray *iterations = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);

  for (guint i = 0; i < n; i++) {
    g_auto (Case) test = { 0 };

    simulate (&test, "1f1b", 4, 8);
    g_ptr_array_add (iterations, g_steal_pointer (&test.timeline));
  }
  return iterations;
}

/* Makes ops of that kind longer; stage, microbatch -1: of all. */
static void stretch (PsTimeline *timeline, PsOpKind kind, gint stage, gint microbatch, double factor)
{
  for (guint i = 0; i < timeline->ops->len; i++) {
    PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

    if (span->op.kind == kind && (stage < 0 || span->op.stage == stage)
        && (microbatch < 0 || (gint)span->op.microbatch == microbatch))
      span->end_ns = span->start_ns + (gint64)((double)(span->end_ns - span->start_ns) * factor);
  }
}

static GArray *slow_parts (const GPtrArray *iterations)
{
  g_autoptr (PsSchedule) schedule = ps_timeline_schedule (iterations->pdata[0], NULL);

  return ps_slow_parts (schedule, iterations);
}

static void test_nothing_slow (void)
{
  g_autoptr (GPtrArray) iterations = iterations_of (3);
  g_autoptr (GArray) slow = slow_parts (iterations);

  g_assert_cmpuint (slow->len, ==, 0);
}

/* Stage 2 takes half as long again for all its forwards: 5 ms more for each of 8 microbatches. */
static void test_slow_stage (void)
{
  g_autoptr (GPtrArray) iterations = iterations_of (3);

  for (guint i = 0; i < 3; i++)
    stretch (iterations->pdata[i], PS_OP_F, 2, -1, 1.5);
  g_autoptr (GArray) slow = slow_parts (iterations);
  g_assert_cmpuint (slow->len, ==, 1);
  const PsSlow *found = &g_array_index (slow, PsSlow, 0);
  g_assert_cmpint (found->kind, ==, PS_SLOW_STAGE);
  g_assert_cmpint (found->pass, ==, PS_PASS_FORWARD);
  g_assert_cmpuint (found->stage, ==, 2);
  g_assert_cmpuint (found->device, ==, 2);
  g_assert_cmpint (found->own_ns, ==, 15000000);
  g_assert_cmpint (found->peers_ns, ==, 10000000);
  g_assert_cmpint (found->excess_ns, ==, 40000000);
  g_assert_cmpfloat (found->ratio, ==, 1.5);
}

/* Forwards of 10, 14, 12 and x ms. Their median is 12, the lower one of the middle ones if x is more, and the
 * differences from it are 2, 2, 0 and x - 12, whose median is 2: what takes more than 12 + 3 x 1.4826 x 2 = 20.8956 is
 * slow. Where all but one take 10, more than a twentieth more is. */
static void test_deviations (void)
{
  static const struct {
    double factors[4];
    guint n_slow;
  } rows[] = {
    { { 1, 1.4, 1.2, 2.08 }, 0 }, { { 1, 1.4, 1.2, 2.1 }, 1 }, { { 1, 1, 1, 1.05 }, 0 }, { { 1, 1, 1, 1.051 }, 1 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (GPtrArray) iterations = iterations_of (1);

    for (gint stage = 0; stage < 4; stage++)
      stretch (iterations->pdata[0], PS_OP_F, stage, -1, rows[i].factors[stage]);
    g_autoptr (GArray) slow = slow_parts (iterations);
    g_assert_cmpuint (slow->len, ==, rows[i].n_slow);
    for (guint k = 0; k < slow->len; k++)
      g_assert_cmpuint (g_array_index (slow, PsSlow, k).stage, ==, 3);
  }
}

/* Ops of 18 ms: one that takes more than half as long again, and more than a hundredth of the iteration besides, is
 * slow. */
static void test_slow_op_limits (void)
{
  for (guint i = 0; i < 4; i++) {
    static const double factors[] = { 1.5, 1.51, 1.51, 1.51 };
    g_autoptr (GPtrArray) iterations = iterations_of (1);
    gint64 more_ns = (gint64)(18e6 * (factors[i] - 1));

    stretch (iterations->pdata[0], PS_OP_BW, 1, 3, factors[i]);
    ((PsTimeline *)iterations->pdata[0])->iteration_ns = i < 2 ? 200000000 : 100 * more_ns + (i == 2 ? 0 : -100);
    g_autoptr (GArray) slow = slow_parts (iterations);
    g_assert_cmpuint (slow->len, ==, i % 2);
  }
}

/* Microbatch 5 takes twice as long in all stages, in every iteration; backward 1 of stage 3 once, in the second. */
static void test_slow_microbatch_and_op (void)
{
  g_autoptr (GPtrArray) iterations = iterations_of (3);
  gboolean microbatch = FALSE, op = FALSE;

  for (guint i = 0; i < 3; i++)
    stretch (iterations->pdata[i], PS_OP_F, -1, 5, 1.3);
  stretch (iterations->pdata[1], PS_OP_BW, 3, 1, 4);
  g_autoptr (GArray) slow = slow_parts (iterations);
  g_assert_cmpuint (slow->len, ==, 2);
  for (guint i = 0; i < slow->len; i++) {
    const PsSlow *found = &g_array_index (slow, PsSlow, i);

    microbatch |= found->kind == PS_SLOW_MICROBATCH && found->microbatch == 5 && found->pass == PS_PASS_FORWARD
                  && found->ratio > 1.29 && found->ratio < 1.31;
    op |= found->kind == PS_SLOW_OP && found->stage == 3 && found->microbatch == 1 && found->iteration == 1
          && found->pass == PS_PASS_BACKWARD && found->excess_ns == 3 * 18000000;
  }
  g_assert_true (microbatch);
  g_assert_true (op);
}

/* Device 1 of four, with two stages: both are slow, so the device is, as the slower one of both. */
static void test_slow_device (void)
{
  g_autoptr (GPtrArray) iterations = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  g_auto (Case) test = { 0 };

  simulate (&test, "interleaved", 4, 8);
  stretch (test.timeline, PS_OP_F, 1, -1, 2);
  stretch (test.timeline, PS_OP_F, 5, -1, 3);
  g_ptr_array_add (iterations, g_steal_pointer (&test.timeline));
  g_autoptr (GArray) slow = slow_parts (iterations);
  g_assert_cmpuint (slow->len, ==, 1);
  g_assert_cmpint (g_array_index (slow, PsSlow, 0).kind, ==, PS_SLOW_DEVICE);
  g_assert_cmpuint (g_array_index (slow, PsSlow, 0).device, ==, 1);
  g_assert_cmpint (g_array_index (slow, PsSlow, 0).own_ns, ==, 15000000);
  g_assert_cmpint (g_array_index (slow, PsSlow, 0).peers_ns, ==, 5000000);
  g_assert_cmpfloat (g_array_index (slow, PsSlow, 0).ratio, ==, 3);
  g_assert_cmpint (g_array_index (slow, PsSlow, 0).excess_ns, ==, 8 * (5000000 + 10000000));
}

/* Iterations of 1 to 10 ms: by nearest rank the median is 5, p10 1 and p90 9. The last of four is slow. */
static void test_iterations (void)
{
  g_autoptr (GPtrArray) iterations = iterations_of (10), four = iterations_of (4);

  for (guint i = 0; i < 10; i++)
    ((PsTimeline *)iterations->pdata[i])->iteration_ns = 10 - i;
  PsIterationSpread spread = ps_iteration_spread (iterations);
  g_assert_cmpuint (spread.n, ==, 10);
  g_assert_cmpint (spread.median_ns, ==, 5);
  g_assert_cmpint (spread.p10_ns, ==, 1);
  g_assert_cmpint (spread.p90_ns, ==, 9);
  g_assert_cmpuint (ps_median_iteration (iterations), ==, 5);
  ((PsTimeline *)four->pdata[3])->iteration_ns *= 2;
  g_autoptr (GArray) slow = slow_parts (four);
  g_assert_cmpuint (slow->len, ==, 1);
  g_assert_cmpint (g_array_index (slow, PsSlow, 0).kind, ==, PS_SLOW_ITERATION);
  g_assert_cmpuint (g_array_index (slow, PsSlow, 0).iteration, ==, 3);
}

static void test_even (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms:3ms,bw=4ms:8ms,o=6ms:4ms,c=5us,pair=7ms:8ms", 2, 1, &error);
  g_autoptr (PsCosts) even = costs != NULL ? ps_costs_even (costs) : NULL;

  g_assert_no_error (error);
  for (guint stage = 0; stage < 2; stage++) {
    g_assert_cmpint (ps_costs_op (even, PS_OP_F, stage)->duration_ns, ==, 2000000);
    g_assert_cmpint (ps_costs_op (even, PS_OP_B, stage)->duration_ns, ==, 3000000);
    g_assert_cmpint (ps_costs_op (even, PS_OP_W, stage)->duration_ns, ==, 3000000);
    g_assert_cmpint (ps_costs_op (even, PS_OP_BW, stage)->duration_ns, ==, 6000000);
    g_assert_cmpint (ps_costs_op (even, PS_OP_O, stage)->duration_ns, ==, 5000000);
    g_assert_cmpint (even->stage[stage].pair_ns, ==, 7500000);
  }
  g_assert_cmpint (even->transfer_ns[ps_transfer_forward (even, 0)], ==, 5000);
  costs->stage[1].pair_ns = -1;
  g_autoptr (PsCosts) without = ps_costs_even (costs);
  g_assert_cmpint (without->stage[0].pair_ns, ==, -1);
  g_assert_cmpint (without->stage[1].pair_ns, ==, -1);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/diagnosis/schedule", test_schedule);
  g_test_add_func ("/diagnosis/no-schedule", test_no_schedule);
  g_test_add_func ("/diagnosis/simulated", test_simulated);
  g_test_add_func ("/diagnosis/late-receiver", test_late_receiver);
  g_test_add_data_func ("/diagnosis/causes/transfers", RUN TRANSFERS, test_causes);
  g_test_add_data_func ("/diagnosis/causes/waits", RUN WAITS, test_causes);
  g_test_add_data_func ("/diagnosis/replay/transfers", RUN TRANSFERS, test_replay);
  g_test_add_data_func ("/diagnosis/replay/waits", RUN WAITS, test_replay);
  g_test_add_func ("/diagnosis/replay/short-waits", test_replay_waits);
  g_test_add_func ("/diagnosis/nothing-slow", test_nothing_slow);
  g_test_add_func ("/diagnosis/slow-stage", test_slow_stage);
  g_test_add_func ("/diagnosis/deviations", test_deviations);
  g_test_add_func ("/diagnosis/slow-op-limits", test_slow_op_limits);
  g_test_add_func ("/diagnosis/slow-microbatch-and-op", test_slow_microbatch_and_op);
  g_test_add_func ("/diagnosis/slow-device", test_slow_device);
  g_test_add_func ("/diagnosis/iterations", test_iterations);
  g_test_add_func ("/diagnosis/updates", test_updates);
  g_test_add_func ("/diagnosis/even", test_even);
  return g_test_run ();
}

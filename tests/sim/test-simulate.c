/* Tests of simulate.h: closed forms, the zero-bubble paper's table, and an independent evaluator on random schedules.
 */
#include "family-case.h"
#include "random-costs.h"
#include "random-schedule.h"
#include <pipesim/bound.h>
#include <pipesim/timeline.h>

#include <string.h>

static void simulate_costs (Case *test, const char *name, guint p, guint m, guint v, const char *text)
{
  PsSchedule *schedule = fine (generate (name, p, m, v, &error));
  PsCosts *costs = fine (ps_costs_parse (text, p, v, &error));

  simulate (test, schedule, costs);
}

/* The first table of "Pipeline schedules: formulas and generation rules": makespan and activations in flight with c =
 * 0. */
static void check_closed_forms (guint p, guint m, guint v, gint64 f, gint64 b, gint64 w)
{
  static const char *const one_chunk[] = { "naive", "gpipe", "1f1b" };
  g_autofree char *costs
      = g_strdup_printf ("f=%" G_GINT64_FORMAT "ns,b=%" G_GINT64_FORMAT "ns,w=%" G_GINT64_FORMAT "ns,act=60B", f, b, w);
  gint64 whole = f + b + w;

  for (guint i = 0; i < G_N_ELEMENTS (one_chunk); i++) {
    g_auto (Case) test = { 0 };

    simulate_costs (&test, one_chunk[i], p, m, 1, costs);
    g_assert_cmpint (test.simulation->makespan_ns, ==, i == 0 ? (gint64)m * p * whole : (gint64)(m + p - 1) * whole);
    for (guint r = 0; r < p; r++) {
      guint alive = i == 0 ? 1 : i == 1 ? m : MIN (m, p - r);

      g_assert_cmpuint (test.program->peak_activations[r], ==, alive);
      g_assert_cmpint (test.simulation->device[r].peak_bytes, ==, 60 * (gint64)alive);
      g_assert_cmpint (test.simulation->device[r].busy_ns, ==, m * whole);
    }
  }
  if (p > 1) {
    g_auto (Case) test = { 0 };

    simulate_costs (&test, "interleaved", p, m * p, v, costs);
    /* f, b and w are multiples of v here, so that chunks are exact. */
    g_assert_cmpint (test.simulation->makespan_ns, ==, (gint64)m * p * whole + (p - 1) * whole / v);
    for (guint r = 0; r < p; r++)
      g_assert_cmpuint (test.program->peak_activations[r], ==, MIN (m * p * v, 2 * (p - r - 1) + (v - 1) * p + 1));
  }
}

static void test_closed_forms (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);

  for (guint i = 0; i < 500; i++) {
    guint v = 2 + random_below (rand, 3);

    check_closed_forms (1 + random_below (rand, 10), 1 + random_below (rand, 24), v,
                        v * (1 + (gint64)random_below (rand, 1000)), v * (1 + (gint64)random_below (rand, 1000)),
                        v * (1 + (gint64)random_below (rand, 1000)));
  }
}

static void assert_span (const PsTimeline *timeline, guint i, gint64 start_ns, gint64 end_ns)
{
  g_assert_cmpint (g_array_index (timeline->ops, PsSpan, i).start_ns, ==, start_ns);
  g_assert_cmpint (g_array_index (timeline->ops, PsSpan, i).end_ns, ==, end_ns);
}

/* One microbatch on two devices. F0.0: starting 10, running 100, sending 3. Its transfer takes 7, to 120. F0.1: taking
 * in 3, starting 10, 100, to 233. BW0.1: 10, 200, sending 3, to 446; transfer to 453. BW0.0: 3, 10, 200, to 666. The
 * lower bound has B0.1 in place of BW0.1, 100 less. */
static void test_host_time (void)
{
  g_auto (Case) test = { .costs = NULL };
  PsSchedule *schedule = generate ("gpipe", 2, 1, 1, NULL);
  PsCosts *costs = ps_costs_parse ("f=100ns,b=100ns,w=100ns,c=7ns,op=10ns,post=3ns", 2, 1, NULL);

  ps_costs_add_host_time (costs, schedule->placement->device, 1);
  g_assert_false (ps_costs_lack_host_time (costs));
  simulate (&test, schedule, costs);
  g_assert_cmpint (test.simulation->makespan_ns, ==, 666);
  g_assert_cmpint (test.simulation->device[0].busy_ns, ==, 300);
  g_assert_cmpint (test.simulation->device[0].host_ns, ==, 26);
  g_assert_cmpint (test.simulation->device[1].host_ns, ==, 26);
  g_assert_cmpint (ps_schedule_bound (test.program->schedule, costs, FALSE), ==, 566);
  g_autoptr (PsTimeline) timeline = ps_timeline_from_simulation (test.program, costs, test.simulation);
  assert_span (timeline, 0, 10, 110);
  assert_span (timeline, 1, 466, 666);
  assert_span (timeline, 2, 133, 233);
  assert_span (timeline, 3, 243, 443);
}

/* A V on two devices, whose turn between stages 1 and 2 is no message. W is never one. */
static void test_host_time_placement (void)
{
  g_autoptr (PsPlacement) v = ps_placement_new (PS_PLACEMENT_V, 2, 2), one = ps_placement_new (PS_PLACEMENT_LOOP, 1, 4);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=40ns,b=40ns,w=40ns,pair=400ns,op=10ns,post=3ns", 2, 2, NULL);
  g_autoptr (PsCosts) before = ps_costs_copy (costs), alone = ps_costs_copy (costs);

  ps_costs_add_host_time (costs, v->device, 1);
  ps_costs_add_host_time (costs, v->device, 1);
  for (guint stage = 0; stage < 4; stage++) {
    g_assert_cmpint (ps_costs_op (costs, PS_OP_F, stage)->duration_ns, ==, 20 + 10 + 3);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, stage)->duration_ns, ==, 40 + 10 + 3);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_W, stage)->duration_ns, ==, 20 + 10);
    g_assert_cmpint (ps_costs_host_time (costs, stage).after_ns, ==, stage % 2 == 0 ? 3 : 0);
    g_assert_cmpint (costs->stage[stage].pair_ns, ==, 200 + 13 + 10 + 3 + 3);
  }
  ps_costs_remove_host_time (costs);
  g_assert_cmpmem (costs->op, PS_N_OP_KINDS * 4 * sizeof *costs->op, before->op,
                   PS_N_OP_KINDS * 4 * sizeof *before->op);
  g_assert_cmpint (costs->stage[0].pair_ns, ==, 200);
  ps_costs_add_host_time (alone, one->device, 1);
  g_assert_cmpint (ps_costs_op (alone, PS_OP_B, 1)->duration_ns, ==, 20 + 10);
}

/* ZB-H1: bubble (p - 1)(F + B - W) for W <= B, W <= F and m >= p, and as many activations on every device as 1F1B has
 * on device 0 (W releases them). */
static void test_zb_h1 (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (2);

  for (guint i = 0; i < 300; i++) {
    guint p = 1 + random_below (rand, 10), m = 2 * p + random_below (rand, 24);
    gint64 w = 1 + random_below (rand, 1000), f = w + random_below (rand, 1000), b = w + random_below (rand, 1000);
    g_autofree char *costs
        = g_strdup_printf ("f=%" G_GINT64_FORMAT "ns,b=%" G_GINT64_FORMAT "ns,w=%" G_GINT64_FORMAT "ns", f, b, w);
    g_auto (Case) test = { 0 };

    simulate_costs (&test, "zb-h1", p, m, 1, costs);
    g_assert_cmpint (test.simulation->makespan_ns, ==, m * (f + b + w) + (p - 1) * (f + b - w));
    for (guint r = 0; r < p; r++)
      g_assert_cmpuint (test.program->peak_activations[r], ==, p);
  }
}

/* With transfers: 1F1B p = 2, m = 2, f = 1, bw = 2, c = 1 by hand (ms):
 * device 0: F0 0-1, F1 1-2, BW0 at 1 + 1 + 1 (F0 on 1 ends at 3) + 2 + 1 = 6-8, BW1: F1 on 1 runs at 5-6, BW1 6-8,
 * arrives 9, 9-11. device 1: F0 2-3, BW0 3-5, F1 5-6, BW1 6-8. */
static void test_transfers (void)
{
  g_auto (Case) test = { 0 };

  simulate_costs (&test, "1f1b", 2, 2, 1, "f=1ms,bw=2ms,c=1ms");
  g_assert_cmpint (test.simulation->makespan_ns, ==, 11000000);
  g_assert_cmpint (test.simulation->device[1].start_ns, ==, 2000000);
  g_assert_cmpint (test.simulation->device[1].end_ns, ==, 8000000);
  g_assert_cmpint (test.simulation->max_span_ns, ==, 11000000);
  g_assert_cmpint (test.simulation->device[1].busy_ns, ==, 6000000);
}

/* p = 1, one microbatch split in B and W: level 10 (weights), F +8 = 18, B gives 8 - 3, W gives 3. o counts per stage.
 */
static void test_memory (void)
{
  g_auto (Case) test = { 0 };

  simulate_costs (&test, "zb-h1", 1, 3, 1, "f=1ms,b=1ms,w=1ms,o=5ms,act=8B,wact=3B,weights=10B");
  g_assert_cmpint (test.simulation->device[0].peak_bytes, ==, 18);
  g_assert_cmpint (test.simulation->device[0].held_bytes, ==, 10);
  g_assert_cmpint (test.simulation->optimizer_ns, ==, 5000000);
  /* p = 2, device 1 of ZB-H1 holds F0 B0 F1 B1 W0: before W0 both kept 3 bytes, at F1's start 3 + 8. */
  g_auto (Case) two = { 0 };
  simulate_costs (&two, "zb-h1", 2, 4, 1, "f=1ms,b=1ms,w=1ms,act=8B,wact=3B");
  g_assert_cmpint (two.simulation->device[1].peak_bytes, ==, 11);
}

static double replay (const char *family, char **cost, guint v)
{
  g_auto (Case) test = { 0 };
  guint p = (guint)atoi (cost[2]), m = (guint)atoi (cost[3]);
  g_autofree char *costs = g_strdup_printf ("f=%sms,b=%sms,w=%sms,c=%sms", cost[5], cost[6], cost[7], cost[8]);

  simulate_costs (&test, family, p, m, v, costs);
  return 1 - (double)test.simulation->device[0].busy_ns / (double)test.simulation->makespan_ns;
}

static char **read_lines (const char *name)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", name, NULL);
  g_autofree char *text = NULL;

  fine (g_file_get_contents (path, &text, NULL, &error));
  return g_strsplit (g_strstrip (text), "\n", -1);
}

static double published_value (char **published, char **cost, const char *schedule)
{
  g_autofree char *start
      = g_strdup_printf ("Table 5,%s,%s,%s,%s,%s,bubble_rate,", cost[1], cost[2], cost[3], cost[4], schedule);

  for (guint i = 0; published[i] != NULL; i++)
    if (g_str_has_prefix (published[i], start))
      return g_ascii_strtod (published[i] + strlen (start), NULL);
  g_assert_not_reached ();
}

/* Table 5 of arXiv 2401.10241 from the costs of its Table 9 (fixtures). The published replay of 1F1B-I leaves out that
 * chunk k + 1's first stage waits for chunk k's last: the true order is longer, by about p c. */
static void test_published (void)
{
  g_auto (GStrv) costs = read_lines ("zero_bubble_costs.csv");
  g_auto (GStrv) published = read_lines ("zero_bubble_published.csv");
  guint n = 0;

  for (guint i = 1; costs[i] != NULL; i++) {
    g_auto (GStrv) cost = g_strsplit (costs[i], ",", -1);
    gboolean small = g_str_equal (cost[1], "1.5B");
    double interleaved = replay ("interleaved", cost, small ? 3 : 2),
           shown = published_value (published, cost, "1F1B-I");

    g_assert_cmpfloat_with_epsilon (replay ("1f1b", cost, 1), published_value (published, cost, "1F1B"), 0.0005);
    g_assert_cmpfloat_with_epsilon (replay ("zb-h1", cost, 1), published_value (published, cost, "ZB-H1"), 0.0005);
    g_test_message ("%s p=%s m=%s interleaved: ours %.4f, published %.4f", cost[1], cost[2], cost[3], interleaved,
                    shown);
    g_assert_cmpfloat (interleaved, >, shown);
    g_assert_cmpfloat (interleaved, <, shown + 0.004);
    if (!small && g_str_equal (cost[3], "96"))
      g_assert_cmpfloat_with_epsilon (interleaved, 0.1528, 0.00005);
    n++;
  }
  g_assert_cmpuint (n, ==, 6);
}

/* The definition, evaluated without order of evaluation: starts are raised until nothing changes. */
typedef struct {
  const PsSchedule *schedule;
  const PsCosts *costs;
  gint64 *start, *end; /* [n_ops] */
} Naive;

static gint64 find_end (const Naive *naive, gboolean forward, guint stage, guint microbatch)
{
  for (guint i = 0; i < ps_schedule_n_ops (naive->schedule); i++) {
    PsOp op = naive->schedule->ops[i];
    gboolean is_backward = op.kind == PS_OP_B || op.kind == PS_OP_BW;

    if (op.stage == stage && op.microbatch == microbatch && (forward ? op.kind == PS_OP_F : is_backward))
      return naive->end[i];
  }
  g_assert_not_reached ();
}

static gint64 naive_arrival (const Naive *naive, guint i)
{
  const PsPlacement *placement = naive->schedule->placement;
  PsOp op = naive->schedule->ops[i];
  gboolean forward = op.kind == PS_OP_F;

  if (op.kind == PS_OP_W || op.stage == (forward ? 0 : placement->n_stages - 1))
    return 0;
  guint from = forward ? op.stage - 1U : op.stage + 1U;
  gboolean local = placement->device[from] == placement->device[op.stage];
  guint transfer = forward ? 1 + from : 1 + placement->n_stages + from;
  return find_end (naive, forward, from, op.microbatch) + (local ? 0 : naive->costs->transfer_ns[transfer]);
}

static gint64 naive_duration (const Naive *naive, guint i, guint n)
{
  const PsOp *op = &naive->schedule->ops[i];
  gint64 sum = 0;

  for (guint k = 0; k < n; k++) {
    if (n == 2 && op[k].kind == PS_OP_F && naive->costs->stage[op[k].stage].pair_ns >= 0)
      return naive->costs->stage[op[k].stage].pair_ns;
    sum += ps_costs_op (naive->costs, (PsOpKind)op[k].kind, op[k].stage)->duration_ns;
  }
  return sum;
}

static gboolean naive_relax (const Naive *naive, guint device)
{
  const guint *first = naive->schedule->first;
  gboolean changed = FALSE;
  gint64 clock = 0;

  for (guint i = first[device], n; i < first[device + 1]; i += n) {
    n = naive->schedule->ops[i].paired ? 2 : 1;
    gint64 start = clock;
    for (guint k = 0; k < n; k++)
      start = MAX (start, naive_arrival (naive, i + k));
    clock = start + naive_duration (naive, i, n);
    for (guint k = 0; k < n; k++) {
      changed |= naive->end[i + k] != clock;
      naive->start[i + k] = start;
      naive->end[i + k] = clock;
    }
  }
  return changed;
}

static gint64 naive_peak (const Naive *naive, guint device)
{
  const PsSchedule *schedule = naive->schedule;
  gint64 level = 0, peak = 0;

  for (guint stage = 0; stage < schedule->placement->n_stages; stage++)
    level += schedule->placement->device[stage] == device ? naive->costs->stage[stage].weight_bytes : 0;
  peak = level;
  for (guint i = schedule->first[device], n; i < schedule->first[device + 1]; i += n) {
    n = schedule->ops[i].paired ? 2 : 1;
    for (guint k = 0; k < n; k++)
      level += ps_costs_op (naive->costs, (PsOpKind)schedule->ops[i + k].kind, schedule->ops[i + k].stage)->take_bytes;
    peak = MAX (peak, level);
    for (guint k = 0; k < n; k++)
      level -= ps_costs_op (naive->costs, (PsOpKind)schedule->ops[i + k].kind, schedule->ops[i + k].stage)->give_bytes;
  }
  return peak;
}

/* Given the times that the costs give, step by step, the other entry point finds the same; and a delay of one op shows.
 */
static void check_steps (const PsProgram *program, const PsCosts *costs, const PsSimulation *expected)
{
  g_autofree gint64 *durations = g_new (gint64, program->n_steps), *transfers = g_new (gint64, program->n_steps);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  for (guint i = 0; i < program->n_steps; i++) {
    durations[i] = ps_step_duration (program, costs, i);
    transfers[i] = costs->transfer_ns[program->steps[i].transfer];
  }
  ps_simulate_steps (program, costs, durations, transfers, simulation);
  g_assert_cmpmem (simulation->end_ns, (program->n_steps + 1) * sizeof (gint64), expected->end_ns,
                   (program->n_steps + 1) * sizeof (gint64));
  g_assert_cmpmem (simulation->device, simulation->n_devices * sizeof (PsDeviceResult), expected->device,
                   expected->n_devices * sizeof (PsDeviceResult));
  g_assert_cmpint (simulation->makespan_ns, ==, expected->makespan_ns);
  g_assert_cmpint (simulation->max_span_ns, ==, expected->max_span_ns);
  durations[program->n_steps - 1] += 1000000;
  ps_simulate_steps (program, costs, durations, transfers, simulation);
  g_assert_cmpint (simulation->end_ns[program->n_steps], ==, expected->end_ns[program->n_steps] + 1000000);
}

static void check_against_naive (GRand *rand, gboolean pairs)
{
  g_autoptr (PsSchedule) drawn = random_schedule (rand, pairs);
  g_autoptr (PsCosts) costs = random_costs (rand, drawn->placement->n_stages, 0);

  forget_messages (costs);
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    ps_costs_op (costs, PS_OP_B, stage)->take_bytes += 7;
    ps_costs_op (costs, PS_OP_B, stage)->give_bytes += 7;
  }
  g_autoptr (PsProgram) program = lower (g_steal_pointer (&drawn));
  const PsSchedule *schedule = program->schedule;
  g_autoptr (PsSimulation) simulation = simulated (program, costs);

  guint n = ps_schedule_n_ops (schedule);
  g_autofree gint64 *start = g_new0 (gint64, n), *end = g_new0 (gint64, n);
  Naive naive = { schedule, costs, start, end };
  gboolean changed = TRUE;
  while (changed) {
    changed = FALSE;
    for (guint device = 0; device < schedule->placement->n_devices; device++)
      changed |= naive_relax (&naive, device);
  }
  gint64 first = G_MAXINT64, last = 0;
  for (guint i = 0; i < n; i++) {
    guint step = program->step_of[i];
    gboolean in_front = program->pair != NULL && program->pair[step] == PS_PAIR_FIRST;

    g_assert_cmpuint (program->op_of[step], ==, i);
    g_assert_cmpint (simulation->end_ns[step + 1 + in_front], ==, end[i]);
    first = MIN (first, start[i]);
    last = MAX (last, end[i]);
  }
  g_assert_cmpint (simulation->makespan_ns, ==, last - first);
  for (guint device = 0; device < schedule->placement->n_devices; device++) {
    gint64 busy = 0;

    for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
      busy += i == schedule->first[device] || !schedule->ops[i - 1].paired ? end[i] - start[i] : 0;
    g_assert_cmpint (simulation->device[device].busy_ns, ==, busy);
    g_assert_cmpint (simulation->device[device].peak_bytes, ==, naive_peak (&naive, device));
  }
  g_assert_cmpint (ps_schedule_bound (schedule, costs, FALSE), <=, last);
  check_steps (program, costs, simulation);
}

static void test_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);

  for (guint i = 0; i < 400; i++)
    check_against_naive (rand, i % 2 == 1);
}

/* Scaling every cost scales the result; a second run gives the same bits. */
static void test_scaling (void)
{
  g_auto (Case) one = { 0 }, seven = { 0 };

  simulate_costs (&one, "interleaved", 4, 8, 3, "f=33us,b=36us,w=39us,c=5us,act=6B,wact=3B");
  simulate_costs (&seven, "interleaved", 4, 8, 3, "f=231us,b=252us,w=273us,c=35us,act=42B,wact=21B");
  g_assert_cmpint (seven.simulation->makespan_ns, ==, 7 * one.simulation->makespan_ns);
  g_assert_cmpint (seven.simulation->device[0].peak_bytes, ==, 7 * one.simulation->device[0].peak_bytes);
  g_autofree gint64 *before = g_memdup2 (one.simulation->end_ns, (one.simulation->n_steps + 1) * sizeof (gint64));
  ps_simulate (one.program, one.costs, one.simulation);
  g_assert_cmpmem (before, (one.simulation->n_steps + 1) * sizeof (gint64), one.simulation->end_ns,
                   (one.simulation->n_steps + 1) * sizeof (gint64));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/simulate/host-time", test_host_time);
  g_test_add_func ("/simulate/host-time-placement", test_host_time_placement);
  g_test_add_func ("/simulate/closed-forms", test_closed_forms);
  g_test_add_func ("/simulate/zb-h1", test_zb_h1);
  g_test_add_func ("/simulate/transfers", test_transfers);
  g_test_add_func ("/simulate/memory", test_memory);
  g_test_add_func ("/simulate/published", test_published);
  g_test_add_func ("/simulate/random", test_random);
  g_test_add_func ("/simulate/scaling", test_scaling);
  return g_test_run ();
}

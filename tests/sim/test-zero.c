/* Tests of ZeRO: its costs, the gathers that stage 3 puts into a schedule, and memory. */
#include "family-case.h"

#include <pipesim/simulate.h>

#include <math.h>

#define US G_GINT64_CONSTANT (1000)

/* State of one stage: weights 40, gradients 80, optimizer 120 bytes on 4 replicas; the all-reduce takes 12 us, O 8 us,
 * 3 of them the host's, so 5 us for 120 bytes. The reduce-scatter takes 6 us; the all-gather moves half as many bytes,
 * in 3 us of O unless forwards hide it.
 */
static void test_costs (void)
{
  static const struct {
    guint zero;
    gboolean overlap;
    gint64 held, whole, gather_ns, step_ns;
  } rows[] = { { 1, FALSE, 40 + 80 + 30, 0, 0, 7250 },
               { 1, TRUE, 40 + 80 + 30, 0, 0, 4250 },
               { 2, FALSE, 40 + 80 + 30, 0, 0, 7250 },
               { 3, FALSE, 10 + 80 + 30, 30, 3000, 4250 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsCosts) costs
        = ps_costs_parse ("f=1us,bw=2us,o=8us,reduce=12us,weights=240B,grad=80B,opt=120B", 1, 1, NULL);
    const PsStageCost *stage = &costs->stage[0];

    costs->stage[0].step_ns = 3 * US;
    costs->overlap_gather = rows[i].overlap;
    g_assert_true (ps_costs_zero (costs, NULL, NULL, 4, rows[i].zero, NULL));
    g_assert_cmpuint (costs->zero, ==, rows[i].zero);
    g_assert_cmpint (stage->weight_bytes, ==, rows[i].held);
    g_assert_cmpint (stage->whole_bytes, ==, rows[i].whole);
    g_assert_cmpint (stage->gather_ns, ==, rows[i].gather_ns);
    g_assert_cmpint (stage->reduce_ns, ==, 6 * US);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_O, 0)->duration_ns, ==, rows[i].step_ns);
  }
}

/* whole_bytes 0: they stay as they are. */
static void set_zero (Case *test, gint64 gather_ns, gint64 whole_bytes)
{
  test->costs->zero = 3;
  for (guint stage = 0; stage < test->costs->n_stages; stage++) {
    PsStageCost *cost = &test->costs->stage[stage];

    cost->gather_ns = gather_ns;
    cost->whole_bytes = whole_bytes > 0 ? whole_bytes : cost->whole_bytes;
  }
  ps_simulate (test->program, test->costs, test->simulation);
}

static gint64 part_at_peak (const Case *test, PsMemoryPart part)
{
  g_autoptr (PsMemory) memory = ps_memory_new (test->program, test->costs, test->simulation);

  g_assert_cmpint (memory->device[0].peak_bytes, ==, test->simulation->device[0].peak_bytes);
  return memory->device[0].peak.bytes[part];
}

/* One device with four stages, breadth first, two microbatches, F 1 us and BW 2 us. Three stages have their weights.
 *
 * Gathers of 1 us: stages 0, 1, 2 end at 1, 2, 3; F0 runs 1-3, stage 3 is gathered 3-4, all else is hidden: 8 us of F
 * and 16 of BW end at 25. Gathers of 20 us: stages 0 to 3 end at 20, 40, 60, 80; F3 runs 80-82, BW3 to 86, stage 0 is
 * gathered again to 106 (BW2 86-90, BW1 90-94), BW0 106-110. */
static void test_windows (void)
{
  g_auto (Case) test = { 0 };

  predict (&test, "looped-bfs", 1, 2, 4, "f=4us,b=4us,w=4us");
  g_assert_cmpint (test.simulation->makespan_ns, ==, 24 * US);
  set_zero (&test, 1 * US, 10);
  g_assert_cmpint (test.simulation->makespan_ns, ==, 25 * US);
  g_assert_cmpint (part_at_peak (&test, PS_MEMORY_WEIGHTS), ==, 30);
  set_zero (&test, 20 * US, 10);
  g_assert_cmpint (test.simulation->makespan_ns, ==, 110 * US);
  g_assert_cmpint (part_at_peak (&test, PS_MEMORY_WEIGHTS), ==, 30);
}

/* The stages of the next three, by their first ops. */
static guint next_stages (const PsSchedule *schedule, guint place, guint end, guint16 *stages)
{
  guint n = 0;

  for (guint i = place; i < end && n < 3; i++) {
    gboolean known = FALSE;

    for (guint k = 0; k < n; k++)
      known = known || stages[k] == schedule->ops[i].stage;
    if (!known)
      stages[n++] = schedule->ops[i].stage;
  }
  return n;
}

static gboolean holds (const guint16 *stages, guint n, guint stage)
{
  for (guint i = 0; i < n; i++)
    if (stages[i] == stage)
      return TRUE;
  return FALSE;
}

/* A stage whose weights a device has. */
typedef struct {
  guint device;
  guint stage;
  gint64 from_ns;
  gint64 until_ns; /* G_MAXINT64: not dropped yet */
} Held;

/* The most bytes of weights that a device has at the moment when one of them comes; those dropped then are gone. */
static gint64 peak_of (const Case *test, const GArray *held, guint device)
{
  gint64 peak = 0;

  for (guint i = 0; i < held->len; i++) {
    const Held *now = &g_array_index (held, Held, i);
    gint64 bytes = 0;

    for (guint k = 0; k < held->len; k++) {
      const Held *other = &g_array_index (held, Held, k);

      if (other->device == device && other->from_ns <= now->from_ns && now->from_ns < other->until_ns)
        bytes += test->costs->stage[other->stage].whole_bytes;
    }
    peak = MAX (peak, now->device == device ? bytes : 0);
  }
  return peak;
}

/* The end of every step by the definition: at each op a device gathers those of the next three stages that it did not
 * have before. It drops the others of them when the op before has ended. The peak of its memory follows. */
static void check_steps (const Case *test)
{
  g_autoptr (GArray) held = g_array_new (FALSE, FALSE, sizeof (Held));
  const PsSchedule *schedule = test->program->schedule;
  guint p = schedule->placement->n_devices, n_stages = schedule->placement->n_stages;
  g_autofree gint64 *end = g_new0 (gint64, test->program->n_steps + 1), *channel = g_new0 (gint64, p);
  g_autofree gint64 *ready = g_new0 (gint64, p * n_stages);

  for (guint i = 0; i < test->program->n_steps; i++) {
    const PsStep *step = &test->program->steps[i];
    guint d = step->device, place = test->program->op_of[i], last = schedule->first[d + 1];
    guint16 now[3], before[3];
    guint n_before = place > schedule->first[d] ? next_stages (schedule, place - 1, last, before) : 0;
    guint n = next_stages (schedule, place, last, now);
    gint64 arrival = step->input ? end[step->input] + test->costs->transfer_ns[step->transfer] : 0;

    for (guint k = 0; k < held->len; k++) {
      Held *one = &g_array_index (held, Held, k);

      if (one->device == d && one->until_ns == G_MAXINT64 && !holds (now, n, one->stage))
        one->until_ns = end[step->previous];
    }
    for (guint k = 0; k < n; k++)
      if (!holds (before, n_before, now[k])) {
        const Held one = { d, now[k], MAX (channel[d], end[step->previous]), G_MAXINT64 };

        g_array_append_val (held, one);
        channel[d] = one.from_ns + test->costs->stage[now[k]].gather_ns;
        ready[d * n_stages + now[k]] = channel[d];
      }
    end[i + 1] = MAX (MAX (arrival, end[step->previous]), ready[d * n_stages + schedule->ops[place].stage])
                 + test->costs->op[step->cost].duration_ns;
    g_assert_cmpint (test->simulation->end_ns[i + 1], ==, end[i + 1]);
  }
  for (guint d = 0; d < p; d++)
    g_assert_cmpint (test->simulation->device[d].peak_bytes, ==, peak_of (test, held, d));
}

static void test_definition (void)
{
  static const struct {
    const char *family;
    guint p, m, v;
  } rows[] = { { "1f1b", 4, 8, 1 },
               { "interleaved", 4, 8, 5 },
               { "looped-bfs", 2, 4, 6 },
               { "zb-v", 4, 8, 2 },
               { "hanayo", 2, 4, 4 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (gint64 gather_ns = 100; gather_ns < 100000; gather_ns *= 7) {
      g_auto (Case) test = { 0 };

      predict (&test, rows[i].family, rows[i].p, rows[i].m, rows[i].v, "f=10us,b=9us,w=8us,c=100ns");
      for (guint s = 0; s < test.costs->n_stages; s++)
        test.costs->stage[s].whole_bytes = 10 + s * s;
      set_zero (&test, gather_ns, 0);
      check_steps (&test);
      part_at_peak (&test, PS_MEMORY_WEIGHTS);
    }
}

/* Half of the optimizer state is that of experts, which every second of 4 replicas has: 60 / 4 + 60 / 2 bytes. So are
 * the weights: 20 / 4 + 20 / 2. The step takes 45 of 120 parts of 5 us besides the 3 us of the host, and in stage 1 the
 * all-gather. */
static void test_experts (void)
{
  for (guint zero = 1; zero <= 3; zero += 2) {
    g_autoptr (PsCosts) costs
        = ps_costs_parse ("f=1us,bw=2us,o=8us,reduce=12us,weights=240B,grad=80B,opt=120B", 1, 1, NULL);
    PsStageCost *stage = &costs->stage[0];

    costs->expert_copies = 0.5;
    stage->experts = (PsStateBytes){ .weight_bytes = 20, .optimizer_bytes = 60 };
    stage->step_ns = 3 * US;
    g_assert_true (ps_costs_zero (costs, NULL, NULL, 4, zero, NULL));
    g_assert_cmpint (stage->state.optimizer_bytes, ==, 15 + 30);
    g_assert_cmpint (stage->experts.optimizer_bytes, ==, 30);
    g_assert_cmpint (stage->state.weight_bytes, ==, zero == 3 ? 5 + 10 : 40);
    g_assert_cmpint (stage->whole_bytes, ==, zero == 3 ? 25 : 0);
    g_assert_cmpint (stage->weight_bytes, ==, 80 + 45 + (zero == 3 ? 15 : 40));
    g_assert_cmpint (ps_costs_op (costs, PS_OP_O, 0)->duration_ns, ==, 1875 + 3 * US + (zero == 3 ? 0 : 3 * US));
  }
}

/* One stage with all of Llama 3 8B is gathered by its units: the embedding with 525,336,576 of its 8,030,261,248
 * parameters, 32 layers of 218,112,000, and the head, 4,096 more than the embedding. The last layer and the head are
 * the largest two. The all-gather takes 30 us, the
 * reduce-scatter of twice as many bytes 60, and F and BW as long as theirs. */
static void test_units (void)
{
  const double all = 8030261248, embedding = 525336576, layer = 218112000;
  g_autoptr (PsModel) model = ps_model_load ("llama-3-8b", NULL);
  const PsCluster cluster = { .nodes = 1, .devices_per_node = 8, .tensor = 1 };

  for (guint slow = 0; slow < 2; slow++) {
    g_autoptr (PsCosts) costs
        = ps_costs_parse (slow ? "f=70us,b=80us,w=90us,o=8us,reduce=120us,weights=24GB,grad=8GB,opt=12GB"
                               : "f=1us,b=2us,w=3us,o=8us,reduce=120us,weights=24GB,grad=8GB,opt=12GB",
                          1, 1, NULL);
    const PsStageCost *stage = &costs->stage[0];

    costs->shapes = g_new (PsStageShape, 1);
    costs->shapes[0] = ps_model_whole (model);
    g_assert_true (ps_costs_zero (costs, model, &cluster, 4, 3, NULL));
    g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->duration_ns, ==, slow ? 70 * US : 30 * US);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_B, 0)->duration_ns, ==, slow ? 80 * US : 2 * US);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_W, 0)->duration_ns, ==, slow ? 90 * US : 88 * US);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 0)->duration_ns, ==, slow ? 170 * US : 90 * US);
    g_assert_cmpint (stage->gather_ns, ==, llround (30000 * embedding / all));
    g_assert_cmpint (stage->reduce_ns, ==, llround (60000 * embedding / all));
    const double most = (layer + embedding + 4096) / all;
    g_assert_cmpint (stage->whole_bytes, ==, llround (3e9 * most));
    g_assert_cmpint (stage->state.gradient_bytes, ==, 2000000000 + llround (6e9 * most));
    g_assert_cmpint (stage->weight_bytes, ==, 1000000000 + stage->state.gradient_bytes + 3000000000);
  }
}

/* A ring over 4 replicas at 1 B / ns: 6 steps of a quarter of 2400 bytes. Of gradients of which half are experts', held
 * twice, a ring over two would move 1200 / 2 in all and 3 quarters of it over four: as many as 800 bytes over four. If
 * one replica holds each expert, its gradients stay. */
static void test_reduced_experts (void)
{
  static const struct {
    gint64 expert_bytes;
    double copies; /* for each replica */
    gint64 ns;
  } rows[] = { { 0, 1, 6 * 600 },
               { 60, 1, 6 * 600 },
               { 60, 0.5, 6 * (1200 + 800) / 4 },
               { 60, 0.25, 6 * 300 },
               { 60, 0.1, 6 * 300 } };
  const PsCluster cluster = { .nodes = 1, .devices_per_node = 8, .link_bandwidth = 1e9, .tensor = 1 };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsCosts) costs = ps_costs_new (2);

    for (guint stage = 0; stage < 2; stage++) {
      costs->stage[stage].state = (PsStateBytes){ .gradient_bytes = 2400, .optimizer_bytes = 120 };
      costs->stage[stage].experts.gradient_bytes = rows[i].expert_bytes * 20;
    }
    costs->expert_copies = rows[i].copies;
    ps_costs_set_reduce (costs, &cluster, 2, 4);
    g_assert_cmpint (costs->stage[0].reduce_ns, ==, rows[i].ns);
    g_assert_cmpint (costs->stage[1].reduce_ns, ==, rows[i].ns);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/zero/costs", test_costs);
  g_test_add_func ("/zero/windows", test_windows);
  g_test_add_func ("/zero/definition", test_definition);
  g_test_add_func ("/zero/experts", test_experts);
  g_test_add_func ("/zero/units", test_units);
  g_test_add_func ("/zero/reduced-experts", test_reduced_experts);
  return g_test_run ();
}

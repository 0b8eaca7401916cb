/* Tests of answer.h; random schedules are held against it in test-simulate.c. */
#include "search-rig.h"

#include <math.h>

/* Of all schedules of the placement: one without ops has no others. */
static gint64 bound_of_all (const PsPlacement *placement, const guint8 *copy, guint m, const PsCosts *costs)
{
  g_autoptr (PsSchedule) schedule
      = ps_schedule_builder_end (ps_schedule_builder_new ("any", ps_placement_copy (placement), m));

  schedule->copy = g_memdup2 (copy, m);
  return ps_schedule_bound (schedule, costs, FALSE);
}

/* p = 2, one chunk, f = 1, b = 2, w = 3, c = 10 (ms), m microbatches.
 * Device 1: arrival 1 + 10, work 6 m. Chain: 1 + 10 + 1 + 2 + 10 + 2 + 3 = 29. */
static void test_loop (void)
{
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=2ms,w=3ms,c=10ms", 2, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);

  g_assert_cmpint (bound_of_all (placement, NULL, 1, costs), ==, 29000000);
  g_assert_cmpint (bound_of_all (placement, NULL, 10, costs), ==, 71000000);
}

/* V on 2 devices, 4 stages of 1, 1, 1 (ms), c = 5: device 1 first sees a microbatch at 1 + 5, device 0 works 6 m from
 * 0. */
static void test_v (void)
{
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=2ms,b=2ms,w=2ms,c=5ms", 2, 2, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_V, 2, 2);

  /* chain: 4 forwards, transfers 0-1 and 2-3, 4 backwards, 2 transfers, W: 4 + 10 + 4 + 10 + 1 */
  g_assert_cmpint (bound_of_all (placement, NULL, 1, costs), ==, 29000000);
  g_assert_cmpint (bound_of_all (placement, NULL, 10, costs), ==, 66000000);
}

/* A cheaper fused backward counts, and a pair counts where it is cheaper than its parts. */
static void test_fused (void)
{
  g_autoptr (PsCosts) fused = ps_costs_parse ("f=1ms,b=2ms,w=2ms,bw=3ms", 1, 1, NULL);
  g_autoptr (PsCosts) pair = ps_costs_parse ("f=1ms,bw=3ms,pair=2ms", 1, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 1, 1);

  g_assert_cmpint (bound_of_all (placement, NULL, 4, fused), ==, 16000000);
  g_assert_cmpint (bound_of_all (placement, NULL, 4, pair), ==, 8000000);
}

/* Two copies, all microbatches on copy 1: device 1 holds its stage 0 and starts at once. */
static void test_copies (void)
{
  static const guint8 copy[] = { 1, 1, 1, 1 };
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms:9ms,bw=1ms", 2, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 2, 1);

  /* stage 1 (9 + 1) of copy 1 is on device 0, from 1 ms on: 1 + 40 */
  g_assert_cmpint (bound_of_all (placement, copy, 4, costs), ==, 41000000);
}

/* Two copies on 4 devices, 10 microbatches on each. A device may begin with either copy. On device 1 the earliest
 * gradient is that of copy 1, whose stage 2 is there: from its first F on, F 1, transfer 10, F 1, B 2 and transfer 10
 * later, at 24. All F take 20, so it is idle for 4, and its work takes 120. */
static void test_two_copies (void)
{
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=2ms,w=3ms,c=10ms", 4, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 4, 1);

  g_assert_cmpint (ps_lower_bound_within (placement, 20, costs, NULL, PS_OBJECTIVE_SPAN), ==, 124000000);
  /* of an odd number the first copy has one more, which each device works on */
  g_assert_cmpint (ps_lower_bound_within (placement, 21, costs, NULL, PS_OBJECTIVE_SPAN), ==, 129000000);
}

static gint64 bound_of (const PsPlacement *placement, guint m, const PsCosts *costs, const PsEventsSetting *events)
{
  guint n;

  return ps_lower_bound_channels (placement, m, costs, events, &ps_channel_table (&n)[events->comm]);
}

/* The costs of test_loop, 10 microbatches: 20 transfers take 200. One end carries them all from 1 on, and 2 + 3 follow
 * the last gradient. An end of the forwards alone carries 100; 1 + 2 + 10 + 2 + 3 follow. Where device 1 is held up,
 * its work of 60 comes on top. Transfers that only slow down are as far apart as ops: 10 gradients of 1 each, but for
 * the first, add half of 9 to 11 and 60 of device 1. An end's transfers follow each other: 3 / 4 of 90. Between two
 * others a device with work of 120 also sends 10 results, but those of a pair go with the gradients. Of two copies a
 * single microbatch uses the first: device 1 is held up from the end of its F at 1 on, by two transfers and work of 63.
 */
static void test_channels (void)
{
  static const struct {
    PsEventsSetting events;
    gint64 bound;
  } known[] = {
    { { .comm = PS_CHANNEL_LATENCY }, 0 },      { { .comm = PS_CHANNEL_RANK }, 206000000 },
    { { .comm = PS_CHANNEL_PAIR }, 206000000 }, { { .comm = PS_CHANNEL_DIRECTION }, 119000000 },
    { { .blocking = TRUE }, 261000000 },        { { .comm = PS_CHANNEL_RANK, .eager_bytes = 8 }, 119000000 },
    { { .overlap_slowdown = 2 }, 75500000 },    { { .comm = PS_CHANNEL_DIRECTION, .overlap_slowdown = 4 }, 138500000 },
  };
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=2ms,w=3ms,c=10ms,msg=8B", 2, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);
  g_autoptr (PsCosts) between = ps_costs_parse ("f=1ms,b=2ms,w=3ms:9ms:3ms,c=10ms", 3, 1, NULL);
  g_autoptr (PsPlacement) three = ps_placement_new (PS_PLACEMENT_LOOP, 3, 1);
  g_autoptr (PsCosts) late = ps_costs_parse ("f=1ms,b=2ms,w=3ms:60ms,c=10ms", 2, 1, NULL);
  g_autoptr (PsPlacement) both = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 2, 1);

  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    g_assert_cmpint (bound_of (placement, 10, costs, &known[i].events), ==, known[i].bound);
  g_assert_cmpint (bound_of (three, 10, between, &known[6].events), ==, 135500000);
  g_assert_cmpint (bound_of (both, 1, late, &known[4].events), ==, 84000000);
}

/* Two copies may use a device one after the other: no more than one activation is held. */
static void test_in_turn (void)
{
  const gint64 limit[] = { 1 << 20, 1 << 20 };
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=1ms,w=1ms,act=1MiB,wact=1MiB", 2, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 2, 1);
  const PsSearchSetting setting
      = { .placement = placement, .n_microbatches = 2, .n_slices = 1, .costs = costs, .memory_limit = limit };

  g_assert_cmpint (ps_search_bound (&setting), <=, 10000000);
}

/* One device has two microbatches, F of 10 and BW of 1, and a pair of both takes no time: F, a pair, BW are 11. The
 * first F is in no pair, so 10 are certain. */
static void test_pair_of_no_time (void)
{
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=10ms,bw=1ms,pair=0", 1, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 1, 1);

  g_assert_cmpint (ps_lower_bound_within (placement, 2, costs, NULL, PS_OBJECTIVE_MAKESPAN), ==, 10000000);
  g_assert_cmpint (bound_of_all (placement, NULL, 2, costs), ==, 10000000);
}

/* Sums of times along the stages of one copy, without pairs. */
typedef struct {
  const Case *c;
  guint n;
  gint64 arrival[8];  /* of any F at a stage */
  gint64 gradient[8]; /* of any gradient */
  gint64 turn[8];     /* from the end of an F to the start of its B */
  gint64 rest[8];     /* from the start of a B to the end of its last op */
} Sums;

static gint64 time_at (const Sums *sums, PsOpKind kind, guint stage)
{
  return ps_costs_op (sums->c->costs, kind, stage)->duration_ns;
}

static gint64 hop_at (const Sums *sums, guint stage, gboolean back)
{
  const PsCosts *costs = sums->c->costs;
  const guint16 *device = sums->c->placement->device;

  if (device[stage] == device[stage + 1])
    return 0;
  return costs->transfer_ns[back ? 1 + costs->n_stages + stage + 1 : 1 + stage];
}

static void sum_up (Sums *sums, const Case *c)
{
  guint n = c->placement->n_stages;
  gint64 now = 0;

  *sums = (Sums){ .c = c, .n = n };
  for (guint s = 0; s < n; s++) {
    sums->arrival[s] = now;
    now += time_at (sums, PS_OP_F, s) + (s + 1 < n ? hop_at (sums, s, FALSE) : 0);
  }
  for (guint s = n; s-- > 0;) {
    sums->gradient[s] = now;
    sums->turn[s] = now - sums->arrival[s] - time_at (sums, PS_OP_F, s);
    now += time_at (sums, PS_OP_B, s) + (s > 0 ? hop_at (sums, s - 1, TRUE) : 0);
  }
  for (guint s = 0; s < n; s++) {
    gint64 below
        = s > 0 && c->setting.objective == PS_OBJECTIVE_MAKESPAN ? hop_at (sums, s - 1, TRUE) + sums->rest[s - 1] : 0;

    sums->rest[s] = time_at (sums, PS_OP_B, s) + MAX (time_at (sums, PS_OP_W, s), below);
  }
}

/* What answer.h says of one device: warm-up, drain, and the microbatches of a stage one after the other. */
static gint64 bound_of_device (const Sums *sums, guint device)
{
  const Case *c = sums->c;
  gint64 m = c->setting.n_microbatches, begin = G_MAXINT64, gradient = G_MAXINT64, load = 0, forwards = 0, longest = 0;
  gint64 least = G_MAXINT64, after = G_MAXINT64, held = 0, n = 0, n_fit, idle, bound, chain = 0;
  double left = 0;

  for (guint s = 0; s < sums->n; s++)
    if (c->placement->device[s] == device) {
      gint64 f = time_at (sums, PS_OP_F, s), b = time_at (sums, PS_OP_B, s), w = time_at (sums, PS_OP_W, s);
      double room = c->limit != NULL ? (double)c->limit[device] : 0;

      begin = MIN (begin, sums->arrival[s]);
      gradient = MIN (gradient, sums->gradient[s]);
      load += m * (f + b + w);
      forwards += m * f;
      longest = MAX (longest, f);
      n += m;
      least = MIN (least, ps_costs_act_bytes (c->costs, s));
      after = MIN (after, sums->turn[s] + sums->rest[s]);
      left = MAX (left, floor (room * (double)(b + w) / (double)ps_costs_act_bytes (c->costs, s)));
      left = MAX (left, floor (room * (double)w / (double)ps_costs_wact_bytes (c->costs, s)));
      chain = MAX (chain, sums->arrival[s] + f + sums->turn[s] + sums->rest[s] + (m - 1) * MAX (f, b));
      held += c->costs->stage[s].weight_bytes;
    }
  g_assert_cmpint (held, ==, 0);
  n_fit = c->limit != NULL ? MIN (n, c->limit[device] / least) : n;
  idle = MAX (gradient - begin - MIN (forwards, n_fit * longest), 0);
  bound = MAX (begin + idle + load, chain);
  if (c->limit != NULL)
    bound = MAX (bound, begin + (n_fit < n ? idle : 0) + MAX (load - (gint64)left, 0) + after);
  return bound - (c->setting.objective == PS_OBJECTIVE_SPAN ? begin : 0);
}

/* Without pairs a bound is never below these sums, of each device and of all. Where no memory is held for long, it is
 * often equal. */
static void test_sums (void)
{
  static const PsPlacementKind kinds[] = { PS_PLACEMENT_LOOP, PS_PLACEMENT_LOOP, PS_PLACEMENT_V };
  g_autoptr (GRand) random = g_rand_new_with_seed (31);
  guint n_equal = 0, n_limited = 0, n = 300;

  for (guint i = 0; i < n; i++) {
    const gint64 zero[4] = { 0 };
    g_auto (Case) c = { 0 };
    Sums sums;

    case_init (&c, kinds[i % 3], (guint)g_rand_int_range (random, 1, 5), 1 + (i % 3 > 0),
               (guint)g_rand_int_range (random, 1, 9), zero, 1, 1, i % 2 ? g_rand_int_range (random, 10, 60) : 0);
    for (guint s = 0; s < c.placement->n_stages; s++) {
      gint64 act = g_rand_int_range (random, 5, 20);

      for (guint kind = 0; kind < N_KINDS; kind++)
        ps_costs_op (c.costs, (PsOpKind)kind, s)->duration_ns = g_rand_int_range (random, 1, 30);
      ps_costs_op (c.costs, PS_OP_BW, s)->duration_ns
          = time_at (&(Sums){ .c = &c }, PS_OP_B, s) + time_at (&(Sums){ .c = &c }, PS_OP_W, s);
      ps_costs_set_memory (c.costs, s, act, g_rand_int_range (random, 1, (gint32)act + 1));
    }
    for (guint k = 1; k <= 2 * c.placement->n_stages; k++)
      c.costs->transfer_ns[k] = g_rand_int_range (random, 0, 20);
    c.setting.objective = i % 4 < 2 ? PS_OBJECTIVE_MAKESPAN : PS_OBJECTIVE_SPAN;
    sum_up (&sums, &c);
    gint64 longest = 0,
           bound = ps_lower_bound_within (c.placement, c.setting.n_microbatches, c.costs, c.limit, c.setting.objective);
    for (guint d = 0; d < c.placement->n_devices; d++)
      longest = MAX (longest, bound_of_device (&sums, d));
    g_assert_cmpint (bound, >=, longest);
    n_equal += bound == longest;
    n_limited
        += c.limit != NULL
           && bound > ps_lower_bound_within (c.placement, c.setting.n_microbatches, c.costs, NULL, c.setting.objective);
  }
  g_test_message ("%u of %u equal, %u higher within their memory", n_equal, n, n_limited);
  g_assert_cmpuint (n_equal, >=, n * 5 / 6);
  g_assert_cmpuint (n_limited, >=, n / 4);
}

/* Where iterations overlap, the work of the busiest device counts alone; else the bound is that of as many microbatches
 * as there are slices, of each copy. */
static void test_schedule (void)
{
  static const struct {
    const char *family;
    guint n_slices;
    gint64 bound, overlapped;
  } rows[] = {
    { "1f1b", 1, 10 + 1 + 4 * 6, 4 * 6 },    /* device 1 begins at 11 */
    { "seq1f1b", 2, 10 + 1 + 8 * 6, 8 * 6 }, /* costs are those of a slice */
    { "chimera", 1, 29, 2 * 6 + 2 * 6 },     /* a microbatch of either copy takes 29 */
  };
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=2ms,w=3ms,c=10ms", 2, 1, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const PsFamilySetting setting
        = { .n_devices = 2, .n_microbatches = 4, .n_chunks = 1, .n_slices = rows[i].n_slices, .costs = costs };
    g_autoptr (PsSchedule) schedule = fine (ps_family_generate (ps_family_find (rows[i].family), &setting, &error));

    g_assert_cmpint (ps_schedule_bound (schedule, costs, FALSE), ==, rows[i].bound * 1000000);
    g_assert_cmpint (ps_schedule_bound (schedule, costs, TRUE), ==, rows[i].overlapped * 1000000);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/bound/loop", test_loop);
  g_test_add_func ("/bound/v", test_v);
  g_test_add_func ("/bound/fused", test_fused);
  g_test_add_func ("/bound/copies", test_copies);
  g_test_add_func ("/bound/two-copies", test_two_copies);
  g_test_add_func ("/bound/channels", test_channels);
  g_test_add_func ("/bound/in-turn", test_in_turn);
  g_test_add_func ("/bound/pair-of-no-time", test_pair_of_no_time);
  g_test_add_func ("/bound/sums", test_sums);
  g_test_add_func ("/bound/schedule", test_schedule);
  return g_test_run ();
}

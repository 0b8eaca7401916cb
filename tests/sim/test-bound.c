/* Tests of bound.h; random schedules are held against it in test-simulate.c. */
#include <pipesim/search.h>

/* p = 2, one chunk, f = 1, b = 2, w = 3, c = 10 (ms), m microbatches.
 * Device 1: arrival 1 + 10, work 6 m. Chain: 1 + 10 + 1 + 2 + 10 + 2 + 3 = 29. */
static void
test_loop (void)
{
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=2ms,w=3ms,c=10ms", 2, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);

  g_assert_cmpint (ps_lower_bound (placement, NULL, 1, costs), ==, 29000000);
  g_assert_cmpint (ps_lower_bound (placement, NULL, 10, costs), ==, 71000000);
}

/* V on 2 devices, 4 stages of 1, 1, 1 (ms), c = 5: device 1 first sees a microbatch at 1 + 5, device 0 works 6 m from
 * 0. */
static void
test_v (void)
{
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=2ms,b=2ms,w=2ms,c=5ms", 2, 2, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_V, 2, 2);

  /* chain: 4 forwards, transfers 0-1 and 2-3, 4 backwards, 2 transfers, W: 4 + 10 + 4 + 10 + 1 */
  g_assert_cmpint (ps_lower_bound (placement, NULL, 1, costs), ==, 29000000);
  g_assert_cmpint (ps_lower_bound (placement, NULL, 10, costs), ==, 66000000);
}

/* A cheaper fused backward counts, and a pair counts where it is cheaper than its parts. */
static void
test_fused (void)
{
  g_autoptr (PsCosts) fused = ps_costs_parse ("f=1ms,b=2ms,w=2ms,bw=3ms", 1, 1, NULL);
  g_autoptr (PsCosts) pair = ps_costs_parse ("f=1ms,bw=3ms,pair=2ms", 1, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 1, 1);

  g_assert_cmpint (ps_lower_bound (placement, NULL, 4, fused), ==, 16000000);
  g_assert_cmpint (ps_lower_bound (placement, NULL, 4, pair), ==, 8000000);
}

/* Two copies, all microbatches on copy 1: device 1 holds its stage 0 and starts at once. */
static void
test_copies (void)
{
  static const guint8 copy[] = { 1, 1, 1, 1 };
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms:9ms,bw=1ms", 2, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 2, 1);

  /* stage 1 (9 + 1) of copy 1 is on device 0, from 1 ms on: 1 + 40 */
  g_assert_cmpint (ps_lower_bound (placement, copy, 4, costs), ==, 41000000);
}

/* The costs of test_loop, 10 microbatches: 20 transfers take 200. One end carries them all from 1 on, and 2 + 3 follow
 * the last gradient. An end of the forwards alone carries 100; 1 + 2 + 10 + 2 + 3 follow. Where device 1 is held up,
 * its work of 60 comes on top. Transfers that only slow down are as far apart as ops: 10 gradients of 1 each, but for
 * the first, add half of 9 to 11 and 60 of device 1. An end's transfers follow each other: 3 / 4 of 90. Between two
 * others a device with work of 120 also sends 10 results, but those of a pair go with the gradients. */
static void
test_channels (void)
{
  static const struct
  {
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

  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    g_assert_cmpint (ps_lower_bound_channels (placement, 10, costs, &known[i].events), ==, known[i].bound);
  g_assert_cmpint (ps_lower_bound_channels (three, 10, between, &known[6].events), ==, 135500000);
}

/* Two copies may use a device one after the other: no more than one activation is held. */
static void
test_in_turn (void)
{
  const gint64 limit[] = { 1 << 20, 1 << 20 };
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=1ms,w=1ms,act=1MiB,wact=1MiB", 2, 1, NULL);
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, 2, 1);
  const PsSearchSetting setting
      = { .placement = placement, .n_microbatches = 2, .n_slices = 1, .costs = costs, .memory_limit = limit };
  guint64 n_steps = 1000000;

  g_assert_cmpint (ps_search_bound (&setting, G_MAXINT64, NULL), <=, 10000000);
  g_assert_cmpint (ps_search_bound (&setting, G_MAXINT64, &n_steps), <=, 10000000);
}

static gint64
bound_of_mix (PsCosts *costs, gboolean may_recompute)
{
  const gint64 limit[] = { 4 << 20, 4 << 20 };
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);

  costs->may_recompute = may_recompute;
  return ps_lower_bound_within (placement, 8, costs, limit, PS_OBJECTIVE_MAKESPAN);
}

/* Each microbatch takes an R or more memory, unless pairs may hide the R, on whichever stage they are. */
static void
test_mix (void)
{
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=10ms,b=10ms,w=0,act=1MiB,wact=0", 2, 1, NULL);

  for (guint stage = 0; stage < 2; stage++)
    *ps_costs_op (costs, PS_OP_R, stage) = (PsOpCost){ 10000000, 3 << 20, 0 };
  g_assert_cmpint (bound_of_mix (costs, TRUE), >, bound_of_mix (costs, FALSE));
  costs->stage[1].pair_ns = 20000000;
  g_assert_cmpint (bound_of_mix (costs, TRUE), ==, bound_of_mix (costs, FALSE));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/bound/loop", test_loop);
  g_test_add_func ("/bound/v", test_v);
  g_test_add_func ("/bound/fused", test_fused);
  g_test_add_func ("/bound/copies", test_copies);
  g_test_add_func ("/bound/channels", test_channels);
  g_test_add_func ("/bound/in-turn", test_in_turn);
  g_test_add_func ("/bound/mix", test_mix);
  return g_test_run ();
}

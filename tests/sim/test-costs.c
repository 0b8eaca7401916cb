/* Tests of costs.h. */
#include "model-costs.h"
#include "error-rig.h"

#include <pipesim/costs.h>
#include <pipesim/work.h>

#include <string.h>

static gint64 duration (const PsCosts *costs, PsOpKind kind, guint stage)
{
  return ps_costs_op (costs, kind, stage)->duration_ns;
}

static void test_share (void)
{
  g_autoptr (PsCosts) costs
      = fine (ps_costs_parse ("f=5ns,b=6ns,w=4ns,c=3ns,o=2ns,act=9B,wact=4B,weights=7B", 2, 2, &error));

  g_assert_cmpuint (costs->n_stages, ==, 4);
  /* 5 ns over two chunks: stages 0, 1 are first chunks and take the odd nanosecond. */
  g_assert_cmpint (duration (costs, PS_OP_F, 0), ==, 3);
  g_assert_cmpint (duration (costs, PS_OP_F, 1), ==, 3);
  g_assert_cmpint (duration (costs, PS_OP_F, 2), ==, 2);
  g_assert_cmpint (duration (costs, PS_OP_BW, 3), ==, 5);
  g_assert_cmpint (duration (costs, PS_OP_R, 2), ==, 2);
  g_assert_cmpint (duration (costs, PS_OP_O, 1), ==, 1);
  for (guint stage = 0; stage < 3; stage++) {
    g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, stage)], ==, 3);
    g_assert_cmpint (costs->transfer_ns[ps_transfer_backward (costs, stage + 1)], ==, 3);
  }
  g_assert_cmpint (costs->transfer_ns[PS_TRANSFER_LOCAL], ==, 0);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->take_bytes, ==, 5);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_B, 0)->give_bytes, ==, 3);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_W, 0)->give_bytes, ==, 2);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 0)->give_bytes, ==, 5);
  g_assert_cmpint (costs->stage[0].weight_bytes + costs->stage[2].weight_bytes, ==, 7);
  g_assert_cmpint (costs->stage[0].pair_ns, ==, -1);
}

/* What defaults to not known or to what else is known. */
static void test_defaults (void)
{
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ns,bw=2ns,act=100B,weights=90B,msg=30B", 3, 1, NULL);

  g_assert_cmpint (costs->message_bytes[PS_TRANSFER_LOCAL], ==, 0);
  g_assert_cmpint (costs->message_bytes[ps_transfer_forward (costs, 1)], ==, 30);
  g_assert_cmpint (costs->message_bytes[ps_transfer_backward (costs, 1)], ==, 30);
  g_assert_cmpint (costs->stage[0].reduce_ns, ==, 0);
  g_assert_cmpint (costs->stage[0].host_ns, ==, -1);
  g_assert_cmpint (costs->stage[0].state.weight_bytes + costs->stage[0].state.gradient_bytes
                       + costs->stage[0].state.optimizer_bytes,
                   ==, 0);
  g_assert_cmpint (costs->stage[0].version_bytes, ==, 90);
  /* R brings back all that does not come in as a message; nothing comes in to the first stage. */
  g_assert_cmpint (ps_costs_op (costs, PS_OP_R, 0)->take_bytes, ==, 100);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_R, 1)->take_bytes, ==, 70);
}

/* Single values, the same for every chunk; post is op unless given. Slices keep them. */
static void test_host_keys (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCosts) one = ps_costs_parse ("f=1ns,bw=2ns,op=5ns", 2, 2, NULL);
  g_autoptr (PsCosts) slice = ps_costs_slice (one, 4);
  g_autoptr (PsCosts) two = ps_costs_parse ("f=1ns,bw=2ns,op=5ns,post=0", 1, 1, NULL);

  g_assert_cmpint (one->op_ns, ==, 5);
  g_assert_cmpint (one->post_ns, ==, 5);
  g_assert_cmpint (slice->op_ns + slice->post_ns, ==, 10);
  g_assert_cmpint (two->op_ns, ==, 5);
  g_assert_cmpint (two->post_ns, ==, 0);
  g_assert_null (ps_costs_parse ("f=1ns,bw=2ns,post=1ns:2ns", 2, 1, &error));
  g_assert_cmpstr (error->message, ==, "--costs: post has 2 values; give 1, for all devices");
  one->op_ns = (gint64)1 << 60;
  g_assert_false (ps_costs_check (one, 1, NULL));
  two->post_ns = -1;
  g_assert_false (ps_costs_check (two, 1, NULL));
}

static void test_training_keys (void)
{
  g_autoptr (PsCosts) costs
      = fine (ps_costs_parse ("f=4ns,bw=2ns,act=100B,weights=90B,grad=20B,opt=50B,msg=30B:40B:50B,"
                              "reduce=9ns,r=2ns,keep=10B,host=6ns",
                              2, 2, &error));

  g_assert_cmpint (costs->message_bytes[ps_transfer_backward (costs, 3)], ==, 50);
  g_assert_cmpint (costs->stage[0].reduce_ns + costs->stage[2].reduce_ns, ==, 9);
  g_assert_cmpint (costs->stage[0].reduce2_ns + costs->stage[2].reduce2_ns, ==, 9);
  g_assert_cmpint (costs->stage[1].host_ns, ==, 3);
  g_assert_cmpint (duration (costs, PS_OP_R, 1), ==, 1);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_R, 1)->take_bytes, ==, 45);
  g_assert_cmpint (costs->stage[1].state.weight_bytes, ==, 10);
  g_assert_cmpint (costs->stage[1].state.gradient_bytes, ==, 10);
  g_assert_cmpint (costs->stage[1].state.optimizer_bytes, ==, 25);
  g_assert_cmpint (costs->stage[1].version_bytes, ==, 10);
  g_autoptr (PsCosts) slice = ps_costs_slice (costs, 2);
  g_assert_cmpint (slice->message_bytes[ps_transfer_forward (costs, 0)], ==, 15);
  g_assert_cmpint (slice->stage[1].host_ns, ==, 2);
  g_assert_cmpint (slice->stage[0].reduce_ns, ==, costs->stage[0].reduce_ns);
}

/* 4 B in four slices are 1 B each; of the 2 B that B gives back, and of the 2 B for W, a quarter is 0.5 B, which rounds
 * to 1 B for one of them only. 3 B in two slices are 2 B each, and those come back. */
static void test_slice_memory (void)
{
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ns,bw=2ns,act=4B,wact=2B", 1, 1, NULL);
  g_autoptr (PsCosts) quarter = ps_costs_slice (costs, 4);
  g_autoptr (PsCosts) odd = ps_costs_parse ("f=1ns,bw=2ns,act=3B,wact=1B", 1, 1, NULL);
  g_autoptr (PsCosts) half = ps_costs_slice (odd, 2);

  g_assert_cmpint (ps_costs_op (quarter, PS_OP_F, 0)->take_bytes, ==, 1);
  g_assert_cmpint (ps_costs_op (quarter, PS_OP_B, 0)->give_bytes, ==, 0);
  g_assert_cmpint (ps_costs_op (quarter, PS_OP_W, 0)->give_bytes, ==, 1);
  g_assert_cmpint (ps_costs_op (half, PS_OP_F, 0)->take_bytes, ==, 2);
  g_assert_cmpint (ps_costs_op (half, PS_OP_B, 0)->give_bytes + ps_costs_op (half, PS_OP_W, 0)->give_bytes, ==, 2);
  g_assert_cmpint (ps_costs_op (half, PS_OP_BW, 0)->give_bytes, ==, 2);
}

static void test_lists (void)
{
  g_autoptr (PsCosts) costs = fine (ps_costs_parse ("f=1ms:2ms:3ms,bw=5ns,c=1us:2us,pair=7ms,act=1KiB", 3, 1, &error));

  g_assert_cmpint (duration (costs, PS_OP_F, 2), ==, 3000000);
  g_assert_cmpint (duration (costs, PS_OP_B, 0), ==, 2);
  g_assert_cmpint (duration (costs, PS_OP_W, 0), ==, 3);
  g_assert_cmpint (duration (costs, PS_OP_BW, 0), ==, 5);
  g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, 1)], ==, 2000);
  g_assert_cmpint (costs->transfer_ns[ps_transfer_backward (costs, 1)], ==, 1000);
  g_assert_cmpint (costs->stage[1].pair_ns, ==, 7000000);
  /* wact defaults to act: B gives nothing back. */
  g_assert_cmpint (ps_costs_op (costs, PS_OP_B, 1)->give_bytes, ==, 0);
  g_assert_cmpint (ps_costs_op (costs, PS_OP_W, 1)->give_bytes, ==, 1024);
}

static void test_refusals (void)
{
  static const struct {
    const char *text;
    const char *part;
  } bad[] = {
    { "f=1ms", "give f, and either b and w or bw alone" },
    { "f=1ms,b=1ms", "give f, and either b and w or bw alone" },
    { "f=1ms,b=1ms,bw=2ms", "give f, and either b and w or bw alone" },
    { "", "give f, and either b and w or bw alone" },
    { "f=1ms,,bw=1ms", "'' is not KEY=VALUE" },
    { "f=1ms,x=2ms", "'x=2ms' is not KEY=VALUE" },
    { "f", "'f' is not KEY=VALUE" },
    { "f=1ms,f=2ms", "f is given twice" },
    { "f=-1ms,bw=1ms", "'-1ms' is no time" },
    { "f=nan,bw=1ms", "'nan' is no time" },
    { "f=1ms,bw=1ms,act=-1", "'-1' is no size" },
    { "f=1ms:2ms,bw=1ms", "f has 2 values; give 1, or 4 (one per stage)" },
    { "f=1ms,bw=1ms,c=1:2", "c has 2 values; give 1, or 3 (one per boundary)" },
    { "f=1ms,bw=1ms,act=1B,wact=2B", "wact is larger than act" },
    { "f=1ms,bw=1ms,act=1B,keep=2B", "keep is larger than act" },
    { "f=1ms,bw=1ms,weights=2B,grad=2B,opt=1B", "grad + opt is larger than weights" },
    { "f=1ms,bw=1ms,msg=1B:2B", "msg has 2 values; give 1, or 3 (one per boundary)" },
    { "f=1ms,bw=1ms,host=1", "'1' is no time" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_null (ps_costs_parse (bad[i].text, 4, 1, &error));
    g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
    g_assert_true (g_str_has_prefix (error->message, "--costs: "));
    g_assert_nonnull (strstr (error->message, bad[i].part));
  }
}

/* 4096 stages of 10^15 ns and 2^20 microbatches: 4 * 10^24 is beyond 2^62. */
static void test_overflow (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCosts) costs = fine (ps_costs_parse ("f=1000000s,bw=1ns", 4096, 1, &error));

  refused (ps_costs_check (costs, 1 << 20, &error), PS_ERROR_USAGE,
           "command line: costs of stage 0 are negative, or too large for exact sums over 1048576 microbatches");
  g_autoptr (PsCosts) fine = ps_costs_parse ("f=1000000s,bw=1ns", 4, 1, &error);
  g_assert_true (ps_costs_check (fine, 100, &error));
  ps_costs_op (fine, PS_OP_W, 2)->duration_ns = -1;
  g_assert_false (ps_costs_check (fine, 100, &error));
  g_assert_nonnull (strstr (error->message, "stage 2"));
}

static void test_copy (void)
{
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,bw=2ms,c=1us,weights=4B", 2, 1, NULL);
  g_autoptr (PsCosts) copy = ps_costs_copy (costs);

  costs->stage[1].weight_bytes = 0;
  ps_costs_op (costs, PS_OP_F, 1)->duration_ns = 0;
  g_assert_cmpint (copy->stage[1].weight_bytes, ==, 4);
  g_assert_cmpint (duration (copy, PS_OP_F, 1), ==, 1000000);
  g_assert_cmpstr (copy->source, ==, "command line");
}

static const PsModel four_layers = { .name = (char *)"m",
                                     .layers = 4,
                                     .hidden = 64,
                                     .heads = 4,
                                     .kv_heads = 4,
                                     .sequence = 32,
                                     .feed_forward = 256,
                                     .vocabulary = 100,
                                     .microbatch_size = 1,
                                     .precision = PS_PRECISION_FP16,
                                     .mlp = PS_MLP_GELU };
static const PsCluster two_nodes = { .name = (char *)"c",
                                     .nodes = 2,
                                     .devices_per_node = 2,
                                     .peak_flops = 1e12,
                                     .efficiency = 0.5,
                                     .link_latency_ns = 100,
                                     .link_bandwidth = 1e9,
                                     .network_latency_ns = 1000,
                                     .network_bandwidth = 1e9,
                                     .tensor = 1 };

/* One layer per stage on a cluster of 10^12 FLOP/s at 50 %: F = flops / 500 per ns. */
static void test_model (void)
{
  g_autoptr (PsCosts) costs = fine (model_costs (&four_layers, &two_nodes, 4, 1, &error));

  /* F of a middle stage: bsh(24h + 4s) = 32*64*(24*64 + 4*32) = 3407872 FLOP / 500 per ns = 6815.7 */
  g_assert_cmpint (duration (costs, PS_OP_F, 1), ==, 6816);
  /* boundary: 32 * 64 * 2 = 4096 bytes at 1 byte per ns */
  g_assert_cmpint (costs->message_bytes[ps_transfer_forward (costs, 0)], ==, 4096);
  g_assert_cmpint (costs->message_bytes[ps_transfer_backward (costs, 3)], ==, 4096);
  g_assert_cmpint (costs->stage[2].state.optimizer_bytes, ==, 12 * (costs->stage[2].weight_bytes / 16));
  /* R brings back all that does not come in as a message, as in test_defaults; nothing is said of O. */
  for (guint stage = 0; stage < 4; stage++)
    g_assert_cmpint (ps_costs_op (costs, PS_OP_R, stage)->take_bytes, ==,
                     ps_costs_op (costs, PS_OP_F, stage)->take_bytes - (stage > 0 ? 4096 : 0));
  g_assert_cmpint (duration (costs, PS_OP_O, 1), ==, 0);
  g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, 0)], ==, 4196);
  g_assert_cmpint (costs->transfer_ns[ps_transfer_forward (costs, 1)], ==, 5096);
  g_assert_cmpint (costs->time_origin, ==, PS_ORIGIN_MODELLED);
  refused (model_costs (&four_layers, &two_nodes, 7, 1, &error), PS_ERROR_USAGE,
           "model 'm': its 4 layers, embedding and loss cannot be cut into 7 stages (devices times chunks)");
}

/* Devices 0 and 1 are in one node. Stage 1 comes to device 0 and leaves device 1 with a single stage. */
static void test_place (void)
{
  static const guint16 loop[] = { 0, 1, 0, 1 }, other[] = { 0, 0, 0, 1 }, far[] = { 2, 1, 0, 3 };
  PsModel model = four_layers;
  PsCluster cluster = two_nodes;
  g_autoptr (PsCosts) costs = NULL, placed = NULL;

  model.framework = PS_FRAMEWORK_MEGATRON;
  cluster.step_ns = 600;
  costs = model_costs (&model, &cluster, 2, 2, NULL);
  g_assert_cmpint (costs->stage[3].step_ns, ==, 300);
  ps_costs_add_context (costs, &model, 2);
  placed = ps_costs_copy (costs);
  ps_costs_place (placed, &model, &cluster, loop, 2, 1);
  for (guint s = 0; s < 4; s++) {
    g_assert_cmpint (placed->stage[s].weight_bytes, ==, costs->stage[s].weight_bytes);
    g_assert_cmpint (duration (placed, PS_OP_O, s), ==, duration (costs, PS_OP_O, s));
  }
  for (guint i = 1; i <= 8; i++)
    g_assert_cmpint (placed->transfer_ns[i], ==, costs->transfer_ns[i]);
  ps_costs_place (placed, &model, &cluster, other, 2, 1);
  g_assert_cmpint (placed->transfer_ns[ps_transfer_forward (placed, 0)], ==, 0);
  g_assert_cmpint (placed->transfer_ns[ps_transfer_backward (placed, 2)], ==, 0);
  g_assert_cmpint (placed->transfer_ns[ps_transfer_forward (placed, 2)], ==, 4196);
  for (guint s = 0; s < 4; s++) {
    gint64 whole = ps_framework_context_bytes (model.framework), part = s < 3 ? whole / 3 : whole;
    gint64 shared = ps_framework_habits (&model, &costs->shapes[s], 1).shared_bytes, own = s < 3 ? shared / 3 : shared;

    g_assert_cmpint (placed->stage[s].state.context_bytes, ==, part);
    g_assert_cmpint (placed->stage[s].state.buffer_bytes, ==, own);
    g_assert_cmpint (placed->stage[s].weight_bytes - costs->stage[s].weight_bytes, ==,
                     part - whole / 2 + own - shared / 2);
    g_assert_cmpint (duration (placed, PS_OP_O, s) - duration (costs, PS_OP_O, s), ==, s < 3 ? -100 : 300);
  }
  g_clear_pointer (&placed, ps_costs_free);
  placed = model_costs (&model, &cluster, 4, 1, NULL);
  ps_costs_place (placed, &model, &cluster, far, 4, 1);
  g_assert_cmpint (placed->transfer_ns[ps_transfer_forward (placed, 0)], ==, 5096);
  g_assert_cmpint (placed->transfer_ns[ps_transfer_forward (placed, 1)], ==, 4196);
  g_assert_cmpint (placed->transfer_ns[ps_transfer_backward (placed, 3)], ==, 5096);
}

/* The same layer where a device moves 2 bytes per ns and computes so fast that all kernels wait for it (work.h; b s =
 * 32, s b h = 2048, a s / h = 2, 12 h^2 + 13 h = 49984). Products move 2 (mk + kn + mn) bytes, of W 2 (mk + kn) + 4mn;
 * mn and kn and mk are the elements of 12 matrices of h by h, and 16 b s h:
 *   F (2048 * (46 + 13 * 2) + 2 * (49152 + 16 * 2048)) / 2 = 73728 + 81920
 *   B (2048 * (100 + 19 * 2) + 2 * (49152 + 16 * 2048)) / 2 = 141312 + 81920
 *   W (4 * 49152 + 2 * 16 * 2048) / 2 = 131072, O 28 * 49984 / 2
 * Selective recomputation repeats (13 * 4096 + 8 * 2048) / 2, full recomputation F. */
static void test_memory_bandwidth (void)
{
  static const PsRecompute kinds[] = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_SELECTIVE, PS_RECOMPUTE_FULL };
  static const gint64 again_ns[] = { 0, 34816, 155648 };
  PsCluster cluster = two_nodes;

  cluster.memory_bandwidth = 2e9;
  cluster.peak_flops = 1e18;
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    g_autoptr (PsCosts) costs = model_costs (&four_layers, &cluster, 4, 1, NULL);

    g_assert_true (ps_costs_recompute (costs, 1, &four_layers, &cluster, kinds[i], NULL));
    g_assert_cmpint (duration (costs, PS_OP_F, 1), ==, 155648);
    g_assert_cmpint (duration (costs, PS_OP_R, 1), ==, 155648);
    g_assert_cmpint (duration (costs, PS_OP_B, 1), ==, 223232 + again_ns[i]);
    g_assert_cmpint (duration (costs, PS_OP_W, 1), ==, 131072);
    g_assert_cmpint (duration (costs, PS_OP_BW, 1), ==, 223232 + 131072 + again_ns[i]);
    g_assert_cmpint (duration (costs, PS_OP_O, 1), ==, 699776);
  }
}

/* Every figure, times the microbatches and as often as an op or a message has it, must stay below 2^62: the largest
 * value is right, one more is not, nor is -1 where a figure cannot be unknown. An op of each of 6 kinds has op and two
 * posts. */
static void test_each_overflow (void)
{
  const gint64 limit = (gint64)1 << 62;

  for (guint i = 0; i < 17 + PS_N_OP_KINDS * 3; i++) {
    g_autoptr (PsCosts) costs = ps_costs_new (1);
    PsStageCost *stage = &costs->stage[0];
    PsOpCost *op = ps_costs_op (costs, i >= 17 ? (PsOpKind)((i - 17) / 3) : PS_OP_F, 0);
    struct {
      gint64 *value;
      gint64 times;
      gboolean negative; /* is possible */
    } rows[] = {
      { &costs->op_ns, 6, FALSE },
      { &costs->post_ns, 12, FALSE },
      { &stage->pair_ns, 1, TRUE },
      { &stage->host_ns, 1, TRUE },
      { &stage->reduce_ns, 1, FALSE },
      { &stage->reduce2_ns, 1, FALSE },
      { &stage->gather_ns, 1, FALSE },
      { &stage->whole_bytes, 1, FALSE },
      { &stage->weight_bytes, 1, FALSE },
      { &stage->version_bytes, 1, FALSE },
      { &costs->transfer_ns[ps_transfer_forward (costs, 0)], 1, FALSE },
      { &costs->transfer_ns[ps_transfer_backward (costs, 0)], 1, FALSE },
      { &costs->message_bytes[ps_transfer_forward (costs, 0)], 1, FALSE },
      { &costs->message_bytes[ps_transfer_backward (costs, 0)], 1, FALSE },
      { &op->give_bytes, 1, TRUE },
      { &op->take_bytes, 1, FALSE },
      { &op->duration_ns, 1, FALSE },
    };
    const guint row = i < 17 ? i : 14 + (i - 17) % 3;
    const gint64 most = (limit - 1) / (rows[row].times * 4);

    g_assert_true (ps_costs_check (costs, 4, NULL));
    *rows[row].value = most;
    g_assert_true (ps_costs_check (costs, 4, NULL));
    *rows[row].value = most + 1;
    g_assert_false (ps_costs_check (costs, 4, NULL));
    *rows[row].value = limit / 2;
    g_assert_false (ps_costs_check (costs, 4, NULL));
    *rows[row].value = -1;
    /* the larger one of the two all-reduces counts */
    if (rows[row].value != &stage->reduce_ns && rows[row].value != &stage->reduce2_ns)
      g_assert_true (ps_costs_check (costs, 4, NULL) == rows[row].negative);
  }
}

/* Two figures of which each is possible alone: times add up, and so do bytes, over all stages. */
static void test_sum_overflow (void)
{
  g_autoptr (PsCosts) costs = ps_costs_new (3);
  const gint64 half = (gint64)1 << 61;

  ps_costs_op (costs, PS_OP_F, 0)->duration_ns = half;
  costs->stage[2].weight_bytes = half;
  g_assert_true (ps_costs_check (costs, 1, NULL));
  ps_costs_op (costs, PS_OP_W, 2)->duration_ns = half - 1;
  costs->stage[0].version_bytes = half - 1;
  g_assert_true (ps_costs_check (costs, 1, NULL));
  costs->stage[0].version_bytes = half;
  refused (ps_costs_check (costs, 1, &error), PS_ERROR_USAGE, "*: costs of stage 2 are negative, or too large *");
  costs->stage[0].version_bytes = 0;
  ps_costs_op (costs, PS_OP_W, 1)->duration_ns = 1;
  refused (ps_costs_check (costs, 1, &error), PS_ERROR_USAGE, "*: costs of stage 2 are negative, or too large *");
}

/* Parts of the times of two slices, which need not add up to the whole: F 0.3 and 0.8 of 100 ns, and so on. A pair of
 * 250 ns keeps its part of F + B + W = 360 ns. Bytes are halves. Other numbers of slices are equal parts. */
static void test_slice_parts (void)
{
  static const double parts[][2] = { { 0.3, 0.8 }, { 0.5, 0.6 }, { 0.2, 0.4 }, { 0.4, 0.7 }, { 0.1, 0.9 } };
  static const gint64 first[] = { 30, 100, 12, 120, 9 }, second[] = { 80, 120, 24, 210, 81 },
                      average[] = { 55, 110, 18, 165, 45 }, third[] = { 33, 67, 20, 100, 30 };
  g_autoptr (PsCosts) costs
      = fine (ps_costs_parse ("f=100ns,bw=300ns,r=90ns,c=40ns,pair=250ns,act=8B,msg=6B", 2, 1, &error));
  PsSliceParts *slices = ps_slice_parts_new (2, NULL, 2);

  for (guint stage = 0; stage < 2; stage++) {
    ps_costs_op (costs, PS_OP_B, stage)->duration_ns = 200;
    ps_costs_op (costs, PS_OP_W, stage)->duration_ns = 60;
    for (guint kind = 0; kind < PS_OP_O; kind++)
      for (guint k = 0; k < 2; k++)
        slices->part[(kind * 2 + k) * 2 + stage] = parts[kind][k];
  }
  g_assert_cmpfloat (slices->transfer[0], ==, 1);
  for (guint i = 0; i < 8; i++)
    slices->transfer[i] = i % 4 < 2 ? 0.5 : 0.25;
  ps_costs_add_slices (costs, slices);
  g_assert_nonnull (ps_costs_slices (costs, 2));
  g_assert_null (ps_costs_slices (costs, 3));
  g_autoptr (PsCosts) mean = ps_costs_slice (costs, 2), none = ps_costs_slice (costs, 3);
  g_autoptr (PsCosts) nth_0 = ps_costs_nth_slice (costs, 2, 0), nth_1 = ps_costs_nth_slice (costs, 2, 1);
  g_autoptr (PsCosts) other = ps_costs_nth_slice (costs, 3, 2), least = ps_costs_least_slice (costs, 2);
  g_autoptr (PsCosts) copy = ps_costs_copy (costs);
  g_assert_nonnull (ps_costs_slices (copy, 2));
  for (guint stage = 0; stage < 2; stage++) {
    for (guint kind = 0; kind < PS_OP_O; kind++) {
      g_assert_cmpint (duration (mean, (PsOpKind)kind, stage), ==, average[kind]);
      g_assert_cmpint (duration (nth_0, (PsOpKind)kind, stage), ==, first[kind]);
      g_assert_cmpint (duration (nth_1, (PsOpKind)kind, stage), ==, second[kind]);
      g_assert_cmpint (duration (least, (PsOpKind)kind, stage), ==, first[kind]);
      g_assert_cmpint (duration (none, (PsOpKind)kind, stage), ==, third[kind]);
      g_assert_cmpint (duration (other, (PsOpKind)kind, stage), ==, third[kind]);
    }
    g_assert_cmpint (mean->stage[stage].pair_ns, ==, 127);  /* 250 * 183 / 360 */
    g_assert_cmpint (nth_0->stage[stage].pair_ns, ==, 99);  /* 250 * 142 / 360 */
    g_assert_cmpint (nth_1->stage[stage].pair_ns, ==, 156); /* 250 * 224 / 360 */
    g_assert_cmpint (none->stage[stage].pair_ns, ==, 83);
    g_assert_cmpint (ps_costs_op (mean, PS_OP_F, stage)->take_bytes, ==, 4);
  }
  g_assert_cmpint (mean->transfer_ns[ps_transfer_forward (mean, 0)], ==, 20);
  g_assert_cmpint (mean->transfer_ns[ps_transfer_backward (mean, 1)], ==, 10);
  g_assert_cmpint (none->transfer_ns[ps_transfer_forward (none, 0)], ==, 40);
  g_assert_cmpint (mean->message_bytes[ps_transfer_forward (mean, 0)], ==, 3);
}

/* New costs are of nothing, from nowhere. */
static void test_new (void)
{
  g_autoptr (PsCosts) costs = ps_costs_new (1);
  g_autofree char *text = ps_costs_describe (costs);

  g_assert_cmpstr (costs->source, ==, "");
  g_assert_null (strstr (text, "null"));
  g_assert_cmpint (costs->stage[0].pair_ns, ==, -1);
  g_assert_cmpint (costs->stage[0].host_ns, ==, -1);
  g_assert_cmpuint (costs->n_lengths, ==, 1);
  g_assert_cmpuint (costs->dense_copies, ==, 1);
  g_assert_cmpfloat (costs->expert_copies, ==, 1);
}

/* Boundaries without a time take the median of the others, which is between what was measured; the last stage sends
 * nothing on and the first nothing back, so they do not count. Where none is known, none takes time, by a formula. */
static void test_guess_transfers (void)
{
  static const struct {
    gint64 ns[6]; /* forward of stages 0 to 2, backward of 0 to 2; -1: not known */
    gint64 usual_ns;
    PsOrigin origin;
  } rows[] = {
    { { 5, 7, -1, -1, 9, 11 }, 7, PS_ORIGIN_MEASURED },      { { 5, 7, 3, 4, 9, 11 }, 5, PS_ORIGIN_MEASURED },
    { { 5, -1, -1, -1, 9, 11 }, 9, PS_ORIGIN_INTERPOLATED }, { { 5, 7, -1, -1, -1, 11 }, 7, PS_ORIGIN_INTERPOLATED },
    { { -1, 7, -1, -1, 9, 11 }, 9, PS_ORIGIN_INTERPOLATED }, { { 5, 7, -1, -1, 9, -1 }, 7, PS_ORIGIN_INTERPOLATED },
    { { -1, -1, -1, -1, -1, -1 }, 0, PS_ORIGIN_MODELLED }
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsCosts) costs = ps_costs_new (3);

    costs->transfer_origin = PS_ORIGIN_MEASURED;
    for (guint k = 0; k < 6; k++)
      costs->transfer_ns[k < 3 ? ps_transfer_forward (costs, k) : ps_transfer_backward (costs, k - 3)] = rows[i].ns[k];
    ps_costs_guess_transfers (costs);
    g_assert_cmpint (costs->transfer_origin, ==, rows[i].origin);
    for (guint k = 0; k < 6; k++) {
      guint at = k < 3 ? ps_transfer_forward (costs, k) : ps_transfer_backward (costs, k - 3);

      g_assert_cmpint (costs->transfer_ns[at], ==, rows[i].ns[k] >= 0 ? rows[i].ns[k] : rows[i].usual_ns);
    }
  }
}

/* Of B, W and BW what is not known follows from the others: BW is both, half of it is each, and no part is less than 0.
 */
static void test_guess (void)
{
  enum { B = 1 << PS_OP_B, W = 1 << PS_OP_W, BW = 1 << PS_OP_BW };
  static const struct {
    guint unknown;
    gint64 b, w, bw; /* ns */
    gint64 b_after, w_after, bw_after;
  } rows[]
      = { { 0, 3, 4, 9, 3, 4, 9 },     { BW, 3, 4, 0, 3, 4, 7 },  { B, 0, 4, 9, 5, 4, 9 },  { W, 3, 0, 9, 3, 6, 9 },
          { B | W, 0, 0, 9, 4, 5, 9 }, { B, 0, 10, 9, 0, 10, 9 }, { W, 10, 0, 9, 10, 0, 9 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsCosts) costs = ps_costs_new (2);

    costs->stage[1].unknown = rows[i].unknown;
    ps_costs_op (costs, PS_OP_B, 1)->duration_ns = rows[i].b;
    ps_costs_op (costs, PS_OP_W, 1)->duration_ns = rows[i].w;
    ps_costs_op (costs, PS_OP_BW, 1)->duration_ns = rows[i].bw;
    ps_costs_guess (costs, 1);
    g_assert_cmpint (duration (costs, PS_OP_B, 1), ==, rows[i].b_after);
    g_assert_cmpint (duration (costs, PS_OP_W, 1), ==, rows[i].w_after);
    g_assert_cmpint (duration (costs, PS_OP_BW, 1), ==, rows[i].bw_after);
    g_assert_cmpint (duration (costs, PS_OP_BW, 0), ==, 0);
  }
}

/* Both halves of a device's layers are stages of their own. */
static void test_model_chunks (void)
{
  g_autoptr (PsCosts) costs = fine (model_costs (&four_layers, &two_nodes, 2, 2, &error));

  g_assert_cmpuint (costs->n_stages, ==, 4);
  for (guint stage = 0; stage < 4; stage++) {
    g_assert_cmpuint (costs->shapes[stage].n_layers, ==, 1);
    g_assert_cmpuint (costs->shapes[stage].first_layer, ==, stage);
    g_assert_cmpint (costs->shapes[stage].head, ==, stage == 3);
    g_assert_cmpint (duration (costs, PS_OP_W, stage), >, 0);
  }
}

/* Half of the 8 bytes move to the host, in half of its 40 ns: F gives them back and a backward takes them, and each is
 * at least as long as that, and so is a pair. W has nothing to do with it. Costs without a host cannot, but nothing
 * can. */
static void test_offload (void)
{
  static const struct {
    const char *text;
    gint64 f, b, bw, pair;
  } rows[] = { { "f=5ns,b=15ns,w=1ns,pair=18ns,act=8B,host=40ns", 20, 20, 20, 20 },
               { "f=25ns,b=35ns,w=1ns,pair=48ns,act=8B,host=40ns", 25, 35, 36, 48 },
               { "f=5ns,b=35ns,w=1ns,act=8B,host=40ns", 20, 35, 36, -1 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsCosts) costs = fine (ps_costs_parse (rows[i].text, 2, 1, &error));

    fine (ps_costs_offload (costs, 1, 0.5, &error));
    fine (ps_costs_offload (costs, 0, 0, &error));
    g_assert_cmpint (duration (costs, PS_OP_F, 1), ==, rows[i].f);
    g_assert_cmpint (duration (costs, PS_OP_B, 1), ==, rows[i].b);
    g_assert_cmpint (duration (costs, PS_OP_BW, 1), ==, rows[i].bw);
    g_assert_cmpint (duration (costs, PS_OP_W, 1), ==, 1);
    g_assert_cmpint (costs->stage[1].pair_ns, ==, rows[i].pair);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 1)->give_bytes, ==, 4);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_B, 1)->take_bytes, ==, 4);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_BW, 1)->take_bytes, ==, 4);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_W, 1)->take_bytes, ==, 0);
    g_assert_cmpint (ps_costs_op (costs, PS_OP_F, 0)->give_bytes, ==, 0);
  }
  g_autoptr (PsCosts) none = ps_costs_parse ("f=5ns,bw=9ns,act=8B", 1, 1, NULL);
  fine (ps_costs_offload (none, 0, 0, &error));
  refused (ps_costs_offload (none, 0, 0.5, &error), PS_ERROR_USAGE, "--offload: command line does not say how fast *");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/costs/share", test_share);
  g_test_add_func ("/costs/slice-memory", test_slice_memory);
  g_test_add_func ("/costs/lists", test_lists);
  g_test_add_func ("/costs/defaults", test_defaults);
  g_test_add_func ("/costs/training-keys", test_training_keys);
  g_test_add_func ("/costs/host-keys", test_host_keys);
  g_test_add_func ("/costs/refusals", test_refusals);
  g_test_add_func ("/costs/overflow", test_overflow);
  g_test_add_func ("/costs/copy", test_copy);
  g_test_add_func ("/costs/model", test_model);
  g_test_add_func ("/costs/place", test_place);
  g_test_add_func ("/costs/memory-bandwidth", test_memory_bandwidth);
  g_test_add_func ("/costs/each-overflow", test_each_overflow);
  g_test_add_func ("/costs/sum-overflow", test_sum_overflow);
  g_test_add_func ("/costs/slice-parts", test_slice_parts);
  g_test_add_func ("/costs/new", test_new);
  g_test_add_func ("/costs/guess", test_guess);
  g_test_add_func ("/costs/guess-transfers", test_guess_transfers);
  g_test_add_func ("/costs/model-chunks", test_model_chunks);
  g_test_add_func ("/costs/offload", test_offload);
  return g_test_run ();
}

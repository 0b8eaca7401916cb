/* Tests of a GPU's part of a stage, and of what frameworks hold. */
#include "model-costs.h"
#include "folder-rig.h"
#include "error-rig.h"

#include <pipesim/setting.h>
#include <string.h>
#include <pipesim/costs.h>
#include <pipesim/work.h>

/* s = 64, b = 2, h = 32, a = 4, f = 128, V = 100, 2 bytes per element, 3 layers. */
static PsModel small (PsMlp mlp)
{
  return (PsModel){ .name = (char *)"small",
                    .layers = 3,
                    .hidden = 32,
                    .heads = 4,
                    .kv_heads = 4,
                    .sequence = 64,
                    .feed_forward = 128,
                    .vocabulary = 100,
                    .microbatch_size = 2,
                    .precision = PS_PRECISION_BF16,
                    .mlp = mlp };
}

static PsCluster two_nodes (void)
{
  return (PsCluster){ .name = (char *)"c",
                      .nodes = 2,
                      .devices_per_node = 4,
                      .peak_flops = 1e12,
                      .efficiency = 0.5,
                      .memory_bandwidth = 1e10,
                      .link_latency_ns = 100,
                      .link_bandwidth = 1e9,
                      .network_latency_ns = 1000,
                      .network_bandwidth = 0.25e9,
                      .tensor = 1 };
}

/* GPT: matrices of a layer 12 h^2 = 12288, biases of query, key, value and f 3 * 32 + 128 = 224: cut, 12512 / 2 = 6256;
 * whole: two norms 4 h = 128, biases of output and second matrix 2 h = 64: 6448 in all. The embedding V h / 2 = 1600
 * and the positions s h = 2048 whole; the head 1600 and a norm of 2 h = 64. Llama: 2 h^2 + 2 h^2 + 3 h f = 16384 / 2 =
 * 8192 and two norms of h = 32. */
static void test_parameters (void)
{
  const PsModel gpt = small (PS_MLP_GELU), llama = small (PS_MLP_SWIGLU);
  const PsStageShape layer = { .n_layers = 1 }, all = { .n_layers = 3, .embedding = TRUE, .head = TRUE };
  const PsCluster two = { .tensor = 2 };
  PsStateBytes experts;

  g_assert_cmpint (ps_tensor_parameters (&gpt, &layer, 2), ==, 6448);
  g_assert_cmpint (ps_tensor_parameters (&gpt, &all, 2), ==, 3 * 6448 + 1600 + 2048 + 1600 + 64);
  g_assert_cmpint (ps_tensor_parameters (&llama, &layer, 2), ==, 8192 + 64);
  g_assert_cmpint (ps_tensor_parameters (&llama, &all, 4), ==, 3 * (4096 + 64) + 800 + 800 + 32);
  g_assert_cmpint (ps_tensor_parameters (&gpt, &all, 1), ==, ps_model_parameters (&gpt));
  g_assert_cmpint (ps_tensor_parameters (&llama, &all, 1), ==, ps_model_parameters (&llama));
  /* 2 + 2 + 12 bytes */
  g_assert_cmpint (ps_tensor_state (&gpt, &layer, &two, &experts).optimizer_bytes, ==, 12 * 6448);
}

/* Time in which the GPUs of a device talk during F of a layer. */
static gint64 layer_ns (const PsModel *model, const PsCluster *cluster)
{
  return ps_tensor_stage_ns (model, &(PsStageShape){ .n_layers = 1 }, cluster, PS_OP_F);
}

/* sbh = 64 * 2 * 32 = 4096 elements, 8192 bytes. A ring of t = 4: 6 steps of 2048 bytes, 100 + 2048 ns each, and two of
 * them; t = 2: 2 steps of 4096 bytes. On a shared bus each of 4 GPUs gets a quarter: 100 + 8192 ns. */
static void test_ring (void)
{
  const PsModel model = small (PS_MLP_GELU);
  PsCluster one = two_nodes (), two = two_nodes (), four = two_nodes (), bus = two_nodes ();

  bus.link_shared = TRUE;
  g_assert_true (ps_cluster_group (&two, 2, NULL) && ps_cluster_group (&four, 4, NULL)
                 && ps_cluster_group (&bus, 4, NULL));
  g_assert_cmpint (layer_ns (&model, &one), ==, 0);
  g_assert_cmpint (layer_ns (&model, &two), ==, 2 * 2 * (100 + 4096));
  g_assert_cmpint (layer_ns (&model, &four), ==, 2 * 6 * (100 + 2048));
  g_assert_cmpint (layer_ns (&model, &bus), ==, 2 * 6 * (100 + 8192));
  four.collective_ns = 7000; /* before the steps of each ring */
  g_assert_cmpint (layer_ns (&model, &four), ==, 2 * (7000 + 6 * (100 + 2048)));
}

/* z = 8, two heads of keys and values on t = 4: each GPU keeps a whole head, 4 z = 32 where 1/t of both is 16. So of
 * keys and of values 2 (t - k) z 2 s b bytes more are kept in all, and 1/t of that on each GPU. q + 2c = 64 elements a
 * token are put together: 3 steps of 2 * 128 * 64 / 4 = 4096 bytes. */
static void test_repeated_heads (void)
{
  PsModel model = small (PS_MLP_SWIGLU);
  const PsStageShape layers = { .n_layers = 3 };
  PsCluster four = two_nodes ();

  model.kv_heads = 2;
  g_assert_true (ps_cluster_group (&four, 4, NULL));
  g_assert_cmpint (ps_tensor_kept_bytes (&model, &layers, PS_RECOMPUTE_NONE, 4), ==,
                   ps_model_stage_kept_bytes (&model, &layers, PS_RECOMPUTE_NONE) / 4 + 3 * 2 * 2 * 8 * 2 * 128 / 4);
  g_assert_cmpint (ps_tensor_kept_bytes (&model, &layers, PS_RECOMPUTE_FULL, 4), ==,
                   ps_model_stage_kept_bytes (&model, &layers, PS_RECOMPUTE_FULL) / 4);
  g_assert_cmpint (layer_ns (&model, &four), ==, 2 * 6 * (100 + 2048) + 3 * (100 + 4096));
}

/* Megatron-LM cuts no experts that have biases. A layer of two: router h 2, experts of f = 16: 3 h f + 2 f + h = 1600
 * each, h the bias of the output. */
static void test_biased_experts (void)
{
  PsModel model = small (PS_MLP_SWIGLU);
  const PsStageShape layer = { .n_layers = 1 };
  gint64 rest;

  model.other_biases = TRUE;
  model.experts = (PsExperts){ .count = 2, .active = 1, .feed_forward = 16, .imbalance = 1 };
  g_assert_cmpint (ps_tensor_expert_parameters (&model, &layer, 2), ==, 1600);
  rest = ps_tensor_parameters (&model, &layer, 2) - 1600;
  model.framework = PS_FRAMEWORK_MEGATRON;
  g_assert_cmpint (ps_tensor_expert_parameters (&model, &layer, 2), ==, 2 * 1600);
  g_assert_cmpint (ps_tensor_parameters (&model, &layer, 2), ==, rest + 2 * 1600);
  model.spread.experts = 2;
  g_assert_cmpint (ps_tensor_expert_parameters (&model, &layer, 2), ==, 1600);
  model.spread.experts = 1;
  model.other_biases = FALSE;
  g_assert_cmpint (ps_tensor_expert_parameters (&model, &layer, 2), ==, 3 * 32 * 16);
}

/* Four GPUs of a node are two devices of two: devices 0 and 1 share a node, 1 and 2 do not. Ports of GPUs carry what
 * they did; the one port of a node is halved. */
static void test_group (void)
{
  g_autoptr (GError) error = NULL;
  PsCluster own = two_nodes (), port = two_nodes (), three = two_nodes ();

  port.network_shared = TRUE;
  g_assert_true (ps_cluster_group (&own, 2, &error) && ps_cluster_group (&port, 2, &error));
  g_assert_cmpint (ps_cluster_transfer_ns (&own, 0, 1, 1000), ==, 100 + 1000);
  g_assert_cmpint (ps_cluster_transfer_ns (&own, 1, 2, 1000), ==, 1000 + 4000);
  g_assert_cmpint (ps_cluster_transfer_ns (&port, 1, 2, 1000), ==, 1000 + 8000);
  refused (ps_cluster_group (&three, 3, &error), PS_ERROR_USAGE,
           "--tensor 3: does not divide the 4 GPUs of a node of cluster 'c'; the GPUs of a device share a node");
}

static void check_refused (PsModel model, guint n_tensor, const char *what)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (ps_tensor_check (&model, n_tensor, FALSE, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_nonnull (strstr (error->message, what));
}

static void test_check (void)
{
  PsModel model = small (PS_MLP_GELU);

  g_assert_true (ps_tensor_check (&model, 4, FALSE, NULL));
  check_refused (model, 8, "--tensor 8: does not divide heads 4 of model 'small'");
  model.kv_heads = 1;
  check_refused (model, 2, "kv_heads 1");
  g_assert_true (ps_tensor_check (&model, 2, TRUE, NULL));
  model.kv_heads = 3;
  g_assert_false (ps_tensor_check (&model, 2, TRUE, NULL));
  model = small (PS_MLP_GELU);
  model.feed_forward = 130;
  check_refused (model, 4, "feed_forward 130");
  model = small (PS_MLP_GELU);
  model.sequence = 66;
  check_refused (model, 4, "sequence 66");
}

static gint64 duration (const PsCosts *costs, PsOpKind kind, guint stage)
{
  return ps_costs_op (costs, kind, stage)->duration_ns;
}

/* Against one GPU to a device: a quarter of the work (of memory so fast that no product waits for it); F and B and what
 * holds a B take three layers' rings longer, W does not. Stage 0 and stage 1 are on different nodes now. */
static void test_costs (void)
{
  const PsModel model = small (PS_MLP_GELU);
  PsCluster cluster = two_nodes ();

  cluster.memory_bandwidth = 1e18;
  g_autoptr (PsCosts) one = model_costs (&model, &cluster, 1, 1, NULL);
  const gint64 talk = 3 * 2 * 6 * (100 + 2048);

  g_assert_true (ps_cluster_group (&cluster, 4, NULL));
  g_autoptr (PsCosts) four = model_costs (&model, &cluster, 1, 1, NULL),
                      two = model_costs (&model, &cluster, 2, 1, NULL);
  g_assert_cmpint (four->stage[0].tensor_ns, ==, talk);
  for (PsOpKind kind = PS_OP_F; kind <= PS_OP_BW; kind++) {
    gint64 extra = kind == PS_OP_W ? 0 : talk;

    g_assert_cmpint (ABS (4 * (duration (four, kind, 0) - extra) - duration (one, kind, 0)), <=, 4);
  }
  g_assert_cmpint (4 * ps_costs_op (four, PS_OP_F, 0)->take_bytes, ==, ps_costs_op (one, PS_OP_F, 0)->take_bytes);
  g_assert_cmpint (4 * ps_costs_op (four, PS_OP_W, 0)->give_bytes, ==, ps_costs_op (one, PS_OP_W, 0)->give_bytes);
  g_assert_cmpint (two->message_bytes[ps_transfer_forward (two, 0)], ==, 2048);
  g_assert_cmpint (two->transfer_ns[ps_transfer_forward (two, 0)], ==, 1000 + 4 * 2048);
  g_assert_cmpstr (four->source, ==, "model 'small' on cluster 'c', 4 GPUs to a device");
}

/* Full recomputation talks again, selective does not. */
static void test_recompute (void)
{
  const PsModel model = small (PS_MLP_GELU);
  PsCluster cluster = two_nodes ();

  cluster.memory_bandwidth = 1e18;

  static const PsRecompute kinds[] = { PS_RECOMPUTE_SELECTIVE, PS_RECOMPUTE_FULL };

  for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++) {
    const PsRecompute recompute = kinds[kind];
    PsCluster group = cluster;
    g_autoptr (PsCosts) one = model_costs (&model, &cluster, 1, 1, NULL);
    gint64 before = duration (one, PS_OP_B, 0), before_four;

    g_assert_true (ps_cluster_group (&group, 4, NULL));
    g_autoptr (PsCosts) four = model_costs (&model, &group, 1, 1, NULL);
    before_four = duration (four, PS_OP_B, 0);
    g_assert_true (ps_costs_recompute (one, 0, &model, &cluster, recompute, NULL)
                   && ps_costs_recompute (four, 0, &model, &group, recompute, NULL));
    gint64 again = duration (one, PS_OP_B, 0) - before, again_four = duration (four, PS_OP_B, 0) - before_four;
    gint64 talk = recompute == PS_RECOMPUTE_FULL ? four->stage[0].tensor_ns : 0;
    g_assert_cmpint (again, >, 0);
    g_assert_cmpint (ABS (4 * (again_four - talk) - again), <=, 8);
  }
}

/* Keys and values of 2 sequences of 64 tokens, 32 wide each, in 2 bytes: 16384. In a context of 2 GPUs of a node each
 * sends its half, 100 + 8192 ns, for a forward; a backward does so twice. With 32 tokens of earlier slices before them
 * it is half as much again. 8 GPUs lie in two nodes: 7 steps of 1000 + 4 * 2048. */
static void test_context (void)
{
  const PsStageShape shape = { .n_layers = 3 };
  PsModel model = small (PS_MLP_SWIGLU);
  PsCluster near = two_nodes (), far = two_nodes ();

  model.spread.context = 2;
  g_assert_true (ps_cluster_join (&near, 2, NULL) && ps_cluster_join (&far, 8, NULL));
  g_assert_false (near.context_remote);
  g_assert_true (far.context_remote);
  g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &near, PS_OP_F), ==, 3 * (100 + 8192));
  g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &near, PS_OP_B), ==, 3 * 2 * (100 + 8192));
  model.before = 32;
  g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &near, PS_OP_F), ==, 3 * (100 + 12288));
  model.before = 0;
  /* Attention of 64 keys: F has 2 products of 8 heads, 32 x 64 x 8, 524288 operations at 131.072 in a ns; B has 5. A
   * ring of 2 hides half of it. Of 128 elements of query, key, value and result an all-to-all moves a quarter of 32768
   * bytes; keys of earlier slices stay where they are. */
  model.flash_attention = TRUE;
  near.peak_flops = 131.072e9;
  near.efficiency = 1;
  near.cp_comm = PS_CP_COMM_P2P;
  g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &near, PS_OP_F), ==, 3 * (100 + 8192 - 2000));
  g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &near, PS_OP_B), ==, 3 * (2 * (100 + 8192) - 5000));
  near.peak_flops *= 0.1;
  g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &near, PS_OP_F), ==, 0);
  near.cp_comm = PS_CP_COMM_A2A;
  model.before = 32;
  g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &near, PS_OP_F), ==, 3 * (100 + 8192));
  g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &near, PS_OP_B), ==, 3 * (100 + 8192));
  model.before = 0;
  model.spread.context = 8;
  g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &far, PS_OP_F), ==, 3 * 7 * (1000 + 4 * 2048));
  model.spread.context = 1;
  g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &near, PS_OP_F), ==, 0);
}

/* Each token of 8192 bytes in all goes to 2 experts. Of 4 GPUs of a node each sends a quarter of twice that to each
 * other one: 100 + 3 * 4096. Of 8 it sends an eighth to 3 near ones, 100 + 3 * 2048, and meanwhile to 4 far ones, 1000
 * + 4 * 4 * 2048. Two of three layers have experts, and send them there and back. */
static void test_exchange (void)
{
  static const struct {
    guint gpus;
    gint64 ns;
  } rows[] = { { 1, 0 }, { 2, 100 + 8192 }, { 4, 100 + 3 * 4096 }, { 8, 1000 + 4 * 4 * 2048 } };
  const PsStageShape shape = { .n_layers = 3 };
  const PsCluster cluster = two_nodes ();
  PsModel model = small (PS_MLP_SWIGLU);

  model.experts = (PsExperts){ .count = 8, .active = 2, .feed_forward = 16, .dense_layers = 1, .imbalance = 1 };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    model.spread.experts = rows[i].gpus;
    g_assert_cmpint (ps_tensor_exchange_ns (&model, &cluster), ==, rows[i].ns);
    g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &cluster, PS_OP_F), ==, 2 * 2 * rows[i].ns);
    g_assert_cmpint (ps_tensor_stage_ns (&model, &shape, &cluster, PS_OP_B), ==, 2 * 2 * rows[i].ns);
  }
}

/* A dispatcher with rates sends a token of 8192 bytes in all once to each of 2 GPUs that has one of its 2 of 8 experts,
 * 2 (1 - 4/8 3/7) = 1.571 of them, of 4 GPUs 4 (1 - 6/8 5/7) = 1.857, at its rate. 8 GPUs are two nodes, and it
 * goes once to each, at the rate of the network. Others have no rates here and send as alltoall, at a half of the links
 * with such an efficiency. */
static void test_dispatch (void)
{
  static const struct {
    PsDispatcher dispatcher;
    guint gpus;
    gint64 ns;
  } rows[] = { { PS_DISPATCHER_HYBRIDEP, 2, 12872 },
               { PS_DISPATCHER_HYBRIDEP, 4, 24341 },
               { PS_DISPATCHER_HYBRIDEP, 8, 51492 },
               { PS_DISPATCHER_DEEPEP, 2, 100 + 8192 * 2 },
               { PS_DISPATCHER_ALLTOALL, 4, 100 + 3 * 4096 * 2 } };
  PsCluster cluster = two_nodes ();
  PsModel model = small (PS_MLP_SWIGLU);

  cluster.dispatch[PS_DISPATCHER_HYBRIDEP][0] = (PsDispatchRate){ 2, 1e9 };
  cluster.dispatch[PS_DISPATCHER_HYBRIDEP][1] = (PsDispatchRate){ 4, 0.625e9 };
  cluster.alltoall_efficiency = 0.5;
  model.experts = (PsExperts){ .count = 8, .active = 2, .feed_forward = 16, .imbalance = 1 };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    cluster.dispatcher = rows[i].dispatcher;
    model.spread.experts = rows[i].gpus;
    g_assert_cmpint (ABS (ps_tensor_exchange_ns (&model, &cluster) - rows[i].ns), <=, 1);
  }
}

/* A context cuts sequences, with the GPUs of tensor parallelism; experts are cut over GPUs of a device and its
 * replicas. */
static void test_check_spread (void)
{
  static const struct {
    guint count, context, experts, n_tensor, n_replicas;
    const char *message;
  } rows[] = {
    { 8, 1, 8, 2, 4, NULL },
    { 8, 4, 8, 2, 1, NULL },
    { 0, 32, 1, 2, 1, NULL },
    { 0, 64, 1, 2, 1, "--context 64: 128 GPUs do not divide sequence 64 of model 'small'" },
    { 0, 3, 1, 1, 1, "--context 3: 3 GPUs do not divide sequence 64 of model 'small'" },
    { 0, 1, 2, 2, 1, "--experts 2: model 'small' has no experts" },
    { 8, 1, 3, 3, 1, "--context 1: 3 GPUs do not divide sequence 64 of model 'small'" },
    { 8, 1, 3, 1, 3, "--experts 3: does not divide experts 8 of model 'small'" },
    { 8, 1, 8, 2, 2, "--experts 8: does not divide the 4 GPUs of a device and its replicas" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    PsModel model = small (PS_MLP_SWIGLU);

    model.experts.count = rows[i].count;
    model.spread = (PsSpread){ .context = rows[i].context, .experts = rows[i].experts };
    if (rows[i].message != NULL)
      refused (ps_tensor_check_spread (&model, rows[i].n_tensor, rows[i].n_replicas, &error), PS_ERROR_USAGE,
               rows[i].message);
    else
      fine (ps_tensor_check_spread (&model, rows[i].n_tensor, rows[i].n_replicas, &error));
  }
}

/* What a device of so many groups of GPUs leaves of a cluster of two nodes with 4 GPUs each. A bus, and the port of a
 * node, are shared by the groups that a device has there. */
static void test_join (void)
{
  static const struct {
    guint n_context, nodes, devices_per_node, shares;
    gboolean remote;
  } rows[] = {
    { 1, 2, 4, 1, FALSE }, { 2, 2, 2, 2, FALSE }, { 4, 2, 1, 4, FALSE }, { 8, 1, 1, 4, TRUE }, { 16, 1, 1, 4, TRUE }
  };

  for (guint shared = 0; shared < 4; shared++)
    for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
      PsCluster cluster = two_nodes ();

      cluster.link_shared = shared & 1;
      cluster.network_shared = shared >> 1;
      g_assert_true (ps_cluster_join (&cluster, rows[i].n_context, NULL));
      g_assert_cmpuint (cluster.nodes, ==, rows[i].nodes);
      g_assert_cmpuint (cluster.devices_per_node, ==, rows[i].devices_per_node);
      g_assert_cmpint (cluster.context_remote, ==, rows[i].remote);
      g_assert_cmpfloat (cluster.link_bandwidth, ==, 1e9 / (shared & 1 ? rows[i].shares : 1));
      g_assert_cmpfloat (cluster.network_bandwidth, ==, 0.25e9 / (shared & 2 ? rows[i].shares : 1));
    }
  PsCluster cluster = two_nodes ();
  refused (ps_cluster_join (&cluster, 3, &error), PS_ERROR_USAGE, "--context 3: a device is neither a part of the 4 *");
}

/* 8 GPUs of two nodes are one device: their ring goes through the network, whose latency it has, as fast as the ports
 * of a node together but no faster than a link. A port that they share is too narrow, and no network is none. */
static void test_group_of_nodes (void)
{
  for (guint i = 0; i < 4; i++) {
    PsCluster cluster = two_nodes ();

    cluster.network_bandwidth = i == 1 ? 0.2e9 : i == 2 ? 0 : 1e9;
    cluster.network_shared = i == 3;
    if (i >= 2) {
      refused (ps_cluster_group (&cluster, 8, &error), PS_ERROR_USAGE, "--tensor 8: does not divide the 4 GPUs *");
      continue;
    }
    g_assert_true (ps_cluster_group (&cluster, 8, NULL));
    g_assert_cmpint (cluster.link_latency_ns, ==, 1000);
    g_assert_cmpfloat (cluster.link_bandwidth, ==, i == 1 ? 0.8e9 : 1e9);
    g_assert_cmpuint (cluster.devices_per_node, ==, 1);
    g_assert_cmpuint (cluster.tensor, ==, 8);
  }
}

/* Of what two GPUs share one has half, and all of the norms: two of h = 32 in a layer, one at each loss, two in a
 * module of multi-token prediction, and in GPT twice as wide, with the positions. */
static void test_whole_parameters (void)
{
  static const PsStageShape shapes[] = { { .n_layers = 2 },
                                         { .head = TRUE },
                                         { .n_mtp = 2 },
                                         { .n_layers = 1, .head = 1, .n_mtp = 1 },
                                         { .n_layers = 3, .embedding = TRUE, .head = 3, .n_mtp = 2 } };

  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++) {
    const PsStageShape *shape = &shapes[i];
    PsModel model = small (PS_MLP_SWIGLU);
    gint64 norms = 2 * (shape->n_layers + shape->n_mtp) + shape->head + 2 * shape->n_mtp;

    model.mtp = 2;
    gint64 all = ps_model_stage_parameters (&model, shape);
    g_assert_cmpint (ps_tensor_parameters (&model, shape, 1), ==, all);
    g_assert_cmpint (ps_tensor_parameters (&model, shape, 2), ==, (all - 32 * norms) / 2 + 32 * norms);
  }
}

/* Tests of work.h: bytes worked by hand, and published peaks. */

static const PsCluster one_node = { .name = (char *)"c",
                                    .nodes = 1,
                                    .devices_per_node = 8,
                                    .peak_flops = 1e15,
                                    .efficiency = 0.5,
                                    .link_bandwidth = 1e11,
                                    .tensor = 1 };

static PsModel *parse (const char *text)
{
  return fine (ps_model_parse ("m.ini", text, strlen (text), &error));
}

#define LLAMA                                                                                                          \
  "[model]\nheads=64\nkv_heads=8\nsequence=4096\nvocabulary=128256\nmicrobatch_size=1\nprecision=bf16\nmlp=swiglu\n"   \
  "flash_attention=true\nframework=megatron\nlayers=12\nhidden=8192\nfeed_forward=28672\n"
#define DEEPSEEK                                                                                                       \
  "[model]\nheads=128\nsequence=4096\nvocabulary=129280\nmicrobatch_size=1\nprecision=bf16\nmlp=swiglu\n"              \
  "flash_attention=true\nframework=megatron\nlayers=4\nhidden=7168\nfeed_forward=18432\nq_rank=1536\nkv_rank=512\n"    \
  "nope_size=128\nrope_size=64\nvalue_size=128\nexperts=256\nactive_experts=8\nshared_experts=1\ndense_layers=1\n"     \
  "expert_feed_forward=2048\ncapacity=1\n"

/* The peak of one stage on one device: all that is held, and one backward with what its forward kept. */
static gint64 peak (const PsCosts *costs)
{
  const PsOpCost *f = ps_costs_op (costs, PS_OP_F, 0);

  return costs->stage[0].weight_bytes + f->take_bytes - f->give_bytes + ps_costs_op (costs, PS_OP_BW, 0)->take_bytes;
}

/* GiB that PyTorch allocated on 8 B200, published with SimuMax (github.com/MooreThreads/SimuMax, 4dcaae513ba7,
 * docs/b200): Llama 3 70B cut to 12 layers, DeepSeek-V3 cut to 4, one stage. */
static void test_published (void)
{
  const struct {
    const char *model;
    guint tensor, experts, replicas;
    double gib;
  } rows[] = { { LLAMA, 2, 1, 4, 60.68 }, { LLAMA, 8, 1, 1, 28.29 }, { DEEPSEEK, 1, 8, 8, 104.3 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsModel) model = parse (rows[i].model);
    PsCluster cluster = one_node;

    cluster.tensor = rows[i].tensor;
    model->spread.experts = rows[i].experts;
    g_autoptr (PsCosts) costs = model_costs (model, &cluster, 1, 1, NULL);
    g_assert_true (ps_costs_zero (costs, NULL, NULL, rows[i].replicas, 1, NULL));
    g_assert_cmpfloat_with_epsilon ((double)peak (costs) / (1 << 30), rows[i].gib, 0.02 * rows[i].gib);
  }
}

/* h = 32, f = 128, V = 100, one layer of 2 * 32 * 32 * 2 + 3 * 32 * 128 = 16384 elements and two norms of 32; 128
 * tokens on 2 GPUs. */
static void test_megatron (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=3\nhidden=32\nheads=4\nsequence=64\nfeed_forward=128\n"
                                     "vocabulary=100\nmicrobatch_size=2\nprecision=bf16\nmlp=swiglu\n"
                                     "flash_attention=true\nframework=megatron\n");
  const PsStageShape layers = { .n_layers = 3 }, last = { .n_layers = 1, .head = TRUE };
  PsHabits habits = ps_framework_habits (model, &layers, 2);

  g_assert_cmpint (habits.kept_bytes, ==, 0);
  g_assert_cmpint (habits.forward_bytes, ==, 0);
  g_assert_cmpint (habits.backward_bytes, ==, 128 * (4 * 32 + 4 * 128) / 2 + 4 * 32 * 128);
  g_assert_cmpint (habits.shared_bytes, ==, 16384 + 64 + (64 << 20));
  habits = ps_framework_habits (model, &last, 2);
  g_assert_cmpint (habits.kept_bytes, ==, -2 * 128 * 50);
  g_assert_cmpint (habits.forward_bytes, ==, 4 * 128 * 50);
  /* Two losses: two sets of logits stay, one at a time is in fp32. */
  const PsStageShape predicting = { .n_layers = 1, .head = 2, .n_mtp = 1 };
  habits = ps_framework_habits (model, &predicting, 2);
  g_assert_cmpint (habits.kept_bytes, ==, 2 * -2 * 128 * 50);
  g_assert_cmpint (habits.forward_bytes, ==, 4 * 128 * 50);
  g_assert_cmpint (ps_model_state (model, 10).gradient_bytes, ==, 40);
  model->framework = PS_FRAMEWORK_NONE;
  habits = ps_framework_habits (model, &last, 2);
  g_assert_cmpint (habits.kept_bytes + habits.forward_bytes + habits.backward_bytes + habits.buffer_bytes, ==, 0);
  g_assert_cmpint (ps_framework_context_bytes (PS_FRAMEWORK_NONE), ==, 0);
}

/* DeepSpeed's bytes per parameter, and a reserve of 0.145 on all that stays. */
static void test_deepspeed (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=4\nhidden=64\nheads=4\nsequence=16\nvocabulary=100\n"
                                     "microbatch_size=1\nprecision=fp16\nmlp=gelu\nflash_attention=false\n"
                                     "framework=deepspeed\nsequence_parallel=false\n");
  g_autoptr (PsCosts) costs = model_costs (model, &one_node, 2, 1, NULL);
  const PsStageShape first = { .n_layers = 2, .embedding = TRUE };
  gint64 before = costs->stage[0].weight_bytes;

  g_assert_cmpint (before, ==, 20 * ps_tensor_parameters (model, &first, 1));
  ps_costs_add_context (costs, model, 1);
  g_assert_cmpint (costs->stage[0].state.context_bytes, ==, 5000000000);
  g_assert_cmpint (costs->stage[0].state.buffer_bytes, ==, before * 145 / 1000);
  model->precision = PS_PRECISION_BF16;
  g_assert_cmpint (ps_model_state (model, 10).gradient_bytes, ==, 40);
  g_assert_cmpint (ps_framework_habits (model, &first, 1).buffer_bytes, ==,
                   2 * ps_tensor_parameters (model, &first, 1));
  g_assert_cmpint (ps_model_state (model, 10).optimizer_bytes, ==, 120);
  model->state.main_grads = PS_DTYPE_BF16;
  g_assert_cmpint (ps_model_state (model, 10).gradient_bytes, ==, 20);
  g_assert_cmpint (ps_framework_habits (model, &first, 1).buffer_bytes, ==, 0);
}

/* GPUs that have whole sequences outside the matrices: sbh (10 + 24 / t + 5as / (ht)), arXiv 2205.05198, equation 2; of
 * a recomputed layer 2sbh. s = 16, h = 64, a = 4. */
static void test_whole_sequences (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=4\nhidden=64\nheads=4\nsequence=16\nvocabulary=100\n"
                                     "microbatch_size=1\nprecision=fp16\nmlp=gelu\nflash_attention=false\n"
                                     "sequence_parallel=false\n");
  const PsStageShape layer = { .n_layers = 1 };

  g_assert_cmpint (ps_tensor_kept_bytes (model, &layer, PS_RECOMPUTE_NONE, 4), ==,
                   1024 * (10 + 6) + 5 * 4 * 16 * 16 / 4);
  g_assert_cmpint (ps_tensor_kept_bytes (model, &layer, PS_RECOMPUTE_FULL, 4), ==, 2 * 1024);
  model->whole_sequences = FALSE;
  g_assert_cmpint (ps_tensor_kept_bytes (model, &layer, PS_RECOMPUTE_FULL, 4), ==, 512);
}

/* 8 experts of 4 GPUs, two to a GPU; their optimizer state is on as many GPUs as replicas over 4. A context of 2 shares
 * the state of all else. */
static void test_spread (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=1\nhidden=64\nheads=4\nsequence=16\nvocabulary=100\n"
                                     "microbatch_size=1\nprecision=bf16\nmlp=swiglu\nflash_attention=true\n"
                                     "experts=8\nactive_experts=2\nexpert_feed_forward=32\nexpert_gpus=4\n"
                                     "context_gpus=2\n");
  const PsStageShape layer = { .n_layers = 1 }, whole = ps_model_whole (model);
  g_autoptr (PsCosts) costs = model_costs (model, &one_node, 1, 1, NULL);
  PsStateBytes *state = &costs->stage[0].state;
  gint64 experts = 2 * 3 * 64 * 32, dense = ps_tensor_parameters (model, &whole, 1) - experts;

  g_assert_cmpint (ps_tensor_expert_parameters (model, &layer, 1), ==, experts);
  g_assert_cmpint (state->optimizer_bytes, ==, 12 * (dense + experts));
  g_assert_true (ps_costs_zero (costs, NULL, NULL, 4, 1, NULL));
  g_assert_cmpint (state->optimizer_bytes, ==, (12 * dense + 7) / 8 + 12 * experts / 2);
  g_assert_cmpint (ps_tensor_boundary_bytes (model, 1), ==, 2 * 16 * 64 / 2);
}

/* 4 GPUs share experts: tokens 16 of 64 values of 2 bytes, 2 experts each, 1/4 to each of 3 others: 3072 bytes in 30.72
 * us, there and back. Two nodes of two: 1024 bytes stay, 2048 leave at a tenth of the rate. A context of 2 gathers keys
 * and values, 2 * 64 * 2 * 16 / 2 bytes, and in B their gradients, too. */
static void test_talk (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=1\nhidden=64\nheads=4\nsequence=16\nvocabulary=100\n"
                                     "microbatch_size=1\nprecision=bf16\nmlp=swiglu\nflash_attention=true\n"
                                     "experts=8\nactive_experts=2\nexpert_feed_forward=32\nexpert_gpus=4\n");
  const PsStageShape layer = { .n_layers = 1 };
  PsCluster cluster = one_node;

  cluster.link_bandwidth = 1e8;
  cluster.network_bandwidth = 1e7;
  g_assert_cmpint (ps_tensor_stage_ns (model, &layer, &cluster, PS_OP_F), ==, 2 * 30720);
  cluster.devices_per_node = 2;
  g_assert_cmpint (ps_tensor_stage_ns (model, &layer, &cluster, PS_OP_F), ==, 2 * 204800);
  model->spread = (PsSpread){ .context = 2 };
  g_assert_cmpint (ps_tensor_stage_ns (model, &layer, &cluster, PS_OP_F), ==, 20480);
  g_assert_cmpint (ps_tensor_stage_ns (model, &layer, &cluster, PS_OP_B), ==, 2 * 20480);
  g_assert_true (ps_tensor_check_spread (model, 1, 1, NULL));
  model->spread.context = 3;
  g_assert_false (ps_tensor_check_spread (model, 1, 1, NULL));
  model->spread = (PsSpread){ .experts = 3 };
  g_assert_false (ps_tensor_check_spread (model, 1, 3, NULL));
  model->spread = (PsSpread){ .experts = 4 };
  g_assert_false (ps_tensor_check_spread (model, 2, 3, NULL));
  g_assert_true (ps_tensor_check_spread (model, 2, 2, NULL));
}

/* As test_megatron, but the last two of three layers have experts of f = 64 of which a token visits 2: gradients of 2 h
 * and of twice 4 h + 4 f run through one, 832 bytes a token, and 4 h + 4 f = 640 through the dense layer. One matrix
 * of each shape is kept besides: attention 4096 + 32, dense 3 * 32 * 128 + 32, experts 3 * 32 * 64 + 32 * 8 + 32. */
static void test_megatron_experts (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=3\nhidden=32\nheads=4\nsequence=64\nfeed_forward=128\n"
                                     "vocabulary=100\nmicrobatch_size=2\nprecision=bf16\nmlp=swiglu\n"
                                     "flash_attention=true\nframework=megatron\nexperts=8\nactive_experts=2\n"
                                     "expert_feed_forward=64\ndense_layers=1\n");
  const PsStageShape all = { .n_layers = 3 }, dense = { .n_layers = 1 }, mixed = { .first_layer = 1, .n_layers = 2 };

  g_assert_cmpint (ps_framework_habits (model, &all, 2).backward_bytes, ==, 128 * 832 / 2 + 4 * 32 * 128);
  g_assert_cmpint (ps_framework_habits (model, &mixed, 1).backward_bytes, ==, 128 * 832);
  g_assert_cmpint (ps_framework_habits (model, &dense, 1).backward_bytes, ==, 128 * 640);
  g_assert_cmpint (ps_framework_habits (model, &dense, 1).shared_bytes, ==, 2 * 16448 + (64 << 20));
  g_assert_cmpint (ps_framework_habits (model, &mixed, 1).shared_bytes, ==, 2 * (4128 + 6432) + (64 << 20));
  g_assert_cmpint (ps_framework_habits (model, &all, 2).shared_bytes, ==, 16448 + 6432 + (64 << 20));
}

/* What F and a backward need besides while they run is taken and given back by each: of the stage with the loss both
 * do, of the other the backward. W needs nothing. */
static void test_workspace (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=2\nhidden=32\nheads=4\nsequence=64\nfeed_forward=128\n"
                                     "vocabulary=100\nmicrobatch_size=2\nprecision=bf16\nmlp=swiglu\n"
                                     "flash_attention=true\nframework=megatron\n");
  g_autoptr (PsCosts) costs = fine (model_costs (model, &one_node, 2, 1, &error));

  for (guint stage = 0; stage < 2; stage++) {
    PsHabits habits = ps_framework_habits (model, &costs->shapes[stage], 1);
    const PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage), *b = ps_costs_op (costs, PS_OP_B, stage);
    const PsOpCost *w = ps_costs_op (costs, PS_OP_W, stage), *bw = ps_costs_op (costs, PS_OP_BW, stage);
    gint64 act = ps_tensor_kept_bytes (model, &costs->shapes[stage], PS_RECOMPUTE_NONE, 1) + habits.kept_bytes;

    g_assert_cmpint (habits.forward_bytes > 0, ==, stage == 1);
    g_assert_cmpint (habits.backward_bytes, >, 0);
    g_assert_cmpint (f->take_bytes, ==, act + habits.forward_bytes);
    g_assert_cmpint (f->give_bytes, ==, habits.forward_bytes);
    g_assert_cmpint (b->take_bytes, ==, habits.backward_bytes);
    g_assert_cmpint (bw->take_bytes, ==, habits.backward_bytes);
    g_assert_cmpint (bw->give_bytes, ==, habits.backward_bytes + act);
    g_assert_cmpint (w->take_bytes, ==, 0);
    g_assert_cmpint (b->give_bytes + w->give_bytes, ==, bw->give_bytes);
    g_assert_cmpint (costs->stage[stage].state.buffer_bytes, ==, habits.shared_bytes);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tensor/parameters", test_parameters);
  g_test_add_func ("/tensor/ring", test_ring);
  g_test_add_func ("/tensor/repeated-heads", test_repeated_heads);
  g_test_add_func ("/tensor/biased-experts", test_biased_experts);
  g_test_add_func ("/tensor/group", test_group);
  g_test_add_func ("/tensor/check", test_check);
  g_test_add_func ("/tensor/costs", test_costs);
  g_test_add_func ("/tensor/recompute", test_recompute);
  g_test_add_func ("/tensor/context", test_context);
  g_test_add_func ("/tensor/exchange", test_exchange);
  g_test_add_func ("/tensor/dispatch", test_dispatch);
  g_test_add_func ("/tensor/check-spread", test_check_spread);
  g_test_add_func ("/tensor/join", test_join);
  g_test_add_func ("/tensor/group-of-nodes", test_group_of_nodes);
  g_test_add_func ("/tensor/whole-parameters", test_whole_parameters);
  g_test_add_func ("/framework/published", test_published);
  g_test_add_func ("/framework/megatron", test_megatron);
  g_test_add_func ("/framework/deepspeed", test_deepspeed);
  g_test_add_func ("/framework/whole-sequences", test_whole_sequences);
  g_test_add_func ("/framework/spread", test_spread);
  g_test_add_func ("/framework/talk", test_talk);
  g_test_add_func ("/framework/megatron-experts", test_megatron_experts);
  g_test_add_func ("/framework/workspace", test_workspace);
  return run_in_folder ();
}

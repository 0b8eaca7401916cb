/* Tests of work.h: bytes worked by hand, and published peaks. */
#include "error-rig.h"

#include <pipesim/costs.h>
#include <pipesim/work.h>

#include <string.h>

static const PsCluster one_node = { .name = (char *)"c",
                                    .nodes = 1,
                                    .devices_per_node = 8,
                                    .peak_flops = 1e15,
                                    .efficiency = 0.5,
                                    .link_bandwidth = 1e11,
                                    .tensor = 1 };

static PsModel *
parse (const char *text)
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
static gint64
peak (const PsCosts *costs)
{
  const PsOpCost *f = ps_costs_op (costs, PS_OP_F, 0);

  return costs->stage[0].weight_bytes + f->take_bytes - f->give_bytes + ps_costs_op (costs, PS_OP_BW, 0)->take_bytes;
}

/* GiB that PyTorch allocated on 8 B200, published with SimuMax (github.com/MooreThreads/SimuMax, 4dcaae513ba7,
 * docs/b200): Llama 3 70B cut to 12 layers, DeepSeek-V3 cut to 4, one stage. */
static void
test_published (void)
{
  const struct
  {
    const char *model;
    guint tensor, experts, replicas;
    double gib;
  } rows[] = { { LLAMA, 2, 1, 4, 60.68 }, { LLAMA, 8, 1, 1, 28.29 }, { DEEPSEEK, 1, 8, 8, 104.3 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsModel) model = parse (rows[i].model);
      PsCluster cluster = one_node;

      cluster.tensor = rows[i].tensor;
      model->spread.experts = rows[i].experts;
      g_autoptr (PsCosts) costs = ps_costs_model (model, &cluster, 1, 1, NULL);
      g_assert_true (ps_costs_zero (costs, rows[i].replicas, 1, NULL));
      g_assert_cmpfloat_with_epsilon ((double)peak (costs) / (1 << 30), rows[i].gib, 0.02 * rows[i].gib);
    }
}

/* h = 32, f = 128, V = 100, one layer of 2 * 32 * 32 * 2 + 3 * 32 * 128 = 16384 elements and two norms of 32; 128
 * tokens on 2 GPUs. */
static void
test_megatron (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=3\nhidden=32\nheads=4\nsequence=64\nfeed_forward=128\n"
                                     "vocabulary=100\nmicrobatch_size=2\nprecision=bf16\nmlp=swiglu\n"
                                     "flash_attention=true\nframework=megatron\n");
  const PsStageShape layers = { .n_layers = 3 }, last = { .n_layers = 1, .head = TRUE };
  PsHabits habits = ps_framework_habits (model, &layers, 2);

  g_assert_cmpint (habits.kept_bytes, ==, 0);
  g_assert_cmpint (habits.forward_bytes, ==, 0);
  g_assert_cmpint (habits.backward_bytes, ==, 128 * (4 * 32 + 4 * 128) / 2 + 4 * 32 * 128);
  g_assert_cmpint (habits.buffer_bytes, ==, 16384 + 64 + (64 << 20));
  habits = ps_framework_habits (model, &last, 2);
  g_assert_cmpint (habits.kept_bytes, ==, -2 * 128 * 50);
  g_assert_cmpint (habits.forward_bytes, ==, 4 * 128 * 50);
  /* A module of multi-token prediction has a head of its own: two sets of logits stay, one at a time is in fp32. */
  const PsStageShape predicting = { .n_layers = 1, .head = TRUE, .n_mtp = 1 };
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
static void
test_deepspeed (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=4\nhidden=64\nheads=4\nsequence=16\nvocabulary=100\n"
                                     "microbatch_size=1\nprecision=fp16\nmlp=gelu\nflash_attention=false\n"
                                     "framework=deepspeed\nsequence_parallel=false\n");
  g_autoptr (PsCosts) costs = ps_costs_model (model, &one_node, 2, 1, NULL);
  const PsStageShape first = { .n_layers = 2, .embedding = TRUE };
  gint64 before = costs->stage[0].weight_bytes;

  g_assert_cmpint (before, ==, 20 * ps_tensor_parameters (model, &first, 1));
  ps_costs_add_context (costs, model, 1);
  g_assert_cmpint (costs->stage[0].state.context_bytes, ==, 5000000000 + before * 145 / 1000);
  model->precision = PS_PRECISION_BF16;
  g_assert_cmpint (ps_model_state (model, 10).gradient_bytes, ==, 40);
  g_assert_cmpint (ps_framework_habits (model, &first, 1).buffer_bytes, ==,
                   2 * ps_tensor_parameters (model, &first, 1));
  g_assert_cmpint (ps_model_state (model, 10).optimizer_bytes, ==, 120);
}

/* GPUs that have whole sequences outside the matrices: sbh (10 + 24 / t + 5as / (ht)), arXiv 2205.05198, equation 2; of
 * a recomputed layer 2sbh. s = 16, h = 64, a = 4. */
static void
test_whole_sequences (void)
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
static void
test_spread (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=1\nhidden=64\nheads=4\nsequence=16\nvocabulary=100\n"
                                     "microbatch_size=1\nprecision=bf16\nmlp=swiglu\nflash_attention=true\n"
                                     "experts=8\nactive_experts=2\nexpert_feed_forward=32\nexpert_gpus=4\n"
                                     "context_gpus=2\n");
  const PsStageShape layer = { .n_layers = 1 }, whole = ps_model_whole (model);
  g_autoptr (PsCosts) costs = ps_costs_model (model, &one_node, 1, 1, NULL);
  PsStateBytes *state = &costs->stage[0].state;
  gint64 experts = 2 * 3 * 64 * 32, dense = ps_tensor_parameters (model, &whole, 1) - experts;

  g_assert_cmpint (ps_tensor_expert_parameters (model, &layer, 1), ==, experts);
  g_assert_cmpint (state->optimizer_bytes, ==, 12 * (dense + experts));
  g_assert_true (ps_costs_zero (costs, 4, 1, NULL));
  g_assert_cmpint (state->optimizer_bytes, ==, (12 * dense + 7) / 8 + 12 * experts / 2);
  g_assert_cmpint (ps_tensor_boundary_bytes (model, 1), ==, 2 * 16 * 64 / 2);
}

/* 4 GPUs share experts: tokens 16 of 64 values of 2 bytes, 2 experts each, 1/4 to each of 3 others: 3072 bytes in 30.72
 * us, there and back. Two nodes of two: 1024 bytes stay, 2048 leave at a tenth of the rate. A context of 2 gathers keys
 * and values, 2 * 64 * 2 * 16 / 2 bytes, and in B their gradients, too. */
static void
test_talk (void)
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
 * and of twice 4 h + 4 f run through one, 832 bytes a token, and 4 h + 4 f = 640 through the dense layer. Of each kind
 * of layer one of each matrix is kept besides: 16448 elements, and 4096 + 3 * 32 * 64 + 32 + 64 of one with one expert.
 */
static void
test_megatron_experts (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=3\nhidden=32\nheads=4\nsequence=64\nfeed_forward=128\n"
                                     "vocabulary=100\nmicrobatch_size=2\nprecision=bf16\nmlp=swiglu\n"
                                     "flash_attention=true\nframework=megatron\nexperts=8\nactive_experts=2\n"
                                     "expert_feed_forward=64\ndense_layers=1\n");
  const PsStageShape all = { .n_layers = 3 }, dense = { .n_layers = 1 }, mixed = { .first_layer = 1, .n_layers = 2 };

  g_assert_cmpint (ps_framework_habits (model, &all, 2).backward_bytes, ==, 128 * 832 / 2 + 4 * 32 * 128);
  g_assert_cmpint (ps_framework_habits (model, &mixed, 1).backward_bytes, ==, 128 * 832);
  g_assert_cmpint (ps_framework_habits (model, &dense, 1).backward_bytes, ==, 128 * 640);
  g_assert_cmpint (ps_framework_habits (model, &dense, 1).buffer_bytes, ==, 2 * 16448 + (64 << 20));
  g_assert_cmpint (ps_framework_habits (model, &mixed, 1).buffer_bytes, ==, 2 * 10336 + (64 << 20));
  g_assert_cmpint (ps_framework_habits (model, &all, 2).buffer_bytes, ==, 16448 + 10336 + (64 << 20));
}

/* What F and a backward need besides while they run is taken and given back by each: of the stage with the loss both
 * do, of the other the backward. W needs nothing. */
static void
test_workspace (void)
{
  g_autoptr (PsModel) model = parse ("[model]\nlayers=2\nhidden=32\nheads=4\nsequence=64\nfeed_forward=128\n"
                                     "vocabulary=100\nmicrobatch_size=2\nprecision=bf16\nmlp=swiglu\n"
                                     "flash_attention=true\nframework=megatron\n");
  g_autoptr (PsCosts) costs = fine (ps_costs_model (model, &one_node, 2, 1, &error));

  for (guint stage = 0; stage < 2; stage++)
    {
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
      g_assert_cmpint (costs->stage[stage].state.buffer_bytes, ==, habits.buffer_bytes);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/framework/published", test_published);
  g_test_add_func ("/framework/megatron", test_megatron);
  g_test_add_func ("/framework/deepspeed", test_deepspeed);
  g_test_add_func ("/framework/whole-sequences", test_whole_sequences);
  g_test_add_func ("/framework/spread", test_spread);
  g_test_add_func ("/framework/talk", test_talk);
  g_test_add_func ("/framework/megatron-experts", test_megatron_experts);
  g_test_add_func ("/framework/workspace", test_workspace);
  return g_test_run ();
}

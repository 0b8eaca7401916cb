/* Tests of work.h: pairs worked by hand, and one that was profiled. */
#include <pipesim/costs.h>
#include <pipesim/work.h>

/* One layer: F 10, 4, 6, 3; B 20, 5, 8, 2; W 7, 1. The gradient arrives at 2, tokens leave from 10 to 14; experts run B
 * 10-18, W to 19, F to 25; gradients leave from 18 to 23; attention runs B 25-45, W to 52, while F's results leave. */
static void
test_layer (void)
{
  PsPairLayer layers[2] = {
    { .attention_ns = { 10, 20, 7 }, .experts_ns = { 6, 8, 1 }, .dispatch_ns = { 4, 5 }, .combine_ns = { 3, 2 } }
  };

  g_assert_cmpint (ps_overlap_pair_ns (layers, 0), ==, 0);
  g_assert_cmpint (ps_overlap_pair_ns (layers, 1), ==, 52);
  /* Computing takes as long again: the second layer's gradient arrives while attention's W runs. */
  layers[1] = layers[0];
  g_assert_cmpint (ps_overlap_pair_ns (layers, 2), ==, 104);
  /* Messages that outlast everything: combine B 2, dispatch F 10-110, dispatch B 110-115, combine F 116-119; attention
   * B 116-136, its W to 143. */
  layers[0].dispatch_ns[PS_OP_F] = 100;
  g_assert_cmpint (ps_overlap_pair_ns (layers, 1), ==, 143);
  /* F's results leave when its experts end at 25, and arrive at 125, long after the last computing. */
  layers[0].dispatch_ns[PS_OP_F] = 4;
  layers[0].combine_ns[PS_OP_F] = 100;
  g_assert_cmpint (ps_overlap_pair_ns (layers, 1), ==, 125);
}

/* Milliseconds of four layers of DeepSeek-V3 on H800 (deepseek-ai/profile-data, 449602428a1b, train.json): the pair
 * took 129.0. Kernels of a second stream that computes W beside others count as well. */
static void
test_published (void)
{
  PsPairLayer layers[4];
  const PsPairLayer layer = { .attention_ns = { 17479000 / 4, 37363000 / 4, 9554000 / 4 },
                              .experts_ns = { 18415000 / 4, 21224000 / 4, (14158000 + 11355000) / 4 },
                              .dispatch_ns = { 26761000 / 4, 29947000 / 4 },
                              .combine_ns = { 34736000 / 4, 23077000 / 4 } };

  for (guint i = 0; i < G_N_ELEMENTS (layers); i++)
    layers[i] = layer;
  g_assert_cmpfloat_with_epsilon ((double)ps_overlap_pair_ns (layers, 4) / 1e6, 129.012, 0.05 * 129.012);
}

static gint64
duration (const PsCosts *costs, PsOpKind kind)
{
  return ps_costs_op (costs, kind, 0)->duration_ns;
}

/* A stage of DeepSeek-V3 with four layers of experts, shared by 64 GPUs: a pair computes all that its parts do, and
 * hides most of the lesser of that and its 4 * 4 all-to-alls. On a network without end it has nothing to hide. Dense
 * stages have no pair. */
static void
test_modelled (void)
{
  const PsStageShape shapes[2] = { { .first_layer = 4, .n_layers = 4 }, { .n_layers = 3 } };
  g_autoptr (PsModel) model = ps_model_load ("deepseek-v3", NULL);
  g_autoptr (PsCluster) cluster = ps_cluster_load ("h100-80gb", NULL);

  model->spread.experts = 64;
  g_autoptr (PsCosts) costs = ps_costs_model_stages (model, cluster, shapes, 2, 1, NULL);
  gint64 sum = duration (costs, PS_OP_F) + duration (costs, PS_OP_B) + duration (costs, PS_OP_W);
  gint64 talk = 16 * ps_tensor_exchange_ns (model, cluster), pair = costs->stage[0].pair_ns;
  g_assert_cmpint (talk, >, 0);
  g_assert_cmpint (pair, >=, MAX (talk, sum - talk) - 100); /* times are rounded, layer by layer */
  g_assert_cmpint (pair, <, sum - MIN (talk, sum - talk) / 2);
  g_assert_cmpint (costs->stage[1].pair_ns, ==, -1);
  ps_cluster_scale (cluster, 1e6, 0.001);
  g_autoptr (PsCosts) near = ps_costs_model_stages (model, cluster, shapes, 2, 1, NULL);
  sum = duration (near, PS_OP_F) + duration (near, PS_OP_B) + duration (near, PS_OP_W);
  g_assert_cmpint (near->stage[0].pair_ns, >, sum - sum / 1000);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/overlap/layer", test_layer);
  g_test_add_func ("/overlap/published", test_published);
  g_test_add_func ("/overlap/modelled", test_modelled);
  return g_test_run ();
}

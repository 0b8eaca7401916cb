/* Tests of overlap.h: pairs worked by hand, and one that was profiled. */
#include <pipesim/overlap.h>

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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/overlap/layer", test_layer);
  g_test_add_func ("/overlap/published", test_published);
  return g_test_run ();
}

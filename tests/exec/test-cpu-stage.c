/* test-cpu-stage.c - a stage on the cpu device gives the same bits however it is run, and keeps exactly what it says.
 */
#include <malloc.h>
#include <math.h>

#include "cpu-rig.h"
#include "train/cpu/cpu-stage.h"

/* --- the same bits --- */

static void test_b_and_w_equal_bw (void)
{
  check_split_backward (class, small_model (2, 24, 3, 10));
}

static void test_cut (void)
{
  check_cuts (class, small_model (4, 24, 3, 10));
}

static gpointer train (gpointer unused)
{
  double losses[2];

  return train_cut (class, small_model (4, 24, 3, 10), 2, losses);
}

static void test_threads (void)
{
  GThread *threads[3];
  g_autoptr (GArray) here = train (NULL);

  for (guint i = 0; i < 3; i++)
    threads[i] = g_thread_new ("train", train, NULL);
  for (guint i = 0; i < 3; i++) {
    g_autoptr (GArray) there = g_thread_join (threads[i]);

    assert_same_bits (here, there);
  }
}

/* The activation and the gradient that microbatch i hands over between stages 0 and 1. */
static void boundary_bits (Rig *rig, const guint order[3], GArray *bits[3])
{
  for (guint i = 0; i < 3; i++) {
    PsTensor *tensor = run (rig, PS_OP_F, 0, i, NULL);

    g_array_append_vals (bits[i], tensor->data, (guint)(tensor->bytes / sizeof (float)));
    g_assert_null (run (rig, PS_OP_F, 1, i, tensor));
  }
  for (guint i = 0; i < 3; i++) {
    PsTensor *tensor = run (rig, PS_OP_B, 1, order[i], NULL);

    g_array_append_vals (bits[order[i]], tensor->data, (guint)(tensor->bytes / sizeof (float)));
    g_assert_null (run (rig, PS_OP_B, 0, order[i], tensor));
  }
}

static void test_interleaving (void)
{
  static const guint orders[2][3] = { { 0, 1, 2 }, { 2, 0, 1 } };
  GArray *bits[2][3];

  for (guint order = 0; order < 2; order++) {
    Rig rig;

    rig_init (&rig, small_model (2, 16, 2, 8), 2, 3);
    for (guint i = 0; i < 3; i++)
      bits[order][i] = g_array_new (FALSE, FALSE, sizeof (float));
    boundary_bits (&rig, orders[order], bits[order]);
    rig_clear (&rig);
  }
  for (guint i = 0; i < 3; i++) {
    assert_same_bits (bits[0][i], bits[1][i]);
    g_array_unref (bits[0][i]);
    g_array_unref (bits[1][i]);
  }
}

/* The gradient after two W is the sum of the two alone (to fp32 rounding, as the second product adds onto the first).
 */
static void test_accumulates (void)
{
  GArray *gradients[3];

  for (guint which = 0; which < 3; which++) /* 0: microbatch 0, 1: microbatch 1, 2: both */
  {
    Rig rig;

    rig_init (&rig, small_model (2, 16, 2, 8), 1, 2);
    for (guint i = 0; i < 2; i++)
      if (which == 2 || which == i) {
        forward (&rig, i);
        backward (&rig, PS_OP_BW, i);
      }
    gradients[which] = all_gradients (&rig);
    rig_clear (&rig);
  }
  for (guint i = 0; i < gradients[2]->len; i++) {
    const float a = g_array_index (gradients[0], float, i), b = g_array_index (gradients[1], float, i);

    g_assert_cmpfloat (fabsf (a + b - g_array_index (gradients[2], float, i)), <, 1e-6f);
  }
  for (guint i = 0; i < 3; i++)
    g_array_unref (gradients[i]);
}

/* --- memory --- */

/* One microbatch through stages 0 and 1; F, B and W of stage 0 go to numbers[0..5], of stage 1 to numbers[6..11]. */
static void measure_microbatch (Rig *rig, guint i, gint64 numbers[12])
{
  PsTensor *tensor = run_measured (rig, PS_OP_F, 0, i, NULL, &numbers[0], &numbers[1]);

  run_measured (rig, PS_OP_F, 1, i, tensor, &numbers[6], &numbers[7]);
  tensor = run_measured (rig, PS_OP_B, 1, i, NULL, &numbers[8], &numbers[9]);
  run_measured (rig, PS_OP_B, 0, i, tensor, &numbers[2], &numbers[3]);
  run_measured (rig, PS_OP_W, 1, i, NULL, &numbers[10], &numbers[11]);
  run_measured (rig, PS_OP_W, 0, i, NULL, &numbers[4], &numbers[5]);
}

/* With h = 16, f = 2h, a = 2, s = 8, b = 2 and V = 16 a tensor of T = 16 tokens and h has N = 1024 bytes and nothing
 * needs padding. A layer's F keeps 6N (norms 2, qkv 3, context 1) + 4N (z, g) = 10N until W, and P = b a s s 4 = 1024
 * bytes = N of probabilities and 2 T 4 = 128 bytes of norm scales until B. B adds 4N per layer: gradients of both
 * norms, of y and of the output. Both stages have two layers. */
static void test_memory_numbers (void)
{
  const gint64 n = 1024, late = n + 128;
  const gint64 expected[12] = {
    /* stage 0: F */ 2 * (10 * n + late),
    0,
    /* B: the received gradient, then per layer 3N for the gradients kept and N for the layer's input: 1 + 4 at the
     * first layer, 1 + 4 - late
     * + 4 at the second; both late blocks go back at the end */
    9 * n - late,
    0 + 2 * late - late,
    /* W: all that is left: 2 (10 + 3 + 1) N and the embedding's N */ 0,
    29 * n,
    /* stage 1: F keeps the head's norm and 16 probabilities per token (N each) and a scale per token */
    2 * (10 * n + late) + 2 * n + 64,
    0,
    /* B: N for the head's norm and N for its input, less the scales; then as above, but the gradient of the stage's
     * input is a buffer on its way to stage 0 */
    2 * n - 64 + 4 * n - late + 3 * n,
    0 + late,
    /* W: 2 (10 + 3 + 1) N and the head's 3N */ 0,
    31 * n,
  };
  gint64 numbers[12];
  PsMemoryUse use;
  PsModel model = small_model (4, 16, 2, 8);
  Rig rig;

  model.vocabulary = 16;
  rig_init (&rig, model, 2, 3);
  for (guint i = 0; i < 3; i++) {
    measure_microbatch (&rig, i, numbers);
    for (guint k = 0; k < G_N_ELEMENTS (expected); k++)
      g_assert_cmpint (numbers[k], ==, expected[k]);
  }
  class->memory (rig.device, &use);
  g_assert_cmpint (use.current[PS_USE_ACTIVATION], ==, 0);
  g_assert_cmpint (use.current[PS_USE_BUFFER], ==, 0);
  rig_clear (&rig);
}

/* Stage 1 of three has two layers and neither embedding nor head. N and the blocks are those of test_memory_numbers: a
 * layer makes 10N, 128 bytes of scales and N of probabilities. */
static void test_memory_recompute (void)
{
  const gint64 n = 1024, scales = 128;
  const gint64 expected[][6] = {
    /* F takes and gives back, then B, then W: B adds N for what it receives, 3N per layer and N between the layers. */
    [PS_RECOMPUTE_NONE] = { 22 * n + 2 * scales, 0, 7 * n - scales, n + scales, 0, 28 * n },
    /* The probabilities of one layer are there while an op runs. */
    [PS_RECOMPUTE_SELECTIVE] = { 21 * n + 2 * scales, n, 9 * n - scales, n + scales, 0, 28 * n },
    /* Inputs are kept, N each. B makes a layer's blocks and gives its input back. */
    [PS_RECOMPUTE_FULL] = { 13 * n + scales, 11 * n + scales, 27 * n + scales, n + scales, 0, 28 * n },
  };

  for (rig_recompute = PS_RECOMPUTE_NONE; rig_recompute <= PS_RECOMPUTE_FULL; rig_recompute++) {
    gint64 numbers[6];
    Rig rig;

    rig_init (&rig, small_model (6, 16, 2, 8), 3, 1);
    PsTensor *tensor = run (&rig, PS_OP_F, 0, 0, NULL);
    tensor = run_measured (&rig, PS_OP_F, 1, 0, tensor, &numbers[0], &numbers[1]);
    run (&rig, PS_OP_F, 2, 0, tensor);
    tensor = run (&rig, PS_OP_B, 2, 0, NULL);
    tensor = run_measured (&rig, PS_OP_B, 1, 0, tensor, &numbers[2], &numbers[3]);
    run_measured (&rig, PS_OP_W, 1, 0, NULL, &numbers[4], &numbers[5]);
    class->tensor_free (tensor);
    for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
      g_assert_cmpint (numbers[i], ==, expected[rig_recompute][i]);
    rig_clear (&rig);
  }
  rig_recompute = PS_RECOMPUTE_NONE;
}

/* An R makes everything again before its backward: 10N of each of four layers, with scales. */
static void test_recompute_op (void)
{
  GArray *bits[2];
  PsMemoryUse use;
  gint64 held[2];

  rig_recompute = PS_RECOMPUTE_FULL;
  for (guint with_op = 0; with_op < 2; with_op++) {
    Rig rig;

    rig_init (&rig, small_model (4, 16, 2, 8), 2, 1);
    forward (&rig, 0);
    if (with_op)
      run_all_stages (&rig, PS_OP_R, 0);
    class->memory (rig.device, &use);
    held[with_op] = use.current[PS_USE_ACTIVATION];
    backward (&rig, PS_OP_BW, 0);
    bits[with_op] = all_gradients (&rig);
    rig_clear (&rig);
  }
  rig_recompute = PS_RECOMPUTE_NONE;
  g_assert_cmpint (held[1] - held[0], ==, 4 * (10 * 1024 + 128));
  assert_same_bits (bits[0], bits[1]);
  g_array_unref (bits[0]);
  g_array_unref (bits[1]);
}

/* Weights, gradients and two moments: 16 bytes per parameter in whole 64 bytes; and the workspace. */
static void test_memory_state (void)
{
  Rig rig;
  gsize n;
  PsMemoryUse use;

  rig_init (&rig, small_model (2, 8, 2, 4), 1, 1);
  class->gradients (rig.device, 0, &n);
  class->memory (rig.device, &use);
  /* T h + T f + s s + s h/a + b (s + 1) floats, each in whole 64 bytes: 256 + 512 + 64 + 64 + 64 */
  g_assert_cmpint (use.current[PS_USE_STATE], ==, 4 * (((gint64)n * 4 + 63) / 64 * 64) + 960);
  g_assert_cmpint (use.peak_bytes, ==, use.current[PS_USE_STATE]);

  PsTensor *tensor = class->tensor_new (rig.device);
  g_assert_cmpuint (tensor->bytes, ==, 2 * 4 * 8 * 4);
  class->memory (rig.device, &use);
  g_assert_cmpint (use.current[PS_USE_BUFFER], ==, (gint64)tensor->bytes);
  g_assert_cmpint (use.peak_bytes, ==, use.current[PS_USE_STATE]);
  class->tensor_free (tensor);
  class->memory (rig.device, &use);
  g_assert_cmpint (use.current[PS_USE_BUFFER], ==, 0);
  rig_clear (&rig);
}

static void test_allocator (void)
{
  PsMemoryPool *memory = ps_cpu_memory_new (1024);
  PsMemoryUse use;
  float *a = ps_cpu_memory_take (memory, 100, PS_USE_ACTIVATION); /* 400 bytes: 448 in whole 64s */
  float *b = ps_cpu_memory_take (memory, 128, PS_USE_BUFFER);

  g_assert_cmpuint ((guintptr)a % 64, ==, 0);
  g_assert_null (ps_cpu_memory_take (memory, 32, PS_USE_STATE)); /* 448 + 512 + 128 > 1024 */
  ps_memory_pool_retag (memory, b, PS_USE_ACTIVATION);
  ps_memory_pool_give (memory, a);
  ps_memory_pool_use (memory, &use);
  g_assert_cmpint (use.current[PS_USE_ACTIVATION], ==, 512);
  g_assert_cmpint (use.current[PS_USE_BUFFER], ==, 0);
  g_assert_cmpint (use.peak_bytes, ==, 960);
  g_assert_true (ps_cpu_memory_take (memory, 110, PS_USE_STATE) == a); /* 440 bytes: the same size, reused */
  ps_memory_pool_free (memory);
}

/* 2224 parameters (35584 bytes), 3712 of workspace, an input of 1024 and the 10240 and 128 of two blocks fit into 50712
 * bytes, the layer's third block of 1024 does not: an error, and nothing is left behind. */
static void test_refuses_activations (void)
{
  const PsModel model = small_model (1, 16, 2, 8);
  const PsStageShape shape = { .n_layers = 1 };
  PsDeviceSetting setting = { .n_versions = 1 };
  PsCpuContext context = { .memory = ps_cpu_memory_new (50712), .setting = &setting, .n_microbatches = 1 };
  g_autoptr (GError) error = NULL;
  PsMemoryUse use;
  float *output;

  g_assert_true (ps_cpu_sizes_init (&context.sizes, &model, 1, NULL));
  context.whole_sizes = context.sizes;
  PsCpuStage *stage = fine (ps_cpu_stage_new (&context, 3, &shape, &error));
  float *input = ps_cpu_memory_take (context.memory, 256, PS_USE_BUFFER);
  g_assert_nonnull (input);
  g_assert_false (ps_cpu_stage_forward (stage, (PsOp){ .kind = PS_OP_F }, input, &output, &error));
  assert_error (&error, PS_ERROR_UNAVAILABLE, "stage 3: no memory for 1 KiB of activations");
  ps_memory_pool_use (context.memory, &use);
  g_assert_cmpint (use.current[PS_USE_ACTIVATION] + use.current[PS_USE_BUFFER], ==, 0);
  ps_cpu_stage_free (stage);
  ps_memory_pool_free (context.memory);
}

/* Devices of one process share its machine: 3/5 of all memory is there once. Nothing is written to it. */
static void test_shared_memory (void)
{
  gsize n = (gsize)ps_physical_bytes () / sizeof (float) / 5 * 3;
  PsMemoryPool *first = ps_cpu_memory_new (0), *second = ps_cpu_memory_new (0);

  mallopt (M_PERTURB, 0);
  if (ps_cpu_memory_take (first, n, PS_USE_STATE) == NULL)
    g_test_skip ("the system grants no such block");
  else {
    g_assert_null (ps_cpu_memory_take (second, n, PS_USE_STATE));
    ps_memory_pool_free (g_steal_pointer (&first));
    g_assert_nonnull (ps_cpu_memory_take (second, n, PS_USE_STATE));
  }
  ps_memory_pool_free (first);
  ps_memory_pool_free (second);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cpu/bits/b-and-w-equal-bw", test_b_and_w_equal_bw);
  g_test_add_func ("/cpu/bits/cut", test_cut);
  g_test_add_func ("/cpu/bits/threads", test_threads);
  g_test_add_func ("/cpu/bits/interleaving", test_interleaving);
  g_test_add_func ("/cpu/bits/accumulates", test_accumulates);
  g_test_add_func ("/cpu/memory/numbers", test_memory_numbers);
  g_test_add_func ("/cpu/memory/recompute", test_memory_recompute);
  g_test_add_func ("/cpu/memory/recompute-op", test_recompute_op);
  g_test_add_func ("/cpu/memory/state", test_memory_state);
  g_test_add_func ("/cpu/memory/allocator", test_allocator);
  g_test_add_func ("/cpu/memory/shared", test_shared_memory);
  g_test_add_func ("/cpu/refuses/activations", test_refuses_activations);
  return g_test_run ();
}

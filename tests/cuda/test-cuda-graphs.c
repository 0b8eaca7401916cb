/* test-cuda-graphs.c - ops that are captured once and launched as graphs compute what their kernels do one by one. */
#include "cuda-device-rig.h"

#define N_MICROBATCHES 3
#define N_STEPS 3

/* On the emulation: graphs made and launched so far; on a GPU nothing, TRUE only there. */
static gboolean count_graphs (guint *captures, guint *launches)
{
  void (*count) (guint *, guint *)
      = (void (*) (guint *, guint *))ps_module_function ("test", "cuda", "ps_emulator_graphs", NULL);

  if (count != NULL)
    count (captures, launches);
  return count != NULL;
}

/* A step with every kind of op: microbatch 0 as B and W, the others as BW. */
static void train (Rig *rig)
{
  for (guint i = 0; i < N_MICROBATCHES; i++)
    forward (rig, i);
  backward (rig, PS_OP_B, 0);
  run_all_stages (rig, PS_OP_W, 0);
  for (guint i = 1; i < N_MICROBATCHES; i++)
    backward (rig, PS_OP_BW, i);
}

static void open_with_graphs (Rig *rig, PsModel model, gboolean graphs)
{
  g_setenv ("PIPESIM_CUDA_GRAPHS", graphs ? "1" : "0", TRUE);
  rig_open (rig, cuda_device, model, 2, N_MICROBATCHES);
}

/* Losses and gradients of the last step. */
static GArray *train_steps (PsModel model, gboolean graphs, double losses[N_MICROBATCHES])
{
  Rig rig;

  open_with_graphs (&rig, model, graphs);
  for (guint step = 1; step <= N_STEPS; step++) {
    train (&rig);
    if (step < N_STEPS)
      run_all_stages (&rig, PS_OP_O, 0);
  }
  for (guint i = 0; i < N_MICROBATCHES; i++)
    losses[i] = rig.device->class->loss (rig.device, i);
  GArray *gradients = all_gradients (&rig);
  rig_clear (&rig);
  return gradients;
}

static PsModel shallow_model (PsPrecision precision, PsMlp mlp)
{
  PsModel model = cuda_model (precision, mlp);

  model.layers = 2;
  return model;
}

static void check_bits (PsPrecision precision, PsMlp mlp)
{
  double one_by_one[N_MICROBATCHES], in_graphs[N_MICROBATCHES];
  g_autoptr (GArray) a = train_steps (shallow_model (precision, mlp), FALSE, one_by_one);
  g_autoptr (GArray) b = train_steps (shallow_model (precision, mlp), TRUE, in_graphs);

  assert_same_bits (a, b);
  g_assert_cmpmem (one_by_one, sizeof one_by_one, in_graphs, sizeof in_graphs);
}

static void test_bits (void)
{
  check_bits (PS_PRECISION_FP32, PS_MLP_GELU);
  check_bits (PS_PRECISION_BF16, PS_MLP_SWIGLU);
}

/* Two stages: N F, one B and one W, N - 1 BW each are launched as graphs in a step, O is not. Where every step takes
 * and gives back the same blocks, the first step captures all, the second those that lie elsewhere than fresh memory
 * did, and from then on nothing is captured. */
static void test_captured_once (void)
{
  const guint per_step = 2 * (2 * N_MICROBATCHES + 1);
  guint captures, launches, captures_after, launches_after;
  Rig rig;

  if (!count_graphs (&captures, &launches)) {
    g_test_skip ("only the emulation counts graphs");
    return;
  }
  open_with_graphs (&rig, shallow_model (PS_PRECISION_BF16, PS_MLP_GELU), TRUE);
  for (guint step = 0; step < N_STEPS; step++) {
    count_graphs (&captures, &launches);
    train (&rig);
    run_all_stages (&rig, PS_OP_O, 0);
    count_graphs (&captures_after, &launches_after);
    g_test_message ("step %u: %u captured, %u launched", step, captures_after - captures, launches_after - launches);
    g_assert_cmpuint (launches_after - launches, ==, per_step);
    if (step == 0)
      g_assert_cmpuint (captures_after - captures, ==, per_step);
    if (step >= 2)
      g_assert_cmpuint (captures_after - captures, ==, 0);
  }
  rig_clear (&rig);
}

/* Blocks that somebody else holds: ops find others, and are captured again. */
static void test_moved_blocks (void)
{
  const PsModel model = shallow_model (PS_PRECISION_FP32, PS_MLP_GELU);
  guint captures = 0, launches = 0, captures_after = 0;
  PsTensor *held[2];
  Rig rig, other;

  open_with_graphs (&other, model, FALSE);
  open_with_graphs (&rig, model, TRUE);
  for (guint step = 0; step < 2; step++)
    train (&rig);
  count_graphs (&captures, &launches);
  for (guint i = 0; i < G_N_ELEMENTS (held); i++)
    held[i] = rig.device->class->tensor_new (rig.device);
  train (&rig);
  if (count_graphs (&captures_after, &launches))
    g_assert_cmpuint (captures_after, >, captures);
  for (guint i = 0; i < G_N_ELEMENTS (held); i++)
    rig.device->class->tensor_free (held[i]);
  for (guint step = 0; step < 3; step++)
    train (&other);

  g_autoptr (GArray) a = all_gradients (&rig);
  g_autoptr (GArray) b = all_gradients (&other);
  assert_same_bits (a, b);
  rig_clear (&rig);
  rig_clear (&other);
}

int main (int argc, char **argv)
{
  cuda_init (&argc, &argv);
  cuda_add ("/cuda/graphs/bits", test_bits);
  cuda_add ("/cuda/graphs/captured-once", test_captured_once);
  cuda_add ("/cuda/graphs/moved-blocks", test_moved_blocks);
  return g_test_run ();
}

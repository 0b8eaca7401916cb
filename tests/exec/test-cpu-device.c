/* test-cpu-device.c - the cpu device computes what a GPT computes, and refuses what it can't do. */
#include <math.h>

#include "cpu-rig.h"
#include "train/data.h"
#include "train/cpu/cpu-kernels.h"
#include "gpt-reference.h"

/* --- the numbers are right --- */

/* Free array[0] with g_free. */
static PsStageState read_state (const Rig *rig)
{
  PsStageState state = { 0 };

  class->gradients (rig->device, 0, &state.n);
  state.array[0] = g_new (float, PS_N_STATE_ARRAYS *state.n);
  for (guint i = 1; i < PS_N_STATE_ARRAYS; i++)
    state.array[i] = state.array[0] + i * state.n;
  g_assert_true (class->read_state (rig->device, 0, &state, NULL));
  return state;
}

/* Weights of the size of 1, so that no gradient is small by chance (initial weights make those of queries and keys
 * vanish). */
static GArray *shake_weights (Rig *rig)
{
  GArray *copy = g_array_new (FALSE, FALSE, sizeof (double));
  PsStageState state = read_state (rig);
  g_autofree float *weights = state.array[PS_STATE_WEIGHTS], *noise = g_new (float, state.n);

  ps_data_weights (noise, state.n, 0.4f, 99, 0, 0);
  for (gsize i = 0; i < state.n; i++) {
    weights[i] += noise[i];
    const double exact = weights[i];
    g_array_append_val (copy, exact);
  }
  g_assert_true (class->write_state (rig->device, 0, &state, NULL));
  return copy;
}

static double loss_of_microbatches (const Rig *rig, const double *weights)
{
  double loss = 0;
  g_autofree guint32 *words = g_new (guint32, rig->model.microbatch_size * (rig->model.sequence + 1));

  for (guint i = 0; i < rig->setting.n_microbatches; i++) {
    ps_data_words (words, rig->model.microbatch_size, rig->model.sequence, rig->model.vocabulary, rig->setting.seed, i);
    loss += reference_loss (&rig->model, weights, words);
  }
  return loss;
}

/* The gradients of every stride-th parameter of a group against (loss (w + e) - loss (w - e)) / 2e in double precision,
 * whose own error is about e^2. fp32 gradients carry some 1e-6 of the largest in their group. */
static void check_group (const Rig *rig, const ParameterGroup *group, double *weights, const float *gradients,
                         guint stride)
{
  const double step = 1e-5;
  double worst = 0, largest = 0;

  for (gsize i = group->first; i < group->first + group->n; i += stride) {
    const double weight = weights[i];

    weights[i] = weight + step;
    const double above = loss_of_microbatches (rig, weights);
    weights[i] = weight - step;
    const double below = loss_of_microbatches (rig, weights);
    weights[i] = weight;
    const double expected = (above - below) / (2 * step);
    worst = fmax (worst, fabs (expected - gradients[i]));
    largest = fmax (largest, fabs (expected));
  }
  g_test_message ("layer %u %s: largest gradient %g, worst error %g", group->layer, group->name, largest, worst);
  g_assert_cmpfloat (largest, >, 1e-3);
  g_assert_cmpfloat (worst, <, 2e-5 * largest + 1e-8);
}

static void check_gradients (PsModel model, guint stride)
{
  Rig rig;
  gsize n;
  double loss = 0;

  rig_init (&rig, model, 1, 2);
  g_autoptr (GArray) weights = shake_weights (&rig);
  g_autoptr (GArray) groups = reference_groups (&model);
  all_microbatches (&rig);
  for (guint i = 0; i < 2; i++)
    loss += class->loss (rig.device, i);
  g_assert_cmpfloat (fabs (loss - loss_of_microbatches (&rig, (double *)(void *)weights->data)), <, 1e-5);

  const float *gradients = class->gradients (rig.device, 0, &n);
  const ParameterGroup *last = &g_array_index (groups, ParameterGroup, groups->len - 1);
  g_assert_cmpuint (n, ==, last->first + last->n);
  for (guint i = 0; i < groups->len; i++)
    check_group (&rig, &g_array_index (groups, ParameterGroup, i), (double *)(void *)weights->data, gradients, stride);
  rig_clear (&rig);
}

static void test_gradients_small (void)
{
  check_gradients (small_model (2, 8, 2, 4), 1);
}

/* Sizes that are no multiples of anything, so that vector loops have tails. */
static void test_gradients_odd (void)
{
  check_gradients (small_model (1, 21, 3, 19), 13);
}

/* The head's part of the gradient of a shared matrix. */
static void test_gradients_tied (void)
{
  PsModel model = small_model (1, 12, 2, 4);

  model.tied = TRUE;
  check_gradients (model, 1);
}

static void test_kernels (void)
{
  float z[401], slope[401], g[401], bias[401] = { 0 };

  for (int i = 0; i < 401; i++) {
    z[i] = (float)(i - 200) * 0.05f;
    slope[i] = 1;
  }
  ps_cpu_gelu (g, z, bias, 1, 401);
  ps_cpu_gelu_input (z, slope, 401);
  for (int i = 0; i < 401; i++) {
    const double at = (double)((float)(i - 200) * 0.05f), e = 1e-6;
    const double expected = (reference_gelu (at + e) - reference_gelu (at - e)) / (2 * e);

    g_assert_cmpfloat (fabs ((double)g[i] - reference_gelu (at)), <, 1e-6 * fmax (1, fabs (at)));
    g_assert_cmpfloat (fabs ((double)z[i] - expected), <, 2e-6);
  }

  /* softmax (0, log 3) = (1/4, 3/4); the loss of the second is log (4/3). Far apart: no overflow. */
  float logits[2] = { 0, logf (3) }, far[2] = { -3e4f, 3e4f };
  g_assert_cmpfloat (fabs (ps_cpu_cross_entropy (logits, 2, 1) - log (4.0 / 3)), <, 1e-7);
  g_assert_cmpfloat (fabsf (logits[0] - 0.25f), <, 1e-7f);
  g_assert_cmpfloat (fabs (ps_cpu_cross_entropy (far, 2, 0) - 6e4), <, 1e-2);
}

/* Adam's first step moves every weight by the learning rate against its gradient's sign: m / sqrt (v) = g / |g|. The
 * gradient of the step is the sum over microbatches divided by their number; afterwards it is zero. */
static void test_optimizer (void)
{
  Rig rig;
  gsize n;

  rig_init (&rig, small_model (1, 8, 2, 4), 1, 2);
  all_microbatches (&rig);
  const float *gradients = class->gradients (rig.device, 0, &n);
  g_autofree float *before = read_state (&rig).array[PS_STATE_WEIGHTS];
  g_autofree float *slope = g_memdup2 (gradients, n * sizeof (float));
  run (&rig, PS_OP_O, 0, 0, NULL);
  g_autofree float *weights = read_state (&rig).array[PS_STATE_WEIGHTS];
  for (gsize i = 0; i < n; i++) {
    /* epsilon 1e-8 matters for tiny gradients: g / (|g| + epsilon) */
    const double g = (double)slope[i] / 2, expected = -1e-3 * g / (fabs (g) + 1e-8);

    g_assert_cmpfloat (gradients[i], ==, 0);
    g_assert_cmpfloat (fabs ((double)weights[i] - (double)before[i] - expected), <, 2e-7);
  }
  rig_clear (&rig);
}

/* At the start every word is as likely as any other: loss = log V. It falls on the fixed batch. */
static void test_learns (void)
{
  Rig rig;
  PsModel model = small_model (2, 32, 4, 16);
  double first = 0, last = 0, before = INFINITY;

  model.vocabulary = 64;
  rig_init (&rig, model, 2, 4);
  for (guint step = 0; step < 20; step++) {
    all_microbatches (&rig);
    last = 0;
    for (guint i = 0; i < 4; i++)
      last += class->loss (rig.device, i) / 4;
    if (step == 0)
      first = last;
    g_assert_cmpfloat (last, <, before);
    before = last;
    run_all_stages (&rig, PS_OP_O, 0);
  }
  g_test_message ("loss %g -> %g", first, last);
  g_assert_cmpfloat (fabs (first - log (64)), <, 0.05);
  g_assert_cmpfloat (last, <, 0.85 * first);
  rig_clear (&rig);
}

/* --- what goes wrong --- */

static void assert_open_fails (PsModel model, const char *message)
{
  const PsDeviceSetting setting = { .model = &model, .n_stages = 1, .n_microbatches = 1, .core = -1 };

  refused (class->open (&setting, &error), PS_ERROR_UNAVAILABLE, message);
}

static void test_refuses_models (void)
{
  PsModel model = small_model (1, 8, 2, 4);
  const PsDeviceSetting nothing = { .n_stages = 1, .n_microbatches = 1, .core = -1 };

  model.precision = PS_PRECISION_BF16;
  assert_open_fails (model, "cpu device: model has precision = bf16: only fp32 is supported");
  model = small_model (1, 8, 2, 4);
  model.mlp = PS_MLP_SWIGLU;
  assert_open_fails (model, "cpu device: model has mlp = swiglu: only gelu is supported");
  model = small_model (1, 8, 2, 4);
  model.flash_attention = TRUE;
  assert_open_fails (model, "cpu device: model has flash_attention = true: only false is supported");
  model = small_model (1, 8, 2, 4);
  model.kv_heads = 1;
  assert_open_fails (model, "cpu device: model has kv_heads = 1: only the number of heads, 2, is supported");
  model = small_model (1, 8, 2, 4);
  model.microbatch_size = model.sequence = 1u << 20;
  assert_open_fails (model,
                     "cpu device: model of 1 layers, hidden 8, feed_forward 16, vocabulary 11, 1048576 x 1048576 "
                     "tokens is too large");

  refused (class->open (&nothing, &error), PS_ERROR_USAGE, "cpu device: needs a model description");
}

/* 8 layers of 4h^2 + 2hf = 8h^2 weights at h = 2^17 are 2^40 parameters: 16 TiB of state. */
static void test_refuses_size (void)
{
  PsModel model = small_model (8, 1u << 17, 32, 8);
  const PsDeviceSetting setting = { .model = &model, .n_stages = 1, .n_microbatches = 1, .core = -1 };
  const PsStageShape shape = { .n_layers = 8, .embedding = TRUE, .head = TRUE };
  PsDevice *device = fine (class->open (&setting, &error));

  refused (class->add_stage (device, 0, &shape, &error), PS_ERROR_UNAVAILABLE,
           "stage 0: no memory for 16 TiB of weights, gradients and optimizer state");
  class->close (device);
}

static void assert_op_fails (Rig *rig, PsOp op, PsError code, const char *message)
{
  PsTensor *output = NULL;

  refused (class->run (rig->device, op, NULL, &output, &error), code, message);
  g_assert_null (output);
}

static void test_refuses_ops (void)
{
  Rig rig;

  rig_init (&rig, small_model (1, 8, 2, 4), 1, 2);
  g_assert_true (isnan (class->loss (rig.device, 0)));
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_B }, PS_ERROR_SCHEDULE, "stage 0: B of microbatch 0: its F has not run");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_F, .microbatch = 2 }, PS_ERROR_SCHEDULE,
                   "stage 0: F of microbatch 2, slice 0: there are only 2, 1");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_F, .stage = 1 }, PS_ERROR_SCHEDULE, "stage 1: is not on this device");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_F, .slice = 1 }, PS_ERROR_SCHEDULE,
                   "stage 0: F of microbatch 0, slice 1: there are only 2, 1");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_R }, PS_ERROR_SCHEDULE, "stage 0: R of microbatch 0: its F has not run");
  forward (&rig, 1);
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_F, .microbatch = 1 }, PS_ERROR_SCHEDULE,
                   "stage 0: F of microbatch 1: its F has run, its B has not");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_W, .microbatch = 1 }, PS_ERROR_SCHEDULE,
                   "stage 0: W of microbatch 1: its F has run, its B has not");
  backward (&rig, PS_OP_B, 1);
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_BW, .microbatch = 1 }, PS_ERROR_SCHEDULE,
                   "stage 0: B of microbatch 1: its B has run, its W has not");
  rig_clear (&rig);
}

static void test_pinning (void)
{
  const PsModel model = small_model (1, 8, 2, 4);
  PsDeviceSetting setting = { .model = &model, .n_stages = 1, .n_microbatches = 1, .core = 1 << 20 };
  g_autoptr (GError) error = NULL;
  PsDevice *device = class->open (&setting, &error);

  refused (class->attach (device, &error), PS_ERROR_UNAVAILABLE,
           "cpu device: core 1048576 does not exist, this machine has *");
  class->close (device);
  g_clear_error (&error);

  setting.core = 0;
  device = class->open (&setting, &error);
  g_assert_true (class->attach (device, &error));
  class->close (device);

  g_autofree char *libraries = class->libraries ();
  g_test_message ("%s", libraries);
  g_assert_true (g_str_has_prefix (libraries, "OpenBLAS 0."));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cpu/kernels", test_kernels);
  g_test_add_func ("/cpu/gradients/small", test_gradients_small);
  g_test_add_func ("/cpu/gradients/odd", test_gradients_odd);
  g_test_add_func ("/cpu/gradients/tied", test_gradients_tied);
  g_test_add_func ("/cpu/optimizer", test_optimizer);
  g_test_add_func ("/cpu/learns", test_learns);
  g_test_add_func ("/cpu/refuses/models", test_refuses_models);
  g_test_add_func ("/cpu/refuses/size", test_refuses_size);
  g_test_add_func ("/cpu/refuses/ops", test_refuses_ops);
  g_test_add_func ("/cpu/pinning", test_pinning);
  return g_test_run ();
}

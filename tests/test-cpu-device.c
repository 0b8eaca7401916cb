/* test-cpu-device.c - the cpu device computes what a GPT computes, keeps what it says, and gives the same bits however
 * it is run. */
#include <math.h>
#include <string.h>

#include "device/cpu/cpu-data.h"
#include "device/cpu/cpu-device.h"
#include "device/cpu/cpu-kernels.h"
#include "device/cpu/cpu-stage.h"
#include "device/devices.h"
#include "gpt-reference.h"

static const PsDeviceClass *const class = &ps_cpu_device;

/* A device that holds all stages of a model. */
typedef struct
{
  PsModel model;
  PsDeviceSetting setting;
  PsDevice *device;
} Rig;

static PsModel
small_model (guint layers, guint hidden, guint heads, guint sequence)
{
  return (PsModel){ .layers = layers,
                    .hidden = hidden,
                    .heads = heads,
                    .kv_heads = heads,
                    .sequence = sequence,
                    .feed_forward = 2 * hidden,
                    .vocabulary = 11,
                    .microbatch_size = 2 };
}

static void
rig_init (Rig *rig, PsModel model, guint n_stages, guint n_microbatches)
{
  g_autoptr (GError) error = NULL;

  rig->model = model;
  rig->setting = (PsDeviceSetting){
    .model = &rig->model, .n_stages = n_stages, .n_microbatches = n_microbatches, .core = -1, .seed = 7
  };
  rig->device = class->open (&rig->setting, &error);
  g_assert_no_error (error);
  g_assert_true (class->attach (rig->device, &error));
  for (guint i = 0; i < n_stages; i++)
    {
      const PsStageShape shape = { .first_layer = i * model.layers / n_stages,
                                   .n_layers = (i + 1) * model.layers / n_stages - i * model.layers / n_stages,
                                   .embedding = i == 0,
                                   .head = i == n_stages - 1 };
      g_assert_true (class->add_stage (rig->device, i, &shape, &error));
    }
}

static void
rig_clear (Rig *rig)
{
  class->close (rig->device);
}

static PsTensor *
run (Rig *rig, PsOpKind kind, guint stage, guint microbatch, PsTensor *input)
{
  const PsOp op = { .kind = (guint8)kind, .stage = (guint16)stage, .microbatch = microbatch & 0x7fffffff };
  g_autoptr (GError) error = NULL;
  PsTensor *output = NULL;

  class->run (rig->device, op, input, &output, &error);
  g_assert_no_error (error);
  return output;
}

/* Runs a microbatch through all stages. */
static void
forward (Rig *rig, guint microbatch)
{
  PsTensor *tensor = NULL;

  for (guint stage = 0; stage < rig->setting.n_stages; stage++)
    tensor = run (rig, PS_OP_F, stage, microbatch, tensor);
  g_assert_null (tensor);
}

static void
backward (Rig *rig, PsOpKind kind, guint microbatch)
{
  PsTensor *tensor = NULL;

  for (guint stage = rig->setting.n_stages; stage > 0; stage--)
    tensor = run (rig, kind, stage - 1, microbatch, tensor);
  g_assert_null (tensor);
}

static void
run_all_stages (Rig *rig, PsOpKind kind, guint microbatch)
{
  for (guint stage = 0; stage < rig->setting.n_stages; stage++)
    run (rig, kind, stage, microbatch, NULL);
}

/* One training step without the optimizer: all F, all BW. */
static void
all_microbatches (Rig *rig)
{
  for (guint i = 0; i < rig->setting.n_microbatches; i++)
    forward (rig, i);
  for (guint i = 0; i < rig->setting.n_microbatches; i++)
    backward (rig, PS_OP_BW, i);
}

/* The gradients of all stages in a row. */
static GArray *
all_gradients (Rig *rig)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (float));

  for (guint stage = 0; stage < rig->setting.n_stages; stage++)
    {
      gsize n;
      const float *gradients = class->gradients (rig->device, stage, &n);
      g_array_append_vals (all, gradients, (guint)n);
    }
  return all;
}

static void
assert_same_bits (GArray *a, GArray *b)
{
  g_assert_cmpmem (a->data, a->len * sizeof (float), b->data, b->len * sizeof (float));
}

/* --- the numbers are right --- */

/* Weights of the size of 1, so that no gradient is small by chance (initial weights make those of queries and keys
 * vanish). */
static GArray *
shake_weights (Rig *rig)
{
  GArray *copy = g_array_new (FALSE, FALSE, sizeof (double));
  gsize n;
  float *weights = ps_cpu_device_weights (rig->device, 0, &n);
  g_autofree float *noise = g_new (float, n);

  ps_cpu_data_weights (noise, n, 0.4f, 99, 0, 0);
  for (gsize i = 0; i < n; i++)
    {
      weights[i] += noise[i];
      const double exact = weights[i];
      g_array_append_val (copy, exact);
    }
  return copy;
}

static double
loss_of_microbatches (const Rig *rig, const double *weights)
{
  PsCpuSizes sizes;
  double loss = 0;

  ps_cpu_sizes_init (&sizes, &rig->model, NULL);
  g_autofree guint32 *words = g_new (guint32, rig->model.microbatch_size * (rig->model.sequence + 1));
  for (guint i = 0; i < rig->setting.n_microbatches; i++)
    {
      ps_cpu_data_words (words, &sizes, rig->setting.seed, i);
      loss += reference_loss (&rig->model, weights, words);
    }
  return loss;
}

/* The gradients of every stride-th parameter of a group against (loss (w + e) - loss (w - e)) / 2e in double precision,
 * whose own error is about e^2. fp32 gradients carry some 1e-6 of the largest in their group. */
static void
check_group (const Rig *rig, const ParameterGroup *group, double *weights, const float *gradients, guint stride)
{
  const double step = 1e-5;
  double worst = 0, largest = 0;

  for (gsize i = group->first; i < group->first + group->n; i += stride)
    {
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

static void
check_gradients (PsModel model, guint stride)
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

static void
test_gradients_small (void)
{
  check_gradients (small_model (2, 8, 2, 4), 1);
}

/* Sizes that are no multiples of anything, so that vector loops have tails. */
static void
test_gradients_odd (void)
{
  check_gradients (small_model (1, 21, 3, 19), 13);
}

static void
test_kernels (void)
{
  float z[401], slope[401], g[401], bias[401] = { 0 };

  for (int i = 0; i < 401; i++)
    {
      z[i] = (float)(i - 200) * 0.05f;
      slope[i] = 1;
    }
  ps_cpu_gelu (g, z, bias, 1, 401);
  ps_cpu_gelu_input (z, slope, 401);
  for (int i = 0; i < 401; i++)
    {
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
static void
test_optimizer (void)
{
  Rig rig;
  gsize n;

  rig_init (&rig, small_model (1, 8, 2, 4), 1, 2);
  all_microbatches (&rig);
  float *weights = ps_cpu_device_weights (rig.device, 0, &n);
  const float *gradients = class->gradients (rig.device, 0, &n);
  g_autofree float *before = g_memdup2 (weights, n * sizeof (float));
  g_autofree float *slope = g_memdup2 (gradients, n * sizeof (float));
  run (&rig, PS_OP_O, 0, 0, NULL);
  for (gsize i = 0; i < n; i++)
    {
      /* epsilon 1e-8 matters for tiny gradients: g / (|g| + epsilon) */
      const double g = (double)slope[i] / 2, expected = -1e-3 * g / (fabs (g) + 1e-8);
      g_assert_cmpfloat (gradients[i], ==, 0);
      g_assert_cmpfloat (fabs ((double)weights[i] - (double)before[i] - expected), <, 2e-7);
    }
  rig_clear (&rig);
}

/* At the start every word is as likely as any other: loss = log V. It falls on the fixed batch. */
static void
test_learns (void)
{
  Rig rig;
  PsModel model = small_model (2, 32, 4, 16);
  double first = 0, last = 0, before = INFINITY;

  model.vocabulary = 64;
  rig_init (&rig, model, 2, 4);
  for (guint step = 0; step < 20; step++)
    {
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

/* --- the same bits --- */

static void
test_b_and_w_equal_bw (void)
{
  Rig fused, split;

  rig_init (&fused, small_model (2, 24, 3, 10), 2, 3);
  rig_init (&split, small_model (2, 24, 3, 10), 2, 3);
  all_microbatches (&fused);
  for (guint i = 0; i < 3; i++)
    forward (&split, i);
  for (guint i = 0; i < 3; i++)
    backward (&split, PS_OP_B, 2 - i);
  for (guint i = 0; i < 3; i++)
    run_all_stages (&split, PS_OP_W, i);
  g_autoptr (GArray) a = all_gradients (&fused);
  g_autoptr (GArray) b = all_gradients (&split);
  assert_same_bits (a, b);
  rig_clear (&fused);
  rig_clear (&split);
}

/* Two steps, so that the optimizer's bits count too. */
static GArray *
train_cut (guint n_stages, double losses[2])
{
  Rig rig;

  rig_init (&rig, small_model (4, 24, 3, 10), n_stages, 2);
  all_microbatches (&rig);
  run_all_stages (&rig, PS_OP_O, 0);
  all_microbatches (&rig);
  for (guint i = 0; i < 2; i++)
    losses[i] = class->loss (rig.device, i);
  GArray *gradients = all_gradients (&rig);
  rig_clear (&rig);
  return gradients;
}

static void
test_cut (void)
{
  double losses[2], others[2];
  g_autoptr (GArray) whole = train_cut (1, losses);

  for (guint n_stages = 2; n_stages <= 4; n_stages++)
    {
      g_autoptr (GArray) cut = train_cut (n_stages, others);
      assert_same_bits (whole, cut);
      g_assert_cmpmem (losses, sizeof losses, others, sizeof others);
    }
}

static gpointer
train_in_thread (gpointer unused)
{
  double losses[2];

  return train_cut (2, losses);
}

static void
test_threads (void)
{
  GThread *threads[3];
  double losses[2];
  g_autoptr (GArray) here = train_cut (2, losses);

  for (guint i = 0; i < 3; i++)
    threads[i] = g_thread_new ("train", train_in_thread, NULL);
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GArray) there = g_thread_join (threads[i]);
      assert_same_bits (here, there);
    }
}

/* The activation and the gradient that microbatch i hands over between stages 0 and 1. */
static void
boundary_bits (Rig *rig, const guint order[3], GArray *bits[3])
{
  for (guint i = 0; i < 3; i++)
    {
      PsTensor *tensor = run (rig, PS_OP_F, 0, i, NULL);
      g_array_append_vals (bits[i], tensor->data, (guint)(tensor->bytes / sizeof (float)));
      g_assert_null (run (rig, PS_OP_F, 1, i, tensor));
    }
  for (guint i = 0; i < 3; i++)
    {
      PsTensor *tensor = run (rig, PS_OP_B, 1, order[i], NULL);
      g_array_append_vals (bits[order[i]], tensor->data, (guint)(tensor->bytes / sizeof (float)));
      g_assert_null (run (rig, PS_OP_B, 0, order[i], tensor));
    }
}

static void
test_interleaving (void)
{
  static const guint orders[2][3] = { { 0, 1, 2 }, { 2, 0, 1 } };
  GArray *bits[2][3];

  for (guint order = 0; order < 2; order++)
    {
      Rig rig;
      rig_init (&rig, small_model (2, 16, 2, 8), 2, 3);
      for (guint i = 0; i < 3; i++)
        bits[order][i] = g_array_new (FALSE, FALSE, sizeof (float));
      boundary_bits (&rig, orders[order], bits[order]);
      rig_clear (&rig);
    }
  for (guint i = 0; i < 3; i++)
    {
      assert_same_bits (bits[0][i], bits[1][i]);
      g_array_unref (bits[0][i]);
      g_array_unref (bits[1][i]);
    }
}

/* The gradient after two W is the sum of the two alone (to fp32 rounding, as the second product adds onto the first).
 */
static void
test_accumulates (void)
{
  GArray *gradients[3];

  for (guint which = 0; which < 3; which++) /* 0: microbatch 0, 1: microbatch 1, 2: both */
    {
      Rig rig;
      rig_init (&rig, small_model (2, 16, 2, 8), 1, 2);
      for (guint i = 0; i < 2; i++)
        if (which == 2 || which == i)
          {
            forward (&rig, i);
            backward (&rig, PS_OP_BW, i);
          }
      gradients[which] = all_gradients (&rig);
      rig_clear (&rig);
    }
  for (guint i = 0; i < gradients[2]->len; i++)
    {
      const float a = g_array_index (gradients[0], float, i), b = g_array_index (gradients[1], float, i);
      g_assert_cmpfloat (fabsf (a + b - g_array_index (gradients[2], float, i)), <, 1e-6f);
    }
  for (guint i = 0; i < 3; i++)
    g_array_unref (gradients[i]);
}

/* --- memory --- */

/* Runs an op and finds what it took at its worst moment and gave back by its end, as a calibrator does. */
static PsTensor *
run_measured (Rig *rig, PsOpKind kind, guint stage, guint microbatch, PsTensor *input, gint64 *take, gint64 *give)
{
  PsMemoryUse before, after;

  class->reset_peak (rig->device);
  class->memory (rig->device, &before);
  PsTensor *output = run (rig, kind, stage, microbatch, input);
  class->memory (rig->device, &after);
  *take = after.peak_bytes - before.peak_bytes;
  *give = *take - (after.current[PS_MEMORY_ACTIVATION] - before.current[PS_MEMORY_ACTIVATION]);
  return output;
}

/* One microbatch through stages 0 and 1; F, B and W of stage 0 go to numbers[0..5], of stage 1 to numbers[6..11]. */
static void
measure_microbatch (Rig *rig, guint i, gint64 numbers[12])
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
static void
test_memory_numbers (void)
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
  for (guint i = 0; i < 3; i++)
    {
      measure_microbatch (&rig, i, numbers);
      for (guint k = 0; k < G_N_ELEMENTS (expected); k++)
        g_assert_cmpint (numbers[k], ==, expected[k]);
    }
  class->memory (rig.device, &use);
  g_assert_cmpint (use.current[PS_MEMORY_ACTIVATION], ==, 0);
  g_assert_cmpint (use.current[PS_MEMORY_BUFFER], ==, 0);
  rig_clear (&rig);
}

/* Weights, gradients and two moments: 16 bytes per parameter in whole 64 bytes; and the workspace. */
static void
test_memory_state (void)
{
  Rig rig;
  gsize n;
  PsMemoryUse use;

  rig_init (&rig, small_model (2, 8, 2, 4), 1, 1);
  class->gradients (rig.device, 0, &n);
  class->memory (rig.device, &use);
  /* T h + T f + s s + s h/a + b (s + 1) floats, each in whole 64 bytes: 256 + 512 + 64 + 64 + 64 */
  g_assert_cmpint (use.current[PS_MEMORY_STATE], ==, 4 * (((gint64)n * 4 + 63) / 64 * 64) + 960);
  g_assert_cmpint (use.peak_bytes, ==, use.current[PS_MEMORY_STATE]);

  PsTensor *tensor = class->tensor_new (rig.device);
  g_assert_cmpuint (tensor->bytes, ==, 2 * 4 * 8 * 4);
  class->memory (rig.device, &use);
  g_assert_cmpint (use.current[PS_MEMORY_BUFFER], ==, (gint64)tensor->bytes);
  g_assert_cmpint (use.peak_bytes, ==, use.current[PS_MEMORY_STATE]);
  class->tensor_free (tensor);
  class->memory (rig.device, &use);
  g_assert_cmpint (use.current[PS_MEMORY_BUFFER], ==, 0);
  rig_clear (&rig);
}

static void
test_allocator (void)
{
  PsCpuMemory *memory = ps_cpu_memory_new (1024);
  PsMemoryUse use;
  float *a = ps_cpu_memory_take (memory, 100, PS_MEMORY_ACTIVATION); /* 400 bytes: 448 in whole 64s */
  float *b = ps_cpu_memory_take (memory, 128, PS_MEMORY_BUFFER);

  g_assert_cmpuint ((guintptr)a % 64, ==, 0);
  g_assert_null (ps_cpu_memory_take (memory, 32, PS_MEMORY_STATE)); /* 448 + 512 + 128 > 1024 */
  ps_cpu_memory_retag (memory, b, PS_MEMORY_ACTIVATION);
  ps_cpu_memory_give (memory, a);
  ps_cpu_memory_use (memory, &use);
  g_assert_cmpint (use.current[PS_MEMORY_ACTIVATION], ==, 512);
  g_assert_cmpint (use.current[PS_MEMORY_BUFFER], ==, 0);
  g_assert_cmpint (use.peak_bytes, ==, 960);
  g_assert_true (ps_cpu_memory_take (memory, 110, PS_MEMORY_STATE) == a); /* 440 bytes: the same size, reused */
  ps_cpu_memory_free (memory);
}

/* --- what goes wrong --- */

static void
assert_open_fails (PsModel model, const char *message)
{
  const PsDeviceSetting setting = { .model = &model, .n_stages = 1, .n_microbatches = 1, .core = -1 };
  g_autoptr (GError) error = NULL;

  g_assert_null (class->open (&setting, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE);
  g_assert_cmpstr (error->message, ==, message);
}

static void
test_refuses_models (void)
{
  PsModel model = small_model (1, 8, 2, 4);
  const PsDeviceSetting nothing = { .n_stages = 1, .n_microbatches = 1, .core = -1 };
  g_autoptr (GError) error = NULL;

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

  g_assert_null (class->open (&nothing, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_cmpstr (error->message, ==, "cpu device: needs a model description");
}

/* 8 layers of 4h^2 + 2hf = 8h^2 weights at h = 2^17 are 2^40 parameters: 16 TiB of state. */
static void
test_refuses_size (void)
{
  PsModel model = small_model (8, 1u << 17, 32, 8);
  const PsDeviceSetting setting = { .model = &model, .n_stages = 1, .n_microbatches = 1, .core = -1 };
  const PsStageShape shape = { 0, 8, TRUE, TRUE };
  g_autoptr (GError) error = NULL;
  PsDevice *device = class->open (&setting, &error);

  g_assert_no_error (error);
  g_assert_false (class->add_stage (device, 0, &shape, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE);
  g_assert_cmpstr (error->message, ==, "stage 0: no memory for 16 TiB of weights, gradients and optimizer state");
  class->close (device);
}

/* 2224 parameters (35584 bytes), an input of 1024 and the 10240 of one block fit into 47000 bytes, the layer's second
 * block of 1152 does not: an error, and nothing is left behind. */
static void
test_refuses_activations (void)
{
  const PsModel model = small_model (1, 16, 2, 8);
  const PsStageShape shape = { 0, 1, FALSE, FALSE };
  PsCpuContext context = { .memory = ps_cpu_memory_new (47000), .n_microbatches = 1 };
  g_autoptr (GError) error = NULL;
  PsMemoryUse use;
  float *output;

  g_assert_true (ps_cpu_sizes_init (&context.sizes, &model, NULL));
  PsCpuStage *stage = ps_cpu_stage_new (&context, 3, &shape, &error);
  g_assert_no_error (error);
  float *input = ps_cpu_memory_take (context.memory, 256, PS_MEMORY_BUFFER);
  g_assert_nonnull (input);
  g_assert_false (ps_cpu_stage_forward (stage, 0, input, &output, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE);
  g_assert_cmpstr (error->message, ==, "stage 3: no memory for 1.125 KiB of activations");
  ps_cpu_memory_use (context.memory, &use);
  g_assert_cmpint (use.current[PS_MEMORY_ACTIVATION] + use.current[PS_MEMORY_BUFFER], ==, 0);
  ps_cpu_stage_free (stage);
  ps_cpu_memory_free (context.memory);
}

static void
assert_op_fails (Rig *rig, PsOp op, PsError code, const char *message)
{
  g_autoptr (GError) error = NULL;
  PsTensor *output = NULL;

  g_assert_false (class->run (rig->device, op, NULL, &output, &error));
  g_assert_error (error, PS_ERROR, (gint)code);
  g_assert_cmpstr (error->message, ==, message);
  g_assert_null (output);
}

static void
test_refuses_ops (void)
{
  Rig rig;

  rig_init (&rig, small_model (1, 8, 2, 4), 1, 2);
  g_assert_true (isnan (class->loss (rig.device, 0)));
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_B }, PS_ERROR_SCHEDULE, "stage 0: B of microbatch 0: its F has not run");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_F, .microbatch = 2 }, PS_ERROR_SCHEDULE,
                   "stage 0: F of microbatch 2: there are only 2");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_F, .stage = 1 }, PS_ERROR_SCHEDULE, "stage 1: is not on this device");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_F, .slice = 1 }, PS_ERROR_UNAVAILABLE,
                   "stage 0: the cpu device can't run slice 1 of a sequence");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_R }, PS_ERROR_UNAVAILABLE, "stage 0: the cpu device can't run R");
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

static void
test_pinning (void)
{
  const PsModel model = small_model (1, 8, 2, 4);
  PsDeviceSetting setting = { .model = &model, .n_stages = 1, .n_microbatches = 1, .core = 1 << 20 };
  g_autoptr (GError) error = NULL;
  PsDevice *device = class->open (&setting, &error);

  g_assert_false (class->attach (device, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE);
  g_assert_true (g_str_has_prefix (error->message, "cpu device: core 1048576 does not exist, this machine has "));
  class->close (device);
  g_clear_error (&error);

  g_autofree char *libraries = class->libraries ();
  g_test_message ("%s", libraries);
  g_assert_true (g_str_has_prefix (libraries, "OpenBLAS 0."));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cpu/kernels", test_kernels);
  g_test_add_func ("/cpu/gradients/small", test_gradients_small);
  g_test_add_func ("/cpu/gradients/odd", test_gradients_odd);
  g_test_add_func ("/cpu/optimizer", test_optimizer);
  g_test_add_func ("/cpu/learns", test_learns);
  g_test_add_func ("/cpu/bits/b-and-w-equal-bw", test_b_and_w_equal_bw);
  g_test_add_func ("/cpu/bits/cut", test_cut);
  g_test_add_func ("/cpu/bits/threads", test_threads);
  g_test_add_func ("/cpu/bits/interleaving", test_interleaving);
  g_test_add_func ("/cpu/bits/accumulates", test_accumulates);
  g_test_add_func ("/cpu/memory/numbers", test_memory_numbers);
  g_test_add_func ("/cpu/memory/state", test_memory_state);
  g_test_add_func ("/cpu/memory/allocator", test_allocator);
  g_test_add_func ("/cpu/refuses/models", test_refuses_models);
  g_test_add_func ("/cpu/refuses/size", test_refuses_size);
  g_test_add_func ("/cpu/refuses/activations", test_refuses_activations);
  g_test_add_func ("/cpu/refuses/ops", test_refuses_ops);
  g_test_add_func ("/cpu/pinning", test_pinning);
  return g_test_run ();
}

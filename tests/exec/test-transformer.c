/* test-transformer.c - the transformer on the cpu device computes what a GPT and a Llama compute, gives the same bits
 * however it is run, keeps exactly what it says, and refuses what it can't do. */
#include "device-rig.h"
#include "train/data.h"
#include "transformer-reference.h"

static const PsDeviceClass *const class = &ps_cpu_device;

static void rig_init (Rig *rig, PsModel model, guint n_stages, guint n_microbatches)
{
  rig_open (rig, class, model, n_stages, n_microbatches);
}

/* kv_heads heads of keys for `heads` heads of queries. */
static PsModel small_llama (guint layers, guint hidden, guint heads, guint kv_heads, guint sequence)
{
  PsModel model = small_model (layers, hidden, heads, sequence);

  model.mlp = PS_MLP_SWIGLU;
  model.kv_heads = kv_heads;
  model.flash_attention = TRUE;
  return model;
}

/* A GPT, and a Llama that keeps its scores, and one that does not. */
static PsModel any_model (guint which)
{
  PsModel model = which == 0 ? small_model (4, 24, 3, 12) : small_llama (4, 24, 6, 2, 12);

  model.flash_attention = which == 2;
  return model;
}
#define N_MODELS 3

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

static void test_gradients_gpt (void)
{
  check_gradients (small_model (2, 8, 2, 4), 1);
  /* Sizes that are no multiples of anything, so that vector loops have tails. */
  check_gradients (small_model (1, 21, 3, 19), 13);
}

/* The head's part of the gradient of a shared matrix. */
static void test_gradients_tied (void)
{
  PsModel model = small_model (1, 12, 2, 4);

  model.tied = TRUE;
  check_gradients (model, 1);
}

static void test_gradients_llama (void)
{
  PsModel model = small_llama (2, 16, 4, 2, 5);

  check_gradients (model, 7);
  check_gradients (small_llama (1, 18, 3, 1, 19), 13);
  model.flash_attention = FALSE;
  model.tied = TRUE;
  check_gradients (model, 7);
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
  gradients = class->gradients (rig.device, 0, &n);
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

/* --- the same bits --- */

static void test_b_and_w_equal_bw (void)
{
  for (guint i = 0; i < N_MODELS; i++)
    check_split_backward (class, any_model (i));
}

static void test_cut (void)
{
  for (guint i = 0; i < N_MODELS; i++)
    check_cuts (class, any_model (i));
}

static gpointer train (gpointer which)
{
  double losses[2];

  return train_cut (class, any_model (GPOINTER_TO_UINT (which)), 2, losses);
}

static void test_threads (void)
{
  GThread *threads[N_MODELS];

  for (guint i = 0; i < N_MODELS; i++)
    threads[i] = g_thread_new ("train", train, GUINT_TO_POINTER (i));
  for (guint i = 0; i < N_MODELS; i++) {
    g_autoptr (GArray) there = g_thread_join (threads[i]), here = train (GUINT_TO_POINTER (i));

    assert_same_bits (here, there);
  }
}

static const PsRecompute kinds[] = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_SELECTIVE, PS_RECOMPUTE_FULL };

/* What an R or a B makes again, and what has been on the host, has the bits of the forward. */
static void test_recompute_bits (void)
{
  for (guint i = 0; i < N_MODELS; i++) {
    g_autoptr (GArray) plain = train (GUINT_TO_POINTER (i));

    for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
      for (guint moves = 0; moves < 2; moves++) {
        rig_recompute = kinds[kind];
        rig_offload = moves ? 0.6 : 0;
        g_autoptr (GArray) again = train (GUINT_TO_POINTER (i));
        assert_same_bits (plain, again);
      }
    rig_recompute = PS_RECOMPUTE_NONE;
    rig_offload = 0;
  }
}

static void test_slices (void)
{
  for (guint i = 0; i < N_MODELS; i++)
    check_slices (class, any_model (i), 4e-6);
}

/* --- devices that share layers --- */

/* Their gradients add up to those of the stage, and their norms to its norm, also where each has left its sums out. */
static void test_shared_layers (void)
{
  for (guint which = 0; which < N_MODELS; which++) {
    PsModel model = any_model (which);
    double squares[2] = { 0 }, sum = 0;
    GArray *gradients[2];

    model.heads = model.kv_heads = 2;
    for (guint part = 0; part < 2; part++) {
      Rig rig = { .setting = { .n_tensor = 2, .tensor = part } };

      rig_open_as (&rig, class, model, 2, 2);
      all_microbatches (&rig);
      gradients[part] = all_gradients (&rig);
      for (guint stage = 0; stage < 2; stage++)
        squares[part] += class->norm_square (rig.device, stage);
      rig_clear (&rig);
    }
    g_assert_cmpuint (gradients[0]->len, ==, gradients[1]->len);
    for (guint i = 0; i < gradients[0]->len; i++)
      sum += pow (g_array_index (gradients[0], float, i) + g_array_index (gradients[1], float, i), 2) / 4;
    g_assert_cmpfloat (squares[1], >, 0);
    g_assert_cmpfloat (fabs (squares[0] + squares[1] - sum), <, 1e-6 * sum);
    g_array_unref (gradients[0]);
    g_array_unref (gradients[1]);
  }
}

/* Their start values are those of one device. */
static void test_shared_weights (void)
{
  for (guint which = 0; which < N_MODELS; which++) {
    const PsDeviceSetting settings[] = { { .n_tensor = 1 }, { .n_tensor = 2 }, { .n_tensor = 2, .tensor = 1 } };
    PsModel model = any_model (which);
    PsStageState states[3];

    model.heads = model.kv_heads = 2;
    for (guint i = 0; i < 3; i++) {
      Rig rig = { .setting = settings[i] };

      rig_open_as (&rig, class, model, 1, 1);
      states[i] = read_state (&rig);
      rig_clear (&rig);
    }
    for (gsize i = 0; i < states[0].n; i++)
      g_assert_cmpfloat (states[0].array[PS_STATE_WEIGHTS][i], ==,
                         states[1].array[PS_STATE_WEIGHTS][i] + states[2].array[PS_STATE_WEIGHTS][i]);
    for (guint i = 0; i < 3; i++)
      g_free (states[i].array[0]);
  }
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
 * needs padding. A layer's F keeps x, y, 3N of queries, keys and values, context and 4N (z, g) = 10N and mean and scale
 * of two norms, 4 T 4 = 256 bytes, until W; and P = b a s s 4 = 1024 bytes = N of probabilities until B. B adds 4N per
 * layer: gradients of both norms, of y and of the output. Both stages have two layers. */
static void test_memory_numbers (void)
{
  const gint64 n = 1024, norms = 256;
  const gint64 expected[12] = {
    /* stage 0: F */ 2 * (11 * n + norms),
    0,
    /* B: the received gradient; per layer 3N that are kept, and N for the gradient of its input. Each layer's
     * probabilities go back at its end: 1 + 4 - 1 + 4 */
    8 * n,
    n,
    /* W: all that is left: 2 (10 + 3 + 1) N, the norms and the gradient of the embedding's output */ 0,
    29 * n + 2 * norms,
    /* stage 1: F keeps the head's input and 16 logits per token (N each), and mean and scale */
    2 * (11 * n + norms) + 2 * n + 128,
    0,
    /* B: N for the head's norm and N for its input; then as above, but the gradient of the stage's input is a buffer
     * on its way to stage 0: 2 + 4 - 1 + 3 */
    8 * n,
    n,
    /* W: 2 (10 + 3 + 1) N, the head's 3N, and the norms */ 0,
    31 * n + 2 * norms + 128,
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

/* Stage 1 of three has two layers and neither embedding nor head. N and the blocks are those of test_memory_numbers. */
static void test_memory_recompute (void)
{
  const gint64 n = 1024, norms = 256;
  const gint64 expected[][6] = {
    /* F takes and gives back, then B, then W: B adds N for what it receives, 3N per layer and N between the layers. */
    { 22 * n + 2 * norms, 0, 7 * n, n, 0, 28 * n + 2 * norms },
    /* The probabilities of one layer are there while an op runs. */
    { 21 * n + 2 * norms, n, 9 * n, n, 0, 28 * n + 2 * norms },
    /* Inputs are kept, N each. B makes a layer's other blocks. */
    { 12 * n + norms, 10 * n + norms, 27 * n + 2 * norms, n, 0, 28 * n + 2 * norms },
  };

  for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++) {
    gint64 numbers[6];
    Rig rig;

    rig_recompute = kinds[kind];
    rig_init (&rig, small_model (6, 16, 2, 8), 3, 1);
    PsTensor *tensor = run (&rig, PS_OP_F, 0, 0, NULL);
    tensor = run_measured (&rig, PS_OP_F, 1, 0, tensor, &numbers[0], &numbers[1]);
    run (&rig, PS_OP_F, 2, 0, tensor);
    tensor = run (&rig, PS_OP_B, 2, 0, NULL);
    tensor = run_measured (&rig, PS_OP_B, 1, 0, tensor, &numbers[2], &numbers[3]);
    run_measured (&rig, PS_OP_W, 1, 0, NULL, &numbers[4], &numbers[5]);
    class->tensor_free (tensor);
    for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
      g_assert_cmpint (numbers[i], ==, expected[kind][i]);
    rig_clear (&rig);
  }
  rig_recompute = PS_RECOMPUTE_NONE;
}

/* Offloading 0.6 of what a layer keeps leaves at least 0.4 of it; R and W find all of it. */
static void test_memory_offload (void)
{
  PsMemoryUse use;
  gint64 held[2];

  for (guint moves = 0; moves < 2; moves++) {
    Rig rig;

    rig_offload = moves ? 0.6 : 0;
    rig_init (&rig, small_model (4, 16, 2, 8), 1, 1);
    forward (&rig, 0);
    class->memory (rig.device, &use);
    held[moves] = use.current[PS_USE_ACTIVATION];
    run_all_stages (&rig, PS_OP_R, 0);
    backward (&rig, PS_OP_BW, 0);
    class->memory (rig.device, &use);
    g_assert_cmpint (use.current[PS_USE_ACTIVATION], ==, 0);
    rig_clear (&rig);
  }
  rig_offload = 0;
  g_test_message ("held %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT " bytes", held[0], held[1]);
  g_assert_cmpint (held[1], >=, held[0] * 2 / 5);
  g_assert_cmpint (held[1], <, held[0] / 2);
}

/* An R makes everything again before its backward: 10N of each of four layers, and what their norms keep. */
static void test_recompute_op (void)
{
  PsMemoryUse use;
  gint64 held[2];
  Rig rig;

  rig_recompute = PS_RECOMPUTE_FULL;
  rig_init (&rig, small_model (4, 16, 2, 8), 2, 1);
  rig_recompute = PS_RECOMPUTE_NONE;
  forward (&rig, 0);
  for (guint i = 0; i < 2; i++) {
    class->memory (rig.device, &use);
    held[i] = use.current[PS_USE_ACTIVATION];
    run_all_stages (&rig, PS_OP_R, 0);
  }
  backward (&rig, PS_OP_BW, 0);
  rig_clear (&rig);
  g_assert_cmpint (held[1] - held[0], ==, 4 * (10 * 1024 + 256));
}

/* Weights, gradients and two moments: 16 bytes per parameter in whole 64 bytes; and the scratch memory. */
static void test_memory_state (void)
{
  Rig rig;
  gsize n;
  PsMemoryUse use;

  rig_init (&rig, small_model (2, 8, 2, 4), 1, 1);
  class->gradients (rig.device, 0, &n);
  class->memory (rig.device, &use);
  /* T 3h, T h and T floats, each in whole 64 bytes */
  g_assert_cmpint (use.current[PS_USE_STATE], ==, 4 * (((gint64)n * 4 + 63) / 64 * 64) + 768 + 256 + 64);
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
  assert_open_fails (small_llama (1, 9, 3, 3, 4),
                     "cpu device: model has hidden / heads = 3: rotary positions need an even number");
  model = small_llama (1, 8, 3, 3, 4); /* 3 heads do not divide 8 */
  model.head_size = 4;
  assert_open_fails (model, "cpu device: model has head_size: only models without it are supported");
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
           "stage 0: no memory for * TiB of weights, gradients and optimizer state");
  class->close (device);
}

/* 64 heads of 2^18 tokens have 2^42 probabilities: an error, and nothing is left behind. */
static void test_refuses_activations (void)
{
  PsModel model = small_model (1, 64, 64, 1u << 18);
  const PsStageShape shape = { .n_layers = 1 };
  PsTensor *output = NULL;
  PsMemoryUse use;

  model.microbatch_size = 1;
  const PsDeviceSetting setting = { .model = &model, .n_stages = 3, .n_microbatches = 1, .core = -1 };
  PsDevice *device = fine (class->open (&setting, &error));
  fine (class->add_stage (device, 1, &shape, &error));
  PsTensor *input = class->tensor_new (device);
  refused (class->run (device, (PsOp){ .kind = PS_OP_F, .stage = 1 }, input, &output, &error), PS_ERROR_UNAVAILABLE,
           "stage 1: no memory for 16 TiB of activations");
  g_assert_null (output);
  class->memory (device, &use);
  g_assert_cmpint (use.current[PS_USE_ACTIVATION] + use.current[PS_USE_BUFFER], ==, 0);
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
  g_test_add_func ("/transformer/gradients/gpt", test_gradients_gpt);
  g_test_add_func ("/transformer/gradients/tied", test_gradients_tied);
  g_test_add_func ("/transformer/gradients/llama", test_gradients_llama);
  g_test_add_func ("/transformer/optimizer", test_optimizer);
  g_test_add_func ("/transformer/learns", test_learns);
  g_test_add_func ("/transformer/bits/b-and-w-equal-bw", test_b_and_w_equal_bw);
  g_test_add_func ("/transformer/bits/cut", test_cut);
  g_test_add_func ("/transformer/bits/threads", test_threads);
  g_test_add_func ("/transformer/bits/recompute", test_recompute_bits);
  g_test_add_func ("/transformer/slices", test_slices);
  g_test_add_func ("/transformer/shared/layers", test_shared_layers);
  g_test_add_func ("/transformer/shared/weights", test_shared_weights);
  g_test_add_func ("/transformer/memory/numbers", test_memory_numbers);
  g_test_add_func ("/transformer/memory/recompute", test_memory_recompute);
  g_test_add_func ("/transformer/memory/offload", test_memory_offload);
  g_test_add_func ("/transformer/memory/recompute-op", test_recompute_op);
  g_test_add_func ("/transformer/memory/state", test_memory_state);
  g_test_add_func ("/transformer/refuses/models", test_refuses_models);
  g_test_add_func ("/transformer/refuses/size", test_refuses_size);
  g_test_add_func ("/transformer/refuses/activations", test_refuses_activations);
  g_test_add_func ("/transformer/refuses/ops", test_refuses_ops);
  g_test_add_func ("/transformer/pinning", test_pinning);
  return g_test_run ();
}

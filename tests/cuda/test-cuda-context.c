/* test-cuda-context.c - what the cuda device keeps in memory, how devices share a GPU, and what it refuses. */
#include "cuda-device-rig.h"

#include <math.h>
#include <string.h>

/* --- memory --- */

static PsMemoryUse memory_of (const Rig *rig)
{
  PsMemoryUse use;

  rig->device->class->memory (rig->device, &use);
  return use;
}

/* fp32 with h = 16, f = 2h, a = 2, s = 8, b = 2 and V = 16: a tensor of T = 16 tokens and h has N = 1024 bytes; numbers
 * per token, and per token and head, take 64 and 128 bytes, counted as G = 256. A layer's F keeps x, qkv (3), context,
 * y, z (2) and g (2): 10N, and two means, two scales and the sums of exponentials: 5G. The head keeps x, logits (N): 2N
 * + 2G. A layer's B takes dz (2), dn2, dy, dqkv (3), dn1: 8N, and N for its input's gradient, and gives back z, qkv and
 * the sums: 5N + G. Both stages have two layers. */
static void test_numbers (void)
{
  const gint64 n = 1024, g = 256;
  const gint64 expected[12] = {
    /* stage 0: F; its output is a buffer */
    2 * (10 * n + 5 * g),
    0,
    /* B: the received gradient and 9N; 5N + G back; 9N more, the embedding's gradient among them */
    n + 9 * n - (5 * n + g) + 9 * n,
    5 * n + g,
    /* W: all that is left: 2 (10 + 9 - 5) N, the received gradient; 2 (5 - 1) G */
    0,
    29 * n + 8 * g,
    /* stage 1: F; its input was a buffer */
    2 * (10 * n + 5 * g) + 2 * n + 2 * g,
    0,
    /* B: 2N of the head, then as above, but the last gradient is a buffer on its way to stage 0 */
    2 * n + 9 * n - (5 * n + g) + 8 * n,
    5 * n + g,
    /* W: as above; 2N + 2G + N of the head, and the gradient of its input */
    0,
    2 * (10 + 8 - 5) * n + n + 3 * n + n + 10 * g,
  };
  PsModel model = small_model (4, 16, 2, 8);
  gint64 numbers[12];
  Rig rig;

  model.vocabulary = 16;
  rig_open (&rig, cuda_device, model, 2, 3);
  PsTensor *tensor = run_measured (&rig, PS_OP_F, 0, 0, NULL, &numbers[0], &numbers[1]);
  run_measured (&rig, PS_OP_F, 1, 0, tensor, &numbers[6], &numbers[7]);
  tensor = run_measured (&rig, PS_OP_B, 1, 0, NULL, &numbers[8], &numbers[9]);
  run_measured (&rig, PS_OP_B, 0, 0, tensor, &numbers[2], &numbers[3]);
  run_measured (&rig, PS_OP_W, 1, 0, NULL, &numbers[10], &numbers[11]);
  run_measured (&rig, PS_OP_W, 0, 0, NULL, &numbers[4], &numbers[5]);
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++) {
    g_test_message ("number %u", i);
    g_assert_cmpint (numbers[i], ==, expected[i]);
  }
  g_assert_cmpint (memory_of (&rig).current[PS_USE_ACTIVATION], ==, 0);
  g_assert_cmpint (memory_of (&rig).current[PS_USE_BUFFER], ==, 0);
  rig_clear (&rig);
}

static void test_given_back (void)
{
  size_t (*in_use) (void) = (size_t (*) (void))cuda_probe ("ps_emulator_memory_in_use");
  Rig rig;

  if (in_use == NULL)
    return;
  const size_t before = in_use ();
  rig_open (&rig, cuda_device, cuda_model (PS_PRECISION_BF16, PS_MLP_SWIGLU), 2, 2);
  forward (&rig, 0);
  g_assert_cmpuint (in_use (), >, before);
  rig_clear (&rig);
  g_assert_cmpuint (in_use (), ==, before);
}

/* What the forward of another microbatch would need is not there: an error, and only what was there before is in use.
 */
static void test_no_memory (void)
{
  size_t (*in_use) (void) = (size_t (*) (void))cuda_probe ("ps_emulator_memory_in_use");
  void (*limit) (size_t) = (void (*) (size_t))cuda_probe ("ps_emulator_limit_memory");
  const PsOp op = { .kind = PS_OP_F, .microbatch = 1 };
  g_autoptr (GError) error = NULL;
  PsTensor *output = NULL;
  Rig rig;

  if (in_use == NULL)
    return;
  rig_open (&rig, cuda_device, small_model (1, 16, 2, 8), 1, 2);
  forward (&rig, 0);
  const PsMemoryUse before = memory_of (&rig);
  limit (in_use ());
  g_assert_false (rig.device->class->run (rig.device, op, NULL, &output, &error));
  limit (0);
  assert_error (&error, PS_ERROR_UNAVAILABLE, "stage 0: no memory for *");
  const PsMemoryUse after = memory_of (&rig);
  g_assert_cmpmem (before.current, sizeof before.current, after.current, sizeof after.current);
  backward (&rig, PS_OP_BW, 0);
  forward (&rig, 1);
  rig_clear (&rig);
}

/* --- sharing a GPU --- */

static PsDevice *open_shared (const PsModel *model, guint index, guint n_local, const guint *shares, GError **error)
{
  const PsDeviceSetting setting = {
    .model = model, .n_stages = 1, .n_microbatches = 1, .core = -1, .index = index, .n_local = n_local, .shares = shares
  };

  return cuda_device->open (&setting, error);
}

static void assert_sharing (guint index, guint n_local, const guint *shares, const char *text)
{
  const PsModel model = small_model (1, 8, 2, 4);
  PsDevice *device = fine (open_shared (&model, index, n_local, shares, &error));
  g_autofree char *libraries = cuda_device->libraries ();

  g_test_message ("%s", libraries);
  g_assert_nonnull (strstr (libraries, text));
  device->class->close (device);
}

static void assert_idle (guint n_local, const guint *shares, const char *text)
{
  const PsModel model = small_model (1, 8, 2, 4);
  PsDevice *device = open_shared (&model, 0, n_local, shares, NULL);
  g_autofree char *idle = cuda_device->warning ();

  device->class->close (device);
  g_assert_cmpstr (idle, ==, text);
}

/* 132 multiprocessors in whole eights; where the driver has no green contexts all use all of them, and that is said. */
static void test_sharing (void)
{
  static const guint shares[] = { 64, 24, 40 }, quarters[] = { 40, 30, 20, 10 }, left[] = { 1, 2, 2, 2 };

  if (cuda_probe ("ps_emulator_memory_in_use") == NULL)
    return;
  assert_sharing (1, 2, NULL, ", green contexts of 64 multiprocessors");
  assert_sharing (7, 8, NULL, ", green contexts of 16 multiprocessors");
  assert_sharing (1, 3, shares, ", green contexts of 64, 24, 40 multiprocessors");
  assert_sharing (2, 3, shares, ", green contexts of 64, 24, 40 multiprocessors");
  assert_idle (4, NULL, NULL);
  assert_idle (7, NULL, "7 parts of 16 multiprocessors leave 20 of 132 idle; there is room for 1 more of 16");
  assert_idle (9, NULL, "9 parts of 8 multiprocessors leave 60 of 132 idle; there is room for 7 more of 8");
  assert_idle (4, left, "4 parts of 16, 32 multiprocessors leave 20 of 132 idle; there is room for 1 more of 16");
  g_setenv ("PS_EMULATED_GPUS", "2", TRUE);
  assert_sharing (5, 8, NULL, ", green contexts of 32 multiprocessors");
  g_unsetenv ("PS_EMULATED_GPUS");
  assert_sharing (0, 4, quarters, ", green contexts of 48, 40, 24, 16 multiprocessors (4 of 132 idle)");
}

/* Devices on two GPUs: each GPU may copy from the other. */
static void test_peers (void)
{
  int (*reaches) (int, int) = (int (*) (int, int))cuda_probe ("ps_emulator_reaches");
  const PsModel model = small_model (1, 8, 2, 4);

  if (reaches == NULL)
    return;
  g_setenv ("PS_EMULATED_GPUS", "2", TRUE);
  for (guint i = 0; i < 4; i++) {
    PsDevice *device = fine (open_shared (&model, i, 4, NULL, &error));

    device->class->close (device);
  }
  g_unsetenv ("PS_EMULATED_GPUS");
  g_assert_true (reaches (0, 1) && reaches (1, 0));
  g_assert_false (reaches (0, 0));
}

/* A measurement names what it depends on. */
static void test_provenance (void)
{
  g_autofree char *libraries = NULL, *processor = NULL;

  int (*queues) (void) = (int (*) (void))cuda_probe ("ps_emulator_queues");

  if (queues == NULL)
    return;
  g_assert_cmpint (queues (), ==, 32);
  libraries = cuda_device->libraries ();
  processor = cuda_device->processor ();
  g_assert_cmpstr (processor, ==, "emulated GPU (132 multiprocessors)");
  g_assert_nonnull (strstr (libraries, "CUDA_DEVICE_MAX_CONNECTIONS=32"));
  g_assert_nonnull (strstr (libraries, ", attention by "));
}

static void test_too_many (void)
{
  const PsModel model = small_model (1, 8, 2, 4);

  if (cuda_probe ("ps_emulator_memory_in_use") == NULL)
    return;
  refused (open_shared (&model, 3, 17, NULL, &error), PS_ERROR_USAGE,
           "cuda device: 17 devices can't share a GPU of 132 multiprocessors: each needs 8 at least");
}

/* --- what goes wrong --- */

static void assert_unavailable (const char *variable, const char *value, const char *message)
{
  g_autoptr (GError) error = NULL;

  g_setenv (variable, value, TRUE);
  g_assert_false (cuda_device->available (&error));
  g_unsetenv (variable);
  assert_error (&error, PS_ERROR_UNAVAILABLE, message);
}

static void test_unavailable (void)
{
  if (cuda_probe ("ps_emulator_memory_in_use") == NULL)
    return;
  assert_unavailable ("PS_EMULATED_DRIVER", "0", "cuda device: no NVIDIA driver here (libcuda.so.1 can't be loaded)");
  assert_unavailable ("PS_EMULATED_DRIVER", "12040", "cuda device: the driver is for CUDA 12.4, this build needs 13.0");
  assert_unavailable ("PS_EMULATED_GPUS", "0", "cuda device: there is a driver but no GPU");
  assert_unavailable ("PS_EMULATED_CAPABILITY", "7",
                      "cuda device: emulated GPU has compute capability 7.0: 8.0 at least is needed");
  g_assert_true (cuda_device->available (NULL));
}

static void assert_open_fails (PsModel model, const char *message)
{
  refused (open_shared (&model, 0, 1, NULL, &error), PS_ERROR_UNAVAILABLE, message);
}

static void test_refuses_models (void)
{
  PsModel model = small_model (1, 8, 2, 4);

  model.precision = PS_PRECISION_FP16;
  assert_open_fails (model, "cuda device: model has precision = fp16: only fp32 and bf16 are supported");
  model = small_model (1, 6, 2, 4);
  model.mlp = PS_MLP_SWIGLU;
  assert_open_fails (model, "cuda device: model has hidden / heads = 3: rotary positions need an even number");
  assert_open_fails (small_model (1, 8, 2, 8193),
                     "cuda device: model has sequence = 8193: more than 8192 takes bf16 and heads of 32, 64, 96 or 128 "
                     "elements");
  assert_open_fails (small_model (1, 2050, 2, 4),
                     "cuda device: model has hidden / heads = 1025: 1024 at most is supported");
  model = small_model (1, 8, 2, 1u << 20);
  model.microbatch_size = 1u << 20;
  assert_open_fails (model,
                     "cuda device: model of 1 layers, hidden 8, feed_forward 16, vocabulary 11, 1048576 x 1048576 "
                     "tokens is too large");
}

static void assert_op_fails (Rig *rig, PsOp op, PsError code, const char *message)
{
  PsTensor *output = NULL;

  refused (rig->device->class->run (rig->device, op, NULL, &output, &error), code, message);
  g_assert_null (output);
}

static void test_refuses_ops (void)
{
  Rig rig;

  rig_open (&rig, cuda_device, small_model (1, 8, 2, 4), 1, 2);
  g_assert_true (isnan (rig.device->class->loss (rig.device, 0)));
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_B }, PS_ERROR_SCHEDULE, "stage 0: B of microbatch 0: its F has not run");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_F, .microbatch = 2 }, PS_ERROR_SCHEDULE,
                   "stage 0: F of microbatch 2, slice 0: there are only 2, 1");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_F, .stage = 1 }, PS_ERROR_SCHEDULE, "stage 1: is not on this device");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_F, .slice = 1 }, PS_ERROR_SCHEDULE,
                   "stage 0: F of microbatch 0, slice 1: there are only 2, 1");
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_R }, PS_ERROR_SCHEDULE, "stage 0: R of microbatch 0: its F has not run");
  forward (&rig, 1);
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_W, .microbatch = 1 }, PS_ERROR_SCHEDULE,
                   "stage 0: W of microbatch 1: its F has run, its B has not");
  backward (&rig, PS_OP_B, 1);
  assert_op_fails (&rig, (PsOp){ .kind = PS_OP_BW, .microbatch = 1 }, PS_ERROR_SCHEDULE,
                   "stage 0: B of microbatch 1: its B has run, its W has not");
  rig_clear (&rig);
}

/* Gradients after an F whose microbatch the B of another one is paired with. */
static GArray *paired_gradients (gboolean pairs)
{
  Rig rig = { .setting = { .pairs = pairs } };
  g_autoptr (GError) error = NULL;
  const PsOp ops[] = { { .kind = PS_OP_F, .microbatch = 1, .paired = 1 }, { .kind = PS_OP_BW } };
  PsTensor *output = NULL;

  rig_open_as (&rig, cuda_device, small_model (2, 16, 2, 8), 1, 2);
  run (&rig, PS_OP_F, 0, 0, NULL);
  if (pairs)
    ((void (*) (guint))cuda_probe ("ps_emulator_meet")) (2);
  for (guint i = 0; i < 2; i++)
    g_assert_true (rig.device->class->run (rig.device, ops[i], NULL, &output, &error));
  if (pairs)
    g_assert_true (((_Bool (*) (void))cuda_probe ("ps_emulator_have_met")) ());
  if (pairs)
    ((void (*) (guint))cuda_probe ("ps_emulator_meet")) (0);
  run (&rig, PS_OP_BW, 0, 1, NULL);
  GArray *gradients = all_gradients (&rig);
  rig_clear (&rig);
  return gradients;
}

/* Both streams have work before either begins; the bits are those of one op after the other. */
static void test_pairs (void)
{
  if (cuda_probe ("ps_emulator_meet") == NULL) {
    g_test_skip ("only emulated streams can be held");
    return;
  }
  g_autoptr (GArray) in_turn = paired_gradients (FALSE);
  g_autoptr (GArray) at_once = paired_gradients (TRUE);

  assert_same_bits (in_turn, at_once);
}

int main (int argc, char **argv)
{
  cuda_init (&argc, &argv);
  cuda_add ("/cuda/memory/numbers", test_numbers);
  cuda_add ("/cuda/memory/given-back", test_given_back);
  cuda_add ("/cuda/memory/none-left", test_no_memory);
  cuda_add ("/cuda/sharing/green-contexts", test_sharing);
  cuda_add ("/cuda/sharing/peers", test_peers);
  cuda_add ("/cuda/provenance", test_provenance);
  cuda_add ("/cuda/sharing/too-many", test_too_many);
  cuda_add ("/cuda/pairs", test_pairs);
  cuda_add ("/cuda/refuses/machine", test_unavailable);
  cuda_add ("/cuda/refuses/models", test_refuses_models);
  cuda_add ("/cuda/refuses/ops", test_refuses_ops);
  return g_test_run ();
}

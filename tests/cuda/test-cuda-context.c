/* test-cuda-context.c - what the cuda device keeps in memory, how devices share a GPU, what it says of the GPU, and
 * what it refuses. */
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

static void test_given_back (void)
{
  size_t (*in_use) (void) = (size_t (*) (void))cuda_probe ("ps_emulator_memory_in_use");
  const size_t before = in_use ();
  Rig rig;

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

/* Devices spread over GPUs in runs: floor (i n_gpus / n); with GPUs enough one each, or in turn. */
static void test_places (void)
{
  static const struct {
    const char *gpus;
    guint index, n_local;
    gboolean exclusive;
    guint gpu, n; /* devices on this GPU */
  } cases[] = {
    { "1", 0, 0, FALSE, 0, 1 }, { "8", 3, 4, FALSE, 3, 1 }, { "4", 3, 4, FALSE, 3, 1 }, { "1", 3, 4, FALSE, 0, 4 },
    { "2", 4, 8, FALSE, 1, 4 }, { "2", 3, 8, FALSE, 0, 4 }, { "2", 0, 5, FALSE, 0, 3 }, { "2", 4, 5, FALSE, 1, 2 },
    { "1", 5, 8, TRUE, 0, 1 },  { "4", 5, 8, TRUE, 1, 1 },
  };
  const PsModel model = small_model (1, 8, 2, 4);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const PsDeviceSetting setting = { .model = &model,
                                      .n_stages = 1,
                                      .n_microbatches = 1,
                                      .core = -1,
                                      .index = cases[i].index,
                                      .n_local = cases[i].n_local,
                                      .exclusive = cases[i].exclusive };
    g_autofree char *end = g_strdup_printf ("/GPU:0000:%02x:00.0", cases[i].gpu);

    g_setenv ("PS_EMULATED_GPUS", cases[i].gpus, TRUE);
    g_autofree char *place = cuda_device->place (&setting);
    PsDevice *device = fine (cuda_device->open (&setting, &error));
    g_test_message ("%s", place);
    g_assert_nonnull (strstr (place, end));
    g_assert_cmpuint (cuda_device->sharing (device), ==, cases[i].n);
    cuda_device->close (device);
    g_unsetenv ("PS_EMULATED_GPUS");
  }
}

/* Multiprocessors of the parts, as large as possible: at least 8 each and whole eights; before capability 9 at least 4
 * and even. With shares the pieces of 8 are divided. Of 16 pieces: quotas 6.4, 4.8, 3.2 and 1.6; whole quotas as they
 * are; a quota of 0.2 gets its piece; equal devices equally many. Equal neighbours are written once. */
static void test_parts (void)
{
  static const struct {
    const char *sms, *capability;
    guint n, shares[4];       /* 0 first: none */
    const char *parts, *idle; /* idle NULL: too few to be said */
  } cases[] = {
    { "132", "9", 2, { 0 }, "64", NULL },
    { "132", "9", 4, { 0 }, "32", NULL },
    { "132", "9", 8, { 0 }, "16", NULL },
    { "132", "9", 16, { 0 }, "8", NULL },
    { "132", "9", 7, { 0 }, "16", "20 of 132 idle; there is room for 1 more of 16" },
    { "132", "9", 9, { 0 }, "8", "60 of 132 idle; there is room for 7 more of 8" },
    { "148", "9", 3, { 0 }, "48", NULL },
    { "108", "8", 8, { 0 }, "12", "12 of 108 idle; there is room for 1 more of 12" },
    { "108", "8", 4, { 0 }, "26", NULL },
    { "132", "9", 4, { 40, 30, 20, 10 }, "48, 40, 24, 16", NULL },
    { "132", "9", 3, { 64, 24, 40 }, "64, 24, 40", NULL },
    { "132", "9", 2, { 99, 1 }, "120, 8", NULL },
    { "136", "9", 3, { 7, 7, 7 }, "40", "16 of 136 idle" },
    { "32", "9", 4, { 1, 1000000, 1, 1 }, "8", NULL },
    { "132", "9", 4, { 1, 2, 2, 2 }, "16, 32", "20 of 132 idle; there is room for 1 more of 16" },
  };
  const PsModel model = small_model (1, 8, 2, 4);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const guint *shares = cases[i].shares[0] > 0 ? cases[i].shares : NULL;
    g_autofree char *parts = g_strdup_printf (", green contexts of %s multiprocessors", cases[i].parts);

    g_setenv ("PS_EMULATED_SMS", cases[i].sms, TRUE);
    g_setenv ("PS_EMULATED_CAPABILITY", cases[i].capability, TRUE);
    PsDevice *device = fine (open_shared (&model, cases[i].n - 1, cases[i].n, shares, &error));
    g_autofree char *libraries = cuda_device->libraries (), *idle = cuda_device->warning ();
    cuda_device->close (device);
    g_test_message ("%s", libraries);
    g_assert_nonnull (strstr (libraries, parts));
    g_assert_true (cases[i].idle != NULL ? g_str_has_suffix (idle, cases[i].idle) : idle == NULL);
  }
  g_unsetenv ("PS_EMULATED_SMS");
  g_unsetenv ("PS_EMULATED_CAPABILITY");
  refused (open_shared (&model, 3, 17, NULL, &error), PS_ERROR_USAGE,
           "cuda device: 17 devices can't share a GPU of 132 multiprocessors: each needs 8 at least");
  refused (open_shared (&model, 3, 17, (guint[17]){ 1 }, &error), PS_ERROR_USAGE,
           "cuda device: 17 devices can't share a GPU of 16 pieces: each needs one");
}

/* The pieces of 8 multiprocessors of the parts. */
static void find_units (guint n, const guint *weights, guint *units)
{
  const PsModel model = small_model (1, 8, 2, 4);

  for (guint i = 0; i < n; i++) {
    PsDevice *device = fine (open_shared (&model, i, n, weights, &error));

    units[i] = cuda_device->part (device) / 8;
    cuda_device->close (device);
  }
}

/* For any weights: nobody without a piece, not more pieces than there are, a larger weight never fewer of them, and
 * multiples of whole quotas are exact. */
static void test_random_shares (void)
{
  char sms[8];

  for (guint round = 0; round < 100; round++) {
    const guint n = (guint)g_test_rand_int_range (2, 9), factor = (guint)g_test_rand_int_range (1, 1000);
    guint weights[8], units[8], n_units = (guint)g_test_rand_int_range ((gint32)n, 40), sum = 0;

    for (guint i = 0; i < n; i++)
      weights[i] = (guint)g_test_rand_int_range (1, 1000);
    g_snprintf (sms, sizeof sms, "%u", 8 * n_units);
    g_setenv ("PS_EMULATED_SMS", sms, TRUE);
    find_units (n, weights, units);
    for (guint i = 0; i < n; i++) {
      sum += units[i];
      g_assert_cmpuint (units[i], >=, 1);
      for (guint k = 0; k < n; k++)
        g_assert_true (weights[i] > weights[k] || units[i] <= units[k]);
    }
    g_assert_cmpuint (sum, <=, n_units);
    for (guint i = 0; i < n; i++)
      weights[i] = units[i] * factor;
    g_snprintf (sms, sizeof sms, "%u", 8 * sum);
    g_setenv ("PS_EMULATED_SMS", sms, TRUE);
    find_units (n, weights, units);
    for (guint i = 0; i < n; i++)
      g_assert_cmpuint (units[i] * factor, ==, weights[i]);
  }
  g_unsetenv ("PS_EMULATED_SMS");
}

/* Devices on two GPUs: each GPU may copy from the other. */
static void test_peers (void)
{
  int (*reaches) (int, int) = (int (*) (int, int))cuda_probe ("ps_emulator_reaches");
  const PsModel model = small_model (1, 8, 2, 4);

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

  g_assert_cmpint (queues (), ==, 32);
  libraries = cuda_device->libraries ();
  processor = cuda_device->processor ();
  g_assert_cmpstr (processor, ==, "emulated GPU (132 multiprocessors)");
  g_assert_nonnull (strstr (libraries, "CUDA_DEVICE_MAX_CONNECTIONS=32"));
  g_assert_nonnull (strstr (libraries, ", attention by "));
}

/* --- the GPU's condition, by the imitated management library of nvml/, where FAKE_NVML says that it is found --- */

static PsCondition condition_of (guint gpu)
{
  const PsModel model = small_model (1, 8, 2, 4);
  PsCondition condition = { 1, 2, 3, 4, 5 };

  g_setenv ("PS_EMULATED_GPUS", "2", TRUE);
  PsDevice *device = fine (open_shared (&model, gpu, 2, NULL, &error));
  cuda_device->condition (device, &condition);
  cuda_device->close (device);
  g_unsetenv ("PS_EMULATED_GPUS");
  return condition;
}

/* Bits by the NVML API reference: 1 idle, 2 application clocks, 4 software power cap, 8 hardware slow-down, 10 sync
 * boost, 20 software and 40 hardware thermal slow-down, 80 power brake, all in hexadecimal. */
static void test_condition (void)
{
  static const struct {
    const char *mask, *words;
  } rows[] = { { "0", "" },          { "1", "" },         { "2", "setting" },    { "4", "power" },
               { "8", "hardware" },  { "10", "setting" }, { "20", "heat" },      { "48", "heat hardware" },
               { "88", "hardware" }, { "100", "" },       { "24", "power heat" } };
  static const gint64 clocks[] = { 1980, 1755, 1200, 1200 };
  PsCondition condition = condition_of (0);

  g_assert_cmpint (condition.clock_mhz, ==, 1980);
  g_assert_cmpint (condition.memory_clock_mhz, ==, 3201);
  g_assert_cmpint (condition.temperature_c, ==, 55);
  g_assert_cmpint (condition.power_mw, ==, 420500);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_setenv ("FAKE_NVML_REASONS", rows[i].mask, TRUE);
    g_autofree char *words = ps_throttle_to_text (condition_of (0).throttle);
    g_assert_cmpstr (words, ==, rows[i].words);
  }
  g_unsetenv ("FAKE_NVML_REASONS");
  /* What it does not say is not known, nor is anything of a GPU that it does not know. */
  g_setenv ("FAKE_NVML_MUTE", "1", TRUE);
  condition = condition_of (0);
  g_unsetenv ("FAKE_NVML_MUTE");
  g_assert_cmpint (condition.clock_mhz, ==, 1980);
  g_assert_cmpint (condition.temperature_c, ==, 0);
  g_assert_cmpint (condition.power_mw, ==, 0);
  g_assert_cmpuint (condition.throttle, ==, 0);
  g_assert_cmpint (condition_of (1).clock_mhz, ==, 0);
  g_setenv ("FAKE_NVML_CLOCKS", "1980 1755 1200", TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (clocks); i++)
    g_assert_cmpint (condition_of (0).clock_mhz, ==, clocks[i]);
}

static void test_links (void)
{
  const PsDeviceSetting setting = { .index = 0 };
  g_autofree char *place = cuda_device->place (&setting);

  g_assert_true (g_str_has_suffix (place, "/GPU:0000:00:00.0+0000:3b:00.0*2,switch*1"));
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

int main (int argc, char **argv)
{
  cuda_init (&argc, &argv);
  cuda_add_emulated ("/cuda/memory/given-back", test_given_back);
  cuda_add_emulated ("/cuda/memory/none-left", test_no_memory);
  cuda_add_emulated ("/cuda/sharing/places", test_places);
  cuda_add_emulated ("/cuda/sharing/parts", test_parts);
  cuda_add_emulated ("/cuda/sharing/random-shares", test_random_shares);
  cuda_add_emulated ("/cuda/sharing/peers", test_peers);
  cuda_add_emulated ("/cuda/provenance", test_provenance);
  if (g_getenv ("FAKE_NVML") != NULL) {
    cuda_add_emulated ("/cuda/condition", test_condition);
    cuda_add_emulated ("/cuda/links", test_links);
  }
  cuda_add_emulated ("/cuda/refuses/machine", test_unavailable);
  cuda_add ("/cuda/refuses/models", test_refuses_models);
  return g_test_run ();
}

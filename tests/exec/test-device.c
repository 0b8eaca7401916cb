/* Tests of device: the table, the null device and the paced device. */
#include "clock.h"
#include "train/data.h"
#include "train/devices.h"
#include "train/memory.h"
#include "error-rig.h"
#include "run/measuring.h"
#include "run/transports.h"

#include <math.h>

static void test_table (void)
{
  guint n = 0;
  const PsDeviceClass *const *table = ps_device_table (&n);

  g_assert_cmpuint (n, >=, 3);
  for (guint i = 0; i < n; i++) {
    /* Rows without hooks stand for modules. */
    g_assert_true (table[i]->open == NULL || ps_device_find (table[i]->name, NULL) == table[i]);
    for (guint j = 0; j < i; j++)
      g_assert_cmpstr (table[i]->name, !=, table[j]->name);
  }
  g_assert_true (ps_device_find ("paced", NULL) == &ps_paced_device);
}

static void test_unknown (void)
{
  refused (ps_device_find ("abacus", &error), PS_ERROR_USAGE,
           "--device: 'abacus' is no device; there are cpu, cuda, paced, null");
}

static void *plain_allocate (gsize bytes)
{
  return g_malloc (bytes);
}

/* A block that an op gave back is taken by later ops, and by no work that must not wait for that op. */
static void test_moments (void)
{
  static const PsPoolSource source = { .granule = 16, .allocate = plain_allocate, .release = g_free };
  PsMemoryPool *pool = ps_memory_pool_new (&source, G_MAXINT64);
  PsMemoryUse use;
  void *block, *other;

  ps_memory_pool_turn (pool, 1, 1);
  block = ps_memory_pool_take (pool, 32, PS_USE_BUFFER);
  ps_memory_pool_give (pool, block);
  ps_memory_pool_turn (pool, 1, 0);
  other = ps_memory_pool_take (pool, 32, PS_USE_BUFFER);
  g_assert_true (other != block);
  ps_memory_pool_turn (pool, 2, 2);
  g_assert_true (ps_memory_pool_take (pool, 32, PS_USE_BUFFER) == block);
  ps_memory_pool_give (pool, other);
  ps_memory_pool_use (pool, &use);
  g_assert_cmpint (use.current[PS_USE_BUFFER], ==, 32);
  ps_memory_pool_free (pool);
}

/* Two stages: F of 2 ms takes 100 B; B of 1 ms gives 60, W of 1 ms gives 40; BW of 3 ms gives 100; weights 1000 B. */
static PsCosts *example_costs (void)
{
  PsCosts *costs = ps_costs_new (2);

  for (guint stage = 0; stage < 2; stage++) {
    ps_costs_op (costs, PS_OP_F, stage)->duration_ns = 2000000;
    ps_costs_op (costs, PS_OP_B, stage)->duration_ns = 1000000;
    ps_costs_op (costs, PS_OP_W, stage)->duration_ns = 1000000;
    ps_costs_op (costs, PS_OP_BW, stage)->duration_ns = 3000000;
    ps_costs_set_memory (costs, stage, 100, 40);
    costs->stage[stage].weight_bytes = 1000;
    costs->stage[stage].pair_ns = -1;
  }
  return costs;
}

/* Runs an op without input, frees its output and says whether it had one. */
static gboolean run (PsDevice *device, PsOpKind kind, guint stage, gboolean paired)
{
  PsOp op = { .kind = kind, .stage = stage, .paired = paired };
  PsTensor *output = NULL;
  gboolean done = fine (device->class->run (device, op, NULL, &output, &error));

  g_assert_true (done);
  if (output == NULL)
    return FALSE;
  g_assert_true (output->device == device);
  g_assert_cmpuint (output->bytes, ==, 0);
  g_assert_null (output->data);
  device->class->tensor_free (output);
  return TRUE;
}

static PsDevice *open_example (const PsDeviceClass *class, PsDeviceSetting *setting, const PsCosts *costs)
{
  static const PsStageShape shape = { .n_layers = 1 };

  *setting = (PsDeviceSetting){ .costs = costs, .n_stages = 2, .n_microbatches = 4, .core = -1 };
  PsDevice *device = class->open (setting, NULL);
  g_assert_nonnull (device);
  g_assert_true (class->attach (device, NULL));
  g_assert_true (class->add_stage (device, 0, &shape, NULL));
  g_assert_true (class->add_stage (device, 1, &shape, NULL));
  return device;
}

/* The first stage hands on activations only, the last one gradients only. */
static void check_outputs (PsDevice *device)
{
  g_assert_true (run (device, PS_OP_F, 0, FALSE));
  g_assert_false (run (device, PS_OP_F, 1, FALSE));
  g_assert_true (run (device, PS_OP_B, 1, FALSE));
  g_assert_false (run (device, PS_OP_B, 0, FALSE));
  g_assert_true (run (device, PS_OP_BW, 1, FALSE));
  g_assert_false (run (device, PS_OP_BW, 0, FALSE));
  g_assert_false (run (device, PS_OP_W, 1, FALSE));
  g_assert_false (run (device, PS_OP_O, 1, FALSE));
}

static void check_computes_nothing (PsDevice *device)
{
  gsize n = 1;

  g_assert_true (isnan (device->class->loss (device, 0)));
  g_assert_null (device->class->gradients (device, 0, &n));
  g_assert_cmpuint (n, ==, 0);
}

static void test_null (void)
{
  g_autoptr (PsCosts) costs = example_costs ();
  PsDeviceSetting setting;
  PsDevice *device = open_example (&ps_null_device, &setting, costs);
  PsMemoryUse use;

  check_outputs (device);
  check_computes_nothing (device);
  run (device, PS_OP_F, 0, FALSE);
  device->class->reset_peak (device);
  device->class->memory (device, &use);
  g_assert_cmpint (use.current[PS_USE_STATE], ==, 0);
  g_assert_cmpint (use.current[PS_USE_ACTIVATION], ==, 0);
  g_assert_cmpint (use.peak_bytes, ==, 0);
  device->class->close (device);
}

static void test_paced_needs_costs (void)
{
  PsDeviceSetting setting = { .n_stages = 2, .core = -1 };

  refused (ps_paced_device.open (&setting, &error), PS_ERROR_USAGE,
           "device paced: needs costs: they say how long ops take");
}

static void test_paced_outputs (void)
{
  g_autoptr (PsCosts) costs = example_costs ();
  PsDeviceSetting setting;
  PsDevice *device = open_example (&ps_paced_device, &setting, costs);

  check_outputs (device);
  check_computes_nothing (device);
  device->class->close (device);
}

/* Ops in a row take at least the sum of their durations: F, B, W, BW = 2 + 1 + 1 + 3 ms. */
static void test_paced_duration (void)
{
  g_autoptr (PsCosts) costs = example_costs ();
  PsDeviceSetting setting;
  PsDevice *device = open_example (&ps_paced_device, &setting, costs);
  gint64 start_ns = ps_clock_now ();

  run (device, PS_OP_F, 0, FALSE);
  g_assert_cmpint (ps_clock_now () - start_ns, >=, 2000000);
  run (device, PS_OP_B, 0, FALSE);
  g_assert_cmpint (ps_clock_now () - start_ns, >=, 3000000);
  run (device, PS_OP_W, 0, FALSE);
  g_assert_cmpint (ps_clock_now () - start_ns, >=, 4000000);
  run (device, PS_OP_BW, 1, FALSE);
  g_assert_cmpint (ps_clock_now () - start_ns, >=, 7000000);
  device->class->close (device);
}

/* Runs F of stage 0 with an input that came at ready_ns; returns when its output was ready. */
static gint64 run_with_input (PsDevice *device, gint64 ready_ns)
{
  PsTensor *input = device->class->tensor_new (device), *output = NULL;

  input->ready_ns = ready_ns;
  g_assert_true (device->class->run (device, (PsOp){ .kind = PS_OP_F }, input, &output, NULL));
  gint64 end_ns = output->ready_ns;
  device->class->tensor_free (output);
  g_assert_cmpint (ps_clock_now (), >=, end_ns);
  return end_ns;
}

/* The input came 4 ms after the previous op, and the device looked at it 1 ms later still. F's 2 ms count from its
 * coming; those of an F whose input came earlier count from the end of the op before. */
static void test_paced_input (void)
{
  g_autoptr (PsCosts) costs = example_costs ();
  PsDeviceSetting setting;
  PsDevice *device = open_example (&ps_paced_device, &setting, costs);

  run (device, PS_OP_F, 0, FALSE);
  gint64 ready_ns = ps_clock_now () + 4000000;
  ps_clock_sleep_until (ready_ns + 1000000);
  g_assert_cmpint (run_with_input (device, ready_ns), ==, ready_ns + 2000000);
  g_assert_cmpint (run_with_input (device, ready_ns), ==, ready_ns + 4000000);
  device->class->close (device);
}

/* The thread sends 1 ms after the op should have ended. The message is on its way for 20 ms from then on, and the
 * receiver's op may count from 20 ms after the end, unless the message came even later. */
static void test_paced_late (void)
{
  const gint64 delay_ns = 20000000;
  const PsOp op = { .kind = PS_OP_F };
  const PsTransportClass *class = &ps_threads_transport;
  PsTransport *transport = class->open (&(PsTransportSetting){ .n_devices = 2, .n_here = 2, .n_replicas = 1 }, NULL);
  g_autoptr (PsCosts) costs = example_costs ();
  PsDeviceSetting setting;
  PsDevice *device = open_example (&ps_paced_device, &setting, costs);
  PsTensor *tensor = NULL;
  PsTransferTimes times;
  gint64 end_ns, posted_ns;

  g_assert_true (device->class->run (device, op, NULL, &tensor, NULL));
  end_ns = tensor->ready_ns;
  ps_clock_sleep_until (end_ns + 1000000);
  g_assert_true (class->send (transport, 0, 1, op, tensor, delay_ns, NULL));
  posted_ns = ps_clock_now ();
  g_assert_true (class->receive (transport, 1, 0, op, NULL));
  tensor = class->wait (transport, 1, 0, op, device, &times, NULL);
  g_assert_cmpint (times.end_ns - times.start_ns, >=, delay_ns);
  g_assert_cmpint (tensor->ready_ns, >=, end_ns + delay_ns);
  g_assert_cmpint (tensor->ready_ns, <=, MAX (end_ns + delay_ns, posted_ns));
  device->class->tensor_free (tensor);
  class->close (transport);
  device->class->close (device);
}

static void assert_memory (PsDevice *device, gint64 activation, gint64 peak)
{
  PsMemoryUse use;

  device->class->memory (device, &use);
  g_assert_cmpint (use.current[PS_USE_STATE], ==, 2000);
  g_assert_cmpint (use.current[PS_USE_ACTIVATION], ==, activation);
  g_assert_cmpint (use.peak_bytes, ==, peak);
}

/* Two stages of 1000 B each; then as the costs say. */
static void test_paced_memory (void)
{
  g_autoptr (PsCosts) costs = example_costs ();
  PsDeviceSetting setting;
  PsDevice *device = open_example (&ps_paced_device, &setting, costs);

  assert_memory (device, 0, 2000);
  run (device, PS_OP_F, 0, FALSE);
  assert_memory (device, 100, 2100);
  run (device, PS_OP_F, 1, FALSE);
  assert_memory (device, 200, 2200);
  run (device, PS_OP_B, 1, FALSE);
  assert_memory (device, 140, 2200);
  device->class->reset_peak (device);
  assert_memory (device, 140, 2140);
  run (device, PS_OP_W, 1, FALSE);
  assert_memory (device, 100, 2140);
  run (device, PS_OP_BW, 0, FALSE);
  assert_memory (device, 0, 2140);
  device->class->close (device);
}

/* F of 2 ms, then a pair that takes its 4 ms in the second op; both take memory at its start and give it at its end. */
static void test_paced_pair (void)
{
  g_autoptr (PsCosts) costs = example_costs ();
  PsDeviceSetting setting;

  costs->stage[1].pair_ns = 4000000;
  PsDevice *device = open_example (&ps_paced_device, &setting, costs);
  gint64 start_ns = ps_clock_now ();
  run (device, PS_OP_F, 0, FALSE);
  run (device, PS_OP_BW, 0, TRUE);
  assert_memory (device, 100, 2100);
  run (device, PS_OP_F, 1, FALSE);
  assert_memory (device, 100, 2200);
  g_assert_cmpint (ps_clock_now () - start_ns, >=, 2000000 + 4000000);
  /* Nothing is known of pairs with F of stage 0: 2 + 1 ms. */
  run (device, PS_OP_F, 0, TRUE);
  run (device, PS_OP_B, 1, FALSE);
  g_assert_cmpint (ps_clock_now () - start_ns, >=, 2000000 + 4000000 + 3000000);
  assert_memory (device, 140, 2200);
  device->class->close (device);
}

/* Weights have mean 0 and the deviation asked for, and lie within sqrt (12) deviations, as the sum of four uniform
 * numbers does. Each depends on its own place alone, and on seed, stream and index. Of 40000, the mean is known to 1 in
 * 200 deviations and the deviation to about 1 in 300. */
static void test_weights (void)
{
  enum { N = 40000 };
  static const guint keys[][3] = { { 1, 2, 3 }, { 2, 2, 3 }, { 1, 3, 3 }, { 1, 2, 4 }, { 1, 3, 2 } };
  g_autofree float *values = g_new (float, N), *others = g_new (float, N);

  for (guint k = 0; k < G_N_ELEMENTS (keys); k++) {
    double sum = 0, squares = 0, beside = 0;
    guint n_same = 0;

    ps_data_weights (others, N, 0.5F, keys[k][0], keys[k][1], keys[k][2]);
    for (guint i = 0; i < N; i++) {
      sum += others[i];
      squares += (double)others[i] * others[i];
      beside += i > 0 ? (double)others[i] * others[i - 1] : 0;
      n_same += k > 0 && others[i] == values[i];
      g_assert_cmpfloat (fabsf (others[i]), <=, 0.5F * sqrtf (12) + 1e-5F);
    }
    g_assert_cmpfloat_with_epsilon (sum / N, 0, 0.5 * 5 / 200);
    g_assert_cmpfloat_with_epsilon (sqrt (squares / N), 0.5, 0.5 * 5 / 300);
    g_assert_cmpfloat_with_epsilon (beside / N, 0, 0.25 * 5 / 200);
    g_assert_cmpuint (n_same, <, 10);
    if (k == 0)
      memcpy (values, others, N * sizeof *values);
  }
  ps_data_weights (others, 10, 1.0F, 1, 2, 3);
  for (guint i = 0; i < 10; i++)
    g_assert_cmpfloat (others[i], ==, 2 * values[i]);
}

/* Seven of eight words follow from the one before, by a rule that the seed alone decides; the eighth, and the first of
 * each sequence, is any. */
static void test_words (void)
{
  enum { BATCH = 200, SEQUENCE = 49, WORDS = 20 };
  static guint32 words[2][BATCH * (SEQUENCE + 1)];
  static guint follows[WORDS][WORDS], first[WORDS];
  guint n_usual = 0, n_same = 0;

  for (guint microbatch = 0; microbatch < 2; microbatch++)
    ps_data_words (words[microbatch], BATCH, SEQUENCE, WORDS, 7, microbatch);
  for (guint i = 0; i < G_N_ELEMENTS (words[0]); i++) {
    g_assert_cmpuint (words[0][i], <, WORDS);
    n_same += words[0][i] == words[1][i];
    if (i % (SEQUENCE + 1) == 0)
      first[words[0][i]]++;
    else
      follows[words[0][i - 1]][words[0][i]]++;
  }
  for (guint before = 0; before < WORDS; before++) {
    guint most = 0;

    for (guint word = 0; word < WORDS; word++)
      most = MAX (most, follows[before][word]);
    n_usual += most;
  }
  /* 7/8 and a twentieth of the rest, known to some 0.01 */
  g_assert_cmpfloat_with_epsilon ((double)n_usual / (BATCH * SEQUENCE), 7.0 / 8 + 1.0 / 8 / WORDS, 0.015);
  for (guint word = 0; word < WORDS; word++)
    g_assert_cmpuint (first[word], <, BATCH / 4);
  g_assert_cmpuint (n_same, <, G_N_ELEMENTS (words[0]) / 2);
}

static guint n_copied, n_living;

static PsTensor *counted_new (PsDevice *device)
{
  PsTensor *tensor = g_new0 (PsTensor, 1);

  n_living++;
  *tensor = (PsTensor){ .device = device, .bytes = 4000, .data = g_malloc0 (4000) };
  return tensor;
}

static void counted_free (PsTensor *tensor)
{
  n_living--;
  g_free (tensor->data);
  g_free (tensor);
}

static gboolean counted_copy (PsTensor *to, PsTensor *from, PsTimes *times, GError **error)
{
  n_copied++;
  memcpy (to->data, from->data, to->bytes);
  return TRUE;
}

static float number_at (const PsTensor *tensor, PsPrecision precision, guint i)
{
  guint32 bits
      = precision == PS_PRECISION_FP32 ? ((guint32 *)tensor->data)[i] : (guint32)((guint16 *)tensor->data)[i] << 16;
  float value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

/* What an op that is timed alone takes fills its tensor: numbers between -1 and 1, or a thousandth of that for
 * gradients, all over that range. They are made once for each, and copied. */
static void test_inputs (void)
{
  const PsDeviceClass plain = { .name = "x", .computes = TRUE, .tensor_new = counted_new, .tensor_free = counted_free };
  PsDeviceClass copies = plain;
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_BW };

  copies.copy = counted_copy;
  for (guint i = 0; i < 4; i++) {
    const PsPrecision precision = i % 2 ? PS_PRECISION_BF16 : PS_PRECISION_FP32;
    PsDevice device = { .class = i < 2 ? &plain : &copies };
    PsLoneInputs inputs = { 0 };
    const guint n = i % 2 ? 2000 : 1000;

    n_copied = 0;
    for (guint k = 0; k < 6; k++) {
      const double scale = k % 3 == 0 ? 1 : 1e-3;
      PsTensor *input = fine (ps_lone_input (&inputs, &device, precision, kinds[k % 3], &error));
      guint n_quarter[4] = { 0 };

      for (guint m = 0; m < n; m++) {
        const double at = number_at (input, precision, m) / scale;

        g_assert_cmpfloat (fabs (at), <=, 1.001);
        n_quarter[CLAMP ((int)floor (2 * at) + 2, 0, 3)]++;
      }
      for (guint quarter = 0; quarter < 4; quarter++)
        g_assert_cmpfloat_with_epsilon ((double)n_quarter[quarter] / n, 0.25, 0.03);
      counted_free (input);
    }
    g_assert_cmpuint (n_copied, ==, i < 2 ? 0 : 6);
    g_assert_cmpuint (n_living, ==, 2);
    ps_lone_inputs_clear (&inputs);
    g_assert_cmpuint (n_living, ==, 0);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/device/table", test_table);
  g_test_add_func ("/device/unknown", test_unknown);
  g_test_add_func ("/device/moments", test_moments);
  g_test_add_func ("/device/weights", test_weights);
  g_test_add_func ("/device/words", test_words);
  g_test_add_func ("/device/inputs", test_inputs);
  g_test_add_func ("/device/null", test_null);
  g_test_add_func ("/device/paced/needs-costs", test_paced_needs_costs);
  g_test_add_func ("/device/paced/outputs", test_paced_outputs);
  g_test_add_func ("/device/paced/duration", test_paced_duration);
  g_test_add_func ("/device/paced/input", test_paced_input);
  g_test_add_func ("/device/paced/late", test_paced_late);
  g_test_add_func ("/device/paced/memory", test_paced_memory);
  g_test_add_func ("/device/paced/pair", test_paced_pair);
  return g_test_run ();
}

/* Tests of device: the table, the null device and the paced device. */
#include "clock.h"
#include "device/devices.h"
#include "device/memory.h"
#include "error-rig.h"
#include "transport/transports.h"

#include <math.h>

static void
test_table (void)
{
  guint n = 0;
  const PsDeviceClass *const *table = ps_device_table (&n);

  g_assert_cmpuint (n, >=, 3);
  for (guint i = 0; i < n; i++)
    {
      /* Rows without hooks stand for modules. */
      g_assert_true (table[i]->open == NULL || ps_device_find (table[i]->name, NULL) == table[i]);
      for (guint j = 0; j < i; j++)
        g_assert_cmpstr (table[i]->name, !=, table[j]->name);
    }
  g_assert_true (ps_device_find ("paced", NULL) == &ps_paced_device);
}

static void
test_unknown (void)
{
  refused (ps_device_find ("abacus", &error), PS_ERROR_USAGE,
           "--device: 'abacus' is no device; there are cpu, cuda, paced, null");
}

static void *
plain_allocate (gsize bytes)
{
  return g_malloc (bytes);
}

/* A block that an op gave back is taken by later ops, and by no work that must not wait for that op. */
static void
test_moments (void)
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
static PsCosts *
example_costs (void)
{
  PsCosts *costs = ps_costs_new (2);

  for (guint stage = 0; stage < 2; stage++)
    {
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
static gboolean
run (PsDevice *device, PsOpKind kind, guint stage, gboolean paired)
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

static PsDevice *
open_example (const PsDeviceClass *class, PsDeviceSetting *setting, const PsCosts *costs)
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
static void
check_outputs (PsDevice *device)
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

static void
check_computes_nothing (PsDevice *device)
{
  gsize n = 1;

  g_assert_true (isnan (device->class->loss (device, 0)));
  g_assert_null (device->class->gradients (device, 0, &n));
  g_assert_cmpuint (n, ==, 0);
}

static void
test_null (void)
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

static void
test_paced_needs_costs (void)
{
  PsDeviceSetting setting = { .n_stages = 2, .core = -1 };

  refused (ps_paced_device.open (&setting, &error), PS_ERROR_USAGE,
           "device paced: needs costs: they say how long ops take");
}

static void
test_paced_outputs (void)
{
  g_autoptr (PsCosts) costs = example_costs ();
  PsDeviceSetting setting;
  PsDevice *device = open_example (&ps_paced_device, &setting, costs);

  check_outputs (device);
  check_computes_nothing (device);
  device->class->close (device);
}

/* Ops in a row take at least the sum of their durations: F, B, W, BW = 2 + 1 + 1 + 3 ms. */
static void
test_paced_duration (void)
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
static gint64
run_with_input (PsDevice *device, gint64 ready_ns)
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
static void
test_paced_input (void)
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
static void
test_paced_late (void)
{
  const gint64 delay_ns = 20000000;
  const PsOp op = { .kind = PS_OP_F };
  const PsTransportClass *class = &ps_threads_transport;
  PsTransport *transport
      = class->open (&(PsTransportSetting){ .n_devices = 2, .n_here = 2, .n_replicas = 1, .capacity = 1 }, NULL);
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

static void
assert_memory (PsDevice *device, gint64 activation, gint64 peak)
{
  PsMemoryUse use;

  device->class->memory (device, &use);
  g_assert_cmpint (use.current[PS_USE_STATE], ==, 2000);
  g_assert_cmpint (use.current[PS_USE_ACTIVATION], ==, activation);
  g_assert_cmpint (use.peak_bytes, ==, peak);
}

/* Two stages of 1000 B each; then as the costs say. */
static void
test_paced_memory (void)
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
static void
test_paced_pair (void)
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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/device/table", test_table);
  g_test_add_func ("/device/unknown", test_unknown);
  g_test_add_func ("/device/moments", test_moments);
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

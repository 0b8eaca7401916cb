/* test-delays.c - ops and messages that are late by random times change no bit of what is trained, whatever the order
 * in which they then meet. `-m thorough` tries 200 runs. */
#include "run-rig.h"

#include <pipesim/philox.h>
#include <pipesim/simulate.h>

#include <string.h>

#define MOST_US 5000

static PsDeviceClass late_device;
static PsTransportClass late_transport;

/* The next of a row of random times up to MOST_US, in microseconds. */
static guint draw_delay (void)
{
  static gint n_drawn;
  guint64 counter = (guint64)g_atomic_int_add (&n_drawn, 1);

  return (guint)(ps_splitmix_next (&counter) % (MOST_US + 1));
}

static PsDevice *late_open (const PsDeviceSetting *setting, GError **error)
{
  PsDevice *device = ps_cpu_device.open (setting, error);

  g_assert_nonnull (device);
  device->class = &late_device;
  return device;
}

static gboolean late_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  g_usleep (draw_delay ());
  return ps_cpu_device.run (device, op, input, output, error);
}

static PsTransport *late_transport_open (const PsTransportSetting *setting, GError **error)
{
  PsTransport *transport = ps_threads_transport.open (setting, error);

  g_assert_nonnull (transport);
  transport->class = &late_transport;
  return transport;
}

/* The message is handed over at once, and arrives late. */
static gboolean late_send (PsTransport *transport, guint from, guint to, PsOp op, PsTensor *tensor, gint64 delay_ns,
                           GError **error)
{
  const gint64 late_ns = (gint64)draw_delay () * 1000;

  return ps_threads_transport.send (transport, from, to, op, tensor, delay_ns + late_ns, error);
}

/* The digests of all steps' gradients, and the losses of all steps. */
static void assert_same_training (const PsRunResult *a, const PsRunResult *b)
{
  g_assert_cmpmem (a->losses, a->n_steps * a->n_microbatches * sizeof *a->losses, b->losses,
                   b->n_steps * b->n_microbatches * sizeof *b->losses);
  g_assert_cmpmem (a->gradients->digest, (gsize)a->n_steps * a->n_stages * sizeof (guint64), b->gradients->digest,
                   (gsize)b->n_steps * b->n_stages * sizeof (guint64));
}

typedef struct {
  const char *path, *family;
  guint n_replicas, n_tensor;
} Case;

static void test_delays (gconstpointer data)
{
  const Case *of = data;
  g_autoptr (PsProgram) program = family_program (of->family, 4, 8);
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 2);
  const guint n_runs = g_test_thorough () ? 50 : 2;

  setting.model = &tiny;
  setting.gradients = TRUE;
  setting.n_replicas = of->n_replicas;
  setting.n_tensor = of->n_tensor;
  g_autoptr (PsRunResult) prompt = run (program, setting);
  setting.device = &late_device;
  setting.transport = &late_transport;
  for (guint i = 0; i < n_runs; i++) {
    g_autoptr (PsRunResult) late = run (program, setting);

    assert_same_training (late, prompt);
  }
}

int main (int argc, char **argv)
{
  static const Case cases[] = { { "/delays/zb-h1", "zb-h1", 1, 1 },
                                { "/delays/gpipe", "gpipe", 1, 1 },
                                { "/delays/chimera", "chimera", 1, 1 },
                                { "/delays/seq1f1b", "seq1f1b", 1, 1 },
                                { "/delays/pipelines", "1f1b", 2, 2 } };

  g_test_init (&argc, &argv, NULL);
  late_device = ps_cpu_device;
  late_device.open = late_open;
  late_device.run = late_run;
  late_transport = ps_threads_transport;
  late_transport.open = late_transport_open;
  late_transport.send = late_send;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_test_add_data_func (cases[i].path, &cases[i], test_delays);
  return g_test_run ();
}

/* Tests of sums that transports make over the devices of several pipelines in one process. Threads and MPI add up in
 * one order, so both are held against the same sums, bit for bit. */
#include "clock.h"
#include "host-rig.h"
#include "run/transports.h"

#include <string.h>

#define PATIENCE_NS G_GINT64_CONSTANT (20000000000)
#define N_DEVICES 2
#define N_TENSOR 3
#define N_REPLICAS 2
#define N (N_DEVICES * N_TENSOR * N_REPLICAS)

typedef struct {
  PsTransport *transport;
  PsTransportSetting setting;
  PsTransportGroup group;
  HostDevice device[N];
  gsize n; /* numbers to add up */
} Net;

typedef struct {
  Net *net;
  guint at;
} Member;

/* The numbers of a device; their sums depend on the order. */
static float *numbers_of (guint at, gsize n)
{
  float *values = g_new (float, n);

  for (gsize i = 0; i < n; i++)
    values[i] = 1 / (float)(1 + (i * 7 + at * 31) % 101);
  return values;
}

static guint member_at (const guint *members, guint n, guint place)
{
  return members[place % n];
}

/* Share s is added up in the order s + 1, s + 2, ..., s. */
static void assert_sums (const float *sums, gsize first, gsize end, const guint *members, guint n_members, gsize n)
{
  g_autofree float *expected = g_new0 (float, n);

  for (guint share = 0; share < n_members; share++)
    for (guint k = 1; k <= n_members; k++) {
      g_autofree float *values = numbers_of (member_at (members, n_members, share + k), n);

      for (gsize i = ps_share_begin (n, share, n_members); i < ps_share_begin (n, share + 1, n_members); i++)
        expected[i] = k == 1 ? values[i] : expected[i] + values[i];
    }
  g_assert_cmpmem (sums + first, (end - first) * sizeof *sums, expected + first, (end - first) * sizeof *sums);
}

static void send_to (const Member *member, guint to)
{
  PsOp op = { .kind = PS_OP_F, .stage = (guint16)member->at };

  fine (member->net->transport->class->send (member->net->transport, member->at, to, op,
                                             host_tensor_new (&member->net->device[member->at].base), 0, &error));
}

static void take_from (const Member *member, guint from)
{
  const PsTransportClass *class = member->net->transport->class;
  PsOp op = { .kind = PS_OP_F, .stage = (guint16)from };
  PsTransferTimes times;

  fine (class->receive (member->net->transport, member->at, from, op, &error));
  PsTensor *tensor = fine (class->wait (member->net->transport, member->at, from, op,
                                        &member->net->device[member->at].base, &times, &error));
  host_tensor_free (tensor);
}

/* Sums over all members, then the halves of one. Messages between the devices of a pipeline are taken afterwards only:
 * no sum waits for them. */
static gpointer add_up (gpointer data)
{
  const Member *member = data;
  Net *net = member->net;
  const PsTransportClass *class = net->transport->class;
  const gboolean twins = net->setting.twin != NULL;
  const guint device = member->at % N_DEVICES, pipeline = member->at / N_DEVICES, n_weights = twins ? 4 : 2;
  const guint other = member->at - device + (1 - device), low = member->at - device;
  const guint part = pipeline % N_TENSOR * N_DEVICES, stride = N_TENSOR * N_DEVICES;
  const guint weights[4]
      = { part + (twins ? 0 : device), part + (twins ? 1 : device + stride), part + stride, part + stride + 1 };
  const guint replicas[2] = { part + device, part + device + stride };
  const guint first = low - pipeline % N_TENSOR * N_DEVICES + device;
  const guint parts[3] = { first, first + N_DEVICES, first + 2 * N_DEVICES };
  const guint ends[2] = { low, low + 1 };
  const guint replica = pipeline / N_TENSOR;
  g_autoptr (GError) error = NULL;

  class->join (net->transport, member->at, &net->device[member->at].base, &error);
  send_to (member, other);
  for (guint kind = 0; kind < PS_N_CIRCLE_KINDS; kind++) {
    g_autofree float *values = numbers_of (member->at, net->n);
    const gsize begin = ps_share_begin (net->n, replica, 2), end = ps_share_begin (net->n, replica + 1, 2);

    switch (kind) {
    case PS_CIRCLE_WEIGHTS:
      fine (class->sum (net->transport, member->at, PS_CIRCLE_WEIGHTS, PS_SUM_WHOLE, values, net->n, &error));
      assert_sums (values, 0, net->n, weights, n_weights, net->n);
      break;
    case PS_CIRCLE_TENSOR:
      fine (class->sum (net->transport, member->at, PS_CIRCLE_TENSOR, PS_SUM_WHOLE, values, net->n, &error));
      assert_sums (values, 0, net->n, parts, N_TENSOR, net->n);
      break;
    case PS_CIRCLE_TIED:
      fine (class->sum (net->transport, member->at, PS_CIRCLE_TIED, PS_SUM_WHOLE, values, net->n, &error));
      assert_sums (values, 0, net->n, ends, 2, net->n);
      break;
    default:
      fine (class->sum (net->transport, member->at, PS_CIRCLE_REPLICAS, PS_SUM_SCATTER, values, net->n, &error));
      assert_sums (values, begin, end, replicas, 2, net->n);
      fine (class->sum (net->transport, member->at, PS_CIRCLE_REPLICAS, PS_SUM_GATHER, values, net->n, &error));
      assert_sums (values, 0, net->n, replicas, 2, net->n);
    }
  }
  take_from (member, other);
  fine (class->flush (net->transport, member->at, &error));
  return NULL;
}

static gboolean no_exchange (gpointer data, guint device, gconstpointer mine, gsize n_bytes, gpointer all,
                             GError **error)
{
  return TRUE;
}

/* n numbers: few, which MPI sends at once, or many, for which it waits for the receiver. Messages are as long. */
static void run (const char *class, gsize n, const guint *twin, gint64 timeout_ns, gpointer (*body) (gpointer member))
{
  static const guint tied[N_DEVICES] = { 1, 0 };
  Net net = { .n = n, .group = { .exchange = no_exchange } };
  Member members[N];
  GThread *threads[N];

  net.setting = (PsTransportSetting){ .n_devices = N_DEVICES,
                                      .message_bytes = n * sizeof (float),
                                      .timeout_ns = timeout_ns,
                                      .n_here = N,
                                      .n_replicas = N_REPLICAS,
                                      .n_tensor = N_TENSOR,
                                      .twin = twin,
                                      .tied = tied,
                                      .group = &net.group };
  net.transport = fine (ps_transport_find (class, NULL)->open (&net.setting, &error));
  for (guint i = 0; i < N; i++) {
    net.device[i] = (HostDevice){ .base.class = &host_class, .bytes = n * sizeof (float) };
    members[i] = (Member){ .net = &net, .at = i };
    threads[i] = g_thread_new ("device", body, &members[i]);
  }
  for (guint i = 0; i < N; i++)
    g_thread_join (threads[i]);
  net.transport->class->close (net.transport);
}

static void test_sums (gconstpointer class)
{
  static const guint twin[N_DEVICES] = { 1, 0 };

  if (ps_transport_find (class, NULL) == NULL) {
    g_test_skip ("not in this build");
    return;
  }
  run (class, 7, NULL, PATIENCE_NS, add_up);
  run (class, 4001, NULL, PATIENCE_NS, add_up);
  run (class, 4001, twin, PATIENCE_NS, add_up);
}

/* Device 0 does not add up but ends the run: the others hear of it. */
static gpointer end_run (gpointer data)
{
  const Member *member = data;
  PsTransport *transport = member->net->transport;
  g_autofree float *values = numbers_of (member->at, member->net->n);
  g_autoptr (GError) error = NULL;
  gboolean fine = transport->class->join (transport, member->at, &member->net->device[member->at].base, &error);

  if (member->at == 0) {
    g_usleep (20000);
    transport->class->abort (transport);
    return NULL;
  }
  while (fine)
    fine
        = transport->class->sum (transport, member->at, PS_CIRCLE_TENSOR, PS_SUM_WHOLE, values, member->net->n, &error);
  assert_error (&error, PS_ERROR_IO, "run aborted");
  return NULL;
}

static void test_abort (gconstpointer class)
{
  if (ps_transport_find (class, NULL) == NULL)
    g_test_skip ("not in this build");
  else
    run (class, 100, NULL, PATIENCE_NS, end_run);
}

/* Parts 1 and 2 of the layers add up without part 0: part 1 gets nothing from it, and nobody takes what part 2 gives.
 */
static gpointer add_up_without_first (gpointer data)
{
  const Member *member = data;
  PsTransport *transport = member->net->transport;
  const guint part = member->at / N_DEVICES % N_TENSOR, device = member->at % N_DEVICES;
  g_autofree float *values = numbers_of (member->at, member->net->n);
  g_autofree char *text
      = g_strdup_printf (part == 1 ? "device %u: waited 0.2 s for its share of a sum from device %u"
                                   : "device %u: waited 0.2 s for device %u to take its share of a sum",
                         device, device);
  g_autoptr (GError) error = NULL;

  fine (transport->class->join (transport, member->at, &member->net->device[member->at].base, &error));
  if (part == 0)
    return NULL;
  transport->class->sum (transport, member->at, PS_CIRCLE_TENSOR, PS_SUM_WHOLE, values, member->net->n, &error);
  assert_error (&error, PS_ERROR_IO, text);
  return NULL;
}

static void test_late (void)
{
  run ("threads", 100, NULL, PATIENCE_NS / 100, add_up_without_first);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/sums/threads", "threads", test_sums);
  g_test_add_data_func ("/sums/threads-abort", "threads", test_abort);
  g_test_add_func ("/sums/threads-late", test_late);
  g_test_add_data_func ("/sums-mpi/mpi", "mpi", test_sums);
  g_test_add_data_func ("/sums-mpi/mpi-abort", "mpi", test_abort);
  return g_test_run ();
}

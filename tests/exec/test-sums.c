/* Tests of sums that transports make over the devices of several pipelines in one process. Threads and MPI add up in
 * one order, so both are held against the same sums, bit for bit. */
#include "clock.h"
#include "host-rig.h"
#include "run/transports.h"

#include <string.h>

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
} Player;

/* The numbers of a device; their sums depend on the order. */
static float *numbers_of (guint at, gsize n)
{
  float *values = g_new (float, n);

  for (gsize i = 0; i < n; i++)
    values[i] = 1 / (float)(1 + (i * 7 + at * 31) % 101);
  return values;
}

static guint member (const guint *members, guint n, guint place)
{
  return members[place % n];
}

/* Share s is added up in the order s + 1, s + 2, ..., s. */
static void assert_sums (const float *sums, gsize first, gsize end, const guint *members, guint n_members, gsize n)
{
  g_autofree float *expected = g_new0 (float, n);

  for (guint share = 0; share < n_members; share++)
    for (guint k = 1; k <= n_members; k++) {
      g_autofree float *values = numbers_of (member (members, n_members, share + k), n);

      for (gsize i = ps_share_begin (n, share, n_members); i < ps_share_begin (n, share + 1, n_members); i++)
        expected[i] = k == 1 ? values[i] : expected[i] + values[i];
    }
  g_assert_cmpmem (sums + first, (end - first) * sizeof *sums, expected + first, (end - first) * sizeof *sums);
}

static void send_to (const Player *player, guint to)
{
  PsOp op = { .kind = PS_OP_F, .stage = (guint16)player->at };

  fine (player->net->transport->class->send (player->net->transport, player->at, to, op,
                                             host_tensor_new (&player->net->device[player->at].base), 0, &error));
}

static void take_from (const Player *player, guint from)
{
  const PsTransportClass *class = player->net->transport->class;
  PsOp op = { .kind = PS_OP_F, .stage = (guint16)from };
  PsTransferTimes times;

  fine (class->receive (player->net->transport, player->at, from, op, &error));
  PsTensor *tensor = fine (class->wait (player->net->transport, player->at, from, op,
                                        &player->net->device[player->at].base, &times, &error));
  host_tensor_free (tensor);
}

/* Sums over all members, then the halves of one. Messages between the devices of a pipeline are taken afterwards only:
 * no sum waits for them. */
static gpointer add_up (gpointer data)
{
  const Player *player = data;
  Net *net = player->net;
  const PsTransportClass *class = net->transport->class;
  const gboolean twins = net->setting.twin != NULL;
  const guint device = player->at % N_DEVICES, pipeline = player->at / N_DEVICES, n_weights = twins ? 4 : 2;
  const guint other = player->at - device + (1 - device), low = player->at - device;
  const guint part = pipeline % N_TENSOR * N_DEVICES, stride = N_TENSOR * N_DEVICES;
  const guint weights[4]
      = { part + (twins ? 0 : device), part + (twins ? 1 : device + stride), part + stride, part + stride + 1 };
  const guint replicas[2] = { part + device, part + device + stride };
  const guint first = low - pipeline % N_TENSOR * N_DEVICES + device;
  const guint parts[3] = { first, first + N_DEVICES, first + 2 * N_DEVICES };
  const guint replica = pipeline / N_TENSOR;
  g_autoptr (GError) error = NULL;

  class->join (net->transport, player->at, &net->device[player->at].base, &error);
  send_to (player, other);
  for (guint kind = 0; kind < 3; kind++) {
    g_autofree float *values = numbers_of (player->at, net->n);
    const gsize begin = ps_share_begin (net->n, replica, 2), end = ps_share_begin (net->n, replica + 1, 2);

    switch (kind) {
    case PS_CIRCLE_WEIGHTS:
      fine (class->sum (net->transport, player->at, PS_CIRCLE_WEIGHTS, PS_SUM_WHOLE, values, net->n, &error));
      assert_sums (values, 0, net->n, weights, n_weights, net->n);
      break;
    case PS_CIRCLE_TENSOR:
      fine (class->sum (net->transport, player->at, PS_CIRCLE_TENSOR, PS_SUM_WHOLE, values, net->n, &error));
      assert_sums (values, 0, net->n, parts, N_TENSOR, net->n);
      break;
    default:
      fine (class->sum (net->transport, player->at, PS_CIRCLE_REPLICAS, PS_SUM_SCATTER, values, net->n, &error));
      assert_sums (values, begin, end, replicas, 2, net->n);
      fine (class->sum (net->transport, player->at, PS_CIRCLE_REPLICAS, PS_SUM_GATHER, values, net->n, &error));
      assert_sums (values, 0, net->n, replicas, 2, net->n);
    }
  }
  take_from (player, other);
  fine (class->flush (net->transport, player->at, &error));
  return NULL;
}

static gboolean no_exchange (gpointer data, guint device, gconstpointer mine, gsize n_bytes, gpointer all,
                             GError **error)
{
  return TRUE;
}

/* n numbers: few, which MPI sends at once, or many, for which it waits for the receiver. Messages are as long. */
static void run (const char *class, gsize n, const guint *twin, gpointer (*play) (gpointer player))
{
  Net net = { .n = n, .group = { .exchange = no_exchange } };
  Player players[N];
  GThread *threads[N];

  net.setting = (PsTransportSetting){ .n_devices = N_DEVICES,
                                      .message_bytes = n * sizeof (float),
                                      .timeout_ns = G_GINT64_CONSTANT (20000000000),
                                      .n_here = N,
                                      .n_replicas = N_REPLICAS,
                                      .n_tensor = N_TENSOR,
                                      .twin = twin,
                                      .group = &net.group };
  net.transport = fine (ps_transport_find (class, NULL)->open (&net.setting, &error));
  for (guint i = 0; i < N; i++) {
    net.device[i] = (HostDevice){ .base.class = &host_class, .bytes = n * sizeof (float) };
    players[i] = (Player){ .net = &net, .at = i };
    threads[i] = g_thread_new ("device", play, &players[i]);
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
  run (class, 7, NULL, add_up);
  run (class, 4001, NULL, add_up);
  run (class, 4001, twin, add_up);
}

/* Device 0 does not add up but ends the run: the others hear of it. */
static gpointer strike (gpointer data)
{
  const Player *player = data;
  PsTransport *transport = player->net->transport;
  g_autofree float *values = numbers_of (player->at, player->net->n);
  g_autoptr (GError) error = NULL;
  gboolean fine = transport->class->join (transport, player->at, &player->net->device[player->at].base, &error);

  if (player->at == 0) {
    g_usleep (20000);
    transport->class->abort (transport);
    return NULL;
  }
  while (fine)
    fine
        = transport->class->sum (transport, player->at, PS_CIRCLE_TENSOR, PS_SUM_WHOLE, values, player->net->n, &error);
  assert_error (&error, PS_ERROR_IO, "run aborted");
  return NULL;
}

static void test_strike (gconstpointer class)
{
  if (ps_transport_find (class, NULL) == NULL)
    g_test_skip ("not in this build");
  else
    run (class, 100, NULL, strike);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/sums/threads", "threads", test_sums);
  g_test_add_data_func ("/sums/threads-strike", "threads", test_strike);
  g_test_add_data_func ("/sums-mpi/mpi", "mpi", test_sums);
  g_test_add_data_func ("/sums-mpi/mpi-strike", "mpi", test_strike);
  return g_test_run ();
}

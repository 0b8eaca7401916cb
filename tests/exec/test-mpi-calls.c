/* Tests of which threads call MPI. The transport is linked into this program, which looks at its calls. */
#include "clock.h"
#include "host-rig.h"
#include "mpi-transport.h"

#include <string.h>

#define N_CORES 4
#define N_MESSAGES 200
#define N_ROUNDS 30
#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

/* In place of the one of libpipesim-exec. */
guint
ps_count_cores (void)
{
  return N_CORES;
}

/* Calls of MPI */

static gint n_inside, n_overlaps;
static _Thread_local gint *n_calls; /* of a device's thread; NULL: another thread */

static void
enter (void)
{
  if (g_atomic_int_add (&n_inside, 1) > 0)
    g_atomic_int_inc (&n_overlaps);
  if (n_calls != NULL)
    g_atomic_int_inc (n_calls);
}

static int
leave (int result)
{
  g_atomic_int_add (&n_inside, -1);
  return result;
}

int
MPI_Test (MPI_Request *request, int *flag, MPI_Status *status)
{
  enter ();
  return leave (PMPI_Test (request, flag, status));
}

int
MPI_Testsome (int n, MPI_Request requests[], int *n_done, int indices[], MPI_Status statuses[])
{
  enter ();
  return leave (PMPI_Testsome (n, requests, n_done, indices, statuses));
}

int
MPI_Isend (const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
  enter ();
  return leave (PMPI_Isend (data, n, type, to, tag, comm, request));
}

int
MPI_Irecv (void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
  enter ();
  return leave (PMPI_Irecv (data, n, type, from, tag, comm, request));
}

/* Devices in threads */

typedef struct
{
  HostDevice device;
  PsTransport *transport;
  guint own, n_devices, n_messages;
  gint n_calls;
  GThread *thread;
} Player;

static PsTransport *
players_open (Player *players, guint n, gsize bytes)
{
  const PsTransportSetting setting = { .n_devices = n,
                                       .message_bytes = bytes,
                                       .capacity = N_MESSAGES,
                                       .timeout_ns = TIMEOUT_NS,
                                       .n_here = n,
                                       .n_replicas = 1 };
  PsTransport *transport = fine (ps_mpi_transport_class ()->open (&setting, &error));

  for (guint i = 0; i < n; i++)
    {
      players[i] = (Player){
        .device = { .base.class = &host_class, .bytes = bytes }, .transport = transport, .own = i, .n_devices = n
      };
      gboolean joined = fine (transport->class->join (transport, i, &players[i].device.base, &error));
      g_assert_true (joined);
    }
  return transport;
}

static PsOp
message (guint i)
{
  return (PsOp){ .kind = PS_OP_F, .microbatch = i };
}

static void
send_one (Player *player, guint to, guint i)
{
  PsTensor *tensor = host_tensor_new (&player->device.base);

  memset (tensor->data, (int)i, tensor->bytes);
  gboolean sent
      = fine (player->transport->class->send (player->transport, player->own, to, message (i), tensor, 0, &error));
  g_assert_true (sent);
}

static void
take_one (Player *player, guint from, guint i)
{
  PsTransferTimes times;
  gboolean announced
      = fine (player->transport->class->receive (player->transport, player->own, from, message (i), &error));
  g_assert_true (announced);
  PsTensor *tensor = fine (player->transport->class->wait (player->transport, player->own, from, message (i),
                                                           &player->device.base, &times, &error));

  g_assert_cmpint (((const guint8 *)tensor->data)[tensor->bytes - 1], ==, (guint8)i);
  host_tensor_free (tensor);
}

static void
flush (Player *player)
{
  gboolean flushed = fine (player->transport->class->flush (player->transport, player->own, &error));

  g_assert_true (flushed);
}

/* Sends to the next device and takes from the one before. */
static gpointer
pass_on (gpointer data)
{
  Player *player = data;
  guint n = player->n_devices;

  n_calls = &player->n_calls;
  for (guint i = 0; i < N_MESSAGES; i++)
    {
      send_one (player, (player->own + 1) % n, i);
      take_one (player, (player->own + n - 1) % n, i);
    }
  flush (player);
  return NULL;
}

/* n devices go around; the number of calls by their threads. */
static guint
count_calls (guint n, gsize bytes)
{
  Player players[N_CORES + 1];
  PsTransport *transport = players_open (players, n, bytes);
  guint n_all = 0;

  for (guint i = 0; i < n; i++)
    players[i].thread = g_thread_new ("device", pass_on, &players[i]);
  for (guint i = 0; i < n; i++)
    {
      g_thread_join (players[i].thread);
      n_all += (guint)players[i].n_calls;
    }
  transport->class->close (transport);
  g_assert_cmpint (n_overlaps, ==, 0);
  return n_all;
}

/* Threads of devices call MPI where each has a core, and else only the engine's; no two at a time. */
static void
test_callers (void)
{
  static const gsize bytes[] = { 64, 9000 };

  for (guint i = 0; i < G_N_ELEMENTS (bytes); i++)
    {
      g_assert_cmpuint (count_calls (N_CORES, bytes[i]), >, 0);
      g_assert_cmpuint (count_calls (N_CORES + 1, bytes[i]), ==, 0);
    }
}

/* Takes one message of the last device. */
static gpointer
take_from_last (gpointer data)
{
  Player *player = data;

  n_calls = &player->n_calls;
  take_one (player, player->n_devices - 1, player->n_messages++);
  return NULL;
}

static void
await_calls (Player *player)
{
  const gint64 until_ns = ps_clock_now () + TIMEOUT_NS / 6;

  g_atomic_int_set (&player->n_calls, 0);
  while (g_atomic_int_get (&player->n_calls) == 0 && ps_clock_now () < until_ns)
    g_usleep (100);
  g_assert_cmpint (g_atomic_int_get (&player->n_calls), >, 0);
}

/* The first of three that wait looks at MPI. Once its message and the second one's have come, the third one does. */
static void
test_watchers (void)
{
  Player players[N_CORES];
  PsTransport *transport = players_open (players, N_CORES, 64);

  for (guint round = 0; round < N_ROUNDS; round++)
    {
      for (guint i = 0; i < 3; i++)
        {
          players[i].thread = g_thread_new ("device", take_from_last, &players[i]);
          if (i == 0)
            await_calls (&players[0]);
          else
            g_usleep (1000);
        }
      for (guint i = 0; i < 3; i++)
        {
          if (i == 2)
            await_calls (&players[2]);
          send_one (&players[3], i, round);
          if (i > 0)
            g_thread_join (players[i].thread);
        }
      g_thread_join (players[0].thread);
    }
  flush (&players[3]);
  transport->class->close (transport);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/mpi-calls/callers", test_callers);
  g_test_add_func ("/mpi-calls/watchers", test_watchers);
  return g_test_run ();
}

/* mpi-ranks.c - one process of several that cli/processes.sh starts with mpirun: runs a scene over the mpi transport
 * and says on stderr what went wrong.
 *
 *   mpi-ranks SCENE DEVICES   as many processes as DEVICES, or d times as many for d replicas */
#include "clock.h"
#include "host-rig.h"
#include "run/crew.h"
#include "run/transports.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define SHORT_BYTES ((gsize)100)
#define LONG_BYTES ((gsize)100000)
#define N_MESSAGES 200                        /* from each device to each other one */
#define WAIT_NS G_GINT64_CONSTANT (200000000) /* a rank reports its error so much later than the rank before */

typedef struct {
  PsCrew *crew;
  HostDevice device;
  PsTransport *transport;
  guint own, n_devices;
  guint replica, n_replicas;
} Member;

static gboolean exchange (gpointer data, guint device, gconstpointer mine, gsize n_bytes, gpointer all, GError **error)
{
  return ps_crew_exchange (((Member *)data)->crew, 0, mine, n_bytes, all, error);
}

static void fail (gpointer data, GError *error)
{
  ps_crew_fail (((Member *)data)->crew, error);
}

static void abort_transport (gpointer data)
{
  PsTransport *transport = data;

  transport->class->abort (transport);
}

static gboolean differs (GError **error, const char *what)
{
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s is wrong", what);
  return FALSE;
}

/* Storm: everybody sends to everybody, in an order of its own, and receives in another. */

static PsOp message_name (guint i, guint from)
{
  return (PsOp){ .kind = PS_OP_F, .stage = (guint16)from, .microbatch = i };
}

static guint8 content (guint i, guint from, guint to, gsize at)
{
  return (guint8)(i * 7 + from * 31 + to * 53 + at);
}

static gboolean send_one (Member *member, guint i, guint to, GError **error)
{
  PsTensor *tensor = host_tensor_new (&member->device.base);

  for (gsize at = 0; at < tensor->bytes; at++)
    ((guint8 *)tensor->data)[at] = content (i, member->own, to, at);
  return member->transport->class->send (member->transport, member->own, to, message_name (i, member->own), tensor, 0,
                                         error);
}

static gboolean take_one (Member *member, guint i, guint from, GError **error)
{
  PsTransferTimes times;
  PsTensor *tensor = member->transport->class->wait (member->transport, member->own, from, message_name (i, from),
                                                     &member->device.base, &times, error);
  gboolean right = tensor != NULL;

  if (tensor == NULL)
    return FALSE;
  for (gsize at = 0; at < tensor->bytes && right; at++)
    right = ((const guint8 *)tensor->data)[at] == content (i, from, member->own, at);
  right = right && times.start_ns <= times.end_ns && times.end_ns <= ps_clock_now ();
  host_tensor_free (tensor);
  return right || differs (error, "message");
}

/* All (message, peer) pairs in random order. */
static GArray *shuffled (const Member *member, guint64 seed)
{
  GRand *random = g_rand_new_with_seed ((guint32)seed);
  GArray *pairs = g_array_new (FALSE, FALSE, sizeof (guint));
  guint n = N_MESSAGES * member->n_devices;

  for (guint i = 0; i < n; i++)
    g_array_append_val (pairs, i);
  for (guint i = n; i-- > 1;) {
    guint other = (guint)g_rand_int_range (random, 0, (gint32)i + 1), kept = g_array_index (pairs, guint, i);

    g_array_index (pairs, guint, i) = g_array_index (pairs, guint, other);
    g_array_index (pairs, guint, other) = kept;
  }
  g_rand_free (random);
  return pairs;
}

/* Every second one of what comes. */
static gboolean announce (Member *member, const GArray *in, guint first, GError **error)
{
  for (guint i = first; i < in->len; i += 2) {
    guint pair = g_array_index (in, guint, i), from = pair / N_MESSAGES;

    if (!member->transport->class->receive (member->transport, member->own, from,
                                            message_name (pair % N_MESSAGES, from), error))
      return FALSE;
  }
  return TRUE;
}

static gboolean storm (Member *member, GError **error)
{
  g_autoptr (GArray) out = shuffled (member, member->own + 1), in = shuffled (member, member->own + 100);
  gboolean fine = announce (member, in, 0, error);

  for (guint i = 0; i < out->len && fine; i++)
    fine = send_one (member, g_array_index (out, guint, i) % N_MESSAGES, g_array_index (out, guint, i) / N_MESSAGES,
                     error);
  fine = fine && announce (member, in, 1, error);
  for (guint i = in->len; i-- > 0 && fine;)
    fine = take_one (member, g_array_index (in, guint, i) % N_MESSAGES, g_array_index (in, guint, i) / N_MESSAGES,
                     error);
  return fine && member->transport->class->flush (member->transport, member->own, error);
}

/* Sum: replica r gives (i mod 1000) (r + 1) + d; n of these add up to (i mod 1000) n (n + 1) / 2 + n d, exactly. */
static gboolean sum_length (Member *member, gsize length, GError **error)
{
  g_autofree float *values = g_new (float, length);
  guint n = member->n_replicas, weight = n * (n + 1) / 2;

  for (gsize i = 0; i < length; i++)
    values[i] = (float)(i % 1000 * (member->replica + 1) + member->own);
  if (!member->transport->class->sum (member->transport, member->own, PS_CIRCLE_WEIGHTS, PS_SUM_WHOLE, values, length,
                                      error))
    return FALSE;
  for (gsize i = 0; i < length; i++)
    if (values[i] != (float)(i % 1000 * weight + n * member->own))
      return differs (error, "sum");
  return TRUE;
}

/* Of numbers whose sums depend on the order of adding, all replicas get the same. */
static gboolean sum_alike (Member *member, GError **error)
{
  enum { LENGTH = 5003 };
  g_autofree float *values = g_new (float, LENGTH),
                   *all = g_new (float, LENGTH * member->n_replicas * member->n_devices);
  GRand *random = g_rand_new_with_seed (member->replica * 1000 + member->own);

  for (gsize i = 0; i < LENGTH; i++)
    values[i] = (float)g_rand_double_range (random, -1, 1);
  g_rand_free (random);
  if (!member->transport->class->sum (member->transport, member->own, PS_CIRCLE_WEIGHTS, PS_SUM_WHOLE, values, LENGTH,
                                      error)
      || !ps_crew_exchange (member->crew, 0, values, LENGTH * sizeof *values, all, error))
    return FALSE;
  return memcmp (all + (gsize)member->own * LENGTH, values, LENGTH * sizeof *values) == 0 || differs (error, "bit");
}

static gboolean sum (Member *member, GError **error)
{
  static const gsize lengths[] = { 1, 2, 50, 1023, 1024, 1025, 70001, 5000003 };

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    if (!sum_length (member, lengths[i], error))
      return FALSE;
  return sum_alike (member, error);
}

/* Sum strike: one replica gives up while the others add. */
static gboolean sum_strike (Member *member, GError **error)
{
  if (member->replica != 1)
    return sum_length (member, 3000000, error);
  g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "on strike");
  return FALSE;
}

/* Lost: the last device waits for what nobody sends, the others for the last device. */
static gboolean lost (Member *member, GError **error)
{
  PsOp op = { .kind = PS_OP_F, .stage = 3, .microbatch = 7 };
  PsTransferTimes times;
  gint64 moment_ns;

  if (member->own + 1 < member->n_devices)
    return ps_crew_meet (member->crew, 0, &moment_ns, error);
  return member->transport->class->receive (member->transport, member->own, 0, op, error)
         && member->transport->class->wait (member->transport, member->own, 0, op, &member->device.base, &times, error)
                != NULL;
}

/* Rivals: rank 0 stops, and the others give up so that their turns to report it come at one moment. */
static gboolean rivals (Member *member, GError **error)
{
  g_autofree gint64 *begin_ns = g_new (gint64, member->n_devices);
  gint64 moment_ns = ps_clock_now ();

  if (!ps_crew_exchange (member->crew, 0, &moment_ns, sizeof moment_ns, begin_ns, error))
    return FALSE;
  ps_clock_sleep_until (begin_ns[0] + (member->own > 0 ? SECOND_NS - member->own * WAIT_NS : WAIT_NS));
  if (member->own > 0)
    return ps_refuse (error, PS_ERROR_IO, "gave up");
  raise (SIGSTOP);
  return ps_crew_meet (member->crew, 0, &moment_ns, error);
}

/* Strike: one gives up, while another waits for a message and sends one that nobody takes. */
static gboolean strike (Member *member, GError **error)
{
  PsTransferTimes times;

  if (member->own == 1) {
    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "on strike");
    return FALSE;
  }
  return send_one (member, 0, 1, error)
         && member->transport->class->receive (member->transport, member->own, 1, message_name (0, 1), error)
         && member->transport->class->wait (member->transport, member->own, 1, message_name (0, 1),
                                            &member->device.base, &times, error)
                != NULL;
}

static const struct {
  const char *name;
  gboolean (*run_member) (Member *member, GError **error);
  gsize bytes;
  gint64 timeout_ns;
} scenes[] = {
  { "storm-short", storm, SHORT_BYTES, 60 * SECOND_NS }, { "storm-long", storm, LONG_BYTES, 60 * SECOND_NS },
  { "sum", sum, SHORT_BYTES, 60 * SECOND_NS },           { "sum-strike", sum_strike, SHORT_BYTES, 60 * SECOND_NS },
  { "lost", lost, LONG_BYTES, 2 * SECOND_NS },           { "strike", strike, LONG_BYTES, 60 * SECOND_NS },
  { "rivals", rivals, SHORT_BYTES, 60 * SECOND_NS },
};

static gboolean run_member (Member *member, guint scene, GError **error)
{
  PsTransportGroup group = { .data = member, .exchange = exchange, .fail = fail };
  PsTransportSetting setting = { .n_devices = member->n_devices,
                                 .message_bytes = member->device.bytes = scenes[scene].bytes,

                                 .timeout_ns = scenes[scene].timeout_ns,
                                 .first = member->own,
                                 .n_here = 1,
                                 .pipeline = member->replica,
                                 .n_replicas = member->n_replicas,
                                 .group = &group };
  GError *failure = NULL;

  member->transport = ps_transport_find ("mpi", NULL)->open (&setting, error);
  if (member->transport == NULL)
    return FALSE;
  ps_crew_on_failure (member->crew, abort_transport, member->transport);
  if (!member->transport->class->join (member->transport, member->own, &member->device.base, &failure)
      || !scenes[scene].run_member (member, &failure))
    ps_crew_fail (member->crew, failure);
  ps_crew_on_failure (member->crew, NULL, NULL);
  member->transport->class->close (member->transport);
  return ps_crew_check (member->crew, error);
}

/* Apart: each rank has what mpirun said of it, and no clock differs much where all are on one machine. */
static void check_place (const PsProcesses *processes, guint n_local)
{
  g_assert_cmpuint (processes->n_local, ==, n_local);
  g_assert_cmpuint (processes->local_rank, ==, processes->rank % n_local);
  for (guint i = 0; i < processes->n_ranks; i++) {
    gint64 offset_ns = processes->clock_offset_ns[i];

    g_assert_true (i < n_local ? offset_ns == 0 : ABS (offset_ns) < SECOND_NS);
  }
}

static int report (const GError *error, gpointer unused)
{
  g_printerr ("mpi-ranks: %s\n", error->message);
  return 1;
}

static gboolean run (const char *name, guint n_devices, GError **error)
{
  g_autoptr (PsCrew) crew = NULL;
  PsProcesses *processes;
  Member member;
  guint scene = 0;

  if (!ps_processes_join (&processes, report, NULL, error))
    return FALSE;
  if (g_str_equal (name, "apart"))
    check_place (processes, n_devices);
  while (scene < G_N_ELEMENTS (scenes) && !g_str_equal (scenes[scene].name, name))
    scene++;
  if (scene < G_N_ELEMENTS (scenes)) {
    crew = ps_crew_new (1, processes, 0);
    member = (Member){ .crew = crew,
                       .device = { .base.class = &host_class },
                       .own = processes->rank % n_devices,
                       .n_devices = n_devices,
                       .replica = processes->rank / n_devices,
                       .n_replicas = processes->n_ranks / n_devices };
    if (!run_member (&member, scene, error))
      return FALSE;
  }
  ps_processes_part (processes, NULL);
  return TRUE;
}

int main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;

  g_assert (argc == 3);
  return run (argv[1], (guint)atoi (argv[2]), &error) ? 0 : report (error, NULL);
}

/* mpi-transport.c - the class "mpi": messages and sums by MPI between processes, and inside one.
 *
 * A message is two messages of MPI with one tag: when it was sent and when it may be used, and then its bytes, if it
 * has any. Its name and its devices make the tag, so MPI matches it with its receive, and messages of one name arrive
 * in order. Tensors that are not in the host's memory travel by way of it. */
#include "mpi-process.h"

#include "clock.h"
#include "train/devices.h"
#include "module.h"
#include "run/transports.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

/* Receives without a message that a look tests. Messages come about in the order of their receives. */
#define MOST_MISSING 4

/* The greatest names, where the setting does not say it. */
#define MOST_STAGES 256
#define MOST_SLICES 8

typedef struct {
  gint64 sent_ns; /* by the clock of all: when the sender handed the message over */
  gint64 due_ns;  /* and when it may be used */
  gint64 late_ns; /* how much earlier it should have been sent */
} Times;

/* A message that is being sent, or a receive. */
typedef struct {
  PsMessageName name; /* its peer counts over all pipelines */
  Times times;
  PsTensor *tensor;        /* freed with the message by its device's class */
  void *copy;              /* its bytes in the host's memory; NULL: they are there already */
  MPI_Request requests[2]; /* for times and bytes */
  gint64 came_ns;          /* a receive: when both were here, by the clock of this process; 0: they are not */
} Message;

/* A device of this process. */
typedef struct {
  guint own; /* its number over all pipelines */
  PsSumEnd end;
  pthread_mutex_t lock;
  GQueue receives; /* of Message that no thread waits for, oldest first; under the lock */
  GQueue sends;    /* of Message, oldest first; of the device's thread */
  float *in;       /* [n_in] the numbers that the latest sums have taken */
  gsize n_in;
} Port;

typedef struct {
  PsTransport base;
  PsTransportSetting setting;
  int greatest_tag;
  PsMpiUser user;
  Port *ports; /* [n_here] */
} MpiTransport;

static Port *port_at (const PsTransport *base, guint device)
{
  const MpiTransport *transport = (const MpiTransport *)base;

  g_assert (device >= transport->setting.first && device - transport->setting.first < transport->setting.n_here);
  return &transport->ports[device - transport->setting.first];
}

/* The number of a device among the devices of all pipelines. */
static guint number_of (const PsTransport *base, guint device)
{
  const PsTransportSetting *setting = &((const MpiTransport *)base)->setting;

  return setting->pipeline * setting->n_devices + device;
}

/* Devices r n_here .. (r + 1) n_here - 1 belong to the process of rank r. */
static int rank_of (const MpiTransport *transport, guint number)
{
  return (int)(number / transport->setting.n_here);
}

/* B and BW hand on the same thing. */
static gboolean find_tag (const MpiTransport *transport, guint from, guint to, PsOp op, int *tag, GError **error)
{
  const PsTransportSetting *setting = &transport->setting;
  const guint n_stages = setting->n_stages > 0 ? setting->n_stages : MOST_STAGES;
  const guint n_slices = setting->n_slices > 0 ? setting->n_slices : MOST_SLICES;
  const guint kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;
  guint64 name = op.microbatch;

  g_assert (op.stage < n_stages && op.slice < n_slices);

  name = ((name * n_slices + op.slice) * n_stages + op.stage) * PS_N_OP_KINDS + kind;
  name = (name * setting->n_here + from % setting->n_here) * setting->n_here + to % setting->n_here + PS_MPI_FIRST_TAG;
  *tag = (int)name;
  return name <= (guint64)transport->greatest_tag
         || ps_refuse (error, PS_ERROR_UNAVAILABLE, "mpi transport: too many messages: MPI has tags up to %d",
                       transport->greatest_tag);
}

/* A moment for ps_mpi_wait. */
static gint64 deadline (const MpiTransport *transport)
{
  return transport->setting.timeout_ns > 0 ? ps_clock_now () + transport->setting.timeout_ns : 0;
}

/* Errors */

static gboolean is_aborted (const MpiTransport *transport)
{
  return g_atomic_int_get (&transport->user.stopped);
}

/* A wait has ended without its message: cause (taken) is the error of MPI, NULL if there is none. Sums have no op of
 * their own. */
static gboolean fail_wait (const MpiTransport *transport, guint own, guint peer, PsOp op, gboolean sends, GError *cause,
                           GError **error)
{
  const guint n = transport->setting.n_devices;
  const double seconds = (double)transport->setting.timeout_ns / 1e9;
  char name[48] = "its share of a sum";

  if (cause != NULL) {
    g_propagate_error (error, cause);
    return FALSE;
  }
  if (is_aborted (transport))
    return ps_refuse_aborted (error);
  if (op.kind != PS_OP_O)
    ps_op_format (op, name);
  if (sends)
    return ps_refuse (error, PS_ERROR_IO, "device %u: waited %g s for device %u of rank %d to take %s", own % n,
                      seconds, peer % n, rank_of (transport, peer), name);
  return ps_refuse (error, PS_ERROR_IO, "device %u: waited %g s for %s from device %u of rank %d", own % n, seconds,
                    name, peer % n, rank_of (transport, peer));
}

/* Messages */

static void message_free (Message *message)
{
  if (message->tensor != NULL)
    message->tensor->device->class->tensor_free (message->tensor);
  g_free (message->copy);
  g_free (message);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Message, message_free)

static Message *message_new (guint peer, PsOp op, PsTensor *tensor)
{
  Message *message = g_new0 (Message, 1);

  *message = (Message){ .name = { peer, op }, .tensor = tensor, .requests = { MPI_REQUEST_NULL, MPI_REQUEST_NULL } };
  return message;
}

static void *bytes_of (const Message *message)
{
  return message->copy != NULL ? message->copy : message->tensor->data;
}

/* Frees the messages that have been sent, up to the first one that has not. By the device's thread. */
static gboolean free_sent (Port *port, GError **error)
{
  Message *oldest;
  gboolean done = TRUE, fine = TRUE;

  while (fine && done && (oldest = g_queue_peek_head (&port->sends)) != NULL) {
    fine = ps_mpi_test (oldest->requests, 2, &done, error);
    if (done)
      message_free (g_queue_pop_head (&port->sends));
  }
  return fine;
}

/* Notes which messages have come while their receivers were busy, as far as the first few that have not. A receiver
 * hears of errors itself. */
static void look (gpointer data)
{
  MpiTransport *transport = data;

  for (guint i = 0; i < transport->setting.n_here; i++) {
    Port *port = &transport->ports[i];
    guint n_missing = 0;

    pthread_mutex_lock (&port->lock);
    for (const GList *link = port->receives.head; link != NULL && n_missing < MOST_MISSING; link = link->next) {
      Message *message = link->data;
      gboolean done = message->came_ns > 0;

      if (!done && ps_mpi_test (message->requests, 2, &done, NULL) && done)
        message->came_ns = ps_clock_now ();
      n_missing += !done;
    }
    pthread_mutex_unlock (&port->lock);
  }
}

/* The class's hooks */

/* Name and version; the rest of the text says who has built it. */
static char *mpi_libraries (void)
{
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length;

  MPI_Get_library_version (text, &length); /* may be called at any time, by any thread */
  text[strcspn (text, ",\r\n")] = '\0';
  return g_strdup (text);
}

static const PsTransportClass mpi_class;

static PsTransport *mpi_open (const PsTransportSetting *setting, GError **error)
{
  int greatest_tag;

  if (setting->message_bytes > G_MAXINT)
    return ps_refuse_null (error, PS_ERROR_UNAVAILABLE,
                           "mpi transport: messages of %" G_GSIZE_FORMAT " B; MPI takes at most %d",
                           setting->message_bytes, G_MAXINT);
  if (!ps_mpi_start (&greatest_tag, error))
    return NULL;
  MpiTransport *transport = g_new0 (MpiTransport, 1);
  *transport = (MpiTransport){ .base.class = &mpi_class,
                               .setting = *setting,
                               .greatest_tag = greatest_tag,
                               .user = { .look = look, .data = transport, .n_devices = setting->n_here },
                               .ports = g_new0 (Port, setting->n_here) };
  for (guint i = 0; i < setting->n_here; i++) {
    transport->ports[i].own = number_of (&transport->base, setting->first + i);
    pthread_mutex_init (&transport->ports[i].lock, NULL);
  }
  ps_mpi_add_user (&transport->user);
  return &transport->base;
}

/* Gives up what is left of all ports. FALSE: MPI may still read from their memory and write there. */
static gboolean give_up_all (MpiTransport *transport)
{
  g_autoptr (GArray) requests = g_array_new (FALSE, FALSE, sizeof (MPI_Request));
  guint n_receives = 0;

  for (guint sends = 0; sends <= 1; sends++)
    for (guint i = 0; i < transport->setting.n_here; i++) {
      const GQueue *queue = sends ? &transport->ports[i].sends : &transport->ports[i].receives;

      for (const GList *link = queue->head; link != NULL; link = link->next)
        g_array_append_vals (requests, ((const Message *)link->data)->requests, 2);
      n_receives = sends ? n_receives : requests->len;
    }
  return ps_mpi_give_up ((MPI_Request *)(gpointer)requests->data, n_receives, requests->len);
}

static void mpi_close (PsTransport *base)
{
  MpiTransport *transport = (MpiTransport *)base;

  if (transport == NULL)
    return;
  ps_mpi_remove_user (&transport->user);
  if (!give_up_all (transport))
    return; /* the process is about to end */
  for (guint i = 0; i < transport->setting.n_here; i++) {
    Port *port = &transport->ports[i];

    g_queue_clear_full (&port->receives, (GDestroyNotify)message_free);
    g_queue_clear_full (&port->sends, (GDestroyNotify)message_free);
    pthread_mutex_destroy (&port->lock);
    g_free (port->in);
    g_free (port->end.staged);
  }
  g_free (transport->ports);
  g_free (transport);
}

static gboolean mpi_join (PsTransport *base, guint at, PsDevice *device, GError **error)
{
  prctl (PR_SET_TIMERSLACK, 1); /* naps are shorter than the usual slack */
  port_at (base, at)->end.device = device;
  return TRUE;
}

/* Bytes of other memory than the host's are read at once. */
static gboolean mpi_send (PsTransport *base, guint from, guint to, PsOp op, PsTensor *tensor, gint64 delay_ns,
                          GError **error)
{
  MpiTransport *transport = (MpiTransport *)base;
  Port *port = port_at (base, from);
  const gint64 now_ns = ps_clock_now ();
  g_autoptr (Message) message = message_new (number_of (base, to), op, tensor);
  int rank = rank_of (transport, message->name.peer), tag;

  g_assert (tensor->bytes <= transport->setting.message_bytes);

  message->times.sent_ns = now_ns + transport->setting.clock_offset_ns;
  message->times.due_ns = message->times.sent_ns + delay_ns;
  message->times.late_ns = tensor->ready_ns > 0 ? now_ns - tensor->ready_ns : 0;
  if (is_aborted (transport))
    return ps_refuse_aborted (error);
  if (tensor->bytes > 0 && tensor->device->class->read != NULL) {
    message->copy = g_malloc (tensor->bytes);
    if (!tensor->device->class->read (tensor, message->copy, error))
      return FALSE;
  }
  if (!free_sent (port, error) || !find_tag (transport, port->own, message->name.peer, op, &tag, error)
      || !ps_mpi_send (&message->times, sizeof message->times, rank, tag, &message->requests[0], error))
    return FALSE;
  Message *under_way = g_steal_pointer (&message);
  g_queue_push_tail (&port->sends, under_way);
  return tensor->bytes == 0
         || ps_mpi_send (bytes_of (under_way), tensor->bytes, rank, tag, &under_way->requests[1], error);
}

static gboolean mpi_receive (PsTransport *base, guint at, guint from, PsOp op, GError **error)
{
  MpiTransport *transport = (MpiTransport *)base;
  Port *port = port_at (base, at);
  const PsDeviceClass *class = port->end.device->class;
  const guint peer = number_of (base, from);
  int rank = rank_of (transport, peer), tag;
  char name[48];

  if (is_aborted (transport))
    return ps_refuse_aborted (error);
  if (!find_tag (transport, peer, port->own, op, &tag, error))
    return FALSE;
  PsTensor *tensor = class->tensor_new (port->end.device);
  if (tensor == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "stage %u: no memory to receive %s", op.stage,
                      ps_op_format (op, name));
  Message *message = message_new (peer, op, tensor);
  if (tensor->bytes > 0 && class->write != NULL)
    message->copy = g_malloc (tensor->bytes);
  pthread_mutex_lock (&port->lock);
  g_queue_push_tail (&port->receives, message);
  gboolean begun = ps_mpi_receive (&message->times, sizeof message->times, rank, tag, &message->requests[0], error)
                   && (tensor->bytes == 0
                       || ps_mpi_receive (bytes_of (message), tensor->bytes, rank, tag, &message->requests[1], error));
  pthread_mutex_unlock (&port->lock);
  return begun;
}

/* Sleeps until a message may be used, or the run is aborted. */
static gboolean await_due (const MpiTransport *transport, gint64 due_ns, GError **error)
{
  while (ps_clock_now () < due_ns && !is_aborted (transport))
    ps_clock_sleep_until (MIN (due_ns, ps_clock_now () + PS_MPI_LONGEST_NAP_NS));
  return !is_aborted (transport) || ps_refuse_aborted (error);
}

/* The message, which has come; NULL: it has not in time. */
static Message *await_message (MpiTransport *transport, Port *port, guint peer, PsOp op, GError **error)
{
  const guint n = transport->setting.n_devices;
  GError *cause = NULL;

  pthread_mutex_lock (&port->lock);
  Message *message = ps_message_take (&port->receives, peer, op);
  pthread_mutex_unlock (&port->lock);
  if (message == NULL && !is_aborted (transport))
    return ps_refuse_unannounced (port->own % n, peer % n, op, error);
  if (message == NULL) {
    ps_refuse_aborted (error);
    return NULL;
  }
  if (message->came_ns > 0)
    return message;
  if (ps_mpi_wait (message->requests, 2, deadline (transport), &transport->user, &cause)) {
    message->came_ns = ps_clock_now ();
    return message;
  }
  pthread_mutex_lock (&port->lock);
  g_queue_push_tail (&port->receives, message); /* MPI may write to it until the transport is closed */
  pthread_mutex_unlock (&port->lock);
  fail_wait (transport, port->own, peer, op, FALSE, cause, error);
  return NULL;
}

static PsTensor *mpi_wait (PsTransport *base, guint at, guint from, PsOp op, PsDevice *into, PsTransferTimes *times,
                           GError **error)
{
  MpiTransport *transport = (MpiTransport *)base;
  const gint64 called_ns = ps_clock_now (), offset_ns = transport->setting.clock_offset_ns;
  g_autoptr (Message) message = await_message (transport, port_at (base, at), number_of (base, from), op, error);

  if (message == NULL)
    return NULL;
  PsTensor *tensor = message->tensor;
  const gint64 ready_ns = MAX (message->came_ns, message->times.due_ns - offset_ns);
  if (!await_due (transport, ready_ns, error)
      || (message->copy != NULL && !into->class->write (tensor, message->copy, error)))
    return NULL;
  /* A message that was there before anybody asked is not longer on its way because its receiver is busy. */
  tensor->ready_ns = MAX (message->came_ns, ready_ns - message->times.late_ns);
  *times = (PsTransferTimes){ .start_ns = message->times.sent_ns - offset_ns,
                              .end_ns = ready_ns >= called_ns ? ps_clock_now () : ready_ns };
  return g_steal_pointer (&message->tensor);
}

static gboolean mpi_flush (PsTransport *base, guint from, GError **error)
{
  MpiTransport *transport = (MpiTransport *)base;
  Port *port = port_at (base, from);
  const gint64 until_ns = deadline (transport);
  GError *cause = NULL;
  Message *oldest;

  while ((oldest = g_queue_peek_head (&port->sends)) != NULL) {
    if (!ps_mpi_wait (oldest->requests, 2, until_ns, &transport->user, &cause))
      return fail_wait (transport, port->own, oldest->name.peer, oldest->name.op, TRUE, cause, error);
    message_free (g_queue_pop_head (&port->sends));
  }
  return !is_aborted (transport) || ps_refuse_aborted (error);
}

static void mpi_abort (PsTransport *base)
{
  g_atomic_int_set (&((MpiTransport *)base)->user.stopped, TRUE);
}

/* PsPassHook: sends one share and receives another one. Messages to other devices may be under way meanwhile: these may
 * wait for this sum before they take them. The memory is the caller's, so after a failure MPI gives it back. */
static gboolean pass_on (PsTransport *base, const PsPass *pass, GError **error)
{
  MpiTransport *transport = (MpiTransport *)base;
  Port *port = port_at (base, pass->own - transport->setting.pipeline * transport->setting.n_devices);
  MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
  const int next = rank_of (transport, pass->next), previous = rank_of (transport, pass->previous);
  GError *cause = NULL;
  gboolean came;
  int tag;

  if (is_aborted (transport))
    return ps_refuse_aborted (error);
  if (pass->adds && port->n_in < pass->n_taken)
    port->in = g_renew (float, port->in, pass->n_taken);
  port->n_in = MAX (port->n_in, pass->adds ? pass->n_taken : 0);
  float *taken = pass->adds ? port->in : pass->taken;
  if (find_tag (transport, pass->previous, pass->own, ps_sum_message, &tag, &cause)
      && ps_mpi_receive (taken, pass->n_taken * sizeof *taken, previous, tag, &requests[0], &cause)
      && find_tag (transport, pass->own, pass->next, ps_sum_message, &tag, &cause)
      && ps_mpi_send (pass->given, pass->n_given * sizeof *taken, next, tag, &requests[1], &cause)
      && ps_mpi_wait (requests, 2, deadline (transport), &transport->user, &cause)) {
    for (gsize i = 0; pass->adds && i < pass->n_taken; i++)
      pass->taken[i] += taken[i];
    return TRUE;
  }
  came = requests[0] == MPI_REQUEST_NULL || (ps_mpi_test (requests, 1, &came, NULL) && came);
  fail_wait (transport, pass->own, came ? pass->next : pass->previous, ps_sum_message, came, cause, error);
  ps_mpi_give_up (requests, 1, 2);
  return FALSE;
}

static gboolean mpi_sum (PsTransport *base, guint at, PsCircleKind kind, PsSumHalves halves, float *values, gsize n,
                         GError **error)
{
  const PsCircle circle = ps_circle_of (&((MpiTransport *)base)->setting, at, kind);

  return ps_circle_sum (base, &circle, pass_on, &port_at (base, at)->end, halves, values, n, error);
}

static const PsTransportClass mpi_class = {
  .name = "mpi",
  .description = "MPI between processes",
  .spans_processes = TRUE,
  .splits_sums = TRUE,
  .libraries = mpi_libraries,
  .open = mpi_open,
  .close = mpi_close,
  .join = mpi_join,
  .send = mpi_send,
  .receive = mpi_receive,
  .wait = mpi_wait,
  .flush = mpi_flush,
  .sum = mpi_sum,
  .abort = mpi_abort,
};

const PsTransportClass *ps_mpi_transport_class (void)
{
  return &mpi_class;
}

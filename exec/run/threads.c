/* threads.c - tensors between the threads of one process, and sums over them.
 *
 * Every device has a port. It holds the messages on their way to the device, and the tensors that come back to it as a
 * sender. A message refers to the sender's tensor, and the receiver copies it from there. The tensor then goes back to
 * the sender, whose thread frees it. So a send never waits, and no thread locks two ports at a time. */
#include "clock.h"
#include "train/devices.h"
#include "run/transports.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

typedef struct {
  PsMessageName name;   /* its peer is the sender */
  PsTensor *tensor;     /* the sender's; NULL: an announced receive, or numbers of a sum */
  const float *numbers; /* of a sum: the sender's */
  gboolean is_read;     /* the receiver has read these; under the lock of the sender's port */
  gint64 sent_ns;
  gint64 ready_ns; /* when the receiver may use it */
  gboolean copied; /* it has bytes and came without delay: its copy is the transfer */
  gint64 due_ns;   /* and when it might if its sender had been in time */
} Message;

/* A device. */
typedef struct {
  pthread_mutex_t lock;   /* guards what follows, up to returned */
  pthread_cond_t changed; /* the one thread that uses the port may wait here */
  GQueue arrived;         /* of Message, oldest first: nearly always the first one is wanted */
  GQueue announced;       /* of Message: receives before their wait; only names count */
  guint n_untaken;        /* tensors that this device has sent and no receiver has copied */
  GPtrArray *returned;    /* the device's own tensors, copied by their receivers */

  PsSumEnd end;
  float *shown; /* the numbers of this device, for sums in the devices' queues */
} Port;

typedef struct {
  PsTransport base;
  PsTransportSetting setting;
  guint n;      /* devices of all pipelines */
  gint aborted; /* atomic */
  Port *port;   /* [n] */
} ThreadsTransport;

static void tensor_free (PsTensor *tensor)
{
  tensor->device->class->tensor_free (tensor);
}

static void message_free (Message *message)
{
  if (message->tensor != NULL)
    tensor_free (message->tensor);
  g_free (message);
}

static PsTransport *threads_open (const PsTransportSetting *setting, GError **error)
{
  ThreadsTransport *transport = g_new0 (ThreadsTransport, 1);

  transport->base.class = &ps_threads_transport;
  transport->setting = *setting;
  transport->n = setting->n_devices * MAX (setting->n_replicas, 1) * MAX (setting->n_tensor, 1);
  transport->port = g_new0 (Port, transport->n);
  for (guint i = 0; i < transport->n; i++) {
    ps_clock_condition_init (&transport->port[i].changed);
    pthread_mutex_init (&transport->port[i].lock, NULL);
    transport->port[i].returned = g_ptr_array_new_with_free_func ((GDestroyNotify)tensor_free);
  }
  return &transport->base;
}

static void threads_close (PsTransport *base)
{
  ThreadsTransport *transport = (ThreadsTransport *)base;

  if (transport == NULL)
    return;
  for (guint i = 0; i < transport->n; i++) {
    Port *port = &transport->port[i];

    g_queue_clear_full (&port->arrived, (GDestroyNotify)message_free);
    g_queue_clear_full (&port->announced, g_free);
    g_ptr_array_unref (port->returned);
    g_free (port->end.staged);
    pthread_cond_destroy (&port->changed);
    pthread_mutex_destroy (&port->lock);
  }
  g_free (transport->port);
  g_free (transport);
}

static const PsTransportSetting *setting_of (const PsTransport *transport)
{
  return &((const ThreadsTransport *)transport)->setting;
}

static gboolean is_aborted (PsTransport *transport)
{
  return g_atomic_int_get (&((ThreadsTransport *)transport)->aborted);
}

static Port *port_lock (PsTransport *transport, guint device)
{
  Port *port = &((ThreadsTransport *)transport)->port[device];

  pthread_mutex_lock (&port->lock);
  return port;
}

static void port_unlock (Port *port)
{
  pthread_mutex_unlock (&port->lock);
}

/* Sleeps on the locked port until it changes or until_ns has come (0: no limit). FALSE: until_ns has come. */
static gboolean port_sleep (Port *port, gint64 until_ns)
{
  struct timespec until = ps_clock_timespec (until_ns);

  if (until_ns == 0)
    return pthread_cond_wait (&port->changed, &port->lock) == 0;
  return pthread_cond_timedwait (&port->changed, &port->lock, &until) != ETIMEDOUT;
}

static gint64 timeout_moment (PsTransport *transport)
{
  gint64 timeout_ns = setting_of (transport)->timeout_ns;

  return timeout_ns > 0 ? ps_clock_now () + timeout_ns : 0;
}

/* "device 1: waited 60 s for WHAT", unless the run is aborted. */
static gboolean fail_wait (PsTransport *transport, guint own, const char *what, GError **error)
{
  const PsTransportSetting *setting = setting_of (transport);

  if (is_aborted (transport))
    return ps_refuse_aborted (error);
  return ps_refuse (error, PS_ERROR_IO, "device %u: waited %g s for %s", own % setting->n_devices,
                    (double)setting->timeout_ns / 1e9, what);
}

static void deliver (PsTransport *transport, guint to, Message *message)
{
  Port *port = port_lock (transport, to);
  const gint64 now_ns = ps_clock_now ();

  message->ready_ns = MAX (message->ready_ns, now_ns);
  message->due_ns = MAX (message->due_ns, now_ns);
  g_queue_push_tail (&port->arrived, message);
  pthread_cond_signal (&port->changed);
  port_unlock (port);
}

static gboolean threads_send (PsTransport *transport, guint from, guint to, PsOp op, PsTensor *tensor, gint64 delay_ns,
                              GError **error)
{
  const gint64 now_ns = ps_clock_now (), made_ns = tensor->ready_ns > 0 ? tensor->ready_ns : now_ns;
  Port *port = port_lock (transport, from);
  const gboolean aborted = is_aborted (transport);

  g_assert (tensor->bytes <= setting_of (transport)->message_bytes);

  g_ptr_array_set_size (port->returned, 0);
  port->n_untaken += !aborted;
  port_unlock (port);
  if (aborted) {
    tensor_free (tensor);
    return ps_refuse_aborted (error);
  }
  Message *message = g_new0 (Message, 1);
  *message = (Message){ .name = { from, op },
                        .tensor = tensor,
                        .sent_ns = now_ns,
                        .ready_ns = now_ns + delay_ns,
                        .copied = tensor->bytes > 0 && delay_ns == 0,
                        .due_ns = made_ns + delay_ns };
  deliver (transport, to, message);
  return TRUE;
}

static gboolean threads_receive (PsTransport *transport, guint at, guint from, PsOp op, GError **error)
{
  Message *announced = g_new0 (Message, 1);

  announced->name = (PsMessageName){ from, op };
  Port *port = port_lock (transport, at);
  g_queue_push_tail (&port->announced, announced);
  const gboolean aborted = is_aborted (transport);
  port_unlock (port);
  return !aborted || ps_refuse_aborted (error);
}

/* The message of that name once it was delivered; NULL: aborted or late. */
static Message *await_message (PsTransport *transport, guint at, guint from, PsOp op, gint64 until_ns)
{
  Port *port = port_lock (transport, at);
  Message *message = NULL;
  gboolean in_time = TRUE;

  while (!is_aborted (transport) && in_time) {
    message = ps_message_take (&port->arrived, from, op);
    if (message != NULL)
      break;
    in_time = port_sleep (port, until_ns);
  }
  port_unlock (port);
  return message;
}

/* Sleeps until the receiver may use the message, or the run is aborted. */
static gboolean await_ready (PsTransport *transport, guint at, gint64 ready_ns, GError **error)
{
  const gint64 wake_ns = ready_ns - PS_CLOCK_SPIN_NS;

  if (ready_ns <= ps_clock_now ())
    return TRUE;
  Port *port = port_lock (transport, at);
  while (!is_aborted (transport) && wake_ns > ps_clock_now ())
    port_sleep (port, wake_ns);
  const gboolean aborted = is_aborted (transport);
  port_unlock (port);
  if (aborted)
    return ps_refuse_aborted (error);
  ps_clock_spin_until (ready_ns);
  return TRUE;
}

/* Returns the message in a tensor of the receiver's; NULL: there is no room for it, or the copy failed. */
static PsTensor *land (const Message *message, PsDevice *into, PsTransferTimes *times, GError **error)
{
  PsTensor *tensor = into->class->tensor_new (into);
  char name[48];

  if (tensor == NULL)
    return ps_refuse_null (error, PS_ERROR_UNAVAILABLE, "stage %u: no memory to receive %s", message->name.op.stage,
                           ps_op_format (message->name.op, name));
  g_assert (tensor->bytes == message->tensor->bytes);
  tensor->ready_ns = message->due_ns;
  if (into->class->copy == NULL && tensor->bytes > 0)
    memcpy (tensor->data, message->tensor->data, tensor->bytes);
  if (into->class->copy == NULL || into->class->copy (tensor, message->tensor, times, error))
    return tensor;
  tensor_free (tensor);
  return NULL;
}

static PsTensor *threads_wait (PsTransport *transport, guint at, guint from, PsOp op, PsDevice *into,
                               PsTransferTimes *times, GError **error)
{
  const gint64 called_ns = ps_clock_now ();
  const guint n = setting_of (transport)->n_devices;
  Port *port = port_lock (transport, at);
  g_autofree Message *announced = ps_message_take (&port->announced, from, op);
  PsTensor *tensor = NULL;
  char name[48];

  port_unlock (port);
  if (announced == NULL && !is_aborted (transport))
    return ps_refuse_unannounced (at % n, from % n, op, error);
  g_autofree Message *message = await_message (transport, at, from, op, timeout_moment (transport));
  if (message == NULL) {
    g_autofree char *what = g_strdup_printf ("%s from device %u", ps_op_format (op, name), from % n);

    fail_wait (transport, at, what, error);
    return NULL;
  }
  if (await_ready (transport, at, message->ready_ns, error)) {
    const gboolean waited = message->ready_ns >= called_ns;

    /* A message that was ready before this call ends at ready_ns: a busy receiver does not make it longer. Where the
     * copy is the transfer, it starts at the call and ends now. */
    tensor = land (message, into, times, error);
    *times = (PsTransferTimes){ .start_ns = message->copied && !waited ? called_ns : message->sent_ns,
                                .end_ns = waited || message->copied ? ps_clock_now () : message->ready_ns };
  }
  port = port_lock (transport, from);
  g_ptr_array_add (port->returned, message->tensor);
  port->n_untaken--;
  pthread_cond_signal (&port->changed);
  port_unlock (port);
  return tensor;
}

static gboolean threads_flush (PsTransport *transport, guint from, GError **error)
{
  const gint64 until_ns = timeout_moment (transport);
  Port *port = port_lock (transport, from);
  gboolean in_time = TRUE;

  while (port->n_untaken > 0 && !is_aborted (transport) && in_time)
    in_time = port_sleep (port, until_ns);
  g_ptr_array_set_size (port->returned, 0);
  const gboolean taken = port->n_untaken == 0 && !is_aborted (transport);
  port_unlock (port);
  return taken || fail_wait (transport, from, "its messages to be taken", error);
}

/* PsPassHook: the next device reads from this one's memory, so this one stays until that has read. */
static gboolean pass_on (PsTransport *transport, const PsPass *pass, GError **error)
{
  Message given = { .name = { pass->own, ps_sum_message }, .numbers = pass->given };
  const gint64 until_ns = timeout_moment (transport);
  gboolean in_time = TRUE;

  deliver (transport, pass->next, &given);
  Message *taken = await_message (transport, pass->own, pass->previous, ps_sum_message, until_ns);
  if (taken != NULL) {
    if (!pass->adds && pass->n_taken > 0)
      memcpy (pass->taken, taken->numbers, pass->n_taken * sizeof (float));
    for (gsize i = 0; i < pass->n_taken && pass->adds; i++)
      pass->taken[i] += taken->numbers[i];
    Port *previous = port_lock (transport, pass->previous);
    taken->is_read = TRUE;
    pthread_cond_signal (&previous->changed);
    port_unlock (previous);
  }
  Port *own = port_lock (transport, pass->own);
  while (!given.is_read && !is_aborted (transport) && in_time)
    in_time = port_sleep (own, until_ns);
  const gboolean is_read = given.is_read;
  port_unlock (own);
  if (taken != NULL && is_read)
    return TRUE;
  /* The next device has not begun to read, or is about to end. */
  Port *next = port_lock (transport, pass->next);
  const gboolean withdrawn = g_queue_remove (&next->arrived, &given);
  port_unlock (next);
  own = port_lock (transport, pass->own);
  while (!withdrawn && !given.is_read)
    port_sleep (own, 0);
  port_unlock (own);
  g_autofree char *what
      = g_strdup_printf (taken == NULL ? "its share of a sum from device %u" : "device %u to take its share of a sum",
                         (taken == NULL ? pass->previous : pass->next) % setting_of (transport)->n_devices);
  return fail_wait (transport, pass->own, what, error);
}

/* Adds up in the devices' queues, where this one has shown its numbers. */
static gboolean add_up_queued (PsTransport *base, const PsCircle *circle, gsize n, GError **error)
{
  const Port *port = ((ThreadsTransport *)base)->port;
  const PsDeviceClass *class = port[ps_circle_device (circle, circle->own)].end.device->class;
  g_autofree PsDevice **devices = g_new (PsDevice *, circle->n);
  g_autofree float **shown = g_new (float *, circle->n);

  if (!ps_circle_meet (base, circle, pass_on, error))
    return FALSE;
  for (guint i = 0; i < circle->n; i++) {
    devices[i] = port[ps_circle_device (circle, i)].end.device;
    shown[i] = port[ps_circle_device (circle, i)].shown;
  }
  const PsDeviceSum all = { .devices = devices, .values = shown, .n_devices = circle->n, .own = circle->own, .n = n };
  return class->sum (&all, PS_SUM_ADD, error) && ps_circle_meet (base, circle, pass_on, error)
         && class->sum (&all, PS_SUM_TAKE, error);
}

static gboolean threads_sum (PsTransport *base, guint at, PsCircleKind kind, PsSumHalves halves, float *values, gsize n,
                             GError **error)
{
  const PsCircle circle = ps_circle_of (setting_of (base), at, kind);
  Port *port = &((ThreadsTransport *)base)->port[at];
  const PsDeviceSum alone = { .devices = &port->end.device, .values = &values, .n_devices = 1, .n = n };
  GError *failure = NULL;

  port->shown = values;
  if (circle.n > 1 && kind == PS_CIRCLE_TENSOR && port->end.device->class->sum != NULL
      && port->end.device->class->sum (&alone, PS_SUM_SHOW, &failure))
    return add_up_queued (base, &circle, n, error);
  if (failure == NULL)
    return ps_circle_sum (base, &circle, pass_on, &port->end, halves, values, n, error);
  g_propagate_error (error, failure);
  return FALSE;
}

static gboolean threads_join (PsTransport *transport, guint at, PsDevice *device, GError **error)
{
  ((ThreadsTransport *)transport)->port[at].end.device = device;
  return TRUE;
}

static void threads_abort (PsTransport *base)
{
  ThreadsTransport *transport = (ThreadsTransport *)base;

  g_atomic_int_set (&transport->aborted, TRUE);
  for (guint i = 0; i < transport->n; i++) {
    Port *port = port_lock (base, i);

    pthread_cond_broadcast (&port->changed);
    port_unlock (port);
  }
}

const PsTransportClass ps_threads_transport = {
  .name = "threads",
  .description = "memory copies between the device threads of one process",
  .splits_sums = TRUE,
  .open = threads_open,
  .close = threads_close,
  .join = threads_join,
  .send = threads_send,
  .receive = threads_receive,
  .wait = threads_wait,
  .flush = threads_flush,
  .sum = threads_sum,
  .abort = threads_abort,
};

/* threads.c - tensors between the threads of one process, and sums over them.
 *
 * Every device has a port. It holds the messages on their way to the device, one queue per sender, and the tensors that
 * come back to it as a sender. A sender copies its tensor into a slot of the channel and frees it. When all slots are
 * in use, the message refers to the tensor itself and the receiver copies it from there. The tensor then goes back to
 * the sender, whose thread frees it. So a send never waits, and no thread locks two ports at a time.
 *
 * Devices that add up show each other their numbers. Each adds up one share of them, in place, and then copies the
 * other shares. */
#include "clock.h"
#include "train/devices.h"
#include "run/transports.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define N_KINDS (PS_CIRCLE_TENSOR + 1)

typedef struct _Message Message;

struct _Message {
  Message *next;
  PsOp op;
  PsTensor *tensor; /* the sender's, if no slot was free; else NULL */
  void *slot;       /* the slot's memory; NULL: no slot, or a message without data */
  gboolean in_slot;
  gsize bytes;
  gint64 sent_ns;
  gint64 ready_ns; /* when the receiver may use it */
  gint64 due_ns;   /* and when it might if its sender had been in time */
};

/* A list that is searched from its oldest entry: nearly always the first entry fits. */
typedef struct {
  Message *first;
  Message **end; /* the place for the next entry; NULL until first used */
} MessageList;

/* The messages from one device to another, under the lock of the receiver's port. */
typedef struct {
  MessageList arrived;
  MessageList announced; /* receives before their wait; only op counts */
  guint n_in_slots;
  GPtrArray *free_slots; /* memory of slots that were used before; NULL until then */
} Channel;

/* Where the devices of a circle meet: at the first of them. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t open;
  guint n_waiting;
  guint n_reading; /* devices that have passed and read what others show, until they come again */
  guint round;
} Gate;

/* A device. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* the one thread that uses the port may wait here */
  guint n_untaken;        /* messages that this device has sent and no receiver has taken */
  GPtrArray *returned;    /* the device's own tensors, copied by their receivers */
  Channel *from;          /* [n] */

  PsDevice *device;
  Gate gates[N_KINDS];
  float *shown; /* the numbers of this device, for all to read between two meetings */
  float *copy;  /* of n_copied numbers that are not in the host's memory; others may read it until the run ends */
  gsize n_copied;
} Port;

typedef struct {
  PsTransport base;
  PsTransportSetting setting;
  guint n;      /* devices of all pipelines */
  gint aborted; /* atomic */
  Port *port;   /* [n] */
} ThreadsTransport;

static void list_append (MessageList *list, Message *message)
{
  if (list->end == NULL)
    list->end = &list->first;
  message->next = NULL;
  *list->end = message;
  list->end = &message->next;
}

/* Removes and returns the oldest message with the name of `op`; NULL: there is none. */
static Message *list_take (MessageList *list, PsOp op)
{
  guint64 key = ps_message_key (op);

  for (Message **link = &list->first; *link != NULL; link = &(*link)->next)
    if (ps_message_key ((*link)->op) == key) {
      Message *message = *link;

      *link = message->next;
      if (message->next == NULL)
        list->end = link;
      return message;
    }
  return NULL;
}

static void tensor_free (PsTensor *tensor)
{
  tensor->device->class->tensor_free (tensor);
}

static void port_init (Port *port, guint n_ports)
{
  ps_clock_condition_init (&port->changed);
  pthread_mutex_init (&port->lock, NULL);
  port->returned = g_ptr_array_new_with_free_func ((GDestroyNotify)tensor_free);
  port->from = g_new0 (Channel, n_ports);
  for (guint i = 0; i < N_KINDS; i++) {
    pthread_mutex_init (&port->gates[i].lock, NULL);
    ps_clock_condition_init (&port->gates[i].open);
  }
}

static void channel_clear (Channel *channel)
{
  Message *next;

  for (Message *message = channel->arrived.first; message != NULL; message = next) {
    next = message->next;
    if (message->tensor != NULL)
      tensor_free (message->tensor);
    g_free (message->slot);
    g_free (message);
  }
  for (Message *message = channel->announced.first; message != NULL; message = next) {
    next = message->next;
    g_free (message);
  }
  g_clear_pointer (&channel->free_slots, g_ptr_array_unref);
}

static void port_clear (Port *port, guint n_ports)
{
  for (guint i = 0; i < n_ports; i++)
    channel_clear (&port->from[i]);
  for (guint i = 0; i < N_KINDS; i++) {
    pthread_mutex_destroy (&port->gates[i].lock);
    pthread_cond_destroy (&port->gates[i].open);
  }
  g_ptr_array_unref (port->returned);
  g_free (port->from);
  g_free (port->copy);
  pthread_cond_destroy (&port->changed);
  pthread_mutex_destroy (&port->lock);
}

static PsTransport *threads_open (const PsTransportSetting *setting, GError **error)
{
  ThreadsTransport *transport = g_new0 (ThreadsTransport, 1);

  g_assert (setting->capacity >= 1);

  transport->base.class = &ps_threads_transport;
  transport->setting = *setting;
  transport->n = setting->n_devices * MAX (setting->n_replicas, 1) * MAX (setting->n_tensor, 1);
  transport->port = g_new0 (Port, transport->n);
  for (guint i = 0; i < transport->n; i++)
    port_init (&transport->port[i], transport->n);
  return &transport->base;
}

static void threads_close (PsTransport *base)
{
  ThreadsTransport *transport = (ThreadsTransport *)base;

  if (transport == NULL)
    return;
  for (guint i = 0; i < transport->n; i++)
    port_clear (&transport->port[i], transport->n);
  g_free (transport->port);
  g_free (transport);
}

static gboolean fail_aborted (GError **error)
{
  return ps_refuse (error, PS_ERROR_IO, "run aborted");
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

/* Frees the tensors that have come back, and counts one more message on its way. */
static gboolean begin_send (PsTransport *transport, guint from, GError **error)
{
  Port *port = port_lock (transport, from);
  gboolean aborted = is_aborted (transport);

  g_ptr_array_set_size (port->returned, 0);
  if (!aborted)
    port->n_untaken++;
  port_unlock (port);
  return aborted ? fail_aborted (error) : TRUE;
}

/* Claims a slot for the message; FALSE: all are in use. */
static gboolean claim_slot (PsTransport *transport, guint from, guint to, Message *message)
{
  const PsTransportSetting *setting = setting_of (transport);
  Port *port = port_lock (transport, to);
  Channel *channel = &port->from[from];

  if (channel->n_in_slots < setting->capacity) {
    channel->n_in_slots++;
    message->in_slot = TRUE;
    if (channel->free_slots != NULL && channel->free_slots->len > 0)
      message->slot = g_ptr_array_steal_index_fast (channel->free_slots, channel->free_slots->len - 1);
  }
  port_unlock (port);
  if (message->in_slot && message->slot == NULL && setting->message_bytes > 0)
    message->slot = g_malloc (setting->message_bytes);
  return message->in_slot;
}

static void post (PsTransport *transport, guint from, guint to, Message *message)
{
  Port *port = port_lock (transport, to);
  const gint64 now_ns = ps_clock_now ();

  message->ready_ns = MAX (message->ready_ns, now_ns);
  message->due_ns = MAX (message->due_ns, now_ns);
  list_append (&port->from[from].arrived, message);
  pthread_cond_signal (&port->changed);
  port_unlock (port);
}

static gboolean threads_send (PsTransport *transport, guint from, guint to, PsOp op, PsTensor *tensor, gint64 delay_ns,
                              GError **error)
{
  gint64 now_ns = ps_clock_now ();

  g_assert (tensor->bytes <= setting_of (transport)->message_bytes);

  if (!begin_send (transport, from, error)) {
    tensor_free (tensor);
    return FALSE;
  }
  Message *message = g_new0 (Message, 1);
  *message = (Message){ .op = op, .bytes = tensor->bytes, .sent_ns = now_ns, .ready_ns = now_ns + delay_ns };
  message->due_ns = (tensor->ready_ns > 0 ? tensor->ready_ns : now_ns) + delay_ns;
  /* The receiver copies device memory from device to device; host memory goes through a slot. */
  if (tensor->device->class->copy == NULL && claim_slot (transport, from, to, message)) {
    if (tensor->bytes > 0)
      memcpy (message->slot, tensor->data, tensor->bytes);
    tensor_free (tensor);
  } else
    message->tensor = tensor;
  post (transport, from, to, message);
  return TRUE;
}

static gboolean threads_receive (PsTransport *transport, guint at, guint from, PsOp op, GError **error)
{
  Message *announced = g_new0 (Message, 1);
  gboolean aborted;

  announced->op = op;
  Port *port = port_lock (transport, at);
  list_append (&port->from[from].announced, announced);
  aborted = is_aborted (transport);
  port_unlock (port);
  return aborted ? fail_aborted (error) : TRUE;
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

/* Returns the announced message once it was posted; NULL: aborted, late, or never announced. */
static Message *await_message (PsTransport *transport, guint at, guint from, PsOp op, GError **error)
{
  gint64 timeout_ns = setting_of (transport)->timeout_ns;
  guint n = setting_of (transport)->n_devices;
  gint64 until_ns = timeout_moment (transport);
  Port *port = port_lock (transport, at);
  Message *announced = list_take (&port->from[from].announced, op);
  Message *message = NULL;
  gboolean in_time = TRUE, aborted;
  char name[48];

  while (announced != NULL && !is_aborted (transport) && in_time) {
    message = list_take (&port->from[from].arrived, op);
    if (message != NULL)
      break;
    in_time = port_sleep (port, until_ns);
  }
  aborted = is_aborted (transport);
  port_unlock (port);

  if (message == NULL && aborted)
    fail_aborted (error);
  else if (announced == NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "device %u: waits for %s from device %u without a receive", at % n,
                 ps_op_format (op, name), from % n);
  else if (message == NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "device %u: waited %g s for %s from device %u", at % n, timeout_ns / 1e9,
                 ps_op_format (op, name), from % n);
  g_free (announced);
  return message;
}

/* Sleeps until the receiver may use the message, or the run is aborted. */
static gboolean await_ready (PsTransport *transport, guint at, const Message *message, GError **error)
{
  gint64 wake_ns = message->ready_ns - PS_CLOCK_SPIN_NS;
  gboolean aborted;

  if (message->ready_ns <= ps_clock_now ())
    return TRUE;
  Port *port = port_lock (transport, at);
  while (!is_aborted (transport) && wake_ns > ps_clock_now ())
    port_sleep (port, wake_ns);
  aborted = is_aborted (transport);
  port_unlock (port);
  if (aborted)
    return fail_aborted (error);
  ps_clock_spin_until (message->ready_ns);
  return TRUE;
}

static gboolean copy_message (const Message *message, PsTensor *tensor, PsTransferTimes *times, GError **error)
{
  const void *data = message->tensor != NULL ? message->tensor->data : message->slot;

  if (tensor->device->class->copy != NULL)
    return tensor->device->class->copy (tensor, message->tensor, times, error);
  if (message->bytes > 0)
    memcpy (tensor->data, data, message->bytes);
  return TRUE;
}

/* Returns the message in a tensor of the receiver's; NULL: there is no room for it, or the copy failed. */
static PsTensor *land (const Message *message, PsDevice *into, PsTransferTimes *times, GError **error)
{
  PsTensor *tensor = into->class->tensor_new (into);
  char name[48];

  if (tensor == NULL)
    return ps_refuse_null (error, PS_ERROR_UNAVAILABLE, "stage %u: no memory to receive %s", message->op.stage,
                           ps_op_format (message->op, name));
  g_assert (tensor->bytes == message->bytes);
  tensor->ready_ns = message->due_ns;
  if (copy_message (message, tensor, times, error))
    return tensor;
  tensor_free (tensor);
  return NULL;
}

/* A message that was ready before the receiver called ends at ready_ns: a busy receiver does not make it longer. If the
 * receiver makes the one copy, the copy is the transfer, so it starts at the call and ends now. */
static PsTransferTimes transfer_times (const Message *message, const PsDevice *into, gint64 called_ns)
{
  const gboolean waited = message->ready_ns >= called_ns, pulled = into->class->copy != NULL;

  return (PsTransferTimes){ .start_ns = pulled && !waited ? called_ns : message->sent_ns,
                            .end_ns = waited || pulled ? ps_clock_now () : message->ready_ns };
}

/* Gives the slot back to the channel. */
static void release_slot (PsTransport *transport, guint at, guint from, Message *message)
{
  Port *port = port_lock (transport, at);
  Channel *channel = &port->from[from];

  channel->n_in_slots--;
  if (message->slot != NULL) {
    if (channel->free_slots == NULL)
      channel->free_slots = g_ptr_array_new_with_free_func (g_free);
    g_ptr_array_add (channel->free_slots, g_steal_pointer (&message->slot));
  }
  port_unlock (port);
}

/* Tells the sender that its message was taken, and returns its tensor to be freed there. */
static void report_taken (PsTransport *transport, guint from, Message *message)
{
  Port *port = port_lock (transport, from);

  if (message->tensor != NULL)
    g_ptr_array_add (port->returned, g_steal_pointer (&message->tensor));
  port->n_untaken--;
  pthread_cond_signal (&port->changed);
  port_unlock (port);
}

static PsTensor *threads_wait (PsTransport *transport, guint at, guint from, PsOp op, PsDevice *into,
                               PsTransferTimes *times, GError **error)
{
  gint64 called_ns = ps_clock_now ();
  Message *message = await_message (transport, at, from, op, error);
  PsTensor *tensor = NULL;

  if (message == NULL)
    return NULL;
  if (await_ready (transport, at, message, error)) {
    tensor = land (message, into, times, error);
    *times = transfer_times (message, into, called_ns);
  }
  if (message->in_slot)
    release_slot (transport, at, from, message);
  report_taken (transport, from, message);
  g_free (message);
  return tensor;
}

static gboolean threads_flush (PsTransport *transport, guint from, GError **error)
{
  gint64 until_ns = timeout_moment (transport);
  Port *port = port_lock (transport, from);
  gboolean in_time = TRUE, aborted;

  while (port->n_untaken > 0 && !is_aborted (transport) && in_time)
    in_time = port_sleep (port, until_ns);
  g_ptr_array_set_size (port->returned, 0);
  aborted = is_aborted (transport);
  in_time = port->n_untaken == 0;
  port_unlock (port);

  if (aborted)
    return fail_aborted (error);
  if (!in_time)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "device %u: waited %g s for its messages to be taken",
                 from % setting_of (transport)->n_devices, setting_of (transport)->timeout_ns / 1e9);
  return in_time;
}

/* Sums */

/* Sleeps until all n devices have come; reads: they read after this, and come again. FALSE: the run is aborted, or
 * until_ns (0: never) has come; nobody reads any more, so that the numbers may go. */
static gboolean pass_gate (ThreadsTransport *transport, Gate *gate, guint n, gboolean reads, gint64 until_ns)
{
  const struct timespec until = ps_clock_timespec (until_ns);
  gboolean open;
  guint round;
  int code = 0;

  pthread_mutex_lock (&gate->lock);
  round = gate->round;
  if (gate->n_reading > 0 && --gate->n_reading == 0)
    pthread_cond_broadcast (&gate->open);
  if (++gate->n_waiting == n) {
    gate->n_waiting = 0;
    gate->n_reading = reads ? n : 0;
    gate->round++;
    pthread_cond_broadcast (&gate->open);
  }
  while (gate->round == round && !g_atomic_int_get (&transport->aborted) && code != ETIMEDOUT)
    code = until_ns > 0 ? pthread_cond_timedwait (&gate->open, &gate->lock, &until)
                        : pthread_cond_wait (&gate->open, &gate->lock);
  open = gate->round != round;
  gate->n_waiting -= !open;
  while (!open && gate->n_reading > 0)
    pthread_cond_wait (&gate->open, &gate->lock);
  pthread_mutex_unlock (&gate->lock);
  return open;
}

static gboolean meet (ThreadsTransport *transport, const PsCircle *circle, PsCircleKind kind, gboolean reads,
                      GError **error)
{
  const gint64 timeout_ns = transport->setting.timeout_ns;
  const guint n_devices = transport->setting.n_devices;

  if (pass_gate (transport, &transport->port[circle->first].gates[kind], circle->n, reads,
                 timeout_ns > 0 ? ps_clock_now () + timeout_ns : 0))
    return TRUE;
  if (g_atomic_int_get (&transport->aborted))
    return ps_refuse (error, PS_ERROR_IO, "run aborted");
  return ps_refuse (error, PS_ERROR_IO, "device %u: waited %g s for the other %u that it adds up with",
                    ps_circle_device (circle, circle->own) % n_devices, (double)timeout_ns / 1e9, circle->n - 1);
}

/* The numbers that the device at a place of the circle shows. */
static float *shown_at (const ThreadsTransport *transport, const PsCircle *circle, guint place)
{
  return transport->port[ps_circle_device (circle, place % circle->n)].shown;
}

static void add_share (const ThreadsTransport *transport, const PsCircle *circle, gsize n)
{
  const gsize first = ps_share_begin (n, circle->own, circle->n);
  const gsize length = ps_share_begin (n, circle->own + 1, circle->n) - first;
  g_autofree float *total = g_memdup2 (shown_at (transport, circle, circle->own + 1) + first, length * sizeof (float));

  for (guint k = 2; k <= circle->n; k++) {
    const float *next = shown_at (transport, circle, circle->own + k) + first;

    for (gsize i = 0; i < length; i++)
      total[i] += next[i];
  }
  if (length > 0)
    memcpy (shown_at (transport, circle, circle->own) + first, total, length * sizeof *total);
}

static void copy_shares (const ThreadsTransport *transport, const PsCircle *circle, gsize n)
{
  for (guint k = 1; k < circle->n; k++) {
    const guint other = (circle->own + k) % circle->n;
    const gsize first = ps_share_begin (n, other, circle->n);

    memcpy (shown_at (transport, circle, circle->own) + first, shown_at (transport, circle, other) + first,
            (ps_share_begin (n, other + 1, circle->n) - first) * sizeof (float));
  }
}

/* Each half lies between two meetings: nobody reads a share before it is there, or writes one that others still read.
 */
static gboolean add_up (ThreadsTransport *transport, guint own, const PsCircle *circle, PsCircleKind kind,
                        PsSumHalves halves, float *values, gsize n, GError **error)
{
  transport->port[own].shown = values;
  if (!meet (transport, circle, kind, TRUE, error))
    return FALSE;
  if (halves & PS_SUM_SCATTER) {
    add_share (transport, circle, n);
    if (!meet (transport, circle, kind, (halves & PS_SUM_GATHER) != 0, error))
      return FALSE;
  }
  if (!(halves & PS_SUM_GATHER))
    return TRUE;
  copy_shares (transport, circle, n);
  return meet (transport, circle, kind, FALSE, error);
}

/* Numbers in other memory than the host's are added up in a copy. */
static gboolean add_up_copy (ThreadsTransport *transport, guint own, const PsCircle *circle, PsCircleKind kind,
                             PsSumHalves halves, float *values, gsize n, GError **error)
{
  Port *port = &transport->port[own];

  if (port->n_copied < n)
    port->copy = g_renew (float, port->copy, n);
  port->n_copied = MAX (port->n_copied, n);
  return ps_device_read (port->device, port->copy, values, n * sizeof *values, error)
         && add_up (transport, own, circle, kind, halves, port->copy, n, error)
         && ps_device_write (port->device, values, port->copy, n * sizeof *values, error);
}

/* Adds up in the devices' queues, where this one has shown its numbers. */
static gboolean add_up_queued (ThreadsTransport *transport, guint own, const PsCircle *circle, float *values, gsize n,
                               GError **error)
{
  const PsDeviceClass *class = transport->port[own].device->class;
  g_autofree PsDevice **devices = g_new (PsDevice *, circle->n);
  g_autofree float **shown = g_new (float *, circle->n);
  const PsDeviceSum all = { .devices = devices, .values = shown, .n_devices = circle->n, .own = circle->own, .n = n };

  transport->port[own].shown = values;
  if (!meet (transport, circle, PS_CIRCLE_TENSOR, FALSE, error))
    return FALSE;
  for (guint i = 0; i < circle->n; i++) {
    devices[i] = transport->port[ps_circle_device (circle, i)].device;
    shown[i] = shown_at (transport, circle, i);
  }
  return class->sum (&all, PS_SUM_ADD, error) && meet (transport, circle, PS_CIRCLE_TENSOR, FALSE, error)
         && class->sum (&all, PS_SUM_TAKE, error);
}

/* Share s of the numbers (ps_share_begin) is added up in the order s + 1, s + 2, ..., s, as the class "mpi" does. */
static gboolean threads_sum (PsTransport *base, guint at, PsCircleKind kind, PsSumHalves halves, float *values, gsize n,
                             GError **error)
{
  ThreadsTransport *transport = (ThreadsTransport *)base;
  const PsCircle circle = ps_circle_of (&transport->setting, at, kind);
  const guint own = ps_circle_device (&circle, circle.own);
  const PsDeviceSum alone = { .devices = &transport->port[own].device, .values = &values, .n_devices = 1, .n = n };
  const PsDeviceClass *class;
  GError *failure = NULL;

  if (circle.n == 1)
    return TRUE;
  class = transport->port[own].device->class;
  if (kind == PS_CIRCLE_TENSOR && class->sum != NULL && class->sum (&alone, PS_SUM_SHOW, &failure))
    return add_up_queued (transport, own, &circle, values, n, error);
  if (failure != NULL) {
    g_propagate_error (error, failure);
    return FALSE;
  }
  return class->read != NULL ? add_up_copy (transport, own, &circle, kind, halves, values, n, error)
                             : add_up (transport, own, &circle, kind, halves, values, n, error);
}

static gboolean threads_join (PsTransport *transport, guint at, PsDevice *device, GError **error)
{
  ((ThreadsTransport *)transport)->port[at].device = device;
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
    for (guint k = 0; k < N_KINDS; k++) {
      pthread_mutex_lock (&port->gates[k].lock);
      pthread_cond_broadcast (&port->gates[k].open);
      pthread_mutex_unlock (&port->gates[k].lock);
    }
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

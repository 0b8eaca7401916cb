/* mpi-transport.c - the class "mpi": messages and sums by MPI between processes, and inside one.
 *
 * Devices' threads post and wait. Tensors that are not host memory travel by way of host memory. */
#include "mpi-transport.h"

#include "clock.h"
#include "device/devices.h"
#include "module.h"

#include <string.h>
#include <sys/prctl.h>

static PsMpiTransport *
mpi_transport (PsTransport *transport)
{
  return (PsMpiTransport *)transport;
}

/* The number of a device among the devices of all pipelines. */
static guint
number_of (const PsMpiTransport *transport, guint device)
{
  return transport->setting.pipeline * transport->setting.n_devices + device;
}

/* The engine's calls */

static void
deliver (gpointer data, const PsMpiHead *head, const void *bytes)
{
  PsMpiTransport *transport = data;
  guint own = head->kind == PS_MPI_DATA ? head->to : head->from;
  guint first = number_of (transport, transport->setting.first);

  if (own >= first && own - first < transport->setting.n_here)
    ps_mpi_port_deliver (&transport->ports[own - first], head, bytes);
}

static void
wake (gpointer data)
{
  PsMpiTransport *transport = data;

  for (guint i = 0; i < transport->setting.n_here; i++)
    pthread_cond_broadcast (&transport->ports[i].changed);
}

static void
fail (gpointer data, GError *error)
{
  PsMpiTransport *transport = data;

  transport->setting.group->fail (transport->setting.group->data, error);
}

/* The class's hooks */

/* Name and version; the rest of the text says who has built it. */
static char *
mpi_libraries (void)
{
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length;

  MPI_Get_library_version (text, &length); /* may be called at any time, by any thread */
  text[strcspn (text, ",\r\n")] = '\0';
  return g_strdup (text);
}

static gboolean
check_sizes (const PsTransportSetting *setting, GError **error)
{
  if (setting->message_bytes <= G_MAXINT)
    return TRUE;
  return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                    "mpi transport: messages of %" G_GSIZE_FORMAT " B; MPI takes at most %d", setting->message_bytes,
                    G_MAXINT);
}

static const PsTransportClass mpi_class;

static PsTransport *
mpi_open (const PsTransportSetting *setting, GError **error)
{
  PsMpiTransport *transport;

  if (!check_sizes (setting, error))
    return NULL;
  transport = g_new0 (PsMpiTransport, 1);
  transport->base.class = &mpi_class;
  transport->setting = *setting;
  transport->ports = g_new0 (PsMpiPort, setting->n_here);
  for (guint i = 0; i < setting->n_here; i++)
    ps_mpi_port_init (&transport->ports[i], number_of (transport, setting->first + i), setting->n_here);
  transport->client = (PsMpiClient){
    .data = transport, .deliver = deliver, .wake = wake, .fail = fail, .n_devices = setting->n_here
  };
  if (!ps_mpi_engine_join (&transport->client, error))
    {
      mpi_class.close (&transport->base);
      return NULL;
    }
  for (guint i = 0; i < setting->n_here; i++)
    transport->ports[i].transport = transport->client.number;
  return &transport->base;
}

static void
mpi_close (PsTransport *base)
{
  PsMpiTransport *transport = mpi_transport (base);

  if (transport == NULL)
    return;
  ps_mpi_engine_leave (&transport->client);
  for (guint i = 0; i < transport->setting.n_here; i++)
    ps_mpi_port_clear (&transport->ports[i]);
  g_free (transport->ports);
  g_free (transport);
}

static gboolean
await_mpi (PsMpiTransport *transport, guint at, GError **error)
{
  PsMpiPort *port = ps_mpi_transport_port (transport, at);
  gint64 until_ns = ps_mpi_transport_deadline (transport);
  gboolean in_time = TRUE, ready, aborted;

  ps_mpi_lock ();
  while (!transport->aborted && !ps_mpi_engine_ready () && in_time)
    in_time = ps_mpi_sleep (&port->changed, until_ns);
  ready = ps_mpi_engine_ready ();
  aborted = transport->aborted;
  ps_mpi_unlock ();
  if (aborted)
    return ps_mpi_fail_aborted (error);
  if (!ready)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "device %u: MPI was not ready after %g s", at,
                 ps_mpi_transport_seconds (transport));
  return ready;
}

/* No letter may come to another process before its transport is open, so the devices of all processes meet. */
static gboolean
mpi_join (PsTransport *base, guint at, PsDevice *device, GError **error)
{
  PsMpiTransport *transport = mpi_transport (base);
  const PsTransportSetting *setting = &transport->setting;
  guint n = setting->n_devices * setting->n_replicas * MAX (setting->n_tensor, 1);
  g_autofree guint8 *all = g_malloc (n);
  const guint8 here = 0;

  prctl (PR_SET_TIMERSLACK, 1); /* naps are shorter than the usual slack */
  ps_mpi_transport_port (transport, at)->device = device;
  return await_mpi (transport, at, error)
         && (setting->n_here == n
             || setting->group->exchange (setting->group->data, at, &here, sizeof here, all, error));
}

static gboolean
is_aborted (const PsMpiTransport *transport)
{
  gboolean aborted;

  ps_mpi_lock ();
  aborted = transport->aborted;
  ps_mpi_unlock ();
  return aborted;
}

/* Fills in where the tensor's bytes are. Those of other memory than the host's are read at once. */
static gboolean
find_bytes (PsMpiMessage *message, GError **error)
{
  PsTensor *tensor = message->tensor;

  message->n_bytes = tensor->bytes;
  message->data = tensor->data;
  if (tensor->bytes == 0 || tensor->device->class->read == NULL)
    return TRUE;
  message->data = g_malloc (tensor->bytes);
  message->owned = TRUE;
  return tensor->device->class->read (tensor, message->data, error);
}

static gboolean
mpi_send (PsTransport *base, guint from, guint to, PsOp op, PsTensor *tensor, gint64 delay_ns, GError **error)
{
  PsMpiTransport *transport = mpi_transport (base);
  PsMpiPort *port = ps_mpi_transport_port (transport, from);
  const gint64 now_ns = ps_clock_now (), sent_ns = now_ns + transport->setting.clock_offset_ns;
  PsMpiMessage message = { .peer = number_of (transport, to),
                           .op = op,
                           .tensor = tensor,
                           .sent_ns = sent_ns,
                           .due_ns = sent_ns + delay_ns,
                           .late_ns = tensor->ready_ns > 0 ? now_ns - tensor->ready_ns : 0 };

  g_assert (tensor->bytes <= transport->setting.message_bytes);

  if (is_aborted (transport) ? !ps_mpi_fail_aborted (error) : !find_bytes (&message, error))
    {
      ps_mpi_message_clear (&message);
      return FALSE;
    }
  ps_mpi_lock ();
  ps_mpi_port_free_returned (port);
  ps_mpi_port_send (port, &message);
  ps_mpi_unlock ();
  return TRUE;
}

static PsTensor *
tensor_new (PsDevice *device, PsOp op, GError **error)
{
  PsTensor *tensor = device->class->tensor_new (device);
  char name[48];

  if (tensor == NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "stage %u: no memory to receive %s", op.stage,
                 ps_op_format (op, name));
  return tensor;
}

/* Where a long message will land. */
static gboolean
make_room (PsMpiMessage *message, PsDevice *device, GError **error)
{
  message->tensor = tensor_new (device, message->op, error);
  if (message->tensor == NULL)
    return FALSE;
  message->owned = device->class->write != NULL;
  message->data = message->owned ? g_malloc (message->n_bytes) : message->tensor->data;
  return TRUE;
}

static gboolean
mpi_receive (PsTransport *base, guint at, guint from, PsOp op, GError **error)
{
  PsMpiTransport *transport = mpi_transport (base);
  PsMpiPort *port = ps_mpi_transport_port (transport, at);
  PsMpiMessage message = { .peer = number_of (transport, from), .op = op, .n_bytes = transport->setting.message_bytes };

  if (is_aborted (transport))
    return ps_mpi_fail_aborted (error);
  if (message.n_bytes > PS_MPI_INLINE_BYTES && !make_room (&message, port->device, error))
    return FALSE;
  ps_mpi_lock ();
  ps_mpi_port_expect (port, &message);
  ps_mpi_unlock ();
  return TRUE;
}

/* Sleeps until the message may be used, or the run is aborted. */
static gboolean
await_due (PsMpiTransport *transport, PsMpiPort *port, gint64 due_ns, GError **error)
{
  gboolean aborted;

  if (due_ns <= ps_clock_now ())
    return TRUE;
  ps_mpi_lock ();
  while (!transport->aborted && ps_clock_now () < due_ns - PS_CLOCK_SPIN_NS)
    ps_mpi_sleep (&port->changed, due_ns - PS_CLOCK_SPIN_NS);
  aborted = transport->aborted;
  ps_mpi_unlock ();
  if (aborted)
    return ps_mpi_fail_aborted (error);
  ps_clock_spin_until (due_ns);
  return TRUE;
}

/* The message in a tensor of the receiver's; NULL when there is no room for it or it can't be written. */
static PsTensor *
land (PsMpiMessage *message, PsDevice *into, GError **error)
{
  g_autofree void *bytes = message->owned ? g_steal_pointer (&message->data) : NULL;
  PsTensor *tensor = g_steal_pointer (&message->tensor);

  if (tensor == NULL)
    tensor = tensor_new (into, message->op, error);
  if (tensor == NULL)
    return NULL;
  g_assert (tensor->bytes == message->n_bytes);
  if (bytes == NULL)
    return tensor;
  if (!ps_device_write (into, tensor->data, bytes, message->n_bytes, error))
    g_clear_pointer (&tensor, into->class->tensor_free);
  return tensor;
}

static PsTensor *
mpi_wait (PsTransport *base, guint at, guint from, PsOp op, PsDevice *into, PsTransferTimes *times, GError **error)
{
  PsMpiTransport *transport = mpi_transport (base);
  PsMpiPort *port = ps_mpi_transport_port (transport, at);
  gint64 called_ns = ps_clock_now (), offset_ns = transport->setting.clock_offset_ns, ready_ns;
  g_autoptr (PsMpiReceipt) receipt = NULL;
  PsTensor *tensor;

  ps_mpi_lock ();
  receipt = ps_mpi_transport_await (transport, port, number_of (transport, from), op, error);
  ps_mpi_unlock ();
  if (receipt == NULL)
    return NULL;
  ready_ns = MAX (receipt->came_ns, receipt->message.due_ns - offset_ns);
  tensor = await_due (transport, port, ready_ns, error) ? land (&receipt->message, into, error) : NULL;
  if (tensor == NULL)
    return NULL;
  /* A message that was there before anybody asked is not longer on its way because its receiver is busy. */
  tensor->ready_ns = MAX (receipt->came_ns, ready_ns - receipt->message.late_ns);
  *times = (PsTransferTimes){ .start_ns = receipt->message.sent_ns - offset_ns,
                              .end_ns = ready_ns >= called_ns ? ps_clock_now () : ready_ns };
  return tensor;
}

static gboolean
mpi_flush (PsTransport *base, guint from, GError **error)
{
  PsMpiTransport *transport = mpi_transport (base);
  PsMpiPort *port = ps_mpi_transport_port (transport, from);
  gboolean flushed, aborted;
  PsMpiName late;
  PsMpiWait wait;

  ps_mpi_lock ();
  ps_mpi_wait_begin (&wait, &port->changed, ps_mpi_transport_deadline (transport));
  while (!ps_mpi_port_is_flushed (port, &late) && !transport->aborted && ps_mpi_wait_more (&wait))
    ;
  ps_mpi_wait_end (&wait);
  ps_mpi_port_free_returned (port);
  flushed = ps_mpi_port_is_flushed (port, &late);
  aborted = transport->aborted;
  ps_mpi_unlock ();
  if (aborted)
    return ps_mpi_fail_aborted (error);
  return flushed || ps_mpi_fail_untaken (transport, port, late.peer, late.op, error);
}

static void
mpi_abort (PsTransport *base)
{
  PsMpiTransport *transport = mpi_transport (base);

  ps_mpi_lock ();
  transport->aborted = TRUE;
  wake (transport);
  ps_mpi_unlock ();
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
  .sum = ps_mpi_sum,
  .abort = mpi_abort,
};

const guint64 ps_module_stamp = PS_MODULE_STAMP;

const PsTransportClass *
ps_mpi_transport_class (void)
{
  return &mpi_class;
}

/* mpi-sum.c - sums over the devices of a circle: a ring of messages between them. */
#include "mpi-transport.h"

#include "device/devices.h"
#include "transport/transports.h"

#include <string.h>

/* Longer arrays are added up piece by piece, so that messages stay small. */
#define PIECE_FLOATS ((gsize)4 << 20)

/* No message between stages has this name. */
static const PsOp sum_message = { .kind = PS_OP_O };

typedef struct
{
  PsMpiTransport *transport;
  PsMpiPort *port;
  guint own, n_holders;
  guint next, previous; /* the devices to send to and to receive from, over all pipelines */
  float *values;        /* the numbers, in n_holders shares */
  gsize n;
  gsize first, length; /* of a share: what is under way now */
  float *staged;       /* [n_holders * length] a copy of that in the host's memory; NULL: values are there */
} Ring;

/* The part of share i that is under way now, i counted around, and its length *n. */
static float *
share_at (const Ring *ring, guint i, gsize *n)
{
  guint share = i % ring->n_holders;
  gsize begin = ps_share_begin (ring->n, share, ring->n_holders) + ring->first;
  gsize end = ps_share_begin (ring->n, share + 1, ring->n_holders);

  *n = begin < end ? MIN (end - begin, ring->length) : 0;
  return ring->staged != NULL ? ring->staged + share * ring->length : ring->values + begin;
}

/* Sends one share and receives another one to `into`. A short share, and one where `into` is NULL, comes in memory of
 * the message's own. The port owns a message until it is there, so that an aborted run leaves MPI no freed memory.
 * Messages to other devices may be under way meanwhile: these may wait for this sum before they take them. */
static PsMpiReceipt *
pass (Ring *ring, float *outgoing, gsize n_out, float *into, gsize n_in, GError **error)
{
  PsMpiMessage give = { .peer = ring->next, .op = sum_message, .data = outgoing, .n_bytes = n_out * sizeof *outgoing };
  PsMpiMessage get = { .peer = ring->previous, .op = sum_message, .data = into, .n_bytes = n_in * sizeof *into };
  g_autoptr (PsMpiReceipt) receipt = NULL;
  gboolean sent;

  get.owned = into == NULL && get.n_bytes > PS_MPI_INLINE_BYTES;
  if (get.owned)
    get.data = g_malloc (get.n_bytes);
  ps_mpi_lock ();
  ps_mpi_port_expect (ring->port, &get);
  ps_mpi_port_send (ring->port, &give);
  receipt = ps_mpi_transport_await (ring->transport, ring->port, ring->previous, sum_message, error);
  sent = receipt != NULL && ps_mpi_transport_await_sent (ring->transport, ring->port, ring->next, sum_message, error);
  ps_mpi_unlock ();
  return sent ? g_steal_pointer (&receipt) : NULL;
}

static gboolean
add_share (Ring *ring, guint out, guint in, GError **error)
{
  gsize n_out, n_in;
  float *given = share_at (ring, out, &n_out), *sums = share_at (ring, in, &n_in);
  g_autoptr (PsMpiReceipt) receipt = pass (ring, given, n_out, NULL, n_in, error);

  for (gsize i = 0; receipt != NULL && i < n_in; i++)
    sums[i] += ((const float *)receipt->message.data)[i];
  return receipt != NULL;
}

static gboolean
copy_share (Ring *ring, guint out, guint in, GError **error)
{
  gsize n_out, n_in;
  float *given = share_at (ring, out, &n_out), *sums = share_at (ring, in, &n_in);
  g_autoptr (PsMpiReceipt) receipt = pass (ring, given, n_out, sums, n_in, error);

  if (receipt != NULL && receipt->message.owned && receipt->message.n_bytes > 0)
    memcpy (sums, receipt->message.data, receipt->message.n_bytes);
  return receipt != NULL;
}

static gboolean
go_around (Ring *ring, PsSumHalves halves, GError **error)
{
  guint n_holders = ring->n_holders, own = ring->own + 2 * n_holders;
  gboolean done = TRUE;

  for (guint step = 1; step < n_holders && halves & PS_SUM_SCATTER && done; step++)
    done = add_share (ring, own - step, own - step - 1, error);
  for (guint step = 0; step + 1 < n_holders && halves & PS_SUM_GATHER && done; step++)
    done = copy_share (ring, own - step, own - step - 1, error);
  return done;
}

/* Copies what is under way from the device to `staged`, or back. */
static gboolean
stage (const Ring *ring, gboolean back, GError **error)
{
  PsDevice *device = ring->port->device;
  Ring there = *ring;

  there.staged = NULL;
  for (guint i = 0; i < ring->n_holders; i++)
    {
      gsize n;
      float *values = share_at (&there, i, &n), *copy = share_at (ring, i, &n);

      if (n > 0
          && !(back ? ps_device_write (device, values, copy, n * sizeof *copy, error)
                    : ps_device_read (device, copy, values, n * sizeof *copy, error)))
        return FALSE;
    }
  return TRUE;
}

/* Numbers in other memory than the host's are added up in a copy. It outlives the run, because MPI may still use it
 * when the run is aborted. */
static gboolean
add_up (Ring *ring, PsSumHalves halves, GError **error)
{
  PsMpiPort *port = ring->port;

  if (port->device->class->read == NULL)
    return go_around (ring, halves, error);
  if (port->staged == NULL)
    port->staged = g_new (float, PIECE_FLOATS);
  ring->staged = port->staged;
  return stage (ring, FALSE, error) && go_around (ring, halves, error) && stage (ring, TRUE, error);
}

/* Lets the ring go around the numbers, piece by piece. */
static gboolean
sum (Ring *ring, PsSumHalves halves, float *values, gsize n, GError **error)
{
  ring->values = values;
  ring->n = n;
  ring->length = PIECE_FLOATS / ring->n_holders;
  for (ring->first = 0; ring->n_holders > 1 && ring->first * ring->n_holders < n; ring->first += ring->length)
    if (!add_up (ring, halves, error))
      return FALSE;
  return TRUE;
}

gboolean
ps_mpi_sum (PsTransport *base, guint at, PsCircleKind kind, PsSumHalves halves, float *values, gsize n, GError **error)
{
  PsMpiTransport *transport = (PsMpiTransport *)base;
  const PsCircle circle = ps_circle_of (&transport->setting, at, kind);
  Ring ring = { .transport = transport,
                .port = ps_mpi_transport_port (transport, at),
                .own = circle.own,
                .n_holders = circle.n,
                .next = ps_circle_device (&circle, (circle.own + 1) % circle.n),
                .previous = ps_circle_device (&circle, (circle.own + circle.n - 1) % circle.n) };

  return sum (&ring, halves, values, n, error);
}

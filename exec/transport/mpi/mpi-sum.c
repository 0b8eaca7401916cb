/* mpi-sum.c - sums over the holders of a stage: a ring of messages between them. */
#include "mpi-transport.h"
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
  guint next, previous; /* the devices to send to and to receive from, over all replicas */
} Ring;

/* Share i of n numbers; shares of a ring are counted around. */
static gsize
share_begin (const Ring *ring, gsize n, guint i)
{
  return n * (i % ring->n_holders) / ring->n_holders;
}

static gsize
share_length (const Ring *ring, gsize n, guint i)
{
  return n * (i % ring->n_holders + 1) / ring->n_holders - share_begin (ring, n, i);
}

/* Sends one share and receives another one to `into`. A short share, and one where `into` is NULL, comes in memory of
 * the message's own. The port owns a message until it is there, so that an aborted run leaves MPI no freed memory. */
static PsMpiReceipt *
pass (Ring *ring, float *outgoing, gsize n_out, float *into, gsize n_in, GError **error)
{
  PsMpiMessage give = { .peer = ring->next, .op = sum_message, .data = outgoing, .n_bytes = n_out * sizeof *outgoing };
  PsMpiMessage get = { .peer = ring->previous, .op = sum_message, .data = into, .n_bytes = n_in * sizeof *into };
  g_autoptr (PsMpiReceipt) receipt = NULL;

  get.owned = into == NULL && get.n_bytes > PS_MPI_INLINE_BYTES;
  if (get.owned)
    get.data = g_malloc (get.n_bytes);
  ps_mpi_lock ();
  ps_mpi_port_expect (ring->port, &get);
  ps_mpi_port_send (ring->port, &give);
  receipt = ps_mpi_transport_await (ring->transport, ring->port, ring->previous, sum_message, error);
  ps_mpi_unlock ();
  if (receipt == NULL
      || !ring->transport->base.class->flush (&ring->transport->base,
                                              ring->port->own % ring->transport->setting.n_devices, error))
    return NULL;
  return g_steal_pointer (&receipt);
}

static gboolean
add_share (Ring *ring, float *values, gsize n, guint out, guint in, GError **error)
{
  float *sums = values + share_begin (ring, n, in);
  gsize n_in = share_length (ring, n, in);
  g_autoptr (PsMpiReceipt) receipt
      = pass (ring, values + share_begin (ring, n, out), share_length (ring, n, out), NULL, n_in, error);

  for (gsize i = 0; receipt != NULL && i < n_in; i++)
    sums[i] += ((const float *)receipt->message.data)[i];
  return receipt != NULL;
}

static gboolean
copy_share (Ring *ring, float *values, gsize n, guint out, guint in, GError **error)
{
  float *sums = values + share_begin (ring, n, in);
  g_autoptr (PsMpiReceipt) receipt = pass (ring, values + share_begin (ring, n, out), share_length (ring, n, out), sums,
                                           share_length (ring, n, in), error);

  if (receipt != NULL && receipt->message.owned && receipt->message.n_bytes > 0)
    memcpy (sums, receipt->message.data, receipt->message.n_bytes);
  return receipt != NULL;
}

static gboolean
add_piece (Ring *ring, float *values, gsize n, GError **error)
{
  guint n_holders = ring->n_holders, first = ring->own + n_holders;
  gboolean done = TRUE;

  for (guint step = 0; step + 1 < n_holders && done; step++)
    done = add_share (ring, values, n, first - step, first - step + n_holders - 1, error);
  for (guint step = 0; step + 1 < n_holders && done; step++)
    done = copy_share (ring, values, n, first + 1 - step, first - step + n_holders, error);
  return done;
}

/* Numbers in other memory than the host's are added up in a copy. It outlives the run, because MPI may still use it
 * when the run is aborted. */
static gboolean
add_up (Ring *ring, float *values, gsize n, GError **error)
{
  PsMpiPort *port = ring->port;
  const PsDeviceClass *class = port->device->class;
  PsTensor there = { .device = port->device, .bytes = n * sizeof *values, .data = values };

  if (class->read == NULL)
    return add_piece (ring, values, n, error);
  if (port->staged == NULL)
    port->staged = g_new (float, PIECE_FLOATS);
  return class->read (&there, port->staged, error) && add_piece (ring, port->staged, n, error)
         && class->write (&there, port->staged, error);
}

gboolean
ps_mpi_all_reduce (PsTransport *base, guint at, float *values, gsize n, GError **error)
{
  PsMpiTransport *transport = (PsMpiTransport *)base;
  const PsTransportSetting *setting = &transport->setting;
  guint n_holders = ps_n_holders (setting, at), own = ps_holder_place (setting, at);
  Ring ring = { .transport = transport,
                .port = ps_mpi_transport_port (transport, at),
                .own = own,
                .n_holders = n_holders,
                .next = ps_holder (setting, at, (own + 1) % n_holders),
                .previous = ps_holder (setting, at, (own + n_holders - 1) % n_holders) };

  for (gsize i = 0; i < n && n_holders > 1; i += PIECE_FLOATS)
    if (!add_up (&ring, values + i, MIN (n - i, PIECE_FLOATS), error))
      return FALSE;
  return TRUE;
}

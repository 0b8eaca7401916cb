/* mpi-wait.c - waits for messages of the transport "mpi", and the errors of waits that end without. */
#include "mpi-transport.h"

#include "clock.h"

PsMpiPort *
ps_mpi_transport_port (const PsMpiTransport *transport, guint device)
{
  g_assert (device >= transport->setting.first && device - transport->setting.first < transport->setting.n_here);
  return &transport->ports[device - transport->setting.first];
}

gint64
ps_mpi_transport_deadline (const PsMpiTransport *transport)
{
  return transport->setting.timeout_ns > 0 ? ps_clock_now () + transport->setting.timeout_ns : 0;
}

double
ps_mpi_transport_seconds (const PsMpiTransport *transport)
{
  return (double)transport->setting.timeout_ns / 1e9;
}

gboolean
ps_mpi_fail_aborted (GError **error)
{
  return ps_refuse (error, PS_ERROR_IO, "run aborted");
}

/* "F3.0"; sums have no op of their own. */
static char *
name_of (PsOp op, char name[static 48])
{
  g_strlcpy (name, "its share of a sum", 48);
  return op.kind == PS_OP_O ? name : ps_op_format (op, name);
}

static void
fail_waiting (const PsMpiTransport *transport, const PsMpiPort *port, guint from, PsOp op, gboolean announced,
              GError **error)
{
  guint n = transport->setting.n_devices;
  char name[48];

  if (transport->aborted)
    ps_mpi_fail_aborted (error);
  else if (!announced)
    g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "device %u: waits for %s from device %u without a receive",
                 port->own % n, ps_op_format (op, name), from % n);
  else
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "device %u: waited %g s for %s from device %u of rank %u", port->own % n,
                 ps_mpi_transport_seconds (transport), name_of (op, name), from % n, from / port->n_here);
}

gboolean
ps_mpi_fail_untaken (const PsMpiTransport *transport, const PsMpiPort *port, guint to, PsOp op, GError **error)
{
  guint n = transport->setting.n_devices;
  char name[48];

  return ps_refuse (error, PS_ERROR_IO, "device %u: waited %g s for device %u of rank %u to take %s", port->own % n,
                    ps_mpi_transport_seconds (transport), to % n, to / port->n_here, name_of (op, name));
}

PsMpiReceipt *
ps_mpi_transport_await (PsMpiTransport *transport, PsMpiPort *port, guint from, PsOp op, GError **error)
{
  PsMpiReceipt *receipt = ps_mpi_port_find (port, from, op);
  PsMpiWait wait;

  ps_mpi_wait_begin (&wait, &port->changed, ps_mpi_transport_deadline (transport));
  while (receipt != NULL && !transport->aborted && !ps_mpi_receipt_is_complete (receipt) && ps_mpi_wait_more (&wait))
    ;
  ps_mpi_wait_end (&wait);
  if (receipt == NULL || transport->aborted || !ps_mpi_receipt_is_complete (receipt))
    {
      fail_waiting (transport, port, from, op, receipt != NULL, error);
      return NULL;
    }
  ps_mpi_port_take (port, receipt);
  return receipt;
}

gboolean
ps_mpi_transport_await_sent (PsMpiTransport *transport, PsMpiPort *port, guint to, PsOp op, GError **error)
{
  PsMpiWait wait;

  ps_mpi_wait_begin (&wait, &port->changed, ps_mpi_transport_deadline (transport));
  while (!ps_mpi_port_has_sent (port, to, op) && !transport->aborted && ps_mpi_wait_more (&wait))
    ;
  ps_mpi_wait_end (&wait);
  if (transport->aborted)
    return ps_mpi_fail_aborted (error);
  return ps_mpi_port_has_sent (port, to, op) || ps_mpi_fail_untaken (transport, port, to, op, error);
}

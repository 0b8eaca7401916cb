/* mpi-transport.h - the class that the module pipesim-mpi exports, and an open transport, which its files share. */
#pragma once

#include "mpi-port.h"

#include <gmodule.h>

G_MODULE_EXPORT const PsTransportClass *ps_mpi_transport_class (void);

typedef struct
{
  PsTransport base;
  PsTransportSetting setting;
  PsMpiClient client;
  gboolean aborted;
  PsMpiPort *ports; /* [n_here] */
} PsMpiTransport;

PsMpiPort *ps_mpi_transport_port (const PsMpiTransport *transport, guint device);

/* When a wait that begins now ends; 0: never. */
gint64 ps_mpi_transport_deadline (const PsMpiTransport *transport);

/* The time for which a wait lasts at most. */
double ps_mpi_transport_seconds (const PsMpiTransport *transport);

/* Sleeps until the message of that name is there, and takes it out; it fails after the transport's timeout. Free with
 * ps_mpi_receipt_free. Locked. */
PsMpiReceipt *ps_mpi_transport_await (PsMpiTransport *transport, PsMpiPort *port, guint from, PsOp op, GError **error);

/* Sleeps until ps_mpi_port_has_sent; the receiver may still have to take the message. Locked. */
gboolean ps_mpi_transport_await_sent (PsMpiTransport *transport, PsMpiPort *port, guint to, PsOp op, GError **error);

gboolean ps_mpi_fail_aborted (GError **error);

/* Nobody has taken a message in time. */
gboolean ps_mpi_fail_untaken (const PsMpiTransport *transport, const PsMpiPort *port, guint to, PsOp op,
                              GError **error);

/* PsTransportClass.sum: a ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", 2009): each device of a circle adds its own to what comes from the one before, each a share of the
 * numbers, and then passes on sums. Each half is one way around the ring. The order of additions is fixed, so all of
 * them get the same bits in every run. */
gboolean ps_mpi_sum (PsTransport *transport, guint at, PsCircleKind kind, PsSumHalves halves, float *values, gsize n,
                     GError **error);

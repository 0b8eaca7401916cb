/* transports.h - the transport classes that the table lists; each is defined in its own folder. */
#ifndef PIPESIM_EXEC_TRANSPORTS_H
#define PIPESIM_EXEC_TRANSPORTS_H

#include <pipesim/transport.h>

G_BEGIN_DECLS

/* Equal for two ops that name the same message: B and BW hand on the same thing. */
static inline guint64
ps_message_key (PsOp op)
{
  guint64 kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;

  return kind << 56 | (guint64)op.slice << 48 | (guint64)op.stage << 32 | op.microbatch;
}

/* The class in the module pipesim-NAME, by its function ps_NAME_transport_class; NULL with an error when it can't be
 * loaded. For rows of the table that stand for a module: the hooks of an open transport are those of its own class. */
const PsTransportClass *ps_transport_load (const char *name, GError **error);

extern const PsTransportClass ps_threads_transport; /* between threads of one process */
extern const PsTransportClass ps_mpi_transport;     /* the row of the module pipesim-mpi */
extern const PsTransportClass ps_nccl_transport;    /* the row of the module pipesim-nccl */

G_END_DECLS

#endif

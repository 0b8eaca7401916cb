/* transports.h - what transport classes share, and the class that is in no module. */
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

extern const PsTransportClass ps_threads_transport; /* between threads of one process */

G_END_DECLS

#endif

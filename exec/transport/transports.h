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

/* The devices with the same stages as `at`: itself and its twin, replica after replica. Each call of all_reduce is one
 * of theirs. */
static inline guint
ps_holders_per_replica (const PsTransportSetting *setting, guint at)
{
  return setting->twin != NULL && setting->twin[at] != at ? 2 : 1;
}

static inline guint
ps_n_holders (const PsTransportSetting *setting, guint at)
{
  return setting->n_replicas * ps_holders_per_replica (setting, at);
}

/* The place of `at` among its holders. */
static inline guint
ps_holder_place (const PsTransportSetting *setting, guint at)
{
  guint n = ps_holders_per_replica (setting, at);

  return setting->replica * n + (n > 1 && at > setting->twin[at]);
}

/* The holder at a place, counted over all replicas. */
static inline guint
ps_holder (const PsTransportSetting *setting, guint at, guint place)
{
  guint n = ps_holders_per_replica (setting, at);
  guint second = n > 1 ? MAX (at, setting->twin[at]) : at, first = n > 1 ? MIN (at, setting->twin[at]) : at;

  return place / n * setting->n_devices + (place % n == 0 ? first : second);
}

extern const PsTransportClass ps_threads_transport; /* between threads of one process */

G_END_DECLS

#endif

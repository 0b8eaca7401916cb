/* drain.h - the order of one round of an endless run. Private to libpipesim. */
#pragma once

#include <pipesim/program.h>

typedef struct
{
  guint32 *sequence; /* [n_ops] indices into schedule->ops: devices' orders merged so that an op's inputs of its own
                        round come before it */
  guint8 *ahead;     /* [n_ops] 1 for ops that a device runs for the next iteration already */
} PsDrain;

/* Synchronous schedules run as they are. In an asynchronous schedule each device runs its warm-up, the forwards before
 * its first backward, one iteration ahead. One of them follows each backward of its drain, the ops after its last
 * forward. Orders that cannot run so, and orders with pairs, are left as they are. */
void ps_drain_init (PsDrain *drain, const PsProgram *program);
void ps_drain_clear (PsDrain *drain);

/* Calls `op` for each op of a round in the merged order, and after it `message` for each message that it makes, by its
 * number from 1 on: PS_COMM_ASAP would order the round so if it were a schedule. */
typedef void (*PsDrainOp) (gpointer data, guint op);
typedef void (*PsDrainMessage) (gpointer data, guint32 number);
void ps_drain_walk (const PsDrain *drain, const PsProgram *program, PsDrainOp op, PsDrainMessage message,
                    gpointer data);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsDrain, ps_drain_clear)

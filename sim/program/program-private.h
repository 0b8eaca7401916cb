/* program-private.h - the order of sends and receives in a program, and of the rounds of an endless run. Private to
 * libpipesim. */
#pragma once

#include <pipesim/program.h>

/* Notes where sends and receives stand. Must follow every change of the streams. */
void ps_program_note_places (PsProgram *program);

/* Writes the streams as PS_COMM_ASAP or PS_COMM_DEFERRED has them. */
void ps_program_stream (PsProgram *program);

/* Rewrites the streams so that all devices keep to one order of transfers: by the start, then the end, then the
 * consumer of each. start_ns and end_ns are [n_steps]. They tell the transfer of a step's input in some run of the
 * program, after its producer and before its consumer. A send stands right after its producer. A receive stands as
 * early as the order allows (op_end_ns NULL), or after the ops that had ended when its transfer started (op_end_ns as
 * PsSimulation.end_ns).
 *
 * No channel model can deadlock then. The first transfer of the order that has not happened is the next one on both its
 * ends, and its producer waits for earlier transfers only. Nothing happens later than in the run if every transfer
 * takes as long, and the run's channels were in order. Each channel carries the same transfers in the same order. */
void ps_program_arrange (PsProgram *program, const gint64 *start_ns, const gint64 *end_ns, const gint64 *op_end_ns);

/* Lowers as ps_program_lower in PS_COMM_ASAP. n_reduce: the actions after the last backward of a stage; with its wait,
 * as of PyTorch 2.15, 2. left [n_ops] gets for each message the actions of weights that its receiver has yet to do
 * before its next op when it comes to the receive. */
PsProgram *ps_program_lower_noting (PsSchedule *schedule, guint n_reduce, guint8 *left, GError **error);

/* What is wrong with a send, receive or wait: its counterparts, or its place; NULL: nothing. *instruction is its place
 * on *device, from 0. */
const char *ps_program_find_fault (const PsProgram *program, guint *device, guint *instruction);

/* The order of one round of an endless run. */
typedef struct {
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

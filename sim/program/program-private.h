/* program-private.h - functions that lowering and planning share. Private to libpipesim. */
#pragma once

#include <pipesim/program.h>

/* The SEND, RECEIVE or WAIT of a message, counted from 1. */
static inline PsInstruction
ps_program_instruction (const PsProgram *program, PsInstructionType type, guint32 message)
{
  const PsMessage *about = &program->messages[message - 1];

  return (PsInstruction){ .type = (guint16)type,
                          .peer = type == PS_INSTRUCTION_SEND ? about->receiver : about->sender,
                          .message = message,
                          .op = about->op };
}

/* Writes the steps, messages and peaks of a new program, whose instructions are counted. */
gboolean ps_program_walk (PsProgram *program, GError **error);

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

/* The same for ops of one length (BW two) and transfers that take no time and do not queue. */
void ps_program_arrange_units (PsProgram *program);

/* Rewrites the streams with the sends and receives of the schedule's posts. */
void ps_program_follow (PsProgram *program);

/* Moves every receive down to its wait, or to the wait of a later message of the same sender that comes first. */
void ps_program_hold_receives (PsProgram *program);

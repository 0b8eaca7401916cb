/* program-private.h - functions that lowering and planning share. Private to libpipesim. */
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

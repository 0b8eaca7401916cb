/* program-private.h - what lowering and planning share. Private to libpipesim. */
#ifndef PIPESIM_PROGRAM_PRIVATE_H
#define PIPESIM_PROGRAM_PRIVATE_H

#include <pipesim/program.h>

G_BEGIN_DECLS

/* Notes where receives stand in the streams (posted); after every change of them. */
void ps_program_note_posts (PsProgram *program);

/* Rewrites the streams so that all devices keep to one order of transfers: by the start, then the end, then the
 * consumer of each. start_ns and end_ns are [n_steps] and say when the transfer of a step's input took place in some
 * run of the program: behind its producer, before its consumer. A send stands behind its producer; a receive stands as
 * far in front as the order allows (op_end_ns NULL) or behind the ops that had ended when its transfer started
 * (op_end_ns as PsSimulation.end_ns).
 *
 * What follows: no channel model can deadlock, because the first transfer of the order that has not happened is the
 * next one on both its ends, and all that its producer waits for is in front of it. And where every transfer takes as
 * long as in the run, and the run's channels were in order, nothing happens later than in the run: each channel carries
 * the same transfers in the same order. */
void ps_program_arrange (PsProgram *program, const gint64 *start_ns, const gint64 *end_ns, const gint64 *op_end_ns);

/* The same for ops of one length (BW two) and transfers that take no time and do not queue. */
void ps_program_arrange_units (PsProgram *program);

/* Rewrites the streams with the sends and receives of the schedule's posts. */
void ps_program_follow (PsProgram *program);

G_END_DECLS

#endif

/* reductions.h - the all-reduces of gradients: the steps that they wait for, and when a device is done with them.
 * Private to libpipesim. */
#pragma once

#include <pipesim/iterations.h>

#define PS_NO_STEP G_MAXUINT32

/* The steps that complete a program's gradients, and the order in which each device reduces them. */
typedef struct
{
  guint32 *last_step; /* [n_copies * n_stages] step at whose end the gradients of that copy are complete; PS_NO_STEP: no
                         microbatch uses it */
  guint *first;       /* [n_devices + 1] into held */
  guint *held; /* [n_copies * n_stages] copy * n_stages + stage, by device, then in the order of their last ops */
} PsReductions;

void ps_reductions_init (PsReductions *reductions, const PsProgram *program);
void ps_reductions_clear (PsReductions *reductions);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsReductions, ps_reductions_clear)

/* Takes the steps and the order from a simulation whose devices may have run their ops in another order than the
 * program's (ready order). */
void ps_reductions_follow (PsReductions *reductions, const PsProgram *program, const PsSimulation *simulation);

/* When a device is done with its all-reduces. The last op of a device is a W or BW. */
gint64 ps_reductions_end_ns (const PsReductions *reductions, const PsProgram *program, const PsCosts *costs,
                             const PsSimulation *simulation, guint device, PsReduce reduce);

/* zb-greedy.h - the heuristic of the zero-bubble paper for one chunk per device. */
#ifndef PIPESIM_ZB_GREEDY_H
#define PIPESIM_ZB_GREEDY_H

#include "plan.h"

/* The three switches that it tries in all combinations. */
typedef struct
{
  gboolean bubble_before_backward; /* the warm-up may leave a gap before the first B rather than overrun its arrival */
  gboolean backward_first;         /* a stage two forwards ahead of the next one may skip its F in favour of the B */
  gboolean fill_gaps; /* a W goes into a gap that is too short for it even where the gap would do no harm */
} PsZbSwitches;

/* Clears the plan and makes it complete. It may end up above a memory limit that leaves too little room for more than
 * one microbatch. */
void ps_zb_greedy (PsPlan *plan, PsZbSwitches switches);

#endif

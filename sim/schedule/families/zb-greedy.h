/* zb-greedy.h - the heuristic of the zero-bubble paper for one chunk per device. */
#pragma once

#include "draft.h"

/* The three switches that it tries in all combinations. */
typedef struct
{
  gboolean bubble_before_backward; /* the warm-up may leave a gap before the first B rather than overrun its arrival */
  gboolean backward_first;         /* a stage two forwards ahead of the next one may skip its F in favour of the B */
  gboolean fill_gaps; /* a W goes into a gap that is too short for it even where the gap would do no harm */
} PsZbSwitches;

/* The switches that mattered: for the others the setting without the bit does the same. */
#define PS_ZB_USED_GAPS 1U
#define PS_ZB_USED_BACKWARD 2U
#define PS_ZB_USED_WARMUP 4U

/* Clears the draft and makes it complete; adds to *used. It may end up above a memory limit that leaves too little room
 * for more than one microbatch. FALSE: it would be longer than length_ns; the draft is useless then. */
gboolean ps_zb_greedy (PsDraft *draft, PsZbSwitches switches, gint64 length_ns, guint *used);

/* v-greedy.h - the heuristic of the zero-bubble paper on a V. */
#ifndef PIPESIM_V_GREEDY_H
#define PIPESIM_V_GREEDY_H

#include "draft.h"

typedef struct
{
  gboolean fill_backward; /* a W goes into a gap in front of a B of the far chunk that is too short for it, where the
                             gap would do harm */
  gboolean fill_forward;  /* likewise in front of an F */
  const gint64 *idle_ns;  /* [n_devices] idle time of an earlier try, by which a device may fall behind the worst one;
                             NULL: none */
  gint64 give_up_ns;      /* a device that idles so long ends the try */
  gint64 length_ns;       /* so does a draft that would be longer */
} PsVSwitches;

/* The switches that came to matter: without the bit the other setting does the same. */
#define PS_V_USED_FORWARD 1U
#define PS_V_USED_BACKWARD 2U

/* Clears the draft and makes it complete; adds to *used. FALSE: some device came to a point where no W was left to make
 * room, or idled too long; the draft is useless then. */
gboolean ps_v_greedy (PsDraft *draft, const PsVSwitches *switches, guint *used);

#endif

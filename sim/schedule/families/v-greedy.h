/* v-greedy.h - the heuristic of the zero-bubble paper on a V. */
#pragma once

#include "draft.h"

typedef struct
{
  gboolean fill_backward; /* a W goes into a gap before a B of the far chunk that is too short for it, where the gap
                             would do harm */
  gboolean fill_forward;  /* the same before an F */
  const gint64 *idle_ns;  /* [n_devices] idle time of an earlier try; it allows a device to idle for longer than it
                             would otherwise; NULL: none */
  gint64 give_up_ns;      /* a device that idles so long ends the try */
  gint64 length_ns;       /* a draft longer than this ends the try, too */
} PsVSwitches;

/* The switches that mattered: for the others the setting without the bit does the same. */
#define PS_V_USED_FORWARD 1U
#define PS_V_USED_BACKWARD 2U

/* Clears the draft and makes it complete; adds to *used. FALSE: the draft is useless. A device had no W left to make
 * room, or idled too long. */
gboolean ps_v_greedy (PsDraft *draft, const PsVSwitches *switches, guint *used);

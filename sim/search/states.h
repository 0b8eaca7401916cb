/* states.h - all that one device can have done at some moment, within its memory, and the steps between. A path from
 * nothing to everything is an order of the device's ops; so the ops' windows follow from all paths at once. */
#pragma once

#include "problem.h"

/* Times before everything, and after everything: all times of an iteration add up to less than 2^62. */
#define NEVER (G_MAXINT64 / 2)

/* Lanes of a device, at most. */
#define PS_MAX_LANES 48

/* Ops that a device runs in a fixed order: those of one F or B chain, or the W of all chains with equal costs. */
typedef struct
{
  guint n;     /* ops */
  guint first; /* index of the first one's window */
  guint shift; /* of the number of ops done, in the key of a state */
  guint mask;  /* of this number */
  gint64 duration;
  gint64 take;
  gint64 give;
  guint n_chains;
  guint *chain; /* [n_chains] */
  guint needs;  /* bit set of lanes: each of them has to be ahead of this one, of W all together */
} PsLane;

typedef struct
{
  guint n_lanes;
  PsLane *lane;
  guint n_windows;
  guint n_states;
  guint64 *key;   /* [n_states] how many ops of each lane are done; states with fewer ops come first */
  guint32 *child; /* [n_states * n_lanes] state after one more op of the lane; 0: it cannot follow */
  guint32 from;   /* state that the device is known to reach; 0 at first */
  gint64 ready;   /* least time at which it is there */
  guint n_open;
  guint32 *open; /* [n_open] states that a path within the windows can have, in order */
  gint64 *early; /* [n_states] least time at which the device can be there */
  gint64 *late;  /* [n_states] latest time from which it can end all ops within their windows */
} PsStates;

static inline guint
n_done (const PsLane *lane, guint64 key)
{
  return (guint)(key >> lane->shift) & lane->mask;
}

/* NULL: there are more than max_states, or no order keeps to the limit (bytes). */
PsStates *ps_states_new (const PsProblem *problem, guint device, gint64 limit, guint max_states);
void ps_states_free (PsStates *states);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsStates, ps_states_free)

/* Opens all states, for windows of any width. */
void ps_states_open (PsStates *states);

/* Closes the states that the last narrowing left no path through; windows within those of now have none either. */
void ps_states_close (PsStates *states);

/* Narrows windows, which are [n_windows]: the earliest start and the latest end of an op, of the ops after
 * states->from. FALSE: no order of the device keeps to them. */
gboolean ps_states_narrow (PsStates *states, gint64 *start, gint64 *end);

/* follow.h - how far list scheduling has followed a plan: which ops have their turn, and which may run before it. */
#pragma once

#include "problem.h"

/* The order that ops are to run in. List scheduling need not keep to it. */
typedef struct
{
  guint32 *list; /* [n_ops] F and B of each device in order, from problem->first on */
  guint8 *n_w;   /* [n_ops] W that have room after the op at that place. NULL: W run wherever the device would wait */
  guint n_last;  /* F and B run as soon as they can when this number of F of the device's first stage is left */
} PsPlan;

typedef struct
{
  const PsProblem *problem;
  const PsPlan *plan;
  guint32 *place;  /* [n_ops] of F and B in the list; NO_OP: they have run */
  gint64 *level;   /* [n_ops] most memory that the device takes for the op at a place, and for its W right after it */
  guint32 *turn;   /* [n_devices] place of the first op that has not run */
  guint *n_w;      /* [n_devices] W that have room before it */
  gboolean *has_b; /* [n_devices] whether a B has run */
  guint *n_left;   /* [n_devices] F of the device's first stage that have not run */
} PsFollow;

PsFollow *ps_follow_new (const PsProblem *problem, const PsPlan *plan);
void ps_follow_free (PsFollow *follow);

/* What the score of an op is to be above its start, in ns; G_MAXINT64: it has to wait. w_penalty is that of a W
 * wherever the device would wait. */
gint64 ps_follow_penalty (const PsFollow *follow, guint device, guint op, gint64 w_penalty);

/* Whether the device has room for an F or B before its turn. */
gboolean ps_follow_has_room (const PsFollow *follow, guint device, guint op);

/* Takes note that an op runs. */
void ps_follow_run (PsFollow *follow, guint device, guint op);

/* The F or B that has its turn; NO_OP: none is left. */
static inline guint
ps_follow_turn (const PsFollow *follow, guint device)
{
  const guint *first = follow->problem->first;
  guint end = first[device] + (first[device + 1] - first[device]) / N_KINDS * 2, turn = follow->turn[device];

  return turn < end ? follow->plan->list[turn] : NO_OP;
}

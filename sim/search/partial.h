/* partial.h - a schedule in the making: the ops placed, when each device is free, and which steps are possible. */
#pragma once

#include "order.h"
#include "random.h"

typedef struct
{
  guint width;  /* partial schedules kept per op placed */
  double blend; /* weight of the devices' mean bound, against the largest bound, in the rank */
  double noise; /* ns, random addition */
  PsRandom random;
  gint64 stop_at_ns;                 /* a schedule must be better than this to be returned */
  gboolean (*go_on) (gpointer data); /* called before each partial schedule is continued; FALSE ends the search */
  gpointer data;
} PsBeam;

/* Builds schedules op by op as branch and bound does (ps_exact_solve) but keeps the best `width` of each size. TRUE:
 * order is evaluated, a solution, and better than stop_at_ns. */
gboolean ps_beam_search (PsOrder *order, PsBeam *beam);

/* Whether the problem is small enough, keeps the limit asked for, and gains nothing by joining ops. No B or W may have
 * to wait for memory: each gives back at least what it takes, or everything fits on its device. */
gboolean ps_exact_can_decide (const PsProblem *problem);

/* Improves `best` (evaluated). TRUE: it is proved optimal; FALSE: go_on returned FALSE, or the states remembered grew
 * too many. go_on is called every few nodes.
 *
 * Schedules are built op by op. A step takes the device whose next op can end first. Each of its ops that could start
 * before that moment may be the next (Giffler and Thompson, Operations Research 8, 1960). A forward that fits the
 * memory now may have to wait for a later one, so a device may also refuse its available forwards until it has done
 * something else. A branch ends where a bound on one device (work between a release and a tail) reaches the best
 * objective. It also ends where a state with the same ops done was reached before, with no time later. */
gboolean ps_exact_solve (PsOrder *best, gboolean (*go_on) (gpointer data), gpointer data);

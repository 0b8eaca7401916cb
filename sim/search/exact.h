/* exact.h - branch and bound: decides whether any order is better than a given one. */
#pragma once

#include "order.h"

/* The largest problems. */
#define EXACT_MAX_OPS 320
#define EXACT_MAX_DEVICES 16
#define EXACT_MAX_STAGES 32

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

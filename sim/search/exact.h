/* exact.h - branch and bound: decides whether any order is better than a given one. */
#ifndef PS_SEARCH_EXACT_H
#define PS_SEARCH_EXACT_H

#include "order.h"

G_BEGIN_DECLS

/* The largest problems. */
#define EXACT_MAX_OPS 320
#define EXACT_MAX_DEVICES 16
#define EXACT_MAX_STAGES 32

/* Whether the problem is small enough and has the limit asked for, nothing is to be gained by joining ops, and no B or
 * W could have to wait for memory, as only forwards can here: none leaves its device with more memory in use than
 * before, or the device has room for everything. */
gboolean ps_exact_can_decide (const PsProblem *problem);

/* Improves `best` (evaluated). TRUE: it is proved optimal; FALSE: go_on said no, or what is remembered grew too large.
 * Schedules are built op by op: of the device whose next op can
 * end first, every op that could start before that moment may be the next (Giffler and Thompson, Operations Research 8,
 * 1960); as a forward that fits the memory now may have to wait for one that is not there yet, a device may also refuse
 * the forwards at hand until it has done something else. A branch ends where a bound on one device (work between a
 * release and a tail) meets the best objective, or where a state with the same ops done was reached no later before.
 * go_on is asked with every few nodes. */
gboolean ps_exact_solve (PsOrder *best, gboolean (*go_on) (gpointer data), gpointer data);

G_END_DECLS

#endif

/* bound.h - no schedule can be faster than this. */
#ifndef PIPESIM_BOUND_H
#define PIPESIM_BOUND_H

#include <pipesim/costs.h>
#include <pipesim/schedule.h>

G_BEGIN_DECLS

/* A proven lower bound on the makespan of any synchronous schedule of n_microbatches with this placement and these
 * costs, whatever its order and memory: per device: the earliest moment at which any of its stages can receive a
 * microbatch (sum of the forwards and transfers before it) + all its work; per microbatch: all forwards, all backwards
 * for the input and the transfers between them, then W of stage 0. The largest of these. W may be split off or fused:
 * min (B + W, BW) counts as work. Where a device has a cost for pairs, a forward counts as min (pair, F + its shortest
 * backward), so that pairs never break the bound. copy is as in PsSchedule (NULL: all copy 0). */
gint64 ps_lower_bound (const PsPlacement *placement, const guint8 *copy, guint n_microbatches, const PsCosts *costs);

G_END_DECLS

#endif

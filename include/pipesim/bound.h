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
 * min (B + W, BW) counts as work. Where pairs have a time of their own, those that save most count, and on its way back
 * a microbatch takes the least that a B takes alone, fused or in a pair, so that pairs never break the bound. copy is
 * as in PsSchedule (NULL: all copy 0). docs/bounds.md has the proofs. */
gint64 ps_lower_bound (const PsPlacement *placement, const guint8 *copy, guint n_microbatches, const PsCosts *costs);

/* A proven lower bound on the time per iteration of any schedule with this placement and these costs whose iterations
 * overlap (asynchronous schedules, --sync bypass): all the work of the busiest device. Arguments as above. */
gint64 ps_period_bound (const PsPlacement *placement, const guint8 *copy, guint n_microbatches, const PsCosts *costs);

typedef enum
{
  PS_OBJECTIVE_MAKESPAN, /* first op start to last op end over all devices: --sync global */
  PS_OBJECTIVE_SPAN,     /* longest span of a device, which bounds the period where devices go on without a common
                            synchronisation: --sync bypass */
} PsObjective;

/* A proven lower bound on the objective of any schedule, with backwards split, fused or in pairs, that keeps every
 * device within memory_limit (bytes, weights included; NULL: none); of two weight copies each has half of the
 * microbatches (the first one more of an odd number). Per device d, with load L (all its work, at least), begin A (the
 * first microbatch's arrival) and t, the earliest arrival of a gradient: all forwards and transfers, then the backwards
 * above d's highest stage k, the forwards that fit the limit at once
 * - warm-up: before t the device can only do forwards, and no more than k: idle I >= t - A - (time of k forwards), so
 *   it ends at A + I + L or later.
 * - drain: when its last forward (of stage h) has ended, what is left to do on d is bounded by what the limit holds, R;
 *   and that forward's own backward comes back after g, all forwards and backwards above h with their transfers. So it
 *   ends at A + I + L - R + g + (backward and W of h) or later, and the pipeline after the backwards below h and W of
 *   stage 0. I counts here only where k is less than all forwards of d: else both idle times may be the same.
 * - pairs: before t and after the last forward nothing runs in pairs, so what is not idle there saves nothing.
 * The largest of these and others of docs/bounds.md, for the makespan never less than ps_lower_bound. */
gint64 ps_lower_bound_within (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                              const gint64 *memory_limit, PsObjective objective);

G_END_DECLS

#endif

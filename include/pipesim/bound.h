/* bound.h - times that no schedule can beat. */
#ifndef PIPESIM_BOUND_H
#define PIPESIM_BOUND_H

#include <pipesim/costs.h>
#include <pipesim/schedule.h>

G_BEGIN_DECLS

/* A proven lower bound on the makespan of any synchronous schedule of n_microbatches with this placement and these
 * costs, whatever its order and memory. It is the largest of these:
 * - per device, the earliest moment at which one of its stages can receive a microbatch (sum of the forwards and
 *   transfers before it), plus all its work;
 * - per microbatch, all forwards, all backwards for the input and the transfers between them, then W of stage 0.
 * W may be split off or fused: min (B + W, BW) counts as work. If pairs have a time of their own, the pairs that save
 * most count. On its way back a microbatch then takes the least time of a B alone, fused or in a pair. copy is as in
 * PsSchedule (NULL: all copy 0). docs/bounds.md has the proofs. */
gint64 ps_lower_bound (const PsPlacement *placement, const guint8 *copy, guint n_microbatches, const PsCosts *costs);

/* A proven lower bound on the time per iteration of any schedule whose iterations overlap (asynchronous schedules,
 * --sync bypass): all the work of the busiest device. Arguments as in ps_lower_bound. */
gint64 ps_period_bound (const PsPlacement *placement, const guint8 *copy, guint n_microbatches, const PsCosts *costs);

typedef enum
{
  PS_OBJECTIVE_MAKESPAN, /* first op start to last op end over all devices: --sync global */
  PS_OBJECTIVE_SPAN,     /* longest span of a device, which bounds the period if devices go on without meeting: --sync
                            bypass */
} PsObjective;

/* A proven lower bound on the objective of any schedule, with backwards split, fused or in pairs, that keeps every
 * device within memory_limit (bytes, weights included; NULL: none). With two weight copies each has half of the
 * microbatches; the first one has one more of an odd number.
 *
 * Per device d let L be its load (all its work, at least) and A the arrival of its first microbatch. t is the earliest
 * arrival of a gradient: after all forwards and transfers, then the backwards above d's highest stage. k is the number
 * of forwards that fit the limit at once.
 * - warm-up: before t the device can only do forwards, at most k of them. It idles for I >= t - A - (time of k
 *   forwards), so it ends at A + I + L or later.
 * - drain: after d's last forward, of stage h, the work left is at most R, because of the limit. The backward of that
 *   forward comes back after g, all forwards and backwards above h with their transfers. So d ends at A + I + L - R + g
 *   + (backward and W of h) or later. The pipeline ends later by the backwards below h and W of stage 0. I counts here
 *   only if k is less than all forwards of d; else both idle times may be the same.
 * - pairs: before t and after the last forward nothing runs in pairs, so pairs save nothing of the work done there.
 * The bound is the largest of these and others of docs/bounds.md; for the makespan it is never below ps_lower_bound. */
gint64 ps_lower_bound_within (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                              const gint64 *memory_limit, PsObjective objective);

G_END_DECLS

#endif

/* bound.h - no schedule can be faster than this. Costs lack no host time here (ps_costs_add_host_time). */
#ifndef PIPESIM_BOUND_H
#define PIPESIM_BOUND_H

#include <pipesim/costs.h>
#include <pipesim/simulate.h>

G_BEGIN_DECLS

/* A proven lower bound on the makespan of any schedule with the placement, weight copies, slices, microbatches and R of
 * this one, whatever its order and memory. It is the largest of two sorts of sums:
 * - per device: the earliest moment at which any of its stages can receive a microbatch (sum of the forwards and
 *   transfers before it), and all its work;
 * - per microbatch: all forwards, all backwards for the input, the transfers between them, then W of stage 0.
 *
 * W may be split off or fused: min (B + W, BW) counts as work. Pairs with a time of their own never break the bound:
 * the pairs that save most count. A B on the path back takes the least of its times alone, fused and in a
 * pair. docs/bounds.md has the proofs.
 *
 * Where iterations overlap (asynchronous schedules, --sync bypass) it is one on the period: all the work of
 * the busiest device. A slice counts as a microbatch: its chain through the stages is as short as that of a microbatch
 * of its size.
 *
 * Where microbatches have different lengths, everything takes the least times (ps_costs_least), and the work of a
 * device is that of all its microbatches. Two copies may share the microbatches as they like, so that only the work of
 * all devices together is certain. Where no pair has a time of its own, the path of the longest microbatch counts as
 * well; where one has, least work counts: a longer microbatch may save more in it. */
gint64 ps_schedule_bound (const PsSchedule *schedule, const PsCosts *costs, gboolean overlaps);

typedef enum {
  PS_OBJECTIVE_MAKESPAN, /* first op start to last op end over all devices: --sync global */
  PS_OBJECTIVE_SPAN,     /* longest span of a device, which bounds the period where devices go on without a common
                            synchronisation: --sync bypass */
} PsObjective;

static inline PsObjective ps_sync_objective (PsSync sync)
{
  return sync == PS_SYNC_BYPASS ? PS_OBJECTIVE_SPAN : PS_OBJECTIVE_MAKESPAN;
}

/* A proven lower bound on the objective of any schedule, with backwards split, fused or in pairs, that keeps every
 * device within memory_limit (bytes, weights included; NULL: none). With two weight copies each copy has half of the
 * microbatches, the first one more of an odd number.
 *
 * Device d has the load L (all its work, at least) and begins at A, when its first microbatch arrives. t is the
 * earliest arrival of a gradient: all forwards and transfers, then the backwards above d's highest stage. k is the
 * number of forwards that fit the limit at once.
 * - warm-up: before t the device can only do forwards, k at most. It idles for I >= t - A - (time of k forwards), and
 *   ends at A + I + L or later.
 * - drain: when its last forward (of stage h) has ended, the limit bounds the work that is left on d by R. That
 *   forward's own backward comes back after g: all forwards and backwards above h with their transfers. So d ends at A
 *   + I + L - R + g + (backward and W of h) or later. The pipeline ends after the backwards below h and W of stage 0. I
 *   counts here only where k is less than all forwards of d: else both idle times may be the same.
 * - pairs: nothing runs in pairs before t and after the last forward, so work there saves nothing.
 *
 * The bound is the largest of these and others of docs/bounds.md, and for the makespan never less than the sums
 * of ps_schedule_bound.
 */
gint64 ps_lower_bound_within (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                              const gint64 *memory_limit, PsObjective objective);

/* A proven lower bound on the makespan where transfers queue on channels (model: that of events->comm), hold up their
 * devices (blocking) or slow them down (overlap_slowdown): what an end of a channel carries, between the earliest start
 * of any of its transfers and the least time after it; or a device's work, which they slow down. Messages that are
 * eager count for their sender alone. 0: nothing queues or slows, or links are shared. Copies share microbatches as
 * above. */
gint64 ps_lower_bound_channels (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                                const PsEventsSetting *events, const PsChannelModel *model);

G_END_DECLS

#endif

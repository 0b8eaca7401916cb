/* zb-plan.h - a schedule of one chunk per device with split backwards while it is being made: ops are put one after the
 * other, and their times and memory are known at once, by the simulator's recurrence. Ops of one kind go by microbatch,
 * so an order is a list of kinds. */
#ifndef PIPESIM_ZB_PLAN_H
#define PIPESIM_ZB_PLAN_H

#include "families-private.h"

#define PS_PLAN_KINDS 3 /* F, B, W */

typedef struct
{
  gint64 duration_ns[PS_PLAN_KINDS];
  gint64 take_bytes[PS_PLAN_KINDS];
  gint64 give_bytes[PS_PLAN_KINDS];
  gint64 forward_ns;  /* transfer of its F to the next stage */
  gint64 backward_ns; /* transfer of its B to the previous stage */
  gint64 weight_bytes;
  gint64 limit_bytes; /* weights included */
  gint64 now_ns;      /* end of its last op */
  gint64 start_ns;    /* start of its first op */
  gint64 idle_ns;     /* since then */
  gint64 held_bytes;
  gint64 peak_bytes;
  guint done[PS_PLAN_KINDS];
  guint8 *kinds;     /* [3 m] in order */
  gint64 *end_ns[2]; /* [m] of F and of B */
} PsPlanStage;

typedef struct
{
  guint n_stages;
  guint n_microbatches;
  PsPlanStage *stage;
  gint64 idle_ns; /* most idle time of a stage */
} PsPlan;

PsPlan *ps_plan_new (const PsFamilySetting *setting);
void ps_plan_free (PsPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPlan, ps_plan_free)

/* Back to no ops. */
void ps_plan_clear (PsPlan *plan);

/* When the input of the stage's next op of that kind is there; it must have been put. 0 where it needs none. */
gint64 ps_plan_arrival (const PsPlan *plan, guint stage, PsOpKind kind);
void ps_plan_put (PsPlan *plan, guint stage, PsOpKind kind);

/* Whether an F would leave room for itself and for the B and the W that must be able to follow it. */
gboolean ps_plan_has_room (const PsPlanStage *stage, gint64 held_bytes);

/* Ws whose B is done. */
static inline guint
ps_plan_pending (const PsPlanStage *stage)
{
  return stage->done[PS_OP_B] - stage->done[PS_OP_W];
}

/* All ops of every stage in the order of loop-walk.c. */
void ps_plan_walk (PsPlan *plan, const PsFamilySetting *setting,
                   PsWalk (*rule) (const PsFamilySetting *setting, guint device));

/* Of a complete plan. */
gint64 ps_plan_span (const PsPlan *plan);                 /* longest span of a stage */
gint64 ps_plan_makespan (const PsPlan *plan);             /* first start to last end */
gboolean ps_plan_fits (const PsPlan *plan, guint *stage); /* *stage: the first above its limit */

PsSchedule *ps_plan_schedule (const PsPlan *plan, const char *name, const PsFamilySetting *setting);

#endif

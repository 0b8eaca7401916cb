/* v-plan.h - a schedule on a V with split backwards while it is being made: ops are put one after the other, and their
 * times and memory are known at once, by the simulator's recurrence. */
#ifndef PIPESIM_V_PLAN_H
#define PIPESIM_V_PLAN_H

#include "families-private.h"

/* The two chunks of device d: stage d, on the way down, and stage 2 p - 1 - d, on the way up. */
typedef enum
{
  PS_V_NEAR,
  PS_V_FAR,
} PsVChunk;

#define PS_V_KINDS 3 /* F, B, W */

/* What an F or B of a chunk waits for: the same microbatch of another chunk. */
typedef struct
{
  const guint *done;    /* how many of them are put; NULL: it waits for nothing */
  const gint64 *end_ns; /* [m] */
  gint64 transfer_ns;
} PsVInput;

typedef struct
{
  PsOpCost cost[PS_V_KINDS][2]; /* [kind][chunk] */
  PsVInput input[2][2];         /* [F, B][chunk] */
  gint64 *end_ns[2][2];         /* [F, B][chunk][m] */
  gint64 limit_bytes;           /* weights included */
  gint64 weight_bytes;          /* held throughout */
  gint64 now_ns;                /* end of its last op */
  gint64 start_ns;              /* start of its first op */
  gint64 idle_ns;               /* since then */
  gint64 held_bytes;
  gint64 peak_bytes;
  guint done[PS_V_KINDS][2]; /* [kind][chunk] */
  PsOp *order;               /* [6 m] */
  guint n_ordered;
  guint8 *waiting; /* [2 m] chunk of each B in order: their Ws are done first in, first out */
} PsVDevice;

typedef struct
{
  guint n_devices;
  guint n_microbatches;
  PsVDevice *device;
  gint64 idle_ns; /* most idle time of a device */
} PsVPlan;

PsVPlan *ps_v_plan_new (const PsFamilySetting *setting);
void ps_v_plan_free (PsVPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsVPlan, ps_v_plan_free)

/* Back to no ops. */
void ps_v_plan_clear (PsVPlan *plan);

/* Whether the chunk's next F or B could be put now: its microbatch exists and what makes its input is put; *arrival_ns
 * is when the input is there, 0 for one that needs none. */
static inline gboolean
ps_v_plan_input (const PsVPlan *plan, guint index, PsOpKind kind, PsVChunk chunk, gint64 *arrival_ns)
{
  const PsVDevice *device = &plan->device[index];
  const PsVInput *input = &device->input[kind][chunk];
  guint microbatch = device->done[kind][chunk];
  *arrival_ns = 0;
  if (microbatch == plan->n_microbatches)
    return FALSE;
  if (!input->done)
    return TRUE;
  if (microbatch >= *input->done)
    return FALSE;
  *arrival_ns = input->end_ns[microbatch] + input->transfer_ns;
  return TRUE;
}

/* Puts the chunk's next op of that kind, whose input must be known. */
void ps_v_plan_put (PsVPlan *plan, guint device, PsOpKind kind, PsVChunk chunk);

/* Ws whose B is done. */
static inline guint
ps_v_plan_waiting (const PsVPlan *plan, guint index)
{
  const PsVDevice *device = &plan->device[index];
  return device->done[PS_OP_B][0] + device->done[PS_OP_B][1] - device->done[PS_OP_W][0] - device->done[PS_OP_W][1];
}

/* The chunk of the one that waits longest. */
static inline PsVChunk
ps_v_plan_next_weights (const PsVPlan *plan, guint index)
{
  const PsVDevice *device = &plan->device[index];
  return (PsVChunk)device->waiting[device->done[PS_OP_W][0] + device->done[PS_OP_W][1]];
}

/* Clears the plan and puts all ops of a schedule with split backwards in which microbatches go in order. */
void ps_v_plan_replay (PsVPlan *plan, const PsSchedule *schedule);

/* Of a complete plan. */
gint64 ps_v_plan_span (const PsVPlan *plan);                  /* longest span of a device */
gint64 ps_v_plan_makespan (const PsVPlan *plan);              /* first start to last end */
gboolean ps_v_plan_fits (const PsVPlan *plan, guint *device); /* *device: the first above its limit */

PsSchedule *ps_v_plan_schedule (const PsVPlan *plan, const char *name, const PsFamilySetting *setting);

#endif

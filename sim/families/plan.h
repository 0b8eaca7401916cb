/* plan.h - a schedule with split backwards while it is being made, of one chunk per device or, on a V, of two: ops are
 * put one after the other, and their times and memory are known at once, by the simulator's recurrence. */
#ifndef PIPESIM_PLAN_H
#define PIPESIM_PLAN_H

#include "families-private.h"

/* The chunks of device d: stage d, on the way down, and, on a V, stage 2 p - 1 - d, on the way up. */
typedef enum
{
  PS_NEAR,
  PS_FAR,
} PsPlanChunk;

#define PS_PLAN_KINDS 3 /* F, B, W */

/* What an F or B of a chunk waits for: the same microbatch of another chunk. */
typedef struct
{
  const guint *done;    /* how many of them are put; NULL: it waits for nothing */
  const gint64 *end_ns; /* [m] */
  gint64 transfer_ns;
} PsPlanInput;

typedef struct
{
  PsOpCost cost[PS_PLAN_KINDS][2]; /* [kind][chunk] */
  PsPlanInput input[2][2];         /* [F, B][chunk] */
  gint64 *end_ns[2][2];            /* [F, B][chunk][m] */
  gint64 limit_bytes;              /* weights included */
  gint64 weight_bytes;             /* held throughout */
  gint64 burst_bytes;              /* most that a B or W takes while it runs */
  gint64 work_ns;                  /* of all its ops */
  gint64 head_ns;                  /* earliest start of its first op */
  gint64 now_ns;                   /* end of its last op */
  gint64 start_ns;                 /* start of its first op */
  gint64 idle_ns;                  /* since then */
  gint64 held_bytes;
  gint64 peak_bytes;
  guint16 stage[2];             /* [chunk] */
  guint done[PS_PLAN_KINDS][2]; /* [kind][chunk] */
  PsOp *order;                  /* [3 m per chunk] */
  guint n_ordered;
  guint8 *waiting; /* [m per chunk] chunk of each B in order: their Ws are done first in, first out */
} PsPlanDevice;

typedef struct
{
  guint n_devices;
  guint n_chunks; /* per device */
  guint n_microbatches;
  const PsCosts *costs;
  PsCosts *unit_costs; /* where the setting has none */
  PsPlanDevice *device;
  gboolean by_makespan;
  gint64 idle_ns;     /* most idle time of a device */
  gint64 slack_bytes; /* least that a limit left where something was found to fit */
  gpointer memory;    /* of all arrays of the devices */
} PsPlan;

/* For setting's costs, memory limits and chunks, 1 or 2. Where it has no limit a device may hold n_activations of all
 * its chunks; 0: any number. */
PsPlan *ps_plan_new (const PsFamilySetting *setting, guint n_activations);
void ps_plan_free (PsPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPlan, ps_plan_free)

/* Back to no ops; slack_bytes stays. */
void ps_plan_clear (PsPlan *plan);

/* Whether a device may hold so much. Every decision about memory asks here: with limits that are all lower by up to
 * slack_bytes the plan comes out the same. */
static inline gboolean
ps_plan_allows (PsPlan *plan, guint index, gint64 bytes)
{
  gint64 slack = plan->device[index].limit_bytes - bytes;
  if (slack < 0)
    return FALSE;
  plan->slack_bytes = MIN (plan->slack_bytes, slack);
  return TRUE;
}

/* Whether the chunk's next F or B could be put now: its microbatch exists and what makes its input is put; *arrival_ns
 * is when the input is there, 0 for one that needs none. */
static inline gboolean
ps_plan_input (const PsPlan *plan, guint index, PsOpKind kind, PsPlanChunk chunk, gint64 *arrival_ns)
{
  const PsPlanDevice *device = &plan->device[index];
  const PsPlanInput *input = &device->input[kind][chunk];
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

/* Puts the chunk's next op of that kind, whose input arrives then; 0: it needs none. */
static inline void
ps_plan_put_at (PsPlan *plan, guint index, PsOpKind kind, PsPlanChunk chunk, gint64 arrival_ns)
{
  PsPlanDevice *device = &plan->device[index];
  const PsOpCost *cost = &device->cost[kind][chunk];
  guint microbatch = device->done[kind][chunk];
  gint64 start = MAX (device->now_ns, arrival_ns);
  if (device->n_ordered == 0)
    device->start_ns = start;
  else
    device->idle_ns += start - device->now_ns;
  plan->idle_ns = MAX (plan->idle_ns, device->idle_ns);
  device->now_ns = start + cost->duration_ns;
  if (kind != PS_OP_W)
    device->end_ns[kind][chunk][microbatch] = device->now_ns;
  if (kind == PS_OP_B)
    device->waiting[device->done[PS_OP_B][0] + device->done[PS_OP_B][1]] = (guint8)chunk;
  device->held_bytes += cost->take_bytes;
  device->peak_bytes = MAX (device->peak_bytes, device->held_bytes);
  device->held_bytes -= cost->give_bytes;
  device->order[device->n_ordered++] = (PsOp){
    .kind = (guint8)kind,
    .stage = device->stage[chunk],
    .microbatch = microbatch & G_MAXINT32,
  };
  device->done[kind][chunk]++;
}

/* The same with what ps_plan_input says, which must be TRUE of an F or B. */
void ps_plan_put (PsPlan *plan, guint device, PsOpKind kind, PsPlanChunk chunk);

/* Ws whose B is done. */
static inline guint
ps_plan_waiting (const PsPlan *plan, guint index)
{
  const PsPlanDevice *device = &plan->device[index];
  return device->done[PS_OP_B][0] + device->done[PS_OP_B][1] - device->done[PS_OP_W][0] - device->done[PS_OP_W][1];
}

/* The chunk of the one that waits longest. */
static inline PsPlanChunk
ps_plan_next_weights (const PsPlan *plan, guint index)
{
  const PsPlanDevice *device = &plan->device[index];
  return (PsPlanChunk)device->waiting[device->done[PS_OP_W][0] + device->done[PS_OP_W][1]];
}

/* Clears the plan and puts all ops of a schedule in which microbatches go in order; BW is put as B and W. */
void ps_plan_replay (PsPlan *plan, const PsSchedule *schedule);

/* Length of the plan, however it goes on, by what one device has been idle so far. */
static inline gint64
ps_plan_least_length (const PsPlan *plan, guint index)
{
  const PsPlanDevice *device = &plan->device[index];
  return (plan->by_makespan ? device->head_ns : 0) + device->work_ns + device->idle_ns;
}

/* Whether idle time alone makes the plan longer than that. */
static inline gboolean
ps_plan_outlasts (const PsPlan *plan, gint64 length_ns)
{
  for (guint i = 0; i < plan->n_devices; i++)
    if (ps_plan_least_length (plan, i) > length_ns)
      return TRUE;
  return FALSE;
}

/* Of a complete plan. */
gint64 ps_plan_span (const PsPlan *plan);                  /* longest span of a device */
gint64 ps_plan_makespan (const PsPlan *plan);              /* first start to last end */
gint64 ps_plan_length (const PsPlan *plan);                /* the one of both that counts most */
gboolean ps_plan_fits (const PsPlan *plan, guint *device); /* *device: the first above its limit */

PsSchedule *ps_plan_schedule (const PsPlan *plan, const char *name, const PsFamilySetting *setting);

typedef struct
{
  gboolean backward; /* a B may keep its device waiting for half its duration rather than let an F go first */
  gboolean wait;     /* a device does no W where something else can start before the W would end */
  gboolean reserve;  /* on a V no microbatch goes down that would leave no room for all those below to come up */
} PsListRule;

/* List scheduling, see plan-list.c: clears the plan and makes it complete. FALSE: it got stuck, or would be longer than
 * length_ns; the plan is useless then. */
gboolean ps_plan_list (PsPlan *plan, PsListRule rule, gint64 length_ns);

#define PS_LIST_WAYS 5
#define PS_CONTEST_WAYS (PS_LIST_WAYS + 8)

/* A way to make plans: a list rule, or a setting of a heuristic's switches. */
typedef struct
{
  gint64 until_bytes; /* limits lower by up to that many bytes in all make the same plan; -1: not tried yet */
  guint used;         /* result of PsContestTry */
} PsContestWay;

/* Several tries at the same schedule. */
typedef struct
{
  PsPlan *plan; /* the one being made */
  PsPlan *best; /* valid when found */
  gboolean found;
  PsPlacement *placement;
  gint64 step_bytes;                 /* of the grid of limits */
  gint64 lowered_bytes;              /* by how much limits are lower than at first */
  PsContestWay way[PS_CONTEST_WAYS]; /* list rules first */
} PsContest;

void ps_contest_init (PsContest *contest, const PsFamilySetting *setting, guint n_activations);
void ps_contest_clear (PsContest *contest);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsContest, ps_contest_clear)

/* Lets the plan take the place of the best one if it fits the limits and is better: what counts most decides, then the
 * other of makespan and longest span. The plan is free to be made anew afterwards. */
void ps_contest_enter (PsContest *contest);

/* The length that a plan may come to and still win; G_MAXINT64: any. */
gint64 ps_contest_limit (const PsContest *contest);

/* Replays a schedule and enters it. */
void ps_contest_enter_schedule (PsContest *contest, const PsSchedule *schedule);

/* Enters the list schedules that may have changed. */
void ps_contest_enter_lists (PsContest *contest);

/* Makes and enters plans with these switches of a heuristic off; returns the switches that came to matter: without the
 * bit the other setting does the same. */
typedef guint (*PsContestTry) (PsContest *contest, guint off);

/* Tries all settings of so many switches, 3 at most, except those that come to the same as an earlier one or as at
 * their last try. */
void ps_contest_enter_heuristic (PsContest *contest, guint n_switches, PsContestTry try_off);

/* Raises the limits of all devices to any memory. */
void ps_contest_lift (PsContest *contest);

/* Whether no plan within the limits can be shorter than the best one, or none exists. */
gboolean ps_contest_is_over (const PsContest *contest);

/* Lowers the limits of all devices to where a try can come out differently. FALSE: no lower limit can make a better
 * plan, or nothing was found. */
gboolean ps_contest_lower (PsContest *contest);

/* The schedule of the best plan. Where none was found, PS_ERROR_SCHEDULE says what the plan tried last, the one that
 * needs the least memory, would need. */
PsSchedule *ps_contest_end (const PsContest *contest, const char *name, const PsFamilySetting *setting, GError **error);

#endif

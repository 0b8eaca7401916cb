/* draft.h - a schedule with split backwards in the making, of one chunk per device or, on a V, of two. Ops are put one
 * after the other; their times and memory are known at once, by the simulator's recurrence. */
#pragma once

#include "families-private.h"

/* The chunks of device d: stage d, on the way down, and, on a V, stage 2 p - 1 - d, on the way up. */
typedef enum
{
  PS_NEAR,
  PS_FAR,
} PsDraftChunk;

#define PS_DRAFT_KINDS 3 /* F, B, W */

#define PS_DRAFT_NEVER G_MAXINT64

/* The F or B that takes the result of an F or B: the same microbatch of another chunk. */
typedef struct
{
  gint64 *arrival_ns; /* [m] of that op */
  gint64 transfer_ns;
} PsDraftOutput;

typedef struct
{
  PsOpCost cost[PS_DRAFT_KINDS][2]; /* [kind][chunk] */
  PsDraftOutput output[2][2];       /* [F, B][chunk] */
  gint64 *arrival_ns[2][2];         /* [F, B][chunk][m + 1] when inputs are there; 0: none is needed; PS_DRAFT_NEVER:
                                       the op that makes it is not put, or there is no such microbatch */
  gint64 limit_bytes;               /* weights included */
  gint64 weight_bytes;              /* held throughout */
  gint64 burst_bytes;               /* most that a B or W takes while it runs */
  gint64 work_ns;                   /* of all its ops */
  gint64 head_ns;                   /* earliest start of its first op; 0 where the span counts */
  gint64 after_ns[2][2];            /* [F, B][chunk] least time from the end of the last such op to the end of the
                                       draft; below all other times where the span counts */
  gint64 now_ns;                    /* end of its last op */
  gint64 start_ns;                  /* start of its first op */
  gint64 idle_ns;                   /* since then */
  gint64 held_bytes;
  gint64 peak_bytes;
  guint16 stage[2];              /* [chunk] */
  guint done[PS_DRAFT_KINDS][2]; /* [kind][chunk] */
  guint8 *order;                 /* [3 m per chunk] 2 * kind + chunk: microbatches go in order */
  guint n_ordered;
  guint8 *waiting; /* [m per chunk] chunk of each B in order: their Ws are done first in, first out */
} PsDraftDevice;

typedef struct
{
  guint n_devices;
  guint n_chunks; /* per device */
  guint n_microbatches;
  const PsCosts *costs;
  PsCosts *unit_costs; /* where the setting has none */
  PsDraftDevice *device;
  gboolean by_makespan;
  gint64 idle_ns;     /* most idle time of a device */
  gint64 work_ns;     /* length that it has at least before any op is put */
  gint64 least_ns;    /* length that it has at least, whatever follows */
  gint64 slack_bytes; /* least that a limit left where something was found to fit */
  gint64 *arrival_ns; /* all arrays of the devices, in one block */
} PsDraft;

/* For setting's costs, memory limits and chunks, 1 or 2. Where it has no limit a device may hold n_activations of all
 * its chunks; 0: any number. */
PsDraft *ps_draft_new (const PsFamilySetting *setting, guint n_activations);
void ps_draft_free (PsDraft *draft);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsDraft, ps_draft_free)

/* Sets the limits of ps_draft_new. */
void ps_draft_set_limits (PsDraft *draft, const PsFamilySetting *setting, guint n_activations);

/* Removes all ops; slack_bytes stays. */
void ps_draft_clear (PsDraft *draft);

/* TRUE: the device may hold `bytes`. Every decision about memory asks here, or notes the slack itself as draft-list.c
 * does, so the draft comes out the same if all limits are lower by up to slack_bytes. */
static inline gboolean
ps_draft_allows (PsDraft *draft, guint index, gint64 bytes)
{
  gint64 slack = draft->device[index].limit_bytes - bytes;

  if (slack < 0)
    return FALSE;
  draft->slack_bytes = MIN (draft->slack_bytes, slack);
  return TRUE;
}

/* TRUE: the chunk's next F or B could be put now, because its microbatch exists and the op that makes its input is put.
 * *arrival_ns is the time when the input is there, 0 for an op that needs none, PS_DRAFT_NEVER where FALSE. */
static inline gboolean
ps_draft_input (const PsDraft *draft, guint index, PsOpKind kind, PsDraftChunk chunk, gint64 *arrival_ns)
{
  const PsDraftDevice *device = &draft->device[index];

  *arrival_ns = device->arrival_ns[kind][chunk][device->done[kind][chunk]];
  return *arrival_ns != PS_DRAFT_NEVER;
}

/* The device does nothing until until_ns. */
static inline void
ps_draft_wait (PsDraft *draft, PsDraftDevice *device, gint64 until_ns)
{
  if (device->n_ordered == 0)
    device->start_ns = until_ns;
  else
    device->idle_ns += until_ns - device->now_ns;
  draft->idle_ns = MAX (draft->idle_ns, device->idle_ns);
  draft->least_ns = MAX (draft->least_ns, device->head_ns + device->work_ns + device->idle_ns);
  device->now_ns = until_ns;
}

/* The device has put an F or B of a microbatch. Those of later microbatches follow there. */
static inline void
ps_draft_foresee (PsDraft *draft, const PsDraftDevice *device, PsOpKind kind, PsDraftChunk chunk)
{
  gint64 left = draft->n_microbatches - device->done[kind][chunk];
  gint64 least = device->now_ns + left * device->cost[kind][chunk].duration_ns + device->after_ns[kind][chunk];

  draft->least_ns = MAX (draft->least_ns, least);
}

/* Puts the chunk's next op of that kind on a device of the draft. Its input arrives at arrival_ns; 0: it needs none. */
static inline void
ps_draft_put_on (PsDraft *draft, PsDraftDevice *device, PsOpKind kind, PsDraftChunk chunk, gint64 arrival_ns)
{
  const PsOpCost *cost = &device->cost[kind][chunk];
  guint microbatch = device->done[kind][chunk]++;

  if (device->now_ns < arrival_ns)
    ps_draft_wait (draft, device, arrival_ns);
  device->now_ns += cost->duration_ns;
  if (kind != PS_OP_W)
    {
      device->output[kind][chunk].arrival_ns[microbatch] = device->now_ns + device->output[kind][chunk].transfer_ns;
      ps_draft_foresee (draft, device, kind, chunk);
    }
  if (kind == PS_OP_B)
    device->waiting[microbatch + device->done[PS_OP_B][!chunk]] = (guint8)chunk;
  gint64 held = device->held_bytes + cost->take_bytes;
  device->peak_bytes = MAX (device->peak_bytes, held);
  device->held_bytes = held - cost->give_bytes;
  device->order[device->n_ordered++] = (guint8)(2 * kind + chunk);
}

static inline void
ps_draft_put_at (PsDraft *draft, guint index, PsOpKind kind, PsDraftChunk chunk, gint64 arrival_ns)
{
  ps_draft_put_on (draft, &draft->device[index], kind, chunk, arrival_ns);
}

/* The same at the arrival of ps_draft_input, which must be TRUE for an F or B. */
void ps_draft_put (PsDraft *draft, guint device, PsOpKind kind, PsDraftChunk chunk);

/* Ws whose B is done. */
static inline guint
ps_draft_waiting (const PsDraftDevice *device)
{
  return device->done[PS_OP_B][0] + device->done[PS_OP_B][1] - device->done[PS_OP_W][0] - device->done[PS_OP_W][1];
}

/* The chunk of the W that waits longest. */
static inline PsDraftChunk
ps_draft_next_weights (const PsDraftDevice *device)
{
  return (PsDraftChunk)device->waiting[device->done[PS_OP_W][0] + device->done[PS_OP_W][1]];
}

/* Clears the draft and puts all ops of a schedule in which microbatches go in order; BW is put as B and W. FALSE: it
 * would be longer than length_ns; the draft is useless then. */
gboolean ps_draft_replay (PsDraft *draft, const PsSchedule *schedule, gint64 length_ns);

/* Figures of a complete draft. */
gint64 ps_draft_span (const PsDraft *draft);                  /* longest span of a device */
gint64 ps_draft_makespan (const PsDraft *draft);              /* first start to last end */
gint64 ps_draft_length (const PsDraft *draft);                /* the span, or the makespan where by_makespan */
gboolean ps_draft_fits (const PsDraft *draft, guint *device); /* *device: the first above its limit */

PsSchedule *ps_draft_schedule (const PsDraft *draft, const char *name, const PsFamilySetting *setting);

typedef struct
{
  gboolean backward; /* a B may keep its device waiting for half its duration rather than let an F go first */
  gboolean wait;     /* a device does no W where something else can start before the W would end */
  gboolean reserve;  /* on a V no microbatch goes down that would leave no room for all those below to come up */
  gboolean deep;     /* a device runs as many Fs as it can before the first B may come, where that is more than 2 p */
} PsListRule;

/* What decided something in a list: without it, the rule with that member changed does the same. */
#define PS_LIST_USED_HEAD_START 1U /* .backward */
#define PS_LIST_USED_DEPTH 2U      /* .deep */

/* List scheduling, see draft-list.c: clears the draft and makes it complete. FALSE: it got stuck, or would be longer
 * than length_ns; the draft is useless then. */
gboolean ps_draft_list (PsDraft *draft, PsListRule rule, gint64 length_ns, guint *used);

#define PS_LIST_WAYS 6
#define PS_CONTEST_WAYS (PS_LIST_WAYS + 8)

/* A way to make drafts: a list rule, or a setting of a heuristic's switches. */
typedef struct
{
  gint64 until_bytes; /* limits lower by up to that many bytes in all make the same draft; -1: not tried yet */
  guint used;         /* result of PsContestTry, or of ps_draft_list */
} PsContestWay;

/* Several tries at the same schedule. The three drafts change places. */
typedef struct
{
  const PsFamilySetting *setting;
  PsDraft *draft; /* the one being made */
  PsDraft *best;  /* valid when found */
  PsDraft *list;  /* a list schedule that lies ready to be entered; valid when has_list */
  gboolean found;
  gboolean has_list;
  guint list_rule; /* that made it */
  PsPlacement *placement;
  gint64 least_ns[2];                /* [PsObjective] bound on all drafts; -1: not known yet */
  gint64 bound_ns;                   /* bound on the length of drafts within the limits; -1: not known yet */
  guint n_activations;               /* of ps_contest_limit_activations */
  gint64 step_bytes;                 /* of the grid of limits */
  gint64 lowered_bytes;              /* by how much limits are lower than at first */
  PsContestWay way[PS_CONTEST_WAYS]; /* list rules first */
} PsContest;

/* The setting must outlive the contest. Its limits hold. */
void ps_contest_init (PsContest *contest, const PsFamilySetting *setting);
void ps_contest_clear (PsContest *contest);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsContest, ps_contest_clear)

/* Makes the draft the best one if it fits the limits and is better. The length decides, then the other of makespan and
 * longest span. The draft may be used again afterwards. */
void ps_contest_enter (PsContest *contest);

/* The largest length with which a draft can still win; G_MAXINT64: any. */
gint64 ps_contest_limit (const PsContest *contest);

/* Replays a schedule and enters it, unless no draft can be better than the best one. */
/* `make` is as PsFamily.generate, for a schedule that follows from p and m alone. */
void ps_contest_enter_order (PsContest *contest, PsSchedule *(*make) (const PsFamilySetting *setting, GError **error));

/* Makes a list schedule, which ps_contest_enter_lists will enter. Until then no draft can win that is longer. */
void ps_contest_look_ahead (PsContest *contest);

/* Enters the list schedules that may have changed. */
void ps_contest_enter_lists (PsContest *contest);

/* Makes and enters drafts with these switches of a heuristic off. Returns the switches that mattered: for the others
 * the setting without the bit does the same. */
typedef guint (*PsContestTry) (PsContest *contest, guint off);

/* Tries all settings of n_switches switches, 3 at most. Leaves out a setting that gives the same draft as an earlier
 * one, or as at its own last try. */
void ps_contest_enter_heuristic (PsContest *contest, guint n_switches, PsContestTry try_off);

/* Where the setting has no limits, a device may hold n_activations of all its chunks from now on; 0: any number. */
void ps_contest_limit_activations (PsContest *contest, guint n_activations);

/* TRUE: no draft within the limits can be shorter than the best one, or none exists. */
gboolean ps_contest_is_over (PsContest *contest);

/* Lowers the limits of all devices until a try can come out differently. FALSE: no lower limit can make a better draft,
 * or nothing was found. */
gboolean ps_contest_lower (PsContest *contest);

/* The schedule of the best draft. Where none was found, PS_ERROR_SCHEDULE says how much memory the last draft would
 * need; that is the one that needs least. */
PsSchedule *ps_contest_end (const PsContest *contest, const char *name, GError **error);

/* automatic.c - orders for given costs within memory limits: zb-auto, with one chunk per device, and zb-v-auto, with
 * two on a V. Both are the automatic schedules of the zero-bubble paper, whose heuristic competes here with list
 * schedules and fixed orders.
 *
 * A draft is a schedule with split backwards in the making. Ops are put one after the other, by one of several
 * policies; their times and memory are known at once. A contest keeps the best draft. */
#include "base/least.h"
#include "families-private.h"

#include <pipesim/bound.h>

/* The chunks of device d: stage d and, on a V, stage 2 p - 1 - d. */
typedef enum {
  NEAR,
  FAR,
} Chunk;

#define N_KINDS 3 /* F, B, W */
#define NEVER G_MAXINT64

/* The op that a device would put next in a list schedule. */
typedef struct {
  PsOpKind kind;
  Chunk chunk;
  gint64 arrival_ns;
  gint64 start_ns; /* NEVER: no op can be put now */
  gint64 score_ns; /* the lowest wins */
} Choice;

typedef struct {
  PsOpCost cost[N_KINDS][2]; /* [kind][chunk] */
  gint64 *arrival_ns[2][2];  /* [F, B][chunk][m + 1] when inputs are there; 0: none is needed; NEVER: the op that makes
                                it  is not put, or there is no such microbatch */
  gint64 *result_ns[2][2];   /* [F, B][chunk] arrival_ns of the op that takes the result */
  gint64 transfer_ns[2][2];  /* [F, B][chunk] of the result */
  gint64 limit_bytes;        /* weights included */
  gint64 weight_bytes;       /* held throughout */
  gint64 burst_bytes;        /* most that a B or W takes while it runs */
  gint64 work_ns;            /* of all its ops */
  gint64 head_ns;            /* earliest start of its first op; 0 where the span counts */
  gint64 after_ns[2][2];     /* [F, B][chunk] least time from the end of the last such op to the end of the draft; below
                                all other times where the span counts */
  gint64 now_ns;             /* end of its last op */
  gint64 start_ns;           /* start of its first op */
  gint64 idle_ns;            /* since then */
  gint64 held_bytes;
  gint64 peak_bytes;
  guint done[N_KINDS][2]; /* [kind][chunk] */
  guint8 *order;          /* [3 m per chunk] 2 * kind + chunk: microbatches go in order */
  guint n_ordered;
  guint8 *waiting; /* [m per chunk] chunk of each B in order: their Ws are done first in, first out */
  guint most;      /* see most_ahead */
  Choice choice;
} Device;

typedef struct {
  guint n_devices;
  guint n_chunks; /* per device */
  guint n_microbatches;
  const PsCosts *costs;
  PsCosts *unit_costs; /* where the setting has none */
  Device *device;
  gboolean by_makespan;
  gint64 idle_ns;     /* most idle time of a device */
  gint64 work_ns;     /* length that it has at least before any op is put */
  gint64 least_ns;    /* length that it has at least, whatever follows */
  gint64 slack_bytes; /* least that a limit left where something was found to fit */
  PsLeast starts;     /* of choices */
  gint64 *arrival_ns; /* all arrays of arrivals: one of no chunk first */
  guint8 *order;      /* all orders */
  guint8 *waiting;
} Draft;

/* F, B and W take one unit of time, and an F keeps one unit of memory until W. */
static PsCosts *units_of_time (guint n_stages)
{
  static const gint64 units[PS_N_OP_KINDS] = { [PS_OP_F] = 1, [PS_OP_B] = 1, [PS_OP_W] = 1, [PS_OP_BW] = 2 };
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint stage = 0; stage < n_stages; stage++) {
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = units[kind];
    ps_costs_set_memory (costs, stage, 1, 1);
  }
  return costs;
}

static guint stage_of (guint p, guint device, Chunk chunk)
{
  return chunk == NEAR ? device : 2 * p - 1 - device;
}

static Device *device_of (const Draft *draft, guint stage)
{
  return &draft->device[stage < draft->n_devices ? stage : 2 * draft->n_devices - 1 - stage];
}

static gsize n_arrivals (const Draft *draft)
{
  return (2 * (gsize)draft->n_chunks * draft->n_devices + 1) * (draft->n_microbatches + 1);
}

/* Finds the F or B that takes the result of an F or B of a stage. The last B's result goes to nobody's array. */
static void set_result (Draft *draft, Device *device, PsOpKind kind, guint stage)
{
  Chunk chunk = stage < draft->n_devices ? NEAR : FAR;
  gboolean loss = kind == PS_OP_F && stage + 1 == draft->n_chunks * draft->n_devices;

  device->result_ns[kind][chunk] = draft->arrival_ns;
  if (kind == PS_OP_B && stage == 0)
    return;
  guint to = loss ? stage : kind == PS_OP_F ? stage + 1 : stage - 1;
  guint transfer
      = kind == PS_OP_F ? ps_transfer_forward (draft->costs, stage) : ps_transfer_backward (draft->costs, stage);
  const Device *consumer = device_of (draft, to);
  device->result_ns[kind][chunk] = consumer->arrival_ns[loss ? PS_OP_B : kind][to < draft->n_devices ? NEAR : FAR];
  device->transfer_ns[kind][chunk] = consumer == device ? 0 : draft->costs->transfer_ns[transfer];
}

static void set_costs (Draft *draft, guint index)
{
  Device *device = &draft->device[index];

  for (guint chunk = 0; chunk < draft->n_chunks; chunk++) {
    guint stage = stage_of (draft->n_devices, index, chunk);

    for (guint kind = 0; kind < N_KINDS; kind++) {
      device->cost[kind][chunk] = *ps_costs_op (draft->costs, (PsOpKind)kind, stage);
      device->work_ns += draft->n_microbatches * device->cost[kind][chunk].duration_ns;
      if (kind != PS_OP_F)
        device->burst_bytes = MAX (device->burst_bytes, device->cost[kind][chunk].take_bytes);
    }
    set_result (draft, device, PS_OP_F, stage);
    set_result (draft, device, PS_OP_B, stage);
    device->weight_bytes += ps_costs_held_bytes (draft->costs, stage, 1);
  }
}

/* The bytes that an F of each chunk takes. */
static gint64 both_bytes (const Device *device)
{
  return device->cost[PS_OP_F][NEAR].take_bytes + device->cost[PS_OP_F][FAR].take_bytes;
}

/* Where the setting has no limit a device may hold n_activations of all its chunks; 0: any number. */
static void draft_set_limits (Draft *draft, const PsFamilySetting *setting, guint n_activations)
{
  for (guint i = 0; i < draft->n_devices; i++) {
    Device *device = &draft->device[i];

    device->limit_bytes = setting->memory_limit != NULL ? setting->memory_limit[i]
                          : n_activations == 0          ? G_MAXINT64
                                                        : device->weight_bytes + n_activations * both_bytes (device);
  }
}

/* The time of a microbatch to the first op of each device, and from each op to the end. */
static void set_bounds (Draft *draft)
{
  guint p = draft->n_devices, n_stages = draft->n_chunks * p;
  gint64 after = draft->by_makespan ? 0 : G_MININT64 / 2;

  for (guint i = 1; i < p && draft->by_makespan; i++)
    draft->device[i].head_ns = draft->device[i - 1].head_ns + draft->device[i - 1].cost[PS_OP_F][NEAR].duration_ns
                               + draft->device[i - 1].transfer_ns[PS_OP_F][NEAR];
  for (guint step = 0; step < 2 * n_stages; step++) {
    PsOpKind kind = step < n_stages ? PS_OP_B : PS_OP_F;
    guint stage = kind == PS_OP_B ? step : 2 * n_stages - 1 - step;
    Chunk chunk = stage < p ? NEAR : FAR;
    Device *device = device_of (draft, stage);

    after += device->transfer_ns[kind][chunk];
    if (kind == PS_OP_B && draft->by_makespan)
      after = MAX (after, device->cost[PS_OP_W][chunk].duration_ns);
    device->after_ns[kind][chunk] = after;
    after += device->cost[kind][chunk].duration_ns;
  }
  for (guint i = 0; i < p; i++)
    draft->work_ns = MAX (draft->work_ns, draft->device[i].head_ns + draft->device[i].work_ns);
}

/* Removes all ops; slack_bytes stays. */
static void draft_clear (Draft *draft)
{
  draft->idle_ns = 0;
  draft->least_ns = draft->work_ns;
  for (gsize i = 0, n = n_arrivals (draft); i < n; i++)
    draft->arrival_ns[i] = NEVER;
  memset (draft->device[0].arrival_ns[PS_OP_F][NEAR], 0, draft->n_microbatches * sizeof (gint64));
  for (guint i = 0; i < draft->n_devices; i++) {
    Device *device = &draft->device[i];

    device->now_ns = device->start_ns = device->idle_ns = 0;
    device->held_bytes = device->peak_bytes = device->weight_bytes;
    device->n_ordered = 0;
    memset (device->done, 0, sizeof device->done);
  }
}

/* For the setting's costs, memory limits and chunks, 1 or 2. */
static Draft *draft_new (const PsFamilySetting *setting, guint n_activations)
{
  Draft *draft = g_new0 (Draft, 1);
  guint p = draft->n_devices = setting->n_devices, v = draft->n_chunks = setting->n_chunks;
  gsize m = draft->n_microbatches = setting->n_microbatches;

  draft->by_makespan = setting->by_makespan;
  draft->slack_bytes = G_MAXINT64;
  draft->unit_costs = setting->costs != NULL ? NULL : units_of_time (v * p);
  draft->costs = setting->costs != NULL ? setting->costs : draft->unit_costs;
  draft->device = g_new0 (Device, p);
  ps_least_init (&draft->starts, p);
  draft->arrival_ns = g_new (gint64, n_arrivals (draft));
  draft->order = g_new (guint8, N_KINDS * v * m * p);
  draft->waiting = g_new (guint8, v * m * p);
  for (guint i = 0; i < p; i++) {
    for (guint k = 0; k < 2 * v; k++)
      draft->device[i].arrival_ns[k % 2][k / 2] = draft->arrival_ns + (1 + 2 * v * i + k) * (m + 1);
    draft->device[i].order = draft->order + N_KINDS * v * m * i;
    draft->device[i].waiting = draft->waiting + v * m * i;
  }
  for (guint i = 0; i < p; i++)
    set_costs (draft, i);
  draft_set_limits (draft, setting, n_activations);
  set_bounds (draft);
  draft_clear (draft);
  return draft;
}

static void draft_free (Draft *draft)
{
  if (draft == NULL)
    return;
  g_clear_pointer (&draft->unit_costs, ps_costs_free);
  g_free (draft->arrival_ns);
  g_free (draft->order);
  g_free (draft->waiting);
  g_free (draft->device);
  ps_least_clear (&draft->starts);
  g_free (draft);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Draft, draft_free)

/* TRUE: the device may hold `bytes`. Every decision about memory notes the slack, so the draft comes out the same if
 * all limits are lower by up to slack_bytes. */
static gboolean allows (Draft *draft, guint index, gint64 bytes)
{
  gint64 slack = draft->device[index].limit_bytes - bytes;

  if (slack >= 0)
    draft->slack_bytes = MIN (draft->slack_bytes, slack);
  return slack >= 0;
}

/* TRUE: the chunk's next F or B could be put now, because its microbatch exists and the op that makes its input is put.
 * *arrival_ns is the time when the input is there, 0 for an op that needs none, NEVER where FALSE. */
static gboolean find_input (const Draft *draft, guint index, PsOpKind kind, Chunk chunk, gint64 *arrival_ns)
{
  const Device *device = &draft->device[index];

  *arrival_ns = device->arrival_ns[kind][chunk][device->done[kind][chunk]];
  return *arrival_ns != NEVER;
}

/* Ws whose B is done. */
static guint n_waiting (const Device *device)
{
  return device->done[PS_OP_B][0] + device->done[PS_OP_B][1] - device->done[PS_OP_W][0] - device->done[PS_OP_W][1];
}

/* The chunk of the W that waits longest. */
static Chunk next_weights (const Device *device)
{
  return (Chunk)device->waiting[device->done[PS_OP_W][0] + device->done[PS_OP_W][1]];
}

/* Puts the chunk's next op of that kind. Its input arrives at arrival_ns; 0: it needs none. */
static void put (Draft *draft, guint index, PsOpKind kind, Chunk chunk, gint64 arrival_ns)
{
  Device *device = &draft->device[index];
  const PsOpCost *cost = &device->cost[kind][chunk];
  guint microbatch = device->done[kind][chunk]++;

  if (device->now_ns < arrival_ns) {
    if (device->n_ordered == 0)
      device->start_ns = arrival_ns;
    else
      device->idle_ns += arrival_ns - device->now_ns;
    draft->idle_ns = MAX (draft->idle_ns, device->idle_ns);
    draft->least_ns = MAX (draft->least_ns, device->head_ns + device->work_ns + device->idle_ns);
    device->now_ns = arrival_ns;
  }
  device->now_ns += cost->duration_ns;
  if (kind != PS_OP_W) {
    gint64 left_ns = (gint64)(draft->n_microbatches - device->done[kind][chunk]) * cost->duration_ns;

    device->result_ns[kind][chunk][microbatch] = device->now_ns + device->transfer_ns[kind][chunk];
    draft->least_ns = MAX (draft->least_ns, device->now_ns + left_ns + device->after_ns[kind][chunk]);
  }
  if (kind == PS_OP_B)
    device->waiting[microbatch + device->done[PS_OP_B][!chunk]] = (guint8)chunk;
  gint64 held = device->held_bytes + cost->take_bytes;
  device->peak_bytes = MAX (device->peak_bytes, held);
  device->held_bytes = held - cost->give_bytes;
  device->order[device->n_ordered++] = (guint8)(2 * kind + chunk);
}

/* The same for an F or B whose input is known. */
static void put_next (Draft *draft, guint index, PsOpKind kind, Chunk chunk)
{
  gint64 arrival_ns;

  find_input (draft, index, kind, chunk, &arrival_ns);
  put (draft, index, kind, chunk, arrival_ns);
}

static void put_weights (Draft *draft, guint index)
{
  put (draft, index, PS_OP_W, next_weights (&draft->device[index]), 0);
}

static void put_all_weights (Draft *draft, guint index)
{
  while (n_waiting (&draft->device[index]) > 0)
    put_weights (draft, index);
}

/* Puts ops of a device until one has to wait for a neighbour, or the draft is longer than length_ns. */
static gboolean replay_device (Draft *draft, const PsSchedule *schedule, guint index, guint *next, gint64 length_ns)
{
  guint before = *next;

  for (; *next < schedule->first[index + 1] && draft->least_ns <= length_ns; ++*next) {
    PsOp op = schedule->ops[*next];
    Chunk chunk = op.stage < draft->n_devices ? NEAR : FAR;
    PsOpKind kind = op.kind == PS_OP_BW ? PS_OP_B : (PsOpKind)op.kind;
    gint64 arrival = 0;

    if (kind != PS_OP_W && !find_input (draft, index, kind, chunk, &arrival))
      break;
    put (draft, index, kind, chunk, arrival);
    if (op.kind == PS_OP_BW)
      put (draft, index, PS_OP_W, chunk, 0);
  }
  return *next > before;
}

/* Clears the draft and puts all ops of a schedule in which microbatches go in order; BW is put as B and W. FALSE: it
 * would be longer than length_ns; the draft is useless then. */
static gboolean draft_replay (Draft *draft, const PsSchedule *schedule, gint64 length_ns)
{
  guint n = draft->n_devices;
  g_autofree guint *next = g_memdup2 (schedule->first, n * sizeof *next);

  draft_clear (draft);
  for (gboolean moved = TRUE; moved && draft->least_ns <= length_ns;) {
    moved = FALSE;
    for (guint k = 0; k < 2 * n; k++) {
      guint i = k < n ? k : 2 * n - 1 - k;

      moved |= replay_device (draft, schedule, i, &next[i], length_ns);
    }
  }
  return draft->least_ns <= length_ns;
}

/* Figures of a complete draft: the longest span of a device, first start to last end, and what counts of them. */
static gint64 draft_span (const Draft *draft)
{
  gint64 span = 0;

  for (guint i = 0; i < draft->n_devices; i++)
    span = MAX (span, draft->device[i].now_ns - draft->device[i].start_ns);
  return span;
}

static gint64 draft_makespan (const Draft *draft)
{
  gint64 end = 0;

  for (guint i = 0; i < draft->n_devices; i++)
    end = MAX (end, draft->device[i].now_ns);
  return end;
}

static gint64 draft_length (const Draft *draft)
{
  return draft->by_makespan ? draft_makespan (draft) : draft_span (draft);
}

/* The first device above its limit; n_devices: none. */
static guint first_overfull (const Draft *draft)
{
  guint i = 0;

  while (i < draft->n_devices && draft->device[i].peak_bytes <= draft->device[i].limit_bytes)
    i++;
  return i;
}

static gboolean draft_fits (const Draft *draft)
{
  return first_overfull (draft) == draft->n_devices;
}

static PsSchedule *draft_schedule (const Draft *draft, const char *name, const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder
      = ps_family_builder (name, draft->n_chunks == 1 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_V, setting);

  for (guint i = 0; i < draft->n_devices; i++) {
    const Device *device = &draft->device[i];
    guint microbatch[N_KINDS * 2] = { 0 };

    for (guint k = 0; k < device->n_ordered; k++)
      ps_schedule_builder_add (builder, (PsOpKind)(device->order[k] / 2),
                               stage_of (draft->n_devices, i, (Chunk)(device->order[k] % 2)),
                               microbatch[device->order[k]]++);
    ps_schedule_builder_next_device (builder);
  }
  return ps_schedule_builder_end (builder);
}

/* List scheduling: puts the op that can start first, again and again. Each device chooses a B before an F and an F
 * before a W. */

typedef struct {
  gboolean backward; /* a B may keep its device waiting for half its duration rather than let an F go first */
  gboolean wait;     /* a device does no W where something else can start before the W would end */
  gboolean reserve;  /* on a V no microbatch goes down that would leave no room for all those below to come up */
  gboolean deep;     /* a device runs as many Fs as it can before the first B may come, where that is more than 2 p */
} ListRule;

/* The microbatches that the near chunk may hold. With memory for more, they would make nothing faster. A device can run
 * that many Fs of all its chunks while a microbatch is on its way from the start of an F to the start of its B. On
 * device 0 these are at most 2 p, if no transfer takes time and a B takes no longer than an F. */
static guint most_ahead (const Draft *draft, ListRule rule, const Device *device)
{
  gint64 f_ns = device->cost[PS_OP_F][NEAR].duration_ns, b_ns = device->cost[PS_OP_B][NEAR].duration_ns;
  gint64 way_ns = f_ns + device->after_ns[PS_OP_F][NEAR] - device->after_ns[PS_OP_B][NEAR] - b_ns;
  gint64 most = MIN (way_ns / MAX (f_ns + device->cost[PS_OP_F][FAR].duration_ns, 1) + 1, draft->n_microbatches);

  return rule.deep ? MAX (2 * draft->n_devices, (guint)most) : 2 * draft->n_devices;
}

/* The bytes that an op needs. An F leaves room for what a B or W takes while it runs. An F of the near chunk on a V
 * also leaves room for microbatches to come up that have gone down. */
static gint64 needed_bytes (const Draft *draft, ListRule rule, const Device *device, PsOpKind kind, Chunk chunk)
{
  guint below = device->done[PS_OP_F][NEAR] - device->done[PS_OP_F][FAR];
  gint64 bytes = device->cost[kind][chunk].take_bytes;

  if (kind != PS_OP_F)
    return bytes;
  if (draft->n_chunks == 2 && chunk == NEAR)
    bytes += (rule.reserve ? below + 1 : MIN (below, 1)) * device->cost[PS_OP_F][FAR].take_bytes;
  return bytes + device->burst_bytes;
}

/* Chooses what a device would put. Of equal scores the first is chosen. */
static void choose (Draft *draft, ListRule rule, guint index)
{
  static const PsOpKind kinds[] = { PS_OP_B, PS_OP_B, PS_OP_F, PS_OP_F, PS_OP_W };
  static const Chunk chunks[] = { NEAR, FAR, FAR, NEAR, NEAR };
  Device *device = &draft->device[index];
  Choice best = { .start_ns = NEVER, .score_ns = NEVER };
  gint64 best_slack = NEVER;

  for (guint i = 0; i < G_N_ELEMENTS (kinds) && (i < 2 || best.score_ns > device->now_ns); i++) {
    Choice choice = { .kind = kinds[i], .chunk = chunks[i] };

    if (choice.chunk >= draft->n_chunks || (choice.kind == PS_OP_W && n_waiting (device) == 0)
        || (choice.kind != PS_OP_W && !find_input (draft, index, choice.kind, choice.chunk, &choice.arrival_ns)))
      continue;
    if (choice.kind == PS_OP_W)
      choice.chunk = next_weights (device);
    choice.start_ns = choice.score_ns = MAX (device->now_ns, choice.arrival_ns);
    if (choice.kind == PS_OP_B && rule.backward)
      choice.score_ns -= device->cost[PS_OP_B][choice.chunk].duration_ns / 2;
    if (choice.kind == PS_OP_W && rule.wait)
      choice.score_ns += device->cost[PS_OP_W][choice.chunk].duration_ns;
    if (choice.score_ns >= best.score_ns
        || (kinds[i] == PS_OP_F && chunks[i] == NEAR
            && device->done[PS_OP_F][NEAR] >= device->done[PS_OP_B][NEAR] + device->most))
      continue;
    gint64 slack
        = device->limit_bytes - device->held_bytes - needed_bytes (draft, rule, device, choice.kind, choice.chunk);
    if (slack < 0)
      continue;
    best = choice;
    best_slack = slack;
  }
  draft->slack_bytes = MIN (draft->slack_bytes, best_slack);
  device->choice = best;
  ps_least_set (&draft->starts, index, best.start_ns);
}

/* Clears the draft and makes it complete. FALSE: it got stuck, or would be longer than length_ns; the draft is useless
 * then. */
static gboolean put_list (Draft *draft, ListRule rule, gint64 length_ns)
{
  guint p = draft->n_devices, n_left = N_KINDS * draft->n_chunks * draft->n_microbatches * p;

  draft_clear (draft);
  for (guint i = 0; i < p; i++) {
    draft->device[i].most = most_ahead (draft, rule, &draft->device[i]);
    choose (draft, rule, i);
  }
  for (; n_left > 0 && draft->least_ns <= length_ns; n_left--) {
    guint i = ps_least_find (&draft->starts);

    if (i == G_MAXUINT)
      return FALSE;
    Choice next = draft->device[i].choice;
    guint consumer = next.chunk == (next.kind == PS_OP_F ? NEAR : FAR) ? i + 1 : i - 1;
    put (draft, i, next.kind, next.chunk, next.arrival_ns);
    choose (draft, rule, i);
    if (next.kind != PS_OP_W && consumer < p)
      choose (draft, rule, consumer);
  }
  return n_left == 0 && draft->least_ns <= length_ns;
}

/* The heuristic of the zero-bubble paper: a warm-up as deep as time and memory allow, then in rounds one F and one B
 * per device. Ws go where memory demands them and where a device would wait anyway, as long as the longest idle time
 * does not grow. It has switches; `off` has a bit for each that is off. */

/* Puts the Ws that end before the input of the next op is there. TRUE: a W is left, and the gap before the op would
 * make the device idle for longer than it may. */
static gboolean fill_gap (Draft *draft, guint index, gint64 arrival_ns, gint64 allowed_ns)
{
  const Device *device = &draft->device[index];

  while (n_waiting (device) > 0
         && device->now_ns + device->cost[PS_OP_W][next_weights (device)].duration_ns <= arrival_ns)
    put_weights (draft, index);
  return n_waiting (device) > 0 && arrival_ns - device->now_ns > allowed_ns - device->idle_ns;
}

/* One chunk per device: its stage. */

#define LOOP_NO_GAPS 1U     /* no W goes into a gap that is too short for it where the gap would do no harm */
#define LOOP_NO_BACKWARD 2U /* a stage two forwards ahead of the next one does not skip its F in favour of the B */
#define LOOP_NO_WARMUP 4U   /* the warm-up overruns the arrival of the first B rather than leave a gap before it */
#define LOOP_SWITCHES 3

/* TRUE: an F would leave room for itself and for the B and the W that must be able to follow it. */
static gboolean has_room_for_stage (Draft *draft, guint index, gint64 held_bytes)
{
  const Device *stage = &draft->device[index];
  const PsOpCost *f = &stage->cost[PS_OP_F][NEAR], *b = &stage->cost[PS_OP_B][NEAR], *w = &stage->cost[PS_OP_W][NEAR];
  gint64 after
      = f->take_bytes - f->give_bytes + MAX (b->take_bytes, MAX (0, b->take_bytes - b->give_bytes) + w->take_bytes);

  return allows (draft, index, held_bytes + MAX (f->take_bytes, after));
}

/* Transfer of the gradient from the next stage to this one. */
static gint64 gradient_ns (const Draft *draft, guint index)
{
  return draft->device[index + 1].transfer_ns[PS_OP_B][NEAR];
}

/* Forwards after the first that a stage can run before its first B arrives. */
static guint count_extra (Draft *draft, guint off, guint index, gint64 arrival, gint64 *now)
{
  const Device *stage = &draft->device[index];
  const PsOpCost *f = &stage->cost[PS_OP_F][NEAR];
  gint64 held = stage->held_bytes;
  guint extra = 0;

  for (*now = stage->now_ns;
       stage->done[PS_OP_F][NEAR] + extra < draft->n_microbatches && has_room_for_stage (draft, index, held)
       && (off & LOOP_NO_WARMUP ? *now < arrival : *now + f->duration_ns <= arrival);
       extra++) {
    *now += f->duration_ns;
    held += f->take_bytes - f->give_bytes;
  }
  return extra;
}

/* Counts from the last stage to the first. Then every stage keeps one microbatch more in flight than the next one,
 * while forwards are left. */
static void warm_up_loop (Draft *draft, guint off)
{
  guint p = draft->n_devices;
  g_autofree guint *extra = g_new0 (guint, p);
  gint64 backward, now;

  for (guint i = 0; i < p; i++)
    put_next (draft, i, PS_OP_F, NEAR);
  backward = draft->device[p - 1].now_ns + draft->device[p - 1].cost[PS_OP_B][NEAR].duration_ns;
  for (guint i = p - 1; i-- > 0;) {
    gint64 arrival = backward + gradient_ns (draft, i);

    extra[i] = count_extra (draft, off, i, arrival, &now);
    backward = MAX (now, arrival) + draft->device[i].cost[PS_OP_B][NEAR].duration_ns;
  }
  for (guint i = 1; i < p; i++) {
    extra[i] = MIN (extra[i], extra[i - 1]);
    if (extra[i] > 0 && extra[i] == extra[i - 1] && extra[i] + 1 < draft->n_microbatches)
      extra[i]--;
  }
  for (guint i = 0; i < p; i++)
    for (guint n = 0; n < extra[i]; n++)
      put_next (draft, i, PS_OP_F, NEAR);
  for (guint i = p; i-- > 0;)
    put_next (draft, i, PS_OP_B, NEAR);
}

/* TRUE: a stage is so well ahead of the next one that it should leave its F for later. The F would not be done before
 * the stage's next B can come, Ws that must go first included, and waiting for that B does not make the longest idle
 * time longer. */
static gboolean is_ahead (Draft *draft, guint index)
{
  const Device *stage = &draft->device[index], *next = stage + 1;
  const PsOpCost *w = &stage->cost[PS_OP_W][NEAR];
  gint64 held = stage->held_bytes, forced_ns = 0;

  if (index + 1 == draft->n_devices || stage->done[PS_OP_F][NEAR] < next->done[PS_OP_F][NEAR] + 2)
    return FALSE;
  gint64 arrival = next->now_ns + next->cost[PS_OP_F][NEAR].duration_ns + next->cost[PS_OP_B][NEAR].duration_ns
                   + gradient_ns (draft, index);
  if (stage->now_ns >= arrival)
    return TRUE;
  for (guint n = n_waiting (stage); n > 0 && !has_room_for_stage (draft, index, held); n--) {
    held += w->take_bytes - w->give_bytes;
    forced_ns += w->duration_ns;
  }
  return stage->now_ns + stage->cost[PS_OP_F][NEAR].duration_ns + forced_ns > arrival
         && arrival - stage->now_ns <= draft->idle_ns - stage->idle_ns;
}

/* Puts an F or B. Ws that are done before the arrival of its input cost nothing. One more W delays the op, but saves
 * the stage a gap: it goes where that gap would become the longest idle time. */
static void fill_gap_and_put (Draft *draft, guint off, guint index, PsOpKind kind)
{
  const Device *stage = &draft->device[index];
  gint64 arrival;

  find_input (draft, index, kind, NEAR, &arrival);
  if (fill_gap (draft, index, arrival, draft->idle_ns)
      || (!(off & LOOP_NO_GAPS) && n_waiting (stage) > 0 && stage->now_ns < arrival))
    put_weights (draft, index);
  put (draft, index, kind, NEAR, arrival);
}

/* One F where it is wanted, one B everywhere. A stage that skips its F makes those before it skip theirs. Stage 0 with
 * no forward left hands no gradient on, so its Ws delay no other stage. */
static void run_loop_round (Draft *draft, guint off)
{
  guint n = draft->n_devices, first = n;

  while (first > 0 && draft->device[first - 1].done[PS_OP_F][NEAR] < draft->n_microbatches
         && (off & LOOP_NO_BACKWARD || !is_ahead (draft, first - 1)))
    first--;
  for (guint i = first; i < n; i++) {
    while (!has_room_for_stage (draft, i, draft->device[i].held_bytes) && n_waiting (&draft->device[i]) > 0)
      put_weights (draft, i);
    fill_gap_and_put (draft, off, i, PS_OP_F);
  }
  for (guint i = n; i-- > 0;) {
    if (i == 0 && draft->device[0].done[PS_OP_F][NEAR] == draft->n_microbatches)
      put_all_weights (draft, 0);
    fill_gap_and_put (draft, off, i, PS_OP_B);
  }
}

/* Clears the draft and makes it complete. It may end up above a memory limit that leaves too little room for more than
 * one microbatch. FALSE: it would be longer than length_ns; the draft is useless then. */
static gboolean put_loop_heuristic (Draft *draft, guint off, gint64 length_ns)
{
  draft_clear (draft);
  warm_up_loop (draft, off);
  for (guint i = 1; i < draft->n_microbatches; i++) {
    if (draft->least_ns > length_ns)
      return FALSE;
    run_loop_round (draft, off);
  }
  for (guint i = 0; i < draft->n_devices; i++)
    put_all_weights (draft, i);
  return TRUE;
}

/* A V. */

#define V_NO_FORWARD 1U  /* no W goes into a gap before an F that is too short for it, where the gap would do harm */
#define V_NO_BACKWARD 2U /* the same before a B of the far chunk */
#define V_SWITCHES 2

/* Where a try ends early. */
typedef struct {
  const gint64 *idle_ns; /* [n_devices] idle time of an earlier try; it allows a device to idle for longer than it would
                            otherwise; NULL: none */
  gint64 worst_ns;       /* most of them */
  gint64 give_up_ns;     /* a device that idles so long ends the try */
  gint64 length_ns;      /* a draft longer than this ends the try, too */
} VLimits;

/* Microbatch 0 goes down and up; while a device waits for it to come back, microbatches follow as far as its memory
 * goes. */
static void start_v (Draft *draft)
{
  guint p = draft->n_devices;
  gint64 arrival;

  for (guint i = 0; i < p; i++)
    put_next (draft, i, PS_OP_F, NEAR);
  for (guint i = p; i-- > 0;) {
    const Device *device = &draft->device[i];

    find_input (draft, i, PS_OP_F, FAR, &arrival);
    while (i + 1 < p && device->done[PS_OP_F][NEAR] < draft->n_microbatches
           && device->now_ns + device->cost[PS_OP_F][NEAR].duration_ns <= arrival
           && allows (draft, i, device->held_bytes + (1 + i) * both_bytes (device)))
      for (guint j = 0; j <= i; j++)
        put_next (draft, j, PS_OP_F, NEAR);
    put_next (draft, i, PS_OP_F, FAR);
  }
}

static guint n_forwards (const Device *device)
{
  return device->done[PS_OP_F][NEAR] + device->done[PS_OP_F][FAR];
}

/* TRUE: a device has done less than the one before it. */
static gboolean has_fewer (const Draft *draft, const Device *device)
{
  guint before = device[-1].done[PS_OP_F][FAR];

  return n_forwards (device) < n_forwards (device - 1)
         || (device->done[PS_OP_F][FAR] <= before && before < draft->n_microbatches);
}

/* One forward of the chunk on every device from `first` on that can. */
static gboolean put_forwards (Draft *draft, guint first, Chunk chunk)
{
  gboolean moved = FALSE;
  gint64 arrival;

  for (guint i = draft->n_devices; i-- > first;)
    if (find_input (draft, i, PS_OP_F, chunk, &arrival)) {
      put (draft, i, PS_OP_F, chunk, arrival);
      moved = TRUE;
    }
  return moved;
}

/* Alternates forwards of the two chunks until every device has done as many as the one before it. */
static void even_out (Draft *draft)
{
  guint round = 0;

  for (guint i = 1; i < draft->n_devices; i++)
    for (guint stuck = 0; stuck < 2 && has_fewer (draft, &draft->device[i]); round++)
      stuck = put_forwards (draft, i, round % 2 ? FAR : NEAR) ? 0 : stuck + 1;
}

/* Puts an op of a V, after the Ws that it needs to have room. *harm, unless NULL: a W also goes into a gap that is too
 * short for it where the gap would do harm. FALSE: there is no room, or no input. */
static gboolean put_on_v (Draft *draft, const VLimits *limits, guint index, PsOpKind kind, Chunk chunk, gboolean fill)
{
  const Device *device = &draft->device[index];
  gint64 arrival, allowed_ns = draft->idle_ns;

  while (!allows (draft, index, device->held_bytes + device->cost[kind][chunk].take_bytes)) {
    if (n_waiting (device) == 0)
      return FALSE;
    put_weights (draft, index);
  }
  if (!find_input (draft, index, kind, chunk, &arrival))
    return FALSE;
  if (limits->idle_ns != NULL)
    allowed_ns = MAX (allowed_ns, limits->worst_ns - limits->idle_ns[index]);
  if (fill_gap (draft, index, arrival, allowed_ns) && fill)
    put_weights (draft, index);
  put (draft, index, kind, chunk, arrival);
  return TRUE;
}

/* The near chunk where its gradient is there: its B gives activations back that were taken first. */
static Chunk choose_backward (const Draft *draft, guint index)
{
  const Device *device = &draft->device[index];
  gint64 arrival;

  if (device->done[PS_OP_B][NEAR] >= device->done[PS_OP_B][FAR])
    return FAR;
  return device->done[PS_OP_B][FAR] == draft->n_microbatches || find_input (draft, index, PS_OP_B, NEAR, &arrival)
             ? NEAR
             : FAR;
}

/* One B on every device: those of the near chunks from the last device up, then those of the far chunks down. Then one
 * F on every device that can, of the far chunk before the near one. */
static gboolean run_v_round (Draft *draft, guint off, const VLimits *limits, Chunk *chosen)
{
  guint p = draft->n_devices;
  gint64 arrival;

  for (guint i = 0; i < p; i++)
    chosen[i] = choose_backward (draft, i);
  for (guint i = p; i-- > 0;)
    if (chosen[i] == NEAR && !put_on_v (draft, limits, i, PS_OP_B, NEAR, TRUE))
      return FALSE;
  for (guint i = 0; i < p; i++)
    if (chosen[i] == FAR && !put_on_v (draft, limits, i, PS_OP_B, FAR, !(off & V_NO_BACKWARD)))
      return FALSE;
  for (guint i = 0; i < p; i++) {
    Chunk chunk = find_input (draft, i, PS_OP_F, FAR, &arrival) ? FAR : NEAR;

    if (find_input (draft, i, PS_OP_F, chunk, &arrival)
        && !put_on_v (draft, limits, i, PS_OP_F, chunk, !(off & V_NO_FORWARD)))
      return FALSE;
  }
  return TRUE;
}

/* Clears the draft and makes it complete. FALSE: the draft is useless. A device had no W left to make room, or the try
 * reached one of its limits. */
static gboolean put_v_heuristic (Draft *draft, guint off, const VLimits *limits)
{
  g_autofree Chunk *chosen = g_new (Chunk, draft->n_devices);

  draft_clear (draft);
  start_v (draft);
  even_out (draft);
  for (guint round = 0; round < 2 * draft->n_microbatches; round++)
    if (draft->idle_ns >= limits->give_up_ns || draft->least_ns > limits->length_ns
        || !run_v_round (draft, off, limits, chosen))
      return FALSE;
  for (guint i = 0; i < draft->n_devices; i++)
    put_all_weights (draft, i);
  return TRUE;
}

/* Contests: the best of several drafts for the same setting. More memory must not make the best draft longer, yet each
 * policy may come to a longer one. So a contest lowers the limits step by step and tries each policy again
 * that may come to another draft.
 *
 * Why that is enough: a try notes in slack_bytes the least that a limit left it. Limits lower by up to that make the
 * same draft, which has been entered already, so the contest goes on with the next lower limits, which can make
 * another. A contest whose limits are higher by the same bytes on every device therefore makes all drafts of this one.
 * It leaves out drafts that already are longer than its best and drafts that the bound rules out. Where limits go down
 * in larger steps this holds for limits on the grid: whole steps above the weights of device 0. */

/* Ops of a draft up to which the contest tries every lower limit. For more it tries whole numbers of the largest
 * activations, in steps that double with the ops. */
#define MAX_OPS_EXACT 2048

static const ListRule lists[] = {
  { .backward = TRUE }, { .backward = TRUE, .wait = TRUE }, { 0 }, { .wait = TRUE },
  { .reserve = TRUE }, /* nothing to reserve with one chunk */
  { .deep = TRUE },
};

#define PLAIN_LIST 2
#define DEEP_LIST 5
#define N_LISTS G_N_ELEMENTS (lists)
#define N_TRIES (N_LISTS + (1U << LOOP_SWITCHES)) /* lists first, then the settings of the heuristic's switches */

/* The drafts change places. */
typedef struct {
  const PsFamilySetting *setting;
  Draft *draft; /* the one being made */
  Draft *best;  /* valid when found */
  gboolean found;
  PsPlacement *placement;
  gint64 least_ns[2];          /* [PsObjective] bound on all drafts; -1: not known yet */
  gint64 plain_ns;             /* length of the plain list on a V, which will be entered; NEVER: not known */
  gint64 bound_ns;             /* bound on the length of drafts within the limits; -1: not known yet */
  guint n_activations;         /* limit of each device where the setting has none; 0: any number */
  gint64 step_bytes;           /* of the grid of limits */
  gint64 lowered_bytes;        /* by how much limits are lower than at first */
  gint64 until_bytes[N_TRIES]; /* limits lower by up to that many bytes in all make the same draft; -1: not tried yet */
} Contest;

static void contest_clear (Contest *contest)
{
  g_clear_pointer (&contest->draft, draft_free);
  g_clear_pointer (&contest->best, draft_free);
  g_clear_pointer (&contest->placement, ps_placement_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Contest, contest_clear)

static void forget_tries (Contest *contest, guint first)
{
  for (guint i = first; i < N_TRIES; i++)
    contest->until_bytes[i] = -1;
}

/* The setting must outlive the contest. Its limits hold. */
static void contest_init (Contest *contest, const PsFamilySetting *setting)
{
  guint64 ops = (guint64)N_KINDS * setting->n_devices * setting->n_chunks * setting->n_microbatches;

  *contest = (Contest){ .setting = setting,
                        .draft = draft_new (setting, 0),
                        .best = draft_new (setting, 0),
                        .least_ns = { -1, -1 },
                        .plain_ns = NEVER,
                        .bound_ns = -1 };
  contest->placement = ps_placement_new (setting->n_chunks == 1 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_V,
                                         setting->n_devices, setting->n_chunks);
  contest->step_bytes = 1;
  for (guint i = 0; i < setting->n_devices && ops > MAX_OPS_EXACT; i++)
    contest->step_bytes = MAX (contest->step_bytes, both_bytes (&contest->draft->device[i]));
  for (; ops >= 2 * MAX_OPS_EXACT && contest->step_bytes < G_MAXINT64 / 2; ops /= 2)
    contest->step_bytes *= 2;
  forget_tries (contest, 0);
}

/* Makes the draft the best one if it fits the limits and is better. The length decides, then the other of makespan and
 * longest span. The draft may be used again afterwards. */
static void enter (Contest *contest)
{
  Draft *draft = contest->draft, *best = contest->best;

  if (!draft_fits (draft))
    return;
  if (contest->found) {
    gint64 span = draft_span (draft) - draft_span (best), makespan = draft_makespan (draft) - draft_makespan (best);
    gint64 first = draft->by_makespan ? makespan : span;

    if (first > 0 || (first == 0 && span + makespan >= 0))
      return;
  }
  contest->draft = best;
  contest->best = draft;
  contest->found = TRUE;
}

/* The largest length with which a draft can still win. */
static gint64 longest (const Contest *contest)
{
  return contest->found ? MIN (draft_length (contest->best), contest->plain_ns) : contest->plain_ns;
}

/* Bound on the makespan, or the span, of all drafts. */
static gint64 least (Contest *contest, PsObjective objective)
{
  gint64 *ns = &contest->least_ns[objective];

  if (*ns < 0)
    *ns = ps_lower_bound_within (contest->placement, contest->setting->n_microbatches, contest->draft->costs,
                                 contest->setting->memory_limit, objective);
  return *ns;
}

/* TRUE: no draft is better than the best one. */
static gboolean is_settled (Contest *contest)
{
  return contest->found && draft_makespan (contest->best) <= least (contest, PS_OBJECTIVE_MAKESPAN)
         && draft_span (contest->best) <= least (contest, PS_OBJECTIVE_SPAN);
}

/* Bound on the length of drafts within the limits. */
static gint64 bound (Contest *contest)
{
  const Draft *draft = contest->draft;
  PsObjective objective = draft->by_makespan ? PS_OBJECTIVE_MAKESPAN : PS_OBJECTIVE_SPAN;

  if (contest->n_activations == 0 && contest->lowered_bytes == 0)
    return least (contest, objective);
  if (contest->bound_ns >= 0)
    return contest->bound_ns;
  g_autofree gint64 *limit = g_new (gint64, draft->n_devices);
  for (guint i = 0; i < draft->n_devices; i++)
    limit[i] = draft->device[i].limit_bytes;
  contest->bound_ns = ps_lower_bound_within (contest->placement, draft->n_microbatches, draft->costs, limit, objective);
  return contest->bound_ns;
}

/* TRUE: no draft within the limits can be shorter than the best one, or none exists: a device cannot hold one
 * microbatch. */
static gboolean is_over (Contest *contest)
{
  for (guint i = 0; i < contest->draft->n_devices; i++) {
    const Device *device = &contest->draft->device[i];
    const PsOpCost *near = &device->cost[PS_OP_F][NEAR], *far = &device->cost[PS_OP_F][FAR];

    if (device->limit_bytes
        < device->weight_bytes + MAX (near->take_bytes, near->take_bytes - near->give_bytes + far->take_bytes))
      return TRUE;
  }
  return contest->found && bound (contest) >= draft_length (contest->best);
}

/* Replays a schedule, which is taken, and enters it, unless no draft can be better than the best one. */
static void enter_order (Contest *contest, PsSchedule *schedule)
{
  if (!is_settled (contest) && draft_replay (contest->draft, schedule, longest (contest)))
    enter (contest);
  ps_schedule_free (schedule);
}

/* Enters the drafts of the heuristic on a V. For the span, repeats a try with the idle times of the one before as long
 * as they become shorter. No try ends early then: one that is worse than the best draft may lead to a better one. */
static void enter_v_heuristic (Contest *contest, guint off)
{
  guint p = contest->draft->n_devices;
  gboolean repeat = !contest->draft->by_makespan;
  g_autofree gint64 *idle_ns = g_new (gint64, p);
  VLimits limits = { .give_up_ns = G_MAXINT64, .length_ns = repeat ? G_MAXINT64 : longest (contest) };

  while (put_v_heuristic (contest->draft, off, &limits) && contest->draft->idle_ns < limits.give_up_ns) {
    limits.give_up_ns = limits.worst_ns = contest->draft->idle_ns;
    limits.idle_ns = idle_ns;
    for (guint i = 0; i < p; i++)
      idle_ns[i] = contest->draft->device[i].idle_ns;
    enter (contest);
    if (!repeat)
      break;
  }
}

/* Enters what tries `first` up to `end` make, unless they make the same as before, or as long as the contest goes on.
 * Notes the lowest limits at which a try makes the same drafts again. On a V a deep list has to be shorter than the
 * plain one: else it holds more for nothing. */
static void enter_tries (Contest *contest, guint first, guint end)
{
  for (guint i = first; i < end; i++) {
    Draft *draft = contest->draft, *best = contest->best;

    if (contest->lowered_bytes <= contest->until_bytes[i] || (i < N_LISTS && lists[i].reserve && draft->n_chunks == 1))
      continue;
    if (i < N_LISTS ? is_over (contest) : is_settled (contest))
      break;
    gboolean made = FALSE;
    if (i >= N_LISTS && draft->n_chunks == 2)
      enter_v_heuristic (contest, i - N_LISTS);
    else
      made = i < N_LISTS ? put_list (draft, lists[i], longest (contest))
                         : put_loop_heuristic (draft, i - N_LISTS, longest (contest));
    if (made && !(i == DEEP_LIST && contest->lowered_bytes == 0 && draft_length (draft) >= contest->plain_ns))
      enter (contest);
    gint64 slack = MIN (draft->slack_bytes, best->slack_bytes);
    contest->until_bytes[i] = slack == G_MAXINT64 ? slack : contest->lowered_bytes + slack;
    draft->slack_bytes = best->slack_bytes = G_MAXINT64;
  }
}

static void enter_lists (Contest *contest)
{
  enter_tries (contest, 0, N_LISTS);
}

static void enter_heuristic (Contest *contest)
{
  enter_tries (contest, N_LISTS, N_LISTS + (1U << (contest->draft->n_chunks == 1 ? LOOP_SWITCHES : V_SWITCHES)));
}

static void limit_activations (Contest *contest, guint n_activations)
{
  if (contest->setting->memory_limit != NULL)
    return;
  draft_set_limits (contest->draft, contest->setting, n_activations);
  draft_set_limits (contest->best, contest->setting, n_activations);
  forget_tries (contest, N_LISTS);
  contest->n_activations = n_activations;
  contest->bound_ns = -1;
}

/* Lowers the limits of all devices until a try can come out differently. FALSE: no lower limit can make a better draft,
 * or nothing was found. */
static gboolean lower_limits (Contest *contest)
{
  const Device *first = &contest->draft->device[0];
  gint64 until = G_MAXINT64;

  for (guint i = 0; i < N_TRIES; i++)
    if (contest->until_bytes[i] >= 0)
      until = MIN (until, contest->until_bytes[i]);
  if (!contest->found || until == G_MAXINT64 || is_over (contest))
    return FALSE;
  gint64 by = until - contest->lowered_bytes + 1;
  by += MAX (first->limit_bytes - by - first->weight_bytes, 0) % contest->step_bytes;
  for (guint i = 0; i < contest->draft->n_devices; i++)
    contest->draft->device[i].limit_bytes = contest->best->device[i].limit_bytes -= by;
  contest->lowered_bytes += by;
  contest->bound_ns = -1;
  return !is_over (contest);
}

/* Goes on with lower limits. The schedule of the best draft. Where none was found, PS_ERROR_SCHEDULE says how much
 * memory the last draft would need; that is the one that needs least. */
static PsSchedule *contest_end (Contest *contest, const char *name, GError **error)
{
  while (lower_limits (contest)) {
    enter_heuristic (contest);
    enter_lists (contest);
  }
  if (contest->found)
    return draft_schedule (contest->best, name, contest->setting);
  guint i = first_overfull (contest->draft);
  g_autofree char *need = ps_format_size (contest->draft->device[i].peak_bytes);
  g_autofree char *limit = ps_format_size (contest->draft->device[i].limit_bytes);
  return ps_refuse_null (error, PS_ERROR_SCHEDULE,
                         "%s: device %u needs at least %s for one microbatch, its limit is %s", name, i, need, limit);
}

/* One microbatch after the other: the draft that needs the least memory. */
static void enter_one_at_a_time (Contest *contest)
{
  Draft *draft = contest->draft;
  guint p = draft->n_devices;

  draft_clear (draft);
  for (guint i = 0; i < draft->n_microbatches; i++)
    for (guint k = 0; k < 2 * draft->n_chunks * p; k++) {
      PsOpKind kind = k < draft->n_chunks * p ? PS_OP_F : PS_OP_B;
      guint stage = kind == PS_OP_F ? k : 2 * draft->n_chunks * p - 1 - k;
      guint device = (guint)(device_of (draft, stage) - draft->device);

      put_next (draft, device, kind, stage < p ? NEAR : FAR);
      if (kind == PS_OP_B)
        put (draft, device, PS_OP_W, stage < p ? NEAR : FAR, 0);
    }
  enter (contest);
}

/* ZB-H1 or ZB-H2 takes the place of the heuristic where it is better. */
static PsSchedule *generate_loop (const PsFamilySetting *setting, GError **error)
{
  g_auto (Contest) contest = { 0 };

  contest_init (&contest, setting);
  enter_heuristic (&contest);
  enter_order (&contest, ps_family_walk (&ps_family_zb_h1, setting));
  enter_order (&contest, ps_family_walk (&ps_family_zb_h2, setting));
  enter_lists (&contest);
  if (!contest.found)
    enter_one_at_a_time (&contest);
  return contest_end (&contest, "zb-auto", error);
}

/* The published limit without a given one is that of 1F1B, p activations. It is tried first, so that more memory is
 * taken only where it helps. */
static PsSchedule *generate_v (const PsFamilySetting *setting, GError **error)
{
  gboolean eager = ps_v_min_is_eager (setting->n_devices);
  g_auto (Contest) contest = { 0 };

  contest_init (&contest, setting);
  if (put_list (contest.draft, lists[PLAIN_LIST], NEVER))
    contest.plain_ns = draft_length (contest.draft);
  contest.draft->slack_bytes = G_MAXINT64;
  limit_activations (&contest, setting->n_devices);
  enter_heuristic (&contest);
  limit_activations (&contest, 0);
  if (setting->memory_limit == NULL && !is_over (&contest))
    enter_heuristic (&contest);
  enter_order (&contest, ps_family_zb_v.generate (setting, NULL));
  if (!is_over (&contest)) {
    enter_order (&contest, ps_family_1f1b_v.generate (setting, NULL));
    enter_order (&contest, ps_family_v_half.generate (setting, NULL));
    enter_order (&contest, ps_v_min_generate (setting, eager));
    enter_order (&contest, ps_v_min_generate (setting, !eager));
  }
  enter_lists (&contest);
  if (!contest.found)
    enter_one_at_a_time (&contest);
  return contest_end (&contest, "zb-v-auto", error);
}

const PsFamily ps_family_zb_auto = {
  .name = "zb-auto",
  .description = "split backwards, ordered for the given costs within the memory limit",
  .constraints = "one microbatch fits the memory limit",
  .memory = "what the limit allows; without one at most m",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 3.1",
  .default_chunks = 1,
  .uses_costs = TRUE,
  .generate = generate_loop,
};

const PsFamily ps_family_zb_v_auto = {
  .name = "zb-v-auto",
  .also = "ZeroBubbleVPipeScheduler",
  .description = "split backwards on a V, ordered for the given costs within the memory limit",
  .constraints = "v = 2, one microbatch fits the memory limit",
  .memory = "what the limit allows; without one at most m",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 6",
  .default_chunks = 2,
  .uses_costs = TRUE,
  .generate = generate_v,
};

/* draft-list.c - list scheduling: puts the op that can start first, again and again. Each device chooses a B before an
 * F and an F before a W.
 *
 * Devices see of each other only results. Those of ops that have not been put yet arrive after the earliest start by a
 * duration and a transfer at least. All devices that start before that put their ops, in any order. */
#include "draft.h"

#define NEVER PS_DRAFT_NEVER

/* The next ops of a device. Of equal scores the first is chosen. */
typedef enum
{
  BACKWARD_NEAR,
  BACKWARD_FAR,
  FORWARD_FAR,
  FORWARD_NEAR,
  WEIGHTS,
} Next;

#define N_INPUTS 4 /* those before WEIGHTS wait for inputs */

typedef struct Lane Lane;
struct Lane
{
  PsDraftDevice *device;
  const gint64 *arrival_ns[N_INPUTS]; /* of the next op and those after it */
  Lane *consumer[N_INPUTS];           /* another device that takes the result; NULL: none */
  gint64 *start_ns;                   /* of the chosen op; NEVER: no op can be put now */
  gint64 score_ns;                    /* of the chosen op, the lowest */
  gint64 slack_bytes;                 /* that the chosen op leaves of the limit */
  gint64 room_bytes[N_INPUTS];        /* an op fits where the device holds no more than that */
  gint64 weight_room_bytes[2];        /* [chunk] the same for a W */
  guint most;                         /* microbatches that the near chunk may hold */
  gint64 ahead_ns[2]; /* [chunk] head start of a B: it may start so much later than another op and still wins */
  Next chosen;
};

typedef struct
{
  PsDraft *draft;
  PsListRule rule;
  guint *used;
  gint64 *start_ns; /* [n_devices] */
  Lane *lane;       /* [n_devices] */
} List;

static inline Next
next_of (PsOpKind kind, PsDraftChunk chunk)
{
  return kind == PS_OP_B ? (Next)chunk : (Next)(FORWARD_NEAR - chunk);
}

/* The bytes that an F of the near chunk leaves free on a V for microbatches to come up that have gone down. */
static inline gint64
bytes_to_leave (const List *list, const PsDraftDevice *device)
{
  guint below = device->done[PS_OP_F][PS_NEAR] - device->done[PS_OP_F][PS_FAR];

  if (list->draft->n_chunks == 1)
    return 0;
  return (list->rule.reserve ? below + 1 : MIN (below, 1)) * device->cost[PS_OP_F][PS_FAR].take_bytes;
}

/* The bytes that the limit leaves where the op is put; below 0: it does not fit. */
static inline gint64
slack_of (const List *list, const Lane *lane, Next next)
{
  const PsDraftDevice *device = lane->device;

  if (next == WEIGHTS)
    return lane->weight_room_bytes[ps_draft_next_weights (device)] - device->held_bytes;
  return lane->room_bytes[next] - device->held_bytes - (next == FORWARD_NEAR ? bytes_to_leave (list, device) : 0);
}

/* TRUE: the near chunk holds enough microbatches. */
static inline gboolean
is_ahead (const List *list, const Lane *lane)
{
  const PsDraftDevice *device = lane->device;

  if (device->done[PS_OP_F][PS_NEAR] < device->done[PS_OP_B][PS_NEAR] + lane->most)
    return FALSE;
  if (slack_of (list, lane, FORWARD_NEAR) >= 0)
    *list->used |= PS_LIST_USED_DEPTH;
  return TRUE;
}

static inline G_ALWAYS_INLINE void
consider_at (const List *list, Lane *lane, Next next, gint64 start, gint64 score)
{
  if (score > lane->score_ns || (score == lane->score_ns && next >= lane->chosen))
    return;
  gint64 slack = slack_of (list, lane, next);
  if (slack < 0)
    return;
  lane->score_ns = score;
  lane->slack_bytes = slack;
  lane->chosen = next;
  *lane->start_ns = start;
}

/* Chooses an op that waits for an input, if it is better than the chosen one. */
static inline G_ALWAYS_INLINE void
consider (const List *list, Lane *lane, Next next)
{
  gint64 arrival = *lane->arrival_ns[next], start = MAX (lane->device->now_ns, arrival);

  if (arrival != NEVER && !(next == FORWARD_NEAR && is_ahead (list, lane)))
    consider_at (list, lane, next, start,
                 list->rule.backward && next <= BACKWARD_FAR ? start - lane->ahead_ns[next] : start);
}

static inline G_ALWAYS_INLINE void
consider_weights (const List *list, Lane *lane)
{
  const PsDraftDevice *device = lane->device;

  if (ps_draft_waiting (device) == 0)
    return;
  gint64 duration = device->cost[PS_OP_W][ps_draft_next_weights (device)].duration_ns;
  consider_at (list, lane, WEIGHTS, device->now_ns, device->now_ns + (list->rule.wait ? duration : 0));
}

/* F and W have no head start, so they do not beat a score of now_ns. */
static inline G_ALWAYS_INLINE void
consider_all (const List *list, Lane *lane)
{
  gboolean both = list->draft->n_chunks == 2;
  gint64 now = lane->device->now_ns;

  lane->score_ns = lane->slack_bytes = *lane->start_ns = NEVER;
  consider (list, lane, BACKWARD_NEAR);
  if (both)
    consider (list, lane, BACKWARD_FAR);
  if (lane->score_ns <= now)
    return;
  if (both)
    consider (list, lane, FORWARD_FAR);
  if (lane->score_ns <= now)
    return;
  consider (list, lane, FORWARD_NEAR);
  if (lane->score_ns > now)
    consider_weights (list, lane);
}

/* With lower limits, too, the device chooses this op as long as it fits. Ops that were not chosen do not matter. */
static inline G_ALWAYS_INLINE void
note_slack (const List *list, const Lane *lane)
{
  list->draft->slack_bytes = MIN (list->draft->slack_bytes, lane->slack_bytes);
}

/* TRUE: without head starts the device may choose another op than the B that it has chosen. */
static inline gboolean
may_need_head_start (const List *list, const Lane *lane)
{
  gint64 now = lane->device->now_ns;

  return list->rule.backward && !(*list->used & PS_LIST_USED_HEAD_START) && *lane->start_ns != NEVER
         && lane->chosen <= BACKWARD_FAR
         && (*lane->start_ns > now || (lane->chosen == BACKWARD_FAR && *lane->arrival_ns[BACKWARD_NEAR] <= now));
}

static void
note_head_start (const List *list, Lane *lane)
{
  gint64 start = *lane->start_ns;
  Lane kept = *lane;

  lane->ahead_ns[PS_NEAR] = lane->ahead_ns[PS_FAR] = 0;
  consider_all (list, lane);
  if (lane->chosen != kept.chosen)
    *list->used |= PS_LIST_USED_HEAD_START;
  *lane = kept;
  *lane->start_ns = start;
}

/* Puts the op, and lets its device and that of its consumer choose again. Without head starts the consumer's device may
 * have put another op by then. */
static inline G_ALWAYS_INLINE void
put (const List *list, Lane *lane, PsOpKind kind, PsDraftChunk chunk)
{
  Next next = kind == PS_OP_W ? WEIGHTS : next_of (kind, chunk);
  Lane *consumer = kind == PS_OP_W ? NULL : lane->consumer[next];

  ps_draft_put_on (list->draft, lane->device, kind, chunk, kind == PS_OP_W ? 0 : *lane->arrival_ns[next]++);
  consider_all (list, lane);
  note_slack (list, lane);
  if (consumer == NULL)
    return;
  if (may_need_head_start (list, consumer))
    note_head_start (list, consumer);
  consider (list, consumer, next);
  note_slack (list, consumer);
}

static inline G_ALWAYS_INLINE void
put_chosen (const List *list, Lane *lane)
{
  if (may_need_head_start (list, lane))
    note_head_start (list, lane);
  switch (lane->chosen)
    {
    case BACKWARD_NEAR:
      put (list, lane, PS_OP_B, PS_NEAR);
      break;
    case BACKWARD_FAR:
      put (list, lane, PS_OP_B, PS_FAR);
      break;
    case FORWARD_FAR:
      put (list, lane, PS_OP_F, PS_FAR);
      break;
    case FORWARD_NEAR:
      put (list, lane, PS_OP_F, PS_NEAR);
      break;
    case WEIGHTS:
      put (list, lane, PS_OP_W, ps_draft_next_weights (lane->device));
    }
}

/* The device after it on the way, or before it. */
static Lane *
find_consumer (const List *list, guint index, Next next)
{
  gboolean down = next == FORWARD_NEAR || next == BACKWARD_FAR;

  if (index == (down ? list->draft->n_devices - 1 : 0))
    return NULL;
  return &list->lane[down ? index + 1 : index - 1];
}

/* The microbatches that the near chunk may hold. With memory for more, they would make nothing faster. A device can run
 * that many Fs of all its chunks while a microbatch is on its way from the start of an F to the start of its B. On
 * device 0 these are at most 2 p, if no transfer takes time and a B takes no longer than an F. */
static guint
most_ahead (const List *list, const PsDraftDevice *device)
{
  const PsOpCost (*cost)[2] = device->cost;
  gint64 way = cost[PS_OP_F][PS_NEAR].duration_ns + device->after_ns[PS_OP_F][PS_NEAR]
               - device->after_ns[PS_OP_B][PS_NEAR] - cost[PS_OP_B][PS_NEAR].duration_ns;
  gint64 forwards = cost[PS_OP_F][PS_NEAR].duration_ns + cost[PS_OP_F][PS_FAR].duration_ns;

  if (!list->rule.deep)
    return 2 * list->draft->n_devices;
  return MAX (2 * list->draft->n_devices, (guint)MIN (way / MAX (forwards, 1) + 1, list->draft->n_microbatches));
}

static inline G_ALWAYS_INLINE void
begin_device (const List *list, guint index)
{
  Lane *lane = &list->lane[index];
  PsDraftDevice *device = lane->device = &list->draft->device[index];

  lane->start_ns = &list->start_ns[index];
  lane->most = most_ahead (list, device);
  for (guint chunk = 0; chunk < list->draft->n_chunks; chunk++)
    {
      gint64 backward_bytes = device->cost[PS_OP_B][chunk].take_bytes;
      gint64 forward_bytes = device->cost[PS_OP_F][chunk].take_bytes + device->burst_bytes;

      for (guint kind = 0; kind < 2; kind++)
        {
          Next next = next_of (kind, chunk);

          lane->arrival_ns[next] = device->arrival_ns[kind][chunk];
          lane->consumer[next] = find_consumer (list, index, next);
          lane->room_bytes[next] = device->limit_bytes - (kind == PS_OP_B ? backward_bytes : forward_bytes);
        }
      lane->ahead_ns[chunk] = list->rule.backward ? device->cost[PS_OP_B][chunk].duration_ns / 2 : 0;
      lane->weight_room_bytes[chunk] = device->limit_bytes - device->cost[PS_OP_W][chunk].take_bytes;
    }
  consider_all (list, lane);
  note_slack (list, lane);
}

/* The time from the earliest start in which no other result can change what a device puts. Head starts, and Ws that
 * others may delay, take from it. */
static inline gint64
find_window (const List *list)
{
  gint64 after = NEVER, before = 0;

  for (guint i = 0; i < list->draft->n_devices; i++)
    for (guint k = 0; k < 2 * list->draft->n_chunks; k++)
      {
        const Lane *lane = &list->lane[i];
        PsDraftChunk chunk = k / 2;

        if (lane->consumer[next_of (k % 2, chunk)] != NULL)
          after = MIN (after,
                       lane->device->cost[k % 2][chunk].duration_ns + lane->device->output[k % 2][chunk].transfer_ns);
        before = MAX (before,
                      lane->ahead_ns[chunk] + (list->rule.wait ? lane->device->cost[PS_OP_W][chunk].duration_ns : 0));
      }
  return after - before;
}

static inline guint
first_start (const List *list)
{
  guint first = 0, n = list->draft->n_devices;
  gint64 start = list->start_ns[0];

  for (guint i = 1; i < n; i++)
    {
      gboolean earlier = list->start_ns[i] < start;

      first = earlier ? i : first;
      start = earlier ? list->start_ns[i] : start;
    }
  return first;
}

static gboolean
is_complete (const PsDraft *draft)
{
  for (guint i = 0; i < draft->n_devices; i++)
    if (draft->device[i].n_ordered < draft->n_chunks * PS_DRAFT_KINDS * draft->n_microbatches)
      return FALSE;
  return TRUE;
}

static inline G_ALWAYS_INLINE gboolean
run (PsDraft *draft, PsListRule rule, gint64 length_ns, guint *used)
{
  guint p = draft->n_devices;
  g_autofree gint64 *start_ns = g_new (gint64, p);
  g_autofree Lane *lane = g_new (Lane, p);
  const List list = { draft, rule, used, start_ns, lane };

  ps_draft_clear (draft);
  for (guint i = 0; i < p; i++)
    begin_device (&list, i);
  gint64 window = find_window (&list);
  for (guint i = first_start (&list); start_ns[i] != NEVER; i = first_start (&list))
    {
      gint64 end = start_ns[i] + MIN (window, NEVER - start_ns[i]);

      put_chosen (&list, &lane[i]);
      for (i = 0; i < p; i++)
        while (start_ns[i] < end)
          put_chosen (&list, &lane[i]);
      if (draft->least_ns > length_ns)
        return FALSE;
    }
  return is_complete (draft);
}

/* The rule that is tried most often has a copy of its own. */
gboolean
ps_draft_list (PsDraft *draft, PsListRule rule, gint64 length_ns, guint *used)
{
  *used = 0;
  if (rule.backward || rule.wait || rule.reserve)
    return run (draft, rule, length_ns, used);
  return run (draft, (PsListRule){ .deep = rule.deep }, length_ns, used);
}

/* draft-list.c - list scheduling: puts the op that can start first, again and again. Each device chooses a B before an
 * F and an F before a W. */
#include "draft.h"

#define NEVER G_MAXINT64

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

typedef struct
{
  gint64 arrival_ns[N_INPUTS]; /* NEVER: the op cannot be put now */
  gint64 ahead_ns[2]; /* [chunk] head start of a B: it may start so much later than another op and still wins */
  gint64 score_ns;    /* of the chosen op, the lowest; NEVER: no op can be put now */
  Next chosen;
} Choice;

typedef struct
{
  PsDraft *draft;
  PsListRule rule;
  gint64 *start_ns; /* [n_devices] of each choice */
  Choice *choice;   /* [n_devices] */
  gboolean *head_start;
} List;

static inline Next
next_of (PsOpKind kind, PsDraftChunk chunk)
{
  return kind == PS_OP_B ? (Next)chunk : (Next)(FORWARD_NEAR - chunk);
}

/* TRUE: the near chunk holds enough microbatches. With memory for more, they would make nothing faster. */
static inline gboolean
is_ahead (const PsDraft *draft, const PsDraftDevice *device)
{
  return device->done[PS_OP_F][PS_NEAR] >= device->done[PS_OP_B][PS_NEAR] + 2 * draft->n_devices;
}

/* The bytes that an F leaves free: room for backwards while they run, and on a V for microbatches to come up that have
 * gone down. */
static inline gint64
bytes_to_leave (const List *list, const PsDraftDevice *device, PsDraftChunk chunk)
{
  if (list->draft->n_chunks == 1 || chunk == PS_FAR)
    return device->burst_bytes;
  guint below = device->done[PS_OP_F][PS_NEAR] - device->done[PS_OP_F][PS_FAR];
  return device->burst_bytes
         + (list->rule.reserve ? below + 1 : MIN (below, 1)) * device->cost[PS_OP_F][PS_FAR].take_bytes;
}

static inline gboolean
may_start (const List *list, guint index, PsOpKind kind, PsDraftChunk chunk)
{
  const PsDraftDevice *device = &list->draft->device[index];
  gint64 bytes = device->held_bytes + device->cost[kind][chunk].take_bytes;

  if (kind == PS_OP_F && chunk == PS_NEAR && is_ahead (list->draft, device))
    return FALSE;
  return ps_draft_allows (list->draft, index, bytes + (kind == PS_OP_F ? bytes_to_leave (list, device, chunk) : 0));
}

static inline void
consider_backward (const List *list, guint index, PsDraftChunk chunk)
{
  Choice *choice = &list->choice[index];
  gint64 arrival = choice->arrival_ns[next_of (PS_OP_B, chunk)];

  if (arrival == NEVER)
    return;
  gint64 start = MAX (list->draft->device[index].now_ns, arrival);
  gint64 score = start - choice->ahead_ns[chunk];
  if (score >= choice->score_ns || !may_start (list, index, PS_OP_B, chunk))
    return;
  choice->score_ns = score;
  choice->chosen = next_of (PS_OP_B, chunk);
  list->start_ns[index] = start;
}

static inline void
consider_forward (const List *list, guint index, PsDraftChunk chunk)
{
  Choice *choice = &list->choice[index];
  gint64 start = MAX (list->draft->device[index].now_ns, choice->arrival_ns[next_of (PS_OP_F, chunk)]);

  if (start >= choice->score_ns || !may_start (list, index, PS_OP_F, chunk))
    return;
  choice->score_ns = list->start_ns[index] = start;
  choice->chosen = next_of (PS_OP_F, chunk);
}

static inline void
consider_weights (const List *list, guint index)
{
  const PsDraftDevice *device = &list->draft->device[index];
  Choice *choice = &list->choice[index];
  PsDraftChunk chunk = ps_draft_next_weights (list->draft, index);
  gint64 score = device->now_ns + (list->rule.wait ? device->cost[PS_OP_W][chunk].duration_ns : 0);

  if (score >= choice->score_ns || !may_start (list, index, PS_OP_W, chunk))
    return;
  choice->score_ns = score;
  choice->chosen = WEIGHTS;
  list->start_ns[index] = device->now_ns;
}

/* F and W have no head start, so they do not beat a score of now_ns. */
static inline G_ALWAYS_INLINE void
choose (const List *list, guint index)
{
  gint64 now = list->draft->device[index].now_ns;
  Choice *choice = &list->choice[index];

  choice->score_ns = list->start_ns[index] = NEVER;
  consider_backward (list, index, PS_NEAR);
  consider_backward (list, index, PS_FAR);
  if (choice->score_ns <= now)
    return;
  consider_forward (list, index, PS_FAR);
  if (choice->score_ns <= now)
    return;
  consider_forward (list, index, PS_NEAR);
  if (choice->score_ns > now && ps_draft_waiting (list->draft, index) > 0)
    consider_weights (list, index);
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

static inline G_ALWAYS_INLINE void
look_for_input (const List *list, guint index, PsOpKind kind, PsDraftChunk chunk)
{
  gint64 *arrival = &list->choice[index].arrival_ns[next_of (kind, chunk)];

  if (!ps_draft_input (list->draft, index, kind, chunk, arrival))
    *arrival = NEVER;
}

/* Turns an F or B into the one that takes its result as input. FALSE: none does. */
static inline G_ALWAYS_INLINE gboolean
find_consumer (const PsDraft *draft, guint *index, PsOpKind *kind, PsDraftChunk *chunk)
{
  gboolean down = (*kind == PS_OP_F) == (*chunk == PS_NEAR);

  if (*index != (down ? draft->n_devices - 1 : 0))
    *index += down ? 1 : -1;
  else if (*kind == PS_OP_B && *chunk == PS_NEAR)
    return FALSE;
  else if (*kind == PS_OP_F && *chunk == draft->n_chunks - 1)
    *kind = PS_OP_B;
  else
    *chunk = !*chunk;
  return TRUE;
}

/* TRUE: without head starts the device may choose another op than the B that it has chosen. */
static inline gboolean
may_need_head_start (const List *list, guint index)
{
  const Choice *choice = &list->choice[index];
  gint64 now = list->draft->device[index].now_ns;

  return list->rule.backward && !*list->head_start && choice->score_ns != NEVER && choice->chosen <= BACKWARD_FAR
         && (list->start_ns[index] > now
             || (choice->chosen == BACKWARD_FAR && choice->arrival_ns[BACKWARD_NEAR] <= now));
}

static void
note_head_start (const List *list, guint index)
{
  Choice *choice = &list->choice[index], kept = *choice;
  gint64 start = list->start_ns[index];

  choice->ahead_ns[PS_NEAR] = choice->ahead_ns[PS_FAR] = 0;
  choose (list, index);
  *list->head_start = choice->chosen != kept.chosen;
  *choice = kept;
  list->start_ns[index] = start;
}

/* The input of an op has been made, so that its device may choose it now. Without head starts the device may have put
 * another op by then. */
static inline G_ALWAYS_INLINE void
offer (const List *list, guint index, PsOpKind kind, PsDraftChunk chunk)
{
  const Choice *choice = &list->choice[index];
  gint64 ahead = kind == PS_OP_B ? choice->ahead_ns[chunk] : 0;

  if (may_need_head_start (list, index))
    note_head_start (list, index);
  look_for_input (list, index, kind, chunk);
  if (choice->arrival_ns[next_of (kind, chunk)] - ahead <= choice->score_ns)
    choose (list, index);
}

/* Puts the op, and lets its device and that of its consumer choose again. */
static inline G_ALWAYS_INLINE void
put (const List *list, guint index, PsOpKind kind, PsDraftChunk chunk)
{
  PsDraft *draft = list->draft;
  guint consumer = index;
  PsOpKind taken = kind;
  PsDraftChunk by = chunk;

  ps_draft_put_at (draft, index, kind, chunk,
                   kind == PS_OP_W ? 0 : list->choice[index].arrival_ns[next_of (kind, chunk)]);
  gboolean hands_on = kind != PS_OP_W && find_consumer (draft, &consumer, &taken, &by);
  if (kind != PS_OP_W)
    look_for_input (list, index, kind, chunk);
  if (hands_on && consumer == index)
    look_for_input (list, index, taken, by);
  choose (list, index);
  if (hands_on && consumer != index)
    offer (list, consumer, kind, chunk);
}

static inline G_ALWAYS_INLINE void
put_chosen (const List *list, guint index)
{
  switch (list->choice[index].chosen)
    {
    case BACKWARD_NEAR:
      put (list, index, PS_OP_B, PS_NEAR);
      break;
    case BACKWARD_FAR:
      put (list, index, PS_OP_B, PS_FAR);
      break;
    case FORWARD_FAR:
      put (list, index, PS_OP_F, PS_FAR);
      break;
    case FORWARD_NEAR:
      put (list, index, PS_OP_F, PS_NEAR);
      break;
    case WEIGHTS:
      put (list, index, PS_OP_W, ps_draft_next_weights (list->draft, index));
    }
}

static void
begin (const List *list)
{
  ps_draft_clear (list->draft);
  for (guint i = 0; i < list->draft->n_devices; i++)
    {
      for (guint next = 0; next < N_INPUTS; next++)
        list->choice[i].arrival_ns[next] = NEVER;
      for (guint chunk = 0; chunk < 2; chunk++)
        list->choice[i].ahead_ns[chunk]
            = list->rule.backward ? list->draft->device[i].cost[PS_OP_B][chunk].duration_ns / 2 : 0;
      if (i == 0)
        look_for_input (list, i, PS_OP_F, PS_NEAR);
      choose (list, i);
    }
}

gboolean
ps_draft_list (PsDraft *draft, PsListRule rule, gint64 length_ns, gboolean *head_start)
{
  guint p = draft->n_devices, left = p * draft->n_chunks * PS_DRAFT_KINDS * draft->n_microbatches;
  g_autofree gint64 *start_ns = g_new (gint64, p);
  g_autofree Choice *choice = g_new (Choice, p);
  List list = { draft, rule, start_ns, choice, head_start };

  *head_start = FALSE;
  begin (&list);
  for (; left > 0; left--)
    {
      guint i = first_start (&list);

      if (start_ns[i] == NEVER)
        return FALSE;
      if (may_need_head_start (&list, i))
        note_head_start (&list, i);
      put_chosen (&list, i);
      if (draft->least_ns > length_ns)
        return FALSE;
    }
  return TRUE;
}

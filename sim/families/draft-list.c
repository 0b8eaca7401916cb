/* draft-list.c - list scheduling: puts the op that can start first, again and again. Each device chooses a B before an
 * F and an F before a W. */
#include "draft.h"

/* The next op of a device. */
typedef struct
{
  gint64 start_ns; /* G_MAXINT64: no op can be put now */
  gint64 score_ns; /* the lowest is chosen */
  gint64 arrival_ns;
  guint rank; /* of equal scores the lowest is chosen */
  PsOpKind kind;
  PsDraftChunk chunk;
} Choice;

typedef struct
{
  PsDraft *draft;
  PsListRule rule;
  gint64 *start_ns; /* [n_devices] of each choice */
  Choice *choice;   /* [n_devices] */
} List;

/* TRUE: the near chunk holds enough microbatches. With memory for more, they would make nothing faster. */
static inline gboolean
is_ahead (const PsDraft *draft, guint index)
{
  const PsDraftDevice *device = &draft->device[index];

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

static inline G_ALWAYS_INLINE gboolean
may_start (const List *list, guint index, PsOpKind kind, PsDraftChunk chunk)
{
  const PsDraftDevice *device = &list->draft->device[index];
  gint64 bytes = device->held_bytes + device->cost[kind][chunk].take_bytes;

  if (kind == PS_OP_F && chunk == PS_NEAR && is_ahead (list->draft, index))
    return FALSE;
  return ps_draft_allows (list->draft, index, bytes + (kind == PS_OP_F ? bytes_to_leave (list, device, chunk) : 0));
}

/* How much earlier than the op others may start, and it still wins. */
static inline G_ALWAYS_INLINE gint64
head_start (const List *list, guint index, PsOpKind kind, PsDraftChunk chunk)
{
  gint64 duration = list->draft->device[index].cost[kind][chunk].duration_ns;

  if (kind == PS_OP_B)
    return list->rule.backward ? duration / 2 : 0;
  return kind == PS_OP_W && list->rule.wait ? -duration : 0;
}

/* A B, then the F of the far chunk, then the other, then a W. */
static inline G_ALWAYS_INLINE guint
rank_of (PsOpKind kind, PsDraftChunk chunk)
{
  return kind == PS_OP_B ? (guint)chunk : kind == PS_OP_F ? 3U - chunk : 4;
}

static inline G_ALWAYS_INLINE void
consider (const List *list, guint index, PsOpKind kind, PsDraftChunk chunk, Choice *best)
{
  gint64 arrival = 0;
  guint rank = rank_of (kind, chunk);

  if (kind != PS_OP_W && !ps_draft_input (list->draft, index, kind, chunk, &arrival))
    return;
  gint64 start = MAX (list->draft->device[index].now_ns, arrival);
  gint64 score = start - head_start (list, index, kind, chunk);
  if ((score < best->score_ns || (score == best->score_ns && rank < best->rank))
      && may_start (list, index, kind, chunk))
    *best = (Choice){ start, score, arrival, rank, kind, chunk };
}

/* F and W have no head start, so they do not beat a score of now_ns. */
static inline G_ALWAYS_INLINE void
choose_of (const List *list, guint index, guint n_chunks)
{
  gint64 now = list->draft->device[index].now_ns;
  Choice best = { .start_ns = G_MAXINT64, .score_ns = G_MAXINT64 };

  for (guint chunk = 0; chunk < n_chunks; chunk++)
    consider (list, index, PS_OP_B, (PsDraftChunk)chunk, &best);
  for (guint chunk = n_chunks; chunk-- > 0 && best.score_ns > now;)
    consider (list, index, PS_OP_F, (PsDraftChunk)chunk, &best);
  if (best.score_ns > now && ps_draft_waiting (list->draft, index) > 0)
    consider (list, index, PS_OP_W, ps_draft_next_weights (list->draft, index), &best);
  list->choice[index] = best;
  list->start_ns[index] = best.start_ns;
}

/* The number of chunks is a constant in each of the two copies. */
static void
choose (const List *list, guint index)
{
  if (list->draft->n_chunks == 1)
    choose_of (list, index, 1);
  else
    choose_of (list, index, 2);
}

/* The input of an op has been made, so that the device may choose it now. */
static void
choose_also (const List *list, guint index, PsOpKind kind, PsDraftChunk chunk)
{
  consider (list, index, kind, chunk, &list->choice[index]);
  list->start_ns[index] = list->choice[index].start_ns;
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

/* The neighbour whose next op of that kind and chunk waits for the one that index has just put; n_devices: none. */
static guint
find_waiting (const PsDraft *draft, guint index, PsOpKind kind, PsDraftChunk chunk)
{
  guint neighbour = (kind == PS_OP_F) == (chunk == PS_NEAR) ? index + 1 : index - 1; /* may wrap around */

  if (kind == PS_OP_W || neighbour >= draft->n_devices
      || draft->device[neighbour].done[kind][chunk] + 1 != draft->device[index].done[kind][chunk])
    return draft->n_devices;
  return neighbour;
}

gboolean
ps_draft_list (PsDraft *draft, PsListRule rule, gint64 length_ns)
{
  guint p = draft->n_devices, left = p * draft->n_chunks * PS_DRAFT_KINDS * draft->n_microbatches;
  g_autofree gint64 *start_ns = g_new (gint64, p);
  g_autofree Choice *choice = g_new (Choice, p);
  List list = { draft, rule, start_ns, choice };

  ps_draft_clear (draft);
  for (guint i = 0; i < p; i++)
    choose (&list, i);
  for (; left > 0; left--)
    {
      guint i = first_start (&list);
      PsOpKind kind = choice[i].kind;
      PsDraftChunk chunk = choice[i].chunk;

      if (start_ns[i] == G_MAXINT64)
        return FALSE;
      ps_draft_put_at (draft, i, kind, chunk, choice[i].arrival_ns);
      if (ps_draft_least_length (draft, i) > length_ns)
        return FALSE;
      choose (&list, i);
      guint waiting = find_waiting (draft, i, kind, chunk);
      if (waiting < p)
        choose_also (&list, waiting, kind, chunk);
    }
  return TRUE;
}

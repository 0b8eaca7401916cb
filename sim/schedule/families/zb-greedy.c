/* zb-greedy.c - the heuristic of the zero-bubble paper: a warm-up as deep as time and memory allow, then in rounds one
 * F and one B per stage; Ws go where memory demands them and where a stage would wait anyway, as long as the longest
 * idle time does not grow. */
#include "zb-greedy.h"

typedef struct
{
  PsDraft *draft;
  PsZbSwitches switches;
  guint8 *wanted; /* [n_devices] the stage runs an F in this round */
  guint *extra;   /* [n_devices] forwards of the warm-up after the first */
  guint *used;
} Greedy;

/* One chunk per device: its stage. */

static inline const PsOpCost *
cost (const PsDraftDevice *stage, PsOpKind kind)
{
  return &stage->cost[kind][PS_NEAR];
}

static inline guint
n_done (const PsDraftDevice *stage, PsOpKind kind)
{
  return stage->done[kind][PS_NEAR];
}

/* Ws whose B is done. */
static inline guint
waiting (const PsDraftDevice *stage)
{
  return n_done (stage, PS_OP_B) - n_done (stage, PS_OP_W);
}

static inline void
put (PsDraft *draft, guint index, PsOpKind kind)
{
  ps_draft_put (draft, index, kind, PS_NEAR);
}

static inline void
put_weights (PsDraft *draft, guint index)
{
  ps_draft_put_at (draft, index, PS_OP_W, PS_NEAR, 0);
}

/* Transfer of the gradient from the next stage to this one. */
static inline gint64
backward_transfer (const PsDraft *draft, guint index)
{
  return draft->device[index + 1].output[PS_OP_B][PS_NEAR].transfer_ns;
}

/* TRUE: an F would leave room for itself and for the B and the W that must be able to follow it. */
static gboolean
has_room (PsDraft *draft, guint index, gint64 held_bytes)
{
  const PsDraftDevice *stage = &draft->device[index];
  const PsOpCost *f = cost (stage, PS_OP_F), *b = cost (stage, PS_OP_B), *w = cost (stage, PS_OP_W);
  gint64 after
      = f->take_bytes - f->give_bytes + MAX (b->take_bytes, MAX (0, b->take_bytes - b->give_bytes) + w->take_bytes);

  return ps_draft_allows (draft, index, held_bytes + MAX (f->take_bytes, after));
}

/* Forwards after the first that a stage can run before its first B arrives. */
static guint
count_extra (const Greedy *greedy, guint index, gint64 arrival, gint64 *now)
{
  const PsDraftDevice *stage = &greedy->draft->device[index];
  gint64 held = stage->held_bytes, duration = cost (stage, PS_OP_F)->duration_ns;
  guint extra = 0;

  *now = stage->now_ns;
  while (n_done (stage, PS_OP_F) + extra < greedy->draft->n_microbatches && has_room (greedy->draft, index, held))
    {
      gboolean bubble = *now + duration <= arrival, overrun = *now < arrival;

      if (bubble != overrun)
        *greedy->used |= PS_ZB_USED_WARMUP;
      if (!(greedy->switches.bubble_before_backward ? bubble : overrun))
        break;
      *now += duration;
      held += cost (stage, PS_OP_F)->take_bytes - cost (stage, PS_OP_F)->give_bytes;
      extra++;
    }
  return extra;
}

/* Goes from the last stage to the first. Then every stage keeps one microbatch more in flight than the next one, while
 * forwards are left. */
static void
plan_warmup (const Greedy *greedy)
{
  const PsDraft *draft = greedy->draft;
  guint last = draft->n_devices - 1, *extra = greedy->extra;
  gint64 backward = draft->device[last].now_ns + cost (&draft->device[last], PS_OP_B)->duration_ns, now;

  extra[last] = 0;
  for (guint i = last; i-- > 0;)
    {
      gint64 arrival = backward + backward_transfer (draft, i);

      extra[i] = count_extra (greedy, i, arrival, &now);
      backward = MAX (now, arrival) + cost (&draft->device[i], PS_OP_B)->duration_ns;
    }
  for (guint i = 1; i <= last; i++)
    {
      extra[i] = MIN (extra[i], extra[i - 1]);
      if (extra[i] > 0 && extra[i] == extra[i - 1] && extra[i] + 1 < draft->n_microbatches)
        extra[i]--;
    }
}

static void
warm_up (const Greedy *greedy)
{
  PsDraft *draft = greedy->draft;

  for (guint i = 0; i < draft->n_devices; i++)
    put (draft, i, PS_OP_F);
  plan_warmup (greedy);
  for (guint i = 0; i < draft->n_devices; i++)
    for (guint n = 0; n < greedy->extra[i]; n++)
      put (draft, i, PS_OP_F);
  for (guint i = draft->n_devices; i-- > 0;)
    put (draft, i, PS_OP_B);
}

/* The time of the Ws that must go before an F has room. */
static gint64
forced_weights (PsDraft *draft, guint index)
{
  const PsDraftDevice *stage = &draft->device[index];
  gint64 held = stage->held_bytes, time = 0;

  for (guint pending = waiting (stage); pending > 0 && !has_room (draft, index, held); pending--)
    {
      held += cost (stage, PS_OP_W)->take_bytes - cost (stage, PS_OP_W)->give_bytes;
      time += cost (stage, PS_OP_W)->duration_ns;
    }
  return time;
}

/* TRUE: a stage is so well ahead of the next one that it should leave its F for later. The F would not be done before
 * the stage's next B can come, and waiting for that B does not make the longest idle time longer. */
static gboolean
is_ahead (const Greedy *greedy, guint index)
{
  const PsDraft *draft = greedy->draft;
  const PsDraftDevice *stage = &draft->device[index], *next = stage + 1;

  if (index + 1 == draft->n_devices || n_done (stage, PS_OP_F) < n_done (next, PS_OP_F) + 2)
    return FALSE;
  gint64 arrival = next->now_ns + cost (next, PS_OP_F)->duration_ns + cost (next, PS_OP_B)->duration_ns
                   + backward_transfer (draft, index);
  if (stage->now_ns >= arrival)
    return TRUE;
  if (stage->now_ns + cost (stage, PS_OP_F)->duration_ns + forced_weights (greedy->draft, index) <= arrival)
    return FALSE;
  return arrival - stage->now_ns <= draft->idle_ns - stage->idle_ns;
}

static gboolean
wants_forward (const Greedy *greedy, guint index)
{
  if (n_done (&greedy->draft->device[index], PS_OP_F) == greedy->draft->n_microbatches)
    return FALSE;
  if (!is_ahead (greedy, index))
    return TRUE;
  *greedy->used |= PS_ZB_USED_BACKWARD;
  return !greedy->switches.backward_first;
}

/* Puts an F or B. Ws that are done before the arrival of its input cost nothing. One more W delays the op, but saves
 * the stage a gap: it goes where that gap would become the longest idle time. */
static inline G_ALWAYS_INLINE void
fill_gap_and_put (const Greedy *greedy, guint index, PsOpKind kind)
{
  PsDraft *draft = greedy->draft;
  const PsDraftDevice *stage = &draft->device[index];
  gint64 arrival;

  ps_draft_input (draft, index, kind, PS_NEAR, &arrival);
  while (waiting (stage) > 0 && stage->now_ns + cost (stage, PS_OP_W)->duration_ns <= arrival)
    put_weights (draft, index);
  gint64 gap = arrival - stage->now_ns;
  if (gap > 0 && waiting (stage) > 0)
    {
      gboolean harm = gap > draft->idle_ns - stage->idle_ns;

      if (!harm)
        *greedy->used |= PS_ZB_USED_GAPS;
      if (harm || greedy->switches.fill_gaps)
        put_weights (draft, index);
    }
  ps_draft_put_at (draft, index, kind, PS_NEAR, arrival);
}

static void
drain (const Greedy *greedy, guint index)
{
  while (waiting (&greedy->draft->device[index]) > 0)
    put_weights (greedy->draft, index);
}

static void
put_forward (const Greedy *greedy, guint index)
{
  const PsDraftDevice *stage = &greedy->draft->device[index];

  while (!has_room (greedy->draft, index, stage->held_bytes) && waiting (stage) > 0)
    put_weights (greedy->draft, index);
  fill_gap_and_put (greedy, index, PS_OP_F);
}

/* Stage 0 with no forward left hands no gradient on, so its Ws delay no other stage. */
static void
put_backward (const Greedy *greedy, guint index)
{
  if (index == 0 && n_done (&greedy->draft->device[0], PS_OP_F) == greedy->draft->n_microbatches)
    drain (greedy, index);
  fill_gap_and_put (greedy, index, PS_OP_B);
}

/* One F where it is wanted, one B everywhere. A stage that skips its F makes those before it skip theirs. */
static void
run_round (const Greedy *greedy)
{
  guint n = greedy->draft->n_devices;

  for (guint i = n; i-- > 0;)
    greedy->wanted[i] = wants_forward (greedy, i) && (i + 1 == n || greedy->wanted[i + 1]);
  for (guint i = 0; i < n; i++)
    if (greedy->wanted[i])
      put_forward (greedy, i);
  for (guint i = n; i-- > 0;)
    put_backward (greedy, i);
}

gboolean
ps_zb_greedy (PsDraft *draft, PsZbSwitches switches, gint64 length_ns, guint *used)
{
  g_autofree guint8 *wanted = g_new (guint8, draft->n_devices);
  g_autofree guint *extra = g_new (guint, draft->n_devices);
  Greedy greedy = { draft, switches, wanted, extra, used };

  ps_draft_clear (draft);
  warm_up (&greedy);
  for (guint i = 1; i < draft->n_microbatches; i++)
    {
      if (draft->least_ns > length_ns)
        return FALSE;
      run_round (&greedy);
    }
  for (guint i = 0; i < draft->n_devices; i++)
    drain (&greedy, i);
  return TRUE;
}

/* order-moves.c - moves of single ops, and how their effects spread. */
#include "order-private.h"

/* The last op of a chain that a later op of the stage needs: of the forwards all slices of its microbatch. */
static inline guint
last_needed (const PsProblem *problem, guint chain, guint microbatch)
{
  if (problem->n_slices == 1 || chain % N_KINDS != PS_OP_F)
    return microbatch;
  return mirrored (problem, microbatch - microbatch % problem->n_slices);
}

static inline gboolean
is_bound_single (const PsProblem *problem, guint earlier, guint later)
{
  guint a = chain_of (problem, earlier), b = chain_of (problem, later);

  if (a == b)
    return TRUE;
  if (a / N_KINDS == b / N_KINDS)
    return a < b && microbatch_of (problem, earlier) <= last_needed (problem, a, microbatch_of (problem, later));
  return producer_of (problem, later) == earlier;
}

static inline gboolean
is_bound_joined (const PsOrder *order, guint earlier, guint later)
{
  PsMembers before = members_of (order, earlier, TRUE), after = members_of (order, later, TRUE);

  for (guint i = 0; i < before.n; i++)
    for (guint k = 0; k < after.n; k++)
      if (is_bound_single (order->problem, before.op[i], after.op[k]))
        return TRUE;
  return FALSE;
}

static inline gboolean
is_bound (const PsOrder *order, guint earlier, guint later, gboolean joins)
{
  return joins ? is_bound_joined (order, earlier, later) : is_bound_single (order->problem, earlier, later);
}

gboolean
ps_order_is_bound (const PsOrder *order, guint earlier, guint later)
{
  return is_bound (order, earlier, later, order->problem->joins);
}

static inline G_ALWAYS_INLINE gboolean
allows (const PsOrder *order, PsMove move, gboolean joins)
{
  guint op = order->sequence[move.from];

  for (guint i = move.from; i < move.to; i++)
    if (is_bound (order, op, order->sequence[i + 1], joins))
      return FALSE;
  for (guint i = move.from; i > move.to; i--)
    if (is_bound (order, order->sequence[i - 1], op, joins))
      return FALSE;
  return TRUE;
}

gboolean
ps_order_allows (const PsOrder *order, PsMove move)
{
  return order->problem->joins ? allows (order, move, TRUE) : allows (order, move, FALSE);
}

/* The op at a position of the range that the move changes, once the move is made. */
static inline guint
moved_op (const PsOrder *order, PsMove move, guint at)
{
  if (at == move.to)
    return order->sequence[move.from];
  return order->sequence[move.to > move.from ? at + 1 : at - 1];
}

static inline G_ALWAYS_INLINE gint64
excess_change (const PsOrder *order, PsMove move, gboolean joins)
{
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);
  guint device = device_of (order->problem, order->sequence[low]);
  gint64 limit = order->problem->limit[device], level = level_before (order, device, low), change = 0;

  if (limit == G_MAXINT64)
    return 0;
  for (guint i = low; i <= high; i++)
    {
      guint op = moved_op (order, move, i);

      level += take_of (order, op, joins);
      change += bytes_above (level, limit) - excess_at (order, device, i, joins);
      level -= give_of (order, op, joins);
    }
  return change;
}

gint64
ps_order_excess_change (const PsOrder *order, PsMove move)
{
  return order->problem->joins ? excess_change (order, move, TRUE) : excess_change (order, move, FALSE);
}

#define MAX_SPREAD 64

static inline G_ALWAYS_INLINE gint64
estimate (const PsOrder *order, PsMove move, gint64 enough, gboolean joins)
{
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);
  guint n = high - low + 1;
  gint64 end = order->end[order->previous[order->sequence[low]]];
  PsOrderPart parts[MAX_SPREAD];

  if (n > MAX_SPREAD)
    return 0;
  for (guint i = 0; i < n; i++)
    {
      parts[i] = part_of (order, moved_op (order, move, low + i), joins);
      if (!begin_part (&parts[i], &end, enough))
        return G_MAXINT64;
    }
  return longest_through (parts, n, order->tail[order->next[order->sequence[high]]]);
}

gint64
ps_order_estimate (const PsOrder *order, PsMove move, gint64 enough)
{
  return order->problem->joins ? estimate (order, move, enough, TRUE) : estimate (order, move, enough, FALSE);
}

static void
permute (PsOrder *order, PsMove move)
{
  const PsProblem *problem = order->problem;
  guint op = order->sequence[move.from], device = device_of (problem, op);
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);

  for (guint i = move.from; i < move.to; i++)
    order->sequence[i] = order->sequence[i + 1];
  for (guint i = move.from; i > move.to; i--)
    order->sequence[i] = order->sequence[i - 1];
  order->sequence[move.to] = op;
  low = MAX (low, problem->first[device] + 1) - 1;
  high = MIN (high + 1, order->stop[device] - 1);
  for (guint i = low; i <= high; i++)
    ps_order_place (order, device, i);
}

/* A ring of ops whose time may have changed. */
typedef struct
{
  PsOrder *order;
  guint mask;
  guint begin;
  guint end;
} Ring;

static inline void
push (Ring *ring, guint op)
{
  PsOrder *order = ring->order;

  if (op >= order->problem->n_ops || order->queued[op])
    return;
  order->queued[op] = 1;
  order->queue[ring->end++ & ring->mask] = op;
}

/* Pushes an op whose time is the largest of some candidates plus its duration, if a candidate that changed from `was`
 * to `is` was or becomes the largest. */
static inline void
push_bound (Ring *ring, const gint64 *time, guint from, guint op, gint64 was, gint64 is, gboolean joins)
{
  gint64 longest;

  if (op >= ring->order->problem->n_ops)
    return;
  if (joins)
    op = ring->order->node[op];
  if (joins && op == from)
    return;
  longest = time[op] - ring->order->duration[op];
  if (was >= longest || is > longest)
    push (ring, op);
}

static inline guint
pop (Ring *ring)
{
  guint op = ring->order->queue[ring->begin++ & ring->mask];

  ring->order->queued[op] = 0;
  return op;
}

void
ps_order_restore_ends (PsOrder *order)
{
  while (order->n_changes > 0)
    {
      const PsChange *change = &order->changes[--order->n_changes];

      order->end[change->op] = change->time;
    }
}

static inline void
change_end (PsOrder *order, guint op, gint64 end)
{
  order->changes[order->n_changes++] = (PsChange){ op, order->end[op] };
  order->end[op] = end;
}

/* Whether the node of an op (at least n_ops: none) waits in the ring, and is not `node` itself. */
static inline gboolean
waits (const PsOrder *order, guint op, guint node)
{
  return op < order->problem->n_ops && order->node[op] != node && order->queued[order->node[op]];
}

/* Whether an op that a node's end is computed from waits in the ring: the end would be computed twice. */
static inline gboolean
is_early (const PsOrder *order, const PsMembers *members)
{
  const PsOperation *op = order->problem->op;
  guint node = members->op[0];

  return waits (order, order->previous[node], node) || waits (order, op[node].producer, node)
         || (members->n == 3 && waits (order, op[members->op[2]].producer, node));
}

/* The same for tails. */
static inline gboolean
is_late (const PsOrder *order, const PsMembers *members)
{
  guint node = members->op[0];
  gboolean late = waits (order, order->next[node], node);

  for (guint i = 0; i < members->n && !late; i++)
    {
      const PsOperation *operation = &order->problem->op[members->op[i]];

      late = waits (order, operation->consumer[0], node) || waits (order, operation->consumer[1], node);
    }
  return late;
}

/* FALSE where there are more changes than are possible without a circle, in which ops cannot be put off for ever.
 * Orders of single ops are computed twice so seldom that looking for it would cost more. */
static inline G_ALWAYS_INLINE gboolean
run_ends (Ring *ring, gboolean joins)
{
  PsOrder *order = ring->order;
  const PsProblem *problem = order->problem;
  guint n_put_off = 0;

  while (ring->begin != ring->end)
    {
      guint op = pop (ring);
      PsMembers members = members_of (order, op, joins);
      gint64 end, was = order->end[op];

      if (joins && is_early (order, &members) && n_put_off++ < ps_order_most_changes (problem))
        {
          push (ring, op);
          continue;
        }
      end = compute_end (order, op, joins);
      if (end == was)
        continue;
      for (guint i = 0; i < members.n; i++)
        change_end (order, members.op[i], end);
      if (order->n_changes >= ps_order_most_changes (problem))
        return FALSE;
      push_bound (ring, order->end, op, order->next[op], was, end, joins);
      for (guint i = 0; i < members.n; i++)
        {
          const PsOperation *operation = &problem->op[members.op[i]];
          const gint64 *onward = problem->onward + 2 * operation->chain;

          push_bound (ring, order->end, op, operation->consumer[0], was + onward[0], end + onward[0], joins);
          push_bound (ring, order->end, op, operation->consumer[1], was + onward[1], end + onward[1], joins);
        }
    }
  return TRUE;
}

/* Notes that ops were joined or split: their ends are no longer those of their nodes. */
static void
touch_ends (Ring *ring, const PsJoined *joined)
{
  PsOrder *order = ring->order;

  for (guint i = 0; i < joined->n_touched; i++)
    {
      guint op = joined->touched[i];
      const PsOperation *operation = &order->problem->op[op];

      change_end (order, op, compute_end (order, order->node[op], TRUE));
      push (ring, order->node[op]);
      for (guint k = 0; k < 2; k++)
        if (operation->consumer[k] < order->problem->n_ops)
          push (ring, order->node[operation->consumer[k]]);
    }
  for (guint i = 0; i < joined->n_gaps; i++)
    if (joined->gap[i] < order->stop[device_of (order->problem, joined->b)])
      push (ring, order->sequence[joined->gap[i]]);
}

gboolean
ps_order_spread_ends (PsOrder *order, guint low, guint high, const PsJoined *joined)
{
  Ring ring = { .order = order, .mask = ps_order_ring_size (order->problem) - 1 };

  order->n_changes = 0;
  if (joined != NULL)
    touch_ends (&ring, joined);
  for (guint i = low; i <= high; i++)
    push (&ring, order->sequence[i]);
  push (&ring, order->next[order->sequence[high]]);
  if (order->problem->joins ? run_ends (&ring, TRUE) : run_ends (&ring, FALSE))
    return TRUE;
  while (ring.begin != ring.end)
    pop (&ring);
  return FALSE;
}

static inline G_ALWAYS_INLINE void
run_tails (Ring *ring, gboolean joins)
{
  PsOrder *order = ring->order;
  const PsProblem *problem = order->problem;

  while (ring->begin != ring->end)
    {
      guint op = pop (ring);
      PsMembers members = members_of (order, op, joins);
      gint64 tail, was = order->tail[op];

      if (joins && is_late (order, &members))
        {
          push (ring, op);
          continue;
        }
      tail = compute_tail (order, op, joins);
      if (tail == was)
        continue;
      for (guint i = 0; i < members.n; i++)
        order->tail[members.op[i]] = tail;
      push_bound (ring, order->tail, op, order->previous[op], was, tail, joins);
      for (guint i = 0; i < members.n; i++)
        {
          gint64 lag = problem->lag[problem->op[members.op[i]].chain];

          push_bound (ring, order->tail, op, problem->op[members.op[i]].producer, was + lag, tail + lag, joins);
        }
    }
}

static void
touch_tails (Ring *ring, const PsJoined *joined)
{
  PsOrder *order = ring->order;

  for (guint i = joined->n_touched; i-- > 0;)
    {
      guint op = joined->touched[i], producer = order->problem->op[op].producer;

      order->tail[op] = compute_tail (order, order->node[op], TRUE);
      push (ring, order->node[op]);
      if (producer < order->problem->n_ops)
        push (ring, order->node[producer]);
    }
  for (guint i = 0; i < joined->n_gaps; i++)
    push (ring, order->sequence[joined->gap[i] - 1]);
}

void
ps_order_spread_tails (PsOrder *order, guint low, guint high, const PsJoined *joined)
{
  Ring ring = { .order = order, .mask = ps_order_ring_size (order->problem) - 1 };

  if (joined != NULL)
    touch_tails (&ring, joined);
  for (guint i = high + 1; i-- > low;)
    push (&ring, order->sequence[i]);
  push (&ring, order->previous[order->sequence[low]]);
  if (order->problem->joins)
    run_tails (&ring, TRUE);
  else
    run_tails (&ring, FALSE);
}

gboolean
ps_order_apply (PsOrder *order, PsMove move)
{
  permute (order, move);
  if (!ps_order_spread_ends (order, MIN (move.from, move.to), MAX (move.from, move.to), NULL))
    {
      ps_order_revert (order, move);
      return FALSE;
    }
  ps_order_sum_up (order);
  return TRUE;
}

void
ps_order_revert (PsOrder *order, PsMove move)
{
  permute (order, (PsMove){ move.to, move.from });
  ps_order_restore_ends (order);
  ps_order_sum_up (order);
}

void
ps_order_keep (PsOrder *order, PsMove move, gint64 excess)
{
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);

  order->excess += excess;
  ps_order_compute_levels (order, low, high + 1, device_of (order->problem, order->sequence[low]));
  ps_order_spread_tails (order, low, high, NULL);
}

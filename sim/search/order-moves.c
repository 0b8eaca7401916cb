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

  if (before.n == 1 && after.n == 1)
    return is_bound_single (order->problem, earlier, later);
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

gint64
ps_order_estimate (const PsOrder *order, PsMove move, gint64 enough)
{
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);
  guint n = high - low + 1;
  gint64 end = path_beside (order->nodes, &order->nodes[order->sequence[low]], PS_END);
  PsOrderPart parts[MAX_SPREAD];

  if (n > MAX_SPREAD)
    return 0;
  for (guint i = 0; i < n; i++)
    {
      parts[i] = part_of (order, moved_op (order, move, low + i));
      if (!begin_part (&parts[i], &end, enough))
        return G_MAXINT64;
    }
  return longest_through (parts, n, path_beside (order->nodes, &order->nodes[order->sequence[high]], PS_TAIL));
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

/* A ring of nodes whose time may have changed. */
typedef struct
{
  PsNode *nodes;
  guint32 *queue;
  guint n_ops;
  guint mask;
  guint begin;
  guint end;
} Ring;

static inline void
push (Ring *ring, guint op)
{
  if (op >= ring->n_ops || ring->nodes[op].queued)
    return;
  ring->nodes[op].queued = 1;
  ring->queue[ring->end++ & ring->mask] = op;
}

/* Pushes a node that a time bounds, or did before it changed; `latest` is the later one of both. Nodes that stand for
 * no op are never bound. */
static inline void
push_bound (Ring *ring, guint op, gint64 latest, guint side)
{
  PsNode *node = &ring->nodes[op];

  if (latest < node->time[side] - node->duration || node->queued)
    return;
  node->queued = 1;
  ring->queue[ring->end++ & ring->mask] = op;
}

/* Whether a neighbour waits in the ring from which a time of the node is computed: the time would be computed twice. */
static inline gboolean
is_early (const PsNode *nodes, const PsNode *node, guint side)
{
  return (nodes[node->beside[side]].queued | nodes[node->across[side][0]].queued | nodes[node->across[side][1]].queued)
         != 0;
}

/* Computes the times of all nodes in the ring. FALSE after more steps than are possible without a circle; tails are
 * only computed where there is none. */
static inline G_ALWAYS_INLINE gboolean
run (PsOrder *order, Ring *started, guint side)
{
  const gint64 *lag = order->problem->lag;
  Ring ring = *started;
  PsChange *change = order->changes;
  guint other = N_SIDES - 1 - side, most = ps_order_most_changes (order->problem);

  while (ring.begin != ring.end && (side == PS_TAIL || ring.begin < most))
    {
      guint op = ring.queue[ring.begin++ & ring.mask];
      PsNode *node = &ring.nodes[op];
      gint64 was = node->time[side], is, latest;

      if (is_early (ring.nodes, node, side))
        {
          ring.queue[ring.end++ & ring.mask] = op;
          continue;
        }
      is = compute_time (ring.nodes, lag, node, side);
      node->queued = 0;
      if (is == was)
        continue;
      if (side == PS_END)
        *change++ = (PsChange){ op, was };
      node->time[side] = is;
      latest = MAX (was, is);
      push_bound (&ring, node->beside[other], latest, side);
      push_bound (&ring, node->across[other][0], latest + lag[node->lag[other][0]], side);
      push_bound (&ring, node->across[other][1], latest + lag[node->lag[other][1]], side);
    }
  if (side == PS_END)
    order->n_changes = (guint)(change - order->changes);
  for (guint i = ring.begin; i != ring.end; i++)
    ring.nodes[ring.queue[i & ring.mask]].queued = 0;
  return ring.begin == ring.end;
}

/* Pushes the nodes of ops that were joined or split, those next to them, and those where an op was taken out. */
static void
push_joined (Ring *ring, const PsOrder *order, const PsJoined *joined, guint side)
{
  guint other = N_SIDES - 1 - side;

  for (guint i = 0; i < joined->n_touched; i++)
    {
      guint op = order->node[joined->touched[i]];

      push (ring, op);
      push (ring, ring->nodes[op].across[other][0]);
      push (ring, ring->nodes[op].across[other][1]);
    }
  for (guint i = 0; i < joined->n_gaps; i++)
    {
      guint before = order->sequence[joined->gap[i] - 1];

      push (ring, side == PS_END ? ring->nodes[before].beside[PS_TAIL] : before);
    }
}

gboolean
ps_order_spread (PsOrder *order, guint low, guint high, const PsJoined *joined, guint side)
{
  const PsProblem *problem = order->problem;
  Ring ring = { .nodes = order->nodes, .queue = order->queue, .n_ops = problem->n_ops };

  ring.mask = ps_order_ring_size (problem) - 1;
  if (joined != NULL)
    push_joined (&ring, order, joined, side);
  for (guint i = low; i <= high; i++)
    push (&ring, order->sequence[side == PS_END ? i : low + high - i]);
  push (&ring, order->nodes[order->sequence[side == PS_END ? high : low]].beside[N_SIDES - 1 - side]);
  return side == PS_END ? run (order, &ring, PS_END) : run (order, &ring, PS_TAIL);
}

void
ps_order_restore_ends (PsOrder *order)
{
  while (order->n_changes > 0)
    {
      const PsChange *change = &order->changes[--order->n_changes];

      order->nodes[change->op].time[PS_END] = change->time;
    }
}

gboolean
ps_order_apply (PsOrder *order, PsMove move)
{
  permute (order, move);
  if (!ps_order_spread (order, MIN (move.from, move.to), MAX (move.from, move.to), NULL, PS_END))
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
  ps_order_spread (order, low, high, NULL, PS_TAIL);
}

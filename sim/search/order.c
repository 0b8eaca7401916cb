/* order.c - heads, tails and moves. */
#include "order.h"

#include <string.h>

/* Heads that a move may change before it is taken for a circle: a circle would change them for ever. */
static inline guint
most_changes (const Problem *problem)
{
  return 8 * problem->n_ops + 64;
}

Order *
order_new (const Problem *problem)
{
  Order *order = g_new0 (Order, 1);

  order->problem = problem;
  order->sequence = g_new0 (guint32, problem->n_ops);
  order->position = g_new0 (guint32, problem->n_ops);
  order->head = g_new0 (gint64, problem->n_ops);
  order->tail = g_new0 (gint64, problem->n_ops);
  order->level = g_new0 (gint64, problem->n_ops);
  order->queue = g_new0 (guint32, problem->n_ops);
  order->queued = g_new0 (guint8, problem->n_ops);
  order->changes = g_new (Change, most_changes (problem));
  return order;
}

void
order_free (Order *order)
{
  if (order == NULL)
    return;
  g_free (order->sequence);
  g_free (order->position);
  g_free (order->head);
  g_free (order->tail);
  g_free (order->level);
  g_free (order->queue);
  g_free (order->queued);
  g_free (order->changes);
  g_free (order);
}

void
order_assign (Order *order, const Order *from)
{
  gsize n = order->problem->n_ops;

  memcpy (order->sequence, from->sequence, n * sizeof *order->sequence);
  memcpy (order->position, from->position, n * sizeof *order->position);
  memcpy (order->head, from->head, n * sizeof *order->head);
  memcpy (order->tail, from->tail, n * sizeof *order->tail);
  memcpy (order->level, from->level, n * sizeof *order->level);
  order->excess = from->excess;
  order->objective = from->objective;
  order->weight = from->weight;
}

static inline gint64
duration_of (const Problem *problem, guint op)
{
  return problem->duration[chain_of (problem, op)];
}

/* When what the op needs from its producer is there. */
static inline gint64
arrival (const Order *order, guint op)
{
  const Problem *problem = order->problem;
  guint producer = producer_of (problem, op);

  if (producer == NO_OP)
    return 0;
  return order->head[producer] + duration_of (problem, producer) + problem->lag[chain_of (problem, op)];
}

/* Longest way from the end of the op on, through its consumers. */
static inline gint64
departure (const Order *order, guint op)
{
  const Problem *problem = order->problem;
  guint consumer[2], n = consumers_of (problem, op, consumer);
  gint64 longest = G_MININT64 / 4;

  for (guint i = 0; i < n; i++)
    longest = MAX (longest, problem->lag[chain_of (problem, consumer[i])] + order->tail[consumer[i]]);
  return longest;
}

static inline gint64
compute_head (const Order *order, guint op)
{
  const Problem *problem = order->problem;
  guint at = order->position[op];
  gint64 head = arrival (order, op);

  if (at > problem->first[device_of (problem, op)])
    {
      guint before = order->sequence[at - 1];

      head = MAX (head, order->head[before] + duration_of (problem, before));
    }
  return head;
}

static inline gint64
compute_tail (const Order *order, guint op)
{
  const Problem *problem = order->problem;
  guint device = device_of (problem, op), at = order->position[op] + 1;
  gint64 behind = at < problem->first[device + 1] ? order->tail[order->sequence[at]] : problem->offset[device];

  return duration_of (problem, op) + MAX (behind, departure (order, op));
}

gint64
order_finish (const Order *order, guint device)
{
  const Problem *problem = order->problem;
  guint end = problem->first[device + 1];

  if (end == problem->first[device])
    return 0;
  guint last = order->sequence[end - 1];
  return order->head[last] + duration_of (problem, last) + problem->offset[device];
}

static void
sum_up (Order *order)
{
  order->objective = 0;
  order->weight = 0;
  for (guint d = 0; d < order->problem->n_devices; d++)
    {
      gint64 finish = order_finish (order, d);

      order->objective = MAX (order->objective, finish);
      order->weight += finish;
    }
}

static inline gint64
above (gint64 bytes, gint64 limit)
{
  return bytes > limit ? bytes - limit : 0;
}

/* Memory in front of a position. */
static inline gint64
level_before (const Order *order, guint device, guint at)
{
  return at > order->problem->first[device] ? order->level[at - 1] : order->problem->held[device];
}

/* Brings the levels of a range up to date; the excess there is the caller's. */
static void
compute_levels (Order *order, guint begin, guint end, guint device)
{
  const Problem *problem = order->problem;
  gint64 level = level_before (order, device, begin);

  for (guint i = begin; i < end; i++)
    {
      guint chain = chain_of (problem, order->sequence[i]);

      level += problem->take[chain] - problem->give[chain];
      order->level[i] = level;
    }
}

/* Excess of the ops of a range, as the move would leave them. */
static inline gint64 excess_of (const Order *order, guint begin, guint end, guint device, const Move *move);

/* Ops in an order that respects devices and producers, into queue; FALSE when there is none. */
static gboolean
sort_topologically (Order *order)
{
  const Problem *problem = order->problem;
  guint n = 0;

  memset (order->queued, 0, problem->n_ops);
#define COUNT_DOWN(op, edges) (++order->queued[op] == (edges))
  for (guint d = 0; d < problem->n_devices; d++)
    if (problem->first[d] < problem->first[d + 1] && producer_of (problem, order->sequence[problem->first[d]]) == NO_OP)
      order->queue[n++] = order->sequence[problem->first[d]];
  for (guint i = 0; i < n; i++)
    {
      guint op = order->queue[i], next[3], n_next = consumers_of (problem, op, next), at = order->position[op] + 1;

      if (at < problem->first[device_of (problem, op) + 1])
        next[n_next++] = order->sequence[at];
      for (guint k = 0; k < n_next; k++)
        {
          guint edges = (producer_of (problem, next[k]) != NO_OP)
                        + (order->position[next[k]] > problem->first[device_of (problem, next[k])]);

          if (COUNT_DOWN (next[k], edges))
            order->queue[n++] = next[k];
        }
    }
#undef COUNT_DOWN
  return n == problem->n_ops;
}

gboolean
order_evaluate (Order *order)
{
  const Problem *problem = order->problem;
  gboolean sorted;

  for (guint i = 0; i < problem->n_ops; i++)
    order->position[order->sequence[i]] = i;
  order->excess = 0;
  for (guint d = 0; d < problem->n_devices; d++)
    {
      compute_levels (order, problem->first[d], problem->first[d + 1], d);
      order->excess += excess_of (order, problem->first[d], problem->first[d + 1], d, NULL);
    }
  sorted = sort_topologically (order);
  memset (order->queued, 0, problem->n_ops);
  if (!sorted)
    return FALSE;
  for (guint i = 0; i < problem->n_ops; i++)
    order->head[order->queue[i]] = compute_head (order, order->queue[i]);
  for (guint i = problem->n_ops; i-- > 0;)
    order->tail[order->queue[i]] = compute_tail (order, order->queue[i]);
  sum_up (order);
  return TRUE;
}

/* Whether `earlier` must stay in front of `later` on their device. */
static inline gboolean
is_bound (const Problem *problem, guint earlier, guint later)
{
  guint a = chain_of (problem, earlier), b = chain_of (problem, later);

  if (a == b)
    return TRUE;
  if (a / N_KINDS == b / N_KINDS)
    return a < b ? microbatch_of (problem, earlier) <= microbatch_of (problem, later) : FALSE;
  return producer_of (problem, later) == earlier;
}

gboolean
order_allows (const Order *order, Move move)
{
  const Problem *problem = order->problem;
  guint op = order->sequence[move.from];

  for (guint i = move.from; i < move.to; i++)
    if (is_bound (problem, op, order->sequence[i + 1]))
      return FALSE;
  for (guint i = move.from; i > move.to; i--)
    if (is_bound (problem, order->sequence[i - 1], op))
      return FALSE;
  return TRUE;
}

/* The op that the move puts at a position between its ends. */
static inline guint
moved_op (const Order *order, Move move, guint at)
{
  if (at == move.to)
    return order->sequence[move.from];
  return order->sequence[move.to > move.from ? at + 1 : at - 1];
}

static inline gint64
excess_of (const Order *order, guint begin, guint end, guint device, const Move *move)
{
  const Problem *problem = order->problem;
  gint64 limit = problem->limit[device], level, excess = 0;

  if (limit == G_MAXINT64)
    return 0;
  level = level_before (order, device, begin);
  for (guint i = begin; i < end; i++)
    {
      guint chain = chain_of (problem, move ? moved_op (order, *move, i) : order->sequence[i]);

      level += problem->take[chain];
      excess += above (level, limit);
      level -= problem->give[chain];
    }
  return excess;
}

gint64
order_excess_change (const Order *order, Move move)
{
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);
  guint device = device_of (order->problem, order->sequence[low]);

  return excess_of (order, low, high + 1, device, &move) - excess_of (order, low, high + 1, device, NULL);
}

#define MAX_SPREAD 64

gint64
order_estimate (const Order *order, Move move, gint64 enough)
{
  const Problem *problem = order->problem;
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);
  guint device = device_of (problem, order->sequence[low]), n = high - low + 1;
  gint64 head[MAX_SPREAD], end = G_MININT64 / 4, longest = 0, behind;

  if (n > MAX_SPREAD)
    return 0;
  if (low > problem->first[device])
    {
      guint before = order->sequence[low - 1];

      end = order->head[before] + duration_of (problem, before);
    }
  for (guint i = 0; i < n; i++)
    {
      guint op = moved_op (order, move, low + i);

      head[i] = MAX (end, arrival (order, op));
      end = head[i] + duration_of (problem, op);
      if (head[i] + departure (order, op) > enough)
        return G_MAXINT64;
    }
  behind = high + 1 < problem->first[device + 1] ? order->tail[order->sequence[high + 1]] : problem->offset[device];
  for (guint i = n; i-- > 0;)
    {
      guint op = moved_op (order, move, low + i);

      behind = duration_of (problem, op) + MAX (behind, departure (order, op));
      longest = MAX (longest, head[i] + behind);
    }
  return longest;
}

static void
permute (Order *order, Move move)
{
  guint op = order->sequence[move.from];

  for (guint i = move.from; i < move.to; i++)
    {
      order->sequence[i] = order->sequence[i + 1];
      order->position[order->sequence[i]] = i;
    }
  for (guint i = move.from; i > move.to; i--)
    {
      order->sequence[i] = order->sequence[i - 1];
      order->position[order->sequence[i]] = i;
    }
  order->sequence[move.to] = op;
  order->position[op] = move.to;
}

/* Ops whose time may have changed, in a ring. */
typedef struct
{
  Order *order;
  guint begin;
  guint n;
} Ring;

static inline void
push (Ring *ring, guint op)
{
  Order *order = ring->order;
  guint n_ops = order->problem->n_ops, at;

  if (order->queued[op])
    return;
  order->queued[op] = 1;
  at = ring->begin + ring->n++;
  order->queue[at >= n_ops ? at - n_ops : at] = op;
}

static inline guint
pop (Ring *ring)
{
  Order *order = ring->order;
  guint op = order->queue[ring->begin];

  ring->begin = ring->begin + 1 == order->problem->n_ops ? 0 : ring->begin + 1;
  ring->n--;
  order->queued[op] = 0;
  return op;
}

static void
restore_heads (Order *order)
{
  while (order->n_changes > 0)
    {
      const Change *change = &order->changes[--order->n_changes];

      order->head[change->op] = change->time;
    }
}

/* Lets changed heads run on to what depends on them. A circle would run for ever; no op can change more often than
 * there are ops in front of it. */
static gboolean
spread_heads (Order *order, guint low, guint high)
{
  const Problem *problem = order->problem;
  Ring ring = { .order = order };

  order->n_changes = 0;
  for (guint i = low; i <= high + 1 && i < problem->first[device_of (problem, order->sequence[low]) + 1]; i++)
    push (&ring, order->sequence[i]);
  while (ring.n > 0)
    {
      guint op = pop (&ring), consumer[2], n = consumers_of (problem, op, consumer), at = order->position[op] + 1;
      gint64 head = compute_head (order, op);

      if (head == order->head[op])
        continue;
      order->changes[order->n_changes++] = (Change){ op, order->head[op] };
      order->head[op] = head;
      if (order->n_changes == most_changes (problem))
        {
          while (ring.n > 0)
            pop (&ring);
          return FALSE;
        }
      if (at < problem->first[device_of (problem, op) + 1])
        push (&ring, order->sequence[at]);
      for (guint i = 0; i < n; i++)
        push (&ring, consumer[i]);
    }
  return TRUE;
}

static void
spread_tails (Order *order, guint low, guint high)
{
  const Problem *problem = order->problem;
  Ring ring = { .order = order };
  guint first = problem->first[device_of (problem, order->sequence[low])];

  for (guint i = high + 1; i-- > (low > first ? low - 1 : low);)
    push (&ring, order->sequence[i]);
  while (ring.n > 0)
    {
      guint op = pop (&ring), producer = producer_of (problem, op), at = order->position[op];
      gint64 tail = compute_tail (order, op);

      if (tail == order->tail[op])
        continue;
      order->tail[op] = tail;
      if (at > problem->first[device_of (problem, op)])
        push (&ring, order->sequence[at - 1]);
      if (producer != NO_OP)
        push (&ring, producer);
    }
}

gboolean
order_apply (Order *order, Move move)
{
  permute (order, move);
  if (!spread_heads (order, MIN (move.from, move.to), MAX (move.from, move.to)))
    {
      order_revert (order, move);
      return FALSE;
    }
  sum_up (order);
  return TRUE;
}

void
order_revert (Order *order, Move move)
{
  permute (order, (Move){ move.to, move.from });
  restore_heads (order);
  sum_up (order);
}

void
order_keep (Order *order, Move move, gint64 excess)
{
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);

  order->excess += excess;
  compute_levels (order, low, high + 1, device_of (order->problem, order->sequence[low]));
  spread_tails (order, low, high);
}

PsSchedule *
order_to_schedule (const Order *order, const PsPlacement *placement)
{
  const Problem *problem = order->problem;
  PsScheduleBuilder *builder = ps_schedule_builder_new ("search", ps_placement_copy (placement), problem->m);

  for (guint d = 0; d < problem->n_devices; d++)
    {
      for (guint i = problem->first[d]; i < problem->first[d + 1]; i++)
        {
          guint op = order->sequence[i], chain = chain_of (problem, op);

          ps_schedule_builder_add (builder, (PsOpKind)(chain % N_KINDS), chain / N_KINDS, microbatch_of (problem, op));
        }
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

/* Chains are in order in every order of ours, so that the n-th op of a kind and stage is that of microbatch n. */
gboolean
order_from_schedule (Order *order, const PsSchedule *schedule)
{
  const Problem *problem = order->problem;
  g_autofree guint *next = g_new0 (guint, (gsize)problem->n_stages * N_KINDS);

  if (schedule->n_microbatches != problem->m || schedule->n_slices != 1 || schedule->copy != NULL
      || schedule->placement->n_stages != problem->n_stages)
    return FALSE;
  for (guint d = 0; d < problem->n_devices; d++)
    {
      guint fill = problem->first[d];

      for (guint i = schedule->first[d]; i < schedule->first[d + 1]; i++)
        {
          PsOp op = schedule->ops[i];
          PsOpKind first = op.kind == PS_OP_BW ? PS_OP_B : (PsOpKind)op.kind;
          PsOpKind last = op.kind == PS_OP_BW ? PS_OP_W : first;

          for (PsOpKind kind = first; kind <= last; kind++)
            {
              guint chain = op.stage * N_KINDS + kind;

              if (kind >= N_KINDS || next[chain] >= problem->m || fill >= problem->first[d + 1])
                return FALSE;
              order->sequence[fill++] = chain * problem->m + next[chain]++;
            }
        }
    }
  return TRUE;
}

/* order.c - ends, tails and moves. */
#include "order.h"

#include <string.h>

/* Ends that a move may change before it is taken for a circle: a circle would change them for ever. */
static inline guint
most_changes (const Problem *problem)
{
  return 8 * problem->n_ops + 64;
}

static inline guint
ring_size (const Problem *problem)
{
  return 1U << g_bit_storage (problem->n_ops);
}

Order *
order_new (const Problem *problem)
{
  Order *order = g_new0 (Order, 1);

  order->problem = problem;
  order->sequence = g_new0 (guint32, problem->n_ops);
  order->position = g_new0 (guint32, problem->n_ops);
  order->previous = g_new0 (guint32, problem->n_ops);
  order->next = g_new0 (guint32, problem->n_ops);
  order->end = g_new0 (gint64, problem->n_ops + 1);
  order->tail = g_new0 (gint64, problem->n_ops + 1 + problem->n_devices);
  order->tail[problem->n_ops] = G_MININT64 / 4;
  memcpy (order->tail + problem->n_ops + 1, problem->offset, problem->n_devices * sizeof *order->tail);
  order->level = g_new0 (gint64, problem->n_ops);
  order->queue = g_new0 (guint32, ring_size (problem));
  order->queued = g_new0 (guint32, problem->n_ops);
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
  g_free (order->previous);
  g_free (order->next);
  g_free (order->end);
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
  memcpy (order->previous, from->previous, n * sizeof *order->previous);
  memcpy (order->next, from->next, n * sizeof *order->next);
  memcpy (order->end, from->end, n * sizeof *order->end);
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
  const Operation *operation = &order->problem->op[op];

  return order->end[operation->producer] + order->problem->lag[operation->chain];
}

/* Longest way from the end of the op on, through its consumers. */
static inline gint64
departure (const Order *order, guint op)
{
  const Operation *operation = &order->problem->op[op];
  const gint64 *onward = order->problem->onward + 2 * operation->chain;

  return MAX (onward[0] + order->tail[operation->consumer[0]], onward[1] + order->tail[operation->consumer[1]]);
}

static inline gint64
compute_end (const Order *order, guint op)
{
  return duration_of (order->problem, op) + MAX (arrival (order, op), order->end[order->previous[op]]);
}

static inline gint64
compute_tail (const Order *order, guint op)
{
  return duration_of (order->problem, op) + MAX (order->tail[order->next[op]], departure (order, op));
}

/* End of its last op plus offset. */
static gint64
finish_of (const Order *order, guint device)
{
  const Problem *problem = order->problem;
  guint end = problem->first[device + 1];

  return end > problem->first[device] ? order->end[order->sequence[end - 1]] + problem->offset[device] : 0;
}

static void
sum_up (Order *order)
{
  order->objective = 0;
  order->weight = 0;
  for (guint d = 0; d < order->problem->n_devices; d++)
    {
      gint64 finish = finish_of (order, d);

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

/* How many ops an op waits for. */
static inline guint
n_before (const Order *order, guint op)
{
  guint none = order->problem->n_ops;

  return (order->problem->op[op].producer != none) + (order->previous[op] != none);
}

/* Ops in an order that respects devices and producers, into queue; FALSE when there is none. */
static gboolean
sort_topologically (Order *order)
{
  const Problem *problem = order->problem;
  guint n = 0;

  memset (order->queued, 0, problem->n_ops * sizeof *order->queued);
  for (guint d = 0; d < problem->n_devices; d++)
    if (problem->first[d] < problem->first[d + 1] && producer_of (problem, order->sequence[problem->first[d]]) == NO_OP)
      order->queue[n++] = order->sequence[problem->first[d]];
  for (guint i = 0; i < n; i++)
    {
      guint op = order->queue[i];
      const Operation *operation = &problem->op[op];
      const guint after[3] = { order->next[op], operation->consumer[0], operation->consumer[1] };

      for (guint k = 0; k < 3; k++)
        if (after[k] < problem->n_ops && ++order->queued[after[k]] == n_before (order, after[k]))
          order->queue[n++] = after[k];
    }
  return n == problem->n_ops;
}

/* Says of the op at a position of the device where it stands. */
static inline void
place (Order *order, guint device, guint at)
{
  const Problem *problem = order->problem;
  guint op = order->sequence[at];

  order->position[op] = at;
  order->previous[op] = at > problem->first[device] ? order->sequence[at - 1] : problem->n_ops;
  order->next[op] = at + 1 < problem->first[device + 1] ? order->sequence[at + 1] : problem->n_ops + 1 + device;
}

gboolean
order_evaluate (Order *order)
{
  const Problem *problem = order->problem;
  gboolean sorted;

  for (guint d = 0; d < problem->n_devices; d++)
    for (guint i = problem->first[d]; i < problem->first[d + 1]; i++)
      place (order, d, i);
  order->excess = 0;
  for (guint d = 0; d < problem->n_devices; d++)
    {
      compute_levels (order, problem->first[d], problem->first[d + 1], d);
      order->excess += excess_of (order, problem->first[d], problem->first[d + 1], d, NULL);
    }
  sorted = sort_topologically (order);
  memset (order->queued, 0, problem->n_ops * sizeof *order->queued);
  if (!sorted)
    return FALSE;
  for (guint i = 0; i < problem->n_ops; i++)
    order->end[order->queue[i]] = compute_end (order, order->queue[i]);
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
  guint n = high - low + 1;
  gint64 head[MAX_SPREAD], end = order->end[order->previous[order->sequence[low]]], longest = 0, behind;

  if (n > MAX_SPREAD)
    return 0;
  for (guint i = 0; i < n; i++)
    {
      guint op = moved_op (order, move, low + i);

      head[i] = MAX (end, arrival (order, op));
      end = head[i] + duration_of (problem, op);
      if (head[i] + departure (order, op) > enough)
        return G_MAXINT64;
    }
  behind = order->tail[order->next[order->sequence[high]]];
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
  const Problem *problem = order->problem;
  guint op = order->sequence[move.from], device = device_of (problem, op);
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);

  for (guint i = move.from; i < move.to; i++)
    order->sequence[i] = order->sequence[i + 1];
  for (guint i = move.from; i > move.to; i--)
    order->sequence[i] = order->sequence[i - 1];
  order->sequence[move.to] = op;
  low = MAX (low, problem->first[device] + 1) - 1;
  high = MIN (high + 1, problem->first[device + 1] - 1);
  for (guint i = low; i <= high; i++)
    place (order, device, i);
}

/* Ops whose time may have changed, in a ring. */
typedef struct
{
  Order *order;
  guint mask;
  guint begin;
  guint end;
} Ring;

static inline void
push (Ring *ring, guint op)
{
  Order *order = ring->order;

  if (op >= order->problem->n_ops || order->queued[op])
    return;
  order->queued[op] = 1;
  order->queue[ring->end++ & ring->mask] = op;
}

/* Pushes an op whose time is the longest of some plus its duration, when one of those has changed and was or becomes
 * the longest. */
static inline void
push_bound (Ring *ring, const gint64 *time, guint op, gint64 was, gint64 is)
{
  gint64 longest;

  if (op >= ring->order->problem->n_ops)
    return;
  longest = time[op] - duration_of (ring->order->problem, op);
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

static void
restore_ends (Order *order)
{
  while (order->n_changes > 0)
    {
      const Change *change = &order->changes[--order->n_changes];

      order->end[change->op] = change->time;
    }
}

/* Lets changed ends run on to what depends on them. A circle would run for ever; no op can change more often than there
 * are ops in front of it. */
static gboolean
spread_ends (Order *order, guint low, guint high)
{
  const Problem *problem = order->problem;
  Ring ring = { .order = order, .mask = ring_size (problem) - 1 };

  order->n_changes = 0;
  for (guint i = low; i <= high; i++)
    push (&ring, order->sequence[i]);
  push (&ring, order->next[order->sequence[high]]);
  while (ring.begin != ring.end)
    {
      guint op = pop (&ring);
      gint64 end = compute_end (order, op), was = order->end[op];
      const gint64 *onward = problem->onward + 2 * problem->op[op].chain;

      if (end == was)
        continue;
      order->changes[order->n_changes++] = (Change){ op, was };
      order->end[op] = end;
      if (order->n_changes == most_changes (problem))
        {
          while (ring.begin != ring.end)
            pop (&ring);
          return FALSE;
        }
      push_bound (&ring, order->end, order->next[op], was, end);
      push_bound (&ring, order->end, problem->op[op].consumer[0], was + onward[0], end + onward[0]);
      push_bound (&ring, order->end, problem->op[op].consumer[1], was + onward[1], end + onward[1]);
    }
  return TRUE;
}

static void
spread_tails (Order *order, guint low, guint high)
{
  const Problem *problem = order->problem;
  Ring ring = { .order = order, .mask = ring_size (problem) - 1 };

  for (guint i = high + 1; i-- > low;)
    push (&ring, order->sequence[i]);
  push (&ring, order->previous[order->sequence[low]]);
  while (ring.begin != ring.end)
    {
      guint op = pop (&ring);
      gint64 tail = compute_tail (order, op), was = order->tail[op], lag = problem->lag[problem->op[op].chain];

      if (tail == was)
        continue;
      order->tail[op] = tail;
      push_bound (&ring, order->tail, order->previous[op], was, tail);
      push_bound (&ring, order->tail, problem->op[op].producer, was + lag, tail + lag);
    }
}

gboolean
order_apply (Order *order, Move move)
{
  permute (order, move);
  if (!spread_ends (order, MIN (move.from, move.to), MAX (move.from, move.to)))
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
  restore_ends (order);
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

/* order.c - orders, and the evaluation of a whole order. */
#include "order-private.h"

#include <string.h>

PsOrder *
ps_order_new (const PsProblem *problem)
{
  PsOrder *order = g_new0 (PsOrder, 1);

  order->problem = problem;
  order->sequence = g_new0 (guint32, problem->n_ops);
  order->stop = g_new (guint32, problem->n_devices);
  order->node = g_new (guint32, problem->n_ops);
  order->partner = g_new (guint32, problem->n_ops);
  order->duration = g_new (gint64, problem->n_ops);
  order->position = g_new0 (guint32, problem->n_ops);
  order->previous = g_new0 (guint32, problem->n_ops);
  order->next = g_new0 (guint32, problem->n_ops);
  order->end = g_new0 (gint64, problem->n_ops + 1);
  order->tail = g_new0 (gint64, problem->n_ops + 1 + problem->n_devices);
  order->tail[problem->n_ops] = G_MININT64 / 4;
  memcpy (order->tail + problem->n_ops + 1, problem->offset, problem->n_devices * sizeof *order->tail);
  order->level = g_new0 (gint64, problem->n_ops);
  order->queue = g_new0 (guint32, ps_order_ring_size (problem));
  order->queued = g_new0 (guint32, problem->n_ops);
  order->changes = g_new (PsChange, ps_order_most_changes (problem) + 2 * MAX_TOUCHED);
  order->before = g_new (guint32, problem->n_ops);
  ps_order_fill (order, order->sequence);
  return order;
}

void
ps_order_free (PsOrder *order)
{
  if (order == NULL)
    return;
  g_free (order->sequence);
  g_free (order->stop);
  g_free (order->node);
  g_free (order->partner);
  g_free (order->duration);
  g_free (order->position);
  g_free (order->previous);
  g_free (order->next);
  g_free (order->end);
  g_free (order->tail);
  g_free (order->level);
  g_free (order->queue);
  g_free (order->queued);
  g_free (order->changes);
  g_free (order->before);
  g_free (order);
}

static gint64
find_duration (const PsOrder *order, guint op)
{
  const PsProblem *problem = order->problem;
  guint chain = chain_of (problem, op), partner = order->partner[op];

  if (partner == problem->n_ops)
    return problem->duration[chain];
  return partner == op ? problem->bw_duration[chain / N_KINDS] : problem->pair[chain_of (problem, partner) / N_KINDS];
}

void
ps_order_copy (PsOrder *order, const PsOrder *from)
{
  gsize n = order->problem->n_ops;

  memcpy (order->sequence, from->sequence, n * sizeof *order->sequence);
  memcpy (order->stop, from->stop, order->problem->n_devices * sizeof *order->stop);
  if (!order->problem->joins)
    return;
  memcpy (order->node, from->node, n * sizeof *order->node);
  memcpy (order->partner, from->partner, n * sizeof *order->partner);
  memcpy (order->duration, from->duration, n * sizeof *order->duration);
  for (guint i = 0; i < n && order->problem != from->problem; i++)
    order->duration[i] = find_duration (order, i);
}

void
ps_order_assign (PsOrder *order, const PsOrder *from)
{
  gsize n = order->problem->n_ops;

  ps_order_copy (order, from);
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

static void
set_apart (PsOrder *order)
{
  for (guint i = 0; i < order->problem->n_ops; i++)
    {
      order->node[i] = i;
      order->partner[i] = order->problem->n_ops;
      order->duration[i] = order->problem->duration[chain_of (order->problem, i)];
    }
}

void
ps_order_clear (PsOrder *order)
{
  memcpy (order->stop, order->problem->first, order->problem->n_devices * sizeof *order->stop);
  if (order->problem->joins)
    set_apart (order);
}

void
ps_order_add (PsOrder *order, guint op, guint partner)
{
  const PsProblem *problem = order->problem;

  order->sequence[order->stop[device_of (problem, op)]++] = op;
  if (partner != problem->n_ops)
    ps_order_set_partner (order, op, partner);
}

void
ps_order_set_partner (PsOrder *order, guint b, guint partner)
{
  guint none = order->problem->n_ops, was = order->partner[b];

  if (was != none && was != b)
    order->node[was] = was;
  order->partner[b] = partner;
  order->duration[b] = find_duration (order, b);
  order->node[b + order->problem->m] = partner == none ? b + order->problem->m : b;
  if (partner != none && partner != b)
    order->node[partner] = b;
}

void
ps_order_fill (PsOrder *order, const guint32 *sequence)
{
  memcpy (order->stop, order->problem->first + 1, order->problem->n_devices * sizeof *order->stop);
  memmove (order->sequence, sequence, order->problem->n_ops * sizeof *sequence);
  set_apart (order);
}

/* End of the device's last op plus its offset. */
static gint64
finish_of (const PsOrder *order, guint device)
{
  guint stop = order->stop[device];

  return stop > order->problem->first[device] ? order->end[order->sequence[stop - 1]] + order->problem->offset[device]
                                              : 0;
}

void
ps_order_sum_up (PsOrder *order)
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

void
ps_order_compute_levels (PsOrder *order, guint begin, guint end, guint device)
{
  gboolean joins = order->problem->joins;
  gint64 level = level_before (order, device, begin);

  for (guint i = begin; i < end; i++)
    {
      level += take_of (order, order->sequence[i], joins) - give_of (order, order->sequence[i], joins);
      order->level[i] = level;
    }
}

/* How many ops an op waits for. */
static inline guint
n_before (const PsOrder *order, guint op, gboolean joins)
{
  guint none = order->problem->n_ops, partner = partner_of (order, op, joins);

  return (order->problem->op[op].producer != none) + (order->previous[op] != none)
         + (partner != NO_OP && partner != op && order->problem->op[partner].producer != none);
}

/* Counts for an op that one of the ops before it is done; queues it if that was the last. Returns the length of the
 * queue. */
static inline guint
release (PsOrder *order, guint op, guint n, gboolean joins)
{
  if (++order->queued[op] == n_before (order, op, joins))
    order->queue[n++] = op;
  return n;
}

/* Appends to the queue, which holds n ops, all ops that wait for the ops in it. */
static inline G_ALWAYS_INLINE guint
release_all (PsOrder *order, guint n, gboolean joins)
{
  guint none = order->problem->n_ops;

  for (guint i = 0; i < n; i++)
    {
      guint op = order->queue[i];
      PsMembers members = members_of (order, op, joins);

      if (order->next[op] < none)
        n = release (order, order->next[op], n, joins);
      for (guint k = 0; k < 2 * members.n; k++)
        {
          guint after = order->problem->op[members.op[k / 2]].consumer[k % 2], node = after;

          if (after < none && joins)
            node = order->node[after];
          if (after < none && node != op)
            n = release (order, node, n, joins);
        }
    }
  return n;
}

/* Sorts the nodes into the queue so that each comes after the op before it on its device and after its producers.
 * Returns how many; 0: there is a circle. */
static inline G_ALWAYS_INLINE guint
sort_topologically (PsOrder *order, gboolean joins)
{
  const PsProblem *problem = order->problem;
  guint n = 0, n_nodes = 0;

  memset (order->queued, 0, problem->n_ops * sizeof *order->queued);
  for (guint d = 0; d < problem->n_devices; d++)
    {
      n_nodes += order->stop[d] - problem->first[d];
      if (problem->first[d] < order->stop[d] && n_before (order, order->sequence[problem->first[d]], joins) == 0)
        order->queue[n++] = order->sequence[problem->first[d]];
    }
  n = release_all (order, n, joins);
  return n == n_nodes ? n : 0;
}

static inline G_ALWAYS_INLINE void
set_times (PsOrder *order, guint n, gboolean joins)
{
  for (guint i = 0; i < n; i++)
    {
      PsMembers members = members_of (order, order->queue[i], joins);
      gint64 end = compute_end (order, members.op[0], joins);

      for (guint k = 0; k < members.n; k++)
        order->end[members.op[k]] = end;
    }
  for (guint i = n; i-- > 0;)
    {
      PsMembers members = members_of (order, order->queue[i], joins);
      gint64 tail = compute_tail (order, members.op[0], joins);

      for (guint k = 0; k < members.n; k++)
        order->tail[members.op[k]] = tail;
    }
}

/* Sets places, levels and excess. */
static inline G_ALWAYS_INLINE void
set_levels (PsOrder *order, gboolean joins)
{
  const PsProblem *problem = order->problem;

  order->excess = 0;
  for (guint d = 0; d < problem->n_devices; d++)
    {
      gint64 level = problem->held[d];

      for (guint i = problem->first[d]; i < order->stop[d]; i++)
        {
          ps_order_place (order, d, i);
          level += take_of (order, order->sequence[i], joins);
          order->excess += bytes_above (level, problem->limit[d]);
          level -= give_of (order, order->sequence[i], joins);
          order->level[i] = level;
        }
    }
}

static inline G_ALWAYS_INLINE gboolean
evaluate (PsOrder *order, gboolean joins)
{
  guint n;

  set_levels (order, joins);
  n = sort_topologically (order, joins);
  memset (order->queued, 0, order->problem->n_ops * sizeof *order->queued);
  if (n == 0 && order->problem->n_ops > 0)
    return FALSE;
  set_times (order, n, joins);
  ps_order_sum_up (order);
  return TRUE;
}

gboolean
ps_order_evaluate (PsOrder *order)
{
  return order->problem->joins ? evaluate (order, TRUE) : evaluate (order, FALSE);
}

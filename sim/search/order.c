/* order.c - orders, and the evaluation of a whole order. */
#include "order-private.h"

#include <string.h>

/* Sets the nodes that stand for no op. Their durations are so low that no time could ever be bound by them. */
static void
set_borders (PsOrder *order)
{
  const PsProblem *problem = order->problem;
  PsNode *border = order->nodes + problem->n_ops;

  border->time[PS_TAIL] = G_MININT64 / 4;
  for (guint d = 0; d < problem->n_devices; d++)
    border[1 + d].time[PS_TAIL] = problem->offset[d];
  for (guint i = 0; i < 1 + problem->n_devices; i++)
    border[i].duration = G_MININT64 / 8 * 7;
}

PsOrder *
ps_order_new (const PsProblem *problem)
{
  PsOrder *order = g_new0 (PsOrder, 1);

  order->problem = problem;
  order->sequence = g_new0 (guint32, problem->n_ops);
  order->stop = g_new (guint32, problem->n_devices);
  order->node = g_new (guint32, problem->n_ops);
  order->partner = g_new (guint32, problem->n_ops);
  order->nodes = g_aligned_alloc0 (problem->n_ops + 1 + problem->n_devices, sizeof *order->nodes, sizeof *order->nodes);
  order->level = g_new0 (gint64, problem->n_ops);
  order->queue = g_new0 (guint32, ps_order_ring_size (problem));
  order->changes = g_new (PsChange, ps_order_most_changes (problem));
  order->before = g_new (guint32, problem->n_ops + 1 + problem->n_devices);
  ps_order_fill (order, order->sequence);
  set_borders (order);
  for (guint i = 0; i < problem->n_ops; i++)
    ps_order_link (order, i);
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
  g_aligned_free (order->nodes);
  g_free (order->level);
  g_free (order->queue);
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
}

void
ps_order_assign (PsOrder *order, const PsOrder *from)
{
  gsize n = order->problem->n_ops;

  ps_order_copy (order, from);
  memcpy (order->nodes, from->nodes, n * sizeof *order->nodes);
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
      order->nodes[i].duration = order->problem->duration[chain_of (order->problem, i)];
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
  order->nodes[b].duration = find_duration (order, b);
  order->node[b + order->problem->m] = partner == none ? b + order->problem->m : b;
  if (partner != none && partner != b)
    order->node[partner] = b;
}

/* Adds the node of an op to the nodes across from `node`, with the lag of a chain, unless it is the same node. */
static void
link_across (PsOrder *order, guint node, guint op, guint chain, guint side)
{
  guint none = order->problem->n_ops;
  PsNode *linked = &order->nodes[node];
  guint i = linked->across[side][0] != none;

  if (op == none || order->node[op] == node)
    return;
  linked->across[side][i] = order->node[op];
  linked->lag[side][i] = (guint16)chain;
}

void
ps_order_link (PsOrder *order, guint op)
{
  const PsProblem *problem = order->problem;
  PsNode *node = &order->nodes[op];
  PsMembers members = members_of (order, op, TRUE);

  node->duration = find_duration (order, op);
  for (guint i = 0; i < 2 * N_SIDES; i++)
    {
      node->across[i / 2][i % 2] = problem->n_ops;
      node->lag[i / 2][i % 2] = problem->op[op].chain;
    }
  for (guint i = 0; i < members.n; i++)
    {
      const PsOperation *operation = &problem->op[members.op[i]];

      link_across (order, op, operation->producer, operation->chain, PS_END);
      for (guint k = 0; k < 2 && operation->consumer[k] != problem->n_ops; k++)
        link_across (order, op, operation->consumer[k], chain_of (problem, operation->consumer[k]), PS_TAIL);
    }
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

  return stop > order->problem->first[device]
             ? end_of (order, order->sequence[stop - 1]) + order->problem->offset[device]
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

/* Sets places, levels, excess, and how many nodes each node waits for. */
static inline G_ALWAYS_INLINE void
set_levels (PsOrder *order, gboolean joins)
{
  const PsProblem *problem = order->problem;
  guint none = problem->n_ops;

  order->excess = 0;
  for (guint d = 0; d < problem->n_devices; d++)
    {
      gint64 level = problem->held[d];

      for (guint i = problem->first[d]; i < order->stop[d]; i++)
        {
          guint op = order->sequence[i];
          const guint32 *producer = order->nodes[op].across[PS_END];

          ps_order_place (order, d, i);
          order->before[op] = (producer[0] != none) + (producer[1] != none) + (i > problem->first[d]);
          level += take_of (order, op, joins);
          order->excess += bytes_above (level, problem->limit[d]);
          level -= give_of (order, op, joins);
          order->level[i] = level;
        }
    }
}

/* Computes the end of each node once the ends of all nodes that it waits for are known. Queues the nodes in this order,
 * and returns how many. */
static guint
set_ends (PsOrder *order)
{
  const PsProblem *problem = order->problem;
  PsNode *nodes = order->nodes;
  guint32 *queue = order->queue, *before = order->before;
  guint n = 0;

  memset (before + problem->n_ops, 0, (1 + problem->n_devices) * sizeof *before);
  for (guint d = 0; d < problem->n_devices; d++)
    if (problem->first[d] < order->stop[d] && before[order->sequence[problem->first[d]]] == 0)
      queue[n++] = order->sequence[problem->first[d]];
  for (guint i = 0; i < n; i++)
    {
      PsNode *node = &nodes[queue[i]];
      const guint32 after[] = { node->beside[PS_TAIL], node->across[PS_TAIL][0], node->across[PS_TAIL][1] };

      node->time[PS_END] = compute_time (nodes, problem->lag, node, PS_END);
      for (guint k = 0; k < G_N_ELEMENTS (after); k++)
        if (--before[after[k]] == 0)
          queue[n++] = after[k];
    }
  return n;
}

static void
set_tails (PsOrder *order, guint n)
{
  PsNode *nodes = order->nodes;

  for (guint i = n; i-- > 0;)
    nodes[order->queue[i]].time[PS_TAIL] = compute_time (nodes, order->problem->lag, &nodes[order->queue[i]], PS_TAIL);
}

/* Links all nodes; returns how many there are. */
static guint
link_all (PsOrder *order)
{
  const PsProblem *problem = order->problem;
  guint n = 0;

  for (guint d = 0; d < problem->n_devices; d++)
    {
      n += order->stop[d] - problem->first[d];
      for (guint i = problem->first[d]; i < order->stop[d] && problem->joins; i++)
        ps_order_link (order, order->sequence[i]);
    }
  return n;
}

gboolean
ps_order_evaluate (PsOrder *order)
{
  guint n = link_all (order);

  set_levels (order, order->problem->joins);
  if (set_ends (order) < n)
    return FALSE;
  set_tails (order, n);
  ps_order_sum_up (order);
  return TRUE;
}

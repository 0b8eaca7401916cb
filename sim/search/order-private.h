/* order-private.h - parts shared by the files of order.h. `joins` says whether ops may be joined; it is a constant in
 * each compiled copy of the inner loops, so orders of single ops do not test it. */
#pragma once

#include "order.h"

/* Ends that a move may change. More of them mean a circle, which would change ends for ever. */
static inline guint
ps_order_most_changes (const PsProblem *problem)
{
  return 8 * problem->n_ops + 64;
}

static inline guint
ps_order_ring_size (const PsProblem *problem)
{
  return 1U << g_bit_storage (problem->n_ops);
}

/* The ops of one node. */
typedef struct
{
  guint n;
  guint op[3]; /* op[0] stands in the sequence */
} PsMembers;

/* The op's partner; NO_OP: none. */
static inline guint
partner_of (const PsOrder *order, guint op, gboolean joins)
{
  return joins && order->partner[op] != order->problem->n_ops ? order->partner[op] : NO_OP;
}

static inline PsMembers
members_of (const PsOrder *order, guint op, gboolean joins)
{
  guint partner = partner_of (order, op, joins), m = order->problem->m;

  if (partner == NO_OP)
    return (PsMembers){ 1, { op } };
  return (PsMembers){ partner == op ? 2 : 3, { op, op + m, partner } };
}

/* Memory that a node takes when it starts; give_of is the memory that it gives back when it ends. */
static inline gint64
take_of (const PsOrder *order, guint op, gboolean joins)
{
  const PsProblem *problem = order->problem;
  guint chain = chain_of (problem, op), partner = partner_of (order, op, joins);

  if (partner == NO_OP)
    return problem->take[chain];
  return problem->bw_take[chain / N_KINDS] + (partner == op ? 0 : problem->take[chain_of (problem, partner)]);
}

static inline gint64
give_of (const PsOrder *order, guint op, gboolean joins)
{
  const PsProblem *problem = order->problem;
  guint chain = chain_of (problem, op), partner = partner_of (order, op, joins);

  if (partner == NO_OP)
    return problem->give[chain];
  return problem->bw_give[chain / N_KINDS] + (partner == op ? 0 : problem->give[chain_of (problem, partner)]);
}

/* Longest path through a node's inputs (PS_END: when they have arrived) or through its consumers (PS_TAIL). */
static inline gint64
path_across (const PsNode *nodes, const gint64 *lag, const PsNode *node, guint side)
{
  gint64 first = nodes[node->across[side][0]].time[side] + lag[node->lag[side][0]];
  gint64 second = nodes[node->across[side][1]].time[side] + lag[node->lag[side][1]];

  return MAX (first, second);
}

static inline gint64
path_beside (const PsNode *nodes, const PsNode *node, guint side)
{
  return nodes[node->beside[side]].time[side];
}

static inline gint64
compute_time (const PsNode *nodes, const gint64 *lag, const PsNode *node, guint side)
{
  gint64 across = path_across (nodes, lag, node, side), beside = path_beside (nodes, node, side);

  return node->duration + MAX (across, beside);
}

/* Memory before the op at a position. */
static inline gint64
level_before (const PsOrder *order, guint device, guint at)
{
  return at > order->problem->first[device] ? order->level[at - 1] : order->problem->held[device];
}

static inline gint64
bytes_above (gint64 bytes, gint64 limit)
{
  return bytes > limit ? bytes - limit : 0;
}

/* Bytes above the device's limit while the op at a position runs; levels must be up to date. */
static inline gint64
excess_at (const PsOrder *order, guint device, guint at, gboolean joins)
{
  return bytes_above (order->level[at] + give_of (order, order->sequence[at], joins), order->problem->limit[device]);
}

/* One of several ops that follow each other on a device. */
typedef struct
{
  gint64 start; /* the arrival of its input, until begin_part */
  gint64 duration;
  gint64 departure;
} PsOrderPart;

static inline PsOrderPart
part_of (const PsOrder *order, guint op)
{
  const PsNode *nodes = order->nodes, *node = &nodes[op];
  const gint64 *lag = order->problem->lag;

  return (PsOrderPart){ path_across (nodes, lag, node, PS_END), node->duration,
                        path_across (nodes, lag, node, PS_TAIL) };
}

/* Starts a part not before *end, the end of the part before it, which becomes its own end. FALSE: a path through the
 * part is longer than `enough`. */
static inline gboolean
begin_part (PsOrderPart *part, gint64 *end, gint64 enough)
{
  part->start = MAX (*end, part->start);
  *end = part->start + part->duration;
  return *end + part->departure <= enough;
}

/* The longest path through n parts that have begun; `tail` is that of the op after them. */
static inline gint64
longest_through (const PsOrderPart *parts, guint n, gint64 tail)
{
  gint64 longest = 0;

  for (guint i = n; i-- > 0;)
    {
      tail = parts[i].duration + MAX (tail, parts[i].departure);
      longest = MAX (longest, parts[i].start + tail);
    }
  return longest;
}

/* Sets where the op at a position of the device stands. */
static inline void
ps_order_place (PsOrder *order, guint device, guint at)
{
  const PsProblem *problem = order->problem;
  PsNode *node = &order->nodes[order->sequence[at]];

  node->position = at;
  node->beside[PS_END] = at > problem->first[device] ? order->sequence[at - 1] : problem->n_ops;
  node->beside[PS_TAIL] = at + 1 < order->stop[device] ? order->sequence[at + 1] : problem->n_ops + 1 + device;
}

/* Leaves the neighbours of nodes stale: ps_order_link brings those of one node up to date. */
void ps_order_set_partner (PsOrder *order, guint b, guint partner);
void ps_order_link (PsOrder *order, guint op);

/* Brings the levels of a range up to date; the caller sees to order->excess. */
void ps_order_compute_levels (PsOrder *order, guint begin, guint end, guint device);

/* Sums up objective and weight. */
void ps_order_sum_up (PsOrder *order);

/* Spreads changed ends, or tails, to everything that depends on them. The changes begin at the nodes of a range, those
 * beside it, and the ops that a join (NULL: none) has touched. FALSE: a circle. Ends are noted in order->changes. */
gboolean ps_order_spread (PsOrder *order, guint low, guint high, const PsJoined *joined, guint side);
void ps_order_restore_ends (PsOrder *order);

/* Whether `earlier` must stay before `later` on their device. */
gboolean ps_order_is_bound (const PsOrder *order, guint earlier, guint later);

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

static inline gint64
arrival_of_single (const PsOrder *order, guint op)
{
  const PsOperation *operation = &order->problem->op[op];

  return order->end[operation->producer] + order->problem->lag[operation->chain];
}

/* When the node's inputs from its producers have arrived. */
static inline gint64
arrival (const PsOrder *order, guint op, gboolean joins)
{
  guint partner = partner_of (order, op, joins);
  gint64 first = arrival_of_single (order, op);

  return partner == NO_OP || partner == op ? first : MAX (first, arrival_of_single (order, partner));
}

static inline gint64
departure_of_single (const PsOrder *order, guint op)
{
  const PsOperation *operation = &order->problem->op[op];
  const gint64 *onward = order->problem->onward + 2 * operation->chain;

  return MAX (onward[0] + order->tail[operation->consumer[0]], onward[1] + order->tail[operation->consumer[1]]);
}

/* Longest path from the end of a B joined with its W. Only the B of the stage below counts as its consumer; it is the
 * first one. */
static inline gint64
departure_of_joined (const PsOrder *order, guint op)
{
  const PsProblem *problem = order->problem;
  guint consumer = problem->op[op].consumer[0];

  return problem->onward[2 * chain_of (problem, op)]
         + order->tail[consumer == op + problem->m ? problem->n_ops : consumer];
}

/* Longest path from the end of the node through its consumers. */
static inline gint64
departure (const PsOrder *order, guint op, gboolean joins)
{
  guint partner = partner_of (order, op, joins);

  if (partner == NO_OP)
    return departure_of_single (order, op);
  return partner == op ? departure_of_joined (order, op)
                       : MAX (departure_of_joined (order, op), departure_of_single (order, partner));
}

static inline gint64
compute_end (const PsOrder *order, guint op, gboolean joins)
{
  return order->duration[op] + MAX (arrival (order, op, joins), order->end[order->previous[op]]);
}

static inline gint64
compute_tail (const PsOrder *order, guint op, gboolean joins)
{
  return order->duration[op] + MAX (order->tail[order->next[op]], departure (order, op, joins));
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
part_of (const PsOrder *order, guint op, gboolean joins)
{
  return (PsOrderPart){ arrival (order, op, joins), order->duration[op], departure (order, op, joins) };
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
  guint op = order->sequence[at];

  order->position[op] = at;
  order->previous[op] = at > problem->first[device] ? order->sequence[at - 1] : problem->n_ops;
  order->next[op] = at + 1 < order->stop[device] ? order->sequence[at + 1] : problem->n_ops + 1 + device;
}

void ps_order_set_partner (PsOrder *order, guint b, guint partner);

/* Brings the levels of a range up to date; the caller sees to order->excess. */
void ps_order_compute_levels (PsOrder *order, guint begin, guint end, guint device);

/* Sums up objective and weight. */
void ps_order_sum_up (PsOrder *order);

/* Spread changed ends, or tails, to everything that depends on them. They begin at the ops of a range, the op after it
 * (for tails: before it), and the ops that a join (NULL: none) has touched. FALSE: a circle. */
gboolean ps_order_spread_ends (PsOrder *order, guint low, guint high, const PsJoined *joined);
void ps_order_spread_tails (PsOrder *order, guint low, guint high, const PsJoined *joined);
void ps_order_restore_ends (PsOrder *order);

/* Whether `earlier` must stay before `later` on their device. */
gboolean ps_order_is_bound (const PsOrder *order, guint earlier, guint later);

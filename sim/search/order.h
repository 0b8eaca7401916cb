/* order.h - an order of all ops, with their ends (longest path to an op's end) and tails (longest path from an op's
 * start to the objective, offsets included). Single ops move along their device, and ops are joined and split; each
 * change is evaluated by what it changes. */
#pragma once

#include "problem.h"

typedef struct {
  guint op;
  gint64 time;
} PsChange;

/* Times of a node: PS_END is the longest path to its end, PS_TAIL the longest path from its start to the objective.
 * The end depends on nodes before the node, the tail on nodes after it. */
enum {
  PS_END,
  PS_TAIL,
  N_SIDES,
};

/* An op or several joined ones, with the neighbours that bound its times: one line of the cache. A node bears the
 * number of the op that stands in the sequence. Node n_ops is none: its end is 0, its tail far below 0. Node n_ops + 1
 * + device comes after the last one of a device: its tail is the device's offset. */
typedef struct {
  gint64 time[N_SIDES];
  gint64 duration;
  guint32 neighbour[N_SIDES]; /* the nodes before and after it on its device */
  guint32 linked[N_SIDES][2]; /* the producers of its inputs; the consumers of its results */
  guint16 lag[N_SIDES][2];    /* the chains whose lags lie between them */
  guint32 position;           /* in the sequence */
  guint32 queued;             /* scratch */
} PsNode;

/* A pair or a BW stands in the sequence as one node, by its B; its ops start and end together. Nodes of several ops
 * exist only if problem->joins. */
typedef struct {
  const PsProblem *problem;
  GPtrArray *owned;  /* all arrays but `nodes` */
  guint32 *sequence; /* [n_ops] device after device; joined ops leave the last positions of a device unused */
  guint32 *stop;     /* [n_devices] position after the last op */
  guint32 *node;     /* [n_ops] the op that stands in the sequence for each op: itself, or a B */
  guint32 *partner;  /* [n_ops] of a B in a pair: the F; of a B in a BW: itself; else n_ops */
  PsNode *nodes;     /* [n_ops + 1 + n_devices] entries of ops that stand for no node are stale */
  gint64 *level;     /* [n_ops] memory of the device when the op at that position has ended */
  gint64 excess;     /* sum over all positions of the bytes above the device's limit */
  gint64 objective;
  gint64 end_sum;    /* sum over devices of end + offset: decides between orders of equal objective */
  guint32 *queue;    /* scratch: ring of nodes whose time may have changed, a power of two of them */
  PsChange *changes; /* ends before the move under way */
  guint n_changes;
  guint32 *before; /* scratch: the sequence before the join under way, or how many nodes each node waits for */
} PsOrder;

static inline gint64 end_of (const PsOrder *order, guint node)
{
  return order->nodes[node].time[PS_END];
}

PsOrder *ps_order_new (const PsProblem *problem);

void ps_order_free (PsOrder *order);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsOrder, ps_order_free)

/* Copy an order of a problem with the same ops and joins. ps_order_copy copies the sequence only, which must then be
 * evaluated; ps_order_assign copies everything. */
void ps_order_copy (PsOrder *order, const PsOrder *from);

void ps_order_assign (PsOrder *order, const PsOrder *from);

/* A sequence is made in three steps. ps_order_clear leaves all devices without ops. ps_order_add appends a node to its
 * device: `op`, with `partner` as in PsOrder. An op with a partner stands for its W too, and for the F that is its
 * partner. ps_order_fill instead takes [n_ops] single ops. ps_order_evaluate then computes the rest. */
void ps_order_clear (PsOrder *order);

void ps_order_add (PsOrder *order, guint op, guint partner);

void ps_order_fill (PsOrder *order, const guint32 *sequence);

/* Computes everything from the sequence. FALSE: the devices wait for each other in a circle. An order is a solution if
 * its excess is 0. */
gboolean ps_order_evaluate (PsOrder *order);

/* A move: the op at position `from` goes to position `to` of the same device; the ops between shift by one. */
typedef struct {
  guint from;
  guint to;
} PsMove;

/* Whether a move keeps chains in order and puts no op before its producer on the same device. Circles through other
 * devices are excluded only for W and for adjacent ops without idle time between. Other moves may fail in
 * ps_order_apply. */
gboolean ps_order_allows (const PsOrder *order, PsMove move);

/* How much a move adds to the excess. */
gint64 ps_order_excess_change (const PsOrder *order, PsMove move);

/* The longest path through the ops that the move touches. It is exact if no path through other devices connects two of
 * them. It is any value above `enough` as soon as it is certain to exceed that. */
gint64 ps_order_estimate (const PsOrder *order, PsMove move, gint64 enough);

/* ps_order_apply makes the move and brings ends, objective and end_sum up to date; FALSE: it would make a circle, and
 * the order is unchanged. Tails, levels and excess are stale until ps_order_keep, which is given the change of the
 * excess. ps_order_revert takes the move back. */
gboolean ps_order_apply (PsOrder *order, PsMove move);

void ps_order_revert (PsOrder *order, PsMove move);

void ps_order_keep (PsOrder *order, PsMove move, gint64 excess);

/* Moves an op that is drawn a few places. FALSE, and nothing has moved: that is no solution, or the objective would
 * exceed `enough`. */
gboolean ps_order_move_one (PsOrder *order, gint64 enough, PsRandom *random);

/* Changes how a B and its W run: apart, as BW, or as BW in a pair with an F. Whichever of B and F comes first stays,
 * and the other one and the W come to it. Ops that are split stay where the node was. */
typedef struct {
  guint b;
  guint partner; /* as in PsOrder, from now on */
  gboolean last; /* an F that is split off goes after its backward, not before it */
} PsJoin;

/* Whether a join keeps chains in order and makes no op wait. Only changes between apart, BW and pair are allowed: a
 * pair must be split before its B is joined with another F. */
gboolean ps_order_allows_join (const PsOrder *order, PsJoin join);

/* Makes a join that is allowed, and evaluates the order. FALSE: it would make a circle, and the order is no solution
 * anymore. */
gboolean ps_order_join (PsOrder *order, PsJoin join);

PsSchedule *ps_order_to_schedule (const PsOrder *order, const PsPlacement *placement);

/* Reads the sequence of a schedule with the same placement; FALSE: it is not one of this problem. Pairs and BW are read
 * as their parts where joining them saves nothing. */
gboolean ps_order_from_schedule (PsOrder *order, const PsSchedule *schedule);

/* The ops of one node. */
typedef struct {
  guint n;
  guint op[3]; /* op[0] stands in the sequence */
} PsMembers;

/* The op's partner; NO_OP: none. */
static inline guint partner_of (const PsOrder *order, guint op, gboolean joins)
{
  return joins && order->partner[op] != order->problem->n_ops ? order->partner[op] : NO_OP;
}

static inline PsMembers members_of (const PsOrder *order, guint op, gboolean joins)
{
  guint partner = partner_of (order, op, joins), m = order->problem->m;

  if (partner == NO_OP)
    return (PsMembers){ 1, { op } };
  return (PsMembers){ partner == op ? 2 : 3, { op, op + m, partner } };
}

/* The bytes of a node: those of its op by chain, or those of its BW by stage and of its F. */
static inline gint64 bytes_of (const PsOrder *order, guint op, gboolean joins, const gint64 *single, const gint64 *bw)
{
  const PsProblem *problem = order->problem;
  guint chain = chain_of (problem, op), partner = partner_of (order, op, joins);

  if (partner == NO_OP)
    return single[chain];
  return bw[chain / N_KINDS] + (partner == op ? 0 : single[chain_of (problem, partner)]);
}

/* Memory that a node takes when it starts. */
static inline gint64 take_of (const PsOrder *order, guint op, gboolean joins)
{
  return bytes_of (order, op, joins, order->problem->take, order->problem->bw_take);
}

/* Memory that it gives back when it ends. */
static inline gint64 give_of (const PsOrder *order, guint op, gboolean joins)
{
  return bytes_of (order, op, joins, order->problem->give, order->problem->bw_give);
}

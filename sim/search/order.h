/* order.h - an order of all ops with its ends (longest path to an op's end) and tails (longest path from an op's start
 * to the objective, offsets included), and moves evaluated by what they change: single ops moved along their device,
 * and ops joined and split. */
#ifndef PS_SEARCH_ORDER_H
#define PS_SEARCH_ORDER_H

#include "problem.h"

G_BEGIN_DECLS

typedef struct
{
  guint op;
  gint64 time;
} PsChange;

/* The ops of a pair, or of a BW, stand in the sequence as one, by their B; they start and end together, so that each
 * has the end and the tail of the whole. Only where problem->joins. */
typedef struct
{
  const PsProblem *problem;
  guint32 *sequence; /* [n_ops] device after device; where ops are joined the last positions of a device are unused */
  guint32 *stop;     /* [n_devices] position behind the last op */
  guint32 *node;     /* [n_ops] the op that stands for it in the sequence: itself, or a B */
  guint32 *partner;  /* [n_ops] of a B: the F that it makes a pair with; itself: BW alone; n_ops: none, as of others */
  guint32 *position; /* [n_ops] of each op in the sequence */
  guint32 *previous; /* [n_ops] on the same device; n_ops: none */
  guint32 *next;     /* [n_ops] likewise; n_ops + 1 + device: none */
  gint64 *end;       /* [n_ops + 1], 0 for no op */
  gint64 *tail;      /* [n_ops + 1 + n_devices], far below 0 for no op, the offset of each device behind its last op */
  gint64 *level;     /* [n_ops] memory of the device when the op at that position has ended */
  gint64 excess;     /* sum over all positions of what the device's memory exceeds its limit by */
  gint64 objective;
  gint64 weight;     /* sum over devices of end + offset: decides between orders of equal objective */
  guint32 *queue;    /* scratch: ring of ops whose time may have changed, a power of two of them */
  guint32 *queued;   /* scratch */
  PsChange *changes; /* ends before the move under way */
  guint n_changes;
  guint32 *before; /* scratch: the sequence before the join under way */
} PsOrder;

PsOrder *ps_order_new (const PsProblem *problem);
void ps_order_free (PsOrder *order);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsOrder, ps_order_free)

/* Copies the sequence, of a problem of the same ops that may join the same, to be evaluated; and with everything that
 * follows from it. */
void ps_order_copy (PsOrder *order, const PsOrder *from);
void ps_order_assign (PsOrder *order, const PsOrder *from);

/* Sequences are made by clearing the order, whose devices then have no ops, and adding the ops of each in turn;
 * partner as above, an op that is none standing for W and, if it is an F, for both. ps_order_fill adds [n_ops] single
 * ones. ps_order_evaluate makes them an order. */
void ps_order_clear (PsOrder *order);
void ps_order_add (PsOrder *order, guint op, guint partner);
void ps_order_fill (PsOrder *order, const guint32 *sequence);

/* Duration of an op, or of all that it stands for. */
static inline gint64
ps_order_duration (const PsOrder *order, guint op)
{
  const PsProblem *problem = order->problem;
  guint chain = chain_of (problem, op), partner = problem->joins ? order->partner[op] : problem->n_ops;

  if (partner == problem->n_ops)
    return problem->duration[chain];
  return partner == op ? problem->bw_duration[chain / N_KINDS] : problem->pair[chain_of (problem, partner) / N_KINDS];
}

/* Computes everything from the sequence. FALSE when the devices wait for each other in a circle. An order is a solution
 * when its excess is 0. */
gboolean ps_order_evaluate (PsOrder *order);

/* A move: the op at position `from` goes to position `to` of the same device; what lies between shifts by one. */
typedef struct
{
  guint from;
  guint to;
} PsMove;

/* Whether a move keeps chains in order and puts no op before its producer on the same device. Circles through other
 * devices are excluded only for adjacent ops without idle time between and for W; other moves may fail in
 * ps_order_apply.
 */
gboolean ps_order_allows (const PsOrder *order, PsMove move);

/* What a move adds to the excess. */
gint64 ps_order_excess_change (const PsOrder *order, PsMove move);

/* The longest path through the ops that the move touches, exact when no path leads from one of them to another through
 * other devices. At least `enough` (any value above it) as soon as that is certain. */
gint64 ps_order_estimate (const PsOrder *order, PsMove move, gint64 enough);

/* Makes the move and brings ends, objective and weight up to date; FALSE (and the order unchanged) when it makes a
 * circle. Tails, levels and excess are stale until ps_order_keep, which takes the change of the excess; ps_order_revert
 * takes the move back. */
gboolean ps_order_apply (PsOrder *order, PsMove move);
void ps_order_revert (PsOrder *order, PsMove move);
void ps_order_keep (PsOrder *order, PsMove move, gint64 excess);

/* Lets a B, and its W, run otherwise: apart, as BW alone, or in a pair. Where they were apart their F stands in front
 * of them or is the next: whichever of B and F comes first, the other ones come to it; what is split stays where it
 * was. */
typedef struct
{
  guint b;
  guint partner; /* from now on */
  gboolean last; /* an F that is split off goes behind its backward, not in front of it */
} PsJoin;

/* Whether a join keeps chains in order and waits for nothing that is not there yet. Only a change between apart, BW and
 * pair: pairs have to be split before their B is joined with another F. */
gboolean ps_order_allows_join (const PsOrder *order, PsJoin join);

/* What a join adds to the excess. */
gint64 ps_order_excess_join (const PsOrder *order, PsJoin join);

/* As ps_order_estimate; 0 where the ops are too far from each other. */
gint64 ps_order_estimate_join (const PsOrder *order, PsJoin join, gint64 enough);

/* A B, its W and an F. */
#define MAX_TOUCHED 3

/* What a join has changed. */
typedef struct
{
  guint b;
  guint was;  /* partner */
  guint low;  /* first position that has changed */
  guint n;    /* positions from there on, before */
  guint high; /* last position of what was joined or split */
  guint n_touched;
  guint touched[MAX_TOUCHED]; /* ops that were joined or split */
  guint n_gaps;
  guint gap[MAX_TOUCHED]; /* positions in front of which an op was */
} PsJoined;

/* As ps_order_apply, ps_order_revert and ps_order_keep. */
gboolean ps_order_join (PsOrder *order, PsJoin join, PsJoined *joined);
void ps_order_revert_join (PsOrder *order, const PsJoined *joined);
void ps_order_keep_join (PsOrder *order, const PsJoined *joined, gint64 excess);

PsSchedule *ps_order_to_schedule (const PsOrder *order, const PsPlacement *placement);

/* Reads the sequence of a schedule of the same placement, pairs and BW as their parts where joining them saves nothing;
 * FALSE when it is not of this problem. */
gboolean ps_order_from_schedule (PsOrder *order, const PsSchedule *schedule);

G_END_DECLS

#endif

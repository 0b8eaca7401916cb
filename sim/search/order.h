/* order.h - an order of all ops with its ends (longest path to an op's end) and tails (longest path from an op's start
 * to the objective, offsets included), and moves of single ops evaluated by what they change. */
#ifndef PS_SEARCH_ORDER_H
#define PS_SEARCH_ORDER_H

#include "problem.h"

G_BEGIN_DECLS

typedef struct
{
  guint op;
  gint64 time;
} Change;

typedef struct
{
  const Problem *problem;
  guint32 *sequence; /* [n_ops] device after device */
  guint32 *position; /* [n_ops] of each op in the sequence */
  guint32 *previous; /* [n_ops] on the same device; n_ops: none */
  guint32 *next;     /* [n_ops] likewise; n_ops + 1 + device: none */
  gint64 *end;       /* [n_ops + 1], 0 for no op */
  gint64 *tail;      /* [n_ops + 1 + n_devices], far below 0 for no op, the offset of each device behind its last op */
  gint64 *level;     /* [n_ops] memory of the device when the op at that position has ended */
  gint64 excess;     /* sum over all positions of what the device's memory exceeds its limit by */
  gint64 objective;
  gint64 weight;   /* sum over devices of end + offset: decides between orders of equal objective */
  guint32 *queue;  /* scratch: ring of ops whose time may have changed, a power of two of them */
  guint32 *queued; /* scratch */
  Change *changes; /* ends before the move under way */
  guint n_changes;
} Order;

Order *order_new (const Problem *problem);
void order_free (Order *order);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Order, order_free)

/* Copies the sequence and everything that follows from it. */
void order_assign (Order *order, const Order *from);

/* Computes everything from the sequence. FALSE when the devices wait for each other in a circle. An order is a solution
 * when its excess is 0. */
gboolean order_evaluate (Order *order);

/* A move: the op at position `from` goes to position `to` of the same device; what lies between shifts by one. */
typedef struct
{
  guint from;
  guint to;
} Move;

/* Whether a move keeps chains in order and puts no op before its producer on the same device. Circles through other
 * devices are excluded only for adjacent ops without idle time between and for W; other moves may fail in order_apply.
 */
gboolean order_allows (const Order *order, Move move);

/* What a move adds to the excess. */
gint64 order_excess_change (const Order *order, Move move);

/* The longest path through the ops that the move touches, exact when no path leads from one of them to another through
 * other devices. At least `enough` (any value above it) as soon as that is certain. */
gint64 order_estimate (const Order *order, Move move, gint64 enough);

/* Makes the move and brings ends, objective and weight up to date; FALSE (and the order unchanged) when it makes a
 * circle. Tails, levels and excess are stale until order_keep, which takes the change of the excess; order_revert takes
 * the move back. */
gboolean order_apply (Order *order, Move move);
void order_revert (Order *order, Move move);
void order_keep (Order *order, Move move, gint64 excess);

PsSchedule *order_to_schedule (const Order *order, const PsPlacement *placement);

/* Reads the sequence of a schedule of the same placement, a BW as B and W; FALSE when it is not of this problem. */
gboolean order_from_schedule (Order *order, const PsSchedule *schedule);

G_END_DECLS

#endif

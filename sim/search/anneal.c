/* anneal.c - local search over orders. */
#include "methods.h"

/* How far single ops are moved at most. */
#define REACH 16

/* Moves between two calls of spend. */
#define ANNEAL_ROUND 512

/* Parts of a search; the best order so far is offered after each. */
#define PARTS 16

/* Draws of a move until one is allowed, at most. */
#define MAX_DRAWS 64

/* Where ops may be joined, one step in MOVES_PER_JOIN is a join. JOIN_REACH is the most ops between a B and an F that
 * are joined. */
#define MOVES_PER_JOIN 6
#define JOIN_REACH 12

/* The objective, plus a part of the mean finish that decides between orders of equal objective. */
static double cost_of (const PsOrder *order, const PsAnnealing *annealing)
{
  return (double)order->objective + annealing->pull * (double)order->end_sum / order->problem->n_devices;
}

/* Whether the op at a position starts exactly when the op before it ends. Only then does it wait for that op, and no
 * path through other devices leads from that op to it. */
static gboolean is_tight (const PsOrder *order, guint at)
{
  guint before = order->sequence[at - 1], op = order->sequence[at];

  return order->nodes[before].duration > 0 && end_of (order, before) == end_of (order, op) - order->nodes[op].duration;
}

/* Draws a position that has an op before it on the same device. */
static guint draw_position (const PsOrder *order, PsRandom *random, guint *first, guint *end)
{
  const PsProblem *problem = order->problem;
  guint at = ps_random_below (random, problem->n_ops), device;

  if (problem->joins)
    at = order->nodes[order->node[at]].position;
  device = device_of (problem, order->sequence[at]);
  *first = problem->first[device];
  *end = order->stop[device];
  return at == *first ? at + 1 : at;
}

/* Draws a move. W may go anywhere after its B; F and B only pass ops that they touch. */
static gboolean draw_move (const PsOrder *order, PsRandom *random, PsMove *move)
{
  const PsProblem *problem = order->problem;
  guint first, end, at = draw_position (order, random, &first, &end), what = ps_random_below (random, 8);
  guint kind, distance;

  if (at >= end)
    return FALSE;
  kind = chain_of (problem, order->sequence[at]) % N_KINDS;
  if (what < 5 && kind != PS_OP_W) {
    *move = (PsMove){ at, at - 1 };
    return is_tight (order, at);
  }
  distance = 1 + ps_random_below (random, REACH);
  if (kind == PS_OP_W) {
    *move = (PsMove){ at, what & 1 ? MAX (at, first + distance) - distance : MIN (at + distance, end - 1) };
    return move->to != move->from;
  }
  distance = 1 + ps_random_below (random, 4);
  *move = (PsMove){ at, what & 1 ? MAX (at, first + distance) - distance : MIN (at + distance, end - 1) };
  for (guint i = MIN (move->from, move->to) + 1; i <= MAX (move->from, move->to); i++)
    if (!is_tight (order, i))
      return FALSE;
  return move->to != move->from;
}

/* Finds an op for a B or an F to be joined with: the next op of `kind`, before it (ahead) or after it, that is in no
 * pair. */
static guint find_partner (const PsOrder *order, guint op, guint kind, gboolean ahead)
{
  const PsProblem *problem = order->problem;
  guint device = device_of (problem, op);
  gint64 at = order->nodes[op].position, first = problem->first[device], stop = order->stop[device];

  for (guint i = 0; i < JOIN_REACH; i++) {
    guint other;

    at += ahead ? -1 : 1;
    if (at < first || at >= stop)
      return NO_OP;
    other = order->sequence[at];
    if (chain_of (problem, other) % N_KINDS == kind
        && (order->partner[other] == problem->n_ops || order->partner[other] == other))
      return other;
  }
  return NO_OP;
}

static gboolean draw_join (const PsOrder *order, PsRandom *random, PsJoin *join)
{
  const PsProblem *problem = order->problem;
  guint op = order->node[ps_random_below (random, problem->n_ops)], chain = chain_of (problem, op);
  guint kind = chain % N_KINDS, partner = order->partner[op], none = problem->n_ops, what = ps_random_below (random, 4),
        other;
  gboolean fuses = problem->fuses[chain / N_KINDS];

  *join = (PsJoin){ op, none, what & 1 };
  if (kind == PS_OP_W)
    return FALSE;
  if (partner != none && partner != op) {
    if (fuses && what & 2)
      join->partner = op;
    return TRUE;
  }
  if (kind == PS_OP_B && fuses && what & 2) {
    join->partner = partner == op ? none : op;
    return TRUE;
  }
  other = find_partner (order, op, kind == PS_OP_F ? PS_OP_B : PS_OP_F, what & 1);
  join->b = kind == PS_OP_F ? other : op;
  join->partner = kind == PS_OP_F ? op : other;
  return other != NO_OP;
}

/* Accepts a change that was made, if its cost less the margin is not above `cost`. */
static gboolean accepts (const PsOrder *order, const PsAnnealing *annealing, double cost, double margin, double price,
                         gint64 excess)
{
  return (price >= 0 || excess <= 0) && cost_of (order, annealing) <= cost + margin - MAX (price, 0) * (double)excess;
}

/* Tries to move an op; TRUE when the order has changed. An estimate refuses most moves that would cost too much. */
static gboolean try_move (PsOrder *order, const PsAnnealing *annealing, double margin, double price)
{
  double cost = cost_of (order, annealing);
  gint64 excess, enough;
  guint n_draws = 0;
  PsMove move;

  while (!draw_move (order, annealing->random, &move) || !ps_order_allows (order, move))
    if (++n_draws == MAX_DRAWS)
      return FALSE;
  excess = ps_order_excess_change (order, move);
  enough = order->objective + (gint64)(margin - MAX (price, 0) * (double)excess);
  if ((price < 0 && excess > 0) || ps_order_estimate (order, move, enough) > enough || !ps_order_apply (order, move))
    return FALSE;
  if (!accepts (order, annealing, cost, margin, price, excess)) {
    ps_order_revert (order, move);
    return FALSE;
  }
  ps_order_keep (order, move, excess);
  return TRUE;
}

/* Tries to join or split ops; `before` is scratch. */
static gboolean try_join (PsOrder *order, PsOrder *before, const PsAnnealing *annealing, double margin, double price)
{
  guint n_draws = 0;
  PsJoin join;

  while (!draw_join (order, annealing->random, &join) || !ps_order_allows_join (order, join))
    if (++n_draws == MAX_DRAWS)
      return FALSE;
  ps_order_assign (before, order);
  if (ps_order_join (order, join)
      && accepts (order, annealing, cost_of (before, annealing), margin, price, order->excess - before->excess))
    return TRUE;
  ps_order_assign (order, before);
  return FALSE;
}

static gboolean try_step (PsOrder *order, PsOrder *before, const PsAnnealing *annealing, double temperature,
                          double price)
{
  gboolean joins = order->problem->joins && ps_random_below (annealing->random, MOVES_PER_JOIN) == 0;
  double margin = temperature * ps_random_exponential (annealing->random);

  return joins ? try_join (order, before, annealing, margin, price) : try_move (order, annealing, margin, price);
}

guint64 ps_anneal (PsOrder *order, const PsAnnealing *annealing)
{
  g_autoptr (PsOrder) best = ps_order_new (order->problem), before = ps_order_new (order->problem);
  double best_cost = cost_of (order, annealing);
  guint64 n = 0, part_moves = annealing->n_moves / PARTS, offer_at = part_moves;

  ps_order_assign (best, order);
  while (n < annealing->n_moves && best->objective > annealing->stop_at_ns) {
    double part = (double)n / (double)annealing->n_moves;
    double left = 1 - part, temperature = annealing->cold + (annealing->hot - annealing->cold) * left * left * left;

    if (annealing->spend != NULL && !annealing->spend (ANNEAL_ROUND, annealing->data))
      break;
    for (guint i = 0; i < ANNEAL_ROUND; i++)
      if (try_step (order, before, annealing, temperature, annealing->price * (1 + 9 * part)) && order->excess == 0
          && cost_of (order, annealing) < best_cost) {
        best_cost = cost_of (order, annealing);
        ps_order_assign (best, order);
      }
    n += ANNEAL_ROUND;
    if (annealing->offer != NULL && n >= offer_at) {
      annealing->offer (best, "local search", annealing->data);
      offer_at += part_moves;
    }
  }
  ps_order_assign (order, best);
  return n;
}

/* order-join.c - backwards run apart, as BW, or in a pair with a forward. */
#include "order-private.h"

#include <string.h>

static inline guint
weights_of (const PsOrder *order, guint b)
{
  return b + order->problem->m;
}

/* Whether an op can come forward to position `low`: no op from there on must stay before it, except `along`, which
 * comes with it. */
static gboolean
can_come (const PsOrder *order, guint op, guint low, guint along)
{
  for (guint i = low; i < order->nodes[op].position; i++)
    if (order->sequence[i] != along && ps_order_is_bound (order, order->sequence[i], op))
      return FALSE;
  return TRUE;
}

/* Whether B and F can be a pair. The second of them must have its input when the first ends; then no path through other
 * devices leads from the first to the second. */
static gboolean
can_pair (const PsOrder *order, guint b, guint f)
{
  guint first = order->nodes[b].position < order->nodes[f].position ? b : f, second = first == b ? f : b;

  return order->problem->pair[chain_of (order->problem, f) / N_KINDS] >= 0 && order->node[f] == f
         && !ps_order_is_bound (order, f, b)
         && path_across (order->nodes, order->problem->lag, &order->nodes[second], PS_END) <= end_of (order, first)
         && can_come (order, second, order->nodes[first].position, NO_OP);
}

gboolean
ps_order_allows_join (const PsOrder *order, PsJoin join)
{
  const PsProblem *problem = order->problem;
  guint none = problem->n_ops, was = order->partner[join.b], low = order->nodes[join.b].position;
  gboolean pairs = join.partner != none && join.partner != join.b;

  if (was == join.partner || (pairs && was != none && was != join.b))
    return FALSE;
  if (join.partner == join.b && !problem->fuses[chain_of (problem, join.b) / N_KINDS])
    return FALSE;
  if (pairs && !can_pair (order, join.b, join.partner))
    return FALSE;
  if (join.partner == none || was != none)
    return TRUE;
  if (pairs)
    low = MIN (low, order->nodes[join.partner].position);
  return can_come (order, weights_of (order, join.b), low, join.b);
}

/* Lists the ops that a join joins or splits in their later order in the sequence. */
static guint
list_after (const PsOrder *order, PsJoin join, guint after[MAX_TOUCHED])
{
  guint none = order->problem->n_ops, was = order->partner[join.b], n = 0;
  gboolean frees = was != none && was != join.b;

  if (frees && !join.last)
    after[n++] = was;
  after[n++] = join.b;
  if (frees && join.last)
    after[n++] = was;
  if (join.partner == none)
    after[n++] = weights_of (order, join.b);
  return n;
}

static gboolean
is_touched (const PsJoined *joined, guint op)
{
  for (guint i = 0; i < joined->n_touched; i++)
    if (joined->touched[i] == op)
      return TRUE;
  return FALSE;
}

static void
list_touched (const PsOrder *order, PsJoin join, PsJoined *joined)
{
  guint none = order->problem->n_ops, was = order->partner[join.b];

  joined->n_touched = 0;
  joined->touched[joined->n_touched++] = join.b;
  joined->touched[joined->n_touched++] = weights_of (order, join.b);
  if (join.partner != none && join.partner != join.b)
    joined->touched[joined->n_touched++] = join.partner;
  else if (was != none && was != join.b)
    joined->touched[joined->n_touched++] = was;
  joined->low = G_MAXUINT;
  for (guint i = 0; i < joined->n_touched; i++)
    joined->low = MIN (joined->low, order->nodes[order->node[joined->touched[i]]].position);
}

/* Memory of one of the ops in list_after, once the join is made. */
static void
bytes_after (const PsOrder *order, PsJoin join, guint op, gint64 *take, gint64 *give)
{
  const PsProblem *problem = order->problem;
  guint chain = chain_of (problem, op), none = problem->n_ops;
  gboolean whole = op == join.b && join.partner != none;

  *take = whole ? problem->bw_take[chain / N_KINDS] : problem->take[chain];
  *give = whole ? problem->bw_give[chain / N_KINDS] : problem->give[chain];
  if (!whole || join.partner == join.b)
    return;
  *take += problem->take[chain_of (problem, join.partner)];
  *give += problem->give[chain_of (problem, join.partner)];
}

gint64
ps_order_excess_join (const PsOrder *order, PsJoin join)
{
  guint device = device_of (order->problem, join.b), after[MAX_TOUCHED], n = list_after (order, join, after), high = 0;
  gint64 limit = order->problem->limit[device], level, excess = 0, take, give;
  PsJoined joined;

  if (limit == G_MAXINT64)
    return 0;
  list_touched (order, join, &joined);
  level = level_before (order, device, joined.low);
  for (guint i = 0; i < joined.n_touched; i++)
    high = MAX (high, order->nodes[order->node[joined.touched[i]]].position);
  for (guint i = 0; i < n; i++)
    {
      bytes_after (order, join, after[i], &take, &give);
      excess += bytes_above (level + take, limit);
      level += take - give;
    }
  for (guint i = joined.low; i < order->stop[device] && (i <= high || level != level_before (order, device, i)); i++)
    {
      guint op = order->sequence[i];

      high = MAX (high, i);
      if (is_touched (&joined, op))
        continue;
      excess += bytes_above (level + take_of (order, op, TRUE), limit);
      level += take_of (order, op, TRUE) - give_of (order, op, TRUE);
    }
  for (guint i = joined.low; i <= high; i++)
    excess -= excess_at (order, device, i, TRUE);
  return excess;
}

static gint64
arrival_of_op (const PsOrder *order, guint op)
{
  guint producer = producer_of (order->problem, op);

  return producer == NO_OP ? 0
                           : end_of (order, order->node[producer]) + order->problem->lag[chain_of (order->problem, op)];
}

/* Longest path from the end of an op through its consumers other than its W. */
static gint64
departure_of_op (const PsOrder *order, guint op)
{
  const PsProblem *problem = order->problem;
  gint64 longest = order->nodes[problem->n_ops].time[PS_TAIL];
  guint consumer[2], n = consumers_of (problem, op, consumer);

  for (guint i = 0; i < n; i++)
    if (chain_of (problem, consumer[i]) % N_KINDS != PS_OP_W)
      longest = MAX (longest, problem->lag[chain_of (problem, consumer[i])]
                                  + order->nodes[order->node[consumer[i]]].time[PS_TAIL]);
  return longest;
}

/* One of the ops in list_after, once the join is made. A W comes with or after its B and waits for nothing else. */
static PsOrderPart
part_after (const PsOrder *order, PsJoin join, guint op)
{
  const PsProblem *problem = order->problem;
  guint none = problem->n_ops, chain = chain_of (problem, op);
  PsOrderPart part = { arrival_of_op (order, op), problem->duration[chain], departure_of_op (order, op) };

  if (op == weights_of (order, join.b))
    part.start = 0;
  if (op != join.b || join.partner == none)
    return part;
  part.duration = problem->bw_duration[chain / N_KINDS];
  if (join.partner == join.b)
    return part;
  part.duration = problem->pair[chain_of (problem, join.partner) / N_KINDS];
  part.start = MAX (part.start, arrival_of_op (order, join.partner));
  part.departure = MAX (part.departure, departure_of_op (order, join.partner));
  return part;
}

/* Lists the parts between joined->low and `high`, once the join is made; returns how many. A W that comes from after
 * `high` is not counted there, which can shorten later paths by its duration at most. */
static guint
list_parts (const PsOrder *order, PsJoin join, const PsJoined *joined, guint high, PsOrderPart *parts)
{
  guint after[MAX_TOUCHED], n = list_after (order, join, after);

  for (guint i = 0; i < n; i++)
    parts[i] = part_after (order, join, after[i]);
  for (guint i = joined->low; i <= high; i++)
    {
      guint op = order->sequence[i];

      if (!is_touched (joined, op))
        parts[n++] = part_of (order, op);
    }
  return n;
}

#define MAX_SPREAD 48

gint64
ps_order_estimate_join (const PsOrder *order, PsJoin join, gint64 enough)
{
  PsJoined joined;
  PsOrderPart parts[MAX_SPREAD + MAX_TOUCHED];
  gint64 end, gone = 0;
  guint high = 0, n;

  list_touched (order, join, &joined);
  for (guint i = 0; i < joined.n_touched; i++)
    {
      guint op = joined.touched[i], at = order->nodes[order->node[op]].position;

      if (at - joined.low < MAX_SPREAD)
        high = MAX (high, at);
      else if (op == weights_of (order, join.b))
        gone = order->problem->duration[chain_of (order->problem, op)];
      else
        return 0;
    }
  n = list_parts (order, join, &joined, high, parts);
  end = path_beside (order->nodes, &order->nodes[order->sequence[joined.low]], PS_END);
  for (guint i = 0; i < n; i++)
    if (!begin_part (&parts[i], &end, enough))
      return G_MAXINT64;
  return longest_through (parts, n, path_beside (order->nodes, &order->nodes[order->sequence[high]], PS_TAIL) - gone);
}

/* Writes the sequence again from joined->low on: first the ops that were joined or split, then all others in their old
 * order. */
static void
rewrite (PsOrder *order, guint device, PsJoined *joined, const guint *after, guint n_after)
{
  guint fill = joined->low;

  for (guint i = 0; i < n_after; i++)
    order->sequence[fill++] = after[i];
  joined->high = fill - 1;
  joined->n_gaps = 0;
  for (guint i = 0; i < joined->n; i++)
    if (!is_touched (joined, order->before[i]))
      order->sequence[fill++] = order->before[i];
    else if (fill - 1 > joined->high)
      joined->gap[joined->n_gaps++] = fill;
  order->stop[device] = fill;
}

/* Brings the nodes of ops that were joined or split up to date, and those next to them in the graph. */
static void
link_touched (PsOrder *order, const PsJoined *joined)
{
  guint none = order->problem->n_ops;

  for (guint i = 0; i < joined->n_touched; i++)
    {
      const PsOperation *operation = &order->problem->op[joined->touched[i]];
      const guint around[]
          = { joined->touched[i], operation->producer, operation->consumer[0], operation->consumer[1] };

      for (guint k = 0; k < G_N_ELEMENTS (around); k++)
        if (around[k] != none)
          ps_order_link (order, order->node[around[k]]);
    }
}

static void
place_from (PsOrder *order, guint device, guint low)
{
  for (guint i = MAX (low, order->problem->first[device] + 1) - 1; i < order->stop[device]; i++)
    ps_order_place (order, device, i);
}

gboolean
ps_order_join (PsOrder *order, PsJoin join, PsJoined *joined)
{
  guint device = device_of (order->problem, join.b), after[MAX_TOUCHED], n_after = list_after (order, join, after);

  joined->b = join.b;
  joined->was = order->partner[join.b];
  list_touched (order, join, joined);
  joined->n = order->stop[device] - joined->low;
  memcpy (order->before, order->sequence + joined->low, joined->n * sizeof *order->before);
  ps_order_set_partner (order, join.b, join.partner);
  link_touched (order, joined);
  rewrite (order, device, joined, after, n_after);
  place_from (order, device, joined->low);
  if (!ps_order_spread (order, joined->low, joined->high, joined, PS_END))
    {
      ps_order_revert_join (order, joined);
      return FALSE;
    }
  ps_order_sum_up (order);
  return TRUE;
}

void
ps_order_revert_join (PsOrder *order, const PsJoined *joined)
{
  guint device = device_of (order->problem, joined->b);

  ps_order_set_partner (order, joined->b, joined->was);
  link_touched (order, joined);
  memcpy (order->sequence + joined->low, order->before, joined->n * sizeof *order->before);
  order->stop[device] = joined->low + joined->n;
  place_from (order, device, joined->low);
  ps_order_restore_ends (order);
  ps_order_sum_up (order);
}

void
ps_order_keep_join (PsOrder *order, const PsJoined *joined, gint64 excess)
{
  guint device = device_of (order->problem, joined->b);

  order->excess += excess;
  ps_order_compute_levels (order, joined->low, order->stop[device], device);
  ps_order_spread (order, joined->low, joined->high, joined, PS_TAIL);
}

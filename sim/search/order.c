/* order.c - orders, and the evaluation of a whole order. */
#include "order.h"

#include <string.h>

/* Ends that a move may change. More of them mean a circle, which would change ends for ever. */
static inline guint most_changes (const PsProblem *problem)
{
  return 8 * problem->n_ops + 64;
}

static inline guint ring_size (const PsProblem *problem)
{
  return 1U << g_bit_storage (problem->n_ops);
}

/* Longest path through a node's inputs (PS_END: when they have arrived) or through its consumers (PS_TAIL). */
static inline gint64 path_linked (const PsNode *nodes, const gint64 *lag, const PsNode *node, guint side)
{
  gint64 first = nodes[node->linked[side][0]].time[side] + lag[node->lag[side][0]];
  gint64 second = nodes[node->linked[side][1]].time[side] + lag[node->lag[side][1]];

  return MAX (first, second);
}

static inline gint64 path_neighbour (const PsNode *nodes, const PsNode *node, guint side)
{
  return nodes[node->neighbour[side]].time[side];
}

static inline gint64 compute_time (const PsNode *nodes, const gint64 *lag, const PsNode *node, guint side)
{
  gint64 linked = path_linked (nodes, lag, node, side), neighbour = path_neighbour (nodes, node, side);

  return node->duration + MAX (linked, neighbour);
}

/* Memory before the op at a position. */
static inline gint64 level_before (const PsOrder *order, guint device, guint at)
{
  return at > order->problem->first[device] ? order->level[at - 1] : order->problem->held[device];
}

static inline gint64 bytes_above (gint64 bytes, gint64 limit)
{
  return bytes > limit ? bytes - limit : 0;
}

/* Bytes above the device's limit while the op at a position runs; levels must be up to date. */
static inline gint64 excess_at (const PsOrder *order, guint device, guint at, gboolean joins)
{
  return bytes_above (order->level[at] + give_of (order, order->sequence[at], joins), order->problem->limit[device]);
}

/* Sets where the op at a position of the device stands. */
static inline void place_node (PsOrder *order, guint device, guint at)
{
  const PsProblem *problem = order->problem;
  PsNode *node = &order->nodes[order->sequence[at]];

  node->position = at;
  node->neighbour[PS_END] = at > problem->first[device] ? order->sequence[at - 1] : problem->n_ops;
  node->neighbour[PS_TAIL] = at + 1 < order->stop[device] ? order->sequence[at + 1] : problem->n_ops + 1 + device;
}

/* Sets the nodes that stand for no op. Their durations are so low that no time could ever be bound by them. */
static void set_borders (PsOrder *order)
{
  const PsProblem *problem = order->problem;
  PsNode *border = order->nodes + problem->n_ops;

  border->time[PS_TAIL] = G_MININT64 / 4;
  for (guint d = 0; d < problem->n_devices; d++)
    border[1 + d].time[PS_TAIL] = problem->offset[d];
  for (guint i = 0; i < 1 + problem->n_devices; i++)
    border[i].duration = G_MININT64 / 8 * 7;
}

static gint64 find_duration (const PsOrder *order, guint op)
{
  const PsProblem *problem = order->problem;
  guint chain = chain_of (problem, op), partner = order->partner[op];

  if (partner == problem->n_ops)
    return problem->duration[chain];
  return partner == op ? problem->bw_duration[chain / N_KINDS] : problem->pair[chain_of (problem, partner) / N_KINDS];
}

/* Adds the node of an op to the nodes across from `node`, with the lag of a chain, unless it is the same node. */
static void add_link (PsOrder *order, guint node, guint op, guint chain, guint side)
{
  guint none = order->problem->n_ops;
  PsNode *linked = &order->nodes[node];
  guint i = linked->linked[side][0] != none;

  if (op == none || order->node[op] == node)
    return;
  linked->linked[side][i] = order->node[op];
  linked->lag[side][i] = (guint16)chain;
}

static void link_node (PsOrder *order, guint op)
{
  const PsProblem *problem = order->problem;
  PsNode *node = &order->nodes[op];
  PsMembers members = members_of (order, op, TRUE);

  node->duration = find_duration (order, op);
  for (guint i = 0; i < 2 * N_SIDES; i++) {
    node->linked[i / 2][i % 2] = problem->n_ops;
    node->lag[i / 2][i % 2] = problem->op[op].chain;
  }
  for (guint i = 0; i < members.n; i++) {
    const PsOperation *operation = &problem->op[members.op[i]];

    add_link (order, op, operation->producer, operation->chain, PS_END);
    for (guint k = 0; k < 2 && operation->consumer[k] != problem->n_ops; k++)
      add_link (order, op, operation->consumer[k], chain_of (problem, operation->consumer[k]), PS_TAIL);
  }
}

PsOrder *ps_order_new (const PsProblem *problem)
{
  PsOrder *order = g_new0 (PsOrder, 1);
  GPtrArray *owned = g_ptr_array_new_with_free_func (g_free);
  guint n = problem->n_ops;

  order->problem = problem;
  order->owned = owned;
  order->sequence = PS_OWN_NEW (owned, guint32, n);
  order->stop = PS_OWN_NEW (owned, guint32, problem->n_devices);
  order->node = PS_OWN_NEW (owned, guint32, n);
  order->partner = PS_OWN_NEW (owned, guint32, n);
  order->nodes = g_aligned_alloc0 (n + 1 + problem->n_devices, sizeof *order->nodes, sizeof *order->nodes);
  order->level = PS_OWN_NEW (owned, gint64, n);
  order->queue = PS_OWN_NEW (owned, guint32, ring_size (problem));
  order->changes = PS_OWN_NEW (owned, PsChange, most_changes (problem));
  order->before = PS_OWN_NEW (owned, guint32, n + 1 + problem->n_devices);
  ps_order_fill (order, order->sequence);
  set_borders (order);
  for (guint i = 0; i < problem->n_ops; i++)
    link_node (order, i);
  return order;
}

void ps_order_free (PsOrder *order)
{
  if (order == NULL)
    return;
  g_ptr_array_unref (order->owned);
  g_aligned_free (order->nodes);
  g_free (order);
}

void ps_order_copy (PsOrder *order, const PsOrder *from)
{
  gsize n = order->problem->n_ops;

  memcpy (order->sequence, from->sequence, n * sizeof *order->sequence);
  memcpy (order->stop, from->stop, order->problem->n_devices * sizeof *order->stop);
  if (!order->problem->joins)
    return;
  memcpy (order->node, from->node, n * sizeof *order->node);
  memcpy (order->partner, from->partner, n * sizeof *order->partner);
}

void ps_order_assign (PsOrder *order, const PsOrder *from)
{
  gsize n = order->problem->n_ops;

  ps_order_copy (order, from);
  memcpy (order->nodes, from->nodes, n * sizeof *order->nodes);
  memcpy (order->level, from->level, n * sizeof *order->level);
  order->excess = from->excess;
  order->objective = from->objective;
  order->end_sum = from->end_sum;
}

static void set_apart (PsOrder *order)
{
  for (guint i = 0; i < order->problem->n_ops; i++) {
    order->node[i] = i;
    order->partner[i] = order->problem->n_ops;
    order->nodes[i].duration = order->problem->duration[chain_of (order->problem, i)];
  }
}

void ps_order_clear (PsOrder *order)
{
  memcpy (order->stop, order->problem->first, order->problem->n_devices * sizeof *order->stop);
  if (order->problem->joins)
    set_apart (order);
}

/* Leaves the neighbours of nodes stale: link_node brings those of one node up to date. */
static void set_partner (PsOrder *order, guint b, guint partner)
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

void ps_order_add (PsOrder *order, guint op, guint partner)
{
  const PsProblem *problem = order->problem;

  order->sequence[order->stop[device_of (problem, op)]++] = op;
  if (partner != problem->n_ops)
    set_partner (order, op, partner);
}

void ps_order_fill (PsOrder *order, const guint32 *sequence)
{
  memcpy (order->stop, order->problem->first + 1, order->problem->n_devices * sizeof *order->stop);
  memmove (order->sequence, sequence, order->problem->n_ops * sizeof *sequence);
  set_apart (order);
}

/* End of the device's last op plus its offset. */
static gint64 finish_of (const PsOrder *order, guint device)
{
  guint stop = order->stop[device];

  return stop > order->problem->first[device]
             ? end_of (order, order->sequence[stop - 1]) + order->problem->offset[device]
             : 0;
}

/* Sums up objective and end_sum. */
static void sum_up (PsOrder *order)
{
  order->objective = 0;
  order->end_sum = 0;
  for (guint d = 0; d < order->problem->n_devices; d++) {
    gint64 finish = finish_of (order, d);

    order->objective = MAX (order->objective, finish);
    order->end_sum += finish;
  }
}

/* Brings the levels of a range up to date; the caller sees to order->excess. */
static void compute_levels (PsOrder *order, guint begin, guint end, guint device)
{
  gboolean joins = order->problem->joins;
  gint64 level = level_before (order, device, begin);

  for (guint i = begin; i < end; i++) {
    level += take_of (order, order->sequence[i], joins) - give_of (order, order->sequence[i], joins);
    order->level[i] = level;
  }
}

/* Sets places, levels, excess, and how many nodes each node waits for. */
static inline G_ALWAYS_INLINE void set_levels (PsOrder *order, gboolean joins)
{
  const PsProblem *problem = order->problem;
  guint none = problem->n_ops;

  order->excess = 0;
  for (guint d = 0; d < problem->n_devices; d++) {
    gint64 level = problem->held[d];

    for (guint i = problem->first[d]; i < order->stop[d]; i++) {
      guint op = order->sequence[i];
      const guint32 *producer = order->nodes[op].linked[PS_END];

      place_node (order, d, i);
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
static guint set_ends (PsOrder *order)
{
  const PsProblem *problem = order->problem;
  PsNode *nodes = order->nodes;
  guint32 *queue = order->queue, *before = order->before;
  guint n = 0;

  memset (before + problem->n_ops, 0, (1 + problem->n_devices) * sizeof *before);
  for (guint d = 0; d < problem->n_devices; d++)
    if (problem->first[d] < order->stop[d] && before[order->sequence[problem->first[d]]] == 0)
      queue[n++] = order->sequence[problem->first[d]];
  for (guint i = 0; i < n; i++) {
    PsNode *node = &nodes[queue[i]];
    const guint32 after[] = { node->neighbour[PS_TAIL], node->linked[PS_TAIL][0], node->linked[PS_TAIL][1] };

    node->time[PS_END] = compute_time (nodes, problem->lag, node, PS_END);
    for (guint k = 0; k < G_N_ELEMENTS (after); k++)
      if (--before[after[k]] == 0)
        queue[n++] = after[k];
  }
  return n;
}

static void set_tails (PsOrder *order, guint n)
{
  PsNode *nodes = order->nodes;

  for (guint i = n; i-- > 0;)
    nodes[order->queue[i]].time[PS_TAIL] = compute_time (nodes, order->problem->lag, &nodes[order->queue[i]], PS_TAIL);
}

/* Links all nodes; returns how many there are. */
static guint link_all (PsOrder *order)
{
  const PsProblem *problem = order->problem;
  guint n = 0;

  for (guint d = 0; d < problem->n_devices; d++) {
    n += order->stop[d] - problem->first[d];
    for (guint i = problem->first[d]; i < order->stop[d] && problem->joins; i++)
      link_node (order, order->sequence[i]);
  }
  return n;
}

gboolean ps_order_evaluate (PsOrder *order)
{
  guint n = link_all (order);

  set_levels (order, order->problem->joins);
  if (set_ends (order) < n)
    return FALSE;
  set_tails (order, n);
  sum_up (order);
  return TRUE;
}

/* Moves of single ops, and how their effects spread. */

/* The last op of a chain that a later op of the stage needs: of the forwards all slices of its microbatch. */
static inline guint last_needed (const PsProblem *problem, guint chain, guint microbatch)
{
  if (problem->n_slices == 1 || chain % N_KINDS != PS_OP_F)
    return microbatch;
  return mirrored (problem, microbatch - microbatch % problem->n_slices);
}

static inline gboolean is_bound_single (const PsProblem *problem, guint earlier, guint later)
{
  guint a = chain_of (problem, earlier), b = chain_of (problem, later);

  if (a == b)
    return TRUE;
  if (a / N_KINDS == b / N_KINDS)
    return a < b && microbatch_of (problem, earlier) <= last_needed (problem, a, microbatch_of (problem, later));
  return producer_of (problem, later) == earlier;
}

static inline gboolean is_bound_joined (const PsOrder *order, guint earlier, guint later)
{
  PsMembers before = members_of (order, earlier, TRUE), after = members_of (order, later, TRUE);

  if (before.n == 1 && after.n == 1)
    return is_bound_single (order->problem, earlier, later);
  for (guint i = 0; i < before.n; i++)
    for (guint k = 0; k < after.n; k++)
      if (is_bound_single (order->problem, before.op[i], after.op[k]))
        return TRUE;
  return FALSE;
}

/* Whether `earlier` must stay before `later` on their device. */
static inline gboolean is_bound (const PsOrder *order, guint earlier, guint later, gboolean joins)
{
  return joins ? is_bound_joined (order, earlier, later) : is_bound_single (order->problem, earlier, later);
}

static inline G_ALWAYS_INLINE gboolean allows (const PsOrder *order, PsMove move, gboolean joins)
{
  guint op = order->sequence[move.from];

  for (guint i = move.from; i < move.to; i++)
    if (is_bound (order, op, order->sequence[i + 1], joins))
      return FALSE;
  for (guint i = move.from; i > move.to; i--)
    if (is_bound (order, order->sequence[i - 1], op, joins))
      return FALSE;
  return TRUE;
}

gboolean ps_order_allows (const PsOrder *order, PsMove move)
{
  return order->problem->joins ? allows (order, move, TRUE) : allows (order, move, FALSE);
}

/* The op at a position of the range that the move changes, once the move is made. */
static inline guint moved_op (const PsOrder *order, PsMove move, guint at)
{
  if (at == move.to)
    return order->sequence[move.from];
  return order->sequence[move.to > move.from ? at + 1 : at - 1];
}

static inline G_ALWAYS_INLINE gint64 excess_change (const PsOrder *order, PsMove move, gboolean joins)
{
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);
  guint device = device_of (order->problem, order->sequence[low]);
  gint64 limit = order->problem->limit[device], level = level_before (order, device, low), change = 0;

  if (limit == G_MAXINT64)
    return 0;
  for (guint i = low; i <= high; i++) {
    guint op = moved_op (order, move, i);

    level += take_of (order, op, joins);
    change += bytes_above (level, limit) - excess_at (order, device, i, joins);
    level -= give_of (order, op, joins);
  }
  return change;
}

gint64 ps_order_excess_change (const PsOrder *order, PsMove move)
{
  return order->problem->joins ? excess_change (order, move, TRUE) : excess_change (order, move, FALSE);
}

#define MAX_SPREAD 64

gint64 ps_order_estimate (const PsOrder *order, PsMove move, gint64 enough)
{
  const PsNode *nodes = order->nodes;
  const gint64 *lag = order->problem->lag;
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to), n = high - low + 1;
  gint64 end = path_neighbour (nodes, &nodes[order->sequence[low]], PS_END), longest = 0;
  gint64 tail = path_neighbour (nodes, &nodes[order->sequence[high]], PS_TAIL);
  gint64 start[MAX_SPREAD], duration[MAX_SPREAD], departure[MAX_SPREAD];

  if (n > MAX_SPREAD)
    return 0;
  for (guint i = 0; i < n; i++) {
    const PsNode *node = &nodes[moved_op (order, move, low + i)];
    gint64 arrival = path_linked (nodes, lag, node, PS_END);

    start[i] = MAX (end, arrival);
    duration[i] = node->duration;
    departure[i] = path_linked (nodes, lag, node, PS_TAIL);
    end = start[i] + duration[i];
    if (end + departure[i] > enough)
      return G_MAXINT64;
  }
  for (guint i = n; i-- > 0;) {
    tail = duration[i] + MAX (tail, departure[i]);
    longest = MAX (longest, start[i] + tail);
  }
  return longest;
}

static void permute (PsOrder *order, PsMove move)
{
  const PsProblem *problem = order->problem;
  guint op = order->sequence[move.from], device = device_of (problem, op);
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);

  for (guint i = move.from; i < move.to; i++)
    order->sequence[i] = order->sequence[i + 1];
  for (guint i = move.from; i > move.to; i--)
    order->sequence[i] = order->sequence[i - 1];
  order->sequence[move.to] = op;
  low = MAX (low, problem->first[device] + 1) - 1;
  high = MIN (high + 1, order->stop[device] - 1);
  for (guint i = low; i <= high; i++)
    place_node (order, device, i);
}

/* A ring of nodes whose time may have changed. */
typedef struct {
  PsNode *nodes;
  guint32 *queue;
  guint n_ops;
  guint mask;
  guint begin;
  guint end;
} Ring;

static inline void push (Ring *ring, guint op)
{
  if (op >= ring->n_ops || ring->nodes[op].queued)
    return;
  ring->nodes[op].queued = 1;
  ring->queue[ring->end++ & ring->mask] = op;
}

/* Pushes a node that a time bounds, or did before it changed; `latest` is the later one of both. Nodes that stand for
 * no op are never bound. */
static inline void push_bound (Ring *ring, guint op, gint64 latest, guint side)
{
  PsNode *node = &ring->nodes[op];

  if (latest < node->time[side] - node->duration || node->queued)
    return;
  node->queued = 1;
  ring->queue[ring->end++ & ring->mask] = op;
}

/* Whether a neighbour waits in the ring from which a time of the node is computed: the time would be computed twice. */
static inline gboolean is_early (const PsNode *nodes, const PsNode *node, guint side)
{
  return (nodes[node->neighbour[side]].queued | nodes[node->linked[side][0]].queued
          | nodes[node->linked[side][1]].queued)
         != 0;
}

/* Computes the times of all nodes in the ring. FALSE after more steps than are possible without a circle; tails are
 * only computed where there is none. */
static inline G_ALWAYS_INLINE gboolean run (PsOrder *order, Ring *started, guint side)
{
  const gint64 *lag = order->problem->lag;
  Ring ring = *started;
  PsChange *change = order->changes;
  guint other = N_SIDES - 1 - side, most = most_changes (order->problem);

  while (ring.begin != ring.end && (side == PS_TAIL || ring.begin < most)) {
    guint op = ring.queue[ring.begin++ & ring.mask];
    PsNode *node = &ring.nodes[op];
    gint64 was = node->time[side], is, latest;

    if (is_early (ring.nodes, node, side)) {
      ring.queue[ring.end++ & ring.mask] = op;
      continue;
    }
    is = compute_time (ring.nodes, lag, node, side);
    node->queued = 0;
    if (is == was)
      continue;
    if (side == PS_END)
      *change++ = (PsChange){ op, was };
    node->time[side] = is;
    latest = MAX (was, is);
    push_bound (&ring, node->neighbour[other], latest, side);
    push_bound (&ring, node->linked[other][0], latest + lag[node->lag[other][0]], side);
    push_bound (&ring, node->linked[other][1], latest + lag[node->lag[other][1]], side);
  }
  if (side == PS_END)
    order->n_changes = (guint)(change - order->changes);
  for (guint i = ring.begin; i != ring.end; i++)
    ring.nodes[ring.queue[i & ring.mask]].queued = 0;
  return ring.begin == ring.end;
}

/* Spreads changed ends, or tails, to everything that depends on them. The changes begin at the nodes of a range and
 * the next one. FALSE: a circle. Ends are noted in order->changes. */
static gboolean spread (PsOrder *order, guint low, guint high, guint side)
{
  const PsProblem *problem = order->problem;
  Ring ring = { .nodes = order->nodes, .queue = order->queue, .n_ops = problem->n_ops };

  ring.mask = ring_size (problem) - 1;
  for (guint i = low; i <= high; i++)
    push (&ring, order->sequence[side == PS_END ? i : low + high - i]);
  push (&ring, order->nodes[order->sequence[side == PS_END ? high : low]].neighbour[N_SIDES - 1 - side]);
  return side == PS_END ? run (order, &ring, PS_END) : run (order, &ring, PS_TAIL);
}

static void restore_ends (PsOrder *order)
{
  while (order->n_changes > 0) {
    const PsChange *change = &order->changes[--order->n_changes];

    order->nodes[change->op].time[PS_END] = change->time;
  }
}

gboolean ps_order_apply (PsOrder *order, PsMove move)
{
  permute (order, move);
  if (!spread (order, MIN (move.from, move.to), MAX (move.from, move.to), PS_END)) {
    ps_order_revert (order, move);
    return FALSE;
  }
  sum_up (order);
  return TRUE;
}

void ps_order_revert (PsOrder *order, PsMove move)
{
  permute (order, (PsMove){ move.to, move.from });
  restore_ends (order);
  sum_up (order);
}

void ps_order_keep (PsOrder *order, PsMove move, gint64 excess)
{
  guint low = MIN (move.from, move.to), high = MAX (move.from, move.to);

  order->excess += excess;
  compute_levels (order, low, high + 1, device_of (order->problem, order->sequence[low]));
  spread (order, low, high, PS_TAIL);
}

#define MOST_PLACES 6

gboolean ps_order_move_one (PsOrder *order, gint64 enough, PsRandom *random)
{
  const PsProblem *problem = order->problem;
  guint at = order->nodes[order->node[ps_random_below (random, problem->n_ops)]].position;
  guint device = device_of (problem, order->sequence[at]), distance = 1 + ps_random_below (random, MOST_PLACES);
  guint first = problem->first[device], last = order->stop[device] - 1;
  PsMove move = { at, ps_random_below (random, 2) ? MAX (at, first + distance) - distance : MIN (at + distance, last) };
  gint64 excess;

  if (move.to == move.from || !ps_order_allows (order, move))
    return FALSE;
  excess = ps_order_excess_change (order, move);
  if (excess > 0 || !ps_order_apply (order, move))
    return FALSE;
  if (order->objective > enough) {
    ps_order_revert (order, move);
    return FALSE;
  }
  ps_order_keep (order, move, excess);
  return TRUE;
}

/* Backwards run apart, as BW, or in a pair with a forward. */

static inline guint weights_of (const PsOrder *order, guint b)
{
  return b + order->problem->m;
}

/* Whether an op can come forward to position `low`: no op from there on must stay before it, except `along`, which
 * comes with it. */
static gboolean can_come (const PsOrder *order, guint op, guint low, guint along)
{
  for (guint i = low; i < order->nodes[op].position; i++)
    if (order->sequence[i] != along && is_bound (order, order->sequence[i], op, TRUE))
      return FALSE;
  return TRUE;
}

/* Whether B and F can be a pair. The second of them must have its input when the first ends; then no path through other
 * devices leads from the first to the second. */
static gboolean can_pair (const PsOrder *order, guint b, guint f)
{
  guint first = order->nodes[b].position < order->nodes[f].position ? b : f, second = first == b ? f : b;

  return order->problem->pair[chain_of (order->problem, f) / N_KINDS] >= 0 && order->node[f] == f
         && !is_bound (order, f, b, TRUE)
         && path_linked (order->nodes, order->problem->lag, &order->nodes[second], PS_END) <= end_of (order, first)
         && can_come (order, second, order->nodes[first].position, NO_OP);
}

gboolean ps_order_allows_join (const PsOrder *order, PsJoin join)
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

/* A B, its W and an F. */
#define MAX_JOINED 3

/* Lists the ops that a join joins or splits in their later order in the sequence. */
static guint list_after (const PsOrder *order, PsJoin join, guint after[MAX_JOINED])
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

gboolean ps_order_join (PsOrder *order, PsJoin join)
{
  guint device = device_of (order->problem, join.b), none = order->problem->n_ops, after[MAX_JOINED];
  const guint touched[] = { join.b, weights_of (order, join.b), order->partner[join.b], join.partner };
  guint n_after = list_after (order, join, after), low = G_MAXUINT, n, fill;

  for (guint i = 0; i < G_N_ELEMENTS (touched); i++)
    if (touched[i] != none)
      low = MIN (low, order->nodes[order->node[touched[i]]].position);
  n = order->stop[device] - low;
  memcpy (order->before, order->sequence + low, n * sizeof *order->before);
  memcpy (order->sequence + low, after, n_after * sizeof *after);
  fill = low + n_after;
  for (guint i = 0; i < n; i++) {
    guint op = order->before[i];

    if (op != touched[0] && op != touched[1] && op != touched[2] && op != touched[3])
      order->sequence[fill++] = op;
  }
  order->stop[device] = fill;
  set_partner (order, join.b, join.partner);
  return ps_order_evaluate (order);
}

/* An order from a schedule, and a schedule from an order. */

/* The first half of the microbatches uses copy 0, the second copy 1. Backwards take the slices in reverse. */
static PsOp op_of (const PsOrder *order, guint op)
{
  const PsProblem *problem = order->problem;
  guint chain = chain_of (problem, op), stage = chain / N_KINDS, n = problem->n_copy_stages;
  guint place = microbatch_of (problem, op) + stage / n * problem->m, kind = chain % N_KINDS;

  return (PsOp){ .kind = (guint8)kind,
                 .slice = (guint8)((kind == PS_OP_F ? place : mirrored (problem, place)) % problem->n_slices),
                 .stage = (guint16)(stage % n),
                 .microbatch = place / problem->n_slices & G_MAXINT32 };
}

static void add_node (const PsOrder *order, guint op, PsScheduleBuilder *builder)
{
  guint partner = partner_of (order, op, TRUE);
  PsOp first = op_of (order, op);

  if (partner != NO_OP)
    first.kind = PS_OP_BW;
  if (partner != NO_OP && partner != op) {
    PsOp forward = op_of (order, partner);

    forward.paired = TRUE;
    ps_schedule_builder_add_op (builder, forward);
  }
  ps_schedule_builder_add_op (builder, first);
}

PsSchedule *ps_order_to_schedule (const PsOrder *order, const PsPlacement *placement)
{
  const PsProblem *problem = order->problem;
  guint m = problem->m * problem->n_copies / problem->n_slices;
  PsScheduleBuilder *builder = ps_schedule_builder_new ("search", ps_placement_copy (placement), m);
  PsSchedule *schedule;

  for (guint d = 0; d < problem->n_devices; d++) {
    for (guint i = problem->first[d]; i < order->stop[d]; i++)
      add_node (order, order->sequence[i], builder);
    ps_schedule_builder_next_device (builder);
  }
  schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = problem->n_slices;
  if (problem->n_copies > 1)
    schedule->copy = g_new (guint8, m);
  for (guint i = 0; i < m && schedule->copy != NULL; i++)
    schedule->copy[i] = i >= m / 2;
  return schedule;
}

/* A schedule being read. */
typedef struct {
  PsOrder *order;
  const PsSchedule *schedule;
  guint *next; /* [chains] */
} Reader;

/* Takes the next op of a kind and stage; NO_OP: there is none. Every order has each chain in order, so the n-th op of a
 * chain is that of microbatch n. */
static guint next_op (Reader *reader, PsOp op, PsOpKind kind)
{
  const PsProblem *problem = reader->order->problem;
  guint copy = reader->schedule->copy != NULL ? reader->schedule->copy[op.microbatch] : 0;
  guint chain = (copy * problem->n_copy_stages + op.stage) * N_KINDS + kind;

  return reader->next[chain] < problem->m ? chain * problem->m + reader->next[chain]++ : NO_OP;
}

/* Adds a backward as B and W, as BW, or as a pair with F f (NO_OP: none). A BW that would complete another microbatch's
 * W, because older ones wait, is read as B and W. */
static gboolean add_backward (Reader *reader, PsOp op, guint f)
{
  PsOrder *order = reader->order;
  guint none = order->problem->n_ops, b = next_op (reader, op, PS_OP_B), w = next_op (reader, op, PS_OP_W);
  gboolean joins = order->problem->joins && w == b + order->problem->m;
  gboolean pairs = joins && f != NO_OP && order->problem->pair[chain_of (order->problem, f) / N_KINDS] >= 0;

  if (b == NO_OP || w == NO_OP)
    return FALSE;
  if (f != NO_OP && !pairs)
    ps_order_add (order, f, none);
  if (pairs || (joins && order->problem->fuses[chain_of (order->problem, b) / N_KINDS])) {
    ps_order_add (order, b, pairs ? f : b);
    return TRUE;
  }
  ps_order_add (order, b, none);
  ps_order_add (order, w, none);
  return TRUE;
}

static gboolean add_op (Reader *reader, PsOp op)
{
  guint single;

  if (op.kind == PS_OP_BW)
    return add_backward (reader, op, NO_OP);
  single = op.kind < N_KINDS ? next_op (reader, op, (PsOpKind)op.kind) : NO_OP;
  if (single != NO_OP)
    ps_order_add (reader->order, single, reader->order->problem->n_ops);
  return single != NO_OP;
}

/* Adds the two ops of a pair, in either order. A pair of F and B without W is read as two single ops. */
static gboolean add_pair (Reader *reader, PsOp a, PsOp b)
{
  PsOp forward = a.kind == PS_OP_F ? a : b, backward = a.kind == PS_OP_F ? b : a;
  guint f;

  if (backward.kind != PS_OP_BW)
    return add_op (reader, a) && add_op (reader, b);
  f = next_op (reader, forward, PS_OP_F);
  return f != NO_OP && add_backward (reader, backward, f);
}

static gboolean read_device (Reader *reader, guint device)
{
  const PsSchedule *schedule = reader->schedule;

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
    if (schedule->ops[i].paired) {
      if (!add_pair (reader, schedule->ops[i], schedule->ops[i + 1]))
        return FALSE;
      i++;
    } else if (!add_op (reader, schedule->ops[i]))
      return FALSE;
  return TRUE;
}

gboolean ps_order_from_schedule (PsOrder *order, const PsSchedule *schedule)
{
  const PsProblem *problem = order->problem;
  g_autofree guint *next = g_new0 (guint, (gsize)problem->n_stages * N_KINDS);
  Reader reader = { order, schedule, next };

  if (schedule->n_microbatches * schedule->n_slices != problem->m * problem->n_copies
      || schedule->n_slices != problem->n_slices || (schedule->copy != NULL) != (problem->n_copies > 1)
      || schedule->placement->n_stages != problem->n_copy_stages)
    return FALSE;
  ps_order_clear (order);
  for (guint d = 0; d < problem->n_devices; d++)
    if (!read_device (&reader, d))
      return FALSE;
  return TRUE;
}

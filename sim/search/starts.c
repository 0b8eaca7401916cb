/* starts.c - where a search starts: the families under the problem's costs and limit, a plain rule, and long orders
 * from short ones. */
#include "methods.h"

#include "windows.h"

#include <pipesim/simulate.h>

static gint64 simulated_price (const PsSearchSetting *setting, const PsSchedule *schedule)
{
  g_autoptr (PsSimulation) simulation = ps_simulate_schedule (schedule, setting->costs, NULL);

  if (simulation == NULL || ps_simulation_excess (simulation, setting->memory_limit, NULL) > 0)
    return G_MAXINT64;
  return setting->objective == PS_OBJECTIVE_SPAN ? simulation->max_span_ns : simulation->makespan_ns;
}

gint64 ps_priced_take (PsPriced *best, const PsSearchSetting *setting, PsSchedule *schedule, const char *found_by)
{
  gint64 price_ns
      = setting->price != NULL ? setting->price (schedule, setting->price_data) : simulated_price (setting, schedule);

  if (best->schedule != NULL && price_ns >= best->price_ns) {
    ps_schedule_free (schedule);
    return price_ns;
  }
  ps_schedule_free (best->schedule);
  *best = (PsPriced){ schedule, price_ns, found_by };
  return price_ns;
}

/* Sizes of groups to try, where a family has groups: its own, and four from half a pipeline to a whole one. */
#define N_GROUP_SIZES 5

static guint group_size (guint n_devices, guint i)
{
  guint half = (n_devices + 1) / 2;

  return i > 0 ? half + (i - 1) * (n_devices - half) / (N_GROUP_SIZES - 2) : 0;
}

static PsSchedule *generate (const PsFamily *family, const PsSearchSetting *setting, guint group)
{
  const PsPlacement *placement = setting->placement;
  PsFamilySetting family_setting = { .n_devices = placement->n_devices,
                                     .n_microbatches = setting->n_microbatches,
                                     .n_chunks = placement->n_stages / placement->n_devices,
                                     .n_slices = setting->n_slices,
                                     .group_size = group,
                                     .costs = setting->costs,
                                     .memory_limit = setting->memory_limit,
                                     .by_makespan = setting->objective == PS_OBJECTIVE_MAKESPAN };
  g_autoptr (PsSchedule) schedule = NULL;

  if (placement->n_stages % placement->n_devices != 0 || (setting->n_slices > 1 && family->default_slices == 0))
    return NULL;
  schedule = setting->generate != NULL && family->uses_costs ? setting->generate (family, setting->price_data, NULL)
                                                             : ps_family_generate (family, &family_setting, NULL);
  if (schedule == NULL || schedule->n_slices != setting->n_slices
      || schedule->placement->n_stages != placement->n_stages || schedule->placement->n_copies != placement->n_copies)
    return NULL;
  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++)
    if (schedule->placement->device[i] != placement->device[i])
      return NULL;
  return g_steal_pointer (&schedule);
}

/* Evaluates an order and swaps it with *best if it is a better solution. */
static gboolean take_better (PsOrder *order, PsOrder **best)
{
  if (!ps_order_evaluate (order) || order->excess > 0 || (*best != NULL && (*best)->objective <= order->objective))
    return FALSE;
  if (*best == NULL)
    *best = ps_order_new (order->problem);
  ps_order_assign (*best, order);
  return TRUE;
}

/* Adds a microbatch with all its slices, through all stages of a copy and back. */
static void add_one (PsOrder *order, guint copy, guint first)
{
  const PsProblem *problem = order->problem;
  guint n = problem->n_slices, begin = copy * problem->n_copy_stages * n, end = begin + problem->n_copy_stages * n;

  for (guint i = begin; i < end; i++)
    ps_order_add (order, op_at (problem, i / n, PS_OP_F, first + i % n), problem->n_ops);
  for (guint i = end; i-- > begin;) {
    guint s = i / n, b = op_at (problem, s, PS_OP_B, mirrored (problem, first + i % n));
    gboolean fused = problem->fuses[s] && problem->bw_take[s] < ps_problem_apart_peak (problem, s);

    ps_order_add (order, b, fused ? b : problem->n_ops);
    if (!fused)
      ps_order_add (order, b + problem->m, problem->n_ops);
  }
}

void ps_order_one_by_one (PsOrder *order)
{
  const PsProblem *problem = order->problem;

  ps_order_clear (order);
  for (guint first = 0; first < problem->m; first += problem->n_slices)
    for (guint copy = 0; copy < problem->n_copies; copy++)
      add_one (order, copy, first);
}

static void try_family (PsStart *start, const PsSearchSetting *setting, const PsFamily *family, PsPriced *priced,
                        const char **found_by)
{
  g_autoptr (PsOrder) order = ps_order_new (start->problem);

  for (guint k = 0; k < (family->groups ? N_GROUP_SIZES : 1); k++) {
    g_autoptr (PsSchedule) schedule = generate (family, setting, group_size (start->problem->n_devices, k));

    if (schedule == NULL)
      continue;
    if (ps_order_from_schedule (order, schedule) && take_better (order, &start->order))
      *found_by = family->name;
    if (priced != NULL && !schedule->asynchronous)
      ps_priced_take (priced, setting, g_steal_pointer (&schedule), family->name);
  }
}

/* Tries all families. Families that look at costs are generated for the problem's limit too. */
static void try_families (PsStart *start, const PsSearchSetting *setting, PsPriced *priced, const char **found_by)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);
  PsSearchSetting lower = *setting;

  lower.memory_limit = start->problem->limit;
  lower.generate = NULL;
  for (guint i = 0; i < n; i++) {
    try_family (start, setting, families[i], priced, found_by);
    if (start->problem->reserves && families[i]->uses_costs)
      try_family (start, &lower, families[i], priced, found_by);
  }
}

static void try_given (PsStart *start, const PsSearchSetting *setting, PsPriced *priced, const char **found_by)
{
  g_autoptr (PsOrder) order = ps_order_new (start->problem);

  if (setting->start == NULL || !ps_order_from_schedule (order, setting->start))
    return;
  if (take_better (order, &start->order))
    *found_by = "the schedule to start from";
  if (priced != NULL)
    ps_priced_take (priced, setting, ps_schedule_copy (setting->start), "the schedule to start from");
}

/* Tries list scheduling by a plain rule, or one microbatch after the other if that does not fit. */
static void try_plain (PsStart *start, const char **found_by)
{
  static const PsPolicy plain = { .bias[PS_OP_W] = { .base = 1 }, .ahead = { .base = 1 }, .fuses = TRUE };
  g_autoptr (PsOrder) order = ps_order_new (start->problem);

  if (ps_list_schedule (order, &plain) && take_better (order, &start->order))
    *found_by = "list scheduling";
  if (start->order != NULL)
    return;
  ps_order_one_by_one (order);
  take_better (order, &start->order);
  *found_by = "one microbatch at a time";
}

gint64 ps_start_bound (const PsSearchSetting *setting, const PsProblem *problem)
{
  gint64 bound = ps_lower_bound_within (setting->placement, setting->n_microbatches * setting->n_slices, setting->costs,
                                        setting->memory_limit, setting->objective);

  return MAX (bound, ps_one_machine_bound (problem));
}

void ps_start_init (PsStart *start, const PsSearchSetting *setting, PsPriced *priced)
{
  const char *found_by = NULL;

  start->problem = ps_problem_new (setting);
  start->lower_bound_ns = ps_start_bound (setting, start->problem);
  try_given (start, setting, priced, &found_by);
  try_families (start, setting, priced, &found_by);
  try_plain (start, &found_by);
  if (priced != NULL)
    ps_priced_take (priced, setting, ps_order_to_schedule (start->order, setting->placement), found_by);
}

void ps_start_clear (PsStart *start)
{
  ps_order_free (start->order);
  ps_problem_free (start->problem);
}

/* A long order from a short one: the part between a cut and the same cut some microbatches later is repeated. */

/* Moments to try as cuts, and the longest part that is repeated, in microbatches. */
#define N_CUTS 48
#define MAX_PIECE 16

/* A try counts as n_ops / OPS_PER_LONGER_MOVE moves. */
#define OPS_PER_LONGER_MOVE 16

/* Counts the ops of each chain that have started before a moment. */
static void cut_at (const PsOrder *from, gint64 moment, guint *cut)
{
  const PsProblem *problem = from->problem;

  for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++) {
    guint low = 0, high = problem->m;

    while (low < high) {
      guint middle = (low + high) / 2;

      if (end_of (from, from->node[chain * problem->m + middle]) - problem->duration[chain] < moment)
        low = middle + 1;
      else
        high = middle;
    }
    cut[chain] = low;
  }
}

/* Whether every chain has `n` more microbatches after the cut. */
static gboolean has_after (const PsProblem *problem, const guint *cut, guint n)
{
  for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++)
    if (cut[chain] + n > problem->m)
      return FALSE;
  return TRUE;
}

/* A part of a sequence: the microbatches of each chain from `begin` to `end` after the cut, moved by `shift`. */
typedef struct {
  const PsOrder *from;
  const guint *cut;
  gint64 begin;
  gint64 end;
  gint64 shift;
} Part;

/* The op moved as the part says; NO_OP: the part does not hold it. */
static guint shifted (const Part *part, guint op, guint m)
{
  guint chain = op / part->from->problem->m;
  gint64 at = op % part->from->problem->m, place = at - (gint64)part->cut[chain];

  return place >= part->begin && place < part->end ? chain * m + (guint)(at + part->shift) : NO_OP;
}

/* Appends a pair or a BW; one that the part does not hold completely falls apart. */
static void append_joined (PsOrder *order, const Part *part, guint op, guint partner)
{
  guint m = order->problem->m, none = order->problem->n_ops, before = part->from->problem->m;
  guint b = shifted (part, op, m), w = shifted (part, op + before, m);
  guint f = partner == op ? b : shifted (part, partner, m);

  if (b != NO_OP && f != NO_OP && w == b + m) {
    ps_order_add (order, b, f);
    return;
  }
  if (partner != op && f != NO_OP)
    ps_order_add (order, f, none);
  if (b != NO_OP)
    ps_order_add (order, b, none);
  if (w != NO_OP)
    ps_order_add (order, w, none);
}

/* Whether the part holds an op of the node at a position. */
static gboolean has_any (const Part *part, guint position)
{
  const PsOrder *from = part->from;
  guint op = from->sequence[position], partner = from->partner[op], m = from->problem->m;

  return shifted (part, op, m) != NO_OP
         || (partner != from->problem->n_ops
             && (shifted (part, partner, m) != NO_OP || shifted (part, op + m, m) != NO_OP));
}

/* Lists the positions of a device with ops of the part; returns how many. */
static guint list_positions (const Part *part, guint device, guint32 *positions)
{
  guint n = 0;

  for (guint i = part->from->problem->first[device]; i < part->from->stop[device]; i++)
    if (has_any (part, i))
      positions[n++] = i;
  return n;
}

static void append_part (PsOrder *order, const Part *part, const guint32 *positions, guint n)
{
  const PsOrder *from = part->from;

  for (guint i = 0; i < n; i++) {
    guint op = from->sequence[positions[i]], partner = from->partner[op];

    if (partner != from->problem->n_ops)
      append_joined (order, part, op, partner);
    else
      ps_order_add (order, shifted (part, op, order->problem->m), order->problem->n_ops);
  }
}

/* Appends the part n_times, each time `step` microbatches later. */
static void append_parts (PsOrder *order, Part part, guint device, guint n_times, guint step)
{
  g_autofree guint32 *positions = g_new (guint32, part.from->problem->n_ops);
  guint n = list_positions (&part, device, positions);

  for (guint i = 0; i < n_times; i++, part.shift += step)
    append_part (order, &part, positions, n);
}

static gboolean repeat (PsOrder *order, const PsOrder *from, const guint *cut, guint piece, guint n_times)
{
  const PsProblem *small = from->problem;
  gint64 extra = (gint64)order->problem->m - small->m, dropped = (gint64)n_times * piece - extra;

  if (dropped < 0 || piece % small->n_slices != 0 || !has_after (small, cut, MAX (piece, (guint)dropped)))
    return FALSE;
  ps_order_clear (order);
  for (guint d = 0; d < small->n_devices; d++) {
    append_parts (order, (Part){ from, cut, G_MININT64 / 2, 0, 0 }, d, 1, 0);
    append_parts (order, (Part){ from, cut, 0, piece, 0 }, d, n_times, piece);
    append_parts (order, (Part){ from, cut, dropped, G_MAXINT64, extra }, d, 1, 0);
  }
  return TRUE;
}

gboolean ps_order_lengthen (PsOrder *order, const PsOrder *from, PsSpend spend, gpointer data)
{
  const PsProblem *small = from->problem;
  g_autoptr (PsOrder) scratch = ps_order_new (order->problem);
  g_autofree guint *cut = g_new (guint, (gsize)small->n_stages * N_KINDS);
  guint extra = order->problem->m - small->m;
  gboolean found = FALSE;

  for (guint i = 1; i < N_CUTS; i++) {
    cut_at (from, from->objective * i / N_CUTS, cut);
    for (guint piece = 1; piece <= MIN (MAX_PIECE, extra); piece++) {
      if (extra % piece != 0)
        continue;
      if (!spend (order->problem->n_ops / OPS_PER_LONGER_MOVE + 1, data))
        return FALSE;
      if (!repeat (scratch, from, cut, piece, extra / piece))
        continue;
      if (!ps_order_evaluate (scratch) || scratch->excess > 0 || (found && scratch->objective >= order->objective))
        continue;
      ps_order_assign (order, scratch);
      found = TRUE;
    }
  }
  return found;
}

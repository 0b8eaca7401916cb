/* problem.c - costs, placement and limits as dense arrays. */
#include "problem.h"

static void place_stages (PsProblem *problem, const PsPlacement *placement)
{
  guint fill = 0;

  for (guint d = 0; d < problem->n_devices; d++) {
    problem->first_stage[d] = fill;
    problem->first[d] = fill * N_KINDS * problem->m;
    for (guint s = 0; s < problem->n_stages; s++)
      if (placement->device[s] == d)
        problem->stages[fill++] = s;
  }
  problem->first_stage[problem->n_devices] = fill;
  problem->first[problem->n_devices] = fill * N_KINDS * problem->m;
}

/* The transfer (costs.h) of an F's or B's input from another device; 0: the input comes from its own device, or none is
 * needed. */
static guint input_transfer (const PsProblem *problem, const PsCosts *costs, guint stage, guint kind)
{
  guint of_copy = stage % problem->n_copy_stages;

  if (kind == PS_OP_F)
    return is_first_stage (problem, stage) || problem->device[stage - 1] == problem->device[stage]
               ? 0
               : ps_transfer_forward (costs, of_copy - 1);
  return is_last_stage (problem, stage) || problem->device[stage + 1] == problem->device[stage]
             ? 0
             : ps_transfer_backward (costs, of_copy + 1);
}

static void set_stage (PsProblem *problem, const PsCosts *costs, guint stage)
{
  guint of_copy = stage % problem->n_copy_stages;
  const PsOpCost *joined = ps_costs_op (costs, PS_OP_BW, of_copy);

  problem->bw_duration[stage] = joined->duration_ns;
  problem->bw_take[stage] = joined->take_bytes;
  problem->bw_give[stage] = joined->give_bytes;
  for (guint kind = 0; kind < N_KINDS; kind++) {
    const PsOpCost *cost = ps_costs_op (costs, (PsOpKind)kind, of_copy);
    guint chain = stage * N_KINDS + kind;

    problem->duration[chain] = cost->duration_ns;
    problem->take[chain] = cost->take_bytes;
    problem->give[chain] = cost->give_bytes;
    if (kind != PS_OP_W)
      problem->lag[chain] = costs->transfer_ns[input_transfer (problem, costs, stage, kind)];
  }
}

gint64 ps_problem_kept (const PsProblem *problem, guint stage, PsOpKind kind)
{
  gint64 bytes = 0;

  for (guint chain = stage * N_KINDS; chain <= stage * N_KINDS + kind; chain++)
    bytes += problem->take[chain] - problem->give[chain];
  return bytes;
}

gint64 ps_problem_apart_peak (const PsProblem *problem, guint stage)
{
  guint b = stage * N_KINDS + PS_OP_B, w = stage * N_KINDS + PS_OP_W;

  return MAX (problem->take[b], problem->take[b] - problem->give[b] + problem->take[w]);
}

/* All memory that the device's ops ever take and keep, plus the most that an F and a backward take at once in a pair.
 */
static gint64 most_memory (const PsProblem *problem, guint device)
{
  gint64 bytes = problem->held[device], forward = 0, backward = 0;

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++) {
    guint chain = problem->stages[i] * N_KINDS;
    const gint64 *take = problem->take + chain, *give = problem->give + chain;

    for (guint kind = 0; kind < N_KINDS; kind++)
      bytes += MAX (take[kind] - give[kind], 0) * problem->m;
    forward = MAX (forward, take[PS_OP_F]);
    backward = MAX (backward, MAX (MAX (take[PS_OP_B], take[PS_OP_W]), problem->bw_take[problem->stages[i]]));
  }
  return bytes + forward + backward;
}

gboolean ps_problem_may_run_out (const PsProblem *problem, guint device)
{
  return most_memory (problem, device) > problem->limit[device];
}

/* Marks the joins that may be worth it. A pair saves time if it is shorter than its F and some backward. A BW does if
 * it is shorter than B and W, or takes less where memory is short. */
static void set_joins (PsProblem *problem, const PsCosts *costs)
{
  for (guint d = 0; d < problem->n_devices; d++) {
    gboolean short_of_memory = ps_problem_may_run_out (problem, d);
    gint64 longest = 0;

    for (guint i = problem->first_stage[d]; i < problem->first_stage[d + 1]; i++) {
      guint s = problem->stages[i], b = s * N_KINDS + PS_OP_B;
      gint64 apart = problem->duration[b] + problem->duration[b + 1];

      problem->fuses[s] = problem->bw_duration[s] < apart
                          || (short_of_memory && problem->bw_take[s] < ps_problem_apart_peak (problem, s));
      problem->joins |= problem->fuses[s];
      longest = MAX (longest, ps_costs_backward_ns (costs, 0, s % problem->n_copy_stages));
    }
    for (guint i = problem->first_stage[d]; i < problem->first_stage[d + 1]; i++) {
      guint s = problem->stages[i];
      guint of_copy = s % problem->n_copy_stages;
      gboolean saves = ps_costs_pair_more_ns (costs, of_copy) < longest;

      problem->pair[s] = saves ? costs->stage[of_copy].pair_ns : -1;
      problem->joins |= saves;
    }
  }
}

/* The largest activation and the largest gradient from other devices, which wait in buffers; *all is every message of
 * the iteration. */
static gint64 buffer_bytes (const PsProblem *problem, const PsCosts *costs, guint device, gint64 *all)
{
  gint64 forward = 0, backward = 0;

  *all = 0;
  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++) {
    gint64 in = costs->message_bytes[input_transfer (problem, costs, problem->stages[i], PS_OP_F)];
    gint64 back = costs->message_bytes[input_transfer (problem, costs, problem->stages[i], PS_OP_B)];

    forward = MAX (forward, in);
    backward = MAX (backward, back);
    *all += (in + back) * problem->m;
  }
  return forward + backward;
}

/* Sets the limit. The objective ignores buffers but a price may not, so the limit leaves room for them as far as there
 * is any. A limit that no order can reach becomes none. */
static void set_limit (PsProblem *problem, const PsSearchSetting *setting, guint device)
{
  gint64 least = ps_search_least_memory (setting->placement, setting->costs, problem->n_slices, device), given, buffers,
         all_buffers;

  problem->limit[device] = problem->asked[device] = G_MAXINT64;
  if (setting->memory_limit == NULL)
    return;
  given = problem->asked[device] = setting->memory_limit[device];
  buffers = buffer_bytes (problem, setting->costs, device, &all_buffers);
  if (setting->price == NULL)
    buffers = all_buffers = 0;
  if (most_memory (problem, device) + all_buffers <= given)
    return;
  problem->limit[device] = MAX (given - buffers, MIN (given, least));
  problem->reserves |= problem->limit[device] < given;
}

static void set_devices (PsProblem *problem, const PsSearchSetting *setting)
{
  gint64 arrival = 0;

  for (guint d = 0; d < problem->n_devices; d++)
    problem->begin[d] = G_MAXINT64;
  for (guint s = 0; s < problem->n_stages; s++) {
    guint d = problem->device[s];

    if (is_first_stage (problem, s))
      arrival = 0;
    arrival += problem->lag[s * N_KINDS + PS_OP_F];
    problem->begin[d] = MIN (problem->begin[d], arrival);
    arrival += problem->duration[s * N_KINDS + PS_OP_F];
    problem->held[d] += ps_costs_held_bytes (setting->costs, s % problem->n_copy_stages, 1);
  }
  for (guint d = 0; d < problem->n_devices; d++)
    set_limit (problem, setting, d);
  for (guint d = 0; d < problem->n_devices && problem->objective == PS_OBJECTIVE_SPAN; d++)
    problem->offset[d] = problem->begin[d] == G_MAXINT64 ? 0 : -problem->begin[d];
}

static guint find_producer (const PsProblem *problem, guint stage, guint kind, guint microbatch)
{
  if (kind == PS_OP_W)
    return op_at (problem, stage, PS_OP_B, microbatch);
  if (kind == PS_OP_F)
    return is_first_stage (problem, stage) ? problem->n_ops : op_at (problem, stage - 1, PS_OP_F, microbatch);
  return is_last_stage (problem, stage) ? op_at (problem, stage, PS_OP_F, mirrored (problem, microbatch))
                                        : op_at (problem, stage + 1, PS_OP_B, microbatch);
}

static void set_operations (PsProblem *problem)
{
  for (guint i = 0; i < problem->n_ops; i++) {
    guint chain = i / problem->m, stage = chain / N_KINDS;

    problem->op[i] = (PsOperation){ .producer = find_producer (problem, stage, chain % N_KINDS, i % problem->m),
                                    .consumer = { problem->n_ops, problem->n_ops },
                                    .device = (guint16)problem->device[stage],
                                    .chain = (guint16)chain };
  }
  for (guint i = 0; i < problem->n_ops; i++)
    if (problem->op[i].producer != problem->n_ops) {
      PsOperation *producer = &problem->op[problem->op[i].producer];
      guint which = producer->consumer[0] != problem->n_ops;

      producer->consumer[which] = i;
    }
}

static void allocate (PsProblem *problem)
{
  GPtrArray *owned = problem->owned = g_ptr_array_new_with_free_func (g_free);
  guint n_stages = problem->n_stages, n_chains = n_stages * N_KINDS, n_devices = problem->n_devices;

  problem->op = PS_OWN_NEW (owned, PsOperation, problem->n_ops);
  problem->device = PS_OWN_NEW (owned, guint, n_stages);
  problem->stages = PS_OWN_NEW (owned, guint, n_stages);
  problem->pair = PS_OWN_NEW (owned, gint64, n_stages);
  problem->fuses = PS_OWN_NEW (owned, guint8, n_stages);
  problem->bw_duration = PS_OWN_NEW (owned, gint64, n_stages);
  problem->bw_take = PS_OWN_NEW (owned, gint64, n_stages);
  problem->bw_give = PS_OWN_NEW (owned, gint64, n_stages);
  problem->duration = PS_OWN_NEW (owned, gint64, n_chains);
  problem->lag = PS_OWN_NEW (owned, gint64, n_chains);
  problem->take = PS_OWN_NEW (owned, gint64, n_chains);
  problem->give = PS_OWN_NEW (owned, gint64, n_chains);
  problem->first_stage = PS_OWN_NEW (owned, guint, n_devices + 1);
  problem->first = PS_OWN_NEW (owned, guint, n_devices + 1);
  problem->held = PS_OWN_NEW (owned, gint64, n_devices);
  problem->limit = PS_OWN_NEW (owned, gint64, n_devices);
  problem->asked = PS_OWN_NEW (owned, gint64, n_devices);
  problem->begin = PS_OWN_NEW (owned, gint64, n_devices);
  problem->offset = PS_OWN_NEW (owned, gint64, n_devices);
}

PsProblem *ps_problem_new (const PsSearchSetting *setting)
{
  const PsPlacement *placement = setting->placement;
  PsProblem *problem = g_new0 (PsProblem, 1);

  problem->n_devices = placement->n_devices;
  problem->n_copies = placement->n_copies;
  problem->n_copy_stages = placement->n_stages;
  problem->n_stages = placement->n_copies * placement->n_stages;
  problem->n_slices = MAX (setting->n_slices, 1);
  problem->m = setting->n_microbatches / placement->n_copies * problem->n_slices;
  problem->n_ops = problem->n_stages * N_KINDS * problem->m;
  problem->objective = setting->objective;
  allocate (problem);
  for (guint s = 0; s < problem->n_stages; s++)
    problem->device[s] = placement->device[s];
  place_stages (problem, placement);
  for (guint s = 0; s < problem->n_stages; s++)
    set_stage (problem, setting->costs, s);
  set_devices (problem, setting);
  set_joins (problem, setting->costs);
  set_operations (problem);
  return problem;
}

void ps_problem_free (PsProblem *problem)
{
  if (problem == NULL)
    return;
  g_ptr_array_unref (problem->owned);
  g_free (problem);
}

/* Memory while one op after the other takes and gives. */
typedef struct {
  gint64 level;
  gint64 peak;
} Level;

static void level_add (Level *level, const PsOpCost *cost)
{
  level->level += cost->take_bytes;
  level->peak = MAX (level->peak, level->level);
  level->level -= cost->give_bytes;
}

/* Adds B and W, or BW if that takes less. */
static void level_add_backward (Level *level, const PsCosts *costs, guint stage)
{
  Level apart = *level, joined = *level;

  level_add (&apart, ps_costs_op (costs, PS_OP_B, stage));
  level_add (&apart, ps_costs_op (costs, PS_OP_W, stage));
  level_add (&joined, ps_costs_op (costs, PS_OP_BW, stage));
  *level = joined.peak < apart.peak ? joined : apart;
}

/* One microbatch runs at a time through the stages of one copy: a stage's F takes memory, its backward takes and gives
 * back. The level is followed over the device's ops, up the stages and down again. */
static gint64 least_of_copy (const PsPlacement *placement, const PsCosts *costs, guint n_slices, guint device,
                             guint copy)
{
  guint n = placement->n_stages;
  Level level = { 0, 0 };

  for (guint i = 0; i < placement->n_copies * n; i++)
    if (placement->device[i] == device)
      level.level += ps_costs_held_bytes (costs, i % n, 1);
  level.peak = level.level;
  for (guint s = 0; s < n; s++)
    for (guint k = 0; k < n_slices && ps_placement_device (placement, copy, s) == device; k++)
      level_add (&level, ps_costs_op (costs, PS_OP_F, s));
  for (guint s = n; s-- > 0;)
    for (guint k = 0; k < n_slices && ps_placement_device (placement, copy, s) == device; k++)
      level_add_backward (&level, costs, s);
  return level.peak;
}

gint64 ps_search_least_memory (const PsPlacement *placement, const PsCosts *costs, guint n_slices, guint device)
{
  gint64 least = 0;

  for (guint copy = 0; copy < placement->n_copies; copy++)
    least = MAX (least, least_of_copy (placement, costs, n_slices, device, copy));
  return least;
}

gboolean ps_problem_is_possible (const PsSearchSetting *setting)
{
  for (guint d = 0; d < setting->placement->n_devices && setting->memory_limit != NULL; d++)
    if (ps_search_least_memory (setting->placement, setting->costs, setting->n_slices, d) > setting->memory_limit[d])
      return FALSE;
  return setting->n_microbatches % setting->placement->n_copies == 0;
}

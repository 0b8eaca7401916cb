/* problem.c - costs, placement and limits as dense arrays. */
#include "problem.h"

static void
place_stages (Problem *problem, const PsPlacement *placement)
{
  guint fill = 0;

  for (guint d = 0; d < problem->n_devices; d++)
    {
      problem->first_stage[d] = fill;
      problem->first[d] = fill * N_KINDS * problem->m;
      for (guint s = 0; s < problem->n_stages; s++)
        if (ps_placement_device (placement, 0, s) == d)
          problem->stages[fill++] = s;
    }
  problem->first_stage[problem->n_devices] = fill;
  problem->first[problem->n_devices] = fill * N_KINDS * problem->m;
}

static void
set_stage (Problem *problem, const PsCosts *costs, guint stage)
{
  guint last = problem->n_stages - 1, device = problem->device[stage];

  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      const PsOpCost *cost = ps_costs_op (costs, (PsOpKind)kind, stage);
      guint chain = stage * N_KINDS + kind;

      problem->duration[chain] = cost->duration_ns;
      problem->take[chain] = cost->take_bytes;
      problem->give[chain] = cost->give_bytes;
    }
  if (stage > 0 && problem->device[stage - 1] != device)
    problem->lag[stage * N_KINDS + PS_OP_F] = costs->transfer_ns[ps_transfer_forward (costs, stage - 1)];
  if (stage < last && problem->device[stage + 1] != device)
    problem->lag[stage * N_KINDS + PS_OP_B] = costs->transfer_ns[ps_transfer_backward (costs, stage + 1)];
}

static void
set_devices (Problem *problem, const PsSearchSetting *setting)
{
  gint64 arrival = 0;

  for (guint d = 0; d < problem->n_devices; d++)
    {
      problem->limit[d] = setting->memory_limit ? setting->memory_limit[d] : G_MAXINT64;
      problem->begin[d] = G_MAXINT64;
    }
  for (guint s = 0; s < problem->n_stages; s++)
    {
      guint d = problem->device[s];

      arrival += problem->lag[s * N_KINDS + PS_OP_F];
      problem->begin[d] = MIN (problem->begin[d], arrival);
      arrival += problem->duration[s * N_KINDS + PS_OP_F];
      problem->held[d] += ps_costs_held_bytes (setting->costs, s, 1);
    }
  for (guint d = 0; d < problem->n_devices && problem->objective == PS_OBJECTIVE_SPAN; d++)
    problem->offset[d] = problem->begin[d] == G_MAXINT64 ? 0 : -problem->begin[d];
}

static guint
find_producer (const Problem *problem, guint stage, guint kind, guint microbatch)
{
  if (kind == PS_OP_W)
    return op_at (problem, stage, PS_OP_B, microbatch);
  if (kind == PS_OP_F)
    return stage > 0 ? op_at (problem, stage - 1, PS_OP_F, microbatch) : problem->n_ops;
  return stage + 1 < problem->n_stages ? op_at (problem, stage + 1, PS_OP_B, microbatch)
                                       : op_at (problem, stage, PS_OP_F, microbatch);
}

static void
set_operations (Problem *problem)
{
  for (guint i = 0; i < problem->n_ops; i++)
    {
      guint chain = i / problem->m, stage = chain / N_KINDS;

      problem->op[i] = (Operation){ .producer = find_producer (problem, stage, chain % N_KINDS, i % problem->m),
                                    .consumer = { problem->n_ops, problem->n_ops },
                                    .device = (guint16)problem->device[stage],
                                    .chain = (guint16)chain };
    }
  for (guint i = 0; i < problem->n_ops; i++)
    if (problem->op[i].producer != problem->n_ops)
      {
        Operation *producer = &problem->op[problem->op[i].producer];
        guint which = producer->consumer[0] != problem->n_ops;

        producer->consumer[which] = i;
        problem->onward[2 * producer->chain + which] = problem->lag[chain_of (problem, i)];
      }
}

static void
allocate (Problem *problem)
{
  guint n_chains = problem->n_stages * N_KINDS, n_devices = problem->n_devices;

  problem->op = g_new0 (Operation, problem->n_ops);
  problem->device = g_new0 (guint, problem->n_stages);
  problem->first_stage = g_new0 (guint, n_devices + 1);
  problem->stages = g_new0 (guint, problem->n_stages);
  problem->first = g_new0 (guint, n_devices + 1);
  problem->duration = g_new0 (gint64, n_chains);
  problem->lag = g_new0 (gint64, n_chains);
  problem->onward = g_new0 (gint64, (gsize)n_chains * 2);
  problem->take = g_new0 (gint64, n_chains);
  problem->give = g_new0 (gint64, n_chains);
  problem->held = g_new0 (gint64, n_devices);
  problem->limit = g_new0 (gint64, n_devices);
  problem->begin = g_new0 (gint64, n_devices);
  problem->offset = g_new0 (gint64, n_devices);
}

Problem *
problem_new (const PsSearchSetting *setting)
{
  const PsPlacement *placement = setting->placement;
  Problem *problem = g_new0 (Problem, 1);

  problem->n_devices = placement->n_devices;
  problem->n_stages = placement->n_stages;
  problem->m = setting->n_microbatches;
  problem->n_ops = problem->n_stages * N_KINDS * problem->m;
  problem->objective = setting->objective;
  allocate (problem);
  for (guint s = 0; s < placement->n_stages; s++)
    problem->device[s] = ps_placement_device (placement, 0, s);
  place_stages (problem, placement);
  for (guint s = 0; s < placement->n_stages; s++)
    set_stage (problem, setting->costs, s);
  set_devices (problem, setting);
  set_operations (problem);
  return problem;
}

void
problem_free (Problem *problem)
{
  if (problem == NULL)
    return;
  g_free (problem->op);
  g_free (problem->device);
  g_free (problem->first_stage);
  g_free (problem->stages);
  g_free (problem->first);
  g_free (problem->duration);
  g_free (problem->lag);
  g_free (problem->onward);
  g_free (problem->take);
  g_free (problem->give);
  g_free (problem->held);
  g_free (problem->limit);
  g_free (problem->begin);
  g_free (problem->offset);
  g_free (problem);
}

/* With one microbatch at a time a stage's F takes, then its B and W take and give back: the level after each op of the
 * device, in that order, for stages down and up again. */
gint64
ps_search_least_memory (const PsPlacement *placement, const PsCosts *costs, guint device)
{
  gint64 level = 0, peak = 0;

  for (guint s = 0; s < placement->n_stages; s++)
    if (ps_placement_device (placement, 0, s) == device)
      {
        level += ps_costs_held_bytes (costs, s, 1);
        peak += ps_costs_held_bytes (costs, s, 1);
      }
  for (guint s = 0; s < placement->n_stages; s++)
    if (ps_placement_device (placement, 0, s) == device)
      {
        level += ps_costs_op (costs, PS_OP_F, s)->take_bytes;
        peak = MAX (peak, level);
        level -= ps_costs_op (costs, PS_OP_F, s)->give_bytes;
      }
  for (guint s = placement->n_stages; s-- > 0;)
    if (ps_placement_device (placement, 0, s) == device)
      for (PsOpKind kind = PS_OP_B; kind <= PS_OP_W; kind++)
        {
          level += ps_costs_op (costs, kind, s)->take_bytes;
          peak = MAX (peak, level);
          level -= ps_costs_op (costs, kind, s)->give_bytes;
        }
  return peak;
}

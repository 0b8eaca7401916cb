/* partition-schedule.c - a schedule's real time with a partition, and boundaries moved until it gets no better. */
#include "partition-private.h"

#include <string.h>

/* Ops that one search may simulate: a second or two. Each op counts STEPS_TO_ORDER times where every partition needs a
 * new order or the period of a pattern. */
#define MAX_STEPS ((gint64)400 * 1000 * 1000)
#define STEPS_TO_ORDER 50

/* One family and one chain, for many partitions. */
typedef struct
{
  const PsPartitionSetting *setting;
  PsStageSums *sums;
  double *speeds;
  PsCosts *costs;     /* of the partition at hand */
  PsProgram *program; /* NULL: the family orders by costs */
  PsSimulation *simulation;
} Evaluator;

static void
evaluator_clear (Evaluator *evaluator)
{
  ps_stage_sums_free (evaluator->sums);
  g_free (evaluator->speeds);
  ps_costs_free (evaluator->costs);
  ps_program_free (evaluator->program);
  ps_simulation_free (evaluator->simulation);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Evaluator, evaluator_clear)

static PsSchedule *
make_schedule (const PsPartitionSetting *setting, const PsCosts *costs, GError **error)
{
  PsFamilySetting size = { .n_devices = setting->n_devices,
                           .n_microbatches = setting->n_microbatches,
                           .n_chunks = setting->n_chunks,
                           .n_slices = setting->n_slices,
                           .group_size = setting->group_size,
                           .defer_head = setting->defer_head,
                           .costs = costs,
                           .memory_limit = costs != NULL ? setting->memory_limit : NULL,
                           .by_makespan = setting->sync == PS_SYNC_GLOBAL };

  return ps_family_generate (setting->family, &size, error);
}

PsPlacement *
ps_partition_placement (const PsPartitionSetting *setting, GError **error)
{
  g_autoptr (PsSchedule) schedule = make_schedule (setting, NULL, error);

  return schedule != NULL ? ps_placement_copy (schedule->placement) : NULL;
}

static gboolean
evaluator_init (Evaluator *evaluator, const PsPartitionSetting *setting, GError **error)
{
  g_autoptr (PsSchedule) schedule = make_schedule (setting, NULL, error);

  evaluator->setting = setting;
  if (schedule == NULL)
    return FALSE;
  evaluator->speeds = ps_partition_stage_speeds (setting, error);
  if (evaluator->speeds == NULL)
    return FALSE;
  evaluator->sums = ps_stage_sums_new (setting->layers);
  evaluator->costs = ps_costs_new (schedule->placement->n_stages);
  g_free (evaluator->costs->source);
  evaluator->costs->source = g_strdup (setting->layers->source);
  if (setting->family->uses_costs)
    return TRUE;
  evaluator->program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, error);
  if (evaluator->program == NULL)
    return FALSE;
  evaluator->simulation = ps_simulation_new (evaluator->program);
  return TRUE;
}

static PsPartitionRun
simulate (const PsPartitionSetting *setting, const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  g_autoptr (PsCosts) slice = NULL;
  PsPartitionRun run = { 0 };

  if (program->schedule->n_slices > 1)
    {
      slice = ps_costs_slice (costs, program->schedule->n_slices);
      costs = slice;
    }
  simulation->times_only = setting->memory_limit == NULL;
  ps_simulate (program, costs, simulation);
  run.iteration_ns = ps_iteration (program, costs, simulation, setting->sync, PS_REDUCE_OVERLAPPED).period_ns;
  for (guint d = 0; setting->memory_limit != NULL && d < simulation->n_devices; d++)
    {
      gint64 excess = MAX (simulation->device[d].peak_bytes - setting->memory_limit[d], 0);

      run.excess_bytes += excess;
      run.most_excess_bytes = MAX (run.most_excess_bytes, excess);
    }
  return run;
}

static gboolean
evaluate_ordered (const Evaluator *evaluator, PsPartitionRun *run, GError **error)
{
  g_autoptr (PsSchedule) schedule = make_schedule (evaluator->setting, evaluator->costs, error);
  g_autoptr (PsProgram) program
      = schedule != NULL ? ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, error) : NULL;
  g_autoptr (PsSimulation) simulation = program != NULL ? ps_simulation_new (program) : NULL;

  if (program == NULL)
    return FALSE;
  *run = simulate (evaluator->setting, program, evaluator->costs, simulation);
  return TRUE;
}

static gboolean
evaluate (const Evaluator *evaluator, const PsPartitionStage *stages, PsPartitionRun *run, GError **error)
{
  const PsPartitionSetting *setting = evaluator->setting;

  ps_stage_sums_fill (evaluator->sums, stages, evaluator->speeds, setting->links, evaluator->costs);
  if (!ps_costs_check (evaluator->costs, setting->n_microbatches, error))
    return FALSE;
  if (evaluator->program == NULL)
    return evaluate_ordered (evaluator, run, error);
  *run = simulate (setting, evaluator->program, evaluator->costs, evaluator->simulation);
  return TRUE;
}

static gboolean
check_setting (const PsPartitionSetting *setting, GError **error)
{
  if (setting->family != NULL && setting->n_microbatches)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "schedule: needs %s",
                    setting->family != NULL ? "-m microbatches" : "--schedule FAMILY, the family to partition for");
}

gboolean
ps_partition_simulate (const PsPartitionSetting *setting, const PsPartition *partition, PsPartitionRun *run,
                       GError **error)
{
  g_auto (Evaluator) evaluator = { 0 };

  return check_setting (setting, error) && evaluator_init (&evaluator, setting, error)
         && evaluate (&evaluator, partition->stages, run, error);
}

/* The search */

typedef struct
{
  const Evaluator *evaluator;
  guint n_stages;
  PsPartitionStage *stages; /* the best so far from this start */
  PsPartitionStage *trial;
  PsPartitionRun run; /* of stages */
  gint64 steps_left;
  gint64 steps_each;
} Search;

/* Within the limits first, then fast. */
static gboolean
is_better (const PsPartitionRun *a, const PsPartitionRun *b)
{
  if (a->excess_bytes != b->excess_bytes)
    return a->excess_bytes < b->excess_bytes;
  return a->iteration_ns < b->iteration_ns;
}

/* Moves the last n layers of stage `from` to `to` (the first n layers when `to` lies before it). The stages between
 * keep their sizes and move along. */
static void
move_layers (Search *search, guint from, guint to, guint n)
{
  guint low = MIN (from, to), high = MAX (from, to);

  memcpy (search->trial, search->stages, search->n_stages * sizeof *search->trial);
  for (guint s = low; s < high; s++)
    {
      guint last = search->stages[s].last;

      search->trial[s].last = from < to ? last - n : last + n;
      search->trial[s + 1].first = search->trial[s].last + 1;
    }
}

static gboolean
try_move (Search *search, guint from, guint to, guint n)
{
  PsPartitionRun run;

  search->steps_left -= search->steps_each;
  move_layers (search, from, to, n);
  if (!evaluate (search->evaluator, search->trial, &run, NULL) || !is_better (&run, &search->run))
    return FALSE;
  memcpy (search->stages, search->trial, search->n_stages * sizeof *search->trial);
  search->run = run;
  return TRUE;
}

/* 1, 2, 4, ... layers from one stage to another. */
static gboolean
try_moves (Search *search, guint from, guint to)
{
  gboolean improved = FALSE;

  for (guint n = 1; search->steps_left > 0; n *= 2)
    {
      guint size = search->stages[from].last - search->stages[from].first + 1;

      if (n >= size)
        break;
      improved |= try_move (search, from, to, n);
    }
  return improved;
}

/* Neighbours first; until no move helps. */
static void
descend (Search *search)
{
  gboolean improved = TRUE;

  while (improved && search->steps_left > 0)
    {
      improved = FALSE;
      for (guint distance = 1; distance < search->n_stages; distance++)
        for (guint s = 0; s + distance < search->n_stages; s++)
          {
            improved |= try_moves (search, s, s + distance);
            improved |= try_moves (search, s + distance, s);
          }
    }
}

/* The steps of one evaluation. */
static gint64
steps_each (const Evaluator *evaluator)
{
  const PsPartitionSetting *setting = evaluator->setting;
  gint64 n = (gint64)ps_partition_n_stages (setting) * setting->n_microbatches * 3;
  gboolean meets
      = evaluator->program != NULL && !evaluator->program->schedule->asynchronous && setting->sync == PS_SYNC_GLOBAL;

  return meets ? evaluator->program->n_steps : n * STEPS_TO_ORDER;
}

/* Improves a start and keeps it in *best if it is better. */
static void
search_from (const Evaluator *evaluator, PsPartition *start, gint64 steps, PsPartition **best, PsPartitionRun *best_run,
             GError **error)
{
  g_autofree PsPartitionStage *trial = g_memdup2 (start->stages, start->n_stages * sizeof *start->stages);
  Search search = { .evaluator = evaluator,
                    .n_stages = start->n_stages,
                    .stages = start->stages,
                    .trial = trial,
                    .steps_left = steps,
                    .steps_each = steps_each (evaluator) };
  g_autoptr (PsPartition) candidate = start;

  if (!evaluate (evaluator, start->stages, &search.run, error))
    return;
  descend (&search);
  if (*best != NULL && !is_better (&search.run, best_run))
    return;
  ps_partition_free (*best);
  *best = g_steal_pointer (&candidate);
  *best_run = search.run;
}

PsPartition *
ps_partition_schedule (const PsPartitionSetting *setting, GError **error)
{
  static PsPartition *(*const starts[]) (const PsPartitionSetting *, GError **)
      = { ps_partition_bottleneck_cut, ps_partition_memory_cut, ps_partition_uniform };
  g_auto (Evaluator) evaluator = { 0 };
  g_autoptr (PsPartition) best = NULL;
  g_autoptr (GError) first = NULL;
  PsPartitionRun run = { 0 };

  if (!check_setting (setting, error) || !evaluator_init (&evaluator, setting, error))
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (starts); i++)
    {
      PsPartition *start = starts[i](setting, NULL);

      if (start != NULL)
        search_from (&evaluator, start, MAX_STEPS / G_N_ELEMENTS (starts), &best, &run, first != NULL ? NULL : &first);
    }
  if (best == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&first));
      return NULL;
    }
  best->bottleneck_ns = ps_partition_bottleneck (setting, best);
  return g_steal_pointer (&best);
}

/* iterations.c - the time of an iteration in steady state. Where all devices meet at the optimizer it follows from the
 * times of one iteration; else it is the period of the repeated program. */
#include "names.h"
#include "rounds.h"

#include <string.h>

PS_DEFINE_NAMES (PsSync, ps_sync, "global", "bypass")
PS_DEFINE_NAMES (PsReduce, ps_reduce, "overlapped", "exposed")

static PsIteration
meet (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, const PsEventsSetting *setting,
      PsReduce reduce)
{
  g_auto (PsReductions) reductions = { 0 };
  gint64 last = 0, reduced = 0;

  ps_reductions_init (&reductions, program);
  if (setting != NULL && setting->ready_order > 0)
    ps_reductions_follow (&reductions, program, simulation);
  for (guint device = 0; device < simulation->n_devices; device++)
    {
      last = MAX (last, simulation->device[device].end_ns);
      reduced = MAX (reduced, ps_reductions_end_ns (&reductions, program, costs, simulation, device, reduce));
    }
  return (PsIteration){ .period_ns = simulation->makespan_ns + (reduced - last) + simulation->optimizer_ns,
                        .n_iterations = 1 };
}

/* Rounds that are run to see whether they repeat: at most, and before a longer way is taken. */
#define MAX_ROUNDS 64
#define SOON 8

/* The first of rows that equals the one at index; index itself when none does. */
static guint
find_row (const gint64 *rows, guint n_columns, guint index)
{
  for (guint i = 0; i < index; i++)
    if (memcmp (rows + (gsize)i * n_columns, rows + (gsize)index * n_columns, n_columns * sizeof *rows) == 0)
      return i;
  return index;
}

static PsIteration
mean (const gint64 *elapsed_ns, guint from, guint to, gboolean exact)
{
  gint64 n = to - from, total = elapsed_ns[to] - elapsed_ns[from], least = 1;

  while (total % n * least % n != 0)
    least++;
  return (PsIteration){ .period_ns = (2 * total + n) / (2 * n), .n_iterations = exact ? (guint)least : 0 };
}

/* One round after the other, each from the devices' ready times that the one before has left. */
static gboolean
repeat (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting, PsReduce reduce,
        PsIteration *iteration, GError **error)
{
  guint p = program->schedule->placement->n_devices;
  g_autofree gint64 *ready = g_new0 (gint64, p), *rows = g_new0 (gint64, (gsize)p * (MAX_ROUNDS + 1));
  gint64 elapsed[MAX_ROUNDS + 1] = { 0 };
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  PsEventsSetting started = *setting;

  started.ready_ns = ready;
  simulation->times_only = TRUE;
  g_autoptr (PsEvents) events = ps_events_new (program, costs, &started, error);
  for (guint i = 1; events != NULL && i <= MAX_ROUNDS; i++)
    {
      if (!ps_events_run (events, costs, simulation, error))
        return FALSE;
      elapsed[i] = elapsed[i - 1] + ps_rounds_advance (program, costs, simulation, reduce, ready);
      memcpy (rows + (gsize)i * p, ready, p * sizeof *ready);
      guint same = find_row (rows, p, i);
      *iteration = mean (elapsed, same < i ? same : i / 2, i, same < i);
      if (same < i)
        return TRUE;
    }
  return events != NULL;
}

/* Rounds of pure latency in the same way. Times follow from max and + alone, so rounds that repeat themselves once do
 * so for ever. FALSE: they do not within a few. */
static gboolean
repeat_soon (const PsProgram *program, const PsCosts *costs, PsReduce reduce, PsIteration *iteration)
{
  g_autoptr (PsEndless) endless = ps_endless_new (program, costs, reduce);
  guint n = ps_endless_n_columns (endless);
  g_autofree gint64 *rows = g_new0 (gint64, (gsize)n * (SOON + 1));
  gint64 elapsed[SOON + 1] = { 0 };

  for (guint i = 1; i <= SOON; i++)
    {
      gint64 *row = rows + (gsize)i * n;

      elapsed[i] = elapsed[i - 1] + ps_endless_run (endless, row - n, row);
      guint same = find_row (rows, n, i);
      if (same == i)
        continue;
      *iteration = mean (elapsed, same, i, TRUE);
      return TRUE;
    }
  return FALSE;
}

PsIteration
ps_iteration (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, PsSync sync,
              PsReduce reduce)
{
  PsIteration iteration = { 0 };
  gboolean found = ps_iteration_events (program, costs, simulation, NULL, sync, reduce, &iteration, NULL);

  g_assert (found); /* nothing waits in a circle that ps_program_lower has let pass */
  return iteration;
}

gboolean
ps_iteration_check_fixed (const PsProgram *program, const PsEventsSetting *setting, GError **error)
{
  if (setting == NULL || ps_events_setting_is_fixed (setting))
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_SCHEDULE,
      "%s: never drains: with shared links, overlap slow-down or ready order its steady state is not known",
      program->schedule->name);
}

gboolean
ps_iteration_events (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                     const PsEventsSetting *setting, PsSync sync, PsReduce reduce, PsIteration *iteration,
                     GError **error)
{
  gboolean asynchronous = program->schedule->asynchronous;

  g_return_val_if_fail (costs->n_stages == program->schedule->placement->n_stages, FALSE);
  if (sync == PS_SYNC_GLOBAL && !asynchronous)
    {
      *iteration = meet (program, costs, simulation, setting, reduce);
      return TRUE;
    }
  if (!asynchronous && setting != NULL && !ps_events_setting_is_fixed (setting))
    return repeat (program, costs, setting, reduce, iteration, error);
  if (!ps_iteration_check_fixed (program, setting, error))
    return FALSE;
  /* Other times than the costs' are those of one run. */
  if (setting == NULL && (simulation == NULL || simulation->start_ns == NULL)
      && repeat_soon (program, costs, reduce, iteration))
    return TRUE;
  g_autoptr (PsEventGraph) graph = ps_rounds_new (program, costs, simulation, setting, reduce);
  if (ps_event_graph_period (graph, &iteration->period_ns, &iteration->n_iterations))
    return TRUE;
  return ps_refuse (error, PS_ERROR_SCHEDULE, "%s: its instructions wait for each other in a circle",
                    program->schedule->name);
}

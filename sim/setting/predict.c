/* predict.c - the chain from a setting to a prediction: schedule, costs, program, simulation, figures. */
#include <pipesim/bound.h>
#include <pipesim/sources.h>
#include "setting-comm.h"
#include "setting-private.h"

void
ps_prediction_free (PsPrediction *prediction)
{
  if (prediction == NULL)
    return;
  g_clear_pointer (&prediction->costs, ps_costs_free);
  g_clear_pointer (&prediction->simulation, ps_simulation_free);
  g_clear_pointer (&prediction->program, ps_program_free);
  ps_metrics_clear (&prediction->metrics);
  ps_events_task_free (prediction->events);
  g_free (prediction);
}

PsTimeline *
ps_prediction_timeline (const PsPrediction *prediction)
{
  PsTimeline *timeline = ps_timeline_from_simulation (prediction->program, prediction->costs, prediction->simulation);

  timeline->iteration_ns = prediction->metrics.iteration_ns;
  return timeline;
}

PsCosts *
ps_predict_costs (const PsSchedule *schedule, const PsCosts *given, GError **error)
{
  if (!ps_costs_check_placement (given, schedule->placement, error))
    {
      g_prefix_error (error, "schedule '%s': ", schedule->name);
      return NULL;
    }
  g_autoptr (PsCosts) costs
      = schedule->n_slices > 1 ? ps_costs_slice (given, schedule->n_slices) : ps_costs_copy (given);
  return ps_costs_check (costs, schedule->n_microbatches * schedule->n_slices, error) ? g_steal_pointer (&costs) : NULL;
}

gboolean
ps_predict_chunks (const PsSchedule *schedule, guint *n_chunks, GError **error)
{
  const PsPlacement *placement = schedule->placement;

  *n_chunks = placement->n_stages / placement->n_devices;
  if (placement->n_stages % placement->n_devices != 0)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE,
                   "schedule '%s': %u stages do not divide over %u devices, so they have no costs; a multiple of %u "
                   "would be right",
                   schedule->name, placement->n_stages, placement->n_devices, placement->n_devices);
      return FALSE;
    }
  return TRUE;
}

static PsCosts *
costs_for (const PsSetting *setting, const PsSchedule *schedule, GError **error)
{
  g_autoptr (PsCosts) costs = NULL;
  guint n_chunks;

  if (!ps_predict_chunks (schedule, &n_chunks, error))
    return NULL;
  costs = ps_setting_costs (setting, schedule->placement->n_devices, n_chunks, error);
  return costs ? ps_predict_costs (schedule, costs, error) : NULL;
}

static gboolean
fits (const gint64 *limit, const PsMetrics *metrics)
{
  for (guint d = 0; limit != NULL && d < metrics->n_devices; d++)
    if (metrics->device[d].peak_memory_bytes > limit[d])
      return FALSE;
  return TRUE;
}

/* Slices count like microbatches of their own; their chain alone is as short as that of a microbatch of that size. */
static gint64
lower_bound (const PsSetting *setting, const PsSchedule *schedule, const PsCosts *costs)
{
  guint n = schedule->copy ? schedule->n_microbatches : schedule->n_microbatches * schedule->n_slices;
  g_autoptr (PsCosts) fastest
      = setting->n_speeds ? ps_setting_fastest_costs (setting, schedule->placement, costs, NULL) : NULL;
  gboolean overlaps = schedule->asynchronous || setting->sync == PS_SYNC_BYPASS;

  return (overlaps ? ps_period_bound : ps_lower_bound) (schedule->placement, schedule->copy, n,
                                                        fastest ? fastest : costs);
}

gboolean
ps_predict_program (const PsSetting *setting, PsPrediction *prediction, GError **error)
{
  g_autofree gint64 *limit = NULL;
  const PsProgram *repeated;

  if (!ps_setting_memory_limit (setting, prediction->program->schedule->placement->n_devices, &limit, error)
      || !ps_comm_simulate (setting, limit, prediction, error))
    return FALSE;
  ps_metrics_from_simulation (prediction->program, prediction->simulation, &prediction->metrics);
  repeated = setting->sync == PS_SYNC_BYPASS ? ps_prediction_hint (prediction) : prediction->program;
  if (!ps_iteration_events (repeated, prediction->costs, prediction->simulation, ps_prediction_events (prediction),
                            setting->sync, setting->reduce, &prediction->iteration, error))
    return FALSE;
  ps_metrics_set_iteration (&prediction->metrics, prediction->iteration.period_ns);
  prediction->lower_bound_ns = lower_bound (setting, prediction->program->schedule, prediction->costs);
  prediction->feasible = fits (limit, &prediction->metrics);
  return TRUE;
}

/* where: what messages about the schedule begin with. given: NULL where the costs are not known yet. */
static PsPrediction *
predict (const PsSetting *setting, PsSchedule *owned, const PsCosts *given, const char *where, GError **error)
{
  g_autoptr (PsPrediction) prediction = g_new0 (PsPrediction, 1);
  g_autoptr (PsSchedule) schedule = owned;

  prediction->costs = given ? ps_predict_costs (schedule, given, error) : costs_for (setting, schedule, error);
  if (prediction->costs == NULL)
    return NULL;
  prediction->program = ps_program_lower (g_steal_pointer (&schedule), setting->comm_order, error);
  if (prediction->program == NULL)
    {
      g_prefix_error (error, "%s: ", where);
      return NULL;
    }
  return ps_predict_program (setting, prediction, error) ? g_steal_pointer (&prediction) : NULL;
}

PsPrediction *
ps_predict (const PsSetting *setting, const char *name_or_file, GError **error)
{
  PsSchedule *schedule = ps_setting_schedule (setting, name_or_file, error);

  return schedule ? predict (setting, schedule, NULL, name_or_file, error) : NULL;
}

PsPrediction *
ps_predict_schedule (const PsSetting *setting, PsSchedule *schedule, const PsCosts *given, GError **error)
{
  g_autofree char *where = g_strdup (schedule->name);

  return predict (setting, schedule, given, where, error);
}

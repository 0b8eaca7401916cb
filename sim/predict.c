/* predict.c - the chain from a setting to a prediction: schedule, costs, program, simulation, figures. */
#include <pipesim/bound.h>
#include <pipesim/setting.h>

void
ps_prediction_free (PsPrediction *prediction)
{
  if (prediction == NULL)
    return;
  g_clear_pointer (&prediction->costs, ps_costs_free);
  g_clear_pointer (&prediction->simulation, ps_simulation_free);
  g_clear_pointer (&prediction->program, ps_program_free);
  ps_metrics_clear (&prediction->metrics);
  g_free (prediction);
}

/* A schedule file may place its stages unevenly; costs describe p * v stages. */
static PsCosts *
costs_for (const PsSetting *setting, const PsSchedule *schedule, GError **error)
{
  const PsPlacement *placement = schedule->placement;
  g_autoptr (PsCosts) costs = NULL;

  if (placement->n_stages % placement->n_devices != 0)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE,
                   "schedule '%s': %u stages do not divide over %u devices, so they have no costs; a multiple of %u "
                   "would be right",
                   schedule->name, placement->n_stages, placement->n_devices, placement->n_devices);
      return NULL;
    }
  costs = ps_setting_costs (setting, placement->n_devices, placement->n_stages / placement->n_devices, error);
  if (costs == NULL || !ps_costs_check (costs, schedule->n_microbatches, error))
    return NULL;
  return schedule->n_slices > 1 ? ps_costs_slice (costs, schedule->n_slices) : g_steal_pointer (&costs);
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
lower_bound (const PsSchedule *schedule, const PsCosts *costs)
{
  guint n = schedule->copy ? schedule->n_microbatches : schedule->n_microbatches * schedule->n_slices;

  return ps_lower_bound (schedule->placement, schedule->copy, n, costs);
}

PsPrediction *
ps_predict (const PsSetting *setting, const char *name_or_file, GError **error)
{
  g_autoptr (PsPrediction) prediction = g_new0 (PsPrediction, 1);
  g_autoptr (PsSchedule) schedule = ps_setting_schedule (setting, name_or_file, error);
  g_autofree gint64 *limit = NULL;

  if (schedule == NULL || !ps_setting_memory_limit (setting, schedule->placement->n_devices, &limit, error))
    return NULL;
  prediction->costs = costs_for (setting, schedule, error);
  if (prediction->costs == NULL)
    return NULL;
  prediction->program = ps_program_lower (g_steal_pointer (&schedule), error);
  if (prediction->program == NULL)
    {
      g_prefix_error (error, "%s: ", name_or_file);
      return NULL;
    }
  prediction->simulation = ps_simulation_new (prediction->program);
  ps_simulate (prediction->program, prediction->costs, prediction->simulation);
  ps_metrics_from_simulation (prediction->program, prediction->simulation, &prediction->metrics);
  prediction->lower_bound_ns = lower_bound (prediction->program->schedule, prediction->costs);
  prediction->feasible = fits (limit, &prediction->metrics);
  return g_steal_pointer (&prediction);
}

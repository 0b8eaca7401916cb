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
  return g_steal_pointer (&costs);
}

static gboolean
check_memory_limits (const PsSetting *setting, const PsSchedule *schedule, GError **error)
{
  guint n_devices = schedule->placement->n_devices;

  if (setting->n_memory_limits <= 1 || setting->n_memory_limits == n_devices)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
               "--memory-limit: %u sizes for %u devices; one size, or %u, would be right", setting->n_memory_limits,
               n_devices, n_devices);
  return FALSE;
}

static gboolean
fits (const PsSetting *setting, const PsMetrics *metrics)
{
  for (guint d = 0; setting->n_memory_limits > 0 && d < metrics->n_devices; d++)
    if (metrics->device[d].peak_memory_bytes > setting->memory_limit[setting->n_memory_limits == 1 ? 0 : d])
      return FALSE;
  return TRUE;
}

PsPrediction *
ps_predict (const PsSetting *setting, const char *name_or_file, GError **error)
{
  g_autoptr (PsPrediction) prediction = g_new0 (PsPrediction, 1);
  g_autoptr (PsSchedule) schedule = ps_setting_schedule (setting, name_or_file, error);

  if (schedule == NULL || !check_memory_limits (setting, schedule, error))
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
  prediction->lower_bound_ns
      = ps_lower_bound (prediction->program->schedule->placement, prediction->program->schedule->copy,
                        prediction->program->schedule->n_microbatches, prediction->costs);
  prediction->feasible = fits (setting, &prediction->metrics);
  return g_steal_pointer (&prediction);
}

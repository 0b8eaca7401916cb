/* trial.c - runs, compares, replays and records. */
#include "trial.h"

#include "clock.h"

#include <pipesim/costdb.h>

void
ps_trial_clear (PsTrial *trial)
{
  g_clear_pointer (&trial->started, g_free);
  g_clear_pointer (&trial->result, ps_run_result_free);
  g_clear_pointer (&trial->comparison, ps_comparison_free);
}

PsTimeline *
ps_trial_prediction (const PsPrediction *prediction)
{
  const PsProgram *program = prediction->program;

  if (!program->schedule->asynchronous || ps_prediction_events (prediction) != NULL)
    return ps_prediction_timeline (prediction);
  g_autoptr (PsSimulation) steady = ps_simulation_new (program);
  ps_simulate (program, prediction->costs, steady);
  ps_iteration_times (program, prediction->costs, NULL, steady);
  PsTimeline *timeline = ps_timeline_from_simulation (program, prediction->costs, steady);
  timeline->iteration_ns = prediction->metrics.iteration_ns;
  timeline->interval = prediction->interval;
  return timeline;
}

static gboolean
hold_against (PsTrial *trial, const PsProgram *program, const PsPrediction *prediction, GError **error)
{
  g_autoptr (PsTimeline) predicted = ps_trial_prediction (prediction);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  trial->comparison = ps_compare (predicted, trial->result->timeline, error);
  if (trial->comparison == NULL
      || !ps_timeline_replay (program, prediction->costs, trial->result->timeline, simulation, error))
    return FALSE;
  trial->replayed_makespan_ns = simulation->makespan_ns;
  return TRUE;
}

gboolean
ps_trial_run (PsTrial *trial, const PsProgram *program, const PsPrediction *prediction, const PsRunSetting *setting,
              GError **error)
{
  trial->started = ps_moment_now ();
  trial->result = ps_run (program, setting, error);
  if (trial->result == NULL)
    return FALSE;
  return trial->result->timeline == NULL || prediction == NULL || hold_against (trial, program, prediction, error);
}

/* The profile's name with the number of its calibration, for a later calibration has the same name. */
static char *
numbered_name (const PsProfile *profile)
{
  g_autofree char *number = g_strdup_printf ("#%u", profile->number);

  return g_str_has_suffix (profile->name, number) ? g_strdup (profile->name)
                                                  : g_strconcat (profile->name, number, NULL);
}

gboolean
ps_trial_record (const PsTrial *trial, const PsProgram *program, const PsRunSetting *setting, PsCheck check,
                 const char *path, const char *profile, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_WRITE, error);
  const PsSchedule *schedule = program->schedule;
  const PsComparison *comparison = trial->comparison;
  g_autoptr (PsProfile) used = db != NULL ? ps_costdb_profile (db, profile, error) : NULL;
  g_autofree char *name = NULL, *device = NULL;

  if (used == NULL)
    return FALSE;
  name = numbered_name (used);
  device = setting->n_tensor > 1 ? g_strdup_printf ("%s --tensor %u", setting->device->name, setting->n_tensor)
                                 : g_strdup (setting->device->name);
  PsRunRecord record = { .profile = name,
                         .schedule = schedule->name,
                         .device = device,
                         .transport = (char *)setting->transport->name,
                         .n_devices = schedule->placement->n_devices,
                         .n_chunks = ps_placement_max_chunks (schedule->placement),
                         .n_microbatches = schedule->n_microbatches,
                         .n_steps = trial->result->n_steps,
                         .predicted_iteration_ns = comparison->predicted.iteration_ns,
                         .measured_iteration_ns = comparison->measured.iteration_ns,
                         .predicted_peak_bytes = comparison->predicted.peak_memory_bytes,
                         .measured_peak_bytes = comparison->measured.peak_memory_bytes,
                         .clock_mhz = trial->result->clock_mhz,
                         .check = (char *)ps_check_name (check),
                         .started = trial->started };
  return ps_costdb_store_run (db, &record, error);
}

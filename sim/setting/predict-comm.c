/* predict-comm.c - a prediction's times where transfers queue, share links, or hold up devices. */
#include "predict-comm.h"

/* The setting of an engine, and the memory that it points into. */
typedef struct PsEventsTask
{
  PsEventsSetting setting;
  PsCluster *cluster;
  double *speed;
  gint64 *memory_limit;
  PsProgram *hint; /* NULL: the order was kept */
} Task;

static void
task_clear (Task *task)
{
  ps_cluster_free (task->cluster);
  g_free (task->speed);
  g_free (task->memory_limit);
  ps_program_free (task->hint);
}

static gboolean
task_init (Task *task, const PsSetting *setting, const gint64 *memory_limit, guint n_devices, GError **error)
{
  if (setting->share_links)
    {
      task->cluster = ps_setting_cluster (setting, error);
      if (task->cluster == NULL)
        return FALSE;
    }
  if (!ps_setting_speeds (setting, n_devices, &task->speed, error))
    return FALSE;
  task->memory_limit = g_memdup2 (memory_limit, n_devices * sizeof *memory_limit);
  task->setting = ps_setting_events (setting);
  task->setting.speed = task->speed;
  task->setting.links = task->cluster;
  task->setting.memory_limit = task->memory_limit;
  return TRUE;
}

void
ps_events_task_free (struct PsEventsTask *task)
{
  if (task == NULL)
    return;
  task_clear (task);
  g_free (task);
}

const PsEventsSetting *
ps_prediction_events (const PsPrediction *prediction)
{
  return prediction->events != NULL ? &prediction->events->setting : NULL;
}

const PsProgram *
ps_prediction_hint (const PsPrediction *prediction)
{
  return prediction->events != NULL && prediction->events->hint != NULL ? prediction->events->hint
                                                                        : prediction->program;
}

static gboolean
run (Task *task, PsPrediction *prediction, GError **error)
{
  const PsEventsSetting *setting = &task->setting;
  g_autoptr (PsEvents) events = ps_events_new (prediction->program, prediction->costs, setting, error);

  if (events == NULL || !ps_events_run (events, prediction->costs, prediction->simulation, error))
    return FALSE;
  if (setting->ready_order == 0)
    return TRUE;
  task->hint = prediction->program;
  prediction->program = ps_events_realise (events, &prediction->simulation);
  return TRUE;
}

gboolean
ps_comm_simulate (const PsSetting *setting, const gint64 *memory_limit, PsPrediction *prediction, GError **error)
{
  const PsSchedule *schedule = prediction->program->schedule;

  if (!ps_setting_needs_events (setting))
    {
      ps_simulate (prediction->program, prediction->costs, prediction->simulation);
      return TRUE;
    }
  ps_program_add_streams (prediction->program);
  Task *task = prediction->events = g_new0 (Task, 1);
  return task_init (task, setting, memory_limit, schedule->placement->n_devices, error)
         && (setting->comm_order != PS_COMM_PLANNED || schedule->posts != NULL || !ps_setting_transfers_wait (setting)
             || ps_events_plan (prediction->program, prediction->costs, &task->setting, error))
         && run (task, prediction, error);
}

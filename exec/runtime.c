/* runtime.c - opens what a run needs, starts one thread per device and makes the result of what they recorded. */
#include "runtime.h"

#include "run-result.h"
#include "worker.h"

#include <hwloc.h>

/* Messages that a channel buffers before they refer to the sender's tensor. */
#define CHANNEL_CAPACITY 4

/* Cores that this process may use. */
static guint
count_cores (void)
{
  hwloc_topology_t topology;
  int n = 0;

  if (hwloc_topology_init (&topology) != 0)
    return 0;
  if (hwloc_topology_load (topology) == 0)
    n = hwloc_get_nbobjs_by_type (topology, HWLOC_OBJ_CORE);
  hwloc_topology_destroy (topology);
  return MAX (n, 0);
}

static gboolean
open_workers (PsWorker *workers, PsRun *run, GError **error)
{
  guint n = run->program->schedule->placement->n_devices;
  guint n_cores = count_cores ();

  for (guint i = 0; i < n; i++)
    if (!ps_worker_open (&workers[i], run, i, n_cores, error))
      {
        g_prefix_error (error, "device %u: ", i);
        return FALSE;
      }
  return TRUE;
}

/* Threads that could not be started are missed at the first barrier, so the failure is the run's. */
static void
run_threads (PsWorker *workers, PsRun *run)
{
  guint n = run->program->schedule->placement->n_devices;
  GError *error = NULL;

  for (guint i = 0; i < n && error == NULL; i++)
    workers[i].thread = g_thread_try_new ("device", ps_worker_main, &workers[i], &error);
  if (error != NULL)
    {
      g_prefix_error (&error, "%u devices: ", n);
      ps_run_fail (run, error);
    }
  for (guint i = 0; i < n; i++)
    if (workers[i].thread != NULL)
      g_thread_join (workers[i].thread);
}

static void
finish_result (PsRun *run)
{
  PsRunResult *result = run->result;

  for (guint i = 0; i < result->n_steps; i++)
    result->iteration_ns[i] = ps_recorder_iteration (run->recorder, i);
  result->timeline_step = ps_recorder_median_step (run->recorder);
  result->median_iteration_ns = result->iteration_ns[result->timeline_step];
  result->timeline = ps_recorder_timeline (run->recorder, run->program, run->plans, result->timeline_step);
  g_free (result->timeline->source);
  result->timeline->source
      = g_strdup_printf ("device %s, transport %s, step %u of %u", run->setting->device->name,
                         run->setting->transport->name, result->timeline_step + 1, result->n_steps);
}

/* Every step ends with a meeting of all devices, and a device that computes knows one set of weights per stage. */
static gboolean
check_schedule (const PsSchedule *schedule, const PsDeviceClass *device, GError **error)
{
  if (schedule->asynchronous)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE,
                   "schedule '%s': runs on without a flush between steps, this executor does not", schedule->name);
      return FALSE;
    }
  if (!device->computes
      || (schedule->placement->n_copies == 1 && schedule->n_slices == 1 && schedule->weight_versions == NULL))
    return TRUE;
  g_set_error (
      error, PS_ERROR, PS_ERROR_UNAVAILABLE,
      "schedule '%s': device %s runs schedules with one copy and one version of the weights and whole sequences only",
      schedule->name, device->name);
  return FALSE;
}

static gboolean
check_setting (const PsProgram *program, const PsRunSetting *setting, GError **error)
{
  g_return_val_if_fail (setting->model != NULL || !setting->device->computes, FALSE);

  if (setting->device->available != NULL && !setting->device->available (error))
    return FALSE;
  if (setting->transport->available != NULL && !setting->transport->available (error))
    return FALSE;
  return check_schedule (program->schedule, setting->device, error);
}

static void
run_clear (PsRun *run)
{
  guint n_devices = run->program->schedule->placement->n_devices;

  if (run->transport != NULL)
    run->transport->class->close (run->transport);
  ps_barrier_free (run->barrier);
  ps_plans_free (run->plans, n_devices);
  ps_recorder_free (run->recorder);
  ps_run_result_free (run->result);
  g_clear_error (&run->error);
  g_free (run->shapes);
  pthread_mutex_destroy (&run->lock);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsRun, run_clear)

static gboolean
run_open (PsRun *run, GError **error)
{
  const PsRunSetting *setting = run->setting;
  const PsPlacement *placement = run->program->schedule->placement;
  PsTransportSetting transport
      = { .n_devices = placement->n_devices,
          .message_bytes = setting->device->computes ? ps_model_boundary_bytes (setting->model) : 0,
          .capacity = CHANNEL_CAPACITY,
          .timeout_ns = setting->timeout_ns };

  run->shapes = g_new0 (PsStageShape, placement->n_stages);
  if (setting->device->computes && !ps_model_split (setting->model, placement->n_stages, run->shapes, error))
    return FALSE;
  run->plans = ps_plans_new (run->program, setting->costs);
  run->recorder = ps_recorder_new (run->plans, placement->n_devices, setting->n_steps);
  run->barrier = ps_barrier_new (placement->n_devices);
  run->result = ps_run_result_new (run->program, setting);
  run->transport = setting->transport->open (&transport, error);
  return run->transport != NULL;
}

PsRunResult *
ps_run (const PsProgram *program, const PsRunSetting *setting, GError **error)
{
  guint n_devices = program->schedule->placement->n_devices;
  g_autofree PsWorker *workers = g_new0 (PsWorker, n_devices);
  g_auto (PsRun) run = { .program = program, .setting = setting, .lock = PTHREAD_MUTEX_INITIALIZER };

  g_return_val_if_fail (setting->n_steps >= 1, NULL);

  if (!check_setting (program, setting, error) || !run_open (&run, error))
    return NULL;
  if (open_workers (workers, &run, &run.error))
    run_threads (workers, &run);
  setting->transport->close (g_steal_pointer (&run.transport));
  for (guint i = 0; i < n_devices; i++)
    ps_worker_close (&workers[i]);
  if (run.error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&run.error));
      return NULL;
    }
  finish_result (&run);
  return g_steal_pointer (&run.result);
}

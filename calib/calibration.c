/* calibration.c - tensors and devices of a calibration. */
#include "calibration.h"

#include "clock.h"

PsDeviceSetting ps_calib_device_setting (const PsCalibration *calibration, const PsModel *model, guint n_stages,
                                         guint n_microbatches, guint index)
{
  guint n_local = calibration->n_local * MAX (calibration->n_tensor, 1);
  gboolean own_core = n_local <= ps_count_cores ();

  return (PsDeviceSetting){ .model = model,
                            .n_stages = n_stages,
                            .n_microbatches = n_microbatches,
                            .core = own_core ? (int)(index % calibration->n_local) : -1,
                            .seed = calibration->seed,
                            .index = index % calibration->n_local,
                            .n_local = n_local,
                            .shares = calibration->shares };
}

void ps_calib_complete (PsMeasurement *measurement, gint64 *samples_ns, guint n)
{
  measurement->stop = g_strdup ("sample cap");
  measurement->taken = ps_moment_now ();
  measurement->n_samples = n;
  measurement->samples_ns = samples_ns;
  ps_statistics_compute (samples_ns, n, &measurement->time);
}

typedef struct {
  PsCalibBody body;
  gpointer data;
  gboolean ok;
  GError *error;
} Task;

static gpointer task_main (gpointer data)
{
  Task *task = data;

  task->ok = task->body (task->data, &task->error);
  return NULL;
}

gboolean ps_calib_in_thread (const char *name, PsCalibBody body, gpointer data, GError **error)
{
  Task task = { .body = body, .data = data };
  GThread *thread = g_thread_try_new (name, task_main, &task, error);

  if (thread == NULL)
    return FALSE;
  g_thread_join (thread);
  if (task.error != NULL)
    g_propagate_error (error, task.error);
  return task.ok;
}

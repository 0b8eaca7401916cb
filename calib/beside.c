/* beside.c - runs one layer on each of several devices, as a load. */
#include "beside.h"

#include "run/layer.h"

typedef struct {
  PsLoad *load;
  PsLoneLayer layer;
  GThread *thread;
} Worker;

struct _PsLoad {
  Worker *workers;
  guint n;
  gint end; /* atomic */
  GMutex mutex;
  GCond changed;
  guint n_computing; /* under mutex */
  GError *error;     /* under mutex: the first one */
};

/* Counts a worker that computes, or notes the error of one that failed (taken). */
static void tell (PsLoad *load, GError *error)
{
  g_mutex_lock (&load->mutex);
  load->n_computing++;
  if (error != NULL && load->error != NULL)
    g_error_free (error);
  else if (error != NULL)
    load->error = error;
  g_cond_broadcast (&load->changed);
  g_mutex_unlock (&load->mutex);
}

static gpointer compute (gpointer data)
{
  Worker *worker = data;
  GError *error = NULL;
  gint64 unused;
  gboolean ok = ps_lone_layer_attach (&worker->layer, &error) && ps_lone_layer_run (&worker->layer, &unused, &error);

  tell (worker->load, g_steal_pointer (&error));
  while (ok && !g_atomic_int_get (&worker->load->end))
    ok = ps_lone_layer_run (&worker->layer, &unused, &error);
  if (error != NULL)
    tell (worker->load, error);
  return NULL;
}

static void wait_until_all_compute (PsLoad *load)
{
  g_mutex_lock (&load->mutex);
  while (load->n_computing < load->n && load->error == NULL)
    g_cond_wait (&load->changed, &load->mutex);
  g_mutex_unlock (&load->mutex);
}

PsLoad *ps_load_new (const PsCalibration *calibration, guint first, guint n, GError **error)
{
  PsLoad *load = g_new0 (PsLoad, 1);
  GError *failure = NULL;

  load->workers = g_new0 (Worker, n);
  load->n = n;
  g_mutex_init (&load->mutex);
  g_cond_init (&load->changed);
  for (guint i = 0; i < n && failure == NULL; i++) {
    Worker *worker = &load->workers[i];
    PsDeviceSetting setting = ps_calib_device_setting (calibration, calibration->model, PS_LAYER_STAGES, 1, first + i);

    worker->load = load;
    setting.exclusive = calibration->transport->exclusive;
    if (ps_lone_layer_open (&worker->layer, calibration->device, &setting, &failure))
      worker->thread = g_thread_try_new ("load", compute, worker, &failure);
  }
  if (failure != NULL)
    tell (load, failure);
  wait_until_all_compute (load);
  if (failure == NULL)
    return load;
  ps_load_end (load, error);
  return NULL;
}

gboolean ps_load_end (PsLoad *load, GError **error)
{
  if (load == NULL)
    return TRUE;
  g_atomic_int_set (&load->end, 1);
  for (guint i = 0; i < load->n; i++) {
    if (load->workers[i].thread != NULL)
      g_thread_join (load->workers[i].thread);
    ps_lone_layer_close (&load->workers[i].layer);
  }
  gboolean ok = load->error == NULL;
  if (!ok)
    g_propagate_prefixed_error (error, load->error, "computing beside transfers: ");
  g_mutex_clear (&load->mutex);
  g_cond_clear (&load->changed);
  g_free (load->workers);
  g_free (load);
  return ok;
}

/* layer.c - runs one layer, alone or as a load. */
#include "layer.h"

#include "clock.h"

/* STAGE is in the middle, so that F and BW take an input from a neighbour. */
#define STAGE 1
#define N_STAGES 3

gboolean
ps_calib_layer_open (PsCalibLayer *layer, const PsCalibration *calibration, guint index, gboolean exclusive,
                     GError **error)
{
  *layer = (PsCalibLayer){ .calibration = calibration,
                           .setting = ps_calib_device_setting (calibration, calibration->model, N_STAGES, 1, index) };
  layer->setting.exclusive = exclusive;
  layer->device = calibration->device->open (&layer->setting, error);
  return layer->device != NULL;
}

gboolean
ps_calib_layer_attach (PsCalibLayer *layer, GError **error)
{
  static const PsStageShape shape = { .n_layers = 1 };

  return layer->device->class->attach (layer->device, error)
         && layer->device->class->add_stage (layer->device, STAGE, &shape, error);
}

static gboolean
run_op (PsCalibLayer *layer, PsOpKind kind, gint64 *ns, GError **error)
{
  PsDevice *device = layer->device;
  PsOp op = { .kind = (guint8)kind, .stage = STAGE };
  PsTensor *output = NULL;
  PsTensor *input = ps_calib_input (&layer->inputs, device, layer->calibration->model->precision, kind, error);

  if (input == NULL)
    return FALSE;
  gint64 start = ps_clock_now ();
  gboolean ok = device->class->run (device, op, input, &output, error);
  *ns = ps_clock_now () - start;
  if (output != NULL)
    device->class->tensor_free (output);
  return ok;
}

gboolean
ps_calib_layer_run (PsCalibLayer *layer, gint64 *f_ns, GError **error)
{
  gint64 unused;

  return run_op (layer, PS_OP_F, f_ns, error) && run_op (layer, PS_OP_BW, &unused, error);
}

void
ps_calib_layer_close (PsCalibLayer *layer)
{
  ps_calib_inputs_clear (&layer->inputs);
  if (layer->device != NULL)
    layer->device->class->close (layer->device);
}

typedef struct
{
  PsLoad *load;
  PsCalibLayer layer;
  GThread *thread;
} Worker;

struct _PsLoad
{
  Worker *workers;
  guint n;
  gint end; /* atomic */
  GMutex mutex;
  GCond changed;
  guint n_computing; /* under mutex */
  GError *error;     /* under mutex: the first one */
};

/* Counts a worker that computes, or notes the error of one that failed (taken). */
static void
tell (PsLoad *load, GError *error)
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

static gpointer
compute (gpointer data)
{
  Worker *worker = data;
  GError *error = NULL;
  gint64 unused;
  gboolean ok = ps_calib_layer_attach (&worker->layer, &error) && ps_calib_layer_run (&worker->layer, &unused, &error);

  tell (worker->load, g_steal_pointer (&error));
  while (ok && !g_atomic_int_get (&worker->load->end))
    ok = ps_calib_layer_run (&worker->layer, &unused, &error);
  if (error != NULL)
    tell (worker->load, error);
  return NULL;
}

static void
wait_until_all_compute (PsLoad *load)
{
  g_mutex_lock (&load->mutex);
  while (load->n_computing < load->n && load->error == NULL)
    g_cond_wait (&load->changed, &load->mutex);
  g_mutex_unlock (&load->mutex);
}

PsLoad *
ps_load_new (const PsCalibration *calibration, guint first, guint n, GError **error)
{
  PsLoad *load = g_new0 (PsLoad, 1);
  GError *failure = NULL;

  load->workers = g_new0 (Worker, n);
  load->n = n;
  g_mutex_init (&load->mutex);
  g_cond_init (&load->changed);
  for (guint i = 0; i < n && failure == NULL; i++)
    {
      Worker *worker = &load->workers[i];

      worker->load = load;
      if (ps_calib_layer_open (&worker->layer, calibration, first + i, calibration->transport->exclusive, &failure))
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

gboolean
ps_load_end (PsLoad *load, GError **error)
{
  if (load == NULL)
    return TRUE;
  g_atomic_int_set (&load->end, 1);
  for (guint i = 0; i < load->n; i++)
    {
      if (load->workers[i].thread != NULL)
        g_thread_join (load->workers[i].thread);
      ps_calib_layer_close (&load->workers[i].layer);
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

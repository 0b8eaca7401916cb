/* calibration.c - tensors and devices of a calibration. */
#include "calibration.h"

#include "provenance.h"

#include <string.h>

static float
ordinary_number (gsize i, float scale)
{
  return scale * ((float)((guint32)i * 2654435761U >> 22) / 512.0F - 1.0F);
}

/* bf16 is the upper half of a float. */
static void
fill (void *values, gsize bytes, PsPrecision precision, float scale)
{
  gsize n = bytes / ps_precision_bytes (precision);

  for (gsize i = 0; i < n; i++)
    {
      float number = ordinary_number (i, scale);
      guint32 bits;

      memcpy (&bits, &number, sizeof bits);
      if (precision == PS_PRECISION_FP32)
        ((float *)values)[i] = number;
      else
        ((guint16 *)values)[i] = (guint16)(bits >> 16);
    }
}

gboolean
ps_tensor_fill (PsTensor *tensor, PsPrecision precision, float scale, GError **error)
{
  g_autofree void *values = NULL;

  if (tensor->data == NULL || !tensor->device->class->computes)
    return TRUE;
  if (tensor->device->class->write == NULL)
    {
      fill (tensor->data, tensor->bytes, precision, scale);
      return TRUE;
    }
  values = g_malloc (tensor->bytes);
  fill (values, tensor->bytes, precision, scale);
  return tensor->device->class->write (tensor, values, error);
}

PsDeviceSetting
ps_calib_device_setting (const PsCalibration *calibration, const PsModel *model, guint n_stages, guint n_microbatches,
                         guint index)
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

typedef struct
{
  PsCalibBody body;
  gpointer data;
  gboolean ok;
  GError *error;
} Task;

static gpointer
task_main (gpointer data)
{
  Task *task = data;

  task->ok = task->body (task->data, &task->error);
  return NULL;
}

gboolean
ps_calib_in_thread (const char *name, PsCalibBody body, gpointer data, GError **error)
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

static PsTensor *
new_input (PsDevice *device, PsOpKind kind, GError **error)
{
  PsTensor *input = device->class->tensor_new (device);

  if (input == NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "no memory for the input of %s", ps_op_kind_name (kind));
  return input;
}

/* Takes the tensor and returns it; not ok: frees it and returns NULL. */
static PsTensor *
keep_if (PsTensor *tensor, gboolean ok)
{
  if (!ok)
    tensor->device->class->tensor_free (tensor);
  return ok ? tensor : NULL;
}

static PsTensor *
filled_input (PsDevice *device, PsPrecision precision, PsOpKind kind, GError **error)
{
  PsTensor *input = new_input (device, kind, error);

  return input != NULL ? keep_if (input, ps_tensor_fill (input, precision, kind == PS_OP_F ? 1.0F : 1e-3F, error))
                       : NULL;
}

PsTensor *
ps_calib_input (PsCalibInputs *inputs, PsDevice *device, PsPrecision precision, PsOpKind kind, GError **error)
{
  PsTensor **pattern = kind == PS_OP_F ? &inputs->activation : &inputs->gradient;
  PsTensor *input;

  if (device->class->copy == NULL)
    return filled_input (device, precision, kind, error);
  if (*pattern == NULL)
    *pattern = filled_input (device, precision, kind, error);
  input = *pattern != NULL ? new_input (device, kind, error) : NULL;
  return input != NULL ? keep_if (input, device->class->copy (input, *pattern, error)) : NULL;
}

void
ps_calib_inputs_clear (PsCalibInputs *inputs)
{
  PsTensor *const patterns[] = { inputs->activation, inputs->gradient };

  for (guint i = 0; i < G_N_ELEMENTS (patterns); i++)
    if (patterns[i] != NULL)
      patterns[i]->device->class->tensor_free (patterns[i]);
  *inputs = (PsCalibInputs){ 0 };
}

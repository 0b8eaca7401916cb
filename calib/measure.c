/* measure.c - what is measured in which order. */
#include "measure.h"

#include "provenance.h"

#include <time.h>

gint64
ps_calib_now (void)
{
  struct timespec now;
  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64)now.tv_sec * 1000000000 + now.tv_nsec;
}

void
ps_tensor_fill (PsTensor *tensor, float scale)
{
  if (!tensor->data || !tensor->device->class->computes)
    return;
  float *values = tensor->data;
  for (gsize i = 0; i < tensor->bytes / sizeof (float); i++)
    values[i] = scale * ((float)((guint32)i * 2654435761U >> 22) / 512.0F - 1.0F);
}

PsDeviceSetting
ps_calib_device_setting (const PsCalibration *calibration, const PsModel *model, guint n_stages, guint n_microbatches,
                         guint index)
{
  gboolean own_core = calibration->n_devices <= ps_count_cores ();
  return (PsDeviceSetting){ .model = model,
                            .n_stages = n_stages,
                            .n_microbatches = n_microbatches,
                            .core = own_core ? (int)index : -1,
                            .seed = calibration->seed };
}

/* One device after the other by itself; only those that answer for a shape have anything to do. */
static gboolean
calibrate_alone (const PsCalibration *calibration, const PsCut *cut, GError **error)
{
  for (guint device = 0; device < cut->n_devices; device++)
    if (!ps_calibrate_ops (calibration, cut, device, 1, error))
      return FALSE;
  return TRUE;
}

gboolean
ps_calibrate (const PsCalibration *calibration, GError **error)
{
  g_autoptr (GPtrArray) cuts = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_cut_free);
  for (guint i = 0; i < calibration->n_chunks; i++)
    {
      PsCut *cut = ps_cut_new (calibration->model, calibration->n_devices, calibration->chunks[i], error);
      if (!cut)
        return FALSE;
      g_ptr_array_add (cuts, cut);
    }
  for (guint i = 0; i < cuts->len; i++)
    if (!ps_calibrate_ops (calibration, cuts->pdata[i], 0, calibration->n_devices, error))
      return FALSE;
  if (calibration->n_devices == 1)
    return TRUE;
  if (!ps_calibrate_transfers (calibration, error))
    return FALSE;
  for (guint i = 0; i < cuts->len; i++)
    if (!calibrate_alone (calibration, cuts->pdata[i], error))
      return FALSE;
  return TRUE;
}

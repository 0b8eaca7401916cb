/* measure.c - what is measured in which order. */
#include "measure.h"

#include "rotation.h"
#include "transfers.h"

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

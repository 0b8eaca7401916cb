/* measure.c - the order of all measurements. */
#include "measure.h"

#include "host.h"
#include "rotation.h"
#include "self-sends.h"
#include "transfers.h"
#include "watch.h"

/* Measures n_local devices at a time, until every device has had its turn. */
static gboolean calibrate_busy (const PsCalibration *calibration, const PsCut *cut, GError **error)
{
  guint n = calibration->n_local;

  for (guint first = 0; first < cut->n_devices; first += n)
    if (!ps_calibrate_ops (calibration, cut, MIN (first, cut->n_devices - n), n, PS_CACHE_RUN, error))
      return FALSE;
  return TRUE;
}

/* Measures one device after the other, alone. A device that answers for no shape has nothing to do. */
static gboolean calibrate_alone (const PsCalibration *calibration, const PsCut *cut, PsCacheState cache, GError **error)
{
  for (guint device = 0; device < cut->n_devices; device++)
    if (!ps_calibrate_ops (calibration, cut, device, 1, cache, error))
      return FALSE;
  return TRUE;
}

/* Measures each shape on a whole accelerator, while other blocks hold a part of it. */
static gboolean calibrate_beside_blocks (const PsCalibration *calibration, GPtrArray *cuts, GError **error)
{
  PsCalibration beside = *calibration;

  for (guint i = 0; i < calibration->n_blocks; i++) {
    beside.kept = &calibration->blocks[i];
    for (guint n = 0; n < calibration->n_chunks; n++)
      if (!calibrate_alone (&beside, cuts->pdata[n], PS_CACHE_RUN, error))
        return FALSE;
  }
  return TRUE;
}

static gboolean calibrate_cuts (const PsCalibration *calibration, GPtrArray *cuts, GError **error)
{
  gboolean run = (calibration->caches & 1U << PS_CACHE_RUN) != 0;

  for (guint i = 0; i < cuts->len && run; i++)
    if (!calibrate_busy (calibration, cuts->pdata[i], error))
      return FALSE;
  if ((calibration->n_devices > 1 && !ps_calibrate_transfers (calibration, error))
      || !ps_calibrate_host (calibration, error))
    return FALSE;
  /* With one device at a time, the first pass measured all shapes alone. */
  guint first = calibration->n_local > 1 ? PS_CACHE_RUN : PS_CACHE_RUN + 1;
  for (guint cache = first; cache < PS_N_CACHE_STATES; cache++)
    for (guint i = 0; i < calibration->n_chunks && calibration->caches & 1U << cache; i++)
      if (!calibrate_alone (calibration, cuts->pdata[i], (PsCacheState)cache, error))
        return FALSE;
  return calibrate_beside_blocks (calibration, cuts, error) && ps_calibrate_self_sends (calibration, error);
}

static gboolean add_cut (const PsCalibration *calibration, guint n_chunks, guint n_slices, GPtrArray *cuts,
                         GError **error)
{
  PsCut *cut = ps_cut_new (calibration, n_chunks, error);

  if (cut == NULL)
    return FALSE;
  cut->n_slices = n_slices;
  g_ptr_array_add (cuts, cut);
  return TRUE;
}

/* Asks an open device for facts that the class does not tell. */
static gboolean ask_device (PsCalibration *calibration, GError **error)
{
  PsDeviceSetting setting = ps_calib_device_setting (calibration, calibration->model, calibration->n_devices, 1, 0);
  PsDevice *device = calibration->device->open (&setting, error);

  if (device == NULL)
    return FALSE;
  const PsDeviceClass *class = device->class;
  gboolean ok = class->flush_cache != NULL || !(calibration->caches & 1U << PS_CACHE_COLD);
  calibration->sharing = class->sharing != NULL ? class->sharing (device) : 1;
  if (!ok)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "--caches: device %s can't empty its caches", class->name);
  else if (calibration->choices != NULL && class->adopt_choices != NULL)
    ok = class->adopt_choices (device, calibration->choices, error);
  class->close (device);
  return ok;
}

gboolean ps_calibrate (const PsCalibration *wanted, GError **error)
{
  g_autoptr (GPtrArray) cuts = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_cut_free);
  PsCalibration calibration = *wanted;
  PsPulse pulse = { 0 };

  calibration.pulse = &pulse;
  for (guint i = 0; i < calibration.n_chunks; i++)
    if (!add_cut (&calibration, calibration.chunks[i], 1, cuts, error))
      return FALSE;
  for (guint i = 0; i < calibration.n_slices; i++)
    if (!add_cut (&calibration, 1, calibration.slices[i], cuts, error))
      return FALSE;
  return ask_device (&calibration, error) && calibrate_cuts (&calibration, cuts, error)
         && (pulse.n_readings == 0 || ps_watch (&calibration, error));
}

/* measure.c - the order of all measurements, and the time that the host takes. */
#include "measure.h"

#include "train/devices.h"

#include <pipesim/observe.h>
#include <pipesim/setting.h>

#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

/* Of a run of null ops */
#define N_NULL_MICROBATCHES 200
#define N_NULL_STEPS 9

/* The time that the host takes: gaps and posts of ops that take no time */

/* The gaps and posts of a median step. NULL: it could not run. */
static PsObserved *observe_host (const PsCalibration *calibration, GError **error)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
  g_autoptr (PsObserved) observed = ps_observed_new ();
  g_autoptr (GPtrArray) timelines = g_ptr_array_new ();
  const PsRunSetting run = {
    .device = &ps_null_device, .transport = calibration->transport, .n_steps = N_NULL_STEPS, .timeout_ns = TIMEOUT_NS
  };

  setting->n_devices = calibration->n_local;
  setting->n_microbatches = N_NULL_MICROBATCHES;
  g_autoptr (PsProgram) program = ps_predictor_program (predictor, "1f1b", error);
  g_autoptr (PsRunResult) result = program != NULL ? ps_run (program, &run, error) : NULL;
  if (result == NULL)
    return NULL;
  g_ptr_array_add (timelines, result->timeline);
  return ps_observed_add (observed, "null ops", timelines, error) ? g_steal_pointer (&observed) : NULL;
}

/* Between processes, or over a transport that needs accelerators, nothing is measured. One device sends nothing. */
static gboolean calibrate_host (const PsCalibration *calibration, GError **error)
{
  static const char *const parts[] = { "op", "send", "receive" };
  const gboolean possible = calibration->processes == NULL && !calibration->transport->exclusive;
  g_autoptr (PsObserved) observed = NULL;

  for (guint i = 0; possible && i < (calibration->n_local > 1 ? G_N_ELEMENTS (parts) : 1); i++) {
    g_autoptr (PsMeasurement) m = g_new0 (PsMeasurement, 1);

    m->subject = PS_SUBJECT_HOST;
    m->shape = g_strdup (parts[i]);
    m->devices = calibration->n_local;
    m->sharing = 1;
    if (!calibration->wanted (m, calibration->data))
      continue;
    if (observed == NULL && ps_calib_read_sentinel (calibration, error))
      observed = observe_host (calibration, error);
    if (observed == NULL)
      return FALSE;
    g_autoptr (GArray) samples
        = i == 0 ? g_array_ref (observed->host)
                 : ps_observed_posts (observed, i == 1 ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE);
    ps_measurement_complete (m, "sample cap", (const gint64 *)(gpointer)samples->data, samples->len);
    if (!calibration->sink (m, calibration->data, error))
      return FALSE;
  }
  return TRUE;
}

/* The whole */

/* Measures the shapes of the first n cuts with n_busy devices at a time, until every device has been measured. One that
 * answers for no shape has nothing to do. */
static gboolean calibrate_ops (const PsCalibration *calibration, GPtrArray *cuts, guint n, guint n_busy,
                               PsCacheState cache, GError **error)
{
  const guint n_devices = calibration->n_devices;

  for (guint i = 0; i < n; i++)
    for (guint first = 0; first < n_devices; first += n_busy)
      if (!ps_calibrate_ops (calibration, cuts->pdata[i], MIN (first, n_devices - n_busy), n_busy, cache, error))
        return FALSE;
  return TRUE;
}

static gboolean calibrate_all (const PsCalibration *calibration, GPtrArray *cuts, GError **error)
{
  const guint n = calibration->n_chunks, caches = calibration->caches;
  PsCalibration held = *calibration;

  if ((caches & 1U << PS_CACHE_RUN
       && !calibrate_ops (calibration, cuts, cuts->len, calibration->n_local, PS_CACHE_RUN, error))
      || (calibration->n_devices > 1 && !ps_calibrate_transfers (calibration, error))
      || !calibrate_host (calibration, error))
    return FALSE;
  /* With one device at a time, the first pass measured all shapes alone. */
  for (guint cache = calibration->n_local > 1 ? 0 : PS_CACHE_RUN + 1; cache < PS_N_CACHE_STATES; cache++)
    if (caches & 1U << cache && !calibrate_ops (calibration, cuts, n, 1, (PsCacheState)cache, error))
      return FALSE;
  for (guint i = 0; i < calibration->n_blocks; i++) {
    held.kept = &calibration->blocks[i];
    if (!calibrate_ops (&held, cuts, n, 1, PS_CACHE_RUN, error))
      return FALSE;
  }
  return ps_calibrate_self_sends (calibration, error);
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
  PsSentinelReadings readings = { 0 };

  calibration.readings = &readings;
  for (guint i = 0; i < calibration.n_chunks + calibration.n_slices; i++) {
    gboolean sliced = i >= calibration.n_chunks;
    PsCut *cut = ps_cut_new (&calibration, sliced ? 1 : calibration.chunks[i], error);

    if (cut == NULL)
      return FALSE;
    if (sliced)
      cut->n_slices = calibration.slices[i - calibration.n_chunks];
    g_ptr_array_add (cuts, cut);
  }
  return ask_device (&calibration, error) && calibrate_all (&calibration, cuts, error)
         && (readings.n_readings == 0 || ps_calib_read_sentinel (&calibration, error));
}

/* Several processes */

void ps_calibrate_end (const PsCalibration *calibration)
{
  const PsCalibOrder end = { 0 };

  ps_calib_tell (calibration, &end);
}

static gboolean run_others_ops (const PsCalibration *calibration, const PsCalibOrder *order, GError **error)
{
  g_autoptr (PsCut) cut = ps_cut_new (calibration, (guint)order->n_chunks, error);

  if (cut == NULL)
    return FALSE;
  cut->n_slices = (guint)order->n_slices;
  return ps_calibrate_ops (calibration, cut, (guint)order->first, (guint)order->n_busy, (PsCacheState)order->cache,
                           error);
}

gboolean ps_calibrate_others (const PsCalibration *calibration, GError **error)
{
  for (;;) {
    PsCalibOrder order;

    calibration->processes->receive (calibration->processes, 0, &order, sizeof order, 0);
    if (order.bytes == 0 && order.n_busy == 0)
      return TRUE;
    if (!(order.bytes > 0 ? ps_calibrate_others_transfer (calibration, &order, error)
                          : run_others_ops (calibration, &order, error)))
      return FALSE;
  }
}

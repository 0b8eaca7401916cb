/* measure.c - the order of all measurements, and those that are neither ops nor messages: the sentinel, and the time
 * that the host takes. */
#include "measure.h"

#include "train/devices.h"

#include <pipesim/observe.h>
#include <pipesim/setting.h>

#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

/* The sentinel gets a tenth of the time limit of ops, because it is read often. */
#define SENTINEL_TIME_SHARE 10

/* Of a run of null ops */
#define N_NULL_MICROBATCHES 200
#define N_NULL_STEPS 9

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

/* Cuts */

PsCut *ps_cut_new (const PsCalibration *calibration, guint n_chunks, GError **error)
{
  const PsSetting setting = { .layout = (char *)calibration->layout,
                              .recompute = calibration->recompute,
                              .offload = calibration->offload,
                              .n_tensor = calibration->n_tensor };
  const guint n_devices = calibration->n_devices;
  g_autoptr (PsCut) cut = g_new0 (PsCut, 1);

  cut->n_devices = n_devices;
  cut->n_chunks = n_chunks;
  cut->n_stages = n_devices * n_chunks;
  cut->n_slices = 1;
  cut->shapes = ps_setting_shapes (&setting, calibration->model, n_devices, n_chunks, error);
  if (cut->shapes == NULL)
    return NULL;
  cut->keys = g_new0 (char *, cut->n_stages + 1);
  for (guint s = 0; s < cut->n_stages; s++)
    cut->keys[s] = ps_stage_shape_key (&cut->shapes[s]);
  return g_steal_pointer (&cut);
}

void ps_cut_free (PsCut *cut)
{
  if (cut == NULL)
    return;
  g_free (cut->shapes);
  g_strfreev (cut->keys);
  g_free (cut);
}

guint ps_cut_owner (const PsCut *cut, const char *key, const guint *shares, guint share)
{
  guint owner = cut->n_devices;

  for (guint s = 0; s < cut->n_stages; s++) {
    guint device = s % cut->n_devices;

    if (g_str_equal (cut->keys[s], key) && (shares == NULL || shares[device] == share))
      owner = MIN (owner, device);
  }
  return owner;
}

/* The sentinel */

#define FIRST_PAUSE 16 /* of all the patience */

gint64 ps_sentinel_pause (PsSentinelReadings *readings, gint64 median_ns, gint64 patience_ns)
{
  gboolean slow
      = readings->usual_ns > 0 && (double)median_ns > (1 + PS_SENTINEL_TOLERANCE) * (double)readings->usual_ns;

  if (slow && readings->waited_ns < patience_ns) {
    readings->pause_ns = MAX (2 * readings->pause_ns, patience_ns / FIRST_PAUSE);
    readings->pause_ns = MIN (readings->pause_ns, patience_ns - readings->waited_ns);
    readings->waited_ns += readings->pause_ns;
    return readings->pause_ns;
  }
  readings->usual_ns = slow || readings->usual_ns == 0 ? median_ns : MIN (readings->usual_ns, median_ns);
  readings->pause_ns = 0;
  return 0;
}

/* PsSentinelSample */
static gboolean add_sample (gpointer sampler, gint64 ns, gint64 elapsed_ns)
{
  return !ps_sampler_add (sampler, ns, elapsed_ns);
}

static gboolean read_once (const PsCalibration *calibration, gint64 *median_ns, GError **error)
{
  g_autoptr (PsMeasurement) m = g_new0 (PsMeasurement, 1);
  PsSamplingRule rule = calibration->rule;
  g_auto (PsSampler) sampler;

  rule.time_limit_ns /= SENTINEL_TIME_SHARE;
  rule.sound_samples = PS_MEDIAN_MIN_SAMPLES; /* fewer say nothing */
  ps_sampler_init (&sampler, &rule);
  if (!ps_sentinel_run (calibration->device, calibration->model, calibration->seed, NULL, add_sample, &sampler, error))
    return FALSE;
  ps_sampler_finish (&sampler, m);
  const PsSentinel reading
      = { .what = (char *)PS_SENTINEL_OP, .median_ns = m->time.median_ns, .n = m->time.n, .taken = m->taken };
  calibration->readings->n_readings++;
  *median_ns = m->time.median_ns;
  return calibration->sentinel (&reading, calibration->data, error);
}

gboolean ps_calib_read_sentinel (const PsCalibration *calibration, GError **error)
{
  gint64 median_ns, pause_ns;

  if (calibration->sentinel == NULL)
    return TRUE;
  do {
    if (!read_once (calibration, &median_ns, error))
      return FALSE;
    pause_ns = ps_sentinel_pause (calibration->readings, median_ns, calibration->patience_ns);
    g_usleep ((gulong)(pause_ns / 1000));
  } while (pause_ns > 0);
  return TRUE;
}

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

/* Between processes, or over a transport that needs accelerators, nothing is measured. */
static gboolean calibrate_host (const PsCalibration *calibration, GError **error)
{
  static const char *const parts[] = { "op", "send", "receive" };
  g_autoptr (PsObserved) observed = NULL;
  guint n = calibration->n_local > 1 ? G_N_ELEMENTS (parts) : 1; /* one device sends nothing */

  if (calibration->processes != NULL || calibration->transport->exclusive)
    return TRUE;
  for (guint i = 0; i < n; i++) {
    g_autoptr (PsMeasurement) m = g_new0 (PsMeasurement, 1);
    g_autoptr (GArray) samples = NULL;
    gboolean wanted;

    *m = (PsMeasurement){
      .subject = PS_SUBJECT_HOST, .shape = g_strdup (parts[i]), .devices = calibration->n_local, .sharing = 1
    };
    if (!calibration->wanted (m, calibration->data, &wanted, error))
      return FALSE;
    if (!wanted)
      continue;
    if (observed == NULL && !ps_calib_read_sentinel (calibration, error))
      return FALSE;
    if (observed == NULL)
      observed = observe_host (calibration, error);
    if (observed == NULL)
      return FALSE;
    samples = i == 0 ? g_array_ref (observed->host)
                     : ps_observed_posts (observed, i == 1 ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE);
    ps_measurement_complete (m, "sample cap", (const gint64 *)(gpointer)samples->data, samples->len);
    if (!calibration->sink (m, calibration->data, error))
      return FALSE;
  }
  return TRUE;
}

/* The whole */

/* Measures n_local devices at a time, until every device has been measured. */
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

/* Measures each shape on a whole accelerator, while blocks hold a part of it. */
static gboolean calibrate_with_blocks (const PsCalibration *calibration, GPtrArray *cuts, GError **error)
{
  PsCalibration held = *calibration;

  for (guint i = 0; i < calibration->n_blocks; i++) {
    held.kept = &calibration->blocks[i];
    for (guint n = 0; n < calibration->n_chunks; n++)
      if (!calibrate_alone (&held, cuts->pdata[n], PS_CACHE_RUN, error))
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
      || !calibrate_host (calibration, error))
    return FALSE;
  /* With one device at a time, the first pass measured all shapes alone. */
  guint first = calibration->n_local > 1 ? PS_CACHE_RUN : PS_CACHE_RUN + 1;
  for (guint cache = first; cache < PS_N_CACHE_STATES; cache++)
    for (guint i = 0; i < calibration->n_chunks && calibration->caches & 1U << cache; i++)
      if (!calibrate_alone (calibration, cuts->pdata[i], (PsCacheState)cache, error))
        return FALSE;
  return calibrate_with_blocks (calibration, cuts, error) && ps_calibrate_self_sends (calibration, error);
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
  return ask_device (&calibration, error) && calibrate_cuts (&calibration, cuts, error)
         && (readings.n_readings == 0 || ps_calib_read_sentinel (&calibration, error));
}

/* Several processes */

void ps_calib_tell (const PsCalibration *calibration, const PsCalibOrder *order)
{
  PsProcesses *processes = calibration->processes;

  for (guint rank = 1; rank < ps_processes_n_ranks (processes); rank++)
    processes->send (processes, rank, order, sizeof *order);
}

void ps_calibrate_end (const PsCalibration *calibration)
{
  const PsCalibOrder end = { 0 };

  ps_calib_tell (calibration, &end);
}

gboolean ps_calib_agree (const PsCalibration *calibration, gboolean more)
{
  g_autofree gboolean *all = g_new (gboolean, ps_processes_n_ranks (calibration->processes));

  if (calibration->processes == NULL)
    return more;
  ps_processes_exchange (calibration->processes, &more, sizeof more, all, TIMEOUT_NS);
  return all[0];
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

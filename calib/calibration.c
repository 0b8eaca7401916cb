/* calibration.c - what the parts of a calibration share: devices, cuts, the sentinel, and other processes. */
#include "measure.h"

#include <pipesim/setting.h>

#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

/* The sentinel gets a tenth of the time limit of ops, because it is read often. */
#define SENTINEL_TIME_SHARE 10

gboolean ps_calib_find_classes (PsCalibration *calibration, const char *device, const char *transport, GError **error)
{
  const PsDeviceClass *devices = calibration->device = ps_device_find (device, error);
  const PsTransportClass *transports = calibration->transport
      = devices != NULL ? ps_transport_find (transport, error) : NULL;

  return transports != NULL && (devices->available == NULL || devices->available (error))
         && (transports->available == NULL || transports->available (error));
}

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

static gboolean read_once (const PsCalibration *calibration, gint64 *median_ns, GError **error)
{
  g_autoptr (PsSentinel) reading = ps_sentinel_read (calibration->device, calibration->model, calibration->seed, NULL,
                                                     calibration->rule.time_limit_ns / SENTINEL_TIME_SHARE, error);

  if (reading == NULL)
    return FALSE;
  calibration->readings->n_readings++;
  *median_ns = reading->median_ns;
  return calibration->sentinel (reading, calibration->data, error);
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

/* Other processes */

void ps_calib_tell (const PsCalibration *calibration, const PsCalibOrder *order)
{
  PsProcesses *processes = calibration->processes;

  for (guint rank = 1; rank < ps_processes_n_ranks (processes); rank++)
    processes->send (processes, rank, order, sizeof *order);
}

gboolean ps_calib_agree (const PsCalibration *calibration, gboolean more)
{
  g_autofree gboolean *all = g_new (gboolean, ps_processes_n_ranks (calibration->processes));

  if (calibration->processes == NULL)
    return more;
  ps_processes_exchange (calibration->processes, &more, sizeof more, all, TIMEOUT_NS);
  return all[0];
}

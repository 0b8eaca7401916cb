/* self-sends.c - times messages of a device to itself. */
#include "self-sends.h"

#include "train/conditions.h"

/* N_SAMPLES is small: a launch is short, and each size sets up a new communicator. */
#define N_SAMPLES 200
#define SMALLEST_BYTES 8
#define STEP 64

typedef struct {
  const PsCalibration *calibration;
  const PsTransportClass *transport;
  PsMeasurement *measurement;
  PsDevice *device;
} Job;

static gboolean measure (gpointer data, GError **error)
{
  const Job *job = data;
  PsMeasurement *m = job->measurement;
  const guint n = MIN (N_SAMPLES, job->calibration->rule.max_samples);
  g_autofree gint64 *samples_ns = g_new0 (gint64, n);

  if (!job->device->class->attach (job->device, error)
      || !job->transport->self_send (job->device, (gsize)m->bytes, n, samples_ns, error))
    return FALSE;
  ps_calib_complete (m, g_steal_pointer (&samples_ns), n);
  ps_condition_read (job->device, &m->after);
  return TRUE;
}

static gboolean calibrate_size (const PsCalibration *calibration, const PsTransportClass *transport, PsDevice *device,
                                gint64 bytes, GError **error)
{
  g_autoptr (PsMeasurement) measurement = g_new0 (PsMeasurement, 1);
  Job job = { calibration, transport, measurement, device };
  gboolean wanted;

  measurement->subject = PS_SUBJECT_SELF_SEND;
  measurement->shape = g_strconcat (transport->name, "-self", NULL);
  measurement->bytes = bytes;
  measurement->devices = 1;
  measurement->sharing = 1;
  if (!calibration->wanted (measurement, calibration->data, &wanted, error))
    return FALSE;
  return !wanted
         || (ps_calib_in_thread ("self-send", measure, &job, error)
             && calibration->sink (measurement, calibration->data, error));
}

static gboolean calibrate_transport (const PsCalibration *calibration, const char *name, PsDevice *device,
                                     GError **error)
{
  gint64 boundary = ps_model_boundary_bytes (calibration->model);
  const PsTransportClass *transport = ps_transport_find (name, NULL);

  if (transport == NULL || transport->self_send == NULL
      || (transport->available != NULL && !transport->available (NULL)))
    return TRUE;
  for (gint64 bytes = SMALLEST_BYTES; bytes < boundary; bytes *= STEP)
    if (!calibrate_size (calibration, transport, device, bytes, error))
      return FALSE;
  return calibrate_size (calibration, transport, device, boundary, error);
}

gboolean ps_calibrate_self_sends (const PsCalibration *calibration, GError **error)
{
  guint n;
  const PsTransportClass *const *transports = ps_transport_table (&n);
  PsDeviceSetting setting = ps_calib_device_setting (calibration, calibration->model, 1, 1, 0);

  /* By a whole accelerator: libraries of messages know no parts. */
  setting.n_local = 1;
  setting.shares = NULL;
  PsDevice *device = calibration->device->open (&setting, error);
  if (device == NULL)
    return FALSE;
  gboolean ok = TRUE;
  for (guint i = 0; i < n && ok && device->class->write != NULL; i++)
    ok = calibrate_transport (calibration, transports[i]->name, device, error);
  device->class->close (device);
  return ok;
}

/* watch.c - measures the sentinel. */
#include "watch.h"

#include "clock.h"
#include "provenance.h"

/* Against a rotation: it comes often. */
#define TIME_SHARE 10

/* A layer in the middle of a model, so that both its ops take something from a neighbour. */
#define STAGE 1
#define N_STAGES 3

typedef struct
{
  const PsCalibration *calibration;
  PsDevice *device;
  PsCalibInputs inputs;
  PsSampler sampler;
} Watch;

static gboolean
run_op (Watch *watch, PsOpKind kind, gint64 *ns, GError **error)
{
  PsDevice *device = watch->device;
  PsOp op = { .kind = (guint8)kind, .stage = STAGE };
  PsTensor *output = NULL;
  PsTensor *input = ps_calib_input (&watch->inputs, device, watch->calibration->model->precision, kind, error);
  if (!input)
    return FALSE;
  gint64 start = ps_clock_now ();
  gboolean ok = device->class->run (device, op, input, &output, error);
  *ns = ps_clock_now () - start;
  if (output)
    device->class->tensor_free (output);
  return ok;
}

/* F is measured; BW gives back what it keeps. */
static gboolean
sample (gpointer data, GError **error)
{
  Watch *watch = data;
  const PsStageShape shape = { .n_layers = 1 };
  if (!watch->device->class->attach (watch->device, error)
      || !watch->device->class->add_stage (watch->device, STAGE, &shape, error))
    return FALSE;
  gint64 begin = ps_clock_now (), ns, unused;
  do
    if (!run_op (watch, PS_OP_F, &ns, error) || !run_op (watch, PS_OP_BW, &unused, error))
      return FALSE;
  while (!ps_sampler_add (&watch->sampler, ns, ps_clock_now () - begin));
  return TRUE;
}

static gboolean
run (Watch *watch, GError **error)
{
  PsDeviceSetting setting = ps_calib_device_setting (watch->calibration, watch->calibration->model, N_STAGES, 1, 0);
  watch->device = watch->calibration->device->open (&setting, error);
  if (!watch->device)
    return FALSE;
  gboolean ok = ps_calib_in_thread ("sentinel", sample, watch, error);
  if (!ok)
    g_prefix_error (error, "sentinel: ");
  ps_calib_inputs_clear (&watch->inputs);
  watch->device->class->close (watch->device);
  return ok;
}

static gboolean
hand_over (Watch *watch, GError **error)
{
  const PsCalibration *calibration = watch->calibration;
  g_autoptr (PsMeasurement) m = g_new0 (PsMeasurement, 1);
  g_autofree char *taken = ps_moment_now ();
  ps_sampler_finish (&watch->sampler, m);
  PsSentinel reading
      = { .what = (char *)"F of layers=1", .median_ns = m->time.median_ns, .n = m->time.n, .taken = taken };
  (*calibration->n_watched)++;
  return calibration->sentinel (&reading, calibration->data, error);
}

gboolean
ps_watch (const PsCalibration *calibration, GError **error)
{
  if (!calibration->sentinel)
    return TRUE;
  Watch watch = { .calibration = calibration };
  PsSamplingRule rule = calibration->rule;
  rule.time_limit_ns /= TIME_SHARE;
  ps_sampler_init (&watch.sampler, &rule);
  gboolean ok = run (&watch, error) && hand_over (&watch, error);
  ps_sampler_clear (&watch.sampler);
  return ok;
}

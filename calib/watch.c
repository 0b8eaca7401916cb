/* watch.c - measures the sentinel. */
#include "watch.h"

#include "clock.h"
#include "layer.h"
#include "provenance.h"

/* The sentinel gets a tenth of a rotation's time limit, because it is read often. */
#define TIME_SHARE 10

typedef struct
{
  PsCalibLayer layer;
  PsSampler sampler;
} Watch;

static gboolean
sample (gpointer data, GError **error)
{
  Watch *watch = data;

  if (!ps_calib_layer_attach (&watch->layer, error))
    return FALSE;
  gint64 begin = ps_clock_now (), ns;
  do
    if (!ps_calib_layer_run (&watch->layer, &ns, error))
      return FALSE;
  while (!ps_sampler_add (&watch->sampler, ns, ps_clock_now () - begin));
  return TRUE;
}

static gboolean
run (Watch *watch, const PsCalibration *calibration, GError **error)
{
  gboolean ok = ps_calib_layer_open (&watch->layer, calibration, 0, FALSE, error);

  if (ok && !ps_calib_in_thread ("sentinel", sample, watch, error))
    {
      g_prefix_error (error, "sentinel: ");
      ok = FALSE;
    }
  ps_calib_layer_close (&watch->layer);
  return ok;
}

static gboolean
hand_over (Watch *watch, const PsCalibration *calibration, GError **error)
{
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
  if (calibration->sentinel == NULL)
    return TRUE;
  Watch watch = { 0 };
  PsSamplingRule rule = calibration->rule;
  rule.time_limit_ns /= TIME_SHARE;
  rule.sound_samples = PS_MEDIAN_MIN_SAMPLES; /* fewer say nothing */
  ps_sampler_init (&watch.sampler, &rule);
  gboolean ok = run (&watch, calibration, error) && hand_over (&watch, calibration, error);
  ps_sampler_clear (&watch.sampler);
  return ok;
}

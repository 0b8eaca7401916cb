/* watch.c - measures the sentinel. */
#include "watch.h"

#include "clock.h"

#include "run/layer.h"

/* The sentinel gets a tenth of a rotation's time limit, because it is read often. */
#define TIME_SHARE 10

/* PsSentinelSample */
static gboolean add (gpointer sampler, gint64 ns, gint64 elapsed_ns)
{
  return !ps_sampler_add (sampler, ns, elapsed_ns);
}

static gboolean hand_over (PsSampler *sampler, const PsCalibration *calibration, gint64 *median_ns, GError **error)
{
  g_autoptr (PsMeasurement) m = g_new0 (PsMeasurement, 1);
  g_autofree char *taken = ps_moment_now ();

  ps_sampler_finish (sampler, m);
  PsSentinel reading
      = { .what = (char *)PS_SENTINEL_OP, .median_ns = m->time.median_ns, .n = m->time.n, .taken = taken };
  calibration->pulse->n_readings++;
  *median_ns = m->time.median_ns;
  return calibration->sentinel (&reading, calibration->data, error);
}

#define FIRST_PAUSE 16 /* of all the patience */

gint64 ps_watch_pause (PsPulse *pulse, gint64 median_ns, gint64 patience_ns)
{
  gboolean slow = pulse->usual_ns > 0 && (double)median_ns > (1 + PS_SENTINEL_TOLERANCE) * (double)pulse->usual_ns;

  if (slow && pulse->waited_ns < patience_ns) {
    pulse->pause_ns = MAX (2 * pulse->pause_ns, patience_ns / FIRST_PAUSE);
    pulse->pause_ns = MIN (pulse->pause_ns, patience_ns - pulse->waited_ns);
    pulse->waited_ns += pulse->pause_ns;
    return pulse->pause_ns;
  }
  pulse->usual_ns = slow || pulse->usual_ns == 0 ? median_ns : MIN (pulse->usual_ns, median_ns);
  pulse->pause_ns = 0;
  return 0;
}

static gboolean watch_once (const PsCalibration *calibration, gint64 *median_ns, GError **error)
{
  const PsDeviceSetting setting = ps_calib_device_setting (calibration, calibration->model, PS_LAYER_STAGES, 1, 0);
  PsSamplingRule rule = calibration->rule;
  PsSampler sampler;

  rule.time_limit_ns /= TIME_SHARE;
  rule.sound_samples = PS_MEDIAN_MIN_SAMPLES; /* fewer say nothing */
  ps_sampler_init (&sampler, &rule);
  gboolean ok = ps_sentinel_run (calibration->device, &setting, NULL, add, &sampler, error)
                && hand_over (&sampler, calibration, median_ns, error);
  ps_sampler_clear (&sampler);
  return ok;
}

gboolean ps_watch (const PsCalibration *calibration, GError **error)
{
  gint64 median_ns, pause_ns;

  if (calibration->sentinel == NULL)
    return TRUE;
  do {
    if (!watch_once (calibration, &median_ns, error))
      return FALSE;
    pause_ns = ps_watch_pause (calibration->pulse, median_ns, calibration->patience_ns);
    g_usleep ((gulong)(pause_ns / 1000));
  } while (pause_ns > 0);
  return TRUE;
}

/* host.c - a run of null ops, and the host times that its timeline shows. */
#include "host.h"

#include "watch.h"

#include "train/devices.h"
#include "run/runtime.h"

#include <pipesim/observe.h>
#include <pipesim/setting.h>

#define N_MICROBATCHES 200
#define N_STEPS 9
#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

static PsProgram *new_program (const PsCalibration *calibration, GError **error)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);

  setting->n_devices = calibration->n_local;
  setting->n_microbatches = N_MICROBATCHES;
  return ps_predictor_program (predictor, "1f1b", error);
}

/* The gaps and posts of a median step. NULL: it could not run. */
static PsObserved *observe (const PsCalibration *calibration, GError **error)
{
  g_autoptr (PsProgram) program = new_program (calibration, error);
  g_autoptr (PsObserved) observed = ps_observed_new ();
  const PsRunSetting setting = {
    .device = &ps_null_device, .transport = calibration->transport, .n_steps = N_STEPS, .timeout_ns = TIMEOUT_NS
  };
  PsRunResult *result = program != NULL ? ps_run (program, &setting, error) : NULL;
  GPtrArray *timelines = g_ptr_array_new ();
  gboolean ok = result != NULL;

  if (ok) {
    g_ptr_array_add (timelines, result->timeline);
    ok = ps_observed_add (observed, "null ops", timelines, error);
    ps_run_result_free (result);
  }
  g_ptr_array_unref (timelines);
  return ok ? g_steal_pointer (&observed) : NULL;
}

static gboolean is_wanted (const PsCalibration *calibration, PsMeasurement *key, gboolean *wanted, GError **error)
{
  *wanted = calibration->processes == NULL && !calibration->transport->exclusive;
  return !*wanted || calibration->wanted (key, calibration->data, wanted, error);
}

static gboolean hand_over (const PsCalibration *calibration, const PsMeasurement *key, const GArray *samples,
                           GError **error)
{
  g_autoptr (PsMeasurement) m = g_memdup2 (key, sizeof *key);

  m->shape = g_strdup (key->shape);
  ps_calib_complete (m, g_memdup2 (samples->data, samples->len * sizeof *m->samples_ns), samples->len);
  return calibration->sink (m, calibration->data, error);
}

gboolean ps_calibrate_host (const PsCalibration *calibration, GError **error)
{
  static const char *const parts[] = { "op", "send", "receive" };
  g_autoptr (PsObserved) observed = NULL;

  /* One device sends nothing. */
  for (guint i = 0; i < (calibration->n_local > 1 ? G_N_ELEMENTS (parts) : 1); i++) {
    PsMeasurement key
        = { .subject = PS_SUBJECT_HOST, .shape = (char *)parts[i], .devices = calibration->n_local, .sharing = 1 };
    g_autoptr (GArray) posts = NULL;
    gboolean wanted;

    if (!is_wanted (calibration, &key, &wanted, error))
      return FALSE;
    if (!wanted)
      continue;
    if (observed == NULL && !ps_watch (calibration, error))
      return FALSE;
    if (observed == NULL)
      observed = observe (calibration, error);
    if (observed == NULL)
      return FALSE;
    if (i > 0)
      posts = ps_observed_posts (observed, i == 1 ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE);
    if (!hand_over (calibration, &key, posts != NULL ? posts : observed->host, error))
      return FALSE;
  }
  return TRUE;
}

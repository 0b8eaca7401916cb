/* cplusplus.cpp - C++ programs include every public header, and predict. */
#include <pipesim/device.h>
#include <pipesim/pipesim.h>
#include <pipesim/transport.h>

int main ()
{
  PsSetting *setting = ps_setting_new ();
  GError *error = nullptr;
  PsDevice device = { nullptr };

  setting->n_devices = 2;
  setting->n_microbatches = 2;
  setting->costs = g_strdup ("f=1ms,bw=2ms");
  PsPrediction *prediction = ps_predict (setting, "1f1b", &error);
  g_assert_no_error (error);
  /* (m + p - 1) (F + BW), in ns. */
  g_assert_cmpint (prediction->metrics.iteration_ns, ==, 9000000);
  g_assert_null (device.PS_CLASS);
  ps_prediction_free (prediction);
  ps_setting_free (setting);
}

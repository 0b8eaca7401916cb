/* cut.c - a model cut into the stages of a pipeline. */
#include "cut.h"

#include <pipesim/setting.h>

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

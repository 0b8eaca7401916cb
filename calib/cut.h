/* cut.h - a model cut into the stages of a pipeline. It also says which device measures which stage shape. */
#pragma once

#include "calibration.h"

typedef struct {
  guint n_devices;
  guint n_chunks;
  guint n_stages;       /* n_devices * n_chunks; stage s sits on device s mod n_devices */
  guint n_slices;       /* of each sequence; 1: ops take whole ones */
  PsStageShape *shapes; /* [n_stages] */
  char **keys;          /* [n_stages] ps_stage_shape_key */
} PsCut;

/* The calibration's model in its layout, that of --layout without best; stages run as it says. Errors: PS_ERROR_USAGE
 * when the layout does not fit the model. Free with ps_cut_free. */
PsCut *ps_cut_new (const PsCalibration *calibration, guint n_chunks, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_cut_free (PsCut *cut);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCut, ps_cut_free)

/* Returns the device whose times of that shape are kept: the lowest one that holds a stage of it. If shares[n_devices]
 * are unequal (NULL: equal), only devices with that share count. */
guint ps_cut_owner (const PsCut *cut, const char *key, const guint *shares, guint share);

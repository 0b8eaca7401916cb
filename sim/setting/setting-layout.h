/* setting-layout.h - the cuts of a model that --layout can say. Private to libpipesim. */
#pragma once

#include <pipesim/partition.h>

/* The stages of a layout other than best, see ps_setting_shapes. */
PsStageShape *ps_layout_cut (const char *layout, const PsModel *model, guint n_devices, guint n_chunks,
                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Replaces the even cut in shapes by the best one of the units, whose costs layers has, if its slowest stage is faster.
 * speeds is [n_devices] or NULL. */
void ps_layout_cut_best (const PsStageShape *units, const PsLayers *layers, const double *speeds, guint n_devices,
                         guint n_stages, PsStageShape *shapes);

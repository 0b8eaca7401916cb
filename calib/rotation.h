/* rotation.h - times ops with the device code that real runs use.
 *
 * An op's cost depends on the ops beside it and before it. So a tight loop would not do. Each device holds the stages
 * that it would hold in a pipeline with loop placement, and keeps several microbatches in flight. It rotates through F,
 * B, W, F, BW over all its stages, with O now and then. One rotation gives the samples of all ops: PS_CACHE_RUN.
 *
 * PS_CACHE_COLD is the same with the caches emptied before each op. For PS_CACHE_WARM one stage after the other goes
 * through its ops, with one microbatch alone.
 */
#pragma once

#include "calibration.h"
#include "cut.h"

/* Times the ops of the stages of devices first .. first + n_busy - 1, while only these devices are busy. Reads the
 * sentinel before, unless nothing is wanted. Processes that have further parts of the layers run them until nothing is.
 * With calibration->kept the device has a whole accelerator, and shapes end in ",blocks=8". */
gboolean ps_calibrate_ops (const PsCalibration *calibration, const PsCut *cut, guint first, guint n_busy,
                           PsCacheState cache, GError **error);

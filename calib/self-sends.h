/* self-sends.h - messages of a device to itself: they cost the launch of a transfer and nothing else. */
#pragma once

#include "calibration.h"

/* Times messages over every transport that can launch them from device memory, "nccl-self" for NCCL. There are a few
 * sizes up to the boundary; the device has a whole accelerator. */
gboolean ps_calibrate_self_sends (const PsCalibration *calibration, GError **error);

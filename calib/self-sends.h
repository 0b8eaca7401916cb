/* self-sends.h - messages of a device to itself: what launching a transfer costs, and nothing else. */
#ifndef PIPESIM_CALIB_SELF_SENDS_H
#define PIPESIM_CALIB_SELF_SENDS_H

#include "calibration.h"

G_BEGIN_DECLS

/* Over every transport that is there and can launch them from devices whose memory is not the host's, "nccl-self" of
 * NCCL; of a few sizes up to the boundary, on a whole accelerator. */
gboolean ps_calibrate_self_sends (const PsCalibration *calibration, GError **error);

G_END_DECLS

#endif

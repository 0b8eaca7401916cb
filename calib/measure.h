/* measure.h - what is measured in which order. */
#ifndef PIPESIM_CALIB_MEASURE_H
#define PIPESIM_CALIB_MEASURE_H

#include "calibration.h"

G_BEGIN_DECLS

/* Measures what is wanted: every distinct stage shape with n_local devices busy, transfers, then every shape alone, in
 * every state of the caches asked for, then beside blocks if asked for, and messages of a device to itself. The
 * sentinel is read before each of these groups that has something to do, and at the end. Errors: PS_ERROR_USAGE when
 * the device can't empty its caches but should. */
gboolean ps_calibrate (const PsCalibration *calibration, GError **error);

G_END_DECLS

#endif

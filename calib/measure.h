/* measure.h - what is measured in which order. */
#ifndef PIPESIM_CALIB_MEASURE_H
#define PIPESIM_CALIB_MEASURE_H

#include "calibration.h"

G_BEGIN_DECLS

/* Measures what is wanted: every distinct stage shape with all devices busy, transfers, then every shape alone. */
gboolean ps_calibrate (const PsCalibration *calibration, GError **error);

G_END_DECLS

#endif

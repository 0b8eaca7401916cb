/* watch.h - the sentinel: one op that is measured again and again during a calibration. If its time changes, the
 * machine has changed, and the measurements in between are suspect. */
#ifndef PIPESIM_CALIB_WATCH_H
#define PIPESIM_CALIB_WATCH_H

#include "calibration.h"

G_BEGIN_DECLS

/* Measures F of one layer on device 0 while no other device is busy, and hands it to calibration->sentinel. */
gboolean ps_watch (const PsCalibration *calibration, GError **error);

G_END_DECLS

#endif

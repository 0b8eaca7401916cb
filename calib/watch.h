/* watch.h - the sentinel: one op that is measured again and again while a calibration goes on. When it moves, so has
 * the machine, and with it everything that was measured in between. */
#ifndef PIPESIM_CALIB_WATCH_H
#define PIPESIM_CALIB_WATCH_H

#include "calibration.h"

G_BEGIN_DECLS

/* Measures F of one layer on device 0, nobody else busy, and hands it to calibration->sentinel. */
gboolean ps_watch (const PsCalibration *calibration, GError **error);

G_END_DECLS

#endif

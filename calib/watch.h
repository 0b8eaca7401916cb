/* watch.h - the sentinel: one op that is measured again and again while a calibration goes on. When it moves, so has
 * the machine, and with it everything that was measured in between. */
#ifndef PIPESIM_CALIB_WATCH_H
#define PIPESIM_CALIB_WATCH_H

#include "calibration.h"

G_BEGIN_DECLS

/* A sentinel that moved more than this against the first reading is worth a warning. */
#define PS_WATCH_TOLERANCE 0.03

/* Measures F of one layer on device 0, nobody else busy, and hands it to calibration->sentinel. */
gboolean ps_watch (const PsCalibration *calibration, GError **error);

/* The largest distance of any reading (of PsSentinel) from the first, over the first; 0 for fewer than two. Readings of
 * another op than the first's are left out. */
double ps_watch_drift (GPtrArray *sentinels);

G_END_DECLS

#endif

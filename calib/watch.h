/* watch.h - the sentinel: one op that is measured again and again during a calibration. If its time changes, the
 * machine has changed, and the measurements in between are suspect. */
#pragma once

#include "calibration.h"

/* How long to wait before the sentinel is read again, after a reading of median_ns; 0: measuring goes on. Waits double
 * until the machine is as fast as before, within PS_SENTINEL_TOLERANCE, or patience_ns is used up. Then the machine is
 * taken as it is. */
gint64 ps_watch_pause (PsPulse *pulse, gint64 median_ns, gint64 patience_ns);

/* Measures F of one layer on device 0 while no other device is busy, and hands it to calibration->sentinel. Where the
 * machine has slowed down it waits and tries again. */
gboolean ps_watch (const PsCalibration *calibration, GError **error);

/* host.h - measures the time that the runtime itself takes on the host. */
#pragma once

#include "calibration.h"

/* Runs a schedule on devices whose ops take no time, over the calibration's transport. Its gaps are the host's time for
 * each op, its posts that for each send and each receive. Nothing is measured between processes, or over a transport
 * that needs accelerators. */
gboolean ps_calibrate_host (const PsCalibration *calibration, GError **error);

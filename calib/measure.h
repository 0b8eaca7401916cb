/* measure.h - all measurements of a calibration, in their order. */
#pragma once

#include "calibration.h"

/* Measures everything that is wanted, in this order:
 *
 * - every distinct stage shape, with n_local devices busy;
 * - transfers;
 * - every shape alone, in every state of the caches asked for;
 * - every shape beside blocks, if asked for;
 * - messages of a device to itself.
 *
 * The sentinel is read before each of these groups that has work, and at the end. Errors: PS_ERROR_USAGE if the device
 * can't empty its caches but should. */
gboolean ps_calibrate (const PsCalibration *calibration, GError **error);

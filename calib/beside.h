/* beside.h - devices that compute beside a measurement. */
#pragma once

#include "calibration.h"

/* Devices that compute, each in a thread of its own. */
typedef struct _PsLoad PsLoad;

/* Starts devices first .. first + n - 1, exclusive if the transport is, and returns when all compute. */
PsLoad *ps_load_new (const PsCalibration *calibration, guint first, guint n, GError **error);

/* Ends the load and frees it. FALSE: an error has ended it before. load may be NULL. */
gboolean ps_load_end (PsLoad *load, GError **error);

/* layer.h - one layer in the middle of a model, which computes: for the sentinel, or as a load beside a measurement. */
#pragma once

#include "calibration.h"

typedef struct
{
  const PsCalibration *calibration;
  PsDeviceSetting setting;
  PsDevice *device;
  PsCalibInputs inputs;
} PsCalibLayer;

/* Opens device `index` for the layer, exclusive as in PsDeviceSetting. One thread makes all calls between this and
 * closing. After a failure, too, the caller must call ps_calib_layer_close. */
gboolean ps_calib_layer_open (PsCalibLayer *layer, const PsCalibration *calibration, guint index, gboolean exclusive,
                              GError **error);
gboolean ps_calib_layer_attach (PsCalibLayer *layer, GError **error);

/* Runs F, then BW, which gives back what F keeps. *f_ns: the duration of F. */
gboolean ps_calib_layer_run (PsCalibLayer *layer, gint64 *f_ns, GError **error);
void ps_calib_layer_close (PsCalibLayer *layer);

/* Devices that compute, each in a thread of its own. */
typedef struct _PsLoad PsLoad;

/* Starts devices first .. first + n - 1, exclusive if the transport is, and returns when all compute. */
PsLoad *ps_load_new (const PsCalibration *calibration, guint first, guint n, GError **error);

/* Ends the load and frees it. FALSE: an error has ended it before. load may be NULL. */
gboolean ps_load_end (PsLoad *load, GError **error);

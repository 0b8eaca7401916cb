/* layer.h - a layer in the middle of a model, which computes: the sentinel's, or the load beside something measured. */
#ifndef PIPESIM_CALIB_LAYER_H
#define PIPESIM_CALIB_LAYER_H

#include "calibration.h"

G_BEGIN_DECLS

typedef struct
{
  const PsCalibration *calibration;
  PsDeviceSetting setting;
  PsDevice *device;
  PsCalibInputs inputs;
} PsCalibLayer;

/* Opens device `index` for it, exclusive as PsDeviceSetting says; all that follows but closing is for one thread. On
 * failure closing is due all the same. */
gboolean ps_calib_layer_open (PsCalibLayer *layer, const PsCalibration *calibration, guint index, gboolean exclusive,
                              GError **error);
gboolean ps_calib_layer_attach (PsCalibLayer *layer, GError **error);

/* F, and BW which gives back what that keeps. *f_ns: how long F took. */
gboolean ps_calib_layer_run (PsCalibLayer *layer, gint64 *f_ns, GError **error);
void ps_calib_layer_close (PsCalibLayer *layer);

/* Devices that compute, each on a thread of its own. */
typedef struct _PsLoad PsLoad;

/* Devices first .. first + n - 1, exclusive where the transport is; returns when all compute. */
PsLoad *ps_load_new (const PsCalibration *calibration, guint first, guint n, GError **error);

/* Ends it and frees it; FALSE with the error that has ended it before. NULL: there is none. */
gboolean ps_load_end (PsLoad *load, GError **error);

G_END_DECLS

#endif

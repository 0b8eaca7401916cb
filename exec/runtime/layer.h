/* layer.h - one layer in the middle of a model, which computes: for the sentinel, or as a load beside a measurement. */
#pragma once

#include "inputs.h"

#define PS_LAYER_STAGES 3 /* of the model; the layer is the stage in the middle, which takes inputs from both sides */

typedef struct
{
  PsDeviceSetting setting;
  PsDevice *device;
  PsLoneInputs inputs;
} PsLayer;

/* Opens a device for the layer; its setting is of PS_LAYER_STAGES stages. One thread makes all calls between this and
 * closing. After a failure, too, the caller must call ps_layer_close. */
gboolean ps_layer_open (PsLayer *layer, const PsDeviceClass *class, const PsDeviceSetting *setting, GError **error);
gboolean ps_layer_attach (PsLayer *layer, GError **error);

/* Runs F, then BW, which gives back what F keeps. *f_ns: the duration of F. */
gboolean ps_layer_run (PsLayer *layer, gint64 *f_ns, GError **error);
void ps_layer_close (PsLayer *layer);

/* layer.h - one layer in the middle of a model, which computes as a load or to be timed, and what its ops take in place
 * of what neighbours would send. */
#pragma once

#include <pipesim/device.h>

/* Fills a tensor with ordinary numbers between -scale and scale, in place of the numbers that a neighbour would
 * send. Only devices that compute need them. precision is the model's. The calling thread has attached the tensor's
 * device. */
gboolean ps_tensor_fill (PsTensor *tensor, PsPrecision precision, float scale, GError **error);

/* The inputs of ops on one device. A class with a copy hook makes the numbers once and copies them from then on. Making
 * them on the host takes longer than an op, and neighbours would not be busy. */
typedef struct {
  PsTensor *activation, *gradient; /* originals to copy; NULL before first use, and for classes without copy */
} PsLoneInputs;

/* Returns an op's input from a neighbour. NULL: there is no memory for it, or it can't be filled. */
PsTensor *ps_lone_input (PsLoneInputs *inputs, PsDevice *device, PsPrecision precision, PsOpKind kind, GError **error);
void ps_lone_inputs_clear (PsLoneInputs *inputs);

#define PS_LAYER_STAGES 3 /* of the model; the layer is the stage in the middle, which takes inputs from both sides */

typedef struct {
  PsDeviceSetting setting;
  PsDevice *device;
  PsLoneInputs inputs;
} PsLoneLayer;

/* Opens a device for the layer; its setting is of PS_LAYER_STAGES stages. One thread makes all calls between this and
 * closing. After a failure, too, the caller must call ps_lone_layer_close. */
gboolean ps_lone_layer_open (PsLoneLayer *layer, const PsDeviceClass *class, const PsDeviceSetting *setting,
                             GError **error);
gboolean ps_lone_layer_attach (PsLoneLayer *layer, GError **error);

/* Runs F, then BW, which gives back what F keeps. *f_ns: the duration of F. */
gboolean ps_lone_layer_run (PsLoneLayer *layer, gint64 *f_ns, GError **error);
void ps_lone_layer_close (PsLoneLayer *layer);

/* The sentinel is one op that is timed again and again: F of one layer on a whole accelerator while nothing else is
 * busy, so that its time does not depend on how devices share it. If its time changes, the machine has changed. */

/* Takes a sample, elapsed_ns after the first op began. FALSE: it was the last one. */
typedef gboolean (*PsSentinelSample) (gpointer data, gint64 ns, gint64 elapsed_ns);

/* Times the op in a thread of its own. setting: of the device, with PS_LAYER_STAGES stages. choices: the device adopts
 * them first; NULL: none. Errors begin with "sentinel: ". */
gboolean ps_sentinel_run (const PsDeviceClass *class, const PsDeviceSetting *setting, GBytes *choices,
                          PsSentinelSample sample, gpointer data, GError **error);

#define PS_SENTINEL_OP "F of layers=1" /* PsSentinel.what */

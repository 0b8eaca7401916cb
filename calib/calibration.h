/* calibration.h - one calibration: with what, of what, by which rule and where to, and what its parts share. */
#ifndef PIPESIM_CALIB_CALIBRATION_H
#define PIPESIM_CALIB_CALIBRATION_H

#include "sampler.h"

#include <pipesim/transport.h>

G_BEGIN_DECLS

/* Whether the measurement with this key is still missing. */
typedef gboolean (*PsMeasurementWanted) (const PsMeasurement *key, gpointer data, gboolean *wanted, GError **error);

/* Stores one finished measurement, which stays the caller's. */
typedef gboolean (*PsMeasurementSink) (const PsMeasurement *measurement, gpointer data, GError **error);

typedef struct
{
  const PsDeviceClass *device;
  const PsTransportClass *transport;
  const PsModel *model;
  guint n_devices;
  const guint *chunks; /* [n_chunks] numbers of chunks per device to measure */
  guint n_chunks;
  PsSamplingRule rule;
  guint64 seed;
  PsMeasurementWanted wanted; /* both are called from the thread that called ps_calibrate */
  PsMeasurementSink sink;
  gpointer data;
} PsCalibration;

/* CLOCK_MONOTONIC in nanoseconds. */
gint64 ps_calib_now (void);

/* Ordinary numbers between -scale and scale in place of what a neighbour would send, for devices that compute;
 * precision is the model's. The calling thread has attached the tensor's device. */
gboolean ps_tensor_fill (PsTensor *tensor, PsPrecision precision, float scale, GError **error);

/* What device `index` needs to know. It is pinned as in real runs, only when each device gets its core, and has the
 * share of an accelerator that it has when all devices run. */
PsDeviceSetting ps_calib_device_setting (const PsCalibration *calibration, const PsModel *model, guint n_stages,
                                         guint n_microbatches, guint index);

G_END_DECLS

#endif

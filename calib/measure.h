/* measure.h - times ops and transfers with the device and transport code that real runs use.
 *
 * An op's cost depends on what runs beside it and on what ran before it. So ops are not timed in a tight loop: each
 * device holds the stages that it would hold in a pipeline with loop placement, keeps several microbatches in flight
 * and rotates through F, B, W, F, BW over all its stages, O now and then, and one rotation gives the samples of all
 * ops.
 */
#ifndef PIPESIM_CALIB_MEASURE_H
#define PIPESIM_CALIB_MEASURE_H

#include "cut.h"
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

/* Measures what is wanted: every distinct stage shape with all devices busy, transfers, then every shape alone. */
gboolean ps_calibrate (const PsCalibration *calibration, GError **error);

/* The parts of it. Ops of the stages of devices first .. first + n_busy - 1 while these, and no others, are busy. */
gboolean ps_calibrate_ops (const PsCalibration *calibration, const PsCut *cut, guint first, guint n_busy,
                           GError **error);

/* Transfers between two devices, nothing else going on. */
gboolean ps_calibrate_transfers (const PsCalibration *calibration, GError **error);

/* Sizes of transfers to measure: powers of two from 8 bytes to at least 4 times the boundary, and the boundary.
 * Ascending; gint64. */
GArray *ps_transfer_sizes (gint64 boundary_bytes);

/* A model whose boundary tensor has exactly so many bytes (a multiple of 4) in fp32, and of which nothing else matters.
 */
PsModel *ps_model_with_boundary (gint64 bytes);

/* CLOCK_MONOTONIC in nanoseconds. */
gint64 ps_calib_now (void);

/* Ordinary numbers in place of what a neighbour would send, for devices that compute. Tensor memory is host memory. */
void ps_tensor_fill (PsTensor *tensor, float scale);

/* What a device needs to know; n_busy decides about pinning as real runs do: only when each device gets its core. */
PsDeviceSetting ps_calib_device_setting (const PsCalibration *calibration, const PsModel *model, guint n_stages,
                                         guint n_microbatches, guint index);

G_END_DECLS

#endif

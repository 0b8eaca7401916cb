/* calibration.h - one calibration: with what, of what, by which rule and where to, and what its parts share. */
#ifndef PIPESIM_CALIB_CALIBRATION_H
#define PIPESIM_CALIB_CALIBRATION_H

#include "sampler.h"

#include "processes/rendezvous.h"

#include <pipesim/transport.h>

G_BEGIN_DECLS

/* Whether the measurement with this key is still missing. */
typedef gboolean (*PsMeasurementWanted) (const PsMeasurement *key, gpointer data, gboolean *wanted, GError **error);

/* Stores one finished measurement, which stays the caller's. */
typedef gboolean (*PsMeasurementSink) (const PsMeasurement *measurement, gpointer data, GError **error);

/* Stores one reading of the sentinel op, which stays the caller's. */
typedef gboolean (*PsSentinelSink) (const PsSentinel *sentinel, gpointer data, GError **error);

/* Stores what devices have decided, of which measurements to come are; stays the caller's. */
typedef gboolean (*PsChoicesSink) (GBytes *choices, gpointer data, GError **error);

typedef struct
{
  const PsDeviceClass *device;
  const PsTransportClass *transport;
  const PsModel *model;
  guint n_devices;     /* that the model is cut for */
  guint n_local;       /* that run here at the same time, on one accelerator's parts where it is split; <= n_devices */
  const guint *shares; /* [n_local] see PsDeviceSetting, in lowest terms, unequal; NULL: equal parts */
  guint caches;        /* bit 1 << PsCacheState for each state to measure ops in */
  const guint *chunks; /* [n_chunks] numbers of chunks per device to measure */
  guint n_chunks;
  const guint *blocks; /* [n_blocks] numbers of multiprocessors to keep from the ops of a whole accelerator, too; none
                          where the device has no hook for it */
  guint n_blocks;
  PsSamplingRule rule;
  guint64 seed;
  GBytes *choices;            /* PsDeviceClass.choices that devices begin with; NULL: none */
  PsRendezvous *others;       /* the processes that have a device each for transfers; NULL: all devices are here */
  PsMeasurementWanted wanted; /* this and the sinks are called from the thread that called ps_calibrate */
  PsMeasurementSink sink;
  PsSentinelSink sentinel; /* NULL: none is measured */
  PsChoicesSink decided;   /* NULL: nobody asks */
  gpointer data;

  /* What ps_calibrate adds in a copy of its own. */
  guint sharing;     /* devices that an accelerator is split among */
  guint *n_watched;  /* readings of the sentinel so far */
  const guint *kept; /* one of blocks, on a whole accelerator; NULL: nothing is kept from ops */
} PsCalibration;

/* Ordinary numbers between -scale and scale in place of what a neighbour would send, for devices that compute;
 * precision is the model's. The calling thread has attached the tensor's device. */
gboolean ps_tensor_fill (PsTensor *tensor, PsPrecision precision, float scale, GError **error);

/* What device `index` needs to know. It is pinned as in real runs, only when each of those that run here gets its core,
 * and has the share of an accelerator that it has when all of them run. */
PsDeviceSetting ps_calib_device_setting (const PsCalibration *calibration, const PsModel *model, guint n_stages,
                                         guint n_microbatches, guint index);

/* Runs body in a thread of its own, which a device may bind to a core, and waits for it. TRUE when body has returned
 * that. */
typedef gboolean (*PsCalibBody) (gpointer data, GError **error);
gboolean ps_calib_in_thread (const char *name, PsCalibBody body, gpointer data, GError **error);

/* Inputs of ops on one device. Where tensors are copied by the device, numbers are made once and copied from then on:
 * making them on the host takes longer than an op does, and neighbours would not be busy. */
typedef struct
{
  PsTensor *activation, *gradient; /* what to copy; NULL before the first, and where host memory is filled each time */
} PsCalibInputs;

/* An op's input from a neighbour; NULL when there is no memory for it or it can't be filled. */
PsTensor *ps_calib_input (PsCalibInputs *inputs, PsDevice *device, PsPrecision precision, PsOpKind kind,
                          GError **error);
void ps_calib_inputs_clear (PsCalibInputs *inputs);

G_END_DECLS

#endif

/* calibration.h - one calibration: its devices, model, rules and sinks, and the helpers that its parts share. */
#pragma once

#include "sampler.h"

#include "run/crew.h"
#include "run/layer.h"

#include <pipesim/transport.h>

/* Sets *wanted to TRUE if the measurement with this key is still missing. */
typedef gboolean (*PsMeasurementWanted) (const PsMeasurement *key, gpointer data, gboolean *wanted, GError **error);

/* Stores one finished measurement, which stays the caller's. */
typedef gboolean (*PsMeasurementSink) (const PsMeasurement *measurement, gpointer data, GError **error);

/* Stores one reading of the sentinel op, which stays the caller's. */
typedef gboolean (*PsSentinelSink) (const PsSentinel *sentinel, gpointer data, GError **error);

/* Stores the choices of the devices; the measurements after this call were made with them. The bytes stay the
 * caller's. */
typedef gboolean (*PsChoicesSink) (GBytes *choices, gpointer data, GError **error);

/* The readings of the sentinel during one call of ps_calibrate. */
typedef struct {
  guint n_readings;
  gint64 usual_ns;  /* the fastest reading; 0: there is none yet */
  gint64 pause_ns;  /* the last wait for a machine that was slower; 0: it was not */
  gint64 waited_ns; /* all waits together */
} PsPulse;

typedef struct {
  const PsDeviceClass *device;
  const PsTransportClass *transport;
  const PsModel *model;
  guint n_devices; /* devices that the model is cut for */
  /* devices that run at the same time, on parts of one accelerator if it is split; <= n_devices */
  guint n_local;
  const guint *shares; /* [n_local] see PsDeviceSetting, in lowest terms, unequal; NULL: equal parts */
  guint caches;        /* bit 1 << PsCacheState for each state to measure ops in */
  const guint *chunks; /* [n_chunks] numbers of chunks per device to measure */
  guint n_chunks;
  const guint *slices; /* [n_slices] numbers of slices of a sequence to measure ops of, with one chunk per device */
  guint n_slices;
  const char *layout;    /* see ps_cut_new; NULL: even */
  guint n_tensor;        /* devices that share each stage's layers; 0 counts as 1 */
  PsRecompute recompute; /* how the stages run */
  double offload;
  /* [n_blocks] numbers of multiprocessors to keep from the ops of a whole accelerator, as measurements of their own.
   * Empty if the device can't do it. */
  const guint *blocks;
  guint n_blocks;
  PsSamplingRule rule;
  gint64 patience_ns; /* time to wait, all in all, for a machine that has slowed down; see watch.h */
  const char *places; /* of the devices, as PsProfile.places; NULL: not known */
  GPtrArray *known;   /* PsMeasurement of the profile before the first of these; NULL: there are none */
  guint64 seed;
  GBytes *choices;            /* PsDeviceClass.choices that devices start with; NULL: none */
  PsProcesses *processes;     /* each has a device for transfers; NULL: all devices are here */
  PsMeasurementWanted wanted; /* the thread that called ps_calibrate calls this and the sinks */
  PsMeasurementSink sink;
  PsSentinelSink sentinel; /* NULL: no sentinel is measured */
  PsChoicesSink decided;   /* NULL: choices are not stored */
  gpointer data;

  /* ps_calibrate sets these in its own copy. */
  guint sharing;     /* devices that an accelerator is split among */
  PsPulse *pulse;    /* of the sentinel */
  const guint *kept; /* one of `blocks`, on a whole accelerator; NULL: ops have all multiprocessors */
} PsCalibration;

/* Returns the setting of device `index`. The device is pinned as in real runs: only if each of the n_local devices gets
 * a core. It has the share of an accelerator that it has when all of them run. */
PsDeviceSetting ps_calib_device_setting (const PsCalibration *calibration, const PsModel *model, guint n_stages,
                                         guint n_microbatches, guint index);

/* Completes a measurement of n samples (taken), all that were asked for: statistics, reason and moment. */
void ps_calib_complete (PsMeasurement *measurement, gint64 *samples_ns, guint n);

/* Runs body in a thread of its own, which a device may bind to a core, and waits for it. Returns body's result. */
typedef gboolean (*PsCalibBody) (gpointer data, GError **error);
gboolean ps_calib_in_thread (const char *name, PsCalibBody body, gpointer data, GError **error);

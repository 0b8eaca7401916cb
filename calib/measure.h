/* measure.h - one calibration: its devices, model, rules and sinks, and all of its measurements. Each is a schedule or
 * a few streams of ops and messages, which exec/run executes: so costs are measured as they are used. */
#pragma once

#include "statistics.h"

#include "run/runtime.h"

#include <pipesim/transport.h>

/* TRUE if the measurement with this key is still missing. */
typedef gboolean (*PsMeasurementWanted) (const PsMeasurement *key, gpointer data);

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
} PsSentinelReadings;

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
  gint64 patience_ns; /* time to wait, all in all, for a machine that has slowed down; see ps_sentinel_pause */
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
  guint sharing; /* devices that an accelerator is split among */
  PsSentinelReadings *readings;
  const guint *kept; /* one of `blocks`, on a whole accelerator; NULL: ops have all multiprocessors */
} PsCalibration;

/* Measures everything that is wanted, in this order:
 *
 * - every distinct stage shape, with n_local devices busy;
 * - transfers, and all-reduces where the transport adds up;
 * - what the host spends on each op and message: the gaps and posts of a run of ops that take no time;
 * - every shape alone, in every state of the caches asked for;
 * - every shape while blocks hold multiprocessors, if asked for;
 * - messages of a device to itself: launching a transfer and nothing else, "nccl-self" for NCCL.
 *
 * The sentinel is read before each of these groups that has work, and at the end. Errors: PS_ERROR_USAGE if the device
 * can't empty its caches but should. */
gboolean ps_calibrate (const PsCalibration *calibration, GError **error);

/* The other processes: each takes part in the runs that the first one starts, until ps_calibrate_end. */
gboolean ps_calibrate_others (const PsCalibration *calibration, GError **error);

/* Tells the other processes that there is nothing more to measure. */
void ps_calibrate_end (const PsCalibration *calibration);

/* Finds the classes by their names, where they can be used here. */
gboolean ps_calib_find_classes (PsCalibration *calibration, const char *device, const char *transport, GError **error);

/* Returns the setting of device `index`. The device is pinned as in real runs: only if each of the n_local devices gets
 * a core. It has the share of an accelerator that it has when all of them run. */
PsDeviceSetting ps_calib_device_setting (const PsCalibration *calibration, const PsModel *model, guint n_stages,
                                         guint n_microbatches, guint index);

/* A model cut into the stages of a pipeline. */
typedef struct {
  guint n_devices;
  guint n_chunks;
  guint n_stages;       /* n_devices * n_chunks; stage s sits on device s mod n_devices */
  guint n_slices;       /* of each sequence; 1: ops take whole ones */
  PsStageShape *shapes; /* [n_stages] */
  char **keys;          /* [n_stages] ps_stage_shape_key */
} PsCut;

/* The calibration's model in its layout, that of --layout without best; stages run as it says. Errors: PS_ERROR_USAGE
 * when the layout does not fit the model. Free with ps_cut_free. */
PsCut *ps_cut_new (const PsCalibration *calibration, guint n_chunks, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_cut_free (PsCut *cut);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCut, ps_cut_free)

/* Returns the device whose times of that shape are kept: the lowest one that holds a stage of it. If shares[n_devices]
 * are unequal (NULL: equal), only devices with that share count. */
guint ps_cut_owner (const PsCut *cut, const char *key, const guint *shares, guint share);

/* How long to wait before the sentinel is read again, after a reading of median_ns; 0: measuring goes on. Waits double
 * until the machine is as fast as before, within PS_SENTINEL_TOLERANCE, or patience_ns is used up. Then the machine is
 * taken as it is. */
gint64 ps_sentinel_pause (PsSentinelReadings *readings, gint64 median_ns, gint64 patience_ns);

/* Returns the sizes of transfers to measure: powers of two from 8 bytes to at least 4 times the boundary, and the
 * boundary itself. Ascending; gint64. */
GArray *ps_transfer_sizes (gint64 boundary_bytes);

/* Returns a model whose boundary tensor has exactly `bytes` bytes (a multiple of 4) in fp32. Nothing else of it
 * matters. */
PsModel *ps_model_with_boundary (gint64 bytes);

/* The parts of a calibration, which call each other */

/* A run that several processes take part in. The first process sends it to the others. */
typedef struct {
  gint64 bytes;                                    /* of messages; 0: ops run */
  gint32 traffic, link[2];                         /* see transfers.c */
  gint32 n_chunks, n_slices, first, n_busy, cache; /* of ops; n_busy 0: there is nothing more */
} PsCalibOrder;

/* Sends it to all other processes. */
void ps_calib_tell (const PsCalibration *calibration, const PsCalibOrder *order);

/* TRUE in all processes where the first one says so; called by PsMeasuring.step. */
gboolean ps_calib_agree (const PsCalibration *calibration, gboolean more);

/* calibration.c: measures F of one layer on device 0 while no other device is busy, and hands it to
 * calibration->sentinel. Where the machine has slowed down it waits and tries again. */
gboolean ps_calib_read_sentinel (const PsCalibration *calibration, GError **error);

/* ops.c: times the ops of the stages of devices first .. first + n_busy - 1, while only these devices are busy. Reads
 * the sentinel before, unless nothing is wanted. Processes that have further parts of the layers run them until nothing
 * is. With calibration->kept the device has a whole accelerator, and shapes end in ",blocks=8". */
gboolean ps_calibrate_ops (const PsCalibration *calibration, const PsCut *cut, guint first, guint n_busy,
                           PsCacheState cache, GError **error);

/* transfers.c: transfers and all-reduces; takes part in those of the first process; messages of a device to itself. */
gboolean ps_calibrate_transfers (const PsCalibration *calibration, GError **error);
gboolean ps_calibrate_others_transfer (const PsCalibration *calibration, const PsCalibOrder *order, GError **error);
gboolean ps_calibrate_self_sends (const PsCalibration *calibration, GError **error);

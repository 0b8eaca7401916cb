/* costdb.h - measured costs on disk: SQLite, schema in data/schema.sql, `PRAGMA user_version` = PS_COSTDB_VERSION, WAL.
 * One transaction per measurement, so a killed run loses at most the one under way. */
#ifndef PIPESIM_COSTDB_H
#define PIPESIM_COSTDB_H

#include <pipesim/costs.h>

G_BEGIN_DECLS

#define PS_COSTDB_VERSION 1

typedef struct _PsCostDb PsCostDb;

typedef enum
{
  PS_COSTDB_READ,  /* must exist */
  PS_COSTDB_WRITE, /* created when missing */
} PsCostDbMode;

/* Refuses files that are no SQLite database, no pipesim database or of another version, with one line naming the path.
 * Errors: PS_ERROR_IO, PS_ERROR_INPUT. */
PsCostDb *ps_costdb_open (const char *path, PsCostDbMode mode, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_costdb_close (PsCostDb *db);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCostDb, ps_costdb_close)

/* The library behind it, for the record: "SQLite 3.40.1". Free with g_free. */
char *ps_costdb_library (void);

/* Under which circumstances a profile was measured. All texts are set; "" when not known. */
typedef struct
{
  char *name; /* the user's name of the profile, unique in the database */
  char *model_name;
  char *model_digest; /* ps_model_digest */
  char *model_text;   /* ps_model_to_text */
  char *device;       /* device class: "cpu" */
  char *transport;    /* transport class: "threads" */
  char *host;
  char *processor; /* CPU or GPU model as the system names it */
  char *kernel;    /* operating system release */
  char *libraries; /* "OpenBLAS 0.3.21 SkylakeX; GLib 2.74.6; SQLite 3.40.1" */
  char *version;   /* pipesim's */
  char *created;   /* ISO 8601 UTC */
} PsProfile;

void ps_profile_free (PsProfile *profile);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsProfile, ps_profile_free)

/* Finds the profile of that name or creates it. An existing one must have the same model, device, transport, host and
 * processor, else PS_ERROR_INPUT says what differs. *id is its row. */
gboolean ps_costdb_begin_profile (PsCostDb *db, const PsProfile *profile, gint64 *id, GError **error);
GPtrArray *ps_costdb_profiles (PsCostDb *db, GError **error); /* of PsProfile, by name */

typedef struct
{
  gint64 median_ns;
  gint64 q1_ns;
  gint64 q3_ns;
  gint64 mad_ns; /* median absolute deviation from the median */
  gint64 min_ns;
  guint n; /* samples kept */
} PsStatistics;

/* One measured quantity with its raw samples. */
typedef struct
{
  gboolean transfer; /* FALSE: an op on a stage shape; TRUE: a transfer of `bytes` */
  PsOpKind kind;     /* ops only */
  char *shape;       /* ops only: ps_stage_shape_key; "" for transfers */
  gint64 bytes;      /* transfers only, else 0 */
  guint devices;     /* devices that were busy at the same time, this one included: 1 = alone */
  PsStatistics time;
  gint64 take_bytes;  /* ops only: peak over the op minus what was held before (of stage memory and activations; buffers
                         not counted) */
  gint64 give_bytes;  /* ops only: that peak minus what is held after */
  gint64 state_bytes; /* ops only: weights, gradients and optimizer state of the stage */
  char *stop;         /* why sampling stopped: "converged", "sample cap", "time cap" */
  gint64 *samples_ns; /* [n_samples] in the order taken, dropped first ones not included */
  guint n_samples;
  char *taken; /* ISO 8601 UTC */
} PsMeasurement;

void ps_measurement_free (PsMeasurement *measurement);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsMeasurement, ps_measurement_free)

/* One transaction. Replaces nothing: a measurement with the same key (profile, transfer, kind, shape, bytes, devices)
 * must not exist. */
gboolean ps_costdb_store (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error);

/* Whether that key is there already; samples, times and sizes of `key` are ignored. */
gboolean ps_costdb_has (PsCostDb *db, gint64 profile, const PsMeasurement *key, gboolean *found, GError **error);

/* All measurements of a profile, by key; samples only if with_samples. */
GPtrArray *ps_costdb_measurements (PsCostDb *db, const char *profile, gboolean with_samples, GError **error);

/* Costs of a model cut into n_devices * n_chunks stages, from a profile. Ops: the row of the stage's shape with
 * `devices` == n_devices, else the largest measured `devices` below, else the smallest above. Transfers: by linear
 * interpolation between the two nearest measured sizes around ps_model_boundary_bytes, `devices` chosen likewise.
 * profile NULL: the only one in the database. model NULL: the one stored with the profile. Errors: PS_ERROR_INPUT
 * naming the missing shape and the command that measures it. */
PsCosts *ps_costdb_costs (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, guint n_chunks,
                          GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The model stored with a profile (profile NULL: the only one). */
PsModel *ps_costdb_model (PsCostDb *db, const char *profile, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A real run with the prediction it is held against. */
typedef struct
{
  char *profile; /* "" when none was used */
  char *schedule;
  char *device;
  char *transport;
  guint n_devices;
  guint n_chunks;
  guint n_microbatches;
  guint n_steps;
  gint64 predicted_iteration_ns; /* simulated */
  gint64 measured_iteration_ns;  /* median over steps after the first */
  gint64 predicted_peak_bytes;
  gint64 measured_peak_bytes;
  char *check;   /* "bit-equal", "equal-within", "differs", "not run" */
  char *started; /* ISO 8601 UTC */
} PsRunRecord;

gboolean ps_costdb_store_run (PsCostDb *db, const PsRunRecord *run, GError **error);

G_END_DECLS

#endif

/* costdb.h - measured costs on disk: SQLite, schema in data/schema.sql, `PRAGMA user_version` = PS_COSTDB_VERSION, WAL.
 * One transaction per measurement, so a killed run loses at most the one under way.
 *
 * Functions that can fail return FALSE or NULL and set PS_ERROR_IO where the database or its disk fails, and
 * PS_ERROR_INPUT for what it holds or lacks; messages begin with its path. Arrays own what they hold; free them with
 * g_ptr_array_unref. A PsCostDb is for one thread at a time. */
#ifndef PIPESIM_COSTDB_H
#define PIPESIM_COSTDB_H

#include <pipesim/condition.h>
#include <pipesim/costs.h>
#include <pipesim/shares.h>

G_BEGIN_DECLS

#define PS_COSTDB_VERSION 4

typedef struct _PsCostDb PsCostDb;

typedef enum
{
  PS_COSTDB_READ,  /* must exist */
  PS_COSTDB_WRITE, /* created when missing */
} PsCostDbMode;

/* A database of an earlier version is brought to this one (data/schema-N-to-M.sql): in the file when it is opened for
 * writing, else in a copy in memory, and the file stays as it is. Refuses files that are no SQLite database, no pipesim
 * database or of a later version, with one line naming the path. The path is that of a file, never a URI. Errors:
 * PS_ERROR_IO, PS_ERROR_INPUT, PS_ERROR_USAGE for an empty path. */
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
  char *shares;       /* in what proportion its devices split accelerators (ps_shares_to_text); "": equal parts */
  char *host;
  char *processor; /* CPU or GPU model as the system names it */
  char *kernel;    /* operating system release */
  char *libraries; /* "OpenBLAS 0.3.21 SkylakeX; GLib 2.74.6; SQLite 3.40.1" */
  char *version;   /* pipesim's */
  char *created;   /* ISO 8601 UTC */
  char *choices;   /* PsDeviceClass.choices, what was measured ran with, in base64; "": none */
} PsProfile;

void ps_profile_free (PsProfile *profile);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsProfile, ps_profile_free)

/* The bytes that PsProfile.choices says; NULL where it is empty. where: for PS_ERROR_INPUT when it is no base64. */
gboolean ps_choices_parse (const char *where, const char *text, GBytes **choices, GError **error);

/* Finds the profile of that name or creates it. An existing one must have the same model, device, transport, shares,
 * host and processor, else PS_ERROR_INPUT says what differs. *id is its row. */
gboolean ps_costdb_begin_profile (PsCostDb *db, const PsProfile *profile, gint64 *id, GError **error);

/* Replaces the choices of the profile. */
gboolean ps_costdb_store_choices (PsCostDb *db, gint64 profile, GBytes *choices, GError **error);

GPtrArray *ps_costdb_profiles (PsCostDb *db, GError **error); /* of PsProfile, by name */

/* The profile of that name; NULL: the only one. PS_ERROR_INPUT says which there are. */
PsProfile *ps_costdb_profile (PsCostDb *db, const char *name, GError **error) G_GNUC_WARN_UNUSED_RESULT;

typedef struct
{
  gint64 median_ns;
  gint64 q1_ns;
  gint64 q3_ns;
  gint64 mad_ns; /* median absolute deviation from the median */
  gint64 min_ns;
  guint n; /* samples kept */
} PsStatistics;

/* Of fewer samples no two include their true median with 95 % probability, whatever the distribution: 2 / 2^n > 5 %. */
#define PS_MEDIAN_MIN_SAMPLES 6

/* What is measured. */
typedef enum
{
  PS_SUBJECT_OP,         /* an op on a stage shape */
  PS_SUBJECT_TRANSFER,   /* a message of `bytes` between two devices */
  PS_SUBJECT_SELF_SEND,  /* a message of a device to itself: what launching costs and nothing else */
  PS_SUBJECT_ALL_REDUCE, /* adding up `bytes` of numbers over `devices` processes */
  PS_N_SUBJECTS
} PsSubject;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_subject_name (PsSubject subject); /* "op", "transfer", "self-send", "all-reduce" */
gboolean ps_subject_parse (const char *where, const char *text, PsSubject *subject, GError **error);

/* What an op finds in the device's caches. */
typedef enum
{
  PS_CACHE_RUN,  /* what the ops before it in a real run leave: several stages and microbatches in turn */
  PS_CACHE_COLD, /* nothing: emptied before each op */
  PS_CACHE_WARM, /* as much of its data as fits: one stage and one microbatch, each op right after the one it needs */
  PS_N_CACHE_STATES
} PsCacheState;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_cache_state_name (PsCacheState state); /* "run", "cold", "warm" */
gboolean ps_cache_state_parse (const char *where, const char *text, PsCacheState *state, GError **error);

/* One measured quantity with its raw samples. */
typedef struct
{
  PsSubject subject;
  PsOpKind kind;      /* ops only */
  char *shape;        /* ops: ps_stage_shape_key, or that and ",blocks=8" for times that no prediction takes, of a whole
                         accelerator with so many multiprocessors kept from the op; self-sends: whose, "nccl-self";
                         transfers: what else goes on, "" for nothing, "both-ways", "pairs=2" or "beside-compute";
                         all-reduces: "" */
  gint64 bytes;       /* of the message; ops: 0 */
  guint devices;      /* devices that were busy at the same time, this one included: 1 = alone */
  guint sharing;      /* devices among which the accelerator is split, busy or not; 0 counts as 1 */
  guint share;        /* ops: that of the device in the profile's shares; 0: equal parts */
  PsCacheState cache; /* ops only */
  PsStatistics time;
  gint64 device_ns;   /* ops only: median of the accelerator's own part; the rest is launching; 0: not known */
  gint64 take_bytes;  /* ops only: peak over the op minus what was held before (of stage memory and activations; buffers
                         not counted) */
  gint64 give_bytes;  /* ops only: that peak minus what is held after */
  gint64 state_bytes; /* ops only: weights, gradients and optimizer state of the stage */
  char *stop;         /* why sampling stopped: "converged", "sample cap", "time cap" */
  gint64 *samples_ns; /* [n_samples] in the order taken, dropped first ones not included */
  guint n_samples;
  char *taken;        /* ISO 8601 UTC */
  PsCondition before; /* of the hardware when sampling began */
  PsCondition during; /* medians while it went on (ps_conditions_median) */
  PsCondition after;  /* when it ended */
} PsMeasurement;

/* The clock that a measurement is of: the median during it, else the one at its end; 0: not known. */
static inline gint64
ps_measurement_clock_mhz (const PsMeasurement *m)
{
  return m->during.clock_mhz > 0 ? m->during.clock_mhz : m->after.clock_mhz;
}

void ps_measurement_free (PsMeasurement *measurement);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsMeasurement, ps_measurement_free)

/* One transaction. Replaces nothing: a measurement with the same key (profile, subject, kind, shape, bytes, devices,
 * sharing, share, cache) must not exist. */
gboolean ps_costdb_store (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error);

/* The same in place of the measurement with that key, if there is one. */
gboolean ps_costdb_replace (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error);

/* Whether that key is there already; samples, times and sizes of `key` are ignored. */
gboolean ps_costdb_has (PsCostDb *db, gint64 profile, const PsMeasurement *key, gboolean *found, GError **error);

/* All measurements of the profile of that name, of PsMeasurement, by key; empty where there is none. Samples only if
 * with_samples. */
GPtrArray *ps_costdb_measurements (PsCostDb *db, const char *profile, gboolean with_samples, GError **error);

/* One op that is measured again and again while a profile grows: when it moves, the machine has changed. */
typedef struct
{
  char *what; /* which op: "F of layers=2,embedding" */
  gint64 median_ns;
  guint n;     /* samples behind it */
  char *taken; /* ISO 8601 UTC */
} PsSentinel;

void ps_sentinel_free (PsSentinel *sentinel);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSentinel, ps_sentinel_free)

/* Appends one reading to a profile's series. */
gboolean ps_costdb_store_sentinel (PsCostDb *db, gint64 profile, const PsSentinel *sentinel, GError **error);

/* The series of the profile of that name, of PsSentinel, in the order stored; empty where there is none. */
GPtrArray *ps_costdb_sentinels (PsCostDb *db, const char *profile, GError **error);

/* A measurement beside which the sentinel was further away than this does not count as one of a quiet machine. */
#define PS_SENTINEL_TOLERANCE 0.03

/* How far the machine had moved while each of `measurements` was taken: the distance of the sentinel's readings right
 * before and right after from their level, over the level; the larger one, 0 where there is none. The level is the
 * lower quartile of those readings over all measurements. Readings of fewer than PS_MEDIAN_MIN_SAMPLES samples, or of
 * another op than the first, are left out. shifts [measurements->len] may be NULL. Returns the largest; NaN
 * when no reading is left. */
double ps_sentinel_shifts (GPtrArray *sentinels, GPtrArray *measurements, double *shifts);

/* A whole profile from elsewhere, with its PsMeasurement and PsSentinel; all or nothing. None of that name may be
 * there.
 */
gboolean ps_costdb_add_profile (PsCostDb *db, const PsProfile *profile, GPtrArray *measurements, GPtrArray *sentinels,
                                GError **error);

/* Costs of a model cut into n_devices * n_chunks stages, from a profile. Ops: of the rows of the stage's shape and
 * PS_CACHE_RUN the one with `devices` == n_devices, else the largest measured `devices` below, else the smallest above;
 * among equal ones `sharing` is chosen likewise. Transfers: by linear interpolation between the two nearest measured
 * sizes around ps_model_boundary_bytes with nothing else going on, `devices` and `sharing` chosen likewise. R lasts as
 * long as F where it was not measured, which calib run does on no device of this build.
 * Where the profile has unequal shares, stage i has the rows measured with the share of device i mod n_devices, and the
 * costs are for placement loop only (PsCosts.loop_only); n_devices must be the number of the shares.
 * profile NULL: the only one in the database. model NULL: the one stored with the profile. Errors: PS_ERROR_INPUT
 * naming the missing shape and the command that measures it. */
PsCosts *ps_costdb_costs (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, guint n_chunks,
                          GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* How the measured times of ops and transfers spread: every sample over the median that ps_costdb_costs takes. */
typedef struct
{
  guint n_stages;
  GArray **op;      /* [kind * n_stages + stage] of double; NULL: no samples. R has those of F if none of its own */
  GArray *transfer; /* of double: of the measured size that is the nearest at or above the model's boundary, or the
                       largest; NULL: no samples */
  double largest;   /* of all, and 1 */
} PsCostSpread;

/* Chooses rows as ps_costdb_costs does. */
PsCostSpread *ps_costdb_spread (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices,
                                guint n_chunks, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_cost_spread_free (PsCostSpread *spread);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCostSpread, ps_cost_spread_free)

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
  gint64 clock_mhz; /* median over the steps of the slowest device; 0: not known */
  char *check;      /* "bit-equal", "equal-within", "differs", "not run" */
  char *started;    /* ISO 8601 UTC */
} PsRunRecord;

void ps_run_record_free (PsRunRecord *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsRunRecord, ps_run_record_free)

/* Appends one run, in a transaction. */
gboolean ps_costdb_store_run (PsCostDb *db, const PsRunRecord *run, GError **error);

/* All runs in the order stored, of PsRunRecord. */
GPtrArray *ps_costdb_runs (PsCostDb *db, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif

/* costdb.h - measured costs on disk: SQLite, schema in data/schema.sql, `PRAGMA user_version` = PS_COSTDB_VERSION, WAL.
 * One transaction per measurement, so a killed run loses at most the one that it is taking.
 *
 * Functions that can fail return FALSE or NULL. They set PS_ERROR_IO where the database or its disk fails, and
 * PS_ERROR_INPUT for what it holds or lacks; messages begin with its path. Arrays own their elements; free them with
 * g_ptr_array_unref. A PsCostDb is for one thread at a time.
 */
#ifndef PIPESIM_COSTDB_H
#define PIPESIM_COSTDB_H

#include <pipesim/cluster.h>
#include <pipesim/costs.h>

G_BEGIN_DECLS

#define PS_COSTDB_VERSION 1

typedef struct _PsDatabase PsCostDb;

typedef enum {
  PS_COSTDB_READ,  /* must exist */
  PS_COSTDB_WRITE, /* created when missing */
} PsCostDbMode;

/* Opens a database. Refuses files that are no SQLite database, no pipesim database or of another version, with one line
 * naming the path. The path is that of a file, never a URI.
 * Errors: PS_ERROR_IO, PS_ERROR_INPUT, PS_ERROR_USAGE for an empty path. */
PsCostDb *ps_costdb_open (const char *path, PsCostDbMode mode, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_costdb_close (PsCostDb *db);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCostDb, ps_costdb_close)

/* The database library, for the record: "SQLite 3.40.1". Free with g_free. */
char *ps_database_library (void);

/* The circumstances of a profile. All texts are set; "" when not known. */
typedef struct {
  char *name;       /* the user's name of the profile; read back of an earlier calibration: with its number, "here#1" */
  char *model_name; /* this and the next two are "" where only stages are known, whose shapes are "stage=3/8" */
  char *model_digest; /* ps_model_digest */
  char *model_text;   /* ps_model_to_text */
  char *device;       /* device class: "cpu" */
  char *transport;    /* transport class: "threads" */
  char *shares;       /* proportion in which its devices split accelerators (ps_shares_to_text); "": equal parts */
  char *host;
  char *processor; /* CPU or GPU model as the system names it */
  char *kernel;    /* operating system release */
  char *libraries; /* "OpenBLAS 0.3.21 SkylakeX; GLib 2.74.6; SQLite 3.40.1" */
  char *version;   /* pipesim's */
  char *created;   /* ISO 8601 UTC */
  char *choices;   /* PsDeviceClass.choices of the measured device, in base64; "": none */
  char *source;    /* an imported profile: where it comes from; "": measured here */
  char *places;    /* places of its devices (see below); "": not known */
  guint number;    /* number of the calibration among those of its name, from 1; 0: not stored */
  gint64 id;       /* id of its row, where it was read from a database */
} PsProfile;

void ps_profile_free (PsProfile *profile);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsProfile, ps_profile_free)

/* The bytes of PsProfile.choices; NULL where it is empty. where begins the message of PS_ERROR_INPUT when the text is
 * no base64. */
gboolean ps_choices_parse (const char *where, const char *text, GBytes **choices, GError **error);

/* A profile has calibrations, each measured or imported by itself. They are numbered from 1 and kept side by side.
 * Names in the functions below mean the last one, "here", or any, "here#1".
 *
 * ps_costdb_begin_profile finds the last calibration of the profile's name or creates the first one; *id is its row. It
 * adds the places that the calibration does not have yet: all, or those of further devices at the end.
 * ps_costdb_add_calibration creates the next one. Both fail with PS_ERROR_INPUT where the last calibration has another
 * model, device, transport, shares, host or processor (the message says which), and PS_ERROR_USAGE for a name that ends
 * like "#1". */
gboolean ps_costdb_begin_profile (PsCostDb *db, const PsProfile *profile, gint64 *id, GError **error);
gboolean ps_costdb_add_calibration (PsCostDb *db, const PsProfile *profile, gint64 *id, GError **error);

/* Replaces the choices of the profile. */
gboolean ps_costdb_store_choices (PsCostDb *db, gint64 profile, GBytes *choices, GError **error);

/* All calibrations of all profiles, of PsProfile, by name and number. */
GPtrArray *ps_costdb_profiles (PsCostDb *db, GError **error);

/* TRUE: both are calibrations of one profile. */
gboolean ps_profile_is_same (const PsProfile *a, const PsProfile *b);

/* The profile of that name; NULL: the only one. PS_ERROR_INPUT says which there are. */
PsProfile *ps_costdb_profile (PsCostDb *db, const char *name, GError **error) G_GNUC_WARN_UNUSED_RESULT;

typedef struct {
  gint64 median_ns;
  gint64 q1_ns;
  gint64 q3_ns;
  gint64 mad_ns; /* median absolute deviation from the median */
  gint64 min_ns;
  guint n; /* samples kept */
} PsStatistics;

/* With fewer samples no two of them include the true median with 95 % probability, whatever the distribution: 2 / 2^n >
 * 5 %. */
#define PS_MEDIAN_MIN_SAMPLES 6

/* The subject of a measurement. */
typedef enum {
  PS_SUBJECT_OP,         /* an op on a stage shape */
  PS_SUBJECT_TRANSFER,   /* a message of `bytes` between two devices */
  PS_SUBJECT_SELF_SEND,  /* a message of a device to itself: the time of launching alone */
  PS_SUBJECT_ALL_REDUCE, /* adding up `bytes` of numbers over `devices` processes, or threads of one */
  PS_SUBJECT_PAIR,       /* an overlapped pair, by the shape of its forward's stage */
  PS_SUBJECT_HOST,       /* the host's time for each op, or for each send or receive */
  PS_N_SUBJECTS
} PsSubject;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_subject_name (PsSubject subject); /* "op", "transfer", "self-send", "all-reduce", "pair", "host" */
gboolean ps_subject_parse (const char *where, const char *text, PsSubject *subject, GError **error);

/* The content of the device's caches when an op starts. */
typedef enum {
  PS_CACHE_RUN, /* as the ops before it in a real run leave them: several stages and microbatches one after the other */
  PS_CACHE_COLD, /* nothing: emptied before each op */
  PS_CACHE_WARM, /* as much of its data as fits: one stage and one microbatch, each op right after the one it needs */
  PS_N_CACHE_STATES
} PsCacheState;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_cache_state_name (PsCacheState state); /* "run", "cold", "warm" */
gboolean ps_cache_state_parse (const char *where, const char *text, PsCacheState *state, GError **error);

/* One measured quantity with its raw samples. */
typedef struct {
  PsSubject subject;
  PsOpKind kind;      /* ops only */
  char *shape;        /* ops: ps_stage_shape_key. ",blocks=8" after it: on a whole accelerator while others held 8
                         multiprocessors; predictions do not take such times. ",slice=1/4" after it: on
                         one slice of sequences cut into four (ps_slice_key). ",warm" after it: PS_WARM_SUFFIX.
                         self-sends: "nccl-self".
                         transfers: what runs at the same time: "" (nothing), "both-ways", "pairs=2", "during-compute".
                         Or their one boundary, "stage=3/8" for the activation that stage 3 hands on, "stage=3/8,back"
                         for its gradient. all-reduces: "". host: "op", "send" or "receive" */
  gint64 bytes;       /* bytes of the message; ops: 0 */
  guint devices;      /* devices that were busy at the same time, this one included: 1 = alone */
  guint sharing;      /* devices among which the accelerator is split, busy or not; 0 counts as 1 */
  guint share;        /* ops: the device's share in the profile's shares; 0: equal parts */
  PsCacheState cache; /* ops only */
  PsStatistics time;
  gint64 launch_ns;   /* ops only: median of what the host takes beyond the accelerator, whose own time the samples are;
                         0: the samples are the host's time */
  gint64 take_bytes;  /* ops only: peak over the op minus the bytes held before (of stage memory and activations;
                         buffers not counted) */
  gint64 give_bytes;  /* ops only: that peak minus the bytes held after */
  gint64 state_bytes; /* ops only: weights, gradients and optimizer state of the stage */
  char *stop; /* why sampling stopped: "converged", "sample cap", "time cap"; "imported"; "estimated" from the model's
                 operations and another measurement */
  gint64 *samples_ns; /* [n_samples] in the order taken, dropped first ones not included */
  guint n_samples;
  char *taken;        /* ISO 8601 UTC */
  gint64 id;          /* id of its row, where it was read from a database */
  PsCondition before; /* condition of the hardware when sampling began */
  PsCondition during; /* medians while it went on (ps_conditions_median) */
  PsCondition after;  /* when it ended */
} PsMeasurement;

/* The clock of a measurement: the median during it, else the one at its end; 0: not known. */
static inline gint64 ps_measurement_clock_mhz (const PsMeasurement *m)
{
  return m->during.clock_mhz > 0 ? m->during.clock_mhz : m->after.clock_mhz;
}

/* The measurement of the same quantity, that is with the same key (see ps_costdb_store); NULL: there is none. */
const PsMeasurement *ps_measurement_find (GPtrArray *measurements, const PsMeasurement *key);

void ps_measurement_free (PsMeasurement *measurement);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsMeasurement, ps_measurement_free)

/* One transaction. Replaces nothing: a measurement with the same key (profile, subject, kind, shape, bytes, devices,
 * sharing, share, cache) must not exist. */
gboolean ps_costdb_store (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error);

/* The same, but replaces the measurement with that key if there is one. */
gboolean ps_costdb_replace (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error);

/* *found: the profile has a measurement with that key. Samples, times and sizes of `key` are ignored. */
gboolean ps_costdb_has (PsCostDb *db, gint64 profile, const PsMeasurement *key, gboolean *found, GError **error);

/* All measurements of the profile of that name, of PsMeasurement, by key; empty where there is none. Samples only if
 * with_samples. */
GPtrArray *ps_costdb_measurements (PsCostDb *db, const char *profile, gboolean with_samples, GError **error);

/* Reads the samples of a measurement that was read without them. */
gboolean ps_costdb_read_samples (PsCostDb *db, PsMeasurement *measurement, GError **error);

/* A reading of one op that is measured again and again while a profile grows: when it moves, the machine has
 * changed. */
typedef struct {
  char *what; /* the op: "F of layers=2,embedding" */
  gint64 median_ns;
  guint n;     /* samples taken */
  char *taken; /* ISO 8601 UTC */
} PsSentinel;

void ps_sentinel_free (PsSentinel *sentinel);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSentinel, ps_sentinel_free)

/* Appends one reading to a profile's series. */
gboolean ps_costdb_store_sentinel (PsCostDb *db, gint64 profile, const PsSentinel *sentinel, GError **error);

/* The series of the profile of that name, of PsSentinel, in the order stored; empty where there is none. */
GPtrArray *ps_costdb_sentinels (PsCostDb *db, const char *profile, GError **error);

/* A measurement counts as one of a quiet machine when the sentinel read right before or after it moved by no more than
 * this. */
#define PS_SENTINEL_TOLERANCE 0.03

/* A warning about rankings from such costs (PsCosts.unrest): "this machine was not quiet: +-12 %; ..."; "" within the
 * tolerance. rows names the rows of the table that were measured then, "zb-h1, 1f1b"; "": all. Free with g_free. */
char *ps_unrest_to_text (double unrest, const char *rows);

/* Writes into shifts [measurements->len] (may be NULL) how far the machine had moved while each of `measurements` was
 * taken. A shift is the distance of a reading of the sentinel from its level, over the level: the larger one of the
 * readings right before and right after, 0 where there is none. The level is the lower quartile of those readings over
 * all measurements. Readings of fewer than PS_MEDIAN_MIN_SAMPLES samples, or of another op than the first, are left
 * out. Returns the largest shift; NaN when no reading is left. */
double ps_sentinel_shifts (GPtrArray *sentinels, GPtrArray *measurements, double *shifts);

/* How much slower the machine is now than it was for a profile, by the sentinel. */
typedef struct {
  double factor; /* NaN: not known */
  double error;  /* its relative standard deviation */
} PsSlowdown;

/* Writes into slowdown [moments->len] that of each moment (PsMeasurement.taken) against `measurements`: the mean of the
 * readings right before and right after, over the median of the readings next to the measurements. The error follows
 * from how far the latter lie apart. */
void ps_sentinel_slowdown (GPtrArray *sentinels, GPtrArray *measurements, GPtrArray *moments, PsSlowdown *slowdown);

/* The shape of a stage without a model, and of the boundary over which it hands on its activation or, back, its
 * gradient: "stage=3/8" and "stage=3/8,back". Free with g_free. */
char *ps_stage_key (guint stage, guint n_stages, gboolean back);

/* After the shape of ops that were warm (ps_op_is_warm); without it they were not. */
#define PS_WARM_SUFFIX ",warm"

/* The shape of ops on one slice of sequences cut into n_slices: "layers=2,embedding,slice=1/4". Free with g_free. */
char *ps_slice_key (const char *shape, guint slice, guint n_slices);

/* Costs of a model cut into n_devices * n_chunks stages, from a profile.
 * - Ops come from the rows of the stage's shape and PS_CACHE_RUN. Among these ps_costdb_costs takes the row with
 *   `devices` == n_devices, else the largest `devices` below, else the smallest above. Among rows of equal `devices` it
 *   chooses `sharing` by the same rule.
 * - Transfers are interpolated linearly between the two measured sizes next to ps_model_boundary_bytes, measured while
 *   nothing else ran. `devices` and `sharing` are chosen as for ops. Links between devices of several classes
 * (costdb.h) have the times of their class, stage i being on device i mod n_devices.
 * - R lasts as long as F where it was not measured.
 * - A stage whose shape recomputes or offloads has the rows of that shape where there are any. Else it has those of the
 *   shape without, which the costs' shape then says (ps_costs_recompute, ps_costs_offload).
 * - Host times and pairs come from their rows, where there are any; those of posts are means.
 * - The parts of what a stage holds are those of the model's formulas.
 *
 * An imported profile may lack kinds of ops, which are then unknown (PsStageCost). Without a model its stages are those
 * of the run that it was read from; boundaries that no message crossed have the median of the others.
 *
 * Where the profile has unequal shares, stage i has the rows measured with the share of device i mod n_devices. The
 * costs are for placement loop only then (PsCosts.loop_only), and n_devices must be the number of the shares. profile
 * NULL: the only one in the database. model NULL: the one stored with the profile. Errors: PS_ERROR_INPUT naming the
 * missing shape and the command that measures it.
 */
PsCosts *ps_costdb_costs (PsCostDb *db, const char *profile, const PsModel *model, guint n_devices, guint n_chunks,
                          GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for stages of these shapes [n_devices * n_chunks]; NULL: those of ps_model_split. op_by_op: the host waits
 * for each op before it starts the next, so that an op takes its launch and the wait, too (launch_ns). Otherwise the
 * host runs ahead of the accelerator. The all-reduces of n_replicas, and of two weight copies on each of them, have the
 * times of the profile's, interpolated as transfers are, over as many processes or threads as come closest; 0 where
 * none was measured. */
PsCosts *ps_costdb_stage_costs (PsCostDb *db, const char *profile, const PsModel *model, const PsStageShape *shapes,
                                guint n_devices, guint n_chunks, gboolean op_by_op, guint n_replicas,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The spread of measured times of ops and transfers. Within a run an op takes one of its samples, over the median that
 * ps_costdb_costs takes. From one run to another the medians differ themselves (docs/intervals.md). */
typedef struct {
  guint n_stages;
  GArray **op;       /* [kind * n_stages + stage] of double; NULL: no samples. R without samples has those of F */
  GArray *transfer;  /* of double: for the smallest measured size at or above the model's boundary, else the largest;
                        NULL: no samples */
  double largest;    /* largest of all samples, at least 1 */
  guint n_rows;      /* measurements that the times come from; all stages of a shape share theirs */
  guint *row;        /* [PS_N_OP_KINDS * n_stages + 1] as op, the transfers' last; PS_NO_ROW: none */
  double *deviation; /* [n_rows] relative standard deviation of a run's median from the measured one, `common` apart */
  double common;     /* the same of a factor that all times of a run share */
  double freedom;    /* degrees of freedom (Student's t) that `common` is known with, at least 1 */
} PsCostSpread;

#define PS_NO_ROW G_MAXUINT

/* Sets deviation, common and freedom. rows holds a GPtrArray for each row: its PsMeasurement in every calibration, NULL
 * where one lacks it. sentinels holds a GPtrArray of PsSentinel for every calibration. The times are those of the last
 * calibration, which has all rows. Samples must be there. */
void ps_cost_spread_set_runs (PsCostSpread *spread, GPtrArray *rows, GPtrArray *sentinels);

/* Chooses rows as ps_costdb_stage_costs does. */
PsCostSpread *ps_costdb_spread (PsCostDb *db, const char *profile, const PsModel *model, const PsStageShape *shapes,
                                guint n_devices, guint n_chunks, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_cost_spread_free (PsCostSpread *spread);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCostSpread, ps_cost_spread_free)

/* The model stored with a profile (profile NULL: the only one). */
PsModel *ps_costdb_model (PsCostDb *db, const char *profile, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A real run and its prediction. */
typedef struct {
  char *profile; /* with the number of its calibration, "here#2"; "" when none was used */
  char *schedule;
  char *device; /* class; "cpu --tensor 2" where two share each stage */
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

/* Where devices stand in their machines, and which of the links between them are alike.
 *
 * A place is the path from the host down to the device, level by level, each level with its kind and number:
 * "node1/Package:0/L3:1/Core:4"; "node1" where the system chooses the core. The place of an accelerator ends with its
 * bus id and the number of direct links to each other one: "node1/Package:0/GPU:0000:1b:00.0+0000:3b:00.0*4", or to a
 * switch that all share: "...+switch*18". The places of devices 0, 1, ... are one text, with ";" in between.
 */

/* The class of the link between two places, by the fastest that they share: "network" between hosts; "nvlink*4" where
 * accelerators have direct links; else the kind of their last common level, "package" or "l3", and "machine" where they
 * share the host alone. Links of one class are equal as far as the topology says. Free with g_free. */
char *ps_link_class (const char *a, const char *b);

/* The same for two devices of a profile; NULL: it does not know their places. */
char *ps_places_link_class (const char *places, guint a, guint b);

/* The shapes of transfers (PsMeasurement) over one link, "link=0-3" with the smaller number first, and over links of a
 * class, "link=package". Those of the class that the first link belongs to have the shape "". Free with g_free. */
char *ps_link_key (guint a, guint b);
char *ps_link_class_key (const char *link_class);

/* Whether two transfers of one size differ by more than the noise: each median lies outside the quartiles of the other,
 * and they are further apart than PS_SENTINEL_TOLERANCE. */
gboolean ps_links_differ (const PsMeasurement *a, const PsMeasurement *b);

/* A measured profile as text, one line per measurement, to be kept with sources, compared and carried to
 * another machine.
 *
 * The text is JSON, format "pipesim-profile/1": the members of PsProfile, then "sentinels" and "measurements", each an
 * array with one object per line. Members are those of the structures in costdb.h under their names in the database.
 * Left out are: unknown values; "choices" where there are none; "shares" and "share" of equal parts; "samples_ns"
 * unless asked for. Text -> database -> text gives the same bytes, and database -> text -> database the same rows.
 */

typedef struct {
  PsProfile *profile;
  GPtrArray *measurements; /* of PsMeasurement, by key */
  GPtrArray *sentinels;    /* of PsSentinel, in the order taken */
} PsProfileContents;

void ps_profile_contents_free (PsProfileContents *contents);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsProfileContents, ps_profile_contents_free)

/* Stores a whole profile from elsewhere; all or nothing. It is the next calibration of its name, and fails as
 * ps_costdb_add_calibration does. One that was created at the same moment as the last one is refused: it is there
 * already. */
gboolean ps_costdb_add_profile (PsCostDb *db, const PsProfileContents *contents, GError **error);

/* Errors: PS_ERROR_INPUT when the database has no profile of that name (NULL: the only one). */
PsProfileContents *ps_profile_contents_load (PsCostDb *db, const char *name, gboolean with_samples,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Free with g_free. */
char *ps_profile_contents_to_text (const PsProfileContents *contents);

/* Reads it back strictly: every key known, every figure in range, no measurement twice, the digest that of the model,
 * as many samples as are counted. Errors: PS_ERROR_INPUT "where:line: key: ...". */
PsProfileContents *ps_profile_contents_parse (const char *where, const char *text, gsize length,
                                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif

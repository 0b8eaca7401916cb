/* sweep.h - predictions of many settings on disk: SQLite, schema and views in data/results.sql, `PRAGMA user_version`
 * = PS_RESULTS_VERSION, WAL. A database is of one sweep; its rows are the settings of the sweep, each once: a
 * prediction, or why there is none. Rows are stored in transactions, so a killed program leaves whole rows only.
 *
 * Functions that can fail return FALSE or NULL and set PS_ERROR_IO where the database or its disk fails, and
 * PS_ERROR_INPUT for what it holds; messages begin with its path. A PsResults is for one thread at a time. */
#ifndef PIPESIM_SWEEP_H
#define PIPESIM_SWEEP_H

#include <pipesim/timeline.h>
#include <pipesim/option.h>
#include <pipesim/setting.h>

G_BEGIN_DECLS

#define PS_RESULTS_VERSION 1

typedef struct _PsResults PsResults;

typedef enum {
  PS_RESULTS_READ,  /* must exist */
  PS_RESULTS_WRITE, /* created when missing */
} PsResultsMode;

/* Refuses files that are no SQLite database, no results or of another version, with one line naming the path. The path
 * is that of a file, never a URI. Errors: PS_ERROR_IO, PS_ERROR_INPUT, PS_ERROR_USAGE for an empty path. */
PsResults *ps_results_open (const char *path, PsResultsMode mode, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_results_close (PsResults *results);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsResults, ps_results_close)

/* Columns of a prediction's figures, after those of the options of SETTING; the view result has some more. */
#define PS_N_STORED_FIGURES 17
#define PS_N_FIGURES 20

typedef enum {
  PS_ROLE_SETTING, /* what was asked for */
  PS_ROLE_FIGURE,  /* what came out */
  PS_ROLE_ORIGIN,  /* where that comes from */
  PS_ROLE_DERIVED, /* follows from the others; of the view only */
} PsResultRole;

typedef struct {
  PsColumn column; /* name in the database, and how tables show it */
  PsResultRole role;
} PsResultColumn;

/* All columns of the view result after point and digest: those of ps_setting_options, then the figures. */
const PsResultColumn *ps_result_columns (guint *n);
int ps_result_column_find (const char *name); /* its index, or -1 */

#define PS_DIGEST_LENGTH 32 /* hexadecimal digits */

/* One setting. */
typedef struct {
  guint64 point;
  char digest[PS_DIGEST_LENGTH + 1];
  char *reason;    /* why there is no prediction; NULL: there is one, and values are set */
  PsValue *values; /* [ps_setting_n_options + PS_N_STORED_FIGURES] */
  char *detail;    /* texts of two of the values, which are owned here; layout may be NULL */
  char *layout;
} PsResult;

void ps_result_free (PsResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsResult, ps_result_free)

/* The value of that column; there must be one. */
const PsValue *ps_result_value (const PsResult *result, const char *column);

const char *ps_results_path (const PsResults *results);

/* The sweep of the database, as ps_results_begin was given it. Free spec and digest with g_free. Errors: PS_ERROR_INPUT
 * when there is none, or when it was made by another version of pipesim. */
gboolean ps_results_sweep (PsResults *results, char **spec, char **digest, guint64 *n_points, GError **error);

/* Makes the database that of a sweep, or finds it so already. Errors: PS_ERROR_INPUT when it is of another sweep or was
 * made by another version of pipesim. */
gboolean ps_results_begin (PsResults *results, const char *digest, const char *spec, guint64 n_points, GError **error);

/* A set of the digests (char *) of all settings that it holds. Free with g_hash_table_unref. */
GHashTable *ps_results_digests (PsResults *results, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* How many settings of its sweep, which has begun, are predicted, skipped, and neither. */
gboolean ps_results_count (PsResults *results, guint64 *predicted, guint64 *skipped, guint64 *missing, GError **error);

/* Stores n settings in one transaction; what is there already stays. */
gboolean ps_results_store (PsResults *results, PsResult *const *rows, guint n, GError **error);

/* Adds what another database of the same sweep holds and this one does not; a new database becomes one of that sweep.
 */
gboolean ps_results_merge (PsResults *results, const char *path, GError **error);

/* Why settings were skipped, {reason, settings}, the most frequent first, at most that many. */
PsTable *ps_results_reasons (PsResults *results, guint most, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Questions to a database of results: the settings that are worth having, the best one, and the point
 * where one schedule overtakes another. */

/* Columns are named by their keys in the view result (data/results.sql); conditions take what people call them, too.
 * Settings that do not fit their memory limit count only where a condition is about the column fits. Asynchronous
 * schedules train differently: they count only where a condition of `where` names one ("schedule=NAME") or is about the
 * column asynchronous ("asynchronous=any" always holds). */
typedef struct {
  char **per;     /* columns: one answer for each combination of their values (PsScope); NULL or none: one for all */
  char **where;   /* "COLUMN=VALUE" (or != <= >= < >) that all must hold; NULL: nothing. With units */
  char **columns; /* pareto, best: more columns for the rows; NULL: none */
  char *by;       /* a column that should be small, such as time */
  guint top;      /* best: number of settings in each group, at least 1 */
  char *over;     /* sensitivity: the column that changes; NULL: microbatches */
  gint64 *limits; /* best: memory limits in bytes, ascending, one answer for each; NULL: those of the settings */
  guint n_limits;
} PsQuestion;

/* A table with the columns that it points into. */
typedef struct {
  PsColumn *columns;
  PsTable *table;
  char *about; /* as of PsScope */
} PsAnswer;

/* How a question divides the settings. Circumstances are no choices: bandwidth, latency, model, cluster, costs, memory
 * limit, batch and all else that is as it is. Where they vary, each combination has an answer of its own, as if `per`
 * named them. With microbatches in `per` the batch follows from them, and what multiplies it is held instead. */
typedef struct {
  char **per;     /* the question's own, then the circumstances that vary; only its own where those are NULL or none */
  char **varying; /* columns of settings with several values */
  gboolean asynchronous; /* asynchronous schedules count */
  char *about; /* "fixed: p = 4; held apart: bandwidth factor; chosen: schedule, m, v"; defaults are left out */
} PsScope;

void ps_scope_free (PsScope *scope);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsScope, ps_scope_free)

/* All functions below divide so. Errors: PS_ERROR_USAGE for unknown columns and values. */
PsScope *ps_question_scope (PsResults *results, const PsQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A value of that column for people: "zb-h1", "8", "16 GiB", "yes"; "none" if there is none. Free with g_free. */
char *ps_result_value_text (const char *column, const PsValue *value);

/* What a question leaves out, schedules that are asynchronous and settings that do not fit, as a sentence for people;
 * "" for none. Free with g_free. Errors: PS_ERROR_USAGE for unknown columns and values. */
char *ps_question_left_out (PsResults *results, const PsQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;

void ps_answer_free (PsAnswer *answer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsAnswer, ps_answer_free)

/* Puts the key of a column of the view result in place of what people call it (ps_column_is_called). With `number` it
 * must be a column of numbers. The message starts with `option`. Errors: PS_ERROR_USAGE. */
gboolean ps_result_column_resolve (const char *option, char **name, gboolean number, GError **error);

/* Fails about a question that no setting answers: says whether the database holds no prediction, or none that fits. Its
 * path stands first in the message. */
gboolean ps_question_refuse_none (PsResults *results, const PsQuestion *question, const char *path, GError **error);

/* Values of some columns, row by row. */
typedef struct {
  guint n_columns;
  guint n_rows;
  guint64 *points; /* [n_rows] numbers of the settings */
  PsValue *values; /* [row * n_columns + column]; texts are owned here */
} PsResultValues;

void ps_result_values_free (PsResultValues *values);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsResultValues, ps_result_values_free)

/* These columns (ending with NULL) of the fastest setting of each group, by the columns of `per`. `top` and limits
 * count for nothing. Errors: PS_ERROR_USAGE for unknown columns and values. */
PsResultValues *ps_results_values (PsResults *results, const PsQuestion *question, const char *const *columns,
                                   GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The Pareto front of time against peak memory of each group, by group, then memory. It leaves out a setting where
 * another one is faster without more memory, or needs less without being slower; of equal ones it keeps the first. Rows
 * hold the columns of `per`, the settings that differ anywhere, and the figures. Errors: PS_ERROR_USAGE for unknown
 * columns and values. */
PsAnswer *ps_results_pareto (PsResults *results, const PsQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The fastest settings of each group; among equals those that need less memory. */
PsAnswer *ps_results_best (PsResults *results, const PsQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The fastest schedule as the column `over` goes from its smallest value to its largest: one row for each stretch that
 * one schedule wins. Everything else that was swept is held fixed; or only `per`, when given, with the best of all that
 * it leaves open.
 *
 * - from, to: first and last value of the stretch;
 * - winner: its fastest schedule; the winner before stays so while it is as fast as any;
 * - ahead: the time that it saves against the second at `from`, as a part of the second's;
 * - before: the winner of the stretch before;
 * - break_even: the value where both are as fast, by linear interpolation between the last value before and `from`;
 *   numbers only;
 * - statement: the same in words.
 *
 * Errors: PS_ERROR_USAGE for unknown columns and values.
 */
PsAnswer *ps_results_sensitivity (PsResults *results, const PsQuestion *question,
                                  GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Many settings, read from a spec, predicted and stored.
 *
 * A spec is a text of lines: [sweep] and [zip NAME] groups, `field = values`, and comments. A comment begins with a #
 * at the start of a line or after white space. Fields are the options of SETTING by their long names (or by what
 * ps_column_is_called takes: p, memory_limit), and
 *
 * - schedule: families, schedule files, or all;
 * - global-batch: sequences per step, in place of microbatches: replicas and microbatch-size then give their number;
 * - microbatch-size: sequences per microbatch of a model on a cluster;
 * - costs.f, costs.c, costs.act, ...: a key of costs by itself; costs gives the others.
 *
 * Options without a value take yes or no; chunks, slices and group take `auto` too, memory-limit and ready-order
 * `none`. Values are lists `a, b, c` (costs: `a; b`, as they hold commas). Numbers, with or without a unit, can also be
 * ranges: `4..8` (4, 5, 6, 7, 8), `4..64 step 4` (4, 8, ..., 64), `8GiB..64GiB x2` (8GiB, 16GiB, 32GiB, 64GiB).
 *
 * Every value of a field of [sweep] meets every value of the others. The fields of a [zip NAME] have as many values
 * each and go through them together, as one field would.
 */

#define PS_MAX_SWEEP_VALUES 100000      /* values of one field */
#define PS_MAX_SWEEP_POINTS 1000000000U /* settings of a sweep */

/* A spec that has been read. Settings have numbers ("points") from 0 on; the order is that of the fields' influence,
 * not of the spec: schedules change fastest, devices slowest. */
typedef struct _PsSweep PsSweep;

/* Reads a spec and checks every value by itself, named files included. Errors: PS_ERROR_INPUT "FILE:LINE: ...",
 * PS_ERROR_IO. Free with ps_sweep_free. */
PsSweep *ps_sweep_load (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same from text in memory; `where` names it in messages. */
PsSweep *ps_sweep_parse (const char *where, const char *text, gsize length, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_sweep_free (PsSweep *sweep);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSweep, ps_sweep_free)

guint64 ps_sweep_n_points (const PsSweep *sweep);

/* Predicts one setting after the other, keeping programs and costs that several of them share. For one thread. */
typedef struct _PsSweepWorker PsSweepWorker;
PsSweepWorker *ps_sweep_worker_new (const PsSweep *sweep);
void ps_sweep_worker_free (PsSweepWorker *worker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSweepWorker, ps_sweep_worker_free)

/* Digest alone of a setting, without predicting it. */
void ps_sweep_point_digest (const PsSweep *sweep, guint64 point, char digest[PS_DIGEST_LENGTH + 1]);

/* The prediction of a setting by ps_predict, or the reason why there is none. Values live as long as result and sweep.
 * NULL and an error (PS_ERROR_IO, PS_ERROR_UNAVAILABLE) only where the machine fails, not the setting. */
PsResult *ps_sweep_worker_predict (PsSweepWorker *worker, guint64 point, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A part of a sweep: every n-th block of settings, from the index-th on. */
typedef struct {
  guint index; /* 0.. n - 1 */
  guint n;
} PsShard;

/* Reads "2/8", the third of eight. Errors: PS_ERROR_USAGE. */
gboolean ps_shard_parse (const char *where, const char *text, PsShard *shard, GError **error);

/* The progress of a run. */
typedef struct {
  guint64 n_points; /* points of the shard */
  guint64 present;  /* in the database before */
  guint64 predicted;
  guint64 skipped;
} PsSweepProgress;

typedef struct {
  guint n_jobs; /* threads, at least 1 */
  PsShard shard;
} PsSweepRun;

/* Predicts all settings of the shard that results does not hold, and stores them; shows progress. The stored rows
 * depend neither on n_jobs nor on interruptions. *progress is where it ended. Errors: those of results, PS_ERROR_IO. */
gboolean ps_sweep_run (const PsSweep *sweep, PsResults *results, const PsSweepRun *run, PsSweepProgress *progress,
                       GError **error);

/* How many settings of the shard results hold. Errors as of ps_sweep_run. */
gboolean ps_sweep_present (const PsSweep *sweep, PsResults *results, PsShard shard, guint64 *present, GError **error);

/* The timelines of the settings in a database of results. The database holds settings and their
 * figures, and no timelines; the settings say all that is needed to simulate them again. */

/* The sweep of a database, read back from its own record. Files that the spec names are looked for where they were
 * then, seen from the current folder. Errors: PS_ERROR_INPUT "PATH: ..." when another version of pipesim made the
 * database, or when those files have changed (another digest); PS_ERROR_IO when they are gone. */
PsSweep *ps_sweep_from_results (PsResults *results, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The timelines (of PsTimeline, all simulated) of the fastest setting of each group, by the columns of `per`; `top` and
 * limits count for nothing. Each takes exactly the iteration time that the database says, else PS_ERROR_INPUT. When the
 * settings have more than max_ops ops together the rest is left out; *n_left is its number. Other errors: those of
 * ps_sweep_from_results, PS_ERROR_USAGE for unknown columns and values. */
GPtrArray *ps_results_timelines (PsResults *results, const PsQuestion *question, guint max_ops, guint *n_left,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif

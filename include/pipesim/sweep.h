/* sweep.h - many settings, read from a spec, predicted and stored.
 *
 * A spec is a text of lines: [sweep] and [zip NAME] groups, `field = values`, and comments. A comment begins with a #
 * at the start of a line or after white space. Fields are the options of SETTING by their long names (or by what
 * ps_column_is_called takes: p, memory_limit), and
 *
 * - schedule: families, schedule files, or all;
 * - global-batch: sequences per step, in place of microbatches: replicas and microbatch-size then give their number;
 * - microbatch-size: sequences per microbatch of a model on a cluster;
 * - costs.f, costs.c, costs.act, ...: a key of costs by itself, beside the others that costs gives.
 *
 * Options without a value take yes or no; chunks, slices and group take `auto` too, memory-limit and ready-order
 * `none`. Values are lists `a, b, c` (costs: `a; b`, as they hold commas). Numbers, with or without a unit, can also be
 * ranges: `4..8` (4, 5, 6, 7, 8), `4..64 step 4` (4, 8, ..., 64), `8GiB..64GiB x2` (8GiB, 16GiB, 32GiB, 64GiB).
 *
 * Every value of a field of [sweep] meets every value of the others. The fields of a [zip NAME] have as many values
 * each and go through them together, as one field would.
 */
#ifndef PIPESIM_SWEEP_H
#define PIPESIM_SWEEP_H

#include <pipesim/results.h>
#include <pipesim/setting.h>

G_BEGIN_DECLS

#define PS_MAX_SWEEP_VALUES 100000      /* of one field */
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

/* The spec with all values written out; two specs with one text are one sweep. */
const char *ps_sweep_text (const PsSweep *sweep);

/* SHA-256 (hexadecimal) over that text and over the contents of the files named in it. */
const char *ps_sweep_digest (const PsSweep *sweep);

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

/* Takes all rows, of PsResult, of which later predictions use the memory. */
void ps_sweep_worker_reuse (PsSweepWorker *worker, GPtrArray *rows);

/* A part of a sweep: every n-th block of settings, from the index-th on. */
typedef struct
{
  guint index; /* 0.. n - 1 */
  guint n;
} PsShard;

/* Reads "2/8" (the third of eight), or the numbers that a launcher has put into the environment: "slurm" (array jobs)
 * or "mpi" (mpirun of Open MPI or MPICH, or srun). Errors: PS_ERROR_USAGE. */
gboolean ps_shard_parse (const char *where, const char *text, PsShard *shard, GError **error);

/* The part of this process where mpirun or srun has started it as one of several; *n_local: how many of them this host
 * has. FALSE: the process is on its own. */
gboolean ps_shard_of_process (PsShard *shard, guint *n_local);

/* The progress of a run. */
typedef struct
{
  guint64 n_points; /* of the shard */
  guint64 present;  /* in the database before */
  guint64 predicted;
  guint64 skipped;
} PsSweepProgress;

typedef void (*PsSweepFunction) (const PsSweepProgress *progress, gpointer data);

typedef struct
{
  guint n_jobs; /* threads, at least 1 */
  PsShard shard;
  PsSweepFunction progress; /* called after each transaction, by one thread at a time; may be NULL */
  gpointer data;
} PsSweepRun;

/* Predicts all settings of the shard that results does not hold, and stores them. The stored rows depend neither on
 * n_jobs nor on interruptions. *progress is where it ended. Errors: those of results, PS_ERROR_IO. */
gboolean ps_sweep_run (const PsSweep *sweep, PsResults *results, const PsSweepRun *run, PsSweepProgress *progress,
                       GError **error);

/* How many settings of the shard results hold. Errors as of ps_sweep_run. */
gboolean ps_sweep_present (const PsSweep *sweep, PsResults *results, PsShard shard, guint64 *present, GError **error);

G_END_DECLS

#endif

/* sweep-run.c - all settings of a sweep, or a shard of them, on several threads into one database. */
#include "sweep-private.h"
#include "setting/options.h"

#include <pipesim/sweep.h>

/* Predicts one setting of a sweep after the other. A predictor serves as long as the costs stay. */

struct _PsSweepWorker
{
  const PsSweep *sweep;
  PsSweepPoint point;
  PsPredictor *predictor;
  GPtrArray *spare; /* of PsResult, to be used again */
};

PsSweepWorker *
ps_sweep_worker_new (const PsSweep *sweep)
{
  PsSweepWorker *worker = g_new0 (PsSweepWorker, 1);

  worker->sweep = sweep;
  ps_sweep_point_init (&worker->point, sweep);
  worker->predictor = ps_predictor_new (&worker->point.setting, NULL);
  worker->spare = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_result_free);
  return worker;
}

void
ps_sweep_worker_free (PsSweepWorker *worker)
{
  if (worker == NULL)
    return;
  ps_predictor_free (worker->predictor);
  g_ptr_array_unref (worker->spare);
  ps_sweep_point_clear (&worker->point);
  g_free (worker);
}

/* Sets -m from the sequences per step, which divide over replicas and microbatches. */
static gboolean
set_microbatches (PsSweepWorker *worker, GError **error)
{
  PsSetting *setting = &worker->point.setting;
  gint64 batch = worker->point.global_batch;
  gint64 each = (gint64)MAX (ps_sweep_microbatch_size (setting), 1) * setting->n_replicas;

  if (batch == 0)
    return TRUE;
  if (batch % each == 0 && batch / each <= PS_MAX_MICROBATCHES)
    {
      setting->n_microbatches = (guint)(batch / each);
      return TRUE;
    }
  return ps_refuse (error, PS_ERROR_USAGE,
                    "global-batch %" G_GINT64_FORMAT ": is no multiple of %" G_GINT64_FORMAT
                    ", the sequences of one microbatch on all replicas",
                    batch, each);
}

static gboolean
check_setting (PsSweepWorker *worker, GError **error)
{
  const PsSetting *setting = &worker->point.setting;

  if (!ps_setting_check (setting, error) || !set_microbatches (worker, error))
    return FALSE;
  if (setting->microbatch_size == 0 || setting->cluster != NULL)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "microbatch-size: needs modelled costs, model and cluster");
}

/* A setting may be impossible; a disk that fails says nothing about it. */
static gboolean
is_reason (const GError *error)
{
  return error->domain != PS_ERROR || (error->code != PS_ERROR_IO && error->code != PS_ERROR_UNAVAILABLE);
}

void
ps_sweep_worker_reuse (PsSweepWorker *worker, GPtrArray *rows)
{
  for (guint i = 0; i < rows->len; i++)
    {
      g_clear_pointer (&((PsResult *)rows->pdata[i])->reason, g_free);
      g_clear_pointer (&((PsResult *)rows->pdata[i])->layout, g_free);
    }
  g_ptr_array_extend_and_steal (worker->spare, g_ptr_array_ref (rows));
}

PsResult *
ps_sweep_worker_predict (PsSweepWorker *worker, guint64 point, GError **error)
{
  g_autoptr (PsResult) result = worker->spare->len > 0
                                    ? g_ptr_array_steal_index_fast (worker->spare, worker->spare->len - 1)
                                    : g_new0 (PsResult, 1);
  g_autoptr (PsPrediction) prediction = NULL;
  g_autoptr (GError) reason = NULL;

  result->point = point;
  ps_sweep_point_digest (worker->sweep, point, result->digest);
  if (ps_sweep_point_set (&worker->point, worker->sweep, point))
    {
      ps_predictor_free (worker->predictor);
      worker->predictor = ps_predictor_new (&worker->point.setting, NULL);
    }
  if (check_setting (worker, &reason))
    prediction = ps_predictor_predict (worker->predictor, worker->point.schedule, &reason);
  if (prediction != NULL)
    ps_sweep_fill (worker->sweep, &worker->point, prediction, result);
  else if (is_reason (reason))
    result->reason = g_strdup (reason->message);
  else
    {
      g_propagate_error (error, g_steal_pointer (&reason));
      return NULL;
    }
  return g_steal_pointer (&result);
}

#define BLOCK 512 /* settings that a thread predicts and stores at once */
#define LOOK 8    /* rows after which it looks at the clock */
#define MAX_WAIT_US (G_USEC_PER_SEC / 4)

typedef struct
{
  const PsSweep *sweep;
  const PsSweepRun *run;
  GHashTable *present; /* digests */
  guint64 block;       /* settings in a block */
  gint next;           /* block of this shard; atomic */
  guint n_blocks;      /* of this shard */
  gint stop;           /* atomic */
  GMutex mutex;        /* the rest */
  PsResults *results;
  PsSweepProgress *progress;
  GError *error;
} Job;

static void
fail (Job *job, GError *error)
{
  g_atomic_int_set (&job->stop, 1);
  g_mutex_lock (&job->mutex);
  if (job->error != NULL)
    g_error_free (error);
  else
    job->error = error;
  g_mutex_unlock (&job->mutex);
}

static gboolean
is_present (const Job *job, guint64 point)
{
  char digest[PS_DIGEST_LENGTH + 1];

  if (g_hash_table_size (job->present) == 0)
    return FALSE;
  ps_sweep_point_digest (job->sweep, point, digest);
  return g_hash_table_contains (job->present, digest);
}

static gboolean
store_rows (Job *job, const GPtrArray *rows, GError **error)
{
  PsSweepProgress *progress = job->progress;

  if (!ps_results_store (job->results, (PsResult *const *)rows->pdata, rows->len, error))
    return FALSE;
  for (guint i = 0; i < rows->len; i++)
    if (((PsResult *)rows->pdata[i])->reason != NULL)
      progress->skipped++;
    else
      progress->predicted++;
  if (job->run->progress != NULL)
    job->run->progress (progress, job->run->data);
  return TRUE;
}

/* The thread that predicted rows stores them, while they are in its cache. Later predictions use their memory. */
static void
store (Job *job, PsSweepWorker *worker, GPtrArray *rows)
{
  GError *error = NULL;

  if (rows->len == 0)
    return;
  g_mutex_lock (&job->mutex);
  if (job->error == NULL)
    store_rows (job, rows, &error);
  g_mutex_unlock (&job->mutex);
  ps_sweep_worker_reuse (worker, rows);
  if (error != NULL)
    fail (job, error);
}

static void
predict_block (Job *job, PsSweepWorker *worker, guint64 block)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_result_free);
  guint64 end = MIN ((block + 1) * job->block, job->sweep->n_points);
  gint64 until = g_get_monotonic_time () + MAX_WAIT_US;
  GError *error = NULL;

  for (guint64 point = block * job->block; point < end && error == NULL && !g_atomic_int_get (&job->stop); point++)
    {
      PsResult *row;

      if (is_present (job, point))
        continue;
      row = ps_sweep_worker_predict (worker, point, &error);
      if (row != NULL)
        g_ptr_array_add (rows, row);
      if (rows->len % LOOK == 0 && g_get_monotonic_time () > until)
        {
          store (job, worker, rows);
          until = g_get_monotonic_time () + MAX_WAIT_US;
        }
    }
  store (job, worker, rows);
  if (error != NULL)
    fail (job, error);
}

static gpointer
work (gpointer data)
{
  Job *job = data;
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (job->sweep);
  guint i;

  while (!g_atomic_int_get (&job->stop) && (i = (guint)g_atomic_int_add (&job->next, 1)) < job->n_blocks)
    predict_block (job, worker, job->run->shard.index + (guint64)i * job->run->shard.n);
  return NULL;
}

/* Settings of the shard, and how many of them are there already. */
static void
count (Job *job)
{
  guint64 n_all = (job->sweep->n_points + job->block - 1) / job->block;
  const PsShard *shard = &job->run->shard;

  job->n_blocks = (guint)(n_all > shard->index ? (n_all - shard->index - 1) / shard->n + 1 : 0);
  for (guint i = 0; i < job->n_blocks; i++)
    {
      guint64 first = (shard->index + (guint64)i * shard->n) * job->block;
      guint64 end = MIN (first + job->block, job->sweep->n_points);

      job->progress->n_points += end - first;
      for (guint64 point = first; point < end; point++)
        job->progress->present += is_present (job, point);
    }
}

static void
run_threads (Job *job)
{
  guint n_jobs = job->run->n_jobs, n = 0;
  g_autofree GThread **threads = g_new0 (GThread *, n_jobs);
  GError *failure = NULL;

  for (; n < n_jobs && failure == NULL; n += threads[n] != NULL)
    threads[n] = g_thread_try_new ("sweep", work, job, &failure);
  g_prefix_error (&failure, "--jobs: %u threads: ", n_jobs);
  if (failure != NULL)
    fail (job, failure);
  for (guint i = 0; i < n; i++)
    g_thread_join (threads[i]);
}

/* Begins the sweep in the results and counts the settings that are done there. */
static gboolean
job_open (Job *job, GError **error)
{
  const PsSweep *sweep = job->sweep;

  *job->progress = (PsSweepProgress){ 0 };
  job->block = CLAMP (sweep->n_points / ((guint64)job->run->shard.n * 16), 1, BLOCK);
  job->present = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_mutex_init (&job->mutex);
  if (!ps_results_begin (job->results, sweep->digest, sweep->text, sweep->n_points, error)
      || !ps_results_digests (job->results, job->present, error))
    return FALSE;
  count (job);
  return TRUE;
}

static void
job_close (Job *job)
{
  g_hash_table_unref (job->present);
  g_mutex_clear (&job->mutex);
}

gboolean
ps_sweep_run (const PsSweep *sweep, PsResults *results, const PsSweepRun *run, PsSweepProgress *progress,
              GError **error)
{
  Job job = { .sweep = sweep, .run = run, .results = results, .progress = progress };
  gboolean ok = job_open (&job, error);

  if (ok)
    run_threads (&job);
  job_close (&job);
  if (job.error != NULL)
    g_propagate_error (error, job.error);
  return ok && job.error == NULL;
}

gboolean
ps_sweep_present (const PsSweep *sweep, PsResults *results, PsShard shard, guint64 *present, GError **error)
{
  PsSweepRun run = { .shard = shard };
  PsSweepProgress progress;
  Job job = { .sweep = sweep, .run = &run, .results = results, .progress = &progress };
  gboolean ok = job_open (&job, error);

  job_close (&job);
  *present = progress.present;
  return ok;
}

static gboolean
read_environment (const char *name, gint64 otherwise, gint64 *value)
{
  const char *text = g_getenv (name);

  *value = otherwise;
  return text != NULL ? ps_parse_integer (name, text, 0, G_MAXINT32, value, NULL) : otherwise >= 0;
}

/* Array tasks are numbered from MIN on in steps. */
static gboolean
from_slurm (gint64 *index, gint64 *n)
{
  gint64 id, low, step;

  if (!read_environment ("SLURM_ARRAY_TASK_ID", -1, &id) || !read_environment ("SLURM_ARRAY_TASK_COUNT", -1, n)
      || !read_environment ("SLURM_ARRAY_TASK_MIN", 0, &low) || !read_environment ("SLURM_ARRAY_TASK_STEP", 1, &step)
      || step == 0 || id < low || (id - low) % step != 0)
    return FALSE;
  *index = (id - low) / step;
  return TRUE;
}

/* The variables of Open MPI's mpirun, of Slurm's srun, and of MPICH's mpirun and its kin. */
static const struct
{
  const char *rank, *n_ranks, *n_local;
} mpi[] = {
  { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE" },
  { "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE" },
  { "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS" },
};

/* The number that a variable begins with: Slurm writes "2(x3),1" for tasks on several nodes. 0: there is none. */
static gint64
leading_number (const char *name)
{
  const char *text = g_getenv (name);

  return text != NULL ? (gint64)MIN (g_ascii_strtoull (text, NULL, 10), G_MAXINT32) : 0;
}

static gboolean
from_mpi (gint64 *index, gint64 *n, gint64 *n_local)
{
  for (guint i = 0; i < G_N_ELEMENTS (mpi); i++)
    if (read_environment (mpi[i].rank, -1, index) && read_environment (mpi[i].n_ranks, -1, n))
      {
        *n_local = leading_number (mpi[i].n_local);
        return TRUE;
      }
  return FALSE;
}

gboolean
ps_shard_of_process (PsShard *shard, guint *n_local)
{
  gint64 index, n, local;

  if (!from_mpi (&index, &n, &local) || n < 2 || index >= n || n > PS_MAX_SWEEP_POINTS || local < 1 || local > n)
    return FALSE;
  *shard = (PsShard){ (guint)index, (guint)n };
  *n_local = (guint)local;
  return TRUE;
}

static gboolean
from_text (const char *text, gint64 *index, gint64 *n)
{
  g_auto (GStrv) parts = g_strsplit (text, "/", -1);

  return g_strv_length (parts) == 2 && ps_parse_integer ("", parts[0], 0, G_MAXINT32, index, NULL)
         && ps_parse_integer ("", parts[1], 1, G_MAXINT32, n, NULL);
}

gboolean
ps_shard_parse (const char *where, const char *text, PsShard *shard, GError **error)
{
  gint64 index = 0, n = 0, n_local;
  gboolean slurm = g_str_equal (text, "slurm"), by_mpi = g_str_equal (text, "mpi");
  gboolean found = slurm    ? from_slurm (&index, &n)
                   : by_mpi ? from_mpi (&index, &n, &n_local)
                            : from_text (text, &index, &n);

  if (found && index < n && n <= PS_MAX_SWEEP_POINTS)
    {
      *shard = (PsShard){ (guint)index, (guint)n };
      return TRUE;
    }
  if (slurm || by_mpi)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' says nothing: %s are not set, or not to a task and a number",
                      where, text,
                      slurm ? "SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT"
                            : "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE, or PMI_RANK and PMI_SIZE,");
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is no shard; I/N with I from 0 to N - 1, slurm or mpi are", where,
                    text);
}

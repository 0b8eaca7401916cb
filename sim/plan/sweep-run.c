/* sweep-run.c - the predictions of a sweep: one setting, all of them on several threads into one database, a shard of
 * them, and those of a database again. */
#include "sweep-private.h"
#include "base/text.h"

#include <string.h>

/* Threads */

void ps_threads_fail (PsThreads *threads, GError *error)
{
  g_atomic_int_set (&threads->stop, 1);
  g_mutex_lock (&threads->mutex);
  if (threads->error == NULL)
    threads->error = g_steal_pointer (&error);
  g_mutex_unlock (&threads->mutex);
  g_clear_error (&error);
}

gboolean ps_threads_run (PsThreads *threads, guint n, GThreadFunc work, gpointer data, GError **error)
{
  g_autofree GThread **others = g_new (GThread *, n);
  GError *failure = NULL;
  guint n_others = 0;

  g_mutex_init (&threads->mutex);
  for (; n_others + 1 < n && failure == NULL; n_others += failure == NULL)
    others[n_others] = g_thread_try_new ("predictions", work, data, &failure);
  g_prefix_error (&failure, "--jobs: %u threads: ", n);
  if (failure != NULL)
    ps_threads_fail (threads, failure);
  else
    work (data);
  for (guint i = 0; i < n_others; i++)
    g_thread_join (others[i]);
  g_mutex_clear (&threads->mutex);
  if (threads->error != NULL)
    g_propagate_error (error, g_steal_pointer (&threads->error));
  return g_atomic_int_get (&threads->stop) == 0;
}

/* The row of a prediction */

static PsValue integer (gint64 value)
{
  return (PsValue){ .type = PS_VALUE_INTEGER, .integer = value };
}

static PsValue real (double value)
{
  return (PsValue){ .type = PS_VALUE_REAL, .real = value };
}

static PsValue text (const char *value)
{
  return (PsValue){ .type = value != NULL ? PS_VALUE_TEXT : PS_VALUE_NONE, .text = value };
}

static PsValue origin (PsOrigin value)
{
  return text (ps_origin_name (value));
}

/* "[[busy, span, peak, activations],[..]]": four numbers of up to 20 letters for each device. */
static char *write_detail (const PsMetrics *metrics)
{
  char *json = g_malloc (metrics->n_devices * (gsize)90 + 2), *to = json;

  for (guint d = 0; d < metrics->n_devices; d++) {
    to = ps_put_integer (ps_put (to, d ? ",[" : "[["), metrics->device[d].busy_ns);
    to = ps_put_integer (ps_put (to, ","), metrics->device[d].span_ns);
    to = ps_put_integer (ps_put (to, ","), metrics->device[d].peak_memory_bytes);
    to = ps_put (ps_put_integer (ps_put (to, ","), metrics->device[d].peak_activations), "]");
  }
  ps_put (to, "]");
  return json;
}

static void set_column (PsResult *result, const char *column, PsValue value)
{
  result->values[ps_result_column_find (column)] = value;
}

/* Columns of the setting: what the point says, and what the prediction knows better. */
static void fill_setting (const PsSweep *sweep, const PsSweepPoint *point, const PsSchedule *schedule, PsResult *result)
{
  const PsSetting *setting = &point->setting;
  const PsCluster *cluster = setting->known_cluster;
  guint size = ps_sweep_microbatch_size (setting);

  if (setting->known_model != NULL)
    set_column (result, "precision", text (ps_precision_name (setting->known_model->precision)));
  for (guint i = 0; i < sweep->axes->len; i++)
    result->values[g_array_index (sweep->axes, PsSweepAxis, i).field - ps_setting_options] = point->values[i]->value;
  set_column (result, "schedule",
              text (ps_family_own_name (point->schedule, ps_placement_max_chunks (schedule->placement))));
  set_column (result, "devices", integer (schedule->placement->n_devices));
  set_column (result, "microbatches", integer (schedule->n_microbatches));
  set_column (result, "chunks", integer (ps_placement_max_chunks (schedule->placement)));
  set_column (result, "slices", integer (schedule->n_slices));
  if (setting->even_work || setting->n_slice_tokens > 0)
    set_column (result, "slice_lengths", ps_option_value (ps_option_find (ps_setting_options, "slices"), setting));
  set_column (result, "placement", text (ps_placement_name (schedule->placement->kind)));
  set_column (result, "layout", text (result->layout));
  if (size > 0)
    set_column (result, "microbatch_size", integer (size));
  set_column (result, "global_batch", integer ((gint64)schedule->n_microbatches * MAX (size, 1) * setting->n_replicas));
  if (schedule->posts != NULL)
    set_column (result, "comm_order", text ("file"));
  if (cluster == NULL)
    return;
  set_column (result, "link_bandwidth", real (cluster->link_bandwidth * setting->bandwidth_factor));
  set_column (result, "link_latency_ns",
              integer ((gint64)((double)cluster->link_latency_ns * setting->latency_factor + 0.5)));
}

static void fill_row (const PsSweep *sweep, const PsSweepPoint *point, const PsPrediction *prediction, PsResult *result)
{
  const PsMetrics *metrics = &prediction->metrics;
  const PsCosts *costs = prediction->costs;
  const PsSchedule *schedule = prediction->program->schedule;
  const gsize n_values = ps_setting_n_options + PS_N_STORED_FIGURES;

  result->values = g_memdup2 (sweep->default_values, n_values * sizeof *result->values);
  result->detail = write_detail (metrics);
  result->layout = ps_prediction_layout (prediction);
  fill_setting (sweep, point, schedule, result);
  /* In the order of the columns. */
  const PsValue figures[PS_N_STORED_FIGURES] = { integer (metrics->makespan_ns),
                                                 integer (metrics->max_span_ns),
                                                 integer (metrics->iteration_ns),
                                                 real (metrics->bubble_ratio),
                                                 real (metrics->bubble_ratio_span),
                                                 integer (prediction->lower_bound_ns),
                                                 integer (metrics->peak_memory_bytes),
                                                 integer (prediction->feasible),
                                                 integer (schedule->asynchronous),
                                                 integer (prediction->mean_first_token_ns),
                                                 integer (prediction->iteration.n_iterations),
                                                 text (result->detail),
                                                 origin (PS_ORIGIN_SIMULATED),
                                                 origin (costs->time_origin),
                                                 origin (costs->transfer_origin),
                                                 origin (costs->memory_origin),
                                                 real (costs->unrest) };
  memcpy (result->values + ps_setting_n_options, figures, sizeof figures);
}

/* Predicts one setting of a sweep after the other. A predictor serves as long as the costs stay. */

struct _PsSweepWorker {
  const PsSweep *sweep;
  PsSweepPoint point;
  PsPredictor *predictor; /* NULL: not yet made */
};

PsSweepWorker *ps_sweep_worker_new (const PsSweep *sweep)
{
  PsSweepWorker *worker = g_new0 (PsSweepWorker, 1);

  worker->sweep = sweep;
  ps_sweep_point_init (&worker->point, sweep);
  return worker;
}

void ps_sweep_worker_free (PsSweepWorker *worker)
{
  if (worker == NULL)
    return;
  ps_predictor_free (worker->predictor);
  ps_sweep_point_clear (&worker->point);
  g_free (worker);
}

/* Checks the setting, and sets -m from the sequences per step, which divide over replicas and microbatches. */
static gboolean check_setting (PsSweepWorker *worker, GError **error)
{
  PsSetting *setting = &worker->point.setting;
  gint64 batch = worker->point.global_batch;
  gint64 each = (gint64)MAX (ps_sweep_microbatch_size (setting), 1) * setting->n_replicas;

  if (!ps_setting_check (setting, error))
    return FALSE;
  if (batch % each != 0 || batch / each > PS_MAX_MICROBATCHES)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "global-batch %" G_GINT64_FORMAT ": is no multiple of %" G_GINT64_FORMAT
                      ", the sequences of one microbatch on all replicas",
                      batch, each);
  if (batch > 0)
    setting->n_microbatches = (guint)(batch / each);
  return TRUE;
}

/* A setting may be impossible; a disk that fails says nothing about it. */
PsResult *ps_sweep_worker_predict (PsSweepWorker *worker, guint64 index, GError **error)
{
  PsSweepPoint *point = &worker->point;
  g_autoptr (PsResult) result = g_new0 (PsResult, 1);
  g_autoptr (PsPrediction) prediction = NULL;
  g_autoptr (GError) reason = NULL;

  result->point = index;
  ps_sweep_point_digest (worker->sweep, index, result->digest);
  if (ps_sweep_point_set (point, worker->sweep, index))
    g_clear_pointer (&worker->predictor, ps_predictor_free);
  if (worker->predictor == NULL)
    worker->predictor = ps_predictor_new (&point->setting, NULL);
  if (check_setting (worker, &reason))
    prediction = ps_predictor_predict (worker->predictor, point->schedule, &reason);
  if (prediction != NULL)
    fill_row (worker->sweep, point, prediction, result);
  else if (g_error_matches (reason, PS_ERROR, PS_ERROR_IO)
           || g_error_matches (reason, PS_ERROR, PS_ERROR_UNAVAILABLE)) {
    g_propagate_error (error, g_steal_pointer (&reason));
    return NULL;
  } else
    result->reason = g_strdup (reason->message);
  return g_steal_pointer (&result);
}

/* All settings of a shard */

#define BLOCK 512 /* settings that a thread predicts and stores at once */
#define LOOK 8    /* rows after which it looks at the clock */
#define MAX_WAIT_US (G_USEC_PER_SEC / 4)

typedef struct {
  const PsSweep *sweep;
  const PsSweepRun *run;
  GHashTable *present; /* digests */
  guint64 block;       /* settings in a block */
  gint next;           /* block of this shard; atomic */
  guint n_blocks;      /* of this shard */
  PsThreads threads;   /* its mutex guards the rest */
  PsResults *results;
  PsSweepProgress *progress;
} Job;

static gboolean is_present (const Job *job, guint64 point)
{
  char digest[PS_DIGEST_LENGTH + 1];

  if (g_hash_table_size (job->present) == 0)
    return FALSE;
  ps_sweep_point_digest (job->sweep, point, digest);
  return g_hash_table_contains (job->present, digest);
}

/* The settings of the i-th block of the shard: from *first on, up to the one returned. */
static guint64 block_end (const Job *job, guint i, guint64 *first)
{
  *first = (job->run->shard.index + (guint64)i * job->run->shard.n) * job->block;
  return MIN (*first + job->block, job->sweep->n_points);
}

/* The thread that predicted rows stores them. */
static void store (Job *job, GPtrArray *rows)
{
  PsSweepProgress *progress = job->progress;
  GError *error = NULL;

  if (rows->len == 0)
    return;
  g_mutex_lock (&job->threads.mutex);
  if (job->threads.error == NULL
      && ps_results_store (job->results, (PsResult *const *)rows->pdata, rows->len, &error)) {
    for (guint i = 0; i < rows->len; i++)
      (*(((PsResult *)rows->pdata[i])->reason != NULL ? &progress->skipped : &progress->predicted))++;
    if (ps_progress_due ())
      ps_progress_show (progress->predicted + progress->skipped, progress->n_points - progress->present, "settings",
                        "%" G_GUINT64_FORMAT " impossible", progress->skipped);
  }
  g_mutex_unlock (&job->threads.mutex);
  g_ptr_array_set_size (rows, 0);
  if (error != NULL)
    ps_threads_fail (&job->threads, error);
}

static void predict_block (Job *job, PsSweepWorker *worker, guint i)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_result_free);
  gint64 until = g_get_monotonic_time () + MAX_WAIT_US;
  GError *error = NULL;
  guint64 point, end = block_end (job, i, &point);

  for (; point < end && error == NULL && !g_atomic_int_get (&job->threads.stop); point++) {
    PsResult *row = !is_present (job, point) ? ps_sweep_worker_predict (worker, point, &error) : NULL;

    if (row != NULL)
      g_ptr_array_add (rows, row);
    if (rows->len % LOOK == 0 && g_get_monotonic_time () > until) {
      store (job, rows);
      until = g_get_monotonic_time () + MAX_WAIT_US;
    }
  }
  store (job, rows);
  if (error != NULL)
    ps_threads_fail (&job->threads, error);
}

static gpointer work (gpointer data)
{
  Job *job = data;
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (job->sweep);
  guint i;

  while (!g_atomic_int_get (&job->threads.stop) && (i = (guint)g_atomic_int_add (&job->next, 1)) < job->n_blocks)
    predict_block (job, worker, i);
  return NULL;
}

/* Begins the sweep in the results; counts the settings of the shard, and those that are done there. */
static gboolean job_open (Job *job, GError **error)
{
  const PsSweep *sweep = job->sweep;
  const PsShard *shard = &job->run->shard;

  *job->progress = (PsSweepProgress){ 0 };
  job->present = ps_results_begin (job->results, sweep->digest, sweep->text, sweep->n_points, error)
                     ? ps_results_digests (job->results, error)
                     : NULL;
  if (job->present == NULL)
    return FALSE;
  job->block = CLAMP (sweep->n_points / ((guint64)shard->n * 16), 1, BLOCK);
  guint64 n_all = (sweep->n_points + job->block - 1) / job->block;
  job->n_blocks = (guint)(n_all > shard->index ? (n_all - shard->index - 1) / shard->n + 1 : 0);
  for (guint i = 0; i < job->n_blocks; i++) {
    guint64 point, end = block_end (job, i, &point);

    job->progress->n_points += end - point;
    for (; point < end; point++)
      job->progress->present += is_present (job, point);
  }
  return TRUE;
}

gboolean ps_sweep_run (const PsSweep *sweep, PsResults *results, const PsSweepRun *run, PsSweepProgress *progress,
                       GError **error)
{
  Job job = { .sweep = sweep, .run = run, .results = results, .progress = progress };

  ps_progress_begin (0);
  gboolean ok = job_open (&job, error) && ps_threads_run (&job.threads, run->n_jobs, work, &job, error);

  g_clear_pointer (&job.present, g_hash_table_unref);
  return ok;
}

gboolean ps_sweep_present (const PsSweep *sweep, PsResults *results, PsShard shard, guint64 *present, GError **error)
{
  PsSweepRun run = { .shard = shard };
  PsSweepProgress progress;
  Job job = { .sweep = sweep, .run = &run, .results = results, .progress = &progress };
  gboolean ok = job_open (&job, error);

  g_clear_pointer (&job.present, g_hash_table_unref);
  *present = progress.present;
  return ok;
}

gboolean ps_shard_parse (const char *where, const char *text, PsShard *shard, GError **error)
{
  gint64 index, n;
  g_auto (GStrv) parts = g_strsplit (text, "/", -1);

  if (g_strv_length (parts) != 2 || !ps_parse_integer ("", parts[0], 0, G_MAXINT32, &index, NULL)
      || !ps_parse_integer ("", parts[1], 1, PS_MAX_SWEEP_POINTS, &n, NULL) || index >= n)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is no shard; I/N with I from 0 to N - 1 are", where, text);
  *shard = (PsShard){ (guint)index, (guint)n };
  return TRUE;
}

/* Settings of a database, simulated again */

PsSweep *ps_sweep_from_results (PsResults *results, GError **error)
{
  const char *path = ps_results_path (results);
  g_autofree char *spec = NULL, *digest = NULL;
  g_autoptr (PsSweep) sweep = NULL;
  guint64 n_points;

  if (!ps_results_sweep (results, &spec, &digest, &n_points, error))
    return NULL;
  sweep = ps_sweep_parse (path, spec, strlen (spec), error);
  if (sweep == NULL || g_str_equal (sweep->digest, digest))
    return g_steal_pointer (&sweep);
  return ps_refuse_null (error, PS_ERROR_INPUT,
                         "%s: files that its spec names have changed since (digest %.8s then, %.8s now)", path, digest,
                         sweep->digest);
}

/* The number of microbatches may follow from a global batch, so it is taken from the row. */
static PsTimeline *simulate (const PsSweep *sweep, guint64 index, gint64 n_microbatches, gint64 iteration_ns,
                             GError **error)
{
  g_autoptr (PsPrediction) prediction = NULL;
  PsSweepPoint point;

  if (index >= sweep->n_points)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: setting %" G_GUINT64_FORMAT " is after the last of its sweep",
                           sweep->where, index);
  ps_sweep_point_init (&point, sweep);
  ps_sweep_point_set (&point, sweep, index);
  point.setting.n_microbatches = (guint)n_microbatches;
  prediction = ps_predict (&point.setting, point.schedule, error);
  ps_sweep_point_clear (&point);
  if (prediction == NULL)
    return NULL;
  if (prediction->metrics.iteration_ns == iteration_ns)
    return ps_prediction_timeline (prediction);
  return ps_refuse_null (error, PS_ERROR_INPUT,
                         "%s: setting %" G_GUINT64_FORMAT " takes %" G_GINT64_FORMAT
                         " ns when simulated again, the database says %" G_GINT64_FORMAT,
                         sweep->where, index, prediction->metrics.iteration_ns, iteration_ns);
}

GPtrArray *ps_results_timelines (PsResults *results, const PsQuestion *question, guint max_ops, guint *n_left,
                                 GError **error)
{
  static const char *const columns[] = { "microbatches", "iteration_ns", NULL };
  g_autoptr (GPtrArray) timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  g_autoptr (PsResultValues) rows = ps_results_values (results, question, columns, error);
  g_autoptr (PsSweep) sweep = rows != NULL ? ps_sweep_from_results (results, error) : NULL;
  guint n_ops = 0;

  if (sweep == NULL)
    return NULL;
  *n_left = 0;
  for (guint i = 0; i < rows->n_rows && *n_left == 0; i++) {
    const PsValue *cells = &rows->values[i * rows->n_columns];
    g_autoptr (PsTimeline) timeline = simulate (sweep, rows->points[i], cells[0].integer, cells[1].integer, error);

    if (timeline == NULL)
      return NULL;
    n_ops += timeline->ops->len;
    if (n_ops > max_ops)
      *n_left = rows->n_rows - i;
    else
      g_ptr_array_add (timelines, g_steal_pointer (&timeline));
  }
  return g_steal_pointer (&timelines);
}

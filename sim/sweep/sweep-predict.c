/* sweep-predict.c - predicts one setting of a sweep after the other. Programs are shared by settings that differ in
 * costs only, costs by those that differ in schedules only. */
#include "setting/setting-comm.h"
#include "setting/setting-private.h"
#include "sweep-private.h"

#include <string.h>

#define PROGRAM_CACHE_BYTES ((gsize)64 << 20)
#define COSTS_CACHE_BYTES ((gsize)8 << 20)

struct _PsSweepWorker
{
  const PsSweep *sweep;
  PsSweepPoint point;
  PsCache *programs; /* of Shared */
  PsCache *costs;    /* of Shared */
  PsCache *sources;  /* of Shared: measured costs before options change them */
  gpointer single;   /* Shared, a program for one setting */
  GArray *key;       /* scratch */
};

/* A program or costs, or why there are none. */
typedef struct
{
  PsProgram *program;
  PsCosts *costs;
  GError *reason;
} Shared;

static void
shared_free (gpointer data)
{
  Shared *shared = data;

  ps_program_free (shared->program);
  ps_costs_free (shared->costs);
  g_clear_error (&shared->reason);
  g_free (shared);
}

PsSweepWorker *
ps_sweep_worker_new (const PsSweep *sweep)
{
  PsSweepWorker *worker = g_new0 (PsSweepWorker, 1);

  worker->sweep = sweep;
  ps_sweep_point_init (&worker->point, sweep);
  worker->programs = ps_cache_new (PROGRAM_CACHE_BYTES, shared_free);
  worker->costs = ps_cache_new (COSTS_CACHE_BYTES, shared_free);
  worker->sources = ps_cache_new (COSTS_CACHE_BYTES, shared_free);
  worker->key = g_array_new (FALSE, FALSE, sizeof (guint));
  return worker;
}

void
ps_sweep_worker_free (PsSweepWorker *worker)
{
  if (!worker)
    return;
  ps_sweep_point_clear (&worker->point);
  ps_cache_free (worker->programs);
  g_clear_pointer (&worker->single, shared_free);
  ps_cache_free (worker->costs);
  ps_cache_free (worker->sources);
  g_array_unref (worker->key);
  g_free (worker);
}

/* Which values the point has in the dimensions that hold such fields. */
static void
set_key (PsSweepWorker *worker, guint keys)
{
  g_array_set_size (worker->key, 0);
  for (guint i = 0; i < worker->sweep->dimensions->len; i++)
    if (g_array_index (worker->sweep->dimensions, PsSweepDimension, i).keys & keys)
      g_array_append_val (worker->key, worker->point.digits[i]);
}

static void
add_key (PsSweepWorker *worker, guint value)
{
  g_array_append_val (worker->key, value);
}

static gpointer
find (PsSweepWorker *worker, PsCache *cache)
{
  return ps_cache_find (cache, (const guint *)(gconstpointer)worker->key->data, worker->key->len);
}

static Shared *
keep (PsSweepWorker *worker, PsCache *cache, Shared *shared, gsize weight)
{
  ps_cache_add (cache, (const guint *)(gconstpointer)worker->key->data, worker->key->len, shared, weight);
  return shared;
}

static gsize
costs_bytes (guint n_stages)
{
  return n_stages * (PS_N_OP_KINDS * sizeof (PsOpCost) + 16 * sizeof (gint64));
}

static void
set_costs_key (PsSweepWorker *worker, guint keys, guint n_devices, guint n_chunks)
{
  set_key (worker, keys);
  add_key (worker, n_devices);
  add_key (worker, n_chunks);
}

static gboolean
take_reason (const Shared *shared, GError **error)
{
  if (shared->reason)
    g_propagate_error (error, g_error_copy (shared->reason));
  return shared->reason == NULL;
}

static const Shared *
shared_source (PsSweepWorker *worker, guint n_devices, guint n_chunks)
{
  Shared *shared;

  set_costs_key (worker, PS_KEY_SOURCE, n_devices, n_chunks);
  if ((shared = find (worker, worker->sources)) != NULL)
    return shared;
  shared = g_new0 (Shared, 1);
  shared->costs = ps_setting_load (&worker->point.setting, n_devices, n_chunks, &shared->reason);
  return keep (worker, worker->sources, shared, costs_bytes (n_devices * n_chunks) + sizeof *shared);
}

/* Databases are slow to ask, all else is quick to work out. */
static PsCosts *
make_costs (PsSweepWorker *worker, guint n_devices, guint n_chunks, GError **error)
{
  const PsSetting *setting = &worker->point.setting;
  g_autoptr (PsCosts) costs = NULL;
  const Shared *source;

  if (!setting->db)
    return ps_setting_costs (setting, n_devices, n_chunks, error);
  source = shared_source (worker, n_devices, n_chunks);
  if (!take_reason (source, error))
    return NULL;
  costs = ps_costs_copy (source->costs);
  return ps_setting_adapt (setting, costs, n_devices, error) ? g_steal_pointer (&costs) : NULL;
}

static const Shared *
shared_costs (PsSweepWorker *worker, guint n_devices, guint n_chunks)
{
  Shared *shared;

  set_costs_key (worker, PS_KEY_COSTS, n_devices, n_chunks);
  if ((shared = find (worker, worker->costs)) != NULL)
    return shared;
  shared = g_new0 (Shared, 1);
  shared->costs = make_costs (worker, n_devices, n_chunks, &shared->reason);
  set_costs_key (worker, PS_KEY_COSTS, n_devices, n_chunks);
  return keep (worker, worker->costs, shared, costs_bytes (n_devices * n_chunks) + sizeof *shared);
}

/* What a family that looks at costs is to see, as its simulation will; NULL: let it find out why there is nothing. */
static const PsCosts *
family_costs (PsSweepWorker *worker, const PsFamily *family)
{
  const PsSetting *setting = &worker->point.setting;

  if (!family || !family->uses_costs || setting->n_devices == 0)
    return NULL;
  return shared_costs (worker, setting->n_devices, setting->n_chunks ? setting->n_chunks : family->default_chunks)
      ->costs;
}

static PsProgram *
make_program (const PsSweepPoint *point, const PsCosts *costs, GError **error)
{
  PsSchedule *schedule = ps_setting_schedule_for (&point->setting, point->schedule, costs, error);

  return schedule ? ps_program_lower (schedule, point->setting.comm_order, error) : NULL;
}

static gsize
program_bytes (const PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  gsize n = program->n_steps;

  return n * (sizeof *program->steps + sizeof *schedule->ops + 3 * sizeof *program->step_of)
         + program->first[schedule->placement->n_devices] * sizeof *program->instructions;
}

/* One that no other setting can ask for again would only drive others out of the cache, and itself be cold there. */
static Shared *
keep_program (PsSweepWorker *worker, Shared *shared, gboolean single)
{
  if (!single)
    return keep (worker, worker->programs, shared, shared->program ? program_bytes (shared->program) : sizeof *shared);
  g_clear_pointer (&worker->single, shared_free);
  worker->single = shared;
  return shared;
}

/* Valid until the next call. */
static const Shared *
shared_program (PsSweepWorker *worker)
{
  const PsFamily *family = ps_family_find (worker->point.schedule);
  const PsCosts *costs = family_costs (worker, family);
  gboolean single;
  Shared *shared;

  set_key (worker, PS_KEY_PROGRAM | (family && family->uses_costs ? PS_KEY_COSTS | PS_KEY_LIMIT : 0));
  single = worker->key->len == worker->sweep->dimensions->len;
  add_key (worker, worker->point.setting.n_microbatches);
  if (!single && (shared = find (worker, worker->programs)) != NULL)
    return shared;
  shared = g_new0 (Shared, 1);
  shared->program = make_program (&worker->point, costs, &shared->reason);
  return keep_program (worker, shared, single);
}

/* Sequences per step divide over replicas and microbatches. */
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
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
               "global-batch %" G_GINT64_FORMAT ": is no multiple of %" G_GINT64_FORMAT
               ", the sequences of one microbatch on all replicas",
               batch, each);
  return FALSE;
}

static gboolean
check_setting (PsSweepWorker *worker, GError **error)
{
  const PsSetting *setting = &worker->point.setting;

  if (!ps_setting_check (setting, error) || !set_microbatches (worker, error))
    return FALSE;
  if (!setting->microbatch_size || setting->cluster)
    return TRUE;
  g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, "microbatch-size: needs modelled costs, model and cluster");
  return FALSE;
}

/* Whether running a program leaves it as it was. */
static gboolean
is_kept (const PsSetting *setting)
{
  return setting->comm_order != PS_COMM_PLANNED && setting->ready_order == 0;
}

static gboolean
run (PsSweepWorker *worker, PsProgram *program, PsPrediction *prediction, PsResult *result, GError **error)
{
  const PsSetting *setting = &worker->point.setting;
  gboolean done;

  prediction->program = program;
  done = ps_predict_program (setting, prediction, error);
  if (done)
    ps_sweep_fill (worker->sweep, &worker->point, prediction, result);
  if (is_kept (setting))
    prediction->program = NULL;
  return done;
}

static gboolean
predict (PsSweepWorker *worker, PsResult *result, GError **error)
{
  const PsSetting *setting = &worker->point.setting;
  g_autoptr (PsPrediction) prediction = g_new0 (PsPrediction, 1);
  const Shared *shared, *costs;
  PsProgram *program;
  guint n_chunks;

  if (!check_setting (worker, error))
    return FALSE;
  shared = shared_program (worker);
  if (!take_reason (shared, error) || !ps_predict_chunks (shared->program->schedule, &n_chunks, error))
    return FALSE;
  costs = shared_costs (worker, shared->program->schedule->placement->n_devices, n_chunks);
  if (!take_reason (costs, error))
    return FALSE;
  prediction->costs = ps_predict_costs (shared->program->schedule, costs->costs, error);
  if (!prediction->costs)
    return FALSE;
  program = is_kept (setting)
                ? shared->program
                : ps_program_lower (ps_schedule_copy (shared->program->schedule), setting->comm_order, error);
  return program && run (worker, program, prediction, result, error);
}

/* A setting may be impossible; a disk that fails says nothing about it. */
static gboolean
is_reason (const GError *error)
{
  return error->domain != PS_ERROR || (error->code != PS_ERROR_IO && error->code != PS_ERROR_UNAVAILABLE);
}

PsResult *
ps_sweep_worker_predict (PsSweepWorker *worker, guint64 point, GError **error)
{
  g_autoptr (PsResult) result = g_new0 (PsResult, 1);
  g_autoptr (GError) reason = NULL;

  result->point = point;
  ps_sweep_point_digest (worker->sweep, point, result->digest);
  ps_sweep_point_set (&worker->point, worker->sweep, point);
  if (predict (worker, result, &reason))
    return g_steal_pointer (&result);
  if (!is_reason (reason))
    {
      g_propagate_error (error, g_steal_pointer (&reason));
      return NULL;
    }
  result->reason = g_strdup (reason->message);
  return g_steal_pointer (&result);
}

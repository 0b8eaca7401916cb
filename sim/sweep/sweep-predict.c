/* sweep-predict.c - predicts one setting of a sweep after the other, with one predictor. */
#include "sweep-private.h"

struct _PsSweepWorker
{
  const PsSweep *sweep;
  PsSweepPoint point;
  PsPredictor *predictor;
  GPtrArray *spare; /* of PsResult, to be used again */
};

/* Appends the values that the point has in the dimensions of these parts. */
static gboolean
add_digits (gpointer data, guint parts, GArray *key)
{
  const PsSweepWorker *worker = data;
  const GArray *dimensions = worker->sweep->dimensions;
  guint n = 0;

  for (guint i = 0; i < dimensions->len; i++)
    if (g_array_index (dimensions, PsSweepDimension, i).keys & parts)
      {
        g_array_append_val (key, worker->point.digits[i]);
        n++;
      }
  return n < dimensions->len;
}

PsSweepWorker *
ps_sweep_worker_new (const PsSweep *sweep)
{
  PsSweepWorker *worker = g_new0 (PsSweepWorker, 1);

  worker->sweep = sweep;
  ps_sweep_point_init (&worker->point, sweep);
  worker->predictor = ps_predictor_new (&worker->point.setting, NULL);
  ps_predictor_set_key (worker->predictor, add_digits, worker);
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
  ps_sweep_point_set (&worker->point, worker->sweep, point);
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

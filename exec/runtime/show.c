/* show.c - what a device has computed goes into the result of the run. */
#include "show.h"

#include "sum.h"

/* Odd, so that digests of the updates of a step count by their places. */
#define DIGEST_FACTOR G_GUINT64_CONSTANT (0x9e3779b97f4a7c15)

guint
ps_run_loss_stage (const PsRun *run)
{
  guint stage = run->program->schedule->placement->n_stages - 1;

  while (stage > 0 && run->setting->device->computes && !run->shapes[stage].head)
    stage--;
  return stage;
}

static double *
own_losses (const PsWorker *worker, guint step)
{
  const PsRunResult *result = worker->run->result;

  return &result->losses[(gsize)step * result->n_microbatches
                         + worker->setting.replica * worker->run->program->schedule->n_microbatches];
}

void
ps_show_loss (PsWorker *worker, guint step, PsOp op)
{
  if (op.kind == PS_OP_F && op.stage == ps_run_loss_stage (worker->run) && worker->setting.tensor == 0)
    own_losses (worker, step)[op.microbatch] = worker->device->class->loss (worker->device, op.microbatch);
}

/* Writes the losses that this device has made. */
static void
collect_losses (PsWorker *worker, guint step, double *losses)
{
  const PsSchedule *schedule = worker->run->program->schedule;
  guint last = ps_run_loss_stage (worker->run);

  for (guint i = 0; i < schedule->n_microbatches; i++)
    if (ps_schedule_device (schedule, last, i) == worker->index)
      losses[i] = worker->run->endless ? own_losses (worker, step)[i] : worker->device->class->loss (worker->device, i);
}

/* Member 0 of each process takes the losses of all devices into the result. */
static gboolean
exchange_losses (PsWorker *worker, guint step, double *losses, GError **error)
{
  const PsRun *run = worker->run;
  const PsSchedule *schedule = run->program->schedule;
  guint n = schedule->n_microbatches, n_devices = schedule->placement->n_devices;
  g_autofree double *mine = g_new0 (double, n), *all = g_new (double, (gsize)n *n_devices * run->n_pipelines);

  collect_losses (worker, step, mine);
  if (!ps_crew_exchange (run->crew, ps_worker_member (worker), mine, n * sizeof *mine, all, error))
    return FALSE;
  for (guint i = 0; ps_worker_member (worker) == 0 && i < n * run->n_replicas; i++)
    {
      guint device = ps_schedule_device (schedule, ps_run_loss_stage (worker->run), i % n);

      losses[i] = all[((gsize)(i / n * run->n_tensor) * n_devices + device) * n + i % n];
    }
  return TRUE;
}

gboolean
ps_show_losses (PsWorker *worker, guint step, GError **error)
{
  PsRunResult *result = worker->run->result;
  double *losses = &result->losses[(gsize)step * result->n_microbatches];

  if (worker->run->setting->processes != NULL)
    return exchange_losses (worker, step, losses, error);
  if (!worker->run->endless && worker->setting.tensor == 0)
    collect_losses (worker, step,
                    losses + (gsize)worker->setting.replica * worker->run->program->schedule->n_microbatches);
  return TRUE;
}

/* Keeps the gradients of a stage in the result. */
static void
keep_gradients (PsWorker *worker, guint step, guint stage, const float *values, gsize n)
{
  PsRunGradients *gradients = worker->run->result->gradients;
  const PsDeviceClass *class = worker->device->class;
  guint64 *digest = &gradients->digest[(gsize)step * gradients->n_stages + stage];

  *digest = *digest * DIGEST_FACTOR + ps_gradients_digest (values, n);
  if (step + 1 < gradients->n_steps)
    return;
  gradients->parts[stage] = class->part != NULL ? class->part (worker->device) : 0;
  g_free (gradients->last[stage]);
  gradients->last[stage] = g_memdup2 (values, n * sizeof *values);
  gradients->n[stage] = n;
}

/* Devices that share layers add up their parts of the gradients. */
gboolean
ps_show_gradients (PsWorker *worker, guint step, guint stage, GError **error)
{
  PsTransport *transport = worker->run->transport;
  g_autofree float *whole = NULL;
  gsize n;

  if (worker->run->result->gradients == NULL || worker->setting.replica > 0
      || !ps_shows_gradients (worker->run->program->schedule, worker->index, stage))
    return TRUE;
  const float *values = worker->device->class->gradients (worker->device, stage, &n);
  if (worker->run->n_tensor > 1)
    {
      values = whole = g_memdup2 (values, n * sizeof *values);
      if (!transport->class->sum (transport, worker->at, PS_CIRCLE_TENSOR, PS_SUM_WHOLE, whole, n, error))
        return FALSE;
    }
  if (worker->setting.tensor == 0)
    keep_gradients (worker, step, stage, values, n);
  return TRUE;
}

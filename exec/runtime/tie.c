/* tie.c - sends gradients of the shared matrix in messages of the size that all messages have. */
#include "tie.h"

#include "device/devices.h"

/* The device that has the other stage in the weight copy in which `device` has this one. */
static guint
partner (const PsPlacement *placement, guint device, guint stage, guint other)
{
  guint copy = 0;

  while (ps_placement_device (placement, copy, stage) != device)
    copy++;
  return ps_placement_device (placement, copy, other);
}

gboolean
ps_tie_find (const PsRun *run, guint device, PsTie *tie)
{
  const PsPlacement *placement = run->program->schedule->placement;

  if (!run->setting->device->computes || !run->setting->model->tied)
    return FALSE;
  *tie = (PsTie){ .stages = { 0, ps_run_loss_stage (run) }, .peer = device };
  while (!run->shapes[tie->stages[0]].embedding)
    tie->stages[0]++;
  for (guint i = 0; i < 2; i++)
    tie->has[i] = ps_placement_holds (placement, device, tie->stages[i]);
  if (tie->has[0] != tie->has[1])
    tie->peer = partner (placement, device, tie->stages[tie->has[1]], tie->stages[tie->has[0]]);
  return tie->has[0] || tie->has[1];
}

/* No message between stages has this name. */
static PsOp
name (guint device, guint i)
{
  return (PsOp){ .kind = PS_OP_O, .stage = (guint16)device, .microbatch = i & G_MAXINT32 };
}

/* Replaces other numbers by those of the peer. */
static gboolean
swap (PsWorker *worker, const PsTie *tie, const float *own, float *other, gsize n, GError **error)
{
  const PsModel *model = worker->run->setting->model;
  PsTransport *transport = worker->run->transport;
  gsize n_message = (gsize)ps_model_boundary_bytes (model) / worker->run->program->schedule->n_slices / sizeof *own;
  gboolean done = TRUE;

  for (guint i = 0; done && i * n_message < n; i++)
    {
      const gsize n_bytes = MIN (n_message, n - i * n_message) * sizeof *own;

      done = ps_worker_receive (worker, tie->peer, name (tie->peer, i), error)
             && ps_worker_send (worker, tie->peer, name (worker->index, i), own + i * n_message, n_bytes, error)
             && ps_worker_take (worker, tie->peer, name (tie->peer, i), other + i * n_message, n_bytes, error);
    }
  return done && transport->class->flush (transport, worker->at, error);
}

/* The matrix is the first of a stage with the embedding, the last of one with the head. */
static float *
matrix (PsWorker *worker, const PsTie *tie, guint end, gsize n)
{
  gsize n_all;
  float *values = worker->device->class->gradient_memory (worker->device, tie->stages[end], &n_all);

  return end == 0 ? values : values + n_all - n;
}

/* A sum of two numbers is the same in either order. The numbers are added up in copies on the host. */
gboolean
ps_tie_add (PsWorker *worker, GError **error)
{
  const PsModel *model = worker->run->setting->model;
  PsDevice *device = worker->device;
  gsize n, n_bytes;
  PsTie tie;

  if (!ps_tie_find (worker->run, worker->index, &tie))
    return TRUE;

  n = (gsize)model->vocabulary * model->hidden;
  n_bytes = n * sizeof (float);
  g_autofree float *own = g_malloc (n_bytes), *other = g_malloc (n_bytes);
  const gboolean both = tie.has[0] && tie.has[1];
  const guint end = tie.has[0] ? 0 : 1;

  if (!ps_device_read (device, own, matrix (worker, &tie, end, n), n_bytes, error)
      || !(both ? ps_device_read (device, other, matrix (worker, &tie, 1, n), n_bytes, error)
                : swap (worker, &tie, own, other, n, error)))
    return FALSE;
  for (gsize i = 0; i < n; i++)
    own[i] += other[i];
  return ps_device_write (device, matrix (worker, &tie, end, n), own, n_bytes, error)
         && (!both || ps_device_write (device, matrix (worker, &tie, 1, n), own, n_bytes, error));
}

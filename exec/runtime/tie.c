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

/* The numbers of message i. */
static gsize
piece (gsize n, gsize n_message, guint i)
{
  return MIN (n_message, n - i * n_message);
}

/* No message between stages has this name. */
static PsOp
name (guint device, guint i)
{
  return (PsOp){ .kind = PS_OP_O, .stage = (guint16)device, .microbatch = i & G_MAXINT32 };
}

static gboolean
send_piece (PsWorker *worker, const PsTie *tie, const float *values, gsize n, guint i, GError **error)
{
  PsTransport *transport = worker->run->transport;
  PsTensor *tensor = worker->device->class->tensor_new (worker->device);
  guint peer = ps_worker_peer (worker, tie->peer);

  if (tensor == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "stage %u: no memory to send the shared matrix",
                      tie->stages[tie->has[1]]);
  if (!ps_device_write (worker->device, tensor->data, values, n * sizeof *values, error))
    {
      worker->device->class->tensor_free (tensor);
      return FALSE;
    }
  return transport->class->receive (transport, worker->at, peer, name (tie->peer, i), error)
         && transport->class->send (transport, worker->at, peer, name (worker->index, i), tensor, 0, error);
}

static gboolean
receive_piece (PsWorker *worker, const PsTie *tie, float *values, gsize n, guint i, GError **error)
{
  PsTransport *transport = worker->run->transport;
  PsTransferTimes times;
  PsTensor *tensor = transport->class->wait (transport, worker->at, ps_worker_peer (worker, tie->peer),
                                             name (tie->peer, i), worker->device, &times, error);
  gboolean done;

  if (tensor == NULL)
    return FALSE;
  done = ps_device_read (worker->device, values, tensor->data, n * sizeof *values, error);
  worker->device->class->tensor_free (tensor);
  return done;
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
    done = send_piece (worker, tie, own + i * n_message, piece (n, n_message, i), i, error)
           && receive_piece (worker, tie, other + i * n_message, piece (n, n_message, i), i, error);
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

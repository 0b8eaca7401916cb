/* cuda-queue.c - jobs of a device's streams, and the wait for them. */
#include "cuda-queue.h"

#include "clock.h"

static gint n_lost; /* atomic: queues that are lost */

static void job_free (gpointer data)
{
  PsCudaJob *job = data;

  if (job->begin != NULL)
    cudaEventDestroy (job->begin);
  if (job->end != NULL)
    cudaEventDestroy (job->end);
  g_free (job);
}

gboolean ps_cuda_queue_open (PsCudaQueue *queue, gint64 timeout_ns, GError **error)
{
  g_queue_init (&queue->jobs);
  queue->idle = g_ptr_array_new_with_free_func (job_free);
  queue->timeout_ns = timeout_ns;
  return ps_cuda_ok ("opening a clock", ps_cuda_clock_open (&queue->clock), error);
}

void ps_cuda_queue_close (PsCudaQueue *queue)
{
  if (queue->idle == NULL)
    return;
  g_queue_clear_full (&queue->jobs, job_free);
  g_clear_pointer (&queue->idle, g_ptr_array_unref);
  ps_cuda_clock_close (&queue->clock);
}

PsCudaJob *ps_cuda_queue_begin (PsCudaQueue *queue, const PsOp *op, PsTimes *times, cudaStream_t stream, GError **error)
{
  PsCudaJob *job
      = queue->idle->len > 0 ? g_ptr_array_steal_index_fast (queue->idle, queue->idle->len - 1) : g_new0 (PsCudaJob, 1);

  job->op = op != NULL ? *op : (PsOp){ 0 };
  job->copies = op == NULL;
  job->times = times;
  job->ended = FALSE;
  if ((job->begin == NULL && !ps_cuda_event (&job->begin, error))
      || (job->end == NULL && !ps_cuda_event (&job->end, error))
      || !ps_cuda_ok ("marking a begin", cudaEventRecord (job->begin, stream), error)) {
    g_ptr_array_add (queue->idle, job);
    return NULL;
  }
  g_queue_push_tail (&queue->jobs, job);
  queue->n_started += !job->copies;
  return job;
}

gboolean ps_cuda_queue_end (PsCudaJob *job, cudaStream_t stream, GError **error)
{
  job->ended = ps_cuda_ok ("marking an end", cudaEventRecord (job->end, stream), error);
  return job->ended;
}

/* The oldest job is done. One that failed before its end has no times: to ask for them is an error that the next launch
 * would find (cudaGetLastError). */
static void finish (PsCudaQueue *queue)
{
  PsCudaJob *job = g_queue_pop_head (&queue->jobs);
  float milliseconds = 0;

  if (job->ended && job->times != NULL) {
    ps_cuda_clock_time (&queue->clock, job->begin, &job->times->start_ns);
    ps_cuda_clock_time (&queue->clock, job->end, &job->times->end_ns);
  }
  if (job->ended && !job->copies && cudaEventElapsedTime (&milliseconds, job->begin, job->end) == cudaSuccess)
    queue->op_ns = (gint64)((double)milliseconds * 1e6);
  queue->n_done += !job->copies;
  g_ptr_array_add (queue->idle, job);
}

void ps_cuda_queue_reap (PsCudaQueue *queue)
{
  const PsCudaJob *job;

  while ((job = g_queue_peek_head (&queue->jobs)) != NULL && cudaEventQuery (job->end) == cudaSuccess)
    finish (queue);
}

static void set_lost (PsCudaQueue *queue, gboolean lost)
{
  if (queue->lost != lost)
    g_atomic_int_add (&n_lost, lost ? 1 : -1);
  queue->lost = lost;
}

gboolean ps_cuda_queue_any_lost (void)
{
  return g_atomic_int_get (&n_lost) > 0;
}

/* cudaErrorNotReady: not in time. */
static cudaError_t wait_for (PsCudaQueue *queue, const PsCudaJob *job)
{
  if (queue->timeout_ns == 0)
    return cudaEventSynchronize (job->end);
  const cudaError_t status = ps_cuda_poll (job->end, queue->lost ? 0 : ps_clock_now () + queue->timeout_ns);
  if (status == cudaErrorNotReady)
    set_lost (queue, TRUE);
  return status;
}

/* A GPU says of no error which of its kernels has made it. */
static gboolean refuse (PsCudaQueue *queue, const PsCudaJob *job, cudaError_t status, GError **error)
{
  const guint n_after = g_queue_get_length (&queue->jobs) - 1;
  g_autofree char *after = n_after > 0 ? g_strdup_printf (", or of %u started after it", n_after) : g_strdup ("");
  char name[48];
  g_autofree char *what = job->copies ? g_strdup ("cuda device: copy of a message")
                                      : g_strdup_printf ("stage %u: %s", job->op.stage, ps_op_format (job->op, name));

  if (status == cudaErrorNotReady)
    return ps_refuse (error, PS_ERROR_IO, "%s: not done after %g s", what, (double)queue->timeout_ns / 1e9);
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "%s%s: %s", what, after, cudaGetErrorString (status));
}

gboolean ps_cuda_queue_await (PsCudaQueue *queue, guint n_left, GError **error)
{
  const PsCudaJob *job;

  while ((job = g_queue_peek_head (&queue->jobs)) != NULL
         && (n_left == 0 || queue->n_started - queue->n_done > n_left)) {
    const cudaError_t status = wait_for (queue, job);

    if (status != cudaSuccess)
      return refuse (queue, job, status, error);
    finish (queue);
  }
  if (job == NULL)
    set_lost (queue, FALSE);
  return TRUE;
}

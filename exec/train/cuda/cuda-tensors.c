/* cuda-tensors.c - messages of a device "cuda": their memory, and copies between devices in the order of streams. */
#include "cuda-device-private.h"

#include "clock.h"

void ps_cuda_tensor_destroy (gpointer data)
{
  PsCudaTensor *tensor = data;

  ps_memory_pool_give (ps_cuda_device (tensor->base.device)->transformer.memory, tensor->base.data);
  if (tensor->base.ready != NULL)
    cudaEventDestroy (tensor->base.ready);
  if (tensor->taken != NULL)
    cudaEventDestroy (tensor->taken);
  g_free (tensor);
}

void ps_cuda_tensors_free_taken (PsCudaDevice *cuda)
{
  g_mutex_lock (&cuda->mutex);
  for (GList *link = cuda->taken.head, *next; link != NULL; link = next) {
    PsCudaTensor *tensor = link->data;

    next = link->next;
    if (cudaEventQuery (tensor->taken) == cudaErrorNotReady)
      continue;
    g_queue_delete_link (&cuda->taken, link);
    ps_cuda_tensor_destroy (tensor);
  }
  g_mutex_unlock (&cuda->mutex);
}

PsTensor *ps_cuda_tensor_wrap (PsCudaDevice *cuda, void *block)
{
  PsCudaTensor *tensor = g_new0 (PsCudaTensor, 1);

  tensor->base = (PsTensor){ .device = &cuda->transformer.base,
                             .bytes = ps_sizes_message_bytes (&cuda->transformer.sizes),
                             .data = block };
  return &tensor->base;
}

/* Any stream may write to it at once, so it is no block that an op under way has given back. */
static void *take_idle (PsCudaDevice *cuda)
{
  PsCudaQueue *queue = &cuda->queue;

  ps_cuda_tensors_free_taken (cuda);
  ps_cuda_queue_reap (queue);
  ps_memory_pool_turn (cuda->transformer.memory, queue->n_started, queue->n_done);
  void *block = ps_memory_pool_take (cuda->transformer.memory, ps_sizes_message_bytes (&cuda->transformer.sizes),
                                     PS_USE_BUFFER);
  if (block != NULL || queue->n_done == queue->n_started || !ps_cuda_queue_await (queue, 0, NULL))
    return block;
  return take_idle (cuda);
}

PsTensor *ps_cuda_tensor_new (PsDevice *device)
{
  void *block = take_idle (ps_cuda_device (device));

  return block != NULL ? ps_cuda_tensor_wrap (ps_cuda_device (device), block) : NULL;
}

void ps_cuda_tensor_free (PsTensor *tensor)
{
  cudaEvent_t taken = tensor != NULL ? ((PsCudaTensor *)tensor)->taken : NULL;

  if (tensor == NULL)
    return;
  if (taken == NULL || cudaEventQuery (taken) != cudaErrorNotReady) {
    ps_cuda_tensor_destroy (tensor);
    return;
  }
  PsCudaDevice *cuda = ps_cuda_device (tensor->device);
  g_mutex_lock (&cuda->mutex);
  g_queue_push_tail (&cuda->taken, tensor);
  g_mutex_unlock (&cuda->mutex);
}

gboolean ps_cuda_tensor_write (PsTensor *tensor, const void *bytes, GError **error)
{
  return ps_cuda_copy (&ps_cuda_device (tensor->device)->context, tensor->data, bytes, tensor->bytes, error);
}

gboolean ps_cuda_tensor_read (PsTensor *tensor, void *bytes, GError **error)
{
  return ps_cuda_copy (&ps_cuda_device (tensor->device)->context, bytes, tensor->data, tensor->bytes, error);
}

cudaEvent_t ps_cuda_mark (cudaStream_t stream, GError **error)
{
  cudaEvent_t event = NULL;

  if (!ps_cuda_ok ("making an event", cudaEventCreateWithFlags (&event, cudaEventDisableTiming), error))
    return NULL;
  if (ps_cuda_ok ("marking a message", cudaEventRecord (event, stream), error))
    return event;
  cudaEventDestroy (event);
  return NULL;
}

gboolean ps_cuda_follow (cudaStream_t stream, cudaEvent_t event, GError **error)
{
  return event == NULL || ps_cuda_ok ("following", cudaStreamWaitEvent (stream, event, 0), error);
}

/* Makes the copies of a device follow the op that makes a message. Parts of one GPU share its hardware queues: a stream
 * that waits there can hold up streams of other parts. So the host waits for them. */
static gboolean follow_maker (PsCudaDevice *cuda, const PsTensor *from, GError **error)
{
  if (from->ready == NULL || cuda->context.n_sharing == 1)
    return ps_cuda_follow (cuda->copies.stream, from->ready, error);
  const cudaError_t status = ps_cuda_poll (from->ready, ps_clock_now () + cuda->queue.timeout_ns);
  if (status == cudaErrorNotReady)
    return ps_refuse (error, PS_ERROR_IO, "cuda device: a message: not there after %g s",
                      (double)cuda->queue.timeout_ns / 1e9);
  return ps_cuda_ok ("waiting for a message", status, error);
}

/* No op of this device that is under way uses the memory of `to`, see take_idle. */
static gboolean start_copy (PsCudaDevice *cuda, PsTensor *to, PsCudaTensor *from, PsTimes *times, GError **error)
{
  cudaStream_t copies = cuda->copies.stream;

  if (!follow_maker (cuda, &from->base, error))
    return FALSE;
  PsCudaJob *job = ps_cuda_queue_begin (&cuda->queue, NULL, times, copies, error);
  if (job == NULL
      || !ps_cuda_ok ("copying", cudaMemcpyAsync (to->data, from->base.data, to->bytes, cudaMemcpyDefault, copies),
                      error)
      || !ps_cuda_queue_end (job, copies, error) || !ps_cuda_follow (cuda->context.stream, job->end, error))
    return FALSE;
  from->taken = ps_cuda_mark (copies, error);
  return from->taken != NULL;
}

gboolean ps_cuda_tensor_copy (PsTensor *to, PsTensor *from, PsTimes *times, GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (to->device);

  if (cuda->transformer.setting.ahead > 0)
    return start_copy (cuda, to, (PsCudaTensor *)from, times, error);
  return ps_cuda_copy (&cuda->context, to->data, from->data, from->bytes, error);
}

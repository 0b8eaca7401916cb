/* cuda-ops.c - ops of a device "cuda": each is given to a stream, and the host waits for it or goes ahead. */
#include "cuda-device-private.h"

#include "train/devices.h"

#include <pipesim/formats.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
#define nvtxRangePushA(name) ((void)(name))
#define nvtxRangePop()
#endif

/* Names the op's range in profilers as PyTorch names it. */
static void open_range (PsOp op)
{
  g_autofree char *name = ps_torch_op_name (op);
  g_autofree char *range = name != NULL ? g_strconcat ("PP:", name, NULL) : NULL;
  char own[48];

  nvtxRangePushA (range != NULL ? range : ps_op_format (op, own));
}

/* Puts the op into the queue, or into the twin if it is the second of a pair, which follows all that came before the
 * pair. The first queue goes on when both ops of a pair are done. The memory that the pair gives back is not taken by
 * the second op. */
static gboolean launch (PsCudaDevice *cuda, PsOp op, PsTensor *input, void **result, PsTimes *times, GError **error)
{
  const gboolean second = cuda->left != NULL;
  const guint64 number = cuda->queue.n_started + 1;
  const cudaStream_t stream = second ? cuda->twin.stream : cuda->context.stream;
  void *block = input != NULL ? g_steal_pointer (&input->data) : NULL;

  ps_cuda_tensor_free (input);
  ps_memory_pool_turn (cuda->transformer.memory, number, second ? number - 2 : number);
  PsCudaJob *job = !second || ps_cuda_follow (stream, cuda->left->begin, error)
                       ? ps_cuda_queue_begin (&cuda->queue, &op, times, stream, error)
                       : NULL;
  if (job == NULL)
    ps_memory_pool_give (cuda->transformer.memory, block);
  const gboolean done = job != NULL && ps_transformer_start (&cuda->transformer, second, op, block, result, error)
                        && ps_cuda_queue_end (job, stream, error);
  cuda->left = done && !second && op.paired && cuda->transformer.twin != NULL ? job : NULL;
  return done && (!second || ps_cuda_follow (cuda->context.stream, job->end, error));
}

/* The result of an op that started, whose readers elsewhere wait for it. */
static PsTensor *hand_out (PsCudaDevice *cuda, void *block, GError **error)
{
  PsTensor *tensor = ps_cuda_tensor_wrap (cuda, block);

  if (cuda->transformer.setting.ahead == 0)
    return tensor;
  tensor->ready = ps_cuda_mark (cuda->context.stream, error);
  if (tensor->ready == NULL)
    ps_cuda_tensor_free (g_steal_pointer (&tensor));
  return tensor;
}

gboolean ps_cuda_device_await (PsDevice *device, GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);

  return ps_cuda_queue_await (&cuda->queue, 0, error)
         && ps_cuda_ok ("comparing clocks", ps_cuda_clock_set (&cuda->queue.clock, cuda->context.stream), error);
}

/* Waits until one more op may be started. Devices of an endless run never wait for all of theirs, and their clocks
 * drift, so now and then this does. */
static gboolean make_room (PsCudaDevice *cuda, GError **error)
{
  return cuda->transformer.setting.ahead > 0 && cuda->left == NULL && !ps_cuda_clock_is_recent (&cuda->queue.clock)
             ? ps_cuda_device_await (&cuda->transformer.base, error)
             : ps_cuda_queue_await (&cuda->queue, MAX (cuda->transformer.setting.ahead, 1), error);
}

gboolean ps_cuda_device_start (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, PsTimes *times,
                               GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);
  void *result = NULL;

  g_return_val_if_fail (input == NULL || input->device == device, FALSE);

  if (!ps_device_check_op (op.stage < cuda->transformer.setting.n_stages && cuda->transformer.stages[op.stage] != NULL,
                           op, error)
      || !make_room (cuda, error)) {
    ps_cuda_tensor_free (input);
    return FALSE;
  }
  ps_cuda_tensors_free_taken (cuda);
  open_range (op);
  gboolean ok = launch (cuda, op, input, &result, times, error);
  nvtxRangePop ();
  if (!ok) {
    g_prefix_error (error, "stage %u: ", op.stage);
    ps_memory_pool_give (cuda->transformer.memory, g_steal_pointer (&result));
  }
  g_assert (output != NULL || result == NULL);
  if (output != NULL)
    *output = result != NULL ? hand_out (cuda, result, error) : NULL;
  return ok && (result == NULL || *output != NULL);
}

gboolean ps_cuda_device_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);

  if (!ps_cuda_device_start (device, op, input, output, NULL, error))
    return FALSE;
  if (cuda->left != NULL || ps_cuda_queue_await (&cuda->queue, 0, error))
    return TRUE;
  if (output != NULL)
    ps_cuda_tensor_free (g_steal_pointer (output));
  return FALSE;
}

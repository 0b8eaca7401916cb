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

/* Makes a tensor of zeros where one is wanted and *block is NULL, and gives back one that is not wanted. */
static gboolean fit (PsCudaDevice *cuda, gboolean wanted, void **block, cudaStream_t stream, GError **error)
{
  PsCudaShared *shared = &cuda->shared;
  const gsize bytes = ps_cuda_sizes_boundary_bytes (&shared->sizes);

  if (!wanted)
    ps_memory_pool_give (shared->memory, g_steal_pointer (block));
  if (!wanted || *block != NULL)
    return TRUE;
  *block = ps_cuda_shared_take (shared, bytes, PS_USE_BUFFER, "activations", error);
  return *block != NULL && ps_cuda_ok ("clearing memory", cudaMemsetAsync (*block, 0, bytes, stream), error);
}

/* Prepares the lane that the op runs in: the twin for the second op of a pair, which follows all that came before the
 * pair. NULL on failure. The memory that the pair gives back is not taken by the second op. */
static PsCudaShared *choose_lane (PsCudaDevice *cuda, GError **error)
{
  const guint64 number = cuda->queue.n_started + 1;

  ps_memory_pool_turn (cuda->shared.memory, number, cuda->left != NULL ? number - 2 : number);
  if (cuda->left == NULL)
    return &cuda->shared;
  cuda->twin.words = cuda->shared.words;
  cuda->twin.step = cuda->shared.step;
  return ps_cuda_follow (cuda->twin.context.stream, cuda->left->begin, error) ? &cuda->twin : NULL;
}

/* Frees a tensor but for its memory. */
static void *open_tensor (PsTensor *tensor)
{
  void *block = tensor != NULL ? g_steal_pointer (&tensor->data) : NULL;

  ps_cuda_tensor_free (tensor);
  return block;
}

/* Puts the op into its lane. The first lane goes on when both ops of a pair are done. */
static gboolean launch (PsCudaDevice *cuda, PsOp op, PsTensor *input, void **result, PsTimes *times, GError **error)
{
  PsCudaStage *stage = cuda->stages[op.stage];
  PsCudaShared *lane = choose_lane (cuda, error);
  void *block = open_tensor (input);
  cudaStream_t stream = lane != NULL ? lane->context.stream : NULL;
  PsCudaJob *job = lane != NULL ? ps_cuda_queue_begin (&cuda->queue, &op, times, stream, error) : NULL;
  const gboolean second = cuda->left != NULL;
  guint next;
  gboolean done
      = job != NULL && fit (cuda, ps_device_op_reads (ps_cuda_stage_shape (stage), op), &block, stream, error);

  if (done) {
    ps_cuda_stage_move (stage, lane);
    done = ps_cuda_stage_run (stage, op, block, result, error);
    ps_cuda_stage_move (stage, &cuda->shared);
  }
  done = done && fit (cuda, ps_op_output (op, cuda->setting.n_stages, &next), result, stream, error)
         && ps_cuda_queue_end (job, stream, error);
  cuda->left = done && !second && op.paired && cuda->twin.products != NULL ? job : NULL;
  return done && (!second || ps_cuda_follow (cuda->shared.context.stream, job->end, error));
}

/* The result of an op that started, whose readers elsewhere wait for it. */
static PsTensor *hand_out (PsCudaDevice *cuda, void *block, GError **error)
{
  PsTensor *tensor = ps_cuda_tensor_wrap (cuda, block);

  if (cuda->setting.ahead == 0)
    return tensor;
  tensor->ready = ps_cuda_mark (cuda->shared.context.stream, error);
  if (tensor->ready == NULL)
    ps_cuda_tensor_free (g_steal_pointer (&tensor));
  return tensor;
}

gboolean ps_cuda_device_await (PsDevice *device, GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);

  return ps_cuda_queue_await (&cuda->queue, 0, error)
         && ps_cuda_ok ("comparing clocks", ps_cuda_clock_set (&cuda->queue.clock, cuda->shared.context.stream), error);
}

/* Waits until one more op may be started. Devices of an endless run never wait for all of theirs, and their clocks
 * drift, so now and then this does. */
static gboolean make_room (PsCudaDevice *cuda, GError **error)
{
  return cuda->setting.ahead > 0 && cuda->left == NULL && !ps_cuda_clock_is_recent (&cuda->queue.clock)
             ? ps_cuda_device_await (&cuda->base, error)
             : ps_cuda_queue_await (&cuda->queue, MAX (cuda->setting.ahead, 1), error);
}

gboolean ps_cuda_device_start (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, PsTimes *times,
                               GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);
  void *result = NULL;

  g_return_val_if_fail (input == NULL || input->device == device, FALSE);

  if (!ps_device_check_op (op.stage < cuda->setting.n_stages && cuda->stages[op.stage] != NULL, op, error)
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
    ps_memory_pool_give (cuda->shared.memory, g_steal_pointer (&result));
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

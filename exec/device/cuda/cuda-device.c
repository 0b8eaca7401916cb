/* cuda-device.c - the class "cuda": a transformer stage on an NVIDIA GPU, in fp32 or bf16. */
#include "cuda-device.h"

#include "cuda-algorithms.h"
#include "cuda-cache.h"
#include "cuda-libraries.h"
#include "cuda-nvml.h"
#include "cuda-occupy.h"
#include "cuda-queue.h"
#include "cuda-share.h"
#include "cuda-shared.h"
#include "cuda-stage.h"
#include "cuda-sum.h"
#include "device/devices.h"
#include "module.h"
#include "places.h"

#include <pipesim/formats.h>

#include <math.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
#define nvtxRangePushA(name) ((void)(name))
#define nvtxRangePop()
#endif

static const PsDeviceClass cuda_class;

typedef struct
{
  PsDevice base;
  PsDeviceSetting setting;
  PsCudaShared shared, twin; /* the twin runs the second op of a pair; its products are NULL where there are no pairs */
  PsCudaContext copies;      /* a twin for copies of messages; there with PsDeviceSetting.ahead */
  PsCudaQueue queue;
  PsCudaJob *left; /* the first op of a pair, under way; NULL: no pair is */
  GMutex mutex;
  GQueue taken;         /* CudaTensor that have been freed while another device still copies them; under mutex */
  PsCudaStage **stages; /* [n_stages], NULL where not resident */
  PsCudaFlush flush;
  PsCudaHolder holder;
  PsCudaSum sum;
} CudaDevice;

typedef struct
{
  PsTensor base;
  cudaEvent_t taken; /* another device has copied it; NULL: none does, or the copy is done */
} CudaTensor;

static CudaDevice *
cuda_device (PsDevice *device)
{
  return (CudaDevice *)device;
}

static void
destroy_tensor (gpointer data)
{
  CudaTensor *tensor = data;

  ps_memory_pool_give (cuda_device (tensor->base.device)->shared.memory, tensor->base.data);
  if (tensor->base.ready != NULL)
    cudaEventDestroy (tensor->base.ready);
  if (tensor->taken != NULL)
    cudaEventDestroy (tensor->taken);
  g_free (tensor);
}

/* Frees the tensors that are copied by now. */
static void
free_taken (CudaDevice *cuda)
{
  g_mutex_lock (&cuda->mutex);
  for (GList *link = cuda->taken.head, *next; link != NULL; link = next)
    {
      CudaTensor *tensor = link->data;

      next = link->next;
      if (cudaEventQuery (tensor->taken) == cudaErrorNotReady)
        continue;
      g_queue_delete_link (&cuda->taken, link);
      destroy_tensor (tensor);
    }
  g_mutex_unlock (&cuda->mutex);
}

static void
cuda_close (PsDevice *device)
{
  CudaDevice *cuda = cuda_device (device);

  if (cuda == NULL)
    return;
  ps_cuda_context_enter (&cuda->shared.context, NULL);
  ps_cuda_queue_await (&cuda->queue, 0, NULL);
  if (ps_cuda_queue_any_lost ())
    return;
  g_queue_clear_full (&cuda->taken, destroy_tensor);
  ps_cuda_queue_close (&cuda->queue);
  ps_cuda_context_close_twin (&cuda->copies);
  g_mutex_clear (&cuda->mutex);
  for (guint i = 0; i < cuda->setting.n_stages; i++)
    ps_cuda_stage_free (cuda->stages[i]);
  g_free (cuda->stages);
  ps_cuda_flush_clear (&cuda->flush);
  ps_cuda_holder_clear (&cuda->holder);
  ps_cuda_sum_clear (&cuda->sum);
  ps_cuda_shared_clear_twin (&cuda->twin);
  ps_cuda_products_free (cuda->shared.products);
  ps_memory_pool_free (cuda->shared.memory);
  ps_cuda_context_close (&cuda->shared.context);
  g_free (cuda);
}

/* The thread that opens the device leaves its context again: see ps_cuda_context_open. */
static gboolean
open_queue (CudaDevice *cuda, GError **error)
{
  PsCudaContext *context = &cuda->shared.context;

  return ps_cuda_context_enter (context, error)
         && ps_cuda_queue_open (&cuda->queue, cuda->setting.ahead > 0 ? cuda->setting.timeout_ns : 0, error)
         && (cuda->setting.ahead == 0 || ps_cuda_context_open_twin (&cuda->copies, context, error))
         && ps_cuda_ok ("leaving a GPU", cudaSetDevice (context->gpu), error);
}

static PsDevice *
cuda_open (const PsDeviceSetting *setting, GError **error)
{
  PsCudaSizes sizes;
  CudaDevice *device;

  if (setting->model == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "cuda device: needs a model description");
  if (!ps_cuda_sizes_init (&sizes, setting, error))
    return NULL;

  device = g_new0 (CudaDevice, 1);
  device->base.class = &cuda_class;
  device->setting = *setting;
  device->shared.sizes = sizes;
  device->shared.memory = ps_cuda_memory_new ();
  device->shared.n_microbatches = setting->n_microbatches;
  device->shared.n_summed = setting->n_summed > 0 ? setting->n_summed : setting->n_microbatches;
  device->shared.n_replicas = MAX (setting->n_replicas, 1);
  device->shared.seed = setting->seed;
  device->shared.setting = &device->setting;
  device->stages = g_new0 (PsCudaStage *, setting->n_stages);
  g_mutex_init (&device->mutex);
  if (ps_cuda_context_open (&device->shared.context, setting, error) && open_queue (device, error))
    return &device->base;
  cuda_close (&device->base);
  return NULL;
}

static gboolean
cuda_attach (PsDevice *device, GError **error)
{
  return ps_cuda_context_enter (&cuda_device (device)->shared.context, error);
}

static gboolean
cuda_add_stage (PsDevice *device, guint stage, const PsStageShape *shape, GError **error)
{
  CudaDevice *cuda = cuda_device (device);
  const guint *parts = cuda->setting.parts;

  g_return_val_if_fail (stage < cuda->setting.n_stages && cuda->stages[stage] == NULL, FALSE);

  if (shape->offload > 0)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "stage %u: --offload: the cuda device keeps all activations; cpu moves them", stage);
  if (!ps_device_check_slices (&cuda->setting, stage, shape, error))
    return FALSE;

  if (ps_cuda_shared_prepare (&cuda->shared, shape->embedding || shape->head, error)
      && (!cuda->setting.pairs || cuda->shared.sizes.parts > 1 || cuda->twin.products != NULL
          || ps_cuda_shared_twin (&cuda->twin, &cuda->shared, error)))
    cuda->stages[stage]
        = ps_cuda_stage_new (&cuda->shared, shape, parts != NULL ? parts[stage] : cuda->shared.context.n_sms, error);
  if (cuda->stages[stage] != NULL)
    return TRUE;
  g_prefix_error (error, "stage %u: ", stage);
  return FALSE;
}

static PsTensor *
wrap (CudaDevice *cuda, void *block)
{
  CudaTensor *tensor = g_new0 (CudaTensor, 1);

  tensor->base
      = (PsTensor){ .device = &cuda->base, .bytes = ps_cuda_sizes_boundary_bytes (&cuda->shared.sizes), .data = block };
  return &tensor->base;
}

/* Any stream may write to it at once, so it is no block that an op under way has given back. */
static void *
take_idle (CudaDevice *cuda)
{
  PsCudaQueue *queue = &cuda->queue;
  void *block;

  free_taken (cuda);
  ps_cuda_queue_reap (queue);
  ps_memory_pool_turn (cuda->shared.memory, queue->n_started, queue->n_done);
  block = ps_memory_pool_take (cuda->shared.memory, ps_cuda_sizes_boundary_bytes (&cuda->shared.sizes), PS_USE_BUFFER);
  if (block != NULL || queue->n_done == queue->n_started || !ps_cuda_queue_await (queue, 0, NULL))
    return block;
  return take_idle (cuda);
}

static PsTensor *
cuda_tensor_new (PsDevice *device)
{
  void *block = take_idle (cuda_device (device));

  return block != NULL ? wrap (cuda_device (device), block) : NULL;
}

static void
cuda_tensor_free (PsTensor *tensor)
{
  cudaEvent_t taken = tensor != NULL ? ((CudaTensor *)tensor)->taken : NULL;
  CudaDevice *cuda;

  if (tensor == NULL)
    return;
  if (taken == NULL || cudaEventQuery (taken) != cudaErrorNotReady)
    {
      destroy_tensor (tensor);
      return;
    }
  cuda = cuda_device (tensor->device);
  g_mutex_lock (&cuda->mutex);
  g_queue_push_tail (&cuda->taken, tensor);
  g_mutex_unlock (&cuda->mutex);
}

static gboolean
cuda_write (PsTensor *tensor, const void *bytes, GError **error)
{
  return ps_cuda_copy (&cuda_device (tensor->device)->shared.context, tensor->data, bytes, tensor->bytes, error);
}

static gboolean
cuda_read (PsTensor *tensor, void *bytes, GError **error)
{
  return ps_cuda_copy (&cuda_device (tensor->device)->shared.context, bytes, tensor->data, tensor->bytes, error);
}

/* Returns a new event that only streams wait for; NULL on failure. */
static cudaEvent_t
mark (cudaStream_t stream, GError **error)
{
  cudaEvent_t event = NULL;

  if (!ps_cuda_ok ("making an event", cudaEventCreateWithFlags (&event, cudaEventDisableTiming), error))
    return NULL;
  if (ps_cuda_ok ("marking a message", cudaEventRecord (event, stream), error))
    return event;
  cudaEventDestroy (event);
  return NULL;
}

static gboolean
follow (cudaStream_t stream, cudaEvent_t event, GError **error)
{
  return event == NULL || ps_cuda_ok ("following", cudaStreamWaitEvent (stream, event, 0), error);
}

/* No op of this device that is under way uses the memory of `to`, see take_idle. */
static gboolean
start_copy (CudaDevice *cuda, PsTensor *to, CudaTensor *from, PsTimes *times, GError **error)
{
  cudaStream_t copies = cuda->copies.stream;
  PsCudaJob *job;

  if (!follow (copies, from->base.ready, error))
    return FALSE;
  job = ps_cuda_queue_begin (&cuda->queue, NULL, times, copies, error);
  if (job == NULL
      || !ps_cuda_ok ("copying", cudaMemcpyAsync (to->data, from->base.data, to->bytes, cudaMemcpyDefault, copies),
                      error)
      || !ps_cuda_queue_end (job, copies, error) || !follow (cuda->shared.context.stream, job->end, error))
    return FALSE;
  from->taken = mark (copies, error);
  return from->taken != NULL;
}

static gboolean
cuda_copy (PsTensor *to, PsTensor *from, PsTimes *times, GError **error)
{
  CudaDevice *cuda = cuda_device (to->device);

  if (cuda->setting.ahead > 0)
    return start_copy (cuda, to, (CudaTensor *)from, times, error);
  return ps_cuda_copy (&cuda->shared.context, to->data, from->data, from->bytes, error);
}

/* Names the op's range in profilers as PyTorch names it. */
static void
open_range (PsOp op)
{
  g_autofree char *name = ps_torch_op_name (op);
  g_autofree char *range = name != NULL ? g_strconcat ("PP:", name, NULL) : NULL;
  char own[48];

  nvtxRangePushA (range != NULL ? range : ps_op_format (op, own));
}

/* Makes a tensor of zeros where one is wanted and *block is NULL, and gives back one that is not wanted. */
static gboolean
fit (CudaDevice *cuda, gboolean wanted, void **block, cudaStream_t stream, GError **error)
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
static PsCudaShared *
choose_lane (CudaDevice *cuda, GError **error)
{
  const guint64 number = cuda->queue.n_started + 1;

  ps_memory_pool_turn (cuda->shared.memory, number, cuda->left != NULL ? number - 2 : number);
  if (cuda->left == NULL)
    return &cuda->shared;
  cuda->twin.words = cuda->shared.words;
  cuda->twin.step = cuda->shared.step;
  return follow (cuda->twin.context.stream, cuda->left->begin, error) ? &cuda->twin : NULL;
}

/* Frees a tensor but for its memory. */
static void *
open_tensor (PsTensor *tensor)
{
  void *block = tensor != NULL ? g_steal_pointer (&tensor->data) : NULL;

  cuda_tensor_free (tensor);
  return block;
}

/* Puts the op into its lane. The first lane goes on when both ops of a pair are done. */
static gboolean
launch (CudaDevice *cuda, PsOp op, PsTensor *input, void **result, PsTimes *times, GError **error)
{
  PsCudaStage *stage = cuda->stages[op.stage];
  PsCudaShared *lane = choose_lane (cuda, error);
  void *block = open_tensor (input);
  cudaStream_t stream = lane != NULL ? lane->context.stream : NULL;
  PsCudaJob *job = lane != NULL ? ps_cuda_queue_begin (&cuda->queue, &op, times, stream, error) : NULL;
  const gboolean second = cuda->left != NULL;
  gboolean done;
  guint next;

  done = job != NULL && fit (cuda, ps_device_op_reads (ps_cuda_stage_shape (stage), op), &block, stream, error);
  if (done)
    {
      ps_cuda_stage_move (stage, lane);
      done = ps_cuda_stage_run (stage, op, block, result, error);
      ps_cuda_stage_move (stage, &cuda->shared);
    }
  done = done && fit (cuda, ps_op_output (op, cuda->setting.n_stages, &next), result, stream, error)
         && ps_cuda_queue_end (job, stream, error);
  cuda->left = done && !second && op.paired && cuda->twin.products != NULL ? job : NULL;
  return done && (!second || follow (cuda->shared.context.stream, job->end, error));
}

/* The result of an op that started, whose readers elsewhere wait for it. */
static PsTensor *
hand_out (CudaDevice *cuda, void *block, GError **error)
{
  PsTensor *tensor = wrap (cuda, block);

  if (cuda->setting.ahead == 0)
    return tensor;
  tensor->ready = mark (cuda->shared.context.stream, error);
  if (tensor->ready == NULL)
    cuda_tensor_free (g_steal_pointer (&tensor));
  return tensor;
}

static gboolean
cuda_await (PsDevice *device, GError **error)
{
  CudaDevice *cuda = cuda_device (device);

  return ps_cuda_queue_await (&cuda->queue, 0, error)
         && ps_cuda_ok ("comparing clocks", ps_cuda_clock_set (&cuda->queue.clock, cuda->shared.context.stream), error);
}

/* Waits until one more op may be started. Devices of an endless run never wait for all of theirs, and their clocks
 * drift, so now and then this does. */
static gboolean
make_room (CudaDevice *cuda, GError **error)
{
  return cuda->setting.ahead > 0 && cuda->left == NULL && !ps_cuda_clock_is_recent (&cuda->queue.clock)
             ? cuda_await (&cuda->base, error)
             : ps_cuda_queue_await (&cuda->queue, MAX (cuda->setting.ahead, 1), error);
}

static gboolean
cuda_start (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, PsTimes *times, GError **error)
{
  CudaDevice *cuda = cuda_device (device);
  void *result = NULL;
  gboolean ok;

  g_return_val_if_fail (input == NULL || input->device == device, FALSE);

  if (!ps_device_check_op (op.stage < cuda->setting.n_stages && cuda->stages[op.stage] != NULL, op, error)
      || !make_room (cuda, error))
    {
      cuda_tensor_free (input);
      return FALSE;
    }
  free_taken (cuda);
  open_range (op);
  ok = launch (cuda, op, input, &result, times, error);
  nvtxRangePop ();
  if (!ok)
    {
      g_prefix_error (error, "stage %u: ", op.stage);
      ps_memory_pool_give (cuda->shared.memory, g_steal_pointer (&result));
    }
  g_assert (output != NULL || result == NULL);
  if (output != NULL)
    *output = result != NULL ? hand_out (cuda, result, error) : NULL;
  return ok && (result == NULL || *output != NULL);
}

static gboolean
cuda_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  CudaDevice *cuda = cuda_device (device);

  if (!cuda_start (device, op, input, output, NULL, error))
    return FALSE;
  if (cuda->left != NULL || ps_cuda_queue_await (&cuda->queue, 0, error))
    return TRUE;
  if (output != NULL)
    cuda_tensor_free (g_steal_pointer (output));
  return FALSE;
}

static gboolean
cuda_begin (PsDevice *device, guint64 step, GError **error)
{
  return ps_cuda_shared_begin (&cuda_device (device)->shared, step, error);
}

static double
cuda_loss (PsDevice *device, guint microbatch)
{
  CudaDevice *cuda = cuda_device (device);
  double loss = NAN;

  for (guint i = cuda->setting.n_stages; i-- > 0 && isnan (loss);)
    if (cuda->stages[i] != NULL)
      loss = ps_cuda_stage_loss (cuda->stages[i], microbatch);
  return loss;
}

static const float *
cuda_gradients (PsDevice *device, guint stage, gsize *n)
{
  PsCudaStage *resident = cuda_device (device)->stages[stage];

  *n = 0;
  return resident != NULL ? ps_cuda_stage_gradients (resident, n) : NULL;
}

static float *
cuda_gradient_memory (PsDevice *device, guint stage, gsize *n)
{
  PsCudaStage *resident = cuda_device (device)->stages[stage];

  *n = 0;
  return resident != NULL ? ps_cuda_stage_gradient_memory (resident, n) : NULL;
}

static gboolean
cuda_read_state (PsDevice *device, guint stage, PsStageState *state, GError **error)
{
  return ps_cuda_stage_read_state (cuda_device (device)->stages[stage], state, error);
}

static gboolean
cuda_write_state (PsDevice *device, guint stage, const PsStageState *state, GError **error)
{
  return ps_cuda_stage_write_state (cuda_device (device)->stages[stage], state, error);
}

static gboolean
cuda_use_version (PsDevice *device, guint stage, guint64 version, GError **error)
{
  return ps_cuda_stage_use (cuda_device (device)->stages[stage], stage, version, error);
}

static double
cuda_norm_square (PsDevice *device, guint stage)
{
  return ps_cuda_stage_norm_square (cuda_device (device)->stages[stage]);
}

static gboolean
cuda_settle (PsDevice *device, guint stage, float scale, GError **error)
{
  if (ps_cuda_stage_settle (cuda_device (device)->stages[stage], scale, error))
    return TRUE;
  g_prefix_error (error, "stage %u: ", stage);
  return FALSE;
}

static void
cuda_forget (PsDevice *device)
{
  CudaDevice *cuda = cuda_device (device);

  for (guint i = 0; i < cuda->setting.n_stages; i++)
    if (cuda->stages[i] != NULL)
      ps_cuda_stage_forget (cuda->stages[i]);
}

static void *
cuda_stream (PsDevice *device)
{
  return cuda_device (device)->shared.context.stream;
}

static gboolean
cuda_sum (const PsDeviceSum *sum, PsSumPhase phase, GError **error)
{
  g_autofree PsCudaSum **all = g_new (PsCudaSum *, sum->n_devices);

  for (guint i = 0; i < sum->n_devices; i++)
    all[i] = &cuda_device (sum->devices[i])->sum;
  return ps_cuda_sum (&cuda_device (sum->devices[sum->own])->shared, all, sum, phase, error);
}

static gint64
cuda_op_ns (PsDevice *device)
{
  return cuda_device (device)->queue.op_ns;
}

static gboolean
cuda_flush_cache (PsDevice *device, GError **error)
{
  CudaDevice *cuda = cuda_device (device);

  return ps_cuda_flush (&cuda->shared.context, &cuda->flush, error);
}

static gboolean
cuda_occupy (PsDevice *device, guint n_blocks, GError **error)
{
  CudaDevice *cuda = cuda_device (device);

  return ps_cuda_occupy (&cuda->shared.context, &cuda->holder, n_blocks, error);
}

static void
cuda_condition (PsDevice *device, PsCondition *condition)
{
  char bus_id[32];

  *condition = (PsCondition){ 0 };
  if (cudaDeviceGetPCIBusId (bus_id, sizeof bus_id, cuda_device (device)->shared.context.gpu) == cudaSuccess)
    ps_cuda_nvml_read (bus_id, condition);
}

static char *
cuda_place (const PsDeviceSetting *setting)
{
  char bus_id[32];
  int count;

  if (cudaGetDeviceCount (&count) != cudaSuccess)
    return NULL;
  const PsCudaPlace place = ps_cuda_place (setting->index, setting->n_local, setting->exclusive, (guint)count);
  if (cudaDeviceGetPCIBusId (bus_id, sizeof bus_id, (int)place.gpu) != cudaSuccess)
    return NULL;
  g_autofree char *links = ps_cuda_nvml_links (bus_id);
  return ps_place_of_gpu (bus_id, links);
}

static guint
cuda_sharing (PsDevice *device)
{
  return cuda_device (device)->shared.context.n_sharing;
}

static guint
cuda_part (PsDevice *device)
{
  return cuda_device (device)->shared.context.n_sms;
}

static GBytes *
cuda_choices (PsDevice *device)
{
  return ps_cuda_choices (&cuda_device (device)->shared.context);
}

static gboolean
cuda_adopt_choices (PsDevice *device, GBytes *choices, GError **error)
{
  return ps_cuda_adopt_choices (&cuda_device (device)->shared.context, choices, error);
}

static void
cuda_memory (PsDevice *device, PsMemoryUse *use)
{
  free_taken (cuda_device (device));
  ps_memory_pool_use (cuda_device (device)->shared.memory, use);
}

static void
cuda_reset_peak (PsDevice *device)
{
  ps_memory_pool_reset_peak (cuda_device (device)->shared.memory);
}

#ifdef PS_CUDA_EMULATED
#define MEASURES FALSE
#else
#define MEASURES TRUE
#endif

static const PsDeviceClass cuda_class = {
  .name = "cuda",
  .description = "a real transformer stage on an NVIDIA GPU or a part of one, fp32 or bf16",
  .computes = TRUE,
  .measures = MEASURES,
  .splits = TRUE,
  .tensor = TRUE,
  .overlaps = TRUE,
  .available = ps_cuda_available,
  .open = cuda_open,
  .close = cuda_close,
  .attach = cuda_attach,
  .place = cuda_place,
  .add_stage = cuda_add_stage,
  .tensor_new = cuda_tensor_new,
  .tensor_free = cuda_tensor_free,
  .write = cuda_write,
  .read = cuda_read,
  .copy = cuda_copy,
  .begin = cuda_begin,
  .use_version = cuda_use_version,
  .norm_square = cuda_norm_square,
  .settle = cuda_settle,
  .forget = cuda_forget,
  .run = cuda_run,
  .start = cuda_start,
  .await = cuda_await,
  .loss = cuda_loss,
  .gradients = cuda_gradients,
  .gradient_memory = cuda_gradient_memory,
  .read_state = cuda_read_state,
  .write_state = cuda_write_state,
  .stream = cuda_stream,
  .sum = cuda_sum,
  .op_ns = cuda_op_ns,
  .flush_cache = cuda_flush_cache,
  .occupy = cuda_occupy,
  .condition = cuda_condition,
  .sharing = cuda_sharing,
  .part = cuda_part,
  .choices = cuda_choices,
  .adopt_choices = cuda_adopt_choices,
  .memory = cuda_memory,
  .reset_peak = cuda_reset_peak,
  .processor = ps_cuda_processor,
  .libraries = ps_cuda_libraries,
  .idle = ps_cuda_idle,
};

const guint64 ps_module_stamp = PS_MODULE_STAMP;

const PsDeviceClass *
ps_cuda_device_class (void)
{
  return &cuda_class;
}

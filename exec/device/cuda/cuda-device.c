/* cuda-device.c - the class "cuda": a transformer stage on an NVIDIA GPU, in fp32 or bf16. */
#include "cuda-device.h"

#include "cuda-algorithms.h"
#include "cuda-cache.h"
#include "cuda-libraries.h"
#include "cuda-nvml.h"
#include "cuda-occupy.h"
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
  gboolean left;             /* the first op of a pair is under way */
  PsCudaStage **stages;      /* [n_stages], NULL where not resident */
  PsCudaFlush flush;
  PsCudaHolder holder;
  PsCudaSum sum;
} CudaDevice;

static CudaDevice *
cuda_device (PsDevice *device)
{
  return (CudaDevice *)device;
}

static void
cuda_close (PsDevice *device)
{
  CudaDevice *cuda = cuda_device (device);

  if (cuda == NULL)
    return;
  ps_cuda_context_enter (&cuda->shared.context, NULL);
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
  if (!ps_cuda_context_open (&device->shared.context, setting, error))
    {
      cuda_close (&device->base);
      return NULL;
    }
  return &device->base;
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
  PsTensor *tensor = g_new (PsTensor, 1);

  *tensor
      = (PsTensor){ .device = &cuda->base, .bytes = ps_cuda_sizes_boundary_bytes (&cuda->shared.sizes), .data = block };
  return tensor;
}

static PsTensor *
cuda_tensor_new (PsDevice *device)
{
  CudaDevice *cuda = cuda_device (device);
  void *block
      = ps_memory_pool_take (cuda->shared.memory, ps_cuda_sizes_boundary_bytes (&cuda->shared.sizes), PS_USE_BUFFER);

  return block != NULL ? wrap (cuda, block) : NULL;
}

static void
cuda_tensor_free (PsTensor *tensor)
{
  if (tensor == NULL)
    return;
  ps_memory_pool_give (cuda_device (tensor->device)->shared.memory, tensor->data);
  g_free (tensor);
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

static gboolean
cuda_copy (PsTensor *to, const PsTensor *from, GError **error)
{
  return ps_cuda_copy (&cuda_device (to->device)->shared.context, to->data, from->data, from->bytes, error);
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
fit (CudaDevice *cuda, gboolean wanted, void **block, GError **error)
{
  PsCudaShared *shared = &cuda->shared;
  const gsize bytes = ps_cuda_sizes_boundary_bytes (&shared->sizes);

  if (!wanted)
    ps_memory_pool_give (shared->memory, g_steal_pointer (block));
  if (!wanted || *block != NULL)
    return TRUE;
  *block = ps_cuda_shared_take (shared, bytes, PS_USE_BUFFER, "activations", error);
  return *block != NULL
         && ps_cuda_ok ("clearing memory", cudaMemsetAsync (*block, 0, bytes, shared->context.stream), error)
         && ps_cuda_ok ("waiting", cudaStreamSynchronize (shared->context.stream), error);
}

/* Runs the second op of a pair beside the first, and waits for both. Both follow all that came before the pair. */
static gboolean
run_beside (CudaDevice *cuda, PsCudaStage *stage, PsOp op, void *block, void **result, GError **error)
{
  PsCudaContext *first = &cuda->shared.context, *second = &cuda->twin.context;
  gboolean done;

  cuda->twin.words = cuda->shared.words;
  cuda->twin.step = cuda->shared.step;
  ps_cuda_stage_move (stage, &cuda->twin);
  done = ps_cuda_ok ("following the ops before a pair", cudaStreamWaitEvent (second->stream, first->begin, 0), error)
         && ps_cuda_stage_run (stage, op, block, result, error);
  ps_cuda_stage_move (stage, &cuda->shared);
  done = ps_cuda_await (first, done ? error : NULL) && done;
  ps_memory_pool_hold (cuda->shared.memory, FALSE);
  return done;
}

/* The first op of a pair is left under way. Nothing that it gives back may be taken by the second. */
static gboolean
run_on_stage (CudaDevice *cuda, PsOp op, void *block, void **result, GError **error)
{
  PsCudaStage *stage = cuda->stages[op.stage];

  if (cuda->left)
    {
      cuda->left = cuda->shared.context.leaves = FALSE;
      return run_beside (cuda, stage, op, block, result, error);
    }
  cuda->left = cuda->shared.context.leaves = op.paired && cuda->twin.products != NULL;
  if (cuda->left)
    ps_memory_pool_hold (cuda->shared.memory, TRUE);
  return ps_cuda_stage_run (stage, op, block, result, error);
}

static gboolean
cuda_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  CudaDevice *cuda = cuda_device (device);
  void *result = NULL, *block;
  gboolean ok;
  guint next;

  g_return_val_if_fail (input == NULL || input->device == device, FALSE);

  if (!ps_device_check_op (op.stage < cuda->setting.n_stages && cuda->stages[op.stage] != NULL, op, error))
    {
      cuda_tensor_free (input);
      return FALSE;
    }
  block = input != NULL ? input->data : NULL;
  g_free (input);
  open_range (op);
  ok = fit (cuda, ps_device_op_reads (ps_cuda_stage_shape (cuda->stages[op.stage]), op), &block, error)
       && run_on_stage (cuda, op, block, &result, error)
       && fit (cuda, ps_op_output (op, cuda->setting.n_stages, &next), &result, error);
  nvtxRangePop ();
  if (!ok)
    g_prefix_error (error, "stage %u: ", op.stage);
  g_assert (output != NULL || result == NULL);
  if (output != NULL)
    *output = result != NULL ? wrap (cuda, result) : NULL;
  return ok;
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
  return cuda_device (device)->shared.context.op_ns;
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

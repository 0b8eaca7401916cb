/* cuda-device.c - the class "cuda": a transformer stage on an NVIDIA GPU, in fp32 or bf16. */
#include "cuda-device.h"

#include "cuda-device-private.h"
#include "train/devices.h"
#include "module.h"
#include "places.h"

#include <math.h>

static const PsDeviceClass cuda_class;

static void cuda_close (PsDevice *device)
{
  PsCudaDevice *cuda = ps_cuda_device (device);

  if (cuda == NULL)
    return;
  ps_cuda_context_enter (&cuda->shared.context, NULL);
  ps_cuda_queue_await (&cuda->queue, 0, NULL);
  if (ps_cuda_queue_any_lost ())
    return;
  g_queue_clear_full (&cuda->taken, ps_cuda_tensor_destroy);
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
static gboolean open_queue (PsCudaDevice *cuda, GError **error)
{
  PsCudaContext *context = &cuda->shared.context;

  return ps_cuda_context_enter (context, error)
         && ps_cuda_queue_open (&cuda->queue, cuda->setting.ahead > 0 ? cuda->setting.timeout_ns : 0, error)
         && (cuda->setting.ahead == 0 || ps_cuda_context_open_twin (&cuda->copies, context, error))
         && ps_cuda_ok ("leaving a GPU", cudaSetDevice (context->gpu), error);
}

static PsDevice *cuda_open (const PsDeviceSetting *setting, GError **error)
{
  PsCudaSizes sizes;
  PsCudaDevice *device;

  if (setting->model == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "cuda device: needs a model description");
  if (!ps_cuda_sizes_init (&sizes, setting, error))
    return NULL;

  device = g_new0 (PsCudaDevice, 1);
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

static gboolean cuda_attach (PsDevice *device, GError **error)
{
  return ps_cuda_context_enter (&ps_cuda_device (device)->shared.context, error);
}

static gboolean cuda_add_stage (PsDevice *device, guint stage, const PsStageShape *shape, GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);
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

static gboolean cuda_begin (PsDevice *device, guint64 step, GError **error)
{
  return ps_cuda_shared_begin (&ps_cuda_device (device)->shared, step, error);
}

static double cuda_loss (PsDevice *device, guint microbatch)
{
  PsCudaDevice *cuda = ps_cuda_device (device);
  double loss = NAN;

  for (guint i = cuda->setting.n_stages; i-- > 0 && isnan (loss);)
    if (cuda->stages[i] != NULL)
      loss = ps_cuda_stage_loss (cuda->stages[i], microbatch);
  return loss;
}

static const float *cuda_gradients (PsDevice *device, guint stage, gsize *n)
{
  PsCudaStage *resident = ps_cuda_device (device)->stages[stage];

  *n = 0;
  return resident != NULL ? ps_cuda_stage_gradients (resident, n) : NULL;
}

static float *cuda_gradient_memory (PsDevice *device, guint stage, gsize *n)
{
  PsCudaStage *resident = ps_cuda_device (device)->stages[stage];

  *n = 0;
  return resident != NULL ? ps_cuda_stage_gradient_memory (resident, n) : NULL;
}

static gboolean cuda_read_state (PsDevice *device, guint stage, PsStageState *state, GError **error)
{
  return ps_cuda_stage_read_state (ps_cuda_device (device)->stages[stage], state, error);
}

static gboolean cuda_write_state (PsDevice *device, guint stage, const PsStageState *state, GError **error)
{
  return ps_cuda_stage_write_state (ps_cuda_device (device)->stages[stage], state, error);
}

static gboolean cuda_use_version (PsDevice *device, guint stage, guint64 version, GError **error)
{
  return ps_cuda_stage_use (ps_cuda_device (device)->stages[stage], stage, version, error);
}

static double cuda_norm_square (PsDevice *device, guint stage)
{
  return ps_cuda_stage_norm_square (ps_cuda_device (device)->stages[stage]);
}

static gboolean cuda_settle (PsDevice *device, guint stage, float scale, GError **error)
{
  if (ps_cuda_stage_settle (ps_cuda_device (device)->stages[stage], scale, error))
    return TRUE;
  g_prefix_error (error, "stage %u: ", stage);
  return FALSE;
}

static void cuda_forget (PsDevice *device)
{
  PsCudaDevice *cuda = ps_cuda_device (device);

  for (guint i = 0; i < cuda->setting.n_stages; i++)
    if (cuda->stages[i] != NULL)
      ps_cuda_stage_forget (cuda->stages[i]);
}

static void *cuda_stream (PsDevice *device)
{
  return ps_cuda_device (device)->shared.context.stream;
}

static gboolean cuda_sum (const PsDeviceSum *sum, PsSumPhase phase, GError **error)
{
  g_autofree PsCudaSum **all = g_new (PsCudaSum *, sum->n_devices);

  for (guint i = 0; i < sum->n_devices; i++)
    all[i] = &ps_cuda_device (sum->devices[i])->sum;
  return ps_cuda_sum (&ps_cuda_device (sum->devices[sum->own])->shared, all, sum, phase, error);
}

static gint64 cuda_op_ns (PsDevice *device)
{
  return ps_cuda_device (device)->queue.op_ns;
}

static gboolean cuda_flush_cache (PsDevice *device, GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);

  return ps_cuda_flush (&cuda->shared.context, &cuda->flush, error);
}

static gboolean cuda_occupy (PsDevice *device, guint n_blocks, GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);

  return ps_cuda_occupy (&cuda->shared.context, &cuda->holder, n_blocks, error);
}

static void cuda_condition (PsDevice *device, PsCondition *condition)
{
  char bus_id[32];

  *condition = (PsCondition){ 0 };
  if (cudaDeviceGetPCIBusId (bus_id, sizeof bus_id, ps_cuda_device (device)->shared.context.gpu) == cudaSuccess)
    ps_cuda_nvml_read (bus_id, condition);
}

static char *cuda_place (const PsDeviceSetting *setting)
{
  char bus_id[32];
  int count;

  if (cudaGetDeviceCount (&count) != cudaSuccess)
    return NULL;
  const PsCudaPlace place = ps_cuda_place (setting, (guint)count);
  if (cudaDeviceGetPCIBusId (bus_id, sizeof bus_id, (int)place.gpu) != cudaSuccess)
    return NULL;
  g_autofree char *links = ps_cuda_nvml_links (bus_id);
  return ps_place_of_gpu (bus_id, links);
}

static guint cuda_sharing (PsDevice *device)
{
  return ps_cuda_device (device)->shared.context.n_sharing;
}

static guint cuda_part (PsDevice *device)
{
  return ps_cuda_device (device)->shared.context.n_sms;
}

static GBytes *cuda_choices (PsDevice *device)
{
  return ps_cuda_choices (&ps_cuda_device (device)->shared.context);
}

static gboolean cuda_adopt_choices (PsDevice *device, GBytes *choices, GError **error)
{
  return ps_cuda_adopt_choices (&ps_cuda_device (device)->shared.context, choices, error);
}

static void cuda_memory (PsDevice *device, PsMemoryUse *use)
{
  ps_cuda_tensors_free_taken (ps_cuda_device (device));
  ps_memory_pool_use (ps_cuda_device (device)->shared.memory, use);
}

static void cuda_reset_peak (PsDevice *device)
{
  ps_memory_pool_reset_peak (ps_cuda_device (device)->shared.memory);
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
  .tensor_new = ps_cuda_tensor_new,
  .tensor_free = ps_cuda_tensor_free,
  .write = ps_cuda_tensor_write,
  .read = ps_cuda_tensor_read,
  .copy = ps_cuda_tensor_copy,
  .begin = cuda_begin,
  .use_version = cuda_use_version,
  .norm_square = cuda_norm_square,
  .settle = cuda_settle,
  .forget = cuda_forget,
  .run = ps_cuda_device_run,
  .start = ps_cuda_device_start,
  .await = ps_cuda_device_await,
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
  .warning = ps_cuda_idle,
};

const guint64 ps_module_stamp = PS_MODULE_STAMP;

/* Streams share the hardware's queues: 8, unless this variable sets more. Work in one queue runs in turn, even on
 * disjoint multiprocessors (CUDA driver API, "Green Contexts"). The first call of CUDA reads it, so it is set when the
 * module is loaded. */
#define QUEUES_VARIABLE "CUDA_DEVICE_MAX_CONNECTIONS"
#define MOST_QUEUES "32"

const PsDeviceClass *ps_cuda_device_class (void)
{
  g_setenv (QUEUES_VARIABLE, MOST_QUEUES, FALSE);
  return &cuda_class;
}

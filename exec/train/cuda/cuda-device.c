/* cuda-device.c - the class "cuda": a transformer stage on an NVIDIA GPU, in fp32 or bf16. */
#include "cuda-device.h"

#include "cuda-algorithms.h"
#include "cuda-device-private.h"
#include "cuda-kernels.h"
#include "cuda-libraries.h"
#include "cuda-nvml.h"
#include "cuda-products.h"
#include "cuda-share.h"
#include "train/devices.h"
#include "module.h"
#include "places.h"

static const PsDeviceClass cuda_class;

static void cuda_close (PsDevice *device)
{
  PsCudaDevice *cuda = ps_cuda_device (device);

  if (cuda == NULL)
    return;
  ps_cuda_context_enter (&cuda->context, NULL);
  ps_cuda_queue_await (&cuda->queue, 0, NULL);
  if (ps_cuda_queue_any_lost ())
    return;
  g_queue_clear_full (&cuda->taken, ps_cuda_tensor_destroy);
  ps_cuda_queue_close (&cuda->queue);
  ps_cuda_context_close_twin (&cuda->copies);
  g_mutex_clear (&cuda->mutex);
  ps_cuda_flush_clear (&cuda->flush);
  ps_cuda_holder_clear (&cuda->holder);
  ps_cuda_sum_clear (&cuda->sum);
  ps_transformer_clear (&cuda->transformer);
  ps_cuda_products_free (cuda->twin.products);
  ps_cuda_context_close_twin (&cuda->twin);
  ps_cuda_products_free (cuda->context.products);
  ps_cuda_context_close (&cuda->context);
  g_free (cuda);
}

static gboolean open_products (PsCudaContext *context, GError **error)
{
  context->products = ps_cuda_products_new (context, context->base.element, error);
  return context->products != NULL;
}

/* Devices that share layers run the ops of a pair one by one. */
static gboolean open_twin (PsCudaDevice *cuda, GError **error)
{
  if (!cuda->transformer.setting.pairs || cuda->transformer.sizes.parts > 1)
    return TRUE;
  cuda->transformer.twin = &cuda->twin.base;
  return ps_cuda_context_open_twin (&cuda->twin, &cuda->context, error) && open_products (&cuda->twin, error);
}

/* The thread that opens the device leaves its context again: see ps_cuda_context_open. */
static gboolean open_queues (PsCudaDevice *cuda, GError **error)
{
  const PsDeviceSetting *setting = &cuda->transformer.setting;
  PsCudaContext *context = &cuda->context;

  return ps_cuda_context_enter (context, error) && open_products (context, error) && open_twin (cuda, error)
         && ps_cuda_queue_open (&cuda->queue, setting->ahead > 0 ? setting->timeout_ns : 0, error)
         && (setting->ahead == 0 || ps_cuda_context_open_twin (&cuda->copies, context, error))
         && ps_cuda_ok ("leaving a GPU", cudaSetDevice (context->gpu), error);
}

static PsDevice *cuda_open (const PsDeviceSetting *setting, GError **error)
{
  PsCudaDevice *cuda = g_new0 (PsCudaDevice, 1);

  if (!ps_transformer_init (&cuda->transformer, &cuda_class, &ps_cuda_kernels, setting, error)) {
    g_free (cuda);
    return NULL;
  }
  cuda->transformer.queue = &cuda->context.base;
  cuda->context.base.element = cuda->transformer.sizes.element;
  g_mutex_init (&cuda->mutex);
  if (ps_cuda_context_open (&cuda->context, setting, error) && open_queues (cuda, error))
    return &cuda->transformer.base;
  cuda_close (&cuda->transformer.base);
  return NULL;
}

static gboolean cuda_attach (PsDevice *device, GError **error)
{
  return ps_cuda_context_enter (&ps_cuda_device (device)->context, error);
}

/* Takes the room for sums over devices that share layers before the first stage. */
static gboolean take_totals (PsCudaDevice *cuda, GError **error)
{
  const PsSizes *sizes = &cuda->transformer.sizes;
  const gsize n = (gsize)sizes->batch * (gsize)sizes->longest * (gsize)sizes->hidden;

  if (sizes->parts == 1 || cuda->sum.totals != NULL)
    return TRUE;
  cuda->sum.totals
      = ps_transformer_take (&cuda->transformer, 2 * n * sizeof (float), PS_USE_STATE, "sums over devices", error);
  return cuda->sum.totals != NULL;
}

static gboolean cuda_add_stage (PsDevice *device, guint stage, const PsStageShape *shape, GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);
  const guint *parts = cuda->transformer.setting.parts;

  return take_totals (cuda, error)
         && ps_transformer_add_stage (&cuda->transformer, stage, shape,
                                      parts != NULL ? parts[stage] : cuda->context.n_sms, error);
}

static void *cuda_stream (PsDevice *device)
{
  return ps_cuda_device (device)->context.stream;
}

static gboolean cuda_sum (const PsDeviceSum *sum, PsSumPhase phase, GError **error)
{
  g_autofree PsCudaSum **all = g_new (PsCudaSum *, sum->n_devices);

  for (guint i = 0; i < sum->n_devices; i++)
    all[i] = &ps_cuda_device (sum->devices[i])->sum;
  return ps_cuda_sum (&ps_cuda_device (sum->devices[sum->own])->context, all, sum, phase, error);
}

static gint64 cuda_op_ns (PsDevice *device)
{
  return ps_cuda_device (device)->queue.op_ns;
}

static gboolean cuda_flush_cache (PsDevice *device, GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);

  return ps_cuda_flush (&cuda->context, &cuda->flush, error);
}

static gboolean cuda_occupy (PsDevice *device, guint n_blocks, GError **error)
{
  PsCudaDevice *cuda = ps_cuda_device (device);

  return ps_cuda_occupy (&cuda->context, &cuda->holder, n_blocks, error);
}

static void cuda_condition (PsDevice *device, PsCondition *condition)
{
  char bus_id[32];

  *condition = (PsCondition){ 0 };
  if (cudaDeviceGetPCIBusId (bus_id, sizeof bus_id, ps_cuda_device (device)->context.gpu) == cudaSuccess)
    ps_cuda_nvml_read (bus_id, condition);
}

static char *cuda_place (const PsDeviceSetting *setting)
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

static guint cuda_sharing (PsDevice *device)
{
  return ps_cuda_device (device)->context.n_sharing;
}

static guint cuda_part (PsDevice *device)
{
  return ps_cuda_device (device)->context.n_sms;
}

static GBytes *cuda_choices (PsDevice *device)
{
  return ps_cuda_choices (&ps_cuda_device (device)->context);
}

static gboolean cuda_adopt_choices (PsDevice *device, GBytes *choices, GError **error)
{
  return ps_cuda_adopt_choices (&ps_cuda_device (device)->context, choices, error);
}

static void cuda_memory (PsDevice *device, PsMemoryUse *use)
{
  ps_cuda_tensors_free_taken (ps_cuda_device (device));
  ps_transformer_memory (device, use);
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
  .begin = ps_transformer_begin,
  .use_version = ps_transformer_use_version,
  .norm_square = ps_transformer_norm_square,
  .settle = ps_transformer_settle,
  .forget = ps_transformer_forget,
  .run = ps_cuda_device_run,
  .start = ps_cuda_device_start,
  .await = ps_cuda_device_await,
  .loss = ps_transformer_loss,
  .gradients = ps_transformer_gradients,
  .gradient_memory = ps_transformer_gradient_memory,
  .read_state = ps_transformer_read_state,
  .write_state = ps_transformer_write_state,
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
  .reset_peak = ps_transformer_reset_peak,
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

/* cuda-device.c - the class "cuda": a transformer stage on an NVIDIA GPU, in fp32 or bf16. Ops are given to a stream,
 * and the host waits for each or goes ahead; messages between devices are copied in the order of streams. */
#include "clock.h"
#include "cuda-clock.h"
#include "cuda-context.h"
#include "cuda-kernels.h"
#include "module.h"
#include "places.h"
#include "train/devices.h"
#include "train/transformer.h"

#include <pipesim/cluster.h>
#include <pipesim/formats.h>

#include <cublasLt.h>
#include <gmodule.h>
#include <string.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
#define nvtxRangePushA(name) ((void)(name))
#define nvtxRangePop()
#endif

/* An op or the copy of a message that streams have been given and the host has not yet seen done. A job is given to the
 * streams after all jobs before it; an op is done after them. */
typedef struct {
  PsOp op;         /* that runs */
  gboolean copies; /* a message instead; op does not count */
  cudaEvent_t begin, end;
  gboolean ended; /* its end was marked */
  PsTimes *times; /* filled in when it is done; NULL: nobody asks */
} Job;

typedef struct {
  PsTransformer transformer;
  PsCudaContext context;
  PsCudaContext twin;   /* runs the second op of a pair; it is not open where there are no pairs */
  PsCudaContext copies; /* of messages; open with PsDeviceSetting.ahead */

  GQueue jobs;       /* Job, oldest first */
  GPtrArray *idle;   /* Job with events, for later jobs */
  guint64 n_started; /* ops so far */
  guint64 n_done;
  gint64 op_ns;  /* the latest op that is done took so long */
  gboolean lost; /* a job has not ended in time, so that the streams may never be idle again */
  Job *left;     /* the first op of a pair, under way; NULL: no pair is */
  PsCudaClock clock;

  GMutex mutex;
  GQueue taken; /* Tensor that have been freed while another device still copies them; under mutex */

  cudaEvent_t shown; /* the numbers of a sum are there */
  cudaEvent_t added; /* this device has read the numbers of all */
  float *totals;     /* room for twice the numbers of a sum; NULL until a stage is there, or no device shares layers */

  void *flush; /* see cuda_flush_cache; NULL until first used */
  gsize flush_bytes;
  int flush_value;          /* written last */
  cudaStream_t hold_stream; /* see cuda_occupy; NULL until first used */
  unsigned *hold_flags;     /* host memory that the GPU sees */
} CudaDevice;

typedef struct {
  PsTensor base;
  cudaEvent_t taken; /* another device has copied it; NULL: none does, or the copy is done */
} Tensor;

static const PsDeviceClass cuda_class;

static CudaDevice *cuda_device (PsDevice *device)
{
  return (CudaDevice *)device;
}

static const PsDeviceSetting *setting_of (const CudaDevice *cuda)
{
  return &cuda->transformer.setting;
}

/* Makes the stream wait for the event; NULL: for nothing. */
static gboolean follow (cudaStream_t stream, cudaEvent_t event, GError **error)
{
  return event == NULL || ps_cuda_ok ("following", cudaStreamWaitEvent (stream, event, 0), error);
}

/* Marks the place in the stream by an event that only streams wait for, which it makes first if it is NULL. */
static gboolean mark (cudaEvent_t *event, cudaStream_t stream, GError **error)
{
  return (*event != NULL
          || ps_cuda_ok ("making an event", cudaEventCreateWithFlags (event, cudaEventDisableTiming), error))
         && ps_cuda_ok ("marking an event", cudaEventRecord (*event, stream), error);
}

static void destroy_event (cudaEvent_t event)
{
  if (event != NULL)
    cudaEventDestroy (event);
}

/* --- jobs --- */

static gint n_lost; /* atomic: devices that are lost; freeing memory of a GPU might then wait for ever */

static void job_free (gpointer data)
{
  Job *job = data;

  destroy_event (job->begin);
  destroy_event (job->end);
  g_free (job);
}

/* Puts a job at the end, whose begin the stream reaches next; the caller puts its work there and then calls end_job
 * with the stream that ends it. op NULL: it copies a message. The job belongs to the device. NULL: there is no event.
 */
static Job *begin_job (CudaDevice *cuda, const PsOp *op, PsTimes *times, cudaStream_t stream, GError **error)
{
  Job *job = cuda->idle->len > 0 ? g_ptr_array_steal_index_fast (cuda->idle, cuda->idle->len - 1) : g_new0 (Job, 1);

  job->op = op != NULL ? *op : (PsOp){ 0 };
  job->copies = op == NULL;
  job->times = times;
  job->ended = FALSE;
  if ((job->begin == NULL && !ps_cuda_event (&job->begin, error))
      || (job->end == NULL && !ps_cuda_event (&job->end, error))
      || !ps_cuda_ok ("marking a begin", cudaEventRecord (job->begin, stream), error)) {
    g_ptr_array_add (cuda->idle, job);
    return NULL;
  }
  g_queue_push_tail (&cuda->jobs, job);
  cuda->n_started += !job->copies;
  return job;
}

static gboolean end_job (Job *job, cudaStream_t stream, GError **error)
{
  job->ended = ps_cuda_ok ("marking an end", cudaEventRecord (job->end, stream), error);
  return job->ended;
}

/* The oldest job is done. One that failed before its end has no times: to ask for them is an error that the next launch
 * would find (cudaGetLastError). */
static void finish_job (CudaDevice *cuda)
{
  Job *job = g_queue_pop_head (&cuda->jobs);
  float milliseconds = 0;

  if (job->ended && job->times != NULL) {
    ps_cuda_clock_time (&cuda->clock, job->begin, &job->times->start_ns);
    ps_cuda_clock_time (&cuda->clock, job->end, &job->times->end_ns);
  }
  if (job->ended && !job->copies && cudaEventElapsedTime (&milliseconds, job->begin, job->end) == cudaSuccess)
    cuda->op_ns = (gint64)((double)milliseconds * 1e6);
  cuda->n_done += !job->copies;
  g_ptr_array_add (cuda->idle, job);
}

static void set_lost (CudaDevice *cuda, gboolean lost)
{
  if (cuda->lost != lost)
    g_atomic_int_add (&n_lost, lost ? 1 : -1);
  cuda->lost = lost;
}

/* cudaErrorNotReady: not in time. */
static cudaError_t wait_for (CudaDevice *cuda, const Job *job)
{
  const gint64 timeout_ns = setting_of (cuda)->timeout_ns;

  if (setting_of (cuda)->ahead == 0 || timeout_ns == 0)
    return cudaEventSynchronize (job->end);
  const cudaError_t status = ps_cuda_poll (job->end, cuda->lost ? 0 : ps_clock_now () + timeout_ns);
  if (status == cudaErrorNotReady)
    set_lost (cuda, TRUE);
  return status;
}

/* A GPU says of no error which of its kernels has made it. */
static gboolean refuse_job (CudaDevice *cuda, const Job *job, cudaError_t status, GError **error)
{
  const guint n_after = g_queue_get_length (&cuda->jobs) - 1;
  g_autofree char *after = n_after > 0 ? g_strdup_printf (", or of %u started after it", n_after) : g_strdup ("");
  char name[48];
  g_autofree char *what = job->copies ? g_strdup ("cuda device: copy of a message")
                                      : g_strdup_printf ("stage %u: %s", job->op.stage, ps_op_format (job->op, name));

  if (status == cudaErrorNotReady)
    return ps_refuse (error, PS_ERROR_IO, "%s: not done after %g s", what, (double)setting_of (cuda)->timeout_ns / 1e9);
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "%s%s: %s", what, after, cudaGetErrorString (status));
}

/* Waits until no more than n_left ops are under way; n_left 0: until there are no jobs, either. */
static gboolean await_jobs (CudaDevice *cuda, guint n_left, GError **error)
{
  const Job *job;

  while ((job = g_queue_peek_head (&cuda->jobs)) != NULL && (n_left == 0 || cuda->n_started - cuda->n_done > n_left)) {
    const cudaError_t status = wait_for (cuda, job);

    if (status != cudaSuccess)
      return refuse_job (cuda, job, status, error);
    finish_job (cuda);
  }
  if (job == NULL)
    set_lost (cuda, FALSE);
  return TRUE;
}

/* --- messages --- */

static void tensor_destroy (gpointer data)
{
  Tensor *tensor = data;

  ps_memory_pool_give (cuda_device (tensor->base.device)->transformer.memory, tensor->base.data);
  destroy_event (tensor->base.ready);
  destroy_event (tensor->taken);
  g_free (tensor);
}

/* Frees the tensors that other devices have copied by now. */
static void free_taken (CudaDevice *cuda)
{
  g_mutex_lock (&cuda->mutex);
  for (GList *link = cuda->taken.head, *next; link != NULL; link = next) {
    Tensor *tensor = link->data;

    next = link->next;
    if (cudaEventQuery (tensor->taken) == cudaErrorNotReady)
      continue;
    g_queue_delete_link (&cuda->taken, link);
    tensor_destroy (tensor);
  }
  g_mutex_unlock (&cuda->mutex);
}

static PsTensor *wrap (CudaDevice *cuda, void *block)
{
  Tensor *tensor = g_new0 (Tensor, 1);

  tensor->base = (PsTensor){ .device = &cuda->transformer.base,
                             .bytes = ps_sizes_message_bytes (&cuda->transformer.sizes),
                             .data = block };
  return &tensor->base;
}

/* Any stream may write to it at once, so it is no block that an op under way has given back. */
static PsTensor *cuda_tensor_new (PsDevice *device)
{
  CudaDevice *cuda = cuda_device (device);
  PsMemoryPool *memory = cuda->transformer.memory;
  const Job *job;

  free_taken (cuda);
  while ((job = g_queue_peek_head (&cuda->jobs)) != NULL && cudaEventQuery (job->end) == cudaSuccess)
    finish_job (cuda);
  ps_memory_pool_turn (memory, cuda->n_started, cuda->n_done);
  void *block = ps_memory_pool_take (memory, ps_sizes_message_bytes (&cuda->transformer.sizes), PS_USE_BUFFER);
  if (block != NULL)
    return wrap (cuda, block);
  return cuda->n_done == cuda->n_started || !await_jobs (cuda, 0, NULL) ? NULL : cuda_tensor_new (device);
}

static void cuda_tensor_free (PsTensor *tensor)
{
  cudaEvent_t taken = tensor != NULL ? ((Tensor *)tensor)->taken : NULL;

  if (tensor == NULL)
    return;
  if (taken == NULL || cudaEventQuery (taken) != cudaErrorNotReady) {
    tensor_destroy (tensor);
    return;
  }
  CudaDevice *cuda = cuda_device (tensor->device);
  g_mutex_lock (&cuda->mutex);
  g_queue_push_tail (&cuda->taken, tensor);
  g_mutex_unlock (&cuda->mutex);
}

static gboolean cuda_write (PsTensor *tensor, const void *bytes, GError **error)
{
  return ps_cuda_copy (&cuda_device (tensor->device)->context, tensor->data, bytes, tensor->bytes, error);
}

static gboolean cuda_read (PsTensor *tensor, void *bytes, GError **error)
{
  return ps_cuda_copy (&cuda_device (tensor->device)->context, bytes, tensor->data, tensor->bytes, error);
}

/* Makes the copies of a device follow the op that makes a message. Parts of one GPU share its hardware queues: a stream
 * that waits there can hold up streams of other parts. So the host waits for them. */
static gboolean follow_maker (CudaDevice *cuda, const PsTensor *from, GError **error)
{
  const gint64 timeout_ns = setting_of (cuda)->timeout_ns;

  if (from->ready == NULL || cuda->context.n_sharing == 1)
    return follow (cuda->copies.stream, from->ready, error);
  const cudaError_t status = ps_cuda_poll (from->ready, ps_clock_now () + timeout_ns);
  if (status == cudaErrorNotReady)
    return ps_refuse (error, PS_ERROR_IO, "cuda device: a message: not there after %g s", (double)timeout_ns / 1e9);
  return ps_cuda_ok ("waiting for a message", status, error);
}

/* With PsDeviceSetting.ahead no op of this device that is under way uses the memory of `to`, see cuda_tensor_new. */
static gboolean cuda_copy (PsTensor *to, PsTensor *from, PsTimes *times, GError **error)
{
  CudaDevice *cuda = cuda_device (to->device);
  const cudaStream_t copies = cuda->copies.stream;

  if (setting_of (cuda)->ahead == 0)
    return ps_cuda_copy (&cuda->context, to->data, from->data, from->bytes, error);
  if (!follow_maker (cuda, from, error))
    return FALSE;
  Job *job = begin_job (cuda, NULL, times, copies, error);
  return job != NULL
         && ps_cuda_ok ("copying", cudaMemcpyAsync (to->data, from->data, to->bytes, cudaMemcpyDefault, copies), error)
         && end_job (job, copies, error) && follow (cuda->context.stream, job->end, error)
         && mark (&((Tensor *)from)->taken, copies, error);
}

/* --- ops --- */

/* Names the op's range in profilers as PyTorch names it. */
static void open_range (PsOp op)
{
  g_autofree char *name = ps_torch_op_name (op);
  g_autofree char *range = name != NULL ? g_strconcat ("PP:", name, NULL) : NULL;
  char own[48];

  nvtxRangePushA (range != NULL ? range : ps_op_format (op, own));
}

/* Puts the op into the stream, or into the twin's if it is the second of a pair, which follows all that came before the
 * pair. The first stream goes on when both ops of a pair are done. The memory that the pair gives back is not taken by
 * the second op. */
static gboolean launch (CudaDevice *cuda, PsOp op, PsTensor *input, void **result, PsTimes *times, GError **error)
{
  const gboolean second = cuda->left != NULL;
  const guint64 number = cuda->n_started + 1;
  const cudaStream_t stream = second ? cuda->twin.stream : cuda->context.stream;
  void *block = input != NULL ? g_steal_pointer (&input->data) : NULL;

  cuda_tensor_free (input);
  ps_memory_pool_turn (cuda->transformer.memory, number, second ? number - 2 : number);
  Job *job = !second || follow (stream, cuda->left->begin, error) ? begin_job (cuda, &op, times, stream, error) : NULL;
  if (job == NULL)
    ps_memory_pool_give (cuda->transformer.memory, block);
  const gboolean done = job != NULL && ps_transformer_start (&cuda->transformer, second, op, block, result, error)
                        && end_job (job, stream, error);
  cuda->left = done && !second && op.paired && cuda->transformer.twin != NULL ? job : NULL;
  return done && (!second || follow (cuda->context.stream, job->end, error));
}

static gboolean cuda_await (PsDevice *device, GError **error)
{
  CudaDevice *cuda = cuda_device (device);

  return await_jobs (cuda, 0, error)
         && ps_cuda_ok ("comparing clocks", ps_cuda_clock_set (&cuda->clock, cuda->context.stream), error);
}

/* Waits until one more op may be started. Devices of an endless run never wait for all of theirs, and their clocks
 * drift, so now and then this does. */
static gboolean make_room (CudaDevice *cuda, GError **error)
{
  return setting_of (cuda)->ahead > 0 && cuda->left == NULL && !ps_cuda_clock_is_recent (&cuda->clock)
             ? cuda_await (&cuda->transformer.base, error)
             : await_jobs (cuda, MAX (setting_of (cuda)->ahead, 1), error);
}

/* Readers elsewhere wait for the result of an op that started. */
static gboolean cuda_start (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, PsTimes *times,
                            GError **error)
{
  CudaDevice *cuda = cuda_device (device);
  void *result = NULL;

  g_return_val_if_fail (input == NULL || input->device == device, FALSE);

  if (!make_room (cuda, error)) {
    cuda_tensor_free (input);
    return FALSE;
  }
  free_taken (cuda);
  open_range (op);
  gboolean ok = launch (cuda, op, input, &result, times, error);
  nvtxRangePop ();
  if (!ok) {
    g_prefix_error (error, "stage %u: ", op.stage);
    ps_memory_pool_give (cuda->transformer.memory, g_steal_pointer (&result));
  }
  g_assert (output != NULL || result == NULL);
  PsTensor *tensor = result != NULL ? wrap (cuda, result) : NULL;
  if (tensor != NULL && setting_of (cuda)->ahead > 0
      && !mark ((cudaEvent_t *)&tensor->ready, cuda->context.stream, error)) {
    cuda_tensor_free (g_steal_pointer (&tensor));
    ok = FALSE;
  }
  if (output != NULL)
    *output = tensor;
  return ok;
}

static gboolean cuda_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  CudaDevice *cuda = cuda_device (device);

  if (!cuda_start (device, op, input, output, NULL, error))
    return FALSE;
  if (cuda->left != NULL || await_jobs (cuda, 0, error))
    return TRUE;
  if (output != NULL)
    cuda_tensor_free (g_steal_pointer (output));
  return FALSE;
}

/* --- sums over devices of one process that share layers ---
 * No host waits for a GPU. Each device adds up the numbers of all by itself, in memory of its own, and writes them over
 * its numbers when all others have read these. */

#define ROW ((gsize)1024) /* a grid takes 2^31 rows, but only 65535 blocks of a row */

static gboolean copy_numbers (float *to, const float *from, gsize n, cudaStream_t stream, GError **error)
{
  return ps_cuda_ok ("copying numbers to be added up",
                     cudaMemcpyAsync (to, from, n * sizeof *to, cudaMemcpyDefault, stream), error);
}

static void add_rows (PsQueue *queue, float *total, float *more, gsize rows, gsize columns)
{
  ps_cuda_rows_add (queue, total, false, (PsRows){ more, (int)rows, (int)columns }, 1, (int)rows, (int)columns);
}

/* Share s of the numbers is added up in the order s + 1, s + 2, ..., s, as by ps_threads_sum. Copies reach other GPUs
 * in any case; kernels do not. */
static gboolean add_share (CudaDevice *cuda, const PsDeviceSum *sum, guint share, GError **error)
{
  const cudaStream_t stream = cuda->context.stream;
  const gsize first = ps_share_begin (sum->n, share, sum->n_devices);
  const gsize n = ps_share_begin (sum->n, share + 1, sum->n_devices) - first, even = n - n % ROW;
  float *total = cuda->totals + first, *other = cuda->totals + sum->n + first;
  PsCudaContext floats = { .base = { .element = PS_ELEMENT_FP32 }, .stream = stream };
  gboolean ok = TRUE;

  if (!copy_numbers (total, sum->values[(share + 1) % sum->n_devices] + first, n, stream, error))
    return FALSE;
  for (guint k = 2; ok && k <= sum->n_devices; k++) {
    const guint place = (share + k) % sum->n_devices;
    float *next = sum->values[place] + first, *more = place != sum->own ? other : next;

    ok = more == next || copy_numbers (more, next, n, stream, error);
    add_rows (&floats.base, total, more, n / ROW, ROW);
    add_rows (&floats.base, total + even, more + even, 1, n - even);
  }
  ok = ok && ps_queue_finish (&floats.base, error);
  ps_queue_begin (&floats.base);
  return ok;
}

static gboolean cuda_sum (const PsDeviceSum *sum, PsSumPhase phase, GError **error)
{
  CudaDevice *cuda = cuda_device (sum->devices[sum->own]);
  const cudaStream_t stream = cuda->context.stream;

  if (phase == PS_SUM_SHOW)
    return ps_cuda_is_on_gpu (sum->values[sum->own]) && mark (&cuda->shown, stream, error);
  for (guint i = 0; i < sum->n_devices; i++) {
    const CudaDevice *other = cuda_device (sum->devices[i]);

    if (i != sum->own && !follow (stream, phase == PS_SUM_ADD ? other->shown : other->added, error))
      return FALSE;
  }
  if (phase == PS_SUM_TAKE)
    return copy_numbers (sum->values[sum->own], cuda->totals, sum->n, stream, error);
  for (guint share = 0; share < sum->n_devices; share++)
    if (!add_share (cuda, sum, share, error))
      return FALSE;
  return mark (&cuda->added, stream, error);
}

/* --- what a measurement needs besides ops: the GPU's condition, links and names, an empty L2, busy multiprocessors ---
 */

/* The management library that comes with the driver, loaded at first use.
 *
 * Its interface is declared here, so that a build needs no installation of it: NVML API reference, "Device Queries" and
 * "Clocks Event Reasons". */

#define LIBRARY "libnvidia-ml.so.1"

typedef void *Device; /* nvmlDevice_t */

/* Constants of the interface. */
enum {
  SUCCESS = 0,
  CLOCK_SM = 1,
  CLOCK_MEMORY = 2,
  TEMPERATURE_GPU = 0,

  MAX_LINKS = 18,
  REMOTE_SWITCH = 2,

  REASON_APPLICATION_CLOCKS = 0x2,
  REASON_SW_POWER_CAP = 0x4,
  REASON_HW_SLOWDOWN = 0x8,
  REASON_SYNC_BOOST = 0x10,
  REASON_SW_THERMAL = 0x20,
  REASON_HW_THERMAL = 0x40,
  REASON_HW_POWER_BRAKE = 0x80,
};

/* nvmlPciInfo_t */
typedef struct {
  char old_bus_id[16];
  unsigned domain, bus, device, ids, subsystem;
  char bus_id[32];
} PciInfo;

/* The functions of the library; NULL: this version doesn't have it. */
typedef struct {
  int (*init) (void);
  int (*by_bus_id) (const char *bus_id, Device *device);
  int (*clock) (Device device, int type, unsigned *mhz);
  int (*temperature) (Device device, int sensor, unsigned *celsius);
  int (*power) (Device device, unsigned *milliwatts);
  int (*reasons) (Device device, unsigned long long *mask);
  int (*driver) (char *version, unsigned length);
  int (*link_state) (Device device, unsigned link, int *active);
  int (*link_remote) (Device device, unsigned link, PciInfo *remote);
  int (*link_remote_type) (Device device, unsigned link, int *type);
} Library;

static gboolean look_up (GModule *module, const char *name, void *function)
{
  gpointer symbol = NULL;

  if (!g_module_symbol (module, name, &symbol))
    return FALSE;
  memcpy (function, &symbol, sizeof symbol); /* ISO C has no cast from a data pointer */
  return TRUE;
}

/* Loads the library; FALSE: there is none that can be used. */
static gboolean load (Library *library)
{
  GModule *module = g_module_open (LIBRARY, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);

  if (module == NULL)
    return FALSE;
  g_module_make_resident (module);
  look_up (module, "nvmlDeviceGetClockInfo", &library->clock);
  look_up (module, "nvmlDeviceGetTemperature", &library->temperature);
  look_up (module, "nvmlDeviceGetPowerUsage", &library->power);
  look_up (module, "nvmlSystemGetDriverVersion", &library->driver);
  look_up (module, "nvmlDeviceGetNvLinkState", &library->link_state);
  look_up (module, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &library->link_remote);
  look_up (module, "nvmlDeviceGetNvLinkRemoteDeviceType", &library->link_remote_type);
  /* The function's name since driver 535; the older name follows. */
  if (!look_up (module, "nvmlDeviceGetCurrentClocksEventReasons", &library->reasons))
    look_up (module, "nvmlDeviceGetCurrentClocksThrottleReasons", &library->reasons);
  return look_up (module, "nvmlInit_v2", &library->init)
         && look_up (module, "nvmlDeviceGetHandleByPciBusId_v2", &library->by_bus_id) && library->init () == SUCCESS;
}

/* Returns the library; NULL: there is none. */
static const Library *get_library (void)
{
  static gsize ready; /* 1: there is one; 2: there is none */
  static Library library;

  if (g_once_init_enter (&ready))
    g_once_init_leave (&ready, load (&library) ? 1 : 2);
  return ready == 1 ? &library : NULL;
}

/* Returns the driver's own version, "580.95.05". NULL: there is no library, or it does not say. Free with g_free. */
static char *driver_version (void)
{
  const Library *library = get_library ();
  char version[80]; /* NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE */

  if (library == NULL || library->driver == NULL || library->driver (version, sizeof version) != SUCCESS)
    return NULL;
  return g_strdup (version);
}

static guint throttle_of (unsigned long long mask)
{
  guint throttle = PS_THROTTLE_KNOWN;

  if (mask & REASON_SW_POWER_CAP)
    throttle |= PS_THROTTLE_POWER;
  if (mask & (REASON_SW_THERMAL | REASON_HW_THERMAL))
    throttle |= PS_THROTTLE_HEAT;
  if (mask & (REASON_HW_SLOWDOWN | REASON_HW_THERMAL | REASON_HW_POWER_BRAKE))
    throttle |= PS_THROTTLE_HARDWARE;
  if (mask & (REASON_APPLICATION_CLOCKS | REASON_SYNC_BOOST))
    throttle |= PS_THROTTLE_SETTING;
  return throttle;
}

/* Unknown values stay zero; without the library all do. */
static void cuda_condition (PsDevice *device, PsCondition *condition)
{
  const Library *library = get_library ();
  unsigned long long mask;
  unsigned value;
  Device gpu;
  char bus_id[32];

  *condition = (PsCondition){ 0 };
  if (library == NULL || cudaDeviceGetPCIBusId (bus_id, sizeof bus_id, cuda_device (device)->context.gpu) != cudaSuccess
      || library->by_bus_id (bus_id, &gpu) != SUCCESS)
    return;
  if (library->clock != NULL && library->clock (gpu, CLOCK_SM, &value) == SUCCESS)
    condition->clock_mhz = value;
  if (library->clock != NULL && library->clock (gpu, CLOCK_MEMORY, &value) == SUCCESS)
    condition->memory_clock_mhz = value;
  if (library->temperature != NULL && library->temperature (gpu, TEMPERATURE_GPU, &value) == SUCCESS)
    condition->temperature_c = value;
  if (library->power != NULL && library->power (gpu, &value) == SUCCESS)
    condition->power_mw = value;
  if (library->reasons != NULL && library->reasons (gpu, &mask) == SUCCESS)
    condition->throttle = throttle_of (mask);
}

/* Where a direct link leads: a bus id, or "switch"; NULL: nowhere. Free with g_free. */
static char *remote_of (const Library *library, Device device, unsigned link)
{
  PciInfo remote = { 0 };
  int active = 0, type;

  if (library->link_state (device, link, &active) != SUCCESS || !active)
    return NULL;
  if (library->link_remote_type != NULL && library->link_remote_type (device, link, &type) == SUCCESS
      && type == REMOTE_SWITCH)
    return g_strdup ("switch");
  return library->link_remote (device, link, &remote) == SUCCESS
             ? g_strdup_printf ("%04x:%02x:%02x.0", remote.domain, remote.bus, remote.device)
             : NULL;
}

/* Returns the direct links of a GPU, "0000:3b:00.0*4,switch*2" (pipesim/costdb.h); "": there are none, or it is not
 * known. Free with g_free. */
static char *links_of (const char *bus_id)
{
  const Library *library = get_library ();
  g_autoptr (GPtrArray) remotes = g_ptr_array_new_with_free_func (g_free);
  GString *links = g_string_new (NULL);
  Device device;

  if (library == NULL || library->link_state == NULL || library->link_remote == NULL
      || library->by_bus_id (bus_id, &device) != SUCCESS)
    return g_string_free (links, FALSE);
  for (unsigned link = 0; link < MAX_LINKS; link++) {
    char *remote = remote_of (library, device, link);

    if (remote != NULL)
      g_ptr_array_add (remotes, remote);
  }
  while (remotes->len > 0) {
    g_autofree char *remote = g_ptr_array_steal_index (remotes, 0);
    guint n = 1, i;

    for (; g_ptr_array_find_with_equal_func (remotes, remote, g_str_equal, &i); n++)
      g_ptr_array_remove_index (remotes, i);
    g_string_append_printf (links, "%s%s*%u", links->len > 0 ? "," : "", remote, n);
  }
  return g_string_free (links, FALSE);
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
  g_autofree char *links = links_of (bus_id);
  return ps_place_of_gpu (bus_id, links);
}

static char *cuda_processor (void)
{
  struct cudaDeviceProp properties;

  if (cudaGetDeviceProperties (&properties, 0) != cudaSuccess)
    return NULL;
  return g_strdup_printf ("%s (%d multiprocessors)", properties.name, properties.multiProcessorCount);
}

static char *cuda_libraries (void)
{
  static const char *const variables[]
      = { "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "PIPESIM_CUDA_WAIT", "PIPESIM_CUDA_GRAPHS" };
  GString *text = g_string_new (NULL);
  g_autofree char *sharing = ps_cuda_sharing ();
  g_autofree char *build = driver_version ();
  int runtime = 0, driver = 0;

  cudaRuntimeGetVersion (&runtime);
  cudaDriverGetVersion (&driver);
  g_string_append_printf (text, "CUDA %d.%d, driver %s%sfor CUDA %d.%d, cuBLASLt %" G_GSIZE_FORMAT ", attention by %s",
                          runtime / 1000, runtime % 1000 / 10, build != NULL ? build : "", build != NULL ? " " : "",
                          driver / 1000, driver % 1000 / 10, cublasLtGetVersion (),
                          ps_cuda_attention_uses_hopper () ? "wgmma" : "mma.sync");
  if (sharing != NULL)
    g_string_append_printf (text, ", %s", sharing);
  for (guint i = 0; i < G_N_ELEMENTS (variables); i++)
    if (g_getenv (variables[i]) != NULL)
      g_string_append_printf (text, ", %s=%s", variables[i], g_getenv (variables[i]));
  return g_string_free (text, FALSE);
}

/* Fills the L2 with other data: a buffer of twice its size, which does not count as the device's memory. */
static gboolean cuda_flush_cache (PsDevice *device, GError **error)
{
  CudaDevice *cuda = cuda_device (device);
  const cudaStream_t stream = cuda->context.stream;
  struct cudaDeviceProp properties;

  if (cuda->flush == NULL) {
    if (!ps_cuda_ok ("asking a GPU", cudaGetDeviceProperties (&properties, cuda->context.gpu), error))
      return FALSE;
    cuda->flush_bytes = 2 * (gsize)MAX (properties.l2CacheSize, 1);
    if (!ps_cuda_ok ("memory to empty the L2 with", cudaMalloc (&cuda->flush, cuda->flush_bytes), error))
      return FALSE;
  }
  cuda->flush_value ^= 1;
  return ps_cuda_ok ("emptying the L2", cudaMemsetAsync (cuda->flush, cuda->flush_value, cuda->flush_bytes, stream),
                     error)
         && ps_cuda_ok ("emptying the L2", cudaStreamSynchronize (stream), error);
}

/* Blocks that hold a multiprocessor each until a flag ends them: flag 0 does, and flag 1 + i says that block i runs. */

#define START_NS G_GINT64_CONSTANT (200000000)
#define LIMIT_NS G_GUINT64_CONSTANT (1000000000) /* far longer than an op */

static gboolean prepare_holding (CudaDevice *cuda, GError **error)
{
  return (cuda->hold_stream != NULL
          || ps_cuda_ok ("making a stream", cudaStreamCreateWithFlags (&cuda->hold_stream, cudaStreamNonBlocking),
                         error))
         && (cuda->hold_flags != NULL
             || ps_cuda_ok ("memory for flags",
                            cudaHostAlloc ((void **)&cuda->hold_flags,
                                           (1 + cuda->context.n_sms) * sizeof *cuda->hold_flags, cudaHostAllocMapped),
                            error));
}

static gboolean end_holding (CudaDevice *cuda, GError **error)
{
  if (cuda->hold_flags == NULL)
    return TRUE;
  *(volatile unsigned *)cuda->hold_flags = 1;
  return ps_cuda_ok ("ending blocks that wait", cudaStreamSynchronize (cuda->hold_stream), error);
}

/* Waits until all blocks run. An op that started before would find multiprocessors free that should be held. */
static gboolean all_run (const CudaDevice *cuda, guint n_blocks)
{
  const volatile unsigned *held = cuda->hold_flags + 1;
  const gint64 until_ns = ps_clock_now () + START_NS;
  guint n = 0;

  while (n < n_blocks && ps_clock_now () < until_ns)
    while (n < n_blocks && held[n] != 0)
      n++;
  return n == n_blocks;
}

static gboolean cuda_occupy (PsDevice *device, guint n_blocks, GError **error)
{
  CudaDevice *cuda = cuda_device (device);
  const PsCudaContext *context = &cuda->context;

  if (!end_holding (cuda, error))
    return FALSE;
  if (n_blocks == 0)
    return TRUE;
  if (n_blocks >= context->n_sms || context->n_sharing > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "cuda device: %u multiprocessors can't be kept from ops on %s %u",
                      n_blocks, context->n_sharing > 1 ? "a part with" : "a GPU with", context->n_sms);
  if (!prepare_holding (cuda, error))
    return FALSE;
  memset (cuda->hold_flags, 0, (1 + n_blocks) * sizeof *cuda->hold_flags);
  if (!ps_cuda_ok ("starting blocks that wait",
                   ps_cuda_hold (cuda->hold_flags + 1, cuda->hold_flags, n_blocks, LIMIT_NS, cuda->hold_stream), error))
    return FALSE;
  if (all_run (cuda, n_blocks))
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "cuda device: %u blocks that wait have not all started",
               n_blocks);
  end_holding (cuda, NULL);
  return FALSE;
}

/* --- the device --- */

static void cuda_close (PsDevice *device)
{
  CudaDevice *cuda = cuda_device (device);

  if (cuda == NULL)
    return;
  ps_cuda_context_enter (&cuda->context, NULL);
  await_jobs (cuda, 0, NULL);
  if (g_atomic_int_get (&n_lost) > 0)
    return;
  g_queue_clear_full (&cuda->taken, tensor_destroy);
  g_queue_clear_full (&cuda->jobs, job_free);
  g_ptr_array_unref (cuda->idle);
  ps_cuda_clock_close (&cuda->clock);
  ps_cuda_context_close_twin (&cuda->copies);
  g_mutex_clear (&cuda->mutex);
  cudaFree (cuda->flush);
  end_holding (cuda, NULL);
  if (cuda->hold_flags != NULL)
    cudaFreeHost (cuda->hold_flags);
  if (cuda->hold_stream != NULL)
    cudaStreamDestroy (cuda->hold_stream);
  destroy_event (cuda->shown);
  destroy_event (cuda->added);
  ps_transformer_clear (&cuda->transformer);
  ps_cuda_products_free (cuda->twin.products);
  ps_cuda_context_close_twin (&cuda->twin);
  ps_cuda_products_free (cuda->context.products);
  ps_cuda_context_close (&cuda->context);
  g_free (cuda);
}

static gboolean open_products (PsCudaContext *context, GError **error)
{
  context->products = ps_cuda_products_new (error);
  return context->products != NULL;
}

/* Devices that share layers run the ops of a pair one by one. */
static gboolean open_twin (CudaDevice *cuda, GError **error)
{
  if (!setting_of (cuda)->pairs || cuda->transformer.sizes.parts > 1)
    return TRUE;
  cuda->transformer.twin = &cuda->twin.base;
  return ps_cuda_context_open_twin (&cuda->twin, &cuda->context, error) && open_products (&cuda->twin, error);
}

/* The thread that opens the device leaves its context again: see ps_cuda_context_open. */
static gboolean open_streams (CudaDevice *cuda, GError **error)
{
  PsCudaContext *context = &cuda->context;

  return ps_cuda_context_enter (context, error) && open_products (context, error) && open_twin (cuda, error)
         && ps_cuda_ok ("opening a clock", ps_cuda_clock_open (&cuda->clock), error)
         && (setting_of (cuda)->ahead == 0 || ps_cuda_context_open_twin (&cuda->copies, context, error))
         && ps_cuda_ok ("leaving a GPU", cudaSetDevice (context->gpu), error);
}

static PsDevice *cuda_open (const PsDeviceSetting *setting, GError **error)
{
  CudaDevice *cuda = g_new0 (CudaDevice, 1);

  if (!ps_transformer_init (&cuda->transformer, &cuda_class, &ps_cuda_kernels, setting, error)) {
    g_free (cuda);
    return NULL;
  }
  cuda->transformer.queue = &cuda->context.base;
  cuda->context.base.element = cuda->transformer.sizes.element;
  cuda->idle = g_ptr_array_new_with_free_func (job_free);
  g_mutex_init (&cuda->mutex);
  if (ps_cuda_context_open (&cuda->context, setting, error) && open_streams (cuda, error))
    return &cuda->transformer.base;
  cuda_close (&cuda->transformer.base);
  return NULL;
}

static gboolean cuda_attach (PsDevice *device, GError **error)
{
  return ps_cuda_context_enter (&cuda_device (device)->context, error);
}

/* Room for sums over devices that share layers is there before the first stage. */
static gboolean cuda_add_stage (PsDevice *device, guint stage, const PsStageShape *shape, GError **error)
{
  CudaDevice *cuda = cuda_device (device);
  const PsSizes *sizes = &cuda->transformer.sizes;
  const gsize n = (gsize)sizes->batch * (gsize)sizes->longest * (gsize)sizes->hidden;

  if (sizes->parts > 1 && cuda->totals == NULL) {
    cuda->totals
        = ps_transformer_take (&cuda->transformer, 2 * n * sizeof (float), PS_USE_STATE, "sums over devices", error);
    if (cuda->totals == NULL)
      return FALSE;
  }
  cuda->transformer.n_sms = cuda->context.n_sms;
  return ps_transformer_add_stage (device, stage, shape, error);
}

static void *cuda_stream (PsDevice *device)
{
  return cuda_device (device)->context.stream;
}

static gint64 cuda_op_ns (PsDevice *device)
{
  return cuda_device (device)->op_ns;
}

static guint cuda_sharing (PsDevice *device)
{
  return cuda_device (device)->context.n_sharing;
}

static guint cuda_part (PsDevice *device)
{
  return cuda_device (device)->context.n_sms;
}

static GBytes *cuda_choices (PsDevice *device)
{
  return ps_cuda_choices (&cuda_device (device)->context);
}

static gboolean cuda_adopt_choices (PsDevice *device, GBytes *choices, GError **error)
{
  return ps_cuda_adopt_choices (&cuda_device (device)->context, choices, error);
}

static void cuda_memory (PsDevice *device, PsMemoryUse *use)
{
  free_taken (cuda_device (device));
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
  .tensor_new = cuda_tensor_new,
  .tensor_free = cuda_tensor_free,
  .write = cuda_write,
  .read = cuda_read,
  .copy = cuda_copy,
  .run = cuda_run,
  .start = cuda_start,
  .await = cuda_await,
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
  .processor = cuda_processor,
  .libraries = cuda_libraries,
  .warning = ps_cuda_idle,
  PS_TRANSFORMER_HOOKS,
};

const guint64 ps_module_stamp = PS_MODULE_STAMP;

/* Streams share the hardware's queues: 8, unless this variable sets more. Work in one queue runs in turn, even on
 * disjoint multiprocessors (CUDA driver API, "Green Contexts"). The first call of CUDA reads it, so it is set when the
 * module is loaded. */
#define QUEUES_VARIABLE "CUDA_DEVICE_MAX_CONNECTIONS"
#define MOST_QUEUES "32"

G_MODULE_EXPORT const PsDeviceClass *ps_cuda_device_class (void);

const PsDeviceClass *ps_cuda_device_class (void)
{
  g_setenv (QUEUES_VARIABLE, MOST_QUEUES, FALSE);
  return &cuda_class;
}

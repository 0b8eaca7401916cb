/* cuda-context.c - finds the GPU, splits its multiprocessors, opens streams, waits for work, and takes memory. */
#include "cuda-context.h"

#include "clock.h"
#include "cuda-kernels.h"

#include <string.h>

#define LEAST_CAPABILITY 8 /* for mma.sync of bf16, and cp.async */

#define POLL_US 20 /* a thread that sleeps so long wakes after some 70 us */

#define IDLE_SHARE 10 /* idle multiprocessors are reported if they are more than one part in IDLE_SHARE */

static GMutex sharing_mutex;
static char *sharing, *idle; /* under sharing_mutex */

gboolean ps_cuda_ok (const char *what, cudaError_t status, GError **error)
{
  if (status == cudaSuccess)
    return TRUE;
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: %s: %s", what, cudaGetErrorString (status));
}

/* Versions are 1000 * major + 10 * minor. The driver's is 0 if there is none. */
static gboolean check_driver (cudaError_t status, GError **error)
{
  int driver = 0, runtime = CUDART_VERSION;

  cudaDriverGetVersion (&driver);
  cudaRuntimeGetVersion (&runtime);
  if (driver == 0)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: no NVIDIA driver here (libcuda.so.1 can't be loaded)");
  if (status == cudaErrorInsufficientDriver)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: the driver is for CUDA %d.%d, this build needs %d.%d",
                      driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  if (status == cudaErrorNoDevice)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: there is a driver but no GPU");
  return ps_cuda_ok ("looking for a GPU", status, error);
}

gboolean ps_cuda_available (GError **error)
{
  struct cudaDeviceProp properties;
  int count = 0;

  if (!check_driver (cudaGetDeviceCount (&count), error)
      || !ps_cuda_ok ("asking GPU 0", cudaGetDeviceProperties (&properties, 0), error))
    return FALSE;
  if (properties.major < LEAST_CAPABILITY)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "cuda device: %s has compute capability %d.%d: %d.0 at least is needed", properties.name,
                      properties.major, properties.minor, LEAST_CAPABILITY);
  return TRUE;
}

/* --- which GPU, and how many multiprocessors --- */

static guint gpu_of (guint index, guint n_local, guint n_gpus)
{
  return n_local <= n_gpus ? index : (guint)((guint64)index * n_gpus / n_local);
}

PsCudaPlace ps_cuda_place (const PsDeviceSetting *setting, guint n_gpus)
{
  const guint n = MAX (setting->n_local, 1), index = setting->index;
  PsCudaPlace place = { .gpu = gpu_of (index, n, n_gpus), .first = index };

  if (setting->exclusive)
    return (PsCudaPlace){ .gpu = index % n_gpus, .first = index, .n = 1 };
  while (place.first > 0 && gpu_of (place.first - 1, n, n_gpus) == place.gpu)
    place.first--;
  while (place.first + place.n < n && gpu_of (place.first + place.n, n, n_gpus) == place.gpu)
    place.n++;
  return place;
}

/* TRUE if the first device has the greater claim to the next piece. A device without a piece comes before any other. */
static gboolean comes_before (guint weight, guint n_units, guint other_weight, guint n_other_units)
{
  if (n_units == 0 || n_other_units == 0)
    return n_units < n_other_units;
  return (guint64)weight * (2 * (guint64)n_other_units + 1) > (guint64)other_weight * (2 * (guint64)n_units + 1);
}

/* Divides n_units equal pieces of a GPU among n devices in proportion to weights[n], each above 0, into units[n]. Every
 * device gets at least one. The next piece goes to the largest weight / (2 pieces + 1), to the first such device of
 * several (Webster, Sainte-Lague). Devices of equal weight get equally many; the rest stays idle. */
static gboolean share_units (guint n_units, guint n, const guint *weights, guint *units, GError **error)
{
  if (n_units < n)
    return ps_refuse (error, PS_ERROR_USAGE, "cuda device: %u devices can't share a GPU of %u pieces: each needs one",
                      n, n_units);
  for (guint i = 0; i < n; i++)
    units[i] = 0;
  for (guint unit = 0; unit < n_units; unit++) {
    guint next = 0;

    for (guint i = 1; i < n; i++)
      if (comes_before (weights[i], units[i], weights[next], units[next]))
        next = i;
    units[next]++;
  }
  for (guint i = 0; i < n; i++)
    for (guint k = 0; k < n; k++)
      if (weights[k] == weights[i])
        units[i] = MIN (units[i], units[k]);
  return TRUE;
}

/* --- green contexts: the driver's functions are looked up, because the program must start without a driver --- */

/* Declares a pointer of the function's type in the header. */
#define ENTRY(name) __typeof__ (name) *name

static struct {
  ENTRY (cuGetErrorString);
  ENTRY (cuDeviceGet);
  ENTRY (cuDeviceGetDevResource);
  ENTRY (cuDevSmResourceSplitByCount);
  ENTRY (cuDevResourceGenerateDesc);
  ENTRY (cuGreenCtxCreate);
  ENTRY (cuGreenCtxDestroy);
  ENTRY (cuGreenCtxStreamCreate);
  ENTRY (cuCtxFromGreenCtx);
  ENTRY (cuCtxSetCurrent);
} driver;

static gboolean look_up (const char *name, void *entry)
{
  enum cudaDriverEntryPointQueryResult result;
  void *found = NULL;

  if (cudaGetDriverEntryPointByVersion (name, &found, CUDA_VERSION, cudaEnableDefault, &result) != cudaSuccess
      || result != cudaDriverEntryPointSuccess || found == NULL)
    return FALSE;
  memcpy (entry, &found, sizeof found);
  return TRUE;
}

#define LOOK_UP(name) look_up (#name, &driver.name)

static gboolean driver_load (void)
{
  return LOOK_UP (cuGetErrorString) && LOOK_UP (cuDeviceGet) && LOOK_UP (cuDeviceGetDevResource)
         && LOOK_UP (cuDevSmResourceSplitByCount) && LOOK_UP (cuDevResourceGenerateDesc) && LOOK_UP (cuGreenCtxCreate)
         && LOOK_UP (cuGreenCtxDestroy) && LOOK_UP (cuGreenCtxStreamCreate) && LOOK_UP (cuCtxFromGreenCtx)
         && LOOK_UP (cuCtxSetCurrent);
}

static gboolean succeeded (const char *what, CUresult result, GError **error)
{
  const char *text = NULL;

  if (result == CUDA_SUCCESS)
    return TRUE;
  driver.cuGetErrorString (result, &text);
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "%s: %s", what, text != NULL ? text : "unknown error");
}

/* Calls a function of the driver; *error names it if it fails. */
#define CALL(name, ...) succeeded (#name, driver.name (__VA_ARGS__), error)

/* One split into groups. Its results can't be split again, so all parts come from one split. */
typedef struct {
  CUdevResource *groups;
  guint n_groups; /* groups of the whole split */
  guint *n;       /* part i has the next n[i] groups */
} Split;

static void split_clear (Split *split)
{
  g_free (split->groups);
  g_free (split->n);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Split, split_clear)

/* Splits into n equal groups of at least `least` multiprocessors, multiples of `step`. The hardware makes fewer groups,
 * or none, where they would cross the GPU's clusters. Then smaller groups are tried. */
static gboolean split_evenly (const CUdevResource *whole, guint n, guint least, guint step, Split *split,
                              GError **error)
{
  guint each = whole->sm.smCount / n / step * step;

  if (each < least)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "cuda device: %u devices can't share a GPU of %u multiprocessors: each needs %u at least", n,
                      whole->sm.smCount, MAX (least, step));
  for (; each >= least; each -= MIN (step, each)) {
    split->n_groups = n;
    g_clear_error (error);
    if (CALL (cuDevSmResourceSplitByCount, split->groups, &split->n_groups, whole, NULL, 0, each)
        && split->n_groups == n)
      return TRUE;
  }
  if (*error == NULL)
    ps_refuse (error, PS_ERROR_UNAVAILABLE, "its multiprocessors can't be split into %u parts", n);
  return FALSE;
}

/* Splits a GPU for n devices: evenly, or into the smallest possible groups, which shares[n] then divide. Errors:
 * PS_ERROR_USAGE for too many devices; PS_ERROR_UNAVAILABLE if the driver refuses. */
static gboolean split_gpu (const CUdevResource *whole, guint n, const guint *shares, Split *split, GError **error)
{
  const guint least = MAX (whole->sm.minSmPartitionSize, 1), alignment = MAX (whole->sm.smCoscheduledAlignment, 1);
  /* An alignment that leaves no room for n groups is not meant for groups. */
  const guint step = alignment <= whole->sm.smCount / n ? alignment : 1, unit = (least + step - 1) / step * step;

  split->groups = g_new0 (CUdevResource, n + whole->sm.smCount / unit);
  split->n = g_new (guint, n);
  for (guint i = 0; i < n; i++)
    split->n[i] = 1;
  if (shares == NULL)
    return split_evenly (whole, n, least, step, split, error);
  split->n_groups = whole->sm.smCount / unit;
  return CALL (cuDevSmResourceSplitByCount, split->groups, &split->n_groups, whole, NULL, 0, unit)
         && share_units (split->n_groups, n, shares, split->n, error);
}

/* Makes the green context of part `index`, with a stream, and fills sms[n] with the multiprocessors of all parts. */
static gboolean create_part (PsCudaContext *context, guint n, guint index, const guint *shares, guint *sms,
                             GError **error)
{
  static gsize loaded = 0;
  g_auto (Split) split = { 0 };
  CUdevResourceDesc description;
  CUdevResource whole;
  CUdevice device;
  guint first = 0;

  if (g_once_init_enter (&loaded))
    g_once_init_leave (&loaded, driver_load () ? 1 : 2);
  if (loaded == 2)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "the driver has none");
  if (!CALL (cuDeviceGet, &device, context->gpu)
      || !CALL (cuDeviceGetDevResource, device, &whole, CU_DEV_RESOURCE_TYPE_SM)
      || !split_gpu (&whole, n, shares, &split, error))
    return FALSE;
  for (guint i = 0, group = 0; i < n; i++)
    for (guint end = group + split.n[i]; group < end; group++)
      sms[i] += split.groups[group].sm.smCount;
  for (guint i = 0; i < index; i++)
    first += split.n[i];
  return CALL (cuDevResourceGenerateDesc, &description, split.groups + first, split.n[index])
         && CALL (cuGreenCtxCreate, &context->green, description, device, CU_GREEN_CTX_DEFAULT_STREAM)
         && CALL (cuCtxFromGreenCtx, &context->current, context->green)
         && CALL (cuGreenCtxStreamCreate, &context->stream, context->green, CU_STREAM_NON_BLOCKING, 0);
}

/* The runtime must take the thread back first: a destroyed context may not stay current. */
static void close_part (PsCudaContext *context)
{
  if (context->green == NULL)
    return;
  cudaSetDevice (context->gpu);
  driver.cuGreenCtxDestroy (g_steal_pointer (&context->green));
  context->current = NULL;
}

char *ps_cuda_sharing (void)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&sharing_mutex);

  return g_strdup (sharing);
}

char *ps_cuda_idle (void)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&sharing_mutex);

  return g_strdup (idle);
}

/* Takes both texts; idle_text is NULL if little is idle. */
static void note_sharing (char *text, char *idle_text)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&sharing_mutex);

  g_free (sharing);
  g_free (idle);
  sharing = text;
  idle = idle_text;
}

/* Notes "green contexts of 48, 40, 24, 16 multiprocessors (4 of 132 idle)"; equal neighbours appear once. */
static void note_parts (const guint *sms, guint n, guint n_sms)
{
  g_autoptr (GString) sizes = g_string_new (NULL), much = g_string_new (NULL);
  guint n_idle = n_sms, least = n_sms;

  for (guint i = 0; i < n; i++) {
    if (i == 0 || sms[i] != sms[i - 1])
      g_string_append_printf (sizes, "%s%u", i > 0 ? ", " : "", sms[i]);
    n_idle -= sms[i];
    least = MIN (least, sms[i]);
  }
  g_string_printf (much, "%u parts of %s multiprocessors leave %u of %u idle", n, sizes->str, n_idle, n_sms);
  if (n_idle >= least)
    g_string_append_printf (much, "; there is room for %u more of %u", n_idle / least, least);
  note_sharing (g_strdup_printf ("green contexts of %s multiprocessors (%u of %u idle)", sizes->str, n_idle, n_sms),
                n_idle * IDLE_SHARE > n_sms ? g_strdup (much->str) : NULL);
}

/* Opens a green context if possible. If not, ps_cuda_sharing gets the reason; it is an error if shares were asked for.
 * Too many devices are an error, too. */
static gboolean open_part (PsCudaContext *context, const PsDeviceSetting *setting, const PsCudaPlace *place,
                           GError **error)
{
  const guint *shares = setting->shares != NULL ? setting->shares + place->first : NULL;
  g_autofree guint *sms = g_new0 (guint, place->n);
  g_autoptr (GError) problem = NULL;

  if (create_part (context, place->n, setting->index - place->first, shares, sms, &problem)) {
    note_parts (sms, place->n, context->n_sms);
    context->n_sms = sms[setting->index - place->first];
    return TRUE;
  }
  if (context->stream != NULL)
    cudaStreamDestroy (g_steal_pointer (&context->stream));
  close_part (context);
  if (g_error_matches (problem, PS_ERROR, PS_ERROR_USAGE)) {
    g_propagate_error (error, g_steal_pointer (&problem));
    return FALSE;
  }
  if (shares != NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: a GPU can't be split into unequal shares: %s",
                      problem->message);
  note_sharing (g_strdup_printf ("%u devices share a GPU without green contexts: %s", place->n, problem->message),
                NULL);
  return TRUE;
}

/* --- waiting, streams and memory --- */

static gboolean spins (void)
{
  return g_strcmp0 (g_getenv ("PIPESIM_CUDA_WAIT"), "spin") == 0;
}

cudaError_t ps_cuda_poll (cudaEvent_t event, gint64 until_ns)
{
  const gboolean no_sleep = spins ();
  cudaError_t status;

  while ((status = cudaEventQuery (event)) == cudaErrorNotReady && ps_clock_now () < until_ns)
    if (!no_sleep)
      g_usleep (POLL_US);
  return status;
}

gboolean ps_cuda_event (cudaEvent_t *event, GError **error)
{
  return ps_cuda_ok ("making an event",
                     cudaEventCreateWithFlags (event, spins () ? cudaEventDefault : cudaEventBlockingSync), error);
}

static gboolean open_stream (PsCudaContext *context, GError **error)
{
  return (context->stream != NULL
          || ps_cuda_ok ("making a stream", cudaStreamCreateWithFlags (&context->stream, cudaStreamNonBlocking), error))
         && ps_cuda_event (&context->done, error);
}

/* Lets copies from other GPUs take NVLink or PCI Express directly. A pair that can't goes through the host's memory. */
static void reach_peers (const PsCudaContext *context, int n_gpus)
{
  int reachable = 0;

  for (int gpu = 0; gpu < n_gpus; gpu++)
    if (gpu != context->gpu && cudaDeviceCanAccessPeer (&reachable, context->gpu, gpu) == cudaSuccess && reachable)
      cudaDeviceEnablePeerAccess (gpu, 0);
  /* Another device of this process may have enabled it before: that is no error. */
  cudaGetLastError ();
}

gboolean ps_cuda_context_open (PsCudaContext *context, const PsDeviceSetting *setting, GError **error)
{
  struct cudaDeviceProp properties;
  int count;

  if (!ps_cuda_ok ("counting GPUs", cudaGetDeviceCount (&count), error))
    return FALSE;
  const PsCudaPlace place = ps_cuda_place (setting, (guint)count);
  context->gpu = (int)place.gpu;
  context->n_sharing = place.n;
  if (!ps_cuda_ok ("opening a GPU", cudaSetDevice (context->gpu), error)
      || !ps_cuda_ok ("asking a GPU", cudaGetDeviceProperties (&properties, context->gpu), error))
    return FALSE;
  context->n_sms = (guint)properties.multiProcessorCount;
  if (place.n > 1 && !open_part (context, setting, &place, error))
    return FALSE;
  if (!ps_cuda_context_enter (context, error))
    return FALSE;
  reach_peers (context, count);
  return open_stream (context, error) && ps_cuda_ok ("leaving a GPU", cudaSetDevice (context->gpu), error);
}

gboolean ps_cuda_context_open_twin (PsCudaContext *twin, const PsCudaContext *context, GError **error)
{
  *twin = (PsCudaContext){ .base = { .element = context->base.element },
                           .gpu = context->gpu,
                           .n_sms = context->n_sms,
                           .n_sharing = context->n_sharing,
                           .green = context->green,
                           .current = context->current };
  if (twin->green != NULL && !CALL (cuGreenCtxStreamCreate, &twin->stream, twin->green, CU_STREAM_NON_BLOCKING, 0)) {
    g_prefix_error (error, "cuda device: ");
    return FALSE;
  }
  return open_stream (twin, error);
}

void ps_cuda_context_close_twin (PsCudaContext *twin)
{
  ps_queue_begin (&twin->base);
  if (twin->done != NULL)
    cudaEventDestroy (twin->done);
  if (twin->stream != NULL)
    cudaStreamDestroy (twin->stream);
}

void ps_cuda_context_close (PsCudaContext *context)
{
  if (!ps_cuda_context_enter (context, NULL))
    return;
  ps_cuda_context_close_twin (context);
  close_part (context);
}

gboolean ps_cuda_context_enter (const PsCudaContext *context, GError **error)
{
  if (context->green == NULL)
    return ps_cuda_ok ("entering a GPU", cudaSetDevice (context->gpu), error);
  if (CALL (cuCtxSetCurrent, context->current))
    return TRUE;
  g_prefix_error (error, "cuda device: entering a part of a GPU: ");
  return FALSE;
}

gboolean ps_cuda_copy (PsCudaContext *context, void *to, const void *from, gsize bytes, GError **error)
{
  return ps_cuda_ok ("copying", cudaMemcpyAsync (to, from, bytes, cudaMemcpyDefault, context->stream), error)
         && ps_cuda_ok ("waiting", cudaEventRecord (context->done, context->stream), error)
         && ps_cuda_ok ("waiting", cudaEventSynchronize (context->done), error);
}

static void *allocate (gsize bytes)
{
  void *block = NULL;

  if (cudaMalloc (&block, bytes) == cudaSuccess)
    return block;
  cudaGetLastError (); /* clears the error; the next launch would report it */
  return NULL;
}

static void release (void *block)
{
  cudaFree (block);
}

PsMemoryPool *ps_cuda_memory_new (void)
{
  static const PsPoolSource source = { .granule = PS_CUDA_GRANULE, .allocate = allocate, .release = release };

  return ps_memory_pool_new (&source, G_MAXINT64);
}

cudaStream_t ps_cuda_stream (PsQueue *queue)
{
  return ((PsCudaContext *)queue)->stream;
}

void ps_cuda_note (PsQueue *queue, const char *what, cudaError_t status)
{
  if (status != cudaSuccess)
    ps_queue_note (queue, what, cudaGetErrorString (status));
}

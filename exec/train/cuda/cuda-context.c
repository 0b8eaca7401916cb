/* cuda-context.c - finds the GPU, opens the stream, and waits for work. */
#include "cuda-context.h"

#include "clock.h"
#include "cuda-green.h"
#include "cuda-share.h"

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
  g_autoptr (GString) sizes = g_string_new (NULL);
  guint n_idle = n_sms, least = n_sms;
  char *much = NULL;

  for (guint i = 0; i < n; i++) {
    if (i == 0 || sms[i] != sms[i - 1])
      g_string_append_printf (sizes, "%s%u", i > 0 ? ", " : "", sms[i]);
    n_idle -= sms[i];
    least = MIN (least, sms[i]);
  }
  if (n_idle * IDLE_SHARE > n_sms)
    much = g_strdup_printf ("%u parts of %s multiprocessors leave %u of %u idle; there is room for %u more of %u", n,
                            sizes->str, n_idle, n_sms, n_idle / least, least);
  note_sharing (g_strdup_printf ("green contexts of %s multiprocessors (%u of %u idle)", sizes->str, n_idle, n_sms),
                much);
}

/* Opens a green context if possible. If not, ps_cuda_sharing gets the reason; it is an error if shares were asked for.
 * Wrong shares are an error, too. */
static gboolean open_green (PsCudaContext *context, const PsDeviceSetting *setting, const PsCudaPlace *place,
                            GError **error)
{
  const guint *shares = setting->shares != NULL ? setting->shares + place->first : NULL;
  g_autofree guint *sms = g_new0 (guint, place->n);
  const guint n_sms = context->n_sms;
  g_autofree char *reason = NULL;

  if (!ps_cuda_green_open (context, place->n, setting->index - place->first, shares, sms, &reason, error))
    return FALSE;
  if (reason != NULL && shares != NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: a GPU can't be split into unequal shares: %s", reason);
  if (reason == NULL)
    note_parts (sms, place->n, n_sms);
  else
    note_sharing (g_strdup_printf ("%u devices share a GPU without green contexts: %s", place->n, reason), NULL);
  return TRUE;
}

gboolean ps_cuda_spins (void)
{
  return g_strcmp0 (g_getenv ("PIPESIM_CUDA_WAIT"), "spin") == 0;
}

cudaError_t ps_cuda_poll (cudaEvent_t event, gint64 until_ns)
{
  const gboolean spins = ps_cuda_spins ();
  cudaError_t status;

  while ((status = cudaEventQuery (event)) == cudaErrorNotReady && ps_clock_now () < until_ns)
    if (!spins)
      g_usleep (POLL_US);
  return status;
}

gboolean ps_cuda_event (cudaEvent_t *event, GError **error)
{
  return ps_cuda_ok ("making an event",
                     cudaEventCreateWithFlags (event, ps_cuda_spins () ? cudaEventDefault : cudaEventBlockingSync),
                     error);
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
  PsCudaPlace place = ps_cuda_place (setting->index, setting->n_local, setting->exclusive, (guint)count);
  context->gpu = (int)place.gpu;
  context->n_sharing = place.n;
  if (!ps_cuda_ok ("opening a GPU", cudaSetDevice (context->gpu), error)
      || !ps_cuda_ok ("asking a GPU", cudaGetDeviceProperties (&properties, context->gpu), error))
    return FALSE;
  context->graphs = g_strcmp0 (g_getenv ("PIPESIM_CUDA_GRAPHS"), "1") == 0;
  context->n_sms = (guint)properties.multiProcessorCount;
  if (place.n > 1 && !open_green (context, setting, &place, error))
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
                           .current = context->current,
                           .graphs = context->graphs };
  return (twin->green == NULL || ps_cuda_green_stream (twin, error)) && open_stream (twin, error);
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
  ps_cuda_green_close (context);
}

gboolean ps_cuda_context_enter (const PsCudaContext *context, GError **error)
{
  if (context->green != NULL)
    return ps_cuda_green_enter (context, error);
  return ps_cuda_ok ("entering a GPU", cudaSetDevice (context->gpu), error);
}

void ps_cuda_note (PsCudaContext *context, const char *what, cudaError_t status)
{
  if (status != cudaSuccess)
    ps_queue_note (&context->base, what, cudaGetErrorString (status));
}

gboolean ps_cuda_await (PsCudaContext *context, GError **error)
{
  return ps_cuda_ok ("waiting", cudaEventRecord (context->done, context->stream), error)
         && ps_cuda_ok ("waiting", cudaEventSynchronize (context->done), error);
}

gboolean ps_cuda_copy (PsCudaContext *context, void *to, const void *from, gsize bytes, GError **error)
{
  return ps_cuda_ok ("copying", cudaMemcpyAsync (to, from, bytes, cudaMemcpyDefault, context->stream), error)
         && ps_cuda_await (context, error);
}

/* cuda-gpu.c - what a measurement needs of a GPU besides its ops. */
#include "cuda-gpu.h"

#include "clock.h"
#include "cuda-kernels.h"

#include <cublasLt.h>
#include <gmodule.h>
#include <string.h>

/* --- the management library, loaded at first use ---
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

void ps_cuda_nvml_read (const char *bus_id, PsCondition *condition)
{
  const Library *library = get_library ();
  unsigned long long mask;
  unsigned value;
  Device device;

  *condition = (PsCondition){ 0 };
  if (library == NULL || library->by_bus_id (bus_id, &device) != SUCCESS)
    return;
  if (library->clock != NULL && library->clock (device, CLOCK_SM, &value) == SUCCESS)
    condition->clock_mhz = value;
  if (library->clock != NULL && library->clock (device, CLOCK_MEMORY, &value) == SUCCESS)
    condition->memory_clock_mhz = value;
  if (library->temperature != NULL && library->temperature (device, TEMPERATURE_GPU, &value) == SUCCESS)
    condition->temperature_c = value;
  if (library->power != NULL && library->power (device, &value) == SUCCESS)
    condition->power_mw = value;
  if (library->reasons != NULL && library->reasons (device, &mask) == SUCCESS)
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

char *ps_cuda_nvml_links (const char *bus_id)
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

/* --- the GPU and the libraries that run on it, as text --- */

char *ps_cuda_processor (void)
{
  struct cudaDeviceProp properties;

  if (cudaGetDeviceProperties (&properties, 0) != cudaSuccess)
    return NULL;
  return g_strdup_printf ("%s (%d multiprocessors)", properties.name, properties.multiProcessorCount);
}

char *ps_cuda_libraries (void)
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

/* --- emptying the L2 by filling it with other data --- */

static gboolean take_buffer (const PsCudaContext *context, PsCudaFlush *flush, GError **error)
{
  struct cudaDeviceProp properties;

  if (flush->buffer != NULL)
    return TRUE;
  if (!ps_cuda_ok ("asking a GPU", cudaGetDeviceProperties (&properties, context->gpu), error))
    return FALSE;
  flush->bytes = 2 * (gsize)MAX (properties.l2CacheSize, 1);
  return ps_cuda_ok ("memory to empty the L2 with", cudaMalloc (&flush->buffer, flush->bytes), error);
}

gboolean ps_cuda_flush (PsCudaContext *context, PsCudaFlush *flush, GError **error)
{
  flush->value ^= 1;
  return take_buffer (context, flush, error)
         && ps_cuda_ok ("emptying the L2", cudaMemsetAsync (flush->buffer, flush->value, flush->bytes, context->stream),
                        error)
         && ps_cuda_ok ("emptying the L2", cudaStreamSynchronize (context->stream), error);
}

void ps_cuda_flush_clear (PsCudaFlush *flush)
{
  if (flush->buffer != NULL)
    cudaFree (flush->buffer);
  flush->buffer = NULL;
}

/* --- blocks that hold a multiprocessor each until a flag ends them --- */

#define START_NS G_GINT64_CONSTANT (200000000)
#define LIMIT_NS G_GUINT64_CONSTANT (1000000000) /* far longer than an op */

static gboolean prepare (const PsCudaContext *context, PsCudaHolder *holder, GError **error)
{
  return (holder->stream != NULL
          || ps_cuda_ok ("making a stream", cudaStreamCreateWithFlags (&holder->stream, cudaStreamNonBlocking), error))
         && (holder->flags != NULL
             || ps_cuda_ok ("memory for flags",
                            cudaHostAlloc ((void **)&holder->flags, (1 + context->n_sms) * sizeof *holder->flags,
                                           cudaHostAllocMapped),
                            error));
}

static gboolean release (PsCudaHolder *holder, GError **error)
{
  if (holder->flags == NULL)
    return TRUE;
  *(volatile unsigned *)holder->flags = 1;
  return ps_cuda_ok ("ending blocks that wait", cudaStreamSynchronize (holder->stream), error);
}

/* Waits until all blocks run. An op that started before would find multiprocessors free that should be held. */
static gboolean all_run (const PsCudaHolder *holder, guint n_blocks)
{
  const volatile unsigned *held = holder->flags + 1;
  const gint64 until_ns = ps_clock_now () + START_NS;
  guint n = 0;

  while (n < n_blocks && ps_clock_now () < until_ns)
    while (n < n_blocks && held[n] != 0)
      n++;
  return n == n_blocks;
}

gboolean ps_cuda_occupy (const PsCudaContext *context, PsCudaHolder *holder, guint n_blocks, GError **error)
{
  if (!release (holder, error))
    return FALSE;
  if (n_blocks == 0)
    return TRUE;
  if (n_blocks >= context->n_sms || context->n_sharing > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "cuda device: %u multiprocessors can't be kept from ops on %s %u",
                      n_blocks, context->n_sharing > 1 ? "a part with" : "a GPU with", context->n_sms);
  if (!prepare (context, holder, error))
    return FALSE;
  memset (holder->flags, 0, (1 + n_blocks) * sizeof *holder->flags);
  if (!ps_cuda_ok ("starting blocks that wait",
                   ps_cuda_hold (holder->flags + 1, holder->flags, n_blocks, LIMIT_NS, holder->stream), error))
    return FALSE;
  if (all_run (holder, n_blocks))
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "cuda device: %u blocks that wait have not all started",
               n_blocks);
  release (holder, NULL);
  return FALSE;
}

void ps_cuda_holder_clear (PsCudaHolder *holder)
{
  release (holder, NULL);
  if (holder->flags != NULL)
    cudaFreeHost (holder->flags);
  if (holder->stream != NULL)
    cudaStreamDestroy (holder->stream);
  *holder = (PsCudaHolder){ 0 };
}

/* cuda-nvml.c - loads the management library at first use, and asks it. Its interface is declared here, so that a build
 * needs no installation of it: NVML API reference, "Device Queries" and "Clocks Event Reasons". */
#include "cuda-nvml.h"

#include <gmodule.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"

typedef void *Device; /* nvmlDevice_t */

/* Constants of the interface. */
enum
{
  SUCCESS = 0,
  CLOCK_SM = 1,
  CLOCK_MEMORY = 2,
  TEMPERATURE_GPU = 0,

  REASON_APPLICATION_CLOCKS = 0x2,
  REASON_SW_POWER_CAP = 0x4,
  REASON_HW_SLOWDOWN = 0x8,
  REASON_SYNC_BOOST = 0x10,
  REASON_SW_THERMAL = 0x20,
  REASON_HW_THERMAL = 0x40,
  REASON_HW_POWER_BRAKE = 0x80,
};

/* The functions of the library; NULL: this version doesn't have it. */
typedef struct
{
  int (*init) (void);
  int (*by_bus_id) (const char *bus_id, Device *device);
  int (*clock) (Device device, int type, unsigned *mhz);
  int (*temperature) (Device device, int sensor, unsigned *celsius);
  int (*power) (Device device, unsigned *milliwatts);
  int (*reasons) (Device device, unsigned long long *mask);
  int (*driver) (char *version, unsigned length);
} Library;

static gboolean
look_up (GModule *module, const char *name, void *function)
{
  gpointer symbol = NULL;

  if (!g_module_symbol (module, name, &symbol))
    return FALSE;
  memcpy (function, &symbol, sizeof symbol); /* ISO C has no cast from a data pointer */
  return TRUE;
}

/* Loads the library; FALSE: there is none that can be used. */
static gboolean
load (Library *library)
{
  GModule *module = g_module_open (LIBRARY, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);

  if (module == NULL)
    return FALSE;
  g_module_make_resident (module);
  look_up (module, "nvmlDeviceGetClockInfo", &library->clock);
  look_up (module, "nvmlDeviceGetTemperature", &library->temperature);
  look_up (module, "nvmlDeviceGetPowerUsage", &library->power);
  look_up (module, "nvmlSystemGetDriverVersion", &library->driver);
  /* The function's name since driver 535; the older name follows. */
  if (!look_up (module, "nvmlDeviceGetCurrentClocksEventReasons", &library->reasons))
    look_up (module, "nvmlDeviceGetCurrentClocksThrottleReasons", &library->reasons);
  return look_up (module, "nvmlInit_v2", &library->init)
         && look_up (module, "nvmlDeviceGetHandleByPciBusId_v2", &library->by_bus_id) && library->init () == SUCCESS;
}

/* Returns the library; NULL: there is none. */
static const Library *
get_library (void)
{
  static gsize ready; /* 1: there is one; 2: there is none */
  static Library library;

  if (g_once_init_enter (&ready))
    g_once_init_leave (&ready, load (&library) ? 1 : 2);
  return ready == 1 ? &library : NULL;
}

char *
ps_cuda_nvml_driver (void)
{
  const Library *library = get_library ();
  char version[80]; /* NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE */

  if (library == NULL || library->driver == NULL || library->driver (version, sizeof version) != SUCCESS)
    return NULL;
  return g_strdup (version);
}

static guint
throttle_of (unsigned long long mask)
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

void
ps_cuda_nvml_read (const char *bus_id, PsCondition *condition)
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

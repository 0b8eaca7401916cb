/* cuda-nvml.c - loads the management library at first use, and asks it. Its interface is declared here, so that a build
 * needs no installation of it: NVML API reference, "Device Queries" and "Clocks Event Reasons". */
#include "cuda-nvml.h"

#include <gmodule.h>
#include <string.h>

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

char *ps_cuda_nvml_driver (void)
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

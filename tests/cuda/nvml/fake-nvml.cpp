/* fake-nvml.cpp - stands in for the library that comes with NVIDIA's driver, in the part that pipesim asks: the GPU
 * "0000:00:00.0", whose answers are as odd as FAKE_NVML_REASONS and FAKE_NVML_MUTE (no sensor but the clocks) say.
 * FAKE_NVML_CLOCKS: clocks of its multiprocessors in turn, "1980 1755 1200"; the last one stays. */
#include <stdlib.h>
#include <string.h>

enum {
  SUCCESS = 0,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
};

struct pci_info {
  char old_bus_id[16];
  unsigned domain, bus, device, ids, subsystem;
  char bus_id[32];
};

static int gpu;

static int answer (void *device)
{
  return device == &gpu && getenv ("FAKE_NVML_MUTE") == nullptr ? SUCCESS : NOT_SUPPORTED;
}

extern "C" int nvmlInit_v2 (void)
{
  return SUCCESS;
}

extern "C" int nvmlDeviceGetHandleByPciBusId_v2 (const char *bus_id, void **device)
{
  *device = &gpu;
  return strcmp (bus_id, "0000:00:00.0") == 0 ? SUCCESS : NOT_FOUND;
}

static unsigned next_clock (void)
{
  static const char *rest = nullptr;
  char *end;

  if (rest == nullptr)
    rest = getenv ("FAKE_NVML_CLOCKS");
  if (rest == nullptr)
    return 1980;
  unsigned long clock = strtoul (rest, &end, 10);
  if (*end != '\0')
    rest = end;
  return (unsigned)clock;
}

/* Types: 1 multiprocessors, 2 memory. */
extern "C" int nvmlDeviceGetClockInfo (void *, int type, unsigned *mhz)
{
  *mhz = type == 1 ? next_clock () : type == 2 ? 3201 : 1;
  return SUCCESS;
}

extern "C" int nvmlDeviceGetTemperature (void *device, int sensor, unsigned *celsius)
{
  *celsius = sensor == 0 ? 55 : 1;
  return answer (device);
}

extern "C" int nvmlDeviceGetPowerUsage (void *device, unsigned *milliwatts)
{
  *milliwatts = 420500;
  return answer (device);
}

/* Under the name that drivers before 535 know it by. */
extern "C" int nvmlDeviceGetCurrentClocksThrottleReasons (void *device, unsigned long long *mask)
{
  const char *reasons = getenv ("FAKE_NVML_REASONS");

  *mask = reasons != nullptr ? strtoull (reasons, nullptr, 16) : 0;
  return answer (device);
}

/* Links 0 and 3 lead to GPU 0000:3b:00.0, link 1 to a switch; link 2 is down, and there are no more. */
extern "C" int nvmlDeviceGetNvLinkState (void *device, unsigned link, int *active)
{
  *active = link != 2;
  return link < 4 ? answer (device) : NOT_SUPPORTED;
}

extern "C" int nvmlDeviceGetNvLinkRemotePciInfo_v2 (void *device, unsigned, pci_info *info)
{
  memset (info, 0, sizeof *info);
  info->bus = 0x3b;
  strcpy (info->bus_id, "00000000:3B:00.0");
  return answer (device);
}

extern "C" int nvmlDeviceGetNvLinkRemoteDeviceType (void *device, unsigned link, int *type)
{
  *type = link == 1 ? 2 : 0;
  return answer (device);
}

/* cpu-memory.c - a cpu device's memory. */
#include <stdlib.h>
#include <unistd.h>

#include "cpu-memory.h"

#define ALIGNMENT 64

static void *
allocate (gsize bytes)
{
  void *block;

  return posix_memalign (&block, ALIGNMENT, bytes) == 0 ? block : NULL;
}

static const PsDeviceMemorySource source = { .granule = ALIGNMENT, .allocate = allocate, .release = free };

static gint64
physical_bytes (void)
{
  return (gint64)sysconf (_SC_PHYS_PAGES) * sysconf (_SC_PAGESIZE);
}

PsDeviceMemory *
ps_cpu_memory_new (gint64 limit_bytes)
{
  return ps_device_memory_new (&source, limit_bytes > 0 ? limit_bytes : physical_bytes ());
}

float *
ps_cpu_memory_take (PsDeviceMemory *memory, gsize n, PsMemoryKind kind)
{
  g_return_val_if_fail (n <= PS_MAX_SIZE_BYTES / sizeof (float), NULL);

  return ps_device_memory_take (memory, n * sizeof (float), kind);
}

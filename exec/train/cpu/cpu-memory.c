/* cpu-memory.c - a cpu device's memory. */
#include <malloc.h>
#include <stdlib.h>

#include "cpu-memory.h"

#define ALIGNMENT 64

/* Bytes allocated by all devices of this process. The system grants more memory than it has, and kills a process that
 * uses it. */
static gint64 n_allocated; /* atomic */

static void count (gint64 bytes)
{
  __atomic_add_fetch (&n_allocated, bytes, __ATOMIC_RELAXED);
}

static void *allocate (gsize bytes)
{
  void *block = NULL;

  if ((gint64)bytes <= ps_physical_bytes () - __atomic_load_n (&n_allocated, __ATOMIC_RELAXED)
      && posix_memalign (&block, ALIGNMENT, bytes) == 0)
    count ((gint64)malloc_usable_size (block));
  return block;
}

static void release (void *block)
{
  count (-(gint64)malloc_usable_size (block));
  free (block);
}

static const PsPoolSource source = { .granule = ALIGNMENT, .allocate = allocate, .release = release };

PsMemoryPool *ps_cpu_memory_new (gint64 limit_bytes)
{
  return ps_memory_pool_new (&source, limit_bytes > 0 ? limit_bytes : ps_physical_bytes ());
}

float *ps_cpu_memory_take (PsMemoryPool *memory, gsize n, PsUseKind kind)
{
  g_return_val_if_fail (n <= PS_MAX_SIZE_BYTES / sizeof (float), NULL);

  return ps_memory_pool_take (memory, n * sizeof (float), kind);
}

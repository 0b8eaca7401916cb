/* cpu-memory.c - counted, cached blocks of memory. */
#include <stdlib.h>
#include <unistd.h>

#include "cpu-memory.h"

#define ALIGNMENT 64

/* Lies right in front of each block. */
typedef struct _Header Header;
struct _Header
{
  gint64 bytes; /* of the block, header not counted */
  PsMemoryKind kind;
  Header *next; /* in the list of free blocks of this size */
};
G_STATIC_ASSERT (sizeof (Header) <= ALIGNMENT);

/* The free blocks of one size. */
typedef struct
{
  gint64 bytes;
  Header *first;
} FreeList;

struct _PsCpuMemory
{
  GMutex mutex;
  gint64 limit_bytes;
  PsMemoryUse use;
  GArray *free_lists; /* FreeList; a device uses a handful of sizes */
  GPtrArray *blocks;  /* Header, every one that exists */
};

static gint64
physical_bytes (void)
{
  return (gint64)sysconf (_SC_PHYS_PAGES) * sysconf (_SC_PAGESIZE);
}

PsCpuMemory *
ps_cpu_memory_new (gint64 limit_bytes)
{
  PsCpuMemory *memory = g_new0 (PsCpuMemory, 1);

  g_mutex_init (&memory->mutex);
  memory->limit_bytes = limit_bytes > 0 ? limit_bytes : physical_bytes ();
  memory->free_lists = g_array_new (FALSE, FALSE, sizeof (FreeList));
  memory->blocks = g_ptr_array_new_with_free_func (free);
  return memory;
}

void
ps_cpu_memory_free (PsCpuMemory *memory)
{
  if (memory == NULL)
    return;
  g_array_unref (memory->free_lists);
  g_ptr_array_unref (memory->blocks);
  g_mutex_clear (&memory->mutex);
  g_free (memory);
}

static Header *
header_of (float *block)
{
  return (Header *)(void *)((char *)block - ALIGNMENT);
}

static FreeList *
free_list (PsCpuMemory *memory, gint64 bytes)
{
  for (guint i = 0; i < memory->free_lists->len; i++)
    {
      FreeList *list = &g_array_index (memory->free_lists, FreeList, i);
      if (list->bytes == bytes)
        return list;
    }

  const FreeList list = { bytes, NULL };
  g_array_append_val (memory->free_lists, list);
  return &g_array_index (memory->free_lists, FreeList, memory->free_lists->len - 1);
}

static gint64
in_use (const PsMemoryUse *use)
{
  gint64 sum = 0;

  for (guint kind = 0; kind < PS_N_MEMORY_KINDS; kind++)
    sum += use->current[kind];
  return sum;
}

static Header *
new_block (PsCpuMemory *memory, gint64 bytes)
{
  Header *header;

  if (posix_memalign ((void **)&header, ALIGNMENT, (gsize)bytes + ALIGNMENT) != 0)
    return NULL;
  header->bytes = bytes;
  g_ptr_array_add (memory->blocks, header);
  return header;
}

static void
count (PsCpuMemory *memory, PsMemoryKind kind, gint64 bytes)
{
  PsMemoryUse *use = &memory->use;

  use->current[kind] += bytes;
  use->peak_bytes = MAX (use->peak_bytes, use->current[PS_MEMORY_STATE] + use->current[PS_MEMORY_ACTIVATION]);
}

/* Called with the mutex held. */
static Header *
take_block (PsCpuMemory *memory, gint64 bytes)
{
  FreeList *list = free_list (memory, bytes);
  Header *header = list->first;

  if (bytes > memory->limit_bytes - in_use (&memory->use))
    return NULL;
  if (header == NULL)
    return new_block (memory, bytes);
  list->first = header->next;
  return header;
}

float *
ps_cpu_memory_take (PsCpuMemory *memory, gsize n, PsMemoryKind kind)
{
  g_return_val_if_fail (n <= PS_MAX_SIZE_BYTES / sizeof (float), NULL);

  const gint64 bytes = (gint64)(n * sizeof (float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

  g_mutex_lock (&memory->mutex);
  Header *header = take_block (memory, bytes);
  if (header != NULL)
    {
      header->kind = kind;
      count (memory, kind, bytes);
    }
  g_mutex_unlock (&memory->mutex);
  return header != NULL ? (float *)(void *)((char *)header + ALIGNMENT) : NULL;
}

void
ps_cpu_memory_give (PsCpuMemory *memory, float *block)
{
  if (block == NULL)
    return;

  Header *header = header_of (block);
  g_mutex_lock (&memory->mutex);
  FreeList *list = free_list (memory, header->bytes);
  header->next = list->first;
  list->first = header;
  count (memory, header->kind, -header->bytes);
  g_mutex_unlock (&memory->mutex);
}

void
ps_cpu_memory_retag (PsCpuMemory *memory, float *block, PsMemoryKind kind)
{
  Header *header = header_of (block);

  g_mutex_lock (&memory->mutex);
  count (memory, header->kind, -header->bytes);
  header->kind = kind;
  count (memory, kind, header->bytes);
  g_mutex_unlock (&memory->mutex);
}

void
ps_cpu_memory_use (PsCpuMemory *memory, PsMemoryUse *use)
{
  g_mutex_lock (&memory->mutex);
  *use = memory->use;
  g_mutex_unlock (&memory->mutex);
}

void
ps_cpu_memory_reset_peak (PsCpuMemory *memory)
{
  g_mutex_lock (&memory->mutex);
  memory->use.peak_bytes = memory->use.current[PS_MEMORY_STATE] + memory->use.current[PS_MEMORY_ACTIVATION];
  g_mutex_unlock (&memory->mutex);
}

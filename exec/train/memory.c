/* memory.c - counted, cached blocks of memory. */
#include "train/memory.h"

#include <unistd.h>

typedef struct _Block Block;
struct _Block {
  void *start;
  gint64 bytes;
  gboolean travels; /* allocated for PS_USE_BUFFER */
  PsUseKind kind;
  guint64 moment; /* in which it was given back */
  Block *next;    /* in its free list, by ascending start */
};

/* The free blocks of one size that travel, or that don't. Timing decides when a block that travels comes back, and so
 * which of them is taken next. A list of their own keeps this from the other blocks. */
typedef struct {
  gint64 bytes;
  gboolean travels;
  Block *first;
} FreeList;

struct _PsMemoryPool {
  GMutex mutex;
  const PsPoolSource *source;
  gint64 limit_bytes;
  PsMemoryUse use;
  GArray *free_lists;     /* FreeList; a device uses a handful of sizes */
  GHashTable *blocks;     /* every block, by start */
  guint64 moment, usable; /* see ps_memory_pool_turn */
};

PsMemoryPool *ps_memory_pool_new (const PsPoolSource *source, gint64 limit_bytes)
{
  PsMemoryPool *memory = g_new0 (PsMemoryPool, 1);

  g_mutex_init (&memory->mutex);
  memory->source = source;
  memory->limit_bytes = limit_bytes;
  memory->free_lists = g_array_new (FALSE, FALSE, sizeof (FreeList));
  memory->blocks = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  return memory;
}

void ps_memory_pool_free (PsMemoryPool *memory)
{
  GHashTableIter blocks;
  gpointer start;

  if (memory == NULL)
    return;
  g_hash_table_iter_init (&blocks, memory->blocks);
  while (g_hash_table_iter_next (&blocks, &start, NULL))
    memory->source->release (start);
  g_hash_table_unref (memory->blocks);
  g_array_unref (memory->free_lists);
  g_mutex_clear (&memory->mutex);
  g_free (memory);
}

static FreeList *free_list (PsMemoryPool *memory, gint64 bytes, gboolean travels)
{
  for (guint i = 0; i < memory->free_lists->len; i++) {
    FreeList *list = &g_array_index (memory->free_lists, FreeList, i);

    if (list->bytes == bytes && list->travels == travels)
      return list;
  }

  const FreeList list = { bytes, travels, NULL };
  g_array_append_val (memory->free_lists, list);
  return &g_array_index (memory->free_lists, FreeList, memory->free_lists->len - 1);
}

static void release_cached (PsMemoryPool *memory)
{
  for (guint i = 0; i < memory->free_lists->len; i++) {
    Block *next;

    for (Block *block = g_array_index (memory->free_lists, FreeList, i).first; block != NULL; block = next) {
      next = block->next;
      memory->source->release (block->start);
      g_hash_table_remove (memory->blocks, block->start);
    }
  }
  g_array_set_size (memory->free_lists, 0);
}

static Block *new_block (PsMemoryPool *memory, gint64 bytes, gboolean travels)
{
  void *start = memory->source->allocate ((gsize)bytes);

  if (start == NULL) {
    release_cached (memory);
    start = memory->source->allocate ((gsize)bytes);
  }
  if (start == NULL)
    return NULL;
  Block *block = g_new0 (Block, 1);
  block->start = start;
  block->bytes = bytes;
  block->travels = travels;
  g_hash_table_insert (memory->blocks, start, block);
  return block;
}

static void count (PsMemoryPool *memory, PsUseKind kind, gint64 bytes)
{
  PsMemoryUse *use = &memory->use;

  use->current[kind] += bytes;
  use->peak_bytes = MAX (use->peak_bytes, ps_memory_use_held (use));
}

/* Called with the mutex held. */
static Block *take_block (PsMemoryPool *memory, gint64 bytes, gboolean travels)
{
  Block **place = &free_list (memory, bytes, travels)->first, *block;

  if (bytes > memory->limit_bytes - ps_memory_use_held (&memory->use) - memory->use.current[PS_USE_BUFFER])
    return NULL;
  while (*place != NULL && (*place)->moment > memory->usable)
    place = &(*place)->next;
  block = *place;
  if (block == NULL)
    return new_block (memory, bytes, travels);
  *place = block->next;
  return block;
}

void *ps_memory_pool_take (PsMemoryPool *memory, gsize bytes, PsUseKind kind)
{
  g_return_val_if_fail (bytes <= PS_MAX_SIZE_BYTES, NULL);

  const gsize granule = memory->source->granule;
  const gint64 counted = (gint64)((bytes + granule - 1) & ~(granule - 1));

  g_mutex_lock (&memory->mutex);
  Block *block = take_block (memory, counted, kind == PS_USE_BUFFER);
  if (block != NULL) {
    block->kind = kind;
    count (memory, kind, counted);
  }
  g_mutex_unlock (&memory->mutex);
  return block != NULL ? block->start : NULL;
}

/* Called with the mutex held. */
static Block *block_at (PsMemoryPool *memory, void *start)
{
  Block *block = g_hash_table_lookup (memory->blocks, start);

  g_assert (block != NULL);
  return block;
}

void ps_memory_pool_give (PsMemoryPool *memory, void *start)
{
  if (start == NULL)
    return;

  g_mutex_lock (&memory->mutex);
  Block *block = block_at (memory, start);
  block->moment = memory->moment;
  Block **place = &free_list (memory, block->bytes, block->travels)->first;
  while (*place != NULL && (guintptr)(*place)->start < (guintptr)block->start)
    place = &(*place)->next;
  block->next = *place;
  *place = block;
  count (memory, block->kind, -block->bytes);
  g_mutex_unlock (&memory->mutex);
}

void ps_memory_pool_turn (PsMemoryPool *memory, guint64 moment, guint64 usable)
{
  g_mutex_lock (&memory->mutex);
  memory->moment = moment;
  memory->usable = usable;
  g_mutex_unlock (&memory->mutex);
}

void ps_memory_pool_retag (PsMemoryPool *memory, void *start, PsUseKind kind)
{
  g_mutex_lock (&memory->mutex);
  Block *block = block_at (memory, start);
  count (memory, block->kind, -block->bytes);
  block->kind = kind;
  count (memory, kind, block->bytes);
  g_mutex_unlock (&memory->mutex);
}

void ps_memory_pool_use (PsMemoryPool *memory, PsMemoryUse *use)
{
  g_mutex_lock (&memory->mutex);
  *use = memory->use;
  g_mutex_unlock (&memory->mutex);
}

void ps_memory_pool_reset_peak (PsMemoryPool *memory)
{
  g_mutex_lock (&memory->mutex);
  memory->use.peak_bytes = ps_memory_use_held (&memory->use);
  g_mutex_unlock (&memory->mutex);
}

gint64 ps_physical_bytes (void)
{
  return (gint64)sysconf (_SC_PHYS_PAGES) * sysconf (_SC_PAGESIZE);
}

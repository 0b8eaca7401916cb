/* memory.h - blocks of a device's memory that are counted by purpose.
 *
 * Free blocks are cached by size and reused, because fresh memory would cost time in every op. Only blocks in use
 * count. The first cached block in memory is taken, so that a step finds the blocks that the step before found. Blocks
 * taken as PS_USE_BUFFER have a cache of their own. Any thread may call: a transport frees a sent tensor from any
 * thread.
 */
#pragma once

#include <pipesim/device.h>

typedef struct _PsMemoryPool PsMemoryPool;

/* The source of memory. */
typedef struct {
  gsize granule;                   /* blocks count in whole granules; a power of two */
  void *(*allocate) (gsize bytes); /* NULL when there is no room; aligned to a granule */
  void (*release) (void *block);   /* never fails */
} PsPoolSource;

/* source outlives the memory. limit_bytes: the most that may be in use at once; blocks above it are refused. */
PsMemoryPool *ps_memory_pool_new (const PsPoolSource *source, gint64 limit_bytes);

/* Releases every block, in use or not. */
void ps_memory_pool_free (PsMemoryPool *memory);

/* Takes a block of `bytes`, contents undefined. NULL: there is no room, even after releasing all cached blocks. */
void *ps_memory_pool_take (PsMemoryPool *memory, gsize bytes, PsUseKind kind);

/* Gives a block back; NULL is allowed. */
void ps_memory_pool_give (PsMemoryPool *memory, void *block);

/* For a device whose queue runs later than its host; a moment is the number of an op. A block that is given back from
 * now on belongs to `moment`. A block is only taken again if its moment is `usable` or earlier. At first both are 0. */
void ps_memory_pool_turn (PsMemoryPool *memory, guint64 moment, guint64 usable);

/* Counts the block as `kind` from now on. */
void ps_memory_pool_retag (PsMemoryPool *memory, void *block, PsUseKind kind);

void ps_memory_pool_use (PsMemoryPool *memory, PsMemoryUse *use);
void ps_memory_pool_reset_peak (PsMemoryPool *memory);

/* Returns the physical memory of this machine, in bytes. */
gint64 ps_physical_bytes (void);

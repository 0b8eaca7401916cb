/* memory.h - blocks of a device's memory that are counted by what they are for.
 *
 * Blocks are cached by size and reused, because fresh memory would cost time in every op; only what is in use counts.
 * Of the cached ones the first in memory is taken, so that a step finds the blocks that the step before found; blocks
 * taken as PS_USE_BUFFER are cached apart.
 * Any thread may call: a transport frees a sent tensor from wherever it likes.
 */
#ifndef PIPESIM_EXEC_MEMORY_H
#define PIPESIM_EXEC_MEMORY_H

#include <pipesim/device.h>

G_BEGIN_DECLS

typedef struct _PsMemoryPool PsMemoryPool;

/* Where memory comes from. */
typedef struct
{
  gsize granule;                   /* blocks count in whole granules; a power of two */
  void *(*allocate) (gsize bytes); /* NULL when there is no room; aligned to a granule */
  void (*release) (void *block);   /* never fails */
} PsPoolSource;

/* limit_bytes: more than this in use together is refused. source outlives the memory. */
PsMemoryPool *ps_memory_pool_new (const PsPoolSource *source, gint64 limit_bytes);

/* Releases every block, in use or not. */
void ps_memory_pool_free (PsMemoryPool *memory);

/* A block of that many bytes, contents undefined. NULL when there is no room, also none after releasing what was
 * cached. */
void *ps_memory_pool_take (PsMemoryPool *memory, gsize bytes, PsUseKind kind);

/* Gives a block back; NULL is allowed. */
void ps_memory_pool_give (PsMemoryPool *memory, void *block);

/* From now on the block counts as kind. */
void ps_memory_pool_retag (PsMemoryPool *memory, void *block, PsUseKind kind);

void ps_memory_pool_use (PsMemoryPool *memory, PsMemoryUse *use);
void ps_memory_pool_reset_peak (PsMemoryPool *memory);

/* What this machine has of its own, for everything. */
gint64 ps_physical_bytes (void);

G_END_DECLS

#endif

/* cpu-memory.h - blocks of memory that are counted by what they are for.
 *
 * Blocks are cached by size and reused, because fresh memory would cost page faults in every op; only what is in use
 * counts. Any thread may call: a transport frees a sent tensor from wherever it likes.
 */
#ifndef PIPESIM_CPU_MEMORY_H
#define PIPESIM_CPU_MEMORY_H

#include <pipesim/device.h>

typedef struct _PsCpuMemory PsCpuMemory;

/* limit_bytes: more than this in use together is refused; 0: the machine's physical memory. */
PsCpuMemory *ps_cpu_memory_new (gint64 limit_bytes);

/* Frees every block, in use or not. */
void ps_cpu_memory_free (PsCpuMemory *memory);

/* A block of n floats, contents undefined, 64-byte aligned; counted in whole 64 bytes. NULL when there is no room. */
float *ps_cpu_memory_take (PsCpuMemory *memory, gsize n, PsMemoryKind kind);

/* Gives a block back; NULL is allowed. */
void ps_cpu_memory_give (PsCpuMemory *memory, float *block);

/* From now on the block counts as kind. */
void ps_cpu_memory_retag (PsCpuMemory *memory, float *block, PsMemoryKind kind);

void ps_cpu_memory_use (PsCpuMemory *memory, PsMemoryUse *use);
void ps_cpu_memory_reset_peak (PsCpuMemory *memory);

#endif

/* cpu-memory.h - a cpu device's memory: the process's own, in floats. */
#ifndef PIPESIM_CPU_MEMORY_H
#define PIPESIM_CPU_MEMORY_H

#include "device/memory.h"

/* limit_bytes: more than this in use together is refused; 0: the machine's physical memory, which all memories of the
 * process share in any case. Blocks count in whole 64 bytes. */
PsMemoryPool *ps_cpu_memory_new (gint64 limit_bytes);

/* A block of n floats, contents undefined, 64-byte aligned. NULL when there is no room. */
float *ps_cpu_memory_take (PsMemoryPool *memory, gsize n, PsUseKind kind);

#endif

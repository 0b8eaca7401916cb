/* cpu-memory.h - a cpu device's memory: the process's own, in floats. */
#pragma once

#include "train/memory.h"

/* limit_bytes: the most that may be in use at once; 0: the machine's physical memory. All memories of the process
 * together never exceed the physical memory. Blocks count in whole 64 bytes. */
PsMemoryPool *ps_cpu_memory_new (gint64 limit_bytes);

/* Takes a block of n floats, contents undefined, 64-byte aligned. NULL: there is no room. */
float *ps_cpu_memory_take (PsMemoryPool *memory, gsize n, PsUseKind kind);

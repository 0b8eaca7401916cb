/* cuda-memory.h - a cuda device's memory. Its own cache of blocks from cudaMalloc: the driver's pools round and keep
 * memory in ways that can't be counted exactly. */
#ifndef PIPESIM_CUDA_MEMORY_H
#define PIPESIM_CUDA_MEMORY_H

#include "device/memory.h"

/* Blocks count in whole PS_CUDA_GRANULE bytes and start on as much, which the fastest matrix products ask for. */
#define PS_CUDA_GRANULE 256

/* Belongs to the GPU of the context that is current when blocks are taken; so it must be when it is freed. */
PsMemoryPool *ps_cuda_memory_new (void);

#endif

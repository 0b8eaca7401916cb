/* cuda-memory.h - a cuda device's memory: a cache of blocks from cudaMalloc. The driver's own pools round sizes and
 * keep memory in ways that can't be counted exactly. */
#pragma once

#include "train/memory.h"

#include <cuda_runtime.h>

/* Blocks count in whole PS_CUDA_GRANULE bytes and start on whole PS_CUDA_GRANULE bytes, which the fastest matrix
 * products need. */
#define PS_CUDA_GRANULE 256

/* The memory belongs to the GPU of the context that is current when blocks are taken. The same context must be current
 * when it is freed. */
PsMemoryPool *ps_cuda_memory_new (void);

/* FALSE: it is the host's. */
static inline gboolean ps_cuda_is_on_gpu (const void *memory)
{
  struct cudaPointerAttributes attributes;

  return cudaPointerGetAttributes (&attributes, memory) == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
}

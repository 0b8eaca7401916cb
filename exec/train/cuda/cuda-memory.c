/* cuda-memory.c - a cuda device's memory. */
#include "cuda-memory.h"

static void *allocate (gsize bytes)
{
  void *block = NULL;

  if (cudaMalloc (&block, bytes) == cudaSuccess)
    return block;
  cudaGetLastError (); /* clears the error; the next launch would report it */
  return NULL;
}

static void release (void *block)
{
  cudaFree (block);
}

PsMemoryPool *ps_cuda_memory_new (void)
{
  static const PsPoolSource source = { .granule = PS_CUDA_GRANULE, .allocate = allocate, .release = release };

  return ps_memory_pool_new (&source, G_MAXINT64);
}

/* cuda-cache.h - emptying a GPU's L2. */
#ifndef PIPESIM_CUDA_CACHE_H
#define PIPESIM_CUDA_CACHE_H

#include "cuda-context.h"

/* What pushes everything else out when it is written: twice the L2. Not counted as the device's memory. */
typedef struct
{
  void *buffer; /* NULL until first used */
  gsize bytes;
  int value; /* written last */
} PsCudaFlush;

/* Writes the buffer; done on return. The context is current. */
gboolean ps_cuda_flush (PsCudaContext *context, PsCudaFlush *flush, GError **error);
void ps_cuda_flush_clear (PsCudaFlush *flush);

#endif

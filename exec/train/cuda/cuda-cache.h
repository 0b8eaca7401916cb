/* cuda-cache.h - emptying a GPU's L2. */
#pragma once

#include "cuda-context.h"

/* A buffer of twice the L2: writing it pushes everything else out. It does not count as the device's memory. */
typedef struct {
  void *buffer; /* NULL until first used */
  gsize bytes;
  int value; /* the value written last */
} PsCudaFlush;

/* Writes the buffer and returns when that is done. The context is current. */
gboolean ps_cuda_flush (PsCudaContext *context, PsCudaFlush *flush, GError **error);
void ps_cuda_flush_clear (PsCudaFlush *flush);

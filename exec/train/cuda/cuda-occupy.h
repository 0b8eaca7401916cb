/* cuda-occupy.h - keeping multiprocessors from ops. */
#pragma once

#include "cuda-context.h"

typedef struct {
  cudaStream_t stream; /* NULL until first used */
  unsigned *flags; /* host memory that the GPU sees: flag 0 tells blocks to end, flag 1 + i says that block i runs */
} PsCudaHolder;

/* Does PsDeviceClass.occupy. The context is current. */
gboolean ps_cuda_occupy (const PsCudaContext *context, PsCudaHolder *holder, guint n_blocks, GError **error);
void ps_cuda_holder_clear (PsCudaHolder *holder);

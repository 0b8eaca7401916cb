/* cuda-cache.c - empties a GPU's L2 by filling it with other data. */
#include "cuda-cache.h"

static gboolean take_buffer (const PsCudaContext *context, PsCudaFlush *flush, GError **error)
{
  struct cudaDeviceProp properties;

  if (flush->buffer != NULL)
    return TRUE;
  if (!ps_cuda_ok ("asking a GPU", cudaGetDeviceProperties (&properties, context->gpu), error))
    return FALSE;
  flush->bytes = 2 * (gsize)MAX (properties.l2CacheSize, 1);
  return ps_cuda_ok ("memory to empty the L2 with", cudaMalloc (&flush->buffer, flush->bytes), error);
}

gboolean ps_cuda_flush (PsCudaContext *context, PsCudaFlush *flush, GError **error)
{
  flush->value ^= 1;
  return take_buffer (context, flush, error)
         && ps_cuda_ok ("emptying the L2", cudaMemsetAsync (flush->buffer, flush->value, flush->bytes, context->stream),
                        error)
         && ps_cuda_ok ("emptying the L2", cudaStreamSynchronize (context->stream), error);
}

void ps_cuda_flush_clear (PsCudaFlush *flush)
{
  if (flush->buffer != NULL)
    cudaFree (flush->buffer);
  flush->buffer = NULL;
}

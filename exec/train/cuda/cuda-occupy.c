/* cuda-occupy.c - blocks that hold a multiprocessor each until they are told to end. */
#include "cuda-occupy.h"

#include "clock.h"
#include "kernels.h"

#include <string.h>

#define START_NS G_GINT64_CONSTANT (200000000)
#define LIMIT_NS G_GUINT64_CONSTANT (1000000000) /* far longer than an op */

static gboolean prepare (const PsCudaContext *context, PsCudaHolder *holder, GError **error)
{
  return (holder->stream != NULL
          || ps_cuda_ok ("making a stream", cudaStreamCreateWithFlags (&holder->stream, cudaStreamNonBlocking), error))
         && (holder->flags != NULL
             || ps_cuda_ok ("memory for flags",
                            cudaHostAlloc ((void **)&holder->flags, (1 + context->n_sms) * sizeof *holder->flags,
                                           cudaHostAllocMapped),
                            error));
}

static gboolean release (PsCudaHolder *holder, GError **error)
{
  if (holder->flags == NULL)
    return TRUE;
  *(volatile unsigned *)holder->flags = 1;
  return ps_cuda_ok ("ending blocks that wait", cudaStreamSynchronize (holder->stream), error);
}

/* Waits until all blocks run. An op that started before would find multiprocessors free that should be held. */
static gboolean all_run (const PsCudaHolder *holder, guint n_blocks)
{
  const volatile unsigned *held = holder->flags + 1;
  const gint64 until_ns = ps_clock_now () + START_NS;
  guint n = 0;

  while (n < n_blocks && ps_clock_now () < until_ns)
    while (n < n_blocks && held[n] != 0)
      n++;
  return n == n_blocks;
}

gboolean ps_cuda_occupy (const PsCudaContext *context, PsCudaHolder *holder, guint n_blocks, GError **error)
{
  if (!release (holder, error))
    return FALSE;
  if (n_blocks == 0)
    return TRUE;
  if (n_blocks >= context->n_sms || context->n_sharing > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "cuda device: %u multiprocessors can't be kept from ops on %s %u",
                      n_blocks, context->n_sharing > 1 ? "a part with" : "a GPU with", context->n_sms);
  if (!prepare (context, holder, error))
    return FALSE;
  memset (holder->flags, 0, (1 + n_blocks) * sizeof *holder->flags);
  if (!ps_cuda_ok ("starting blocks that wait",
                   ps_cuda_hold (holder->flags + 1, holder->flags, n_blocks, LIMIT_NS, holder->stream), error))
    return FALSE;
  if (all_run (holder, n_blocks))
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "cuda device: %u blocks that wait have not all started",
               n_blocks);
  release (holder, NULL);
  return FALSE;
}

void ps_cuda_holder_clear (PsCudaHolder *holder)
{
  release (holder, NULL);
  if (holder->flags != NULL)
    cudaFreeHost (holder->flags);
  if (holder->stream != NULL)
    cudaStreamDestroy (holder->stream);
  *holder = (PsCudaHolder){ 0 };
}

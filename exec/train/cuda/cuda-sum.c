/* cuda-sum.c - devices read each other's numbers, after events in each other's streams. */
#include "cuda-sum.h"

#include "cuda-memory.h"
#include "kernels.h"

#define ROW ((gsize)1024) /* a grid takes 2^31 rows, but only 65535 blocks of a row */

void ps_cuda_sum_clear (PsCudaSum *sum)
{
  if (sum->shown != NULL)
    cudaEventDestroy (sum->shown);
  if (sum->added != NULL)
    cudaEventDestroy (sum->added);
}

static gboolean record (cudaEvent_t *event, cudaStream_t stream, GError **error)
{
  return (*event != NULL
          || ps_cuda_ok ("making an event", cudaEventCreateWithFlags (event, cudaEventDisableTiming), error))
         && ps_cuda_ok ("marking a sum", cudaEventRecord (*event, stream), error);
}

static gboolean copy (float *to, const float *from, gsize n, cudaStream_t stream, GError **error)
{
  return ps_cuda_ok ("copying numbers to be added up",
                     cudaMemcpyAsync (to, from, n * sizeof *to, cudaMemcpyDefault, stream), error);
}

static gboolean add_rows (float *total, float *more, gsize rows, gsize columns, cudaStream_t stream, GError **error)
{
  const PsCudaRows from = { more, (int)rows, (int)columns };

  return ps_cuda_ok ("adding up",
                     ps_cuda_rows_add (PS_CUDA_FP32, total, FALSE, from, 1, (int)rows, (int)columns, stream), error);
}

/* Share s of the numbers is added up in the order s + 1, s + 2, ..., s, as by ps_threads_sum. Copies reach other GPUs
 * in any case; kernels do not. */
static gboolean add_share (cudaStream_t stream, float *totals, const PsDeviceSum *sum, guint share, GError **error)
{
  const gsize first = ps_share_begin (sum->n, share, sum->n_devices);
  const gsize n = ps_share_begin (sum->n, share + 1, sum->n_devices) - first, even = n - n % ROW;
  float *total = totals + first, *other = totals + sum->n + first;

  if (!copy (total, sum->values[(share + 1) % sum->n_devices] + first, n, stream, error))
    return FALSE;
  for (guint k = 2; k <= sum->n_devices; k++) {
    const guint place = (share + k) % sum->n_devices;
    float *next = sum->values[place] + first, *more = place != sum->own ? other : next;

    if ((more != next && !copy (more, next, n, stream, error)) || !add_rows (total, more, n / ROW, ROW, stream, error)
        || !add_rows (total + even, more + even, 1, n - even, stream, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean follow (const PsCudaSum *other, PsSumPhase phase, cudaStream_t stream, GError **error)
{
  return ps_cuda_ok ("waiting for another device",
                     cudaStreamWaitEvent (stream, phase == PS_SUM_ADD ? other->shown : other->added, 0), error);
}

gboolean ps_cuda_sum (const PsCudaContext *context, PsCudaSum *const *all, const PsDeviceSum *sum, PsSumPhase phase,
                      GError **error)
{
  const cudaStream_t stream = context->stream;

  if (phase == PS_SUM_SHOW)
    return ps_cuda_is_on_gpu (sum->values[sum->own]) && record (&all[sum->own]->shown, stream, error);
  for (guint i = 0; i < sum->n_devices; i++)
    if (i != sum->own && !follow (all[i], phase, stream, error))
      return FALSE;
  if (phase == PS_SUM_TAKE)
    return copy (sum->values[sum->own], all[sum->own]->totals, sum->n, stream, error);
  for (guint share = 0; share < sum->n_devices; share++)
    if (!add_share (stream, all[sum->own]->totals, sum, share, error))
      return FALSE;
  return record (&all[sum->own]->added, stream, error);
}

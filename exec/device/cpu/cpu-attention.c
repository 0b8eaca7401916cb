/* cpu-attention.c - causal attention, one head of one sequence at a time. */
#include <math.h>
#include <string.h>

#include "cpu-attention.h"
#include "cpu-blas.h"
#include "cpu-kernels.h"

static float
attention_scale (const PsCpuSizes *sizes)
{
  return 1 / sqrtf ((float)sizes->head_size);
}

static gsize
square_size (const PsCpuSizes *sizes)
{
  return (gsize)sizes->sequence * sizes->sequence;
}

static void
forward_head (float *context, float *square, const float *query, const PsCpuSizes *sizes)
{
  const int n = sizes->sequence, size = sizes->head_size, hidden = sizes->hidden;
  const float *key = query + hidden, *value = key + hidden;

  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, n, n, size, attention_scale (sizes), query, 3 * hidden,
                     key, 3 * hidden, 0, square, n);
  ps_cpu_causal_softmax (square, n);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, n, size, n, 1, square, n, value, 3 * hidden, 0, context,
                     hidden);
}

void
ps_cpu_attention_forward (float *context, float *probabilities, const float *qkv, const PsCpuSizes *sizes)
{
  for (int row = 0; row < sizes->batch; row++)
    for (int head = 0; head < sizes->heads; head++)
      {
        const gsize token = (gsize)row * sizes->sequence;
        const gsize column = (gsize)head * sizes->head_size;

        forward_head (context + token * sizes->hidden + column,
                      probabilities + ((gsize)row * sizes->heads + head) * square_size (sizes),
                      qkv + token * 3 * sizes->hidden + column, sizes);
      }
}

/* Overwrites value, key and query, each as soon as nothing needs it any more. */
static void
backward_head (float *query, const float *dcontext, const float *context, const float *square, const PsCpuSizes *sizes,
               const PsCpuWorkspace *workspace)
{
  const int n = sizes->sequence, size = sizes->head_size, hidden = sizes->hidden;
  const float scale = attention_scale (sizes);
  float *key = query + hidden, *value = key + hidden;
  float *dsquare = workspace->square, *dquery = workspace->narrow;

  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, n, n, size, 1, dcontext, hidden, value, 3 * hidden, 0,
                     dsquare, n);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasTrans, CblasNoTrans, n, size, n, 1, square, n, dcontext, hidden, 0, value,
                     3 * hidden);
  ps_cpu_causal_softmax_input (dsquare, square, dcontext, context, n, size, hidden);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, n, size, n, scale, dsquare, n, key, 3 * hidden, 0,
                     dquery, size);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasTrans, CblasNoTrans, n, size, n, scale, dsquare, n, query, 3 * hidden, 0, key,
                     3 * hidden);
  for (int row = 0; row < n; row++)
    memcpy (query + (gsize)row * 3 * hidden, dquery + (gsize)row * size, sizeof (float) * (gsize)size);
}

void
ps_cpu_attention_backward (float *qkv, const float *dcontext, const float *context, const float *probabilities,
                           const PsCpuSizes *sizes, const PsCpuWorkspace *workspace)
{
  for (int row = 0; row < sizes->batch; row++)
    for (int head = 0; head < sizes->heads; head++)
      {
        const gsize token = (gsize)row * sizes->sequence;
        const gsize column = (gsize)head * sizes->head_size;
        const gsize start = token * sizes->hidden + column;

        backward_head (qkv + token * 3 * sizes->hidden + column, dcontext + start, context + start,
                       probabilities + ((gsize)row * sizes->heads + head) * square_size (sizes), sizes, workspace);
      }
}

/* cpu-attention.c - causal attention, one head of one sequence at a time. */
#include <math.h>
#include <string.h>

#include "cpu-attention.h"
#include "cpu-blas.h"
#include "cpu-kernels.h"

/* One head of one sequence: where its numbers begin. */
typedef struct {
  const PsCpuSizes *sizes;
  guint slice;
  gsize token;       /* first row in context and in each slice's qkv and inherited */
  gsize column;      /* first column of the head among the `columns` ones */
  gsize square;      /* first number in probabilities */
  int width;         /* columns of probabilities */
  float *const *qkv; /* of each slice */
} Head;

static float attention_scale (const PsCpuSizes *sizes)
{
  return 1 / sqrtf ((float)sizes->head_size);
}

static Head head_at (const PsCpuSizes *sizes, float *const *qkv, guint slice, int row, int head)
{
  const int width = ((int)slice + 1) * sizes->sequence;

  return (Head){ .sizes = sizes,
                 .slice = slice,
                 .token = (gsize)row * sizes->sequence,
                 .column = (gsize)head * sizes->head_size,
                 .square = ((gsize)row * sizes->heads + head) * sizes->sequence * width,
                 .width = width,
                 .qkv = qkv };
}

/* Query, key or value (part 0, 1 or 2) of a slice. */
static float *part_of (const Head *head, guint slice, int part)
{
  const int columns = head->sizes->width;

  return head->qkv[slice] + head->token * 3 * columns + (gsize)part * columns + head->column;
}

static void forward_head (float *context, float *square, const Head *head)
{
  const int n = head->sizes->sequence, size = head->sizes->head_size, columns = head->sizes->width;
  const float *query = part_of (head, head->slice, 0);

  for (guint i = 0; i <= head->slice; i++)
    ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, n, n, size, attention_scale (head->sizes), query,
                       3 * columns, part_of (head, i, 1), 3 * columns, 0, square + (gsize)i * n, head->width);
  ps_cpu_causal_softmax (square, n, head->width);
  for (guint i = 0; i <= head->slice; i++)
    ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, n, size, n, 1, square + (gsize)i * n, head->width,
                       part_of (head, i, 2), 3 * columns, i > 0, context, columns);
}

void ps_cpu_attention_forward (float *context, float *probabilities, float *const *qkv, guint slice,
                               const PsCpuSizes *sizes)
{
  for (int row = 0; row < sizes->batch; row++)
    for (int i = 0; i < sizes->heads; i++) {
      const Head head = head_at (sizes, qkv, slice, row, i);

      forward_head (context + head.token * sizes->width + head.column, probabilities + head.square, &head);
    }
}

typedef struct {
  const float *dcontext, *context, *square;
  float *dsquare, *dquery;
} Backward;

/* The gradients through the scores of one slice's keys. dkey and dvalue have rows of `stride` numbers. For its own
 * slice the head writes them and begins dquery; for others it adds. */
static void backward_slice (const Head *head, guint slice, const Backward *backward, float *dkey, float *dvalue,
                            int stride)
{
  const int n = head->sizes->sequence, size = head->sizes->head_size, columns = head->sizes->width;
  const float scale = attention_scale (head->sizes);
  const gboolean own = slice == head->slice;
  const float *square = backward->square + (gsize)slice * n;

  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, n, n, size, 1, backward->dcontext, columns,
                     part_of (head, slice, 2), 3 * columns, 0, backward->dsquare, n);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasTrans, CblasNoTrans, n, size, n, 1, square, head->width, backward->dcontext,
                     columns, !own, dvalue, stride);
  ps_cpu_causal_softmax_input (backward->dsquare, square, head->width, backward->dcontext, backward->context, n, size,
                               columns, own);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, n, size, n, scale, backward->dsquare, n,
                     part_of (head, slice, 1), 3 * columns, !own, backward->dquery, size);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasTrans, CblasNoTrans, n, size, n, scale, backward->dsquare, n,
                     part_of (head, head->slice, 0), 3 * columns, !own, dkey, stride);
}

/* Adds the gradients of keys and values that later slices have left. */
static void add_inherited (const Head *head, const float *inherited)
{
  const int columns = head->sizes->width, size = head->sizes->head_size;

  for (int row = 0; row < head->sizes->sequence; row++)
    for (int part = 0; part < 2; part++)
      ps_cpu_add (part_of (head, head->slice, 1 + part) + (gsize)row * 3 * columns,
                  inherited + (head->token + row) * 2 * columns + (gsize)part * columns + head->column, (gsize)size);
}

/* The slice's own part comes first: it overwrites value and key, each as soon as nothing needs it any more. The query
 * is overwritten last. */
static void backward_head (const Head *head, float *const *inherited, const Backward *backward)
{
  const int columns = head->sizes->width, size = head->sizes->head_size;
  float *query = part_of (head, head->slice, 0);

  backward_slice (head, head->slice, backward, part_of (head, head->slice, 1), part_of (head, head->slice, 2),
                  3 * columns);
  if (inherited[head->slice] != NULL)
    add_inherited (head, inherited[head->slice]);
  for (guint i = 0; i < head->slice; i++) {
    float *dkey = inherited[i] + head->token * 2 * columns + head->column;

    backward_slice (head, i, backward, dkey, dkey + columns, 2 * columns);
  }
  for (int row = 0; row < head->sizes->sequence; row++)
    memcpy (query + (gsize)row * 3 * columns, backward->dquery + (gsize)row * size, sizeof (float) * (gsize)size);
}

void ps_cpu_attention_backward (float *const *qkv, float *const *inherited, guint slice, const float *dcontext,
                                const float *context, const float *probabilities, const PsCpuSizes *sizes,
                                const PsCpuWorkspace *workspace)
{
  for (int row = 0; row < sizes->batch; row++)
    for (int i = 0; i < sizes->heads; i++) {
      const Head head = head_at (sizes, qkv, slice, row, i);
      const gsize start = head.token * sizes->width + head.column;
      const Backward backward = { .dcontext = dcontext + start,
                                  .context = context + start,
                                  .square = probabilities + head.square,
                                  .dsquare = workspace->square,
                                  .dquery = workspace->narrow };

      backward_head (&head, inherited, &backward);
    }
}

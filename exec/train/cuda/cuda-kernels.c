/* cuda-kernels.c - the table of kernels of the cuda device. Each function puts its launches into the context's stream
 * and notes problems there. */
#include "cuda-kernels.h"

#include "cuda-graph.h"
#include "cuda-memory.h"
#include "cuda-products.h"
#include "kernels.h"

/* The attention without tensor cores. */
#define SIMPLE_HEAD_SIZE 1024
#define SIMPLE_SEQUENCE 8192

static PsCudaContext *context_of (PsQueue *queue)
{
  return (PsCudaContext *)queue;
}

static cudaStream_t stream_of (PsQueue *queue)
{
  return context_of (queue)->stream;
}

static void note (PsQueue *queue, const char *what, cudaError_t status)
{
  ps_cuda_note (context_of (queue), what, status);
}

static bool check (PsElement element, const PsAttention *attention, GError **error)
{
  const int whole = attention->past + attention->sequence;

  if (ps_cuda_attention_is_fast (element, attention))
    return TRUE;
  if (attention->head_size > SIMPLE_HEAD_SIZE)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "cuda device: model has hidden / heads = %d: 1024 at most is supported", attention->head_size);
  return whole <= SIMPLE_SEQUENCE
         || ps_refuse (error, PS_ERROR_UNAVAILABLE,
                       "cuda device: model has sequence = %d: more than 8192 takes bf16 and heads of 32, 64, 96 or 128 "
                       "elements",
                       whole);
}

static void clear (PsQueue *queue, void *block, int value, size_t bytes)
{
  note (queue, "clearing memory", cudaMemsetAsync (block, value, bytes, stream_of (queue)));
}

static void copy (PsQueue *queue, void *to, const void *from, size_t bytes)
{
  note (queue, "copying", cudaMemcpyAsync (to, from, bytes, cudaMemcpyDefault, stream_of (queue)));
}

static void await (PsQueue *queue)
{
  PsCudaContext *context = context_of (queue);

  note (queue, "waiting", cudaEventRecord (context->done, context->stream));
  note (queue, "waiting", cudaEventSynchronize (context->done));
}

static size_t workspace (PsElement element, const PsAttention *attention, int columns)
{
  const gsize products = ps_cuda_products_workspace ();
  const gsize sums = ps_cuda_columns_workspace (attention->batch * attention->sequence, columns);
  const gsize embedding = ps_cuda_embedding_workspace (attention->batch, attention->sequence);
  const gsize squares = ps_cuda_norm_square_workspace ();

  return MAX (MAX (products, sums), MAX (MAX (embedding, squares), ps_cuda_attention_workspace (attention)));
}

static void set_part (PsQueue *queue, unsigned n_sms)
{
  ps_cuda_products_set_part (context_of (queue)->products, n_sms);
}

static void linear (PsQueue *queue, void *y, const void *x, const void *w, const void *bias, const void *residual,
                    int rows, int in, int out)
{
  ps_cuda_linear (context_of (queue)->products, y, x, w, bias, residual, rows, in, out);
}

static void linear_gelu (PsQueue *queue, void *g, void *z, const void *x, const void *w, const void *bias, int rows,
                         int in, int out)
{
  ps_cuda_linear_gelu (context_of (queue)->products, g, z, x, w, bias, rows, in, out);
}

static void linear_input (PsQueue *queue, void *dx, const void *dy, const void *w, int rows, int in, int out)
{
  ps_cuda_linear_input (context_of (queue)->products, dx, dy, w, rows, in, out);
}

static void linear_gelu_input (PsQueue *queue, void *dz, const void *dy, const void *w, const void *z, int rows, int in,
                               int out)
{
  ps_cuda_linear_gelu_input (context_of (queue)->products, dz, dy, w, z, rows, in, out);
}

static void linear_weights (PsQueue *queue, float *dw, const void *x, const void *dy, int rows, int in, int out)
{
  ps_cuda_linear_weights (context_of (queue)->products, dw, x, dy, rows, in, out);
}

static void bias_gradient (PsQueue *queue, float *dbias, const void *dy, int rows, int columns)
{
  note (queue, "bias gradient",
        ps_cuda_bias_gradient (queue->element, dbias, dy, rows, columns, queue->workspace, stream_of (queue)));
}

static void norm (PsQueue *queue, void *y, float *mean, float *scale, const void *x, const void *gain, const void *bias,
                  int rows, int columns)
{
  note (queue, "norm",
        ps_cuda_norm_rows (queue->element, y, mean, scale, x, gain, bias, rows, columns, stream_of (queue)));
}

static void norm_input (PsQueue *queue, void *dx, const void *residual, const void *dy, const void *x,
                        const float *mean, const float *scale, const void *gain, int rows, int columns)
{
  note (queue, "gradient of a norm",
        ps_cuda_norm_rows_input (queue->element, dx, residual, dy, x, mean, scale, gain, rows, columns,
                                 stream_of (queue)));
}

static void norm_weights (PsQueue *queue, float *dgain, float *dbias, void *y, const void *dy, const void *x,
                          const float *mean, const float *scale, const void *gain, const void *bias, int rows,
                          int columns)
{
  note (queue, "weight gradients of a norm",
        ps_cuda_norm_rows_weights (queue->element, dgain, dbias, y, dy, x, mean, scale, gain, bias, rows, columns,
                                   queue->workspace, stream_of (queue)));
}

static void swiglu (PsQueue *queue, void *y, const void *gate, const void *up, int rows, int columns, int stride)
{
  note (queue, "SwiGLU", ps_cuda_swiglu (queue->element, y, gate, up, rows, columns, stride, stream_of (queue)));
}

static void swiglu_input (PsQueue *queue, void *dgate, void *dup, const void *dy, const void *gate, const void *up,
                          int rows, int columns, int stride)
{
  note (queue, "gradient of SwiGLU",
        ps_cuda_swiglu_input (queue->element, dgate, dup, dy, gate, up, rows, columns, stride, stream_of (queue)));
}

static void rows_copy (PsQueue *queue, PsRows to, PsRows from, const float *more, int batch, int rows, int columns)
{
  note (queue, "copying keys and values",
        ps_cuda_rows_copy (queue->element, to, from, more, batch, rows, columns, stream_of (queue)));
}

static void rows_add (PsQueue *queue, float *sum, bool begins, PsRows from, int batch, int rows, int columns)
{
  note (queue, "adding rows",
        ps_cuda_rows_add (queue->element, sum, begins, from, batch, rows, columns, stream_of (queue)));
}

static void to_bf16 (PsQueue *queue, void *to, const float *from, size_t n)
{
  note (queue, "rounding", ps_cuda_to_bf16 (to, from, n, stream_of (queue)));
}

static void rotary_table (PsQueue *queue, float *table, int sequence, int head_size, double base)
{
  note (queue, "rotary table", ps_cuda_rotary_table (table, sequence, head_size, base, stream_of (queue)));
}

static void rotary (PsQueue *queue, void *x, const float *table, int rows, int sequence, int heads, int head_size,
                    int stride, bool backward)
{
  note (
      queue, "rotary positions",
      ps_cuda_rotary (queue->element, x, table, rows, sequence, heads, head_size, stride, backward, stream_of (queue)));
}

static void embedding (PsQueue *queue, void *x, const void *token, const void *position, const uint32_t *words,
                       int batch, int sequence, int hidden)
{
  note (queue, "embedding",
        ps_cuda_embedding (queue->element, x, token, position, words, batch, sequence, hidden, stream_of (queue)));
}

static void embedding_weights (PsQueue *queue, float *dtoken, float *dposition, const void *dx, const uint32_t *words,
                               int batch, int sequence, int hidden)
{
  note (queue, "gradient of the embedding",
        ps_cuda_embedding_weights (queue->element, dtoken, dposition, dx, words, batch, sequence, hidden,
                                   queue->workspace, stream_of (queue)));
}

static void cross_entropy (PsQueue *queue, void *logits, float *loss, const uint32_t *words, int batch, int sequence,
                           int vocabulary, int stride, float factor)
{
  note (queue, "cross-entropy",
        ps_cuda_cross_entropy (queue->element, logits, loss, words, batch, sequence, vocabulary, stride, factor,
                               stream_of (queue)));
}

static void loss_sum (PsQueue *queue, double *total, const float *loss, int n, double factor)
{
  note (queue, "loss", ps_cuda_loss_sum (total, loss, n, factor, stream_of (queue)));
}

static size_t attention_kept_bytes (const PsAttention *shape)
{
  return (size_t)shape->batch * (size_t)shape->heads * (size_t)shape->sequence * sizeof (float);
}

static void attention (PsQueue *queue, const PsAttention *shape, void *out, void *kept, const void *q, const void *k,
                       const void *v)
{
  note (queue, "attention", ps_cuda_attention (queue->element, shape, out, kept, q, k, v, stream_of (queue)));
}

static void attention_backward (PsQueue *queue, const PsAttention *shape, void *dq, void *dk, void *dv,
                                const void *dout, const void *out, const void *kept, const void *q, const void *k,
                                const void *v)
{
  note (queue, "gradient of attention",
        ps_cuda_attention_backward (queue->element, shape, dq, dk, dv, dout, out, kept, q, k, v, queue->workspace,
                                    stream_of (queue)));
}

static void adam (PsQueue *queue, void *weights, float *master, float *gradient, float *momentum, float *variance,
                  size_t n, float factor, double learning_rate, uint64_t step)
{
  note (
      queue, "Adam",
      ps_cuda_adam (weights, master, gradient, momentum, variance, n, factor, learning_rate, step, stream_of (queue)));
}

static void adam_try (PsQueue *queue, void *weights, float *tried, const float *master, const float *gradient,
                      const float *momentum, const float *variance, size_t n, float factor, double learning_rate,
                      uint64_t step)
{
  note (queue, "trying Adam",
        ps_cuda_adam_try (weights, tried, master, gradient, momentum, variance, n, factor, learning_rate, step,
                          stream_of (queue)));
}

static double norm_square (PsQueue *queue, const float *values, size_t n, float factor)
{
  double total = 0;

  note (queue, "norm of gradients", ps_cuda_norm_square (queue->workspace, values, n, factor, stream_of (queue)));
  copy (queue, &total, queue->workspace, sizeof total);
  await (queue);
  return total;
}

static void *captures_new (PsQueue *queue, unsigned most)
{
  return context_of (queue)->graphs ? ps_cuda_graphs_new (most) : NULL;
}

static void captures_free (void *captures)
{
  ps_cuda_graphs_free (captures);
}

static void capture (void *captures, PsQueue *queue, const void *key, size_t key_bytes, PsLaunch launch, void *data)
{
  ps_cuda_graphs_run (captures, context_of (queue), key, key_bytes, launch, data);
}

const PsKernels ps_cuda_kernels = {
  .name = "cuda",
  .bf16 = true,
  .warms_up = true,
  .alignment = 128,
  .row_alignment = 8,
  .check = check,
  .pool_new = ps_cuda_memory_new,
  .clear = clear,
  .copy = copy,
  .await = await,
  .workspace = workspace,
  .set_part = set_part,
  .linear = linear,
  .linear_gelu = linear_gelu,
  .linear_input = linear_input,
  .linear_gelu_input = linear_gelu_input,
  .linear_weights = linear_weights,
  .bias_gradient = bias_gradient,
  .norm = norm,
  .norm_input = norm_input,
  .norm_weights = norm_weights,
  .swiglu = swiglu,
  .swiglu_input = swiglu_input,
  .rows_copy = rows_copy,
  .rows_add = rows_add,
  .to_bf16 = to_bf16,
  .rotary_table = rotary_table,
  .rotary = rotary,
  .embedding = embedding,
  .embedding_weights = embedding_weights,
  .cross_entropy = cross_entropy,
  .loss_sum = loss_sum,
  .attention_kept_bytes = attention_kept_bytes,
  .attention = attention,
  .attention_backward = attention_backward,
  .adam = adam,
  .adam_try = adam_try,
  .norm_square = norm_square,
  .captures_new = captures_new,
  .captures_free = captures_free,
  .capture = capture,
};

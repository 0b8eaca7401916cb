/* cuda-kernels.c - the table of kernels of the cuda device: memory, and ops that are captured once and launched again
 * as graphs. */
#include "cuda-kernels.h"

#include "cuda-context.h"
#include "cuda-products.h"

/* The attention without tensor cores. */
#define SIMPLE_HEAD_SIZE 1024
#define SIMPLE_SEQUENCE 8192

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
  ps_cuda_note (queue, "clearing memory", cudaMemsetAsync (block, value, bytes, ps_cuda_stream (queue)));
}

static void copy (PsQueue *queue, void *to, const void *from, size_t bytes)
{
  ps_cuda_note (queue, "copying", cudaMemcpyAsync (to, from, bytes, cudaMemcpyDefault, ps_cuda_stream (queue)));
}

static void await (PsQueue *queue)
{
  PsCudaContext *context = (PsCudaContext *)queue;

  ps_cuda_note (queue, "waiting", cudaEventRecord (context->done, context->stream));
  ps_cuda_note (queue, "waiting", cudaEventSynchronize (context->done));
}

static size_t workspace (PsElement element, const PsAttention *attention, int columns)
{
  const gsize sizes[]
      = { ps_cuda_products_workspace (), ps_cuda_columns_workspace (attention->batch * attention->sequence, columns),
          ps_cuda_embedding_workspace (attention->batch, attention->sequence), ps_cuda_square_sum_workspace (),
          ps_cuda_attention_kept_bytes (attention) };
  gsize most = 0;

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    most = MAX (most, sizes[i]);
  return most;
}

static double norm_square (PsQueue *queue, const float *values, size_t n, float factor)
{
  double total = 0;

  ps_cuda_square_sum (queue, values, n, factor);
  copy (queue, &total, queue->workspace, sizeof total);
  await (queue);
  return total;
}

/* --- graphs: the launches of ops, captured --- */

typedef struct {
  guint most;
  GHashTable *made; /* cudaGraphExec_t by GBytes */
} Captures;

static void destroy (gpointer made)
{
  cudaGraphExecDestroy (made);
}

static void *captures_new (PsQueue *queue, unsigned most)
{
  Captures *captures;

  if (g_strcmp0 (g_getenv ("PIPESIM_CUDA_GRAPHS"), "1") != 0)
    return NULL;
  captures = g_new0 (Captures, 1);
  captures->most = most;
  captures->made = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, destroy);
  return captures;
}

static void captures_free (void *data)
{
  Captures *captures = data;

  if (captures == NULL)
    return;
  g_hash_table_unref (captures->made);
  g_free (captures);
}

/* Returns the captured graph, or NULL after noting a problem. The capture is of this thread alone: threads of other
 * devices go on, and may allocate. */
static cudaGraphExec_t capture (PsQueue *queue, PsLaunch launch, gpointer data)
{
  const cudaStream_t stream = ps_cuda_stream (queue);
  const cudaError_t status = cudaStreamBeginCapture (stream, cudaStreamCaptureModeThreadLocal);
  cudaGraph_t captured = NULL;
  cudaGraphExec_t made = NULL;

  ps_cuda_note (queue, "beginning to capture an op", status);
  if (status != cudaSuccess)
    return NULL;
  launch (data);
  ps_cuda_note (queue, "capturing an op", cudaStreamEndCapture (stream, &captured));
  if (captured == NULL)
    return NULL;
  ps_cuda_note (queue, "making a graph of an op", cudaGraphInstantiate (&made, captured, 0));
  cudaGraphDestroy (captured);
  return made;
}

static void run_captured (void *data, PsQueue *queue, const void *key, size_t key_bytes, PsLaunch launch,
                          void *launch_data)
{
  Captures *captures = data;
  g_autoptr (GBytes) wanted = g_bytes_new_static (key, key_bytes);
  cudaGraphExec_t made = g_hash_table_lookup (captures->made, wanted);

  if (made == NULL && g_hash_table_size (captures->made) >= captures->most) {
    launch (launch_data);
    return;
  }
  if (made == NULL) {
    made = capture (queue, launch, launch_data);
    if (made == NULL)
      return;
    g_hash_table_insert (captures->made, g_bytes_new (key, key_bytes), made);
  }
  ps_cuda_note (queue, "launching an op's graph", cudaGraphLaunch (made, ps_cuda_stream (queue)));
}

static void set_part (PsQueue *queue, unsigned n_sms)
{
  ps_cuda_products_set_part (((PsCudaContext *)queue)->products, n_sms);
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
  .linear = ps_cuda_linear,
  .linear_gelu = ps_cuda_linear_gelu,
  .linear_input = ps_cuda_linear_input,
  .linear_gelu_input = ps_cuda_linear_gelu_input,
  .linear_weights = ps_cuda_linear_weights,
  .bias_gradient = ps_cuda_bias_gradient,
  .norm = ps_cuda_norm,
  .norm_input = ps_cuda_norm_input,
  .norm_weights = ps_cuda_norm_weights,
  .swiglu = ps_cuda_swiglu,
  .swiglu_input = ps_cuda_swiglu_input,
  .rows_copy = ps_cuda_rows_copy,
  .rows_add = ps_cuda_rows_add,
  .to_bf16 = ps_cuda_to_bf16,
  .rotary_table = ps_cuda_rotary_table,
  .rotary = ps_cuda_rotary,
  .embedding = ps_cuda_embedding,
  .embedding_weights = ps_cuda_embedding_weights,
  .cross_entropy = ps_cuda_cross_entropy,
  .loss_sum = ps_cuda_loss_sum,
  .attention_kept_bytes = ps_cuda_attention_kept_bytes,
  .attention = ps_cuda_attention,
  .attention_backward = ps_cuda_attention_backward,
  .adam = ps_cuda_adam,
  .adam_try = ps_cuda_adam_try,
  .norm_square = norm_square,
  .captures_new = captures_new,
  .captures_free = captures_free,
  .capture = run_captured,
};

/* cuda-sizes.c - the models that the cuda device takes. */
#include "cuda-sizes.h"

/* The largest head size of the attention without tensor cores. */
#define SIMPLE_HEAD_SIZE 1024
#define SIMPLE_SEQUENCE 8192

static gboolean refuse (const char *field, guint value, const char *supported, GError **error)
{
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: model has %s = %u: %s", field, value, supported);
}

static gboolean check_kind (const PsModel *model, GError **error)
{
  const guint head_size = model->hidden / model->heads;
  PsModel plain = *model;

  plain.tied = FALSE;
  const char *special = ps_model_special_key (&plain);
  if (special != NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: model has %s: only models without it are supported",
                      special);
  if (model->precision != PS_PRECISION_FP32 && model->precision != PS_PRECISION_BF16)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "cuda device: model has precision = %s: only fp32 and bf16 are supported",
                      ps_precision_name (model->precision));
  if (model->mlp == PS_MLP_SWIGLU && head_size % 2 != 0)
    return refuse ("hidden / heads", head_size, "rotary positions need an even number", error);
  return TRUE;
}

/* Keeps every size within an int and every block within PS_MAX_SIZE_BYTES: no index overflows. */
static gboolean check_size (const PsModel *model, GError **error)
{
  const double tokens = (double)model->microbatch_size * model->sequence;
  const double widest = MAX (MAX (3.0 * model->hidden, 2.0 * model->feed_forward), model->vocabulary + 8.0);

  if (tokens <= G_MAXINT / 2 && widest <= G_MAXINT && model->heads <= G_MAXINT && model->layers <= G_MAXINT
      && MAX (tokens, widest) * widest * 64 * model->layers <= (double)PS_MAX_SIZE_BYTES)
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_UNAVAILABLE,
      "cuda device: model of %u layers, hidden %u, feed_forward %u, vocabulary %u, %u x %u tokens is too large",
      model->layers, model->hidden, model->feed_forward, model->vocabulary, model->microbatch_size, model->sequence);
}

static gboolean check_attention (const PsCudaSizes *sizes, GError **error)
{
  if (ps_cuda_attention_is_fast (sizes->element, &sizes->attention))
    return TRUE;
  if (sizes->attention.head_size > SIMPLE_HEAD_SIZE)
    return refuse ("hidden / heads", (guint)sizes->attention.head_size, "1024 at most is supported", error);
  if (ps_cuda_sizes_whole (sizes) > SIMPLE_SEQUENCE)
    return refuse ("sequence", (guint)ps_cuda_sizes_whole (sizes),
                   "more than 8192 takes bf16 and heads of 32, 64, 96 or 128 elements", error);
  return TRUE;
}

static PsCudaAttention attention_shape (const PsModel *model, guint n_slices, guint n_parts)
{
  const int heads = (int)(model->heads / n_parts), kv_heads = (int)(model->kv_heads / n_parts);
  const int head_size = (int)(model->hidden / model->heads), qkv_width = (heads + 2 * kv_heads) * head_size;

  return (PsCudaAttention){ .batch = (int)model->microbatch_size,
                            .sequence = (int)(model->sequence / n_slices),
                            .heads = heads,
                            .kv_heads = kv_heads,
                            .head_size = head_size,
                            .qkv_stride = qkv_width,
                            .out_stride = heads * head_size,
                            .kv_stride = qkv_width };
}

gboolean ps_cuda_sizes_init (PsCudaSizes *sizes, const PsDeviceSetting *setting, GError **error)
{
  const PsModel *model = setting->model;
  const guint n_slices = MAX (1, setting->n_slices), n_parts = MAX (1, setting->n_tensor);

  g_return_val_if_fail (model->heads > 0 && model->hidden % model->heads == 0, FALSE);
  g_return_val_if_fail (model->kv_heads > 0 && model->heads % model->kv_heads == 0, FALSE);

  if (!check_kind (model, error) || !check_size (model, error))
    return FALSE;
  if (model->sequence % n_slices != 0)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cuda device: %u slices: do not divide the model's sequence of %u",
                      n_slices, model->sequence);

  const gboolean gated = model->mlp == PS_MLP_SWIGLU;
  const PsCudaAttention attention = attention_shape (model, n_slices, n_parts);
  const int f = (int)(model->feed_forward / n_parts);
  *sizes = (PsCudaSizes){
    .element = model->precision == PS_PRECISION_BF16 ? PS_CUDA_BF16 : PS_CUDA_FP32,
    .gated = gated,
    .layers = (int)model->layers,
    .tokens = (int)(model->microbatch_size * model->sequence / n_slices),
    .batch = (int)model->microbatch_size,
    .sequence = (int)(model->sequence / n_slices),
    .slices = (int)n_slices,
    .hidden = (int)model->hidden,
    .parts = (int)n_parts,
    .part = (int)setting->tensor,
    .width = attention.out_stride,
    .qkv_width = attention.qkv_stride,
    .feed_forward = f,
    .up_width = gated ? 2 * f : f,
    .vocabulary = (int)model->vocabulary,
    .tied = model->tied,
    .logits_width
    = (int)((model->vocabulary + PS_CUDA_ROW_ALIGNMENT - 1) / PS_CUDA_ROW_ALIGNMENT) * PS_CUDA_ROW_ALIGNMENT,
    .attention = attention,
  };
  return check_attention (sizes, error);
}

gsize ps_cuda_sizes_boundary_bytes (const PsCudaSizes *sizes)
{
  return (gsize)sizes->tokens * (gsize)sizes->hidden * ps_cuda_element_bytes (sizes->element);
}

void *ps_cuda_at (const PsCudaSizes *sizes, void *array, gsize n)
{
  return (char *)array + n * ps_cuda_element_bytes (sizes->element);
}

/* transformer.c - the models that a device takes, the data that its stages share, and the hooks of PsDeviceClass. */
#include "train/transformer.h"

#include "train/data.h"
#include "train/devices.h"
#include "train/transformer-stage.h"

#include <pipesim/formats.h>

/* RoFormer (arXiv 2104.09864), section 3.3. */
#define ROTARY_BASE 10000.0

/* --- queues --- */

void ps_queue_begin (PsQueue *queue)
{
  g_clear_pointer (&queue->failure, g_free);
}

void ps_queue_note (PsQueue *queue, const char *what, const char *problem)
{
  if (queue->failure == NULL)
    queue->failure = g_strdup_printf ("%s: %s", what, problem);
}

bool ps_queue_finish (PsQueue *queue, GError **error)
{
  return queue->failure == NULL || ps_refuse (error, PS_ERROR_UNAVAILABLE, "%s", queue->failure);
}

/* --- sizes --- */

static gboolean check_kind (const PsModel *model, const PsKernels *kernels, GError **error)
{
  const guint head_size = model->hidden / model->heads;
  PsModel plain = *model;

  plain.tied = FALSE;
  const char *special = ps_model_special_key (&plain);
  if (special != NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "%s device: model has %s: only models without it are supported",
                      kernels->name, special);
  if (model->precision != PS_PRECISION_FP32 && !(kernels->bf16 && model->precision == PS_PRECISION_BF16))
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "%s device: model has precision = %s: only %s supported",
                      kernels->name, ps_precision_name (model->precision),
                      kernels->bf16 ? "fp32 and bf16 are" : "fp32 is");
  if (model->mlp == PS_MLP_SWIGLU && head_size % 2 != 0)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "%s device: model has hidden / heads = %u: rotary positions need an even number", kernels->name,
                      head_size);
  return TRUE;
}

/* Keeps every size within an int and every block within PS_MAX_SIZE_BYTES: no index overflows. */
static gboolean check_size (const PsModel *model, const PsKernels *kernels, GError **error)
{
  const double tokens = (double)model->microbatch_size * model->sequence;
  const double widest = MAX (MAX (3.0 * model->hidden, 2.0 * model->feed_forward), model->vocabulary + 8.0);
  const double deepest = MAX (MAX (tokens, widest), model->sequence);
  const double scores = kernels->keeps_scores && !model->flash_attention ? (double)model->heads * tokens : 0;

  if (tokens <= G_MAXINT / 2 && widest <= G_MAXINT && model->heads <= G_MAXINT && model->layers <= G_MAXINT
      && MAX (deepest, scores) * deepest * 64 * model->layers <= (double)PS_MAX_SIZE_BYTES)
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_UNAVAILABLE,
      "%s device: model of %u layers, hidden %u, feed_forward %u, vocabulary %u, %u x %u tokens is too large",
      kernels->name, model->layers, model->hidden, model->feed_forward, model->vocabulary, model->microbatch_size,
      model->sequence);
}

static gboolean init_sizes (PsSizes *sizes, const PsKernels *kernels, const PsDeviceSetting *setting, GError **error)
{
  const PsModel *model = setting->model;
  const guint n_slices = MAX (1, setting->n_slices), n_parts = MAX (1, setting->n_tensor);
  const guint rows = (guint)kernels->row_alignment;

  if (!check_kind (model, kernels, error) || !check_size (model, kernels, error))
    return FALSE;
  g_return_val_if_fail (model->heads > 0 && model->hidden % model->heads == 0, FALSE);
  g_return_val_if_fail (model->kv_heads > 0 && model->heads % model->kv_heads == 0, FALSE);
  guint longest = model->sequence / n_slices;

  for (guint k = 0; setting->slice_tokens != NULL && k < n_slices; k++)
    longest = MAX (longest, setting->slice_tokens[k]);
  if (setting->slice_tokens == NULL && model->sequence % n_slices != 0)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "%s device: %u slices: do not divide the model's sequence of %u",
                      kernels->name, n_slices, model->sequence);

  const gboolean gated = model->mlp == PS_MLP_SWIGLU;
  const int heads = (int)(model->heads / n_parts), kv_heads = (int)(model->kv_heads / n_parts);
  const int head_size = (int)(model->hidden / model->heads), qkv_width = (heads + 2 * kv_heads) * head_size;
  const int f = (int)(model->feed_forward / n_parts);
  const PsAttention attention = { .batch = (int)model->microbatch_size,
                                  .sequence = (int)longest,
                                  .heads = heads,
                                  .kv_heads = kv_heads,
                                  .head_size = head_size,
                                  .qkv_stride = qkv_width,
                                  .out_stride = heads * head_size,
                                  .kv_stride = qkv_width,
                                  .flash = model->flash_attention };
  *sizes = (PsSizes){
    .element = model->precision == PS_PRECISION_BF16 ? PS_ELEMENT_BF16 : PS_ELEMENT_FP32,
    .gated = gated,
    .layers = (int)model->layers,
    .batch = attention.batch,
    .whole = (int)model->sequence,
    .longest = attention.sequence,
    .sequence = attention.sequence,
    .tokens = attention.batch * attention.sequence,
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
    .logits_width = (int)((model->vocabulary + rows - 1) / rows * rows),
    .attention = attention,
  };
  PsAttention last = attention;
  last.past = sizes->whole - sizes->longest;
  return kernels->check == NULL || kernels->check (sizes->element, &last, error);
}

/* The tokens of microbatch number `microbatch` in each sequence of a slice, where slices are equally long. */
static int sequence_of (const PsTransformer *transformer, guint microbatch)
{
  const PsDeviceSetting *setting = &transformer->setting;

  return setting->tokens != NULL ? (int)setting->tokens[microbatch % setting->n_tokens] : transformer->sizes.longest;
}

int ps_transformer_slice_tokens (const PsTransformer *transformer, guint k)
{
  const PsDeviceSetting *setting = &transformer->setting;

  return setting->slice_tokens != NULL ? (int)setting->slice_tokens[k] : transformer->sizes.sequence;
}

int ps_transformer_slice_begin (const PsTransformer *transformer, guint k)
{
  int tokens = 0;

  for (guint i = 0; i < k; i++)
    tokens += ps_transformer_slice_tokens (transformer, i);
  return tokens;
}

void ps_transformer_set_slice (PsTransformer *transformer, guint microbatch, guint slice)
{
  PsSizes *sizes = &transformer->sizes;

  sizes->sequence = sequence_of (transformer, microbatch);
  sizes->sequence = sizes->attention.sequence = ps_transformer_slice_tokens (transformer, slice);
  sizes->attention.past = ps_transformer_slice_begin (transformer, slice);
  sizes->tokens = sizes->batch * sizes->sequence;
}

/* --- the device --- */

gboolean ps_transformer_init (PsTransformer *transformer, const PsDeviceClass *class, const PsKernels *kernels,
                              const PsDeviceSetting *setting, GError **error)
{
  if (setting->model == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "%s device: needs a model description", kernels->name);
  if (!init_sizes (&transformer->sizes, kernels, setting, error))
    return FALSE;
  transformer->base.class = class;
  transformer->kernels = kernels;
  transformer->setting = *setting;
  transformer->memory = kernels->pool_new ();
  transformer->uncounted = kernels->pool_new ();
  transformer->stages = g_new0 (PsStage *, setting->n_stages);
  transformer->weights = g_new0 (PsWeights *, setting->n_stages);
  return TRUE;
}

void *ps_transformer_take (PsTransformer *transformer, gsize bytes, PsUseKind kind, const char *what, GError **error)
{
  void *block = ps_memory_pool_take (transformer->memory, bytes, kind);

  if (block == NULL) {
    g_autofree char *size = ps_format_size ((gint64)bytes);

    g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "no memory for %s of %s", size, what);
  }
  return block;
}

static gsize words_per_slice (const PsSizes *sizes)
{
  return (gsize)sizes->batch * ((gsize)sizes->longest + 1);
}

const uint32_t *ps_transformer_words (const PsTransformer *transformer, guint microbatch, guint slice)
{
  const PsSizes *sizes = &transformer->sizes;

  return transformer->words + (microbatch * (guint)sizes->slices + slice) * words_per_slice (sizes);
}

/* Writes the words of all microbatches for the transformer's step. A slice has the word after its last one, too, which
 * may be the first of the next slice. */
static gboolean write_words (PsTransformer *transformer, GError **error)
{
  const PsSizes *sizes = &transformer->sizes;
  const guint n_microbatches = transformer->setting.n_microbatches, n_slices = (guint)sizes->slices;
  const guint *tokens = transformer->setting.slice_tokens;
  const gsize n_slice = words_per_slice (sizes), stride = (gsize)sizes->whole + 1;
  g_autofree guint32 *words = g_new0 (guint32, n_slice * n_slices * n_microbatches);
  g_autofree guint32 *whole = g_new (guint32, (gsize)sizes->batch * stride);
  guint32 *slice = words;

  for (guint i = 0; i < n_microbatches; i++) {
    gsize begin = 0;

    ps_data_read (whole, &transformer->setting, transformer->step, i);
    for (guint k = 0; k < n_slices; k++, slice += n_slice) {
      const gsize n = tokens != NULL ? tokens[k] : (gsize)sequence_of (transformer, i);

      for (gsize row = 0; row < (gsize)sizes->batch; row++)
        memcpy (slice + row * (n + 1), whole + row * stride + begin, (n + 1) * sizeof *words);
      begin += n;
    }
  }
  ps_queue_begin (transformer->queue);
  transformer->kernels->copy (transformer->queue, transformer->words, words,
                              n_slice * n_slices * n_microbatches * sizeof *words);
  transformer->kernels->await (transformer->queue);
  return ps_queue_finish (transformer->queue, error);
}

/* Takes and fills the tables that the first stage needs. */
gboolean ps_transformer_prepare (PsTransformer *transformer, const PsStageShape *shape, GError **error)
{
  const PsSizes *sizes = &transformer->sizes;
  const gsize n_words = words_per_slice (sizes) * (gsize)sizes->slices * transformer->setting.n_microbatches;
  const int whole = sizes->whole, head_size = sizes->attention.head_size;

  if (sizes->gated && transformer->rotary == NULL) {
    transformer->rotary
        = ps_memory_pool_take (transformer->uncounted, (gsize)whole * (gsize)head_size * sizeof (float), PS_USE_STATE);
    if (transformer->rotary == NULL)
      return ps_refuse (error, PS_ERROR_UNAVAILABLE, "no memory for rotary positions");
    ps_queue_begin (transformer->queue);
    transformer->kernels->rotary_table (transformer->queue, transformer->rotary, whole, head_size, ROTARY_BASE);
    if (!ps_queue_finish (transformer->queue, error))
      return FALSE;
  }
  if (transformer->words != NULL || (!shape->embedding && !shape->head) || n_words == 0)
    return TRUE;
  transformer->words = ps_memory_pool_take (transformer->uncounted, n_words * sizeof (guint32), PS_USE_STATE);
  if (transformer->words == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "no memory for the words of all microbatches");
  return write_words (transformer, error);
}

gboolean ps_transformer_begin (PsDevice *device, guint64 step, GError **error)
{
  PsTransformer *transformer = (PsTransformer *)device;
  const PsTraining *training = transformer->setting.training;
  const gboolean changes = training != NULL && training->text != NULL && step != transformer->step;

  transformer->step = step;
  return !changes || transformer->words == NULL || write_words (transformer, error);
}

void ps_transformer_memory (PsDevice *device, PsMemoryUse *use)
{
  ps_memory_pool_use (((PsTransformer *)device)->memory, use);
}

void ps_transformer_reset_peak (PsDevice *device)
{
  ps_memory_pool_reset_peak (((PsTransformer *)device)->memory);
}

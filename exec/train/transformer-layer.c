/* transformer-layer.c - forward and backward of one transformer layer, and of the head. */
#include "train/transformer-stage.h"

static void *at (const PsSizes *sizes, void *array, gsize n)
{
  return (char *)array + n * ps_element_bytes (sizes->element);
}

gsize ps_block_bytes (const PsTransformer *transformer, gboolean head, PsBlock block)
{
  const PsSizes *sizes = &transformer->sizes;
  const gsize tokens = (gsize)sizes->tokens, element = ps_element_bytes (sizes->element);
  const gsize floats = tokens * sizeof (float), narrow = tokens * (gsize)sizes->hidden * element;

  if (head && block != PS_BLOCK_X && block != PS_BLOCK_MEAN1 && block != PS_BLOCK_SCALE1 && block != PS_BLOCK_LOGITS
      && block != PS_BLOCK_DNORMED1)
    return 0;
  switch (block) {
  case PS_BLOCK_MEAN1:
  case PS_BLOCK_MEAN2:
    return sizes->gated ? 0 : floats;
  case PS_BLOCK_SCALE1:
  case PS_BLOCK_SCALE2:
    return floats;
  case PS_BLOCK_KEPT:
    return transformer->kernels->attention_kept_bytes (&sizes->attention);
  case PS_BLOCK_CONTEXT:
    return tokens * (gsize)sizes->width * element;
  case PS_BLOCK_DQKV:
    return transformer->kernels->attention_in_place ? 0 : tokens * (gsize)sizes->qkv_width * element;
  case PS_BLOCK_QKV:
    return tokens * (gsize)sizes->qkv_width * element;
  case PS_BLOCK_Z:
    return tokens * (gsize)sizes->up_width * element;
  case PS_BLOCK_DZ:
    return sizes->gated || transformer->kernels->gelu_in_place ? 0 : tokens * (gsize)sizes->feed_forward * element;
  case PS_BLOCK_G:
    return tokens * (gsize)sizes->feed_forward * element;
  case PS_BLOCK_LOGITS:
    return head ? tokens * (gsize)sizes->logits_width * element : 0;
  case PS_BLOCK_INHERITED:
    return floats * (gsize)ps_sizes_kv_width (sizes);
  default:
    return narrow;
  }
}

static gboolean take (PsTransformer *transformer, void *to, gsize bytes, GError **error)
{
  void *block = ps_transformer_take (transformer, bytes, PS_USE_STATE, "workspace", error);

  *(void **)to = block;
  return block != NULL;
}

gboolean ps_lane_init (PsLane *lane, PsTransformer *transformer, PsQueue *queue, GError **error)
{
  const PsSizes *sizes = &transformer->sizes;
  const int widest = MAX (MAX (sizes->hidden, sizes->qkv_width), sizes->up_width);
  const gsize element = ps_element_bytes (sizes->element), tokens = (gsize)sizes->batch * (gsize)sizes->longest;
  const gsize narrow = tokens * (gsize)sizes->hidden;
  const gsize keys = (gsize)sizes->batch * (gsize)sizes->whole * (gsize)ps_sizes_kv_width (sizes) * element;
  PsAttention last = sizes->attention;

  last.sequence = sizes->longest;
  last.past = sizes->whole - sizes->longest;
  *lane = (PsLane){ .transformer = transformer, .kernels = transformer->kernels, .sizes = sizes, .queue = queue };
  if (!take (transformer, &lane->workspace, transformer->kernels->workspace (sizes->element, &last, widest), error))
    return FALSE;
  queue->workspace = lane->workspace;
  return take (transformer, &lane->narrow, narrow * element, error)
         && take (transformer, &lane->token_losses, tokens * sizeof (float), error)
         && (sizes->parts == 1 || sizes->element == PS_ELEMENT_FP32
             || take (transformer, &lane->sums, narrow * sizeof (float), error))
         && (sizes->slices == 1
             || (take (transformer, &lane->keys, keys, error) && take (transformer, &lane->dkeys, keys, error)))
         && (!sizes->gated || take (transformer, &lane->wide, tokens * (gsize)sizes->feed_forward * element, error));
}

/* Replaces T x h numbers of element by their sums over the devices that share the layer, in float. */
static void add_up (const PsLane *lane, void *values)
{
  const PsSizes *sizes = lane->sizes;
  const PsDeviceSetting *setting = &lane->transformer->setting;
  const gsize n = (gsize)sizes->tokens * (gsize)sizes->hidden;
  float *sums = lane->sums != NULL ? lane->sums : values;
  g_autoptr (GError) error = NULL;

  /* After a failure the others wait in vain, and the run ends. */
  if (sizes->parts == 1 || setting->add_up == NULL || lane->transformer->alone || lane->queue->failure != NULL)
    return;
  if (lane->sums != NULL)
    lane->kernels->rows_add (lane->queue, sums, TRUE, (PsRows){ values, sizes->tokens, sizes->hidden }, 1,
                             sizes->tokens, sizes->hidden);
  if (!setting->add_up (setting->add_up_data, sums, n, &error))
    ps_queue_note (lane->queue, "adding up", error->message);
  if (lane->sums != NULL)
    lane->kernels->to_bf16 (lane->queue, values, sums, n);
}

/* Turns queries and keys in one call: they lie side by side. */
static void turn (const PsLane *lane, void *qkv, gboolean backward)
{
  const PsSizes *sizes = lane->sizes;
  const PsAttention *attention = &sizes->attention;
  const gsize before = (gsize)attention->past * (gsize)attention->head_size;

  if (sizes->gated)
    lane->kernels->rotary (lane->queue, qkv, lane->transformer->rotary + before, sizes->tokens, sizes->sequence,
                           attention->heads + attention->kv_heads, attention->head_size, sizes->qkv_width, backward);
}

/* Returns where keys and values of slice i lie in the output of the product that makes them. */
static PsRows keys_in (const PsLane *lane, void *qkv, guint i)
{
  return (PsRows){ at (lane->sizes, qkv, (gsize)lane->sizes->width), ps_transformer_slice_tokens (lane->transformer, i),
                   lane->sizes->qkv_width };
}

/* Returns where those of slice i lie in a block for all slices up to the lane's. */
static PsRows keys_among (const PsLane *lane, void *all, guint i)
{
  const PsSizes *sizes = lane->sizes;
  const int width = ps_sizes_kv_width (sizes);

  return (PsRows){ at (sizes, all, (gsize)ps_transformer_slice_begin (lane->transformer, i) * (gsize)width),
                   sizes->attention.past + sizes->sequence, width };
}

/* Copies keys and values of slice i. */
static void copy_keys (const PsLane *lane, guint i, PsRows to, PsRows from, const float *more)
{
  const PsSizes *sizes = lane->sizes;

  lane->kernels->rows_copy (lane->queue, to, from, more, sizes->batch,
                            ps_transformer_slice_tokens (lane->transformer, i), ps_sizes_kv_width (sizes));
}

/* What an op of attention reads of all slices, and where it writes gradients. */
typedef struct {
  PsAttention shape;
  PsRows keys, dkeys; /* of the first slice; values follow a key after half a row */
} Reach;

static void *dqkv_of (const PsBlocks *blocks)
{
  return blocks->at[PS_BLOCK_DQKV] != NULL ? blocks->at[PS_BLOCK_DQKV] : blocks->at[PS_BLOCK_QKV];
}

static Reach reach_of (const PsLane *lane, const PsLayer *layer)
{
  const PsSizes *sizes = lane->sizes;
  const PsRows own = keys_in (lane, layer->blocks->at[PS_BLOCK_QKV], lane->slice);
  Reach reach = { sizes->attention, own, keys_in (lane, dqkv_of (layer->blocks), lane->slice) };

  if (lane->slice == 0)
    return reach;
  for (guint i = 0; i <= lane->slice; i++)
    copy_keys (lane, i, keys_among (lane, lane->keys, i),
               i < lane->slice ? keys_in (lane, layer->earlier[i].qkv, i) : own, NULL);
  reach.keys = keys_among (lane, lane->keys, 0);
  reach.dkeys = keys_among (lane, lane->dkeys, 0);
  reach.shape.kv_stride = reach.keys.stride;
  return reach;
}

static void *values_of (const PsSizes *sizes, PsRows keys)
{
  return at (sizes, keys.first, (gsize)ps_sizes_kv_width (sizes) / 2);
}

void ps_layer_attend (const PsLane *lane, const PsLayer *layer)
{
  const Reach reach = reach_of (lane, layer);

  lane->kernels->attention (lane->queue, &reach.shape, layer->blocks->at[PS_BLOCK_CONTEXT],
                            layer->blocks->at[PS_BLOCK_KEPT], layer->blocks->at[PS_BLOCK_QKV], reach.keys.first,
                            values_of (lane->sizes, reach.keys));
}

static void attend_backward (const PsLane *lane, const PsLayer *layer)
{
  const PsSizes *sizes = lane->sizes;
  const Reach reach = reach_of (lane, layer);
  const PsRows own = keys_in (lane, dqkv_of (layer->blocks), lane->slice);
  const float *inherited = layer->blocks->at[PS_BLOCK_INHERITED];

  lane->kernels->attention_backward (lane->queue, &reach.shape, dqkv_of (layer->blocks), reach.dkeys.first,
                                     values_of (sizes, reach.dkeys), lane->narrow, layer->blocks->at[PS_BLOCK_CONTEXT],
                                     layer->blocks->at[PS_BLOCK_KEPT], layer->blocks->at[PS_BLOCK_QKV],
                                     reach.keys.first, values_of (sizes, reach.keys));
  /* Leaves the gradients of earlier slices' keys and values to these, and takes over what later slices have left. */
  for (guint i = 0; i < lane->slice; i++)
    lane->kernels->rows_add (lane->queue, layer->earlier[i].inherited, layer->earlier[i].begins != 0,
                             keys_among (lane, lane->dkeys, i), sizes->batch,
                             ps_transformer_slice_tokens (lane->transformer, i), ps_sizes_kv_width (sizes));
  if (lane->slice > 0 || inherited != NULL)
    copy_keys (lane, lane->slice, own, lane->slice > 0 ? keys_among (lane, lane->dkeys, lane->slice) : own, inherited);
}

/* y = x w + bias + residual, where each device that shares the layer has some columns of x and rows of w. */
static void linear_rows (const PsLane *lane, void *y, const void *x, const void *w, const void *bias,
                         const void *residual, int in)
{
  const PsSizes *sizes = lane->sizes;
  const gboolean first = sizes->part == 0;

  lane->kernels->linear (lane->queue, y, x, w, first ? bias : NULL, first ? residual : NULL, sizes->tokens, in,
                         sizes->hidden);
  add_up (lane, y);
}

/* dx = dy w^T, where each has some columns of dy and w. */
static void linear_columns_input (const PsLane *lane, void *dx, const void *dy, const void *w, int out)
{
  const PsSizes *sizes = lane->sizes;

  lane->kernels->linear_input (lane->queue, dx, dy, w, sizes->tokens, sizes->hidden, out);
  add_up (lane, dx);
}

void ps_layer_forward (const PsLane *lane, const PsLayer *layer, void *output)
{
  const PsKernels *kernels = lane->kernels;
  const PsSizes *sizes = lane->sizes;
  const int rows = sizes->tokens, h = sizes->hidden, f = sizes->feed_forward;
  const void *const *w = layer->parameters.weight;
  void *const *block = layer->blocks->at;
  void *normed = lane->narrow, *z = block[PS_BLOCK_Z];

  kernels->norm (lane->queue, normed, block[PS_BLOCK_MEAN1], block[PS_BLOCK_SCALE1], block[PS_BLOCK_X],
                 w[PS_NORM1_GAIN], w[PS_NORM1_BIAS], rows, h);
  kernels->linear (lane->queue, block[PS_BLOCK_QKV], normed, w[PS_WQKV], w[PS_BQKV], NULL, rows, h, sizes->qkv_width);
  turn (lane, block[PS_BLOCK_QKV], FALSE);
  ps_layer_attend (lane, layer);
  linear_rows (lane, block[PS_BLOCK_Y], block[PS_BLOCK_CONTEXT], w[PS_WO], w[PS_BO], block[PS_BLOCK_X], sizes->width);

  kernels->norm (lane->queue, normed, block[PS_BLOCK_MEAN2], block[PS_BLOCK_SCALE2], block[PS_BLOCK_Y],
                 w[PS_NORM2_GAIN], w[PS_NORM2_BIAS], rows, h);
  if (sizes->gated) {
    kernels->linear (lane->queue, z, normed, w[PS_W1], NULL, NULL, rows, h, 2 * f);
    kernels->swiglu (lane->queue, block[PS_BLOCK_G], z, at (sizes, z, (gsize)f), rows, f, 2 * f);
  } else
    kernels->linear_gelu (lane->queue, block[PS_BLOCK_G], z, normed, w[PS_W1], w[PS_B1], rows, h, f);
  linear_rows (lane, output, block[PS_BLOCK_G], w[PS_W2], w[PS_B2], block[PS_BLOCK_Y], f);
}

static void *dz_of (const PsBlocks *blocks)
{
  return blocks->at[PS_BLOCK_DZ] != NULL ? blocks->at[PS_BLOCK_DZ] : blocks->at[PS_BLOCK_Z];
}

void ps_layer_backward (const PsLane *lane, const PsLayer *layer, void *dx)
{
  const PsKernels *kernels = lane->kernels;
  const PsSizes *sizes = lane->sizes;
  const int rows = sizes->tokens, h = sizes->hidden, f = sizes->feed_forward;
  const void *const *w = layer->parameters.weight;
  void *const *block = layer->blocks->at;
  void *z = block[PS_BLOCK_Z];

  if (sizes->gated) {
    void *up = at (sizes, z, (gsize)f);

    kernels->linear_input (lane->queue, lane->wide, block[PS_BLOCK_DOUTPUT], w[PS_W2], rows, f, h);
    kernels->swiglu_input (lane->queue, z, up, lane->wide, z, up, rows, f, 2 * f);
  } else
    kernels->linear_gelu_input (lane->queue, dz_of (layer->blocks), block[PS_BLOCK_DOUTPUT], w[PS_W2], z, rows, f, h);
  linear_columns_input (lane, block[PS_BLOCK_DNORMED2], dz_of (layer->blocks), w[PS_W1], sizes->up_width);
  kernels->norm_input (lane->queue, block[PS_BLOCK_DY], block[PS_BLOCK_DOUTPUT], block[PS_BLOCK_DNORMED2],
                       block[PS_BLOCK_Y], block[PS_BLOCK_MEAN2], block[PS_BLOCK_SCALE2], w[PS_NORM2_GAIN], rows, h);

  kernels->linear_input (lane->queue, lane->narrow, block[PS_BLOCK_DY], w[PS_WO], rows, sizes->width, h);
  attend_backward (lane, layer);
  turn (lane, dqkv_of (layer->blocks), TRUE);
  linear_columns_input (lane, block[PS_BLOCK_DNORMED1], dqkv_of (layer->blocks), w[PS_WQKV], sizes->qkv_width);
  kernels->norm_input (lane->queue, dx, block[PS_BLOCK_DY], block[PS_BLOCK_DNORMED1], block[PS_BLOCK_X],
                       block[PS_BLOCK_MEAN1], block[PS_BLOCK_SCALE1], w[PS_NORM1_GAIN], rows, h);
}

/* dw += x^T dy, dbias += the rows of dy. */
static void linear_gradient (const PsLane *lane, float *dw, float *dbias, const void *x, const void *dy, int in,
                             int out)
{
  lane->kernels->linear_weights (lane->queue, dw, x, dy, lane->sizes->tokens, in, out);
  if (dbias != NULL)
    lane->kernels->bias_gradient (lane->queue, dbias, dy, lane->sizes->tokens, out);
}

void ps_layer_weights (const PsLane *lane, const PsLayer *layer)
{
  const PsKernels *kernels = lane->kernels;
  const PsSizes *sizes = lane->sizes;
  const int rows = sizes->tokens, h = sizes->hidden;
  const void *const *w = layer->parameters.weight;
  float *const *d = layer->parameters.gradient;
  void *const *block = layer->blocks->at;
  void *normed = lane->narrow;

  linear_gradient (lane, d[PS_W2], d[PS_B2], block[PS_BLOCK_G], block[PS_BLOCK_DOUTPUT], sizes->feed_forward, h);
  kernels->norm_weights (lane->queue, d[PS_NORM2_GAIN], d[PS_NORM2_BIAS], normed, block[PS_BLOCK_DNORMED2],
                         block[PS_BLOCK_Y], block[PS_BLOCK_MEAN2], block[PS_BLOCK_SCALE2], w[PS_NORM2_GAIN],
                         w[PS_NORM2_BIAS], rows, h);
  linear_gradient (lane, d[PS_W1], d[PS_B1], normed, dz_of (layer->blocks), h, sizes->up_width);

  linear_gradient (lane, d[PS_WO], d[PS_BO], block[PS_BLOCK_CONTEXT], block[PS_BLOCK_DY], sizes->width, h);
  kernels->norm_weights (lane->queue, d[PS_NORM1_GAIN], d[PS_NORM1_BIAS], normed, block[PS_BLOCK_DNORMED1],
                         block[PS_BLOCK_X], block[PS_BLOCK_MEAN1], block[PS_BLOCK_SCALE1], w[PS_NORM1_GAIN],
                         w[PS_NORM1_BIAS], rows, h);
  linear_gradient (lane, d[PS_WQKV], d[PS_BQKV], normed, dqkv_of (layer->blocks), h, sizes->qkv_width);
}

void ps_head_forward (const PsLane *lane, const PsLayer *head, const uint32_t *words, double *loss)
{
  const PsKernels *kernels = lane->kernels;
  const PsSizes *sizes = lane->sizes;
  const int rows = sizes->tokens, h = sizes->hidden, n_summed = sizes->slices > 1 ? sizes->batch * sizes->whole : rows;
  const void *const *w = head->parameters.weight;
  void *const *block = head->blocks->at;
  void *normed = lane->narrow, *logits = block[PS_BLOCK_LOGITS];

  kernels->norm (lane->queue, normed, block[PS_BLOCK_MEAN1], block[PS_BLOCK_SCALE1], block[PS_BLOCK_X], w[PS_HEAD_GAIN],
                 w[PS_HEAD_BIAS], rows, h);
  if (sizes->tied)
    kernels->linear_input (lane->queue, logits, normed, w[PS_HEAD_W], rows, sizes->logits_width, h);
  else
    kernels->linear (lane->queue, logits, normed, w[PS_HEAD_W], NULL, NULL, rows, h, sizes->logits_width);
  kernels->cross_entropy (lane->queue, logits, lane->token_losses, words, sizes->batch, sizes->sequence,
                          sizes->vocabulary, sizes->logits_width, 1 / (float)n_summed);
  kernels->loss_sum (lane->queue, loss, lane->token_losses, rows, 1.0 / n_summed);
}

void ps_head_backward (const PsLane *lane, const PsLayer *head, void *dx)
{
  const PsKernels *kernels = lane->kernels;
  const PsSizes *sizes = lane->sizes;
  const int rows = sizes->tokens, h = sizes->hidden;
  const void *const *w = head->parameters.weight;
  void *const *block = head->blocks->at;
  void *dnormed = block[PS_BLOCK_DNORMED1], *logits = block[PS_BLOCK_LOGITS];

  if (sizes->tied)
    kernels->linear (lane->queue, dnormed, logits, w[PS_HEAD_W], NULL, NULL, rows, sizes->logits_width, h);
  else
    kernels->linear_input (lane->queue, dnormed, logits, w[PS_HEAD_W], rows, h, sizes->logits_width);
  kernels->norm_input (lane->queue, dx, NULL, dnormed, block[PS_BLOCK_X], block[PS_BLOCK_MEAN1], block[PS_BLOCK_SCALE1],
                       w[PS_HEAD_GAIN], rows, h);
}

void ps_head_weights (const PsLane *lane, const PsLayer *head)
{
  const PsKernels *kernels = lane->kernels;
  const PsSizes *sizes = lane->sizes;
  const void *const *w = head->parameters.weight;
  void *const *block = head->blocks->at;
  void *normed = lane->narrow, *logits = block[PS_BLOCK_LOGITS];
  float *const *d = head->parameters.gradient;

  kernels->norm_weights (lane->queue, d[PS_HEAD_GAIN], d[PS_HEAD_BIAS], normed, block[PS_BLOCK_DNORMED1],
                         block[PS_BLOCK_X], block[PS_BLOCK_MEAN1], block[PS_BLOCK_SCALE1], w[PS_HEAD_GAIN],
                         w[PS_HEAD_BIAS], sizes->tokens, sizes->hidden);
  if (sizes->tied)
    kernels->linear_weights (lane->queue, d[PS_HEAD_W], logits, normed, sizes->tokens, sizes->logits_width,
                             sizes->hidden);
  else
    kernels->linear_weights (lane->queue, d[PS_HEAD_W], normed, logits, sizes->tokens, sizes->hidden,
                             sizes->logits_width);
}

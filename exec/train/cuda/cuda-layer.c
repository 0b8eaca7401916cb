/* cuda-layer.c - forward and backward of one transformer layer. */
#include "cuda-layer.h"

gsize ps_cuda_layer_part_bytes (const PsCudaSizes *sizes, PsCudaPart part)
{
  const gsize tokens = (gsize)sizes->tokens, element = ps_cuda_element_bytes (sizes->element);

  switch (part) {
  case PS_CUDA_MEAN1:
  case PS_CUDA_MEAN2:
    return sizes->gated ? 0 : tokens * sizeof (float);
  case PS_CUDA_SCALE1:
  case PS_CUDA_SCALE2:
    return tokens * sizeof (float);
  case PS_CUDA_LSE:
    return tokens * (gsize)sizes->attention.heads * sizeof (float);
  case PS_CUDA_CONTEXT:
    return tokens * (gsize)sizes->width * element;
  case PS_CUDA_QKV:
  case PS_CUDA_DQKV:
    return tokens * (gsize)sizes->qkv_width * element;
  case PS_CUDA_Z:
    return tokens * (gsize)sizes->up_width * element;
  case PS_CUDA_DZ:
    return sizes->gated ? 0 : tokens * (gsize)sizes->feed_forward * element;
  case PS_CUDA_INHERITED:
    return tokens * (gsize)ps_cuda_sizes_kv_width (sizes) * sizeof (float);
  case PS_CUDA_G:
    return tokens * (gsize)sizes->feed_forward * element;
  default:
    return ps_cuda_sizes_boundary_bytes (sizes);
  }
}

void ps_cuda_norm (PsCudaShared *shared, void *y, float *mean, float *scale, const void *x, const void *gain,
                   const void *bias)
{
  const PsCudaSizes *sizes = &shared->sizes;

  ps_cuda_note (&shared->context, "norm",
                ps_cuda_norm_rows (sizes->element, y, mean, scale, x, gain, bias, sizes->tokens, sizes->hidden,
                                   shared->context.stream));
}

void ps_cuda_norm_input (PsCudaShared *shared, void *dx, const void *residual, const void *dy, const void *x,
                         const float *mean, const float *scale, const void *gain)
{
  const PsCudaSizes *sizes = &shared->sizes;

  ps_cuda_note (&shared->context, "gradient of a norm",
                ps_cuda_norm_rows_input (sizes->element, dx, residual, dy, x, mean, scale, gain, sizes->tokens,
                                         sizes->hidden, shared->context.stream));
}

void ps_cuda_norm_weights (PsCudaShared *shared, float *dgain, float *dbias, const void *dy, const void *x,
                           const float *mean, const float *scale, const void *gain, const void *bias)
{
  const PsCudaSizes *sizes = &shared->sizes;

  ps_cuda_note (&shared->context, "weight gradients of a norm",
                ps_cuda_norm_rows_weights (sizes->element, dgain, dbias, shared->normed, dy, x, mean, scale, gain, bias,
                                           sizes->tokens, sizes->hidden, shared->scratch, shared->context.stream));
}

/* Turns queries and keys in one call: they lie side by side. */
static void turn (PsCudaShared *shared, void *qkv, guint slice, gboolean backward)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const PsCudaAttention *attention = &sizes->attention;
  const gsize place = (gsize)slice * (gsize)sizes->sequence;

  if (shared->rotary != NULL)
    ps_cuda_note (&shared->context, "rotary positions",
                  ps_cuda_rotary (sizes->element, qkv, shared->rotary + place * (gsize)attention->head_size,
                                  sizes->tokens, sizes->sequence, attention->heads + attention->kv_heads,
                                  attention->head_size, sizes->qkv_width, backward, shared->context.stream));
}

/* Returns where keys and values lie in the output of the product that makes them. */
static PsCudaRows keys_in (const PsCudaSizes *sizes, void *qkv)
{
  return (PsCudaRows){ ps_cuda_at (sizes, qkv, (gsize)sizes->width), sizes->sequence, sizes->qkv_width };
}

/* Returns where those of slice i lie in a block for all slices up to `slice`. */
static PsCudaRows keys_among (const PsCudaSizes *sizes, void *all, guint slice, guint i)
{
  const int width = ps_cuda_sizes_kv_width (sizes);

  return (PsCudaRows){ ps_cuda_at (sizes, all, (gsize)i * (gsize)sizes->sequence * (gsize)width),
                       ((int)slice + 1) * sizes->sequence, width };
}

static void copy_keys (PsCudaShared *shared, PsCudaRows to, PsCudaRows from, const float *more)
{
  const PsCudaSizes *sizes = &shared->sizes;

  ps_cuda_note (&shared->context, "copying keys and values",
                ps_cuda_rows_copy (sizes->element, to, from, more, sizes->batch, sizes->sequence,
                                   ps_cuda_sizes_kv_width (sizes), shared->context.stream));
}

/* What an op of attention reads of all slices, and where it writes gradients. */
typedef struct {
  PsCudaAttention shape;
  PsCudaRows keys, dkeys; /* of the first slice; values follow a key after half a row */
} Reach;

static Reach reach_of (PsCudaShared *shared, const PsCudaLayerState *state, const PsCudaEarlier *earlier, guint slice)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const PsCudaRows own = keys_in (sizes, state->part[PS_CUDA_QKV]);
  Reach reach = { sizes->attention, own, keys_in (sizes, state->part[PS_CUDA_DQKV]) };

  if (slice == 0)
    return reach;
  for (guint i = 0; i <= slice; i++)
    copy_keys (shared, keys_among (sizes, shared->keys, slice, i), i < slice ? keys_in (sizes, earlier[i].qkv) : own,
               NULL);
  reach.keys = keys_among (sizes, shared->keys, slice, 0);
  reach.dkeys = keys_among (sizes, shared->dkeys, slice, 0);
  reach.shape.past = (int)slice * sizes->sequence;
  reach.shape.kv_stride = reach.keys.stride;
  return reach;
}

static void *values_of (const PsCudaSizes *sizes, PsCudaRows keys)
{
  return ps_cuda_at (sizes, keys.first, (gsize)ps_cuda_sizes_kv_width (sizes) / 2);
}

static void attend (PsCudaShared *shared, const PsCudaLayerState *state, const PsCudaEarlier *earlier, guint slice)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const Reach reach = reach_of (shared, state, earlier, slice);

  ps_cuda_note (&shared->context, "attention",
                ps_cuda_attention (sizes->element, &reach.shape, state->part[PS_CUDA_CONTEXT], state->part[PS_CUDA_LSE],
                                   state->part[PS_CUDA_QKV], reach.keys.first, values_of (sizes, reach.keys),
                                   shared->context.stream));
}

/* Leaves the gradients of earlier slices' keys and values to these, and takes over what later slices have left. */
static void share_gradients (PsCudaShared *shared, const PsCudaLayerState *state, const PsCudaEarlier *earlier,
                             guint slice)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const PsCudaRows own = keys_in (sizes, state->part[PS_CUDA_DQKV]);
  const float *inherited = state->part[PS_CUDA_INHERITED];

  for (guint i = 0; i < slice; i++)
    ps_cuda_note (&shared->context, "gradients of earlier keys and values",
                  ps_cuda_rows_add (sizes->element, earlier[i].inherited, earlier[i].begins != 0,
                                    keys_among (sizes, shared->dkeys, slice, i), sizes->batch, sizes->sequence,
                                    ps_cuda_sizes_kv_width (sizes), shared->context.stream));
  if (slice > 0 || inherited != NULL)
    copy_keys (shared, own, slice > 0 ? keys_among (sizes, shared->dkeys, slice, slice) : own, inherited);
}

static void attend_backward (PsCudaShared *shared, const PsCudaLayerState *state, const PsCudaEarlier *earlier,
                             guint slice, const void *dcontext)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const Reach reach = reach_of (shared, state, earlier, slice);

  ps_cuda_note (&shared->context, "gradient of attention",
                ps_cuda_attention_backward (sizes->element, &reach.shape, state->part[PS_CUDA_DQKV], reach.dkeys.first,
                                            values_of (sizes, reach.dkeys), dcontext, state->part[PS_CUDA_CONTEXT],
                                            state->part[PS_CUDA_LSE], state->part[PS_CUDA_QKV], reach.keys.first,
                                            values_of (sizes, reach.keys), shared->scratch, shared->context.stream));
  share_gradients (shared, state, earlier, slice);
}

static void swiglu (PsCudaShared *shared, const PsCudaLayerState *state)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const int f = sizes->feed_forward;
  void *z = state->part[PS_CUDA_Z];

  ps_cuda_note (&shared->context, "SwiGLU",
                ps_cuda_swiglu (sizes->element, state->part[PS_CUDA_G], z, ps_cuda_at (sizes, z, (gsize)f),
                                sizes->tokens, f, 2 * f, shared->context.stream));
}

/* y = x w + bias + residual, where each device that shares the layer has some columns of x and rows of w. */
static void linear_rows (PsCudaShared *shared, void *y, const void *x, const void *w, const void *bias,
                         const void *residual, int in)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const gboolean first = sizes->part == 0;

  ps_cuda_linear (shared->products, y, x, w, first ? bias : NULL, first ? residual : NULL, sizes->tokens, in,
                  sizes->hidden);
  ps_cuda_shared_add_up (shared, y);
}

/* dx = dy w^T, where each has some columns of dy and w. */
static void linear_columns_input (PsCudaShared *shared, void *dx, const void *dy, const void *w, int out)
{
  const PsCudaSizes *sizes = &shared->sizes;

  ps_cuda_linear_input (shared->products, dx, dy, w, sizes->tokens, sizes->hidden, out);
  ps_cuda_shared_add_up (shared, dx);
}

void ps_cuda_layer_forward (const PsCudaLayer *layer, PsCudaShared *shared, const PsCudaLayerState *state,
                            const PsCudaEarlier *earlier, guint slice, void *output)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const int rows = sizes->tokens, h = sizes->hidden, f = sizes->feed_forward;
  const void *const *w = layer->weight;
  void *const *part = state->part;

  ps_cuda_norm (shared, shared->normed, part[PS_CUDA_MEAN1], part[PS_CUDA_SCALE1], part[PS_CUDA_X],
                w[PS_CUDA_NORM1_GAIN], w[PS_CUDA_NORM1_BIAS]);
  ps_cuda_linear (shared->products, part[PS_CUDA_QKV], shared->normed, w[PS_CUDA_WQKV], w[PS_CUDA_BQKV], NULL, rows, h,
                  sizes->qkv_width);
  turn (shared, part[PS_CUDA_QKV], slice, FALSE);
  attend (shared, state, earlier, slice);
  linear_rows (shared, part[PS_CUDA_Y], part[PS_CUDA_CONTEXT], w[PS_CUDA_WO], w[PS_CUDA_BO], part[PS_CUDA_X],
               sizes->width);

  ps_cuda_norm (shared, shared->normed, part[PS_CUDA_MEAN2], part[PS_CUDA_SCALE2], part[PS_CUDA_Y],
                w[PS_CUDA_NORM2_GAIN], w[PS_CUDA_NORM2_BIAS]);
  if (sizes->gated) {
    ps_cuda_linear (shared->products, part[PS_CUDA_Z], shared->normed, w[PS_CUDA_W1], NULL, NULL, rows, h, 2 * f);
    swiglu (shared, state);
  } else
    ps_cuda_linear_gelu (shared->products, part[PS_CUDA_G], part[PS_CUDA_Z], shared->normed, w[PS_CUDA_W1],
                         w[PS_CUDA_B1], rows, h, f);
  linear_rows (shared, output, part[PS_CUDA_G], w[PS_CUDA_W2], w[PS_CUDA_B2], part[PS_CUDA_Y], f);
}

/* Returns the gradient of z; in gated models B writes it into z itself. */
static void *dz_of (const PsCudaLayerState *state)
{
  return state->part[PS_CUDA_DZ] != NULL ? state->part[PS_CUDA_DZ] : state->part[PS_CUDA_Z];
}

static void backward_swiglu (const PsCudaLayer *layer, PsCudaShared *shared, const PsCudaLayerState *state)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const int f = sizes->feed_forward;
  void *gate = state->part[PS_CUDA_Z], *up = ps_cuda_at (sizes, gate, (gsize)f);

  ps_cuda_linear_input (shared->products, shared->wide, state->part[PS_CUDA_DOUTPUT], layer->weight[PS_CUDA_W2],
                        sizes->tokens, f, sizes->hidden);
  ps_cuda_note (&shared->context, "gradient of SwiGLU",
                ps_cuda_swiglu_input (sizes->element, gate, up, shared->wide, gate, up, sizes->tokens, f, 2 * f,
                                      shared->context.stream));
}

void ps_cuda_layer_backward (const PsCudaLayer *layer, PsCudaShared *shared, const PsCudaLayerState *state,
                             const PsCudaEarlier *earlier, guint slice, void *dx)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const int rows = sizes->tokens, h = sizes->hidden;
  const void *const *w = layer->weight;
  void *const *part = state->part;

  if (sizes->gated)
    backward_swiglu (layer, shared, state);
  else
    ps_cuda_linear_gelu_input (shared->products, part[PS_CUDA_DZ], part[PS_CUDA_DOUTPUT], w[PS_CUDA_W2],
                               part[PS_CUDA_Z], rows, sizes->feed_forward, h);
  linear_columns_input (shared, part[PS_CUDA_DNORMED2], dz_of (state), w[PS_CUDA_W1], sizes->up_width);
  ps_cuda_norm_input (shared, part[PS_CUDA_DY], part[PS_CUDA_DOUTPUT], part[PS_CUDA_DNORMED2], part[PS_CUDA_Y],
                      part[PS_CUDA_MEAN2], part[PS_CUDA_SCALE2], w[PS_CUDA_NORM2_GAIN]);

  ps_cuda_linear_input (shared->products, shared->dcontext, part[PS_CUDA_DY], w[PS_CUDA_WO], rows, sizes->width, h);
  attend_backward (shared, state, earlier, slice, shared->dcontext);
  turn (shared, part[PS_CUDA_DQKV], slice, TRUE);
  linear_columns_input (shared, part[PS_CUDA_DNORMED1], part[PS_CUDA_DQKV], w[PS_CUDA_WQKV], sizes->qkv_width);
  ps_cuda_norm_input (shared, dx, part[PS_CUDA_DY], part[PS_CUDA_DNORMED1], part[PS_CUDA_X], part[PS_CUDA_MEAN1],
                      part[PS_CUDA_SCALE1], w[PS_CUDA_NORM1_GAIN]);
}

/* dw += x^T dy, dbias += the rows of dy. */
static void linear_gradient (PsCudaShared *shared, float *dw, float *dbias, const void *x, const void *dy, int in,
                             int out)
{
  const PsCudaSizes *sizes = &shared->sizes;

  ps_cuda_linear_weights (shared->products, dw, x, dy, sizes->tokens, in, out);
  if (dbias != NULL)
    ps_cuda_note (
        &shared->context, "bias gradient",
        ps_cuda_bias_gradient (sizes->element, dbias, dy, sizes->tokens, out, shared->scratch, shared->context.stream));
}

void ps_cuda_layer_weights (const PsCudaLayer *layer, PsCudaShared *shared, const PsCudaLayerState *state)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const int h = sizes->hidden;
  const void *const *w = layer->weight;
  float *const *d = layer->gradient;
  void *const *part = state->part;

  linear_gradient (shared, d[PS_CUDA_W2], d[PS_CUDA_B2], part[PS_CUDA_G], part[PS_CUDA_DOUTPUT], sizes->feed_forward,
                   h);
  ps_cuda_norm_weights (shared, d[PS_CUDA_NORM2_GAIN], d[PS_CUDA_NORM2_BIAS], part[PS_CUDA_DNORMED2], part[PS_CUDA_Y],
                        part[PS_CUDA_MEAN2], part[PS_CUDA_SCALE2], w[PS_CUDA_NORM2_GAIN], w[PS_CUDA_NORM2_BIAS]);
  linear_gradient (shared, d[PS_CUDA_W1], d[PS_CUDA_B1], shared->normed, dz_of (state), h, sizes->up_width);

  linear_gradient (shared, d[PS_CUDA_WO], d[PS_CUDA_BO], part[PS_CUDA_CONTEXT], part[PS_CUDA_DY], sizes->width, h);
  ps_cuda_norm_weights (shared, d[PS_CUDA_NORM1_GAIN], d[PS_CUDA_NORM1_BIAS], part[PS_CUDA_DNORMED1], part[PS_CUDA_X],
                        part[PS_CUDA_MEAN1], part[PS_CUDA_SCALE1], w[PS_CUDA_NORM1_GAIN], w[PS_CUDA_NORM1_BIAS]);
  linear_gradient (shared, d[PS_CUDA_WQKV], d[PS_CUDA_BQKV], shared->normed, part[PS_CUDA_DQKV], h, sizes->qkv_width);
}

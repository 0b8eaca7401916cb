/* cpu-layer.c - forward and backward of one transformer layer. */
#include <math.h>
#include <string.h>

#include "cpu-attention.h"
#include "train/data.h"
#include "cpu-kernels.h"
#include "cpu-layer.h"

/* Parts of the blocks. */
typedef struct {
  float *standard1; /* T x h, see ps_cpu_norm */
  float *qkv;       /* T x 3w; after B its gradient */
  float *context;   /* T x w */
  float *standard2; /* T x h */
  float *z;         /* T x f; after B its gradient */
  float *g;         /* T x f */
} Keep;

typedef struct {
  float *scale1; /* T, see ps_cpu_norm */
  float *scale2; /* T */
} Late;

typedef struct {
  float *dnormed1; /* T x h */
  float *dy;       /* T x h */
  float *dnormed2; /* T x h */
} Gradient;

static gsize lay_out_keep (Keep *keep, const PsCpuSizes *sizes, float *block)
{
  float *cursor = block;
  const gsize narrow = ps_cpu_sizes_boundary (sizes);
  const gsize inner = (gsize)sizes->tokens * sizes->width;
  const gsize wide = (gsize)sizes->tokens * sizes->feed_forward;

  keep->standard1 = ps_cpu_carve (&cursor, narrow);
  keep->qkv = ps_cpu_carve (&cursor, 3 * inner);
  keep->context = ps_cpu_carve (&cursor, inner);
  keep->standard2 = ps_cpu_carve (&cursor, narrow);
  keep->z = ps_cpu_carve (&cursor, wide);
  keep->g = ps_cpu_carve (&cursor, wide);
  return ps_cpu_carved (cursor) - ps_cpu_carved (block);
}

static gsize lay_out_late (Late *late, const PsCpuSizes *sizes, float *block)
{
  float *cursor = block;

  late->scale1 = ps_cpu_carve (&cursor, (gsize)sizes->tokens);
  late->scale2 = ps_cpu_carve (&cursor, (gsize)sizes->tokens);
  return ps_cpu_carved (cursor) - ps_cpu_carved (block);
}

static gsize lay_out_gradient (Gradient *gradient, const PsCpuSizes *sizes, float *block)
{
  float *cursor = block;
  const gsize narrow = ps_cpu_sizes_boundary (sizes);

  gradient->dnormed1 = ps_cpu_carve (&cursor, narrow);
  gradient->dy = ps_cpu_carve (&cursor, narrow);
  gradient->dnormed2 = ps_cpu_carve (&cursor, narrow);
  return ps_cpu_carved (cursor) - ps_cpu_carved (block);
}

gsize ps_cpu_layer_keep_size (const PsCpuSizes *sizes)
{
  Keep keep;

  return lay_out_keep (&keep, sizes, NULL);
}

gsize ps_cpu_layer_late_size (const PsCpuSizes *sizes)
{
  Late late;

  return lay_out_late (&late, sizes, NULL);
}

/* batch x heads rectangles of the sequence by all tokens up to the slice's. */
gsize ps_cpu_layer_scores_size (const PsCpuSizes *sizes, guint slice)
{
  return (gsize)sizes->tokens * sizes->heads * sizes->sequence * (slice + 1);
}

gsize ps_cpu_layer_inherited_size (const PsCpuSizes *sizes)
{
  return 2 * (gsize)sizes->tokens * sizes->width;
}

gsize ps_cpu_layer_gradient_size (const PsCpuSizes *sizes)
{
  Gradient gradient;

  return lay_out_gradient (&gradient, sizes, NULL);
}

gsize ps_cpu_layer_parameters (const PsCpuSizes *sizes)
{
  const gsize h = (gsize)sizes->hidden, w = (gsize)sizes->width, f = (gsize)sizes->feed_forward;

  return 4 * h * w + 2 * h * f + 6 * h + 3 * w + f;
}

/* Returns the start of the next n parameters, which follow without gaps. */
static float *next (float **cursor, gsize n)
{
  float *start = *cursor;

  *cursor += n;
  return start;
}

PsCpuLayer ps_cpu_layer_view (const PsCpuSizes *sizes, float *parameters)
{
  const gsize h = (gsize)sizes->hidden, w = (gsize)sizes->width, f = (gsize)sizes->feed_forward;
  float *cursor = parameters;
  PsCpuLayer view;

  view.norm1_gain = next (&cursor, h);
  view.norm1_bias = next (&cursor, h);
  view.wqkv = next (&cursor, h * 3 * w);
  view.bqkv = next (&cursor, 3 * w);
  view.wo = next (&cursor, w * h);
  view.bo = next (&cursor, h);
  view.norm2_gain = next (&cursor, h);
  view.norm2_bias = next (&cursor, h);
  view.w1 = next (&cursor, h * f);
  view.b1 = next (&cursor, f);
  view.w2 = next (&cursor, f * h);
  view.b2 = next (&cursor, h);
  return view;
}

void ps_cpu_layer_init (const PsCpuLayer *weights, const PsCpuSizes *sizes, guint64 seed, guint layer)
{
  const gsize h = (gsize)sizes->hidden, f = (gsize)sizes->feed_forward;
  const float deviation = 0.02f, last = deviation / sqrtf (2.0f * (float)sizes->layers);

  memset (weights->norm1_gain, 0, sizeof (float) * ps_cpu_layer_parameters (sizes));
  for (gsize i = 0; i < h; i++)
    weights->norm1_gain[i] = weights->norm2_gain[i] = 1;
  ps_data_weights (weights->wqkv, h * 3 * h, deviation, seed, layer, 0);
  ps_data_weights (weights->wo, h * h, last, seed, layer, 1);
  ps_data_weights (weights->w1, h * f, deviation, seed, layer, 2);
  ps_data_weights (weights->w2, f * h, last, seed, layer, 3);
}

/* y = x w + bias. The bias is added after the product, which overwrites y. */
static void linear_bias (float *y, const float *x, const float *w, const float *bias, int rows, int in, int out)
{
  ps_cpu_linear (y, x, w, rows, in, out);
  ps_cpu_bias_add (y, bias, rows, out);
}

/* Adds up the tokens x hidden numbers of the devices that share the layer. */
static gboolean add_up (const PsCpuSizes *sizes, const PsCpuWorkspace *workspace, float *values, GError **error)
{
  const PsDeviceSetting *setting = workspace->setting;

  return sizes->parts == 1 || setting->add_up == NULL
         || setting->add_up (setting->add_up_data, values, ps_cpu_sizes_boundary (sizes), error);
}

/* y += x w + bias, where x has the columns and w the rows of this device. */
static gboolean linear_bias_add (float *y, const float *x, const float *w, const float *bias, int in,
                                 const PsCpuSizes *sizes, const PsCpuWorkspace *workspace, GError **error)
{
  const int rows = sizes->tokens, out = sizes->hidden;

  ps_cpu_bias_add (y, bias, rows, out);
  if (sizes->parts == 1)
    ps_cpu_linear_add (y, x, w, rows, in, out);
  else {
    ps_cpu_linear (workspace->normed, x, w, rows, in, out);
    if (!add_up (sizes, workspace, workspace->normed, error))
      return FALSE;
    ps_cpu_add (y, workspace->normed, ps_cpu_sizes_boundary (sizes));
  }
  return TRUE;
}

/* Queries, keys and values of each slice up to this one, and what they inherit. */
static void find_slices (const PsCpuSizes *sizes, const PsCpuLayerState *const *states, guint slice, float **qkv,
                         float **inherited)
{
  for (guint i = 0; i <= slice; i++) {
    Keep keep;

    lay_out_keep (&keep, sizes, states[i]->keep);
    qkv[i] = keep.qkv;
    inherited[i] = states[i]->inherited;
  }
}

gboolean ps_cpu_layer_forward (const PsCpuLayer *weights, const PsCpuSizes *sizes, const PsCpuWorkspace *workspace,
                               const PsCpuLayerState *const *states, guint slice, float *x, GError **error)
{
  const int rows = sizes->tokens, h = sizes->hidden, w = sizes->width, f = sizes->feed_forward;
  float *qkv[PS_CPU_MAX_SLICES], *inherited[PS_CPU_MAX_SLICES];
  Keep keep;
  Late late;

  lay_out_keep (&keep, sizes, states[slice]->keep);
  lay_out_late (&late, sizes, states[slice]->late);
  find_slices (sizes, states, slice, qkv, inherited);

  ps_cpu_norm (workspace->normed, keep.standard1, late.scale1, x, weights->norm1_gain, weights->norm1_bias, rows, h);
  linear_bias (keep.qkv, workspace->normed, weights->wqkv, weights->bqkv, rows, h, 3 * w);
  ps_cpu_attention_forward (keep.context, states[slice]->scores, qkv, slice, sizes);
  if (!linear_bias_add (x, keep.context, weights->wo, weights->bo, w, sizes, workspace, error))
    return FALSE;

  ps_cpu_norm (workspace->normed, keep.standard2, late.scale2, x, weights->norm2_gain, weights->norm2_bias, rows, h);
  ps_cpu_linear (keep.z, workspace->normed, weights->w1, rows, h, f);
  ps_cpu_gelu (keep.g, keep.z, weights->b1, rows, f);
  return linear_bias_add (x, keep.g, weights->w2, weights->b2, f, sizes, workspace, error);
}

void ps_cpu_layer_attend (const PsCpuSizes *sizes, const PsCpuLayerState *const *states, guint slice)
{
  float *qkv[PS_CPU_MAX_SLICES], *inherited[PS_CPU_MAX_SLICES];
  Keep keep;

  lay_out_keep (&keep, sizes, states[slice]->keep);
  find_slices (sizes, states, slice, qkv, inherited);
  ps_cpu_attention_forward (keep.context, states[slice]->scores, qkv, slice, sizes);
}

gboolean ps_cpu_layer_backward (const PsCpuLayer *weights, const PsCpuSizes *sizes, const PsCpuWorkspace *workspace,
                                const PsCpuLayerState *const *states, guint slice, float *dx, GError **error)
{
  const int rows = sizes->tokens, h = sizes->hidden, w = sizes->width, f = sizes->feed_forward;
  const PsCpuLayerState *state = states[slice];
  float *qkv[PS_CPU_MAX_SLICES], *inherited[PS_CPU_MAX_SLICES];
  float *dg = workspace->wide, *dcontext = workspace->normed;
  Keep keep;
  Late late;
  Gradient gradient;

  lay_out_keep (&keep, sizes, state->keep);
  lay_out_late (&late, sizes, state->late);
  find_slices (sizes, states, slice, qkv, inherited);
  lay_out_gradient (&gradient, sizes, state->gradient);

  ps_cpu_linear_input (dg, state->doutput, weights->w2, rows, f, h);
  ps_cpu_gelu_input (keep.z, dg, (gsize)rows * f);
  ps_cpu_linear_input (gradient.dnormed2, keep.z, weights->w1, rows, h, f);
  if (!add_up (sizes, workspace, gradient.dnormed2, error))
    return FALSE;
  ps_cpu_norm_input (gradient.dy, state->doutput, gradient.dnormed2, keep.standard2, late.scale2, weights->norm2_gain,
                     rows, h);

  ps_cpu_linear_input (dcontext, gradient.dy, weights->wo, rows, w, h);
  ps_cpu_attention_backward (qkv, inherited, slice, dcontext, keep.context, state->scores, sizes, workspace);
  ps_cpu_linear_input (gradient.dnormed1, keep.qkv, weights->wqkv, rows, h, 3 * w);
  if (!add_up (sizes, workspace, gradient.dnormed1, error))
    return FALSE;
  ps_cpu_norm_input (dx, gradient.dy, gradient.dnormed1, keep.standard1, late.scale1, weights->norm1_gain, rows, h);
  return TRUE;
}

/* dw += x^T dy, dbias += the rows of dy. */
static void linear_gradient (float *dw, float *dbias, const float *x, const float *dy, int rows, int in, int out)
{
  ps_cpu_linear_weights (dw, x, dy, rows, in, out);
  ps_cpu_bias_gradient (dbias, dy, rows, out);
}

void ps_cpu_layer_weights (const PsCpuLayer *weights, const PsCpuLayer *gradients, const PsCpuSizes *sizes,
                           const PsCpuWorkspace *workspace, const PsCpuLayerState *state)
{
  const int rows = sizes->tokens, h = sizes->hidden, w = sizes->width, f = sizes->feed_forward;
  float *normed = workspace->normed;
  Keep keep;
  Gradient gradient;

  lay_out_keep (&keep, sizes, state->keep);
  lay_out_gradient (&gradient, sizes, state->gradient);

  linear_gradient (gradients->w2, gradients->b2, keep.g, state->doutput, rows, f, h);
  ps_cpu_norm_again (normed, keep.standard2, weights->norm2_gain, weights->norm2_bias, rows, h);
  linear_gradient (gradients->w1, gradients->b1, normed, keep.z, rows, h, f);
  ps_cpu_norm_weights (gradients->norm2_gain, gradients->norm2_bias, gradient.dnormed2, keep.standard2, rows, h);

  linear_gradient (gradients->wo, gradients->bo, keep.context, gradient.dy, rows, w, h);
  ps_cpu_norm_again (normed, keep.standard1, weights->norm1_gain, weights->norm1_bias, rows, h);
  linear_gradient (gradients->wqkv, gradients->bqkv, normed, keep.qkv, rows, h, 3 * w);
  ps_cpu_norm_weights (gradients->norm1_gain, gradients->norm1_bias, gradient.dnormed1, keep.standard1, rows, h);
}

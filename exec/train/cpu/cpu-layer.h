/* cpu-layer.h - one transformer layer for one microbatch: its blocks of memory, its forward and its backward.
 *
 *   n1 = norm (x); qkv = n1 wqkv + bqkv; context = attention (qkv); y = x + context wo + bo
 *   n2 = norm (y); z = n2 w1 + b1;       g = GELU (z);              output = y + g w2 + b2
 *
 * The forward makes three blocks: `keep` lasts until the end of W, `late` and `scores` until the end of B. B overwrites
 * z with dz and qkv with dqkv. It adds the block `gradient`, which is also kept until the end of W. Recomputation makes
 * the forward's blocks, or the scores alone, again before B.
 *
 * Devices that share the layer have some of the heads and of the columns of z each: those columns of wqkv and w1, those
 * rows of wo and w2, and all else whole. So context wo and g w2 are added up over them in the forward, and the
 * gradients of n1 and n2 in the backward (Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3: g and f).
 *
 * An op works on one slice of the sequences of a microbatch. Its attention sees the slices before it. `inherited`
 * collects what later slices leave in B for a slice's keys and values.
 */
#pragma once

#include "cpu-sizes.h"

/* The parameters in an array of ps_cpu_layer_parameters floats, in this order. Weights and gradients have the same
 * order. */
typedef struct {
  float *norm1_gain, *norm1_bias; /* h */
  float *wqkv, *bqkv;             /* h x 3w, 3w: query, key and value; each has `heads` blocks of head_size columns */
  float *wo, *bo;                 /* w x h, h */
  float *norm2_gain, *norm2_bias; /* h */
  float *w1, *b1;                 /* h x f, f */
  float *w2, *b2;                 /* f x h, h */
} PsCpuLayer;

gsize ps_cpu_layer_parameters (const PsCpuSizes *sizes);
PsCpuLayer ps_cpu_layer_view (const PsCpuSizes *sizes, float *parameters);
/* sizes of a whole layer. */
void ps_cpu_layer_init (const PsCpuLayer *weights, const PsCpuSizes *sizes, guint64 seed, guint layer);

/* The blocks that one slice of a microbatch keeps of one layer; NULL: not held now. */
typedef struct {
  float *input; /* of the layer, for full recomputation; a boundary tensor */
  float *keep;
  float *late;
  float *scores; /* probabilities of the attention */
  float *gradient;
  float *doutput;   /* gradient of the layer's output; a boundary tensor */
  float *inherited; /* see cpu-attention.h */
  float *host[4];   /* where input, keep, late and scores have moved to, in memory that is not the device's */
} PsCpuLayerState;

/* Floats of each block. */
gsize ps_cpu_layer_keep_size (const PsCpuSizes *sizes);
gsize ps_cpu_layer_late_size (const PsCpuSizes *sizes);
gsize ps_cpu_layer_scores_size (const PsCpuSizes *sizes, guint slice);
gsize ps_cpu_layer_gradient_size (const PsCpuSizes *sizes);
gsize ps_cpu_layer_inherited_size (const PsCpuSizes *sizes);

/* Turns the layer's input x into its output, in place; fills keep, late and scores of states[slice]. states has the
 * states of the slices up to this one. Forward and backward fail where adding up does. */
gboolean ps_cpu_layer_forward (const PsCpuLayer *weights, const PsCpuSizes *sizes, const PsCpuWorkspace *workspace,
                               const PsCpuLayerState *const *states, guint slice, float *x, GError **error);

/* Makes the scores again, with the bits that the forward gave. */
void ps_cpu_layer_attend (const PsCpuSizes *sizes, const PsCpuLayerState *const *states, guint slice);

/* Writes the gradient of the layer's input to dx; reads doutput, keep, late, scores; fills gradient. */
gboolean ps_cpu_layer_backward (const PsCpuLayer *weights, const PsCpuSizes *sizes, const PsCpuWorkspace *workspace,
                                const PsCpuLayerState *const *states, guint slice, float *dx, GError **error);

/* Adds the weight gradients of the microbatch. */
void ps_cpu_layer_weights (const PsCpuLayer *weights, const PsCpuLayer *gradients, const PsCpuSizes *sizes,
                           const PsCpuWorkspace *workspace, const PsCpuLayerState *state);

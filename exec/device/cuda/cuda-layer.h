/* cuda-layer.h - one transformer layer for one microbatch: what it keeps, and its forward and backward.
 *
 *   n1 = norm (x); qkv = turn (n1 wqkv + bqkv); context = attention (qkv); y = x + context wo + bo
 *   n2 = norm (y); z = n2 w1 + b1; g = GELU (z) or z's first half SwiGLU its second; output = y + g w2 + b2
 *
 * turn: rotary positions of queries and keys, where the model is gated; biases where it is not. n1 and n2 are made anew
 * for W, on the way of the norms' own gradients: that takes less time than their memory is worth.
 */
#ifndef PIPESIM_CUDA_LAYER_H
#define PIPESIM_CUDA_LAYER_H

#include "cuda-parameters.h"
#include "cuda-shared.h"

/* What is kept; T tokens, of element unless said. F makes those up to G; B takes DOUTPUT, makes those behind it and
 * gives back Z (into DZ, unless gated: then Z holds its own gradient), QKV and LSE; W gives back the rest. */
typedef enum
{
  PS_CUDA_X,        /* T x h: the layer's input */
  PS_CUDA_MEAN1,    /* T float; not for RMS norms */
  PS_CUDA_SCALE1,   /* T float */
  PS_CUDA_QKV,      /* T x qkv_width, turned */
  PS_CUDA_LSE,      /* T x heads float */
  PS_CUDA_CONTEXT,  /* T x h */
  PS_CUDA_Y,        /* T x h */
  PS_CUDA_MEAN2,    /* as MEAN1 */
  PS_CUDA_SCALE2,   /* T float */
  PS_CUDA_Z,        /* T x up_width */
  PS_CUDA_G,        /* T x f */
  PS_CUDA_DOUTPUT,  /* T x h: gradient of the output */
  PS_CUDA_DZ,       /* T x f; not where it is gated */
  PS_CUDA_DNORMED2, /* T x h */
  PS_CUDA_DY,       /* T x h */
  PS_CUDA_DQKV,     /* T x qkv_width */
  PS_CUDA_DNORMED1, /* T x h */
  PS_CUDA_N_PARTS
} PsCudaPart;

/* Blocks of one layer for one microbatch; NULL: not held now. */
typedef struct
{
  void *part[PS_CUDA_N_PARTS];
} PsCudaLayerState;

/* Bytes of a part; 0: this kind of model has none. */
gsize ps_cuda_layer_part_bytes (const PsCudaSizes *sizes, PsCudaPart part);

/* Arrays of a layer's parameters, NULL for those that the model lacks. */
typedef struct
{
  const void *weight[PS_CUDA_N_LAYER_PARAMETERS];
  float *gradient[PS_CUDA_N_LAYER_PARAMETERS];
} PsCudaLayer;

/* These put work into the stream and note problems in the context. output: T x h. */
void ps_cuda_layer_forward (const PsCudaLayer *layer, PsCudaShared *shared, const PsCudaLayerState *state,
                            void *output);
void ps_cuda_layer_backward (const PsCudaLayer *layer, PsCudaShared *shared, const PsCudaLayerState *state, void *dx);

/* Adds to the gradients. */
void ps_cuda_layer_weights (const PsCudaLayer *layer, PsCudaShared *shared, const PsCudaLayerState *state);

/* The norms of layers and head: layer norm where there is a mean, RMS norm where it is NULL. */
void ps_cuda_norm (PsCudaShared *shared, void *y, float *mean, float *scale, const void *x, const void *gain,
                   const void *bias);
void ps_cuda_norm_input (PsCudaShared *shared, void *dx, const void *residual, const void *dy, const void *x,
                         const float *mean, const float *scale, const void *gain);

/* Adds to dgain and dbias, and makes the norm of x in shared->normed anew. */
void ps_cuda_norm_weights (PsCudaShared *shared, float *dgain, float *dbias, const void *dy, const void *x,
                           const float *mean, const float *scale, const void *gain, const void *bias);

#endif

/* cuda-layer.h - one transformer layer for one microbatch: its blocks of memory, its forward and its backward.
 *
 *   n1 = norm (x); qkv = turn (n1 wqkv + bqkv); context = attention (qkv); y = x + context wo + bo
 *   n2 = norm (y); z = n2 w1 + b1; g = GELU (z) or z's first half SwiGLU its second; output = y + g w2 + b2
 *
 * turn gives queries and keys rotary positions, if the model is gated. Models that are not gated have biases. W makes
 * n1 and n2 again, together with the gradients of the norms: that takes less time than their memory is worth.
 *
 * Devices that share the layer have some of the heads and of the columns of z each, see cuda-parameters.h. So context
 * wo and g w2 are added up over them in the forward, and the gradients of n1 and n2 in the backward (Shoeybi et al.,
 * Megatron-LM, arXiv 1909.08053, section 3: g and f). The first device adds bias and residual before that.
 */
#pragma once

#include "cuda-parameters.h"
#include "cuda-shared.h"

/* The blocks that are kept; T tokens, of element unless said.
 *
 * F makes the parts up to G. B takes DOUTPUT and makes the parts after it. B gives back QKV, LSE and Z, whose gradient
 * is in DZ; in gated models Z stays and holds its own gradient. B of later slices makes INHERITED, and B of the slice
 * itself gives it back. W gives back the rest. */
typedef enum {
  PS_CUDA_X,         /* T x h: input of the layer */
  PS_CUDA_MEAN1,     /* T float; not for RMS norms */
  PS_CUDA_SCALE1,    /* T float */
  PS_CUDA_QKV,       /* T x qkv_width, after turn */
  PS_CUDA_LSE,       /* T x heads float */
  PS_CUDA_CONTEXT,   /* T x width */
  PS_CUDA_Y,         /* T x h */
  PS_CUDA_MEAN2,     /* as MEAN1 */
  PS_CUDA_SCALE2,    /* T float */
  PS_CUDA_Z,         /* T x up_width */
  PS_CUDA_G,         /* T x f */
  PS_CUDA_DOUTPUT,   /* T x h: gradient of the output */
  PS_CUDA_DZ,        /* T x f; not in gated models */
  PS_CUDA_DNORMED2,  /* T x h */
  PS_CUDA_DY,        /* T x h */
  PS_CUDA_DQKV,      /* T x qkv_width */
  PS_CUDA_DNORMED1,  /* T x h */
  PS_CUDA_INHERITED, /* T x kv_width float: gradients of keys and values from later slices; NULL if there are none */
  PS_CUDA_N_PARTS
} PsCudaPart;

/* The blocks of one layer for one microbatch; NULL: not held now. */
typedef struct {
  void *part[PS_CUDA_N_PARTS];
} PsCudaLayerState;

/* An earlier slice of the same sequences. */
typedef struct {
  void *qkv;
  float *inherited; /* B adds to it */
  guint64 begins;   /* TRUE: there is nothing in it yet */
} PsCudaEarlier;

/* Returns the bytes of a part; 0: models of this kind don't have it. */
gsize ps_cuda_layer_part_bytes (const PsCudaSizes *sizes, PsCudaPart part);

/* The arrays of a layer's parameters; NULL: the model doesn't have it. */
typedef struct {
  const void *weight[PS_CUDA_N_LAYER_PARAMETERS];
  float *gradient[PS_CUDA_N_LAYER_PARAMETERS];
} PsCudaLayer;

/* The ops of a layer put work into the stream and note problems in the context. earlier: the slices before this one,
 * `slice` of them. output: T x h. */
void ps_cuda_layer_forward (const PsCudaLayer *layer, PsCudaShared *shared, const PsCudaLayerState *state,
                            const PsCudaEarlier *earlier, guint slice, void *output);
void ps_cuda_layer_backward (const PsCudaLayer *layer, PsCudaShared *shared, const PsCudaLayerState *state,
                             const PsCudaEarlier *earlier, guint slice, void *dx);

/* Adds to the gradients of the weights. */
void ps_cuda_layer_weights (const PsCudaLayer *layer, PsCudaShared *shared, const PsCudaLayerState *state);

/* The norms of layers and head: a layer norm; an RMS norm if mean is NULL. */
void ps_cuda_norm (PsCudaShared *shared, void *y, float *mean, float *scale, const void *x, const void *gain,
                   const void *bias);
void ps_cuda_norm_input (PsCudaShared *shared, void *dx, const void *residual, const void *dy, const void *x,
                         const float *mean, const float *scale, const void *gain);

/* Adds to dgain and dbias, and makes the norm of x again in shared->normed. */
void ps_cuda_norm_weights (PsCudaShared *shared, float *dgain, float *dbias, const void *dy, const void *x,
                           const float *mean, const float *scale, const void *gain, const void *bias);

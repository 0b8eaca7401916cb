/* cuda-sizes.h - the sizes of a model for every part of the cuda device. */
#pragma once

#include "kernels.h"

#include <pipesim/device.h>

/* Arrays, and rows that products read, start on whole PS_CUDA_ALIGNMENT elements. */
#define PS_CUDA_ALIGNMENT 128
#define PS_CUDA_ROW_ALIGNMENT 8

/* int: the type that kernels take. */
typedef struct {
  PsCudaElement element;
  gboolean gated; /* SwiGLU, RMS norms, rotary positions, no biases (Llama); else GELU, layer norms, learnt positions */
  int layers;
  int tokens;   /* of one op: batch * sequence */
  int batch;    /* sequences of one microbatch */
  int sequence; /* tokens of one sequence in a slice; a whole sequence where there is one slice */
  int slices;   /* of each sequence */
  int hidden;
  int parts;        /* devices that share each layer, see PsDeviceSetting.n_tensor; the sizes from here on are of one */
  int part;         /* this one's */
  int width;        /* of the queries: heads * head_size */
  int qkv_width;    /* width + 2 * kv_heads * head_size */
  int feed_forward; /* f */
  int up_width;     /* output of the MLP's first product: f, or 2f if gated */
  int vocabulary;
  gboolean tied;             /* embedding and output projection are one matrix */
  int logits_width;          /* vocabulary, rounded up to PS_CUDA_ROW_ALIGNMENT */
  PsCudaAttention attention; /* of slice 0 */
} PsCudaSizes;

/* Refuses models that the cuda device has no code for, and sequences that the slices do not divide
 * (PS_ERROR_UNAVAILABLE, naming the field). It accepts every flash_attention, which only says what a cost model
 * assumes: the square of scores is never stored here. ps_tensor_check has passed. */
gboolean ps_cuda_sizes_init (PsCudaSizes *sizes, const PsDeviceSetting *setting, GError **error);

/* Tokens of a whole sequence. */
static inline int ps_cuda_sizes_whole (const PsCudaSizes *sizes)
{
  return sizes->sequence * sizes->slices;
}

/* Elements of the keys and values of one token. */
static inline int ps_cuda_sizes_kv_width (const PsCudaSizes *sizes)
{
  return sizes->qkv_width - sizes->width;
}

/* Returns the bytes of one boundary tensor: tokens * hidden elements. */
gsize ps_cuda_sizes_boundary_bytes (const PsCudaSizes *sizes);

/* Returns the address `n` elements after `array`. */
void *ps_cuda_at (const PsCudaSizes *sizes, void *array, gsize n);

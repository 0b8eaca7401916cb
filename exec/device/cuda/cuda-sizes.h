/* cuda-sizes.h - the numbers of a model that every part of the cuda device needs. */
#ifndef PIPESIM_CUDA_SIZES_H
#define PIPESIM_CUDA_SIZES_H

#include "kernels.h"

#include <pipesim/model.h>

/* Arrays start on as many elements; so do rows that products read. */
#define PS_CUDA_ALIGNMENT 128
#define PS_CUDA_ROW_ALIGNMENT 8

/* int, because that is what kernels take. */
typedef struct
{
  PsCudaElement element;
  gboolean gated; /* SwiGLU, RMS norms, rotary positions, no biases (Llama); else GELU, layer norms, learnt positions */
  int layers;
  int tokens;   /* of one microbatch: batch * sequence */
  int batch;    /* sequences of one microbatch */
  int sequence; /* tokens of one sequence */
  int hidden;
  int qkv_width;    /* hidden + 2 * kv_heads * head_size */
  int feed_forward; /* f */
  int up_width;     /* what the first product of the MLP makes: f, or 2f where it is gated */
  int vocabulary;
  int logits_width; /* vocabulary in whole PS_CUDA_ROW_ALIGNMENT */
  PsCudaAttention attention;
} PsCudaSizes;

/* Refuses what there is no code for (PS_ERROR_UNAVAILABLE, naming the field). flash_attention says what a cost model
 * assumes; here the square of scores is never stored. */
gboolean ps_cuda_sizes_init (PsCudaSizes *sizes, const PsModel *model, GError **error);

/* Bytes of one boundary tensor: tokens * hidden elements. */
gsize ps_cuda_sizes_boundary_bytes (const PsCudaSizes *sizes);

/* The array `n` elements behind `array`. */
void *ps_cuda_at (const PsCudaSizes *sizes, void *array, gsize n);

#endif

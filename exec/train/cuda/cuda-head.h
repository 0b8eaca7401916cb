/* cuda-head.h - the part after the last layer: logits = norm (x) w without bias, or norm (x) w^T if w is the
 * embedding's matrix of tokens, loss = mean cross-entropy over the tokens of whole sequences. The logits are kept once,
 * in element. The forward already turns them into their gradient.
 */
#pragma once

#include "cuda-parameters.h"
#include "cuda-shared.h"

/* F makes the parts up to LOGITS, B makes DNORMED, W gives all back. */
typedef enum {
  PS_CUDA_HEAD_X,       /* T x h */
  PS_CUDA_HEAD_MEAN,    /* T float; not for RMS norms */
  PS_CUDA_HEAD_SCALE,   /* T float */
  PS_CUDA_HEAD_LOGITS,  /* T x logits_width; after F the gradient of the logits */
  PS_CUDA_HEAD_DNORMED, /* T x h */
  PS_CUDA_N_HEAD_PARTS
} PsCudaHeadPart;

typedef struct {
  void *part[PS_CUDA_N_HEAD_PARTS];
} PsCudaHeadState;

gsize ps_cuda_head_part_bytes (const PsCudaSizes *sizes, PsCudaHeadPart part);

typedef struct {
  const void *weight[PS_CUDA_N_HEAD_PARAMETERS];
  float *gradient[PS_CUDA_N_HEAD_PARAMETERS];
} PsCudaHead;

/* The three ops of the head, as for layers. words: of the slice. loss: one number in device memory, the slice's part of
 * the loss of its sequences. */
void ps_cuda_head_forward (const PsCudaHead *head, PsCudaShared *shared, const PsCudaHeadState *state,
                           const uint32_t *words, double *loss);
void ps_cuda_head_backward (const PsCudaHead *head, PsCudaShared *shared, const PsCudaHeadState *state, void *dx);
void ps_cuda_head_weights (const PsCudaHead *head, PsCudaShared *shared, const PsCudaHeadState *state);

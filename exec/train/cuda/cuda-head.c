/* cuda-head.c - final norm, output projection and loss. */
#include "cuda-head.h"

#include "cuda-layer.h"

gsize ps_cuda_head_part_bytes (const PsCudaSizes *sizes, PsCudaHeadPart part)
{
  const gsize tokens = (gsize)sizes->tokens;

  switch (part) {
  case PS_CUDA_HEAD_MEAN:
    return sizes->gated ? 0 : tokens * sizeof (float);
  case PS_CUDA_HEAD_SCALE:
    return tokens * sizeof (float);
  case PS_CUDA_HEAD_LOGITS:
    return tokens * (gsize)sizes->logits_width * ps_cuda_element_bytes (sizes->element);
  default:
    return ps_cuda_sizes_boundary_bytes (sizes);
  }
}

void ps_cuda_head_forward (const PsCudaHead *head, PsCudaShared *shared, const PsCudaHeadState *state,
                           const uint32_t *words, double *loss)
{
  const PsCudaSizes *sizes = &shared->sizes;
  const cudaStream_t stream = shared->context.stream;
  const int n_summed = sizes->tokens * sizes->slices;
  void *logits = state->part[PS_CUDA_HEAD_LOGITS];

  ps_cuda_norm (shared, shared->normed, state->part[PS_CUDA_HEAD_MEAN], state->part[PS_CUDA_HEAD_SCALE],
                state->part[PS_CUDA_HEAD_X], head->weight[PS_CUDA_HEAD_GAIN], head->weight[PS_CUDA_HEAD_BIAS]);
  if (sizes->tied)
    ps_cuda_linear_input (shared->products, logits, shared->normed, head->weight[PS_CUDA_HEAD_W], sizes->tokens,
                          sizes->logits_width, sizes->hidden);
  else
    ps_cuda_linear (shared->products, logits, shared->normed, head->weight[PS_CUDA_HEAD_W], NULL, NULL, sizes->tokens,
                    sizes->hidden, sizes->logits_width);
  ps_cuda_note (&shared->context, "cross-entropy",
                ps_cuda_cross_entropy (sizes->element, logits, shared->token_losses, words, sizes->batch,
                                       sizes->sequence, sizes->vocabulary, sizes->logits_width, 1 / (float)n_summed,
                                       stream));
  ps_cuda_note (&shared->context, "loss",
                ps_cuda_loss_sum (loss, shared->token_losses, sizes->tokens, 1.0 / n_summed, stream));
}

void ps_cuda_head_backward (const PsCudaHead *head, PsCudaShared *shared, const PsCudaHeadState *state, void *dx)
{
  const PsCudaSizes *sizes = &shared->sizes;
  void *const *part = state->part;

  if (sizes->tied)
    ps_cuda_linear (shared->products, part[PS_CUDA_HEAD_DNORMED], part[PS_CUDA_HEAD_LOGITS],
                    head->weight[PS_CUDA_HEAD_W], NULL, NULL, sizes->tokens, sizes->logits_width, sizes->hidden);
  else
    ps_cuda_linear_input (shared->products, part[PS_CUDA_HEAD_DNORMED], part[PS_CUDA_HEAD_LOGITS],
                          head->weight[PS_CUDA_HEAD_W], sizes->tokens, sizes->hidden, sizes->logits_width);
  ps_cuda_norm_input (shared, dx, NULL, part[PS_CUDA_HEAD_DNORMED], part[PS_CUDA_HEAD_X], part[PS_CUDA_HEAD_MEAN],
                      part[PS_CUDA_HEAD_SCALE], head->weight[PS_CUDA_HEAD_GAIN]);
}

void ps_cuda_head_weights (const PsCudaHead *head, PsCudaShared *shared, const PsCudaHeadState *state)
{
  const PsCudaSizes *sizes = &shared->sizes;
  void *const *part = state->part;

  ps_cuda_norm_weights (shared, head->gradient[PS_CUDA_HEAD_GAIN], head->gradient[PS_CUDA_HEAD_BIAS],
                        part[PS_CUDA_HEAD_DNORMED], part[PS_CUDA_HEAD_X], part[PS_CUDA_HEAD_MEAN],
                        part[PS_CUDA_HEAD_SCALE], head->weight[PS_CUDA_HEAD_GAIN], head->weight[PS_CUDA_HEAD_BIAS]);
  if (sizes->tied)
    ps_cuda_linear_weights (shared->products, head->gradient[PS_CUDA_HEAD_W], part[PS_CUDA_HEAD_LOGITS], shared->normed,
                            sizes->tokens, sizes->logits_width, sizes->hidden);
  else
    ps_cuda_linear_weights (shared->products, head->gradient[PS_CUDA_HEAD_W], shared->normed, part[PS_CUDA_HEAD_LOGITS],
                            sizes->tokens, sizes->hidden, sizes->logits_width);
}

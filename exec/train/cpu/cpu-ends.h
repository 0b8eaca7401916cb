/* cpu-ends.h - the parts before the first layer and after the last: embedding and head. */
#pragma once

#include "cpu-sizes.h"

/* Embedding: x = token[word] + position[place in the sequence]. Parameters lie in this order. */
typedef struct {
  float *token;    /* V x h */
  float *position; /* s x h */
} PsCpuEmbedding;

gsize ps_cpu_embedding_parameters (const PsCpuSizes *sizes);
PsCpuEmbedding ps_cpu_embedding_view (const PsCpuSizes *sizes, float *parameters);
void ps_cpu_embedding_init (const PsCpuEmbedding *weights, const PsCpuSizes *sizes, guint64 seed);
/* words: from ps_data_words, of whole sequences. */
void ps_cpu_embedding_forward (const PsCpuEmbedding *weights, const PsCpuSizes *sizes, guint slice,
                               const guint32 *words, float *x);
void ps_cpu_embedding_weights (const PsCpuEmbedding *gradients, const PsCpuSizes *sizes, guint slice,
                               const guint32 *words, const float *dx);

/* Head: logits = norm (x) w without bias, loss = mean cross-entropy over the tokens of whole sequences. Parameters lie
 * in this order. A tied head holds the embedding's token matrix, V x h, and multiplies by its transpose. */
typedef struct {
  float *norm_gain, *norm_bias; /* h */
  float *w;                     /* h x V; tied V x h */
} PsCpuHead;

/* Blocks as in PsCpuLayerState. B overwrites the probabilities in keep with the gradient of the logits. */
typedef struct {
  float *keep;
  float *late;
  float *gradient;
} PsCpuHeadState;

gsize ps_cpu_head_parameters (const PsCpuSizes *sizes);
PsCpuHead ps_cpu_head_view (const PsCpuSizes *sizes, float *parameters);
void ps_cpu_head_init (const PsCpuHead *weights, const PsCpuSizes *sizes, guint64 seed);
gsize ps_cpu_head_keep_size (const PsCpuSizes *sizes);
gsize ps_cpu_head_late_size (const PsCpuSizes *sizes);
gsize ps_cpu_head_gradient_size (const PsCpuSizes *sizes);
/* Returns the slice's part of the loss. The targets are in workspace->words. */
double ps_cpu_head_forward (const PsCpuHead *weights, const PsCpuSizes *sizes, guint slice,
                            const PsCpuWorkspace *workspace, const PsCpuHeadState *state, const float *x);
void ps_cpu_head_backward (const PsCpuHead *weights, const PsCpuSizes *sizes, guint slice,
                           const PsCpuWorkspace *workspace, const PsCpuHeadState *state, float *dx);
void ps_cpu_head_weights (const PsCpuHead *weights, const PsCpuHead *gradients, const PsCpuSizes *sizes,
                          const PsCpuWorkspace *workspace, const PsCpuHeadState *state);

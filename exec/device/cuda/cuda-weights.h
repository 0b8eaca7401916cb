/* cuda-weights.h - the parameters of a stage on the device: weights, gradients and the optimizer's state. */
#ifndef PIPESIM_CUDA_WEIGHTS_H
#define PIPESIM_CUDA_WEIGHTS_H

#include "cuda-head.h"
#include "cuda-layer.h"

typedef struct
{
  PsCudaParameters parameters;
  void *weights;                                   /* of element: what products read; master itself for fp32 */
  float *master, *gradients, *momentum, *variance; /* parameters.n_array each */
  guint64 n_steps;                                 /* of the optimizer */
  float *host_gradients;                           /* parameters.n_dense; NULL until first asked for */
} PsCudaWeights;

/* Start values in the weights, zeros in all else. On failure ps_cuda_weights_clear is due all the same. Blocks stay
 * with the shared memory. */
gboolean ps_cuda_weights_init (PsCudaWeights *weights, PsCudaShared *shared, const PsStageShape *shape, GError **error);
void ps_cuda_weights_clear (PsCudaWeights *weights);

/* Arrays of the embedding's parameters, NULL for those that the model lacks. */
typedef struct
{
  const void *weight[PS_CUDA_N_EMBEDDING_PARAMETERS];
  float *gradient[PS_CUDA_N_EMBEDDING_PARAMETERS];
} PsCudaEmbedding;

/* Where the parameters of the stage's layer, counted from 0, of its embedding and its head lie. */
PsCudaLayer ps_cuda_weights_layer (const PsCudaWeights *weights, const PsCudaShared *shared, guint layer);
PsCudaEmbedding ps_cuda_weights_embedding (const PsCudaWeights *weights, const PsCudaShared *shared);
PsCudaHead ps_cuda_weights_head (const PsCudaWeights *weights, const PsCudaShared *shared);

/* Puts O into the stream and notes problems in the context. */
void ps_cuda_weights_optimize (PsCudaWeights *weights, PsCudaShared *shared);

/* Clears the gradients, behind all of the stream's work. */
gboolean ps_cuda_weights_forget (PsCudaWeights *weights, PsCudaShared *shared, GError **error);

/* The gradients on the host, without gaps; valid until the next call. NULL when they can't be read. */
const float *ps_cuda_weights_read (PsCudaWeights *weights, PsCudaShared *shared, gsize *n);

#endif

/* cuda-weights.h - the parameters of a stage on the device: weights, gradients and the optimizer's state. */
#pragma once

#include "cuda-head.h"
#include "cuda-layer.h"

typedef struct {
  PsCudaParameters parameters;
  void *weights;                                   /* of element: products read them; see versions and trial */
  void **versions;                                 /* [n_versions] of element: version k is in versions[k mod n] */
  guint n_versions;                                /* >= 1 */
  void *trial;                                     /* of element: weights of a tentative O; NULL: O is final */
  float *master, *gradients, *momentum, *variance; /* parameters.n_array each; for fp32 master is the newest version */
  guint64 n_steps;                                 /* steps of the optimizer so far */
  float *host_gradients;                           /* parameters.n_dense; NULL until first asked for */
} PsCudaWeights;

/* Sets the weights to their start values and all else to zero. After a failure, too, the caller must call
 * ps_cuda_weights_clear. The blocks stay with the shared memory. */
gboolean ps_cuda_weights_init (PsCudaWeights *weights, PsCudaShared *shared, const PsStageShape *shape, GError **error);
void ps_cuda_weights_clear (PsCudaWeights *weights);

/* The arrays of the embedding's parameters; NULL: the model doesn't have it. */
typedef struct {
  const void *weight[PS_CUDA_N_EMBEDDING_PARAMETERS];
  float *gradient[PS_CUDA_N_EMBEDDING_PARAMETERS];
} PsCudaEmbedding;

/* Return the arrays of the stage's layer number `layer`, of its embedding and of its head. Positions begin with the
 * first of the slice. */
PsCudaLayer ps_cuda_weights_layer (const PsCudaWeights *weights, const PsCudaShared *shared, guint layer);
PsCudaEmbedding ps_cuda_weights_embedding (const PsCudaWeights *weights, const PsCudaShared *shared, guint slice);
PsCudaHead ps_cuda_weights_head (const PsCudaWeights *weights, const PsCudaShared *shared);

/* Puts O into the stream and notes problems in the context. */
void ps_cuda_weights_optimize (PsCudaWeights *weights, PsCudaShared *shared);

/* See PsDeviceClass.settle; as ps_cuda_weights_optimize. */
void ps_cuda_weights_settle (PsCudaWeights *weights, PsCudaShared *shared, float scale);

/* See PsDeviceClass.use_version; FALSE: that version is not kept. */
gboolean ps_cuda_weights_use (PsCudaWeights *weights, guint64 version);

/* See PsDeviceClass.norm_square; NaN after a failure. */
double ps_cuda_weights_norm_square (PsCudaWeights *weights, PsCudaShared *shared);

/* Clears the gradients, after all work of the stream. */
gboolean ps_cuda_weights_forget (PsCudaWeights *weights, PsCudaShared *shared, GError **error);

/* Returns the gradients on the host, without gaps, valid until the next call. NULL: they can't be read. */
const float *ps_cuda_weights_read (PsCudaWeights *weights, PsCudaShared *shared, gsize *n);

/* See PsDeviceClass. */
gboolean ps_cuda_weights_read_state (PsCudaWeights *weights, PsCudaShared *shared, PsStageState *state, GError **error);
gboolean ps_cuda_weights_write_state (PsCudaWeights *weights, PsCudaShared *shared, const PsStageState *state,
                                      GError **error);

/* tensor.h - one stage on several GPUs: what tensor parallelism with sequence parallelism makes of a model's formulas.
 *
 * t GPUs of a node hold 1/t of every matrix of a layer each (Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3)
 * and, where Megatron-LM would hold whole activations, 1/t of the sequence (Korthikanti et al., arXiv 2205.05198,
 * section 4.2.2). Together they are one device of the pipeline; everything here is of one of its GPUs:
 *
 * - floating-point operations, activations, what W needs and boundary tensors are 1/t of the stage's. A layer keeps
 *   sbh (34 + 5as/h) / t (table 2 there, "tensor parallel + sequence parallel"), of the input of a layer, too, a GPU
 *   has 1/t, so that is what full recomputation keeps. Neighbouring stages are cut alike: GPU i sends its part to GPU i
 *   of the next group;
 * - each layer needs two all-reduces of sbh elements in F and two in B (Shoeybi et al., section 3; an all-gather and a
 *   reduce-scatter move as much as one all-reduce, Korthikanti et al., section 4.2.2), W none: the all-gather of its
 *   inputs is taken to hide behind other work, as they say there. Nothing hides those of F and B;
 * - what kernels move (work.h) is 1/t, too: sequence parallelism cuts what tensor parallelism leaves whole;
 * - embedding and head are cut along the vocabulary; their two transfers per step are left out.
 */
#ifndef PIPESIM_TENSOR_H
#define PIPESIM_TENSOR_H

#include <pipesim/cluster.h>
#include <pipesim/model.h>

G_BEGIN_DECLS

#define PS_MAX_TENSOR 64 /* GPUs of a device */

/* Whether so many GPUs can share the model's layers: n_tensor divides heads, kv_heads, feed_forward and sequence.
 * Errors: PS_ERROR_USAGE naming the first that it does not. */
gboolean ps_tensor_check (const PsModel *model, guint n_tensor, GError **error);

/* One GPU's part of an amount that is cut evenly, rounded up. */
static inline gint64
ps_tensor_share (gint64 amount, guint n_tensor)
{
  return (amount + n_tensor - 1) / n_tensor;
}

/* Parameters that one GPU holds: 1/t of the matrices of layers, embedding and head and of the biases of those cut by
 * columns (query, key, value, first of the feed-forward), and all of the others: norms, the biases of output and
 * second feed-forward matrix, learnt positions. */
gint64 ps_tensor_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor);

/* ps_model_stage_state for them. */
PsStateBytes ps_tensor_state (const PsModel *model, const PsStageShape *shape, guint n_tensor);

/* What the all-reduces of one layer take in F, and again in B, ns: two rings over the GPUs of a device
 * (cluster->tensor) of 2 (t - 1) steps, each a transfer of sbh / t elements within a node. 0 for one GPU. */
gint64 ps_tensor_layer_ns (const PsModel *model, const PsCluster *cluster);

G_END_DECLS

#endif

/* tensor.h - one stage on several GPUs: a model's formulas under tensor parallelism with sequence parallelism.
 *
 * t GPUs of a node hold 1/t of every matrix of a layer each (Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3).
 * Where Megatron-LM would hold whole activations they hold 1/t of the sequence (Korthikanti et al., arXiv 2205.05198,
 * section 4.2.2). Together they are one device of the pipeline. All figures here are of one of its GPUs:
 *
 * - floating-point operations, activations, the part that W needs and boundary tensors are 1/t of the stage's. A layer
 *   keeps sbh (34 + 5as/h) / t (table 2 there, "tensor parallel + sequence parallel"). Full recomputation keeps the
 *   input of a layer, 1/t of it on each GPU. Neighbouring stages are cut alike: GPU i sends its part to GPU i of the
 *   next group;
 * - each layer needs two all-reduces of sbh elements in F and two in B (Shoeybi et al., section 3). An all-gather and a
 *   reduce-scatter move as much as one all-reduce (Korthikanti et al., section 4.2.2). W needs none: the all-gather of
 *   its inputs is assumed to overlap with other work, as they say there. The all-reduces of F and B overlap with
 *   nothing, unless the cluster says so;
 * - bytes that kernels move (work.h) are 1/t, too: sequence parallelism cuts the tensors that tensor parallelism leaves
 *   whole;
 * - where t is a multiple of kv_heads each GPU keeps a whole head of keys and of values, more than 1/t of them
 *   (ps_tensor_kept_bytes). Its part of their matrix is 1/t all the same; queries, keys and values are put together by
 *   an all-gather in F and a reduce-scatter in B (ps_tensor_layer_ns; Megatron-LM 0.19, core/transformer/attention.py);
 * - embedding and head are cut along the vocabulary; their two transfers per step are left out.
 */
#ifndef PIPESIM_TENSOR_H
#define PIPESIM_TENSOR_H

#include <pipesim/cluster.h>
#include <pipesim/model.h>

G_BEGIN_DECLS

#define PS_MAX_TENSOR 64 /* GPUs of a device */

/* Checks that n_tensor GPUs can share the model's layers: n_tensor divides heads, kv_heads, feed_forward and sequence;
 * where several GPUs may hold the same head of keys and values (repeats) it may be a multiple of kv_heads instead.
 * Errors: PS_ERROR_USAGE naming the first that it does not divide. */
gboolean ps_tensor_check (const PsModel *model, guint n_tensor, gboolean repeats, GError **error);

/* One GPU's part of an amount that is cut evenly, rounded up. */
static inline gint64
ps_tensor_share (gint64 amount, guint n_tensor)
{
  return (amount + n_tensor - 1) / n_tensor;
}

/* Parameters that one GPU holds. It has 1/t of the matrices of layers, embedding and head and of the biases of matrices
 * cut by columns (query, key, value, first of the feed-forward). It has all of the others: norms, the biases of output
 * and second feed-forward matrix, learnt positions, the narrow matrices of latent attention, routers. Experts are cut
 * like other matrices, unless GPUs share them (PsSpread): then each has its part of them as they are. */
gint64 ps_tensor_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor);

/* The part of them that are experts to which tokens are routed. */
gint64 ps_tensor_expert_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor);

/* ps_model_stage_state for these parameters. */
PsStateBytes ps_tensor_state (const PsModel *model, const PsStageShape *shape, guint n_tensor);

/* What one GPU keeps of ps_model_stage_kept_bytes, and of ps_model_stage_weight_activation_bytes. GPUs of one context
 * have equal parts of each sequence. With whole_sequences the t GPUs of a layer have norms, dropouts and the inputs of
 * matrices cut by columns whole, 10sbh of a layer of GPT, or the input of a recomputed layer, 2sbh (arXiv 2205.05198,
 * equation 2). */
gint64 ps_tensor_kept_bytes (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint n_tensor);
gint64 ps_tensor_weight_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor);

/* One GPU's part of a boundary tensor. */
gint64 ps_tensor_boundary_bytes (const PsModel *model, guint n_tensor);

/* Time of the all-reduces of one layer in F, and again in B, ns: two rings over the GPUs of a device (cluster->tensor).
 * Each has 2 (t - 1) steps after its start (collective_ns of the cluster), and each step is a transfer of sbh / t
 * elements within a node. More GPUs than kv_heads add t - 1 steps of (q + 2c) / t elements per token. The part of them
 * that the cluster's tensor_overlap hides counts nothing. 0 for one GPU. */
gint64 ps_tensor_layer_ns (const PsModel *model, const PsCluster *cluster);

/* Time in which GPUs talk to each other during F or B of a stage, ns:
 *
 * - the all-reduces of its layers, ps_tensor_layer_ns;
 * - in a context of c GPUs c - 1 steps of an all-gather of keys and values in F, and in B again with a reduce-scatter
 * of their gradients. Each GPU has early and late tokens alike, so that causal masks cut the work evenly (Llama 3,
 * arXiv 2407.21783, section 3.3.2);
 * - two all-to-alls for each layer with experts that GPUs share, there and back, of ps_model_routed times the tokens.
 *
 * Only tensor_overlap of the first overlaps with other work; in a pair of ops the all-to-alls do, too (overlap.h). */
gint64 ps_tensor_stage_ns (const PsModel *model, const PsStageShape *shape, const PsCluster *cluster, PsOpKind kind);

/* Time of one of these all-to-alls, ns; 0 where GPUs share no experts. */
gint64 ps_tensor_exchange_ns (const PsModel *model, const PsCluster *cluster);

/* Checks that the GPUs of a context divide the sequence, and that those which share experts divide the experts and the
 * GPUs of a device and its n_replicas. Errors: PS_ERROR_USAGE. */
gboolean ps_tensor_check_spread (const PsModel *model, guint n_tensor, guint n_replicas, GError **error);

G_END_DECLS

#endif

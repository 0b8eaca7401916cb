/* work.h - the operations and bytes of a stage's kernels, and the time that the GPUs of a cluster take for them:
 *
 *   time = operations / (peak_flops * efficiency) + bytes / memory_bandwidth
 *
 * Operations are those of the matrix products. Bytes are read and written by all other kernels, fused as Megatron-LM
 * fuses them (Narayanan et al., arXiv 2104.04473, section 4.2: bias + GELU, bias + dropout + add, scale + mask +
 * softmax). The inputs and outputs of the products take no time of their own, but for the attention scores: h / a
 * operations per score hide neither their writing nor their reading. Where the cluster states no memory_bandwidth bytes
 * take no time, and efficiency stands for everything.
 *
 * Notation as in model.h; e bytes per element, c = hk/a. Bytes per token of a layer, dropout masks one byte each:
 *
 *   GPT    F  two norms 4he, two bias + dropout + add 6he + 2h, bias + GELU 2fe
 *          B  two norms 10he (gradients of input and parameters in two passes), two dropouts 4he + 2h, sums for the
 *             biases of outputs, of query, key and value, and of f: (3h + 2c + f)e, GELU 3fe, two sums of gradients
 *             where branches meet 6he
 *   Llama  F  two norms 4he, two adds 6he, rotation of queries and keys 2(h + c)e, SwiGLU 3fe
 *          B  two norms 10he, rotation 2(h + c)e, SwiGLU 5fe, two sums of gradients 6he
 *
 * Bytes per score; a token has s a scores:
 *
 *   GPT    F  written e, softmax 2e, dropout 2e + 1, read to weigh the values e
 *          B  read for the values' gradient e, written e, dropout 2e + 1, softmax 3e, read for queries and keys 2e
 *   Llama  F  the same without dropout: 4e; B 7e
 *
 * With flash_attention no score leaves the GPU's cores, and B computes them once more: 2bs^2h operations (Dao et al.,
 * arXiv 2205.14135, section 3.1). The whole square of scores counts, as in model.h: kernels that skip the masked half
 * reach less of the peak rate. For 2 bytes, f = 4h and k = a a layer of GPT moves sbh (38 + 13as/h) in F and sbh (84 +
 * 19as/h) in B. W is products alone.
 *
 * Head, per token: norm 2he in F and 5he in B. Head, per logit (V per token):
 * - conversion to fp32 e + 4 and back 4 + e, unless e = 4;
 * - cross-entropy 32 in F (maximum 4, its subtraction 8, exponential 8, sum 4, division 8) and 8 in B.
 *
 * Embedding, per token: GPT F rows 2he, positions 3he, dropout 2he + h, B dropout 2he + h and rows 3he; Llama F 2he, B
 * 3he.
 *
 * Not modelled: narrower matrices may reach less of the peak rate, no kernel reaches all of the memory's, and starting
 * a kernel takes time.
 */
#ifndef PIPESIM_WORK_H
#define PIPESIM_WORK_H

#include <pipesim/cluster.h>
#include <pipesim/model.h>

G_BEGIN_DECLS

typedef struct
{
  gint64 flops; /* of matrix products */
  gint64 bytes; /* read and written by other kernels */
} PsWork;

/* The work of a stage for one microbatch, all GPUs of a device together; kind is F, B, W, BW (B + W) or R (F). */
PsWork ps_work_stage (const PsModel *model, const PsStageShape *shape, PsOpKind kind);

/* The work that recomputation repeats. Full: the F of the layers. Selective: the scores, and weighting the values with
 * them; nothing with flash attention. */
PsWork ps_work_recompute (const PsModel *model, const PsStageShape *shape, PsRecompute recompute);

/* The time that it takes, ns, rounded to the nearest and at most PS_MAX_TIME_NS; each of the cluster->tensor GPUs of a
 * device does an equal part. */
gint64 ps_work_ns (const PsWork *work, const PsCluster *cluster);

/* The time of an optimizer step of one GPU that holds n_parameters, ns. The step reads the gradients, reads and writes
 * the optimizer state, and writes the weights. In fp32 it also reads the weights; else the state has the master copy.
 * 28 bytes per parameter, 30 in mixed precision with fp32 gradients. 0 where the cluster states no memory_bandwidth. */
gint64 ps_work_optimizer_ns (const PsModel *model, const PsCluster *cluster, gint64 n_parameters);

G_END_DECLS

#endif

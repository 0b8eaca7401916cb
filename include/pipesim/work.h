/* work.h - the kernels of a stage: one list per kind of op, of which work-time.h makes a time.
 *
 * The list is that of one of the t GPUs of a device (tensor.h). Matrices are cut by columns or by rows, heads and
 * vocabulary are spread over the GPUs, and all else is cut along the sequence. Kernels are fused as Megatron-LM fuses
 * them (Narayanan et al., arXiv 2104.04473, section 4.2: bias + GELU, bias + dropout + add, scale + mask + softmax).
 *
 * Notation as in model.h; e bytes per element, c = hk/a, d = h/a.
 *
 * Matrix products (m, n, k). A matrix of k rows and n columns takes (bs, n, k) in F, (bs, k, n) in B and (k, n, bs) in
 * W. Matrices of a layer on one of t GPUs:
 *
 *   query, key, value   h by (h + 2c)/t
 *   output              h/t by h
 *   GPT                 h by f/t, f/t by h
 *   Llama               h by 2f/t, f/t by h
 *   head                h by V/t, rounded up
 *   latent attention    in place of the first: h by q_rank, q_rank by q/t, h by kv_rank + rope_size, kv_rank by
 *                       a (nope_size + value_size)/t
 *   experts             in place of the feed-forward: the router h by count, shared experts side by side, and routed
 *                       ones as products side by side: count/t of them whole where GPUs share them, else all of
 *                       them cut by t. Each has its part of the r = ps_model_routed times as many tokens
 *   multi-token         2h by h/t, and the head once more
 *
 * With a context of c GPUs each has 1/c of the tokens, but all keys. A window counts its own keys.
 *
 * A slice of s tokens after u earlier ones (PsModel.before) has the products of its own tokens. Its attention is what
 * s + u tokens have more than u: with x tokens there are x min (x, window) scores, so slices of one sequence add up to
 * the whole. F reads the keys and values of min (u, window) earlier tokens as well, and B their gradients.
 *
 * Experts move per token, F: router 8 count, permutation (1 + r)he, weighted sum (1 + r)he; B: 12 count, (1 + r)he,
 * (1 + 2r)he.
 *
 * Scores, b a/t heads side by side: F (s, s, d) and (s, d, s); B twice as many.
 *
 * With flash_attention no score leaves the GPU's cores, and one kernel computes both products. B computes the scores
 * once more: five products in one kernel (Dao et al., arXiv 2205.14135, section 3.1). The whole square of scores
 * counts, as in model.h: kernels that skip the masked half reach less of the peak rate.
 *
 * Memory-bound kernels. Bytes per token of a layer, dropout masks one byte each:
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
 * Products of heads also read and write queries, keys, values and their weighted sum, and in B the gradients of these
 * too: 4he and 8he per token. So for 2 bytes, f = 4h and k = a a layer of GPT moves sbh (46 + 13as/h) in F and
 * sbh (100 + 19as/h) in B, besides what products with weights move: e (mk + kn + mn), where W reads and writes the mn
 * elements of the gradient that it adds to. W is products alone.
 *
 * With whole_sequences, norms, adds and dropouts of tensors as wide as the model are not cut over the GPUs.
 *
 * Head, per token: norm 2he in F and 5he in B. Head, per logit (V per token):
 * - conversion to fp32 e + 4 and back 4 + e, unless e = 4;
 * - cross-entropy 32 in F (maximum 4, its subtraction 8, exponential 8, sum 4, division 8) and 8 in B.
 *
 * Embedding, per token: GPT F rows 2he, positions 3he, dropout 2he + h, B dropout 2he + h and rows 3he; Llama F 2he, B
 * 3he.
 */
#ifndef PIPESIM_WORK_H
#define PIPESIM_WORK_H

#include <pipesim/model.h>

G_BEGIN_DECLS

/* The classes of kernels; each has an efficiency of its own. */
typedef enum
{
  PS_WORK_PRODUCT,   /* matrix products with a matrix of weights */
  PS_WORK_SCORES,    /* products of heads, whose scores are stored: their bytes count */
  PS_WORK_ATTENTION, /* flash attention */
  PS_WORK_MEMORY,    /* moves bytes; the operations are nothing to them */
} PsWorkClass;

typedef struct
{
  const char *name;
  PsWorkClass type;
  guint repeats;   /* launches, one after the other */
  gint64 products; /* in a launch, side by side */
  gint64 m, n, k;  /* of each: m by k times k by n; 2mnk operations */
  gint64 bytes;    /* of a launch, read and written */
  guint bits;      /* of an element that products multiply: 8 and 4 in layers of fp8 and fp4, all else has 16 there */
} PsWorkKernel;

#define PS_MAX_WORK_KERNELS 192

/* The kernels of an op. It is large, and most of it is not in use: callers lend the room. */
typedef struct
{
  guint n_kernels;
  PsWorkKernel kernel[PS_MAX_WORK_KERNELS];
} PsWork;

/* *work becomes the work of a stage for one microbatch on one of n_tensor GPUs; kind is F, B, W, BW (B + W) or R (F).
 */
void ps_work_stage (const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor, PsWork *work);

/* The work that recomputation repeats. Full: the F of the layers. Selective: the scores, and weighting the values with
 * them; nothing with flash attention. */
void ps_work_recompute (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint n_tensor,
                        PsWork *work);

/* The part of ps_work_stage (F, B or W) that its experts are: what lies between their two all-to-alls. */
void ps_work_experts (const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor, PsWork *work);

/* Bits of an element that the products of layers multiply. */
guint ps_work_bits (PsPrecision precision);

/* The operations of all products of a list. */
gint64 ps_work_flops (const PsWork *work);

G_END_DECLS

#endif

/* work.h - the kernels of a stage: one list per kind of op; the time and memory that they take on
 * the GPUs of a device, and what frameworks add to it.
 *
 * The list is that of one of the t GPUs of a device (see below). Matrices are cut by columns or by rows, heads and
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
 * The layers of an encoder have the kernels of GPT's, or Llama's, with its own tokens and widths and without dropout;
 * patches and the projector are products that every GPU has whole.
 *
 * With a context of c GPUs each has 1/c of the tokens, but all keys. A window counts its own keys.
 *
 * Mixers that scan (PS_UNIT_MAMBA, PS_UNIT_DELTA, PS_UNIT_LINEAR): a projection in and one out, cut by columns and
 * rows, and one kernel of the multiplications that model.h counts, as fast as flash attention; B runs it three times
 * over, for it computes the scan again. Their convolution moves 2e and 5e, norm and gate 3De and 6De.
 *
 * A slice of s tokens after u earlier ones (PsModel.before) of n in all has the products of its own tokens. Of the
 * n min (n, window) scores of the whole sequence it has the part that its tokens add to the square of scores. With
 * x tokens and w = min (x, window) this square has g(x) = w^2 + (x - w) (2w - 1) scores within the window, so the part
 * is (g(s + u) - g(u)) / g(n); without a window that is s (s + 2u) / n^2. Slices of one sequence add up to the whole.
 * F reads the keys and values of min (u, window) earlier tokens as well, and B their gradients.
 *
 * Experts move per token, F: router 8 count, permutation (1 + r)he, weighted sum (1 + r)he; B: 12 count, (1 + r)he,
 * (1 + 2r)he.
 *
 * Scores of b a/t heads at once: F (s, s, d) and (s, d, s); B twice as many.
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
 * sbh (100 + 19as/h) in B, in addition to what products with weights move: e (mk + kn + mn), where W reads and writes
 * the mn elements of the gradient that it adds to. W is products alone.
 *
 * With whole_sequences, norms, adds and dropouts of tensors as wide as the model are not cut over the GPUs.
 *
 * Head, per token: norm 2he in F and 5he in B. Head, per logit (V per token):
 * - conversion to fp32 e + 4 and back 4 + e, unless e = 4;
 * - cross-entropy 32 in F (maximum 4, its subtraction 8, exponential 8, sum 4, division 8) and 8 in B. A chunked loss
 *   moves all of it in F; a fused one has no kernel but for its gradient, 2e in B.
 *
 * Embedding, per token: GPT F rows 2he, positions 3he, dropout 2he + h, B dropout 2he + h and rows 3he; Llama F 2he, B
 * 3he.
 */
#ifndef PIPESIM_WORK_H
#define PIPESIM_WORK_H

#include <pipesim/base.h>
#include <pipesim/model.h>
#include <pipesim/cluster.h>

G_BEGIN_DECLS

/* The classes of kernels; each has an efficiency of its own. */
typedef enum {
  PS_WORK_PRODUCT,   /* matrix products with a matrix of weights */
  PS_WORK_SCORES,    /* products of heads, whose scores are stored: their bytes count */
  PS_WORK_ATTENTION, /* flash attention */
  PS_WORK_MEMORY,    /* moves bytes; the operations are nothing to them */
} PsWorkClass;

typedef struct {
  const char *name;
  PsWorkClass type;
  guint repeats;   /* launches, one after the other */
  gint64 products; /* in a launch, side by side */
  gint64 m, n, k;  /* each: m by k times k by n; 2mnk operations */
  gint64 bytes;    /* bytes of a launch, read and written */
  gboolean blocks; /* where these elements have scales for blocks */
  /* Products of as many parts of m, one after the other, where they overlap with the all-reduces of tensor parallelism;
   * 0 as 1. */
  guint pieces;
  guint launches;      /* by the host, for one of the repeats; 0 as 1 */
  PsCudaGraphs graphs; /* the smallest scope that holds it; NONE as ATTN */
  guint bits; /* bits of an element that products multiply: 8 and 4 in layers of fp8 and fp4, all else has 16 there */
} PsWorkKernel;

/* The operations of all launches of a kernel. */
static inline gint64 ps_work_kernel_flops (const PsWorkKernel *kernel)
{
  return 2 * kernel->repeats * kernel->products * kernel->m * kernel->n * kernel->k;
}

#define PS_MAX_WORK_KERNELS 384

/* The kernels of an op. It is large, and most of it is not in use: callers lend the room. */
typedef struct {
  guint n_kernels;
  PsWorkKernel kernel[PS_MAX_WORK_KERNELS];
} PsWork;

/* *work becomes the work of a stage for one microbatch on one of n_tensor GPUs; kind is F, B, W, BW (B + W) or R (F).
 */
void ps_work_stage (const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor, PsWork *work);

/* The work that recomputation repeats: the F of whole layers, or what of it is of the modules (PsUnitParts). */
void ps_work_recompute (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint n_tensor,
                        PsWork *work);

/* The part of ps_work_stage (F, B or W) that its experts are: what lies between their two all-to-alls. */
void ps_work_experts (const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor, PsWork *work);

/* The operations of all products of a list. */
gint64 ps_work_flops (const PsWork *work);

/* One stage on several GPUs: a model's formulas under tensor parallelism with sequence parallelism.
 *
 * t GPUs of a node hold 1/t of every matrix of a layer each (Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3).
 * Where Megatron-LM would hold whole activations they hold 1/t of the sequence (Korthikanti et al., arXiv 2205.05198,
 * section 4.2.2). Together they are one device of the pipeline. All figures here are of one of its GPUs:
 *
 * - floating-point operations, activations, the part that W needs and boundary tensors are 1/t of the stage's. A layer
 *   keeps sbh (34 + 5as/h) / t (table 2 there, "tensor parallel + sequence parallel"). Full recomputation keeps the
 *   input of a layer, 1/t of it on each GPU. Neighbouring stages are cut alike: GPU i sends its part to GPU i of the
 *   next group;
 * - each unit of a layer needs an all-reduce of sbh elements in F and one in B (Shoeybi et al., section 3). An
 * all-gather and a reduce-scatter move as much as one all-reduce (Korthikanti et al., section 4.2.2). W needs none: the
 * all-gather of its inputs is assumed to overlap with other work, as they say there. The all-reduces of F and B overlap
 * with nothing, unless the cluster says so;
 * - bytes that kernels move (work.h) are 1/t, too: sequence parallelism cuts the tensors that tensor parallelism leaves
 *   whole;
 * - where t is a multiple of kv_heads each GPU keeps a whole head of keys and of values, more than 1/t of them
 *   (ps_tensor_kept_bytes). Its part of their matrix is 1/t all the same; queries, keys and values are put together by
 *   an all-gather in F and a reduce-scatter in B (ps_tensor_stage_ns; Megatron-LM 0.19, core/transformer/attention.py);
 * - embedding and head are cut along the vocabulary; their two transfers per step are left out.
 */

#define PS_MAX_TENSOR 64 /* GPUs of a device */

/* Checks that n_tensor GPUs can share the model's layers: n_tensor divides heads, kv_heads, feed_forward and sequence;
 * where several GPUs may hold the same head of keys and values (repeats) it may be a multiple of kv_heads instead.
 * Errors: PS_ERROR_USAGE naming the first that it does not divide. */
gboolean ps_tensor_check (const PsModel *model, guint n_tensor, gboolean repeats, GError **error);

/* One GPU's part of an amount that is cut evenly, rounded up. */
static inline gint64 ps_tensor_share (gint64 amount, guint n_tensor)
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

/* ps_model_state for these parameters, and the part of the experts. Weights of products that are multiplied in 8 or 4
 * bits:
 *
 * - with fp8_param_gather they are held in that format only. Products of B and W read them by columns: GPUs before
 *   those with products of 4 bits (Blackwell) need a transposed copy, and formats with blocks have other scales by
 *   columns than by rows, which are a copy, too. fp8 is 1 byte and on Hopper 2, mxfp8 2 (1 + 1/32)
 *   (Transformer Engine, docs/features/low_precision_training);
 * - else Megatron holds 2 bytes, and as many copies of that kind from the first microbatch of a step on;
 * - other frameworks hold 2 bytes.
 *
 * An all-gather moves the weights as they are held, without the copies; of mxfp8 2 bytes. */
PsStateBytes ps_tensor_state (const PsModel *model, const PsStageShape *shape, const PsCluster *cluster,
                              PsStateBytes *experts);

/* What one GPU keeps of ps_model_stage_kept_bytes, and of ps_model_stage_weight_activation_bytes. GPUs of one context
 * have equal parts of each sequence. With whole_sequences the t GPUs of a layer have norms, dropouts and the inputs of
 * matrices cut by columns whole, 10sbh of a layer of GPT, or the input of a recomputed layer, 2sbh (arXiv 2205.05198,
 * equation 2). */
gint64 ps_tensor_kept_bytes (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint n_tensor);
gint64 ps_tensor_weight_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor);

/* The keys and values that one of n_tensor GPUs of a stage holds of `tokens` tokens of a sequence, in the bytes of the
 * model's precision (vLLM and SGLang: kv_cache_dtype auto). Heads of them are cut over the GPUs, at least one is whole.
 * Latent attention holds its narrow vector, kv_rank + rope_size, on every GPU (arXiv 2405.04434, section 2.1.2). A
 * window holds its own tokens, compressed entries one for each `rate` tokens, too. Mixers that scan hold a state, which
 * does not grow with the tokens and does not count. */
gint64 ps_tensor_cache_bytes (const PsModel *model, const PsStageShape *shape, gint64 tokens, guint n_tensor);

/* One GPU's part of the keys and values of a slice that some token further than `distance` tokens after it reads: all
 * of them without a window. 0 where the sequence has no such token. */
gint64 ps_tensor_key_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor, guint distance);

/* ps_tensor_kept_bytes by module of PsKept; tensors that are offloaded (PsOffloadFlags) left out. modules has room for
 * PS_MAX_MODULES. Returns their number. */
#define PS_MAX_MODULES 16
typedef struct {
  const char *module; /* "layers": inputs of layers that run again */
  gint64 bytes;
} PsModuleBytes;

/* The index of the module in a list of *n, to which it is added with 0 bytes if it is not there. */
guint ps_modules_find (PsModuleBytes *modules, guint *n, const char *module);

guint ps_tensor_kept_modules (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint offload,
                              guint n_tensor, PsModuleBytes *modules);

/* One GPU's part of ps_model_boundary_bytes, and of ps_model_stage_output_bytes. */
gint64 ps_tensor_boundary_bytes (const PsModel *model, guint n_tensor);
gint64 ps_tensor_output_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor);

/* Time in which GPUs talk to each other during F or B of a stage, ns:
 *
 * - an all-reduce for each unit of a layer: a ring over the GPUs of a device (cluster->tensor) with 2 (t - 1) steps
 *   after its start (collective_ns of the cluster), each a transfer of sbh / t elements within a node. The steps of its
 *   all-gather move elements of PsNumberFormat.kept_bits: what a matrix takes is cast before. More GPUs than
 *   kv_heads add t - 1 steps of (q + 2c) / t elements per token to an attention with such heads. The part that the
 *   cluster's tensor_overlap hides counts nothing. 0 for one GPU;
 * - in a context of c GPUs, by cluster->cp_comm, where each GPU has early and late tokens alike, so that causal masks
 *   cut the work evenly (Llama 3, arXiv 2407.21783, section 3.3.2):
 *   - all_gather: c - 1 steps of an all-gather of keys and values in F, and in B again with a reduce-scatter of their
 *     gradients;
 *   - p2p: the same steps, each beside 1/c of the attention of the op. What a step takes longer than that counts (Ring
 *     Attention, arXiv 2310.01889, section 3);
 *   - a2a: c - 1 steps of an all-to-all of queries, keys, values and results of the GPU's own tokens, in F and in B
 *     (DeepSpeed Ulysses, arXiv 2309.14509, section 3). Keys and values of earlier slices are there already;
 * - two all-to-alls for each layer with experts that GPUs share, there and back, of ps_model_routed times the tokens,
 * at the part alltoall_efficiency of link and network. A dispatcher other than alltoall, if the cluster has its rates,
 * sends a token once to each GPU of a node, or once to each node where they are on several, that has some of its
 * experts: n (1 - (1 - 1/n) (1 - 1/n - ...) ...) of n on average, 2h bytes each (DeepEP's and HybridEP's rates count
 * these bytes).
 *
 * Only tensor_overlap of the first overlaps with other work; in a pair of ops the all-to-alls do, too, but for
 * expert_exposed of the cluster; a dispatcher takes its dispatch_multiprocessors from the kernels that run at
 * the same time. */
gint64 ps_tensor_stage_ns (const PsModel *model, const PsStageShape *shape, const PsCluster *cluster, PsOpKind kind);

/* The part of it in F that recomputation repeats: of whole layers, of dense MLPs and experts that run again as wholes,
 * and the gathers of attention that does. */
gint64 ps_tensor_again_ns (const PsModel *model, const PsStageShape *shape, PsRecompute recompute,
                           const PsCluster *cluster);

/* Time of one of these all-to-alls, ns; 0 where GPUs share no experts. */
gint64 ps_tensor_exchange_ns (const PsModel *model, const PsCluster *cluster);

/* Checks that the GPUs of a context divide the sequence, and that those which share experts divide the experts and the
 * GPUs of a device and its n_replicas. Errors: PS_ERROR_USAGE. */
gboolean ps_tensor_check_spread (const PsModel *model, guint n_tensor, guint n_replicas, GError **error);

/* The time that the GPUs of a cluster take for kernels:
 *
 *   time of an op = max (sum of launches, collectives + sum of kernels)
 *   kernel = start + max (operations / rate, bytes / (memory_bandwidth * memory_efficiency))
 *   rate = peak rate * efficiency of the class * tiles * k / (k + product_depth) * alignment
 *
 * - launch: launch_time of the cluster. The host starts kernels one after the other and runs ahead of the GPU, which
 *   has them in a queue. So the slower of the two decides, over the whole op (the reason for CUDA graphs). start:
 *   kernel_time, which the GPU needs to start and end a kernel.
 * - peak rate: that of the bits multiplied. efficiency of the class: of products with weights, of the products of
 *   attention heads (scores_efficiency), of flash attention (attention_efficiency).
 * - tiles: the part of the multiprocessors' work that is no waste. The result of a product is cut into tiles, one to a
 *   multiprocessor at a time; the last wave of tiles leaves some of them idle, and tiles at the edges are partly empty
 *   (NVIDIA, Matrix Multiplication Background User's Guide, sections 3 and 4: tile and wave quantisation). Tiles of
 *   256 x 128, 128 x 128, 128 x 64 and 64 x 64 reach 1, 0.9, 0.75 and 0.55 of the best rate because each element read
 *   serves fewer operations (its figure 5 shows this for A100); the fastest counts. Flash attention has no tiles
 * here.
 * - Formats of 8 and 4 bits: a kernel casts the input of each matrix in F and the gradient of its output in B, and
 * moves PsNumberFormat.cast_bytes for an element. Products have an efficiency of their own where scales are of whole
 *   tensors (efficiency_fp8), of blocks (efficiency_mxfp8), and for 4 bits (efficiency_fp4).
 * - Experts: Transformer Engine launches the product of each expert by itself (pytorch/module/grouped_linear.py), in
 * fewer than 16 bits with two kernels that cast or that order scales, and after W Megatron-LM's hook of the parameter.
 * Biases of experts are added expert by expert, 2 launches in F and 7 in B (core/transformer/moe/experts.py).
 * PsUnitParts.launches come on top.
 * - CUDA graphs (PsCluster.cuda_graphs): no launch of the units that their scope holds: mixers of tokens (attn), or
 * all.
 * - Overlap of tensor parallelism (PsCluster.tensor_overlap above 0): a product whose input is gathered or whose result
 * is scattered runs in t pieces, one after the other (Transformer Engine's userbuffers): F of all matrices that are
 * cut, and B of those cut by rows.
 * - k / (k + product_depth): filling and emptying the pipeline of a tile (same guide, section 2.1).
 * - alignment: 1 where rows start at multiples of 16 bytes (same guide, section 2.2), else unaligned, or
 *   unaligned_scores for the products of heads.
 *
 * Where the cluster states no multiprocessors only efficiency counts; where it states no memory_bandwidth bytes take no
 * time.
 */

/* Cuts the model's sequences into n_slices slices so that the F of all its layers takes the same time for each, as
 * nearly as multiples of the GPUs that share a slice allow (ps_model_cut_equal) and as pays: of equal slices and even
 * ones in multiples of 1 to 512 tokens a GPU, which steps of tiles and alignment suit more or less, the cut counts with
 * the least sum of all F and n_waits times the longest. A pipeline of p devices waits p - 1 times in a pass; 0 asks for
 * the least sum alone. Embedding and head do not count: one cut serves all stages. cluster->tensor and the model's
 * spread are the GPUs. Free with g_free. Errors: those of ps_model_cut_equal. */
guint *ps_work_cut_even (const PsModel *model, const PsCluster *cluster, guint n_slices, double n_waits,
                         GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The part of ps_work_ns that attention takes: products of heads. */
gint64 ps_work_attention_ns (const PsWork *work, const PsCluster *cluster);

/* The time that the work takes, ns, rounded to the nearest and at most PS_MAX_TIME_NS. talk_ns: of collectives, which
 * the GPU waits for between its kernels (work.h). */
gint64 ps_work_ns (const PsWork *work, const PsCluster *cluster, gint64 talk_ns);

/* The peak rate of a GPU, FLOP/s, for products of elements of `bits` bits (PsNumberFormat): the cluster's peak for
 * the least number of bits, no less than these, that it states one for. *key, unless NULL: the key that states it. */
static inline double ps_work_peak_flops (const PsCluster *cluster, guint bits, const char **key)
{
  gboolean fp4 = bits <= 4 && cluster->peak_flops_fp4 > 0, fp8 = !fp4 && bits <= 8 && cluster->peak_flops_fp8 > 0;

  if (key != NULL)
    *key = fp4 ? "peak_flops_fp4" : fp8 ? "peak_flops_fp8" : "peak_flops";
  return fp4 ? cluster->peak_flops_fp4 : fp8 ? cluster->peak_flops_fp8 : cluster->peak_flops;
}

/* The time that an optimizer step of one GPU takes to move its state, ns. The step reads the gradients, reads and
 * writes the optimizer state, and writes the weights that are gathered. In fp32 it also reads the weights; else the
 * state has the main copy. 28 bytes per parameter, 30 in mixed precision with fp32 gradients. 0 where the cluster
 * states no memory_bandwidth. */
gint64 ps_work_optimizer_ns (const PsModel *model, const PsCluster *cluster, const PsStateBytes *state);

/* Muon (Jordan, Muon: An optimizer for hidden layers in neural networks, 2024; Liu et al., arXiv 2502.16982) keeps one
 * momentum of each matrix of the layers, and Adam two moments of embedding, head, biases and norms. A step makes the
 * momentum of a matrix of m by n, m <= n, orthogonal by five steps of Newton-Schulz: X becomes a X + (b A + c A^2) X
 * with A = X X^T, which multiplies 2 m^2 n + m^3 numbers. The query, key and value matrices count as one.
 *
 * With ZeRO each matrix has one owner among the copies of its parameters, which keeps its state and computes its step
 * (Megatron-LM, core/optimizer/layer_wise_optimizer.py): matrices go, the slowest first, to the copy with the least to
 * do. GPUs that cut a matrix by tensor parallelism keep their parts, and each computes the whole (--muon-tp-mode
 * duplicated there, the default). */

/* What the busiest owner has of the matrices of a stage. */
typedef struct {
  gint64 optimizer_bytes;
  gint64 expert_bytes; /* part of optimizer_bytes of experts */
  gint64 step_ns;      /* the products of Newton-Schulz */
} PsMuonShare;

/* For n_copies GPUs that hold the dense parameters of the stage, and n_expert_copies that hold its experts; 1: no
 * matrix is shared out. Models of another optimizer have 0. */
PsMuonShare ps_muon_share (const PsModel *model, const PsStageShape *shape, const PsCluster *cluster, gint64 n_copies,
                           gint64 n_expert_copies);

/* The time of an overlapped pair: F of one microbatch overlapped with B and W of another (DualPipe; DeepSeek-V3,
 * arXiv 2412.19437, section 3.2.1, figure 4).
 *
 * A GPU has two streams, one that computes and one for the all-to-alls of experts. Kernels of a stream run one after
 * the other. F of a layer with experts is attention, dispatch, experts, combine; its B goes back through them. The
 * layers of F and of the backward alternate, and their parts stand in these orders:
 *
 *   computing  attention F, experts B, experts W, experts F, attention B, attention W
 *   talking    combine B, dispatch F, dispatch B, combine F
 *
 * A part starts when the one before it on its stream has ended, and the one before it in its own microbatch. Kernels
 * that compute side by side share the multiprocessors, so their times add up. The result is what `pair` in --costs
 * takes. Modelled costs have it for stages whose experts several GPUs share; another pair takes the sum of its parts.
 */

/* A layer of F and one of the backward. */
typedef struct {
  gint64 attention_ns[3]; /* by PS_OP_F, PS_OP_B and PS_OP_W; all that computes outside the experts */
  gint64 experts_ns[3];   /* the same */
  gint64 dispatch_ns[2];  /* by PS_OP_F and PS_OP_B: tokens, or their gradients, between attention and experts */
  gint64 combine_ns[2];   /* the same, between experts and the next layer */
} PsPairLayer;

/* From the start of the first part to the end of the last. */
gint64 ps_overlap_pair_ns (const PsPairLayer *layers, guint n_layers);

/* What frameworks hold in memory in addition to what the formulas of model.h say a model needs.
 *
 * All: F of a chunked loss has a chunk of the logits and their gradient in fp32 and in the precision of the model.
 *
 * Megatron (Megatron-LM's core with Transformer Engine):
 *
 * - a gradient in the precision of the weights for each shape of matrix in a layer that nobody reads: Transformer
 * Engine adds gradients to the fp32 ones and hands autograd such a dummy. They are made once for all stages of a GPU
 *   and stay;
 * - workspaces of cuBLAS, 32 MiB each of PyTorch's and Transformer Engine's (their defaults from compute capability 9.0
 *   on);
 * - the gradients that run through one layer at a time, per token: 4h + 4f, with experts 2h + r (4h + 4f); and with
 *   sequence parallelism the input and the gradient of one matrix gathered from t GPUs, 4h;
 * - at the head cross-entropy fused with its gradient: the logits stay as their gradient in 2 bytes, and F has them in
 *   fp32 too while it runs; B makes a dummy gradient of the output matrix, 2Vh.
 *
 * DeepSpeed (ZeRO stage 1 and the pipeline engine, as in Megatron-DeepSpeed):
 *
 * - gradients in bf16, where they are added to fp32 ones at once: 2 bytes per parameter that nobody reduces;
 * - PyTorch's allocator reserves 1.145 of what stays, and 1.345 of what comes and goes with microbatches. Both are
 *   fitted to the published peaks of the experiments for BLOOM (data/README.md), for all sizes of models and
 *   microbatches at once.
 *
 * Both: 5 GB of the driver, of NCCL and its channels, fitted to the same peaks. PyTorch's own count of allocated bytes
 * does not hold them.
 */

/* What one of t GPUs holds of a stage by the habits of the model's framework. */
typedef struct {
  gint64 kept_bytes;     /* bytes of a microbatch beyond ps_tensor_kept_bytes; negative: less */
  gint64 forward_bytes;  /* while F runs */
  gint64 backward_bytes; /* while B or BW runs */
  gint64 buffer_bytes;   /* throughout */
  gint64 shared_bytes;   /* the same, once for all stages of a device */
} PsHabits;

PsHabits ps_framework_habits (const PsModel *model, const PsStageShape *shape, guint n_tensor);

/* Bytes reserved for one that is asked for: of what stays, and of what comes and goes. */
double ps_framework_reserve (PsFramework framework);
double ps_framework_passing_reserve (PsFramework framework);

/* Bytes of driver and libraries on each GPU. */
gint64 ps_framework_context_bytes (PsFramework framework);

/* "framework megatron, main_grads_dtype fp32, ...": the formats that count for the model; "" for framework none. Free
 * with g_free. */
char *ps_framework_assumes (const PsModel *model);

G_END_DECLS

#endif

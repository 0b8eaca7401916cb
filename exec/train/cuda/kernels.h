/* kernels.h - the arithmetic of a transformer stage on a GPU, except the matrix products: one C function per launch.
 *
 * Every function puts its work into the given stream and returns at once. It returns cudaSuccess, cudaErrorInvalidValue
 * for sizes or addresses that it has no code for, or the status of the launch. Nothing is allocated: scratch memory is
 * the caller's, and its size comes from the function's _workspace. Zero rows or elements are fine.
 *
 * Arrays lie in device memory, dense and row-major, a row per token, unless a stride is given. Token t of a microbatch
 * is sequence number * sequence + place in the sequence. void pointers are arrays of `element`, which is float or
 * __nv_bfloat16; float arrays stay float with both. Arithmetic is float, rounded once when stored (to nearest even).
 *
 * Each array starts at least on an element. Arrays on 16 bytes with rows of whole 16 bytes take the fast path, others a
 * slower one with the same formula. An output may be one of the inputs only where it is said.
 *
 * Deterministic: the same input gives the same bits on every run, stream and share of a GPU. There are no atomics on
 * floats, and the order of sums depends on shapes alone. Functions that "add to" a gradient read and write it: calls on
 * one gradient belong into one stream.
 *
 * tests/cuda/kernels/kernels-reference.h has the same formulas in plain C and double precision.
 */
#pragma once

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#include "c-linkage.h"
#include "train/kernels.h"

PS_BEGIN_C

typedef PsElement PsCudaElement;
typedef PsRows PsCudaRows;
typedef PsAttention PsCudaAttention;
#define PS_CUDA_FP32 PS_ELEMENT_FP32
#define PS_CUDA_BF16 PS_ELEMENT_BF16
#define ps_cuda_element_bytes ps_element_bytes

/* --- norms: norm.cu ---
 * Layer norm (arXiv 1607.06450), per row of `columns`: y = (x - mean) * scale * gain + bias. Mean and the biased
 * variance take two passes over registers; scale = 1 / sqrt (variance + 1e-5). gain and bias: [columns] of element.
 * mean, scale: [rows], kept for the backward. With mean NULL these are RMS norms (arXiv 1910.07467): mean counts as 0,
 * and there is no bias.
 */
cudaError_t ps_cuda_norm_rows (PsCudaElement element, void *y, float *mean, float *scale, const void *x,
                               const void *gain, const void *bias, int rows, int columns, cudaStream_t stream);

/* dx = residual + gradient through the norm; residual NULL counts as zero. With standard = (x - mean) * scale and u =
 * gain * dy the gradient is scale * (u - average (u) - standard * average (u * standard)). RMS norms have no average
 * (u). x is the input of the norm. dx may be residual or dy. */
cudaError_t ps_cuda_norm_rows_input (PsCudaElement element, void *dx, const void *residual, const void *dy,
                                     const void *x, const float *mean, const float *scale, const void *gain, int rows,
                                     int columns, cudaStream_t stream);

/* --- column sums in two passes: columns.cu ---
 * Adds the sum over rows of dy * standard to dgain[c], and the sum of dy to dbias[c]. Makes y, the output of the norm,
 * again: products of weights need it, and it reads the same x. Chunks of 128 rows are summed first, then the chunks.
 * workspace: ps_cuda_columns_workspace bytes, on 16 bytes, free again when the work is done.
 */
size_t ps_cuda_columns_workspace (int rows, int columns);
cudaError_t ps_cuda_norm_rows_weights (PsCudaElement element, float *dgain, float *dbias, void *y, const void *dy,
                                       const void *x, const float *mean, const float *scale, const void *gain,
                                       const void *bias, int rows, int columns, void *workspace, cudaStream_t stream);
cudaError_t ps_cuda_bias_gradient (PsCudaElement element, float *dbias, const void *dy, int rows, int columns,
                                   void *workspace, cudaStream_t stream);

/* --- element by element: elementwise.cu --- */

/* y[r][c] += bias[c], in place. */
cudaError_t ps_cuda_bias_add (PsCudaElement element, void *y, const void *bias, int rows, int columns,
                              cudaStream_t stream);

/* GELU by the tanh formula (arXiv 1606.08415, section 2). z += bias first, in place and rounded (bias NULL: z stays
 * as it is); g = GELU (z). g may be z when z is not needed again. */
cudaError_t ps_cuda_gelu (PsCudaElement element, void *g, void *z, const void *bias, int rows, int columns,
                          cudaStream_t stream);

/* dz = dg * GELU' (z); dz may be z or dg. */
cudaError_t ps_cuda_gelu_input (PsCudaElement element, void *dz, const void *dg, const void *z, size_t n,
                                cudaStream_t stream);

/* SwiGLU (arXiv 2002.05202, section 2): y = gate / (1 + exp (-gate)) * up. gate and up are rows x columns with `stride`
 * elements from row to row. If one product makes both, stride is 2 * columns and up is gate + columns. y is dense. */
cudaError_t ps_cuda_swiglu (PsCudaElement element, void *y, const void *gate, const void *up, int rows, int columns,
                            int stride, cudaStream_t stream);

/* dgate and dup have the stride of gate and up, and may be gate and up. */
cudaError_t ps_cuda_swiglu_input (PsCudaElement element, void *dgate, void *dup, const void *dy, const void *gate,
                                  const void *up, int rows, int columns, int stride, cudaStream_t stream);

/* Row r of sequence b of `to` becomes that of `from`, plus row b * rows + r of `more`, which is dense (NULL: none). to
 * may be from. */
cudaError_t ps_cuda_rows_copy (PsCudaElement element, PsCudaRows to, PsCudaRows from, const float *more, int batch,
                               int rows, int columns, cudaStream_t stream);

/* Adds the rows of `from` to sum, which is dense; begins TRUE (1): overwrites it with them. */
cudaError_t ps_cuda_rows_add (PsCudaElement element, float *sum, int begins, PsCudaRows from, int batch, int rows,
                              int columns, cudaStream_t stream);

/* Rounds to bf16. to may not be from. */
cudaError_t ps_cuda_to_bf16 (void *to, const float *from, size_t n, cudaStream_t stream);

/* --- rotary positions: rotary.cu ---
 * RoFormer (arXiv 2104.09864, section 3.2.2): at place p, pair i turns by p * base^(-2i / head_size). A pair is
 * elements i and i + head_size / 2 of a head, as in Llama's published weights. table: [sequence][head_size / 2] pairs
 * (cosine, sine), made once in double precision, then rounded. */
size_t ps_cuda_rotary_table_bytes (int sequence, int head_size);
cudaError_t ps_cuda_rotary_table (float *table, int sequence, int head_size, double base, cudaStream_t stream);

/* Turns `heads` heads of head_size elements that start at x, in place, for rows (tokens) `stride` elements apart.
 * Queries and keys lie side by side in the output of one product, so one call turns both. backward TRUE (1) turns back,
 * which is the gradient. head_size is even. */
cudaError_t ps_cuda_rotary (PsCudaElement element, void *x, const float *table, int rows, int sequence, int heads,
                            int head_size, int stride, int backward, cudaStream_t stream);

/* --- embedding: embedding.cu ---
 * x = token[word] + position[place]; position NULL: none. words: batch x (sequence + 1), as in train/data.h: the word
 * after a token's is its target. All words must be below `vocabulary`; this is not checked. Tables are
 * [vocabulary][hidden] and [sequence][hidden] of element. */
cudaError_t ps_cuda_embedding (PsCudaElement element, void *x, const void *token, const void *position,
                               const uint32_t *words, int batch, int sequence, int hidden, cudaStream_t stream);

/* Adds the rows of dx to dtoken[word] and dposition[place] (NULL: none), in the order of the tokens. It first ranks
 * tokens by word, comparing each with each: (batch * sequence)^2 bytes through the first-level cache. workspace:
 * ps_cuda_embedding_workspace bytes, on 16 bytes. */
size_t ps_cuda_embedding_workspace (int batch, int sequence);
cudaError_t ps_cuda_embedding_weights (PsCudaElement element, float *dtoken, float *dposition, const void *dx,
                                       const uint32_t *words, int batch, int sequence, int hidden, void *workspace,
                                       cudaStream_t stream);

/* --- cross-entropy: cross-entropy.cu ---
 * For each token: loss[t] = log (sum over c of exp (logits[t][c])) - logits[t][target], natural logarithm. Overwrites
 * the logits with their gradient: factor * (softmax - 1 at the target). Rows of logits are `stride` elements apart;
 * columns vocabulary..stride - 1 become 0. factor = 1 / (batch * sequence) gives the gradient of the mean loss. */
cudaError_t ps_cuda_cross_entropy (PsCudaElement element, void *logits, float *loss, const uint32_t *words, int batch,
                                   int sequence, int vocabulary, int stride, float factor, cudaStream_t stream);

/* *total = factor * the sum of n losses, summed in double precision. */
cudaError_t ps_cuda_loss_sum (double *total, const float *loss, int n, double factor, cudaStream_t stream);

/* --- causal attention: attention.cu, flash-forward.cu, flash-backward.cu --- */
/* out = softmax (q k^T / sqrt (head_size), keys up to the query's place) v. lse, [batch][heads][sequence], is the
 * natural log of the sum of exponentials of the scaled scores, kept for the backward. The square of scores is never
 * stored.
 *
 * bf16 with head_size 32, 64, 96 or 128, rows and arrays on 16 bytes: tensor cores (FlashAttention-2, arXiv 2307.08691,
 * algorithm 1; probabilities are rounded to bf16 before the product with v). Heads of 64 and 128 use the instructions
 * of hopper.h if possible. Everything else takes a simple path for tests: one block per query, head_size up to 1024,
 * past + sequence up to 8192, float throughout. */
cudaError_t ps_cuda_attention (PsCudaElement element, const PsCudaAttention *shape, void *out, float *lse,
                               const void *q, const void *k, const void *v, cudaStream_t stream);

/* Overwrites dq, dk and dv, which may not be q, k or v. out and lse come from the forward. There are three launches:
 * delta, rows of dout . out; dk and dv, one block per tile of keys, over its queries in order; dq, one block per tile
 * of queries, over its keys in order. This is algorithm 2 of arXiv 2307.08691, with the loop over queries taken twice
 * so that no two blocks add to one sum. workspace: ps_cuda_attention_workspace bytes, on 16 bytes. */
size_t ps_cuda_attention_workspace (const PsCudaAttention *shape);
cudaError_t ps_cuda_attention_backward (PsCudaElement element, const PsCudaAttention *shape, void *dq, void *dk,
                                        void *dv, const void *dout, const void *out, const float *lse, const void *q,
                                        const void *k, const void *v, void *workspace, cudaStream_t stream);

/* TRUE (1) where the tensor-core path is taken, given arrays on 16 bytes. */
int ps_cuda_attention_is_fast (PsCudaElement element, const PsCudaAttention *shape);

/* TRUE (1) if heads of 64 and 128 use Hopper's own matrix instructions (wgmma) on the current device. */
int ps_cuda_attention_uses_hopper (void);

/* --- waiting: occupy.cu ---
 * Starts n_blocks blocks that each take all the shared memory a block may have. So each holds a multiprocessor, which
 * products of matrices can't share. Block i sets held[i] to 1 when it runs. All end when *released is not 0, or after
 * limit_ns. Both are in host memory that the GPU sees. */
cudaError_t ps_cuda_hold (unsigned *held, const unsigned *released, unsigned n_blocks, uint64_t limit_ns,
                          cudaStream_t stream);

/* --- optimizer: adam.cu ---
 * One step of Adam (arXiv 1412.6980, algorithm 1) with betas 0.9 and 0.999, epsilon 1e-8, on gradient * factor; step
 * counts from 1. The operations are those of the cpu device. Clears the gradient. weights: the copy of master in bf16
 * that products read, or NULL if they read master itself. */
cudaError_t ps_cuda_adam (void *weights, float *master, float *gradient, float *momentum, float *variance, size_t n,
                          float factor, double learning_rate, uint64_t step, cudaStream_t stream);

/* Tries a step out: the new weights go to `weights`, as above, and to `tried` (NULL: nowhere), and all else stays.
 */
cudaError_t ps_cuda_adam_try (void *weights, float *tried, const float *master, const float *gradient,
                              const float *momentum, const float *variance, size_t n, float factor,
                              double learning_rate, uint64_t step, cudaStream_t stream);

/* total[0]: the sum of the squares of values * factor, added up in an order that depends on n alone. total has
 * ps_cuda_norm_square_workspace bytes. */
cudaError_t ps_cuda_norm_square (double *total, const float *values, size_t n, float factor, cudaStream_t stream);
size_t ps_cuda_norm_square_workspace (void);

PS_END_C

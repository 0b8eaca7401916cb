/* cuda-kernels.h - the table of kernels of the cuda device, and its functions: memory and products are in
 * cuda-kernels.c, norms, sums over rows, embedding and cross-entropy in rows.cu, work element by element and the
 * optimizer in elementwise.cu, attention in attention.cu, flash.cu and flash-hopper.cu. train/kernels.h says what each
 * does. A kernel has code for arrays on 16 bytes with rows of whole 16 bytes, and slower code with the same formula for
 * others. There are no atomics on floats.
 *
 * Attention in bf16 with heads of 32, 64, 96 or 128 elements, and rows on 16 bytes, runs on tensor cores
 * (FlashAttention-2, arXiv 2307.08691, algorithm 1; probabilities are rounded to bf16 before the product with v). Heads
 * of 64 and 128 use Hopper's instructions if possible. Everything else takes a simple path for tests: one block per
 * query, head_size up to 1024, past + sequence up to 8192, float throughout. The backward is algorithm 2 with the loop
 * over queries taken twice, so that no two blocks add to one sum: one launch per tile of keys for dk and dv, one per
 * tile of queries for dq.
 *
 * This header is for the sources in CUDA C++, too, which know no GLib. */
#pragma once

#include "train/kernels.h"

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Its queues are PsCudaContexts with products. */
extern const PsKernels ps_cuda_kernels;

/* Returns the stream of a queue. */
cudaStream_t ps_cuda_stream (PsQueue *queue);

/* Notes a problem in the queue, unless status is cudaSuccess. */
void ps_cuda_note (PsQueue *queue, const char *what, cudaError_t status);

/* Declares the function of one member of the table. */
#define PS_CUDA_KERNEL(name) extern __typeof__ (*((PsKernels *)NULL)->name) ps_cuda_##name

PS_CUDA_KERNEL (bias_gradient);
PS_CUDA_KERNEL (norm);
PS_CUDA_KERNEL (norm_input);
PS_CUDA_KERNEL (norm_weights);
PS_CUDA_KERNEL (swiglu);
PS_CUDA_KERNEL (swiglu_input);
PS_CUDA_KERNEL (rows_copy);
PS_CUDA_KERNEL (rows_add);
PS_CUDA_KERNEL (to_bf16);
PS_CUDA_KERNEL (rotary_table);
PS_CUDA_KERNEL (rotary);
PS_CUDA_KERNEL (embedding);
PS_CUDA_KERNEL (embedding_weights);
PS_CUDA_KERNEL (cross_entropy);
PS_CUDA_KERNEL (loss_sum);
PS_CUDA_KERNEL (attention_kept_bytes);
PS_CUDA_KERNEL (attention);
PS_CUDA_KERNEL (attention_backward);
PS_CUDA_KERNEL (adam);
PS_CUDA_KERNEL (adam_try);

/* Puts into the workspace, as a double, what `norm_square` returns. */
void ps_cuda_square_sum (PsQueue *queue, const float *values, size_t n, float factor);

/* Bytes of workspace that some of them need. The backward of attention needs as much as attention keeps. */
size_t ps_cuda_columns_workspace (int rows, int columns);
size_t ps_cuda_embedding_workspace (int batch, int sequence);
size_t ps_cuda_square_sum_workspace (void);

/* What products do afterwards where the library has no fused ending: y[r][c] += bias[c]; z += bias in place, g = GELU
 * (z); dz = dg * GELU' (z), where dz may be z or dg. */
void ps_cuda_bias_add (PsQueue *queue, void *y, const void *bias, int rows, int columns);
void ps_cuda_gelu (PsQueue *queue, void *g, void *z, const void *bias, int rows, int columns);
void ps_cuda_gelu_input (PsQueue *queue, void *dz, const void *dg, const void *z, size_t n);

/* TRUE (1) where attention runs on tensor cores, given arrays on 16 bytes. */
int ps_cuda_attention_is_fast (PsElement element, const PsAttention *shape);

/* TRUE (1) if heads of 64 and 128 use Hopper's own matrix instructions (wgmma) on the current device. */
int ps_cuda_attention_uses_hopper (void);

/* Starts n_blocks blocks that each take all the shared memory a block may have. So each holds a multiprocessor, which
 * products of matrices can't share. Block i sets held[i] to 1 when it runs. All end when *released is not 0, or after
 * limit_ns. Both are in host memory that the GPU sees. In occupy.cu. */
cudaError_t ps_cuda_hold (unsigned *held, const unsigned *released, unsigned n_blocks, uint64_t limit_ns,
                          cudaStream_t stream);

#ifdef __cplusplus
}
#endif

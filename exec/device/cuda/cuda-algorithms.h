/* cuda-algorithms.h - which of cuBLASLt's algorithms a product uses: the process's table. */
#ifndef PIPESIM_CUDA_ALGORITHMS_H
#define PIPESIM_CUDA_ALGORITHMS_H

#include <cublasLt.h>

#include "cuda-context.h"

/* A product in cuBLASLt's words: d (m x n) = ending (op (a) op (b) + beta c), column-major, op (a) is m x k, for so
 * many multiprocessors. Compared byte by byte, so all of it is set. Stored with profiles: a change of this or of
 * PsCudaChoice is another ORIGIN. */
typedef struct
{
  int m, n, k;
  int transpose_a, transpose_b;
  int lda, ldb, ldd;
  int type_ab, type_d;
  int epilogue;
  int add; /* beta is 1 and c is d or has its layout */
  int n_sms;
} PsCudaProduct;

typedef struct
{
  gsize exists; /* 0: the library can't do this product */
  cublasLtMatmulAlgo_t algorithm;
  gsize workspace_bytes;
} PsCudaChoice;

/* What a product works on, and what cuBLASLt needs for it. */
typedef struct
{
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a_layout, b_layout, d_layout;
  const void *a, *b, *c;
  void *d;
  const void *bias;
  void *aux;
  void *workspace;
  gsize workspace_bytes;
} PsCudaCall;

/* Sets up call's desc and layouts for product and call's arrays; clear frees them. FALSE when the library refuses the
 * description. */
gboolean ps_cuda_call_init (PsCudaCall *call, const PsCudaProduct *product);
void ps_cuda_call_clear (PsCudaCall *call);

cublasStatus_t ps_cuda_call_run (const PsCudaCall *call, const PsCudaProduct *product, const PsCudaChoice *choice,
                                 void *d, void *aux, cudaStream_t stream);

/* The process's choice for the product; the first call makes it, trying the proposals on copies of what they would
 * overwrite. From any thread, one at a time. */
PsCudaChoice ps_cuda_choose (const PsCudaProduct *product, PsCudaCall *call, PsCudaContext *context);

/* All choices of the process so far, and taking over those of another one: see PsDeviceClass. They mean something to
 * the same library on the same kind of GPU. */
GBytes *ps_cuda_choices (const PsCudaContext *context);
gboolean ps_cuda_adopt_choices (const PsCudaContext *context, GBytes *choices, GError **error);

#endif

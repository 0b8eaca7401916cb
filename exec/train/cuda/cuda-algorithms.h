/* cuda-algorithms.h - the process's table of cuBLASLt algorithms, one for each product. */
#pragma once

#include <cublasLt.h>

#include "cuda-context.h"

/* A product in cuBLASLt's terms: d (m x n) = ending (op (a) op (b) + beta c), column-major, on n_sms multiprocessors.
 * op (a) is m x k. Products are compared byte by byte, so every member is set. Profiles store products and choices: a
 * change of either struct needs a new ORIGIN. */
typedef struct {
  int m, n, k;
  int transpose_a, transpose_b;
  int lda, ldb, ldd;
  int type_ab, type_d;
  int epilogue;
  int add; /* TRUE: beta is 1, and c is d or has its layout */
  int n_sms;
} PsCudaProduct;

typedef struct {
  gsize exists; /* 0: the library can't do this product */
  cublasLtMatmulAlgo_t algorithm;
  gsize workspace_bytes;
} PsCudaChoice;

/* The arrays of a product, and cuBLASLt's objects for it. */
typedef struct {
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

/* ps_cuda_call_init sets up call's desc and layouts for product and call's arrays. FALSE: the library refuses the
 * description. ps_cuda_call_clear frees them. */
gboolean ps_cuda_call_init (PsCudaCall *call, const PsCudaProduct *product);
void ps_cuda_call_clear (PsCudaCall *call);

cublasStatus_t ps_cuda_call_run (const PsCudaCall *call, const PsCudaProduct *product, const PsCudaChoice *choice,
                                 void *d, void *aux, cudaStream_t stream);

/* Returns the process's choice for the product. The first call makes it by trying the proposals, on copies of the
 * arrays that they would overwrite. From any thread, one at a time. */
PsCudaChoice ps_cuda_choose (const PsCudaProduct *product, PsCudaCall *call, PsCudaContext *context);

/* ps_cuda_choices returns all choices of the process so far; ps_cuda_adopt_choices takes over those of another process.
 * See PsDeviceClass. Choices are valid for one version of the library and one model of GPU. */
GBytes *ps_cuda_choices (const PsCudaContext *context);
gboolean ps_cuda_adopt_choices (const PsCudaContext *context, GBytes *choices, GError **error);

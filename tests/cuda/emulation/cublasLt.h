/* cublasLt.h - stands in for cuBLASLt where the tests emulate CUDA: the part that pipesim calls. Matrices are
 * column-major, products accumulate in float from the first element of the inner dimension to the last. Names and
 * meanings: cuBLAS documentation, "Using the cuBLASLt API". */
#pragma once

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
} cublasStatus_t;

typedef enum {
  CUDA_R_32F = 0,
  CUDA_R_16BF = 14,
} cudaDataType_t;

typedef enum {
  CUBLAS_COMPUTE_32F = 68,
} cublasComputeType_t;

typedef enum {
  CUBLAS_OP_N,
  CUBLAS_OP_T,
} cublasOperation_t;

typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference_t;

typedef enum {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 32 | 128 | 4,
  CUBLASLT_EPILOGUE_DGELU = 64 | 128,
} cublasLtEpilogue_t;

typedef enum {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
  CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = 15,
} cublasLtMatmulDescAttributes_t;

typedef enum {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
} cublasLtMatmulPreferenceAttributes_t;

#define CUBLASLT_REDUCTION_SCHEME_NONE 0

typedef struct {
  uint64_t data[8];
} cublasLtMatmulAlgo_t;

typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;

const char *cublasLtGetStatusString (cublasStatus_t status);
size_t cublasLtGetVersion (void); /* 0 */
cublasStatus_t cublasLtCreate (cublasLtHandle_t *handle);
cublasStatus_t cublasLtDestroy (cublasLtHandle_t handle);
cublasStatus_t cublasLtMatmulDescCreate (cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescDestroy (cublasLtMatmulDesc_t desc);
cublasStatus_t cublasLtMatmulDescSetAttribute (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                               const void *value, size_t bytes);
cublasStatus_t cublasLtMatrixLayoutCreate (cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows,
                                           uint64_t columns, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutDestroy (cublasLtMatrixLayout_t layout);
cublasStatus_t cublasLtMatmulPreferenceCreate (cublasLtMatmulPreference_t *preference);
cublasStatus_t cublasLtMatmulPreferenceDestroy (cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute (cublasLtMatmulPreference_t preference,
                                                     cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                     size_t bytes);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                               cublasLtMatmulPreference_t preference, int n_requested,
                                               cublasLtMatmulHeuristicResult_t *results, int *n_results);
cublasStatus_t cublasLtMatmul (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                               cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                               const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                               cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                               size_t workspace_bytes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

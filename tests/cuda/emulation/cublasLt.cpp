/* cublasLt.cpp - the emulated cuBLASLt. */
#include "machine.h"
#include "stream.h"

#include <atomic>
#include <cublasLt.h>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <vector>

struct cublasLtContext
{
};

struct cublasLtMatmulDescOpaque
{
  int32_t transa, transb, epilogue, n_sms;
  void *bias, *aux;
  int64_t aux_ld;
};

struct cublasLtMatrixLayoutOpaque
{
  cudaDataType_t type;
  size_t rows, columns, ld;
};

struct cublasLtMatmulPreferenceOpaque
{
  uint64_t workspace;
  uint32_t reductions;
};

static std::atomic<int> epilogues_refused;

void
ps_emulator_refuse_epilogues (int refuse)
{
  epilogues_refused = refuse;
}

/* What a preference promises unless it is told otherwise, and what fast algorithms rely on. */
#define ALIGNMENT 256

/* Marks algorithms that came from the heuristic. Which of them adds in which order PS_EMULATED_ALGORITHM says: 0 (as
 * without it) forwards; parts backwards for fewer than FEW_SMS multiprocessors; else backwards: other bits. */
#define ALGORITHM 0x656d756c61746564u
#define FEW_SMS 80

static bool
prefers_backwards (int n_sms)
{
  const char *order = getenv ("PS_EMULATED_ALGORITHM");

  if (order == nullptr || strcmp (order, "0") == 0)
    return false;
  return strcmp (order, "parts") != 0 || n_sms < FEW_SMS;
}

const char *
cublasLtGetStatusString (cublasStatus_t status)
{
  return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                 : "CUBLAS_STATUS_NOT_SUPPORTED";
}

size_t
cublasLtGetVersion (void)
{
  return 0;
}

cublasStatus_t
cublasLtCreate (cublasLtHandle_t *handle)
{
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtDestroy (cublasLtHandle_t handle)
{
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescCreate (cublasLtMatmulDesc_t *desc, cublasComputeType_t, cudaDataType_t scale)
{
  if (scale != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = new cublasLtMatmulDescOpaque{};
  (*desc)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescDestroy (cublasLtMatmulDesc_t desc)
{
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Value>
static cublasStatus_t
assign (Value &to, const void *value, size_t bytes)
{
  if (bytes != sizeof to)
    return CUBLAS_STATUS_INVALID_VALUE;
  memcpy (&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value,
                                size_t bytes)
{
  switch (attribute)
    {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign (desc->transa, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign (desc->transb, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign (desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign (desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return assign (desc->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return assign (desc->aux_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return assign (desc->n_sms, value, bytes);
    }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatrixLayoutCreate (cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows, uint64_t columns,
                            int64_t ld)
{
  *layout = new cublasLtMatrixLayoutOpaque{ type, rows, columns, (size_t)ld };
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutDestroy (cublasLtMatrixLayout_t layout)
{
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate (cublasLtMatmulPreference_t *preference)
{
  *preference = new cublasLtMatmulPreferenceOpaque{};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy (cublasLtMatmulPreference_t preference)
{
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute (cublasLtMatmulPreference_t preference,
                                      cublasLtMatmulPreferenceAttributes_t attribute, const void *value, size_t bytes)
{
  return attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? assign (preference->workspace, value, bytes)
                                                               : assign (preference->reductions, value, bytes);
}

/* Rows and columns after a possible transposition. */
static size_t
rows_of (const cublasLtMatrixLayoutOpaque *layout, int32_t transposed)
{
  return transposed ? layout->columns : layout->rows;
}

static size_t
columns_of (const cublasLtMatrixLayoutOpaque *layout, int32_t transposed)
{
  return transposed ? layout->rows : layout->columns;
}

static bool
shapes_fit (const cublasLtMatmulDescOpaque *desc, const cublasLtMatrixLayoutOpaque *a,
            const cublasLtMatrixLayoutOpaque *b, const cublasLtMatrixLayoutOpaque *c,
            const cublasLtMatrixLayoutOpaque *d)
{
  return a->ld >= a->rows && b->ld >= b->rows && c->ld >= c->rows && d->ld >= d->rows
         && columns_of (a, desc->transa) == rows_of (b, desc->transb) && rows_of (a, desc->transa) == d->rows
         && columns_of (b, desc->transb) == d->columns && c->rows == d->rows && c->columns == d->columns;
}

/* The library has fused epilogues with a second matrix for leading dimensions that are multiples of 8 only. */
static bool
is_supported (const cublasLtMatmulDescOpaque *desc, const cublasLtMatrixLayoutOpaque *a,
              const cublasLtMatrixLayoutOpaque *b, const cublasLtMatrixLayoutOpaque *c,
              const cublasLtMatrixLayoutOpaque *d)
{
  if (a->type != b->type || c->type != d->type || (a->type == CUDA_R_32F && d->type != CUDA_R_32F))
    return false;
  if (desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT)
    return true;
  if (epilogues_refused == 1)
    return false;
  return desc->epilogue == CUBLASLT_EPILOGUE_BIAS
         || (desc->aux_ld % 8 == 0 && (size_t)desc->aux_ld >= d->rows && desc->aux != nullptr);
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic (cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                cublasLtMatmulPreference_t preference, int n_requested,
                                cublasLtMatmulHeuristicResult_t *results, int *n_results)
{
  *n_results = 0;
  if (!shapes_fit (desc, a, b, c, d) || n_requested < 1 || preference->reductions != CUBLASLT_REDUCTION_SCHEME_NONE)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported (desc, a, b, c, d))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *n_results = n_requested < 3 ? n_requested : 3;
  for (int i = 0; i < *n_results; i++)
    {
      results[i] = {};
      results[i].algo.data[0] = ALGORITHM;
      results[i].algo.data[1] = prefers_backwards (desc->n_sms);
      results[i].state = CUBLAS_STATUS_SUCCESS;
    }
  /* One that is of no use among them. */
  results[0].algo.data[0] = 0;
  results[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

static float
load (cudaDataType_t type, const void *array, size_t at)
{
  return type == CUDA_R_32F ? static_cast<const float *> (array)[at]
                            : __bfloat162float (static_cast<const __nv_bfloat16 *> (array)[at]);
}

static void
store (cudaDataType_t type, void *array, size_t at, float value)
{
  if (type == CUDA_R_32F)
    static_cast<float *> (array)[at] = value;
  else
    static_cast<__nv_bfloat16 *> (array)[at] = __float2bfloat16_rn (value);
}

/* op (matrix) as dense column-major floats. */
static std::vector<float>
gather (const cublasLtMatrixLayoutOpaque *layout, const void *array, int32_t transposed)
{
  const size_t rows = rows_of (layout, transposed), columns = columns_of (layout, transposed);
  std::vector<float> dense (rows * columns);

  for (size_t column = 0; column < columns; column++)
    for (size_t row = 0; row < rows; row++)
      dense[column * rows + row]
          = load (layout->type, array, transposed ? row * layout->ld + column : column * layout->ld + row);
  return dense;
}

static float
gelu (float z)
{
  return 0.5f * z * (1 + tanhf (0.7978845608f * (z + 0.044715f * z * z * z)));
}

static float
gelu_slope (float z)
{
  const float t = tanhf (0.7978845608f * (z + 0.044715f * z * z * z));

  return 0.5f * (1 + t) + 0.5f * z * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * z * z);
}

static float
finish (const cublasLtMatmulDescOpaque *desc, cudaDataType_t type, float value, size_t row, size_t column)
{
  const size_t at = column * (size_t)desc->aux_ld + row;

  if (desc->epilogue & CUBLASLT_EPILOGUE_BIAS)
    value += load (type, desc->bias, row);
  if (desc->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
    {
      store (type, desc->aux, at, value);
      return gelu (value);
    }
  return desc->epilogue == CUBLASLT_EPILOGUE_DGELU ? value * gelu_slope (load (type, desc->aux, at)) : value;
}

static bool
is_aligned (const void *array)
{
  return reinterpret_cast<uintptr_t> (array) % ALIGNMENT == 0;
}

/* A call with all that it depends on: what it was given may be gone when it runs from a graph. */
struct Product
{
  cublasLtMatmulDescOpaque desc;
  cublasLtMatrixLayoutOpaque a_layout, b_layout, c_layout, d_layout;
  const void *a, *b, *c;
  void *d;
  float product_factor, sum_factor;
  bool backwards;
};

/* sum = left times a column of the right side. Not sanitized: these arrays are the emulator's. */
__attribute__ ((no_sanitize ("address"))) static void
multiply (float *sum, size_t m, const float *left, const float *right, size_t k, bool backwards)
{
  std::fill (sum, sum + m, 0.0f);
  for (size_t i = 0; i < k; i++)
    {
      const size_t inner = backwards ? k - 1 - i : i;
      for (size_t row = 0; row < m; row++)
        sum[row] += left[inner * m + row] * right[inner];
    }
}

static void
run (const Product &product)
{
  const size_t m = product.d_layout.rows, k = rows_of (&product.b_layout, product.desc.transb);
  const std::vector<float> left = gather (&product.a_layout, product.a, product.desc.transa);
  const std::vector<float> right = gather (&product.b_layout, product.b, product.desc.transb);
  std::vector<float> sum (m);

  for (size_t column = 0; column < product.d_layout.columns; column++)
    {
      multiply (sum.data (), m, left.data (), right.data () + column * k, k, product.backwards);
      for (size_t row = 0; row < m; row++)
        {
          float value = product.product_factor * sum[row];
          if (product.sum_factor != 0)
            value += product.sum_factor * load (product.c_layout.type, product.c, column * product.c_layout.ld + row);
          store (product.d_layout.type, product.d, column * product.d_layout.ld + row,
                 finish (&product.desc, product.d_layout.type, value, row, column));
        }
    }
}

cublasStatus_t
cublasLtMatmul (cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t stream)
{
  if (!shapes_fit (desc, a_layout, b_layout, c_layout, d_layout) || algo->data[0] != ALGORITHM || !is_aligned (a)
      || !is_aligned (b) || !is_aligned (c) || !is_aligned (d))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (epilogues_refused == 2 && desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    return CUBLAS_STATUS_NOT_SUPPORTED;

  const Product product = { *desc,
                            *a_layout,
                            *b_layout,
                            *c_layout,
                            *d_layout,
                            a,
                            b,
                            c,
                            d,
                            *static_cast<const float *> (alpha),
                            *static_cast<const float *> (beta),
                            algo->data[1] != 0 };
  ps_emulator_stream_do (stream, [=] {
    run (product);
    return true;
  });
  return CUBLAS_STATUS_SUCCESS;
}

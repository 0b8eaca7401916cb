/* cublasLt.cpp - the emulated cuBLASLt. */
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <cublasLt.h>
#include <cuda_bf16.h>

struct cublasLtContext {};

/* Attributes have their values where the value of their name says. */
struct cublasLtMatmulDescOpaque {
  int64_t value[16];

  template <typename Value = int64_t> Value at (cublasLtMatmulDescAttributes_t attribute) const
  {
    return (Value)value[attribute];
  }
};

struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type;
  size_t rows, columns, ld;
};

struct cublasLtMatmulPreferenceOpaque {
  int64_t value[16];
};

static std::atomic<int> epilogues_refused;

/* From now on there is no algorithm for a fused epilogue (1), or some are proposed that then don't work (2); 0: ends
 * that. */
extern "C" void ps_emulator_refuse_epilogues (int refuse)
{
  epilogues_refused = refuse;
}

/* What a preference promises unless it is told otherwise, and what fast algorithms rely on. */
#define ALIGNMENT 256

/* Marks algorithms that came from the heuristic. Which of them adds in which order PS_EMULATED_ALGORITHM says: 0 (as
 * without it) forwards; parts backwards for fewer than FEW_SMS multiprocessors; else backwards: other bits. */
#define ALGORITHM 0x656d756c61746564u
#define FEW_SMS 80

static bool prefers_backwards (int64_t n_sms)
{
  const char *order = getenv ("PS_EMULATED_ALGORITHM");

  if (order == nullptr || strcmp (order, "0") == 0)
    return false;
  return strcmp (order, "parts") != 0 || n_sms < FEW_SMS;
}

const char *cublasLtGetStatusString (cublasStatus_t status)
{
  return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                 : "CUBLAS_STATUS_NOT_SUPPORTED";
}

size_t cublasLtGetVersion (void)
{
  return 0;
}

template <typename Object, typename... Values> static cublasStatus_t make (Object **object, Values... values)
{
  *object = new Object{ values... };
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Object> static cublasStatus_t destroy (Object *object)
{
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate (cublasLtHandle_t *handle)
{
  return make (handle);
}

cublasStatus_t cublasLtDestroy (cublasLtHandle_t handle)
{
  return destroy (handle);
}

cublasStatus_t cublasLtMatmulDescCreate (cublasLtMatmulDesc_t *desc, cublasComputeType_t, cudaDataType_t scale)
{
  make (desc);
  (*desc)->value[CUBLASLT_MATMUL_DESC_EPILOGUE] = CUBLASLT_EPILOGUE_DEFAULT;
  return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulDescDestroy (cublasLtMatmulDesc_t desc)
{
  return destroy (desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                               const void *value, size_t bytes)
{
  const bool is_wide = attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER
                       || attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER
                       || attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD;

  if (bytes != (is_wide ? sizeof (int64_t) : sizeof (int32_t)))
    return CUBLAS_STATUS_INVALID_VALUE;
  desc->value[attribute] = 0;
  memcpy (&desc->value[attribute], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate (cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows,
                                           uint64_t columns, int64_t ld)
{
  return make (layout, type, rows, columns, (size_t)ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy (cublasLtMatrixLayout_t layout)
{
  return destroy (layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate (cublasLtMatmulPreference_t *preference)
{
  return make (preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy (cublasLtMatmulPreference_t preference)
{
  return destroy (preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute (cublasLtMatmulPreference_t preference,
                                                     cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                     size_t bytes)
{
  memcpy (&preference->value[attribute], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/* A matrix as a product takes it. */
struct Side {
  cublasLtMatrixLayoutOpaque layout;
  const void *array;
  bool transposed;

  Side (const cublasLtMatrixLayoutOpaque *layout, const void *array, int64_t operation = CUBLAS_OP_N)
      : layout (*layout), array (array), transposed (operation == CUBLAS_OP_T)
  {
  }

  size_t rows () const
  {
    return transposed ? layout.columns : layout.rows;
  }

  size_t columns () const
  {
    return transposed ? layout.rows : layout.columns;
  }
};

static bool shapes_fit (const Side &a, const Side &b, const Side &c, const Side &d)
{
  return a.layout.ld >= a.layout.rows && b.layout.ld >= b.layout.rows && c.layout.ld >= c.layout.rows
         && d.layout.ld >= d.layout.rows && a.columns () == b.rows () && a.rows () == d.rows ()
         && b.columns () == d.columns () && c.rows () == d.rows () && c.columns () == d.columns ();
}

/* The library has fused epilogues with a second matrix for leading dimensions that are multiples of 8 only. */
static bool is_supported (const cublasLtMatmulDescOpaque *desc, const Side &a, const Side &b, const Side &c,
                          const Side &d)
{
  const int64_t epilogue = desc->at (CUBLASLT_MATMUL_DESC_EPILOGUE);
  const int64_t aux_ld = desc->at (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);

  if (a.layout.type != b.layout.type || c.layout.type != d.layout.type
      || (a.layout.type == CUDA_R_32F && d.layout.type != CUDA_R_32F))
    return false;
  if (epilogue == CUBLASLT_EPILOGUE_DEFAULT)
    return true;
  return epilogues_refused != 1
         && (epilogue == CUBLASLT_EPILOGUE_BIAS
             || (aux_ld % 8 == 0 && (size_t)aux_ld >= d.layout.rows
                 && desc->at (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER) != 0));
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic (cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                               cublasLtMatrixLayout_t a_layout, cublasLtMatrixLayout_t b_layout,
                                               cublasLtMatrixLayout_t c_layout, cublasLtMatrixLayout_t d_layout,
                                               cublasLtMatmulPreference_t preference, int n_requested,
                                               cublasLtMatmulHeuristicResult_t *results, int *n_results)
{
  const Side a (a_layout, nullptr, desc->at (CUBLASLT_MATMUL_DESC_TRANSA)),
      b (b_layout, nullptr, desc->at (CUBLASLT_MATMUL_DESC_TRANSB)), c (c_layout, nullptr), d (d_layout, nullptr);

  *n_results = 0;
  if (!shapes_fit (a, b, c, d) || n_requested < 1
      || preference->value[CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] != CUBLASLT_REDUCTION_SCHEME_NONE)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported (desc, a, b, c, d))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *n_results = n_requested < 3 ? n_requested : 3;
  for (int i = 0; i < *n_results; i++) {
    results[i] = {};
    results[i].algo.data[0] = ALGORITHM;
    results[i].algo.data[1] = prefers_backwards (desc->at (CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET));
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  /* One that is of no use among them. */
  results[0].algo.data[0] = 0;
  results[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

/* --- the product --- */

static float load (cudaDataType_t type, const void *array, size_t at)
{
  return type == CUDA_R_32F ? ((const float *)array)[at] : __bfloat162float (((const __nv_bfloat16 *)array)[at]);
}

static void store (cudaDataType_t type, void *array, size_t at, float value)
{
  if (type == CUDA_R_32F)
    ((float *)array)[at] = value;
  else
    ((__nv_bfloat16 *)array)[at] = __float2bfloat16_rn (value);
}

/* Returns the matrix as dense column-major floats. */
static std::vector<float> gather (const Side &side)
{
  const size_t ld = side.layout.ld;
  std::vector<float> dense;

  for (size_t column = 0; column < side.columns (); column++)
    for (size_t row = 0; row < side.rows (); row++)
      dense.push_back (load (side.layout.type, side.array, side.transposed ? row * ld + column : column * ld + row));
  return dense;
}

static float gelu (float z)
{
  return 0.5f * z * (1 + tanhf (0.7978845608f * (z + 0.044715f * z * z * z)));
}

static float gelu_slope (float z)
{
  const float t = tanhf (0.7978845608f * (z + 0.044715f * z * z * z));

  return 0.5f * (1 + t) + 0.5f * z * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * z * z);
}

static float finish (const cublasLtMatmulDescOpaque &desc, cudaDataType_t type, float value, size_t row, size_t column)
{
  const int64_t epilogue = desc.at (CUBLASLT_MATMUL_DESC_EPILOGUE);
  void *aux = desc.at<void *> (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  const size_t at = column * desc.at<size_t> (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD) + row;

  if (epilogue & CUBLASLT_EPILOGUE_BIAS)
    value += load (type, desc.at<void *> (CUBLASLT_MATMUL_DESC_BIAS_POINTER), row);
  if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
    store (type, aux, at, value);
    return gelu (value);
  }
  return epilogue == CUBLASLT_EPILOGUE_DGELU ? value * gelu_slope (load (type, aux, at)) : value;
}

/* sum = left times a column of the right side. Not sanitized: these arrays are the emulator's. */
__attribute__ ((no_sanitize ("address"))) static void multiply (float *sum, size_t m, const float *left,
                                                                const float *right, size_t k, bool backwards)
{
  memset (sum, 0, m * sizeof *sum);
  for (size_t i = 0; i < k; i++) {
    const size_t inner = backwards ? k - 1 - i : i;

    for (size_t row = 0; row < m; row++)
      sum[row] += left[inner * m + row] * right[inner];
  }
}

cublasStatus_t cublasLtMatmul (cublasLtHandle_t, cublasLtMatmulDesc_t desc_given, const void *alpha,
                               const void *a_array, cublasLtMatrixLayout_t a_layout, const void *b_array,
                               cublasLtMatrixLayout_t b_layout, const void *beta, const void *c_array,
                               cublasLtMatrixLayout_t c_layout, void *d_array, cublasLtMatrixLayout_t d_layout,
                               const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t stream)
{
  /* Copies of all that the product depends on: the caller's may be gone when it runs. */
  const cublasLtMatmulDescOpaque desc = *desc_given;
  const Side a (a_layout, a_array, desc.at (CUBLASLT_MATMUL_DESC_TRANSA)),
      b (b_layout, b_array, desc.at (CUBLASLT_MATMUL_DESC_TRANSB)), c (c_layout, c_array), d (d_layout, d_array);
  const float product_factor = *(const float *)alpha, sum_factor = *(const float *)beta;
  const bool backwards = algo->data[1] != 0;

  for (const void *array : { a_array, b_array, c_array, (const void *)d_array })
    if ((uintptr_t)array % ALIGNMENT != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  if (!shapes_fit (a, b, c, d) || algo->data[0] != ALGORITHM)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (epilogues_refused == 2 && desc.at (CUBLASLT_MATMUL_DESC_EPILOGUE) != CUBLASLT_EPILOGUE_DEFAULT)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  ps_emulator_stream_do (stream, [=] {
    const size_t m = d.rows (), k = b.rows ();
    const std::vector<float> left = gather (a), right = gather (b);
    std::vector<float> sum (m);

    for (size_t column = 0; column < d.columns (); column++) {
      multiply (sum.data (), m, left.data (), right.data () + column * k, k, backwards);
      for (size_t row = 0; row < m; row++) {
        float value = product_factor * sum[row];

        if (sum_factor != 0)
          value += sum_factor * load (c.layout.type, c.array, column * c.layout.ld + row);
        store (d.layout.type, d_array, column * d.layout.ld + row, finish (desc, d.layout.type, value, row, column));
      }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

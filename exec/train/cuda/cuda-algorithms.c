/* cuda-algorithms.c - asks cuBLASLt for proposals, tries them, and remembers the best. */
#include "cuda-algorithms.h"

#include <string.h>

#define MAX_PROPOSALS 8
#define N_TRIALS 4

/* A proposal beats another one if it takes less than this part of its time. Smaller differences are chance, and would
 * differ from process to process. */
#define CLEARLY_LESS 0.97f

#define ORIGIN "choices 1, cuBLASLt %" G_GSIZE_FORMAT ", %s"
#define ORIGIN_SIZE 320 /* bytes for the origin of choices: format, library version and name of the GPU */

#define SET(desc, attribute, value)                                                                                    \
  (cublasLtMatmulDescSetAttribute (desc, attribute, &(value), sizeof (value)) == CUBLAS_STATUS_SUCCESS)

static gboolean is_transposed (int transpose)
{
  return transpose == CUBLAS_OP_T;
}

static gboolean make_layout (cublasLtMatrixLayout_t *layout, int type, int rows, int columns, int ld)
{
  return cublasLtMatrixLayoutCreate (layout, (cudaDataType_t)type, (uint64_t)rows, (uint64_t)columns, ld)
         == CUBLAS_STATUS_SUCCESS;
}

static gboolean make_layouts (PsCudaCall *call, const PsCudaProduct *product)
{
  const gboolean ta = is_transposed (product->transpose_a), tb = is_transposed (product->transpose_b);

  return make_layout (&call->a_layout, product->type_ab, ta ? product->k : product->m, ta ? product->m : product->k,
                      product->lda)
         && make_layout (&call->b_layout, product->type_ab, tb ? product->n : product->k, tb ? product->k : product->n,
                         product->ldb)
         && make_layout (&call->d_layout, product->type_d, product->m, product->n, product->ldd);
}

static gboolean set_aux (const PsCudaCall *call, void *aux, const PsCudaProduct *product)
{
  const int64_t ld = product->ldd;

  return aux == NULL
         || (SET (call->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux)
             && SET (call->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld));
}

gboolean ps_cuda_call_init (PsCudaCall *call, const PsCudaProduct *product)
{
  const int32_t ta = product->transpose_a, tb = product->transpose_b, n_sms = product->n_sms;
  const uint32_t epilogue = (uint32_t)product->epilogue;

  return cublasLtMatmulDescCreate (&call->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS
         && SET (call->desc, CUBLASLT_MATMUL_DESC_TRANSA, ta) && SET (call->desc, CUBLASLT_MATMUL_DESC_TRANSB, tb)
         && SET (call->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)
         && SET (call->desc, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, n_sms)
         && (call->bias == NULL || SET (call->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call->bias))
         && set_aux (call, call->aux, product) && make_layouts (call, product);
}

void ps_cuda_call_clear (PsCudaCall *call)
{
  if (call->desc != NULL)
    cublasLtMatmulDescDestroy (call->desc);
  if (call->a_layout != NULL)
    cublasLtMatrixLayoutDestroy (call->a_layout);
  if (call->b_layout != NULL)
    cublasLtMatrixLayoutDestroy (call->b_layout);
  if (call->d_layout != NULL)
    cublasLtMatrixLayoutDestroy (call->d_layout);
}

cublasStatus_t ps_cuda_call_run (const PsCudaCall *call, const PsCudaProduct *product, const PsCudaChoice *choice,
                                 void *d, void *aux, cudaStream_t stream)
{
  const float one = 1, beta = product->add ? 1 : 0;

  if (!set_aux (call, aux, product))
    return CUBLAS_STATUS_INVALID_VALUE;
  return cublasLtMatmul (call->handle, call->desc, &one, call->a, call->a_layout, call->b, call->b_layout, &beta,
                         call->c, call->d_layout, d, call->d_layout, &choice->algorithm, call->workspace,
                         choice->workspace_bytes, stream);
}

/* Moves usable proposals to the front and returns their number. */
static int keep_usable (cublasLtMatmulHeuristicResult_t *proposals, int n)
{
  int n_kept = 0;

  for (int i = 0; i < n; i++)
    if (proposals[i].state == CUBLAS_STATUS_SUCCESS)
      proposals[n_kept++] = proposals[i];
  return n_kept;
}

/* Asks for proposals without split sums, whose order of addition is not fixed. */
static int propose (const PsCudaCall *call, cublasLtMatmulHeuristicResult_t *proposals)
{
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE;
  const uint64_t workspace = call->workspace_bytes;
  cublasLtMatmulPreference_t preference;
  int n = 0;

  if (cublasLtMatmulPreferenceCreate (&preference) != CUBLAS_STATUS_SUCCESS)
    return 0;
  if (cublasLtMatmulPreferenceSetAttribute (preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                            sizeof workspace)
          != CUBLAS_STATUS_SUCCESS
      || cublasLtMatmulPreferenceSetAttribute (preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                               sizeof reductions)
             != CUBLAS_STATUS_SUCCESS
      || cublasLtMatmulAlgoGetHeuristic (call->handle, call->desc, call->a_layout, call->b_layout, call->d_layout,
                                         call->d_layout, preference, MAX_PROPOSALS, proposals, &n)
             != CUBLAS_STATUS_SUCCESS)
    n = 0;
  cublasLtMatmulPreferenceDestroy (preference);
  return keep_usable (proposals, n);
}

/* Returns the shortest of some runs in ms; negative: the algorithm fails. */
static float try_choice (const PsCudaCall *call, const PsCudaProduct *product, const PsCudaChoice *choice, void *d,
                         void *aux, PsCudaContext *context, cudaEvent_t begin, cudaEvent_t end)
{
  float best = -1, milliseconds;

  for (guint i = 0; i < N_TRIALS; i++) {
    if (cudaEventRecord (begin, context->stream) != cudaSuccess
        || ps_cuda_call_run (call, product, choice, d, aux, context->stream) != CUBLAS_STATUS_SUCCESS
        || cudaEventRecord (end, context->stream) != cudaSuccess || cudaEventSynchronize (end) != cudaSuccess
        || cudaEventElapsedTime (&milliseconds, begin, end) != cudaSuccess)
      return -1;
    best = best < 0 ? milliseconds : MIN (best, milliseconds);
  }
  return best;
}

static PsCudaChoice choice_of (const cublasLtMatmulHeuristicResult_t *proposal)
{
  return (PsCudaChoice){ .exists = TRUE, .algorithm = proposal->algo, .workspace_bytes = proposal->workspaceSize };
}

/* Returns the first of the fastest proposals; it does not exist if none works. Returns the first proposal if none can
 * be tried. */
static PsCudaChoice try_proposals (const cublasLtMatmulHeuristicResult_t *proposals, int n,
                                   const PsCudaProduct *product, const PsCudaCall *call, void *scratch_d,
                                   void *scratch_aux, PsCudaContext *context)
{
  PsCudaChoice best = choice_of (&proposals[0]);
  cudaEvent_t begin = NULL, end = NULL;
  float best_time = -1;

  if (cudaEventCreateWithFlags (&begin, 0) == cudaSuccess && cudaEventCreateWithFlags (&end, 0) == cudaSuccess)
    for (int i = 0; i < n; i++) {
      const PsCudaChoice choice = choice_of (&proposals[i]);
      const float time = try_choice (call, product, &choice, scratch_d, scratch_aux, context, begin, end);

      if (time < 0 || (best_time >= 0 && time >= best_time * CLEARLY_LESS))
        continue;
      best_time = time;
      best = choice;
    }
  best.exists = begin == NULL || end == NULL || best_time >= 0;
  if (begin != NULL)
    cudaEventDestroy (begin);
  if (end != NULL)
    cudaEventDestroy (end);
  return best;
}

/* Tries proposals on scratch arrays: the arrays that a product overwrites must keep their values. */
static PsCudaChoice run_trials (const cublasLtMatmulHeuristicResult_t *proposals, int n, const PsCudaProduct *product,
                                const PsCudaCall *call, PsCudaContext *context)
{
  const gsize bytes = (gsize)product->ldd * (gsize)product->n * (product->type_d == CUDA_R_32F ? 4 : 2);
  const gboolean writes_aux = product->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  PsCudaChoice choice = choice_of (&proposals[0]);
  void *d = NULL, *aux = call->aux;

  if (cudaMalloc (&d, bytes) == cudaSuccess && (!writes_aux || cudaMalloc (&aux, bytes) == cudaSuccess))
    choice = try_proposals (proposals, n, product, call, d, aux, context);
  cudaStreamSynchronize (context->stream);
  if (d != NULL)
    cudaFree (d);
  if (aux != call->aux)
    cudaFree (aux);
  cudaGetLastError ();
  return choice;
}

static PsCudaChoice make_choice (const PsCudaProduct *product, const PsCudaCall *call, PsCudaContext *context)
{
  cublasLtMatmulHeuristicResult_t proposals[MAX_PROPOSALS];
  const int n = propose (call, proposals);

  if (n == 0)
    return (PsCudaChoice){ .exists = FALSE };
  if (n == 1 || g_strcmp0 (g_getenv ("PIPESIM_CUDA_TRIALS"), "0") == 0)
    return choice_of (&proposals[0]);
  return run_trials (proposals, n, product, call, context);
}

static guint product_hash (gconstpointer product)
{
  const guchar *bytes = product;
  guint hash = 5381;

  for (gsize i = 0; i < sizeof (PsCudaProduct); i++)
    hash = hash * 33 + bytes[i];
  return hash;
}

static gboolean product_equal (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, sizeof (PsCudaProduct)) == 0;
}

static GMutex choices_mutex;
static GHashTable *choices; /* PsCudaChoice by PsCudaProduct; under choices_mutex, NULL before the first */

static void remember (const PsCudaProduct *product, const PsCudaChoice *choice)
{
  if (choices == NULL)
    choices = g_hash_table_new_full (product_hash, product_equal, g_free, g_free);
  g_hash_table_insert (choices, g_memdup2 (product, sizeof *product), g_memdup2 (choice, sizeof *choice));
}

PsCudaChoice ps_cuda_choose (const PsCudaProduct *product, PsCudaCall *call, PsCudaContext *context)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&choices_mutex);
  const PsCudaChoice *known = choices != NULL ? g_hash_table_lookup (choices, product) : NULL;

  if (known != NULL)
    return *known;
  PsCudaChoice choice = make_choice (product, call, context);
  remember (product, &choice);
  return choice;
}

/* --- bytes for other processes: the origin, then pairs of product and choice as they lie in memory --- */

static void describe_origin (const PsCudaContext *context, char origin[ORIGIN_SIZE])
{
  struct cudaDeviceProp properties;
  const cudaError_t status = cudaGetDeviceProperties (&properties, context->gpu);

  memset (origin, 0, ORIGIN_SIZE);
  g_snprintf (origin, ORIGIN_SIZE, ORIGIN, cublasLtGetVersion (),
              status == cudaSuccess ? properties.name : "unknown GPU");
}

GBytes *ps_cuda_choices (const PsCudaContext *context)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&choices_mutex);
  GByteArray *bytes = g_byte_array_new ();
  char origin[ORIGIN_SIZE];
  gpointer product, choice;
  GHashTableIter iter;

  describe_origin (context, origin);
  g_byte_array_append (bytes, (const guint8 *)origin, sizeof origin);
  if (choices != NULL)
    g_hash_table_iter_init (&iter, choices);
  while (choices != NULL && g_hash_table_iter_next (&iter, &product, &choice)) {
    g_byte_array_append (bytes, product, sizeof (PsCudaProduct));
    g_byte_array_append (bytes, choice, sizeof (PsCudaChoice));
  }
  return g_byte_array_free_to_bytes (bytes);
}

gboolean ps_cuda_adopt_choices (const PsCudaContext *context, GBytes *bytes, GError **error)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&choices_mutex);
  const gsize pair = sizeof (PsCudaProduct) + sizeof (PsCudaChoice);
  char origin[ORIGIN_SIZE];
  gsize n_bytes;
  const guint8 *at = g_bytes_get_data (bytes, &n_bytes), *end = at + n_bytes;

  describe_origin (context, origin);
  if (n_bytes >= ORIGIN_SIZE && memcmp (at, origin, ORIGIN_SIZE) != 0)
    return TRUE;
  if (n_bytes < ORIGIN_SIZE || (n_bytes - ORIGIN_SIZE) % pair != 0)
    return ps_refuse (error, PS_ERROR_INPUT, "cuda device: %" G_GSIZE_FORMAT " bytes are no choices of algorithms",
                      n_bytes);
  for (at += ORIGIN_SIZE; at < end; at += pair) {
    PsCudaProduct product;
    PsCudaChoice choice;

    memcpy (&product, at, sizeof product);
    memcpy (&choice, at + sizeof product, sizeof choice);
    remember (&product, &choice);
  }
  return TRUE;
}

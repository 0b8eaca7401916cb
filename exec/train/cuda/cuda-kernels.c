/* cuda-kernels.c - the table of kernels of the cuda device: memory, the products of matrices, and ops that are captured
 * once and launched again as graphs. */
#include "cuda-kernels.h"

#include "cuda-context.h"

#include <cublasLt.h>
#include <string.h>

/* The size that cuBLAS's documentation recommends for Hopper: "cublasSetWorkspace". */
#define WORKSPACE_BYTES ((gsize)32 << 20)

/* The attention without tensor cores. */
#define SIMPLE_HEAD_SIZE 1024
#define SIMPLE_SEQUENCE 8192

static bool check (PsElement element, const PsAttention *attention, GError **error)
{
  const int whole = attention->past + attention->sequence;

  if (ps_cuda_attention_is_fast (element, attention))
    return TRUE;
  if (attention->head_size > SIMPLE_HEAD_SIZE)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "cuda device: model has hidden / heads = %d: 1024 at most is supported", attention->head_size);
  return whole <= SIMPLE_SEQUENCE
         || ps_refuse (error, PS_ERROR_UNAVAILABLE,
                       "cuda device: model has sequence = %d: more than 8192 takes bf16 and heads of 32, 64, 96 or 128 "
                       "elements",
                       whole);
}

static void clear (PsQueue *queue, void *block, int value, size_t bytes)
{
  ps_cuda_note (queue, "clearing memory", cudaMemsetAsync (block, value, bytes, ps_cuda_stream (queue)));
}

static void copy (PsQueue *queue, void *to, const void *from, size_t bytes)
{
  ps_cuda_note (queue, "copying", cudaMemcpyAsync (to, from, bytes, cudaMemcpyDefault, ps_cuda_stream (queue)));
}

static void await (PsQueue *queue)
{
  PsCudaContext *context = (PsCudaContext *)queue;

  ps_cuda_note (queue, "waiting", cudaEventRecord (context->done, context->stream));
  ps_cuda_note (queue, "waiting", cudaEventSynchronize (context->done));
}

static size_t workspace (PsElement element, const PsAttention *attention, int columns)
{
  const gsize sizes[] = { WORKSPACE_BYTES, ps_cuda_columns_workspace (attention->batch * attention->sequence, columns),
                          ps_cuda_embedding_workspace (attention->batch, attention->sequence),
                          ps_cuda_square_sum_workspace (), ps_cuda_attention_kept_bytes (attention) };
  gsize most = 0;

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    most = MAX (most, sizes[i]);
  return most;
}

static double norm_square (PsQueue *queue, const float *values, size_t n, float factor)
{
  double total = 0;

  ps_cuda_square_sum (queue, values, n, factor);
  copy (queue, &total, queue->workspace, sizeof total);
  await (queue);
  return total;
}

/* --- products: row-major ones in cuBLASLt's column-major terms, and the choice of its algorithms ---
 * A row-major matrix is its transpose there, so y = x w is y^T = w^T x^T, and w comes first. cuBLASLt also does the
 * additions and GELU after a product if it can. All arrays start on PS_CUDA_GRANULE bytes.
 *
 * The algorithm of a shape on a number of multiprocessors is chosen once per process and kept. The library proposes
 * algorithms without split sums, whose order is not fixed. The choice is the first proposal that no other one beats
 * clearly in a trial.
 *
 * Profiles keep the choices that they were measured with, and runs begin with them. The processes of a run agree on one
 * set of choices. A reference on one device takes the choices of the parts that it is compared with
 * (PsDeviceSetting.parts), so that both give the same bits.
 *
 * PIPESIM_CUDA_TRIALS=0 takes the first proposal without a trial. If the library has no product with the wanted ending,
 * a kernel does the ending afterwards. */

#define MAX_PROPOSALS 8
#define N_TRIALS 4

/* A proposal beats another one if it takes less than this part of its time. Smaller differences are chance, and would
 * differ from process to process. */
#define CLEARLY_LESS 0.97f

#define ORIGIN "choices 1, cuBLASLt %" G_GSIZE_FORMAT ", %s"
#define ORIGIN_SIZE 320 /* bytes for the origin of choices: format, library version and name of the GPU */

struct _PsCudaProducts {
  cublasLtHandle_t handle;
  int n_sms;
};

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
} Product;

typedef struct {
  gsize exists; /* 0: the library can't do this product */
  cublasLtMatmulAlgo_t algorithm;
  gsize workspace_bytes;
} Choice;

/* The arrays of a product. */
typedef struct {
  const void *a, *b, *c;
  void *d;
  const void *bias;
  void *aux;
} Arrays;

/* cuBLASLt's objects for a product. */
typedef struct {
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, d;
} Objects;

static void objects_clear (Objects *objects)
{
  if (objects->desc != NULL)
    cublasLtMatmulDescDestroy (objects->desc);
  if (objects->a != NULL)
    cublasLtMatrixLayoutDestroy (objects->a);
  if (objects->b != NULL)
    cublasLtMatrixLayoutDestroy (objects->b);
  if (objects->d != NULL)
    cublasLtMatrixLayoutDestroy (objects->d);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Objects, objects_clear)

static PsCudaProducts *products_of (PsQueue *queue)
{
  return ((PsCudaContext *)queue)->products;
}

PsCudaProducts *ps_cuda_products_new (GError **error)
{
  PsCudaProducts *products = g_new0 (PsCudaProducts, 1);
  const cublasStatus_t status = cublasLtCreate (&products->handle);

  if (status == CUBLAS_STATUS_SUCCESS)
    return products;
  g_free (products);
  return ps_refuse_null (error, PS_ERROR_UNAVAILABLE, "cuda device: opening cuBLASLt: %s",
                         cublasLtGetStatusString (status));
}

void ps_cuda_products_free (PsCudaProducts *products)
{
  if (products == NULL)
    return;
  cublasLtDestroy (products->handle);
  g_free (products);
}

/* One product */

#define SET(attribute, value)                                                                                          \
  (cublasLtMatmulDescSetAttribute (objects->desc, attribute, &(value), sizeof (value)) == CUBLAS_STATUS_SUCCESS)

static gboolean make_layout (cublasLtMatrixLayout_t *layout, int type, int rows, int columns, gboolean transposed,
                             int ld)
{
  return cublasLtMatrixLayoutCreate (layout, (cudaDataType_t)type, (uint64_t)(transposed ? columns : rows),
                                     (uint64_t)(transposed ? rows : columns), ld)
         == CUBLAS_STATUS_SUCCESS;
}

static gboolean set_aux (const Objects *objects, void *aux, const Product *product)
{
  const int64_t ld = product->ldd;

  return aux == NULL
         || (SET (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux) && SET (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld));
}

/* FALSE: the library refuses the description. */
static gboolean make_objects (Objects *objects, const Product *product, const Arrays *arrays)
{
  const int32_t ta = product->transpose_a, tb = product->transpose_b, n_sms = product->n_sms;
  const uint32_t epilogue = (uint32_t)product->epilogue;

  return cublasLtMatmulDescCreate (&objects->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS
         && SET (CUBLASLT_MATMUL_DESC_TRANSA, ta) && SET (CUBLASLT_MATMUL_DESC_TRANSB, tb)
         && SET (CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue) && SET (CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, n_sms)
         && (arrays->bias == NULL || SET (CUBLASLT_MATMUL_DESC_BIAS_POINTER, arrays->bias))
         && set_aux (objects, arrays->aux, product)
         && make_layout (&objects->a, product->type_ab, product->m, product->k, ta == CUBLAS_OP_T, product->lda)
         && make_layout (&objects->b, product->type_ab, product->k, product->n, tb == CUBLAS_OP_T, product->ldb)
         && make_layout (&objects->d, product->type_d, product->m, product->n, FALSE, product->ldd);
}

static cublasStatus_t multiply (PsQueue *queue, const Product *product, const Objects *objects, const Arrays *arrays,
                                const Choice *choice)
{
  const float one = 1, beta = product->add ? 1 : 0;

  return cublasLtMatmul (products_of (queue)->handle, objects->desc, &one, arrays->a, objects->a, arrays->b, objects->b,
                         &beta, arrays->c, objects->d, arrays->d, objects->d, &choice->algorithm, queue->workspace,
                         choice->workspace_bytes, ps_cuda_stream (queue));
}

/* Choosing an algorithm: asks cuBLASLt for proposals, tries them, and remembers the best */

/* Asks for proposals without split sums, whose order of addition is not fixed. Returns the number of usable ones, which
 * come first. */
static int propose (PsQueue *queue, const Objects *objects, cublasLtMatmulHeuristicResult_t *proposals)
{
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE;
  const uint64_t workspace = WORKSPACE_BYTES;
  cublasLtMatmulPreference_t preference;
  int n = 0, n_usable = 0;

  if (cublasLtMatmulPreferenceCreate (&preference) != CUBLAS_STATUS_SUCCESS)
    return 0;
  if (cublasLtMatmulPreferenceSetAttribute (preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                            sizeof workspace)
          != CUBLAS_STATUS_SUCCESS
      || cublasLtMatmulPreferenceSetAttribute (preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                               sizeof reductions)
             != CUBLAS_STATUS_SUCCESS
      || cublasLtMatmulAlgoGetHeuristic (products_of (queue)->handle, objects->desc, objects->a, objects->b, objects->d,
                                         objects->d, preference, MAX_PROPOSALS, proposals, &n)
             != CUBLAS_STATUS_SUCCESS)
    n = 0;
  cublasLtMatmulPreferenceDestroy (preference);
  for (int i = 0; i < n; i++)
    if (proposals[i].state == CUBLAS_STATUS_SUCCESS)
      proposals[n_usable++] = proposals[i];
  return n_usable;
}

static Choice choice_of (const cublasLtMatmulHeuristicResult_t *proposal)
{
  return (Choice){ .exists = TRUE, .algorithm = proposal->algo, .workspace_bytes = proposal->workspaceSize };
}

/* Returns the shortest of some runs in ms; negative: the algorithm fails. */
static float time_choice (PsQueue *queue, const Product *product, const Objects *objects, const Arrays *arrays,
                          const Choice *choice, cudaEvent_t begin, cudaEvent_t end)
{
  const cudaStream_t stream = ps_cuda_stream (queue);
  float best = -1, milliseconds;

  for (guint i = 0; i < N_TRIALS; i++) {
    if (cudaEventRecord (begin, stream) != cudaSuccess
        || multiply (queue, product, objects, arrays, choice) != CUBLAS_STATUS_SUCCESS
        || cudaEventRecord (end, stream) != cudaSuccess || cudaEventSynchronize (end) != cudaSuccess
        || cudaEventElapsedTime (&milliseconds, begin, end) != cudaSuccess)
      return -1;
    best = best < 0 ? milliseconds : MIN (best, milliseconds);
  }
  return best;
}

/* Returns the first of the fastest proposals; it does not exist if none works. Returns the first proposal if none can
 * be tried. Proposals run on scratch arrays: the arrays that a product overwrites must keep their values. */
static Choice try_proposals (PsQueue *queue, const Product *product, const Objects *objects, const Arrays *arrays,
                             const cublasLtMatmulHeuristicResult_t *proposals, int n)
{
  const gsize bytes = (gsize)product->ldd * (gsize)product->n * (product->type_d == CUDA_R_32F ? 4 : 2);
  const gboolean writes_aux = product->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  cudaEvent_t begin = NULL, end = NULL;
  Arrays scratch = *arrays;
  Choice best = choice_of (&proposals[0]);
  float best_time = -1;

  scratch.d = NULL;
  if (cudaMalloc (&scratch.d, bytes) == cudaSuccess
      && (!writes_aux || (cudaMalloc (&scratch.aux, bytes) == cudaSuccess && set_aux (objects, scratch.aux, product)))
      && cudaEventCreateWithFlags (&begin, 0) == cudaSuccess && cudaEventCreateWithFlags (&end, 0) == cudaSuccess) {
    for (int i = 0; i < n; i++) {
      const Choice choice = choice_of (&proposals[i]);
      const float time = time_choice (queue, product, objects, &scratch, &choice, begin, end);

      if (time < 0 || (best_time >= 0 && time >= best_time * CLEARLY_LESS))
        continue;
      best_time = time;
      best = choice;
    }
    best.exists = best_time >= 0;
  }
  cudaStreamSynchronize (ps_cuda_stream (queue));
  if (begin != NULL)
    cudaEventDestroy (begin);
  if (end != NULL)
    cudaEventDestroy (end);
  cudaFree (scratch.d);
  if (scratch.aux != arrays->aux)
    cudaFree (scratch.aux);
  set_aux (objects, arrays->aux, product);
  cudaGetLastError ();
  return best;
}

static guint product_hash (gconstpointer product)
{
  const guchar *bytes = product;
  guint hash = 5381;

  for (gsize i = 0; i < sizeof (Product); i++)
    hash = hash * 33 + bytes[i];
  return hash;
}

static gboolean product_equal (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, sizeof (Product)) == 0;
}

static GMutex choices_mutex;
static GHashTable *choices; /* Choice by Product; under choices_mutex, NULL before the first */

static void remember (const Product *product, const Choice *choice)
{
  if (choices == NULL)
    choices = g_hash_table_new_full (product_hash, product_equal, g_free, g_free);
  g_hash_table_insert (choices, g_memdup2 (product, sizeof *product), g_memdup2 (choice, sizeof *choice));
}

/* Returns the process's choice for the product. The first call makes it. From any thread, one at a time. */
static Choice choose (PsQueue *queue, const Product *product, const Objects *objects, const Arrays *arrays)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&choices_mutex);
  const Choice *known = choices != NULL ? g_hash_table_lookup (choices, product) : NULL;
  cublasLtMatmulHeuristicResult_t proposals[MAX_PROPOSALS];
  Choice choice = { .exists = FALSE };

  if (known != NULL)
    return *known;
  const int n = propose (queue, objects, proposals);
  if (n == 1 || (n > 1 && g_strcmp0 (g_getenv ("PIPESIM_CUDA_TRIALS"), "0") == 0))
    choice = choice_of (&proposals[0]);
  else if (n > 1)
    choice = try_proposals (queue, product, objects, arrays, proposals, n);
  remember (product, &choice);
  return choice;
}

/* Bytes for other processes: the origin, then pairs of product and choice as they lie in memory */

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
    g_byte_array_append (bytes, product, sizeof (Product));
    g_byte_array_append (bytes, choice, sizeof (Choice));
  }
  return g_byte_array_free_to_bytes (bytes);
}

gboolean ps_cuda_adopt_choices (const PsCudaContext *context, GBytes *bytes, GError **error)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&choices_mutex);
  const gsize pair = sizeof (Product) + sizeof (Choice);
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
    Product product;
    Choice choice;

    memcpy (&product, at, sizeof product);
    memcpy (&choice, at + sizeof product, sizeof choice);
    remember (&product, &choice);
  }
  return TRUE;
}

/* Products of a stage */

/* FALSE: the library has no such product. Other problems are noted. */
static gboolean run_product (PsQueue *queue, const Product *product, const Arrays *arrays)
{
  g_auto (Objects) objects = { 0 };
  Choice choice = { .exists = FALSE };
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

  if (make_objects (&objects, product, arrays))
    choice = choose (queue, product, &objects, arrays);
  if (choice.exists)
    status = multiply (queue, product, &objects, arrays, &choice);
  if (status != CUBLAS_STATUS_SUCCESS)
    ps_queue_note (queue, "matrix product", cublasLtGetStatusString (status));
  return choice.exists;
}

/* Runs a product that has no substitute, and notes it as a problem if the library doesn't have it. */
static void need_product (PsQueue *queue, const Product *product, const Arrays *arrays)
{
  if (run_product (queue, product, arrays))
    return;
  g_autofree char *what = g_strdup_printf ("matrix product of %d x %d x %d", product->m, product->n, product->k);
  ps_queue_note (queue, what, "cuBLASLt has no algorithm for it");
}

/* d = op (a) op (b) of dense matrices of the device's elements. */
static Product product_of (PsQueue *queue, int m, int n, int k, cublasOperation_t a, cublasOperation_t b)
{
  const int type = queue->element == PS_ELEMENT_BF16 ? CUDA_R_16BF : CUDA_R_32F;

  return (Product){ .m = m,
                    .n = n,
                    .k = k,
                    .transpose_a = a,
                    .transpose_b = b,
                    .lda = a == CUBLAS_OP_T ? k : m,
                    .ldb = b == CUBLAS_OP_T ? n : k,
                    .ldd = m,
                    .type_ab = type,
                    .type_d = type,
                    .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                    .n_sms = products_of (queue)->n_sms };
}

/* y^T (out x rows) = w^T (out x in) x^T (in x rows) */
static void linear (PsQueue *queue, void *y, const void *x, const void *w, const void *bias, const void *residual,
                    int rows, int in, int out)
{
  Product product = product_of (queue, out, rows, in, CUBLAS_OP_N, CUBLAS_OP_N);
  Arrays arrays = { .a = w, .b = x, .c = residual != NULL ? residual : y, .d = y, .bias = bias };

  product.add = residual != NULL;
  if (bias != NULL) {
    product.epilogue = CUBLASLT_EPILOGUE_BIAS;
    if (run_product (queue, &product, &arrays))
      return;
    product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    arrays.bias = NULL;
  }
  need_product (queue, &product, &arrays);
  if (bias != NULL)
    ps_cuda_bias_add (queue, y, bias, rows, out);
}

/* TRUE for bf16: the library does not say how exact its tanh is, but it is exact enough for results rounded to bf16. */
static gboolean takes_fused_gelu (const PsQueue *queue)
{
  return queue->element == PS_ELEMENT_BF16;
}

static void linear_gelu (PsQueue *queue, void *g, void *z, const void *x, const void *w, const void *bias, int rows,
                         int in, int out)
{
  Product product = product_of (queue, out, rows, in, CUBLAS_OP_N, CUBLAS_OP_N);

  product.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  if (takes_fused_gelu (queue)
      && run_product (queue, &product, &(Arrays){ .a = w, .b = x, .c = g, .d = g, .bias = bias, .aux = z }))
    return;
  product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  need_product (queue, &product, &(Arrays){ .a = w, .b = x, .c = z, .d = z });
  ps_cuda_gelu (queue, g, z, bias, rows, out);
}

/* dx^T (in x rows) = w (in x out) dy^T (out x rows) */
static void linear_input (PsQueue *queue, void *dx, const void *dy, const void *w, int rows, int in, int out)
{
  const Product product = product_of (queue, in, rows, out, CUBLAS_OP_T, CUBLAS_OP_N);

  need_product (queue, &product, &(Arrays){ .a = w, .b = dy, .c = dx, .d = dx });
}

static void linear_gelu_input (PsQueue *queue, void *dz, const void *dy, const void *w, const void *z, int rows, int in,
                               int out)
{
  Product product = product_of (queue, in, rows, out, CUBLAS_OP_T, CUBLAS_OP_N);

  product.epilogue = CUBLASLT_EPILOGUE_DGELU;
  if (takes_fused_gelu (queue)
      && run_product (queue, &product, &(Arrays){ .a = w, .b = dy, .c = dz, .d = dz, .aux = (void *)z }))
    return;
  linear_input (queue, dz, dy, w, rows, in, out);
  ps_cuda_gelu_input (queue, dz, dz, z, (gsize)rows * (gsize)in);
}

/* dw^T (out x in) += dy^T (out x rows) x (rows x in) */
static void linear_weights (PsQueue *queue, float *dw, const void *x, const void *dy, int rows, int in, int out)
{
  Product product = product_of (queue, out, in, rows, CUBLAS_OP_N, CUBLAS_OP_T);

  product.type_d = CUDA_R_32F;
  product.add = TRUE;
  need_product (queue, &product, &(Arrays){ .a = dy, .b = x, .c = dw, .d = dw });
}

/* --- graphs: the launches of ops, captured --- */

typedef struct {
  guint most;
  GHashTable *made; /* cudaGraphExec_t by GBytes */
} Captures;

static void destroy (gpointer made)
{
  cudaGraphExecDestroy (made);
}

static void *captures_new (PsQueue *queue, unsigned most)
{
  Captures *captures;

  if (g_strcmp0 (g_getenv ("PIPESIM_CUDA_GRAPHS"), "1") != 0)
    return NULL;
  captures = g_new0 (Captures, 1);
  captures->most = most;
  captures->made = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, destroy);
  return captures;
}

static void captures_free (void *data)
{
  Captures *captures = data;

  if (captures == NULL)
    return;
  g_hash_table_unref (captures->made);
  g_free (captures);
}

/* Returns the captured graph, or NULL after noting a problem. The capture is of this thread alone: threads of other
 * devices go on, and may allocate. */
static cudaGraphExec_t capture (PsQueue *queue, PsLaunch launch, gpointer data)
{
  const cudaStream_t stream = ps_cuda_stream (queue);
  const cudaError_t status = cudaStreamBeginCapture (stream, cudaStreamCaptureModeThreadLocal);
  cudaGraph_t captured = NULL;
  cudaGraphExec_t made = NULL;

  ps_cuda_note (queue, "beginning to capture an op", status);
  if (status != cudaSuccess)
    return NULL;
  launch (data);
  ps_cuda_note (queue, "capturing an op", cudaStreamEndCapture (stream, &captured));
  if (captured == NULL)
    return NULL;
  ps_cuda_note (queue, "making a graph of an op", cudaGraphInstantiate (&made, captured, 0));
  cudaGraphDestroy (captured);
  return made;
}

static void run_captured (void *data, PsQueue *queue, const void *key, size_t key_bytes, PsLaunch launch,
                          void *launch_data)
{
  Captures *captures = data;
  g_autoptr (GBytes) wanted = g_bytes_new_static (key, key_bytes);
  cudaGraphExec_t made = g_hash_table_lookup (captures->made, wanted);

  if (made == NULL && g_hash_table_size (captures->made) >= captures->most) {
    launch (launch_data);
    return;
  }
  if (made == NULL) {
    made = capture (queue, launch, launch_data);
    if (made == NULL)
      return;
    g_hash_table_insert (captures->made, g_bytes_new (key, key_bytes), made);
  }
  ps_cuda_note (queue, "launching an op's graph", cudaGraphLaunch (made, ps_cuda_stream (queue)));
}

static void set_part (PsQueue *queue, unsigned n_sms)
{
  products_of (queue)->n_sms = (int)n_sms;
}

const PsKernels ps_cuda_kernels = {
  .name = "cuda",
  .bf16 = true,
  .warms_up = true,
  .alignment = 128,
  .row_alignment = 8,
  .check = check,
  .pool_new = ps_cuda_memory_new,
  .clear = clear,
  .copy = copy,
  .await = await,
  .workspace = workspace,
  .set_part = set_part,
  .linear = linear,
  .linear_gelu = linear_gelu,
  .linear_input = linear_input,
  .linear_gelu_input = linear_gelu_input,
  .linear_weights = linear_weights,
  .bias_gradient = ps_cuda_bias_gradient,
  .norm = ps_cuda_norm,
  .norm_input = ps_cuda_norm_input,
  .norm_weights = ps_cuda_norm_weights,
  .swiglu = ps_cuda_swiglu,
  .swiglu_input = ps_cuda_swiglu_input,
  .rows_copy = ps_cuda_rows_copy,
  .rows_add = ps_cuda_rows_add,
  .to_bf16 = ps_cuda_to_bf16,
  .rotary_table = ps_cuda_rotary_table,
  .rotary = ps_cuda_rotary,
  .embedding = ps_cuda_embedding,
  .embedding_weights = ps_cuda_embedding_weights,
  .cross_entropy = ps_cuda_cross_entropy,
  .loss_sum = ps_cuda_loss_sum,
  .attention_kept_bytes = ps_cuda_attention_kept_bytes,
  .attention = ps_cuda_attention,
  .attention_backward = ps_cuda_attention_backward,
  .adam = ps_cuda_adam,
  .adam_try = ps_cuda_adam_try,
  .norm_square = norm_square,
  .captures_new = captures_new,
  .captures_free = captures_free,
  .capture = run_captured,
};

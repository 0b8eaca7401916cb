/* cuda-products.c - row-major products in cuBLASLt's column-major terms. A row-major matrix is its transpose there, so
 * y = x w is y^T = w^T x^T, and w comes first. */
#include "cuda-products.h"

#include "cuda-algorithms.h"

/* The size that cuBLAS's documentation recommends for Hopper: "cublasSetWorkspace". */
#define WORKSPACE_BYTES ((gsize)32 << 20)

struct _PsCudaProducts {
  PsCudaContext *context;
  PsCudaElement element;
  cublasLtHandle_t handle;
  int n_sms;
};

gsize ps_cuda_products_workspace (void)
{
  return WORKSPACE_BYTES;
}

PsCudaProducts *ps_cuda_products_new (PsCudaContext *context, PsCudaElement element, GError **error)
{
  cublasLtHandle_t handle;
  const cublasStatus_t status = cublasLtCreate (&handle);

  if (status != CUBLAS_STATUS_SUCCESS)
    return ps_refuse_null (error, PS_ERROR_UNAVAILABLE, "cuda device: opening cuBLASLt: %s",
                           cublasLtGetStatusString (status));
  PsCudaProducts *products = g_new0 (PsCudaProducts, 1);
  products->context = context;
  products->element = element;
  products->handle = handle;
  return products;
}

void ps_cuda_products_set_part (PsCudaProducts *products, guint n_sms)
{
  products->n_sms = (int)n_sms;
}

void ps_cuda_products_free (PsCudaProducts *products)
{
  if (products == NULL)
    return;
  cublasLtDestroy (products->handle);
  g_free (products);
}

/* FALSE: the library has no such product. Other problems are noted. */
static gboolean run_product (PsCudaProducts *products, const PsCudaProduct *product, PsCudaCall *call)
{
  PsCudaChoice choice = { .exists = FALSE };
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

  call->handle = products->handle;
  call->workspace = products->context->base.workspace;
  call->workspace_bytes = WORKSPACE_BYTES;
  if (ps_cuda_call_init (call, product))
    choice = ps_cuda_choose (product, call, products->context);
  if (choice.exists)
    status = ps_cuda_call_run (call, product, &choice, call->d, call->aux, products->context->stream);
  if (status != CUBLAS_STATUS_SUCCESS)
    ps_queue_note (&products->context->base, "matrix product", cublasLtGetStatusString (status));
  ps_cuda_call_clear (call);
  return choice.exists;
}

/* Runs a product that has no substitute, and notes it as a problem if the library doesn't have it. */
static void need_product (PsCudaProducts *products, const PsCudaProduct *product, PsCudaCall *call)
{
  if (run_product (products, product, call))
    return;
  g_autofree char *what = g_strdup_printf ("matrix product of %d x %d x %d", product->m, product->n, product->k);
  ps_queue_note (&products->context->base, what, "cuBLASLt has no algorithm for it");
}

static int element_type (const PsCudaProducts *products)
{
  return products->element == PS_CUDA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* y^T (out x rows) = w^T (out x in) x^T (in x rows) */
static PsCudaProduct forward_product (const PsCudaProducts *products, int rows, int in, int out, int epilogue,
                                      gboolean add)
{
  return (PsCudaProduct){ .m = out,
                          .n = rows,
                          .k = in,
                          .transpose_a = CUBLAS_OP_N,
                          .transpose_b = CUBLAS_OP_N,
                          .lda = out,
                          .ldb = in,
                          .ldd = out,
                          .type_ab = element_type (products),
                          .type_d = element_type (products),
                          .epilogue = epilogue,
                          .add = add,
                          .n_sms = products->n_sms };
}

/* dx^T (in x rows) = w (in x out) dy^T (out x rows) */
static PsCudaProduct input_product (const PsCudaProducts *products, int rows, int in, int out, int epilogue)
{
  return (PsCudaProduct){ .m = in,
                          .n = rows,
                          .k = out,
                          .transpose_a = CUBLAS_OP_T,
                          .transpose_b = CUBLAS_OP_N,
                          .lda = out,
                          .ldb = out,
                          .ldd = in,
                          .type_ab = element_type (products),
                          .type_d = element_type (products),
                          .epilogue = epilogue,
                          .n_sms = products->n_sms };
}

/* dw^T (out x in) += dy^T (out x rows) x (rows x in) */
static PsCudaProduct weights_product (const PsCudaProducts *products, int rows, int in, int out)
{
  return (PsCudaProduct){ .m = out,
                          .n = in,
                          .k = rows,
                          .transpose_a = CUBLAS_OP_N,
                          .transpose_b = CUBLAS_OP_T,
                          .lda = out,
                          .ldb = in,
                          .ldd = out,
                          .type_ab = element_type (products),
                          .type_d = CUDA_R_32F,
                          .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                          .add = TRUE,
                          .n_sms = products->n_sms };
}

void ps_cuda_linear (PsCudaProducts *products, void *y, const void *x, const void *w, const void *bias,
                     const void *residual, int rows, int in, int out)
{
  PsCudaContext *context = products->context;
  PsCudaCall call = { .a = w, .b = x, .c = residual != NULL ? residual : y, .d = y, .bias = bias };
  PsCudaProduct product = forward_product (
      products, rows, in, out, bias != NULL ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT, residual != NULL);

  if (bias == NULL)
    need_product (products, &product, &call);
  else if (!run_product (products, &product, &call)) {
    call = (PsCudaCall){ .a = w, .b = x, .c = residual != NULL ? residual : y, .d = y };
    product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    need_product (products, &product, &call);
    ps_cuda_note (context, "bias", ps_cuda_bias_add (products->element, y, bias, rows, out, context->stream));
  }
}

/* TRUE for bf16: the library does not say how exact its tanh is, but it is exact enough for results rounded to bf16. */
static gboolean takes_fused_gelu (const PsCudaProducts *products)
{
  return products->element == PS_CUDA_BF16;
}

void ps_cuda_linear_gelu (PsCudaProducts *products, void *g, void *z, const void *x, const void *w, const void *bias,
                          int rows, int in, int out)
{
  PsCudaContext *context = products->context;
  PsCudaCall call = { .a = w, .b = x, .c = g, .d = g, .bias = bias, .aux = z };
  PsCudaProduct product = forward_product (products, rows, in, out, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, FALSE);

  if (takes_fused_gelu (products) && run_product (products, &product, &call))
    return;
  call = (PsCudaCall){ .a = w, .b = x, .c = z, .d = z };
  product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  need_product (products, &product, &call);
  ps_cuda_note (context, "GELU", ps_cuda_gelu (products->element, g, z, bias, rows, out, context->stream));
}

void ps_cuda_linear_input (PsCudaProducts *products, void *dx, const void *dy, const void *w, int rows, int in, int out)
{
  PsCudaCall call = { .a = w, .b = dy, .c = dx, .d = dx };
  const PsCudaProduct product = input_product (products, rows, in, out, CUBLASLT_EPILOGUE_DEFAULT);

  need_product (products, &product, &call);
}

void ps_cuda_linear_gelu_input (PsCudaProducts *products, void *dz, const void *dy, const void *w, const void *z,
                                int rows, int in, int out)
{
  PsCudaContext *context = products->context;
  PsCudaCall call = { .a = w, .b = dy, .c = dz, .d = dz, .aux = (void *)z };
  const PsCudaProduct product = input_product (products, rows, in, out, CUBLASLT_EPILOGUE_DGELU);

  if (takes_fused_gelu (products) && run_product (products, &product, &call))
    return;
  ps_cuda_linear_input (products, dz, dy, w, rows, in, out);
  ps_cuda_note (context, "gradient of GELU",
                ps_cuda_gelu_input (products->element, dz, dz, z, (gsize)rows * (gsize)in, context->stream));
}

void ps_cuda_linear_weights (PsCudaProducts *products, float *dw, const void *x, const void *dy, int rows, int in,
                             int out)
{
  PsCudaCall call = { .a = dy, .b = x, .c = dw, .d = dw };
  const PsCudaProduct product = weights_product (products, rows, in, out);

  need_product (products, &product, &call);
}

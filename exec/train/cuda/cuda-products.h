/* cuda-products.h - the matrix products of a stage, by cuBLASLt, which also does the additions and GELU after a product
 * if it can.
 *
 * Matrices are dense and row-major: x is rows x in, w is in x out, y is rows x out; `element` is the device's. Sums run
 * in float. All arrays start on PS_CUDA_GRANULE bytes.
 *
 * The algorithm of a shape on a number of multiprocessors is chosen once per process and kept. The library proposes
 * algorithms without split sums, whose order is not fixed. The choice is the first
 * proposal that no other one beats clearly in a trial.
 *
 * Profiles keep the choices that they were measured with, and runs begin with them. The processes of a run agree on one
 * set of choices. A reference on one device takes the choices of the parts that it is compared with
 * (PsDeviceSetting.parts), so that both give the same bits.
 *
 * PIPESIM_CUDA_TRIALS=0 takes the first proposal without a trial. If the library has no product with the wanted ending,
 * a kernel of kernels.h does the ending afterwards.
 */
#pragma once

#include "cuda-context.h"
#include "cuda-memory.h"
#include "kernels.h"

typedef struct _PsCudaProducts PsCudaProducts;

/* Returns the bytes of the workspace that products need. */
gsize ps_cuda_products_workspace (void);

/* context outlives the products and is current; its queue has a workspace before the first product. Problems during
 * products are noted in the context. */
PsCudaProducts *ps_cuda_products_new (PsCudaContext *context, PsCudaElement element, GError **error);
void ps_cuda_products_free (PsCudaProducts *products);

/* Chooses for a part of n_sms multiprocessors from now on, whatever part runs the products. Must be called before the
 * first product. */
void ps_cuda_products_set_part (PsCudaProducts *products, guint n_sms);

/* y = x w + bias + residual; bias [out] and residual NULL: none. y may be residual. */
void ps_cuda_linear (PsCudaProducts *products, void *y, const void *x, const void *w, const void *bias,
                     const void *residual, int rows, int in, int out);

/* z = x w + bias, g = GELU (z) */
void ps_cuda_linear_gelu (PsCudaProducts *products, void *g, void *z, const void *x, const void *w, const void *bias,
                          int rows, int in, int out);

/* dx = dy w^T */
void ps_cuda_linear_input (PsCudaProducts *products, void *dx, const void *dy, const void *w, int rows, int in,
                           int out);

/* dz = (dy w^T) * GELU' (z); dz is not z. */
void ps_cuda_linear_gelu_input (PsCudaProducts *products, void *dz, const void *dy, const void *w, const void *z,
                                int rows, int in, int out);

/* dw += x^T dy */
void ps_cuda_linear_weights (PsCudaProducts *products, float *dw, const void *x, const void *dy, int rows, int in,
                             int out);

/* cuda-products.h - the matrix products of a stage, by cuBLASLt, with what can be done on the way out of a product done
 * there.
 *
 * Matrices are dense and row-major: x is rows x in, w is in x out, y is rows x out; `element` is the device's. Sums run
 * in float. All arrays start on PS_CUDA_GRANULE bytes.
 *
 * The algorithm of each shape on so many multiprocessors is chosen once per process and kept: of the library's
 * proposals without split sums (whose order would not be fixed) the first that no other beats clearly in a trial.
 * Profiles keep the choices that they were measured with, and runs begin with those. The processes of a run make their
 * choices the same (exec/processes/choices.h), and a reference on one device takes those of the parts that it is
 * compared with (PsDeviceSetting.parts), so that both give the same bits. PIPESIM_CUDA_TRIALS=0 takes the first
 * proposal without a trial. Where the library has no product with the wanted ending, a kernel of kernels.h does it
 * afterwards.
 */
#ifndef PIPESIM_CUDA_PRODUCTS_H
#define PIPESIM_CUDA_PRODUCTS_H

#include "cuda-context.h"
#include "cuda-sizes.h"

typedef struct _PsCudaProducts PsCudaProducts;

/* Bytes of workspace that ps_cuda_products_new wants. */
gsize ps_cuda_products_workspace (void);

/* context and workspace outlive it; the context is current. Problems during products are noted in the context. */
PsCudaProducts *ps_cuda_products_new (PsCudaContext *context, PsCudaElement element, void *workspace, GError **error);
void ps_cuda_products_free (PsCudaProducts *products);

/* Products from now on are those of a part of so many multiprocessors, whatever runs them. Due before the first. */
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

#endif

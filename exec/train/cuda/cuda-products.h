/* cuda-products.h - the matrix products of a stage, by cuBLASLt, which also does the additions and GELU after a product
 * if it can.
 *
 * They are functions of the table of kernels (cuda-kernels.c). All arrays start on PS_CUDA_GRANULE bytes.
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
 * a kernel does the ending afterwards.
 */
#pragma once

#include "cuda-context.h"

typedef struct _PsCudaProducts PsCudaProducts;

/* For the queue of the context that is current. NULL with an error. */
PsCudaProducts *ps_cuda_products_new (GError **error);
void ps_cuda_products_free (PsCudaProducts *products);

/* ps_cuda_choices returns all choices of the process so far; ps_cuda_adopt_choices takes over those of another process.
 * See PsDeviceClass. Choices are valid for one version of the library and one model of GPU. */
GBytes *ps_cuda_choices (const PsCudaContext *context);
gboolean ps_cuda_adopt_choices (const PsCudaContext *context, GBytes *choices, GError **error);

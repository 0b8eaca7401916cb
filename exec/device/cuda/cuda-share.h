/* cuda-share.h - which GPU a device gets, and how many multiprocessors of it. Pure arithmetic. */
#ifndef PIPESIM_CUDA_SHARE_H
#define PIPESIM_CUDA_SHARE_H

#include <pipesim/device.h>

/* A device's place among those on its GPU. */
typedef struct
{
  guint gpu;   /* ordinal */
  guint first; /* the first device there, as in PsDeviceSetting.index */
  guint n;     /* devices there; 1: it has the GPU to itself */
} PsCudaPlace;

/* Devices spread over GPUs in runs: device i of n is on GPU i when there are enough, else on floor (i * n_gpus / n).
 * exclusive: each has one to itself, GPU i mod n_gpus. See PsDeviceSetting; n_gpus > 0. */
PsCudaPlace ps_cuda_place (guint index, guint n_local, gboolean exclusive, guint n_gpus);

/* Multiprocessors that each of n devices gets of a GPU that has n_sms of them and splits them into equal parts of at
 * least `least`, which are multiples of `multiple` (at least 8 and multiples of 8 on compute capability 9.0: CUDA
 * Driver API, "Green Contexts"): as many as can be. Errors: PS_ERROR_USAGE when that is none. */
gboolean ps_cuda_share_evenly (guint n_sms, guint least, guint multiple, guint n, guint *sms, GError **error);

/* units[n]: how many of n_units equal pieces of a GPU each device gets, in proportion to weights[n], each above 0: by
 * the method of Webster and Sainte-Lague (the next piece is for the largest weight / (2 pieces + 1), the first such
 * device where several are), but one at least. Devices of one weight get equally many; what that leaves over stays
 * idle. Errors: PS_ERROR_USAGE when there are fewer pieces than devices. */
gboolean ps_cuda_share_units (guint n_units, guint n, const guint *weights, guint *units, GError **error);

#endif

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

/* Multiprocessors of the devices on one GPU that has n_sms of them and splits them into parts of at least `least`,
 * which are multiples of `multiple` (at least 8 and multiples of 8 on compute capability 9.0: CUDA Driver API, "Green
 * Contexts"). wanted NULL: n equal parts, as large as they can be; else checked and copied. sms has room for n. Errors:
 * PS_ERROR_USAGE. */
gboolean ps_cuda_share (guint n_sms, guint least, guint multiple, guint n, const guint *wanted, guint *sms,
                        GError **error);

#endif

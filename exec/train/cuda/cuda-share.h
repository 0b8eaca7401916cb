/* cuda-share.h - chooses a device's GPU and its number of multiprocessors. Pure arithmetic. */
#pragma once

#include <pipesim/device.h>

/* A device's place among the devices on its GPU. */
typedef struct {
  guint gpu;   /* ordinal */
  guint first; /* the first device on this GPU, numbered as PsDeviceSetting.index */
  guint n;     /* devices on this GPU; 1: this one has it to itself */
} PsCudaPlace;

/* Devices spread over GPUs in runs. Device i of n is on GPU i if there are enough GPUs, else on GPU floor (i * n_gpus /
 * n). exclusive: each device has a GPU to itself, GPU i mod n_gpus. See PsDeviceSetting; n_gpus > 0. */
PsCudaPlace ps_cuda_place (guint index, guint n_local, gboolean exclusive, guint n_gpus);

/* Splits n_sms multiprocessors into n equal parts, as large as possible. A part has at least `least` of them and a
 * multiple of `multiple`: both 8 on compute capability 9.0 (CUDA Driver API, "Green Contexts"). Errors: PS_ERROR_USAGE
 * if not even the smallest parts fit. */
gboolean ps_cuda_share_evenly (guint n_sms, guint least, guint multiple, guint n, guint *sms, GError **error);

/* Divides n_units equal pieces of a GPU among n devices in proportion to weights[n], each above 0, into units[n]. Every
 * device gets at least one. The next piece goes to the largest weight / (2 pieces + 1), to the first such device of
 * several (Webster, Sainte-Lague). Devices of equal weight get equally many; the rest stays idle. Errors:
 * PS_ERROR_USAGE if there are fewer pieces than devices. */
gboolean ps_cuda_share_units (guint n_units, guint n, const guint *weights, guint *units, GError **error);

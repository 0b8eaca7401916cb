/* cuda-sum.h - sums over devices of one process that share layers, in the order of their streams: no host waits for a
 * GPU. Each device adds up the numbers of all by itself, in memory of its own, and writes them over its numbers when
 * all others have read these. */
#pragma once

#include "cuda-context.h"

/* A device's part in sums; zeros at first. */
typedef struct {
  cudaEvent_t shown; /* its numbers are there */
  cudaEvent_t added; /* it has read the numbers of all */
  float *totals;     /* room for twice the numbers of a boundary tensor, which the device owns */
} PsCudaSum;

/* See PsDeviceClass.sum; all: [sum->n_devices]. */
gboolean ps_cuda_sum (const PsCudaContext *context, PsCudaSum *const *all, const PsDeviceSum *sum, PsSumPhase phase,
                      GError **error);
void ps_cuda_sum_clear (PsCudaSum *sum);

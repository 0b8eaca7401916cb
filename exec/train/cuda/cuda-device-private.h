/* cuda-device-private.h - a device of the class "cuda", which cuda-device.c (it and its stages), cuda-tensors.c
 * (messages and their memory) and cuda-ops.c (ops, one by one or ahead of the host) share. */
#pragma once

#include "cuda-cache.h"
#include "cuda-occupy.h"
#include "cuda-queue.h"
#include "cuda-sum.h"
#include "train/transformer.h"

typedef struct {
  PsTransformer transformer;
  PsCudaContext context, twin; /* the twin runs the second op of a pair; it is not open where there are no pairs */
  PsCudaContext copies;        /* a twin for copies of messages; there with PsDeviceSetting.ahead */
  PsCudaQueue queue;
  PsCudaJob *left; /* the first op of a pair, under way; NULL: no pair is */
  GMutex mutex;
  GQueue taken; /* PsCudaTensor that have been freed while another device still copies them; under mutex */
  PsCudaFlush flush;
  PsCudaHolder holder;
  PsCudaSum sum;
} PsCudaDevice;

typedef struct {
  PsTensor base;
  cudaEvent_t taken; /* another device has copied it; NULL: none does, or the copy is done */
} PsCudaTensor;

static inline PsCudaDevice *ps_cuda_device (PsDevice *device)
{
  return (PsCudaDevice *)device;
}

/* Members of PsDeviceClass. */
PsTensor *ps_cuda_tensor_new (PsDevice *device);
void ps_cuda_tensor_free (PsTensor *tensor);
gboolean ps_cuda_tensor_write (PsTensor *tensor, const void *bytes, GError **error);
gboolean ps_cuda_tensor_read (PsTensor *tensor, void *bytes, GError **error);
gboolean ps_cuda_tensor_copy (PsTensor *to, PsTensor *from, PsTimes *times, GError **error);
gboolean ps_cuda_device_start (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, PsTimes *times,
                               GError **error);
gboolean ps_cuda_device_await (PsDevice *device, GError **error);
gboolean ps_cuda_device_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error);

/* A tensor of the device with that block, which it takes. */
PsTensor *ps_cuda_tensor_wrap (PsCudaDevice *cuda, void *block);

/* Frees the tensors that other devices have copied by now. */
void ps_cuda_tensors_free_taken (PsCudaDevice *cuda);

/* Frees a tensor (PsCudaTensor), whether or not it is copied. */
void ps_cuda_tensor_destroy (gpointer data);

/* Returns a new event that only streams wait for; NULL on failure. */
cudaEvent_t ps_cuda_mark (cudaStream_t stream, GError **error);

/* Makes the stream wait for the event; NULL: for nothing. */
gboolean ps_cuda_follow (cudaStream_t stream, cudaEvent_t event, GError **error);

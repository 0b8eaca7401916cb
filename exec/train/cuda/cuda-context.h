/* cuda-context.h - a device's part of a GPU, and its memory. A part is the whole GPU, or some of its multiprocessors as
 * a green context. It has one stream for its ops; a twin has another stream in the same part. */
#pragma once

#include "train/memory.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include "train/kernels.h"

#include <pipesim/device.h>

typedef struct _PsCudaProducts PsCudaProducts;

typedef struct {
  PsQueue base;
  int gpu;           /* ordinal */
  guint n_sms;       /* multiprocessors that this device has */
  guint n_sharing;   /* devices that share the GPU, this one included */
  CUgreenCtx green;  /* NULL: the whole GPU */
  CUcontext current; /* context of the green context */
  cudaStream_t stream;
  cudaEvent_t done;         /* for waits */
  PsCudaProducts *products; /* NULL: it only copies */
} PsCudaContext;

/* A device's place among the devices on its GPU. */
typedef struct {
  guint gpu;   /* ordinal */
  guint first; /* the first device on this GPU, numbered as PsDeviceSetting.index */
  guint n;     /* devices on this GPU; 1: this one has it to itself */
} PsCudaPlace;

/* Devices spread over GPUs in runs. Device i of n is on GPU i if there are enough GPUs, else on GPU floor (i * n_gpus /
 * n). With PsDeviceSetting.exclusive each device has a GPU to itself, GPU i mod n_gpus. n_gpus > 0. */
PsCudaPlace ps_cuda_place (const PsDeviceSetting *setting, guint n_gpus);

/* Checks for a driver and a GPU of compute capability 8.0 or later. One line says what is missing. */
gboolean ps_cuda_available (GError **error);

/* Opens a green context for a device that shares its GPU, if the driver can make one. Otherwise the devices share the
 * primary context, and ps_cuda_sharing says so. Every device makes the whole split of its GPU again: equal splits give
 * equal parts. Without PsDeviceSetting.shares parts are equal and as large as possible. Errors: PS_ERROR_USAGE if not
 * even the smallest parts fit.
 *
 * The calling thread has no current green context afterwards: a green context can be current to one thread at a time
 * (CUDA Driver API, cuGreenCtxCreate). After a failure, too, the caller must call ps_cuda_context_close. */
gboolean ps_cuda_context_open (PsCudaContext *context, const PsDeviceSetting *setting, GError **error);
void ps_cuda_context_close (PsCudaContext *context);

/* After a failure, too, the caller must call ps_cuda_context_close_twin, and before the context is closed. */
gboolean ps_cuda_context_open_twin (PsCudaContext *twin, const PsCudaContext *context, GError **error);
void ps_cuda_context_close_twin (PsCudaContext *twin);

/* Makes the context current to the calling thread. */
gboolean ps_cuda_context_enter (const PsCudaContext *context, GError **error);

/* Says how the devices of this process share GPUs: "green contexts of 32 multiprocessors", or the size of each part if
 * they differ. NULL: no device shares one. Free with g_free. */
char *ps_cuda_sharing (void);

/* See PsDeviceClass.warning: multiprocessors that are idle. */
char *ps_cuda_idle (void);

/* Waits for the event until that moment of ps_clock_now; the thread sleeps, or spins with PIPESIM_CUDA_WAIT=spin.
 * cudaErrorNotReady: it has not come by then. */
cudaError_t ps_cuda_poll (cudaEvent_t event, gint64 until_ns);

/* Makes an event that tells times. A thread that waits for it sleeps, or spins with PIPESIM_CUDA_WAIT=spin. */
gboolean ps_cuda_event (cudaEvent_t *event, GError **error);

/* Copies between host and device memory in any direction, after all work of the stream. Returns when it is done. */
gboolean ps_cuda_copy (PsCudaContext *context, void *to, const void *from, gsize bytes, GError **error);

/* Turns the status of a call outside an op into an error. */
gboolean ps_cuda_ok (const char *what, cudaError_t status, GError **error);

/* Blocks of a device's memory count in whole PS_CUDA_GRANULE bytes and start on whole PS_CUDA_GRANULE bytes, which the
 * fastest matrix products need. */
#define PS_CUDA_GRANULE 256

/* Makes a cache of blocks from cudaMalloc: the driver's own pools round sizes and keep memory in ways that can't be
 * counted exactly. The memory belongs to the GPU of the context that is current when blocks are taken. The same context
 * must be current when it is freed. */
PsMemoryPool *ps_cuda_memory_new (void);

/* FALSE: it is the host's. */
static inline gboolean ps_cuda_is_on_gpu (const void *memory)
{
  struct cudaPointerAttributes attributes;

  return cudaPointerGetAttributes (&attributes, memory) == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
}

/* The matrix products of a stage, in cuda-kernels.c. */

/* For the queue of the context that is current. NULL with an error. */
PsCudaProducts *ps_cuda_products_new (GError **error);
void ps_cuda_products_free (PsCudaProducts *products);

/* ps_cuda_choices returns all choices of the process so far; ps_cuda_adopt_choices takes over those of another process.
 * See PsDeviceClass. Choices are valid for one version of the library and one model of GPU. */
GBytes *ps_cuda_choices (const PsCudaContext *context);
gboolean ps_cuda_adopt_choices (const PsCudaContext *context, GBytes *choices, GError **error);

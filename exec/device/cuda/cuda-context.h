/* cuda-context.h - a device's part of a GPU: the whole of it, or some of its multiprocessors as a green context; and
 * the one stream that all its work goes through. */
#ifndef PIPESIM_CUDA_CONTEXT_H
#define PIPESIM_CUDA_CONTEXT_H

#include <cuda.h>
#include <cuda_runtime.h>

#include <pipesim/device.h>

typedef struct
{
  int gpu;           /* ordinal */
  guint n_sms;       /* multiprocessors that this device has */
  guint n_sharing;   /* devices that the GPU is split among, this one included */
  CUgreenCtx green;  /* NULL: the whole GPU */
  CUcontext current; /* of the green context */
  cudaStream_t stream;
  cudaEvent_t begin, end;
  gboolean graphs; /* ops are captured and launched as graphs, see cuda-graph.h */
  gint64 op_ns;    /* from begin to end of the latest op */
  char *failure;   /* the first thing that went wrong since begin; NULL */
} PsCudaContext;

/* Whether there are a driver and a GPU that will do (compute capability 8.0 at least). One line says what is missing.
 */
gboolean ps_cuda_available (GError **error);

/* Devices that share a GPU get a green context each where the driver can; else they share the primary context, and
 * ps_cuda_sharing says so. Afterwards the calling thread is in none of them: a green context can be current to one
 * thread at a time (CUDA Driver API, cuGreenCtxCreate). On failure ps_cuda_context_close is due all the same. */
gboolean ps_cuda_context_open (PsCudaContext *context, const PsDeviceSetting *setting, GError **error);
void ps_cuda_context_close (PsCudaContext *context);

/* Makes it the calling thread's. */
gboolean ps_cuda_context_enter (const PsCudaContext *context, GError **error);

/* How devices of this process share GPUs, "green contexts of 32 multiprocessors", or of each where they differ; NULL
 * while none does. Free with g_free. */
char *ps_cuda_sharing (void);

/* See PsDeviceClass.idle. */
char *ps_cuda_idle (void);

/* Whether the user wants graphs: PIPESIM_CUDA_GRAPHS=1. */
gboolean ps_cuda_wants_graphs (void);

/* An op: its calls in between note what goes wrong and go on; finish waits for all of the stream's work, asleep, or
 * awake with PIPESIM_CUDA_WAIT=spin, and fails with the first note. */
void ps_cuda_begin (PsCudaContext *context);
void ps_cuda_note (PsCudaContext *context, const char *what, cudaError_t status);
void ps_cuda_note_text (PsCudaContext *context, const char *what, const char *problem);
gboolean ps_cuda_finish (PsCudaContext *context, GError **error);

/* Copies between host and device memory in any direction, behind all of the stream's work; done on return. */
gboolean ps_cuda_copy (PsCudaContext *context, void *to, const void *from, gsize bytes, GError **error);

/* A call outside an op. */
gboolean ps_cuda_ok (const char *what, cudaError_t status, GError **error);

#endif

/* cuda_runtime.h - stands in for the CUDA runtime where the tests emulate it: the part of the API that pipesim calls,
 * and for C++ the language of kernels. Names and meanings: CUDA Runtime API reference, CUDA C++ Programming Guide. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDART_VERSION 13000
#define PS_CUDA_EMULATED 1 /* nothing that is timed here means anything */

typedef enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorStreamCaptureUnsupported = 900,
} cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraph_st *cudaGraphExec_t;

typedef enum cudaMemcpyKind {
  cudaMemcpyDefault = 4,
} cudaMemcpyKind;

typedef enum cudaStreamCaptureMode {
  cudaStreamCaptureModeThreadLocal = 1,
} cudaStreamCaptureMode;

const char *cudaGetErrorString (cudaError_t error);
cudaError_t cudaGetLastError (void);
cudaError_t cudaDriverGetVersion (int *version);
cudaError_t cudaRuntimeGetVersion (int *version);

/* Devices: as many as PS_EMULATED_GPUS says (1), of PS_EMULATED_SMS multiprocessors each (132) and capability
 * PS_EMULATED_CAPABILITY (9). */
struct cudaDeviceProp {
  char name[256]; /* "emulated GPU" */
  size_t totalGlobalMem;
  int major, minor;
  int multiProcessorCount;
  int l2CacheSize;
};

enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

cudaError_t cudaGetDeviceCount (int *count);
cudaError_t cudaSetDevice (int device);
cudaError_t cudaGetDevice (int *device);
cudaError_t cudaGetDeviceProperties (struct cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute (int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetPCIBusId (char *bus, int size, int device); /* "0000:07:00.0" for device 7 */
/* Every GPU reaches every other; enabling that twice is an error, as it is for CUDA. */
cudaError_t cudaDeviceCanAccessPeer (int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess (int peer, unsigned flags);

/* Memory is the process's own; a fresh block is full of NaNs. */
#define cudaHostAllocMapped 2U
cudaError_t cudaMalloc (void **memory, size_t bytes);
cudaError_t cudaFree (void *memory);
cudaError_t cudaHostAlloc (void **memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost (void *memory);
cudaError_t cudaMemcpyAsync (void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync (void *memory, int value, size_t bytes, cudaStream_t stream);

enum {
  cudaMemoryTypeDevice = 2,
};
struct cudaPointerAttributes {
  int type;   /* 0: memory of the host */
  int device; /* where cudaMalloc was called */
};
cudaError_t cudaPointerGetAttributes (struct cudaPointerAttributes *attributes, const void *memory);

/* A stream does its work in a thread of its own, each piece up to PS_EMULATED_DELAY_US late. There is no default
 * stream.
 */
#define cudaStreamNonBlocking 1u
cudaError_t cudaStreamCreateWithFlags (cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority (cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange (int *least, int *greatest);
cudaError_t cudaStreamDestroy (cudaStream_t stream);
cudaError_t cudaStreamSynchronize (cudaStream_t stream);
cudaError_t cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned flags);

#define cudaEventDefault 0u
#define cudaEventBlockingSync 1u
#define cudaEventDisableTiming 2u
cudaError_t cudaEventCreate (cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags (cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy (cudaEvent_t event);
cudaError_t cudaEventRecord (cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize (cudaEvent_t event);
cudaError_t cudaEventQuery (cudaEvent_t event);
cudaError_t cudaEventElapsedTime (float *milliseconds, cudaEvent_t start, cudaEvent_t end);

/* Capturing, by one thread, and graphs: kernels, copies, fills and products become nodes, all in a row. */
cudaError_t cudaStreamBeginCapture (cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture (cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphDestroy (cudaGraph_t graph);
cudaError_t cudaGraphInstantiate (cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphExecDestroy (cudaGraphExec_t made);
cudaError_t cudaGraphLaunch (cudaGraphExec_t made, cudaStream_t stream);

/* Knows the functions of cuda.h, unless PS_EMULATED_NO_GREEN_CONTEXTS is set. */
#define cudaEnableDefault 0
enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess,
  cudaDriverEntryPointSymbolNotFound,
};
cudaError_t cudaGetDriverEntryPointByVersion (const char *symbol, void **function, unsigned version,
                                              unsigned long long flags, enum cudaDriverEntryPointQueryResult *status);

#ifdef __cplusplus
}
#include "emulator.h"

/* Does work after all that the stream still has to do; if the stream is captured, work becomes a node. */
cudaError_t ps_emulator_stream_do (cudaStream_t stream, std::function<void ()> work);
#endif

/* cuda-gpu.h - what a measurement needs of a GPU besides its ops: its condition and direct links, by the management
 * library that comes with the driver; the names of the GPU and of its libraries; an empty L2; busy multiprocessors. */
#pragma once

#include <pipesim/cluster.h>

#include "cuda-context.h"

/* Reads what libnvidia-ml.so.1 says of the GPU with that PCI bus id ("0000:07:00.0"). Unknown values stay zero; without
 * the library all do. From any thread. */
void ps_cuda_nvml_read (const char *bus_id, PsCondition *condition);

/* Returns the direct links of that GPU, "0000:3b:00.0*4,switch*2" (pipesim/costdb.h); "": there are none, or it is not
 * known. Free with g_free. From any thread. */
char *ps_cuda_nvml_links (const char *bus_id);

/* Returns "NVIDIA H200 (132 multiprocessors)"; NULL without a GPU. Free with g_free. */
char *ps_cuda_processor (void);

/* Returns "CUDA 13.0, driver 580.95.05 for CUDA 13.0, cuBLASLt 130100, attention by wgmma, green contexts of 32 ...,
 * CUDA_DEVICE_MAX_CONNECTIONS=32". Free with g_free. */
char *ps_cuda_libraries (void);

/* A buffer of twice the L2: writing it pushes everything else out. It does not count as the device's memory. */
typedef struct {
  void *buffer; /* NULL until first used */
  gsize bytes;
  int value; /* the value written last */
} PsCudaFlush;

/* Writes the buffer and returns when that is done. The context is current. */
gboolean ps_cuda_flush (PsCudaContext *context, PsCudaFlush *flush, GError **error);
void ps_cuda_flush_clear (PsCudaFlush *flush);

typedef struct {
  cudaStream_t stream; /* NULL until first used */
  unsigned *flags;     /* host memory that the GPU sees: flag 0 ends the blocks, flag 1 + i: block i runs */
} PsCudaHolder;

/* Does PsDeviceClass.occupy. The context is current. */
gboolean ps_cuda_occupy (const PsCudaContext *context, PsCudaHolder *holder, guint n_blocks, GError **error);
void ps_cuda_holder_clear (PsCudaHolder *holder);

/* cuda-libraries.h - the GPU and the libraries that run on it, as text. */
#pragma once

#include <glib.h>

/* Returns "NVIDIA H200 (132 multiprocessors)"; NULL without a GPU. Free with g_free. */
char *ps_cuda_processor (void);

/* Returns "CUDA 13.0, driver 580.95.05 for CUDA 13.0, cuBLASLt 130100, attention by wgmma, green contexts of 32 ...,
 * CUDA_DEVICE_MAX_CONNECTIONS=32". Free with g_free. */
char *ps_cuda_libraries (void);

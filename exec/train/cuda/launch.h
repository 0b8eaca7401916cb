/* launch.h - writes and launches kernels, so that the same source compiles for a GPU and for the emulation in the tests
 * (tests/cuda/emulation).
 *
 *   __global__ void double_all (float *x, int n) { ... }
 *   return ps_launch (double_all, grid, block, 0, stream, x, n);
 *
 * PS_SHARED_BYTES (name) declares dynamic shared memory, a pointer to unsigned char on 1024 bytes.
 */
#pragma once

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __CUDACC__

#define PS_SHARED_BYTES(name) extern __shared__ __align__ (1024) unsigned char name[]

/* A kernel with more than 48 KiB of shared memory must be told so. It is told each time, because each context keeps its
 * own setting. */
template <typename... Parameters, typename... Arguments>
static inline cudaError_t ps_launch (void (*kernel) (Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream, Arguments... arguments)
{
  if (shared_bytes > 48 * 1024) {
    const cudaError_t status
        = cudaFuncSetAttribute (kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (status != cudaSuccess)
      return status;
  }
  /* clang-format off */
  kernel<<<grid, block, shared_bytes, stream>>> (static_cast<Parameters> (arguments)...);
  /* clang-format on */
  return cudaGetLastError ();
}

#else

#include "emulator.h"
#include "stream.h"

#define PS_SHARED_BYTES(name) unsigned char *const name = ps_emulator_shared_bytes ()

/* The emulator runs the whole grid before it returns, unless the stream is captured. As on a GPU, an error that nobody
 * has asked for since counts as the launch's. */
template <typename... Parameters, typename... Arguments>
static inline cudaError_t ps_launch (void (*kernel) (Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream, Arguments... arguments)
{
  const cudaError_t status = ps_emulator_stream_do (stream, [=] {
    return ps_emulator_run (grid, block, shared_bytes, [=] { kernel (static_cast<Parameters> (arguments)...); });
  });

  return status != cudaSuccess ? status : cudaGetLastError ();
}

#endif

/* launch.h - what kernels are written with: elements of their arrays (float or bf16, one at a time or 16 bytes at a
 * time), sums over a warp, powers of two; and their launch, so that the same source compiles for a GPU and for the
 * emulation in the tests (tests/cuda/emulation).
 *
 *   __global__ void double_all (float *x, int n) { ... }
 *   ps_launch (queue, "doubling", double_all, grid, block, 0, x, n);
 *
 * PS_SHARED_BYTES (name) declares dynamic shared memory, a pointer to unsigned char on 1024 bytes.
 */
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <initializer_list>
#include <stddef.h>
#include <string.h>

#include "cuda-kernels.h"

#ifdef __CUDACC__

#define PS_SHARED_BYTES(name) extern __shared__ __align__ (1024) unsigned char name[]

/* A kernel with more than 48 KiB of shared memory needs that limit set. Each launch sets it, because each context has a
 * setting of its own. */
template <typename... Parameters, typename... Arguments>
static inline cudaError_t ps_start (void (*kernel) (Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                                    cudaStream_t stream, Arguments... arguments)
{
  if (shared_bytes > 48 * 1024) {
    const cudaError_t status
        = cudaFuncSetAttribute (kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (status != cudaSuccess)
      return status;
  }
  kernel<<<grid, block, shared_bytes, stream>>> (static_cast<Parameters> (arguments)...);
  return cudaGetLastError ();
}

#else

#define PS_SHARED_BYTES(name) unsigned char *const name = ps_emulator_shared_bytes ()

/* As on a GPU, an error that nobody has asked for since counts as the launch's. */
template <typename... Parameters, typename... Arguments>
static inline cudaError_t ps_start (void (*kernel) (Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                                    cudaStream_t stream, Arguments... arguments)
{
  const bool launched = ps_emulator_launch (grid, block, shared_bytes, stream,
                                            [=] { kernel (static_cast<Parameters> (arguments)...); });

  return launched ? cudaGetLastError () : cudaErrorInvalidConfiguration;
}

#endif

/* Puts a grid into the queue, unless it is empty; a problem is noted as one of `what`. */
template <typename... Parameters, typename... Arguments>
static inline void ps_launch (PsQueue *queue, const char *what, void (*kernel) (Parameters...), dim3 grid, dim3 block,
                              size_t shared_bytes, Arguments... arguments)
{
  if (grid.x > 0 && grid.y > 0 && grid.z > 0)
    ps_cuda_note (queue, what, ps_start (kernel, grid, block, shared_bytes, ps_cuda_stream (queue), arguments...));
}

static __device__ __forceinline__ float ps_to_float (float value)
{
  return value;
}

static __device__ __forceinline__ float ps_to_float (__nv_bfloat16 value)
{
  return __bfloat162float (value);
}

template <typename T> static __device__ __forceinline__ T ps_from_float (float value)
{
  if constexpr (sizeof (T) == sizeof (float))
    return value;
  else
    return __float2bfloat16_rn (value);
}

/* n neighbouring elements, moved in one piece where n * sizeof (T) is 16 or 8. */
template <typename T, int n> struct __align__ (sizeof (T) * n) PsPack
{
  T at[n];
};

template <typename T, int n> static __device__ __forceinline__ PsPack<T, n> ps_load (const T *from)
{
  PsPack<T, n> pack;

  if constexpr (sizeof pack == sizeof (uint4))
    *reinterpret_cast<uint4 *> (&pack) = *reinterpret_cast<const uint4 *> (from);
  else if constexpr (sizeof pack == sizeof (float2))
    *reinterpret_cast<float2 *> (&pack) = *reinterpret_cast<const float2 *> (from);
  else
    for (int i = 0; i < n; i++)
      pack.at[i] = from[i];
  return pack;
}

template <typename T, int n> static __device__ __forceinline__ void ps_store (T *to, const PsPack<T, n> &pack)
{
  if constexpr (sizeof pack == sizeof (uint4))
    *reinterpret_cast<uint4 *> (to) = *reinterpret_cast<const uint4 *> (&pack);
  else if constexpr (sizeof pack == sizeof (float2))
    *reinterpret_cast<float2 *> (to) = *reinterpret_cast<const float2 *> (&pack);
  else
    for (int i = 0; i < n; i++)
      to[i] = pack.at[i];
}

/* Adds other to *pack and rounds the sums. */
template <typename T, int n>
static __device__ __forceinline__ void ps_add_to (PsPack<T, n> *pack, const PsPack<T, n> &other)
{
#pragma unroll
  for (int i = 0; i < n; i++)
    pack->at[i] = ps_from_float<T> (ps_to_float (pack->at[i]) + ps_to_float (other.at[i]));
}

/* 2^x, to about two units in the last place; 0 for -infinity. */
static __device__ __forceinline__ float ps_exp2 (float x)
{
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f (x);
#endif
}

static const float ps_log2_e = 1.4426950408889634f;

/* Returns the sum over each `lanes` neighbouring lanes, a power of two. All get the same bits: in each step both
 * partners add the same two numbers. */
template <int lanes> static __device__ __forceinline__ float ps_lanes_sum (float value)
{
#pragma unroll
  for (int apart = lanes / 2; apart > 0; apart /= 2)
    value += __shfl_xor_sync (0xffffffffu, value, apart);
  return value;
}

static __device__ __forceinline__ float ps_warp_sum (float value)
{
  return ps_lanes_sum<32> (value);
}

static __device__ __forceinline__ float ps_warp_max (float value)
{
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value = fmaxf (value, __shfl_xor_sync (0xffffffffu, value, lanes));
  return value;
}

/* --- choosing an instance on the host --- */

static inline bool ps_is_on_16_bytes (std::initializer_list<const void *> arrays)
{
  for (const void *array : arrays)
    if ((uintptr_t)array % 16 != 0)
      return false;
  return true;
}

/* TRUE if all arrays, and rows of each of these numbers of elements, lie on 16 bytes. */
static inline bool ps_is_wide (PsElement element, std::initializer_list<long long> columns,
                               std::initializer_list<const void *> arrays)
{
  for (long long n : columns)
    if (n * (long long)ps_element_bytes (element) % 16 != 0)
      return false;
  return ps_is_on_16_bytes (arrays);
}

template <typename T, int width> struct PsWidth {
};

/* Calls launch with a PsWidth of 16 bytes of element if arrays and rows lie so, else of one element. */
template <typename Launch>
static inline void ps_by_width (PsElement element, std::initializer_list<long long> columns,
                                std::initializer_list<const void *> arrays, Launch launch)
{
  const bool wide = ps_is_wide (element, columns, arrays);

  if (element == PS_ELEMENT_BF16)
    wide ? launch (PsWidth<__nv_bfloat16, 8> ()) : launch (PsWidth<__nv_bfloat16, 1> ());
  else
    wide ? launch (PsWidth<float, 4> ()) : launch (PsWidth<float, 1> ());
}

static inline unsigned ps_blocks (size_t n, size_t per_block)
{
  return (unsigned)((n + per_block - 1) / per_block);
}

/* tensor-core.h - the instructions of the fast attention (PTX ISA 8.x, compute capability 8.0 and later), each in one
 * small function. All lanes of a warp call the matrix instructions together. The emulation has a twin of each. */
#pragma once

#include <cuda_bf16.h>
#include <stdint.h>

#ifndef __CUDACC__
#include "tensor-core-twin.h"
#endif

/* d += a b: a is 16 x 16, b is 16 x 8, d is 16 x 8. Lane l, with g = l / 4 and t = l % 4, holds
 *   a[0] (g, 2t), a[1] (g + 8, 2t), a[2] (g, 2t + 8), a[3] (g + 8, 2t + 8)   each with the column after it
 *   b[0] (2t, g), b[1] (2t + 8, g)                                           each with the row after it
 *   d[0] (g, 2t), d[1] (g, 2t + 1), d[2] (g + 8, 2t), d[3] (g + 8, 2t + 1) */
static __device__ __forceinline__ void ps_mma (float d[4], const uint32_t a[4], const uint32_t b[2])
{
#ifdef __CUDACC__
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  ps_emulator_mma (d, a, b, d);
#endif
}

#define PS_LDMATRIX(transposed)                                                                                        \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0, %1, %2, %3}, [%4];"                        \
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                                                    \
               : "r"((unsigned)__cvta_generic_to_shared (row)))

/* Loads four 8 x 8 matrices of bf16 from shared memory. Lane l names row l % 8 of matrix l / 8: 16 bytes. From each
 * matrix, or each transposed matrix, it gets the pair at row l / 4, columns 2 (l % 4) and the next. */
template <bool transposed> static __device__ __forceinline__ void ps_load_matrices (uint32_t to[4], const void *row)
{
#ifdef __CUDACC__
  if constexpr (transposed)
    PS_LDMATRIX (".trans");
  else
    PS_LDMATRIX ("");
#else
  ps_emulator_load_matrices (to, row, transposed);
#endif
}

/* Starts a copy of 16 bytes from global to shared memory, or of 16 zeros if not exists. from must be an address of the
 * array all the same. */
static __device__ __forceinline__ void ps_copy_16_async (void *to, const void *from, bool exists)
{
#ifdef __CUDACC__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared (to)),
               "l"(__cvta_generic_to_global (from)), "r"(exists ? 16 : 0)
               : "memory");
#else
  ps_emulator_copy_async (to, exists ? from : nullptr, 16);
#endif
}

/* The same for one float. */
static __device__ __forceinline__ void ps_copy_4_async (float *to, const float *from, bool exists)
{
#ifdef __CUDACC__
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((unsigned)__cvta_generic_to_shared (to)),
               "l"(__cvta_generic_to_global (from)), "r"(exists ? 4 : 0)
               : "memory");
#else
  ps_emulator_copy_async (to, exists ? from : nullptr, 4);
#endif
}

/* Makes the copies since the last commit a group. */
static __device__ __forceinline__ void ps_copy_commit ()
{
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  ps_emulator_copy_commit ();
#endif
}

/* Waits until all but the latest `groups` groups of this thread have arrived. Other threads see them after a
 * barrier. */
template <int groups> static __device__ __forceinline__ void ps_copy_wait ()
{
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#else
  ps_emulator_copy_wait (groups);
#endif
}

/* Rounds two floats to a pair of bf16, x in the lower half. */
static __device__ __forceinline__ uint32_t ps_pack_bf16 (float x, float y)
{
  const __nv_bfloat162 pair = __floats2bfloat162_rn (x, y);
  uint32_t bits;

  memcpy (&bits, &pair, sizeof bits);
  return bits;
}

/* hopper.h - the matrix instructions of compute capability 9.0 (target sm_90a; PTX ISA 8.x, section "Asynchronous
 * Warpgroup Level Matrix Multiply-Accumulate Instructions"). A group of four neighbouring warps multiplies together,
 * from shared memory, while the warps go on. The emulation has a twin of each.
 *
 * Warp w of a group (w = 0..3) owns rows 16w..16w + 15 of a product's 64 rows. Its accumulators, and its left sides in
 * registers, have the layout of ps_mma. All warps of a group make the same products in the same order.
 *
 * Tiles are as in flash.h, D a multiple of 64, on 1024 bytes. Products see copies into them after ps_hopper_meet.
 *
 *   ps_hopper_multiply<D, rows> (s, queries, row, keys);      other work may follow; then, before s is read:
 *   ps_hopper_wait<0> ();
 *   ps_hopper_settle (s);
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "flash.h"

#ifndef __CUDACC__
#include "hopper-twin.h"
#endif

/* 1 where these instructions are compiled, and on the host, which names the kernels that use them. */
#if !defined __CUDA_ARCH__ || defined __CUDA_ARCH_FEAT_SM90_ALL
#define PS_HOPPER_CODE 1
#else
#define PS_HOPPER_CODE 0
#endif

/* TRUE if the current device runs such kernels, they were compiled for it (PS_CUDA_HOPPER), and heads of that size
 * consist of whole panels. PIPESIM_CUDA_HOPPER=0 in the environment makes it FALSE. */
static inline bool ps_hopper_takes (int head_size)
{
#ifdef PS_CUDA_HOPPER
  const char *wish = getenv ("PIPESIM_CUDA_HOPPER");
  int device, major;

  return (head_size == 64 || head_size == 128) && (wish == NULL || strcmp (wish, "0") != 0)
         && cudaGetDevice (&device) == cudaSuccess
         && cudaDeviceGetAttribute (&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major == 9;
#else
  (void)head_size;
  return false;
#endif
}

/* --- the instructions --- */

/* Operands of an instruction: accumulators that it reads and writes ("+f") or only writes ("=f"). */
#define PS_HOPPER_4(how, d, j) how (d[j][0]), how (d[j][1]), how (d[j][2]), how (d[j][3])
#define PS_HOPPER_16(how, d, j)                                                                                        \
  PS_HOPPER_4 (how, d, j), PS_HOPPER_4 (how, d, (j) + 1), PS_HOPPER_4 (how, d, (j) + 2), PS_HOPPER_4 (how, d, (j) + 3)
#define PS_HOPPER_NAMES_32                                                                                             \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "     \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define PS_HOPPER_NAMES_64                                                                                             \
  PS_HOPPER_NAMES_32                                                                                                   \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "        \
  "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* d = a b^T, summed over 16 columns: rows of a are the group's 64, rows of b are columns of d. */
static __device__ __forceinline__ void ps_hopper_mma_first (float (&d)[8][4], uint64_t a, uint64_t b)
{
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" PS_HOPPER_NAMES_32 "}, %32, %33, 0, 1, 1, 0, 0;"
               : PS_HOPPER_16 ("=f", d, 0), PS_HOPPER_16 ("=f", d, 4)
               : "l"(a), "l"(b));
#else
  ps_emulator_group_multiply (d, a, b, false);
#endif
}

/* d += a b^T */
static __device__ __forceinline__ void ps_hopper_mma (float (&d)[8][4], uint64_t a, uint64_t b)
{
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" PS_HOPPER_NAMES_32 "}, %32, %33, 1, 1, 1, 0, 0;"
               : PS_HOPPER_16 ("+f", d, 0), PS_HOPPER_16 ("+f", d, 4)
               : "l"(a), "l"(b));
#else
  ps_emulator_group_multiply (d, a, b, true);
#endif
}

/* d += a b, summed over the 16 columns of a, which are rows of b. */
static __device__ __forceinline__ void ps_hopper_mma (float (&d)[8][4], const uint32_t (&a)[4], uint64_t b)
{
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" PS_HOPPER_NAMES_32
               "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : PS_HOPPER_16 ("+f", d, 0), PS_HOPPER_16 ("+f", d, 4)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
  ps_emulator_group_accumulate (d, a, b);
#endif
}

static __device__ __forceinline__ void ps_hopper_mma (float (&d)[16][4], const uint32_t (&a)[4], uint64_t b)
{
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" PS_HOPPER_NAMES_64
               "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
               : PS_HOPPER_16 ("+f", d, 0), PS_HOPPER_16 ("+f", d, 4), PS_HOPPER_16 ("+f", d, 8),
                 PS_HOPPER_16 ("+f", d, 12)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
  ps_emulator_group_accumulate (d, a, b);
#endif
}

/* Returns the thread's group. The shuffle tells the compiler that it is the same for a whole warp. */
static __device__ __forceinline__ int ps_hopper_group ()
{
  return __shfl_sync (0xffffffffu, (int)threadIdx.x / 128, 0);
}

/* Separates other use of registers from products that use them. */
static __device__ __forceinline__ void ps_hopper_fence ()
{
#ifdef __CUDACC__
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
  ps_emulator_group_fence ();
#endif
}

/* Makes the products since the last commit a batch. */
static __device__ __forceinline__ void ps_hopper_commit ()
{
#ifdef __CUDACC__
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
  ps_emulator_group_commit ();
#endif
}

/* Waits until all but the latest `batches` batches are done. */
template <int batches> static __device__ __forceinline__ void ps_hopper_wait ()
{
#ifdef __CUDACC__
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(batches) : "memory");
#else
  ps_emulator_group_wait (batches);
#endif
}

/* Keeps the compiler from moving a use of d across. Needed before the first product that adds to d, and after the wait
 * for the last one. */
template <int n> static __device__ __forceinline__ void ps_hopper_settle (float (&d)[n][4])
{
#ifdef __CUDACC__
#pragma unroll
  for (int j = 0; j < n; j++)
    asm volatile("" : PS_HOPPER_4 ("+f", d, j)::"memory");
#endif
}

/* Waits for all but the latest `pending` groups of this thread's copies, then meets all threads. After it, products see
 * the copies of all threads. */
template <int pending> static __device__ __forceinline__ void ps_hopper_meet ()
{
  ps_copy_wait<pending> ();
#ifdef __CUDACC__
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  __syncthreads ();
}

/* --- products of tiles --- */

static const int ps_hopper_pitch = 128; /* bytes from row to row of a panel */

/* Matrix descriptor (PTX ISA, "Matrix Descriptor Format"): the address, the bytes from panel to panel, the bytes from
 * eight rows to the next eight, each in units of 16 bytes, and the swizzle of 128 bytes. Adding n moves it by 16 n
 * bytes. */
static __device__ __forceinline__ uint64_t ps_hopper_descriptor (const PsHalf *at, int rows)
{
#ifdef __CUDACC__
  const uint64_t address = __cvta_generic_to_shared (at);
#else
  const uint64_t address = ps_emulator_shared_address (at);
#endif

  return (address & 0x3ffff) >> 4 | (uint64_t)(rows * ps_hopper_pitch / 16) << 16
         | (uint64_t)(8 * ps_hopper_pitch / 16) << 32 | (uint64_t)1 << 62;
}

/* Starts s = a b^T, for 64 rows of tile a of `rows`, from row `row` on, and the 64 rows of tile b. */
template <int D, int rows>
static __device__ __forceinline__ void ps_hopper_multiply (float (&s)[8][4], const PsHalf *a, int row, const PsHalf *b)
{
  const uint64_t left = ps_hopper_descriptor (a + row * 64, rows), right = ps_hopper_descriptor (b, 64);

  ps_hopper_fence ();
  ps_hopper_mma_first (s, left, right);
#pragma unroll
  for (int k = 1; k < D / 16; k++)
    ps_hopper_mma (s, left + k / 4 * rows * (ps_hopper_pitch / 16) + k % 4 * 2,
                   right + k / 4 * 64 * (ps_hopper_pitch / 16) + k % 4 * 2);
  ps_hopper_commit ();
}

/* Rounds accumulators of 64 columns to bf16, as the left side of a product. */
static __device__ __forceinline__ void ps_hopper_pack (uint32_t (&left)[4][4], const float (&p)[8][4])
{
#pragma unroll
  for (int k = 0; k < 4; k++)
    ps_pack_left (left[k], p[2 * k], p[2 * k + 1]);
}

/* Keeps the compiler from writing a register of p later than here: a product reads them while it runs. */
static __device__ __forceinline__ void ps_hopper_hold (uint32_t (&p)[4][4])
{
#ifdef __CUDACC__
#pragma unroll
  for (int k = 0; k < 4; k++)
    asm volatile("" : PS_HOPPER_4 ("+r", p, k)::"memory");
#endif
}

/* Starts o += p b. Tile b has a row for each of the 64 columns of p. */
template <int D>
static __device__ __forceinline__ void ps_hopper_accumulate (float (&o)[D / 8][4], uint32_t (&p)[4][4], const PsHalf *b)
{
  const uint64_t right = ps_hopper_descriptor (b, 64);

  ps_hopper_hold (p);
  ps_hopper_settle (o);
  ps_hopper_fence ();
#pragma unroll
  for (int k = 0; k < 4; k++)
    ps_hopper_mma (o, p[k], right + k * 16 * (ps_hopper_pitch / 16));
  ps_hopper_commit ();
}

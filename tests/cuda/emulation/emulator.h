/* emulator.h - runs CUDA kernels, compiled by the host compiler, on the CPU: the blocks of a grid one after the other,
 * the threads of a block as fibers of the calling thread. For tests of correctness only: nothing about its speed means
 * anything. Here is also what CUDA C++ adds to C++, as far as pipesim's kernels use it.
 *
 * What it honours: barriers of a block; shuffles, votes, matrix instructions and barriers of whole warps (all 32 lanes
 * must take part); asynchronous copies and products. What it finds, and then aborts with one line on stderr: threads
 * that wait for one another for ever, lanes of a warp at different instructions. A missing barrier shows as different
 * results in the two orders of ps_emulator_set_backwards: a warp runs until all of it waits for others.
 *
 * Several threads may run kernels at the same time. */
#pragma once

#include <functional>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <vector>

/* --- types --- */

#define __align__(n) __attribute__ ((aligned (n)))

struct uint2 {
  unsigned x, y;
};
struct uint3 {
  unsigned x, y, z;
};
struct __align__ (16) uint4
{
  unsigned x, y, z, w;
};
struct float2 {
  float x, y;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3 (unsigned x = 1, unsigned y = 1, unsigned z = 1) : x (x), y (y), z (z)
  {
  }
};

static inline float2 make_float2 (float x, float y)
{
  return { x, y };
}

static inline uint2 make_uint2 (unsigned x, unsigned y)
{
  return { x, y };
}

/* --- the interpreter --- */

/* For variables of a thread that are read too often to search for them: a module that is loaded late may have a few
 * bytes at a place that is known at once. */
#define PS_EMULATOR_LOCAL __attribute__ ((tls_model ("initial-exec")))

/* FALSE for sizes that a GPU would refuse. */
bool ps_emulator_can_launch (dim3 grid, dim3 block, size_t shared_bytes);

/* Runs one grid. */
void ps_emulator_run (dim3 grid, dim3 block, size_t shared_bytes, bool backwards, const std::function<void ()> &thread);

/* Puts the grid into a stream; FALSE for sizes that a GPU would refuse. */
bool ps_emulator_launch (dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream,
                         std::function<void ()> thread);

/* TRUE: blocks and threads of later launches run from the last to the first, and asynchronous copies and products
 * happen as late as they may; FALSE, from the start: first to last, and at once. For all threads of the program. */
extern "C" void ps_emulator_set_backwards (bool backwards);
bool ps_emulator_is_backwards ();

/* Whether asynchronous instructions of the running grid happen as late as they may. */
bool ps_emulator_delays ();

/* The running block's dynamic shared memory: NaNs (bytes 0xff) when the block starts. */
unsigned char *ps_emulator_shared_bytes ();

/* An instruction that 32 lanes execute together. Each gives its operand, which holds room for its result; when all have
 * come, perform is called once with the operands in order of the lanes. `what` names it in messages. */
void ps_emulator_warp (const char *what, void *operand, void (*perform) (void *const *operands));

/* Prints the line and aborts. */
[[noreturn]] void ps_emulator_fail (const char *message);

/* Work of asynchronous instructions, in groups; the last group is open. */
struct PsEmulatorGroups {
  std::vector<std::vector<std::function<void ()>>> groups = std::vector<std::vector<std::function<void ()>>> (1);

  template <typename Work> void add (const Work &work)
  {
    if (ps_emulator_delays ())
      groups.back ().push_back (work);
    else
      work ();
  }

  void commit ()
  {
    groups.emplace_back ();
  }

  /* Until at most that many of the latest groups are under way. */
  void wait (unsigned latest)
  {
    for (; groups.size () > latest + 1; groups.erase (groups.begin ()))
      for (const auto &work : groups.front ())
        work ();
  }
};

/* --- the instructions of flash.h and flash-hopper.cu, written out by the PTX ISA 8.x --- */

/* cp.async: copies of the calling thread to shared memory; from NULL writes zeros. */
void ps_emulator_copy_async (void *to, const void *from, size_t bytes);
void ps_emulator_copy_commit ();
void ps_emulator_copy_wait (unsigned groups);

/* mma.m16n8k16: d = a b + d in float; ldmatrix.x4: lanes 8i to 8i + 7 give the rows of matrix i, 16 bytes each, and
 * every lane gets two elements of each, those of the transposed matrix if asked for. */
void ps_emulator_mma (float d[4], const uint32_t a[4], const uint32_t b[2]);
void ps_emulator_load_matrices (uint32_t to[4], const void *row, bool transposed);

/* wgmma.mma_async.m64nNk16: the lane's accumulators in a product of n / 8 * 8 columns, d = (or +=, with add) a b^T with
 * both in shared memory, or d += a b with a in registers. A warp works on its 16 rows alone: that the four warps of a
 * group come by the same products is not checked. Backwards, a product is made when it is waited for. So operands that
 * are read too early, overwritten too early, or multiplied before a fence are found. */
void ps_emulator_group_product (float *d, int n, const uint32_t *a, uint64_t left, uint64_t right, bool add);
void ps_emulator_group_fence ();
void ps_emulator_group_commit ();
void ps_emulator_group_wait (unsigned batches);

/* The address of a place in the block's dynamic shared memory, which begins at 1024. */
uint64_t ps_emulator_shared_address (const void *place);

template <int n> static inline void ps_emulator_group_multiply (float (&d)[n][4], uint64_t a, uint64_t b, bool add)
{
  ps_emulator_group_product (d[0], n * 8, nullptr, a, b, add);
}

template <int n> static inline void ps_emulator_group_accumulate (float (&d)[n][4], const uint32_t (&a)[4], uint64_t b)
{
  ps_emulator_group_product (d[0], n * 8, a, 0, b, true);
}

/* --- the language --- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__ ((always_inline))
#define __launch_bounds__(...)
/* One block runs at a time on an operating system thread. */
#define __shared__ static thread_local

PS_EMULATOR_LOCAL extern __thread uint3 threadIdx, blockIdx;
PS_EMULATOR_LOCAL extern __thread dim3 blockDim, gridDim;

/* Waits until all threads of the block that have not returned are here. */
void __syncthreads ();

/* Instructions of a warp know the mask of all lanes alone. */
static inline void __syncwarp (unsigned = 0xffffffffu)
{
  ps_emulator_warp ("__syncwarp", nullptr, [] (void *const *) {});
}

/* Every lane gets the value of lane `from`. */
template <typename T> static inline T __shfl_sync (unsigned, T value, int from)
{
  struct Shuffle {
    T value, result;
    int from;
  } operand = { value, value, from & 31 };

  ps_emulator_warp ("__shfl_sync", &operand, [] (void *const *operands) {
    for (int lane = 0; lane < 32; lane++) {
      Shuffle *own = (Shuffle *)operands[lane];
      own->result = ((Shuffle *)operands[own->from])->value;
    }
  });
  return operand.result;
}

template <typename T> static inline T __shfl_xor_sync (unsigned mask, T value, int lanes)
{
  return __shfl_sync (mask, value, (int)threadIdx.x % 32 ^ lanes);
}

static inline int __any_sync (unsigned, int predicate)
{
  ps_emulator_warp ("__any_sync", &predicate, [] (void *const *operands) {
    int any = 0;
    for (int lane = 0; lane < 32; lane++)
      any |= *(int *)operands[lane] != 0;
    for (int lane = 0; lane < 32; lane++)
      *(int *)operands[lane] = any;
  });
  return predicate;
}

#define __nanosleep(ns) ((void)(ns))

/* Approximate functions are exact to rounding here, and the emulation is compiled without contraction. */
#define __fdividef(x, y) ((x) / (y))
#define __fmul_rn(a, b) ((a) * (b))
#define __fsub_rn(a, b) ((a) - (b))
#define __fdiv_rn(a, b) ((a) / (b))
#define __fmaf_rn(a, b, c) fmaf (a, b, c)
#define rsqrtf(x) (1 / sqrtf (x))

static inline int min (int x, int y)
{
  return x < y ? x : y;
}

static inline int max (int x, int y)
{
  return x > y ? x : y;
}

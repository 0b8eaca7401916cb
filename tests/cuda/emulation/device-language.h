/* device-language.h - what CUDA C++ adds to C++, as far as pipesim's kernels use it, for the emulator. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "device-types.h"
#include "emulator.h"

#define PS_CUDA_EMULATED 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__ ((always_inline))
#define __launch_bounds__(...)
/* One block runs at a time on an operating system thread. */
#define __shared__ static thread_local

PS_EMULATOR_LOCAL extern __thread uint3 threadIdx, blockIdx;
PS_EMULATOR_LOCAL extern __thread dim3 blockDim, gridDim;

static inline void __syncthreads ()
{
  ps_emulator_sync_block ();
}

/* --- instructions of a warp; only the mask of all lanes --- */

static inline void ps_emulator_need_all_lanes (unsigned mask)
{
  if (mask != 0xffffffffu)
    ps_emulator_fail ("only warp instructions of all 32 lanes are emulated");
}

static inline void __syncwarp (unsigned mask = 0xffffffffu)
{
  ps_emulator_need_all_lanes (mask);
  ps_emulator_warp ("__syncwarp", nullptr, [] (void *const *) {});
}

template <typename T> struct PsShuffle {
  T value, result;
  int argument;
};

/* Every lane gets the value of the lane that source (own lane, its argument) names. */
template <typename T, int (*source) (int, int)>
static inline T ps_emulator_shuffle (const char *what, unsigned mask, T value, int argument)
{
  PsShuffle<T> operand = { value, value, argument };

  ps_emulator_need_all_lanes (mask);
  ps_emulator_warp (what, &operand, [] (void *const *operands) {
    for (int lane = 0; lane < 32; lane++) {
      auto *own = (PsShuffle<T> *)operands[lane];
      const int from = source (lane, own->argument);
      own->result = ((PsShuffle<T> *)operands[from < 0 || from > 31 ? lane : from])->value;
    }
  });
  return operand.result;
}

static inline int ps_emulator_lane_xor (int lane, int argument)
{
  return lane ^ argument;
}

static inline int ps_emulator_lane_named (int, int argument)
{
  return argument & 31;
}

template <typename T> static inline T __shfl_xor_sync (unsigned mask, T value, int lanes)
{
  return ps_emulator_shuffle<T, ps_emulator_lane_xor> ("__shfl_xor_sync", mask, value, lanes);
}

template <typename T> static inline T __shfl_sync (unsigned mask, T value, int lane)
{
  return ps_emulator_shuffle<T, ps_emulator_lane_named> ("__shfl_sync", mask, value, lane);
}

struct PsVote {
  unsigned bit, result;
};

static inline unsigned __ballot_sync (unsigned mask, int predicate)
{
  PsVote operand = { predicate != 0, 0 };

  ps_emulator_need_all_lanes (mask);
  ps_emulator_warp ("__ballot_sync", &operand, [] (void *const *operands) {
    unsigned votes = 0;
    for (int lane = 0; lane < 32; lane++)
      votes |= ((PsVote *)operands[lane])->bit << lane;
    for (int lane = 0; lane < 32; lane++)
      ((PsVote *)operands[lane])->result = votes;
  });
  return operand.result;
}

static inline int __any_sync (unsigned mask, int predicate)
{
  return __ballot_sync (mask, predicate) != 0;
}

/* --- arithmetic: the approximate functions are exact to rounding here --- */

static inline float __fdividef (float x, float y)
{
  return x / y;
}

static inline void __nanosleep (unsigned)
{
}

/* --- arithmetic whose rounding is named; the emulation is compiled without contraction --- */

static inline float __fmul_rn (float a, float b)
{
  return a * b;
}

static inline float __fsub_rn (float a, float b)
{
  return a - b;
}

static inline float __fdiv_rn (float a, float b)
{
  return a / b;
}

static inline float __fmaf_rn (float a, float b, float c)
{
  return fmaf (a, b, c);
}

static inline float rsqrtf (float x)
{
  return 1 / sqrtf (x);
}

static inline int min (int x, int y)
{
  return x < y ? x : y;
}

static inline int max (int x, int y)
{
  return x > y ? x : y;
}

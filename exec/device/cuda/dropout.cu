/* dropout.cu - masks from counters: forward and backward make the same one again, nothing is stored. */
#include <pipesim/philox.h>

#include "pack.h"

static const int block_threads = 256;

template <typename T> struct Dropout
{
  T *y;
  const T *x;
  size_t n;
  uint64_t seed;
  uint32_t where, microbatch;
  uint32_t threshold; /* smaller numbers drop */
  float factor;
};

/* One thread has four elements: one counter. */
template <typename T>
static __global__ void
__launch_bounds__ (block_threads) drop (Dropout<T> dropout)
{
  const size_t group = (size_t)blockIdx.x * block_threads + threadIdx.x;
  uint32_t number[4] = { (uint32_t)group, (uint32_t)(group >> 32), dropout.where, dropout.microbatch };

  if (group * 4 >= dropout.n)
    return;
  ps_philox (number, dropout.seed);
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (group * 4 + i < dropout.n)
      {
        const float value = ps_to_float (dropout.x[group * 4 + i]) * dropout.factor;
        dropout.y[group * 4 + i] = ps_from_float<T> (number[i] >= dropout.threshold ? value : 0);
      }
}

extern "C" cudaError_t
ps_cuda_dropout (PsCudaElement element, void *y, const void *x, size_t n, double probability, uint64_t seed,
                 uint32_t layer, uint32_t site, uint32_t microbatch, cudaStream_t stream)
{
  if (!(probability >= 0 && probability < 1) || site > 15)
    return cudaErrorInvalidValue;
  if (n == 0)
    return cudaSuccess;
  return ps_by_width (element, false, [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    const Dropout<T> dropout = { (T *)y,
                                 (const T *)x,
                                 n,
                                 seed,
                                 layer * 16 + site,
                                 microbatch,
                                 (uint32_t)(probability * 4294967296.0),
                                 (float)(1 / (1 - probability)) };
    return ps_launch (drop<T>, ps_blocks (n, block_threads * 4), block_threads, 0, stream, dropout);
  });
}

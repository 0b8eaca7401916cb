/* adam.cu - the optimizer step: reads gradient, momentum, variance and master weights once, and writes them and the
 * copy. Before it, the norm of the gradients, in a fixed order. */
#include <math.h>

#include "pack.h"

static const int block_threads = 256;
static const int norm_blocks = 256;

struct Adam
{
  __nv_bfloat16 *weights;
  float *master, *gradient, *momentum, *variance;
  float *tried; /* where new master weights go that are tried out; NULL: nowhere */
  size_t n;
  float factor, rate, correction;
};

/* tries: all but `tried` and the copy stays as it is. Every rounding is named, since the compiler contracts the two kernels
 * in different ways, and a step must give the bits that were tried out. */
template <int width, bool tries>
static __global__ void
__launch_bounds__ (block_threads) step (Adam adam)
{
  const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  const size_t first = ((size_t)blockIdx.x * block_threads + threadIdx.x) * width;

  if (first >= adam.n)
    return;
  auto w = ps_load<float, width> (adam.master + first);
  auto g = ps_load<float, width> (adam.gradient + first);
  auto m = ps_load<float, width> (adam.momentum + first);
  auto v = ps_load<float, width> (adam.variance + first);
  PsPack<__nv_bfloat16, width> rounded;
#pragma unroll
  for (int i = 0; i < width; i++)
    {
      const float slope = __fmul_rn (g.at[i], adam.factor);
      m.at[i] = __fmaf_rn (beta1, m.at[i], __fmul_rn (1 - beta1, slope));
      v.at[i] = __fmaf_rn (beta2, v.at[i], __fmul_rn (__fmul_rn (1 - beta2, slope), slope));
      w.at[i] = __fsub_rn (
          w.at[i], __fdiv_rn (__fmul_rn (adam.rate, m.at[i]), __fmaf_rn (sqrtf (v.at[i]), adam.correction, epsilon)));
      g.at[i] = 0;
      rounded.at[i] = __float2bfloat16_rn (w.at[i]);
    }
  if constexpr (tries)
    {
      if (adam.tried != nullptr)
        ps_store (adam.tried + first, w);
    }
  else
    {
      ps_store (adam.master + first, w);
      ps_store (adam.gradient + first, g);
      ps_store (adam.momentum + first, m);
      ps_store (adam.variance + first, v);
    }
  if (adam.weights != nullptr)
    ps_store (adam.weights + first, rounded);
}

template <bool tries>
static cudaError_t
launch (Adam adam, double learning_rate, uint64_t number, cudaStream_t stream)
{
  adam.rate = (float)(learning_rate / (1 - pow (0.9, (double)number)));
  adam.correction = (float)(1 / sqrt (1 - pow (0.999, (double)number)));
  if (adam.n == 0)
    return cudaSuccess;
  if (adam.n % 4 == 0
      && ps_is_on_16_bytes ({ adam.weights, adam.master, adam.gradient, adam.momentum, adam.variance, adam.tried }))
    return ps_launch (step<4, tries>, ps_blocks (adam.n, block_threads * 4), block_threads, 0, stream, adam);
  return ps_launch (step<1, tries>, ps_blocks (adam.n, block_threads), block_threads, 0, stream, adam);
}

extern "C" cudaError_t
ps_cuda_adam (void *weights, float *master, float *gradient, float *momentum, float *variance, size_t n, float factor,
              double learning_rate, uint64_t number, cudaStream_t stream)
{
  const Adam adam = { (__nv_bfloat16 *)weights, master, gradient, momentum, variance, nullptr, n, factor, 0, 0 };

  return launch<false> (adam, learning_rate, number, stream);
}

extern "C" cudaError_t
ps_cuda_adam_try (void *weights, float *tried, const float *master, const float *gradient, const float *momentum,
                  const float *variance, size_t n, float factor, double learning_rate, uint64_t number,
                  cudaStream_t stream)
{
  const Adam adam = { (__nv_bfloat16 *)weights,
                      (float *)master,
                      (float *)gradient,
                      (float *)momentum,
                      (float *)variance,
                      tried,
                      n,
                      factor,
                      0,
                      0 };

  return launch<true> (adam, learning_rate, number, stream);
}

/* Adds up the block's numbers, halves to halves; thread 0 has the sum. */
static __device__ __forceinline__ double
add_block (double sum)
{
  __shared__ double part[block_threads];

  part[threadIdx.x] = sum;
  for (int half = block_threads / 2; half > 0; half /= 2)
    {
      __syncthreads ();
      if ((int)threadIdx.x < half)
        part[threadIdx.x] += part[threadIdx.x + half];
    }
  return part[0];
}

static __global__ void
__launch_bounds__ (block_threads) add_squares (double *parts, const float *values, size_t n, float factor)
{
  double sum = 0;

  for (size_t i = (size_t)blockIdx.x * block_threads + threadIdx.x; i < n; i += (size_t)norm_blocks * block_threads)
    {
      const double value = values[i] * factor;

      sum += value * value;
    }
  sum = add_block (sum);
  if (threadIdx.x == 0)
    parts[blockIdx.x] = sum;
}

static __global__ void
__launch_bounds__ (block_threads) add_parts (double *parts)
{
  const double sum = add_block (parts[threadIdx.x]);

  if (threadIdx.x == 0)
    parts[0] = sum;
}

extern "C" size_t
ps_cuda_norm_square_workspace (void)
{
  static_assert (norm_blocks == block_threads, "one block adds up the parts");
  return norm_blocks * sizeof (double);
}

extern "C" cudaError_t
ps_cuda_norm_square (double *total, const float *values, size_t n, float factor, cudaStream_t stream)
{
  const cudaError_t status = ps_launch (add_squares, norm_blocks, block_threads, 0, stream, total, values, n, factor);

  return status != cudaSuccess ? status : ps_launch (add_parts, 1, block_threads, 0, stream, total);
}

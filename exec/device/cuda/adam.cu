/* adam.cu - the optimizer step: reads gradient, momentum, variance and master weights once, and writes them and the
 * copy. */
#include <math.h>

#include "pack.h"

static const int block_threads = 256;

struct Adam
{
  __nv_bfloat16 *weights;
  float *master, *gradient, *momentum, *variance;
  size_t n;
  float factor, rate, correction;
};

template <int width>
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
      const float slope = g.at[i] * adam.factor;
      m.at[i] = beta1 * m.at[i] + (1 - beta1) * slope;
      v.at[i] = beta2 * v.at[i] + (1 - beta2) * slope * slope;
      w.at[i] -= adam.rate * m.at[i] / (sqrtf (v.at[i]) * adam.correction + epsilon);
      g.at[i] = 0;
      rounded.at[i] = __float2bfloat16_rn (w.at[i]);
    }
  ps_store (adam.master + first, w);
  ps_store (adam.gradient + first, g);
  ps_store (adam.momentum + first, m);
  ps_store (adam.variance + first, v);
  if (adam.weights != nullptr)
    ps_store (adam.weights + first, rounded);
}

extern "C" cudaError_t
ps_cuda_adam (void *weights, float *master, float *gradient, float *momentum, float *variance, size_t n, float factor,
              double learning_rate, uint64_t number, cudaStream_t stream)
{
  const Adam adam = { (__nv_bfloat16 *)weights,
                      master,
                      gradient,
                      momentum,
                      variance,
                      n,
                      factor,
                      (float)(learning_rate / (1 - pow (0.9, (double)number))),
                      (float)(1 / sqrt (1 - pow (0.999, (double)number))) };

  if (n == 0)
    return cudaSuccess;
  if (n % 4 == 0 && ps_is_on_16_bytes ({ weights, master, gradient, momentum, variance }))
    return ps_launch (step<4>, ps_blocks (n, block_threads * 4), block_threads, 0, stream, adam);
  return ps_launch (step<1>, ps_blocks (n, block_threads), block_threads, 0, stream, adam);
}

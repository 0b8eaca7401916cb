/* cross-entropy.cu - one block per token. The first pass over its logits finds the largest one and the sum of
 * exponentials; the second overwrites them with their gradient. The second pass finds the row in the second-level
 * cache. */
#include "pack.h"

static const int block_threads = 512;
static const int block_warps = block_threads / 32;

/* The sum of exp (x - top) over numbers x whose maximum is top. */
struct Exponentials
{
  float top, sum;
};

/* exp (x - top). The difference comes first: of two rounded products it would lose what large logits have in common, and
 * would not be 1 for the largest. */
static __device__ __forceinline__ float
power (float x, float top)
{
  return ps_exp2 ((x - top) * ps_log2_e);
}

static __device__ __forceinline__ Exponentials
join (Exponentials a, Exponentials b)
{
  const float top = fmaxf (a.top, b.top);

  if (top == -INFINITY)
    return a;
  return { top, a.sum * power (a.top, top) + b.sum * power (b.top, top) };
}

/* Joins over the block; every thread gets the same bits. */
static __device__ Exponentials
join_block (Exponentials own)
{
  __shared__ float tops[block_warps], sums[block_warps];

#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    {
      const Exponentials other
          = { __shfl_xor_sync (0xffffffffu, own.top, lanes), __shfl_xor_sync (0xffffffffu, own.sum, lanes) };
      own = join (own, other);
    }
  if (threadIdx.x % 32 == 0)
    {
      tops[threadIdx.x / 32] = own.top;
      sums[threadIdx.x / 32] = own.sum;
    }
  __syncthreads ();
  own = { tops[0], sums[0] };
  for (int i = 1; i < block_warps; i++)
    own = join (own, { tops[i], sums[i] });
  return own;
}

/* Sets the numbers of a pack after the vocabulary's end to `filler`; the pack begins at `column`. */
template <int width>
static __device__ __forceinline__ void
fill_end (float (&x)[width], int column, int vocabulary, float filler)
{
  if (column + width > vocabulary)
#pragma unroll
    for (int i = 0; i < width; i++)
      x[i] = column + i < vocabulary ? x[i] : filler;
}

template <typename T, int width>
static __device__ __forceinline__ Exponentials
read_row (const T *row, int vocabulary)
{
  Exponentials own = { -INFINITY, 0 };

#pragma unroll 4
  for (int column = (int)threadIdx.x * width; column < vocabulary; column += block_threads * width)
    {
      const auto pack = ps_load<T, width> (row + column);
      float x[width], top = own.top, sum = 0;
#pragma unroll
      for (int i = 0; i < width; i++)
        x[i] = ps_to_float (pack.at[i]);
      fill_end (x, column, vocabulary, -INFINITY);
#pragma unroll
      for (int i = 0; i < width; i++)
        top = fmaxf (top, x[i]);
#pragma unroll
      for (int i = 0; i < width; i++)
        sum += power (x[i], top);
      own = { top, own.sum * power (own.top, top) + sum };
    }
  return own;
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) cross_entropy (T *logits, float *loss, const uint32_t *words, int sequence,
                                                 int vocabulary, int stride, float factor)
{
  const int token = (int)blockIdx.x;
  const int target = (int)words[token + token / sequence + 1];
  T *row = logits + (size_t)token * stride;
  const float wanted = ps_to_float (row[target]);
  const Exponentials all = join_block (read_row<T, width> (row, vocabulary));
  const float share = factor / all.sum;

  if (threadIdx.x == 0)
    loss[token] = all.top - wanted + logf (all.sum);
#pragma unroll 4
  for (int column = (int)threadIdx.x * width; column < stride; column += block_threads * width)
    {
      auto pack = ps_load<T, width> (row + column);
      float slope[width];
#pragma unroll
      for (int i = 0; i < width; i++)
        slope[i] = share * power (ps_to_float (pack.at[i]), all.top);
      if (target >= column && target < column + width)
#pragma unroll
        for (int i = 0; i < width; i++)
          slope[i] -= column + i == target ? factor : 0;
      fill_end (slope, column, vocabulary, 0);
#pragma unroll
      for (int i = 0; i < width; i++)
        pack.at[i] = ps_from_float<T> (slope[i]);
      ps_store (row + column, pack);
    }
}

extern "C" cudaError_t
ps_cuda_cross_entropy (PsCudaElement element, void *logits, float *loss, const uint32_t *words, int batch, int sequence,
                       int vocabulary, int stride, float factor, cudaStream_t stream)
{
  if (batch <= 0 || sequence <= 0)
    return cudaSuccess;
  if (vocabulary <= 0 || stride < vocabulary)
    return cudaErrorInvalidValue;
  return ps_by_width (element, ps_is_wide (element, (size_t)stride, { logits }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    return ps_launch (cross_entropy<T, decltype (tag)::width>, (unsigned)(batch * sequence), block_threads, 0, stream,
                      (T *)logits, loss, words, sequence, vocabulary, stride, factor);
  });
}

/* In one block each thread adds up every 512th loss, then halves are added to halves. */
static __global__ void
__launch_bounds__ (block_threads) sum_losses (double *total, const float *loss, int n, double factor)
{
  __shared__ double part[block_threads];
  double sum = 0;

  for (int i = (int)threadIdx.x; i < n; i += block_threads)
    sum += loss[i];
  part[threadIdx.x] = sum;
  for (int half = block_threads / 2; half > 0; half /= 2)
    {
      __syncthreads ();
      if ((int)threadIdx.x < half)
        part[threadIdx.x] += part[threadIdx.x + half];
    }
  if (threadIdx.x == 0)
    *total = part[0] * factor;
}

extern "C" cudaError_t
ps_cuda_loss_sum (double *total, const float *loss, int n, double factor, cudaStream_t stream)
{
  return ps_launch (sum_losses, 1, block_threads, 0, stream, total, loss, n, factor);
}

/* rotary.cu - rotary positions. */
#include "pack.h"

static const int block_threads = 256;

static __global__ void
__launch_bounds__ (block_threads) fill_table (float2 *table, int sequence, int half, double base)
{
  const int i = (int)(blockIdx.x * block_threads + threadIdx.x);

  if (i >= sequence * half)
    return;
  const double angle = (i / half) * pow (base, -(double)(i % half) / half);
  table[i] = make_float2 ((float)cos (angle), (float)sin (angle));
}

extern "C" size_t
ps_cuda_rotary_table_bytes (int sequence, int head_size)
{
  return sizeof (float2) * (size_t)sequence * (size_t)(head_size / 2);
}

extern "C" cudaError_t
ps_cuda_rotary_table (float *table, int sequence, int head_size, double base, cudaStream_t stream)
{
  if (sequence <= 0 || head_size <= 0)
    return cudaSuccess;
  if (head_size % 2 != 0)
    return cudaErrorInvalidValue;
  return ps_launch (fill_table, ps_blocks ((size_t)sequence * (size_t)(head_size / 2), block_threads), block_threads, 0,
                    stream, (float2 *)table, sequence, head_size / 2, base);
}

template <typename T> struct Rotary
{
  T *x;
  const float2 *table;
  int sequence, heads, half, stride;
  float sign; /* -1 turns back */
};

/* One thread turns `width` neighbouring pairs of one head. Grid: token, threads of its heads. */
template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) rotate (Rotary<T> rotary)
{
  const unsigned packs = (unsigned)(rotary.half / width), i = blockIdx.y * block_threads + threadIdx.x;
  const int row = (int)blockIdx.x, head = (int)(i / packs), pair = (int)(i % packs) * width;

  if (head >= rotary.heads)
    return;
  T *low = rotary.x + (size_t)row * rotary.stride + head * 2 * rotary.half + pair, *high = low + rotary.half;
  const float2 *turn = rotary.table + (size_t)(row % rotary.sequence) * rotary.half + pair;
  auto a = ps_load<T, width> (low), b = ps_load<T, width> (high);
#pragma unroll
  for (int k = 0; k < width; k++)
    {
      const float x = ps_to_float (a.at[k]), y = ps_to_float (b.at[k]);
      const float cosine = turn[k].x, sine = turn[k].y * rotary.sign;
      a.at[k] = ps_from_float<T> (x * cosine - y * sine);
      b.at[k] = ps_from_float<T> (y * cosine + x * sine);
    }
  ps_store (low, a);
  ps_store (high, b);
}

extern "C" cudaError_t
ps_cuda_rotary (PsCudaElement element, void *x, const float *table, int rows, int sequence, int heads, int head_size,
                int stride, int backward, cudaStream_t stream)
{
  const int half = head_size / 2;

  if (rows <= 0 || heads <= 0 || head_size <= 0)
    return cudaSuccess;
  if (head_size % 2 != 0 || sequence <= 0)
    return cudaErrorInvalidValue;
  const bool wide = ps_is_wide (element, (size_t)half, { x }) && ps_is_wide (element, (size_t)stride, {});
  return ps_by_width (element, wide, [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    const Rotary<T> rotary = { (T *)x, (const float2 *)table, sequence, heads, half, stride, backward ? -1.0f : 1.0f };
    const dim3 grid ((unsigned)rows, ps_blocks ((size_t)heads * (size_t)(half / width), block_threads));
    return ps_launch (rotate<T, width>, grid, block_threads, 0, stream, rotary);
  });
}

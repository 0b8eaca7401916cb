/* norm.cu - layer norm and RMS norm: a row is read once, and kept in registers for its second and third pass. */
#include "pack.h"

static const int block_threads = 256;
static const int block_warps = block_threads / 32;
static const float epsilon = 1e-5f;

/* One layout of a row over threads. `warps` (1, or all of a block) share a row. Each thread keeps `packs` packs of
 * `width` elements. packs 0: any number of columns, read again in each pass. */
template <typename Type, int width_, int packs_, int warps_> struct Layout
{
  typedef Type T;
  typedef PsPack<Type, width_> Pack;
  static constexpr int width = width_;
  static constexpr int packs = packs_;
  static constexpr int warps = warps_;
  static constexpr int kept = packs_ > 0 ? packs_ : 1;

  /* Returns the columns that the layout can keep. */
  static constexpr int
  room ()
  {
    return packs * warps * 32 * width;
  }
};

template <typename L>
static __device__ __forceinline__ int
own_row ()
{
  return (int)(blockIdx.x * (block_warps / L::warps) + threadIdx.x / 32 / L::warps);
}

/* Calls work (slot, column) for each pack of this thread. slot is known at compile time if packs are kept. */
template <typename L, typename Work>
static __device__ __forceinline__ void
for_packs (int columns, Work work)
{
  constexpr int step = L::warps * 32 * L::width;
  const int first = (int)(threadIdx.x % (L::warps * 32)) * L::width;

  if constexpr (L::packs > 0)
    {
#pragma unroll
      for (int slot = 0; slot < L::packs; slot++)
        if (first + slot * step < columns)
          work (slot, first + slot * step);
    }
  else
    for (int column = first; column < columns; column += step)
      work (0, column);
}

/* Returns the sums of a and b over the threads of a row; all of them get the same bits. */
template <typename L>
static __device__ __forceinline__ float2
sum_over_row (float a, float b)
{
  float2 sum = make_float2 (ps_warp_sum (a), ps_warp_sum (b));

  if constexpr (L::warps > 1)
    {
      __shared__ float2 part[block_warps];
      __syncthreads ();
      if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
      __syncthreads ();
      sum = make_float2 (0, 0);
#pragma unroll
      for (int i = 0; i < block_warps; i++)
        sum = make_float2 (sum.x + part[i].x, sum.y + part[i].y);
    }
  return sum;
}

template <typename T> struct Forward
{
  T *y;
  float *mean, *scale;
  const T *x, *gain, *bias;
  int rows, columns;
};

template <typename L, bool centred>
static __global__ void
__launch_bounds__ (block_threads) forward (Forward<typename L::T> norm)
{
  typedef typename L::T T;
  typedef typename L::Pack Pack;
  const int row = own_row<L> (), columns = norm.columns;
  const size_t start = (size_t)row * columns;
  Pack kept[L::kept];
  float total = 0, squares = 0, mean = 0;

  if (row >= norm.rows)
    return;
  for_packs<L> (columns, [&] (int slot, int column) {
    const Pack pack = ps_load<T, L::width> (norm.x + start + column);
    kept[slot] = pack;
#pragma unroll
    for (int i = 0; i < L::width; i++)
      {
        const float value = ps_to_float (pack.at[i]);
        total += value;
        squares += value * value;
      }
  });
  if constexpr (centred)
    {
      mean = sum_over_row<L> (total, 0).x / (float)columns;
      squares = 0;
      for_packs<L> (columns, [&] (int slot, int column) {
        const Pack pack = L::packs > 0 ? kept[slot] : ps_load<T, L::width> (norm.x + start + column);
#pragma unroll
        for (int i = 0; i < L::width; i++)
          squares += (ps_to_float (pack.at[i]) - mean) * (ps_to_float (pack.at[i]) - mean);
      });
    }
  const float scale = rsqrtf (sum_over_row<L> (squares, 0).x / (float)columns + epsilon);
  for_packs<L> (columns, [&] (int slot, int column) {
    Pack pack = L::packs > 0 ? kept[slot] : ps_load<T, L::width> (norm.x + start + column);
    const Pack gain = ps_load<T, L::width> (norm.gain + column);
    Pack bias = {};
    if constexpr (centred)
      bias = ps_load<T, L::width> (norm.bias + column);
#pragma unroll
    for (int i = 0; i < L::width; i++)
      {
        float value = (ps_to_float (pack.at[i]) - mean) * scale * ps_to_float (gain.at[i]);
        if constexpr (centred)
          value += ps_to_float (bias.at[i]);
        pack.at[i] = ps_from_float<T> (value);
      }
    ps_store (norm.y + start + column, pack);
  });
  if (threadIdx.x % (L::warps * 32) == 0)
    {
      norm.scale[row] = scale;
      if constexpr (centred)
        norm.mean[row] = mean;
    }
}

template <typename T> struct Backward
{
  T *dx;
  const T *residual, *dy, *x;
  const float *mean, *scale;
  const T *gain;
  int rows, columns;
};

template <typename L, bool centred>
static __global__ void
__launch_bounds__ (block_threads) backward (Backward<typename L::T> norm)
{
  typedef typename L::T T;
  typedef typename L::Pack Pack;
  const int row = own_row<L> (), columns = norm.columns;
  const size_t start = (size_t)row * columns;
  Pack kept_x[L::kept], kept_dy[L::kept];
  float total = 0, slope = 0;

  if (row >= norm.rows)
    return;
  const float mean = centred ? norm.mean[row] : 0, scale = norm.scale[row];
  for_packs<L> (columns, [&] (int slot, int column) {
    const Pack x = ps_load<T, L::width> (norm.x + start + column);
    const Pack dy = ps_load<T, L::width> (norm.dy + start + column);
    const Pack gain = ps_load<T, L::width> (norm.gain + column);
    kept_x[slot] = x;
    kept_dy[slot] = dy;
#pragma unroll
    for (int i = 0; i < L::width; i++)
      {
        const float u = ps_to_float (dy.at[i]) * ps_to_float (gain.at[i]);
        total += u;
        slope += u * ((ps_to_float (x.at[i]) - mean) * scale);
      }
  });
  const float2 sums = sum_over_row<L> (total, slope);
  const float average = centred ? sums.x / (float)columns : 0, average_slope = sums.y / (float)columns;
  for_packs<L> (columns, [&] (int slot, int column) {
    const Pack x = L::packs > 0 ? kept_x[slot] : ps_load<T, L::width> (norm.x + start + column);
    const Pack dy = L::packs > 0 ? kept_dy[slot] : ps_load<T, L::width> (norm.dy + start + column);
    const Pack gain = ps_load<T, L::width> (norm.gain + column);
    Pack residual = {}, result;
    if (norm.residual != nullptr)
      residual = ps_load<T, L::width> (norm.residual + start + column);
#pragma unroll
    for (int i = 0; i < L::width; i++)
      {
        const float u = ps_to_float (dy.at[i]) * ps_to_float (gain.at[i]);
        const float standard = (ps_to_float (x.at[i]) - mean) * scale;
        const float through = scale * (u - average - standard * average_slope);
        result.at[i] = ps_from_float<T> (norm.residual != nullptr ? ps_to_float (residual.at[i]) + through : through);
      }
    ps_store (norm.dx + start + column, result);
  });
}

/* Launches with the smallest layout that keeps a row. */
template <typename T, int width, typename Launch>
static cudaError_t
by_columns (int columns, Launch launch)
{
  if constexpr (width > 1)
    {
      if (columns <= Layout<T, width, 4, 1>::room ())
        return launch (Layout<T, width, 4, 1> ());
      if (columns <= Layout<T, width, 2, block_warps>::room ())
        return launch (Layout<T, width, 2, block_warps> ());
      if (columns <= Layout<T, width, 8, block_warps>::room ())
        return launch (Layout<T, width, 8, block_warps> ());
    }
  return launch (Layout<T, width, 0, block_warps> ());
}

/* An RMS norm has bias and mean NULL. */
template <bool centred>
static cudaError_t
launch_forward (PsCudaElement element, void *y, float *mean, float *scale, const void *x, const void *gain,
                const void *bias, int rows, int columns, cudaStream_t stream)
{
  if (rows <= 0 || columns <= 0)
    return cudaSuccess;
  return ps_by_width (element, ps_is_wide (element, (size_t)columns, { y, x, gain, bias }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    const Forward<T> norm = { (T *)y, mean, scale, (const T *)x, (const T *)gain, (const T *)bias, rows, columns };
    return by_columns<T, decltype (tag)::width> (columns, [&] (auto layout) {
      typedef decltype (layout) L;
      return ps_launch (forward<L, centred>, ps_blocks ((size_t)rows, block_warps / L::warps), block_threads, 0, stream,
                        norm);
    });
  });
}

template <bool centred>
static cudaError_t
launch_backward (PsCudaElement element, void *dx, const void *residual, const void *dy, const void *x,
                 const float *mean, const float *scale, const void *gain, int rows, int columns, cudaStream_t stream)
{
  if (rows <= 0 || columns <= 0)
    return cudaSuccess;
  return ps_by_width (element, ps_is_wide (element, (size_t)columns, { dx, residual, dy, x, gain }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    const Backward<T> norm
        = { (T *)dx, (const T *)residual, (const T *)dy, (const T *)x, mean, scale, (const T *)gain, rows, columns };
    return by_columns<T, decltype (tag)::width> (columns, [&] (auto layout) {
      typedef decltype (layout) L;
      return ps_launch (backward<L, centred>, ps_blocks ((size_t)rows, block_warps / L::warps), block_threads, 0,
                        stream, norm);
    });
  });
}

extern "C" cudaError_t
ps_cuda_norm_rows (PsCudaElement element, void *y, float *mean, float *scale, const void *x, const void *gain,
                   const void *bias, int rows, int columns, cudaStream_t stream)
{
  return mean != NULL ? launch_forward<true> (element, y, mean, scale, x, gain, bias, rows, columns, stream)
                      : launch_forward<false> (element, y, NULL, scale, x, gain, NULL, rows, columns, stream);
}

extern "C" cudaError_t
ps_cuda_norm_rows_input (PsCudaElement element, void *dx, const void *residual, const void *dy, const void *x,
                         const float *mean, const float *scale, const void *gain, int rows, int columns,
                         cudaStream_t stream)
{
  return mean != NULL ? launch_backward<true> (element, dx, residual, dy, x, mean, scale, gain, rows, columns, stream)
                      : launch_backward<false> (element, dx, residual, dy, x, NULL, scale, gain, rows, columns, stream);
}

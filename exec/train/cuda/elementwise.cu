/* elementwise.cu - kernels in which every thread works on a few elements of its own: each is read once and written
 * once. */
#include "pack.h"

static const int block_threads = 256;

/* Returns the first column of this thread; arrays have rows x columns elements, a row per block. */
template <int width>
static __device__ __forceinline__ int
first_column ()
{
  return (int)(blockIdx.y * block_threads + threadIdx.x) * width;
}

template <int width>
static dim3
grid_of (int rows, int columns)
{
  return dim3 ((unsigned)rows, ps_blocks ((size_t)columns, (size_t)block_threads * width));
}

/* 1 / (1 + exp (-x)); 0 if exp (-x) is infinite, or nearly so. */
static __device__ __forceinline__ float
sigmoid (float x)
{
  return __fdividef (1, 1 + ps_exp2 (-ps_log2_e * x));
}

/* --- a bias for every column --- */

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) add_bias (T *y, const T *bias, int columns)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  T *at = y + (size_t)blockIdx.x * columns + column;
  auto pack = ps_load<T, width> (at);
  ps_add_to (&pack, ps_load<T, width> (bias + column));
  ps_store (at, pack);
}

extern "C" cudaError_t
ps_cuda_bias_add (PsCudaElement element, void *y, const void *bias, int rows, int columns, cudaStream_t stream)
{
  if (rows <= 0 || columns <= 0)
    return cudaSuccess;
  return ps_by_width (element, ps_is_wide (element, (size_t)columns, { y, bias }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    return ps_launch (add_bias<T, width>, grid_of<width> (rows, columns), block_threads, 0, stream, (T *)y,
                      (const T *)bias, columns);
  });
}

/* --- GELU: z / (1 + exp (-2u)) with u = sqrt (2 / pi) (z + 0.044715 z^3), as 1 + tanh (u) = 2 / (1 + exp (-2u)) --- */

static const float gelu_slope = 1.5957691216f; /* 2 sqrt (2 / pi) */
static const float gelu_cube = 0.044715f;

static __device__ __forceinline__ float
gelu_gate (float z)
{
  return sigmoid (gelu_slope * (z + gelu_cube * z * z * z));
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) gelu (T *g, T *z, const T *bias, int columns)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  const size_t first = (size_t)blockIdx.x * columns + column;
  auto pack = ps_load<T, width> (z + first);
  if (bias != nullptr)
    {
      ps_add_to (&pack, ps_load<T, width> (bias + column));
      ps_store (z + first, pack);
    }
#pragma unroll
  for (int i = 0; i < width; i++)
    {
      const float value = ps_to_float (pack.at[i]);
      pack.at[i] = ps_from_float<T> (value * gelu_gate (value));
    }
  ps_store (g + first, pack);
}

extern "C" cudaError_t
ps_cuda_gelu (PsCudaElement element, void *g, void *z, const void *bias, int rows, int columns, cudaStream_t stream)
{
  if (rows <= 0 || columns <= 0)
    return cudaSuccess;
  return ps_by_width (element, ps_is_wide (element, (size_t)columns, { g, z, bias }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    return ps_launch (gelu<T, width>, grid_of<width> (rows, columns), block_threads, 0, stream, (T *)g, (T *)z,
                      (const T *)bias, columns);
  });
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) gelu_input (T *dz, const T *dg, const T *z, size_t n)
{
  const size_t first = ((size_t)blockIdx.x * block_threads + threadIdx.x) * width;
  if (first >= n)
    return;
  auto pack = ps_load<T, width> (dg + first);
  const auto at = ps_load<T, width> (z + first);
#pragma unroll
  for (int i = 0; i < width; i++)
    {
      const float value = ps_to_float (at.at[i]), gate = gelu_gate (value);
      const float slope = gelu_slope * (1 + 3 * gelu_cube * value * value);
      pack.at[i] = ps_from_float<T> (ps_to_float (pack.at[i]) * (gate + value * gate * (1 - gate) * slope));
    }
  ps_store (dz + first, pack);
}

extern "C" cudaError_t
ps_cuda_gelu_input (PsCudaElement element, void *dz, const void *dg, const void *z, size_t n, cudaStream_t stream)
{
  if (n == 0)
    return cudaSuccess;
  return ps_by_width (element, ps_is_wide (element, n, { dz, dg, z }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    return ps_launch (gelu_input<T, width>, ps_blocks (n, (size_t)block_threads * width), block_threads, 0, stream,
                      (T *)dz, (const T *)dg, (const T *)z, n);
  });
}

/* --- SwiGLU --- */

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) swiglu (T *y, const T *gate, const T *up, int columns, int stride)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  const size_t first = (size_t)blockIdx.x * stride + column;
  auto pack = ps_load<T, width> (gate + first);
  const auto other = ps_load<T, width> (up + first);
#pragma unroll
  for (int i = 0; i < width; i++)
    {
      const float value = ps_to_float (pack.at[i]);
      pack.at[i] = ps_from_float<T> (value * sigmoid (value) * ps_to_float (other.at[i]));
    }
  ps_store (y + (size_t)blockIdx.x * columns + column, pack);
}

extern "C" cudaError_t
ps_cuda_swiglu (PsCudaElement element, void *y, const void *gate, const void *up, int rows, int columns, int stride,
                cudaStream_t stream)
{
  if (rows <= 0 || columns <= 0)
    return cudaSuccess;
  const bool wide = ps_is_wide (element, (size_t)columns, { y, gate, up }) && ps_is_wide (element, (size_t)stride, {});
  return ps_by_width (element, wide, [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    return ps_launch (swiglu<T, width>, grid_of<width> (rows, columns), block_threads, 0, stream, (T *)y,
                      (const T *)gate, (const T *)up, columns, stride);
  });
}

/* With q = 1 / (1 + exp (-gate)): y = gate q up, dup = dy gate q, dgate = dy up q (1 + gate (1 - q)). */
template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads)
    swiglu_input (T *dgate, T *dup, const T *dy, const T *gate, const T *up, int columns, int stride)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  const size_t first = (size_t)blockIdx.x * stride + column;
  const auto slope = ps_load<T, width> (dy + (size_t)blockIdx.x * columns + column);
  auto one = ps_load<T, width> (gate + first);
  auto other = ps_load<T, width> (up + first);
#pragma unroll
  for (int i = 0; i < width; i++)
    {
      const float g = ps_to_float (one.at[i]), u = ps_to_float (other.at[i]), d = ps_to_float (slope.at[i]);
      const float q = sigmoid (g);
      one.at[i] = ps_from_float<T> (d * u * q * (1 + g * (1 - q)));
      other.at[i] = ps_from_float<T> (d * g * q);
    }
  ps_store (dgate + first, one);
  ps_store (dup + first, other);
}

extern "C" cudaError_t
ps_cuda_swiglu_input (PsCudaElement element, void *dgate, void *dup, const void *dy, const void *gate, const void *up,
                      int rows, int columns, int stride, cudaStream_t stream)
{
  if (rows <= 0 || columns <= 0)
    return cudaSuccess;
  const bool wide
      = ps_is_wide (element, (size_t)columns, { dgate, dup, dy, gate, up }) && ps_is_wide (element, (size_t)stride, {});
  return ps_by_width (element, wide, [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    return ps_launch (swiglu_input<T, width>, grid_of<width> (rows, columns), block_threads, 0, stream, (T *)dgate,
                      (T *)dup, (const T *)dy, (const T *)gate, (const T *)up, columns, stride);
  });
}

/* --- rows of slices --- */

/* Returns this thread's first element of the row of this block; `rows` of each sequence. */
template <typename T, int width>
static __device__ __forceinline__ T *
row_at (PsCudaRows all, int rows)
{
  const size_t row = (size_t)(blockIdx.x / (unsigned)rows) * (unsigned)all.sequence + blockIdx.x % (unsigned)rows;

  return (T *)all.first + row * (unsigned)all.stride + first_column<width> ();
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) copy_rows (PsCudaRows to, PsCudaRows from, const float *more, int rows, int columns)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  auto pack = ps_load<T, width> (row_at<T, width> (from, rows));
  if (more != nullptr)
    {
      const float *other = more + (size_t)blockIdx.x * columns + column;
#pragma unroll
      for (int i = 0; i < width; i++)
        pack.at[i] = ps_from_float<T> (ps_to_float (pack.at[i]) + other[i]);
    }
  ps_store (row_at<T, width> (to, rows), pack);
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) add_rows (float *sum, int begins, PsCudaRows from, int rows, int columns)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  const auto pack = ps_load<T, width> (row_at<T, width> (from, rows));
  float *at = sum + (size_t)blockIdx.x * columns + column;
#pragma unroll
  for (int i = 0; i < width; i++)
    at[i] = (begins ? 0 : at[i]) + ps_to_float (pack.at[i]);
}

extern "C" cudaError_t
ps_cuda_rows_copy (PsCudaElement element, PsCudaRows to, PsCudaRows from, const float *more, int batch, int rows,
                   int columns, cudaStream_t stream)
{
  const bool wide = ps_is_wide (element, (size_t)columns, { to.first, from.first })
                    && ps_is_wide (element, (size_t)to.stride, {}) && ps_is_wide (element, (size_t)from.stride, {});

  if (batch <= 0 || rows <= 0 || columns <= 0)
    return cudaSuccess;
  return ps_by_width (element, wide, [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    return ps_launch (copy_rows<T, width>, grid_of<width> (batch * rows, columns), block_threads, 0, stream, to, from,
                      more, rows, columns);
  });
}

extern "C" cudaError_t
ps_cuda_rows_add (PsCudaElement element, float *sum, int begins, PsCudaRows from, int batch, int rows, int columns,
                  cudaStream_t stream)
{
  const bool wide
      = ps_is_wide (element, (size_t)columns, { from.first }) && ps_is_wide (element, (size_t)from.stride, {});

  if (batch <= 0 || rows <= 0 || columns <= 0)
    return cudaSuccess;
  return ps_by_width (element, wide, [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    return ps_launch (add_rows<T, width>, grid_of<width> (batch * rows, columns), block_threads, 0, stream, sum, begins,
                      from, rows, columns);
  });
}

/* --- rounding --- */

template <int width>
static __global__ void
__launch_bounds__ (block_threads) round_to_bf16 (__nv_bfloat16 *to, const float *from, size_t n)
{
  const size_t first = ((size_t)blockIdx.x * block_threads + threadIdx.x) * width;
  if (first >= n)
    return;
  const auto pack = ps_load<float, width> (from + first);
  PsPack<__nv_bfloat16, width> result;
#pragma unroll
  for (int i = 0; i < width; i++)
    result.at[i] = __float2bfloat16_rn (pack.at[i]);
  ps_store (to + first, result);
}

/* Packs of four elements are 16 bytes of float and 8 of bf16. */
extern "C" cudaError_t
ps_cuda_to_bf16 (void *to, const float *from, size_t n, cudaStream_t stream)
{
  const int width = n % 4 == 0 && ps_is_on_16_bytes ({ to, from }) ? 4 : 1;

  if (n == 0)
    return cudaSuccess;
  return ps_launch (width == 4 ? round_to_bf16<4> : round_to_bf16<1>, ps_blocks (n, (size_t)(block_threads * width)),
                    block_threads, 0, stream, (__nv_bfloat16 *)to, from, n);
}

/* elementwise.cu - kernels in which every thread works on its own few elements: one read and one write of memory each.
 */
#include "pack.h"

static const int block_threads = 256;

/* The first element of this thread, `width` each. */
template <int width>
static __device__ __forceinline__ size_t
first_element ()
{
  return ((size_t)blockIdx.x * block_threads + threadIdx.x) * width;
}

/* Launches kernel<type, width> over n elements. */
#define LAUNCH_OVER(kernel, n, ...)                                                                                    \
  ps_launch (kernel<T, width>, ps_blocks (n, (size_t)block_threads *width), block_threads, 0, stream, __VA_ARGS__)

/* --- a bias for every column --- */

/* Of rows x columns elements, the columns of this thread. */
template <int width>
static __device__ __forceinline__ int
first_column ()
{
  return (int)(blockIdx.y * block_threads + threadIdx.x) * width;
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) add_bias (T *y, const T *bias, int columns)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  T *at = y + (size_t)blockIdx.x * columns + column;
  auto pack = ps_load<T, width> (at);
  const auto shift = ps_load<T, width> (bias + column);
#pragma unroll
  for (int i = 0; i < width; i++)
    pack.at[i] = ps_from_float<T> (ps_to_float (pack.at[i]) + ps_to_float (shift.at[i]));
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
    const dim3 grid ((unsigned)rows, ps_blocks ((size_t)columns, (size_t)block_threads * width));
    return ps_launch (add_bias<T, width>, grid, block_threads, 0, stream, (T *)y, (const T *)bias, columns);
  });
}

/* --- sums --- */

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) add (T *sum, const T *a, const T *b, size_t n)
{
  const size_t first = first_element<width> ();
  if (first >= n)
    return;
  auto pack = ps_load<T, width> (a + first);
  const auto other = ps_load<T, width> (b + first);
#pragma unroll
  for (int i = 0; i < width; i++)
    pack.at[i] = ps_from_float<T> (ps_to_float (pack.at[i]) + ps_to_float (other.at[i]));
  ps_store (sum + first, pack);
}

extern "C" cudaError_t
ps_cuda_add (PsCudaElement element, void *sum, const void *a, const void *b, size_t n, cudaStream_t stream)
{
  if (n == 0)
    return cudaSuccess;
  return ps_by_width (element, ps_is_wide (element, n, { sum, a, b }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    return LAUNCH_OVER (add, n, (T *)sum, (const T *)a, (const T *)b, n);
  });
}

/* --- GELU: z / (1 + exp (-2u)) with u = sqrt (2 / pi) (z + 0.044715 z^3), as 1 + tanh (u) = 2 / (1 + exp (-2u)) --- */

static const float gelu_slope = 1.5957691216f; /* 2 sqrt (2 / pi) */
static const float gelu_cube = 0.044715f;

static __device__ __forceinline__ float
gelu_gate (float z)
{
  return 1 / (1 + __expf (-gelu_slope * (z + gelu_cube * z * z * z)));
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
      const auto shift = ps_load<T, width> (bias + column);
#pragma unroll
      for (int i = 0; i < width; i++)
        pack.at[i] = ps_from_float<T> (ps_to_float (pack.at[i]) + ps_to_float (shift.at[i]));
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
    const dim3 grid ((unsigned)rows, ps_blocks ((size_t)columns, (size_t)block_threads * width));
    return ps_launch (gelu<T, width>, grid, block_threads, 0, stream, (T *)g, (T *)z, (const T *)bias, columns);
  });
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) gelu_input (T *dz, const T *dg, const T *z, size_t n)
{
  const size_t first = first_element<width> ();
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
    return LAUNCH_OVER (gelu_input, n, (T *)dz, (const T *)dg, (const T *)z, n);
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
      pack.at[i] = ps_from_float<T> (value / (1 + __expf (-value)) * ps_to_float (other.at[i]));
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
    const dim3 grid ((unsigned)rows, ps_blocks ((size_t)columns, (size_t)block_threads * width));
    return ps_launch (swiglu<T, width>, grid, block_threads, 0, stream, (T *)y, (const T *)gate, (const T *)up, columns,
                      stride);
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
      const float q = 1 / (1 + __expf (-g));
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
    const dim3 grid ((unsigned)rows, ps_blocks ((size_t)columns, (size_t)block_threads * width));
    return ps_launch (swiglu_input<T, width>, grid, block_threads, 0, stream, (T *)dgate, (T *)dup, (const T *)dy,
                      (const T *)gate, (const T *)up, columns, stride);
  });
}

/* --- casts, fill, scale --- */

template <typename To, typename From, int width>
static __global__ void
__launch_bounds__ (block_threads) cast (To *to, const From *from, size_t n)
{
  const size_t first = first_element<width> ();
  if (first >= n)
    return;
  const auto pack = ps_load<From, width> (from + first);
  PsPack<To, width> result;
#pragma unroll
  for (int i = 0; i < width; i++)
    result.at[i] = ps_from_float<To> (ps_to_float (pack.at[i]));
  ps_store (to + first, result);
}

/* Four elements: 16 bytes of float, 8 of bf16. */
template <typename To, typename From>
static cudaError_t
launch_cast (To *to, const From *from, size_t n, cudaStream_t stream)
{
  if (n == 0)
    return cudaSuccess;
  if (n % 4 == 0 && ps_is_on_16_bytes ({ to, from }))
    return ps_launch (cast<To, From, 4>, ps_blocks (n, block_threads * 4), block_threads, 0, stream, to, from, n);
  return ps_launch (cast<To, From, 1>, ps_blocks (n, block_threads), block_threads, 0, stream, to, from, n);
}

extern "C" cudaError_t
ps_cuda_to_bf16 (void *to, const float *from, size_t n, cudaStream_t stream)
{
  return launch_cast ((__nv_bfloat16 *)to, from, n, stream);
}

extern "C" cudaError_t
ps_cuda_to_fp32 (float *to, const void *from, size_t n, cudaStream_t stream)
{
  return launch_cast (to, (const __nv_bfloat16 *)from, n, stream);
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) fill (T *x, float value, size_t n)
{
  const size_t first = first_element<width> ();
  if (first >= n)
    return;
  PsPack<T, width> pack;
#pragma unroll
  for (int i = 0; i < width; i++)
    pack.at[i] = ps_from_float<T> (value);
  ps_store (x + first, pack);
}

extern "C" cudaError_t
ps_cuda_fill (PsCudaElement element, void *x, float value, size_t n, cudaStream_t stream)
{
  if (n == 0)
    return cudaSuccess;
  return ps_by_width (element, ps_is_wide (element, n, { x }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    return LAUNCH_OVER (fill, n, (T *)x, value, n);
  });
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) scale (T *x, float factor, size_t n)
{
  const size_t first = first_element<width> ();
  if (first >= n)
    return;
  auto pack = ps_load<T, width> (x + first);
#pragma unroll
  for (int i = 0; i < width; i++)
    pack.at[i] = ps_from_float<T> (ps_to_float (pack.at[i]) * factor);
  ps_store (x + first, pack);
}

extern "C" cudaError_t
ps_cuda_scale (PsCudaElement element, void *x, float factor, size_t n, cudaStream_t stream)
{
  if (n == 0)
    return cudaSuccess;
  return ps_by_width (element, ps_is_wide (element, n, { x }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    return LAUNCH_OVER (scale, n, (T *)x, factor, n);
  });
}

extern "C" size_t
ps_cuda_element_bytes (PsCudaElement element)
{
  return element == PS_CUDA_BF16 ? sizeof (__nv_bfloat16) : sizeof (float);
}

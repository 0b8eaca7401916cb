/* elementwise.cu - kernels in which every thread works on a few elements of its own: each is read once and written
 * once. The norm of the gradients, which the optimizer needs, is here too. */
#include <math.h>

#include "launch.h"

static const int block_threads = 256;

/* Returns the first column of this thread; arrays have rows x columns elements, a row per block. */
template <int width> static __device__ __forceinline__ int first_column ()
{
  return (int)(blockIdx.y * block_threads + threadIdx.x) * width;
}

template <int width> static dim3 grid_of (int rows, int columns)
{
  return dim3 ((unsigned)rows, ps_blocks ((size_t)columns, (size_t)block_threads * width));
}

/* 1 / (1 + exp (-x)); 0 if exp (-x) is infinite, or nearly so. */
static __device__ __forceinline__ float sigmoid (float x)
{
  return __fdividef (1, 1 + ps_exp2 (-ps_log2_e * x));
}

/* --- a bias for every column --- */

template <typename T, int width>
static __global__ void __launch_bounds__ (block_threads) add_bias (T *y, const T *bias, int columns)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  T *at = y + (size_t)blockIdx.x * columns + column;
  auto pack = ps_load<T, width> (at);
  ps_add_to (&pack, ps_load<T, width> (bias + column));
  ps_store (at, pack);
}

extern "C" void ps_cuda_bias_add (PsQueue *queue, void *y, const void *bias, int rows, int columns)
{
  ps_by_width (queue->element, { columns }, { y, bias }, [&]<typename T, int width> (PsWidth<T, width>) {
    ps_launch (queue, "bias", add_bias<T, width>, grid_of<width> (rows, columns), block_threads, 0, (T *)y,
               (const T *)bias, columns);
  });
}

/* --- GELU: z / (1 + exp (-2u)) with u = sqrt (2 / pi) (z + 0.044715 z^3), as 1 + tanh (u) = 2 / (1 + exp (-2u)) --- */

static const float gelu_slope = 1.5957691216f; /* 2 sqrt (2 / pi) */
static const float gelu_cube = 0.044715f;

static __device__ __forceinline__ float gelu_gate (float z)
{
  return sigmoid (gelu_slope * (z + gelu_cube * z * z * z));
}

template <typename T, int width>
static __global__ void __launch_bounds__ (block_threads) gelu (T *g, T *z, const T *bias, int columns)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  const size_t first = (size_t)blockIdx.x * columns + column;
  auto pack = ps_load<T, width> (z + first);
  if (bias != nullptr) {
    ps_add_to (&pack, ps_load<T, width> (bias + column));
    ps_store (z + first, pack);
  }
#pragma unroll
  for (int i = 0; i < width; i++) {
    const float value = ps_to_float (pack.at[i]);
    pack.at[i] = ps_from_float<T> (value * gelu_gate (value));
  }
  ps_store (g + first, pack);
}

extern "C" void ps_cuda_gelu (PsQueue *queue, void *g, void *z, const void *bias, int rows, int columns)
{
  ps_by_width (queue->element, { columns }, { g, z, bias }, [&]<typename T, int width> (PsWidth<T, width>) {
    ps_launch (queue, "GELU", gelu<T, width>, grid_of<width> (rows, columns), block_threads, 0, (T *)g, (T *)z,
               (const T *)bias, columns);
  });
}

template <typename T, int width>
static __global__ void __launch_bounds__ (block_threads) gelu_input (T *dz, const T *dg, const T *z, size_t n)
{
  const size_t first = ((size_t)blockIdx.x * block_threads + threadIdx.x) * width;
  if (first >= n)
    return;
  auto pack = ps_load<T, width> (dg + first);
  const auto at = ps_load<T, width> (z + first);
#pragma unroll
  for (int i = 0; i < width; i++) {
    const float value = ps_to_float (at.at[i]), gate = gelu_gate (value);
    const float slope = gelu_slope * (1 + 3 * gelu_cube * value * value);
    pack.at[i] = ps_from_float<T> (ps_to_float (pack.at[i]) * (gate + value * gate * (1 - gate) * slope));
  }
  ps_store (dz + first, pack);
}

extern "C" void ps_cuda_gelu_input (PsQueue *queue, void *dz, const void *dg, const void *z, size_t n)
{
  ps_by_width (queue->element, { (long long)n }, { dz, dg, z }, [&]<typename T, int width> (PsWidth<T, width>) {
    ps_launch (queue, "gradient of GELU", gelu_input<T, width>, ps_blocks (n, (size_t)block_threads * width),
               block_threads, 0, (T *)dz, (const T *)dg, (const T *)z, n);
  });
}

/* --- SwiGLU --- */

template <typename T, int width>
static __global__ void __launch_bounds__ (block_threads)
    swiglu (T *y, const T *gate, const T *up, int columns, int stride)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  const size_t first = (size_t)blockIdx.x * stride + column;
  auto pack = ps_load<T, width> (gate + first);
  const auto other = ps_load<T, width> (up + first);
#pragma unroll
  for (int i = 0; i < width; i++) {
    const float value = ps_to_float (pack.at[i]);
    pack.at[i] = ps_from_float<T> (value * sigmoid (value) * ps_to_float (other.at[i]));
  }
  ps_store (y + (size_t)blockIdx.x * columns + column, pack);
}

extern "C" void ps_cuda_swiglu (PsQueue *queue, void *y, const void *gate, const void *up, int rows, int columns,
                                int stride)
{
  ps_by_width (queue->element, { columns, stride }, { y, gate, up }, [&]<typename T, int width> (PsWidth<T, width>) {
    ps_launch (queue, "SwiGLU", swiglu<T, width>, grid_of<width> (rows, columns), block_threads, 0, (T *)y,
               (const T *)gate, (const T *)up, columns, stride);
  });
}

/* With q = 1 / (1 + exp (-gate)): y = gate q up, dup = dy gate q, dgate = dy up q (1 + gate (1 - q)). */
template <typename T, int width>
static __global__ void __launch_bounds__ (block_threads)
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
  for (int i = 0; i < width; i++) {
    const float g = ps_to_float (one.at[i]), u = ps_to_float (other.at[i]), d = ps_to_float (slope.at[i]);
    const float q = sigmoid (g);
    one.at[i] = ps_from_float<T> (d * u * q * (1 + g * (1 - q)));
    other.at[i] = ps_from_float<T> (d * g * q);
  }
  ps_store (dgate + first, one);
  ps_store (dup + first, other);
}

extern "C" void ps_cuda_swiglu_input (PsQueue *queue, void *dgate, void *dup, const void *dy, const void *gate,
                                      const void *up, int rows, int columns, int stride)
{
  ps_by_width (queue->element, { columns, stride }, { dgate, dup, dy, gate, up },
               [&]<typename T, int width> (PsWidth<T, width>) {
                 ps_launch (queue, "gradient of SwiGLU", swiglu_input<T, width>, grid_of<width> (rows, columns),
                            block_threads, 0, (T *)dgate, (T *)dup, (const T *)dy, (const T *)gate, (const T *)up,
                            columns, stride);
               });
}

/* --- rows of slices --- */

/* Returns this thread's first element of the row of this block; `rows` of each sequence. */
template <typename T, int width> static __device__ __forceinline__ T *row_at (PsRows all, int rows)
{
  const size_t row = (size_t)(blockIdx.x / (unsigned)rows) * (unsigned)all.sequence + blockIdx.x % (unsigned)rows;

  return (T *)all.first + row * (unsigned)all.stride + first_column<width> ();
}

template <typename T, int width>
static __global__ void __launch_bounds__ (block_threads)
    copy_rows (PsRows to, PsRows from, const float *more, int rows, int columns)
{
  const int column = first_column<width> ();
  if (column >= columns)
    return;
  auto pack = ps_load<T, width> (row_at<T, width> (from, rows));
  if (more != nullptr) {
    const float *other = more + (size_t)blockIdx.x * columns + column;
#pragma unroll
    for (int i = 0; i < width; i++)
      pack.at[i] = ps_from_float<T> (ps_to_float (pack.at[i]) + other[i]);
  }
  ps_store (row_at<T, width> (to, rows), pack);
}

template <typename T, int width>
static __global__ void __launch_bounds__ (block_threads)
    add_rows (float *sum, int begins, PsRows from, int rows, int columns)
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

extern "C" void ps_cuda_rows_copy (PsQueue *queue, PsRows to, PsRows from, const float *more, int batch, int rows,
                                   int columns)
{
  ps_by_width (queue->element, { columns, to.stride, from.stride }, { to.first, from.first },
               [&]<typename T, int width> (PsWidth<T, width>) {
                 ps_launch (queue, "copying keys and values", copy_rows<T, width>,
                            grid_of<width> (batch * rows, columns), block_threads, 0, to, from, more, rows, columns);
               });
}

extern "C" void ps_cuda_rows_add (PsQueue *queue, float *sum, bool begins, PsRows from, int batch, int rows,
                                  int columns)
{
  ps_by_width (queue->element, { columns, from.stride }, { from.first },
               [&]<typename T, int width> (PsWidth<T, width>) {
                 ps_launch (queue, "adding rows", add_rows<T, width>, grid_of<width> (batch * rows, columns),
                            block_threads, 0, sum, begins, from, rows, columns);
               });
}

/* --- rounding --- */

template <int width>
static __global__ void __launch_bounds__ (block_threads) round_to_bf16 (__nv_bfloat16 *to, const float *from, size_t n)
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
extern "C" void ps_cuda_to_bf16 (PsQueue *queue, void *to, const float *from, size_t n)
{
  const int width = n % 4 == 0 && ps_is_on_16_bytes ({ to, from }) ? 4 : 1;

  ps_launch (queue, "rounding", width == 4 ? round_to_bf16<4> : round_to_bf16<1>,
             ps_blocks (n, (size_t)(block_threads * width)), block_threads, 0, (__nv_bfloat16 *)to, from, n);
}

/* --- rotary positions --- */

static __global__ void __launch_bounds__ (block_threads) fill_table (float2 *table, int sequence, int half, double base)
{
  const int i = (int)(blockIdx.x * block_threads + threadIdx.x);

  if (i >= sequence * half)
    return;
  const double angle = (i / half) * pow (base, -(double)(i % half) / half);
  table[i] = make_float2 ((float)cos (angle), (float)sin (angle));
}

extern "C" void ps_cuda_rotary_table (PsQueue *queue, float *table, int sequence, int head_size, double base)
{
  ps_launch (queue, "rotary table", fill_table, ps_blocks ((size_t)sequence * (size_t)(head_size / 2), block_threads),
             block_threads, 0, (float2 *)table, sequence, head_size / 2, base);
}

template <typename T> struct Rotary {
  T *x;
  const float2 *table;
  int sequence, heads, half, stride;
  float sign; /* -1 turns back */
};

/* One thread turns `width` neighbouring pairs of one head. Grid: token, threads of its heads. */
template <typename T, int width> static __global__ void __launch_bounds__ (block_threads) rotate (Rotary<T> rotary)
{
  const unsigned packs = (unsigned)(rotary.half / width), i = blockIdx.y * block_threads + threadIdx.x;
  const int row = (int)blockIdx.x, head = (int)(i / packs), pair = (int)(i % packs) * width;

  if (head >= rotary.heads)
    return;
  T *low = rotary.x + (size_t)row * rotary.stride + head * 2 * rotary.half + pair, *high = low + rotary.half;
  const float2 *turn = rotary.table + (size_t)(row % rotary.sequence) * rotary.half + pair;
  auto a = ps_load<T, width> (low), b = ps_load<T, width> (high);
#pragma unroll
  for (int k = 0; k < width; k++) {
    const float x = ps_to_float (a.at[k]), y = ps_to_float (b.at[k]);
    const float cosine = turn[k].x, sine = turn[k].y * rotary.sign;
    a.at[k] = ps_from_float<T> (x * cosine - y * sine);
    b.at[k] = ps_from_float<T> (y * cosine + x * sine);
  }
  ps_store (low, a);
  ps_store (high, b);
}

extern "C" void ps_cuda_rotary (PsQueue *queue, void *x, const float *table, int rows, int sequence, int heads,
                                int head_size, int stride, bool backward)
{
  const int half = head_size / 2;

  ps_by_width (queue->element, { half, stride }, { x }, [&]<typename T, int width> (PsWidth<T, width>) {
    const Rotary<T> rotary = { (T *)x, (const float2 *)table, sequence, heads, half, stride, backward ? -1.0f : 1.0f };
    const dim3 grid ((unsigned)rows, ps_blocks ((size_t)heads * (size_t)(half / width), block_threads));
    ps_launch (queue, "rotary positions", rotate<T, width>, grid, block_threads, 0, rotary);
  });
}

/* --- optimizer: a step reads gradient, momentum, variance and master weights once, and writes them and the copy --- */

static const int norm_blocks = 256;

struct Adam {
  __nv_bfloat16 *weights;
  const float *master, *gradient, *momentum, *variance; /* written unless the step is tried out */
  float *tried; /* where new master weights go that are tried out; NULL: nowhere */
  size_t n;
  float factor, rate, correction;
};

/* tries: all but `tried` and the copy stays as it is. Every rounding is named, since the compiler contracts the two
 * kernels in different ways, and a step must give the bits that were tried out. */
template <int width, bool tries> static __global__ void __launch_bounds__ (block_threads) adam_step (Adam adam)
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
  for (int i = 0; i < width; i++) {
    const float slope = __fmul_rn (g.at[i], adam.factor);
    m.at[i] = __fmaf_rn (beta1, m.at[i], __fmul_rn (1 - beta1, slope));
    v.at[i] = __fmaf_rn (beta2, v.at[i], __fmul_rn (__fmul_rn (1 - beta2, slope), slope));
    w.at[i] = __fsub_rn (
        w.at[i], __fdiv_rn (__fmul_rn (adam.rate, m.at[i]), __fmaf_rn (sqrtf (v.at[i]), adam.correction, epsilon)));
    g.at[i] = 0;
    rounded.at[i] = __float2bfloat16_rn (w.at[i]);
  }
  if constexpr (tries) {
    if (adam.tried != nullptr)
      ps_store (adam.tried + first, w);
  } else {
    ps_store ((float *)adam.master + first, w);
    ps_store ((float *)adam.gradient + first, g);
    ps_store ((float *)adam.momentum + first, m);
    ps_store ((float *)adam.variance + first, v);
  }
  if (adam.weights != nullptr)
    ps_store (adam.weights + first, rounded);
}

template <bool tries>
static void launch_adam (PsQueue *queue, void *weights, float *tried, const float *master, const float *gradient,
                         const float *momentum, const float *variance, size_t n, float factor, double learning_rate,
                         uint64_t step)
{
  const char *what = tries ? "trying Adam" : "Adam";
  const float rate = (float)(learning_rate / (1 - pow (0.9, (double)step)));
  const float correction = (float)(1 / sqrt (1 - pow (0.999, (double)step)));
  const Adam adam
      = { (__nv_bfloat16 *)weights, master, gradient, momentum, variance, tried, n, factor, rate, correction };

  if (adam.n % 4 == 0
      && ps_is_on_16_bytes ({ adam.weights, adam.master, adam.gradient, adam.momentum, adam.variance, adam.tried }))
    ps_launch (queue, what, adam_step<4, tries>, ps_blocks (adam.n, block_threads * 4), block_threads, 0, adam);
  else
    ps_launch (queue, what, adam_step<1, tries>, ps_blocks (adam.n, block_threads), block_threads, 0, adam);
}

extern "C" void ps_cuda_adam (PsQueue *queue, void *weights, float *master, float *gradient, float *momentum,
                              float *variance, size_t n, float factor, double learning_rate, uint64_t step)
{
  launch_adam<false> (queue, weights, nullptr, master, gradient, momentum, variance, n, factor, learning_rate, step);
}

extern "C" void ps_cuda_adam_try (PsQueue *queue, void *weights, float *tried, const float *master,
                                  const float *gradient, const float *momentum, const float *variance, size_t n,
                                  float factor, double learning_rate, uint64_t step)
{
  launch_adam<true> (queue, weights, tried, master, gradient, momentum, variance, n, factor, learning_rate, step);
}

/* Adds up the block's numbers, halves to halves; thread 0 has the sum. */
static __device__ __forceinline__ double add_block (double sum)
{
  __shared__ double part[block_threads];

  part[threadIdx.x] = sum;
  for (int half = block_threads / 2; half > 0; half /= 2) {
    __syncthreads ();
    if ((int)threadIdx.x < half)
      part[threadIdx.x] += part[threadIdx.x + half];
  }
  return part[0];
}

static __global__ void __launch_bounds__ (block_threads)
    add_squares (double *parts, const float *values, size_t n, float factor)
{
  double sum = 0;

  for (size_t i = (size_t)blockIdx.x * block_threads + threadIdx.x; i < n; i += (size_t)norm_blocks * block_threads) {
    const double value = values[i] * factor;

    sum += value * value;
  }
  sum = add_block (sum);
  if (threadIdx.x == 0)
    parts[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__ (block_threads) add_parts (double *parts)
{
  const double sum = add_block (parts[threadIdx.x]);

  if (threadIdx.x == 0)
    parts[0] = sum;
}

extern "C" size_t ps_cuda_square_sum_workspace (void)
{
  static_assert (norm_blocks == block_threads, "one block adds up the parts");
  return norm_blocks * sizeof (double);
}

extern "C" void ps_cuda_square_sum (PsQueue *queue, const float *values, size_t n, float factor)
{
  double *total = (double *)queue->workspace;

  ps_launch (queue, "norm of gradients", add_squares, norm_blocks, block_threads, 0, total, values, n, factor);
  ps_launch (queue, "norm of gradients", add_parts, 1, block_threads, 0, total);
}

/* columns.cu - sums over rows, for the gradients of biases and norms. A block sums a chunk of rows of some columns, and
 * a second launch sums the chunks. */
#include "pack.h"

static const int chunk_rows = 128;
static const int block_lanes = 8; /* rows that a block reads at a time, one per warp */

template <typename T> struct Columns
{
  const T *dy, *x;
  const float *mean, *scale;
  float *parts; /* [n_chunks][columns] of the first sum, then of the second */
  int rows, columns;
};

enum Kind
{
  BIAS,       /* first sum: dy */
  RMS_NORM,   /* dy * standard */
  LAYER_NORM, /* dy * standard, second sum: dy */
};

static __host__ __device__ int
chunks_of (int rows)
{
  return (rows + chunk_rows - 1) / chunk_rows;
}

/* Adds up the block's lanes in their order; lane 0 stores. */
template <int width>
static __device__ __forceinline__ void
store_part (float *part, const float *sum, int column, int columns)
{
  __shared__ float all[block_lanes][32 * width];

  __syncthreads ();
#pragma unroll
  for (int i = 0; i < width; i++)
    all[threadIdx.y][threadIdx.x * width + i] = sum[i];
  __syncthreads ();
  if (threadIdx.y != 0 || column >= columns)
    return;
#pragma unroll
  for (int i = 0; i < width; i++)
    {
      float total = 0;
#pragma unroll
      for (int lane = 0; lane < block_lanes; lane++)
        total += all[lane][threadIdx.x * width + i];
      part[column + i] = total;
    }
}

template <typename T, int width, Kind kind>
static __global__ void __launch_bounds__ (32 * block_lanes) sum_chunk (Columns<T> sums)
{
  const int column = (int)(blockIdx.y * 32 + threadIdx.x) * width;
  const int first = (int)blockIdx.x * chunk_rows, end = min (first + chunk_rows, sums.rows);
  float product[width] = {}, plain[width] = {};

  if (column < sums.columns)
    {
#pragma unroll 4
      for (int row = first + (int)threadIdx.y; row < end; row += block_lanes)
        {
          const size_t at = (size_t)row * sums.columns + column;
          const auto dy = ps_load<T, width> (sums.dy + at);
          PsPack<T, width> x = {};
          float mean = 0, scale = 0;
          if constexpr (kind != BIAS)
            {
              x = ps_load<T, width> (sums.x + at);
              scale = sums.scale[row];
            }
          if constexpr (kind == LAYER_NORM)
            mean = sums.mean[row];
#pragma unroll
          for (int i = 0; i < width; i++)
            {
              plain[i] += ps_to_float (dy.at[i]);
              product[i] += ps_to_float (dy.at[i]) * ((ps_to_float (x.at[i]) - mean) * scale);
            }
        }
    }
  float *part = sums.parts + (size_t)blockIdx.x * sums.columns;
  store_part<width> (part, kind == BIAS ? plain : product, column, sums.columns);
  if constexpr (kind == LAYER_NORM)
    store_part<width> (part + (size_t)gridDim.x * sums.columns, plain, column, sums.columns);
}

static const int final_threads = 64;

/* second NULL: there is one sum only. */
static __global__ void
__launch_bounds__ (final_threads)
    sum_chunks (float *first, float *second, const float *parts, int n_chunks, int columns)
{
  const int column = (int)(blockIdx.x * final_threads + threadIdx.x);
  float *to = blockIdx.y == 0 ? first : second;
  const float *from = parts + (size_t)blockIdx.y * n_chunks * columns + column;
  float total = 0;

  if (column >= columns)
    return;
#pragma unroll 8
  for (int i = 0; i < n_chunks; i++)
    total += from[(size_t)i * columns];
  to[column] += total;
}

template <Kind kind>
static cudaError_t
launch (PsCudaElement element, float *first, float *second, const void *dy, const void *x, const float *mean,
        const float *scale, int rows, int columns, void *workspace, cudaStream_t stream)
{
  const int n_chunks = chunks_of (rows);

  if (rows <= 0 || columns <= 0)
    return cudaSuccess;
  const cudaError_t status = ps_by_width (element, ps_is_wide (element, (size_t)columns, { dy, x }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    const Columns<T> sums = { (const T *)dy, (const T *)x, mean, scale, (float *)workspace, rows, columns };
    const dim3 grid ((unsigned)n_chunks, ps_blocks ((size_t)columns, 32 * width));
    return ps_launch (sum_chunk<T, width, kind>, grid, dim3 (32, block_lanes), 0, stream, sums);
  });
  if (status != cudaSuccess)
    return status;
  const dim3 grid (ps_blocks ((size_t)columns, final_threads), second != NULL ? 2 : 1);
  return ps_launch (sum_chunks, grid, final_threads, 0, stream, first, second, (const float *)workspace, n_chunks,
                    columns);
}

extern "C" size_t
ps_cuda_columns_workspace (int rows, int columns)
{
  return rows <= 0 || columns <= 0 ? 0 : 2 * sizeof (float) * (size_t)chunks_of (rows) * (size_t)columns;
}

extern "C" cudaError_t
ps_cuda_layer_norm_weights (PsCudaElement element, float *dgain, float *dbias, const void *dy, const void *x,
                            const float *mean, const float *scale, int rows, int columns, void *workspace,
                            cudaStream_t stream)
{
  return launch<LAYER_NORM> (element, dgain, dbias, dy, x, mean, scale, rows, columns, workspace, stream);
}

extern "C" cudaError_t
ps_cuda_rms_norm_weights (PsCudaElement element, float *dgain, const void *dy, const void *x, const float *scale,
                          int rows, int columns, void *workspace, cudaStream_t stream)
{
  return launch<RMS_NORM> (element, dgain, NULL, dy, x, NULL, scale, rows, columns, workspace, stream);
}

extern "C" cudaError_t
ps_cuda_bias_gradient (PsCudaElement element, float *dbias, const void *dy, int rows, int columns, void *workspace,
                       cudaStream_t stream)
{
  return launch<BIAS> (element, dbias, NULL, dy, NULL, NULL, NULL, rows, columns, workspace, stream);
}

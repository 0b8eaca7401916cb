/* columns.cu - sums over rows, for the gradients of biases and norms. Gradients of norms also make the norm again. A
 * block sums a chunk of rows of some columns; a second launch sums the chunks. */
#include "pack.h"

static const int chunk_rows = 128;
static const int block_lanes = 8;  /* warps; each has its own rows */
static const int rows_at_once = 4; /* rows that a thread reads before it works on them */

template <typename T> struct Columns
{
  const T *dy, *x, *gain, *bias;
  const float *mean, *scale;
  T *y;         /* the norm of x, or NULL */
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

/* One row's data for a thread. */
template <typename T, int width> struct Piece
{
  PsPack<T, width> dy, x;
  float mean, scale;
};

template <typename T, int width, Kind kind>
static __device__ __forceinline__ Piece<T, width>
load_piece (const Columns<T> &sums, int row, int column)
{
  const size_t at = (size_t)row * sums.columns + column;
  Piece<T, width> piece = {};

  piece.dy = ps_load<T, width> (sums.dy + at);
  if constexpr (kind != BIAS)
    {
      piece.x = ps_load<T, width> (sums.x + at);
      piece.scale = sums.scale[row];
    }
  if constexpr (kind == LAYER_NORM)
    piece.mean = sums.mean[row];
  return piece;
}

template <typename T, int width, Kind kind>
static __global__ void __launch_bounds__ (32 * block_lanes) sum_chunk (Columns<T> sums)
{
  const int column = (int)(blockIdx.y * 32 + threadIdx.x) * width;
  const int first = (int)blockIdx.x * chunk_rows, end = min (first + chunk_rows, sums.rows);
  float product[width] = {}, plain[width] = {};
  PsPack<T, width> gain = {}, bias = {};

  if (kind != BIAS && column < sums.columns)
    gain = ps_load<T, width> (sums.gain + column);
  if (kind == LAYER_NORM && column < sums.columns)
    bias = ps_load<T, width> (sums.bias + column);
  for (int row = first + (int)threadIdx.y; row < end && column < sums.columns; row += rows_at_once * block_lanes)
    {
      Piece<T, width> pieces[rows_at_once] = {};
#pragma unroll
      for (int k = 0; k < rows_at_once; k++)
        if (row + k * block_lanes < end)
          pieces[k] = load_piece<T, width, kind> (sums, row + k * block_lanes, column);
#pragma unroll
      for (int k = 0; k < rows_at_once; k++)
        if (row + k * block_lanes < end)
          {
            Piece<T, width> &piece = pieces[k];
#pragma unroll
            for (int i = 0; i < width; i++)
              {
                const float dy = ps_to_float (piece.dy.at[i]);
                const float standard = (ps_to_float (piece.x.at[i]) - piece.mean) * piece.scale;
                plain[i] += dy;
                product[i] += dy * standard;
                piece.x.at[i] = ps_from_float<T> (standard * ps_to_float (gain.at[i]) + ps_to_float (bias.at[i]));
              }
            if constexpr (kind != BIAS)
              ps_store (sums.y + (size_t)(row + k * block_lanes) * sums.columns + column, piece.x);
          }
    }
  float *part = sums.parts + (size_t)blockIdx.x * sums.columns;
  store_part<width> (part, kind == BIAS ? plain : product, column, sums.columns);
  if constexpr (kind == LAYER_NORM)
    store_part<width> (part + (size_t)gridDim.x * sums.columns, plain, column, sums.columns);
}

static const int final_threads = 64;

/* second NULL: there is only one sum. */
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

/* Pointers that `kind` does not need are NULL; second is NULL if there is only one sum. */
template <Kind kind>
static cudaError_t
launch (PsCudaElement element, float *first, float *second, const Columns<void> &sums, cudaStream_t stream)
{
  const int n_chunks = chunks_of (sums.rows), columns = sums.columns;

  if (sums.rows <= 0 || columns <= 0)
    return cudaSuccess;
  const bool wide = ps_is_wide (element, (size_t)columns, { sums.dy, sums.x, sums.gain, sums.bias, sums.y });
  const cudaError_t status = ps_by_width (element, wide, [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    const Columns<T> typed = { (const T *)sums.dy,
                               (const T *)sums.x,
                               (const T *)sums.gain,
                               (const T *)sums.bias,
                               sums.mean,
                               sums.scale,
                               (T *)sums.y,
                               sums.parts,
                               sums.rows,
                               columns };
    const dim3 grid ((unsigned)n_chunks, ps_blocks ((size_t)columns, 32 * width));
    return ps_launch (sum_chunk<T, width, kind>, grid, dim3 (32, block_lanes), 0, stream, typed);
  });
  if (status != cudaSuccess)
    return status;
  const dim3 grid (ps_blocks ((size_t)columns, final_threads), second != NULL ? 2 : 1);
  return ps_launch (sum_chunks, grid, final_threads, 0, stream, first, second, (const float *)sums.parts, n_chunks,
                    columns);
}

extern "C" size_t
ps_cuda_columns_workspace (int rows, int columns)
{
  return rows <= 0 || columns <= 0 ? 0 : 2 * sizeof (float) * (size_t)chunks_of (rows) * (size_t)columns;
}

extern "C" cudaError_t
ps_cuda_norm_rows_weights (PsCudaElement element, float *dgain, float *dbias, void *y, const void *dy, const void *x,
                           const float *mean, const float *scale, const void *gain, const void *bias, int rows,
                           int columns, void *workspace, cudaStream_t stream)
{
  const Columns<void> sums = { dy, x, gain, bias, mean, scale, y, (float *)workspace, rows, columns };

  return mean != NULL ? launch<LAYER_NORM> (element, dgain, dbias, sums, stream)
                      : launch<RMS_NORM> (element, dgain, NULL, sums, stream);
}

extern "C" cudaError_t
ps_cuda_bias_gradient (PsCudaElement element, float *dbias, const void *dy, int rows, int columns, void *workspace,
                       cudaStream_t stream)
{
  const Columns<void> sums = { dy, NULL, NULL, NULL, NULL, NULL, NULL, (float *)workspace, rows, columns };

  return launch<BIAS> (element, dbias, NULL, sums, stream);
}

/* rows.cu - kernels that add up over a row of an array, or over the rows of a column: norms, gradients of biases and
 * norms, the embedding with its gradient, and the cross-entropy. */
#include "launch.h"

/* --- layer norm and RMS norm: a row is read once, and kept in registers for its second and third pass --- */

static const int norm_threads = 256;
static const int norm_warps = norm_threads / 32;
static const float epsilon = 1e-5f;

/* One layout of a row over threads. `warps` (1, or all of a block) share a row. Each thread keeps `packs` packs of
 * `width` elements. packs 0: any number of columns, read again in each pass. */
template <typename Type, int width_, int packs_, int warps_> struct Layout {
  typedef Type T;
  typedef PsPack<Type, width_> Pack;
  static constexpr int width = width_;
  static constexpr int packs = packs_;
  static constexpr int warps = warps_;
  static constexpr int kept = packs_ > 0 ? packs_ : 1;

  /* Returns the columns that the layout can keep. */
  static constexpr int room ()
  {
    return packs * warps * 32 * width;
  }
};

template <typename L> static __device__ __forceinline__ int own_row ()
{
  return (int)(blockIdx.x * (norm_warps / L::warps) + threadIdx.x / 32 / L::warps);
}

/* Calls work (slot, column) for each pack of this thread. slot is known at compile time if packs are kept. */
template <typename L, typename Work> static __device__ __forceinline__ void for_packs (int columns, Work work)
{
  constexpr int step = L::warps * 32 * L::width;
  const int first = (int)(threadIdx.x % (L::warps * 32)) * L::width;

  if constexpr (L::packs > 0) {
#pragma unroll
    for (int slot = 0; slot < L::packs; slot++)
      if (first + slot * step < columns)
        work (slot, first + slot * step);
  } else
    for (int column = first; column < columns; column += step)
      work (0, column);
}

/* Returns the sums of a and b over the threads of a row; all of them get the same bits. */
template <typename L> static __device__ __forceinline__ float2 sum_over_row (float a, float b)
{
  float2 sum = make_float2 (ps_warp_sum (a), ps_warp_sum (b));

  if constexpr (L::warps > 1) {
    __shared__ float2 part[norm_warps];
    __syncthreads ();
    if (threadIdx.x % 32 == 0)
      part[threadIdx.x / 32] = sum;
    __syncthreads ();
    sum = make_float2 (0, 0);
#pragma unroll
    for (int i = 0; i < norm_warps; i++)
      sum = make_float2 (sum.x + part[i].x, sum.y + part[i].y);
  }
  return sum;
}

template <typename T> struct NormForward {
  T *y;
  float *mean, *scale;
  const T *x, *gain, *bias;
  int rows, columns;
};

template <typename L, bool centred>
static __global__ void __launch_bounds__ (norm_threads) norm_rows (NormForward<typename L::T> norm)
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
    for (int i = 0; i < L::width; i++) {
      const float value = ps_to_float (pack.at[i]);
      total += value;
      squares += value * value;
    }
  });
  if constexpr (centred) {
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
    for (int i = 0; i < L::width; i++) {
      float value = (ps_to_float (pack.at[i]) - mean) * scale * ps_to_float (gain.at[i]);
      if constexpr (centred)
        value += ps_to_float (bias.at[i]);
      pack.at[i] = ps_from_float<T> (value);
    }
    ps_store (norm.y + start + column, pack);
  });
  if (threadIdx.x % (L::warps * 32) == 0) {
    norm.scale[row] = scale;
    if constexpr (centred)
      norm.mean[row] = mean;
  }
}

template <typename T> struct NormBackward {
  T *dx;
  const T *residual, *dy, *x;
  const float *mean, *scale;
  const T *gain;
  int rows, columns;
};

template <typename L, bool centred>
static __global__ void __launch_bounds__ (norm_threads) norm_rows_input (NormBackward<typename L::T> norm)
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
    for (int i = 0; i < L::width; i++) {
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
    for (int i = 0; i < L::width; i++) {
      const float u = ps_to_float (dy.at[i]) * ps_to_float (gain.at[i]);
      const float standard = (ps_to_float (x.at[i]) - mean) * scale;
      const float through = scale * (u - average - standard * average_slope);
      result.at[i] = ps_from_float<T> (norm.residual != nullptr ? ps_to_float (residual.at[i]) + through : through);
    }
    ps_store (norm.dx + start + column, result);
  });
}

/* Launches with the smallest layout that keeps a row. */
template <typename T, int width, typename Launch> static void by_columns (int columns, Launch launch)
{
  if constexpr (width > 1) {
    if (columns <= Layout<T, width, 4, 1>::room ())
      return launch (Layout<T, width, 4, 1> ());
    if (columns <= Layout<T, width, 2, norm_warps>::room ())
      return launch (Layout<T, width, 2, norm_warps> ());
    if (columns <= Layout<T, width, 8, norm_warps>::room ())
      return launch (Layout<T, width, 8, norm_warps> ());
  }
  launch (Layout<T, width, 0, norm_warps> ());
}

extern "C" void ps_cuda_norm (PsQueue *queue, void *y, float *mean, float *scale, const void *x, const void *gain,
                              const void *bias, int rows, int columns)
{
  ps_by_width (queue->element, { columns }, { y, x, gain, bias }, [&]<typename T, int width> (PsWidth<T, width>) {
    const NormForward<T> norm = { (T *)y, mean, scale, (const T *)x, (const T *)gain, (const T *)bias, rows, columns };
    by_columns<T, width> (columns, [&] (auto layout) {
      typedef decltype (layout) L;
      ps_launch (queue, "norm", mean != NULL ? norm_rows<L, true> : norm_rows<L, false>,
                 ps_blocks ((size_t)rows, norm_warps / L::warps), norm_threads, 0, norm);
    });
  });
}

extern "C" void ps_cuda_norm_input (PsQueue *queue, void *dx, const void *residual, const void *dy, const void *x,
                                    const float *mean, const float *scale, const void *gain, int rows, int columns)
{
  ps_by_width (
      queue->element, { columns }, { dx, residual, dy, x, gain }, [&]<typename T, int width> (PsWidth<T, width>) {
        const NormBackward<T> norm = { (T *)dx, (const T *)residual, (const T *)dy, (const T *)x, mean,
                                       scale,   (const T *)gain,     rows,          columns };
        by_columns<T, width> (columns, [&] (auto layout) {
          typedef decltype (layout) L;
          ps_launch (queue, "gradient of a norm", mean != NULL ? norm_rows_input<L, true> : norm_rows_input<L, false>,
                     ps_blocks ((size_t)rows, norm_warps / L::warps), norm_threads, 0, norm);
        });
      });
}

/* --- sums over rows ---
 * For the gradients of biases and norms. Gradients of norms also make the norm again. A block sums a chunk of rows of
 * some columns; a second launch sums the chunks. */

static const int chunk_rows = 128;
static const int chunk_lanes = 8;  /* warps; each has its own rows */
static const int rows_at_once = 4; /* rows that a thread reads before it works on them */

/* void pointers are arrays of elements. */
struct Columns {
  const void *dy, *x, *gain, *bias;
  const float *mean, *scale;
  void *y;      /* the norm of x, or NULL */
  float *parts; /* [n_chunks][columns] of the first sum, then of the second */
  int rows, columns;
};

enum Kind {
  BIAS,       /* first sum: dy */
  RMS_NORM,   /* dy * standard */
  LAYER_NORM, /* dy * standard, second sum: dy */
};

static __host__ __device__ int chunks_of (int rows)
{
  return (rows + chunk_rows - 1) / chunk_rows;
}

/* Adds up the block's lanes in their order; lane 0 stores. */
template <int width>
static __device__ __forceinline__ void store_part (float *part, const float *sum, int column, int columns)
{
  __shared__ float all[chunk_lanes][32 * width];

  __syncthreads ();
#pragma unroll
  for (int i = 0; i < width; i++)
    all[threadIdx.y][threadIdx.x * width + i] = sum[i];
  __syncthreads ();
  if (threadIdx.y != 0 || column >= columns)
    return;
#pragma unroll
  for (int i = 0; i < width; i++) {
    float total = 0;
#pragma unroll
    for (int lane = 0; lane < chunk_lanes; lane++)
      total += all[lane][threadIdx.x * width + i];
    part[column + i] = total;
  }
}

/* One row's data for a thread. */
template <typename T, int width> struct ColumnsPiece {
  PsPack<T, width> dy, x;
  float mean, scale;
};

template <typename T, int width, Kind kind>
static __device__ __forceinline__ ColumnsPiece<T, width> load_piece (const Columns &sums, int row, int column)
{
  const size_t at = (size_t)row * sums.columns + column;
  ColumnsPiece<T, width> piece = {};

  piece.dy = ps_load<T, width> ((const T *)sums.dy + at);
  if constexpr (kind != BIAS) {
    piece.x = ps_load<T, width> ((const T *)sums.x + at);
    piece.scale = sums.scale[row];
  }
  if constexpr (kind == LAYER_NORM)
    piece.mean = sums.mean[row];
  return piece;
}

template <typename T, int width, Kind kind>
static __global__ void __launch_bounds__ (32 * chunk_lanes) sum_chunk (Columns sums)
{
  const int column = (int)(blockIdx.y * 32 + threadIdx.x) * width;
  const int first = (int)blockIdx.x * chunk_rows, end = min (first + chunk_rows, sums.rows);
  float product[width] = {}, plain[width] = {};
  PsPack<T, width> gain = {}, bias = {};

  if (kind != BIAS && column < sums.columns)
    gain = ps_load<T, width> ((const T *)sums.gain + column);
  if (kind == LAYER_NORM && column < sums.columns)
    bias = ps_load<T, width> ((const T *)sums.bias + column);
  for (int row = first + (int)threadIdx.y; row < end && column < sums.columns; row += rows_at_once * chunk_lanes) {
    ColumnsPiece<T, width> pieces[rows_at_once] = {};
#pragma unroll
    for (int k = 0; k < rows_at_once; k++)
      if (row + k * chunk_lanes < end)
        pieces[k] = load_piece<T, width, kind> (sums, row + k * chunk_lanes, column);
#pragma unroll
    for (int k = 0; k < rows_at_once; k++)
      if (row + k * chunk_lanes < end) {
        ColumnsPiece<T, width> &piece = pieces[k];
#pragma unroll
        for (int i = 0; i < width; i++) {
          const float dy = ps_to_float (piece.dy.at[i]);
          const float standard = (ps_to_float (piece.x.at[i]) - piece.mean) * piece.scale;
          plain[i] += dy;
          product[i] += dy * standard;
          piece.x.at[i] = ps_from_float<T> (standard * ps_to_float (gain.at[i]) + ps_to_float (bias.at[i]));
        }
        if constexpr (kind != BIAS)
          ps_store ((T *)sums.y + (size_t)(row + k * chunk_lanes) * sums.columns + column, piece.x);
      }
  }
  float *part = sums.parts + (size_t)blockIdx.x * sums.columns;
  store_part<width> (part, kind == BIAS ? plain : product, column, sums.columns);
  if constexpr (kind == LAYER_NORM)
    store_part<width> (part + (size_t)gridDim.x * sums.columns, plain, column, sums.columns);
}

static const int final_threads = 64;

/* second NULL: there is only one sum. */
static __global__ void __launch_bounds__ (final_threads)
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
static void launch_columns (PsQueue *queue, const char *what, float *first, float *second, const Columns &sums)
{
  const int n_chunks = chunks_of (sums.rows), columns = sums.columns;

  ps_by_width (queue->element, { columns }, { sums.dy, sums.x, sums.gain, sums.bias, sums.y },
               [&]<typename T, int width> (PsWidth<T, width>) {
                 const dim3 grid ((unsigned)n_chunks, ps_blocks ((size_t)columns, 32 * width));
                 ps_launch (queue, what, sum_chunk<T, width, kind>, grid, dim3 (32, chunk_lanes), 0, sums);
               });
  const dim3 grid (ps_blocks ((size_t)columns, final_threads), second != NULL ? 2 : 1);
  ps_launch (queue, what, sum_chunks, grid, final_threads, 0, first, second, (const float *)sums.parts, n_chunks,
             columns);
}

extern "C" size_t ps_cuda_columns_workspace (int rows, int columns)
{
  return rows <= 0 || columns <= 0 ? 0 : 2 * sizeof (float) * (size_t)chunks_of (rows) * (size_t)columns;
}

extern "C" void ps_cuda_norm_weights (PsQueue *queue, float *dgain, float *dbias, void *y, const void *dy,
                                      const void *x, const float *mean, const float *scale, const void *gain,
                                      const void *bias, int rows, int columns)
{
  const Columns sums = { dy, x, gain, bias, mean, scale, y, (float *)queue->workspace, rows, columns };

  if (mean != NULL)
    launch_columns<LAYER_NORM> (queue, "weight gradients of a norm", dgain, dbias, sums);
  else
    launch_columns<RMS_NORM> (queue, "weight gradients of a norm", dgain, NULL, sums);
}

extern "C" void ps_cuda_bias_gradient (PsQueue *queue, float *dbias, const void *dy, int rows, int columns)
{
  const Columns sums = { dy, NULL, NULL, NULL, NULL, NULL, NULL, (float *)queue->workspace, rows, columns };

  launch_columns<BIAS> (queue, "bias gradient", dbias, NULL, sums);
}

/* --- embedding: copies rows of a table to tokens, and adds gradients of tokens to rows of a table ---
 * A word may occur many times. For its gradient the tokens are ranked by word: a token's place is the number of tokens
 * with a smaller word, or with the same word and earlier. Then one block per word adds up a row. */

static const int embed_threads = 128;
static const int rank_threads = 256;
static const int ranked_by_warp = 4;

static __device__ __forceinline__ uint32_t word_at (const uint32_t *words, int token, int sequence)
{
  return words[token + token / sequence];
}

template <typename T, int width>
static __global__ void __launch_bounds__ (embed_threads)
    embed (T *x, const T *token, const T *position, const uint32_t *words, int sequence, int hidden)
{
  const int at = (int)blockIdx.x, column = (int)(blockIdx.y * embed_threads + threadIdx.x) * width;

  if (column >= hidden)
    return;
  auto pack = ps_load<T, width> (token + (size_t)word_at (words, at, sequence) * hidden + column);
  if (position != nullptr)
    ps_add_to (&pack, ps_load<T, width> (position + (size_t)(at % sequence) * hidden + column));
  ps_store (x + (size_t)at * hidden + column, pack);
}

extern "C" void ps_cuda_embedding (PsQueue *queue, void *x, const void *token, const void *position,
                                   const uint32_t *words, int batch, int sequence, int hidden)
{
  ps_by_width (queue->element, { hidden }, { x, token, position }, [&]<typename T, int width> (PsWidth<T, width>) {
    const dim3 grid ((unsigned)(batch * sequence), ps_blocks ((size_t)hidden, (size_t)embed_threads * width));
    ps_launch (queue, "embedding", embed<T, width>, grid, embed_threads, 0, (T *)x, (const T *)token,
               (const T *)position, words, sequence, hidden);
  });
}

/* ordered[place] = (token, word), by word, then by token. A warp ranks ranked_by_warp tokens at a time. */
static __global__ void __launch_bounds__ (rank_threads)
    rank_tokens (uint2 *ordered, const uint32_t *words, int tokens, int sequence)
{
  const int lane = (int)threadIdx.x % 32;
  const int first = (int)(blockIdx.x * (rank_threads / 32) + threadIdx.x / 32) * ranked_by_warp;
  uint32_t own[ranked_by_warp];
  int rank[ranked_by_warp] = {};

  if (first >= tokens)
    return;
#pragma unroll
  for (int i = 0; i < ranked_by_warp; i++)
    own[i] = word_at (words, min (first + i, tokens - 1), sequence);
#pragma unroll 4
  for (int other = lane; other < tokens; other += 32) {
    const uint32_t word = word_at (words, other, sequence);
#pragma unroll
    for (int i = 0; i < ranked_by_warp; i++)
      rank[i] += word < own[i] || (word == own[i] && other < first + i);
  }
#pragma unroll
  for (int i = 0; i < ranked_by_warp; i++) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
      rank[i] += __shfl_xor_sync (0xffffffffu, rank[i], lanes);
    if (lane == 0 && first + i < tokens)
      ordered[rank[i]] = make_uint2 ((unsigned)(first + i), own[i]);
  }
}

template <int width> static __device__ __forceinline__ void add_to (float *to, const float *sum)
{
#pragma unroll
  for (int i = 0; i < width; i++)
    to[i] += sum[i];
}

/* The block at a word's first place adds up the word's tokens; other blocks do nothing. */
template <typename T, int width>
static __global__ void __launch_bounds__ (embed_threads)
    add_tokens (float *dtoken, const T *dx, const uint2 *ordered, int tokens, int hidden)
{
  const int first = (int)blockIdx.x, column = (int)(blockIdx.y * embed_threads + threadIdx.x) * width;
  const unsigned word = ordered[first].y;
  float sum[width] = {};
  int end = first + 1;

  if (column >= hidden || (first > 0 && ordered[first - 1].y == word))
    return;
  while (end < tokens && ordered[end].y == word)
    end++;
#pragma unroll 4
  for (int place = first; place < end; place++) {
    const auto pack = ps_load<T, width> (dx + (size_t)ordered[place].x * hidden + column);
#pragma unroll
    for (int i = 0; i < width; i++)
      sum[i] += ps_to_float (pack.at[i]);
  }
  add_to<width> (dtoken + (size_t)word * hidden + column, sum);
}

template <typename T, int width>
static __global__ void __launch_bounds__ (embed_threads)
    add_places (float *dposition, const T *dx, int batch, int sequence, int hidden)
{
  const int place = (int)blockIdx.x, column = (int)(blockIdx.y * embed_threads + threadIdx.x) * width;
  float sum[width] = {};

  if (column >= hidden)
    return;
#pragma unroll 4
  for (int row = 0; row < batch; row++) {
    const auto pack = ps_load<T, width> (dx + ((size_t)row * sequence + place) * hidden + column);
#pragma unroll
    for (int i = 0; i < width; i++)
      sum[i] += ps_to_float (pack.at[i]);
  }
  add_to<width> (dposition + (size_t)place * hidden + column, sum);
}

extern "C" size_t ps_cuda_embedding_workspace (int batch, int sequence)
{
  return sizeof (uint2) * (size_t)batch * (size_t)sequence;
}

extern "C" void ps_cuda_embedding_weights (PsQueue *queue, float *dtoken, float *dposition, const void *dx,
                                           const uint32_t *words, int batch, int sequence, int hidden)
{
  const int tokens = batch * sequence;
  uint2 *ordered = (uint2 *)queue->workspace;

  ps_launch (queue, "gradient of the embedding", rank_tokens,
             ps_blocks ((size_t)tokens, rank_threads / 32 * ranked_by_warp), rank_threads, 0, ordered, words, tokens,
             sequence);
  ps_by_width (queue->element, { hidden }, { dx }, [&]<typename T, int width> (PsWidth<T, width>) {
    const unsigned slices = ps_blocks ((size_t)hidden, (size_t)embed_threads * width);
    ps_launch (queue, "gradient of the embedding", add_tokens<T, width>, dim3 ((unsigned)tokens, slices), embed_threads,
               0, dtoken, (const T *)dx, ordered, tokens, hidden);
    if (dposition != NULL)
      ps_launch (queue, "gradient of the embedding", add_places<T, width>, dim3 ((unsigned)sequence, slices),
                 embed_threads, 0, dposition, (const T *)dx, batch, sequence, hidden);
  });
}

/* --- cross-entropy, one block per token ---
 * The first pass over its logits finds the largest one and the sum of exponentials; the second overwrites them with
 * their gradient. The second pass finds the row in the second-level cache. */

static const int loss_threads = 512;
static const int loss_warps = loss_threads / 32;

/* The sum of exp (x - top) over numbers x whose maximum is top. */
struct Exponentials {
  float top, sum;
};

/* exp (x - top). The difference comes first: of two rounded products it would lose what large logits have in common,
 * and would not be 1 for the largest. */
static __device__ __forceinline__ float power (float x, float top)
{
  return ps_exp2 ((x - top) * ps_log2_e);
}

static __device__ __forceinline__ Exponentials join (Exponentials a, Exponentials b)
{
  const float top = fmaxf (a.top, b.top);

  if (top == -INFINITY)
    return a;
  return { top, a.sum * power (a.top, top) + b.sum * power (b.top, top) };
}

/* Joins over the block; every thread gets the same bits. */
static __device__ Exponentials join_block (Exponentials own)
{
  __shared__ float tops[loss_warps], sums[loss_warps];

#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const Exponentials other
        = { __shfl_xor_sync (0xffffffffu, own.top, lanes), __shfl_xor_sync (0xffffffffu, own.sum, lanes) };
    own = join (own, other);
  }
  if (threadIdx.x % 32 == 0) {
    tops[threadIdx.x / 32] = own.top;
    sums[threadIdx.x / 32] = own.sum;
  }
  __syncthreads ();
  own = { tops[0], sums[0] };
  for (int i = 1; i < loss_warps; i++)
    own = join (own, { tops[i], sums[i] });
  return own;
}

/* Sets the numbers of a pack after the vocabulary's end to `filler`; the pack begins at `column`. */
template <int width>
static __device__ __forceinline__ void fill_end (float (&x)[width], int column, int vocabulary, float filler)
{
  if (column + width > vocabulary)
#pragma unroll
    for (int i = 0; i < width; i++)
      x[i] = column + i < vocabulary ? x[i] : filler;
}

template <typename T, int width> static __device__ __forceinline__ Exponentials read_row (const T *row, int vocabulary)
{
  Exponentials own = { -INFINITY, 0 };

#pragma unroll 4
  for (int column = (int)threadIdx.x * width; column < vocabulary; column += loss_threads * width) {
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
static __global__ void __launch_bounds__ (loss_threads)
    cross_entropy (T *logits, float *loss, const uint32_t *words, int sequence, int vocabulary, int stride,
                   float factor)
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
  for (int column = (int)threadIdx.x * width; column < stride; column += loss_threads * width) {
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

extern "C" void ps_cuda_cross_entropy (PsQueue *queue, void *logits, float *loss, const uint32_t *words, int batch,
                                       int sequence, int vocabulary, int stride, float factor)
{
  ps_by_width (queue->element, { stride }, { logits }, [&]<typename T, int width> (PsWidth<T, width>) {
    ps_launch (queue, "cross-entropy", cross_entropy<T, width>, (unsigned)(batch * sequence), loss_threads, 0,
               (T *)logits, loss, words, sequence, vocabulary, stride, factor);
  });
}

/* In one block each thread adds up every 512th loss, then halves are added to halves. */
static __global__ void __launch_bounds__ (loss_threads)
    sum_losses (double *total, const float *loss, int n, double factor)
{
  __shared__ double part[loss_threads];
  double sum = 0;

  for (int i = (int)threadIdx.x; i < n; i += loss_threads)
    sum += loss[i];
  part[threadIdx.x] = sum;
  for (int half = loss_threads / 2; half > 0; half /= 2) {
    __syncthreads ();
    if ((int)threadIdx.x < half)
      part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0)
    *total = part[0] * factor;
}

extern "C" void ps_cuda_loss_sum (PsQueue *queue, double *total, const float *loss, int n, double factor)
{
  ps_launch (queue, "loss", sum_losses, 1, loss_threads, 0, total, loss, n, factor);
}

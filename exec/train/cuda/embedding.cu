/* embedding.cu - copies rows of a table to tokens, and adds gradients of tokens to rows of a table.
 *
 * A word may occur many times. For its gradient the tokens are ranked by word: a token's place is the number of tokens
 * with a smaller word, or with the same word and earlier. Then one block per word adds up a row.
 */
#include "pack.h"

static const int block_threads = 128;
static const int rank_threads = 256;
static const int ranked_by_warp = 4;

static __device__ __forceinline__ uint32_t
word_at (const uint32_t *words, int token, int sequence)
{
  return words[token + token / sequence];
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads)
    embed (T *x, const T *token, const T *position, const uint32_t *words, int sequence, int hidden)
{
  const int at = (int)blockIdx.x, column = (int)(blockIdx.y * block_threads + threadIdx.x) * width;

  if (column >= hidden)
    return;
  auto pack = ps_load<T, width> (token + (size_t)word_at (words, at, sequence) * hidden + column);
  if (position != nullptr)
    ps_add_to (&pack, ps_load<T, width> (position + (size_t)(at % sequence) * hidden + column));
  ps_store (x + (size_t)at * hidden + column, pack);
}

extern "C" cudaError_t
ps_cuda_embedding (PsCudaElement element, void *x, const void *token, const void *position, const uint32_t *words,
                   int batch, int sequence, int hidden, cudaStream_t stream)
{
  if (batch <= 0 || sequence <= 0 || hidden <= 0)
    return cudaSuccess;
  return ps_by_width (element, ps_is_wide (element, (size_t)hidden, { x, token, position }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    const dim3 grid ((unsigned)(batch * sequence), ps_blocks ((size_t)hidden, (size_t)block_threads * width));
    return ps_launch (embed<T, width>, grid, block_threads, 0, stream, (T *)x, (const T *)token, (const T *)position,
                      words, sequence, hidden);
  });
}

/* ordered[place] = (token, word), by word, then by token. A warp ranks ranked_by_warp tokens at a time. */
static __global__ void
__launch_bounds__ (rank_threads) rank_tokens (uint2 *ordered, const uint32_t *words, int tokens, int sequence)
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
  for (int other = lane; other < tokens; other += 32)
    {
      const uint32_t word = word_at (words, other, sequence);
#pragma unroll
      for (int i = 0; i < ranked_by_warp; i++)
        rank[i] += word < own[i] || (word == own[i] && other < first + i);
    }
#pragma unroll
  for (int i = 0; i < ranked_by_warp; i++)
    {
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2)
        rank[i] += __shfl_xor_sync (0xffffffffu, rank[i], lanes);
      if (lane == 0 && first + i < tokens)
        ordered[rank[i]] = make_uint2 ((unsigned)(first + i), own[i]);
    }
}

template <int width>
static __device__ __forceinline__ void
add_to (float *to, const float *sum)
{
#pragma unroll
  for (int i = 0; i < width; i++)
    to[i] += sum[i];
}

/* The block at a word's first place adds up the word's tokens; other blocks do nothing. */
template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) add_tokens (float *dtoken, const T *dx, const uint2 *ordered, int tokens, int hidden)
{
  const int first = (int)blockIdx.x, column = (int)(blockIdx.y * block_threads + threadIdx.x) * width;
  const unsigned word = ordered[first].y;
  float sum[width] = {};
  int end = first + 1;

  if (column >= hidden || (first > 0 && ordered[first - 1].y == word))
    return;
  while (end < tokens && ordered[end].y == word)
    end++;
#pragma unroll 4
  for (int place = first; place < end; place++)
    {
      const auto pack = ps_load<T, width> (dx + (size_t)ordered[place].x * hidden + column);
#pragma unroll
      for (int i = 0; i < width; i++)
        sum[i] += ps_to_float (pack.at[i]);
    }
  add_to<width> (dtoken + (size_t)word * hidden + column, sum);
}

template <typename T, int width>
static __global__ void
__launch_bounds__ (block_threads) add_places (float *dposition, const T *dx, int batch, int sequence, int hidden)
{
  const int place = (int)blockIdx.x, column = (int)(blockIdx.y * block_threads + threadIdx.x) * width;
  float sum[width] = {};

  if (column >= hidden)
    return;
#pragma unroll 4
  for (int row = 0; row < batch; row++)
    {
      const auto pack = ps_load<T, width> (dx + ((size_t)row * sequence + place) * hidden + column);
#pragma unroll
      for (int i = 0; i < width; i++)
        sum[i] += ps_to_float (pack.at[i]);
    }
  add_to<width> (dposition + (size_t)place * hidden + column, sum);
}

extern "C" size_t
ps_cuda_embedding_workspace (int batch, int sequence)
{
  return sizeof (uint2) * (size_t)batch * (size_t)sequence;
}

extern "C" cudaError_t
ps_cuda_embedding_weights (PsCudaElement element, float *dtoken, float *dposition, const void *dx,
                           const uint32_t *words, int batch, int sequence, int hidden, void *workspace,
                           cudaStream_t stream)
{
  const int tokens = batch * sequence;
  uint2 *ordered = (uint2 *)workspace;

  if (batch <= 0 || sequence <= 0 || hidden <= 0)
    return cudaSuccess;
  const cudaError_t status = ps_launch (rank_tokens, ps_blocks ((size_t)tokens, rank_threads / 32 * ranked_by_warp),
                                        rank_threads, 0, stream, ordered, words, tokens, sequence);
  if (status != cudaSuccess)
    return status;
  return ps_by_width (element, ps_is_wide (element, (size_t)hidden, { dx }), [&] (auto tag) {
    typedef typename decltype (tag)::type T;
    constexpr int width = decltype (tag)::width;
    const unsigned slices = ps_blocks ((size_t)hidden, (size_t)block_threads * width);
    const cudaError_t added = ps_launch (add_tokens<T, width>, dim3 ((unsigned)tokens, slices), block_threads, 0,
                                         stream, dtoken, (const T *)dx, ordered, tokens, hidden);
    if (added != cudaSuccess || dposition == NULL)
      return added;
    return ps_launch (add_places<T, width>, dim3 ((unsigned)sequence, slices), block_threads, 0, stream, dposition,
                      (const T *)dx, batch, sequence, hidden);
  });
}

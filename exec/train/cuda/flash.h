/* flash.h - shared by both files of the tensor-core attention: instructions, tiles of bf16 in shared memory and their
 * products, and the steps of a softmax between two products.
 *
 * A tile has rows of D elements, in chunks of 16 bytes. If D is a multiple of 64, the tile is a row of panels of 64
 * columns, one after the other in memory. A swizzle places chunk c of row r of a panel, so that the eight rows of one
 * matrix load fall into different banks. With rows of 128 bytes it is the swizzle that the instructions of
 * flash-hopper.cu expect, for tiles on 1024 bytes.
 *
 * A warp owns 16 * `bands` rows of a product. Accumulators are float [bands][columns / 8][4], laid out as d of ps_mma.
 */
#pragma once

#include <math.h>
#include <stdint.h>

#include "attention.h"
#include "launch.h"

typedef __nv_bfloat16 PsHalf;

/* --- instructions (PTX ISA 8.x, compute capability 8.0 and later) ---
 * All lanes of a warp call the matrix instructions together. The emulation has a twin of each. */

/* d += a b: a is 16 x 16, b is 16 x 8, d is 16 x 8. Lane l, with g = l / 4 and t = l % 4, holds
 *   a[0] (g, 2t), a[1] (g + 8, 2t), a[2] (g, 2t + 8), a[3] (g + 8, 2t + 8)   each with the column after it
 *   b[0] (2t, g), b[1] (2t + 8, g)                                           each with the row after it
 *   d[0] (g, 2t), d[1] (g, 2t + 1), d[2] (g + 8, 2t), d[3] (g + 8, 2t + 1) */
static __device__ __forceinline__ void ps_mma (float d[4], const uint32_t a[4], const uint32_t b[2])
{
#ifdef __CUDACC__
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  ps_emulator_mma (d, a, b);
#endif
}

#define PS_LDMATRIX(transposed)                                                                                        \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0, %1, %2, %3}, [%4];"                        \
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                                                    \
               : "r"((unsigned)__cvta_generic_to_shared (row)))

/* Loads four 8 x 8 matrices of bf16 from shared memory. Lane l names row l % 8 of matrix l / 8: 16 bytes. From each
 * matrix, or each transposed matrix, it gets the pair at row l / 4, columns 2 (l % 4) and the next. */
template <bool transposed> static __device__ __forceinline__ void ps_load_matrices (uint32_t to[4], const void *row)
{
#ifdef __CUDACC__
  if constexpr (transposed)
    PS_LDMATRIX (".trans");
  else
    PS_LDMATRIX ("");
#else
  ps_emulator_load_matrices (to, row, transposed);
#endif
}

/* Starts a copy of 16 bytes from global to shared memory, or of 16 zeros if not exists. from must be an address of the
 * array all the same. */
static __device__ __forceinline__ void ps_copy_16_async (void *to, const void *from, bool exists)
{
#ifdef __CUDACC__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared (to)),
               "l"(__cvta_generic_to_global (from)), "r"(exists ? 16 : 0)
               : "memory");
#else
  ps_emulator_copy_async (to, exists ? from : nullptr, 16);
#endif
}

/* The same for one float. */
static __device__ __forceinline__ void ps_copy_4_async (float *to, const float *from, bool exists)
{
#ifdef __CUDACC__
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((unsigned)__cvta_generic_to_shared (to)),
               "l"(__cvta_generic_to_global (from)), "r"(exists ? 4 : 0)
               : "memory");
#else
  ps_emulator_copy_async (to, exists ? from : nullptr, 4);
#endif
}

/* Makes the copies since the last commit a group. */
static __device__ __forceinline__ void ps_copy_commit ()
{
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  ps_emulator_copy_commit ();
#endif
}

/* Waits until all but the latest `groups` groups of this thread have arrived. Other threads see them after a
 * barrier. */
template <int groups> static __device__ __forceinline__ void ps_copy_wait ()
{
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#else
  ps_emulator_copy_wait (groups);
#endif
}

/* Rounds two floats to a pair of bf16, x in the lower half. */
static __device__ __forceinline__ uint32_t ps_pack_bf16 (float x, float y)
{
  const __nv_bfloat162 pair = __floats2bfloat162_rn (x, y);
  uint32_t bits;

  memcpy (&bits, &pair, sizeof bits);
  return bits;
}

/* --- tiles --- */

/* Elements from row to row of a tile, or of one of its panels. */
template <int D> constexpr int ps_tile_pitch = D % 64 == 0 ? 64 : D;

/* Rows of 128 bytes have eight places to turn through. Rows of 64 or 192 bytes lie two by two, so they have four. */
template <int D> static __device__ __forceinline__ int ps_tile_turn (int row)
{
  static_assert (D % 32 == 0, "whole 64 bytes");
  return D % 64 == 0 ? row & 7 : row >> 1 & 3;
}

/* Returns where chunk `fixed + own` of a row lies in a tile of `rows`. own_turned is own after the swizzle; the thread
 * computes it once. fixed is known at compile time. own and fixed have no common bits. */
template <int D, int rows>
static __device__ __forceinline__ int ps_tile_chunk (int row_start, int own_turned, int fixed)
{
  constexpr int turned_bits = D % 64 == 0 ? 7 : 3;
  const int further = fixed & ~turned_bits;

  return row_start + (own_turned ^ (fixed & turned_bits)) * 8 + (D % 64 == 0 ? further * rows : further) * 8;
}

template <int D, int rows> static __device__ __forceinline__ int ps_tile_at (int row, int chunk)
{
  return ps_tile_chunk<D, rows> (row * ps_tile_pitch<D>, ps_tile_turn<D> (row), chunk);
}

/* Starts copies of `rows` rows of an array of n, from row `first` on; rows after its end become zero. from: row 0.
 * Eight lanes copy neighbouring chunks of a row at a time, or four if D needs that. */
template <int D, int rows, int threads>
static __device__ __forceinline__ void ps_tile_copy (PsHalf *tile, const PsHalf *from, int stride, int first, int n)
{
  constexpr int lanes = D % 64 == 0 ? 8 : 4, step = threads / lanes, pitch = ps_tile_pitch<D>;
  const int row = (int)threadIdx.x / lanes, own = (int)threadIdx.x % lanes;
  const int row_start = row * pitch, own_turned = own ^ ps_tile_turn<D> (row);

  static_assert (rows % step == 0 && step % 8 == 0, "the same work for every thread, the same turn for its rows");
#pragma unroll
  for (int i = 0; i < rows / step; i++) {
    const bool exists = first + row + i * step < n;
    const unsigned at_row = exists ? (unsigned)(first + row + i * step) : 0;
    const PsHalf *at = from + (size_t)at_row * (unsigned)stride + own * 8;
#pragma unroll
    for (int chunk = 0; chunk < D / 8; chunk += lanes)
      ps_copy_16_async (tile + i * step * pitch + ps_tile_chunk<D, rows> (row_start, own_turned, chunk), at + chunk * 8,
                        exists);
  }
}

/* Starts copies of `columns` floats of an array of n, from place `first` on. */
template <int columns>
static __device__ __forceinline__ void ps_floats_copy (float *to, const float *from, int first, int n)
{
  for (int i = (int)threadIdx.x; i < columns; i += (int)blockDim.x)
    ps_copy_4_async (to + i, from + (first + i < n ? first + i : 0), first + i < n);
}

/* Two tiles each of queries and dout, and of their lse and delta, one of each being filled. */
struct PsQueryTiles {
  PsHalf *queries, *dout;
  float *lse, *delta;
};

/* Starts copies of the queries of a head from place `first` on, with all that belongs to them, as one group. */
template <int D, int columns, int threads>
static __device__ __forceinline__ void ps_queries_copy (const PsQueryTiles &tiles, int slot,
                                                        const PsAttentionBackward<PsHalf> &a, int row, int head,
                                                        int first)
{
  const PsAttentionShape &shape = a.shape;
  const int n = shape.sequence;
  const size_t floats = ps_row_at (shape, row, 0, head);

  ps_tile_copy<D, columns, threads> (tiles.queries + slot * columns * D, a.q + ps_query_at (shape, row, 0, head),
                                     shape.qkv_stride, first, n);
  ps_tile_copy<D, columns, threads> (tiles.dout + slot * columns * D, a.dout + ps_out_at (shape, row, 0, head),
                                     shape.out_stride, first, n);
  ps_floats_copy<columns> (tiles.lse + slot * columns, a.lse + floats, first, n);
  ps_floats_copy<columns> (tiles.delta + slot * columns, a.delta + floats, first, n);
  ps_copy_commit ();
}

/* d += left right. left is 16 columns of a left side. right_at (j) returns where this lane's row of the right side
 * begins, for columns 16j.. of d. */
template <bool transposed, int bands, int n, typename RightAt>
static __device__ __forceinline__ void ps_multiply_step (float (&d)[bands][n][4], const uint32_t (&left)[bands][4],
                                                         RightAt right_at)
{
#pragma unroll
  for (int j = 0; j < n / 2; j++) {
    uint32_t right[4];
    ps_load_matrices<transposed> (right, right_at (j));
#pragma unroll
    for (int band = 0; band < bands; band++) {
      ps_mma (d[band][2 * j], left[band], right);
      ps_mma (d[band][2 * j + 1], left[band], right + 2);
    }
  }
}

/* s = a b^T for rows row.. of tile a of `rows` and rows 0..columns - 1 of tile b, summed over D. unroll: steps of 16
 * that are unrolled, so that addresses are known; registers limit it. */
template <int D, int rows, int bands, int columns, int unroll>
static __device__ __forceinline__ void ps_multiply (float (&s)[bands][columns / 8][4], const PsHalf *a, int row,
                                                    const PsHalf *b)
{
  const int lane = (int)threadIdx.x % 32;
  const int left_row = row + lane % 16, left_turned = lane / 16 ^ ps_tile_turn<D> (lane % 16);
  const int right_row = lane / 16 * 8 + lane % 8, right_turned = lane / 8 % 2 ^ ps_tile_turn<D> (right_row);
  constexpr int pitch = ps_tile_pitch<D>;

#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int j = 0; j < columns / 8; j++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        s[band][j][i] = 0;
#pragma unroll unroll
  for (int k = 0; k < D / 16; k++) {
    uint32_t left[bands][4];
#pragma unroll
    for (int band = 0; band < bands; band++)
      ps_load_matrices<false> (left[band],
                               a + band * 16 * pitch + ps_tile_chunk<D, rows> (left_row * pitch, left_turned, k * 2));
    ps_multiply_step<false> (s, left, [&] (int j) {
      return b + j * 16 * pitch + ps_tile_chunk<D, columns> (right_row * pitch, right_turned, k * 2);
    });
  }
}

/* Rounds accumulators of 16 columns to bf16, as a left side of ps_mma. */
static __device__ __forceinline__ void ps_pack_left (uint32_t left[4], const float (&low)[4], const float (&high)[4])
{
  left[0] = ps_pack_bf16 (low[0], low[1]);
  left[1] = ps_pack_bf16 (low[2], low[3]);
  left[2] = ps_pack_bf16 (high[0], high[1]);
  left[3] = ps_pack_bf16 (high[2], high[3]);
}

/* o += p b. p are accumulators, rounded to bf16; tile b has a row for each of their columns. */
template <int D, int bands, int columns>
static __device__ __forceinline__ void ps_accumulate (float (&o)[bands][D / 8][4],
                                                      const float (&p)[bands][columns / 8][4], const PsHalf *b)
{
  const int lane = (int)threadIdx.x % 32;
  const int right_row = lane % 16, right_turned = lane / 16 ^ ps_tile_turn<D> (right_row);
  constexpr int pitch = ps_tile_pitch<D>;

#pragma unroll
  for (int k = 0; k < columns / 16; k++) {
    uint32_t left[bands][4];
#pragma unroll
    for (int band = 0; band < bands; band++)
      ps_pack_left (left[band], p[band][2 * k], p[band][2 * k + 1]);
    ps_multiply_step<true> (o, left, [&] (int j) {
      return b + k * 16 * pitch + ps_tile_chunk<D, columns> (right_row * pitch, right_turned, j * 2);
    });
  }
}

/* Return row and column, within the warp's rows, of accumulator [band][j][i]. */
static __device__ __forceinline__ int ps_own_row (int band, int i)
{
  return band * 16 + (int)threadIdx.x % 32 / 4 + i / 2 * 8;
}

static __device__ __forceinline__ int ps_own_column (int j, int i)
{
  return j * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
}

/* Sets scores to -infinity if the key is later than the query. Rows are queries from place `row` on, columns are keys
 * from place `column` on; with rows_are_keys the other way round. */
template <int bands, int columns, bool rows_are_keys>
static __device__ __forceinline__ void ps_mask (float (&s)[bands][columns / 8][4], int row, int column)
{
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int j = 0; j < columns / 8; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int later = row + ps_own_row (band, i) - column - ps_own_column (j, i);
        if (rows_are_keys ? later > 0 : later < 0)
          s[band][j][i] = -INFINITY;
      }
}

template <int D, int bands>
static __device__ __forceinline__ void ps_rows_scale (float (&o)[bands][D / 8][4], float factor)
{
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        o[band][j][i] *= factor;
}

/* Rounds the warp's rows and stores those before row n to global memory. They pass through the warp's own rows of a
 * tile of `rows`, which no other warp uses. row: the warp's first row in the tile; first: the tile's in the array. */
template <int D, int rows, int bands>
static __device__ __forceinline__ void ps_rows_store (PsHalf *to, int stride, const float (&o)[bands][D / 8][4],
                                                      PsHalf *tile, int row, int first, int n)
{
  const int lane = (int)threadIdx.x % 32;

  __syncwarp ();
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const int place = ps_tile_at<D, rows> (row + ps_own_row (band, i), j) + lane % 4 * 2;
        *reinterpret_cast<uint32_t *> (tile + place) = ps_pack_bf16 (o[band][j][i], o[band][j][i + 1]);
      }
  __syncwarp ();
#pragma unroll
  for (int i = lane; i < 16 * bands * (D / 8); i += 32) {
    const int at = row + i / (D / 8), chunk = i % (D / 8);
    if (first + at < n)
      *reinterpret_cast<uint4 *> (to + (size_t)(first + at) * stride + chunk * 8)
          = *reinterpret_cast<const uint4 *> (tile + ps_tile_at<D, rows> (at, chunk));
  }
}

/* --- softmax, forward --- */

/* The state of the thread's rows. sum adds 2^((score - top) * factor) over scores that are not scaled. top is the
 * maximum of the scores, or an earlier maximum. It moves only if it is more than ps_softmax_slack powers of two too
 * small, so that sums and outputs mostly stay as they are. */
template <int bands> struct PsSoftmax {
  float top[bands][2], sum[bands][2];
};

static const float ps_softmax_slack = 8;

/* The four lanes that hold a row exchange their values. */
static __device__ __forceinline__ float ps_row_max (float value)
{
  value = fmaxf (value, __shfl_xor_sync (0xffffffffu, value, 1));
  return fmaxf (value, __shfl_xor_sync (0xffffffffu, value, 2));
}

static __device__ __forceinline__ float ps_row_sum (float value)
{
  value += __shfl_xor_sync (0xffffffffu, value, 1);
  return value + __shfl_xor_sync (0xffffffffu, value, 2);
}

template <int bands> static __device__ __forceinline__ void ps_softmax_init (PsSoftmax<bands> *softmax)
{
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      softmax->top[band][half] = -INFINITY;
      softmax->sum[band][half] = 0;
    }
}

/* Moves the tops for the scores of another tile. Earlier sums and outputs must then be multiplied by rescale. FALSE:
 * rescale is 1 for all rows of the warp. The first tile holds key 0, which every query sees, so tops are finite after
 * it. */
template <int bands, int columns>
static __device__ __forceinline__ bool ps_softmax_move (const float (&s)[bands][columns / 8][4],
                                                        PsSoftmax<bands> *softmax, float (&rescale)[bands][2],
                                                        float factor)
{
  bool moved = false;

#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float old = softmax->top[band][half];
      float top = s[band][0][2 * half];
#pragma unroll
      for (int j = 0; j < columns / 8; j++)
        top = fmaxf (top, fmaxf (s[band][j][2 * half], s[band][j][2 * half + 1]));
      top = ps_row_max (top);
      const bool moves = (top - old) * factor > ps_softmax_slack;
      top = moves ? top : old;
      moved |= moves;
      rescale[band][half] = ps_exp2 ((old - top) * factor);
      softmax->top[band][half] = top;
      softmax->sum[band][half] *= rescale[band][half];
    }
  return __any_sync (0xffffffffu, moved);
}

/* Turns scores into exponentials and sums them. */
template <int bands, int columns>
static __device__ __forceinline__ void ps_soften (float (&s)[bands][columns / 8][4], PsSoftmax<bands> *softmax,
                                                  float factor)
{
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float shift = softmax->top[band][half] * factor;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < columns / 8; j++)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++) {
          s[band][j][i] = ps_exp2 (s[band][j][i] * factor - shift);
          sum += s[band][j][i];
        }
      softmax->sum[band][half] += sum;
    }
}

template <int D, int bands>
static __device__ __forceinline__ void ps_softmax_rescale (float (&o)[bands][D / 8][4],
                                                           const float (&rescale)[bands][2])
{
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int j = 0; j < D / 8; j++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        o[band][j][i] *= rescale[band][i / 2];
}

/* Divides the outputs by the sums. Stores the log of each row's sum of exponentials of scaled scores. query: place of
 * the warp's first row. */
template <int D, int bands>
static __device__ __forceinline__ void ps_softmax_finish (float (&o)[bands][D / 8][4], const PsSoftmax<bands> &softmax,
                                                          float *lse, float scale, int query, int n)
{
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float sum = ps_row_sum (softmax.sum[band][half]), share = 1 / sum;
      const int row = query + ps_own_row (band, 2 * half);
#pragma unroll
      for (int j = 0; j < D / 8; j++) {
        o[band][j][2 * half] *= share;
        o[band][j][2 * half + 1] *= share;
      }
      if (threadIdx.x % 4 == 0 && row < n)
        lse[row] = softmax.top[band][half] * scale + logf (sum);
    }
}

/* --- softmax, backward --- */

/* Turns scores into probabilities: 2^(score * factor - lse log2 e). lse has an entry for each of the warp's rows, or
 * for each column if the columns are queries. Queries after the end are zeros, and so is their dout: they add
 * nothing. */
template <int bands, int columns, bool rows_are_keys>
static __device__ __forceinline__ void ps_to_probabilities (float (&p)[bands][columns / 8][4], const float *lse,
                                                            float factor)
{
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int j = 0; j < columns / 8; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float shift = lse[rows_are_keys ? ps_own_column (j, i) : ps_own_row (band, i)] * ps_log2_e;
        p[band][j][i] = ps_exp2 (p[band][j][i] * factor - shift);
      }
}

/* Turns dp into the gradient of the scores; delta is indexed as lse. */
template <int bands, int columns, bool rows_are_keys>
static __device__ __forceinline__ void ps_to_score_gradients (float (&dp)[bands][columns / 8][4],
                                                              const float (&p)[bands][columns / 8][4],
                                                              const float *delta)
{
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int j = 0; j < columns / 8; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float shift = delta[rows_are_keys ? ps_own_column (j, i) : ps_own_row (band, i)];
        dp[band][j][i] = p[band][j][i] * (dp[band][j][i] - shift);
      }
}

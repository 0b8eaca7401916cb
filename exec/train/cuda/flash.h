/* flash.h - tiles of bf16 in shared memory and their products, for the tensor-core attention.
 *
 * A tile has rows of D elements, in chunks of 16 bytes. If D is a multiple of 64, the tile is a row of panels of 64
 * columns, one after the other in memory. A swizzle places chunk c of row r of a panel, so that the eight rows of one
 * matrix load fall into different banks. With rows of 128 bytes it is the swizzle that the instructions of hopper.h
 * expect, for tiles on 1024 bytes.
 *
 * A warp owns 16 * `bands` rows of a product. Accumulators are float [bands][columns / 8][4], laid out as d of ps_mma.
 */
#pragma once

#include <math.h>

#include "tensor-core.h"

typedef __nv_bfloat16 PsHalf;

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

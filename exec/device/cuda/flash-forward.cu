/* flash-forward.cu - attention on tensor cores, forward. A block has a tile of queries of one head; tiles of keys and
 * values come one after the other, the next one while the present one is worked on. The longest blocks start first. */
#include "pack.h"
#include "attention.h"
#include "flash.h"

/* Sizes by head size: registers decide. A warp keeps 16 * bands rows of outputs (D floats per row) and of scores. */
template <int D> struct Sizes
{
  static constexpr int warps = 4;
  static constexpr int bands = 2;
  static constexpr int rows = warps * bands * 16;   /* queries of a block */
  static constexpr int columns = D <= 96 ? 64 : 32; /* keys of a tile */
  static constexpr int threads = warps * 32;
  /* Queries, and two tiles each of keys and values. */
  static constexpr size_t shared = sizeof (PsHalf) * D * (rows + 4 * columns);
};

/* Running maximum and sum of exponentials of the thread's rows; maxima are of unscaled scores. */
template <int bands> struct Softmax
{
  float top[bands][2], sum[bands][2];
};

/* The four lanes of a row exchange. */
static __device__ __forceinline__ float
row_max (float value)
{
  value = fmaxf (value, __shfl_xor_sync (0xffffffffu, value, 1));
  return fmaxf (value, __shfl_xor_sync (0xffffffffu, value, 2));
}

static __device__ __forceinline__ float
row_sum (float value)
{
  value += __shfl_xor_sync (0xffffffffu, value, 1);
  return value + __shfl_xor_sync (0xffffffffu, value, 2);
}

/* Turns scores into exponentials against the new maximum and rescales what was summed against the old one. The first
 * tile holds key 0, which every query sees: from then on maxima are finite. */
template <int D, int bands, int columns>
static __device__ __forceinline__ void
soften (float (&s)[bands][columns / 8][4], float (&o)[bands][D / 8][4], Softmax<bands> *softmax, float factor)
{
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      {
        float top = softmax->top[band][half], sum = 0;
#pragma unroll
        for (int j = 0; j < columns / 8; j++)
          top = fmaxf (top, fmaxf (s[band][j][2 * half], s[band][j][2 * half + 1]));
        top = row_max (top);
        const float rescale = ps_exp2 ((softmax->top[band][half] - top) * factor);
#pragma unroll
        for (int j = 0; j < columns / 8; j++)
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; i++)
            {
              s[band][j][i] = ps_exp2 (s[band][j][i] * factor - top * factor);
              sum += s[band][j][i];
            }
        softmax->top[band][half] = top;
        softmax->sum[band][half] = softmax->sum[band][half] * rescale + sum;
#pragma unroll
        for (int j = 0; j < D / 8; j++)
          {
            o[band][j][2 * half] *= rescale;
            o[band][j][2 * half + 1] *= rescale;
          }
      }
}

/* Divides the outputs by the sums; stores the log of each row's sum. */
template <int D, int bands>
static __device__ __forceinline__ void
finish (float (&o)[bands][D / 8][4], const Softmax<bands> &softmax, float *lse, float scale, int query, int n)
{
#pragma unroll
  for (int band = 0; band < bands; band++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      {
        const float sum = row_sum (softmax.sum[band][half]);
        const int row = query + ps_own_row (band, 2 * half);
#pragma unroll
        for (int j = 0; j < D / 8; j++)
          {
            o[band][j][2 * half] /= sum;
            o[band][j][2 * half + 1] /= sum;
          }
        if (threadIdx.x % 4 == 0 && row < n)
          lse[row] = softmax.top[band][half] * scale + logf (sum);
      }
}

/* Grid: tile of queries from the last to the first, query head, sequence. */
template <int D>
static __global__ void
__launch_bounds__ (Sizes<D>::threads) flash_forward (PsAttentionForward<PsHalf> a)
{
  typedef Sizes<D> Size;
  PS_SHARED_BYTES (bytes);
  const PsCudaAttention &shape = a.shape;
  const int n = shape.sequence, stride = shape.qkv_stride;
  const int first = (int)(gridDim.x - 1 - blockIdx.x) * Size::rows, head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int kv_head = head / (shape.heads / shape.kv_heads), warp_row = (int)threadIdx.x / 32 * Size::bands * 16;
  const int end = min (first + Size::rows, n); /* of the keys that some query of the block sees */
  const PsHalf *keys = a.k + ps_query_at (shape, row, 0, kv_head), *values = a.v + ps_query_at (shape, row, 0, kv_head);
  PsHalf *queries = (PsHalf *)bytes, *key_tiles = queries + Size::rows * D,
         *value_tiles = key_tiles + 2 * Size::columns * D;
  float o[Size::bands][D / 8][4] = {};
  Softmax<Size::bands> softmax = {};

#pragma unroll
  for (int band = 0; band < Size::bands; band++)
    softmax.top[band][0] = softmax.top[band][1] = -INFINITY;
  ps_tile_copy<D, Size::rows, Size::threads> (queries, a.q + ps_query_at (shape, row, 0, head), stride, first, n);
  ps_tile_copy<D, Size::columns, Size::threads> (key_tiles, keys, stride, 0, n);
  ps_tile_copy<D, Size::columns, Size::threads> (value_tiles, values, stride, 0, n);
  ps_copy_commit ();
  for (int key = 0, present = 0; key < end; key += Size::columns, present = Size::columns * D - present)
    {
      const int next = Size::columns * D - present;
      ps_copy_wait<0> ();
      __syncthreads (); /* this tile is there for all, and all are done with the one before */
      if (key + Size::columns < end)
        {
          ps_tile_copy<D, Size::columns, Size::threads> (key_tiles + next, keys, stride, key + Size::columns, n);
          ps_tile_copy<D, Size::columns, Size::threads> (value_tiles + next, values, stride, key + Size::columns, n);
          ps_copy_commit ();
        }
      if (key > first + warp_row + Size::bands * 16 - 1)
        continue; /* all in the future of this warp's queries */
      float s[Size::bands][Size::columns / 8][4];
      ps_multiply<D, Size::bands, Size::columns> (s, queries, warp_row, key_tiles + present);
      if (key + Size::columns - 1 > first + warp_row)
        ps_mask<Size::bands, Size::columns, false> (s, first + warp_row, key);
      soften<D, Size::bands, Size::columns> (s, o, &softmax, a.scale_of_2);
      ps_accumulate<D, Size::bands, Size::columns> (o, s, value_tiles + present);
    }
  finish<D, Size::bands> (o, softmax, a.lse + ps_row_at (shape, row, 0, head), a.scale, first + warp_row, n);
  ps_rows_store<D, Size::bands> (a.out + ps_out_at (shape, row, 0, head), shape.out_stride, o, queries, warp_row, first,
                                 n);
}

template <int D>
static cudaError_t
launch (const PsAttentionForward<PsHalf> &attention, cudaStream_t stream)
{
  const PsCudaAttention &shape = attention.shape;
  const dim3 grid (ps_blocks ((size_t)shape.sequence, Sizes<D>::rows), (unsigned)shape.heads, (unsigned)shape.batch);

  return ps_launch (flash_forward<D>, grid, Sizes<D>::threads, Sizes<D>::shared, stream, attention);
}

cudaError_t
ps_flash_forward (const PsAttentionForward<PsHalf> &attention, cudaStream_t stream)
{
  return ps_by_head_size (attention.shape.head_size,
                          [&] (auto size) { return launch<decltype (size)::value> (attention, stream); });
}

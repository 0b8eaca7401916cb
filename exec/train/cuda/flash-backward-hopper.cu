/* flash-backward-hopper.cu - the two launches of flash-backward.cu with the instructions of hopper.h. A block has 64
 * keys, or queries, for each of two groups. While a product runs, the threads work on the result before it. */
#include "attention.h"
#include "flash-softmax.h"
#include "hopper.h"

static const int groups = 2;
static const int columns = 64;       /* rows of a tile of the other side */
static const int rows = groups * 64; /* rows of the block's own side */
static const int threads = groups * 128;

/* --- dk and dv --- */

/* Keys and values; two tiles each of queries and dout; lse and delta of both query tiles. */
template <int D>
constexpr size_t key_bytes = (2 * rows + 4 * columns) * D * sizeof (PsHalf) + 4 * columns * sizeof (float);

/* Two tiles of the other side, one being filled. */
struct QueryTiles
{
  PsHalf *queries, *dout;
  float *lse, *delta;
};

template <int D>
static __device__ __forceinline__ void
copy_queries (const QueryTiles &tiles, int slot, const PsAttentionBackward<PsHalf> &a, int row, int head, int first)
{
  const PsCudaAttention &shape = a.shape;
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

template <int D>
static __device__ __forceinline__ void
add_up_keys (const PsAttentionBackward<PsHalf> &a, unsigned char *bytes)
{
  const PsCudaAttention &shape = a.shape;
  const int n = shape.sequence, past = shape.past, n_keys = ps_keys (shape), group = shape.heads / shape.kv_heads;
  const int first = (int)blockIdx.x * rows, kv_head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int warp_row = (int)threadIdx.x / 32 * 16, group_row = ps_hopper_group () * 64;
  const int start_query = max (0, first - past) / columns * columns;
  const size_t start = ps_key_at (shape, row, 0, kv_head);
  PsHalf *keys = (PsHalf *)bytes, *values = keys + rows * D, *queries = values + rows * D;
  float *lse = (float *)(queries + 4 * columns * D);
  const QueryTiles tiles = { queries, queries + 2 * columns * D, lse, lse + 2 * columns };
  float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};

  ps_tile_copy<D, rows, threads> (keys, a.k + start, shape.kv_stride, first, n_keys);
  ps_tile_copy<D, rows, threads> (values, a.v + start, shape.kv_stride, first, n_keys);
  copy_queries<D> (tiles, 0, a, row, kv_head * group, start_query);
  for (int head = kv_head * group, query = start_query, slot = 0; head < (kv_head + 1) * group; slot = 1 - slot)
    {
      const PsHalf *tile = tiles.queries + slot * columns * D, *dout = tiles.dout + slot * columns * D;
      const int present = query;
      ps_hopper_meet<0> ();
      query += columns;
      if (query >= n)
        {
          query = start_query;
          head++;
        }
      if (head < (kv_head + 1) * group)
        copy_queries<D> (tiles, 1 - slot, a, row, head, query);
      if (past + present + columns - 1 < first + group_row)
        continue; /* all are before this group's keys */
      float p[1][8][4], ds[1][8][4];
      uint32_t left_p[4][4], left_ds[4][4];
      ps_hopper_multiply<D, rows> (p[0], keys, group_row, tile);
      ps_hopper_multiply<D, rows> (ds[0], values, group_row, dout);
      ps_hopper_wait<1> ();
      ps_hopper_settle (p[0]);
      if (first + group_row + 63 > past + present)
        ps_mask<1, columns, true> (p, first + warp_row, past + present);
      ps_to_probabilities<1, columns, true> (p, tiles.lse + slot * columns, a.scale_of_2);
      ps_hopper_pack (left_p, p[0]);
      ps_hopper_accumulate<D> (dv[0], left_p, dout);
      ps_hopper_wait<1> ();
      ps_hopper_settle (ds[0]);
      ps_to_score_gradients<1, columns, true> (ds, p, tiles.delta + slot * columns);
      ps_hopper_pack (left_ds, ds[0]);
      ps_hopper_accumulate<D> (dk[0], left_ds, tile);
      ps_hopper_wait<0> ();
      ps_hopper_settle (dv[0]);
      ps_hopper_settle (dk[0]);
    }
  __syncthreads (); /* the groups have read keys and values */
  ps_rows_scale<D, 1> (dk, a.scale);
  ps_rows_store<D, rows, 1> (a.dk + start, shape.kv_stride, dk, keys, warp_row, first, n_keys);
  ps_rows_store<D, rows, 1> (a.dv + start, shape.kv_stride, dv, values, warp_row, first, n_keys);
}

/* Grid: tile of keys, kv head, sequence. */
template <int D>
static __global__ void
__launch_bounds__ (threads) flash_keys_hopper (PsAttentionBackward<PsHalf> a)
{
  PS_SHARED_BYTES (bytes);

  if constexpr (PS_HOPPER_CODE)
    add_up_keys<D> (a, bytes);
}

/* --- dq --- */

/* Queries and dout; two tiles each of keys and values; lse and delta. */
template <int D>
constexpr size_t query_bytes = (2 * rows + 4 * columns) * D * sizeof (PsHalf) + 2 * rows * sizeof (float);

template <int D>
static __device__ __forceinline__ void
add_up_queries (const PsAttentionBackward<PsHalf> &a, unsigned char *bytes)
{
  const PsCudaAttention &shape = a.shape;
  const int n = shape.sequence, past = shape.past, n_keys = ps_keys (shape), stride = shape.kv_stride;
  const int first = (int)(gridDim.x - 1 - blockIdx.x) * rows, head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int kv_head = head / (shape.heads / shape.kv_heads);
  const int warp_row = (int)threadIdx.x / 32 * 16, group_row = ps_hopper_group () * 64;
  const int end = min (past + first + rows, n_keys); /* end of the keys that a query of the block sees */
  const PsHalf *keys = a.k + ps_key_at (shape, row, 0, kv_head), *values = a.v + ps_key_at (shape, row, 0, kv_head);
  PsHalf *queries = (PsHalf *)bytes, *dout = queries + rows * D;
  PsHalf *key_tiles = dout + rows * D, *value_tiles = key_tiles + 2 * columns * D;
  float *lse = (float *)(value_tiles + 2 * columns * D), *delta = lse + rows;
  float dq[1][D / 8][4] = {};

  ps_tile_copy<D, rows, threads> (queries, a.q + ps_query_at (shape, row, 0, head), shape.qkv_stride, first, n);
  ps_tile_copy<D, rows, threads> (dout, a.dout + ps_out_at (shape, row, 0, head), shape.out_stride, first, n);
  ps_floats_copy<rows> (lse, a.lse + ps_row_at (shape, row, 0, head), first, n);
  ps_floats_copy<rows> (delta, a.delta + ps_row_at (shape, row, 0, head), first, n);
  ps_tile_copy<D, columns, threads> (key_tiles, keys, stride, 0, n_keys);
  ps_tile_copy<D, columns, threads> (value_tiles, values, stride, 0, n_keys);
  ps_copy_commit ();
  for (int key = 0, present = 0; key < end; key += columns, present = columns * D - present)
    {
      const int next = columns * D - present;
      ps_hopper_meet<0> ();
      if (key + columns < end)
        {
          ps_tile_copy<D, columns, threads> (key_tiles + next, keys, stride, key + columns, n_keys);
          ps_tile_copy<D, columns, threads> (value_tiles + next, values, stride, key + columns, n_keys);
          ps_copy_commit ();
        }
      if (key > past + first + group_row + 63)
        continue; /* all are after this group's queries */
      float p[1][8][4], ds[1][8][4];
      uint32_t left[4][4];
      ps_hopper_multiply<D, rows> (p[0], queries, group_row, key_tiles + present);
      ps_hopper_multiply<D, rows> (ds[0], dout, group_row, value_tiles + present);
      ps_hopper_wait<1> ();
      ps_hopper_settle (p[0]);
      if (key + columns - 1 > past + first + group_row)
        ps_mask<1, columns, false> (p, past + first + warp_row, key);
      ps_to_probabilities<1, columns, false> (p, lse + warp_row, a.scale_of_2);
      ps_hopper_wait<0> ();
      ps_hopper_settle (ds[0]);
      ps_to_score_gradients<1, columns, false> (ds, p, delta + warp_row);
      ps_hopper_pack (left, ds[0]);
      ps_hopper_accumulate<D> (dq[0], left, key_tiles + present);
      ps_hopper_wait<0> ();
      ps_hopper_settle (dq[0]);
    }
  __syncthreads (); /* the groups have read the queries */
  ps_rows_scale<D, 1> (dq, a.scale);
  ps_rows_store<D, rows, 1> (a.dq + ps_query_at (shape, row, 0, head), shape.qkv_stride, dq, queries, warp_row, first,
                             n);
}

/* Grid: tile of queries from the last to the first, query head, sequence. */
template <int D>
static __global__ void
__launch_bounds__ (threads) flash_queries_hopper (PsAttentionBackward<PsHalf> a)
{
  PS_SHARED_BYTES (bytes);

  if constexpr (PS_HOPPER_CODE)
    add_up_queries<D> (a, bytes);
}

template <int D>
static cudaError_t
launch (const PsAttentionBackward<PsHalf> &attention, cudaStream_t stream)
{
  const PsCudaAttention &shape = attention.shape;
  const dim3 of_keys (ps_blocks ((size_t)ps_keys (shape), rows), (unsigned)shape.kv_heads, (unsigned)shape.batch);
  const dim3 of_queries (ps_blocks ((size_t)shape.sequence, rows), (unsigned)shape.heads, (unsigned)shape.batch);
  const cudaError_t status = ps_launch (flash_keys_hopper<D>, of_keys, threads, key_bytes<D>, stream, attention);

  if (status != cudaSuccess)
    return status;
  return ps_launch (flash_queries_hopper<D>, of_queries, threads, query_bytes<D>, stream, attention);
}

cudaError_t
ps_flash_backward_hopper (const PsAttentionBackward<PsHalf> &attention, cudaStream_t stream)
{
  return attention.shape.head_size == 64 ? launch<64> (attention, stream) : launch<128> (attention, stream);
}

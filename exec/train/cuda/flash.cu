/* flash.cu - attention on tensor cores. */
#include "flash.h"

/* --- forward ---
 * A block has a tile of queries of one head. Tiles of keys and values come one after the other; the next one is copied
 * while the block works on the present one. The longest blocks start first. */

/* ForwardSizes by head size; registers decide them. A warp keeps 16 * bands rows of outputs (D floats per row) and of
 * scores. */
template <int D> struct ForwardSizes {
  static constexpr int warps = 4;
  static constexpr int bands = 2;
  static constexpr int rows = warps * bands * 16; /* queries of a block */
  static constexpr int columns = 64;              /* keys of a tile */
  static constexpr int threads = warps * 32;
  /* Unrolls that spill no register. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 1000
  static constexpr int unroll = 4;
#else
  static constexpr int unroll = D / 16;
#endif
  /* Queries, and two tiles each of keys and values. */
  static constexpr size_t shared = sizeof (PsHalf) * D * (rows + 4 * columns);
};

/* Grid: tile of queries from the last to the first, query head, sequence. */
template <int D>
static __global__ void __launch_bounds__ (ForwardSizes<D>::threads) flash_forward (PsAttentionForward<PsHalf> a)
{
  typedef ForwardSizes<D> Size;
  PS_SHARED_BYTES (bytes);
  const PsAttentionShape &shape = a.shape;
  const int n = shape.sequence, past = shape.past, n_keys = ps_keys (shape), stride = shape.kv_stride;
  const int first = (int)(gridDim.x - 1 - blockIdx.x) * Size::rows, head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int kv_head = head / (shape.heads / shape.kv_heads), warp_row = (int)threadIdx.x / 32 * Size::bands * 16;
  const int end = min (past + first + Size::rows, n_keys); /* end of the keys that a query of the block sees */
  const PsHalf *keys = a.k + ps_key_at (shape, row, 0, kv_head), *values = a.v + ps_key_at (shape, row, 0, kv_head);
  PsHalf *queries = (PsHalf *)bytes, *key_tiles = queries + Size::rows * D,
         *value_tiles = key_tiles + 2 * Size::columns * D;
  float o[Size::bands][D / 8][4] = {};
  PsSoftmax<Size::bands> softmax;

  ps_softmax_init (&softmax);
  ps_tile_copy<D, Size::rows, Size::threads> (queries, a.q + ps_query_at (shape, row, 0, head), shape.qkv_stride, first,
                                              n);
  ps_tile_copy<D, Size::columns, Size::threads> (key_tiles, keys, stride, 0, n_keys);
  ps_tile_copy<D, Size::columns, Size::threads> (value_tiles, values, stride, 0, n_keys);
  ps_copy_commit ();
  for (int key = 0, present = 0; key < end; key += Size::columns, present = Size::columns * D - present) {
    const int next = Size::columns * D - present;
    ps_copy_wait<0> ();
    __syncthreads (); /* the copies of this tile are there, and no thread needs the tile before */
    if (key + Size::columns < end) {
      ps_tile_copy<D, Size::columns, Size::threads> (key_tiles + next, keys, stride, key + Size::columns, n_keys);
      ps_tile_copy<D, Size::columns, Size::threads> (value_tiles + next, values, stride, key + Size::columns, n_keys);
      ps_copy_commit ();
    }
    if (key > past + first + warp_row + Size::bands * 16 - 1)
      continue; /* all are after this warp's queries */
    float s[Size::bands][Size::columns / 8][4], rescale[Size::bands][2];
    ps_multiply<D, Size::rows, Size::bands, Size::columns, Size::unroll> (s, queries, warp_row, key_tiles + present);
    if (key + Size::columns - 1 > past + first + warp_row)
      ps_mask<Size::bands, Size::columns, false> (s, past + first + warp_row, key);
    if (ps_softmax_move<Size::bands, Size::columns> (s, &softmax, rescale, a.scale_of_2))
      ps_softmax_rescale<D, Size::bands> (o, rescale);
    ps_soften<Size::bands, Size::columns> (s, &softmax, a.scale_of_2);
    ps_accumulate<D, Size::bands, Size::columns> (o, s, value_tiles + present);
  }
  ps_softmax_finish<D, Size::bands> (o, softmax, a.lse + ps_row_at (shape, row, 0, head), a.scale, first + warp_row, n);
  ps_rows_store<D, Size::rows, Size::bands> (a.out + ps_out_at (shape, row, 0, head), shape.out_stride, o, queries,
                                             warp_row, first, n);
}

template <int D> static void launch (PsQueue *queue, const PsAttentionForward<PsHalf> &attention)
{
  const PsAttentionShape &shape = attention.shape;
  const dim3 grid (ps_blocks ((size_t)shape.sequence, ForwardSizes<D>::rows), (unsigned)shape.heads,
                   (unsigned)shape.batch);

  ps_launch (queue, "attention", flash_forward<D>, grid, ForwardSizes<D>::threads, ForwardSizes<D>::shared, attention);
}

void ps_flash_forward (PsQueue *queue, const PsAttentionForward<PsHalf> &attention)
{
  ps_by_head_size (attention.shape.head_size, [&]<int D> (PsHeadSize<D>) { launch<D> (queue, attention); });
}

/* --- backward, in two launches ---
 * A block per tile of keys adds up dk and dv over the queries that see them. A block per tile of queries adds up dq
 * over its keys. Both make the probabilities again from q, k and lse. So no two blocks write to one place, and every
 * sum has one order. */

/* --- dk and dv ---
 * Everything is transposed: a warp owns 16 * bands keys, columns are queries. Then probabilities and gradients of
 * scores come out of one product in the layout of the next one's left side. */

template <int D> struct KeySizes {
  static constexpr int warps = 4;
  static constexpr int bands = D <= 64 ? 2 : 1;     /* dk and dv take 2 D floats per row */
  static constexpr int rows = warps * bands * 16;   /* keys of a block */
  static constexpr int columns = D <= 64 ? 32 : 64; /* queries of a tile */
  static constexpr int threads = warps * 32;
  static constexpr int unroll = 2; /* spills no register */
  /* Keys and values; two tiles each of queries and dout; lse and delta of both query tiles. */
  static constexpr size_t shared = sizeof (PsHalf) * D * (2 * rows + 4 * columns) + sizeof (float) * 4 * columns;
};

/* Grid: tile of keys, kv head, sequence. */
template <int D>
static __global__ void __launch_bounds__ (KeySizes<D>::threads) flash_keys (PsAttentionBackward<PsHalf> a)
{
  typedef KeySizes<D> Size;
  constexpr int bands = Size::bands, columns = Size::columns;
  PS_SHARED_BYTES (bytes);
  const PsAttentionShape &shape = a.shape;
  const int n = shape.sequence, past = shape.past, n_keys = ps_keys (shape), group = shape.heads / shape.kv_heads;
  const int first = (int)blockIdx.x * Size::rows, kv_head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int warp_row = (int)threadIdx.x / 32 * bands * 16;
  const int start_query = max (0, first - past) / columns * columns;
  const size_t start = ps_key_at (shape, row, 0, kv_head);
  PsHalf *keys = (PsHalf *)bytes, *values = keys + Size::rows * D, *queries = values + Size::rows * D;
  float *lse = (float *)(queries + 4 * columns * D);
  const PsQueryTiles tiles = { queries, queries + 2 * columns * D, lse, lse + 2 * columns };
  float dk[bands][D / 8][4] = {}, dv[bands][D / 8][4] = {};

  ps_tile_copy<D, Size::rows, Size::threads> (keys, a.k + start, shape.kv_stride, first, n_keys);
  ps_tile_copy<D, Size::rows, Size::threads> (values, a.v + start, shape.kv_stride, first, n_keys);
  ps_queries_copy<D, columns, Size::threads> (tiles, 0, a, row, kv_head * group, start_query);
  for (int head = kv_head * group, query = start_query, slot = 0; head < (kv_head + 1) * group; slot = 1 - slot) {
    const PsHalf *tile = tiles.queries + slot * columns * D, *dout = tiles.dout + slot * columns * D;
    const int present = query;
    ps_copy_wait<0> ();
    __syncthreads (); /* the copies of this tile are there, and no thread needs the tile before */
    query += columns;
    if (query >= n) {
      query = start_query;
      head++;
    }
    if (head < (kv_head + 1) * group)
      ps_queries_copy<D, columns, Size::threads> (tiles, 1 - slot, a, row, head, query);
    if (past + present + columns - 1 < first + warp_row)
      continue; /* all are before this warp's keys */
    float p[bands][columns / 8][4], ds[bands][columns / 8][4];
    ps_multiply<D, Size::rows, bands, columns, Size::unroll> (p, keys, warp_row, tile);
    if (first + warp_row + bands * 16 - 1 > past + present)
      ps_mask<bands, columns, true> (p, first + warp_row, past + present);
    ps_to_probabilities<bands, columns, true> (p, tiles.lse + slot * columns, a.scale_of_2);
    ps_accumulate<D, bands, columns> (dv, p, dout);
    ps_multiply<D, Size::rows, bands, columns, Size::unroll> (ds, values, warp_row, dout);
    ps_to_score_gradients<bands, columns, true> (ds, p, tiles.delta + slot * columns);
    ps_accumulate<D, bands, columns> (dk, ds, tile);
  }
  ps_rows_scale<D, bands> (dk, a.scale);
  ps_rows_store<D, Size::rows, bands> (a.dk + start, shape.kv_stride, dk, keys, warp_row, first, n_keys);
  ps_rows_store<D, Size::rows, bands> (a.dv + start, shape.kv_stride, dv, values, warp_row, first, n_keys);
}

/* --- dq --- */

template <int D> struct QuerySizes {
  static constexpr int warps = 4;
  static constexpr int bands = 2;
  static constexpr int rows = warps * bands * 16; /* queries of a block */
  static constexpr int columns = 32;              /* keys of a tile */
  static constexpr int threads = warps * 32;
  static constexpr int unroll = D > 32 ? 2 : 1; /* spills no register */
  /* Queries and dout; two tiles each of keys and values; lse and delta. */
  static constexpr size_t shared = sizeof (PsHalf) * D * (2 * rows + 4 * columns) + sizeof (float) * 2 * rows;
};

/* Grid: tile of queries from the last to the first, query head, sequence. */
template <int D>
static __global__ void __launch_bounds__ (QuerySizes<D>::threads) flash_queries (PsAttentionBackward<PsHalf> a)
{
  typedef QuerySizes<D> Size;
  constexpr int bands = Size::bands, columns = Size::columns;
  PS_SHARED_BYTES (bytes);
  const PsAttentionShape &shape = a.shape;
  const int n = shape.sequence, past = shape.past, n_keys = ps_keys (shape), stride = shape.kv_stride;
  const int first = (int)(gridDim.x - 1 - blockIdx.x) * Size::rows, head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int kv_head = head / (shape.heads / shape.kv_heads), warp_row = (int)threadIdx.x / 32 * bands * 16;
  const int end = min (past + first + Size::rows, n_keys); /* end of the keys that a query of the block sees */
  const PsHalf *keys = a.k + ps_key_at (shape, row, 0, kv_head), *values = a.v + ps_key_at (shape, row, 0, kv_head);
  PsHalf *queries = (PsHalf *)bytes, *dout = queries + Size::rows * D;
  PsHalf *key_tiles = dout + Size::rows * D, *value_tiles = key_tiles + 2 * columns * D;
  float *lse = (float *)(value_tiles + 2 * columns * D), *delta = lse + Size::rows;
  float dq[bands][D / 8][4] = {};

  ps_tile_copy<D, Size::rows, Size::threads> (queries, a.q + ps_query_at (shape, row, 0, head), shape.qkv_stride, first,
                                              n);
  ps_tile_copy<D, Size::rows, Size::threads> (dout, a.dout + ps_out_at (shape, row, 0, head), shape.out_stride, first,
                                              n);
  ps_floats_copy<Size::rows> (lse, a.lse + ps_row_at (shape, row, 0, head), first, n);
  ps_floats_copy<Size::rows> (delta, a.delta + ps_row_at (shape, row, 0, head), first, n);
  ps_tile_copy<D, columns, Size::threads> (key_tiles, keys, stride, 0, n_keys);
  ps_tile_copy<D, columns, Size::threads> (value_tiles, values, stride, 0, n_keys);
  ps_copy_commit ();
  for (int key = 0, present = 0; key < end; key += columns, present = columns * D - present) {
    const int next = columns * D - present;
    ps_copy_wait<0> ();
    __syncthreads (); /* the copies of this tile are there, and no thread needs the tile before */
    if (key + columns < end) {
      ps_tile_copy<D, columns, Size::threads> (key_tiles + next, keys, stride, key + columns, n_keys);
      ps_tile_copy<D, columns, Size::threads> (value_tiles + next, values, stride, key + columns, n_keys);
      ps_copy_commit ();
    }
    if (key > past + first + warp_row + bands * 16 - 1)
      continue; /* all are after this warp's queries */
    float p[bands][columns / 8][4], ds[bands][columns / 8][4];
    ps_multiply<D, Size::rows, bands, columns, Size::unroll> (p, queries, warp_row, key_tiles + present);
    if (key + columns - 1 > past + first + warp_row)
      ps_mask<bands, columns, false> (p, past + first + warp_row, key);
    ps_to_probabilities<bands, columns, false> (p, lse + warp_row, a.scale_of_2);
    ps_multiply<D, Size::rows, bands, columns, Size::unroll> (ds, dout, warp_row, value_tiles + present);
    ps_to_score_gradients<bands, columns, false> (ds, p, delta + warp_row);
    ps_accumulate<D, bands, columns> (dq, ds, key_tiles + present);
  }
  ps_rows_scale<D, bands> (dq, a.scale);
  ps_rows_store<D, Size::rows, bands> (a.dq + ps_query_at (shape, row, 0, head), shape.qkv_stride, dq, queries,
                                       warp_row, first, n);
}

template <int D> static void launch (PsQueue *queue, const PsAttentionBackward<PsHalf> &attention)
{
  const PsAttentionShape &shape = attention.shape;
  const dim3 of_keys (ps_blocks ((size_t)ps_keys (shape), KeySizes<D>::rows), (unsigned)shape.kv_heads,
                      (unsigned)shape.batch);
  const dim3 of_queries (ps_blocks ((size_t)shape.sequence, QuerySizes<D>::rows), (unsigned)shape.heads,
                         (unsigned)shape.batch);
  ps_launch (queue, "gradient of attention", flash_keys<D>, of_keys, KeySizes<D>::threads, KeySizes<D>::shared,
             attention);
  ps_launch (queue, "gradient of attention", flash_queries<D>, of_queries, QuerySizes<D>::threads,
             QuerySizes<D>::shared, attention);
}

void ps_flash_backward (PsQueue *queue, const PsAttentionBackward<PsHalf> &attention)
{
  ps_by_head_size (attention.shape.head_size, [&]<int D> (PsHeadSize<D>) { launch<D> (queue, attention); });
}

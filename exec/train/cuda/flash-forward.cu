/* flash-forward.cu - attention on tensor cores, forward. A block has a tile of queries of one head. Tiles of keys and
 * values come one after the other; the next one is copied while the block works on the present one. The longest blocks
 * start first. */
#include "attention.h"
#include "flash-softmax.h"
#include "hopper.h"

/* Sizes by head size; registers decide them. A warp keeps 16 * bands rows of outputs (D floats per row) and of
 * scores. */
template <int D> struct Sizes
{
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
static __global__ void
__launch_bounds__ (Sizes<D>::threads) flash_forward (PsAttentionForward<PsHalf> a)
{
  typedef Sizes<D> Size;
  PS_SHARED_BYTES (bytes);
  const PsCudaAttention &shape = a.shape;
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
  for (int key = 0, present = 0; key < end; key += Size::columns, present = Size::columns * D - present)
    {
      const int next = Size::columns * D - present;
      ps_copy_wait<0> ();
      __syncthreads (); /* the copies of this tile are there, and no thread needs the tile before */
      if (key + Size::columns < end)
        {
          ps_tile_copy<D, Size::columns, Size::threads> (key_tiles + next, keys, stride, key + Size::columns, n_keys);
          ps_tile_copy<D, Size::columns, Size::threads> (value_tiles + next, values, stride, key + Size::columns,
                                                         n_keys);
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
  const int size = attention.shape.head_size;

  if (ps_hopper_takes (size))
    return ps_flash_forward_hopper (attention, stream);
  return ps_by_head_size (size, [&] (auto known) { return launch<decltype (known)::value> (attention, stream); });
}

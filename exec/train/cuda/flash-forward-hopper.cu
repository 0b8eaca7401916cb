/* flash-forward-hopper.cu - the forward of flash-forward.cu with the instructions of hopper.h. A block has 64 queries
 * for each of two groups. While the scores of a tile become probabilities, the product for the next tile's scores runs.
 * FlashAttention-3 does the same (arXiv 2407.08608, algorithm 2), but has special roles for warps. */
#include "attention.h"
#include "flash-softmax.h"
#include "hopper.h"

static const int groups = 2;
static const int columns = 64;       /* keys of a tile */
static const int rows = groups * 64; /* queries of a block */
static const int threads = groups * 128;

/* Queries, and two tiles each of keys and values. */
template <int D> constexpr size_t shared_bytes = (rows + 4 * columns) * D * sizeof (PsHalf);

/* The work of a block. */
struct Work
{
  PsHalf *queries, *keys, *values; /* tiles */
  const PsHalf *from_keys, *from_values;
  int n, stride;            /* of the keys */
  int end;                  /* end of the keys that a query of the block sees */
  int group_row, first_row; /* the group's first query, in the tile and among the keys */
  float factor;             /* factor of scores, for powers of 2 */
};

/* Starts copies of a tile of keys or values, if there is such a tile. */
template <int D>
static __device__ __forceinline__ void
copy (const Work &work, PsHalf *tiles, int slot, const PsHalf *from, int key)
{
  if (key < work.end)
    ps_tile_copy<D, columns, threads> (tiles + slot * columns * D, from, work.stride, key, work.n);
}

/* Waits for all copies and all groups. The groups have finished these keys and the values before, so copies to their
 * places start. */
template <int D>
static __device__ __forceinline__ void
meet (const Work &work, int key, int slot)
{
  ps_hopper_meet<0> ();
  copy<D> (work, work.keys, slot, work.from_keys, key + 2 * columns);
  copy<D> (work, work.values, 1 - slot, work.from_values, key + columns);
  ps_copy_commit ();
}

/* Takes the tile with scores s. more: starts the scores of the next tile. */
template <int D, bool more>
static __device__ __forceinline__ void
step (const Work &work, int key, int slot, float (&s)[1][8][4], float (&next)[1][8][4], float (&o)[1][D / 8][4],
      PsSoftmax<1> *softmax)
{
  float rescale[1][2];
  uint32_t p[4][4];

  if (key + columns - 1 > work.first_row)
    ps_mask<1, columns, false> (s, work.first_row + (int)threadIdx.x / 32 % 4 * 16, key);
  if (ps_softmax_move<1, columns> (s, softmax, rescale, work.factor))
    ps_softmax_rescale<D, 1> (o, rescale);
  meet<D> (work, key, slot);
  if constexpr (more)
    ps_hopper_multiply<D, rows> (next[0], work.queries, work.group_row, work.keys + (1 - slot) * columns * D);
  ps_soften<1, columns> (s, softmax, work.factor);
  ps_hopper_pack (p, s[0]);
  ps_hopper_accumulate<D> (o[0], p, work.values + slot * columns * D);
  ps_hopper_wait<0> ();
  if constexpr (more)
    ps_hopper_settle (next[0]);
  ps_hopper_settle (o[0]);
}

/* Takes all tiles that the group's queries see, then meets the other group at its remaining tiles. */
template <int D>
static __device__ __forceinline__ void
walk (const Work &work, float (&o)[1][D / 8][4], PsSoftmax<1> *softmax)
{
  float even[1][8][4], odd[1][8][4];
  const int last = min (work.first_row + 63, work.end - 1); /* last key that a query of the group sees */
  int key = 0;

  ps_hopper_multiply<D, rows> (even[0], work.queries, work.group_row, work.keys);
  ps_hopper_wait<0> ();
  ps_hopper_settle (even[0]);
  for (; key + 2 * columns <= last; key += 2 * columns)
    {
      step<D, true> (work, key, 0, even, odd, o, softmax);
      step<D, true> (work, key + columns, 1, odd, even, o, softmax);
    }
  if (key + columns <= last)
    {
      step<D, true> (work, key, 0, even, odd, o, softmax);
      step<D, false> (work, key + columns, 1, odd, even, o, softmax);
      key += 2 * columns;
    }
  else
    {
      step<D, false> (work, key, 0, even, odd, o, softmax);
      key += columns;
    }
  for (; key < work.end; key += columns)
    meet<D> (work, key, key / columns % 2);
}

template <int D>
static __device__ __forceinline__ void
attend (const PsAttentionForward<PsHalf> &a, unsigned char *bytes)
{
  const PsCudaAttention &shape = a.shape;
  const int first = (int)(gridDim.x - 1 - blockIdx.x) * rows, head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int kv_head = head / (shape.heads / shape.kv_heads), warp_row = (int)threadIdx.x / 32 * 16;
  const int group_row = ps_hopper_group () * 64;
  PsHalf *queries = (PsHalf *)bytes, *keys = queries + rows * D;
  const Work work = { queries,
                      keys,
                      keys + 2 * columns * D,
                      a.k + ps_key_at (shape, row, 0, kv_head),
                      a.v + ps_key_at (shape, row, 0, kv_head),
                      ps_keys (shape),
                      shape.kv_stride,
                      min (shape.past + first + rows, ps_keys (shape)),
                      group_row,
                      shape.past + first + group_row,
                      a.scale_of_2 };
  float o[1][D / 8][4] = {};
  PsSoftmax<1> softmax;

  ps_softmax_init (&softmax);
  ps_tile_copy<D, rows, threads> (queries, a.q + ps_query_at (shape, row, 0, head), shape.qkv_stride, first,
                                  shape.sequence);
  copy<D> (work, work.keys, 0, work.from_keys, 0);
  ps_copy_commit ();
  copy<D> (work, work.keys, 1, work.from_keys, columns);
  copy<D> (work, work.values, 0, work.from_values, 0);
  ps_copy_commit ();
  ps_hopper_meet<1> ();
  walk<D> (work, o, &softmax);
  ps_softmax_finish<D, 1> (o, softmax, a.lse + ps_row_at (shape, row, 0, head), a.scale, first + warp_row,
                           shape.sequence);
  __syncthreads (); /* the groups have read the queries */
  ps_rows_store<D, rows, 1> (a.out + ps_out_at (shape, row, 0, head), shape.out_stride, o, queries, warp_row, first,
                             shape.sequence);
}

/* Grid: tile of queries from the last to the first, query head, sequence. */
template <int D>
static __global__ void
__launch_bounds__ (threads) flash_forward_hopper (PsAttentionForward<PsHalf> a)
{
  PS_SHARED_BYTES (bytes);

  if constexpr (PS_HOPPER_CODE)
    attend<D> (a, bytes);
}

template <int D>
static cudaError_t
launch (const PsAttentionForward<PsHalf> &attention, cudaStream_t stream)
{
  const PsCudaAttention &shape = attention.shape;
  const dim3 grid (ps_blocks ((size_t)shape.sequence, rows), (unsigned)shape.heads, (unsigned)shape.batch);

  return ps_launch (flash_forward_hopper<D>, grid, threads, shared_bytes<D>, stream, attention);
}

cudaError_t
ps_flash_forward_hopper (const PsAttentionForward<PsHalf> &attention, cudaStream_t stream)
{
  return attention.shape.head_size == 64 ? launch<64> (attention, stream) : launch<128> (attention, stream);
}

extern "C" int
ps_cuda_attention_uses_hopper (void)
{
  return ps_hopper_takes (128);
}

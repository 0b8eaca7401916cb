/* flash-hopper.cu - the launches of flash.cu with the matrix instructions of compute capability 9.0 (target sm_90a; PTX
 * ISA 8.x, section "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"). A group of four
 * neighbouring warps multiplies together, from shared memory, while the warps go on. The emulation has a twin of each.
 *
 * Warp w of a group (w = 0..3) owns rows 16w..16w + 15 of a product's 64 rows. Its accumulators, and its left sides in
 * registers, have the layout of ps_mma. All warps of a group make the same products in the same order.
 *
 * Tiles are as in flash.h, D a multiple of 64, on 1024 bytes. Products see copies into them after hopper_meet.
 *
 *   hopper_multiply<D, rows> (s, queries, row, keys);      other work may follow; then, before s is read:
 *   hopper_wait<0> ();
 *   hopper_settle (s);
 */
#include <stdlib.h>
#include <string.h>

#include "flash.h"

#ifdef __CUDACC__
/* Kernels for other architectures are empty: they use no function of this file. */
#pragma nv_diag_suppress 177
#endif

/* 1 where these instructions are compiled, and on the host, which names the kernels that use them. */
#if !defined __CUDA_ARCH__ || defined __CUDA_ARCH_FEAT_SM90_ALL
#define HOPPER_CODE 1
#else
#define HOPPER_CODE 0
#endif

/* --- the instructions --- */

/* Operands of an instruction: accumulators that it reads and writes ("+f") or only writes ("=f"). */
#define HOPPER_4(how, d, j) how (d[j][0]), how (d[j][1]), how (d[j][2]), how (d[j][3])
#define HOPPER_16(how, d, j)                                                                                           \
  HOPPER_4 (how, d, j), HOPPER_4 (how, d, (j) + 1), HOPPER_4 (how, d, (j) + 2), HOPPER_4 (how, d, (j) + 3)
#define HOPPER_NAMES_32                                                                                                \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "     \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define HOPPER_NAMES_64                                                                                                \
  HOPPER_NAMES_32                                                                                                      \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "        \
  "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* d = a b^T, summed over 16 columns: rows of a are the group's 64, rows of b are columns of d. */
static __device__ __forceinline__ void hopper_mma_first (float (&d)[8][4], uint64_t a, uint64_t b)
{
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HOPPER_NAMES_32 "}, %32, %33, 0, 1, 1, 0, 0;"
               : HOPPER_16 ("=f", d, 0), HOPPER_16 ("=f", d, 4)
               : "l"(a), "l"(b));
#else
  ps_emulator_group_multiply (d, a, b, false);
#endif
}

/* d += a b^T */
static __device__ __forceinline__ void hopper_mma (float (&d)[8][4], uint64_t a, uint64_t b)
{
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HOPPER_NAMES_32 "}, %32, %33, 1, 1, 1, 0, 0;"
               : HOPPER_16 ("+f", d, 0), HOPPER_16 ("+f", d, 4)
               : "l"(a), "l"(b));
#else
  ps_emulator_group_multiply (d, a, b, true);
#endif
}

/* d += a b, summed over the 16 columns of a, which are rows of b. */
static __device__ __forceinline__ void hopper_mma (float (&d)[8][4], const uint32_t (&a)[4], uint64_t b)
{
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HOPPER_NAMES_32
               "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : HOPPER_16 ("+f", d, 0), HOPPER_16 ("+f", d, 4)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
  ps_emulator_group_accumulate (d, a, b);
#endif
}

static __device__ __forceinline__ void hopper_mma (float (&d)[16][4], const uint32_t (&a)[4], uint64_t b)
{
#ifdef __CUDACC__
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" HOPPER_NAMES_64
               "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
               : HOPPER_16 ("+f", d, 0), HOPPER_16 ("+f", d, 4), HOPPER_16 ("+f", d, 8), HOPPER_16 ("+f", d, 12)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
  ps_emulator_group_accumulate (d, a, b);
#endif
}

/* Returns the thread's group. After the shuffle the compiler knows that a whole warp has the same one. */
static __device__ __forceinline__ int hopper_group ()
{
  return __shfl_sync (0xffffffffu, (int)threadIdx.x / 128, 0);
}

/* Separates other use of registers from products that use them. */
static __device__ __forceinline__ void hopper_fence ()
{
#ifdef __CUDACC__
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
  ps_emulator_group_fence ();
#endif
}

/* Makes the products since the last commit a batch. */
static __device__ __forceinline__ void hopper_commit ()
{
#ifdef __CUDACC__
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
  ps_emulator_group_commit ();
#endif
}

/* Waits until all but the latest `batches` batches are done. */
template <int batches> static __device__ __forceinline__ void hopper_wait ()
{
#ifdef __CUDACC__
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(batches) : "memory");
#else
  ps_emulator_group_wait (batches);
#endif
}

/* Keeps the compiler from moving a use of d across. Needed before the first product that adds to d, and after the wait
 * for the last one. */
template <int n> static __device__ __forceinline__ void hopper_settle (float (&d)[n][4])
{
#ifdef __CUDACC__
#pragma unroll
  for (int j = 0; j < n; j++)
    asm volatile("" : HOPPER_4 ("+f", d, j)::"memory");
#endif
}

/* Waits for all but the latest `pending` groups of this thread's copies, then meets all threads. After it, products see
 * the copies of all threads. */
template <int pending> static __device__ __forceinline__ void hopper_meet ()
{
  ps_copy_wait<pending> ();
#ifdef __CUDACC__
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  __syncthreads ();
}

/* --- products of tiles --- */

static const int hopper_pitch = 128; /* bytes from row to row of a panel */

/* Matrix descriptor (PTX ISA, "Matrix Descriptor Format"): the address, the bytes from panel to panel, the bytes from
 * eight rows to the next eight, each in units of 16 bytes, and the swizzle of 128 bytes. Adding n moves it by 16 n
 * bytes. */
static __device__ __forceinline__ uint64_t hopper_descriptor (const PsHalf *at, int rows)
{
#ifdef __CUDACC__
  const uint64_t address = __cvta_generic_to_shared (at);
#else
  const uint64_t address = ps_emulator_shared_address (at);
#endif

  return (address & 0x3ffff) >> 4 | (uint64_t)(rows * hopper_pitch / 16) << 16 | (uint64_t)(8 * hopper_pitch / 16) << 32
         | (uint64_t)1 << 62;
}

/* Starts s = a b^T, for 64 rows of tile a of `rows`, from row `row` on, and the 64 rows of tile b. */
template <int D, int rows>
static __device__ __forceinline__ void hopper_multiply (float (&s)[8][4], const PsHalf *a, int row, const PsHalf *b)
{
  const uint64_t left = hopper_descriptor (a + row * 64, rows), right = hopper_descriptor (b, 64);

  hopper_fence ();
  hopper_mma_first (s, left, right);
#pragma unroll
  for (int k = 1; k < D / 16; k++)
    hopper_mma (s, left + k / 4 * rows * (hopper_pitch / 16) + k % 4 * 2,
                right + k / 4 * 64 * (hopper_pitch / 16) + k % 4 * 2);
  hopper_commit ();
}

/* Rounds accumulators of 64 columns to bf16, as the left side of a product. */
static __device__ __forceinline__ void hopper_pack (uint32_t (&left)[4][4], const float (&p)[8][4])
{
#pragma unroll
  for (int k = 0; k < 4; k++)
    ps_pack_left (left[k], p[2 * k], p[2 * k + 1]);
}

/* Keeps the compiler from writing a register of p later than here: a product reads them while it runs. */
static __device__ __forceinline__ void hopper_hold (uint32_t (&p)[4][4])
{
#ifdef __CUDACC__
#pragma unroll
  for (int k = 0; k < 4; k++)
    asm volatile("" : HOPPER_4 ("+r", p, k)::"memory");
#endif
}

/* Starts o += p b. Tile b has a row for each of the 64 columns of p. */
template <int D>
static __device__ __forceinline__ void hopper_accumulate (float (&o)[D / 8][4], uint32_t (&p)[4][4], const PsHalf *b)
{
  const uint64_t right = hopper_descriptor (b, 64);

  hopper_hold (p);
  hopper_settle (o);
  hopper_fence ();
#pragma unroll
  for (int k = 0; k < 4; k++)
    hopper_mma (o, p[k], right + k * 16 * (hopper_pitch / 16));
  hopper_commit ();
}

/* --- forward ---
 * A block has 64 queries for each of two groups. While the scores of a tile become probabilities, the product for the
 * next tile's scores runs. FlashAttention-3 does the same (arXiv 2407.08608, algorithm 2), but has special roles for
 * warps. */

static const int groups = 2;
static const int columns = 64;       /* keys, or queries, of a tile of the other side */
static const int rows = groups * 64; /* queries, or keys, of a block */
static const int threads = groups * 128;

/* Queries, and two tiles each of keys and values. */
template <int D> constexpr size_t forward_bytes = (rows + 4 * columns) * D * sizeof (PsHalf);

/* The work of a block. */
struct Work {
  PsHalf *queries, *keys, *values; /* tiles */
  const PsHalf *from_keys, *from_values;
  int n, stride;            /* of the keys */
  int end;                  /* end of the keys that a query of the block sees */
  int group_row, first_row; /* the group's first query, in the tile and among the keys */
  float factor;             /* factor of scores, for powers of 2 */
};

/* Starts copies of a tile of keys or values, if there is such a tile. */
template <int D>
static __device__ __forceinline__ void copy (const Work &work, PsHalf *tiles, int slot, const PsHalf *from, int key)
{
  if (key < work.end)
    ps_tile_copy<D, columns, threads> (tiles + slot * columns * D, from, work.stride, key, work.n);
}

/* Waits for all copies and all groups. The groups have finished these keys and the values before, so copies to their
 * places start. */
template <int D> static __device__ __forceinline__ void meet (const Work &work, int key, int slot)
{
  hopper_meet<0> ();
  copy<D> (work, work.keys, slot, work.from_keys, key + 2 * columns);
  copy<D> (work, work.values, 1 - slot, work.from_values, key + columns);
  ps_copy_commit ();
}

/* Takes the tile with scores s. more: starts the scores of the next tile. */
template <int D, bool more>
static __device__ __forceinline__ void step (const Work &work, int key, int slot, float (&s)[1][8][4],
                                             float (&next)[1][8][4], float (&o)[1][D / 8][4], PsSoftmax<1> *softmax)
{
  float rescale[1][2];
  uint32_t p[4][4];

  if (key + columns - 1 > work.first_row)
    ps_mask<1, columns, false> (s, work.first_row + (int)threadIdx.x / 32 % 4 * 16, key);
  if (ps_softmax_move<1, columns> (s, softmax, rescale, work.factor))
    ps_softmax_rescale<D, 1> (o, rescale);
  meet<D> (work, key, slot);
  if constexpr (more)
    hopper_multiply<D, rows> (next[0], work.queries, work.group_row, work.keys + (1 - slot) * columns * D);
  ps_soften<1, columns> (s, softmax, work.factor);
  hopper_pack (p, s[0]);
  hopper_accumulate<D> (o[0], p, work.values + slot * columns * D);
  hopper_wait<0> ();
  if constexpr (more)
    hopper_settle (next[0]);
  hopper_settle (o[0]);
}

/* Takes all tiles that the group's queries see, then meets the other group at its remaining tiles. */
template <int D>
static __device__ __forceinline__ void walk (const Work &work, float (&o)[1][D / 8][4], PsSoftmax<1> *softmax)
{
  float even[1][8][4], odd[1][8][4];
  const int last = min (work.first_row + 63, work.end - 1); /* last key that a query of the group sees */
  int key = 0;

  hopper_multiply<D, rows> (even[0], work.queries, work.group_row, work.keys);
  hopper_wait<0> ();
  hopper_settle (even[0]);
  for (; key + 2 * columns <= last; key += 2 * columns) {
    step<D, true> (work, key, 0, even, odd, o, softmax);
    step<D, true> (work, key + columns, 1, odd, even, o, softmax);
  }
  if (key + columns <= last) {
    step<D, true> (work, key, 0, even, odd, o, softmax);
    step<D, false> (work, key + columns, 1, odd, even, o, softmax);
    key += 2 * columns;
  } else {
    step<D, false> (work, key, 0, even, odd, o, softmax);
    key += columns;
  }
  for (; key < work.end; key += columns)
    meet<D> (work, key, key / columns % 2);
}

template <int D>
static __device__ __forceinline__ void attend (const PsAttentionForward<PsHalf> &a, unsigned char *bytes)
{
  const PsAttentionShape &shape = a.shape;
  const int first = (int)(gridDim.x - 1 - blockIdx.x) * rows, head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int kv_head = head / (shape.heads / shape.kv_heads), warp_row = (int)threadIdx.x / 32 * 16;
  const int group_row = hopper_group () * 64;
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
  hopper_meet<1> ();
  walk<D> (work, o, &softmax);
  ps_softmax_finish<D, 1> (o, softmax, a.lse + ps_row_at (shape, row, 0, head), a.scale, first + warp_row,
                           shape.sequence);
  __syncthreads (); /* the groups have read the queries */
  ps_rows_store<D, rows, 1> (a.out + ps_out_at (shape, row, 0, head), shape.out_stride, o, queries, warp_row, first,
                             shape.sequence);
}

/* Grid: tile of queries from the last to the first, query head, sequence. */
template <int D> static __global__ void __launch_bounds__ (threads) flash_forward_hopper (PsAttentionForward<PsHalf> a)
{
  PS_SHARED_BYTES (bytes);

  if constexpr (HOPPER_CODE)
    attend<D> (a, bytes);
}

template <int D> static void launch (PsQueue *queue, const PsAttentionForward<PsHalf> &attention)
{
  const PsAttentionShape &shape = attention.shape;
  const dim3 grid (ps_blocks ((size_t)shape.sequence, rows), (unsigned)shape.heads, (unsigned)shape.batch);

  ps_launch (queue, "attention", flash_forward_hopper<D>, grid, threads, forward_bytes<D>, attention);
}

void ps_flash_forward_hopper (PsQueue *queue, const PsAttentionForward<PsHalf> &attention)
{
  attention.shape.head_size == 64 ? launch<64> (queue, attention) : launch<128> (queue, attention);
}

/* --- backward: the two launches of flash.cu ---
 * A block has 64 keys, or queries, for each of two groups. While a product runs, the threads work on the result before
 * it. */

/* --- dk and dv --- */

/* Keys and values; two tiles each of queries and dout; lse and delta of both query tiles. */
template <int D>
constexpr size_t key_bytes = (2 * rows + 4 * columns) * D * sizeof (PsHalf) + 4 * columns * sizeof (float);

template <int D>
static __device__ __forceinline__ void add_up_keys (const PsAttentionBackward<PsHalf> &a, unsigned char *bytes)
{
  const PsAttentionShape &shape = a.shape;
  const int n = shape.sequence, past = shape.past, n_keys = ps_keys (shape), group = shape.heads / shape.kv_heads;
  const int first = (int)blockIdx.x * rows, kv_head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int warp_row = (int)threadIdx.x / 32 * 16, group_row = hopper_group () * 64;
  const int start_query = max (0, first - past) / columns * columns;
  const size_t start = ps_key_at (shape, row, 0, kv_head);
  PsHalf *keys = (PsHalf *)bytes, *values = keys + rows * D, *queries = values + rows * D;
  float *lse = (float *)(queries + 4 * columns * D);
  const PsQueryTiles tiles = { queries, queries + 2 * columns * D, lse, lse + 2 * columns };
  float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};

  ps_tile_copy<D, rows, threads> (keys, a.k + start, shape.kv_stride, first, n_keys);
  ps_tile_copy<D, rows, threads> (values, a.v + start, shape.kv_stride, first, n_keys);
  ps_queries_copy<D, columns, threads> (tiles, 0, a, row, kv_head * group, start_query);
  for (int head = kv_head * group, query = start_query, slot = 0; head < (kv_head + 1) * group; slot = 1 - slot) {
    const PsHalf *tile = tiles.queries + slot * columns * D, *dout = tiles.dout + slot * columns * D;
    const int present = query;
    hopper_meet<0> ();
    query += columns;
    if (query >= n) {
      query = start_query;
      head++;
    }
    if (head < (kv_head + 1) * group)
      ps_queries_copy<D, columns, threads> (tiles, 1 - slot, a, row, head, query);
    if (past + present + columns - 1 < first + group_row)
      continue; /* all are before this group's keys */
    float p[1][8][4], ds[1][8][4];
    uint32_t left_p[4][4], left_ds[4][4];
    hopper_multiply<D, rows> (p[0], keys, group_row, tile);
    hopper_multiply<D, rows> (ds[0], values, group_row, dout);
    hopper_wait<1> ();
    hopper_settle (p[0]);
    if (first + group_row + 63 > past + present)
      ps_mask<1, columns, true> (p, first + warp_row, past + present);
    ps_to_probabilities<1, columns, true> (p, tiles.lse + slot * columns, a.scale_of_2);
    hopper_pack (left_p, p[0]);
    hopper_accumulate<D> (dv[0], left_p, dout);
    hopper_wait<1> ();
    hopper_settle (ds[0]);
    ps_to_score_gradients<1, columns, true> (ds, p, tiles.delta + slot * columns);
    hopper_pack (left_ds, ds[0]);
    hopper_accumulate<D> (dk[0], left_ds, tile);
    hopper_wait<0> ();
    hopper_settle (dv[0]);
    hopper_settle (dk[0]);
  }
  __syncthreads (); /* the groups have read keys and values */
  ps_rows_scale<D, 1> (dk, a.scale);
  ps_rows_store<D, rows, 1> (a.dk + start, shape.kv_stride, dk, keys, warp_row, first, n_keys);
  ps_rows_store<D, rows, 1> (a.dv + start, shape.kv_stride, dv, values, warp_row, first, n_keys);
}

/* Grid: tile of keys, kv head, sequence. */
template <int D> static __global__ void __launch_bounds__ (threads) flash_keys_hopper (PsAttentionBackward<PsHalf> a)
{
  PS_SHARED_BYTES (bytes);

  if constexpr (HOPPER_CODE)
    add_up_keys<D> (a, bytes);
}

/* --- dq --- */

/* Queries and dout; two tiles each of keys and values; lse and delta. */
template <int D>
constexpr size_t query_bytes = (2 * rows + 4 * columns) * D * sizeof (PsHalf) + 2 * rows * sizeof (float);

template <int D>
static __device__ __forceinline__ void add_up_queries (const PsAttentionBackward<PsHalf> &a, unsigned char *bytes)
{
  const PsAttentionShape &shape = a.shape;
  const int n = shape.sequence, past = shape.past, n_keys = ps_keys (shape), stride = shape.kv_stride;
  const int first = (int)(gridDim.x - 1 - blockIdx.x) * rows, head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int kv_head = head / (shape.heads / shape.kv_heads);
  const int warp_row = (int)threadIdx.x / 32 * 16, group_row = hopper_group () * 64;
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
  for (int key = 0, present = 0; key < end; key += columns, present = columns * D - present) {
    const int next = columns * D - present;
    hopper_meet<0> ();
    if (key + columns < end) {
      ps_tile_copy<D, columns, threads> (key_tiles + next, keys, stride, key + columns, n_keys);
      ps_tile_copy<D, columns, threads> (value_tiles + next, values, stride, key + columns, n_keys);
      ps_copy_commit ();
    }
    if (key > past + first + group_row + 63)
      continue; /* all are after this group's queries */
    float p[1][8][4], ds[1][8][4];
    uint32_t left[4][4];
    hopper_multiply<D, rows> (p[0], queries, group_row, key_tiles + present);
    hopper_multiply<D, rows> (ds[0], dout, group_row, value_tiles + present);
    hopper_wait<1> ();
    hopper_settle (p[0]);
    if (key + columns - 1 > past + first + group_row)
      ps_mask<1, columns, false> (p, past + first + warp_row, key);
    ps_to_probabilities<1, columns, false> (p, lse + warp_row, a.scale_of_2);
    hopper_wait<0> ();
    hopper_settle (ds[0]);
    ps_to_score_gradients<1, columns, false> (ds, p, delta + warp_row);
    hopper_pack (left, ds[0]);
    hopper_accumulate<D> (dq[0], left, key_tiles + present);
    hopper_wait<0> ();
    hopper_settle (dq[0]);
  }
  __syncthreads (); /* the groups have read the queries */
  ps_rows_scale<D, 1> (dq, a.scale);
  ps_rows_store<D, rows, 1> (a.dq + ps_query_at (shape, row, 0, head), shape.qkv_stride, dq, queries, warp_row, first,
                             n);
}

/* Grid: tile of queries from the last to the first, query head, sequence. */
template <int D> static __global__ void __launch_bounds__ (threads) flash_queries_hopper (PsAttentionBackward<PsHalf> a)
{
  PS_SHARED_BYTES (bytes);

  if constexpr (HOPPER_CODE)
    add_up_queries<D> (a, bytes);
}

template <int D> static void launch (PsQueue *queue, const PsAttentionBackward<PsHalf> &attention)
{
  const PsAttentionShape &shape = attention.shape;
  const dim3 of_keys (ps_blocks ((size_t)ps_keys (shape), rows), (unsigned)shape.kv_heads, (unsigned)shape.batch);
  const dim3 of_queries (ps_blocks ((size_t)shape.sequence, rows), (unsigned)shape.heads, (unsigned)shape.batch);
  ps_launch (queue, "gradient of attention", flash_keys_hopper<D>, of_keys, threads, key_bytes<D>, attention);
  ps_launch (queue, "gradient of attention", flash_queries_hopper<D>, of_queries, threads, query_bytes<D>, attention);
}

void ps_flash_backward_hopper (PsQueue *queue, const PsAttentionBackward<PsHalf> &attention)
{
  attention.shape.head_size == 64 ? launch<64> (queue, attention) : launch<128> (queue, attention);
}

bool ps_hopper_takes (int head_size)
{
#ifdef PS_CUDA_HOPPER
  const char *wish = getenv ("PIPESIM_CUDA_HOPPER");
  int device, major;

  return (head_size == 64 || head_size == 128) && (wish == NULL || strcmp (wish, "0") != 0)
         && cudaGetDevice (&device) == cudaSuccess
         && cudaDeviceGetAttribute (&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major == 9;
#else
  (void)head_size;
  return false;
#endif
}

extern "C" int ps_cuda_attention_uses_hopper (void)
{
  return ps_hopper_takes (128);
}

/* attention.cu - chooses between the tensor-core paths and a simple one. The simple path is here: one block per query
 * or key, with the steps of the formulas. */
#include "attention.h"
#include "launch.h"

static const int block_threads = 128;
static const int block_warps = block_threads / 32;
static const int max_head_size = 1024;
static const int max_sequence = 8192;
static const double log2_e = 1.4426950408889634;

/* --- sums and maxima over a block, the same bits in every thread --- */

/* Joins the value of each warp, which is the same in all its lanes; join (one, other). */
template <typename Join> static __device__ __forceinline__ float join_warps (float value, Join join)
{
  __shared__ float part[block_warps];

  __syncthreads ();
  if (threadIdx.x % 32 == 0)
    part[threadIdx.x / 32] = value;
  __syncthreads ();
  value = part[0];
  for (int i = 1; i < block_warps; i++)
    value = join (value, part[i]);
  return value;
}

static __device__ float block_max (float value)
{
  return join_warps (ps_warp_max (value), [] (float one, float other) { return fmaxf (one, other); });
}

static __device__ float block_sum (float value)
{
  return join_warps (ps_warp_sum (value), [] (float one, float other) { return one + other; });
}

template <typename T> static __device__ __forceinline__ float dot (const T *a, const T *b, int n)
{
  float sum = 0;

  for (int i = 0; i < n; i++)
    sum += ps_to_float (a[i]) * ps_to_float (b[i]);
  return sum;
}

/* --- the simple path --- */

/* Grid: query place, query head, sequence. Shared: a weight per key. */
template <typename T> static __global__ void __launch_bounds__ (block_threads) simple_forward (PsAttentionForward<T> a)
{
  PS_SHARED_BYTES (bytes);
  float *weight = (float *)bytes;
  const PsAttentionShape &shape = a.shape;
  const int place = (int)blockIdx.x, head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int kv_head = head / (shape.heads / shape.kv_heads), size = shape.head_size;
  const int last = shape.past + place;
  const T *query = a.q + ps_query_at (shape, row, place, head);
  const T *keys = a.k + ps_key_at (shape, row, 0, kv_head), *values = a.v + ps_key_at (shape, row, 0, kv_head);
  T *out = a.out + ps_out_at (shape, row, place, head);
  float top = -INFINITY, sum = 0;

  for (int key = (int)threadIdx.x; key <= last; key += block_threads) {
    weight[key] = a.scale * dot (query, keys + (size_t)key * shape.kv_stride, size);
    top = fmaxf (top, weight[key]);
  }
  top = block_max (top);
  for (int key = (int)threadIdx.x; key <= last; key += block_threads) {
    weight[key] = expf (weight[key] - top);
    sum += weight[key];
  }
  sum = block_sum (sum);
  __syncthreads ();
  for (int i = (int)threadIdx.x; i < size; i += block_threads) {
    float total = 0;
    for (int key = 0; key <= last; key++)
      total += weight[key] * ps_to_float (values[(size_t)key * shape.kv_stride + i]);
    out[i] = ps_from_float<T> (total / sum);
  }
  if (threadIdx.x == 0)
    a.lse[ps_row_at (shape, row, place, head)] = top + logf (sum);
}

/* The probability and the gradient of the score of one query with one key. */
struct Weight {
  float p, ds;
};

template <typename T>
static __device__ __forceinline__ Weight weight_of (const PsAttentionBackward<T> &a, int row, int place, int head,
                                                    const T *key, const T *value)
{
  const size_t at = ps_row_at (a.shape, row, place, head);
  const float score = a.scale * dot (a.q + ps_query_at (a.shape, row, place, head), key, a.shape.head_size);
  const float p = expf (score - a.lse[at]);
  const float dp = dot (a.dout + ps_out_at (a.shape, row, place, head), value, a.shape.head_size);

  return { p, p * (dp - a.delta[at]) };
}

/* Grid: key place, kv head, sequence. Shared: sums of dk and dv, weights of a chunk of queries. */
template <typename T> static __global__ void __launch_bounds__ (block_threads) simple_keys (PsAttentionBackward<T> a)
{
  PS_SHARED_BYTES (bytes);
  const PsAttentionShape &shape = a.shape;
  const int place = (int)blockIdx.x, kv_head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int group = shape.heads / shape.kv_heads, size = shape.head_size;
  const size_t at = ps_key_at (shape, row, place, kv_head);
  float *dk = (float *)bytes, *dv = dk + size;
  Weight *weight = (Weight *)(dv + size);

  for (int i = (int)threadIdx.x; i < 2 * size; i += block_threads)
    dk[i] = 0;
  for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
    for (int first = max (0, place - shape.past); first < shape.sequence; first += block_threads) {
      const int n = min (block_threads, shape.sequence - first);
      __syncthreads ();
      if ((int)threadIdx.x < n)
        weight[threadIdx.x] = weight_of (a, row, first + (int)threadIdx.x, head, a.k + at, a.v + at);
      __syncthreads ();
      for (int i = (int)threadIdx.x; i < size; i += block_threads)
        for (int query = 0; query < n; query++) {
          dk[i] += weight[query].ds * ps_to_float (a.q[ps_query_at (shape, row, first + query, head) + i]);
          dv[i] += weight[query].p * ps_to_float (a.dout[ps_out_at (shape, row, first + query, head) + i]);
        }
    }
  for (int i = (int)threadIdx.x; i < size; i += block_threads) {
    a.dk[at + i] = ps_from_float<T> (dk[i] * a.scale);
    a.dv[at + i] = ps_from_float<T> (dv[i]);
  }
}

/* Grid: query place, query head, sequence. Shared: sums of dq, weights of a chunk of keys. */
template <typename T> static __global__ void __launch_bounds__ (block_threads) simple_queries (PsAttentionBackward<T> a)
{
  PS_SHARED_BYTES (bytes);
  const PsAttentionShape &shape = a.shape;
  const int place = (int)blockIdx.x, head = (int)blockIdx.y, row = (int)blockIdx.z;
  const int kv_head = head / (shape.heads / shape.kv_heads), size = shape.head_size, end = shape.past + place + 1;
  float *dq = (float *)bytes;
  Weight *weight = (Weight *)(dq + 2 * size);

  for (int i = (int)threadIdx.x; i < size; i += block_threads)
    dq[i] = 0;
  for (int first = 0; first < end; first += block_threads) {
    const int n = min (block_threads, end - first);
    const size_t own = ps_key_at (shape, row, first + (int)threadIdx.x, kv_head);
    __syncthreads ();
    if ((int)threadIdx.x < n)
      weight[threadIdx.x] = weight_of (a, row, place, head, a.k + own, a.v + own);
    __syncthreads ();
    for (int i = (int)threadIdx.x; i < size; i += block_threads)
      for (int key = 0; key < n; key++)
        dq[i] += weight[key].ds * ps_to_float (a.k[ps_key_at (shape, row, first + key, kv_head) + i]);
  }
  for (int i = (int)threadIdx.x; i < size; i += block_threads)
    a.dq[ps_query_at (shape, row, place, head) + i] = ps_from_float<T> (dq[i] * a.scale);
}

/* --- delta --- */

/* `lanes` threads share a place. Grid: places, head, sequence. */
template <typename T, int width, int lanes>
static __global__ void __launch_bounds__ (block_threads) fill_delta (PsAttentionBackward<T> a)
{
  const PsAttentionShape &shape = a.shape;
  const int place = (int)(blockIdx.x * (block_threads / lanes) + threadIdx.x / lanes);
  const int head = (int)blockIdx.y, row = (int)blockIdx.z, lane = (int)threadIdx.x % lanes;
  const int end = place < shape.sequence ? shape.head_size : 0;
  const size_t start = ps_out_at (shape, row, min (place, shape.sequence - 1), head);
  float sum = 0;

  for (int column = lane * width; column < end; column += lanes * width) {
    const auto out = ps_load<T, width> (a.out + start + column), dout = ps_load<T, width> (a.dout + start + column);
#pragma unroll
    for (int k = 0; k < width; k++)
      sum += ps_to_float (out.at[k]) * ps_to_float (dout.at[k]);
  }
  sum = ps_lanes_sum<lanes> (sum);
  if (lane == 0 && place < shape.sequence)
    a.delta[ps_row_at (shape, row, place, head)] = sum;
}

/* --- the host's side --- */

static bool is_possible (const PsAttention *shape)
{
  return shape->heads > 0 && shape->kv_heads > 0 && shape->heads % shape->kv_heads == 0 && shape->head_size > 0
         && shape->qkv_stride >= shape->head_size && shape->kv_stride >= shape->head_size && shape->past >= 0
         && shape->out_stride >= shape->heads * shape->head_size && shape->heads < 65536 && shape->batch < 65536;
}

static bool is_small (const PsAttention *shape)
{
  return shape->head_size <= max_head_size && shape->past + shape->sequence <= max_sequence;
}

extern "C" int ps_cuda_attention_is_fast (PsElement element, const PsAttention *shape)
{
  const bool has_tiles = ps_by_head_size (shape->head_size, [] (auto) {});

  return element == PS_ELEMENT_BF16 && has_tiles && shape->qkv_stride % 8 == 0 && shape->kv_stride % 8 == 0
         && shape->out_stride % 8 == 0;
}

template <typename T> static void launch_simple_forward (PsQueue *queue, const PsAttentionForward<T> &attention)
{
  const PsAttentionShape &shape = attention.shape;
  const dim3 grid ((unsigned)shape.sequence, (unsigned)shape.heads, (unsigned)shape.batch);

  ps_launch (queue, "attention", simple_forward<T>, grid, block_threads, (size_t)ps_keys (shape) * sizeof (float),
             attention);
}

template <typename T> static void launch_simple_backward (PsQueue *queue, const PsAttentionBackward<T> &attention)
{
  const PsAttentionShape &shape = attention.shape;
  const size_t shared = 2 * (size_t)shape.head_size * sizeof (float) + block_threads * sizeof (Weight);
  const dim3 of_keys ((unsigned)ps_keys (shape), (unsigned)shape.kv_heads, (unsigned)shape.batch);
  const dim3 of_queries ((unsigned)shape.sequence, (unsigned)shape.heads, (unsigned)shape.batch);

  ps_launch (queue, "gradient of attention", simple_keys<T>, of_keys, block_threads, shared, attention);
  ps_launch (queue, "gradient of attention", simple_queries<T>, of_queries, block_threads, shared, attention);
}

/* Notes shapes that there is no code for as a problem of `what`. */
static bool can_attend (PsQueue *queue, const char *what, const PsAttention *shape, bool fast)
{
  if (is_possible (shape) && (fast || is_small (shape)))
    return true;
  ps_cuda_note (queue, what, cudaErrorInvalidValue);
  return false;
}

extern "C" void ps_cuda_attention (PsQueue *queue, const PsAttention *shape, void *out, void *kept, const void *q,
                                   const void *k, const void *v)
{
  const double scale = 1 / sqrt ((double)shape->head_size);
  const bool fast = ps_cuda_attention_is_fast (queue->element, shape) && ps_is_on_16_bytes ({ out, q, k, v });

  if (!can_attend (queue, "attention", shape, fast))
    return;
  ps_by_width (queue->element, {}, {}, [&]<typename T, int width> (PsWidth<T, width>) {
    const PsAttentionForward<T> attention
        = { ps_attention_shape (shape), (T *)out, (float *)kept, (const T *)q, (const T *)k, (const T *)v, (float)scale,
            (float)(scale * log2_e) };
    if constexpr (sizeof (T) == 2)
      if (fast)
        return ps_hopper_takes (shape->head_size) ? ps_flash_forward_hopper (queue, attention)
                                                  : ps_flash_forward (queue, attention);
    launch_simple_forward (queue, attention);
  });
}

extern "C" size_t ps_cuda_attention_kept_bytes (const PsAttention *shape)
{
  return sizeof (float) * (size_t)shape->batch * (size_t)shape->heads * (size_t)shape->sequence;
}

template <typename T> static void launch_delta (PsQueue *queue, const PsAttentionBackward<T> &attention)
{
  constexpr int width = 16 / sizeof (T);
  const PsAttentionShape &shape = attention.shape;
  const bool wide
      = ps_is_wide (queue->element, { shape.out_stride, shape.head_size }, { attention.out, attention.dout });
  const int lanes = wide && shape.head_size <= 8 * width ? 8 : wide && shape.head_size <= 16 * width ? 16 : 32;
  const dim3 grid (ps_blocks ((size_t)shape.sequence, (size_t)(block_threads / lanes)), (unsigned)shape.heads,
                   (unsigned)shape.batch);

  ps_launch (queue, "gradient of attention",
             lanes == 8    ? fill_delta<T, width, 8>
             : lanes == 16 ? fill_delta<T, width, 16>
             : wide        ? fill_delta<T, width, 32>
                           : fill_delta<T, 1, 32>,
             grid, block_threads, 0, attention);
}

extern "C" void ps_cuda_attention_backward (PsQueue *queue, const PsAttention *shape, void *dq, void *dk, void *dv,
                                            const void *dout, const void *out, const void *kept, const void *q,
                                            const void *k, const void *v)
{
  const double scale = 1 / sqrt ((double)shape->head_size);
  const bool fast
      = ps_cuda_attention_is_fast (queue->element, shape) && ps_is_on_16_bytes ({ dq, dk, dv, dout, out, q, k, v });

  if (!can_attend (queue, "gradient of attention", shape, fast))
    return;
  ps_by_width (queue->element, {}, {}, [&]<typename T, int width> (PsWidth<T, width>) {
    PsAttentionBackward<T> attention = {
      ps_attention_shape (shape), (T *)dq,      (T *)dk,      (T *)dv,      (const T *)dout,           (const T *)out,
      (const float *)kept,        (const T *)q, (const T *)k, (const T *)v, (float *)queue->workspace, (float)scale,
      (float)(scale * log2_e)
    };
    launch_delta (queue, attention);
    if constexpr (sizeof (T) == 2)
      if (fast)
        return ps_hopper_takes (shape->head_size) ? ps_flash_backward_hopper (queue, attention)
                                                  : ps_flash_backward (queue, attention);
    launch_simple_backward (queue, attention);
  });
}

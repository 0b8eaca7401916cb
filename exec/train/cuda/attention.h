/* attention.h - shared by the files of the attention */
#pragma once

#include <cuda_bf16.h>
#include <math.h>

#include "cuda-kernels.h"

/* What kernels read of a PsAttention. */
struct PsAttentionShape {
  int batch, sequence, heads, kv_heads, head_size, qkv_stride, out_stride, kv_stride, past;
};

static inline PsAttentionShape ps_attention_shape (const PsAttention *of)
{
  return { of->batch,      of->sequence,   of->heads,     of->kv_heads, of->head_size,
           of->qkv_stride, of->out_stride, of->kv_stride, of->past };
}

template <typename T> struct PsAttentionForward {
  PsAttentionShape shape;
  T *out;
  float *lse;
  const T *q, *k, *v;
  float scale;      /* 1 / sqrt (head_size) */
  float scale_of_2; /* scale * log2 e, for powers of two */
};

template <typename T> struct PsAttentionBackward {
  PsAttentionShape shape;
  T *dq, *dk, *dv;
  const T *dout, *out;
  const float *lse;
  const T *q, *k, *v;
  float *delta; /* [batch][heads][sequence], rows of dout . out */
  float scale, scale_of_2;
};

/* Returns the keys of one sequence. */
static __host__ __device__ inline int ps_keys (const PsAttentionShape &shape)
{
  return shape.past + shape.sequence;
}

/* Offsets of a head of a token: ps_query_at in queries and their gradients, ps_key_at in keys, values and their
 * gradients, ps_out_at in outputs and their gradients, ps_row_at in lse and delta. The place of a key counts from the
 * first key, others from the first query. */
static __host__ __device__ inline size_t ps_query_at (const PsAttentionShape &shape, int row, int place, int head)
{
  return (size_t)(unsigned)(row * shape.sequence + place) * (unsigned)shape.qkv_stride
         + (unsigned)(head * shape.head_size);
}

static __host__ __device__ inline size_t ps_key_at (const PsAttentionShape &shape, int row, int place, int head)
{
  return (size_t)(unsigned)(row * ps_keys (shape) + place) * (unsigned)shape.kv_stride
         + (unsigned)(head * shape.head_size);
}

static __host__ __device__ inline size_t ps_out_at (const PsAttentionShape &shape, int row, int place, int head)
{
  return (size_t)(unsigned)(row * shape.sequence + place) * (unsigned)shape.out_stride
         + (unsigned)(head * shape.head_size);
}

static __host__ __device__ inline size_t ps_row_at (const PsAttentionShape &shape, int row, int place, int head)
{
  return (size_t)(unsigned)(row * shape.heads + head) * (unsigned)shape.sequence + (unsigned)place;
}

template <int D> struct PsHeadSize {
};

/* Calls work with the PsHeadSize of a head size that tensor cores take. FALSE for others. */
template <typename Work> static inline bool ps_by_head_size (int size, Work work)
{
  if (size == 32)
    work (PsHeadSize<32> ());
  else if (size == 64)
    work (PsHeadSize<64> ());
  else if (size == 96)
    work (PsHeadSize<96> ());
  else if (size == 128)
    work (PsHeadSize<128> ());
  else
    return false;
  return true;
}

/* The tensor-core paths, for head sizes of ps_cuda_attention_is_fast. delta is filled before the backward. */
void ps_flash_forward (PsQueue *queue, const PsAttentionForward<__nv_bfloat16> &attention);
void ps_flash_backward (PsQueue *queue, const PsAttentionBackward<__nv_bfloat16> &attention);

/* The same by flash-hopper.cu, for head sizes that ps_hopper_takes: TRUE if the current device has Hopper's matrix
 * instructions, the kernels were compiled for it (PS_CUDA_HOPPER), and heads consist of whole panels (64 or 128).
 * PIPESIM_CUDA_HOPPER=0 in the environment makes it FALSE. */
bool ps_hopper_takes (int head_size);
void ps_flash_forward_hopper (PsQueue *queue, const PsAttentionForward<__nv_bfloat16> &attention);
void ps_flash_backward_hopper (PsQueue *queue, const PsAttentionBackward<__nv_bfloat16> &attention);

/* flash-softmax.h - the steps on scores between two products of the tensor-core attention, row by row or column by
 * column. */
#pragma once

#include "flash.h"
#include "pack.h"

/* --- forward --- */

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

/* --- backward --- */

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

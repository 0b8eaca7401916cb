/* kernels-reference.c - the formulas of kernels.h, one loop each. */
#include <math.h>

#include "kernels-reference.h"

void ps_reference_norm (double *y, double *mean, double *scale, const double *x, const double *gain, const double *bias,
                        int rows, int columns)
{
  for (int r = 0; r < rows; r++) {
    const double *from = x + (size_t)r * (size_t)columns;
    double *to = y + (size_t)r * (size_t)columns;
    double average = 0, variance = 0;

    for (int c = 0; c < columns && mean != NULL; c++)
      average += from[c] / columns;
    for (int c = 0; c < columns; c++)
      variance += (from[c] - average) * (from[c] - average) / columns;
    scale[r] = 1 / sqrt (variance + 1e-5);
    if (mean != NULL)
      mean[r] = average;
    for (int c = 0; c < columns; c++)
      to[c] = (from[c] - average) * scale[r] * gain[c] + (bias != NULL ? bias[c] : 0);
  }
}

void ps_reference_norm_input (double *dx, const double *dy, const double *x, const double *mean, const double *scale,
                              const double *gain, int rows, int columns)
{
  for (int r = 0; r < rows; r++) {
    const size_t start = (size_t)r * (size_t)columns;
    const double middle = mean != NULL ? mean[r] : 0;
    double average = 0, slope = 0;

    for (int c = 0; c < columns; c++) {
      const double u = dy[start + c] * gain[c];

      average += mean != NULL ? u / columns : 0;
      slope += u * (x[start + c] - middle) * scale[r] / columns;
    }
    for (int c = 0; c < columns; c++)
      dx[start + c] = scale[r] * (dy[start + c] * gain[c] - average - (x[start + c] - middle) * scale[r] * slope);
  }
}

static void bias_gradient (double *dbias, const double *dy, int rows, int columns)
{
  for (int c = 0; c < columns; c++) {
    dbias[c] = 0;
    for (int r = 0; r < rows; r++)
      dbias[c] += dy[(size_t)r * (size_t)columns + c];
  }
}

void ps_reference_norm_weights (double *dgain, double *dbias, const double *dy, const double *x, const double *mean,
                                const double *scale, int rows, int columns)
{
  for (int c = 0; c < columns; c++) {
    dgain[c] = 0;
    for (int r = 0; r < rows; r++)
      dgain[c] += dy[(size_t)r * (size_t)columns + c]
                  * (x[(size_t)r * (size_t)columns + c] - (mean != NULL ? mean[r] : 0)) * scale[r];
  }
  if (dbias != NULL)
    bias_gradient (dbias, dy, rows, columns);
}

static const double root_2_over_pi = 0.79788456080286535588;

double ps_reference_gelu (double z)
{
  return 0.5 * z * (1 + tanh (root_2_over_pi * (z + 0.044715 * z * z * z)));
}

double ps_reference_gelu_slope (double z)
{
  const double t = tanh (root_2_over_pi * (z + 0.044715 * z * z * z));

  return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * root_2_over_pi * (1 + 3 * 0.044715 * z * z);
}

double ps_reference_swiglu (double gate, double up)
{
  return gate / (1 + exp (-gate)) * up;
}

void ps_reference_swiglu_input (double *dgate, double *dup, double dy, double gate, double up)
{
  const double q = 1 / (1 + exp (-gate));

  *dup = dy * gate * q;
  *dgate = dy * up * (q + gate * q * (1 - q));
}

void ps_reference_rotary (double *x, int place, int head_size, double base, int backward)
{
  for (int i = 0; i < head_size / 2; i++) {
    const double angle = (backward ? -place : place) * pow (base, -2.0 * i / head_size);
    const double low = x[i], high = x[i + head_size / 2];

    x[i] = low * cos (angle) - high * sin (angle);
    x[i + head_size / 2] = high * cos (angle) + low * sin (angle);
  }
}

static uint32_t word_at (const uint32_t *words, int token, int sequence)
{
  return words[token / sequence * (sequence + 1) + token % sequence];
}

void ps_reference_embedding (double *x, const double *token, const double *position, const uint32_t *words, int batch,
                             int sequence, int hidden)
{
  for (int t = 0; t < batch * sequence; t++)
    for (int i = 0; i < hidden; i++)
      x[(size_t)t * (size_t)hidden + i]
          = token[(size_t)word_at (words, t, sequence) * (size_t)hidden + i]
            + (position != NULL ? position[(size_t)(t % sequence) * (size_t)hidden + i] : 0);
}

void ps_reference_embedding_weights (double *dtoken, double *dposition, const double *dx, const uint32_t *words,
                                     int batch, int sequence, int hidden)
{
  for (int t = 0; t < batch * sequence; t++)
    for (int i = 0; i < hidden; i++) {
      dtoken[(size_t)word_at (words, t, sequence) * (size_t)hidden + i] += dx[(size_t)t * (size_t)hidden + i];
      if (dposition != NULL)
        dposition[(size_t)(t % sequence) * (size_t)hidden + i] += dx[(size_t)t * (size_t)hidden + i];
    }
}

double ps_reference_cross_entropy (double *logits, uint32_t target, int vocabulary, double factor)
{
  const double wanted = logits[target];
  double top = -INFINITY, sum = 0;

  for (int c = 0; c < vocabulary; c++)
    top = fmax (top, logits[c]);
  for (int c = 0; c < vocabulary; c++)
    sum += exp (logits[c] - top);
  for (int c = 0; c < vocabulary; c++)
    logits[c] = factor * (exp (logits[c] - top) / sum - (c == (int)target));
  return top + log (sum) - wanted;
}

/* --- attention --- */

static size_t token_at (const PsReferenceAttention *shape, int row, int place, int stride, int head)
{
  return ((size_t)row * (size_t)shape->sequence + (size_t)place) * (size_t)stride
         + (size_t)head * (size_t)shape->head_size;
}

static size_t key_at (const PsReferenceAttention *shape, int row, int place, int head)
{
  return ((size_t)row * (size_t)(shape->past + shape->sequence) + (size_t)place) * (size_t)shape->kv_stride
         + (size_t)head * (size_t)shape->head_size;
}

static size_t row_at (const PsReferenceAttention *shape, int row, int place, int head)
{
  return ((size_t)row * (size_t)shape->heads + (size_t)head) * (size_t)shape->sequence + (size_t)place;
}

static double dot (const double *a, const double *b, int n)
{
  double sum = 0;

  for (int i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

static void attend (const PsReferenceAttention *shape, double *out, double *lse, const double *query,
                    const double *keys, const double *values, int place)
{
  const double scale = 1 / sqrt (shape->head_size);
  double sum = 0;

  for (int key = 0; key <= shape->past + place; key++)
    sum += exp (scale * dot (query, keys + (size_t)key * (size_t)shape->kv_stride, shape->head_size));
  *lse = log (sum);
  for (int i = 0; i < shape->head_size; i++)
    out[i] = 0;
  for (int key = 0; key <= shape->past + place; key++) {
    const double score = scale * dot (query, keys + (size_t)key * (size_t)shape->kv_stride, shape->head_size);

    for (int i = 0; i < shape->head_size; i++)
      out[i] += exp (score - *lse) * values[(size_t)key * (size_t)shape->kv_stride + i];
  }
}

void ps_reference_attention (const PsReferenceAttention *shape, double *out, double *lse, const double *q,
                             const double *k, const double *v)
{
  const int group = shape->heads / shape->kv_heads;

  for (int row = 0; row < shape->batch; row++)
    for (int head = 0; head < shape->heads; head++)
      for (int place = 0; place < shape->sequence; place++) {
        const size_t first = key_at (shape, row, 0, head / group);

        attend (shape, out + token_at (shape, row, place, shape->out_stride, head),
                lse + row_at (shape, row, place, head), q + token_at (shape, row, place, shape->qkv_stride, head),
                k + first, v + first, place);
      }
}

void ps_reference_attention_backward (const PsReferenceAttention *shape, double *dq, double *dk, double *dv,
                                      const double *dout, const double *out, const double *lse, const double *q,
                                      const double *k, const double *v, int magnitudes)
{
  const int group = shape->heads / shape->kv_heads, size = shape->head_size;
  const double scale = 1 / sqrt (size);

  for (int row = 0; row < shape->batch; row++)
    for (int head = 0; head < shape->heads; head++)
      for (int place = 0; place < shape->sequence; place++)
        for (int key = 0; key <= shape->past + place; key++) {
          const size_t here = token_at (shape, row, place, shape->qkv_stride, head);
          const size_t there = key_at (shape, row, key, head / group);
          const size_t at = token_at (shape, row, place, shape->out_stride, head);
          const double p = exp (scale * dot (q + here, k + there, size) - lse[row_at (shape, row, place, head)]);
          const double delta = dot (dout + at, out + at, size);
          const double ds = scale * p * (dot (dout + at, v + there, size) - delta);

          for (int i = 0; i < size; i++) {
            const double to_v = p * dout[at + i], to_q = ds * k[there + i], to_k = ds * q[here + i];

            dv[there + i] += magnitudes ? fabs (to_v) : to_v;
            dq[here + i] += magnitudes ? fabs (to_q) : to_q;
            dk[there + i] += magnitudes ? fabs (to_k) : to_k;
          }
        }
}

void ps_reference_adam (double *master, double *gradient, double *momentum, double *variance, size_t n, double factor,
                        uint64_t step)
{
  for (size_t i = 0; i < n; i++) {
    const double slope = gradient[i] * factor;

    momentum[i] = 0.9 * momentum[i] + 0.1 * slope;
    variance[i] = 0.999 * variance[i] + 0.001 * slope * slope;
    const double mean = momentum[i] / (1 - pow (0.9, (double)step));
    const double square = variance[i] / (1 - pow (0.999, (double)step));
    master[i] -= 1e-3 * mean / (sqrt (square) + 1e-8);
    gradient[i] = 0;
  }
}

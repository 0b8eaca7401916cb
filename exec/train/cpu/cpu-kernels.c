/* cpu-kernels.c - loops and matrix products of the cpu device.
 *
 * Reductions keep LANES partial sums, because the compiler may not reorder a float sum by itself. Each function is
 * compiled for x86-64-v4, x86-64-v3 and plain x86-64. The program picks one when it is loaded, so one machine always
 * uses the same code.
 */
#include <math.h>
#include <string.h>

#include "cpu-blas.h"
#include "cpu-kernels.h"

/* Two builds have no clones. clang's clones of functions that other files call do not link (seen with 14).
 * ThreadSanitizer can't be called as early as clones are chosen. There the build flags alone decide. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && __GNUC__ >= 12                             \
    && !defined(__SANITIZE_THREAD__)
#define KERNEL __attribute__ ((target_clones ("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KERNEL
#endif
#define INLINE static inline __attribute__ ((always_inline))

#define LANES 16
#define NORM_EPSILON 1e-5f

void ps_cpu_linear (float *y, const float *x, const float *w, int rows, int in, int out)
{
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, out, in, 1, x, in, w, out, 0, y, out);
}

void ps_cpu_linear_add (float *y, const float *x, const float *w, int rows, int in, int out)
{
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, out, in, 1, x, in, w, out, 1, y, out);
}

void ps_cpu_linear_input (float *dx, const float *dy, const float *w, int rows, int in, int out)
{
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, rows, in, out, 1, dy, out, w, out, 0, dx, in);
}

void ps_cpu_linear_weights (float *dw, const float *x, const float *dy, int rows, int in, int out)
{
  ps_cpu_blas.sgemm (CblasRowMajor, CblasTrans, CblasNoTrans, in, out, rows, 1, x, in, dy, out, 1, dw, out);
}

/* e^x to 2 units in the last place: x = k log 2 + r, a polynomial for e^r (Cephes' expf), k added to the exponent bits.
 */
INLINE float exponential (float x)
{
  const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves the rounded number in the low bits */

  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504f + round;
  const float k = shifted - round;
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * (r * r) + r + 1.0f;
  guint32 exponent, bits;
  memcpy (&exponent, &shifted, sizeof exponent);
  memcpy (&bits, &y, sizeof bits);
  bits += exponent << 23;
  float result;
  memcpy (&result, &bits, sizeof result);
  return result;
}

INLINE float sum_lanes (const float *lane)
{
  float half[LANES / 2];

  for (int i = 0; i < LANES / 2; i++)
    half[i] = lane[i] + lane[i + LANES / 2];
  return ((half[0] + half[4]) + (half[1] + half[5])) + ((half[2] + half[6]) + (half[3] + half[7]));
}

INLINE float sum (const float *x, int n)
{
  float lane[LANES] = { 0 };
  int i = 0;

  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      lane[k] += x[i + k];
  for (int k = 0; i + k < n; k++)
    lane[k] += x[i + k];
  return sum_lanes (lane);
}

INLINE float dot (const float *x, const float *y, int n)
{
  float lane[LANES] = { 0 };
  int i = 0;

  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      lane[k] += x[i + k] * y[i + k];
  for (int k = 0; i + k < n; k++)
    lane[k] += x[i + k] * y[i + k];
  return sum_lanes (lane);
}

INLINE float maximum (const float *x, int n)
{
  float lane[LANES];
  int i = 0;

  for (int k = 0; k < LANES; k++)
    lane[k] = x[0];
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
  for (int k = 0; i + k < n; k++)
    lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
  for (int k = 1; k < LANES; k++)
    lane[0] = lane[k] > lane[0] ? lane[k] : lane[0];
  return lane[0];
}

KERNEL void ps_cpu_bias_add (float *y, const float *bias, int rows, int columns)
{
  for (int row = 0; row < rows; row++) {
    float *restrict to = y + (gsize)row * columns;

    for (int i = 0; i < columns; i++)
      to[i] += bias[i];
  }
}

KERNEL void ps_cpu_bias_gradient (float *dbias, const float *dy, int rows, int columns)
{
  float *restrict to = dbias;

  for (int row = 0; row < rows; row++)
    for (int i = 0; i < columns; i++)
      to[i] += dy[(gsize)row * columns + i];
}

KERNEL void ps_cpu_norm (float *normed, float *standard, float *scale, const float *x, const float *gain,
                         const float *bias, int rows, int columns)
{
  for (int row = 0; row < rows; row++) {
    const float *from = x + (gsize)row * columns;
    float *restrict kept = standard + (gsize)row * columns;
    float *restrict to = normed + (gsize)row * columns;
    const float mean = sum (from, columns) / (float)columns;

    for (int i = 0; i < columns; i++)
      kept[i] = from[i] - mean;
    const float factor = 1 / sqrtf (dot (kept, kept, columns) / (float)columns + NORM_EPSILON);
    for (int i = 0; i < columns; i++) {
      const float value = kept[i] * factor;

      kept[i] = value;
      to[i] = value * gain[i] + bias[i];
    }
    scale[row] = factor;
  }
}

KERNEL void ps_cpu_norm_again (float *normed, const float *standard, const float *gain, const float *bias, int rows,
                               int columns)
{
  for (int row = 0; row < rows; row++) {
    const float *kept = standard + (gsize)row * columns;
    float *restrict to = normed + (gsize)row * columns;

    for (int i = 0; i < columns; i++)
      to[i] = kept[i] * gain[i] + bias[i];
  }
}

/* With u = dnormed * gain: dx = scale * (u - mean (u) - standard * mean (u * standard)). */
KERNEL void ps_cpu_norm_input (float *dx, const float *residual, const float *dnormed, const float *standard,
                               const float *scale, const float *gain, int rows, int columns)
{
  for (int row = 0; row < rows; row++) {
    const gsize start = (gsize)row * columns;
    const float *dn = dnormed + start, *kept = standard + start;
    float *restrict to = dx + start;

    for (int i = 0; i < columns; i++)
      to[i] = dn[i] * gain[i];
    const float mean = sum (to, columns) / (float)columns;
    const float slope = dot (to, kept, columns) / (float)columns;
    for (int i = 0; i < columns; i++)
      to[i] = scale[row] * (to[i] - mean - kept[i] * slope);
    if (residual != NULL)
      for (int i = 0; i < columns; i++)
        to[i] += residual[start + i];
  }
}

KERNEL void ps_cpu_norm_weights (float *dgain, float *dbias, const float *dnormed, const float *standard, int rows,
                                 int columns)
{
  float *restrict gain = dgain, *restrict bias = dbias;

  for (int row = 0; row < rows; row++) {
    const float *dn = dnormed + (gsize)row * columns, *kept = standard + (gsize)row * columns;

    for (int i = 0; i < columns; i++) {
      gain[i] += dn[i] * kept[i];
      bias[i] += dn[i];
    }
  }
}

/* GELU (z) = z / (1 + exp (-2u)) with u = sqrt (2 / pi) * (z + 0.044715 z^3), as 1 + tanh (u) = 2 / (1 + exp (-2u)). */
#define GELU_SLOPE 1.5957691216f /* 2 sqrt (2 / pi) */
#define GELU_CUBE 0.044715f

INLINE float gelu_gate (float z)
{
  return 1 / (1 + exponential (-GELU_SLOPE * (z + GELU_CUBE * z * z * z)));
}

KERNEL void ps_cpu_gelu (float *g, float *z, const float *bias, int rows, int columns)
{
  for (int row = 0; row < rows; row++) {
    float *restrict from = z + (gsize)row * columns;
    float *restrict to = g + (gsize)row * columns;

    for (int i = 0; i < columns; i++) {
      const float value = from[i] + bias[i];

      from[i] = value;
      to[i] = value * gelu_gate (value);
    }
  }
}

KERNEL void ps_cpu_gelu_input (float *z, const float *dg, gsize n)
{
  float *restrict to = z;

  for (gsize i = 0; i < n; i++) {
    const float value = to[i], gate = gelu_gate (value);
    const float slope = GELU_SLOPE * (1 + 3 * GELU_CUBE * value * value);

    to[i] = dg[i] * (gate + value * gate * (1 - gate) * slope);
  }
}

/* Softmax of the first n numbers of a row of `end`; zeros follow them. It works on whole LANES, which is faster than
 * the odd rest. Returns the sum of exponentials that it divided by; *top is the maximum. */
INLINE float softmax (float *restrict x, int n, int end, float *top)
{
  const int whole = MIN ((n + LANES - 1) / LANES * LANES, end);

  for (int i = n; i < whole; i++)
    x[i] = x[0];
  *top = maximum (x, whole);
  for (int i = 0; i < whole; i++)
    x[i] = exponential (x[i] - *top);
  for (int i = n; i < end; i++)
    x[i] = 0;
  const float total = sum (x, whole);
  const float factor = 1 / total;
  for (int i = 0; i < whole; i++)
    x[i] *= factor;
  return total;
}

KERNEL void ps_cpu_causal_softmax (float *scores, int n, int width)
{
  for (int row = 0; row < n; row++) {
    float top;

    softmax (scores + (gsize)row * width, width - n + row + 1, width, &top);
  }
}

KERNEL void ps_cpu_causal_softmax_input (float *dp, const float *p, int p_stride, const float *dy, const float *y,
                                         int n, int size, int stride, gboolean causal)
{
  for (int row = 0; row < n; row++) {
    float *restrict to = dp + (gsize)row * n;
    const float *probability = p + (gsize)row * p_stride;
    const float mean = dot (dy + (gsize)row * stride, y + (gsize)row * stride, size);
    const int end = causal ? row + 1 : n;

    for (int i = 0; i < end; i++)
      to[i] = probability[i] * (to[i] - mean);
    memset (to + end, 0, sizeof (float) * (gsize)(n - end));
  }
}

KERNEL double ps_cpu_cross_entropy (float *logits, int n, guint32 target)
{
  const float wanted = logits[target];
  float top;
  const float total = softmax (logits, n, n, &top);

  return (double)top - (double)wanted + log ((double)total);
}

KERNEL void ps_cpu_add (float *y, const float *x, gsize n)
{
  float *restrict to = y;

  for (gsize i = 0; i < n; i++)
    to[i] += x[i];
}

KERNEL void ps_cpu_scale (float *y, float factor, gsize n)
{
  for (gsize i = 0; i < n; i++)
    y[i] *= factor;
}

KERNEL void ps_cpu_adam (float *weight, float *gradient, float *momentum, float *variance, gsize n, float factor,
                         double learning_rate, guint64 step)
{
  const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  const float rate = (float)(learning_rate / (1 - pow (0.9, (double)step)));
  const float correction = (float)(1 / sqrt (1 - pow (0.999, (double)step)));
  float *restrict w = weight, *restrict g = gradient, *restrict m = momentum, *restrict v = variance;

  for (gsize i = 0; i < n; i++) {
    const float slope = g[i] * factor;

    m[i] = beta1 * m[i] + (1 - beta1) * slope;
    v[i] = beta2 * v[i] + (1 - beta2) * slope * slope;
    w[i] -= rate * m[i] / (sqrtf (v[i]) * correction + epsilon);
    g[i] = 0;
  }
}

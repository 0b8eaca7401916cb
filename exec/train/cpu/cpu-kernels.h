/* cpu-kernels.h - the arithmetic of a transformer on arrays of floats: OpenBLAS makes the matrix products, loops that
 * the compiler turns into vector instructions the rest.
 *
 * Arrays are dense and row-major, a row per token unless said otherwise. Every function gives the same bits for the
 * same input, in every thread: sums have a fixed order.
 */
#pragma once

#include <glib.h>

/* Matrices of a linear layer y = x w: x is rows x in, w is in x out, y is rows x out. */
void ps_cpu_linear (float *y, const float *x, const float *w, int rows, int in, int out);           /* y = x w */
void ps_cpu_linear_add (float *y, const float *x, const float *w, int rows, int in, int out);       /* y += x w */
void ps_cpu_linear_input (float *dx, const float *dy, const float *w, int rows, int in, int out);   /* dx = dy w^T */
void ps_cpu_linear_weights (float *dw, const float *x, const float *dy, int rows, int in, int out); /* dw += x^T dy */

/* Add bias to every row of y, and every row of dy to dbias. */
void ps_cpu_bias_add (float *y, const float *bias, int rows, int columns);
void ps_cpu_bias_gradient (float *dbias, const float *dy, int rows, int columns);

/* Layer norm with epsilon 1e-5: normed = standard * gain + bias. Per row, standard = (x - mean) * scale and scale is 1
 * / the standard deviation. The backward needs standard and scale. */
void ps_cpu_norm (float *normed, float *standard, float *scale, const float *x, const float *gain, const float *bias,
                  int rows, int columns);

/* Makes normed from the kept standard, with the bits that ps_cpu_norm gave. */
void ps_cpu_norm_again (float *normed, const float *standard, const float *gain, const float *bias, int rows,
                        int columns);

/* dx = residual + the gradient through the norm; residual NULL counts as zero. */
void ps_cpu_norm_input (float *dx, const float *residual, const float *dnormed, const float *standard,
                        const float *scale, const float *gain, int rows, int columns);
void ps_cpu_norm_weights (float *dgain, float *dbias, const float *dnormed, const float *standard, int rows,
                          int columns);

/* GELU by the tanh formula of Hendrycks and Gimpel (arXiv 1606.08415), section 2. z += bias first; g = GELU (z). */
void ps_cpu_gelu (float *g, float *z, const float *bias, int rows, int columns);

/* Overwrites z with dz = dg * GELU' (z). */
void ps_cpu_gelu_input (float *z, const float *dg, gsize n);

/* Softmax of row i of n over its first width - n + i + 1 columns, with zeros after them; in place. */
void ps_cpu_causal_softmax (float *scores, int n, int width);

/* Overwrites dp, n x n, with p * (dp - dot) per row. p has rows of p_stride numbers. dot is the sum of p * dp over all
 * columns of the row, which equals dy . y of the attention output. dy and y are n x size with the given row stride.
 * causal: zeros come after the diagonal. */
void ps_cpu_causal_softmax_input (float *dp, const float *p, int p_stride, const float *dy, const float *y, int n,
                                  int size, int stride, gboolean causal);

/* Overwrites the row of n logits with its softmax. Returns -log of the probability of target. */
double ps_cpu_cross_entropy (float *logits, int n, guint32 target);

/* y += x; y = y * factor, in place. */
void ps_cpu_add (float *y, const float *x, gsize n);
void ps_cpu_scale (float *y, float factor, gsize n);

/* One step of Adam (arXiv 1412.6980, algorithm 1) with betas 0.9 and 0.999, epsilon 1e-8, on gradient * factor; step
 * counts from 1. Clears the gradient. */
void ps_cpu_adam (float *weight, float *gradient, float *momentum, float *variance, gsize n, float factor,
                  double learning_rate, guint64 step);

/* kernels-reference.h - the formulas of kernels.h in plain C and double precision, to read beside the kernels and to
 * test them. Layouts and names are the same. Nothing is rounded, and gradients are overwritten, not added to. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Layer norm; an RMS norm if bias and mean are NULL. */
void ps_reference_norm (double *y, double *mean, double *scale, const double *x, const double *gain, const double *bias,
                        int rows, int columns);
void ps_reference_norm_input (double *dx, const double *dy, const double *x, const double *mean, const double *scale,
                              const double *gain, int rows, int columns);
void ps_reference_norm_weights (double *dgain, double *dbias, const double *dy, const double *x, const double *mean,
                                const double *scale, int rows, int columns);

double ps_reference_gelu (double z);
double ps_reference_gelu_slope (double z);
double ps_reference_swiglu (double gate, double up);
void ps_reference_swiglu_input (double *dgate, double *dup, double dy, double gate, double up);

/* Turns one head of head_size elements, at a place in the sequence. */
void ps_reference_rotary (double *x, int place, int head_size, double base, int backward);

void ps_reference_embedding (double *x, const double *token, const double *position, const uint32_t *words, int batch,
                             int sequence, int hidden);
/* dtoken and dposition must be zero before the call. */
void ps_reference_embedding_weights (double *dtoken, double *dposition, const double *dx, const uint32_t *words,
                                     int batch, int sequence, int hidden);

/* One row; returns the loss. */
double ps_reference_cross_entropy (double *logits, uint32_t target, int vocabulary, double factor);

typedef struct {
  int batch, sequence, heads, kv_heads, head_size, qkv_stride, out_stride, kv_stride, past;
} PsReferenceAttention;

void ps_reference_attention (const PsReferenceAttention *shape, double *out, double *lse, const double *q,
                             const double *k, const double *v);
/* dq, dk, dv must be zero before the call. magnitudes TRUE (1): sums the absolute values of all terms instead, which
 * bounds the effect of rounding a term. */
void ps_reference_attention_backward (const PsReferenceAttention *shape, double *dq, double *dk, double *dv,
                                      const double *dout, const double *out, const double *lse, const double *q,
                                      const double *k, const double *v, int magnitudes);

void ps_reference_adam (double *master, double *gradient, double *momentum, double *variance, size_t n, double factor,
                        uint64_t step);

#ifdef __cplusplus
}
#endif

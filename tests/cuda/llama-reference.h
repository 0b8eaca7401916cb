/* llama-reference.h - the loss of a small Llama in double precision, written token by token from the formulas, to check
 * gradients against. Parameters lie in one array in model order, as PsDeviceClass.gradients gives them: token embedding
 * V x h; per layer norm gain h, queries, keys and values h x (h + 2c) with c the width of the keys, output h x h, norm
 * gain h, gate and up h x 2f, down f x h; norm gain h, head h x V. */
#pragma once

#include "train/data.h"
#include "gpt-reference.h"

/* x gain / sqrt (mean of x^2 + 1e-5): arXiv 1910.07467, equation 4 */
static inline void llama_norm (double *y, const double *x, const double *gain, guint n)
{
  double square = 0;

  for (guint i = 0; i < n; i++)
    square += x[i] * x[i] / n;
  for (guint i = 0; i < n; i++)
    y[i] = x[i] / sqrt (square + 1e-5) * gain[i];
}

/* Turns pairs (i, i + size / 2) of one head by place * 10000^(-2i / size): arXiv 2104.09864, equation 34 */
static inline void llama_turn (double *head, guint size, guint place)
{
  for (guint i = 0; i < size / 2; i++) {
    const double angle = place * pow (10000, -2.0 * i / size);
    const double a = head[i], b = head[i + size / 2];

    head[i] = a * cos (angle) - b * sin (angle);
    head[i + size / 2] = a * sin (angle) + b * cos (angle);
  }
}

/* One head of the query at place `at`: key and value are those of its group, `width` apart from token to token. */
static inline void llama_attend (double *context, const double *query, const double *key, const double *value, guint at,
                                 guint width, guint size)
{
  double total = 0;

  for (guint i = 0; i < size; i++)
    context[i] = 0;
  for (guint other = 0; other <= at; other++) {
    double score = 0, weight;

    for (guint i = 0; i < size; i++)
      score += query[i] * key[other * width + i];
    total += weight = exp (score / sqrt (size));
    for (guint i = 0; i < size; i++)
      context[i] += weight * value[other * width + i];
  }
  for (guint i = 0; i < size; i++)
    context[i] /= total;
}

static inline void llama_attention (const PsModel *model, const double *p, double *x)
{
  const guint h = model->hidden, size = h / model->heads, c = model->kv_heads * size, width = h + 2 * c;
  const double *gain = p, *wqkv = gain + h, *wo = wqkv + h * width;
  g_autofree double *qkv = g_new (double, model->sequence *width);
  g_autofree double *context = g_new (double, 2 * h);

  for (guint t = 0; t < model->sequence; t++) {
    llama_norm (context, x + t * h, gain, h);
    reference_linear (qkv + t * width, context, wqkv, NULL, h, width);
    for (guint head = 0; head < model->heads + model->kv_heads; head++)
      llama_turn (qkv + t * width + head * size, size, t);
  }
  for (guint t = 0; t < model->sequence; t++) {
    for (guint head = 0; head < model->heads; head++) {
      const double *key = qkv + h + head / (model->heads / model->kv_heads) * size;

      llama_attend (context + head * size, qkv + t * width + head * size, key, key + c, t, width, size);
    }
    reference_linear (context + h, context, wo, NULL, h, h);
    for (guint i = 0; i < h; i++)
      x[t * h + i] += context[h + i];
  }
}

static inline void llama_mlp (const PsModel *model, const double *p, double *x)
{
  const guint h = model->hidden, f = model->feed_forward;
  const double *gain = p, *w1 = gain + h, *w2 = w1 + h * 2 * f;
  g_autofree double *wide = g_new (double, 2 * f);
  g_autofree double *narrow = g_new (double, h);

  for (guint t = 0; t < model->sequence; t++) {
    llama_norm (narrow, x + t * h, gain, h);
    reference_linear (wide, narrow, w1, NULL, h, 2 * f);
    for (guint i = 0; i < f; i++)
      wide[i] *= wide[f + i] / (1 + exp (-wide[i]));
    reference_linear (narrow, wide, w2, NULL, f, h);
    for (guint i = 0; i < h; i++)
      x[t * h + i] += narrow[i];
  }
}

/* Runs one layer on x (sequence x h) in place; returns the parameters after the layer's. */
static inline const double *llama_layer (const PsModel *model, const double *p, double *x)
{
  const guint h = model->hidden, c = model->kv_heads * (h / model->heads);
  const double *second = p + h + h * (h + 2 * c) + h * h;

  llama_attention (model, p, x);
  llama_mlp (model, second, x);
  return second + h + 3 * h * model->feed_forward;
}

/* Sum of the cross-entropies of one sequence; words holds sequence + 1. */
static inline double llama_sequence_loss (const PsModel *model, const double *p, const guint32 *words)
{
  const guint h = model->hidden, vocabulary = model->vocabulary;
  g_autofree double *x = g_new (double, model->sequence *h);
  g_autofree double *normed = g_new (double, h);
  g_autofree double *logits = g_new (double, vocabulary);
  const double *layer = p + vocabulary * h;
  double loss = 0;

  for (guint t = 0; t < model->sequence; t++)
    for (guint i = 0; i < h; i++)
      x[t * h + i] = p[words[t] * h + i];
  for (guint i = 0; i < model->layers; i++)
    layer = llama_layer (model, layer, x);
  for (guint t = 0; t < model->sequence; t++) {
    double total = 0;

    llama_norm (normed, x + t * h, layer, h);
    reference_linear (logits, normed, layer + h, NULL, h, vocabulary);
    for (guint i = 0; i < vocabulary; i++)
      total += exp (logits[i]);
    loss += log (total) - logits[words[t + 1]];
  }
  return loss;
}

/* Mean over the tokens of a microbatch; words holds microbatch_size x (sequence + 1). */
static inline double llama_loss (const PsModel *model, const double *p, const guint32 *words)
{
  double loss = 0;

  for (guint row = 0; row < model->microbatch_size; row++)
    loss += llama_sequence_loss (model, p, words + row * (model->sequence + 1));
  return loss / (model->microbatch_size * model->sequence);
}

static inline void llama_append (GArray *all, gsize n, float deviation, guint64 seed, guint32 stream, guint32 index)
{
  g_autofree float *values = g_new (float, n);

  ps_data_weights (values, n, deviation, seed, stream, index);
  for (gsize i = 0; i < n; i++) {
    const double value = deviation == 0 ? 1 : values[i];

    g_array_append_val (all, value);
  }
}

/* What the weights are before the first step: gains 1, matrices random with deviation 0.02, those before the
 * residual stream divided by sqrt (2 layers). Free with g_array_unref. */
static inline GArray *llama_weights (const PsModel *model, guint64 seed)
{
  const gsize h = model->hidden, f = model->feed_forward, c = model->kv_heads * (h / model->heads);
  const float deviation = 0.02f, last = deviation / sqrtf (2.0f * (float)model->layers);
  GArray *all = g_array_new (FALSE, FALSE, sizeof (double));

  llama_append (all, model->vocabulary * h, deviation, seed, PS_DATA_STREAM_EMBEDDING, 0);
  for (guint layer = 0; layer < model->layers; layer++) {
    llama_append (all, h, 0, seed, layer, 0);
    llama_append (all, h * (h + 2 * c), deviation, seed, layer, 0);
    llama_append (all, h * h, last, seed, layer, 1);
    llama_append (all, h, 0, seed, layer, 0);
    llama_append (all, 2 * h * f, deviation, seed, layer, 2);
    llama_append (all, f * h, last, seed, layer, 3);
  }
  llama_append (all, h, 0, seed, 0, 0);
  llama_append (all, h * model->vocabulary, deviation, seed, PS_DATA_STREAM_HEAD, 0);
  return all;
}

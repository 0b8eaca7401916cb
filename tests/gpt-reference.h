/* gpt-reference.h - the loss of a small GPT in double precision, written token by token from the formulas, to check the
 * cpu device against. Parameters lie in one array in model order, as PsDeviceClass.gradients gives them. */
#pragma once

#include <math.h>
#include <pipesim/model.h>

/* One named group of parameters in that array. */
typedef struct {
  const char *name;
  guint layer;
  gsize first, n;
} ParameterGroup;

/* Every group of the model in order. Free with g_array_unref. */
static inline GArray *reference_groups (const PsModel *model)
{
  const gsize h = model->hidden, f = model->feed_forward;
  const ParameterGroup of_layer[] = {
    { "norm 1 gain", 0, 0, h },
    { "norm 1 bias", 0, 0, h },
    { "attention qkv", 0, 0, 3 * h * h },
    { "attention qkv bias", 0, 0, 3 * h },
    { "attention output", 0, 0, h * h },
    { "attention output bias", 0, 0, h },
    { "norm 2 gain", 0, 0, h },
    { "norm 2 bias", 0, 0, h },
    { "mlp up", 0, 0, h * f },
    { "mlp up bias", 0, 0, f },
    { "mlp down", 0, 0, f * h },
    { "mlp down bias", 0, 0, h },
  };
  const ParameterGroup ends[] = {
    { "token embedding", 0, 0, model->vocabulary * h },
    { "position embedding", 0, 0, model->sequence * h },
    { "final norm gain", 0, 0, h },
    { "final norm bias", 0, 0, h },
    { "head", 0, 0, h * model->vocabulary },
  };
  GArray *groups = g_array_new (FALSE, FALSE, sizeof (ParameterGroup));
  gsize first = 0;

  g_array_append_vals (groups, ends, 2);
  for (guint layer = 0; layer < model->layers; layer++)
    for (guint i = 0; i < G_N_ELEMENTS (of_layer); i++) {
      ParameterGroup group = of_layer[i];

      group.layer = layer;
      g_array_append_val (groups, group);
    }
  g_array_append_vals (groups, ends + 2, 3);
  for (guint i = 0; i < groups->len; i++) {
    g_array_index (groups, ParameterGroup, i).first = first;
    first += g_array_index (groups, ParameterGroup, i).n;
  }
  return groups;
}

/* y = x w + bias; bias NULL: none. */
static inline void reference_linear (double *y, const double *x, const double *w, const double *bias, guint in,
                                     guint out)
{
  for (guint j = 0; j < out; j++) {
    y[j] = bias != NULL ? bias[j] : 0;
    for (guint i = 0; i < in; i++)
      y[j] += x[i] * w[i * out + j];
  }
}

static inline void reference_norm (double *y, const double *x, const double *gain, const double *bias, guint n)
{
  double mean = 0, variance = 0;

  for (guint i = 0; i < n; i++)
    mean += x[i] / n;
  for (guint i = 0; i < n; i++)
    variance += (x[i] - mean) * (x[i] - mean) / n;
  for (guint i = 0; i < n; i++)
    y[i] = (x[i] - mean) / sqrt (variance + 1e-5) * gain[i] + bias[i];
}

static inline double reference_gelu (double z)
{
  return 0.5 * z * (1 + tanh (sqrt (2 / G_PI) * (z + 0.044715 * z * z * z)));
}

/* The context of token `at` in one head: qkv is sequence x 3h. */
static inline void reference_attend (double *context, const double *qkv, guint at, guint h, guint head, guint size)
{
  g_autofree double *weight = g_new (double, at + 1);
  double total = 0;

  for (guint other = 0; other <= at; other++) {
    double score = 0;

    for (guint i = 0; i < size; i++)
      score += qkv[at * 3 * h + head * size + i] * qkv[other * 3 * h + h + head * size + i];
    total += weight[other] = exp (score / sqrt (size));
  }
  for (guint i = 0; i < size; i++) {
    context[head * size + i] = 0;
    for (guint other = 0; other <= at; other++)
      context[head * size + i] += weight[other] / total * qkv[other * 3 * h + 2 * h + head * size + i];
  }
}

/* Runs one layer on x (sequence x h) in place; returns the parameters after the layer's. */
static inline const double *reference_layer (const PsModel *model, const double *p, double *x)
{
  const guint h = model->hidden, f = model->feed_forward, s = model->sequence, size = h / model->heads;
  const double *gain1 = p, *bias1 = gain1 + h, *wqkv = bias1 + h, *bqkv = wqkv + 3 * h * h, *wo = bqkv + 3 * h,
               *bo = wo + h * h, *gain2 = bo + h, *bias2 = gain2 + h, *w1 = bias2 + h, *b1 = w1 + h * f, *w2 = b1 + f,
               *b2 = w2 + f * h;
  g_autofree double *qkv = g_new (double, s * 3 * h);
  g_autofree double *wide = g_new (double, h + f);
  g_autofree double *narrow = g_new (double, 2 * h);

  for (guint t = 0; t < s; t++) {
    reference_norm (narrow, x + t * h, gain1, bias1, h);
    reference_linear (qkv + t * 3 * h, narrow, wqkv, bqkv, h, 3 * h);
  }
  for (guint t = 0; t < s; t++) {
    for (guint head = 0; head < model->heads; head++)
      reference_attend (narrow, qkv, t, h, head, size);
    reference_linear (narrow + h, narrow, wo, bo, h, h);
    for (guint i = 0; i < h; i++)
      x[t * h + i] += narrow[h + i];
    reference_norm (narrow, x + t * h, gain2, bias2, h);
    reference_linear (wide, narrow, w1, b1, h, f);
    for (guint i = 0; i < f; i++)
      wide[i] = reference_gelu (wide[i]);
    reference_linear (narrow, wide, w2, b2, f, h);
    for (guint i = 0; i < h; i++)
      x[t * h + i] += narrow[i];
  }
  return b2 + h;
}

/* Sum of the cross-entropies of one sequence; words holds sequence + 1. */
static inline double reference_sequence_loss (const PsModel *model, const double *p, const guint32 *words)
{
  const guint h = model->hidden, s = model->sequence, vocabulary = model->vocabulary;
  g_autofree double *x = g_new (double, s *h);
  g_autofree double *normed = g_new (double, h);
  g_autofree double *logits = g_new (double, vocabulary);
  const double *layer = p + (vocabulary + s) * h;
  double loss = 0;

  for (guint t = 0; t < s; t++)
    for (guint i = 0; i < h; i++)
      x[t * h + i] = p[words[t] * h + i] + p[(vocabulary + t) * h + i];
  for (guint i = 0; i < model->layers; i++)
    layer = reference_layer (model, layer, x);
  for (guint t = 0; t < s; t++) {
    double total = 0;

    reference_norm (normed, x + t * h, layer, layer + h, h);
    if (!model->tied)
      reference_linear (logits, normed, layer + 2 * h, NULL, h, vocabulary);
    for (guint i = 0; model->tied && i < vocabulary; i++)
      reference_linear (&logits[i], normed, layer + (2 + i) * h, NULL, h, 1);
    for (guint i = 0; i < vocabulary; i++)
      total += exp (logits[i]);
    loss += log (total) - logits[words[t + 1]];
  }
  return loss;
}

/* Mean over the tokens of a microbatch; words holds microbatch_size x (sequence + 1). */
static inline double reference_loss (const PsModel *model, const double *p, const guint32 *words)
{
  double loss = 0;

  for (guint row = 0; row < model->microbatch_size; row++)
    loss += reference_sequence_loss (model, p, words + row * (model->sequence + 1));
  return loss / (model->microbatch_size * model->sequence);
}

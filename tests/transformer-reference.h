/* transformer-reference.h - the loss of a small GPT or Llama in double precision, written token by token from the
 * formulas, to check devices and kernels against. Parameters lie in one array in model order, as
 * PsDeviceClass.gradients gives them. A Llama (PS_MLP_SWIGLU) has RMS norms, rotary positions and no biases. */
#pragma once

#include <math.h>
#include <pipesim/model.h>

/* One named group of parameters in that array. */
typedef struct {
  const char *name;
  guint layer;
  gsize first, n;
} ParameterGroup;

static inline guint reference_kv_width (const PsModel *model)
{
  return model->kv_heads * (model->hidden / model->heads);
}

static inline void reference_add_groups (GArray *groups, const ParameterGroup *more, guint n, guint layer)
{
  for (guint i = 0; i < n; i++) {
    const ParameterGroup *last = groups->len > 0 ? &g_array_index (groups, ParameterGroup, groups->len - 1) : NULL;
    const ParameterGroup group = { more[i].name, layer, last != NULL ? last->first + last->n : 0, more[i].n };

    if (group.n > 0)
      g_array_append_val (groups, group);
  }
}

/* Every group of the model in order. Free with g_array_unref. */
static inline GArray *reference_groups (const PsModel *model)
{
  const gboolean gated = model->mlp == PS_MLP_SWIGLU;
  const gsize h = model->hidden, f = model->feed_forward, width = h + 2 * reference_kv_width (model);
  const ParameterGroup embedding[] = {
    { "token embedding", 0, 0, model->vocabulary * h },
    { "position embedding", 0, 0, gated ? 0 : model->sequence * h },
  };
  const ParameterGroup of_layer[] = {
    { "norm 1 gain", 0, 0, h },
    { "norm 1 bias", 0, 0, gated ? 0 : h },
    { "attention qkv", 0, 0, h * width },
    { "attention qkv bias", 0, 0, gated ? 0 : width },
    { "attention output", 0, 0, h * h },
    { "attention output bias", 0, 0, gated ? 0 : h },
    { "norm 2 gain", 0, 0, h },
    { "norm 2 bias", 0, 0, gated ? 0 : h },
    { "mlp up", 0, 0, h * f * (gated ? 2 : 1) },
    { "mlp up bias", 0, 0, gated ? 0 : f },
    { "mlp down", 0, 0, f * h },
    { "mlp down bias", 0, 0, gated ? 0 : h },
  };
  const ParameterGroup head[] = {
    { "final norm gain", 0, 0, h },
    { "final norm bias", 0, 0, gated ? 0 : h },
    { "head", 0, 0, h * model->vocabulary },
  };
  GArray *groups = g_array_new (FALSE, FALSE, sizeof (ParameterGroup));

  reference_add_groups (groups, embedding, G_N_ELEMENTS (embedding), 0);
  for (guint layer = 0; layer < model->layers; layer++)
    reference_add_groups (groups, of_layer, G_N_ELEMENTS (of_layer), layer);
  reference_add_groups (groups, head, G_N_ELEMENTS (head), 0);
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

/* Layer norm (arXiv 1607.06450); without a bias RMS norm (arXiv 1910.07467, equation 4). */
static inline void reference_norm (double *y, const double *x, const double *gain, const double *bias, guint n)
{
  double mean = 0, variance = 0;

  for (guint i = 0; i < n && bias != NULL; i++)
    mean += x[i] / n;
  for (guint i = 0; i < n; i++)
    variance += (x[i] - mean) * (x[i] - mean) / n;
  for (guint i = 0; i < n; i++)
    y[i] = (x[i] - mean) / sqrt (variance + 1e-5) * gain[i] + (bias != NULL ? bias[i] : 0);
}

static inline double reference_gelu (double z)
{
  return 0.5 * z * (1 + tanh (sqrt (2 / G_PI) * (z + 0.044715 * z * z * z)));
}

static inline double reference_swiglu (double gate, double up)
{
  return gate / (1 + exp (-gate)) * up;
}

/* Turns pairs (i, i + size / 2) of one head by place * 10000^(-2i / size): arXiv 2104.09864, equation 34 */
static inline void reference_turn (double *head, guint size, guint place)
{
  for (guint i = 0; i < size / 2; i++) {
    const double angle = place * pow (10000, -2.0 * i / size);
    const double a = head[i], b = head[i + size / 2];

    head[i] = a * cos (angle) - b * sin (angle);
    head[i + size / 2] = a * sin (angle) + b * cos (angle);
  }
}

/* One query of a head sees n_keys keys; keys and values are `stride` apart from token to token. */
static inline void reference_attend (double *context, const double *query, const double *key, const double *value,
                                     guint n_keys, guint stride, guint size)
{
  double total = 0;

  for (guint i = 0; i < size; i++)
    context[i] = 0;
  for (guint other = 0; other < n_keys; other++) {
    double score = 0;

    for (guint i = 0; i < size; i++)
      score += query[i] * key[other * stride + i];
    const double weight = exp (score / sqrt (size));
    total += weight;
    for (guint i = 0; i < size; i++)
      context[i] += weight * value[other * stride + i];
  }
  for (guint i = 0; i < size; i++)
    context[i] /= total;
}

/* -log of the probability that softmax gives to the target. */
static inline double reference_cross_entropy (const double *logits, guint n, guint target)
{
  double total = 0;

  for (guint i = 0; i < n; i++)
    total += exp (logits[i]);
  return log (total) - logits[target];
}

/* Returns the next n parameters, or NULL if the model does not have them. */
static inline const double *reference_next (const double **p, gsize n, gboolean exists)
{
  const double *first = *p;

  *p += exists ? n : 0;
  return exists ? first : NULL;
}

/* Adds the attention of a layer to x (sequence x h). */
static inline void reference_attention (const PsModel *model, const double **p, double *x)
{
  const gboolean gated = model->mlp == PS_MLP_SWIGLU;
  const guint h = model->hidden, size = h / model->heads, c = reference_kv_width (model), width = h + 2 * c;
  const double *gain = reference_next (p, h, TRUE), *shift = reference_next (p, h, !gated);
  const double *wqkv = reference_next (p, h * width, TRUE), *bqkv = reference_next (p, width, !gated);
  const double *wo = reference_next (p, h * h, TRUE), *bo = reference_next (p, h, !gated);
  g_autofree double *qkv = g_new (double, model->sequence *width);
  g_autofree double *context = g_new (double, 2 * h);

  for (guint t = 0; t < model->sequence; t++) {
    reference_norm (context, x + t * h, gain, shift, h);
    reference_linear (qkv + t * width, context, wqkv, bqkv, h, width);
    for (guint head = 0; gated && head < model->heads + model->kv_heads; head++)
      reference_turn (qkv + t * width + head * size, size, t);
  }
  for (guint t = 0; t < model->sequence; t++) {
    for (guint head = 0; head < model->heads; head++) {
      const double *key = qkv + h + head / (model->heads / model->kv_heads) * size;

      reference_attend (context + head * size, qkv + t * width + head * size, key, key + c, t + 1, width, size);
    }
    reference_linear (context + h, context, wo, bo, h, h);
    for (guint i = 0; i < h; i++)
      x[t * h + i] += context[h + i];
  }
}

/* Adds the feed-forward part of a layer to x. */
static inline void reference_feed_forward (const PsModel *model, const double **p, double *x)
{
  const gboolean gated = model->mlp == PS_MLP_SWIGLU;
  const guint h = model->hidden, f = model->feed_forward, up = gated ? 2 * f : f;
  const double *gain = reference_next (p, h, TRUE), *shift = reference_next (p, h, !gated);
  const double *w1 = reference_next (p, h * up, TRUE), *b1 = reference_next (p, f, !gated);
  const double *w2 = reference_next (p, f * h, TRUE), *b2 = reference_next (p, h, !gated);
  g_autofree double *wide = g_new (double, up);
  g_autofree double *narrow = g_new (double, h);

  for (guint t = 0; t < model->sequence; t++) {
    reference_norm (narrow, x + t * h, gain, shift, h);
    reference_linear (wide, narrow, w1, b1, h, up);
    for (guint i = 0; i < f; i++)
      wide[i] = gated ? reference_swiglu (wide[i], wide[f + i]) : reference_gelu (wide[i]);
    reference_linear (narrow, wide, w2, b2, f, h);
    for (guint i = 0; i < h; i++)
      x[t * h + i] += narrow[i];
  }
}

/* Sum of the cross-entropies of one sequence; words holds sequence + 1. */
static inline double reference_sequence_loss (const PsModel *model, const double *p, const guint32 *words)
{
  const gboolean gated = model->mlp == PS_MLP_SWIGLU;
  const guint h = model->hidden, s = model->sequence, vocabulary = model->vocabulary;
  const double *token = reference_next (&p, vocabulary * h, TRUE), *place = reference_next (&p, s * h, !gated);
  g_autofree double *x = g_new (double, s *h);
  g_autofree double *normed = g_new (double, h);
  g_autofree double *logits = g_new (double, vocabulary);
  double loss = 0;

  for (guint t = 0; t < s; t++)
    for (guint i = 0; i < h; i++)
      x[t * h + i] = token[words[t] * h + i] + (place != NULL ? place[t * h + i] : 0);
  for (guint i = 0; i < model->layers; i++) {
    reference_attention (model, &p, x);
    reference_feed_forward (model, &p, x);
  }
  const double *gain = reference_next (&p, h, TRUE), *shift = reference_next (&p, h, !gated);
  for (guint t = 0; t < s; t++) {
    reference_norm (normed, x + t * h, gain, shift, h);
    if (!model->tied)
      reference_linear (logits, normed, p, NULL, h, vocabulary);
    for (guint i = 0; model->tied && i < vocabulary; i++)
      reference_linear (&logits[i], normed, p + i * h, NULL, h, 1);
    loss += reference_cross_entropy (logits, vocabulary, words[t + 1]);
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

/* cpu-ends.c - embedding, and final norm, output projection and loss. */
#include "train/data.h"
#include "cpu-ends.h"
#include "cpu-kernels.h"

gsize ps_cpu_embedding_parameters (const PsCpuSizes *sizes)
{
  return ((gsize)sizes->vocabulary + (gsize)sizes->longest) * (gsize)sizes->hidden;
}

PsCpuEmbedding ps_cpu_embedding_view (const PsCpuSizes *sizes, float *parameters)
{
  return (PsCpuEmbedding){ parameters, parameters + (gsize)sizes->vocabulary * sizes->hidden };
}

void ps_cpu_embedding_init (const PsCpuEmbedding *weights, const PsCpuSizes *sizes, guint64 seed)
{
  const gsize hidden = (gsize)sizes->hidden;

  ps_data_weights (weights->token, sizes->vocabulary * hidden, 0.02f, seed, PS_DATA_STREAM_EMBEDDING, 0);
  ps_data_weights (weights->position, sizes->longest * hidden, 0.02f, seed, PS_DATA_STREAM_EMBEDDING, 1);
}

/* The place of a slice's token in its sequence. */
static int place_of (const PsCpuSizes *sizes, guint slice, int token)
{
  return (int)slice * sizes->sequence + token % sizes->sequence;
}

/* Returns the word at a token of a slice; the next word is its target. */
static const guint32 *word_at (const PsCpuSizes *sizes, const guint32 *words, guint slice, int token)
{
  return words + token / sizes->sequence * (sizes->longest + 1) + place_of (sizes, slice, token);
}

void ps_cpu_embedding_forward (const PsCpuEmbedding *weights, const PsCpuSizes *sizes, guint slice,
                               const guint32 *words, float *x)
{
  const gsize hidden = (gsize)sizes->hidden;

  for (int token = 0; token < sizes->tokens; token++) {
    const float *restrict word = weights->token + *word_at (sizes, words, slice, token) * hidden;
    const float *restrict place = weights->position + (gsize)place_of (sizes, slice, token) * hidden;
    float *restrict to = x + (gsize)token * hidden;

    for (gsize i = 0; i < hidden; i++)
      to[i] = word[i] + place[i];
  }
}

void ps_cpu_embedding_weights (const PsCpuEmbedding *gradients, const PsCpuSizes *sizes, guint slice,
                               const guint32 *words, const float *dx)
{
  const gsize hidden = (gsize)sizes->hidden;

  for (int token = 0; token < sizes->tokens; token++) {
    const float *from = dx + (gsize)token * hidden;

    ps_cpu_add (gradients->token + *word_at (sizes, words, slice, token) * hidden, from, hidden);
    ps_cpu_add (gradients->position + (gsize)place_of (sizes, slice, token) * hidden, from, hidden);
  }
}

/* Parts of the head's keep block. */
typedef struct {
  float *standard;      /* T x h */
  float *probabilities; /* T x V; after B the gradient of the logits */
} Keep;

static gsize lay_out_keep (Keep *keep, const PsCpuSizes *sizes, float *block)
{
  float *cursor = block;

  keep->standard = ps_cpu_carve (&cursor, ps_cpu_sizes_boundary (sizes));
  keep->probabilities = ps_cpu_carve (&cursor, (gsize)sizes->tokens * sizes->vocabulary);
  return ps_cpu_carved (cursor) - ps_cpu_carved (block);
}

gsize ps_cpu_head_keep_size (const PsCpuSizes *sizes)
{
  Keep keep;

  return lay_out_keep (&keep, sizes, NULL);
}

/* The scale of the norm. */
gsize ps_cpu_head_late_size (const PsCpuSizes *sizes)
{
  return (gsize)sizes->tokens;
}

/* The gradient of the norm's output. */
gsize ps_cpu_head_gradient_size (const PsCpuSizes *sizes)
{
  return ps_cpu_sizes_boundary (sizes);
}

gsize ps_cpu_head_parameters (const PsCpuSizes *sizes)
{
  return ((gsize)sizes->vocabulary + 2) * (gsize)sizes->hidden;
}

PsCpuHead ps_cpu_head_view (const PsCpuSizes *sizes, float *parameters)
{
  return (PsCpuHead){ parameters, parameters + sizes->hidden, parameters + (gsize)2 * sizes->hidden };
}

void ps_cpu_head_init (const PsCpuHead *weights, const PsCpuSizes *sizes, guint64 seed)
{
  for (int i = 0; i < sizes->hidden; i++) {
    weights->norm_gain[i] = 1;
    weights->norm_bias[i] = 0;
  }
  ps_data_weights (weights->w, (gsize)sizes->hidden * sizes->vocabulary, 0.02f, seed,
                   sizes->tied ? PS_DATA_STREAM_EMBEDDING : PS_DATA_STREAM_HEAD, 0);
}

double ps_cpu_head_forward (const PsCpuHead *weights, const PsCpuSizes *sizes, guint slice,
                            const PsCpuWorkspace *workspace, const PsCpuHeadState *state, const float *x)
{
  const int rows = sizes->tokens, h = sizes->hidden, vocabulary = sizes->vocabulary;
  double loss = 0;
  Keep keep;

  lay_out_keep (&keep, sizes, state->keep);
  ps_cpu_norm (workspace->normed, keep.standard, state->late, x, weights->norm_gain, weights->norm_bias, rows, h);
  if (sizes->tied)
    ps_cpu_linear_input (keep.probabilities, workspace->normed, weights->w, rows, vocabulary, h);
  else
    ps_cpu_linear (keep.probabilities, workspace->normed, weights->w, rows, h, vocabulary);
  for (int token = 0; token < rows; token++)
    loss += ps_cpu_cross_entropy (keep.probabilities + (gsize)token * vocabulary, vocabulary,
                                  word_at (sizes, workspace->words, slice, token)[1]);
  return loss / (rows * sizes->slices);
}

void ps_cpu_head_backward (const PsCpuHead *weights, const PsCpuSizes *sizes, guint slice,
                           const PsCpuWorkspace *workspace, const PsCpuHeadState *state, float *dx)
{
  const int rows = sizes->tokens, h = sizes->hidden, vocabulary = sizes->vocabulary;
  const float share = 1 / (float)(rows * sizes->slices);
  Keep keep;

  lay_out_keep (&keep, sizes, state->keep);
  ps_cpu_scale (keep.probabilities, share, (gsize)rows * vocabulary);
  for (int token = 0; token < rows; token++)
    keep.probabilities[(gsize)token * vocabulary + word_at (sizes, workspace->words, slice, token)[1]] -= share;
  if (sizes->tied)
    ps_cpu_linear (state->gradient, keep.probabilities, weights->w, rows, vocabulary, h);
  else
    ps_cpu_linear_input (state->gradient, keep.probabilities, weights->w, rows, h, vocabulary);
  ps_cpu_norm_input (dx, NULL, state->gradient, keep.standard, state->late, weights->norm_gain, rows, h);
}

void ps_cpu_head_weights (const PsCpuHead *weights, const PsCpuHead *gradients, const PsCpuSizes *sizes,
                          const PsCpuWorkspace *workspace, const PsCpuHeadState *state)
{
  const int rows = sizes->tokens, h = sizes->hidden;
  Keep keep;

  lay_out_keep (&keep, sizes, state->keep);
  ps_cpu_norm_again (workspace->normed, keep.standard, weights->norm_gain, weights->norm_bias, rows, h);
  if (sizes->tied)
    ps_cpu_linear_weights (gradients->w, keep.probabilities, workspace->normed, rows, sizes->vocabulary, h);
  else
    ps_cpu_linear_weights (gradients->w, workspace->normed, keep.probabilities, rows, h, sizes->vocabulary);
  ps_cpu_norm_weights (gradients->norm_gain, gradients->norm_bias, state->gradient, keep.standard, rows, h);
}

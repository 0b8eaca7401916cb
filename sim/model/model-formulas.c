/* model-formulas.c - kinds of layers, and the parameters and operations of a model's stages. */
#include "model-private.h"

#include <string.h>

/* Matrices of a feed-forward: up and down, and the gate of swiglu. */
static gint64
mlp_elements (const PsModel *model, gint64 width)
{
  return (model->mlp == PS_MLP_SWIGLU ? 3 : 2) * (gint64)model->hidden * width;
}

/* Width of the values of all heads, which is that of the input of the output projection. */
gint64
ps_model_value_width (const PsModel *model)
{
  return model->latent.kv_rank ? (gint64)model->heads * model->latent.value_size : ps_model_query_width (model);
}

static gint64
attention_elements (const PsModel *model)
{
  const PsLatent *latent = &model->latent;
  gint64 h = model->hidden, a = model->heads, q = ps_model_query_width (model);

  if (latent->kv_rank == 0)
    return 2 * h * q + 2 * h * ps_model_kv_width (model);
  gint64 queries = latent->q_rank ? (h + q) * latent->q_rank : h * q;
  gint64 down = h * ((gint64)latent->kv_rank + latent->rope_size);
  gint64 up = latent->kv_rank * a * ((gint64)latent->nope_size + latent->value_size);
  return queries + down + up + h * ps_model_value_width (model);
}

/* Matrices of the feed-forward of a layer, with `visited` of its experts. */
static gint64
feed_forward_elements (const PsModel *model, PsLayerKind kind, guint visited)
{
  const PsExperts *experts = &model->experts;

  if (!(kind & PS_LAYER_EXPERTS))
    return mlp_elements (model, model->feed_forward);
  return ((gint64)visited + experts->shared) * mlp_elements (model, experts->feed_forward)
         + (gint64)model->hidden * experts->count;
}

/* Elements of the matrices of a layer that a token is multiplied by. */
static gint64
active_elements (const PsModel *model, PsLayerKind kind)
{
  return attention_elements (model) + feed_forward_elements (model, kind, model->experts.active);
}

/* Biases of a feed-forward. */
static gint64
mlp_biases (const PsModel *model, gint64 width)
{
  return model->mlp == PS_MLP_GELU ? width + model->hidden : model->other_biases ? 2 * width + model->hidden : 0;
}

gint64
ps_model_expert_parameters (const PsModel *model)
{
  return mlp_elements (model, model->experts.feed_forward) + mlp_biases (model, model->experts.feed_forward);
}

/* Biases of feed-forward or experts, and in swiglu of output projection and router. */
static gint64
other_biases (const PsModel *model, PsLayerKind kind)
{
  const PsExperts *experts = &model->experts;
  gint64 n = (gint64)experts->count + experts->shared;
  gint64 rest = model->other_biases ? (gint64)model->hidden + (kind & PS_LAYER_EXPERTS ? experts->count : 0) : 0;

  return rest
         + (kind & PS_LAYER_EXPERTS ? n * mlp_biases (model, experts->feed_forward)
                                    : mlp_biases (model, model->feed_forward));
}

static gint64
layer_vectors (const PsModel *model, PsLayerKind kind)
{
  gint64 c = ps_model_kv_width (model);

  /* GPT: biases of query, key, value and output, and norms of 2h. */
  if (model->mlp == PS_MLP_GELU)
    return ps_model_query_width (model) + 2 * c + 5 * (gint64)model->hidden + other_biases (model, kind);
  return 2 * (gint64)model->hidden + (model->qkv_bias ? ps_model_query_width (model) + 2 * c : 0)
         + (model->qk_norm ? 2 * (gint64)ps_model_head_size (model) : 0) + other_biases (model, kind)
         + ((gint64)model->latent.q_rank + model->latent.kv_rank);
}

gint64
ps_model_layer_parameters (const PsModel *model, PsLayerKind kind)
{
  return attention_elements (model) + feed_forward_elements (model, kind, model->experts.count)
         + layer_vectors (model, kind);
}

static PsLayerKind
kind_of_layer (const PsModel *model, guint layer)
{
  gboolean experts = model->experts.count > 0 && layer >= model->experts.dense_layers;
  gboolean window = model->window > 0 && (model->full_every == 0 || (layer + 1) % model->full_every != 0);

  return (PsLayerKind)((experts ? PS_LAYER_EXPERTS : 0) | (window ? PS_LAYER_WINDOW : 0));
}

void
ps_model_count_kinds (const PsModel *model, const PsStageShape *shape, guint count[PS_N_LAYER_KINDS])
{
  memset (count, 0, PS_N_LAYER_KINDS * sizeof *count);
  for (guint i = 0; i < shape->n_layers; i++)
    count[kind_of_layer (model, shape->first_layer + i)]++;
  count[kind_of_layer (model, model->layers - 1)] += shape->n_mtp;
}

gint64
ps_model_sum_layers (const PsModel *model, const PsStageShape *shape, PsLayerFigure figure)
{
  guint count[PS_N_LAYER_KINDS];
  gint64 sum = 0;

  ps_model_count_kinds (model, shape, count);
  for (guint kind = 0; kind < PS_N_LAYER_KINDS; kind++)
    if (count[kind] > 0)
      sum += count[kind] * figure (model, (PsLayerKind)kind);
  return sum;
}

/* Vocabulary matrices that a stage holds: the embedding's, the head's, and copies of either that a module of
 * multi-token prediction needs where they are elsewhere. Tied ones are one matrix. */
static guint
count_vocabulary_matrices (const PsModel *model, const PsStageShape *shape)
{
  gboolean in = shape->embedding || shape->n_mtp > 0, out = shape->head || shape->n_mtp > 0;

  return model->tied ? in || out : in + out;
}

gint64
ps_model_stage_parameters (const PsModel *model, const PsStageShape *shape)
{
  gint64 h = model->hidden, s = model->sequence, norm = model->mlp == PS_MLP_SWIGLU ? h : 2 * h;

  return ps_model_sum_layers (model, shape, ps_model_layer_parameters)
         + count_vocabulary_matrices (model, shape) * model->vocabulary * h
         + (shape->embedding && model->mlp == PS_MLP_GELU ? s * h : 0) + (shape->head ? norm : 0)
         + shape->n_mtp * (2 * h * h + 3 * norm);
}

gint64
ps_model_parameters (const PsModel *model)
{
  const PsStageShape all = ps_model_whole (model);

  return ps_model_stage_parameters (model, &all);
}

gint64
ps_model_active_parameters (const PsModel *model)
{
  PsStageShape all = ps_model_whole (model);
  guint count[PS_N_LAYER_KINDS];

  all.n_mtp = 0;
  ps_model_count_kinds (model, &all, count);
  return ps_model_stage_parameters (model, &all)
         - (gint64)(count[PS_LAYER_EXPERTS] + count[PS_LAYER_EXPERTS | PS_LAYER_WINDOW])
               * (model->experts.count - model->experts.active) * ps_model_expert_parameters (model);
}

/* Operations of the scores and of weighing the values with them, per token. */
static gint64
attention_flops (const PsModel *model, PsLayerKind kind)
{
  gint64 seen = kind & PS_LAYER_WINDOW ? MIN (model->window, model->sequence) : model->sequence;

  return 2 * seen * (ps_model_query_width (model) + ps_model_value_width (model));
}

gint64
ps_model_stage_flops (const PsModel *model, const PsStageShape *shape, PsOpKind kind)
{
  gint64 tokens = ps_model_tokens (model), h = model->hidden;
  gint64 matrices = ps_model_sum_layers (model, shape, active_elements) + shape->n_mtp * 2 * h * h
                    + (shape->head + shape->n_mtp) * h * model->vocabulary;
  /* F, B and W each multiply every matrix once. Scores and values are two more products in F and four in B; W has
   * none. */
  gint64 product = 2 * tokens * matrices;
  gint64 attention = tokens * ps_model_sum_layers (model, shape, attention_flops);

  switch (kind)
    {
    case PS_OP_F:
    case PS_OP_R:
      return product + attention;
    case PS_OP_B:
      return product + 2 * attention;
    case PS_OP_W:
      return product;
    case PS_OP_BW:
      return 2 * product + 2 * attention;
    default:
      g_return_val_if_reached (0);
    }
}

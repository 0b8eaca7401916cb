/* units.c - the table of the kinds of units, and what a unit of each kind is made of. */
#include "model-private.h"

#include <string.h>

/* Bits in memory of an element that products with weights multiply, where elements have 16: 16 where the precision has
 * no format of its own for them. */
static double product_bits (const PsModel *model)
{
  return MIN (ps_number_formats[model->precision].kept_bits, 16);
}

static PsMatrix *add_matrix (PsUnitParts *parts, const PsModel *model, const char *name, gint64 rows, gint64 columns,
                             PsMatrixCut cut, gboolean bias)
{
  PsMatrix *matrix = &parts->matrix[parts->n_matrices++];

  g_assert (parts->n_matrices <= G_N_ELEMENTS (parts->matrix));
  *matrix = (PsMatrix){ .name = name,
                        .rows = rows,
                        .columns = columns,
                        .count = 1,
                        .active = 1,
                        .load = 1,
                        .passes = { 1 << PS_OP_F, 1 << PS_OP_B, 1 << PS_OP_W },
                        .cut = cut,
                        .bias = bias,
                        .bits = MIN (ps_number_formats[model->precision].bits, 16),
                        .gradient_bits = product_bits (model),
                        .recompute = parts->recompute | PS_RECOMPUTE_FULL };
  return matrix;
}

static PsKept *keep (PsUnitParts *parts, const char *module, const char *name, gint64 elements)
{
  PsKept *kept = &parts->kept[parts->n_kept++];

  g_assert (parts->n_kept <= G_N_ELEMENTS (parts->kept));
  *kept = (PsKept){
    .module = module, .name = name, .elements = elements, .bits = 16, .recompute = parts->recompute | PS_RECOMPUTE_FULL
  };
  return kept;
}

/* Keeps the input of matrices. */
static PsKept *keep_input (PsUnitParts *parts, const PsModel *model, const char *module, const char *name,
                           gint64 elements)
{
  PsKept *kept = keep (parts, module, name, elements);

  kept->bits = product_bits (model);
  kept->flags |= PS_KEPT_WEIGHT;
  return kept;
}

/* Keeps the input of the activation between the matrices of an MLP. */
static PsKept *keep_activated (PsUnitParts *parts, const PsModel *model, const char *module, const char *name,
                               gint64 elements)
{
  PsKept *kept = keep (parts, module, name, elements);

  kept->bits = model->fp8_input_store ? 8 : kept->bits;
  return kept;
}

static void move (PsUnitParts *parts, PsOpKind kind, const char *name, gint64 bytes, gboolean wide)
{
  g_assert (parts->n_moves < G_N_ELEMENTS (parts->move));
  parts->move[parts->n_moves++] = (PsMemoryKernel){ name, kind, bytes, wide, parts->recompute | PS_RECOMPUTE_FULL };
}

/* The part of a kernel of F that these modules run again where F runs it for others, too. */
static void move_again (PsUnitParts *parts, const char *name, gint64 bytes, guint recompute)
{
  move (parts, PS_OP_F, name, bytes, FALSE);
  parts->move[parts->n_moves - 1].recompute = recompute;
}

/* The same kernel in F and B. */
static void move_both (PsUnitParts *parts, const char *name, gint64 forward, gint64 backward)
{
  move (parts, PS_OP_F, name, forward, FALSE);
  move (parts, PS_OP_B, name, backward, FALSE);
}

static void move_both_wide (PsUnitParts *parts, const char *name, gint64 forward, gint64 backward)
{
  move (parts, PS_OP_F, name, forward, TRUE);
  move (parts, PS_OP_B, name, backward, TRUE);
}

static void add_scores (PsUnitParts *parts, const char *name, gint64 heads, gint64 width, gint64 most, gboolean flash)
{
  g_assert (parts->n_scores < G_N_ELEMENTS (parts->scores));
  parts->scores[parts->n_scores++]
      = (PsScores){ name, heads, width, most, flash, parts->recompute | PS_RECOMPUTE_FULL };
}

/* Launches of Megatron-LM's MoELayer that route, count and sort tokens, as many in F as in B: a fit (data/README.md).
 */
#define EXPERT_LAUNCHES 60

/* Weights and biases of a norm. */
static gint64 norm_width (const PsModel *model)
{
  return model->mlp == PS_MLP_GELU ? 2 * (gint64)model->hidden : model->hidden;
}

gboolean ps_model_has_dropout (const PsModel *model)
{
  return model->mlp == PS_MLP_GELU && !model->no_dropout;
}

/* Whether the matrices of GPT have biases. */
static gboolean has_biases (const PsModel *model)
{
  return model->mlp == PS_MLP_GELU && !model->no_biases;
}

/* A norm, which these modules run again. Its input stays. */
static PsKept *add_norm (const PsModel *model, PsUnitParts *parts, guint recompute)
{
  gint64 h = model->hidden, he = h * ps_precision_bytes (model->precision);
  PsKept *input = keep (parts, "layernorm", "input of norm", h);

  parts->whole_vectors += norm_width (model);
  input->flags |= PS_KEPT_WIDE;
  move (parts, PS_OP_F, "norm", 2 * he, TRUE);
  parts->move[parts->n_moves - 1].recompute |= recompute;
  move (parts, PS_OP_B, "norm, gradient of input", 3 * he, TRUE);
  move (parts, PS_OP_B, "norm, gradient of parameters", 2 * he, TRUE);
  return input;
}

/* The norm before a unit, and its result. Transformer Engine has it in the matrix that takes the result
 * (TELayerNormColumnParallelLinear of Megatron-LM's core/models/gpt/gpt_layer_specs.py), but where several modules do:
 * latent attention, whose two narrow matrices keep copies of their own in formats of few bits, and experts, whose
 * router takes 16 bits. */
static void describe_norm (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  gboolean latent
      = kind == PS_UNIT_LATENT || kind == PS_UNIT_SPARSE || (kind == PS_UNIT_WINDOW && model->latent.kv_rank > 0);
  gboolean experts = kind == PS_UNIT_EXPERTS, mixes = kind < PS_UNIT_MLP;
  guint recompute = latent || experts     ? PS_RECOMPUTE_LAYERNORM
                    : kind == PS_UNIT_MLP ? PS_RECOMPUTE_MLP
                                          : PS_RECOMPUTE_NONE;
  PsKept *input = add_norm (model, parts, recompute), *result;
  gint64 copies = latent && product_bits (model) < 16 ? 2 : 1;

  input->offload = latent ? PS_OFFLOAD_ATTN_NORM : experts ? PS_OFFLOAD_MLP_NORM : mixes ? PS_OFFLOAD_QKV_LINEAR : 0;
  result = keep_input (parts, model, "layernorm", "result of norm", copies * model->hidden);
  result->flags |= PS_KEPT_WIDE;
  result->recompute |= recompute;
  result->offload = mixes ? PS_OFFLOAD_QKV_LINEAR : 0;
  if (experts)
    result->bits = 16;
}

/* Mixes `streams` hidden states to what a unit takes, and its result back into them, by weights made from all of them.
 */
static void describe_streams (const PsModel *model, PsUnitParts *parts)
{
  gint64 n = model->streams, h = model->hidden, he = h * ps_precision_bytes (model->precision), mix = (2 + n) * n;

  add_matrix (parts, model, "hyper-connection", n * h, mix, PS_CUT_NONE, FALSE)->bits = 16;
  parts->whole_vectors += mix + 3;
  keep (parts, "hyper_connection", "streams", n * h)->flags |= PS_KEPT_WIDE | PS_KEPT_WEIGHT;
  keep (parts, "hyper_connection", "result of unit", h)->flags |= PS_KEPT_WIDE;
  keep (parts, "hyper_connection", "weights of streams", 2 * mix)->bits = 32;
  move_both_wide (parts, "hyper-connection", (4 * n + 2) * he, (8 * n + 4) * he);
}

/* Every unit of a layer has a norm before it and a sum after it, and in GPT a bias and dropout before the sum. */
static void describe_branch (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  gint64 h = model->hidden, he = h * ps_precision_bytes (model->precision);
  gboolean again = model->one_norm && (kind == PS_UNIT_MLP || kind == PS_UNIT_EXPERTS);

  if (!again)
    describe_norm (model, kind, parts);
  if (model->post_norms)
    add_norm (model, parts, PS_RECOMPUTE_NONE);
  if (model->streams > 1) {
    describe_streams (model, parts);
    return;
  }
  move (parts, PS_OP_B, "sum of gradients", 3 * he, TRUE);
  if (ps_model_has_dropout (model)) {
    PsKept *mask = keep (parts, "dropout", "mask", h);

    mask->bits = 8;
    mask->flags |= PS_KEPT_WIDE;
    move (parts, PS_OP_F, "bias, dropout, add", 3 * he + h, TRUE);
    move (parts, PS_OP_B, "dropout", 2 * he + h, TRUE);
  } else
    move (parts, PS_OP_F, "add", 3 * he, TRUE);
  if (has_biases (model))
    move (parts, PS_OP_B, "bias of output", he, TRUE);
}

/* Whether the sums of flash attention's softmax count. The formulas of 16 and 32 bits without a framework are those of
 * arXiv 2205.05198, which leaves them out. */
static gboolean keeps_sums (const PsModel *model)
{
  return model->framework != PS_FRAMEWORK_NONE || product_bits (model) < 16;
}

static void describe_scores (const PsModel *model, PsUnitParts *parts, gint64 width, gint64 most)
{
  gint64 scores = ((gint64)model->before + model->sequence) * model->heads; /* masked ones are stored, too */

  parts->recompute = PS_RECOMPUTE_CORE_ATTN;
  add_scores (parts, "flash attention", model->heads, width, most, model->flash_attention);
  if (model->flash_attention && keeps_sums (model))
    keep (parts, "core_attn", "sums of softmax", model->heads)->bits = 32;
  if (!model->flash_attention) {
    keep (parts, "core_attn", "scores", scores);
    keep (parts, "core_attn", "softmax of scores", scores);
    keep (parts, "core_attn", "mask of scores", scores)->bits = 8;
  }
  parts->recompute = PS_RECOMPUTE_NONE;
}

/* Keys and values of all heads come from one narrow vector. */
static void describe_latent_matrices (const PsModel *model, PsUnitParts *parts)
{
  const PsLatent *latent = &model->latent;
  gint64 h = model->hidden, q = ps_model_query_width (model), v = ps_model_value_width (model);
  gint64 narrow = (gint64)latent->kv_rank + latent->rope_size;

  if (latent->q_rank > 0)
    add_matrix (parts, model, "query down", h, latent->q_rank, PS_CUT_NONE, model->qkv_bias);
  add_matrix (parts, model, "query up", latent->q_rank > 0 ? latent->q_rank : h, q, PS_CUT_COLUMNS, FALSE)->recompute
      |= PS_RECOMPUTE_MLA_UP_PROJ;
  add_matrix (parts, model, "key, value down", h, narrow, PS_CUT_NONE, model->qkv_bias);
  parts->whole_vectors += (gint64)latent->q_rank + latent->kv_rank;
  keep (parts, "self_attn", "narrow vectors", latent->q_rank + narrow);
  parts->recompute = PS_RECOMPUTE_MLA_UP_PROJ;
  add_matrix (parts, model, "key, value up", latent->kv_rank, model->heads * (gint64)latent->nope_size + v,
              PS_CUT_COLUMNS, FALSE);
  if (latent->q_rank > 0)
    keep_input (parts, model, "mla_up_proj", "narrow queries after norm", latent->q_rank);
  keep_input (parts, model, "mla_up_proj", "narrow keys and values after norm", latent->kv_rank);
  keep (parts, "mla_up_proj", "queries and keys", 2 * q)->offload = PS_OFFLOAD_CORE_ATTN;
  keep (parts, "mla_up_proj", "values", v)->offload = PS_OFFLOAD_CORE_ATTN;
  parts->recompute = PS_RECOMPUTE_NONE;
}

static void describe_heads_matrices (const PsModel *model, PsUnitParts *parts)
{
  gint64 h = model->hidden, q = ps_model_query_width (model), c = ps_model_kv_width (model);
  gint64 rank = model->latent.q_rank, values = ps_model_own_value_width (model);
  gint64 e = ps_precision_bytes (model->precision);
  gboolean bias = has_biases (model) || model->qkv_bias;

  if (rank > 0) {
    add_matrix (parts, model, "query down", h, rank, PS_CUT_NONE, FALSE);
    add_matrix (parts, model, "query up", rank, q, PS_CUT_COLUMNS, FALSE);
    parts->whole_vectors += rank;
    keep (parts, "self_attn", "narrow queries", rank);
    keep_input (parts, model, "self_attn", "narrow queries after norm", rank);
  }
  add_matrix (parts, model, "query, key, value", h, (rank > 0 ? 0 : q) + c + values, PS_CUT_COLUMNS, bias);
  PsKept *heads = keep (parts, "self_attn", "queries, keys and values", q + c + values);
  if (model->shared_kv) {
    parts->whole_vectors += ps_model_head_size (model);
    keep (parts, "self_attn", "queries and keys after norm", q + c)->offload = PS_OFFLOAD_CORE_ATTN;
  } else if (model->qk_norm == PS_QK_NORM_NONE)
    heads->offload = PS_OFFLOAD_CORE_ATTN;
  else {
    parts->whole_vectors += model->qk_norm == PS_QK_NORM_HEAD ? 2 * (gint64)ps_model_head_size (model) : 0;
    parts->cut_vectors += model->qk_norm == PS_QK_NORM_WIDE ? q + c : 0;
    keep (parts, "self_attn", "queries and keys after norm", q + c)->offload = PS_OFFLOAD_CORE_ATTN;
    move_both (parts, "norm of queries and keys", 2 * (q + c) * e, 5 * (q + c) * e);
  }
}

/* Tokens or compressed entries that a token attends to at most. */
static gint64 count_attended (const PsModel *model, PsUnitKind kind)
{
  gint64 end = ps_model_whole_sequence (model);

  switch (kind) {
  case PS_UNIT_WINDOW:
    return model->window;
  case PS_UNIT_SPARSE:
    return model->indexer.top;
  case PS_UNIT_COMPRESSED:
    return model->window + MIN (model->indexer.top, end / model->compress.sparse);
  case PS_UNIT_HEAVY:
    return model->window + end / model->compress.heavy;
  default:
    return G_MAXINT32;
  }
}

/* The projection of what attention hands on, or two of them, the first by groups. */
static void describe_output (const PsModel *model, PsUnitParts *parts)
{
  gint64 v = ps_model_value_width (model), groups = model->output_groups, narrow = groups * model->output_rank;

  /* Attention runs in 16 bits. Its backward needs its own result, and the output projection keeps no other one
     (set_save_original_input in Megatron-LM's core/transformer/attention.py). */
  PsKept *result = keep (parts, "self_attn", "result of attention", v);

  result->flags |= PS_KEPT_WEIGHT;
  result->offload = PS_OFFLOAD_ATTN_PROJ;
  if (groups > 0) {
    PsMatrix *down = add_matrix (parts, model, "output down", v / groups, model->output_rank, PS_CUT_COLUMNS, FALSE);

    down->count = down->active = groups;
    down->load = (double)groups;
    keep_input (parts, model, "self_attn", "narrow result of attention", narrow);
  }
  add_matrix (parts, model, "output", groups > 0 ? narrow : v, model->hidden, PS_CUT_ROWS,
              has_biases (model) || model->other_biases || model->output_bias);
}

/* Attention: a norm, matrices of queries, keys and values, scores, and the output projection. */
static void describe_attention (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  gint64 h = model->hidden, q = ps_model_query_width (model), c = ps_model_kv_width (model);
  gint64 v = ps_model_value_width (model), e = ps_precision_bytes (model->precision);
  gboolean gpt = model->mlp == PS_MLP_GELU;

  describe_branch (model, kind, parts);
  (model->latent.kv_rank > 0 ? describe_latent_matrices : describe_heads_matrices) (model, parts);
  if (model->attention_gate) {
    add_matrix (parts, model, "gate", h, v, PS_CUT_COLUMNS, FALSE);
    keep (parts, "self_attn", "gate", v);
    keep (parts, "self_attn", "result of attention before its gate", v);
    move_both (parts, "gate of attention", 3 * v * e, 5 * v * e);
  }
  describe_output (model, parts);
  if (model->sinks == PS_SINKS_ALL || (model->sinks == PS_SINKS_WINDOW && kind == PS_UNIT_WINDOW))
    parts->cut_vectors += model->heads;
  describe_scores (model, parts, q + v, count_attended (model, kind));
  if (has_biases (model))
    move (parts, PS_OP_B, "bias of query, key, value", (h + 2 * c) * e, FALSE);
  if (gpt)
    return;
  parts->recompute = model->latent.kv_rank > 0 ? PS_RECOMPUTE_MLA_UP_PROJ : PS_RECOMPUTE_NONE;
  move_both (parts, "rotation of queries", 2 * q * e, 2 * q * e);
  move_both (parts, "rotation of keys", 2 * c * e, 2 * c * e);
  parts->recompute = PS_RECOMPUTE_NONE;
}

/* Two matrices, or three of which the first two stand side by side: width -> f -> width. Returns the first of two rows.
 */
static PsMatrix *add_mlp (const PsModel *model, PsUnitParts *parts, gint64 width, gint64 f, gint64 count, gint64 active,
                          PsMatrixCut cut)
{
  gboolean gate = model->mlp == PS_MLP_SWIGLU, bias = has_biases (model) || model->other_biases;
  PsMatrix *up = add_matrix (parts, model, "feed-forward up", width, (gate ? 2 : 1) * f,
                             cut == PS_CUT_EXPERTS ? cut : PS_CUT_COLUMNS, bias);
  PsMatrix *down
      = add_matrix (parts, model, "feed-forward down", f, width, cut == PS_CUT_EXPERTS ? cut : PS_CUT_ROWS, bias);

  up->count = down->count = count;
  up->active = down->active = active;
  up->load = down->load = (double)active;
  return up;
}

static const char *activation_name (const PsModel *model)
{
  return model->mlp == PS_MLP_SWIGLU ? "SwiGLU" : model->mlp == PS_MLP_GELU ? "bias, GELU" : "squared ReLU";
}

/* The activation between the matrices, `f` wide for a token. */
static void describe_activation (const PsModel *model, PsUnitParts *parts, gint64 f)
{
  gboolean gate = model->mlp == PS_MLP_SWIGLU;
  gint64 fe = f * ps_precision_bytes (model->precision);

  if (has_biases (model))
    move (parts, PS_OP_B, "bias of feed-forward", fe, FALSE);
  move_both (parts, activation_name (model), (gate ? 3 : 2) * fe, (gate ? 5 : 3) * fe);
}

static void describe_mlp (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  const gint64 h = model->hidden, f = model->feed_forward;

  describe_branch (model, kind, parts);
  parts->recompute = PS_RECOMPUTE_MLP;
  keep_activated (parts, model, "mlp", "input of activation", add_mlp (model, parts, h, f, 1, 1, PS_CUT_NONE)->columns);
  keep_input (parts, model, "mlp", "result of activation", f);
  describe_activation (model, parts, f);
  parts->running = 4 * h + 4 * f;
}

/* Lists the tensors of routed experts, and of shared ones, which are `shared` wide in all. Megatron-LM weighs results
 * within the activation (core/fusions/fused_bias_swiglu.py); others keep them until they are weighed. */
static void keep_experts (const PsModel *model, PsUnitParts *parts, double load, gint64 moved, gint64 shared)
{
  gint64 gates = model->mlp == PS_MLP_SWIGLU ? 2 : 1, f = model->experts.feed_forward;
  gint64 bytes = (gates + 1) * ps_precision_bytes (model->precision), inner = (gint64)(load * (double)f);

  keep_input (parts, model, "moe", "tokens of experts", moved)->offload = PS_OFFLOAD_EXPERT_FC1;
  keep_activated (parts, model, "moe", "input of activation", (gint64)(load * (double)(gates * f)))->offload
      = PS_OFFLOAD_MOE_ACT;
  keep_input (parts, model, "moe_act", "result of activation", inner)->recompute |= PS_RECOMPUTE_MOE_ACT;
  move_again (parts, activation_name (model), bytes * inner, PS_RECOMPUTE_MOE_ACT);
  if (!ps_framework_is_megatron (model->framework))
    keep (parts, "moe", "results before they are weighed", moved);
  if (shared == 0)
    return;
  move_again (parts, activation_name (model), bytes * shared, PS_RECOMPUTE_SHARED_EXPERTS);
  parts->recompute |= PS_RECOMPUTE_SHARED_EXPERTS;
  if (product_bits (model) < 16)
    keep_input (parts, model, "shared_experts", "input of shared experts", model->hidden)->recompute
        |= PS_RECOMPUTE_LAYERNORM;
  keep_activated (parts, model, "shared_experts", "input of activation of shared experts", gates * shared);
  keep_input (parts, model, "shared_experts", "result of activation of shared experts", shared);
  parts->recompute &= ~(guint)PS_RECOMPUTE_SHARED_EXPERTS;
}

/* A mixture: the router, experts that tokens are handed to and come back from, and shared ones. */
static void describe_experts (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  const PsExperts *experts = &model->experts;
  gint64 h = model->hidden, e = ps_precision_bytes (model->precision), f = experts->feed_forward;
  gint64 width = experts->latent > 0 ? experts->latent : h, count = experts->count;
  gint64 n_shared = experts->shared_width > 0 ? 1 : experts->shared;
  gint64 shared = experts->shared_width > 0 ? experts->shared_width : f;
  double load = ps_model_routed (model);
  gint64 moved = (gint64)(load * (double)width), inner = (gint64)(load * (double)f) + n_shared * shared;

  describe_branch (model, kind, parts);
  parts->recompute = PS_RECOMPUTE_MOE;
  parts->launches = EXPERT_LAUNCHES;
  add_matrix (parts, model, "router", h, count, PS_CUT_NONE, model->other_biases)->bits = 16;
  keep (parts, "moe", "scores of router, before and after softmax", 2 * count)->bits = 32;
  if (experts->latent > 0) {
    add_matrix (parts, model, "latent down", h, width, PS_CUT_NONE, FALSE);
    add_matrix (parts, model, "latent up", width, h, PS_CUT_NONE, FALSE);
    keep_input (parts, model, "moe", "sum of experts", width);
  }
  PsMatrix *routed = add_mlp (model, parts, width, f, count, experts->active, PS_CUT_EXPERTS);
  routed[0].load = routed[1].load = load;
  if (experts->shared_gate)
    add_matrix (parts, model, "gate of shared experts", h, 1, PS_CUT_NONE, FALSE);
  if (n_shared > 0) {
    PsMatrix *visited = add_mlp (model, parts, h, shared, n_shared, n_shared, PS_CUT_NONE);

    visited[0].recompute |= PS_RECOMPUTE_SHARED_EXPERTS;
    visited[1].recompute |= PS_RECOMPUTE_SHARED_EXPERTS;
  }
  keep_experts (model, parts, load, moved, n_shared * shared);
  describe_activation (model, parts, inner);
  move_both (parts, "softmax of router", 8 * count, 12 * count);
  move_both (parts, "permutation", (width + moved) * e, (width + moved) * e);
  move_both (parts, "weighted sum", (width + moved) * e, (width + 2 * moved) * e);
  parts->running = 2 * h + (gint64)(load * (double)(4 * width + 4 * f));
}

static void describe_embedding (const PsModel *model, G_GNUC_UNUSED PsUnitKind kind, PsUnitParts *parts)
{
  gint64 h = model->hidden, he = h * ps_precision_bytes (model->precision);

  move_both_wide (parts, "embedding", 2 * he, 3 * he);
  if (model->embedding_norm)
    add_norm (model, parts, PS_RECOMPUTE_NONE);
  if (model->mlp != PS_MLP_GELU)
    return;
  if (!model->no_positions) {
    parts->whole_vectors += (model->position_rows > 0 ? model->position_rows : model->sequence) * h;
    move (parts, PS_OP_F, "positions", 3 * he, TRUE);
  }
  if (!ps_model_has_dropout (model))
    return;
  move_both_wide (parts, "dropout of embedding", 2 * he + h, 2 * he + h);
}

/* Products that the ops of the head run, by what is done with the logits. */
#define ALL_PASSES (1 << PS_OP_F | 1 << PS_OP_B | 1 << PS_OP_W)
static const guint head_passes[][3] = { [PS_LOSS_WHOLE] = { 1 << PS_OP_F, 1 << PS_OP_B, 1 << PS_OP_W },
                                        [PS_LOSS_FUSED] = { 1 << PS_OP_F, ALL_PASSES, 0 },
                                        [PS_LOSS_CHUNKED] = { ALL_PASSES, 0, 0 } };

/* The head: a norm, the output projection, and cross-entropy over logits in fp32. */
static void describe_loss (const PsModel *model, G_GNUC_UNUSED PsUnitKind kind, PsUnitParts *parts)
{
  gint64 h = model->hidden, V = model->vocabulary, e = ps_precision_bytes (model->precision);
  gint64 converted = e != 4 ? V * (e + 4) : 0;
  PsMatrix *head = add_matrix (parts, model, "head", h, V, PS_CUT_COLUMNS, FALSE);

  head->count = head->gradient_bits = 0;
  head->bits = 16;
  memcpy (head->passes, head_passes[model->loss], sizeof head->passes);
  if (model->streams > 1) {
    add_matrix (parts, model, "sum of streams", model->streams * h, model->streams, PS_CUT_NONE, FALSE)->bits = 16;
    parts->whole_vectors += model->streams + 1;
    keep (parts, "loss", "streams", model->streams * h)->flags |= PS_KEPT_WEIGHT;
  }
  parts->whole_vectors += norm_width (model);
  keep (parts, "loss", "input of norm", h);
  move_both_wide (parts, "norm of head", 2 * h * e, 5 * h * e);
  if (model->loss == PS_LOSS_FUSED) {
    keep (parts, "loss", "input of head", h);
    keep (parts, "loss", "maximum and sum of logits", 2)->bits = 32;
    move (parts, PS_OP_B, "gradient of logits", 2 * V * e, FALSE);
  } else if (model->loss == PS_LOSS_CHUNKED) {
    keep (parts, "loss", "gradient of the input of head", h);
    move (parts, PS_OP_F, "conversion of logits", 2 * converted, FALSE);
    move (parts, PS_OP_F, "cross-entropy", V * 40, FALSE);
  } else {
    PsKept *logits = keep (parts, "loss", "logits", V);

    logits->bits = 32;
    logits->flags |= PS_KEPT_WEIGHT;
    keep (parts, "loss", "input of head", h)->flags |= PS_KEPT_WEIGHT;
    if (converted > 0)
      move_both (parts, "conversion of logits", converted, converted);
    move_both (parts, "cross-entropy", V * 32, V * 8);
  }
}

/* A module of multi-token prediction has two norms and a projection before the units of its layer. */
static void describe_mtp (const PsModel *model, G_GNUC_UNUSED PsUnitKind kind, PsUnitParts *parts)
{
  gint64 h = model->hidden;

  add_matrix (parts, model, "projection of multi-token prediction", 2 * h, h, PS_CUT_COLUMNS, FALSE)->gradient_bits
      = 16;
  parts->whole_vectors = 2 * norm_width (model);
  keep (parts, "mtp", "inputs of norms", 2 * h);
  keep (parts, "mtp", "input of projection", 2 * h)->flags |= PS_KEPT_WEIGHT;
}

/* The matrices of the lightning indexer, which every GPU of a device computes, and its scores of `entries` keys, made
 * from vectors of `width`. */
static void describe_indexer (const PsModel *model, PsUnitParts *parts, gint64 width, gint64 entries)
{
  const PsIndexer *indexer = &model->indexer;
  gint64 h = model->hidden, queries = (gint64)indexer->heads * indexer->size;
  gint64 e = ps_precision_bytes (model->precision);

  parts->recompute = PS_RECOMPUTE_CORE_ATTN;
  add_matrix (parts, model, "query of indexer", model->latent.q_rank > 0 ? model->latent.q_rank : h, queries,
              PS_CUT_NONE, FALSE);
  add_matrix (parts, model, "key of indexer", h, width, PS_CUT_NONE, FALSE);
  add_matrix (parts, model, "weights of indexer", h, indexer->heads, PS_CUT_NONE, FALSE);
  keep (parts, "indexer", "queries, key and weights", queries + width + indexer->heads);
  keep (parts, "indexer", "tokens selected", indexer->top)->bits = 32;
  add_scores (parts, "scores of indexer", indexer->heads, queries, entries, TRUE);
  move_both (parts, "selection of tokens", 4 * MIN (entries, (gint64)model->sequence), 0);
  move_both (parts, "rotation of indexer", 2 * (queries + indexer->size) * e, 2 * (queries + indexer->size) * e);
}

static void describe_sparse (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  describe_attention (model, kind, parts);
  parts->whole_vectors += 2 * (gint64)model->indexer.size;
  describe_indexer (model, parts, model->indexer.size, G_MAXINT32);
}

static void describe_window (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  PsModel own;

  describe_attention (ps_unit_model (model, kind, &own), kind, parts);
}

/* Pools `tokens` tokens to an entry: a vector of `width` and a gate of each, and learnt numbers of the places. */
static void describe_pooling (const PsModel *model, PsUnitParts *parts, gint64 width, gint64 tokens)
{
  gint64 e = ps_precision_bytes (model->precision);

  add_matrix (parts, model, "vectors and gates of entries", model->hidden, 2 * width, PS_CUT_NONE, FALSE);
  parts->whole_vectors += tokens * width + ps_model_head_size (model);
  keep (parts, "compressor", "vectors and gates of entries", 2 * width);
  move_both (parts, "pooling of entries", 2 * width * e, 5 * width * e);
}

static void describe_compressed (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  gint64 tokens = model->compress.sparse, size = model->indexer.size;

  describe_attention (model, kind, parts);
  describe_pooling (model, parts, 2 * (gint64)ps_model_head_size (model), tokens);
  parts->whole_vectors += tokens * 2 * size + size;
  describe_indexer (model, parts, 4 * size, ps_model_whole_sequence (model) / tokens);
}

static void describe_heavy (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  describe_attention (model, kind, parts);
  describe_pooling (model, parts, ps_model_head_size (model), model->compress.heavy);
}

/* A mixer that carries a state along the sequence: projections in and out, and chunks of tokens between. `width`: what
 * the first projection makes; inner: what the second takes; macs: multiplications for a token between them, of heads.
 */
static void describe_scan (const PsModel *model, PsUnitParts *parts, gint64 width, gint64 inner, gint64 heads,
                           gint64 macs)
{
  gint64 h = model->hidden, ie = inner * ps_precision_bytes (model->precision);

  describe_branch (model, PS_UNIT_MAMBA, parts);
  add_matrix (parts, model, "projection in", h, width, PS_CUT_COLUMNS, FALSE);
  add_matrix (parts, model, "projection out", inner, h, PS_CUT_ROWS, FALSE);
  add_scores (parts, "scan", heads, macs, 0, TRUE);
  keep (parts, "mixer", "projected tokens", width);
  keep (parts, "mixer", "result of scan", inner);
  keep_input (parts, model, "mixer", "result of norm and gate", inner);
  move_both (parts, "norm and gate of scan", 3 * ie, 6 * ie);
}

/* The convolution over the last tokens of `channels`, with SiLU. */
static void describe_convolution (const PsModel *model, PsUnitParts *parts, gint64 channels, gboolean bias)
{
  gint64 bytes = channels * ps_precision_bytes (model->precision);

  parts->cut_vectors += channels * (PS_CONVOLUTION + bias);
  move_both (parts, "convolution", 2 * bytes, 5 * bytes);
}

/* Tokens of a chunk, within which a scan multiplies tokens with tokens. */
#define MAMBA_CHUNK 128
#define DELTA_CHUNK 64
#define LINEAR_CHUNK 256

static void describe_mamba (const PsModel *model, G_GNUC_UNUSED PsUnitKind kind, PsUnitParts *parts)
{
  const PsMamba *mamba = &model->mamba;
  gint64 inner = (gint64)mamba->heads * mamba->head_size, states = (gint64)mamba->groups * mamba->state;

  describe_scan (model, parts, 2 * inner + 2 * states + mamba->heads, inner, mamba->heads,
                 MAMBA_CHUNK * (states + inner) + 2 * mamba->state * inner);
  describe_convolution (model, parts, inner + 2 * states, TRUE);
  parts->cut_vectors += inner + 3 * (gint64)mamba->heads;
}

static void describe_delta (const PsModel *model, G_GNUC_UNUSED PsUnitKind kind, PsUnitParts *parts)
{
  const PsDelta *delta = &model->delta;
  gint64 keys = (gint64)delta->key_heads * delta->key_size, heads = delta->value_heads, k = delta->key_size;
  gint64 v = delta->value_size, values = heads * v, rank = delta->gate_rank;

  describe_scan (model, parts, rank > 0 ? 2 * keys + values + heads : 2 * keys + 2 * values + 2 * heads, values, heads,
                 heads * (DELTA_CHUNK * (3 * k + 2 * v) + 3 * k * v));
  if (rank > 0) {
    add_matrix (parts, model, "decay and gate down", model->hidden, 2 * rank, PS_CUT_NONE, FALSE);
    add_matrix (parts, model, "decay up", rank, keys, PS_CUT_COLUMNS, FALSE);
    add_matrix (parts, model, "gate up", rank, values, PS_CUT_COLUMNS, FALSE);
    keep_input (parts, model, "mixer", "narrow decay and gate", 2 * rank);
    keep (parts, "mixer", "decay and gate", keys + values);
  }
  describe_convolution (model, parts, 2 * keys + values, FALSE);
  parts->cut_vectors += heads + (rank > 0 ? keys : heads);
  parts->whole_vectors += v;
  keep (parts, "mixer", "queries, keys and values", 2 * heads * k + values);
  keep (parts, "mixer", "inverse of a chunk", heads * DELTA_CHUNK);
}

static void describe_linear (const PsModel *model, G_GNUC_UNUSED PsUnitKind kind, PsUnitParts *parts)
{
  gint64 q = ps_model_query_width (model), z = ps_model_head_size (model);

  describe_scan (model, parts, 4 * q, q, model->heads, q * (2 * LINEAR_CHUNK + 2 * z));
  parts->cut_vectors += q;
  keep (parts, "mixer", "queries, keys and values", 3 * q);
}

/* A window may have heads of its own. The encoder's attention is over one image, so a sequence of several images
 * has as many windows. */
const PsModel *ps_unit_model (const PsModel *model, PsUnitKind kind, PsModel *own)
{
  const PsEncoder *encoder = &model->encoder;
  gboolean gpt = encoder->mlp == PS_MLP_GELU;

  if (kind == PS_UNIT_WINDOW && model->window_heads + model->window_kv_heads > 0) {
    *own = *model;
    own->head_size = ps_model_head_size (model);
    own->heads = model->window_heads > 0 ? model->window_heads : model->heads;
    own->kv_heads = model->window_kv_heads > 0 ? model->window_kv_heads : model->kv_heads;
    return own;
  }
  if (kind > PS_UNIT_PROJECTOR)
    return model;
  *own = (PsModel){ .layers = encoder->layers,
                    .hidden = encoder->hidden,
                    .heads = encoder->heads,
                    .kv_heads = encoder->heads,
                    .feed_forward = encoder->feed_forward,
                    .sequence = encoder->images * (kind == PS_UNIT_PROJECTOR ? encoder->results : encoder->sequence),
                    .window = encoder->sequence,
                    .microbatch_size = model->microbatch_size,
                    .precision = model->precision,
                    .mlp = encoder->mlp,
                    .no_biases = encoder->no_biases,
                    .qkv_bias = !gpt && !encoder->no_biases,
                    .other_biases = !gpt && !encoder->no_biases,
                    .no_dropout = TRUE,
                    .flash_attention = model->flash_attention,
                    .whole_sequences = model->whole_sequences,
                    .spread = { .context = model->spread.context },
                    .framework = model->framework,
                    .state = model->state };
  return own;
}

static void describe_patches (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  PsModel room;
  const PsModel *own = ps_unit_model (model, kind, &room);
  gint64 he = (gint64)own->hidden * ps_precision_bytes (own->precision);

  add_matrix (parts, own, "patches", model->encoder.patch, own->hidden, PS_CUT_NONE, FALSE);
  keep_input (parts, own, "encoder", "patches", model->encoder.patch);
  parts->whole_vectors += model->encoder.vectors;
  move_both (parts, "positions of patches", 3 * he, 3 * he);
}

/* An encoder recomputes and offloads nothing. */
static void clear_modules (PsUnitParts *parts)
{
  for (guint i = 0; i < parts->n_kept; i++)
    parts->kept[i].recompute = parts->kept[i].offload = 0;
  for (guint i = 0; i < parts->n_matrices; i++)
    parts->matrix[i].recompute = PS_RECOMPUTE_FULL;
  for (guint i = 0; i < parts->n_moves; i++)
    parts->move[i].recompute = PS_RECOMPUTE_FULL;
  for (guint i = 0; i < parts->n_scores; i++)
    parts->scores[i].recompute = PS_RECOMPUTE_FULL;
}

/* A layer of the encoder has attention and an MLP. */
static void describe_encoder (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  PsModel room;
  const PsModel *own = ps_unit_model (model, kind, &room);

  describe_attention (own, PS_UNIT_WINDOW, parts);
  describe_mlp (own, PS_UNIT_MLP, parts);
  clear_modules (parts);
}

/* A projector has matrices with GELU between them. */
static void describe_projector (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  const PsEncoder *encoder = &model->encoder;
  gint64 rows = encoder->projector_width, e = ps_precision_bytes (model->precision);
  PsModel room;
  const PsModel *own = ps_unit_model (model, kind, &room);

  for (guint i = 1; i <= encoder->projector_layers; i++) {
    gint64 columns = i == encoder->projector_layers ? model->hidden : encoder->projector_hidden;

    add_matrix (parts, own, "projector", rows, columns, PS_CUT_NONE, encoder->projector_bias);
    keep_input (parts, own, "projector", "input of projector", rows);
    if (i > 1) {
      keep (parts, "projector", "input of activation", rows);
      move_both (parts, "GELU of projector", 2 * rows * e, 3 * rows * e);
    }
    rows = columns;
  }
}

/* Modules. */

/* The words that stand alone come first; the modules after them are in the order of their flags. */
static const char *const recompute_words[] = { "none",        "selective", "full", "core_attn", "layernorm",
                                               "mla_up_proj", "moe_act",   "moe",  "mlp",       "shared_experts" };
static const char *const offload_words[]
    = { "none", "attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act" };
static const PsRecompute recompute_kinds[] = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_SELECTIVE, PS_RECOMPUTE_FULL };

/* The modules of the flags: "mla_up_proj+mlp". */
static const char *join_modules (const char *const *words, guint n, guint flags)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < n; i++)
    if (flags & 1U << i)
      g_string_append_printf (text, "%s%s", text->len > 0 ? "+" : "", words[i]);
  return g_intern_string (text->str);
}

/* Sets *flags to the modules in the text and *word to the last of them. The first n_alone words have no flag, and stand
 * alone. */
static gboolean split_modules (const char *where, const char *text, const char *const *words, guint n, guint n_alone,
                               guint *word, guint *flags, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (*text != '\0' ? text : "+", "+", -1);

  *flags = 0;
  for (guint i = 0; parts[i] != NULL; i++) {
    if (!ps_parse_name (where, parts[i], words, n, word, error))
      return FALSE;
    if (*word < n_alone && parts[1] != NULL)
      return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s': %s stands alone", where, text, parts[i]);
    *flags |= *word < n_alone ? 0 : 1U << (*word - n_alone);
  }
  return TRUE;
}

const char *ps_recompute_name (PsRecompute recompute)
{
  guint n = recompute >> PS_RECOMPUTE_LAYERS;
  g_autofree char *full = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (recompute_kinds); i++)
    if (recompute == recompute_kinds[i])
      return recompute_words[i];
  if (!(recompute & PS_RECOMPUTE_FULL))
    return join_modules (recompute_words + G_N_ELEMENTS (recompute_kinds),
                         G_N_ELEMENTS (recompute_words) - G_N_ELEMENTS (recompute_kinds), recompute);
  full = g_strdup_printf ("full:%s=%u", recompute & PS_RECOMPUTE_UNIFORM ? "uniform" : "layers", n);
  return g_intern_string (full);
}

/* "full:layers=4". */
static gboolean parse_full (const char *where, const char *text, PsRecompute *recompute, GError **error)
{
  gboolean uniform = g_str_has_prefix (text, "full:uniform=");
  gint64 n;

  if (!uniform && !g_str_has_prefix (text, "full:layers="))
    return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is not full, full:layers=N or full:uniform=N", where, text);
  if (!ps_parse_integer (where, strchr (text, '=') + 1, 1, PS_MAX_STAGES, &n, error))
    return FALSE;
  *recompute = PS_RECOMPUTE_FULL | (uniform ? PS_RECOMPUTE_UNIFORM : 0) | (guint)n << PS_RECOMPUTE_LAYERS;
  return TRUE;
}

gboolean ps_recompute_parse (const char *where, const char *text, PsRecompute *recompute, GError **error)
{
  guint word;

  if (g_str_has_prefix (text, "full:"))
    return parse_full (where, text, recompute, error);
  if (!split_modules (where, text, recompute_words, G_N_ELEMENTS (recompute_words), G_N_ELEMENTS (recompute_kinds),
                      &word, recompute, error))
    return FALSE;
  if (word < G_N_ELEMENTS (recompute_kinds))
    *recompute = recompute_kinds[word];
  return TRUE;
}

const char *ps_offload_name (guint offload)
{
  return offload == 0 ? offload_words[0] : join_modules (offload_words + 1, G_N_ELEMENTS (offload_words) - 1, offload);
}

gboolean ps_offload_parse (const char *where, const char *text, guint *offload, GError **error)
{
  guint word;

  return split_modules (where, text, offload_words, G_N_ELEMENTS (offload_words), 1, &word, offload, error);
}

guint ps_recompute_layers (PsRecompute recompute, guint n_layers, guint *n_inputs)
{
  guint n = recompute >> PS_RECOMPUTE_LAYERS;
  gboolean full = (recompute & PS_RECOMPUTE_FULL) != 0, uniform = (recompute & PS_RECOMPUTE_UNIFORM) != 0;
  guint again = !full ? 0 : uniform || n == 0 ? n_layers : MIN (n, n_layers);

  *n_inputs = uniform ? (again + n - 1) / n : again;
  return again;
}

#define GPT_SOURCE "arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.1"

#define EXPERTS_KEYS                                                                                                   \
  "experts active_experts expert_feed_forward, shared_experts shared_feed_forward shared_gate dense_layers "           \
  "expert_latent capacity imbalance"

static const PsUnitRow rows[] = {
  [PS_UNIT_PATCHES]
  = { "patches", '\0', FALSE, "encoder_patch, encoder_vectors", "arXiv 2010.11929, section 3.1", describe_patches },
  [PS_UNIT_ENCODER] = { "encoder", 'v', FALSE,
                        "encoder_layers encoder_hidden encoder_heads encoder_feed_forward encoder_sequence "
                        "encoder_results, images encoder_mlp encoder_biases",
                        "arXiv 2010.11929, section 3.1", describe_encoder },
  [PS_UNIT_PROJECTOR] = { "projector", '\0', FALSE, "projector_layers projector_width, projector_hidden projector_bias",
                          "arXiv 2304.08485, section 4.1", describe_projector },
  [PS_UNIT_EMBEDDING] = { "embedding", '\0', FALSE, "vocabulary", GPT_SOURCE, describe_embedding },
  [PS_UNIT_ATTENTION] = { "attention", '*', TRUE, "heads, kv_heads head_size", GPT_SOURCE, describe_attention },
  [PS_UNIT_WINDOW] = { "window attention", 'w', FALSE, "window, window_heads window_kv_heads",
                       "arXiv 2310.06825, section 2", describe_window },
  [PS_UNIT_LATENT] = { "latent attention", '+', TRUE, "kv_rank nope_size value_size, rope_size",
                       "arXiv 2405.04434, section 2.1", describe_attention },
  [PS_UNIT_SPARSE] = { "sparse attention", 'D', TRUE, "index_heads index_size index_top",
                       "arXiv 2512.02556, section 2.1", describe_sparse },
  [PS_UNIT_COMPRESSED] = { "compressed sparse attention", 'C', FALSE, "compressed_tokens",
                           "DeepSeek-V4, section 2.3.1; arXiv 2512.02556, section 2.1", describe_compressed },
  [PS_UNIT_HEAVY] = { "heavily compressed attention", 'H', FALSE, "heavily_compressed_tokens",
                      "DeepSeek-V4, section 2.3.2; arXiv 2512.02556", describe_heavy },
  [PS_UNIT_MAMBA] = { "Mamba-2", 'M', TRUE, "mamba_heads mamba_head_size mamba_state mamba_groups",
                      "arXiv 2405.21060, sections 6 and 7", describe_mamba },
  [PS_UNIT_DELTA] = { "gated delta net", 'G', TRUE, "delta_key_heads delta_key_size delta_value_heads delta_value_size",
                      "arXiv 2412.06464, section 3", describe_delta },
  [PS_UNIT_LINEAR]
  = { "linear attention", 'l', FALSE, "heads, head_size", "arXiv 2501.08313, section 2.2", describe_linear },
  [PS_UNIT_MLP] = { "MLP", '-', TRUE, "feed_forward, mlp", GPT_SOURCE, describe_mlp },
  [PS_UNIT_EXPERTS] = { "experts", 'E', TRUE, EXPERTS_KEYS, "arXiv 2401.06066, section 2", describe_experts },
  [PS_UNIT_MTP] = { "multi-token prediction", '\0', FALSE, "mtp", "arXiv 2412.19437, section 2.2", describe_mtp },
  [PS_UNIT_LOSS] = { "loss", '\0', FALSE, "vocabulary, tied loss", "arXiv 2205.05198, section 4.3", describe_loss },
};

const PsUnitRow *ps_unit_row (PsUnitKind kind)
{
  return &rows[kind];
}

const char *ps_unit_letters (void)
{
  static char letters[PS_N_UNIT_KINDS + 1];
  static gsize once = 0;

  if (g_once_init_enter (&once)) {
    gsize n = 0;

    for (PsUnitKind kind = PS_UNIT_ATTENTION; kind < PS_UNIT_MTP; kind++)
      letters[n++] = rows[kind].letter;
    g_once_init_leave (&once, 1);
  }
  return letters;
}

PsUnitKind ps_unit_find (char letter)
{
  PsUnitKind kind = PS_UNIT_ATTENTION;

  while (kind < PS_UNIT_MTP && rows[kind].letter != letter)
    kind++;
  return kind < PS_UNIT_MTP ? kind : PS_N_UNIT_KINDS;
}

/* Every sum over a stage asks for the same few descriptions, which the numbers of a model determine. */
const PsUnitParts *ps_unit_describe (const PsModel *model, PsUnitKind kind)
{
  static _Thread_local PsModel described;
  static _Thread_local gboolean known[PS_N_UNIT_KINDS];
  static _Thread_local PsUnitParts parts[PS_N_UNIT_KINDS];
  const gsize texts = G_STRUCT_OFFSET (PsModel, layers); /* before the numbers */

  if (memcmp (&described.layers, &model->layers, sizeof *model - texts) != 0) {
    memcpy (&described.layers, &model->layers, sizeof *model - texts);
    memset (known, 0, sizeof known);
  }
  if (!known[kind]) {
    parts[kind] = (PsUnitParts){ 0 };
    rows[kind].describe (model, kind, &parts[kind]);
    known[kind] = TRUE;
  }
  return &parts[kind];
}

/* units.c - the table of the kinds of units, and what a unit of each kind is made of. */
#include "model-private.h"

#include <string.h>

/* Bits of an element that products with weights multiply, as they are kept: of 16 where the precision has no format of
 * its own for them. */
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
                        .cut = cut,
                        .bias = bias,
                        .bits = MIN (ps_number_formats[model->precision].bits, 16),
                        .gradient_bits = product_bits (model) };
  return matrix;
}

static PsKept *keep (PsUnitParts *parts, const char *module, const char *name, gint64 elements)
{
  PsKept *kept = &parts->kept[parts->n_kept++];

  g_assert (parts->n_kept <= G_N_ELEMENTS (parts->kept));
  *kept = (PsKept){ .module = module, .name = name, .elements = elements, .bits = 16 };
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

static void move (PsUnitParts *parts, PsOpKind kind, const char *name, gint64 bytes, gboolean wide)
{
  g_assert (parts->n_moves < G_N_ELEMENTS (parts->move));
  parts->move[parts->n_moves++] = (PsMemoryKernel){ name, kind, bytes, wide };
}

/* The same kernel in F and B. */
static void move_both (PsUnitParts *parts, const char *name, gint64 forward, gint64 backward)
{
  move (parts, PS_OP_F, name, forward, FALSE);
  move (parts, PS_OP_B, name, backward, FALSE);
}

gint64 ps_model_norm_width (const PsModel *model)
{
  return model->mlp == PS_MLP_GELU ? 2 * (gint64)model->hidden : model->hidden;
}

/* Whether the matrices of GPT have biases. */
static gboolean has_biases (const PsModel *model)
{
  return model->mlp == PS_MLP_GELU && !model->no_biases;
}

static void add_norm (const PsModel *model, PsUnitParts *parts)
{
  gint64 h = model->hidden, he = h * ps_precision_bytes (model->precision);

  parts->whole_vectors += ps_model_norm_width (model);
  keep (parts, "layernorm", "input of norm", h)->flags |= PS_KEPT_WIDE;
  move (parts, PS_OP_F, "norm", 2 * he, TRUE);
  move (parts, PS_OP_B, "norm, gradient of input", 3 * he, TRUE);
  move (parts, PS_OP_B, "norm, gradient of parameters", 2 * he, TRUE);
}

/* What every unit of a layer has: a norm before it, a sum after it, and in GPT a bias and dropout before the sum. */
static void describe_branch (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  gint64 h = model->hidden, he = h * ps_precision_bytes (model->precision);
  gboolean again = model->one_norm && (kind == PS_UNIT_MLP || kind == PS_UNIT_EXPERTS);

  if (!again) {
    add_norm (model, parts);
    keep_input (parts, model, "layernorm", "result of norm", h)->flags |= PS_KEPT_WIDE;
  }
  if (model->post_norms)
    add_norm (model, parts);
  move (parts, PS_OP_B, "sum of gradients", 3 * he, TRUE);
  if (model->mlp != PS_MLP_GELU) {
    move (parts, PS_OP_F, "add", 3 * he, TRUE);
    return;
  }
  PsKept *mask = keep (parts, "dropout", "mask", h);
  mask->bits = 8;
  mask->flags |= PS_KEPT_WIDE;
  move (parts, PS_OP_F, "bias, dropout, add", 3 * he + h, TRUE);
  move (parts, PS_OP_B, "dropout", 2 * he + h, TRUE);
  if (has_biases (model))
    move (parts, PS_OP_B, "bias of output", he, TRUE);
}

static void describe_scores (const PsModel *model, PsUnitParts *parts, gint64 width, gint64 most)
{
  gint64 scores = (gint64)model->sequence * model->heads;

  parts->scores[parts->n_scores++] = (PsScores){
    .name = "flash attention", .heads = model->heads, .width = width, .most = most, .flash = model->flash_attention
  };
  if (model->flash_attention)
    return;
  keep (parts, "core_attn", "scores", scores)->flags |= PS_KEPT_SCORES;
  keep (parts, "core_attn", "softmax of scores", scores)->flags |= PS_KEPT_SCORES;
  PsKept *mask = keep (parts, "core_attn", "mask of scores", scores);
  mask->bits = 8;
  mask->flags |= PS_KEPT_SCORES;
}

/* Keys and values of all heads come from one narrow vector. */
static void describe_latent_matrices (const PsModel *model, PsUnitParts *parts)
{
  const PsLatent *latent = &model->latent;
  gint64 h = model->hidden, q = ps_model_query_width (model), v = ps_model_value_width (model);
  gint64 narrow = (gint64)latent->kv_rank + latent->rope_size;

  if (latent->q_rank > 0) {
    add_matrix (parts, model, "query down", h, latent->q_rank, PS_CUT_NONE, model->qkv_bias);
    keep_input (parts, model, "mla_up_proj", "narrow queries after norm", latent->q_rank);
  }
  add_matrix (parts, model, "query up", latent->q_rank > 0 ? latent->q_rank : h, q, PS_CUT_COLUMNS, FALSE);
  add_matrix (parts, model, "key, value down", h, narrow, PS_CUT_NONE, model->qkv_bias);
  add_matrix (parts, model, "key, value up", latent->kv_rank, model->heads * (gint64)latent->nope_size + v,
              PS_CUT_COLUMNS, FALSE);
  parts->whole_vectors += (gint64)latent->q_rank + latent->kv_rank;
  keep (parts, "self_attn", "narrow vectors", latent->q_rank + narrow);
  keep_input (parts, model, "mla_up_proj", "narrow keys and values after norm", latent->kv_rank);
  keep (parts, "mla_up_proj", "queries and keys", 2 * q);
  keep (parts, "mla_up_proj", "values", v);
}

static void describe_heads_matrices (const PsModel *model, PsUnitParts *parts)
{
  gint64 h = model->hidden, q = ps_model_query_width (model), c = ps_model_kv_width (model);
  gint64 rank = model->latent.q_rank;
  gboolean bias = has_biases (model) || model->qkv_bias;

  if (rank > 0) {
    add_matrix (parts, model, "query down", h, rank, PS_CUT_NONE, FALSE);
    add_matrix (parts, model, "query up", rank, q, PS_CUT_COLUMNS, FALSE);
    parts->whole_vectors += rank;
    keep (parts, "self_attn", "narrow queries", rank);
    keep_input (parts, model, "self_attn", "narrow queries after norm", rank);
  }
  add_matrix (parts, model, "query, key, value", h, (rank > 0 ? 0 : q) + 2 * c, PS_CUT_COLUMNS, bias);
  keep (parts, "self_attn", "queries, keys and values", q + 2 * c);
  if (model->qk_norm != PS_QK_NORM_NONE) {
    parts->whole_vectors += model->qk_norm == PS_QK_NORM_HEAD ? 2 * (gint64)ps_model_head_size (model) : 0;
    parts->cut_vectors += model->qk_norm == PS_QK_NORM_WIDE ? q + c : 0;
    keep (parts, "self_attn", "queries and keys after norm", q + c);
  }
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
  add_matrix (parts, model, "output", v, h, PS_CUT_ROWS,
              has_biases (model) || model->other_biases || model->output_bias);
  keep_input (parts, model, "self_attn", "result of attention", v);
  /* Attention runs in 16 bits, and its backward needs its own result. */
  if (product_bits (model) < 16)
    keep (parts, "self_attn", "result of attention in 16 bits", v);
  parts->cut_vectors += model->sinks ? model->heads : 0;
  describe_scores (model, parts, q + v,
                   kind == PS_UNIT_WINDOW   ? model->window
                   : kind == PS_UNIT_SPARSE ? model->indexer.top
                                            : G_MAXINT32);
  if (has_biases (model))
    move (parts, PS_OP_B, "bias of query, key, value", (h + 2 * c) * e, FALSE);
  if (gpt)
    return;
  move_both (parts, "rotation of queries", 2 * q * e, 2 * q * e);
  move_both (parts, "rotation of keys", 2 * c * e, 2 * c * e);
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

/* The activation between the matrices, `f` wide for a token. */
static void describe_activation (const PsModel *model, PsUnitParts *parts, gint64 f)
{
  gboolean gate = model->mlp == PS_MLP_SWIGLU;
  gint64 fe = f * ps_precision_bytes (model->precision);
  const char *name = gate ? "SwiGLU" : model->mlp == PS_MLP_GELU ? "bias, GELU" : "squared ReLU";

  if (has_biases (model))
    move (parts, PS_OP_B, "bias of feed-forward", fe, FALSE);
  move_both (parts, name, (gate ? 3 : 2) * fe, (gate ? 5 : 3) * fe);
}

static void describe_mlp (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  const gint64 h = model->hidden, f = model->feed_forward;

  describe_branch (model, kind, parts);
  keep (parts, "mlp", "input of activation", add_mlp (model, parts, h, f, 1, 1, PS_CUT_NONE)->columns);
  keep_input (parts, model, "mlp_act", "result of activation", f);
  describe_activation (model, parts, f);
  parts->running = 4 * h + 4 * f;
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
  gint64 up = 0;

  describe_branch (model, kind, parts);
  add_matrix (parts, model, "router", h, count, PS_CUT_NONE, model->other_biases);
  keep (parts, "moe", "scores of router, before and after softmax", 2 * count)->bits = 32;
  if (experts->latent > 0) {
    add_matrix (parts, model, "latent down", h, width, PS_CUT_NONE, FALSE);
    add_matrix (parts, model, "latent up", width, h, PS_CUT_NONE, FALSE);
    keep_input (parts, model, "moe", "sum of experts", width);
  }
  PsMatrix *routed = add_mlp (model, parts, width, f, count, experts->active, PS_CUT_EXPERTS);
  routed[0].load = routed[1].load = load;
  up = (gint64)(load * (double)routed->columns);
  if (experts->shared_gate)
    add_matrix (parts, model, "gate of shared experts", h, 1, PS_CUT_NONE, FALSE);
  if (n_shared > 0)
    up += n_shared * add_mlp (model, parts, h, shared, n_shared, n_shared, PS_CUT_NONE)->columns;
  keep_input (parts, model, "moe", "tokens of experts", moved);
  keep (parts, "moe", "input of activation", up);
  keep_input (parts, model, "moe_act", "result of activation", inner);
  keep (parts, "moe", "results before they are weighed", moved);
  describe_activation (model, parts, inner);
  move_both (parts, "softmax of router", 8 * count, 12 * count);
  move_both (parts, "permutation", (width + moved) * e, (width + moved) * e);
  move_both (parts, "weighted sum", (width + moved) * e, (width + 2 * moved) * e);
  parts->running = 2 * h + (gint64)(load * (double)(4 * width + 4 * f));
}

static void describe_embedding (const PsModel *model, G_GNUC_UNUSED PsUnitKind kind, PsUnitParts *parts)
{
  gint64 h = model->hidden, he = h * ps_precision_bytes (model->precision);

  move (parts, PS_OP_F, "embedding", 2 * he, TRUE);
  move (parts, PS_OP_B, "embedding", 3 * he, TRUE);
  if (model->embedding_norm)
    add_norm (model, parts);
  if (model->mlp != PS_MLP_GELU)
    return;
  if (!model->no_positions) {
    parts->whole_vectors += (model->position_rows > 0 ? model->position_rows : model->sequence) * h;
    move (parts, PS_OP_F, "positions", 3 * he, TRUE);
  }
  move (parts, PS_OP_F, "dropout of embedding", 2 * he + h, TRUE);
  move (parts, PS_OP_B, "dropout of embedding", 2 * he + h, TRUE);
}

/* The head: a norm, the output projection, and cross-entropy over logits in fp32. */
static void describe_loss (const PsModel *model, G_GNUC_UNUSED PsUnitKind kind, PsUnitParts *parts)
{
  gint64 h = model->hidden, V = model->vocabulary, e = ps_precision_bytes (model->precision);
  PsMatrix *head = add_matrix (parts, model, "head", h, V, PS_CUT_COLUMNS, FALSE);
  PsKept *logits = keep (parts, "loss", "logits", V);

  head->count = head->gradient_bits = 0;
  head->bits = 16;
  logits->bits = 32;
  logits->flags |= PS_KEPT_WEIGHT;
  parts->whole_vectors += ps_model_norm_width (model);
  keep (parts, "loss", "input of norm", h);
  keep (parts, "loss", "input of head", h)->flags |= PS_KEPT_WEIGHT;
  move (parts, PS_OP_F, "norm of head", 2 * h * e, TRUE);
  move (parts, PS_OP_B, "norm of head", 5 * h * e, TRUE);
  if (e != 4)
    move_both (parts, "conversion of logits", V * (e + 4), V * (e + 4));
  move_both (parts, "cross-entropy", V * 32, V * 8);
}

/* Two norms side by side and a projection before the units of a layer, and the head after them. */
static void describe_mtp (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  gint64 h = model->hidden;

  add_matrix (parts, model, "projection of multi-token prediction", 2 * h, h, PS_CUT_COLUMNS, FALSE)->gradient_bits
      = 16;
  parts->whole_vectors = 2 * ps_model_norm_width (model);
  keep (parts, "mtp", "inputs of norms", 2 * h);
  keep (parts, "mtp", "input of projection", 2 * h)->flags |= PS_KEPT_WEIGHT;
  describe_loss (model, kind, parts);
}

/* The matrices of the lightning indexer, which every GPU of a device computes, and its scores of all tokens. */
static void describe_sparse (const PsModel *model, PsUnitKind kind, PsUnitParts *parts)
{
  const PsIndexer *indexer = &model->indexer;
  gint64 h = model->hidden, queries = (gint64)indexer->heads * indexer->size;
  gint64 e = ps_precision_bytes (model->precision);

  describe_attention (model, kind, parts);
  add_matrix (parts, model, "query of indexer", model->latent.q_rank > 0 ? model->latent.q_rank : h, queries,
              PS_CUT_NONE, FALSE);
  add_matrix (parts, model, "key of indexer", h, indexer->size, PS_CUT_NONE, FALSE);
  add_matrix (parts, model, "weights of indexer", h, indexer->heads, PS_CUT_NONE, FALSE);
  parts->whole_vectors += 2 * (gint64)indexer->size;
  keep (parts, "indexer", "queries, key and weights", queries + indexer->size + indexer->heads);
  keep (parts, "indexer", "tokens selected", indexer->top)->bits = 32;
  parts->scores[parts->n_scores++] = (PsScores){
    .name = "scores of indexer", .heads = indexer->heads, .width = queries, .most = G_MAXINT32, .flash = TRUE
  };
  move_both (parts, "selection of tokens", 4 * (gint64)model->sequence, 0);
  move_both (parts, "rotation of indexer", 2 * (queries + indexer->size) * e, 2 * (queries + indexer->size) * e);
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
  parts->scores[parts->n_scores++]
      = (PsScores){ .name = "scan", .heads = heads, .width = macs, .most = 0, .flash = TRUE };
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

#define GPT_SOURCE "arXiv 1909.08053, section 3; arXiv 2205.05198, section 4.1"

#define EXPERTS_KEYS                                                                                                   \
  "experts active_experts expert_feed_forward, shared_experts shared_feed_forward shared_gate dense_layers "           \
  "expert_latent "                                                                                                     \
  "capacity "                                                                                                          \
  "imbalance"

static const PsUnitRow rows[] = {
  [PS_UNIT_EMBEDDING] = { "embedding", '\0', FALSE, "vocabulary", GPT_SOURCE, describe_embedding },
  [PS_UNIT_ATTENTION] = { "attention", '*', TRUE, "heads, kv_heads head_size", GPT_SOURCE, describe_attention },
  [PS_UNIT_WINDOW] = { "window attention", 'w', FALSE, "window", "arXiv 2310.06825, section 2", describe_attention },
  [PS_UNIT_LATENT] = { "latent attention", '+', TRUE, "kv_rank nope_size value_size, rope_size",
                       "arXiv 2405.04434, section 2.1", describe_attention },
  [PS_UNIT_SPARSE] = { "sparse attention", 'D', TRUE, "index_heads index_size index_top",
                       "arXiv 2512.02556, section 2.1", describe_sparse },
  [PS_UNIT_MAMBA] = { "Mamba-2", 'M', TRUE, "mamba_heads mamba_head_size mamba_state mamba_groups",
                      "arXiv 2405.21060, sections 6 and 7", describe_mamba },
  [PS_UNIT_DELTA] = { "gated delta net", 'G', TRUE, "delta_key_heads delta_key_size delta_value_heads delta_value_size",
                      "arXiv 2412.06464, section 3", describe_delta },
  [PS_UNIT_LINEAR]
  = { "linear attention", 'l', FALSE, "heads, head_size", "arXiv 2501.08313, section 2.2", describe_linear },
  [PS_UNIT_MLP] = { "MLP", '-', TRUE, "feed_forward, mlp", GPT_SOURCE, describe_mlp },
  [PS_UNIT_EXPERTS] = { "experts", 'E', TRUE, EXPERTS_KEYS, "arXiv 2401.06066, section 2", describe_experts },
  [PS_UNIT_MTP] = { "multi-token prediction", '\0', FALSE, "mtp", "arXiv 2412.19437, section 2.2", describe_mtp },
  [PS_UNIT_LOSS] = { "loss", '\0', FALSE, "vocabulary, tied", "arXiv 2205.05198, section 4.3", describe_loss },
};

const PsUnitRow *ps_unit_row (PsUnitKind kind)
{
  return &rows[kind];
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

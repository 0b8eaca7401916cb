/* model.c - models: their fields and what these may say, the cut into stages, and the parameters, operations and bytes
 * of a stage. */
#include <pipesim/model.h>

#include "model-private.h"

#include <math.h>
#include <string.h>

#define MAX_LAYERS PS_MAX_STAGES
#define MAX_WIDTH (1 << 20) /* hidden, feed-forward */
#define MAX_HEADS (1 << 14)
#define MAX_MTP 64
#define MAX_STREAMS 64
#define MAX_PROJECTOR 8 /* matrices of a projector; PsUnitParts has room for them */
#define MAX_EXPERTS (1 << 14)
#define MAX_VOCABULARY (1 << 24)
#define MAX_MICROBATCH_SIZE (1 << 16)
#define MAX_LOAD 1e3 /* capacity, imbalance */

static const char *const precision_names[]
    = { "fp32",      "fp16", "bf16", "fp8", "fp8-block", "mxfp8", "nvfp4", "tensorwise=fp8", "blockwise=fp8-block",
        "fp4=nvfp4", NULL };
static const char *const mlp_names[] = { "gelu", "swiglu", "relu2", NULL };
static const char *const boolean_names[] = { "false", "true", NULL };
static const char *const sinks_names[] = { "false", "true", "window", NULL };
static const char *const qk_norm_names[] = { "false", "true", "wide", NULL };
static const char *const negated_names[] = { "true", "false", NULL };
static const char *const framework_names[] = { "none", "megatron", "deepspeed", "megatron-bridge", NULL };
static const char *const optimizer_names[] = { "adam", "muon", NULL };
static const char *const implementation_names[] = { "fused", "foreach", NULL };
static const char *const dtype_names[] = { "auto", "fp32", "bf16", "fp16", "fp8", NULL };
static const char *const loss_names[] = { "whole", "fused", "chunked", NULL };

#define AT(member) G_STRUCT_OFFSET (PsModel, member)
#define COUNT(key_, presence_, member, high_)                                                                          \
  {                                                                                                                    \
    .key = key_, .presence = presence_, .type = PS_INI_COUNT, .offset = AT (member), .high = high_, .low = 1           \
  }
#define CHOICE(key_, presence_, member, names)                                                                         \
  {                                                                                                                    \
    .key = key_, .presence = presence_, .type = PS_INI_CHOICE, .offset = AT (member), .choices = names                 \
  }

#define LOAD(key_, member, low_, fallback_)                                                                            \
  {                                                                                                                    \
    .key = key_, .presence = PS_INI_LATER, .type = PS_INI_REAL, .offset = AT (member), .high = MAX_LOAD, .low = low_,  \
    .fallback = fallback_                                                                                              \
  }

/* In the order of the text that digests are made of. */
static const PsIniField fields[] = {
  COUNT ("layers", PS_INI_REQUIRED, layers, MAX_LAYERS),
  COUNT ("hidden", PS_INI_REQUIRED, hidden, MAX_WIDTH),
  COUNT ("heads", PS_INI_REQUIRED, heads, MAX_HEADS),
  COUNT ("kv_heads", PS_INI_OPTIONAL, kv_heads, MAX_HEADS),
  COUNT ("sequence", PS_INI_REQUIRED, sequence, PS_MAX_SEQUENCE),
  COUNT ("feed_forward", PS_INI_OPTIONAL, feed_forward, 4.0 * MAX_WIDTH),
  COUNT ("vocabulary", PS_INI_REQUIRED, vocabulary, MAX_VOCABULARY),
  COUNT ("microbatch_size", PS_INI_REQUIRED, microbatch_size, MAX_MICROBATCH_SIZE),
  CHOICE ("precision", PS_INI_REQUIRED, precision, precision_names),
  CHOICE ("mlp", PS_INI_REQUIRED, mlp, mlp_names),
  CHOICE ("flash_attention", PS_INI_REQUIRED, flash_attention, boolean_names),
  CHOICE ("main_grads_dtype", PS_INI_LATER, state.main_grads, dtype_names),
  COUNT ("head_size", PS_INI_LATER, head_size, MAX_WIDTH),
  CHOICE ("sequence_parallel", PS_INI_LATER, whole_sequences, negated_names),
  CHOICE ("tied", PS_INI_LATER, tied, boolean_names),
  CHOICE ("qkv_bias", PS_INI_LATER, qkv_bias, boolean_names),
  CHOICE ("other_biases", PS_INI_LATER, other_biases, boolean_names),
  CHOICE ("qk_norm", PS_INI_LATER, qk_norm, qk_norm_names),
  COUNT ("window", PS_INI_LATER, window, MAX_WIDTH),
  COUNT ("full_every", PS_INI_LATER, full_every, MAX_LAYERS),
  COUNT ("mtp", PS_INI_LATER, mtp, MAX_MTP),
  COUNT ("kv_rank", PS_INI_LATER, latent.kv_rank, MAX_WIDTH),
  COUNT ("q_rank", PS_INI_LATER, latent.q_rank, MAX_WIDTH),
  COUNT ("nope_size", PS_INI_LATER, latent.nope_size, MAX_WIDTH),
  COUNT ("rope_size", PS_INI_LATER, latent.rope_size, MAX_WIDTH),
  COUNT ("value_size", PS_INI_LATER, latent.value_size, MAX_WIDTH),
  COUNT ("experts", PS_INI_LATER, experts.count, MAX_EXPERTS),
  COUNT ("active_experts", PS_INI_LATER, experts.active, MAX_EXPERTS),
  COUNT ("shared_experts", PS_INI_LATER, experts.shared, MAX_EXPERTS),
  COUNT ("expert_feed_forward", PS_INI_LATER, experts.feed_forward, 4.0 * MAX_WIDTH),
  COUNT ("dense_layers", PS_INI_LATER, experts.dense_layers, MAX_LAYERS),
  COUNT ("context_gpus", PS_INI_LATER, spread.context, PS_MAX_GPUS),
  COUNT ("expert_gpus", PS_INI_LATER, spread.experts, PS_MAX_GPUS),
  CHOICE ("framework", PS_INI_LATER, framework, framework_names),
  LOAD ("capacity", experts.capacity, 1 / MAX_LOAD, 0),
  LOAD ("imbalance", experts.imbalance, 1, 1),
  { .key = "pattern", .presence = PS_INI_LATER, .type = PS_INI_TEXT, .offset = AT (pattern) },
  CHOICE ("attention_gate", PS_INI_LATER, attention_gate, boolean_names),
  CHOICE ("sinks", PS_INI_LATER, sinks, sinks_names),
  COUNT ("expert_latent", PS_INI_LATER, experts.latent, MAX_WIDTH),
  COUNT ("shared_feed_forward", PS_INI_LATER, experts.shared_width, 4.0 * MAX_WIDTH),
  CHOICE ("shared_gate", PS_INI_LATER, experts.shared_gate, boolean_names),
  COUNT ("mamba_heads", PS_INI_LATER, mamba.heads, MAX_HEADS),
  COUNT ("mamba_head_size", PS_INI_LATER, mamba.head_size, MAX_WIDTH),
  COUNT ("mamba_state", PS_INI_LATER, mamba.state, MAX_WIDTH),
  COUNT ("mamba_groups", PS_INI_LATER, mamba.groups, MAX_HEADS),
  COUNT ("delta_key_heads", PS_INI_LATER, delta.key_heads, MAX_HEADS),
  COUNT ("delta_key_size", PS_INI_LATER, delta.key_size, MAX_WIDTH),
  COUNT ("delta_value_heads", PS_INI_LATER, delta.value_heads, MAX_HEADS),
  COUNT ("delta_value_size", PS_INI_LATER, delta.value_size, MAX_WIDTH),
  COUNT ("index_heads", PS_INI_LATER, indexer.heads, MAX_HEADS),
  COUNT ("index_size", PS_INI_LATER, indexer.size, MAX_WIDTH),
  COUNT ("index_top", PS_INI_LATER, indexer.top, PS_MAX_SEQUENCE),
  COUNT ("delta_gate_rank", PS_INI_LATER, delta.gate_rank, MAX_WIDTH),
  CHOICE ("output_bias", PS_INI_LATER, output_bias, boolean_names),
  CHOICE ("post_norms", PS_INI_LATER, post_norms, boolean_names),
  CHOICE ("one_norm", PS_INI_LATER, one_norm, boolean_names),
  CHOICE ("biases", PS_INI_LATER, no_biases, negated_names),
  CHOICE ("positions", PS_INI_LATER, no_positions, negated_names),
  COUNT ("position_rows", PS_INI_LATER, position_rows, PS_MAX_SEQUENCE + 2),
  CHOICE ("embedding_norm", PS_INI_LATER, embedding_norm, boolean_names),
  CHOICE ("optimizer", PS_INI_LATER, state.optimizer, optimizer_names),
  CHOICE ("optimizer_implementation", PS_INI_LATER, state.implementation, implementation_names),
  CHOICE ("main_params_dtype", PS_INI_LATER, state.main_params, dtype_names),
  CHOICE ("exp_avg_dtype", PS_INI_LATER, state.exp_avg, dtype_names),
  CHOICE ("exp_avg_sq_dtype", PS_INI_LATER, state.exp_avg_sq, dtype_names),
  CHOICE ("fp8_param_gather", PS_INI_LATER, state.fp8_param_gather, boolean_names),
  CHOICE ("activation_func_fp8_input_store", PS_INI_LATER, fp8_input_store, boolean_names),
  COUNT ("value_head_size", PS_INI_LATER, value_head_size, MAX_WIDTH),
  CHOICE ("shared_kv", PS_INI_LATER, shared_kv, boolean_names),
  COUNT ("output_groups", PS_INI_LATER, output_groups, MAX_HEADS),
  COUNT ("output_rank", PS_INI_LATER, output_rank, MAX_WIDTH),
  COUNT ("streams", PS_INI_LATER, streams, MAX_STREAMS),
  COUNT ("window_heads", PS_INI_LATER, window_heads, MAX_HEADS),
  COUNT ("window_kv_heads", PS_INI_LATER, window_kv_heads, MAX_HEADS),
  COUNT ("compressed_tokens", PS_INI_LATER, compress.sparse, MAX_WIDTH),
  COUNT ("heavily_compressed_tokens", PS_INI_LATER, compress.heavy, MAX_WIDTH),
  CHOICE ("loss", PS_INI_LATER, loss, loss_names),
  CHOICE ("dropout", PS_INI_LATER, no_dropout, negated_names),
  COUNT ("images", PS_INI_LATER, encoder.images, PS_MAX_SEQUENCE),
  COUNT ("encoder_layers", PS_INI_LATER, encoder.layers, MAX_LAYERS),
  COUNT ("encoder_hidden", PS_INI_LATER, encoder.hidden, MAX_WIDTH),
  COUNT ("encoder_heads", PS_INI_LATER, encoder.heads, MAX_HEADS),
  COUNT ("encoder_feed_forward", PS_INI_LATER, encoder.feed_forward, 4.0 * MAX_WIDTH),
  CHOICE ("encoder_mlp", PS_INI_LATER, encoder.mlp, mlp_names),
  CHOICE ("encoder_biases", PS_INI_LATER, encoder.no_biases, negated_names),
  COUNT ("encoder_sequence", PS_INI_LATER, encoder.sequence, PS_MAX_SEQUENCE),
  COUNT ("encoder_results", PS_INI_LATER, encoder.results, PS_MAX_SEQUENCE),
  COUNT ("encoder_patch", PS_INI_LATER, encoder.patch, MAX_WIDTH),
  COUNT ("encoder_vectors", PS_INI_LATER, encoder.vectors, G_MAXINT),
  COUNT ("projector_layers", PS_INI_LATER, encoder.projector_layers, MAX_PROJECTOR),
  COUNT ("projector_width", PS_INI_LATER, encoder.projector_width, MAX_WIDTH),
  COUNT ("projector_hidden", PS_INI_LATER, encoder.projector_hidden, MAX_WIDTH),
  CHOICE ("projector_bias", PS_INI_LATER, encoder.projector_bias, boolean_names),
};

const PsIniField *ps_model_fields (guint *n)
{
  *n = G_N_ELEMENTS (fields);
  return fields;
}

PsModel *ps_model_copy (const PsModel *model)
{
  PsModel *copy = g_memdup2 (model, sizeof *model);

  copy->name = g_strdup (model->name);
  copy->pattern = g_strdup (model->pattern);
  copy->unread = g_strdup (model->unread);
  return copy;
}

void ps_model_free (PsModel *model)
{
  if (model == NULL)
    return;
  g_free (model->name);
  g_free (model->pattern);
  g_free (model->unread);
  g_free (model);
}

/* The two functions of an enumeration whose names are a list that fields have, too. */
#define DEFINE_NAMES(Type, prefix, names)                                                                              \
  const char *prefix##_name (Type value)                                                                               \
  {                                                                                                                    \
    g_return_val_if_fail ((guint)value < G_N_ELEMENTS (names) - 1, NULL);                                              \
    return names[value];                                                                                               \
  }                                                                                                                    \
                                                                                                                       \
  gboolean prefix##_parse (const char *where, const char *text, Type *value, GError **error)                           \
  {                                                                                                                    \
    return ps_parse_name (where, text, names, G_N_ELEMENTS (names) - 1, value, error);                                 \
  }

DEFINE_NAMES (PsPrecision, ps_precision, precision_names)
DEFINE_NAMES (PsFramework, ps_framework, framework_names)
DEFINE_NAMES (PsOptimizer, ps_optimizer, optimizer_names)
DEFINE_NAMES (PsImplementation, ps_implementation, implementation_names)
DEFINE_NAMES (PsDtype, ps_dtype, dtype_names)
DEFINE_NAMES (PsLoss, ps_loss, loss_names)

gboolean ps_model_set_precision (PsModel *model, const char *where, const char *text, GError **error)
{
  PsPrecision own = model->precision;

  if (text == NULL)
    return TRUE;
  if (!ps_precision_parse (where, text, &model->precision, error))
    return FALSE;
  g_autofree char *name = model->name;
  model->name = model->precision == own ? g_strdup (name)
                                        : g_strdup_printf ("%s in %s", name, ps_precision_name (model->precision));
  return TRUE;
}

static double field_value (const PsModel *model, const PsIniField *field)
{
  gconstpointer place = G_STRUCT_MEMBER_P (model, field->offset);

  return field->type == PS_INI_REAL   ? *(const double *)place
         : field->type == PS_INI_TEXT ? *(char *const *)place != NULL
                                      : *(const guint *)place;
}

void ps_model_set_field (PsModel *model, const PsIniField *field, double value)
{
  gpointer place = G_STRUCT_MEMBER_P (model, field->offset);

  if (field->type == PS_INI_REAL)
    *(double *)place = value;
  else
    *(guint *)place = (guint)value;
}

const char *ps_model_special_key (const PsModel *model)
{
  static const char *const harmless[] = { "main_grads_dtype", "sequence_parallel", "imbalance", "framework", NULL };

  if (model->mlp > PS_MLP_SWIGLU)
    return "mlp = relu2";
  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    if (fields[i].presence == PS_INI_LATER && field_value (model, &fields[i]) > 0
        && !g_strv_contains (harmless, fields[i].key))
      return fields[i].key;
  return NULL;
}

void ps_model_fill_defaults (PsModel *model)
{
  if (model->kv_heads == 0)
    model->kv_heads = model->heads;
  if (model->feed_forward == 0)
    model->feed_forward = 4 * model->hidden;
  if (model->head_size == model->hidden / model->heads && model->hidden % model->heads == 0)
    model->head_size = 0;
}

/* The units of a stage, and sums over them. */

/* The mixer and the feed-forward of a layer without a pattern. */
static void usual_units (const PsModel *model, guint layer, PsUnitKind kinds[2])
{
  gboolean window = model->window > 0 && (model->full_every == 0 || (layer + 1) % model->full_every != 0);

  kinds[0] = window                      ? PS_UNIT_WINDOW
             : model->latent.kv_rank > 0 ? (model->indexer.heads > 0 ? PS_UNIT_SPARSE : PS_UNIT_LATENT)
                                         : PS_UNIT_ATTENTION;
  kinds[1] = model->experts.count > 0 && layer >= model->experts.dense_layers ? PS_UNIT_EXPERTS : PS_UNIT_MLP;
}

guint ps_model_layer_units (const PsModel *model, guint layer, PsUnitKind kinds[2])
{
  if (model->pattern == NULL) {
    usual_units (model, MIN (layer, model->layers - 1), kinds);
    return 2;
  }
  /* After the "/" stand the units of a module of multi-token prediction, else they are the last layer's. */
  guint length = (guint)strcspn (model->pattern, "/"), n = length / model->layers;
  gboolean after = layer >= model->layers && model->pattern[length] == '/';
  const char *at = model->pattern + (after ? length + 1 : MIN (layer, model->layers - 1) * n);
  n = after ? (guint)strlen (at) : n;
  for (guint i = 0; i < n; i++)
    kinds[i] = ps_unit_find (at[i]);
  return n;
}

char *ps_model_pattern (const PsModel *model)
{
  GString *pattern = g_string_new (NULL);
  PsUnitKind kinds[2];

  for (guint layer = 0; layer < model->layers + (model->mtp > 0); layer++) {
    g_string_append (pattern, layer == model->layers ? "/" : "");
    for (guint i = 0, n = ps_model_layer_units (model, layer, kinds); i < n; i++)
      g_string_append_c (pattern, ps_unit_row (kinds[i])->letter);
  }
  return g_string_free (pattern, FALSE);
}

char *ps_model_megatron_pattern (const PsModel *model)
{
  return g_strdelimit (ps_model_pattern (model), "w", model->latent.kv_rank > 0 ? '+' : '*');
}

char *ps_model_hybrid_pattern (const PsModel *model)
{
  PsUnitKind kinds[2];

  return ps_model_layer_units (model, 0, kinds) == 1 ? ps_model_pattern (model) : NULL;
}

void ps_model_unfold (PsModel *model)
{
  char *pattern = ps_model_pattern (model);

  g_free (model->pattern);
  model->pattern = pattern;
  model->layers = (guint)strcspn (pattern, "/");
}

/* Layers from this one on that are known to have the same units. */
static guint count_alike (const PsModel *model, guint layer)
{
  if (model->pattern != NULL || model->full_every > 0)
    return 1;
  return layer < model->experts.dense_layers ? model->experts.dense_layers - layer : G_MAXUINT;
}

static void count_layer (const PsModel *model, guint layer, guint times, guint count[PS_N_UNIT_KINDS])
{
  PsUnitKind kinds[2];

  for (guint i = 0, n = ps_model_layer_units (model, layer, kinds); i < n; i++)
    count[kinds[i]] += times;
}

/* Whether the last layer of the encoder is in the stage. */
static gboolean ends_encoder (const PsModel *model, const PsStageShape *shape)
{
  return shape->n_encoder > 0 && shape->first_encoder + shape->n_encoder == model->encoder.layers;
}

void ps_model_count_units (const PsModel *model, const PsStageShape *shape, guint count[PS_N_UNIT_KINDS])
{
  memset (count, 0, PS_N_UNIT_KINDS * sizeof *count);
  for (guint i = 0, n; i < shape->n_layers; i += n) {
    n = MIN (count_alike (model, shape->first_layer + i), shape->n_layers - i);
    count_layer (model, shape->first_layer + i, n, count);
  }
  if (shape->n_mtp > 0)
    count_layer (model, model->layers, shape->n_mtp, count);
  count[PS_UNIT_PATCHES] = shape->n_encoder > 0 && shape->first_encoder == 0;
  count[PS_UNIT_ENCODER] = shape->n_encoder;
  count[PS_UNIT_PROJECTOR] = ends_encoder (model, shape);
  count[PS_UNIT_MTP] = shape->n_mtp;
  count[PS_UNIT_EMBEDDING] = shape->embedding;
  count[PS_UNIT_LOSS] = shape->head;
}

gint64 ps_model_sum_units (const PsModel *model, const PsStageShape *shape, PsUnitFigure figure, guint what)
{
  guint count[PS_N_UNIT_KINDS];
  PsModel own;
  gint64 sum = 0;

  ps_model_count_units (model, shape, count);
  for (PsUnitKind kind = 0; kind < PS_N_UNIT_KINDS; kind++)
    if (count[kind] > 0)
      sum += count[kind] * figure (ps_unit_model (model, kind, &own), ps_unit_describe (model, kind), what);
  return sum;
}

gint64 ps_matrix_parameters (const PsMatrix *matrix)
{
  return matrix->rows * matrix->columns + (matrix->bias ? matrix->columns : 0);
}

static gint64 sum_parameters (G_GNUC_UNUSED const PsModel *model, const PsUnitParts *parts, G_GNUC_UNUSED guint flags)
{
  gint64 sum = parts->whole_vectors + parts->cut_vectors;

  for (guint i = 0; i < parts->n_matrices; i++)
    sum += parts->matrix[i].count * ps_matrix_parameters (&parts->matrix[i]);
  return sum;
}

/* Parameters of matrices that a token does not visit. */
static gint64 sum_idle (G_GNUC_UNUSED const PsModel *model, const PsUnitParts *parts, G_GNUC_UNUSED guint flags)
{
  gint64 sum = 0;

  for (guint i = 0; i < parts->n_matrices; i++)
    sum += MAX (parts->matrix[i].count - parts->matrix[i].active, 0) * ps_matrix_parameters (&parts->matrix[i]);
  return sum;
}

/* Vocabulary matrices that a stage holds: one for an embedding and modules of multi-token prediction, and one for
 * losses. Tied ones are one matrix. */
static guint count_vocabulary_matrices (const PsModel *model, const PsStageShape *shape)
{
  gboolean in = shape->embedding || shape->n_mtp > 0, out = shape->head > 0;

  return model->tied ? in || out : in + out;
}

gint64 ps_model_stage_parameters (const PsModel *model, const PsStageShape *shape)
{
  return ps_model_sum_units (model, shape, sum_parameters, 0)
         + count_vocabulary_matrices (model, shape) * (gint64)model->vocabulary * model->hidden;
}

gint64 ps_model_parameters (const PsModel *model)
{
  const PsStageShape all = ps_model_whole (model);

  return ps_model_stage_parameters (model, &all);
}

gint64 ps_model_active_parameters (const PsModel *model)
{
  PsStageShape all = ps_model_whole (model);

  all.n_mtp = 0;
  all.head = 1;
  return ps_model_stage_parameters (model, &all) - ps_model_sum_units (model, &all, sum_idle, 0);
}

/* Multiplications of a token with weights in F, B or W. */
static gint64 sum_products (const PsUnitParts *parts, PsOpKind kind)
{
  gint64 sum = 0;

  for (guint i = 0; i < parts->n_matrices; i++) {
    const PsMatrix *matrix = &parts->matrix[i];

    sum += __builtin_popcount (matrix->passes[kind]) * matrix->active * matrix->rows * matrix->columns;
  }
  return sum;
}

/* Multiplications of a token with other tokens. */
static gint64 sum_scores (const PsModel *model, const PsUnitParts *parts)
{
  gint64 sum = 0;

  for (guint i = 0; i < parts->n_scores; i++) {
    const PsScores *scores = &parts->scores[i];

    sum += scores->width * (scores->most > 0 ? MIN (scores->most, model->sequence) : 1);
  }
  return sum;
}

/* What fields may say. */

static const PsIniField *find_field (const char *key, gsize length)
{
  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    if (strncmp (fields[i].key, key, length) == 0 && fields[i].key[length] == '\0')
      return &fields[i];
  g_return_val_if_reached (NULL);
}

/* Keys of a kind: those that it needs, then after a comma others. */
static char *find_missing_key (const PsModel *model, const char **key)
{
  const PsStageShape all = ps_model_whole (model);
  guint count[PS_N_UNIT_KINDS];

  ps_model_count_units (model, &all, count);
  for (PsUnitKind kind = 0; kind < PS_N_UNIT_KINDS; kind++) {
    const PsUnitRow *row = ps_unit_row (kind);
    gsize n_needed = strcspn (row->keys, ",");
    gboolean any = count[kind] > 0;

    *key = NULL;
    for (const char *word = row->keys; *word != '\0'; word += strspn (word, ", ")) {
      gsize length = strcspn (word, ", ");
      const PsIniField *field = find_field (word, length);
      gboolean given = field_value (model, field) > field->fallback;

      any |= given;
      if (!given && *key == NULL && word < row->keys + n_needed)
        *key = field->key;
      word += length;
    }
    if (any && *key != NULL) {
      g_autoptr (GString) list = g_string_new_len (row->keys, (gssize)n_needed);

      g_string_replace (list, " ", ", ", 0);
      return g_strdup_printf ("missing; a unit of %s needs %s", row->name, list->str);
    }
  }
  return NULL;
}

/* A pattern has one or two letters for each layer, and after a "/" one or two for multi-token prediction. */
static char *find_pattern_misfit (const PsModel *model, const char **key)
{
  const char *pattern = model->pattern != NULL ? model->pattern : "";
  gsize n = strcspn (pattern, "/"), n_mtp = strlen (pattern) - n;

  *key = "pattern";
  for (gsize i = 0; i < n + n_mtp; i++)
    if (i != n && ps_unit_find (pattern[i]) == PS_N_UNIT_KINDS)
      return g_strdup_printf ("letter %" G_GSIZE_FORMAT " is no unit; the units are %s", i + 1, ps_unit_letters ());
  if (n_mtp > 0 && (n_mtp == 1 || n_mtp > 3 || model->mtp == 0))
    return g_strdup ("after / stand one or two units of multi-token prediction, which mtp counts");
  if (strchr (pattern, '*') != NULL && model->latent.kv_rank > 0)
    return g_strdup ("has *, heads of keys and values, but kv_rank says latent attention, +");
  if (strchr (pattern, 'C') != NULL && model->indexer.heads == 0)
    return g_strdup ("has C, whose entries an indexer selects; give index_heads");
  if (model->pattern != NULL && n != model->layers && n != 2 * (gsize)model->layers)
    return g_strdup_printf ("has %" G_GSIZE_FORMAT " letters; %u layers have one each, or two", n, model->layers);
  return NULL;
}

static char *find_encoder_misfit (const PsModel *model, const char **key)
{
  const PsEncoder *encoder = &model->encoder;

  *key = "encoder_heads";
  if (encoder->layers > 0 && encoder->hidden % encoder->heads != 0)
    return g_strdup_printf ("%u does not divide encoder_hidden %u", encoder->heads, encoder->hidden);
  *key = "projector_hidden";
  if (encoder->projector_layers > 1 && encoder->projector_hidden == 0)
    return g_strdup_printf ("missing; a projector of %u layers needs it", encoder->projector_layers);
  *key = "images";
  if (encoder->images > 0 && encoder->layers == 0)
    return g_strdup_printf ("%u need an encoder, which encoder_layers describes", encoder->images);
  if ((guint64)encoder->images * encoder->results > model->sequence)
    return g_strdup_printf ("%u of %u tokens each do not fit into sequences of %u", encoder->images, encoder->results,
                            model->sequence);
  return NULL;
}

/* Checks figures of the whole model in floating point. Where they stay below the limits of base.h no integer formula
 * overflows. The figures of one unit never overflow. */
static char *find_magnitude (const PsModel *model, const char **key)
{
  const PsStageShape all = ps_model_whole (model);
  double products = 0, bits = 0;
  double parameters = 2.0 * model->vocabulary * model->hidden;
  guint count[PS_N_UNIT_KINDS];
  PsModel room;

  ps_model_count_units (model, &all, count);
  for (PsUnitKind kind = 0; kind < PS_N_UNIT_KINDS; kind++)
    if (count[kind] > 0) {
      const PsModel *own = ps_unit_model (model, kind, &room);
      const PsUnitParts *parts = ps_unit_describe (model, kind);
      double tokens = (double)own->sequence * own->microbatch_size * count[kind];

      parameters += (double)count[kind] * (double)sum_parameters (own, parts, 0);
      products += tokens * (double)(sum_products (parts, PS_OP_B) + sum_scores (own, parts));
      for (guint i = 0; i < parts->n_kept; i++)
        bits += tokens * (double)parts->kept[i].elements * 64;
    }
  *key = 18 * parameters > (double)PS_MAX_SIZE_BYTES ? "hidden" : "microbatch_size";
  if (18 * parameters > (double)PS_MAX_SIZE_BYTES)
    return g_strdup_printf ("%u makes about %.3g parameters with %u layers, more than pipesim can hold", model->hidden,
                            parameters, model->layers);
  if (10 * products > (double)G_MAXINT64 / 2)
    return g_strdup_printf ("%u makes about %.3g operations per microbatch, more than pipesim can hold",
                            model->microbatch_size, 10 * products);
  if (bits / 8 > (double)PS_MAX_SIZE_BYTES)
    return g_strdup_printf ("%u makes about %.3g bytes of activations, more than pipesim can hold",
                            model->microbatch_size, bits / 8);
  return NULL;
}

char *ps_model_find_misfit (const PsModel *model, const char **key)
{
  *key = "heads";
  if (model->head_size == 0 && model->hidden % model->heads != 0)
    return g_strdup_printf ("%u does not divide hidden %u", model->heads, model->hidden);
  *key = "kv_heads";
  if (model->heads % model->kv_heads != 0)
    return g_strdup_printf ("%u does not divide heads %u", model->kv_heads, model->heads);
  guint window_heads = model->window_heads > 0 ? model->window_heads : model->heads;
  guint window_kv = model->window_kv_heads > 0 ? model->window_kv_heads : model->kv_heads;
  *key = "window_kv_heads";
  if (window_heads % window_kv != 0)
    return g_strdup_printf ("%u does not divide the %u heads of windows", window_kv, window_heads);
  *key = "output_groups";
  if (model->output_groups > 0 && (ps_model_value_width (model) % model->output_groups != 0 || model->output_rank == 0))
    return g_strdup_printf ("%u groups need output_rank, and divide the width of values", model->output_groups);
  *key = "full_every";
  if (model->full_every > 0 && model->window == 0)
    return g_strdup ("there is no window that some layers do without");
  *key = "active_experts";
  if (model->experts.active > model->experts.count && model->experts.count > 0)
    return g_strdup_printf ("%u is more than experts %u", model->experts.active, model->experts.count);
  *key = "dense_layers";
  if (model->experts.dense_layers > model->layers)
    return g_strdup_printf ("%u is more than layers %u", model->experts.dense_layers, model->layers);
  char *message = find_pattern_misfit (model, key);
  if (message == NULL)
    message = find_missing_key (model, key);
  if (message == NULL)
    message = find_encoder_misfit (model, key);
  return message != NULL ? message : find_magnitude (model, key);
}

PsModel *ps_model_parse_ini (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (PsIni) ini = ps_ini_parse (where, text, length, "model", fields, G_N_ELEMENTS (fields), error);
  g_autoptr (PsModel) model = g_new0 (PsModel, 1);
  const char *key;

  if (ini == NULL)
    return NULL;
  model->name = ps_ini_name (ini);
  ps_ini_fields (ini, fields, G_N_ELEMENTS (fields), model);
  if (!ps_ini_finish (ini, error))
    return NULL;
  ps_model_fill_defaults (model);
  g_autofree char *misfit = ps_model_find_misfit (model, &key);
  if (misfit != NULL)
    ps_ini_fail (ini, key, "%s", misfit);
  return ps_ini_finish (ini, error) ? g_steal_pointer (&model) : NULL;
}

gboolean ps_model_resize (PsModel *model, guint microbatch_size, guint sequence, guint images, GError **error)
{
  const char *key;

  if (microbatch_size > 0)
    model->microbatch_size = microbatch_size;
  if (sequence > 0)
    model->sequence = sequence;
  if (images > 0)
    model->encoder.images = images;
  g_autofree char *unfit = find_encoder_misfit (model, &key);
  g_autofree char *misfit = unfit != NULL ? g_steal_pointer (&unfit) : find_magnitude (model, &key);
  return misfit == NULL || ps_refuse (error, PS_ERROR_USAGE, "model '%s': %s %s", model->name, key, misfit);
}

static gboolean check_cut (const PsModel *model, guint n_slices, guint n_sharing, GError **error)
{
  guint units = model->sequence / n_sharing;

  if (model->encoder.images > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--slices %u: the images of model '%s' cannot be cut", n_slices,
                      model->name);
  return units >= n_slices
         || ps_refuse (error, PS_ERROR_USAGE,
                       "--slices %u: the %u tokens of a sequence of model '%s' make at most %u slices that %u GPUs "
                       "share",
                       n_slices, model->sequence, model->name, units, n_sharing);
}

guint *ps_model_cut_equal (const PsModel *model, guint n_slices, guint n_sharing, GError **error)
{
  guint64 units = model->sequence / n_sharing;

  if (!check_cut (model, n_slices, n_sharing, error))
    return NULL;
  guint *tokens = g_new (guint, n_slices);
  for (guint k = 0; k < n_slices; k++)
    tokens[k] = (guint)(units * (k + 1) / n_slices - units * k / n_slices) * n_sharing;
  tokens[n_slices - 1] += model->sequence % n_sharing;
  return tokens;
}

gboolean ps_model_check_slices (const PsModel *model, const guint *tokens, guint n_slices, guint n_sharing,
                                GError **error)
{
  guint64 sum = 0;

  if (!check_cut (model, n_slices, n_sharing, error))
    return FALSE;
  for (guint k = 0; k < n_slices; sum += tokens[k++])
    if (tokens[k] % n_sharing != 0)
      return ps_refuse (error, PS_ERROR_USAGE, "--slices: slice %u of %u tokens: %u GPUs share it; give a multiple",
                        k + 1, tokens[k], n_sharing);
  return sum == model->sequence
         || ps_refuse (error, PS_ERROR_USAGE,
                       "--slices: the slices have %" G_GUINT64_FORMAT " tokens; sequences of model '%s' have %u", sum,
                       model->name, model->sequence);
}

void ps_model_slice (PsModel *model, const guint *tokens, guint n_slices, guint slice)
{
  for (guint k = 0; k < n_slices; k++)
    *(k < slice ? &model->before : &model->after) += k == slice ? 0 : tokens[k];
  model->sequence = tokens[slice];
}

/* Everything but the name. */
static void append_fields (GString *text, const PsModel *model)
{
  for (guint i = 0; i < G_N_ELEMENTS (fields); i++) {
    const PsIniField *field = &fields[i];
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    double value = field_value (model, field);

    /* A model made by code has 0 where it says nothing. */
    if (field->presence == PS_INI_LATER && (value == field->fallback || value < field->low))
      continue;
    g_string_append_printf (text, "%s = %s\n", field->key,
                            field->type == PS_INI_CHOICE ? field->choices[(guint)value]
                            : field->type == PS_INI_TEXT ? G_STRUCT_MEMBER (char *, model, field->offset)
                                                         : g_ascii_dtostr (number, sizeof number, value));
  }
}

char *ps_model_digest (const PsModel *model)
{
  g_autoptr (GString) text = g_string_new (NULL);

  append_fields (text, model);
  return g_compute_checksum_for_string (G_CHECKSUM_SHA256, text->str, -1);
}

char *ps_model_to_text (const PsModel *model)
{
  GString *text = g_string_new ("[model]\n");

  g_string_append_printf (text, "name = %s\n", model->name);
  append_fields (text, model);
  return g_string_free (text, FALSE);
}

/* With no more stages than layers the first stages have a layer more where they are not even. Else units stand alone,
 * but for the first two and the last ones as far as they have to. */
gboolean ps_model_split (const PsModel *model, guint n_stages, PsStageShape *shapes, GError **error)
{
  guint n_units = 0, layers = model->layers, before = ps_model_encoder_layers (model);
  g_autofree PsStageShape *units = ps_model_units (model, &n_units);
  g_autofree guint *end = g_new (guint, n_stages);

  g_return_val_if_fail (n_stages >= 1, FALSE);
  n_units -= before;
  if (n_stages > n_units)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "model '%s': its %u layers, embedding and loss cannot be cut into %u stages (devices times "
                      "chunks)",
                      model->name, layers, n_stages);
  for (guint s = 0; s < n_stages; s++)
    end[s] = before
             + (n_stages > layers ? s + 1 + (n_units > n_stages)
                                  : 1 + (s + 1) * (layers / n_stages) + MIN (s + 1, layers % n_stages));
  end[n_stages - 1] = before + n_units;
  ps_stage_shapes_join (units, end, n_stages, shapes);
  return TRUE;
}

gboolean ps_stage_shapes_are_even (const PsStageShape *shapes, guint n_stages)
{
  const PsStageShape *last = &shapes[n_stages - 1];
  guint n_layers = last->first_layer + last->n_layers;

  for (guint s = 0; s < n_stages; s++)
    if (shapes[s].n_layers != n_layers / n_stages + (s < n_layers % n_stages) || shapes[s].embedding != (s == 0)
        || (shapes[s].head > 0) != (s + 1 == n_stages) || (shapes[s].n_mtp > 0 && s + 1 < n_stages))
      return FALSE;
  return n_layers >= n_stages;
}

PsStageShape *ps_model_units (const PsModel *model, guint *n)
{
  guint n_encoder = ps_model_encoder_layers (model), i = 0;
  PsStageShape *units = g_new0 (PsStageShape, n_encoder + model->layers + model->mtp + 2);

  for (guint layer = 0; layer < n_encoder; layer++)
    units[i++] = (PsStageShape){ .first_encoder = layer, .n_encoder = 1 };
  units[i++].embedding = TRUE;
  for (guint layer = 0; layer < model->layers; layer++)
    units[i++] = (PsStageShape){ .first_layer = layer, .n_layers = 1 };
  for (guint module = 0; module < model->mtp; module++)
    units[i++] = (PsStageShape){ .first_layer = model->layers, .n_mtp = 1 };
  units[i++] = (PsStageShape){ .first_layer = model->layers, .head = 1 + model->mtp };
  *n = i;
  return units;
}

void ps_stage_shapes_join (const PsStageShape *units, const guint *end, guint n_stages, PsStageShape *shapes)
{
  for (guint s = 0, unit = 0; s < n_stages; s++) {
    shapes[s] = (PsStageShape){ .first_layer = units[unit].first_layer, .first_encoder = units[unit].first_encoder };
    for (; unit < end[s]; unit++) {
      shapes[s].n_encoder += units[unit].n_encoder;
      shapes[s].embedding |= units[unit].embedding;
      shapes[s].n_layers += units[unit].n_layers;
      shapes[s].n_mtp += units[unit].n_mtp;
      shapes[s].head += units[unit].head;
    }
  }
}

char *ps_stage_shape_key (const PsStageShape *shape)
{
  g_autofree char *encoder = shape->n_encoder > 0 ? g_strdup_printf (",encoder=%u", shape->n_encoder) : g_strdup ("");
  g_autofree char *mtp = shape->n_mtp > 0 ? g_strdup_printf (",mtp=%u", shape->n_mtp) : g_strdup ("");
  gboolean all = shape->head == 1 + shape->n_mtp;
  g_autofree char *head
      = shape->head > 0 && !all ? g_strdup_printf (",head=%u", shape->head) : g_strdup (all ? ",head" : "");
  char ratio[G_ASCII_DTOSTR_BUF_SIZE];
  g_autofree char *offload = shape->offload > 0
                                 ? g_strconcat (",offload=", g_ascii_dtostr (ratio, sizeof ratio, shape->offload), NULL)
                                 : g_strdup ("");
  g_autofree char *tensor = shape->n_tensor > 1 ? g_strdup_printf (",tensor=%u", shape->n_tensor) : g_strdup ("");

  return g_strdup_printf ("layers=%u%s%s%s%s%s%s%s%s", shape->n_layers, encoder, shape->embedding ? ",embedding" : "",
                          mtp, head, shape->recompute != PS_RECOMPUTE_NONE ? ",recompute=" : "",
                          shape->recompute != PS_RECOMPUTE_NONE ? ps_recompute_name (shape->recompute) : "", offload,
                          tensor);
}

/* Scores and values are two products in F and four in B; W has none. */
static gint64 sum_multiplications (const PsModel *model, const PsUnitParts *parts, guint kind)
{
  gint64 tokens = ps_model_tokens (model), scores = sum_scores (model, parts);

  switch ((PsOpKind)kind) {
  case PS_OP_F:
  case PS_OP_R:
    return tokens * (sum_products (parts, PS_OP_F) + scores);
  case PS_OP_B:
    return tokens * (sum_products (parts, PS_OP_B) + 2 * scores);
  case PS_OP_W:
    return tokens * sum_products (parts, PS_OP_W);
  case PS_OP_BW:
    return tokens * (sum_products (parts, PS_OP_B) + sum_products (parts, PS_OP_W) + 2 * scores);
  default:
    g_return_val_if_reached (0);
  }
}

gint64 ps_model_stage_flops (const PsModel *model, const PsStageShape *shape, PsOpKind kind)
{
  return 2 * ps_model_sum_units (model, shape, sum_multiplications, kind);
}

/* The bytes that stages keep, hand on and hold. */

/* Bytes of a microbatch: bits for a token where elements have 16, and bits of what is fp32 at any precision. Bits are
 * multiples of 1/4, and so their sums are exact. */
static gint64 token_bytes (const PsModel *model, double bits, double fp32_bits)
{
  gint64 tokens = ps_model_tokens (model);

  return tokens * (gint64)(bits / 8) * ps_precision_bytes (model->precision) / 2 + tokens * (gint64)(fp32_bits / 8);
}

gint64 ps_unit_kept_bytes (const PsModel *model, const PsUnitParts *parts, guint what)
{
  const guint flags = what & (PS_KEPT_BUT (1U) - 1);
  double bits[2] = { 0, 0 };

  for (guint i = 0; i < parts->n_kept; i++) {
    const PsKept *kept = &parts->kept[i];
    gboolean dropped = (PS_KEPT_BUT (kept->recompute) & what) != 0;
    gboolean moved = what < PS_KEPT_MOVED (1) || (PS_KEPT_MOVED (kept->offload) & what) != 0;

    if ((kept->flags & flags) == flags && !dropped && moved)
      bits[kept->bits >= 32] += (double)kept->elements * kept->bits;
  }
  return token_bytes (model, bits[0], bits[1]);
}

/* W multiplies the input of every matrix by the gradient of its output. */
static gint64 weight_bytes (const PsModel *model, const PsUnitParts *parts, guint flags)
{
  double bits = 0;

  for (guint i = 0; i < parts->n_matrices; i++)
    bits += trunc (parts->matrix[i].load * (double)parts->matrix[i].columns) * parts->matrix[i].gradient_bits;
  return ps_unit_kept_bytes (model, parts, flags) + token_bytes (model, bits, 0);
}

gint64 ps_model_stage_weight_activation_bytes (const PsModel *model, const PsStageShape *shape)
{
  return MIN (ps_model_sum_units (model, shape, weight_bytes, PS_KEPT_WEIGHT),
              ps_model_sum_units (model, shape, ps_unit_kept_bytes, 0));
}

gint64 ps_model_sum_kept (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint what)
{
  guint n_inputs, n_again = ps_recompute_layers (recompute, shape->n_layers, &n_inputs);
  const PsStageShape layers = { .first_layer = shape->first_layer, .n_layers = n_again };
  gint64 inputs = what & ~(guint)PS_KEPT_WIDE ? 0 : n_inputs * ps_model_layer_bytes (model);

  if (!(recompute & PS_RECOMPUTE_FULL))
    return ps_model_sum_units (model, shape, ps_unit_kept_bytes, what | PS_KEPT_BUT (recompute));
  return ps_model_sum_units (model, shape, ps_unit_kept_bytes, what)
         - ps_model_sum_units (model, &layers, ps_unit_kept_bytes, what) + inputs;
}

gint64 ps_model_stage_kept_bytes (const PsModel *model, const PsStageShape *shape, PsRecompute recompute)
{
  return ps_model_sum_kept (model, shape, recompute, 0);
}

void ps_model_modules (const PsModel *model, PsRecompute *recompute, guint *offload)
{
  const PsStageShape all = ps_model_whole (model);
  guint count[PS_N_UNIT_KINDS];

  ps_model_count_units (model, &all, count);
  *recompute = *offload = 0;
  for (PsUnitKind kind = PS_UNIT_ATTENTION; kind <= PS_UNIT_EXPERTS; kind++)
    if (count[kind] > 0) {
      const PsUnitParts *parts = ps_unit_describe (model, kind);

      for (guint i = 0; i < parts->n_kept; i++) {
        *recompute |= parts->kept[i].recompute & PS_RECOMPUTE_MODULES;
        *offload |= parts->kept[i].offload;
      }
      for (guint i = 0; i < parts->n_scores; i++)
        *recompute |= parts->scores[i].recompute & PS_RECOMPUTE_MODULES;
    }
}

guint ps_model_recompute_sets (const PsModel *model, PsRecompute *sets)
{
  PsRecompute has, cheap;
  guint n = 0, offload;

  ps_model_modules (model, &has, &offload);
  cheap = has & (PS_RECOMPUTE_LAYERNORM | PS_RECOMPUTE_MLA_UP_PROJ | PS_RECOMPUTE_MOE_ACT);
  if (!model->flash_attention)
    cheap |= has & PS_RECOMPUTE_CORE_ATTN;
  sets[n++] = PS_RECOMPUTE_NONE;
  if (cheap == PS_RECOMPUTE_NONE)
    cheap = has & PS_RECOMPUTE_MLP;
  if (cheap != PS_RECOMPUTE_NONE)
    sets[n++] = cheap;
  sets[n++] = PS_RECOMPUTE_FULL;
  return n;
}

double ps_model_moved_part (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint offload)
{
  return (double)ps_model_sum_kept (model, shape, recompute, PS_KEPT_MOVED (offload))
         / (double)MAX (ps_model_sum_kept (model, shape, recompute, 0), 1);
}

gint64 ps_model_boundary_bytes (const PsModel *model)
{
  return ps_model_tokens (model) * model->hidden * ps_precision_bytes (model->precision);
}

gint64 ps_model_layer_bytes (const PsModel *model)
{
  return MAX (model->streams, 1) * ps_model_boundary_bytes (model);
}

gint64 ps_model_stage_output_bytes (const PsModel *model, const PsStageShape *shape)
{
  gboolean whole = ends_encoder (model, shape);
  PsModel own;

  if (shape->n_encoder == 0 || shape->embedding)
    return shape->n_mtp * ps_model_boundary_bytes (model)
           + (shape->n_layers > 0 ? ps_model_layer_bytes (model) : ps_model_boundary_bytes (model));
  ps_unit_model (model, whole ? PS_UNIT_PROJECTOR : PS_UNIT_ENCODER, &own);
  own.hidden = whole ? model->hidden : own.hidden;
  return ps_model_boundary_bytes (&own);
}

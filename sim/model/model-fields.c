/* model-fields.c - the fields of a model, and what they may say. */
#include <pipesim/model.h>

#include "model-private.h"
#include "base/names.h"

#define MAX_LAYERS PS_MAX_STAGES
#define MAX_WIDTH (1 << 20) /* hidden, feed-forward */
#define MAX_HEADS (1 << 14)
#define MAX_EXPERTS (1 << 14)
#define MAX_VOCABULARY (1 << 24)
#define MAX_MICROBATCH_SIZE (1 << 16)
#define MAX_LOAD 1e3 /* capacity, imbalance */

static const char *const precision_names[] = { "fp32", "fp16", "bf16", "fp8", "fp4", NULL };
static const char *const mlp_names[] = { "gelu", "swiglu", NULL };
static const char *const boolean_names[] = { "false", "true", NULL };
static const char *const negated_names[] = { "true", "false", NULL };
static const char *const framework_names[] = { "none", "megatron", "deepspeed", NULL };
PS_DEFINE_NAMES (PsRecompute, ps_recompute, "none", "selective", "full")

#define AT(member) G_STRUCT_OFFSET (PsModel, member)
#define COUNT(key, presence, member, high, config)                                                                     \
  {                                                                                                                    \
    key, presence, PS_FIELD_COUNT, AT (member), high, 1, 0, NULL, config                                               \
  }
#define CHOICE(key, presence, member, names, config)                                                                   \
  {                                                                                                                    \
    key, presence, PS_FIELD_CHOICE, AT (member), 0, 0, 0, names, config                                                \
  }

/* In the order of the text that digests are made of. */
static const PsModelField fields[] = {
  COUNT ("layers", PS_FIELD_REQUIRED, layers, MAX_LAYERS, "num_hidden_layers n_layer"),
  COUNT ("hidden", PS_FIELD_REQUIRED, hidden, MAX_WIDTH, "hidden_size n_embd n_embed"),
  COUNT ("heads", PS_FIELD_REQUIRED, heads, MAX_HEADS, "num_attention_heads n_head"),
  COUNT ("kv_heads", PS_FIELD_OPTIONAL, kv_heads, MAX_HEADS, "num_key_value_heads"),
  COUNT ("sequence", PS_FIELD_REQUIRED, sequence, PS_MAX_SEQUENCE, "max_position_embeddings n_positions seq_length"),
  COUNT ("feed_forward", PS_FIELD_OPTIONAL, feed_forward, 4.0 * MAX_WIDTH, "intermediate_size n_inner"),
  COUNT ("vocabulary", PS_FIELD_REQUIRED, vocabulary, MAX_VOCABULARY, "vocab_size"),
  COUNT ("microbatch_size", PS_FIELD_REQUIRED, microbatch_size, MAX_MICROBATCH_SIZE, ""),
  CHOICE ("precision", PS_FIELD_REQUIRED, precision, precision_names, ""),
  CHOICE ("mlp", PS_FIELD_REQUIRED, mlp, mlp_names, ""),
  CHOICE ("flash_attention", PS_FIELD_REQUIRED, flash_attention, boolean_names, ""),
  CHOICE ("fp32_gradients", PS_FIELD_LATER, fp32_gradients, boolean_names, ""),
  COUNT ("head_size", PS_FIELD_LATER, head_size, MAX_WIDTH, "head_dim"),
  CHOICE ("sequence_parallel", PS_FIELD_LATER, whole_sequences, negated_names, ""),
  CHOICE ("tied", PS_FIELD_LATER, tied, boolean_names, "tie_word_embeddings"),
  CHOICE ("qkv_bias", PS_FIELD_LATER, qkv_bias, boolean_names, "attention_bias qkv_bias"),
  CHOICE ("other_biases", PS_FIELD_LATER, other_biases, boolean_names, ""),
  CHOICE ("qk_norm", PS_FIELD_LATER, qk_norm, boolean_names, "use_qk_norm"),
  COUNT ("window", PS_FIELD_LATER, window, MAX_WIDTH, "sliding_window"),
  COUNT ("full_every", PS_FIELD_LATER, full_every, MAX_LAYERS, ""),
  COUNT ("mtp", PS_FIELD_LATER, mtp, 64, "num_nextn_predict_layers"),
  COUNT ("kv_rank", PS_FIELD_LATER, latent.kv_rank, MAX_WIDTH, "kv_lora_rank"),
  COUNT ("q_rank", PS_FIELD_LATER, latent.q_rank, MAX_WIDTH, "q_lora_rank"),
  COUNT ("nope_size", PS_FIELD_LATER, latent.nope_size, MAX_WIDTH, "qk_nope_head_dim"),
  COUNT ("rope_size", PS_FIELD_LATER, latent.rope_size, MAX_WIDTH, "qk_rope_head_dim"),
  COUNT ("value_size", PS_FIELD_LATER, latent.value_size, MAX_WIDTH, "v_head_dim"),
  COUNT ("experts", PS_FIELD_LATER, experts.count, MAX_EXPERTS, "n_routed_experts num_experts num_local_experts"),
  COUNT ("active_experts", PS_FIELD_LATER, experts.active, MAX_EXPERTS, "num_experts_per_tok"),
  COUNT ("shared_experts", PS_FIELD_LATER, experts.shared, MAX_EXPERTS, "n_shared_experts"),
  COUNT ("expert_feed_forward", PS_FIELD_LATER, experts.feed_forward, 4.0 * MAX_WIDTH, "moe_intermediate_size"),
  COUNT ("dense_layers", PS_FIELD_LATER, experts.dense_layers, MAX_LAYERS, "first_k_dense_replace"),
  COUNT ("context_gpus", PS_FIELD_LATER, spread.context, PS_MAX_GPUS, ""),
  COUNT ("expert_gpus", PS_FIELD_LATER, spread.experts, PS_MAX_GPUS, ""),
  CHOICE ("framework", PS_FIELD_LATER, framework, framework_names, ""),
  { "capacity", PS_FIELD_LATER, PS_FIELD_REAL, AT (experts.capacity), MAX_LOAD, 1 / MAX_LOAD, 0, NULL, "" },
  { "imbalance", PS_FIELD_LATER, PS_FIELD_REAL, AT (experts.imbalance), MAX_LOAD, 1, 1, NULL, "" },
};

const PsModelField *
ps_model_fields (guint *n)
{
  *n = G_N_ELEMENTS (fields);
  return fields;
}

PsModel *
ps_model_copy (const PsModel *model)
{
  PsModel *copy = g_memdup2 (model, sizeof *model);

  copy->name = g_strdup (model->name);
  return copy;
}

void
ps_model_free (PsModel *model)
{
  if (model == NULL)
    return;
  g_free (model->name);
  g_free (model);
}

const char *
ps_precision_name (PsPrecision precision)
{
  g_return_val_if_fail ((guint)precision <= PS_PRECISION_FP4, NULL);
  return precision_names[precision];
}

gboolean
ps_precision_parse (const char *where, const char *text, PsPrecision *precision, GError **error)
{
  return ps_parse_name (where, text, precision_names, G_N_ELEMENTS (precision_names) - 1, precision, error);
}

gboolean
ps_model_set_precision (PsModel *model, const char *where, const char *text, GError **error)
{
  PsPrecision own = model->precision;

  if (text == NULL)
    return TRUE;
  if (!ps_precision_parse (where, text, &model->precision, error))
    return FALSE;
  g_autofree char *name = model->name;
  model->name = model->precision == own ? g_strdup (name) : g_strdup_printf ("%s in %s", name, text);
  return TRUE;
}

guint
ps_precision_bytes (PsPrecision precision)
{
  return precision == PS_PRECISION_FP32 ? 4 : 2;
}

double
ps_model_field_value (const PsModel *model, const PsModelField *field)
{
  gconstpointer place = G_STRUCT_MEMBER_P (model, field->offset);

  return field->type == PS_FIELD_REAL ? *(const double *)place : *(const guint *)place;
}

void
ps_model_set_field (PsModel *model, const PsModelField *field, double value)
{
  gpointer place = G_STRUCT_MEMBER_P (model, field->offset);

  if (field->type == PS_FIELD_REAL)
    *(double *)place = value;
  else
    *(guint *)place = (guint)value;
}

static gboolean
is_among (const gsize *offsets, guint n, gsize offset)
{
  for (guint i = 0; i < n; i++)
    if (offsets[i] == offset)
      return TRUE;
  return FALSE;
}

const char *
ps_model_special_key (const PsModel *model)
{
  static const gsize harmless[] = { AT (fp32_gradients), AT (whole_sequences), AT (experts.imbalance), AT (framework) };

  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    if (fields[i].presence == PS_FIELD_LATER && ps_model_field_value (model, &fields[i]) > 0
        && !is_among (harmless, G_N_ELEMENTS (harmless), fields[i].offset))
      return fields[i].key;
  return NULL;
}

void
ps_model_fill_defaults (PsModel *model)
{
  if (model->kv_heads == 0)
    model->kv_heads = model->heads;
  if (model->feed_forward == 0)
    model->feed_forward = 4 * model->hidden;
  if (model->head_size == model->hidden / model->heads && model->hidden % model->heads == 0)
    model->head_size = 0;
}

/* An upper bound of every figure derived from a model, in floating point: where it stays below the limits of base.h no
 * integer formula can overflow. The bounds are coarse: every matrix of a layer counted, 3 for F, B and W, 2 for B + W
 * in BW, 64 bytes per element of an activation. */
static char *
find_magnitude (const PsModel *model, const char **key)
{
  const PsLatent *latent = &model->latent;
  const PsExperts *experts = &model->experts;
  double h = model->hidden, V = model->vocabulary, layers = (double)model->layers + model->mtp, s = model->sequence;
  double q = (double)ps_model_query_width (model) + (double)model->heads * latent->value_size;
  double rank = (double)latent->q_rank + latent->kv_rank, tokens = s * model->microbatch_size;
  double wide = model->feed_forward + ((double)experts->count + experts->shared) * experts->feed_forward;
  double load = (experts->active + experts->shared) * (experts->capacity + experts->imbalance);
  double parameters = layers * (4 * h * q + 3 * rank * (h + q) + 3 * h * wide + h * experts->count + 16 * (h + wide))
                      + ((2 + model->mtp) * V + s + 2 + 2 * model->mtp * h) * h;
  double flops = 10 * tokens * (parameters + layers * 4 * s * q) * (1 + load);
  double bytes = tokens
                 * (layers
                        * (64 * (h + q + rank + model->feed_forward + load * (h + experts->feed_forward))
                           + 10 * s * model->heads)
                    + (1 + model->mtp) * 8 * (h + V));

  *key = 18 * parameters > (double)PS_MAX_SIZE_BYTES ? "hidden" : "microbatch_size";
  if (18 * parameters > (double)PS_MAX_SIZE_BYTES)
    return g_strdup_printf ("%u makes about %.3g parameters with %u layers, more than pipesim can hold", model->hidden,
                            parameters, model->layers);
  if (flops > (double)G_MAXINT64 / 2)
    return g_strdup_printf ("%u makes about %.3g operations per microbatch, more than pipesim can hold",
                            model->microbatch_size, flops);
  if (bytes > (double)PS_MAX_SIZE_BYTES)
    return g_strdup_printf ("%u makes about %.3g bytes of activations, more than pipesim can hold",
                            model->microbatch_size, bytes);
  return NULL;
}

static char *
find_latent_misfit (const PsLatent *latent, const char **key)
{
  gboolean any = latent->q_rank || latent->nope_size || latent->rope_size || latent->value_size;

  *key = latent->kv_rank == 0 ? "kv_rank" : latent->nope_size == 0 ? "nope_size" : "value_size";
  if (latent->kv_rank == 0 ? any : latent->nope_size == 0 || latent->value_size == 0)
    return g_strdup ("missing; latent attention needs kv_rank, nope_size and value_size");
  return NULL;
}

static char *
find_experts_misfit (const PsModel *model, const char **key)
{
  const PsExperts *experts = &model->experts;
  gboolean any = experts->active || experts->shared || experts->feed_forward || experts->dense_layers
                 || experts->capacity > 0 || experts->imbalance > 1;

  *key = experts->count == 0 ? "experts" : experts->active == 0 ? "active_experts" : "expert_feed_forward";
  if (experts->count == 0 ? any : experts->active == 0 || experts->feed_forward == 0)
    return g_strdup ("missing; a mixture needs experts, active_experts and expert_feed_forward");
  *key = "active_experts";
  if (experts->active > experts->count)
    return g_strdup_printf ("%u is more than experts %u", experts->active, experts->count);
  *key = "dense_layers";
  if (experts->dense_layers > model->layers)
    return g_strdup_printf ("%u is more than layers %u", experts->dense_layers, model->layers);
  return NULL;
}

char *
ps_model_find_misfit (const PsModel *model, const char **key)
{
  *key = "heads";
  if (model->head_size == 0 && model->hidden % model->heads != 0)
    return g_strdup_printf ("%u does not divide hidden %u", model->heads, model->hidden);
  *key = "kv_heads";
  if (model->heads % model->kv_heads != 0)
    return g_strdup_printf ("%u does not divide heads %u", model->kv_heads, model->heads);
  *key = "full_every";
  if (model->full_every > 0 && model->window == 0)
    return g_strdup ("there is no window that some layers do without");
  char *message = find_latent_misfit (&model->latent, key);
  if (message == NULL)
    message = find_experts_misfit (model, key);
  return message != NULL ? message : find_magnitude (model, key);
}

gboolean
ps_model_resize (PsModel *model, guint microbatch_size, guint sequence, GError **error)
{
  const char *key;

  if (microbatch_size > 0)
    model->microbatch_size = microbatch_size;
  if (sequence > 0)
    model->sequence = sequence;
  g_autofree char *misfit = find_magnitude (model, &key);
  return misfit == NULL || ps_refuse (error, PS_ERROR_USAGE, "model '%s': %s %s", model->name, key, misfit);
}

gboolean
ps_model_slice (PsModel *model, guint n_slices, guint slice, guint n_sharing, GError **error)
{
  guint64 units = model->sequence / n_sharing;
  guint from = (guint)(units * slice / n_slices) * n_sharing, to = (guint)(units * (slice + 1) / n_slices) * n_sharing;

  if (units < n_slices)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--slices %u: the %u tokens of a sequence of model '%s' make at most %" G_GUINT64_FORMAT
                      " slices that %u GPUs share",
                      n_slices, model->sequence, model->name, units, n_sharing);
  model->before += from;
  model->sequence = to - from;
  return TRUE;
}

/* model-config.c - reads the config.json that Hugging Face's transformers describe a model with. */
#include "model-private.h"

#include "json/json-reader.h"
#include "text.h"

#include <string.h>

/* The keys hold no sequence to train with, only the longest. Longer ones are cut to this. */
#define USUAL_SEQUENCE 4096

/* The architectures that the formulas hold for, and what is not in their keys. */
typedef struct
{
  const char *model_type;
  PsMlp mlp;
  gboolean tied; /* unless the key says otherwise */
  gboolean qkv_bias;
  gboolean qk_norm;
} Architecture;

static const Architecture architectures[] = {
  { "bloom", PS_MLP_GELU, TRUE, FALSE, FALSE },          { "deepseek_v2", PS_MLP_SWIGLU, FALSE, FALSE, FALSE },
  { "deepseek_v3", PS_MLP_SWIGLU, FALSE, FALSE, FALSE }, { "gpt2", PS_MLP_GELU, TRUE, FALSE, FALSE },
  { "gpt_oss", PS_MLP_SWIGLU, FALSE, TRUE, FALSE },      { "kimi_k2", PS_MLP_SWIGLU, FALSE, FALSE, FALSE },
  { "llama", PS_MLP_SWIGLU, FALSE, FALSE, FALSE },       { "mistral", PS_MLP_SWIGLU, FALSE, FALSE, FALSE },
  { "mixtral", PS_MLP_SWIGLU, FALSE, FALSE, FALSE },     { "qwen2", PS_MLP_SWIGLU, FALSE, TRUE, FALSE },
  { "qwen2_moe", PS_MLP_SWIGLU, FALSE, TRUE, FALSE },    { "qwen3", PS_MLP_SWIGLU, FALSE, FALSE, TRUE },
  { "qwen3_moe", PS_MLP_SWIGLU, FALSE, FALSE, TRUE },
};

/* The model that a file describes, and keys of the file that are no fields of a model. */
typedef struct
{
  const char *where;
  PsModel *model;
  const PsModelField *fields;
  guint n_fields;
  gboolean *seen; /* [n_fields] */
  char *model_type;
  char *dtype;
  gint64 shared_width;  /* of the feed-forward of all shared experts; 0: not given */
  gint64 experts_every; /* layers to a layer with experts; 0: not given */
  gboolean no_window;
  gboolean some_full;   /* layer_types names a layer without window */
  gboolean some_window; /* and one with it */
} Config;

static void
config_clear (Config *config)
{
  g_free (config->model_type);
  g_free (config->dtype);
  g_free (config->seen);
  ps_model_free (config->model);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Config, config_clear)

static gboolean
refuse (const Config *config, const char *key, const char *message, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: %s", config->where, key, message);
}

static gboolean
is_named (const PsModelField *field, const char *key)
{
  g_auto (GStrv) names = g_strsplit (field->config, " ", -1);

  return *field->config != '\0' && g_strv_contains ((const char *const *)names, key);
}

static gboolean
read_field (Config *config, guint index, const char *key, PsJsonReader *reader, GError **error)
{
  const PsModelField *field = &config->fields[index];
  g_autofree char *message = g_strdup_printf ("expected an integer from 0 to %.0f", field->high);
  gint64 integer = 0;
  gboolean flag;

  if (g_str_has_prefix (reader->at, "null"))
    {
      ps_json_skip_value (reader);
      return TRUE;
    }
  if (field->type == PS_FIELD_CHOICE)
    {
      if (!ps_json_read_boolean (reader, &flag))
        return refuse (config, key, "expected true or false", error);
      integer = flag;
    }
  else if (!ps_json_read_integer (reader, &integer) || integer < 0 || (double)integer > field->high)
    return refuse (config, key, message, error);
  config->seen[index] = TRUE;
  ps_model_set_field (config->model, field, (double)integer);
  return TRUE;
}

/* A window of some layers: the n-th, 2n-th, ... do without. */
static gboolean
read_layer_types (Config *config, PsJsonReader *reader, GError **error)
{
  const char *type;
  guint every = 0;

  if (!ps_json_enter_array (reader))
    return refuse (config, "layer_types", "expected an array", error);
  for (guint i = 1; ps_json_next_element (reader); i++)
    {
      if (!ps_json_read_text (reader, &type))
        return refuse (config, "layer_types", "expected texts", error);
      gboolean full = g_str_equal (type, "full_attention");
      if (!full && !g_str_equal (type, "sliding_attention"))
        return refuse (config, "layer_types", "only full_attention and sliding_attention are known", error);
      if (full && every == 0)
        every = i;
      if (full != (every > 0 && i % every == 0))
        return refuse (config, "layer_types", "layers with full_attention do not come at equal distances", error);
      config->some_full |= full;
      config->some_window |= !full;
    }
  config->model->full_every = every;
  return TRUE;
}

static gboolean
read_text (Config *config, const char *key, PsJsonReader *reader, char **text, GError **error)
{
  const char *value;

  if (!ps_json_read_text (reader, &value))
    return refuse (config, key, "expected a text", error);
  g_free (*text);
  *text = g_strdup (value);
  return TRUE;
}

static gboolean
read_integer (Config *config, const char *key, PsJsonReader *reader, gint64 *value, GError **error)
{
  return (ps_json_read_integer (reader, value) && *value >= 0 && *value <= G_MAXINT)
         || refuse (config, key, "expected an integer", error);
}

static gboolean
read_key (Config *config, const char *key, PsJsonReader *reader, GError **error)
{
  gboolean flag = TRUE;

  for (guint i = 0; i < config->n_fields; i++)
    if (is_named (&config->fields[i], key))
      return read_field (config, i, key, reader, error);
  if (g_str_equal (key, "model_type"))
    return read_text (config, key, reader, &config->model_type, error);
  if (g_str_equal (key, "torch_dtype") || g_str_equal (key, "dtype"))
    return read_text (config, key, reader, &config->dtype, error);
  if (g_str_equal (key, "shared_expert_intermediate_size"))
    return read_integer (config, key, reader, &config->shared_width, error);
  if (g_str_equal (key, "moe_layer_freq") || g_str_equal (key, "decoder_sparse_step"))
    return read_integer (config, key, reader, &config->experts_every, error);
  if (g_str_equal (key, "layer_types"))
    return read_layer_types (config, reader, error);
  if (g_str_equal (key, "use_sliding_window") && ps_json_read_boolean (reader, &flag))
    config->no_window = !flag;
  else
    ps_json_skip_value (reader);
  return TRUE;
}

static gboolean
read_config (Config *config, const char *text, gsize length, GError **error)
{
  g_auto (PsJsonReader) reader = { 0 };
  const char *key;

  if (!ps_json_reader_init (&reader, config->where, text, (gssize)length, error))
    return FALSE;
  g_return_val_if_fail (ps_json_enter_object (&reader), FALSE);
  while ((key = ps_json_next_key (&reader)) != NULL)
    {
      g_autofree char *name = g_strdup (key);

      if (!read_key (config, name, &reader, error))
        return FALSE;
    }
  return TRUE;
}

static const Architecture *
find_architecture (const Config *config, GError **error)
{
  g_autoptr (GString) known = g_string_new (NULL);
  g_autofree char *quoted = ps_text_quote (config->model_type != NULL ? config->model_type : "");

  for (guint i = 0; i < G_N_ELEMENTS (architectures); i++)
    {
      if (g_strcmp0 (config->model_type, architectures[i].model_type) == 0)
        return &architectures[i];
      g_string_append_printf (known, " %s", architectures[i].model_type);
    }
  return ps_refuse_null (error, PS_ERROR_INPUT, "%s: model_type: %s is not known; known are:%s", config->where, quoted,
                         known->str);
}

static gboolean
set_precision (Config *config, GError **error)
{
  static const struct
  {
    const char *dtype;
    PsPrecision precision;
  } rows[] = { { "bfloat16", PS_PRECISION_BF16 }, { "float16", PS_PRECISION_FP16 }, { "float32", PS_PRECISION_FP32 } };

  config->model->precision = PS_PRECISION_BF16;
  if (config->dtype == NULL)
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (g_str_equal (config->dtype, rows[i].dtype))
      {
        config->model->precision = rows[i].precision;
        return TRUE;
      }
  return refuse (config, "torch_dtype", "expected bfloat16, float16 or float32", error);
}

static gboolean
was_seen (const Config *config, gsize offset)
{
  for (guint i = 0; i < config->n_fields; i++)
    if (config->fields[i].offset == offset)
      return config->seen[i];
  return FALSE;
}

/* Widths of experts go by another key in some architectures, and windows may be switched off. */
static void
fill_experts (Config *config)
{
  PsExperts *experts = &config->model->experts;

  if (experts->count == 0)
    *experts = (PsExperts){ .imbalance = 1 };
  if (experts->count == 0)
    return;
  if (experts->feed_forward == 0)
    experts->feed_forward = config->model->feed_forward;
  if (experts->feed_forward > 0 && config->shared_width > 0)
    experts->shared = (guint)(config->shared_width / experts->feed_forward);
}

static void
fill_model (Config *config, const Architecture *architecture)
{
  PsModel *model = config->model;

  model->mlp = architecture->mlp;
  model->qk_norm = architecture->qk_norm;
  model->other_biases = g_str_equal (architecture->model_type, "gpt_oss");
  model->flash_attention = TRUE;
  model->microbatch_size = 1;
  model->sequence = MIN (model->sequence, USUAL_SEQUENCE);
  if (!was_seen (config, G_STRUCT_OFFSET (PsModel, tied)))
    model->tied = architecture->tied;
  if (!was_seen (config, G_STRUCT_OFFSET (PsModel, qkv_bias)))
    model->qkv_bias = architecture->qkv_bias;
  if (config->no_window || (config->some_full && !config->some_window))
    model->window = 0;
  if (model->window == 0)
    model->full_every = 0;
  if (model->latent.kv_rank > 0)
    model->head_size = 0;
  fill_experts (config);
}

static gboolean
check_config (Config *config, GError **error)
{
  const char *key;

  for (guint i = 0; i < config->n_fields; i++)
    if (config->fields[i].presence == PS_FIELD_REQUIRED && *config->fields[i].config != '\0'
        && (!config->seen[i] || G_STRUCT_MEMBER (guint, config->model, config->fields[i].offset) == 0))
      {
        g_autofree char *first = g_strndup (config->fields[i].config, strcspn (config->fields[i].config, " "));

        return refuse (config, first, "missing", error);
      }
  if (config->experts_every > 1)
    return refuse (config, "moe_layer_freq", "only 1 is known: experts in every layer after the dense ones", error);
  const Architecture *architecture = find_architecture (config, error);
  if (architecture == NULL || !set_precision (config, error))
    return FALSE;
  fill_model (config, architecture);
  ps_model_fill_defaults (config->model);
  g_autofree char *misfit = ps_model_find_misfit (config->model, &key);
  return misfit == NULL || refuse (config, key, misfit, error);
}

/* "config" says nothing about a model; its architecture says more. */
static char *
make_name (const Config *config)
{
  g_autofree char *name = g_path_get_basename (config->where);

  if (g_str_has_suffix (name, ".json"))
    name[strlen (name) - strlen (".json")] = '\0';
  return g_strdup (g_str_equal (name, "config") || *name == '\0' ? config->model_type : name);
}

PsModel *
ps_model_parse_config (const char *where, const char *text, gsize length, GError **error)
{
  g_auto (Config) config = { .where = where, .model = g_new0 (PsModel, 1) };

  config.fields = ps_model_fields (&config.n_fields);
  config.seen = g_new0 (gboolean, config.n_fields);
  config.model->experts.imbalance = 1;
  if (!read_config (&config, text, length, error) || !check_config (&config, error))
    return NULL;
  config.model->name = make_name (&config);
  return g_steal_pointer (&config.model);
}

/* model-read.c - reads models: .ini descriptions, and the config.json that Hugging Face's transformers describe a model
 * with. */
#include "model-private.h"

#include "base/json.h"
#include "base/text.h"

#include <string.h>

/* The keys hold no sequence to train with, only the longest. Longer ones are cut to this. */
#define USUAL_SEQUENCE 4096

/* The architectures that the formulas hold for, and what is not in their keys. */
typedef struct {
  const char *model_type;
  PsMlp mlp;
  gboolean tied; /* unless the key says otherwise, as the next two */
  gboolean qkv_bias;
  gboolean qk_norm;
  gboolean late_window; /* use_sliding_window turns windows on, in layers from max_window_layers on */
  guint full_every;     /* as of PsModel, where there are no layer_types */
} Architecture;

static const Architecture architectures[] = {
  { "bloom", .mlp = PS_MLP_GELU, .tied = TRUE },
  { "deepseek_v2", .mlp = PS_MLP_SWIGLU },
  { "deepseek_v3", .mlp = PS_MLP_SWIGLU },
  { "glm4_moe", .mlp = PS_MLP_SWIGLU },
  { "gpt2", .mlp = PS_MLP_GELU, .tied = TRUE },
  { "gpt_oss", .mlp = PS_MLP_SWIGLU, .qkv_bias = TRUE, .full_every = 2 },
  { "kimi_k2", .mlp = PS_MLP_SWIGLU },
  { "llama", .mlp = PS_MLP_SWIGLU },
  { "mistral", .mlp = PS_MLP_SWIGLU },
  { "mixtral", .mlp = PS_MLP_SWIGLU },
  { "qwen2", .mlp = PS_MLP_SWIGLU, .qkv_bias = TRUE, .late_window = TRUE },
  { "qwen2_moe", .mlp = PS_MLP_SWIGLU, .qkv_bias = TRUE, .late_window = TRUE },
  { "qwen3", .mlp = PS_MLP_SWIGLU, .qk_norm = TRUE, .late_window = TRUE },
  { "qwen3_moe", .mlp = PS_MLP_SWIGLU, .qk_norm = TRUE, .late_window = TRUE },
};

#define USUAL_WINDOW_LAYERS 28 /* max_window_layers where the key is missing, as transformers has it */

/* A key with one of these words is about layers. A file with such a key that is not read here, and that is not off, is
 * refused: it may say another model. */
#define LAYER_WORDS                                                                                                    \
  "_dim attention attn audio bias block conv dense embd embed expert ffn forward head hidden inter kv_ layer lora "    \
  "mamba mlp moe mtp norm query rank shared sparse ssm vision vocab width window"

/* Keys with one of these change neither sizes nor work. */
#define HARMLESS_WORDS                                                                                                 \
  "_eps coef dropout initializer loss pdrop position_embedding rope_interleave rotary "                                \
  "apply_residual_connection_post_layernorm attention_softmax_in_fp32 attn_implementation experts_per_token "          \
  "flash_att hidden_act norm_topk_prob output_attentions output_hidden_states qk_head_dim reorder_and_upcast_attn "    \
  "scale_attn_ skip_bias_add"

/* The model that a file describes, and keys of the file that are no fields of a model. */
typedef struct {
  const char *where;
  PsModel *model;
  const PsIniField *fields;
  guint n_fields;
  gboolean *seen; /* [n_fields] */
  char *model_type;
  char *text_type; /* the model_type in text_config; NULL: there is no such object */
  const Architecture *architecture;
  char *dtype;
  gint64 shared_width;  /* of the feed-forward of all shared experts; 0: not given */
  gint64 window_layers; /* max_window_layers */
  gint64 dense_layers;  /* the first ones, by mlp_only_layers; 0: not given */
  gboolean use_window;
  gboolean no_window;
  guint n_types;        /* entries of layer_types */
  gboolean some_full;   /* one is a layer without window */
  gboolean some_window; /* and one with it */
} Config;

static void config_clear (Config *config)
{
  g_free (config->model_type);
  g_free (config->text_type);
  g_free (config->dtype);
  g_free (config->seen);
  ps_model_free (config->model);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Config, config_clear)

static gboolean refuse (const Config *config, const char *key, const char *message, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: %s", config->where, key, message);
}

static gboolean is_named (const PsIniField *field, const char *key)
{
  g_auto (GStrv) names = g_strsplit (field->config, " ", -1);

  return *field->config != '\0' && g_strv_contains ((const char *const *)names, key);
}

static gboolean read_field (Config *config, guint index, const char *key, PsJsonReader *reader, GError **error)
{
  const PsIniField *field = &config->fields[index];
  g_autofree char *message = g_strdup_printf ("expected an integer from 0 to %.0f", field->high);
  gint64 integer = 0;
  gboolean flag;

  if (g_str_has_prefix (reader->at, "null")) {
    ps_json_skip_value (reader);
    return TRUE;
  }
  if (field->type == PS_INI_CHOICE) {
    if (!ps_json_read_boolean (reader, &flag))
      return refuse (config, key, "expected true or false", error);
    integer = flag;
  } else if (!ps_json_read_integer (reader, &integer) || integer < 0 || (double)integer > field->high)
    return refuse (config, key, message, error);
  config->seen[index] = TRUE;
  ps_model_set_field (config->model, field, (double)integer);
  return TRUE;
}

/* A window of some layers: the n-th, 2n-th, ... do without. */
static gboolean read_layer_types (Config *config, PsJsonReader *reader, GError **error)
{
  const char *type;
  guint every = 0;

  if (!ps_json_enter_array (reader))
    return refuse (config, "layer_types", "expected an array", error);
  for (guint i = 1; ps_json_next_element (reader); i++) {
    if (!ps_json_read_text (reader, &type))
      return refuse (config, "layer_types", "expected texts", error);
    gboolean full = g_str_equal (type, "full_attention");
    if (!full && !g_str_equal (type, "sliding_attention"))
      return refuse (config, "layer_types", "only full_attention and sliding_attention are known", error);
    if (full && every == 0)
      every = i;
    if (full != (every > 0 && i % every == 0))
      return refuse (config, "layer_types", "layers with full_attention do not come at equal distances", error);
    config->n_types = i;
    config->some_full |= full;
    config->some_window |= !full;
  }
  config->model->full_every = every;
  return TRUE;
}

static gboolean read_text (Config *config, const char *key, PsJsonReader *reader, char **text, GError **error)
{
  const char *value;

  if (!ps_json_read_text (reader, &value))
    return refuse (config, key, "expected a text", error);
  g_free (*text);
  *text = g_strdup (value);
  return TRUE;
}

static gboolean read_integer (Config *config, const char *key, PsJsonReader *reader, gint64 *value, GError **error)
{
  return (ps_json_read_integer (reader, value) && *value >= 0 && *value <= G_MAXINT)
         || refuse (config, key, "expected an integer", error);
}

/* Every so manyth layer has experts. */
static gboolean read_every (Config *config, const char *key, PsJsonReader *reader, GError **error)
{
  gint64 every;

  return read_integer (config, key, reader, &every, error)
         && (every <= 1 || refuse (config, key, "only 1 is known: experts in every layer after the dense ones", error));
}

/* The layers without experts. */
static gboolean read_dense_layers (Config *config, const char *key, PsJsonReader *reader, GError **error)
{
  gint64 layer;

  if (!ps_json_enter_array (reader))
    return refuse (config, key, "expected an array", error);
  while (ps_json_next_element (reader))
    if (!read_integer (config, key, reader, &layer, error))
      return FALSE;
    else if (layer != config->dense_layers++)
      return refuse (config, key, "only the first layers, 0, 1, 2 and so on, can be dense", error);
  return TRUE;
}

static gboolean has_word (const char *key, const char *list)
{
  g_auto (GStrv) words = g_strsplit (list, " ", -1);
  guint i = 0;

  while (words[i] != NULL && strstr (key, words[i]) == NULL)
    i++;
  return words[i] != NULL;
}

/* null, false, 0, or empty. */
static gboolean is_off (const char *value)
{
  return g_str_has_prefix (value, "null") || g_str_has_prefix (value, "false") || g_str_has_prefix (value, "\"\"")
         || g_str_has_prefix (value, "[]") || g_str_has_prefix (value, "{}")
         || (g_ascii_isdigit (*value) && g_ascii_strtod (value, NULL) == 0);
}

static gboolean skip_key (Config *config, const char *key, PsJsonReader *reader, GError **error)
{
  if (*key != '_' && has_word (key, LAYER_WORDS) && !has_word (key, HARMLESS_WORDS) && !is_off (reader->at))
    return refuse (config, key, "is not known, and may change the layers; without it the others are read", error);
  ps_json_skip_value (reader);
  return TRUE;
}

static gboolean read_key (Config *config, const char *key, PsJsonReader *reader, GError **error)
{
  gboolean flag = FALSE;

  for (guint i = 0; i < config->n_fields; i++)
    if (is_named (&config->fields[i], key))
      return read_field (config, i, key, reader, error);
  if (g_str_has_prefix (reader->at, "null"))
    ps_json_skip_value (reader);
  else if (g_str_equal (key, "torch_dtype") || g_str_equal (key, "dtype"))
    return read_text (config, key, reader, &config->dtype, error);
  else if (g_str_equal (key, "shared_expert_intermediate_size"))
    return read_integer (config, key, reader, &config->shared_width, error);
  else if (g_str_equal (key, "max_window_layers"))
    return read_integer (config, key, reader, &config->window_layers, error);
  else if (g_str_equal (key, "moe_layer_freq") || g_str_equal (key, "decoder_sparse_step")
           || g_str_equal (key, "interleave_moe_layer_step"))
    return read_every (config, key, reader, error);
  else if (g_str_equal (key, "mlp_only_layers"))
    return read_dense_layers (config, key, reader, error);
  else if (g_str_equal (key, "layer_types"))
    return read_layer_types (config, reader, error);
  else if (g_str_equal (key, "use_sliding_window") && ps_json_read_boolean (reader, &flag)) {
    config->use_window = flag;
    config->no_window = !flag;
  } else
    return skip_key (config, key, reader, error);
  return TRUE;
}

/* What decides which keys count, wherever it stands among them. */
static gboolean read_type (Config *config, const char *key, PsJsonReader *reader, GError **error)
{
  const char *inner;

  if (g_str_equal (key, "model_type"))
    return read_text (config, key, reader, &config->model_type, error);
  if (!g_str_equal (key, "text_config") || !ps_json_enter_object (reader)) {
    ps_json_skip_value (reader);
    return TRUE;
  }
  g_free (config->text_type);
  config->text_type = g_strdup ("");
  while ((inner = ps_json_next_key (reader)) != NULL)
    if (!g_str_equal (inner, "model_type"))
      ps_json_skip_value (reader);
    else if (!read_text (config, inner, reader, &config->text_type, error))
      return FALSE;
  return TRUE;
}

typedef gboolean (*ReadKey) (Config *config, const char *key, PsJsonReader *reader, GError **error);

static gboolean read_keys (Config *config, const char *text, gsize length, ReadKey read, GError **error)
{
  g_auto (PsJsonReader) reader = { 0 };
  const char *key;

  if (!ps_json_reader_init (&reader, config->where, text, (gssize)length, error))
    return FALSE;
  g_return_val_if_fail (ps_json_enter_object (&reader), FALSE);
  while ((key = ps_json_next_key (&reader)) != NULL) {
    g_autofree char *name = g_strdup (key);

    if (!read (config, name, &reader, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean find_architecture (Config *config, GError **error)
{
  g_autoptr (GString) known = g_string_new (NULL);
  g_autofree char *quoted = ps_text_quote (config->model_type != NULL ? config->model_type : "");
  g_autofree char *inner = ps_text_quote (config->text_type != NULL ? config->text_type : "");

  for (guint i = 0; i < G_N_ELEMENTS (architectures); i++) {
    if (g_strcmp0 (config->model_type, architectures[i].model_type) == 0)
      config->architecture = &architectures[i];
    g_string_append_printf (known, " %s", architectures[i].model_type);
  }
  if (config->text_type != NULL)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: text_config: model_type %s has other parts than text, which are not known; the object, of "
                      "model_type %s, can be a file of its own; known are:%s",
                      config->where, quoted, inner, known->str);
  if (config->architecture == NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: model_type: %s%s; known are:%s", config->where,
                      config->model_type != NULL ? quoted : "",
                      config->model_type != NULL ? " is not known" : "missing", known->str);
  return TRUE;
}

static gboolean set_precision (Config *config, GError **error)
{
  static const char *const dtypes[]
      = { [PS_PRECISION_FP32] = "float32", [PS_PRECISION_FP16] = "float16", [PS_PRECISION_BF16] = "bfloat16" };

  for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
    if (g_str_equal (config->dtype != NULL ? config->dtype : "bfloat16", dtypes[i])) {
      config->model->precision = i;
      return TRUE;
    }
  return refuse (config, "torch_dtype", "expected bfloat16, float16 or float32", error);
}

static gboolean was_seen (const Config *config, gsize offset)
{
  for (guint i = 0; i < config->n_fields; i++)
    if (config->fields[i].offset == offset)
      return config->seen[i];
  return FALSE;
}

/* Widths of experts go by another key in some architectures. */
static gboolean fill_experts (Config *config, GError **error)
{
  PsExperts *experts = &config->model->experts;

  if (experts->count == 0) {
    *experts = (PsExperts){ .imbalance = 1 };
    return TRUE;
  }
  if (experts->feed_forward == 0)
    experts->feed_forward = config->model->feed_forward;
  if (config->dense_layers > 0)
    experts->dense_layers = (guint)config->dense_layers;
  if (experts->feed_forward == 0 || config->shared_width == 0)
    return TRUE;
  experts->shared = (guint)(config->shared_width / experts->feed_forward);
  return config->shared_width % experts->feed_forward == 0
         || refuse (config, "shared_expert_intermediate_size",
                    "only multiples of the width of an expert, moe_intermediate_size, are known", error);
}

/* Windows may be switched off, and begin at some layer. */
static gboolean fill_window (Config *config, GError **error)
{
  PsModel *model = config->model;
  const Architecture *architecture = config->architecture;

  if (config->n_types > 0 && config->n_types != model->layers)
    return refuse (config, "layer_types", "has not as many entries as there are layers", error);
  if (config->some_window && model->window == 0)
    return refuse (config, "sliding_window", "missing; layer_types names sliding_attention", error);
  if (config->no_window || (config->some_full && !config->some_window)
      || (architecture->late_window && config->n_types == 0
          && (!config->use_window || config->window_layers >= model->layers)))
    model->window = 0;
  if (config->n_types == 0)
    model->full_every = architecture->full_every;
  if (model->window == 0)
    model->full_every = 0;
  return model->window == 0 || config->n_types > 0 || !architecture->late_window || config->window_layers == 0
         || refuse (config, "max_window_layers",
                    "only 0, a window in every layer, and all layers, a window in none, are known", error);
}

static gboolean fill_model (Config *config, GError **error)
{
  PsModel *model = config->model;
  const Architecture *architecture = config->architecture;

  model->mlp = architecture->mlp;
  model->other_biases = g_str_equal (architecture->model_type, "gpt_oss");
  model->flash_attention = TRUE;
  model->microbatch_size = 1;
  model->sequence = MIN (model->sequence, USUAL_SEQUENCE);
  if (!was_seen (config, G_STRUCT_OFFSET (PsModel, tied)))
    model->tied = architecture->tied;
  if (!was_seen (config, G_STRUCT_OFFSET (PsModel, qkv_bias)))
    model->qkv_bias = architecture->qkv_bias;
  if (!was_seen (config, G_STRUCT_OFFSET (PsModel, qk_norm)))
    model->qk_norm = architecture->qk_norm;
  if (model->latent.kv_rank > 0)
    model->head_size = 0;
  return fill_window (config, error) && fill_experts (config, error);
}

static gboolean check_config (Config *config, GError **error)
{
  const char *key;

  for (guint i = 0; i < config->n_fields; i++)
    if (config->fields[i].presence == PS_INI_REQUIRED && *config->fields[i].config != '\0'
        && (!config->seen[i] || G_STRUCT_MEMBER (guint, config->model, config->fields[i].offset) == 0)) {
      g_autofree char *first = g_strndup (config->fields[i].config, strcspn (config->fields[i].config, " "));

      return refuse (config, first, "missing", error);
    }
  if (!set_precision (config, error) || !fill_model (config, error))
    return FALSE;
  ps_model_fill_defaults (config->model);
  g_autofree char *misfit = ps_model_find_misfit (config->model, &key);
  return misfit == NULL || refuse (config, key, misfit, error);
}

/* "config" says nothing about a model; its architecture says more. */
static char *make_name (const Config *config)
{
  g_autofree char *name = g_path_get_basename (config->where);

  if (g_str_has_suffix (name, ".json"))
    name[strlen (name) - strlen (".json")] = '\0';
  return g_strdup (g_str_equal (name, "config") || *name == '\0' ? config->model_type : name);
}

static PsModel *parse_config (const char *where, const char *text, gsize length, GError **error)
{
  g_auto (Config) config = { .where = where, .model = g_new0 (PsModel, 1), .window_layers = USUAL_WINDOW_LAYERS };

  config.fields = ps_model_fields (&config.n_fields);
  config.seen = g_new0 (gboolean, config.n_fields);
  config.model->experts.imbalance = 1;
  if (!read_keys (&config, text, length, read_type, error) || !find_architecture (&config, error)
      || !read_keys (&config, text, length, read_key, error) || !check_config (&config, error))
    return NULL;
  config.model->name = make_name (&config);
  return g_steal_pointer (&config.model);
}

static PsModel *parse_ini (const char *where, const char *text, gsize length, GError **error)
{
  guint n;
  const PsIniField *fields = ps_model_fields (&n);
  g_autoptr (PsIni) ini = ps_ini_parse (where, text, length, "model", fields, n, error);
  g_autoptr (PsModel) model = g_new0 (PsModel, 1);
  const char *key;

  if (ini == NULL)
    return NULL;
  model->name = ps_ini_name (ini);
  ps_ini_fields (ini, fields, n, model);
  if (!ps_ini_finish (ini, error))
    return NULL;
  ps_model_fill_defaults (model);
  g_autofree char *misfit = ps_model_find_misfit (model, &key);
  if (misfit != NULL)
    ps_ini_fail (ini, key, "%s", misfit);
  return ps_ini_finish (ini, error) ? g_steal_pointer (&model) : NULL;
}

PsModel *ps_model_parse (const char *where, const char *text, gsize length, GError **error)
{
  gsize first = 0;

  while (first < length && g_ascii_isspace (text[first]))
    first++;
  return first < length && text[first] == '{' ? parse_config (where, text, length, error)
                                              : parse_ini (where, text, length, error);
}

PsModel *ps_model_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  return ps_ini_read (path, "models", &text, &length, error) ? ps_model_parse (path, text, length, error) : NULL;
}

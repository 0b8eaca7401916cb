/* config.c - reads the config.json that describes a model to Hugging Face's transformers. One table has the model
 * types, one the keys: modelled, harmless, or refused. What stands in neither is listed in PsModel.unread. */
#include "model-private.h"

#include "base/json.h"
#include "base/text.h"

#include <string.h>

/* The keys hold no sequence to train with, only the longest. Longer ones are cut to this. */
#define USUAL_SEQUENCE 4096

#define USUAL_WINDOW_LAYERS 28 /* max_window_layers where the key is missing, as transformers has it */

/* Model types that are made of the same modules. Sources: modeling_*.py of transformers 5.24; vLLM's step3_text.py. */
typedef struct {
  const char *types;
  const char *fields; /* keys of a model, where the file does not say otherwise */
  const char *layers; /* where no layer_types says it: "w" all layers have a window, "w6" all but each sixth, "late" all
                         from max_window_layers on; "G", "M", "l" the unit of linear attention; NULL: neither */
  const char *harmless; /* keys that mean nothing here */
} Architecture;

static const Architecture architectures[] = {
  { .types = "bloom", .fields = "mlp=gelu tied=true positions=false embedding_norm=true" },
  { .types = "deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa kimi_k2 kimi_k25",
    .fields = "mlp=swiglu" },
  { .types = "deepseek_v4", .fields = "mlp=swiglu sinks=true shared_kv=true", .harmless = "compress_rates" },
  { .types = "ernie4_5 ernie4_5_moe", .fields = "mlp=swiglu tied=true" },
  { .types = "falcon", .fields = "mlp=gelu tied=true positions=false biases=false sequence=2048" },
  { .types = "gemma2",
    .fields = "mlp=swiglu tied=true post_norms=true vocabulary=256000 sequence=8192",
    .layers = "w2" },
  { .types = "gemma3 gemma3_text",
    .fields = "mlp=swiglu tied=true post_norms=true qk_norm=true vocabulary=262208 sequence=131072",
    .layers = "w6" },
  { .types = "glm", .fields = "mlp=swiglu qkv_bias=true" },
  { .types = "glm4", .fields = "mlp=swiglu qkv_bias=true post_norms=true" },
  { .types = "glm4_moe", .fields = "mlp=swiglu" },
  { .types = "gpt2", .fields = "mlp=gelu tied=true" },
  { .types = "gpt_neox", .fields = "mlp=gelu positions=false" },
  { .types = "gpt_oss", .fields = "mlp=swiglu qkv_bias=true other_biases=true sinks=true", .layers = "w2" },
  { .types = "kimi_linear", .fields = "mlp=swiglu", .layers = "G" },
  { .types = "llama", .fields = "mlp=swiglu" },
  { .types = "llama4 llama4_text", .fields = "mlp=swiglu shared_experts=1", .layers = "w4", .harmless = "use_qk_norm" },
  { .types = "mimo", .fields = "mlp=swiglu qkv_bias=true", .layers = "late" },
  { .types = "mimo_v2_flash", .fields = "mlp=swiglu sinks=window", .harmless = "add_swa_attention_sink_bias" },
  { .types = "minimax minimax_m1 minimax_text_01", .fields = "mlp=swiglu", .layers = "l" },
  { .types = "minimax_m2", .fields = "mlp=swiglu qk_norm=wide" },
  { .types = "mistral mixtral phi3", .fields = "mlp=swiglu", .layers = "w" },
  { .types = "nemotron_h", .fields = "mlp=relu2", .layers = "M", .harmless = "n_shared_experts" },
  { .types = "olmo2", .fields = "mlp=swiglu qk_norm=wide" },
  { .types = "opt", .fields = "mlp=gelu tied=true" },
  { .types = "qwen2", .fields = "mlp=swiglu qkv_bias=true", .layers = "late", .harmless = "attention_bias" },
  { .types = "qwen2_moe",
    .fields = "mlp=swiglu qkv_bias=true shared_gate=true",
    .layers = "late",
    .harmless = "attention_bias" },
  { .types = "qwen3 qwen3_moe qwen3_vl_moe_text qwen3_vl_text", .fields = "mlp=swiglu qk_norm=true", .layers = "late" },
  { .types = "qwen3_5 qwen3_5_text", .fields = "mlp=swiglu qk_norm=true attention_gate=true", .layers = "G" },
  { .types = "qwen3_5_moe qwen3_5_moe_text qwen3_next",
    .fields = "mlp=swiglu qk_norm=true attention_gate=true shared_gate=true",
    .layers = "G" },
  { .types = "step3 step3_text step3_vl", .fields = "mlp=swiglu kv_heads=1" },
};

/* Encoders by the type of the whole file, and its keys in vision_config. Sources: modeling_*.py as above. */
enum { HIDDEN, LAYERS, HEADS, FEED_FORWARD, PATCH, IMAGE, POSITIONS, N_ENCODER_KEYS };

static const char *const encoder_keys[N_ENCODER_KEYS][2] = {
  [HIDDEN] = { "hidden_size" },
  [LAYERS] = { "num_hidden_layers", "depth" },
  [HEADS] = { "num_attention_heads", "num_heads" },
  [FEED_FORWARD] = { "intermediate_size" },
  [PATCH] = { "patch_size" },
  [IMAGE] = { "image_size" },
  [POSITIONS] = { "num_position_embeddings" },
};

typedef struct {
  const char *types;
  gint64 usual[N_ENCODER_KEYS]; /* where the file does not say otherwise; no positions: one for each patch */
  guint colours;                /* numbers of a pixel, of all pictures that a patch is cut from */
  guint extra;                  /* tokens besides the patches, from which nothing comes out */
  guint vectors;                /* learnt ones as wide as the encoder, besides positions and extra tokens */
  guint merged;                 /* patches along each side of what becomes one result */
  gboolean concatenated;        /* TRUE: their vectors are put together, else averaged */
  guint projector_layers;
  guint projector_hidden; /* 0: as wide as what enters it */
  gboolean projector_bias;
} Encoder;

static const Encoder encoders[] = {
  { "gemma3", { 1152, 27, 16, 4304, 14, 896, 0 }, 3, 0, 4, 4, FALSE, 1, 0, FALSE },
  { "llama4", { 768, 34, 16, 5632, 14, 448, 0 }, 3, 1, 4, 2, TRUE, 3, 4096, FALSE },
  { "qwen3_5 qwen3_5_moe", { 1152, 27, 16, 4304, 16, 0, 2304 }, 6, 0, 3, 2, TRUE, 2, 0, TRUE },
};

/* Types that are known, and what the units here lack for them. */
static const char *const lacking[][2] = {
  { "gemma3n gemma3n_text gemma4 gemma4_text", "embeddings of each layer, and layers that share keys and values" },
  { "kimi_k3", "residual attention (attn_res_block_size), and gates of latent attention" },
  { "step3p5 step3p7", "gates of heads (use_head_wise_attn_gate), and layers of several numbers of heads" },
  { "minimax_m3 minimax_m3_vl", "a public description of its sparse attention" },
  { "nemotron-nas", "layers of different widths (block_configs)" },
};

typedef enum {
  KEY_FIELD, /* a field of the model */
  KEY_READ,  /* read on its own below */
  KEY_OFF,   /* modelled if it is null, false, 0 or empty */
  KEY_SAME,  /* modelled if it has the value that `meaning` begins with */
} KeyUse;

typedef struct {
  KeyUse use;
  const char *names;
  const char *meaning; /* the model's key; what the units here lack */
} Key;

static const Key keys[] = {
  { KEY_FIELD, "num_hidden_layers n_layer", "layers" },
  { KEY_FIELD, "hidden_size n_embd n_embed", "hidden" },
  { KEY_FIELD, "num_attention_heads n_head", "heads" },
  { KEY_FIELD, "num_key_value_heads num_kv_heads num_attention_groups", "kv_heads" },
  { KEY_FIELD, "max_position_embeddings n_positions seq_length max_position_embedding model_max_length", "sequence" },
  { KEY_FIELD, "intermediate_size n_inner ffn_dim ffn_hidden_size", "feed_forward" },
  { KEY_FIELD, "vocab_size", "vocabulary" },
  { KEY_FIELD, "head_dim attention_head_dim", "head_size" },
  { KEY_FIELD, "tie_word_embeddings", "tied" },
  { KEY_FIELD, "attention_bias qkv_bias use_qkv_bias", "qkv_bias" },
  { KEY_FIELD, "bias", "biases" },
  { KEY_FIELD, "use_qk_norm", "qk_norm" },
  { KEY_FIELD, "attn_output_gate", "attention_gate" },
  { KEY_FIELD, "sliding_window attention_chunk_size", "window" },
  { KEY_FIELD, "num_nextn_predict_layers mtp_num_hidden_layers", "mtp" },
  { KEY_FIELD, "kv_lora_rank", "kv_rank" },
  { KEY_FIELD, "q_lora_rank share_q_dim", "q_rank" },
  { KEY_FIELD, "qk_nope_head_dim", "nope_size" },
  { KEY_FIELD, "qk_rope_head_dim", "rope_size" },
  { KEY_FIELD, "v_head_dim", "value_size" },
  { KEY_FIELD, "n_routed_experts num_experts num_local_experts moe_num_experts", "experts" },
  { KEY_FIELD, "num_experts_per_tok num_experts_per_token experts_per_token moe_k moe_top_k", "active_experts" },
  { KEY_FIELD, "n_shared_experts num_shared_experts moe_num_shared_experts", "shared_experts" },
  { KEY_FIELD, "moe_intermediate_size", "expert_feed_forward" },
  { KEY_FIELD, "shared_expert_intermediate_size moe_shared_expert_intermediate_size share_expert_dim",
    "shared_feed_forward" },
  { KEY_FIELD, "moe_latent_size", "expert_latent" },
  { KEY_FIELD, "mamba_num_heads", "mamba_heads" },
  { KEY_FIELD, "mamba_head_dim", "mamba_head_size" },
  { KEY_FIELD, "ssm_state_size", "mamba_state" },
  { KEY_FIELD, "n_groups", "mamba_groups" },
  { KEY_FIELD, "linear_num_key_heads", "delta_key_heads" },
  { KEY_FIELD, "linear_key_head_dim", "delta_key_size" },
  { KEY_FIELD, "linear_num_value_heads", "delta_value_heads" },
  { KEY_FIELD, "linear_value_head_dim", "delta_value_size" },
  { KEY_FIELD, "hc_mult", "streams" },
  { KEY_FIELD, "o_groups", "output_groups" },
  { KEY_FIELD, "o_lora_rank", "output_rank" },
  { KEY_FIELD, "swa_num_attention_heads", "window_heads" },
  { KEY_FIELD, "swa_num_key_value_heads", "window_kv_heads" },
  { KEY_FIELD, "index_n_heads", "index_heads" },
  { KEY_FIELD, "index_head_dim", "index_size" },
  { KEY_FIELD, "index_topk", "index_top" },

  { KEY_READ, "model_type text_config torch_dtype dtype vision_config mm_tokens_per_image", NULL },
  { KEY_READ,
    "layer_types layers_block_type full_attention_interval attn_type_list linear_attn_config "
    "hybrid_override_pattern mtp_hybrid_override_pattern no_rope_layers",
    NULL },
  { KEY_READ, "use_sliding_window max_window_layers sliding_window_pattern _sliding_window_pattern", NULL },
  { KEY_READ,
    "first_k_dense_replace mlp_only_layers decoder_sparse_step moe_layer_freq interleave_moe_layer_step "
    "mlp_layer_types moe_layers moe_layers_enum moe_layer_start_index moe_layer_end_index moe_layer_interval",
    NULL },
  { KEY_READ,
    "intermediate_size_mlp multi_query new_decoder_architecture parallel_attn num_ln_in_parallel_attn "
    "word_embed_proj_dim indexer_types hybrid_layer_pattern compress_ratios swa_head_dim swa_v_head_dim",
    NULL },

  { KEY_OFF, "mlp_bias use_bias mamba_proj_bias add_bias_linear", "biases of these matrices" },
  { KEY_OFF, "mla_use_output_gate use_head_wise_attn_gate", "gates of this attention" },
  { KEY_OFF, "attn_res_block_size", "several residual streams" },
  { KEY_OFF, "compress_rates", "attention to compressed tokens" },
  { KEY_OFF, "add_full_attention_sink_bias", "sinks of these layers" },
  { KEY_OFF, "mtp_use_dedicated_embeddings", "embeddings of multi-token prediction of its own" },
  { KEY_OFF, "is_encoder_decoder add_cross_attention tie_encoder_decoder", "encoders and cross attention" },
  { KEY_OFF, "block_configs per_layer_config num_global_key_value_heads", "layers of different widths" },
  { KEY_OFF, "hidden_size_per_layer_input num_kv_shared_layers", "embeddings of each layer, shared keys and values" },
  { KEY_OFF, "shared_intermediate_size", "shared experts with a coefficient" },
  { KEY_OFF, "_remove_final_layer_norm", "models without a last norm" },
  { KEY_OFF, "use_full_rank_gate", "gates of full rank" },
  { KEY_SAME, "conv_kernel linear_conv_kernel_dim short_conv_kernel_size",
    "4: convolutions over other numbers of tokens" },
  { KEY_SAME, "use_conv_bias", "true: convolutions of Mamba-2 without biases" },
  { KEY_SAME, "do_layer_norm_before", "true: norms after their units" },
  { KEY_SAME, "enable_bias layer_norm_elementwise_affine", "true: such layers without biases" },
  { KEY_SAME, "qk_norm_type", "\"per_layer\": other norms of queries and keys" },
};

/* Other keys with one of these change neither sizes nor work: scales, ropes, routing, initial values, ... */
#define HARMLESS_WORDS                                                                                                 \
  "hash_layers sinkhorn value_scale rope rotary alibi _eps epsilon hidden_act activation softcap scal init_ "          \
  "initializer initial_context softmax "                                                                               \
  "attn_implement attn_temperature aux_loss coef jitter topk top_k scoring renormalize norm_min norm_expert routing "  \
  "n_group expert_group grouped original_max router residual capacity overlap time_step expand _dtype chunk_size "     \
  "kernels flash cache limit alpha output_ skip_bias swiglu_ mrope nope qk_head_dim postnorm max_seq_len is_decoder "  \
  "bidirectional quantization pretraining ep_size logits reorder pruned clip_qkv problem_type torchscript bfloat16 "   \
  "slow_but fusion return_dict label auto_map task seq_aux n_ctx floor_scale interleave_"

/* And these are names, tokens, dropouts and settings of sampling. */
#define SILENT_WORDS                                                                                                   \
  "_name architectures dropout pdrop layerdrop token _id version beam temperature top_p num_return length penalty "    \
  "summary_ sampl bad_words prefix early_stopping remove_invalid tf_legacy typical_p ngram query_pre_attn"

/* Letters of the pattern by what a file calls them. */
typedef struct {
  const char *value;
  char letter;
} Letter;

#define FULL 'f' /* the mixer over all tokens */
#define SCAN 's' /* the mixer of linear attention */

static const Letter mixer_letters[] = {
  { "full_attention", FULL },
  { "indexed_attention", FULL },
  { "sliding_attention", 'w' },
  { "chunked_attention", 'w' },
  { "linear_attention", SCAN },
  { "compressed_sparse_attention", 'C' },
  { "heavily_compressed_attention", 'H' },
  { NULL, 0 },
};
static const Letter ratio_letters[] = { { "0", 'w' }, { "4", 'C' }, { "128", 'H' }, { NULL, 0 } };
static const Letter type_letters[] = { { "0", SCAN }, { "1", FULL }, { NULL, 0 } };
static const Letter rope_letters[] = { { "0", FULL }, { "1", 'w' }, { NULL, 0 } };
static const Letter forward_letters[]
    = { { "dense", '-' }, { "sparse", 'E' }, { "0", '-' }, { "1", 'E' }, { NULL, 0 } };
static const Letter indexer_letters[] = { { "full", FULL }, { NULL, 0 } };
static const Letter block_letters[] = {
  { "mamba", 'M' },     { "linear_attention", 'M' },
  { "attention", '*' }, { "full_attention", '*' },
  { "mlp", '-' },       { "moe", 'E' },
  { NULL, 0 },
};

typedef struct {
  const char *where;
  PsJsonReader reader;
  GHashTable *places; /* key -> its value in the text; null ones are left out */
  GPtrArray *order;   /* of the keys in the file */
  const Architecture *architecture;
  const Encoder *encoder; /* of the type of the whole file; NULL: it is not known */
  PsModel *model;
  const PsIniField *fields;
  guint n_fields;
  GString *unread;
} Config;

static void config_clear (Config *config)
{
  ps_json_reader_clear (&config->reader);
  g_clear_pointer (&config->places, g_hash_table_unref);
  g_clear_pointer (&config->order, g_ptr_array_unref);
  if (config->unread != NULL)
    g_string_free (config->unread, TRUE);
  ps_model_free (config->model);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Config, config_clear)

static gboolean refuse (const Config *config, const char *key, const char *message, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: %s", config->where, key, message);
}

/* Whether one of the names with blanks between is the key. */
static gboolean is_named (const char *names, const char *key)
{
  gsize length = strchr (key, ' ') == NULL ? strlen (key) : 0;

  for (const char *at = strstr (names, key); at != NULL && length > 0; at = strstr (at + 1, key))
    if ((at == names || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
      return TRUE;
  return FALSE;
}

gboolean ps_has_word (const char *text, const char *list)
{
  g_auto (GStrv) words = g_strsplit (list, " ", -1);
  guint i = 0;

  while (words[i] != NULL && strstr (text, words[i]) == NULL)
    i++;
  return words[i] != NULL;
}

/* false, 0, or empty. */
static gboolean is_off (const char *value)
{
  return g_str_has_prefix (value, "false") || g_str_has_prefix (value, "\"\"") || g_str_has_prefix (value, "[]")
         || g_str_has_prefix (value, "{}") || (g_ascii_isdigit (*value) && g_ascii_strtod (value, NULL) == 0);
}

static gboolean has (const Config *config, const char *key)
{
  return g_hash_table_contains (config->places, key);
}

/* The reader at the value of a key that is there. */
static PsJsonReader *go (Config *config, const char *key)
{
  config->reader.at = g_hash_table_lookup (config->places, key);
  return &config->reader;
}

/* Notes the keys of the object that the reader is at, with `prefix` before each. */
static void note_keys (Config *config, const char *prefix)
{
  PsJsonReader *reader = &config->reader;
  const char *key;

  if (!ps_json_enter_object (reader))
    return;
  while ((key = ps_json_next_key (reader)) != NULL) {
    g_autofree char *name = g_strconcat (prefix, key, NULL);

    if (!g_str_has_prefix (reader->at, "null")) {
      if (!g_hash_table_contains (config->places, name))
        g_ptr_array_add (config->order, g_strdup (name));
      g_hash_table_replace (config->places, g_steal_pointer (&name), (gpointer)reader->at);
    }
    ps_json_skip_value (reader);
  }
}

static gboolean read_flag (Config *config, const char *key, gboolean fallback)
{
  gboolean flag = fallback;

  if (has (config, key))
    ps_json_read_boolean (go (config, key), &flag);
  return flag;
}

/* *value stays where the key is missing. */
static gboolean read_integer (Config *config, const char *key, gint64 low, gint64 *value, GError **error)
{
  if (!has (config, key))
    return TRUE;
  return (ps_json_read_integer (go (config, key), value) && *value >= low && *value <= G_MAXINT)
         || refuse (config, key, "expected an integer", error);
}

/* The text model's type decides, in text_config if it has one. */
static gboolean find_architecture (Config *config, GError **error)
{
  g_autoptr (GString) known = g_string_new (NULL);
  const char *type = NULL;

  if (!has (config, "model_type"))
    ps_refuse (error, PS_ERROR_INPUT, "%s: model_type: missing", config->where);
  else if (!ps_json_read_text (go (config, "model_type"), &type))
    refuse (config, "model_type", "expected a text", error);
  if (type == NULL)
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (architectures); i++) {
    if (is_named (architectures[i].types, type))
      config->architecture = &architectures[i];
    g_string_append_printf (known, " %s", architectures[i].types);
  }
  for (guint i = 0; i < G_N_ELEMENTS (lacking); i++)
    if (is_named (lacking[i][0], type))
      return ps_refuse (error, PS_ERROR_INPUT, "%s: model_type: '%s' needs what is not modelled: %s", config->where,
                        type, lacking[i][1]);
  g_autofree char *quoted = ps_text_quote (type);
  return config->architecture != NULL
         || ps_refuse (error, PS_ERROR_INPUT, "%s: model_type: %s is not known; known are:%s", config->where, quoted,
                       known->str);
}

static const PsIniField *find_field (const Config *config, const char *key)
{
  for (guint i = 0; i < config->n_fields; i++)
    if (g_str_equal (config->fields[i].key, key))
      return &config->fields[i];
  g_return_val_if_reached (NULL);
}

static void set_text (Config *config, const PsIniField *field, const char *value)
{
  char **member = G_STRUCT_MEMBER_P (config->model, field->offset);

  g_free (*member);
  *member = g_strdup (value);
}

static void set_choice (Config *config, const PsIniField *field, const char *name)
{
  for (guint i = 0; field->choices[i] != NULL; i++)
    if (g_str_equal (field->choices[i], name))
      ps_model_set_field (config->model, field, i);
}

static void set_usual_fields (Config *config)
{
  g_auto (GStrv) words = g_strsplit (config->architecture->fields, " ", -1);

  for (guint i = 0; words[i] != NULL; i++) {
    g_auto (GStrv) pair = g_strsplit (words[i], "=", 2);
    const PsIniField *field = find_field (config, pair[0]);

    if (field->type == PS_INI_CHOICE)
      set_choice (config, field, pair[1]);
    else
      ps_model_set_field (config->model, field, (double)g_ascii_strtoull (pair[1], NULL, 10));
  }
}

/* true leaves a choice that is not off as the architecture has it. */
static gboolean read_field (Config *config, const char *key, const PsIniField *field, GError **error)
{
  PsJsonReader *reader = go (config, key);
  const char *text;
  gint64 integer;
  gboolean flag;

  if (field->type == PS_INI_TEXT) {
    if (!ps_json_read_text (reader, &text))
      return refuse (config, key, "expected a text", error);
    set_text (config, field, *text != '\0' ? text : NULL);
  } else if (field->type == PS_INI_CHOICE) {
    if (!ps_json_read_boolean (reader, &flag))
      return refuse (config, key, "expected true or false", error);
    if (!flag || field->choices[2] == NULL || G_STRUCT_MEMBER (guint, config->model, field->offset) == 0)
      set_choice (config, field, flag ? "true" : "false");
  } else {
    g_autofree char *message = g_strdup_printf ("expected an integer from 0 to %.0f", field->high);
    gboolean whole = ps_json_read_integer (reader, &integer);

    /* Any longer sequence is cut anyway. */
    if (whole && field->offset == G_STRUCT_OFFSET (PsModel, sequence))
      integer = MIN (integer, PS_MAX_SEQUENCE);
    if (!whole || integer < 0 || (double)integer > field->high)
      return refuse (config, key, message, error);
    ps_model_set_field (config->model, field, (double)integer);
  }
  return TRUE;
}

static gboolean read_key (Config *config, const char *key, GError **error)
{
  const char *value = g_hash_table_lookup (config->places, key);
  const Key *row = NULL;

  if (config->architecture->harmless != NULL && is_named (config->architecture->harmless, key))
    return TRUE;
  for (guint i = 0; row == NULL && i < G_N_ELEMENTS (keys); i++)
    row = is_named (keys[i].names, key) ? &keys[i] : NULL;
  if (row == NULL) {
    g_autofree char *escaped = g_strescape (key, NULL);

    if (!ps_has_word (key, HARMLESS_WORDS) && !ps_has_word (key, SILENT_WORDS))
      g_string_append_printf (config->unread, "%s%s", config->unread->len > 0 ? ", " : "", escaped);
    return TRUE;
  }
  if (row->use == KEY_FIELD)
    return read_field (config, key, find_field (config, row->meaning), error);
  const char *lack = row->use == KEY_SAME ? strstr (row->meaning, ": ") + 2 : row->meaning;
  gsize length = row->use == KEY_SAME ? (gsize)(lack - row->meaning) - 2 : 0;
  if ((row->use == KEY_OFF && !is_off (value))
      || (row->use == KEY_SAME && (strncmp (value, row->meaning, length) != 0 || g_ascii_isalnum (value[length])))) {
    g_autofree char *message = g_strdup_printf ("%s are not modelled", lack);

    return refuse (config, key, message, error);
  }
  return TRUE;
}

/* The unit of linear attention; NUL: there is none. */
static char scan_of (const Config *config)
{
  const char *layers = config->architecture->layers;

  return layers != NULL && strchr ("GMl", *layers) != NULL && layers[1] == '\0' ? *layers : '\0';
}

/* One element of an array as a text; integers are written out. */
static gboolean read_element (PsJsonReader *reader, char **text)
{
  const char *value;
  gint64 integer;

  if (ps_json_read_text (reader, &value))
    *text = g_strdup (value);
  else if (ps_json_read_integer (reader, &integer))
    *text = g_strdup_printf ("%" G_GINT64_FORMAT, integer);
  else
    return FALSE;
  return TRUE;
}

/* The letters of an array with an element for each layer; layers 0: for as many as there are. NULL on error. */
static char *read_letters (Config *config, const char *key, gsize layers, const Letter *letters, GError **error)
{
  g_autoptr (GString) found = g_string_new (NULL);
  PsJsonReader *reader = go (config, key);

  if (!ps_json_enter_array (reader)) {
    refuse (config, key, "expected an array", error);
    return NULL;
  }
  while (ps_json_next_element (reader)) {
    g_autofree char *value = NULL;
    const Letter *letter = letters;

    if (read_element (reader, &value))
      while (letter->value != NULL && !g_str_equal (letter->value, value))
        letter++;
    char mark = letter->letter == SCAN ? scan_of (config) : letter->letter;
    if (value == NULL || mark == '\0') {
      g_autofree char *quoted = ps_text_quote (value != NULL ? value : "");
      g_autofree char *message = g_strdup_printf ("layers of %s are not modelled", quoted);

      refuse (config, key, value != NULL ? message : "expected texts or integers", error);
      return NULL;
    }
    g_string_append_c (found, mark);
  }
  if (found->len == 0 || (layers > 0 && found->len < layers)) {
    refuse (config, key, "has not as many entries as there are layers", error);
    return NULL;
  }
  /* Some have entries for layers of multi-token prediction, too. */
  if (layers > 0)
    g_string_truncate (found, layers);
  return g_string_free (g_steal_pointer (&found), FALSE);
}

/* Gives the layers that a key names, counted from `first`, their letter: in an array, or a text with commas. */
static gboolean mark_layers (Config *config, const char *key, gint64 first, char letter, char *marks, GError **error)
{
  PsJsonReader *reader = go (config, key);
  gsize n = strlen (marks);
  const char *text;
  gint64 layer;

  if (ps_json_read_text (reader, &text)) {
    g_auto (GStrv) words = g_strsplit (text, ",", -1);

    for (guint i = 0; words[i] != NULL; i++) {
      guint64 index;

      if (!g_ascii_string_to_unsigned (g_strstrip (words[i]), 10, 0, n - 1, &index, NULL))
        return refuse (config, key, "names a layer that there is not", error);
      marks[index] = letter;
    }
    return TRUE;
  }
  if (!ps_json_enter_array (reader))
    return refuse (config, key, "expected an array", error);
  while (ps_json_next_element (reader)) {
    if (!ps_json_read_integer (reader, &layer))
      return refuse (config, key, "expected integers", error);
    if (layer < first || layer - first >= (gint64)n)
      return refuse (config, key, "names a layer that there is not", error);
    marks[layer - first] = letter;
  }
  return TRUE;
}

/* Gives a window to the layers that have one, where the file does not name them one by one. */
static gboolean mark_windows (Config *config, char *mixers, GError **error)
{
  const char *layers = config->architecture->layers != NULL ? config->architecture->layers : "";
  gint64 every = *layers == 'w' ? g_ascii_strtoll (layers + 1, NULL, 10) : 0, from = USUAL_WINDOW_LAYERS;
  gboolean late = g_str_equal (layers, "late") && read_flag (config, "use_sliding_window", FALSE);

  if (!read_integer (config, "_sliding_window_pattern", 0, &every, error)
      || !read_integer (config, "sliding_window_pattern", 0, &every, error)
      || !read_integer (config, "max_window_layers", 0, &from, error))
    return FALSE;
  for (gint64 i = 0; mixers[i] != '\0' && config->model->window > 0; i++)
    if (late ? i >= from : *layers == 'w' && (every == 0 || (i + 1) % every != 0))
      mixers[i] = 'w';
  return TRUE;
}

/* Kimi names its layers with a delta net, counted from 1. */
static gboolean mark_delta_layers (Config *config, char *mixers, GError **error)
{
  if (scan_of (config) != 'G')
    return refuse (config, "linear_attn_config", "layers of linear attention are not modelled", error);
  go (config, "linear_attn_config");
  note_keys (config, "linear_attn_config.");
  if (!has (config, "linear_attn_config.kda_layers"))
    return refuse (config, "linear_attn_config", "kda_layers are missing", error);
  return mark_layers (config, "linear_attn_config.kda_layers", 1, 'G', mixers, error);
}

/* The mixers of the layers: FULL, 'w', or a scan. NULL on error. */
static char *find_mixers (Config *config, GError **error)
{
  guint n = config->model->layers;
  char scan = scan_of (config);
  g_autofree char *mixers = g_strnfill (n, FULL);
  gint64 interval = 0;

  if (has (config, "layer_types"))
    return read_letters (config, "layer_types", n, mixer_letters, error);
  if (has (config, "compress_ratios"))
    return read_letters (config, "compress_ratios", n, ratio_letters, error);
  if (has (config, "hybrid_layer_pattern"))
    return read_letters (config, "hybrid_layer_pattern", n, rope_letters, error);
  if (has (config, "attn_type_list"))
    return read_letters (config, "attn_type_list", n, type_letters, error);
  if (has (config, "no_rope_layers") && !is_off (g_hash_table_lookup (config->places, "no_rope_layers")))
    return read_letters (config, "no_rope_layers", n, rope_letters, error);
  if (has (config, "linear_attn_config"))
    return mark_delta_layers (config, mixers, error) ? g_steal_pointer (&mixers) : NULL;
  if (!read_integer (config, "full_attention_interval", 0, &interval, error) || !mark_windows (config, mixers, error))
    return NULL;
  if ((scan != '\0') != (interval > 0)) {
    refuse (config, interval > 0 ? "full_attention_interval" : "layer_types",
            interval > 0 ? "layers of linear attention are not modelled" : "missing", error);
    return NULL;
  }
  for (guint i = 0; i < n && interval > 0; i++)
    mixers[i] = (i + 1) % interval == 0 ? FULL : scan;
  return g_steal_pointer (&mixers);
}

/* Layers with experts, 'E', and without, '-'. NULL on error. */
static char *find_forwards (Config *config, GError **error)
{
  static const char *const steps[] = { "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval" };
  guint n = config->model->layers;
  g_autofree char *forwards = g_strnfill (n, config->model->experts.count > 0 ? 'E' : '-');
  gint64 dense = 0, first = 0, last = -1, frequency = 1;

  if (config->model->experts.count == 0)
    return g_steal_pointer (&forwards);
  if (has (config, "mlp_layer_types"))
    return read_letters (config, "mlp_layer_types", n, forward_letters, error);
  if (has (config, "moe_layer_freq") && *(const char *)g_hash_table_lookup (config->places, "moe_layer_freq") == '[') {
    g_free (forwards);
    forwards = read_letters (config, "moe_layer_freq", n, forward_letters, error);
    if (forwards == NULL)
      return NULL;
  } else if (!read_integer (config, "moe_layer_freq", 1, &frequency, error))
    return NULL;
  if (!read_integer (config, "first_k_dense_replace", 0, &dense, error)
      || !read_integer (config, "moe_layer_start_index", 0, &first, error)
      || !read_integer (config, "moe_layer_end_index", -1, &last, error))
    return NULL;
  for (gint64 i = 0; i < n; i++)
    if (i < dense || i % frequency != 0 || i < first || (last >= 0 && i > last))
      forwards[i] = '-';
  for (guint s = 0; s < G_N_ELEMENTS (steps); s++) {
    gint64 step = 1;

    if (!read_integer (config, steps[s], 1, &step, error))
      return NULL;
    for (gint64 i = 0; i < n; i++)
      if ((i + 1) % step != 0)
        forwards[i] = '-';
  }
  if (has (config, "mlp_only_layers") && !mark_layers (config, "mlp_only_layers", 0, '-', forwards, error))
    return NULL;
  const char *key = has (config, "moe_layers_enum") ? "moe_layers_enum" : "moe_layers";
  if (has (config, key)) {
    memset (forwards, '-', n);
    if (!mark_layers (config, key, 0, 'E', forwards, error))
      return NULL;
  }
  return g_steal_pointer (&forwards);
}

void ps_model_simplify_pattern (PsModel *model)
{
  g_autofree char *pattern = g_steal_pointer (&model->pattern);
  const char *experts = strchr (pattern, 'E'), *full = strchr (pattern, '*');
  guint window = strchr (pattern, 'w') != NULL ? model->window : 0;

  if (model->experts.count > 0)
    model->experts.dense_layers = experts != NULL ? (guint)(experts - pattern) / 2 : model->layers;
  model->window = *pattern == 'w' ? window : 0;
  model->full_every = model->window > 0 && full != NULL ? (guint)(full - pattern) / 2 + 1 : 0;
  g_autofree char *usual = ps_model_pattern (model);
  if (strlen (pattern) == strcspn (usual, "/") && g_str_has_prefix (usual, pattern))
    return;
  model->experts.dense_layers = model->full_every = 0;
  model->window = window;
  model->pattern = g_steal_pointer (&pattern);
}

/* The pattern of a file whose layers have one unit each. FALSE on error; *pattern stays NULL where there is none. */
static gboolean find_hybrid_pattern (Config *config, char **pattern, GError **error)
{
  const char *text;

  if (has (config, "layers_block_type")) {
    *pattern = read_letters (config, "layers_block_type", 0, block_letters, error);
    return *pattern != NULL;
  }
  if (!has (config, "hybrid_override_pattern"))
    return TRUE;
  if (!ps_json_read_text (go (config, "hybrid_override_pattern"), &text) || *text == '\0'
      || strspn (text, "M*-E") != strlen (text))
    return refuse (config, "hybrid_override_pattern", "expected the letters M, *, - and E", error);
  *pattern = g_strdup (text);
  if (config->model->mtp == 0 || !has (config, "mtp_hybrid_override_pattern"))
    return TRUE;
  if (!ps_json_read_text (go (config, "mtp_hybrid_override_pattern"), &text) || *text == '\0'
      || strspn (text, "M*-E") != strlen (text))
    return refuse (config, "mtp_hybrid_override_pattern", "expected the letters M, *, - and E", error);
  g_autofree char *layers = *pattern;
  *pattern = g_strconcat (layers, "/", text, NULL);
  return TRUE;
}

static gboolean find_pattern (Config *config, GError **error)
{
  PsModel *model = config->model;
  char full = model->latent.kv_rank == 0 ? '*' : model->indexer.heads > 0 ? 'D' : '+';

  if (!find_hybrid_pattern (config, &model->pattern, error))
    return FALSE;
  if (model->pattern != NULL) {
    gsize n = strcspn (model->pattern, "/");

    model->window = 0;
    if ((model->layers != 0 && n != model->layers) || (double)n > find_field (config, "layers")->high)
      return refuse (config, "num_hidden_layers", "is not the length of the pattern of layers", error);
    model->layers = (guint)n;
    return TRUE;
  }
  if (model->layers == 0)
    return TRUE;
  g_autofree char *mixers = find_mixers (config, error);
  g_autofree char *forwards = mixers != NULL ? find_forwards (config, error) : NULL;
  g_autofree char *indexers = NULL;
  if (forwards == NULL)
    return FALSE;
  if (has (config, "indexer_types")) {
    indexers = read_letters (config, "indexer_types", model->layers, indexer_letters, error);
    if (indexers == NULL)
      return FALSE;
  }
  model->pattern = g_new0 (char, 2 * model->layers + 1);
  for (guint i = 0; i < model->layers; i++) {
    model->pattern[2 * i] = mixers[i] == FULL ? full : mixers[i];
    model->pattern[2 * i + 1] = forwards[i];
  }
  if (strchr (mixers, 'w') != NULL && model->window == 0)
    return refuse (config, "sliding_window", "missing; layer_types names sliding_attention", error);
  ps_model_simplify_pattern (model);
  return TRUE;
}

static gboolean set_precision (Config *config, GError **error)
{
  static const char *const types[]
      = { [PS_PRECISION_FP32] = "float32", [PS_PRECISION_FP16] = "float16", [PS_PRECISION_BF16] = "bfloat16" };
  const char *key = has (config, "torch_dtype") ? "torch_dtype" : "dtype", *type = "bfloat16";

  if (has (config, key) && !ps_json_read_text (go (config, key), &type))
    type = "";
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (g_str_equal (type, types[i])) {
      config->model->precision = i;
      return TRUE;
    }
  return refuse (config, key, "expected bfloat16, float16 or float32", error);
}

/* Kimi's delta net: as many heads of keys as of values, and gates through a narrow vector as wide as a head. */
static gboolean read_linear_sizes (Config *config, GError **error)
{
  gint64 heads = 0, size = 0, span = PS_CONVOLUTION;

  if (!has (config, "linear_attn_config"))
    return TRUE;
  if (!read_integer (config, "linear_attn_config.num_heads", 1, &heads, error)
      || !read_integer (config, "linear_attn_config.head_dim", 1, &size, error)
      || !read_integer (config, "linear_attn_config.short_conv_kernel_size", 1, &span, error))
    return FALSE;
  if (span != PS_CONVOLUTION || has (config, "linear_attn_config.use_full_rank_gate"))
    return refuse (config, "linear_attn_config", "other convolutions and gates are not modelled", error);
  config->model->delta = (PsDelta){ .key_heads = (guint)heads,
                                    .key_size = (guint)size,
                                    .value_heads = (guint)heads,
                                    .value_size = (guint)size,
                                    .gate_rank = (guint)size };
  return TRUE;
}

/* Falcon's older models share keys and values among all heads, and one norm between attention and MLP. */
static gboolean read_falcon (Config *config, GError **error)
{
  gboolean newer = read_flag (config, "new_decoder_architecture", FALSE);
  gint64 norms = newer ? 2 : 1;

  if (!read_integer (config, "num_ln_in_parallel_attn", 1, &norms, error))
    return FALSE;
  if (!newer)
    config->model->kv_heads = read_flag (config, "multi_query", TRUE) ? 1 : 0;
  config->model->one_norm = norms == 1 && (newer || read_flag (config, "parallel_attn", TRUE));
  return TRUE;
}

/* Entries of 4 and 128 tokens, unless compress_rates says otherwise. Modules of multi-token prediction are not
 * described in public. */
static gboolean read_compressed (Config *config, GError **error)
{
  PsModel *model = config->model;
  gint64 sparse = 4, heavy = 128;

  if (has (config, "compress_rates")) {
    go (config, "compress_rates");
    note_keys (config, "compress_rates.");
  }
  if (!read_integer (config, "compress_rates.compressed_sparse_attention", 1, &sparse, error)
      || !read_integer (config, "compress_rates.heavily_compressed_attention", 1, &heavy, error))
    return FALSE;
  model->compress = (PsCompress){ (guint)sparse, (guint)heavy };
  model->latent.rope_size = 0;
  if (model->mtp > 0)
    g_string_append_printf (config->unread, "%snum_nextn_predict_layers", config->unread->len > 0 ? ", " : "");
  model->mtp = 0;
  return TRUE;
}

/* Heads of layers with a window are as large as the others, though there may be more of them. */
static gboolean read_window_heads (Config *config, GError **error)
{
  PsModel *model = config->model;
  gint64 size = model->head_size, values = model->latent.value_size;

  if (!read_integer (config, "swa_head_dim", 1, &size, error)
      || !read_integer (config, "swa_v_head_dim", 1, &values, error))
    return FALSE;
  if (size != model->head_size || values != model->latent.value_size)
    return refuse (config, "swa_head_dim", "heads of another size are not modelled", error);
  model->window_heads = model->window_heads == model->heads ? 0 : model->window_heads;
  if (model->latent.kv_rank == 0) {
    model->value_head_size = model->latent.value_size == model->head_size ? 0 : model->latent.value_size;
    model->latent.value_size = 0;
  }
  return TRUE;
}

/* Widths of experts go by another key in some architectures. */
static gboolean fill_experts (Config *config, GError **error)
{
  PsModel *model = config->model;
  PsExperts *experts = &model->experts;
  gint64 dense = model->feed_forward;

  if (experts->count == 0) {
    *experts = (PsExperts){ .imbalance = 1 };
    return TRUE;
  }
  if (experts->feed_forward == 0)
    experts->feed_forward = model->feed_forward;
  if (!read_integer (config, "intermediate_size_mlp", 1, &dense, error))
    return FALSE;
  model->feed_forward = (guint)dense;
  if (experts->shared_width > 0)
    experts->shared = experts->shared_width == experts->feed_forward;
  if (experts->shared > 0 && experts->shared_width > 0)
    experts->shared_width = 0;
  experts->shared_gate &= experts->shared > 0 || experts->shared_width > 0;
  return TRUE;
}

static void find_encoder (Config *config)
{
  const char *type;

  if (!has (config, "model_type") || !ps_json_read_text (go (config, "model_type"), &type))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (encoders); i++)
    if (is_named (encoders[i].types, type))
      config->encoder = &encoders[i];
}

/* Sizes of the encoder. No image enters it, unless a setting says so: most training is that of text. */
static gboolean read_encoder (Config *config, GError **error)
{
  PsEncoder *encoder = &config->model->encoder;
  const Encoder *row = config->encoder;
  gint64 size[N_ENCODER_KEYS];

  if (!has (config, "vision_config"))
    return TRUE;
  go (config, "vision_config");
  note_keys (config, "vision_config.");
  if (row == NULL
      || (has (config, "vision_config.deepstack_visual_indexes")
          && !is_off (g_hash_table_lookup (config->places, "vision_config.deepstack_visual_indexes")))) {
    g_string_append_printf (config->unread, "%svision_config", config->unread->len > 0 ? ", " : "");
    return TRUE;
  }
  for (guint i = 0; i < N_ENCODER_KEYS; i++) {
    size[i] = row->usual[i];
    for (guint k = 0; k < G_N_ELEMENTS (encoder_keys[i]) && encoder_keys[i][k] != NULL; k++) {
      g_autofree char *key = g_strconcat ("vision_config.", encoder_keys[i][k], NULL);

      if (!read_integer (config, key, 1, &size[i], error))
        return FALSE;
      if (size[i] > PS_MAX_SEQUENCE)
        return refuse (config, key, "is too large", error);
    }
  }
  gint64 side = size[IMAGE] / size[PATCH], patches = size[POSITIONS] > 0 ? size[POSITIONS] : side * side;
  gint64 width = size[HIDDEN] * (row->concatenated ? row->merged * row->merged : 1);
  *encoder = (PsEncoder){ .layers = (guint)size[LAYERS],
                          .hidden = (guint)size[HIDDEN],
                          .heads = (guint)size[HEADS],
                          .feed_forward = (guint)size[FEED_FORWARD],
                          .sequence = (guint)patches + row->extra,
                          .results = (guint)patches / (row->merged * row->merged),
                          .patch = (guint)(row->colours * size[PATCH] * size[PATCH]),
                          .vectors = (guint)(size[HIDDEN] * (patches + 2 * row->extra + row->vectors)),
                          .projector_layers = row->projector_layers,
                          .projector_width = (guint)width,
                          .projector_hidden = row->projector_hidden > 0   ? row->projector_hidden
                                              : row->projector_layers > 1 ? (guint)width
                                                                          : 0,
                          .projector_bias = row->projector_bias };
  return TRUE;
}

static gboolean fill_model (Config *config, GError **error)
{
  PsModel *model = config->model;
  const char *types = config->architecture->types;
  gboolean gpt = model->mlp == PS_MLP_GELU;

  gint64 projected = model->hidden;

  model->flash_attention = TRUE;
  model->microbatch_size = 1;
  if (!read_integer (config, "word_embed_proj_dim", 1, &projected, error))
    return FALSE;
  if (projected != model->hidden)
    return refuse (config, "word_embed_proj_dim", "embeddings of another width are not modelled", error);
  if (g_str_equal (types, "opt"))
    model->position_rows = model->sequence + 2;
  model->longest = model->sequence;
  model->sequence = MIN (model->sequence, USUAL_SEQUENCE);
  if (gpt && has (config, "attention_bias") && !model->qkv_bias)
    return refuse (config, "attention_bias", "biases of the MLP alone are not modelled", error);
  /* The projection after attention has a bias, too, but in these. */
  model->output_bias = !gpt && model->qkv_bias && !model->other_biases && has (config, "attention_bias")
                       && !is_named ("glm glm4 glm4_moe mimo qwen2 qwen2_moe", types);
  if (gpt)
    model->qkv_bias = FALSE;
  if (!read_window_heads (config, error) || (g_str_equal (types, "deepseek_v4") && !read_compressed (config, error)))
    return FALSE;
  if (model->latent.kv_rank > 0)
    model->head_size = 0;
  if (g_str_equal (types, "falcon") && !read_falcon (config, error))
    return FALSE;
  return read_encoder (config, error) && fill_experts (config, error) && find_pattern (config, error)
         && read_linear_sizes (config, error);
}

static gboolean check_config (Config *config, GError **error)
{
  const char *key;

  for (guint i = 0; i < G_N_ELEMENTS (keys) && keys[i].use == KEY_FIELD; i++) {
    const PsIniField *field = find_field (config, keys[i].meaning);
    g_autofree char *first = g_strndup (keys[i].names, strcspn (keys[i].names, " "));

    if (field->presence == PS_INI_REQUIRED && G_STRUCT_MEMBER (guint, config->model, field->offset) == 0)
      return refuse (config, first, "missing", error);
  }
  if (!set_precision (config, error))
    return FALSE;
  ps_model_fill_defaults (config->model);
  g_autofree char *misfit = ps_model_find_misfit (config->model, &key);
  return misfit == NULL || refuse (config, key, misfit, error);
}

/* "config" says nothing about a model; its type says more. */
static char *make_name (Config *config)
{
  g_autofree char *name = g_path_get_basename (config->where);
  const char *type = NULL;

  if (g_str_has_suffix (name, ".json"))
    name[strlen (name) - strlen (".json")] = '\0';
  if (!g_str_equal (name, "config") && *name != '\0')
    return g_steal_pointer (&name);
  ps_json_read_text (go (config, "model_type"), &type);
  return g_strdup (type);
}

/* Python writes Infinity, -Infinity and NaN, which are no JSON. They become null in the copy. Free with g_free. */
static char *without_infinities (const char *text, gsize length)
{
  static const char *const words[] = { "-Infinity", "Infinity", "NaN" };
  char *copy = g_strndup (text, length);
  gboolean quoted = FALSE;

  for (char *at = copy; *at != '\0'; at++) {
    if (quoted && *at == '\\' && at[1] != '\0')
      at++;
    else if (*at == '"')
      quoted = !quoted;
    for (guint i = 0; i < G_N_ELEMENTS (words) && !quoted; i++)
      if (g_str_has_prefix (at, words[i])) {
        memset (at, ' ', strlen (words[i]));
        *at = '0';
      }
  }
  return copy;
}

PsModel *ps_model_parse_config (const char *where, const char *text, gsize length, GError **error)
{
  g_autofree char *copy = without_infinities (text, length);
  g_auto (Config) config = { .where = where, .model = g_new0 (PsModel, 1), .unread = g_string_new (NULL) };

  config.fields = ps_model_fields (&config.n_fields);
  config.model->experts.imbalance = 1;
  config.places = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  config.order = g_ptr_array_new_with_free_func (g_free);
  if (!ps_json_reader_init (&config.reader, where, copy, (gssize)strlen (copy), error))
    return NULL;
  note_keys (&config, "");
  if (has (&config, "text_config")) {
    find_encoder (&config);
    go (&config, "text_config");
    note_keys (&config, "");
  }
  if (!find_architecture (&config, error))
    return NULL;
  set_usual_fields (&config);
  for (guint i = 0; i < config.order->len; i++)
    if (!read_key (&config, g_ptr_array_index (config.order, i), error))
      return NULL;
  if (!fill_model (&config, error) || !check_config (&config, error))
    return NULL;
  config.model->name = make_name (&config);
  config.model->unread = config.unread->len > 0 ? g_strdup (config.unread->str) : NULL;
  return g_steal_pointer (&config.model);
}

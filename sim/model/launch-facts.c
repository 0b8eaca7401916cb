/* launch-facts.c - the facts that the keys of a launch state, and the model that Megatron-LM's arguments define. */
#include "launch-text.h"
#include "model-private.h"

#include "base/text.h"

#include <string.h>

/* What the functions of torchtitan's config_registry.py say of a run, apart from the model. */
static const struct {
  const char *config;
  const char *keys;
} titan_configs[] = {
  { "llama3_8b", "training.local_batch_size=1 training.seq_len=8192" },
  { "llama3_70b", "training.seq_len=8192 parallelism.tensor_parallel_degree=8 activation_checkpoint.mode=full" },
  { "llama3_405b", "training.local_batch_size=2 training.seq_len=8192 parallelism.tensor_parallel_degree=8 "
                   "activation_checkpoint.mode=full" },
  { "deepseek_v3_16b", "training.local_batch_size=4 training.seq_len=4096 parallelism.expert_parallel_degree=8 "
                       "parallelism.pipeline_parallel_schedule=Interleaved1F1B" },
  { "deepseek_v3_671b", "training.local_batch_size=4 training.seq_len=4096 parallelism.expert_parallel_degree=2 "
                        "parallelism.pipeline_parallel_schedule=Interleaved1F1B" },
  { "gpt_oss_20b", "training.local_batch_size=1 training.seq_len=8192 activation_checkpoint.mode=full" },
  { "gpt_oss_120b", "training.local_batch_size=1 training.seq_len=8192 activation_checkpoint.mode=full" },
  { "qwen3_14b", "training.local_batch_size=4 training.seq_len=4096 activation_checkpoint.mode=full" },
  { "qwen3_30b_a3b", "training.local_batch_size=2 training.seq_len=4096 activation_checkpoint.mode=full" },
  { "qwen3_32b", "training.local_batch_size=2 training.seq_len=4096 activation_checkpoint.mode=full" },
  { "llama3_debugmodel", "parallelism.pipeline_parallel_schedule=Interleaved1F1B" },
};

void ps_launch_facts_free (PsLaunchFacts *facts)
{
  if (facts == NULL)
    return;
  g_clear_pointer (&facts->keys, g_ptr_array_unref);
  g_hash_table_unref (facts->values);
  g_hash_table_unref (facts->sources);
  g_hash_table_unref (facts->unknown);
  g_ptr_array_unref (facts->matters);
  g_ptr_array_unref (facts->strange);
  g_ptr_array_unref (facts->words);
  g_free (facts);
}

/* The value in pipesim's words; NULL: it says nothing. Free with g_free. */
static char *translate (const PsKeyRow *row, const char *value)
{
  for (const char *at = row->values; at != NULL && *at != '\0'; at += strspn (at, " ")) {
    gsize n = strcspn (at, " "), left = strcspn (at, "=");

    if (strlen (value) == left && g_ascii_strncasecmp (at, value, left) == 0)
      return n > left + 1 ? g_strndup (at + left + 1, n - left - 1) : NULL;
    at += n;
  }
  if (g_str_equal (value, "True") || g_str_equal (value, "False"))
    return g_ascii_strdown (value, -1);
  return g_strdup (*value == '\0' ? "true" : value);
}

char *ps_launch_place (const PsLaunchFacts *facts, const PsLaunchKey *key)
{
  return key->line > 0 ? g_strdup_printf ("%s:%u", facts->where, key->line) : g_strdup (facts->where);
}

/* Whether the row says what the key is without a value. */
static gboolean is_flag (const PsKeyRow *row)
{
  return row->values != NULL && (*row->values == '=' || strstr (row->values, " =") != NULL);
}

static void take_key (PsLaunchFacts *facts, PsLaunchKey *key)
{
  const PsKeyRow *row = ps_launch_key_row (facts->form, key->key);

  if (*key->key == '\0') {
    g_ptr_array_add (facts->words, key);
    return;
  }
  if (row == NULL && facts->form != PS_LAUNCH_LOG && facts->form != PS_LAUNCH_YAML)
    g_ptr_array_add (facts->strange, key);
  if (row == NULL || row->kind == PS_KEY_HARMLESS)
    return;
  const gboolean more = key->word && is_flag (row); /* words, not a value */
  const gboolean known = key->unknown == NULL || more;
  if (more && !key->unset)
    g_ptr_array_add (facts->words, key);
  g_autofree char *value = known ? translate (row, more ? "" : key->value) : g_strdup ("");
  gboolean says = value != NULL && !g_str_equal (value, "false") && !g_str_equal (value, "0")
                  && !g_str_equal (value, "none") && !g_str_equal (value, "[]");
  if (row->kind == PS_KEY_MATTERS) {
    if (says)
      g_ptr_array_add (facts->matters, key);
    return;
  }
  if (value == NULL) { /* the last one counts */
    g_hash_table_remove (facts->values, row->fact);
    g_hash_table_remove (facts->unknown, row->fact);
    return;
  }
  g_hash_table_remove (known ? facts->unknown : facts->values, row->fact);
  g_hash_table_insert (facts->sources, (gpointer)row->fact, key);
  if (!known)
    g_hash_table_insert (facts->unknown, (gpointer)row->fact, key);
  else
    g_hash_table_insert (facts->values, (gpointer)row->fact, g_steal_pointer (&value));
}

/* Adds the keys of a file of TOML that the launch names, from here or from the launch's folder. */
static gboolean add_titan_file (const PsLaunchFacts *facts, const char *name, GError **error)
{
  g_autofree char *folder = g_path_get_dirname (facts->where), *beside = g_build_filename (folder, name, NULL);
  const char *path = g_file_test (name, G_FILE_TEST_EXISTS) ? name : beside;
  g_autofree char *text = NULL;
  gsize length;

  if (!ps_read_file (path, &text, &length, error))
    return FALSE;
  g_autoptr (GPtrArray) keys = ps_launch_keys (path, text, PS_LAUNCH_TOML, error);
  for (guint i = 0; keys != NULL && i < keys->len; i++) {
    const PsLaunchKey *key = keys->pdata[i];

    ps_launch_add_key (facts->keys, g_strdup (key->key), key->value, 0);
  }
  return keys != NULL;
}

/* Adds the keys of the last configuration and of the files that the launch names. */
static gboolean add_titan_config (const PsLaunchFacts *facts, GError **error)
{
  const guint n = facts->keys->len;
  const char *keys = NULL;

  for (guint i = 0; i < n; i++) {
    const PsLaunchKey *key = facts->keys->pdata[i];

    if (g_str_equal (key->key, "job.config_file") && key->unknown == NULL && !add_titan_file (facts, key->value, error))
      return FALSE;
    for (guint k = 0; g_str_equal (key->key, "config") && k < G_N_ELEMENTS (titan_configs); k++)
      if (g_str_equal (key->value, titan_configs[k].config))
        keys = titan_configs[k].keys;
  }
  g_auto (GStrv) words = g_strsplit (keys != NULL ? keys : "", " ", -1);
  for (char **word = words; *word != NULL && **word != '\0'; word++) {
    const gsize length = strcspn (*word, "=");

    ps_launch_add_key (facts->keys, g_strndup (*word, length), *word + length + 1, 0);
  }
  return TRUE;
}

PsLaunchFacts *ps_launch_facts (const char *where, const char *text, PsLaunchForm form, GError **error)
{
  g_autoptr (PsLaunchFacts) facts = g_new0 (PsLaunchFacts, 1);

  facts->where = where;
  facts->form = form;
  facts->values = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_free);
  facts->sources = g_hash_table_new (g_str_hash, g_str_equal);
  facts->unknown = g_hash_table_new (g_str_hash, g_str_equal);
  facts->matters = g_ptr_array_new ();
  facts->strange = g_ptr_array_new ();
  facts->words = g_ptr_array_new ();
  facts->keys = ps_launch_keys (where, text, form, error);
  if (facts->keys == NULL)
    return NULL;
  const guint n = facts->keys->len;
  if (!add_titan_config (facts, error))
    return NULL;
  for (guint i = n; i < facts->keys->len; i++)
    take_key (facts, facts->keys->pdata[i]);
  for (guint i = 0; i < n; i++)
    take_key (facts, facts->keys->pdata[i]);
  return g_steal_pointer (&facts);
}

gboolean ps_launch_known (const PsLaunchFacts *facts, const char *fact, GError **error)
{
  const PsLaunchKey *key = g_hash_table_lookup (facts->unknown, fact);

  return key == NULL || ps_refuse_at (ps_launch_place (facts, key), error, "%s: %s", key->key, key->unknown);
}

const char *ps_launch_fact (const PsLaunchFacts *facts, const char *fact)
{
  return g_hash_table_lookup (facts->values, fact);
}

gboolean ps_launch_is (const PsLaunchFacts *facts, const char *fact)
{
  const char *value = ps_launch_fact (facts, fact);

  return value != NULL && !g_str_equal (value, "false") && !g_str_equal (value, "0");
}

/* Fails about the key of a fact. */
static gboolean G_GNUC_PRINTF (4, 5)
    refuse_fact (GError **error, const PsLaunchFacts *facts, const char *fact, const char *format, ...)
{
  const PsLaunchKey *key = g_hash_table_lookup (facts->sources, fact);
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *problem = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  if (key == NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: %s", facts->where, fact, problem);
  return ps_refuse_at (ps_launch_place (facts, key), error, "%s: %s", key->key, problem);
}

gint64 ps_launch_count (const PsLaunchFacts *facts, const char *fact, gint64 otherwise, GError **error)
{
  const char *value = ps_launch_fact (facts, fact);
  char *end;

  if (*error != NULL || !ps_launch_known (facts, fact, error) || value == NULL)
    return otherwise;
  gint64 count = g_ascii_strtoll (value, &end, 10);
  if (end == value || *end != '\0' || count < -1 || count > G_MAXINT)
    refuse_fact (error, facts, fact, "'%.60s' is no number that it can have", value);
  return count;
}

const char *ps_launch_precision (const PsLaunchFacts *facts)
{
  const char *recipe = ps_launch_fact (facts, "precision.recipe"), *name = ps_launch_fact (facts, "precision");
  guint precision;

  if (name == NULL || !ps_precision_parse ("", name, &precision, NULL))
    name = NULL;
  else if (precision > PS_PRECISION_BF16) /* else that of all but products, which may have fewer bits */
    return ps_precision_name (precision);
  if (ps_launch_is (facts, "precision.fp4"))
    return "nvfp4";
  if (ps_launch_is (facts, "precision.fp8"))
    return recipe != NULL && ps_precision_parse ("", recipe, &precision, NULL) ? ps_precision_name (precision) : "fp8";
  if (name != NULL)
    return ps_precision_name (precision);
  return ps_launch_is (facts, "precision.fp16") ? "fp16" : ps_launch_is (facts, "precision.bf16") ? "bf16" : "fp32";
}

gboolean ps_launch_has_model (const PsLaunchFacts *facts)
{
  return ps_launch_fact (facts, "hidden") != NULL || !ps_launch_known (facts, "hidden", NULL);
}

/* Writes `mark` at `place` of the layers that the text names; a layer has n_letters letters. "N" names each N-th layer,
 * or with `skipped` all others; a Python list "([0]*3+[1]*58)" names the layers with 1. FALSE: the text is neither. */
static gboolean mark_layers (const char *text, gboolean skipped, char mark, guint place, guint n_letters,
                             GString *pattern)
{
  const guint n = (guint)pattern->len / n_letters;
  char *end;
  gint64 every = g_ascii_strtoll (text, &end, 10);
  guint i = 0;

  if (end != text && *end == '\0' && every > 0) {
    for (i = 0; i < n; i++)
      if (skipped ? (i + 1) % every != 0 : i % every == 0)
        pattern->str[n_letters * i + place] = mark;
    return TRUE;
  }
  for (const char *at = text; *at != '\0'; at += strspn (at, "()+ ,]'\"")) {
    gboolean list = *at == '[';
    const char *open = list ? at + 1 : at, *close = list ? strpbrk (open, "])") : open + 1;
    gint64 count = 1;

    if (close == NULL)
      return FALSE;
    gsize length = (gsize)(close - open);
    const char *times = list ? close + 1 : close;
    if (strchr ("()+ ,'\"", *at) != NULL) {
      at++;
      continue;
    }
    if (*times == '*')
      count = g_ascii_strtoll (times + 1, &end, 10);
    for (gint64 k = 0; k < MIN (count, n); k++)
      for (gsize c = 0; c < length; c++)
        if (open[c] == '0' || open[c] == '1') {
          if (i < n && open[c] == '1')
            pattern->str[n_letters * i + place] = mark;
          i++;
        } else if (strchr (", ", open[c]) == NULL)
          return FALSE;
    at = *times == '*' ? end : times;
  }
  return i == n;
}

/* The pattern of GPTModel's layers, by the lists of what some of them have; NULL on error. */
static char *make_pattern (const PsLaunchFacts *facts, guint layers, GError **error)
{
  g_autoptr (GString) pattern = g_string_new (NULL);
  const char *variant = ps_launch_fact (facts, "variant");
  gboolean latent = ps_launch_is (facts, "latent"), mixed = ps_launch_is (facts, "experts_of_layer");
  gboolean window = ps_launch_is (facts, "window");
  const struct {
    const char *fact;
    gboolean given;
    char mark;
    guint place;
  } lists[] = { { "full-layers", window, 'w', 0 },
                { "linear-layers", g_strcmp0 (variant, "gated_delta_net") == 0, 'G', 0 },
                { "expert-layers", mixed, 'E', 1 } };
  char mixer = g_strcmp0 (variant, "dsa") == 0 ? 'D' : latent ? '+' : '*';

  for (guint i = 0; i < layers; i++)
    g_string_append_printf (pattern, "%c-", mixer);
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++) {
    const char *text = ps_launch_fact (facts, lists[i].fact);

    if (lists[i].given
        && !mark_layers (text != NULL ? text : "1", i < 2 && text != NULL, lists[i].mark, lists[i].place, 2, pattern)) {
      refuse_fact (error, facts, lists[i].fact, "expected N or a list of 0 and 1 for %u layers", layers);
      return NULL;
    }
  }
  return g_string_free (g_steal_pointer (&pattern), FALSE);
}

/* The units of HybridModel's pattern without its cuts and brackets. It counts each unit as a layer, and attention with
 * a window is marked in the list of all. */
static char *strip_pattern (const PsLaunchFacts *facts, const char *text)
{
  GString *pattern = g_string_new (NULL);
  const char *list = ps_launch_fact (facts, "full-layers");

  for (; *text != '\0'; text++)
    if (strchr ("|[] ", *text) == NULL)
      g_string_append_c (pattern, *text);
  if (ps_launch_is (facts, "window")) {
    gsize n = strcspn (pattern->str, "/");
    g_autoptr (GString) marks = g_string_new_len (pattern->str, (gssize)n);

    mark_layers (list != NULL ? list : "1", list != NULL, 'w', 0, 1, marks);
    for (gsize i = 0; i < n; i++)
      if (pattern->str[i] == '*' && marks->str[i] == 'w')
        pattern->str[i] = 'w';
  }
  return g_string_free (pattern, FALSE);
}

/* Whether each layer is a mixer and a forward. */
static gboolean is_paired (const char *pattern)
{
  const gsize n = strcspn (pattern, "/");

  for (gsize i = 0; i < n; i++)
    if ((strchr ("-E", pattern[i]) != NULL) != (i % 2 == 1))
      return FALSE;
  return n > 0 && n % 2 == 0;
}

static void add_line (GString *ini, const char *key, const char *value)
{
  g_string_append_printf (ini, "%s = %s\n", key, value);
}

/* The lines of the model's description that follow from several keys. */
static void add_joint_lines (const PsLaunchFacts *facts, GString *ini)
{
  const char *rotary = ps_launch_fact (facts, "rotary"), *heads = ps_launch_fact (facts, "heads");
  gboolean swiglu = ps_launch_is (facts, "swiglu"), relu2 = ps_launch_is (facts, "squared-relu");
  gboolean bare = ps_launch_is (facts, "no-biases"), latent = ps_launch_is (facts, "latent");
  gboolean llama = swiglu || relu2;
  gboolean implied = facts->form == PS_LAUNCH_YAML && ps_launch_fact (facts, "grouped") == NULL;
  const char *groups = ps_launch_fact (facts, implied || ps_launch_is (facts, "grouped") ? "groups" : "kv-heads");
  gint64 window
      = g_ascii_strtoll (ps_launch_is (facts, "window") ? ps_launch_fact (facts, "window") + 1 : "0", NULL, 10);

  add_line (ini, "mlp", swiglu ? "swiglu" : relu2 ? "relu2" : "gelu");
  if (!latent && groups != NULL && g_strcmp0 (groups, heads) != 0)
    add_line (ini, "kv_heads", groups);
  if (llama && (!bare || ps_launch_is (facts, "qkv-bias")))
    add_line (ini, "qkv_bias", "true");
  if (llama && !bare)
    add_line (ini, "other_biases", "true");
  else if (!llama && bare)
    add_line (ini, "biases", "false");
  if (!llama && rotary != NULL)
    add_line (ini, "positions", "false");
  if (window > 0)
    g_string_append_printf (ini, "window = %" G_GINT64_FORMAT "\n", window + 1);
  if (ps_launch_is (facts, "capacity") && ps_launch_is (facts, "padded"))
    add_line (ini, "capacity", ps_launch_fact (facts, "capacity"));
  if (ps_launch_is (facts, "experts_of_layer"))
    add_line (ini, "experts", ps_launch_fact (facts, "experts_of_layer"));
}

/* Words that tokenizers have, by parts of the names of their models or types: the whole tokenizer (len), which
 * Megatron-LM's HuggingFaceTokenizer asks, where that is published, else vocab_size of config.json. Each row names its
 * source. The first row that fits counts. */
static const struct {
  const char *names;
  guint size;
} tokenizers[] = {
  /* config.json of meta-llama/Meta-Llama-3-8B and deepseek-ai/DeepSeek-R1-Distill-Llama-8B */
  { "llama-3 llama3 distill-llama", 128256 },
  { "llama-4", 202048 },        /* config.json of meta-llama/Llama-4-Scout-17B-16E */
  { "codellama", 32016 },       /* config.json of codellama/CodeLlama-7b-hf */
  { "mistral-7b-v0.3", 32768 }, /* config.json of mistralai/Mistral-7B-v0.3 */
  { "instruct-v0.3", 32768 },   /* the same */
  { "mistral-nemo", 131072 },   /* config.json of mistralai/Mistral-Nemo-Base-2407 */
  /* config.json of meta-llama/Llama-2-7b-hf, lmsys/vicuna-7b-v1.5, mistralai/Mistral-7B-v0.1,
     mistralai/Mixtral-8x7B-v0.1 and 8x22B-v0.1 */
  { "llama vicuna mixtral mistral", 32000 },
  /* Pai-Megatron-Patch: vocab.json of Qwen/Qwen3-8B and Qwen/Qwen2-7B; QwenLM/Qwen3 issue 29 */
  { "qwen3tokenizer qwen2tokenizer qwen2vl", 151643 },
  { "qwen3", 151669 },                   /* b4rtaz/distributed-llama pull request 282, of tokenizer.json */
  { "qwen2.5", 151665 },                 /* Primus, kimi_k3_curve.yaml: 151643 and 22 more */
  { "qwen2", 151646 },                   /* Qwen2.5-VL's technical report; QwenLM/Qwen3 issue 885 */
  { "qwen", 151851 },                    /* QwenLM/Qwen, tokenization_note.md */
  { "deepseekv2tokenizer", 100000 },     /* Pai-Megatron-Patch; arXiv 2401.02954, section 2 */
  { "deepseek-v3 deepseek-r1", 128815 }, /* Megatron-Bridge, configuration_step35.py */
  { "gpt-oss", 200019 },                 /* tiktoken, openai_public.py: o200k_base */
  { "gpt-neox", 50277 },                 /* config.json of state-spaces/mamba-2.8b */
  { "gemma-3", 262208 },                 /* config.json of google/gemma-3-27b-it */
  /* config.json of nvidia/Minitron-8B-Base, google/gemma-7b and gemma-2-9b; model card of nvidia/Nemotron-4-340B-Base
   */
  { "minitron nemotron-4 gemma", 256000 },
  { "falcon", 65024 },            /* config.json of tiiuae/falcon-7b */
  { "opttokenizer opt-", 50272 }, /* config.json of facebook/opt-6.7b */
  { "bloom", 250680 },            /* bigscience, train/tr11-176B-ml/README.md */
  { "baichuan2", 125696 },        /* config.json of baichuan-inc/Baichuan2-7B-Base */
  /* config.json of baichuan-inc/Baichuan-7B and 01-ai/Yi-34B */
  { "baichuan yi- yitokenizer", 64000 },
  { "starcoder", 49152 },                                        /* config.json of bigcode/starcoder */
  { "pretrain_bert pretrain_t5 bertwordpiecelowercase", 30522 }, /* config.json of bert-base-uncased */
  { "bertwordpiececase", 28996 },                                /* config.json of bert-base-cased */
  { "mt5", 250112 },                                             /* config.json of google/mt5-base */
  { "t5", 32128 },                                               /* config.json of t5-base */
  { "phi-3", 32064 },                                            /* config.json of microsoft/Phi-3-mini-4k-instruct */
  { "gpt2 pretrain_gpt", 50257 },                                /* config.json of gpt2 */
};

/* What the file says of the fact, though only an execution would tell the whole: "${FOLDER}/llama-3/tokenizer.model".
 */
static const char *said (const PsLaunchFacts *facts, const char *fact)
{
  const PsLaunchKey *key = g_hash_table_lookup (facts->sources, fact);

  return key != NULL ? key->value : NULL;
}

/* The words of the tokenizer, and rows up to the multiple that each of t GPUs has a part of. 0: it is not known. */
static gint64 find_vocabulary (const PsLaunchFacts *facts, GError **error)
{
  const char *const names[] = { said (facts, "tokenizer-model"), said (facts, "tokenizer-type"),
                                said (facts, "program"), said (facts, "merge-file") != NULL ? "gpt2" : NULL };
  const char *model = ps_launch_fact (facts, "tokenizer-model"), *type = ps_launch_fact (facts, "tokenizer-type");
  const char *shown = model != NULL ? model : type != NULL ? type : "";
  GError *cause = NULL;
  gint64 t = ps_launch_count (facts, "tensor", 1, &cause), more = ps_launch_count (facts, "further-words", 0, &cause);
  gint64 multiple = MAX (ps_launch_count (facts, "vocabulary-multiple", 128, &cause), 1) * MAX (t, 1), size = 0;

  for (guint k = 0; k < G_N_ELEMENTS (names) && size == 0; k++)
    for (guint i = 0; names[k] != NULL && i < G_N_ELEMENTS (tokenizers) && size == 0; i++) {
      g_autofree char *name = g_ascii_strdown (names[k], -1);

      size = ps_has_word (name, tokenizers[i].names) ? tokenizers[i].size : 0;
    }
  if (cause != NULL)
    g_propagate_error (error, cause);
  else if (size == 0)
    ps_refuse (error, PS_ERROR_INPUT, "%s: says no vocab_size, and its tokenizer %s%sis not known here; give --model%s",
               facts->where, shown, *shown != '\0' ? " " : "",
               facts->form == PS_LAUNCH_WORDS ? ", or --from 'FILE --vocab-size N'" : "");
  return size > 0 && cause == NULL ? (size + MAX (more, 0) + multiple - 1) / multiple * multiple : 0;
}

/* The rows of the model that its form of attention and of forwards has. */
static gboolean belongs (const PsLaunchFacts *facts, const char *key)
{
  static const char *const latent[] = { "q_rank", "kv_rank", "nope_size", "rope_size", "value_size", NULL };
  static const char *const mixed[]
      = { "active_experts", "expert_feed_forward", "shared_feed_forward", "shared_gate", "expert_latent", NULL };
  static const char *const plain[] = { "head_size", "qk_norm", NULL };
  const char *variant = ps_launch_fact (facts, "variant"), *pattern = ps_launch_fact (facts, "pattern");
  const char *letters = pattern != NULL ? pattern : "";

  if (g_strv_contains (latent, key))
    return ps_launch_is (facts, "latent");
  if (g_strv_contains (mixed, key))
    return ps_launch_is (facts, "experts_of_layer");
  if (g_strv_contains (plain, key))
    return !ps_launch_is (facts, "latent");
  if (g_str_has_prefix (key, "mamba_"))
    return strchr (letters, 'M') != NULL;
  if (g_str_has_prefix (key, "delta_"))
    return strchr (letters, 'G') != NULL || g_strcmp0 (variant, "gated_delta_net") == 0;
  if (g_str_has_prefix (key, "index_"))
    return strchr (letters, 'D') != NULL || g_strcmp0 (variant, "dsa") == 0;
  if (g_str_equal (key, "mtp"))
    return strchr (letters, '/') == NULL;
  return !g_str_equal (key, "experts_of_layer") && !g_str_equal (key, "layers");
}

/* What Megatron-LM takes where nothing is said (training/arguments.py, transformer_config.py): 4 times the width, of
 * SwiGLU two thirds of that in multiples of 64; sizes of latent attention and of Mamba; whole sequences. */
static void add_defaults (const PsLaunchFacts *facts, GString *ini)
{
  const gint64 hidden = g_ascii_strtoll (ps_launch_fact (facts, "hidden"), NULL, 10);
  const char *wide = ps_launch_fact (facts, "feed_forward"), *head = ps_launch_fact (facts, "mamba_head_size");
  const char *tensor = said (facts, "tensor");
  gint64 width = wide != NULL                     ? g_ascii_strtoll (wide, NULL, 10)
                 : ps_launch_is (facts, "swiglu") ? hidden * 8 / 3 / 64 * 64
                                                  : 4 * hidden;
  const struct {
    const char *key;
    gint64 value;
  } defaults[] = { { "feed_forward", width },
                   { "active_experts", 2 },
                   { "expert_feed_forward", width },
                   { "kv_rank", 32 },
                   { "nope_size", 128 },
                   { "rope_size", 64 },
                   { "value_size", 128 },
                   { "mamba_heads", 2 * hidden / MAX (1, head != NULL ? g_ascii_strtoll (head, NULL, 10) : 64) },
                   { "mamba_head_size", 64 },
                   { "mamba_state", 128 },
                   { "mamba_groups", 8 } };

  for (guint i = 0; i < G_N_ELEMENTS (defaults); i++)
    if (ps_launch_fact (facts, defaults[i].key) == NULL && belongs (facts, defaults[i].key))
      g_string_append_printf (ini, "%s = %" G_GINT64_FORMAT "\n", defaults[i].key, defaults[i].value);
  if (ps_launch_fact (facts, "tied") == NULL)
    add_line (ini, "tied", "true");
  if (ps_launch_fact (facts, "flash_attention") == NULL)
    add_line (ini, "flash_attention", "true");
  if (tensor != NULL && !g_str_equal (tensor, "1") && !ps_launch_is (facts, "sequence-parallel")
      && ps_launch_known (facts, "sequence-parallel", NULL))
    add_line (ini, "sequence_parallel", "false");
}

/* What the pattern says: layers, modules of multi-token prediction, and units. NULL on error. */
static char *add_pattern (const PsLaunchFacts *facts, GString *ini, GError **error)
{
  const char *hybrid = ps_launch_fact (facts, "pattern");
  GError *cause = NULL;
  gint64 layers = ps_launch_count (facts, "layers", 0, &cause);
  g_autofree char *pattern = hybrid != NULL ? strip_pattern (facts, hybrid) : NULL;

  if (cause != NULL) {
    g_propagate_error (error, cause);
    return NULL;
  }
  if (hybrid == NULL && (layers < 1 || layers > PS_MAX_STAGES))
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: says no num_layers", facts->where);
  if (hybrid == NULL)
    pattern = make_pattern (facts, (guint)layers, error);
  else {
    guint n_modules = 0;

    layers = (gint64)strcspn (pattern, "/") / (is_paired (pattern) ? 2 : 1);
    for (const char *at = pattern; *at != '\0'; at++)
      n_modules += *at == '/';
    if (n_modules > 0)
      g_string_append_printf (ini, "mtp = %u\n", n_modules);
    if (n_modules > 1)
      *strchr (strchr (pattern, '/') + 1, '/') = '\0';
  }
  g_string_append_printf (ini, "layers = %" G_GINT64_FORMAT "\n", layers);
  return g_steal_pointer (&pattern);
}

char *ps_launch_model_text (const char *where, const char *text, PsLaunchForm form, GError **error)
{
  g_autoptr (PsLaunchFacts) facts = ps_launch_facts (where, text, form, error);
  g_autoptr (GString) ini = g_string_new ("[model]\n");
  const char *fact;

  if (facts == NULL)
    return NULL;
  for (const PsKeyRow *row = ps_key_rows; row->keys != NULL; row++)
    if ((row->kind == PS_KEY_MODEL || row->kind == PS_KEY_SHAPE) && !ps_launch_known (facts, row->fact, error))
      return NULL;
  if (!ps_launch_has_model (facts))
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: defines no model (hidden_size); give --model", where);
  g_autofree char *pattern = add_pattern (facts, ini, error);
  if (pattern == NULL)
    return NULL;
  if (ps_launch_fact (facts, "vocabulary") == NULL) {
    gint64 vocabulary = find_vocabulary (facts, error);

    if (vocabulary == 0)
      return NULL;
    g_string_append_printf (ini, "vocabulary = %" G_GINT64_FORMAT "\n", vocabulary);
  }
  for (const PsKeyRow *row = ps_key_rows; row->keys != NULL; row++) {
    fact = row->kind == PS_KEY_MODEL ? ps_launch_fact (facts, row->fact) : NULL;
    for (const PsKeyRow *other = ps_key_rows; other < row && fact != NULL; other++)
      fact = g_strcmp0 (other->fact, row->fact) == 0 ? NULL : fact;
    if (fact != NULL
        && ((belongs (facts, row->fact) && ps_launch_is (facts, row->fact)) || g_str_equal (row->fact, "tied")
            || g_str_equal (row->fact, "flash_attention")))
      add_line (ini, row->fact, fact);
  }
  add_joint_lines (facts, ini);
  add_defaults (facts, ini);
  const char *sequence = ps_launch_fact (facts, "sequence"), *size = ps_launch_fact (facts, "microbatch-size");
  add_line (ini, "sequence", sequence != NULL ? sequence : "4096");
  add_line (ini, "microbatch_size", size != NULL ? size : "1");
  add_line (ini, "precision", ps_launch_precision (facts));
  add_line (ini, "pattern", pattern);
  return g_string_free (g_steal_pointer (&ini), FALSE);
}

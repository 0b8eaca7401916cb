/* Tests of model.h: kinds of layers, and the formulas of models that are no plain decoder. */
#include "model/model-private.h"
#include "folder-rig.h"

#include <pipesim/model.h>

#include <string.h>

static PsModel *
shipped (const char *name)
{
  return fine (ps_model_load (name, &error));
}

/* Totals and active parameters as published with the weights, in billions. Multi-token prediction does not count. The
 * active ones of deepseek-v3 and gpt-oss-120b are published without the embedding. */
static void
test_published_parameters (void)
{
  const struct
  {
    const char *name;
    double total, active;
  } rows[] = { { "gpt-3-175b", 175.0, 175.0 },         { "bloom-176b", 176.247, 176.247 },
               { "llama-3-405b", 405.853, 405.853 },   { "mixtral-8x7b", 46.703, 12.88 },
               { "deepseek-v3", 671.03, 36.7 + .927 }, { "qwen3-235b-a22b", 235.09, 22.19 },
               { "deepseek-v2", 235.74, 21.4 },        { "gpt-oss-120b", 116.83, 5.13 + .579 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsModel) model = shipped (rows[i].name);

      model->mtp = 0;
      g_assert_cmpfloat_with_epsilon ((double)ps_model_parameters (model) / 1e9, rows[i].total, 0.005 * rows[i].total);
      g_assert_cmpfloat_with_epsilon ((double)ps_model_active_parameters (model) / 1e9, rows[i].active,
                                      0.005 * rows[i].active);
    }
}

#define TWO_TYPES "\"sliding_attention\",\"full_attention\""
#define SIX_TYPES TWO_TYPES "," TWO_TYPES "," TWO_TYPES
#define TYPES_36 SIX_TYPES "," SIX_TYPES "," SIX_TYPES "," SIX_TYPES "," SIX_TYPES "," SIX_TYPES

/* One shipped model and the config.json published with its weights have the same parameters and the same work. */
static void
test_config (void)
{
  const char *const rows[][2] = {
    { "deepseek-v3",
      "{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"first_k_dense_replace\":3,\"hidden_size\":7168,"
      "\"intermediate_size\":18432,\"kv_lora_rank\":512,\"max_position_embeddings\":163840,"
      "\"model_type\":\"deepseek_v3\",\"moe_intermediate_size\":2048,\"moe_layer_freq\":1,\"n_routed_experts\":256,"
      "\"n_shared_experts\":1,\"num_attention_heads\":128,\"num_experts_per_tok\":8,\"num_hidden_layers\":61,"
      "\"num_key_value_heads\":128,\"num_nextn_predict_layers\":1,\"q_lora_rank\":1536,\"qk_nope_head_dim\":128,"
      "\"qk_rope_head_dim\":64,\"rope_scaling\":{\"type\":\"yarn\"},\"tie_word_embeddings\":false,"
      "\"torch_dtype\":\"bfloat16\",\"v_head_dim\":128,\"vocab_size\":129280}" },
    { "gpt-oss-120b",
      "{\"model_type\":\"gpt_oss\",\"attention_bias\":true,\"head_dim\":64,\"hidden_size\":2880,"
      "\"intermediate_size\":2880,\"layer_types\":[" TYPES_36
      "],\"max_position_embeddings\":131072,\"num_attention_heads\":64,\"num_experts_per_tok\":4,"
      "\"num_hidden_layers\":36,\"num_key_value_heads\":8,\"num_local_experts\":128,\"sliding_window\":128,"
      "\"tie_word_embeddings\":false,\"vocab_size\":201088}" },
    { "qwen3-235b-a22b",
      "{\"model_type\":\"qwen3_moe\",\"attention_bias\":false,\"decoder_sparse_step\":1,\"head_dim\":128,"
      "\"hidden_size\":4096,\"intermediate_size\":12288,\"max_position_embeddings\":40960,"
      "\"moe_intermediate_size\":1536,\"num_attention_heads\":64,\"num_experts\":128,\"num_experts_per_tok\":8,"
      "\"num_hidden_layers\":94,\"num_key_value_heads\":4,\"sliding_window\":null,\"tie_word_embeddings\":false,"
      "\"torch_dtype\":\"bfloat16\",\"use_sliding_window\":false,\"vocab_size\":151936}" },
    { "mixtral-8x7b",
      "{\"model_type\":\"mixtral\",\"hidden_size\":4096,\"intermediate_size\":14336,\"max_position_embeddings\":32768,"
      "\"num_attention_heads\":32,\"num_experts_per_tok\":2,\"num_hidden_layers\":32,\"num_key_value_heads\":8,"
      "\"num_local_experts\":8,\"sliding_window\":null,\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\","
      "\"vocab_size\":32000}" },
    { "llama-3-405b",
      " {\"model_type\":\"llama\",\"hidden_size\":16384,\"intermediate_size\":53248,\"max_position_embeddings\":8192,"
      "\"num_attention_heads\":128,\"num_hidden_layers\":126,\"num_key_value_heads\":8,\"vocab_size\":128256}" },
    { "gpt-3-175b",
      "{\"model_type\":\"gpt2\",\"n_embd\":12288,\"n_layer\":96,\"n_head\":96,\"n_inner\":null,\"n_positions\":2048,"
      "\"vocab_size\":50257}" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsModel) ours = shipped (rows[i][0]);
      g_autoptr (PsModel) theirs = fine (ps_model_parse ("x/config.json", rows[i][1], strlen (rows[i][1]), &error));

      g_assert_true (ps_model_resize (ours, 1, 4096, NULL) && ps_model_resize (theirs, 1, 4096, NULL));
      const PsStageShape whole = ps_model_whole (ours);
      g_assert_cmpint (ps_model_parameters (theirs), ==, ps_model_parameters (ours));
      g_assert_cmpint (ps_model_active_parameters (theirs), ==, ps_model_active_parameters (ours));
      g_assert_cmpint (ps_model_stage_flops (theirs, &whole, PS_OP_F), ==,
                       ps_model_stage_flops (ours, &whole, PS_OP_F));
      g_assert_cmpint (ps_model_stage_activation_bytes (theirs, &whole), ==,
                       ps_model_stage_activation_bytes (ours, &whole));
    }
}

#define LLAMA                                                                                                          \
  "\"model_type\":\"llama\",\"hidden_size\":64,\"max_position_embeddings\":8192,\"num_attention_heads\":4,"            \
  "\"num_hidden_layers\":2,\"vocab_size\":100"

static void
test_config_read (void)
{
  const char *text = "{" LLAMA ",\"torch_dtype\":\"float16\",\"some\":[1,{\"more\":2}],"
                     "\"mlp_bias\":false,\"rms_norm_eps\":1e-5,\"attention_dropout\":0.1,\"hidden_act\":\"silu\","
                     "\"mlp_only_layers\":null,\"max_window_layers\":null,\"_attn_implementation\":\"sdpa\",\"layer_"
                     "skip\":null,\"head_count\":0.0}";
  g_autoptr (PsModel) model = ps_model_parse ("models/config.json", text, strlen (text), NULL);
  g_autoptr (PsModel) named = ps_model_parse ("models/mine.json", text, strlen (text), NULL);

  g_assert_cmpstr (model->name, ==, "llama");
  g_assert_cmpstr (named->name, ==, "mine");
  g_assert_cmpint (model->precision, ==, PS_PRECISION_FP16);
  g_assert_cmpuint (model->sequence, ==, 4096); /* no more, unless asked for */
  g_assert_cmpuint (model->microbatch_size, ==, 1);
  g_assert_true (ps_model_resize (model, 0, 8192, NULL));
  g_assert_cmpuint (model->sequence, ==, 8192);
  g_assert_null (ps_model_special_key (model));
}

#define QWEN(type)                                                                                                     \
  "\"model_type\":\"" type "\",\"hidden_size\":256,\"intermediate_size\":1024,\"num_hidden_layers\":8,"                \
  "\"num_attention_heads\":4,\"max_position_embeddings\":1024,\"vocab_size\":1000,\"tie_word_embeddings\":false"
#define QWEN3_MOE                                                                                                      \
  QWEN ("qwen3_moe")                                                                                                   \
  ",\"num_key_value_heads\":2,\"head_dim\":64,\"num_experts\":16,\"num_experts_per_tok\":2,"                           \
  "\"moe_intermediate_size\":128"
#define QWEN2_MOE QWEN ("qwen2_moe") ",\"num_experts\":16,\"num_experts_per_tok\":2,\"moe_intermediate_size\":192"

/* Keys that change the layers, against parameters that were counted by hand: of a layer's attention and norms 197,248,
 * of a dense one besides 3 x 256 x 1024, of one with experts 16 x 3 x 256 x 128 + 16 x 256; 2 x 1000 x 256 + 256. */
static void
test_config_counts (void)
{
  static const struct
  {
    const char *text;
    gint64 parameters;
    guint window, full_every;
  } rows[] = {
    { "{" QWEN3_MOE "}", 8 * (197248 + 1576960) + 512256, 0, 0 },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":[]}", 8 * (197248 + 1576960) + 512256, 0, 0 },
    { "{\"mlp_only_layers\":[0,1,2,3]," QWEN3_MOE "}", 11543808, 0, 0 },
    { "{" QWEN3_MOE ",\"decoder_sparse_step\":1,\"sliding_window\":null}", 8 * (197248 + 1576960) + 512256, 0, 0 },
    { "{" QWEN2_MOE ",\"shared_expert_intermediate_size\":384}",
      8 * (4 * 65536 + 4 * 256 + 256 + 18 * 147456 + 16 * 256) + 512256, 0, 0 },
    { "{" QWEN2_MOE ",\"shared_expert_intermediate_size\":0}",
      8 * (4 * 65536 + 4 * 256 + 256 + 16 * 147456 + 16 * 256) + 512256, 0, 0 },
    { "{" QWEN ("qwen2") ",\"sliding_window\":64}", 8 * (4 * 65536 + 5 * 256 + 786432) + 512256, 0, 0 },
    { "{" QWEN ("qwen2") ",\"sliding_window\":64,\"use_sliding_window\":true,\"max_window_layers\":8}",
      8 * (4 * 65536 + 5 * 256 + 786432) + 512256, 0, 0 },
    { "{" QWEN ("qwen2") ",\"sliding_window\":64,\"use_sliding_window\":true,\"max_window_layers\":0}",
      8 * (4 * 65536 + 5 * 256 + 786432) + 512256, 64, 0 },
    { "{" QWEN ("gpt_oss") ",\"num_experts\":16,\"num_experts_per_tok\":2,\"sliding_window\":64}",
      /* biases: of the output 256, of the router 16, of an expert's two matrices 2 x 1024 and 256 */
      8 * (4 * 65536 + 5 * 256 + 16 * 786432 + 16 * 256 + 256 + 16 + 16 * (2 * 1024 + 256)) + 512256, 64, 2 },
    { "{" QWEN ("mistral") ",\"sliding_window\":64}", 8 * (4 * 65536 + 2 * 256 + 786432) + 512256, 64, 0 },
    /* GLM-4.5-Air */
    { "{\"model_type\":\"glm4_moe\",\"attention_bias\":true,\"head_dim\":128,\"hidden_size\":4096,"
      "\"intermediate_size\":10944,\"max_position_embeddings\":131072,\"moe_intermediate_size\":1408,"
      "\"num_attention_heads\":96,\"n_routed_experts\":128,\"n_shared_experts\":1,\"num_experts_per_tok\":8,"
      "\"first_k_dense_replace\":1,\"num_hidden_layers\":46,\"num_key_value_heads\":8,\"use_qk_norm\":false,"
      "\"tie_word_embeddings\":false,\"vocab_size\":151552}",
      106852245504, 0, 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsModel) model = fine (ps_model_parse ("c.json", rows[i].text, strlen (rows[i].text), &error));

      g_assert_cmpint (ps_model_parameters (model), ==, rows[i].parameters);
      g_assert_cmpuint (model->window, ==, rows[i].window);
      g_assert_cmpuint (model->full_every, ==, rows[i].full_every);
    }
}

static void
test_config_refused (void)
{
  const char *const rows[][2] = {
    { "{" LLAMA, "c.json:1:*" },
    { "{}", "c.json: model_type: missing; known are: bloom *" },
    { "{\"num_hidden_layers\":\"x\",\"model_type\":\"opt\"}", "c.json: model_type: 'opt' is not known; *" },
    { "{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":8,\"model_type\":\"gemma3_text\"}}",
      "c.json: text_config: model_type 'gemma3' * the object, of model_type 'gemma3_text', can be a file of its own*" },
    { "{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":8}}",
      "c.json: text_config: model_type 'gemma3' * the object, of model_type '', can be a file of its own*" },
    { "{" QWEN3_MOE ",\"max_window_layers\":-1}", "c.json: max_window_layers: expected an integer" },
    { "{" QWEN3_MOE ",\"max_window_layers\":2147483648}", "c.json: max_window_layers: expected an integer" },
    { "{" QWEN3_MOE ",\"max_window_layers\":\"2\"}", "c.json: max_window_layers: expected an integer" },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":[-1]}", "c.json: mlp_only_layers: expected an integer" },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":0}", "c.json: mlp_only_layers: expected an array" },
    { "{" QWEN3_MOE ",\"decoder_sparse_step\":-1}", "c.json: decoder_sparse_step: expected an integer" },
    { "{\"model_type\":\"llama\"}", "c.json: num_hidden_layers: missing" },
    { "{" LLAMA ",\"num_hidden_layers\":0}", "c.json: num_hidden_layers: missing" },
    { "{" LLAMA ",\"num_hidden_layers\":-1}", "c.json: num_hidden_layers: expected an integer from 0 to 16384" },
    { "{" LLAMA ",\"hidden_size\":\"big\"}", "c.json: hidden_size: expected an integer from 0 to 1048576" },
    { "{" LLAMA ",\"model_type\":\"mamba\\n\"}", "c.json: model_type: 'mamba\\n' is not known; known are: bloom *" },
    { "{" LLAMA ",\"torch_dtype\":\"int4\"}", "c.json: torch_dtype: expected bfloat16, float16 or float32" },
    { "{" LLAMA ",\"num_key_value_heads\":3}", "c.json: kv_heads: 3 does not divide heads 4" },
    { "{" LLAMA ",\"layer_types\":[\"mamba\"]}", "c.json: layer_types: only full_attention and sliding_attention *" },
    { "{" LLAMA ",\"num_experts\":4}", "c.json: active_experts: missing; a mixture needs *" },
    { "{" LLAMA ",\"decoder_sparse_step\":2}", "c.json: decoder_sparse_step: only 1 is known: *" },
    { "{" LLAMA ",\"interleave_moe_layer_step\":2}", "c.json: interleave_moe_layer_step: only 1 is known: *" },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":[0,2]}", "c.json: mlp_only_layers: only the first layers, *" },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":[0,1,2,3,4,5,6,7,8]}", "c.json: dense_layers: 9 is more than layers 8" },
    { "{\"shared_expert_intermediate_size\":160," QWEN2_MOE "}", "c.json: shared_expert_intermediate_size: only *" },
    { "{" QWEN ("qwen2") ",\"sliding_window\":64,\"use_sliding_window\":true,\"max_window_layers\":4}",
      "c.json: max_window_layers: only 0, *" },
    { "{" LLAMA ",\"sliding_window\":8,\"layer_types\":[\"full_attention\"]}",
      "c.json: layer_types: has not as many *" },
    { "{" LLAMA ",\"layer_types\":[" TWO_TYPES "]}", "c.json: sliding_window: missing; *" },
    { "{" LLAMA ",\"mlp_bias\":true}", "c.json: mlp_bias: is not known, and may change the layers; *" },
    { "{" LLAMA ",\"initial_dense_steps\":6}", "c.json: initial_dense_steps: is not known, *" },
    { "{" LLAMA ",\"sliding_window_pattern\":6}", "c.json: sliding_window_pattern: is not known, *" },
    { "{" LLAMA ",\"per_layer_width\":[1,2]}", "c.json: per_layer_width: is not known, *" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      PsModel *model = ps_model_parse ("c.json", rows[i][0], strlen (rows[i][0]), &error);

      g_assert_null (model);
      g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
      g_test_message ("%s", error->message);
      g_assert_true (g_pattern_match_simple (rows[i][1], error->message));
      g_assert_null (strchr (error->message, '\n'));
    }
}

/* Six layers, of which every third attends to all tokens in spite of the window, and the first two have no experts. A
 * module of multi-token prediction is like the last layer, and the head like none. */
static void
test_layer_kinds (void)
{
  static const guint of_layer[] = { PS_LAYER_WINDOW,
                                    PS_LAYER_WINDOW,
                                    PS_LAYER_EXPERTS,
                                    PS_LAYER_EXPERTS | PS_LAYER_WINDOW,
                                    PS_LAYER_EXPERTS | PS_LAYER_WINDOW,
                                    PS_LAYER_EXPERTS };
  const PsModel model = { .layers = 6, .window = 64, .full_every = 3, .experts = { .count = 4, .dense_layers = 2 } };
  const PsModel windows = { .layers = 6, .window = 64 }, plain = { .layers = 6, .full_every = 3 };

  for (guint first = 0; first < 6; first++)
    for (guint n = 0; first + n <= 6; n++)
      for (guint mtp = 0; mtp <= 2; mtp++)
        {
          const PsStageShape shape = { .first_layer = first, .n_layers = n, .n_mtp = mtp, .head = TRUE };
          guint count[PS_N_LAYER_KINDS], expected[PS_N_LAYER_KINDS] = { 0 };

          for (guint layer = first; layer < first + n; layer++)
            expected[of_layer[layer]]++;
          expected[of_layer[5]] += mtp;
          ps_model_count_kinds (&model, &shape, count);
          g_assert_cmpmem (count, sizeof count, expected, sizeof expected);
          ps_model_count_kinds (&windows, &shape, count);
          g_assert_cmpuint (count[PS_LAYER_WINDOW], ==, n + mtp);
          ps_model_count_kinds (&plain, &shape, count);
          g_assert_cmpuint (count[0], ==, n + mtp);
        }
}

/* A head's size that is that of the hidden over the heads is said of no model; another one is, and so is one where the
 * heads divide nothing. */
static void
test_head_size (void)
{
  static const struct
  {
    guint hidden, heads, head_size, kept;
  } rows[] = { { 64, 4, 16, 0 }, { 64, 4, 32, 32 }, { 66, 4, 16, 16 }, { 64, 4, 0, 0 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      PsModel model = { .hidden = rows[i].hidden, .heads = rows[i].heads, .head_size = rows[i].head_size };

      ps_model_fill_defaults (&model);
      g_assert_cmpuint (model.head_size, ==, rows[i].kept);
      g_assert_cmpuint (model.kv_heads, ==, 4);
      g_assert_cmpuint (model.feed_forward, ==, 4 * rows[i].hidden);
    }
}

/* h = 32, all heads' keys as wide; a token visits 2 of 8 experts of f = 64, and s shared ones. In elements of 2 bytes
 * it keeps h and 32 as inputs of attention, 96 as its queries, keys and values, and 2 h for the norms. Of the mixture:
 * h, what 2 experts get, 2 h, and (2 + s) f as inputs; 2 (2 + s) f of the gate, what comes back, 2 h; and 8 scores in
 * fp32 before and after their softmax. W needs the inputs and, as gradients, 128 outputs of attention's matrices, 8 of
 * the router, 2 (2 + s) f, 2 h that go back, and s h. */
static void
test_mixture_bytes (void)
{
  PsModel model = { .layers = 2,
                    .hidden = 32,
                    .heads = 4,
                    .kv_heads = 4,
                    .sequence = 64,
                    .feed_forward = 128,
                    .vocabulary = 100,
                    .microbatch_size = 2,
                    .precision = PS_PRECISION_BF16,
                    .flash_attention = TRUE,
                    .mlp = PS_MLP_SWIGLU,
                    .experts = { .count = 8, .active = 2, .feed_forward = 64, .imbalance = 1 } };
  const PsStageShape layer = { .n_layers = 1 };

  for (guint s = 0; s <= 2; s++)
    {
      gint64 inputs = 64 + 32 + 64 + (2 + s) * 64, kept = 96 + 2 * (2 + s) * 64 + 64 + 4 * 8 + 64;
      gint64 outputs = 128 + 8 + 2 * (2 + s) * 64 + 64 + s * 32;

      model.experts.shared = s;
      g_assert_cmpint (ps_model_layer_activation_bytes (&model, PS_LAYER_EXPERTS), ==, 128 * 2 * (inputs + kept));
      g_assert_cmpint (ps_model_stage_weight_activation_bytes (&model, &layer), ==,
                       MIN (128 * 2 * (inputs + outputs), 128 * 2 * (inputs + kept)));
    }
}

/* Latent attention of 4 heads: queries from 8 numbers, keys and values from 16; a query of 8 + 4 of a head, a value
 * of 8. Inputs of matrices are h = 32, 8, 16 and 32 values; F keeps 8 + 16 + 4 that come down, queries and keys of 48
 * and 32 values; W needs gradients of 28 down, 48 queries, 32 of keys without position, 32 values and h. A feed-forward
 * of f = 128 has inputs of h + f, keeps 2 f, and W needs 2 f + h. Two norms keep 2 h. */
static void
test_latent_bytes (void)
{
  const PsModel model = { .layers = 1,
                          .hidden = 32,
                          .heads = 4,
                          .kv_heads = 4,
                          .sequence = 64,
                          .feed_forward = 128,
                          .vocabulary = 100,
                          .microbatch_size = 2,
                          .precision = PS_PRECISION_BF16,
                          .flash_attention = TRUE,
                          .mlp = PS_MLP_SWIGLU,
                          .latent = { .kv_rank = 16, .q_rank = 8, .nope_size = 8, .rope_size = 4, .value_size = 8 } };
  const PsStageShape layer = { .n_layers = 1 };
  const gint64 inputs = 32 + 8 + 16 + 32 + 32 + 128, kept = 28 + 48 + 48 + 32 + 256 + 64;
  const gint64 outputs = 28 + 48 + 32 + 32 + 32 + 256 + 32;

  PsModel plain = model;

  g_assert_cmpint (ps_model_layer_activation_bytes (&model, 0), ==, 128 * 2 * (inputs + kept));
  g_assert_cmpint (ps_model_stage_weight_activation_bytes (&model, &layer), ==, 128 * 2 * (inputs + outputs));
  /* Matrices: queries down and up, or at once; 16 + 4 down; 4 (8 + 8) up; the output; 3 h f. Norms: 2 h, and the ranks.
   */
  g_assert_cmpint (ps_model_layer_parameters (&model, 0), ==,
                   32 * 8 + 8 * 48 + 32 * 20 + 16 * 64 + 32 * 32 + 3 * 32 * 128 + 64 + 8 + 16);
  plain.latent.q_rank = 0;
  g_assert_cmpint (ps_model_layer_parameters (&plain, 0), ==,
                   32 * 48 + 32 * 20 + 16 * 64 + 32 * 32 + 3 * 32 * 128 + 64 + 16);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model-kinds/published-parameters", test_published_parameters);
  g_test_add_func ("/model-kinds/config", test_config);
  g_test_add_func ("/model-kinds/config-read", test_config_read);
  g_test_add_func ("/model-kinds/config-counts", test_config_counts);
  g_test_add_func ("/model-kinds/config-refused", test_config_refused);
  g_test_add_func ("/model-kinds/layer-kinds", test_layer_kinds);
  g_test_add_func ("/model-kinds/head-size", test_head_size);
  g_test_add_func ("/model-kinds/mixture-bytes", test_mixture_bytes);
  g_test_add_func ("/model-kinds/latent-bytes", test_latent_bytes);
  return run_in_folder ();
}

/* Tests of config.c: what keys of a config.json change, which ones are refused, and which are listed as not read. The
 * counts of whole models are compared by tests/cli/configs.py. */
#include "error-rig.h"

#include <pipesim/model.h>
#include <string.h>

static PsModel *parse (const char *text)
{
  return fine (ps_model_parse ("c.json", text, strlen (text), &error));
}

#define TWO_TYPES "\"sliding_attention\",\"full_attention\""

/* A shipped model and the fixture of its config.json have the same units, parameters and work. */
static void test_shipped (void)
{
  static const char *const rows[][2] = {
    { "bloom-176b", "bloom-176b" },
    { "deepseek-v2", "deepseek-v2" },
    { "deepseek-v3", "deepseek-v3" },
    { "deepseek-v3.2", "deepseek-v3.2" },
    { "gemma-3-27b", "gemma-3-27b" },
    { "glm-4.5", "glm-4.5" },
    { "gpt-oss-120b", "gpt-oss-120b" },
    { "gpt-oss-20b", "gpt-oss-20b" },
    { "kimi-k2", "kimi-k2" },
    { "llama-3-70b", "llama-3.1-70b" },
    { "llama-4-maverick", "llama-4-maverick" },
    { "mixtral-8x7b", "mixtral-8x7b" },
    { "nemotron-3-nano-30b-a3b", "nemotron-3-nano-30b-a3b" },
    { "qwen3-235b-a22b", "qwen3-235b-a22b" },
    { "qwen3-30b-a3b", "qwen3-30b-a3b" },
    { "qwen3-next-80b-a3b", "qwen3-next-80b-a3b" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *file = g_strconcat (rows[i][1], ".json", NULL);
    g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", "configs", file, NULL);
    g_autoptr (PsModel) ours = fine (ps_model_load (rows[i][0], &error));
    g_autoptr (PsModel) theirs = fine (ps_model_load (path, &error));

    g_test_message ("%s", rows[i][0]);
    ours->flash_attention = TRUE;
    g_assert_true (ps_model_resize (ours, 1, 4096, 0, NULL) && ps_model_resize (theirs, 1, 4096, 0, NULL));
    const PsStageShape whole = ps_model_whole (ours);
    g_autofree char *units = ps_model_pattern (ours), *their_units = ps_model_pattern (theirs);
    g_assert_cmpstr (units, ==, their_units);
    g_assert_cmpint (ps_model_parameters (theirs), ==, ps_model_parameters (ours));
    g_assert_cmpint (ps_model_active_parameters (theirs), ==, ps_model_active_parameters (ours));
    g_assert_cmpint (ps_model_stage_flops (theirs, &whole, PS_OP_F), ==, ps_model_stage_flops (ours, &whole, PS_OP_F));
    theirs->precision = ours->precision;
    g_assert_cmpint (ps_model_stage_kept_bytes (theirs, &whole, PS_RECOMPUTE_NONE), ==,
                     ps_model_stage_kept_bytes (ours, &whole, PS_RECOMPUTE_NONE));
  }
}

#define LLAMA                                                                                                          \
  "\"model_type\":\"llama\",\"hidden_size\":64,\"max_position_embeddings\":8192,\"num_attention_heads\":4,"            \
  "\"num_hidden_layers\":2,\"vocab_size\":100"

static void test_config_read (void)
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
  g_assert_true (ps_model_resize (model, 0, 8192, 0, NULL));
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

#define LLAMA4 QWEN ("llama4_text") ",\"num_local_experts\":4,\"num_experts_per_tok\":1"
#define DELTA                                                                                                          \
  QWEN ("qwen3_next")                                                                                                  \
  ",\"num_experts\":4,\"num_experts_per_tok\":1,\"linear_num_key_heads\":2,\"linear_key_head_dim\":8,"                 \
  "\"linear_num_value_heads\":4,\"linear_value_head_dim\":8"
#define MAMBA                                                                                                          \
  "\"model_type\":\"nemotron_h\",\"hidden_size\":64,\"max_position_embeddings\":8192,\"num_attention_heads\":4,"       \
  "\"vocab_size\":100,\"mamba_num_heads\":4,\"mamba_head_dim\":16,\"ssm_state_size\":16,\"n_groups\":2,"               \
  "\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32"

/* Keys that change the layers, against parameters that were counted by hand: of a layer's attention and norms 197,248,
 * of a dense one besides 3 x 256 x 1024, of one with experts 16 x 3 x 256 x 128 + 16 x 256; 2 x 1000 x 256 + 256. */
static void test_config_counts (void)
{
  static const struct {
    const char *text;
    gint64 parameters;
    guint window, full_every;
  } rows[] = {
    { "{" QWEN3_MOE "}", 8 * (197248 + 1576960) + 512256, 0, 0 },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":[]}", 8 * (197248 + 1576960) + 512256, 0, 0 },
    { "{\"mlp_only_layers\":[0,1,2,3]," QWEN3_MOE "}", 11543808, 0, 0 },
    { "{" QWEN3_MOE ",\"decoder_sparse_step\":1,\"sliding_window\":null}", 8 * (197248 + 1576960) + 512256, 0, 0 },
    /* shared experts as wide as two, none, and narrower than one, with a gate of 256 */
    { "{" QWEN2_MOE ",\"shared_expert_intermediate_size\":384}",
      8 * (4 * 65536 + 4 * 256 + 256 + 18 * 147456 + 17 * 256) + 512256, 0, 0 },
    { "{" QWEN2_MOE ",\"shared_expert_intermediate_size\":0}",
      8 * (4 * 65536 + 4 * 256 + 256 + 16 * 147456 + 16 * 256) + 512256, 0, 0 },
    { "{\"shared_expert_intermediate_size\":160," QWEN2_MOE "}", 22511872, 0, 0 },
    { "{" QWEN ("qwen2") ",\"sliding_window\":64}", 8 * (4 * 65536 + 5 * 256 + 786432) + 512256, 0, 0 },
    { "{" QWEN ("qwen2") ",\"sliding_window\":64,\"use_sliding_window\":true,\"max_window_layers\":8}",
      8 * (4 * 65536 + 5 * 256 + 786432) + 512256, 0, 0 },
    { "{" QWEN ("qwen2") ",\"sliding_window\":64,\"use_sliding_window\":true,\"max_window_layers\":0}",
      8 * (4 * 65536 + 5 * 256 + 786432) + 512256, 64, 0 },
    { "{" QWEN ("gpt_oss") ",\"num_experts\":16,\"num_experts_per_tok\":2,\"sliding_window\":64}",
      /* biases: of the output 256, of the router 16, of an expert's two matrices 2 x 1024 and 256; 4 sinks */
      8 * (4 * 65536 + 5 * 256 + 16 * 786432 + 16 * 256 + 256 + 16 + 4 + 16 * (2 * 1024 + 256)) + 512256, 64, 2 },
    { "{" QWEN ("mistral") ",\"sliding_window\":64}", 8 * (4 * 65536 + 2 * 256 + 786432) + 512256, 64, 0 },
    /* every second layer, and layers named one by one, have experts: 4 and 6 */
    { "{" QWEN3_MOE ",\"decoder_sparse_step\":2}", 11543808, 0, 0 },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":[1,6]}", 8 * 197248 + 2 * 786432 + 6 * 1576960 + 512256, 0, 0 },
    { "{" QWEN3_MOE ",\"first_k_dense_replace\":1,\"moe_layer_freq\":[1,1,1,1,1,1,1,0]}",
      8 * 197248 + 2 * 786432 + 6 * 1576960 + 512256, 0, 0 },
    /* GLM-4.5-Air */
    { "{\"model_type\":\"glm4_moe\",\"attention_bias\":true,\"head_dim\":128,\"hidden_size\":4096,"
      "\"intermediate_size\":10944,\"max_position_embeddings\":131072,\"moe_intermediate_size\":1408,"
      "\"num_attention_heads\":96,\"n_routed_experts\":128,\"n_shared_experts\":1,\"num_experts_per_tok\":8,"
      "\"first_k_dense_replace\":1,\"num_hidden_layers\":46,\"num_key_value_heads\":8,\"use_qk_norm\":false,"
      "\"tie_word_embeddings\":false,\"vocab_size\":151552}",
      106852245504, 0, 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsModel) model = fine (ps_model_parse ("c.json", rows[i].text, strlen (rows[i].text), &error));

    g_assert_cmpint (ps_model_parameters (model), ==, rows[i].parameters);
    g_assert_cmpuint (model->window, ==, rows[i].window);
    g_assert_cmpuint (model->full_every, ==, rows[i].full_every);
  }
}

/* The units of small models, two letters a layer, by the keys that say them. */
static void test_patterns (void)
{
  static const char *const rows[][2] = {
    { "{" QWEN ("qwen2") ",\"sliding_window\":64,\"use_sliding_window\":true,\"max_window_layers\":5}",
      "*-*-*-*-*-w-w-w-" },
    { "{" QWEN ("qwen3") ",\"sliding_window\":64,\"layer_types\":[" TWO_TYPES "," TWO_TYPES "," TWO_TYPES "," TWO_TYPES
                         "]}",
      "w-*-w-*-w-*-w-*-" },
    { "{" QWEN ("gemma3_text") ",\"sliding_window\":64,\"sliding_window_pattern\":3}", "w-w-*-w-w-*-w-w-" },
    { "{" QWEN ("gemma2") ",\"sliding_window\":64}", "w-*-w-*-w-*-w-*-" },
    { "{" QWEN3_MOE ",\"decoder_sparse_step\":3}", "*-*-*E*-*-*E*-*-" },
    { "{" QWEN3_MOE ",\"mlp_layer_types\":[\"dense\",\"sparse\",\"dense\",\"sparse\",\"dense\",\"sparse\","
      "\"dense\",\"sparse\"]}",
      "*-*E*-*E*-*E*-*E" },
    { "{" QWEN3_MOE ",\"interleave_moe_layer_step\":2,\"moe_layer_freq\":1}", "*-*E*-*E*-*E*-*E" },
    { "{" QWEN3_MOE ",\"moe_layer_freq\":2}", "*E*-*E*-*E*-*E*-" },
    { "{" QWEN3_MOE ",\"moe_layers\":[3,4]}", "*-*-*-*E*E*-*-*-" },
    { "{" QWEN3_MOE ",\"moe_layers_enum\":\"0, 7\"}", "*E*-*-*-*-*-*-*E" },
    { "{" QWEN3_MOE ",\"moe_layer_start_index\":2,\"moe_layer_end_index\":5,\"moe_layer_interval\":2}",
      "*-*-*-*E*-*E*-*-" },
    { "{\"attention_chunk_size\":64," LLAMA4 "}", "wEwEwE*EwEwEwE*E" },
    { "{\"attention_chunk_size\":64,\"no_rope_layers\":[0,1,1,1,1,1,1,0]," LLAMA4 "}", "*EwEwEwEwEwEwE*E" },
    { "{" LLAMA4 "}", "*E*E*E*E*E*E*E*E" },
    { "{" DELTA ",\"full_attention_interval\":4}", "GEGEGE*EGEGEGE*E" },
    { "{" DELTA ",\"layer_types\":[\"full_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\","
      "\"linear_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\"]}",
      "*EGEGEGEGEGEGEGE" },
    { "{" QWEN ("minimax") ",\"attn_type_list\":[0,0,0,1,0,0,0,1]}", "l-l-l-*-l-l-l-*-" },
    { "{" MAMBA ",\"hybrid_override_pattern\":\"M-M*E\"}", "M-M*E" },
    { "{" MAMBA
      ",\"hybrid_override_pattern\":\"M-\",\"num_nextn_predict_layers\":1,\"mtp_hybrid_override_pattern\":\"*E\"}",
      "M-/*E" },
    { "{" MAMBA ",\"layers_block_type\":[\"mamba\",\"mlp\",\"attention\",\"moe\"],\"num_hidden_layers\":4}", "M-*E" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsModel) model = parse (rows[i][0]);
    g_autofree char *pattern = ps_model_pattern (model);

    g_assert_cmpstr (pattern, ==, rows[i][1]);
  }
}

/* Keys of text_config stand for those around it, and its type decides. */
static void test_text_config (void)
{
  g_autoptr (PsModel) model
      = parse ("{\"model_type\":\"some_vision\",\"hidden_size\":8,\"vision_config\":{\"depth\":2},"
               "\"text_config\":{" QWEN ("qwen3") "}}");

  g_assert_cmpuint (model->hidden, ==, 256);
  g_assert_cmpstr (model->unread, ==, "vision_config");
  g_assert_cmpint (model->qk_norm, ==, PS_QK_NORM_HEAD);
}

/* Names, tokens and dropouts are passed over in silence, as what is null; all else that no one knows is listed. */
static void test_unread (void)
{
  g_autoptr (PsModel) model
      = parse ("{" LLAMA ",\"initial_dense_steps\":6,\"pad_token_id\":3,\"_name_or_path\":\"x\",\"some_dropout\":0.5,"
               "\"per_layer_width\":[1,2],\"no_such\":null,\"line\\nbreak\":1,\"sliding_window_pattern\":6}");
  g_autoptr (PsModel) copy = ps_model_copy (model);
  g_autofree char *text = ps_model_to_text (model);

  g_assert_cmpstr (model->unread, ==, "initial_dense_steps, per_layer_width, line\\nbreak");
  g_assert_cmpstr (copy->unread, ==, model->unread);
  g_assert_null (strstr (text, "unread"));
}

/* Python's infinities, the last of two equal keys, and sequences longer than any here. */
static void test_odd_files (void)
{
  g_autoptr (PsModel) model
      = parse ("{" LLAMA ",\"time_step_limit\":[0.0,Infinity,-Infinity,NaN],\"rope_theta\":\"NaN\","
               "\"vocab_size\":100,\"vocab_size\":200,\"max_position_embeddings\":10485760}");

  g_assert_cmpuint (model->vocabulary, ==, 200);
  g_assert_cmpuint (model->sequence, ==, 4096);
}

/* Keys that are read at one value alone, and what every other value gets. */
static void test_lacking (void)
{
  static const char *const rows[][2] = {
    { "mlp_bias", "true" },
    { "use_bias", "true" },
    { "mamba_proj_bias", "true" },
    { "add_bias_linear", "true" },
    { "mla_use_output_gate", "true" },
    { "use_head_wise_attn_gate", "true" },
    { "attn_res_block_size", "12" },
    { "compress_rates", "{\"a\":4}" },
    { "mtp_use_dedicated_embeddings", "true" },
    { "is_encoder_decoder", "true" },
    { "add_cross_attention", "true" },
    { "tie_encoder_decoder", "true" },
    { "block_configs", "[{}]" },
    { "per_layer_config", "[1]" },
    { "num_global_key_value_heads", "2" },
    { "hidden_size_per_layer_input", "256" },
    { "num_kv_shared_layers", "4" },
    { "shared_intermediate_size", "64" },
    { "_remove_final_layer_norm", "true" },
    { "use_full_rank_gate", "true" },
    { "conv_kernel", "3" },
    { "conv_kernel", "40" },
    { "linear_conv_kernel_dim", "2" },
    { "use_conv_bias", "false" },
    { "do_layer_norm_before", "false" },
    { "enable_bias", "false" },
    { "layer_norm_elementwise_affine", "false" },
    { "qk_norm_type", "\"per_head\"" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *text = g_strdup_printf ("{" LLAMA ",\"%s\":%s}", rows[i][0], rows[i][1]);
    g_autofree char *expected = g_strdup_printf ("c.json: %s: * are not modelled", rows[i][0]);

    refused (ps_model_parse ("c.json", text, strlen (text), &error), PS_ERROR_INPUT, expected);
  }
  g_autoptr (PsModel) same
      = parse ("{" LLAMA ",\"conv_kernel\":4,\"mlp_bias\":false,\"hc_mult\":0,\"use_conv_bias\":true,"
               "\"enable_bias\":null,\"qk_norm_type\":\"per_layer\"}");
  g_assert_null (same->unread);
}

static void test_refused (void)
{
  const char *const rows[][2] = {
    { "{" LLAMA, "c.json:1:*" },
    { "{}", "c.json: model_type: missing" },
    { "{\"model_type\":3}", "c.json: model_type: expected a text" },
    { "{\"num_hidden_layers\":\"x\",\"model_type\":\"t5\"}",
      "c.json: model_type: 't5' is not known; known are: bloom *" },
    { "{\"num_hidden_layers\":2,\"text_config\":{\"model_type\":\"t5\"}}", "c.json: model_type: 't5' is not known; *" },
    { "{\"model_type\":\"kimi_k3\"}",
      "c.json: model_type: 'kimi_k3' needs what is not modelled: * (attn_res_block_size)*" },
    { "{\"model_type\":\"gemma4\"}", "c.json: model_type: 'gemma4' needs what is not modelled: *" },
    { "{\"model_type\":\"kimi_k3\"}", "c.json: model_type: 'kimi_k3' needs *" },
    { "{\"model_type\":\"step3p5\"}", "c.json: model_type: 'step3p5' needs *" },
    { "{\"model_type\":\"minimax_m3\"}", "c.json: model_type: 'minimax_m3' needs *" },
    { "{\"model_type\":\"nemotron-nas\"}", "c.json: model_type: 'nemotron-nas' needs *" },
    { "{" QWEN ("qwen2") ",\"max_window_layers\":-1}", "c.json: max_window_layers: expected an integer" },
    { "{" QWEN ("qwen2") ",\"max_window_layers\":2147483648}", "c.json: max_window_layers: expected an integer" },
    { "{" QWEN ("qwen2") ",\"max_window_layers\":\"2\"}", "c.json: max_window_layers: expected an integer" },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":[-1]}", "c.json: mlp_only_layers: names a layer that there is not" },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":[8]}", "c.json: mlp_only_layers: names a layer that there is not" },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":[\"x\"]}", "c.json: mlp_only_layers: expected integers" },
    { "{" QWEN3_MOE ",\"mlp_only_layers\":0}", "c.json: mlp_only_layers: expected an array" },
    { "{" QWEN3_MOE ",\"moe_layers_enum\":\"1,x\"}", "c.json: moe_layers_enum: names a layer that there is not" },
    { "{" QWEN3_MOE ",\"decoder_sparse_step\":-1}", "c.json: decoder_sparse_step: expected an integer" },
    { "{" QWEN3_MOE ",\"moe_layer_freq\":[1,1]}", "c.json: moe_layer_freq: has not as many entries as *" },
    { "{" QWEN3_MOE ",\"moe_layer_freq\":0}", "c.json: moe_layer_freq: expected an integer" },
    { "{" QWEN3_MOE ",\"mlp_layer_types\":[\"hash_moe\"]}", "c.json: mlp_layer_types: layers of 'hash_moe' are not *" },
    { "{\"model_type\":\"llama\"}", "c.json: num_hidden_layers: missing" },
    { "{" LLAMA ",\"num_hidden_layers\":0}", "c.json: num_hidden_layers: missing" },
    { "{" LLAMA ",\"num_hidden_layers\":-1}", "c.json: num_hidden_layers: expected an integer from 0 to 16384" },
    { "{" LLAMA ",\"hidden_size\":\"big\"}", "c.json: hidden_size: expected an integer from 0 to 1048576" },
    { "{" LLAMA ",\"tie_word_embeddings\":1}", "c.json: tie_word_embeddings: expected true or false" },
    { "{" LLAMA ",\"model_type\":\"mamba\\n\"}", "c.json: model_type: 'mamba\\n' is not known; known are: bloom *" },
    { "{" LLAMA ",\"torch_dtype\":\"int4\"}", "c.json: torch_dtype: expected bfloat16, float16 or float32" },
    { "{" LLAMA ",\"dtype\":4}", "c.json: dtype: expected bfloat16, float16 or float32" },
    { "{" LLAMA ",\"num_key_value_heads\":3}", "c.json: kv_heads: 3 does not divide heads 4" },
    { "{" LLAMA ",\"layer_types\":[\"mamba\"]}", "c.json: layer_types: layers of 'mamba' are not modelled" },
    { "{" LLAMA ",\"layer_types\":[\"linear_attention\"]}",
      "c.json: layer_types: layers of 'linear_attention' are not *" },
    { "{" LLAMA ",\"layer_types\":[[]]}", "c.json: layer_types: expected texts or integers" },
    { "{" LLAMA ",\"layer_types\":1}", "c.json: layer_types: expected an array" },
    { "{" LLAMA ",\"num_experts\":4}", "c.json: active_experts: missing; a unit of experts needs *" },
    { "{" LLAMA ",\"full_attention_interval\":4}",
      "c.json: full_attention_interval: layers of linear attention are *" },
    { "{" LLAMA ",\"linear_attn_config\":{}}",
      "c.json: linear_attn_config: layers of linear attention are not modelled" },
    { "{" DELTA "}", "c.json: layer_types: missing" },
    { "{" DELTA ",\"linear_attn_config\":{\"head_dim\":8}}", "c.json: linear_attn_config: kda_layers are missing" },
    { "{" DELTA ",\"linear_attn_config\":{\"kda_layers\":[0]}}",
      "c.json: linear_attn_config.kda_layers: names a layer *" },
    { "{" DELTA ",\"linear_attn_config\":{\"kda_layers\":[1],\"num_heads\":2,\"head_dim\":8,"
      "\"short_conv_kernel_size\":3}}",
      "c.json: linear_attn_config: other convolutions and gates are not modelled" },
    { "{" MAMBA "}", "c.json: num_hidden_layers: missing" },
    { "{" MAMBA ",\"hybrid_override_pattern\":\"MX\"}", "c.json: hybrid_override_pattern: expected the letters *" },
    { "{" MAMBA ",\"hybrid_override_pattern\":\"M*\",\"num_hidden_layers\":3}",
      "c.json: num_hidden_layers: is not the *" },
    { "{" MAMBA
      ",\"hybrid_override_pattern\":\"M\",\"num_nextn_predict_layers\":1,\"mtp_hybrid_override_pattern\":\"X\"}",
      "c.json: mtp_hybrid_override_pattern: expected the letters *" },
    { "{" LLAMA ",\"sliding_window\":8,\"layer_types\":[\"full_attention\"]}",
      "c.json: layer_types: has not as many *" },
    { "{" LLAMA ",\"layer_types\":[" TWO_TYPES "]}", "c.json: sliding_window: missing; *" },
    { "{" LLAMA ",\"word_embed_proj_dim\":32}", "c.json: word_embed_proj_dim: embeddings of another width are not *" },
    { "{" LLAMA ",\"indexer_types\":[\"full\",\"shared\"]}",
      "c.json: indexer_types: layers of 'shared' are not modelled" },
    { "{" QWEN ("gpt_neox") ",\"attention_bias\":false}", "c.json: attention_bias: biases of the MLP alone are not *" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_test_message ("%s", rows[i][0]);
    refused (ps_model_parse ("c.json", rows[i][0], strlen (rows[i][0]), &error), PS_ERROR_INPUT, rows[i][1]);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/config/shipped", test_shipped);
  g_test_add_func ("/config/read", test_config_read);
  g_test_add_func ("/config/counts", test_config_counts);
  g_test_add_func ("/config/patterns", test_patterns);
  g_test_add_func ("/config/text-config", test_text_config);
  g_test_add_func ("/config/unread", test_unread);
  g_test_add_func ("/config/odd-files", test_odd_files);
  g_test_add_func ("/config/lacking", test_lacking);
  g_test_add_func ("/config/refused", test_refused);
  return g_test_run ();
}

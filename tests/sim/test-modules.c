/* Tests of what F keeps, tensor by tensor, and of the modules that recomputation and offload know. */
#include "error-rig.h"

#include <pipesim/costs.h>
#include <pipesim/work.h>

#include <string.h>

static PsModel *load (const char *name, PsPrecision precision, PsFramework framework)
{
  PsModel *model = fine (ps_model_load (name, &error));

  model->precision = precision;
  model->framework = framework;
  return model;
}

/* Bytes of a token that F of one layer keeps under a recomputation. */
static gint64 layer_bytes (const PsModel *model, guint layer, PsRecompute recompute)
{
  const PsStageShape shape = { .first_layer = layer, .n_layers = 1 };
  gint64 bytes = ps_model_stage_kept_bytes (model, &shape, recompute), tokens = ps_model_tokens (model);

  g_assert_cmpint (bytes % tokens, ==, 0);
  return bytes / tokens;
}

/* A dense layer keeps (8 + 2q) h + 4 kv + 4a + (4 + q) f, q bytes of an element that products multiply. Llama 3 70B:
 * h = 8192, kv = 1024, a = 64, f = 28672; 405B: 16384, 1024, 128, 53248. In 16 bits without a framework the 4a of the
 * softmax are left out. */
static void test_dense (void)
{
  static const struct {
    const char *model;
    PsPrecision precision;
    PsFramework framework;
    gint64 bytes;
  } rows[] = {
    { "llama-3-70b", PS_PRECISION_FP8, PS_FRAMEWORK_MEGATRON, 229632 },
    { "llama-3-70b", PS_PRECISION_FP8, PS_FRAMEWORK_NONE, 229632 },
    { "llama-3-405b", PS_PRECISION_FP8, PS_FRAMEWORK_MEGATRON, 434688 },
    { "llama-3-70b", PS_PRECISION_BF16, PS_FRAMEWORK_NONE, 12 * 8192 + 4 * 1024 + 6 * 28672 },
    { "llama-3-70b", PS_PRECISION_BF16, PS_FRAMEWORK_MEGATRON, 12 * 8192 + 4 * 1024 + 6 * 28672 + 256 },
    /* q = 33/32 and 9/16. */
    { "llama-3-70b", PS_PRECISION_MXFP8, PS_FRAMEWORK_MEGATRON, 229632 + (2 * 8192 + 28672) / 32 },
    { "llama-3-70b", PS_PRECISION_NVFP4, PS_FRAMEWORK_MEGATRON, 229632 - (2 * 8192 + 28672) / 16 * 7 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsModel) model = load (rows[i].model, rows[i].precision, rows[i].framework);

    g_assert_cmpint (layer_bytes (model, 0, PS_RECOMPUTE_NONE), ==, rows[i].bytes);
  }
}

/* A layer of DeepSeek-V3 with experts in MXFP8 under Megatron-LM: h = 7168, a = 128, ranks 1536 and 512, 8 experts and
 * a shared one of 2048. q h = 7392, q f = 2112. */
static void test_tensors (void)
{
  static const struct {
    PsUnitKind kind;
    const char *name;
    double bytes;
  } rows[] = {
    { PS_UNIT_LATENT, "input of norm", 14336 },
    { PS_UNIT_LATENT, "result of norm", 2 * 7392 },
    { PS_UNIT_LATENT, "narrow vectors", 2 * (1536 + 576) },
    { PS_UNIT_LATENT, "narrow queries after norm", 1584 },
    { PS_UNIT_LATENT, "narrow keys and values after norm", 528 },
    { PS_UNIT_LATENT, "queries and keys", 2 * 2 * 128 * 192 },
    { PS_UNIT_LATENT, "values", 2 * 128 * 128 },
    { PS_UNIT_LATENT, "result of attention", 2 * 128 * 128 },
    { PS_UNIT_LATENT, "sums of softmax", 4 * 128 },
    { PS_UNIT_EXPERTS, "input of norm", 14336 },
    { PS_UNIT_EXPERTS, "result of norm", 14336 },
    { PS_UNIT_EXPERTS, "scores of router, before and after softmax", 2048 },
    { PS_UNIT_EXPERTS, "tokens of experts", 8 * 7392 },
    { PS_UNIT_EXPERTS, "input of activation", 8 * 8192 },
    { PS_UNIT_EXPERTS, "result of activation", 8 * 2112 },
    { PS_UNIT_EXPERTS, "input of shared experts", 7392 },
    { PS_UNIT_EXPERTS, "input of activation of shared experts", 8192 },
    { PS_UNIT_EXPERTS, "result of activation of shared experts", 2112 },
  };
  g_autoptr (PsModel) model = load ("deepseek-v3", PS_PRECISION_MXFP8, PS_FRAMEWORK_MEGATRON);
  g_autoptr (PsModel) plain = load ("deepseek-v3", PS_PRECISION_MXFP8, PS_FRAMEWORK_NONE);
  guint n = 0;

  for (PsUnitKind kind = PS_UNIT_LATENT; kind <= PS_UNIT_EXPERTS; kind += PS_UNIT_EXPERTS - PS_UNIT_LATENT)
    n += ps_unit_describe (model, kind)->n_kept;
  g_assert_cmpuint (n, ==, G_N_ELEMENTS (rows));
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const PsUnitParts *parts = ps_unit_describe (model, rows[i].kind);
    guint k = 0;

    while (k < parts->n_kept && !g_str_equal (parts->kept[k].name, rows[i].name))
      k++;
    g_assert_cmpuint (k, <, parts->n_kept);
    g_assert_cmpfloat ((double)parts->kept[k].elements * parts->kept[k].bits / 8, ==, rows[i].bytes);
  }
  g_assert_cmpint (layer_bytes (model, 10, PS_RECOMPUTE_NONE), ==, 389792);
  /* Results of experts until they are weighed: 2 k h. */
  g_assert_cmpint (layer_bytes (plain, 10, PS_RECOMPUTE_NONE), ==, 389792 + 2 * 8 * 7168);
}

/* What each module saves of a layer. */
static void test_saved (void)
{
  static const struct {
    const char *model;
    PsPrecision precision;
    guint layer;
    const char *recompute;
    gint64 saved;
  } rows[] = {
    { "deepseek-v3", PS_PRECISION_MXFP8, 10, "none", 0 },
    { "deepseek-v3", PS_PRECISION_MXFP8, 10, "core_attn", 512 },
    { "deepseek-v3", PS_PRECISION_MXFP8, 10, "mla_up_proj", 131072 + 2112 },
    { "deepseek-v3", PS_PRECISION_MXFP8, 10, "layernorm", 14336 + 3 * 7392 },
    { "deepseek-v3", PS_PRECISION_MXFP8, 10, "moe_act", 8 * 2112 },
    { "deepseek-v3", PS_PRECISION_MXFP8, 10, "shared_experts", 17696 },
    { "deepseek-v3", PS_PRECISION_MXFP8, 10, "moe", 2048 + 141568 + 17696 },
    { "deepseek-v3", PS_PRECISION_MXFP8, 10, "moe+shared_experts+moe_act", 2048 + 141568 + 17696 },
    { "deepseek-v3", PS_PRECISION_MXFP8, 10, "mlp", 0 },
    /* A dense layer: f = 18432, q f = 19008. */
    { "deepseek-v3", PS_PRECISION_MXFP8, 0, "mlp", 4 * 18432 + 19008 + 7392 },
    { "deepseek-v3", PS_PRECISION_MXFP8, 0, "layernorm", 2 * 7392 },
    { "deepseek-v3", PS_PRECISION_MXFP8, 10, "full", 389792 - 14336 },
    { "deepseek-v3", PS_PRECISION_BF16, 10, "moe_act", 2 * 8 * 2048 },
    { "deepseek-v3", PS_PRECISION_BF16, 10, "layernorm", 2 * 14336 },
    { "deepseek-v3", PS_PRECISION_BF16, 10, "shared_experts", 6 * 2048 },
    { "llama-3-70b", PS_PRECISION_FP8, 0, "mlp", 5 * 28672 + 8192 },
    { "llama-3-70b", PS_PRECISION_FP8, 0, "core_attn", 256 },
    { "llama-3-70b", PS_PRECISION_BF16, 0, "mlp", 6 * 28672 + 2 * 8192 },
    /* h = 2880, 4 of 128 experts of 2880. */
    { "gpt-oss-120b", PS_PRECISION_BF16, 1, "layernorm+moe_act", 2 * 2880 + 2 * 4 * 2880 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsModel) model = load (rows[i].model, rows[i].precision, PS_FRAMEWORK_MEGATRON);
    PsRecompute recompute;

    g_assert_true (ps_recompute_parse ("test", rows[i].recompute, &recompute, NULL));
    g_assert_cmpint (layer_bytes (model, rows[i].layer, PS_RECOMPUTE_NONE)
                         - layer_bytes (model, rows[i].layer, recompute),
                     ==, rows[i].saved);
  }
}

static const char *const models[] = { "deepseek-v3", "llama-3-70b",        "gpt-oss-120b",           "qwen3-235b-a22b",
                                      "tiny-gpt",    "qwen3-next-80b-a3b", "nemotron-3-nano-30b-a3b" };

/* More modules never keep more; whole layers keep least; parts by module sum up to all. */
static void test_properties (void)
{
  static const PsPrecision precisions[] = { PS_PRECISION_BF16, PS_PRECISION_FP8, PS_PRECISION_NVFP4 };

  for (guint i = 0; i < G_N_ELEMENTS (models) * G_N_ELEMENTS (precisions); i++) {
    g_autoptr (PsModel) model = load (models[i / G_N_ELEMENTS (precisions)], precisions[i % G_N_ELEMENTS (precisions)],
                                      i % 2 ? PS_FRAMEWORK_MEGATRON : PS_FRAMEWORK_NONE);
    const PsStageShape shape = { .first_layer = 1, .n_layers = MIN (model->layers - 1, 5), .n_mtp = model->mtp };
    gint64 full = ps_model_stage_kept_bytes (model, &shape, PS_RECOMPUTE_FULL);

    for (guint n = 0; n < 20; n++) {
      PsRecompute few = (guint)g_test_rand_int_range (0, PS_RECOMPUTE_FULL);
      PsRecompute many = few | (guint)g_test_rand_int_range (0, PS_RECOMPUTE_FULL);
      gint64 kept = ps_model_stage_kept_bytes (model, &shape, few), sum = 0;
      PsModuleBytes parts[PS_MAX_MODULES];
      guint n_parts = ps_tensor_kept_modules (model, &shape, few, 0, 1, parts);

      g_assert_cmpint (ps_model_stage_kept_bytes (model, &shape, many), <=, kept);
      g_assert_cmpint (kept, >=, shape.n_layers * ps_model_boundary_bytes (model));
      for (guint k = 0; k < n_parts; k++)
        sum += parts[k].bytes;
      g_assert_cmpint (sum, ==, kept + ps_framework_habits (model, &shape, 1).kept_bytes);
    }
    for (guint n = 1; n <= 5; n++) {
      PsRecompute block = PS_RECOMPUTE_FULL | n << PS_RECOMPUTE_LAYERS, groups = block | PS_RECOMPUTE_UNIFORM;
      PsRecompute less = n == 1 ? PS_RECOMPUTE_NONE : PS_RECOMPUTE_FULL | (n - 1) << PS_RECOMPUTE_LAYERS;

      g_assert_cmpint (ps_model_stage_kept_bytes (model, &shape, block), <,
                       ps_model_stage_kept_bytes (model, &shape, less) + (n > shape.n_layers));
      g_assert_cmpint (ps_model_stage_kept_bytes (model, &shape, groups), ==,
                       full - (shape.n_layers - (shape.n_layers + n - 1) / n) * ps_model_boundary_bytes (model));
    }
  }
}

static gint64 again_flops (const PsModel *model, guint layer, const char *text)
{
  const PsStageShape shape = { .first_layer = layer, .n_layers = 1 };
  PsRecompute recompute;
  PsWork work;

  g_assert_true (ps_recompute_parse ("test", text, &recompute, NULL));
  ps_work_recompute (model, &shape, recompute, 1, &work);
  return ps_work_flops (&work);
}

/* The kernels that run again are those of the modules. */
static void test_again (void)
{
  g_autoptr (PsModel) model = load ("deepseek-v3", PS_PRECISION_BF16, PS_FRAMEWORK_MEGATRON);
  const PsStageShape layer = { .first_layer = 10, .n_layers = 1 };
  const gint64 tokens = 4096;

  g_assert_cmpint (again_flops (model, 10, "none"), ==, 0);
  g_assert_cmpint (again_flops (model, 10, "mla_up_proj"), ==,
                   2 * tokens * (1536 * 128 * 192 + 512 * 128 * (128 + 128)));
  g_assert_cmpint (again_flops (model, 10, "core_attn"), ==, 2 * tokens * tokens * 128 * (192 + 128));
  g_assert_cmpint (again_flops (model, 10, "layernorm+moe_act"), ==, 0);
  g_assert_cmpint (again_flops (model, 10, "shared_experts"), ==, 2 * tokens * 3 * 7168 * 2048);
  g_assert_cmpint (again_flops (model, 10, "moe"), ==, 2 * tokens * 7168 * (256 + 3 * 2048 * 9));
  g_assert_cmpint (again_flops (model, 10, "mlp"), ==, 0);
  g_assert_cmpint (again_flops (model, 0, "mlp"), ==, 2 * tokens * 3 * 7168 * 18432);
  g_assert_cmpint (again_flops (model, 10, "full"), ==, ps_model_stage_flops (model, &layer, PS_OP_F));
  g_assert_cmpint (again_flops (model, 10, "mla_up_proj+moe"), ==,
                   again_flops (model, 10, "mla_up_proj") + again_flops (model, 10, "moe"));

  /* SwiGLU of routed experts reads 4 f and writes 2 f bytes, 8 of them. */
  PsWork work;
  ps_work_recompute (model, &layer, PS_RECOMPUTE_MOE_ACT, 1, &work);
  g_assert_cmpuint (work.n_kernels, ==, 1);
  g_assert_cmpint (work.kernel[0].bytes, ==, tokens * 8 * 6 * 2048);
  ps_work_recompute (model, &layer, PS_RECOMPUTE_LAYERNORM, 1, &work);
  g_assert_cmpuint (work.n_kernels, ==, 2);
}

static void test_names (void)
{
  static const struct {
    const char *text;
    PsRecompute value;
    const char *name; /* NULL: the text */
  } rows[] = {
    { "none", PS_RECOMPUTE_NONE, NULL },
    { "selective", PS_RECOMPUTE_CORE_ATTN, NULL },
    { "core_attn", PS_RECOMPUTE_CORE_ATTN, "selective" },
    { "full", PS_RECOMPUTE_FULL, NULL },
    { "mlp+mla_up_proj", PS_RECOMPUTE_MLA_UP_PROJ | PS_RECOMPUTE_MLP, "mla_up_proj+mlp" },
    { "full:layers=4", PS_RECOMPUTE_FULL | 4 << PS_RECOMPUTE_LAYERS, NULL },
    { "full:uniform=2", PS_RECOMPUTE_FULL | PS_RECOMPUTE_UNIFORM | 2 << PS_RECOMPUTE_LAYERS, NULL },
  };
  static const char *const wrong[][2]
      = { { "all", "--recompute: 'all' is not one of none, selective, full, core_attn*" },
          { "mlp+", "--recompute: '' is not one of*" },
          { "mlp+full", "--recompute: 'mlp+full': full stands alone" },
          { "full:layers=0", "--recompute: *0*" },
          { "full:x=1", "--recompute: 'full:x=1' is not full, full:layers=N or*" } };
  PsRecompute value;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_assert_true (ps_recompute_parse ("--recompute", rows[i].text, &value, NULL));
    g_assert_cmpuint (value, ==, rows[i].value);
    g_assert_cmpstr (ps_recompute_name (value), ==, rows[i].name != NULL ? rows[i].name : rows[i].text);
  }
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++) {

    refused (ps_recompute_parse ("--recompute", wrong[i][0], &value, &error), PS_ERROR_USAGE, wrong[i][1]);
  }
}

/* Inputs of core attention are queries, keys and values; Megatron-LM names others by the modules that take them. */
static void test_moved (void)
{
  static const struct {
    const char *modules;
    double bytes;
  } rows[] = { { "attn_norm", 14336 },  { "qkv_linear", 14336 },
               { "core_attn", 131072 }, { "attn_proj", 32768 },
               { "mlp_norm", 14336 },   { "expert_fc1", 8 * 14336 },
               { "moe_act", 8 * 8192 }, { "core_attn+attn_proj", 163840 } };
  g_autoptr (PsModel) model = load ("deepseek-v3", PS_PRECISION_BF16, PS_FRAMEWORK_MEGATRON);
  const PsStageShape shape = { .first_layer = 10, .n_layers = 1 };
  double all = (double)layer_bytes (model, 10, PS_RECOMPUTE_NONE);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    guint offload;

    g_assert_true (ps_offload_parse ("test", rows[i].modules, &offload, NULL));
    g_assert_cmpstr (ps_offload_name (offload), ==, rows[i].modules);
    g_assert_cmpfloat (ABS (ps_model_moved_part (model, &shape, PS_RECOMPUTE_NONE, offload) * all - rows[i].bytes), <,
                       1e-6);
  }
  g_assert_cmpfloat (ps_model_moved_part (model, &shape, PS_RECOMPUTE_MLA_UP_PROJ, PS_OFFLOAD_CORE_ATTN), ==, 0);
}

/* No costs of modules that the model does not have. */
static void test_missing (void)
{
  static const struct {
    const char *model, *recompute, *message;
  } rows[] = {
    { "llama-3-70b", "mla_up_proj", "--recompute mla_up_proj: model 'llama-3-70b' has no mla_up_proj; it has *mlp" },
    { "llama-3-70b", "layernorm+mlp", "*has no layernorm; *" },
    { "llama-3-70b", "moe", "*has no moe; *" },
    { "llama-3-70b", "moe_act+shared_experts", "*has no moe_act+shared_experts; *" },
    { "qwen3-235b-a22b", "mlp", "*has no mlp; it has *moe*" },
    { "qwen3-235b-a22b", "shared_experts", "*has no shared_experts; *" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsModel) model = load (rows[i].model, PS_PRECISION_BF16, PS_FRAMEWORK_NONE);
    g_autoptr (PsCosts) costs = ps_costs_new (1);
    const PsStageShape shape = { .n_layers = 2 };
    PsRecompute recompute;

    costs->shapes = g_memdup2 (&shape, sizeof shape);
    g_assert_true (ps_recompute_parse ("test", rows[i].recompute, &recompute, NULL));
    refused (ps_costs_recompute (costs, 0, model, NULL, recompute, &error), PS_ERROR_USAGE, rows[i].message);
  }
}

/* What is worth trying begins with none and ends with full, and is something that the model has. */
static void test_sets (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (models); i++) {
    g_autoptr (PsModel) model = load (models[i], PS_PRECISION_BF16, PS_FRAMEWORK_NONE);
    PsRecompute sets[PS_N_RECOMPUTE_SETS], has;
    guint n = ps_model_recompute_sets (model, sets), offload;

    ps_model_modules (model, &has, &offload);
    g_assert_cmpuint (sets[0], ==, PS_RECOMPUTE_NONE);
    g_assert_cmpuint (sets[n - 1], ==, PS_RECOMPUTE_FULL);
    for (guint k = 1; k + 1 < n; k++)
      g_assert_true (sets[k] != 0 && (sets[k] & ~has) == 0);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/modules/dense", test_dense);
  g_test_add_func ("/modules/tensors", test_tensors);
  g_test_add_func ("/modules/saved", test_saved);
  g_test_add_func ("/modules/properties", test_properties);
  g_test_add_func ("/modules/again", test_again);
  g_test_add_func ("/modules/names", test_names);
  g_test_add_func ("/modules/moved", test_moved);
  g_test_add_func ("/modules/missing", test_missing);
  g_test_add_func ("/modules/sets", test_sets);
  return g_test_run ();
}

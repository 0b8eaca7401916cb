/* Tests of model.h: descriptions, formulas against published ones, kinds of layers, and layout strings. */
#include "models-rig.h"
#include "folder-rig.h"
#include "model/model-private.h"

#include <pipesim/work.h>
#include <string.h>
#include <pipesim/costs.h>
#include <pipesim/model.h>
#include <stdlib.h>

static PsModel *shipped (const char *name)
{
  return fine (ps_model_load (name, &error));
}

static void test_shipped (void)
{
  const char *const names[]
      = { "tiny-gpt", "gpt-1.5b", "gpt-6.2b", "gpt-14.6b", "gpt-28.3b", "llama-3-8b", "llama-3-70b" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autoptr (PsModel) model = shipped (names[i]);

    g_assert_cmpstr (model->name, ==, names[i]);
  }
  g_autoptr (PsModel) llama = shipped ("llama-3-8b");
  g_assert_cmpuint (llama->layers, ==, 32);
  g_assert_cmpuint (llama->kv_heads, ==, 8);
  g_assert_cmpuint (llama->feed_forward, ==, 14336);
  g_assert_cmpint (llama->mlp, ==, PS_MLP_SWIGLU);
  g_assert_cmpint (llama->precision, ==, PS_PRECISION_BF16);
  g_assert_true (llama->flash_attention);
}

static void test_defaults (void)
{
  g_autoptr (PsModel) model = shipped ("gpt-6.2b");

  g_assert_cmpuint (model->kv_heads, ==, 32);
  g_assert_cmpuint (model->feed_forward, ==, 4 * 4096);
  g_assert_cmpuint (model->microbatch_size, ==, 3);
}

/* The names of the paper's models, in 10^8 parameters. They count one vocabulary matrix, we count two (untied), so the
 * names lie between our total without any and our total. */
static void test_names (void)
{
  const struct {
    const char *name;
    double billions;
  } rows[] = { { "gpt-1.5b", 1.5 }, { "gpt-6.2b", 6.2 }, { "gpt-14.6b", 14.6 }, { "gpt-28.3b", 28.3 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsModel) model = shipped (rows[i].name);
    double tied = (double)(ps_model_parameters (model) - (gint64)model->vocabulary * model->hidden);

    g_assert_cmpfloat_with_epsilon (tied / 1e9, rows[i].billions, 0.05);
  }
}

static const PsStageShape one_layer = { .n_layers = 1 };

static gint64 layer_parameters (const PsModel *model)
{
  return ps_model_stage_parameters (model, &one_layer);
}

static gint64 layer_bytes (const PsModel *model)
{
  return ps_model_stage_kept_bytes (model, &one_layer, PS_RECOMPUTE_NONE);
}

/* As published with the weights: 8,030,261,248 and 70,553,706,496 parameters. */
static void test_llama_parameters (void)
{
  g_autoptr (PsModel) small = shipped ("llama-3-8b");
  g_autoptr (PsModel) large = shipped ("llama-3-70b");

  g_assert_cmpint (ps_model_parameters (small), ==, G_GINT64_CONSTANT (8030261248));
  g_assert_cmpint (ps_model_parameters (large), ==, G_GINT64_CONSTANT (70553706496));
  /* 2 * 4096^2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096 */
  g_assert_cmpint (layer_parameters (small), ==, 218112000);
}

/* gpt-6.2b: s = 1024, b = 3, h = 4096, a = 32, f = 4h, sbh = 12582912. */
static void test_formulas (void)
{
  g_autoptr (PsModel) model = shipped ("gpt-6.2b");
  PsStageShape layer = { .n_layers = 1 };

  /* 12h^2 + 13h = 201326592 + 53248 */
  g_assert_cmpint (layer_parameters (model), ==, 201379840);
  /* F bsh(24h + 4s) = 12582912 * 102400 */
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_F), ==, G_GINT64_CONSTANT (1288490188800));
  /* B bsh(24h + 8s) = 12582912 * 106496 */
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_B), ==, G_GINT64_CONSTANT (1340029796352));
  /* W 24bsh^2 = 12582912 * 98304 */
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_W), ==, G_GINT64_CONSTANT (1236950581248));
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_BW), ==, G_GINT64_CONSTANT (2576980377600));
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_R), ==, G_GINT64_CONSTANT (1288490188800));
  /* 34sbh + 5as^2b = 427819008 + 503316480 */
  g_assert_cmpint (layer_bytes (model), ==, 931135488);
  /* 32sbh */
  g_assert_cmpint (ps_model_stage_weight_activation_bytes (model, &layer), ==, 402653184);
  /* 2sbh */
  g_assert_cmpint (ps_model_boundary_bytes (model), ==, 25165824);
  model->flash_attention = TRUE;
  g_assert_cmpint (layer_bytes (model), ==, 427819008);
}

static void test_head_and_embedding (void)
{
  g_autoptr (PsModel) model = shipped ("gpt-6.2b");
  PsStageShape ends = { .embedding = TRUE }, head = { .head = TRUE };

  /* (32000 + 1024) * 4096 and 32000 * 4096 + 2 * 4096 */
  g_assert_cmpint (ps_model_stage_parameters (model, &ends), ==, 135266304);
  g_assert_cmpint (ps_model_stage_parameters (model, &head), ==, 131080192);
  /* 30 layers of 201379840 more */
  g_assert_cmpint (ps_model_parameters (model), ==, G_GINT64_CONSTANT (6307741696));
  g_assert_cmpint (ps_model_stage_state_bytes (model, &ends), ==, G_GINT64_CONSTANT (2164260864));
  /* 2bshV = 2 * 12582912 * 32000 */
  g_assert_cmpint (ps_model_stage_flops (model, &ends, PS_OP_F), ==, 0);
  g_assert_cmpint (ps_model_stage_flops (model, &head, PS_OP_F), ==, G_GINT64_CONSTANT (805306368000));
  g_assert_cmpint (ps_model_stage_flops (model, &head, PS_OP_B), ==, G_GINT64_CONSTANT (805306368000));
  g_assert_cmpint (ps_model_stage_flops (model, &head, PS_OP_W), ==, G_GINT64_CONSTANT (805306368000));
  /* 4sbh + 4sbV = 50331648 + 4 * 3072 * 32000; W needs 2sbh + 4sbV of it */
  g_assert_cmpint (ps_model_stage_kept_bytes (model, &head, PS_RECOMPUTE_NONE), ==, 50331648 + 393216000);
  g_assert_cmpint (ps_model_stage_weight_activation_bytes (model, &head), ==, 25165824 + 393216000);
}

/* llama-3-8b: s = 8192, b = 1, h = 4096, c = hk/a = 1024, f = 14336, no dropout, flash attention. */
static void test_llama_formulas (void)
{
  g_autoptr (PsModel) model = shipped ("llama-3-8b");
  PsStageShape layer = { .n_layers = 1 };

  /* weights N = 218112000 - 2 * 4096 = 218103808; F 2bsN + 4bs^2h = 3573412790272 + 1099511627776 */
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_F), ==, G_GINT64_CONSTANT (4672924418048));
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_W), ==, G_GINT64_CONSTANT (3573412790272));
  /* s (12h + 4c + 6f) = 8192 * 139264; W the same: nothing is freed by B */
  g_assert_cmpint (layer_bytes (model), ==, G_GINT64_CONSTANT (1140850688));
  g_assert_cmpint (ps_model_stage_weight_activation_bytes (model, &layer), ==, G_GINT64_CONSTANT (1140850688));
}

/* tiny-gpt is fp32: everything is twice what 2-byte elements take. s = 128, b = 2, h = 192, a = 6: sbh = 49152. */
static void test_fp32 (void)
{
  g_autoptr (PsModel) model = shipped ("tiny-gpt");

  g_assert_cmpint (ps_model_boundary_bytes (model), ==, 4 * 49152);
  g_assert_cmpint (layer_bytes (model), ==, 2 * (34 * 49152 + 5 * 6 * 128 * 128 * 2));
  g_assert_cmpuint (ps_precision_bytes (PS_PRECISION_BF16), ==, 2);
  g_assert_cmpstr (ps_precision_name (PS_PRECISION_BF16), ==, "bf16");
}

/* Every name and the words of frameworks are read back. Kept elements are as wide as multiplied ones and their part of
 * the scale: 4 bytes for 128, one for 32, one for 16. */
static void test_number_formats (void)
{
  static const struct {
    const char *text;
    PsPrecision precision;
    double scale_bits;
  } rows[] = { { "fp32", PS_PRECISION_FP32, 0 },      { "fp16", PS_PRECISION_FP16, 0 },
               { "bf16", PS_PRECISION_BF16, 0 },      { "fp8", PS_PRECISION_FP8, 0 },
               { "tensorwise", PS_PRECISION_FP8, 0 }, { "fp8-block", PS_PRECISION_FP8_BLOCK, 0.25 },
               { "mxfp8", PS_PRECISION_MXFP8, 0.25 }, { "blockwise", PS_PRECISION_FP8_BLOCK, 0.25 },
               { "nvfp4", PS_PRECISION_NVFP4, 0.5 },  { "fp4", PS_PRECISION_NVFP4, 0.5 } };
  g_autoptr (GError) error = NULL;
  PsPrecision precision;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_assert_true (ps_precision_parse ("", rows[i].text, &precision, NULL) && precision == rows[i].precision);
    g_assert_true (ps_precision_parse ("", ps_precision_name (precision), &precision, NULL));
    g_assert_cmpuint (precision, ==, rows[i].precision);
    g_assert_true (ps_number_formats[precision].kept_bits == ps_number_formats[precision].bits + rows[i].scale_bits);
  }
  g_assert_false (ps_precision_parse ("", "fp4=nvfp4", &precision, &error));
}

/* A model in its own precision stays what it is, by name and by digest. */
static void test_set_precision (void)
{
  g_autoptr (PsModel) model = shipped ("tiny-gpt");
  g_autofree char *own = ps_model_digest (model);
  g_autoptr (GError) error = NULL;

  g_assert_true (ps_model_set_precision (model, "--precision", NULL, &error));
  g_assert_true (ps_model_set_precision (model, "--precision", "fp32", &error));
  g_autofree char *same = ps_model_digest (model);
  g_assert_cmpstr (model->name, ==, "tiny-gpt");
  g_assert_cmpstr (same, ==, own);
  g_assert_true (ps_model_set_precision (model, "--precision", "bf16", &error));
  g_autofree char *other = ps_model_digest (model);
  g_assert_cmpstr (model->name, ==, "tiny-gpt in bf16");
  g_assert_cmpstr (other, !=, own);
  g_assert_cmpint (ps_model_boundary_bytes (model), ==, 2 * 49152);
  g_assert_false (ps_model_set_precision (model, "spec.ini:3", "fp12", &error));
  g_assert_cmpstr (
      error->message, ==,
      "spec.ini:3: 'fp12' is not one of fp32, fp16, bf16, fp8, fp8-block, mxfp8, nvfp4; did you mean fp32?");
}

static gint64 recompute_flops (const PsModel *model, const PsStageShape *shape, PsRecompute recompute)
{
  PsWork work;

  ps_work_recompute (model, shape, recompute, 1, &work);
  return ps_work_flops (&work);
}

/* gpt-6.2b: s = 1024, b = 3, h = 4096, a = 32: sbh = 12582912, 5as^2b = 503316480. Selective recomputation keeps 34sbh
 * of a layer, full 2sbh; a head's 4sbh + 4sbV stay either way. */
static void test_recomputation (void)
{
  g_autoptr (PsModel) model = shipped ("gpt-6.2b");
  PsStageShape two = { .n_layers = 2 }, last = { .n_layers = 2, .head = TRUE };
  const gint64 sbh = 12582912, head = 4 * sbh + 393216000;

  g_assert_cmpint (ps_model_stage_kept_bytes (model, &two, PS_RECOMPUTE_NONE), ==, 2 * (34 * sbh + 503316480));
  g_assert_cmpint (ps_model_stage_kept_bytes (model, &two, PS_RECOMPUTE_SELECTIVE), ==, 2 * 34 * sbh);
  g_assert_cmpint (ps_model_stage_kept_bytes (model, &two, PS_RECOMPUTE_FULL), ==, 2 * 2 * sbh);
  g_assert_cmpint (ps_model_stage_kept_bytes (model, &last, PS_RECOMPUTE_FULL), ==, 2 * 2 * sbh + head);
  /* 4bs^2h = 4 * 3 * 1024^2 * 4096 per layer; full: F of the layers without the head's 2bshV */
  g_assert_cmpint (recompute_flops (model, &last, PS_RECOMPUTE_NONE), ==, 0);
  g_assert_cmpint (recompute_flops (model, &last, PS_RECOMPUTE_SELECTIVE), ==, 2 * G_GINT64_CONSTANT (51539607552));
  g_assert_cmpint (recompute_flops (model, &last, PS_RECOMPUTE_FULL), ==, ps_model_stage_flops (model, &two, PS_OP_F));
  model->flash_attention = TRUE;
  g_assert_cmpint (ps_model_stage_kept_bytes (model, &two, PS_RECOMPUTE_SELECTIVE), ==, 2 * 34 * sbh);
  g_assert_cmpint (recompute_flops (model, &two, PS_RECOMPUTE_SELECTIVE), ==, 2 * G_GINT64_CONSTANT (51539607552));
  PsRecompute recompute;
  g_assert_true (ps_recompute_parse ("x", ps_recompute_name (PS_RECOMPUTE_FULL), &recompute, NULL)
                 && recompute == PS_RECOMPUTE_FULL);
  g_assert_false (ps_recompute_parse ("x", "all", &recompute, NULL));
}

/* Per parameter: fp32 4 + 4 + 8, mixed 2 + 2 + 12, with fp32 gradients 2 + 4 + 12. */
static void test_state (void)
{
  g_autoptr (PsModel) model = shipped ("gpt-6.2b");
  PsStageShape layer = { .n_layers = 1 };
  const gint64 n = layer_parameters (model);
  PsStateBytes mixed = ps_model_state (model, ps_model_stage_parameters (model, &layer));

  g_assert_cmpint (mixed.weight_bytes, ==, 2 * n);
  g_assert_cmpint (mixed.gradient_bytes, ==, 2 * n);
  g_assert_cmpint (mixed.optimizer_bytes, ==, 12 * n);
  g_autofree char *digest = ps_model_digest (model);
  model->state.main_grads = PS_DTYPE_FP32;
  g_autofree char *other = ps_model_digest (model), *text = ps_model_to_text (model);
  g_assert_cmpstr (digest, !=, other);
  g_assert_cmpint (ps_model_state (model, ps_model_stage_parameters (model, &layer)).gradient_bytes, ==, 4 * n);
  g_assert_cmpint (ps_model_stage_state_bytes (model, &layer), ==, 18 * n);
  g_autoptr (PsModel) again = ps_model_parse ("text", text, strlen (text), NULL);
  g_assert_cmpint (again->state.main_grads, ==, PS_DTYPE_FP32);
  again->precision = PS_PRECISION_FP32;
  PsStateBytes full = ps_model_state (again, ps_model_stage_parameters (again, &layer));
  g_assert_cmpint (full.weight_bytes, ==, 4 * n);
  g_assert_cmpint (full.gradient_bytes, ==, 4 * n);
  g_assert_cmpint (full.optimizer_bytes, ==, 8 * n);
}

/* Whatever the cut, stages sum up to the model; B gives back no less than nothing. */
static void test_split_sums (void)
{
  const char *const names[] = { "tiny-gpt", "gpt-28.3b", "llama-3-70b" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autoptr (PsModel) model = shipped (names[i]);

    for (guint n = 1; n <= model->layers + 2; n++) {
      g_autofree PsStageShape *shapes = g_new (PsStageShape, n);
      gint64 parameters = 0;
      guint layers = 0;

      g_assert_true (ps_model_split (model, n, shapes, NULL));
      for (guint s = 0; s < n; s++) {
        g_assert_cmpuint (shapes[s].first_layer, ==, layers);
        g_assert_cmpint (shapes[s].embedding, ==, s == 0);
        g_assert_cmpint (shapes[s].head, ==, s == n - 1);
        g_assert_true (n > model->layers || shapes[s].n_layers <= shapes[0].n_layers);
        g_assert_cmpuint (shapes[s].n_layers + 1, >=, shapes[0].n_layers);
        g_assert_cmpint (ps_model_stage_weight_activation_bytes (model, &shapes[s]), <=,
                         ps_model_stage_kept_bytes (model, &shapes[s], PS_RECOMPUTE_NONE));
        layers += shapes[s].n_layers;
        parameters += ps_model_stage_parameters (model, &shapes[s]);
      }
      g_assert_cmpuint (layers, ==, model->layers);
      g_assert_cmpint (parameters, ==, ps_model_parameters (model));
    }
  }
}

static void test_split (void)
{
  g_autoptr (PsModel) model = shipped ("gpt-1.5b");
  PsStageShape shapes[23];

  /* 22 = 6 + 6 + 5 + 5 */
  g_assert_true (ps_model_split (model, 4, shapes, NULL));
  g_assert_cmpuint (shapes[1].n_layers, ==, 6);
  g_assert_cmpuint (shapes[2].n_layers, ==, 5);
  g_assert_cmpuint (shapes[3].first_layer, ==, 17);
  g_autofree char *first = ps_stage_shape_key (&shapes[0]);
  g_autofree char *middle = ps_stage_shape_key (&shapes[1]);
  g_autofree char *last = ps_stage_shape_key (&shapes[3]);
  g_assert_cmpstr (first, ==, "layers=6,embedding");
  g_assert_cmpstr (middle, ==, "layers=6");
  g_assert_cmpstr (last, ==, "layers=5,head");
  refused (ps_model_split (model, 25, shapes, &error), PS_ERROR_USAGE,
           "model 'gpt-1.5b': its 22 layers, embedding and loss cannot be cut into 25 stages (devices times chunks)");
}

static void test_round_trip (void)
{
  g_autoptr (PsModel) model = shipped ("llama-3-70b");
  g_autofree char *text = ps_model_to_text (model);
  g_autofree char *digest = ps_model_digest (model);
  g_autoptr (PsModel) again = fine (ps_model_parse ("text", text, strlen (text), &error));
  g_autofree char *text_again = ps_model_to_text (again);

  g_assert_cmpstr (again->name, ==, "llama-3-70b");
  g_assert_cmpstr (text, ==, text_again);
  g_assert_cmpuint (strlen (digest), ==, 64);

  g_free (again->name);
  again->name = g_strdup ("another name");
  g_autofree char *same = ps_model_digest (again);
  g_assert_cmpstr (digest, ==, same);
  again->flash_attention = FALSE;
  g_autofree char *other = ps_model_digest (again);
  g_assert_cmpstr (digest, !=, other);
}

/* Measured profiles are found by the digest of their model: that of a model without later keys never changes. */
static void test_digest (void)
{
  g_autoptr (PsModel) model = shipped ("llama-3-8b");
  g_autofree char *digest = ps_model_digest (model);

  g_assert_cmpstr (digest, ==, "92e86b0cac1efef26b30aea863b76a83c2f4f22d4d64e00595024cb80ef88356");
  model->experts.imbalance = 1.5;
  g_autofree char *other = ps_model_digest (model);
  g_assert_cmpstr (other, !=, digest);
}

#define GOOD                                                                                                           \
  "[model]\nlayers=4\nhidden=64\nheads=4\nsequence=16\nvocabulary=100\nmicrobatch_size=1\nprecision=fp32\nmlp=gelu\n"  \
  "flash_attention=false\n"

/* Loads `length` bytes as a file named m.ini and checks what is said; the path is left out of `message`. */
static void assert_refused (const char *text, gsize length, const char *message)
{
  g_autofree char *path = path_of ("m.ini");
  g_autofree char *expected = g_strdup_printf ("%s:%s", path, message);

  g_assert_true (g_file_set_contents (path, text, (gssize)length, NULL));
  refused (ps_model_load (path, &error), PS_ERROR_INPUT, expected);
  g_unlink (path);
}

static void test_refused (void)
{
  const struct {
    const char *text;
    const char *message;
  } rows[] = {
    { "", " is empty" },
    { "# nothing\n", " holds no [model] group" },
    { "layers=4\n", "1: expected [model] first" },
    { "[cluster]\n", "1: unknown group '[cluster]'; only [model] is known" },
    { GOOD "[model]\n", "11: group [model] appears twice" },
    { GOOD "layers=5\n", "11: key 'layers' appears twice" },
    { GOOD "\nnonsense\n", "12: 'nonsense' is neither 'key = value' nor a [group] nor a # comment" },
    { GOOD "colour=red\n",
      "11: unknown key 'colour'; known are: name, layers, hidden, heads, kv_heads, sequence, feed_forward, vocabulary, "
      "microbatch_size, "
      "precision, mlp, flash_attention, main_grads_dtype, head_size, sequence_parallel, tied, qkv_bias, "
      "other_biases, qk_norm, window, full_every, mtp, kv_rank, q_rank, nope_size, rope_size, value_size, "
      "experts, active_experts, shared_experts, expert_feed_forward, dense_layers, context_gpus, expert_gpus, "
      "framework, capacity, imbalance, pattern, attention_gate, sinks, expert_latent, shared_feed_forward, "
      "shared_gate, mamba_heads, mamba_head_size, mamba_state, mamba_groups, delta_key_heads, delta_key_size, "
      "delta_value_heads, delta_value_size, index_heads, index_size, index_top, delta_gate_rank, output_bias, "
      "post_norms, one_norm, biases, positions, position_rows, embedding_norm, optimizer, "
      "optimizer_implementation, main_params_dtype, exp_avg_dtype, exp_avg_sq_dtype, fp8_param_gather, "
      "activation_func_fp8_input_store, value_head_size, shared_kv, output_groups, output_rank, streams, "
      "window_heads, window_kv_heads, compressed_tokens, heavily_compressed_tokens, loss, dropout, images, "
      "encoder_layers, encoder_hidden, encoder_heads, encoder_feed_forward, encoder_mlp, encoder_biases, "
      "encoder_sequence, encoder_results, encoder_patch, encoder_vectors, projector_layers, projector_width, "
      "projector_hidden, projector_bias" },
    { GOOD "pattern=*-*-*\n", " [model] pattern: has 5 letters; 4 layers have one each, or two" },
    { GOOD "pattern=*x*-\n", " [model] pattern: letter 2 is no unit; the units are *w+DCHMGl-E" },
    { GOOD "pattern=*E*-\n", " [model] experts: missing; a unit of experts needs *" },
    { GOOD "pattern=*w*-\n", " [model] window: missing; a unit of window attention needs window" },
    { GOOD "pattern=M-*-\n", " [model] mamba_heads: missing; a unit of Mamba-2 needs *" },
    { GOOD "pattern=*-*-\nkv_rank=8\nnope_size=8\nvalue_size=8\n", " [model] pattern: has *, heads of keys *" },
    { GOOD "kv_heads=3\n", " [model] kv_heads: 3 does not divide heads 4" },
    { GOOD "full_every=2\n", " [model] full_every: there is no window that some layers do without" },
    { GOOD "nope_size=8\n", " [model] kv_rank: missing; a unit of latent attention needs *" },
    { GOOD "rope_size=8\n", " [model] kv_rank: missing; a unit of latent attention needs *" },
    { GOOD "value_size=8\n", " [model] kv_rank: missing; a unit of latent attention needs *" },
    { GOOD "kv_rank=8\nvalue_size=8\n", " [model] nope_size: missing; a unit of latent attention needs *" },
    { GOOD "kv_rank=8\nnope_size=8\n", " [model] value_size: missing; a unit of latent attention needs *" },
    { GOOD "active_experts=1\n", " [model] experts: missing; a unit of experts needs *" },
    { GOOD "shared_experts=1\n", " [model] experts: missing; a unit of experts needs *" },
    { GOOD "expert_feed_forward=8\n", " [model] experts: missing; a unit of experts needs *" },
    { GOOD "dense_layers=1\n", " [model] experts: missing; a unit of experts needs *" },
    { GOOD "capacity=1\n", " [model] experts: missing; a unit of experts needs *" },
    { GOOD "imbalance=1.5\n", " [model] experts: missing; a unit of experts needs *" },
    { GOOD "experts=4\nexpert_feed_forward=8\n", " [model] active_experts: missing; a unit of experts needs *" },
    { GOOD "experts=4\nactive_experts=2\n", " [model] expert_feed_forward: missing; a unit of experts needs *" },
    { GOOD "experts=4\nactive_experts=5\nexpert_feed_forward=8\n",
      " [model] active_experts: 5 is more than experts 4" },
    { GOOD "experts=4\nactive_experts=4\nexpert_feed_forward=8\ndense_layers=5\n",
      " [model] dense_layers: 5 is more than layers 4" },
    { "[model]\nlayers=0\n", " [model] layers: '0' is not an integer from 1 to 16384" },
    { "[model]\nlayers=-1\n", " [model] layers: '-1' is not an integer from 1 to 16384" },
    { "[model]\nlayers=99999999999999999999\n",
      " [model] layers: '99999999999999999999' is not an integer from 1 to 16384" },
    { "[model]\nlayers=\n", " [model] layers: has no value" },
    { "[model]\nlayers=4\n", " [model] hidden: missing" },
    { "[model]\nlayers=4\nhidden=64\nheads=5\nsequence=16\nvocabulary=100\nmicrobatch_size=1\nprecision=fp32\n"
      "mlp=gelu\nflash_attention=false\n",
      " [model] heads: 5 does not divide hidden 64" },
    { "[model]\nlayers=4\nhidden=64\nheads=4\nsequence=16\nvocabulary=100\nmicrobatch_size=1\nprecision=fp12\n",
      " [model] precision: 'fp12' is not one of fp32, fp16, bf16, fp8, fp8-block, mxfp8, nvfp4; did you mean fp32?" },
    { "[model]\nlayers=4\nhidden=64\nheads=4\nsequence=16\nvocabulary=100\nmicrobatch_size=1\nprecision=fp32\n"
      "mlp=gelu\nflash_attention=maybe\n",
      " [model] flash_attention: 'maybe' is not one of false, true" },
    { "[model]\nlayers=16384\nhidden=1048576\nheads=4\nsequence=16\nvocabulary=100\nmicrobatch_size=1\n"
      "precision=fp32\nmlp=gelu\nflash_attention=false\n",
      " [model] hidden: 1048576 makes about 2.16e+17 parameters with 16384 layers, more than pipesim can hold" },
    { "[model]\nlayers=96\nhidden=16384\nheads=4\nsequence=1048576\nvocabulary=100\nmicrobatch_size=65536\n"
      "precision=fp32\nmlp=gelu\nflash_attention=true\n",
      " [model] microbatch_size: 65536 makes about 2.48e+24 operations per microbatch, more than pipesim can hold" },
    { "[model]\nlayers=4\n\x80\xff=3\n", " is not UTF-8 text" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    assert_refused (rows[i].text, strlen (rows[i].text), rows[i].message);
  assert_refused ("[model]\0layers=4\n", 17, " is not a text file (it contains NUL bytes)");
  g_autofree char *long_text = g_strnfill (70000, '#');
  assert_refused (long_text, 70000, " is too long, more than 64 KiB");
}

static void assert_not_loaded (const char *path, int code, const char *pattern)
{
  refused (ps_model_load (path, &error), code, pattern);
}

static void test_not_found (void)
{
  g_autofree char *missing = path_of ("missing.ini");

  assert_not_loaded (
      "gpt-5", PS_ERROR_INPUT,
      "'gpt-5': neither a file nor one of the models shipped; there are bloom-176b, deepseek-v2, deepseek-v3, "
      "deepseek-v3-671b, deepseek-v3.2, gemma-3-27b, glm-4.5, gpt-1.5b, gpt-3-175b, "
      "gpt-oss-120b, gpt-oss-20b, grok-1, kimi-k2, llama-3-405b, llama-3-70b, llama-3-8b, "
      "llama-4-maverick, mixtral-8x7b, nemotron-3-nano-30b-a3b, nemotron-4-340b, "
      "qwen3-235b-a22b, qwen3-30b-a3b, qwen3-next-80b-a3b, tiny-gpt");
  assert_not_loaded ("", PS_ERROR_INPUT, "'': neither a file nor one of *");
  assert_not_loaded ("bad\nname", PS_ERROR_INPUT, "'bad\\nname': neither a file nor *");
  assert_not_loaded (missing, PS_ERROR_IO, "*missing.ini*");
  assert_not_loaded (folder, PS_ERROR_IO, "*irectory*");
}

/* A description that names itself keeps that name; otherwise the file does. */
static void test_name (void)
{
  const char *named = GOOD "name = my model\n";
  g_autoptr (PsModel) by_key = fine (ps_model_parse ("x/file.ini", named, strlen (named), &error));
  g_autoptr (PsModel) by_file = fine (ps_model_parse ("x/file.ini", GOOD, strlen (GOOD), &error));

  g_assert_cmpstr (by_key->name, ==, "my model");
  g_assert_cmpstr (by_file->name, ==, "file");
}

/* Tests of model.h: kinds of layers, and the formulas of models that are no plain decoder. */

/* Parameters as published with the weights, without what tests/fixtures/configs/README.md names as left out; and
 * billions that a token meets, as published, with the vocabulary's matrices that the publishers leave out. Multi-token
 * prediction does not count. */
static void test_published_parameters (void)
{
  const struct {
    const char *name;
    gint64 total;
    double active;
  } rows[] = {
    { "bloom-176b", G_GINT64_CONSTANT (176247271424), 176.247 },
    { "deepseek-v2", G_GINT64_CONSTANT (235741434880), 21.4 },
    { "deepseek-v3", G_GINT64_CONSTANT (671026404352), 36.7 + .927 },
    { "deepseek-v3-671b", G_GINT64_CONSTANT (671026404352), 36.7 + .927 },
    { "deepseek-v3.2", G_GINT64_CONSTANT (671877929216), 37.5 + .927 },
    { "gemma-3-27b", G_GINT64_CONSTANT (27009346304), 27.009 },
    { "glm-4.5", G_GINT64_CONSTANT (352797814784), 32 + 2 * .776 },
    { "gpt-oss-120b", G_GINT64_CONSTANT (116829156672), 5.13 + .579 },
    { "gpt-oss-20b", G_GINT64_CONSTANT (20914757184), 3.61 + .579 },
    { "grok-1", G_GINT64_CONSTANT (315684820992), 83.757 },
    { "kimi-k2", G_GINT64_CONSTANT (1026408209408), 31.7 + 1.175 },
    { "llama-3-405b", G_GINT64_CONSTANT (405853388800), 405.853 },
    { "llama-4-maverick", G_GINT64_CONSTANT (400711848960), 17.17 },
    { "mixtral-8x7b", G_GINT64_CONSTANT (46702792704), 12.88 },
    { "nemotron-3-nano-30b-a3b", G_GINT64_CONSTANT (31577937344), 3.58 },
    { "nemotron-4-340b", G_GINT64_CONSTANT (341025638400), 341.026 },
    { "qwen3-235b-a22b", G_GINT64_CONSTANT (235093634560), 22.19 },
    { "qwen3-30b-a3b", G_GINT64_CONSTANT (30532122624), 3.35 },
    { "qwen3-next-80b-a3b", G_GINT64_CONSTANT (79674391296), 3.875 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsModel) model = shipped (rows[i].name);

    model->mtp = 0;
    g_assert_cmpint (ps_model_parameters (model), ==, rows[i].total);
    g_assert_cmpfloat_with_epsilon ((double)ps_model_active_parameters (model) / 1e9, rows[i].active,
                                    0.005 * rows[i].active);
  }
  g_autoptr (PsModel) gpt = shipped ("gpt-3-175b");
  g_assert_cmpfloat_with_epsilon ((double)ps_model_parameters (gpt) / 1e9, 175, 0.5);
}

/* Six layers, of which every third attends to all tokens in spite of the window, and the first two have no experts. A
 * module of multi-token prediction is like the last layer. */
static void test_units (void)
{
  static const char pattern[] = "w-w-*EwEwE*E";
  static const char *const letters = "*w-E";
  static const PsUnitKind kinds[] = { PS_UNIT_ATTENTION, PS_UNIT_WINDOW, PS_UNIT_MLP, PS_UNIT_EXPERTS };
  const PsModel model = { .layers = 6, .window = 64, .full_every = 3, .experts = { .count = 4, .dense_layers = 2 } };
  const PsModel said = { .layers = 6, .pattern = (char *)pattern };
  g_autofree char *own = ps_model_pattern (&model), *other = ps_model_pattern (&said);

  g_assert_cmpstr (own, ==, pattern);
  g_assert_cmpstr (other, ==, pattern);
  for (guint first = 0; first < 6; first++)
    for (guint n = 0; first + n <= 6; n++)
      for (guint mtp = 0; mtp <= 2; mtp++) {
        const PsStageShape shape = { .first_layer = first, .n_layers = n, .n_mtp = mtp, .head = TRUE };
        guint count[PS_N_UNIT_KINDS], same[PS_N_UNIT_KINDS], expected[PS_N_UNIT_KINDS] = { 0 };

        for (guint i = 0; i < 2 * n; i++)
          expected[kinds[strchr (letters, pattern[2 * first + i]) - letters]]++;
        expected[PS_UNIT_ATTENTION] += mtp;
        expected[PS_UNIT_EXPERTS] += mtp;
        expected[PS_UNIT_MTP] = mtp;
        expected[PS_UNIT_LOSS] = 1;
        ps_model_count_units (&model, &shape, count);
        g_assert_cmpmem (count, sizeof count, expected, sizeof expected);
        ps_model_count_units (&said, &shape, same);
        g_assert_cmpmem (count, sizeof count, same, sizeof same);
      }
}

/* A head's size that is that of the hidden over the heads is said of no model; another one is, and so is one where the
 * heads divide nothing. */
static void test_head_size (void)
{
  static const struct {
    guint hidden, heads, head_size, kept;
  } rows[] = { { 64, 4, 16, 0 }, { 64, 4, 32, 32 }, { 66, 4, 16, 16 }, { 64, 4, 0, 0 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
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
static void test_mixture_bytes (void)
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

  for (guint s = 0; s <= 2; s++) {
    gint64 inputs = 64 + 32 + 64 + (2 + s) * 64, kept = 96 + 2 * (2 + s) * 64 + 64 + 4 * 8 + 64;
    gint64 outputs = 128 + 8 + 2 * (2 + s) * 64 + 64 + s * 32;

    model.experts.shared = s;
    g_assert_cmpint (layer_bytes (&model), ==, 128 * 2 * (inputs + kept));
    g_assert_cmpint (ps_model_stage_weight_activation_bytes (&model, &layer), ==,
                     MIN (128 * 2 * (inputs + outputs), 128 * 2 * (inputs + kept)));
  }
}

/* Latent attention of 4 heads: queries from 8 numbers, keys and values from 16; a query of 8 + 4 of a head, a value
 * of 8. Inputs of matrices are h = 32, 8, 16 and 32 values; F keeps 8 + 16 + 4 that come down, queries and keys of 48
 * and 32 values; W needs gradients of 28 down, 48 queries, 32 of keys without position, 32 values and h. A feed-forward
 * of f = 128 has inputs of h + f, keeps 2 f, and W needs 2 f + h. Two norms keep 2 h. */
static void test_latent_bytes (void)
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

  g_assert_cmpint (layer_bytes (&model), ==, 128 * 2 * (inputs + kept));
  g_assert_cmpint (ps_model_stage_weight_activation_bytes (&model, &layer), ==, 128 * 2 * (inputs + outputs));
  /* Matrices: queries down and up, or at once; 16 + 4 down; 4 (8 + 8) up; the output; 3 h f. Norms: 2 h, and the ranks.
   */
  g_assert_cmpint (layer_parameters (&model), ==,
                   32 * 8 + 8 * 48 + 32 * 20 + 16 * 64 + 32 * 32 + 3 * 32 * 128 + 64 + 8 + 16);
  plain.latent.q_rank = 0;
  g_assert_cmpint (layer_parameters (&plain), ==, 32 * 48 + 32 * 20 + 16 * 64 + 32 * 32 + 3 * 32 * 128 + 64 + 16);
}

/* Megatron-LM's layout strings against an expansion by its own two regular expressions. */

static gboolean repeat_match (const GMatchInfo *match, GString *result, G_GNUC_UNUSED gpointer data)
{
  g_autofree char *text = g_match_info_fetch (match, 1), *count = g_match_info_fetch (match, 2);

  for (int i = atoi (count); i > 0; i--)
    g_string_append (result, text);
  return FALSE;
}

/* The stages of a string without repeats, as Megatron-LM's parse_str_to_list makes them. */
static GStrv expand (const char *text)
{
  static const char *const patterns[] = { "\\(([^)]+)\\)\\*(\\d+)", "(.)\\*(\\d+)" };
  g_auto (GStrv) parts = g_strsplit (text, ",", -1);
  g_autofree char *all = g_strjoinv ("", parts);

  for (guint i = 0; i < G_N_ELEMENTS (patterns); i++) {
    g_autoptr (GRegex) regex = g_regex_new (patterns[i], 0, 0, NULL);
    char *next = g_regex_replace_eval (regex, all, -1, 0, 0, repeat_match, NULL, NULL);

    g_free (all);
    all = next;
  }
  return g_strsplit (all, "|", -1);
}

static guint count (const char *stage, char unit)
{
  guint n = 0;

  for (; *stage; stage++)
    n += *stage == unit;
  return n;
}

static void assert_stages (const char *text, const PsStageShape *shapes, guint n_stages)
{
  g_auto (GStrv) stages = expand (text);
  g_autofree char *all = g_strjoinv ("", stages);
  const guint each = count (all, 'L') == 1 ? 1 + count (all, 'm') : 1; /* losses that an L stands for */
  guint first = 0;

  g_assert_cmpuint (n_stages, ==, g_strv_length (stages));
  for (guint s = 0; s < n_stages; s++) {
    g_assert_cmpuint (shapes[s].first_layer, ==, first);
    g_assert_cmpuint ((guint)shapes[s].embedding, ==, count (stages[s], 'E'));
    g_assert_cmpuint (shapes[s].n_layers, ==, count (stages[s], 't'));
    g_assert_cmpuint (shapes[s].n_mtp, ==, count (stages[s], 'm'));
    g_assert_cmpuint (shapes[s].head, ==, each * count (stages[s], 'L'));
    first += shapes[s].n_layers;
  }
}

static void assert_round_trip (const PsStageShape *shapes, guint n_stages)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = ps_layout_write (NULL, shapes, n_stages);
  guint n;
  g_autofree PsStageShape *again = ps_layout_parse ("again", text, NULL, &n, &error);

  g_assert_no_error (error);
  assert_stages (text, shapes, n_stages);
  g_assert_cmpmem (again, n * sizeof *again, shapes, n_stages * sizeof *shapes);
}

/* The fixture's columns: layout, stages, decoder layers, mtp layers, losses, empty stages, and more. */
static void check_row (const char *line)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GRegex) regex = g_regex_new ("^(\"([^\"]*)\"|([^,]*)),(\\d+),(\\d+),(\\d+),(\\d+),(\\d+),", 0, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  guint sums[5] = { 0 }; /* as the columns after the layout */

  g_assert_true (g_regex_match (regex, line, 0, &match));
  g_autofree char *quoted = g_match_info_fetch (match, 2), *plain = g_match_info_fetch (match, 3);
  const char *layout = *quoted ? quoted : plain;
  g_autofree PsStageShape *shapes = ps_layout_parse ("row", layout, NULL, &sums[0], &error);
  g_assert_no_error (error);
  assert_stages (layout, shapes, sums[0]);
  assert_round_trip (shapes, sums[0]);
  g_auto (GStrv) stages = expand (layout);
  for (guint s = 0; s < sums[0]; s++) {
    sums[1] += shapes[s].n_layers;
    sums[2] += shapes[s].n_mtp;
    sums[3] += count (stages[s], 'L');
    sums[4] += !shapes[s].embedding && !shapes[s].n_layers && !shapes[s].n_mtp && !shapes[s].head;
  }
  for (guint i = 0; i < G_N_ELEMENTS (sums); i++) {
    g_autofree char *expected = g_match_info_fetch (match, 4 + (int)i);

    g_assert_cmpint (sums[i], ==, atoi (expected));
  }
}

static void check_file (const char *path)
{
  g_autofree char *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (g_strchomp (text), "\n", -1);
  for (guint i = 1; lines[i] != NULL; i++)
    check_row (lines[i]);
  g_assert_cmpuint (g_strv_length (lines), >, 5);
}

static void test_published (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", "megatron_layout_strings.csv", NULL);

  check_file (path);
}

/* Written as people write them. */
static void test_folds (void)
{
  static const char *const texts[] = {
    "Ett|(tt|)*34,t*3|(tt|)*3,ttL",         "Et*3|(tt|)*29,m|L",     "E||t|L", "Et*4|(t*7|)*5,t*8|tmL", "EttL",
    "Et|t|(|t*4|t*4|t*4|)*5|t*4|t*4|t*4mL", "E|(t|)*10,m|m|m|LL|LL",
  };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++) {
    guint n;
    g_autofree PsStageShape *shapes = ps_layout_parse ("text", texts[i], NULL, &n, NULL);
    g_autofree char *text = ps_layout_write (NULL, shapes, n);

    g_assert_cmpstr (text, ==, texts[i]);
  }
}

/* Few different stages in a row, so that groups of all periods turn up. */
static void test_random (void)
{
  for (guint round = 0; round < 20000; round++) {
    PsStageShape shapes[64] = { 0 };
    guint n = (guint)g_test_rand_int_range (1, 65), first = 0, period = (guint)g_test_rand_int_range (1, 9);

    for (guint s = 0; s < n; s++) {
      gboolean repeats = s >= period && g_test_rand_int_range (0, 8) > 0;

      shapes[s].n_layers = repeats ? shapes[s - period].n_layers : (guint)g_test_rand_int_range (0, 13);
      shapes[s].n_layers += s == 0;
      shapes[s].first_layer = first;
      first += shapes[s].n_layers;
    }
    shapes[0].embedding = TRUE;
    /* The modules are in the last stage or the one before it, and so are their losses. */
    guint n_mtp = (guint)g_test_rand_int_range (0, 4), early = n > 1 && round % 3 > 0;
    shapes[n - 1 - early].n_mtp = n_mtp;
    shapes[n - 1].head = 1 + n_mtp;
    if (early && n_mtp > 0 && round % 3 == 1) {
      shapes[n - 2].head = (guint)g_test_rand_int_range (1, (gint)n_mtp + 1);
      shapes[n - 1].head -= shapes[n - 2].head;
      shapes[n - 1].n_layers = 0;
      shapes[n - 1].first_layer = shapes[n - 2].first_layer + shapes[n - 2].n_layers;
    }
    if (early && n_mtp > 0)
      shapes[n - 1].n_layers = 0;
    assert_round_trip (shapes, n);
  }
}

/* Losses shared by stages: operations and logits add up to those of one stage. Each stage with losses has the output
 * projection, each with modules the embedding, and messages hold a hidden state for each loss to come. */
static void test_losses (void)
{
  static const guint states[] = { 1, 2, 3, 4, 2 };
  const char *const layout = "Ett|m|m|m|LL|LL";
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCluster) cluster = ps_cluster_load ("h100-80gb", &error);
  PsModel model = { .name = (char *)"small",
                    .layers = 2,
                    .mtp = 3,
                    .hidden = 32,
                    .heads = 4,
                    .kv_heads = 4,
                    .sequence = 64,
                    .feed_forward = 128,
                    .vocabulary = 100,
                    .microbatch_size = 2,
                    .precision = PS_PRECISION_BF16,
                    .mlp = PS_MLP_SWIGLU,
                    .flash_attention = TRUE };
  const PsStageShape all = ps_model_whole (&model);
  gint64 flops = 0, parameters = 0, bytes = 0;
  guint n;
  g_autofree PsStageShape *shapes = ps_layout_parse ("L", layout, &model, &n, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, 6);
  for (guint s = 0; s < n; s++) {
    flops += ps_model_stage_flops (&model, &shapes[s], PS_OP_BW);
    parameters += ps_model_stage_parameters (&model, &shapes[s]);
    bytes += ps_model_stage_kept_bytes (&model, &shapes[s], PS_RECOMPUTE_NONE);
  }
  g_assert_cmpint (flops, ==, ps_model_stage_flops (&model, &all, PS_OP_BW));
  g_assert_cmpint (bytes, ==, ps_model_stage_kept_bytes (&model, &all, PS_RECOMPUTE_NONE));
  g_assert_cmpint (parameters, ==, ps_model_parameters (&model) + (3 + 1) * 100 * 32);
  g_assert_cmpint (ps_model_stage_flops (&model, &shapes[4], PS_OP_F), ==, 2 * 2 * 2 * 64 * 32 * 100);
  g_autoptr (PsCosts) costs = ps_costs_model_stages (&model, cluster, shapes, n, 1, &error);
  g_assert_no_error (error);
  for (guint s = 0; s + 1 < n; s++) {
    g_assert_cmpint (costs->message_bytes[ps_transfer_forward (costs, s)], ==, states[s] * 2 * 64 * 32 * 2);
    g_assert_cmpint (costs->message_bytes[ps_transfer_backward (costs, s + 1)], ==, states[s] * 2 * 64 * 32 * 2);
  }
}

/* Drawn models, of layers of one unit and of two, and drawn cuts: both forms of the string read as the cut. */
static void test_patterns (void)
{
  for (guint round = 0; round < 200; round++) {
    guint n_layers = (guint)g_test_rand_int_range (1, 40), pairs = round % 2, n = (guint)g_test_rand_int_range (1, 9);
    g_autoptr (GString) pattern = g_string_new (NULL);
    g_autoptr (GError) error = NULL;
    PsStageShape shapes[8] = { 0 };
    guint ends[8], n_again;

    for (guint i = 0; i < n_layers << pairs; i++)
      g_string_append_c (pattern, (pairs ? i % 2 ? "-E" : "*M" : "*M-E")[g_test_rand_int_range (0, pairs ? 2 : 4)]);
    PsModel model = { .name = (char *)"drawn", .layers = n_layers, .mtp = round % 3, .pattern = pattern->str };
    if (model.mtp > 0)
      g_string_append (pattern, "/*E");
    model.pattern = pattern->str;
    for (guint s = 0; s < n; s++)
      ends[s] = s + 1 == n ? n_layers : (guint)g_test_rand_int_range (0, (gint)n_layers + 1);
    for (guint s = 1; s < n; s++)
      ends[s] = MAX (ends[s], ends[s - 1]);
    for (guint s = 0; s < n; s++)
      shapes[s] = (PsStageShape){ .first_layer = s > 0 ? ends[s - 1] : 0,
                                  .n_layers = ends[s] - (s > 0 ? ends[s - 1] : 0),
                                  .embedding = s == 0,
                                  .n_mtp = s + 1 == n ? model.mtp : 0,
                                  .head = s + 1 == n ? 1 + model.mtp : 0 };
    g_autofree char *letters = ps_model_pattern (&model);
    g_assert_cmpstr (letters, ==, pattern->str);
    for (guint form = 0; form < 2; form++) {
      g_autofree char *text = ps_layout_write (form == 0 ? letters : NULL, shapes, n);
      g_autofree PsStageShape *again = ps_layout_parse ("again", text, &model, &n_again, &error);

      g_test_message ("%s", text);
      g_assert_no_error (error);
      g_assert_cmpint (ps_layout_is_pattern (text), ==, form == 0);
      g_assert_cmpmem (again, n_again * sizeof *again, shapes, n * sizeof *shapes);
      g_assert_false (ps_layout_cuts_layers (text, &model));
    }
  }
}

/* A layer of two units is cut where the model is unfolded. */
static void test_unfold (void)
{
  g_autoptr (GError) error = NULL;
  PsModel model = { .name = (char *)"small",
                    .layers = 3,
                    .mtp = 2,
                    .hidden = 32,
                    .heads = 4,
                    .kv_heads = 4,
                    .sequence = 64,
                    .feed_forward = 128,
                    .vocabulary = 100,
                    .microbatch_size = 2,
                    .mlp = PS_MLP_SWIGLU };
  const char *text = "*-*|-*-/*-/*-";
  const PsStageShape all = ps_model_whole (&model);
  const gint64 flops = ps_model_stage_flops (&model, &all, PS_OP_BW), parameters = ps_model_parameters (&model);
  const gint64 bytes = ps_model_stage_kept_bytes (&model, &all, PS_RECOMPUTE_NONE);
  guint n;

  g_assert_true (ps_layout_cuts_layers (text, &model));
  g_assert_false (ps_layout_cuts_layers ("*-*-|*-/*-/*-", &model));
  refused (ps_layout_parse ("L", text, &model, &n, &error), PS_ERROR_USAGE, "L: stage 1 begins within a layer of *");
  refused (ps_layout_parse ("L", "*-M-|*-/*-/*-", &model, &n, &error), PS_ERROR_USAGE,
           "L: layer 3 of the pattern is not that of model 'small', whose layers are *-*-*-/*-");
  refused (ps_layout_parse ("L", "*-*-|*-/*-", &model, &n, &error), PS_ERROR_USAGE, "L: has 1 m; model 'small' has 2");
  ps_model_unfold (&model);
  g_assert_cmpstr (model.pattern, ==, "*-*-*-/*-");
  g_assert_cmpuint (model.layers, ==, 6);
  g_autofree PsStageShape *shapes = ps_layout_parse ("L", text, &model, &n, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, 2);
  g_assert_cmpuint (shapes[0].n_layers, ==, 3);
  g_assert_cmpuint (shapes[1].first_layer, ==, 3);
  g_assert_cmpint (ps_model_stage_flops (&model, &shapes[0], PS_OP_BW)
                       + ps_model_stage_flops (&model, &shapes[1], PS_OP_BW),
                   ==, flops);
  g_assert_cmpint (ps_model_stage_kept_bytes (&model, &shapes[0], PS_RECOMPUTE_NONE)
                       + ps_model_stage_kept_bytes (&model, &shapes[1], PS_RECOMPUTE_NONE),
                   ==, bytes);
  g_assert_cmpint (ps_model_parameters (&model), ==, parameters);
  g_free (model.pattern);
}

static void test_wrong (void)
{
  static const struct {
    const char *text;
    guint at;
    const char *reason;
  } rows[] = {
    { "", 1, "E, the embedding, comes first" },
    { "tt|tL", 1, "E, the embedding, comes first" },
    { "||t", 3, "E, the embedding, comes first" },
    { "Et|tt", 6, "ends without L" },
    { "E|L", 4, "ends without a t" },
    { "Et|xL", 4, "no unit" },
    { "Et |L", 3, "no unit" },
    { "EtLt", 4, "a unit stands too late" },
    { "EtmtL", 4, "a unit stands too late" },
    { "EtE", 3, "a unit stands too late" },
    { "EEtL", 2, "a second E" },
    { "Et*|L", 3, "a number goes after *" },
    { "Et*0L", 4, "give 1 to 16384 repeats" },
    { "Et*99999L", 4, "give 1 to 16384 repeats" },
    { "Et*18446744073709551617L", 4, "give 1 to 16384 repeats" },
    { "Et*2*2L", 5, "a second repeat" },
    { "E(tt|)*2*2L", 9, "a second repeat" },
    { "E(tt|L", 2, "its ) is missing" },
    { "E(tt|)L", 6, "a repeat goes after a group" },
    { "E(t(t|)*2)*2L", 4, "no unit" },
    { "EtmmLL", 5, "give one L for all losses" },
    { "EtLL", 3, "give one L for all losses" },
    { "E()*2tL", 2, "an empty group" },
    { "E(,)*2tL", 2, "an empty group" },
    { "Et)*2L", 3, "no unit" },
    { "Et(t|)*16384,L", 5, "too many stages" },
    { "E(t*16384)*65L", 3, "too many units" },
    { "M-x|*-", 3, "no layer" },
    { "M-|[*E", 7, "ends without a ]" },
    { "||", 3, "ends without a layer" },
    { "[M|*]", 3, "no layer" },
    { "M[[*E]]", 3, "no layer" },
    { "*E/*E/*-", 3, "modules of multi-token prediction are alike" },
    { "*E/", 3, "modules of multi-token prediction are alike" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (GError) error = NULL;
    g_autofree char *begin = g_strdup_printf ("--layout: character %u of the layout: %s", rows[i].at, rows[i].reason);
    guint n;

    g_assert_null (ps_layout_parse ("--layout", rows[i].text, NULL, &n, &error));
    g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
    if (!g_str_has_prefix (error->message, begin))
      g_error ("%s: %s", rows[i].text, error->message);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  go_to_models ();
  g_test_add_func ("/model/shipped", test_shipped);
  g_test_add_func ("/model/defaults", test_defaults);
  g_test_add_func ("/model/names", test_names);
  g_test_add_func ("/model/llama-parameters", test_llama_parameters);
  g_test_add_func ("/model/formulas", test_formulas);
  g_test_add_func ("/model/head-and-embedding", test_head_and_embedding);
  g_test_add_func ("/model/llama-formulas", test_llama_formulas);
  g_test_add_func ("/model/fp32", test_fp32);
  g_test_add_func ("/model/number-formats", test_number_formats);
  g_test_add_func ("/model/set-precision", test_set_precision);
  g_test_add_func ("/model/recomputation", test_recomputation);
  g_test_add_func ("/model/state", test_state);
  g_test_add_func ("/model/split-sums", test_split_sums);
  g_test_add_func ("/model/split", test_split);
  g_test_add_func ("/model/round-trip", test_round_trip);
  g_test_add_func ("/model/digest", test_digest);
  g_test_add_func ("/model/refused", test_refused);
  g_test_add_func ("/model/not-found", test_not_found);
  g_test_add_func ("/model/name", test_name);
  g_test_add_func ("/model-kinds/published-parameters", test_published_parameters);
  g_test_add_func ("/model-kinds/layer-kinds", test_units);
  g_test_add_func ("/model-kinds/head-size", test_head_size);
  g_test_add_func ("/model-kinds/mixture-bytes", test_mixture_bytes);
  g_test_add_func ("/model-kinds/latent-bytes", test_latent_bytes);
  g_test_add_func ("/layout-string/published", test_published);
  g_test_add_func ("/layout-string/folds", test_folds);
  g_test_add_func ("/layout-string/random", test_random);
  g_test_add_func ("/layout-string/losses", test_losses);
  g_test_add_func ("/layout-string/patterns", test_patterns);
  g_test_add_func ("/layout-string/unfold", test_unfold);
  g_test_add_func ("/layout-string/wrong", test_wrong);
  return run_in_folder ();
}

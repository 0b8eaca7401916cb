/* Tests of model.h: reading, refusing, cutting, and every formula against numbers worked by hand. */
#include "folder-rig.h"

#include <pipesim/work.h>

#include <string.h>

static PsModel *
shipped (const char *name)
{
  return fine (ps_model_load (name, &error));
}

static void
test_shipped (void)
{
  const char *const names[]
      = { "tiny-gpt", "gpt-1.5b", "gpt-6.2b", "gpt-14.6b", "gpt-28.3b", "llama-3-8b", "llama-3-70b" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
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

static void
test_defaults (void)
{
  g_autoptr (PsModel) model = shipped ("gpt-6.2b");

  g_assert_cmpuint (model->kv_heads, ==, 32);
  g_assert_cmpuint (model->feed_forward, ==, 4 * 4096);
  g_assert_cmpuint (model->microbatch_size, ==, 3);
}

/* The names of the paper's models, in 10^8 parameters. They count one vocabulary matrix, we count two (untied), so the
 * names lie between our total without any and our total. */
static void
test_names (void)
{
  const struct
  {
    const char *name;
    double billions;
  } rows[] = { { "gpt-1.5b", 1.5 }, { "gpt-6.2b", 6.2 }, { "gpt-14.6b", 14.6 }, { "gpt-28.3b", 28.3 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsModel) model = shipped (rows[i].name);
      double tied = (double)(ps_model_parameters (model) - (gint64)model->vocabulary * model->hidden);

      g_assert_cmpfloat_with_epsilon (tied / 1e9, rows[i].billions, 0.05);
    }
}

/* As published with the weights: 8,030,261,248 and 70,553,706,496 parameters. */
static void
test_llama_parameters (void)
{
  g_autoptr (PsModel) small = shipped ("llama-3-8b");
  g_autoptr (PsModel) large = shipped ("llama-3-70b");

  g_assert_cmpint (ps_model_parameters (small), ==, G_GINT64_CONSTANT (8030261248));
  g_assert_cmpint (ps_model_parameters (large), ==, G_GINT64_CONSTANT (70553706496));
  /* 2 * 4096^2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096 */
  g_assert_cmpint (ps_model_layer_parameters (small, 0), ==, 218112000);
}

/* gpt-6.2b: s = 1024, b = 3, h = 4096, a = 32, f = 4h, sbh = 12582912. */
static void
test_formulas (void)
{
  g_autoptr (PsModel) model = shipped ("gpt-6.2b");
  PsStageShape layer = { .n_layers = 1 };

  /* 12h^2 + 13h = 201326592 + 53248 */
  g_assert_cmpint (ps_model_layer_parameters (model, 0), ==, 201379840);
  /* F bsh(24h + 4s) = 12582912 * 102400 */
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_F), ==, G_GINT64_CONSTANT (1288490188800));
  /* B bsh(24h + 8s) = 12582912 * 106496 */
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_B), ==, G_GINT64_CONSTANT (1340029796352));
  /* W 24bsh^2 = 12582912 * 98304 */
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_W), ==, G_GINT64_CONSTANT (1236950581248));
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_BW), ==, G_GINT64_CONSTANT (2576980377600));
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_R), ==, G_GINT64_CONSTANT (1288490188800));
  /* 34sbh + 5as^2b = 427819008 + 503316480 */
  g_assert_cmpint (ps_model_layer_activation_bytes (model, 0), ==, 931135488);
  /* 32sbh */
  g_assert_cmpint (ps_model_stage_weight_activation_bytes (model, &layer), ==, 402653184);
  /* 2sbh */
  g_assert_cmpint (ps_model_boundary_bytes (model), ==, 25165824);
  model->flash_attention = TRUE;
  g_assert_cmpint (ps_model_layer_activation_bytes (model, 0), ==, 427819008);
}

static void
test_head_and_embedding (void)
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
  g_assert_cmpint (ps_model_stage_activation_bytes (model, &head), ==, 50331648 + 393216000);
  g_assert_cmpint (ps_model_stage_weight_activation_bytes (model, &head), ==, 25165824 + 393216000);
}

/* llama-3-8b: s = 8192, b = 1, h = 4096, c = hk/a = 1024, f = 14336, no dropout, flash attention. */
static void
test_llama_formulas (void)
{
  g_autoptr (PsModel) model = shipped ("llama-3-8b");
  PsStageShape layer = { .n_layers = 1 };

  /* weights N = 218112000 - 2 * 4096 = 218103808; F 2bsN + 4bs^2h = 3573412790272 + 1099511627776 */
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_F), ==, G_GINT64_CONSTANT (4672924418048));
  g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_W), ==, G_GINT64_CONSTANT (3573412790272));
  /* s (12h + 4c + 6f) = 8192 * 139264; W the same: nothing is freed by B */
  g_assert_cmpint (ps_model_layer_activation_bytes (model, 0), ==, G_GINT64_CONSTANT (1140850688));
  g_assert_cmpint (ps_model_stage_weight_activation_bytes (model, &layer), ==, G_GINT64_CONSTANT (1140850688));
}

/* tiny-gpt is fp32: everything is twice what 2-byte elements take. s = 128, b = 2, h = 192, a = 6: sbh = 49152. */
static void
test_fp32 (void)
{
  g_autoptr (PsModel) model = shipped ("tiny-gpt");

  g_assert_cmpint (ps_model_boundary_bytes (model), ==, 4 * 49152);
  g_assert_cmpint (ps_model_layer_activation_bytes (model, 0), ==, 2 * (34 * 49152 + 5 * 6 * 128 * 128 * 2));
  g_assert_cmpuint (ps_precision_bytes (PS_PRECISION_BF16), ==, 2);
  g_assert_cmpstr (ps_precision_name (PS_PRECISION_BF16), ==, "bf16");
}

/* A model in its own precision stays what it is, by name and by digest. */
static void
test_set_precision (void)
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
  g_assert_cmpstr (error->message, ==,
                   "spec.ini:3: 'fp12' is not one of fp32, fp16, bf16, fp8, fp4; did you mean fp32?");
}

static gint64
recompute_flops (const PsModel *model, const PsStageShape *shape, PsRecompute recompute)
{
  PsWork work;

  ps_work_recompute (model, shape, recompute, 1, &work);
  return ps_work_flops (&work);
}

/* gpt-6.2b: s = 1024, b = 3, h = 4096, a = 32: sbh = 12582912, 5as^2b = 503316480. Selective recomputation keeps 34sbh
 * of a layer, full 2sbh; a head's 4sbh + 4sbV stay either way. */
static void
test_recomputation (void)
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
  g_assert_cmpint (recompute_flops (model, &two, PS_RECOMPUTE_SELECTIVE), ==, 0);
  PsRecompute recompute;
  g_assert_true (ps_recompute_parse ("x", ps_recompute_name (PS_RECOMPUTE_FULL), &recompute, NULL)
                 && recompute == PS_RECOMPUTE_FULL);
  g_assert_false (ps_recompute_parse ("x", "all", &recompute, NULL));
}

/* Per parameter: fp32 4 + 4 + 8, mixed 2 + 2 + 12, with fp32 gradients 2 + 4 + 12. */
static void
test_state (void)
{
  g_autoptr (PsModel) model = shipped ("gpt-6.2b");
  PsStageShape layer = { .n_layers = 1 };
  const gint64 n = ps_model_layer_parameters (model, 0);
  PsStateBytes mixed = ps_model_stage_state (model, &layer);

  g_assert_cmpint (mixed.weight_bytes, ==, 2 * n);
  g_assert_cmpint (mixed.gradient_bytes, ==, 2 * n);
  g_assert_cmpint (mixed.optimizer_bytes, ==, 12 * n);
  g_autofree char *digest = ps_model_digest (model);
  model->fp32_gradients = TRUE;
  g_autofree char *other = ps_model_digest (model), *text = ps_model_to_text (model);
  g_assert_cmpstr (digest, !=, other);
  g_assert_cmpint (ps_model_stage_state (model, &layer).gradient_bytes, ==, 4 * n);
  g_assert_cmpint (ps_model_stage_state_bytes (model, &layer), ==, 18 * n);
  g_autoptr (PsModel) again = ps_model_parse ("text", text, strlen (text), NULL);
  g_assert_true (again->fp32_gradients);
  again->precision = PS_PRECISION_FP32;
  PsStateBytes full = ps_model_stage_state (again, &layer);
  g_assert_cmpint (full.weight_bytes, ==, 4 * n);
  g_assert_cmpint (full.gradient_bytes, ==, 4 * n);
  g_assert_cmpint (full.optimizer_bytes, ==, 8 * n);
}

/* Whatever the cut, stages sum up to the model; B gives back no less than nothing. */
static void
test_split_sums (void)
{
  const char *const names[] = { "tiny-gpt", "gpt-28.3b", "llama-3-70b" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (PsModel) model = shipped (names[i]);

      for (guint n = 1; n <= model->layers + 2; n++)
        {
          g_autofree PsStageShape *shapes = g_new (PsStageShape, n);
          gint64 parameters = 0;
          guint layers = 0;

          g_assert_true (ps_model_split (model, n, shapes, NULL));
          for (guint s = 0; s < n; s++)
            {
              g_assert_cmpuint (shapes[s].first_layer, ==, layers);
              g_assert_cmpint (shapes[s].embedding, ==, s == 0);
              g_assert_cmpint (shapes[s].head, ==, s == n - 1);
              g_assert_true (n > model->layers || shapes[s].n_layers <= shapes[0].n_layers);
              g_assert_cmpuint (shapes[s].n_layers + 1, >=, shapes[0].n_layers);
              g_assert_cmpint (ps_model_stage_weight_activation_bytes (model, &shapes[s]), <=,
                               ps_model_stage_activation_bytes (model, &shapes[s]));
              layers += shapes[s].n_layers;
              parameters += ps_model_stage_parameters (model, &shapes[s]);
            }
          g_assert_cmpuint (layers, ==, model->layers);
          g_assert_cmpint (parameters, ==, ps_model_parameters (model));
        }
    }
}

static void
test_split (void)
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

static void
test_round_trip (void)
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
static void
test_digest (void)
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
static void
assert_refused (const char *text, gsize length, const char *message)
{
  g_autofree char *path = path_of ("m.ini");
  g_autofree char *expected = g_strdup_printf ("%s:%s", path, message);

  g_assert_true (g_file_set_contents (path, text, (gssize)length, NULL));
  refused (ps_model_load (path, &error), PS_ERROR_INPUT, expected);
  g_unlink (path);
}

static void
test_refused (void)
{
  const struct
  {
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
      "11: unknown key 'colour'; known are: name layers hidden heads kv_heads sequence feed_forward vocabulary "
      "microbatch_size precision mlp flash_attention fp32_gradients head_size sequence_parallel tied qkv_bias "
      "other_biases "
      "qk_norm window "
      "full_every mtp kv_rank q_rank nope_size rope_size value_size experts active_experts shared_experts "
      "expert_feed_forward dense_layers context_gpus expert_gpus framework capacity imbalance" },
    { GOOD "kv_heads=3\n", " [model] kv_heads: 3 does not divide heads 4" },
    { GOOD "full_every=2\n", " [model] full_every: there is no window that some layers do without" },
    { GOOD "q_rank=8\n", " [model] kv_rank: missing; latent attention needs *" },
    { GOOD "nope_size=8\n", " [model] kv_rank: missing; latent attention needs *" },
    { GOOD "rope_size=8\n", " [model] kv_rank: missing; latent attention needs *" },
    { GOOD "value_size=8\n", " [model] kv_rank: missing; latent attention needs *" },
    { GOOD "kv_rank=8\nvalue_size=8\n", " [model] nope_size: missing; latent attention needs *" },
    { GOOD "kv_rank=8\nnope_size=8\n", " [model] value_size: missing; latent attention needs *" },
    { GOOD "active_experts=1\n", " [model] experts: missing; a mixture needs *" },
    { GOOD "shared_experts=1\n", " [model] experts: missing; a mixture needs *" },
    { GOOD "expert_feed_forward=8\n", " [model] experts: missing; a mixture needs *" },
    { GOOD "dense_layers=1\n", " [model] experts: missing; a mixture needs *" },
    { GOOD "capacity=1\n", " [model] experts: missing; a mixture needs *" },
    { GOOD "imbalance=1.5\n", " [model] experts: missing; a mixture needs *" },
    { GOOD "experts=4\nexpert_feed_forward=8\n", " [model] active_experts: missing; a mixture needs *" },
    { GOOD "experts=4\nactive_experts=2\n", " [model] expert_feed_forward: missing; a mixture needs *" },
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
      " [model] precision: 'fp12' is not one of fp32, fp16, bf16, fp8, fp4; did you mean fp32?" },
    { "[model]\nlayers=4\nhidden=64\nheads=4\nsequence=16\nvocabulary=100\nmicrobatch_size=1\nprecision=fp32\n"
      "mlp=gelu\nflash_attention=maybe\n",
      " [model] flash_attention: 'maybe' is not one of false, true" },
    { "[model]\nlayers=16384\nhidden=1048576\nheads=4\nsequence=16\nvocabulary=100\nmicrobatch_size=1\n"
      "precision=fp32\nmlp=gelu\nflash_attention=false\n",
      " [model] hidden: 1048576 makes about 2.88e+17 parameters with 16384 layers, more than pipesim can hold" },
    { "[model]\nlayers=96\nhidden=16384\nheads=4\nsequence=1048576\nvocabulary=100\nmicrobatch_size=65536\n"
      "precision=fp32\nmlp=gelu\nflash_attention=true\n",
      " [model] microbatch_size: 65536 makes about 4.83e+24 operations per microbatch, more than pipesim can hold" },
    { "[model]\nlayers=4\n\x80\xff=3\n", " is not UTF-8 text" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    assert_refused (rows[i].text, strlen (rows[i].text), rows[i].message);
  assert_refused ("[model]\0layers=4\n", 17, " is not a text file (it contains NUL bytes)");
  g_autofree char *long_text = g_strnfill (70000, '#');
  assert_refused (long_text, 70000, " is too long, more than 64 KiB");
}

static void
assert_not_loaded (const char *path, int code, const char *pattern)
{
  refused (ps_model_load (path, &error), code, pattern);
}

static void
test_not_found (void)
{
  g_autofree char *missing = path_of ("missing.ini");

  assert_not_loaded (
      "gpt-5", PS_ERROR_INPUT,
      "'gpt-5': neither a file nor one of the models shipped: bloom-176b deepseek-v2 deepseek-v3 gpt-1.5b gpt-14.6b "
      "gpt-28.3b gpt-3-175b gpt-6.2b gpt-oss-120b llama-3-405b llama-3-70b llama-3-8b mixtral-8x7b "
      "qwen3-235b-a22b tiny-gpt");
  assert_not_loaded ("", PS_ERROR_INPUT, "'': neither a file nor one of *");
  assert_not_loaded ("bad\nname", PS_ERROR_INPUT, "'bad\\nname': neither a file nor *");
  assert_not_loaded (missing, PS_ERROR_IO, "*missing.ini*");
  assert_not_loaded (folder, PS_ERROR_IO, "*irectory*");
}

/* A description that names itself keeps that name; otherwise the file does. */
static void
test_name (void)
{
  const char *named = GOOD "name = my model\n";
  g_autoptr (PsModel) by_key = fine (ps_model_parse ("x/file.ini", named, strlen (named), &error));
  g_autoptr (PsModel) by_file = fine (ps_model_parse ("x/file.ini", GOOD, strlen (GOOD), &error));

  g_assert_cmpstr (by_key->name, ==, "my model");
  g_assert_cmpstr (by_file->name, ==, "file");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/shipped", test_shipped);
  g_test_add_func ("/model/defaults", test_defaults);
  g_test_add_func ("/model/names", test_names);
  g_test_add_func ("/model/llama-parameters", test_llama_parameters);
  g_test_add_func ("/model/formulas", test_formulas);
  g_test_add_func ("/model/head-and-embedding", test_head_and_embedding);
  g_test_add_func ("/model/llama-formulas", test_llama_formulas);
  g_test_add_func ("/model/fp32", test_fp32);
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
  return run_in_folder ();
}

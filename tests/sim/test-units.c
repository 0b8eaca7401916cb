/* Tests of the kinds of units: what each is made of, counted here again from the public descriptions: tensors one by
 * one as checkpoints hold them, multiplications by loops as the algorithms run them. */
#include "error-rig.h"

#include <pipesim/work.h>
#include <string.h>

/* h = 32, s = 256, b = 2, 512 tokens. */
#define BASE                                                                                                           \
  "[model]\nhidden=32\nheads=4\nkv_heads=2\nsequence=256\nvocabulary=100\nmicrobatch_size=2\nprecision=bf16\n"         \
  "flash_attention=true\nfeed_forward=48\n"
#define LLAMA BASE "layers=1\nmlp=swiglu\n"
#define RELU2 BASE "layers=1\nmlp=relu2\n"
#define TOKENS ((gint64)512)

typedef struct {
  const char *text;
  PsUnitKind kind;
  const gint64 *tensors; /* parameters of each; ended by 0 */
  gint64 products;       /* multiplications of a token with weights */
  gint64 scores;         /* multiplications of a microbatch without weights */
  gint64 kept;           /* bytes of a token */
  gint64 weight;         /* bytes of a token that W needs */
} Row;

static PsModel *parse (const char *text)
{
  return fine (ps_model_parse ("m.ini", text, strlen (text), &error));
}

/* Multiplications that loops over a microbatch run. */

/* Mamba-2 in chunks of 128 (arXiv 2405.21060, section 6 and listing 1): 4 heads of 8, 2 groups, state 16. */
static gint64 count_mamba (void)
{
  gint64 n = 0;

  for (guint chunk = 0; chunk < 512 / 128; chunk++)
    for (guint i = 0; i < 128; i++) {
      for (guint j = 0; j < 128; j++) {
        n += 2 * 16; /* C times B, each group */
        n += 4 * 8;  /* scores times x, each head */
      }
      n += 4 * 8 * 16; /* adds x times B to the state of the chunk */
      n += 4 * 8 * 16; /* C times the state before the chunk */
    }
  return n;
}

/* Gated delta net in chunks of 64 (arXiv 2412.06464, equations 12 to 16): 4 heads of values of 8, keys of 16. */
static gint64 count_delta (void)
{
  gint64 n = 0;

  for (guint chunk = 0; chunk < 512 / 64; chunk++)
    for (guint head = 0; head < 4; head++)
      for (guint i = 0; i < 64; i++) {
        for (guint j = 0; j < 64; j++) {
          n += 16; /* keys times keys */
          n += 16; /* the inverse times keys */
          n += 8;  /* and values */
          n += 16; /* queries times keys */
          n += 8;  /* scores times new values */
        }
        n += 16 * 8; /* keys times the state, taken from the values */
        n += 16 * 8; /* queries times the state */
        n += 16 * 8; /* keys times new values, added to the state */
      }
  return n;
}

/* Lightning attention in chunks of 256 (arXiv 2401.04658, algorithm 1): 4 heads of 8. */
static gint64 count_linear (void)
{
  gint64 n = 0;

  for (guint chunk = 0; chunk < 512 / 256; chunk++)
    for (guint head = 0; head < 4; head++)
      for (guint i = 0; i < 256; i++) {
        for (guint j = 0; j < 256; j++)
          n += 8 + 8; /* queries times keys, scores times values */
        n += 8 * 8 + 8 * 8;
      }
  return n;
}

/* Queries of `query` and values of `value` of each head, over `seen` tokens. */
static gint64 count_heads (guint heads, guint query, guint value, guint seen)
{
  gint64 n = 0;

  for (guint token = 0; token < 512; token++)
    for (guint other = 0; other < seen; other++)
      n += heads * (query + value);
  return n;
}

#define SHARED "q_rank=16\nshared_kv=true\noutput_groups=2\noutput_rank=8\nsinks=true\n"
#define SHARED_TENSORS 16 * 32, 16, 32 * 16, 16 * 32, 8, 2 * 16 * 8, 16 * 32, 4
#define SHARED_PRODUCTS (16 * 32 + 32 * 16 + 16 * 32 + 2 * 16 * 8 + 16 * 32)
#define SHARED_KEPT (128 + 2 * (16 + 16 + 48 + 48 + 32 + 16))
#define SHARED_WEIGHT (64 + 2 * (16 + 32 + 16) + 2 * (16 + 32 + 16 + 16 + 32))

static void test_kinds (void)
{
  /* A norm is 32 and its input and result are kept, 64 + 64 bytes. */
  const Row rows[] = {
    /* 32 x 48, 48 x 32; kept: 48 before and after the activation */
    { RELU2 "pattern=-\n", PS_UNIT_MLP, (const gint64[]){ 32, 32 * 48, 48 * 32, 0 }, 2 * 32 * 48, 0,
      128 + 2 * 48 + 2 * 48, 64 + 96 + 96 + 64 },
    /* queries 32, keys and values 16 each, a gate of 32, the output; a sink for each of 4 heads. Kept: 64, the gate,
     * the result before and after it. */
    { LLAMA "pattern=*\nattention_gate=true\nsinks=true\n", PS_UNIT_ATTENTION,
      (const gint64[]){ 32, 32 * 32, 16 * 32, 16 * 32, 32 * 32, 32 * 32, 4, 0 }, 4 * 32 * 32,
      count_heads (4, 8, 8, 256), 128 + 2 * (64 + 3 * 32), 64 + 64 + 2 * (64 + 32 + 32) },
    { LLAMA "pattern=w\nwindow=64\n", PS_UNIT_WINDOW, (const gint64[]){ 32, 32 * 32, 16 * 32, 16 * 32, 32 * 32, 0 },
      3 * 32 * 32, count_heads (4, 8, 8, 64), 128 + 2 * (64 + 32), 64 + 64 + 2 * (64 + 32) },
    /* Latent attention of 4 heads, queries 8 + 4, values 8, ranks 8 and 16; an indexer of 2 heads of 6, 32 tokens at
     * most: queries 8 x 12, a key 32 x 6 and its norm of 12, weights 32 x 2. Kept of the indexer: 20 numbers and 32
     * indices. */
    { LLAMA "pattern=D\nkv_rank=16\nq_rank=8\nnope_size=8\nrope_size=4\nvalue_size=8\nindex_heads=2\nindex_size=6\n"
            "index_top=32\n",
      PS_UNIT_SPARSE,
      (const gint64[]){ 32, 32 * 8, 8, 8 * 48, 32 * 20, 16, 16 * 64, 32 * 32, 8 * 12, 32 * 6, 12, 32 * 2, 0 },
      32 * 8 + 8 * 48 + 32 * 20 + 16 * 64 + 32 * 32 + 8 * 12 + 32 * 6 + 32 * 2,
      count_heads (4, 12, 8, 32) + count_heads (2, 6, 0, 256), 128 + 2 * (8 + 16 + 28 + 96 + 32 + 32) + 2 * 20 + 4 * 32,
      64 + 2 * (8 + 16 + 32) + 2 * (8 + 48 + 20 + 64 + 32 + 12 + 6 + 2) },
    /* A window with 8 heads, 4 of keys and values, queries of 8 and values of 4, and sinks there alone. */
    { LLAMA "pattern=w\nwindow=64\nwindow_heads=8\nwindow_kv_heads=4\nvalue_head_size=4\nsinks=window\n",
      PS_UNIT_WINDOW, (const gint64[]){ 32, 64 * 32, 32 * 32, 16 * 32, 32 * 32, 8, 0 }, (64 + 32 + 16 + 32) * 32,
      count_heads (8, 8, 4, 64), 128 + 2 * (64 + 32 + 16 + 32), 64 + 64 + 2 * (112 + 32) },
    /* Keys that are values, queries of rank 16, an output in 2 groups of rank 8, all kept but the sum of the outputs.
     * Entries of 4 tokens: vectors and gates 2 x 16, places 4 x 16, a norm of 8; the indexer's 2 x 12, 4 x 12 and 6,
     * its queries 16 x 12 and weights 2. 16 of the 64 entries, and 32 tokens. */
    { LLAMA SHARED "pattern=C\nwindow=32\ncompressed_tokens=4\nindex_heads=2\nindex_size=6\nindex_top=16\n",
      PS_UNIT_COMPRESSED,
      (const gint64[]){ 32, SHARED_TENSORS, 2 * 16 * 32, 4 * 16, 8, 2 * 12 * 32, 4 * 12, 6, 16 * 12, 32 * 2, 0 },
      SHARED_PRODUCTS + 32 * 32 + 24 * 32 + 16 * 12 + 64, count_heads (4, 8, 8, 32 + 16) + count_heads (2, 6, 0, 64),
      SHARED_KEPT + 2 * 32 + 2 * (12 + 24 + 2) + 4 * 16, SHARED_WEIGHT + 2 * (32 + 24 + 12 + 2) },
    /* Entries of 16 tokens: 16 of them, all seen. */
    { LLAMA SHARED "pattern=H\nwindow=32\nheavily_compressed_tokens=16\n", PS_UNIT_HEAVY,
      (const gint64[]){ 32, SHARED_TENSORS, 2 * 8 * 32, 16 * 8, 8, 0 }, SHARED_PRODUCTS + 16 * 32,
      count_heads (4, 8, 8, 32 + 16), SHARED_KEPT + 2 * 16, SHARED_WEIGHT + 2 * 16 },
    /* Three streams: 15 weights from 96 numbers, as many of a constant, and 3 scales. Kept: streams, the result, and
     * the weights twice in fp32. */
    { LLAMA "pattern=-\nstreams=3\n", PS_UNIT_MLP, (const gint64[]){ 32, 3 * 32 * 48, 15 * 96, 15, 3, 0 },
      3 * 32 * 48 + 15 * 96, 0, 128 + 2 * (3 * 48) + 2 * (96 + 32) + 4 * 30,
      64 + 2 * 48 + 2 * 96 + 2 * (96 + 32 + 15) },
    /* D = 32, GN = 32: projection 32 x (64 + 64 + 4), convolution 96 x 4 and its bias, A, D and bias of 4 heads, norm.
     */
    { LLAMA "pattern=M\nmamba_heads=4\nmamba_head_size=8\nmamba_state=16\nmamba_groups=2\n", PS_UNIT_MAMBA,
      (const gint64[]){ 32, 132 * 32, 96 * 4, 96, 4, 4, 4, 32, 32 * 32, 0 }, 132 * 32 + 32 * 32, count_mamba (),
      128 + 2 * (132 + 32 + 32), 64 + 64 + 2 * (132 + 32) },
    /* 2 heads of keys of 16, 4 of values of 8: queries, keys, values, gates 128, 8 more; convolution 96 x 4; A and bias
     * of 4 heads, norm of 8. Kept: 136 projected, queries and keys of 64 and values of 32, the inverse of 4 x 64. */
    { LLAMA "pattern=G\ndelta_key_heads=2\ndelta_key_size=16\ndelta_value_heads=4\ndelta_value_size=8\n", PS_UNIT_DELTA,
      (const gint64[]){ 32, 128 * 32, 8 * 32, 96 * 4, 4, 4, 8, 32 * 32, 0 }, 136 * 32 + 32 * 32, count_delta (),
      128 + 2 * (136 + 160 + 256 + 32 + 32), 64 + 64 + 2 * (136 + 32) },
    /* queries, keys and values 96, gate 32, norm 32 */
    { LLAMA "pattern=l\n", PS_UNIT_LINEAR, (const gint64[]){ 32, 96 * 32, 32 * 32, 32, 32 * 32, 0 }, 5 * 32 * 32,
      count_linear (), 128 + 2 * (128 + 96 + 32 + 32), 64 + 64 + 2 * (128 + 32) },
    /* 2 of 8 experts of 24 at a width of 16, a shared one of 40 with a gate. Kept: 8 scores of 4 bytes twice, 16 that
     * comes back, 2 x 16 that experts get and give back, 48 and 40 that are activated. */
    { RELU2 "pattern=E\nexperts=8\nactive_experts=2\nexpert_feed_forward=24\nshared_feed_forward=40\n"
            "shared_gate=true\nexpert_latent=16\n",
      PS_UNIT_EXPERTS,
      (const gint64[]){ 32, 8 * 32, 16 * 32, 32 * 16, 8 * 24 * 16, 8 * 16 * 24, 32, 40 * 32, 32 * 40, 0 },
      8 * 32 + 2 * 16 * 32 + 2 * 2 * 24 * 16 + 32 + 2 * 40 * 32, 0, 128 + 64 + 2 * (16 + 32 + 32 + 2 * 88),
      64 + 2 * (16 + 32 + 88) + 2 * (8 + 16 + 32 + 48 + 32 + 1 + 40 + 32) },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const Row *row = &rows[i];
    g_autoptr (PsModel) model = parse (row->text);
    const PsStageShape layer = { .n_layers = 1 };
    PsUnitKind kinds[2];
    gint64 parameters = 0;

    g_test_message ("%s", ps_unit_row (row->kind)->name);
    g_assert_cmpuint (ps_model_layer_units (model, 0, kinds), ==, 1);
    g_assert_cmpint (kinds[0], ==, row->kind);
    for (guint k = 0; row->tensors[k] > 0; k++)
      parameters += row->tensors[k];
    g_assert_cmpint (ps_model_stage_parameters (model, &layer), ==, parameters);
    g_assert_cmpint (ps_tensor_parameters (model, &layer, 1), ==, parameters);
    g_assert_cmpint (ps_model_stage_kept_bytes (model, &layer, PS_RECOMPUTE_NONE), ==, TOKENS * row->kept);
    g_assert_cmpint (ps_model_stage_weight_activation_bytes (model, &layer), ==, TOKENS * MIN (row->kept, row->weight));
    g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_F), ==, 2 * (TOKENS * row->products + row->scores));
    g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_B), ==, 2 * (TOKENS * row->products + 2 * row->scores));
    g_assert_cmpint (ps_model_stage_flops (model, &layer, PS_OP_W), ==, 2 * TOKENS * row->products);

    /* Kernels multiply as much. */
    PsWork work;
    ps_work_stage (model, &layer, PS_OP_F, 1, &work);
    g_assert_cmpint (ps_work_flops (&work), ==, ps_model_stage_flops (model, &layer, PS_OP_F));
    ps_work_stage (model, &layer, PS_OP_W, 1, &work);
    g_assert_cmpint (ps_work_flops (&work), ==, ps_model_stage_flops (model, &layer, PS_OP_W));
  }
}

/* A stage of every kind of unit at once: its kernels have room, and its figures are the sums of stages of one unit. */
static void test_all (void)
{
  g_autoptr (PsModel) model
      = parse (BASE "layers=8\nmtp=1\nmlp=swiglu\npattern=*wDMGl-E/*E\nwindow=64\nindex_heads=2\nindex_size=6\n"
                    "index_top=32\nmamba_heads=4\nmamba_head_size=8\nmamba_state=16\nmamba_groups=2\n"
                    "delta_key_heads=2\ndelta_key_size=16\ndelta_value_heads=4\ndelta_value_size=8\nexperts=8\n"
                    "active_experts=2\nexpert_feed_forward=24\nshared_feed_forward=40\nshared_gate=true\n"
                    "expert_latent=16\nattention_gate=true\n");
  const PsStageShape whole = ps_model_whole (model);
  gint64 flops = 0, kept = 0, multiplied = 0;
  PsWork work;
  guint n;
  g_autofree PsStageShape *units = ps_model_units (model, &n);

  ps_work_stage (model, &whole, PS_OP_BW, 1, &work);
  for (guint i = 0; i < n; i++) {
    PsWork part;

    flops += ps_model_stage_flops (model, &units[i], PS_OP_BW);
    kept += ps_model_stage_kept_bytes (model, &units[i], PS_RECOMPUTE_NONE);
    ps_work_stage (model, &units[i], PS_OP_BW, 1, &part);
    multiplied += ps_work_flops (&part);
  }
  g_assert_cmpint (ps_model_stage_flops (model, &whole, PS_OP_BW), ==, flops);
  g_assert_cmpint (ps_model_stage_kept_bytes (model, &whole, PS_RECOMPUTE_NONE), ==, kept);
  g_assert_cmpint (ps_work_flops (&work), ==, multiplied);
}

/* The head, h = 32, V = 100: products of F, B and W, bytes that F keeps and W needs for a token. */
static void test_loss (void)
{
  static const struct {
    const char *key;
    guint products[3];
    gint64 kept, weight;
  } rows[] = { { "", { 1, 1, 1 }, 2 * 64 + 400, 64 + 400 },
               { "loss=fused\n", { 1, 3, 0 }, 2 * 64 + 8, 0 },
               { "loss=chunked\n", { 3, 0, 0 }, 2 * 64, 0 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *text = g_strconcat (LLAMA, rows[i].key, NULL);
    g_autoptr (PsModel) model = parse (text);
    const PsStageShape head = { .head = TRUE };

    for (PsOpKind kind = PS_OP_F; kind <= PS_OP_W; kind++) {
      PsWork work;

      ps_work_stage (model, &head, kind, 1, &work);
      g_assert_cmpint (ps_model_stage_flops (model, &head, kind), ==, rows[i].products[kind] * 2 * TOKENS * 32 * 100);
      g_assert_cmpint (ps_work_flops (&work), ==, ps_model_stage_flops (model, &head, kind));
    }
    g_assert_cmpint (ps_model_stage_kept_bytes (model, &head, PS_RECOMPUTE_NONE), ==, TOKENS * rows[i].kept);
    g_assert_cmpint (ps_model_stage_weight_activation_bytes (model, &head), ==, TOKENS * rows[i].weight);
    g_assert_cmpint (ps_model_stage_parameters (model, &head), ==, 32 + 100 * 32);
    /* A chunk of the logits and its gradient are there while F runs. */
    g_assert_cmpint (ps_framework_habits (model, &head, 1).forward_bytes, ==, i == 2 ? TOKENS / 8 * 100 * 6 : 0);
    model->framework = PS_FRAMEWORK_MEGATRON;
    g_assert_cmpint (ps_framework_habits (model, &head, 1).kept_bytes, ==, i == 0 ? -2 * TOKENS * 100 : 0);
  }
}

/* An encoder of 3 layers, h = 16, f = 40, 4 heads of 4, two images of 20 tokens in each of 2 sequences, of 5 results.
 */
#define ENCODER                                                                                                        \
  "images=2\nencoder_layers=3\nencoder_hidden=16\nencoder_heads=4\nencoder_feed_forward=40\nencoder_sequence=20\n"     \
  "encoder_results=5\nencoder_patch=12\nencoder_vectors=100\nprojector_layers=2\nprojector_width=64\n"                 \
  "projector_hidden=24\nprojector_bias=true\n"

static void test_encoder (void)
{
  g_autoptr (PsModel) model = parse (LLAMA ENCODER), text = parse (LLAMA);
  const PsStageShape first = { .n_encoder = 1 }, middle = { .first_encoder = 1, .n_encoder = 1 };
  const PsStageShape last = { .first_encoder = 2, .n_encoder = 1 }, whole = ps_model_whole (model);
  const gint64 tokens = 2 * 2 * 20, results = 2 * 2 * 5;
  /* As checkpoints hold it: queries, keys, values, output, the MLP, with biases; two norms with biases. */
  const gint64 layer = 4 * (16 * 16 + 16) + 16 * 40 + 40 + 40 * 16 + 16 + 4 * 16;
  const gint64 projector = 64 * 24 + 24 + 24 * 32 + 32;
  gint64 scores = 0;
  guint n;
  g_autofree PsStageShape *units = ps_model_units (model, &n);

  for (guint image = 0; image < 4; image++)
    for (guint token = 0; token < 20; token++)
      for (guint other = 0; other < 20; other++)
        scores += 4 * (4 + 4);
  g_assert_cmpint (ps_model_stage_parameters (model, &middle), ==, layer);
  g_assert_cmpint (ps_model_stage_parameters (model, &first), ==, layer + 12 * 16 + 100);
  g_assert_cmpint (ps_model_stage_parameters (model, &last), ==, layer + projector);
  g_assert_cmpint (ps_model_parameters (model), ==, ps_model_parameters (text) + 3 * layer + 12 * 16 + 100 + projector);
  gint64 products = tokens * (4 * 16 * 16 + 2 * 16 * 40), last_products = products + results * (64 * 24 + 24 * 32);
  g_assert_cmpint (ps_model_stage_flops (model, &middle, PS_OP_F), ==, 2 * (products + scores));
  g_assert_cmpint (ps_model_stage_flops (model, &middle, PS_OP_B), ==, 2 * (products + 2 * scores));
  g_assert_cmpint (ps_model_stage_flops (model, &first, PS_OP_W), ==, 2 * (products + tokens * 12 * 16));
  g_assert_cmpint (ps_model_stage_flops (model, &last, PS_OP_F), ==, 2 * (last_products + scores));
  for (PsOpKind kind = PS_OP_F; kind <= PS_OP_W; kind++) {
    PsWork work;

    ps_work_stage (model, &whole, kind, 1, &work);
    if (kind != PS_OP_B) /* flash attention computes scores again in B */
      g_assert_cmpint (ps_work_flops (&work), ==, ps_model_stage_flops (model, &whole, kind));
  }
  /* Two norms, their results, queries, keys, values, the result, the activation before and after. */
  g_assert_cmpint (ps_model_stage_kept_bytes (model, &middle, PS_RECOMPUTE_NONE), ==,
                   tokens * 2 * (4 * 16 + 3 * 16 + 16 + 80));
  /* Messages: within the encoder, after it, after the embedding. */
  g_assert_cmpuint (n, ==, 3 + 3);
  g_assert_cmpint (ps_model_stage_output_bytes (model, &units[0]), ==, 2 * tokens * 16);
  g_assert_cmpint (ps_model_stage_output_bytes (model, &units[2]), ==, 2 * results * 32);
  g_assert_cmpint (ps_model_stage_output_bytes (model, &units[3]), ==, 2 * TOKENS * 32);
  /* A microbatch without images has nothing to do there. */
  model->encoder.images = 0;
  g_assert_cmpint (ps_model_stage_flops (model, &last, PS_OP_F), ==, 0);
  g_assert_cmpint (ps_model_stage_parameters (model, &last), ==, layer + projector);
}

/* Images need an encoder and room in the sequence. */
static void test_images (void)
{
  static const char *const wrong[][2] = {
    { LLAMA "images=2\n", "encoder_layers" },
    { LLAMA ENCODER "encoder_mlp=none\n", "encoder_mlp" },
    { BASE "layers=1\nmlp=swiglu\nencoder_layers=3\n", "encoder_hidden" },
  };
  g_autoptr (PsModel) model = parse (LLAMA ENCODER), text = parse (LLAMA);

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_null (ps_model_parse ("m.ini", wrong[i][0], strlen (wrong[i][0]), &error));
    g_assert_nonnull (strstr (error->message, wrong[i][1]));
  }
  g_assert_true (ps_model_resize (model, 0, 0, 51, NULL));
  g_assert_false (ps_model_resize (model, 0, 0, 52, NULL)); /* 260 tokens of 256 */
  g_assert_false (ps_model_resize (text, 0, 0, 1, NULL));
  g_assert_cmpstr (ps_model_special_key (model), ==, "images");
}

/* exec knows neither the square of ReLU nor patterns. */
static void test_refused (void)
{
  g_autoptr (PsModel) relu2 = parse (RELU2), pattern = parse (LLAMA "pattern=*-\n"), plain = parse (LLAMA);

  g_assert_cmpstr (ps_model_special_key (relu2), ==, "mlp = relu2");
  g_assert_cmpstr (ps_model_special_key (pattern), ==, "pattern");
  g_assert_null (ps_model_special_key (plain));
}

/* The letters are all different, and each kind says its source. */
static void test_table (void)
{
  for (PsUnitKind kind = 0; kind < PS_N_UNIT_KINDS; kind++) {
    const PsUnitRow *row = ps_unit_row (kind);

    g_assert_nonnull (row->name);
    g_assert_nonnull (row->keys);
    g_assert_nonnull (strstr (row->source, "arXiv"));
    for (PsUnitKind other = 0; other < kind && row->letter != '\0'; other++)
      g_assert_cmpint (ps_unit_row (other)->letter, !=, row->letter);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/units/table", test_table);
  g_test_add_func ("/units/kinds", test_kinds);
  g_test_add_func ("/units/all", test_all);
  g_test_add_func ("/units/loss", test_loss);
  g_test_add_func ("/units/encoder", test_encoder);
  g_test_add_func ("/units/images", test_images);
  g_test_add_func ("/units/refused", test_refused);
  return g_test_run ();
}

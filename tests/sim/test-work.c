/* Tests of the kernels of a stage, their time, and the time of an overlapped pair. */
#include <pipesim/work.h>
#include <math.h>
#include <string.h>
#include <pipesim/costs.h>

/* s = 64, b = 2, h = 32, a = 4, k = 2, f = 128, V = 100. */
static PsModel small (PsMlp mlp, PsPrecision precision)
{
  return (PsModel){ .name = (char *)"small",
                    .layers = 3,
                    .hidden = 32,
                    .heads = 4,
                    .kv_heads = 2,
                    .sequence = 64,
                    .feed_forward = 128,
                    .vocabulary = 100,
                    .microbatch_size = 2,
                    .precision = precision,
                    .mlp = mlp };
}

/* Kernels one by one */

/* What one kernel reads and writes for a token, in elements of `of`; masks are bytes. */
typedef struct {
  enum {
    HIDDEN,
    KEYS, /* one of keys and values */
    INNER,
    SCORES,
    LOGITS,
    N_TENSORS
  } of;
  guint elements; /* of the model's precision */
  guint masks;
  guint floats;     /* fp32 whatever the precision */
  guint conversion; /* from or to fp32, where the precision is another: elements read or written, and as many floats */
} Kernel;

static gint64 sum_kernels (const PsModel *model, const Kernel *kernels, guint n)
{
  const guint size = ps_precision_bytes (model->precision);
  const gint64 width[N_TENSORS] = { [HIDDEN] = model->hidden,
                                    [KEYS] = (gint64)model->hidden / model->heads * model->kv_heads,
                                    [INNER] = model->feed_forward,
                                    [SCORES] = model->flash_attention ? 0 : (gint64)model->heads * model->sequence,
                                    [LOGITS] = model->vocabulary };
  gint64 sum = 0;

  for (guint i = 0; i < n; i++)
    sum += width[kernels[i].of]
           * (kernels[i].elements * size + kernels[i].masks + kernels[i].floats * 4
              + (size == 4 ? 0 : kernels[i].conversion * (size + 4)));
  return sum * model->sequence * model->microbatch_size;
}

static const Kernel gpt_forward[] = {
  { HIDDEN, 2, 0, 0, 0 }, /* norm */
  { HIDDEN, 4, 0, 0, 0 }, /* queries, keys, values and their sum, of all heads */
  { SCORES, 1, 0, 0, 0 }, /* query times key */
  { SCORES, 2, 0, 0, 0 }, /* scale, mask, softmax */
  { SCORES, 2, 1, 0, 0 }, /* dropout */
  { SCORES, 1, 0, 0, 0 }, /* times value */
  { HIDDEN, 3, 1, 0, 0 }, /* bias, dropout, add */
  { HIDDEN, 2, 0, 0, 0 }, /* norm */
  { INNER, 2, 0, 0, 0 },  /* bias, GELU */
  { HIDDEN, 3, 1, 0, 0 }, /* bias, dropout, add */
};

static const Kernel gpt_backward[] = {
  { HIDDEN, 2, 1, 0, 0 }, /* dropout */
  { HIDDEN, 1, 0, 0, 0 }, /* its bias */
  { INNER, 3, 0, 0, 0 },  /* GELU */
  { INNER, 1, 0, 0, 0 },  /* its bias */
  { HIDDEN, 3, 0, 0, 0 }, /* norm, its input */
  { HIDDEN, 2, 0, 0, 0 }, /* and its parameters */
  { HIDDEN, 3, 0, 0, 0 }, /* gradients meet */
  { HIDDEN, 2, 1, 0, 0 }, /* dropout */
  { HIDDEN, 1, 0, 0, 0 }, /* its bias */
  { HIDDEN, 8, 0, 0, 0 }, /* queries, keys, values, their sum, and the gradients of all */
  { SCORES, 1, 0, 0, 0 }, /* gradient of the values */
  { SCORES, 1, 0, 0, 0 }, /* gradient of the weights of the values */
  { SCORES, 2, 1, 0, 0 }, /* dropout */
  { SCORES, 3, 0, 0, 0 }, /* softmax */
  { SCORES, 2, 0, 0, 0 }, /* gradients of queries and keys */
  { HIDDEN, 1, 0, 0, 0 }, /* bias of queries */
  { KEYS, 2, 0, 0, 0 },   /* of keys and values */
  { HIDDEN, 5, 0, 0, 0 }, /* norm */
  { HIDDEN, 3, 0, 0, 0 }, /* gradients meet */
};

static const Kernel llama_forward[] = {
  { HIDDEN, 2, 0, 0, 0 },                                                 /* norm */
  { HIDDEN, 2, 0, 0, 0 },                                                 /* rotation of queries */
  { KEYS, 2, 0, 0, 0 },                                                   /* and keys */
  { HIDDEN, 4, 0, 0, 0 },                                                 /* queries, keys, values, their sum */
  { SCORES, 1, 0, 0, 0 }, { SCORES, 2, 0, 0, 0 }, { SCORES, 1, 0, 0, 0 }, /* product, softmax, product */
  { HIDDEN, 3, 0, 0, 0 },                                                 /* add */
  { HIDDEN, 2, 0, 0, 0 },                                                 /* norm */
  { INNER, 3, 0, 0, 0 },                                                  /* SwiGLU */
  { HIDDEN, 3, 0, 0, 0 },                                                 /* add */
};

static const Kernel llama_backward[] = {
  { INNER, 5, 0, 0, 0 },                                                                          /* SwiGLU */
  { HIDDEN, 5, 0, 0, 0 },                                                                         /* norm */
  { HIDDEN, 3, 0, 0, 0 },                                                                         /* gradients meet */
  { HIDDEN, 8, 0, 0, 0 },                                                                         /* as GPT */
  { SCORES, 1, 0, 0, 0 }, { SCORES, 1, 0, 0, 0 }, { SCORES, 3, 0, 0, 0 }, { SCORES, 2, 0, 0, 0 }, /* as GPT */
  { HIDDEN, 2, 0, 0, 0 },                                                                         /* rotation */
  { KEYS, 2, 0, 0, 0 },   { HIDDEN, 5, 0, 0, 0 },                                                 /* norm */
  { HIDDEN, 3, 0, 0, 0 },                                                                         /* gradients meet */
};

static const Kernel head_forward[] = {
  { HIDDEN, 2, 0, 0, 0 }, /* norm */
  { LOGITS, 0, 0, 0, 1 }, /* to fp32 */
  { LOGITS, 0, 0, 1, 0 }, /* maximum */
  { LOGITS, 0, 0, 2, 0 }, /* less the maximum */
  { LOGITS, 0, 0, 2, 0 }, /* exponential */
  { LOGITS, 0, 0, 1, 0 }, /* sum */
  { LOGITS, 0, 0, 2, 0 }, /* over the sum */
};

static const Kernel head_backward[] = {
  { LOGITS, 0, 0, 2, 0 }, /* times the gradient of the loss */
  { LOGITS, 0, 0, 0, 1 }, /* from fp32 */
  { HIDDEN, 5, 0, 0, 0 }, /* norm */
};

static const Kernel gpt_embedding_forward[]
    = { { HIDDEN, 2, 0, 0, 0 }, { HIDDEN, 3, 0, 0, 0 }, { HIDDEN, 2, 1, 0, 0 } };
static const Kernel gpt_embedding_backward[] = { { HIDDEN, 2, 1, 0, 0 }, { HIDDEN, 3, 0, 0, 0 } };
static const Kernel llama_embedding_forward[] = { { HIDDEN, 2, 0, 0, 0 } };
static const Kernel llama_embedding_backward[] = { { HIDDEN, 3, 0, 0, 0 } };

#define SUM(kernels) sum_kernels (model, kernels, G_N_ELEMENTS (kernels))

/* The bytes of all kernels but the products with weights. */
static gint64 sum_bytes (const PsWork *work)
{
  gint64 sum = 0;

  for (guint i = 0; i < work->n_kernels; i++)
    if (work->kernel[i].type != PS_WORK_PRODUCT)
      sum += work->kernel[i].repeats * work->kernel[i].bytes;
  return sum;
}

static gint64 staged_bytes (const PsModel *model, const PsStageShape *shape, PsOpKind kind)
{
  PsWork work;

  ps_work_stage (model, shape, kind, 1, &work);
  return sum_bytes (&work);
}

static gint64 staged_flops (const PsModel *model, const PsStageShape *shape, PsOpKind kind, guint n_tensor)
{
  PsWork work;

  ps_work_stage (model, shape, kind, n_tensor, &work);
  return ps_work_flops (&work);
}

static void assert_bytes (const PsModel *model, const PsStageShape *shape, gint64 forward, gint64 backward)
{
  g_assert_cmpint (staged_bytes (model, shape, PS_OP_F), ==, forward);
  g_assert_cmpint (staged_bytes (model, shape, PS_OP_R), ==, forward);
  g_assert_cmpint (staged_bytes (model, shape, PS_OP_B), ==, backward);
  g_assert_cmpint (staged_bytes (model, shape, PS_OP_BW), ==, backward);
  g_assert_cmpint (staged_bytes (model, shape, PS_OP_W), ==, 0);
}

static void check_kernels (const PsModel *model)
{
  gboolean gpt = model->mlp == PS_MLP_GELU;
  gint64 layer_f = gpt ? SUM (gpt_forward) : SUM (llama_forward);
  gint64 layer_b = gpt ? SUM (gpt_backward) : SUM (llama_backward);
  gint64 embedding_f = gpt ? SUM (gpt_embedding_forward) : SUM (llama_embedding_forward);
  gint64 embedding_b = gpt ? SUM (gpt_embedding_backward) : SUM (llama_embedding_backward);
  const PsStageShape two = { .n_layers = 2 }, first = { .n_layers = 1, .embedding = TRUE },
                     last = { .n_layers = 1, .head = TRUE };

  assert_bytes (model, &two, 2 * layer_f, 2 * layer_b);
  assert_bytes (model, &first, layer_f + embedding_f, layer_b + embedding_b);
  assert_bytes (model, &last, layer_f + SUM (head_forward), layer_b + SUM (head_backward));
}

static void test_kernels (void)
{
  for (PsMlp mlp = PS_MLP_GELU; mlp <= PS_MLP_SWIGLU; mlp++)
    for (PsPrecision precision = PS_PRECISION_FP32; precision <= PS_PRECISION_BF16; precision++)
      for (guint flash = 0; flash < 2; flash++) {
        PsModel model = small (mlp, precision);

        model.flash_attention = flash == 1;
        check_kernels (&model);
      }
}

/* k = a, 2 bytes: a layer moves sbh (46 + 13 as/h) = 128 * (46 * 32 + 13 * 256) = 614400 bytes in F and
 * sbh (100 + 19 as/h) = 128 * (100 * 32 + 19 * 256) = 1032192 in B. Flash attention leaves 128 * 46 * 32 = 188416 and
 * 128 * 100 * 32 = 409600, and computes 2 b s^2 h = 2 * 2 * 64 * 64 * 32 = 524288 more in B. */
static void test_layer (void)
{
  PsModel model = small (PS_MLP_GELU, PS_PRECISION_FP16);
  const PsStageShape layer = { .n_layers = 1 };

  model.kv_heads = 4;
  assert_bytes (&model, &layer, 614400, 1032192);
  for (PsOpKind kind = PS_OP_F; kind <= PS_OP_R; kind++)
    g_assert_cmpint (staged_flops (&model, &layer, kind, 1), ==, ps_model_stage_flops (&model, &layer, kind));
  model.flash_attention = TRUE;
  assert_bytes (&model, &layer, 188416, 409600);
  for (PsOpKind kind = PS_OP_F; kind <= PS_OP_R; kind++)
    g_assert_cmpint (staged_flops (&model, &layer, kind, 1), ==,
                     ps_model_stage_flops (&model, &layer, kind) + (kind == PS_OP_B || kind == PS_OP_BW ? 524288 : 0));
}

/* Of a last stage of two layers: selective repeats 2 * 13 bytes of 128 * 256 scores, 2 * 4 elements of 128 * 32
 * queries, keys and values, and 4 b s^2 h operations each, full what two layers do without the head. */
static void test_recompute (void)
{
  PsModel model = small (PS_MLP_GELU, PS_PRECISION_FP16);
  const PsStageShape last = { .n_layers = 2, .head = TRUE }, layers = { .n_layers = 2 };
  PsWork again;

  ps_work_recompute (&model, &last, PS_RECOMPUTE_SELECTIVE, 1, &again);
  g_assert_cmpint (sum_bytes (&again), ==, 2 * 128 * (13 * 256 + 4 * 2 * 32));
  g_assert_cmpint (ps_work_flops (&again), ==, 2 * 4 * 2 * 64 * 64 * 32);
  ps_work_recompute (&model, &last, PS_RECOMPUTE_FULL, 1, &again);
  g_assert_cmpint (sum_bytes (&again), ==, staged_bytes (&model, &layers, PS_OP_F));
  g_assert_cmpint (ps_work_flops (&again), ==, staged_flops (&model, &layers, PS_OP_F, 1));
  ps_work_recompute (&model, &last, PS_RECOMPUTE_NONE, 1, &again);
  g_assert_cmpint (again.n_kernels, ==, 0);
  model.flash_attention = TRUE;
  ps_work_recompute (&model, &last, PS_RECOMPUTE_SELECTIVE, 1, &again);
  g_assert_cmpint (again.n_kernels, ==, 1);
  g_assert_cmpint (ps_work_flops (&again), ==, 2 * 4 * 2 * 64 * 64 * 32);
}

/* Stages of every kind of op compute as many operations as model.h says, and each of two GPUs half of them. */
static void test_flops (void)
{
  const PsStageShape stage = { .n_layers = 2, .head = TRUE };

  for (PsMlp mlp = PS_MLP_GELU; mlp <= PS_MLP_SWIGLU; mlp++)
    for (PsOpKind kind = PS_OP_F; kind <= PS_OP_R; kind++) {
      PsModel model = small (mlp, PS_PRECISION_BF16);
      gint64 all = ps_model_stage_flops (&model, &stage, kind);

      g_assert_cmpint (staged_flops (&model, &stage, kind, 1), ==, all);
      g_assert_cmpint (staged_flops (&model, &stage, kind, 2), ==, all / 2);
    }
}

/* A layer's matrices: query, key and value 32 by 64, the feed-forward 32 by 128 and 128 by 32, on two GPUs half of
 * them. A microbatch has 128 tokens. */
static void test_shapes (void)
{
  const PsModel model = small (PS_MLP_GELU, PS_PRECISION_BF16);
  const PsStageShape layer = { .n_layers = 3 };
  PsWork work;

  ps_work_stage (&model, &layer, PS_OP_F, 2, &work);
  g_assert_cmpstr (work.kernel[0].name, ==, "query, key, value");
  g_assert_cmpint (work.kernel[0].repeats, ==, 3);
  g_assert_cmpint (work.kernel[0].m, ==, 128);
  g_assert_cmpint (work.kernel[0].n, ==, 32);
  g_assert_cmpint (work.kernel[0].k, ==, 32);
  ps_work_stage (&model, &layer, PS_OP_B, 2, &work);
  guint down = 0;
  while (strcmp (work.kernel[down].name, "feed-forward down") != 0)
    g_assert_cmpuint (++down, <, work.n_kernels);
  g_assert_cmpint (work.kernel[down].n, ==, 64);
  g_assert_cmpint (work.kernel[down].k, ==, 32);
  ps_work_stage (&model, &layer, PS_OP_W, 2, &work);
  g_assert_cmpint (work.kernel[3].m, ==, 64);
  g_assert_cmpint (work.kernel[3].n, ==, 32);
  g_assert_cmpint (work.kernel[3].k, ==, 128);
}

/* 10^12 operations / s at a half: 500 per ns; 4 bytes per ns. 7000 operations and 80 bytes: 14 or 20 ns, the larger;
 * without a bandwidth 14. A kernel takes 3 ns more to start. The host needs 30 ns to launch one, and is as long with
 * four as the GPU with their 80 and 40 of talk; with 41 the GPU is later. */
static void test_time (void)
{
  PsCluster cluster = { .peak_flops = 1e12, .efficiency = 0.5, .memory_bandwidth = 4e9, .tensor = 1 };
  const PsWork work = { 1, { { .repeats = 1, .products = 1, .m = 35, .n = 10, .k = 10, .bytes = 80, .bits = 16 } } };
  PsWork four = work;
  const PsWork endless = { 1, { { .repeats = 1, .bytes = G_MAXINT64 } } };

  g_assert_cmpint (ps_work_ns (&work, &cluster, 0), ==, 20);
  cluster.kernel_ns = 3;
  g_assert_cmpint (ps_work_ns (&work, &cluster, 0), ==, 23);
  cluster.launch_ns = 30;
  g_assert_cmpint (ps_work_ns (&work, &cluster, 0), ==, 30);
  cluster.kernel_ns = 0;
  four.kernel[0].repeats = 4;
  g_assert_cmpint (ps_work_ns (&four, &cluster, 0), ==, 120);
  g_assert_cmpint (ps_work_ns (&four, &cluster, 40), ==, 120);
  g_assert_cmpint (ps_work_ns (&four, &cluster, 41), ==, 121);
  cluster.launch_ns = 0;
  cluster.memory_bandwidth = 1;
  g_assert_cmpint (ps_work_ns (&endless, &cluster, 0), ==, PS_MAX_TIME_NS);
  cluster.memory_bandwidth = 0;
  g_assert_cmpint (ps_work_ns (&work, &cluster, 0), ==, 14);
}

static gint64 optimizer_ns (const PsModel *model, const PsCluster *cluster)
{
  const PsStateBytes state = ps_model_state (model, 1000);

  return ps_work_optimizer_ns (model, cluster, &state);
}

/* 1000 parameters at 4 bytes per ns. Mixed precision: gradient 2, state 2 * 12, weight 2: 28; fp32 gradients 4: 30.
 * fp32: gradient 4, state 2 * 8, weight 2 * 4: 28. */
static void test_optimizer (void)
{
  PsCluster cluster = { .peak_flops = 1e12, .efficiency = 0.5, .memory_bandwidth = 4e9, .tensor = 4 };
  PsModel mixed = small (PS_MLP_GELU, PS_PRECISION_BF16);
  const PsModel single = small (PS_MLP_GELU, PS_PRECISION_FP32);

  g_assert_cmpint (optimizer_ns (&mixed, &cluster), ==, 7000);
  g_assert_cmpint (optimizer_ns (&single, &cluster), ==, 7000);
  mixed.state.main_grads = PS_DTYPE_FP32;
  g_assert_cmpint (optimizer_ns (&mixed, &cluster), ==, 7500);
  cluster.memory_bandwidth = 0;
  g_assert_cmpint (optimizer_ns (&mixed, &cluster), ==, 0);
}

/* W reads and writes the gradients that it adds to, as wide as the model says or its framework has them. */
static void test_gradients (void)
{
  static const struct {
    PsFramework framework;
    PsDtype main_grads;
    gint64 bytes; /* of an element, moved */
  } cases[] = { { PS_FRAMEWORK_NONE, PS_DTYPE_AUTO, 4 },     { PS_FRAMEWORK_NONE, PS_DTYPE_FP32, 8 },
                { PS_FRAMEWORK_MEGATRON, PS_DTYPE_AUTO, 8 }, { PS_FRAMEWORK_MEGATRON, PS_DTYPE_FP32, 8 },
                { PS_FRAMEWORK_MEGATRON, PS_DTYPE_BF16, 4 }, { PS_FRAMEWORK_BRIDGE, PS_DTYPE_AUTO, 4 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    PsModel model = small (PS_MLP_GELU, PS_PRECISION_BF16);
    const PsStageShape whole = ps_model_whole (&model);
    PsWork work;

    model.framework = cases[i].framework;
    model.state.main_grads = cases[i].main_grads;
    ps_work_stage (&model, &whole, PS_OP_W, 1, &work);
    const PsWorkKernel *kernel = &work.kernel[0];
    g_assert_cmpint (kernel->bytes, ==,
                     2 * (kernel->m * kernel->k + kernel->k * kernel->n) + cases[i].bytes * kernel->m * kernel->n);
  }
}

/* Kernels of experts, latent attention, windows and multi-token prediction have the operations that the model says.
 * With flash attention B computes the scores once more. 8 GPUs that share experts, or 2 of a context, do their part. */
static void test_kinds (void)
{
  const char *const names[] = { "mixtral-8x7b", "deepseek-v3", "qwen3-235b-a22b", "gpt-oss-120b" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autoptr (PsModel) model = ps_model_load (names[i], NULL);
    const PsStageShape whole = ps_model_whole (model);
    PsWork f, w;

    ps_work_stage (model, &whole, PS_OP_F, 1, &f);
    ps_work_stage (model, &whole, PS_OP_W, 1, &w);
    g_assert_cmpint (ps_work_flops (&f), ==, ps_model_stage_flops (model, &whole, PS_OP_F));
    g_assert_cmpint (ps_work_flops (&w), ==, ps_model_stage_flops (model, &whole, PS_OP_W));
    gint64 all = ps_work_flops (&f);
    model->spread.experts = 8;
    ps_work_stage (model, &whole, PS_OP_F, 1, &f);
    g_assert_cmpint (ps_work_flops (&f), ==, all);
    model->spread.context = 2;
    ps_work_stage (model, &whole, PS_OP_F, 1, &f);
    g_assert_cmpint (ps_work_flops (&f), ==, all / 2);
  }
}

static gint64 product_ns (const PsCluster *cluster, gint64 m, gint64 n, gint64 k, guint bits)
{
  const PsWork work
      = { 1, { { .type = PS_WORK_PRODUCT, .repeats = 1, .products = 1, .m = m, .n = n, .k = k, .bits = bits } } };

  return ps_work_ns (&work, cluster, 0);
}

/* 4 multiprocessors, 10^12 operations / s. One wave of tiles of 256 by 128 is 512 by 256 or 1024 by 128, and 2mnk
 * operations take 2mnk / 1000 ns. A row more takes a second wave, of tiles of 256 by 128 again. k = product_depth takes
 * twice the time, an odd k twice of that, 8 bits half. */
static void test_tiles (void)
{
  PsCluster cluster
      = { .peak_flops = 1e12, .peak_flops_fp8 = 2e12, .efficiency = 1, .multiprocessors = 4, .tensor = 1 };

  g_assert_cmpint (product_ns (&cluster, 512, 256, 64, 16), ==, 16777);
  g_assert_cmpint (product_ns (&cluster, 520, 256, 64, 16), >, 16777 * 5 / 4);
  g_assert_cmpint (product_ns (&cluster, 512, 256, 64, 8), ==, 8389);
  cluster.product_depth = 64;
  g_assert_cmpint (product_ns (&cluster, 512, 256, 64, 16), ==, 33554);
  cluster.unaligned = 0.5;
  g_assert_cmpint (product_ns (&cluster, 512, 256, 64, 16), ==, 33554);
  g_assert_cmpint (product_ns (&cluster, 512, 252, 64, 16), >, 60000);
}

/* One multiprocessor: a result of one tile has that tile's rate, because a larger one would hang over and two smaller
 * ones take two waves. 2 mnk / 1000 ns over 1, 1, 0.9, 0.75 and 0.55. A result of 64 by 128 has no tile of its own:
 * half of a tile of 128 by 128 is 0.45, two waves of 64 by 64 are 0.55. */
static void test_each_tile (void)
{
  static const struct {
    gint64 m, n;
    double rate;
  } rows[]
      = { { 256, 128, 1 }, { 128, 256, 1 }, { 128, 128, 0.9 }, { 128, 64, 0.75 }, { 64, 64, 0.55 }, { 64, 128, 0.55 } };
  const PsCluster cluster = { .peak_flops = 1e12, .efficiency = 1, .multiprocessors = 1, .tensor = 1 };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpfloat_with_epsilon ((double)product_ns (&cluster, rows[i].m, rows[i].n, 1024, 16),
                                    2.0 * (double)(rows[i].m * rows[i].n) * 1.024 / rows[i].rate, 1);
}

/* 10^9 operations a second at a half: 2 x 8 x 8 x 8 take 2048 ns, with 7 in place of an 8 1792. Each class has its own
 * efficiency, or that of products. Products whose sizes are no multiples of 8 (16 bytes) take twice as long, scores 8
 * times, flash attention neither. */
static void test_classes (void)
{
  static const struct {
    PsWorkClass type;
    gint64 ns; /* aligned, with an efficiency of 0.5 */
    gint64 unaligned;
    double own; /* part of the efficiency that the class can have */
  } rows[] = { { PS_WORK_PRODUCT, 2048, 2 * 1792, 1 },
               { PS_WORK_SCORES, 2048, 8 * 1792, 0.5 },
               { PS_WORK_ATTENTION, 2048, 1792, 0.25 } };

  for (guint i = 0; i < 4 * 2 * G_N_ELEMENTS (rows); i++) {
    const guint row = i / 8, odd = i / 2 % 4, own = i % 2;
    const PsCluster cluster = { .peak_flops = 1e9,
                                .efficiency = 0.5,
                                .scores_efficiency = own ? 0.25 : 0,
                                .attention_efficiency = own ? 0.125 : 0,
                                .unaligned = 0.5,
                                .unaligned_scores = 0.125,
                                .tensor = 1 };
    const PsWork work = { 1,
                          { { .type = rows[row].type,
                              .repeats = 1,
                              .products = 1,
                              .m = odd == 1 ? 7 : 8,
                              .n = odd == 2 ? 7 : 8,
                              .k = odd == 3 ? 7 : 8,
                              .bits = 16 } } };
    gint64 ns = odd ? rows[row].unaligned : rows[row].ns;

    g_assert_cmpint (ps_work_ns (&work, &cluster, 0), ==, own ? llrint ((double)ns / rows[row].own) : ns);
  }
}

/* Bytes for each of 128 tokens of the kernels of a mixture that multiply nothing: h = 32, 2 of 8 experts visited, so
 * that 64 elements are moved. Scores of 8 experts are fp32 before and after their softmax: 8 bytes each, 12 for a
 * gradient. A permutation reads h and writes 64; a sum reads 64 and writes h, its gradient reads twice as much. Two
 * GPUs each do half. */
static void test_moved (void)
{
  static const struct {
    const char *name;
    gint64 forward, backward;
  } rows[] = { { "softmax of router", 8 * 8, 12 * 8 },
               { "permutation", (32 + 64) * 2, (32 + 64) * 2 },
               { "weighted sum", (32 + 64) * 2, (32 + 2 * 64) * 2 } };
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W };
  const PsStageShape layer = { .n_layers = 1 };
  PsModel model = small (PS_MLP_SWIGLU, PS_PRECISION_BF16);

  model.experts = (PsExperts){ .count = 8, .active = 2, .feed_forward = 64, .imbalance = 1 };
  for (guint t = 1; t <= 2; t++)
    for (guint i = 0; i < G_N_ELEMENTS (kinds) * G_N_ELEMENTS (rows); i++) {
      PsOpKind kind = kinds[i % 3];
      gint64 sum = 0;
      PsWork work;

      ps_work_stage (&model, &layer, kind, t, &work);
      for (guint k = 0; k < work.n_kernels; k++)
        if (strcmp (work.kernel[k].name, rows[i / 3].name) == 0)
          sum += work.kernel[k].repeats * work.kernel[k].bytes;
      g_assert_cmpint (sum, ==,
                       kind == PS_OP_W   ? 0
                       : kind == PS_OP_F ? 128 / t * rows[i / 3].forward
                                         : 128 / t * rows[i / 3].backward);
    }
}

/* More tokens, wider layers and longer sequences take longer; faster machines less long. */
static void test_monotony (void)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load ("a100-80gb", NULL), faster = ps_cluster_copy (cluster);
  const PsStageShape layer = { .n_layers = 1 };
  const guint sizes[] = { 1024, 2048, 4096 };

  faster->peak_flops *= 2;
  faster->memory_bandwidth *= 2;
  for (guint i = 0; i < 27; i++) {
    PsModel model = { .hidden = sizes[i % 3],
                      .heads = 16,
                      .kv_heads = 16,
                      .sequence = sizes[i / 3 % 3],
                      .precision = PS_PRECISION_FP16,
                      .feed_forward = 4 * sizes[i % 3],
                      .vocabulary = 51200,
                      .microbatch_size = 1 << i / 9 };
    PsModel larger[3] = { model, model, model };
    PsWork work;

    ps_work_stage (&model, &layer, PS_OP_BW, 1, &work);
    gint64 ns = ps_work_ns (&work, cluster, 0);
    g_assert_cmpint (ps_work_ns (&work, faster, 0), <=, ns);
    larger[0].hidden *= 2;
    larger[0].feed_forward *= 2;
    larger[1].sequence *= 2;
    larger[2].microbatch_size *= 2;
    for (guint k = 0; k < 3; k++) {
      ps_work_stage (&larger[k], &layer, PS_OP_BW, 1, &work);
      g_assert_cmpint (ps_work_ns (&work, cluster, 0), >=, ns);
    }
  }
}

/* Layers of fp8 and fp4 multiply in 8 and 4 bits with weights; the head and the scores in 16. */
static void test_bits (void)
{
  static const struct {
    PsPrecision precision;
    guint bits;
  } rows[] = { { PS_PRECISION_BF16, 16 }, { PS_PRECISION_FP8, 8 }, { PS_PRECISION_NVFP4, 4 } };

  for (guint r = 0; r < G_N_ELEMENTS (rows); r++) {
    const PsModel model = small (PS_MLP_SWIGLU, rows[r].precision);
    PsWork work;

    ps_work_stage (&model, &(PsStageShape){ .n_layers = 3, .head = TRUE }, PS_OP_F, 1, &work);
    for (guint i = 0; i < work.n_kernels; i++)
      g_assert_cmpuint (
          work.kernel[i].bits, ==,
          work.kernel[i].type == PS_WORK_PRODUCT && !g_str_equal (work.kernel[i].name, "head") ? rows[r].bits : 16);
  }
}

/* Host's launches of a layer with 8 experts on 4 GPUs, 2 to each: 3 for each of 2 products in fp8, else 1 and for W 2,
 * and 60 of the layer in F and in B. All but attention is outside of graphs of scope attn. */
static void test_launches (void)
{
  static const struct {
    PsPrecision precision;
    PsOpKind kind;
    guint experts; /* launches of their products */
  } rows[] = { { PS_PRECISION_BF16, PS_OP_F, 4 },
               { PS_PRECISION_BF16, PS_OP_B, 4 },
               { PS_PRECISION_BF16, PS_OP_W, 8 },
               { PS_PRECISION_MXFP8, PS_OP_F, 12 },
               { PS_PRECISION_MXFP8, PS_OP_W, 12 } };

  for (guint r = 0; r < G_N_ELEMENTS (rows); r++) {
    PsCluster cluster = { .peak_flops = 1e18, .efficiency = 1, .launch_ns = 1000, .tensor = 1 };
    PsModel model = small (PS_MLP_SWIGLU, rows[r].precision);
    PsWork work;
    guint n_experts = 0, n_all = 0, n_attention = 0, n_further = 0;

    model.experts = (PsExperts){ .count = 8, .active = 2, .feed_forward = 64, .imbalance = 1 };
    model.spread.experts = 4;
    ps_work_stage (&model, &(PsStageShape){ .n_layers = 1 }, rows[r].kind, 1, &work);
    for (guint i = 0; i < work.n_kernels; i++) {
      guint n = MAX (work.kernel[i].launches, 1);

      n_all += n;
      n_attention += work.kernel[i].graphs == PS_CUDA_GRAPHS_ATTN ? n : 0;
      n_experts += g_str_has_prefix (work.kernel[i].name, "feed-forward") ? n : 0;
      n_further += g_str_equal (work.kernel[i].name, "further launches") ? n : 0;
    }
    g_assert_cmpuint (n_experts, ==, rows[r].experts);
    g_assert_cmpuint (n_further, ==, rows[r].kind == PS_OP_W ? 0 : 60);
    g_assert_cmpint (ps_work_ns (&work, &cluster, 0), ==, 1000 * n_all);
    cluster.cuda_graphs = PS_CUDA_GRAPHS_ATTN;
    g_assert_cmpint (ps_work_ns (&work, &cluster, 0), ==, 1000 * (n_all - n_attention));
    cluster.cuda_graphs = PS_CUDA_GRAPHS_FULL;
    g_assert_cmpint (ps_work_ns (&work, &cluster, 0), <, 1000);
  }
}

/* Products of 1024 by 1024 by 1024 in fp8, of 10^12 operations a second, take 2147 us at an efficiency of 1. That of
 * blocks is a half, that of 4 bits a quarter. In 4 pieces on one multiprocessor whose tiles have 256 rows it is as
 * long, in 8 pieces of 128 rows tiles of 128 by 128 reach 0.9. */
static void test_formats (void)
{
  static const struct {
    guint bits;
    gboolean blocks;
    guint pieces;
    double overlap;
    double part;
  } rows[] = { { 8, FALSE, 0, 0, 1 },   { 8, TRUE, 0, 0, 0.5 }, { 4, TRUE, 0, 0, 0.25 },    { 8, FALSE, 4, 0.5, 1 },
               { 8, FALSE, 8, 0.5, 1 }, { 8, FALSE, 16, 0, 1 }, { 8, FALSE, 16, 0.5, 0.55 } };

  for (guint r = 0; r < G_N_ELEMENTS (rows); r++) {
    const PsCluster cluster = { .peak_flops = 1e12,
                                .efficiency = 0.1,
                                .efficiency_fp8 = 1,
                                .efficiency_mxfp8 = 0.5,
                                .efficiency_fp4 = 0.25,
                                .multiprocessors = 1,
                                .tensor_overlap = rows[r].overlap,
                                .tensor = 1 };
    const PsWork work = { 1,
                          { { .type = PS_WORK_PRODUCT,
                              .repeats = 1,
                              .products = 1,
                              .m = 1024,
                              .n = 1024,
                              .k = 1024,
                              .bits = rows[r].bits,
                              .blocks = rows[r].blocks,
                              .pieces = rows[r].pieces } } };

    g_assert_cmpfloat_with_epsilon ((double)ps_work_ns (&work, &cluster, 0), 2147483.648 / rows[r].part, 16);
  }
}

/* The scores that a slice adds to the square of scores, within the window: counted one by one. */
static guint count_pairs (guint from, guint to, guint window)
{
  guint n = 0;

  for (guint i = 0; i < to; i++)
    for (guint j = 0; j < to; j++)
      n += MAX (i, j) >= from && (i > j ? i - j : j - i) < window;
  return n;
}

static gint64 flops_of (const PsWork *work, gboolean attention)
{
  gint64 sum = 0;

  for (guint i = 0; i < work->n_kernels; i++) {
    const PsWorkKernel *kernel = &work->kernel[i];
    gboolean is_attention = kernel->type == PS_WORK_ATTENTION || kernel->type == PS_WORK_SCORES;

    if (is_attention == attention)
      sum += 2 * kernel->repeats * kernel->products * kernel->m * kernel->n * kernel->k;
  }
  return sum;
}

/* Slices of drawn lengths. Products have the operations of their tokens. Attention has its part of the pairs of the
 * whole sequence, which are rounded to whole ones for a token; a scan has that of its tokens. */
static void test_slices (void)
{
  static const struct {
    guint window;
    const char *pattern;
    gboolean flash;
  } rows[] = { { 0, NULL, TRUE },  { 0, NULL, FALSE },    { 16, NULL, TRUE },
               { 9, NULL, FALSE }, { 0, "l-l-l-", TRUE }, { 64, NULL, TRUE } };
  const PsStageShape shape = { .n_layers = 3, .head = TRUE };

  for (guint i = 0; i < 300; i++) {
    PsModel model = small (i % 2 ? PS_MLP_SWIGLU : PS_MLP_GELU, PS_PRECISION_BF16);
    guint row = i % G_N_ELEMENTS (rows), window = rows[row].window > 0 ? rows[row].window : model.sequence;
    guint tokens[4] = { 0 }, before = 0;
    PsOpKind kind = (PsOpKind)(i / 6 % 3);
    PsWork whole, work;
    gint64 attention = 0;

    model.window = rows[row].window;
    model.pattern = (char *)rows[row].pattern;
    model.flash_attention = rows[row].flash;
    for (guint cut = 1; cut < 4; cut++)
      before += tokens[cut - 1] = (guint)g_test_rand_int_range (1, 21);
    tokens[3] = model.sequence - before;
    ps_work_stage (&model, &shape, kind, 1, &whole);
    before = 0;
    for (guint k = 0; k < 4; before += tokens[k++]) {
      PsModel slice = model;
      double part = rows[row].pattern != NULL ? (double)tokens[k] / model.sequence
                                              : (double)count_pairs (before, before + tokens[k], window)
                                                    / count_pairs (0, model.sequence, window);

      ps_model_slice (&slice, tokens, 4, k);
      ps_work_stage (&slice, &shape, kind, 1, &work);
      g_assert_cmpint (flops_of (&work, FALSE) * model.sequence, ==, flops_of (&whole, FALSE) * tokens[k]);
      g_assert_cmpfloat_with_epsilon (
          (double)flops_of (&work, TRUE), part * (double)flops_of (&whole, TRUE),
          (double)flops_of (&whole, TRUE) * tokens[k] / model.sequence / (2 * MIN (window, model.sequence)) + 1);
      attention += flops_of (&work, TRUE);
    }
    g_assert_cmpfloat_with_epsilon ((double)attention, (double)flops_of (&whole, TRUE),
                                    (double)flops_of (&whole, TRUE) / (2 * window) + 1);
    if (rows[row].window == 0)
      g_assert_cmpint (attention, ==, flops_of (&whole, TRUE));
  }
  PsModel last = small (PS_MLP_SWIGLU, PS_PRECISION_BF16);
  PsWork alone, later;
  last.flash_attention = TRUE;
  ps_model_slice (&last, (const guint[]){ 16, 16, 16, 16 }, 4, 3);
  ps_work_stage (&last, &shape, PS_OP_F, 1, &later);
  last.before = 0;
  ps_work_stage (&last, &shape, PS_OP_F, 1, &alone);
  /* A later slice also reads the keys and values of those before it: half of 4 rows of q elements a token. */
  for (guint i = 0; i < alone.n_kernels; i++)
    g_assert_cmpint (later.kernel[i].bytes - alone.kernel[i].bytes, ==,
                     alone.kernel[i].type == PS_WORK_ATTENTION ? 2 * 48 * 2 * 32 * 2 : 0);
}

/* The times of slices: the longest, the shortest and their sum. */
typedef struct {
  gint64 high, low, sum;
} SliceTimes;

static gint64 forward_ns (const PsModel *model, const PsCluster *cluster)
{
  const PsStageShape shape = { .n_layers = model->layers };
  PsWork work;

  ps_work_stage (model, &shape, PS_OP_F, cluster->tensor, &work);
  return ps_work_ns (&work, cluster, ps_tensor_stage_ns (model, &shape, cluster, PS_OP_F));
}

static SliceTimes slice_times (const PsModel *model, const PsCluster *cluster, const guint *tokens, guint n)
{
  SliceTimes times = { 0, G_MAXINT64, 0 };

  for (guint k = 0; k < n; k++) {
    PsModel slice = *model;

    ps_model_slice (&slice, tokens, n, k);
    times.high = MAX (times.high, forward_ns (&slice, cluster));
    times.low = MIN (times.low, forward_ns (&slice, cluster));
    times.sum += forward_ns (&slice, cluster);
  }
  return times;
}

static guint find_shortest (const guint *tokens, guint n)
{
  guint shortest = tokens[0];

  for (guint k = 1; k < n; k++)
    shortest = MIN (shortest, tokens[k]);
  return shortest;
}

/* Slices of even work take the same time within 1 %, in drawn settings with and without windows and with GPUs that
 * share a slice. Tiles of products make steps of several percent for slices of some hundred tokens; a pipeline of four
 * devices is no slower than with equal slices, where odd lengths make products slow, too. Lengths
 * are multiples of these GPUs and add up. */
static void test_even_work (void)
{
  for (guint i = 0; i < 200; i++) {
    PsModel model = small (PS_MLP_SWIGLU, PS_PRECISION_BF16);
    PsCluster cluster = { .tensor = 1u << g_test_rand_int_range (0, 2),
                          .nodes = 1,
                          .devices_per_node = 8,
                          .peak_flops = 1e12,
                          .efficiency = 0.5,
                          .attention_efficiency = 0.3,
                          .spacing = 1,
                          .link_bandwidth = 4e9,
                          .network_bandwidth = 1e9 };
    guint n = (guint)g_test_rand_int_range (2, 17), sum = 0;

    model.sequence = 16384u << g_test_rand_int_range (0, 4);
    model.hidden = 1024;
    model.feed_forward = 4096;
    model.flash_attention = TRUE;
    model.window = i % 4 == 0 ? model.sequence / 3 : 0;
    model.spread.context = i % 3 == 0 ? 2 : 1;
    if (i % 5 == 0)
      cluster.multiprocessors = 132;
    if (i % 5 < 2)
      cluster.unaligned = 0.25;
    g_autofree guint *tokens = ps_work_cut_even (&model, &cluster, n, 3, NULL);
    g_autofree guint *equal = ps_model_cut_equal (&model, n, cluster.tensor * model.spread.context, NULL);
    SliceTimes even_times = slice_times (&model, &cluster, tokens, n);
    SliceTimes equal_times = slice_times (&model, &cluster, equal, n);
    for (guint k = 0; k < n; sum += tokens[k++])
      g_assert_cmpuint (tokens[k] % (cluster.tensor * model.spread.context), ==, 0);
    g_assert_cmpuint (sum, ==, model.sequence);
    g_assert_cmpint (even_times.sum + 3 * even_times.high, <=, equal_times.sum + 3 * equal_times.high);
    /* Where odd lengths are slow, lengths are multiples of 8 tokens a GPU. */
    guint shortest = find_shortest (tokens, n),
          unit = cluster.unaligned > 0 ? 8 * cluster.tensor * model.spread.context : 0;
    if (cluster.multiprocessors == 0)
      g_assert_cmpfloat ((double)even_times.high, <=, (1.01 + (double)unit / shortest) * (double)even_times.low);
  }
}

/* 5 slices of 64 tokens that 2 GPUs share: 12, 12, 14, 12 and 14 tokens. 33 slices are too many. */
static void test_slice_lengths (void)
{
  const guint before[] = { 0, 12, 24, 38, 50, 64 };

  PsModel model = small (PS_MLP_GELU, PS_PRECISION_FP32);
  g_autofree guint *tokens = ps_model_cut_equal (&model, 5, 2, NULL);
  for (guint k = 0; k < 5; k++) {
    PsModel slice = model;

    ps_model_slice (&slice, tokens, 5, k);
    g_assert_cmpuint (slice.before, ==, before[k]);
    g_assert_cmpuint (slice.sequence, ==, before[k + 1] - before[k]);
    g_assert_cmpuint (slice.after, ==, 64 - before[k + 1]);
  }
  g_autoptr (GError) error = NULL;
  g_assert_null (ps_model_cut_equal (&model, 33, 2, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_cmpstr (
      error->message, ==,
      "--slices 33: the 64 tokens of a sequence of model 'small' make at most 32 slices that 2 GPUs share");
}

/* The peak of a number of bits is that of the least number that a cluster states one for. */
static void test_peak (void)
{
  PsCluster cluster = { .peak_flops = 1, .peak_flops_fp4 = 4 };
  const char *key;

  g_assert_cmpfloat (ps_work_peak_flops (&cluster, 4, &key), ==, 4);
  g_assert_cmpstr (key, ==, "peak_flops_fp4");
  g_assert_cmpfloat (ps_work_peak_flops (&cluster, 8, &key), ==, 1);
  g_assert_cmpstr (key, ==, "peak_flops");
  cluster.peak_flops_fp8 = 2;
  cluster.peak_flops_fp4 = 0;
  g_assert_cmpfloat (ps_work_peak_flops (&cluster, 4, &key), ==, 2);
  g_assert_cmpstr (key, ==, "peak_flops_fp8");
  g_assert_cmpfloat (ps_work_peak_flops (&cluster, 16, NULL), ==, 1);
}

/* Tests of work.h: pairs worked by hand, and one that was profiled. */

/* One layer: F 10, 4, 6, 3; B 20, 5, 8, 2; W 7, 1. The gradient arrives at 2, tokens leave from 10 to 14; experts run B
 * 10-18, W to 19, F to 25; gradients leave from 18 to 23; attention runs B 25-45, W to 52, while F's results leave. */
static void test_layer_overlap (void)
{
  PsPairLayer layers[2] = {
    { .attention_ns = { 10, 20, 7 }, .experts_ns = { 6, 8, 1 }, .dispatch_ns = { 4, 5 }, .combine_ns = { 3, 2 } }
  };

  g_assert_cmpint (ps_overlap_pair_ns (layers, 0), ==, 0);
  g_assert_cmpint (ps_overlap_pair_ns (layers, 1), ==, 52);
  /* Computing takes as long again: the second layer's gradient arrives while attention's W runs. */
  layers[1] = layers[0];
  g_assert_cmpint (ps_overlap_pair_ns (layers, 2), ==, 104);
  /* Messages that outlast everything: combine B 2, dispatch F 10-110, dispatch B 110-115, combine F 116-119; attention
   * B 116-136, its W to 143. */
  layers[0].dispatch_ns[PS_OP_F] = 100;
  g_assert_cmpint (ps_overlap_pair_ns (layers, 1), ==, 143);
  /* F's results leave when its experts end at 25, and arrive at 125, long after the last computing. */
  layers[0].dispatch_ns[PS_OP_F] = 4;
  layers[0].combine_ns[PS_OP_F] = 100;
  g_assert_cmpint (ps_overlap_pair_ns (layers, 1), ==, 125);
}

/* Milliseconds of four layers of DeepSeek-V3 on H800 (deepseek-ai/profile-data, 449602428a1b, train.json): the pair
 * took 129.0. Kernels of a second stream that computes W beside others count as well. */
static void test_published (void)
{
  PsPairLayer layers[4];
  const PsPairLayer layer = { .attention_ns = { 17479000 / 4, 37363000 / 4, 9554000 / 4 },
                              .experts_ns = { 18415000 / 4, 21224000 / 4, (14158000 + 11355000) / 4 },
                              .dispatch_ns = { 26761000 / 4, 29947000 / 4 },
                              .combine_ns = { 34736000 / 4, 23077000 / 4 } };

  for (guint i = 0; i < G_N_ELEMENTS (layers); i++)
    layers[i] = layer;
  g_assert_cmpfloat_with_epsilon ((double)ps_overlap_pair_ns (layers, 4) / 1e6, 129.012, 0.05 * 129.012);
}

static gint64 duration (const PsCosts *costs, PsOpKind kind)
{
  return ps_costs_op (costs, kind, 0)->duration_ns;
}

/* A stage of DeepSeek-V3 with four layers of experts, shared by 64 GPUs: a pair computes all that its parts do, and
 * hides most of the lesser of that and its 4 * 4 all-to-alls, or an eighth of these where it can hide no more. On a
 * network without end it has nothing to hide. Dense stages have no pair. */
static void test_modelled (void)
{
  const PsStageShape shapes[2] = { { .first_layer = 4, .n_layers = 4 }, { .n_layers = 3 } };
  g_autoptr (PsModel) model = ps_model_load ("deepseek-v3", NULL);
  g_autoptr (PsCluster) cluster = ps_cluster_load ("h100-80gb", NULL);

  model->spread.experts = 64;
  cluster->expert_exposed = 0;
  g_autoptr (PsCosts) costs = ps_costs_model_stages (model, cluster, shapes, 2, 1, NULL);
  gint64 sum = duration (costs, PS_OP_F) + duration (costs, PS_OP_B) + duration (costs, PS_OP_W);
  gint64 talk = 16 * ps_tensor_exchange_ns (model, cluster), pair = costs->stage[0].pair_ns;
  g_assert_cmpint (talk, >, 0);
  g_assert_cmpint (pair, >=, MAX (talk, sum - talk) - 100); /* times are rounded, layer by layer */
  g_assert_cmpint (pair, <, sum - MIN (talk, sum - talk) / 2);
  g_assert_cmpint (costs->stage[1].pair_ns, ==, -1);
  cluster->expert_exposed = 0.875;
  g_autoptr (PsCosts) exposed = ps_costs_model_stages (model, cluster, shapes, 2, 1, NULL);
  g_assert_cmpint (exposed->stage[0].pair_ns, ==, sum - talk / 8);
  ps_cluster_scale (cluster, 1e6, 1, 0.001);
  g_autoptr (PsCosts) near = ps_costs_model_stages (model, cluster, shapes, 2, 1, NULL);
  sum = duration (near, PS_OP_F) + duration (near, PS_OP_B) + duration (near, PS_OP_W);
  g_assert_cmpint (near->stage[0].pair_ns, >, sum - sum / 1000);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/work/kernels", test_kernels);
  g_test_add_func ("/work/layer", test_layer);
  g_test_add_func ("/work/recompute", test_recompute);
  g_test_add_func ("/work/flops", test_flops);
  g_test_add_func ("/work/shapes", test_shapes);
  g_test_add_func ("/work/time", test_time);
  g_test_add_func ("/work/tiles", test_tiles);
  g_test_add_func ("/work/each-tile", test_each_tile);
  g_test_add_func ("/work/classes", test_classes);
  g_test_add_func ("/work/moved", test_moved);
  g_test_add_func ("/work/monotony", test_monotony);
  g_test_add_func ("/work/optimizer", test_optimizer);
  g_test_add_func ("/work/gradients", test_gradients);
  g_test_add_func ("/work/kinds", test_kinds);
  g_test_add_func ("/work/bits", test_bits);
  g_test_add_func ("/work/launches", test_launches);
  g_test_add_func ("/work/formats", test_formats);
  g_test_add_func ("/work/slices", test_slices);
  g_test_add_func ("/work/even-work", test_even_work);
  g_test_add_func ("/work/slice-lengths", test_slice_lengths);
  g_test_add_func ("/work/peak", test_peak);
  g_test_add_func ("/overlap/layer", test_layer_overlap);
  g_test_add_func ("/overlap/published", test_published);
  g_test_add_func ("/overlap/modelled", test_modelled);
  return g_test_run ();
}

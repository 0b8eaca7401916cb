/* test-cuda-kernels.c - every function of the cuda table of kernels gives what the cpu table gives for the same
 * arrays, and the same bits twice. With -m perf it measures instead what each reaches on a GPU.
 *
 * A row of `tests` says how large the arrays of a case are and how both tables are called. The emulation takes the
 * second run backwards, which also shows missing barriers. */
#include "clock.h"
#include "cuda-device-rig.h"
#include "train/cpu/cpu.h"
#include "train/transformer.h"

#include <math.h>
#include <string.h>

#define MAX_ARRAYS 12
#define MAX_SIZES 10

/* What storing a result costs: 2^-8 for bf16 (8 significant bits, half a unit in the last place); and what fp32
 * arithmetic does on the way. */
#define BF16_ERROR (1.0 / 256)
#define FP32_ERROR 1e-5

/* An array of a case. Sizes of 0: there is none. */
typedef struct {
  gsize n;
  gboolean floats;  /* of float with every element */
  guint words;      /* numbers below this instead */
  gboolean doubles; /* n numbers of double */
  double deviation; /* 0: not read */
  double mean;
  gboolean written;
  double terms; /* numbers like the largest that add up to one of it, and are rounded on the way */
} Array;

#define IN(size, spread)                                                                                               \
  (Array)                                                                                                              \
  {                                                                                                                    \
    .n = (gsize)(size), .deviation = spread                                                                            \
  }
#define IN_FLOATS(size, spread)                                                                                        \
  (Array)                                                                                                              \
  {                                                                                                                    \
    .n = (gsize)(size), .floats = TRUE, .deviation = spread                                                            \
  }
#define OUT(size, many)                                                                                                \
  (Array)                                                                                                              \
  {                                                                                                                    \
    .n = (gsize)(size), .written = TRUE, .terms = many                                                                 \
  }
#define OUT_FLOATS(size, many)                                                                                         \
  (Array)                                                                                                              \
  {                                                                                                                    \
    .n = (gsize)(size), .floats = TRUE, .written = TRUE, .terms = many                                                 \
  }
#define ADDED(size, many)                                                                                              \
  (Array)                                                                                                              \
  {                                                                                                                    \
    .n = (gsize)(size), .floats = TRUE, .deviation = 1, .written = TRUE, .terms = many                                 \
  }
#define WORDS(size, below)                                                                                             \
  (Array)                                                                                                              \
  {                                                                                                                    \
    .n = (gsize)(size), .words = (guint)(below)                                                                        \
  }

typedef struct {
  const PsKernels *kernels;
  PsQueue *queue;
  void *a[MAX_ARRAYS];
  const int *s; /* sizes */
} Call;

typedef struct {
  const char *name;
  void (*plan) (const int *s, Array *a);
  void (*run) (const Call *c);
  const int (*cases)[MAX_SIZES];
  guint n_cases;
  gboolean shifts; /* also on arrays that begin one element off 16 bytes */
} Kernel;

/* --- norms and sums over rows: s = rows, columns, 1 for a layer norm and 0 for an RMS norm --- */

/* One warp per row, a block per row with few and with many packs, rows that no layout keeps, odd rows. */
static const int rows_cases[][MAX_SIZES] = {
  { 1, 8, 1 },     { 7, 33, 0 },   { 64, 512, 1 }, { 9, 1024, 0 }, { 3, 2500, 1 },  { 2, 8200, 0 }, { 5, 64, 1 },
  { 130, 256, 0 }, { 9, 1024, 1 }, { 3, 1032, 0 }, { 2, 5000, 1 }, { 1, 16400, 1 }, { 300, 72, 1 }, { 300, 72, 0 },
};

static void plan_norm (const int *s, Array *a)
{
  const int n = s[0] * s[1];

  a[0] = OUT (n, 3);
  a[1] = OUT_FLOATS (s[2] ? s[0] : 0, 1);
  a[2] = OUT_FLOATS (s[0], 1);
  a[3] = IN (n, 2);
  a[3].mean = 0.75;
  a[4] = IN (s[1], 1);
  a[5] = IN (s[2] ? s[1] : 0, 1);
}

static void run_norm (const Call *c)
{
  c->kernels->norm (c->queue, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5], c->s[0], c->s[1]);
}

/* The gradient is dx or, on top of a residual, the residual. */
static void plan_norm_input (const int *s, Array *a)
{
  const int n = s[0] * s[1];

  a[0] = OUT (n, 10);
  a[1] = IN (n, 1);
  a[1].written = TRUE;
  a[1].terms = 10;
  a[2] = IN (n, 1);
  a[3] = IN (n, 2);
  a[4] = IN_FLOATS (s[2] ? s[0] : 0, 0.5);
  a[5] = IN_FLOATS (s[0], 0.1);
  a[5].mean = 0.6;
  a[6] = IN (s[1], 1);
}

static void run_norm_input (const Call *c)
{
  void *const *a = c->a;

  c->kernels->norm_input (c->queue, a[0], NULL, a[2], a[3], a[4], a[5], a[6], c->s[0], c->s[1]);
  c->kernels->norm_input (c->queue, a[1], a[1], a[2], a[3], a[4], a[5], a[6], c->s[0], c->s[1]);
}

static void plan_norm_weights (const int *s, Array *a)
{
  const int n = s[0] * s[1];

  a[0] = ADDED (s[1], s[0]);
  a[1] = ADDED (s[2] ? s[1] : 0, s[0]);
  a[2] = OUT (n, 10);
  a[3] = IN (n, 1);
  a[4] = IN (n, 1);
  a[5] = IN_FLOATS (s[2] ? s[0] : 0, 1);
  a[6] = IN_FLOATS (s[0], 1);
  a[7] = IN (s[1], 1);
  a[8] = IN (s[2] ? s[1] : 0, 1);
}

static void run_norm_weights (const Call *c)
{
  void *const *a = c->a;

  c->kernels->norm_weights (c->queue, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], c->s[0], c->s[1]);
}

static void plan_bias_gradient (const int *s, Array *a)
{
  a[0] = ADDED (s[1], s[0]);
  a[1] = IN (s[0] * s[1], 1);
}

static void run_bias_gradient (const Call *c)
{
  c->kernels->bias_gradient (c->queue, c->a[0], c->a[1], c->s[0], c->s[1]);
}

/* --- element by element: s = rows, columns --- */

/* Rows of whole 16 bytes and not, more columns than a block has threads. */
static const int element_cases[][MAX_SIZES] = {
  { 1, 8 }, { 7, 33 }, { 130, 24 }, { 3, 1100 }, { 5, 296 }, { 2, 2100 }, { 64, 40 }, { 0, 8 },
};

static void plan_swiglu (const int *s, Array *a)
{
  const int n = s[0] * s[1];

  a[0] = OUT (n, 1);
  a[1] = IN (2 * n, 2);
  a[1].written = TRUE;
  a[1].terms = 1;
  a[2] = IN (n, 1);
}

/* The gradients overwrite gate and up, which lie side by side. */
static void run_swiglu (const Call *c)
{
  const gsize up = (gsize)c->s[1] * ps_element_bytes (c->queue->element);
  char *gate = c->a[1];

  c->kernels->swiglu (c->queue, c->a[0], gate, gate + up, c->s[0], c->s[1], 2 * c->s[1]);
  c->kernels->swiglu_input (c->queue, gate, gate + up, c->a[2], gate, gate + up, c->s[0], c->s[1], 2 * c->s[1]);
}

/* s = sequences, rows of a slice, columns, tokens of a sequence, stride */
static const int slice_cases[][MAX_SIZES] = {
  { 2, 3, 8, 7, 24 },
  { 1, 5, 33, 5, 40 },
  { 3, 4, 64, 9, 64 },
  { 2, 1, 2056, 2, 2056 },
};

static void plan_rows (const int *s, Array *a)
{
  const int n = s[0] * s[3] * s[4], dense = s[0] * s[1] * s[2];

  a[0] = IN (n, 1);
  a[0].written = TRUE;
  a[0].terms = 1;
  a[1] = IN (n, 1);
  a[1].written = TRUE;
  a[1].terms = 1;
  a[2] = IN (n, 1);
  a[3] = IN_FLOATS (dense, 1);
  a[4] = ADDED (dense, 1);
  a[5] = OUT_FLOATS (dense, 1);
}

static void run_rows (const Call *c)
{
  const int *s = c->s;
  const PsRows rows[] = { { c->a[0], s[3], s[4] }, { c->a[1], s[3], s[4] }, { c->a[2], s[3], s[4] } };

  c->kernels->rows_copy (c->queue, rows[0], rows[2], NULL, s[0], s[1], s[2]);
  c->kernels->rows_copy (c->queue, rows[1], rows[1], c->a[3], s[0], s[1], s[2]);
  c->kernels->rows_add (c->queue, c->a[4], FALSE, rows[2], s[0], s[1], s[2]);
  c->kernels->rows_add (c->queue, c->a[5], TRUE, rows[2], s[0], s[1], s[2]);
}

/* s = sequences, tokens of each, heads, head_size, stride, backward */
static const int rotary_cases[][MAX_SIZES] = {
  { 1, 7, 3, 10, 35, 0 },
  { 2, 65, 2, 64, 128, 1 },
  { 2, 65, 3, 32, 104, 0 },
  { 1, 9, 1, 6, 7, 1 },
};

static void plan_rotary (const int *s, Array *a)
{
  a[0] = OUT_FLOATS (s[1] * s[3], 1);
  a[1] = IN (s[0] * s[1] * s[4], 1);
  a[1].written = TRUE;
  a[1].terms = 1;
}

static void run_rotary (const Call *c)
{
  const int *s = c->s;

  c->kernels->rotary_table (c->queue, c->a[0], s[1], s[3], 10000);
  c->kernels->rotary (c->queue, c->a[1], c->a[0], s[0] * s[1], s[1], s[2], s[3], s[4], s[5]);
}

/* --- products, with endings that the library has and endings by kernels: s = rows, in, out, endings refused --- */

static const int product_cases[][MAX_SIZES] = {
  { 16, 24, 40, 0 }, { 7, 33, 11, 0 }, { 64, 8, 2104, 1 }, { 1, 8, 8, 2 }, { 5, 296, 1104, 1 }, { 130, 40, 24, 2 },
};

static void plan_products (const int *s, Array *a)
{
  const int y = s[0] * s[2];

  a[0] = OUT (y, 3);
  a[1] = IN (s[0] * s[1], 1);
  a[2] = IN (s[1] * s[2], 1 / sqrt (s[1]));
  a[3] = IN (s[2], 1);
  a[4] = IN (y, 1);
  a[5] = OUT (y, 6);
  a[6] = OUT (y, 3);
  a[7] = OUT (s[0] * s[1], 3 + sqrt (s[2]));
  a[8] = OUT (s[0] * s[1], 3 + sqrt (s[2]));
  a[9] = ADDED (s[1] * s[2], s[0]);
}

static void run_products (const Call *c)
{
  const int *s = c->s;
  void *const *a = c->a;

  c->kernels->linear (c->queue, a[0], a[1], a[2], a[3], a[4], s[0], s[1], s[2]);
  c->kernels->linear_gelu (c->queue, a[5], a[6], a[1], a[2], a[3], s[0], s[1], s[2]);
  c->kernels->linear_input (c->queue, a[7], a[4], a[2], s[0], s[1], s[2]);
  c->kernels->linear_gelu_input (c->queue, a[8], a[4], a[2], a[1], s[0], s[1], s[2]);
  c->kernels->linear_weights (c->queue, a[9], a[1], a[4], s[0], s[1], s[2]);
}

/* --- both ends of a model: s = sequences, tokens of each, hidden, vocabulary, positions --- */

/* Few words: each comes often. */
static const int embedding_cases[][MAX_SIZES] = {
  { 1, 1, 8, 1, 1 },    { 2, 33, 24, 11, 0 },  { 1, 130, 13, 3, 1 },
  { 2, 65, 64, 50, 1 }, { 1, 7, 1100, 20, 0 }, { 3, 50, 10, 1000, 1 },
};

static void plan_embedding (const int *s, Array *a)
{
  const int tokens = s[0] * s[1];

  a[0] = OUT (tokens * s[2], 1);
  a[1] = IN (s[3] * s[2], 1);
  a[2] = IN (s[4] ? s[1] * s[2] : 0, 1);
  a[3] = WORDS (s[0] * (s[1] + 1), s[3]);
  a[4] = ADDED (s[3] * s[2], tokens);
  a[5] = ADDED (s[4] ? s[1] * s[2] : 0, s[0]);
  a[6] = IN (tokens * s[2], 1);
}

static void run_embedding (const Call *c)
{
  const int *s = c->s;

  c->kernels->embedding (c->queue, c->a[0], c->a[1], c->a[2], c->a[3], s[0], s[1], s[2]);
  c->kernels->embedding_weights (c->queue, c->a[4], c->a[5], c->a[6], c->a[3], s[0], s[1], s[2]);
}

/* s = sequences, tokens of each, vocabulary, stride, deviation of the logits */
static const int loss_cases[][MAX_SIZES] = {
  { 1, 1, 1, 1, 1 },    { 2, 33, 11, 11, 2 },    { 1, 7, 5000, 5000, 5 }, { 1, 3, 2500, 2560, 1 },
  { 1, 64, 8, 12, 40 }, { 1, 7, 9001, 9008, 4 }, { 1, 4, 4099, 4099, 1 }, { 1, 64, 40, 40, 30 },
};

static void plan_loss (const int *s, Array *a)
{
  a[0] = IN (s[0] * s[1] * s[3], s[4]);
  a[0].written = TRUE;
  a[0].terms = 1;
  a[1] = OUT_FLOATS (s[0] * s[1], 1);
  a[2] = WORDS (s[0] * (s[1] + 1), s[2]);
  a[3] = (Array){ .n = 1, .doubles = TRUE, .written = TRUE, .terms = 1 };
}

static void run_loss (const Call *c)
{
  const int *s = c->s, tokens = s[0] * s[1];

  c->kernels->cross_entropy (c->queue, c->a[0], c->a[1], c->a[2], s[0], s[1], s[2], s[3], 1 / (float)tokens);
  c->kernels->loss_sum (c->queue, c->a[3], c->a[1], tokens, 0.125);
}

/* --- attention: s = sequences, queries of each, heads, kv_heads, head_size, keys before, deviation of 16 times queries
 * and keys, 1 for fp32 alone and 2 for bf16 alone --- */

/* Sequences of one token, of part of a tile, of whole tiles, and of some tiles and a rest; kv groups of one, some and
 * all heads; every head size of the fast path, and others; keys before the first query, fewer and more than a tile.
 * Scores of several hundreds, (16 * 12 / 16)^2 sqrt (32) = 800 in any head size: softmax takes one key, its maximum
 * moves from tile to tile, and nothing overflows. */
static const int attention_cases[][MAX_SIZES] = {
  { 1, 1, 1, 1, 4, 0, 16, 1 },     { 2, 7, 3, 3, 5, 0, 16, 1 },     { 1, 64, 4, 2, 16, 0, 16, 1 },
  { 1, 130, 2, 1, 64, 0, 16, 1 },  { 1, 20, 1, 1, 200, 0, 16, 1 },  { 2, 3, 4, 2, 8, 9, 16, 1 },
  { 1, 100, 1, 1, 32, 0, 192, 1 }, { 1, 33, 2, 2, 24, 0, 16, 2 },   { 1, 1, 1, 1, 32, 0, 16, 2 },
  { 2, 7, 2, 2, 64, 0, 16, 2 },    { 1, 64, 2, 1, 128, 0, 16, 2 },  { 2, 130, 3, 3, 32, 0, 16, 2 },
  { 1, 130, 4, 2, 64, 0, 16, 2 },  { 1, 130, 2, 1, 96, 0, 16, 2 },  { 1, 130, 4, 1, 128, 0, 16, 2 },
  { 1, 289, 1, 1, 64, 0, 16, 2 },  { 1, 128, 1, 1, 128, 0, 16, 2 }, { 1, 321, 1, 1, 128, 0, 16, 2 },
  { 2, 5, 2, 1, 32, 33, 16, 2 },   { 1, 70, 2, 1, 64, 75, 16, 2 },  { 1, 3, 1, 1, 128, 130, 16, 2 },
  { 1, 150, 1, 1, 32, 0, 192, 2 }, { 1, 300, 1, 1, 64, 0, 161, 2 }, { 1, 300, 1, 1, 128, 0, 136, 2 },
};

/* q, k and v side by side, as one product leaves them; outputs with a gap after each token. */
static PsAttention attention_shape (const int *s)
{
  const int stride = (s[2] + 2 * s[3]) * s[4];

  return (PsAttention){ .batch = s[0],
                        .sequence = s[1],
                        .heads = s[2],
                        .kv_heads = s[3],
                        .head_size = s[4],
                        .qkv_stride = stride,
                        .out_stride = s[2] * s[4] + 8,
                        .kv_stride = stride,
                        .past = s[5],
                        .flash = true };
}

static void plan_attention (const int *s, Array *a)
{
  const PsAttention shape = attention_shape (s);
  const int n_qkv = s[0] * (s[5] + s[1]) * shape.qkv_stride, n_out = s[0] * s[1] * shape.out_stride;
  const gboolean is_sharp = s[6] > 16;

  a[0] = IN (n_out, 1);
  a[0].written = TRUE;
  a[0].terms = is_sharp ? 40 : 2;
  a[1] = OUT_FLOATS (s[0] * s[1] * s[2], is_sharp ? 100 : 1);
  a[2] = IN (n_qkv, s[6] / 16.0);
  a[3] = IN (n_qkv, 1);
  a[3].written = !is_sharp;
  a[3].terms = 12;
  a[4] = IN (n_out, 1);
}

static void run_attention (const Call *c)
{
  const PsAttention shape = attention_shape (c->s);
  const gsize element = ps_element_bytes (c->queue->element), head = (gsize)shape.head_size * element;
  const gsize k = (gsize)shape.heads * head, v = k + (gsize)shape.kv_heads * head;
  char *qkv = c->a[2], *dqkv = c->a[3];

  c->kernels->attention (c->queue, &shape, c->a[0], c->a[1], qkv, qkv + k, qkv + v);
  if (c->s[6] == 16)
    c->kernels->attention_backward (c->queue, &shape, dqkv, dqkv + k, dqkv + v, c->a[4], c->a[0], c->a[1], qkv,
                                    qkv + k, qkv + v);
}

/* --- optimizer: s = numbers --- */

static const int adam_cases[][MAX_SIZES] = { { 4 }, { 7 }, { 1028 }, { 0 } };

/* In fp32, 1 - 0.999 is 1.3e-5 off, relatively: so are the variance and a step. */
static void plan_adam (const int *s, Array *a)
{
  a[0] = IN_FLOATS (s[0], 0.02);
  a[1] = IN_FLOATS (s[0], 1);
  a[2] = IN_FLOATS (s[0], 0.1);
  a[3] = IN_FLOATS (s[0], 0.01);
  a[3].mean = 0.1;
  a[4] = OUT_FLOATS (s[0], 1);
  for (guint i = 0; i < 4; i++) {
    a[i].written = TRUE;
    a[i].terms = 3;
  }
}

/* The step that is tried out is what comes next. */
static void run_adam (const Call *c)
{
  void *const *a = c->a;
  const gsize n = (gsize)c->s[0];

  c->kernels->adam (c->queue, NULL, a[0], a[1], a[2], a[3], n, 0.25f, 1e-3, 1);
  c->kernels->adam_try (c->queue, NULL, a[4], a[0], a[1], a[2], a[3], n, 0.25f, 1e-3, 2);
  c->kernels->adam (c->queue, NULL, a[0], a[1], a[2], a[3], n, 0.25f, 1e-3, 2);
}

#define CASES(table) .cases = table, .n_cases = G_N_ELEMENTS (table)

static const Kernel tests[] = {
  { "norm", plan_norm, run_norm, CASES (rows_cases), .shifts = TRUE },
  { "norm-input", plan_norm_input, run_norm_input, CASES (rows_cases), .shifts = TRUE },
  { "norm-weights", plan_norm_weights, run_norm_weights, CASES (rows_cases), .shifts = TRUE },
  { "bias-gradient", plan_bias_gradient, run_bias_gradient, CASES (rows_cases), .shifts = TRUE },
  { "swiglu", plan_swiglu, run_swiglu, CASES (element_cases), .shifts = TRUE },
  { "rows", plan_rows, run_rows, CASES (slice_cases), .shifts = TRUE },
  { "rotary", plan_rotary, run_rotary, CASES (rotary_cases), .shifts = TRUE },
  { "products", plan_products, run_products, CASES (product_cases) },
  { "embedding", plan_embedding, run_embedding, CASES (embedding_cases), .shifts = TRUE },
  { "cross-entropy", plan_loss, run_loss, CASES (loss_cases), .shifts = TRUE },
  { "attention", plan_attention, run_attention, CASES (attention_cases), .shifts = TRUE },
  { "adam", plan_adam, run_adam, CASES (adam_cases), .shifts = TRUE },
};

/* --- the arrays of a case --- */

static float to_bf16 (double value)
{
  const float number = (float)value;
  guint32 bits;
  float rounded;

  memcpy (&bits, &number, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  memcpy (&rounded, &bits, sizeof rounded);
  return rounded;
}

static gsize array_bytes (const Array *array, PsElement element)
{
  return array->n
         * (array->doubles                      ? sizeof (double)
            : array->words > 0 || array->floats ? 4
                                                : ps_element_bytes (element));
}

static gboolean is_bf16 (const Array *array, PsElement element)
{
  return element == PS_ELEMENT_BF16 && !array->floats && array->words == 0 && !array->doubles;
}

/* Random numbers that the element has, or words, or what is not read: NaNs. As the cpu table takes them; g_free. */
static void *fill (const Array *array, PsElement element, GRand *random)
{
  float *values = g_malloc (array_bytes (array, PS_ELEMENT_FP32) + 1);

  memset (values, 0xff, array_bytes (array, PS_ELEMENT_FP32));
  for (gsize i = 0; array->words > 0 && i < array->n; i++)
    ((guint32 *)(void *)values)[i] = g_rand_int (random) % array->words;
  for (gsize i = 0; array->deviation > 0 && i < array->n; i++) {
    double sum = 0;

    for (guint k = 0; k < 4; k++)
      sum += g_rand_double (random) - 0.5;
    values[i] = (float)(array->mean + array->deviation * sqrt (3) * sum);
    if (is_bf16 (array, element))
      values[i] = to_bf16 (values[i]);
  }
  return values;
}

/* Numbers of the cpu table as bytes of an array of the device; g_free. */
static void *pack (const Array *array, PsElement element, const void *values)
{
  guint16 *halves = g_memdup2 (values, array_bytes (array, PS_ELEMENT_FP32) + 1);

  for (gsize i = 0; is_bf16 (array, element) && i < array->n; i++)
    halves[i] = ((const guint16 *)values)[2 * i + 1];
  return halves;
}

static double value_at (const Array *array, PsElement element, const void *bytes, gsize i)
{
  const guint32 bits = is_bf16 (array, element) ? (guint32)((const guint16 *)bytes)[i] << 16 : 0;
  float value;

  if (array->doubles)
    return ((const double *)bytes)[i];
  memcpy (&value, is_bf16 (array, element) ? (const void *)&bits : (const float *)bytes + i, sizeof value);
  return value;
}

/* --- the two tables --- */

static PsTransformer *device; /* whose queue the cuda table works in */
static PsQueue reference = { .element = PS_ELEMENT_FP32 };

static void *take (gsize bytes)
{
  void *block = ps_memory_pool_take (device->memory, MAX (bytes, 1), PS_USE_BUFFER);

  g_assert_nonnull (block);
  return block;
}

/* Both queues get the workspace that the case may need. */
static void open_tables (PsElement element)
{
  const PsAttention largest = { .batch = 3, .sequence = 400, .heads = 4, .kv_heads = 4, .head_size = 200, .past = 400 };
  static PsModel model;
  static PsDeviceSetting setting;

  model = small_model (1, 64, 2, 8);
  model.precision = element == PS_ELEMENT_BF16 ? PS_PRECISION_BF16 : PS_PRECISION_FP32;
  setting = (PsDeviceSetting){ .model = &model, .n_stages = 1, .n_microbatches = 1, .core = -1 };
  device = (PsTransformer *)fine (cuda_device->open (&setting, &error));
  fine (cuda_device->attach (&device->base, &error));
  device->queue->workspace = take (device->kernels->workspace (element, &largest, 20000));
  fine (ps_cpu_blas_load (&error));
  reference.workspace = g_malloc (ps_cpu_kernels.workspace (PS_ELEMENT_FP32, &largest, 20000));
}

static void close_tables (void)
{
  ps_memory_pool_give (device->memory, device->queue->workspace);
  g_clear_pointer (&reference.workspace, g_free);
  cuda_device->close (&device->base);
}

/* Runs a case on the device from these bytes, and returns the bytes of all arrays; NULL ends them. */
static void run_on_device (const Kernel *kernel, const int *s, const Array *arrays, void *const *packed, gsize shift,
                           void **results)
{
  const PsKernels *kernels = device->kernels;
  Call call = { .kernels = kernels, .queue = device->queue, .s = s };
  void *blocks[MAX_ARRAYS];

  ps_queue_begin (device->queue);
  for (guint i = 0; i < MAX_ARRAYS; i++) {
    const gsize bytes = array_bytes (&arrays[i], device->queue->element);

    blocks[i] = take (bytes + shift);
    if (arrays[i].n > 0)
      call.a[i] = (char *)blocks[i] + (arrays[i].doubles ? 0 : shift);
    if (arrays[i].n > 0)
      kernels->copy (device->queue, call.a[i], packed[i], bytes);
  }
  kernel->run (&call);
  for (guint i = 0; i < MAX_ARRAYS; i++) {
    results[i] = g_malloc0 (array_bytes (&arrays[i], device->queue->element) + 1);
    if (arrays[i].n > 0)
      kernels->copy (device->queue, results[i], call.a[i], array_bytes (&arrays[i], device->queue->element));
  }
  kernels->await (device->queue);
  fine (ps_queue_finish (device->queue, &error));
  for (guint i = 0; i < MAX_ARRAYS; i++)
    ps_memory_pool_give (device->memory, blocks[i]);
}

/* |x - e| <= r |e| + terms r largest: each of `terms` numbers is rounded once, and so is the result. */
static void compare (const char *what, const Array *array, const void *bytes, const void *expected, double *worst)
{
  const PsElement element = device->queue->element;
  const double relative = is_bf16 (array, element) ? BF16_ERROR : FP32_ERROR;
  double square = 0;

  for (gsize i = 0; i < array->n; i++)
    square += pow (value_at (array, PS_ELEMENT_FP32, expected, i), 2) / (double)array->n;
  for (gsize i = 0; i < array->n; i++) {
    const double x = value_at (array, element, bytes, i), e = value_at (array, PS_ELEMENT_FP32, expected, i);
    const double allowed = relative * fabs (e) + array->terms * relative * sqrt (square);

    *worst = MAX (*worst, allowed > 0 ? fabs (x - e) / allowed : 0);
    if (fabs (x - e) <= allowed || (isnan (x) && isnan (e)))
      continue;
    g_test_message ("%s: number %" G_GSIZE_FORMAT " is %.9g, expected %.9g within %.3g", what, i, x, e, allowed);
    g_test_fail ();
    return;
  }
}

static void check_case (const Kernel *kernel, const int *s, gsize shift, double *worst)
{
  void (*set_backwards) (_Bool)
      = (void (*) (_Bool))ps_module_function ("test", "cuda", "ps_emulator_set_backwards", NULL);
  const PsElement element = device->queue->element;
  Call call = { .kernels = &ps_cpu_kernels, .queue = &reference, .s = s };
  void *packed[MAX_ARRAYS], *first[MAX_ARRAYS], *second[MAX_ARRAYS], *expected[MAX_ARRAYS];
  g_autoptr (GRand) random = g_rand_new_with_seed (7);
  Array arrays[MAX_ARRAYS] = { 0 };

  kernel->plan (s, arrays);
  for (guint i = 0; i < MAX_ARRAYS; i++) {
    expected[i] = fill (&arrays[i], element, random);
    packed[i] = pack (&arrays[i], element, expected[i]);
    call.a[i] = arrays[i].n > 0 ? expected[i] : NULL;
  }
  kernel->run (&call);
  run_on_device (kernel, s, arrays, packed, shift, first);
  if (set_backwards != NULL)
    set_backwards (TRUE);
  run_on_device (kernel, s, arrays, packed, shift, second);
  if (set_backwards != NULL)
    set_backwards (FALSE);
  for (guint i = 0; i < MAX_ARRAYS; i++) {
    g_autofree char *what = g_strdup_printf ("%s, case %d %d %d %d %d, %s, array %u", kernel->name, s[0], s[1], s[2],
                                             s[3], s[4], element == PS_ELEMENT_BF16 ? "bf16" : "fp32", i);

    if (arrays[i].written) {
      compare (what, &arrays[i], first[i], expected[i], worst);
      if (memcmp (first[i], second[i], array_bytes (&arrays[i], element)) != 0) {
        g_test_message ("%s: a second run gave other bits", what);
        g_test_fail ();
      }
    }
    g_free (expected[i]);
    g_free (packed[i]);
    g_free (first[i]);
    g_free (second[i]);
  }
}

/* Attention runs with the instructions of flash-hopper.cu, which has heads of 64 and 128, and without. */
static void test_kernel (gconstpointer data)
{
  void (*refuse_endings) (int)
      = (void (*) (int))ps_module_function ("test", "cuda", "ps_emulator_refuse_epilogues", NULL);
  const Kernel *kernel = data;
  const gboolean attends = kernel->run == run_attention;

  for (PsElement element = PS_ELEMENT_FP32; element <= PS_ELEMENT_BF16; element++) {
    double worst = 0;

    open_tables (element);
    for (guint i = 0; i < kernel->n_cases; i++) {
      const int *s = kernel->cases[i];

      if (attends && s[7] == (element == PS_ELEMENT_BF16 ? 1 : 2))
        continue;
      if (kernel->run == run_products && refuse_endings != NULL)
        refuse_endings (s[3]);
      g_setenv ("PIPESIM_CUDA_HOPPER", "0", TRUE);
      check_case (kernel, s, 0, &worst);
      if (kernel->shifts && i % 4 == 1)
        check_case (kernel, s, 4, &worst);
      g_setenv ("PIPESIM_CUDA_HOPPER", "1", TRUE);
      if (attends && element == PS_ELEMENT_BF16 && s[4] % 64 == 0)
        check_case (kernel, s, 0, &worst);
    }
    if (refuse_endings != NULL)
      refuse_endings (0);
    close_tables ();
    g_test_message ("%s: errors are up to %.2g of those allowed", element == PS_ELEMENT_BF16 ? "bf16" : "fp32", worst);
  }
}

/* --- what must be exact --- */

/* s = numbers */
static void plan_copies (const int *s, Array *a)
{
  a[0] = IN_FLOATS (s[0], 100);
  a[1] = OUT (s[0], 0);
  for (guint i = 2; i < 6; i++)
    a[i] = IN_FLOATS (s[0], 1);
  a[5].mean = 4;
  a[6] = OUT (s[0], 0);
  a[7] = OUT_FLOATS (s[0], 0);
  a[8] = OUT (s[0], 0);
}

static void run_copies (const Call *c)
{
  const gsize n = (gsize)c->s[0];
  void *const *a = c->a;

  c->kernels->to_bf16 (c->queue, a[1], a[0], n);
  c->kernels->adam_try (c->queue, a[8], a[7], a[2], a[3], a[4], a[5], n, 0.25f, 1e-3, 3);
  c->kernels->adam (c->queue, a[6], a[2], a[3], a[4], a[5], n, 0.25f, 1e-3, 3);
}

static void assert_rounded (const void *halves, const float *values, int n)
{
  for (int i = 0; i < n; i++)
    g_assert_cmpfloat (value_at (&OUT (n, 0), PS_ELEMENT_BF16, halves, (gsize)i), ==, to_bf16 (values[i]));
}

/* To nearest even: 1 + 2^-8 lies between 1 and 1 + 2^-7 and goes to 1, 1 + 3 * 2^-8 goes up to 1 + 2^-6. A step gives
 * the bits that were tried out. */
static void test_rounding (void)
{
  const Kernel kernel = { "copies", plan_copies, run_copies, NULL, 0, FALSE };

  g_assert_cmpfloat (to_bf16 (1 + 1.0 / 256), ==, 1);
  g_assert_cmpfloat (to_bf16 (1 + 3.0 / 256), ==, 1 + 1.0 / 64);
  open_tables (PS_ELEMENT_BF16);
  for (int n = 4; n < 2000; n = n * 7 + 3) {
    g_autoptr (GRand) random = g_rand_new_with_seed (5);
    void *given[MAX_ARRAYS], *found[MAX_ARRAYS];
    Array arrays[MAX_ARRAYS] = { 0 };

    plan_copies (&n, arrays);
    for (guint i = 0; i < MAX_ARRAYS; i++)
      given[i] = fill (&arrays[i], PS_ELEMENT_BF16, random);
    ((float *)given[0])[0] = 1 + 1.0f / 256;
    ((float *)given[0])[1] = -INFINITY;
    run_on_device (&kernel, &n, arrays, given, 0, found);
    assert_rounded (found[1], given[0], n);
    assert_rounded (found[6], found[2], n);
    g_assert_cmpmem (found[7], (gsize)n * sizeof (float), found[2], (gsize)n * sizeof (float));
    g_assert_cmpmem (found[8], (gsize)n * 2, found[6], (gsize)n * 2);
    for (guint i = 0; i < MAX_ARRAYS; i++) {
      g_free (given[i]);
      g_free (found[i]);
    }
  }
  close_tables ();
}

/* Sums of numbers whose squares are exact. */
static void test_norm_square (void)
{
  open_tables (PS_ELEMENT_FP32);
  for (gsize n = 0; n < 300000; n = n * 99 + 7) {
    g_autofree float *values = g_new (float, n + 1);
    float *block = take (n * sizeof (float));
    double expected = 0;

    for (gsize i = 0; i < n; i++) {
      values[i] = (float)(i % 64) - 32;
      expected += values[i] * values[i] / 4;
    }
    device->kernels->copy (device->queue, block, values, n * sizeof (float));
    g_assert_cmpfloat (device->kernels->norm_square (device->queue, block, n, 0.5f), ==, expected);
    ps_memory_pool_give (device->memory, block);
  }
  close_tables ();
}

/* Gradients of the embedding add up in the order of the tokens: 1 + 2^-24 + 2^-24 stays 1 in fp32, while 2^-24 + 2^-24
 * + 1 does not. */
static void test_order (void)
{
  static const float little = 1.0f / 16777216, gradients[2][3] = { { 1, little, little }, { little, little, 1 } };
  static const guint32 words[4] = { 0 };
  float *sum, *slope;
  guint32 *word;

  open_tables (PS_ELEMENT_FP32);
  sum = take (sizeof *sum);
  slope = take (sizeof gradients[0]);
  word = take (sizeof words);
  device->kernels->copy (device->queue, word, words, sizeof words);
  for (guint i = 0; i < 2; i++) {
    float found;

    device->kernels->clear (device->queue, sum, 0, sizeof *sum);
    device->kernels->copy (device->queue, slope, gradients[i], sizeof gradients[i]);
    device->kernels->embedding_weights (device->queue, sum, NULL, slope, word, 1, 3, 1);
    device->kernels->copy (device->queue, &found, sum, sizeof found);
    device->kernels->await (device->queue);
    g_assert_cmpfloat (found, ==, i == 0 ? 1 : 1 + 2 * little);
  }
  ps_memory_pool_give (device->memory, sum);
  ps_memory_pool_give (device->memory, slope);
  ps_memory_pool_give (device->memory, word);
  close_tables ();
}

/* Shapes without code are problems of the queue: 3 heads on 2 kv heads; outputs that overlap; more than the simple
 * attention takes. */
static void test_refusals (void)
{
  static const PsAttention shapes[] = { { 1, 4, 3, 2, 8, 56, 24, 56, 0, true },
                                        { 1, 4, 3, 3, 8, 72, 23, 72, 0, true },
                                        { 1, 4, 1, 1, 1025, 3075, 1025, 3075, 0, true },
                                        { 1, 8193, 1, 1, 8, 24, 8, 24, 0, true } };

  open_tables (PS_ELEMENT_FP32);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++) {
    ps_queue_begin (device->queue);
    device->kernels->attention (device->queue, &shapes[i], NULL, NULL, NULL, NULL, NULL);
    refused (ps_queue_finish (device->queue, &error), PS_ERROR_UNAVAILABLE, "attention: invalid argument");
  }
  ps_queue_begin (device->queue);
  close_tables ();
}

/* --- figures --- */

static void time_swiglu (const Call *c)
{
  c->kernels->swiglu (c->queue, c->a[0], c->a[1], (char *)c->a[1] + 2 * c->s[1], c->s[0], c->s[1], 2 * c->s[1]);
}

static void time_swiglu_input (const Call *c)
{
  char *gate = c->a[1], *up = gate + 2 * c->s[1];

  c->kernels->swiglu_input (c->queue, gate, up, c->a[2], gate, up, c->s[0], c->s[1], 2 * c->s[1]);
}

static void time_rotary (const Call *c)
{
  c->kernels->rotary (c->queue, c->a[1], c->a[0], c->s[0] * c->s[1], c->s[1], c->s[2], c->s[3], c->s[4], FALSE);
}

static void time_adam (const Call *c)
{
  c->kernels->adam (c->queue, c->a[6], c->a[2], c->a[3], c->a[4], c->a[5], (gsize)c->s[0], 1, 1e-3, 1);
}

static void time_to_bf16 (const Call *c)
{
  c->kernels->to_bf16 (c->queue, c->a[1], c->a[0], (gsize)c->s[0]);
}

static void time_embedding (const Call *c)
{
  c->kernels->embedding (c->queue, c->a[0], c->a[1], NULL, c->a[3], c->s[0], c->s[1], c->s[2]);
}

static void time_embedding_weights (const Call *c)
{
  c->kernels->embedding_weights (c->queue, c->a[4], c->a[5], c->a[6], c->a[3], c->s[0], c->s[1], c->s[2]);
}

static void time_loss (const Call *c)
{
  c->kernels->cross_entropy (c->queue, c->a[0], c->a[1], c->a[2], c->s[0], c->s[1], c->s[2], c->s[3], 1);
}

static void time_attention (const Call *c)
{
  const PsAttention shape = attention_shape (c->s);
  const gsize head = 2 * (gsize)shape.head_size, k = (gsize)shape.heads * head, v = k + (gsize)shape.kv_heads * head;
  char *qkv = c->a[2];

  c->kernels->attention (c->queue, &shape, c->a[0], c->a[1], qkv, qkv + k, qkv + v);
}

static void time_attention_backward (const Call *c)
{
  const PsAttention shape = attention_shape (c->s);
  const gsize head = 2 * (gsize)shape.head_size, k = (gsize)shape.heads * head, v = k + (gsize)shape.kv_heads * head;
  char *qkv = c->a[2], *dqkv = c->a[3];

  c->kernels->attention_backward (c->queue, &shape, dqkv, dqkv + k, dqkv + v, c->a[4], c->a[0], c->a[1], qkv, qkv + k,
                                  qkv + v);
}

/* Median of 15 runs in milliseconds after three more, the wait for each included. The arrays are larger than the
 * second-level cache. */
static double median_ms (void (*plan) (const int *s, Array *a), void (*run) (const Call *c), const int *s)
{
  Call call = { .kernels = device->kernels, .queue = device->queue, .s = s };
  Array arrays[MAX_ARRAYS] = { 0 };
  double ms[15];

  plan (s, arrays);
  for (guint i = 0; i < MAX_ARRAYS; i++) {
    const gsize bytes = array_bytes (&arrays[i], PS_ELEMENT_BF16);

    call.a[i] = take (bytes);
    device->kernels->clear (device->queue, call.a[i], arrays[i].words > 0 ? 0 : 0x3c, bytes); /* numbers near 0.01 */
  }
  for (guint i = 0; i < 18; i++) {
    const gint64 begin_ns = ps_clock_now ();

    run (&call);
    device->kernels->await (device->queue);
    ms[i % 15] = (double)(ps_clock_now () - begin_ns) * 1e-6;
  }
  fine (ps_queue_finish (device->queue, &error));
  for (guint i = 0; i < MAX_ARRAYS; i++)
    ps_memory_pool_give (device->memory, call.a[i]);
  for (guint i = 1; i < 15; i++)
    for (guint k = i; k > 0 && ms[k] < ms[k - 1]; k--) {
      const double swapped = ms[k];

      ms[k] = ms[k - 1];
      ms[k - 1] = swapped;
    }
  return ms[7];
}

#define N (16384.0 * 4096)

/* bytes: that must be read and written at least, each array once. */
static const struct {
  const char *name;
  void (*plan) (const int *s, Array *a);
  void (*run) (const Call *c);
  int s[MAX_SIZES];
  double bytes;
} figures[] = {
  { "layer norm", plan_norm, run_norm, { 16384, 4096, 1 }, 4 * N },
  { "RMS norm", plan_norm, run_norm, { 16384, 4096, 0 }, 4 * N },
  { "layer norm input, twice", plan_norm_input, run_norm_input, { 16384, 4096, 1 }, 14 * N },
  { "layer norm weights", plan_norm_weights, run_norm_weights, { 16384, 4096, 1 }, 6 * N },
  { "bias gradient", plan_bias_gradient, run_bias_gradient, { 16384, 4096 }, 2 * N },
  { "SwiGLU", plan_swiglu, time_swiglu, { 16384, 8192 }, 12 * N },
  { "SwiGLU input", plan_swiglu, time_swiglu_input, { 16384, 8192 }, 20 * N },
  { "rotary", plan_rotary, time_rotary, { 4, 4096, 32, 128, 4096 }, 4 * N },
  { "Adam", plan_copies, time_adam, { 16384 * 4096 }, 34 * N },
  { "to bf16", plan_copies, time_to_bf16, { 16384 * 4096 }, 6 * N },
  { "cross-entropy, 8192 x 50304", plan_loss, time_loss, { 2, 4096, 50304, 50304, 1 }, 4 * 8192.0 * 50304 },
  { "embedding, 8192 x 4096", plan_embedding, time_embedding, { 2, 4096, 4096, 50304, 0 }, 2 * N },
  { "embedding weights, 8192 x 4096", plan_embedding, time_embedding_weights, { 2, 4096, 4096, 50304, 1 }, 8 * N },
};

/* FLOPs as PyTorch and the papers count them: two products of s^2 / 2 scores forward, 4 s^2 d heads / 2; backward 2.5
 * times that, though this backward makes seven products where five would do. */
static void print_attention (int head_size, int sequence, gboolean hopper)
{
  const int width = 2048, s[] = { 16384 / sequence, sequence, width / head_size, width / head_size, head_size, 0, 16 };
  const double flops = 2.0 * 16384 * sequence * width;

  g_setenv ("PIPESIM_CUDA_HOPPER", hopper ? "1" : "0", TRUE);
  const double forward_ms = median_ms (plan_attention, time_attention, s);
  const double backward_ms = median_ms (plan_attention, time_attention_backward, s);
  g_test_message ("measured: attention %s, heads of %3d, s = %5d: forward %8.4f ms %6.1f TFLOP/s, backward %8.4f ms "
                  "%6.1f TFLOP/s",
                  hopper ? "by groups of warps" : "by warps", head_size, sequence, forward_ms,
                  flops / forward_ms * 1e-9, backward_ms, 2.5 * flops / backward_ms * 1e-9);
}

static void test_figures (void)
{
  static const int head_sizes[] = { 128, 64, 96, 32 };
  g_autofree char *processor = cuda_device->processor ();

  open_tables (PS_ELEMENT_BF16);
  g_test_message ("measured on %s, bf16, medians of 15 runs", processor);
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++) {
    const double ms = median_ms (figures[i].plan, figures[i].run, figures[i].s);

    g_test_message ("measured: %-36s %9.4f ms %8.1f GB/s", figures[i].name, ms, figures[i].bytes / ms * 1e-6);
  }
  for (guint i = 0; i < G_N_ELEMENTS (head_sizes); i++)
    for (int sequence = 1024; sequence <= 16384; sequence *= 4)
      for (gboolean hopper = FALSE; hopper <= (head_sizes[i] % 64 == 0); hopper++)
        print_attention (head_sizes[i], sequence, hopper);
  close_tables ();
}

int main (int argc, char **argv)
{
  cuda_init (&argc, &argv);
  if (g_test_perf ()) {
    cuda_add ("/cuda-figures", test_figures);
    return g_test_run ();
  }
  g_test_set_nonfatal_assertions ();
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++) {
    g_autofree char *path = g_strdup_printf ("/cuda-kernels/%s", tests[i].name);

    if (cuda_problem == NULL)
      g_test_add_data_func (path, &tests[i], test_kernel);
    else
      cuda_add (path, cuda_skip);
  }
  cuda_add ("/cuda-kernels/rounding", test_rounding);
  cuda_add ("/cuda-kernels/norm-square", test_norm_square);
  cuda_add ("/cuda-kernels/order", test_order);
  cuda_add ("/cuda-kernels/refusals", test_refusals);
  return g_test_run ();
}

/* test-cuda-kernels.c - every function of the cuda table of kernels gives what the cpu table gives for the same
 * arrays, and the same bits twice. With -m perf it measures instead what each reaches on a GPU.
 *
 * Each function that `tests` names says what arrays a case has and how a table is called: it runs once to plan, then
 * for both tables. The emulation takes the second run backwards, which also shows missing barriers. */
#include "clock.h"
#include "cuda-device-rig.h"
#include "train/cpu/cpu.h"
#include "train/transformer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARRAYS 12
#define MAX_SIZES 10

/* What storing a result costs: 2^-8 for bf16 (8 significant bits, half a unit in the last place); and what fp32
 * arithmetic does on the way. */
#define BF16_ERROR (1.0 / 256)
#define FP32_ERROR 1e-5

/* An array of a case, with n numbers; 0: there is none. */
typedef struct {
  gsize n;
  enum { ELEMENTS, FLOATS, DOUBLES, WORDS } type;
  guint vocabulary; /* words are below it */
  double deviation; /* 0: not read */
  double mean;
  double terms; /* 0: not written. Else so many numbers like the largest add up to one of it, rounded on the way */
} Array;

/* One call of one table, or the plan of its arrays. */
typedef struct {
  const PsKernels *kernels; /* NULL: this is the plan */
  PsQueue *queue;
  const int *s; /* sizes */
  Array *arrays;
  void *const *blocks;
  guint n; /* arrays so far */
} Call;

static void *add (Call *c, Array array)
{
  if (c->kernels == NULL)
    c->arrays[c->n] = array;
  return c->kernels != NULL && array.n > 0 ? c->blocks[c->n++] : (c->n++, NULL);
}

/* Arrays that are read, written, or both; of the queue's element or of float. `many` is Array.terms. */
static void *in (Call *c, int n, double deviation)
{
  return add (c, (Array){ .n = (gsize)n, .deviation = deviation });
}

static void *in_floats (Call *c, int n, double deviation, double mean)
{
  return add (c, (Array){ .n = (gsize)n, .type = FLOATS, .deviation = deviation, .mean = mean });
}

static void *out (Call *c, int n, double many)
{
  return add (c, (Array){ .n = (gsize)n, .terms = many });
}

static void *out_floats (Call *c, int n, double many)
{
  return add (c, (Array){ .n = (gsize)n, .type = FLOATS, .terms = many });
}

static void *both (Call *c, int n, double deviation, double many)
{
  return add (c, (Array){ .n = (gsize)n, .deviation = deviation, .terms = many });
}

static void *both_floats (Call *c, int n, double mean, double many)
{
  return add (c, (Array){ .n = (gsize)n, .type = FLOATS, .deviation = 1, .mean = mean, .terms = many });
}

static void *words (Call *c, int n, int vocabulary)
{
  return add (c, (Array){ .n = (gsize)n, .type = WORDS, .vocabulary = (guint)vocabulary });
}

/* A function of the tables, or some that belong together. */
typedef struct {
  const char *name;
  void (*run) (Call *c);
  const int (*cases)[MAX_SIZES];
  guint n_cases;
  gboolean aligned; /* no case begins off 16 bytes */
} Kernel;

/* --- norms and sums over rows: s = rows, columns, 1 for a layer norm and 0 for an RMS norm, 1 for inputs so small that
 * epsilon counts --- */

/* One warp per row, a block per row with few and with many packs, rows that no layout keeps, odd rows. */
static const int rows_cases[][MAX_SIZES] = {
  { 1, 8, 1 },     { 7, 33, 0 },      { 64, 512, 1 }, { 9, 1024, 0 }, { 3, 2500, 1 },  { 2, 8200, 0 }, { 5, 64, 1 },
  { 130, 256, 0 }, { 9, 1024, 1, 1 }, { 3, 1032, 0 }, { 2, 5000, 1 }, { 1, 16400, 1 }, { 300, 72, 1 }, { 300, 72, 0 },
};

static void norm (Call *c)
{
  const int rows = c->s[0], columns = c->s[1], n = rows * columns;
  void *y = out (c, n, 3), *mean = out_floats (c, c->s[2] * rows, 1), *scale = out_floats (c, rows, 1);
  void *x = in (c, n, c->s[3] ? 0.01 : 2), *gain = in (c, columns, 1), *bias = in (c, c->s[2] * columns, 1);

  if (c->kernels != NULL)
    c->kernels->norm (c->queue, y, mean, scale, x, gain, bias, rows, columns);
}

/* Also on top of a residual, in place. */
static void norm_input (Call *c)
{
  const int rows = c->s[0], columns = c->s[1], n = rows * columns;
  void *dx = out (c, n, 10), *residual = both (c, n, 1, 10), *dy = in (c, n, 1), *x = in (c, n, 2);
  void *mean = in_floats (c, c->s[2] * rows, 0.5, 0), *scale = in_floats (c, rows, 0.1, 0.6),
       *gain = in (c, columns, 1);

  if (c->kernels == NULL)
    return;
  c->kernels->norm_input (c->queue, dx, NULL, dy, x, mean, scale, gain, rows, columns);
  c->kernels->norm_input (c->queue, residual, residual, dy, x, mean, scale, gain, rows, columns);
}

static void norm_weights (Call *c)
{
  const int rows = c->s[0], columns = c->s[1], n = rows * columns, centred = c->s[2];
  void *dgain = both_floats (c, columns, 0, rows), *dbias = both_floats (c, centred * columns, 0, rows);
  void *y = out (c, n, 10), *dy = in (c, n, 1), *x = in (c, n, 1), *mean = in_floats (c, centred * rows, 1, 0);
  void *scale = in_floats (c, rows, 1, 0), *gain = in (c, columns, 1), *bias = in (c, centred * columns, 1);

  if (c->kernels != NULL)
    c->kernels->norm_weights (c->queue, dgain, dbias, y, dy, x, mean, scale, gain, bias, rows, columns);
}

static void bias_gradient (Call *c)
{
  void *dbias = both_floats (c, c->s[1], 0, c->s[0]), *dy = in (c, c->s[0] * c->s[1], 1);

  if (c->kernels != NULL)
    c->kernels->bias_gradient (c->queue, dbias, dy, c->s[0], c->s[1]);
}

/* --- element by element: s = rows, columns --- */

/* Rows of whole 16 bytes and not, more columns than a block has threads. */
static const int element_cases[][MAX_SIZES]
    = { { 1, 8 }, { 7, 33 }, { 130, 24 }, { 3, 1100 }, { 5, 296 }, { 2, 2100 }, { 64, 40 }, { 0, 8 } };

/* The gradients overwrite gate and up, which lie side by side. */
static void swiglu (Call *c)
{
  const int rows = c->s[0], columns = c->s[1], n = rows * columns;
  void *y = out (c, n, 1), *gate = both (c, 2 * n, 2, 1), *dy = in (c, n, 1);

  if (c->kernels == NULL)
    return;
  void *up = (char *)gate + (gsize)columns * ps_element_bytes (c->queue->element);
  c->kernels->swiglu (c->queue, y, gate, up, rows, columns, 2 * columns);
  c->kernels->swiglu_input (c->queue, gate, up, dy, gate, up, rows, columns, 2 * columns);
}

/* s = sequences, rows of a slice, columns, tokens of a sequence, stride */
static const int slice_cases[][MAX_SIZES]
    = { { 2, 3, 8, 7, 24 }, { 1, 5, 33, 5, 40 }, { 3, 4, 64, 9, 64 }, { 2, 1, 2056, 2, 2056 } };

static void rows_of_slices (Call *c)
{
  const int *s = c->s, n = s[0] * s[3] * s[4], dense = s[0] * s[1] * s[2];
  const PsRows to = { both (c, n, 1, 1), s[3], s[4] }, own = { both (c, n, 1, 1), s[3], s[4] };
  const PsRows from = { in (c, n, 1), s[3], s[4] };
  void *more = in_floats (c, dense, 1, 0), *sum = both_floats (c, dense, 0, 1), *copy = out_floats (c, dense, 1);

  if (c->kernels == NULL)
    return;
  c->kernels->rows_copy (c->queue, to, from, NULL, s[0], s[1], s[2]);
  c->kernels->rows_copy (c->queue, own, own, more, s[0], s[1], s[2]);
  c->kernels->rows_add (c->queue, sum, FALSE, from, s[0], s[1], s[2]);
  c->kernels->rows_add (c->queue, copy, TRUE, from, s[0], s[1], s[2]);
}

/* s = sequences, tokens of each, heads, head_size, stride, backward */
static const int rotary_cases[][MAX_SIZES]
    = { { 1, 7, 3, 10, 35, 0 }, { 2, 65, 2, 64, 128, 1 }, { 2, 65, 3, 32, 104, 0 }, { 1, 9, 1, 6, 7, 1 } };

static void rotary (Call *c)
{
  const int *s = c->s;
  void *table = out_floats (c, s[1] * s[3], 1), *x = both (c, s[0] * s[1] * s[4], 1, 1);

  if (c->kernels == NULL)
    return;
  c->kernels->rotary_table (c->queue, table, s[1], s[3], 10000);
  c->kernels->rotary (c->queue, x, table, s[0] * s[1], s[1], s[2], s[3], s[4], s[5]);
}

/* --- products, with endings that the library has and endings by kernels: s = rows, in, out, endings refused --- */

static const int product_cases[][MAX_SIZES] = {
  { 16, 24, 40, 0 }, { 7, 33, 11, 0 }, { 64, 8, 2104, 1 }, { 1, 8, 8, 2 }, { 5, 296, 1104, 1 }, { 130, 40, 24, 2 },
};

static void products (Call *c)
{
  const int rows = c->s[0], width = c->s[1], wide = c->s[2], n = rows * wide;
  void *y = out (c, n, 3), *x = in (c, rows * width, 1), *w = in (c, width * wide, 1 / sqrt (width));
  void *bias = in (c, wide, 1), *dy = in (c, n, 1), *g = out (c, n, 6), *z = out (c, n, 3);
  void *dx = out (c, rows * width, 3 + sqrt (wide)), *dz = out (c, rows * width, 3 + sqrt (wide));
  void *dw = both_floats (c, width * wide, 0, rows);

  if (c->kernels == NULL)
    return;
  c->kernels->linear (c->queue, y, x, w, bias, dy, rows, width, wide);
  c->kernels->linear_gelu (c->queue, g, z, x, w, bias, rows, width, wide);
  c->kernels->linear_input (c->queue, dx, dy, w, rows, width, wide);
  c->kernels->linear_gelu_input (c->queue, dz, dy, w, x, rows, width, wide);
  c->kernels->linear_weights (c->queue, dw, x, dy, rows, width, wide);
}

/* --- both ends of a model: s = sequences, tokens of each, hidden, vocabulary, positions --- */

/* Few words: each comes often. */
static const int embedding_cases[][MAX_SIZES] = {
  { 1, 1, 8, 1, 1 },    { 2, 33, 24, 11, 0 },  { 1, 130, 13, 3, 1 },
  { 2, 65, 64, 50, 1 }, { 1, 7, 1100, 20, 0 }, { 3, 50, 10, 1000, 1 },
};

static void embedding (Call *c)
{
  const int *s = c->s, tokens = s[0] * s[1], n = tokens * s[2], n_positions = s[4] * s[1] * s[2];
  void *x = out (c, n, 1), *token = in (c, s[3] * s[2], 1), *position = in (c, n_positions, 1);
  void *word = words (c, s[0] * (s[1] + 1), s[3]), *dtoken = both_floats (c, s[3] * s[2], 0, tokens);
  void *dposition = both_floats (c, n_positions, 0, s[0]), *dx = in (c, n, 1);

  if (c->kernels == NULL)
    return;
  c->kernels->embedding (c->queue, x, token, position, word, s[0], s[1], s[2]);
  c->kernels->embedding_weights (c->queue, dtoken, dposition, dx, word, s[0], s[1], s[2]);
}

/* s = sequences, tokens of each, vocabulary, stride, deviation of the logits */
static const int loss_cases[][MAX_SIZES] = {
  { 1, 1, 1, 1, 1 },    { 2, 33, 11, 11, 2 },    { 1, 7, 5000, 5000, 5 }, { 1, 3, 2500, 2560, 1 },
  { 1, 64, 8, 12, 40 }, { 1, 7, 9001, 9008, 4 }, { 1, 4, 4099, 4099, 1 }, { 1, 64, 40, 40, 30 },
};

static void cross_entropy (Call *c)
{
  const int *s = c->s, tokens = s[0] * s[1];
  void *logits = both (c, tokens * s[3], s[4], 1), *loss = out_floats (c, tokens, 1);
  void *word = words (c, s[0] * (s[1] + 1), s[2]), *total = add (c, (Array){ .n = 1, .type = DOUBLES, .terms = 1 });

  if (c->kernels == NULL)
    return;
  c->kernels->cross_entropy (c->queue, logits, loss, word, s[0], s[1], s[2], s[3], 1 / (float)tokens);
  c->kernels->loss_sum (c->queue, total, loss, tokens, 0.125);
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

/* q, k and v side by side, as one product leaves them; outputs with a gap after each token. The gradients of sharp
 * scores are differences of large numbers, and are left out. */
static void attention (Call *c)
{
  const int *s = c->s, stride = (s[2] + 2 * s[3]) * s[4], out_stride = s[2] * s[4] + 8;
  const int n_qkv = s[0] * (s[5] + s[1]) * stride, n_out = s[0] * s[1] * out_stride;
  const gboolean is_sharp = s[6] > 16;
  const PsAttention shape = { s[0], s[1], s[2], s[3], s[4], stride, out_stride, stride, s[5], true };
  void *y = both (c, n_out, 1, is_sharp ? 40 : 3), *kept = out_floats (c, s[0] * s[1] * s[2], is_sharp ? 100 : 1);
  char *q = in (c, n_qkv, s[6] / 16.0), *dq = both (c, n_qkv, 1, 16);
  void *dy = in (c, n_out, 1);

  if (c->kernels == NULL)
    return;
  const gsize head = (gsize)s[4] * ps_element_bytes (c->queue->element), k = (gsize)s[2] * head;
  const gsize v = k + (gsize)s[3] * head;
  c->kernels->attention (c->queue, &shape, y, kept, q, q + k, q + v);
  if (!is_sharp)
    c->kernels->attention_backward (c->queue, &shape, dq, dq + k, dq + v, dy, y, kept, q, q + k, q + v);
}

/* --- optimizer: s = numbers --- */

static const int adam_cases[][MAX_SIZES] = { { 4 }, { 7 }, { 1028 }, { 0 } };

/* The step that is tried out is what comes next. */
static void adam (Call *c)
{
  const int n = c->s[0];
  void *master = both_floats (c, n, 0, 3), *gradient = both_floats (c, n, 0, 3), *momentum = both_floats (c, n, 0, 3);
  void *variance = both_floats (c, n, 4, 3), *tried = out_floats (c, n, 3);

  if (c->kernels == NULL)
    return;
  c->kernels->adam (c->queue, NULL, master, gradient, momentum, variance, (gsize)n, 0.25f, 1e-3, 1);
  c->kernels->adam_try (c->queue, NULL, tried, master, gradient, momentum, variance, (gsize)n, 0.25f, 1e-3, 2);
  c->kernels->adam (c->queue, NULL, master, gradient, momentum, variance, (gsize)n, 0.25f, 1e-3, 2);
}

#define CASES(table) .cases = table, .n_cases = G_N_ELEMENTS (table)

static const Kernel tests[] = {
  { "norm", norm, CASES (rows_cases) },
  { "norm-input", norm_input, CASES (rows_cases) },
  { "norm-weights", norm_weights, CASES (rows_cases) },
  { "bias-gradient", bias_gradient, CASES (rows_cases) },
  { "swiglu", swiglu, CASES (element_cases) },
  { "rows", rows_of_slices, CASES (slice_cases) },
  { "rotary", rotary, CASES (rotary_cases) },
  { "products", products, CASES (product_cases), .aligned = TRUE },
  { "embedding", embedding, CASES (embedding_cases) },
  { "cross-entropy", cross_entropy, CASES (loss_cases) },
  { "attention", attention, CASES (attention_cases) },
  { "adam", adam, CASES (adam_cases) },
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
  return array->n * (array->type == DOUBLES ? 8 : array->type == ELEMENTS ? ps_element_bytes (element) : 4);
}

static gboolean is_bf16 (const Array *array, PsElement element)
{
  return element == PS_ELEMENT_BF16 && array->type == ELEMENTS;
}

/* Random numbers that the element has, or words, or what is not read: NaNs. As the cpu table takes them; g_free. */
static void *fill (const Array *array, PsElement element, GRand *random)
{
  float *values = g_malloc (array_bytes (array, PS_ELEMENT_FP32) + 1);

  memset (values, 0xff, array_bytes (array, PS_ELEMENT_FP32));
  for (gsize i = 0; array->type == WORDS && i < array->n; i++)
    ((guint32 *)(void *)values)[i] = g_rand_int (random) % array->vocabulary;
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

  if (array->type == DOUBLES)
    return ((const double *)bytes)[i];
  memcpy (&value, is_bf16 (array, element) ? (const void *)&bits : (const float *)bytes + i, sizeof value);
  return value;
}

static void plan (const Kernel *kernel, const int *s, Array *arrays)
{
  Call call = { .s = s, .arrays = arrays };

  kernel->run (&call);
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
  void *blocks[MAX_ARRAYS], *begins[MAX_ARRAYS];
  Call call = { .kernels = kernels, .queue = device->queue, .s = s, .blocks = begins };

  ps_queue_begin (device->queue);
  for (guint i = 0; i < MAX_ARRAYS; i++) {
    const gsize bytes = array_bytes (&arrays[i], device->queue->element);

    blocks[i] = take (bytes + shift);
    begins[i] = (char *)blocks[i] + (arrays[i].type == DOUBLES ? 0 : shift);
    kernels->copy (device->queue, begins[i], packed[i], bytes);
  }
  kernel->run (&call);
  for (guint i = 0; i < MAX_ARRAYS; i++) {
    results[i] = g_malloc0 (array_bytes (&arrays[i], device->queue->element) + 1);
    kernels->copy (device->queue, results[i], begins[i], array_bytes (&arrays[i], device->queue->element));
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
  void *packed[MAX_ARRAYS], *first[MAX_ARRAYS], *second[MAX_ARRAYS], *expected[MAX_ARRAYS];
  Call call = { .kernels = &ps_cpu_kernels, .queue = &reference, .s = s, .blocks = expected };
  g_autoptr (GRand) random = g_rand_new_with_seed (7);
  Array arrays[MAX_ARRAYS] = { 0 };

  plan (kernel, s, arrays);
  for (guint i = 0; i < MAX_ARRAYS; i++) {
    expected[i] = fill (&arrays[i], element, random);
    packed[i] = pack (&arrays[i], element, expected[i]);
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

    if (arrays[i].terms > 0) {
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
  const gboolean attends = kernel->run == attention;

  for (PsElement element = PS_ELEMENT_FP32; element <= PS_ELEMENT_BF16; element++) {
    double worst = 0;

    open_tables (element);
    for (guint i = 0; i < kernel->n_cases; i++) {
      const int *s = kernel->cases[i];

      if (attends && s[7] == (element == PS_ELEMENT_BF16 ? 1 : 2))
        continue;
      if (kernel->run == products && refuse_endings != NULL)
        refuse_endings (s[3]);
      g_setenv ("PIPESIM_CUDA_HOPPER", "0", TRUE);
      check_case (kernel, s, 0, &worst);
      if (!kernel->aligned && i % 4 == 1)
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
static void copies (Call *c)
{
  const gsize n = (gsize)c->s[0];
  void *from = in_floats (c, c->s[0], 100, 0), *to = out (c, c->s[0], 1), *master = both_floats (c, c->s[0], 0, 1);
  void *gradient = both_floats (c, c->s[0], 0, 1), *momentum = both_floats (c, c->s[0], 0, 1);
  void *variance = both_floats (c, c->s[0], 4, 1), *weights = out (c, c->s[0], 1);
  void *tried = out_floats (c, c->s[0], 1), *tried_weights = out (c, c->s[0], 1);

  if (c->kernels == NULL)
    return;
  c->kernels->to_bf16 (c->queue, to, from, n);
  c->kernels->adam_try (c->queue, tried_weights, tried, master, gradient, momentum, variance, n, 0.25f, 1e-3, 3);
  c->kernels->adam (c->queue, weights, master, gradient, momentum, variance, n, 0.25f, 1e-3, 3);
}

static void assert_rounded (const void *halves, const float *values, int n)
{
  for (int i = 0; i < n; i++)
    g_assert_cmpfloat (value_at (&(Array){ .n = 1 }, PS_ELEMENT_BF16, halves, (gsize)i), ==, to_bf16 (values[i]));
}

/* To nearest even: 1 + 2^-8 lies between 1 and 1 + 2^-7 and goes to 1, 1 + 3 * 2^-8 goes up to 1 + 2^-6. A step gives
 * the bits that were tried out. */
static void test_rounding (void)
{
  const Kernel kernel = { .run = copies };

  g_assert_cmpfloat (to_bf16 (1 + 1.0 / 256), ==, 1);
  g_assert_cmpfloat (to_bf16 (1 + 3.0 / 256), ==, 1 + 1.0 / 64);
  open_tables (PS_ELEMENT_BF16);
  for (int n = 4; n < 2000; n = n * 7 + 3) {
    g_autoptr (GRand) random = g_rand_new_with_seed (5);
    void *given[MAX_ARRAYS], *found[MAX_ARRAYS];
    Array arrays[MAX_ARRAYS] = { 0 };

    plan (&kernel, &n, arrays);
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

static gint compare_doubles (gconstpointer a, gconstpointer b)
{
  const double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

/* Median of 15 runs in milliseconds after three more, the wait for each included. The arrays are larger than the
 * second-level cache. */
static double median_ms (const Kernel *kernel, const int *s)
{
  Array arrays[MAX_ARRAYS] = { 0 };
  void *blocks[MAX_ARRAYS];
  double ms[15];

  plan (kernel, s, arrays);
  for (guint i = 0; i < MAX_ARRAYS; i++) {
    const gsize bytes = array_bytes (&arrays[i], PS_ELEMENT_BF16);

    blocks[i] = take (bytes);
    device->kernels->clear (device->queue, blocks[i], arrays[i].type == WORDS ? 0 : 0x3c,
                            bytes); /* numbers near 0.01 */
  }
  for (guint i = 0; i < 18; i++) {
    Call call = { .kernels = device->kernels, .queue = device->queue, .s = s, .blocks = blocks };
    const gint64 begin_ns = ps_clock_now ();

    kernel->run (&call);
    device->kernels->await (device->queue);
    ms[i % 15] = (double)(ps_clock_now () - begin_ns) * 1e-6;
  }
  fine (ps_queue_finish (device->queue, &error));
  for (guint i = 0; i < MAX_ARRAYS; i++)
    ps_memory_pool_give (device->memory, blocks[i]);
  qsort (ms, 15, sizeof *ms, compare_doubles);
  return ms[7];
}

#define N (16384.0 * 4096)

/* bytes: that must be read and written at least, each array once for each function. */
static const struct {
  const char *what, *name;
  int s[MAX_SIZES];
  double bytes;
} figures[] = {
  { "layer norm", "norm", { 16384, 4096, 1 }, 4 * N },
  { "RMS norm", "norm", { 16384, 4096, 0 }, 4 * N },
  { "layer norm input, twice", "norm-input", { 16384, 4096, 1 }, 14 * N },
  { "layer norm weights", "norm-weights", { 16384, 4096, 1 }, 6 * N },
  { "bias gradient", "bias-gradient", { 16384, 4096 }, 2 * N },
  { "SwiGLU and its gradient", "swiglu", { 16384, 8192 }, 32 * N },
  { "rotary and its table", "rotary", { 4, 4096, 32, 128, 4096, 0 }, 4 * N },
  { "Adam, three steps", "adam", { 16384 * 4096 }, (32 + 32 + 20) * N },
  { "cross-entropy, 8192 x 50304", "cross-entropy", { 2, 4096, 50304, 50304, 1 }, 4 * 8192.0 * 50304 },
  { "embedding and its gradient", "embedding", { 2, 4096, 4096, 50304, 1 }, 10 * N },
};

static const Kernel *kernel_of (const char *name)
{
  const Kernel *kernel = tests;

  while (g_strcmp0 (kernel->name, name) != 0)
    kernel++;
  return kernel;
}

/* FLOPs as PyTorch and the papers count them: two products of s^2 / 2 scores forward, 4 s^2 d heads / 2; backward 2.5
 * times that, though this backward makes seven products where five would do. */
static void print_attention (int head_size, int sequence, gboolean hopper)
{
  const int width = 2048, heads = width / head_size;
  const int forward[] = { 16384 / sequence, sequence, heads, heads, head_size, 0, 17 };
  const int both[] = { 16384 / sequence, sequence, heads, heads, head_size, 0, 16 };
  const double flops = 2.0 * 16384 * sequence * width;

  g_setenv ("PIPESIM_CUDA_HOPPER", hopper ? "1" : "0", TRUE);
  const double ms = median_ms (kernel_of ("attention"), forward);
  const double backward_ms = median_ms (kernel_of ("attention"), both) - ms;
  g_test_message ("measured: attention %s, heads of %3d, s = %5d: forward %8.4f ms %6.1f TFLOP/s, backward %8.4f ms "
                  "%6.1f TFLOP/s",
                  hopper ? "by groups of warps" : "by warps", head_size, sequence, ms, flops / ms * 1e-9, backward_ms,
                  2.5 * flops / backward_ms * 1e-9);
}

static void test_figures (void)
{
  static const int head_sizes[] = { 128, 64, 96, 32 };
  g_autofree char *processor = cuda_device->processor ();

  open_tables (PS_ELEMENT_BF16);
  g_test_message ("measured on %s, bf16, medians of 15 runs", processor);
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++) {
    const double ms = median_ms (kernel_of (figures[i].name), figures[i].s);

    g_test_message ("measured: %-36s %9.4f ms %8.1f GB/s", figures[i].what, ms, figures[i].bytes / ms * 1e-6);
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

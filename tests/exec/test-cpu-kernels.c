/* test-cpu-kernels.c - the kernels of the cpu backend against formulas in double precision. A gradient is checked
 * against differences of the formula that it is the gradient of. */
#include "train/cpu/cpu.h"
#include "train/data.h"
#include "transformer-reference.h"

#include <string.h>

static const PsKernels *const kernels = &ps_cpu_kernels;

#define N_INPUTS 3

/* out = formula (in), an array each. */
typedef struct _Case Case;
struct _Case {
  void (*formula) (const Case *c, double *const *in, double *out);
  gsize n_in[N_INPUTS], n_out;
  int rows, columns, width;
  PsAttention shape;

  float *in[N_INPUTS];
  double *exact[N_INPUTS]; /* the same numbers */
  float *dout;             /* a gradient of out */
};

static float *random_numbers (gsize n, guint seed)
{
  float *numbers = g_new (float, n + 1);

  ps_data_weights (numbers, n, 1, seed, 0, 0);
  return numbers;
}

static void case_init (Case *c)
{
  for (guint k = 0; k < N_INPUTS; k++) {
    c->in[k] = random_numbers (c->n_in[k], k + 1);
    c->exact[k] = g_new (double, c->n_in[k] + 1);
    for (gsize i = 0; i < c->n_in[k]; i++)
      c->exact[k][i] = c->in[k][i];
  }
  c->dout = random_numbers (c->n_out, 9);
}

static void case_clear (Case *c)
{
  for (guint k = 0; k < N_INPUTS; k++) {
    g_free (c->in[k]);
    g_free (c->exact[k]);
  }
  g_free (c->dout);
}

/* fp32 carries 6e-8 of each number, and sums of some dozens of numbers about 1 a few times that. */
static void check_near (const char *what, const float *actual, const double *expected, gsize n, gsize stride)
{
  double largest = 1;

  for (gsize i = 0; i < n; i += stride)
    largest = fmax (largest, fabs (expected[i]));
  for (gsize i = 0; i < n; i += stride)
    if (!(fabs ((double)actual[i] - expected[i]) < 2e-6 * largest))
      g_error ("%s: number %" G_GSIZE_FORMAT " is %.9g, not %.9g", what, i, (double)actual[i], expected[i]);
}

static void check_output (const Case *c, const char *what, const float *actual)
{
  g_autofree double *expected = g_new (double, c->n_out);

  c->formula (c, c->exact, expected);
  check_near (what, actual, expected, c->n_out, 1);
}

static double weighted_output (const Case *c, double *out)
{
  double sum = 0;

  c->formula (c, c->exact, out);
  for (gsize i = 0; i < c->n_out; i++)
    sum += (double)c->dout[i] * out[i];
  return sum;
}

/* The gradient of each stride-th number of input k, against (f (x + e) - f (x - e)) / 2e, which is off by about e^2.
 * times: how often the kernel has added it. */
static void check_gradient (const Case *c, const char *what, guint k, const float *actual, double times, gsize stride)
{
  const double step = 1e-5;
  g_autofree double *out = g_new (double, c->n_out), *expected = g_new0 (double, c->n_in[k]);

  for (gsize i = 0; i < c->n_in[k]; i += stride) {
    double *x = &c->exact[k][i];
    const double at = *x;

    *x = at + step;
    const double above = weighted_output (c, out);
    *x = at - step;
    const double below = weighted_output (c, out);
    *x = at;
    expected[i] = times * (above - below) / (2 * step);
  }
  check_near (what, actual, expected, c->n_in[k], stride);
}

/* --- products --- */

static void linear_formula (const Case *c, double *const *in, double *out)
{
  for (int row = 0; row < c->rows; row++)
    reference_linear (out + row * c->width, in[0] + row * c->columns, in[1], in[2], (guint)c->columns, (guint)c->width);
}

static void test_linear (void)
{
  enum { ROWS = 5, IN = 19, OUT = 35 };
  Case c = { .formula = linear_formula,
             .n_in = { ROWS * IN, IN * OUT, OUT },
             .n_out = ROWS * OUT,
             .rows = ROWS,
             .columns = IN,
             .width = OUT };
  PsQueue queue = { 0 };

  case_init (&c);
  g_autofree float *y = random_numbers (c.n_out, 5), *dx = g_new (float, ROWS *IN);
  g_autofree float *dw = g_new0 (float, IN *OUT), *residual = g_memdup2 (y, ROWS * OUT * sizeof (float));
  float dbias[OUT] = { 0 };

  kernels->linear (&queue, y, c.in[0], c.in[1], c.in[2], NULL, ROWS, IN, OUT);
  check_output (&c, "linear", y);
  kernels->linear_input (&queue, dx, c.dout, c.in[1], ROWS, IN, OUT);
  check_gradient (&c, "linear_input", 0, dx, 1, 1);
  for (guint i = 0; i < 2; i++) {
    kernels->linear_weights (&queue, dw, c.in[0], c.dout, ROWS, IN, OUT);
    kernels->bias_gradient (&queue, dbias, c.dout, ROWS, OUT);
  }
  check_gradient (&c, "linear_weights", 1, dw, 2, 1);
  check_gradient (&c, "bias_gradient", 2, dbias, 2, 1);

  /* What is added: nothing, the residual alone, both, the residual in y. */
  for (guint i = 0; i < 4; i++) {
    const gboolean has_bias = i >= 2, has_residual = i > 0;
    const float *other = i == 3 ? y : residual;
    g_autofree double *expected = g_new (double, c.n_out);
    double *const in[] = { c.exact[0], c.exact[1], has_bias ? c.exact[2] : NULL };

    linear_formula (&c, in, expected);
    for (gsize k = 0; k < c.n_out && has_residual; k++)
      expected[k] += (double)residual[k];
    memcpy (y, residual, c.n_out * sizeof (float));
    kernels->linear (&queue, y, c.in[0], c.in[1], has_bias ? c.in[2] : NULL, has_residual ? other : NULL, ROWS, IN,
                     OUT);
    check_near ("linear with a residual", y, expected, c.n_out, 1);
  }
  case_clear (&c);
}

/* --- element by element --- */

static void gelu_formula (const Case *c, double *const *in, double *out)
{
  for (gsize i = 0; i < c->n_out; i++)
    out[i] = reference_gelu (in[0][i]);
}

/* With weights that are the unit matrix, the products change nothing. */
static void test_gelu (void)
{
  enum { ROWS = 21, COLUMNS = 19 };
  Case c = { .formula = gelu_formula, .n_in = { ROWS * COLUMNS }, .n_out = ROWS * COLUMNS };
  g_autofree float *unit = g_new0 (float, COLUMNS *COLUMNS), *g = g_new (float, ROWS *COLUMNS);
  g_autofree float *x = g_new (float, ROWS *COLUMNS), *z = g_new (float, ROWS *COLUMNS),
                   *dz = g_new (float, ROWS *COLUMNS);
  float bias[COLUMNS], dg[ROWS * COLUMNS];
  PsQueue queue = { .workspace = dg };

  case_init (&c);
  for (int i = 0; i < COLUMNS; i++) {
    unit[i * COLUMNS + i] = 1;
    bias[i] = (float)i / 8;
  }
  for (int i = 0; i < ROWS * COLUMNS; i++) {
    c.exact[0][i] = c.in[0][i] = (float)(i - 200) / 16; /* x and bias add up to it exactly */
    x[i] = c.in[0][i] - bias[i % COLUMNS];
  }
  kernels->linear_gelu (&queue, g, z, x, unit, bias, ROWS, COLUMNS, COLUMNS);
  g_assert_cmpmem (z, ROWS * COLUMNS * sizeof (float), c.in[0], ROWS * COLUMNS * sizeof (float));
  check_output (&c, "linear_gelu", g);
  kernels->linear_gelu_input (&queue, dz, c.dout, unit, z, ROWS, COLUMNS, COLUMNS);
  check_gradient (&c, "linear_gelu_input", 0, dz, 1, 1);
  kernels->linear_gelu_input (&queue, z, c.dout, unit, z, ROWS, COLUMNS, COLUMNS);
  g_assert_cmpmem (z, ROWS * COLUMNS * sizeof (float), dz, ROWS * COLUMNS * sizeof (float));
  case_clear (&c);
}

static void swiglu_formula (const Case *c, double *const *in, double *out)
{
  for (int row = 0; row < c->rows; row++)
    for (int i = 0; i < c->columns; i++) {
      const double *gate = in[0] + row * 2 * c->columns;

      out[row * c->columns + i] = reference_swiglu (gate[i], gate[c->columns + i]);
    }
}

static void test_swiglu (void)
{
  enum { ROWS = 3, COLUMNS = 21 };
  Case c = {
    .formula = swiglu_formula, .n_in = { ROWS * 2 * COLUMNS }, .n_out = ROWS * COLUMNS, .rows = ROWS, .columns = COLUMNS
  };
  float y[ROWS * COLUMNS], dgate[ROWS * 2 * COLUMNS];
  PsQueue queue = { 0 };

  case_init (&c);
  kernels->swiglu (&queue, y, c.in[0], c.in[0] + COLUMNS, ROWS, COLUMNS, 2 * COLUMNS);
  check_output (&c, "swiglu", y);
  kernels->swiglu_input (&queue, dgate, dgate + COLUMNS, c.dout, c.in[0], c.in[0] + COLUMNS, ROWS, COLUMNS,
                         2 * COLUMNS);
  check_gradient (&c, "swiglu_input", 0, dgate, 1, 1);
  kernels->swiglu_input (&queue, c.in[0], c.in[0] + COLUMNS, c.dout, c.in[0], c.in[0] + COLUMNS, ROWS, COLUMNS,
                         2 * COLUMNS);
  check_gradient (&c, "swiglu_input in place", 0, c.in[0], 1, 1);
  case_clear (&c);
}

/* --- norms --- */

static void norm_formula (const Case *c, double *const *in, double *out)
{
  for (int row = 0; row < c->rows; row++)
    reference_norm (out + row * c->columns, in[0] + row * c->columns, in[1], c->n_in[2] > 0 ? in[2] : NULL,
                    (guint)c->columns);
}

static void check_norm (int rows, int columns, gboolean centred)
{
  const gsize n = (gsize)(rows * columns), width = (gsize)columns;
  Case c = {
    .formula = norm_formula, .n_in = { n, width, centred ? width : 0 }, .n_out = n, .rows = rows, .columns = columns
  };
  g_autofree float *y = g_new (float, n), *again = g_new (float, n), *dx = g_new (float, n);
  g_autofree float *mean = centred ? g_new (float, rows) : NULL, *scale = g_new (float, rows);
  g_autofree float *dgain = g_new0 (float, width), *dbias = g_new0 (float, width), *residual = random_numbers (n, 7);
  g_autofree double *sum = g_new (double, n);
  PsQueue queue = { 0 };

  case_init (&c);
  float *bias = centred ? c.in[2] : NULL;
  kernels->norm (&queue, y, mean, scale, c.in[0], c.in[1], bias, rows, columns);
  check_output (&c, "norm", y);
  kernels->norm_input (&queue, dx, NULL, c.dout, c.in[0], mean, scale, c.in[1], rows, columns);
  check_gradient (&c, "norm_input", 0, dx, 1, 1);
  for (guint i = 0; i < 2; i++)
    kernels->norm_weights (&queue, dgain, centred ? dbias : NULL, again, c.dout, c.in[0], mean, scale, c.in[1], bias,
                           rows, columns);
  g_assert_cmpmem (again, n * sizeof (float), y, n * sizeof (float));
  check_gradient (&c, "norm_weights: gain", 1, dgain, 2, 1);
  if (centred)
    check_gradient (&c, "norm_weights: bias", 2, dbias, 2, 1);

  for (gsize i = 0; i < n; i++)
    sum[i] = (double)dx[i] + (double)residual[i];
  kernels->norm_input (&queue, dx, residual, c.dout, c.in[0], mean, scale, c.in[1], rows, columns);
  check_near ("norm_input with a residual", dx, sum, n, 1);
  kernels->norm_input (&queue, c.dout, residual, c.dout, c.in[0], mean, scale, c.in[1], rows, columns);
  g_assert_cmpmem (c.dout, n * sizeof (float), dx, n * sizeof (float));
  case_clear (&c);
}

static void test_norms (void)
{
  for (guint centred = 0; centred < 2; centred++) {
    check_norm (5, 37, centred != 0);
    check_norm (3, 16, centred != 0);
    check_norm (2, 5, centred != 0);
  }
}

/* --- the ends of a model --- */

/* Two sequences of three tokens, and the word after each. */
static const guint32 some_words[] = { 4, 1, 4, 0, 2, 2, 3, 4 };
enum { WORDS_BATCH = 2, WORDS_SEQUENCE = 3, WORDS_TOKENS = 6, N_WORDS = 5 };

static guint32 some_word (int token)
{
  return some_words[token / WORDS_SEQUENCE * (WORDS_SEQUENCE + 1) + token % WORDS_SEQUENCE];
}

static void embedding_formula (const Case *c, double *const *in, double *out)
{
  for (int t = 0; t < WORDS_TOKENS; t++)
    for (int i = 0; i < c->columns; i++)
      out[t * c->columns + i] = in[0][(int)some_word (t) * c->columns + i]
                                + (c->n_in[1] > 0 ? in[1][t % WORDS_SEQUENCE * c->columns + i] : 0);
}

static void test_embedding (void)
{
  enum { COLUMNS = 7 };
  float x[WORDS_TOKENS * COLUMNS];
  PsQueue queue = { 0 };

  for (guint places = 0; places < 2; places++) {
    Case c = { .formula = embedding_formula,
               .n_in = { N_WORDS * COLUMNS, places ? WORDS_SEQUENCE * COLUMNS : 0 },
               .n_out = WORDS_TOKENS * COLUMNS,
               .columns = COLUMNS };
    float dtoken[N_WORDS * COLUMNS] = { 0 }, dposition[WORDS_SEQUENCE * COLUMNS] = { 0 };

    case_init (&c);
    kernels->embedding (&queue, x, c.in[0], places ? c.in[1] : NULL, some_words, WORDS_BATCH, WORDS_SEQUENCE, COLUMNS);
    check_output (&c, "embedding", x);
    for (guint i = 0; i < 2; i++)
      kernels->embedding_weights (&queue, dtoken, places ? dposition : NULL, c.dout, some_words, WORDS_BATCH,
                                  WORDS_SEQUENCE, COLUMNS);
    check_gradient (&c, "embedding_weights: words", 0, dtoken, 2, 1);
    if (places)
      check_gradient (&c, "embedding_weights: places", 1, dposition, 2, 1);
    case_clear (&c);
  }
}

static void cross_entropy_formula (const Case *c, double *const *in, double *out)
{
  for (int t = 0; t < WORDS_TOKENS; t++)
    out[t] = reference_cross_entropy (in[0] + t * c->columns, N_WORDS, (&some_words[t / WORDS_SEQUENCE])[t + 1]);
}

static void test_cross_entropy (void)
{
  enum { STRIDE = 8 };
  Case c = {
    .formula = cross_entropy_formula, .n_in = { WORDS_TOKENS * STRIDE }, .n_out = WORDS_TOKENS, .columns = STRIDE
  };
  float loss[WORDS_TOKENS];
  double expected[WORDS_TOKENS], total, sum = 0;
  PsQueue queue = { 0 };

  case_init (&c);
  for (int t = 0; t < WORDS_TOKENS; t++)
    c.dout[t] = 0.25f;
  c.formula (&c, c.exact, expected);
  kernels->cross_entropy (&queue, c.in[0], loss, some_words, WORDS_BATCH, WORDS_SEQUENCE, N_WORDS, STRIDE, 0.25f);
  check_near ("cross_entropy", loss, expected, WORDS_TOKENS, 1);
  check_gradient (&c, "cross_entropy: gradient", 0, c.in[0], 1, 1);
  kernels->loss_sum (&queue, &total, loss, WORDS_TOKENS, 0.5);
  for (int t = 0; t < WORDS_TOKENS; t++)
    sum += 0.5 * expected[t];
  g_assert_cmpfloat (fabs (total - sum), <, 1e-6);

  /* Logits far apart do not overflow. */
  float far[2] = { -3e4f, 3e4f };
  const guint32 words[2] = { 0, 0 };
  kernels->cross_entropy (&queue, far, loss, words, 1, 1, 2, 2, 1);
  g_assert_cmpfloat (fabsf (loss[0] - 6e4f), <, 1e-2f);
  case_clear (&c);
}

/* --- attention --- */

static void turn_formula (const Case *c, double *const *in, double *out)
{
  memcpy (out, in[0], c->n_out * sizeof *out);
  for (int row = 0; row < c->rows; row++)
    for (int head = 0; head < 2; head++)
      reference_turn (out + row * c->width + head * c->columns, (guint)c->columns, (guint)(row % 4 + 2));
}

/* Two of three heads of 10 numbers, in two sequences of four tokens from the third place on. */
static void test_rotary (void)
{
  enum { ROWS = 8, SIZE = 10, STRIDE = 3 * SIZE };
  Case c = { .formula = turn_formula,
             .n_in = { ROWS * STRIDE },
             .n_out = ROWS * STRIDE,
             .rows = ROWS,
             .columns = SIZE,
             .width = STRIDE };
  float table[6 * SIZE];
  PsQueue queue = { 0 };

  case_init (&c);
  kernels->rotary_table (&queue, table, 6, SIZE, 10000);
  kernels->rotary (&queue, c.in[0], table + 2 * SIZE, ROWS, 4, 2, SIZE, STRIDE, FALSE);
  check_output (&c, "rotary", c.in[0]);
  kernels->rotary (&queue, c.dout, table + 2 * SIZE, ROWS, 4, 2, SIZE, STRIDE, TRUE);
  g_autofree float *back = g_steal_pointer (&c.dout);
  c.dout = random_numbers (c.n_out, 9);
  check_gradient (&c, "rotary backward", 0, back, 1, 1);
  case_clear (&c);
}

static void attention_formula (const Case *c, double *const *in, double *out)
{
  const PsAttention *shape = &c->shape;
  const int size = shape->head_size, width = shape->past + shape->sequence;

  for (int row = 0; row < shape->batch; row++)
    for (int head = 0; head < shape->heads; head++)
      for (int t = 0; t < shape->sequence; t++) {
        const int token = row * shape->sequence + t;
        const int key = row * width * shape->kv_stride + head / (shape->heads / shape->kv_heads) * size;

        reference_attend (out + token * shape->out_stride + head * size,
                          in[0] + token * shape->qkv_stride + head * size, in[1] + key, in[2] + key,
                          (guint)(shape->past + t + 1), (guint)shape->kv_stride, (guint)size);
      }
}

/* q has a gap after each token, keys and values have none. in_place: gradients replace q, k and v. */
static void check_attention (PsAttention shape, gsize stride, gboolean in_place)
{
  const int q_width = shape.heads * shape.head_size, kv_width = shape.kv_heads * shape.head_size;
  const gsize tokens = (gsize)(shape.batch * shape.sequence),
              keys = (gsize)(shape.batch * (shape.past + shape.sequence));

  shape.qkv_stride = q_width + 3;
  shape.out_stride = q_width;
  shape.kv_stride = kv_width;
  Case c = { .formula = attention_formula,
             .n_in = { tokens * (gsize)shape.qkv_stride, keys * (gsize)kv_width, keys * (gsize)kv_width },
             .n_out = tokens * (gsize)q_width,
             .shape = shape };
  PsQueue queue = { .workspace = g_malloc (kernels->workspace (PS_ELEMENT_FP32, &shape, q_width)) };
  g_autofree float *out = g_new (float, c.n_out), *gradients[N_INPUTS] = { NULL };
  g_autofree void *kept = g_malloc (kernels->attention_kept_bytes (&shape));

  case_init (&c);
  for (guint k = 0; k < N_INPUTS; k++)
    gradients[k] = in_place ? c.in[k] : g_new0 (float, c.n_in[k]);
  kernels->attention (&queue, &shape, out, kept, c.in[0], c.in[1], c.in[2]);
  check_output (&c, "attention", out);
  kernels->attention_backward (&queue, &shape, gradients[0], gradients[1], gradients[2], c.dout, out, kept, c.in[0],
                               c.in[1], c.in[2]);
  for (gsize t = 0; in_place && t < tokens; t++) /* the gaps are no inputs */
    memset (gradients[0] + t * (gsize)shape.qkv_stride + q_width, 0, 3 * sizeof (float));
  for (guint k = 0; k < N_INPUTS; k++) {
    check_gradient (&c, "attention_backward", k, gradients[k], 1, stride);
    if (!in_place)
      g_free (gradients[k]);
  }
  gradients[0] = NULL;
  g_free (queue.workspace);
  case_clear (&c);
}

/* One token; some; grouped heads; keys before the first query; more queries than a tile has. */
static void test_attention (void)
{
  static const PsAttention shapes[] = {
    { .batch = 1, .sequence = 1, .heads = 1, .kv_heads = 1, .head_size = 3 },
    { .batch = 2, .sequence = 7, .heads = 3, .kv_heads = 3, .head_size = 5 },
    { .batch = 2, .sequence = 6, .heads = 4, .kv_heads = 2, .head_size = 4 },
    { .batch = 2, .sequence = 3, .heads = 2, .kv_heads = 1, .head_size = 4, .past = 6 },
    { .batch = 1, .sequence = 150, .heads = 2, .kv_heads = 1, .head_size = 4, .past = 20 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    for (guint how = 0; how < 4; how++) {
      PsAttention shape = shapes[i];

      shape.flash = how % 2 != 0;
      check_attention (shape, shape.sequence > 100 ? 37 : 1, how >= 2);
    }
}

/* Scores of several hundreds: softmax takes one key, and nothing overflows. */
static void test_large_scores (void)
{
  enum { N = 40, SIZE = 8 };
  PsAttention shape = { .batch = 1,
                        .sequence = N,
                        .heads = 1,
                        .kv_heads = 1,
                        .head_size = SIZE,
                        .qkv_stride = SIZE,
                        .out_stride = SIZE,
                        .kv_stride = SIZE,
                        .flash = TRUE };
  Case c
      = { .formula = attention_formula, .n_in = { N * SIZE, N * SIZE, N * SIZE }, .n_out = N * SIZE, .shape = shape };
  PsQueue queue = { .workspace = g_malloc (kernels->workspace (PS_ELEMENT_FP32, &shape, SIZE)) };
  float out[N * SIZE], lse[N], dq[N * SIZE], dk[N * SIZE], dv[N * SIZE];

  case_init (&c);
  for (guint i = 0; i < N * SIZE; i++)
    for (guint k = 0; k < 2; k++)
      c.exact[k][i] = (double)(c.in[k][i] = roundf (c.in[k][i]) * 8);
  kernels->attention (&queue, &shape, out, lse, c.in[0], c.in[1], c.in[2]);
  check_output (&c, "attention", out);
  kernels->attention_backward (&queue, &shape, dq, dk, dv, c.dout, out, lse, c.in[0], c.in[1], c.in[2]);
  for (guint i = 0; i < N * SIZE; i++)
    g_assert_true (isfinite (dq[i]) && isfinite (dk[i]) && isfinite (dv[i]));
  g_free (queue.workspace);
  case_clear (&c);
}

/* --- rows and the optimizer --- */

/* Slices of two rows out of sequences of three, with two of four columns. */
static void test_rows (void)
{
  float from[24], to[24] = { 0 }, sum[8] = { 100 }, more[8];
  const PsRows source = { from + 1, 3, 4 }, target = { to + 2, 3, 4 };
  PsQueue queue = { 0 };

  for (int i = 0; i < 24; i++)
    from[i] = (float)i;
  for (int i = 0; i < 8; i++)
    more[i] = 0.5f;
  kernels->rows_copy (&queue, target, source, more, 2, 2, 2);
  for (int i = 0; i < 24; i++) {
    const gboolean written = i / 4 % 3 < 2 && i % 4 >= 2;

    g_assert_cmpfloat (to[i], ==, written ? (float)i - 0.5f : 0);
  }
  kernels->rows_copy (&queue, target, source, NULL, 2, 2, 2);
  g_assert_cmpfloat (to[2], ==, 1);
  kernels->rows_add (&queue, sum, TRUE, source, 2, 2, 2);
  kernels->rows_add (&queue, sum, FALSE, source, 2, 2, 2);
  for (int i = 0; i < 8; i++)
    g_assert_cmpfloat (sum[i], ==, 2 * (float)(i / 4 * 12 + i / 2 % 2 * 4 + i % 2 + 1));
}

static void test_adam (void)
{
  enum { N = 1500 }; /* more than the block that a trial copies */
  const float factor = 0.25f;
  g_autofree float *master = random_numbers (N, 1), *gradient = random_numbers (N, 2), *tried = g_new (float, N);
  g_autofree float *momentum = random_numbers (N, 3), *variance = random_numbers (N, 4);
  g_autofree double *weights = g_new (double, N), *first = g_new (double, N), *second = g_new (double, N);
  PsQueue queue = { 0 };
  double square = 0;

  for (int i = 0; i < N; i++) {
    variance[i] *= variance[i];
    const double slope = (double)gradient[i] * (double)factor;

    square += slope * slope;
    first[i] = 0.9 * (double)momentum[i] + 0.1 * slope;
    second[i] = 0.999 * (double)variance[i] + 0.001 * slope * slope;
    weights[i]
        = (double)master[i] - 0.01 * (first[i] / (1 - pow (0.9, 3))) / (sqrt (second[i] / (1 - pow (0.999, 3))) + 1e-8);
  }
  g_assert_cmpfloat (fabs (kernels->norm_square (&queue, gradient, N, factor) / square - 1), <, 1e-6);
  g_autofree float *before = g_memdup2 (master, N * sizeof (float));
  kernels->adam_try (&queue, NULL, tried, master, gradient, momentum, variance, N, factor, 0.01, 3);
  g_assert_cmpmem (before, N * sizeof (float), master, N * sizeof (float));
  kernels->adam (&queue, NULL, master, gradient, momentum, variance, N, factor, 0.01, 3);
  g_assert_cmpmem (tried, N * sizeof (float), master, N * sizeof (float));
  check_near ("adam: weights", master, weights, N, 1);
  check_near ("adam: first moment", momentum, first, N, 1);
  check_near ("adam: second moment", variance, second, N, 1);
  for (int i = 0; i < N; i++)
    g_assert_cmpfloat (gradient[i], ==, 0);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_true (ps_cpu_blas_load (NULL));
  g_test_add_func ("/cpu-kernels/linear", test_linear);
  g_test_add_func ("/cpu-kernels/gelu", test_gelu);
  g_test_add_func ("/cpu-kernels/swiglu", test_swiglu);
  g_test_add_func ("/cpu-kernels/norms", test_norms);
  g_test_add_func ("/cpu-kernels/embedding", test_embedding);
  g_test_add_func ("/cpu-kernels/cross-entropy", test_cross_entropy);
  g_test_add_func ("/cpu-kernels/rotary", test_rotary);
  g_test_add_func ("/cpu-kernels/attention", test_attention);
  g_test_add_func ("/cpu-kernels/attention/large-scores", test_large_scores);
  g_test_add_func ("/cpu-kernels/rows", test_rows);
  g_test_add_func ("/cpu-kernels/adam", test_adam);
  return g_test_run ();
}

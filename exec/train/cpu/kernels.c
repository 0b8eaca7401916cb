/* kernels.c - the kernels of train/kernels.h on a processor, in fp32: OpenBLAS makes the matrix products, loops that
 * the compiler turns into vector instructions the rest. Each function has done its work when it returns.
 *
 * The order of sums is fixed: they keep LANES partial sums, because the compiler may not reorder a float sum by itself.
 * Each function is compiled for x86-64-v4, x86-64-v3 and plain x86-64. The program picks one when it is loaded, so one
 * machine always uses the same code.
 */
#include "cpu.h"
#include "train/memory.h"

#include <gmodule.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- OpenBLAS --- */

#define BLAS_LIBRARY "libopenblas.so.0" /* the library's name for the loader, the same for every version */

PsCpuBlas ps_cpu_blas;

gboolean ps_cpu_blas_load (GError **error)
{
  static GMutex mutex;
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&mutex);

  if (ps_cpu_blas.sgemm != NULL)
    return TRUE;
  g_setenv ("OPENBLAS_NUM_THREADS", "1", TRUE); /* each device has its own thread */
  GModule *library = g_module_open (BLAS_LIBRARY, G_MODULE_BIND_LOCAL);
  if (library != NULL && g_module_symbol (library, "openblas_get_config", (gpointer *)&ps_cpu_blas.config)
      && g_module_symbol (library, "openblas_get_corename", (gpointer *)&ps_cpu_blas.corename)
      && g_module_symbol (library, "cblas_sgemm", (gpointer *)&ps_cpu_blas.sgemm)) {
    g_module_make_resident (library);
    return TRUE;
  }
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "cpu device: OpenBLAS can't be loaded: %s", g_module_error ());
}

/* --- memory --- */

#define ALIGNMENT 64

/* Bytes allocated by all devices of this process. The system grants more memory than it has, and kills a process that
 * uses it. */
static gint64 n_allocated; /* atomic */

static void count (gint64 bytes)
{
  __atomic_add_fetch (&n_allocated, bytes, __ATOMIC_RELAXED);
}

static void *allocate (gsize bytes)
{
  void *block = NULL;

  if ((gint64)bytes <= ps_physical_bytes () - __atomic_load_n (&n_allocated, __ATOMIC_RELAXED)
      && posix_memalign (&block, ALIGNMENT, bytes) == 0)
    count ((gint64)malloc_usable_size (block));
  return block;
}

static void release (void *block)
{
  count (-(gint64)malloc_usable_size (block));
  free (block);
}

static PsMemoryPool *pool_new (void)
{
  static const PsPoolSource source = { .granule = ALIGNMENT, .allocate = allocate, .release = release };

  return ps_memory_pool_new (&source, ps_physical_bytes ());
}

static void clear (PsQueue *queue, void *block, int value, size_t bytes)
{
  memset (block, value, bytes);
}

static void copy (PsQueue *queue, void *to, const void *from, size_t bytes)
{
  memcpy (to, from, bytes);
}

static void await (PsQueue *queue)
{
}

/* --- parts of loops --- */

/* Two builds have no clones. clang's clones do not link (seen with 14). ThreadSanitizer can't be called as early as
 * clones are chosen. There the build flags alone decide. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && __GNUC__ >= 12                             \
    && !defined(__SANITIZE_THREAD__)
#define KERNEL __attribute__ ((target_clones ("arch=x86-64-v4", "arch=x86-64-v3", "default"))) static
#else
#define KERNEL static
#endif
#define INLINE static inline __attribute__ ((always_inline))

#define LANES 16
#define NORM_EPSILON 1e-5f

/* e^x to 2 units in the last place: x = k log 2 + r, a polynomial for e^r (Cephes' expf), k added to the exponent bits.
 */
INLINE float exponential (float x)
{
  const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves the rounded number in the low bits */

  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504f + round;
  const float k = shifted - round;
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * (r * r) + r + 1.0f;
  guint32 exponent, bits;
  memcpy (&exponent, &shifted, sizeof exponent);
  memcpy (&bits, &y, sizeof bits);
  bits += exponent << 23;
  float result;
  memcpy (&result, &bits, sizeof result);
  return result;
}

INLINE float sum_lanes (const float *lane)
{
  float half[LANES / 2];

  for (int i = 0; i < LANES / 2; i++)
    half[i] = lane[i] + lane[i + LANES / 2];
  return ((half[0] + half[4]) + (half[1] + half[5])) + ((half[2] + half[6]) + (half[3] + half[7]));
}

INLINE float sum (const float *x, int n)
{
  float lane[LANES] = { 0 };
  int i = 0;

  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      lane[k] += x[i + k];
  for (int k = 0; i + k < n; k++)
    lane[k] += x[i + k];
  return sum_lanes (lane);
}

INLINE float dot (const float *x, const float *y, int n)
{
  float lane[LANES] = { 0 };
  int i = 0;

  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      lane[k] += x[i + k] * y[i + k];
  for (int k = 0; i + k < n; k++)
    lane[k] += x[i + k] * y[i + k];
  return sum_lanes (lane);
}

INLINE float maximum (const float *x, int n)
{
  float lane[LANES];
  int i = 0;

  for (int k = 0; k < LANES; k++)
    lane[k] = x[0];
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
  for (int k = 0; i + k < n; k++)
    lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
  for (int k = 1; k < LANES; k++)
    lane[0] = lane[k] > lane[0] ? lane[k] : lane[0];
  return lane[0];
}

/* Replaces the first n numbers of a row of `end` by e^(x - top), where top is their maximum; *total is the sum. It
 * works on whole LANES, which is faster than the odd rest. Returns how many numbers are written: those after n are 0.
 */
INLINE int exponentials (float *restrict x, int n, int end, float *top, float *total)
{
  const int whole = MIN ((n + LANES - 1) / LANES * LANES, end);

  for (int i = n; i < whole; i++)
    x[i] = x[0];
  *top = maximum (x, whole);
  for (int i = 0; i < whole; i++)
    x[i] = exponential (x[i] - *top);
  for (int i = n; i < whole; i++)
    x[i] = 0;
  *total = sum (x, whole);
  return whole;
}

/* --- matrix products --- */

/* y = residual + bias in each row; NULL counts as zero. */
KERNEL void begin_rows (float *y, const float *bias, const float *residual, int rows, int columns)
{
  for (int row = 0; row < rows; row++) {
    float *to = y + (gsize)row * columns;
    const float *from = residual != NULL ? residual + (gsize)row * columns : NULL;

    if (from != NULL && bias != NULL)
      for (int i = 0; i < columns; i++)
        to[i] = from[i] + bias[i];
    else if (to != from)
      memcpy (to, from != NULL ? from : bias, sizeof (float) * (gsize)columns);
  }
}

/* What is added to the product lies in y before it. */
static void linear (PsQueue *queue, void *y, const void *x, const void *w, const void *bias, const void *residual,
                    int rows, int in, int out)
{
  const gboolean adds = bias != NULL || residual != NULL;

  if (adds)
    begin_rows (y, bias, residual, rows, out);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, out, in, 1, x, in, w, out, adds, y, out);
}

static void linear_input (PsQueue *queue, void *dx, const void *dy, const void *w, int rows, int in, int out)
{
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, rows, in, out, 1, dy, out, w, out, 0, dx, in);
}

static void linear_weights (PsQueue *queue, float *dw, const void *x, const void *dy, int rows, int in, int out)
{
  ps_cpu_blas.sgemm (CblasRowMajor, CblasTrans, CblasNoTrans, in, out, rows, 1, x, in, dy, out, 1, dw, out);
}

/* --- norms --- */

/* One expression for `norm` and `norm_weights`, which must give the same bits. bias NULL: none. */
INLINE void normed_row (float *restrict y, const float *x, float mean, float scale, const float *gain,
                        const float *bias, int n)
{
  if (bias != NULL)
    for (int i = 0; i < n; i++)
      y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
  else
    for (int i = 0; i < n; i++)
      y[i] = (x[i] - mean) * scale * gain[i];
}

KERNEL void norm (PsQueue *queue, void *y, float *mean, float *scale, const void *x, const void *gain, const void *bias,
                  int rows, int columns)
{
  for (int row = 0; row < rows; row++) {
    const float *from = (const float *)x + (gsize)row * columns;
    float *restrict to = (float *)y + (gsize)row * columns;
    const float middle = mean != NULL ? sum (from, columns) / (float)columns : 0;

    for (int i = 0; i < columns; i++)
      to[i] = from[i] - middle;
    scale[row] = 1 / sqrtf (dot (to, to, columns) / (float)columns + NORM_EPSILON);
    if (mean != NULL)
      mean[row] = middle;
    normed_row (to, from, middle, scale[row], gain, bias, columns);
  }
}

INLINE void add_slopes (float *lane, const float *dy, const float *gain, const float *x, float mean, int n)
{
  for (int k = 0; k < n; k++)
    lane[k] += dy[k] * gain[k] * (x[k] - mean);
}

/* Returns the sum of gain * dy * (x - mean). */
INLINE float slopes (const float *dy, const float *gain, const float *x, float mean, int n)
{
  float lane[LANES] = { 0 };
  int i = 0;

  for (; i + LANES <= n; i += LANES)
    add_slopes (lane, dy + i, gain + i, x + i, mean, LANES);
  add_slopes (lane, dy + i, gain + i, x + i, mean, n - i);
  return sum_lanes (lane);
}

KERNEL void norm_input (PsQueue *queue, void *dx, const void *residual, const void *dy, const void *x,
                        const float *mean, const float *scale, const void *gain, int rows, int columns)
{
  const float *factor = gain;

  for (int row = 0; row < rows; row++) {
    const gsize start = (gsize)row * columns;
    const float *dn = (const float *)dy + start, *from = (const float *)x + start;
    const float *other = residual != NULL ? (const float *)residual + start : NULL;
    const float middle = mean != NULL ? mean[row] : 0, by = scale[row];
    float *to = (float *)dx + start;
    const float average = mean != NULL ? dot (dn, factor, columns) / (float)columns : 0;
    const float slope = slopes (dn, factor, from, middle, columns) * by * by / (float)columns;

    if (other != NULL)
      for (int i = 0; i < columns; i++)
        to[i] = other[i] + by * (dn[i] * factor[i] - average - (from[i] - middle) * slope);
    else
      for (int i = 0; i < columns; i++)
        to[i] = by * (dn[i] * factor[i] - average - (from[i] - middle) * slope);
  }
}

KERNEL void norm_weights (PsQueue *queue, float *dgain, float *dbias, void *y, const void *dy, const void *x,
                          const float *mean, const float *scale, const void *gain, const void *bias, int rows,
                          int columns)
{
  float *restrict of_gain = dgain, *restrict of_bias = dbias;

  for (int row = 0; row < rows; row++) {
    const float *dn = (const float *)dy + (gsize)row * columns, *from = (const float *)x + (gsize)row * columns;
    const float middle = mean != NULL ? mean[row] : 0, by = scale[row];

    for (int i = 0; i < columns; i++)
      of_gain[i] += dn[i] * ((from[i] - middle) * by);
    if (of_bias != NULL)
      for (int i = 0; i < columns; i++)
        of_bias[i] += dn[i];
    normed_row ((float *)y + (gsize)row * columns, from, middle, by, gain, bias, columns);
  }
}

KERNEL void bias_gradient (PsQueue *queue, float *dbias, const void *dy, int rows, int columns)
{
  float *restrict to = dbias;

  for (int row = 0; row < rows; row++) {
    const float *from = (const float *)dy + (gsize)row * columns;

    for (int i = 0; i < columns; i++)
      to[i] += from[i];
  }
}

/* --- element by element --- */

/* GELU (z) = z / (1 + exp (-2u)) with u = sqrt (2 / pi) * (z + 0.044715 z^3), as 1 + tanh (u) = 2 / (1 + exp (-2u)). */
#define GELU_SLOPE 1.5957691216f /* 2 sqrt (2 / pi) */
#define GELU_CUBE 0.044715f

INLINE float gelu_gate (float z)
{
  return 1 / (1 + exponential (-GELU_SLOPE * (z + GELU_CUBE * z * z * z)));
}

KERNEL void gelu (float *g, const float *z, gsize n)
{
  float *restrict to = g;

  for (gsize i = 0; i < n; i++)
    to[i] = z[i] * gelu_gate (z[i]);
}

static void linear_gelu (PsQueue *queue, void *g, void *z, const void *x, const void *w, const void *bias, int rows,
                         int in, int out)
{
  linear (queue, z, x, w, bias, NULL, rows, in, out);
  gelu (g, z, (gsize)rows * (gsize)out);
}

KERNEL void gelu_input (float *dz, const float *dg, const float *z, gsize n)
{
  for (gsize i = 0; i < n; i++) {
    const float value = z[i], gate = gelu_gate (value);
    const float slope = GELU_SLOPE * (1 + 3 * GELU_CUBE * value * value);

    dz[i] = dg[i] * (gate + value * gate * (1 - gate) * slope);
  }
}

static void linear_gelu_input (PsQueue *queue, void *dz, const void *dy, const void *w, const void *z, int rows, int in,
                               int out)
{
  float *dg = dz != z ? dz : queue->workspace;

  linear_input (queue, dg, dy, w, rows, in, out);
  gelu_input (dz, dg, z, (gsize)rows * (gsize)in);
}

KERNEL void swiglu (PsQueue *queue, void *y, const void *gate, const void *up, int rows, int columns, int stride)
{
  for (int row = 0; row < rows; row++) {
    const float *gates = (const float *)gate + (gsize)row * stride, *ups = (const float *)up + (gsize)row * stride;
    float *restrict to = (float *)y + (gsize)row * columns;

    for (int i = 0; i < columns; i++)
      to[i] = gates[i] / (1 + exponential (-gates[i])) * ups[i];
  }
}

/* Gradients take the place of what they are gradients of, if the caller wants so. */
KERNEL void swiglu_input (PsQueue *queue, void *dgate, void *dup, const void *dy, const void *gate, const void *up,
                          int rows, int columns, int stride)
{
  for (int row = 0; row < rows; row++) {
    const gsize start = (gsize)row * stride;
    const float *gates = (const float *)gate + start, *ups = (const float *)up + start;
    const float *dn = (const float *)dy + (gsize)row * columns;
    float *of_gate = (float *)dgate + start, *of_up = (float *)dup + start;

    for (int i = 0; i < columns; i++) {
      const float at = gates[i], other = ups[i], opening = 1 / (1 + exponential (-at));

      of_up[i] = dn[i] * at * opening;
      of_gate[i] = dn[i] * other * (opening + at * opening * (1 - opening));
    }
  }
}

INLINE float *row_of (PsRows rows, int sequence, int row)
{
  return (float *)rows.first + ((gsize)sequence * rows.sequence + row) * rows.stride;
}

KERNEL void rows_copy (PsQueue *queue, PsRows to, PsRows from, const float *more, int batch, int rows, int columns)
{
  for (int sequence = 0; sequence < batch; sequence++)
    for (int row = 0; row < rows; row++) {
      float *into = row_of (to, sequence, row);
      const float *out = row_of (from, sequence, row);
      const float *other = more != NULL ? more + ((gsize)sequence * rows + row) * columns : NULL;

      if (other != NULL)
        for (int i = 0; i < columns; i++)
          into[i] = out[i] + other[i];
      else if (into != out)
        memcpy (into, out, sizeof (float) * (gsize)columns);
    }
}

static void rows_add (PsQueue *queue, float *sum, bool begins, PsRows from, int batch, int rows, int columns)
{
  rows_copy (queue, (PsRows){ sum, rows, columns }, from, begins ? NULL : sum, batch, rows, columns);
}

/* --- rotary positions --- */

static void rotary_table (PsQueue *queue, float *table, int sequence, int head_size, double base)
{
  for (int place = 0; place < sequence; place++)
    for (int i = 0; i < head_size / 2; i++, table += 2) {
      const double angle = place * pow (base, -2.0 * i / head_size);

      table[0] = (float)cos (angle);
      table[1] = (float)sin (angle);
    }
}

KERNEL void rotary (PsQueue *queue, void *x, const float *table, int rows, int sequence, int heads, int head_size,
                    int stride, bool backward)
{
  const int half = head_size / 2;
  const float sign = backward ? -1 : 1;

  for (int row = 0; row < rows; row++) {
    const float *restrict turn = table + (gsize)(row % sequence) * head_size;

    for (int head = 0; head < heads; head++) {
      float *restrict low = (float *)x + (gsize)row * stride + (gsize)head * head_size;
      float *restrict high = low + half;

      for (int i = 0; i < half; i++) {
        const float cosine = turn[2 * i], sine = sign * turn[2 * i + 1], a = low[i], b = high[i];

        low[i] = a * cosine - b * sine;
        high[i] = b * cosine + a * sine;
      }
    }
  }
}

/* --- embedding --- */

/* Returns the word at a token; the next word is its target. */
INLINE const uint32_t *word_at (const uint32_t *words, int sequence, int token)
{
  return words + (gsize)(token / sequence) * (sequence + 1) + token % sequence;
}

KERNEL void embedding (PsQueue *queue, void *x, const void *token, const void *position, const uint32_t *words,
                       int batch, int sequence, int hidden)
{
  for (int i = 0; i < batch * sequence; i++) {
    const float *word = (const float *)token + (gsize)*word_at (words, sequence, i) * hidden;
    const float *place = position != NULL ? (const float *)position + (gsize)(i % sequence) * hidden : NULL;
    float *restrict to = (float *)x + (gsize)i * hidden;

    if (place == NULL)
      memcpy (to, word, sizeof (float) * (gsize)hidden);
    else
      for (int k = 0; k < hidden; k++)
        to[k] = word[k] + place[k];
  }
}

INLINE void add_row (float *restrict to, const float *restrict from, int n)
{
  for (int i = 0; i < n; i++)
    to[i] += from[i];
}

KERNEL void embedding_weights (PsQueue *queue, float *dtoken, float *dposition, const void *dx, const uint32_t *words,
                               int batch, int sequence, int hidden)
{
  for (int i = 0; i < batch * sequence; i++) {
    const float *from = (const float *)dx + (gsize)i * hidden;

    add_row (dtoken + (gsize)*word_at (words, sequence, i) * hidden, from, hidden);
    if (dposition != NULL)
      add_row (dposition + (gsize)(i % sequence) * hidden, from, hidden);
  }
}

/* --- cross-entropy --- */

KERNEL void cross_entropy (PsQueue *queue, void *logits, float *loss, const uint32_t *words, int batch, int sequence,
                           int vocabulary, int stride, float factor)
{
  for (int i = 0; i < batch * sequence; i++) {
    const uint32_t target = word_at (words, sequence, i)[1];
    float *restrict row = (float *)logits + (gsize)i * stride;
    const float wanted = row[target];
    float top, total;

    exponentials (row, vocabulary, vocabulary, &top, &total);
    const float share = factor / total;
    for (int k = 0; k < vocabulary; k++)
      row[k] *= share;
    for (int k = vocabulary; k < stride; k++)
      row[k] = 0;
    row[target] -= factor;
    loss[i] = (float)((double)top - (double)wanted + log ((double)total));
  }
}

static void loss_sum (PsQueue *queue, double *total, const float *loss, int n, double factor)
{
  double all = 0;

  for (int i = 0; i < n; i++)
    all += (double)loss[i];
  *total = factor * all;
}

/* --- causal attention ---
 *
 * One head of one sequence and a tile of TILE queries at a time. The probabilities of a tile are a rectangle: a row for
 * each query, a column for each key up to that of the tile's last query. Later keys count for nothing.
 */
#define TILE 128

/* Parts of the workspace. */
typedef struct {
  float *square;  /* a tile's probabilities that are not kept */
  float *dsquare; /* their gradients */
  float *dkey;    /* keys x head_size: sums over the heads of a group */
  float *dvalue;  /* keys x head_size */
} AttentionParts;

static gsize square_size (const PsAttention *shape)
{
  return (gsize)MIN (TILE, shape->sequence) * (gsize)(shape->past + shape->sequence);
}

static gsize key_size (const PsAttention *shape)
{
  return (gsize)(shape->past + shape->sequence) * (gsize)shape->head_size;
}

static AttentionParts attention_parts (const PsAttention *shape, void *workspace)
{
  const gsize square = square_size (shape);
  float *first = workspace;

  return (AttentionParts){ .square = first,
                           .dsquare = first + square,
                           .dkey = first + 2 * square,
                           .dvalue = first + 2 * square + key_size (shape) };
}

static size_t workspace_bytes (PsElement element, const PsAttention *shape, int columns)
{
  const gsize of_attention = 2 * square_size (shape) + 2 * key_size (shape);
  const gsize of_gelu = (gsize)shape->batch * (gsize)shape->sequence * (gsize)columns;

  return sizeof (float) * MAX (of_attention, of_gelu);
}

static size_t attention_kept_bytes (const PsAttention *shape)
{
  const gsize rows = (gsize)shape->batch * (gsize)shape->heads * (gsize)shape->sequence;

  return sizeof (float) * rows * (shape->flash ? 1 : (gsize)(shape->past + shape->sequence));
}

typedef struct {
  int rows, keys; /* of the tile */
  int stride;     /* from row to row of probabilities */
  gsize q, out;   /* the tile's first element in q and dq, in out and dout */
  gsize kv;       /* the first key of the sequence in k, v, dk and dv */
  float *square;  /* probabilities */
  float *lse;     /* logarithms of the sums of exponentials; NULL: probabilities are kept */
} Tile;

static int count_tiles (const PsAttention *shape)
{
  return (shape->sequence + TILE - 1) / TILE;
}

static Tile tile_at (const PsAttention *shape, int sequence, int head, int tile, float *kept, float *square)
{
  const int first = tile * TILE, group = shape->heads / shape->kv_heads, width = shape->past + shape->sequence;
  const gsize token = (gsize)sequence * shape->sequence + first, column = (gsize)head * shape->head_size;
  const gsize row = ((gsize)sequence * shape->heads + head) * shape->sequence + first;

  return (Tile){ .rows = MIN (TILE, shape->sequence - first),
                 .keys = shape->past + MIN (first + TILE, shape->sequence),
                 .stride = width,
                 .q = token * shape->qkv_stride + column,
                 .out = token * shape->out_stride + column,
                 .kv = (gsize)sequence * width * shape->kv_stride + (gsize)(head / group) * shape->head_size,
                 .square = shape->flash ? square : kept + row * width,
                 .lse = shape->flash ? kept + row : NULL };
}

/* Scores of the tile's queries and keys, divided by the root of the head's size. */
static void score_tile (const PsAttention *shape, const Tile *tile, const float *q, const float *k)
{
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, tile->rows, tile->keys, shape->head_size,
                     1 / sqrtf ((float)shape->head_size), q + tile->q, shape->qkv_stride, k + tile->kv,
                     shape->kv_stride, 0, tile->square, tile->stride);
}

/* Returns the keys that a query of the tile sees. */
INLINE int seen_keys (const Tile *tile, int row)
{
  return tile->keys - tile->rows + row + 1;
}

/* Probabilities from scores. */
KERNEL void softmax_tile (const Tile *tile)
{
  for (int i = 0; i < tile->rows; i++) {
    float *restrict row = tile->square + (gsize)i * tile->stride;
    float top, total;
    const int whole = exponentials (row, seen_keys (tile, i), tile->keys, &top, &total);
    const float factor = 1 / total;

    for (int k = 0; k < whole; k++)
      row[k] *= factor;
    memset (row + whole, 0, sizeof (float) * (gsize)(tile->keys - whole));
    if (tile->lse != NULL)
      tile->lse[i] = top + logf (total);
  }
}

static void attention (PsQueue *queue, const PsAttention *shape, void *out, void *kept, const void *q, const void *k,
                       const void *v)
{
  float *square = queue->workspace;

  for (int sequence = 0; sequence < shape->batch; sequence++)
    for (int head = 0; head < shape->heads; head++)
      for (int i = 0; i < count_tiles (shape); i++) {
        const Tile tile = tile_at (shape, sequence, head, i, kept, square);

        score_tile (shape, &tile, q, k);
        softmax_tile (&tile);
        ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, tile.rows, shape->head_size, tile.keys, 1,
                           tile.square, tile.stride, (const float *)v + tile.kv, shape->kv_stride, 0,
                           (float *)out + tile.out, shape->out_stride);
      }
}

/* Probabilities from scores and the logarithms of their sums. */
KERNEL void softmax_tile_again (const Tile *tile)
{
  for (int i = 0; i < tile->rows; i++) {
    float *restrict row = tile->square + (gsize)i * tile->stride;
    const int n = seen_keys (tile, i);

    for (int k = 0; k < n; k++)
      row[k] = exponential (row[k] - tile->lse[i]);
    memset (row + n, 0, sizeof (float) * (gsize)(tile->keys - n));
  }
}

/* Overwrites dp, the gradient of probabilities p, with that of the scores: p * (dp - the row's sum of p * dp). The sum
 * equals dout . out. dp has rows of tile->keys numbers. */
KERNEL void softmax_tile_input (float *dp, const Tile *tile, const float *dout, const float *out, int size, int stride)
{
  for (int i = 0; i < tile->rows; i++) {
    const gsize at = tile->out + (gsize)i * stride;
    const float *restrict row = tile->square + (gsize)i * tile->stride;
    float *restrict to = dp + (gsize)i * tile->keys;
    const float mean = dot (dout + at, out + at, size);
    const int n = seen_keys (tile, i);

    for (int k = 0; k < n; k++)
      to[k] = row[k] * (to[k] - mean);
    memset (to + n, 0, sizeof (float) * (gsize)(tile->keys - n));
  }
}

/* adds: keys and values have gradients of other tiles and heads already. The tile's query is overwritten last. */
static void tile_backward (const PsAttention *shape, const Tile *tile, const AttentionParts *parts, bool adds,
                           float *dq, const float *dout, const float *out, const float *q, const float *k,
                           const float *v)
{
  const int size = shape->head_size, rows = tile->rows, keys = tile->keys;
  const float scale = 1 / sqrtf ((float)size);

  if (shape->flash) {
    score_tile (shape, tile, q, k);
    softmax_tile_again (tile);
  }
  ps_cpu_blas.sgemm (CblasRowMajor, CblasTrans, CblasNoTrans, keys, size, rows, 1, tile->square, tile->stride,
                     dout + tile->out, shape->out_stride, adds, parts->dvalue, size);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasTrans, rows, keys, size, 1, dout + tile->out, shape->out_stride,
                     v + tile->kv, shape->kv_stride, 0, parts->dsquare, keys);
  softmax_tile_input (parts->dsquare, tile, dout, out, size, shape->out_stride);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasTrans, CblasNoTrans, keys, size, rows, scale, parts->dsquare, keys,
                     q + tile->q, shape->qkv_stride, adds, parts->dkey, size);
  ps_cpu_blas.sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, size, keys, scale, parts->dsquare, keys,
                     k + tile->kv, shape->kv_stride, 0, dq + tile->q, shape->qkv_stride);
}

static void copy_columns (float *to, int stride, const float *from, int rows, int columns)
{
  for (int row = 0; row < rows; row++)
    memcpy (to + (gsize)row * stride, from + (gsize)row * columns, sizeof (float) * (gsize)columns);
}

/* Tiles run backward: the last one reaches all keys and begins their sums. */
static void attention_backward (PsQueue *queue, const PsAttention *shape, void *dq, void *dk, void *dv,
                                const void *dout, const void *out, const void *kept, const void *q, const void *k,
                                const void *v)
{
  const AttentionParts parts = attention_parts (shape, queue->workspace);
  const int group = shape->heads / shape->kv_heads, last = count_tiles (shape) - 1;
  const int width = shape->past + shape->sequence;

  for (int sequence = 0; sequence < shape->batch; sequence++)
    for (int head = 0; head < shape->heads; head++) {
      for (int i = last; i >= 0; i--) {
        const Tile tile = tile_at (shape, sequence, head, i, (float *)kept, parts.square);

        tile_backward (shape, &tile, &parts, i < last || head % group > 0, dq, dout, out, q, k, v);
      }
      if ((head + 1) % group == 0) {
        const gsize first = tile_at (shape, sequence, head, 0, (float *)kept, NULL).kv;

        copy_columns ((float *)dk + first, shape->kv_stride, parts.dkey, width, shape->head_size);
        copy_columns ((float *)dv + first, shape->kv_stride, parts.dvalue, width, shape->head_size);
      }
    }
}

/* --- optimizer --- */

KERNEL void adam (PsQueue *queue, void *weights, float *master, float *gradient, float *momentum, float *variance,
                  size_t n, float factor, double learning_rate, uint64_t step)
{
  const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  const float rate = (float)(learning_rate / (1 - pow (0.9, (double)step)));
  const float correction = (float)(1 / sqrt (1 - pow (0.999, (double)step)));
  float *restrict w = master, *restrict g = gradient, *restrict m = momentum, *restrict v = variance;

  for (size_t i = 0; i < n; i++) {
    const float slope = g[i] * factor;

    m[i] = beta1 * m[i] + (1 - beta1) * slope;
    v[i] = beta2 * v[i] + (1 - beta2) * slope * slope;
    w[i] -= rate * m[i] / (sqrtf (v[i]) * correction + epsilon);
    g[i] = 0;
  }
}

/* Steps copies, one block of them after the other. */
static void adam_try (PsQueue *queue, void *weights, float *tried, const float *master, const float *gradient,
                      const float *momentum, const float *variance, size_t n, float factor, double learning_rate,
                      uint64_t step)
{
  enum { BLOCK = 1024 };
  float copies[3][BLOCK];

  for (gsize i = 0; i < n; i += BLOCK) {
    const gsize here = MIN (BLOCK, n - i), bytes = here * sizeof (float);

    memcpy (tried + i, master + i, bytes);
    memcpy (copies[0], gradient + i, bytes);
    memcpy (copies[1], momentum + i, bytes);
    memcpy (copies[2], variance + i, bytes);
    adam (queue, NULL, tried + i, copies[0], copies[1], copies[2], here, factor, learning_rate, step);
  }
}

INLINE void add_double_squares (double *lane, const float *x, float factor, size_t n)
{
  for (size_t k = 0; k < n; k++)
    lane[k] += (double)(x[k] * factor) * (double)(x[k] * factor);
}

KERNEL double norm_square (PsQueue *queue, const float *values, size_t n, float factor)
{
  double lane[LANES] = { 0 }, all = 0;
  size_t i = 0;

  for (; i + LANES <= n; i += LANES)
    add_double_squares (lane, values + i, factor, LANES);
  add_double_squares (lane, values + i, factor, n - i);
  for (int k = 0; k < LANES; k++)
    all += lane[k];
  return all;
}

/* --- the table --- */

const PsKernels ps_cpu_kernels = {
  .name = "cpu",
  .on_host = true,
  .gelu_in_place = true,
  .attention_in_place = true,
  .keeps_scores = true,
  .alignment = 1,
  .row_alignment = 1,
  .pool_new = pool_new,
  .clear = clear,
  .copy = copy,
  .await = await,
  .workspace = workspace_bytes,
  .linear = linear,
  .linear_gelu = linear_gelu,
  .linear_input = linear_input,
  .linear_gelu_input = linear_gelu_input,
  .linear_weights = linear_weights,
  .bias_gradient = bias_gradient,
  .norm = norm,
  .norm_input = norm_input,
  .norm_weights = norm_weights,
  .swiglu = swiglu,
  .swiglu_input = swiglu_input,
  .rows_copy = rows_copy,
  .rows_add = rows_add,
  .rotary_table = rotary_table,
  .rotary = rotary,
  .embedding = embedding,
  .embedding_weights = embedding_weights,
  .cross_entropy = cross_entropy,
  .loss_sum = loss_sum,
  .attention_kept_bytes = attention_kept_bytes,
  .attention = attention,
  .attention_backward = attention_backward,
  .adam = adam,
  .adam_try = adam_try,
  .norm_square = norm_square,
};

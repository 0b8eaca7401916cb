/* kernels.h - the table of functions that a backend fills in, so that the transformer can train on its machine: matrix
 * products and all other arithmetic of a stage, and its memory. exec/train/cpu and exec/train/cuda have one table each.
 *
 * Queues. Every function of the table puts its work into a queue, and the work of a queue runs in that order. A backend
 * may do it at once (cpu) or return before it is done (cuda). Functions return nothing: a problem is noted in the queue
 * (ps_queue_note), which keeps the first one, and an op fails with it when its last work is in the queue
 * (ps_queue_finish). All but `await` and `norm_square` may be called while an op is captured, see
 * `capture`.
 *
 * Arrays lie in the backend's memory, dense and row-major, a row per token, unless a stride is given. Token t of a
 * microbatch is sequence number * sequence + place in the sequence. void pointers are arrays of the queue's element;
 * float arrays stay float with every element. Arithmetic is float, rounded once when stored (to nearest even). Sums run
 * in float unless said. Zero rows or elements are fine. An output may be one of the inputs only where it is said.
 *
 * Each array starts at least on PsKernels.alignment elements, and workspace on 64 bytes. Rows of the slices of a
 * product's output (queries, keys, values; gate, up) start on a head or on feed_forward elements.
 *
 * Deterministic: the same input gives the same bits on every run and in every thread, and the order of sums depends on
 * shapes alone. Functions that "add to" a gradient read and write it.
 *
 * The cpu table is the reference: tests hold every other table to it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct _GError GError;
typedef struct _PsMemoryPool PsMemoryPool;

/* The numbers that weights and activations are made of. */
typedef enum {
  PS_ELEMENT_FP32,
  PS_ELEMENT_BF16,
} PsElement;

static inline size_t ps_element_bytes (PsElement element)
{
  return element == PS_ELEMENT_BF16 ? 2 : 4;
}

/* Backends put this first in a struct of their own. The device that opens it sets element; the transformer sets
 * workspace before the first work. */
typedef struct {
  PsElement element;
  void *workspace; /* PsKernels.workspace bytes of device memory, which one work at a time uses */
  char *failure;   /* the first problem since ps_queue_begin; NULL: none */
} PsQueue;

/* Forgets the problems of the op before. */
void ps_queue_begin (PsQueue *queue);

/* Notes "WHAT: PROBLEM" unless there is a problem already. */
void ps_queue_note (PsQueue *queue, const char *what, const char *problem);

/* FALSE with the first problem since ps_queue_begin (PS_ERROR_UNAVAILABLE). Waits for nothing. */
bool ps_queue_finish (PsQueue *queue, GError **error);

/* Rows of one slice of each of some sequences: row r of sequence b begins (b * sequence + r) * stride elements after
 * `first`. */
typedef struct {
  void *first;
  int sequence, stride;
} PsRows;

typedef struct {
  int batch;
  int sequence; /* queries of one sequence */
  int heads;    /* of queries; query head i reads keys and values of head i / (heads / kv_heads) */
  int kv_heads; /* divides heads */
  int head_size;
  int qkv_stride; /* elements from token to token in q and dq: (heads + 2 kv_heads) * head_size, where one product makes
                     queries, keys and values side by side */
  int out_stride; /* the same for out and dout: heads * head_size */
  int kv_stride;  /* the same for k, v, dk and dv: qkv_stride, or 2 kv_heads * head_size where there are slices */
  int past;       /* keys of a sequence before that of its first query: k and v have past + sequence tokens of each */
  bool flash;     /* the model's flash_attention: a backend that can keep the probabilities does so only without it */
} PsAttention;

/* Puts the work of one op into its queue and does nothing else. */
typedef void (*PsLaunch) (void *data);

typedef struct {
  const char *name;        /* "cpu": begins errors as "cpu device: ..." */
  bool bf16;               /* it has PS_ELEMENT_BF16 */
  bool on_host;            /* its memory is the host's, and work is done when its function returns */
  bool warms_up;           /* the first work of each shape takes longer: a new stage runs each op once on zeros */
  bool gelu_in_place;      /* linear_gelu_input may write dz over z */
  bool attention_in_place; /* attention_backward may write dq, dk and dv over q, k and v */
  bool keeps_scores;       /* attention keeps the probabilities unless PsAttention.flash: selective recomputation makes
                              them again */
  int alignment;           /* elements: each parameter starts on a whole multiple */
  int row_alignment;       /* elements: rows of logits have a whole multiple */

  /* Refuses shapes that there is no code for: PS_ERROR_UNAVAILABLE, naming the model's field. past is that of the last
   * slice. NULL: there are none. */
  bool (*check) (PsElement element, const PsAttention *attention, GError **error);

  /* --- memory --- */

  /* A pool (train/memory.h) of the machine that the calling thread is attached to. */
  PsMemoryPool *(*pool_new) (void);

  /* Sets all bytes to `value`. */
  void (*clear) (PsQueue *queue, void *block, int value, size_t bytes);

  /* Copies between blocks and memory of the host, in any direction. Memory of the host must stay until `await`. */
  void (*copy) (PsQueue *queue, void *to, const void *from, size_t bytes);

  /* Waits for all work of the queue. */
  void (*await) (PsQueue *queue);

  /* Bytes of PsQueue.workspace that serve every function below, for batch * sequence tokens of `attention` at most
   * (past: that of the last slice) and matrices and rows of at most `columns` columns. */
  size_t (*workspace) (PsElement element, const PsAttention *attention, int columns);

  /* --- products of matrices ---
   * x is rows x in, w is in x out, y is rows x out. dw is float. */

  /* The products after this choose their algorithms for a part of n_sms multiprocessors, whatever part runs them. NULL:
   * there is no choice. */
  void (*set_part) (PsQueue *queue, unsigned n_sms);

  /* y = x w + bias + residual. bias [out] and residual (rows x out) NULL: none. y may be residual. */
  void (*linear) (PsQueue *queue, void *y, const void *x, const void *w, const void *bias, const void *residual,
                  int rows, int in, int out);

  /* z = x w + bias, g = GELU (z) by the tanh formula (arXiv 1606.08415, section 2):
   * z / (1 + exp (-2u)) with u = sqrt (2 / pi) * (z + 0.044715 z^3). z is kept. bias is never NULL. */
  void (*linear_gelu) (PsQueue *queue, void *g, void *z, const void *x, const void *w, const void *bias, int rows,
                       int in, int out);

  /* dx = dy w^T; dy is rows x out, dx rows x in. */
  void (*linear_input) (PsQueue *queue, void *dx, const void *dy, const void *w, int rows, int in, int out);

  /* dz = (dy w^T) * GELU' (z); z and dz are rows x in. With gelu_in_place dz may be z. */
  void (*linear_gelu_input) (PsQueue *queue, void *dz, const void *dy, const void *w, const void *z, int rows, int in,
                             int out);

  /* dw += x^T dy */
  void (*linear_weights) (PsQueue *queue, float *dw, const void *x, const void *dy, int rows, int in, int out);

  /* dbias[c] += the sum of column c of dy */
  void (*bias_gradient) (PsQueue *queue, float *dbias, const void *dy, int rows, int columns);

  /* --- norms ---
   * Layer norm (arXiv 1607.06450), per row of `columns`: y = (x - mean) * scale * gain + bias, with the biased
   * variance, and scale = 1 / sqrt (variance + 1e-5). gain and bias: [columns]. mean, scale: [rows], kept for the
   * backward. With mean NULL these are RMS norms (arXiv 1910.07467): mean counts as 0, and bias is NULL. */
  void (*norm) (PsQueue *queue, void *y, float *mean, float *scale, const void *x, const void *gain, const void *bias,
                int rows, int columns);

  /* dx = residual + gradient through the norm; residual NULL counts as zero. With standard = (x - mean) * scale and u =
   * gain * dy the gradient is scale * (u - average (u) - standard * average (u * standard)). RMS norms have no average
   * (u). x is the input of the norm. dx may be residual or dy. */
  void (*norm_input) (PsQueue *queue, void *dx, const void *residual, const void *dy, const void *x, const float *mean,
                      const float *scale, const void *gain, int rows, int columns);

  /* dgain[c] += the sum over rows of dy * standard; dbias[c] (NULL in RMS norms) += the sum of dy. Makes y, the output
   * of the norm, again, with the bits of `norm`: the gradients of the product after the norm need it. */
  void (*norm_weights) (PsQueue *queue, float *dgain, float *dbias, void *y, const void *dy, const void *x,
                        const float *mean, const float *scale, const void *gain, const void *bias, int rows,
                        int columns);

  /* --- element by element --- */

  /* SwiGLU (arXiv 2002.05202, section 2): y = gate / (1 + exp (-gate)) * up. gate and up are rows x columns with
   * `stride` elements from row to row: one product makes both, stride is 2 * columns and up is gate + columns. y is
   * dense. */
  void (*swiglu) (PsQueue *queue, void *y, const void *gate, const void *up, int rows, int columns, int stride);

  /* The gradients have the stride of gate and up, and may be gate and up. */
  void (*swiglu_input) (PsQueue *queue, void *dgate, void *dup, const void *dy, const void *gate, const void *up,
                        int rows, int columns, int stride);

  /* Row r of sequence b of `to` becomes that of `from`, plus row b * rows + r of `more`, which is dense (NULL: none).
   * to may be from. */
  void (*rows_copy) (PsQueue *queue, PsRows to, PsRows from, const float *more, int batch, int rows, int columns);

  /* Adds the rows of `from` to sum, which is dense; begins: overwrites it with them. */
  void (*rows_add) (PsQueue *queue, float *sum, bool begins, PsRows from, int batch, int rows, int columns);

  /* Rounds to bf16. to may not be from. NULL without bf16. */
  void (*to_bf16) (PsQueue *queue, void *to, const float *from, size_t n);

  /* --- rotary positions ---
   * RoFormer (arXiv 2104.09864, section 3.2.2): at place p, pair i turns by p * base^(-2i / head_size). A pair is
   * elements i and i + head_size / 2 of a head, as in Llama's published weights. table: [sequence][head_size / 2] pairs
   * (cosine, sine), made once in double precision, then rounded. */
  void (*rotary_table) (PsQueue *queue, float *table, int sequence, int head_size, double base);

  /* Turns `heads` heads of head_size elements that start at x, in place, for rows (tokens) `stride` elements apart: one
   * call turns queries and keys, which lie side by side. table begins with the place of the first token of a sequence
   * of `sequence` tokens. backward turns back, which is the gradient. head_size is even. */
  void (*rotary) (PsQueue *queue, void *x, const float *table, int rows, int sequence, int heads, int head_size,
                  int stride, bool backward);

  /* --- embedding and loss ---
   * words: batch x (sequence + 1), as in train/data.h: the word after a token's is its target. All are below
   * `vocabulary`. */

  /* x = token[word] + position[place]; position NULL: none. The tables are [vocabulary][hidden] and
   * [sequence][hidden]. */
  void (*embedding) (PsQueue *queue, void *x, const void *token, const void *position, const uint32_t *words, int batch,
                     int sequence, int hidden);

  /* Adds the rows of dx to dtoken[word] and dposition[place] (NULL: none), in the order of the tokens. */
  void (*embedding_weights) (PsQueue *queue, float *dtoken, float *dposition, const void *dx, const uint32_t *words,
                             int batch, int sequence, int hidden);

  /* For each token: loss[t] = log (sum over c of exp (logits[t][c])) - logits[t][target], natural logarithm. Overwrites
   * the logits with their gradient: factor * (softmax - 1 at the target). Rows of logits are `stride` elements apart;
   * columns vocabulary..stride - 1 become 0. */
  void (*cross_entropy) (PsQueue *queue, void *logits, float *loss, const uint32_t *words, int batch, int sequence,
                         int vocabulary, int stride, float factor);

  /* *total (device memory) = factor * the sum of n losses, summed in double precision. */
  void (*loss_sum) (PsQueue *queue, double *total, const float *loss, int n, double factor);

  /* --- causal attention --- */

  /* Bytes that attention keeps for its backward: the natural log of the sum of exponentials of the scaled scores,
   * [batch][heads][sequence] floats, or with keeps_scores and without PsAttention.flash the probabilities,
   * [batch][heads][sequence][past + sequence] floats. */
  size_t (*attention_kept_bytes) (const PsAttention *shape);

  /* out = softmax (q k^T / sqrt (head_size), keys up to the query's place) v. Fills `kept`. Run again on the same q, k
   * and v it gives the same bits. */
  void (*attention) (PsQueue *queue, const PsAttention *shape, void *out, void *kept, const void *q, const void *k,
                     const void *v);

  /* Overwrites dq, dk and dv. out and kept come from the forward. With attention_in_place dq, dk and dv may be q, k
   * and v, each of the same stride; or dq alone may be q. With probabilities p: dv = p^T dout, ds = p * (dout v^T -
   * dout . out), dq = ds k / sqrt (head_size), dk = ds^T q / sqrt (head_size) (arXiv 2307.08691, algorithm 2). */
  void (*attention_backward) (PsQueue *queue, const PsAttention *shape, void *dq, void *dk, void *dv, const void *dout,
                              const void *out, const void *kept, const void *q, const void *k, const void *v);

  /* --- optimizer ---
   * One step of Adam (arXiv 1412.6980, algorithm 1) with betas 0.9 and 0.999, epsilon 1e-8, on gradient * factor; step
   * counts from 1. Clears the gradient. weights: the copy of master in bf16 that products read, or NULL if they read
   * master itself. */
  void (*adam) (PsQueue *queue, void *weights, float *master, float *gradient, float *momentum, float *variance,
                size_t n, float factor, double learning_rate, uint64_t step);

  /* Tries a step out: the new weights, with the bits of `adam`, go to `weights`, as above, and to `tried` (NULL:
   * nowhere), and all else stays. */
  void (*adam_try) (PsQueue *queue, void *weights, float *tried, const float *master, const float *gradient,
                    const float *momentum, const float *variance, size_t n, float factor, double learning_rate,
                    uint64_t step);

  /* Returns the sum of the squares of values * factor, added up in double precision in an order that depends on n
   * alone. Waits for the work of the queue. */
  double (*norm_square) (PsQueue *queue, const float *values, size_t n, float factor);

  /* --- capture ---
   * The work of an op as one unit that is put into the queue at once when it comes again. All NULL: not possible. */

  /* At most `most` ops are captured. NULL: not wanted in this process. */
  void *(*captures_new) (PsQueue *queue, unsigned most);
  void (*captures_free) (void *captures);

  /* Puts the work that was captured for the same key into the queue. Without one it captures the work of launch (data)
   * first; if enough are captured, it just calls launch (data). The key's bytes hold everything that the work depends
   * on. */
  void (*capture) (void *captures, PsQueue *queue, const void *key, size_t key_bytes, PsLaunch launch, void *data);
} PsKernels;

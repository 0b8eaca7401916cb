/* attention-tests.cpp - causal attention, simple and on tensor cores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "kernels-reference.h"

struct Case
{
  PsCudaElement element;
  int batch, sequence, heads, kv_heads, head_size, past = 0;
};

/* Sequences of one token, of part of a tile, of whole tiles, and of some tiles and a rest; kv groups of one, some and
 * all heads; every head size of the fast path, and others; keys before the first query, fewer and more than a tile. */
static const std::initializer_list<Case> cases = {
  { PS_CUDA_FP32, 1, 1, 1, 1, 4 },     { PS_CUDA_FP32, 2, 7, 3, 3, 5 },    { PS_CUDA_FP32, 1, 64, 4, 2, 16 },
  { PS_CUDA_FP32, 1, 130, 2, 1, 64 },  { PS_CUDA_FP32, 1, 20, 1, 1, 200 }, { PS_CUDA_BF16, 1, 33, 2, 2, 24 },
  { PS_CUDA_BF16, 1, 1, 1, 1, 32 },    { PS_CUDA_BF16, 2, 7, 2, 2, 64 },   { PS_CUDA_BF16, 1, 64, 2, 1, 128 },
  { PS_CUDA_BF16, 2, 130, 3, 3, 32 },  { PS_CUDA_BF16, 1, 130, 4, 2, 64 }, { PS_CUDA_BF16, 1, 130, 2, 1, 96 },
  { PS_CUDA_BF16, 1, 130, 4, 1, 128 }, { PS_CUDA_BF16, 1, 289, 1, 1, 64 }, { PS_CUDA_BF16, 1, 128, 1, 1, 128 },
  { PS_CUDA_BF16, 1, 321, 1, 1, 128 }, { PS_CUDA_FP32, 2, 3, 4, 2, 8, 9 }, { PS_CUDA_BF16, 2, 5, 2, 1, 32, 33 },
  { PS_CUDA_BF16, 1, 70, 2, 1, 64, 75 }, { PS_CUDA_BF16, 1, 3, 1, 1, 128, 130 },
};

/* q, k and v side by side, as one product leaves them; out with a gap after each token. Where keys come before the
 * first query, there are tokens without a query. */
struct Setup
{
  explicit Setup (const Case &c);

  PsCudaAttention shape;
  PsReferenceAttention reference;
  size_t n_tokens, n_qkv, keys, values; /* keys, values: where k and v begin in qkv, of n_qkv elements */
};

Setup::Setup (const Case &c)
    : n_tokens ((size_t)(c.batch * c.sequence)),
      n_qkv ((size_t)(c.batch * (c.past + c.sequence) * (c.heads + 2 * c.kv_heads) * c.head_size)), keys ((size_t)(c.heads * c.head_size)),
      values (keys + (size_t)(c.kv_heads * c.head_size))
{
  const int stride = (c.heads + 2 * c.kv_heads) * c.head_size, out_stride = c.heads * c.head_size + 8;

  shape = { c.batch, c.sequence, c.heads, c.kv_heads, c.head_size, stride, out_stride, stride, c.past, true };
  reference = { c.batch, c.sequence, c.heads, c.kv_heads, c.head_size, stride, out_stride, stride, c.past };
}

static void
forward (const Case &c, const Setup &s, const Array &out, const Array &lse, const Array &qkv)
{
  must (ps_cuda_attention (c.element, &s.shape, out.at (), lse.at<float> (), qkv.at (), qkv.at (s.keys),
                           qkv.at (s.values), 0),
        "attention");
}

/* bf16: each probability is rounded, 2^-8 of it at most, and so changes an output by 2^-8 of its part of the sum over
 * |v|; and the output is rounded. The gaps keep what was there. */
static void
check_forward (const Case &c)
{
  const Setup s (c);
  const size_t n_out = s.n_tokens * (size_t)s.shape.out_stride, n_rows = s.n_tokens * (size_t)c.heads;
  const Tolerance allowed = tolerance (c.element);
  Array qkv (c.element, random_values (s.n_qkv, 1, 1));
  Array out (c.element, Values (n_out, 7)), lse (PS_CUDA_FP32, n_rows);
  Values expected (n_out, 7), expected_lse (n_rows), magnitude (n_out, 0), in = qkv.values (), sizes = in;
  for (double &value : sizes)
    value = fabs (value);
  ps_reference_attention (&s.reference, magnitude.data (), expected_lse.data (), in.data (), &in[s.keys],
                          &sizes[s.values]);
  ps_reference_attention (&s.reference, expected.data (), expected_lse.data (), in.data (), &in[s.keys], &in[s.values]);
  repeat ("attention", { &out, &lse }, [&] () { forward (c, s, out, lse, qkv); });
  check_near ("attention", out.values (), expected, allowed.relative, allowed.relative, &magnitude);
  check_near ("log of sums", lse.values (), expected_lse, arithmetic_error, arithmetic_error);
}

/* With the instructions of hopper.h, where they can be had, and without. */
static void
check_cases (const std::initializer_list<Case> &all, void (*check) (const Case &c))
{
  for (const char *wish : { "0", "1" })
    {
      setenv ("PIPESIM_CUDA_HOPPER", wish, true);
      for (const Case &c : all)
        check (c);
    }
}

static void
test_forward ()
{
  check_cases (cases, check_forward);
}

/* As above: each term of a sum is rounded once in bf16, and so is the sum. */
static void
check_backward (const Case &c)
{
  const Setup s (c);
  const size_t n_qkv = s.n_qkv, n_out = s.n_tokens * (size_t)s.shape.out_stride;
  const Tolerance allowed = tolerance (c.element);
  Array qkv (c.element, random_values (n_qkv, 1, 2)), dout (c.element, random_values (n_out, 1, 3)),
      dqkv (c.element, Values (n_qkv, 0));
  Array out (c.element, Values (n_out, 0)), lse (PS_CUDA_FP32, s.n_tokens * (size_t)c.heads);
  Bytes workspace (ps_cuda_attention_workspace (&s.shape));
  forward (c, s, out, lse, qkv);
  repeat ("attention backward", { &dqkv }, [&] () {
    must (ps_cuda_attention_backward (c.element, &s.shape, dqkv.at (), dqkv.at (s.keys), dqkv.at (s.values), dout.at (),
                                      out.at (), lse.at<float> (), qkv.at (), qkv.at (s.keys), qkv.at (s.values),
                                      workspace.memory, 0),
          "attention backward");
  });
  Values expected (n_qkv, 0), magnitude (n_qkv, 0);
  const Values in = qkv.values (), gradient = dout.values (), result = out.values (), sums = lse.values ();
  for (int magnitudes = 0; magnitudes < 2; magnitudes++)
    {
      Values &to = magnitudes ? magnitude : expected;
      ps_reference_attention_backward (&s.reference, to.data (), &to[s.keys], &to[s.values], gradient.data (),
                                       result.data (), sums.data (), in.data (), &in[s.keys], &in[s.values],
                                       magnitudes);
    }
  /* Gradients of scores are differences that can cancel: 1e-5 of their parts, which are near 1. */
  for (double &value : magnitude)
    value += 1e-5 / allowed.relative * 8;
  check_near ("attention backward", dqkv.values (), expected, allowed.relative, allowed.relative, &magnitude);
}

static void
test_backward ()
{
  check_cases (cases, check_backward);
}

/* Scores of several hundreds, 12^2 sqrt (32) = 800 in any head size: softmax takes one key, its maximum moves from tile
 * to tile, and nothing overflows. */
static void
check_large_scores (const Case &c)
{
  const Setup s (c);
  const size_t n_out = s.n_tokens * (size_t)s.shape.out_stride;
  const double deviation = 12 / pow (c.head_size / 32.0, 0.25);
  Array qkv (c.element, random_values (s.n_qkv, deviation, 4));
  Array out (c.element, Values (n_out, 0)), lse (PS_CUDA_FP32, s.n_tokens);
  forward (c, s, out, lse, qkv);
  Values expected (n_out, 0), expected_lse (s.n_tokens), in = qkv.values ();
  ps_reference_attention (&s.reference, expected.data (), expected_lse.data (), in.data (), &in[s.keys], &in[s.values]);
  /* fp32 scores near 1000 carry 6e-5 each, which changes probabilities by that much of values near 12 */
  check_near ("attention", out.values (), expected, tolerance (c.element).relative,
              c.element == PS_CUDA_BF16 ? 0.05 : 5e-3);
  check_near ("log of sums", lse.values (), expected_lse, arithmetic_error, 1e-3);
}

static void
test_large_scores ()
{
  check_cases ({ { PS_CUDA_FP32, 1, 100, 1, 1, 32 },
                 { PS_CUDA_BF16, 1, 150, 1, 1, 32 },
                 { PS_CUDA_BF16, 1, 300, 1, 1, 64 },
                 { PS_CUDA_BF16, 1, 300, 1, 1, 128 } },
               check_large_scores);
}

/* dq and dk of L = sum of dout * attention, against (L (x + e) - L (x - e)) / 2e through the fp32 forward, e = 2^-5:
 * third derivatives below 10 give e^2 / 6 * 10 = 1.6e-3. */
static void
test_differences ()
{
  const Case c = { PS_CUDA_FP32, 1, 5, 2, 1, 4 };
  const Setup s (c);
  const size_t n_qkv = s.n_qkv, n_out = s.n_tokens * (size_t)s.shape.out_stride;
  const double step = 1.0 / 32;
  const Values at = random_values (n_qkv, 1, 5);
  Array dout (PS_CUDA_FP32, random_values (n_out, 1, 6)), out (PS_CUDA_FP32, Values (n_out, 0)),
      dqkv (PS_CUDA_FP32, n_qkv);
  Array lse (PS_CUDA_FP32, s.n_tokens * (size_t)c.heads);
  Bytes workspace (ps_cuda_attention_workspace (&s.shape));
  const Values slope = dout.values ();
  auto loss = [&] (size_t moved, double by) {
    Values values = at;
    values[moved] += by;
    forward (c, s, out, lse, Array (PS_CUDA_FP32, values));
    const Values result = out.values ();
    double sum = 0;
    for (size_t i = 0; i < n_out; i++)
      sum += slope[i] * result[i];
    return sum;
  };
  Values expected (n_qkv);
  for (size_t i = 0; i < n_qkv; i++)
    expected[i] = (loss (i, step) - loss (i, -step)) / (2 * step);
  Array qkv (PS_CUDA_FP32, at);
  forward (c, s, out, lse, qkv);
  must (ps_cuda_attention_backward (c.element, &s.shape, dqkv.at (), dqkv.at (s.keys), dqkv.at (s.values), dout.at (),
                                    out.at (), lse.at<float> (), qkv.at (), qkv.at (s.keys), qkv.at (s.values),
                                    workspace.memory, 0),
        "attention backward");
  check_near ("attention backward by differences", dqkv.values (), expected, 0, 2e-3);
}

/* The fast path's arrays lie on 16 bytes; elsewhere the simple one gives the same numbers within rounding. */
static void
test_paths ()
{
  const Case c = { PS_CUDA_BF16, 1, 70, 2, 1, 64 };
  const Setup s (c);
  const size_t n_qkv = s.n_qkv, n_out = s.n_tokens * (size_t)s.shape.out_stride;
  const Values in = random_values (n_qkv, 1, 7);
  Array qkv (c.element, in), shifted (c.element, in, 1), out (c.element, Values (n_out, 0)),
      other (c.element, Values (n_out, 0));
  Array lse (PS_CUDA_FP32, s.n_tokens * 2), other_lse (PS_CUDA_FP32, s.n_tokens * 2);

  if (!ps_cuda_attention_is_fast (PS_CUDA_BF16, &s.shape) || ps_cuda_attention_is_fast (PS_CUDA_FP32, &s.shape))
    fail ("bf16 with heads of 64 is not the fast path, or fp32 is");
  forward (c, s, out, lse, qkv);
  forward (c, s, other, other_lse, shifted);
  check_near ("both paths", out.values (), other.values (), 2 * bf16_error, bf16_error * 2);
  check_near ("both paths' log of sums", lse.values (), other_lse.values (), arithmetic_error, arithmetic_error);
}

static void
test_refusals ()
{
  PsCudaAttention shape = { 1, 4, 3, 2, 8, 56, 24, 56, 0, true };

  check_status ("3 heads on 2 kv heads", ps_cuda_attention (PS_CUDA_FP32, &shape, NULL, NULL, NULL, NULL, NULL, 0),
                cudaErrorInvalidValue);
  shape.kv_heads = 3;
  shape.out_stride = 23;
  check_status ("outputs overlap", ps_cuda_attention (PS_CUDA_FP32, &shape, NULL, NULL, NULL, NULL, NULL, 0),
                cudaErrorInvalidValue);
  shape.out_stride = 24;
  shape.sequence = 0;
  check_status ("no tokens", ps_cuda_attention (PS_CUDA_FP32, &shape, NULL, NULL, NULL, NULL, NULL, 0), cudaSuccess);
}

const Test attention_tests[] = {
  { "attention: forward", test_forward },
  { "attention: backward", test_backward },
  { "attention: large scores", test_large_scores },
  { "attention: backward by differences", test_differences },
  { "attention: both paths agree", test_paths },
  { "attention: refusals", test_refusals },
  { nullptr, nullptr },
};

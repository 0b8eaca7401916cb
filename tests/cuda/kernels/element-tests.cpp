/* element-tests.cpp - kernels that work element by element, and the optimizer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"
#include "kernels-reference.h"

struct Case {
  PsCudaElement element;
  int rows, columns;
  int shift; /* arrays off 16 bytes: the slow path */
};

/* Rows of whole 16 bytes and not, more columns than a block has threads, arrays off 16 bytes. */
static const Case cases[] = {
  { PS_CUDA_FP32, 1, 8, 0 },    { PS_CUDA_FP32, 7, 33, 0 },  { PS_CUDA_FP32, 130, 24, 0 }, { PS_CUDA_FP32, 3, 1100, 0 },
  { PS_CUDA_FP32, 5, 300, 1 },  { PS_CUDA_BF16, 1, 8, 0 },   { PS_CUDA_BF16, 7, 33, 0 },   { PS_CUDA_BF16, 130, 24, 0 },
  { PS_CUDA_BF16, 2, 2100, 0 }, { PS_CUDA_BF16, 64, 40, 0 }, { PS_CUDA_BF16, 5, 296, 1 },
};

static void test_bias ()
{
  for (const Case &c : cases) {
    const size_t n = (size_t)c.rows * (size_t)c.columns;
    const Tolerance allowed = tolerance (c.element);
    Array y (c.element, random_values (n, 1, 1), c.shift),
        bias (c.element, random_values ((size_t)c.columns, 1, 2), c.shift);
    const Values shift = bias.values ();
    Values expected = y.values ();
    for (size_t i = 0; i < n; i++)
      expected[i] += shift[i % (size_t)c.columns];
    repeat ("bias", { &y },
            [&] () { must (ps_cuda_bias_add (c.element, y.at (), bias.at (), c.rows, c.columns, 0), "bias"); });
    check_near ("bias", y.values (), expected, allowed.relative, allowed.absolute);
  }
}

static void test_gelu ()
{
  for (const Case &c : cases) {
    const size_t n = (size_t)c.rows * (size_t)c.columns;
    const Tolerance allowed = tolerance (c.element);
    Array z (c.element, random_values (n, 3, 3), c.shift),
        bias (c.element, random_values ((size_t)c.columns, 1, 4), c.shift);
    Array g (c.element, n, c.shift), dg (c.element, random_values (n, 1, 5), c.shift), dz (c.element, n, c.shift);
    Values expected = z.values (), slopes (n);
    const Values shift = bias.values (), gradient = dg.values ();
    for (size_t i = 0; i < n; i++)
      expected[i] += shift[i % (size_t)c.columns];
    repeat ("gelu", { &g, &z },
            [&] () { must (ps_cuda_gelu (c.element, g.at (), z.at (), bias.at (), c.rows, c.columns, 0), "gelu"); });
    check_near ("gelu's z", z.values (), expected, allowed.relative, allowed.absolute);
    const Values rounded = z.values ();
    for (size_t i = 0; i < n; i++) {
      expected[i] = ps_reference_gelu (rounded[i]);
      slopes[i] = gradient[i] * ps_reference_gelu_slope (rounded[i]);
    }
    check_near ("gelu", g.values (), expected, allowed.relative, allowed.absolute);
    repeat ("gelu input", { &dz },
            [&] () { must (ps_cuda_gelu_input (c.element, dz.at (), dg.at (), z.at (), n, 0), "gelu input"); });
    check_near ("gelu input", dz.values (), slopes, allowed.relative, allowed.absolute);
    must (ps_cuda_gelu (c.element, z.at (), z.at (), NULL, c.rows, c.columns, 0), "gelu in place");
    if (z.bytes () != g.bytes ())
      fail ("gelu: other bits in place");
  }
}

/* The slope against (GELU (z + e) - GELU (z - e)) / 2e of the kernel's own forward, e = 2^-5, in fp32: the cut off
 * third derivative is below 1, so e^2 / 6 = 1.6e-4 and rounding 2^-23 * 4 / e = 1.5e-5 at |z| <= 4. */
static void test_gelu_differences ()
{
  const double step = 1.0 / 32;
  Values z, above, below, ones;

  for (int i = -128; i <= 128; i++) {
    z.push_back (i / 32.0);
    above.push_back (i / 32.0 + step);
    below.push_back (i / 32.0 - step);
    ones.push_back (1);
  }
  Array device_z (PS_CUDA_FP32, z), dg (PS_CUDA_FP32, ones), dz (PS_CUDA_FP32, z.size ());
  Array up (PS_CUDA_FP32, above), down (PS_CUDA_FP32, below);
  const int n = (int)z.size ();
  must (ps_cuda_gelu (PS_CUDA_FP32, up.at (), up.at (), NULL, 1, n, 0), "gelu");
  must (ps_cuda_gelu (PS_CUDA_FP32, down.at (), down.at (), NULL, 1, n, 0), "gelu");
  must (ps_cuda_gelu_input (PS_CUDA_FP32, dz.at (), dg.at (), device_z.at (), z.size (), 0), "gelu input");
  const Values high = up.values (), low = down.values ();
  Values expected (z.size ());
  for (size_t i = 0; i < z.size (); i++)
    expected[i] = (high[i] - low[i]) / (2 * step);
  check_near ("gelu slope", dz.values (), expected, 0, 2e-4);
}

static void test_swiglu ()
{
  for (const Case &c : cases) {
    const size_t columns = (size_t)c.columns, n = (size_t)c.rows * columns;
    const Tolerance allowed = tolerance (c.element);
    Array both (c.element, random_values (2 * n, 2, 6), c.shift), y (c.element, n, c.shift);
    Array dy (c.element, random_values (n, 1, 7), c.shift);
    const Values x = both.values (), gradient = dy.values ();
    Values expected (n), slopes (2 * n);
    for (size_t r = 0; r < (size_t)c.rows; r++)
      for (size_t i = 0; i < columns; i++) {
        const double *gate = &x[r * 2 * columns + i], *up = gate + columns;
        double *slope = &slopes[r * 2 * columns + i];
        expected[r * columns + i] = ps_reference_swiglu (*gate, *up);
        ps_reference_swiglu_input (slope, slope + columns, gradient[r * columns + i], *gate, *up);
      }
    repeat ("swiglu", { &y }, [&] () {
      must (ps_cuda_swiglu (c.element, y.at (), both.at (), both.at (columns), c.rows, c.columns, 2 * c.columns, 0),
            "swiglu");
    });
    check_near ("swiglu", y.values (), expected, allowed.relative, allowed.absolute);
    repeat ("swiglu input", { &both }, [&] () {
      must (ps_cuda_swiglu_input (c.element, both.at (), both.at (columns), dy.at (), both.at (), both.at (columns),
                                  c.rows, c.columns, 2 * c.columns, 0),
            "swiglu input");
    });
    check_near ("swiglu input", both.values (), slopes, allowed.relative, allowed.absolute);
  }
}

/* To nearest even: 1 + 2^-8 lies between 1 and 1 + 2^-7 and goes to 1, 1 + 3 * 2^-8 goes up to 1 + 2^-6. */
static void test_rounding ()
{
  for (const size_t n : { (size_t)4, (size_t)7, (size_t)1030 }) {
    Values values = random_values (n, 100, 8);
    values[0] = 1 + 1.0 / 256;
    values[1] = 1 + 3.0 / 256;
    values[2] = -1.0 / 0.0;
    Array from (PS_CUDA_FP32, values), half (PS_CUDA_BF16, n);
    repeat ("to bf16", { &half }, [&] () { must (ps_cuda_to_bf16 (half.at (), from.at<float> (), n, 0), "cast"); });
    for (double &value : values)
      value = round_to (PS_CUDA_BF16, value);
    values[0] = 1;
    values[1] = 1 + 1.0 / 64;
    if (half.values () != values)
      fail ("rounding %zu numbers is not exact", n);
  }
}

static void test_rotary ()
{
  const struct {
    PsCudaElement element;
    int batch, sequence, heads, head_size, stride;
  } shapes[] = { { PS_CUDA_FP32, 1, 7, 3, 10, 35 },
                 { PS_CUDA_FP32, 2, 65, 2, 64, 128 },
                 { PS_CUDA_BF16, 2, 65, 3, 32, 104 },
                 { PS_CUDA_BF16, 1, 9, 1, 6, 7 } };

  for (const auto &s : shapes) {
    const int rows = s.batch * s.sequence;
    const size_t n = (size_t)rows * (size_t)s.stride;
    const Tolerance allowed = tolerance (s.element);
    Bytes table (ps_cuda_rotary_table_bytes (s.sequence, s.head_size));
    must (ps_cuda_rotary_table ((float *)table.memory, s.sequence, s.head_size, 10000, 0), "rotary table");
    for (int backward = 0; backward < 2; backward++) {
      Array x (s.element, random_values (n, 1, 9));
      Values expected = x.values ();
      for (int row = 0; row < rows; row++)
        for (int head = 0; head < s.heads; head++)
          ps_reference_rotary (&expected[(size_t)(row * s.stride + head * s.head_size)], row % s.sequence, s.head_size,
                               10000, backward);
      repeat ("rotary", { &x }, [&] () {
        must (ps_cuda_rotary (s.element, x.at (), (const float *)table.memory, rows, s.sequence, s.heads, s.head_size,
                              s.stride, backward, 0),
              "rotary");
      });
      check_near ("rotary", x.values (), expected, allowed.relative, allowed.absolute);
    }
  }
}

/* In fp32, 1 - 0.999 is 1.3e-5 off, relatively: so are the variance and a step, which is 1e-3 at most. */
static void test_adam ()
{
  for (const size_t n : { (size_t)4, (size_t)7, (size_t)1028 }) {
    Array master (PS_CUDA_FP32, random_values (n, 0.02, 10)), weights (PS_CUDA_BF16, n);
    Array gradient (PS_CUDA_FP32, random_values (n, 1, 11));
    Array momentum (PS_CUDA_FP32, Values (n, 0)), variance (PS_CUDA_FP32, Values (n, 0));
    Values w = master.values (), m (n, 0), v (n, 0);
    Array tried (PS_CUDA_FP32, n), copy (PS_CUDA_BF16, n);
    for (uint64_t step = 1; step <= 3; step++) {
      Values g = gradient.values (), rounded = w;
      const Values before = master.values ();
      repeat ("adam tried out", { &tried, &copy }, [&] () {
        must (ps_cuda_adam_try (copy.at (), tried.at<float> (), master.at<float> (), gradient.at<float> (),
                                momentum.at<float> (), variance.at<float> (), n, 0.25f, 1e-3, step, 0),
              "adam tried out");
      });
      if (master.values () != before || gradient.values () != g)
        fail ("a step that is tried out changes more than its result");
      repeat ("adam", { &master, &weights, &gradient, &momentum, &variance }, [&] () {
        must (ps_cuda_adam (weights.at (), master.at<float> (), gradient.at<float> (), momentum.at<float> (),
                            variance.at<float> (), n, 0.25f, 1e-3, step, 0),
              "adam");
      });
      ps_reference_adam (w.data (), g.data (), m.data (), v.data (), n, 0.25, step);
      check_near ("master", master.values (), w, 1e-6, 1e-3 * 3e-5);
      check_near ("gradient", gradient.values (), g, 0, 0);
      check_near ("momentum", momentum.values (), m, 1e-5, 1e-8);
      check_near ("variance", variance.values (), v, 3e-5, 1e-8);
      rounded = master.values ();
      for (double &value : rounded)
        value = round_to (PS_CUDA_BF16, value);
      if (weights.values () != rounded)
        fail ("weights are not the rounded master weights");
      if (tried.values () != master.values () || copy.values () != weights.values ())
        fail ("a step gives other weights than when it was tried out");
      gradient.set_bytes (Array (PS_CUDA_FP32, random_values (n, 1, 11 + (uint32_t)step)).bytes ());
    }
    must (ps_cuda_adam (NULL, master.at<float> (), gradient.at<float> (), momentum.at<float> (), variance.at<float> (),
                        n, 0.25f, 1e-3, 4, 0),
          "adam without a copy");
  }
}

/* Sums of numbers whose squares are exact. */
static void test_norm_square ()
{
  for (const size_t n : { (size_t)0, (size_t)1, (size_t)1000, (size_t)200003 }) {
    Values numbers (n);
    double expected = 0;
    for (size_t i = 0; i < n; i++) {
      numbers[i] = (double)(i % 64) - 32;
      expected += numbers[i] * numbers[i] / 4;
    }
    Array values (PS_CUDA_FP32, numbers), total (PS_CUDA_FP32, ps_cuda_norm_square_workspace () / sizeof (float));
    double found;
    must (ps_cuda_norm_square (total.at<double> (), values.at<float> (), n, 0.5f, 0), "norm");
    memcpy (&found, total.bytes ().data (), sizeof found);
    if (found != expected)
      fail ("the square of the norm of %zu numbers is %g, not %g", n, found, expected);
  }
}

static void test_nothing ()
{
  check_status ("bias", ps_cuda_bias_add (PS_CUDA_FP32, NULL, NULL, 0, 8, 0), cudaSuccess);
  check_status ("adam", ps_cuda_adam (NULL, NULL, NULL, NULL, NULL, 0, 1, 1e-3, 1, 0), cudaSuccess);
}

const Test element_tests[] = {
  { "elements: bias", test_bias },
  { "elements: GELU", test_gelu },
  { "elements: GELU's slope by differences", test_gelu_differences },
  { "elements: SwiGLU", test_swiglu },
  { "elements: rounding", test_rounding },
  { "elements: rotary positions", test_rotary },
  { "elements: Adam", test_adam },
  { "elements: norm of gradients", test_norm_square },
  { "elements: nothing to do", test_nothing },
  { nullptr, nullptr },
};

/* row-tests.cpp - norms and sums over rows. */
#include <math.h>
#include <stdio.h>

#include "rig.h"
#include "kernels-reference.h"

struct Case {
  PsCudaElement element;
  int rows, columns;
  int shift; /* arrays off 16 bytes: the slow path */
};

/* One warp per row, a block per row with few and with many packs, rows that no layout keeps, odd rows. */
static const Case cases[] = {
  { PS_CUDA_FP32, 1, 8, 0 },     { PS_CUDA_FP32, 7, 33, 0 },    { PS_CUDA_FP32, 64, 512, 0 },
  { PS_CUDA_FP32, 9, 1024, 0 },  { PS_CUDA_FP32, 3, 2500, 0 },  { PS_CUDA_FP32, 2, 8200, 0 },
  { PS_CUDA_FP32, 5, 64, 1 },    { PS_CUDA_BF16, 1, 8, 0 },     { PS_CUDA_BF16, 7, 33, 0 },
  { PS_CUDA_BF16, 130, 256, 0 }, { PS_CUDA_BF16, 9, 1024, 0 },  { PS_CUDA_BF16, 3, 1032, 0 },
  { PS_CUDA_BF16, 2, 5000, 0 },  { PS_CUDA_BF16, 1, 16400, 0 }, { PS_CUDA_BF16, 5, 64, 1 },
  { PS_CUDA_BF16, 300, 72, 0 },
};

static const double *or_null (const Values &values, bool there)
{
  return there ? values.data () : nullptr;
}

static void launch_norm (const Case &c, bool centred, const Array &y, const Array &mean, const Array &scale,
                         const Array &x, const Array &gain, const Array &bias)
{
  must (ps_cuda_norm_rows (c.element, y.at (), centred ? mean.at<float> () : NULL, scale.at<float> (), x.at (),
                           gain.at (), centred ? bias.at () : NULL, c.rows, c.columns, 0),
        centred ? "layer norm" : "RMS norm");
}

/* y is scaled to about 1, so errors of arithmetic are absolute. */
static void check_norm (const Case &c, bool centred)
{
  const size_t n = (size_t)c.rows * (size_t)c.columns, columns = (size_t)c.columns, rows = (size_t)c.rows;
  const Tolerance allowed = tolerance (c.element);
  Values input = random_values (n, 2, 1), expected (n), middle (rows), factor (rows);
  for (double &value : input)
    value += 0.75;
  Array x (c.element, input, c.shift), gain (c.element, random_values (columns, 1, 3), c.shift),
      bias (c.element, random_values (columns, 1, 4), c.shift);
  Array y (c.element, n, c.shift), mean (PS_CUDA_FP32, rows), scale (PS_CUDA_FP32, rows);
  repeat ("norm", { &y, &mean, &scale }, [&] () { launch_norm (c, centred, y, mean, scale, x, gain, bias); });
  ps_reference_norm (expected.data (), centred ? middle.data () : nullptr, factor.data (), x.values ().data (),
                     gain.values ().data (), or_null (bias.values (), false), c.rows, c.columns);
  const Values shift = bias.values ();
  for (size_t i = 0; i < n && centred; i++)
    expected[i] += shift[i % columns];
  check_near (centred ? "layer norm" : "RMS norm", y.values (), expected, allowed.relative, 3 * allowed.absolute);
  check_near ("scale", scale.values (), factor, arithmetic_error, 0);
  if (centred)
    check_near ("mean", mean.values (), middle, arithmetic_error, arithmetic_error);
}

static void test_norm ()
{
  for (const Case &c : cases)
    for (const bool centred : { false, true })
      check_norm (c, centred);
}

static void launch_input (const Case &c, bool centred, const Array &dx, const void *residual, const Array &dy,
                          const Array &x, const Array &mean, const Array &scale, const Array &gain)
{
  must (ps_cuda_norm_rows_input (c.element, dx.at (), residual, dy.at (), x.at (), centred ? mean.at<float> () : NULL,
                                 scale.at<float> (), gain.at (), c.rows, c.columns, 0),
        centred ? "layer norm input" : "RMS norm input");
}

static void check_norm_input (const Case &c, bool centred)
{
  const size_t n = (size_t)c.rows * (size_t)c.columns, columns = (size_t)c.columns, rows = (size_t)c.rows;
  const Tolerance allowed = tolerance (c.element);
  Array x (c.element, random_values (n, 2, 5), c.shift), dy (c.element, random_values (n, 1, 6), c.shift);
  Array gain (c.element, random_values (columns, 1, 7), c.shift),
      residual (c.element, random_values (n, 1, 8), c.shift);
  Array mean (PS_CUDA_FP32, random_values (rows, 0.5, 9)), dx (c.element, n, c.shift);
  Values factor = random_values (rows, 0.1, 10), expected (n);
  for (double &value : factor)
    value = 0.5 + fabs (value);
  Array scale (PS_CUDA_FP32, factor);
  repeat ("norm input", { &dx }, [&] () { launch_input (c, centred, dx, nullptr, dy, x, mean, scale, gain); });
  ps_reference_norm_input (expected.data (), dy.values ().data (), x.values ().data (), or_null (mean.values (), false),
                           scale.values ().data (), gain.values ().data (), c.rows, c.columns);
  if (centred) {
    const Values middle = mean.values ();
    ps_reference_norm_input (expected.data (), dy.values ().data (), x.values ().data (), middle.data (),
                             scale.values ().data (), gain.values ().data (), c.rows, c.columns);
  }
  check_near ("norm input", dx.values (), expected, allowed.relative, 10 * allowed.absolute);
  const Values other = residual.values ();
  for (size_t i = 0; i < n; i++)
    expected[i] += other[i];
  repeat ("norm input and residual", { &residual },
          [&] () { launch_input (c, centred, residual, residual.at (), dy, x, mean, scale, gain); });
  check_near ("norm input and residual", residual.values (), expected, allowed.relative, 10 * allowed.absolute);
}

static void test_norm_input ()
{
  for (const Case &c : cases) {
    check_norm_input (c, true);
    check_norm_input (c, false);
  }
}

/* The loss L = sum of dy * norm (x), differentiated by the kernel and by differences: (L (x + e) - L (x - e)) / 2e for
 * one x at a time, e = 2^-6, all in fp32 with L summed in double. The third derivative of a norm of numbers near 2 is
 * below 10, so e^2 / 6 * 10 = 4e-4; rounding of y adds about 2^-23 * sqrt (columns) * 4 / e = 2e-4. */
static void test_norm_differences ()
{
  const int columns = 24, n = columns;
  const double step = 1.0 / 64;
  const Values at = random_values ((size_t)n, 2, 11);
  Array gain (PS_CUDA_FP32, random_values ((size_t)n, 1, 12)), bias (PS_CUDA_FP32, random_values ((size_t)n, 1, 13));
  Array dy (PS_CUDA_FP32, random_values ((size_t)n, 1, 14)), dx (PS_CUDA_FP32, (size_t)n);
  Array mean (PS_CUDA_FP32, 1), scale (PS_CUDA_FP32, 1), y (PS_CUDA_FP32, (size_t)n);
  const Case c = { PS_CUDA_FP32, 1, columns, 0 };
  const Values slope = dy.values ();

  for (const bool centred : { true, false }) {
    auto loss = [&] (int moved, double by) {
      Values values = at;
      values[(size_t)moved] += by;
      Array x (PS_CUDA_FP32, values);
      launch_norm (c, centred, y, mean, scale, x, gain, bias);
      const Values result = y.values ();
      double sum = 0;
      for (int i = 0; i < n; i++)
        sum += slope[(size_t)i] * result[(size_t)i];
      return sum;
    };
    Values expected ((size_t)n);
    for (int i = 0; i < n; i++)
      expected[(size_t)i] = (loss (i, step) - loss (i, -step)) / (2 * step);
    loss (0, 0);
    Array x (PS_CUDA_FP32, at);
    launch_input (c, centred, dx, nullptr, dy, x, mean, scale, gain);
    check_near ("norm input by differences", dx.values (), expected, 0, 1e-3);
  }
}

/* Errors of a sum: relative to the sum of the absolute values of its terms. */
static void check_columns (const Case &c)
{
  const size_t n = (size_t)c.rows * (size_t)c.columns, columns = (size_t)c.columns, rows = (size_t)c.rows;
  Array dy (c.element, random_values (n, 1, 15), c.shift), x (c.element, random_values (n, 1, 16), c.shift);
  Array gain (c.element, random_values (columns, 1, 20), c.shift),
      bias (c.element, random_values (columns, 1, 21), c.shift);
  Array y (c.element, n, c.shift), rms (c.element, n, c.shift);
  Array mean (PS_CUDA_FP32, random_values (rows, 1, 17)), scale (PS_CUDA_FP32, random_values (rows, 1, 18));
  Bytes workspace (ps_cuda_columns_workspace (c.rows, c.columns));
  const Values before = random_values (columns, 1, 19);
  Values of_gain (columns), of_bias (columns), of_rms (columns), magnitude (columns, 1);
  const Values d = dy.values (), in = x.values (), middle = mean.values (), factor = scale.values ();
  ps_reference_norm_weights (of_gain.data (), of_bias.data (), d.data (), in.data (), middle.data (), factor.data (),
                             c.rows, c.columns);
  ps_reference_norm_weights (of_rms.data (), nullptr, d.data (), in.data (), nullptr, factor.data (), c.rows,
                             c.columns);
  Array dgain (PS_CUDA_FP32, before), dbias (PS_CUDA_FP32, before), drms (PS_CUDA_FP32, before),
      dplain (PS_CUDA_FP32, before);
  const Values rounded = dgain.values ();
  for (size_t i = 0; i < n; i++)
    magnitude[i % columns] += fabs (d[i]) * (1 + fabs ((in[i] - middle[i / columns]) * factor[i / columns]));
  for (size_t i = 0; i < columns; i++) {
    of_gain[i] += rounded[i];
    of_bias[i] += rounded[i];
    of_rms[i] += rounded[i];
  }
  repeat ("layer norm weights", { &dgain, &dbias, &y }, [&] () {
    must (ps_cuda_norm_rows_weights (c.element, dgain.at<float> (), dbias.at<float> (), y.at (), dy.at (), x.at (),
                                     mean.at<float> (), scale.at<float> (), gain.at (), bias.at (), c.rows, c.columns,
                                     workspace.memory, 0),
          "layer norm weights");
  });
  repeat ("RMS norm weights", { &drms, &rms }, [&] () {
    must (ps_cuda_norm_rows_weights (c.element, drms.at<float> (), NULL, rms.at (), dy.at (), x.at (), NULL,
                                     scale.at<float> (), gain.at (), NULL, c.rows, c.columns, workspace.memory, 0),
          "RMS norm weights");
  });
  repeat ("bias gradient", { &dplain }, [&] () {
    must (ps_cuda_bias_gradient (c.element, dplain.at<float> (), dy.at (), c.rows, c.columns, workspace.memory, 0),
          "bias gradient");
  });
  const double allowed = 1e-6; /* 2^-24 times a few for sums in chunks */
  check_near ("layer norm gain", dgain.values (), of_gain, 0, allowed, &magnitude);
  check_near ("layer norm bias", dbias.values (), of_bias, 0, allowed, &magnitude);
  check_near ("RMS norm gain", drms.values (), of_rms, 0, allowed, &magnitude);
  check_near ("bias gradient", dplain.values (), of_bias, 0, allowed, &magnitude);
  const Values scales = gain.values (), shifts = bias.values ();
  Values normed (n), rms_normed (n);
  for (size_t i = 0; i < n; i++) {
    normed[i] = (in[i] - middle[i / columns]) * factor[i / columns] * scales[i % columns] + shifts[i % columns];
    rms_normed[i] = in[i] * factor[i / columns] * scales[i % columns];
  }
  const Tolerance rounding = tolerance (c.element);
  check_near ("layer norm again", y.values (), normed, rounding.relative, 10 * rounding.absolute);
  check_near ("RMS norm again", rms.values (), rms_normed, rounding.relative, 10 * rounding.absolute);
}

static void test_columns ()
{
  for (const Case &c : cases)
    check_columns (c);
}

static void test_nothing ()
{
  check_status ("layer norm", ps_cuda_norm_rows (PS_CUDA_BF16, NULL, NULL, NULL, NULL, NULL, NULL, 0, 8, 0),
                cudaSuccess);
  check_status ("bias gradient", ps_cuda_bias_gradient (PS_CUDA_BF16, NULL, NULL, 0, 8, NULL, 0), cudaSuccess);
}

const Test row_tests[] = {
  { "rows: norms", test_norm },
  { "rows: gradients through norms", test_norm_input },
  { "rows: gradients through norms by differences", test_norm_differences },
  { "rows: sums over columns", test_columns },
  { "rows: nothing to do", test_nothing },
  { nullptr, nullptr },
};

/* Tests of cluster.h: lines that are known, and the conditions that an optimum over values not below 0 must meet. */
#include <pipesim/cluster.h>

#include <math.h>

/* 8 B to 4 MiB in powers of two. */
#define N_SIZES 20

static void sizes (gint64 bytes[N_SIZES])
{
  for (guint i = 0; i < N_SIZES; i++)
    bytes[i] = (gint64)8 << i;
}

/* 2 us + 0.5 ns per byte: 0 B take 2,000 ns, 1,000 B take 2,500 ns. */
static void test_line (void)
{
  gint64 bytes[N_SIZES], ns[N_SIZES];
  PsTransferFit fit;

  sizes (bytes);
  for (guint i = 0; i < N_SIZES; i++)
    ns[i] = 2000 + bytes[i] / 2;
  ps_transfer_fit (bytes, ns, N_SIZES, &fit);
  g_assert_cmpuint (fit.n_pieces, ==, 1);
  g_assert_cmpint (fit.piece[0].from_bytes, ==, 0);
  g_assert_cmpfloat_with_epsilon (fit.alpha_ns, 2000, 1e-6);
  g_assert_cmpfloat_with_epsilon (fit.piece[0].ns_per_byte, 0.5, 1e-9);
  g_assert_cmpfloat_with_epsilon (fit.r_squared, 1, 1e-9);
  g_assert_cmpfloat (fit.largest_error, <, 1e-9);
  g_assert_cmpfloat_with_epsilon (ps_transfer_fit_at (&fit, 0), 2000, 1e-6);
  g_assert_cmpfloat_with_epsilon (ps_transfer_fit_at (&fit, 1000), 2500, 1e-6);
}

/* Nothing to 4 KiB, then 0.25 ns per byte to 256 KiB, then 1. */
static void test_pieces (void)
{
  const gint64 first = 4096, second = 262144;
  gint64 bytes[N_SIZES], ns[N_SIZES];
  PsTransferFit fit;

  sizes (bytes);
  for (guint i = 0; i < N_SIZES; i++)
    ns[i] = 10000 + (CLAMP (bytes[i], first, second) - first) / 4 + MAX (bytes[i] - second, 0);
  ps_transfer_fit (bytes, ns, N_SIZES, &fit);
  g_assert_cmpuint (fit.n_pieces, ==, 3);
  g_assert_cmpint (fit.piece[1].from_bytes, ==, first);
  g_assert_cmpint (fit.piece[2].from_bytes, ==, second);
  g_assert_cmpfloat_with_epsilon (fit.alpha_ns, 10000, 1e-3);
  g_assert_cmpfloat_with_epsilon (fit.piece[0].ns_per_byte, 0, 1e-6);
  g_assert_cmpfloat_with_epsilon (fit.piece[1].ns_per_byte, 0.25, 1e-6);
  g_assert_cmpfloat_with_epsilon (fit.piece[2].ns_per_byte, 1, 1e-6);
  g_assert_cmpfloat (fit.largest_error, <, 1e-6);
  /* 10,000 + 258,048 / 4 + 1,000 at 1,000 B after the second. */
  g_assert_cmpfloat_with_epsilon (ps_transfer_fit_at (&fit, 263144), 75512, 1e-2);
}

/* Two points: (10, 100) and (20, 300) lie on a line through -100 at 0, which no message takes. With alpha = 0 the best
 * beta minimises (10 b / 100 - 1)^2 + (20 b / 300 - 1)^2: b = (1/10 + 1/15) / (1/100 + 1/225) = 150 / 13. */
static void test_no_negative_alpha (void)
{
  const gint64 bytes[] = { 10, 20 }, ns[] = { 100, 300 };
  const double beta = 150.0 / 13, first = beta / 10 - 1, second = beta / 15 - 1;
  PsTransferFit fit;

  ps_transfer_fit (bytes, ns, 2, &fit);
  g_assert_cmpuint (fit.n_pieces, ==, 1);
  g_assert_cmpfloat (fit.alpha_ns, ==, 0);
  g_assert_cmpfloat_with_epsilon (fit.piece[0].ns_per_byte, beta, 1e-9);
  g_assert_cmpfloat_with_epsilon (fit.largest_error, MAX (fabs (first), fabs (second)), 1e-9);
}

/* Larger messages that take less time: the best that never falls is a constant, that with the least relative errors:
 * (1/100 + 1/50) / (1/100^2 + 1/50^2) = 60. */
static void test_never_falls (void)
{
  const gint64 bytes[] = { 10, 20 }, ns[] = { 100, 50 };
  PsTransferFit fit;

  ps_transfer_fit (bytes, ns, 2, &fit);
  g_assert_cmpfloat_with_epsilon (fit.alpha_ns, 60, 1e-9);
  g_assert_cmpfloat (fit.piece[0].ns_per_byte, ==, 0);
  g_assert_cmpfloat_with_epsilon (fit.r_squared, 0, 1e-9);
}

static void test_text (void)
{
  const PsTransferFit line = { .alpha_ns = 2000, .piece = { { 0, 0.5 } }, .n_pieces = 1, .r_squared = 1 },
                      pieces = { .alpha_ns = 15.4,
                                 .piece = { { 0, 0 }, { 4096, 0.25 }, { 1 << 20, 0 } },
                                 .n_pieces = 3,
                                 .r_squared = 0.98765,
                                 .largest_error = 0.1234 };
  g_autofree char *of_line = ps_transfer_fit_to_text (&line), *of_pieces = ps_transfer_fit_to_text (&pieces);

  g_assert_cmpstr (of_line, ==, "alpha 2 us\n0.5 ns/B (2 GB/s)\nR² 1.000, within 0.0 %");
  g_assert_cmpstr (of_pieces, ==,
                   "alpha 15 ns\nto 4 KiB: no slope\nto 1 MiB: 0.25 ns/B (4 GB/s)\nbeyond: no slope\n"
                   "R² 0.988, within 12.3 %");
}

/* d (sum of squared relative errors) / d unknown, by its formula, over the sum of the terms' sizes. */
static double slope (const PsTransferFit *fit, const gint64 *bytes, const gint64 *ns, guint n, int piece)
{
  double sum = 0, size = 0;

  for (guint i = 0; i < n; i++) {
    double at = (double)bytes[i], time = (double)ns[i], part = 1;

    if (piece >= 0) {
      double from = (double)fit->piece[piece].from_bytes;
      double to = piece + 1 < (int)fit->n_pieces ? (double)fit->piece[piece + 1].from_bytes : at;

      part = MAX (0, MIN (at, to) - from);
    }
    sum += (ps_transfer_fit_at (fit, at) / time - 1) * part / time;
    size += part / time;
  }
  return sum / size;
}

/* Karush, Kuhn and Tucker: where an unknown is above 0 the sum is flat in it, and where it is 0 the sum rises with it.
 * A convex sum that meets this is at its least. */
static void test_optimal (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (7);

  for (guint round = 0; round < 500; round++) {
    guint n = (guint)g_rand_int_range (random, 2, N_SIZES + 1);
    gint64 bytes[N_SIZES], ns[N_SIZES];
    PsTransferFit fit;

    sizes (bytes);
    for (guint i = 0; i < n; i++)
      ns[i] = (gint64)(exp (g_rand_double_range (random, 0, 3)) * (1000 + (double)bytes[i] * (round % 3) / 4)) + 1;
    ps_transfer_fit (bytes, ns, n, &fit);
    g_assert_cmpuint (fit.n_pieces, <=, PS_FIT_MAX_PIECES);
    g_assert_cmpfloat (fit.r_squared, >=, -1e-9);
    for (int piece = -1; piece < (int)fit.n_pieces; piece++) {
      double unknown = piece < 0 ? fit.alpha_ns : fit.piece[piece].ns_per_byte;
      double rise = slope (&fit, bytes, ns, n, piece);

      g_assert_cmpfloat (unknown, >=, 0);
      g_assert_cmpfloat (rise, >, -1e-6);
      if (unknown > 0)
        g_assert_cmpfloat (rise, <, 1e-6);
    }
  }
}

/* Of 30, 40 and 100 ns at 20, 40 and 80 bytes the middle is left out: 30 + 70 / 3 in place of 40. */
static void test_interpolation (void)
{
  const gint64 bytes[] = { 20, 40, 80, 160 }, line[] = { 30, 40, 60, 100 }, bent[] = { 30, 40, 100, 100 };

  g_assert_true (isnan (ps_interpolation_error (bytes, line, 2)));
  g_assert_cmpfloat_with_epsilon (ps_interpolation_error (bytes, line, 4), 0, 1e-12);
  g_assert_cmpfloat_with_epsilon (ps_interpolation_error (bytes, bent, 3), (30 + 70 / 3.0) / 40 - 1, 1e-12);
  /* 60 in place of 100 at 80 bytes is off by more. */
  g_assert_cmpfloat_with_epsilon (ps_interpolation_error (bytes, bent, 4), (30 + 70 / 3.0) / 40 - 1, 1e-12);
}

/* Whatever the messages took, the largest error is the largest of all, be it of the first one or of the last. */
static void test_largest_error (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  guint n_first = 0, n_last = 0;

  for (guint k = 0; k < 40; k++) {
    gint64 bytes[8], ns[8];
    double largest = 0;
    guint worst = 0;
    PsTransferFit fit;

    for (guint i = 0; i < 8; i++) {
      bytes[i] = 100 << i;
      ns[i] = g_rand_int_range (rand, 500, 1500) + bytes[i];
    }
    ps_transfer_fit (bytes, ns, 8, &fit);
    for (guint i = 0; i < 8; i++) {
      double error = fabs (ps_transfer_fit_at (&fit, (double)bytes[i]) / (double)ns[i] - 1);

      worst = error > largest ? i : worst;
      largest = MAX (largest, error);
    }
    g_assert_cmpfloat_with_epsilon (fit.largest_error, largest, 1e-9);
    n_first += worst == 0;
    n_last += worst == 7;
  }
  g_assert_cmpuint (n_first, >, 2);
  g_assert_cmpuint (n_last + n_first, <, 40);
}

/* 2 ns and 3 ns of two amounts; no op has the third. Three ops of one amount have
 * the least errors at (1/10 + 1/20 + 1/30) / (1/100 + 1/400 + 1/900) = 660 / 49 ns. */
static void test_amounts (void)
{
  const PsFitAmounts both[] = { { { 10, 0 } }, { { 10, 5 } }, { { 1, 40 } } },
                     one[] = { { { 1 } }, { { 1 } }, { { 1 } } };
  PsFitAmounts found;

  g_assert_cmpfloat (ps_fit_amounts (both, (const gint64[]){ 20, 35, 122 }, 3, &found), <, 1e-9);
  g_assert_cmpfloat_with_epsilon (found.of[0], 2, 1e-9);
  g_assert_cmpfloat_with_epsilon (found.of[1], 3, 1e-9);
  g_assert_cmpfloat (found.of[2], ==, 0);
  g_assert_cmpfloat_with_epsilon (ps_fit_amounts (one, (const gint64[]){ 10, 20, 30 }, 3, &found), 1 - 66 / 147.0,
                                  1e-9);
  g_assert_cmpfloat_with_epsilon (found.of[0], 660 / 49.0, 1e-9);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/fit/line", test_line);
  g_test_add_func ("/fit/pieces", test_pieces);
  g_test_add_func ("/fit/no-negative-alpha", test_no_negative_alpha);
  g_test_add_func ("/fit/never-falls", test_never_falls);
  g_test_add_func ("/fit/optimal", test_optimal);
  g_test_add_func ("/fit/text", test_text);
  g_test_add_func ("/fit/amounts", test_amounts);
  g_test_add_func ("/fit/interpolation", test_interpolation);
  g_test_add_func ("/fit/largest-error", test_largest_error);
  return g_test_run ();
}

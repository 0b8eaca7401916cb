/* Tests of how far the times of one run are from those of another (ps_cost_spread_set_runs): each part of
 * docs/intervals.md by itself, in numbers worked out by hand. d, D, a and b are logarithms of the ratios that the cases
 * are made of. */
#include <pipesim/costdb.h>

#include <math.h>

#define MAX_ROWS 2

typedef struct {
  GPtrArray *rows;      /* of arrays of PsMeasurement, by calibration */
  GPtrArray *sentinels; /* of arrays of PsSentinel, by calibration */
  double deviation[MAX_ROWS];
  PsCostSpread spread;
} Case;

static void case_init (Case *c, guint n_rows, guint n_calibrations)
{
  *c = (Case){ .rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref),
               .sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref) };
  for (guint i = 0; i < n_rows; i++)
    g_ptr_array_add (c->rows, g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free));
  for (guint i = 0; i < n_calibrations; i++)
    g_ptr_array_add (c->sentinels, g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sentinel_free));
}

static void case_clear (Case *c)
{
  g_ptr_array_unref (c->rows);
  g_ptr_array_unref (c->sentinels);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

/* The next calibration's measurement of a row, with these samples; 0 of them: it lacks the row. */
static void add_row (Case *c, guint row, gint64 median, gint64 mad, const gint64 *samples, guint n)
{
  PsMeasurement *m = n > 0 ? g_new0 (PsMeasurement, 1) : NULL;

  if (m != NULL) {
    m->time = (PsStatistics){ .median_ns = median, .mad_ns = mad, .n = n };
    m->n_samples = n;
    m->samples_ns = g_memdup2 (samples, n * sizeof *samples);
  }
  g_ptr_array_add (c->rows->pdata[row], m);
}

static void add_reading (Case *c, guint calibration, const char *what, gint64 median, guint n)
{
  PsSentinel *reading = g_new0 (PsSentinel, 1);

  *reading = (PsSentinel){ .what = g_strdup (what), .median_ns = median, .n = n };
  g_ptr_array_add (c->sentinels->pdata[calibration], reading);
}

static const PsCostSpread *spread_of (Case *c)
{
  c->spread = (PsCostSpread){ .n_rows = c->rows->len, .deviation = c->deviation };
  ps_cost_spread_set_runs (&c->spread, c->rows, c->sentinels);
  return &c->spread;
}

/* 32 samples, the later half of them 10 % longer. Of 8 batches that follow one another half have medians d = ln 1.1
 * apart: a variance of 8 (d / 2)^2 / 7 = 2 d^2 / 7. Batches of every eighth sample are alike, so all of that is drift.
 * Another run has as much again, for one calibration says nothing of the time between runs: sqrt (4 d^2 / 7), known as
 * 8 batches are. */
static void test_drift (void)
{
  const double d = log (1.1);
  g_auto (Case) c = { 0 };
  gint64 samples[32];

  case_init (&c, 1, 1);
  for (guint i = 0; i < 32; i++)
    samples[i] = i < 16 ? 1000 : 1100;
  add_row (&c, 0, 1000, 0, samples, 32);
  const PsCostSpread *spread = spread_of (&c);
  g_assert_cmpfloat_with_epsilon (spread->common, d * sqrt (4.0 / 7), 1e-9);
  g_assert_cmpfloat_with_epsilon (spread->freedom, 7, 1e-9);
  /* The median's own error is that of alike batches, 0; the clock counts in steps of 100 ns. */
  g_assert_cmpfloat_with_epsilon (spread->deviation[0], 0.1 / sqrt (12), 1e-9);
}

/* 10 samples, 1000 and 1100 in turn, and one of them 1001 so that the clock has steps of 1 ns. Two batches of every
 * second sample are d = ln 1.1 apart, a variance of d^2 / 2, and of their mean d^2 / 4. Those that follow one another
 * differ as much: no drift. */
static void fill_noisy (Case *c)
{
  static const gint64 samples[] = { 1000, 1100, 1000, 1100, 1000, 1100, 1001, 1100, 1000, 1100 };

  add_row (c, 0, 1000, 0, samples, 10);
}

static void test_noise (void)
{
  const double d = log (1.1);
  g_auto (Case) c = { 0 };

  case_init (&c, 1, 1);
  fill_noisy (&c);
  const PsCostSpread *spread = spread_of (&c);
  g_assert_cmpfloat_with_epsilon (spread->common, 0, 1e-9);
  g_assert_cmpfloat_with_epsilon (spread->deviation[0], sqrt (d * d / 4 + 1e-6 / 12), 1e-9);
}

/* Fewer than 8 samples are no two batches: the median's variance is pi / 2 (1.4826 mad)^2 / n. */
static void test_few (void)
{
  static const gint64 samples[] = { 1000, 1003, 997, 1010, 990, 1000, 1000 };
  g_auto (Case) c = { 0 };

  case_init (&c, 1, 1);
  add_row (&c, 0, 1000, 50, samples, 7);
  const PsCostSpread *spread = spread_of (&c);
  g_assert_cmpfloat_with_epsilon (spread->common, 0, 1e-9);
  g_assert_cmpfloat_with_epsilon (spread->deviation[0], sqrt (G_PI / 2 * pow (1.4826 * 0.05, 2) / 7 + 1e-6 / 12), 1e-9);
}

/* Readings of the sentinel D = ln 1.2 apart have a variance of D^2 / 2. Their own samples spread as those of the rows,
 * of which one has 10 d^2 / 4: readings of 20 samples differ by d^2 / 8 for that alone, and the rest is drift, twice.
 * Readings of five samples, and of another op, say nothing. */
static void test_sentinel (void)
{
  const double d = log (1.1), D = log (1.2);
  g_auto (Case) c = { 0 };

  case_init (&c, 1, 1);
  fill_noisy (&c);
  add_reading (&c, 0, "F", 1000, 20);
  add_reading (&c, 0, "F", 9000, 5);
  add_reading (&c, 0, "B", 9000, 20);
  add_reading (&c, 0, "F", 1200, 20);
  const PsCostSpread *spread = spread_of (&c);
  g_assert_cmpfloat_with_epsilon (spread->common, sqrt (2 * (D * D / 2 - d * d / 8)), 1e-9);
  g_assert_cmpfloat_with_epsilon (spread->freedom, 1, 1e-9);
}

/* Three readings in each of two calibrations, around levels of their own: D = ln 1.2 up and down makes 2 D^2 each, of 2
 * + 2 degrees of freedom. Steady rows explain none of it; between calibrations nothing is seen, so that a part of the
 * drift inside counts once more: D^2 / 1, known with one degree. Satterthwaite: (2 D^2)^2 / (D^4 / 4 + D^4 / 1) = 3.2.
 */
static void test_two_series (void)
{
  static const gint64 steady[8] = { 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1001 };
  const double D = log (1.2);
  g_auto (Case) c = { 0 };

  case_init (&c, 1, 2);
  for (guint i = 0; i < 2; i++) {
    add_row (&c, 0, 1000, 0, steady, 8);
    add_reading (&c, i, "F", i ? 2000000 : 1000000, 10);
    add_reading (&c, i, "F", i ? 2400000 : 1200000, 10);
    add_reading (&c, i, "F", (gint64)llround ((i ? 2e6 : 1e6) / 1.2), 10);
  }
  const PsCostSpread *spread = spread_of (&c);
  g_assert_cmpfloat_with_epsilon (spread->common, D * sqrt (2), 1e-6);
  g_assert_cmpfloat_with_epsilon (spread->freedom, 3.2, 1e-5);
}

/* Two calibrations: the last has rows of 3000 and 1000 ns, three quarters and one quarter of the time; the first was
 * faster by a = ln 1.2 and b = ln 2. The level moved by L = 3/4 a + 1/4 b, and two runs differ so: common is L, with
 * one degree.
 *
 * What is left of a row is (a - L)^2 / 2, or (b - L)^2 / 2. Their mean by weights, over the part 1 - 9/16 - 1/16 that
 * the level leaves to rows, has the weight of 4 degrees beside the row's own one. Two runs differ by twice the result.
 * A calibration in between that lacks a row does not count. */
static void test_calibrations (void)
{
  static const gint64 of_a[8] = { 3000, 3000, 3000, 3000, 3000, 3000, 3000, 3001 };
  static const gint64 of_b[8] = { 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1001 };
  const double a = log (1.2), b = log (2), level = 0.75 * a + 0.25 * b;
  const double rest_a = pow (a - level, 2) / 2, rest_b = pow (b - level, 2) / 2;
  const double mean = (0.75 * rest_a + 0.25 * rest_b) / (1 - 9.0 / 16 - 1.0 / 16);
  g_auto (Case) c = { 0 };

  case_init (&c, 2, 3);
  add_row (&c, 0, 2500, 0, of_a, 8);
  add_row (&c, 1, 500, 0, of_b, 8);
  add_row (&c, 0, 77777, 0, of_a, 8);
  add_row (&c, 1, 0, 0, NULL, 0);
  add_row (&c, 0, 3000, 0, of_a, 8);
  add_row (&c, 1, 1000, 0, of_b, 8);
  const PsCostSpread *spread = spread_of (&c);
  g_assert_cmpfloat_with_epsilon (spread->common, level, 1e-9);
  g_assert_cmpfloat_with_epsilon (spread->freedom, 1, 1e-9);
  g_assert_cmpfloat_with_epsilon (spread->deviation[0], sqrt (2 * (4 * mean + rest_a) / 5 + pow (1.0 / 3000, 2) / 12),
                                  1e-9);
  g_assert_cmpfloat_with_epsilon (spread->deviation[1], sqrt (2 * (4 * mean + rest_b) / 5 + pow (1.0 / 1000, 2) / 12),
                                  1e-9);
}

/* More than 100 % says no more than that. */
static void test_largest (void)
{
  static const gint64 samples[8] = { 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1001 };
  g_auto (Case) c = { 0 };

  case_init (&c, 2, 2);
  add_row (&c, 0, 1000, 0, samples, 8);
  add_row (&c, 1, 1000, 0, samples, 8);
  add_row (&c, 0, 1000000000, 0, samples, 8);
  add_row (&c, 1, 9000, 0, samples, 8);
  const PsCostSpread *spread = spread_of (&c);
  g_assert_cmpfloat (spread->common, ==, 1);
  g_assert_cmpfloat (spread->deviation[1], ==, 1);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/spread/drift", test_drift);
  g_test_add_func ("/spread/noise", test_noise);
  g_test_add_func ("/spread/few", test_few);
  g_test_add_func ("/spread/sentinel", test_sentinel);
  g_test_add_func ("/spread/two-series", test_two_series);
  g_test_add_func ("/spread/calibrations", test_calibrations);
  g_test_add_func ("/spread/largest", test_largest);
  return g_test_run ();
}

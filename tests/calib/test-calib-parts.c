/* Tests of the calibrator's parts: statistics against numbers worked by hand, sampling rules, what is measured, and
 * what is said of it. */
#include "measure.h"
#include "clock.h"
#include "error-rig.h"
#include "provenance.h"

#include <math.h>
#include <string.h>

static void test_statistics (void)
{
  /* sorted 1 2 3 4 5 6 7 8 9 100: median the 5th, quartiles the 3rd and 8th; deviations from 5: 4 3 2 1 0 1 2 3 4 95,
   * sorted 0 1 1 2 2 3 3 4 4 95, the 5th is 2 */
  const gint64 ten[] = { 100, 1, 9, 2, 8, 3, 7, 4, 6, 5 };
  PsStatistics s;

  ps_statistics_compute (ten, 10, &s);
  g_assert_cmpint (s.median_ns, ==, 5);
  g_assert_cmpint (s.q1_ns, ==, 3);
  g_assert_cmpint (s.q3_ns, ==, 8);
  g_assert_cmpint (s.mad_ns, ==, 2);
  g_assert_cmpint (s.min_ns, ==, 1);
  g_assert_cmpuint (s.n, ==, 10);
  /* 10 20 30 40 50: the 3rd, 2nd and 4th; deviations 0 10 10 20 20 */
  const gint64 five[] = { 50, 40, 30, 20, 10 };
  ps_statistics_compute (five, 5, &s);
  g_assert_cmpint (s.median_ns, ==, 30);
  g_assert_cmpint (s.q1_ns, ==, 20);
  g_assert_cmpint (s.q3_ns, ==, 40);
  g_assert_cmpint (s.mad_ns, ==, 10);
  const gint64 one[] = { 7 };
  ps_statistics_compute (one, 1, &s);
  g_assert_cmpint (s.median_ns, ==, 7);
  g_assert_cmpint (s.q1_ns, ==, 7);
  g_assert_cmpint (s.q3_ns, ==, 7);
  g_assert_cmpint (s.mad_ns, ==, 0);
}

/* Textbook ranks of the 95 % interval of a median. n = 10: P (B <= 1) = 11/1024 = 0.011, P (B <= 2) = 56/1024 = 0.055,
 * so low = 2. n = 6: P (B <= 0) = 1/64 = 0.016. n = 5: 1/32 = 0.031 is too much already. */
static void test_ranks (void)
{
  const struct {
    guint n, low, high;
  } rows[]
      = { { 6, 1, 6 }, { 10, 2, 9 }, { 15, 4, 12 }, { 20, 6, 15 }, { 30, 10, 21 }, { 50, 18, 33 }, { 100, 40, 61 } };
  guint low, high;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_assert_true (ps_median_ranks (rows[i].n, &low, &high));
    g_assert_cmpuint (low, ==, rows[i].low);
    g_assert_cmpuint (high, ==, rows[i].high);
  }
  for (guint n = 0; n <= 5; n++)
    g_assert_false (ps_median_ranks (n, &low, &high));
  /* For large n about n/2 - 1.96 sqrt (n) / 2: 5000 - 98 */
  g_assert_true (ps_median_ranks (10000, &low, &high));
  g_assert_cmpuint (low, >=, 4901);
  g_assert_cmpuint (low, <=, 4903);
}

/* n = 10: the interval reaches from the 2nd to the 9th of the sorted samples. */
static void test_precise (void)
{
  gint64 samples[] = { 500, 991, 1000, 1000, 1000, 1000, 1000, 1000, 1009, 5000 };

  g_assert_true (ps_median_is_precise (samples, 10, 0.01));
  g_assert_false (ps_median_is_precise (samples, 10, 0.005));
  samples[8] = 1011;
  g_assert_false (ps_median_is_precise (samples, 10, 0.01));
  g_assert_false (ps_median_is_precise (samples, 5, 0.01));
  g_assert_false (ps_median_is_precise (samples, 0, 0.01));
}

/* 1 2 3 4 5: all 10 pairs rise; variance 5 * 4 * 15 / 18 = 16.67; z = 9 / 4.0825 = 2.2045. */
static void test_slope (void)
{
  const gint64 rising[] = { 1, 2, 3, 4, 5 }, falling[] = { 5, 4, 3, 2, 1 }, flat[] = { 3, 3, 3, 3, 3 };
  const gint64 mixed[] = { 1, 3, 2, 4, 3 }; /* pairs: 7 rise, 2 fall, 1 equal: S = 5, z = 4 / 4.0825 */

  g_assert_cmpfloat_with_epsilon (ps_slope_z (rising, 5), 2.2045, 0.0001);
  g_assert_cmpfloat_with_epsilon (ps_slope_z (falling, 5), -2.2045, 0.0001);
  g_assert_cmpfloat (ps_slope_z (flat, 5), ==, 0);
  g_assert_cmpfloat_with_epsilon (ps_slope_z (mixed, 5), 0.9798, 0.0001);
  g_assert_cmpfloat (ps_slope_z (rising, 2), ==, 0);
}

static void test_drift (void)
{
  gint64 samples[40];

  for (gint64 i = 0; i < 40; i++)
    samples[i] = 1000 + i;
  /* Halves differ by 20 of 1019: about 2 %. */
  g_assert_true (ps_has_drift (samples, 40, 0.01));
  g_assert_false (ps_has_drift (samples, 40, 0.03));
  for (gint64 i = 0; i < 40; i++)
    samples[i] = 1000 + 100 * (i % 2);
  g_assert_false (ps_has_drift (samples, 40, 0.01));
}

static const PsSamplingRule rule = { .within = 0.01, .min_samples = 10, .max_samples = 50, .time_limit_ns = 1000 };

/* Ten equal samples are enough, and what comes after is ignored. */
static void test_converged (void)
{
  g_autoptr (PsMeasurement) m = g_new0 (PsMeasurement, 1);
  PsSampler sampler;

  ps_sampler_init (&sampler, &rule);
  for (guint i = 0; i < 9; i++)
    g_assert_false (ps_sampler_add (&sampler, 100, 5));
  g_assert_true (ps_sampler_add (&sampler, 100, 5));
  g_assert_false (ps_sampler_add (&sampler, 777, 5));
  ps_sampler_finish (&sampler, m);
  g_assert_cmpstr (m->stop, ==, "converged");
  g_assert_cmpuint (m->n_samples, ==, 10);
  g_assert_cmpuint (m->time.n, ==, 10);
  g_assert_cmpint (m->time.median_ns, ==, 100);
  ps_sampler_clear (&sampler);
}

static const char *stop_of (gint64 (*sample) (guint i), gint64 elapsed_step, guint *n)
{
  PsSampler sampler;

  ps_sampler_init (&sampler, &rule);
  for (guint i = 0; sampler.stop == NULL; i++)
    ps_sampler_add (&sampler, sample (i), i * elapsed_step);
  *n = sampler.samples->len;
  ps_sampler_clear (&sampler);
  return sampler.stop;
}

static gint64 scattered (guint i)
{
  return 1000 + (i % 7) * 100;
}

static gint64 drifting (guint i)
{
  return 100000 + i * 240;
}

static void test_caps (void)
{
  guint n;

  g_assert_cmpstr (stop_of (scattered, 1, &n), ==, "sample cap");
  g_assert_cmpuint (n, ==, 50);
  /* sample i comes at 200 i, the one at 1000 is the sixth */
  g_assert_cmpstr (stop_of (scattered, 200, &n), ==, "time cap");
  g_assert_cmpuint (n, ==, 6);
  /* 0.24 % per sample: at n = 10 the median is within 0.96 %, but the halves differ by 1.2 % */
  g_assert_cmpstr (stop_of (drifting, 1, &n), ==, "sample cap");
}

static void test_sizes (void)
{
  g_autoptr (GArray) sizes = ps_transfer_sizes (196608);
  gint64 last = 0;
  guint n_boundary = 0;

  /* 8 .. 2^20 >= 4 * 196608 are 18 powers, and the boundary */
  g_assert_cmpuint (sizes->len, ==, 19);
  for (guint i = 0; i < sizes->len; i++) {
    gint64 size = g_array_index (sizes, gint64, i);
    g_autoptr (PsModel) model = ps_model_with_boundary (size);

    g_assert_cmpint (size, >, last);
    g_assert_cmpint (ps_model_boundary_bytes (model), ==, size);
    n_boundary += size == 196608;
    last = size;
  }
  g_assert_cmpint (last, ==, 1 << 20);
  g_assert_cmpuint (n_boundary, ==, 1);
  g_autoptr (GArray) power = ps_transfer_sizes (512);
  g_assert_cmpuint (power->len, ==, 9); /* 8 .. 2048 */
}

/* The model of a message has matrices about as wide as high, sequences of 1024 at most, and heads of 64. */
static void test_boundary_models (void)
{
  static const struct {
    gint64 bytes;
    guint hidden, sequence, batch, heads;
  } rows[] = { { 8, 2, 1, 1, 1 },          { 4096, 32, 32, 1, 1 }, { 8192, 64, 32, 1, 1 },
               { 196608, 256, 192, 1, 4 }, { 12, 1, 3, 1, 1 },     { (gint64)1 << 32, 32768, 1024, 32, 512 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsModel) model = ps_model_with_boundary (rows[i].bytes);

    g_assert_cmpint (ps_model_boundary_bytes (model), ==, rows[i].bytes);
    g_assert_cmpuint (model->hidden, ==, rows[i].hidden);
    g_assert_cmpuint (model->sequence, ==, rows[i].sequence);
    g_assert_cmpuint (model->microbatch_size, ==, rows[i].batch);
    g_assert_cmpuint (model->heads, ==, rows[i].heads);
    g_assert_cmpuint (model->kv_heads, ==, rows[i].heads);
  }
}

static void test_cut (void)
{
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);
  const PsCalibration calibration = { .model = model, .n_devices = 3 };
  g_autoptr (PsCut) cut = ps_cut_new (&calibration, 2, NULL);

  /* 8 layers in 6 stages: 2 2 1 1 1 1 on devices 0 1 2 0 1 2 */
  g_assert_cmpuint (cut->n_stages, ==, 6);
  g_assert_cmpstr (cut->keys[0], ==, "layers=2,embedding");
  g_assert_cmpstr (cut->keys[1], ==, "layers=2");
  g_assert_cmpuint (ps_cut_owner (cut, "layers=2", NULL, 0), ==, 1);
  g_assert_cmpuint (ps_cut_owner (cut, "layers=1", NULL, 0), ==, 0);
  g_assert_cmpuint (ps_cut_owner (cut, "layers=1,head", NULL, 0), ==, 2);
  /* layers=1 is on 2, 0 and 1 */
  const guint shares[] = { 3, 1, 1 };
  g_assert_cmpuint (ps_cut_owner (cut, "layers=1", shares, 3), ==, 0);
  g_assert_cmpuint (ps_cut_owner (cut, "layers=1", shares, 1), ==, 1);
  refused (ps_cut_new (&calibration, 4, &error), PS_ERROR_USAGE,
           "model 'tiny-gpt': its 8 layers, embedding and loss cannot be cut into 12 stages (devices times chunks)");
}

static void test_provenance (void)
{
  g_autoptr (PsModel) model = ps_model_load ("tiny-gpt", NULL);
  g_autoptr (PsProfile) profile
      = ps_profile_new_here ("x", model, ps_device_find ("cpu", NULL), ps_transport_find ("threads", NULL));
  const char *const texts[] = { profile->host, profile->processor, profile->kernel, profile->libraries };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    g_assert_cmpstr (texts[i], !=, "");
  g_assert_cmpstr (profile->device, ==, "cpu");
  g_assert_true (g_str_has_prefix (profile->version, PS_VERSION " "));
  g_assert_nonnull (strstr (profile->libraries, "OpenBLAS"));
  g_assert_nonnull (strstr (profile->libraries, "GLib 2."));
  g_assert_nonnull (strstr (profile->libraries, "SQLite 3."));
  g_assert_true (g_regex_match_simple ("^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$", profile->created, 0, 0));
}

#define MOMENT(text) ((char *)"2026-01-01T00:00:" text "Z")

/* Beside the measurements: 1000 1020, 1000 1020, 1020 1400, 1000 1000, 1000. The level is number (9 + 3) / 4 of these
 * nine in order, 1000. A reading of 5 samples and one of another op are left out. */
static void test_shifts (void)
{
  PsSentinel readings[] = { { (char *)"F", 1000, 10, MOMENT ("00") }, { (char *)"other", 5000, 10, MOMENT ("04") },
                            { (char *)"F", 9000, 5, MOMENT ("07") },  { (char *)"F", 1020, 6, MOMENT ("10") },
                            { (char *)"F", 1400, 10, MOMENT ("20") }, { (char *)"F", 1000, 10, MOMENT ("30") } };
  PsMeasurement rows[] = { { .taken = MOMENT ("05") },
                           { .taken = MOMENT ("08") },
                           { .taken = MOMENT ("15") },
                           { .taken = MOMENT ("30") },
                           { .taken = MOMENT ("35") } };
  g_autoptr (GPtrArray) series = g_ptr_array_new (), measurements = g_ptr_array_new ();
  double shifts[G_N_ELEMENTS (rows)];
  PsSlowdown slowdown[G_N_ELEMENTS (rows)];

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_ptr_array_add (measurements, &rows[i]);
  g_assert_true (isnan (ps_sentinel_shifts (series, measurements, NULL)));
  for (guint i = 0; i < G_N_ELEMENTS (readings); i++)
    g_ptr_array_add (series, &readings[i]);
  g_assert_cmpfloat_with_epsilon (ps_sentinel_shifts (series, measurements, shifts), 0.4, 1e-9);
  g_assert_cmpfloat_with_epsilon (shifts[0], 0.02, 1e-9);
  g_assert_cmpfloat_with_epsilon (shifts[1], 0.02, 1e-9);
  g_assert_cmpfloat_with_epsilon (shifts[2], 0.4, 1e-9);
  g_assert_cmpfloat (shifts[3], ==, 0);
  g_assert_cmpfloat (shifts[4], ==, 0);
  /* Their median is 1000, too. The third row has 1020 and 1400 beside it, the last one 1000 before it alone. The four
   * readings lie apart by s^2 = (ln^2 1.02 + ln^2 1.4) / 3. */
  double s = sqrt ((pow (log (1.02), 2) + pow (log (1.4), 2)) / 3);
  ps_sentinel_slowdown (series, measurements, measurements, slowdown);
  g_assert_cmpfloat_with_epsilon (slowdown[2].factor, 1.21, 1e-9);
  g_assert_cmpfloat_with_epsilon (slowdown[2].error, s * sqrt (1.0 / 2 + 1.0 / 4), 1e-9);
  g_assert_cmpfloat_with_epsilon (slowdown[4].factor, 1, 1e-9);
  g_ptr_array_set_size (series, 0);
  ps_sentinel_slowdown (series, measurements, measurements, slowdown);
  g_assert_true (isnan (slowdown[0].factor));
}

/* Readings and runs of one second are told apart: a run must not have the reading before it on both sides. */
static void test_moments (void)
{
  g_autofree char *first = ps_moment_now (), *second = NULL;

  g_usleep (1000);
  second = ps_moment_now ();
  g_assert_cmpstr (first, <, second);
}

/* The rule of ps_median_ranks as a number. */
static void test_least_samples (void)
{
  guint low, high;

  g_assert_false (ps_median_ranks (PS_MEDIAN_MIN_SAMPLES - 1, &low, &high));
  g_assert_true (ps_median_ranks (PS_MEDIAN_MIN_SAMPLES, &low, &high));
}

/* Notches are 1.57 (q3 - q1) / sqrt (n) wide to each side: 1.57 * 100 / 10 = 15.7. */
static void test_diff (void)
{
  PsMeasurement rows[] = {
    { .shape = (char *)"x", .devices = 1, .time = { 1000, 950, 1050, 0, 900, 100 } },
    { .shape = (char *)"x", .devices = 1, .time = { 1031, 981, 1081, 0, 900, 100 } }, /* 31 < 31.4 */
    { .shape = (char *)"x", .devices = 1, .time = { 1032, 982, 1082, 0, 900, 100 } }, /* 32 > 31.4 */
    { .shape = (char *)"x", .devices = 2, .time = { 1000, 950, 1050, 0, 900, 100 } },
    { .shape = (char *)"x", .devices = 1, .time = { 2000, 2000, 2000, 0, 2000, 1 } }, /* no interval: n < 6 */
    { .shape = (char *)"x", .devices = 1, .time = { 2000, 2000, 2000, 0, 2000, 5 } },
    { .shape = (char *)"x", .devices = 1, .time = { 2000, 2000, 2000, 0, 2000, 6 } },
  };
  const double changes[] = { 0, 0.031, 0.032, NAN, 1, 1, 1 };

  g_assert_cmpfloat_with_epsilon (ps_median_notch (&rows[0].time), 15.7, 1e-9);
  g_assert_true (isnan (ps_median_notch (&rows[5].time)));
  for (guint i = 1; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (GPtrArray) a = g_ptr_array_new (), b = g_ptr_array_new ();

    g_ptr_array_add (a, &rows[0]);
    g_ptr_array_add (b, &rows[i]);
    PsProfileContents left = { .measurements = a }, right = { .measurements = b };
    g_autoptr (GArray) rows_of_either = ps_profile_diff (&left, &right);
    const PsProfileChange *change = &g_array_index (rows_of_either, PsProfileChange, 0);
    g_assert_cmpuint (rows_of_either->len, ==, i == 3 ? 2 : 1);
    g_assert_cmpint (change->beyond_noise, ==, i == 2 || i == 6);
    g_assert_cmpint (isnan (change->noise_ns), ==, i >= 3 && i <= 5);
    if (i == 3) {
      g_assert_null (change->b);
      g_assert_null (g_array_index (rows_of_either, PsProfileChange, 1).a);
    } else
      g_assert_cmpfloat_with_epsilon (change->change, changes[i], 1e-9);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/calib/parts/statistics", test_statistics);
  g_test_add_func ("/calib/parts/ranks", test_ranks);
  g_test_add_func ("/calib/parts/precise", test_precise);
  g_test_add_func ("/calib/parts/slope", test_slope);
  g_test_add_func ("/calib/parts/drift", test_drift);
  g_test_add_func ("/calib/parts/converged", test_converged);
  g_test_add_func ("/calib/parts/caps", test_caps);
  g_test_add_func ("/calib/parts/sizes", test_sizes);
  g_test_add_func ("/calib/parts/boundary-models", test_boundary_models);
  g_test_add_func ("/calib/parts/cut", test_cut);
  g_test_add_func ("/calib/parts/provenance", test_provenance);
  g_test_add_func ("/calib/parts/moments", test_moments);
  g_test_add_func ("/calib/parts/shifts", test_shifts);
  g_test_add_func ("/calib/parts/least-samples", test_least_samples);
  g_test_add_func ("/calib/parts/diff", test_diff);
  return g_test_run ();
}

/* Tests of how calib spends its time: samples that do not count, waits for a machine that slowed down, and what more
 * samples would be good for. */
#include "costdb-rig.h"

#include "fill.h"

#include <math.h>

static const PsSamplingRule rule = { .within = 0.01, .min_samples = 10, .max_samples = 50, .time_limit_ns = 1000 };

/* Where no sample counts, sampling ends with the time; where some did, with these. */
static void test_rejected (void)
{
  for (guint n = 0; n < 3; n++) {
    g_autoptr (PsMeasurement) m = g_new0 (PsMeasurement, 1);
    PsSampler sampler;

    ps_sampler_init (&sampler, &rule);
    for (guint i = 0; i < n; i++)
      g_assert_false (ps_sampler_add (&sampler, 100 + i, 1));
    g_assert_false (ps_sampler_reject (&sampler, 999));
    g_assert_true (ps_sampler_reject (&sampler, 1000));
    g_assert_false (ps_sampler_reject (&sampler, 1001));
    ps_sampler_finish (&sampler, m);
    g_assert_cmpstr (m->stop, ==, n == 0 ? "no accepted samples" : "time cap");
    g_assert_cmpuint (m->n_samples, ==, n);
    g_assert_cmpint (m->time.median_ns, ==, n == 0 ? 0 : 100);
    ps_sampler_clear (&sampler);
  }
}

/* Waits of 100, 200, 400 and 800 of 1600 while the sentinel takes 4 % longer than at its fastest. The last one takes
 * what is left, 100. Then 1040 is how it is, and there is no more patience. */
static void test_pauses (void)
{
  PsSentinelReadings seen = { 0 };
  const gint64 readings[] = { 1010, 1000, 1029, 1040, 1040, 1040, 1040, 1040, 1040, 1050, 2000 };
  const gint64 pauses[] = { 0, 0, 0, 100, 200, 400, 800, 100, 0, 0, 0 };

  for (guint i = 0; i < G_N_ELEMENTS (readings); i++)
    g_assert_cmpint (ps_sentinel_pause (&seen, readings[i], 1600), ==, pauses[i]);
  g_assert_cmpint (seen.usual_ns, ==, 2000);
}

/* A machine that recovers is waited for from the beginning the next time. */
static void test_recovery (void)
{
  PsSentinelReadings seen = { 0 };
  const gint64 readings[] = { 1000, 1100, 1100, 1000, 1100 }, pauses[] = { 0, 100, 200, 0, 100 };

  for (guint i = 0; i < G_N_ELEMENTS (readings); i++)
    g_assert_cmpint (ps_sentinel_pause (&seen, readings[i], 1600), ==, pauses[i]);
}

static PsMeasurement *new_shape (const char *shape, gint64 median)
{
  return new_op (PS_OP_F, shape, 2, median);
}

/* A layer takes 1000, an embedding 100, a head 300. Each shape follows from the others. Of a head that takes 10 % more
 * in one shape, half the shapes know nothing. */
static void test_shapes (void)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  guint n;

  g_ptr_array_add (all, new_shape ("layers=4,embedding", 4100));
  g_ptr_array_add (all, new_shape ("layers=4,head", 4300));
  g_ptr_array_add (all, new_shape ("layers=2,embedding", 2100));
  g_assert_true (isnan (ps_shape_error (all, &n)));
  g_assert_cmpuint (n, ==, 0);
  g_ptr_array_add (all, new_shape ("layers=2", 2000));
  g_ptr_array_add (all, new_shape ("layers=2,head", 2300));
  g_ptr_array_add (all, new_op (PS_OP_B, "layers=2", 2, 99999));
  g_ptr_array_add (all, new_op (PS_OP_F, "layers=2", 1, 99999));
  g_ptr_array_add (all, new_shape ("layers=2,recompute=full", 5000));
  g_ptr_array_add (all, new_shape ("layers=2,blocks=8", 7000));
  g_assert_cmpfloat_with_epsilon (ps_shape_error (all, &n), 0, 1e-9);
  g_assert_cmpuint (n, ==, 5);
  ((PsMeasurement *)all->pdata[3])->time.median_ns = 2200;
  g_assert_cmpfloat (ps_shape_error (all, &n), >, 0.005);
}

#define MS 1000000

static void repeat_samples (PsMeasurement *m, guint n)
{
  g_free (m->samples_ns);
  m->samples_ns = g_new (gint64, n);
  for (guint i = 0; i < n; i++)
    m->samples_ns[i] = m->time.median_ns + (gint64)(i % 2); /* a clock of 1 ns */
  m->n_samples = m->time.n = n;
}

/* Ops of two stages of tiny-gpt. relative: median absolute deviation of ops other than O, of O, and of transfers. */
static PsSamplingError find_error (double ops, double o, double transfers, guint n_samples)
{
  g_autofree char *folder = g_dir_make_tmp ("pipesim-error-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "costs.db", NULL);
  PsCostDb *db = open_db (path, PS_COSTDB_WRITE);
  g_autoptr (PsModel) model = tiny ();
  const PsCalibration calibration = { .model = model, .n_devices = 2 };
  g_autoptr (PsCut) cut = ps_cut_new (&calibration, 1, NULL);
  gint64 id = begin (db, "here");
  PsSamplingError found;

  for (guint stage = 0; stage < 2; stage++)
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++) {
      PsMeasurement *m = new_op ((PsOpKind)kind, cut->keys[stage], 2, kind == PS_OP_BW ? 20 * MS : 10 * MS);

      m->time.mad_ns = (gint64)((kind == PS_OP_O ? o : ops) * (double)m->time.median_ns);
      repeat_samples (m, n_samples);
      store (db, id, m);
    }
  PsMeasurement *transfer = new_transfer (ps_model_boundary_bytes (model), 2, MS);
  transfer->time.mad_ns = (gint64)(transfers * MS);
  repeat_samples (transfer, n_samples);
  store (db, id, transfer);
  fine (ps_sampling_error_find (&found, db, "here", model, cut, &error));
  ps_costdb_close (db);
  remove_database (path);
  g_rmdir (folder);
  return found;
}

/* The error of a median of six samples is sqrt (pi / 2) 1.4826 mad / sqrt (6), about 0.76 mad. Ops are independent, so
 * they never add up to more than that. Fewer samples say nothing. */
static void test_sampling_error (void)
{
  PsSamplingError none = find_error (0, 0, 0, 6), some = find_error (0.01, 0, 0, 6), more = find_error (0.02, 0, 0, 6);
  PsSamplingError update = find_error (0, 0.01, 0, 6), transfer = find_error (0, 0, 0.01, 6);

  g_assert_cmpfloat (none.ops, <, 1e-6);
  g_assert_cmpfloat (some.ops, >, 0.0076 / 4);
  g_assert_cmpfloat (some.ops, <, 0.0076);
  g_assert_cmpfloat_with_epsilon (more.ops, 2 * some.ops, 1e-5);
  g_assert_cmpfloat (some.transfers, <, 1e-6);
  g_assert_cmpfloat (update.ops, >, 0);
  g_assert_cmpfloat (update.ops, <, some.ops / 4);
  g_assert_cmpfloat (transfer.transfers, >, 1e-5);
  g_assert_cmpfloat (transfer.transfers, <, some.ops / 4);
  g_assert_cmpfloat (transfer.ops, <, 1e-6);
  g_assert_cmpfloat (find_error (0, 0, 0, 5).ops, >, 0.01);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/calib/time/rejected", test_rejected);
  g_test_add_func ("/calib/time/pauses", test_pauses);
  g_test_add_func ("/calib/time/recovery", test_recovery);
  g_test_add_func ("/calib/time/shapes", test_shapes);
  g_test_add_func ("/calib/time/sampling-error", test_sampling_error);
  return g_test_run ();
}

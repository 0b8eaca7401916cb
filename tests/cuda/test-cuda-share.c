/* test-cuda-share.c - which GPU each device gets and how many multiprocessors of it. */
#include "train/cuda/cuda-share.h"
#include "error-rig.h"

static void test_place (void)
{
  static const struct {
    guint index, n_local, n_gpus, gpu, first, n;
  } cases[] = {
    { 0, 0, 1, 0, 0, 1 },                       /* 0 counts as 1 */
    { 3, 4, 8, 3, 3, 1 },                       /* enough GPUs: one each */
    { 3, 4, 4, 3, 3, 1 }, { 0, 4, 1, 0, 0, 4 }, /* all on the only one */
    { 3, 4, 1, 0, 0, 4 }, { 4, 8, 2, 1, 4, 4 }, /* halves */
    { 3, 8, 2, 0, 0, 4 }, { 0, 5, 2, 0, 0, 3 }, /* floor (i 2 / 5): 0 0 0 1 1 */
    { 4, 5, 2, 1, 3, 2 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    const PsCudaPlace place = ps_cuda_place (cases[i].index, cases[i].n_local, FALSE, cases[i].n_gpus);

    g_assert_cmpuint (place.gpu, ==, cases[i].gpu);
    g_assert_cmpuint (place.first, ==, cases[i].first);
    g_assert_cmpuint (place.n, ==, cases[i].n);
  }
}

/* Every device is in the run of its GPU, runs don't overlap, their lengths differ by one at most. */
static void test_place_covers (void)
{
  for (guint n_gpus = 1; n_gpus <= 9; n_gpus++)
    for (guint n = 1; n <= 20; n++)
      for (guint i = 0; i < n; i++) {
        const PsCudaPlace place = ps_cuda_place (i, n, FALSE, n_gpus);

        g_assert_cmpuint (place.gpu, <, n_gpus);
        g_assert_cmpuint (place.first, <=, i);
        g_assert_cmpuint (i, <, place.first + place.n);
        g_assert_cmpuint (place.n, >=, MAX (n / n_gpus, 1));
        g_assert_cmpuint (place.n, <=, (n + n_gpus - 1) / n_gpus);
        g_assert_cmpuint (ps_cuda_place (place.first, n, FALSE, n_gpus).gpu, ==, place.gpu);
      }
}

static void test_exclusive (void)
{
  const PsCudaPlace place = ps_cuda_place (5, 8, TRUE, 1), other = ps_cuda_place (5, 8, TRUE, 4);

  g_assert_cmpuint (place.gpu, ==, 0);
  g_assert_cmpuint (place.n, ==, 1);
  g_assert_cmpuint (other.gpu, ==, 1);
  g_assert_cmpuint (other.n, ==, 1);
}

static void test_even (void)
{
  static const struct {
    guint n_sms, least, multiple, n, each; /* each 0: refused */
  } cases[] = {
    { 132, 8, 8, 2, 64 }, /* 66 */
    { 132, 8, 8, 4, 32 }, /* 33 */
    { 132, 8, 8, 8, 16 }, /* 16.5 */
    { 132, 8, 8, 16, 8 }, /* 8.25 */
    { 132, 8, 8, 17, 0 }, /* 7.8 */
    { 108, 4, 2, 8, 12 }, /* 13.5 */
    { 108, 4, 2, 4, 26 }, /* 27 */
    { 148, 8, 8, 3, 48 }, /* 49.3 */
    { 8, 8, 8, 1, 8 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    guint sms;
    const gboolean done
        = ps_cuda_share_evenly (cases[i].n_sms, cases[i].least, cases[i].multiple, cases[i].n, &sms, &error);

    g_assert_cmpint (done, ==, cases[i].each > 0);
    g_assert_true (!done || sms == cases[i].each);
  }
}

/* Of 16 pieces: quotas 6.4, 4.8, 3.2 and 1.6; whole quotas as they are; a quota of 0.2 gets its piece; of 17 pieces
 * three equal devices get 5 each and 2 stay idle. */
static void test_weights (void)
{
  static const struct {
    guint n_units, n, weights[4], units[4];
  } cases[] = {
    { 16, 4, { 40, 30, 20, 10 }, { 6, 5, 3, 2 } },
    { 16, 3, { 64, 24, 40 }, { 8, 3, 5 } },
    { 16, 2, { 99, 1 }, { 15, 1 } },
    { 17, 3, { 7, 7, 7 }, { 5, 5, 5 } },
    { 4, 4, { 1, 1000000, 1, 1 }, { 1, 1, 1, 1 } },
    { 16, 1, { 3 }, { 16 } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    guint units[4];

    g_assert_true (ps_cuda_share_units (cases[i].n_units, cases[i].n, cases[i].weights, units, NULL));
    g_assert_cmpmem (units, cases[i].n * sizeof *units, cases[i].units, cases[i].n * sizeof *units);
  }
}

/* For any weights: nobody without a piece, not more pieces than there are, a larger weight never fewer of them, and
 * multiples of whole quotas are exact. */
static void test_weights_random (void)
{
  for (guint round = 0; round < 2000; round++) {
    guint n = (guint)g_test_rand_int_range (1, 9), n_units = (guint)g_test_rand_int_range ((gint32)n, 40), sum = 0;
    guint weights[8], units[8], factor = (guint)g_test_rand_int_range (1, 1000);

    for (guint i = 0; i < n; i++)
      weights[i] = (guint)g_test_rand_int_range (1, 1000);
    g_assert_true (ps_cuda_share_units (n_units, n, weights, units, NULL));
    for (guint i = 0; i < n; i++) {
      sum += units[i];
      g_assert_cmpuint (units[i], >=, 1);
      for (guint k = 0; k < n; k++)
        g_assert_true (weights[i] <= weights[k] ? units[i] <= units[k] : TRUE);
    }
    g_assert_cmpuint (sum, <=, n_units);
    for (guint i = 0; i < n; i++)
      weights[i] = units[i] * factor;
    g_assert_true (ps_cuda_share_units (sum, n, weights, units, NULL));
    for (guint i = 0; i < n; i++)
      g_assert_cmpuint (units[i] * factor, ==, weights[i]);
  }
}

static void test_refused (void)
{
  static const guint weights[] = { 1, 2, 3 };
  guint units[3], sms;

  refused (ps_cuda_share_units (2, 3, weights, units, &error), PS_ERROR_USAGE,
           "cuda device: 3 devices can't share a GPU of 2 pieces: each needs one");
  refused (ps_cuda_share_evenly (132, 8, 8, 17, &sms, &error), PS_ERROR_USAGE,
           "cuda device: 17 devices can't share a GPU of 132 multiprocessors: each needs 8 at least");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-share/place", test_place);
  g_test_add_func ("/cuda-share/place-covers", test_place_covers);
  g_test_add_func ("/cuda-share/exclusive", test_exclusive);
  g_test_add_func ("/cuda-share/even", test_even);
  g_test_add_func ("/cuda-share/weights", test_weights);
  g_test_add_func ("/cuda-share/weights-random", test_weights_random);
  g_test_add_func ("/cuda-share/refused", test_refused);
  return g_test_run ();
}

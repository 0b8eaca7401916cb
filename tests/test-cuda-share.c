/* test-cuda-share.c - which GPU each device gets and how many multiprocessors of it. */
#include "device/cuda/cuda-share.h"

static void
test_place (void)
{
  static const struct
  {
    guint index, n_local, n_gpus, gpu, first, n;
  } cases[] = {
    { 0, 0, 1, 0, 0, 1 },                       /* 0 counts as 1 */
    { 3, 4, 8, 3, 3, 1 },                       /* enough GPUs: one each */
    { 3, 4, 4, 3, 3, 1 }, { 0, 4, 1, 0, 0, 4 }, /* all on the only one */
    { 3, 4, 1, 0, 0, 4 }, { 4, 8, 2, 1, 4, 4 }, /* halves */
    { 3, 8, 2, 0, 0, 4 }, { 0, 5, 2, 0, 0, 3 }, /* floor (i 2 / 5): 0 0 0 1 1 */
    { 4, 5, 2, 1, 3, 2 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const PsCudaPlace place = ps_cuda_place (cases[i].index, cases[i].n_local, FALSE, cases[i].n_gpus);

      g_assert_cmpuint (place.gpu, ==, cases[i].gpu);
      g_assert_cmpuint (place.first, ==, cases[i].first);
      g_assert_cmpuint (place.n, ==, cases[i].n);
    }
}

/* Every device is in the run of its GPU, runs don't overlap, their lengths differ by one at most. */
static void
test_place_covers (void)
{
  for (guint n_gpus = 1; n_gpus <= 9; n_gpus++)
    for (guint n = 1; n <= 20; n++)
      for (guint i = 0; i < n; i++)
        {
          const PsCudaPlace place = ps_cuda_place (i, n, FALSE, n_gpus);

          g_assert_cmpuint (place.gpu, <, n_gpus);
          g_assert_cmpuint (place.first, <=, i);
          g_assert_cmpuint (i, <, place.first + place.n);
          g_assert_cmpuint (place.n, >=, MAX (n / n_gpus, 1));
          g_assert_cmpuint (place.n, <=, (n + n_gpus - 1) / n_gpus);
          g_assert_cmpuint (ps_cuda_place (place.first, n, FALSE, n_gpus).gpu, ==, place.gpu);
        }
}

static void
test_exclusive (void)
{
  const PsCudaPlace place = ps_cuda_place (5, 8, TRUE, 1), other = ps_cuda_place (5, 8, TRUE, 4);

  g_assert_cmpuint (place.gpu, ==, 0);
  g_assert_cmpuint (place.n, ==, 1);
  g_assert_cmpuint (other.gpu, ==, 1);
  g_assert_cmpuint (other.n, ==, 1);
}

static void
test_even (void)
{
  static const struct
  {
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

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree guint *sms = g_new (guint, cases[i].n);
      g_autoptr (GError) error = NULL;
      const gboolean done
          = ps_cuda_share (cases[i].n_sms, cases[i].least, cases[i].multiple, cases[i].n, NULL, sms, &error);

      g_assert_cmpint (done, ==, cases[i].each > 0);
      for (guint k = 0; done && k < cases[i].n; k++)
        g_assert_cmpuint (sms[k], ==, cases[i].each);
    }
}

static void
assert_refused (guint n, const guint *wanted, const char *message)
{
  guint sms[17];
  g_autoptr (GError) error = NULL;

  g_assert_false (ps_cuda_share (132, 8, 8, n, wanted, sms, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_cmpstr (error->message, ==, message);
}

static void
test_given (void)
{
  static const guint good[] = { 64, 8, 56 }, odd[] = { 64, 12 }, small[] = { 4, 64 }, many[] = { 64, 72 };
  guint sms[3];

  g_assert_true (ps_cuda_share (132, 8, 8, 3, good, sms, NULL));
  g_assert_cmpmem (sms, sizeof sms, good, sizeof good);
  assert_refused (2, odd, "cuda device: a share of 12 multiprocessors: at least 8 and a multiple of 8 would be right");
  assert_refused (2, small, "cuda device: a share of 4 multiprocessors: at least 8 and a multiple of 8 would be right");
  assert_refused (2, many, "cuda device: shares of 136 multiprocessors together: the GPU has 132");
  assert_refused (17, NULL, "cuda device: 17 devices can't share a GPU of 132 multiprocessors: each needs 8 at least");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-share/place", test_place);
  g_test_add_func ("/cuda-share/place-covers", test_place_covers);
  g_test_add_func ("/cuda-share/exclusive", test_exclusive);
  g_test_add_func ("/cuda-share/even", test_even);
  g_test_add_func ("/cuda-share/given", test_given);
  return g_test_run ();
}

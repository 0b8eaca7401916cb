/* Tests of scenarios/jitter.h: draws, factors, and kernels that agree. */
#include "answer/jitter.h"
#include "random-schedule.h"

#include <pipesim/philox.h>
#include <pipesim/simulate.h>
#include <pipesim/answer.h>

#include <string.h>

#define MAX_TIMES 11 /* more than a kernel finds side by side */

/* The lanes are those of the generator: sample 16 k + 4 w + c is word w of the call with counter 4 k + c. */
static void
test_draw (void)
{
  guint32 lanes[PS_SCENARIO_LANES];

  ps_draw (G_GUINT64_CONSTANT (0x123456789), 48, (PsPurpose){ 7, 8, 9 }, lanes);
  for (guint call = 0; call < 4; call++)
    {
      guint32 words[4] = { 12 + call, 7, 8, 9 };

      ps_philox (words, G_GUINT64_CONSTANT (0x123456789));
      for (guint word = 0; word < 4; word++)
        g_assert_cmpuint (lanes[4 * word + call], ==, words[word]);
    }
}

/* A factor exp (sigma z - sigma^2 / 2) gives z back, and z its tail probability erfc (z / sqrt 2) / 2, which must be
 * the word's: (w / 2 + 1/2) / 2^32. */
static void
check_factor (const PsJitter *jitter, double sigma, guint32 word)
{
  guint32 words[PS_SCENARIO_LANES] = { word };
  double factors[PS_SCENARIO_LANES];

  ps_jitter_factors (jitter, words, factors);
  double z = (log (factors[0]) + sigma * sigma / 2) / sigma, p = ((word >> 1) + 0.5) / 4294967296.0;
  double tail = erfc ((word & 1 ? z : -z) * M_SQRT1_2) / 2;
  g_assert_cmpfloat_with_epsilon (tail / p, 1, 5e-4);
}

static void
test_factors (void)
{
  static const double jitters[] = { 0.01, 0.05, 0.5, 1 };
  g_autoptr (GRand) rand = g_rand_new_with_seed (21);

  for (guint i = 0; i < G_N_ELEMENTS (jitters); i++)
    {
      g_autoptr (PsJitter) jitter = ps_jitter_new (jitters[i]);
      double sigma = sqrt (log1p (jitters[i] * jitters[i]));

      for (guint k = 0; k < 20000; k++)
        check_factor (jitter, sigma, g_rand_int (rand) >> random_below (rand, 24));
      for (guint word = 0; word < 300; word++)
        check_factor (jitter, sigma, word);
      check_factor (jitter, sigma, 0xfffffffe);
      check_factor (jitter, sigma, 0xffffffff);
      g_assert_cmpfloat (ps_jitter_largest (jitter), >, exp (6 * sigma - sigma * sigma / 2));
    }
}

/* Every kernel finds the same times, of any number of purposes and at any seed. In 32 bits they are the same numbers.
 */
static void
check_kernels (const PsJitter *jitter, guint64 seed, guint first, PsJitterTime *times, guint n)
{
  gint64 expected[MAX_TIMES * PS_SCENARIO_LANES], ns[MAX_TIMES * PS_SCENARIO_LANES];
  guint32 narrow[MAX_TIMES * PS_SCENARIO_LANES];

  for (guint k = 0; k < n; k++)
    times[k].ns = &expected[k * PS_SCENARIO_LANES];
  ps_jitter_times (jitter, PS_KERNEL_PORTABLE, seed, first, 64, times, n);
  for (guint kernel = 0; kernel < PS_N_KERNELS; kernel++)
    for (guint bits = 32; bits <= 64 && ps_kernel_is_available ((PsKernel)kernel); bits += 32)
      {
        for (guint k = 0; k < n; k++)
          times[k].ns = bits == 32 ? (gpointer)&narrow[k * PS_SCENARIO_LANES] : &ns[k * PS_SCENARIO_LANES];
        memset (bits == 32 ? (gpointer)narrow : ns, 0, bits == 32 ? sizeof narrow : sizeof ns);
        ps_jitter_times (jitter, (PsKernel)kernel, seed, first, bits, times, n);
        for (guint i = 0; i < n * PS_SCENARIO_LANES; i++)
          if (bits == 64 || expected[i] <= G_MAXUINT32)
            g_assert_cmpint (bits == 32 ? narrow[i] : ns[i], ==, expected[i]);
      }
}

static void
test_kernels (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (23);
  double base_ns[PS_SCENARIO_LANES];
  PsJitterTime times[MAX_TIMES];

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (PsJitter) jitter = ps_jitter_new (0.01 + 0.99 * g_rand_double (rand));

      for (guint round = 0; round < 1000; round++)
        {
          guint n = round % (MAX_TIMES + 1), first = PS_SCENARIO_LANES * random_below (rand, 1000);
          guint64 seed = (guint64)g_rand_int (rand) << 32 | g_rand_int (rand);

          for (guint lane = 0; lane < PS_SCENARIO_LANES; lane++)
            base_ns[lane] = exp (30 * g_rand_double (rand));
          for (guint k = 0; k < n; k++)
            {
              PsPurpose purpose = { g_rand_int (rand), g_rand_int (rand), g_rand_int (rand) };

              times[k] = (PsJitterTime){ ps_draw_start (seed, purpose), base_ns, NULL };
            }
          check_kernels (jitter, seed, first, times, n);
        }
    }
}

/* Over words at equal distances in both tails the mean is 1 and the standard deviation the jitter. */
static void
test_moments (void)
{
  g_autoptr (PsJitter) jitter = ps_jitter_new (0.2);
  guint n = 1 << 20;
  double sum = 0, squares = 0;

  for (guint i = 0; i < n; i += PS_SCENARIO_LANES)
    {
      guint32 words[PS_SCENARIO_LANES];
      double factors[PS_SCENARIO_LANES];

      for (guint k = 0; k < PS_SCENARIO_LANES; k++)
        words[k] = (i + k) / 2 * 8192 + 4096 + k % 2;
      ps_jitter_factors (jitter, words, factors);
      for (guint k = 0; k < PS_SCENARIO_LANES; k++)
        {
          sum += factors[k];
          squares += factors[k] * factors[k];
        }
    }
  g_assert_cmpfloat_with_epsilon (sum / n, 1, 1e-5);
  g_assert_cmpfloat_with_epsilon (sqrt (squares / n - 1), 0.2, 1e-4);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/jitter/draw", test_draw);
  g_test_add_func ("/jitter/factors", test_factors);
  g_test_add_func ("/jitter/kernels", test_kernels);
  g_test_add_func ("/jitter/moments", test_moments);
  return g_test_run ();
}

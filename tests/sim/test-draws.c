/* Tests of answer/draws.h and philox.h: the vectors that Philox's authors publish, draws, and factors. */
#include "answer/draws.h"
#include "random-schedule.h"

#include <pipesim/philox.h>

#include <math.h>

/* Random123's known answers for philox4x32 of 10 rounds (tests/kat_vectors there); the last is digits of pi. */
static void test_known_answers (void)
{
  static const struct {
    guint32 counter[4];
    guint64 key;
    guint32 expected[4];
  } rows[] = {
    { { 0, 0, 0, 0 }, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
      G_MAXUINT64,
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
      G_GUINT64_CONSTANT (0x299f31d0a4093822),
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    guint32 words[4] = { rows[i].counter[0], rows[i].counter[1], rows[i].counter[2], rows[i].counter[3] };

    ps_philox (words, rows[i].key);
    g_assert_cmpmem (words, sizeof words, rows[i].expected, sizeof rows[i].expected);
  }
}

/* The lanes are those of the generator: sample 16 k + 4 w + c is word w of the call with counter 4 k + c. */
static void test_lanes (void)
{
  guint32 lanes[PS_DRAW_LANES];

  ps_draw (G_GUINT64_CONSTANT (0x123456789), 48, (PsPurpose){ 7, 8, 9 }, lanes);
  for (guint call = 0; call < 4; call++) {
    guint32 words[4] = { 12 + call, 7, 8, 9 };

    ps_philox (words, G_GUINT64_CONSTANT (0x123456789));
    for (guint word = 0; word < 4; word++)
      g_assert_cmpuint (lanes[4 * word + call], ==, words[word]);
  }
}

/* A factor exp (sigma z - sigma^2 / 2) gives z back, and z its tail probability erfc (z / sqrt 2) / 2, which must be
 * the word's: (w / 2 + 1/2) / 2^32. */
static void check_factor (const PsJitter *jitter, double sigma, guint32 word)
{
  double z = (log (ps_jitter_factor (jitter, word)) + sigma * sigma / 2) / sigma,
         p = ((word >> 1) + 0.5) / 4294967296.0;
  double tail = erfc ((word & 1 ? z : -z) * M_SQRT1_2) / 2;

  g_assert_cmpfloat_with_epsilon (tail / p, 1, 1e-4);
}

static void test_factors (void)
{
  static const double jitters[] = { 0.01, 0.05, 0.5, 1 };
  g_autoptr (GRand) rand = g_rand_new_with_seed (21);

  for (guint i = 0; i < G_N_ELEMENTS (jitters); i++) {
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

/* Over words at equal distances in both tails the mean is 1 and the standard deviation the jitter. */
static void test_moments (void)
{
  g_autoptr (PsJitter) jitter = ps_jitter_new (0.2);
  guint n = 1 << 20;
  double sum = 0, squares = 0;

  for (guint i = 0; i < n; i++) {
    double factor = ps_jitter_factor (jitter, i / 2 * 8192 + 4096 + i % 2);

    sum += factor;
    squares += factor * factor;
  }
  g_assert_cmpfloat_with_epsilon (sum / n, 1, 1e-5);
  g_assert_cmpfloat_with_epsilon (sqrt (squares / n - 1), 0.2, 1e-4);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/draws/known-answers", test_known_answers);
  g_test_add_func ("/draws/lanes", test_lanes);
  g_test_add_func ("/draws/factors", test_factors);
  g_test_add_func ("/draws/moments", test_moments);
  return g_test_run ();
}

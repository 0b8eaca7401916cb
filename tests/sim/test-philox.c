/* Tests of scenarios.h: the vectors that its authors publish. */
#include <pipesim/philox.h>
#include <pipesim/simulate.h>

#include <glib.h>

/* Random123's known answers for philox4x32 of 10 rounds (tests/kat_vectors there); the last is digits of pi. */
static void
test_known_answers (void)
{
  static const struct
  {
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

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint32 words[4] = { rows[i].counter[0], rows[i].counter[1], rows[i].counter[2], rows[i].counter[3] };

      ps_philox (words, rows[i].key);
      g_assert_cmpmem (words, sizeof words, rows[i].expected, sizeof rows[i].expected);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/philox/known-answers", test_known_answers);
  return g_test_run ();
}

/* Tests of cluster.h: lists of shares in lowest terms, and what are none. */
#include "error-rig.h"

#include <pipesim/cluster.h>

/* In lowest terms: gcd (40, 30, 20, 10) = 10, gcd (7, 5) = 1, gcd (6, 10, 15) = 1. */
static void
test_lowest_terms (void)
{
  static const struct
  {
    const char *text, *lowest;
  } cases[] = { { "40,30,20,10", "4,3,2,1" }, { "4,3,2,1", "4,3,2,1" }, { "7,5", "7,5" }, { "6,10,15", "6,10,15" },
                { "1000000,1", "1000000,1" }, { "5,5,5", "" },          { "9", "" } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      guint n;
      g_autofree guint *shares = ps_shares_parse ("x", cases[i].text, &n, &error);

      g_assert_no_error (error);
      g_autofree char *text = ps_shares_to_text (shares, n);
      g_assert_cmpstr (text, ==, cases[i].lowest);
    }
  const guint given[] = { 30, 10 };
  g_autofree char *text = ps_shares_to_text (given, 2), *none = ps_shares_to_text (NULL, 2);
  g_assert_cmpstr (text, ==, "3,1");
  g_assert_cmpstr (none, ==, "");
  g_assert_cmpstr (ps_shares_describe (text), ==, "3,1");
  g_assert_cmpstr (ps_shares_describe (none), ==, "equal");
}

static void
test_values (void)
{
  guint n;
  g_autofree guint *shares = ps_shares_parse ("x", "9,3,6", &n, NULL);
  const guint expected[] = { 3, 1, 2 };

  g_assert_cmpmem (shares, n * sizeof *shares, expected, sizeof expected);
}

static void
test_refused (void)
{
  static const char *const texts[] = { "1,", "0,1", "1,-1", "1000001,1", "x", "1 2", "1,,2" };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      guint n;

      refused (ps_shares_parse ("--sm-shares", texts[i], &n, &error), PS_ERROR_USAGE, "--sm-shares: '*");
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/shares/lowest-terms", test_lowest_terms);
  g_test_add_func ("/shares/values", test_values);
  g_test_add_func ("/shares/refused", test_refused);
  return g_test_run ();
}

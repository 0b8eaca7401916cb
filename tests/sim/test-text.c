/* Tests of text.h: what is no text, and what messages show of it. */
#include "error-rig.h"
#include "text.h"

static void
check (const char *text, gsize length, gsize max_length, const char *message)
{
  g_autoptr (GError) error = NULL;
  gboolean ok = ps_text_check ("x.ini", text, length, max_length, &error);

  g_assert_true (ok == (message == NULL));
  if (ok)
    return;
  assert_error (&error, PS_ERROR_INPUT, message);
}

static void
test_check (void)
{
  check ("\xc3\xa4 = 1\n", 7, 7, NULL);
  check ("", 0, 7, "x.ini: is empty");
  check ("123456789", 9, 8, "x.ini: is too long, more than 8 B");
  check ("a\0b", 3, 7, "x.ini: is not a text file (it contains NUL bytes)");
  check ("a\xc3", 2, 7, "x.ini: is not UTF-8 text");
}

/* A newline takes two characters; 60 are shown, and of more the first 60. */
static void
test_quote (void)
{
  g_autofree char *fits = g_strnfill (60, 'a'), *longer = g_strnfill (61, 'a');
  g_autofree char *whole = g_strdup_printf ("'%s'", fits), *part = g_strdup_printf ("'%s...'", fits);
  g_autofree char *of_fits = ps_text_quote (fits), *of_longer = ps_text_quote (longer);
  g_autofree char *of_lines = ps_text_quote ("a\nb\x01");

  g_assert_cmpstr (of_fits, ==, whole);
  g_assert_cmpstr (of_longer, ==, part);
  g_assert_cmpstr (of_lines, ==, "'a\\nb\\001'");
}

static void
test_blame_input (void)
{
  g_autoptr (GError) error = NULL;
  gint64 ns;

  g_assert_false (ps_parse_time ("x.ini: [model] time", "soon", &ns, &error) || ps_text_blame_input (&error));
  assert_error (&error, PS_ERROR_INPUT, "x.ini: [model] time: 'soon' is no time*");
  g_assert_false (ps_text_blame_input (NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/text/check", test_check);
  g_test_add_func ("/text/quote", test_quote);
  g_test_add_func ("/text/blame-input", test_blame_input);
  return g_test_run ();
}

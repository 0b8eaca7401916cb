/* Tests of text.h: what is no text, and what messages show of it. */
#include "error-rig.h"
#include "base/text.h"

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

/* Lines of at most 12 letters, two bytes a letter in the second case; a word that is longer stays whole up to the
 * width. The rest of a line begins below its first letter, or below the first after a gap, unless that is beyond the
 * middle. */
static void
test_wrap (void)
{
  static const struct
  {
    const char *text, *expected;
  } rows[] = {
    { "", "" },
    { "twelve twelv", "twelve twelv\n" },
    { "twelve twelve", "twelve\ntwelve\n" },
    { "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 \xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4",
      "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 \xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\n" },
    { "a word ofsixteenletters", "a word\nofsixteenlet\nters\n" },
    { "  one two three four", "  one two\n  three four\n" },
    { "-a  one two three", "-a  one two\n    three\n" },
    { "-ab    one two", "-ab    one\ntwo\n" },
    { "-ab   one two", "-ab   one\ntwo\n" },
    { "one\n\n  two", "one\n\n  two\n" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GString) page = g_string_new ("page\n");
      g_autofree char *expected = g_strconcat ("page\n", rows[i].expected, NULL);

      ps_text_wrap (rows[i].text, 12, page);
      g_assert_cmpstr (page->str, ==, expected);
    }
}

/* A page has the words of its text in their order, and no line that is too long where every word is short. */
static void
test_wrap_words (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);

  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GString) text = g_string_new (i % 2 ? "    " : "ab  "), page = g_string_new (NULL);
      glong width = g_rand_int_range (rand, 12, 40);

      for (guint k = 0; k < 20; k++)
        g_string_append_printf (text, "%s%.*s", k > 0 ? " " : "", g_rand_int_range (rand, 1, 6), "words");
      ps_text_wrap (text->str, width, page);
      g_auto (GStrv) lines = g_strsplit (page->str, "\n", -1), words = g_strsplit_set (page->str, " \n", -1);
      g_autoptr (GString) again = g_string_new (NULL), wanted = g_string_new (text->str);
      for (guint k = 0; lines[k] != NULL; k++)
        g_assert_cmpint (g_utf8_strlen (lines[k], -1), <=, width);
      for (guint k = 0; words[k] != NULL; k++)
        if (*words[k] != '\0')
          g_string_append_printf (again, " %s", words[k]);
      g_string_replace (wanted, "    ", " ", 1);
      g_string_replace (wanted, "ab  ", " ab ", 1);
      g_assert_cmpstr (again->str, ==, wanted->str);
      for (guint k = 1; lines[k] != NULL && *lines[k] != '\0'; k++)
        g_assert_true (strspn (lines[k], " ") == 4);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/text/check", test_check);
  g_test_add_func ("/text/quote", test_quote);
  g_test_add_func ("/text/blame-input", test_blame_input);
  g_test_add_func ("/text/wrap", test_wrap);
  g_test_add_func ("/text/wrap-words", test_wrap_words);
  return g_test_run ();
}

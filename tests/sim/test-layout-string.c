/* test-layout-string.c - Megatron-LM's layout strings against an expansion by its own two regular expressions. */
#include <pipesim/model.h>

#include <stdlib.h>
#include <string.h>

static gboolean
repeat_match (const GMatchInfo *match, GString *result, G_GNUC_UNUSED gpointer data)
{
  g_autofree char *text = g_match_info_fetch (match, 1), *count = g_match_info_fetch (match, 2);

  for (int i = atoi (count); i > 0; i--)
    g_string_append (result, text);
  return FALSE;
}

/* The stages of a string without repeats, as Megatron-LM's parse_str_to_list makes them. */
static GStrv
expand (const char *text)
{
  static const char *const patterns[] = { "\\(([^)]+)\\)\\*(\\d+)", "(.)\\*(\\d+)" };
  g_auto (GStrv) parts = g_strsplit (text, ",", -1);
  g_autofree char *all = g_strjoinv ("", parts);

  for (guint i = 0; i < G_N_ELEMENTS (patterns); i++)
    {
      g_autoptr (GRegex) regex = g_regex_new (patterns[i], 0, 0, NULL);
      char *next = g_regex_replace_eval (regex, all, -1, 0, 0, repeat_match, NULL, NULL);

      g_free (all);
      all = next;
    }
  return g_strsplit (all, "|", -1);
}

static guint
count (const char *stage, char unit)
{
  guint n = 0;

  for (; *stage; stage++)
    n += *stage == unit;
  return n;
}

static void
assert_stages (const char *text, const PsStageShape *shapes, guint n_stages)
{
  g_auto (GStrv) stages = expand (text);
  guint first = 0;

  g_assert_cmpuint (n_stages, ==, g_strv_length (stages));
  for (guint s = 0; s < n_stages; s++)
    {
      g_assert_cmpuint (shapes[s].first_layer, ==, first);
      g_assert_cmpuint ((guint)shapes[s].embedding, ==, count (stages[s], 'E'));
      g_assert_cmpuint (shapes[s].n_layers, ==, count (stages[s], 't'));
      g_assert_cmpuint (shapes[s].n_mtp, ==, count (stages[s], 'm'));
      g_assert_cmpuint ((guint)shapes[s].head, ==, count (stages[s], 'L'));
      first += shapes[s].n_layers;
    }
}

static void
assert_round_trip (const PsStageShape *shapes, guint n_stages)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = ps_layout_string_write (shapes, n_stages);
  guint n;
  g_autofree PsStageShape *again = ps_layout_string_parse ("again", text, &n, &error);

  g_assert_no_error (error);
  assert_stages (text, shapes, n_stages);
  g_assert_cmpmem (again, n * sizeof *again, shapes, n_stages * sizeof *shapes);
}

/* The fixture's columns: layout, stages, decoder layers, mtp layers, losses, empty stages, and more. */
static void
check_row (const char *line)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GRegex) regex = g_regex_new ("^(\"([^\"]*)\"|([^,]*)),(\\d+),(\\d+),(\\d+),(\\d+),(\\d+),", 0, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  guint sums[5] = { 0 }; /* as the columns after the layout */

  g_assert_true (g_regex_match (regex, line, 0, &match));
  g_autofree char *quoted = g_match_info_fetch (match, 2), *plain = g_match_info_fetch (match, 3);
  const char *layout = *quoted ? quoted : plain;
  g_autofree PsStageShape *shapes = ps_layout_string_parse ("row", layout, &sums[0], &error);
  g_assert_no_error (error);
  assert_stages (layout, shapes, sums[0]);
  assert_round_trip (shapes, sums[0]);
  for (guint s = 0; s < sums[0]; s++)
    {
      sums[1] += shapes[s].n_layers;
      sums[2] += shapes[s].n_mtp;
      sums[3] += (guint)shapes[s].head;
      sums[4] += !shapes[s].embedding && !shapes[s].n_layers && !shapes[s].n_mtp && !shapes[s].head;
    }
  for (guint i = 0; i < G_N_ELEMENTS (sums); i++)
    {
      g_autofree char *expected = g_match_info_fetch (match, 4 + (int)i);

      g_assert_cmpint (sums[i], ==, atoi (expected));
    }
}

static void
check_file (const char *path)
{
  g_autofree char *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_auto (GStrv) lines = g_strsplit (g_strchomp (text), "\n", -1);
  for (guint i = 1; lines[i] != NULL; i++)
    check_row (lines[i]);
  g_assert_cmpuint (g_strv_length (lines), >, 5);
}

static void
test_published (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", "megatron_layout_strings.csv", NULL);

  check_file (path);
}

/* Written as people write them. */
static void
test_folds (void)
{
  static const char *const texts[] = {
    "Ett|(tt|)*34,t*3|(tt|)*3,ttL",         "Et*3|(tt|)*29,m|L", "E||t|L", "Et*4|(t*7|)*5,t*8|tmL", "EttL",
    "Et|t|(|t*4|t*4|t*4|)*5|t*4|t*4|t*4mL",
  };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      guint n;
      g_autofree PsStageShape *shapes = ps_layout_string_parse ("text", texts[i], &n, NULL);
      g_autofree char *text = ps_layout_string_write (shapes, n);

      g_assert_cmpstr (text, ==, texts[i]);
    }
}

/* Few different stages in a row, so that groups of all periods turn up. */
static void
test_random (void)
{
  for (guint round = 0; round < 20000; round++)
    {
      PsStageShape shapes[64] = { 0 };
      guint n = (guint)g_test_rand_int_range (1, 65), first = 0, period = (guint)g_test_rand_int_range (1, 9);

      for (guint s = 0; s < n; s++)
        {
          gboolean repeats = s >= period && g_test_rand_int_range (0, 8) > 0;

          shapes[s].n_layers = repeats ? shapes[s - period].n_layers : (guint)g_test_rand_int_range (0, 13);
          shapes[s].n_layers += s == 0;
          shapes[s].first_layer = first;
          first += shapes[s].n_layers;
        }
      shapes[0].embedding = TRUE;
      shapes[n - 1].n_mtp = (guint)g_test_rand_int_range (0, 4);
      shapes[n - 1].head = 1 + (round % 7 == 0);
      assert_round_trip (shapes, n);
    }
}

static void
test_wrong (void)
{
  static const struct
  {
    const char *text;
    guint at;
    const char *reason;
  } rows[] = {
    { "", 1, "E, the embedding, comes first" },
    { "tt|tL", 1, "E, the embedding, comes first" },
    { "||t", 3, "E, the embedding, comes first" },
    { "Et|tt", 6, "ends without L" },
    { "E|L", 4, "ends without a t" },
    { "Et|xL", 4, "no unit" },
    { "Et |L", 3, "no unit" },
    { "EtLt", 4, "a unit stands too late" },
    { "EtmtL", 4, "a unit stands too late" },
    { "EtE", 3, "a unit stands too late" },
    { "EEtL", 2, "a second E" },
    { "Et*|L", 3, "a number goes after *" },
    { "Et*0L", 4, "give 1 to 16384 repeats" },
    { "Et*99999L", 4, "give 1 to 16384 repeats" },
    { "Et*18446744073709551617L", 4, "give 1 to 16384 repeats" },
    { "Et*2*2L", 5, "a second repeat" },
    { "E(tt|)*2*2L", 9, "a second repeat" },
    { "E(tt|L", 2, "its ) is missing" },
    { "E(tt|)L", 6, "a repeat goes after a group" },
    { "E(t(t|)*2)*2L", 4, "no unit" },
    { "E()*2tL", 2, "an empty group" },
    { "E(,)*2tL", 2, "an empty group" },
    { "Et)*2L", 3, "no unit" },
    { "Et(t|)*16384,L", 5, "too many stages" },
    { "E(t*16384)*65L", 3, "too many units" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *begin = g_strdup_printf ("--layout: character %u of the layout: %s", rows[i].at, rows[i].reason);
      guint n;

      g_assert_null (ps_layout_string_parse ("--layout", rows[i].text, &n, &error));
      g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
      if (!g_str_has_prefix (error->message, begin))
        g_error ("%s: %s", rows[i].text, error->message);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/layout-string/published", test_published);
  g_test_add_func ("/layout-string/folds", test_folds);
  g_test_add_func ("/layout-string/random", test_random);
  g_test_add_func ("/layout-string/wrong", test_wrong);
  return g_test_run ();
}

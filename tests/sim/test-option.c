/* Tests of option.h and of the table of SETTING's options: every row is read, bounded, refused and told the same way by
 * command lines, specs and results. */
#include "error-rig.h"
#include "plan/sweep-private.h"

#include <pipesim/option.h>

#include <string.h>

/* Texts that a row accepts, the second away from its initial value, and one that it refuses; NULL: it accepts any. */
typedef struct {
  char *first, *second, *wrong;
} Texts;

static void texts_clear (Texts *texts)
{
  g_free (texts->first);
  g_free (texts->second);
  g_free (texts->wrong);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Texts, texts_clear)

static Texts texts_of (const PsOption *row)
{
  switch (row->type) {
  case PS_OPTION_FLAG:
    return (Texts){ g_strdup ("no"), g_strdup ("yes"), g_strdup ("maybe") };
  case PS_OPTION_COUNT:
  case PS_OPTION_INTEGER:
    return (Texts){ g_strdup_printf ("%.0f", row->low), g_strdup_printf ("%.0f", row->high),
                    g_strdup_printf ("%.0f", row->high + 1) };
  case PS_OPTION_NAME:
    return (Texts){ g_strdup (row->name_of (0)), g_strdup (row->name_of (1)), g_strdup ("?") };
  case PS_OPTION_TIME:
    return (Texts){ g_strdup ("0"), g_strdup ("3us"), g_strdup ("3") };
  case PS_OPTION_SIZE:
    return (Texts){ g_strdup ("0"), g_strdup ("3KiB"), g_strdup ("3") };
  case PS_OPTION_NUMBER:
    return (Texts){ g_strdup_printf ("%f", row->low), g_strdup_printf ("%f", row->high),
                    g_strdup_printf ("%f", row->high * 2) };
  case PS_OPTION_FACTORS:
    return (Texts){ g_strdup_printf ("%f", row->low), g_strdup_printf ("%f:%f", row->low, row->high),
                    g_strdup_printf ("1:%f", row->high * 2) };
  case PS_OPTION_SIZES:
    return (Texts){ g_strdup ("1B"), g_strdup ("3KiB:2KiB"), g_strdup ("1KiB:") };
  default:
    if (row->parse == ps_setting_layout_parse)
      return (Texts){ g_strdup ("even"), g_strdup ("Et*3|(tt|)*29m|L"), g_strdup ("even:half") };
    return row->parse != NULL ? (Texts){ g_strdup ("fp16"), g_strdup ("bf16"), g_strdup ("fp17") }
                              : (Texts){ g_strdup ("a"), g_strdup ("b c"), NULL };
  }
}

static gboolean is_own (const PsOption *row)
{
  return (row->flags & (PS_FIELD_OWN | PS_FIELD_DERIVED)) != 0;
}

/* A command line as a shell would split it, read with the options of SETTING. */
static PsSetting *parse (const char *line, GError **error)
{
  g_autofree char *whole = g_strconcat ("test", line, NULL);
  g_auto (GStrv) argv = NULL;
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (PsSetting) setting = ps_setting_new ();

  g_assert_true (g_shell_parse_argv (whole, NULL, &argv, NULL));
  ps_options_add (ps_setting_options, setting, context);
  return g_option_context_parse_strv (context, &argv, error) ? g_steal_pointer (&setting) : NULL;
}

static void assert_same_value (const PsOption *row, const PsSetting *a, const PsSetting *b)
{
  g_autofree char *x = ps_option_typed (row, a), *y = ps_option_typed (row, b);

  g_assert_cmpstr (x, ==, y);
  g_assert_cmpint (ps_option_is_initial (row, a), ==, ps_option_is_initial (row, b));
}

/* Names, letters and columns are those of one row each, and a column is called as its option. */
static void test_unique (void)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (const PsOption *row = ps_setting_options; row->name != NULL; row++) {
    g_autofree char *start = g_strdelimit (g_strdup (row->name), "-", '_');
    const char *column = row->sweep->column.key;

    g_assert_true (g_hash_table_add (seen, g_strconcat ("--", row->name, NULL)));
    g_assert_true (g_hash_table_add (seen, g_strconcat ("column ", column, NULL)));
    g_assert_true (row->letter == 0 || g_hash_table_add (seen, g_strdup_printf ("-%c", row->letter)));
    g_assert_true (g_str_has_prefix (row->name, "costs.") ? g_str_has_prefix (column, "cost_")
                                                          : g_str_has_prefix (column, start));
    g_assert_nonnull (row->help);
    g_assert_true (row->hidden || (row->argument == NULL) == (row->type == PS_OPTION_FLAG));
    g_assert_true (ps_option_find (ps_setting_options, row->name) == row);
    g_assert_cmpint (ps_result_column_find (column), ==, row - ps_setting_options);
  }
  g_assert_null (ps_option_find (ps_setting_options, "device"));
}

/* What a column holds is of the column's type. */
static void test_column_types (void)
{
  static const PsColumnType types[] = { [PS_OPTION_FLAG] = PS_COLUMN_BOOLEAN,    [PS_OPTION_COUNT] = PS_COLUMN_INTEGER,
                                        [PS_OPTION_INTEGER] = PS_COLUMN_INTEGER, [PS_OPTION_NAME] = PS_COLUMN_TEXT,
                                        [PS_OPTION_TIME] = PS_COLUMN_TIME,       [PS_OPTION_SIZE] = PS_COLUMN_SIZE,
                                        [PS_OPTION_NUMBER] = PS_COLUMN_NUMBER,   [PS_OPTION_TEXT] = PS_COLUMN_TEXT,
                                        [PS_OPTION_FILE] = PS_COLUMN_TEXT,       [PS_OPTION_FACTORS] = PS_COLUMN_TEXT,
                                        [PS_OPTION_SIZES] = PS_COLUMN_SIZE,      [PS_OPTION_RATE] = PS_COLUMN_RATE };
  g_autoptr (PsSetting) defaults = ps_setting_new ();

  for (const PsOption *row = ps_setting_options; row->name != NULL; row++) {
    g_test_message ("%s", row->name);
    /* Counts of which there may be a list are texts. */
    if (row->type != PS_OPTION_COUNT || row->each == 0 || row->sweep->column.type != PS_COLUMN_TEXT)
      g_assert_cmpint (row->sweep->column.type, ==, types[row->type]);
    if (is_own (row))
      continue;
    /* What is not NULL where it is not given has a value then. */
    g_assert_true (ps_option_is_initial (row, defaults));
    g_assert_cmpint (ps_setting_column (row, defaults).type == PS_VALUE_NONE, ==, (row->flags & PS_FIELD_NULL) != 0);
  }
}

/* A repeated option has its last value, or all of them. */
static void test_repeated (void)
{
  g_autoptr (PsSetting) setting = parse (" --costs-from=a --costs-from=b:c --db=x --db=y", NULL);

  g_assert_cmpstr (setting->costs_from, ==, "a:b:c");
  g_assert_cmpstr (setting->db, ==, "y");
}

/* A text means the same to a command line, to a row and to a spec, and what an option tells can be read again. */
static void test_agree (void)
{
  for (const PsOption *row = ps_setting_options; row->name != NULL; row++) {
    g_auto (Texts) texts = texts_of (row);
    g_autofree char *line = row->type == PS_OPTION_FLAG ? g_strdup_printf (" --%s", row->name)
                                                        : g_strdup_printf (" --%s='%s'", row->name, texts.second);
    g_autoptr (PsSetting) read = ps_setting_new (), typed = NULL, again = NULL;

    g_test_message ("%s", line);
    if (is_own (row) || row->hidden)
      continue;
    g_assert_true (row->joins || ps_option_read (row, read, texts.first, NULL));
    g_assert_true (ps_option_read (row, read, texts.second, NULL));
    g_assert_false (ps_option_is_initial (row, read));
    typed = parse (line, NULL);
    assert_same_value (row, typed, read);
    g_autofree char *told = ps_setting_typed (read);
    again = parse (told, NULL);
    assert_same_value (row, again, read);
    PsSweepValue *value = ps_sweep_value_new ("spec", row, texts.second, NULL);
    assert_same_value (row, value->setting, read);
    g_assert_cmpint (value->value.type, !=, PS_VALUE_NONE);
    ps_sweep_value_free (value);
  }
}

/* Texts that are wrong get one line that begins with the option and names the text; the spec puts its place before. */
static void test_refused (void)
{
  for (const PsOption *row = ps_setting_options; row->name != NULL; row++) {
    g_auto (Texts) texts = texts_of (row);
    g_autoptr (PsSetting) setting = ps_setting_new ();
    g_autoptr (GError) error = NULL, in_spec = NULL;
    gint64 own;

    if (texts.wrong == NULL || row->flags & PS_FIELD_DERIVED)
      continue;
    g_autofree char *quoted = g_strdup_printf ("%s%s: '", row->hidden ? "" : "--", row->name);
    g_assert_false (ps_option_read (row, is_own (row) ? (gpointer)&own : setting, texts.wrong, &error));
    g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
    g_assert_nonnull (strstr (error->message, quoted));
    g_assert_null (strchr (error->message, '\n'));
    g_assert_null (ps_sweep_value_new ("s.ini:3", row, texts.wrong, &in_spec));
    g_assert_error (in_spec, PS_ERROR, PS_ERROR_INPUT);
    g_assert_true (g_str_has_prefix (in_spec->message, "s.ini:3: "));
    g_assert_cmpstr (in_spec->message + strlen ("s.ini:3: "), ==, error->message);
  }
}

/* The word for none takes a value back, and its column is that of an option that is not given. */
static void test_none (void)
{
  g_autoptr (PsSetting) defaults = ps_setting_new ();
  guint n = 0;

  for (const PsOption *row = ps_setting_options; row->name != NULL; row++) {
    g_auto (Texts) texts = texts_of (row);
    g_autoptr (PsSetting) setting = ps_setting_new ();

    if (row->none == NULL)
      continue;
    n++;
    g_assert_true (ps_option_read (row, setting, texts.second, NULL));
    g_assert_true (ps_option_read (row, setting, row->none, NULL));
    g_assert_true (ps_option_is_initial (row, setting));
    PsSweepValue *value = ps_sweep_value_new ("spec", row, row->none, NULL);
    g_assert_true (ps_option_is_initial (row, value->setting));
    if (row->sweep->column.type != PS_COLUMN_TEXT)
      g_assert_cmpint (value->value.integer, ==, ps_setting_column (row, defaults).integer);
    ps_sweep_value_free (value);
  }
  g_assert_cmpuint (n, >=, 5);
}

static gboolean changes_slower (const PsOption *a, const PsOption *b)
{
  return a->sweep->pace != b->sweep->pace ? a->sweep->pace < b->sweep->pace : a < b;
}

/* The order of fields decides which number a setting of a sweep has, so it is never to change. */
static void test_pace (void)
{
  g_auto (GStrv) order = g_strsplit (
      "devices chunks model precision cluster db profile costs costs.f costs.b costs.w costs.bw costs.c costs.o "
      "costs.pair costs.reduce costs.reduce2 costs.r costs.host costs.op costs.post costs.act costs.wact costs.keep "
      "costs.weights "
      "costs.version costs.grad costs.opt costs.msg microbatch-size recompute offload replicas tensor zero "
      "bandwidth-factor latency-factor reduce sync comm eager blocking share-links speed overlap-slowdown "
      "ready-order comm-order placement slices group memory-limit global-batch microbatches schedule",
      " ", -1);

  for (guint i = 0; order[i + 1] != NULL; i++)
    g_assert_true (changes_slower (ps_sweep_field_find (order[i]), ps_sweep_field_find (order[i + 1])));
}

static void assert_refused (const char *line, PsFieldFlags flags, const char *message)
{
  g_autoptr (PsSetting) setting = parse (line, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (ps_setting_refuse (setting, flags, NULL, &error), ==, message == NULL);
  g_assert_cmpstr (error != NULL ? error->message : NULL, ==, message);
}

static void test_refuse (void)
{
  g_autoptr (PsSetting) setting = parse (" --comm latency --replicas 1 --speed 1:2", NULL);
  g_autoptr (PsSetting) blocking = parse (" -p 2 --comm-order asap --blocking", NULL);
  g_autoptr (GError) error = NULL;

  assert_refused (" --sync global --recompute none", PS_FIELD_NOT_RUN | PS_FIELD_NOT_COMPUTED, NULL);
  assert_refused (" --sync bypass", PS_FIELD_NOT_RUN | PS_FIELD_NOT_COMPUTED, NULL);
  assert_refused (" --adjacent-replicas", PS_FIELD_NOT_RUN,
                  "--adjacent-replicas: is predicted only; here neighbours of a pipeline are neighbours");
  assert_refused (" --tensor 2", PS_FIELD_NOT_RUN | PS_FIELD_NOT_COMPUTED, NULL);
  assert_refused (" --tensor 2", PS_FIELD_SHARED,
                  "--tensor 2: is predicted only, except on device cpu, whose cores share layers");
  /* Values that say what is so anyway are no reason to refuse. */
  g_assert_true (ps_setting_refuse (setting, PS_FIELD_NOT_PARTITION, "no", &error));
  g_assert_false (ps_setting_refuse (blocking, PS_FIELD_NOT_PARTITION, "no", &error));
  g_assert_cmpstr (error->message, ==, "--blocking: no");
}

/* A setting is told in the order of the table; a shell reads texts with blanks as one word. */
static void test_typed (void)
{
  g_autoptr (PsSetting) setting
      = parse (" --speed 1:0.25 --eager 3KiB --blocking --model 'my model.ini' -v 2 -p 4 --offload .5 --zero 1", NULL);
  g_autofree char *typed = ps_setting_typed (setting);

  g_assert_cmpstr (typed, ==,
                   " -p 4 -v 2 --model 'my model.ini' --offload 0.5 --zero 1 --eager 3072B --blocking --speed 1:0.25");
}

/* option.h by itself */

typedef struct {
  guint level;
  PsSetting *setting;
} Inner;

typedef struct {
  double share;
  gint64 rate, time_ns, number;
  guint n;
  gboolean any, has_number, flag;
  char **words, **files, **parts;
  char *text, *one;
  Inner inner;
} Outer;

static const PsOption inner_rows[] = {
  PS_OPTION ("level", 'l', PS_COUNT (Inner, level, 0, 3), "N", "Level", .initial = 2),
  PS_OPTION_INCLUDE_AT (Inner, setting, ps_setting_options, 0),
  PS_OPTION_END,
};

static const PsOption outer_rows[] = {
  PS_OPTION ("share", 0, PS_PERCENT (Outer, share, 0, 50), "PERCENT", "Share", .initial = 0.25),
  PS_OPTION ("rate", 0, PS_RATE (Outer, rate), "RATE", "Rate"),
  PS_OPTION ("time", 't', PS_TIME (Outer, time_ns), "T", "Time"),
  PS_OPTION ("number", 0, PS_INTEGER (Outer, number, 1, 0), "N|any", "Number", .any = "any",
             .any_offset = PS_MEMBER (Outer, any, gboolean), .given = PS_MEMBER (Outer, has_number, gboolean)),
  PS_OPTION ("word", 0, PS_TEXTS (Outer, words), "WORD", "Word"),
  PS_OPTION ("flag", 'f', PS_FLAG (Outer, flag), NULL, "Flag"),
  PS_OPTION ("text", 0, PS_TEXT (Outer, text), "TEXT", "Text"),
  PS_OPTION ("part", 'a', PS_LIST (Outer, parts), "PART,...", "Parts"),
  PS_OPTION ("one", 'o', PS_TEXT (Outer, one), "NAME", "Name", .single = TRUE),
  PS_OPTION ("", 0, PS_FILES (Outer, files), NULL, NULL),
  PS_OPTION_INCLUDE (Outer, inner, inner_rows),
  PS_OPTION_END,
};

static gboolean parse_outer (Outer *outer, const char *line, GError **error)
{
  g_autofree char *whole = g_strconcat ("test ", line, NULL);
  g_auto (GStrv) argv = NULL;
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  g_assert_true (g_shell_parse_argv (whole, NULL, &argv, NULL));
  ps_options_add (outer_rows, outer, context);
  return g_option_context_parse_strv (context, &argv, error);
}

static void test_own_table (void)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  Outer outer = { .inner = { .setting = setting } };
  g_autoptr (GError) error = NULL;

  fine (parse_outer (&outer, "", &error));
  g_assert_cmpfloat (outer.share, ==, 0.25);
  g_assert_cmpuint (outer.inner.level, ==, 2);
  parse_outer (&outer,
               "--share 10% --rate 1kB/s -t 3us --word a --word 'b c' -f --text x --text y one two -l 0 -p 7 "
               "--number 9223372036854775807",
               &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (outer.share, ==, 0.1);
  g_assert_cmpint (outer.rate, ==, 1000);
  g_assert_cmpint (outer.time_ns, ==, 3000);
  g_assert_cmpint (outer.number, ==, G_MAXINT64);
  g_assert_true (outer.has_number && outer.flag && !outer.any);
  g_assert_cmpstr (outer.words[1], ==, "b c");
  g_assert_null (outer.words[2]);
  g_assert_cmpstr (outer.text, ==, "y");
  g_assert_cmpstr (outer.files[0], ==, "one");
  g_assert_cmpuint (g_strv_length (outer.files), ==, 2);
  g_assert_cmpuint (outer.inner.level, ==, 0);
  g_assert_cmpuint (setting->n_devices, ==, 7);
  ps_options_reset (outer_rows, &outer);
  g_assert_true (outer.words == NULL && outer.text == NULL && !outer.has_number);
  g_assert_cmpuint (setting->n_devices, ==, 7);
}

/* Parts between commas and those of options that are given again make one list. */
static void test_own_lists (void)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  Outer outer = { .inner = { .setting = setting } };
  g_autoptr (GError) error = NULL;

  fine (parse_outer (&outer, "-a one,two --part 'three, four' -a five -o six --text old", &error));
  g_autofree char *joined = g_strjoinv (" ", outer.parts);
  g_assert_cmpstr (joined, ==, "one two three four five");
  g_assert_cmpstr (outer.one, ==, "six");
  g_assert_cmpstr (outer.text, ==, "old");
  ps_options_reset (outer_rows, &outer);
  g_assert_null (outer.parts);
  g_assert_false (parse_outer (&outer, "-o a -o b", &error));
  g_assert_cmpstr (error->message, ==, "-o/--one: 'a,b' are several; this command takes one");
  ps_options_reset (outer_rows, &outer);
}

static void test_own_words (void)
{
  static const char *const wrong[]
      = { "--share 51", "--number 0", "-l 4", "-t 3", "--rate x", "--rate 100", "--lvl 1", "-o a,b" };
  g_autoptr (PsSetting) setting = ps_setting_new ();
  Outer outer = { .inner = { .setting = setting } };

  g_assert_true (parse_outer (&outer, "--number any", NULL));
  g_assert_true (outer.any && !outer.has_number);
  g_assert_true (parse_outer (&outer, "--number any --number 3", NULL));
  g_assert_true (!outer.any && outer.has_number);
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++) {
    g_autoptr (GError) error = NULL;

    g_test_message ("%s", wrong[i]);
    g_assert_false (parse_outer (&outer, wrong[i], &error));
    g_assert_cmpint (ps_error_exit_code (error), ==, 2);
  }
  ps_options_reset (outer_rows, &outer);
}

typedef struct {
  guint count, other;
  gboolean flag;
  double part;
  gint64 wait_ns;
  char *text;
} Own;

static void add_some (GString *help)
{
  g_string_append (help, " one or two");
}

static const PsOption own_rows[] = {
  PS_OPTION ("count", 'c', PS_COUNT (Own, count, 1, 9), "N", "How many", .initial = 3, .group = PS_GROUP_WHAT),
  PS_OPTION ("other", 0, PS_COUNT (Own, other, 1, 9), "N", "The others", .otherwise = "as many",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("flag", 'f', PS_FLAG (Own, flag), NULL, "Whether", .group = PS_GROUP_WHAT),
  PS_OPTION ("part", 0, PS_PERCENT (Own, part, 0, 100), "PERCENT", "Part", .initial = 0.05),
  PS_OPTION ("time-to-wait-for-it", 0, PS_TIME (Own, wait_ns), "TIME", "Patience", .initial = 2e6,
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("text", 't', PS_TEXT (Own, text), "TEXT", "Which", .add_values = add_some),
  PS_OPTION ("must", 0, PS_TEXT (Own, text), "TEXT", "Needed", .otherwise = ""),
  PS_OPTION ("hidden", 0, PS_TEXT (Own, text), "TEXT", "Nobody's", .hidden = TRUE),
  PS_OPTION_END,
};

/* Options stand under the headings of their groups, in the order of the rows, with what holds where they are not given;
 * a long name has a line of its own, and a group without options no heading. */
static void test_help (void)
{
  g_autofree char *page = ps_command_options (own_rows);

  g_assert_cmpstr (page, ==,
                   "Options:\n"
                   "  --part=PERCENT            Part [default: 5 %]\n"
                   "  -t, --text=TEXT           Which: one or two [default: none]\n"
                   "  --must=TEXT               Needed [required]\n"
                   "\nWhat to simulate:\n"
                   "  -c, --count=N             How many [default: 3]\n"
                   "  -f, --flag                Whether\n"
                   "\nOutput:\n"
                   "  --other=N                 The others [default: as many]\n"
                   "  --time-to-wait-for-it=TIME\n"
                   "                            Patience [default: 2 ms]\n");
}

/* An unknown option may be another one, but none that is hidden. */
static void test_unknown (void)
{
  static const PsCommandHelp help = { .summary = "S", .examples = "e\n" };
  static const char *const rows[][2] = { { "--cuont=3", "Unknown option --cuont=3; did you mean --count?" },
                                         { "--txt", "Unknown option --txt; did you mean --text?" },
                                         { "--hiden", "Unknown option --hiden" },
                                         { "--hidden", "Unknown option --hidden" },
                                         { "-x", "Unknown option -x" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    char *words[] = { (char *)"p", (char *)rows[i][0], NULL }, **argv = words;
    g_autoptr (GError) error = NULL;
    Own own = { 0 };
    int argc = 2;

    g_assert_false (ps_command_parse (&help, own_rows, &own, &argc, &argv, &error));
    g_assert_cmpstr (error->message, ==, rows[i][1]);
  }
  char *words[] = { (char *)"p", (char *)"-c", (char *)"4", (char *)"rest", NULL }, **argv = words;
  Own own = { 0 };
  int argc = 4;
  fine (ps_command_parse (&help, own_rows, &own, &argc, &argv, &error));
  g_assert_cmpuint (own.count, ==, 4);
  g_assert_cmpint (argc, ==, 2);
  g_assert_cmpstr (argv[1], ==, "rest");
}

/* --help prints the whole page and ends the program. */
static void test_page (void)
{
  static const PsCommandHelp help = { .arguments = "FILE",
                                      .summary = "Does it.",
                                      .text = "More of it, in a line that has more letters than the narrowest page.\n",
                                      .examples = "p -c 4\np -f\n" };

  if (g_test_subprocess ()) {
    char *words[] = { (char *)"p", (char *)"--help", NULL }, **argv = words;
    Own own = { 0 };
    int argc = 2;

    g_set_prgname ("p");
    g_unsetenv ("COLUMNS");
    ps_command_parse (&help, own_rows, &own, &argc, &argv, NULL);
    g_assert_not_reached ();
  }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_passed ();
  g_test_trap_assert_stdout (
      "*Usage: p FILE [OPTION...]\n\nDoes it.\n\nOptions:\n*\n\n"
      "  -h, --help                Print this page\n\n"
      "More of it, in a line that has more letters than the narrowest page.\n\nExamples:\n  p -c 4\n  p -f\n*");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/option/unique", test_unique);
  g_test_add_func ("/option/column-types", test_column_types);
  g_test_add_func ("/option/agree", test_agree);
  g_test_add_func ("/option/repeated", test_repeated);
  g_test_add_func ("/option/refused", test_refused);
  g_test_add_func ("/option/none", test_none);
  g_test_add_func ("/option/pace", test_pace);
  g_test_add_func ("/option/refuse", test_refuse);
  g_test_add_func ("/option/typed", test_typed);
  g_test_add_func ("/option/own-table", test_own_table);
  g_test_add_func ("/option/own-lists", test_own_lists);
  g_test_add_func ("/option/own-words", test_own_words);
  g_test_add_func ("/option/help", test_help);
  g_test_add_func ("/option/unknown", test_unknown);
  g_test_add_func ("/option/page", test_page);
  return g_test_run ();
}

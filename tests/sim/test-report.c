/* Tests of timeline.h: what tables look like as text and as JSON, to the byte. */
#include "error-rig.h"

#include <pipesim/option.h>

#include <json-glib/json-glib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const PsColumn detail_columns[] = {
  { "busy_ns", NULL, PS_COLUMN_TIME },
  { "name", NULL, PS_COLUMN_TEXT },
};

static const PsColumn columns[] = {
  { "schedule", "schedule", PS_COLUMN_TEXT }, { "n", "n", PS_COLUMN_INTEGER },
  { "time_ns", "time", PS_COLUMN_TIME },      { "peak_bytes", "peak memory", PS_COLUMN_SIZE },
  { "bubble", "bubble", PS_COLUMN_RATIO },    { "error", "error", PS_COLUMN_PERCENT },
  { "feasible", "fits", PS_COLUMN_BOOLEAN },  { "hidden", NULL, PS_COLUMN_INTEGER },
  { "detail", NULL, PS_COLUMN_TABLE },        { "losses", NULL, PS_COLUMN_JSON },
};

static PsTable *example (void)
{
  static const double losses[] = { 10.5, 0.1, NAN, 1e300 };
  PsTable *table = ps_table_new (columns, G_N_ELEMENTS (columns));
  PsTable *detail = ps_table_new (detail_columns, G_N_ELEMENTS (detail_columns));

  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", "1f1b");
  ps_table_set_integer (table, "n", 8);
  ps_table_set_integer (table, "time_ns", 12345678);
  ps_table_set_integer (table, "peak_bytes", 3 << 20);
  ps_table_set_ratio (table, "bubble", 0.27272727);
  ps_table_set_ratio (table, "error", -0.0125);
  ps_table_set_boolean (table, "feasible", TRUE);
  ps_table_set_integer (table, "hidden", 1);
  ps_table_add_row (detail);
  ps_table_set_integer (detail, "busy_ns", 5);
  ps_table_add_row (detail);
  ps_table_set_text (detail, "name", "a \"quoted\" \\ name\n");
  ps_table_set_table (table, "detail", detail);
  ps_table_set_numbers (table, "losses", losses, G_N_ELEMENTS (losses));
  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", "z\xc3\xa9ro-bubble");
  ps_table_set_integer (table, "n", -12);
  ps_table_set_ratio (table, "bubble", NAN);
  ps_table_set_boolean (table, "feasible", FALSE);
  return table;
}

static void test_text (void)
{
  g_autoptr (PsTable) table = example ();
  g_autofree char *text = ps_table_to_text (table);

  g_assert_cmpstr (text, ==,
                   "schedule       n      time  peak memory  bubble    error  fits\n"
                   "1f1b           8  12.35 ms        3 MiB  0.2727  -1.25 %  yes\n"
                   "z\xc3\xa9ro-bubble  -12         -            -       -        -  no\n");
}

static void test_text_empty (void)
{
  g_autoptr (PsTable) table = ps_table_new (columns, 3);
  g_autofree char *text = ps_table_to_text (table);

  g_assert_cmpstr (text, ==, "schedule  n  time\n");
  g_assert_cmpuint (ps_table_n_rows (table), ==, 0);
}

static void test_json (void)
{
  const char *const extra[] = { "origin", "simulated", NULL };
  g_autoptr (PsTable) table = example ();
  g_autofree char *json = ps_table_to_json (table, "pipesim-test/1", extra);

  g_assert_cmpstr (json, ==,
                   "{\n"
                   "  \"format\": \"pipesim-test/1\",\n"
                   "  \"origin\": \"simulated\",\n"
                   "  \"results\": [\n"
                   "    {\n"
                   "      \"schedule\": \"1f1b\",\n"
                   "      \"n\": 8,\n"
                   "      \"time_ns\": 12345678,\n"
                   "      \"peak_bytes\": 3145728,\n"
                   "      \"bubble\": 0.27272727,\n"
                   "      \"error\": -0.0125,\n"
                   "      \"feasible\": true,\n"
                   "      \"hidden\": 1,\n"
                   "      \"detail\": [\n"
                   "        {\n"
                   "          \"busy_ns\": 5,\n"
                   "          \"name\": null\n"
                   "        },\n"
                   "        {\n"
                   "          \"busy_ns\": null,\n"
                   "          \"name\": \"a \\\"quoted\\\" \\\\ name\\u000a\"\n"
                   "        }\n"
                   "      ],\n"
                   "      \"losses\": [10.5, 0.1, null, 1e+300]\n"
                   "    },\n"
                   "    {\n"
                   "      \"schedule\": \"z\xc3\xa9ro-bubble\",\n"
                   "      \"n\": -12,\n"
                   "      \"time_ns\": null,\n"
                   "      \"peak_bytes\": null,\n"
                   "      \"bubble\": null,\n"
                   "      \"error\": null,\n"
                   "      \"feasible\": false,\n"
                   "      \"hidden\": null,\n"
                   "      \"detail\": null,\n"
                   "      \"losses\": null\n"
                   "    }\n"
                   "  ]\n"
                   "}\n");
}

static void test_json_empty (void)
{
  g_autoptr (PsTable) table = ps_table_new (columns, 3);
  g_autofree char *json = ps_table_to_json (table, "pipesim-test/1", NULL);

  g_assert_cmpstr (json, ==, "{\n  \"format\": \"pipesim-test/1\",\n  \"results\": []\n}\n");
}

/* 0.1 + 0.2 is not 0.3: such a number needs its 17 digits to read back. */
static void test_json_numbers (void)
{
  static const double numbers[] = { 0.1 + 0.2, 1.0 / 3, 5, -0.25 };
  const PsColumn column[] = { { "x", NULL, PS_COLUMN_JSON } };
  g_autoptr (PsTable) table = ps_table_new (column, 1);

  ps_table_add_row (table);
  ps_table_set_numbers (table, "x", numbers, G_N_ELEMENTS (numbers));
  g_autofree char *json = ps_table_to_json (table, "f", NULL);
  g_assert_cmpstr (json, ==,
                   "{\n  \"format\": \"f\",\n  \"results\": [\n    {\n"
                   "      \"x\": [0.30000000000000004, 0.3333333333333333, 5, -0.25]\n    }\n  ]\n}\n");
}

/* Setting a cell twice keeps the last value (and, under a leak checker, frees the first). */
static void test_set_again (void)
{
  g_autoptr (PsTable) table = ps_table_new (columns, 2);

  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", "first");
  ps_table_set_text (table, "schedule", "second");
  g_autofree char *text = ps_table_to_text (table);
  g_assert_cmpstr (text, ==, "schedule  n\nsecond    -\n");
}

static char *sorted_names (const char *key, gboolean descending)
{
  static const struct {
    const char *name;
    gint64 n;
    double bubble;
  } rows[] = { { "a", 3, 0.5 }, { "b", 1, NAN }, { "c", 3, 0.25 }, { "d", 2, 0.75 } };
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    ps_table_add_row (table);
    ps_table_set_text (table, "schedule", rows[i].name);
    ps_table_set_integer (table, "n", rows[i].n);
    ps_table_set_ratio (table, "bubble", rows[i].bubble);
  }
  ps_table_sort (table, key, descending);
  g_autofree char *text = ps_table_to_text (table);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 1; i <= G_N_ELEMENTS (rows); i++)
    g_string_append_c (names, lines[i][0]);
  return g_string_free (names, FALSE);
}

/* Equal rows keep their order in both directions; unset cells come last in both. */
static void test_sort (void)
{
  g_autofree char *up = sorted_names ("n", FALSE);
  g_autofree char *down = sorted_names ("n", TRUE);
  g_autofree char *ratio_up = sorted_names ("bubble", FALSE);
  g_autofree char *ratio_down = sorted_names ("bubble", TRUE);

  g_assert_cmpstr (up, ==, "bdac");
  g_assert_cmpstr (down, ==, "acdb");
  g_assert_cmpstr (ratio_up, ==, "cadb");
  g_assert_cmpstr (ratio_down, ==, "dacb");
}

/* A value that would end its cell, in every form; numbers as the JSON has them in CSV, as the text has them in
 * Markdown. */
static void test_exports (void)
{
  static const PsColumn some[] = { { "name", "the name", PS_COLUMN_TEXT },
                                   { "time_ns", "time", PS_COLUMN_TIME },
                                   { "detail", NULL, PS_COLUMN_TABLE },
                                   { "factor", "factor", PS_COLUMN_NUMBER },
                                   { "fits", NULL, PS_COLUMN_BOOLEAN } };
  g_autoptr (PsTable) table = ps_table_new (some, G_N_ELEMENTS (some));
  g_autofree char *csv = NULL, *markdown = NULL;

  ps_table_add_row (table);
  ps_table_set_text (table, "name", "a|b,\"c\"");
  ps_table_set_integer (table, "time_ns", 1500000);
  ps_table_set_ratio (table, "factor", 0.1);
  ps_table_set_boolean (table, "fits", TRUE);
  ps_table_add_row (table);
  ps_table_set_text (table, "name", "plain");
  csv = ps_table_to_csv (table);
  markdown = ps_table_to_markdown (table);
  g_assert_cmpstr (csv, ==,
                   "name,time_ns,factor,fits\n"
                   "\"a|b,\"\"c\"\"\",1500000,0.1,true\n"
                   "plain,,,\n");
  g_assert_cmpstr (markdown, ==,
                   "| the name | time | factor |\n"
                   "| --- | ---: | ---: |\n"
                   "| a\\|b,\"c\" | 1.5 ms | 0.1 |\n"
                   "| plain | - | - |\n");
}

/* Columns are called by key or title, in any case and with any dashes; without a choice those of --wide are not shown.
 */
static void test_columns (void)
{
  static const char *const wide[] = { "n", "time_ns", "bubble", "error", "feasible", NULL };
  char *asked[] = { (char *)"Peak-Memory", (char *)"hidden", (char *)"schedule", NULL },
       *wrong[] = { (char *)"x", NULL };
  PsColumnChoice some = { .columns = asked }, all = { .wide = TRUE }, none = { .columns = wrong };
  g_autoptr (PsTable) table = example ();
  g_autoptr (GError) error = NULL;
  g_autofree char *few = NULL, *chosen = NULL, *broad = NULL, *csv = NULL, *every = NULL,
                  *before = ps_table_to_text (table);

  ps_table_choose (table, NULL, wide, NULL);
  few = ps_table_to_text (table);
  g_assert_cmpstr (few, ==, "schedule     peak memory\n1f1b               3 MiB\nz\xc3\xa9ro-bubble            -\n");
  g_assert_true (ps_table_choose (table, &some, wide, NULL));
  chosen = ps_table_to_text (table);
  csv = ps_table_to_csv (table);
  g_assert_cmpstr (
      chosen, ==,
      "peak memory  hidden  schedule\n      3 MiB       1  1f1b\n          -       -  z\xc3\xa9ro-bubble\n");
  g_assert_cmpstr (csv, ==, "peak_bytes,hidden,schedule\n3145728,1,1f1b\n,,z\xc3\xa9ro-bubble\n");
  g_assert_true (ps_table_choose (table, &all, wide, NULL));
  broad = ps_table_to_text (table);
  g_assert_cmpstr (broad, ==, before);
  every = ps_table_to_csv (table);
  g_assert_true (g_str_has_prefix (every, "schedule,n,time_ns,peak_bytes,bubble,error,feasible,hidden\n"));
  g_assert_false (ps_table_choose (table, &none, wide, &error));
  g_assert_cmpstr (error->message, ==,
                   "--columns: 'x' is no column; there are schedule, n, time, peak memory, bubble, error, fits");
  all.json = TRUE;
  g_assert_false (ps_table_choose (table, &all, wide, NULL));
}

static char *text_within (const PsTable *table, const char *window)
{
  g_autofree char *before = g_strdup (g_getenv ("COLUMNS"));

  g_setenv ("COLUMNS", window, TRUE);
  char *text = ps_table_to_text (table);
  if (before != NULL)
    g_setenv ("COLUMNS", before, TRUE);
  else
    g_unsetenv ("COLUMNS");
  return text;
}

/* What does not fit the window comes below, after as many columns as tell the rows apart. A column that is equal in
 * all rows makes no part of its own. */
static void test_parts (void)
{
  static const PsColumn wide[] = { { "kind", "kind", PS_COLUMN_TEXT },
                                   { "v", "v", PS_COLUMN_INTEGER },
                                   { "first_ns", "first long", PS_COLUMN_TIME },
                                   { "second_ns", "second", PS_COLUMN_TIME },
                                   { "third_ns", "third", PS_COLUMN_TIME } };
  g_autoptr (PsTable) table = ps_table_new (wide, G_N_ELEMENTS (wide));
  g_autoptr (PsTable) alike = ps_table_new (wide, 3);

  for (guint r = 0; r < 2; r++) {
    ps_table_add_row (table);
    ps_table_set_text (table, "kind", "loop");
    ps_table_set_integer (table, "v", r + 1);
    for (guint c = 2; c < G_N_ELEMENTS (wide); c++)
      ps_table_set_integer (table, wide[c].key, 1000 * (100 * r + c));
    ps_table_add_row (alike);
    ps_table_set_text (alike, "kind", r == 0 ? "a-loop-of-two-chunks" : "a-loop-of-three-chunks");
    ps_table_set_integer (alike, "v", 7);
    ps_table_set_integer (alike, "first_ns", 1000);
  }
  g_autofree char *text = text_within (table, "24"), *narrowest = text_within (table, "3");
  g_autofree char *name = text_within (alike, "16");
  g_assert_cmpstr (text, ==,
                   "kind  v   first  second\n           long\n"
                   "loop  1    2 us    3 us\nloop  2  102 us  103 us\n\n"
                   "kind  v   third\nloop  1    4 us\nloop  2  104 us\n");
  for (guint c = 1; c < G_N_ELEMENTS (wide); c++) {
    g_auto (GStrv) words = g_strsplit (wide[c].title, " ", -1);

    g_assert_nonnull (strstr (narrowest, words[0]));
  }
  g_assert_cmpstr (name, ==,
                   "in every row: v\n7, first long 1\nus\nkind\na-loop-of-two-chunks\na-loop-of-three-chunks\n");
}

/* What a stranger put into a name neither begins a row nor speaks to the terminal, and JSON still tells it. */
static void test_controls (void)
{
  g_autoptr (PsTable) table = ps_table_new (columns, 2);
  g_autofree char *text = NULL, *csv = NULL, *markdown = NULL, *json = NULL;

  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", "a\x1b[2J\r\nb\xc2\x9b");
  text = ps_table_to_text (table);
  csv = ps_table_to_csv (table);
  markdown = ps_table_to_markdown (table);
  json = ps_table_to_json (table, "f", NULL);
  g_assert_cmpstr (text, ==, "schedule   n\na [2J  b   -\n");
  g_assert_cmpstr (csv, ==, "schedule,n\na [2J  b ,\n");
  g_assert_cmpstr (markdown, ==, "| schedule | n |\n| --- | ---: |\n| a [2J  b  | - |\n");
  g_assert_nonnull (strstr (json, "\"a\\u001b[2J\\u000d\\u000ab\\u009b\""));
}

static void test_print_controls (void)
{
  if (g_test_subprocess ()) {
    ps_print ("a\x1b[2J\nb\x1b[1mc\n", NULL);
    ps_print_coloured ("d\x1b[2J\ne\x1b[1mf\n", NULL);
    exit (0);
  }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_stdout ("*a [2J\nb [1mc\nd [2J\ne\x1b[1mf\n*");
}

static void test_print_full_disk (void)
{
  if (!g_test_subprocess ()) {
    if (!g_file_test ("/dev/full", G_FILE_TEST_EXISTS)) {
      g_test_skip ("no /dev/full");
      return;
    }
    g_test_trap_subprocess (NULL, 0, 0);
    g_test_trap_assert_passed ();
    return;
  }
  g_assert_nonnull (freopen ("/dev/full", "w", stdout));
  refused (ps_print ("text\n", &error), PS_ERROR_IO, "standard output: *");
}

/* Texts give way letter by letter: a table of 40 columns fits any window down to where the words are whole, exactly. */
static void test_shrunk (void)
{
  static const PsColumn two[] = { { "name", "name", PS_COLUMN_TEXT }, { "text", "text", PS_COLUMN_TEXT } };
  g_autoptr (PsTable) table = ps_table_new (two, 2);

  for (guint r = 0; r < 2; r++) {
    ps_table_add_row (table);
    ps_table_set_text (table, "name", r == 0 ? "a" : "b");
    ps_table_set_text (table, "text",
                       r == 0 ? "aa bb cc dd ee ff gg hh ii jj kk l" : "mm bb cc dd ee ff gg hh ii jj kk l");
  }
  for (guint window = 22; window <= 41; window++) {
    g_autofree char *columns = g_strdup_printf ("%u", window), *text = text_within (table, columns);

    g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
    /* of 3-letter steps the largest that fits beside 4 letters of "name" and a gap of 2 */
    glong room = MIN ((glong)window - 6, 34), widest = 0;

    for (guint i = 0; lines[i] != NULL; i++)
      widest = MAX (widest, g_utf8_strlen (lines[i], -1));
    g_assert_cmpint (widest, ==, 6 + (room >= 34 ? 34 : (room + 1) / 3 * 3 - 1));
  }
}

/* Values of JSON stand in it as they are. */
static void test_json_values (void)
{
  static const PsColumn column[] = { { "x", NULL, PS_COLUMN_JSON } };
  g_autoptr (PsTable) table = ps_table_new (column, 1);

  ps_table_add_row (table);
  ps_table_set_json (table, "x", g_strdup ("[[\"a\", \"b\"], []]"));
  ps_table_add_row (table);
  g_autofree char *json = ps_table_to_json (table, "f", NULL);
  g_assert_nonnull (strstr (json, "{\n      \"x\": [[\"a\", \"b\"], []]\n    }"));
  g_assert_nonnull (strstr (json, "{\n      \"x\": null\n    }"));
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/report/text", test_text);
  g_test_add_func ("/report/text/empty", test_text_empty);
  g_test_add_func ("/report/json", test_json);
  g_test_add_func ("/report/json/empty", test_json_empty);
  g_test_add_func ("/report/json/numbers", test_json_numbers);
  g_test_add_func ("/report/set-again", test_set_again);
  g_test_add_func ("/report/exports", test_exports);
  g_test_add_func ("/report/sort", test_sort);
  g_test_add_func ("/report/columns", test_columns);
  g_test_add_func ("/report/controls", test_controls);
  g_test_add_func ("/report/parts", test_parts);
  g_test_add_func ("/report/print/controls", test_print_controls);
  g_test_add_func ("/report/print/full-disk", test_print_full_disk);
  g_test_add_func ("/report/shrunk", test_shrunk);
  g_test_add_func ("/report/json/values", test_json_values);
  return g_test_run ();
}

/* Tests of base.h and of texts that users write. */
#include "folder-rig.h"
#include "error-rig.h"
#include "base/text.h"

#include <pipesim/base.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void assert_usage (GError **error, const char *part)
{
  g_assert_error (*error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_nonnull (strstr ((*error)->message, part));
  g_assert_null (strchr ((*error)->message, '\n'));
  g_clear_error (error);
}

static void test_times (void)
{
  static const struct {
    const char *text;
    gint64 ns;
  } good[] = { { "0", 0 },           { "1ns", 1 },
               { "1.5us", 1500 },    { "18.522ms", 18522000 },
               { "2s", 2000000000 }, { "2min", 120000000000 },
               { ".5ms", 500000 },   { "0ms", 0 },
               { "3µs", 3000 },      { "3μs", 3000 } };
  static const char *const bad[]
      = { "", "1", "-1ms", "1e3ms", "nanms", "infs", "ms", "1.2.3ms", "1 ms", "1h", "0x10ns", "99999999999s", ".ms" };
  gint64 ns;
  GError *error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (good); i++) {
    g_assert_true (ps_parse_time ("--costs: f", good[i].text, &ns, &error));
    g_assert_cmpint (ns, ==, good[i].ns);
  }
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_assert_false (ps_parse_time ("--costs: f", bad[i], &ns, &error));
    assert_usage (&error, "--costs: f: '");
  }
}

static void test_sizes (void)
{
  static const struct {
    const char *text;
    gint64 bytes;
  } good[] = { { "0", 0 },
               { "7B", 7 },
               { "1.5KB", 1500 },
               { "1.5kB", 1500 },
               { "64KiB", 65536 },
               { "2MB", 2000000 },
               { "2MiB", 2097152 },
               { "80GB", G_GINT64_CONSTANT (80000000000) },
               { "80G", G_GINT64_CONSTANT (80000000000) },
               { "80gb", G_GINT64_CONSTANT (80000000000) },
               { "64k", 64000 },
               { "1.5gib", G_GINT64_CONSTANT (1610612736) },
               { "1.5GiB", G_GINT64_CONSTANT (1610612736) } };
  static const char *const bad[] = { "80Gi", "64 K", "1E", "1EiB", "-1B", "GB", "" };
  gint64 bytes;
  GError *error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (good); i++) {
    g_assert_true (ps_parse_size ("x", good[i].text, &bytes, &error));
    g_assert_cmpint (bytes, ==, good[i].bytes);
  }
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_assert_false (ps_parse_size ("x", bad[i], &bytes, &error));
    assert_usage (&error, "is no size; write a number and B, kB, KiB, MB, MiB, GB, GiB, TB or TiB");
  }
  g_assert_false (ps_parse_size ("x", "2000TiB", &bytes, &error));
  assert_usage (&error, "1024TiB");
  g_assert_false (ps_parse_size ("x", "80", &bytes, &error));
  assert_usage (&error, "x: '80' has no unit; 80GB would be right");
  g_assert_false (ps_parse_size ("x", "1.5e9", &bytes, &error));
  assert_usage (&error, "x: '1.5e9' has no unit; 1.5GB would be right");
  g_assert_false (ps_parse_size ("x", "999999", &bytes, &error));
  assert_usage (&error, "x: '999999' has no unit; 999999GB would be right");
  g_assert_false (ps_parse_size ("x", "1000000", &bytes, &error));
  assert_usage (&error, "x: '1000000' has no unit; 0.001GB would be right");
}

static void test_tokens (void)
{
  static const struct {
    const char *text;
    gint64 tokens;
  } good[] = { { "1", 1 },
               { "20M", 20 * 1000 * 1000 },
               { "300B", G_GINT64_CONSTANT (300000000000) },
               { "1.5T", G_GINT64_CONSTANT (1500000000000) },
               { "2.5K", 2500 },
               { "1000T", PS_MAX_TOKENS } };
  static const char *const bad[] = { "0", "0.1", "", "T", "1t", "1 T", "-1T", "1e12", "1001T", "1TB", "1.2.3T" };
  GError *error = NULL;
  gint64 tokens;

  for (guint i = 0; i < G_N_ELEMENTS (good); i++) {
    g_assert_true (ps_parse_tokens ("--tokens", good[i].text, &tokens, &error));
    g_assert_cmpint (tokens, ==, good[i].tokens);
  }
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_assert_false (ps_parse_tokens ("--tokens", bad[i], &tokens, &error));
    assert_usage (&error, "is no number of tokens; 15T, 300B or 20M would be right");
  }
}

static void test_rates (void)
{
  static const struct {
    const char *text;
    gint64 rate;
  } good[] = {
    { "10GB/s", G_GINT64_CONSTANT (10000000000) },
    { "25GiB/s", (gint64)25 << 30 },
    { "400Gbit/s", G_GINT64_CONSTANT (50000000000) },
    { "1.5MB/s", 1500000 },
    { "1.5KB/s", 1500 },
    { "3B/s", 3 },
    { "1000000TB/s", PS_MAX_RATE },
  };
  static const char *const bad[] = { "0", "0.4B/s", "-1GB/s", "10GB", "10 GB/s", "10Gb/s", "", "GB/s", "1000001TB/s" };
  GError *error = NULL;
  gint64 rate;

  for (guint i = 0; i < G_N_ELEMENTS (good); i++) {
    g_assert_true (ps_parse_rate ("--bandwidth", good[i].text, &rate, &error));
    g_assert_cmpint (rate, ==, good[i].rate);
  }
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_assert_false (ps_parse_rate ("--bandwidth", bad[i], &rate, &error));
    assert_usage (&error, "is no rate; write a number and B/s");
  }
  g_assert_false (ps_parse_rate ("--bandwidth", "100", &rate, &error));
  assert_usage (&error, "--bandwidth: '100' has no unit; 100GB/s would be right");
  g_assert_false (ps_parse_rate ("--bandwidth", "450e9", &rate, &error));
  assert_usage (&error, "--bandwidth: '450e9' has no unit; 450GB/s would be right");
}

static void test_integers (void)
{
  gint64 value;
  GError *error = NULL;

  g_assert_true (ps_parse_integer ("-p", "16", 1, 4096, &value, &error));
  g_assert_cmpint (value, ==, 16);
  static const char *const bad[] = { "0", "-5", "4x", "", "4097", "1e3", "999999999999999999999", " 4" };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++) {
    g_assert_false (ps_parse_integer ("-p", bad[i], 1, 4096, &value, &error));
    assert_usage (&error, "is not an integer from 1 to 4096");
  }
}

static void assert_text (char *text, const char *expected)
{
  g_assert_cmpstr (text, ==, expected);
  g_free (text);
}

static void test_formats (void)
{
  assert_text (ps_format_time (0), "0 ns");
  assert_text (ps_format_time (980), "980 ns");
  assert_text (ps_format_time (12345678), "12.35 ms");
  assert_text (ps_format_time (1210000000), "1.21 s");
  assert_text (ps_format_time (1500), "1.5 us");
  assert_text (ps_format_time (-2000000), "-2 ms");
  assert_text (ps_format_size (512), "512 B");
  assert_text (ps_format_size (65536), "64 KiB");
  assert_text (ps_format_size (G_GINT64_CONSTANT (1610612736)), "1.5 GiB");
}

/* The controls are tab, line end, escape, delete and the one-letter form of escape [; the last byte is no UTF-8. */
static void test_lines (void)
{
  assert_text (ps_format_line (""), "");
  assert_text (ps_format_line ("a\tb\nc\x1b[1m\x7f\xc2\x9b"), "a b c [1m  ");
  assert_text (ps_format_line ("\xc3\xa4 \xe2\x82\xac'\"\\\xff"), "\xc3\xa4 \xe2\x82\xac'\"\\\xef\xbf\xbd");
}

static void test_names (void)
{
  PsOrigin origin;
  PsOpKind kind;

  for (guint i = 0; i <= PS_ORIGIN_SIMULATED; i++) {
    g_assert_true (ps_origin_parse ("x", ps_origin_name ((PsOrigin)i), &origin, NULL));
    g_assert_cmpint (origin, ==, i);
  }
  g_assert_false (ps_origin_parse ("x", "guessed", &origin, NULL));
  for (guint i = 0; i < PS_N_OP_KINDS; i++) {
    g_assert_true (ps_op_kind_parse ("x", ps_op_kind_name ((PsOpKind)i), &kind, NULL));
    g_assert_cmpint (kind, ==, i);
  }
  g_assert_false (ps_op_kind_parse ("x", "f", &kind, NULL));
  g_assert_cmpstr (ps_op_kind_name (PS_OP_BW), ==, "BW");
}

static void test_exit_codes (void)
{
  g_autoptr (GError) usage = g_error_new_literal (PS_ERROR, PS_ERROR_USAGE, "x");
  g_autoptr (GError) input = g_error_new_literal (PS_ERROR, PS_ERROR_INPUT, "x");
  g_autoptr (GError) option = g_error_new_literal (G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "x");

  g_assert_cmpint (ps_error_exit_code (usage), ==, 2);
  g_assert_cmpint (ps_error_exit_code (option), ==, 2);
  g_assert_cmpint (ps_error_exit_code (input), ==, 1);
}

static void test_numbers (void)
{
  static const char *const wrong[] = { "", ".", "-1", "+1", "1e1", "0x1", "1.2.3", "nan", "inf", "1 ", "0.49", "8.1" };
  g_autoptr (GError) error = NULL;
  double value;

  g_assert_true (ps_parse_number ("--x", "0.5", 0.5, 8, &value, NULL));
  g_assert_cmpfloat (value, ==, 0.5);
  g_assert_true (ps_parse_number ("--x", "8", 0.5, 8, &value, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++) {
    g_autofree char *message = g_strdup_printf ("--x: '%s' is not a number from 0.5 to 8", wrong[i]);

    g_assert_false (ps_parse_number ("--x", wrong[i], 0.5, 8, &value, &error));
    assert_usage (&error, message);
  }
}

static void test_percentages (void)
{
  g_autoptr (GError) error = NULL;
  double ratio;

  g_assert_true (ps_parse_percent ("--x", "2.5", 0, 100, &ratio, NULL));
  g_assert_cmpfloat (ratio, ==, 0.025);
  g_assert_true (ps_parse_percent ("--x", "100%", 0, 100, &ratio, NULL));
  g_assert_cmpfloat (ratio, ==, 1);
  g_assert_false (ps_parse_percent ("--x", "100.5%", 0, 100, &ratio, NULL));
  g_assert_false (ps_parse_percent ("--x", "%", 0, 100, &ratio, NULL));
  g_assert_false (ps_parse_percent ("--x", "5%%", 0, 100, &ratio, &error));
  assert_usage (&error, "--x: '5%%' is not a percentage from 0 to 100");
}

static void test_parse_name (void)
{
  static const char *const names[] = { "gpu", "node" };
  g_autoptr (GError) error = NULL;
  guint index = 7;

  g_assert_false (ps_parse_name ("--nic", "rack", names, G_N_ELEMENTS (names), &index, &error));
  g_assert_cmpuint (index, ==, 7);
  g_assert_cmpstr (error->message, ==, "--nic: 'rack' is not one of gpu, node");
  assert_usage (&error, "rack");
  g_assert_true (ps_parse_name ("--nic", "node", names, G_N_ELEMENTS (names), &index, &error));
  g_assert_cmpuint (index, ==, 1);
  g_assert_false (ps_parse_name ("--nic", "node", names, 1, &index, NULL));
}

/* Values whose difference does not fit, and such that a comparison as integers would hold equal. */
static void test_order (void)
{
  gint64 integers[] = { G_MAXINT64, 0, G_MININT64, -1 };
  double numbers[] = { 0.25, -1e300, 0.75, 1e300 };

  qsort (integers, 4, sizeof *integers, ps_compare_int64);
  qsort (numbers, 4, sizeof *numbers, ps_compare_double);
  g_assert_true (integers[0] == G_MININT64 && integers[1] == -1 && integers[2] == 0 && integers[3] == G_MAXINT64);
  g_assert_true (numbers[0] < numbers[1] && numbers[1] < numbers[2] && numbers[2] < numbers[3]);
}

static void test_files (void)
{
  GError *error = NULL;
  g_autofree char *path = path_of ("file"), *missing = path_of ("no/file");
  g_autofree char *text = NULL;
  gsize length;

  g_assert_true (ps_write_file (path, "first", -1, &error));
  g_assert_true (ps_write_file (path, "second\n", -1, &error));
  g_assert_true (ps_read_file (path, &text, &length, &error));
  g_assert_cmpstr (text, ==, "second\n");
  refused (ps_write_file (missing, "x", -1, &error), PS_ERROR_IO, "*/no/file: cannot create: *");
  refused (ps_write_file (folder, "x", -1, &error), PS_ERROR_IO, "*: cannot write: *");
  g_assert_false (ps_read_file (folder, &text, &length, &error));
  g_clear_error (&error);
  /* A database is not replaced by anything else; what only begins like its name is. */
  g_assert_true (ps_write_file (path, "SQLite format 3", 16, &error));
  g_assert_false (ps_write_file (path, "x", -1, &error));
  assert_error (&error, PS_ERROR_IO, "*/file: is a database, and is not overwritten");
  g_unlink (path);
  g_assert_true (ps_write_file (path, "SQLite", -1, &error));
  g_assert_true (ps_write_file (path, "x", -1, &error));
  if (g_file_test ("/dev/full", G_FILE_TEST_EXISTS)) {
    refused (ps_write_file ("/dev/full", "x", -1, &error), PS_ERROR_IO, "/dev/full: cannot write: *");
    g_assert_true (g_file_test ("/dev/full", G_FILE_TEST_EXISTS));
    g_clear_error (&error);
  }
  /* Nothing is left beside the file. */
  g_autoptr (GDir) listing = g_dir_open (folder, 0, NULL);
  g_assert_cmpstr (g_dir_read_name (listing), ==, "file");
  g_assert_null (g_dir_read_name (listing));
}

static void assert_file (const char *path, const char *expected, guint mode)
{
  g_autofree char *text = NULL;
  GStatBuf status;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_assert_cmpstr (text, ==, expected);
  g_assert_cmpint (g_lstat (path, &status), ==, 0);
  g_assert_true (S_ISREG (status.st_mode));
  g_assert_cmpuint (status.st_mode & 07777, ==, mode);
}

/* A file keeps its mode, and links keep leading to it, also where it comes to be only now. */
static void test_kept (void)
{
  g_autofree char *kept = path_of ("kept"), *inner = path_of ("kept/inner"), *file = path_of ("kept/inner/file");
  g_autofree char *link = path_of ("kept/link"), *second = path_of ("kept/second"), *circle = path_of ("kept/circle");

  g_assert_cmpint (g_mkdir_with_parents (inner, 0755), ==, 0);
  g_assert_cmpint (symlink ("inner/file", link), ==, 0);
  g_assert_cmpint (symlink (link, second), ==, 0);
  g_assert_cmpint (symlink ("circle", circle), ==, 0);
  mode_t mask = umask (027);
  g_assert_true (ps_write_file (second, "first", -1, NULL));
  umask (mask);
  assert_file (file, "first", 0640);
  g_assert_cmpint (g_chmod (file, 0604), ==, 0);
  g_assert_true (ps_write_file (link, "second", -1, NULL));
  assert_file (file, "second", 0604);
  g_assert_true (g_file_test (link, G_FILE_TEST_IS_SYMLINK) && g_file_test (second, G_FILE_TEST_IS_SYMLINK));
  refused (ps_write_file (circle, "x", -1, &error), PS_ERROR_IO, "*/circle: cannot write: *");
  remove_folder (kept);
}

static void terminate (G_GNUC_UNUSED int number)
{
  raise (SIGTERM);
}

/* The file size limit stops the write half-way, and its signal becomes the one to survive or to end by. */
static void test_ended (void)
{
  g_autofree char *ended = path_of ("ended"), *path = path_of ("ended/file"), *text = g_strnfill (8192, 'x');
  int status;

  g_assert_cmpint (g_mkdir (ended, 0755), ==, 0);
  g_assert_true (g_file_set_contents_full (path, "old", -1, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
  pid_t child = fork ();
  if (child == 0) {
    ps_catch_signals ();
    signal (SIGXFSZ, terminate);
    setrlimit (RLIMIT_FSIZE, &(struct rlimit){ 4096, 4096 });
    ps_write_file (path, text, -1, NULL);
    _exit (0);
  }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFSIGNALED (status) && WTERMSIG (status) == SIGTERM);
  assert_file (path, "old", 0600);
  g_autoptr (GDir) listing = g_dir_open (ended, 0, NULL);
  g_assert_nonnull (g_dir_read_name (listing));
  g_assert_null (g_dir_read_name (listing));
  remove_folder (ended);
}

static void test_median (void)
{
  gint64 odd[] = { 5, 1, 9 }, even[] = { 4, 1, 9, 6 };

  g_assert_cmpint (ps_median (odd, 3), ==, 5);
  g_assert_cmpint (ps_median (even, 4), ==, 4);
  g_assert_cmpint (ps_mean (even, 2), ==, 3); /* 2.5 */
}

/* A word of the command line that is no text is named with its option, whichever way it was given; any other error is
 * what it says, on one line. */
static void test_error_line (void)
{
  static const struct {
    const char *argv[4];
    GQuark domain;
    const char *line;
  } rows[] = { { { "p", "--model", "a\xff", NULL }, 1, "--model: 'a\\377' is not text in *" },
               { { "p", "--model=a\xff", "x", NULL }, 1, "--model: 'a\\377' is not text in *" },
               { { "p", "x", "a=\xff", NULL }, 1, "x: 'a=\\377' is not text in *" },
               { { "p", "\xff", "\xfe", NULL }, 1, "p: '\\377' is not text in *" },
               { { "p", "--model", "a\xff", NULL }, 0, "one two" },
               { { "p", "--model", "a", NULL }, 1, "one two" },
               { { "p", NULL }, 1, "one two" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (GError) error = g_error_new_literal (rows[i].domain ? G_CONVERT_ERROR : PS_ERROR, 0, "one\ntwo");
    g_autofree char *line = ps_error_line (error, (char *const *)rows[i].argv);

    if (!g_pattern_match_simple (rows[i].line, line))
      g_assert_cmpstr (line, ==, rows[i].line);
  }
}

/* Each unit begins at its value; what would round up to 1000 of a smaller unit of rates and numbers is 1 of the next.
 */
static void test_units (void)
{
  static const struct {
    char kind;
    double value;
    const char *text;
  } rows[] = {
    { 't', 999, "999 ns" },        { 't', 1000, "1 us" },
    { 't', 999999, "1000 us" },    { 't', 1e6, "1 ms" },
    { 't', 999999999, "1000 ms" }, { 't', 1e9, "1 s" },
    { 't', -1000, "-1 us" },       { 't', 1e13, "10000 s" },
    { 's', 1023, "1023 B" },       { 's', 1024, "1 KiB" },
    { 's', 1048575, "1024 KiB" },  { 's', 1048576, "1 MiB" },
    { 's', 1.0e15, "909.5 TiB" },  { 's', 1125899906842624., "1 PiB" },
    { 's', -2048, "-2 KiB" },      { 's', 1152921504606846976., "1024 PiB" },
    { 'r', 999.94, "999.9 B/s" },  { 'r', 999.95, "1 kB/s" },
    { 'r', 25e9, "25 GB/s" },      { 'r', 1.5e12, "1.5 TB/s" },
    { 'r', 1e18, "1000 PB/s" },    { 'r', 12.34e6, "12.34 MB/s" },
    { 'n', 9999, "9999" },         { 'n', 10000, "10 k" },
    { 'n', 999949, "999.9 k" },    { 'n', 999950, "1 M" },
    { 'n', 0.5, "0.5" },           { 'n', -2e6, "-2 M" },
    { 'n', 44.0 / 9, "4.889" },    { 'n', 0.015625, "0.015625" },
    { 'n', 1e22, "10000 E" },      { 'n', 3.125e15, "3.125 P" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    double value = rows[i].value;

    assert_text (rows[i].kind == 't'   ? ps_format_time ((gint64)value)
                 : rows[i].kind == 's' ? ps_format_size ((gint64)value)
                 : rows[i].kind == 'r' ? ps_format_rate (value)
                                       : ps_format_number (value),
                 rows[i].text);
  }
}

/* A page keeps its line ends; a coloured one also what sets colours, and no other sequence of a terminal. */
static void test_pages (void)
{
  static const char text[] = "\033[1;31ma\033[0m\n\033[2Jb\033[31\033\tc";

  assert_text (ps_format_page (text, FALSE), " [1;31ma [0m\n [2Jb [31 \tc");
  assert_text (ps_format_page (text, TRUE), "\033[1;31ma\033[0m\n [2Jb [31 \tc");
  assert_text (ps_format_page ("\033[m", TRUE), "\033[m");
}

/* One letter in three may be wrong, and one more: dropped, put in, taken for another or for its neighbour. A beginning
 * of three letters is enough. The shortest name that begins so is meant, else the first of the closest names. A wrong
 * first letter counts twice where it is not the only mistake. */
static void test_meant (void)
{
  static const char *const names[]
      = { "interleaved", "1f1b", "zb-h1", "zb-h2", "gpipe", "deep", "report", "costs-from", "costs" };
  static const struct {
    const char *text, *meant;
  } rows[] = { { "gpip", "; did you mean --gpipe?" },
               { "gpiipe", "; did you mean --gpipe?" },
               { "gpipr", "; did you mean --gpipe?" },
               { "gppie", "; did you mean --gpipe?" },
               { "pgpie", "" },
               { "gp", "" },
               { "gpi", "; did you mean --gpipe?" },
               { "int", "; did you mean --interleaved?" },
               { "ntrlavd", "" },
               { "ntrleaved", "; did you mean --interleaved?" },
               { "zb-h3", "; did you mean --zb-h1?" },
               { "zb", "" },
               { "1f1", "; did you mean --1f1b?" },
               { "f1b", "; did you mean --1f1b?" },
               { "xf1b", "; did you mean --1f1b?" },
               { "pdee", "" },
               { "depe", "; did you mean --deep?" },
               { "", "" },
               { "eedp", "" },
               { "cost", "; did you mean --costs?" },
               { "costs-", "; did you mean --costs-from?" },
               { "reprt", "; did you mean --report?" },
               { "import", "" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    assert_text (ps_did_you_mean (rows[i].text, names, G_N_ELEMENTS (names), "--"), rows[i].meant);
}

/* Tests of text.h: what is no text, and what messages show of it. */

static void check (const char *text, gsize length, gsize max_length, const char *message)
{
  g_autoptr (GError) error = NULL;
  gboolean ok = ps_text_check ("x.ini", text, length, max_length, &error);

  g_assert_true (ok == (message == NULL));
  if (ok)
    return;
  assert_error (&error, PS_ERROR_INPUT, message);
}

static void test_check (void)
{
  check ("\xc3\xa4 = 1\n", 7, 7, NULL);
  check ("", 0, 7, "x.ini: is empty");
  check ("123456789", 9, 8, "x.ini: is too long, more than 8 B");
  check ("a\0b", 3, 7, "x.ini: is not a text file (it contains NUL bytes)");
  check ("a\xc3", 2, 7, "x.ini: is not UTF-8 text");
}

/* A newline takes two characters; 60 are shown, and of more the first 60. */
static void test_quote (void)
{
  g_autofree char *fits = g_strnfill (60, 'a'), *longer = g_strnfill (61, 'a');
  g_autofree char *whole = g_strdup_printf ("'%s'", fits), *part = g_strdup_printf ("'%s...'", fits);
  g_autofree char *of_fits = ps_text_quote (fits), *of_longer = ps_text_quote (longer);
  g_autofree char *of_lines = ps_text_quote ("a\nb\x01");

  g_assert_cmpstr (of_fits, ==, whole);
  g_assert_cmpstr (of_longer, ==, part);
  g_assert_cmpstr (of_lines, ==, "'a\\nb\\001'");
}

static void test_blame_input (void)
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
static void test_wrap (void)
{
  static const struct {
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

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (GString) page = g_string_new ("page\n");
    g_autofree char *expected = g_strconcat ("page\n", rows[i].expected, NULL);

    ps_text_wrap (rows[i].text, 12, page);
    g_assert_cmpstr (page->str, ==, expected);
  }
}

/* A page has the words of its text in their order, and no line that is too long where every word is short. */
static void test_wrap_words (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);

  for (guint i = 0; i < 200; i++) {
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

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/base/times", test_times);
  g_test_add_func ("/base/sizes", test_sizes);
  g_test_add_func ("/base/tokens", test_tokens);
  g_test_add_func ("/base/rates", test_rates);
  g_test_add_func ("/base/integers", test_integers);
  g_test_add_func ("/base/formats", test_formats);
  g_test_add_func ("/base/lines", test_lines);
  g_test_add_func ("/base/names", test_names);
  g_test_add_func ("/base/exit-codes", test_exit_codes);
  g_test_add_func ("/base/numbers", test_numbers);
  g_test_add_func ("/base/percentages", test_percentages);
  g_test_add_func ("/base/parse-name", test_parse_name);
  g_test_add_func ("/base/order", test_order);
  g_test_add_func ("/base/files", test_files);
  g_test_add_func ("/base/files/kept", test_kept);
  g_test_add_func ("/base/files/ended", test_ended);
  g_test_add_func ("/base/median", test_median);
  g_test_add_func ("/base/error-line", test_error_line);
  g_test_add_func ("/base/units", test_units);
  g_test_add_func ("/base/pages", test_pages);
  g_test_add_func ("/base/meant", test_meant);
  g_test_add_func ("/text/check", test_check);
  g_test_add_func ("/text/quote", test_quote);
  g_test_add_func ("/text/blame-input", test_blame_input);
  g_test_add_func ("/text/wrap", test_wrap);
  g_test_add_func ("/text/wrap-words", test_wrap_words);
  return run_in_folder ();
}

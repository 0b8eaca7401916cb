/* Tests of plan/expect.h: files of predictions, what is written and read, and what counts as a move. */
#include "error-rig.h"

#include "plan/expect.h"

#include <math.h>
#include <string.h>

static GPtrArray *make (const char *command, gint64 m, gint64 iteration_ns, gint64 peak, const char *fits)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = g_strdup_printf (
      "{\"format\": \"pipesim-expect/1\", \"results\": [{\"command\": \"%s\", \"schedule\": \"1f1b\", \"devices\": 4, "
      "\"microbatches\": %d, \"chunks\": 1, \"iteration_ns\": %d, \"peak_memory_bytes\": %d, \"fits\": \"%s\", "
      "\"tolerance\": 0.02}]}",
      command, (int)m, (int)iteration_ns, (int)peak, fits);
  GPtrArray *rows = ps_expected_parse ("x", text, -1, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (rows->len, ==, 1);
  return rows;
}

/* Moves beyond the tolerance: |now - before| > before * tolerance, either way. */
static guint beyond (gint64 before, gint64 now, gint64 peak_now, const char *fits_now, double tolerance)
{
  static char *const commands[] = { (char *)"-s 1f1b", NULL };
  g_autoptr (GPtrArray) file = make ("-s 1f1b", 8, before, 1000, "yes"),
                        rows = make ("-s 1f1b", 8, now, peak_now, fits_now);
  PsMoves moves = { 0 }, again = { 0 };
  g_autoptr (PsTable) table = ps_expected_compare (file, rows, commands, tolerance, TRUE, &moves);
  g_autoptr (PsTable) few = ps_expected_compare (file, rows, commands, tolerance, FALSE, &again);

  g_assert_cmpuint (ps_table_n_rows (few), ==, moves.n_beyond);
  g_assert_cmpuint (ps_table_n_rows (table), ==, moves.n_beyond + moves.n_within);

  g_assert_cmpuint (ps_table_n_rows (table), ==, (before != now) + (peak_now != 1000) + !g_str_equal (fits_now, "yes"));
  return moves.n_beyond;
}

static void test_tolerance (void)
{
  g_assert_cmpuint (beyond (100000, 100000, 1000, "yes", -1), ==, 0);
  g_assert_cmpuint (beyond (100000, 102000, 1000, "yes", -1), ==, 0);
  g_assert_cmpuint (beyond (100000, 102001, 1000, "yes", -1), ==, 1);
  g_assert_cmpuint (beyond (100000, 98000, 1000, "yes", -1), ==, 0);
  g_assert_cmpuint (beyond (100000, 97999, 1000, "yes", -1), ==, 1);
  g_assert_cmpuint (beyond (100000, 104000, 1000, "yes", 0.04), ==, 0);
  g_assert_cmpuint (beyond (100000, 100001, 1000, "yes", 0), ==, 1);
  g_assert_cmpuint (beyond (100000, 97999, 1021, "no", -1), ==, 3);
  g_assert_cmpuint (beyond (0, 1, 1000, "yes", -1), ==, 1);
}

/* A row that is no longer predicted is a move; one of another command line is none. */
static void test_gone (void)
{
  static char *const commands[] = { (char *)"-s 1f1b", NULL }, *const others[] = { (char *)"-s gpipe", NULL };
  g_autoptr (GPtrArray) file = make ("-s 1f1b", 8, 1, 1, "yes"), rows = make ("-s 1f1b", 16, 1, 1, "yes");
  PsMoves moves = { 0 };
  g_autoptr (PsTable) gone = ps_expected_compare (file, rows, commands, -1, TRUE, &moves);

  g_assert_nonnull (gone);
  g_assert_cmpuint (moves.n_beyond, ==, 1);
  g_autoptr (PsTable) none = ps_expected_compare (file, rows, others, -1, TRUE, &moves);
  g_assert_nonnull (none);
  g_assert_cmpuint (moves.n_beyond, ==, 1);
  g_assert_true (ps_expected_holds (file, commands) && !ps_expected_holds (file, others));
}

/* The only row of a command line is compared with the only one of now: a changed file changes m, p or v. */
static void test_setting (void)
{
  static char *const commands[] = { (char *)"-s 1f1b", NULL };
  g_autoptr (GPtrArray) file = make ("-s 1f1b", 8, 1000, 1, "yes"), rows = make ("-s 1f1b", 16, 2000, 1, "yes");
  g_autoptr (GPtrArray) more = make ("-s 1f1b", 32, 3000, 1, "yes");
  PsMoves moves = { 0 }, apart = { 0 };
  g_autoptr (PsTable) table = ps_expected_compare (file, rows, commands, -1, FALSE, &moves);
  g_autofree char *text = ps_table_to_text (table);

  g_assert_cmpuint (moves.n_beyond, ==, 2);
  g_assert_nonnull (strstr (text, "+100.00 %"));
  g_assert_null (strstr (text, "not predicted"));
  g_ptr_array_add (rows, g_ptr_array_steal_index (more, 0));
  g_autoptr (PsTable) two = ps_expected_compare (file, rows, commands, -1, FALSE, &apart);
  g_autofree char *gone = ps_table_to_text (two);
  g_assert_cmpuint (apart.n_beyond, ==, 1);
  g_assert_nonnull (strstr (gone, "not predicted"));
}

/* New figures keep the row's place and tolerance; rows of other command lines stay. */
static void test_update (void)
{
  static char *const commands[] = { (char *)"-s 1f1b", NULL };
  g_autoptr (GPtrArray) file = make ("-s 1f1b", 8, 10, 1, "yes"), gone = make ("-s 1f1b", 32, 10, 1, "yes");
  g_autoptr (GPtrArray) other = make ("-s gpipe", 8, 30, 1, "no");
  g_autoptr (GPtrArray) rows = make ("-s 1f1b", 8, 20, 1, "yes"), more = make ("-s 1f1b", 16, 40, 1, "yes");

  ((PsExpected *)file->pdata[0])->tolerance = 0.5;
  g_ptr_array_add (file, g_ptr_array_steal_index (gone, 0));
  g_ptr_array_add (file, g_ptr_array_steal_index (other, 0));
  g_ptr_array_add (rows, g_ptr_array_steal_index (more, 0));
  ps_expected_update (file, rows, commands, -1);
  g_assert_cmpuint (file->len, ==, 3);
  const PsExpected *first = file->pdata[0], *second = file->pdata[1], *third = file->pdata[2];
  g_assert_cmpint (first->iteration_ns, ==, 20);
  g_assert_cmpfloat (first->tolerance, ==, 0.5);
  g_assert_cmpstr (second->command, ==, "-s gpipe");
  g_assert_cmpint (third->n_microbatches, ==, 16);
  g_assert_cmpfloat (third->tolerance, ==, PS_EXPECT_TOLERANCE);
  g_auto (GStrv) lines = ps_expected_commands (file);
  g_assert_cmpuint (g_strv_length (lines), ==, 2);
}

static void test_command (void)
{
  static const struct {
    const char *line, *command;
  } rows[] = {
    { "-s 1f1b -p 4", "-s 1f1b -p 4" },
    { "-s 1f1b --expect ci.json -p 4 --update", "-s 1f1b -p 4" },
    { "--expect=ci.json --tolerance 3 -s 1f1b --json", "-s 1f1b" },
    { "--tolerance=3 --expect ci.json", "" },
    { "--layout 'Et|tL' --costs f=1ms,bw=2ms --model ''", "--layout 'Et|tL' --costs f=1ms,bw=2ms --model ''" },
    { "--expected x", "--expected x" },
    { "-s 1f1b --expect", "-s 1f1b" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_auto (GStrv) words = NULL;

    g_assert_true (g_shell_parse_argv (rows[i].line, NULL, &words, NULL));
    g_autofree char *command = ps_expected_command (words);
    g_assert_cmpstr (command, ==, rows[i].command);
  }
}

static void test_round_trip (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) rows = make ("-s 1f1b --layout 'Et|tL'", 8, 123456789, 4096, "tight");
  g_autofree char *text = ps_expected_to_json (rows);
  g_autoptr (GPtrArray) again = ps_expected_parse ("again", text, -1, &error);
  g_autofree char *twice = again != NULL ? ps_expected_to_json (again) : NULL;

  g_assert_no_error (error);
  g_assert_cmpstr (text, ==, twice);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/expect/tolerance", test_tolerance);
  g_test_add_func ("/expect/gone", test_gone);
  g_test_add_func ("/expect/setting", test_setting);
  g_test_add_func ("/expect/update", test_update);
  g_test_add_func ("/expect/command", test_command);
  g_test_add_func ("/expect/round-trip", test_round_trip);
  return g_test_run ();
}

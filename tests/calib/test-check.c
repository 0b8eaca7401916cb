/* test-check.c - figures of a check, from runs made up. */
#include "check.h"

#include <math.h>

#define N 6

/* Two rounds of three schedules: predicted 100, 110 and 120. The second round has two of them the other way around, and
 * was not quiet. */
static GArray *make_runs (void)
{
  static const gint64 measured[N] = { 100, 100, 150, 110, 100, 120 }, fresh[N] = { 100, 102, 150, 110, 101, 120 };
  GArray *runs = g_array_new (FALSE, FALSE, sizeof (PsCheckRun));

  for (guint i = 0; i < N; i++) {
    gint64 predicted = 100 + 10 * (i % 3);
    PsCheckRun run = { .schedule = (char *)"a",
                       .n_microbatches = 4,
                       .n_chunks = 1,
                       .round = 1 + i / 3,
                       .predicted_ns = predicted,
                       .interval = { .low_ns = predicted - 15,
                                     .p10_ns = predicted - 5,
                                     .p50_ns = predicted,
                                     .p90_ns = predicted + 5,
                                     .high_ns = predicted + 15 },
                       .measured_ns = measured[i],
                       .fresh_ns = fresh[i],
                       .replay_error = i % 2 ? -0.01 : 0.02,
                       .op_error = 0.05,
                       .memory_error = i == 0 ? NAN : -0.5,
                       .shift = i < 3 ? 0.01 : 0.5,
                       .others = i == 2 ? NAN : 0.01,
                       .slowdown = { i == 2   ? NAN
                                     : i == 1 ? 0.91
                                              : 1,
                                     0 } };

    g_array_append_val (runs, run);
  }
  return runs;
}

static double figure (const PsCheckSummary *summary, const char *key)
{
  guint i = 0;

  while (!g_str_equal (ps_check_figures[i].key, key))
    i++;
  return summary->figure[i];
}

static void test_all (void)
{
  g_autoptr (GArray) runs = make_runs ();
  PsCheckSummary summary;

  ps_check_summary_init (&summary, runs, FALSE);
  g_assert_cmpuint (summary.n_runs, ==, N);
  /* |errors|: 0, 0.1, 0.2, 0.0909, 0.1, 0 */
  g_assert_cmpfloat_with_epsilon (figure (&summary, "error"), 10.0 / 110, 1e-12);
  g_assert_cmpfloat_with_epsilon (figure (&summary, "error_p95"), 0.2, 1e-12);
  g_assert_cmpfloat_with_epsilon (figure (&summary, "fresh_error"), 0, 1e-12);
  g_assert_cmpfloat_with_epsilon (figure (&summary, "fresh_total"), 683.0 / 680 - 1, 1e-12);
  g_assert_cmpfloat (figure (&summary, "replay_error"), ==, 0.01);
  g_assert_cmpfloat (figure (&summary, "op_error"), ==, 0.05);
  g_assert_cmpfloat (figure (&summary, "memory_error"), ==, 0.5);
  g_assert_cmpfloat_with_epsilon (figure (&summary, "coverage"), 2.0 / N, 1e-12);
  g_assert_cmpfloat_with_epsilon (figure (&summary, "coverage_wide"), 5.0 / N, 1e-12);
  /* Times the slowdown, 0.91 for one: 0, 0.001, 0.0909, 0.1, 0 of the five that have it; two of them inside before,
   * three now */
  g_assert_cmpfloat_with_epsilon (figure (&summary, "slowdown_error"), 0.001, 1e-12);
  g_assert_cmpfloat_with_epsilon (figure (&summary, "coverage_slowdown"), 3.0 / 5, 1e-12);
  /* Round 1: two pairs agree, one is a tie: 2 / sqrt (3 * 2). Round 2: two agree, one does not: 1 / 3. */
  g_assert_cmpfloat_with_epsilon (figure (&summary, "rank"), (2 / sqrt (6) + 1.0 / 3) / 2, 1e-12);
  /* Nothing lost in round 1, a tenth in round 2; the lower median. */
  g_assert_cmpfloat (figure (&summary, "regret"), ==, 0);
}

static void test_quiet (void)
{
  g_autoptr (GArray) runs = make_runs ();
  PsCheckSummary summary;

  g_array_index (runs, PsCheckRun, 1).others = 0.2;
  ps_check_summary_init (&summary, runs, TRUE);
  g_assert_cmpuint (summary.n_runs, ==, 2);
  g_assert_cmpfloat (figure (&summary, "error"), ==, 0);
  g_assert_cmpfloat (figure (&summary, "rank"), ==, 1);
  g_array_index (runs, PsCheckRun, 0).shift = NAN;
  g_array_index (runs, PsCheckRun, 2).shift = 0.04;
  ps_check_summary_init (&summary, runs, TRUE);
  g_assert_cmpuint (summary.n_runs, ==, 0);
  g_assert_true (isnan (figure (&summary, "error")) && isnan (figure (&summary, "coverage"))
                 && isnan (figure (&summary, "rank")) && isnan (figure (&summary, "regret")));
}

/* Runs of other rounds, and with other numbers of microbatches, are not compared. */
static void test_beside (void)
{
  g_autoptr (GArray) runs = make_runs ();
  PsCheckSummary summary;

  for (guint i = 0; i < N; i++)
    g_array_index (runs, PsCheckRun, i).n_microbatches = i;
  ps_check_summary_init (&summary, runs, FALSE);
  g_assert_true (isnan (figure (&summary, "rank")) && isnan (figure (&summary, "regret")));
  g_array_set_size (runs, 5);
  for (guint i = 0; i < 5; i++)
    g_array_index (runs, PsCheckRun, i).n_microbatches = 4;
  ps_check_summary_init (&summary, runs, FALSE);
  g_assert_cmpfloat_with_epsilon (figure (&summary, "rank"), (2 / sqrt (6) - 1) / 2, 1e-12);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/check/all", test_all);
  g_test_add_func ("/check/quiet", test_quiet);
  g_test_add_func ("/check/beside", test_beside);
  return g_test_run ();
}

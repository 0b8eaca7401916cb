/* Tests of observe.h and of pipesim compare, on two timelines whose differences were made by hand:
 *
 *   op      predicted  measured       op      predicted  measured
 *   F0.0       10         20          F0.1       10         10
 *   B0.0       10          8          B0.1       10         10
 *   W0.0        5          5          W0.1        5          4
 *   all other durations agree, but W1.1 takes 5 predicted and 0 measured. */
#include "cli.h"
#include "error-rig.h"

#include <pipesim/observe.h>
#include <pipesim/formats.h>

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

static char *fixture_path (const char *name)
{
  return g_test_build_filename (G_TEST_DIST, "fixtures", name, NULL);
}

static PsTimeline *read_fixture (const char *name)
{
  g_autofree char *path = fixture_path (name);

  return fine (ps_timeline_load (path, &error));
}

static PsComparison *compare_fixtures (void)
{
  g_autoptr (PsTimeline) predicted = read_fixture ("timeline-predicted.json");
  g_autoptr (PsTimeline) measured = read_fixture ("timeline-measured.json");

  return fine (ps_compare (predicted, measured, &error));
}

static void check_kind (const struct PsKindError *kind, guint n, gint64 predicted_ns, gint64 measured_ns, double median)
{
  g_assert_cmpuint (kind->n, ==, n);
  g_assert_cmpint (kind->predicted_ns, ==, predicted_ns);
  g_assert_cmpint (kind->measured_ns, ==, measured_ns);
  g_assert_cmpfloat (kind->error, ==, (double)(predicted_ns - measured_ns) / (double)measured_ns);
  g_assert_cmpfloat (kind->median_abs_error, ==, median);
}

static void test_figures (void)
{
  g_autoptr (PsComparison) comparison = compare_fixtures ();

  /* Iteration 80 against 100. Work: 2 * 50 predicted; measured 20+10+8+5+10+5 = 58 and 10+10+4+10+10+0 = 44. Peak 1200
   * against 1600. */
  g_assert_cmpfloat (comparison->iteration_error, ==, -0.2);
  g_assert_cmpfloat_with_epsilon (comparison->predicted.bubble_ratio, 1 - 50.0 / 80, 1e-15);
  g_assert_cmpfloat_with_epsilon (comparison->measured.bubble_ratio, 1 - 51.0 / 100, 1e-15);
  g_assert_cmpfloat_with_epsilon (comparison->bubble_difference, 0.375 - 0.49, 1e-15);
  g_assert_cmpfloat (comparison->peak_memory_error, ==, -0.25);
  /* O is no work: the measured makespan ends with W1.0 at 90. */
  g_assert_cmpint (comparison->measured.makespan_ns, ==, 90);

  /* F: relative errors 0.5 0 0 0; the lower middle one is 0. */
  check_kind (&comparison->kind[PS_OP_F], 4, 40, 50, 0);
  /* B: 0.25 0 0 0. */
  check_kind (&comparison->kind[PS_OP_B], 4, 40, 38, 0);
  /* W: 0 (W0.0), 0 (W1.0), 0.25 (W0.1), and W1.1 has no relative error. */
  check_kind (&comparison->kind[PS_OP_W], 4, 20, 14, 0);
  g_assert_cmpuint (comparison->kind[PS_OP_O].n, ==, 0);
  g_assert_true (isnan (comparison->kind[PS_OP_O].error));
  /* Transfers 2 2 2 2 against 2 4 1 3: 0, 1/2, 1, 1/3; sorted 0 1/3 1/2 1. */
  check_kind (&comparison->transfer, 4, 8, 10, 1.0 / 3);
}

static void test_worst (void)
{
  static const char *const expected[] = { "F0.0", "W1.1", "B0.0", "W0.1" };
  g_autoptr (PsComparison) comparison = compare_fixtures ();
  const PsOpDifference *first = &g_array_index (comparison->ops, PsOpDifference, 0);
  char name[48];

  /* Differences 10, 5, 2, 1, then none. */
  g_assert_cmpuint (comparison->ops->len, ==, 12);
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    g_assert_cmpstr (ps_op_format (g_array_index (comparison->ops, PsOpDifference, i).op, name), ==, expected[i]);
  g_assert_cmpint (first->predicted_ns, ==, 10);
  g_assert_cmpint (first->measured_ns, ==, 20);
  first = &g_array_index (comparison->ops, PsOpDifference, 1);
  g_assert_cmpuint (first->device, ==, 1);
  g_assert_cmpint (first->predicted_start_ns, ==, 57);
  g_assert_cmpint (first->measured_start_ns, ==, 66);
}

static void test_text (void)
{
  g_autoptr (PsComparison) comparison = compare_fixtures ();
  g_autofree char *text = ps_comparison_to_text (comparison, 2, NULL, NULL);

  g_assert_cmpstr (text, ==,
                   "error = (predicted - measured) / measured; of ratios: predicted - measured\n"
                   "\n"
                   "figure                       predicted (simulated)  measured   error\n"
                   "iteration                    80 ns                  100 ns     -20.00 %\n"
                   "makespan                     74 ns                  90 ns      -17.78 %\n"
                   "longest span                 74 ns                  90 ns      -17.78 %\n"
                   "bubble of iteration          0.3750                 0.4900     -0.1150\n"
                   "bubble of span               0.3243                 0.4333     -0.1090\n"
                   "peak memory without buffers  1.172 KiB              1.562 KiB  -25.00 %\n"
                   "\n"
                   "op kind   ops  predicted sum  measured sum  error of sums  median |error|\n"
                   "F           4          40 ns         50 ns       -20.00 %         +0.00 %\n"
                   "B           4          40 ns         38 ns        +5.26 %         +0.00 %\n"
                   "W           4          20 ns         14 ns       +42.86 %         +0.00 %\n"
                   "transfer    4           8 ns         10 ns       -20.00 %        +33.33 %\n"
                   "\n"
                   "2 worst of 12 ops, by difference of duration\n"
                   "op    device  predicted  measured  difference     error  predicted start  measured start\n"
                   "F0.0       0      10 ns     20 ns      -10 ns  -50.00 %             0 ns            0 ns\n"
                   "W1.1       1       5 ns      0 ns        5 ns         -            57 ns           66 ns\n");
}

static void test_unknown_memory (void)
{
  g_autoptr (PsTimeline) predicted = read_fixture ("timeline-predicted.json");
  g_autoptr (PsTimeline) measured = read_fixture ("timeline-measured.json");
  g_autofree char *text = NULL, *json = NULL;

  g_array_set_size (predicted->memory, 0);
  g_autoptr (PsComparison) comparison = ps_compare (predicted, measured, NULL);
  g_assert_true (isnan (comparison->peak_memory_error));
  text = ps_comparison_to_text (comparison, 0, NULL, NULL);
  g_assert_nonnull (strstr (text, "peak memory without buffers  not known"));
  g_assert_null (strstr (text, "worst"));
  json = ps_comparison_to_json (comparison, 0);
  g_assert_nonnull (strstr (json, "\"predicted_peak_memory_bytes\": null,"));
  g_assert_nonnull (strstr (json, "\"measured_peak_memory_bytes\": 1600,"));
  g_assert_nonnull (strstr (json, "\"peak_memory_error\": null,"));
}

/* The measured iteration takes 100 ns. Files of both formats keep the interval; see test-trace.c for the other one. */
static void test_interval (void)
{
  const struct {
    PsInterval interval;
    const char *place;
    gboolean inside;

  } cases[] = {
    { { .low_ns = 70, .p10_ns = 90, .p50_ns = 95, .p90_ns = 100, .high_ns = 120 }, "this one lies inside", TRUE },
    { { .low_ns = 70, .p10_ns = 100, .p50_ns = 105, .p90_ns = 110, .high_ns = 120 }, "this one lies inside", TRUE },
    { { .low_ns = 70, .p10_ns = 80, .p50_ns = 90, .p90_ns = 99, .high_ns = 120 }, "this one lies above it", FALSE },
    { { .low_ns = 70, .p10_ns = 101, .p50_ns = 105, .p90_ns = 110, .high_ns = 120 }, "this one lies below it", FALSE }
  };
  g_autoptr (PsTimeline) measured = read_fixture ("timeline-measured.json");

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (PsTimeline) first = read_fixture ("timeline-predicted.json");

    first->interval = cases[i].interval;
    g_autofree char *file = ps_timeline_to_json (first);
    g_autoptr (PsTimeline) predicted = fine (ps_timeline_parse_json ("f.json", file, -1, &error));
    g_autoptr (PsComparison) comparison = fine (ps_compare (predicted, measured, &error));
    g_autofree char *text = ps_comparison_to_text (comparison, 0, NULL, NULL),
                    *json = ps_comparison_to_json (comparison, 0);
    g_assert_nonnull (strstr (text, cases[i].place));
    g_assert_nonnull (strstr (json, cases[i].inside ? "\"inside_interval\": true" : "\"inside_interval\": false"));
    g_assert_cmpint (comparison->interval.p10_ns, ==, cases[i].interval.p10_ns);
    g_assert_cmpint (comparison->interval.p90_ns, ==, cases[i].interval.p90_ns);
  }
}

static void test_json (void)
{
  g_autoptr (PsComparison) comparison = compare_fixtures ();
  g_autofree char *json = ps_comparison_to_json (comparison, 3);
  g_autoptr (JsonParser) parser = json_parser_new ();

  fine (json_parser_load_from_data (parser, json, -1, &error));
  JsonObject *object = json_node_get_object (json_parser_get_root (parser));
  g_assert_cmpstr (json_object_get_string_member (object, "format"), ==, "pipesim-comparison/1");
  object = json_array_get_object_element (json_object_get_array_member (object, "results"), 0);
  g_assert_cmpint (json_object_get_int_member (object, "predicted_iteration_ns"), ==, 80);
  g_assert_cmpint (json_object_get_int_member (object, "measured_iteration_ns"), ==, 100);
  g_assert_cmpfloat (json_object_get_double_member (object, "iteration_error"), ==, -0.2);
  g_assert_cmpfloat (json_object_get_double_member (object, "bubble_difference"), ==, comparison->bubble_difference);
  JsonArray *array = json_object_get_array_member (object, "kinds");
  g_assert_cmpuint (json_array_get_length (array), ==, 4); /* F, B, W, transfer */
  g_assert_cmpstr (json_object_get_string_member (json_array_get_object_element (array, 3), "kind"), ==, "transfer");
  array = json_object_get_array_member (object, "worst_ops");
  g_assert_cmpuint (json_array_get_length (array), ==, 3);
  object = json_array_get_object_element (array, 1);
  g_assert_cmpstr (json_object_get_string_member (object, "op"), ==, "W1.1");
  g_assert_cmpint (json_object_get_int_member (object, "difference_ns"), ==, 5);
  g_assert_true (json_object_get_null_member (object, "error"));
}

static void check_refused (const PsTimeline *predicted, const PsTimeline *measured, const char *message)
{
  refused (ps_compare (predicted, measured, &error), PS_ERROR_INPUT, message);
}

static void test_refusals (void)
{
  g_autoptr (PsTimeline) predicted = read_fixture ("timeline-predicted.json");
  g_autoptr (PsTimeline) measured = read_fixture ("timeline-measured.json");
  PsSpan *span = &g_array_index (measured->ops, PsSpan, 1);
  PsSpan kept = *span;

  check_refused (measured, predicted,
                 "timelines: the first is measured and the second is simulated; the simulated one comes first");
  predicted->n_stages = 4;
  check_refused (predicted, measured, "timelines: predicted with 4 stages, measured with 2");
  predicted->n_devices = 3;
  check_refused (predicted, measured, "timelines: predicted with 3 devices, measured with 2");
  predicted->n_devices = predicted->n_stages = 2;
  measured->n_microbatches = 8;
  check_refused (predicted, measured, "timelines: predicted with 2 microbatches, measured with 8");
  measured->n_microbatches = 2;
  span->op.kind = PS_OP_R;
  check_refused (predicted, measured, "device 0: only the predicted timeline has F1.0");
  *span = kept;
  span->op.microbatch = 0;
  check_refused (predicted, measured, "device 0: the measured timeline has F0.0 twice");
  *span = kept;
  g_array_remove_index (predicted->ops, 1);
  check_refused (predicted, measured, "device 0: only the measured timeline has F1.0");
}

/* Two predictions, of which the second is of a schedule with one op less on device 0 and another in its place: what
 * only one has is counted, and nothing is called measured. */
static void test_alike (void)
{
  g_autoptr (PsTimeline) first = read_fixture ("timeline-predicted.json");
  g_autoptr (PsTimeline) second = read_fixture ("timeline-predicted.json");
  g_autofree char *text = NULL, *json = NULL;

  g_free (second->schedule);
  second->schedule = g_strdup ("other");
  second->iteration_ns = 100;
  g_array_index (second->ops, PsSpan, 1).op.kind = PS_OP_R;
  g_autoptr (PsComparison) comparison = fine (ps_compare (first, second, &error));
  g_assert_cmpuint (comparison->ops->len, ==, 11);
  text = ps_comparison_to_text (comparison, 1, NULL, NULL);
  g_assert_true (g_str_has_prefix (text, "first: two by two; second: other\n"
                                         "deviation = (first - second) / second; of ratios: first - second\n"
                                         "ops that only one has are not compared: 1 of the first, 1 of the second\n"
                                         "\n"
                                         "figure               first (simulated)  second (simulated)  deviation\n"
                                         "iteration            80 ns              100 ns              -20.00 %\n"));
  g_assert_null (strstr (text, "measured"));
  g_assert_null (strstr (text, "error"));
  json = ps_comparison_to_json (comparison, 1);
  g_assert_nonnull (strstr (json, "\"origin\": \"simulated\""));
  g_assert_nonnull (strstr (json, "\"first_iteration_ns\": 80,"));
  g_assert_nonnull (strstr (json, "\"iteration_deviation\": -0.2"));
  g_assert_nonnull (strstr (json, "\"second_only_ops\": 1"));
  g_assert_null (strstr (json, "measured"));
}

/* F0.0 of the first of two stages is not F0.0 of the first of three: no op is compared. */
static void test_apart (void)
{
  g_autoptr (PsTimeline) first = read_fixture ("timeline-predicted.json");
  g_autoptr (PsTimeline) second = read_fixture ("timeline-predicted.json");
  g_autofree char *text = NULL;

  second->n_stages++;
  g_autoptr (PsComparison) comparison = fine (ps_compare (first, second, &error));
  g_assert_true (comparison->apart);
  g_assert_cmpuint (comparison->ops->len, ==, 0);
  g_assert_cmpuint (comparison->transfer.n, ==, 0);
  g_assert_cmpuint (comparison->n_only[0], ==, first->ops->len);
  text = ps_comparison_to_text (comparison, 1, NULL, NULL);
  g_assert_nonnull (strstr (text, "so that no op of one is an op of the other\n"));
  g_assert_null (strstr (text, "op kind"));
}

/* Two runs are no predictions. */
static void test_alike_measured (void)
{
  g_autoptr (PsTimeline) run = read_fixture ("timeline-measured.json");
  g_autoptr (PsComparison) comparison = ps_compare (run, run, NULL);
  g_autofree char *text = ps_comparison_to_text (comparison, 0, NULL, NULL);

  g_assert_nonnull (strstr (text, "first (measured)  second (measured)  deviation\n"));
  g_assert_null (strstr (text, "predicted"));
  g_assert_null (strstr (text, "simulated"));
  g_assert_null (strstr (text, "only one has"));
}

/* The subcommand */

typedef struct {
  const char *arguments; /* after the two files, separated by blanks */
  int code;
  const char *error; /* NULL: none; else a pattern */
} CommandCase;

static const CommandCase command_cases[] = {
  { "", 0, NULL },
  { "--json --worst 1", 0, NULL },
  { "--tolerance 20", 0, NULL }, /* |80 - 100| / 100 */
  { "--tolerance 20%", 0, NULL },
  { "--tolerance 19.9", 3, NULL },
  { "--tolerance 0", 3, NULL },
  { "--tolerance x", 2, "--tolerance: 'x' is not a percentage from 0 to *" },
  { "--tolerance -1", 2, "--tolerance: '-1' is not a percentage from 0 to *" },
  { "--tolerance nan", 2, "--tolerance: 'nan' is not a percentage from 0 to *" },
  { "--tolerance inf", 2, "--tolerance: 'inf' is not a percentage from 0 to *" },
  { "--worst -1", 2, "--worst: '-1' is not an integer from 0 *" },
  { "--worst many", 2, "--worst: 'many' is not an integer from 0 *" },
  { "--nonsense", 2, "*--nonsense*" },
  { "third.json", 2, "3 files given; two timelines are wanted" },
};

static void run_command_case (gconstpointer data)
{
  const CommandCase *command = data;
  g_autofree char *predicted = fixture_path ("timeline-predicted.json");
  g_autofree char *measured = fixture_path ("timeline-measured.json");
  g_autofree char *line = g_strdup_printf ("compare '%s' '%s' %s", predicted, measured, command->arguments);
  g_auto (GStrv) argv = NULL;
  g_autofree char **arguments = NULL; /* GOption reorders them */
  g_autoptr (GError) error = NULL;
  int argc, code;

  if (!g_test_subprocess ()) {
    g_test_trap_subprocess (NULL, 0, 0);
    g_test_trap_assert_passed ();
    if (command->error == NULL)
      g_test_trap_assert_stdout (strstr (command->arguments, "--json") ? "*\"pipesim-comparison/1\"*" : "*-20.00 %*");
    return;
  }
  g_assert_true (g_shell_parse_argv (line, &argc, &argv, NULL));
  arguments = g_memdup2 (argv, sizeof *argv * (gsize)(argc + 1));
  code = ps_cmd_run (&ps_cmd_compare, argc, arguments, &error);
  if (command->error == NULL) {
    g_assert_no_error (error);
    g_assert_cmpint (code, ==, command->code);
    return;
  }
  g_assert_nonnull (error);
  g_assert_cmpint (ps_error_exit_code (error), ==, command->code);
  if (!g_pattern_match_simple (command->error, error->message))
    g_assert_cmpstr (error->message, ==, command->error);
}

/* As the machine was found the run would have taken 64 ns: the prediction of 80 is a quarter more. */
static void test_usual (void)
{
  g_autoptr (PsTimeline) predicted = read_fixture ("timeline-predicted.json");
  g_autoptr (PsTimeline) measured = read_fixture ("timeline-measured.json");

  measured->usual_ns = 64;
  g_autoptr (PsComparison) comparison = fine (ps_compare (predicted, measured, &error));
  g_autofree char *text = ps_comparison_to_text (comparison, 0, NULL, NULL);
  g_autofree char *json = ps_comparison_to_json (comparison, 0);
  g_assert_nonnull (strstr (text, "the run would take 64 ns: the prediction is off by +25.00 % then\n"));
  g_assert_nonnull (strstr (json, "\"usual_iteration_ns\": 64"));
  g_assert_null (strstr (text, "of 100 runs"));
  predicted->usual_ns = 1;
  measured->usual_ns = 0;
  g_autoptr (PsComparison) without = fine (ps_compare (predicted, measured, &error));
  g_autofree char *none = ps_comparison_to_text (without, 0, NULL, NULL);
  g_assert_null (strstr (none, "then"));
}

/* Buffers of messages do not count against a run, but do between predictions. Device 0 holds most at once: 5000 bytes,
 * 900 of them buffers; device 1 later 4200 and 50. */
static void test_buffers (void)
{
  static const PsMemoryPoint points[] = { { .bytes = 5000, .buffer_bytes = 900 },
                                          { .time_ns = 5, .bytes = 3000 },
                                          { .device = 1, .bytes = 100 },
                                          { .device = 1, .time_ns = 7, .bytes = 4200, .buffer_bytes = 50 } };
  g_autoptr (PsTimeline) predicted = read_fixture ("timeline-predicted.json"),
                         other = read_fixture ("timeline-predicted.json");
  g_autoptr (PsTimeline) measured = read_fixture ("timeline-measured.json");

  g_array_set_size (predicted->memory, 0);
  g_array_append_vals (predicted->memory, points, G_N_ELEMENTS (points));
  g_autoptr (PsComparison) run = fine (ps_compare (predicted, measured, &error));
  g_autoptr (PsComparison) alike = fine (ps_compare (predicted, other, &error));
  g_assert_cmpint (run->predicted.device[0].peak_memory_bytes, ==, 4100);
  g_assert_cmpint (run->predicted.device[1].peak_memory_bytes, ==, 4150);
  g_assert_cmpint (run->predicted.peak_memory_bytes, ==, 4150);
  g_assert_cmpint (alike->predicted.device[0].peak_memory_bytes, ==, 5000);
  g_assert_cmpint (alike->predicted.device[1].peak_memory_bytes, ==, 4200);
  g_assert_cmpint (alike->predicted.peak_memory_bytes, ==, 5000);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/compare/figures", test_figures);
  g_test_add_func ("/compare/worst", test_worst);
  g_test_add_func ("/compare/text", test_text);
  g_test_add_func ("/compare/unknown-memory", test_unknown_memory);
  g_test_add_func ("/compare/json", test_json);
  g_test_add_func ("/compare/interval", test_interval);
  g_test_add_func ("/compare/refusals", test_refusals);
  g_test_add_func ("/compare/alike/simulated", test_alike);
  g_test_add_func ("/compare/alike/apart", test_apart);
  g_test_add_func ("/compare/alike/measured", test_alike_measured);
  for (gsize i = 0; i < G_N_ELEMENTS (command_cases); i++) {
    g_autofree char *path = g_strdup_printf ("/compare/command/%" G_GSIZE_FORMAT, i);

    g_test_add_data_func (path, &command_cases[i], run_command_case);
  }
  g_test_add_func ("/compare/usual", test_usual);
  g_test_add_func ("/compare/buffers", test_buffers);
  return g_test_run ();
}

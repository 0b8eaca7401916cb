/* Tests of timeline.h: worked numbers, both sources of the metrics, the native file and its refusals, Chrome traces. */
#include "error-rig.h"
#include "lower.h"
#include "observe/timeline-private.h"
#include "random-schedule.h"

#include <pipesim/formats.h>
#include <pipesim/timeline.h>

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <string.h>

static void check_round_trip (const char *text)
{
  g_autoptr (PsTimeline) timeline = fine (ps_timeline_parse_json ("text", text, -1, &error));
  g_autofree char *again = ps_timeline_to_json (timeline);

  g_assert_cmpstr (again, ==, text);
}

/* Two devices, one stage each, two microbatches; F 10, B 10, W 5, transfers 2, O 6 and 3 ns; act 100, wact 40, weights
 * 1000 bytes.
 *
 *   device 0   F0 0-10   F1 10-20                    B0 34-44  W0 44-49       B1 59-69  W1 69-74
 *   device 1        F0 12-22  B0 22-32  W0 32-37  F1 37-47  B1 47-57  W1 57-62
 *
 * B0 on device 0 waits for B0 of device 1 (32) plus 2; B1 for 57 plus 2. */
static PsProgram *worked_program (void)
{
  static const char *const orders[2][6]
      = { { "F0.0", "F1.0", "B0.0", "W0.0", "B1.0", "W1.0" }, { "F0.1", "B0.1", "W0.1", "F1.1", "B1.1", "W1.1" } };
  PsScheduleBuilder *builder = ps_schedule_builder_new ("two by two", ps_placement_new (PS_PLACEMENT_LOOP, 2, 1), 2);

  for (guint d = 0; d < 2; d++) {
    for (guint i = 0; i < 6; i++) {
      const char *end;
      PsOp op;

      g_assert_true (ps_op_parse (orders[d][i], &end, &op));
      ps_schedule_builder_add_op (builder, op);
    }
    ps_schedule_builder_next_device (builder);
  }
  return lower (ps_schedule_builder_end (builder));
}

static PsCosts *worked_costs (void)
{
  PsCosts *costs = ps_costs_new (2);

  for (guint s = 0; s < 2; s++) {
    ps_costs_op (costs, PS_OP_F, s)->duration_ns = 10;
    ps_costs_op (costs, PS_OP_B, s)->duration_ns = 10;
    ps_costs_op (costs, PS_OP_W, s)->duration_ns = 5;
    ps_costs_op (costs, PS_OP_O, s)->duration_ns = s ? 3 : 6;
    ps_costs_set_memory (costs, s, 100, 40);
    costs->stage[s].weight_bytes = 1000;
    costs->transfer_ns[ps_transfer_forward (costs, s)] = 2;
    costs->transfer_ns[ps_transfer_backward (costs, s)] = 2;
  }
  g_free (costs->source);
  costs->source = g_strdup ("worked by hand");
  return costs;
}

static PsTimeline *worked_timeline (PsMetrics *from_simulation)
{
  g_autoptr (PsProgram) program = worked_program ();
  g_autoptr (PsCosts) costs = worked_costs ();
  g_autoptr (PsSimulation) simulation = simulated (program, costs);

  if (from_simulation != NULL)
    ps_metrics_from_simulation (program, simulation, from_simulation);
  return ps_timeline_from_simulation (program, costs, simulation);
}

static char *read_fixture (const char *name)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", name, NULL);
  char *text;

  fine (ps_read_file (path, &text, NULL, &error));
  return text;
}

static void check_worked_metrics (const PsMetrics *metrics)
{
  /* The longest O is 6: iteration 74 + 6. Every device works 2 * (10 + 10 + 5) = 50. */
  g_assert_cmpint (metrics->makespan_ns, ==, 74);
  g_assert_cmpint (metrics->iteration_ns, ==, 80);
  g_assert_cmpint (metrics->max_span_ns, ==, 74);
  g_assert_cmpfloat (metrics->bubble_ratio, ==, 30.0 / 80);
  g_assert_cmpfloat (metrics->bubble_ratio_span, ==, 24.0 / 74);
  g_assert_cmpint (metrics->peak_memory_bytes, ==, 1200);
  g_assert_cmpuint (metrics->n_devices, ==, 2);
  g_assert_cmpint (metrics->device[0].busy_ns, ==, 50);
  g_assert_cmpint (metrics->device[1].busy_ns, ==, 50);
  g_assert_cmpint (metrics->device[0].span_ns, ==, 74);
  g_assert_cmpint (metrics->device[1].span_ns, ==, 62 - 12);
  g_assert_cmpint (metrics->device[0].peak_memory_bytes, ==, 1000 + 2 * 100);
  g_assert_cmpint (metrics->device[1].peak_memory_bytes, ==, 1000 + 100);
  g_assert_cmpuint (metrics->device[0].peak_activations, ==, 2);
  g_assert_cmpuint (metrics->device[1].peak_activations, ==, 1);
}

static void test_worked_metrics (void)
{
  g_auto (PsMetrics) from_simulation = { 0 };
  g_auto (PsMetrics) from_timeline = { 0 };
  g_autoptr (PsTimeline) timeline = worked_timeline (&from_simulation);

  check_worked_metrics (&from_simulation);
  ps_metrics_from_timeline (timeline, &from_timeline);
  check_worked_metrics (&from_timeline);
}

/* The fixture holds the times drawn above, typed by hand. */
static void test_worked_file (void)
{
  g_autoptr (PsTimeline) timeline = worked_timeline (NULL);
  g_autofree char *json = ps_timeline_to_json (timeline);
  g_autofree char *expected = read_fixture ("timeline-predicted.json");

  g_assert_cmpstr (json, ==, expected);
}

static void test_round_trip (void)
{
  g_autofree char *predicted = read_fixture ("timeline-predicted.json");
  g_autofree char *measured = read_fixture ("timeline-measured.json");
  g_autoptr (PsTimeline) odd = ps_timeline_new (PS_ORIGIN_MEASURED, "a \"b\" \\ c\n\t\xc3\xa9", 3, 6, 7);
  PsSpan span = { 5, 9, { .kind = PS_OP_BW, .slice = 3, .stage = 5, .microbatch = 6, .paired = 1 }, 2, 2, 1, 0 };

  check_round_trip (predicted);
  check_round_trip (measured);
  g_array_append_val (odd->ops, span);
  span.op = (PsOp){ .kind = PS_OP_F, .stage = 2, .microbatch = 1 };
  g_array_append_val (odd->ops, span);
  span.post = PS_INSTRUCTION_RECEIVE;
  g_array_append_val (odd->posts, span);
  span.post = PS_INSTRUCTION_SEND;
  g_array_append_val (odd->posts, span);
  g_autofree char *odd_text = ps_timeline_to_json (odd);
  g_assert_nonnull (strstr (odd_text, "[2, \"BW6.5/3+\", 5, 9, 1]"));
  g_assert_nonnull (strstr (odd_text, "\"transfers\": []"));
  g_assert_nonnull (strstr (odd_text, "[2, \"RECEIVE F1.2\", 5, 9],\n    [2, \"SEND F1.2\", 5, 9]\n"));
  check_round_trip (odd_text);
}

/* Transfers carry the sender's chunk although the file does not repeat it. */
static void test_read_chunks (void)
{
  static const char text[] = "{\"format\": \"pipesim-timeline/1\", \"origin\": \"measured\", \"schedule\": \"\", "
                             "\"source\": \"\", \"devices\": 2,"
                             "\"stages\": 4, \"microbatches\": 1, \"iteration_ns\": 9, \"ops\": [[1, \"F0.3\", 7, 9, "
                             "1], [0, \"F0.2\", 2, 4, 1]],"
                             "\"transfers\": [[0, 1, \"F0.2\", 4, 7]], \"memory\": [], "
                             "\"posts\": [[1, \"RECEIVE F0.2\", 0, 1]], \"waits\": [[1, \"F0.2\", 1, 7]]}";
  g_autoptr (PsTimeline) timeline = fine (ps_timeline_parse_json ("text", text, -1, &error));

  g_assert_cmpuint (g_array_index (timeline->transfers, PsSpan, 0).chunk, ==, 1);
  g_assert_cmpuint (g_array_index (timeline->transfers, PsSpan, 0).peer, ==, 1);
  for (guint i = 0; i < 2; i++)
    g_assert_cmpuint (g_array_index (timeline->ops, PsSpan, i).peer, ==, i);
  g_assert_cmpuint (g_array_index (timeline->posts, PsSpan, 0).peer, ==, 1);
  g_assert_cmpuint (g_array_index (timeline->waits, PsSpan, 0).peer, ==, 1);
  /* Read in any order, kept by device. */
  g_assert_cmpuint (g_array_index (timeline->ops, PsSpan, 0).device, ==, 0);
}

static void test_read_refusals (void)
{
  static const struct {
    const char *from, *to, *message;
  } cases[] = {
    { "pipesim-timeline/1", "pipesim-timeline/2",
      "f.json: format: 'pipesim-timeline/2' is another version; this pipesim reads pipesim-timeline/1" },
    { "pipesim-timeline/1", "torch", "f.json: format: 'torch' is not pipesim-timeline/1" },
    { "\"pipesim-timeline/1\"", "1", "f.json: format: '' is not pipesim-timeline/1" },
    { "\"simulated\"", "\"guessed\"", "f.json: origin: 'guessed' is neither simulated nor measured" },
    { "\"simulated\"", "\"modelled\"", "f.json: origin: 'modelled' is neither simulated nor measured" },
    { "\"simulated\"", "7", "f.json: origin: is no text" },
    { "\"source\"", "\"sauce\"", "f.json: source: is missing" },
    { "\"iteration_ns\": 80", "\"iteration_ns\": 80, \"more\": 1", "f.json: more: is no key of pipesim-timeline/1" },
    { "\"iteration_ns\": 80", "\"iteration_ns\": 80, \"usual_iteration_ns\": -1",
      "f.json: usual_iteration_ns: -1 is not between 0 and 2305843009213693951" },
    { "\"iteration_ns\": 80", "\"iteration_ns\": 80, \"iteration_p10_ns\": -1",
      "f.json: iteration_p10_ns: -1 is not between 0 and 2305843009213693951" },
    { "\"iteration_ns\": 80", "\"iteration_ns\": 80, \"iteration_p10_ns\": 9, \"iteration_p90_ns\": 8",
      "f.json: iteration_p90_ns: 8 is not between 9 and 2305843009213693951" },
    { "[0, 10, 1200]", "[0, 10, 1200, 1201]", "f.json: memory[2]: buffers 1201 is not between 0 and 1200" },
    { "[0, 10, 1200]", "[0, 10, 1200, 1, 1]", "f.json: memory[2]: is no array of 3 values" },
    { "[0, 10, 1200]", "[0, 10]", "f.json: memory[2]: is no array of 3 values" },
    { "\"devices\": 2", "\"devices\": 0", "f.json: devices: 0 is not between 1 and 4096" },
    { "\"devices\": 2", "\"devices\": 2.5", "f.json: devices: is no integer" },
    { "\"devices\": 2", "\"devices\": null", "f.json: devices: is no integer" },
    { "\"stages\": 2", "\"stages\": 99999", "f.json: stages: 99999 is not between 1 and 16384" },
    { "\"microbatches\": 2", "\"microbatches\": -1", "f.json: microbatches: -1 is not between 1 and 1048576" },
    { "\"iteration_ns\": 80", "\"iteration_ns\": 9223372036854775807",
      "f.json: iteration_ns: 9223372036854775807 is not between 0 and 2305843009213693951" },
    { "[0, \"F0.0\", 0, 10, 0]", "[2, \"F0.0\", 0, 10, 0]", "f.json: ops[0]: device 2 is not between 0 and 1" },
    { "[0, \"F0.0\", 0, 10, 0]", "[0, \"F0.0\", 0, 10]", "f.json: ops[0]: is no array of 5 values" },
    { "[0, \"F1.0\", 10, 20, 0]", "17", "f.json: ops[1]: is no array of 5 values" },
    { "[0, \"F1.0\", 10, 20, 0]", "[0, 5, 10, 20, 0]", "f.json: ops[1]: op is no text" },
    { "\"F1.0\", 10", "\"X1.0\", 10", "f.json: ops[1]: 'X1.0' is no op; one looks like F0.1" },
    { "\"F1.0\", 10", "\"F1.0x\", 10", "f.json: ops[1]: 'F1.0x' is no op; one looks like F0.1" },
    { "\"F1.0\", 10", "\"F1.2\", 10", "f.json: ops[1]: stage of 'F1.2' is not below 2" },
    { "\"F1.0\", 10", "\"F2.0\", 10", "f.json: ops[1]: microbatch of 'F2.0' is not below 2" },
    { "\"F1.0\", 10, 20, 0", "\"F1.0\", -10, 20, 0",
      "f.json: ops[1]: start -10 is not between 0 and 2305843009213693951" },
    { "\"F1.0\", 10, 20, 0", "\"F1.0\", 10, 9, 0", "f.json: ops[1]: end 9 is not between 10 and 2305843009213693951" },
    { "\"F1.0\", 10, 20, 0", "\"F1.0\", 9, 20, 0", "f.json: device 0: F1.0 starts before F0.0 has ended" },
    { "\"F1.0\", 10, 20, 0", "\"F1.0\", 10, 20, 4", "f.json: ops[1]: chunk 4 is not between 0 and 3" },
    { "[0, 1, \"F0.0\", 10, 12]", "[0, 5, \"F0.0\", 10, 12]",
      "f.json: transfers[0]: receiver 5 is not between 0 and 1" },
    { "[0, 10, 1200]", "[0, 10, -1]", "f.json: memory[2]: bytes -1 is not between 0 and 2305843009213693951" },
    { "[0, 10, 1200]", "[0, \"x\", 1]", "f.json: memory[2]: time is no integer" },
    { "[0, 1, \"F0.0\", 10, 12],", "[0, 1, \"F0.0\", 10, 12]", "f.json:26:5: ',' or ']' is missing" },
    { "\n  ]\n}\n", "\n  ]\n", "f.json:45:1: the text ends too early: ',' or '}' is missing" },
    { "\n  ]\n}\n", "\n  ]\n}\n{}", "f.json:46:1: more text after the end" },
    { "two by two", "two \xff", "f.json:*: no UTF-8" },
    { "  \"memory\"", "  \"posts\": [[0, \"SEND F0.0\", 1, 2], [0, \"F0.0\", 1, 2]],\n  \"memory\"",
      "f.json: posts[1]: 'F0.0' is no post; one looks like SEND F0.1" },
    { "  \"memory\"", "  \"posts\": [[0, \"SEND F2.0\", 1, 2]],\n  \"memory\"",
      "f.json: posts[0]: microbatch of 'F2.0' is not below 2" },
    { "  \"memory\"", "  \"posts\": [[0, \"SEND F0.0\", 1]],\n  \"memory\"",
      "f.json: posts[0]: is no array of 4 values" },
  };
  g_autofree char *fixture = read_fixture ("timeline-predicted.json");

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GString) text = g_string_new (fixture);
    g_autoptr (GError) error = NULL;

    g_assert_cmpuint (g_string_replace (text, cases[i].from, cases[i].to, 1), ==, 1);
    g_assert_null (ps_timeline_parse_json ("f.json", text->str, (gssize)text->len, &error));
    g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
    if (!g_pattern_match_simple (cases[i].message, error->message))
      g_assert_cmpstr (error->message, ==, cases[i].message);
    g_assert_null (strchr (error->message, '\n'));
  }
}

static void check_refused (const char *text, const char *message)
{
  refused (ps_timeline_parse_json ("x", text, -1, &error), PS_ERROR_INPUT, message);
}

static void test_read_foreign (void)
{
  g_autofree char *deep = g_strnfill (1000000, '[');

  check_refused ("", "x: is neither a JSON object nor an array");
  check_refused ("[]", "x: is no JSON object");
  check_refused ("{}", "x: format: is missing; pipesim-timeline/1 would be right");
  check_refused (deep, "x:1:65: nested too deeply");
  check_refused (
      "{\"format\": \"pipesim-timeline/1\", \"origin\": \"measured\", \"schedule\": \"\", \"source\": \"\","
      "\"devices\": 1, \"stages\": 1, \"microbatches\": 1, \"iteration_ns\": 0, \"ops\": [], \"transfers\": [],"
      "\"memory\": []}",
      "x: ops: holds no op");
  refused (ps_timeline_load ("/nonexistent/timeline.json", &error), PS_ERROR_IO, "/nonexistent/timeline.json: *");
}

/* Truncated anywhere, the file is refused with one line and never accepted. */
static void test_read_truncated (void)
{
  g_autofree char *fixture = read_fixture ("timeline-predicted.json");
  gsize whole = strlen (fixture) - 1; /* without the last line end it is complete still */

  for (gsize length = 0; length < whole; length++) {
    refused (ps_timeline_parse_json ("x", fixture, (gssize)length, &error), PS_ERROR_INPUT, "x:*");
  }
}

/* F1 and BW0 run as a pair of 15 ns between an F of 10 and a BW of 10: busy 35, and for a while both microbatches are
 * alive. The O after them counts for nothing here but is part of the iteration time. */
static void test_pair_and_optimizer (void)
{
  static const char text[] = "{\"format\": \"pipesim-timeline/1\", \"origin\": \"measured\", \"schedule\": \"\", "
                             "\"source\": \"\", \"devices\": 1,"
                             "\"stages\": 1, \"microbatches\": 2, \"iteration_ns\": 50, \"ops\": [[0, \"F0.0\", 5, 15, "
                             "0], [0, \"BW0.0+\", 15, 30, 0],"
                             "[0, \"F1.0\", 15, 30, 0], [0, \"BW1.0\", 35, 45, 0], [0, \"O0.0\", 45, 50, 0]], "
                             "\"transfers\": [], \"memory\": []}";
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = ps_timeline_parse_json ("text", text, -1, &error);
  g_auto (PsMetrics) metrics = { 0 };

  g_assert_no_error (error);
  ps_metrics_from_timeline (timeline, &metrics);
  g_assert_cmpint (metrics.makespan_ns, ==, 45 - 5);
  g_assert_cmpint (metrics.device[0].busy_ns, ==, 10 + 15 + 10);
  g_assert_cmpfloat (metrics.bubble_ratio, ==, 15.0 / 50);
  g_assert_cmpfloat (metrics.bubble_ratio_span, ==, 5.0 / 40);
  g_assert_cmpuint (metrics.device[0].peak_activations, ==, 2);
  g_assert_cmpint (metrics.peak_memory_bytes, ==, 0);
}

static guint count_events (JsonArray *events, const char *phase)
{
  guint n = 0;

  for (guint i = 0; i < json_array_get_length (events); i++)
    n += g_str_equal (json_object_get_string_member (json_array_get_object_element (events, i), "ph"), phase);
  return n;
}

static JsonObject *find_event (JsonArray *events, const char *phase, const char *name)
{
  for (guint i = 0; i < json_array_get_length (events); i++) {
    JsonObject *event = json_array_get_object_element (events, i);

    if (g_str_equal (json_object_get_string_member (event, "ph"), phase)
        && g_str_equal (json_object_get_string_member (event, "name"), name))
      return event;
  }
  g_assert_not_reached ();
}

static void test_chrome_trace (void)
{
  g_autoptr (PsTimeline) timeline = worked_timeline (NULL);
  g_autofree char *trace = ps_timeline_to_chrome_trace (timeline);
  g_autoptr (JsonParser) parser = json_parser_new ();

  fine (json_parser_load_from_data (parser, trace, -1, &error));
  JsonArray *events
      = json_object_get_array_member (json_node_get_object (json_parser_get_root (parser)), "traceEvents");
  g_assert_cmpuint (count_events (events, "X"), ==, 12);
  g_assert_cmpuint (count_events (events, "s"), ==, 4);
  g_assert_cmpuint (count_events (events, "f"), ==, 4);
  g_assert_cmpuint (count_events (events, "C"), ==, 13);
  g_assert_cmpuint (count_events (events, "M"), ==, 1 + 2 * 2);

  JsonObject *event = find_event (events, "X", "B0.1");
  g_assert_cmpint (json_object_get_int_member (event, "pid"), ==, 0);
  g_assert_cmpint (json_object_get_int_member (event, "tid"), ==, 1);
  g_assert_cmpfloat (json_object_get_double_member (event, "ts"), ==, 0.022);
  g_assert_cmpfloat (json_object_get_double_member (event, "dur"), ==, 0.010);

  /* The arrow leaves in the last nanosecond of B0.1 (22-32) and reaches B0.0, which starts at 34. */
  event = find_event (events, "s", "B0.1");
  g_assert_cmpint (json_object_get_int_member (event, "tid"), ==, 1);
  g_assert_cmpfloat (json_object_get_double_member (event, "ts"), ==, 0.031);
  event = json_object_get_object_member (event, "args");
  g_assert_cmpint (json_object_get_int_member (event, "start_ns"), ==, 32);
  g_assert_cmpint (json_object_get_int_member (event, "end_ns"), ==, 34);
  event = find_event (events, "f", "B0.1");
  g_assert_cmpint (json_object_get_int_member (event, "tid"), ==, 0);
  g_assert_cmpfloat (json_object_get_double_member (event, "ts"), ==, 0.034);

  event = find_event (events, "M", "process_name");
  g_assert_cmpstr (json_object_get_string_member (json_object_get_object_member (event, "args"), "name"), ==,
                   "predicted (simulated): two by two");
}

static void test_chrome_trace_measured (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", "timeline-measured.json", NULL);
  g_autoptr (PsTimeline) timeline = fine (ps_timeline_load (path, &error));
  g_autofree char *trace = ps_timeline_to_chrome_trace (timeline);

  g_assert_nonnull (strstr (trace, "\"measured: two by two\""));
  g_assert_nonnull (strstr (trace, "\"pid\":1"));
  g_assert_null (strstr (trace, "\"pid\":0"));
}

static PsSpan random_span (GRand *rand, guint n_microbatches)
{
  return (PsSpan){ .start_ns = g_rand_int_range (rand, 0, 4),
                   .device = (guint16)g_rand_int_range (rand, 0, 3),
                   .op = { .kind = (guint8)g_rand_int_range (rand, 0, PS_N_OP_KINDS),
                           .slice = (guint8)g_rand_int_range (rand, 0, 2),
                           .stage = (guint16)g_rand_int_range (rand, 0, 5),
                           .microbatch = (guint32)g_rand_int_range (rand, 0, (gint)n_microbatches) & G_MAXINT32,
                           .paired = (guint)g_rand_int_range (rand, 0, 2) & 1U } };
}

/* The index finds the span that a walk from the end finds, few spans and many, of which several are of one op. */
static void test_index (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);

  for (guint i = 0; i < 60; i++) {
    g_autoptr (GArray) spans = g_array_new (FALSE, FALSE, sizeof (PsSpan));
    guint n_microbatches = i % 3 ? 4 : 4000, n_found = 0;

    for (gint n = g_rand_int_range (rand, 0, 400); n > 0; n--) {
      PsSpan span = random_span (rand, n_microbatches);

      g_array_append_val (spans, span);
    }
    g_autoptr (GHashTable) index = ps_spans_index (spans);
    for (guint k = 0; k < 400; k++) {
      PsSpan wanted = k < spans->len ? g_array_index (spans, PsSpan, k) : random_span (rand, n_microbatches + 1);
      const PsSpan *expected = NULL;

      for (guint s = 0; s < spans->len; s++) {
        const PsSpan *span = &g_array_index (spans, PsSpan, s);

        if (span->device == wanted.device && span->op.kind == wanted.op.kind && span->op.slice == wanted.op.slice
            && span->op.stage == wanted.op.stage && span->op.microbatch == wanted.op.microbatch)
          expected = span;
      }
      g_assert_true (ps_spans_find (index, wanted.op, wanted.device) == expected);
      n_found += expected != NULL;
    }
    g_assert_cmpuint (n_found, >=, spans->len);
  }
}

/* Ops, posts and waits by device, then by start; transfers by start; memory by device and time. Spans of one instant
 * stay as they were. Arrays that fall, that rise, and others. */
static void test_sorted (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (9);

  for (guint i = 0; i < 100; i++) {
    g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_MEASURED, "x", 3, 5, 1000);
    GArray *const arrays[] = { timeline->ops, timeline->posts, timeline->waits, timeline->transfers };
    guint n = (guint)g_rand_int_range (rand, 1, 12);

    for (guint k = 0; k < n * G_N_ELEMENTS (arrays); k++) {
      PsSpan span = random_span (rand, 1);
      PsMemoryPoint point = { .device = span.device, .time_ns = span.start_ns, .bytes = k };

      if (i % 3 < 2) {
        span.device = 1;
        span.start_ns = i % 3 ? k : n * 4 - k;
      }
      span.end_ns = k; /* its place among the others */
      g_array_append_val (arrays[k / n], span);
      g_array_append_val (timeline->memory, point);
    }
    ps_timeline_sort (timeline);
    for (guint k = 0; k < G_N_ELEMENTS (arrays); k++)
      for (guint s = 1; s < n; s++) {
        const PsSpan *a = &g_array_index (arrays[k], PsSpan, s - 1), *b = a + 1;
        gboolean device = k < 3 && a->device != b->device;

        g_assert_true (device                       ? a->device < b->device
                       : a->start_ns != b->start_ns ? a->start_ns < b->start_ns
                                                    : a->end_ns < b->end_ns);
      }
    for (guint s = 1; s < timeline->memory->len; s++) {
      const PsMemoryPoint *a = &g_array_index (timeline->memory, PsMemoryPoint, s - 1), *b = a + 1;

      g_assert_true (a->device != b->device     ? a->device < b->device
                     : a->time_ns != b->time_ns ? a->time_ns < b->time_ns
                                                : a->bytes < b->bytes);
    }
  }
}

/* What spans of a device cover of an interval: the part of the first two ns, the next whole, half of the last; asked
 * again from the same place on, device by device. */
static void test_cover (void)
{
  static const struct {
    guint device;
    gint64 start_ns, end_ns, covered_ns;
  } rows[] = { { 0, 2, 10, 2 + 3 }, { 0, 10, 14, 2 }, { 0, 14, 20, 2 + 1 },
               { 1, 0, 5, 5 },      { 1, 5, 9, 1 },   { 3, 0, 90, 4 } };
  static const PsSpan spans[]
      = { { 0, 4, .device = 0 }, { 6, 9, .device = 0 }, { 12, 16, .device = 0 }, { 19, 30, .device = 0 },
          { 0, 6, .device = 1 }, { 0, 7, .device = 2 }, { 5, 9, .device = 3 } };
  g_autoptr (GArray) array = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  guint next = 0;

  g_array_append_vals (array, spans, G_N_ELEMENTS (spans));
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpint (ps_spans_cover (array, &next, rows[i].device, rows[i].start_ns, rows[i].end_ns), ==,
                     rows[i].covered_ns);
}

/* A timeline has one slice more than the last one that an op names; a message must be of one of them. */
static void test_slices (void)
{
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_MEASURED, "x", 1, 2, 3);
  PsSpan span = { 0, 1, .op = { .kind = PS_OP_F, .slice = 2 } };

  g_assert_cmpuint (ps_timeline_n_slices (timeline), ==, 1);
  g_array_append_val (timeline->ops, span);
  span.op.slice = 1;
  g_array_append_val (timeline->ops, span);
  g_assert_cmpuint (ps_timeline_n_slices (timeline), ==, 3);
  for (guint i = 0; i < 3 * 4; i++) {
    static const PsOp wrong[] = { { .slice = 2, .stage = 1, .microbatch = 2 },
                                  { .slice = 3, .stage = 1, .microbatch = 2 },
                                  { .slice = 2, .stage = 2, .microbatch = 2 },
                                  { .slice = 2, .stage = 1, .microbatch = 3 } };
    GArray *const arrays[] = { timeline->transfers, timeline->posts, timeline->waits };
    GArray *array = arrays[i / 4];

    span.op = wrong[i % 4];
    g_array_append_val (array, span);
    if (i % 4 == 0)
      g_assert_true (ps_timeline_check ("x", timeline, NULL));
    else
      refused (ps_timeline_check ("x", timeline, &error), PS_ERROR_INPUT, "x: no op has the stage, microbatch or *");
    g_array_set_size (array, 0);
  }
  /* 2 x 3 x 2^22 ops are few enough, 4 x 3 x 2^22 are not; 2^26 are the most. */
  timeline->n_microbatches = PS_MAX_OPS / 8;
  timeline->n_stages = 2;
  g_assert_true (ps_timeline_check ("x", timeline, NULL));
  g_array_index (timeline->ops, PsSpan, 0).op.slice = 3;
  g_assert_true (ps_timeline_check ("x", timeline, NULL));
  g_array_index (timeline->ops, PsSpan, 0).op.slice = 4;
  refused (ps_timeline_check ("x", timeline, &error), PS_ERROR_INPUT,
           "x: 2 stages and 8388608 microbatches have more *");
}

/* The name of a file says whether a timeline is written as a trace, packed or not, or as itself. */
static void test_write (void)
{
  static const struct {
    const char *name;
    gboolean trace, packed;
  } rows[] = { { "a.json", FALSE, FALSE },        { "a.json.gz", FALSE, TRUE },   { "a.trace.json", TRUE, FALSE },
               { "a.trace.json.gz", TRUE, TRUE }, { "trace.json", FALSE, FALSE }, { "a.trace", FALSE, FALSE } };
  g_autoptr (PsTimeline) timeline = worked_timeline (NULL);
  g_autofree char *folder = fine (g_dir_make_tmp ("pipesim-timeline-XXXXXX", &error));
  g_autofree char *expected = ps_timeline_to_json (timeline);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *path = g_build_filename (folder, rows[i].name, NULL), *bytes = NULL;
    gsize length;

    fine (ps_timeline_write (timeline, path, &error));
    fine (g_file_get_contents (path, &bytes, &length, &error));
    g_assert_cmpint (bytes[0] == '\x1f', ==, rows[i].packed);
    if (!rows[i].packed)
      g_assert_cmpint (strstr (bytes, "traceEvents") != NULL, ==, rows[i].trace);
    g_autoptr (PsTimeline) again = fine (ps_timeline_load (path, &error));
    g_autofree char *json = ps_timeline_to_json (again);
    g_assert_cmpstr (json, ==, expected);
    g_assert_cmpint (g_remove (path), ==, 0);
  }
  g_assert_cmpint (g_rmdir (folder), ==, 0);
}

/* Figures of simulations and of their timelines agree */

static void assert_same_metrics (const PsMetrics *a, const PsMetrics *b)
{
  g_assert_cmpint (a->makespan_ns, ==, b->makespan_ns);
  g_assert_cmpint (a->max_span_ns, ==, b->max_span_ns);
  g_assert_cmpint (a->iteration_ns, ==, b->iteration_ns);
  g_assert_cmpfloat (a->bubble_ratio, ==, b->bubble_ratio);
  g_assert_cmpfloat (a->bubble_ratio_span, ==, b->bubble_ratio_span);
  g_assert_cmpint (a->peak_memory_bytes, ==, b->peak_memory_bytes);
  g_assert_cmpuint (a->n_devices, ==, b->n_devices);
  for (guint d = 0; d < a->n_devices; d++) {
    g_assert_cmpint (a->device[d].busy_ns, ==, b->device[d].busy_ns);
    g_assert_cmpint (a->device[d].span_ns, ==, b->device[d].span_ns);
    g_assert_cmpint (a->device[d].peak_memory_bytes, ==, b->device[d].peak_memory_bytes);
    g_assert_cmpuint (a->device[d].peak_activations, ==, b->device[d].peak_activations);
  }
}

static PsCosts *random_costs (GRand *random, guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint s = 0; s < n_stages; s++) {
    gint64 act = g_rand_int_range (random, 0, 1000);

    for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++) {
      int duration_ns = g_rand_int_range (random, -10, 100);

      /* Some ops take no time at all: their memory must not vanish from the curve. */
      ps_costs_op (costs, kind, s)->duration_ns = MAX (0, duration_ns);
    }
    ps_costs_set_memory (costs, s, act, act / 2);
    /* What an op needs only while it runs. */
    ps_costs_op (costs, PS_OP_B, s)->take_bytes += 77;
    ps_costs_op (costs, PS_OP_B, s)->give_bytes += 77;
    costs->stage[s].weight_bytes = g_rand_int_range (random, 0, 5000);
    costs->transfer_ns[ps_transfer_forward (costs, s)] = g_rand_int_range (random, 0, 20);
    costs->transfer_ns[ps_transfer_backward (costs, s)] = g_rand_int_range (random, 0, 20);
  }
  return costs;
}

/* Replaying a simulated timeline gives the simulation again; with an op of another schedule in it, it is refused. */
static void check_replay (const PsProgram *program, const PsCosts *costs, PsTimeline *timeline,
                          const PsSimulation *expected)
{
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  fine (ps_timeline_replay (program, costs, timeline, simulation, &error));
  g_assert_cmpmem (simulation->end_ns, (simulation->n_steps + 1) * sizeof (gint64), expected->end_ns,
                   (expected->n_steps + 1) * sizeof (gint64));
  g_assert_cmpint (simulation->makespan_ns, ==, expected->makespan_ns);
  g_array_index (timeline->ops, PsSpan, 0).op.microbatch += 1;
  refused (ps_timeline_replay (program, costs, timeline, simulation, &error), PS_ERROR_INPUT,
           "*: device 0: the timeline does not go on with F*");
}

static void check_agreement (PsSchedule *schedule, GRand *random)
{
  g_autoptr (PsProgram) program = lower (schedule);
  g_auto (PsMetrics) from_simulation = { 0 };
  g_auto (PsMetrics) from_timeline = { 0 };
  g_autoptr (PsCosts) costs = random_costs (random, program->schedule->placement->n_stages);
  g_autoptr (PsSimulation) simulation = simulated (program, costs);

  ps_metrics_from_simulation (program, simulation, &from_simulation);
  g_autoptr (PsTimeline) timeline = ps_timeline_from_simulation (program, costs, simulation);
  ps_metrics_from_timeline (timeline, &from_timeline);
  assert_same_metrics (&from_simulation, &from_timeline);
  g_autofree char *json = ps_timeline_to_json (timeline);
  check_round_trip (json);
  check_replay (program, costs, timeline, simulation);
}

/* Both definitions of every figure agree exactly, for every family and random costs, and its file reads back. */
static void test_agreement (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (7);
  guint n_families;
  const PsFamily *const *families = ps_family_table (&n_families);

  for (guint f = 0; f < n_families; f++)
    for (guint i = 0; i < 40; i++) {
      guint p = (guint)g_rand_int_range (random, 1, 7);
      PsFamilySetting setting = { .n_devices = p,
                                  .n_microbatches = p * (guint)g_rand_int_range (random, 1, 4),
                                  .n_chunks = families[f]->default_chunks };

      g_autoptr (PsSchedule) schedule = ps_family_generate (families[f], &setting, NULL);

      if (schedule != NULL)
        check_agreement (g_steal_pointer (&schedule), random);
    }
}

/* The same for schedules drawn at random, overlapped pairs included. */
static void test_agreement_random (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (8);

  for (guint i = 0; i < 100; i++)
    check_agreement (random_schedule (random, TRUE), random);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/timeline/worked/metrics", test_worked_metrics);
  g_test_add_func ("/timeline/worked/file", test_worked_file);
  g_test_add_func ("/timeline/json/round-trip", test_round_trip);
  g_test_add_func ("/timeline/json/chunks", test_read_chunks);
  g_test_add_func ("/timeline/json/refusals", test_read_refusals);
  g_test_add_func ("/timeline/json/foreign", test_read_foreign);
  g_test_add_func ("/timeline/json/truncated", test_read_truncated);
  g_test_add_func ("/timeline/metrics/pair-and-optimizer", test_pair_and_optimizer);
  g_test_add_func ("/timeline/trace/simulated", test_chrome_trace);
  g_test_add_func ("/timeline/trace/measured", test_chrome_trace_measured);
  g_test_add_func ("/timeline/index", test_index);
  g_test_add_func ("/timeline/sorted", test_sorted);
  g_test_add_func ("/timeline/cover", test_cover);
  g_test_add_func ("/timeline/slices", test_slices);
  g_test_add_func ("/timeline/write", test_write);
  g_test_add_func ("/timeline/metrics/agreement", test_agreement);
  g_test_add_func ("/timeline/metrics/agreement-random", test_agreement_random);
  return g_test_run ();
}

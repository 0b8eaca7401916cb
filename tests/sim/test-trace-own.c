/* Tests of traces (formats.h): our own Chrome traces read back, and traces that are refused. */
#include "lower.h"
#include "random-schedule.h"
#include "trace-rig.h"

static const struct
{
  const char *text;
  const char *message;
} refusals[] = {
  { "[]", "trace.json: holds no complete range of an action, such as PP:0F0 (docs/traces.md)" },
  { "{\"otherData\":{},\"traceEvents\":[]}", "trace.json: holds no op of pipesim and no range PP:... of PyTorch" },
  /* a trace of PyTorch's profiler without pipeline ranges, since 1970 */
  { "[" RANGE ("cpu_op", "aten::mm", 1, 1, 1702000000000000, 2) "]",
    "trace.json: holds no complete range of an action, such as PP:0F0 (docs/traces.md)" },
  { "{\"a\": 1}", "trace.json: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents" },
  { "{\"otherData\":{},\"traceEvents\":[" RANGE ("cpu_op", "aten::mm", 1, 1, 1702000000000000, 2) "]}",
    "trace.json: traceEvents[0]: 'aten::mm' is neither an op of pipesim (F0.1) nor a range of PyTorch (PP:1F0)" },
  { "{\"traceEvents\": 3}", "trace.json: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents" },
  { "{\"traceEvent\": [" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]}",
    "trace.json: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents" },
  { "3", "trace.json: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents" },
  { "0F0,0B0", "trace.json: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents" },
  { "{", "trace.json:1:2: the text ends too early: a string is missing" },
  { "[" RANGE ("c", "PP:0SEND_F0", 1, 1, 0, 1) "]",
    "trace.json: holds no complete range of an action, such as PP:0F0 (docs/traces.md)" },
  { "[" RANGE ("c", "PP:0F0", 1, 1, 0, 2) "," RANGE ("c", "PP:0F1", 1, 1, 1, 2) "]",
    "trace.json: F1.0 starts before F0.0 has ended" },
  { "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "," RANGE ("c", "PP:0F0", 1, 1, 2, 1) "," RANGE ("c", "PP:1F0", 2, 1, 0,
                                                                                           1) "]",
    "trace.json: rank 1 has 1 complete iterations, rank 0 has 2; record the same steps on all ranks" },
  { "[" RANGE ("c", "F0.0", 0, 0, 0, 1) "," RANGE ("c", "F0", 0, 0, 1, 1) "]",
    "trace.json: traceEvents[1]: 'F0' is neither an op of pipesim (F0.1) nor a range of PyTorch (PP:1F0)" },
  { "[" RANGE ("c", "F0.0", 1, 5000, 0, 1) "]", "trace.json: traceEvents[0]: tid 5000 is no device" },
  { "[" RANGE ("c", "F0.0", 0, 0, 0, 1) "," RANGE ("c", "F1.0", 1, 0, 1, 1) "]",
    "trace.json: traceEvents[1]: pid 1 is another run than 0; one file, one run" },
  { "[" RANGE ("c", "F0.0", 0, 0, 0, 2) "," RANGE ("c", "F1.0", 0, 0, 1, 2) "]",
    "trace.json: device 0: F1.0 starts before F0.0 has ended" },
  { "[{\"ph\":\"X\",\"name\":\"F0.0\",\"pid\":0,\"tid\":0,\"ts\":-1,\"dur\":1}]",
    "trace.json: traceEvents[0]: ts is not from 0 to 10^15" },
  { "[{\"ph\":\"X\",\"name\":\"F0.0\",\"pid\":0,\"tid\":0,\"ts\":1}]",
    "trace.json: traceEvents[0]: has no pid, tid, ts and dur of a range" },
  { "[" RANGE ("c", "F0.0", 0, 0, 0, 1) ",{\"ph\":\"Q\"}]",
    "trace.json: traceEvents[1]: phase 'Q' is none that pipesim writes" },
};

static void
test_refusals (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      refused (parse_one (refusals[i].text, &error), PS_ERROR_INPUT, refusals[i].message);
    }
}

static void
test_rank_refusals (void)
{
  static const char *const texts[]
      = { "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]", "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]" };
  static const struct
  {
    const char *names[2];
    const char *message;
  } cases[] = {
    { { "rank0.json", "rank0-again.json" }, "rank0-again.json: rank 0 is that of rank0.json too" },
    { { "rank0.json", "rank2.json" }, "rank2.json: rank 2 of only 2 traces" },
    { { "rank0.json", "other.json" }, "other.json: does not say its rank, unlike the first file of the folder" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (parse ("x", cases[i].names, texts, 2, &error));
      g_assert_cmpstr (error->message, ==, cases[i].message);
    }
}

static PsTimeline *
simulate (PsSchedule *schedule, GRand *rand)
{
  g_autoptr (PsProgram) program = lower (schedule);
  g_autoptr (PsCosts) costs = ps_costs_new (schedule->placement->n_stages);

  for (guint i = 0; i < PS_N_OP_KINDS * costs->n_stages; i++)
    costs->op[i].duration_ns = i / costs->n_stages == PS_OP_O ? 0 : 1 + (gint64)random_below (rand, 2000000);
  for (guint stage = 0; stage < costs->n_stages; stage++)
    ps_costs_set_memory (costs, stage, 100, 40);
  for (guint i = 1; i < 1 + 2 * costs->n_stages; i++)
    costs->transfer_ns[i] = random_below (rand, 3000);
  g_autoptr (PsSimulation) simulation = simulated (program, costs);
  return ps_timeline_from_simulation (program, costs, simulation);
}

/* Both ends of every transfer, in some time, and some waits. */
static void
append_posts (PsTimeline *timeline, GRand *rand)
{
  for (guint i = 0; i < 2 * timeline->transfers->len; i++)
    {
      PsSpan span = g_array_index (timeline->transfers, PsSpan, i / 2);

      span.device = span.peer = i % 2 == 0 ? span.device : span.peer;
      span.chunk = 0;
      span.post = i % 2 == 0 ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE;
      span.end_ns = span.start_ns + (gint64)random_below (rand, 3000);
      g_array_append_val (timeline->posts, span);
      span.post = 0;
      if (i % 3 == 0)
        g_array_append_val (timeline->waits, span);
    }
  ps_timeline_sort (timeline);
}

/* Timelines come back from their Chrome trace unchanged: pairs, transfers, posts, waits, memory, and the figures that
 * no event shows. */
static void
test_own_trace (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);

  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (PsTimeline) timeline = simulate (random_schedule (rand, i % 2), rand);
      g_autofree char *trace = NULL, *before = NULL, *after = NULL;

      append_posts (timeline, rand);
      timeline->iteration_ns += random_below (rand, 1000000);
      timeline->interval = (PsInterval){ .p10_ns = 9 * (i % 2), .p90_ns = 11 * (i % 2) };
      timeline->n_microbatches += random_below (rand, 3);
      g_free (timeline->source);
      timeline->source = g_strdup ("costs of \"a\"");
      trace = ps_timeline_to_chrome_trace (timeline);
      g_autoptr (PsTimeline) again = fine (parse_one (trace, &error));
      before = ps_timeline_to_json (timeline);
      after = ps_timeline_to_json (again);
      g_assert_cmpstr (before, ==, after);
    }
}

/* A trace with nothing but events, as of earlier versions, lasts as long as they do; data of other programs tells
 * nothing, and no array but traceEvents holds events. */
static void
test_events_only (void)
{
  static const char *const heads[]
      = { "", "\"otherData\": {\"version\": 1, \"devices\": \"2\", \"iteration_ns\": -5}, ", "\"otherData\": 3, " };

  for (guint i = 0; i < G_N_ELEMENTS (heads); i++)
    {
      g_autofree char *text = g_strconcat ("{", heads[i], "\"traceEvents\": [", RANGE ("F", "F0.0", 0, 0, 1, 2),
                                           "], \"more\": []}", NULL);
      g_autoptr (PsTimeline) timeline = fine (parse_one (text, &error));

      g_assert_cmpint (timeline->iteration_ns, ==, 2000);
      g_assert_cmpuint (timeline->n_devices, ==, 1);
      g_assert_cmpstr (timeline->source, ==, "Chrome trace trace.json");
    }
}

#define ARROW(phase, name, tid, id, rest)                                                                              \
  "{\"ph\":\"" phase "\",\"cat\":\"transfer\",\"name\":\"" name "\",\"pid\":0,\"tid\":" #tid ",\"id\":" #id            \
  ",\"ts\":1" rest "}"
#define BEGUN(start, end) ",\"args\":{\"start_ns\":" #start ",\"end_ns\":" #end "}"
#define OPS RANGE ("F", "F0.0", 0, 0, 0, 1) "," RANGE ("F", "F0.1", 0, 1, 2, 1)

/* Ends of arrows find their starts by their numbers, in any order. */
static void
test_arrows (void)
{
  static const char text[] = "[" OPS "," RANGE ("F", "F1.0", 0, 0, 2, 1) "," RANGE ("F", "F2.0", 0, 0, 4, 1) "," ARROW (
      "s", "F0.0", 0, 7,
      BEGUN (10,
             20)) "," ARROW ("s", "F1.0", 0, -3,
                             BEGUN (30,
                                    40)) "," ARROW ("s", "F2.0", 0, 5,
                                                    BEGUN (50,
                                                           50)) "," ARROW ("f", "F0.0", 2, 7,
                                                                           "") "," ARROW ("f", "F2.0", 4, 5,
                                                                                          "") "," ARROW ("f", "F1.0", 3,
                                                                                                         -3, "") "]";
  g_autoptr (PsTimeline) timeline = fine (parse_one (text, &error));

  g_assert_cmpuint (timeline->transfers->len, ==, 3);
  g_assert_cmpuint (timeline->n_devices, ==, 5);
  for (guint i = 0; i < 3; i++)
    {
      const PsSpan *transfer = &g_array_index (timeline->transfers, PsSpan, i);

      g_assert_cmpuint (transfer->op.microbatch, ==, i);
      g_assert_cmpuint (transfer->peer, ==, 2 + i);
      g_assert_cmpint (transfer->start_ns, ==, 10 + 20 * (gint64)i);
    }
}

/* Arrows, counters and figures that are none of pipesim's. */
static void
test_own_refusals (void)
{
  static const struct
  {
    const char *event;
    const char *message; /* after "trace.json: traceEvents[2]: " */
  } cases[] = {
    { ARROW ("f", "F0.0", 1, 7, ""), "is the end of an arrow that has no start" },
    { ARROW ("s", "F0.0", 0, 7, ""), "is the start of an arrow without start_ns and end_ns" },
    { ARROW ("s", "F0.0", 0, 7, BEGUN (-1, 5)), "is the start of an arrow without start_ns and end_ns" },
    { ARROW ("s", "F0.0", 0, 7, BEGUN (6, 5)), "is the start of an arrow without start_ns and end_ns" },
    { ARROW ("s", "F0.0", 0, 7, BEGUN (6, 1000000000000000001)), "is the start of an arrow without *" },
    { ARROW ("s", "F0.0", 4096, 7, BEGUN (6, 7)), "tid 4096 is no device" },
    { ARROW ("s", "F0", 0, 7, BEGUN (6, 7)), "'F0' is neither an op of pipesim (F0.1) nor a range *" },
    { "{\"ph\":\"s\",\"name\":\"F0.0\",\"id\":3}", "is an arrow without id and tid" },
    { "{\"ph\":\"s\",\"name\":\"F0.0\",\"tid\":3}", "is an arrow without id and tid" },
    { "{\"ph\":\"C\",\"tid\":0,\"ts\":1,\"args\":{\"bytes\":-1}}", "is a counter without tid, ts and bytes" },
    { "{\"ph\":\"C\",\"tid\":0,\"ts\":-1,\"args\":{\"bytes\":1}}", "is a counter without tid, ts and bytes" },
    { "{\"ph\":\"C\",\"tid\":0,\"args\":{\"bytes\":1}}", "is a counter without tid, ts and bytes" },
    { "{\"ph\":\"C\",\"ts\":1,\"args\":{\"bytes\":1}}", "is a counter without tid, ts and bytes" },
    { "{\"ph\":\"C\",\"tid\":0,\"ts\":1,\"args\":{\"bytes\":1000000000000000001}}", "is a counter without *" },
    { "{\"ph\":\"C\",\"tid\":-1,\"ts\":1,\"args\":{\"bytes\":1}}", "tid -1 is no device" },
    { RANGE ("F", "F1.0", 0, -1, 5, 1), "tid -1 is no device" },
    { RANGE ("F", "SEND F1.0", 0, 4095, 5, 1), "tid -1 is no device" },
    { RANGE ("F", "F1.0", 0, 0, 5, -1), "has no pid, tid, ts and dur of a range" },
    { "{\"ph\":\"X\",\"name\":\"F1.0\",\"pid\":0,\"tid\":0,\"ts\":5,\"dur\":1,\"args\":{\"chunk\":32768}}",
      "chunk 32768 is no stage of a device" },
    { "{\"ph\":\"X\",\"name\":\"F1.0\",\"pid\":0,\"tid\":0,\"ts\":5,\"dur\":1,\"args\":{\"chunk\":-1}}",
      "chunk -1 is no stage of a device" },
    { RANGE ("F", "F1.0", 0, 0, 999999999999999, 1.001), "ts is not from 0 to 10^15" },
    { RANGE ("F", "F1.0", 0, 0, 999999999999999, 1), NULL },
    { "{\"ph\":\"X\",\"name\":\"F1.0\",\"pid\":0,\"tid\":0,\"ts\":5,\"dur\":1,\"args\":{\"chunk\":32767}}", NULL },
    { RANGE ("F", "SEND F1.0", 0, 4096, 5, 1), NULL },
    { ARROW ("s", "F0.0", 0, 7, BEGUN (6, 1000000000000000000)), NULL },
    { "{\"ph\":\"C\",\"tid\":0,\"ts\":0,\"args\":{\"bytes\":0}}", NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strconcat ("[", OPS, ",", cases[i].event, "]", NULL);
      g_autofree char *message = g_strconcat ("trace.json: traceEvents[2]: ", cases[i].message, NULL);

      g_test_message ("%s", cases[i].event);
      if (cases[i].message != NULL)
        refused (parse_one (text, &error), PS_ERROR_INPUT, message);
      else
        ps_timeline_free (fine (parse_one (text, &error)));
    }
}

/* Microseconds with up to three decimals, or any other number of JSON, to the nanosecond. */
static void
test_microseconds (void)
{
  static const struct
  {
    const char *ts;
    gint64 ns;
  } rows[] = { { "0", 0 },
               { "3", 3000 },
               { "3.5", 3500 },
               { "3.05", 3050 },
               { "3.005", 3005 },
               { "3.0054", 3005 },
               { "3.0056", 3006 },
               { "3e2", 300000 },
               { "3.5E1", 35000 },
               { "3.000", 3000 },
               { "0.001", 1 },
               { "1.25e-1", 125 },
               { "123456789.987", 123456789987 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *text = g_strdup_printf (
          "[{\"ph\":\"X\",\"name\":\"F0.0\",\"pid\":0,\"tid\":0,\"dur\":%s,\"ts\":%s}]", rows[i].ts, rows[i].ts);
      g_autoptr (PsTimeline) timeline = fine (parse_one (text, &error));

      assert_span (timeline, 0, 0, "F0.0", rows[i].ns, 2 * rows[i].ns);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/trace/refusals", test_refusals);
  g_test_add_func ("/trace/rank-refusals", test_rank_refusals);
  g_test_add_func ("/trace/own", test_own_trace);
  g_test_add_func ("/trace/events-only", test_events_only);
  g_test_add_func ("/trace/own/arrows", test_arrows);
  g_test_add_func ("/trace/own/refusals", test_own_refusals);
  g_test_add_func ("/trace/own/microseconds", test_microseconds);
  return g_test_run ();
}

/* Tests of the schedule formats of formats.h: refusals, ColossalAI's nodes, round trips. PyTorch's files are in
 * test-formats-torch.c, lint in test-torch-lint.c, timelines from traces in test-trace.c. */
#include "format-io.h"
#include "random-schedule.h"
#include <pipesim/schedule.h>

#include <unistd.h>

static const struct {
  const char *format;
  const char *text;
  const char *message; /* after "f" */
} refusals[] = {
  { "torch-compute", "", ": is empty; a line of actions per rank would be right" },
  { "torch-compute", "0F0,0B0\r\n\r\n", ":2: is a line without actions; each line is a rank" },
  { "torch-compute", "0F0junk,0B0", ":1:1: '0F0junk' goes on after the end of the action" },
  { "torch-compute", "0F0,0BW0",
    ":1:2: '0BW0' is a whole backward as PyTorch wrote it until 2.5; B would be right, and I where such a file has B" },
  { "torch-compute", "0F0,0B", ":1:2: '0B' has no microbatch number" },
  { "torch-compute", "0F0,0X0", ":1:2: '0X0' has no type that PyTorch knows, such as F, I, B or W" },
  { "torch-compute", "F0,0B0", ":1:1: 'F0' begins with no stage number; an action looks like 0F3" },
  { "torch-compute", "-1F0", ":1:1: '-1F0' begins with no stage number; an action looks like 0F3" },
  { "torch-compute", "0F0,0B0,0F0", ":1:3: 0F0: is there twice" },
  { "torch-compute", "0F0,0B0,0I0", ":1:3: 0I0: its backward is there already" },
  { "torch-compute", "0F0,0B0,0W0", ":1:3: 0W0: its weights are done by its full backward already" },
  { "torch-compute", "0F0,0W0,0I0", ":1:2: 0W0: comes before its backward" },
  { "torch-compute", "0B0,0F0", ":1:1: 0B0: comes before its F" },
  { "torch-compute", "0F0,0I0", ":1: has no W of microbatch 0 on stage 0; microbatches go up to 0" },
  { "torch-compute", "0F0,0B0,0F2,0B2", ":1: has no F of microbatch 1 on stage 0; microbatches go up to 2" },
  { "torch-compute", "0F5,0B5", ":1: has no F of microbatch 0 on stage 0; microbatches go up to 5" },
  { "torch-compute", "0F0,0B0\n0F1,0B1", ":2:1: 0F1: stage 0 is in line 1 already; a stage has one rank" },
  { "torch-compute", "0F0,0B0\n2F0,2B0", ": stage 1 has no action, but stage 2 has" },
  { "torch-compute", "0F1048576", ":1:1: '0F1048576' has no microbatch number" },
  { "torch-compute", "16384F0", ":1:1: '16384F0' begins with no stage number; an action looks like 0F3" },
  { "torch-compute", "0F0,0SEND_F0", ":1:2: '0SEND_F0' is no computation, which is all that torch-compute holds" },
  { "torch-compute", "(0F0)OVERLAP_F_B", ":1:1: '(0F0)OVERLAP_F_B' overlaps less than two actions" },
  { "torch-compute", "()OVERLAP_F_B", ":1:1: '()OVERLAP_F_B' overlaps less than two actions" },
  { "torch-compute", "(0F0;0B0)", ":1:1: '(0F0;0B0)' does not end in )OVERLAP_F_B" },
  { "torch-compute", "(0F0;1F0)OVERLAP_F_B",
    ":1:1: '(0F0;1F0)OVERLAP_F_B' does not overlap one forward with one backward" },
  { "torch-compute", "(0F0;1W0)OVERLAP_F_B", ":1:1: '(0F0;1W0)OVERLAP_F_B' overlaps something else than F, I and B" },
  { "torch-comms", "0UNSHARD,,0F0,0B0", ":1:2: '' is an empty cell, which torch-comms does not allow" },
  { "torch-comms", "0F0,0B0,", ":1:3: '' is an empty cell, which torch-comms does not allow" },
  { "torch-comms", "0F0,0B0,0SEND_F0", ":1:3: 0SEND_F0: stage 0 is an end of the model and has no such neighbour" },
  { "torch-comms", "0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0",
    ":1:2: 0SEND_F0: stage 1 is on this rank too; nothing is sent" },
  { "torch-comms", "0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", ":2:1: 1RECV_F0: has no send on the other device" },
  { "torch-comms", "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0",
    ":1:2: 0SEND_F0: has no receive on the other device" },
  { "torch-comms", "0F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0", ":2:1: 1F0: has no receive before it" },
  { "torch-comms", "0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0",
    ":1:1: 0SEND_F0: comes before the op that makes what it sends" },
  { "torch-comms", "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0", ":2:1: 1F0: has no receive before it" },
  { "torch-comms", "0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", ":1:2: 0SEND_F0: is there twice" },
  { "colossalai", "{}", ": is no array of 1 to 4096 devices" },
  { "colossalai", "[]", ": is no array of 1 to 4096 devices" },
  { "colossalai", "[3]", ": device 0: is no array of nodes" },
  { "colossalai", "[[7]]", ": device 0: node 0: is no object {type, chunk, stage, minibatch}" },
  { "colossalai", "[[{\"type\":\"X\",\"chunk\":0,\"stage\":0,\"minibatch\":0}]]",
    ": device 0: node 0: type 'X' is not known; F, B, W, BW and SEND_FORWARD and the like are" },
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":0,\"stage\":1,\"minibatch\":0}]]",
    ": device 0: node 0: stage 1 is not the device that it is listed under" },
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":-1,\"stage\":0,\"minibatch\":0}]]",
    ": device 0: node 0: chunk -1 is not between 0 and 16383" },
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":0,\"stage\":0}]]", ": device 0: node 0: minibatch is missing" },
  { "colossalai",
    "[[{\"type\":\"F\",\"chunk\":0,\"stage\":0,\"minibatch\":0},{\"type\":\"B\",\"chunk\":0,\"stage\":0}]]",
    ": device 0: node 1: minibatch is missing" },
  { "colossalai", "[[],[],[{\"type\":\"F\"}]]", ": device 2: node 0: chunk is missing" },
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":0,\"stage\":0,\"minibatch\":1048576}]]",
    ": device 0: node 0: minibatch 1048576 is not between 0 and 1048575" },
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":16384,\"stage\":0,\"minibatch\":0}]]",
    ": device 0: node 0: chunk 16384 is not between 0 and 16383" },
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":0,\"stage\":\"0\",\"minibatch\":0}]]",
    ": device 0: node 0: stage is no integer" },
  { "colossalai", "[[{\"type\":1}]]", ": device 0: node 0: type is no text" },
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":0,\"stage\":0,\"minibatch\":0,\"color\":1}]]",
    ": device 0: node 0: 'color' is no key of a scheduled node" },
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":0,\"stage\":0,\"minibatch\":0,\"chunk\":1}]]",
    ": device 0: node 0: chunk is there twice" },
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":9,\"stage\":0,\"minibatch\":9}]]",
    ": has 1 nodes, too few for 1 devices, 10 chunks and 10 microbatches" },
};

static void test_refusals (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++) {
    const PsFormat *format = format_named (refusals[i].format);
    g_autofree char *message = g_strconcat ("f", refusals[i].message, NULL);

    refused (format->read ("f", refusals[i].text, strlen (refusals[i].text), &error), PS_ERROR_INPUT, message);
  }
}

/* 0B0 needs 1B0, which comes after 1F1, which needs 0F1, which comes after 0B0. */
static void test_deadlock (void)
{
  static const char text[]
      = "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1";

  refused (format_named ("torch-comms")->read ("f", text, strlen (text), &error), PS_ERROR_INPUT,
           "f: deadlock: *device 0 waits at op 1 (BW0.0) for B0.1 of device 1*device 1 waits at op 1 (F1.1) for F1.0 "
           "of device 0*");
}

static void assert_recognised (const char *text, const char *format)
{
  g_autoptr (GError) error = NULL;
  const PsFormat *found = ps_format_recognise ("f", text, strlen (text), &error);

  g_assert_cmpstr (found ? found->name : "", ==, format);
  g_assert_true ((found == NULL) == (error != NULL));
}

static void test_recognise (void)
{
  assert_recognised (" {}", "native");
  assert_recognised ("\n[[", "colossalai");
  assert_recognised ("0F0,0B0", "torch-compute");
  assert_recognised (",0F0", "torch-compute");
  assert_recognised ("(0F0;1B0)OVERLAP_F_B", "torch-compute");
  assert_recognised ("0UNSHARD,0F0", "torch-comms-2.14");
  assert_recognised ("0F0,0SEND_F0", "torch-comms-2.14");
  assert_recognised ("0F0,0SEND_F0,0WAIT_SEND_F0", "torch-comms");
  assert_recognised ("", "");
  assert_recognised ("hello", "");
  refused (ps_format_find ("torch-csv", &error), PS_ERROR_USAGE,
           "--to: 'torch-csv' is no format; there are native, torch-comms, torch-comms-2.14, torch-compute, "
           "colossalai, chrome-trace");
}

/* What formats cannot hold. */

static void assert_unwritable (const char *format, const PsSchedule *schedule, const char *message)
{
  refused (format_named (format)->write (schedule, &error), PS_ERROR_SCHEDULE, message);
}

static void test_unwritable (void)
{
  g_autoptr (PsSchedule) schedule = small_schedule (PS_PLACEMENT_BIDIRECTIONAL, 2, 1);
  g_autoptr (PsSchedule) loop = small_schedule (PS_PLACEMENT_LOOP, 1, 1);

  assert_unwritable ("torch-compute", schedule,
                     "PyTorch's formats cannot hold a stage on two devices (two weight copies)");
  assert_unwritable ("colossalai", schedule,
                     "colossalai cannot hold a placement that is neither a loop nor a V nor a wave");
  loop->n_slices = 2;
  assert_unwritable ("torch-comms", loop, "PyTorch's formats cannot hold sequence slices");
  assert_unwritable ("colossalai", loop, "colossalai cannot hold sequence slices");
  loop->n_slices = 1;
  loop->ops[0].kind = PS_OP_R;
  assert_unwritable ("torch-compute", loop, "PyTorch's formats cannot hold recomputation (R)");
  assert_unwritable ("colossalai", loop, "colossalai cannot hold recomputation (R)");
  loop->ops[0].kind = PS_OP_F;
  loop->ops[0].paired = 1;
  assert_unwritable ("colossalai", loop, "colossalai cannot hold overlapped pairs");
}

/* ColossalAI */

static const char worked_nodes[] = "[\n"
                                   "  [\n"
                                   "    {\"type\": \"F\", \"chunk\": 0, \"stage\": 0, \"minibatch\": 0},\n"
                                   "    {\"type\": \"SEND_FORWARD\", \"chunk\": 0, \"stage\": 0, \"minibatch\": 0},\n"
                                   "    {\"type\": \"RECV_FORWARD\", \"chunk\": 1, \"stage\": 0, \"minibatch\": 0},\n"
                                   "    {\"type\": \"F\", \"chunk\": 1, \"stage\": 0, \"minibatch\": 0},\n"
                                   "    {\"type\": \"BW\", \"chunk\": 1, \"stage\": 0, \"minibatch\": 0},\n"
                                   "    {\"type\": \"SEND_BACKWARD\", \"chunk\": 1, \"stage\": 0, \"minibatch\": 0},\n"
                                   "    {\"type\": \"RECV_BACKWARD\", \"chunk\": 0, \"stage\": 0, \"minibatch\": 0},\n"
                                   "    {\"type\": \"BW\", \"chunk\": 0, \"stage\": 0, \"minibatch\": 0}\n"
                                   "  ],\n"
                                   "  [\n"
                                   "    {\"type\": \"RECV_FORWARD\", \"chunk\": 0, \"stage\": 1, \"minibatch\": 0},\n"
                                   "    {\"type\": \"F\", \"chunk\": 0, \"stage\": 1, \"minibatch\": 0},\n"
                                   "    {\"type\": \"F\", \"chunk\": 1, \"stage\": 1, \"minibatch\": 0},\n"
                                   "    {\"type\": \"SEND_FORWARD\", \"chunk\": 1, \"stage\": 1, \"minibatch\": 0},\n"
                                   "    {\"type\": \"RECV_BACKWARD\", \"chunk\": 1, \"stage\": 1, \"minibatch\": 0},\n"
                                   "    {\"type\": \"BW\", \"chunk\": 1, \"stage\": 1, \"minibatch\": 0},\n"
                                   "    {\"type\": \"BW\", \"chunk\": 0, \"stage\": 1, \"minibatch\": 0},\n"
                                   "    {\"type\": \"SEND_BACKWARD\", \"chunk\": 0, \"stage\": 1, \"minibatch\": 0}\n"
                                   "  ]\n"
                                   "]\n";

static void test_colossalai (void)
{
  g_autoptr (PsSchedule) v = small_schedule (PS_PLACEMENT_V, 2, 2);
  g_autoptr (PsSchedule) loop = small_schedule (PS_PLACEMENT_LOOP, 2, 2);
  g_autofree char *v_text = write_as ("colossalai", v), *loop_text = write_as ("colossalai", loop);
  g_autoptr (PsSchedule) v_again = read_as ("colossalai", v_text), loop_again = read_as ("colossalai", loop_text);

  g_assert_cmpstr (v_text, ==, worked_nodes);
  g_assert_cmpint (v_again->placement->kind, ==, PS_PLACEMENT_V);
  g_assert_cmpint (loop_again->placement->kind, ==, PS_PLACEMENT_LOOP);
}

/* Without transfers two chunks mean a V; nodes that are no part of the order and the keys of other versions are passed
 * over. */
static void test_colossalai_bare (void)
{
  static const char text[]
      = "[[{\"type\":\"RECV_POST_VALIDATION\",\"chunk\":0,\"stage\":0,\"minibatch\":0,\"rollback\":false},"
        "{\"type\":\"F\",\"chunk\":0,\"stage\":0,\"minibatch\":0,\"start_time\":0,\"completion_time\":1.5,\"rollback\":"
        "false},"
        "{\"type\":\"F\",\"chunk\":1,\"stage\":0,\"minibatch\":0},{\"type\":\"B\",\"chunk\":1,\"stage\":0,"
        "\"minibatch\":0},"
        "{\"type\":\"W\",\"chunk\":1,\"stage\":0,\"minibatch\":0},{\"type\":\"BW\",\"chunk\":0,\"stage\":0,"
        "\"minibatch\":0}],"
        "[{\"type\":\"F\",\"chunk\":0,\"stage\":1,\"minibatch\":0},{\"type\":\"F\",\"chunk\":1,\"stage\":1,"
        "\"minibatch\":0},"
        "{\"type\":\"BW\",\"chunk\":1,\"stage\":1,\"minibatch\":0},{\"type\":\"BW\",\"chunk\":0,\"stage\":1,"
        "\"minibatch\":0}]]";
  g_autoptr (PsSchedule) schedule = read_as ("colossalai", text);

  g_assert_cmpint (schedule->placement->kind, ==, PS_PLACEMENT_V);
  g_assert_cmpuint (ps_schedule_n_ops (schedule), ==, 9);
  g_assert_cmpuint (schedule->ops[1].stage, ==, 3);
}

/* Round trips */

static void forget_origin (PsSchedule *schedule)
{
  g_clear_pointer (&schedule->origin, g_free);
  g_clear_pointer (&schedule->family, g_free);
  schedule->n_chunks = schedule->group_size = 0;
}

static void check_round_trip (const PsSchedule *schedule, const char *format)
{
  g_autofree char *text = write_as (format, schedule), *native = NULL, *native_again = NULL;
  g_autoptr (PsSchedule) again = read_as (format, text), before = ps_schedule_copy (schedule);

  /* Foreign files know neither. */
  if (!g_str_equal (format, "native"))
    forget_origin (before);
  g_free (before->name);
  before->name = g_strdup (again->name);
  native = ps_schedule_to_json (before);
  native_again = ps_schedule_to_json (again);
  g_assert_cmpstr (native, ==, native_again);
}

static gboolean can_write (const PsSchedule *schedule, const char *format)
{
  g_autofree char *text = format_named (format)->write (schedule, NULL);

  return text != NULL;
}

static void check_round_trips (const PsSchedule *schedule)
{
  static const char *const formats[] = { "native", "torch-compute", "torch-comms", "colossalai" };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (can_write (schedule, formats[i]))
      check_round_trip (schedule, formats[i]);
  g_assert_true (can_write (schedule, "chrome-trace"));
}

static void test_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (19);

  for (guint i = 0; i < 300; i++) {
    g_autoptr (PsSchedule) schedule = random_schedule (rand, i % 2);

    check_round_trips (schedule);
  }
}

static void test_families (void)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    for (guint p = 1; p <= 4; p++)
      for (guint m = 1; m <= 8; m++) {
        PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = families[i]->default_chunks };
        g_autoptr (PsSchedule) schedule = ps_family_generate (families[i], &setting, NULL);

        if (schedule != NULL)
          check_round_trips (schedule);
      }
}

/* A schedule as a trace: a microsecond for F, B and W, two for a BW, and none for messages. */
static void test_chrome_trace (void)
{
  static const char *const names[] = { "zb-h1", "1f1b" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    PsFamilySetting setting = { .n_devices = 3, .n_microbatches = 4, .n_chunks = 1 };
    g_autoptr (PsSchedule) schedule = ps_family_generate (ps_family_find (names[i]), &setting, NULL);
    g_autofree char *text = write_as ("chrome-trace", schedule);
    const PsTraceFile file = { .name = "t.json", .text = text, .length = strlen (text) };
    g_autoptr (GPtrArray) timelines = fine (ps_timelines_parse ("t.json", &file, 1, &error));
    const PsTimeline *timeline = timelines->pdata[0];

    g_assert_cmpuint (timeline->ops->len, ==, ps_schedule_n_ops (schedule));
    for (guint k = 0; k < timeline->ops->len; k++) {
      const PsSpan *span = &g_array_index (timeline->ops, PsSpan, k);

      g_assert_cmpint (span->end_ns - span->start_ns, ==, span->op.kind == PS_OP_BW ? 2000 : 1000);
    }
    for (guint k = 0; k < timeline->transfers->len; k++)
      g_assert_cmpint (g_array_index (timeline->transfers, PsSpan, k).start_ns, ==,
                       g_array_index (timeline->transfers, PsSpan, k).end_ns);
    /* 1F1B: 4 F and 4 BW of 3 us, and two devices to fill and to drain. */
    if (i == 1)
      g_assert_cmpint (timeline->iteration_ns, ==, 3000 * (4 + 2));
  }
}

/* A file that says where its schedule comes from is believed; of another the place and the format are said. */
static void test_origin (void)
{
  g_autoptr (PsSchedule) schedule = small_schedule (PS_PLACEMENT_LOOP, 1, 1);
  g_autofree char *folder = fine (g_dir_make_tmp ("pipesim-formats-XXXXXX", &error));
  g_autofree char *path = g_build_filename (folder, "s", NULL);

  for (guint i = 0; i < 3; i++) {
    static const char *const formats[] = { "native", "native", "torch-compute" };

    g_free (schedule->origin);
    schedule->origin = i == 0 ? g_strdup ("by hand") : NULL;
    g_autofree char *text = write_as (formats[i], schedule);
    g_autofree char *expected = i == 0 ? g_strdup ("by hand") : g_strdup_printf ("read from %s (%s)", path, formats[i]);

    fine (ps_write_file (path, text, -1, &error));
    g_autoptr (PsSchedule) read = fine (ps_format_read (path, &error));
    g_assert_cmpstr (read->origin, ==, expected);
  }
  fine (ps_write_file (path, "{\"format\": 1}", -1, &error));
  refused (ps_format_read (path, &error), PS_ERROR_INPUT, "*/s: format: *");
  g_assert_cmpint (unlink (path) + rmdir (folder), ==, 0);
  refused (ps_format_read (path, &error), PS_ERROR_IO, "*");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/formats/refusals", test_refusals);
  g_test_add_func ("/formats/deadlock", test_deadlock);
  g_test_add_func ("/formats/recognise", test_recognise);
  g_test_add_func ("/formats/unwritable", test_unwritable);
  g_test_add_func ("/formats/colossalai/worked", test_colossalai);
  g_test_add_func ("/formats/colossalai/bare", test_colossalai_bare);
  g_test_add_func ("/formats/round-trip/random", test_random);
  g_test_add_func ("/formats/round-trip/families", test_families);
  g_test_add_func ("/formats/chrome-trace", test_chrome_trace);
  g_test_add_func ("/formats/origin", test_origin);
  return g_test_run ();
}

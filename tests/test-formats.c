/* Tests of the schedule formats of formats.h: PyTorch's own files byte for byte, worked examples, refusals, round
 * trips, lint. Timelines from traces are in test-trace.c. */
#include "random-schedule.h"
#include <pipesim/families.h>
#include <pipesim/formats.h>

#include <stdlib.h>
#include <string.h>

static const PsFormat *
format_named (const char *name)
{
  g_autoptr (GError) error = NULL;
  const PsFormat *format = ps_format_find (name, &error);

  g_assert_no_error (error);
  return format;
}

static PsSchedule *
read_as (const char *format, const char *text)
{
  g_autoptr (GError) error = NULL;
  PsSchedule *schedule = format_named (format)->read ("test.csv", text, strlen (text), &error);

  g_assert_no_error (error);
  ps_schedule_validate (schedule, &error);
  g_assert_no_error (error);
  return schedule;
}

static char *
write_as (const char *format, const PsSchedule *schedule)
{
  g_autoptr (GError) error = NULL;
  char *text = format_named (format)->write (schedule, NULL, &error);

  g_assert_no_error (error);
  return text;
}

/* PyTorch's files: the fixtures are a choice of those in the reference folder, which a checkout of its own lacks. */

static const char *const sample_folders[] = { "fixtures/torch", "../../shared/reference/pytorch" };

typedef struct
{
  char *compute;
  char *comms;
} Sample;

static void
sample_clear (Sample *sample)
{
  g_free (sample->compute);
  g_free (sample->comms);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Sample, sample_clear)

/* name: "1F1B_p4_v1_m8_compute.csv" */
static Sample
load_sample (const char *folder, const char *name)
{
  g_autofree char *compute = g_build_filename (folder, name, NULL);
  g_autoptr (GString) comms = g_string_new (compute);
  Sample sample = { 0 };

  g_string_replace (comms, "_compute.csv", "_comms.csv", 0);
  g_assert_true (g_file_get_contents (compute, &sample.compute, NULL, NULL));
  g_assert_true (g_file_get_contents (comms->str, &sample.comms, NULL, NULL));
  return sample;
}

static void
check_sample (const char *folder, const char *name)
{
  g_auto (Sample) sample = load_sample (folder, name);
  g_autoptr (PsSchedule) compute = read_as ("torch-compute", sample.compute);
  g_autoptr (PsSchedule) comms = read_as ("torch-comms", sample.comms);
  g_autofree char *compute_again = write_as ("torch-compute", compute), *lowered = write_as ("torch-comms", compute);
  g_autofree char *comms_again = write_as ("torch-comms", comms), *raised = write_as ("torch-compute", comms);

  g_assert_cmpstr (compute_again, ==, sample.compute);
  g_assert_cmpstr (lowered, ==, sample.comms);
  g_assert_cmpstr (comms_again, ==, sample.comms);
  g_assert_cmpstr (raised, ==, sample.compute);
}

/* Which of our families PyTorch's classes are. */
static const struct
{
  const char *class;
  const char *family;
} classes[] = {
  { "GPipe", "gpipe" },
  { "1F1B", "1f1b" },
  { "Interleaved1F1B", "interleaved" },
  { "LoopedBFS", "looped-bfs" },
  { "InterleavedZeroBubble", "interleaved-zb" },
  { "ZBVZeroBubble", "zb-v" },
  { "DualPipeV", "dualpipe-v" },
};

static const PsFamily *
family_of (const char *class)
{
  for (guint i = 0; i < G_N_ELEMENTS (classes); i++)
    if (g_str_equal (classes[i].class, class))
      return ps_family_find (classes[i].family);
  g_assert_not_reached ();
}

/* TRUE when the family is in the table; then its order is PyTorch's. */
static gboolean
check_family (const char *folder, const char *name)
{
  g_auto (Sample) sample = load_sample (folder, name);
  g_auto (GStrv) parts = g_strsplit (name, "_", -1);
  const PsFamily *family = family_of (parts[0]);
  PsFamilySetting setting = { .n_devices = (guint)atoi (parts[1] + 1), .n_chunks = (guint)atoi (parts[2] + 1) };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSchedule) schedule = NULL;
  g_autofree char *compute = NULL, *comms = NULL;

  if (family == NULL)
    return FALSE;
  setting.n_microbatches = (guint)atoi (parts[3] + 1);
  schedule = ps_family_generate (family, &setting, &error);
  g_assert_no_error (error);
  compute = write_as ("torch-compute", schedule);
  comms = write_as ("torch-comms", schedule);
  g_assert_cmpstr (compute, ==, sample.compute);
  g_assert_cmpstr (comms, ==, sample.comms);
  return TRUE;
}

static void
test_samples (gconstpointer data)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, (const char *)data, NULL);
  g_autoptr (GDir) directory = g_dir_open (folder, 0, NULL);
  guint n = 0, of_families = 0;
  const char *name;

  if (directory == NULL)
    {
      g_test_skip ("no reference files beside this checkout");
      return;
    }
  while ((name = g_dir_read_name (directory)) != NULL)
    if (g_str_has_suffix (name, "_compute.csv"))
      {
        g_test_message ("%s", name);
        check_sample (folder, name);
        of_families += check_family (folder, name);
        n++;
      }
  g_assert_cmpuint (n, >=, 5);
  g_assert_cmpuint (of_families, >=, 2);
  g_test_message ("%u samples, %u of our families", n, of_families);
}

/* A worked example: two ranks, two microbatches. Rank 0 takes the first turn of each round; a receive is noted the
 * moment its send is. */
static void
test_worked (void)
{
  static const char compute[] = "0F0,0F1,0I0,0W0,0B1\r\n"
                                "1F0,1I0,1F1,1W0,1B1\r\n";
  /* round: 0UNSHARD 1UNSHARD | 0F0 -> 1RECV_F0, then rank 1 takes its turn: 1F0 | 0F1 -> 1RECV_F1; 1I0 -> 0RECV_B0 |
   * 0I0; 1F1 | 0W0; 1W0 | rank 0 waits; 1B1 -> 0RECV_B1; | 0B1; 1REDUCE_GRAD | ... */
  static const char comms[]
      = "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\r\n"
        "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1I0,1SEND_B0,1F1,1W0,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\r\n";
  g_autoptr (PsSchedule) schedule = read_as ("torch-compute", compute);
  g_autofree char *lowered = write_as ("torch-comms", schedule);

  g_assert_cmpstr (lowered, ==, comms);
  g_assert_cmpuint (schedule->placement->n_devices, ==, 2);
  g_assert_cmpuint (schedule->n_microbatches, ==, 2);
  g_assert_cmpint (schedule->ops[2].kind, ==, PS_OP_B);
  g_assert_cmpint (schedule->ops[4].kind, ==, PS_OP_BW);
  g_assert_cmpstr (schedule->name, ==, "test");
}

/* Four stages on one rank: three have their weights gathered at a time. In front of 0F1 the pair fills the window with
 * both its stages, so that all four are. */
static void
test_worked_weights (void)
{
  static const char compute[] = "0F0,1F0,2F0,3F0,0F1,1F1,(2F1;3B0)OVERLAP_F_B,3F1,2B0,1B0,0B0,3B1,2B1,1B1,0B1\r\n";
  static const char comms[]
      = "0UNSHARD,1UNSHARD,2UNSHARD,0F0,0RESHARD,3UNSHARD,1F0,1RESHARD,0UNSHARD,2F0,2RESHARD,1UNSHARD,3F0,"
        "2UNSHARD,0F1,0RESHARD,1F1,(2F1;3B0)OVERLAP_F_B,3F1,3RESHARD,0UNSHARD,2B0,2RESHARD,3UNSHARD,1B0,"
        "1RESHARD,2UNSHARD,0B0,0RESHARD,1UNSHARD,3B1,3REDUCE_GRAD,3RESHARD,0UNSHARD,2B1,2REDUCE_GRAD,"
        "2RESHARD,1B1,1REDUCE_GRAD,1RESHARD,0B1,0REDUCE_GRAD,0RESHARD\r\n";
  g_autoptr (PsSchedule) schedule = read_as ("torch-compute", compute);
  g_autofree char *lowered = write_as ("torch-comms", schedule);

  g_assert_cmpstr (lowered, ==, comms);
}

/* Pairs, a V, blanks, spaces, quotes, bare newlines and a missing one at the end. */
static void
test_lenient (void)
{
  static const char text[] = "0F0, 0F1,,\"3F0\",( 3F1 ; 3B0 )OVERLAP_F_B,0B0,3B1,0B1\n"
                             "1F0,2F0,1F1,2F1,,2B0,1B0,2B1,1B1,";
  g_autoptr (PsSchedule) schedule = read_as ("torch-compute", text);
  g_autofree char *again = write_as ("torch-compute", schedule);

  g_assert_cmpint (schedule->placement->kind, ==, PS_PLACEMENT_V);
  g_assert_true (schedule->ops[3].paired && !schedule->ops[4].paired);
  g_assert_cmpstr (again, ==,
                   "0F0,0F1,3F0,(3F1;3B0)OVERLAP_F_B,0B0,3B1,0B1\r\n"
                   "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\r\n");
}

static const struct
{
  const char *format;
  const char *text;
  const char *message; /* behind "f" */
} refusals[] = {
  { "torch-compute", "", ": is empty; a line of actions per rank would be right" },
  { "torch-compute", "0F0,0B0\r\n\r\n", ":2: is a line without actions; each line is a rank" },
  { "torch-compute", "0F0junk,0B0", ":1:1: '0F0junk' goes on behind the end of the action" },
  { "torch-compute", "0F0,0BW0", ":1:2: '0BW0' has no microbatch number" },
  { "torch-compute", "0F0,0B", ":1:2: '0B' has no microbatch number" },
  { "torch-compute", "0F0,0X0", ":1:2: '0X0' has no type that PyTorch knows, such as F, I, B or W" },
  { "torch-compute", "F0,0B0", ":1:1: 'F0' begins with no stage number; an action looks like 0F3" },
  { "torch-compute", "-1F0", ":1:1: '-1F0' begins with no stage number; an action looks like 0F3" },
  { "torch-compute", "0F0,0B0,0F0", ":1:3: 0F0: is there twice" },
  { "torch-compute", "0F0,0B0,0I0", ":1:3: 0I0: its backward is there already" },
  { "torch-compute", "0F0,0B0,0W0", ":1:3: 0W0: its weights are done by the full backward B already" },
  { "torch-compute", "0F0,0W0,0I0", ":1:2: 0W0: comes before its I" },
  { "torch-compute", "0B0,0F0", ":1:1: 0B0: comes before its F" },
  { "torch-compute", "0F0,0I0", ":1: has no W of microbatch 0 on stage 0; microbatches go up to 0" },
  { "torch-compute", "0F0,0B0,0F2,0B2", ":1: has no F of microbatch 1 on stage 0; microbatches go up to 2" },
  { "torch-compute", "0F5,0B5", ": has 2 actions, but 1 stages and microbatches up to 5 want 6 forwards" },
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
  { "torch-comms", "0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", ":2:1: 1RECV_F0: has no SEND on the other rank" },
  { "torch-comms", "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0", ":1:2: 0SEND_F0: has no RECV on the other rank" },
  { "torch-comms", "0F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0", ":2:1: 1F0: has no RECV of what stage 0 makes" },
  { "torch-comms", "0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0",
    ":1:1: 0SEND_F0: comes before the action that makes what it sends" },
  { "torch-comms", "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0",
    ":2:2: 1RECV_F0: comes behind the action that needs it" },
  { "torch-comms", "0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", ":1:3: 0SEND_F0: is there twice" },
  /* 0B0 needs 1B0, which comes behind 1F1, which needs 0F1, which comes behind 0B0 */
  { "torch-comms",
    "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1",
    ": deadlock: rank 0 waits at cell 4 (0B0) for cell 3 (0RECV_B0), rank 1 waits at cell 4 (1F1) for cell 3 "
    "(1RECV_F1)" },
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
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":0,\"stage\":0,\"minibatch\":0,\"color\":1}]]",
    ": device 0: node 0: 'color' is no key of a scheduled node" },
  { "colossalai", "[[{\"type\":\"F\",\"chunk\":9,\"stage\":0,\"minibatch\":9}]]",
    ": has 1 nodes, too few for 1 devices, 10 chunks and 10 microbatches" },
};

static void
test_refusals (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      const PsFormat *format = format_named (refusals[i].format);
      g_autoptr (GError) error = NULL;
      g_autofree char *message = g_strconcat ("f", refusals[i].message, NULL);

      g_assert_null (format->read ("f", refusals[i].text, strlen (refusals[i].text), &error));
      g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
      g_assert_cmpstr (error->message, ==, message);
    }
}

static void
assert_recognised (const char *text, const char *format)
{
  g_autoptr (GError) error = NULL;
  const PsFormat *found = ps_format_recognise ("f", text, strlen (text), &error);

  g_assert_cmpstr (found ? found->name : "", ==, format);
  g_assert_true ((found == NULL) == (error != NULL));
}

static void
test_recognise (void)
{
  g_autoptr (GError) error = NULL;

  assert_recognised (" {}", "native");
  assert_recognised ("\n[[", "colossalai");
  assert_recognised ("0F0,0B0", "torch-compute");
  assert_recognised (",0F0", "torch-compute");
  assert_recognised ("(0F0;1B0)OVERLAP_F_B", "torch-compute");
  assert_recognised ("0UNSHARD,0F0", "torch-comms");
  assert_recognised ("0F0,0SEND_F0", "torch-comms");
  assert_recognised ("", "");
  assert_recognised ("hello", "");
  g_assert_null (ps_format_find ("torch-csv", &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
  g_assert_cmpstr (
      error->message, ==,
      "--to: 'torch-csv' is no format; there are native, torch-comms, torch-compute, colossalai, chrome-trace");
}

/* What formats cannot hold. */

static void
assert_unwritable (const char *format, const PsSchedule *schedule, const char *message)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (format_named (format)->write (schedule, NULL, &error));
  g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
  g_assert_cmpstr (error->message, ==, message);
}

/* F and BW of every microbatch on one device with all stages. */
static PsSchedule *
small_schedule (PsPlacementKind kind, guint n_devices, guint n_chunks)
{
  PsPlacement *placement = ps_placement_new (kind, n_devices, n_chunks);
  guint n_stages = placement->n_stages;
  PsScheduleBuilder *builder = ps_schedule_builder_new ("small", placement, 1);

  for (guint d = 0; d < n_devices; d++)
    {
      for (guint stage = 0; stage < n_stages; stage++)
        if (ps_placement_device (placement, 0, stage) == d)
          ps_schedule_builder_add (builder, PS_OP_F, stage, 0);
      for (guint stage = n_stages; stage-- > 0;)
        if (ps_placement_device (placement, 0, stage) == d)
          ps_schedule_builder_add (builder, PS_OP_BW, stage, 0);
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

static void
test_unwritable (void)
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

static void
test_colossalai (void)
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
static void
test_colossalai_bare (void)
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

static void
check_round_trip (const PsSchedule *schedule, const char *format)
{
  g_autofree char *text = write_as (format, schedule), *native = NULL, *native_again = NULL;
  g_autoptr (PsSchedule) again = read_as (format, text), before = ps_schedule_copy (schedule);

  g_free (before->name);
  before->name = g_strdup (again->name);
  native = ps_schedule_to_json (before);
  native_again = ps_schedule_to_json (again);
  g_assert_cmpstr (native, ==, native_again);
}

static gboolean
can_write (const PsSchedule *schedule, const char *format)
{
  g_autofree char *text = format_named (format)->write (schedule, NULL, NULL);

  return text != NULL;
}

static void
check_round_trips (const PsSchedule *schedule)
{
  static const char *const formats[] = { "native", "torch-compute", "torch-comms", "colossalai" };
  gboolean versions = schedule->asynchronous || schedule->weight_versions;

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (can_write (schedule, formats[i]) && (i == 0 || !versions))
      check_round_trip (schedule, formats[i]);
  g_assert_true (can_write (schedule, "chrome-trace"));
}

static void
test_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (19);

  for (guint i = 0; i < 300; i++)
    {
      g_autoptr (PsSchedule) schedule = random_schedule (rand, i % 2);

      check_round_trips (schedule);
    }
}

static void
test_families (void)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    for (guint p = 1; p <= 4; p++)
      for (guint m = 1; m <= 8; m++)
        {
          PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = families[i]->default_chunks };
          g_autoptr (PsSchedule) schedule = ps_family_generate (families[i], &setting, NULL);

          if (schedule)
            check_round_trips (schedule);
        }
}

/* Lint */

static void
assert_findings (GPtrArray *findings, guint n, const char *const *expected)
{
  for (guint i = 0; i < findings->len; i++)
    g_test_message ("%s", (const char *)g_ptr_array_index (findings, i));
  g_assert_cmpuint (findings->len, ==, n);
  for (guint i = 0; i < n; i++)
    g_assert_nonnull (strstr (g_ptr_array_index (findings, i), expected[i]));
  g_ptr_array_unref (findings);
}

#define ASSERT_FINDINGS(findings, ...)                                                                                 \
  do                                                                                                                   \
    {                                                                                                                  \
      static const char *const expected[] = { __VA_ARGS__ };                                                           \
      assert_findings (findings, G_N_ELEMENTS (expected), expected);                                                   \
    }                                                                                                                  \
  while (0)

static GPtrArray *
lint_text (const char *text)
{
  g_autoptr (GError) error = NULL;
  GPtrArray *findings = ps_torch_lint_comms ("f", text, strlen (text), &error);

  g_assert_no_error (error);
  return findings;
}

static void
test_lint_schedules (void)
{
  g_autoptr (PsSchedule) loop = small_schedule (PS_PLACEMENT_LOOP, 2, 1), v = small_schedule (PS_PLACEMENT_V, 2, 2);
  g_autoptr (PsSchedule) wave = small_schedule (PS_PLACEMENT_WAVE, 2, 3);
  g_autoptr (PsSchedule) two = small_schedule (PS_PLACEMENT_BIDIRECTIONAL, 2, 1);
  GPtrArray *none = ps_torch_lint (loop);

  g_assert_cmpuint (none->len, ==, 0);
  g_ptr_array_unref (none);
  ASSERT_FINDINGS (ps_torch_lint (v), "only under the schedule name ZBVZeroBubble or DualPipeV");
  ASSERT_FINDINGS (ps_torch_lint (wave), "placement wave: torchtitan cannot load it");
  ASSERT_FINDINGS (ps_torch_lint (two), "a stage lies on two devices");
  loop->weight_versions = g_new (guint, 2);
  loop->weight_versions[0] = 2;
  loop->weight_versions[1] = 1;
  ASSERT_FINDINGS (ps_torch_lint (loop), "several weight versions");
  loop->asynchronous = TRUE;
  ASSERT_FINDINGS (ps_torch_lint (loop), "asynchronous");
}

static void
test_lint_comms (void)
{
  ASSERT_FINDINGS (lint_text ("0UNSHARD,0F0,0B0,0RESHARD"),
                   "rank 0: no 0REDUCE_GRAD behind the last backward of stage 0");
  ASSERT_FINDINGS (lint_text ("0UNSHARD,0F0,0REDUCE_GRAD,0B0,0RESHARD"), "rank 0: no 0REDUCE_GRAD behind");
  ASSERT_FINDINGS (lint_text ("0UNSHARD,0F0,0RESHARD,0B0,0REDUCE_GRAD"),
                   "rank 0: cell 4: stage 0 is used without 0UNSHARD");
  /* The receive of 0B0 comes in front of 0F1. */
  ASSERT_FINDINGS (lint_text ("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
                              "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD"),
                   "1 receives stand in front of computations that do not need them (most on rank 0: 1)");
}

/* Rank 0 sends F1 before it receives B0; rank 1 sends B0 before it receives F1. Over one channel each waits for the
 * other's first; over one channel per direction they pass. */
static void
test_lint_deadlock (void)
{
  ASSERT_FINDINGS (
      lint_text ("0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
                 "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD"),
      "deadlock with one communicator per pair of ranks (the default): rank 0 waits at cell 7 (0B0) for cell 6 "
      "(0RECV_B0), rank 1 waits at cell 7 (1F1) for cell 6 (1RECV_F1)",
      "deadlock with one in-order stream per rank: rank 0 waits at cell 7");
}

/* What we write never deadlocks, in whatever way transfers share channels. */
static void
test_lint_written (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (23);

  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (PsSchedule) schedule = random_schedule (rand, i % 2);
      g_autoptr (GPtrArray) findings = ps_torch_lint (schedule);

      for (guint k = 0; k < findings->len; k++)
        {
          g_assert_null (strstr (g_ptr_array_index (findings, k), "deadlock"));
          g_assert_null (strstr (g_ptr_array_index (findings, k), "REDUCE_GRAD"));
          g_assert_null (strstr (g_ptr_array_index (findings, k), "UNSHARD"));
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/formats/torch/fixtures", sample_folders[0], test_samples);
  g_test_add_data_func ("/formats/torch/reference", sample_folders[1], test_samples);
  g_test_add_func ("/formats/torch/worked", test_worked);
  g_test_add_func ("/formats/torch/worked-weights", test_worked_weights);
  g_test_add_func ("/formats/torch/lenient", test_lenient);
  g_test_add_func ("/formats/refusals", test_refusals);
  g_test_add_func ("/formats/recognise", test_recognise);
  g_test_add_func ("/formats/unwritable", test_unwritable);
  g_test_add_func ("/formats/colossalai/worked", test_colossalai);
  g_test_add_func ("/formats/colossalai/bare", test_colossalai_bare);
  g_test_add_func ("/formats/round-trip/random", test_random);
  g_test_add_func ("/formats/round-trip/families", test_families);
  g_test_add_func ("/formats/lint/schedules", test_lint_schedules);
  g_test_add_func ("/formats/lint/comms", test_lint_comms);
  g_test_add_func ("/formats/lint/deadlock", test_lint_deadlock);
  g_test_add_func ("/formats/lint/written", test_lint_written);
  return g_test_run ();
}

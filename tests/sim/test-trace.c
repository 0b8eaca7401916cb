/* Tests of formats.h: traces of PyTorch's profiler and Chrome traces that pipesim wrote, and what of them is refused.
 */
#include "base/files.h"
#include "error-rig.h"
#include "lower.h"
#include "random-schedule.h"

#include <pipesim/formats.h>
#include <pipesim/observe.h>

#include <glib/gstdio.h>
#include <string.h>

static GPtrArray *parse_all (const char *where, const char *const *names, const char *const *texts, guint n,
                             GError **error)
{
  g_autofree PsTraceFile *files = g_new (PsTraceFile, n);

  for (guint i = 0; i < n; i++)
    files[i] = (PsTraceFile){ .name = names[i], .text = texts[i], .length = strlen (texts[i]) };
  return ps_timelines_parse (where, files, n, error);
}

static PsTimeline *parse (const char *where, const char *const *names, const char *const *texts, guint n,
                          GError **error)
{
  GPtrArray *timelines = parse_all (where, names, texts, n, error);

  return timelines != NULL ? ps_timelines_median (timelines) : NULL;
}

static PsTimeline *parse_one (const char *text, GError **error)
{
  const char *name = "trace.json";

  return parse (name, &name, &text, 1, error);
}

static void assert_span (const PsTimeline *timeline, guint i, guint device, const char *op, gint64 start_ns,
                         gint64 end_ns)
{
  const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);
  char name[48];

  g_assert_cmpuint (span->device, ==, device);
  g_assert_cmpstr (ps_op_format (span->op, name), ==, op);
  g_assert_cmpint (span->start_ns, ==, start_ns);
  g_assert_cmpint (span->end_ns, ==, end_ns);
}

#define RANGE(cat, name, pid, tid, ts, dur)                                                                            \
  "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":" #pid ",\"tid\":" #tid ",\"ts\":" #ts              \
  ",\"dur\":" #dur "}"

/* Traces of PyTorch's profiler */

/* Three complete iterations of 10.25, 9.25 and 9.75 us and the beginning of a fourth: the third is the median one.
 * Every op begins a quarter of a microsecond after its range. The ranks stand in the files, whose names are in the
 * other order. */
static void test_profiler_folder (void)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "fixtures", "profiler", NULL);
  g_autoptr (PsTimeline) timeline = fine (ps_timeline_load (folder, &error));

  g_assert_cmpint (timeline->origin, ==, PS_ORIGIN_MEASURED);
  g_assert_cmpstr (timeline->source, ==, "PyTorch profiler, processor, iteration 3 of 3");
  g_assert_cmpuint (timeline->n_devices, ==, 2);
  g_assert_cmpuint (timeline->n_stages, ==, 2);
  g_assert_cmpuint (timeline->n_microbatches, ==, 2);
  g_assert_cmpint (timeline->iteration_ns, ==, 9750);
  g_assert_cmpuint (timeline->ops->len, ==, 8);
  assert_span (timeline, 0, 0, "F0.0", 0, 750);
  assert_span (timeline, 2, 0, "BW0.0", 4500, 6250);
  assert_span (timeline, 3, 0, "BW1.0", 7500, 9750);
  assert_span (timeline, 4, 1, "F0.1", 1500, 2250);
  assert_span (timeline, 7, 1, "BW1.1", 5500, 7250);
}

static void test_profiler_compare (void)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "fixtures", "profiler", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) measured = ps_timeline_load (folder, &error);
  g_autoptr (PsTimeline) predicted = ps_timeline_load (folder, &error);
  g_autoptr (PsComparison) comparison = NULL, missing = NULL;

  predicted->origin = PS_ORIGIN_SIMULATED;
  comparison = fine (ps_compare (predicted, measured, &error));
  g_assert_cmpfloat (comparison->iteration_error, ==, 0);
  g_array_set_size (measured->ops, 7);
  missing = ps_compare (predicted, measured, &error);
  assert_error (&error, PS_ERROR_INPUT, "device 1: only the predicted timeline has BW1.1");
}

/* One file, a process per rank; ranges of the GPU on two streams, of which the fuller counts; the pair is one range,
 * the action nested in it is left out; a V, so rank 0 has chunks 0 and 1. */
static void test_gpu (void)
{
  static const char text[] = "[" RANGE ("user_annotation", "PP:0F0", 3, 1, 0, 1) "," RANGE (
      "gpu_user_annotation", "PP:0F0", 3, 7, 10,
      1) "," RANGE ("gpu_user_annotation", "PP:0F0", 3, 8, 10.5,
                    0.1) "," RANGE ("gpu_user_annotation", "PP:3F0", 3, 7, 15,
                                    1) "," RANGE ("gpu_user_annotation", "PP:(0F1;3B0)OVERLAP_F_B", 3, 7, 16.5,
                                                  2.25) "," RANGE ("gpu_user_annotation", "PP:0F1", 3, 7, 17,
                                                                   1) "," RANGE ("gpu_user_annotation", "PP:1F0", 5, 7,
                                                                                 12,
                                                                                 1) "," RANGE ("gpu_user_annotation",
                                                                                               "PP:2I0", 5, 7, 19,
                                                                                               1) "]";
  g_autoptr (PsTimeline) timeline = fine (parse_one (text, &error));

  g_assert_cmpuint (timeline->n_devices, ==, 2);
  g_assert_cmpuint (timeline->n_stages, ==, 4);
  g_assert_cmpuint (timeline->ops->len, ==, 6);
  assert_span (timeline, 0, 0, "F0.0", 0, 1000);
  assert_span (timeline, 1, 0, "F0.3", 5000, 6000);
  assert_span (timeline, 2, 0, "F1.0", 6500, 8750);
  assert_span (timeline, 3, 0, "BW0.3", 6500, 8750);
  assert_span (timeline, 4, 1, "F0.1", 2000, 3000);
  assert_span (timeline, 5, 1, "B0.2", 9000, 10000);
  const PsSpan *spans = (const PsSpan *)(gconstpointer)timeline->ops->data;
  g_assert_true (spans[2].op.paired && !spans[3].op.paired);
  g_assert_cmpuint (spans[0].chunk, ==, 0);
  g_assert_cmpuint (spans[1].chunk, ==, 1);
  g_assert_cmpuint (spans[5].chunk, ==, 1);
}

/* The B waits for its receive until its first op, which another thread runs; the second stage 0 B has no op, so
 * computes nothing at its end. Waits of PyTorch 2.15, and ops of other processes, count for nothing. */
static void test_waiting (void)
{
  static const char text[]
      = "[" RANGE ("user_annotation", "PP:0F0", 3, 1, 0, 4) "," RANGE ("cpu_op", "aten::mm", 4, 1, 0.5, 1) "," RANGE (
          "cpu_op", "aten::mm", 3, 1, 1,
          1) "," RANGE ("user_annotation", "PP:0WAIT_SEND_F0", 3, 1, 4,
                        1) "," RANGE ("user_annotation", "PP:0I0", 3, 1, 5,
                                      4) "," RANGE ("cpu_op", "aten::mm", 3, 2, 8,
                                                    1) "," RANGE ("user_annotation", "PP:0I1", 3, 1, 10, 2) "]";
  g_autoptr (PsTimeline) timeline = fine (parse_one (text, &error));

  g_assert_cmpuint (timeline->ops->len, ==, 3);
  assert_span (timeline, 0, 0, "F0.0", 0, 3000);
  assert_span (timeline, 1, 0, "B0.0", 7000, 8000);
  assert_span (timeline, 2, 0, "B1.0", 11000, 11000);
  g_assert_cmpint (timeline->iteration_ns, ==, 11000);
}

/* Checks a post or a wait. */
static void assert_held (const GArray *spans, guint i, guint device, guint post, const char *op, gint64 start_ns,
                         gint64 end_ns)
{
  const PsSpan *span = &g_array_index (spans, PsSpan, i);
  char name[48];

  g_assert_cmpuint (span->device, ==, device);
  g_assert_cmpuint (span->peer, ==, device);
  g_assert_cmpuint (span->post, ==, post);
  g_assert_cmpstr (ps_op_format (span->op, name), ==, op);
  g_assert_cmpint (span->start_ns, ==, start_ns);
  g_assert_cmpint (span->end_ns, ==, end_ns);
}

/* Rank 1 receives F0.0 before its first op and waits for it until gloo:recv has ended; stage 2 on the same rank waits
 * for no message. Both ranks' posts and the wait for a send are those of their iteration; the first part of the receive
 * is before its start. */
static void test_posts_and_waits (void)
{
  static const char *const names[] = { "rank0.json", "rank1.json" };
  static const char *const texts[] = {
    "[" RANGE ("user_annotation", "PP:0F0", 1, 1, 10, 4) "," RANGE ("cpu_op", "aten::mm", 1, 1, 10, 4) ","
    /* */ RANGE ("user_annotation", "PP:0SEND_F0", 1, 1, 15, 1) ","
    /* */ RANGE ("user_annotation", "PP:0WAIT_SEND_F0", 1, 1, 18, 3) ","
    /* */ RANGE ("user_annotation", "PP:0F0", 1, 1, 110, 4) "," RANGE ("cpu_op", "aten::mm", 1, 1, 110, 4) ","
    /* */ RANGE ("user_annotation", "PP:0SEND_F0", 1, 1, 116, 1) "]",
    "[" RANGE ("user_annotation", "PP:1RECV_F0", 1, 1, 8, 3) "," RANGE ("user_annotation", "gloo:recv", 1, 1, 9, 11) ","
    /* */ RANGE ("user_annotation", "PP:1F0", 1, 1, 12, 10) "," RANGE ("cpu_op", "aten::mm", 1, 1, 21, 1) ","
    /* */ RANGE ("user_annotation", "PP:2F0", 1, 1, 23, 3) "," RANGE ("cpu_op", "aten::mm", 1, 1, 24, 1) ","
    /* */ RANGE ("user_annotation", "PP:1RECV_F0", 1, 1, 108, 3) ","
    /* */ RANGE ("user_annotation", "PP:1F0", 1, 1, 112, 10) "," RANGE ("cpu_op", "aten::mm", 1, 1, 121, 1) ","
    /* */ RANGE ("user_annotation", "PP:2F0", 1, 1, 123, 3) "," RANGE ("cpu_op", "aten::mm", 1, 1, 124, 1) "]",
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) timelines = parse_all ("x", names, texts, 2, &error);
  const PsTimeline *first, *second;

  g_assert_no_error (error);
  g_assert_cmpuint (timelines->len, ==, 2);
  first = g_ptr_array_index (timelines, 0);
  g_assert_cmpuint (first->posts->len, ==, 2);
  assert_held (first->posts, 0, 0, PS_INSTRUCTION_SEND, "F0.0", 5000, 6000);
  assert_held (first->posts, 1, 1, PS_INSTRUCTION_RECEIVE, "F0.0", 0, 1000);
  g_assert_cmpuint (first->waits->len, ==, 2);
  assert_held (first->waits, 0, 0, 0, "F0.0", 8000, 11000);
  assert_held (first->waits, 1, 1, 0, "F0.0", 2000, 10000);
  assert_span (first, 1, 1, "F0.1", 11000, 12000);
  second = g_ptr_array_index (timelines, 1);
  g_assert_cmpstr (second->source, ==, "PyTorch profiler, processor, iteration 2 of 2");
  assert_held (second->posts, 0, 0, PS_INSTRUCTION_SEND, "F0.0", 6000, 7000);
  assert_held (second->posts, 1, 1, PS_INSTRUCTION_RECEIVE, "F0.0", 0, 1000);
  g_assert_cmpuint (second->waits->len, ==, 1);
  assert_held (second->waits, 0, 1, 0, "F0.0", 2000, 11000);
}

/* The clock of rank 1 is late by 100 us: F0.1 seems to end before F0.0, and BW0.0 to wait for long. Between the bounds
 * of 92 and 104 us that F0 and BW0 give lie 98. A rank whose messages both come too early is shifted as well, with a
 * remark; as its clock has no instant of the other's, it was recorded apart. */
static void test_clocks (void)
{
  static const char *const names[] = { "rank0.json", "rank1.json" };
  static const char *const rank0 = "[" RANGE ("c", "PP:0F0", 1, 1, 100, 4) "," RANGE ("c", "PP:0B0", 1, 1, 124, 6) "]";
  const char *late[] = { rank0, "[" RANGE ("c", "PP:1F0", 1, 1, 12, 4) "," RANGE ("c", "PP:1B0", 1, 1, 16, 4) "]" };
  const char *contrary[]
      = { rank0, "[" RANGE ("c", "PP:1F0", 1, 1, 12, 4) "," RANGE ("c", "PP:1B0", 1, 1, 16, 40) "]" };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = parse ("x", names, late, 2, &error);
  g_autoptr (PsTimeline) crossed = fine (parse ("x", names, contrary, 2, &error));

  g_assert_null (timeline->remark);
  g_assert_false (timeline->apart);
  g_assert_true (crossed->apart);
  assert_span (timeline, 2, 1, "F0.1", 10000, 14000);
  assert_span (timeline, 3, 1, "BW0.1", 14000, 18000);
  g_assert_cmpint (timeline->iteration_ns, ==, 30000);
  g_assert_cmpstr (
      crossed->remark, ==,
      "x: the ranks' clocks contradict their messages by up to 24000 ns, however they are shifted; times between "
      "ranks are as uncertain");
}

/* The files name no rank, so the last stage is on rank 0 and the first one on rank 1. These have no message between
 * them, but both have some with rank 2. All clocks differ; no message takes time, so the bounds leave no room. */
static void test_clocks_of_any_order (void)
{
  static const char *const names[] = { "a.json", "b.json", "c.json" };
  static const char *const texts[] = {
    "[" RANGE ("c", "PP:2F0", 1, 1, 8, 4) "," RANGE ("c", "PP:2B0", 1, 1, 12, 6) "]",
    "[" RANGE ("c", "PP:0F0", 1, 1, 1000, 4) "," RANGE ("c", "PP:0B0", 1, 1, 1024, 6) "]",
    "[" RANGE ("c", "PP:1F0", 1, 1, 5004, 4) "," RANGE ("c", "PP:1B0", 1, 1, 5018, 6) "]",
  };
  g_autoptr (PsTimeline) timeline = fine (parse ("x", names, texts, 3, &error));

  g_assert_null (timeline->remark);
  assert_span (timeline, 0, 0, "F0.2", 8000, 12000);
  assert_span (timeline, 2, 1, "F0.0", 0, 4000);
  assert_span (timeline, 5, 2, "BW0.1", 18000, 24000);
  g_assert_cmpint (timeline->iteration_ns, ==, 30000);
}

/* Megatron's ranges name no stage and no microbatch. Interleaved 1F1B on two ranks with two stages each: rank 1 begins
 * with p + 1 forwards. */
static void test_counted (void)
{
  static const char *const names[] = { "rank0.json", "rank1.json" };
  static const char *const orders[] = { "FFFFBBBB", "FFFBFBBB" };
  static const char *const ops[] = { "F0.0", "F1.0", "F0.2", "F1.2",  "BW0.2", "BW1.2", "BW0.0", "BW1.0",
                                     "F0.1", "F1.1", "F0.3", "BW0.3", "F1.3",  "BW1.3", "BW0.1", "BW1.1" };
  g_autoptr (GString) first = g_string_new ("["), second = g_string_new ("[");
  const char *texts[2];

  for (guint i = 0; i < 32; i++)
    g_string_append_printf (i < 16 ? first : second,
                            "%s{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"%s\",\"pid\":1,\"tid\":1,"
                            "\"ts\":%u,\"dur\":0.001}",
                            i % 16 ? "," : "", orders[i / 16][i % 8] == 'F' ? "a.forward_step" : "backward-compute",
                            i % 16 * 10 + (i % 16 >= 8 ? 1000 : 0));
  texts[0] = g_string_append_c (first, ']')->str;
  texts[1] = g_string_append_c (second, ']')->str;
  g_autoptr (GPtrArray) timelines = fine (parse_all ("x", names, texts, 2, &error));
  g_assert_cmpuint (timelines->len, ==, 2);
  for (guint k = 0; k < 2; k++)
    for (guint i = 0; i < 16; i++) {
      const PsTimeline *timeline = g_ptr_array_index (timelines, k);
      char name[48];

      g_assert_cmpstr (ps_op_format (g_array_index (timeline->ops, PsSpan, i).op, name), ==, ops[i]);
    }
}

static void assert_apart (const GArray *spans, const GArray *ops)
{
  for (guint i = 0; i < spans->len; i++)
    for (guint k = 0; k < ops->len; k++) {
      const PsSpan *span = &g_array_index (spans, PsSpan, i), *op = &g_array_index (ops, PsSpan, k);

      g_assert_true (span->device != op->device || span->end_ns <= op->start_ns || span->start_ns >= op->end_ns);
    }
}

/* Traces of PyTorch 2.15 on two processes with gloo: a CSV in its runtime, ScheduleGPipe, and Schedule1F1B with ranges
 * around forward_one_chunk and backward_one_chunk. No post and no wait lies within an op, and each op but the first of
 * the model waited for its message, unless it came before the iteration. Both ranks update their weights. */
static void test_real (void)
{
  static const struct {
    const char *name;
    guint n_ops;
    guint n_waits; /* or one less */
  } cases[] = { { "zb-h1", 20, 12 }, { "gpipe", 14, 6 }, { "1f1b-named", 14, 6 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "fixtures", "pytorch-2.15", cases[i].name, NULL);
    g_autoptr (GPtrArray) timelines = fine (ps_timelines_load (folder, &error));

    g_assert_cmpuint (timelines->len, ==, 2);
    for (guint k = 0; k < 2; k++) {
      const PsTimeline *timeline = g_ptr_array_index (timelines, k);

      g_assert_null (timeline->remark);
      g_assert_cmpuint (timeline->n_devices * 100 + timeline->n_stages * 10 + timeline->n_microbatches, ==, 223);
      g_assert_cmpuint (timeline->ops->len, ==, cases[i].n_ops);
      g_assert_cmpuint (timeline->posts->len, >=, 11);
      g_assert_cmpuint (timeline->waits->len, <=, cases[i].n_waits);
      g_assert_cmpuint (timeline->waits->len + 1, >=, cases[i].n_waits);
      assert_apart (timeline->posts, timeline->ops);
      assert_apart (timeline->waits, timeline->ops);
      assert_apart (timeline->waits, timeline->posts);
    }
  }
}

/* Ranges of GPipe name no stage, and hold their receive, with its buffer, and their send. */
static void test_gpipe (void)
{
  static const char *const names[] = { "rank1.json", "rank0.json" };
  static const char *const texts[] = {
    "[" RANGE ("user_annotation", "Forward 0", 1, 1, 2, 8) "," RANGE ("cpu_op", "aten::empty_strided", 1, 1, 3, 1) ","
    /* */ RANGE ("cpu_op", "c10d::recv_", 1, 1, 4, 1) "," RANGE ("cpu_op", "aten::mm", 1, 1, 6, 3) "]",
    "[" RANGE ("user_annotation", "Forward 0", 1, 1, 0, 4) "," RANGE ("cpu_op", "aten::mm", 1, 1, 1, 1) ","
    /* */ RANGE ("cpu_op", "c10d::send", 1, 1, 3, 1) "," RANGE ("user_annotation", "Backward 0", 1, 1, 11, 2) "]",
  };
  g_autoptr (PsTimeline) timeline = fine (parse ("x", names, texts, 2, &error));

  g_assert_cmpuint (timeline->n_stages, ==, 2);
  g_assert_cmpuint (timeline->ops->len, ==, 3);
  assert_span (timeline, 0, 0, "F0.0", 0, 2000);
  assert_span (timeline, 1, 0, "BW0.0", 12000, 12000);
  assert_span (timeline, 2, 1, "F0.1", 5000, 9000);
  g_assert_cmpuint (timeline->posts->len, ==, 2);
  g_assert_cmpuint (timeline->waits->len, ==, 2);
  g_assert_null (timeline->remark);
}

/* Two pipelines with the same ops: the second is left out. */
static void test_replicas (void)
{
  static const char *const names[] = { "rank0.json", "rank1.json", "rank2.json", "rank3.json" };
  static const char *const texts[]
      = { "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]", "[" RANGE ("c", "PP:0F0", 1, 1, 0, 2) "]",
          "[" RANGE ("c", "PP:1F0", 1, 1, 3, 1) "]", "[" RANGE ("c", "PP:1F0", 1, 1, 3, 2) "]" };
  g_autoptr (PsTimeline) timeline = fine (parse ("x", names, texts, 4, &error));

  g_assert_cmpuint (timeline->n_devices, ==, 2);
  g_assert_cmpuint (timeline->ops->len, ==, 2);
  assert_span (timeline, 0, 0, "F0.0", 0, 1000);
  assert_span (timeline, 1, 1, "F0.1", 3000, 4000);
  g_assert_cmpstr (timeline->remark, ==, "x: 2 ranks do the same ops as others and are left out");
}

/* Recording begins within an iteration on both ranks: its ops are left out, though on the last rank any three
 * microbatches would look like an iteration. */
static void test_cut (void)
{
  static const char *const names[] = { "rank0.json", "rank1.json" };
  static const char *const orders[] = { "0F2 0B1 0B2 0F0 0F1 0B0 0F2 0B1 0B2 0F0 0F1 0B0 0F2 0B1 0B2",
                                        "1F2 1B2 1F0 1B0 1F1 1B1 1F2 1B2 1F0 1B0 1F1 1B1 1F2 1B2" };
  char *texts[2];

  for (guint r = 0; r < 2; r++) {
    g_auto (GStrv) ops = g_strsplit (orders[r], " ", 0);
    GString *text = g_string_new ("[");

    for (guint i = 0; ops[i] != NULL; i++)
      g_string_append_printf (
          text, "%s{\"ph\":\"X\",\"cat\":\"c\",\"name\":\"PP:%s\",\"pid\":1,\"tid\":1,\"ts\":%u,\"dur\":1}",
          i ? "," : "", ops[i], 10 * i);
    texts[r] = g_string_free (g_string_append_c (text, ']'), FALSE);
  }
  g_autoptr (GPtrArray) timelines = fine (parse_all ("x", names, (const char *const *)texts, 2, &error));
  g_assert_cmpuint (timelines->len, ==, 2);
  for (guint k = 0; k < 2; k++) {
    const PsTimeline *timeline = g_ptr_array_index (timelines, k);
    char name[48];

    g_assert_cmpuint (timeline->ops->len, ==, 12);
    g_assert_cmpstr (ps_op_format (g_array_index (timeline->ops, PsSpan, 0).op, name), ==, "F0.0");
    g_assert_cmpstr (ps_op_format (g_array_index (timeline->ops, PsSpan, 6).op, name), ==, "F0.1");
  }
  for (guint r = 0; r < 2; r++)
    g_free (texts[r]);
}

/* A rank alone does not pass for its run. */
static void test_missing_ranks (void)
{
  static const char text[] = "{\"distributedInfo\": {\"rank\": 1, \"world_size\": 2}, \"traceEvents\": [" RANGE (
      "c", "Forward 0", 1, 1, 0, 1) "]}";
  g_autoptr (PsTimeline) timeline = fine (parse_one (text, &error));

  assert_span (timeline, 0, 0, "F0.1", 0, 1000);
  g_assert_cmpstr (timeline->source, ==, "PyTorch profiler, processor, iteration 1 of 1, 1 of 2 ranks");
  g_assert_cmpstr (timeline->remark, ==,
                   "trace.json: holds 1 of the 2 ranks of its run; all figures are those of this one alone");
}

/* Packed and plain files of one folder; half a packed file is refused. */
static void test_packed (void)
{
  g_autofree char *folder = g_dir_make_tmp ("pipesim-trace-XXXXXX", NULL);
  g_autofree char *packed = g_build_filename (folder, "rank1.json.gz", NULL);
  g_autofree char *plain = g_build_filename (folder, "rank0.json", NULL);
  g_autofree char *content = NULL;
  g_autoptr (GError) error = NULL, cut_error = NULL;
  gsize length;

  g_assert_true (ps_write_file (packed, "[" RANGE ("c", "PP:1F0", 1, 1, 2, 1) "]", -1, NULL));
  g_assert_true (g_file_set_contents (plain, "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]", -1, NULL));
  g_autoptr (PsTimeline) timeline = ps_timeline_load (folder, &error);
  g_assert_no_error (error);
  assert_span (timeline, 1, 1, "F0.1", 2000, 3000);
  g_assert_true (g_file_get_contents (packed, &content, &length, NULL));
  g_assert_true (g_file_set_contents (packed, content, (gssize)length / 2, NULL));
  g_assert_null (ps_timeline_load (packed, &cut_error));
  assert_error (&cut_error, PS_ERROR_INPUT, "*rank1.json.gz: cannot unpack: *");
  g_unlink (packed);
  g_unlink (plain);
  g_rmdir (folder);
}

/* Ranks by the names of the files. */
static void test_names (void)
{
  static const char *const names[] = { "x/rank1_trace.json", "x/rank0_trace.json" };
  static const char *const texts[]
      = { "[" RANGE ("c", "PP:1F0", 1, 1, 2, 1) "]", "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]" };
  g_autoptr (PsTimeline) timeline = fine (parse ("x", names, texts, 2, &error));

  assert_span (timeline, 0, 0, "F0.0", 0, 1000);
  assert_span (timeline, 1, 1, "F0.1", 2000, 3000);
}

/* The text, its first array of events longer by 300 kB of events that say nothing, and one letter changed. */
static char *change_text (GRand *rand, const char *text, gboolean pads)
{
  g_autoptr (GString) changed = g_string_new (text);
  const char *events = strstr (text, "\"traceEvents\""), *array = events != NULL ? strchr (events, '[') : text;
  g_autoptr (GString) padding = g_string_new (NULL);

  for (guint i = 0; i < 4000; i++)
    g_string_append_printf (padding, "{\"name\": \"aten::\\\"add\\\" %u\", \"args\": {\"dims\": [[%u, 2], []]}},\n ", i,
                            i);
  if (g_rand_boolean (rand))
    changed->str[g_rand_int_range (rand, 0, (gint)changed->len)] = "{}[],:\"\\ 0a"[g_rand_int_range (rand, 0, 11)];
  if (pads && array != NULL)
    g_string_insert (changed, array + 1 - text, padding->str);
  return g_string_free (g_steal_pointer (&changed), FALSE);
}

static char *timeline_text (const char *text, gsize length, GError **error)
{
  const PsTraceFile file = { .name = "trace.json", .text = text, .length = length };
  GPtrArray *timelines = ps_timelines_parse ("trace.json", &file, 1, error);
  g_autoptr (PsTimeline) timeline = timelines != NULL ? ps_timelines_median (timelines) : NULL;

  return timeline != NULL ? ps_timeline_to_json (timeline) : NULL;
}

/* Packed texts, which are read while they unpack, say the same as plain ones, and are refused where these are. */
static void test_packed_alike (void)
{
  static const char *const names[] = { "chrome", "foreign-arrow", "gpipe", "megatron", "own", "profiler", "spans" };
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  guint n_read = 0;

  for (guint i = 0; i < 30 * G_N_ELEMENTS (names); i++) {
    g_autofree char *name = g_strconcat (names[i % G_N_ELEMENTS (names)], ".json", NULL);
    g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fuzz", "corpus", "trace", name, NULL), *text = NULL;
    g_autoptr (GError) error = NULL, packed_error = NULL;

    g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
    g_autofree char *changed = change_text (rand, text, i % 3 == 0);
    g_autoptr (GBytes) packed = ps_pack (changed, strlen (changed));
    g_autofree char *plain = timeline_text (changed, strlen (changed), &error);
    g_autofree char *same = timeline_text (g_bytes_get_data (packed, NULL), g_bytes_get_size (packed), &packed_error);

    g_assert_cmpstr (same, ==, plain);
    g_assert_true ((error == NULL) == (packed_error == NULL));
    n_read += plain != NULL;
  }
  g_assert_cmpuint (n_read, >, 80);
}

/* 64 MiB of blanks, of one text, and of events, packed. */
static void test_bombs (void)
{
  static const struct {
    const char *head, *repeated;
  } rows[] = { { "{\"traceEvents\": [", " " },
               { "{\"traceEvents\": [\"", "a" },
               { "{\"traceEvents\": [{}", ",{}" },
               { "{\"format\": \"pipesim-timeline/1\", \"source\": \"", "a" },
               { "{\"resourceSpans\": [{}", ",{}" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (GString) text = g_string_new (rows[i].head), block = g_string_new (NULL);
    g_autoptr (GError) error = NULL;

    while (block->len < 64 << 10)
      g_string_append (block, rows[i].repeated);
    while (text->len < 64 << 20)
      g_string_append_len (text, block->str, (gssize)block->len);
    g_autoptr (GBytes) packed = ps_pack (text->str, text->len);
    g_assert_null (timeline_text (g_bytes_get_data (packed, NULL), g_bytes_get_size (packed), &error));
    g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
    g_assert_nonnull (strstr (error->message, "it holds more than 100 times its size"));
  }
}

/* Two ranks, one stage each: rank 0 sends F0 and waits for the gradient, which its backward needs at 50 us; rank 1
 * posts its receive before, and computes when it has come, at 20. Both update their weights at 70. */
typedef struct {
  const char *category, *name;
  guint ts, dur;
} Event;

static const Event first_rank[] = {
  { "user_annotation", "PP:0F0", 10, 4 },
  { "cpu_op", "aten::mm", 10, 4 },
  { "user_annotation", "PP:0SEND_F0", 15, 1 },
  { "user_annotation", "PP:0RECV_B0", 17, 1 },
  { "user_annotation", "PP:0B0", 20, 40 },
  { "user_annotation", "gloo:recv", 18, 31 },
  { "cpu_op", "aten::mm", 50, 10 },
  { "user_annotation", "Optimizer.step#SGD.step", 70, 5 },
  { "user_annotation", "PP:0WAIT_SEND_F0", 62, 2 },
};
static const Event second_rank[] = {
  { "user_annotation", "PP:1RECV_F0", 8, 3 },       { "user_annotation", "gloo:recv", 9, 11 },
  { "user_annotation", "PP:1F0", 12, 10 },          { "cpu_op", "aten::mm", 21, 1 },
  { "user_annotation", "PP:1B0", 23, 7 },           { "cpu_op", "aten::mm", 24, 6 },
  { "user_annotation", "PP:1SEND_B0", 31, 1 },      { "user_annotation", "Optimizer.step#SGD.step", 70, 7 },
  { "user_annotation", "PP:1WAIT_SEND_B0", 62, 3 },
};

/* Two iterations, a millisecond apart, in any order; rank 1's clock is late or early; receive_ts: of its receive. */
static GPtrArray *read_ranks (GRand *shuffle, gint late_us, guint receive_ts)
{
  static const char *const names[] = { "rank0.json", "rank1.json" };
  char *texts[2];

  for (guint r = 0; r < 2; r++) {
    const guint n = 2 * G_N_ELEMENTS (first_rank);
    guint order[2 * G_N_ELEMENTS (first_rank)];
    GString *text = g_string_new ("[");

    for (guint i = 0; i < n; i++)
      order[i] = i;
    for (guint i = n - 1; shuffle != NULL && i > 0; i--) {
      guint k = (guint)g_rand_int_range (shuffle, 0, (gint)i + 1), kept = order[i];

      order[i] = order[k];
      order[k] = kept;
    }
    for (guint i = 0; i < n; i++) {
      Event event = (r == 0 ? first_rank : second_rank)[order[i] % (n / 2)];

      if (g_str_equal (event.name, "PP:1RECV_F0"))
        event.ts = receive_ts;
      g_string_append_printf (
          text, "%s{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":%u}",
          i ? "," : "", event.category, event.name,
          (gint)event.ts + (order[i] >= n / 2 ? 6000 : 5000) + (r == 1 ? late_us : 0), event.dur);
    }
    texts[r] = g_string_free (g_string_append_c (text, ']'), FALSE);
  }
  GPtrArray *timelines = fine (parse_all ("x", names, (const char *const *)texts, 2, &error));
  g_assert_cmpuint (timelines->len, ==, 2);
  for (guint r = 0; r < 2; r++)
    g_free (texts[r]);
  return timelines;
}

/* Times count from the first op, at 10: F0.1 computes from 21 to 22, BW0.0 from 50 to 60. The receive of rank 1 is
 * posted from before until 11; one that has ended by 10 is no part of the iteration. */
static void test_two_ranks (void)
{
  for (guint early = 0; early < 2; early++) {
    g_autoptr (GPtrArray) timelines = read_ranks (NULL, 0, early ? 5 : 8);

    for (guint k = 0; k < 2; k++) {
      const PsTimeline *timeline = timelines->pdata[k];

      g_assert_cmpuint (timeline->ops->len, ==, 6);
      assert_span (timeline, 0, 0, "F0.0", 0, 4000);
      assert_span (timeline, 1, 0, "BW0.0", 40000, 50000);
      assert_span (timeline, 2, 0, "O0.0", 60000, 65000);
      assert_span (timeline, 3, 1, "F0.1", 11000, 12000);
      assert_span (timeline, 4, 1, "BW0.1", 14000, 20000);
      assert_span (timeline, 5, 1, "O0.1", 60000, 67000);
      g_assert_cmpint (timeline->iteration_ns, ==, 57000);
      g_assert_cmpuint (timeline->posts->len, ==, early ? 3 : 4);
      assert_held (timeline->posts, 0, 0, PS_INSTRUCTION_SEND, "F0.0", 5000, 6000);
      assert_held (timeline->posts, 1, 0, PS_INSTRUCTION_RECEIVE, "B0.1", 7000, 8000);
      if (!early)
        assert_held (timeline->posts, 2, 1, PS_INSTRUCTION_RECEIVE, "F0.0", 0, 1000);
      assert_held (timeline->posts, early ? 2 : 3, 1, PS_INSTRUCTION_SEND, "B0.1", 21000, 22000);
      g_assert_cmpuint (timeline->waits->len, ==, 4);
      assert_held (timeline->waits, 0, 0, 0, "B0.1", 10000, 39000);
      assert_held (timeline->waits, 1, 0, 0, "F0.0", 52000, 54000);
      assert_held (timeline->waits, 2, 1, 0, "F0.0", 2000, 10000);
      assert_held (timeline->waits, 3, 1, 0, "B0.1", 52000, 55000);
    }
  }
}

/* The order of events in their files says nothing. */
static void test_shuffled (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (17);
  g_autoptr (GPtrArray) expected = read_ranks (NULL, 0, 8);

  for (guint i = 0; i < 20; i++) {
    g_autoptr (GPtrArray) timelines = read_ranks (rand, 0, 8);

    for (guint k = 0; k < 2; k++) {
      g_autofree char *a = ps_timeline_to_json (expected->pdata[k]), *b = ps_timeline_to_json (timelines->pdata[k]);

      g_assert_cmpstr (a, ==, b);
    }
  }
}

/* Spans of device 1 are later by ns; those that end before the iteration then are gone. */
static void assert_moved (const GArray *before, const GArray *after, gint64 ns)
{
  guint n = 0;

  for (guint i = 0; i < before->len; i++) {
    const PsSpan *a = &g_array_index (before, PsSpan, i), *b = &g_array_index (after, PsSpan, n);
    gint64 by = a->device == 1 ? ns : 0;

    if (a->end_ns + by < 0)
      continue;
    g_assert_cmpuint (n++, <, after->len);
    g_assert_cmpuint (a->device, ==, b->device);
    g_assert_cmpint (b->end_ns, ==, a->end_ns + by);
    if (a->start_ns > 0 && b->start_ns > 0)
      g_assert_cmpint (b->start_ns, ==, a->start_ns + by);
  }
  g_assert_cmpuint (n, ==, after->len);
}

/* F0 has been sent at 15 and come by 20, the gradient sent at 31 and come by 49: the clock of rank 1 can be late by 18
 * us and early by 5. One that is off by more moves to the middle, with all that it has timed: 6.5 us late. */
static void test_moved_clock (void)
{
  static const struct {
    gint late_us;
    gint64 moved_ns;
  } rows[] = { { 0, 0 }, { 18, 18000 }, { 19, 6500 }, { 5000, 6500 }, { -5, -5000 }, { -6, 6500 }, { -4000, 6500 } };
  g_autoptr (GPtrArray) expected = read_ranks (NULL, 0, 8);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (GPtrArray) timelines = read_ranks (NULL, rows[i].late_us, 8);

    for (guint k = 0; k < 2; k++) {
      const PsTimeline *a = expected->pdata[k], *b = timelines->pdata[k];

      g_assert_null (b->remark);
      assert_moved (a->ops, b->ops, rows[i].moved_ns);
      assert_moved (a->posts, b->posts, rows[i].moved_ns);
      assert_moved (a->waits, b->waits, rows[i].moved_ns);
    }
  }
}

/* Ranges of GPipe hold their messages: a forward's receive and a backward's send on rank 1, the others on rank 0. */
static void test_gpipe_backward (void)
{
  static const char *const names[] = { "rank0.json", "rank1.json" };
  static const char *const texts[] = {
    "[" RANGE ("user_annotation", "Forward 0", 1, 1, 0, 4) "," RANGE ("cpu_op", "aten::mm", 1, 1, 1, 1) ","
    /* */ RANGE ("cpu_op", "c10d::send", 1, 1, 3, 1) "," RANGE ("user_annotation", "Backward 0", 1, 1, 20, 9) ","
    /* */ RANGE ("cpu_op", "c10d::recv_", 1, 1, 21, 1) "," RANGE ("cpu_op", "aten::mm", 1, 1, 26, 3) "]",
    "[" RANGE ("user_annotation", "Forward 0", 1, 1, 2, 8) "," RANGE ("cpu_op", "c10d::recv_", 1, 1, 4, 1) ","
    /* */ RANGE ("cpu_op", "aten::mm", 1, 1, 6, 3) "," RANGE ("user_annotation", "Backward 0", 1, 1, 12, 8) ","
    /* */ RANGE ("cpu_op", "aten::mm", 1, 1, 13, 4) "," RANGE ("cpu_op", "c10d::send", 1, 1, 18, 1) "]",
  };
  g_autoptr (PsTimeline) timeline = fine (parse ("x", names, texts, 2, &error));

  g_assert_cmpuint (timeline->posts->len, ==, 4);
  for (guint i = 0; i < 4; i++) {
    static const struct {
      guint device, post;
      const char *op;
      gint64 start_ns, end_ns;
    } posts[] = { { 0, PS_INSTRUCTION_SEND, "F0.0", 2000, 3000 },
                  { 0, PS_INSTRUCTION_RECEIVE, "B0.1", 20000, 21000 },
                  { 1, PS_INSTRUCTION_RECEIVE, "F0.0", 3000, 4000 },
                  { 1, PS_INSTRUCTION_SEND, "B0.1", 17000, 18000 } };

    assert_held (timeline->posts, i, posts[i].device, posts[i].post, posts[i].op, posts[i].start_ns, posts[i].end_ns);
  }
  assert_span (timeline, 1, 0, "BW0.0", 25000, 28000);
  assert_span (timeline, 3, 1, "BW0.1", 12000, 17000); /* until it sends */
}

/* A trace whose figures are another program's is read by its names, also where none of them is PyTorch's. */
static void test_other_figures (void)
{
  static const char text[] = "{\"otherData\": {\"version\": 1}, \"traceEvents\": [" RANGE (
      "c", "forward_step", 1, 1, 0, 1) "," RANGE ("c", "backward_step", 1, 1, 5, 1) "]}";
  g_autoptr (PsTimeline) timeline = fine (parse_one (text, &error));

  assert_span (timeline, 0, 0, "F0.0", 0, 1000);
  assert_span (timeline, 1, 0, "BW0.0", 5000, 6000);
  g_assert_true (g_str_has_prefix (timeline->source, "PyTorch profiler"));
}

/* Five stages in any order of ranks, whose clocks differ by up to a second. Every message takes no time, so that each
 * clock has one place: stage s computes F from 4 s, 4 us, and BW from 20 + 5 (4 - s), 5 us. */
static void test_clocks_of_five (void)
{
  static const char *const names[] = { "a.json", "b.json", "c.json", "d.json", "e.json" };
  g_autoptr (GRand) rand = g_rand_new_with_seed (21);

  for (guint k = 0; k < 60; k++) {
    guint stages[] = { 0, 1, 2, 3, 4 };
    char *texts[5];

    for (guint r = 0; r < 5; r++) {
      guint other = (guint)g_rand_int_range (rand, (gint)r, 5), s = stages[other];
      gint late = g_rand_int_range (rand, 0, 1000000);

      stages[other] = stages[r];
      stages[r] = s;
      texts[r] = g_strdup_printf (
          "[{\"ph\":\"X\",\"cat\":\"c\",\"name\":\"PP:%uF0\",\"pid\":1,\"tid\":1,\"ts\":%u,\"dur\":4},"
          "{\"ph\":\"X\",\"cat\":\"c\",\"name\":\"PP:%uB0\",\"pid\":1,\"tid\":1,\"ts\":%u,\"dur\":5}]",
          s, (guint)late + 4 * s, s, (guint)late + 20 + 5 * (4 - s));
    }
    g_autoptr (PsTimeline) timeline = fine (parse ("x", names, (const char *const *)texts, 5, &error));
    g_assert_null (timeline->remark);
    for (guint r = 0; r < 5; r++) {
      g_autofree char *f = g_strdup_printf ("F0.%u", stages[r]), *bw = g_strdup_printf ("BW0.%u", stages[r]);

      assert_span (timeline, 2 * r, r, f, 4000 * stages[r], 4000 * stages[r] + 4000);
      assert_span (timeline, 2 * r + 1, r, bw, 20000 + 5000 * (4 - stages[r]), 25000 + 5000 * (4 - stages[r]));
      g_free (texts[r]);
    }
  }
}

/* Traces of pipesim */

static const struct {
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

static void test_refusals (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++) {
    refused (parse_one (refusals[i].text, &error), PS_ERROR_INPUT, refusals[i].message);
  }
}

static void test_rank_refusals (void)
{
  static const char *const texts[]
      = { "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]", "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]" };
  static const struct {
    const char *names[2];
    const char *message;
  } cases[] = {
    { { "rank0.json", "rank0-again.json" }, "rank0-again.json: rank 0 is that of rank0.json too" },
    { { "rank0.json", "rank2.json" }, "rank2.json: rank 2 of only 2 traces" },
    { { "rank0.json", "other.json" }, "other.json: does not say its rank, unlike the first file of the folder" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;

    g_assert_null (parse ("x", cases[i].names, texts, 2, &error));
    g_assert_cmpstr (error->message, ==, cases[i].message);
  }
}

static PsTimeline *simulate (PsSchedule *schedule, GRand *rand)
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
static void append_posts (PsTimeline *timeline, GRand *rand)
{
  for (guint i = 0; i < 2 * timeline->transfers->len; i++) {
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
static void test_own_trace (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);

  for (guint i = 0; i < 50; i++) {
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
static void test_events_only (void)
{
  static const char *const heads[]
      = { "", "\"otherData\": {\"version\": 1, \"devices\": \"2\", \"iteration_ns\": -5}, ", "\"otherData\": 3, " };

  for (guint i = 0; i < G_N_ELEMENTS (heads); i++) {
    g_autofree char *text
        = g_strconcat ("{", heads[i], "\"traceEvents\": [", RANGE ("F", "F0.0", 0, 0, 1, 2), "], \"more\": []}", NULL);
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
static void test_arrows (void)
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
  for (guint i = 0; i < 3; i++) {
    const PsSpan *transfer = &g_array_index (timeline->transfers, PsSpan, i);

    g_assert_cmpuint (transfer->op.microbatch, ==, i);
    g_assert_cmpuint (transfer->peer, ==, 2 + i);
    g_assert_cmpint (transfer->start_ns, ==, 10 + 20 * (gint64)i);
  }
}

/* Arrows, counters and figures that are none of pipesim's. */
static void test_own_refusals (void)
{
  static const struct {
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

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
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
static void test_microseconds (void)
{
  static const struct {
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

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *text = g_strdup_printf (
        "[{\"ph\":\"X\",\"name\":\"F0.0\",\"pid\":0,\"tid\":0,\"dur\":%s,\"ts\":%s}]", rows[i].ts, rows[i].ts);
    g_autoptr (PsTimeline) timeline = fine (parse_one (text, &error));

    assert_span (timeline, 0, 0, "F0.0", rows[i].ns, 2 * rows[i].ns);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/trace/profiler/folder", test_profiler_folder);
  g_test_add_func ("/trace/profiler/compare", test_profiler_compare);
  g_test_add_func ("/trace/profiler/gpu", test_gpu);
  g_test_add_func ("/trace/profiler/names", test_names);
  g_test_add_func ("/trace/profiler/waiting", test_waiting);
  g_test_add_func ("/trace/profiler/posts-and-waits", test_posts_and_waits);
  g_test_add_func ("/trace/profiler/clocks", test_clocks);
  g_test_add_func ("/trace/profiler/clocks-of-any-order", test_clocks_of_any_order);
  g_test_add_func ("/trace/profiler/counted", test_counted);
  g_test_add_func ("/trace/profiler/real", test_real);
  g_test_add_func ("/trace/profiler/gpipe", test_gpipe);
  g_test_add_func ("/trace/profiler/cut", test_cut);
  g_test_add_func ("/trace/profiler/replicas", test_replicas);
  g_test_add_func ("/trace/profiler/missing-ranks", test_missing_ranks);
  g_test_add_func ("/trace/profiler/packed", test_packed);
  g_test_add_func ("/trace/packed", test_packed_alike);
  g_test_add_func ("/trace/bombs", test_bombs);
  g_test_add_func ("/trace/profiler/two-ranks", test_two_ranks);
  g_test_add_func ("/trace/profiler/shuffled", test_shuffled);
  g_test_add_func ("/trace/profiler/moved-clock", test_moved_clock);
  g_test_add_func ("/trace/profiler/gpipe-backward", test_gpipe_backward);
  g_test_add_func ("/trace/profiler/other-figures", test_other_figures);
  g_test_add_func ("/trace/profiler/clocks-of-five", test_clocks_of_five);
  g_test_add_func ("/trace/refusals", test_refusals);
  g_test_add_func ("/trace/rank-refusals", test_rank_refusals);
  g_test_add_func ("/trace/own", test_own_trace);
  g_test_add_func ("/trace/events-only", test_events_only);
  g_test_add_func ("/trace/own/arrows", test_arrows);
  g_test_add_func ("/trace/own/refusals", test_own_refusals);
  g_test_add_func ("/trace/own/microseconds", test_microseconds);
  return g_test_run ();
}

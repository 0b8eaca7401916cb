/* Tests of timelines from traces (formats.h): PyTorch profiler ranges of several ranks, and our own Chrome traces read
 * back. */
#include "lower.h"
#include "random-schedule.h"

#include <pipesim/compare.h>
#include <pipesim/formats.h>

#include <gio/gio.h>
#include <glib/gstdio.h>
#include <string.h>

static GPtrArray *
parse_all (const char *where, const char *const *names, const char *const *texts, guint n, GError **error)
{
  g_autofree PsTraceFile *files = g_new (PsTraceFile, n);

  for (guint i = 0; i < n; i++)
    files[i] = (PsTraceFile){ .name = names[i], .text = texts[i], .length = strlen (texts[i]) };
  return ps_timelines_parse (where, files, n, error);
}

static PsTimeline *
parse (const char *where, const char *const *names, const char *const *texts, guint n, GError **error)
{
  GPtrArray *timelines = parse_all (where, names, texts, n, error);

  return timelines != NULL ? ps_timelines_median (timelines) : NULL;
}

static PsTimeline *
parse_one (const char *text, GError **error)
{
  const char *name = "trace.json";

  return parse (name, &name, &text, 1, error);
}

static void
assert_span (const PsTimeline *timeline, guint i, guint device, const char *op, gint64 start_ns, gint64 end_ns)
{
  const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);
  char name[48];

  g_assert_cmpuint (span->device, ==, device);
  g_assert_cmpstr (ps_op_format (span->op, name), ==, op);
  g_assert_cmpint (span->start_ns, ==, start_ns);
  g_assert_cmpint (span->end_ns, ==, end_ns);
}

/* Three complete iterations of 10.25, 9.25 and 9.75 us and the beginning of a fourth: the third is the median one.
 * Every op begins a quarter of a microsecond after its range. The ranks stand in the files, whose names are in the
 * other order. */
static void
test_profiler_folder (void)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "fixtures", "profiler", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = ps_timeline_load (folder, &error);

  g_assert_no_error (error);
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

static void
test_profiler_compare (void)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "fixtures", "profiler", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) measured = ps_timeline_load (folder, &error);
  g_autoptr (PsTimeline) predicted = ps_timeline_load (folder, &error);
  g_autoptr (PsComparison) comparison = NULL, missing = NULL;

  predicted->origin = PS_ORIGIN_SIMULATED;
  comparison = ps_compare (predicted, measured, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (comparison->iteration_error, ==, 0);
  g_array_set_size (measured->ops, 7);
  missing = ps_compare (predicted, measured, &error);
  g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
  g_assert_cmpstr (error->message, ==, "device 1: only the predicted timeline has BW1.1");
}

#define RANGE(cat, name, pid, tid, ts, dur)                                                                            \
  "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":" #pid ",\"tid\":" #tid ",\"ts\":" #ts              \
  ",\"dur\":" #dur "}"

/* One file, a process per rank; ranges of the GPU on two streams, of which the fuller counts; the pair is one range,
 * the action nested in it is left out; a V, so rank 0 has chunks 0 and 1. */
static void
test_gpu (void)
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
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = parse_one (text, &error);
  const PsSpan *spans;

  g_assert_no_error (error);
  g_assert_cmpuint (timeline->n_devices, ==, 2);
  g_assert_cmpuint (timeline->n_stages, ==, 4);
  g_assert_cmpuint (timeline->ops->len, ==, 6);
  assert_span (timeline, 0, 0, "F0.0", 0, 1000);
  assert_span (timeline, 1, 0, "F0.3", 5000, 6000);
  assert_span (timeline, 2, 0, "F1.0", 6500, 8750);
  assert_span (timeline, 3, 0, "BW0.3", 6500, 8750);
  assert_span (timeline, 4, 1, "F0.1", 2000, 3000);
  assert_span (timeline, 5, 1, "B0.2", 9000, 10000);
  spans = (const PsSpan *)(gconstpointer)timeline->ops->data;
  g_assert_true (spans[2].op.paired && !spans[3].op.paired);
  g_assert_cmpuint (spans[0].chunk, ==, 0);
  g_assert_cmpuint (spans[1].chunk, ==, 1);
  g_assert_cmpuint (spans[5].chunk, ==, 1);
}

/* The B waits for its receive until its first op, which another thread runs; the second stage 0 B has no op, so
 * computes nothing at its end. Waits of PyTorch 2.15, and ops of other processes, count for nothing. */
static void
test_waiting (void)
{
  static const char text[]
      = "[" RANGE ("user_annotation", "PP:0F0", 3, 1, 0, 4) "," RANGE ("cpu_op", "aten::mm", 4, 1, 0.5, 1) "," RANGE (
          "cpu_op", "aten::mm", 3, 1, 1,
          1) "," RANGE ("user_annotation", "PP:0WAIT_SEND_F0", 3, 1, 4,
                        1) "," RANGE ("user_annotation", "PP:0I0", 3, 1, 5,
                                      4) "," RANGE ("cpu_op", "aten::mm", 3, 2, 8,
                                                    1) "," RANGE ("user_annotation", "PP:0I1", 3, 1, 10, 2) "]";
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = parse_one (text, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (timeline->ops->len, ==, 3);
  assert_span (timeline, 0, 0, "F0.0", 0, 3000);
  assert_span (timeline, 1, 0, "B0.0", 7000, 8000);
  assert_span (timeline, 2, 0, "B1.0", 11000, 11000);
  g_assert_cmpint (timeline->iteration_ns, ==, 11000);
}

/* Checks a post or a wait. */
static void
assert_held (const GArray *spans, guint i, guint device, guint post, const char *op, gint64 start_ns, gint64 end_ns)
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
static void
test_posts_and_waits (void)
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
 * remark. */
static void
test_clocks (void)
{
  static const char *const names[] = { "rank0.json", "rank1.json" };
  static const char *const rank0 = "[" RANGE ("c", "PP:0F0", 1, 1, 100, 4) "," RANGE ("c", "PP:0B0", 1, 1, 124, 6) "]";
  const char *late[] = { rank0, "[" RANGE ("c", "PP:1F0", 1, 1, 12, 4) "," RANGE ("c", "PP:1B0", 1, 1, 16, 4) "]" };
  const char *contrary[]
      = { rank0, "[" RANGE ("c", "PP:1F0", 1, 1, 12, 4) "," RANGE ("c", "PP:1B0", 1, 1, 16, 40) "]" };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = parse ("x", names, late, 2, &error);
  g_autoptr (PsTimeline) crossed = parse ("x", names, contrary, 2, &error);

  g_assert_no_error (error);
  g_assert_null (timeline->remark);
  assert_span (timeline, 2, 1, "F0.1", 10000, 14000);
  assert_span (timeline, 3, 1, "BW0.1", 14000, 18000);
  g_assert_cmpint (timeline->iteration_ns, ==, 30000);
  g_assert_cmpstr (
      crossed->remark, ==,
      "x: the ranks' clocks contradict their messages by up to 24000 ns, however they are shifted; times between "
      "ranks are as uncertain");
}

/* Megatron's ranges name no stage and no microbatch. Interleaved 1F1B on two ranks with two stages each: rank 1 begins
 * with p + 1 forwards. */
static void
test_counted (void)
{
  static const char *const names[] = { "rank0.json", "rank1.json" };
  static const char *const orders[] = { "FFFFBBBB", "FFFBFBBB" };
  static const char *const ops[] = { "F0.0", "F1.0", "F0.2", "F1.2",  "BW0.2", "BW1.2", "BW0.0", "BW1.0",
                                     "F0.1", "F1.1", "F0.3", "BW0.3", "F1.3",  "BW1.3", "BW0.1", "BW1.1" };
  g_autoptr (GString) first = g_string_new ("["), second = g_string_new ("[");
  const char *texts[2];
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) timelines = NULL;

  for (guint i = 0; i < 32; i++)
    g_string_append_printf (i < 16 ? first : second,
                            "%s{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"%s\",\"pid\":1,\"tid\":1,"
                            "\"ts\":%u,\"dur\":0.001}",
                            i % 16 ? "," : "", orders[i / 16][i % 8] == 'F' ? "a.forward_step" : "backward-compute",
                            i % 16 * 10 + (i % 16 >= 8 ? 1000 : 0));
  texts[0] = g_string_append_c (first, ']')->str;
  texts[1] = g_string_append_c (second, ']')->str;
  timelines = parse_all ("x", names, texts, 2, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (timelines->len, ==, 2);
  for (guint k = 0; k < 2; k++)
    for (guint i = 0; i < 16; i++)
      {
        const PsTimeline *timeline = g_ptr_array_index (timelines, k);
        char name[48];

        g_assert_cmpstr (ps_op_format (g_array_index (timeline->ops, PsSpan, i).op, name), ==, ops[i]);
      }
}

static void
assert_apart (const GArray *spans, const GArray *ops)
{
  for (guint i = 0; i < spans->len; i++)
    for (guint k = 0; k < ops->len; k++)
      {
        const PsSpan *span = &g_array_index (spans, PsSpan, i), *op = &g_array_index (ops, PsSpan, k);

        g_assert_true (span->device != op->device || span->end_ns <= op->start_ns || span->start_ns >= op->end_ns);
      }
}

/* Traces of PyTorch 2.15 on two processes with gloo: a CSV in its runtime, ScheduleGPipe, and Schedule1F1B with ranges
 * around forward_one_chunk and backward_one_chunk. No post and no wait lies within an op, and each op but the first of
 * the model waited for its message, unless it came before the iteration. Both ranks update their weights. */
static void
test_real (void)
{
  static const struct
  {
    const char *name;
    guint n_ops;
    guint n_waits; /* or one less */
  } cases[] = { { "zb-h1", 20, 12 }, { "gpipe", 14, 6 }, { "1f1b-named", 14, 6 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "fixtures", "pytorch-2.15", cases[i].name, NULL);
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) timelines = ps_timelines_load (folder, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (timelines->len, ==, 2);
      for (guint k = 0; k < 2; k++)
        {
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
static void
test_gpipe (void)
{
  static const char *const names[] = { "rank1.json", "rank0.json" };
  static const char *const texts[] = {
    "[" RANGE ("user_annotation", "Forward 0", 1, 1, 2, 8) "," RANGE ("cpu_op", "aten::empty_strided", 1, 1, 3, 1) ","
    /* */ RANGE ("cpu_op", "c10d::recv_", 1, 1, 4, 1) "," RANGE ("cpu_op", "aten::mm", 1, 1, 6, 3) "]",
    "[" RANGE ("user_annotation", "Forward 0", 1, 1, 0, 4) "," RANGE ("cpu_op", "aten::mm", 1, 1, 1, 1) ","
    /* */ RANGE ("cpu_op", "c10d::send", 1, 1, 3, 1) "," RANGE ("user_annotation", "Backward 0", 1, 1, 11, 2) "]",
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = parse ("x", names, texts, 2, &error);

  g_assert_no_error (error);
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
static void
test_replicas (void)
{
  static const char *const names[] = { "rank0.json", "rank1.json", "rank2.json", "rank3.json" };
  static const char *const texts[]
      = { "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]", "[" RANGE ("c", "PP:0F0", 1, 1, 0, 2) "]",
          "[" RANGE ("c", "PP:1F0", 1, 1, 3, 1) "]", "[" RANGE ("c", "PP:1F0", 1, 1, 3, 2) "]" };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = parse ("x", names, texts, 4, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (timeline->n_devices, ==, 2);
  g_assert_cmpuint (timeline->ops->len, ==, 2);
  assert_span (timeline, 0, 0, "F0.0", 0, 1000);
  assert_span (timeline, 1, 1, "F0.1", 3000, 4000);
  g_assert_cmpstr (timeline->remark, ==, "x: 2 ranks do the same ops as others and are left out");
}

/* Recording begins within an iteration on both ranks: its ops are left out, though on the last rank any three
 * microbatches would look like an iteration. */
static void
test_cut (void)
{
  static const char *const names[] = { "rank0.json", "rank1.json" };
  static const char *const orders[] = { "0F2 0B1 0B2 0F0 0F1 0B0 0F2 0B1 0B2 0F0 0F1 0B0 0F2 0B1 0B2",
                                        "1F2 1B2 1F0 1B0 1F1 1B1 1F2 1B2 1F0 1B0 1F1 1B1 1F2 1B2" };
  char *texts[2];
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) timelines = NULL;

  for (guint r = 0; r < 2; r++)
    {
      g_auto (GStrv) ops = g_strsplit (orders[r], " ", 0);
      GString *text = g_string_new ("[");

      for (guint i = 0; ops[i] != NULL; i++)
        g_string_append_printf (
            text, "%s{\"ph\":\"X\",\"cat\":\"c\",\"name\":\"PP:%s\",\"pid\":1,\"tid\":1,\"ts\":%u,\"dur\":1}",
            i ? "," : "", ops[i], 10 * i);
      texts[r] = g_string_free (g_string_append_c (text, ']'), FALSE);
    }
  timelines = parse_all ("x", names, (const char *const *)texts, 2, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (timelines->len, ==, 2);
  for (guint k = 0; k < 2; k++)
    {
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
static void
test_missing_ranks (void)
{
  static const char text[] = "{\"distributedInfo\": {\"rank\": 1, \"world_size\": 2}, \"traceEvents\": [" RANGE (
      "c", "Forward 0", 1, 1, 0, 1) "]}";
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = parse_one (text, &error);

  g_assert_no_error (error);
  assert_span (timeline, 0, 0, "F0.1", 0, 1000);
  g_assert_cmpstr (timeline->source, ==, "PyTorch profiler, processor, iteration 1 of 1, 1 of 2 ranks");
  g_assert_cmpstr (timeline->remark, ==,
                   "trace.json: holds 1 of the 2 ranks of its run; all figures are those of this one alone");
}

static void
write_packed (const char *path, const char *text)
{
  g_autoptr (GZlibCompressor) gzip = g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, -1);
  gsize read, written, n = strlen (text) + 100;
  g_autofree char *packed = g_malloc (n);

  g_assert_cmpint (g_converter_convert (G_CONVERTER (gzip), text, strlen (text), packed, n, G_CONVERTER_INPUT_AT_END,
                                        &read, &written, NULL),
                   ==, G_CONVERTER_FINISHED);
  g_assert_true (g_file_set_contents (path, packed, (gssize)written, NULL));
}

/* Packed and plain files of one folder; half a packed file is refused. */
static void
test_packed (void)
{
  g_autofree char *folder = g_dir_make_tmp ("pipesim-trace-XXXXXX", NULL);
  g_autofree char *packed = g_build_filename (folder, "rank1.json.gz", NULL);
  g_autofree char *plain = g_build_filename (folder, "rank0.json", NULL);
  g_autofree char *content = NULL;
  g_autoptr (GError) error = NULL, cut_error = NULL;
  g_autoptr (PsTimeline) timeline = NULL;
  gsize length;

  write_packed (packed, "[" RANGE ("c", "PP:1F0", 1, 1, 2, 1) "]");
  g_assert_true (g_file_set_contents (plain, "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]", -1, NULL));
  timeline = ps_timeline_load (folder, &error);
  g_assert_no_error (error);
  assert_span (timeline, 1, 1, "F0.1", 2000, 3000);
  g_assert_true (g_file_get_contents (packed, &content, &length, NULL));
  g_assert_true (g_file_set_contents (packed, content, (gssize)length / 2, NULL));
  g_assert_null (ps_timeline_load (packed, &cut_error));
  g_assert_error (cut_error, PS_ERROR, PS_ERROR_INPUT);
  g_assert_nonnull (strstr (cut_error->message, "rank1.json.gz: cannot unpack: "));
  g_unlink (packed);
  g_unlink (plain);
  g_rmdir (folder);
}

/* Ranks by the names of the files. */
static void
test_names (void)
{
  static const char *const names[] = { "x/rank1_trace.json", "x/rank0_trace.json" };
  static const char *const texts[]
      = { "[" RANGE ("c", "PP:1F0", 1, 1, 2, 1) "]", "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "]" };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = parse ("x", names, texts, 2, &error);

  g_assert_no_error (error);
  assert_span (timeline, 0, 0, "F0.0", 0, 1000);
  assert_span (timeline, 1, 1, "F0.1", 2000, 3000);
}

static const struct
{
  const char *text;
  const char *message;
} refusals[] = {
  { "[]", "trace.json: holds no op of pipesim and no range PP:... of PyTorch" },
  { "{\"a\": 1}", "trace.json: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents" },
  { "3", "trace.json: is neither a JSON object nor an array" },
  { "[" RANGE ("c", "PP:0SEND_F0", 1, 1, 0, 1) "]",
    "trace.json: holds no complete range of an action, such as PP:0F0 (docs/traces.md)" },
  { "[" RANGE ("c", "PP:0F0", 1, 1, 0, 2) "," RANGE ("c", "PP:0F1", 1, 1, 1, 2) "]",
    "trace.json: F1.0 starts before F0.0 has ended" },
  { "[" RANGE ("c", "PP:0F0", 1, 1, 0, 1) "," RANGE ("c", "PP:0F0", 1, 1, 2, 1) "," RANGE ("c", "PP:1F0", 2, 1, 0,
                                                                                           1) "]",
    "trace.json: rank 1 has 1 complete iterations, rank 0 has 2; record the same steps on all ranks" },
  { "[" RANGE ("c", "F0", 1, 1, 0, 1) "]",
    "trace.json: traceEvents[0]: 'F0' is neither an op of pipesim (F0.1) nor a range of PyTorch (PP:1F0)" },
  { "[" RANGE ("c", "F0.0", 1, 5000, 0, 1) "]", "trace.json: traceEvents[0]: tid 5000 is no device" },
  { "[" RANGE ("c", "F0.0", 0, 0, 0, 1) "," RANGE ("c", "F1.0", 1, 0, 1, 1) "]",
    "trace.json: traceEvents[1]: pid 1 is another run than 0; one file, one run" },
  { "[" RANGE ("c", "F0.0", 0, 0, 0, 2) "," RANGE ("c", "F1.0", 0, 0, 1, 2) "]",
    "trace.json: device 0: F1.0 starts before F0.0 has ended" },
  { "[{\"ph\":\"X\",\"name\":\"F0.0\",\"pid\":0,\"tid\":0,\"ts\":-1,\"dur\":1}]",
    "trace.json: traceEvents[0]: has no pid, tid, ts and dur of a range" },
  { "[{\"ph\":\"Q\"}]", "trace.json: traceEvents[0]: phase 'Q' is none that pipesim writes" },
};

static void
test_refusals (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (parse_one (refusals[i].text, &error));
      g_assert_error (error, PS_ERROR, PS_ERROR_INPUT);
      g_assert_cmpstr (error->message, ==, refusals[i].message);
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
  g_autoptr (PsSimulation) simulation = NULL;
  g_autoptr (PsCosts) costs = ps_costs_new (schedule->placement->n_stages);

  for (guint i = 0; i < PS_N_OP_KINDS * costs->n_stages; i++)
    costs->op[i].duration_ns = i / costs->n_stages == PS_OP_O ? 0 : 1 + (gint64)random_below (rand, 2000000);
  for (guint stage = 0; stage < costs->n_stages; stage++)
    ps_costs_set_memory (costs, stage, 100, 40);
  for (guint i = 1; i < 1 + 2 * costs->n_stages; i++)
    costs->transfer_ns[i] = random_below (rand, 3000);
  simulation = ps_simulation_new (program);
  ps_simulate (program, costs, simulation);
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
      g_autoptr (GError) error = NULL;
      g_autoptr (PsTimeline) timeline = simulate (random_schedule (rand, i % 2), rand);
      g_autofree char *trace = NULL, *before = NULL, *after = NULL;
      g_autoptr (PsTimeline) again = NULL;

      append_posts (timeline, rand);
      timeline->iteration_ns += random_below (rand, 1000000);
      timeline->interval = (PsInterval){ .p10_ns = 9 * (i % 2), .p90_ns = 11 * (i % 2) };
      timeline->n_microbatches += random_below (rand, 3);
      g_free (timeline->source);
      timeline->source = g_strdup ("costs of \"a\"");
      trace = ps_timeline_to_chrome_trace (timeline);
      again = parse_one (trace, &error);
      g_assert_no_error (error);
      before = ps_timeline_to_json (timeline);
      after = ps_timeline_to_json (again);
      g_assert_cmpstr (before, ==, after);
    }
}

/* A trace with nothing but events, as of earlier versions, lasts as long as they do; data of other programs tells
 * nothing. */
static void
test_events_only (void)
{
  static const char *const heads[]
      = { "", "\"otherData\": {\"version\": 1, \"devices\": \"2\", \"iteration_ns\": -5}, ", "\"otherData\": 3, " };

  for (guint i = 0; i < G_N_ELEMENTS (heads); i++)
    {
      g_autofree char *text
          = g_strconcat ("{", heads[i], "\"traceEvents\": [", RANGE ("F", "F0.0", 0, 0, 1, 2), "]}", NULL);
      g_autoptr (GError) error = NULL;
      g_autoptr (PsTimeline) timeline = parse_one (text, &error);

      g_assert_no_error (error);
      g_assert_cmpint (timeline->iteration_ns, ==, 2000);
      g_assert_cmpuint (timeline->n_devices, ==, 1);
      g_assert_cmpstr (timeline->source, ==, "Chrome trace trace.json");
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/trace/profiler/folder", test_profiler_folder);
  g_test_add_func ("/trace/profiler/compare", test_profiler_compare);
  g_test_add_func ("/trace/profiler/gpu", test_gpu);
  g_test_add_func ("/trace/profiler/names", test_names);
  g_test_add_func ("/trace/profiler/waiting", test_waiting);
  g_test_add_func ("/trace/profiler/posts-and-waits", test_posts_and_waits);
  g_test_add_func ("/trace/profiler/clocks", test_clocks);
  g_test_add_func ("/trace/profiler/counted", test_counted);
  g_test_add_func ("/trace/profiler/real", test_real);
  g_test_add_func ("/trace/profiler/gpipe", test_gpipe);
  g_test_add_func ("/trace/profiler/cut", test_cut);
  g_test_add_func ("/trace/profiler/replicas", test_replicas);
  g_test_add_func ("/trace/profiler/missing-ranks", test_missing_ranks);
  g_test_add_func ("/trace/profiler/packed", test_packed);
  g_test_add_func ("/trace/refusals", test_refusals);
  g_test_add_func ("/trace/rank-refusals", test_rank_refusals);
  g_test_add_func ("/trace/own", test_own_trace);
  g_test_add_func ("/trace/events-only", test_events_only);
  return g_test_run ();
}

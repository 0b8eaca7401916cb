/* Tests of formats.h: exports of Nsight Systems and OpenTelemetry spans, and how the steps of reading grow with the
 * iterations of a trace, which may have tens of thousands. */
#include "error-rig.h"
#include "store/database.h"

#include <pipesim/formats.h>

#include <glib/gstdio.h>
#include <string.h>

/* The text of a fixture; the name of the resource is that of the fixture. */
static char *read_sql (const char *schema G_GNUC_UNUSED)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", "nsys", "megatron.sql", NULL);
  char *sql;

  g_assert_true (g_file_get_contents (path, &sql, NULL, NULL));
  return sql;
}

/* A database of another program in a new folder. Free with g_free. */
static char *make_export (const char *changes)
{
  static const PsDatabaseKind kind
      = { .what = "export", .schema = "schema.sql", .complete = read_sql, .application_id = 0, .version = 1 };
  g_autofree char *folder = g_dir_make_tmp ("pipesim-nsys-XXXXXX", NULL);
  char *path = g_build_filename (folder, "run.sqlite", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsDatabase) db = fine (ps_database_open (path, &kind, TRUE, &error));

  g_assert_true (ps_database_script (db, changes, &error));
  g_assert_true (ps_database_script (db, "PRAGMA journal_mode = DELETE", &error));
  return path;
}

static void remove_export (const char *path)
{
  g_autofree char *folder = g_path_get_dirname (path);

  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (g_rmdir (folder), ==, 0);
}

static void assert_spans (const GArray *spans, const char *expected)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < spans->len; i++) {
    const PsSpan *span = &g_array_index (spans, PsSpan, i);
    char name[48];

    g_string_append_printf (text, "%s%u", i ? " " : "", span->device);
    if (span->peer != span->device)
      g_string_append_printf (text, ">%u", span->peer);
    g_string_append_printf (text, ":%s:%" G_GINT64_FORMAT "-%" G_GINT64_FORMAT, ps_op_format (span->op, name),
                            span->start_ns, span->end_ns);
  }
  g_assert_cmpstr (text->str, ==, expected);
}

/* Gives the ranges PyTorch's names, and the calls that launch NCCL's kernels, one of which sends and receives. */
#define NAMES                                                                                                          \
  "UPDATE NVTX_EVENTS SET textId = NULL, text = CASE globalTid / 0x1000000 * 1000 + start % 1000000 "                  \
  "WHEN 300000 THEN 'PP:0F0' WHEN 300200 THEN 'PP:0F1' WHEN 300400 THEN 'PP:0B0' WHEN 300600 THEN 'PP:0B1' "           \
  "WHEN 200100 THEN 'PP:1F0' WHEN 200300 THEN 'PP:1B0' WHEN 200500 THEN 'PP:1F1' WHEN 200600 THEN 'PP:1B1' END;"       \
  "WITH calls (process, launched, name) AS (VALUES (300, 120, 'PP:0SEND_F0'), (300, 320, 'PP:0SEND_F1'), "             \
  "(300, 320, 'PP:0RECV_B0'), (300, 520, 'PP:0RECV_B1'), (200, 10, 'PP:1RECV_F0'), (200, 420, 'PP:1SEND_B0'), "        \
  "(200, 420, 'PP:1RECV_F1'), (200, 720, 'PP:1SEND_B1')), iterations (start) AS (VALUES (0), (1000000)) "              \
  "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) SELECT start + launched - 2, start + launched + "  \
  "8, "                                                                                                                \
  "59, name, process * 0x1000000 + process FROM calls, iterations"

/* Kernels give the times, those of NCCL the transfers: rank 1 sends B0 when both ends are there, at 4600. Rank 0's
 * range of the first backward waits for it from the end of its second forward, 2100. Names tell the same as counting.
 */
static void test_nsys (void)
{
  static const char *const changes[] = { "", NAMES };

  for (guint i = 0; i < 4; i++) {
    g_autofree char *path = make_export (changes[i / 2]);
    g_autoptr (GPtrArray) timelines = fine (ps_timelines_load (path, &error));

    g_assert_cmpuint (timelines->len, ==, 2);
    const PsTimeline *timeline = g_ptr_array_index (timelines, i % 2);
    g_assert_cmpstr (timeline->source, ==,
                     i % 2 ? "Nsight Systems, GPU, iteration 2 of 2" : "Nsight Systems, GPU, iteration 1 of 2");
    g_assert_null (timeline->remark);
    g_assert_cmpint (timeline->iteration_ns, ==, 10800);
    assert_spans (timeline->ops, "0:F0.0:0-1000 0:F1.0:1000-2100 0:BW0.0:5500-7500 0:BW1.0:8800-10800 "
                                 "1:F0.1:1600-2600 1:BW0.1:2600-4600 1:F1.1:5500-6500 1:BW1.1:6500-8500");
    assert_spans (timeline->transfers, "0>1:F0.0:1000-1600 1>0:B0.1:4600-5500 0>1:F1.0:4600-5500 1>0:B1.1:8500-8800");
    assert_spans (timeline->waits, "0:B0.1:2100-5500 0:B1.1:7500-8800 1:F0.0:0-1600 1:F1.0:4600-5500");
    g_assert_cmpuint (timeline->posts->len, ==, 0);
    remove_export (path);
  }
}

/* Without kernels the host's ranges count, of processes in the order of their numbers. */
static void test_nsys_host (void)
{
  g_autofree char *path = make_export ("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; UPDATE NVTX_EVENTS SET "
                                       "globalTid = globalTid + 400 * 0x1000000 WHERE globalTid / 0x1000000 = 200");
  g_autoptr (PsTimeline) timeline = fine (ps_timeline_load (path, &error));

  g_assert_cmpstr (timeline->source, ==, "Nsight Systems, processor, iteration 1 of 2");
  g_assert_cmpuint (timeline->ops->len, ==, 8);
  remove_export (path);
}

/* Ranges of the optimizer's steps are O of the host's timelines, 30 and 40 ns of the two processes. */
static void test_nsys_updates (void)
{
  g_autofree char *path = make_export (
      "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES "
      "(800, 840, 59, 'optimizer_step', 3355443400), (1000800, 1000840, 60, 'x.optimizer_step', 3355443400), "
      "(800, 830, 59, 'optimizer_step', 5033165100), (1000800, 1000830, 59, 'optimizer_step', 5033165100);"
      "UPDATE NVTX_EVENTS SET globalTid = globalTid + 400 * 0x1000000 WHERE globalTid / 0x1000000 = 200");
  g_autoptr (GPtrArray) timelines = fine (ps_timelines_load (path, &error));

  g_assert_cmpuint (timelines->len, ==, 2);
  for (guint k = 0; k < 2; k++) {
    const PsTimeline *timeline = timelines->pdata[k];
    guint n = 0;

    g_assert_cmpuint (timeline->ops->len, ==, 10);
    for (guint i = 0; i < timeline->ops->len; i++) {
      const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

      if (span->op.kind != PS_OP_O)
        continue;
      g_assert_cmpint (span->end_ns - span->start_ns, ==, span->device == 0 ? 30 : 40);
      n++;
    }
    g_assert_cmpuint (n, ==, 2);
  }
  remove_export (path);
}

/* Names say which microbatches were recorded, 4 and 5; counting would begin with 0. */
static void test_nsys_names (void)
{
  g_autofree char *path
      = make_export ("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;" NAMES
                     "; UPDATE NVTX_EVENTS SET text = replace (replace (text, 'F0', 'F4'), 'F1', 'F5');"
                     "UPDATE NVTX_EVENTS SET text = replace (replace (text, 'B0', 'B4'), 'B1', 'B5')");
  g_autoptr (PsTimeline) timeline = fine (ps_timeline_load (path, &error));

  g_assert_cmpuint (timeline->n_microbatches, ==, 6);
  g_assert_cmpuint (timeline->ops->len, ==, 8);
  for (guint i = 0; i < timeline->ops->len; i++)
    g_assert_cmpuint (g_array_index (timeline->ops, PsSpan, i).op.microbatch, >=, 4);
  remove_export (path);
}

/* Keeps one process of the fixture; its clock is 250 ns ahead of the other's, or not. */
#define KEEP(process)                                                                                                  \
  "DELETE FROM NVTX_EVENTS WHERE globalTid / 0x1000000 <> " process ";"                                                \
  "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE globalTid / 0x1000000 <> " process ";"                                \
  "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE globalPid / 0x1000000 <> " process ";"
#define AHEAD                                                                                                          \
  "UPDATE NVTX_EVENTS SET start = start + 250, end = end + 250;"                                                       \
  "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = start + 250, end = end + 250;"                                       \
  "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 250, end = end + 250;"
#define BEGUN(ns) "UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = " ns ";"

/* Rows that tell nothing: times that no run has, and a kernel of a process without ranges. */
#define ABSURD                                                                                                         \
  "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (-1, 50, 59, 'forward_step', 3355443400), " \
  "(60, 59, 59, 'forward_step', 3355443400), (800, 1000000000000001, 59, 'forward_step', 3355443400);"                 \
  "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (150, 155, 0, 3355443400, 90, 4, 0, NULL), "                         \
  "(150, 155, 0, 5033165100, 91, 4, 0, NULL), (150, 155, 0, 16777216, 92, 4, 0, NULL);"                                \
  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 1999, 1, 1, NULL, 7, 90, 3355443200, 2, 2, NULL), "            \
  "(-5, 9000, 0, 1, NULL, 7, 91, 5033164800, 2, 2, NULL), (2000, 9000, 0, 1, NULL, 7, 92, 16777216, 2, 2, NULL);"

/* Every process in a file of its own tells what one file of both does. Sessions that began at other times count from
 * there, to the nanosecond; a file that does not say counts from 0. Files are ranks as their names say, or in order. */
static void test_nsys_files (void)
{
  static const struct {
    const char *names[2];
    const char *changes[2]; /* of rank 0, process 300 on device 0; and of rank 1 */
  } cases[] = {
    { { "a.sqlite", "b.sqlite" }, { "", "" } },
    { { "b_rank0.sqlite", "a_rank1.sqlite" }, { "", "" } },
    { { "a.sqlite", "b.sqlite" }, { "", BEGUN ("1699999999999999750") AHEAD } },
    { { "a.sqlite", "b.sqlite" }, { BEGUN ("250"), "DROP TABLE TARGET_INFO_SESSION_START_TIME;" AHEAD } },
    { { "b_rank0.sqlite", "a_rank1.sqlite" }, { BEGUN ("-250"), "DELETE FROM TARGET_INFO_SESSION_START_TIME;" } },
    { { "a.sqlite", "b.sqlite" }, { ABSURD, ABSURD } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    static const char *const kept[] = { KEEP ("300"), KEEP ("200") };
    g_autofree char *folder = fine (g_dir_make_tmp ("pipesim-nsys-XXXXXX", &error));
    char *paths[2];

    for (guint r = 0; r < 2; r++) {
      g_autofree char *changes = g_strconcat (kept[r], cases[i].changes[r], NULL);
      g_autofree char *path = make_export (changes), *alone = g_path_get_dirname (path);

      paths[r] = g_build_filename (folder, cases[i].names[r], NULL);
      g_assert_cmpint (g_rename (path, paths[r]), ==, 0);
      g_assert_cmpint (g_rmdir (alone), ==, 0);
    }
    g_autoptr (GPtrArray) timelines = fine (ps_timelines_load (folder, &error));
    g_assert_cmpuint (timelines->len, ==, 2);
    for (guint k = 0; k < 2; k++) {
      const PsTimeline *timeline = g_ptr_array_index (timelines, k);

      g_assert_null (timeline->remark);
      assert_spans (timeline->ops, "0:F0.0:0-1000 0:F1.0:1000-2100 0:BW0.0:5500-7500 0:BW1.0:8800-10800 "
                                   "1:F0.1:1600-2600 1:BW0.1:2600-4600 1:F1.1:5500-6500 1:BW1.1:6500-8500");
      assert_spans (timeline->transfers, "0>1:F0.0:1000-1600 1>0:B0.1:4600-5500 0>1:F1.0:4600-5500 1>0:B1.1:8500-8800");
    }
    for (guint r = 0; r < 2; r++) {
      g_assert_cmpint (g_unlink (paths[r]), ==, 0);
      g_free (paths[r]);
    }
    g_assert_cmpint (g_rmdir (folder), ==, 0);
  }
}

static void test_nsys_refusals (void)
{
  static const struct {
    const char *changes;
    const char *message;
  } cases[] = {
    { "DROP TABLE NVTX_EVENTS",
      "run.sqlite: has no table NVTX_EVENTS; an export of Nsight Systems that traced nvtx would be right" },
    { "DELETE FROM NVTX_EVENTS",
      "run.sqlite: 0 processes have NVTX ranges of a pipeline, such as PP:0F0 or forward_step; "
      "between 1 and 4096 would be right" },
    { "DELETE FROM NVTX_EVENTS WHERE textId = 3",
      "run.sqlite: has not one iteration with as many backwards as forwards" },
    { "DELETE FROM NVTX_EVENTS WHERE globalTid / 0x1000000 = 300 AND start % 1000000 IN (200, 600)",
      "run.sqlite: ranges name no stage and microbatch, and their order is none of 1F1B, interleaved 1F1B and GPipe on "
      "2 "
      "ranks" },
    { "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid", "run.sqlite: no such column: globalPid" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *path = make_export (cases[i].changes);
    g_autoptr (GError) error = NULL;

    g_assert_null (ps_timelines_load (path, &error));
    g_assert_nonnull (error);
    g_assert_cmpstr (strstr (error->message, "run.sqlite"), ==, cases[i].message);
    remove_export (path);
  }
}

/* One rank as OTLP's JSON lines, whose resource comes after its spans, one as the objects of the Python SDK with the
 * later names. Spans name no stage; backward spans no microbatch. */
static void test_otel (void)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "fixtures", "otel", NULL);
  g_autoptr (GPtrArray) timelines = fine (ps_timelines_load (folder, &error));

  g_assert_cmpuint (timelines->len, ==, 2);
  for (guint i = 0; i < 2; i++) {
    const PsTimeline *timeline = g_ptr_array_index (timelines, i);

    g_assert_cmpstr (timeline->source, ==,
                     i ? "OpenTelemetry spans, host time, iteration 2 of 2"
                       : "OpenTelemetry spans, host time, iteration 1 of 2");
    assert_spans (timeline->ops, "0:F0.0:0-10000 0:F1.0:12000-22000 0:BW0.0:52000-72000 0:BW1.0:92000-112000 "
                                 "0:O0.0:120000-130000 1:F0.1:14000-24000 1:BW0.1:24000-50000 1:F1.1:53000-63000 "
                                 "1:BW1.1:63000-90000 1:O0.1:120000-130000");
    g_assert_cmpint (timeline->iteration_ns, ==, 122000);
    assert_spans (timeline->posts, "0:F0.0:10000-12000 1:B0.1:50000-52000 1:B1.1:90000-92000");
    assert_spans (timeline->waits, "0:B0.1:22000-52000 0:B1.1:72000-92000 1:F0.0:1000-14000 1:F1.0:52000-53000");
    for (guint k = 0; k < timeline->waits->len; k++)
      g_assert_cmpuint (g_array_index (timeline->waits, PsSpan, k).post, ==, 0);
    assert_spans (timeline->transfers, "0>1:F0.0:10000-14000 1>0:B0.1:50000-52000 1>0:B1.1:90000-92000");
  }
}

static GPtrArray *parse (const char *text, GError **error)
{
  const PsTraceFile file = { .name = "spans.jsonl", .text = text, .length = strlen (text) };

  return ps_timelines_parse ("spans.jsonl", &file, 1, error);
}

#define SPAN(name, rank, start, end)                                                                                   \
  "{\"name\": \"megatron.microbatch." name "\", \"context\": {}, \"start_time\": " #start ", \"end_time\": " #end      \
  ", \"attributes\": {\"dl.rank\": " #rank ", \"dl.pipeline_parallel.size\": 2}}\n"

/* Four ranks of two pipeline stages: the first of each stage counts. */
static void test_otel_replicas (void)
{
  static const char text[] = SPAN ("forward", 0, 0, 1) SPAN ("backward", 0, 30, 31) SPAN ("forward", 2, 10, 12)
      SPAN ("backward", 2, 20, 22) SPAN ("forward", 1, 3, 4) SPAN ("backward", 1, 33, 34) SPAN ("forward", 3, 13, 14)
          SPAN ("backward", 3, 23, 24);
  g_autoptr (GPtrArray) timelines = fine (parse (text, &error));

  assert_spans (((const PsTimeline *)g_ptr_array_index (timelines, 0))->ops,
                "0:F0.0:0-1 0:BW0.0:30-31 1:F0.1:10-12 1:BW0.1:20-22");
}

#define OTLP(name, attributes, start, end)                                                                             \
  "{\"name\": \"" name "\", \"startTimeUnixNano\": \"" #start "\", \"endTimeUnixNano\": " #end                         \
  ", \"attributes\": [" attributes "]}"
#define OTLP_RANK(key, value) "{\"value\": {\"intValue\": " value "}, \"key\": \"" key "\"}"
#define RESOURCE(spans, attributes)                                                                                    \
  "{\"scopeSpans\": [{\"spans\": [" spans "]}], \"resource\": {\"attributes\": [" attributes "]}}"

/* Two ranks in one file, of which the first is the second stage: its resource says so, or each of its spans, which goes
 * before the resource; numbers are numbers or texts. Values of an array that are no objects tell nothing. */
static void test_otel_attributes (void)
{
  static const char *const texts[] = {
    "{\"resourceSpans\": [" RESOURCE (
        OTLP ("microbatch.forward", "", 12, 14) "," OTLP ("microbatch.backward", "", 14, 17),
        OTLP_RANK ("dl.rank", "\"1\"")) ","
    /* */ RESOURCE (OTLP ("microbatch.forward", "", 10, 12) "," OTLP ("microbatch.backward", "", 17, 21),
                    OTLP_RANK ("nv.dl.rank", "0")) "]}",
    "{\"resourceSpans\": [" RESOURCE (OTLP ("microbatch.forward", OTLP_RANK ("dl.rank", "5"), 12,
                                            14) "," OTLP ("microbatch.backward", OTLP_RANK ("dl.rank", "5"), 14, 17),
                                      OTLP_RANK ("dl.rank", "0")) ","
    /* */ RESOURCE (OTLP ("microbatch.forward", "", 10, 12) "," OTLP ("microbatch.backward", "", 17, 21),
                    OTLP_RANK ("dl.rank", "2")) "]}",
    "{\"resourceSpans\": [" RESOURCE (
        OTLP ("microbatch.forward", "", 12, 14) "," OTLP ("microbatch.backward", "", 14, 17),
        OTLP_RANK ("dl.rank", "4") "," OTLP_RANK ("dl.pipeline_parallel.rank", "1")) ","
    /* */ RESOURCE (
        OTLP ("microbatch.forward", "", 10, 12) "," OTLP ("microbatch.backward", "", 17, 21),
        OTLP_RANK ("dl.rank", "0") "," OTLP_RANK ("dl.pipeline_parallel.rank", "0") "," OTLP_RANK ("other", "9")) "]}",
  };

  for (guint i = 0; i < 2 * G_N_ELEMENTS (texts); i++) {
    g_autofree char *among = g_strconcat ("[3, \"a\", ", texts[i / 2], ", null]", NULL);
    g_autoptr (GPtrArray) timelines = fine (parse (i % 2 ? among : texts[i / 2], &error));
    const PsTimeline *timeline = timelines->pdata[0];

    assert_spans (timeline->ops, "0:F0.0:0-2 0:BW0.0:7-11 1:F0.1:2-4 1:BW0.1:4-7");
  }
}

/* Spans end in any order: steps of the optimizer between three iterations, of two microbatches each, come before and
 * after what they divide. */
static void test_otel_marks (void)
{
  static const char *const spans[]
      = { SPAN ("forward", 0, 10, 20),
          SPAN ("forward", 0, 20, 30),
          SPAN ("backward", 0, 30, 40),
          SPAN ("backward", 0, 40, 50),
          "{\"name\": \"megatron.optimizer_step\", \"context\": {}, \"start_time\": 60, \"end_time\": 65}\n",
          SPAN ("forward", 0, 110, 120),
          SPAN ("backward", 0, 130, 140),
          SPAN ("forward", 0, 120, 130),
          SPAN ("backward", 0, 140, 150),
          "{\"name\": \"megatron.optimizer_step\", \"context\": {}, \"start_time\": 160, \"end_time\": 166}\n",
          SPAN ("backward", 0, 240, 250),
          SPAN ("backward", 0, 230, 240),
          SPAN ("forward", 0, 220, 230),
          SPAN ("forward", 0, 210, 220),
          "{\"name\": \"megatron.optimizer_step\", \"context\": {}, \"start_time\": 260, \"end_time\": 267}\n" };
  const guint n = G_N_ELEMENTS (spans);

  for (guint step = 1; step < n; step++) {
    g_autoptr (GString) text = g_string_new (NULL);

    if (step % 3 == 0 || step % 5 == 0) /* others visit each span once */
      continue;
    for (guint i = 0; i < n; i++)
      g_string_append (text, spans[(i + 1) * step % n]);
    g_autoptr (GPtrArray) timelines = fine (parse (text->str, &error));
    g_assert_cmpuint (timelines->len, ==, 3);
    for (guint k = 0; k < 3; k++) {
      const PsTimeline *timeline = timelines->pdata[k];

      g_assert_cmpuint (timeline->ops->len, ==, 5);
      g_assert_cmpint (timeline->iteration_ns, ==, 45 + (gint64)k);
    }
  }
}

/* Dates count to the microsecond, of the years that a run can be of. */
static void test_otel_dates (void)
{
  static const struct {
    const char *start, *end;
    gint64 ns; /* -1: no time */
  } rows[] = { { "2026-08-11T12:00:00.000001Z", "2026-08-11T12:00:00.000003Z", 2000 },
               { "2026-08-11T12:00:00.25Z", "2026-08-11T12:00:01Z", 750000000 },
               { "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.5Z", 500000000 },
               { "2200-12-31T23:59:59Z", "2200-12-31T23:59:59.5Z", 500000000 },
               { "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", -1 },
               { "2200-12-31T23:59:59Z", "2201-01-01T00:00:00Z", -1 },
               { "yesterday", "2026-08-11T12:00:00Z", -1 },
               { "5", "9", 4 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *text = g_strdup_printf (
        "{\"name\": \"megatron.microbatch.forward\", \"context\": {}, \"start_time\": \"%s\", \"end_time\": \"%s\"}\n"
        "{\"name\": \"megatron.microbatch.backward\", \"context\": {}, \"start_time\": \"2200-12-31T23:59:59.7Z\", "
        "\"end_time\": \"2200-12-31T23:59:59.8Z\"}",
        rows[i].start, rows[i].end);
    g_autoptr (GPtrArray) timelines = parse (text, NULL);

    g_assert_cmpint (timelines != NULL, ==, rows[i].ns >= 0);
    if (timelines == NULL)
      continue;
    const PsSpan *span = &g_array_index (((const PsTimeline *)timelines->pdata[0])->ops, PsSpan, 0);
    g_assert_cmpint (span->end_ns - span->start_ns, ==, rows[i].ns);
  }
}

static void test_otel_refusals (void)
{
  static const struct {
    const char *text;
    const char *message;
  } cases[] = {
    { SPAN ("forward", 0, 0, 1) "{\"name\": ", "spans.jsonl: value 2:1:10: the text ends too early: no value of JSON" },
    { "{\"resourceSpans\": 3}",
      "spans.jsonl: spans of 0 ranks have names of a pipeline, such as megatron.microbatch.forward; between 1 and 4096 "
      "would be right" },
    { SPAN ("forward", 0, 5, 1), "spans.jsonl: spans of 0 ranks have names of a pipeline, such as "
                                 "megatron.microbatch.forward; between 1 and 4096 would be right" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    refused (parse (cases[i].text, &error), PS_ERROR_INPUT, cases[i].message);
  }
}

/* Steps */

guint64 ps_n_steps;

/* Adds copies of the fixture's first iteration, a millisecond apart, to the two that are there. */
#define MORE                                                                                                           \
  "CREATE TEMP TABLE more AS WITH RECURSIVE n (i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < %u) "         \
  "SELECT i, i * 1000000 AS ns FROM n;"                                                                                \
  "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId) SELECT start + ns, end + ns, eventType, "  \
  "text, globalTid, textId FROM NVTX_EVENTS, more WHERE start < 1000000 AND eventType = 59 AND end IS NOT NULL;"       \
  "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start + ns, end + ns, eventClass, globalTid, correlationId + 100 * " \
  "i, nameId, returnValue, callchainId FROM CUPTI_ACTIVITY_KIND_RUNTIME, more WHERE start < 1000000;"                  \
  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start + ns, end + ns, deviceId, contextId, greenContextId, "          \
  "streamId, "                                                                                                         \
  "correlationId + 100 * i, globalPid, demangledName, shortName, mangledName FROM CUPTI_ACTIVITY_KIND_KERNEL, more "   \
  "WHERE start < 1000000"

/* Steps of reading n iterations. */
static guint64 count_steps (guint n)
{
  g_autofree char *changes = g_strdup_printf (MORE, n - 1);
  g_autofree char *path = make_export (changes);
  guint64 before = ps_n_steps;
  g_autoptr (GPtrArray) timelines = fine (ps_timelines_load (path, &error));

  g_assert_cmpuint (timelines->len, ==, n);
  for (guint i = 0; i < n; i++) {
    const PsTimeline *timeline = g_ptr_array_index (timelines, i);

    g_assert_cmpint (timeline->iteration_ns, ==, 10800);
    g_assert_cmpuint (timeline->ops->len, ==, 8);
    g_assert_cmpuint (timeline->transfers->len, ==, 4);
    g_assert_cmpuint (timeline->waits->len, ==, 4);
  }
  remove_export (path);
  return ps_n_steps - before;
}

/* Twice the iterations take twice the steps, and a few for one more level of bisections. */
static void test_linear (void)
{
  guint64 few = count_steps (200), many = count_steps (400);

  g_assert_cmpuint (few, >, 200);
  g_assert_cmpuint (10 * many, <, 23 * few);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/trace/nsys/megatron", test_nsys);
  g_test_add_func ("/trace/nsys/host", test_nsys_host);
  g_test_add_func ("/trace/nsys/files", test_nsys_files);
  g_test_add_func ("/trace/nsys/updates", test_nsys_updates);
  g_test_add_func ("/trace/nsys/names", test_nsys_names);
  g_test_add_func ("/trace/nsys/refusals", test_nsys_refusals);
  g_test_add_func ("/trace/otel/megatron", test_otel);
  g_test_add_func ("/trace/otel/replicas", test_otel_replicas);
  g_test_add_func ("/trace/otel/attributes", test_otel_attributes);
  g_test_add_func ("/trace/otel/marks", test_otel_marks);
  g_test_add_func ("/trace/otel/dates", test_otel_dates);
  g_test_add_func ("/trace/otel/refusals", test_otel_refusals);
  g_test_add_func ("/trace/steps/nsys", test_linear);
  return g_test_run ();
}

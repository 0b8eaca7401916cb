/* trace-private.h - the readers of traces: events of JSON traces, names of ranges, and the ranges of all ranks of a
 * run, as any kind of trace yields them, which become timelines. Private to sim/observe. */
#pragma once

#include "base/json.h"
#include "program/torch-actions.h"

#include <pipesim/formats.h>
#include <pipesim/observe.h>

/* Events of JSON traces, of viewers and profilers, one after the other */

/* Numbers of an event; members that are not listed are ignored. */
typedef enum {
  TRACE_PID,
  TRACE_TID,
  TRACE_ID,
  TRACE_TS,    /* ns, rounded from microseconds; an absurd TRACE_TS or TRACE_DUR counts as absent */
  TRACE_DUR,   /* ns */
  TRACE_CHUNK, /* of "args", as the next ones */
  TRACE_START_NS,
  TRACE_END_NS,
  TRACE_BYTES,
  TRACE_N_NUMBERS
} PsTraceNumber;

typedef enum { TRACE_PHASE, TRACE_NAME, TRACE_CATEGORY, TRACE_ARGS_NAME, TRACE_N_TEXTS } PsTraceText;

typedef struct {
  guint index;
  guint known; /* bit per PsTraceNumber */
  gint64 number[TRACE_N_NUMBERS];
  PsJsonString text[TRACE_N_TEXTS]; /* "" if absent or not a text */
} PsTraceEvent;

/* One file of a trace. */
typedef struct {
  const char *name; /* its name in messages */
  PsJsonReader json;
  PsJsonStream stream; /* of a packed file, whose events are in memory one at a time; else its unpacker is NULL */
  const char *events;  /* where the array of events begins; of a packed file only whether there is one */
  const char *other;   /* where the value of "otherData" begins; NULL: none */
  char *kept;          /* that value of a packed file */
  gint64 base_ns;      /* "baseTimeNanoseconds" of the file, added to its times; 0: none */
  gint64 rank;         /* "rank" of its "distributedInfo"; -1: none */
  gint64 n_ranks;      /* "world_size" of its "distributedInfo"; 0: none */
  gboolean fake;       /* its "backend" there is one that moves no message: PyTorch's "fake" */
  PsTraceEvent event;
} PsTrace;

/* One event of phase X, with texts of that event. */
typedef struct {
  gint64 pid;
  gint64 tid;
  gint64 start_ns;
  gint64 end_ns;
  const char *name;
  const char *category;
} PsTraceRange;

/* Finds the array of events: the whole text, or "traceEvents" of an object. The file must outlive the trace. Clear in
 * any case. */
gboolean ps_trace_open (PsTrace *trace, const PsTraceFile *file, GError **error);
void ps_trace_clear (gpointer trace);

/* ps_trace_rewind goes back to the first event. ps_trace_next gives the next one, NULL after the last; it is valid
 * until the next call. An element that is no object counts as an event without members. */
void ps_trace_rewind (PsTrace *trace);
const PsTraceEvent *ps_trace_next (PsTrace *trace);

static inline const char *ps_trace_text (const PsTraceEvent *event, PsTraceText text)
{
  return event->text[text].text;
}

/* FALSE: the event does not have the number. */
static inline gboolean ps_trace_number (const PsTraceEvent *event, PsTraceNumber number, gint64 *value)
{
  *value = event->number[number];
  return (event->known & 1U << number) != 0;
}

/* Whether an event is a complete range. */
gboolean ps_trace_range (const PsTraceEvent *event, PsTraceRange *range);

/* Names of ranges
 *
 * - torch.distributed.pipelining's runtime: "PP:0F0", "PP:(0F7;7B3)OVERLAP_F_B", "PP:0SEND_F0".
 *
 * - Its ScheduleGPipe: "Forward 0" and "Backward 0", of the rank's only stage.
 *
 * - Megatron-LM names neither stage nor microbatch: NVTX ranges and timers "forward_step", "forward-compute",
 *   "backward_step", "backward-compute"; OpenTelemetry spans "megatron.microbatch.forward" (later
 *   "nv.mcore.microbatch.forward"), "megatron.p2p.recv_forward" and the like. A module path may stand before the name:
 *   "megatron.core.pipeline_parallel.schedules.forward_step". */

typedef enum {
  PS_RANGES_COUNTED, /* neither stage nor microbatch */
  PS_RANGES_OF_RANK, /* the microbatch, and no stage */
  PS_RANGES_NAMED,   /* both */
} PsRangeNaming;

typedef struct {
  PsRangeNaming naming;
  guint n; /* 1, or 2 for a pair */
  PsTorchAction actions[2];
} PsRangeName;

/* FALSE: the name is none of those above. */
gboolean ps_range_name_parse (const char *name, PsRangeName *parsed);

/* Whether a range of this name updates the weights: "Optimizer.step#SGD.step", "megatron.optimizer_step". */
gboolean ps_range_name_is_update (const char *name);

/* Whether it begins between two iterations: an update, "ProfilerStep#3", "megatron.train_step" and the like. */
gboolean ps_range_name_is_mark (const char *name);

/* Ranks */

/* One op, or one pair: a range with two ops. All times of a rank count from one instant. */
typedef struct {
  gint64 start_ns; /* with the time that it waits */
  gint64 end_ns;
  gint64 compute_start_ns; /* the timeline's op lasts from here */
  gint64 compute_end_ns;
  gint64 wait_start_ns; /* the rank waits for the range's message from here; wait_end_ns: not at all, or not known */
  gint64 wait_end_ns;
  guint n;
  PsOp ops[2];
} PsRankRange;

/* One rank; the last two members are filled by ps_ranks_to_timelines. */
typedef struct {
  const char *name; /* of its file, for messages */
  guint number;
  gboolean fake;   /* messages took no time, and came from no other rank */
  GArray *ranges;  /* of PsRankRange, in any order; after the cut by start, without nested ones */
  GArray *posts;   /* of PsSpan; devices are set later */
  GArray *waits;   /* of PsSpan: waits outside of ranges; with post where the wait is for a receive */
  GArray *links;   /* of PsSpan with post: when a device worked on one end of a message */
  GArray *updates; /* of PsSpan: O after each iteration, in any order */
  GArray *marks;   /* gint64: instants between two iterations, in any order; none: not known */
  GArray *starts;  /* guint: first range of each complete iteration */
  guint n;         /* ranges of an iteration */
} PsRank;

PsRank *ps_rank_new (const char *name);

void ps_rank_free (gpointer rank);

/* The number after "rank" in the name of a file, else -1. */
gint64 ps_rank_of_path (const char *path);

/* Adds what the name stands for: a range that computes from its start to its end and waits for nothing, a post, a wait,
 * or nothing. */
void ps_rank_add (PsRank *rank, const PsRangeName *name, gint64 start_ns, gint64 end_ns);

/* Adds a range between two iterations; update: it updates the weights. */
void ps_rank_add_mark (PsRank *rank, gboolean update, gint64 start_ns, gint64 end_ns);

/* In a rank whose ranges are in order: the number of the first range that starts after that time; and the one before
 * it, if it has not ended then, else NULL. */
guint ps_rank_first_after (const PsRank *rank, gint64 time_ns);

PsRankRange *ps_rank_range_at (const PsRank *rank, gint64 time_ns);

/* One more than the last stage. */
guint ps_ranks_count_stages (GPtrArray *ranks);

/* The first step: sorts the ranges of each rank (of PsRank), drops those inside another, and finds the stages and
 * microbatches that names do not tell. naming: that of all names. PS_RANGES_OF_RANK: the stage is the rank's number.
 * PS_RANGES_COUNTED: the orders of 1F1B, GPipe and Megatron's interleaved 1F1B are known, where one group of p
 * microbatches follows the other; posts and waits get the op next to them. Errors: PS_ERROR_INPUT. */
gboolean ps_ranks_number (GPtrArray *ranks, PsRangeNaming naming, GError **error);

/* Adds a remark after those that the timeline has. NULL: none. */
void ps_timeline_add_remark (PsTimeline *timeline, const char *remark);

/* The second step: drops ranks from the list whose ops an earlier one does, too, and cuts them into iterations; each
 * complete one becomes a PsTimeline of the list, in order. An op that comes again begins a new iteration. A range waits
 * only if another rank sends its message.
 *
 * Ranks were recorded apart (PsTimeline.apart) where one is fake, or where no two were recorded at the same time by
 * their clocks and messages contradict any shift of these by more than half an op. Clocks of other machines are of
 * other times, too, but shifting them makes sense of the messages.
 *
 * source: where the times come from; the number of the iteration is added.
 * Errors: PS_ERROR_INPUT. */
GPtrArray *ps_ranks_to_timelines (const char *where, const char *source, GPtrArray *ranks, GError **error);

/* Kinds of traces. Each reads one run in n files as a list of PsTimeline. Errors: PS_ERROR_IO, PS_ERROR_INPUT. */

/* Traces of PyTorch's profiler, with ranges of actions. */
GPtrArray *ps_torch_trace_read (const char *where, PsTrace *traces, guint n, GError **error);

/* OpenTelemetry spans, as Megatron-LM emits them; and whether the beginning of a text looks like them: OTLP's JSON or
 * that of the Python SDK's console exporter. */
GPtrArray *ps_otel_read (const char *where, const PsTraceFile *files, guint n, GError **error);
gboolean ps_otel_recognise (const char *text, gsize length);

/* Exports of Nsight Systems; and whether a file is an SQLite database other than pipesim's own. */
GPtrArray *ps_nsys_read (const char *where, const char *const *paths, guint n, GError **error);
gboolean ps_nsys_recognise (const char *path);

/* Reads a Chrome trace that ps_timeline_to_chrome_trace wrote. Errors: PS_ERROR_INPUT "NAME: traceEvents[3]: ...". */
PsTimeline *ps_chrome_trace_read (PsTrace *trace, GError **error);

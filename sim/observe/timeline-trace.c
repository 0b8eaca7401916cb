/* timeline-trace.c - a timeline as Chrome trace events, for Perfetto and chrome://tracing. */
#include "base/json.h"
#include "base/put.h"
#include "timeline-private.h"

#define MAX_ROW 512 /* letters of an event */

typedef struct
{
  const PsTimeline *timeline;
  GString *json;
  GHashTable *spans; /* the ops (ps_spans_index) */
  guint pid;
  guint n_events;
} Trace;

/* A full backward answers for the gradient that it sends on, and takes it. */
static const PsSpan *
find_span (const Trace *trace, PsOp op, guint device)
{
  const PsSpan *span = ps_spans_find (trace->spans, op, device);

  if (span != NULL || (op.kind != PS_OP_B && op.kind != PS_OP_BW))
    return span;
  op.kind = op.kind == PS_OP_B ? PS_OP_BW : PS_OP_B;
  return ps_spans_find (trace->spans, op, device);
}

static void
begin_event (Trace *trace, const char *phase)
{
  g_string_append_printf (trace->json, "%s\n{\"ph\":\"%s\",\"pid\":%u", trace->n_events++ ? "," : "", phase,
                          trace->pid);
}

static char *
put_event (Trace *trace, char *to, const char *phase, guint tid)
{
  to = ps_put (to, trace->n_events++ ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
  to = ps_put_integer (ps_put (ps_put (to, phase), "\",\"pid\":"), trace->pid);
  return ps_put_integer (ps_put (to, ",\"tid\":"), tid);
}

static char *
put_name (char *to, const char *category, const char *verb, PsOp op)
{
  to = ps_put (ps_put (ps_put (to, ",\"cat\":\""), category), "\",\"name\":\"");
  to = ps_put (to, verb);
  ps_op_format (op, to);
  return ps_put (to + strlen (to), "\"");
}

/* Microseconds: exactly the nanoseconds. */
static char *
put_time (char *to, const char *key, gint64 ns)
{
  gint64 part = ns % 1000;

  to = ps_put_integer (ps_put (to, key), ns / 1000);
  if (part == 0)
    return to;
  to = ps_put (to, part < 10 ? ".00" : part < 100 ? ".0" : ".");
  return ps_put_integer (to, part);
}

static char *
put_range (char *to, const PsSpan *span)
{
  return put_time (put_time (to, ",\"ts\":", span->start_ns), ",\"dur\":", span->end_ns - span->start_ns);
}

/* Figures that the events don't tell. */
static void
append_head (Trace *trace)
{
  const PsTimeline *timeline = trace->timeline;

  g_string_append (trace->json, "{\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"source\":");
  ps_json_append_string (trace->json, timeline->source);
  g_string_append_printf (trace->json,
                          ",\"devices\":%u,\"stages\":%u,\"microbatches\":%u,\"iteration_ns\":%" G_GINT64_FORMAT,
                          timeline->n_devices, timeline->n_stages, timeline->n_microbatches, timeline->iteration_ns);
  if (timeline->interval.p90_ns > 0)
    g_string_append_printf (trace->json,
                            ",\"iteration_p10_ns\":%" G_GINT64_FORMAT ",\"iteration_p90_ns\":%" G_GINT64_FORMAT,
                            timeline->interval.p10_ns, timeline->interval.p90_ns);
  if (timeline->usual_ns > 0)
    g_string_append_printf (trace->json, ",\"usual_iteration_ns\":%" G_GINT64_FORMAT, timeline->usual_ns);
  g_string_append (trace->json, "},\n\"traceEvents\":[");
}

static void
append_thread (Trace *trace, guint tid, const char *name, guint device)
{
  begin_event (trace, "M");
  g_string_append_printf (trace->json, ",\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"%s %u\"}}", tid, name,
                          device);
  begin_event (trace, "M");
  g_string_append_printf (trace->json, ",\"tid\":%u,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}", tid,
                          tid);
}

static void
append_names (Trace *trace)
{
  const PsTimeline *timeline = trace->timeline;
  g_autofree char *process = g_strdup_printf (
      "%s: %s", timeline->origin == PS_ORIGIN_MEASURED ? "measured" : "predicted (simulated)", timeline->schedule);

  begin_event (trace, "M");
  g_string_append (trace->json, ",\"name\":\"process_name\",\"args\":{\"name\":");
  ps_json_append_string (trace->json, process);
  g_string_append (trace->json, "}}");
  for (guint d = 0; d < timeline->n_devices; d++)
    append_thread (trace, d, "device", d);
  for (guint d = 0; d < timeline->n_devices && timeline->posts->len + timeline->waits->len > 0; d++)
    append_thread (trace, PS_MAX_DEVICES + d, "posts of device", d);
}

static void
append_op (Trace *trace, const PsSpan *span)
{
  char row[MAX_ROW], *to = put_event (trace, row, "X", span->device);

  to = put_range (put_name (to, ps_op_kind_name (span->op.kind), "", span->op), span);
  if (span->chunk > 0)
    to = ps_put (ps_put_integer (ps_put (to, ",\"args\":{\"chunk\":"), span->chunk), "}");
  g_string_append_len (trace->json, row, ps_put (to, "}") - row);
}

static void
append_host_span (Trace *trace, const PsSpan *span, PsInstructionType type)
{
  char row[MAX_ROW], verb[16], *to = put_event (trace, row, "X", PS_MAX_DEVICES + span->device);

  ps_put (ps_put (verb, ps_instruction_verb (type)), " ");
  to = put_range (put_name (to, type == PS_INSTRUCTION_WAIT ? "wait" : "post", verb, span->op), span);
  g_string_append_len (trace->json, row, ps_put (to, "}") - row);
}

static char *
put_arrow_end (Trace *trace, char *to, const char *phase, PsOp op, guint id, guint device, gint64 time_ns)
{
  to = put_name (put_event (trace, to, phase, device), "transfer", "", op);
  return put_time (ps_put_integer (ps_put (to, ",\"id\":"), id), ",\"ts\":", time_ns);
}

/* Viewers tie an arrow's end to the op that encloses it in time: the last nanosecond of the producer, the start of the
 * consumer. When the transfer itself started and ended stands in the args of its start. */
static void
append_arrow (Trace *trace, const PsSpan *transfer, guint id)
{
  PsOp consumed = transfer->op;
  const PsSpan *producer = find_span (trace, transfer->op, transfer->device), *consumer;
  gint64 from_ns = transfer->start_ns, to_ns = transfer->end_ns;
  char row[MAX_ROW], *to;

  consumed.stage = (guint16)(consumed.kind == PS_OP_F ? consumed.stage + 1 : consumed.stage - 1);
  consumer = find_span (trace, consumed, transfer->peer);
  if (producer != NULL)
    from_ns = MAX (producer->start_ns, MIN (from_ns, producer->end_ns - 1));
  if (consumer != NULL)
    to_ns = consumer->start_ns;
  to = put_arrow_end (trace, row, "s", transfer->op, id, transfer->device, from_ns);
  to = ps_put_integer (ps_put (to, ",\"args\":{\"start_ns\":"), transfer->start_ns);
  to = ps_put (ps_put_integer (ps_put (to, ",\"end_ns\":"), transfer->end_ns), "}}");
  to = put_arrow_end (trace, to, "f", transfer->op, id, transfer->peer, to_ns);
  g_string_append_len (trace->json, row, ps_put (to, ",\"bp\":\"e\"}") - row);
}

static void
append_memory (Trace *trace, const PsMemoryPoint *point)
{
  char row[MAX_ROW], *to = put_event (trace, row, "C", point->device);

  to = ps_put (ps_put_integer (ps_put (to, ",\"name\":\"memory of device "), point->device), "\"");
  to = ps_put (put_time (to, ",\"ts\":", point->time_ns), ",\"args\":{\"bytes\":");
  g_string_append_len (trace->json, row, ps_put (ps_put_integer (to, point->bytes), "}}") - row);
}

char *
ps_timeline_to_chrome_trace (const PsTimeline *timeline)
{
  Trace trace
      = { .timeline = timeline, .json = g_string_new (NULL), .pid = timeline->origin == PS_ORIGIN_MEASURED ? 1 : 0 };

  trace.spans = ps_spans_index (timeline->ops);
  append_head (&trace);
  append_names (&trace);
  for (guint i = 0; i < timeline->ops->len; i++)
    append_op (&trace, &g_array_index (timeline->ops, PsSpan, i));
  for (guint i = 0; i < timeline->transfers->len; i++)
    append_arrow (&trace, &g_array_index (timeline->transfers, PsSpan, i), i);
  for (guint i = 0; i < timeline->posts->len; i++)
    {
      const PsSpan *post = &g_array_index (timeline->posts, PsSpan, i);

      append_host_span (&trace, post, post->post);
    }
  for (guint i = 0; i < timeline->waits->len; i++)
    append_host_span (&trace, &g_array_index (timeline->waits, PsSpan, i), PS_INSTRUCTION_WAIT);
  for (guint i = 0; i < timeline->memory->len; i++)
    append_memory (&trace, &g_array_index (timeline->memory, PsMemoryPoint, i));
  g_string_append (trace.json, "\n]\n}\n");
  g_hash_table_unref (trace.spans);
  return g_string_free (trace.json, FALSE);
}

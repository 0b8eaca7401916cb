/* timeline-files.c - timelines as files of pipesim and as Chrome trace events, for Perfetto and chrome://tracing:
 * written, and read again; and the format of a schedule's simulated timeline, which cannot be read as a schedule. */
#include "base/json.h"
#include "base/text.h"
#include "schedule/formats-private.h"
#include "timeline-private.h"
#include "trace-private.h"

#include <string.h>

/* What both kinds of files have */

/* The type in the name of a post, "SEND F0.1", or of a wait, "WAIT F0.1", which becomes "F0.1"; 0 where it has none. */
static guint8 parse_verb (const char **name)
{
  for (guint type = PS_INSTRUCTION_SEND; type <= PS_INSTRUCTION_WAIT; type++) {
    const char *verb = ps_instruction_verb ((PsInstructionType)type);
    gsize length = strlen (verb);

    if (!g_str_has_prefix (*name, verb) || (*name)[length] != ' ')
      continue;
    *name += length + 1;
    return (guint8)type;
  }
  return 0;
}

/* Files do not repeat the sender's chunk with every transfer: it is that of the ops on the same device and stage. */
static void fill_transfer_chunks (PsTimeline *timeline)
{
  g_autoptr (GHashTable) chunks = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < timeline->ops->len; i++) {
    const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

    g_hash_table_insert (chunks, GUINT_TO_POINTER ((guint)span->device << 16 | span->op.stage),
                         GUINT_TO_POINTER (span->chunk));
  }
  for (guint i = 0; i < timeline->transfers->len; i++) {
    PsSpan *span = &g_array_index (timeline->transfers, PsSpan, i);
    gpointer key = GUINT_TO_POINTER ((guint)span->device << 16 | span->op.stage);

    span->chunk = (guint16)GPOINTER_TO_UINT (g_hash_table_lookup (chunks, key));
  }
}

/* Puts in order what was read. A device runs one op, or one pair, at a time; sums over its ops rely on it. joins: ops
 * that run at the same time become pairs, which a trace does not mark. */
static gboolean finish_timeline (const char *where, PsTimeline *timeline, gboolean joins, GError **error)
{
  char name[48], before[48];

  fill_transfer_chunks (timeline);
  ps_timeline_sort (timeline);
  for (guint i = 1; i < timeline->ops->len; i++) {
    PsSpan *span = &g_array_index (timeline->ops, PsSpan, i), *previous = span - 1;
    gboolean pair = joins ? i < 2 || previous[-1].op.paired == 0 : previous->op.paired;

    if (previous->device != span->device || previous->end_ns <= span->start_ns)
      continue;
    if (!pair || previous->start_ns != span->start_ns || previous->end_ns != span->end_ns)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: device %u: %s starts before %s has ended", where, span->device,
                        ps_op_format (span->op, name), ps_op_format (previous->op, before));
    previous->op.paired = 1;
  }
  return TRUE;
}

#define MAX_SUM (G_MAXINT64 / 4) /* differences and sums of two such figures stay exact */

/* Figures of the whole timeline: a guint or a gint64. */
static const struct {
  const char *key;
  gsize count; /* offset in PsTimeline */
  gsize ns;    /* in place of count */
  gint64 low;
  gint64 high;
  gboolean optional; /* not known where it is 0 */
} figures[] = {
  { .key = "devices", .count = offsetof (PsTimeline, n_devices), .low = 1, .high = PS_MAX_DEVICES },
  { .key = "stages", .count = offsetof (PsTimeline, n_stages), .low = 1, .high = PS_MAX_STAGES },
  { .key = "microbatches", .count = offsetof (PsTimeline, n_microbatches), .low = 1, .high = PS_MAX_MICROBATCHES },
  { .key = "iteration_ns", .ns = offsetof (PsTimeline, iteration_ns), .high = MAX_SUM },
  { .key = "iteration_p10_ns", .ns = offsetof (PsTimeline, interval.p10_ns), .high = MAX_SUM, .optional = TRUE },
  { .key = "iteration_p90_ns", .ns = offsetof (PsTimeline, interval.p90_ns), .high = MAX_SUM, .optional = TRUE },
  { .key = "usual_iteration_ns", .ns = offsetof (PsTimeline, usual_ns), .high = MAX_SUM, .optional = TRUE },
};

static void set_figure (PsTimeline *timeline, guint i, gint64 value)
{
  if (figures[i].count > 0)
    G_STRUCT_MEMBER (guint, timeline, figures[i].count) = (guint)value;
  else
    G_STRUCT_MEMBER (gint64, timeline, figures[i].ns) = value;
}

/* Writes each with the text before its key, and the text between key and value. */
static void append_figures (GString *json, const PsTimeline *timeline, const char *before, const char *between)
{
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++) {
    gint64 value = figures[i].count > 0 ? G_STRUCT_MEMBER (guint, timeline, figures[i].count)
                                        : G_STRUCT_MEMBER (gint64, timeline, figures[i].ns);

    if (value > 0 || !figures[i].optional)
      g_string_append_printf (json, "%s\"%s\":%s%" G_GINT64_FORMAT, before, figures[i].key, between, value);
  }
}

#define FORMAT "pipesim-timeline/1"

typedef enum {
  OPS,
  TRANSFERS,
  POSTS,
  WAITS,
  MEMORY,
} ListKind;

static const struct {
  const char *key;
  gsize array; /* offset in PsTimeline */
  guint least; /* values in a row */
  guint most;
} lists[] = {
  [OPS] = { "ops", offsetof (PsTimeline, ops), 5, 5 },
  [TRANSFERS] = { "transfers", offsetof (PsTimeline, transfers), 5, 5 },
  [POSTS] = { "posts", offsetof (PsTimeline, posts), 4, 4 },
  [WAITS] = { "waits", offsetof (PsTimeline, waits), 4, 4 },
  [MEMORY] = { "memory", offsetof (PsTimeline, memory), 3, 4 },
};

static GArray *array_of (const PsTimeline *timeline, ListKind kind)
{
  return *(GArray *const *)(gconstpointer)((const char *)timeline + lists[kind].array);
}

/* The native file: one row per line; whatever it does not know is refused */

static void append_rows (GString *json, const PsTimeline *timeline, ListKind kind)
{
  const GArray *rows = array_of (timeline, kind);
  char name[48];

  g_string_append_printf (json, ",\n  \"%s\": [", lists[kind].key);
  for (guint i = 0; i < rows->len; i++) {
    const PsMemoryPoint *point = &g_array_index (rows, PsMemoryPoint, i);
    const PsSpan *span = &g_array_index (rows, PsSpan, i);

    g_string_append_printf (json, i ? ",\n    [%u" : "\n    [%u", kind == MEMORY ? point->device : span->device);
    if (kind == TRANSFERS)
      g_string_append_printf (json, ", %u", span->peer);
    if (kind != MEMORY)
      g_string_append_printf (json, ", \"%s%s%s%s\", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT,
                              kind == POSTS ? ps_instruction_verb (span->post) : "", kind == POSTS ? " " : "",
                              ps_op_format (span->op, name), span->op.paired ? "+" : "", span->start_ns, span->end_ns);
    if (kind == OPS)
      g_string_append_printf (json, ", %u", span->chunk);
    if (kind == MEMORY)
      g_string_append_printf (json, ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT, point->time_ns, point->bytes);
    if (kind == MEMORY && point->buffer_bytes > 0)
      g_string_append_printf (json, ", %" G_GINT64_FORMAT, point->buffer_bytes);
    g_string_append_c (json, ']');
  }
  g_string_append (json, rows->len ? "\n  ]" : "]");
}

char *ps_timeline_to_json (const PsTimeline *timeline)
{
  GString *json = g_string_new ("{\n  \"format\": \"" FORMAT "\",\n  \"origin\": ");

  ps_json_append_string (json, ps_origin_name (timeline->origin));
  g_string_append (json, ",\n  \"schedule\": ");
  ps_json_append_string (json, timeline->schedule);
  g_string_append (json, ",\n  \"source\": ");
  ps_json_append_string (json, timeline->source);
  append_figures (json, timeline, ",\n  ", " ");
  for (ListKind kind = OPS; kind <= MEMORY; kind++)
    if ((kind != POSTS && kind != WAITS) || array_of (timeline, kind)->len > 0)
      append_rows (json, timeline, kind);
  g_string_append (json, "\n}\n");
  return g_string_free (json, FALSE);
}

/* A row of a table and the place that messages name: "FILE: ops[3]". */
typedef struct {
  PsJsonReader *reader;
  const char *key;
  guint row;
  guint n_cells;
} Place;

static char *describe (const Place *place)
{
  return g_strdup_printf ("%s: %s[%u]", place->reader->where, place->key, place->row);
}

/* The readers of cells take the next one of the row. */

static gboolean read_integer (const Place *place, const char *what, gint64 low, gint64 high, gint64 *value,
                              GError **error)
{
  ps_json_next_element (place->reader);
  if (!ps_json_read_integer (place->reader, value))
    return ps_refuse_at (describe (place), error, "%s is no integer", what);
  if (*value < low || *value > high)
    return ps_refuse_at (describe (place), error,
                         "%s %" G_GINT64_FORMAT " is not between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, what,
                         *value, low, high);
  return TRUE;
}

static gboolean read_index (const Place *place, const char *what, guint n, guint16 *value, GError **error)
{
  gint64 index = 0;

  if (!read_integer (place, what, 0, (gint64)n - 1, &index, error))
    return FALSE;
  *value = (guint16)index;
  return TRUE;
}

/* post, for posts: takes the verb before the op; NULL: there is none. */
static gboolean read_op (const Place *place, const PsTimeline *timeline, PsOp *op, guint8 *post, GError **error)
{
  const char *text, *name, *end;

  ps_json_next_element (place->reader);
  if (!ps_json_read_text (place->reader, &text))
    return ps_refuse_at (describe (place), error, "op is no text");
  name = text;
  if (post != NULL)
    *post = parse_verb (&name);
  if (post != NULL && (*post == 0 || *post == PS_INSTRUCTION_WAIT))
    return ps_refuse_at (describe (place), error, "'%s' is no post; one looks like SEND F0.1", text);
  if (!ps_op_parse (name, &end, op))
    return ps_refuse_at (describe (place), error, "'%s' is no op; one looks like F0.1", name);
  op->paired = *end == '+';
  if (end[op->paired] != '\0')
    return ps_refuse_at (describe (place), error, "'%s' is no op; one looks like F0.1", name);
  if (op->stage >= timeline->n_stages)
    return ps_refuse_at (describe (place), error, "stage of '%s' is not below %u", name, timeline->n_stages);
  if (op->microbatch >= timeline->n_microbatches)
    return ps_refuse_at (describe (place), error, "microbatch of '%s' is not below %u", name, timeline->n_microbatches);
  return TRUE;
}

static gboolean read_span (const Place *place, PsTimeline *timeline, ListKind kind, GError **error)
{
  PsSpan span = { 0 };

  if (!read_index (place, kind == TRANSFERS ? "sender" : "device", timeline->n_devices, &span.device, error)
      || (kind == TRANSFERS && !read_index (place, "receiver", timeline->n_devices, &span.peer, error))
      || !read_op (place, timeline, &span.op, kind == POSTS ? &span.post : NULL, error)
      || !read_integer (place, "start", 0, MAX_SUM, &span.start_ns, error)
      || !read_integer (place, "end", span.start_ns, MAX_SUM, &span.end_ns, error)
      || (kind == OPS && !read_index (place, "chunk", timeline->n_stages * 2, &span.chunk, error)))
    return FALSE;
  if (kind != TRANSFERS)
    span.peer = span.device;
  g_array_append_val (array_of (timeline, kind), span);
  return TRUE;
}

static gboolean read_point (const Place *place, PsTimeline *timeline, GError **error)
{
  PsMemoryPoint point = { 0 };

  if (!read_index (place, "device", timeline->n_devices, &point.device, error)
      || !read_integer (place, "time", 0, MAX_SUM, &point.time_ns, error)
      || !read_integer (place, "bytes", 0, MAX_SUM, &point.bytes, error)
      || (place->n_cells == 4 && !read_integer (place, "buffers", 0, point.bytes, &point.buffer_bytes, error)))
    return FALSE;
  g_array_append_val (timeline->memory, point);
  return TRUE;
}

static gboolean read_rows (const PsJsonObject *object, ListKind kind, PsTimeline *timeline, GError **error)
{
  PsJsonReader *reader = object->reader;
  Place place = { .reader = reader, .key = lists[kind].key };

  if (!ps_json_get_array (object, place.key, error))
    return FALSE;
  for (; ps_json_next_element (reader); place.row++) {
    if (place.row == PS_MAX_OPS)
      return ps_refuse_at (describe (&place), error, "is one row more than the %d that are possible", PS_MAX_OPS);
    place.n_cells = ps_json_enter_array (reader) ? ps_json_count_elements (reader) : 0;
    if (place.n_cells < lists[kind].least || place.n_cells > lists[kind].most)
      return ps_refuse_at (describe (&place), error, "is no array of %u values", lists[kind].least);
    if (!(kind == MEMORY ? read_point (&place, timeline, error) : read_span (&place, timeline, kind, error)))
      return FALSE;
    ps_json_next_element (reader);
  }
  return TRUE;
}

static PsTimeline *read_figures (const PsJsonObject *object, GError **error)
{
  g_autofree char *origin_text = NULL, *schedule = NULL, *source = NULL;
  PsOrigin origin;
  gint64 value = 0;

  if (!ps_json_get_text (object, "origin", &origin_text, error)
      || !ps_json_get_text (object, "schedule", &schedule, error)
      || !ps_json_get_text (object, "source", &source, error))
    return NULL;
  if (!ps_origin_parse ("origin", origin_text, &origin, NULL)
      || (origin != PS_ORIGIN_SIMULATED && origin != PS_ORIGIN_MEASURED))
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: origin: '%s' is neither simulated nor measured",
                           object->reader->where, origin_text);
  g_autoptr (PsTimeline) timeline = ps_timeline_new (origin, schedule, 1, 1, 1);
  g_free (timeline->source);
  timeline->source = g_steal_pointer (&source);
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++) {
    if (figures[i].optional && !ps_json_object_has (object, figures[i].key))
      continue;
    gboolean is_p90 = figures[i].ns == offsetof (PsTimeline, interval.p90_ns);
    if (!ps_json_get_integer (object, figures[i].key, is_p90 ? timeline->interval.p10_ns : figures[i].low,
                              figures[i].high, &value, error))
      return NULL;
    set_figure (timeline, i, value);
  }
  return g_steal_pointer (&timeline);
}

PsTimeline *ps_timeline_parse_json (const char *where, const char *text, gssize length, GError **error)
{
  static const char *const keys[] = { "origin",       "schedule", "source",    "devices", "stages", "microbatches",
                                      "iteration_ns", "ops",      "transfers", "memory",  NULL };
  static const char *const optional[]
      = { "iteration_p10_ns", "iteration_p90_ns", "usual_iteration_ns", "posts", "waits", NULL };
  g_auto (PsJsonReader) reader = { 0 };
  g_auto (PsJsonObject) object = { 0 };

  if (!ps_json_reader_init (&reader, where, text, length, error)
      || !ps_json_object_init (&object, &reader, FORMAT, keys, optional, error))
    return NULL;
  g_autoptr (PsTimeline) timeline = read_figures (&object, error);
  if (timeline == NULL)
    return NULL;
  for (ListKind kind = OPS; kind <= MEMORY; kind++)
    if (((kind != POSTS && kind != WAITS) || ps_json_object_has (&object, lists[kind].key))
        && !read_rows (&object, kind, timeline, error))
      return NULL;
  if (timeline->ops->len == 0)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: ops: holds no op", where);
  return finish_timeline (where, timeline, FALSE, error) ? g_steal_pointer (&timeline) : NULL;
}

/* Chrome traces: written, and read again */

typedef struct {
  const PsTimeline *timeline;
  GString *json;
  GHashTable *spans; /* the ops (ps_spans_index) */
  gboolean begun;    /* an event was written */
} TraceWriter;

/* Begins an event, which the rest ends. */
static void G_GNUC_PRINTF (3, 4) append_event (TraceWriter *trace, const char *phase, const char *rest, ...)
{
  va_list values;

  g_string_append_printf (trace->json, "%s\n{\"ph\":\"%s\",\"pid\":%d", trace->begun ? "," : "", phase,
                          trace->timeline->origin == PS_ORIGIN_MEASURED);
  va_start (values, rest);
  g_string_append_vprintf (trace->json, rest, values);
  va_end (values);
  trace->begun = TRUE;
}

/* Microseconds: exactly the nanoseconds. */
typedef struct {
  char text[32];
} Microseconds;

static Microseconds microseconds (gint64 ns)
{
  Microseconds time;
  gint64 part = ns % 1000;

  g_snprintf (time.text, sizeof time.text, part > 0 ? "%" G_GINT64_FORMAT ".%03d" : "%" G_GINT64_FORMAT, ns / 1000,
              (int)part);
  return time;
}

static void append_names (TraceWriter *trace)
{
  const PsTimeline *timeline = trace->timeline;
  guint n = timeline->n_devices, n_threads = timeline->posts->len + timeline->waits->len > 0 ? 2 * n : n;

  append_event (trace, "M", ",\"name\":\"process_name\",\"args\":{\"name\":");
  g_autofree char *process = g_strdup_printf (
      "%s: %s", timeline->origin == PS_ORIGIN_MEASURED ? "measured" : "predicted (simulated)", timeline->schedule);
  ps_json_append_string (trace->json, process);
  g_string_append (trace->json, "}}");
  for (guint i = 0; i < n_threads; i++) {
    guint tid = i < n ? i : PS_MAX_DEVICES + i - n;

    append_event (trace, "M", ",\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"%s %u\"}}", tid,
                  i < n ? "device" : "posts of device", i % n);
    append_event (trace, "M", ",\"tid\":%u,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}", tid, tid);
  }
}

/* type: of posts and waits; 0: ops. */
static void append_span (TraceWriter *trace, const PsSpan *span, guint type)
{
  const char *category = type == 0 ? ps_op_kind_name (span->op.kind) : type == PS_INSTRUCTION_WAIT ? "wait" : "post";
  char name[48];

  append_event (trace, "X", ",\"tid\":%u,\"cat\":\"%s\",\"name\":\"%s%s%s\",\"ts\":%s,\"dur\":%s",
                type > 0 ? PS_MAX_DEVICES + span->device : span->device, category,
                type > 0 ? ps_instruction_verb (type) : "", type > 0 ? " " : "", ps_op_format (span->op, name),
                microseconds (span->start_ns).text, microseconds (span->end_ns - span->start_ns).text);
  if (type == 0 && span->chunk > 0)
    g_string_append_printf (trace->json, ",\"args\":{\"chunk\":%u}", span->chunk);
  g_string_append_c (trace->json, '}');
}

/* A full backward answers for the gradient that it sends on, and takes it. */
static const PsSpan *find_span (const TraceWriter *trace, PsOp op, guint device)
{
  const PsSpan *span = ps_spans_find (trace->spans, op, device);

  if (span != NULL || (op.kind != PS_OP_B && op.kind != PS_OP_BW))
    return span;
  op.kind = op.kind == PS_OP_B ? PS_OP_BW : PS_OP_B;
  return ps_spans_find (trace->spans, op, device);
}

/* Viewers tie an arrow's end to the op that encloses it in time: the last nanosecond of the producer, the start of the
 * consumer. When the transfer itself started and ended stands in the args of its start. */
static void append_arrow (TraceWriter *trace, const PsSpan *transfer, guint id)
{
  PsOp consumed = transfer->op;
  const PsSpan *producer = find_span (trace, transfer->op, transfer->device), *consumer;
  gint64 from_ns = transfer->start_ns, to_ns = transfer->end_ns;
  char name[48];

  consumed.stage = (guint16)(consumed.kind == PS_OP_F ? consumed.stage + 1 : consumed.stage - 1);
  consumer = find_span (trace, consumed, transfer->peer);
  if (producer != NULL)
    from_ns = MAX (producer->start_ns, MIN (from_ns, producer->end_ns - 1));
  if (consumer != NULL)
    to_ns = consumer->start_ns;
  ps_op_format (transfer->op, name);
  append_event (
      trace, "s",
      ",\"tid\":%u,\"cat\":\"transfer\",\"name\":\"%s\",\"id\":%u,\"ts\":%s,\"args\":{\"start_ns\":%" G_GINT64_FORMAT
      ",\"end_ns\":%" G_GINT64_FORMAT "}}",
      transfer->device, name, id, microseconds (from_ns).text, transfer->start_ns, transfer->end_ns);
  append_event (trace, "f", ",\"tid\":%u,\"cat\":\"transfer\",\"name\":\"%s\",\"id\":%u,\"ts\":%s,\"bp\":\"e\"}",
                transfer->peer, name, id, microseconds (to_ns).text);
}

char *ps_timeline_to_chrome_trace (const PsTimeline *timeline)
{
  g_autoptr (GHashTable) spans = ps_spans_index (timeline->ops);
  TraceWriter trace = { .timeline = timeline, .json = g_string_new (NULL), .spans = spans };

  g_string_append (trace.json, "{\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"source\":");
  ps_json_append_string (trace.json, timeline->source);
  append_figures (trace.json, timeline, ",", "");
  g_string_append (trace.json, "},\n\"traceEvents\":[");
  append_names (&trace);
  for (guint i = 0; i < timeline->ops->len; i++)
    append_span (&trace, &g_array_index (timeline->ops, PsSpan, i), 0);
  for (guint i = 0; i < timeline->transfers->len; i++)
    append_arrow (&trace, &g_array_index (timeline->transfers, PsSpan, i), i);
  for (guint i = 0; i < timeline->posts->len; i++)
    append_span (&trace, &g_array_index (timeline->posts, PsSpan, i), g_array_index (timeline->posts, PsSpan, i).post);
  for (guint i = 0; i < timeline->waits->len; i++)
    append_span (&trace, &g_array_index (timeline->waits, PsSpan, i), PS_INSTRUCTION_WAIT);
  for (guint i = 0; i < timeline->memory->len; i++) {
    const PsMemoryPoint *point = &g_array_index (timeline->memory, PsMemoryPoint, i);

    append_event (&trace, "C",
                  ",\"tid\":%u,\"name\":\"memory of device %u\",\"ts\":%s,\"args\":{\"bytes\":%" G_GINT64_FORMAT "}}",
                  point->device, point->device, microseconds (point->time_ns).text, point->bytes);
  }
  g_string_append (trace.json, "\n]\n}\n");
  return g_string_free (trace.json, FALSE);
}

/* With one microsecond for F, B and W each, two for a full backward. */
static char *write_trace (const PsSchedule *schedule, GError **error)
{
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, error);

  if (program == NULL)
    return NULL;
  g_autoptr (PsTimeline) timeline = ps_timeline_of_order (program, 1000);
  return ps_timeline_to_chrome_trace (timeline);
}

const PsFormat ps_format_chrome_trace = {
  .name = "chrome-trace",
  .description = "simulated timeline for Perfetto (1 us per op without costs); not read as a schedule",
  .write = write_trace,
  .write_timeline = ps_timeline_to_chrome_trace,
};

#define MAX_TIME_NS G_GINT64_CONSTANT (1000000000000000000)

typedef struct {
  const char *name; /* of the trace */
  PsTimeline *timeline;
  gint64 pid;         /* process of the ops; all ops must have the same */
  GHashTable *arrows; /* 1 + the transfer, by the id of its arrow */
} Reader;

static char *place (const Reader *reader, const PsTraceEvent *event)
{
  return g_strdup_printf ("%s: traceEvents[%u]", reader->name, event->index);
}

static gboolean read_op_name (const Reader *reader, const PsTraceEvent *event, const char *name, PsOp *op,
                              GError **error)
{
  const char *end;

  if (ps_op_parse (name, &end, op) && *end == '\0')
    return TRUE;
  return ps_refuse_at (place (reader, event), error,
                       "'%s' is neither an op of pipesim (F0.1) nor a range of PyTorch (PP:1F0)", name);
}

static gboolean read_device (const Reader *reader, const PsTraceEvent *event, gint64 tid, guint16 *device,
                             GError **error)
{
  if (tid < 0 || tid >= PS_MAX_DEVICES)
    return ps_refuse_at (place (reader, event), error, "tid %" G_GINT64_FORMAT " is no device", tid);
  *device = (guint16)tid;
  reader->timeline->n_devices = MAX (reader->timeline->n_devices, (guint)tid + 1);
  return TRUE;
}

static gboolean read_range (Reader *reader, const PsTraceEvent *event, GError **error)
{
  PsTimeline *timeline = reader->timeline;
  const char *name = ps_trace_text (event, TRACE_NAME);
  PsTraceRange range;
  guint8 verb = parse_verb (&name);
  GArray *spans = verb == PS_INSTRUCTION_WAIT ? timeline->waits : verb != 0 ? timeline->posts : timeline->ops;
  PsSpan span = { .post = verb == PS_INSTRUCTION_WAIT ? 0 : verb };
  gint64 chunk;

  if (!read_op_name (reader, event, name, &span.op, error))
    return FALSE;
  if (!ps_trace_range (event, &range))
    return ps_refuse_at (place (reader, event), error, "has no pid, tid, ts and dur of a range");
  if (range.start_ns < 0 || range.end_ns > MAX_TIME_NS)
    return ps_refuse_at (place (reader, event), error, "ts is not from 0 to 10^15");
  if (!read_device (reader, event, verb != 0 ? range.tid - PS_MAX_DEVICES : range.tid, &span.device, error))
    return FALSE;
  if (timeline->ops->len > 0 && range.pid != reader->pid)
    return ps_refuse_at (place (reader, event), error,
                         "pid %" G_GINT64_FORMAT " is another run than %" G_GINT64_FORMAT "; one file, one run",
                         range.pid, reader->pid);
  if (!ps_trace_number (event, TRACE_CHUNK, &chunk))
    chunk = 0;
  if (chunk < 0 || chunk >= 2 * PS_MAX_STAGES)
    return ps_refuse_at (place (reader, event), error, "chunk %" G_GINT64_FORMAT " is no stage of a device", chunk);
  reader->pid = range.pid;
  span.peer = span.device;
  span.chunk = (guint16)chunk;
  span.start_ns = range.start_ns;
  span.end_ns = range.end_ns;
  timeline->n_stages = MAX (timeline->n_stages, span.op.stage + 1U);
  timeline->n_microbatches = MAX (timeline->n_microbatches, span.op.microbatch + 1U);
  g_array_append_val (spans, span);
  return TRUE;
}

/* An arrow's first end gives the time of its transfer, its second end the receiver. */
static gboolean read_arrow (Reader *reader, const PsTraceEvent *event, gboolean end, GError **error)
{
  GArray *transfers = reader->timeline->transfers;
  gint64 id, tid;
  PsSpan span = { 0 };

  if (!ps_trace_number (event, TRACE_ID, &id) || !ps_trace_number (event, TRACE_TID, &tid))
    return ps_refuse_at (place (reader, event), error, "is an arrow without id and tid");
  if (!end
      && (!ps_trace_number (event, TRACE_START_NS, &span.start_ns)
          || !ps_trace_number (event, TRACE_END_NS, &span.end_ns) || span.start_ns < 0 || span.end_ns < span.start_ns
          || span.end_ns > MAX_TIME_NS))
    return ps_refuse_at (place (reader, event), error, "is the start of an arrow without start_ns and end_ns");
  if (!read_op_name (reader, event, ps_trace_text (event, TRACE_NAME), &span.op, error)
      || !read_device (reader, event, tid, &span.device, error))
    return FALSE;
  if (end) {
    guint found = GPOINTER_TO_UINT (g_hash_table_lookup (reader->arrows, GSIZE_TO_POINTER ((gsize)id)));

    if (found == 0)
      return ps_refuse_at (place (reader, event), error, "is the end of an arrow that has no start");
    g_array_index (transfers, PsSpan, found - 1).peer = span.device;
    return TRUE;
  }
  span.peer = span.device;
  g_array_append_val (transfers, span);
  g_hash_table_insert (reader->arrows, GSIZE_TO_POINTER ((gsize)id), GUINT_TO_POINTER (transfers->len));
  return TRUE;
}

static gboolean read_memory (Reader *reader, const PsTraceEvent *event, GError **error)
{
  PsMemoryPoint point = { 0 };
  gint64 tid;

  if (!ps_trace_number (event, TRACE_TID, &tid) || !ps_trace_number (event, TRACE_TS, &point.time_ns)
      || point.time_ns < 0 || !ps_trace_number (event, TRACE_BYTES, &point.bytes) || point.bytes < 0
      || point.bytes > MAX_TIME_NS)
    return ps_refuse_at (place (reader, event), error, "is a counter without tid, ts and bytes");
  if (!read_device (reader, event, tid, &point.device, error))
    return FALSE;
  g_array_append_val (reader->timeline->memory, point);
  return TRUE;
}

static gboolean read_event (Reader *reader, const PsTraceEvent *event, GError **error)
{
  const char *phase = ps_trace_text (event, TRACE_PHASE), *name, *colon;

  switch (*phase) {
  case 'X':
    return read_range (reader, event, error);
  case 's':
  case 'f':
    return read_arrow (reader, event, *phase == 'f', error);
  case 'C':
    return read_memory (reader, event, error);
  case 'M': /* of the process, "measured: 1f1b" */
    name = ps_trace_text (event, TRACE_ARGS_NAME);
    colon = strstr (name, ": ");
    if (!g_str_equal (ps_trace_text (event, TRACE_NAME), "process_name") || colon == NULL)
      return TRUE;
    reader->timeline->origin = g_str_has_prefix (name, "measured") ? PS_ORIGIN_MEASURED : PS_ORIGIN_SIMULATED;
    g_free (reader->timeline->schedule);
    reader->timeline->schedule = g_strdup (colon + 2);
    return TRUE;
  default:
    return ps_refuse_at (place (reader, event), error, "phase '%s' is none that pipesim writes", phase);
  }
}

static gboolean finish (Reader *reader, GError **error)
{
  PsTimeline *timeline = reader->timeline;
  gint64 start_ns = G_MAXINT64, end_ns = 0;

  if (timeline->ops->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no op of pipesim and no range PP:... of PyTorch", reader->name);
  for (guint i = 0; i < timeline->ops->len; i++) {
    start_ns = MIN (start_ns, g_array_index (timeline->ops, PsSpan, i).start_ns);
    end_ns = MAX (end_ns, g_array_index (timeline->ops, PsSpan, i).end_ns);
  }
  if (timeline->iteration_ns < 0)
    timeline->iteration_ns = end_ns - start_ns;
  return finish_timeline (reader->name, timeline, TRUE, error);
}

/* Reads the figures of the whole timeline; traces of other programs have none, or others. Events may raise counts. */
static void read_other (PsTimeline *timeline, PsJsonReader *json)
{
  const char *key, *source;

  if (!ps_json_enter_object (json))
    return;
  while ((key = ps_json_next_key (json)) != NULL) {
    guint i = 0;
    gint64 value;

    while (i < G_N_ELEMENTS (figures) && !g_str_equal (key, figures[i].key))
      i++;
    if (g_str_equal (key, "source") && ps_json_read_text (json, &source)) {
      g_free (timeline->source);
      timeline->source = g_strdup (source);
    } else if (i == G_N_ELEMENTS (figures) || !ps_json_read_integer (json, &value))
      ps_json_skip_value (json);
    else if (value >= figures[i].low && value <= figures[i].high)
      set_figure (timeline, i, value);
  }
}

PsTimeline *ps_chrome_trace_read (PsTrace *trace, GError **error)
{
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "", 1, 1, 1);
  g_autoptr (GHashTable) arrows = g_hash_table_new (NULL, NULL);
  Reader reader = { .name = trace->name, .timeline = timeline, .arrows = arrows };
  const PsTraceEvent *event;

  g_free (timeline->source);
  timeline->source = g_strdup_printf ("Chrome trace %s", trace->name);
  timeline->iteration_ns = -1;
  if (trace->other != NULL) {
    trace->json.at = trace->other;
    read_other (timeline, &trace->json);
  }
  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL)
    if (!read_event (&reader, event, error))
      return NULL;
  return finish (&reader, error) ? g_steal_pointer (&timeline) : NULL;
}

/* timeline-json.c - the native timeline file: one row per line when writing, refusing whatever it does not know when
 * reading. */
#include "base/json.h"
#include "base/text.h"
#include "timeline-private.h"

#include <string.h>

#define FORMAT "pipesim-timeline/1"
#define MAX_SUM (G_MAXINT64 / 4) /* differences and sums of two such figures stay exact */

typedef enum
{
  OPS,
  TRANSFERS,
  POSTS,
  WAITS,
  MEMORY,
} ListKind;

static const struct
{
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

static GArray *
array_of (const PsTimeline *timeline, ListKind kind)
{
  return *(GArray *const *)(gconstpointer)((const char *)timeline + lists[kind].array);
}

/* Writing */

static void
append_rows (GString *json, const PsTimeline *timeline, ListKind kind)
{
  const GArray *rows = array_of (timeline, kind);
  char name[48];

  g_string_append_printf (json, ",\n  \"%s\": [", lists[kind].key);
  for (guint i = 0; i < rows->len; i++)
    {
      const PsMemoryPoint *point = &g_array_index (rows, PsMemoryPoint, i);
      const PsSpan *span = &g_array_index (rows, PsSpan, i);

      g_string_append_printf (json, i ? ",\n    [%u" : "\n    [%u", kind == MEMORY ? point->device : span->device);
      if (kind == TRANSFERS)
        g_string_append_printf (json, ", %u", span->peer);
      if (kind != MEMORY)
        g_string_append_printf (json, ", \"%s%s%s%s\", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT,
                                kind == POSTS ? ps_instruction_verb (span->post) : "", kind == POSTS ? " " : "",
                                ps_op_format (span->op, name), span->op.paired ? "+" : "", span->start_ns,
                                span->end_ns);
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

char *
ps_timeline_to_json (const PsTimeline *timeline)
{
  GString *json = g_string_new ("{\n  \"format\": \"" FORMAT "\",\n  \"origin\": ");

  ps_json_append_string (json, ps_origin_name (timeline->origin));
  g_string_append (json, ",\n  \"schedule\": ");
  ps_json_append_string (json, timeline->schedule);
  g_string_append (json, ",\n  \"source\": ");
  ps_json_append_string (json, timeline->source);
  g_string_append_printf (json, ",\n  \"devices\": %u,\n  \"stages\": %u,\n  \"microbatches\": %u", timeline->n_devices,
                          timeline->n_stages, timeline->n_microbatches);
  g_string_append_printf (json, ",\n  \"iteration_ns\": %" G_GINT64_FORMAT, timeline->iteration_ns);
  if (timeline->interval.p90_ns > 0)
    g_string_append_printf (
        json, ",\n  \"iteration_p10_ns\": %" G_GINT64_FORMAT ",\n  \"iteration_p90_ns\": %" G_GINT64_FORMAT,
        timeline->interval.p10_ns, timeline->interval.p90_ns);
  if (timeline->usual_ns > 0)
    g_string_append_printf (json, ",\n  \"usual_iteration_ns\": %" G_GINT64_FORMAT, timeline->usual_ns);
  for (ListKind kind = OPS; kind <= MEMORY; kind++)
    if ((kind != POSTS && kind != WAITS) || array_of (timeline, kind)->len > 0)
      append_rows (json, timeline, kind);
  g_string_append (json, "\n}\n");
  return g_string_free (json, FALSE);
}

/* Reading */

/* A row of a table and the place that messages name: "FILE: ops[3]". */
typedef struct
{
  PsJsonReader *reader;
  const char *key;
  guint row;
  guint n_cells;
} Place;

static char *
describe (const Place *place)
{
  return g_strdup_printf ("%s: %s[%u]", place->reader->where, place->key, place->row);
}

/* The readers of cells take the next one of the row. */

static gboolean
read_integer (const Place *place, const char *what, gint64 low, gint64 high, gint64 *value, GError **error)
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

static gboolean
read_index (const Place *place, const char *what, guint n, guint16 *value, GError **error)
{
  gint64 index = 0;

  if (!read_integer (place, what, 0, (gint64)n - 1, &index, error))
    return FALSE;
  *value = (guint16)index;
  return TRUE;
}

/* post, for posts: takes the verb before the op; NULL: there is none. */
static gboolean
read_op (const Place *place, const PsTimeline *timeline, PsOp *op, guint8 *post, GError **error)
{
  const char *text, *name, *end;

  ps_json_next_element (place->reader);
  if (!ps_json_read_text (place->reader, &text))
    return ps_refuse_at (describe (place), error, "op is no text");
  name = text;
  if (post != NULL)
    *post = ps_timeline_parse_verb (&name);
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

guint8
ps_timeline_parse_verb (const char **name)
{
  for (guint type = PS_INSTRUCTION_SEND; type <= PS_INSTRUCTION_WAIT; type++)
    {
      const char *verb = ps_instruction_verb ((PsInstructionType)type);
      gsize length = strlen (verb);

      if (!g_str_has_prefix (*name, verb) || (*name)[length] != ' ')
        continue;
      *name += length + 1;
      return (guint8)type;
    }
  return 0;
}

static gboolean
read_span (const Place *place, PsTimeline *timeline, ListKind kind, GError **error)
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

static gboolean
read_point (const Place *place, PsTimeline *timeline, GError **error)
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

static gboolean
read_rows (const PsJsonObject *object, ListKind kind, PsTimeline *timeline, GError **error)
{
  PsJsonReader *reader = object->reader;
  Place place = { .reader = reader, .key = lists[kind].key };

  if (!ps_json_get_array (object, place.key, error))
    return FALSE;
  for (; ps_json_next_element (reader); place.row++)
    {
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

static PsTimeline *
read_head (const PsJsonObject *object, GError **error)
{
  g_autofree char *origin_text = NULL, *schedule = NULL, *source = NULL;
  gint64 devices = 0, stages = 0, microbatches = 0, iteration_ns = 0;
  PsOrigin origin;

  if (!ps_json_get_text (object, "origin", &origin_text, error)
      || !ps_json_get_text (object, "schedule", &schedule, error)
      || !ps_json_get_text (object, "source", &source, error)
      || !ps_json_get_integer (object, "devices", 1, PS_MAX_DEVICES, &devices, error)
      || !ps_json_get_integer (object, "stages", 1, PS_MAX_STAGES, &stages, error)
      || !ps_json_get_integer (object, "microbatches", 1, PS_MAX_MICROBATCHES, &microbatches, error)
      || !ps_json_get_integer (object, "iteration_ns", 0, MAX_SUM, &iteration_ns, error))
    return NULL;
  if (!ps_origin_parse ("origin", origin_text, &origin, NULL)
      || (origin != PS_ORIGIN_SIMULATED && origin != PS_ORIGIN_MEASURED))
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: origin: '%s' is neither simulated nor measured",
                           object->reader->where, origin_text);
  PsTimeline *timeline = ps_timeline_new (origin, schedule, (guint)devices, (guint)stages, (guint)microbatches);
  g_free (timeline->source);
  timeline->source = g_steal_pointer (&source);
  timeline->iteration_ns = iteration_ns;
  return timeline;
}

/* A time that the file may have. */
static gboolean
read_optional (const PsJsonObject *object, const char *key, gint64 low, gint64 *ns, GError **error)
{
  return !ps_json_object_has (object, key) || ps_json_get_integer (object, key, low, MAX_SUM, ns, error);
}

void
ps_timeline_fill_transfer_chunks (PsTimeline *timeline)
{
  g_autoptr (GHashTable) chunks = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < timeline->ops->len; i++)
    {
      const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

      g_hash_table_insert (chunks, GUINT_TO_POINTER ((guint)span->device << 16 | span->op.stage),
                           GUINT_TO_POINTER (span->chunk));
    }
  for (guint i = 0; i < timeline->transfers->len; i++)
    {
      PsSpan *span = &g_array_index (timeline->transfers, PsSpan, i);
      gpointer key = GUINT_TO_POINTER ((guint)span->device << 16 | span->op.stage);

      span->chunk = (guint16)GPOINTER_TO_UINT (g_hash_table_lookup (chunks, key));
    }
}

/* A device runs one op, or one pair, at a time; sums over its ops rely on it. */
static gboolean
check_overlap (const char *where, const PsTimeline *timeline, GError **error)
{
  char name[48], previous_name[48];

  for (guint i = 1; i < timeline->ops->len; i++)
    {
      const PsSpan *previous = &g_array_index (timeline->ops, PsSpan, i - 1);
      const PsSpan *span = previous + 1;
      gboolean pair = previous->op.paired && previous->start_ns == span->start_ns && previous->end_ns == span->end_ns;

      if (previous->device != span->device || pair || previous->end_ns <= span->start_ns)
        continue;
      return ps_refuse (error, PS_ERROR_INPUT, "%s: device %u: %s starts before %s has ended", where, span->device,
                        ps_op_format (span->op, name), ps_op_format (previous->op, previous_name));
    }
  return TRUE;
}

PsTimeline *
ps_timeline_parse_json (const char *where, const char *text, gssize length, GError **error)
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
  g_autoptr (PsTimeline) timeline = read_head (&object, error);
  if (timeline == NULL || !read_optional (&object, "iteration_p10_ns", 0, &timeline->interval.p10_ns, error)
      || !read_optional (&object, "iteration_p90_ns", timeline->interval.p10_ns, &timeline->interval.p90_ns, error)
      || !read_optional (&object, "usual_iteration_ns", 0, &timeline->usual_ns, error))
    return NULL;
  for (ListKind kind = OPS; kind <= MEMORY; kind++)
    if (((kind != POSTS && kind != WAITS) || ps_json_object_has (&object, lists[kind].key))
        && !read_rows (&object, kind, timeline, error))
      return NULL;
  if (timeline->ops->len == 0)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: ops: holds no op", where);
  ps_timeline_fill_transfer_chunks (timeline);
  ps_timeline_sort (timeline);
  if (!check_overlap (where, timeline, error))
    return NULL;
  return g_steal_pointer (&timeline);
}

/* trace-events.c - the events of a JSON trace, one after the other, and the members of its file before them. */
#include "base/files.h"
#include "trace-private.h"

#include <math.h>
#include <string.h>

/* Events, and the members of the file before them */

#define MAX_MICROSECONDS                                                                                               \
  G_GINT64_CONSTANT (2000000000000000) /* with a base time added, differences in nanoseconds still fit */
#define MAX_BASE_NS G_GINT64_CONSTANT (2000000000000000000) /* the year 2033 */

/* Members of an event, then those of its "args". */
static const char *const number_keys[TRACE_N_NUMBERS]
    = { "pid", "tid", "id", "ts", "dur", "chunk", "start_ns", "end_ns", "bytes" };
static const char *const text_keys[TRACE_N_TEXTS] = { "ph", "name", "cat", "name" };

#define FIRST_NUMBER_OF_ARGS TRACE_CHUNK
#define FIRST_TEXT_OF_ARGS TRACE_ARGS_NAME

static guint find_key (const char *const *keys, guint first, guint end, const char *key)
{
  while (first < end && !g_str_equal (keys[first], key))
    first++;
  return first;
}

/* Reads microseconds with at most three decimals, as most traces have them. FALSE: the number is another one, and
 * remains to be read. */
static gboolean read_plain_time (PsJsonReader *json, gint64 *ns)
{
  const char *at = json->at, *point;
  gint64 value = 0, unit = 1000;

  for (; g_ascii_isdigit (*at) && value < MAX_MICROSECONDS; at++)
    value = value * 10 + (*at - '0');
  if (at == json->at || value > MAX_MICROSECONDS)
    return FALSE;
  point = at;
  if (*at == '.')
    for (at++; g_ascii_isdigit (*at) && unit > 1; at++, unit /= 10)
      value = value * 10 + (*at - '0');
  if (at == point + 1 || g_ascii_isdigit (*at) || *at == '.' || *at == 'e' || *at == 'E')
    return FALSE;
  *ns = value * unit;
  json->at = at;
  return TRUE;
}

/* Reads microseconds; leaves *ns alone if the value is none. */
static gboolean read_time (PsJsonReader *json, gint64 *ns)
{
  double microseconds;

  if (read_plain_time (json, ns))
    return TRUE;
  if (!ps_json_read_number (json, &microseconds)) {
    ps_json_skip_value (json);
    return FALSE;
  }
  if (!(fabs (microseconds) <= MAX_MICROSECONDS))
    return FALSE;
  *ns = llround (microseconds * 1000);
  return TRUE;
}

static gboolean read_integer (PsJsonReader *json, gint64 *value)
{
  if (ps_json_read_integer (json, value))
    return TRUE;
  ps_json_skip_value (json);
  return FALSE;
}

static void read_member (PsJsonReader *json, PsTraceEvent *event, const char *key, gboolean args)
{
  guint numbers_end = args ? TRACE_N_NUMBERS : FIRST_NUMBER_OF_ARGS;
  guint texts_end = args ? TRACE_N_TEXTS : FIRST_TEXT_OF_ARGS;
  guint number = find_key (number_keys, args ? FIRST_NUMBER_OF_ARGS : 0, numbers_end, key);
  guint text = find_key (text_keys, args ? FIRST_TEXT_OF_ARGS : 0, texts_end, key);
  const char *value;

  if (number < numbers_end) {
    gboolean is_time = number == TRACE_TS || number == TRACE_DUR;

    event->known &= ~(1U << number);
    if (is_time ? read_time (json, &event->number[number]) : read_integer (json, &event->number[number]))
      event->known |= 1U << number;
  } else if (text < texts_end && ps_json_read_text (json, &value)) {
    PsJsonString before = event->text[text]; /* the reader goes on with its memory */

    event->text[text] = json->value;
    json->value = before;
  } else {
    ps_json_skip_value (json);
    if (text < texts_end)
      *event->text[text].text = '\0';
  }
}

static void read_event (PsJsonReader *json, PsTraceEvent *event)
{
  const char *key;

  if (!ps_json_enter_object (json)) {
    ps_json_skip_value (json);
    return;
  }
  while ((key = ps_json_next_key (json)) != NULL)
    if (*key == 'a' && g_str_equal (key, "args") && ps_json_enter_object (json)) {
      while ((key = ps_json_next_key (json)) != NULL)
        read_member (json, event, key, TRUE);
    } else
      read_member (json, event, key, FALSE);
}

static gboolean walk_stream (PsTrace *trace, gboolean to_events, GError **error);

void ps_trace_rewind (PsTrace *trace)
{
  trace->event.index = G_MAXUINT;
  if (trace->stream.unpacker != NULL) {
    walk_stream (trace, TRUE, NULL);
    return;
  }
  trace->json.at = trace->events;
  ps_json_enter_array (&trace->json);
}

const PsTraceEvent *ps_trace_next (PsTrace *trace)
{
  PsTraceEvent *event = &trace->event;
  gboolean found;

  if (trace->stream.unpacker == NULL ? !ps_json_next_element (&trace->json)
                                     : !ps_json_stream_next (&trace->stream, ']', NULL, &found, NULL) || !found
                                           || !ps_json_stream_value (&trace->stream, &trace->json, NULL))
    return NULL;
  event->index++;
  event->known = 0;
  for (guint i = 0; i < TRACE_N_TEXTS; i++)
    *event->text[i].text = '\0';
  read_event (&trace->json, event);
  return event;
}

gboolean ps_trace_range (const PsTraceEvent *event, PsTraceRange *range)
{
  gint64 duration_ns;

  if (!g_str_equal (ps_trace_text (event, TRACE_PHASE), "X") || !ps_trace_number (event, TRACE_TS, &range->start_ns)
      || !ps_trace_number (event, TRACE_DUR, &duration_ns) || duration_ns < 0 || duration_ns > PS_MAX_TIME_NS
      || !ps_trace_number (event, TRACE_PID, &range->pid) || !ps_trace_number (event, TRACE_TID, &range->tid))
    return FALSE;
  range->end_ns = range->start_ns + duration_ns;
  range->name = ps_trace_text (event, TRACE_NAME);
  range->category = ps_trace_text (event, TRACE_CATEGORY);
  return TRUE;
}

static void read_rank (PsTrace *trace)
{
  const char *key, *backend;

  if (!ps_json_enter_object (&trace->json)) {
    ps_json_skip_value (&trace->json);
    return;
  }
  while ((key = ps_json_next_key (&trace->json)) != NULL)
    if (g_str_equal (key, "backend") && ps_json_read_text (&trace->json, &backend))
      trace->fake = g_str_equal (backend, "fake");
    else if (g_str_equal (key, "rank"))
      read_integer (&trace->json, &trace->rank);
    else if (g_str_equal (key, "world_size"))
      read_integer (&trace->json, &trace->n_ranks);
    else
      ps_json_skip_value (&trace->json);
}

static void take_head_member (PsTrace *trace, const char *key)
{
  PsJsonReader *json = &trace->json;

  if (g_str_equal (key, "distributedInfo"))
    read_rank (trace);
  else if (g_str_equal (key, "baseTimeNanoseconds")) {
    if (!read_integer (json, &trace->base_ns) || trace->base_ns < 0 || trace->base_ns >= MAX_BASE_NS)
      trace->base_ns = 0;
  } else {
    if (g_str_equal (key, "traceEvents") && *json->at == '[')
      trace->events = json->at;
    else if (g_str_equal (key, "otherData"))
      trace->other = json->at;
    ps_json_skip_value (json);
  }
}

static gboolean refuse (const char *name, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT,
                    "%s: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents", name);
}

/* Checks the elements of an array, up to its end. */
static gboolean check_events (PsTrace *trace, GError **error)
{
  PsJsonStream *stream = &trace->stream;
  gboolean found;

  ps_json_stream_enter (stream);
  do
    if (!ps_json_stream_next (stream, ']', NULL, &found, error)
        || (found && !ps_json_stream_value (stream, &trace->json, error)))
      return FALSE;
  while (found);
  trace->events = "";
  return TRUE;
}

/* Takes one member of the outermost object; otherData is kept, because the stream goes on. */
static gboolean take_member (PsTrace *trace, const char *key, GError **error)
{
  const char *other = trace->other;

  if (!ps_json_stream_value (&trace->stream, &trace->json, error))
    return FALSE;
  take_head_member (trace, key);
  if (trace->other != other) {
    g_free (trace->kept);
    trace->other = trace->kept = g_strndup (trace->other, (gsize)(trace->json.at - trace->other));
  }
  return TRUE;
}

/* Goes through a packed file, which says whether it is right. to_events: again, and only into the array of its events.
 */
static gboolean walk_stream (PsTrace *trace, gboolean to_events, GError **error)
{
  PsJsonStream *stream = &trace->stream;
  g_autofree char *key = NULL;
  gboolean found = TRUE, is_object;
  char next;

  ps_json_stream_rewind (stream);
  if (!ps_json_stream_peek (stream, &next, error))
    return FALSE;
  if (next != '{' && next != '[')
    return refuse (trace->name, error);
  is_object = next == '{';
  if (is_object)
    ps_json_stream_enter (stream);
  do {
    if (is_object && !ps_json_stream_next (stream, '}', &key, &found, error))
      return FALSE;
    if (!found)
      break;
    if (!ps_json_stream_peek (stream, &next, error))
      return FALSE;
    gboolean are_events = next == '[' && (!is_object || g_str_equal (key, "traceEvents"));
    if (are_events && to_events) {
      ps_json_stream_enter (stream);
      return TRUE;
    }
    if (are_events ? !check_events (trace, error) : !take_member (trace, key, error))
      return FALSE;
  } while (is_object);
  return ps_json_stream_end (stream, error);
}

static gboolean open_text (PsTrace *trace, const PsTraceFile *file, GError **error)
{
  const char *key;
  gsize at = 0;

  while (at < file->length && g_ascii_isspace (file->text[at]))
    at++;
  if (at == file->length || (file->text[at] != '{' && file->text[at] != '['))
    return refuse (file->name, error);
  if (!ps_json_reader_init (&trace->json, file->name, file->text, (gssize)file->length, error))
    return FALSE;
  if (!ps_json_enter_object (&trace->json))
    trace->events = trace->json.at;
  else
    while ((key = ps_json_next_key (&trace->json)) != NULL)
      take_head_member (trace, key);
  return TRUE;
}

gboolean ps_trace_open (PsTrace *trace, const PsTraceFile *file, GError **error)
{
  *trace = (PsTrace){ .name = file->name, .rank = -1 };
  for (guint i = 0; i < TRACE_N_TEXTS; i++)
    trace->event.text[i] = (PsJsonString){ .text = g_malloc0 (1), .allocated = 1 };
  if (ps_is_packed (file->text, file->length))
    ps_json_stream_init (&trace->stream, file->name, file->text, file->length);
  if (trace->stream.unpacker != NULL ? !walk_stream (trace, FALSE, error) : !open_text (trace, file, error))
    return FALSE;
  return trace->events != NULL || refuse (file->name, error);
}

void ps_trace_clear (gpointer data)
{
  PsTrace *trace = data;

  ps_json_reader_clear (&trace->json);
  ps_json_stream_clear (&trace->stream);
  g_free (trace->kept);
  for (guint i = 0; i < TRACE_N_TEXTS; i++)
    g_free (trace->event.text[i].text);
}

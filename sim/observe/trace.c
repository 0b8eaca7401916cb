/* trace.c - the events of a trace one after the other, and timelines from files of any supported kind. */
#include "base/files.h"
#include "timeline-private.h"
#include "trace-private.h"

#include <pipesim/observe.h>

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

static guint
find_key (const char *const *keys, guint first, guint end, const char *key)
{
  while (first < end && !g_str_equal (keys[first], key))
    first++;
  return first;
}

/* Reads microseconds with at most three decimals, as most traces have them. FALSE: the number is another one, and
 * remains to be read. */
static gboolean
read_plain_time (PsJsonReader *json, gint64 *ns)
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
static gboolean
read_time (PsJsonReader *json, gint64 *ns)
{
  double microseconds;

  if (read_plain_time (json, ns))
    return TRUE;
  if (!ps_json_read_number (json, &microseconds))
    {
      ps_json_skip_value (json);
      return FALSE;
    }
  if (!(fabs (microseconds) <= MAX_MICROSECONDS))
    return FALSE;
  *ns = llround (microseconds * 1000);
  return TRUE;
}

static gboolean
read_integer (PsJsonReader *json, gint64 *value)
{
  if (ps_json_read_integer (json, value))
    return TRUE;
  ps_json_skip_value (json);
  return FALSE;
}

static void
read_member (PsJsonReader *json, PsTraceEvent *event, const char *key, gboolean args)
{
  guint numbers_end = args ? TRACE_N_NUMBERS : FIRST_NUMBER_OF_ARGS;
  guint texts_end = args ? TRACE_N_TEXTS : FIRST_TEXT_OF_ARGS;
  guint number = find_key (number_keys, args ? FIRST_NUMBER_OF_ARGS : 0, numbers_end, key);
  guint text = find_key (text_keys, args ? FIRST_TEXT_OF_ARGS : 0, texts_end, key);
  const char *value;

  if (number < numbers_end)
    {
      gboolean is_time = number == TRACE_TS || number == TRACE_DUR;

      event->known &= ~(1U << number);
      if (is_time ? read_time (json, &event->number[number]) : read_integer (json, &event->number[number]))
        event->known |= 1U << number;
    }
  else if (text < texts_end && ps_json_read_text (json, &value))
    {
      PsJsonString before = event->text[text]; /* the reader goes on with its memory */

      event->text[text] = json->value;
      json->value = before;
    }
  else
    {
      ps_json_skip_value (json);
      if (text < texts_end)
        *event->text[text].text = '\0';
    }
}

static void
read_event (PsJsonReader *json, PsTraceEvent *event)
{
  const char *key;

  if (!ps_json_enter_object (json))
    {
      ps_json_skip_value (json);
      return;
    }
  while ((key = ps_json_next_key (json)) != NULL)
    if (*key == 'a' && g_str_equal (key, "args") && ps_json_enter_object (json))
      {
        while ((key = ps_json_next_key (json)) != NULL)
          read_member (json, event, key, TRUE);
      }
    else
      read_member (json, event, key, FALSE);
}

/* Goes to the array of a packed file's events. The stream was read to its end before, so that nothing can be wrong. */
static void
rewind_stream (PsTrace *trace)
{
  PsJsonStream *stream = &trace->stream;
  g_autofree char *key = NULL;
  gboolean found = TRUE;
  char next;

  ps_json_stream_rewind (stream);
  if (!ps_json_stream_peek (stream, &next, NULL))
    return;
  for (ps_json_stream_enter (stream); next == '{' && ps_json_stream_next (stream, '}', &key, &found, NULL) && found;)
    {
      if (g_str_equal (key, "traceEvents"))
        {
          ps_json_stream_peek (stream, &next, NULL);
          ps_json_stream_enter (stream);
          return;
        }
      ps_json_stream_value (stream, TRUE, &trace->json, NULL);
    }
}

void
ps_trace_rewind (PsTrace *trace)
{
  trace->event.index = G_MAXUINT;
  if (trace->stream.unpacker != NULL)
    {
      rewind_stream (trace);
      return;
    }
  trace->json.at = trace->events;
  ps_json_enter_array (&trace->json);
}

const PsTraceEvent *
ps_trace_next (PsTrace *trace)
{
  PsTraceEvent *event = &trace->event;
  gboolean found;

  if (trace->stream.unpacker == NULL ? !ps_json_next_element (&trace->json)
                                     : !ps_json_stream_next (&trace->stream, ']', NULL, &found, NULL) || !found
                                           || !ps_json_stream_value (&trace->stream, TRUE, &trace->json, NULL))
    return NULL;
  event->index++;
  event->known = 0;
  for (guint i = 0; i < TRACE_N_TEXTS; i++)
    *event->text[i].text = '\0';
  read_event (&trace->json, event);
  return event;
}

gboolean
ps_trace_range (const PsTraceEvent *event, PsTraceRange *range)
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

static void
read_rank (PsTrace *trace)
{
  const char *key;

  if (!ps_json_enter_object (&trace->json))
    {
      ps_json_skip_value (&trace->json);
      return;
    }
  while ((key = ps_json_next_key (&trace->json)) != NULL)
    if (g_str_equal (key, "rank"))
      read_integer (&trace->json, &trace->rank);
    else if (g_str_equal (key, "world_size"))
      read_integer (&trace->json, &trace->n_ranks);
    else
      ps_json_skip_value (&trace->json);
}

static void
take_head_member (PsTrace *trace, const char *key)
{
  PsJsonReader *json = &trace->json;

  if (g_str_equal (key, "distributedInfo"))
    read_rank (trace);
  else if (g_str_equal (key, "baseTimeNanoseconds"))
    read_integer (json, &trace->base_ns);
  else
    {
      if (g_str_equal (key, "traceEvents") && *json->at == '[')
        trace->events = json->at;
      else if (g_str_equal (key, "otherData"))
        trace->other = json->at;
      ps_json_skip_value (json);
    }
}

static gboolean
refuse (const char *name, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT,
                    "%s: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents", name);
}

/* Checks the elements of an array, up to its end. */
static gboolean
check_events (PsTrace *trace, GError **error)
{
  PsJsonStream *stream = &trace->stream;
  gboolean found;

  ps_json_stream_enter (stream);
  do
    if (!ps_json_stream_next (stream, ']', NULL, &found, error)
        || (found && !ps_json_stream_value (stream, FALSE, &trace->json, error)))
      return FALSE;
  while (found);
  trace->events = "";
  return TRUE;
}

/* Takes one member of the outermost object; otherData is kept, because the stream goes on. */
static gboolean
take_member (PsTrace *trace, const char *key, GError **error)
{
  PsJsonStream *stream = &trace->stream;
  const char *other = trace->other;
  char next;

  if (!ps_json_stream_peek (stream, &next, error))
    return FALSE;
  if (next == '[' && g_str_equal (key, "traceEvents"))
    return check_events (trace, error);
  if (!ps_json_stream_value (stream, FALSE, &trace->json, error))
    return FALSE;
  take_head_member (trace, key);
  if (trace->other != other)
    {
      g_free (trace->kept);
      trace->kept = g_strndup (trace->other, (gsize)(trace->json.at - trace->other));
      trace->other = trace->kept;
    }
  return TRUE;
}

/* Reads the whole text once, which says whether it is right. */
static gboolean
open_stream (PsTrace *trace, GError **error)
{
  PsJsonStream *stream = &trace->stream;
  g_autofree char *key = NULL;
  gboolean found = TRUE;
  char next;

  if (!ps_json_stream_peek (stream, &next, error))
    return FALSE;
  if (next != '{' && next != '[')
    return refuse (trace->name, error);
  if (next == '[' && !check_events (trace, error))
    return FALSE;
  if (next == '{')
    ps_json_stream_enter (stream);
  while (next == '{' && found)
    if (!ps_json_stream_next (stream, '}', &key, &found, error) || (found && !take_member (trace, key, error)))
      return FALSE;
  return ps_json_stream_end (stream, error);
}

static gboolean
open_text (PsTrace *trace, const PsTraceFile *file, GError **error)
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

/* Finds the array of events: the whole text, or "traceEvents" of an object. The file must outlive the trace. Clear in
 * any case. */
static gboolean
trace_open (PsTrace *trace, const PsTraceFile *file, GError **error)
{
  *trace = (PsTrace){ .name = file->name, .rank = -1 };
  for (guint i = 0; i < TRACE_N_TEXTS; i++)
    trace->event.text[i] = (PsJsonString){ .text = g_malloc0 (1), .allocated = 1 };
  if (ps_is_packed (file->text, file->length))
    ps_json_stream_init (&trace->stream, file->name, file->text, file->length);
  if (trace->stream.unpacker != NULL ? !open_stream (trace, error) : !open_text (trace, file, error))
    return FALSE;
  if (trace->base_ns < 0 || trace->base_ns >= MAX_BASE_NS)
    trace->base_ns = 0;
  return trace->events != NULL || refuse (file->name, error);
}

static void
trace_clear (gpointer data)
{
  PsTrace *trace = data;

  ps_json_reader_clear (&trace->json);
  ps_json_stream_clear (&trace->stream);
  g_free (trace->kept);
  for (guint i = 0; i < TRACE_N_TEXTS; i++)
    g_free (trace->event.text[i].text);
}

/* Kinds of files */

#define HEAD_BYTES (1 << 20) /* in which a file says what it is */

/* Whether an event is an action of PyTorch's runtime, or a step of Megatron's, before any is an op of pipesim. A trace
 * with none of them is another program's, unless it has the figures of a whole timeline, as ours do. */
static gboolean
is_torch (PsTrace *trace)
{
  const PsTraceEvent *event;
  const char *end;
  PsRangeName parsed;
  PsOp op;

  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL)
    {
      const char *name = ps_trace_text (event, TRACE_NAME);

      if (g_str_has_prefix (name, "PP:") || ps_range_name_parse (name, &parsed))
        return TRUE;
      if (ps_op_parse (name, &end, &op) && *end == '\0')
        return FALSE;
    }
  return trace->other == NULL;
}

static GPtrArray *
list_of_one (PsTimeline *timeline)
{
  if (timeline == NULL)
    return NULL;
  GPtrArray *timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  g_ptr_array_add (timelines, timeline);
  return timelines;
}

static GPtrArray *
parse_events (const char *where, const PsTraceFile *files, guint n, GError **error)
{
  g_autoptr (GArray) traces = g_array_new (FALSE, FALSE, sizeof (PsTrace));

  g_array_set_clear_func (traces, trace_clear);
  for (guint i = 0; i < n; i++)
    {
      PsTrace trace;
      gboolean opened = trace_open (&trace, &files[i], error);

      g_array_append_val (traces, trace);
      if (!opened)
        return NULL;
    }
  if (n == 1 && !is_torch (&g_array_index (traces, PsTrace, 0)))
    return list_of_one (ps_chrome_trace_read (&g_array_index (traces, PsTrace, 0), error));
  return ps_torch_trace_read (where, (PsTrace *)(gpointer)traces->data, n, error);
}

/* Our timelines begin with their format; any other text counts as a trace. */
static gboolean
is_native (const PsTraceFile *file)
{
  gssize length = (gssize)MIN (file->length, HEAD_BYTES);
  const char *key = g_strstr_len (file->text, length, "\"format\"");
  const char *events = g_strstr_len (file->text, length, "\"traceEvents\"");

  return key != NULL && (events == NULL || key < events) && *file->text != '[';
}

static gboolean
has_line (const PsTraceFile *file, const char *part)
{
  return g_strstr_len (file->text, (gssize)MIN (file->length, HEAD_BYTES), part) != NULL;
}

/* Megatron-LM logs its arguments, and later how long its timers ran on all ranks together. */
static gboolean
is_timer_log (const PsTraceFile *file)
{
  return has_line (file, PS_TIMERS_HEADING) || has_line (file, "--- end of arguments ---");
}

static GPtrArray *
parse_kind (const char *where, const PsTraceFile *head, const PsTraceFile *files, guint n, GError **error)
{
  if (has_line (head, PS_OLD_TIMERS_HEADING))
    return ps_refuse_null (error, PS_ERROR_INPUT,
                           "%s: is a log of Megatron-LM before 2023, whose timers ('" PS_OLD_TIMERS_HEADING
                           "') are those of one rank; for --costs-from those of all ranks, "
                           "--timing-log-option all, would be right",
                           files[0].name);
  if (is_timer_log (head))
    return ps_refuse_null (
        error, PS_ERROR_INPUT,
        "%s: is a log of Megatron-LM's timers, which has no timeline; its OpenTelemetry spans or NVTX ranges "
        "would be right, and --costs-from takes the log",
        head->name);
  if (ps_otel_recognise (head->text, head->length))
    return ps_otel_read (where, files, n, error);
  if (n > 1 || !is_native (head))
    return parse_events (where, files, n, error);
  g_autofree char *unpacked = NULL;
  const PsTraceFile *file = &files[0];
  const char *text = file->text;
  gsize length = file->length;
  if (ps_is_packed (text, length))
    text = unpacked = ps_unpack (file->name, file->text, file->length, &length, error);
  return text != NULL ? list_of_one (ps_timeline_parse_json (file->name, text, (gssize)length, error)) : NULL;
}

/* The beginning of a file, as far as it says what the file is. Free *unpacked with g_free. */
static gboolean
read_head (const PsTraceFile *file, PsTraceFile *head, char **unpacked, GError **error)
{
  *head = *file;
  if (!ps_is_packed (file->text, file->length))
    return TRUE;
  g_autoptr (PsUnpacker) unpacker = ps_unpacker_new (file->text, file->length);
  head->text = *unpacked = g_malloc0 (HEAD_BYTES + 1);
  return ps_unpacker_read (unpacker, file->name, *unpacked, HEAD_BYTES, &head->length, error);
}

/* Takes the list. NULL: it is NULL, or one of its timelines is refused. */
static GPtrArray *
check (const char *where, GPtrArray *timelines, GError **error)
{
  g_autoptr (GPtrArray) checked = timelines;

  for (guint i = 0; checked != NULL && i < checked->len; i++)
    if (!ps_timeline_check (where, g_ptr_array_index (checked, i), error))
      return NULL;
  return g_steal_pointer (&checked);
}

GPtrArray *
ps_timelines_parse (const char *where, const PsTraceFile *files, guint n, GError **error)
{
  g_autofree char *unpacked = NULL;
  PsTraceFile head;

  return read_head (&files[0], &head, &unpacked, error)
             ? check (where, parse_kind (where, &head, files, n, error), error)
             : NULL;
}

/* Files and folders */

/* The bytes of a file. Files are mapped: of a large trace only the page that is being read needs memory. */
static GBytes *
read_file (const char *path, GError **error)
{
  g_autoptr (GMappedFile) mapped
      = g_file_test (path, G_FILE_TEST_IS_REGULAR) ? g_mapped_file_new (path, FALSE, NULL) : NULL;
  g_autoptr (GBytes) bytes = NULL;
  char *text;
  gsize length;

  if (mapped != NULL)
    bytes = g_mapped_file_get_bytes (mapped);
  else if (!ps_read_file (path, &text, &length, error))
    return NULL;
  else
    bytes = g_bytes_new_take (text, length);
  return g_steal_pointer (&bytes);
}

static int
compare_paths (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

/* Lists the traces of a folder by name. */
static GPtrArray *
list_folder (const char *path, GError **error)
{
  static const char *const ends[] = { ".json", ".json.gz", ".jsonl", ".jsonl.gz", ".sqlite" };
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GError) cause = NULL;
  g_autoptr (GDir) folder = g_dir_open (path, 0, &cause);
  const char *name;

  if (folder == NULL)
    return ps_refuse_null (error, PS_ERROR_IO, "%s: %s", path, cause->message);
  while ((name = g_dir_read_name (folder)) != NULL)
    for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
      if (g_str_has_suffix (name, ends[i]))
        g_ptr_array_add (paths, g_build_filename (path, name, NULL));
  g_ptr_array_sort (paths, compare_paths);
  if (paths->len > 0 && paths->len <= PS_MAX_DEVICES)
    return g_steal_pointer (&paths);
  return ps_refuse_null (
      error, PS_ERROR_INPUT,
      "%s: holds %u traces (*.json, *.jsonl, packed by gzip or not, or *.sqlite); one per rank would be right", path,
      paths->len);
}

/* Reads the texts of all files of one run. log: as in ps_timelines_load_or_log; NULL: a log is refused. */
static GPtrArray *
load_texts (const char *path, GPtrArray *paths, GBytes **log, GError **error)
{
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func ((GDestroyNotify)g_bytes_unref);
  g_autofree PsTraceFile *files = g_new0 (PsTraceFile, paths->len);
  g_autofree char *unpacked = NULL;
  PsTraceFile head;

  for (guint i = 0; i < paths->len; i++)
    {
      GBytes *text = read_file (g_ptr_array_index (paths, i), error);

      if (text == NULL)
        return NULL;
      g_ptr_array_add (texts, text);
      files[i].name = g_ptr_array_index (paths, i);
      files[i].text = g_bytes_get_data (text, &files[i].length);
      if (files[i].text == NULL)
        files[i].text = "";
    }
  if (log == NULL || paths->len > 1 || !read_head (&files[0], &head, &unpacked, NULL) || !is_timer_log (&head)
      || has_line (&head, PS_OLD_TIMERS_HEADING))
    return ps_timelines_parse (path, files, paths->len, error);
  if (ps_is_packed (files[0].text, files[0].length))
    {
      gsize length;
      char *text = ps_unpack (files[0].name, files[0].text, files[0].length, &length, error);

      *log = text != NULL ? g_bytes_new_take (text, length) : NULL;
    }
  else
    *log = g_bytes_ref (g_ptr_array_index (texts, 0));
  return NULL;
}

GPtrArray *
ps_timelines_load_or_log (const char *path, GBytes **log, GError **error)
{
  g_autoptr (GPtrArray) paths = NULL;

  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    paths = list_folder (path, error);
  else
    {
      paths = g_ptr_array_new_with_free_func (g_free);
      g_ptr_array_add (paths, g_strdup (path));
    }
  if (paths == NULL)
    return NULL;
  if (ps_nsys_recognise (g_ptr_array_index (paths, 0)))
    return check (path, ps_nsys_read (path, (const char *const *)paths->pdata, paths->len, error), error);
  return load_texts (path, paths, log, error);
}

GPtrArray *
ps_timelines_load (const char *path, GError **error)
{
  return ps_timelines_load_or_log (path, NULL, error);
}

PsTimeline *
ps_timelines_median (GPtrArray *timelines)
{
  PsTimeline *timeline = g_ptr_array_steal_index (timelines, ps_median_iteration (timelines));

  g_ptr_array_unref (timelines);
  return timeline;
}

PsTimeline *
ps_timeline_load (const char *path, GError **error)
{
  GPtrArray *timelines = ps_timelines_load (path, error);

  return timelines != NULL ? ps_timelines_median (timelines) : NULL;
}

gboolean
ps_timeline_write (const PsTimeline *timeline, const char *path, GError **error)
{
  g_autofree char *text = g_str_has_suffix (path, ".trace.json") || g_str_has_suffix (path, ".trace.json.gz")
                              ? ps_timeline_to_chrome_trace (timeline)
                              : ps_timeline_to_json (timeline);

  return ps_write_file (path, text, -1, error);
}

/* trace.c - timelines from files of any supported kind. */
#include "base/files.h"
#include "timeline-private.h"
#include "trace-private.h"

#include <pipesim/observe.h>

#include <string.h>

#define HEAD_BYTES (1 << 20) /* in which a file says what it is */

/* Whether an event is an action of PyTorch's runtime, or a step of Megatron's, before any is an op of pipesim. A trace
 * with none of them is another program's, unless it has the figures of a whole timeline, as ours do. */
static gboolean is_torch (PsTrace *trace)
{
  const PsTraceEvent *event;
  const char *end;
  PsRangeName parsed;
  PsOp op;

  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL) {
    const char *name = ps_trace_text (event, TRACE_NAME);

    if (g_str_has_prefix (name, "PP:") || ps_range_name_parse (name, &parsed))
      return TRUE;
    if (ps_op_parse (name, &end, &op) && *end == '\0')
      return FALSE;
  }
  return trace->other == NULL;
}

static GPtrArray *list_of_one (PsTimeline *timeline)
{
  if (timeline == NULL)
    return NULL;
  GPtrArray *timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  g_ptr_array_add (timelines, timeline);
  return timelines;
}

static GPtrArray *parse_events (const char *where, const PsTraceFile *files, guint n, GError **error)
{
  g_autoptr (GArray) traces = g_array_new (FALSE, FALSE, sizeof (PsTrace));

  g_array_set_clear_func (traces, ps_trace_clear);
  for (guint i = 0; i < n; i++) {
    PsTrace trace;
    gboolean opened = ps_trace_open (&trace, &files[i], error);

    g_array_append_val (traces, trace);
    if (!opened)
      return NULL;
  }
  if (n == 1 && !is_torch (&g_array_index (traces, PsTrace, 0)))
    return list_of_one (ps_chrome_trace_read (&g_array_index (traces, PsTrace, 0), error));
  return ps_torch_trace_read (where, (PsTrace *)(gpointer)traces->data, n, error);
}

/* Our timelines begin with their format; any other text counts as a trace. */
static gboolean is_native (const PsTraceFile *file)
{
  gssize length = (gssize)MIN (file->length, HEAD_BYTES);
  const char *key = g_strstr_len (file->text, length, "\"format\"");
  const char *events = g_strstr_len (file->text, length, "\"traceEvents\"");

  return key != NULL && (events == NULL || key < events) && *file->text != '[';
}

static gboolean has_line (const PsTraceFile *file, const char *part)
{
  return g_strstr_len (file->text, (gssize)MIN (file->length, HEAD_BYTES), part) != NULL;
}

/* Megatron-LM logs its arguments, and later how long its timers ran on all ranks together. */
static gboolean is_timer_log (const PsTraceFile *file)
{
  return has_line (file, PS_TIMERS_HEADING) || has_line (file, "--- end of arguments ---");
}

static GPtrArray *parse_kind (const char *where, const PsTraceFile *head, const PsTraceFile *files, guint n,
                              GError **error)
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
static gboolean read_head (const PsTraceFile *file, PsTraceFile *head, char **unpacked, GError **error)
{
  *head = *file;
  if (!ps_is_packed (file->text, file->length))
    return TRUE;
  g_autoptr (PsUnpacker) unpacker = ps_unpacker_new (file->text, file->length);
  head->text = *unpacked = g_malloc0 (HEAD_BYTES + 1);
  return ps_unpacker_read (unpacker, file->name, *unpacked, HEAD_BYTES, &head->length, error);
}

/* Takes the list. NULL: it is NULL, or one of its timelines is refused. */
static GPtrArray *check (const char *where, GPtrArray *timelines, GError **error)
{
  g_autoptr (GPtrArray) checked = timelines;

  for (guint i = 0; checked != NULL && i < checked->len; i++)
    if (!ps_timeline_check (where, g_ptr_array_index (checked, i), error))
      return NULL;
  return g_steal_pointer (&checked);
}

GPtrArray *ps_timelines_parse (const char *where, const PsTraceFile *files, guint n, GError **error)
{
  g_autofree char *unpacked = NULL;
  PsTraceFile head;

  return read_head (&files[0], &head, &unpacked, error)
             ? check (where, parse_kind (where, &head, files, n, error), error)
             : NULL;
}

/* Files and folders */

/* The bytes of a file. Files are mapped: of a large trace only the page that is being read needs memory. */
static GBytes *read_file (const char *path, GError **error)
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

static int compare_paths (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

/* Lists the traces of a folder by name. */
static GPtrArray *list_folder (const char *path, GError **error)
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
static GPtrArray *load_texts (const char *path, GPtrArray *paths, GBytes **log, GError **error)
{
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func ((GDestroyNotify)g_bytes_unref);
  g_autofree PsTraceFile *files = g_new0 (PsTraceFile, paths->len);
  g_autofree char *unpacked = NULL;
  PsTraceFile head;

  for (guint i = 0; i < paths->len; i++) {
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
  if (ps_is_packed (files[0].text, files[0].length)) {
    gsize length;
    char *text = ps_unpack (files[0].name, files[0].text, files[0].length, &length, error);

    *log = text != NULL ? g_bytes_new_take (text, length) : NULL;
  } else
    *log = g_bytes_ref (g_ptr_array_index (texts, 0));
  return NULL;
}

GPtrArray *ps_timelines_load_or_log (const char *path, GBytes **log, GError **error)
{
  g_autoptr (GPtrArray) paths = NULL;

  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    paths = list_folder (path, error);
  else {
    paths = g_ptr_array_new_with_free_func (g_free);
    g_ptr_array_add (paths, g_strdup (path));
  }
  if (paths == NULL)
    return NULL;
  if (ps_nsys_recognise (g_ptr_array_index (paths, 0)))
    return check (path, ps_nsys_read (path, (const char *const *)paths->pdata, paths->len, error), error);
  return load_texts (path, paths, log, error);
}

GPtrArray *ps_timelines_load (const char *path, GError **error)
{
  g_autoptr (GPtrArray) timelines = ps_timelines_load_or_log (path, NULL, error);

  if (timelines != NULL && ((const PsTimeline *)timelines->pdata[0])->apart)
    return ps_refuse_null (error, PS_ERROR_INPUT,
                           "%s: its ranks were recorded apart, so it shows ops and no iteration; pipesim predict "
                           "--costs-from %s takes the ops",
                           path, path);
  return g_steal_pointer (&timelines);
}

PsTimeline *ps_timelines_median (GPtrArray *timelines)
{
  PsTimeline *timeline = g_ptr_array_steal_index (timelines, ps_median_iteration (timelines));

  g_ptr_array_unref (timelines);
  return timeline;
}

PsTimeline *ps_timeline_load (const char *path, GError **error)
{
  GPtrArray *timelines = ps_timelines_load (path, error);

  return timelines != NULL ? ps_timelines_median (timelines) : NULL;
}

gboolean ps_timeline_write (const PsTimeline *timeline, const char *path, GError **error)
{
  g_autofree char *text = g_str_has_suffix (path, ".trace.json") || g_str_has_suffix (path, ".trace.json.gz")
                              ? ps_timeline_to_chrome_trace (timeline)
                              : ps_timeline_to_json (timeline);

  return ps_write_file (path, text, -1, error);
}

/* trace.c - timelines from files of any supported kind. */
#include "chrome-trace-read.h"
#include "torch-trace.h"

#include <gio/gio.h>
#include <string.h>

#define MAX_UNPACKED_BYTES (G_GINT64_CONSTANT (1) << 30) /* as large as an unpacked file may be */

/* Whether any event is an action of PyTorch's runtime. */
static gboolean
is_torch (PsTrace *trace)
{
  const PsTraceEvent *event;

  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL)
    if (ps_torch_trace_names (ps_trace_text (event, TRACE_NAME)))
      return TRUE;
  return FALSE;
}

static void
clear_trace (gpointer data)
{
  ps_trace_clear (data);
}

static GPtrArray *
list_of_one (PsTimeline *timeline)
{
  GPtrArray *timelines;

  if (timeline == NULL)
    return NULL;
  timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  g_ptr_array_add (timelines, timeline);
  return timelines;
}

GPtrArray *
ps_traces_parse (const char *where, const char *const *names, const char *const *texts, guint n, GError **error)
{
  g_autoptr (GArray) traces = g_array_new (FALSE, FALSE, sizeof (PsTrace));

  g_array_set_clear_func (traces, clear_trace);
  for (guint i = 0; i < n; i++)
    {
      PsTrace trace;
      gboolean opened = ps_trace_open (&trace, names[i], texts[i], error);

      g_array_append_val (traces, trace);
      if (!opened)
        return NULL;
    }
  if (n == 1 && !is_torch (&g_array_index (traces, PsTrace, 0)))
    return list_of_one (ps_chrome_trace_read (&g_array_index (traces, PsTrace, 0), error));
  return ps_torch_trace_read (where, (PsTrace *)(gpointer)traces->data, n, error);
}

/* Files and folders */

/* Unpacks a gzip file. Free with g_free; NULL and error if that fails. */
static char *
unpack (const char *path, const char *packed, gsize length, GError **error)
{
  g_autoptr (GZlibDecompressor) gunzip = g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP);
  g_autoptr (GInputStream) input = g_memory_input_stream_new_from_data (packed, (gssize)length, NULL);
  g_autoptr (GInputStream) stream = g_converter_input_stream_new (input, G_CONVERTER (gunzip));
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GError) cause = NULL;
  g_autofree char *block = g_malloc (1 << 16);
  gssize n = 1;

  while (n > 0 && text->len <= MAX_UNPACKED_BYTES)
    {
      n = g_input_stream_read (stream, block, 1 << 16, NULL, &cause);
      g_string_append_len (text, block, MAX (n, 0));
    }
  if (n == 0)
    return g_string_free (g_steal_pointer (&text), FALSE);
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: cannot unpack: %s", path,
               n < 0 ? cause->message : "it holds more than 1 GiB");
  return NULL;
}

/* Reads a file. Free with g_free; NULL and error if that fails. */
static char *
read_text (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (!ps_read_file (path, &text, &length, error))
    return NULL;
  if (length >= 2 && memcmp (text, "\x1f\x8b", 2) == 0)
    return unpack (path, text, length, error);
  return g_steal_pointer (&text);
}

static int
compare_paths (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

/* Lists the *.json and *.json.gz files of a folder by name. */
static GPtrArray *
list_folder (const char *path, GError **error)
{
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GError) cause = NULL;
  g_autoptr (GDir) folder = g_dir_open (path, 0, &cause);
  const char *name;

  if (folder == NULL)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_IO, "%s: %s", path, cause->message);
      return NULL;
    }
  while ((name = g_dir_read_name (folder)) != NULL)
    if (g_str_has_suffix (name, ".json") || g_str_has_suffix (name, ".json.gz"))
      g_ptr_array_add (paths, g_build_filename (path, name, NULL));
  g_ptr_array_sort (paths, compare_paths);
  if (paths->len > 0 && paths->len <= PS_MAX_DEVICES)
    return g_steal_pointer (&paths);
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
               "%s: holds %u *.json files, packed (*.json.gz) or not; one trace per rank would be right", path,
               paths->len);
  return NULL;
}

static GPtrArray *
load_folder (const char *path, GError **error)
{
  g_autoptr (GPtrArray) paths = list_folder (path, error);
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; paths != NULL && i < paths->len; i++)
    {
      char *text = read_text (g_ptr_array_index (paths, i), error);

      if (text == NULL)
        return NULL;
      g_ptr_array_add (texts, text);
    }
  if (paths == NULL)
    return NULL;
  return ps_traces_parse (path, (const char *const *)paths->pdata, (const char *const *)texts->pdata, paths->len,
                          error);
}

/* Our timelines begin with their format; any other text counts as a trace. */
static gboolean
is_native (const char *text)
{
  const char *key = strstr (text, "\"format\"");
  const char *events = strstr (text, "\"traceEvents\"");

  return key != NULL && (events == NULL || key < events) && *text != '[';
}

GPtrArray *
ps_timelines_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  const char *shown;

  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    return load_folder (path, error);
  text = read_text (path, error);
  if (text == NULL)
    return NULL;
  if (is_native (text) || strstr (text, "traceEvents") == NULL)
    return list_of_one (ps_timeline_parse_json (path, text, -1, error));
  shown = text;
  return ps_traces_parse (path, &path, &shown, 1, error);
}

PsTimeline *
ps_timelines_median (GPtrArray *timelines)
{
  g_autofree gint64 *durations = g_new (gint64, timelines->len);
  gint64 median_ns;
  PsTimeline *timeline;
  guint i = 0;

  for (guint k = 0; k < timelines->len; k++)
    durations[k] = ((const PsTimeline *)g_ptr_array_index (timelines, k))->iteration_ns;
  median_ns = ps_median (durations, timelines->len);
  while (i + 1 < timelines->len && ((const PsTimeline *)g_ptr_array_index (timelines, i))->iteration_ns != median_ns)
    i++;
  timeline = g_ptr_array_steal_index (timelines, i);
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
  g_autofree char *text = g_str_has_suffix (path, ".trace.json") ? ps_timeline_to_chrome_trace (timeline)
                                                                 : ps_timeline_to_json (timeline);

  return ps_write_file (path, text, -1, error);
}

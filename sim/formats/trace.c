/* trace.c - timelines from files of any kind. */
#include "chrome-trace-read.h"
#include "torch-trace.h"

#include <string.h>

/* Whether any event is an action of PyTorch's runtime. */
static gboolean
is_torch (Trace *trace)
{
  const TraceEvent *event;

  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL)
    if (g_str_has_prefix (ps_trace_text (event, TRACE_NAME), "PP:"))
      return TRUE;
  return FALSE;
}

static void
clear_trace (gpointer data)
{
  ps_trace_clear (data);
}

PsTimeline *
ps_trace_parse (const char *where, const char *const *names, const char *const *texts, guint n, GError **error)
{
  g_autoptr (GArray) traces = g_array_new (FALSE, FALSE, sizeof (Trace));

  g_array_set_clear_func (traces, clear_trace);
  for (guint i = 0; i < n; i++)
    {
      Trace trace;
      gboolean opened = ps_trace_open (&trace, names[i], texts[i], error);

      g_array_append_val (traces, trace);
      if (!opened)
        return NULL;
    }
  if (n == 1 && !is_torch (&g_array_index (traces, Trace, 0)))
    return ps_chrome_trace_read (&g_array_index (traces, Trace, 0), error);
  return ps_torch_trace_read (where, (Trace *)(gpointer)traces->data, n, error);
}

/* Files and folders */

static int
compare_paths (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

/* The *.json files of a folder by name. */
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
    if (g_str_has_suffix (name, ".json"))
      g_ptr_array_add (paths, g_build_filename (path, name, NULL));
  g_ptr_array_sort (paths, compare_paths);
  if (paths->len > 0 && paths->len <= PS_MAX_DEVICES)
    return g_steal_pointer (&paths);
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: holds %u *.json files; one trace per rank would be right", path,
               paths->len);
  return NULL;
}

static PsTimeline *
load_folder (const char *path, GError **error)
{
  g_autoptr (GPtrArray) paths = list_folder (path, error);
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; paths && i < paths->len; i++)
    {
      char *text;

      if (!ps_read_file (g_ptr_array_index (paths, i), &text, NULL, error))
        return NULL;
      g_ptr_array_add (texts, text);
    }
  if (paths == NULL)
    return NULL;
  return ps_trace_parse (path, (const char *const *)paths->pdata, (const char *const *)texts->pdata, paths->len, error);
}

/* Ours says so at once; anything else is taken for a trace. */
static gboolean
is_native (const char *text)
{
  const char *key = strstr (text, "\"format\"");
  const char *events = strstr (text, "\"traceEvents\"");

  return key && (events == NULL || key < events) && *text != '[';
}

PsTimeline *
ps_timeline_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  const char *shown = NULL;
  gsize length;

  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    return load_folder (path, error);
  if (!ps_read_file (path, &text, &length, error))
    return NULL;
  if (is_native (text) || strstr (text, "traceEvents") == NULL)
    return ps_timeline_parse_json (path, text, (gssize)length, error);
  shown = text;
  return ps_trace_parse (path, &path, &shown, 1, error);
}

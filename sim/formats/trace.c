/* trace.c - JSON trace events, and timelines from files of any kind. */
#include "trace-private.h"

#include <math.h>
#include <string.h>

#define MAX_MICROSECONDS 2e15 /* in nanoseconds, with a base time added, differences still fit */

gboolean
ps_trace_open (Trace *trace, const char *name, const char *text, GError **error)
{
  JsonNode *root, *events;

  *trace = (Trace){ .name = name, .parser = ps_json_parse_any (name, text, -1, error) };
  if (trace->parser == NULL)
    return FALSE;
  events = root = json_parser_get_root (trace->parser);
  if (JSON_NODE_HOLDS_OBJECT (root))
    {
      trace->head = json_node_get_object (root);
      events = json_object_get_member (trace->head, "traceEvents");
    }
  if (events && JSON_NODE_HOLDS_ARRAY (events))
    {
      trace->events = json_node_get_array (events);
      return TRUE;
    }
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
               "%s: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents", name);
  return FALSE;
}

void
ps_trace_clear (Trace *trace)
{
  g_clear_object (&trace->parser);
}

JsonObject *
ps_trace_event (const Trace *trace, guint i)
{
  JsonNode *node = json_array_get_element (trace->events, i);

  return JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

gboolean
ps_trace_integer (JsonObject *event, const char *key, gint64 *value)
{
  JsonNode *node = json_object_get_member (event, key);

  if (node == NULL || !JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_INT64)
    return FALSE;
  *value = json_node_get_int (node);
  return TRUE;
}

const char *
ps_trace_text (JsonObject *event, const char *key)
{
  JsonNode *node = json_object_get_member (event, key);
  gboolean text = node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING;

  return text ? json_node_get_string (node) : "";
}

gboolean
ps_trace_time (JsonObject *event, const char *key, gint64 *ns)
{
  JsonNode *node = json_object_get_member (event, key);
  GType type = node && JSON_NODE_HOLDS_VALUE (node) ? json_node_get_value_type (node) : G_TYPE_INVALID;
  double microseconds;

  if (type != G_TYPE_INT64 && type != G_TYPE_DOUBLE)
    return FALSE;
  microseconds = json_node_get_double (node);
  if (!(fabs (microseconds) <= MAX_MICROSECONDS))
    return FALSE;
  *ns = type == G_TYPE_INT64 ? json_node_get_int (node) * 1000 : llround (microseconds * 1000);
  return TRUE;
}

gboolean
ps_trace_range (JsonObject *event, TraceRange *range)
{
  gint64 duration_ns;

  if (!g_str_equal (ps_trace_text (event, "ph"), "X") || !ps_trace_time (event, "ts", &range->start_ns)
      || !ps_trace_time (event, "dur", &duration_ns) || duration_ns < 0 || duration_ns > PS_MAX_TIME_NS
      || !ps_trace_integer (event, "pid", &range->pid) || !ps_trace_integer (event, "tid", &range->tid))
    return FALSE;
  range->end_ns = range->start_ns + duration_ns;
  range->name = ps_trace_text (event, "name");
  range->category = ps_trace_text (event, "cat");
  return TRUE;
}

gboolean
ps_trace_is_torch (const Trace *trace)
{
  for (guint i = 0; i < json_array_get_length (trace->events); i++)
    {
      JsonObject *event = ps_trace_event (trace, i);

      if (event && g_str_has_prefix (ps_trace_text (event, "name"), "PP:"))
        return TRUE;
    }
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
  if (n == 1 && !ps_trace_is_torch (&g_array_index (traces, Trace, 0)))
    return ps_chrome_trace_read (&g_array_index (traces, Trace, 0), error);
  return ps_torch_trace_read (where, (const Trace *)(gconstpointer)traces->data, n, error);
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

/* torch-trace.c - measured timelines from PyTorch profiler traces: the ranges of each rank's actions. */
#include "torch-trace.h"
#include "base/text.h"
#include "torch-reader.h"

#include <string.h>

static void
thread_free (gpointer data)
{
  PsTorchThread *thread = data;

  ps_rank_free (thread->rank);
  g_free (thread);
}

/* Collecting ranges */

static gboolean
is_gpu (const PsTraceRange *range)
{
  return g_str_equal (range->category, "gpu_user_annotation");
}

gboolean
ps_torch_trace_names (const char *name)
{
  PsRangeName parsed;

  return g_str_has_prefix (name, "PP:") || ps_range_name_parse (name, &parsed);
}

static guint
thread_hash (gconstpointer key)
{
  const PsTorchThread *thread = key;

  return (guint)(thread->pid * 31 + thread->tid) * 31 + (guint)thread->naming * 2 + (guint)thread->gpu;
}

static gboolean
thread_equal (gconstpointer a, gconstpointer b)
{
  const PsTorchThread *x = a, *y = b;

  return x->pid == y->pid && x->tid == y->tid && x->naming == y->naming && x->gpu == y->gpu;
}

static PsRank *
thread_rank (PsTorchReader *reader, GHashTable *threads, const PsTorchThread *key)
{
  PsTorchThread *thread = g_hash_table_lookup (threads, key);

  if (thread == NULL)
    {
      thread = g_memdup2 (key, sizeof *key);
      thread->rank = ps_rank_new (reader->traces[key->file].name);
      g_ptr_array_add (reader->threads, thread);
      g_hash_table_add (threads, thread);
    }
  return thread->rank;
}

/* Notes the end of an iteration or of a message. */
static void
add_event (PsTorchReader *reader, guint file, const PsTraceRange *found)
{
  PsTorchEvent event = { .file = file,
                         .gpu = is_gpu (found),
                         .start_ns = found->start_ns,
                         .end_ns = found->end_ns,
                         .pid = found->pid,
                         .tid = found->tid };

  if (g_str_has_prefix (found->name, "c10d::recv"))
    event.kind = EVENT_RECEIVE;
  else if (g_str_has_prefix (found->name, "c10d::send"))
    event.kind = EVENT_SEND;
  else if (g_str_equal (found->name, "gloo:recv"))
    {
      event.kind = EVENT_ARRIVED;
      event.start_ns = event.end_ns;
    }
  else if (ps_range_name_is_mark (found->name))
    event.kind = ps_range_name_is_update (found->name) ? EVENT_UPDATE : EVENT_MARK;
  else
    return;
  g_array_append_val (reader->events, event);
}

/* Newer profilers count from a base time of their own; adding it makes the files of one run comparable. */
static void
collect_file (PsTorchReader *reader, guint file)
{
  PsTrace *trace = &reader->traces[file];
  g_autoptr (GHashTable) threads = g_hash_table_new (thread_hash, thread_equal);
  const PsTraceEvent *event;

  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL)
    {
      PsTraceRange found;
      PsRangeName name;

      if (!ps_trace_range (event, &found))
        continue;
      found.start_ns += trace->base_ns;
      found.end_ns += trace->base_ns;
      reader->ops[file] |= ps_torch_is_op (&found);
      add_event (reader, file, &found);
      if (!ps_range_name_parse (found.name, &name))
        continue;
      PsRank *rank = thread_rank (
          reader, threads,
          &(PsTorchThread){
              .file = file, .gpu = is_gpu (&found), .pid = found.pid, .tid = found.tid, .naming = name.naming });
      if (ps_range_name_computes (&name))
        ps_rank_add_range (rank, &name, found.start_ns, found.end_ns);
      else
        ps_rank_add_span (rank, &name, found.start_ns, found.end_ns);
    }
}

/* Keeps the threads whose names tell most; of them the GPU's if there are any. */
static void
choose_threads (PsTorchReader *reader)
{
  for (guint i = reader->threads->len; i-- > 0;)
    {
      const PsTorchThread *thread = g_ptr_array_index (reader->threads, i);

      if (thread->rank->ranges->len == 0)
        g_ptr_array_remove_index (reader->threads, i);
      else
        reader->naming = MAX (reader->naming, thread->naming);
    }
  for (guint i = 0; i < reader->threads->len; i++)
    {
      const PsTorchThread *thread = g_ptr_array_index (reader->threads, i);

      reader->gpu |= thread->gpu && thread->naming == reader->naming;
    }
  for (guint i = reader->threads->len; i-- > 0;)
    {
      const PsTorchThread *thread = g_ptr_array_index (reader->threads, i);

      if (thread->naming != reader->naming || thread->gpu != reader->gpu)
        g_ptr_array_remove_index (reader->threads, i);
    }
}

/* Telling ranks */

/* distributedInfo.rank, else that of the file's name, else -1. */
static gint64
stated_rank (const PsTrace *trace)
{
  return trace->rank >= 0 ? trace->rank : ps_rank_of_path (trace->name);
}

static int
compare_threads (gconstpointer a, gconstpointer b)
{
  const PsTorchThread *x = *(PsTorchThread *const *)a, *y = *(PsTorchThread *const *)b;

  return x->file != y->file ? PS_COMPARE (x->file, y->file)
         : x->pid != y->pid ? PS_COMPARE (x->pid, y->pid)
                            : PS_COMPARE (x->tid, y->tid);
}

/* The stream that computes. The GPU has a range on every stream that worked for it; the one with most ranges
 * computes. */
static const PsTorchThread *
busiest (const PsTorchReader *reader, guint file, const gint64 *pid)
{
  const PsTorchThread *best = NULL;

  for (guint i = 0; i < reader->threads->len; i++)
    {
      const PsTorchThread *thread = g_ptr_array_index (reader->threads, i);

      if (thread->file == file && (pid == NULL || thread->pid == *pid)
          && (best == NULL || thread->rank->ranges->len > best->rank->ranges->len))
        best = thread;
    }
  return best;
}

static void
add_rank (PsTorchReader *reader, const PsTorchThread *thread)
{
  PsRank *rank = thread->rank;
  gint64 stated = reader->n_traces == 1 ? stated_rank (&reader->traces[0]) : -1;

  rank->number = stated >= 0 && stated < PS_MAX_DEVICES ? (guint)stated : reader->ranks->len;
  for (guint i = 0; i < reader->events->len; i++)
    {
      const PsTorchEvent *event = &g_array_index (reader->events, PsTorchEvent, i);

      if (event->kind >= EVENT_UPDATE && event->file == thread->file && event->pid == thread->pid
          && event->gpu == thread->gpu)
        ps_rank_add_mark (rank, event->kind == EVENT_UPDATE, event->start_ns, event->end_ns);
    }
  g_ptr_array_add (reader->ranks, rank);
  g_ptr_array_add (reader->owners, (gpointer)thread);
}

/* Makes the ranks of one file: by process if there are several, else by thread. */
static void
split_file (PsTorchReader *reader)
{
  gint64 last_pid = 0;
  const PsTorchThread *first = g_ptr_array_index (reader->threads, 0);
  const PsTorchThread *last = g_ptr_array_index (reader->threads, reader->threads->len - 1);

  for (guint i = 0; i < reader->threads->len; i++)
    {
      const PsTorchThread *thread = g_ptr_array_index (reader->threads, i);

      if (first->pid == last->pid && !reader->gpu)
        add_rank (reader, thread);
      else if (i == 0 || thread->pid != last_pid)
        add_rank (reader, busiest (reader, 0, &thread->pid));
      last_pid = thread->pid;
    }
}

/* Finds the rank of each file: as stated, else by its place. */
static gboolean
order_files (const PsTorchReader *reader, guint *files, GError **error)
{
  gboolean stated = stated_rank (&reader->traces[0]) >= 0;

  for (guint rank = 0; rank < reader->n_traces; rank++)
    files[rank] = G_MAXUINT;
  for (guint file = 0; file < reader->n_traces; file++)
    {
      gint64 rank = stated_rank (&reader->traces[file]);

      if ((rank >= 0) != stated)
        return ps_refuse (error, PS_ERROR_INPUT, "%s: %s, unlike the first file of the folder",
                          reader->traces[file].name, stated ? "does not say its rank" : "says its rank");
      rank = stated ? rank : file;
      if (rank >= reader->n_traces)
        return ps_refuse (error, PS_ERROR_INPUT, "%s: rank %" G_GINT64_FORMAT " of only %u traces",
                          reader->traces[file].name, rank, reader->n_traces);
      if (files[rank] != G_MAXUINT)
        return ps_refuse (error, PS_ERROR_INPUT, "%s: rank %" G_GINT64_FORMAT " is that of %s too",
                          reader->traces[file].name, rank, reader->traces[files[rank]].name);
      files[rank] = file;
    }
  return TRUE;
}

static gboolean
find_ranks (PsTorchReader *reader, GError **error)
{
  g_autofree guint *files = g_new0 (guint, reader->n_traces);

  g_ptr_array_sort (reader->threads, compare_threads);
  if (reader->threads->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: holds no complete range of an action, such as PP:0F0 (docs/traces.md)", reader->where);
  if (reader->n_traces == 1)
    {
      split_file (reader);
      return reader->ranks->len <= PS_MAX_DEVICES
             || ps_refuse (error, PS_ERROR_INPUT, "%s: has %u ranks; %d are possible", reader->where,
                           reader->ranks->len, PS_MAX_DEVICES);
    }
  if (!order_files (reader, files, error))
    return FALSE;
  for (guint rank = 0; rank < reader->n_traces; rank++)
    {
      const PsTorchThread *thread = busiest (reader, files[rank], NULL);

      if (thread == NULL)
        return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no range of an action, such as PP:0F0 (docs/traces.md)",
                          reader->traces[files[rank]].name);
      add_rank (reader, thread);
    }
  return TRUE;
}

/* Says in source and remark that ranks of the run are missing. */
static void
say_missing (const PsTorchReader *reader, PsTimeline *timeline)
{
  gint64 n_ranks = 0;
  guint n = reader->owners->len;
  g_autofree char *source = NULL, *remark = NULL;

  for (guint file = 0; file < reader->n_traces; file++)
    n_ranks = MAX (n_ranks, reader->traces[file].n_ranks);
  if (n_ranks <= n)
    return;
  source = timeline->source;
  timeline->source = g_strdup_printf ("%s, %u of %" G_GINT64_FORMAT " ranks", source, n, n_ranks);
  remark
      = g_strdup_printf ("%s: holds %u of the %" G_GINT64_FORMAT " ranks of its run; all figures are those of %s alone",
                         reader->where, n, n_ranks, n == 1 ? "this one" : "these");
  ps_timeline_add_remark (timeline, remark);
}

PS_DEFINE_ORDER (compare_events, PsTorchEvent, start_ns)

static GPtrArray *
read_timelines (PsTorchReader *reader, GError **error)
{
  for (guint file = 0; file < reader->n_traces; file++)
    collect_file (reader, file);
  choose_threads (reader);
  g_array_sort (reader->events, compare_events);
  if (!find_ranks (reader, error) || !ps_ranks_number (reader->ranks, reader->naming, error))
    return NULL;
  if (!reader->gpu)
    ps_torch_find_computing (reader);
  GPtrArray *timelines = ps_ranks_to_timelines (
      reader->where, reader->gpu ? "PyTorch profiler, GPU" : "PyTorch profiler, processor", reader->ranks, error);
  for (guint i = 0; timelines != NULL && i < timelines->len; i++)
    say_missing (reader, g_ptr_array_index (timelines, i));
  return timelines;
}

GPtrArray *
ps_torch_trace_read (const char *where, PsTrace *traces, guint n, GError **error)
{
  g_autoptr (GPtrArray) threads = g_ptr_array_new_with_free_func (thread_free);
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsTorchEvent));
  g_autoptr (GPtrArray) ranks = g_ptr_array_new (), owners = g_ptr_array_new ();
  g_autofree guint8 *ops = g_malloc0 (n);
  PsTorchReader reader = { .where = where,
                           .traces = traces,
                           .n_traces = n,
                           .ops = ops,
                           .threads = threads,
                           .events = events,
                           .ranks = ranks,
                           .owners = owners };

  return read_timelines (&reader, error);
}

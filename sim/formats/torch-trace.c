/* torch-trace.c - measured timelines from PyTorch profiler traces: the ranges "PP:<action>" of each rank. */
#include "torch-trace.h"

#include <string.h>

/* The ranges of one thread, or of one stream of a GPU, of one file. */
typedef struct
{
  guint file;
  gint64 pid;
  gint64 tid;
  GArray *ranges; /* of TorchRange */
} Thread;

typedef struct
{
  const char *where;
  Trace *traces;
  guint n_traces;
  gboolean gpu;       /* ranges of the GPU count, not of the processor */
  GPtrArray *threads; /* of Thread */
  GPtrArray *ranks;   /* of TorchRank */
} Reader;

static void
thread_free (gpointer data)
{
  Thread *thread = data;

  g_array_unref (thread->ranges);
  g_free (thread);
}

/* Collecting ranges */

static gboolean
is_gpu (const TraceRange *range)
{
  return g_str_equal (range->category, "gpu_user_annotation");
}

/* Whether the event is a computing action; all others are passed over. */
static gboolean
read_range (const TraceEvent *event, TraceRange *found, TorchRange *range)
{
  if (!g_str_has_prefix (ps_trace_text (event, TRACE_NAME), "PP:") || !ps_trace_range (event, found)
      || torch_cell_parse (found->name + 3, strlen (found->name) - 3, range->actions, &range->n) != NULL)
    return FALSE;
  range->start_ns = found->start_ns;
  range->end_ns = found->end_ns;
  return range->actions[0].type < TORCH_N_COMPUTE;
}

static GArray *
thread_ranges (Reader *reader, GHashTable *by_name, guint file, const TraceRange *range)
{
  g_autofree char *name = g_strdup_printf ("%" G_GINT64_FORMAT "/%" G_GINT64_FORMAT, range->pid, range->tid);
  Thread *thread = g_hash_table_lookup (by_name, name);

  if (thread == NULL)
    {
      thread = g_new0 (Thread, 1);
      *thread = (Thread){ .file = file, .pid = range->pid, .tid = range->tid };
      thread->ranges = g_array_new (FALSE, FALSE, sizeof (TorchRange));
      g_ptr_array_add (reader->threads, thread);
      g_hash_table_insert (by_name, g_steal_pointer (&name), thread);
    }
  return thread->ranges;
}

/* Newer profilers count from a base of their own, which brings the files of one run together. */
static void
collect_file (Reader *reader, guint file)
{
  Trace *trace = &reader->traces[file];
  g_autoptr (GHashTable) by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  const TraceEvent *event;

  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL)
    {
      TraceRange found;
      TorchRange range;
      GArray *ranges;

      if (!read_range (event, &found, &range) || is_gpu (&found) != reader->gpu)
        continue;
      range.start_ns += trace->base_ns;
      range.end_ns += trace->base_ns;
      ranges = thread_ranges (reader, by_name, file, &found);
      g_array_append_val (ranges, range);
    }
}

static gboolean
has_gpu_ranges (const Reader *reader)
{
  for (guint file = 0; file < reader->n_traces; file++)
    {
      const TraceEvent *event;
      TraceRange found;
      TorchRange range;

      ps_trace_rewind (&reader->traces[file]);
      while ((event = ps_trace_next (&reader->traces[file])) != NULL)
        if (read_range (event, &found, &range) && is_gpu (&found))
          return TRUE;
    }
  return FALSE;
}

/* Telling ranks */

/* distributedInfo.rank, else the number behind "rank" in the file's name; -1 where there is neither. */
static gint64
stated_rank (const Trace *trace)
{
  g_autofree char *name = g_path_get_basename (trace->name);
  const char *found = g_strrstr (name, "rank");

  if (trace->rank >= 0)
    return trace->rank;
  if (found == NULL)
    return -1;
  found += strlen ("rank");
  while (*found && strchr ("_-=.", *found))
    found++;
  return g_ascii_isdigit (*found) ? (gint64)MIN (g_ascii_strtoull (found, NULL, 10), PS_MAX_DEVICES) : -1;
}

static int
compare_threads (gconstpointer a, gconstpointer b)
{
  const Thread *x = *(Thread *const *)a, *y = *(Thread *const *)b;

  if (x->file != y->file)
    return x->file < y->file ? -1 : 1;
  if (x->pid != y->pid)
    return x->pid < y->pid ? -1 : 1;
  return (x->tid > y->tid) - (x->tid < y->tid);
}

/* The GPU has a range on every stream that worked for it: the stream with most of them is the one that computes. */
static const Thread *
busiest (const Reader *reader, guint file, const gint64 *pid)
{
  const Thread *best = NULL;

  for (guint i = 0; i < reader->threads->len; i++)
    {
      const Thread *thread = g_ptr_array_index (reader->threads, i);

      if (thread->file == file && (pid == NULL || thread->pid == *pid)
          && (best == NULL || thread->ranges->len > best->ranges->len))
        best = thread;
    }
  return best;
}

static void
add_rank (Reader *reader, const Thread *thread)
{
  TorchRank *rank = g_new0 (TorchRank, 1);

  rank->name = reader->traces[thread->file].name;
  rank->ranges = g_array_ref (thread->ranges);
  g_ptr_array_add (reader->ranks, rank);
}

/* All ranks in one file: by process where there are several, else by thread. */
static void
split_file (Reader *reader)
{
  gint64 last_pid = 0;
  const Thread *first = g_ptr_array_index (reader->threads, 0);
  const Thread *last = g_ptr_array_index (reader->threads, reader->threads->len - 1);

  for (guint i = 0; i < reader->threads->len; i++)
    {
      const Thread *thread = g_ptr_array_index (reader->threads, i);

      if (first->pid == last->pid && !reader->gpu)
        add_rank (reader, thread);
      else if (i == 0 || thread->pid != last_pid)
        add_rank (reader, busiest (reader, 0, &thread->pid));
      last_pid = thread->pid;
    }
}

/* The file of a rank: as stated, else by its place. */
static gboolean
order_files (const Reader *reader, guint *files, GError **error)
{
  gboolean stated = stated_rank (&reader->traces[0]) >= 0;

  for (guint rank = 0; rank < reader->n_traces; rank++)
    files[rank] = G_MAXUINT;
  for (guint file = 0; file < reader->n_traces; file++)
    {
      gint64 rank = stated_rank (&reader->traces[file]);

      if ((rank >= 0) != stated)
        return torch_trace_refuse (reader->traces[file].name, error, "%s, unlike the first file of the folder",
                                   stated ? "does not say its rank" : "says its rank");
      rank = stated ? rank : file;
      if (rank >= reader->n_traces)
        return torch_trace_refuse (reader->traces[file].name, error, "rank %" G_GINT64_FORMAT " of only %u traces",
                                   rank, reader->n_traces);
      if (files[rank] != G_MAXUINT)
        return torch_trace_refuse (reader->traces[file].name, error, "rank %" G_GINT64_FORMAT " is that of %s too",
                                   rank, reader->traces[files[rank]].name);
      files[rank] = file;
    }
  return TRUE;
}

static gboolean
find_ranks (Reader *reader, GError **error)
{
  g_autofree guint *files = g_new (guint, reader->n_traces);

  g_ptr_array_sort (reader->threads, compare_threads);
  if (reader->threads->len == 0)
    return torch_trace_refuse (reader->where, error, "holds no complete range of an action, such as PP:0F0");
  if (reader->n_traces == 1)
    {
      split_file (reader);
      return reader->ranks->len <= PS_MAX_DEVICES
             || torch_trace_refuse (reader->where, error, "has %u ranks; %d are possible", reader->ranks->len,
                                    PS_MAX_DEVICES);
    }
  if (!order_files (reader, files, error))
    return FALSE;
  for (guint rank = 0; rank < reader->n_traces; rank++)
    {
      const Thread *thread = busiest (reader, files[rank], NULL);

      if (thread == NULL)
        return torch_trace_refuse (reader->traces[files[rank]].name, error,
                                   "holds no range of an action, such as PP:0F0");
      add_rank (reader, thread);
    }
  return TRUE;
}

PsTimeline *
ps_torch_trace_read (const char *where, Trace *traces, guint n, GError **error)
{
  g_autoptr (GPtrArray) threads = g_ptr_array_new_with_free_func (thread_free);
  g_autoptr (GPtrArray) ranks = g_ptr_array_new_with_free_func (torch_rank_free);
  Reader reader = { .where = where, .traces = traces, .n_traces = n, .threads = threads, .ranks = ranks };

  reader.gpu = has_gpu_ranges (&reader);
  for (guint file = 0; file < n; file++)
    collect_file (&reader, file);
  return find_ranks (&reader, error) ? torch_trace_timeline (where, ranks, reader.gpu, error) : NULL;
}

/* torch-trace.c - measured timelines from PyTorch profiler traces: the ranges "PP:<action>" of each rank, cut into
 * iterations. */
#include "torch-actions.h"
#include "trace-private.h"

#include <string.h>

#define MAX_BASE_NS G_GINT64_CONSTANT (2000000000000000000) /* the year 2033 */

/* One range; a pair is one range with two actions. */
typedef struct
{
  gint64 start_ns;
  gint64 end_ns;
  guint n;
  TorchAction actions[2];
} Range;

/* The ranges of one thread, or of one stream of a GPU, of one file. */
typedef struct
{
  guint file;
  gint64 pid;
  gint64 tid;
  GArray *ranges; /* of Range */
} Thread;

/* The complete iterations of one rank. */
typedef struct
{
  const char *name; /* of its file */
  GArray *ranges;   /* of Range, by start; nested ones left out */
  GArray *starts;   /* guint: first range of each complete iteration */
  guint n;          /* ranges of an iteration */
} Rank;

typedef struct
{
  const char *where;
  const Trace *traces;
  guint n_traces;
  gboolean gpu;       /* ranges of the GPU count, not of the processor */
  GPtrArray *threads; /* of Thread */
  GPtrArray *ranks;   /* of Rank */
} Reader;

static void
thread_free (gpointer data)
{
  Thread *thread = data;

  g_array_unref (thread->ranges);
  g_free (thread);
}

static void
rank_free (gpointer data)
{
  Rank *rank = data;

  g_clear_pointer (&rank->ranges, g_array_unref);
  g_clear_pointer (&rank->starts, g_array_unref);
  g_free (rank);
}

static gboolean G_GNUC_PRINTF (3, 4) refuse (const char *where, GError **error, const char *format, ...)
{
  g_autofree char *what = NULL;
  va_list arguments;

  va_start (arguments, format);
  what = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s", where, what);
  return FALSE;
}

/* Collecting ranges */

static gboolean
is_gpu (const TraceRange *range)
{
  return g_str_equal (range->category, "gpu_user_annotation");
}

/* Whether the event is a computing action; all others are passed over. */
static gboolean
read_range (JsonObject *event, TraceRange *found, Range *range)
{
  if (!g_str_has_prefix (ps_trace_text (event, "name"), "PP:") || !ps_trace_range (event, found)
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
      thread->ranges = g_array_new (FALSE, FALSE, sizeof (Range));
      g_ptr_array_add (reader->threads, thread);
      g_hash_table_insert (by_name, g_steal_pointer (&name), thread);
    }
  return thread->ranges;
}

/* Newer profilers count from a base of their own, which brings the files of one run together. */
static gint64
base_time (const Trace *trace)
{
  gint64 base = 0;

  if (trace->head)
    ps_trace_integer (trace->head, "baseTimeNanoseconds", &base);
  return base > 0 && base < MAX_BASE_NS ? base : 0;
}

static void
collect_file (Reader *reader, guint file)
{
  const Trace *trace = &reader->traces[file];
  g_autoptr (GHashTable) by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gint64 base_ns = base_time (trace);

  for (guint i = 0; i < json_array_get_length (trace->events); i++)
    {
      JsonObject *event = ps_trace_event (trace, i);
      TraceRange found;
      Range range;
      GArray *ranges;

      if (!event || !read_range (event, &found, &range) || is_gpu (&found) != reader->gpu)
        continue;
      range.start_ns += base_ns;
      range.end_ns += base_ns;
      ranges = thread_ranges (reader, by_name, file, &found);
      g_array_append_val (ranges, range);
    }
}

static gboolean
has_gpu_ranges (const Reader *reader)
{
  for (guint file = 0; file < reader->n_traces; file++)
    for (guint i = 0; i < json_array_get_length (reader->traces[file].events); i++)
      {
        JsonObject *event = ps_trace_event (&reader->traces[file], i);
        TraceRange found;
        Range range;

        if (event && read_range (event, &found, &range) && is_gpu (&found))
          return TRUE;
      }
  return FALSE;
}

/* Telling ranks */

/* distributedInfo.rank, else the number behind "rank" in the file's name; -1 where there is neither. */
static gint64
stated_rank (const Trace *trace)
{
  JsonNode *info = trace->head ? json_object_get_member (trace->head, "distributedInfo") : NULL;
  g_autofree char *name = g_path_get_basename (trace->name);
  const char *found = g_strrstr (name, "rank");
  gint64 rank;

  if (info && JSON_NODE_HOLDS_OBJECT (info) && ps_trace_integer (json_node_get_object (info), "rank", &rank))
    return rank;
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
  Rank *rank = g_new0 (Rank, 1);

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
        return refuse (reader->traces[file].name, error, "%s, unlike the first file of the folder",
                       stated ? "does not say its rank" : "says its rank");
      rank = stated ? rank : file;
      if (rank >= reader->n_traces)
        return refuse (reader->traces[file].name, error, "rank %" G_GINT64_FORMAT " of only %u traces", rank,
                       reader->n_traces);
      if (files[rank] != G_MAXUINT)
        return refuse (reader->traces[file].name, error, "rank %" G_GINT64_FORMAT " is that of %s too", rank,
                       reader->traces[files[rank]].name);
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
    return refuse (reader->where, error, "holds no complete range of an action, such as PP:0F0");
  if (reader->n_traces == 1)
    {
      split_file (reader);
      return reader->ranks->len <= PS_MAX_DEVICES
             || refuse (reader->where, error, "has %u ranks; %d are possible", reader->ranks->len, PS_MAX_DEVICES);
    }
  if (!order_files (reader, files, error))
    return FALSE;
  for (guint rank = 0; rank < reader->n_traces; rank++)
    {
      const Thread *thread = busiest (reader, files[rank], NULL);

      if (thread == NULL)
        return refuse (reader->traces[files[rank]].name, error, "holds no range of an action, such as PP:0F0");
      add_rank (reader, thread);
    }
  return TRUE;
}

/* Cutting iterations */

static int
compare_ranges (gconstpointer a, gconstpointer b)
{
  const Range *x = a, *y = b;

  if (x->start_ns != y->start_ns)
    return x->start_ns < y->start_ns ? -1 : 1;
  return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

/* Sorts ranges and leaves out those inside another. */
static gboolean
straighten (Rank *rank, GError **error)
{
  guint kept = 0;
  Range *ranges = (Range *)(gpointer)rank->ranges->data;

  g_array_sort (rank->ranges, compare_ranges);
  for (guint i = 0; i < rank->ranges->len; i++)
    {
      if (kept > 0 && ranges[i].start_ns < ranges[kept - 1].end_ns)
        {
          g_autoptr (GString) name = g_string_new (NULL);

          if (ranges[i].end_ns <= ranges[kept - 1].end_ns)
            continue;
          torch_action_append (name, &ranges[i].actions[0]);
          return refuse (rank->name, error, "PP:%s starts before the range in front of it has ended", name->str);
        }
      ranges[kept++] = ranges[i];
    }
  g_array_set_size (rank->ranges, kept);
  return TRUE;
}

static guint64
action_key (const TorchAction *action)
{
  return (guint64)action->type << 48 | (guint64)action->stage << 32 | action->microbatch;
}

/* Notes an action of the iteration; FALSE when it was there already. */
static gboolean
note_actions (GHashTable *seen, const Range *range)
{
  for (guint i = 0; i < range->n; i++)
    {
      guint64 key = action_key (&range->actions[i]);

      if (!g_hash_table_add (seen, g_memdup2 (&key, sizeof key)))
        return FALSE;
    }
  return TRUE;
}

/* First ranges of all iterations, and behind them the number of ranges. */
static GArray *
find_starts (const Rank *rank)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  GArray *starts = g_array_new (FALSE, FALSE, sizeof (guint));
  guint i = 0;

  g_array_append_val (starts, i);
  for (; i < rank->ranges->len; i++)
    {
      const Range *range = &g_array_index (rank->ranges, Range, i);

      if (note_actions (seen, range))
        continue;
      g_array_append_val (starts, i);
      g_hash_table_remove_all (seen);
      note_actions (seen, range);
    }
  g_array_append_val (starts, i);
  return starts;
}

/* The iterations with most ranges are the complete ones: recording may begin and end within one. */
static void
keep_complete (Rank *rank)
{
  g_autoptr (GArray) starts = find_starts (rank);

  rank->starts = g_array_new (FALSE, FALSE, sizeof (guint));
  for (guint i = 0; i + 1 < starts->len; i++)
    rank->n = MAX (rank->n, g_array_index (starts, guint, i + 1) - g_array_index (starts, guint, i));
  for (guint i = 0; i + 1 < starts->len; i++)
    if (g_array_index (starts, guint, i + 1) - g_array_index (starts, guint, i) == rank->n)
      g_array_append_val (rank->starts, g_array_index (starts, guint, i));
}

static gboolean
cut_iterations (Reader *reader, GError **error)
{
  const Rank *first = g_ptr_array_index (reader->ranks, 0);

  for (guint r = 0; r < reader->ranks->len; r++)
    {
      Rank *rank = g_ptr_array_index (reader->ranks, r);

      if (!straighten (rank, error))
        return FALSE;
      keep_complete (rank);
      if (rank->starts->len != first->starts->len)
        return refuse (rank->name, error,
                       "rank %u has %u complete iterations, rank 0 has %u; record the same steps on all ranks", r,
                       rank->starts->len, first->starts->len);
    }
  return TRUE;
}

/* Building the timeline */

static const Range *
iteration_ranges (const Rank *rank, guint iteration)
{
  return &g_array_index (rank->ranges, Range, g_array_index (rank->starts, guint, iteration));
}

static gint64
iteration_start (const Reader *reader, guint iteration, gint64 *duration_ns)
{
  gint64 start_ns = G_MAXINT64, end_ns = G_MININT64;

  for (guint r = 0; r < reader->ranks->len; r++)
    {
      const Rank *rank = g_ptr_array_index (reader->ranks, r);
      const Range *ranges = iteration_ranges (rank, iteration);

      start_ns = MIN (start_ns, ranges[0].start_ns);
      end_ns = MAX (end_ns, ranges[rank->n - 1].end_ns);
    }
  *duration_ns = end_ns - start_ns;
  return start_ns;
}

static guint
median_iteration (const Reader *reader, guint n)
{
  g_autofree gint64 *durations = g_new (gint64, n);
  g_autofree gint64 *sorted = NULL;
  gint64 median;
  guint i = 0;

  for (guint k = 0; k < n; k++)
    iteration_start (reader, k, &durations[k]);
  sorted = g_memdup2 (durations, n * sizeof *durations);
  median = ps_median (sorted, n);
  while (durations[i] != median)
    i++;
  return i;
}

static int
compare_stages (gconstpointer a, gconstpointer b)
{
  return (int)*(const guint16 *)a - (int)*(const guint16 *)b;
}

/* The stages of a rank, each once, in model order. */
static GArray *
rank_stages (const Rank *rank, const Range *ranges)
{
  GArray *stages = g_array_new (FALSE, FALSE, sizeof (guint16));
  guint kept = 0;

  for (guint i = 0; i < rank->n; i++)
    for (guint k = 0; k < ranges[i].n; k++)
      g_array_append_val (stages, ranges[i].actions[k].stage);
  g_array_sort (stages, compare_stages);
  for (guint i = 0; i < stages->len; i++)
    if (kept == 0 || g_array_index (stages, guint16, i) != g_array_index (stages, guint16, kept - 1))
      g_array_index (stages, guint16, kept++) = g_array_index (stages, guint16, i);
  g_array_set_size (stages, kept);
  return stages;
}

static void
append_rank (PsTimeline *timeline, const Rank *rank, guint device, guint iteration, gint64 start_ns)
{
  const Range *ranges = iteration_ranges (rank, iteration);
  g_autoptr (GArray) stages = rank_stages (rank, ranges);

  for (guint i = 0; i < rank->n; i++)
    for (guint k = 0; k < ranges[i].n; k++)
      {
        const TorchAction *action = &ranges[i].actions[k];
        PsSpan span = { .device = (guint16)device, .peer = (guint16)device };
        guint chunk = 0;

        g_array_binary_search (stages, &action->stage, compare_stages, &chunk);
        span.chunk = (guint16)chunk;
        span.op = (PsOp){ .kind = (guint8)torch_op_kind (action->type),
                          .stage = action->stage,
                          .microbatch = action->microbatch & G_MAXINT32,
                          .paired = action->paired & 1U };
        span.start_ns = ranges[i].start_ns - start_ns;
        span.end_ns = ranges[i].end_ns - start_ns;
        timeline->n_stages = MAX (timeline->n_stages, action->stage + 1U);
        timeline->n_microbatches = MAX (timeline->n_microbatches, action->microbatch + 1);
        g_array_append_val (timeline->ops, span);
      }
}

static PsTimeline *
build (const Reader *reader)
{
  guint n = ((const Rank *)g_ptr_array_index (reader->ranks, 0))->starts->len;
  guint iteration = median_iteration (reader, n);
  g_autofree char *name = g_path_get_basename (reader->where);
  PsTimeline *timeline = ps_timeline_new (PS_ORIGIN_MEASURED, name, reader->ranks->len, 1, 1);
  gint64 start_ns = iteration_start (reader, iteration, &timeline->iteration_ns);

  g_free (timeline->source);
  timeline->source = g_strdup_printf ("PyTorch profiler, %s, iteration %u of %u", reader->gpu ? "GPU" : "processor",
                                      iteration + 1, n);
  for (guint r = 0; r < reader->ranks->len; r++)
    append_rank (timeline, g_ptr_array_index (reader->ranks, r), r, iteration, start_ns);
  ps_timeline_sort (timeline);
  return timeline;
}

PsTimeline *
ps_torch_trace_read (const char *where, const Trace *traces, guint n, GError **error)
{
  g_autoptr (GPtrArray) threads = g_ptr_array_new_with_free_func (thread_free);
  g_autoptr (GPtrArray) ranks = g_ptr_array_new_with_free_func (rank_free);
  Reader reader = { .where = where, .traces = traces, .n_traces = n, .threads = threads, .ranks = ranks };

  reader.gpu = has_gpu_ranges (&reader);
  for (guint file = 0; file < n; file++)
    collect_file (&reader, file);
  return find_ranks (&reader, error) && cut_iterations (&reader, error) ? build (&reader) : NULL;
}

/* torch-trace.c - measured timelines from PyTorch profiler traces: the ranges of each rank's actions. */
#include "torch-trace.h"
#include "torch-actions.h"
#include "trace-ranks.h"

#include <string.h>

/* The ranges of one thread, or one GPU stream, in one file. */
typedef struct
{
  guint file;
  gint64 pid;
  gint64 tid;
  PsRank *rank; /* its ranges, posts and waits */
} Thread;

typedef struct
{
  const char *where;
  PsTrace *traces;
  guint n_traces;
  gboolean gpipe;     /* ranges are those of ScheduleGPipe, not "PP:<action>" */
  gboolean gpu;       /* the GPU's ranges count, not the processor's */
  GArray **work;      /* [n_traces] of Work, by time */
  GPtrArray *threads; /* of Thread */
  GPtrArray *ranks;   /* of PsRank, which the threads own */
} Reader;

/* A piece of work that a thread did on a processor. */
typedef struct
{
  gint64 start_ns;
  gint64 end_ns;
  gint64 pid;
  gint64 tid;
  enum
  {
    WORK_COMPUTE,
    WORK_RECEIVE,
    WORK_SEND,
    WORK_ARRIVED, /* an instant: the wait for a receive has ended */
  } kind;
} Work;

static void
thread_free (gpointer data)
{
  Thread *thread = data;

  ps_rank_free (thread->rank);
  g_free (thread);
}

/* Collecting ranges */

static gboolean
is_gpu (const PsTraceRange *range)
{
  return g_str_equal (range->category, "gpu_user_annotation");
}

/* ScheduleGPipe has one stage per rank. Its ranges do not name the stage; add_rank sets it. */
static gboolean
read_gpipe (const char *name, PsTorchAction *action)
{
  static const char *const words[] = { "Forward ", "Backward " };
  static const PsTorchType types[] = { TORCH_F, TORCH_B };
  guint64 microbatch;

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_has_prefix (name, words[i])
        && g_ascii_string_to_unsigned (name + strlen (words[i]), 10, 0, PS_MAX_MICROBATCHES - 1, &microbatch, NULL))
      {
        *action = (PsTorchAction){ .type = (guint8)types[i], .microbatch = (guint32)microbatch };
        return TRUE;
      }
  return FALSE;
}

gboolean
ps_torch_trace_names (const char *name)
{
  PsTorchAction action;

  return g_str_has_prefix (name, "PP:") || read_gpipe (name, &action);
}

/* Reads the actions of a range's name; 0: it is none. */
static guint
read_actions (const Reader *reader, const PsTraceEvent *event, PsTraceRange *found, PsTorchAction *actions)
{
  const char *name = ps_trace_text (event, TRACE_NAME);
  guint n = 1;

  if (reader->gpipe
          ? !read_gpipe (name, actions)
          : !g_str_has_prefix (name, "PP:") || ps_torch_cell_parse (name + 3, strlen (name + 3), actions, &n) != NULL)
    return 0;
  return ps_trace_range (event, found) ? n : 0;
}

/* An action that holds the host: a post of a message's end, or the wait for a send. */
static void
add_host_span (PsRank *rank, const PsTorchAction *action, const PsTraceRange *found, gint64 base_ns)
{
  gboolean backward = action->type == TORCH_SEND_B || action->type == TORCH_RECV_B || action->type == TORCH_WAIT_SEND_B;
  PsSpan span = { .start_ns = found->start_ns + base_ns,
                  .end_ns = found->end_ns + base_ns,
                  .op = { .kind = backward ? PS_OP_B : PS_OP_F,
                          .stage = action->stage,
                          .microbatch = action->microbatch & G_MAXINT32 } };

  if (ps_torch_is_send (action->type))
    span.post = PS_INSTRUCTION_SEND;
  else if (ps_torch_is_receive (action->type))
    {
      span.post = PS_INSTRUCTION_RECEIVE;
      span.op.stage = (guint16)(backward ? action->stage + 1 : MAX (action->stage, 1) - 1);
    }
  if (action->type >= TORCH_SEND_F)
    g_array_append_val (span.post != 0 ? rank->posts : rank->waits, span);
}

static void
add_range (PsRank *rank, const PsTorchAction *actions, guint n, const PsTraceRange *found, gint64 base_ns)
{
  PsRankRange range = { .start_ns = found->start_ns + base_ns, .end_ns = found->end_ns + base_ns, .n = n };

  for (guint i = 0; i < n; i++)
    range.ops[i] = (PsOp){ .kind = (guint8)ps_torch_op_kind (actions[i].type),
                           .stage = actions[i].stage,
                           .microbatch = actions[i].microbatch & G_MAXINT32,
                           .paired = actions[i].paired & 1U };
  range.compute_start_ns = range.wait_start_ns = range.wait_end_ns = range.start_ns;
  range.compute_end_ns = range.end_ns;
  g_array_append_val (rank->ranges, range);
}

static PsRank *
thread_rank (Reader *reader, GHashTable *by_name, guint file, const PsTraceRange *range)
{
  g_autofree char *name = g_strdup_printf ("%" G_GINT64_FORMAT "/%" G_GINT64_FORMAT, range->pid, range->tid);
  Thread *thread = g_hash_table_lookup (by_name, name);

  if (thread == NULL)
    {
      thread = g_new0 (Thread, 1);
      *thread = (Thread){ .file = file, .pid = range->pid, .tid = range->tid };
      thread->rank = ps_rank_new (reader->traces[file].name);
      g_ptr_array_add (reader->threads, thread);
      g_hash_table_insert (by_name, g_steal_pointer (&name), thread);
    }
  return thread->rank;
}

static gboolean
read_work (const PsTraceEvent *event, Work *work)
{
  PsTraceRange found;
  gboolean arrived = g_str_equal (ps_trace_text (event, TRACE_NAME), "gloo:recv");

  if ((!arrived && !g_str_equal (ps_trace_text (event, TRACE_CATEGORY), "cpu_op")) || !ps_trace_range (event, &found))
    return FALSE;
  *work = (Work){ .start_ns = found.start_ns, .end_ns = found.end_ns, .pid = found.pid, .tid = found.tid };
  if (g_str_has_prefix (found.name, "c10d::recv"))
    work->kind = WORK_RECEIVE;
  else if (g_str_has_prefix (found.name, "c10d::send"))
    work->kind = WORK_SEND;
  if (arrived)
    {
      work->kind = WORK_ARRIVED;
      work->start_ns = work->end_ns;
    }
  return TRUE;
}

static int
compare_work (gconstpointer a, gconstpointer b)
{
  return ps_compare_int64 (&((const Work *)a)->start_ns, &((const Work *)b)->start_ns);
}

/* Newer profilers count from a base time of their own; adding it makes the files of one run comparable. */
static void
collect_file (Reader *reader, guint file)
{
  PsTrace *trace = &reader->traces[file];
  g_autoptr (GHashTable) by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  const PsTraceEvent *event;

  reader->work[file] = g_array_new (FALSE, FALSE, sizeof (Work));
  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL)
    {
      PsTraceRange found;
      PsTorchAction actions[2];
      Work work;
      guint n;

      if (!reader->gpu && read_work (event, &work))
        {
          work.start_ns += trace->base_ns;
          work.end_ns += trace->base_ns;
          g_array_append_val (reader->work[file], work);
        }
      n = read_actions (reader, event, &found, actions);
      if (n == 0 || is_gpu (&found) != reader->gpu)
        continue;
      if (actions[0].type < TORCH_N_COMPUTE)
        add_range (thread_rank (reader, by_name, file, &found), actions, n, &found, trace->base_ns);
      else
        add_host_span (thread_rank (reader, by_name, file, &found), actions, &found, trace->base_ns);
    }
  g_array_sort (reader->work[file], compare_work);
}

static gboolean
any_event (const Reader *reader, gboolean (*is) (const Reader *reader, const PsTraceEvent *event))
{
  for (guint file = 0; file < reader->n_traces; file++)
    {
      const PsTraceEvent *event;

      ps_trace_rewind (&reader->traces[file]);
      while ((event = ps_trace_next (&reader->traces[file])) != NULL)
        if (is (reader, event))
          return TRUE;
    }
  return FALSE;
}

static gboolean
is_action (const Reader *reader G_GNUC_UNUSED, const PsTraceEvent *event)
{
  return g_str_has_prefix (ps_trace_text (event, TRACE_NAME), "PP:");
}

static gboolean
is_gpu_range (const Reader *reader, const PsTraceEvent *event)
{
  PsTraceRange found;
  PsTorchAction actions[2];

  return read_actions (reader, event, &found, actions) > 0 && actions[0].type < TORCH_N_COMPUTE && is_gpu (&found);
}

/* Computing */

static guint
first_work (const GArray *work, gint64 start_ns)
{
  guint low = 0, high = work->len;

  while (low < high)
    {
      guint middle = (low + high) / 2;

      if (g_array_index (work, Work, middle).start_ns < start_ns)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

/* Adds the post of one end of a message that a range's own thread posts: GPipe's. */
static void
add_post (PsRank *rank, const PsRankRange *range, const Work *work)
{
  PsSpan span = { .start_ns = work->start_ns, .end_ns = work->end_ns, .op = range->ops[0] };

  span.op.kind = span.op.kind == PS_OP_F ? PS_OP_F : PS_OP_B;
  span.post = work->kind == WORK_SEND ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE;
  if (work->kind == WORK_RECEIVE && !ps_op_input (range->ops[0], PS_MAX_STAGES, &span.op))
    return;
  g_array_append_val (rank->posts, span);
}

/* A range computes from its first op after its last receive to the send that follows. Before, it waits until the
 * receive is noted as done, or else until it computes. A range without an op only waits, and takes no time at its end.
 * tid NULL: on any thread. */
static void
find_computing (PsRank *rank, PsRankRange *range, const GArray *work, gint64 pid, const gint64 *tid)
{
  gint64 start_ns = range->end_ns, end_ns = range->end_ns, arrived_ns = G_MAXINT64;

  for (guint i = first_work (work, range->start_ns); i < work->len; i++)
    {
      const Work *at = &g_array_index (work, Work, i);

      if (at->start_ns >= range->end_ns)
        break;
      if (at->pid != pid || (tid != NULL && at->tid != *tid))
        continue;
      if (at->kind == WORK_RECEIVE)
        {
          start_ns = end_ns = range->end_ns;
          range->wait_start_ns = MIN (at->end_ns, range->end_ns);
        }
      else if (at->kind == WORK_SEND && start_ns < end_ns)
        end_ns = MIN (end_ns, at->start_ns);
      else if (at->kind == WORK_ARRIVED)
        arrived_ns = MIN (arrived_ns, at->start_ns);
      else if (at->kind == WORK_COMPUTE)
        start_ns = MIN (start_ns, at->start_ns);
      if (at->kind == WORK_SEND || at->kind == WORK_RECEIVE)
        add_post (rank, range, at);
    }
  range->wait_end_ns = MIN (start_ns, arrived_ns);
  range->compute_start_ns = start_ns;
  range->compute_end_ns = end_ns;
}

/* Telling ranks */

/* distributedInfo.rank, else the number after "rank" in the file's name, else -1. */
static gint64
stated_rank (const PsTrace *trace)
{
  g_autofree char *name = g_path_get_basename (trace->name);
  const char *found = g_strrstr (name, "rank");

  if (trace->rank >= 0)
    return trace->rank;
  if (found == NULL)
    return -1;
  found += strlen ("rank");
  while (*found && strchr ("_-=.", *found) != NULL)
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

/* The stream that computes. The GPU has a range on every stream that worked for it; the one with most ranges
 * computes. */
static const Thread *
busiest (const Reader *reader, guint file, const gint64 *pid)
{
  const Thread *best = NULL;

  for (guint i = 0; i < reader->threads->len; i++)
    {
      const Thread *thread = g_ptr_array_index (reader->threads, i);

      if (thread->file == file && (pid == NULL || thread->pid == *pid)
          && (best == NULL || thread->rank->ranges->len > best->rank->ranges->len))
        best = thread;
    }
  return best;
}

/* Adds a thread's ranges as a rank. alone: in the rank's process only this thread belongs to it. If no ops were
 * recorded, ranges count as they are. */
static void
add_rank (Reader *reader, const Thread *thread, gboolean alone)
{
  PsRank *rank = thread->rank;
  const GArray *work = reader->work[thread->file];
  gint64 stated = reader->n_traces == 1 ? stated_rank (&reader->traces[0]) : -1;
  guint stage = stated >= 0 && stated < PS_MAX_DEVICES ? (guint)stated : reader->ranks->len;

  for (guint i = 0; i < rank->ranges->len; i++)
    {
      PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

      if (reader->gpipe)
        range->ops[0].stage = (guint16)stage;
      if (work->len > 0)
        find_computing (rank, range, work, thread->pid, alone ? &thread->tid : NULL);
    }
  g_ptr_array_add (reader->ranks, rank);
}

/* Makes the ranks of one file: by process if there are several, else by thread. */
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
        add_rank (reader, thread, first != last);
      else if (i == 0 || thread->pid != last_pid)
        add_rank (reader, busiest (reader, 0, &thread->pid), FALSE);
      last_pid = thread->pid;
    }
}

/* Finds the rank of each file: as stated, else by its place. */
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
find_ranks (Reader *reader, GError **error)
{
  g_autofree guint *files = g_new0 (guint, reader->n_traces);

  for (guint i = reader->threads->len; i-- > 0;)
    if (((const Thread *)g_ptr_array_index (reader->threads, i))->rank->ranges->len == 0)
      g_ptr_array_remove_index (reader->threads, i);
  g_ptr_array_sort (reader->threads, compare_threads);
  if (reader->threads->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no complete range of an action, such as PP:0F0", reader->where);
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
      const Thread *thread = busiest (reader, files[rank], NULL);

      if (thread == NULL)
        return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no range of an action, such as PP:0F0",
                          reader->traces[files[rank]].name);
      add_rank (reader, thread, FALSE);
    }
  return TRUE;
}

/* Says in source and remark that ranks of the run are missing. */
static void
say_missing (const Reader *reader, PsTimeline *timeline)
{
  gint64 n_ranks = 0;
  char *source = timeline->source;

  for (guint file = 0; file < reader->n_traces; file++)
    n_ranks = MAX (n_ranks, reader->traces[file].n_ranks);
  if (n_ranks <= timeline->n_devices)
    return;
  timeline->source = g_strdup_printf ("%s, %u of %" G_GINT64_FORMAT " ranks", source, timeline->n_devices, n_ranks);
  timeline->remark
      = g_strdup_printf ("%s: holds %u of the %" G_GINT64_FORMAT " ranks of its run; all figures are those of %s alone",
                         reader->where, timeline->n_devices, n_ranks, timeline->n_devices == 1 ? "this one" : "these");
  g_free (source);
}

static GPtrArray *
read_timelines (Reader *reader, GError **error)
{
  GPtrArray *timelines = NULL;

  reader->gpipe = !any_event (reader, is_action);
  reader->gpu = any_event (reader, is_gpu_range);
  for (guint file = 0; file < reader->n_traces; file++)
    collect_file (reader, file);
  if (find_ranks (reader, error))
    timelines = ps_ranks_to_timelines (
        reader->where, reader->gpu ? "PyTorch profiler, GPU" : "PyTorch profiler, processor", reader->ranks, error);
  for (guint i = 0; timelines != NULL && i < timelines->len; i++)
    say_missing (reader, g_ptr_array_index (timelines, i));
  for (guint file = 0; file < reader->n_traces; file++)
    g_array_unref (reader->work[file]);
  return timelines;
}

GPtrArray *
ps_torch_trace_read (const char *where, PsTrace *traces, guint n, GError **error)
{
  g_autoptr (GPtrArray) threads = g_ptr_array_new_with_free_func (thread_free);
  g_autoptr (GPtrArray) ranks = g_ptr_array_new ();
  g_autofree GArray **work = g_new0 (GArray *, n);
  Reader reader = { .where = where, .traces = traces, .n_traces = n, .work = work, .threads = threads, .ranks = ranks };

  return read_timelines (&reader, error);
}

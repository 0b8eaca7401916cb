/* torch-trace.c - measured timelines from PyTorch profiler traces: the ranges of each rank's actions. */
#include "trace-private.h"
#include "base/text.h"

#include <string.h>

/* The ranges of one thread, or one GPU stream, in one file, whose names tell equally much. */
typedef struct {
  guint file;
  gboolean gpu;
  gint64 pid;
  gint64 tid;
  PsRangeNaming naming;
  PsRank *rank; /* its ranges, posts and waits */
} Thread;

/* An act of a thread at one instant: it posted one end of a message, received one, or ended an iteration. */
typedef struct {
  guint file;
  gboolean gpu;
  enum {
    EVENT_RECEIVE,
    EVENT_SEND,
    EVENT_ARRIVED,
    EVENT_UPDATE,
    EVENT_MARK,
  } kind;
  gint64 start_ns;
  gint64 end_ns;
  gint64 pid;
  gint64 tid;
} Event;

typedef struct {
  const char *where;
  PsTrace *traces;
  guint n_traces;
  gboolean gpu;         /* the GPU's ranges count, not the processor's */
  PsRangeNaming naming; /* ranges with these names count */
  guint8 *ops;          /* [n_traces] whether the file has any cpu_op */
  GPtrArray *threads;   /* of Thread */
  GArray *events;       /* of Event, by start */
  GPtrArray *ranks;     /* of PsRank, which the threads own */
  GPtrArray *owners;    /* the Thread of each rank */
} Reader;

static gboolean is_op (const PsTraceRange *range)
{
  return g_str_equal (range->category, "cpu_op");
}

static void thread_free (gpointer data)
{
  Thread *thread = data;

  ps_rank_free (thread->rank);
  g_free (thread);
}

/* Collecting ranges */

static gboolean is_gpu (const PsTraceRange *range)
{
  return g_str_equal (range->category, "gpu_user_annotation");
}

static guint thread_hash (gconstpointer key)
{
  const Thread *thread = key;

  return (guint)(thread->pid * 31 + thread->tid) * 31 + (guint)thread->naming * 2 + (guint)thread->gpu;
}

static gboolean thread_equal (gconstpointer a, gconstpointer b)
{
  const Thread *x = a, *y = b;

  return x->pid == y->pid && x->tid == y->tid && x->naming == y->naming && x->gpu == y->gpu;
}

/* Notes the end of an iteration or of a message. */
static void add_event (Reader *reader, guint file, const PsTraceRange *found)
{
  Event event = { .file = file,
                  .gpu = is_gpu (found),
                  .start_ns = found->start_ns,
                  .end_ns = found->end_ns,
                  .pid = found->pid,
                  .tid = found->tid };

  if (g_str_has_prefix (found->name, "c10d::recv"))
    event.kind = EVENT_RECEIVE;
  else if (g_str_has_prefix (found->name, "c10d::send"))
    event.kind = EVENT_SEND;
  else if (g_str_equal (found->name, "gloo:recv")) {
    event.kind = EVENT_ARRIVED;
    event.start_ns = event.end_ns;
  } else if (ps_range_name_is_mark (found->name))
    event.kind = ps_range_name_is_update (found->name) ? EVENT_UPDATE : EVENT_MARK;
  else
    return;
  g_array_append_val (reader->events, event);
}

/* Newer profilers count from a base time of their own; adding it makes the files of one run comparable. */
static void collect_file (Reader *reader, guint file)
{
  PsTrace *trace = &reader->traces[file];
  g_autoptr (GHashTable) threads = g_hash_table_new (thread_hash, thread_equal);
  const PsTraceEvent *event;

  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL) {
    PsTraceRange found;
    PsRangeName name;

    if (!ps_trace_range (event, &found))
      continue;
    found.start_ns += trace->base_ns;
    found.end_ns += trace->base_ns;
    reader->ops[file] |= is_op (&found);
    add_event (reader, file, &found);
    if (!ps_range_name_parse (found.name, &name))
      continue;
    const Thread key
        = { .file = file, .gpu = is_gpu (&found), .pid = found.pid, .tid = found.tid, .naming = name.naming };
    Thread *thread = g_hash_table_lookup (threads, &key);
    if (thread == NULL) {
      thread = g_memdup2 (&key, sizeof key);
      thread->rank = ps_rank_new (trace->name);
      thread->rank->fake = trace->fake;
      g_ptr_array_add (reader->threads, thread);
      g_hash_table_add (threads, thread);
    }
    ps_rank_add (thread->rank, &name, found.start_ns, found.end_ns);
  }
}

/* Keeps the threads whose names tell most; of them the GPU's if there are any. */
static void choose_threads (Reader *reader)
{
  for (guint i = reader->threads->len; i-- > 0;) {
    const Thread *thread = g_ptr_array_index (reader->threads, i);

    if (thread->rank->ranges->len == 0)
      g_ptr_array_remove_index (reader->threads, i);
    else
      reader->naming = MAX (reader->naming, thread->naming);
  }
  for (guint i = 0; i < reader->threads->len; i++) {
    const Thread *thread = g_ptr_array_index (reader->threads, i);

    reader->gpu |= thread->gpu && thread->naming == reader->naming;
  }
  for (guint i = reader->threads->len; i-- > 0;) {
    const Thread *thread = g_ptr_array_index (reader->threads, i);

    if (thread->naming != reader->naming || thread->gpu != reader->gpu)
      g_ptr_array_remove_index (reader->threads, i);
  }
}

/* Telling ranks */

/* distributedInfo.rank, else that of the file's name, else -1. */
static gint64 stated_rank (const PsTrace *trace)
{
  return trace->rank >= 0 ? trace->rank : ps_rank_of_path (trace->name);
}

static int compare_threads (gconstpointer a, gconstpointer b)
{
  const Thread *x = *(Thread *const *)a, *y = *(Thread *const *)b;

  return x->file != y->file ? PS_COMPARE (x->file, y->file)
         : x->pid != y->pid ? PS_COMPARE (x->pid, y->pid)
                            : PS_COMPARE (x->tid, y->tid);
}

/* The stream that computes. The GPU has a range on every stream that worked for it; the one with most ranges
 * computes. */
static const Thread *busiest (const Reader *reader, guint file, const gint64 *pid)
{
  const Thread *best = NULL;

  for (guint i = 0; i < reader->threads->len; i++) {
    const Thread *thread = g_ptr_array_index (reader->threads, i);

    if (thread->file == file && (pid == NULL || thread->pid == *pid)
        && (best == NULL || thread->rank->ranges->len > best->rank->ranges->len))
      best = thread;
  }
  return best;
}

static void add_rank (Reader *reader, const Thread *thread)
{
  PsRank *rank = thread->rank;
  gint64 stated = reader->n_traces == 1 ? stated_rank (&reader->traces[0]) : -1;

  rank->number = stated >= 0 && stated < PS_MAX_DEVICES ? (guint)stated : reader->ranks->len;
  for (guint i = 0; i < reader->events->len; i++) {
    const Event *event = &g_array_index (reader->events, Event, i);

    if (event->kind >= EVENT_UPDATE && event->file == thread->file && event->pid == thread->pid
        && event->gpu == thread->gpu)
      ps_rank_add_mark (rank, event->kind == EVENT_UPDATE, event->start_ns, event->end_ns);
  }
  g_ptr_array_add (reader->ranks, rank);
  g_ptr_array_add (reader->owners, (gpointer)thread);
}

/* Makes the ranks of one file: by process if there are several, else by thread. */
static void split_file (Reader *reader)
{
  gint64 last_pid = 0;
  const Thread *first = g_ptr_array_index (reader->threads, 0);
  const Thread *last = g_ptr_array_index (reader->threads, reader->threads->len - 1);

  for (guint i = 0; i < reader->threads->len; i++) {
    const Thread *thread = g_ptr_array_index (reader->threads, i);

    if (first->pid == last->pid && !reader->gpu)
      add_rank (reader, thread);
    else if (i == 0 || thread->pid != last_pid)
      add_rank (reader, busiest (reader, 0, &thread->pid));
    last_pid = thread->pid;
  }
}

/* Finds the rank of each file: as stated, else by its place. */
static gboolean order_files (const Reader *reader, guint *files, GError **error)
{
  gboolean stated = stated_rank (&reader->traces[0]) >= 0;

  for (guint rank = 0; rank < reader->n_traces; rank++)
    files[rank] = G_MAXUINT;
  for (guint file = 0; file < reader->n_traces; file++) {
    gint64 rank = stated_rank (&reader->traces[file]);

    if ((rank >= 0) != stated)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: %s, unlike the first file of the folder", reader->traces[file].name,
                        stated ? "does not say its rank" : "says its rank");
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

static gboolean find_ranks (Reader *reader, GError **error)
{
  g_autofree guint *files = g_new0 (guint, reader->n_traces);

  g_ptr_array_sort (reader->threads, compare_threads);
  if (reader->threads->len == 0)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: holds no complete range of an action, such as PP:0F0 (docs/traces.md)", reader->where);
  if (reader->n_traces == 1) {
    split_file (reader);
    return reader->ranks->len <= PS_MAX_DEVICES
           || ps_refuse (error, PS_ERROR_INPUT, "%s: has %u ranks; %d are possible", reader->where, reader->ranks->len,
                         PS_MAX_DEVICES);
  }
  if (!order_files (reader, files, error))
    return FALSE;
  for (guint rank = 0; rank < reader->n_traces; rank++) {
    const Thread *thread = busiest (reader, files[rank], NULL);

    if (thread == NULL)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no range of an action, such as PP:0F0 (docs/traces.md)",
                        reader->traces[files[rank]].name);
    add_rank (reader, thread);
  }
  return TRUE;
}

/* When ranges compute, wait and post their messages */

/* Whether a rank is that of a thread; all threads of a process that has one rank work for it. */
static gboolean belongs (const Reader *reader, guint rank, guint file, gint64 pid, gint64 tid)
{
  const Thread *owner = g_ptr_array_index (reader->owners, rank);

  if (owner->file != file || owner->pid != pid)
    return FALSE;
  for (guint r = 0; r < reader->owners->len; r++) {
    const Thread *other = g_ptr_array_index (reader->owners, r);

    if (r != rank && other->file == file && other->pid == pid)
      return owner->tid == tid;
  }
  return TRUE;
}

/* Adds the post of one end of a message within a range. */
static void add_post (PsRank *rank, const PsRankRange *range, const Event *event)
{
  PsSpan span = { .start_ns = event->start_ns, .end_ns = event->end_ns, .op = range->ops[0] };

  span.op.kind = span.op.kind == PS_OP_F ? PS_OP_F : PS_OP_B;
  span.post = event->kind == EVENT_SEND ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE;
  if (event->kind == EVENT_SEND || ps_op_input (range->ops[0], PS_MAX_STAGES, &span.op))
    g_array_append_val (rank->posts, span);
}

/* A message between two ranges: sent by the one before, or received for the one after. That one waited from the
 * receive's post on, and not within its range. */
static void add_between (PsRank *rank, const Event *event, gint64 posted_ns)
{
  guint at = ps_rank_first_after (rank, event->start_ns);
  PsRankRange *before = at > 0 ? &g_array_index (rank->ranges, PsRankRange, at - 1) : NULL;
  PsRankRange *after = at < rank->ranges->len ? &g_array_index (rank->ranges, PsRankRange, at) : NULL;
  PsSpan wait = { .start_ns = posted_ns, .end_ns = event->start_ns, .post = PS_INSTRUCTION_RECEIVE };

  if (event->kind == EVENT_SEND && before != NULL)
    add_post (rank, before, event);
  else if (event->kind == EVENT_RECEIVE && after != NULL)
    add_post (rank, after, event);
  if (event->kind != EVENT_ARRIVED || after == NULL || (before != NULL && before->end_ns > posted_ns)
      || !ps_op_input (after->ops[0], PS_MAX_STAGES, &wait.op))
    return;
  g_array_append_val (rank->waits, wait);
  after->wait_end_ns = after->wait_start_ns;
}

/* A range computes from its first op after its last receive. Before, it waits until the receive is noted as done, or
 * else until it computes. */
static void begin_computing (Reader *reader, guint r)
{
  PsRank *rank = g_ptr_array_index (reader->ranks, r);
  gboolean named = rank->posts->len > 0;
  gint64 posted_ns = G_MAXINT64;

  for (guint i = 0; i < rank->ranges->len; i++) {
    PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

    range->compute_start_ns = range->wait_end_ns = range->end_ns;
  }
  for (guint i = 0; i < reader->events->len; i++) {
    const Event *event = &g_array_index (reader->events, Event, i);

    if (event->kind >= EVENT_UPDATE || !belongs (reader, r, event->file, event->pid, event->tid))
      continue;
    PsRankRange *range = ps_rank_range_at (rank, event->start_ns);
    if (range == NULL && !named)
      add_between (rank, event, posted_ns);
    else if (range != NULL && event->kind == EVENT_ARRIVED)
      range->wait_end_ns = MIN (range->wait_end_ns, event->start_ns);
    else if (range != NULL) {
      if (event->kind == EVENT_RECEIVE)
        range->wait_start_ns = MIN (event->end_ns, range->end_ns);
      add_post (rank, range, event);
    }
    if (event->kind == EVENT_RECEIVE)
      posted_ns = event->end_ns;
  }
}

/* Finds the first op of each range. */
static void find_ops (Reader *reader, guint file)
{
  PsTrace *trace = &reader->traces[file];
  const PsTraceEvent *event;

  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL) {
    PsTraceRange found;

    if (!ps_trace_range (event, &found) || !is_op (&found) || g_str_has_prefix (found.name, "c10d::"))
      continue;
    found.start_ns += trace->base_ns;
    for (guint r = 0; r < reader->ranks->len; r++) {
      PsRankRange *range = NULL;

      if (belongs (reader, r, file, found.pid, found.tid))
        range = ps_rank_range_at (g_ptr_array_index (reader->ranks, r), found.start_ns);
      if (range != NULL && found.start_ns >= range->wait_start_ns && found.start_ns < range->compute_start_ns)
        range->compute_start_ns = found.start_ns;
    }
  }
}

/* A range computes until the send that follows. Without an op it only waits, and takes no time at its end. */
static void end_computing (PsRank *rank)
{
  for (guint i = 0; i < rank->ranges->len; i++) {
    PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

    range->wait_end_ns = MIN (range->wait_end_ns, range->compute_start_ns);
  }
  for (guint i = 0; i < rank->posts->len; i++) {
    const PsSpan *post = &g_array_index (rank->posts, PsSpan, i);
    PsRankRange *range = ps_rank_range_at (rank, post->start_ns);

    if (post->post == PS_INSTRUCTION_SEND && range != NULL && post->start_ns >= range->compute_start_ns)
      range->compute_end_ns = MIN (range->compute_end_ns, post->start_ns);
  }
}

/* Finds when each range computes, and its posts. On a processor a range includes the time that it waits before it
 * computes, and with GPipe its messages. Without ops ranges count as they are. */
static void find_computing (Reader *reader)
{
  for (guint r = 0; r < reader->ranks->len; r++)
    if (reader->ops[((const Thread *)g_ptr_array_index (reader->owners, r))->file])
      begin_computing (reader, r);
  for (guint file = 0; file < reader->n_traces; file++)
    if (reader->ops[file])
      find_ops (reader, file);
  for (guint r = 0; r < reader->ranks->len; r++)
    end_computing (g_ptr_array_index (reader->ranks, r));
}

/* Says in source and remark that ranks of the run are missing. */
static void say_missing (const Reader *reader, PsTimeline *timeline)
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

PS_DEFINE_ORDER (compare_events, Event, start_ns)

GPtrArray *ps_torch_trace_read (const char *where, PsTrace *traces, guint n, GError **error)
{
  g_autoptr (GPtrArray) threads = g_ptr_array_new_with_free_func (thread_free);
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (Event));
  g_autoptr (GPtrArray) ranks = g_ptr_array_new (), owners = g_ptr_array_new ();
  g_autofree guint8 *ops = g_malloc0 (n);
  Reader reader = { .where = where,
                    .traces = traces,
                    .n_traces = n,
                    .ops = ops,
                    .threads = threads,
                    .events = events,
                    .ranks = ranks,
                    .owners = owners };

  for (guint file = 0; file < reader.n_traces; file++)
    collect_file (&reader, file);
  choose_threads (&reader);
  g_array_sort (reader.events, compare_events);
  if (!find_ranks (&reader, error) || !ps_ranks_number (reader.ranks, reader.naming, error))
    return NULL;
  if (!reader.gpu)
    find_computing (&reader);
  GPtrArray *timelines = ps_ranks_to_timelines (
      reader.where, reader.gpu ? "PyTorch profiler, GPU" : "PyTorch profiler, processor", reader.ranks, error);
  for (guint i = 0; timelines != NULL && i < timelines->len; i++)
    say_missing (&reader, g_ptr_array_index (timelines, i));
  return timelines;
}

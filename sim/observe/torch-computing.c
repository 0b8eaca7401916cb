/* torch-computing.c - when the ranges of a PyTorch trace compute, wait and post their messages. */
#include "torch-reader.h"

/* Whether a rank is that of a thread; all threads of a process that has one rank work for it. */
static gboolean
belongs (const PsTorchReader *reader, guint rank, guint file, gint64 pid, gint64 tid)
{
  const PsTorchThread *owner = g_ptr_array_index (reader->owners, rank);

  if (owner->file != file || owner->pid != pid)
    return FALSE;
  for (guint r = 0; r < reader->owners->len; r++)
    {
      const PsTorchThread *other = g_ptr_array_index (reader->owners, r);

      if (r != rank && other->file == file && other->pid == pid)
        return owner->tid == tid;
    }
  return TRUE;
}

/* Adds the post of one end of a message within a range. */
static void
add_post (PsRank *rank, const PsRankRange *range, const PsTorchEvent *event)
{
  PsSpan span = { .start_ns = event->start_ns, .end_ns = event->end_ns, .op = range->ops[0] };

  span.op.kind = span.op.kind == PS_OP_F ? PS_OP_F : PS_OP_B;
  span.post = event->kind == EVENT_SEND ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE;
  if (event->kind == EVENT_SEND || ps_op_input (range->ops[0], PS_MAX_STAGES, &span.op))
    g_array_append_val (rank->posts, span);
}

/* A message between two ranges: sent by the one before, or received for the one after. That one waited from the
 * receive's post on, and not within its range. */
static void
add_between (PsRank *rank, const PsTorchEvent *event, gint64 posted_ns)
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

/* A message within a range. */
static void
add_within (PsRank *rank, PsRankRange *range, const PsTorchEvent *event)
{
  if (event->kind == EVENT_ARRIVED)
    {
      range->wait_end_ns = MIN (range->wait_end_ns, event->start_ns);
      return;
    }
  if (event->kind == EVENT_RECEIVE)
    range->wait_start_ns = MIN (event->end_ns, range->end_ns);
  add_post (rank, range, event);
}

/* A range computes from its first op after its last receive. Before, it waits until the receive is noted as done, or
 * else until it computes. */
static void
begin_computing (PsTorchReader *reader, guint r)
{
  PsRank *rank = g_ptr_array_index (reader->ranks, r);
  gboolean named = rank->posts->len > 0;
  gint64 posted_ns = G_MAXINT64;

  for (guint i = 0; i < rank->ranges->len; i++)
    {
      PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

      range->compute_start_ns = range->wait_end_ns = range->end_ns;
    }
  for (guint i = 0; i < reader->events->len; i++)
    {
      const PsTorchEvent *event = &g_array_index (reader->events, PsTorchEvent, i);

      if (event->kind >= EVENT_UPDATE || !belongs (reader, r, event->file, event->pid, event->tid))
        continue;
      PsRankRange *range = ps_rank_range_at (rank, event->start_ns);
      if (range != NULL)
        add_within (rank, range, event);
      else if (!named)
        add_between (rank, event, posted_ns);
      if (event->kind == EVENT_RECEIVE)
        posted_ns = event->end_ns;
    }
}

/* Finds the first op of each range. */
static void
find_ops (PsTorchReader *reader, guint file)
{
  PsTrace *trace = &reader->traces[file];
  const PsTraceEvent *event;

  ps_trace_rewind (trace);
  while ((event = ps_trace_next (trace)) != NULL)
    {
      PsTraceRange found;

      if (!ps_trace_range (event, &found) || !ps_torch_is_op (&found) || g_str_has_prefix (found.name, "c10d::"))
        continue;
      found.start_ns += trace->base_ns;
      for (guint r = 0; r < reader->ranks->len; r++)
        {
          PsRankRange *range = NULL;

          if (belongs (reader, r, file, found.pid, found.tid))
            range = ps_rank_range_at (g_ptr_array_index (reader->ranks, r), found.start_ns);
          if (range != NULL && found.start_ns >= range->wait_start_ns && found.start_ns < range->compute_start_ns)
            range->compute_start_ns = found.start_ns;
        }
    }
}

/* A range computes until the send that follows. Without an op it only waits, and takes no time at its end. */
static void
end_computing (PsRank *rank)
{
  for (guint i = 0; i < rank->ranges->len; i++)
    {
      PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

      range->wait_end_ns = MIN (range->wait_end_ns, range->compute_start_ns);
    }
  for (guint i = 0; i < rank->posts->len; i++)
    {
      const PsSpan *post = &g_array_index (rank->posts, PsSpan, i);
      PsRankRange *range = ps_rank_range_at (rank, post->start_ns);

      if (post->post == PS_INSTRUCTION_SEND && range != NULL && post->start_ns >= range->compute_start_ns)
        range->compute_end_ns = MIN (range->compute_end_ns, post->start_ns);
    }
}

void
ps_torch_find_computing (PsTorchReader *reader)
{
  for (guint r = 0; r < reader->ranks->len; r++)
    if (reader->ops[((const PsTorchThread *)g_ptr_array_index (reader->owners, r))->file])
      begin_computing (reader, r);
  for (guint file = 0; file < reader->n_traces; file++)
    if (reader->ops[file])
      find_ops (reader, file);
  for (guint r = 0; r < reader->ranks->len; r++)
    end_computing (g_ptr_array_index (reader->ranks, r));
}

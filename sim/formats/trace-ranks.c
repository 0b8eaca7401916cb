/* trace-ranks.c - cuts the ranges of all ranks into iterations and makes timelines of them. */
#include "trace-ranks.h"

#include <string.h>

PsRank *
ps_rank_new (const char *name)
{
  PsRank *rank = g_new0 (PsRank, 1);

  rank->name = name;
  rank->ranges = g_array_new (FALSE, FALSE, sizeof (PsRankRange));
  rank->posts = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  rank->waits = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  rank->links = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  rank->marks = g_array_new (FALSE, FALSE, sizeof (gint64));
  rank->starts = g_array_new (FALSE, FALSE, sizeof (guint));
  return rank;
}

void
ps_rank_free (gpointer data)
{
  PsRank *rank = data;

  g_array_unref (rank->ranges);
  g_array_unref (rank->posts);
  g_array_unref (rank->waits);
  g_array_unref (rank->links);
  g_array_unref (rank->marks);
  g_array_unref (rank->starts);
  g_free (rank);
}

gint64
ps_rank_of_path (const char *path)
{
  g_autofree char *name = g_path_get_basename (path);
  const char *found = g_strrstr (name, "rank");

  if (found == NULL)
    return -1;
  found += strlen ("rank");
  while (*found && strchr ("_-=.", *found) != NULL)
    found++;
  return g_ascii_isdigit (*found) ? (gint64)MIN (g_ascii_strtoull (found, NULL, 10), PS_MAX_DEVICES) : -1;
}

static PsOp
action_op (const PsTorchAction *action)
{
  return (PsOp){ .kind = (guint8)ps_torch_op_kind (action->type),
                 .stage = action->stage,
                 .microbatch = action->microbatch & G_MAXINT32,
                 .paired = action->paired & 1U };
}

void
ps_rank_add_range (PsRank *rank, const PsRangeName *name, gint64 start_ns, gint64 end_ns)
{
  PsRankRange range = { .start_ns = start_ns,
                        .end_ns = end_ns,
                        .compute_start_ns = start_ns,
                        .compute_end_ns = end_ns,
                        .wait_start_ns = start_ns,
                        .wait_end_ns = start_ns,
                        .n = name->n };

  for (guint i = 0; i < name->n; i++)
    range.ops[i] = action_op (&name->actions[i]);
  g_array_append_val (rank->ranges, range);
}

/* Megatron's receives block: they are waits. */
void
ps_rank_add_span (PsRank *rank, const PsRangeName *name, gint64 start_ns, gint64 end_ns)
{
  const PsTorchAction *action = name->actions;
  gboolean backward = action->type == TORCH_SEND_B || action->type == TORCH_RECV_B || action->type == TORCH_WAIT_SEND_B;
  gboolean waits = name->naming == PS_RANGES_COUNTED && ps_torch_is_receive (action->type);
  PsSpan span = { .start_ns = start_ns,
                  .end_ns = end_ns,
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
    g_array_append_val (span.post != 0 && !waits ? rank->posts : rank->waits, span);
}

guint
ps_rank_first_after (const PsRank *rank, gint64 time_ns)
{
  guint low = 0, high = rank->ranges->len;

  while (low < high)
    {
      guint middle = (low + high) / 2;

      if (g_array_index (rank->ranges, PsRankRange, middle).start_ns <= time_ns)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

PsRankRange *
ps_rank_range_at (const PsRank *rank, gint64 time_ns)
{
  guint after = ps_rank_first_after (rank, time_ns);
  PsRankRange *range = after > 0 ? &g_array_index (rank->ranges, PsRankRange, after - 1) : NULL;

  return range != NULL && time_ns < range->end_ns ? range : NULL;
}

guint
ps_ranks_count_stages (GPtrArray *ranks)
{
  guint n = 1;

  for (guint r = 0; r < ranks->len; r++)
    {
      const GArray *ranges = ((const PsRank *)g_ptr_array_index (ranks, r))->ranges;

      for (guint i = 0; i < ranges->len; i++)
        for (guint k = 0; k < g_array_index (ranges, PsRankRange, i).n; k++)
          n = MAX (n, g_array_index (ranges, PsRankRange, i).ops[k].stage + 1U);
    }
  return n;
}

/* Cutting iterations */

/* Notes the ops of a range in the iteration; FALSE: one of them was there already. */
static gboolean
note_ops (GHashTable *seen, const PsRankRange *range)
{
  for (guint i = 0; i < range->n; i++)
    {
      PsOp op = range->ops[i];
      guint64 key = (guint64)op.kind << 48 | (guint64)op.stage << 32 | op.microbatch;

      if (!g_hash_table_add (seen, g_memdup2 (&key, sizeof key)))
        return FALSE;
    }
  return TRUE;
}

/* First ranges of all iterations, then the number of ranges. */
static GArray *
find_starts (const PsRank *rank)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  GArray *starts = g_array_new (FALSE, FALSE, sizeof (guint));
  guint i = 0;

  g_array_append_val (starts, i);
  for (; i < rank->ranges->len; i++)
    {
      const PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

      if (note_ops (seen, range))
        continue;
      g_array_append_val (starts, i);
      g_hash_table_remove_all (seen);
      note_ops (seen, range);
    }
  g_array_append_val (starts, i);
  return starts;
}

/* Keeps the iterations with most ranges, which are complete: recording may begin and end within an iteration. */
static void
keep_complete (PsRank *rank)
{
  g_autoptr (GArray) starts = find_starts (rank);

  for (guint i = 0; i + 1 < starts->len; i++)
    rank->n = MAX (rank->n, g_array_index (starts, guint, i + 1) - g_array_index (starts, guint, i));
  for (guint i = 0; i + 1 < starts->len; i++)
    if (g_array_index (starts, guint, i + 1) - g_array_index (starts, guint, i) == rank->n)
      g_array_append_val (rank->starts, g_array_index (starts, guint, i));
}

static gboolean
cut_iterations (GPtrArray *ranks, GError **error)
{
  const PsRank *first = g_ptr_array_index (ranks, 0);

  for (guint r = 0; r < ranks->len; r++)
    {
      PsRank *rank = g_ptr_array_index (ranks, r);

      keep_complete (rank);
      if (rank->starts->len != first->starts->len)
        return ps_refuse (error, PS_ERROR_INPUT,
                          "%s: rank %u has %u complete iterations, rank 0 has %u; record the same steps on all ranks",
                          rank->name, r, rank->starts->len, first->starts->len);
    }
  return TRUE;
}

/* Building the timeline */

static const PsRankRange *
iteration_ranges (const PsRank *rank, guint iteration)
{
  return &g_array_index (rank->ranges, PsRankRange, g_array_index (rank->starts, guint, iteration));
}

static gint64
iteration_start (GPtrArray *ranks, guint iteration, gint64 *duration_ns)
{
  gint64 start_ns = G_MAXINT64, end_ns = G_MININT64;

  for (guint r = 0; r < ranks->len; r++)
    {
      const PsRank *rank = g_ptr_array_index (ranks, r);
      const PsRankRange *ranges = iteration_ranges (rank, iteration);

      start_ns = MIN (start_ns, ranges[0].compute_start_ns);
      end_ns = MAX (end_ns, ranges[rank->n - 1].compute_end_ns);
    }
  *duration_ns = end_ns - start_ns;
  return start_ns;
}

static int
compare_stages (gconstpointer a, gconstpointer b)
{
  return (int)*(const guint16 *)a - (int)*(const guint16 *)b;
}

/* The stages of a rank, each once, in model order. */
static GArray *
rank_stages (const PsRank *rank, const PsRankRange *ranges)
{
  GArray *stages = g_array_new (FALSE, FALSE, sizeof (guint16));
  guint kept = 0;

  for (guint i = 0; i < rank->n; i++)
    for (guint k = 0; k < ranges[i].n; k++)
      g_array_append_val (stages, ranges[i].ops[k].stage);
  g_array_sort (stages, compare_stages);
  for (guint i = 0; i < stages->len; i++)
    if (kept == 0 || g_array_index (stages, guint16, i) != g_array_index (stages, guint16, kept - 1))
      g_array_index (stages, guint16, kept++) = g_array_index (stages, guint16, i);
  g_array_set_size (stages, kept);
  return stages;
}

/* The device of each stage; G_MAXUINT16 for a stage of no recorded rank. */
static guint16 *
find_devices (GPtrArray *ranks, guint n_stages, guint iteration)
{
  guint16 *devices = g_new (guint16, n_stages);

  memset (devices, 0xff, n_stages * sizeof *devices);
  for (guint r = 0; r < ranks->len; r++)
    {
      const PsRank *rank = g_ptr_array_index (ranks, r);
      const PsRankRange *ranges = iteration_ranges (rank, iteration);

      for (guint i = 0; i < rank->n; i++)
        for (guint k = 0; k < ranges[i].n; k++)
          devices[ranges[i].ops[k].stage] = (guint16)r;
    }
  return devices;
}

static void
append_ops (PsTimeline *timeline, const PsRank *rank, guint device, guint iteration)
{
  const PsRankRange *ranges = iteration_ranges (rank, iteration);
  g_autoptr (GArray) stages = rank_stages (rank, ranges);

  for (guint i = 0; i < rank->n; i++)
    for (guint k = 0; k < ranges[i].n; k++)
      {
        guint chunk = 0;
        PsSpan span = { .op = ranges[i].ops[k],
                        .start_ns = ranges[i].compute_start_ns,
                        .end_ns = ranges[i].compute_end_ns,
                        .device = (guint16)device };

        g_array_binary_search (stages, &ranges[i].ops[k].stage, compare_stages, &chunk);
        span.chunk = (guint16)chunk;
        g_array_append_val (timeline->ops, span);
      }
}

/* The wait of each range whose message comes from another rank. A pair has one wait. */
static void
append_range_waits (PsTimeline *timeline, const PsRank *rank, guint device, guint iteration, const guint16 *devices)
{
  const PsRankRange *ranges = iteration_ranges (rank, iteration);

  for (guint i = 0; i < rank->n; i++)
    for (guint k = 0; k < ranges[i].n; k++)
      {
        PsSpan span
            = { .start_ns = ranges[i].wait_start_ns, .end_ns = ranges[i].wait_end_ns, .device = (guint16)device };

        if (span.start_ns >= span.end_ns || !ps_op_input (ranges[i].ops[k], timeline->n_stages, &span.op)
            || devices[span.op.stage] == device)
          continue;
        g_array_append_val (timeline->waits, span);
        break;
      }
}

/* Posts and waits between the ranges before and after the iteration. A receive may come before the first range of its
 * iteration, everything else only after it. */
static void
append_spans (GArray *spans, const GArray *all, const PsRank *rank, guint device, guint iteration)
{
  const PsRankRange *ranges = (const PsRankRange *)(gconstpointer)rank->ranges->data;
  guint first = g_array_index (rank->starts, guint, iteration), next = first + rank->n;
  gint64 last_ns = first > 0 ? ranges[first - 1].end_ns : G_MININT64;
  gint64 next_ns = next < rank->ranges->len ? ranges[next].start_ns : G_MAXINT64;

  for (guint i = 0; i < all->len; i++)
    {
      PsSpan span = g_array_index (all, PsSpan, i);
      gboolean receive = span.post == PS_INSTRUCTION_RECEIVE;

      span.device = (guint16)device;
      if (span.start_ns >= (receive ? last_ns : ranges[first].start_ns)
          && span.start_ns < (receive ? ranges[next - 1].end_ns : next_ns))
        g_array_append_val (spans, span);
    }
}

/* Counts times from the iteration's start; the parts of spans before it are cut off. Stages of ranks without a trace
 * count, too, if a message names them. */
static void
shift (PsTimeline *timeline, GArray *spans, gint64 start_ns)
{
  guint kept = 0;
  PsSpan *span = (PsSpan *)(gpointer)spans->data;

  for (guint i = 0; i < spans->len; i++)
    {
      if (span[i].end_ns < start_ns)
        continue;
      timeline->n_stages = MAX (timeline->n_stages, span[i].op.stage + 1U);
      timeline->n_microbatches = MAX (timeline->n_microbatches, span[i].op.microbatch + 1U);
      span[kept] = span[i];
      span[kept].peer = span[i].device;
      span[kept].start_ns = MAX (span[i].start_ns - start_ns, 0);
      span[kept++].end_ns = span[i].end_ns - start_ns;
    }
  g_array_set_size (spans, kept);
}

static guint
post_hash (gconstpointer key)
{
  const PsSpan *post = key;

  return ((guint)post->op.microbatch * 31 + post->op.stage) * 31 + post->op.kind * 3U + post->post;
}

static gboolean
post_equal (gconstpointer a, gconstpointer b)
{
  const PsSpan *x = a, *y = b;

  return x->post == y->post && x->op.kind == y->op.kind && x->op.stage == y->op.stage
         && x->op.microbatch == y->op.microbatch;
}

/* Transfers whose times are known. A device that waited before the message was sent knows when it arrived; the transfer
 * began when both its ends had been posted. */
static void
transfers_by_waits (PsTimeline *timeline)
{
  g_autoptr (GHashTable) posts = g_hash_table_new (post_hash, post_equal);

  for (guint i = 0; i < timeline->posts->len; i++)
    g_hash_table_add (posts, &g_array_index (timeline->posts, PsSpan, i));
  for (guint i = 0; i < timeline->waits->len; i++)
    {
      PsSpan transfer = g_array_index (timeline->waits, PsSpan, i), key = transfer;
      const PsSpan *send, *receive;

      key.post = PS_INSTRUCTION_SEND;
      send = g_hash_table_lookup (posts, &key);
      key.post = PS_INSTRUCTION_RECEIVE;
      receive = g_hash_table_lookup (posts, &key);
      if (send == NULL || send->device == transfer.device || send->start_ns < transfer.start_ns)
        continue;
      transfer.start_ns = receive != NULL ? MAX (send->start_ns, receive->start_ns) : send->start_ns;
      transfer.device = send->device;
      transfer.peer = key.device;
      if (transfer.start_ns <= transfer.end_ns)
        g_array_append_val (timeline->transfers, transfer);
    }
}

/* Transfers both of whose ends are known: the end that came first waited for the other. */
static void
transfers_by_links (PsTimeline *timeline, const GArray *links)
{
  g_autoptr (GHashTable) ends = g_hash_table_new (post_hash, post_equal);

  for (guint i = 0; i < links->len; i++)
    g_hash_table_add (ends, &g_array_index (links, PsSpan, i));
  for (guint i = 0; i < links->len; i++)
    {
      PsSpan transfer = g_array_index (links, PsSpan, i), key = transfer;
      const PsSpan *send;

      key.post = PS_INSTRUCTION_SEND;
      send = g_hash_table_lookup (ends, &key);
      if (transfer.post != PS_INSTRUCTION_RECEIVE || send == NULL || send->device == transfer.device)
        continue;
      transfer.start_ns = MIN (MAX (transfer.start_ns, send->start_ns), transfer.end_ns);
      transfer.device = send->device;
      transfer.peer = key.device;
      transfer.post = 0;
      g_array_append_val (timeline->transfers, transfer);
    }
}

static PsTimeline *
make_timeline (const char *where, GPtrArray *ranks, guint iteration)
{
  g_autofree char *name = g_path_get_basename (where);
  g_autofree guint16 *devices = NULL;
  g_autoptr (GArray) links = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  PsTimeline *timeline = ps_timeline_new (PS_ORIGIN_MEASURED, name, ranks->len, 1, 1);
  gint64 start_ns = iteration_start (ranks, iteration, &timeline->iteration_ns);

  for (guint r = 0; r < ranks->len; r++)
    append_ops (timeline, g_ptr_array_index (ranks, r), r, iteration);
  shift (timeline, timeline->ops, start_ns);
  devices = find_devices (ranks, timeline->n_stages, iteration);
  for (guint r = 0; r < ranks->len; r++)
    {
      const PsRank *rank = g_ptr_array_index (ranks, r);

      append_range_waits (timeline, rank, r, iteration, devices);
      append_spans (timeline->posts, rank->posts, rank, r, iteration);
      append_spans (timeline->waits, rank->waits, rank, r, iteration);
      append_spans (links, rank->links, rank, r, iteration);
    }
  shift (timeline, timeline->posts, start_ns);
  shift (timeline, timeline->waits, start_ns);
  for (guint i = 0; i < timeline->waits->len; i++)
    g_array_index (timeline->waits, PsSpan, i).post = 0;
  shift (timeline, links, start_ns);
  transfers_by_waits (timeline);
  transfers_by_links (timeline, links);
  ps_timeline_sort (timeline);
  return timeline;
}

GPtrArray *
ps_ranks_to_timelines (const char *where, const char *source, GPtrArray *ranks, GError **error)
{
  g_autofree char *remark = NULL;
  GPtrArray *timelines;
  guint n;

  if (!cut_iterations (ranks, error))
    return NULL;
  remark = ps_ranks_align (where, ranks);
  n = ((const PsRank *)g_ptr_array_index (ranks, 0))->starts->len;
  timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  for (guint k = 0; k < n; k++)
    {
      PsTimeline *timeline = make_timeline (where, ranks, k);

      g_free (timeline->source);
      timeline->source = g_strdup_printf ("%s, iteration %u of %u", source, k + 1, n);
      timeline->remark = g_strdup (remark);
      g_ptr_array_add (timelines, timeline);
    }
  return timelines;
}

/* trace-timeline.c - makes the timeline of one iteration of ranks. */
#include "trace-ranks.h"

#include <string.h>

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
  gint64 last_ns = first > 0 ? ranges[first - 1].end_ns - 1 : G_MININT64;
  gint64 next_ns = next < rank->ranges->len ? ranges[next].start_ns : G_MAXINT64;

  for (guint i = ps_first_after (all, offsetof (PsSpan, start_ns), last_ns); i < all->len; i++)
    {
      PsSpan span = g_array_index (all, PsSpan, i);
      gboolean receive = span.post == PS_INSTRUCTION_RECEIVE;

      if (span.start_ns >= next_ns)
        break;
      span.device = (guint16)device;
      if (receive ? span.start_ns < ranges[next - 1].end_ns : span.start_ns >= ranges[first].start_ns)
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

      key.post = PS_INSTRUCTION_SEND;
      const PsSpan *send = g_hash_table_lookup (ends, &key);
      if (transfer.post != PS_INSTRUCTION_RECEIVE || send == NULL || send->device == transfer.device)
        continue;
      transfer.start_ns = MIN (MAX (transfer.start_ns, send->start_ns), transfer.end_ns);
      transfer.device = send->device;
      transfer.peer = key.device;
      transfer.post = 0;
      g_array_append_val (timeline->transfers, transfer);
    }
}

/* The updates of the weights after the iteration: O of each stage, in equal parts. Returns their time together. */
static gint64
append_updates (PsTimeline *timeline, const PsRank *rank, guint device, guint iteration)
{
  g_autoptr (GArray) updates = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  const PsRankRange *ranges = iteration_ranges (rank, iteration);
  g_autoptr (GArray) stages = rank_stages (rank, ranges);
  gint64 start_ns = 0, end_ns = 0, total_ns = 0;

  append_spans (updates, rank->updates, rank, device, iteration);
  for (guint i = 0; i < updates->len; i++)
    {
      const PsSpan *update = &g_array_index (updates, PsSpan, i);

      if (update->start_ns < MAX (end_ns, ranges[rank->n - 1].compute_end_ns))
        continue;
      start_ns = total_ns == 0 ? update->start_ns : start_ns;
      end_ns = update->end_ns;
      total_ns += end_ns - update->start_ns;
    }
  for (guint k = 0; total_ns > 0 && k < stages->len; k++)
    {
      PsSpan span = { .start_ns = start_ns + total_ns * k / stages->len,
                      .end_ns = start_ns + total_ns * (k + 1) / stages->len,
                      .op = { .kind = PS_OP_O, .stage = g_array_index (stages, guint16, k) },
                      .device = (guint16)device,
                      .chunk = (guint16)k };

      g_array_append_val (timeline->ops, span);
    }
  return total_ns;
}

PsTimeline *
ps_ranks_make_timeline (const char *where, GPtrArray *ranks, guint iteration)
{
  g_autofree char *name = g_path_get_basename (where);
  g_autoptr (GArray) links = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  PsTimeline *timeline = ps_timeline_new (PS_ORIGIN_MEASURED, name, ranks->len, 1, 1);
  gint64 start_ns = iteration_start (ranks, iteration, &timeline->iteration_ns), update_ns = 0;

  for (guint r = 0; r < ranks->len; r++)
    {
      append_ops (timeline, g_ptr_array_index (ranks, r), r, iteration);
      gint64 ns = append_updates (timeline, g_ptr_array_index (ranks, r), r, iteration);
      update_ns = MAX (update_ns, ns);
    }
  timeline->iteration_ns += update_ns;
  shift (timeline, timeline->ops, start_ns);
  g_autofree guint16 *devices = find_devices (ranks, timeline->n_stages, iteration);
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

/* trace-ranks.c - collects the ranges of all ranks and cuts them into iterations. */
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
  rank->updates = g_array_new (FALSE, FALSE, sizeof (PsSpan));
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
  g_array_unref (rank->updates);
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

void
ps_rank_add_mark (PsRank *rank, gboolean update, gint64 start_ns, gint64 end_ns)
{
  PsSpan span = { .start_ns = start_ns, .end_ns = end_ns, .op = { .kind = PS_OP_O } };

  g_array_append_val (rank->marks, start_ns);
  if (update)
    g_array_append_val (rank->updates, span);
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

/* The iteration that is being cut. */
typedef struct
{
  GHashTable *seen;           /* keys of its ops */
  gint32 last[PS_MAX_STAGES]; /* microbatch of the last F of each stage; -1: none */
} Cut;

static gint64
op_key (PsOp op)
{
  return (gint64)op.kind << 48 | (gint64)op.stage << 32 | op.microbatch;
}

/* Notes the ops of a range; FALSE: one of them was there already. */
static gboolean
note_ops (GHashTable *seen, const PsRankRange *range)
{
  for (guint i = 0; i < range->n; i++)
    {
      gint64 key = op_key (range->ops[i]);

      if (!g_hash_table_add (seen, g_memdup2 (&key, sizeof key)))
        return FALSE;
    }
  return TRUE;
}

static void
begin_iteration (Cut *cut)
{
  g_hash_table_remove_all (cut->seen);
  memset (cut->last, 0xff, sizeof cut->last);
}

/* Whether the range cannot belong to the iteration although its ops are new: an F of an earlier microbatch than the
 * last one, or a backward without its F. */
static gboolean
is_foreign (Cut *cut, const PsRankRange *range)
{
  for (guint i = 0; i < range->n; i++)
    {
      PsOp op = range->ops[i];
      gint64 forward = op_key ((PsOp){ .kind = PS_OP_F, .stage = op.stage, .microbatch = op.microbatch });

      if (op.kind == PS_OP_F ? cut->last[op.stage] > (gint32)op.microbatch
                             : !g_hash_table_contains (cut->seen, &forward))
        return TRUE;
      if (op.kind == PS_OP_F)
        cut->last[op.stage] = (gint32)op.microbatch;
    }
  return FALSE;
}

/* First ranges of all iterations, then the number of ranges. strict: recording may have begun within an iteration,
 * which is cut apart at every backward without its F; microbatches are in order. */
static GArray *
find_starts (const PsRank *rank, gboolean strict)
{
  g_autofree Cut *cut = g_new0 (Cut, 1);
  GArray *starts = g_array_new (FALSE, FALSE, sizeof (guint));
  guint i = 0;

  cut->seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  begin_iteration (cut);
  g_array_append_val (starts, i);
  for (; i < rank->ranges->len; i++)
    {
      const PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);
      guint start = i;

      if (note_ops (cut->seen, range) && !(strict && is_foreign (cut, range)))
        continue;
      begin_iteration (cut);
      note_ops (cut->seen, range);
      if (strict && is_foreign (cut, range))
        {
          begin_iteration (cut);
          start++;
        }
      g_array_append_val (starts, start);
    }
  g_array_append_val (starts, i);
  g_hash_table_unref (cut->seen);
  return starts;
}

static guint
longest (const GArray *starts)
{
  guint n = 0;

  for (guint i = 0; i + 1 < starts->len; i++)
    n = MAX (n, g_array_index (starts, guint, i + 1) - g_array_index (starts, guint, i));
  return n;
}

/* Keeps the iterations with most ranges, which are complete: recording may begin and end within an iteration. */
static void
keep_complete (PsRank *rank)
{
  g_autoptr (GArray) loose = find_starts (rank, FALSE), strict = find_starts (rank, TRUE);
  const GArray *starts = longest (strict) == longest (loose) ? strict : loose;

  rank->n = longest (loose);
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

void
ps_timeline_add_remark (PsTimeline *timeline, const char *remark)
{
  char *before = timeline->remark;

  if (remark == NULL)
    return;
  timeline->remark = before != NULL ? g_strconcat (before, "; ", remark, NULL) : g_strdup (remark);
  g_free (before);
}

/* Of ranks that do the same ops, by data or tensor parallelism, the first counts. Returns how many others there were.
 */
static guint
drop_replicas (GPtrArray *ranks)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  guint n = ranks->len, kept = 0;

  for (guint r = 0; r < n; r++)
    {
      PsRank *rank = g_ptr_array_index (ranks, r);
      guint first = g_array_index (rank->starts, guint, 0);

      if (!note_ops (seen, &g_array_index (rank->ranges, PsRankRange, first)))
        continue;
      for (guint i = first + 1; i < first + rank->n; i++)
        note_ops (seen, &g_array_index (rank->ranges, PsRankRange, i));
      ranks->pdata[kept++] = rank;
    }
  g_ptr_array_set_size (ranks, (gint)kept);
  return n - kept;
}

GPtrArray *
ps_ranks_to_timelines (const char *where, const char *source, GPtrArray *ranks, GError **error)
{
  g_autofree char *remark = NULL;
  g_autofree char *replicas = NULL;
  GPtrArray *timelines;
  guint n, n_replicas;

  if (!cut_iterations (ranks, error))
    return NULL;
  n_replicas = drop_replicas (ranks);
  if (n_replicas > 0)
    replicas = g_strdup_printf ("%s: %u ranks do the same ops as others and are left out", where, n_replicas);
  remark = ps_ranks_align (where, ranks);
  n = ((const PsRank *)g_ptr_array_index (ranks, 0))->starts->len;
  timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  for (guint k = 0; k < n; k++)
    {
      PsTimeline *timeline = ps_ranks_make_timeline (where, ranks, k);

      g_free (timeline->source);
      timeline->source = g_strdup_printf ("%s, iteration %u of %u", source, k + 1, n);
      ps_timeline_add_remark (timeline, replicas);
      ps_timeline_add_remark (timeline, remark);
      g_ptr_array_add (timelines, timeline);
    }
  return timelines;
}

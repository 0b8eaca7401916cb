/* trace-iterations.c - cuts the ranges of all ranks into iterations. */
#include "text.h"
#include "trace-ranks.h"

#include <string.h>

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

/* The first of the ranks that do the same ops, by data or tensor parallelism, counts. Returns the number of others. */
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

PS_DEFINE_ORDER (compare_starts, PsSpan, start_ns)

/* Shifting clocks keeps the order. */
static void
sort_spans (PsRank *rank)
{
  g_array_sort (rank->posts, compare_starts);
  g_array_sort (rank->waits, compare_starts);
  g_array_sort (rank->links, compare_starts);
  g_array_sort (rank->updates, compare_starts);
}

GPtrArray *
ps_ranks_to_timelines (const char *where, const char *source, GPtrArray *ranks, GError **error)
{
  g_autofree char *replicas = NULL;
  guint n, n_replicas;

  if (!cut_iterations (ranks, error))
    return NULL;
  n_replicas = drop_replicas (ranks);
  if (n_replicas > 0)
    replicas = g_strdup_printf ("%s: %u ranks do the same ops as others and are left out", where, n_replicas);
  g_autofree char *remark = ps_ranks_align (where, ranks);
  for (guint r = 0; r < ranks->len; r++)
    sort_spans (g_ptr_array_index (ranks, r));
  n = ((const PsRank *)g_ptr_array_index (ranks, 0))->starts->len;
  GPtrArray *timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
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

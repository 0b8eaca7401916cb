/* torch-iterations.c - cuts the ranges of all ranks into iterations and makes a timeline of the median one. */
#include "torch-trace.h"

void
ps_torch_rank_free (gpointer data)
{
  PsTorchRank *rank = data;

  g_clear_pointer (&rank->ranges, g_array_unref);
  g_clear_pointer (&rank->starts, g_array_unref);
  g_free (rank);
}

/* Cutting iterations */

static int
compare_ranges (gconstpointer a, gconstpointer b)
{
  const PsTorchRange *x = a, *y = b;

  if (x->start_ns != y->start_ns)
    return x->start_ns < y->start_ns ? -1 : 1;
  return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

/* Sorts ranges and drops those inside another. */
static gboolean
straighten (PsTorchRank *rank, GError **error)
{
  guint kept = 0;
  PsTorchRange *ranges = (PsTorchRange *)(gpointer)rank->ranges->data;

  g_array_sort (rank->ranges, compare_ranges);
  for (guint i = 0; i < rank->ranges->len; i++)
    {
      if (kept > 0 && ranges[i].start_ns < ranges[kept - 1].end_ns)
        {
          g_autoptr (GString) name = g_string_new (NULL);

          if (ranges[i].end_ns <= ranges[kept - 1].end_ns)
            continue;
          ps_torch_action_append (name, &ranges[i].actions[0]);
          return ps_refuse (error, PS_ERROR_INPUT, "%s: PP:%s starts before the range before it has ended", rank->name,
                            name->str);
        }
      ranges[kept++] = ranges[i];
    }
  g_array_set_size (rank->ranges, kept);
  return TRUE;
}

static guint64
action_key (const PsTorchAction *action)
{
  return (guint64)action->type << 48 | (guint64)action->stage << 32 | action->microbatch;
}

/* Notes the actions of a range in the iteration; FALSE: one of them was there already. */
static gboolean
note_actions (GHashTable *seen, const PsTorchRange *range)
{
  for (guint i = 0; i < range->n; i++)
    {
      guint64 key = action_key (&range->actions[i]);

      if (!g_hash_table_add (seen, g_memdup2 (&key, sizeof key)))
        return FALSE;
    }
  return TRUE;
}

/* First ranges of all iterations, then the number of ranges. */
static GArray *
find_starts (const PsTorchRank *rank)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  GArray *starts = g_array_new (FALSE, FALSE, sizeof (guint));
  guint i = 0;

  g_array_append_val (starts, i);
  for (; i < rank->ranges->len; i++)
    {
      const PsTorchRange *range = &g_array_index (rank->ranges, PsTorchRange, i);

      if (note_actions (seen, range))
        continue;
      g_array_append_val (starts, i);
      g_hash_table_remove_all (seen);
      note_actions (seen, range);
    }
  g_array_append_val (starts, i);
  return starts;
}

/* Keeps the iterations with most ranges, which are complete: recording may begin and end within an iteration. */
static void
keep_complete (PsTorchRank *rank)
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
cut_iterations (GPtrArray *ranks, GError **error)
{
  const PsTorchRank *first = g_ptr_array_index (ranks, 0);

  for (guint r = 0; r < ranks->len; r++)
    {
      PsTorchRank *rank = g_ptr_array_index (ranks, r);

      if (!straighten (rank, error))
        return FALSE;
      keep_complete (rank);
      if (rank->starts->len != first->starts->len)
        return ps_refuse (error, PS_ERROR_INPUT,
                          "%s: rank %u has %u complete iterations, rank 0 has %u; record the same steps on all ranks",
                          rank->name, r, rank->starts->len, first->starts->len);
    }
  return TRUE;
}

/* Building the timeline */

static const PsTorchRange *
iteration_ranges (const PsTorchRank *rank, guint iteration)
{
  return &g_array_index (rank->ranges, PsTorchRange, g_array_index (rank->starts, guint, iteration));
}

static gint64
iteration_start (GPtrArray *ranks, guint iteration, gint64 *duration_ns)
{
  gint64 start_ns = G_MAXINT64, end_ns = G_MININT64;

  for (guint r = 0; r < ranks->len; r++)
    {
      const PsTorchRank *rank = g_ptr_array_index (ranks, r);
      const PsTorchRange *ranges = iteration_ranges (rank, iteration);

      start_ns = MIN (start_ns, ranges[0].compute_start_ns);
      end_ns = MAX (end_ns, ranges[rank->n - 1].compute_end_ns);
    }
  *duration_ns = end_ns - start_ns;
  return start_ns;
}

static guint
median_iteration (GPtrArray *ranks, guint n)
{
  g_autofree gint64 *durations = g_new (gint64, n);
  g_autofree gint64 *sorted = NULL;
  gint64 median;
  guint i = 0;

  for (guint k = 0; k < n; k++)
    iteration_start (ranks, k, &durations[k]);
  sorted = g_memdup2 (durations, n * sizeof *durations);
  median = ps_median (sorted, n);
  while (i + 1 < n && durations[i] != median)
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
rank_stages (const PsTorchRank *rank, const PsTorchRange *ranges)
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
append_rank (PsTimeline *timeline, const PsTorchRank *rank, guint device, guint iteration, gint64 start_ns)
{
  const PsTorchRange *ranges = iteration_ranges (rank, iteration);
  g_autoptr (GArray) stages = rank_stages (rank, ranges);

  for (guint i = 0; i < rank->n; i++)
    for (guint k = 0; k < ranges[i].n; k++)
      {
        const PsTorchAction *action = &ranges[i].actions[k];
        PsSpan span = { .device = (guint16)device, .peer = (guint16)device };
        guint chunk = 0;

        g_array_binary_search (stages, &action->stage, compare_stages, &chunk);
        span.chunk = (guint16)chunk;
        span.op = (PsOp){ .kind = (guint8)ps_torch_op_kind (action->type),
                          .stage = action->stage,
                          .microbatch = action->microbatch & G_MAXINT32,
                          .paired = action->paired & 1U };
        span.start_ns = ranges[i].compute_start_ns - start_ns;
        span.end_ns = ranges[i].compute_end_ns - start_ns;
        timeline->n_stages = MAX (timeline->n_stages, action->stage + 1U);
        timeline->n_microbatches = MAX (timeline->n_microbatches, action->microbatch + 1);
        g_array_append_val (timeline->ops, span);
      }
}

PsTimeline *
ps_torch_trace_timeline (const char *where, GPtrArray *ranks, gboolean gpu, GError **error)
{
  guint n, iteration;
  g_autofree char *name = g_path_get_basename (where);
  PsTimeline *timeline;
  gint64 start_ns;

  if (!cut_iterations (ranks, error))
    return NULL;
  n = ((const PsTorchRank *)g_ptr_array_index (ranks, 0))->starts->len;
  iteration = median_iteration (ranks, n);
  timeline = ps_timeline_new (PS_ORIGIN_MEASURED, name, ranks->len, 1, 1);
  start_ns = iteration_start (ranks, iteration, &timeline->iteration_ns);
  g_free (timeline->source);
  timeline->source
      = g_strdup_printf ("PyTorch profiler, %s, iteration %u of %u", gpu ? "GPU" : "processor", iteration + 1, n);
  for (guint r = 0; r < ranks->len; r++)
    append_rank (timeline, g_ptr_array_index (ranks, r), r, iteration, start_ns);
  ps_timeline_sort (timeline);
  return timeline;
}

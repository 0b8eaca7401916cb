/* trace-numbers.c - puts the ranges of each rank in order, and finds the stages and microbatches that their names do
 * not tell. */
#include "text.h"
#include "trace-ranks.h"

#include <string.h>

static PsRankRange *
range_at (const PsRank *rank, guint i)
{
  return &g_array_index (rank->ranges, PsRankRange, i);
}

static gboolean
is_forward (const PsRank *rank, guint i)
{
  return range_at (rank, i)->ops[0].kind == PS_OP_F;
}

static int
compare_ranges (gconstpointer a, gconstpointer b)
{
  const PsRankRange *x = a, *y = b;

  return x->start_ns != y->start_ns ? PS_COMPARE (x->start_ns, y->start_ns) : PS_COMPARE (y->end_ns, x->end_ns);
}

/* Sorts ranges and drops those inside another. */
static gboolean
straighten (PsRank *rank, GError **error)
{
  guint kept = 0;
  PsRankRange *ranges = (PsRankRange *)(gpointer)rank->ranges->data;

  g_array_sort (rank->ranges, compare_ranges);
  for (guint i = 0; i < rank->ranges->len; i++)
    {
      if (kept > 0 && ranges[i].start_ns < ranges[kept - 1].end_ns)
        {
          char name[48], before[48];

          if (ranges[i].end_ns <= ranges[kept - 1].end_ns)
            continue;
          return ps_refuse (error, PS_ERROR_INPUT, "%s: %s starts before %s has ended", rank->name,
                            ps_op_format (ranges[i].ops[0], name), ps_op_format (ranges[kept - 1].ops[0], before));
        }
      ranges[kept++] = ranges[i];
    }
  g_array_set_size (rank->ranges, kept);
  return TRUE;
}

/* Iterations */

/* How often a rank has done as many backwards as forwards: as often as it has iterations, or more. */
static guint
count_balanced (const PsRank *rank)
{
  guint n = 0;
  gint open = 0;

  for (guint i = 0; i < rank->ranges->len; i++)
    {
      open += is_forward (rank, i) ? 1 : -1;
      n += open == 0;
    }
  return n;
}

/* Marks between iterations of equal length, where the trace has none itself. */
static void
mark_equal (PsRank *rank, guint n)
{
  guint length = MAX (rank->ranges->len / n, 1);

  for (guint i = length; i < rank->ranges->len; i += length)
    g_array_append_val (rank->marks, range_at (rank, i)->start_ns);
}

/* The first range that starts at or after the next mark. */
static guint
iteration_end (const PsRank *rank, guint first, guint *mark)
{
  guint end = first;

  while (*mark < rank->marks->len && g_array_index (rank->marks, gint64, *mark) <= range_at (rank, first)->start_ns)
    (*mark)++;
  while (end < rank->ranges->len
         && (*mark == rank->marks->len || range_at (rank, end)->start_ns < g_array_index (rank->marks, gint64, *mark)))
    end++;
  return end;
}

/* Orders */

/* The order of one iteration, counted. */
typedef struct
{
  guint forwards;
  guint backwards;
  guint lead; /* forwards before the first backward */
} Shape;

static Shape
find_shape (const PsRank *rank, guint first, guint end)
{
  Shape shape = { 0 };

  for (guint i = first; i < end; i++)
    {
      shape.forwards += is_forward (rank, i);
      shape.backwards += !is_forward (rank, i);
      shape.lead += shape.backwards == 0;
    }
  return shape;
}

/* The shape of the rank's longest iteration. */
static Shape
rank_shape (const PsRank *rank)
{
  Shape longest = { 0 };
  guint mark = 0;

  for (guint i = 0, end; i < rank->ranges->len; i = end)
    {
      end = iteration_end (rank, i, &mark);
      Shape shape = find_shape (rank, i, end);
      if (shape.forwards + shape.backwards > longest.forwards + longest.backwards)
        longest = shape;
    }
  return longest;
}

/* Stages of a rank. Megatron's interleaved 1F1B has 2 (p - 1 - r) + (v - 1) p + 1 forwards before the first backward on
 * rank r, 1F1B p - r, and GPipe all (megatron/core/pipeline_parallel/schedules.py). 0: the order is another one. */
static guint
count_chunks (const Shape *shapes, guint p)
{
  const Shape *last = &shapes[p - 1];
  guint v = (last->lead + p - 1) / p;
  gboolean gpipe = TRUE, interleaved = last->lead % p == 1 % p;

  if (v == 0)
    return 0;
  interleaved &= last->forwards % v == 0;
  for (guint r = 0; r < p; r++)
    {
      guint lead = v == 1 ? p - r : 2 * (p - 1 - r) + (v - 1) * p + 1;

      if (shapes[r].forwards != last->forwards || shapes[r].backwards != last->forwards)
        return 0;
      gpipe &= shapes[r].lead == shapes[r].forwards;
      interleaved &= shapes[r].lead == MIN (lead, shapes[r].forwards);
    }
  interleaved &= v == 1 || (last->forwards / v) % p == 0;
  return interleaved ? v : gpipe ? 1 : 0;
}

/* Numbering */

static void
number_range (PsRankRange *range, guint number, guint p, guint v, guint count)
{
  guint within = count % (p * v), chunk = within / p;

  if (range->ops[0].kind != PS_OP_F)
    chunk = v - 1 - chunk;
  range->ops[0].stage = (guint16)(chunk * p + number);
  range->ops[0].microbatch = (v == 1 ? count : count / (p * v) * p + within % p) & G_MAXINT32;
}

/* Numbers complete iterations and drops all others. */
static void
number_rank (PsRank *rank, guint number, guint p, guint v, guint forwards)
{
  guint mark = 0, kept = 0;

  for (guint i = 0, end; i < rank->ranges->len; i = end)
    {
      guint counts[2] = { 0, 0 };

      end = iteration_end (rank, i, &mark);
      Shape shape = find_shape (rank, i, end);
      for (; shape.forwards == forwards && shape.backwards == forwards && i < end; i++)
        {
          PsRankRange range = *range_at (rank, i);

          number_range (&range, number, p, v, counts[is_forward (rank, i)]++);
          *range_at (rank, kept++) = range;
        }
    }
  g_array_set_size (rank->ranges, kept);
}

/* A send belongs to the op before it, a receive to the op after it. */
static gboolean
find_op (const PsRank *rank, guint n_stages, PsSpan *span)
{
  gboolean forward = span->op.kind == PS_OP_F, send = span->post == PS_INSTRUCTION_SEND;
  guint at = ps_rank_first_after (rank, send ? span->start_ns : span->end_ns - 1);

  if (!send)
    {
      while (at < rank->ranges->len && is_forward (rank, at) != forward)
        at++;
      return at < rank->ranges->len && ps_op_input (range_at (rank, at)->ops[0], n_stages, &span->op);
    }
  while (at > 0 && is_forward (rank, at - 1) != forward)
    at--;
  if (at == 0)
    return FALSE;
  span->op.stage = range_at (rank, at - 1)->ops[0].stage;
  span->op.microbatch = range_at (rank, at - 1)->ops[0].microbatch;
  return TRUE;
}

static void
number_spans (const PsRank *rank, GArray *spans, guint n_stages)
{
  guint kept = 0;

  for (guint i = 0; i < spans->len; i++)
    {
      PsSpan span = g_array_index (spans, PsSpan, i);

      if (find_op (rank, n_stages, &span))
        g_array_index (spans, PsSpan, kept++) = span;
    }
  g_array_set_size (spans, kept);
}

/* Ranks that have no mark get marks: between as many iterations as every rank can have had. */
static gboolean
mark_ranks (GPtrArray *ranks, GError **error)
{
  guint n = G_MAXUINT;

  for (guint r = 0; r < ranks->len; r++)
    {
      PsRank *rank = g_ptr_array_index (ranks, r);

      n = MIN (n, MAX (count_balanced (rank), rank->marks->len > 0));
      g_array_sort (rank->marks, ps_compare_int64);
      if (n == 0)
        return ps_refuse (error, PS_ERROR_INPUT, "%s: has not one iteration with as many backwards as forwards",
                          rank->name);
    }
  for (guint r = 0; r < ranks->len; r++)
    if (((const PsRank *)g_ptr_array_index (ranks, r))->marks->len == 0)
      mark_equal (g_ptr_array_index (ranks, r), n);
  return TRUE;
}

static gboolean
number_counted (GPtrArray *ranks, GError **error)
{
  guint p = ranks->len, v;
  const PsRank *first = g_ptr_array_index (ranks, 0);
  g_autofree Shape *shapes = g_new0 (Shape, p);

  g_assert (p > 0);
  if (!mark_ranks (ranks, error))
    return FALSE;
  for (guint r = 0; r < p; r++)
    shapes[r] = rank_shape (g_ptr_array_index (ranks, r));
  v = p == 1 ? 1 : count_chunks (shapes, p);
  if (v == 0 || v * p > PS_MAX_STAGES)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: ranges name no stage and microbatch, and their order is none of 1F1B, interleaved 1F1B and "
                      "GPipe on %u ranks",
                      first->name, p);
  for (guint r = 0; r < p; r++)
    {
      PsRank *rank = g_ptr_array_index (ranks, r);

      number_rank (rank, rank->number, p, v, shapes[r].forwards);
      number_spans (rank, rank->posts, p == 1 ? PS_MAX_STAGES : p * v);
      number_spans (rank, rank->waits, p == 1 ? PS_MAX_STAGES : p * v);
      if (rank->ranges->len == 0)
        return ps_refuse (error, PS_ERROR_INPUT, "%s: has not one iteration with as many backwards as forwards",
                          rank->name);
    }
  return TRUE;
}

gboolean
ps_ranks_number (GPtrArray *ranks, PsRangeNaming naming, GError **error)
{
  for (guint r = 0; r < ranks->len; r++)
    {
      PsRank *rank = g_ptr_array_index (ranks, r);

      if (!straighten (rank, error))
        return FALSE;
      for (guint i = 0; naming == PS_RANGES_OF_RANK && i < rank->ranges->len; i++)
        range_at (rank, i)->ops[0].stage = (guint16)rank->number;
    }
  return naming != PS_RANGES_COUNTED || number_counted (ranks, error);
}

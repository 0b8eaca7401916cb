/* trace-align.c - brings the clocks of ranks together: no message arrives before it was sent. */
#include "trace-ranks.h"

/* One op of an iteration; and the earliest time at which its message can have left, the latest at which its input had
 * come. */
typedef struct
{
  const PsRankRange *range;
  guint rank;
  gint64 sent_ns;
  gint64 arrived_ns;
} Place;

/* Bounds of what is added to a rank's clock, by its messages with ranks that are aligned. */
typedef struct
{
  gint64 least_ns;
  gint64 most_ns;
  gboolean aligned;
} Bounds;

static gpointer
op_key (PsOp op)
{
  guint kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;

  return GSIZE_TO_POINTER ((gsize)kind << 48 | (gsize)op.stage << 32 | op.microbatch);
}

/* Whether the range makes this message, or takes it. */
static gboolean
has_message (const PsRankRange *range, PsOp message, gboolean takes, guint n_stages)
{
  for (guint k = 0; k < range->n; k++)
    {
      PsOp op = range->ops[k];

      if ((!takes || ps_op_input (op, n_stages, &op)) && op_key (op) == op_key (message))
        return TRUE;
    }
  return FALSE;
}

/* When the messages of each range left or came, as posts and waits tell: a message leaves after its post began, and has
 * come when the wait for it ends. Else when the range computes. */
static Place *
place_ranges (const PsRank *rank, guint number, guint n_stages)
{
  Place *places = g_new (Place, rank->ranges->len);

  for (guint i = 0; i < rank->ranges->len; i++)
    {
      const PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

      places[i] = (Place){ .range = range, .rank = number, .sent_ns = range->compute_end_ns };
      places[i].arrived_ns = range->wait_start_ns < range->wait_end_ns ? range->wait_end_ns : range->compute_start_ns;
    }
  for (guint i = 0; i < rank->posts->len; i++)
    {
      const PsSpan *post = &g_array_index (rank->posts, PsSpan, i);
      guint at = ps_rank_first_after (rank, post->start_ns);

      if (post->post == PS_INSTRUCTION_SEND && at > 0 && has_message (places[at - 1].range, post->op, FALSE, n_stages))
        places[at - 1].sent_ns = MAX (places[at - 1].sent_ns, post->start_ns);
    }
  for (guint i = 0; i < rank->waits->len; i++)
    {
      const PsSpan *wait = &g_array_index (rank->waits, PsSpan, i);
      guint at = ps_rank_first_after (rank, wait->end_ns - 1);

      if (wait->post != 0 && at < rank->ranges->len && has_message (places[at].range, wait->op, TRUE, n_stages))
        places[at].arrived_ns = wait->end_ns;
    }
  return places;
}

/* All ops of the iteration by key, of Place. */
static GHashTable *
index_iteration (GPtrArray *ranks, GPtrArray *all, guint iteration)
{
  GHashTable *places = g_hash_table_new (NULL, NULL);

  for (guint r = 0; r < ranks->len; r++)
    {
      const PsRank *rank = g_ptr_array_index (ranks, r);
      guint first = g_array_index (rank->starts, guint, iteration);

      for (guint i = first; i < first + rank->n; i++)
        {
          Place *place = (Place *)g_ptr_array_index (all, r) + i;

          for (guint k = 0; k < place->range->n; k++)
            g_hash_table_insert (places, op_key (place->range->ops[k]), place);
        }
    }
  return places;
}

/* Every message between the rank, which is aligned, and one that is not narrows the bounds of that one. */
static void
narrow (GHashTable *places, guint rank, guint n_stages, Bounds *bounds)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, places);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const Place *consumer = value;

      for (guint k = 0; k < consumer->range->n; k++)
        {
          PsOp op;

          if (!ps_op_input (consumer->range->ops[k], n_stages, &op))
            continue;
          const Place *producer = g_hash_table_lookup (places, op_key (op));
          if (producer == NULL || (producer->rank == rank) == (consumer->rank == rank))
            continue;
          gint64 slack_ns = consumer->arrived_ns - producer->sent_ns;
          Bounds *other = &bounds[producer->rank == rank ? consumer->rank : producer->rank];
          if (!other->aligned && producer->rank == rank)
            other->least_ns = MAX (other->least_ns, -slack_ns);
          else if (!other->aligned)
            other->most_ns = MIN (other->most_ns, slack_ns);
        }
    }
}

static void
shift_spans (GArray *spans, gint64 ns)
{
  for (guint i = 0; i < spans->len; i++)
    {
      g_array_index (spans, PsSpan, i).start_ns += ns;
      g_array_index (spans, PsSpan, i).end_ns += ns;
    }
}

static void
shift_rank (PsRank *rank, Place *places, gint64 ns)
{
  for (guint i = 0; i < rank->ranges->len; i++)
    {
      PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

      places[i].sent_ns += ns;
      places[i].arrived_ns += ns;
      range->start_ns += ns;
      range->end_ns += ns;
      range->compute_start_ns += ns;
      range->compute_end_ns += ns;
      range->wait_start_ns += ns;
      range->wait_end_ns += ns;
    }
  shift_spans (rank->posts, ns);
  shift_spans (rank->waits, ns);
  shift_spans (rank->links, ns);
  shift_spans (rank->updates, ns);
}

static gboolean
is_bound (const Bounds *bounds)
{
  return bounds->least_ns > G_MININT64 || bounds->most_ns < G_MAXINT64;
}

/* How far the clock must move: not at all within the bounds, else to their middle. With one bound, to it. */
static gint64
choose_shift (const Bounds *bounds)
{
  if (bounds->least_ns <= 0 && bounds->most_ns >= 0)
    return 0;
  if (bounds->least_ns == G_MININT64)
    return bounds->most_ns;
  if (bounds->most_ns == G_MAXINT64)
    return bounds->least_ns;
  return bounds->least_ns + (bounds->most_ns - bounds->least_ns) / 2;
}

/* The first rank that has messages with aligned ones, else the first that is not aligned; n: all are. */
static guint
choose_next (const Bounds *bounds, guint n)
{
  guint next = n;

  for (guint r = n; r-- > 0;)
    if (!bounds[r].aligned && (next == n || is_bound (&bounds[r]) || !is_bound (&bounds[next])))
      next = r;
  return next;
}

char *
ps_ranks_align (const char *where, GPtrArray *ranks)
{
  const PsRank *first = g_ptr_array_index (ranks, 0);
  guint n_stages = ps_ranks_count_stages (ranks);
  gint64 worst_ns = 0;
  g_autofree Bounds *bounds = g_new (Bounds, ranks->len);
  g_autoptr (GPtrArray) all = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) places = g_ptr_array_new_with_free_func ((GDestroyNotify)g_hash_table_unref);

  for (guint r = 0; r < ranks->len; r++)
    g_ptr_array_add (all, place_ranges (g_ptr_array_index (ranks, r), r, n_stages));
  for (guint k = 0; k < first->starts->len; k++)
    g_ptr_array_add (places, index_iteration (ranks, all, k));
  for (guint r = 0; r < ranks->len; r++)
    bounds[r] = (Bounds){ .least_ns = G_MININT64, .most_ns = G_MAXINT64 };
  for (guint r = 0; r < ranks->len; r = choose_next (bounds, ranks->len))
    {
      bounds[r].aligned = TRUE;
      shift_rank (g_ptr_array_index (ranks, r), g_ptr_array_index (all, r), choose_shift (&bounds[r]));
      if (bounds[r].least_ns > bounds[r].most_ns)
        worst_ns = MAX (worst_ns, bounds[r].least_ns - bounds[r].most_ns);
      for (guint k = 0; k < places->len; k++)
        narrow (g_ptr_array_index (places, k), r, n_stages, bounds);
    }
  if (worst_ns == 0)
    return NULL;
  return g_strdup_printf ("%s: the ranks' clocks contradict their messages by up to %" G_GINT64_FORMAT
                          " ns, however they are shifted; times between ranks are as uncertain",
                          where, worst_ns);
}

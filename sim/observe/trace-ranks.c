/* trace-ranks.c - collects the ranges, posts and waits of ranks. */
#include "trace-private.h"
#include "base/text.h"

#include <string.h>

/* Names that PyTorch and Megatron-LM give to the ranges of a profiler */

static gboolean parse_torch (const char *name, PsRangeName *parsed)
{
  parsed->naming = PS_RANGES_NAMED;
  return g_str_has_prefix (name, "PP:")
         && ps_torch_cell_parse (name + 3, strlen (name + 3), parsed->actions, &parsed->n) == NULL;
}

static gboolean parse_gpipe (const char *name, PsRangeName *parsed)
{
  static const char *const words[] = { "Forward ", "Backward " };
  static const PsTorchType types[] = { TORCH_F, TORCH_B };
  guint64 microbatch;

  parsed->naming = PS_RANGES_OF_RANK;
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_has_prefix (name, words[i])
        && g_ascii_string_to_unsigned (name + strlen (words[i]), 10, 0, PS_MAX_MICROBATCHES - 1, &microbatch, NULL)) {
      parsed->actions[0] = (PsTorchAction){ .type = (guint8)types[i], .microbatch = (guint32)microbatch };
      return TRUE;
    }
  return FALSE;
}

/* Whether the name ends in this word: all of it, or its last part. */
static gboolean ends_in (const char *name, const char *word)
{
  gsize length = strlen (name), n = strlen (word);

  return length >= n && strcmp (name + length - n, word) == 0
         && (length == n || strchr (".:/ ", name[length - n - 1]) != NULL);
}

static gboolean parse_megatron (const char *name, PsRangeName *parsed)
{
  static const struct {
    const char *word;
    PsTorchType type;
  } words[] = {
    { "forward_step", TORCH_F },           { "forward-compute", TORCH_F },       { "microbatch.forward", TORCH_F },
    { "backward_step", TORCH_B },          { "backward-compute", TORCH_B },      { "microbatch.backward", TORCH_B },
    { "p2p.send_forward", TORCH_SEND_F },  { "p2p.recv_forward", TORCH_RECV_F }, { "p2p.send_backward", TORCH_SEND_B },
    { "p2p.recv_backward", TORCH_RECV_B },
  };

  parsed->naming = PS_RANGES_COUNTED;
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (ends_in (name, words[i].word)) {
      parsed->actions[0] = (PsTorchAction){ .type = (guint8)words[i].type };
      return TRUE;
    }
  return FALSE;
}

gboolean ps_range_name_parse (const char *name, PsRangeName *parsed)
{
  parsed->n = 1;
  return parse_torch (name, parsed) || parse_gpipe (name, parsed) || parse_megatron (name, parsed);
}

gboolean ps_range_name_is_update (const char *name)
{
  return g_str_has_prefix (name, "Optimizer.step#") || ends_in (name, "optimizer_step");
}

gboolean ps_range_name_is_mark (const char *name)
{
  return ps_range_name_is_update (name) || g_str_has_prefix (name, "ProfilerStep#") || ends_in (name, "train_step")
         || ends_in (name, "training.iteration");
}

/* Ranks */

PsRank *ps_rank_new (const char *name)
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

void ps_rank_free (gpointer data)
{
  PsRank *rank = data;
  GArray *const all[]
      = { rank->ranges, rank->posts, rank->waits, rank->links, rank->updates, rank->marks, rank->starts };

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    g_array_unref (all[i]);
  g_free (rank);
}

gint64 ps_rank_of_path (const char *path)
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

static void add_range (PsRank *rank, const PsRangeName *name, gint64 start_ns, gint64 end_ns)
{
  PsRankRange range = { .start_ns = start_ns,
                        .end_ns = end_ns,
                        .compute_start_ns = start_ns,
                        .compute_end_ns = end_ns,
                        .wait_start_ns = start_ns,
                        .wait_end_ns = start_ns,
                        .n = name->n };

  for (guint i = 0; i < name->n; i++)
    range.ops[i] = (PsOp){ .kind = (guint8)ps_torch_op_kind (name->actions[i].type),
                           .stage = name->actions[i].stage,
                           .microbatch = name->actions[i].microbatch & G_MAXINT32,
                           .paired = name->actions[i].paired & 1U };
  g_array_append_val (rank->ranges, range);
}

/* Megatron's receives block: they are waits. */
void ps_rank_add (PsRank *rank, const PsRangeName *name, gint64 start_ns, gint64 end_ns)
{
  const PsTorchAction *action = name->actions;
  gboolean backward = action->type == TORCH_SEND_B || action->type == TORCH_RECV_B || action->type == TORCH_WAIT_SEND_B;
  gboolean waits = name->naming == PS_RANGES_COUNTED && ps_torch_is_receive (action->type);
  PsSpan span = { .start_ns = start_ns,
                  .end_ns = end_ns,
                  .op = { .kind = backward ? PS_OP_B : PS_OP_F,
                          .stage = action->stage,
                          .microbatch = action->microbatch & G_MAXINT32 } };

  if (action->type < TORCH_N_COMPUTE)
    add_range (rank, name, start_ns, end_ns);
  if (ps_torch_is_send (action->type))
    span.post = PS_INSTRUCTION_SEND;
  else if (ps_torch_is_receive (action->type)) {
    span.post = PS_INSTRUCTION_RECEIVE;
    span.op.stage = (guint16)(backward ? action->stage + 1 : MAX (action->stage, 1) - 1);
  }
  if (action->type >= TORCH_SEND_F)
    g_array_append_val (span.post != 0 && !waits ? rank->posts : rank->waits, span);
}

void ps_rank_add_mark (PsRank *rank, gboolean update, gint64 start_ns, gint64 end_ns)
{
  PsSpan span = { .start_ns = start_ns, .end_ns = end_ns, .op = { .kind = PS_OP_O } };

  g_array_append_val (rank->marks, start_ns);
  if (update)
    g_array_append_val (rank->updates, span);
}

guint ps_rank_first_after (const PsRank *rank, gint64 time_ns)
{
  return ps_first_after (rank->ranges, offsetof (PsRankRange, start_ns), time_ns);
}

PsRankRange *ps_rank_range_at (const PsRank *rank, gint64 time_ns)
{
  guint after = ps_rank_first_after (rank, time_ns);
  PsRankRange *range = after > 0 ? &g_array_index (rank->ranges, PsRankRange, after - 1) : NULL;

  return range != NULL && time_ns < range->end_ns ? range : NULL;
}

guint ps_ranks_count_stages (GPtrArray *ranks)
{
  guint n = 1;

  for (guint r = 0; r < ranks->len; r++) {
    const GArray *ranges = ((const PsRank *)g_ptr_array_index (ranks, r))->ranges;

    for (guint i = 0; i < ranges->len; i++)
      for (guint k = 0; k < g_array_index (ranges, PsRankRange, i).n; k++)
        n = MAX (n, g_array_index (ranges, PsRankRange, i).ops[k].stage + 1U);
  }
  return n;
}

void ps_timeline_add_remark (PsTimeline *timeline, const char *remark)
{
  char *before = timeline->remark;

  if (remark == NULL)
    return;
  timeline->remark = before != NULL ? g_strconcat (before, "; ", remark, NULL) : g_strdup (remark);
  g_free (before);
}

/* Puts the ranges of each rank in order, and finds the stages and microbatches that their names do
 * not tell. */

static PsRankRange *range_at (const PsRank *rank, guint i)
{
  return &g_array_index (rank->ranges, PsRankRange, i);
}

static gboolean is_forward (const PsRank *rank, guint i)
{
  return range_at (rank, i)->ops[0].kind == PS_OP_F;
}

static int compare_ranges (gconstpointer a, gconstpointer b)
{
  const PsRankRange *x = a, *y = b;

  return x->start_ns != y->start_ns ? PS_COMPARE (x->start_ns, y->start_ns) : PS_COMPARE (y->end_ns, x->end_ns);
}

/* Sorts ranges and drops those inside another. */
static gboolean straighten (PsRank *rank, GError **error)
{
  guint kept = 0;
  PsRankRange *ranges = (PsRankRange *)(gpointer)rank->ranges->data;

  g_array_sort (rank->ranges, compare_ranges);
  for (guint i = 0; i < rank->ranges->len; i++) {
    if (kept > 0 && ranges[i].start_ns < ranges[kept - 1].end_ns) {
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

/* The first range that starts at or after the next mark. */
static guint iteration_end (const PsRank *rank, guint first, guint *mark)
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
typedef struct {
  guint forwards;
  guint backwards;
  guint lead; /* forwards before the first backward */
} Shape;

static Shape find_shape (const PsRank *rank, guint first, guint end)
{
  Shape shape = { 0 };

  for (guint i = first; i < end; i++) {
    shape.forwards += is_forward (rank, i);
    shape.backwards += !is_forward (rank, i);
    shape.lead += shape.backwards == 0;
  }
  return shape;
}

/* The shape of the rank's longest iteration. */
static Shape rank_shape (const PsRank *rank)
{
  Shape longest = { 0 };
  guint mark = 0;

  for (guint i = 0, end; i < rank->ranges->len; i = end) {
    end = iteration_end (rank, i, &mark);
    Shape shape = find_shape (rank, i, end);
    if (shape.forwards + shape.backwards > longest.forwards + longest.backwards)
      longest = shape;
  }
  return longest;
}

/* Stages of a rank. Megatron's interleaved 1F1B has 2 (p - 1 - r) + (v - 1) p + 1 forwards before the first backward on
 * rank r, 1F1B p - r, and GPipe all (megatron/core/pipeline_parallel/schedules.py). 0: the order is another one. */
static guint count_chunks (const Shape *shapes, guint p)
{
  const Shape *last = &shapes[p - 1];
  guint v = (last->lead + p - 1) / p;
  gboolean gpipe = TRUE, interleaved = last->lead % p == 1 % p;

  if (v == 0)
    return 0;
  interleaved &= last->forwards % v == 0;
  for (guint r = 0; r < p; r++) {
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

/* Numbers complete iterations and drops all others. */
static void number_rank (PsRank *rank, guint number, guint p, guint v, guint forwards)
{
  guint mark = 0, kept = 0;

  for (guint i = 0, end; i < rank->ranges->len; i = end) {
    guint counts[2] = { 0, 0 };

    end = iteration_end (rank, i, &mark);
    Shape shape = find_shape (rank, i, end);
    for (; shape.forwards == forwards && shape.backwards == forwards && i < end; i++) {
      PsRankRange range = *range_at (rank, i);
      guint count = counts[is_forward (rank, i)]++, within = count % (p * v);
      guint chunk = is_forward (rank, i) ? within / p : v - 1 - within / p;

      range.ops[0].stage = (guint16)(chunk * p + number);
      range.ops[0].microbatch = (v == 1 ? count : count / (p * v) * p + within % p) & G_MAXINT32;
      *range_at (rank, kept++) = range;
    }
  }
  g_array_set_size (rank->ranges, kept);
}

/* A send belongs to the op before it, a receive to the op after it. */
static gboolean find_op (const PsRank *rank, guint n_stages, PsSpan *span)
{
  gboolean forward = span->op.kind == PS_OP_F, send = span->post == PS_INSTRUCTION_SEND;
  guint at = ps_rank_first_after (rank, send ? span->start_ns : span->end_ns - 1);

  if (!send) {
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

static void number_spans (const PsRank *rank, GArray *spans, guint n_stages)
{
  guint kept = 0;

  for (guint i = 0; i < spans->len; i++) {
    PsSpan span = g_array_index (spans, PsSpan, i);

    if (find_op (rank, n_stages, &span))
      g_array_index (spans, PsSpan, kept++) = span;
  }
  g_array_set_size (spans, kept);
}

/* Ranks that have no mark get marks: between as many iterations of equal length as every rank can have had. A rank has
 * had at most as many as there are ranges after which it has done as many backwards as forwards. */
static gboolean mark_ranks (GPtrArray *ranks, GError **error)
{
  guint n = G_MAXUINT;

  for (guint r = 0; r < ranks->len; r++) {
    PsRank *rank = g_ptr_array_index (ranks, r);
    guint n_balanced = 0;
    gint open = 0;

    for (guint i = 0; i < rank->ranges->len; i++) {
      open += is_forward (rank, i) ? 1 : -1;
      n_balanced += open == 0;
    }
    n = MIN (n, MAX (n_balanced, rank->marks->len > 0));
    g_array_sort (rank->marks, ps_compare_int64);
    if (n == 0)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: has not one iteration with as many backwards as forwards",
                        rank->name);
  }
  for (guint r = 0; r < ranks->len; r++) {
    const PsRank *rank = g_ptr_array_index (ranks, r);
    guint length = MAX (rank->ranges->len / n, 1);
    gboolean marked = rank->marks->len > 0;

    for (guint i = length; !marked && i < rank->ranges->len; i += length)
      g_array_append_val (rank->marks, range_at (rank, i)->start_ns);
  }
  return TRUE;
}

static gboolean number_counted (GPtrArray *ranks, GError **error)
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
  for (guint r = 0; r < p; r++) {
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

gboolean ps_ranks_number (GPtrArray *ranks, PsRangeNaming naming, GError **error)
{
  for (guint r = 0; r < ranks->len; r++) {
    PsRank *rank = g_ptr_array_index (ranks, r);

    if (!straighten (rank, error))
      return FALSE;
    for (guint i = 0; naming == PS_RANGES_OF_RANK && i < rank->ranges->len; i++)
      range_at (rank, i)->ops[0].stage = (guint16)rank->number;
  }
  return naming != PS_RANGES_COUNTED || number_counted (ranks, error);
}

/* Brings the clocks of ranks together: no message arrives before it was sent. */

/* One op of an iteration; and the earliest time at which its message can have left, the latest at which its input had
 * come. */
typedef struct {
  const PsRankRange *range;
  guint rank;
  gint64 sent_ns;
  gint64 arrived_ns;
} Place;

/* Bounds of what is added to a rank's clock, by its messages with ranks that are aligned. */
typedef struct {
  gint64 least_ns;
  gint64 most_ns;
  gboolean aligned;
} Bounds;

static gpointer op_key (PsOp op)
{
  return GSIZE_TO_POINTER ((gsize)op.kind << 48 | (gsize)op.stage << 32 | op.microbatch);
}

/* The same for a message: whoever makes it, B or BW. */
static gpointer result_key (PsOp op)
{
  op.kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;
  return op_key (op);
}

/* Whether the range makes this message, or takes it. */
static gboolean has_message (const PsRankRange *range, PsOp message, gboolean takes, guint n_stages)
{
  for (guint k = 0; k < range->n; k++) {
    PsOp op = range->ops[k];

    if ((!takes || ps_op_input (op, n_stages, &op)) && result_key (op) == result_key (message))
      return TRUE;
  }
  return FALSE;
}

/* When the messages of each range left or came, as posts and waits tell: a message leaves after its post began, and has
 * come when the wait for it ends. Else when the range computes. */
static Place *place_ranges (const PsRank *rank, guint number, guint n_stages)
{
  Place *places = g_new (Place, rank->ranges->len);

  for (guint i = 0; i < rank->ranges->len; i++) {
    const PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);

    places[i] = (Place){ .range = range, .rank = number, .sent_ns = range->compute_end_ns };
    places[i].arrived_ns = range->wait_start_ns < range->wait_end_ns ? range->wait_end_ns : range->compute_start_ns;
  }
  for (guint i = 0; i < rank->posts->len; i++) {
    const PsSpan *post = &g_array_index (rank->posts, PsSpan, i);
    guint at = ps_rank_first_after (rank, post->start_ns);

    if (post->post == PS_INSTRUCTION_SEND && at > 0 && has_message (places[at - 1].range, post->op, FALSE, n_stages))
      places[at - 1].sent_ns = MAX (places[at - 1].sent_ns, post->start_ns);
  }
  for (guint i = 0; i < rank->waits->len; i++) {
    const PsSpan *wait = &g_array_index (rank->waits, PsSpan, i);
    guint at = ps_rank_first_after (rank, wait->end_ns - 1);

    if (wait->post != 0 && at < rank->ranges->len && has_message (places[at].range, wait->op, TRUE, n_stages))
      places[at].arrived_ns = wait->end_ns;
  }
  return places;
}

/* All ops of the iteration by key, of Place. */
static GHashTable *index_iteration (GPtrArray *ranks, GPtrArray *all, guint iteration)
{
  GHashTable *places = g_hash_table_new (NULL, NULL);

  for (guint r = 0; r < ranks->len; r++) {
    const PsRank *rank = g_ptr_array_index (ranks, r);
    guint first = g_array_index (rank->starts, guint, iteration);

    for (guint i = first; i < first + rank->n; i++) {
      Place *place = (Place *)g_ptr_array_index (all, r) + i;

      for (guint k = 0; k < place->range->n; k++)
        g_hash_table_insert (places, result_key (place->range->ops[k]), place);
    }
  }
  return places;
}

/* Every message between the rank, which is aligned, and one that is not narrows the bounds of that one. */
static void narrow (GHashTable *places, guint rank, guint n_stages, Bounds *bounds)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, places);
  while (g_hash_table_iter_next (&iter, NULL, &value)) {
    const Place *consumer = value;

    for (guint k = 0; k < consumer->range->n; k++) {
      PsOp op;

      if (!ps_op_input (consumer->range->ops[k], n_stages, &op))
        continue;
      const Place *producer = g_hash_table_lookup (places, result_key (op));
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

static void shift_spans (GArray *spans, gint64 ns)
{
  for (guint i = 0; i < spans->len; i++) {
    g_array_index (spans, PsSpan, i).start_ns += ns;
    g_array_index (spans, PsSpan, i).end_ns += ns;
  }
}

static void shift_rank (PsRank *rank, Place *places, gint64 ns)
{
  for (guint i = 0; i < rank->ranges->len; i++) {
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

static gboolean is_bound (const Bounds *bounds)
{
  return bounds->least_ns > G_MININT64 || bounds->most_ns < G_MAXINT64;
}

/* How far the clock must move: not at all within the bounds, else to their middle. With one bound, to it. */
static gint64 choose_shift (const Bounds *bounds)
{
  if (bounds->least_ns <= 0 && bounds->most_ns >= 0)
    return 0;
  return bounds->least_ns == G_MININT64  ? bounds->most_ns
         : bounds->most_ns == G_MAXINT64 ? bounds->least_ns
                                         : bounds->least_ns + (bounds->most_ns - bounds->least_ns) / 2;
}

/* The first rank that has messages with aligned ones, else the first that is not aligned; n: all are. */
static guint choose_next (const Bounds *bounds, guint n)
{
  guint next = n;

  for (guint r = n; r-- > 0;)
    if (!bounds[r].aligned && (next == n || is_bound (&bounds[r]) || !is_bound (&bounds[next])))
      next = r;
  return next;
}

/* Whether no two ranks were recorded at the same time by their clocks. */
static gboolean clocks_are_apart (GPtrArray *ranks)
{
  for (guint r = 1; r < ranks->len; r++)
    for (guint k = 0; k < r; k++) {
      const PsRank *a = g_ptr_array_index (ranks, r), *b = g_ptr_array_index (ranks, k);

      if (range_at (a, 0)->start_ns < range_at (b, b->ranges->len - 1)->end_ns
          && range_at (b, 0)->start_ns < range_at (a, a->ranges->len - 1)->end_ns)
        return FALSE;
    }
  return ranks->len > 1;
}

/* The mean time from one range of a rank to the next. */
static gint64 pace_ns (const PsRank *rank)
{
  return (range_at (rank, rank->ranges->len - 1)->end_ns - range_at (rank, 0)->start_ns) / rank->ranges->len;
}

/* Shifts the clocks of ranks so that no message comes before it was sent. Messages of both directions give bounds, of
 * which the middle is taken; a clock within its bounds stays. Returns by how much the bounds of a rank contradict each
 * other; 0: they do not. */
static gint64 ranks_align (GPtrArray *ranks)
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
  for (guint r = 0; r < ranks->len; r = choose_next (bounds, ranks->len)) {
    bounds[r].aligned = TRUE;
    shift_rank (g_ptr_array_index (ranks, r), g_ptr_array_index (all, r), choose_shift (&bounds[r]));
    if (bounds[r].least_ns > bounds[r].most_ns)
      worst_ns = MAX (worst_ns, bounds[r].least_ns - bounds[r].most_ns);
    for (guint k = 0; k < places->len; k++)
      narrow (g_ptr_array_index (places, k), r, n_stages, bounds);
  }
  return worst_ns;
}

/* Makes the timeline of one iteration of ranks. */

static const PsRankRange *iteration_ranges (const PsRank *rank, guint iteration)
{
  return &g_array_index (rank->ranges, PsRankRange, g_array_index (rank->starts, guint, iteration));
}

static gint64 iteration_start (GPtrArray *ranks, guint iteration, gint64 *duration_ns)
{
  gint64 start_ns = G_MAXINT64, end_ns = G_MININT64;

  for (guint r = 0; r < ranks->len; r++) {
    const PsRank *rank = g_ptr_array_index (ranks, r);
    const PsRankRange *ranges = iteration_ranges (rank, iteration);

    start_ns = MIN (start_ns, ranges[0].compute_start_ns);
    end_ns = MAX (end_ns, ranges[rank->n - 1].compute_end_ns);
  }
  *duration_ns = end_ns - start_ns;
  return start_ns;
}

static int compare_stages (gconstpointer a, gconstpointer b)
{
  return (int)*(const guint16 *)a - (int)*(const guint16 *)b;
}

/* The stages of a rank, each once, in model order. */
static GArray *rank_stages (const PsRank *rank, const PsRankRange *ranges)
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
static guint16 *find_devices (GPtrArray *ranks, guint n_stages, guint iteration)
{
  guint16 *devices = g_new (guint16, n_stages);

  memset (devices, 0xff, n_stages * sizeof *devices);
  for (guint r = 0; r < ranks->len; r++) {
    const PsRank *rank = g_ptr_array_index (ranks, r);
    const PsRankRange *ranges = iteration_ranges (rank, iteration);

    for (guint i = 0; i < rank->n; i++)
      for (guint k = 0; k < ranges[i].n; k++)
        devices[ranges[i].ops[k].stage] = (guint16)r;
  }
  return devices;
}

static void append_ops (PsTimeline *timeline, const PsRank *rank, guint device, guint iteration)
{
  const PsRankRange *ranges = iteration_ranges (rank, iteration);
  g_autoptr (GArray) stages = rank_stages (rank, ranges);

  for (guint i = 0; i < rank->n; i++)
    for (guint k = 0; k < ranges[i].n; k++) {
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
static void append_range_waits (PsTimeline *timeline, const PsRank *rank, guint device, guint iteration,
                                const guint16 *devices)
{
  const PsRankRange *ranges = iteration_ranges (rank, iteration);

  for (guint i = 0; i < rank->n; i++)
    for (guint k = 0; k < ranges[i].n; k++) {
      PsSpan span = { .start_ns = ranges[i].wait_start_ns, .end_ns = ranges[i].wait_end_ns, .device = (guint16)device };

      if (span.start_ns >= span.end_ns || !ps_op_input (ranges[i].ops[k], timeline->n_stages, &span.op)
          || devices[span.op.stage] == device)
        continue;
      g_array_append_val (timeline->waits, span);
      break;
    }
}

/* Posts and waits between the ranges before and after the iteration. A receive may come before the first range of its
 * iteration, everything else only after it. */
static void append_spans (GArray *spans, const GArray *all, const PsRank *rank, guint device, guint iteration)
{
  const PsRankRange *ranges = (const PsRankRange *)(gconstpointer)rank->ranges->data;
  guint first = g_array_index (rank->starts, guint, iteration), next = first + rank->n;
  gint64 last_ns = first > 0 ? ranges[first - 1].end_ns - 1 : G_MININT64;
  gint64 next_ns = next < rank->ranges->len ? ranges[next].start_ns : G_MAXINT64;

  for (guint i = ps_first_after (all, offsetof (PsSpan, start_ns), last_ns); i < all->len; i++) {
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
static void shift (PsTimeline *timeline, GArray *spans, gint64 start_ns)
{
  guint kept = 0;
  PsSpan *span = (PsSpan *)(gpointer)spans->data;

  for (guint i = 0; i < spans->len; i++) {
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

/* Spans of posts, of PsSpan, by the message and its end. Free with g_hash_table_unref. */
static gpointer post_key (PsOp op, guint post)
{
  return GSIZE_TO_POINTER (GPOINTER_TO_SIZE (op_key (op)) | (gsize)post << 56);
}

static GHashTable *index_posts (const GArray *posts)
{
  GHashTable *index = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < posts->len; i++) {
    PsSpan *post = &g_array_index (posts, PsSpan, i);

    g_hash_table_insert (index, post_key (post->op, post->post), post);
  }
  return index;
}

/* Transfers whose times are known. A device that waited before the message was sent knows when it arrived; the transfer
 * began when both its ends had been posted. */
static void transfers_by_waits (PsTimeline *timeline)
{
  g_autoptr (GHashTable) posts = index_posts (timeline->posts);

  for (guint i = 0; i < timeline->waits->len; i++) {
    PsSpan transfer = g_array_index (timeline->waits, PsSpan, i);
    const PsSpan *send = g_hash_table_lookup (posts, post_key (transfer.op, PS_INSTRUCTION_SEND));
    const PsSpan *receive = g_hash_table_lookup (posts, post_key (transfer.op, PS_INSTRUCTION_RECEIVE));

    if (send == NULL || send->device == transfer.device || send->start_ns < transfer.start_ns)
      continue;
    transfer.start_ns = receive != NULL ? MAX (send->start_ns, receive->start_ns) : send->start_ns;
    transfer.peer = transfer.device;
    transfer.device = send->device;
    if (transfer.start_ns <= transfer.end_ns)
      g_array_append_val (timeline->transfers, transfer);
  }
}

/* Transfers both of whose ends are known: the end that came first waited for the other. */
static void transfers_by_links (PsTimeline *timeline, const GArray *links)
{
  g_autoptr (GHashTable) ends = index_posts (links);

  for (guint i = 0; i < links->len; i++) {
    PsSpan transfer = g_array_index (links, PsSpan, i);
    const PsSpan *send = g_hash_table_lookup (ends, post_key (transfer.op, PS_INSTRUCTION_SEND));

    if (transfer.post != PS_INSTRUCTION_RECEIVE || send == NULL || send->device == transfer.device)
      continue;
    transfer.start_ns = MIN (MAX (transfer.start_ns, send->start_ns), transfer.end_ns);
    transfer.peer = transfer.device;
    transfer.device = send->device;
    transfer.post = 0;
    g_array_append_val (timeline->transfers, transfer);
  }
}

/* The updates of the weights after the iteration: O of each stage, in equal parts. Returns their time together. */
static gint64 append_updates (PsTimeline *timeline, const PsRank *rank, guint device, guint iteration)
{
  g_autoptr (GArray) updates = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  const PsRankRange *ranges = iteration_ranges (rank, iteration);
  g_autoptr (GArray) stages = rank_stages (rank, ranges);
  gint64 start_ns = 0, end_ns = 0, total_ns = 0;

  append_spans (updates, rank->updates, rank, device, iteration);
  for (guint i = 0; i < updates->len; i++) {
    const PsSpan *update = &g_array_index (updates, PsSpan, i);

    if (update->start_ns < MAX (end_ns, ranges[rank->n - 1].compute_end_ns))
      continue;
    start_ns = total_ns == 0 ? update->start_ns : start_ns;
    end_ns = update->end_ns;
    total_ns += end_ns - update->start_ns;
  }
  for (guint k = 0; total_ns > 0 && k < stages->len; k++) {
    PsSpan span = { .start_ns = start_ns + total_ns * k / stages->len,
                    .end_ns = start_ns + total_ns * (k + 1) / stages->len,
                    .op = { .kind = PS_OP_O, .stage = g_array_index (stages, guint16, k) },
                    .device = (guint16)device,
                    .chunk = (guint16)k };

    g_array_append_val (timeline->ops, span);
  }
  return total_ns;
}

/* One of them; posts, waits, links and updates of the ranks are in order. The iteration's time is that from its first
 * op's start to its last op's end, and the longest update. */
static PsTimeline *ranks_make_timeline (const char *where, GPtrArray *ranks, guint iteration, gboolean apart)
{
  g_autofree char *name = g_path_get_basename (where);
  g_autoptr (GArray) links = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  PsTimeline *timeline = ps_timeline_new (PS_ORIGIN_MEASURED, name, ranks->len, 1, 1);
  gint64 start_ns = iteration_start (ranks, iteration, &timeline->iteration_ns), update_ns = 0;

  timeline->apart = apart;
  for (guint r = 0; r < ranks->len; r++) {
    append_ops (timeline, g_ptr_array_index (ranks, r), r, iteration);
    gint64 ns = append_updates (timeline, g_ptr_array_index (ranks, r), r, iteration);
    update_ns = MAX (update_ns, ns);
  }
  timeline->iteration_ns += update_ns;
  shift (timeline, timeline->ops, start_ns);
  g_autofree guint16 *devices = find_devices (ranks, timeline->n_stages, iteration);
  for (guint r = 0; r < ranks->len; r++) {
    const PsRank *rank = g_ptr_array_index (ranks, r);

    append_spans (timeline->posts, rank->posts, rank, r, iteration);
    if (apart)
      continue;
    append_range_waits (timeline, rank, r, iteration, devices);
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

/* Cuts the ranges of all ranks into iterations. */

/* The iteration that is being cut. */
typedef struct {
  GHashTable *seen;           /* keys of its ops */
  gint32 last[PS_MAX_STAGES]; /* microbatch of the last F of each stage; -1: none */
} Cut;

/* Notes the ops of a range; FALSE: one of them was there already. */
static gboolean note_ops (GHashTable *seen, const PsRankRange *range)
{
  for (guint i = 0; i < range->n; i++)
    if (!g_hash_table_add (seen, op_key (range->ops[i])))
      return FALSE;
  return TRUE;
}

static void begin_iteration (Cut *cut)
{
  g_hash_table_remove_all (cut->seen);
  memset (cut->last, 0xff, sizeof cut->last);
}

/* Whether the range cannot belong to the iteration although its ops are new: an F of an earlier microbatch than the
 * last one, or a backward without its F. */
static gboolean is_foreign (Cut *cut, const PsRankRange *range)
{
  for (guint i = 0; i < range->n; i++) {
    PsOp op = range->ops[i];
    gpointer forward = op_key ((PsOp){ .kind = PS_OP_F, .stage = op.stage, .microbatch = op.microbatch });

    if (op.kind == PS_OP_F ? cut->last[op.stage] > (gint32)op.microbatch : !g_hash_table_contains (cut->seen, forward))
      return TRUE;
    if (op.kind == PS_OP_F)
      cut->last[op.stage] = (gint32)op.microbatch;
  }
  return FALSE;
}

/* First ranges of all iterations, then the number of ranges. strict: recording may have begun within an iteration,
 * which is cut apart at every backward without its F; microbatches are in order. */
static GArray *find_starts (const PsRank *rank, gboolean strict)
{
  g_autofree Cut *cut = g_new0 (Cut, 1);
  GArray *starts = g_array_new (FALSE, FALSE, sizeof (guint));
  guint i = 0;

  cut->seen = g_hash_table_new (NULL, NULL);
  begin_iteration (cut);
  g_array_append_val (starts, i);
  for (; i < rank->ranges->len; i++) {
    const PsRankRange *range = &g_array_index (rank->ranges, PsRankRange, i);
    guint start = i;

    if (note_ops (cut->seen, range) && !(strict && is_foreign (cut, range)))
      continue;
    begin_iteration (cut);
    note_ops (cut->seen, range);
    if (strict && is_foreign (cut, range)) {
      begin_iteration (cut);
      start++;
    }
    g_array_append_val (starts, start);
  }
  g_array_append_val (starts, i);
  g_hash_table_unref (cut->seen);
  return starts;
}

static guint longest (const GArray *starts)
{
  guint n = 0;

  for (guint i = 0; i + 1 < starts->len; i++)
    n = MAX (n, g_array_index (starts, guint, i + 1) - g_array_index (starts, guint, i));
  return n;
}

/* Keeps the iterations with most ranges, which are complete: recording may begin and end within an iteration. */
static gboolean cut_iterations (GPtrArray *ranks, GError **error)
{
  const PsRank *first = g_ptr_array_index (ranks, 0);

  for (guint r = 0; r < ranks->len; r++) {
    PsRank *rank = g_ptr_array_index (ranks, r);
    g_autoptr (GArray) loose = find_starts (rank, FALSE), strict = find_starts (rank, TRUE);
    const GArray *starts = longest (strict) == longest (loose) ? strict : loose;

    rank->n = longest (loose);
    for (guint i = 0; i + 1 < starts->len; i++)
      if (g_array_index (starts, guint, i + 1) - g_array_index (starts, guint, i) == rank->n)
        g_array_append_val (rank->starts, g_array_index (starts, guint, i));
    if (rank->starts->len != first->starts->len)
      return ps_refuse (error, PS_ERROR_INPUT,
                        "%s: rank %u has %u complete iterations, rank 0 has %u; record the same steps on all ranks",
                        rank->name, r, rank->starts->len, first->starts->len);
  }
  return TRUE;
}

/* The first of the ranks that do the same ops, by data or tensor parallelism, counts. Returns the number of others. */
static guint drop_replicas (GPtrArray *ranks)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  guint n = ranks->len, kept = 0;

  for (guint r = 0; r < n; r++) {
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

GPtrArray *ps_ranks_to_timelines (const char *where, const char *source, GPtrArray *ranks, GError **error)
{
  g_autofree char *replicas = NULL, *remark = NULL;
  guint n, n_replicas;

  if (!cut_iterations (ranks, error))
    return NULL;
  n_replicas = drop_replicas (ranks);
  if (n_replicas > 0)
    replicas = g_strdup_printf ("%s: %u ranks do the same ops as others and are left out", where, n_replicas);
  gboolean apart = clocks_are_apart (ranks);
  gint64 contradiction_ns = ranks_align (ranks);
  apart = apart && contradiction_ns > pace_ns (g_ptr_array_index (ranks, 0)) / 2;
  if (contradiction_ns > 0)
    remark = g_strdup_printf ("%s: the ranks' clocks contradict their messages by up to %" G_GINT64_FORMAT
                              " ns, however they are shifted; times between ranks are as uncertain",
                              where, contradiction_ns);
  for (guint r = 0; r < ranks->len; r++) {
    const PsRank *rank = g_ptr_array_index (ranks, r);

    apart = apart || rank->fake;
    GArray *const all[] = { rank->posts, rank->waits, rank->links, rank->updates };

    for (guint i = 0; i < G_N_ELEMENTS (all); i++)
      g_array_sort (all[i], compare_starts);
  }
  n = ((const PsRank *)g_ptr_array_index (ranks, 0))->starts->len;
  GPtrArray *timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  for (guint k = 0; k < n; k++) {
    PsTimeline *timeline = ranks_make_timeline (where, ranks, k, apart);

    g_free (timeline->source);
    timeline->source = g_strdup_printf ("%s, iteration %u of %u", source, k + 1, n);
    ps_timeline_add_remark (timeline, replicas);
    ps_timeline_add_remark (timeline, remark);
    g_ptr_array_add (timelines, timeline);
  }
  return timelines;
}

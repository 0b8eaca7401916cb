/* lengths.c - microbatches of different lengths: their costs, and the strict reader of the file of --lengths; and
 * slices of equal work. */
#include "base/names.h"
#include "base/text.h"

#include <pipesim/costs.h>
#include <pipesim/work.h>

#include <math.h>
#include <string.h>

PS_DEFINE_NAMES (PsMicrobatchOrder, ps_microbatch_order, "given", "ascending", "descending", "best")

static double ratio (gint64 from, gint64 to)
{
  return from > 0 ? (double)to / (double)from : 1;
}

static double ratio_of (const PsCosts *from, const PsCosts *to, PsOpKind kind, guint stage)
{
  return ratio (ps_costs_op (from, kind, stage)->duration_ns, ps_costs_op (to, kind, stage)->duration_ns);
}

PsLengthFactors ps_length_factors (const PsCosts *from, const PsCosts *to, guint stage)
{
  guint i = ps_transfer_forward (from, stage);

  return (PsLengthFactors){ .f = ratio_of (from, to, PS_OP_F, stage),
                            .b = ratio_of (from, to, PS_OP_B, stage),
                            .w = ratio_of (from, to, PS_OP_W, stage),
                            .c = ratio (from->transfer_ns[i], to->transfer_ns[i]),
                            .act = ratio (ps_costs_act_bytes (from, stage), ps_costs_act_bytes (to, stage)),
                            .msg = ratio (from->message_bytes[i], to->message_bytes[i]) };
}

static gint64 scale (gint64 value, double factor)
{
  return value < 0 || factor == 1 ? value : llrint (MIN ((double)value * factor, (double)PS_MAX_TIME_NS));
}

static gint64 sum_of (const PsCosts *costs, PsOpKind a, PsOpKind b, guint stage)
{
  return ps_costs_op (costs, a, stage)->duration_ns + ps_costs_op (costs, b, stage)->duration_ns;
}

static void scale_stage (PsCosts *scaled, const PsCosts *costs, guint stage, const PsLengthFactors *factors)
{
  const double by[] = { factors->f, factors->b, factors->w, 1, factors->f };
  PsStageCost *cost = &scaled->stage[stage];

  for (guint kind = 0; kind < PS_OP_O; kind++) {
    PsOpCost *op = ps_costs_op (scaled, (PsOpKind)kind, stage);

    op->duration_ns = scale (op->duration_ns, by[kind]);
    op->take_bytes = scale (op->take_bytes, factors->act);
    op->give_bytes = op->give_bytes < 0 ? -scale (-op->give_bytes, factors->act) : scale (op->give_bytes, factors->act);
  }
  ps_costs_op (scaled, PS_OP_BW, stage)->duration_ns
      = scale (ps_costs_op (costs, PS_OP_BW, stage)->duration_ns,
               ratio (sum_of (costs, PS_OP_B, PS_OP_W, stage), sum_of (scaled, PS_OP_B, PS_OP_W, stage)));
  cost->pair_ns = scale (cost->pair_ns,
                         ratio (sum_of (costs, PS_OP_F, PS_OP_BW, stage), sum_of (scaled, PS_OP_F, PS_OP_BW, stage)));
  cost->tensor_ns = scale (cost->tensor_ns, factors->f);
  cost->host_ns = scale (cost->host_ns, factors->act);
  ps_costs_balance (scaled, costs, stage);
}

PsCosts *ps_costs_scale (const PsCosts *costs, const PsLengthFactors *factors)
{
  PsCosts *scaled = ps_costs_copy (costs);

  for (guint stage = 0; stage < costs->n_stages; stage++) {
    const guint transfers[]
        = { ps_transfer_forward (costs, stage), ps_transfer_backward (costs, (stage + 1) % costs->n_stages) };

    scale_stage (scaled, costs, stage, &factors[stage]);
    for (guint i = 0; i < G_N_ELEMENTS (transfers); i++) {
      scaled->transfer_ns[transfers[i]] = scale (costs->transfer_ns[transfers[i]], factors[stage].c);
      scaled->message_bytes[transfers[i]] = scale (costs->message_bytes[transfers[i]], factors[stage].msg);
    }
  }
  return scaled;
}

PsCosts *ps_costs_join (PsCosts *const *costs, guint n)
{
  PsCosts *joined = ps_costs_copy (costs[0]);
  gsize n_stages = joined->n_stages;

  g_assert (joined->n_lengths == 1 && joined->host_time == NULL);
  if (n == 1)
    return joined;
  joined->n_lengths = n;
  joined->op = g_renew (PsOpCost, joined->op, PS_N_OP_KINDS * n * n_stages);
  joined->transfer_ns = g_renew (gint64, joined->transfer_ns, 1 + 2 * n * n_stages);
  joined->message_bytes = g_renew (gint64, joined->message_bytes, 1 + 2 * n * n_stages);
  joined->pairs_ns = g_new (gint64, n * n_stages);
  for (gsize k = 0; k < n; k++) {
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      memcpy (&joined->op[(kind * n + k) * n_stages], &costs[k]->op[kind * n_stages], n_stages * sizeof *joined->op);
    memcpy (&joined->transfer_ns[1 + 2 * k * n_stages], &costs[k]->transfer_ns[1], 2 * n_stages * sizeof (gint64));
    memcpy (&joined->message_bytes[1 + 2 * k * n_stages], &costs[k]->message_bytes[1], 2 * n_stages * sizeof (gint64));
    for (gsize stage = 0; stage < n_stages; stage++)
      joined->pairs_ns[k * n_stages + stage] = costs[k]->stage[stage].pair_ns;
  }
  return joined;
}

/* Time that a pair saves whose microbatches both have that length. */
static gint64 saved_ns (const PsCosts *costs, guint length, guint stage)
{
  guint n = costs->n_lengths;

  return costs->op[ps_op_index (costs->n_stages, n, PS_OP_F, length, stage)].duration_ns
         + costs->op[ps_op_index (costs->n_stages, n, PS_OP_BW, length, stage)].duration_ns
         - costs->pairs_ns[length * costs->n_stages + stage];
}

/* Two lengths, a of the F and b of the backward. */
static gint64 uneven_pair_ns (const PsCosts *costs, guint a, guint b, guint stage)
{
  guint n = costs->n_lengths;

  return costs->op[ps_op_index (costs->n_stages, n, PS_OP_F, a, stage)].duration_ns
         + costs->op[ps_op_index (costs->n_stages, n, PS_OP_BW, b, stage)].duration_ns
         - MIN (saved_ns (costs, a, stage), saved_ns (costs, b, stage));
}

/* What a pair leaves to an op of its own: W, where it has B and a modelled pair has both. */
static gint64 left_ns (const PsCosts *costs, guint backward)
{
  const guint kind = costs->n_lengths * costs->n_stages; /* from one kind to the next */

  return costs->time_origin == PS_ORIGIN_MODELLED && backward / kind == PS_OP_B
             ? costs->op[backward + (PS_OP_W - PS_OP_B) * kind].duration_ns
             : 0;
}

/* F is the first kind, so it has the lower index. */
gint64 ps_costs_pair_ns (const PsCosts *costs, guint a, guint b)
{
  guint forward = MIN (a, b), backward = MAX (a, b), n_stages = costs->n_stages;

  if (forward / n_stages >= costs->n_lengths || costs->stage[forward % n_stages].pair_ns < 0)
    return costs->op[a].duration_ns + costs->op[b].duration_ns;
  gint64 pair_ns
      = costs->pairs_ns == NULL
            ? costs->stage[forward].pair_ns
            : uneven_pair_ns (costs, forward / n_stages, backward / n_stages % costs->n_lengths, forward % n_stages);
  gint64 left = left_ns (costs, backward);
  return left == 0 ? pair_ns : MAX (pair_ns - left, MAX (costs->op[a].duration_ns, costs->op[b].duration_ns));
}

/* What one entry of costs without lengths is made of: n of them, `next` apart. */
typedef gint64 (*Reduce) (const gint64 *entry, gsize next, guint n, gconstpointer data);

/* Costs of microbatches that are alike: the times, each reduced from those of all lengths. They have no bytes. */
static PsCosts *reduce_lengths (const PsCosts *costs, Reduce reduce, gconstpointer data)
{
  guint n = costs->n_lengths, n_stages = costs->n_stages;
  PsCosts *alike = ps_costs_new (n_stages);

  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++)
    alike->op[i].duration_ns = reduce (&costs->op[ps_op_index (n_stages, n, i / n_stages, 0, i % n_stages)].duration_ns,
                                       n_stages * (sizeof *costs->op / sizeof (gint64)), n, data);
  for (guint i = 1; i <= 2 * n_stages; i++)
    alike->transfer_ns[i] = reduce (&costs->transfer_ns[i], 2 * (gsize)n_stages, n, data);
  for (guint stage = 0; stage < n_stages; stage++)
    alike->stage[stage].pair_ns
        = costs->pairs_ns != NULL ? reduce (&costs->pairs_ns[stage], n_stages, n, data) : costs->stage[stage].pair_ns;
  return alike;
}

static gint64 nth (const gint64 *entry, gsize next, G_GNUC_UNUSED guint n, gconstpointer length)
{
  return entry[*(const guint *)length * next];
}

PsCosts *ps_costs_of_length (const PsCosts *costs, guint length)
{
  return reduce_lengths (costs, nth, &length);
}

static gint64 average (const gint64 *entry, gsize next, G_GNUC_UNUSED guint n, gconstpointer data)
{
  const PsLengths *lengths = data;
  double sum = 0;

  for (guint i = 0; i < lengths->n; i++)
    sum += (double)entry[lengths->of[i] * next];
  return llrint (sum / lengths->n);
}

/* The op of the length whose F keeps most. */
static const PsOpCost *largest_op (const PsCosts *costs, guint kind, guint stage)
{
  guint largest = 0, n = costs->n_lengths;
  gint64 most = G_MININT64;

  for (guint k = 0; k < n; k++) {
    const PsOpCost *op = &costs->op[ps_op_index (costs->n_stages, n, PS_OP_F, k, stage)];

    largest = op->take_bytes - op->give_bytes > most ? k : largest;
    most = MAX (most, op->take_bytes - op->give_bytes);
  }
  return &costs->op[ps_op_index (costs->n_stages, n, kind, largest, stage)];
}

PsCosts *ps_costs_average (const PsCosts *costs, const PsLengths *lengths)
{
  guint n_stages = costs->n_stages;
  PsCosts *alike = reduce_lengths (costs, average, lengths);

  for (guint stage = 0; stage < n_stages; stage++) {
    gint64 pair_ns = alike->stage[stage].pair_ns;

    alike->stage[stage] = costs->stage[stage];
    alike->stage[stage].pair_ns = pair_ns;
  }
  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++) {
    const PsOpCost *op = largest_op (costs, i / n_stages, i % n_stages);

    alike->op[i].take_bytes = op->take_bytes;
    alike->op[i].give_bytes = op->give_bytes;
  }
  for (guint i = 1; i <= 2 * n_stages; i++)
    for (guint k = 0; k < costs->n_lengths; k++)
      alike->message_bytes[i] = MAX (alike->message_bytes[i], costs->message_bytes[2 * k * n_stages + i]);
  return alike;
}

static gint64 least (const gint64 *entry, gsize next, guint n, G_GNUC_UNUSED gconstpointer data)
{
  gint64 value = *entry;

  for (guint k = 1; k < n; k++)
    value = MIN (value, entry[k * next]);
  return value;
}

PsCosts *ps_costs_least (const PsCosts *costs)
{
  PsCosts *alike = reduce_lengths (costs, least, NULL);

  for (guint stage = 0; stage < costs->n_stages && costs->pairs_ns != NULL; stage++)
    if (costs->stage[stage].pair_ns >= 0) {
      gint64 *pair_ns = &alike->stage[stage].pair_ns;

      *pair_ns = G_MAXINT64;
      for (guint i = 0; i < costs->n_lengths * costs->n_lengths; i++)
        *pair_ns = MIN (*pair_ns, uneven_pair_ns (costs, i / costs->n_lengths, i % costs->n_lengths, stage));
      *pair_ns = MAX (*pair_ns, 0);
    }
  return alike;
}

/* The file. */

#define MAX_LENGTH ((gsize)1 << 24) /* bytes of a file */

/* The columns; those of factors are in the order of PsLengthFactors. */
enum { TOKENS, IMAGES, FACTOR, F, B, W, C, ACT, MSG, N_COLUMNS };

static const char *const names[N_COLUMNS] = { "tokens", "images", "factor", "f", "b", "w", "c", "act", "msg" };

typedef struct {
  const char *where;
  guint line;
  guint n_fields; /* 0: the header is still to come */
  guint column[N_COLUMNS];
  gboolean has[N_COLUMNS];
  GArray *of;     /* guint16 */
  GArray *length; /* PsLength */
} Reader;

static void reader_clear (Reader *reader)
{
  g_array_unref (reader->of);
  g_array_unref (reader->length);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Reader, reader_clear)

static char *place (const Reader *reader)
{
  return g_strdup_printf ("%s:%u", reader->where, reader->line);
}

static gboolean read_header (Reader *reader, char **fields, GError **error)
{
  for (guint i = 0; fields[i] != NULL; i++) {
    g_autofree char *quoted = ps_text_quote (fields[i]);
    guint column = 0;

    while (column < N_COLUMNS && !g_str_equal (g_strstrip (fields[i]), names[column]))
      column++;
    if (column == N_COLUMNS)
      return ps_refuse_at (
          place (reader), error,
          "unknown column %s; the first line is tokens, images or both, or some of factor,f,b,w,c,act,msg", quoted);
    if (reader->has[column])
      return ps_refuse_at (place (reader), error, "column %s appears twice", quoted);
    reader->has[column] = TRUE;
    reader->column[i] = column;
    reader->n_fields = i + 1;
  }
  if (reader->n_fields > reader->has[TOKENS] + (guint)reader->has[IMAGES]
      && (reader->has[TOKENS] || reader->has[IMAGES]))
    return ps_refuse_at (place (reader), error, "tokens and images stand without factors, which follow from them");
  return TRUE;
}

static gboolean read_value (const Reader *reader, guint column, const char *text, PsLength *length, double *factors,
                            GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s:%u: %s", reader->where, reader->line, names[column]);
  g_autofree char *quoted = ps_text_quote (text), *printable = g_strndup (quoted + 1, strlen (quoted) - 2);
  gint64 count;

  if (column > IMAGES)
    return ps_parse_number (where, printable, PS_MIN_LENGTH_FACTOR, PS_MAX_LENGTH_FACTOR, &factors[column], error)
           || ps_text_blame_input (error);
  if (!ps_parse_integer (where, printable, column == TOKENS, PS_MAX_SEQUENCE, &count, error))
    return ps_text_blame_input (error);
  if (column == TOKENS)
    length->tokens = (guint)count;
  else
    length->images = (int)count;
  return TRUE;
}

/* Adds a microbatch, whose length may be there already. */
static void append (Reader *reader, const PsLength *length)
{
  guint16 i = 0;

  while (i < reader->length->len && memcmp (&g_array_index (reader->length, PsLength, i), length, sizeof *length) != 0)
    i++;
  if (i == reader->length->len)
    g_array_append_val (reader->length, *length);
  g_array_append_val (reader->of, i);
}

static gboolean read_fields (Reader *reader, char **fields, GError **error)
{
  double factors[N_COLUMNS] = { 0 };
  PsLength length;

  memset (&length, 0, sizeof length);
  length.images = -1;
  if (g_strv_length (fields) != reader->n_fields)
    return ps_refuse_at (place (reader), error, "%u fields; the first line has %u", g_strv_length (fields),
                         reader->n_fields);
  if (reader->of->len == PS_MAX_LENGTHS)
    return ps_refuse_at (place (reader), error, "more than %u microbatches", PS_MAX_LENGTHS);
  for (guint i = 0; i < reader->n_fields; i++)
    if (!read_value (reader, reader->column[i], g_strstrip (fields[i]), &length, factors, error))
      return FALSE;
  if (!reader->has[FACTOR])
    factors[FACTOR] = 1;
  for (guint i = F; i < N_COLUMNS; i++)
    if (!reader->has[i])
      factors[i] = factors[FACTOR];
  length.factors = (PsLengthFactors){ factors[F], factors[B], factors[W], factors[C], factors[ACT], factors[MSG] };
  append (reader, &length);
  return TRUE;
}

PsLengths *ps_lengths_parse (const char *where, const char *text, gsize size, GError **error)
{
  g_auto (Reader) reader = { .where = where,
                             .of = g_array_new (FALSE, FALSE, sizeof (guint16)),
                             .length = g_array_new (FALSE, FALSE, sizeof (PsLength)) };

  if (!ps_text_check (where, text, size, MAX_LENGTH, error))
    return NULL;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++) {
    reader.line = i + 1;
    if (*g_strstrip (lines[i]) == '\0' || lines[i][0] == '#')
      continue;
    g_auto (GStrv) fields = g_strsplit (lines[i], ",", -1);
    if (!(reader.n_fields == 0 ? read_header : read_fields) (&reader, fields, error))
      return NULL;
  }
  if (reader.of->len == 0) {
    ps_refuse_at (g_strdup (where), error, "no microbatches; give each a line after the names of the columns");
    return NULL;
  }
  PsLengths *lengths = g_new0 (PsLengths, 1);
  lengths->n = reader.of->len;
  lengths->n_lengths = reader.length->len;
  lengths->of = g_memdup2 (reader.of->data, lengths->n * sizeof *lengths->of);
  lengths->length = g_memdup2 (reader.length->data, lengths->n_lengths * sizeof *lengths->length);
  return lengths;
}

PsLengths *ps_lengths_read (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize size;

  return ps_read_file (path, &text, &size, error) ? ps_lengths_parse (path, text, size, error) : NULL;
}

void ps_lengths_free (PsLengths *lengths)
{
  if (lengths == NULL)
    return;
  g_free (lengths->of);
  g_free (lengths->length);
  g_free (lengths);
}

/* The F of all layers for a slice. */
static gint64 layers_ns (const PsModel *model, const PsCluster *cluster, const guint *tokens, guint n_slices,
                         guint slice)
{
  const PsStageShape shape = { .n_layers = model->layers };
  PsModel part = *model;
  PsWork work;

  ps_model_slice (&part, tokens, n_slices, slice);
  ps_work_stage (&part, &shape, PS_OP_F, cluster->tensor, &work);
  return ps_work_ns (&work, cluster, ps_tensor_stage_ns (&part, &shape, cluster, PS_OP_F));
}

/* Rounds ends of slices, in tokens, to multiples of unit, and makes each slice a unit long at least. */
static void round_ends (const double *end, guint n_slices, guint unit, guint sequence, guint *tokens)
{
  guint last = sequence / unit, before = 0;

  for (guint k = 0; k < n_slices; k++) {
    guint at = k + 1 < n_slices ? CLAMP ((guint)llrint (end[k] / unit), before + 1, last - (n_slices - 1 - k)) : last;

    tokens[k] = (at - before) * unit;
    before = at;
  }
  tokens[n_slices - 1] += sequence % unit;
}

/* Sets the time of each slice, and how many times as long as the shortest the longest takes. Returns what a pipeline
 * takes that waits n_waits times for the longest. */
static double time_slices (const PsModel *model, const PsCluster *cluster, const guint *tokens, guint n_slices,
                           double n_waits, double *ns, double *spread)
{
  double sum = 0, longest = 0, shortest = G_MAXDOUBLE;

  for (guint k = 0; k < n_slices; k++) {
    ns[k] = (double)MAX (layers_ns (model, cluster, tokens, n_slices, k), 1);
    sum += ns[k];
    longest = MAX (longest, ns[k]);
    shortest = MIN (shortest, ns[k]);
  }
  *spread = longest / shortest;
  return sum + n_waits * longest;
}

#define EVEN_ROUNDS 12
#define EVEN 1.01
#define EVEN_ENOUGH 1.003 /* a more even cut may take so much more time than the fastest */
#define LARGEST_UNIT 512  /* tokens of a GPU; products (tiles of work.h) take no larger steps */

/* Each round changes lengths by a root of what F takes too long. The square root is exact for attention alone, and
 * stops short of it for products; a smaller one ends a cycle of rounded lengths. */
guint *ps_work_cut_even (const PsModel *model, const PsCluster *cluster, guint n_slices, double n_waits, GError **error)
{
  guint n_sharing = cluster->tensor * MAX (model->spread.context, 1), sequence = model->sequence;
  g_autofree guint *tokens = ps_model_cut_equal (model, n_slices, n_sharing, error), *best = NULL;
  g_autofree double *length = g_new (double, n_slices), *end = g_new (double, n_slices), *ns = g_new (double, n_slices);
  double spread, best_spread = G_MAXDOUBLE;

  if (tokens == NULL)
    return NULL;
  best = g_memdup2 (tokens, n_slices * sizeof *best);
  const double equal_time = time_slices (model, cluster, tokens, n_slices, n_waits, ns, &spread);
  double least = equal_time, best_time = G_MAXDOUBLE;
  for (guint64 unit = (guint64)n_sharing * LARGEST_UNIT; unit >= n_sharing; unit /= 2) {
    if (unit * n_slices > sequence)
      continue;
    for (guint k = 0; k < n_slices; k++)
      length[k] = tokens[k] = best[k];
    for (guint round = 0; round < EVEN_ROUNDS; round++) {
      const double time = time_slices (model, cluster, tokens, n_slices, n_waits, ns, &spread);

      least = MIN (least, time);
      gboolean better = best_time > EVEN_ENOUGH * least || (best_spread > EVEN && spread < best_spread)
                        || (spread <= EVEN && time < best_time);
      if (time <= MIN (EVEN_ENOUGH * least, equal_time) && better) {
        best_time = time;
        best_spread = spread;
        memcpy (best, tokens, n_slices * sizeof *best);
      }
      for (guint k = 0; k < n_slices; k++) {
        length[k] /= pow (ns[k], round < EVEN_ROUNDS / 2 ? 0.5 : 0.15);
        end[k] = (k > 0 ? end[k - 1] : 0) + length[k];
      }
      for (guint k = 0; k < n_slices; k++)
        end[k] *= sequence / end[n_slices - 1];
      round_ends (end, n_slices, (guint)unit, sequence, tokens);
    }
  }
  return g_steal_pointer (&best);
}

/* stretch.c - repeats the steady part of a short schedule. */
#include "stretch.h"

/* Moments to try as cuts. */
#define N_CUTS 48

/* Counts the ops of each chain that have started before a moment. */
static void
cut_at (const PsOrder *from, gint64 moment, guint *cut)
{
  const PsProblem *problem = from->problem;

  for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++)
    {
      guint low = 0, high = problem->m;

      while (low < high)
        {
          guint middle = (low + high) / 2;

          if (end_of (from, from->node[chain * problem->m + middle]) - problem->duration[chain] < moment)
            low = middle + 1;
          else
            high = middle;
        }
      cut[chain] = low;
    }
}

/* Whether every chain has `n` more microbatches after the cut. */
static gboolean
has_after (const PsProblem *problem, const guint *cut, guint n)
{
  for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++)
    if (cut[chain] + n > problem->m)
      return FALSE;
  return TRUE;
}

/* A part of a sequence: the microbatches of each chain from `begin` to `end` after the cut, moved by `shift`. */
typedef struct
{
  const PsOrder *from;
  const guint *cut;
  gint64 begin;
  gint64 end;
  gint64 shift;
} Part;

/* The op moved as the part says; NO_OP: the part does not hold it. */
static guint
shifted (const Part *part, guint op, guint m)
{
  guint chain = op / part->from->problem->m;
  gint64 at = op % part->from->problem->m, place = at - (gint64)part->cut[chain];

  return place >= part->begin && place < part->end ? chain * m + (guint)(at + part->shift) : NO_OP;
}

/* Appends a pair or a BW; one that the part does not hold completely falls apart. */
static void
append_joined (PsOrder *order, const Part *part, guint op, guint partner)
{
  guint m = order->problem->m, none = order->problem->n_ops, before = part->from->problem->m;
  guint b = shifted (part, op, m), w = shifted (part, op + before, m);
  guint f = partner == op ? b : shifted (part, partner, m);

  if (b != NO_OP && f != NO_OP && w == b + m)
    {
      ps_order_add (order, b, f);
      return;
    }
  if (partner != op && f != NO_OP)
    ps_order_add (order, f, none);
  if (b != NO_OP)
    ps_order_add (order, b, none);
  if (w != NO_OP)
    ps_order_add (order, w, none);
}

/* Whether the part holds an op of the node at a position. */
static gboolean
has_any (const Part *part, guint position)
{
  const PsOrder *from = part->from;
  guint op = from->sequence[position], partner = from->partner[op], m = from->problem->m;

  return shifted (part, op, m) != NO_OP
         || (partner != from->problem->n_ops
             && (shifted (part, partner, m) != NO_OP || shifted (part, op + m, m) != NO_OP));
}

/* Lists the positions of a device with ops of the part; returns how many. */
static guint
list_positions (const Part *part, guint device, guint32 *positions)
{
  guint n = 0;

  for (guint i = part->from->problem->first[device]; i < part->from->stop[device]; i++)
    if (has_any (part, i))
      positions[n++] = i;
  return n;
}

static void
append_part (PsOrder *order, const Part *part, const guint32 *positions, guint n)
{
  const PsOrder *from = part->from;

  for (guint i = 0; i < n; i++)
    {
      guint op = from->sequence[positions[i]], partner = from->partner[op];

      if (partner != from->problem->n_ops)
        append_joined (order, part, op, partner);
      else
        ps_order_add (order, shifted (part, op, order->problem->m), order->problem->n_ops);
    }
}

/* Appends the part n_times, each time `step` microbatches later. */
static void
append_parts (PsOrder *order, Part part, guint device, guint n_times, guint step)
{
  g_autofree guint32 *positions = g_new (guint32, part.from->problem->n_ops);
  guint n = list_positions (&part, device, positions);

  for (guint i = 0; i < n_times; i++, part.shift += step)
    append_part (order, &part, positions, n);
}

static gboolean
repeat (PsOrder *order, const PsOrder *from, const guint *cut, guint piece, guint n_times)
{
  const PsProblem *small = from->problem;
  gint64 extra = (gint64)order->problem->m - small->m, dropped = (gint64)n_times * piece - extra;

  if (dropped < 0 || piece % small->n_slices != 0 || !has_after (small, cut, MAX (piece, (guint)dropped)))
    return FALSE;
  ps_order_clear (order);
  for (guint d = 0; d < small->n_devices; d++)
    {
      append_parts (order, (Part){ from, cut, G_MININT64 / 2, 0, 0 }, d, 1, 0);
      append_parts (order, (Part){ from, cut, 0, piece, 0 }, d, n_times, piece);
      append_parts (order, (Part){ from, cut, dropped, G_MAXINT64, extra }, d, 1, 0);
    }
  return TRUE;
}

gboolean
ps_order_stretch (PsOrder *order, const PsOrder *from, gboolean (*go_on) (gpointer data), gpointer data)
{
  const PsProblem *small = from->problem;
  g_autoptr (PsOrder) scratch = ps_order_new (order->problem);
  g_autofree guint *cut = g_new (guint, (gsize)small->n_stages * N_KINDS);
  guint extra = order->problem->m - small->m;
  gboolean found = FALSE;

  for (guint i = 1; i < N_CUTS; i++)
    {
      cut_at (from, from->objective * i / N_CUTS, cut);
      for (guint piece = 1; piece <= MIN (MAX_PIECE, extra); piece++)
        {
          if (extra % piece != 0)
            continue;
          if (!go_on (data))
            return FALSE;
          if (!repeat (scratch, from, cut, piece, extra / piece))
            continue;
          if (!ps_order_evaluate (scratch) || scratch->excess > 0 || (found && scratch->objective >= order->objective))
            continue;
          ps_order_assign (order, scratch);
          found = TRUE;
        }
    }
  return found;
}

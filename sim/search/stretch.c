/* stretch.c - repeats the steady part of a short schedule. */
#include "stretch.h"

/* Moments that are tried as cuts. */
#define N_CUTS 48

/* How many ops of each chain have started before a moment. */
static void
cut_at (const Order *from, gint64 moment, guint *cut)
{
  const Problem *problem = from->problem;

  for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++)
    {
      guint low = 0, high = problem->m;

      while (low < high)
        {
          guint middle = (low + high) / 2;

          if (from->end[chain * problem->m + middle] - problem->duration[chain] < moment)
            low = middle + 1;
          else
            high = middle;
        }
      cut[chain] = low;
    }
}

/* Whether every chain has `n` more microbatches behind the cut. */
static gboolean
has_behind (const Problem *problem, const guint *cut, guint n)
{
  for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++)
    if (cut[chain] + n > problem->m)
      return FALSE;
  return TRUE;
}

/* Part of a sequence: the microbatches of each chain from `begin` to `end` behind the cut, `shift` later. */
typedef struct
{
  const Order *from;
  const guint *cut;
  gint64 begin;
  gint64 end;
  gint64 shift;
} Part;

/* An op as the part has it; NO_OP: it has not. */
static guint
shifted (const Part *part, guint op, guint m)
{
  guint chain = op / part->from->problem->m;
  gint64 at = op % part->from->problem->m, behind = at - (gint64)part->cut[chain];

  return behind >= part->begin && behind < part->end ? chain * m + (guint)(at + part->shift) : NO_OP;
}

/* A pair, or a BW, of which the part has not got everything falls apart. */
static void
append_joined (Order *order, const Part *part, guint op, guint partner)
{
  guint m = order->problem->m, none = order->problem->n_ops, before = part->from->problem->m;
  guint b = shifted (part, op, m), w = shifted (part, op + before, m);
  guint f = partner == op ? b : shifted (part, partner, m);

  if (b != NO_OP && f != NO_OP && w == b + m)
    {
      order_add (order, b, f);
      return;
    }
  if (partner != op && f != NO_OP)
    order_add (order, f, none);
  if (b != NO_OP)
    order_add (order, b, none);
  if (w != NO_OP)
    order_add (order, w, none);
}

static void
append_part (Order *order, const Part *part, guint device)
{
  const Order *from = part->from;

  for (guint i = from->problem->first[device]; i < from->stop[device]; i++)
    {
      guint op = from->sequence[i], partner = from->partner[op], only;

      if (partner != from->problem->n_ops)
        append_joined (order, part, op, partner);
      else if ((only = shifted (part, op, order->problem->m)) != NO_OP)
        order_add (order, only, order->problem->n_ops);
    }
}

static gboolean
repeat (Order *order, const Order *from, const guint *cut, guint piece, guint n_times)
{
  const Problem *small = from->problem;
  gint64 extra = (gint64)order->problem->m - small->m, dropped = (gint64)n_times * piece - extra;

  if (dropped < 0 || !has_behind (small, cut, MAX (piece, (guint)dropped)))
    return FALSE;
  order_clear (order);
  for (guint d = 0; d < small->n_devices; d++)
    {
      append_part (order, &(Part){ from, cut, G_MININT64 / 2, 0, 0 }, d);
      for (guint i = 0; i < n_times; i++)
        append_part (order, &(Part){ from, cut, 0, piece, (gint64)i * piece }, d);
      append_part (order, &(Part){ from, cut, dropped, G_MAXINT64, extra }, d);
    }
  return TRUE;
}

gboolean
order_repeat (Order *order, const Order *from, gint64 moment, guint piece, guint n_times)
{
  g_autofree guint *cut = g_new (guint, (gsize)from->problem->n_stages * N_KINDS);

  cut_at (from, moment, cut);
  return repeat (order, from, cut, piece, n_times);
}

gboolean
order_stretch (Order *order, const Order *from)
{
  const Problem *small = from->problem;
  g_autoptr (Order) scratch = order_new (order->problem);
  g_autofree guint *cut = g_new (guint, (gsize)small->n_stages * N_KINDS);
  guint extra = order->problem->m - small->m;
  gboolean found = FALSE;

  for (guint i = 1; i < N_CUTS; i++)
    {
      cut_at (from, from->objective * i / N_CUTS, cut);
      for (guint piece = 1; piece <= MIN (MAX_PIECE, extra); piece++)
        {
          if (extra % piece != 0 || !repeat (scratch, from, cut, piece, extra / piece))
            continue;
          if (!order_evaluate (scratch) || scratch->excess > 0 || (found && scratch->objective >= order->objective))
            continue;
          order_assign (order, scratch);
          found = TRUE;
        }
    }
  return found;
}

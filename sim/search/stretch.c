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

/* A part of a device's sequence: the microbatches of each chain from `begin` to `end` behind the cut, `shift` later. */
static guint
append_part (Order *order, const Order *from, guint device, const guint *cut, gint64 begin, gint64 end, gint64 shift,
             guint fill)
{
  const Problem *small = from->problem;

  for (guint i = small->first[device]; i < small->first[device + 1]; i++)
    {
      guint chain = from->sequence[i] / small->m;
      gint64 at = from->sequence[i] % small->m, behind = at - (gint64)cut[chain];

      if (behind >= begin && behind < end)
        order->sequence[fill++] = chain * order->problem->m + (guint)(at + shift);
    }
  return fill;
}

static gboolean
repeat (Order *order, const Order *from, const guint *cut, guint piece, guint n_times)
{
  const Problem *small = from->problem;
  gint64 extra = (gint64)order->problem->m - small->m, dropped = (gint64)n_times * piece - extra;

  if (dropped < 0 || !has_behind (small, cut, MAX (piece, (guint)dropped)))
    return FALSE;
  for (guint d = 0; d < small->n_devices; d++)
    {
      guint fill = append_part (order, from, d, cut, G_MININT64 / 2, 0, 0, order->problem->first[d]);

      for (guint i = 0; i < n_times; i++)
        fill = append_part (order, from, d, cut, 0, piece, (gint64)i * piece, fill);
      append_part (order, from, d, cut, dropped, G_MAXINT64, extra, fill);
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

/* stretch.c - repeats the steady part of a short schedule. */
#include "stretch.h"

/* Moments that are tried as cuts, and the longest piece that is repeated, in microbatches. */
#define N_CUTS 48
#define MAX_PIECE 16

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

          if (from->head[chain * problem->m + middle] < moment)
            low = middle + 1;
          else
            high = middle;
        }
      cut[chain] = low;
    }
}

/* In front of the cut as it was; then `piece` microbatches of every chain, over and over; then the rest. */
static void
repeat (Order *order, const Order *from, const guint *cut, guint piece)
{
  const Problem *small = from->problem, *large = order->problem;
  guint extra = large->m - small->m, n_times = extra / piece;

  for (guint d = 0; d < small->n_devices; d++)
    {
      guint fill = large->first[d];

      for (guint part = 0; part < n_times + 2; part++)
        for (guint i = small->first[d]; i < small->first[d + 1]; i++)
          {
            guint chain = from->sequence[i] / small->m, at = from->sequence[i] % small->m, shift = 0;

            if (part == 0 && at >= cut[chain])
              continue;
            if (part > 0 && part <= n_times && (at < cut[chain] || at >= cut[chain] + piece))
              continue;
            if (part == n_times + 1 && at < cut[chain])
              continue;
            if (part > 0)
              shift = (part - 1) * piece;
            order->sequence[fill++] = chain * large->m + at + shift;
          }
    }
}

/* Whether every chain still has the whole piece behind the cut. */
static gboolean
has_piece (const Problem *problem, const guint *cut, guint piece)
{
  for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++)
    if (cut[chain] + piece > problem->m)
      return FALSE;
  return TRUE;
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
          if (extra % piece != 0 || !has_piece (small, cut, piece))
            continue;
          repeat (scratch, from, cut, piece);
          if (!order_evaluate (scratch) || scratch->excess > 0 || (found && scratch->objective >= order->objective))
            continue;
          order_assign (order, scratch);
          found = TRUE;
        }
    }
  return found;
}

/* blocks.c - a local search over the waits of a repeated block. */
#include "blocks.h"

#include <pipesim/families.h>

#include <string.h>

/* Ways of a microbatch through the devices: F down, F up, B down, B up. */
#define N_WAYS 4

/* One search in FRESH_SEARCHES begins with a block of its own; one wait in LONG_WAITS is of two slots. */
#define FRESH_SEARCHES 3
#define LONG_WAITS 8

/* Stretches of devices that a try changes, at most. */
#define MAX_CHANGES 3

gboolean
ps_blocks_suit (const PsProblem *problem)
{
  guint p = problem->n_devices;

  if (problem->joins || problem->n_copies > 1 || problem->n_slices > 1 || problem->n_stages != 2 * p)
    return FALSE;
  for (guint d = 0; d < p; d++)
    if (problem->device[d] != d || problem->device[2 * p - 1 - d] != d)
      return FALSE;
  return TRUE;
}

static guint8
draw_wait (PsRandom *random)
{
  return (guint8)(1 + (ps_random_below (random, LONG_WAITS) == 0));
}

/* Each way waits at a part of the devices. */
static void
draw_waits (guint8 *wait, guint p, PsRandom *random)
{
  for (guint way = 0; way < N_WAYS; way++)
    {
      double part = ps_random_below (random, 2) ? ps_random_unit (random) : 0;

      for (guint d = 0; d < p; d++)
        wait[way * p + d] = ps_random_unit (random) < part ? draw_wait (random) : 0;
    }
}

static void
change_waits (guint8 *wait, guint p, PsRandom *random)
{
  for (guint i = 1 + ps_random_below (random, MAX_CHANGES); i > 0; i--)
    {
      guint first = ps_random_below (random, p), n = 1 + ps_random_below (random, MIN (p - first, MAX_CHANGES));
      guint8 value = ps_random_below (random, 2) ? draw_wait (random) : 0;

      memset (wait + ps_random_below (random, N_WAYS) * p + first, value, n);
    }
}

/* Fills the order; returns its objective, G_MAXINT64 where it is no solution. */
static gint64
build (PsOrder *order, const guint8 *wait, gboolean eager)
{
  const PsProblem *problem = order->problem;
  const PsFamilySetting setting
      = { .n_devices = problem->n_devices, .n_microbatches = problem->m, .n_chunks = 2, .n_slices = 1 };
  g_autoptr (PsSchedule) schedule = ps_family_v_hops (&setting, wait, eager);

  if (!ps_order_from_schedule (order, schedule) || !ps_order_evaluate (order) || order->excess > 0)
    return G_MAXINT64;
  return order->objective;
}

void
ps_blocks_search (PsBlocks *blocks, PsOrder *scratch)
{
  PsRandom *random = &blocks->random;
  guint p = scratch->problem->n_devices;
  gsize size = (gsize)N_WAYS * p;
  g_autofree guint8 *wait = g_memdup2 (blocks->wait, size), *current = g_memdup2 (blocks->wait, size);
  gint64 current_ns = ps_random_below (random, FRESH_SEARCHES) == 0 ? G_MAXINT64 : blocks->best_ns;

  for (guint64 i = 0; i < blocks->n_tries && blocks->go_on (blocks->data); i++)
    {
      if (current_ns == G_MAXINT64)
        draw_waits (wait, p, random);
      else
        change_waits (wait, p, random);
      gint64 objective = build (scratch, wait, ps_random_below (random, 2));
      gboolean takes = objective <= current_ns && objective < G_MAXINT64;

      if (takes)
        {
          current_ns = objective;
          blocks->offer (scratch, blocks->data);
        }
      memcpy (takes ? current : wait, takes ? wait : current, size);
    }
  if (current_ns >= blocks->best_ns)
    return;
  blocks->best_ns = current_ns;
  memcpy (blocks->wait, current, size);
}

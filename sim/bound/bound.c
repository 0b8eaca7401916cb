/* bound.c - lower bounds on the makespan. */
#include "ways.h"

static gint64
device_load (const PsWays *ways, guint device)
{
  g_auto (PsWaysLoad) load = { 0 };

  ps_ways_load_init (&load, ways, device);
  return ps_ways_load_least (&load);
}

/* Microbatches of each copy. */
static void
count_microbatches (const guint8 *copy, guint n_microbatches, guint *m)
{
  for (guint i = 0; i < n_microbatches; i++)
    m[copy != NULL ? copy[i] : 0]++;
}

gint64
ps_period_bound (const PsPlacement *placement, const guint8 *copy, guint n_microbatches, const PsCosts *costs)
{
  g_auto (PsWays) ways = { 0 };
  guint m[MAX_COPIES] = { 0 };
  gint64 longest = 0;

  count_microbatches (copy, n_microbatches, m);
  ps_ways_init (&ways, placement, costs, m);
  for (guint d = 0; d < placement->n_devices; d++)
    longest = MAX (longest, device_load (&ways, d));
  return longest;
}

gint64
ps_lower_bound (const PsPlacement *placement, const guint8 *copy, guint n_microbatches, const PsCosts *costs)
{
  g_auto (PsWays) ways = { 0 };
  guint m[MAX_COPIES] = { 0 }, n = placement->n_stages;
  gint64 longest = 0;

  count_microbatches (copy, n_microbatches, m);
  ps_ways_init (&ways, placement, costs, m);
  for (guint c = 0; c < placement->n_copies; c++)
    if (m[c] > 0)
      longest = MAX (longest, ps_ways_chain (&ways, c));
  for (guint d = 0; d < placement->n_devices; d++)
    {
      gint64 begin = G_MAXINT64;

      for (guint i = 0; i < placement->n_copies * n; i++)
        if (placement->device[i] == d && m[i / n] > 0)
          begin = MIN (begin, ways.arrival[i]);
      if (begin != G_MAXINT64)
        longest = MAX (longest, begin + device_load (&ways, d));
    }
  return longest;
}

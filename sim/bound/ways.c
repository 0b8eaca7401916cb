/* ways.c - least times, stage by stage. */
#include "ways.h"

gboolean
ps_costs_have_pair_times (const PsCosts *costs)
{
  for (guint s = 0; s < costs->n_stages; s++)
    if (costs->stage[s].pair_ns >= 0)
      return TRUE;
  return FALSE;
}

void
ps_ways_clear (PsWays *ways)
{
  g_free (ways->least_pair);
  g_free (ways->forward);
  g_free (ways->backward);
  g_free (ways->own);
  g_free (ways->arrival);
  g_free (ways->gradient);
  g_free (ways->turn);
  g_free (ways->rest);
}

/* Time of a transfer from a stage to the one above it, or back. */
static gint64
hop (const PsWays *ways, guint copy, guint stage, gboolean back)
{
  const PsCosts *costs = ways->costs;

  if (ps_placement_device (ways->placement, copy, stage) == ps_placement_device (ways->placement, copy, stage + 1))
    return 0;
  return costs->transfer_ns[back ? ps_transfer_backward (costs, stage + 1) : ps_transfer_forward (costs, stage)];
}

static void
set_ops (PsWays *ways)
{
  const PsPlacement *placement = ways->placement;
  const PsStageCost *stage = ways->costs->stage;
  guint n = placement->n_stages;

  for (guint d = 0; d < placement->n_devices; d++)
    ways->least_pair[d] = G_MAXINT64;
  for (guint i = 0; i < placement->n_copies * n; i++)
    if (stage[i % n].pair_ns >= 0)
      ways->least_pair[placement->device[i]] = MIN (ways->least_pair[placement->device[i]], stage[i % n].pair_ns);
  for (guint s = 0; s < n; s++)
    {
      gint64 alone = ps_ways_duration (ways, PS_OP_F, s);

      ways->forward[s] = stage[s].pair_ns >= 0 ? MIN (alone, stage[s].pair_ns) : alone;
    }
  for (guint i = 0; i < placement->n_copies * n; i++)
    {
      gint64 joined = MIN (ps_ways_duration (ways, PS_OP_BW, i % n), ways->least_pair[placement->device[i]]);

      ways->backward[i] = MIN (ps_ways_duration (ways, PS_OP_B, i % n), joined);
      ways->own[i] = MIN (ps_ways_backward_alone (ways, i % n), joined);
    }
}

/* The first F through the last stage meets no backward on its way, so it is in no pair. */
static gint64
first_turn (const PsWays *ways)
{
  guint last = ways->placement->n_stages - 1;
  gint64 least = G_MAXINT64;

  for (guint copy = 0; copy < ways->placement->n_copies; copy++)
    {
      gint64 time = ps_ways_duration (ways, PS_OP_F, last);

      for (guint s = 0; s < last; s++)
        time += ps_ways_duration (ways, PS_OP_F, s) + hop (ways, copy, s, FALSE);
      if (ways->m[copy] > 0)
        least = MIN (least, time);
    }
  return least;
}

/* Sets arrivals and gradients. Forwards before the first turn are in no pair. */
static void
set_heads (PsWays *ways, guint copy, gint64 first)
{
  guint last = ways->placement->n_stages - 1, base = copy * (last + 1);
  gint64 alone = 0, least = 0;

  for (guint s = 0; s <= last; s++)
    {
      ways->arrival[base + s] = MAX (least, MIN (alone, first));
      alone += ps_ways_duration (ways, PS_OP_F, s) + (s < last ? hop (ways, copy, s, FALSE) : 0);
      least += ways->forward[s] + (s < last ? hop (ways, copy, s, FALSE) : 0);
    }
  ways->gradient[base + last] = MAX (least, first);
  for (guint s = last; s-- > 0;)
    ways->gradient[base + s] = ways->gradient[base + s + 1] + ways->backward[base + s + 1] + hop (ways, copy, s, TRUE);
}

static void
set_tails (PsWays *ways, guint copy)
{
  guint n = ways->placement->n_stages, base = copy * n;

  ways->rest[base] = ways->own[base];
  for (guint s = 1; s < n; s++)
    {
      gint64 below = hop (ways, copy, s - 1, TRUE) + ways->rest[base + s - 1];
      gint64 joined = MIN (ps_ways_duration (ways, PS_OP_BW, s), ways->least_pair[ways->placement->device[base + s]]);

      ways->rest[base + s] = MIN (
          ps_ways_duration (ways, PS_OP_B, s) + MAX (ps_ways_duration (ways, PS_OP_W, s), below), joined + below);
    }
  for (guint s = n - 1; s-- > 0;)
    ways->turn[base + s] = hop (ways, copy, s, FALSE) + ways->forward[s + 1] + ways->turn[base + s + 1]
                           + ways->backward[base + s + 1] + hop (ways, copy, s, TRUE);
}

void
ps_ways_init (PsWays *ways, const PsPlacement *placement, const PsCosts *costs, const guint m[MAX_COPIES])
{
  guint n = placement->n_copies * placement->n_stages;
  gint64 first;

  *ways = (PsWays){ .placement = placement, .costs = costs };
  for (guint copy = 0; copy < placement->n_copies; copy++)
    ways->m[copy] = m[copy];
  ways->least_pair = g_new (gint64, placement->n_devices);
  ways->forward = g_new (gint64, placement->n_stages);
  ways->backward = g_new (gint64, n);
  ways->own = g_new (gint64, n);
  ways->arrival = g_new (gint64, n);
  ways->gradient = g_new (gint64, n);
  ways->turn = g_new0 (gint64, n);
  ways->rest = g_new (gint64, n);
  set_ops (ways);
  first = first_turn (ways);
  for (guint copy = 0; copy < placement->n_copies; copy++)
    {
      set_heads (ways, copy, first);
      set_tails (ways, copy);
    }
}

/* `n` ops that are worth the same. */
typedef struct
{
  gint64 worth;
  guint n;
} Share;

PS_DEFINE_ORDER (compare_rising, Share, worth)

PS_DEFINE_FALLING_ORDER (compare_falling, Share, worth)

/* Sets what pairs save at most. A pair takes `more` than its F alone and saves a backward; the cheapest such F goes
 * with the longest backward, as long as that saves time. */
static void
save_most (PsWaysLoad *load, GArray *more, GArray *backward)
{
  guint i = 0, k = 0;

  g_array_sort (more, compare_rising);
  g_array_sort (backward, compare_falling);
  while (i < more->len && k < backward->len)
    {
      Share *cost = &g_array_index (more, Share, i), *gain = &g_array_index (backward, Share, k);
      guint n = MIN (cost->n, gain->n);

      if (cost->worth >= gain->worth)
        break;
      for (guint j = 0; j < n; j++, load->n++)
        load->saved[load->n + 1] = load->saved[load->n] + gain->worth - cost->worth;
      i += (cost->n -= n) == 0;
      k += (gain->n -= n) == 0;
    }
}

/* Sets load->saved for 0, 1, .. pairs. */
static void
set_saved (PsWaysLoad *load, const PsWays *ways, guint device)
{
  g_autoptr (GArray) more = g_array_new (FALSE, FALSE, sizeof (Share));
  g_autoptr (GArray) backward = g_array_new (FALSE, FALSE, sizeof (Share));
  guint n = ways->placement->n_stages;

  load->saved = g_new0 (gint64, (gsize)load->n_forward + 1);
  for (guint i = 0; i < ways->placement->n_copies * n; i++)
    {
      guint s = i % n, m = ways->m[i / n];
      Share cost = { ways->costs->stage[s].pair_ns - ps_ways_duration (ways, PS_OP_F, s), m };
      Share gain = { ps_ways_backward_alone (ways, s), m };

      if (ways->placement->device[i] != device || m == 0)
        continue;
      g_array_append_val (backward, gain);
      if (ways->costs->stage[s].pair_ns >= 0)
        g_array_append_val (more, cost);
    }
  save_most (load, more, backward);
}

void
ps_ways_load_init (PsWaysLoad *load, const PsWays *ways, guint device)
{
  guint n = ways->placement->n_stages;

  *load = (PsWaysLoad){ 0 };
  for (guint i = 0; i < ways->placement->n_copies * n; i++)
    if (ways->placement->device[i] == device)
      {
        load->all += ways->m[i / n] * (ps_ways_duration (ways, PS_OP_F, i % n) + ps_ways_backward_alone (ways, i % n));
        load->n_forward += ways->m[i / n];
      }
  if (ways->least_pair[device] < G_MAXINT64)
    set_saved (load, ways, device);
}

void
ps_ways_load_clear (PsWaysLoad *load)
{
  g_free (load->saved);
}

gint64
ps_ways_load_least (const PsWaysLoad *load)
{
  return ps_ways_load_apart (load, 0);
}

gint64
ps_ways_load_apart (const PsWaysLoad *load, guint n)
{
  guint pairs = load->n_forward - MIN (n, load->n_forward);

  return load->saved != NULL ? load->all - load->saved[MIN (pairs, load->n)] : load->all;
}

gint64
ps_ways_chain (const PsWays *ways, guint copy)
{
  guint last = (copy + 1) * ways->placement->n_stages - 1;

  return ways->gradient[last] + ways->rest[last];
}

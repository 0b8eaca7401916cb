/* bound.c - lower bounds on the makespan. */
#include <pipesim/bound.h>

typedef struct
{
  const PsPlacement *placement;
  const PsCosts *costs;
  gint64 *least_pair;     /* [n_devices] shortest pair of any stage there; G_MAXINT64: none */
  gint64 *least_backward; /* [n_devices] shortest backward of any stage there */
  gint64 *head;           /* [n_devices] earliest arrival of a microbatch */
  gint64 *load;           /* [n_devices] all work */
} Bound;

static void
bound_clear (Bound *bound)
{
  g_free (bound->least_pair);
  g_free (bound->least_backward);
  g_free (bound->head);
  g_free (bound->load);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Bound, bound_clear)

static gint64
duration (const Bound *bound, PsOpKind kind, guint stage)
{
  return ps_costs_op (bound->costs, kind, stage)->duration_ns;
}

static gint64
backward (const Bound *bound, guint stage)
{
  return MIN (duration (bound, PS_OP_B, stage) + duration (bound, PS_OP_W, stage), duration (bound, PS_OP_BW, stage));
}

/* Each forward either runs in a pair, or alone and then some backward of the device runs alone too: summed over any
 * matching of forwards and backwards this is at most the true work. Without pairs the sum is exact. */
static gint64
work (const Bound *bound, guint device, guint stage)
{
  gint64 pair = bound->costs->pair_ns[stage];
  if (bound->least_pair[device] == G_MAXINT64)
    return duration (bound, PS_OP_F, stage) + backward (bound, stage);
  gint64 alone = duration (bound, PS_OP_F, stage) + bound->least_backward[device];
  return pair >= 0 ? MIN (pair, alone) : alone;
}

static gint64
transfer (const Bound *bound, guint copy, guint from, guint to)
{
  const PsPlacement *placement = bound->placement;
  if (ps_placement_device (placement, copy, from) == ps_placement_device (placement, copy, to))
    return 0;
  return bound->costs
      ->transfer_ns[to > from ? ps_transfer_forward (bound->costs, from) : ps_transfer_backward (bound->costs, from)];
}

static gint64
least_forward (const Bound *bound, guint copy, guint stage)
{
  guint device = ps_placement_device (bound->placement, copy, stage);
  return MIN (duration (bound, PS_OP_F, stage), bound->least_pair[device]);
}

/* Down and up through all stages with one microbatch, and the weights of stage 0 at the end. */
static gint64
chain (const Bound *bound, guint copy)
{
  guint last = bound->placement->n_stages - 1;
  gint64 time = 0;
  for (guint stage = 0; stage <= last; stage++)
    time += least_forward (bound, copy, stage) + (stage < last ? transfer (bound, copy, stage, stage + 1) : 0);
  for (guint stage = last; stage > 0; stage--)
    {
      guint device = ps_placement_device (bound->placement, copy, stage);
      gint64 alone = MIN (duration (bound, PS_OP_B, stage), duration (bound, PS_OP_BW, stage));
      time += MIN (alone, bound->least_pair[device]) + transfer (bound, copy, stage, stage - 1);
    }
  return time + MIN (backward (bound, 0), bound->least_pair[ps_placement_device (bound->placement, copy, 0)]);
}

static void
prepare (Bound *bound)
{
  const PsPlacement *placement = bound->placement;
  guint n = placement->n_devices;
  bound->least_pair = g_new (gint64, n);
  bound->least_backward = g_new (gint64, n);
  bound->head = g_new (gint64, n);
  bound->load = g_new0 (gint64, n);
  for (guint device = 0; device < n; device++)
    bound->least_pair[device] = bound->least_backward[device] = bound->head[device] = G_MAXINT64;
  for (gsize i = 0; i < (gsize)placement->n_copies * placement->n_stages; i++)
    {
      guint stage = (guint)(i % placement->n_stages), device = placement->device[i];
      bound->least_backward[device] = MIN (bound->least_backward[device], backward (bound, stage));
      if (bound->costs->pair_ns[stage] >= 0)
        bound->least_pair[device] = MIN (bound->least_pair[device], bound->costs->pair_ns[stage]);
    }
}

static void
add_copy (Bound *bound, guint copy, guint users)
{
  const PsPlacement *placement = bound->placement;
  gint64 arrival = 0;
  for (guint stage = 0; stage < placement->n_stages; stage++)
    {
      guint device = ps_placement_device (placement, copy, stage);
      bound->head[device] = MIN (bound->head[device], arrival);
      bound->load[device] += users * work (bound, device, stage);
      arrival += least_forward (bound, copy, stage);
      arrival += stage + 1 < placement->n_stages ? transfer (bound, copy, stage, stage + 1) : 0;
    }
}

gint64
ps_lower_bound (const PsPlacement *placement, const guint8 *copy, guint n_microbatches, const PsCosts *costs)
{
  g_auto (Bound) bound = { .placement = placement, .costs = costs };
  gint64 longest = 0;
  prepare (&bound);
  for (guint c = 0; c < placement->n_copies; c++)
    {
      guint users = 0;
      for (guint i = 0; i < n_microbatches; i++)
        users += (copy ? copy[i] : 0) == c;
      if (users == 0)
        continue;
      longest = MAX (longest, chain (&bound, c));
      add_copy (&bound, c, users);
    }
  for (guint device = 0; device < placement->n_devices; device++)
    if (bound.load[device] > 0)
      longest = MAX (longest, bound.head[device] + bound.load[device]);
  return longest;
}

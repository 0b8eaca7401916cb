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

/* Work that the ways do not count. */
typedef struct
{
  gint64 *device; /* [n_devices] of each device; NULL: none */
  gint64 shared;  /* of all devices together, however they share it */
} More;

/* When any stage of the device has its first microbatch; 0: it has none. */
static gint64
first_arrival (const PsWays *ways, guint device)
{
  const PsPlacement *placement = ways->placement;
  gint64 begin = G_MAXINT64;

  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++)
    if (placement->device[i] == device && ways->m[i / placement->n_stages] > 0)
      begin = MIN (begin, ways->arrival[i]);
  return begin != G_MAXINT64 ? begin : 0;
}

/* The busiest device ends no earlier than all devices on average. */
static gint64
longest (const PsWays *ways, const More *more, gboolean overlaps)
{
  guint n_devices = ways->placement->n_devices;
  gint64 last = 0, sum = more->shared;

  for (guint d = 0; d < n_devices; d++)
    {
      gint64 end = (overlaps ? 0 : first_arrival (ways, d)) + device_load (ways, d)
                   + (more->device != NULL ? more->device[d] : 0);

      last = MAX (last, end);
      sum += end;
    }
  for (guint c = 0; c < ways->placement->n_copies && !overlaps; c++)
    if (ways->m[c] > 0)
      last = MAX (last, ps_ways_chain (ways, c));
  return MAX (last, sum / n_devices);
}

gint64
ps_lower_bound (const PsPlacement *placement, const guint8 *copy, guint n_microbatches, const PsCosts *costs)
{
  const More none = { 0 };
  g_auto (PsWays) ways = { 0 };
  guint m[MAX_COPIES] = { 0 };

  count_microbatches (copy, n_microbatches, m);
  ps_ways_init (&ways, placement, costs, m);
  return longest (&ways, &none, FALSE);
}

/* F and the whole backward of a microbatch on a stage, in no pair. */
static gint64
work_ns (const PsCosts *costs, guint length, guint stage)
{
  guint n = costs->n_lengths, n_stages = costs->n_stages;
  const PsOpCost *op = &costs->op[ps_op_index (n_stages, n, 0, length, stage)];
  guint next = n * n_stages; /* from one kind to the next */

  return op[PS_OP_F * next].duration_ns
         + MIN (op[PS_OP_B * next].duration_ns + op[PS_OP_W * next].duration_ns, op[PS_OP_BW * next].duration_ns);
}

/* The way of a microbatch of any length, which it has on all stages. */
static gint64
longest_chain (const PsPlacement *placement, const PsCosts *costs, const guint *m)
{
  gint64 last = 0;

  for (guint k = 0; k < costs->n_lengths; k++)
    {
      g_autoptr (PsCosts) alike = ps_costs_of_length (costs, k);
      g_auto (PsWays) ways = { 0 };
      gint64 least = G_MAXINT64;

      ps_ways_init (&ways, placement, alike, m);
      for (guint copy = 0; copy < placement->n_copies; copy++)
        least = MIN (least, ps_ways_chain (&ways, copy));
      last = MAX (last, least);
    }
  return last;
}

/* Two copies may share the microbatches in any way. */
static gint64 *
more_of (More *more, const PsPlacement *placement, guint device)
{
  return placement->n_copies == 1 ? &more->device[device] : &more->shared;
}

/* Adds the work beyond that of the least costs. */
static void
count_longer (const PsSchedule *schedule, const PsCosts *costs, const PsCosts *least, More *more)
{
  const PsPlacement *placement = schedule->placement;

  for (guint s = 0; s < costs->n_stages; s++)
    for (guint i = 0; i < schedule->n_microbatches * schedule->n_slices; i++)
      {
        guint16 length = schedule->length[s * schedule->n_microbatches * schedule->n_slices + i];
        gint64 ns = work_ns (costs, length, s) - work_ns (least, 0, s);

        *more_of (more, placement, placement->device[s]) += ns;
      }
}

/* Adds the time of the schedule's R. None is part of a pair. */
static void
count_again (const PsSchedule *schedule, const PsCosts *costs, More *more)
{
  for (guint d = 0; d < schedule->placement->n_devices; d++)
    for (guint i = schedule->first[d]; i < schedule->first[d + 1]; i++)
      {
        PsOp op = schedule->ops[i];
        guint length = costs->n_lengths > 1 ? schedule->length[ps_schedule_cell (schedule, op)] : 0;

        if (op.kind == PS_OP_R)
          *more_of (more, schedule->placement, d)
              += costs->op[ps_op_index (costs->n_stages, costs->n_lengths, PS_OP_R, length, op.stage)].duration_ns;
      }
}

gint64
ps_schedule_bound (const PsSchedule *schedule, const PsCosts *costs, gboolean overlaps)
{
  g_auto (PsWays) ways = { 0 };
  g_autoptr (PsCosts) least = costs->n_lengths > 1 ? ps_costs_least (costs) : NULL;
  g_autofree gint64 *device = g_new0 (gint64, schedule->placement->n_devices);
  More more = { device, 0 };
  guint m[MAX_COPIES] = { 0 };
  gint64 chain = 0;

  count_microbatches (schedule->copy, schedule->n_microbatches, m);
  for (guint copy = 0; copy < MAX_COPIES && schedule->copy == NULL; copy++)
    m[copy] *= schedule->n_slices;
  ps_ways_init (&ways, schedule->placement, least != NULL ? least : costs, m);
  if (schedule->recomputes)
    count_again (schedule, costs, &more);
  if (least != NULL && !ps_costs_have_pair_times (costs))
    {
      count_longer (schedule, costs, least, &more);
      chain = overlaps || schedule->recomputes ? 0 : longest_chain (schedule->placement, costs, m);
    }
  return MAX (chain, longest (&ways, &more, overlaps));
}

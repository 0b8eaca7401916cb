/* bound-within.c - what no schedule within a memory limit can beat. */
#include <pipesim/bound.h>

typedef struct
{
  const PsPlacement *placement;
  const PsCosts *costs;
  guint m;
  gint64 *arrival; /* [n_stages] earliest start of a microbatch's F */
  gint64 *turn;    /* [n_stages] least time from the end of a microbatch's F to the start of its B */
  gint64 *rest;    /* [n_stages] least time from the end of a microbatch's B to the end of its last op anywhere */
} Chains;

static void
chains_clear (Chains *chains)
{
  g_free (chains->arrival);
  g_free (chains->turn);
  g_free (chains->rest);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Chains, chains_clear)

static gint64
duration (const Chains *chains, PsOpKind kind, guint stage)
{
  return ps_costs_op (chains->costs, kind, stage)->duration_ns;
}

/* From stage s to s + 1 and back. */
static gint64
hop (const Chains *chains, guint stage, gboolean backward)
{
  const PsCosts *costs = chains->costs;

  if (ps_placement_device (chains->placement, 0, stage) == ps_placement_device (chains->placement, 0, stage + 1))
    return 0;
  return costs->transfer_ns[backward ? ps_transfer_backward (costs, stage + 1) : ps_transfer_forward (costs, stage)];
}

static void
chains_init (Chains *chains)
{
  guint n = chains->placement->n_stages;

  chains->arrival = g_new0 (gint64, n);
  chains->turn = g_new0 (gint64, n);
  chains->rest = g_new0 (gint64, n);
  chains->rest[0] = duration (chains, PS_OP_W, 0);
  for (guint s = 1; s < n; s++)
    {
      chains->arrival[s] = chains->arrival[s - 1] + duration (chains, PS_OP_F, s - 1) + hop (chains, s - 1, FALSE);
      chains->rest[s] = MAX (duration (chains, PS_OP_W, s),
                             hop (chains, s - 1, TRUE) + duration (chains, PS_OP_B, s - 1) + chains->rest[s - 1]);
    }
  for (guint s = n - 1; s-- > 0;)
    chains->turn[s] = hop (chains, s, FALSE) + duration (chains, PS_OP_F, s + 1) + chains->turn[s + 1]
                      + duration (chains, PS_OP_B, s + 1) + hop (chains, s, TRUE);
}

/* What is to be done on one device, and what its memory allows. */
typedef struct
{
  gint64 begin;    /* its first microbatch's arrival */
  gint64 gradient; /* earliest arrival of a gradient */
  gint64 load;     /* all its work */
  gint64 room;     /* bytes for activations; G_MAXINT64: no limit */
  gint64 least;    /* bytes of the smallest activation */
  gint64 longest;  /* its longest F */
  gint64 forwards; /* time of all its F */
  gint64 to_come;  /* most work that what the room holds can stand for; G_MAXINT64: not limited */
  guint n_stages;
} Device;

/* The work that `bytes` of memory stand for where `each` bytes stand for work_ns. */
static gint64
work_held (gint64 bytes, gint64 each, gint64 work_ns)
{
  __extension__ typedef __int128 Wide;

  if (bytes == G_MAXINT64 || (each <= 0 && work_ns > 0))
    return G_MAXINT64;
  return work_ns > 0 ? (gint64)((Wide)bytes * work_ns / each) : 0;
}

static void
add_stage (const Chains *chains, guint stage, Device *device)
{
  gint64 f = duration (chains, PS_OP_F, stage), b = duration (chains, PS_OP_B, stage),
         w = duration (chains, PS_OP_W, stage);
  gint64 act = ps_costs_op (chains->costs, PS_OP_F, stage)->take_bytes
               - ps_costs_op (chains->costs, PS_OP_F, stage)->give_bytes;
  gint64 wact = act + ps_costs_op (chains->costs, PS_OP_B, stage)->take_bytes
                - ps_costs_op (chains->costs, PS_OP_B, stage)->give_bytes;
  device->begin = MIN (device->begin, chains->arrival[stage]);
  device->gradient = MIN (device->gradient, chains->arrival[stage] + f + chains->turn[stage]);
  device->load += chains->m * (f + b + w);
  device->forwards += chains->m * f;
  device->longest = MAX (device->longest, f);
  device->least = MIN (device->least, act);
  device->n_stages++;
  device->to_come = MAX (device->to_come, work_held (device->room, act, b + w));
  device->to_come = MAX (device->to_come, work_held (device->room, wact, w));
}

/* Idle time before the first gradient can be there. */
static gint64
warm_up_idle (const Chains *chains, const Device *device, gboolean *all_fit)
{
  gint64 n = (gint64)device->n_stages * chains->m, work = device->forwards;

  if (device->room != G_MAXINT64 && device->least > 0)
    n = MIN (n, MAX (device->room, 0) / device->least);
  *all_fit = n >= (gint64)device->n_stages * chains->m;
  work = MIN (work, n * device->longest);
  return MAX (device->gradient - device->begin - work, 0);
}

/* The device's last F is that of some stage of it: the least over them. */
static gint64
drain_bound (const Chains *chains, guint d, const Device *device, gint64 idle, PsObjective objective)
{
  gint64 least = G_MAXINT64, rest;

  if (device->to_come == G_MAXINT64)
    return 0;
  for (guint s = 0; s < chains->placement->n_stages; s++)
    if (ps_placement_device (chains->placement, 0, s) == d)
      {
        rest = objective == PS_OBJECTIVE_MAKESPAN ? chains->rest[s] : duration (chains, PS_OP_W, s);
        least = MIN (least, chains->turn[s] + duration (chains, PS_OP_B, s) + rest);
      }
  return device->begin + idle + MAX (device->load - device->to_come, 0) + least;
}

static gint64
room_of (const Chains *chains, guint d, const gint64 *memory_limit)
{
  gint64 room = memory_limit ? memory_limit[d] : G_MAXINT64;

  if (memory_limit == NULL || room == G_MAXINT64)
    return G_MAXINT64;
  for (guint s = 0; s < chains->placement->n_stages; s++)
    if (ps_placement_device (chains->placement, 0, s) == d)
      room -= ps_costs_held_bytes (chains->costs, s, 1);
  return MAX (room, 0);
}

/* One microbatch after the other goes through a stage: the last one's forward, or the first one's backward, has all
 * others in front of it, or behind. */
static gint64
chain_bound (const Chains *chains, guint stage, PsObjective objective)
{
  gint64 f = duration (chains, PS_OP_F, stage), b = duration (chains, PS_OP_B, stage);
  gint64 rest = objective == PS_OBJECTIVE_MAKESPAN ? chains->rest[stage] : duration (chains, PS_OP_W, stage);

  return chains->arrival[stage] + f + chains->turn[stage] + b + rest + (gint64)(chains->m - 1) * MAX (f, b);
}

/* Bytes that are held, times how long at least, through what can be held at once. */
static gint64
area_bound (const Chains *chains, guint d, const Device *device)
{
  __extension__ typedef __int128 Wide;
  Wide area = 0;

  if (device->room == G_MAXINT64 || device->room == 0)
    return 0;
  for (guint s = 0; s < chains->placement->n_stages; s++)
    if (ps_placement_device (chains->placement, 0, s) == d)
      {
        const PsOpCost *f = ps_costs_op (chains->costs, PS_OP_F, s), *b = ps_costs_op (chains->costs, PS_OP_B, s);
        gint64 act = MAX (f->take_bytes - f->give_bytes, 0), wact = MAX (act + b->take_bytes - b->give_bytes, 0);

        area += (Wide)act * (chains->turn[s] + b->duration_ns + f->duration_ns);
        area += (Wide)wact * duration (chains, PS_OP_W, s);
      }
  return device->begin + (gint64)(area * chains->m / device->room);
}

gint64
ps_lower_bound_within (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                       const gint64 *memory_limit, PsObjective objective)
{
  g_auto (Chains) chains = { .placement = placement, .costs = costs, .m = n_microbatches };
  gint64 bound = objective == PS_OBJECTIVE_MAKESPAN ? ps_lower_bound (placement, NULL, n_microbatches, costs) : 0;

  chains_init (&chains);
  for (guint d = 0; d < placement->n_devices; d++)
    {
      Device device = {
        .begin = G_MAXINT64, .gradient = G_MAXINT64, .least = G_MAXINT64, .room = room_of (&chains, d, memory_limit)
      };
      gboolean all_fit;
      gint64 idle, own;

      for (guint s = 0; s < placement->n_stages; s++)
        if (ps_placement_device (placement, 0, s) == d)
          add_stage (&chains, s, &device);
      if (device.n_stages == 0)
        continue;
      idle = warm_up_idle (&chains, &device, &all_fit);
      own = MAX (device.begin + idle + device.load, drain_bound (&chains, d, &device, all_fit ? 0 : idle, objective));
      own = MAX (own, area_bound (&chains, d, &device));
      for (guint s = 0; s < placement->n_stages; s++)
        if (ps_placement_device (placement, 0, s) == d)
          own = MAX (own, chain_bound (&chains, s, objective));
      bound = MAX (bound, own - (objective == PS_OBJECTIVE_SPAN ? device.begin : 0));
    }
  return bound;
}

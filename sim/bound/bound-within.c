/* bound-within.c - a lower bound for all schedules within a memory limit. */
#include "mix.h"
#include "ways.h"

/* The work of one device, and what its memory allows. */
typedef struct
{
  const PsWays *ways;
  PsObjective objective;
  guint d;
  gint64 begin;    /* arrival of its first microbatch */
  gint64 gradient; /* earliest arrival of a gradient; for spans, counted with the device's first op at `begin` */
  PsWaysLoad work;
  gint64 load;     /* all its work, at least */
  gint64 room;     /* bytes for activations; G_MAXINT64: no limit */
  gint64 least;    /* bytes of the smallest activation */
  gint64 longest;  /* its longest F */
  gint64 backward; /* its longest backward */
  gint64 forwards; /* time of all its F */
  gint64 n;        /* number of its F */
  gint64 n_fit;    /* how many of them fit the memory at once */
  gint64 to_come;  /* most work that the microbatches in `room` can stand for; G_MAXINT64: not limited */
} Device;

static guint
n_entries (const PsWays *ways)
{
  return ways->placement->n_copies * ways->placement->n_stages;
}

/* Whether entry i of the ways is a stage of the device that has microbatches. */
static gboolean
is_here (const Device *device, guint i)
{
  return device->ways->placement->device[i] == device->d && device->ways->m[i / device->ways->placement->n_stages] > 0;
}

/* Least time from the start of a B to the end of the last op that counts: on any device for makespans, on its own for
 * spans. */
static gint64
rest_of (const Device *device, guint i)
{
  return device->objective == PS_OBJECTIVE_MAKESPAN ? device->ways->rest[i] : device->ways->own[i];
}

/* The work that `bytes` of memory stand for, if `each` bytes stand for work_ns. */
static gint64
work_held (gint64 bytes, gint64 each, gint64 work_ns)
{
  __extension__ typedef __int128 Wide;

  if (bytes == G_MAXINT64 || (each <= 0 && work_ns > 0))
    return G_MAXINT64;
  return work_ns > 0 ? (gint64)((Wide)bytes * work_ns / each) : 0;
}

/* With two weight copies a device may start with either one, so for spans no arrival time of the other copy is
 * certain. */
static gboolean
begins_anywhere (const Device *device)
{
  return device->ways->placement->n_copies > 1 && device->objective == PS_OBJECTIVE_SPAN;
}

static gint64
arrival_at (const Device *device, guint i)
{
  return begins_anywhere (device) ? device->begin : device->ways->arrival[i];
}

static gint64
gradient_at (const Device *device, guint i)
{
  const PsWays *ways = device->ways;

  return begins_anywhere (device) ? device->begin + ways->forward[i % ways->placement->n_stages] + ways->turn[i]
                                  : ways->gradient[i];
}

static void
add_stage (Device *device, guint i)
{
  const PsWays *ways = device->ways;
  guint stage = i % ways->placement->n_stages, m = ways->m[i / ways->placement->n_stages];
  gint64 f = ps_ways_duration (ways, PS_OP_F, stage), act = ps_costs_act_bytes (ways->costs, stage);

  device->gradient = MIN (device->gradient, gradient_at (device, i));
  device->forwards += m * f;
  device->n += m;
  device->longest = MAX (device->longest, f);
  device->backward = MAX (device->backward, ps_ways_backward_alone (ways, stage));
  device->least = MIN (device->least, act);
  device->to_come = MAX (device->to_come, work_held (device->room, act, ps_ways_backward_alone (ways, stage)));
  device->to_come = MAX (device->to_come, work_held (device->room, ps_costs_wact_bytes (ways->costs, stage),
                                                     ps_ways_duration (ways, PS_OP_W, stage)));
}

/* The time of n ops, or any that is longer than all of them. */
static gint64
time_of (gint64 n, gint64 each)
{
  gint64 time;

  return __builtin_mul_overflow (n, each, &time) ? G_MAXINT64 : time;
}

/* Idle time before the first gradient can arrive. */
static gint64
warm_up_idle (const Device *device)
{
  return MAX (device->gradient - device->begin - MIN (device->forwards, time_of (device->n_fit, device->longest)), 0);
}

/* Least time after the end of the device's last F, for the best stage of that F. */
static gint64
least_after (const Device *device)
{
  gint64 least = G_MAXINT64;

  for (guint i = 0; i < n_entries (device->ways); i++)
    if (is_here (device, i))
      least = MIN (least, device->ways->turn[i] + rest_of (device, i));
  return least;
}

/* Bound by the end: after the last F at most the work that `room` stands for is left. */
static gint64
drain_bound (const Device *device, gint64 idle)
{
  if (device->to_come == G_MAXINT64)
    return 0;
  return device->begin + idle + MAX (device->load - device->to_come, 0) + least_after (device);
}

/* Bound by pairs: none runs before the first gradient or after the last F. There, for any n, the device does at most n
 * forwards and n backwards apart, or is idle. If all are apart, both may be the same time. */
static gint64
apart_bound (const Device *device)
{
  gint64 front = device->gradient - device->begin, rest = least_after (device), least = G_MAXINT64;

  for (guint n = 0; n <= device->work.n_forward; n++)
    {
      gint64 before = MAX (front - time_of (MIN (n, device->n_fit), device->longest), 0),
             after = MAX (rest - time_of (n, device->backward), 0);
      gint64 idle = n < device->work.n_forward ? before + after : MAX (before, after);

      least = MIN (least, ps_ways_load_apart (&device->work, n) + idle);
    }
  return device->begin + least;
}

static gint64
room_of (const PsWays *ways, guint d, const gint64 *memory_limit)
{
  gint64 room = memory_limit != NULL ? memory_limit[d] : G_MAXINT64;

  if (room == G_MAXINT64)
    return G_MAXINT64;
  for (guint i = 0; i < n_entries (ways); i++)
    if (ways->placement->device[i] == d)
      room -= ps_costs_held_bytes (ways->costs, i % ways->placement->n_stages, 1);
  return MAX (room, 0);
}

/* Bound by one stage, which microbatches pass one after the other: the last one's F comes after all others, the first
 * one's B before all others. */
static gint64
chain_bound (const Device *device, guint i)
{
  const PsWays *ways = device->ways;
  gint64 f = ways->forward[i % ways->placement->n_stages];

  return arrival_at (device, i) + f + ways->turn[i] + rest_of (device, i)
         + (gint64)(ways->m[i / ways->placement->n_stages] - 1) * MAX (f, ways->backward[i]);
}

/* Least bytes times time of a microbatch that keeps `act` bytes from F to B. */
static PsByteTime
held_by_one (const Device *device, guint i, gint64 act)
{
  const PsWays *ways = device->ways;
  guint stage = i % ways->placement->n_stages;
  gint64 wact = MAX (ps_costs_wact_bytes (ways->costs, stage), 0);
  gint64 joined = MIN (ps_ways_duration (ways, PS_OP_BW, stage), ways->least_pair[device->d]);
  PsByteTime apart = (PsByteTime)act * ps_ways_duration (ways, PS_OP_B, stage)
                     + (PsByteTime)wact * ps_ways_duration (ways, PS_OP_W, stage);

  return (PsByteTime)act * (ways->turn[i] + ways->forward[stage]) + MIN (apart, (PsByteTime)act * joined);
}

/* Bound by area: bytes held, times the least time that they are held, divided by the bytes that fit at once. Where any
 * microbatch may recompute, it holds less and takes longer. */
static gint64
area_bound (const Device *device, gboolean may_recompute)
{
  const PsWays *ways = device->ways;
  g_autofree PsMixStage *stages = g_new0 (PsMixStage, n_entries (ways));
  PsMix mix = { .stage = stages,
                .begin = device->begin,
                .gradient = device->gradient,
                .load = device->load,
                .room = device->room,
                .empty = (PsByteTime)device->begin * device->room };

  if (device->room == G_MAXINT64 || device->room == 0)
    return 0;
  for (guint i = 0; i < n_entries (ways); i++)
    if (is_here (device, i))
      {
        guint stage = i % ways->placement->n_stages;
        gint64 kept = MAX (ps_costs_act_bytes (ways->costs, stage), 0);
        PsMixStage *mixed = &stages[mix.n_stages++];

        *mixed = (PsMixStage){ .n = ways->m[i / ways->placement->n_stages],
                               .forward = ps_ways_duration (ways, PS_OP_F, stage),
                               .kept = kept,
                               .again = may_recompute ? ps_mix_again (ways->costs, stage) : (PsOpCost){ 0 } };
        mixed->area = held_by_one (device, i, kept + mixed->again.take_bytes);
        mixed->saved = mixed->area - held_by_one (device, i, kept);
      }
  return ps_mix_bound (&mix);
}

static void
device_clear (Device *device)
{
  ps_ways_load_clear (&device->work);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Device, device_clear)

static gint64
device_bound (const PsWays *ways, guint d, const gint64 *memory_limit, PsObjective objective)
{
  g_auto (Device) device = { .ways = ways,
                             .objective = objective,
                             .d = d,
                             .begin = G_MAXINT64,
                             .gradient = G_MAXINT64,
                             .least = G_MAXINT64,
                             .room = room_of (ways, d, memory_limit) };
  gint64 idle, bound;

  ps_ways_load_init (&device.work, ways, d);
  device.load = ps_ways_load_least (&device.work);
  for (guint i = 0; i < n_entries (ways); i++)
    if (is_here (&device, i))
      device.begin = MIN (device.begin, ways->arrival[i]);
  for (guint i = 0; i < n_entries (ways); i++)
    if (is_here (&device, i))
      add_stage (&device, i);
  if (device.n == 0)
    return 0;
  device.n_fit = device.n;
  if (device.room != G_MAXINT64 && device.least > 0)
    device.n_fit = MIN (device.n, device.room / device.least);
  idle = warm_up_idle (&device);
  bound = MAX (device.begin + idle + device.load, drain_bound (&device, device.n_fit == device.n ? 0 : idle));
  bound = MAX (bound, area_bound (&device, FALSE));
  if (ways->costs->may_recompute)
    bound = MAX (bound, area_bound (&device, TRUE));
  if (device.work.n > 0)
    bound = MAX (bound, apart_bound (&device));
  for (guint i = 0; i < n_entries (ways); i++)
    if (is_here (&device, i))
      bound = MAX (bound, chain_bound (&device, i));
  return bound - (objective == PS_OBJECTIVE_SPAN ? device.begin : 0);
}

gint64
ps_lower_bound_device (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                       const gint64 *memory_limit, PsObjective objective, guint device)
{
  g_auto (PsWays) ways = { 0 };
  guint first = (n_microbatches + placement->n_copies - 1) / placement->n_copies;
  const guint m[MAX_COPIES] = { first, n_microbatches - first };

  ps_ways_init (&ways, placement, costs, m);
  return device_bound (&ways, device, memory_limit, objective);
}

gint64
ps_lower_bound_within (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                       const gint64 *memory_limit, PsObjective objective)
{
  g_auto (PsWays) ways = { 0 };
  guint first = (n_microbatches + placement->n_copies - 1) / placement->n_copies;
  const guint m[MAX_COPIES] = { first, n_microbatches - first };
  gint64 bound = 0;

  g_return_val_if_fail (placement->n_copies >= 1 && placement->n_copies <= MAX_COPIES, 0);

  ps_ways_init (&ways, placement, costs, m);
  for (guint copy = 0; copy < placement->n_copies && objective == PS_OBJECTIVE_MAKESPAN; copy++)
    if (m[copy] > 0)
      bound = MAX (bound, ps_ways_chain (&ways, copy));
  for (guint d = 0; d < placement->n_devices; d++)
    bound = MAX (bound, device_bound (&ways, d, memory_limit, objective));
  return bound;
}

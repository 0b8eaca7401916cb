/* bound.c - lower bounds on the makespan, also within a memory limit, and on devices whose transfers queue. */
#include "mix.h"

#include <pipesim/bound.h>

#include <math.h>

/* Most weight copies of a placement. */
#define MAX_COPIES 2

/* Arrays marked [i] have an entry i = copy * n_stages + stage. All times are ns. */
typedef struct
{
  const PsPlacement *placement;
  const PsCosts *costs;
  guint m[MAX_COPIES]; /* microbatches of each copy */
  gint64 *least_pair;  /* [n_devices] shortest pair of any stage there; G_MAXINT64: none */
  gint64 *forward;     /* [n_stages] least time from the start of a stage's F to its result */
  gint64 *backward;    /* [i] least time from the start of a stage's B to its gradient */
  gint64 *own;         /* [i] least time from the start of a stage's B to the end of its W */
  gint64 *arrival;     /* [i] earliest start of any F of the stage */
  gint64 *gradient;    /* [i] earliest arrival of any gradient at the stage */
  gint64 *turn;        /* [i] least time from the end of a microbatch's F to the start of its B */
  gint64 *rest;        /* [i] least time from the start of a microbatch's B to the end of its last op anywhere */
} PsWays;

static inline gint64
ps_ways_duration (const PsWays *ways, PsOpKind kind, guint stage)
{
  return ps_costs_op (ways->costs, kind, stage)->duration_ns;
}

/* A stage's whole backward where it is in no pair. */
static inline gint64
ps_ways_backward_alone (const PsWays *ways, guint stage)
{
  return MIN (ps_ways_duration (ways, PS_OP_B, stage) + ps_ways_duration (ways, PS_OP_W, stage),
              ps_ways_duration (ways, PS_OP_BW, stage));
}

/* The work of a device if a given number of its forwards, and as many of its backwards, are in no pair. */
typedef struct
{
  gint64 all;      /* nothing in pairs, every backward in the shorter way */
  guint n;         /* most pairs that save time */
  gint64 *saved;   /* [n + 1] most that this many pairs save together; each adds less than the one before; NULL: none */
  guint n_forward; /* all forwards */
} PsWaysLoad;

/* Least times, stage by stage. */

/* Whether the pairs of any stage have a time of their own. */
static gboolean
costs_have_pair_times (const PsCosts *costs)
{
  for (guint s = 0; s < costs->n_stages; s++)
    if (costs->stage[s].pair_ns >= 0)
      return TRUE;
  return FALSE;
}

static void
ways_clear (PsWays *ways)
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

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsWays, ways_clear)

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

/* Placement and costs must outlive the ways. */
static void
ways_init (PsWays *ways, const PsPlacement *placement, const PsCosts *costs, const guint m[MAX_COPIES])
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

static void
ways_load_init (PsWaysLoad *load, const PsWays *ways, guint device)
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

static void
ways_load_clear (PsWaysLoad *load)
{
  g_free (load->saved);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsWaysLoad, ways_load_clear)

static gint64
ways_load_apart (const PsWaysLoad *load, guint n)
{
  guint pairs = load->n_forward - MIN (n, load->n_forward);

  return load->saved != NULL ? load->all - load->saved[MIN (pairs, load->n)] : load->all;
}

/* The least time for the device's work, and the least if at least n forwards are in no pair. */
static gint64
ways_load_least (const PsWaysLoad *load)
{
  return ways_load_apart (load, 0);
}

/* The way of one microbatch of the copy through all stages and back, if no other comes before it. */
static gint64
ways_chain (const PsWays *ways, guint copy)
{
  guint last = (copy + 1) * ways->placement->n_stages - 1;

  return ways->gradient[last] + ways->rest[last];
}

/* How many microbatches of a device recompute: R saves memory over time, and takes time. */

/* Slices and speeds round R and the ops that it is part of apart, by less than this many ns or bytes. */
#define ROUNDED 2

/* All stages of a device together. */
typedef struct
{
  const PsMix *mix;
  gint64 n;            /* forwards */
  gint64 n_again;      /* of microbatches that may have an R */
  gint64 forward;      /* longest F */
  gint64 kept;         /* least bytes that an F keeps, with an R.. */
  gint64 kept_all;     /* ..and without */
  gint64 most_dropped; /* bytes of any R */
  gint64 again;        /* shortest R */
  PsByteTime area;     /* of all microbatches, without R */
} MixedDevice;

PsOpCost
ps_mix_again (const PsCosts *costs, guint stage)
{
  const PsOpCost *r = ps_costs_op (costs, PS_OP_R, stage);
  guint i = ps_op_index (costs->n_stages, costs->n_lengths, PS_OP_R, 0, stage);
  gint64 duration_ns = r->duration_ns - ps_host_time_sum (ps_costs_host_time (costs, i)) - ROUNDED,
         bytes = r->take_bytes + MIN (ps_costs_act_bytes (costs, stage), 0) - ROUNDED; /* bounds take no act below 0 */

  if (!costs->may_recompute || duration_ns <= 0 || bytes <= 0 || costs_have_pair_times (costs))
    return (PsOpCost){ 0 };
  return (PsOpCost){ duration_ns, bytes, 0 };
}

static MixedDevice
add_up (const PsMix *mix)
{
  MixedDevice device = { .mix = mix, .kept = G_MAXINT64, .kept_all = G_MAXINT64, .again = G_MAXINT64 };

  for (guint i = 0; i < mix->n_stages; i++)
    {
      const PsMixStage *stage = &mix->stage[i];
      gint64 dropped = stage->again.take_bytes;

      device.n += stage->n;
      device.forward = MAX (device.forward, stage->forward);
      device.kept = MIN (device.kept, stage->kept);
      device.kept_all = MIN (device.kept_all, stage->kept + dropped);
      device.area += stage->n * stage->area;
      if (dropped == 0)
        continue;
      device.n_again += stage->n;
      device.most_dropped = MAX (device.most_dropped, dropped);
      device.again = MIN (device.again, stage->again.duration_ns);
    }
  return device;
}

/* How many forwards fit at once, where `pending` of them at most have an R yet to come. */
static gint64
most_forwards (const MixedDevice *device, gint64 pending)
{
  PsByteTime room = device->mix->room, most = device->n;

  if (device->kept > 0)
    most = MIN (most, room / device->kept);
  if (device->kept_all > 0)
    most = MIN (most, (room + (PsByteTime)pending * device->most_dropped) / device->kept_all);
  return (gint64)most;
}

PS_DEFINE_FALLING_ORDER (compare_saved, PsMixStage, saved)

/* Returns the bytes times time that n R ops save at most. `stages` begins with the stage whose R saves most. */
static PsByteTime
most_saved (const PsMixStage *stages, gint64 n)
{
  PsByteTime saved = 0;

  for (; n > 0; n -= stages->n, stages++)
    saved += MIN (n, stages->n) * stages->saved;
  return saved;
}

/* The end if n_again microbatches have an R, in which they hold `area`. Before the first gradient the device starts as
 * many F as fit beside each other, and R are of no use there. */
static gint64
end_with (const MixedDevice *device, gint64 n_again, PsByteTime area)
{
  const PsMix *mix = device->mix;
  PsByteTime forwards = (PsByteTime)most_forwards (device, n_again) * device->forward,
             full = (area + mix->room - 1) / mix->room,
             busy = MAX (mix->gradient - forwards, mix->begin) + mix->load + (PsByteTime)n_again * device->again;

  return (gint64)MIN (MAX (full, busy), G_MAXINT64);
}

gint64
ps_mix_bound (const PsMix *mix)
{
  g_autofree PsMixStage *stages = g_memdup2 (mix->stage, mix->n_stages * sizeof *stages);
  const MixedDevice device = add_up (mix);
  gint64 least = G_MAXINT64;

  qsort (stages, mix->n_stages, sizeof *stages, compare_saved);
  for (gint64 n = 0; n <= device.n_again && mix->begin + mix->load + n * device.again < least; n++)
    least = MIN (least, end_with (&device, n, device.area + mix->empty - most_saved (stages, n)));
  return least;
}

/* A lower bound where transfers queue on channels, or hold up or slow down devices. */

/* Times of a device that cannot overlap: its transfers on one end of a channel, and its work if they hold it up. */
typedef struct
{
  guint end;
  gint64 head; /* earliest start of any */
  gint64 tail; /* least time from the end of any to the end of everything */
  gint64 time; /* all together */
  gint64 each; /* the longest */
} Load;

typedef struct
{
  const PsWays *ways;
  const PsEventsSetting *events;
  const PsChannelModel *model;
  GArray *loads; /* of one device */
  gint64 least;  /* from an end of one of its ops to that of the next, at least */
} Channels;

/* Whether transfers neither queue nor wait. */
static gboolean
are_free (const Channels *channels)
{
  return channels->model->end == NULL && !channels->events->blocking;
}

/* Adds the transfers of a stage in one direction: that of copy and stage i, whose index in the costs is `transfer`. */
static void
add_transfers (Channels *channels, guint i, guint transfer, guint peer, gboolean sends, gint64 head, gint64 tail)
{
  const PsWays *ways = channels->ways;
  gint64 bytes = ways->costs->message_bytes[transfer];
  Load load = { .head = head, .tail = tail, .each = ways->costs->transfer_ns[transfer] };

  if ((ps_events_setting_is_eager (channels->events, bytes) || are_free (channels)) && !sends)
    return;
  /* A pair sends its F's result and its B's at once. */
  if (are_free (channels))
    {
      load.each = MIN (load.each, channels->least);
      load.end = transfer > ways->costs->n_stages;
    }
  else if (!channels->events->blocking)
    load.end = channels->model->end (peer, sends);
  load.time = ways->m[i / ways->placement->n_stages] * load.each;
  g_array_append_val (channels->loads, load);
}

/* Adds both transfers between stage i and the stage above it, as the device of either sees them. */
static void
add_border (Channels *channels, guint i, gboolean below)
{
  const PsWays *ways = channels->ways;
  const guint16 *device = ways->placement->device;
  guint s = i % ways->placement->n_stages, peer = device[below ? i + 1 : i];

  if (device[i] == device[i + 1])
    return;
  add_transfers (channels, i, ps_transfer_forward (ways->costs, s), peer, below, ways->arrival[i] + ways->forward[s],
                 ways->forward[s + 1] + ways->turn[i + 1] + ways->rest[i + 1]);
  add_transfers (channels, i, ps_transfer_backward (ways->costs, s + 1), peer, !below,
                 ways->gradient[i + 1] + ways->backward[i + 1], ways->rest[i]);
}

/* The device's work. */
static Load
work_of (const PsWays *ways, guint device)
{
  g_auto (PsWaysLoad) work = { 0 };
  Load load = { .head = G_MAXINT64 };

  ways_load_init (&work, ways, device);
  load.time = ways_load_least (&work);
  for (guint i = 0; i < ways->placement->n_copies * ways->placement->n_stages; i++)
    if (ways->placement->device[i] == device && ways->m[i / ways->placement->n_stages] > 0)
      load.head = MIN (load.head, ways->arrival[i]);
  return load;
}

/* The work takes longer beside the transfers of an end. One of them may have begun before it. */
static gint64
slowed (const Channels *channels, const Load *work)
{
  gint64 factor = llrint (1000 * channels->events->overlap_slowdown), most = 0;

  if (factor <= 1000)
    return 0;
  for (guint a = 0; a < channels->loads->len; a++)
    {
      gint64 time = 0, longest = 0;

      for (guint i = 0; i < channels->loads->len; i++)
        {
          const Load *load = &g_array_index (channels->loads, Load, i);

          if (load->end != g_array_index (channels->loads, Load, a).end)
            continue;
          time += load->time;
          longest = MAX (longest, load->each);
        }
      most = MAX (most, time - longest);
    }
  return work->head + work->time + most / factor * (factor - 1000) + most % factor * (factor - 1000) / factor;
}

/* Any loads of one end that start at `head` or later and have a tail of `tail` or more. */
static gint64
longest_load (const GArray *loads)
{
  gint64 longest = 0;

#define LOAD(i) (&g_array_index (loads, Load, i))
  for (guint a = 0; a < loads->len; a++)
    for (guint b = 0; b < loads->len; b++)
      {
        gint64 head = LOAD (a)->head, tail = LOAD (b)->tail, time = 0;

        for (guint i = 0; i < loads->len; i++)
          if (LOAD (i)->end == LOAD (a)->end && LOAD (i)->head >= head && LOAD (i)->tail >= tail)
            time += LOAD (i)->time;
        if (time > 0)
          longest = MAX (longest, head + time + tail);
      }
#undef LOAD
  return longest;
}

static gint64
busy_channels_bound (Channels *channels, guint device)
{
  const PsWays *ways = channels->ways;
  const PsPlacement *placement = ways->placement;
  const Load work = work_of (ways, device);

  if (work.head == G_MAXINT64)
    return 0;
  g_array_set_size (channels->loads, 0);
  channels->least = G_MAXINT64;
  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++)
    if (placement->device[i] == device)
      channels->least = MIN (channels->least, MIN (ways->forward[i % placement->n_stages], ways->backward[i]));
  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++)
    {
      if (placement->device[i] != device || ways->m[i / placement->n_stages] == 0)
        continue;
      if ((i + 1) % placement->n_stages != 0)
        add_border (channels, i, TRUE);
      if (i % placement->n_stages != 0)
        add_border (channels, i - 1, FALSE);
    }
  if (channels->events->blocking)
    g_array_append_val (channels->loads, work);
  return MAX (longest_load (channels->loads), channels->events->blocking ? 0 : slowed (channels, &work));
}

gint64
ps_lower_bound_channels (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                         const PsEventsSetting *events)
{
  g_auto (PsWays) ways = { 0 };
  g_autoptr (GArray) loads = g_array_new (FALSE, FALSE, sizeof (Load));
  guint first = (n_microbatches + placement->n_copies - 1) / placement->n_copies, n_models;
  const guint m[MAX_COPIES] = { first, n_microbatches - first };
  Channels channels = { &ways, events, &ps_channel_table (&n_models)[events->comm], loads, 0 };
  gint64 bound = 0;

  if ((are_free (&channels) && events->overlap_slowdown <= 1) || events->links != NULL)
    return 0;
  ways_init (&ways, placement, costs, m);
  for (guint d = 0; d < placement->n_devices; d++)
    bound = MAX (bound, busy_channels_bound (&channels, d));
  return bound;
}

/* A lower bound for all schedules within a memory limit. */

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

      least = MIN (least, ways_load_apart (&device->work, n) + idle);
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
  ways_load_clear (&device->work);
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

  ways_load_init (&device.work, ways, d);
  device.load = ways_load_least (&device.work);
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

  ways_init (&ways, placement, costs, m);
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

  ways_init (&ways, placement, costs, m);
  for (guint copy = 0; copy < placement->n_copies && objective == PS_OBJECTIVE_MAKESPAN; copy++)
    if (m[copy] > 0)
      bound = MAX (bound, ways_chain (&ways, copy));
  for (guint d = 0; d < placement->n_devices; d++)
    bound = MAX (bound, device_bound (&ways, d, memory_limit, objective));
  return bound;
}

static gint64
device_load (const PsWays *ways, guint device)
{
  g_auto (PsWaysLoad) load = { 0 };

  ways_load_init (&load, ways, device);
  return ways_load_least (&load);
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
      last = MAX (last, ways_chain (ways, c));
  return MAX (last, sum / n_devices);
}

gint64
ps_lower_bound (const PsPlacement *placement, const guint8 *copy, guint n_microbatches, const PsCosts *costs)
{
  const More none = { 0 };
  g_auto (PsWays) ways = { 0 };
  guint m[MAX_COPIES] = { 0 };

  count_microbatches (copy, n_microbatches, m);
  ways_init (&ways, placement, costs, m);
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

      ways_init (&ways, placement, alike, m);
      for (guint copy = 0; copy < placement->n_copies; copy++)
        least = MIN (least, ways_chain (&ways, copy));
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
  ways_init (&ways, schedule->placement, least != NULL ? least : costs, m);
  if (schedule->recomputes)
    count_again (schedule, costs, &more);
  if (least != NULL && !costs_have_pair_times (costs))
    {
      count_longer (schedule, costs, least, &more);
      chain = overlaps || schedule->recomputes ? 0 : longest_chain (schedule->placement, costs, m);
    }
  return MAX (chain, longest (&ways, &more, overlaps));
}

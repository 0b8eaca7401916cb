/* bound.c - lower bounds on the makespan, also within a memory limit, and on devices whose transfers queue. */
#include <pipesim/bound.h>

#include <math.h>

/* Bytes times time. */
__extension__ typedef __int128 Wide;

/* Most weight copies of a placement. */
#define MAX_COPIES 2

/* Of a stage of a weight copy. All times are ns. */
typedef struct {
  gint64 backward;   /* least time from the start of a B to its gradient */
  gint64 own;        /* least time from the start of a B to the end of its W */
  gint64 arrival;    /* earliest start of any F */
  gint64 gradient;   /* earliest arrival of any gradient */
  gint64 round_trip; /* least time from the end of a microbatch's F to the start of its B */
  gint64 rest;       /* least time from the start of a microbatch's B to the end of its last op anywhere */
} StageTimes;

/* Arrays marked [i] have an entry i = copy * n_stages + stage. */
typedef struct {
  const PsPlacement *placement;
  const PsCosts *costs;
  guint m[MAX_COPIES]; /* microbatches of each copy */
  gint64 *least_pair;  /* [n_devices] shortest pair of any stage there; G_MAXINT64: none */
  gint64 *forward;     /* [n_stages] least time from the start of a stage's F to its result */
  StageTimes *at;      /* [i] */
} LeastTimes;

static inline gint64 duration_of (const LeastTimes *times, PsOpKind kind, guint stage)
{
  return ps_costs_op (times->costs, kind, stage)->duration_ns;
}

static guint n_entries (const LeastTimes *times)
{
  return times->placement->n_copies * times->placement->n_stages;
}

/* Whether entry i is a stage of the device that has microbatches. */
static gboolean is_on (const LeastTimes *times, guint device, guint i)
{
  return times->placement->device[i] == device && times->m[i / times->placement->n_stages] > 0;
}

/* When any stage of the device has its first microbatch; G_MAXINT64: it has none. */
static gint64 first_arrival (const LeastTimes *times, guint device)
{
  gint64 begin = G_MAXINT64;

  for (guint i = 0; i < n_entries (times); i++)
    if (is_on (times, device, i))
      begin = MIN (begin, times->at[i].arrival);
  return begin;
}

/* The work of a device if a given number of its forwards, and as many of its backwards, are in no pair. */
typedef struct {
  gint64 all;      /* nothing in pairs, every backward as the shorter of B + W and BW */
  guint n;         /* most pairs that save time */
  gint64 *saved;   /* [n + 1] most that this many pairs save together; each adds less than the one before; NULL: none */
  guint n_forward; /* all forwards */
} Work;

/* Microbatches of each copy where each has half of them, the first one more of an odd number. */
static void share_evenly (const PsPlacement *placement, guint n_microbatches, guint m[MAX_COPIES])
{
  m[0] = (n_microbatches + placement->n_copies - 1) / placement->n_copies;
  m[1] = n_microbatches - m[0];
}

/* Least times, stage by stage. */

/* Whether the pairs of any stage have a time of their own. */
static gboolean costs_have_pair_times (const PsCosts *costs)
{
  for (guint s = 0; s < costs->n_stages; s++)
    if (costs->stage[s].pair_ns >= 0)
      return TRUE;
  return FALSE;
}

static void least_times_clear (LeastTimes *times)
{
  g_free (times->least_pair);
  g_free (times->forward);
  g_free (times->at);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LeastTimes, least_times_clear)

/* Time of a transfer from a stage to the one above it, or back. */
static gint64 hop (const LeastTimes *times, guint copy, guint stage, gboolean back)
{
  const PsCosts *costs = times->costs;

  if (ps_placement_device (times->placement, copy, stage) == ps_placement_device (times->placement, copy, stage + 1))
    return 0;
  return costs->transfer_ns[back ? ps_transfer_backward (costs, stage + 1) : ps_transfer_forward (costs, stage)];
}

static void set_ops (LeastTimes *times)
{
  const PsPlacement *placement = times->placement;
  const PsStageCost *stage = times->costs->stage;
  guint n = placement->n_stages;

  for (guint d = 0; d < placement->n_devices; d++)
    times->least_pair[d] = G_MAXINT64;
  for (guint i = 0; i < placement->n_copies * n; i++)
    if (stage[i % n].pair_ns >= 0)
      times->least_pair[placement->device[i]] = MIN (times->least_pair[placement->device[i]], stage[i % n].pair_ns);
  for (guint s = 0; s < n; s++) {
    gint64 alone = duration_of (times, PS_OP_F, s);

    times->forward[s] = stage[s].pair_ns >= 0 ? MIN (alone, stage[s].pair_ns) : alone;
  }
  for (guint i = 0; i < placement->n_copies * n; i++) {
    gint64 joined = MIN (duration_of (times, PS_OP_BW, i % n), times->least_pair[placement->device[i]]);

    times->at[i].backward = MIN (duration_of (times, PS_OP_B, i % n), joined);
    times->at[i].own = MIN (ps_costs_backward_ns (times->costs, 0, i % n), joined);
  }
}

/* The earliest end of an F of the last stage. The first of them meets no backward before, so it is in no pair. */
static gint64 first_forward_end (const LeastTimes *times)
{
  guint last = times->placement->n_stages - 1;
  gint64 least = G_MAXINT64;

  for (guint copy = 0; copy < times->placement->n_copies; copy++) {
    gint64 time = duration_of (times, PS_OP_F, last);

    for (guint s = 0; s < last; s++)
      time += duration_of (times, PS_OP_F, s) + hop (times, copy, s, FALSE);
    if (times->m[copy] > 0)
      least = MIN (least, time);
  }
  return least;
}

/* Sets arrivals and gradients. Forwards before the first F of the last stage ends are in no pair. */
static void set_arrivals (LeastTimes *times, guint copy, gint64 first)
{
  guint last = times->placement->n_stages - 1, base = copy * (last + 1);
  gint64 alone = 0, least = 0;

  for (guint s = 0; s <= last; s++) {
    times->at[base + s].arrival = MAX (least, MIN (alone, first));
    alone += duration_of (times, PS_OP_F, s) + (s < last ? hop (times, copy, s, FALSE) : 0);
    least += times->forward[s] + (s < last ? hop (times, copy, s, FALSE) : 0);
  }
  times->at[base + last].gradient = MAX (least, first);
  for (guint s = last; s-- > 0;)
    times->at[base + s].gradient
        = times->at[base + s + 1].gradient + times->at[base + s + 1].backward + hop (times, copy, s, TRUE);
}

static void set_rests (LeastTimes *times, guint copy)
{
  guint n = times->placement->n_stages, base = copy * n;

  times->at[base].rest = times->at[base].own;
  for (guint s = 1; s < n; s++) {
    gint64 below = hop (times, copy, s - 1, TRUE) + times->at[base + s - 1].rest;
    gint64 joined = MIN (duration_of (times, PS_OP_BW, s), times->least_pair[times->placement->device[base + s]]);

    times->at[base + s].rest
        = MIN (duration_of (times, PS_OP_B, s) + MAX (duration_of (times, PS_OP_W, s), below), joined + below);
  }
  for (guint s = n - 1; s-- > 0;)
    times->at[base + s].round_trip = hop (times, copy, s, FALSE) + times->forward[s + 1]
                                     + times->at[base + s + 1].round_trip + times->at[base + s + 1].backward
                                     + hop (times, copy, s, TRUE);
}

/* Placement and costs must outlive the times. */
static void least_times_init (LeastTimes *times, const PsPlacement *placement, const PsCosts *costs,
                              const guint m[MAX_COPIES])
{
  guint n = placement->n_copies * placement->n_stages;
  gint64 first;

  *times = (LeastTimes){ .placement = placement, .costs = costs };
  for (guint copy = 0; copy < placement->n_copies; copy++)
    times->m[copy] = m[copy];
  times->least_pair = g_new (gint64, placement->n_devices);
  times->forward = g_new (gint64, placement->n_stages);
  times->at = g_new0 (StageTimes, n);
  set_ops (times);
  first = first_forward_end (times);
  for (guint copy = 0; copy < placement->n_copies; copy++) {
    set_arrivals (times, copy, first);
    set_rests (times, copy);
  }
}

/* `n` ops that are worth the same. */
typedef struct {
  gint64 worth;
  guint n;
} Share;

PS_DEFINE_ORDER (compare_rising, Share, worth)

PS_DEFINE_FALLING_ORDER (compare_falling, Share, worth)

/* Sets what pairs save at most. A pair takes `more` than its F alone and saves a backward; the cheapest such F goes
 * with the longest backward, as long as that saves time. */
static void save_most (Work *load, GArray *more, GArray *backward)
{
  guint i = 0, k = 0;

  g_array_sort (more, compare_rising);
  g_array_sort (backward, compare_falling);
  while (i < more->len && k < backward->len) {
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
static void set_saved (Work *load, const LeastTimes *times, guint device)
{
  g_autoptr (GArray) more = g_array_new (FALSE, FALSE, sizeof (Share));
  g_autoptr (GArray) backward = g_array_new (FALSE, FALSE, sizeof (Share));
  guint n = times->placement->n_stages;

  load->saved = g_new0 (gint64, (gsize)load->n_forward + 1);
  for (guint i = 0; i < times->placement->n_copies * n; i++) {
    guint s = i % n, m = times->m[i / n];
    Share cost = { ps_costs_pair_more_ns (times->costs, s), m };
    Share gain = { ps_costs_backward_ns (times->costs, 0, s), m };

    if (times->placement->device[i] != device || m == 0)
      continue;
    g_array_append_val (backward, gain);
    g_array_append_val (more, cost);
  }
  save_most (load, more, backward);
}

static void work_init (Work *load, const LeastTimes *times, guint device)
{
  guint n = times->placement->n_stages;

  *load = (Work){ 0 };
  for (guint i = 0; i < times->placement->n_copies * n; i++)
    if (times->placement->device[i] == device) {
      load->all
          += times->m[i / n] * (duration_of (times, PS_OP_F, i % n) + ps_costs_backward_ns (times->costs, 0, i % n));
      load->n_forward += times->m[i / n];
    }
  if (times->least_pair[device] < G_MAXINT64)
    set_saved (load, times, device);
}

static void work_clear (Work *load)
{
  g_free (load->saved);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Work, work_clear)

/* The least time for the device's work if at least n forwards are in no pair. */
static gint64 work_apart (const Work *load, guint n)
{
  guint pairs = load->n_forward - MIN (n, load->n_forward);

  return load->saved != NULL ? load->all - load->saved[MIN (pairs, load->n)] : load->all;
}

/* The least time for all work of a device. */
static gint64 device_load (const LeastTimes *times, guint device)
{
  g_auto (Work) load = { 0 };

  work_init (&load, times, device);
  return work_apart (&load, 0);
}

/* Least time of one microbatch of the copy through all stages and back, if no other comes before it. */
static gint64 chain_ns (const LeastTimes *times, guint copy)
{
  guint last = (copy + 1) * times->placement->n_stages - 1;

  return times->at[last].gradient + times->at[last].rest;
}

/* A lower bound where transfers queue on channels, or hold up or slow down devices. */

/* Times of a device that cannot overlap: its transfers on one end of a channel, and its work if they hold it up. */
typedef struct {
  guint end;
  gint64 earliest; /* start of any */
  gint64 after;    /* least time from the end of any to the end of everything */
  gint64 time;     /* all together */
  gint64 each;     /* the longest */
} Load;

typedef struct {
  const LeastTimes *times;
  const PsEventsSetting *events;
  const PsChannelModel *model;
  GArray *loads; /* of one device */
  gint64 least;  /* from an end of one of its ops to that of the next, at least */
} Channels;

/* Whether transfers neither queue nor wait. */
static gboolean are_free (const Channels *channels)
{
  return channels->model->end == NULL && !channels->events->blocking;
}

/* Adds the transfers of a stage in one direction: that of copy and stage i, whose index in the costs is `transfer`. */
static void add_transfers (Channels *channels, guint i, guint transfer, guint peer, gboolean sends, gint64 earliest,
                           gint64 after)
{
  const LeastTimes *times = channels->times;
  gint64 bytes = times->costs->message_bytes[transfer];
  Load load = { .earliest = earliest, .after = after, .each = times->costs->transfer_ns[transfer] };

  if ((ps_events_setting_is_eager (channels->events, bytes) || are_free (channels)) && !sends)
    return;
  /* A pair sends its F's result and its B's at once. */
  if (are_free (channels)) {
    load.each = MIN (load.each, channels->least);
    load.end = transfer > times->costs->n_stages;
  } else if (!channels->events->blocking)
    load.end = channels->model->end (peer, sends);
  load.time = times->m[i / times->placement->n_stages] * load.each;
  g_array_append_val (channels->loads, load);
}

/* Adds both transfers between stage i and the stage above it, as the device of either sees them. */
static void add_border (Channels *channels, guint i, gboolean below)
{
  const LeastTimes *times = channels->times;
  const guint16 *device = times->placement->device;
  guint s = i % times->placement->n_stages, peer = device[below ? i + 1 : i];

  if (device[i] == device[i + 1])
    return;
  add_transfers (channels, i, ps_transfer_forward (times->costs, s), peer, below,
                 times->at[i].arrival + times->forward[s],
                 times->forward[s + 1] + times->at[i + 1].round_trip + times->at[i + 1].rest);
  add_transfers (channels, i, ps_transfer_backward (times->costs, s + 1), peer, !below,
                 times->at[i + 1].gradient + times->at[i + 1].backward, times->at[i].rest);
}

/* The work takes longer while an end has transfers. One of them may have begun before it. */
static gint64 slowed (const Channels *channels, const Load *work)
{
  gint64 factor = llrint (1000 * channels->events->overlap_slowdown), most = 0;

  if (factor <= 1000)
    return 0;
  for (guint a = 0; a < channels->loads->len; a++) {
    gint64 time = 0, longest = 0;

    for (guint i = 0; i < channels->loads->len; i++) {
      const Load *load = &g_array_index (channels->loads, Load, i);

      if (load->end != g_array_index (channels->loads, Load, a).end)
        continue;
      time += load->time;
      longest = MAX (longest, load->each);
    }
    most = MAX (most, time - longest);
  }
  return work->earliest + work->time + most / factor * (factor - 1000) + most % factor * (factor - 1000) / factor;
}

/* Any loads of one end that start at `earliest` or later and have `after` or more after them. */
static gint64 longest_load (const GArray *loads)
{
  gint64 longest = 0;

#define LOAD(i) (&g_array_index (loads, Load, i))
  for (guint a = 0; a < loads->len; a++)
    for (guint b = 0; b < loads->len; b++) {
      gint64 earliest = LOAD (a)->earliest, after = LOAD (b)->after, time = 0;

      for (guint i = 0; i < loads->len; i++)
        if (LOAD (i)->end == LOAD (a)->end && LOAD (i)->earliest >= earliest && LOAD (i)->after >= after)
          time += LOAD (i)->time;
      if (time > 0)
        longest = MAX (longest, earliest + time + after);
    }
#undef LOAD
  return longest;
}

static gint64 busy_channels_bound (Channels *channels, guint device)
{
  const LeastTimes *times = channels->times;
  const PsPlacement *placement = times->placement;
  const Load work = { .earliest = first_arrival (times, device), .time = device_load (times, device) };

  if (work.earliest == G_MAXINT64)
    return 0;
  g_array_set_size (channels->loads, 0);
  channels->least = G_MAXINT64;
  for (guint i = 0; i < n_entries (times); i++)
    if (placement->device[i] == device)
      channels->least = MIN (channels->least, MIN (times->forward[i % placement->n_stages], times->at[i].backward));
  for (guint i = 0; i < n_entries (times); i++) {
    if (!is_on (times, device, i))
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

gint64 ps_lower_bound_channels (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                                const PsEventsSetting *events, const PsChannelModel *model)
{
  g_auto (LeastTimes) times = { 0 };
  g_autoptr (GArray) loads = g_array_new (FALSE, FALSE, sizeof (Load));
  guint m[MAX_COPIES];
  Channels channels = { &times, events, model, loads, 0 };
  gint64 bound = 0;

  if ((are_free (&channels) && events->overlap_slowdown <= 1) || events->links != NULL)
    return 0;
  share_evenly (placement, n_microbatches, m);
  least_times_init (&times, placement, costs, m);
  for (guint d = 0; d < placement->n_devices; d++)
    bound = MAX (bound, busy_channels_bound (&channels, d));
  return bound;
}

/* A lower bound for all schedules within a memory limit. */

/* The work of one device, and what its memory allows. */
typedef struct {
  const LeastTimes *times;
  PsObjective objective;
  guint d;
  gint64 begin;    /* arrival of its first microbatch */
  gint64 gradient; /* earliest arrival of a gradient; for spans, counted with the device's first op at `begin` */
  const Work *work;
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

/* Least time from the start of a B to the end of the last op that counts: on any device for makespans, on its own for
 * spans. */
static gint64 rest_of (const Device *device, guint i)
{
  return device->objective == PS_OBJECTIVE_MAKESPAN ? device->times->at[i].rest : device->times->at[i].own;
}

/* The work that `bytes` of memory stand for, if `each` bytes stand for work_ns. */
static gint64 work_held (gint64 bytes, gint64 each, gint64 work_ns)
{
  if (bytes == G_MAXINT64 || (each <= 0 && work_ns > 0))
    return G_MAXINT64;
  return work_ns > 0 ? (gint64)((Wide)bytes * work_ns / each) : 0;
}

/* With two weight copies a device may start with either one, so for spans no arrival time of the other copy is
 * certain. */
static gboolean begins_anywhere (const Device *device)
{
  return device->times->placement->n_copies > 1 && device->objective == PS_OBJECTIVE_SPAN;
}

static gint64 arrival_at (const Device *device, guint i)
{
  return begins_anywhere (device) ? device->begin : device->times->at[i].arrival;
}

static gint64 gradient_at (const Device *device, guint i)
{
  const LeastTimes *times = device->times;

  return begins_anywhere (device)
             ? device->begin + times->forward[i % times->placement->n_stages] + times->at[i].round_trip
             : times->at[i].gradient;
}

static void add_stage (Device *device, guint i)
{
  const LeastTimes *times = device->times;
  guint stage = i % times->placement->n_stages, m = times->m[i / times->placement->n_stages];
  gint64 f = duration_of (times, PS_OP_F, stage), act = ps_costs_act_bytes (times->costs, stage);

  device->gradient = MIN (device->gradient, gradient_at (device, i));
  device->forwards += m * f;
  device->n += m;
  device->longest = MAX (device->longest, f);
  device->backward = MAX (device->backward, ps_costs_backward_ns (times->costs, 0, stage));
  device->least = MIN (device->least, act);
  device->to_come = MAX (device->to_come, work_held (device->room, act, ps_costs_backward_ns (times->costs, 0, stage)));
  device->to_come = MAX (device->to_come, work_held (device->room, ps_costs_wact_bytes (times->costs, stage),
                                                     duration_of (times, PS_OP_W, stage)));
}

/* The time of n ops, or any that is longer than all of them. */
static gint64 time_of (gint64 n, gint64 each)
{
  gint64 time;

  return __builtin_mul_overflow (n, each, &time) ? G_MAXINT64 : time;
}

/* Idle time before the first gradient can arrive. */
static gint64 warm_up_idle (const Device *device)
{
  return MAX (device->gradient - device->begin - MIN (device->forwards, time_of (device->n_fit, device->longest)), 0);
}

/* Least time after the end of the device's last F, for the best stage of that F. */
static gint64 least_after (const Device *device)
{
  gint64 least = G_MAXINT64;

  for (guint i = 0; i < n_entries (device->times); i++)
    if (is_on (device->times, device->d, i))
      least = MIN (least, device->times->at[i].round_trip + rest_of (device, i));
  return least;
}

/* Bound by the end: after the last F at most the work that `room` stands for is left. */
static gint64 drain_bound (const Device *device, gint64 idle)
{
  if (device->to_come == G_MAXINT64)
    return 0;
  return device->begin + idle + MAX (device->load - device->to_come, 0) + least_after (device);
}

/* Bound by pairs: none runs before the first gradient or after the last F. There, for any n, the device does at most n
 * forwards and n backwards apart, or is idle. If all are apart, both may be the same time. */
static gint64 apart_bound (const Device *device)
{
  gint64 front = device->gradient - device->begin, rest = least_after (device), least = G_MAXINT64;

  for (guint n = 0; n <= device->work->n_forward; n++) {
    gint64 before = MAX (front - time_of (MIN (n, device->n_fit), device->longest), 0),
           after = MAX (rest - time_of (n, device->backward), 0);
    gint64 idle = n < device->work->n_forward ? before + after : MAX (before, after);

    least = MIN (least, work_apart (device->work, n) + idle);
  }
  return device->begin + least;
}

static gint64 room_of (const LeastTimes *times, guint d, const gint64 *memory_limit)
{
  gint64 room = memory_limit != NULL ? memory_limit[d] : G_MAXINT64;

  if (room == G_MAXINT64)
    return G_MAXINT64;
  for (guint i = 0; i < n_entries (times); i++)
    if (times->placement->device[i] == d)
      room -= ps_costs_held_bytes (times->costs, i % times->placement->n_stages, 1);
  return MAX (room, 0);
}

/* Bound by one stage, which microbatches pass one after the other: the last one's F comes after all others, the first
 * one's B before all others. */
static gint64 chain_bound (const Device *device, guint i)
{
  const LeastTimes *times = device->times;
  gint64 f = times->forward[i % times->placement->n_stages];

  return arrival_at (device, i) + f + times->at[i].round_trip + rest_of (device, i)
         + (gint64)(times->m[i / times->placement->n_stages] - 1) * MAX (f, times->at[i].backward);
}

/* Least bytes times time that a microbatch holds on a stage. */
static Wide held_by_one (const Device *device, guint i)
{
  const LeastTimes *times = device->times;
  guint stage = i % times->placement->n_stages;
  gint64 act = MAX (ps_costs_act_bytes (times->costs, stage), 0),
         wact = MAX (ps_costs_wact_bytes (times->costs, stage), 0);
  gint64 joined = MIN (duration_of (times, PS_OP_BW, stage), times->least_pair[device->d]);
  Wide apart = (Wide)act * duration_of (times, PS_OP_B, stage) + (Wide)wact * duration_of (times, PS_OP_W, stage);

  return (Wide)act * (times->at[i].round_trip + times->forward[stage]) + MIN (apart, (Wide)act * joined);
}

/* Bound by area: bytes held, times the least time that they are held, divided by the bytes that fit at once. */
static gint64 area_bound (const Device *device)
{
  const LeastTimes *times = device->times;
  Wide held = 0;

  if (device->room == G_MAXINT64 || device->room == 0)
    return 0;
  for (guint i = 0; i < n_entries (times); i++)
    if (is_on (device->times, device->d, i))
      held += times->m[i / times->placement->n_stages] * held_by_one (device, i);
  return (gint64)MIN (device->begin + (held + device->room - 1) / device->room, G_MAXINT64);
}

static gint64 device_bound (const LeastTimes *times, guint d, const gint64 *memory_limit, PsObjective objective)
{
  g_auto (Work) work = { 0 };
  Device device = { .times = times,
                    .work = &work,
                    .objective = objective,
                    .d = d,
                    .begin = first_arrival (times, d),
                    .gradient = G_MAXINT64,
                    .least = G_MAXINT64,
                    .room = room_of (times, d, memory_limit) };
  gint64 idle, bound;

  work_init (&work, times, d);
  device.load = work_apart (&work, 0);
  for (guint i = 0; i < n_entries (times); i++)
    if (is_on (times, d, i))
      add_stage (&device, i);
  if (device.n == 0)
    return 0;
  device.n_fit = device.n;
  if (device.room != G_MAXINT64 && device.least > 0)
    device.n_fit = MIN (device.n, device.room / device.least);
  idle = warm_up_idle (&device);
  bound = MAX (device.begin + idle + device.load, drain_bound (&device, device.n_fit == device.n ? 0 : idle));
  bound = MAX (bound, area_bound (&device));
  if (work.n > 0)
    bound = MAX (bound, apart_bound (&device));
  for (guint i = 0; i < n_entries (times); i++)
    if (is_on (times, d, i))
      bound = MAX (bound, chain_bound (&device, i));
  return bound - (objective == PS_OBJECTIVE_SPAN ? device.begin : 0);
}

gint64 ps_lower_bound_within (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                              const gint64 *memory_limit, PsObjective objective)
{
  g_auto (LeastTimes) times = { 0 };
  guint m[MAX_COPIES];
  gint64 bound = 0;

  g_return_val_if_fail (placement->n_copies >= 1 && placement->n_copies <= MAX_COPIES, 0);
  share_evenly (placement, n_microbatches, m);
  least_times_init (&times, placement, costs, m);
  for (guint copy = 0; copy < placement->n_copies && objective == PS_OBJECTIVE_MAKESPAN; copy++)
    if (m[copy] > 0)
      bound = MAX (bound, chain_ns (&times, copy));
  for (guint d = 0; d < placement->n_devices; d++)
    bound = MAX (bound, device_bound (&times, d, memory_limit, objective));
  return bound;
}

/* Work that the times do not count. */
typedef struct {
  gint64 *device; /* [n_devices] of each device */
  gint64 shared;  /* of all devices together, however they share it */
} More;

/* Least time after the last op of a device, where every op is an F. Slices go in order, so that this is the F of some
 * microbatch's last slice, which then goes through the stages above. */
static gint64 least_rest (const PsSchedule *schedule, const PsCosts *costs, guint device)
{
  const PsPlacement *placement = schedule->placement;
  guint n_stages = placement->n_stages, n = costs->n_lengths;
  gint64 least = G_MAXINT64;

  for (guint i = 0; i < schedule->n_microbatches; i++) {
    guint copy = ps_schedule_weight_copy (schedule, i), stage = n_stages;
    gint64 rest = 0;

    while (stage-- > 0 && ps_placement_device (placement, copy, stage) != device) {
      PsOp op = { .slice = (guint8)(ps_schedule_slices (schedule, i) - 1),
                  .stage = (guint16)stage,
                  .microbatch = i & G_MAXINT32 };
      guint length = schedule->length != NULL ? schedule->length[ps_schedule_cell (schedule, op)] : 0;

      rest += costs->op[ps_op_index (n_stages, n, PS_OP_F, length, stage)].duration_ns;
      if (stage > 0 && ps_placement_device (placement, copy, stage - 1) != ps_placement_device (placement, copy, stage))
        rest += costs->transfer_ns[2 * length * n_stages + ps_transfer_forward (costs, stage - 1)];
    }
    least = MIN (least, stage < n_stages ? rest : G_MAXINT64);
  }
  return least != G_MAXINT64 ? least : 0;
}

/* The busiest device ends no earlier than all devices on average. */
static gint64 longest (const LeastTimes *times, const More *more, gboolean overlaps)
{
  guint n_devices = times->placement->n_devices;
  gint64 last = 0, sum = more->shared;

  for (guint d = 0; d < n_devices; d++) {
    gint64 begin = overlaps ? G_MAXINT64 : first_arrival (times, d);
    gint64 end = (begin != G_MAXINT64 ? begin : 0) + device_load (times, d) + more->device[d];

    last = MAX (last, end);
    sum += end;
  }
  for (guint c = 0; c < times->placement->n_copies && !overlaps; c++)
    if (times->m[c] > 0)
      last = MAX (last, chain_ns (times, c));
  return MAX (last, sum / n_devices);
}

/* F and the whole backward of a microbatch on a stage, in no pair. */
static gint64 work_ns (const PsCosts *costs, guint length, guint stage)
{
  return costs->op[ps_op_index (costs->n_stages, costs->n_lengths, PS_OP_F, length, stage)].duration_ns
         + ps_costs_backward_ns (costs, length, stage);
}

/* The same for the longest microbatch, which has its length on all stages. */
static gint64 longest_chain (const PsPlacement *placement, const PsCosts *costs, const guint *m)
{
  gint64 last = 0;

  for (guint k = 0; k < costs->n_lengths; k++) {
    g_autoptr (PsCosts) alike = ps_costs_of_length (costs, k);
    g_auto (LeastTimes) times = { 0 };
    gint64 least = G_MAXINT64;

    least_times_init (&times, placement, alike, m);
    for (guint copy = 0; copy < placement->n_copies; copy++)
      least = MIN (least, chain_ns (&times, copy));
    last = MAX (last, least);
  }
  return last;
}

/* Two copies may share the microbatches as they like. */
static gint64 *more_of (More *more, const PsPlacement *placement, guint device)
{
  return placement->n_copies == 1 ? &more->device[device] : &more->shared;
}

/* Adds the work beyond that of the least costs. */
static void count_longer (const PsSchedule *schedule, const PsCosts *costs, const PsCosts *least, More *more)
{
  const PsPlacement *placement = schedule->placement;

  for (guint s = 0; s < costs->n_stages; s++)
    for (guint i = 0; i < schedule->n_microbatches * schedule->n_slices; i++) {
      guint16 length = schedule->length[s * schedule->n_microbatches * schedule->n_slices + i];
      gint64 ns = work_ns (costs, length, s) - work_ns (least, 0, s);

      if (i % schedule->n_slices < ps_schedule_slices (schedule, i / schedule->n_slices))
        *more_of (more, placement, placement->device[s]) += ns;
    }
}

/* Adds the time of the schedule's R. None is part of a pair. */
static void count_again (const PsSchedule *schedule, const PsCosts *costs, More *more)
{
  for (guint d = 0; d < schedule->placement->n_devices; d++)
    for (guint i = schedule->first[d]; i < schedule->first[d + 1]; i++) {
      PsOp op = schedule->ops[i];
      guint length = costs->n_lengths > 1 ? schedule->length[ps_schedule_cell (schedule, op)] : 0;

      if (op.kind == PS_OP_R)
        *more_of (more, schedule->placement, d)
            += costs->op[ps_op_index (costs->n_stages, costs->n_lengths, PS_OP_R, length, op.stage)].duration_ns;
    }
}

gint64 ps_schedule_bound (const PsSchedule *schedule, const PsCosts *costs, gboolean overlaps)
{
  g_auto (LeastTimes) times = { 0 };
  g_autoptr (PsCosts) least = costs->n_lengths > 1 ? ps_costs_least (costs) : NULL;
  g_autofree gint64 *device = g_new0 (gint64, schedule->placement->n_devices);
  More more = { device, 0 };
  guint m[MAX_COPIES] = { 0 };
  gint64 chain = 0;

  for (guint i = 0; i < schedule->n_microbatches; i++)
    m[ps_schedule_weight_copy (schedule, i)] += ps_schedule_slices (schedule, i);
  least_times_init (&times, schedule->placement, least != NULL ? least : costs, m);
  if (schedule->recomputes)
    count_again (schedule, costs, &more);
  if (least != NULL && !costs_have_pair_times (costs)) {
    count_longer (schedule, costs, least, &more);
    chain = overlaps || schedule->recomputes ? 0 : longest_chain (schedule->placement, costs, m);
  }
  for (guint d = 0; d < schedule->placement->n_devices && schedule->forward_only && !overlaps; d++)
    device[d] += least_rest (schedule, costs, d);
  return MAX (chain, longest (&times, &more, overlaps));
}

/* bound-channels.c - a lower bound where transfers queue on channels, or hold up or slow down devices. */
#include "ways.h"

#include <math.h>

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

  ps_ways_load_init (&work, ways, device);
  load.time = ps_ways_load_least (&work);
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
device_bound (Channels *channels, guint device)
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
  ps_ways_init (&ways, placement, costs, m);
  for (guint d = 0; d < placement->n_devices; d++)
    bound = MAX (bound, device_bound (&channels, d));
  return bound;
}

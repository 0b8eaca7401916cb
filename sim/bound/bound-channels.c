/* bound-channels.c - a lower bound where transfers queue on channels or hold up devices. */
#include "ways.h"

/* Times of a device that cannot overlap: its transfers on one end of a channel, and its work if they hold it up. */
typedef struct
{
  guint end;
  gint64 head; /* earliest start of any */
  gint64 tail; /* least time from the end of any to the end of everything */
  gint64 time; /* all together */
} Load;

typedef struct
{
  const PsWays *ways;
  const PsEventsSetting *events;
  const PsChannelModel *model;
  GArray *loads; /* of one device */
} Channels;

/* Adds the transfers of a stage in one direction: that of copy and stage i, whose index in the costs is `transfer`. */
static void
add_transfers (Channels *channels, guint i, guint transfer, guint peer, gboolean sends, gint64 head, gint64 tail)
{
  const PsWays *ways = channels->ways;
  gint64 bytes = ways->costs->message_bytes[transfer];
  Load load = { .head = head, .tail = tail };

  if (ps_events_setting_is_eager (channels->events, bytes) && !sends)
    return;
  if (!channels->events->blocking)
    load.end = channels->model->end (peer, sends);
  load.time = ways->m[i / ways->placement->n_stages] * ways->costs->transfer_ns[transfer];
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

/* Adds the device's work, which no transfer overlaps. */
static void
add_work (Channels *channels, guint device)
{
  const PsWays *ways = channels->ways;
  g_auto (PsWaysLoad) work = { 0 };
  Load load = { .head = G_MAXINT64 };

  ps_ways_load_init (&work, ways, device);
  load.time = ps_ways_load_least (&work);
  for (guint i = 0; i < ways->placement->n_copies * ways->placement->n_stages; i++)
    if (ways->placement->device[i] == device && ways->m[i / ways->placement->n_stages] > 0)
      load.head = MIN (load.head, ways->arrival[i]);
  if (load.head != G_MAXINT64)
    g_array_append_val (channels->loads, load);
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
  const PsPlacement *placement = channels->ways->placement;

  g_array_set_size (channels->loads, 0);
  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++)
    {
      if (placement->device[i] != device || channels->ways->m[i / placement->n_stages] == 0)
        continue;
      if ((i + 1) % placement->n_stages != 0)
        add_border (channels, i, TRUE);
      if (i % placement->n_stages != 0)
        add_border (channels, i - 1, FALSE);
    }
  if (channels->events->blocking)
    add_work (channels, device);
  return longest_load (channels->loads);
}

gint64
ps_lower_bound_channels (const PsPlacement *placement, guint n_microbatches, const PsCosts *costs,
                         const PsEventsSetting *events)
{
  g_auto (PsWays) ways = { 0 };
  g_autoptr (GArray) loads = g_array_new (FALSE, FALSE, sizeof (Load));
  guint first = (n_microbatches + placement->n_copies - 1) / placement->n_copies, n_models;
  const guint m[MAX_COPIES] = { first, n_microbatches - first };
  Channels channels = { &ways, events, &ps_channel_table (&n_models)[events->comm], loads };
  gint64 bound = 0;

  if ((channels.model->end == NULL && !events->blocking) || events->links != NULL)
    return 0;
  ps_ways_init (&ways, placement, costs, m);
  for (guint d = 0; d < placement->n_devices; d++)
    bound = MAX (bound, device_bound (&channels, d));
  return bound;
}

/* events-replay.c - later runs of an engine whose times follow from the order alone. An earlier run has found an order
 * in which every time follows from times before it. It holds under any costs. So a later run waits for nothing: it goes
 * through ops and transfers in this order, and takes the latest of at most four times for each. */
#include "events-private.h"

#define MAX_CONDITIONS 4 /* of a blocking transfer: its two posts, and its turn on both ends */

/* An op or a transfer. A place is that of a time in PsReplay.times. */
typedef struct
{
  guint32 from[MAX_CONDITIONS]; /* places of the times that it waits for; 0: none */
  guint32 id;                   /* item, or n_items + transfer */
  guint32 step;                 /* of the op, or that waits for the transfer */
} Node;

struct _PsReplay
{
  gboolean complete;
  guint n_nodes; /* noted so far */
  Node *nodes;   /* [n_items + n_transfers] */
  gint64 *times; /* 0; when each device is ready; the end of each node. NULL: the nodes have no places yet */
  guint32 *last; /* [n_devices] place of the end of the device's last item */
};

PsReplay *
ps_replay_new (const PsEvents *events)
{
  PsReplay *replay = g_new0 (PsReplay, 1);

  replay->nodes = g_new0 (Node, (gsize)events->n_items + events->n_transfers + 1);
  return replay;
}

void
ps_replay_free (PsReplay *replay)
{
  if (replay == NULL)
    return;
  g_free (replay->nodes);
  g_free (replay->times);
  g_free (replay->last);
  g_free (replay);
}

void
ps_replay_note (PsReplay *replay, guint32 id, guint32 step)
{
  replay->nodes[replay->n_nodes++] = (Node){ .id = id, .step = step };
}

static void
wait_for (const PsEvents *events, guint32 place, guint32 from)
{
  Node *node = &events->replay->nodes[place - 1 - events->n_devices];
  guint i = 0;

  if (from == 0)
    return;
  while (node->from[i] != 0)
    i++;
  g_assert (i < MAX_CONDITIONS);
  node->from[i] = from;
}

/* The conditions of events-build.c, in places. A device that has come through a send or receive goes on at the end of
 * its transfer. */
static void
link_device (PsEvents *events, guint device, const guint32 *places)
{
  guint32 last = 1 + device;

  for (guint i = events->first_item[device]; i < events->first_item[device + 1]; i++)
    {
      const PsItem *item = &events->items[i];
      guint32 awaited = item->wait != 0 ? places[events->n_items + item->wait - 1] : 0;
      guint32 place = item->type == PS_ITEM_OP ? places[i] : awaited;

      wait_for (events, place, last);
      last = place;
      if (item->type != PS_ITEM_OP)
        continue;
      wait_for (events, place, awaited);
      for (guint k = 0; k < G_N_ELEMENTS (item->send) && item->send[k] != 0; k++)
        wait_for (events, places[events->n_items + item->send[k] - 1], place);
    }
  events->replay->last[device] = last;
}

void
ps_replay_complete (PsEvents *events)
{
  PsReplay *replay = events->replay;
  g_autofree guint32 *places = g_new0 (guint32, (gsize)events->n_items + events->n_transfers);

  replay->complete = TRUE;
  replay->times = g_new0 (gint64, 1 + (gsize)events->n_devices + replay->n_nodes);
  replay->last = g_new (guint32, events->n_devices);
  for (guint i = 0; i < replay->n_nodes; i++)
    places[replay->nodes[i].id] = 1 + events->n_devices + i;
  for (guint device = 0; device < events->n_devices; device++)
    link_device (events, device, places);
  for (guint i = 0; i < events->n_transfers; i++)
    for (guint k = 0; k < G_N_ELEMENTS (events->transfers[i].next); k++)
      if (events->transfers[i].next[k] != 0)
        wait_for (events, places[events->n_items + events->transfers[i].next[k] - 1], places[events->n_items + i]);
}

gboolean
ps_replay_run (PsEvents *events)
{
  const PsReplay *replay = events->replay;
  PsSimulation *simulation = events->simulation;

  if (replay == NULL || !replay->complete)
    return FALSE;
  for (guint device = 0; device < events->n_devices; device++)
    replay->times[1 + device] = events->devices[device].clock_ns;
  gint64 *end_ns = &replay->times[1 + events->n_devices];
  for (guint i = 0; i < replay->n_nodes; i++)
    {
      const Node *node = &replay->nodes[i];
      gint64 start_ns = MAX (replay->times[node->from[0]], replay->times[node->from[1]]);

      if (node->id < events->n_items)
        {
          end_ns[i] = ps_event_run_op (events, &events->items[node->id], start_ns);
          continue;
        }
      const PsTransfer *transfer = &events->transfers[node->id - events->n_items];
      start_ns = MAX (start_ns, MAX (replay->times[node->from[2]], replay->times[node->from[3]]));
      end_ns[i] = start_ns + transfer->end_ns;
      if (transfer->part != PS_TRANSFER_EAGER_RECEIVE)
        simulation->transfer_start_ns[node->step] = start_ns;
      simulation->transfer_end_ns[node->step] = end_ns[i];
    }
  for (guint device = 0; device < events->n_devices; device++)
    {
      events->devices[device].clock_ns = replay->times[replay->last[device]];
      events->devices[device].next = events->devices[device].end;
    }
  return TRUE;
}

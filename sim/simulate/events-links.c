/* events-links.c - transfers that share links. Rates come from progressive filling (Bertsekas and Gallager, Data
 * Networks, 2nd edition, section 6.5.2: max-min flow control). They are whole bytes per second, so that sums are exact.
 */
#include "events-timed.h"

#include <math.h>

__extension__ typedef unsigned __int128
    Work; /* bytes * 10^9: a rate of one byte per second moves 10^9 of it in 10^9 ns */

typedef enum
{
  PHASE_LATENCY,
  PHASE_BYTES, /* among the flows */
  PHASE_ALONE, /* shares nothing */
} Phase;

typedef struct
{
  Work left; /* as of since_ns */
  gint64 since_ns;
  guint64 alone; /* its rate when it shares no link */
  guint64 rate;
  guint32 port[2]; /* links: out of the sender, into the receiver */
  guint8 phase;
  guint8 fixed; /* while rates are found */
} Flow;

/* One direction of the link of a device or a node. */
typedef struct
{
  guint64 capacity; /* bytes per second */
  guint64 left;     /* while rates are found */
  guint n_flows;    /* that have no rate yet */
} Port;

struct _PsLinks
{
  const PsCluster *cluster;
  gboolean changed; /* flows came or went since rates were found */
  guint n_ports;
  Port *ports;
  Flow *flows; /* [n_transfers] */
  guint n_active;
  guint32 *active; /* [n_transfers] transfers that move bytes */
};

PsLinks *
ps_links_new (const PsEvents *events)
{
  const PsCluster *cluster = events->setting.links;
  PsLinks *links = g_new0 (PsLinks, 1);

  links->cluster = cluster;
  links->n_ports = 4 * events->n_devices;
  links->ports = g_new0 (Port, links->n_ports);
  for (guint i = 0; i < links->n_ports; i++)
    links->ports[i].capacity
        = (guint64)llrint (i < 2 * events->n_devices ? cluster->link_bandwidth : cluster->network_bandwidth);
  links->flows = g_new0 (Flow, events->n_transfers + 1);
  links->active = g_new (guint32, events->n_transfers + 1);
  return links;
}

void
ps_links_free (PsLinks *links)
{
  if (links == NULL)
    return;
  g_free (links->ports);
  g_free (links->flows);
  g_free (links->active);
  g_free (links);
}

void
ps_links_begin (PsLinks *links)
{
  links->n_active = 0;
  links->changed = FALSE;
}

/* Ports by number: for each device its link out and in, then its network port (or its node's, under the number of the
 * node's first device) out and in. */
static guint
find_port (const PsEvents *events, guint device, gboolean network, gboolean in)
{
  const PsCluster *cluster = events->setting.links;
  gboolean node = network ? cluster->network_shared : cluster->link_shared;
  guint owner = node ? device - device % cluster->devices_per_node : device;

  /* A bus has no directions of its own. */
  return 2 * (owner + (network ? events->n_devices : 0)) + (in && !(node && !network));
}

void
ps_links_start (PsEvents *events, guint32 index)
{
  PsTimed *timed = events->timed;
  const PsTransfer *transfer = &events->transfers[index];
  const PsMessage *message = &events->program->messages[transfer->message];
  guint sender = message->sender, receiver = message->receiver;
  PsLink link = ps_cluster_link (timed->links->cluster, sender, receiver);
  Flow *flow = &timed->links->flows[index];
  gint64 bytes = events->costs->message_bytes[events->program->steps[message->consumer].transfer];
  gint64 body_ns = transfer->end_ns - link.latency_ns;
  double alone = body_ns > 0 ? (double)bytes * 1e9 / (double)body_ns : 0;

  *flow = (Flow){ .phase = PHASE_ALONE };
  if (transfer->part != PS_TRANSFER_EAGER_RECEIVE && alone >= 1 && alone < 1e18)
    {
      gboolean network = ps_cluster_is_remote (timed->links->cluster, sender, receiver);

      flow->phase = PHASE_LATENCY;
      flow->alone = (guint64)alone;
      flow->left = (Work)flow->alone * (guint64)body_ns;
      flow->port[0] = find_port (events, sender, network, FALSE);
      flow->port[1] = find_port (events, receiver, network, TRUE);
    }
  ps_heap_set (timed->heap, events->n_devices + index,
               timed->now_ns + (flow->phase == PHASE_LATENCY ? link.latency_ns : transfer->end_ns));
}

gboolean
ps_links_event (PsEvents *events, guint32 index)
{
  PsLinks *links = events->timed->links;
  Flow *flow = &links->flows[index];
  guint place = 0;

  if (flow->phase == PHASE_ALONE)
    return TRUE;
  links->changed = TRUE;
  if (flow->phase == PHASE_LATENCY)
    {
      flow->phase = PHASE_BYTES;
      flow->since_ns = events->timed->now_ns;
      links->active[links->n_active++] = index;
      return FALSE;
    }
  while (links->active[place] != index)
    place++;
  links->active[place] = links->active[--links->n_active];
  return TRUE;
}

/* Takes off the bytes that have gone through since since_ns. */
static void
move_bytes (Flow *flow, gint64 now_ns)
{
  Work moved = (Work)flow->rate * (guint64)(now_ns - flow->since_ns);

  flow->left = moved < flow->left ? flow->left - moved : 0;
  flow->since_ns = now_ns;
}

static void
fix_rate (PsLinks *links, Flow *flow, guint64 rate)
{
  flow->rate = rate;
  flow->fixed = TRUE;
  for (guint i = 0; i < 2; i++)
    {
      Port *port = &links->ports[flow->port[i]];

      if (i == 1 && flow->port[1] == flow->port[0])
        break;
      port->left -= MIN (port->left, rate);
      port->n_flows--;
    }
}

/* The least that a flow still without a rate is allowed by its ports. */
static guint64
allowed (const PsLinks *links, const Flow *flow)
{
  const Port *out = &links->ports[flow->port[0]], *in = &links->ports[flow->port[1]];

  return MIN (out->left / out->n_flows, in->left / in->n_flows);
}

/* The level at which filling stops next: a flow has all that it takes alone, or a port is full. */
static guint64
next_level (const PsLinks *links)
{
  guint64 level = G_MAXUINT64;

  for (guint i = 0; i < links->n_active; i++)
    {
      const Flow *flow = &links->flows[links->active[i]];

      if (!flow->fixed)
        level = MIN (level, MIN (flow->alone, allowed (links, flow)));
    }
  return level;
}

static void
clear_ports (PsLinks *links)
{
  for (guint i = 0; i < links->n_active; i++)
    {
      Flow *flow = &links->flows[links->active[i]];

      flow->fixed = FALSE;
      for (guint k = 0; k < 2; k++)
        {
          links->ports[flow->port[k]].left = links->ports[flow->port[k]].capacity;
          links->ports[flow->port[k]].n_flows = 0;
        }
    }
  for (guint i = 0; i < links->n_active; i++)
    {
      Flow *flow = &links->flows[links->active[i]];

      links->ports[flow->port[0]].n_flows++;
      links->ports[flow->port[1]].n_flows += flow->port[1] != flow->port[0];
    }
}

/* Fixes at least one flow per round. A full port stops all its flows at the same level. The rest of a port divided by
 * its flows does not sink below the level, so the order in which flows are looked at does not matter.
 */
static void
find_rates (PsLinks *links)
{
  clear_ports (links);
  for (guint left = links->n_active; left > 0;)
    {
      guint64 level = next_level (links);

      for (guint i = 0; i < links->n_active; i++)
        {
          Flow *flow = &links->flows[links->active[i]];

          if (flow->fixed || MIN (flow->alone, allowed (links, flow)) > level)
            continue;
          fix_rate (links, flow, MAX (level, 1));
          left--;
        }
    }
}

void
ps_links_settle (PsEvents *events)
{
  PsTimed *timed = events->timed;
  PsLinks *links = timed->links;

  if (!links->changed)
    return;
  links->changed = FALSE;
  for (guint i = 0; i < links->n_active; i++)
    move_bytes (&links->flows[links->active[i]], timed->now_ns);
  find_rates (links);
  for (guint i = 0; i < links->n_active; i++)
    {
      const Flow *flow = &links->flows[links->active[i]];
      Work wait = (flow->left + flow->rate / 2) / flow->rate;

      ps_heap_set (timed->heap, events->n_devices + links->active[i],
                   timed->now_ns + (gint64)MIN (wait, (Work)(G_MAXINT64 / 4)));
    }
}

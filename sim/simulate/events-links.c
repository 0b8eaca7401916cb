/* events-links.c - transfers that share links. Rates come from progressive filling (Bertsekas and Gallager, Data
 * Networks, 2nd edition, section 6.5.2: max-min flow control). They are whole bytes per second, so that sums are exact.
 */
#include "events-links.h"

#include <math.h>

/* Bytes * 10^9, of which a rate of one byte per second moves 10^9 in 10^9 ns; or a sum of rates. */
__extension__ typedef unsigned __int128 Traffic;

#define MAX_TRAFFIC 1e18 /* bytes per second */

typedef enum {
  PHASE_ROOMY,   /* both its ports have room for all their flows at the rates that they take alone, or no other flow */
  PHASE_LATENCY, /* a port of it is crowded: its rate will have to be found */
  PHASE_BYTES,   /* the same, and it moves bytes */
} Phase;

/* The transfer of a message. */
typedef struct {
  guint32 port[2]; /* links: out of the sender, into the receiver */
  gint64 latency_ns;
  Traffic left;    /* as of since_ns */
  gint64 since_ns; /* when its bytes begin to move, then when its rate was last set */
  guint64 alone;   /* its rate when it shares no link; 0: none, it only takes time */
  guint64 level;   /* while rates are found: at which it stops to fill as far as is known */
  guint64 rate;    /* 0: none yet */
  guint32 next[2]; /* 1 + flow that moves bytes through the same port; 0: none */
  guint32 previous[2];
  guint32 place; /* among the roomy */
  guint8 phase;  /* Phase */
  guint8 fixed;  /* FALSE: its new rate is being found */
} Flow;

/* One direction of the link of a device or a node. */
typedef struct {
  guint64 capacity; /* bytes per second */
  Traffic wanted;   /* what all its flows take alone */
  guint n_wanted;   /* flows that want it */
  guint64 left;     /* while rates are found */
  guint64 share;    /* of it, for each flow that has no rate yet */
  guint n_flows;    /* that have no rate yet */
  guint32 first[2]; /* 1 + flow that moves bytes out of it, and into it; 0: none */
  gboolean touched; /* its flows need new rates */
} Port;

struct _PsLinks {
  PsQueue *queue;
  guint32 first_id;
  guint n_ports;
  Port *ports;
  guint n_touched;
  guint32 *touched; /* [n_ports] */
  Flow *flows;      /* [n_messages] */
  guint n_roomy;
  guint32 *roomy;   /* [n_messages] flows whose rates are known */
  guint32 *without; /* [n_messages] flows whose rates are being found */
};

/* Ports by number: for each device its link out and in, then its network port (or its node's, under the number of the
 * node's first device) out and in. */
static guint find_port (const PsCluster *cluster, guint n_devices, guint device, gboolean network, gboolean in)
{
  gboolean node = network ? cluster->network_shared : cluster->link_shared;
  guint owner = node ? device - device % cluster->devices_per_node : device;

  /* A bus has no directions of its own. */
  return 2 * (owner + (network ? n_devices : 0)) + (in && !(node && !network));
}

PsLinks *ps_links_new (const PsProgram *program, const PsCluster *cluster, PsQueue *queue, guint32 first_id)
{
  guint n_devices = program->schedule->placement->n_devices;
  double inner = ps_cluster_inner_link (cluster, cluster->devices_per_node).bandwidth;
  PsLinks *links = g_new0 (PsLinks, 1);

  *links = (PsLinks){ .queue = queue, .first_id = first_id, .n_ports = 4 * n_devices };
  links->ports = g_new0 (Port, links->n_ports);
  links->touched = g_new (guint32, links->n_ports);
  links->flows = g_new0 (Flow, program->n_messages + 1);
  links->roomy = g_new (guint32, program->n_messages + 1);
  links->without = g_new (guint32, program->n_messages + 1);
  for (guint i = 0; i < links->n_ports; i++)
    links->ports[i].capacity = (guint64)llrint (i < 2 * n_devices ? inner : cluster->network_bandwidth);
  for (guint i = 0; i < program->n_messages; i++) {
    const PsMessage *message = &program->messages[i];
    gboolean network = ps_cluster_is_remote (cluster, message->sender, message->receiver);
    Flow *flow = &links->flows[i];

    flow->port[0] = find_port (cluster, n_devices, message->sender, network, FALSE);
    flow->port[1] = find_port (cluster, n_devices, message->receiver, network, TRUE);
    flow->latency_ns = ps_cluster_link (cluster, message->sender, message->receiver).latency_ns;
  }
  return links;
}

void ps_links_free (PsLinks *links)
{
  if (links == NULL)
    return;
  g_free (links->ports);
  g_free (links->touched);
  g_free (links->flows);
  g_free (links->roomy);
  g_free (links->without);
  g_free (links);
}

void ps_links_begin (PsLinks *links)
{
  links->n_touched = links->n_roomy = 0;
  for (guint i = 0; i < links->n_ports; i++)
    links->ports[i] = (Port){ .capacity = links->ports[i].capacity };
}

static guint n_ports_of (const Flow *flow)
{
  return 1 + (flow->port[1] != flow->port[0]);
}

/* The ports of a flow, and all that share ports with its flows, need new rates. */
static void touch_ports (PsLinks *links, const Flow *flow)
{
  for (guint side = 0; side < n_ports_of (flow); side++)
    if (!links->ports[flow->port[side]].touched) {
      links->ports[flow->port[side]].touched = TRUE;
      links->touched[links->n_touched++] = flow->port[side];
    }
}

static void set_next (PsLinks *links, const Flow *flow, guint side, guint32 previous, guint32 next)
{
  if (previous != 0)
    links->flows[previous - 1].next[side] = next;
  else
    links->ports[flow->port[side]].first[side] = next;
  if (next != 0)
    links->flows[next - 1].previous[side] = previous;
}

/* The flow begins to move bytes, or ends to. */
static void move_bytes (PsLinks *links, guint32 index, gboolean begins)
{
  Flow *flow = &links->flows[index];

  for (guint side = 0; side < n_ports_of (flow); side++)
    if (begins) {
      flow->next[side] = links->ports[flow->port[side]].first[side];
      set_next (links, flow, side, index + 1, flow->next[side]);
      set_next (links, flow, side, 0, index + 1);
    } else
      set_next (links, flow, side, flow->previous[side], flow->next[side]);
  touch_ports (links, flow);
  flow->phase = PHASE_BYTES;
  flow->fixed = TRUE;
}

/* A flow comes to its ports (1), or leaves them (-1). */
static void want (PsLinks *links, const Flow *flow, gint change)
{
  for (guint side = 0; side < n_ports_of (flow); side++) {
    links->ports[flow->port[side]].wanted += change > 0 ? flow->alone : -(Traffic)flow->alone;
    links->ports[flow->port[side]].n_wanted += (guint)change;
  }
}

static gboolean is_crowded (const Port *port)
{
  return port->wanted > port->capacity && port->n_wanted > 1;
}

/* Takes off the bytes that have gone through since since_ns; from now on it moves them at that rate. */
static void set_rate (PsLinks *links, guint32 index, guint64 rate, gint64 now_ns)
{
  Flow *flow = &links->flows[index];
  Traffic moved = (Traffic)flow->rate * (guint64)(now_ns - flow->since_ns);

  flow->left = moved < flow->left ? flow->left - moved : 0;
  flow->since_ns = now_ns;
  flow->rate = rate;
  if (rate == 0)
    return;
  Traffic wait = (flow->left + rate / 2) / rate;
  ps_queue_set (links->queue, links->first_id + index, now_ns + (gint64)MIN (wait, (Traffic)(G_MAXINT64 / 4)));
}

static void remove_roomy (PsLinks *links, const Flow *flow)
{
  guint32 last = links->roomy[--links->n_roomy];

  links->roomy[flow->place] = last;
  links->flows[last].place = flow->place;
}

/* Roomy flows whose ports have become crowded need rates from now on. */
static void leave_roomy (PsLinks *links, gint64 now_ns)
{
  for (guint i = links->n_roomy; i-- > 0;) {
    guint32 index = links->roomy[i];
    Flow *flow = &links->flows[index];

    if (!is_crowded (&links->ports[flow->port[0]]) && !is_crowded (&links->ports[flow->port[1]]))
      continue;
    remove_roomy (links, flow);
    flow->phase = PHASE_LATENCY;
    if (flow->since_ns > now_ns) {
      flow->rate = 0;
      ps_queue_set (links->queue, links->first_id + index, flow->since_ns);
      continue;
    }
    set_rate (links, index, flow->rate, now_ns);
    move_bytes (links, index, TRUE);
  }
}

void ps_links_start (PsLinks *links, guint32 message, gint64 bytes, gint64 duration_ns, gint64 now_ns)
{
  Flow *flow = &links->flows[message];
  gint64 body_ns = duration_ns - flow->latency_ns;
  double alone = body_ns > 0 ? (double)bytes * 1e9 / (double)body_ns : 0;

  flow->alone = alone >= 1 && alone < MAX_TRAFFIC ? (guint64)(gint64)alone : 0;
  if (flow->alone == 0) {
    ps_queue_set (links->queue, links->first_id + message, now_ns + duration_ns);
    return;
  }
  flow->phase = PHASE_ROOMY;
  flow->rate = 0;
  flow->left = (Traffic)flow->alone * (guint64)body_ns;
  flow->since_ns = now_ns + flow->latency_ns;
  flow->place = links->n_roomy;
  links->roomy[links->n_roomy++] = message;
  want (links, flow, 1);
  const Port *out = &links->ports[flow->port[0]], *in = &links->ports[flow->port[1]];
  if (is_crowded (out) || is_crowded (in))
    leave_roomy (links, now_ns);
  else
    set_rate (links, message, MAX (MIN (flow->alone, MIN (out->capacity, in->capacity)), 1), flow->since_ns);
}

gboolean ps_links_event (PsLinks *links, guint32 message, gint64 now_ns)
{
  Flow *flow = &links->flows[message];

  if (flow->alone == 0)
    return TRUE;
  if (flow->phase == PHASE_LATENCY) {
    move_bytes (links, message, TRUE);
    return FALSE;
  }
  if (flow->phase == PHASE_BYTES)
    move_bytes (links, message, FALSE);
  else
    remove_roomy (links, flow);
  want (links, flow, -1);
  return TRUE;
}

static void find_share (Port *port)
{
  port->share = port->n_flows > 0 ? port->left / port->n_flows : 0;
}

/* Finds the flows that need new rates: those of touched ports, and so on along all ports that they share. */
static guint unfix_flows (PsLinks *links)
{
  guint n = 0;

  for (guint i = 0; i < links->n_touched; i++) {
    Port *port = &links->ports[links->touched[i]];

    port->left = port->capacity;
    port->n_flows = 0;
    for (guint side = 0; side < 2; side++)
      for (guint32 next = port->first[side]; next != 0; next = links->flows[next - 1].next[side]) {
        Flow *flow = &links->flows[next - 1];

        port->n_flows++;
        if (!flow->fixed)
          continue;
        flow->fixed = FALSE;
        links->without[n++] = next - 1;
        touch_ports (links, flow);
      }
    find_share (port);
  }
  return n;
}

static void fix_rate (PsLinks *links, guint32 index, guint64 rate, gint64 now_ns)
{
  Flow *flow = &links->flows[index];

  flow->fixed = TRUE;
  for (guint side = 0; side < n_ports_of (flow); side++) {
    Port *port = &links->ports[flow->port[side]];

    port->left -= MIN (port->left, rate);
    port->n_flows--;
    find_share (port);
  }
  if (rate != flow->rate)
    set_rate (links, index, rate, now_ns);
}

/* Fixes at least one flow per round: it has all that it takes alone, or one of its ports is full. A full port stops all
 * its flows at the same level. The rest of a port divided by its flows does not sink below the level, so it matters
 * neither in which order flows are looked at, nor which flows that share no port with them have rates already. */
void ps_links_settle (PsLinks *links, gint64 now_ns)
{
  if (links->n_touched == 0)
    return;
  for (guint n = unfix_flows (links), kept; n > 0; n = kept) {
    guint64 level = G_MAXUINT64;

    for (guint i = 0; i < n; i++) {
      Flow *flow = &links->flows[links->without[i]];

      flow->level = MIN (flow->alone, MIN (links->ports[flow->port[0]].share, links->ports[flow->port[1]].share));
      level = MIN (level, flow->level);
    }
    kept = 0;
    for (guint i = 0; i < n; i++)
      if (links->flows[links->without[i]].level <= level)
        fix_rate (links, links->without[i], MAX (level, 1), now_ns);
      else
        links->without[kept++] = links->without[i];
  }
  while (links->n_touched > 0)
    links->ports[links->touched[--links->n_touched]].touched = FALSE;
}

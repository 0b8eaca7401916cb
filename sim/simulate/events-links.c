/* events-links.c - transfers that share links. Rates come from progressive filling (Bertsekas and Gallager, Data
 * Networks, 2nd edition, section 6.5.2: max-min flow control). They are whole bytes per second, so that sums are exact.
 */
#include "events-routes.h"
#include "events-timed.h"

#include <math.h>

typedef enum
{
  PHASE_ROOMY,   /* both its ports have room for all their flows at the rates that they take alone, or no other flow */
  PHASE_LATENCY, /* a port of it is crowded: its rate will have to be found */
  PHASE_BYTES,   /* the same, and it moves bytes */
} Phase;

typedef struct
{
  PsTraffic left;  /* as of since_ns */
  gint64 since_ns; /* while roomy or in its latency: when its bytes begin to move */
  guint64 alone;   /* its rate when it shares no link */
  guint64 level;   /* while rates are found: at which it stops to fill as far as is known */
  guint64 rate;    /* 0: none yet */
  guint32 transfer;
  guint32 port[2]; /* of its route */
  guint32 next[2]; /* 1 + flow that moves bytes through the same port; 0: none */
  guint32 previous[2];
  guint turn;    /* in which it began */
  guint32 place; /* among the roomy; of a free flow: 1 + the next free one, or 0 */
  guint8 phase;
  guint8 fixed; /* FALSE: its new rate is being found */
} Flow;

/* One direction of the link of a device or a node. */
typedef struct
{
  guint64 capacity; /* bytes per second */
  PsTraffic wanted; /* what all its flows take alone */
  guint n_wanted;   /* flows that want it */
  guint64 left;     /* while rates are found */
  guint64 share;    /* of it, for each flow that has no rate yet */
  guint n_flows;    /* that have no rate yet */
  guint32 first[2]; /* 1 + flow that moves bytes out of it, and into it; 0: none */
  gboolean touched; /* its flows need new rates */
} Port;

struct _PsLinks
{
  guint n_ports;
  Port *ports;
  guint n_touched;
  guint32 *touched; /* [n_ports] */
  PsRoutes *routes;
  guint n_flows;    /* that stood for a transfer so far */
  Flow *flows;      /* [n_transfers] the few that are in use stay in the processor's cache */
  guint32 free;     /* 1 + flow that stands for no transfer any more; 0: none */
  guint32 *flow_of; /* [n_transfers] 1 + flow of a transfer; 0: none, it shares nothing */
  guint n_roomy;
  guint32 *roomy;   /* [n_transfers] flows whose rates are known */
  guint32 *without; /* [n_transfers] flows whose rates are being found */
};

PsLinks *
ps_links_new (const PsEvents *events)
{
  PsLinks *links = g_new0 (PsLinks, 1);

  links->n_ports = 4 * events->n_devices;
  links->ports = g_new0 (Port, links->n_ports);
  for (guint i = 0; i < links->n_ports; i++)
    links->ports[i].capacity = ps_routes_capacity (events, i);
  links->routes = ps_routes_new (events);
  links->flows = g_new (Flow, events->n_transfers + 1);
  links->flow_of = g_new0 (guint32, events->n_transfers + 1);
  links->touched = g_new (guint32, links->n_ports);
  links->roomy = g_new (guint32, events->n_transfers + 1);
  links->without = g_new (guint32, events->n_transfers + 1);
  return links;
}

void
ps_links_free (PsLinks *links)
{
  if (links == NULL)
    return;
  ps_routes_free (links->routes);
  g_free (links->ports);
  g_free (links->touched);
  g_free (links->flows);
  g_free (links->flow_of);
  g_free (links->roomy);
  g_free (links->without);
  g_free (links);
}

void
ps_links_begin (PsEvents *events)
{
  PsLinks *links = events->timed->links;

  links->n_roomy = links->n_touched = links->n_flows = links->free = 0;
  for (guint i = 0; i < links->n_ports; i++)
    links->ports[i] = (Port){ .capacity = links->ports[i].capacity };
  if (!ps_routes_begin (links->routes, events))
    return;
  for (guint i = 0; i < events->n_transfers; i++)
    events->transfers[i].shares = events->transfers[i].part != PS_TRANSFER_EAGER_RECEIVE
                                  && ps_routes_of (links->routes, &events->transfers[i])->shares;
}

static guint32
allot_flow (PsLinks *links)
{
  if (links->free == 0)
    return links->n_flows++;
  guint32 index = links->free - 1;
  links->free = links->flows[index].place;
  return index;
}

static guint
n_ports_of (const Flow *flow)
{
  return 1 + (flow->port[1] != flow->port[0]);
}

static void
remove_roomy (PsLinks *links, const Flow *flow)
{
  guint32 last = links->roomy[--links->n_roomy];

  links->roomy[flow->place] = last;
  links->flows[last].place = flow->place;
}

/* The ports of a flow, and all that share ports with its flows, need new rates. */
static void
touch_ports (PsLinks *links, const Flow *flow)
{
  for (guint side = 0; side < n_ports_of (flow); side++)
    if (!links->ports[flow->port[side]].touched)
      {
        links->ports[flow->port[side]].touched = TRUE;
        links->touched[links->n_touched++] = flow->port[side];
      }
}

static void
set_next (PsLinks *links, const Flow *flow, guint side, guint32 previous, guint32 next)
{
  if (previous != 0)
    links->flows[previous - 1].next[side] = next;
  else
    links->ports[flow->port[side]].first[side] = next;
  if (next != 0)
    links->flows[next - 1].previous[side] = previous;
}

static void
begin_bytes (PsLinks *links, guint32 index)
{
  Flow *flow = &links->flows[index];

  flow->phase = PHASE_BYTES;
  flow->fixed = TRUE;
  for (guint side = 0; side < n_ports_of (flow); side++)
    {
      flow->next[side] = links->ports[flow->port[side]].first[side];
      set_next (links, flow, side, index + 1, flow->next[side]);
      set_next (links, flow, side, 0, index + 1);
    }
  touch_ports (links, flow);
}

static void
end_bytes (PsLinks *links, const Flow *flow)
{
  for (guint side = 0; side < n_ports_of (flow); side++)
    set_next (links, flow, side, flow->previous[side], flow->next[side]);
  touch_ports (links, flow);
}

/* A flow comes to its ports (1), or leaves them (-1). */
static void
want (PsLinks *links, const Flow *flow, gint change)
{
  for (guint side = 0; side < n_ports_of (flow); side++)
    {
      links->ports[flow->port[side]].wanted += change > 0 ? flow->alone : -(PsTraffic)flow->alone;
      links->ports[flow->port[side]].n_wanted += (guint)change;
    }
}

static gboolean
is_crowded (const PsLinks *links, const Flow *flow)
{
  const Port *out = &links->ports[flow->port[0]], *in = &links->ports[flow->port[1]];

  return (out->wanted > out->capacity && out->n_wanted > 1) || (in->wanted > in->capacity && in->n_wanted > 1);
}

/* Takes off the bytes that have gone through since since_ns. */
static void
move_bytes (Flow *flow, gint64 now_ns)
{
  PsTraffic moved = (PsTraffic)flow->rate * (guint64)(now_ns - flow->since_ns);

  flow->left = moved < flow->left ? flow->left - moved : 0;
  flow->since_ns = now_ns;
}

/* From since_ns on it moves its bytes at that rate. */
static void
set_rate (PsEvents *events, guint32 index, guint64 rate)
{
  Flow *flow = &events->timed->links->flows[index];

  flow->rate = rate;
  ps_due_set (events->timed->due, events->n_devices + flow->transfer,
              flow->since_ns + ps_routes_wait_ns (flow->left, rate));
}

/* Roomy flows whose ports have become crowded need rates from now on. */
static void
leave_roomy (PsEvents *events)
{
  PsTimed *timed = events->timed;
  PsLinks *links = timed->links;

  for (guint i = links->n_roomy; i-- > 0;)
    {
      guint32 index = links->roomy[i];
      Flow *flow = &links->flows[index];

      if (!is_crowded (links, flow))
        continue;
      remove_roomy (links, flow);
      /* Without latency its bytes begin to move in the next turn of this instant. */
      if (flow->since_ns > timed->now_ns || flow->turn == timed->turn)
        {
          flow->phase = PHASE_LATENCY;
          flow->rate = 0;
          ps_due_set (timed->due, events->n_devices + flow->transfer, flow->since_ns);
          continue;
        }
      move_bytes (flow, timed->now_ns);
      begin_bytes (links, index);
    }
}

void
ps_links_start (PsEvents *events, guint32 index)
{
  PsTimed *timed = events->timed;
  PsLinks *links = timed->links;
  const PsTransfer *transfer = &events->transfers[index];
  const PsRoute *route = ps_routes_of (links->routes, transfer);
  gint64 body_ns = transfer->end_ns - route->latency_ns;
  gboolean least = body_ns == route->least_ns;
  guint64 alone = least ? route->alone : ps_routes_alone (events, route, body_ns);

  if (alone == 0 || !route->shares)
    {
      ps_due_set (timed->due, events->n_devices + index, timed->now_ns + transfer->end_ns);
      return;
    }
  guint32 i = allot_flow (links);
  Flow *flow = &links->flows[i];
  flow->phase = PHASE_ROOMY;
  flow->turn = timed->turn;
  flow->alone = alone;
  flow->rate = 0;
  flow->left = (PsTraffic)alone * (guint64)body_ns;
  flow->since_ns = timed->now_ns + route->latency_ns;
  flow->transfer = index;
  flow->port[0] = route->port[0];
  flow->port[1] = route->port[1];
  flow->place = links->n_roomy;
  links->flow_of[index] = 1 + i;
  links->roomy[links->n_roomy++] = i;
  want (links, flow, 1);
  if (is_crowded (links, flow))
    {
      leave_roomy (events);
      return;
    }
  flow->rate = ps_routes_rate (route, alone);
  ps_due_set (timed->due, events->n_devices + index,
              flow->since_ns + (least ? route->wait_ns : ps_routes_wait_ns (flow->left, flow->rate)));
}

gboolean
ps_links_event (PsEvents *events, guint32 index)
{
  PsLinks *links = events->timed->links;
  guint32 i = links->flow_of[index];

  if (i == 0)
    return TRUE;
  Flow *flow = &links->flows[i - 1];
  if (flow->phase == PHASE_LATENCY)
    {
      begin_bytes (links, i - 1);
      return FALSE;
    }
  if (flow->phase == PHASE_BYTES)
    end_bytes (links, flow);
  else
    remove_roomy (links, flow);
  want (links, flow, -1);
  links->flow_of[index] = 0;
  flow->place = links->free;
  links->free = i;
  return TRUE;
}

static void
find_share (Port *port)
{
  port->share = port->n_flows > 0 ? port->left / port->n_flows : 0;
}

/* Finds the flows that need new rates: those of touched ports, and so on along all ports that they share. */
static guint
unfix_flows (PsLinks *links)
{
  guint n = 0;

  for (guint i = 0; i < links->n_touched; i++)
    {
      Port *port = &links->ports[links->touched[i]];

      port->left = port->capacity;
      port->n_flows = 0;
      for (guint side = 0; side < 2; side++)
        for (guint32 next = port->first[side]; next != 0; next = links->flows[next - 1].next[side])
          {
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

static void
fix_rate (PsEvents *events, guint32 index, guint64 rate)
{
  PsTimed *timed = events->timed;
  Flow *flow = &timed->links->flows[index];

  flow->fixed = TRUE;
  for (guint side = 0; side < n_ports_of (flow); side++)
    {
      Port *port = &timed->links->ports[flow->port[side]];

      port->left -= MIN (port->left, rate);
      port->n_flows--;
      find_share (port);
    }
  if (rate == flow->rate)
    return;
  move_bytes (flow, timed->now_ns);
  set_rate (events, index, rate);
}

/* It has all that it takes alone, or one of its ports is full. */
static guint64
find_level (PsLinks *links, Flow *flow)
{
  flow->level = MIN (flow->alone, MIN (links->ports[flow->port[0]].share, links->ports[flow->port[1]].share));
  return flow->level;
}

/* Fixes at least one flow per round. A full port stops all its flows at the same level. The rest of a port divided by
 * its flows does not sink below the level, so it matters neither in which order flows are looked at, nor which flows
 * that share no port with them have rates already. */
static G_NO_INLINE void
settle (PsEvents *events)
{
  PsLinks *links = events->timed->links;

  for (guint n = unfix_flows (links), kept; n > 0; n = kept)
    {
      guint64 level = G_MAXUINT64;

      for (guint i = 0; i < n; i++)
        level = MIN (level, find_level (links, &links->flows[links->without[i]]));
      kept = 0;
      for (guint i = 0; i < n; i++)
        if (links->flows[links->without[i]].level <= level)
          fix_rate (events, links->without[i], MAX (level, 1));
        else
          links->without[kept++] = links->without[i];
    }
  while (links->n_touched > 0)
    links->ports[links->touched[--links->n_touched]].touched = FALSE;
}

void
ps_links_settle (PsEvents *events)
{
  if (events->timed->links->n_touched > 0)
    settle (events);
}

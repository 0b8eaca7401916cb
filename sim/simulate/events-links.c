/* events-links.c - transfers that share links. Rates come from progressive filling (Bertsekas and Gallager, Data
 * Networks, 2nd edition, section 6.5.2: max-min flow control). They are whole bytes per second, so that sums are exact.
 */
#include "events-routes.h"
#include "events-timed.h"

#include <math.h>

typedef enum
{
  PHASE_ALONE,   /* shares nothing */
  PHASE_ROOMY,   /* both its ports have room for all their flows at the rates that they take alone */
  PHASE_LATENCY, /* a port of it is crowded: its rate will have to be found */
  PHASE_BYTES,   /* the same, and it moves bytes */
} Phase;

typedef struct
{
  PsTraffic left;  /* as of since_ns */
  gint64 since_ns; /* while roomy or in its latency: when its bytes begin to move */
  guint64 alone;   /* its rate when it shares no link */
  guint64 rate;    /* 0: none yet */
  guint64 found;   /* the next rate */
  guint32 port[2]; /* of its route */
  guint turn;      /* in which it began */
  guint32 place;   /* in its list */
  guint8 phase;
  guint8 fixed; /* while rates are found */
} Flow;

/* One direction of the link of a device or a node. */
typedef struct
{
  guint64 capacity; /* bytes per second */
  PsTraffic wanted; /* what all its flows take alone */
  guint64 left;     /* while rates are found */
  guint n_flows;    /* that have no rate yet */
} Port;

typedef struct
{
  guint n;
  guint32 *flows; /* [n_transfers] */
} FlowList;

struct _PsLinks
{
  gboolean changed; /* moving flows came or went since rates were found */
  guint n_ports;
  Port *ports;
  PsRoutes *routes;
  Flow *flows;     /* [n_transfers] */
  FlowList roomy;  /* their rates are known */
  FlowList moving; /* in PHASE_BYTES */
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
  links->flows = g_new0 (Flow, events->n_transfers + 1);
  links->roomy.flows = g_new (guint32, events->n_transfers + 1);
  links->moving.flows = g_new (guint32, events->n_transfers + 1);
  return links;
}

void
ps_links_free (PsLinks *links)
{
  if (links == NULL)
    return;
  ps_routes_free (links->routes);
  g_free (links->ports);
  g_free (links->flows);
  g_free (links->roomy.flows);
  g_free (links->moving.flows);
  g_free (links);
}

/* The rate of a transfer that shares no link, in bytes per second; 0: none of its own, it only takes time. */
static guint64
find_alone (gint64 bytes, gint64 body_ns)
{
  double alone = body_ns > 0 ? (double)bytes * 1e9 / (double)body_ns : 0;

  return alone >= 1 && alone < PS_MAX_TRAFFIC ? (guint64)alone : 0;
}

void
ps_links_begin (PsEvents *events)
{
  PsLinks *links = events->timed->links;

  links->roomy.n = links->moving.n = 0;
  links->changed = FALSE;
  for (guint i = 0; i < links->n_ports; i++)
    links->ports[i] = (Port){ .capacity = links->ports[i].capacity };
  ps_routes_begin (links->routes, events);
}

gboolean
ps_links_share (const PsEvents *events, guint32 index)
{
  const PsTransfer *transfer = &events->transfers[index];

  return transfer->part != PS_TRANSFER_EAGER_RECEIVE && ps_routes_of (events->timed->links->routes, transfer)->shares;
}

static void
add_flow (PsLinks *links, FlowList *list, guint32 index)
{
  links->flows[index].place = list->n;
  list->flows[list->n++] = index;
}

static void
remove_flow (PsLinks *links, FlowList *list, guint32 index)
{
  guint32 last = list->flows[--list->n], place = links->flows[index].place;

  list->flows[place] = last;
  links->flows[last].place = place;
}

/* A flow comes to its ports, or leaves them. */
static void
want (PsLinks *links, const Flow *flow, gboolean comes)
{
  for (guint k = 0; k < 1U + (flow->port[1] != flow->port[0]); k++)
    links->ports[flow->port[k]].wanted += comes ? flow->alone : -(PsTraffic)flow->alone;
}

static gboolean
is_crowded (const PsLinks *links, const Flow *flow)
{
  const Port *out = &links->ports[flow->port[0]], *in = &links->ports[flow->port[1]];

  return out->wanted > out->capacity || in->wanted > in->capacity;
}

/* Takes off the bytes that have gone through since since_ns. */
static void
move_bytes (Flow *flow, gint64 now_ns)
{
  PsTraffic moved = (PsTraffic)flow->rate * (guint64)(now_ns - flow->since_ns);

  flow->left = moved < flow->left ? flow->left - moved : 0;
  flow->since_ns = now_ns;
}

static void
begin_bytes (PsLinks *links, guint32 index)
{
  links->flows[index].phase = PHASE_BYTES;
  add_flow (links, &links->moving, index);
  links->changed = TRUE;
}

/* Roomy flows whose ports have become crowded need rates from now on. */
static void
leave_roomy (PsEvents *events)
{
  PsTimed *timed = events->timed;
  PsLinks *links = timed->links;

  for (guint i = links->roomy.n; i-- > 0;)
    {
      guint32 index = links->roomy.flows[i];
      Flow *flow = &links->flows[index];

      if (!is_crowded (links, flow))
        continue;
      remove_flow (links, &links->roomy, index);
      /* Without latency its bytes begin to move in the next turn of this instant. */
      if (flow->since_ns > timed->now_ns || flow->turn == timed->turn)
        {
          flow->phase = PHASE_LATENCY;
          flow->rate = 0;
          ps_heap_set (timed->heap, events->n_devices + index, flow->since_ns);
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
  Flow *flow = &links->flows[index];
  gint64 body_ns = transfer->end_ns - route->latency_ns;
  guint64 alone = find_alone (events->costs->message_bytes[route->transfer], body_ns);

  *flow = (Flow){ .phase = PHASE_ALONE };
  ps_heap_set (timed->heap, events->n_devices + index, timed->now_ns + transfer->end_ns);
  if (alone == 0 || !ps_links_share (events, index))
    return;
  *flow = (Flow){ .phase = PHASE_ROOMY,
                  .turn = timed->turn,
                  .alone = alone,
                  .rate = alone,
                  .left = (PsTraffic)alone * (guint64)body_ns,
                  .since_ns = timed->now_ns + route->latency_ns,
                  .port = { route->port[0], route->port[1] } };
  add_flow (links, &links->roomy, index);
  want (links, flow, TRUE);
  if (is_crowded (links, flow))
    leave_roomy (events);
}

gboolean
ps_links_event (PsEvents *events, guint32 index)
{
  PsLinks *links = events->timed->links;
  Flow *flow = &links->flows[index];

  if (flow->phase == PHASE_ALONE)
    return TRUE;
  if (flow->phase == PHASE_LATENCY)
    {
      begin_bytes (links, index);
      return FALSE;
    }
  links->changed |= flow->phase == PHASE_BYTES;
  remove_flow (links, flow->phase == PHASE_BYTES ? &links->moving : &links->roomy, index);
  want (links, flow, FALSE);
  return TRUE;
}

static void
fix_rate (PsLinks *links, Flow *flow, guint64 rate)
{
  flow->found = rate;
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

  for (guint i = 0; i < links->moving.n; i++)
    {
      const Flow *flow = &links->flows[links->moving.flows[i]];

      if (!flow->fixed)
        level = MIN (level, MIN (flow->alone, allowed (links, flow)));
    }
  return level;
}

static void
clear_ports (PsLinks *links)
{
  for (guint i = 0; i < links->moving.n; i++)
    {
      Flow *flow = &links->flows[links->moving.flows[i]];

      flow->fixed = FALSE;
      for (guint k = 0; k < 2; k++)
        {
          links->ports[flow->port[k]].left = links->ports[flow->port[k]].capacity;
          links->ports[flow->port[k]].n_flows = 0;
        }
    }
  for (guint i = 0; i < links->moving.n; i++)
    {
      Flow *flow = &links->flows[links->moving.flows[i]];

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
  for (guint left = links->moving.n; left > 0;)
    {
      guint64 level = next_level (links);

      for (guint i = 0; i < links->moving.n; i++)
        {
          Flow *flow = &links->flows[links->moving.flows[i]];

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
  find_rates (links);
  for (guint i = 0; i < links->moving.n; i++)
    {
      Flow *flow = &links->flows[links->moving.flows[i]];

      if (flow->found == flow->rate)
        continue;
      move_bytes (flow, timed->now_ns);
      flow->rate = flow->found;
      PsTraffic wait = (flow->left + flow->rate / 2) / flow->rate;
      ps_heap_set (timed->heap, events->n_devices + links->moving.flows[i],
                   timed->now_ns + (gint64)MIN (wait, (PsTraffic)(G_MAXINT64 / 4)));
    }
}

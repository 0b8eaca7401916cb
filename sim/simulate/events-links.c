/* events-links.c - transfers that share links. Rates come from progressive filling (Bertsekas and Gallager, Data
 * Networks, 2nd edition, section 6.5.2: max-min flow control). They are whole bytes per second, so that sums are exact.
 */
#include "events-timed.h"

#include <math.h>

#define MAX_RATE 1e18 /* bytes per second */

__extension__ typedef unsigned __int128
    Work; /* bytes * 10^9: a rate of one byte per second moves 10^9 of it in 10^9 ns */

typedef enum
{
  PHASE_ALONE,   /* shares nothing */
  PHASE_ROOMY,   /* both its ports have room for all their flows at the rates that they take alone */
  PHASE_LATENCY, /* a port of it is crowded: its rate will have to be found */
  PHASE_BYTES,   /* the same, and it moves bytes */
} Phase;

typedef struct
{
  Work left;       /* as of since_ns */
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
  Work wanted;      /* what all its flows take alone */
  Work most;        /* the most that can be wanted */
  guint64 counted;  /* in it for `end` */
  guint32 end;      /* 1 + the last channel end that was counted */
  guint64 left;     /* while rates are found */
  guint n_flows;    /* that have no rate yet */
} Port;

/* The messages of one class between two devices. All hold one channel end of the sender, one after the other. */
typedef struct
{
  guint32 end;     /* channel end */
  guint32 port[2]; /* links: out of the sender, into the receiver */
  guint16 sender;
  guint16 receiver;
  guint32 transfer; /* the class */
  gint64 latency_ns;
  gint64 least_ns; /* to move them, in this run */
  gboolean shares; /* in this run they may meet others at a port that is too small for all */
  guint32 next;    /* 1 + route of the same class; 0: none */
} Route;

typedef struct
{
  guint n;
  guint32 *flows; /* [n_transfers] */
} FlowList;

struct _PsLinks
{
  const PsCluster *cluster;
  gboolean changed; /* moving flows came or went since rates were found */
  guint n_ports;
  Port *ports;
  GArray *routes;    /* Route */
  guint32 *by_end;   /* [n_routes] all of them in the order of channel ends */
  guint32 *route_of; /* [n_messages] */
  Flow *flows;       /* [n_transfers] */
  FlowList roomy;    /* their rates are known */
  FlowList moving;   /* in PHASE_BYTES */
};

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

/* The route of a message; of_class holds 1 + the last route of each class. */
static guint32
find_route (const PsEvents *events, PsLinks *links, guint32 *of_class, const PsMessage *message)
{
  guint32 transfer = events->program->steps[message->consumer].transfer, found = of_class[transfer];
  gboolean network = ps_cluster_is_remote (links->cluster, message->sender, message->receiver);
  const PsTurn *turns = events->channels->turns[message - events->program->messages];

  for (; found != 0; found = g_array_index (links->routes, Route, found - 1).next)
    {
      const Route *route = &g_array_index (links->routes, Route, found - 1);

      if (route->sender == message->sender && route->receiver == message->receiver)
        return found - 1;
    }
  const Route route = { .transfer = transfer,
                        .end = turns[PS_SIDE_SENDER].end,
                        .port = { find_port (events, message->sender, network, FALSE),
                                  find_port (events, message->receiver, network, TRUE) },
                        .sender = message->sender,
                        .receiver = message->receiver,
                        .latency_ns = ps_cluster_link (links->cluster, message->sender, message->receiver).latency_ns,
                        .next = of_class[transfer] };
  g_array_append_val (links->routes, route);
  of_class[transfer] = links->routes->len;
  return links->routes->len - 1;
}

static int
compare_ends (gconstpointer a, gconstpointer b, gpointer data)
{
  const Route *routes = data, *one = &routes[*(const guint32 *)a], *other = &routes[*(const guint32 *)b];

  return (one->end > other->end) - (one->end < other->end);
}

static void
build_routes (const PsEvents *events, PsLinks *links)
{
  const PsProgram *program = events->program;
  g_autofree guint32 *of_class = g_new0 (guint32, 1 + 2 * (gsize)program->schedule->placement->n_stages);

  links->routes = g_array_new (FALSE, FALSE, sizeof (Route));
  links->route_of = g_new (guint32, program->n_messages + 1);
  for (guint i = 0; i < program->n_messages; i++)
    links->route_of[i] = find_route (events, links, of_class, &program->messages[i]);
  links->by_end = g_new (guint32, links->routes->len + 1);
  for (guint i = 0; i < links->routes->len; i++)
    links->by_end[i] = i;
  g_qsort_with_data (links->by_end, (gint)links->routes->len, sizeof *links->by_end, compare_ends, links->routes->data);
}

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
  build_routes (events, links);
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
  g_array_unref (links->routes);
  g_free (links->route_of);
  g_free (links->by_end);
  g_free (links->ports);
  g_free (links->flows);
  g_free (links->roomy.flows);
  g_free (links->moving.flows);
  g_free (links);
}

static Route *
route_of (const PsLinks *links, const PsTransfer *transfer)
{
  return &g_array_index (links->routes, Route, links->route_of[transfer->message]);
}

/* The rate of a transfer that shares no link, in bytes per second; 0: none of its own, it only takes time. */
static guint64
find_alone (gint64 bytes, gint64 body_ns)
{
  double alone = body_ns > 0 ? (double)bytes * 1e9 / (double)body_ns : 0;

  return alone >= 1 && alone < MAX_RATE ? (guint64)alone : 0;
}

/* A channel end carries one transfer at a time: so a port is wanted at most by the fastest flow of each end. */
static void
count_most (PsLinks *links, const Route *route, guint64 alone)
{
  for (guint k = 0; k < 2; k++)
    {
      Port *port = &links->ports[route->port[k]];
      guint64 counted = port->end == route->end + 1 ? port->counted : 0;

      port->most += MAX (alone, counted) - counted;
      port->counted = MAX (alone, counted);
      port->end = route->end + 1;
    }
}

/* Finds which routes may meet others at a port that has no room for all. */
static void
find_shared (PsEvents *events, PsLinks *links)
{
  Route *routes = (Route *)links->routes->data;

  for (guint i = 0; i < links->routes->len; i++)
    routes[i].least_ns = G_MAXINT64;
  for (guint i = 0; i < events->n_transfers; i++)
    {
      Route *route = route_of (links, &events->transfers[i]);
      gint64 body_ns = events->transfers[i].end_ns - route->latency_ns;

      if (body_ns > 0)
        route->least_ns = MIN (route->least_ns, body_ns);
    }
  for (guint i = 0; i < links->routes->len; i++)
    {
      const Route *route = &routes[links->by_end[i]];
      double fastest = (double)events->costs->message_bytes[route->transfer] * 1e9 / (double)route->least_ns;

      count_most (links, route, (guint64)MIN (fastest, MAX_RATE));
    }
  for (guint i = 0; i < links->routes->len; i++)
    {
      const Port *out = &links->ports[routes[i].port[0]], *in = &links->ports[routes[i].port[1]];

      routes[i].shares = events->channels->n_ends == 0 || out->most > out->capacity || in->most > in->capacity;
    }
}

void
ps_links_begin (PsEvents *events)
{
  PsLinks *links = events->timed->links;

  links->roomy.n = links->moving.n = 0;
  links->changed = FALSE;
  for (guint i = 0; i < links->n_ports; i++)
    links->ports[i] = (Port){ .capacity = links->ports[i].capacity };
  find_shared (events, links);
}

gboolean
ps_links_share (const PsEvents *events, guint32 index)
{
  const PsTransfer *transfer = &events->transfers[index];

  return transfer->part != PS_TRANSFER_EAGER_RECEIVE && route_of (events->timed->links, transfer)->shares;
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
    links->ports[flow->port[k]].wanted += comes ? flow->alone : -(Work)flow->alone;
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
  Work moved = (Work)flow->rate * (guint64)(now_ns - flow->since_ns);

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
  const Route *route = route_of (links, transfer);
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
                  .left = (Work)alone * (guint64)body_ns,
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
      Work wait = (flow->left + flow->rate / 2) / flow->rate;
      ps_heap_set (timed->heap, events->n_devices + links->moving.flows[i],
                   timed->now_ns + (gint64)MIN (wait, (Work)(G_MAXINT64 / 4)));
    }
}

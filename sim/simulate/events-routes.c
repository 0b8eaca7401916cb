/* events-routes.c - the routes of a program, and what ports may be asked for at most. */
#include "events-routes.h"

#include <math.h>

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
find_route (const PsEvents *events, PsRoutes *routes, guint32 *of_class, const PsMessage *message)
{
  const PsCluster *cluster = events->setting.links;
  guint32 transfer = events->program->steps[message->consumer].transfer, found = of_class[transfer];
  gboolean network = ps_cluster_is_remote (cluster, message->sender, message->receiver);
  const PsTurn *turns = events->channels->turns[message - events->program->messages];

  for (; found != 0; found = g_array_index (routes->routes, PsRoute, found - 1).next)
    {
      const PsRoute *route = &g_array_index (routes->routes, PsRoute, found - 1);

      if (route->sender == message->sender && route->receiver == message->receiver)
        return found - 1;
    }
  PsRoute route = { .transfer = transfer,
                    .end = turns[PS_SIDE_SENDER].end,
                    .port = { find_port (events, message->sender, network, FALSE),
                              find_port (events, message->receiver, network, TRUE) },
                    .sender = message->sender,
                    .receiver = message->receiver,
                    .latency_ns = ps_cluster_link (cluster, message->sender, message->receiver).latency_ns,
                    .next = of_class[transfer] };
  route.capacity = MIN (ps_routes_capacity (events, route.port[0]), ps_routes_capacity (events, route.port[1]));
  g_array_append_val (routes->routes, route);
  of_class[transfer] = routes->routes->len;
  return routes->routes->len - 1;
}

static int
compare_ends (gconstpointer a, gconstpointer b, gpointer data)
{
  const PsRoute *routes = data;
  guint32 i = *(const guint32 *)a, k = *(const guint32 *)b, x = routes[i].end, y = routes[k].end;

  return x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

PsRoutes *
ps_routes_new (const PsEvents *events)
{
  const PsProgram *program = events->program;
  PsRoutes *routes = g_new0 (PsRoutes, 1);
  g_autofree guint32 *of_class
      = g_new0 (guint32, 1 + 2 * (gsize)program->n_lengths * program->schedule->placement->n_stages);

  routes->routes = g_array_new (FALSE, FALSE, sizeof (PsRoute));
  routes->route_of = g_new (guint32, program->n_messages + 1);
  for (guint i = 0; i < program->n_messages; i++)
    routes->route_of[i] = find_route (events, routes, of_class, &program->messages[i]);
  routes->by_end = g_new (guint32, routes->routes->len + 1);
  for (guint i = 0; i < routes->routes->len; i++)
    routes->by_end[i] = i;
  qsort_r (routes->by_end, routes->routes->len, sizeof *routes->by_end, compare_ends, routes->routes->data);
  return routes;
}

void
ps_routes_free (PsRoutes *routes)
{
  g_array_unref (routes->routes);
  g_free (routes->by_end);
  g_free (routes->route_of);
  g_free (routes);
}

guint64
ps_routes_capacity (const PsEvents *events, guint port)
{
  const PsCluster *cluster = events->setting.links;
  double inner = ps_cluster_inner_link (cluster, cluster->devices_per_node).bandwidth;

  return (guint64)llrint (port < 2 * events->n_devices ? inner : cluster->network_bandwidth);
}

guint64
ps_routes_alone (const PsEvents *events, const PsRoute *route, gint64 body_ns)
{
  double bytes = (double)events->costs->message_bytes[route->transfer];
  double alone = body_ns > 0 ? bytes * 1e9 / (double)body_ns : 0;

  return alone >= 1 && alone < PS_MAX_TRAFFIC ? (guint64)(gint64)alone : 0;
}

/* The most that may be wanted of a port at a time. */
typedef struct
{
  PsTraffic most;
  guint64 counted; /* in it for `end` */
  guint32 end;     /* 1 + the last channel end that was counted */
} Bound;

/* A channel end carries one transfer at a time: so a port is wanted at most by the fastest flow of each end. */
static void
count_most (Bound *bounds, const PsRoute *route, guint64 alone)
{
  for (guint k = 0; k < 2; k++)
    {
      Bound *bound = &bounds[route->port[k]];
      guint64 counted = bound->end == route->end + 1 ? bound->counted : 0;

      bound->most += MAX (alone, counted) - counted;
      bound->counted = MAX (alone, counted);
      bound->end = route->end + 1;
    }
}

static void
note_least (PsRoute *route, gint64 transfer_ns)
{
  if (transfer_ns > route->latency_ns)
    route->least_ns = MIN (route->least_ns, transfer_ns - route->latency_ns);
}

static void
find_rates (PsRoutes *routes, const PsEvents *events)
{
  PsRoute *all = (PsRoute *)routes->routes->data;
  const gint64 *times = events->setting.transfer_ns;

  for (guint i = 0; i < routes->routes->len; i++)
    {
      all[i].least_ns = G_MAXINT64;
      if (times == NULL)
        note_least (&all[i], events->costs->transfer_ns[all[i].transfer]);
    }
  for (guint i = 0; times != NULL && i < events->program->n_messages; i++)
    note_least (&all[routes->route_of[i]], times[events->program->messages[i].consumer]);
  for (guint i = 0; i < routes->routes->len; i++)
    {
      all[i].alone = ps_routes_alone (events, &all[i], all[i].least_ns);
      all[i].wait_ns = ps_routes_wait_ns ((PsTraffic)all[i].alone * (guint64)all[i].least_ns,
                                          ps_routes_rate (&all[i], all[i].alone));
    }
}

gboolean
ps_routes_begin (PsRoutes *routes, const PsEvents *events)
{
  PsRoute *all = (PsRoute *)routes->routes->data;
  g_autofree Bound *bounds = g_new0 (Bound, 4 * (gsize)events->n_devices);
  gboolean changed = FALSE;

  find_rates (routes, events);
  for (guint i = 0; i < routes->routes->len; i++)
    {
      const PsRoute *route = &all[routes->by_end[i]];
      double fastest = (double)events->costs->message_bytes[route->transfer] * 1e9 / (double)route->least_ns;

      count_most (bounds, route, (guint64)MIN (fastest, PS_MAX_TRAFFIC));
    }
  for (guint i = 0; i < routes->routes->len; i++)
    {
      gboolean shares = events->channels->n_ends == 0;

      for (guint k = 0; k < 2; k++)
        shares |= bounds[all[i].port[k]].most > ps_routes_capacity (events, all[i].port[k]);
      changed |= shares != all[i].shares;
      all[i].shares = shares;
    }
  return changed;
}

/* events-routes.h - the ways that messages take over links, and which of them can never meet others at a port that is
 * too small for all. Private to sim/simulate/events*.c. */
#pragma once

#include "events-private.h"

/* Bytes * 10^9, of which a rate of one byte per second moves 10^9 in 10^9 ns; or a sum of rates. */
__extension__ typedef unsigned __int128 PsTraffic;

#define PS_MAX_TRAFFIC 1e18 /* bytes per second */

/* The messages of one class between two devices. All hold one channel end of the sender, one after the other. */
typedef struct
{
  guint32 end;     /* channel end */
  guint32 port[2]; /* links: out of the sender, into the receiver */
  guint16 sender;
  guint16 receiver;
  guint32 transfer; /* the class */
  gint64 latency_ns;
  guint64 capacity; /* of the smaller port, bytes per second */
  gint64 least_ns;  /* to move one of them, in this run */
  guint64 alone;    /* the rate of a message that takes least_ns */
  gint64 wait_ns;   /* until it has moved with the links to itself */
  gboolean shares;  /* in this run they may meet others at a port that is too small for all */
  guint32 next;     /* 1 + route of the same class; 0: none */
} PsRoute;

typedef struct
{
  GArray *routes;    /* PsRoute */
  guint32 *by_end;   /* [n_routes] all of them in the order of channel ends */
  guint32 *route_of; /* [n_messages] */
} PsRoutes;

PsRoutes *ps_routes_new (const PsEvents *events);
void ps_routes_free (PsRoutes *routes);

/* Ports are counted from 0 to 4 n_devices - 1. Bytes per second. */
guint64 ps_routes_capacity (const PsEvents *events, guint port);

/* The rate of a message that takes body_ns and shares no link, in bytes per second; 0: none of its own, it only takes
 * time. */
guint64 ps_routes_alone (const PsEvents *events, const PsRoute *route, gint64 body_ns);

/* The rate of a message that has the links to itself. */
static inline guint64
ps_routes_rate (const PsRoute *route, guint64 alone)
{
  return MAX (MIN (alone, route->capacity), 1);
}

/* How long it takes to move what is left at a rate. */
static inline gint64
ps_routes_wait_ns (PsTraffic left, guint64 rate)
{
  PsTraffic wait = (left + rate / 2) / rate;

  return (gint64)MIN (wait, (PsTraffic)(G_MAXINT64 / 4));
}

/* Finds the routes that share ports in a run, whose transfers have their durations; FALSE: the same as in the run
 * before. */
gboolean ps_routes_begin (PsRoutes *routes, const PsEvents *events);

static inline const PsRoute *
ps_routes_of (const PsRoutes *routes, const PsTransfer *transfer)
{
  return &g_array_index (routes->routes, PsRoute, routes->route_of[transfer->message]);
}

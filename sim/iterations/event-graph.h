/* event-graph.h - events that repeat, each waiting for others of the same round or of the one before, and how long a
 * round takes in the long run. Private to libpipesim.
 *
 * Max-plus algebra: event i of round k ends at duration[i] + max over its arcs of (end of arc.from in round k - tokens)
 * + delay. In the long run every round takes as long as the maximum over all circles of (sum of durations and delays) /
 * (sum of tokens).
 */
#pragma once

#include <glib.h>

typedef struct _PsEventGraph PsEventGraph;

/* Events 0 .. n_events - 1, which take no time and wait for no other. Free with ps_event_graph_free. */
PsEventGraph *ps_event_graph_new (guint n_events);
void ps_event_graph_free (PsEventGraph *graph);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsEventGraph, ps_event_graph_free)

void ps_event_graph_set_duration (PsEventGraph *graph, guint event, gint64 duration_ns);

/* event also waits for `from`: of the same round when tokens is 0, of the round before when it is 1. */
void ps_event_graph_wait (PsEventGraph *graph, guint event, guint from, guint tokens, gint64 delay_ns);

/* Arcs by the event that waits, and events in an order that begins with nothing that it has to wait for in its own
 * round. */
typedef struct
{
  guint event;
  guint from;
  guint tokens;
  gint64 delay_ns;
} PsEventArc;

typedef struct
{
  guint n_events;
  PsEventArc *arcs;
  guint *first; /* [n_events + 1] into arcs */
  guint *order; /* [n_events] events, each after the events of its round that it waits for */
} PsEventOrder;

/* FALSE when events of one round wait for each other in a circle. Clear with ps_event_order_clear, also then. */
gboolean ps_event_order_init (PsEventOrder *order, const PsEventGraph *graph);
void ps_event_order_clear (PsEventOrder *order);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsEventOrder, ps_event_order_clear)

gint64 ps_event_graph_duration (const PsEventGraph *graph, guint event);

/* Time of a round in the long run, rounded to the nearest nanosecond. *n_rounds is the least number of rounds that take
 * whole nanoseconds. 0 and 1 without circles. The sum of all durations and delays over as many rounds
 * as there are arcs with tokens must stay below 2^100. FALSE when events of one round wait for each other in a circle:
 * then no round ever ends. */
gboolean ps_event_graph_period (const PsEventGraph *graph, gint64 *period_ns, guint *n_rounds);

/* An event on a circle, and the arc by which it waits for the one before it. */
typedef struct
{
  guint event;
  guint tokens;
  gint64 delay_ns;
  gint64 duration_ns;
} PsCircleEvent;

/* A circle that takes as long as the period says, as PsCircleEvent in the order of time. The lowest of the events that
 * wait for the round before is the first. Delays and durations sum to the period times the sum of tokens. NULL where
 * ps_event_graph_period would be FALSE; empty where no circle is. Free with g_array_unref. */
GArray *ps_event_graph_circle (const PsEventGraph *graph);

/* rounds.h - one iteration of a program as a round of an event graph. Private to libpipesim. */
#pragma once

#include <glib.h>
#include <pipesim/simulate.h>

typedef struct _PsEventGraph PsEventGraph;

void ps_event_graph_free (PsEventGraph *graph);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsEventGraph, ps_event_graph_free)

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

/* The steps that complete a program's gradients, and the order in which each device reduces them. */
typedef struct
{
  guint32 *last_step; /* [n_copies * n_stages] step at whose end the gradients of that copy are complete; PS_NO_STEP: no
                         microbatch uses it */
  guint *first;       /* [n_devices + 1] into held */
  guint *held; /* [n_copies * n_stages] copy * n_stages + stage, by device, then in the order of their last ops */
} PsReductions;

void ps_reductions_init (PsReductions *reductions, const PsProgram *program);

void ps_reductions_clear (PsReductions *reductions);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsReductions, ps_reductions_clear)

/* Goes on by one round, where no graph knows the durations beforehand; simulation has run it.
 * ready_ns [n_devices] becomes when each device is ready for the next round, counted from the earliest of these
 * moments. Returns that moment. */
gint64 ps_rounds_advance (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                          PsReduce reduce, gint64 *ready_ns);

/* Numbers of events. The steps come first, by their ids. From first_message on there are a sending and a receiving for
 * each step with an input, if messages have events of their own. All-reduces follow, one for each weight copy of each
 * stage, then the state and the update of each device. Asynchronous schedules have one more event for each step of the
 * program, the optimizer step that follows it; few take time. */
typedef struct
{
  guint first_message;
  guint first_reduction;
  guint first_update;
  guint first_single; /* n_events where the update ends the iteration */
  guint n_events;
} PsRoundEvents;

void ps_round_events_init (PsRoundEvents *events, const PsProgram *program, const PsEventsSetting *setting);

/* The graph whose period is that of the program without a meeting at the optimizer. simulation NULL: durations come
 * from the setting. setting NULL, too: they come from the costs, and transfers are of pure latency. */
PsEventGraph *ps_rounds_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                             const PsEventsSetting *setting, PsReduce reduce);

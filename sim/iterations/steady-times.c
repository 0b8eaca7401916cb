/* steady-times.c - the moments of one iteration in steady state: rounds of its event graph, one after the other. */
#include "rounds.h"

#include "program/drain.h"

#include <pipesim/iterations.h>

#include <string.h>

/* From a standing start the pattern repeats after some rounds for each device. */
#define ROUNDS_PER_DEVICE 4
#define LEAST_ROUNDS 16

/* end_ns: of the round before; becomes those of the next one, with the events of the round before in before_ns. */
static void
go_on (const PsEventGraph *graph, const PsEventOrder *order, gint64 *end_ns, gint64 *before_ns)
{
  memcpy (before_ns, end_ns, order->n_events * sizeof *end_ns);
  for (guint i = 0; i < order->n_events; i++)
    {
      guint event = order->order[i];
      gint64 start_ns = 0;

      for (guint a = order->first[event]; a < order->first[event + 1]; a++)
        {
          const PsEventArc *arc = &order->arcs[a];
          const gint64 *from_ns = arc->tokens > 0 ? before_ns : end_ns;

          start_ns = MAX (start_ns, from_ns[arc->from] + arc->delay_ns);
        }
      end_ns[event] = start_ns + ps_event_graph_duration (graph, event);
    }
}

/* Counts the steps' times from the first op's start. */
static void
set_times (const PsProgram *program, const PsEventGraph *graph, PsSimulation *simulation)
{
  gint64 origin_ns = G_MAXINT64, last_ns = 0;

  for (guint i = 0; i < program->n_steps; i++)
    origin_ns = MIN (origin_ns, simulation->end_ns[i + 1] - ps_event_graph_duration (graph, i));
  for (guint i = 0; i < program->n_steps; i++)
    {
      simulation->end_ns[i + 1] -= origin_ns;
      last_ns = MAX (last_ns, simulation->end_ns[i + 1]);
    }
  simulation->makespan_ns = last_ns;
}

void
ps_iteration_times (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                    PsSimulation *simulation)
{
  guint n_rounds = MAX (LEAST_ROUNDS, ROUNDS_PER_DEVICE * program->schedule->placement->n_devices);
  g_autoptr (PsEventGraph) graph = ps_rounds_new (program, costs, NULL, setting, PS_REDUCE_EXPOSED);
  g_auto (PsEventOrder) order = { 0 };
  g_auto (PsDrain) drain = { 0 };
  g_autofree gint64 *end_ns = NULL, *before_ns = NULL;
  gboolean ordered = ps_event_order_init (&order, graph);

  g_return_if_fail (ordered && simulation->start_ns == NULL);

  end_ns = g_new0 (gint64, order.n_events);
  before_ns = g_new0 (gint64, order.n_events);
  ps_drain_init (&drain, program);
  for (guint i = 0; i < n_rounds; i++)
    go_on (graph, &order, end_ns, before_ns);
  for (guint i = 0; i < program->n_steps; i++)
    simulation->end_ns[i + 1] = (drain.ahead[program->op_of[i]] ? before_ns : end_ns)[i];
  set_times (program, graph, simulation);
}

/* explain-steady.c - the circle of waiting with the longest time per iteration: it sets the pace where devices never
 * meet. */
#include "simulate/rounds.h"

#include <pipesim/answer.h>

typedef struct
{
  const PsProgram *program;
  PsRoundEvents events;
  PsReductions reductions;
  PsExplanation *explanation;
} Walk;

static void
walk_clear (Walk *walk)
{
  ps_reductions_clear (&walk->reductions);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Walk, walk_clear)

static void
append (Walk *walk, PsPathKind kind, guint step, gint64 time_ns)
{
  PsExplanation *explanation = walk->explanation;
  const PsPathPart part = { kind, step, explanation->makespan_ns, explanation->makespan_ns + time_ns };

  if (time_ns == 0)
    return;
  g_array_append_val (explanation->path, part);
  explanation->makespan_ns += time_ns;
}

static guint
last_step (const PsProgram *program, guint device)
{
  return program->step_of[program->schedule->first[device + 1] - 1];
}

/* Appends an event of the circle to the path. Delays are transfers that do not queue. */
static void
append_event (Walk *walk, const PsCircleEvent *at)
{
  const PsRoundEvents *events = &walk->events;

  append (walk, PS_PATH_TRANSFER, at->event, at->delay_ns);
  if (at->event < events->first_message)
    append (walk, PS_PATH_OP, at->event, at->duration_ns);
  else if (at->event < events->first_reduction)
    append (walk, PS_PATH_TRANSFER, (at->event - events->first_message) / 2, at->duration_ns);
  else if (at->event < events->first_update)
    append (walk, PS_PATH_REDUCE,
            walk->reductions.last_step[walk->reductions.held[at->event - events->first_reduction]], at->duration_ns);
  else if (at->event >= events->first_single)
    append (walk, PS_PATH_OPTIMIZER, at->event - events->first_single, at->duration_ns);
  else
    append (walk, PS_PATH_OPTIMIZER, last_step (walk->program, (at->event - events->first_update) / 2),
            at->duration_ns);
}

static gboolean
has_fixed_times (const PsProgram *program, const PsEventsSetting *events, GError **error)
{
  if (events == NULL || ps_events_setting_is_fixed (events))
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_SCHEDULE,
      "%s: with shared links, overlap slow-down or ready order no one circle sets the pace; --sync global can "
      "be explained",
      program->schedule->name);
}

PsExplanation *
ps_explain_steady (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                   const PsEventsSetting *events, PsReduce reduce, GError **error)
{
  g_autoptr (PsEventGraph) graph = NULL;
  g_autoptr (GArray) circle = NULL;
  g_auto (Walk) walk = { .program = program };

  if (!has_fixed_times (program, events, error))
    return NULL;
  graph = ps_rounds_new (program, costs, simulation, events, reduce);
  circle = ps_event_graph_circle (graph);
  if (circle == NULL)
    return ps_refuse_null (error, PS_ERROR_SCHEDULE, "%s: its instructions wait for each other in a circle",
                           program->schedule->name);
  ps_round_events_init (&walk.events, program, events);
  ps_reductions_init (&walk.reductions, program);
  walk.explanation = g_new0 (PsExplanation, 1);
  walk.explanation->n_steps = program->n_steps;
  walk.explanation->n_devices = program->schedule->placement->n_devices;
  walk.explanation->path = g_array_new (FALSE, FALSE, sizeof (PsPathPart));
  for (guint i = 0; i < circle->len; i++)
    {
      const PsCircleEvent *at = &g_array_index (circle, PsCircleEvent, i);

      walk.explanation->n_iterations += at->tokens;
      append_event (&walk, at);
    }
  return walk.explanation;
}

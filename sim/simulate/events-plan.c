/* events-plan.c - finds a good order of sends and receives: runs of the program give orders, and a run of each order
 * says how good it is. */
#include "program/program-private.h"
#include "simulate-private.h"

#include <string.h>

typedef struct {
  PsProgram *program;
  const PsCosts *costs;
  PsEventsSetting setting; /* ready_order 0 */
  PsSimulation *simulation;
  gsize size;          /* of all instructions, bytes */
  PsInstruction *best; /* NULL: none yet */
  gint64 best_ns;
  gint64 best_span_ns;
} Plan;

static void plan_clear (Plan *plan)
{
  ps_simulation_free (plan->simulation);
  g_free (plan->best);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Plan, plan_clear)

/* Runs the program as it stands; FALSE when it deadlocks. */
static gboolean run (Plan *plan)
{
  return ps_events_simulate (plan->program, plan->costs, &plan->setting, plan->simulation, NULL);
}

/* Notes the streams that have just run, if they are the best so far. */
static void note (Plan *plan)
{
  const PsSimulation *simulation = plan->simulation;

  if (plan->best != NULL
      && (simulation->makespan_ns > plan->best_ns
          || (simulation->makespan_ns == plan->best_ns && simulation->max_span_ns >= plan->best_span_ns)))
    return;
  if (plan->best == NULL)
    plan->best = g_malloc (plan->size);
  memcpy (plan->best, plan->program->instructions, plan->size);
  plan->best_ns = simulation->makespan_ns;
  plan->best_span_ns = simulation->max_span_ns;
}

/* The order in which the transfers of the last run began. Blocking devices come to a receive when they did then, others
 * have it posted beforehand. */
static void try_order_of_run (Plan *plan)
{
  const PsSimulation *simulation = plan->simulation;

  ps_program_arrange (plan->program, simulation->transfer_start_ns, simulation->transfer_end_ns,
                      plan->setting.blocking ? simulation->end_ns : NULL);
  if (run (plan))
    note (plan);
}

static gboolean is_safe (const PsProgram *program)
{
  guint n_channels;

  ps_channel_table (&n_channels);
  for (guint channel = 0; channel < n_channels; channel++)
    if (!ps_program_check (program, (PsChannel)channel, NULL))
      return FALSE;
  return TRUE;
}

/* An order by rule, and the order in which its transfers began. */
static void try_rule (Plan *plan, PsCommOrder order)
{
  PsCommOrder asked = plan->program->order;

  plan->program->order = order;
  ps_program_stream (plan->program);
  plan->program->order = asked;
  if (!run (plan))
    return;
  if (order == PS_COMM_ASAP || is_safe (plan->program))
    note (plan);
  try_order_of_run (plan);
}

/* Messages as they come: first the oldest (urgency NULL), or first the most urgent. */
static gboolean try_free_messages (Plan *plan, const gint64 *urgency_ns, GError **error)
{
  PsEventsSetting setting = plan->setting;
  g_autoptr (PsEvents) events = NULL;

  setting.ready_order = 1;
  setting.blocking = FALSE;
  events = ps_events_new (plan->program, plan->costs, &setting, error);
  if (events == NULL)
    return FALSE;
  ps_events_rank_messages (events, urgency_ns, plan->setting.blocking);
  if (ps_events_run (events, plan->costs, plan->simulation, error))
    try_order_of_run (plan);
  return *error == NULL;
}

gboolean ps_events_plan (PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting, GError **error)
{
  g_auto (Plan) plan = { .program = program, .costs = costs, .setting = *setting };
  g_autoptr (GError) cause = NULL;
  g_autofree gint64 *tails = NULL;

  plan.setting.ready_order = 0;
  plan.size = program->first[program->schedule->placement->n_devices] * sizeof *program->instructions;
  plan.simulation = ps_simulation_new (program);
  plan.simulation->times_only = TRUE;
  tails = ps_step_tails (program, costs, &plan.setting);
  if (try_free_messages (&plan, NULL, &cause) && try_free_messages (&plan, tails, &cause)) {
    try_rule (&plan, PS_COMM_ASAP);
    try_rule (&plan, PS_COMM_DEFERRED);
  }
  if (plan.best != NULL) {
    memcpy (program->instructions, plan.best, plan.size);
    ps_program_note_places (program);
  }
  if (cause == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&cause));
  return FALSE;
}

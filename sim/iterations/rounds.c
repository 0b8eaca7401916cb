/* rounds.c - one iteration as a round of an event graph: all ops, then per device the all-reduce of each stage, the
 * state handed down for the optimizer, and the optimizer step that the next round waits for. */
#include "rounds-private.h"

/* The step at whose end the op's result is there: of a pair, its second. */
static guint32
ending_step (const PsProgram *program, guint32 step)
{
  return step + (program->pair && program->pair[step] == PS_PAIR_FIRST);
}

static guint
held_index (const PsSchedule *schedule, PsOp op)
{
  return (schedule->copy ? schedule->copy[op.microbatch] : 0) * schedule->placement->n_stages + op.stage;
}

/* Walking a device's order backwards meets the last W or BW of each of its n_held stages first: held is filled from its
 * end. */
static void
order_device (PsReductions *reductions, const PsProgram *program, guint device, guint n_held)
{
  const PsSchedule *schedule = program->schedule;
  guint fill = reductions->first[device + 1], all = fill - n_held;
  for (guint i = schedule->first[device + 1]; i-- > schedule->first[device] && fill > all;)
    {
      PsOp op = schedule->ops[i];
      guint index = held_index (schedule, op);
      if ((op.kind != PS_OP_W && op.kind != PS_OP_BW) || reductions->last_step[index] != PS_NO_STEP)
        continue;
      reductions->last_step[index] = ending_step (program, program->step_of[i]);
      reductions->held[--fill] = index;
    }
  reductions->first[device] = fill;
}

void
ps_reductions_init (PsReductions *reductions, const PsProgram *program)
{
  const PsPlacement *placement = program->schedule->placement;
  guint n = placement->n_copies * placement->n_stages;
  reductions->last_step = g_new (guint32, n);
  reductions->held = g_new0 (guint, n);
  reductions->first = g_new0 (guint, (gsize)placement->n_devices + 1);
  for (guint i = 0; i < n; i++)
    reductions->last_step[i] = PS_NO_STEP;
  reductions->first[placement->n_devices] = n;
  g_autofree guint *n_held = g_new0 (guint, placement->n_devices);
  for (guint i = 0; i < n; i++)
    n_held[placement->device[i]]++;
  for (guint device = placement->n_devices; device-- > 0;)
    order_device (reductions, program, device, n_held[device]);
}

void
ps_reductions_clear (PsReductions *reductions)
{
  g_free (reductions->last_step);
  g_free (reductions->held);
  g_free (reductions->first);
}

static gboolean
has_messages (const PsEventsSetting *setting)
{
  return setting->comm != PS_CHANNEL_LATENCY || setting->blocking;
}

void
ps_round_events_init (PsRoundEvents *events, const PsProgram *program, const PsEventsSetting *setting)
{
  const PsPlacement *placement = program->schedule->placement;
  events->first_message = program->n_steps;
  events->first_reduction = program->n_steps * (setting && has_messages (setting) ? 3 : 1);
  events->first_update = events->first_reduction + placement->n_copies * placement->n_stages;
  events->n_events = events->first_update + 2 * placement->n_devices;
}

static void
rounds_init (PsRounds *rounds)
{
  const PsProgram *program = rounds->program;
  const PsPlacement *placement = program->schedule->placement;
  ps_reductions_init (&rounds->reductions, program);
  ps_drain_init (&rounds->drain, program);
  rounds->last = g_new (guint, placement->n_devices);
  for (guint device = 0; device < placement->n_devices; device++)
    rounds->last[device] = PS_NO_EVENT;
  ps_round_events_init (&rounds->events, program, rounds->setting);
  rounds->graph = ps_event_graph_new (rounds->events.n_events);
}

static void
rounds_clear (PsRounds *rounds)
{
  ps_reductions_clear (&rounds->reductions);
  ps_drain_clear (&rounds->drain);
  g_free (rounds->last);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsRounds, rounds_clear)

static guint
state_event (const PsRounds *rounds, guint device)
{
  return rounds->events.first_update + 2 * device;
}

static guint
update_event (const PsRounds *rounds, guint device)
{
  return state_event (rounds, device) + 1;
}

void
ps_rounds_follow (PsRounds *rounds, guint device, guint event)
{
  guint *last = &rounds->last[device];
  if (*last != PS_NO_EVENT)
    ps_event_graph_wait (rounds->graph, event, *last, 0, 0);
  else
    ps_event_graph_wait (rounds->graph, event, update_event (rounds, device), 1, 0);
  *last = event;
}

/* The events engine may have run at other durations than the costs'. */
static gint64
step_duration (const PsRounds *rounds, guint step)
{
  const PsSimulation *simulation = rounds->simulation;
  const PsProgram *program = rounds->program;
  if (!simulation && rounds->setting->duration_ns)
    return rounds->setting->duration_ns[step];
  if (!simulation || !simulation->start_ns)
    return ps_step_duration (program, rounds->costs, step);
  if (program->pair && program->pair[step] == PS_PAIR_FIRST)
    return 0;
  return simulation->end_ns[step + 1] - simulation->start_ns[step];
}

void
ps_rounds_add_op (PsRounds *rounds, guint op)
{
  const PsProgram *program = rounds->program;
  guint step = program->step_of[op];
  const PsStep *what = &program->steps[step];
  ps_event_graph_set_duration (rounds->graph, step, step_duration (rounds, step));
  ps_rounds_follow (rounds, what->device, step);
  if (what->input == 0 || has_messages (rounds->setting))
    return;
  guint producer = what->input - 1;
  const gint64 *transfer_ns = rounds->setting->transfer_ns;
  ps_event_graph_wait (rounds->graph, step, producer,
                       rounds->drain.ahead[program->op_of[producer]] - rounds->drain.ahead[op],
                       transfer_ns ? transfer_ns[step] : rounds->costs->transfer_ns[what->transfer]);
}

/* Where an asynchronous schedule hides its all-reduces behind the next round, only those of the round before are done
 * when it ends; they must not pile up either, so the first waits for the last of the round before. */
static gboolean
reduces_late (const PsRounds *rounds)
{
  return rounds->program->schedule->asynchronous && rounds->reduce == PS_REDUCE_OVERLAPPED;
}

/* The all-reduce of what reductions.held[i] names; `before` is the one before it on the device. */
static void
add_reduction (PsRounds *rounds, guint device, guint i, guint before)
{
  const PsPlacement *placement = rounds->program->schedule->placement;
  guint stage = rounds->reductions.held[i] % placement->n_stages, event = rounds->events.first_reduction + i;
  ps_event_graph_set_duration (rounds->graph, event, ps_costs_reduce_ns (rounds->costs, stage, placement->n_copies));
  for (guint copy = 0; copy < placement->n_copies; copy++)
    {
      guint32 step = rounds->reductions.last_step[copy * placement->n_stages + stage];
      if (step != PS_NO_STEP)
        ps_event_graph_wait (rounds->graph, event, step, 0, 0);
    }
  if (rounds->reduce == PS_REDUCE_EXPOSED)
    ps_event_graph_wait (rounds->graph, event, rounds->last[device], 0, 0);
  if (before != PS_NO_EVENT)
    ps_event_graph_wait (rounds->graph, event, before, 0, 0);
}

/* The event of the device's last all-reduce; PS_NO_EVENT: it has none. */
static guint
add_reductions (PsRounds *rounds, guint device)
{
  guint begin = rounds->reductions.first[device], end = rounds->reductions.first[device + 1];
  for (guint i = begin; i < end; i++)
    add_reduction (rounds, device, i, i > begin ? rounds->events.first_reduction + i - 1 : PS_NO_EVENT);
  if (begin == end)
    return PS_NO_EVENT;
  if (reduces_late (rounds))
    ps_event_graph_wait (rounds->graph, rounds->events.first_reduction + begin,
                         rounds->events.first_reduction + end - 1, 1, 0);
  return rounds->events.first_reduction + end - 1;
}

static void
add_update (PsRounds *rounds, guint device)
{
  guint state = state_event (rounds, device), reduced = add_reductions (rounds, device);
  if (rounds->last[device] != PS_NO_EVENT)
    ps_event_graph_wait (rounds->graph, state, rounds->last[device], 0, 0);
  if (reduced != PS_NO_EVENT)
    ps_event_graph_wait (rounds->graph, state, reduced, reduces_late (rounds), 0);
  if (device > 0 && !rounds->program->schedule->asynchronous)
    ps_event_graph_wait (rounds->graph, state, state_event (rounds, device - 1), 0, 0);
  ps_event_graph_set_duration (rounds->graph, update_event (rounds, device),
                               ps_events_optimizer_ns (rounds->program, rounds->costs, rounds->setting, device));
  ps_event_graph_wait (rounds->graph, update_event (rounds, device), state, 0, 0);
}

PsEventGraph *
ps_rounds_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
               const PsEventsSetting *setting, PsReduce reduce)
{
  static const PsEventsSetting latency = { .comm = PS_CHANNEL_LATENCY };
  g_auto (PsRounds) rounds = { .program = program,
                               .costs = costs,
                               .simulation = simulation,
                               .setting = setting ? setting : &latency,
                               .reduce = reduce };
  rounds_init (&rounds);
  if (has_messages (rounds.setting))
    ps_rounds_add_messages (&rounds);
  else
    for (guint i = 0; i < program->n_steps; i++)
      ps_rounds_add_op (&rounds, rounds.drain.sequence[i]);
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    add_update (&rounds, device);
  return rounds.graph;
}

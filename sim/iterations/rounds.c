/* rounds.c - one iteration as a round of an event graph. After all ops come, per device, the all-reduce of each stage,
 * the state handed down for the optimizer, and the optimizer step. The next round waits for that step. */
#include "rounds.h"

#include "program/channels.h"
#include "program/drain.h"
#include "simulate/events-private.h"

#define NO_EVENT G_MAXUINT

/* The first and the last event that hold one end of a channel in a round. */
typedef struct
{
  guint head; /* event; NO_EVENT: nothing yet */
  guint tail;
} End;

/* A round while it is built. */
typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation; /* NULL: durations come from the costs */
  const PsEventsSetting *setting;
  PsReduce reduce;
  PsEventGraph *graph;
  PsReductions reductions;
  PsDrain drain;
  guint *last;    /* [n_devices] the device's last event in this round; NO_EVENT: none yet */
  guint *pending; /* [n_copies * n_stages] ends of microbatches on the stage since its last update */
  PsRoundEvents events;
  PsChannels *channels;
  End *ends; /* [n_ends] */
} Rounds;

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
  events->first_reduction = program->n_steps * (setting != NULL && has_messages (setting) ? 3 : 1);
  events->first_update = events->first_reduction + placement->n_copies * placement->n_stages;
  events->first_single = events->first_update + 2 * placement->n_devices;
  events->n_events = events->first_single + (program->schedule->asynchronous ? program->n_steps : 0);
}

static void
rounds_init (Rounds *rounds)
{
  const PsProgram *program = rounds->program;
  const PsPlacement *placement = program->schedule->placement;

  ps_reductions_init (&rounds->reductions, program);
  ps_drain_init (&rounds->drain, program);
  rounds->last = g_new (guint, placement->n_devices);
  for (guint device = 0; device < placement->n_devices; device++)
    rounds->last[device] = NO_EVENT;
  rounds->pending = g_new0 (guint, placement->n_copies * placement->n_stages);
  ps_round_events_init (&rounds->events, program, rounds->setting);
  rounds->graph = ps_event_graph_new (rounds->events.n_events);
  rounds->channels = ps_channels_new (program, rounds->setting->comm);
  rounds->ends = g_new0 (End, rounds->channels->n_ends);
  for (guint i = 0; i < rounds->channels->n_ends; i++)
    rounds->ends[i] = (End){ NO_EVENT, NO_EVENT };
}

static void
rounds_clear (Rounds *rounds)
{
  ps_reductions_clear (&rounds->reductions);
  ps_drain_clear (&rounds->drain);
  g_free (rounds->last);
  g_free (rounds->pending);
  ps_channels_free (rounds->channels);
  g_free (rounds->ends);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Rounds, rounds_clear)

static guint
state_event (const Rounds *rounds, guint device)
{
  return rounds->events.first_update + 2 * device;
}

static guint
update_event (const Rounds *rounds, guint device)
{
  return state_event (rounds, device) + 1;
}

static void
follow (Rounds *rounds, guint device, guint event)
{
  guint *last = &rounds->last[device];

  if (*last != NO_EVENT)
    ps_event_graph_wait (rounds->graph, event, *last, 0, 0);
  else
    ps_event_graph_wait (rounds->graph, event, update_event (rounds, device), 1, 0);
  *last = event;
}

/* The events engine may have run at other durations than the costs'. */
static gint64
step_duration (const Rounds *rounds, guint step)
{
  const PsSimulation *simulation = rounds->simulation;
  const PsProgram *program = rounds->program;

  if (simulation == NULL && rounds->setting->duration_ns != NULL)
    return rounds->setting->duration_ns[step];
  if (simulation == NULL || simulation->start_ns == NULL)
    return ps_step_duration (program, rounds->costs, step);
  if (program->pair != NULL && program->pair[step] == PS_PAIR_FIRST)
    return 0;
  return simulation->end_ns[step + 1] - simulation->start_ns[step];
}

gboolean
ps_rounds_update_after (const PsProgram *program, guint step, const PsCosts *costs, const PsEventsSetting *setting,
                        PsReduce reduce, guint *pending, gint64 *duration_ns)
{
  const PsSchedule *schedule = program->schedule;
  const PsPlacement *placement = schedule->placement;
  PsOp op = schedule->ops[program->op_of[step]];
  guint *of_copy = &pending[ps_schedule_weight_copy (schedule, op.microbatch) * placement->n_stages + op.stage];

  if ((op.kind != PS_OP_W && op.kind != PS_OP_BW)
      || ++*of_copy < ps_schedule_update_every (schedule) * schedule->n_slices)
    return FALSE;
  *of_copy = 0;
  *duration_ns
      = ps_event_at_speed (setting, program->steps[step].device, ps_costs_op (costs, PS_OP_O, op.stage)->duration_ns);
  if (reduce == PS_REDUCE_EXPOSED)
    *duration_ns += ps_costs_reduce_ns (costs, op.stage, placement->n_copies);
  return TRUE;
}

static void
add_single_update (Rounds *rounds, guint step)
{
  guint event = rounds->events.first_single + step;
  gint64 duration_ns;

  if (!ps_rounds_update_after (rounds->program, step, rounds->costs, rounds->setting, rounds->reduce, rounds->pending,
                               &duration_ns))
    return;
  ps_event_graph_set_duration (rounds->graph, event, duration_ns);
  follow (rounds, rounds->program->steps[step].device, event);
}

static void
add_op (Rounds *rounds, guint op)
{
  const PsProgram *program = rounds->program;
  guint step = program->step_of[op];
  const PsStep *about = &program->steps[step];

  ps_event_graph_set_duration (rounds->graph, step, step_duration (rounds, step));
  follow (rounds, about->device, step);
  if (rounds->program->schedule->asynchronous)
    add_single_update (rounds, step);
  if (about->input == 0 || has_messages (rounds->setting))
    return;
  guint producer = about->input - 1;
  const gint64 *transfer_ns = rounds->setting->transfer_ns;
  ps_event_graph_wait (rounds->graph, step, producer,
                       rounds->drain.ahead[program->op_of[producer]] - rounds->drain.ahead[op],
                       transfer_ns != NULL ? transfer_ns[step] : rounds->costs->transfer_ns[about->transfer]);
}

static guint
sent_event (const Rounds *rounds, guint step)
{
  return rounds->events.first_message + 2 * step;
}

static guint
received_event (const Rounds *rounds, guint step)
{
  return sent_event (rounds, step) + 1;
}

/* The message of a step has two events. Sending it takes its time, receiving it takes none. This links data, duration
 * and arrival; the waiting on channel ends comes with the instructions. */
static void
add_message (Rounds *rounds, guint step)
{
  const PsProgram *program = rounds->program;
  const gint64 *transfer_ns = rounds->setting->transfer_ns;
  guint sent = sent_event (rounds, step), received = received_event (rounds, step);
  guint producer = program->steps[step].input - 1;
  guint tokens = rounds->drain.ahead[program->op_of[producer]] - rounds->drain.ahead[program->op_of[step]];

  ps_event_graph_set_duration (rounds->graph, sent,
                               transfer_ns != NULL ? transfer_ns[step]
                                                   : rounds->costs->transfer_ns[program->steps[step].transfer]);
  ps_event_graph_wait (rounds->graph, sent, producer, 0, 0);
  ps_event_graph_wait (rounds->graph, received, sent, 0, 0);
  ps_event_graph_wait (rounds->graph, step, received, tokens, 0);
}

/* The next send or receive of a device. Its turn lets the sending begin, or, at the receiver of an eager message, the
 * receiving. */
static void
add_post (Rounds *rounds, guint32 message, guint side)
{
  const PsProgram *program = rounds->program;
  const PsMessage *about = &program->messages[message - 1];
  guint step = about->consumer, sent = sent_event (rounds, step), received = received_event (rounds, step);
  gboolean eager
      = ps_events_setting_is_eager (rounds->setting, rounds->costs->message_bytes[program->steps[step].transfer]);
  guint holds = side == PS_SIDE_RECEIVER ? received : sent;
  guint waits = side == PS_SIDE_RECEIVER && eager ? received : sent;
  End *end;

  if (rounds->setting->blocking)
    {
      guint device = side == PS_SIDE_RECEIVER ? about->receiver : about->sender;

      follow (rounds, device, waits);
      rounds->last[device] = holds;
    }
  if (rounds->channels->n_ends == 0)
    return;
  end = &rounds->ends[rounds->channels->turns[message - 1][side].end];
  if (end->tail == NO_EVENT)
    end->head = waits;
  else
    ps_event_graph_wait (rounds->graph, waits, end->tail, 0, 0);
  end->tail = holds;
}

/* As the program orders them. */
static void
walk_instructions (Rounds *rounds, guint device)
{
  const PsProgram *program = rounds->program;
  guint op = program->schedule->first[device];

  for (guint i = program->first[device]; i < program->first[device + 1]; i++)
    {
      const PsInstruction *instruction = &program->instructions[i];

      if (instruction->type == PS_INSTRUCTION_COMPUTE)
        add_op (rounds, op++);
      else if (ps_instruction_is_post (instruction))
        add_post (rounds, instruction->message, ps_instruction_side (instruction));
    }
}

static void
walk_op (gpointer rounds, guint op)
{
  add_op (rounds, op);
}

static void
walk_message (gpointer rounds, guint32 number)
{
  add_post (rounds, number, PS_SIDE_SENDER);
  add_post (rounds, number, PS_SIDE_RECEIVER);
}

/* All ops and messages, where transfers queue, are eager or hold up devices. The first to hold an end in a round waits
 * for the last of the round before. */
static void
add_messages (Rounds *rounds)
{
  const PsProgram *program = rounds->program;

  for (guint i = 0; i < program->n_steps; i++)
    if (program->message_of[i] != 0)
      add_message (rounds, i);
  if (program->schedule->asynchronous)
    ps_drain_walk (&rounds->drain, program, walk_op, walk_message, rounds);
  else
    for (guint device = 0; device < program->schedule->placement->n_devices; device++)
      walk_instructions (rounds, device);
  for (guint i = 0; i < rounds->channels->n_ends; i++)
    ps_event_graph_wait (rounds->graph, rounds->ends[i].head, rounds->ends[i].tail, 1, 0);
}

/* Whether all-reduces overlap with the next round of an asynchronous schedule. Only those of the round before are done
 * when a round ends. They must not pile up, so the first waits for the last of the round before. */
static gboolean
reduces_late (const Rounds *rounds)
{
  return rounds->program->schedule->asynchronous && rounds->reduce == PS_REDUCE_OVERLAPPED;
}

static guint
n_updates (const PsSchedule *schedule)
{
  return schedule->n_microbatches / ps_schedule_update_every (schedule);
}

/* The all-reduce of reductions.held[i]; `before` is the previous all-reduce of the device. */
static void
add_reduction (Rounds *rounds, guint device, guint i, guint before)
{
  const PsPlacement *placement = rounds->program->schedule->placement;
  guint stage = rounds->reductions.held[i] % placement->n_stages, event = rounds->events.first_reduction + i;
  gint64 reduce_ns = ps_costs_reduce_ns (rounds->costs, stage, placement->n_copies);

  /* One for each optimizer step; exposed ones belong to their steps. */
  if (rounds->program->schedule->asynchronous)
    reduce_ns *= rounds->reduce == PS_REDUCE_EXPOSED ? 0 : n_updates (rounds->program->schedule);
  ps_event_graph_set_duration (rounds->graph, event, reduce_ns);
  for (guint copy = 0; copy < placement->n_copies; copy++)
    {
      guint32 step = rounds->reductions.last_step[copy * placement->n_stages + stage];

      if (step != PS_NO_STEP)
        ps_event_graph_wait (rounds->graph, event, step, 0, 0);
    }
  if (rounds->reduce == PS_REDUCE_EXPOSED)
    ps_event_graph_wait (rounds->graph, event, rounds->last[device], 0, 0);
  if (before != NO_EVENT)
    ps_event_graph_wait (rounds->graph, event, before, 0, 0);
}

/* The event of the device's last all-reduce; NO_EVENT: it has none. */
static guint
add_reductions (Rounds *rounds, guint device)
{
  guint begin = rounds->reductions.first[device], end = rounds->reductions.first[device + 1];

  for (guint i = begin; i < end; i++)
    add_reduction (rounds, device, i, i > begin ? rounds->events.first_reduction + i - 1 : NO_EVENT);
  if (begin == end)
    return NO_EVENT;
  if (reduces_late (rounds))
    ps_event_graph_wait (rounds->graph, rounds->events.first_reduction + begin,
                         rounds->events.first_reduction + end - 1, 1, 0);
  return rounds->events.first_reduction + end - 1;
}

static void
add_update (Rounds *rounds, guint device)
{
  guint state = state_event (rounds, device), reduced = add_reductions (rounds, device);

  if (rounds->last[device] != NO_EVENT)
    ps_event_graph_wait (rounds->graph, state, rounds->last[device], 0, 0);
  if (reduced != NO_EVENT)
    ps_event_graph_wait (rounds->graph, state, reduced, reduces_late (rounds), 0);
  if (device > 0 && !rounds->program->schedule->asynchronous)
    ps_event_graph_wait (rounds->graph, state, state_event (rounds, device - 1), 0, 0);
  if (!rounds->program->schedule->asynchronous)
    ps_event_graph_set_duration (rounds->graph, update_event (rounds, device),
                                 ps_events_optimizer_ns (rounds->program, rounds->costs, rounds->setting, device));
  ps_event_graph_wait (rounds->graph, update_event (rounds, device), state, 0, 0);
}

gint64
ps_rounds_end (const PsReductions *reductions, const PsProgram *program, const PsCosts *costs,
               const PsSimulation *simulation, PsReduce reduce, gint64 *ready_ns)
{
  gint64 state = 0, least = G_MAXINT64;

  for (guint device = 0; device < simulation->n_devices; device++)
    {
      state = MAX (state, ps_reductions_end_ns (reductions, program, costs, simulation, device, reduce));
      ready_ns[device] = state + simulation->device[device].optimizer_ns;
      least = MIN (least, ready_ns[device]);
    }
  for (guint device = 0; device < simulation->n_devices; device++)
    ready_ns[device] -= least;
  return least;
}

gint64
ps_rounds_advance (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, PsReduce reduce,
                   gint64 *ready_ns)
{
  g_auto (PsReductions) reductions = { 0 };

  ps_reductions_init (&reductions, program);
  ps_reductions_follow (&reductions, program, simulation);
  return ps_rounds_end (&reductions, program, costs, simulation, reduce, ready_ns);
}

PsEventGraph *
ps_rounds_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
               const PsEventsSetting *setting, PsReduce reduce)
{
  static const PsEventsSetting latency = { .comm = PS_CHANNEL_LATENCY };
  g_auto (Rounds) rounds = { .program = program,
                             .costs = costs,
                             .simulation = simulation,
                             .setting = setting != NULL ? setting : &latency,
                             .reduce = reduce };

  rounds_init (&rounds);
  if (has_messages (rounds.setting))
    add_messages (&rounds);
  else
    for (guint i = 0; i < program->n_steps; i++)
      add_op (&rounds, rounds.drain.sequence[i]);
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    add_update (&rounds, device);
  return rounds.graph;
}

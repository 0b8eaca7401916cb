/* events.c - a run of the events engine. Where times follow from the order alone, devices are followed as far as they
 * go, and each transfer starts when the last of its conditions is met: no queue, no choice, so any order of doing this
 * gives the same times. */
#include "events-follow.h"

#include <math.h>

static void
allot_times (PsSimulation *simulation)
{
  if (simulation->start_ns != NULL)
    return;
  simulation->start_ns = g_new0 (gint64, simulation->n_steps);
  simulation->transfer_start_ns = g_new0 (gint64, simulation->n_steps);
  simulation->transfer_end_ns = g_new0 (gint64, simulation->n_steps);
}

/* Every transfer and op gets its duration under these costs. */
static void
begin_transfers (PsEvents *events)
{
  const gint64 *times = events->setting.transfer_ns, *costs = events->costs->transfer_ns;
  const PsStep *steps = events->program->steps;
  const PsTransfer *end = events->transfers + events->n_transfers;

  for (PsTransfer *transfer = events->transfers; transfer < end; transfer++)
    {
      guint32 step = transfer->consumer;

      transfer->start_ns = 0;
      transfer->end_ns = times != NULL ? times[step] : costs[steps[step].transfer];
      if (transfer->part == PS_TRANSFER_EAGER_RECEIVE)
        transfer->end_ns = 0;
      transfer->missing = transfer->conditions;
      transfer->done = FALSE;
      transfer->joined = 0;
    }
}

static void
begin_items (PsEvents *events, guint device)
{
  const gint64 *times = events->setting.duration_ns;
  gboolean scales = events->setting.speed != NULL && events->setting.speed[device] != 1;
  const PsOpCost *costs = events->costs->op;
  const PsItem *end = events->items + events->first_item[device + 1];

  for (PsItem *item = events->items + events->first_item[device]; item < end; item++)
    {
      if (item->type != PS_ITEM_OP)
        continue;
      if (times != NULL)
        item->duration_ns = times[item->step];
      else if (item->pair != PS_PAIR_NONE)
        item->duration_ns = ps_step_duration (events->program, events->costs, item->step);
      else
        item->duration_ns = costs[item->cost].duration_ns;
      if (scales)
        item->duration_ns
            = ps_event_step_at_speed (&events->setting, events->program, events->costs, item->step, item->duration_ns);
    }
}

gint64
ps_events_optimizer_ns (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting, guint device)
{
  const PsPlacement *placement = program->schedule->placement;
  gint64 sum = 0;

  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++)
    if (placement->device[i] == device)
      sum += ps_costs_op (costs, PS_OP_O, i % placement->n_stages)->duration_ns;
  return setting != NULL ? ps_event_at_speed (setting, device, sum) : sum;
}

static void
begin (PsEvents *events, const PsCosts *costs, PsSimulation *simulation)
{
  events->costs = costs;
  events->simulation = simulation;
  events->n_startable = events->n_awake = 0;
  ps_simulation_begin (events->program, costs, simulation);
  allot_times (simulation);
  begin_transfers (events);
  for (guint device = events->n_devices; device-- > 0;)
    {
      gint64 ready = events->setting.ready_ns != NULL ? events->setting.ready_ns[device] : 0;

      begin_items (events, device);
      simulation->device[device].optimizer_ns
          = ps_events_optimizer_ns (events->program, costs, &events->setting, device);
      events->devices[device] = (PsEventDevice){
        .clock_ns = ready,
        .next = events->first_item[device],
        .end = events->first_item[device + 1],
      };
      events->awake[events->n_awake++] = (guint16)device;
    }
}

/* The second run notes its order for all later ones: most engines run only once. */
static void
run_untimed (PsEvents *events)
{
  if (ps_replay_run (events))
    return;
  if (events->n_runs == 1)
    events->replay = ps_replay_new (events);
  while (events->n_awake > 0)
    ps_follow (events, events->awake[--events->n_awake], FALSE);
  if (events->n_runs == 1)
    ps_replay_complete (events);
}

/* The send, the receive or the wait at which a device cannot go on with its item. */
static guint
find_instruction (const PsEvents *events, const PsItem *item)
{
  const PsProgram *program = events->program;
  guint32 index = events->transfers[item->wait - 1].message;
  const PsPlaces *places = &program->places[index];
  guint i = places->receive;

  if (item->type != PS_ITEM_OP)
    return item->type == PS_ITEM_SEND ? places->send : places->receive;
  while (program->instructions[i].type != PS_INSTRUCTION_WAIT || program->instructions[i].message != index + 1)
    i++;
  return i;
}

/* TRUE when every device has come to its end; else says who waits for whom. */
static gboolean
check_finished (const PsEvents *events, GError **error)
{
  g_autofree guint *cursor = g_new (guint, events->n_devices);
  g_autofree guint8 *done = g_new0 (guint8, events->program->n_messages + 1),
                    *exists = g_new0 (guint8, events->program->n_messages + 1);
  gboolean finished = TRUE;

  for (guint device = 0; device < events->n_devices; device++)
    {
      const PsEventDevice *state = &events->devices[device];

      cursor[device] = events->program->first[device + 1];
      if (state->next < state->end)
        cursor[device] = find_instruction (events, &events->items[state->next]);
      finished &= state->next == state->end;
    }
  if (finished)
    return TRUE;
  for (guint i = 0; i < events->program->n_messages; i++)
    {
      const PsMessage *message = &events->program->messages[i];

      done[i] = events->transfers[i].done;
      exists[i] = events->item_of_step[message->producer] < events->devices[message->sender].next;
    }
  ps_channels_explain (events->channels,
                       &(PsChannelsStuck){ .cursor = cursor,
                                           .done = done,
                                           .exists = events->setting.blocking ? NULL : exists,
                                           .receives_wait = events->setting.blocking },
                       error);
  return FALSE;
}

/* The sends of a blocking device after its last op are no part of its span. */
static gint64
last_op_end (const PsEvents *events, guint device)
{
  const PsProgram *program = events->program;

  return events->simulation->end_ns[program->step_of[program->schedule->first[device + 1] - 1] + 1];
}

static gint64
host_time (const PsEvents *events, guint device)
{
  gint64 sum = 0;

  for (guint i = events->first_item[device]; events->costs->host_time != NULL && i < events->first_item[device + 1];
       i++)
    if (events->items[i].type == PS_ITEM_OP)
      sum += ps_host_time_sum (ps_step_host_time (events->program, events->costs, events->items[i].step));
  return sum;
}

/* In the order of steps, as times lie in memory. */
static void
count_busy (const PsEvents *events, PsSimulation *simulation)
{
  g_autofree gint64 *busy_ns = g_new0 (gint64, events->n_devices);
  const PsStep *steps = events->program->steps;
  const gint64 *start_ns = simulation->start_ns, *end_ns = simulation->end_ns;

  for (guint step = 0, n = simulation->n_steps; step < n; step++)
    busy_ns[steps[step].device] += end_ns[step + 1] - start_ns[step];
  for (guint device = 0; device < events->n_devices; device++)
    simulation->device[device].busy_ns = busy_ns[device];
}

/* Memory as in the relaxation engine: taken at the start, given back at the end; both ops of a pair at the pair's. */
static void
count_memory (const PsEvents *events, guint device, PsSimulation *simulation)
{
  const guint32 *sequence = events->ready != NULL ? ps_ready_sequence (events->ready) : NULL;
  const PsItem *items = events->items;
  const PsOpCost *costs = events->costs->op;
  PsMemoryLevel memory = simulation->memory[device];
  gint64 give_bytes = 0;

  for (guint i = events->first_item[device], end = events->first_item[device + 1]; i < end; i++)
    {
      const PsItem *item = &items[sequence != NULL ? sequence[i] : i];
      const PsOpCost *cost = &costs[item->cost];

      if (item->type != PS_ITEM_OP)
        continue;
      memory.held_bytes += cost->take_bytes;
      memory.peak_bytes = MAX (memory.peak_bytes, memory.held_bytes);
      give_bytes += cost->give_bytes;
      if (item->pair == PS_PAIR_FIRST)
        continue;
      memory.held_bytes -= give_bytes;
      give_bytes = 0;
    }
  simulation->device[device].held_bytes = memory.held_bytes;
  simulation->device[device].peak_bytes = memory.peak_bytes;
  simulation->memory[device] = memory;
}

static gint64
first_op_start (const PsEvents *events, guint device)
{
  const PsProgram *program = events->program;
  guint32 first = program->step_of[program->schedule->first[device]];

  if (events->ready != NULL)
    first = events->items[ps_ready_sequence (events->ready)[events->first_item[device]]].step;
  return events->simulation->start_ns[first];
}

static void
finish (PsEvents *events, PsSimulation *simulation)
{
  const guint *first = events->program->schedule->first;

  count_busy (events, simulation);
  for (guint device = 0; device < events->n_devices; device++)
    {
      PsDeviceResult *result = &simulation->device[device];

      count_memory (events, device, simulation);
      result->host_ns = host_time (events, device);
      result->busy_ns -= result->host_ns;
      if (first[device] == first[device + 1])
        continue;
      result->start_ns = first_op_start (events, device);
      result->end_ns = events->setting.blocking ? last_op_end (events, device) : events->devices[device].clock_ns;
    }
  ps_simulation_finish (simulation);
}

gboolean
ps_events_run (PsEvents *events, const PsCosts *costs, PsSimulation *simulation, GError **error)
{
  g_return_val_if_fail (simulation->n_steps == events->program->n_steps, FALSE);
  begin (events, costs, simulation);
  if (events->timed != NULL)
    ps_timed_run (events);
  else
    run_untimed (events);
  if (!check_finished (events, error))
    return FALSE;
  events->n_runs++;
  finish (events, simulation);
  if (events->ready == NULL) /* else the program is not the order that has run */
    ps_simulation_count_buffers (events->program, costs, simulation);
  return TRUE;
}

gboolean
ps_events_simulate (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                    PsSimulation *simulation, GError **error)
{
  g_autoptr (PsEvents) events = ps_events_new (program, costs, setting, error);

  return events != NULL && ps_events_run (events, costs, simulation, error);
}

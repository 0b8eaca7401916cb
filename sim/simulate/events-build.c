/* events-build.c - makes the engine for a program: the items of each device and the conditions of each transfer. */
#include "events-timed.h"

void
ps_events_free (PsEvents *events)
{
  if (events == NULL)
    return;
  ps_channels_free (events->channels);
  g_free (events->transfers);
  g_free (events->items);
  g_free (events->item_of_step);
  g_free (events->first_item);
  g_free (events->devices);
  g_free (events->startable);
  g_free (events->awake);
  ps_timed_free (events->timed);
  ps_ready_free (events->ready);
  ps_replay_free (events->replay);
  g_free (events);
}

/* The transfer that a consumer waits for: the part on the receiver's end if the message is eager, else the whole. */
static guint32
receive_part (const PsEvents *events, guint32 message)
{
  const PsTransfer *transfer = &events->transfers[message];

  return transfer->part == PS_TRANSFER_EAGER_SEND ? transfer->next[1] - 1 : message;
}

static guint32
part_on (const PsEvents *events, guint32 message, guint device)
{
  return events->program->messages[message].receiver == device ? receive_part (events, message) : message;
}

/* A transfer for each message, and a second one for each eager message, which holds no channel end. */
static void
build_transfers (PsEvents *events, const PsCosts *costs)
{
  const PsProgram *program = events->program;
  guint8 n_held = events->channels->n_ends > 0 ? PS_N_SIDES : 0;

  events->n_transfers = program->n_messages;
  events->transfers = g_new0 (PsTransfer, 2 * (gsize)events->program->n_messages + 1);
  for (guint i = 0; i < events->program->n_messages; i++)
    {
      const PsMessage *message = &program->messages[i];
      PsTransfer *transfer = &events->transfers[i], *receive = &events->transfers[events->n_transfers];

      *transfer = (PsTransfer){ .message = i,
                                .consumer = message->consumer,
                                .sender = message->sender,
                                .receiver = message->receiver,
                                .held = n_held };
      if (!ps_events_setting_is_eager (&events->setting,
                                       costs->message_bytes[program->steps[message->consumer].transfer]))
        continue;
      *receive = *transfer;
      receive->part = PS_TRANSFER_EAGER_RECEIVE;
      receive->held = 0;
      transfer->part = PS_TRANSFER_EAGER_SEND;
      transfer->held = MIN (n_held, 1);
      transfer->next[1] = ++events->n_transfers;
    }
}

/* Links each transfer to the next one on the same channel end. Of an eager message the send part holds the sender's
 * end, the receive part the receiver's. A transfer that is the next one on both ends waits for one condition, not two.
 */
static void
link_ends (PsEvents *events, guint32 index)
{
  const PsMessage *message = &events->program->messages[index];
  const PsTurn *turns = events->channels->turns[index];
  PsTransfer *send = &events->transfers[index], *receive = &events->transfers[receive_part (events, index)];

  if (turns[PS_SIDE_SENDER].next != 0)
    send->next[0] = 1 + part_on (events, turns[PS_SIDE_SENDER].next - 1, message->sender);
  if (turns[PS_SIDE_RECEIVER].next != 0)
    receive->next[1] = 1 + part_on (events, turns[PS_SIDE_RECEIVER].next - 1, message->receiver);
  if (send == receive && send->next[0] != 0 && send->next[0] == send->next[1])
    {
      events->transfers[send->next[0] - 1].conditions--;
      send->next[1] = 0;
    }
}

/* Counts the conditions of a transfer: its data exists or has arrived; the transfers before it on each channel end are
 * over; when blocking, both devices have reached the instruction. */
static void
count_conditions (PsEvents *events, guint32 index)
{
  const PsTurn *turns = events->channels->turns[index];
  PsTransfer *send = &events->transfers[index], *receive = &events->transfers[receive_part (events, index)];
  gboolean in_order = events->setting.ready_order == 0;

  send->conditions++;
  send->conditions += in_order && turns[PS_SIDE_SENDER].waits;
  if (send != receive)
    receive->conditions++;
  receive->conditions += in_order && turns[PS_SIDE_RECEIVER].waits;
  receive->conditions += events->setting.blocking != 0;
}

static void
append_op (PsEvents *events, guint step)
{
  const PsProgram *program = events->program;
  PsItem *item = &events->items[events->n_items];

  *item = (PsItem){ .type = PS_ITEM_OP, .step = step, .cost = program->steps[step].cost };
  item->pair = program->pair != NULL ? program->pair[step] : PS_PAIR_NONE;
  if (program->message_of[step] != 0)
    item->wait = 1 + receive_part (events, program->message_of[step] - 1);
  events->item_of_step[step] = events->n_items++;
}

/* Blocking devices work through sends and receives, others through ops alone. */
static void
append_items (PsEvents *events, guint device)
{
  const PsProgram *program = events->program;
  guint op = program->schedule->first[device];

  for (guint i = program->first[device]; i < program->first[device + 1]; i++)
    {
      const PsInstruction *instruction = &program->instructions[i];
      PsItem *item = &events->items[events->n_items];

      if (instruction->type == PS_INSTRUCTION_COMPUTE)
        append_op (events, program->step_of[op++]);
      if (!events->setting.blocking || !ps_instruction_is_post (instruction))
        continue;
      *item = (PsItem){ .type = instruction->type == PS_INSTRUCTION_SEND ? PS_ITEM_SEND : PS_ITEM_RECEIVE };
      item->wait = 1 + part_on (events, instruction->message - 1, device);
      events->n_items++;
    }
}

static void
build_items (PsEvents *events)
{
  const PsProgram *program = events->program;

  events->items
      = g_new (PsItem, program->n_steps + (events->setting.blocking ? 2 * (gsize)events->program->n_messages : 0) + 1);
  events->item_of_step = g_new (guint32, program->n_steps);
  events->first_item = g_new0 (guint, events->n_devices + 1);
  for (guint device = 0; device < events->n_devices; device++)
    {
      append_items (events, device);
      events->first_item[device + 1] = events->n_items;
    }
  if (events->setting.blocking)
    return;
  for (guint32 i = 0; i < events->program->n_messages; i++)
    {
      guint32 *send = events->items[events->item_of_step[program->messages[i].producer]].send;

      send[send[0] != 0] = i + 1;
    }
}

static gboolean
check_setting (const PsEventsSetting *setting, const PsProgram *program, GError **error)
{
  const char *message = NULL;

  if (setting->blocking && setting->ready_order)
    message = "blocking communication: happens in the order of the instructions, so it cannot go with ready order";
  else if (setting->overlap_waiting && setting->ready_order)
    message = "overlap waiting: begins at the sends and receives of the program, so it cannot go with ready order";
  else if (setting->overlap_slowdown != 0
           && !(setting->overlap_slowdown >= 1 && setting->overlap_slowdown <= PS_MAX_SLOWDOWN))
    message = "overlap slow-down: a factor from 1 to 8 would be right";
  for (guint d = 0; setting->speed != NULL && d < program->schedule->placement->n_devices; d++)
    if (!(setting->speed[d] >= PS_MIN_SPEED && setting->speed[d] <= PS_MAX_SPEED))
      message = "speed: a factor from 0.001 to 1000 would be right";
  if (message != NULL)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, message);
  return message == NULL;
}

/* ps_costs_check knows neither speed nor slow-down: all ops and transfers one after the other may still be too long. */
static gboolean
check_sums (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting, GError **error)
{
  double sum = 0, slowdown = MAX (setting->overlap_slowdown, 1);

  for (guint i = 0; i < program->n_steps; i++)
    {
      const PsStep *step = &program->steps[i];
      double speed = setting->speed != NULL ? setting->speed[step->device] : 1;

      sum += (double)ps_step_duration (program, costs, i) * slowdown / speed;
      sum += step->input ? (double)costs->transfer_ns[step->transfer] : 0;
    }
  if (sum < PS_MAX_SUM_NS)
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_USAGE,
      "%s: all ops and transfers together take %.3g s at the speed and slow-down asked for; at most 4e9 s can "
      "be added up",
      program->schedule->name, sum / 1e9);
}

PsEvents *
ps_events_new (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting, GError **error)
{
  g_autoptr (PsEvents) events = g_new0 (PsEvents, 1);

  g_return_val_if_fail (costs->n_stages == program->schedule->placement->n_stages, NULL);
  if (!check_setting (setting, program, error) || !check_sums (program, costs, setting, error))
    return NULL;
  events->program = program;
  events->setting = *setting;
  events->n_devices = program->schedule->placement->n_devices;
  events->channels = ps_channels_new (program, setting->comm);
  build_transfers (events, costs);
  for (guint32 i = 0; i < events->program->n_messages; i++)
    {
      if (!setting->ready_order)
        link_ends (events, i);
      count_conditions (events, i);
    }
  build_items (events);
  events->devices = g_new0 (PsEventDevice, events->n_devices);
  events->startable = g_new (guint32, events->n_transfers + 1);
  events->awake = g_new (guint16, events->n_devices);
  if (!ps_events_setting_is_fixed (setting))
    events->timed = ps_timed_new (events);
  if (setting->ready_order)
    events->ready = ps_ready_new (events);
  return g_steal_pointer (&events);
}

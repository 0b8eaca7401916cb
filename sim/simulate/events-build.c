/* events-build.c - makes the engine for a program: what each device does in turn, and what each transfer waits for. */
#include "events-timed.h"

void
ps_events_free (PsEvents *events)
{
  if (!events)
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
  g_free (events);
}

static gboolean
is_eager (const PsEvents *events, const PsCosts *costs, guint step)
{
  gint64 bytes = costs->message_bytes[events->program->steps[step].transfer];

  return bytes > 0 && bytes <= events->setting.eager_bytes;
}

/* Of an eager message the part on the receiver's end, else the whole: what a consumer waits for. */
static guint32
receive_part (const PsEvents *events, guint32 message)
{
  const PsTransfer *transfer = &events->transfers[message];

  return transfer->part == PS_TRANSFER_EAGER_SEND ? transfer->next[1] - 1 : message;
}

static guint32
part_on (const PsEvents *events, guint32 message, guint device)
{
  return events->channels->messages[message].receiver == device ? receive_part (events, message) : message;
}

/* Finds the step that each message is for, and splits eager messages. */
static gboolean
find_transfers (PsEvents *events, const PsCosts *costs, GError **error)
{
  const PsProgram *program = events->program;

  events->n_messages = events->n_transfers = events->channels->n_messages;
  events->transfers = g_new0 (PsTransfer, 2 * (gsize)events->n_messages + 1);
  for (guint i = 0; i < program->n_steps; i++)
    {
      guint32 message;

      if (program->steps[i].input == 0)
        continue;
      message = ps_channels_find (events->channels, ps_program_producer (program, i));
      if (message == 0)
        {
          g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "%s: device %u: an input of step %u is never received",
                       program->schedule->name, (guint)program->steps[i].device, i);
          return FALSE;
        }
      events->transfers[message - 1].step = i;
      if (!is_eager (events, costs, i))
        continue;
      events->transfers[events->n_transfers++] = (PsTransfer){ .step = i, .part = PS_TRANSFER_EAGER_RECEIVE };
      events->transfers[message - 1].part = PS_TRANSFER_EAGER_SEND;
      events->transfers[message - 1].next[1] = events->n_transfers;
    }
  return TRUE;
}

/* Hangs what follows on an end behind the part that holds it. */
static void
link_ends (PsEvents *events, guint32 index)
{
  const PsMessage *message = &events->channels->messages[index];
  PsTransfer *send = &events->transfers[index], *receive = &events->transfers[receive_part (events, index)];

  if (message->next_send != 0)
    send->next[0] = 1 + part_on (events, message->next_send - 1, message->sender);
  if (message->next_receive != 0)
    receive->next[1] = 1 + part_on (events, message->next_receive - 1, message->receiver);
}

/* Its data exists or has arrived; its turn on each end that it has, unless it is the first there; each device that has
 * to come to it. */
static void
count_conditions (PsEvents *events, guint32 index)
{
  const PsMessage *message = &events->channels->messages[index];
  PsTransfer *send = &events->transfers[index], *receive = &events->transfers[receive_part (events, index)];
  gboolean ends = events->setting.comm != PS_CHANNEL_LATENCY && !events->setting.ready_order;

  send->conditions++;
  send->conditions += ends && !(message->heads & PS_HEAD_SEND);
  if (send != receive)
    receive->conditions++;
  receive->conditions += ends && !(message->heads & PS_HEAD_RECEIVE);
  receive->conditions += events->setting.blocking != 0;
}

static void
append_op (PsEvents *events, guint step)
{
  const PsProgram *program = events->program;
  PsItem *item = &events->items[events->n_items];

  *item = (PsItem){ .type = PS_ITEM_OP, .step = step, .cost = program->steps[step].cost };
  item->pair = program->pair ? program->pair[step] : PS_PAIR_NONE;
  if (program->steps[step].input != 0)
    item->wait
        = 1 + receive_part (events, ps_channels_find (events->channels, ps_program_producer (program, step)) - 1);
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
      guint type = program->instructions[i].type;
      PsItem *item = &events->items[events->n_items];

      if (type == PS_INSTRUCTION_COMPUTE)
        append_op (events, program->step_of[op++]);
      if (!events->setting.blocking || (type != PS_INSTRUCTION_SEND && type != PS_INSTRUCTION_RECEIVE))
        continue;
      *item = (PsItem){ .type = type == PS_INSTRUCTION_SEND ? PS_ITEM_SEND : PS_ITEM_RECEIVE };
      item->wait = 1 + part_on (events, events->channels->message_of[i] - 1, device);
      events->n_items++;
    }
}

static void
build_items (PsEvents *events)
{
  const PsProgram *program = events->program;

  events->items = g_new (PsItem, program->n_steps + (events->setting.blocking ? 2 * (gsize)events->n_messages : 0) + 1);
  events->item_of_step = g_new (guint32, program->n_steps);
  events->first_item = g_new0 (guint, events->n_devices + 1);
  for (guint device = 0; device < events->n_devices; device++)
    {
      append_items (events, device);
      events->first_item[device + 1] = events->n_items;
    }
  if (events->setting.blocking)
    return;
  for (guint32 i = 0; i < events->n_messages; i++)
    {
      guint producer = program->steps[events->transfers[i].step].input - 1;
      guint32 *send = events->items[events->item_of_step[producer]].send;

      send[send[0] != 0] = i + 1;
    }
}

static gboolean
check_setting (const PsEventsSetting *setting, const PsProgram *program, GError **error)
{
  const char *message = NULL;

  if (setting->blocking && setting->ready_order)
    message = "blocking communication: happens in the order of the instructions, so it cannot go with ready order";
  else if (setting->overlap_slowdown != 0
           && !(setting->overlap_slowdown >= 1 && setting->overlap_slowdown <= PS_MAX_SLOWDOWN))
    message = "overlap slow-down: a factor from 1 to 8 would be right";
  for (guint d = 0; setting->speed && d < program->schedule->placement->n_devices; d++)
    if (!(setting->speed[d] >= PS_MIN_SPEED && setting->speed[d] <= PS_MAX_SPEED))
      message = "speed: a factor from 0.001 to 1000 would be right";
  if (message)
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
      double speed = setting->speed ? setting->speed[step->device] : 1;

      sum += (double)ps_step_duration (program, costs, i) * slowdown / speed;
      sum += step->input ? (double)costs->transfer_ns[step->transfer] : 0;
    }
  if (sum < PS_MAX_SUM_NS)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
               "%s: all ops and transfers together take %.3g s at the speed and slow-down asked for; at most 4e9 s can "
               "be added up",
               program->schedule->name, sum / 1e9);
  return FALSE;
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
  events->channels = ps_channels_new (program, setting->comm, error);
  if (!events->channels || !find_transfers (events, costs, error))
    return NULL;
  for (guint32 i = 0; i < events->n_messages; i++)
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

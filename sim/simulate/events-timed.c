/* events-timed.c - the loop over events in the order of time. */
#include "events-timed.h"

#include <math.h>
#include <string.h>

#define NO_SLOWDOWN 1000

PsTimed *
ps_timed_new (PsEvents *events)
{
  PsTimed *timed = g_new0 (PsTimed, 1);
  double slowdown = events->setting.overlap_slowdown;

  timed->heap = ps_heap_new (events->n_devices + events->n_transfers);
  timed->devices = g_new0 (PsTimedDevice, events->n_devices);
  timed->joined = g_new0 (guint8, events->program->n_messages + 1);
  timed->slowdown = slowdown > 1 ? llrint (slowdown * NO_SLOWDOWN) : NO_SLOWDOWN;
  timed->links = events->setting.links != NULL ? ps_links_new (events) : NULL;
  return timed;
}

void
ps_timed_free (PsTimed *timed)
{
  if (timed == NULL)
    return;
  ps_heap_free (timed->heap);
  ps_links_free (timed->links);
  g_free (timed->devices);
  g_free (timed->joined);
  g_free (timed);
}

/* Work that an op does in a nanosecond: all of it is done in its duration alone. */
static gint64
work_rate (const PsTimed *timed, const PsTimedDevice *device)
{
  return device->n_active > 0 ? NO_SLOWDOWN : timed->slowdown;
}

static void
schedule_end (PsTimed *timed, guint index)
{
  const PsTimedDevice *device = &timed->devices[index];
  guint64 rate = (guint64)work_rate (timed, device), left = (guint64)device->work_left;

  ps_heap_set (timed->heap, index, timed->now_ns + (gint64)((left + rate - 1) / rate));
}

static void
take_part (PsTimed *timed, guint index, int change)
{
  PsTimedDevice *device = &timed->devices[index];
  gboolean was_active = device->n_active > 0;

  device->n_active += (guint)change;
  if (timed->slowdown == NO_SLOWDOWN || device->item == PS_NO_ITEM || was_active == (device->n_active > 0))
    return;
  device->work_left -= (timed->now_ns - device->since_ns) * (was_active ? NO_SLOWDOWN : timed->slowdown);
  device->work_left = MAX (device->work_left, 0);
  device->since_ns = timed->now_ns;
  schedule_end (timed, index);
}

/* A device takes part in a message from now on, unless it does already or the message has moved. */
static void
join (PsEvents *events, guint32 message, gboolean sends)
{
  const PsMessage *joined = &events->program->messages[message];
  guint8 side = sends ? 1 : 2;

  if (events->transfers[message].done || events->timed->joined[message] & side)
    return;
  events->timed->joined[message] |= side;
  take_part (events->timed, sends ? joined->sender : joined->receiver, 1);
}

/* With overlap_waiting a device takes part in the messages of the sends and receives before its next op. */
static void
join_until_op (PsEvents *events, guint index)
{
  const PsInstruction *end = &events->program->instructions[events->program->first[index + 1]];
  const PsInstruction **next = &events->timed->devices[index].next;

  for (; *next < end && (*next)->type != PS_INSTRUCTION_COMPUTE; (*next)++)
    if (ps_instruction_is_post (*next))
      join (events, (*next)->message - 1, (*next)->type == PS_INSTRUCTION_SEND);
  if (*next < end)
    (*next)++;
}

static void
wake (PsEvents *events, guint device)
{
  if (events->timed->devices[device].queued)
    return;
  events->timed->devices[device].queued = TRUE;
  events->awake[events->n_awake++] = (guint16)device;
}

static void
start_op (PsEvents *events, guint index, guint32 i)
{
  PsTimed *timed = events->timed;
  PsTimedDevice *device = &timed->devices[index];
  const PsItem *item = &events->items[i];

  if (events->devices[index].first_ns < 0)
    events->devices[index].first_ns = timed->now_ns;
  ps_event_start_op (events, index, item, timed->now_ns);
  device->item = i;
  device->since_ns = timed->now_ns;
  device->work_left = item->duration_ns * timed->slowdown;
  schedule_end (timed, index);
}

/* The next item of the program that a device may run now. Sends and receives of blocking devices are come to here. */
static guint32
pick_next (PsEvents *events, PsEventDevice *device)
{
  for (; device->next < device->end; device->next++, device->posted = FALSE)
    {
      const PsItem *item = &events->items[device->next];

      if (item->type != PS_ITEM_OP && !device->posted)
        {
          device->posted = TRUE;
          ps_event_meet (events, item->wait, events->timed->now_ns);
        }
      if (item->wait != 0 && !events->transfers[item->wait - 1].done)
        {
          device->blocked = item->wait;
          return PS_NO_ITEM;
        }
      if (item->type == PS_ITEM_OP)
        return device->next++;
    }
  return PS_NO_ITEM;
}

static void
go_on (PsEvents *events, guint index)
{
  PsTimedDevice *device = &events->timed->devices[index];
  guint32 i;

  device->queued = FALSE;
  if (device->item != PS_NO_ITEM || device->waiting || (events->exclusive && device->n_active > 0))
    return;
  i = events->ready != NULL ? ps_ready_pick (events, index) : pick_next (events, &events->devices[index]);
  if (i != PS_NO_ITEM)
    start_op (events, index, i);
}

static void
end_op (PsEvents *events, guint index)
{
  PsTimed *timed = events->timed;
  PsEventDevice *device = &events->devices[index];
  const PsItem *item = &events->items[timed->devices[index].item];

  device->clock_ns = timed->now_ns;
  device->busy_ns += timed->now_ns - events->simulation->start_ns[item->step];
  timed->devices[index].item = PS_NO_ITEM;
  ps_event_end_op (events, index, item, timed->now_ns);
  for (guint k = 0; k < G_N_ELEMENTS (item->send) && item->send[k] != 0; k++)
    ps_event_meet (events, item->send[k], timed->now_ns);
  if (events->setting.overlap_waiting)
    join_until_op (events, index);
}

static void
device_event (PsEvents *events, guint index)
{
  PsTimedDevice *device = &events->timed->devices[index];

  if (!device->waiting)
    end_op (events, index);
  else if (events->setting.overlap_waiting)
    join_until_op (events, index);
  device->waiting = FALSE;
  wake (events, index);
}

static void
start_transfer (PsEvents *events, guint32 index)
{
  PsTimed *timed = events->timed;
  PsTransfer *transfer = &events->transfers[index];

  transfer->start_ns = timed->now_ns;
  if (transfer->part != PS_TRANSFER_EAGER_RECEIVE)
    {
      join (events, transfer->message, TRUE);
      join (events, transfer->message, FALSE);
    }
  if (timed->links != NULL)
    ps_links_start (events, index);
  else
    ps_heap_set (timed->heap, events->n_devices + index, timed->now_ns + transfer->end_ns);
}

static void
end_transfer (PsEvents *events, guint32 index)
{
  PsTransfer *transfer = &events->transfers[index];
  const PsMessage *message = &events->program->messages[transfer->message];

  if (transfer->part != PS_TRANSFER_EAGER_RECEIVE)
    {
      take_part (events->timed, message->sender, -1);
      take_part (events->timed, message->receiver, -1);
    }
  transfer->end_ns = events->timed->now_ns;
  ps_event_complete (events, index);
  if (events->ready == NULL)
    return;
  ps_ready_end_transfer (events, index);
  wake (events, message->receiver);
  if (events->exclusive)
    wake (events, message->sender);
}

static void
take_event (PsEvents *events)
{
  guint32 id = ps_heap_pop (events->timed->heap);

  if (id < events->n_devices)
    device_event (events, id);
  else if (events->timed->links == NULL || ps_links_event (events, id - events->n_devices))
    end_transfer (events, id - events->n_devices);
}

static guint32
next_transfer (PsEvents *events)
{
  if (events->ready != NULL)
    return ps_ready_next_transfer (events);
  return events->n_startable > 0 ? 1 + events->startable[--events->n_startable] : 0;
}

/* Everything that can begin now does. Ops go first, but where messages need their devices. */
static void
settle (PsEvents *events)
{
  for (;;)
    {
      guint32 transfer = events->exclusive || events->n_awake == 0 ? next_transfer (events) : 0;

      if (transfer != 0)
        start_transfer (events, transfer - 1);
      else if (events->n_awake > 0)
        go_on (events, events->awake[--events->n_awake]);
      else
        break;
    }
  if (events->timed->links != NULL)
    ps_links_settle (events);
}

static void
begin (PsEvents *events)
{
  PsTimed *timed = events->timed;

  ps_heap_clear (timed->heap);
  memset (timed->joined, 0, events->program->n_messages);
  if (timed->links != NULL)
    ps_links_begin (timed->links);
  if (events->ready != NULL)
    ps_ready_begin (events);
  for (guint device = 0; device < events->n_devices; device++)
    {
      gint64 ready = events->devices[device].clock_ns;

      timed->devices[device]
          = (PsTimedDevice){ .item = PS_NO_ITEM,
                             .queued = TRUE,
                             .waiting = ready > 0,
                             .next = &events->program->instructions[events->program->first[device]] };
      if (ready > 0)
        ps_heap_set (timed->heap, device, ready);
      else if (events->setting.overlap_waiting)
        join_until_op (events, device);
    }
}

void
ps_timed_run (PsEvents *events)
{
  PsTimed *timed = events->timed;

  timed->now_ns = 0;
  begin (events);
  settle (events);
  while (timed->heap->n > 0)
    {
      timed->now_ns = timed->heap->entries[0].time_ns;
      timed->turn++;
      while (timed->heap->n > 0 && timed->heap->entries[0].time_ns == timed->now_ns)
        take_event (events);
      settle (events);
    }
}

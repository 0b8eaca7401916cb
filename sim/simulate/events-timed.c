/* events-timed.c - the loop over events in the order of time. */
#include "events-follow.h"

#include <math.h>
#include <string.h>

#define NO_SLOWDOWN 1000

/* Room for one span per message of each device: later ones touch earlier ones or lie apart. */
static void
allot_spans (const PsEvents *events, PsTimed *timed)
{
  const PsProgram *program = events->program;
  PsSpan *next = timed->spans = g_new (PsSpan, 2 * (gsize)program->n_messages + 1);
  g_autofree guint *n = g_new0 (guint, events->n_devices);

  for (guint i = 0; i < program->n_messages; i++)
    {
      n[program->messages[i].sender]++;
      n[program->messages[i].receiver]++;
    }
  for (guint device = 0; device < events->n_devices; device++)
    {
      timed->devices[device].spans = next;
      next += n[device];
    }
}

PsTimed *
ps_timed_new (PsEvents *events)
{
  PsTimed *timed = g_new0 (PsTimed, 1);
  double slowdown = events->setting.overlap_slowdown;

  timed->due = ps_due_new (events->n_devices + events->n_transfers);
  timed->begins = ps_due_new (events->n_transfers);
  timed->devices = g_new0 (PsTimedDevice, events->n_devices);
  timed->slows = slowdown > 1;
  timed->slowdown = timed->slows ? llrint (slowdown * NO_SLOWDOWN) : NO_SLOWDOWN;
  if (timed->slows)
    allot_spans (events, timed);
  timed->links = events->setting.links != NULL ? ps_links_new (events) : NULL;
  return timed;
}

void
ps_timed_free (PsTimed *timed)
{
  if (timed == NULL)
    return;
  ps_due_free (timed->due);
  ps_due_free (timed->begins);
  ps_links_free (timed->links);
  g_free (timed->devices);
  g_free (timed->spans);
  g_free (timed);
}

/* Slow-down */

/* Follows a device's op that has `left` parts of its work to do at *now_ns to the end of a span. In a nanosecond it
 * does 1000 parts beside a transfer, and `slowdown` parts without one: all of it in duration_ns alone. TRUE: it is
 * over. */
static inline gboolean
pass_span (gint64 slowdown, gint64 duration_ns, PsSpan span, gint64 *now_ns, gint64 *left)
{
  gint64 alone = MAX (span.from_ns - *now_ns, 0), beside;

  if (alone >= duration_ns || alone * slowdown >= *left)
    return TRUE;
  *left -= alone * slowdown;
  *now_ns += alone;
  beside = MAX (span.until_ns - *now_ns, 0);
  if (beside > G_MAXINT64 / NO_SLOWDOWN || beside * NO_SLOWDOWN >= *left)
    {
      *now_ns += (*left + NO_SLOWDOWN - 1) / NO_SLOWDOWN;
      *left = 0;
      return TRUE;
    }
  *left -= beside * NO_SLOWDOWN;
  *now_ns += beside;
  return FALSE;
}

/* The end of a device's op as far as is known. A transfer that has no end yet slows it down for ever. */
static inline gint64
find_end (const PsEvents *events, const PsTimedDevice *device)
{
  const PsItem *item = &events->items[device->item];
  gint64 now = device->start_ns, duration = item->duration_ns, slowdown = events->timed->slowdown;
  gint64 left = duration * slowdown;
  guint i = device->n_passed;
  gboolean open = device->n_open > 0, over = FALSE;

  if (i == device->n_spans && !open)
    return now + duration;
  for (; i < device->n_spans && !over && !(open && device->open_ns <= device->spans[i].until_ns); i++)
    over = pass_span (slowdown, duration, device->spans[i], &now, &left);
  if (open && !over)
    {
      PsSpan span = { device->open_ns, G_MAXINT64 };

      if (i < device->n_spans)
        span.from_ns = MIN (span.from_ns, device->spans[i].from_ns);
      pass_span (slowdown, duration, span, &now, &left);
    }
  return now + (left + slowdown - 1) / slowdown;
}

static inline void
schedule_end (PsEvents *events, guint index)
{
  PsTimedDevice *device = &events->timed->devices[index];

  if (device->item == PS_NO_ITEM)
    return;
  device->end_ns = find_end (events, device);
  ps_due_set (events->timed->due, index, device->end_ns);
}

/* Adds a span among those in order, and unites it with all that it touches. */
static void
insert_span (PsTimedDevice *device, gint64 from_ns, gint64 until_ns)
{
  PsSpan *spans = device->spans;
  guint first = device->n_spans, end;

  while (first > device->n_passed && spans[first - 1].until_ns >= from_ns)
    first--;
  for (end = first; end < device->n_spans && spans[end].from_ns <= until_ns; end++)
    {
      from_ns = MIN (from_ns, spans[end].from_ns);
      until_ns = MAX (until_ns, spans[end].until_ns);
    }
  memmove (&spans[first + 1], &spans[end], (device->n_spans - end) * sizeof *spans);
  device->n_spans = device->n_spans + 1 - (end - first);
  spans[first] = (PsSpan){ from_ns, until_ns };
}

/* Most spans come last, or make the last one longer. */
static inline void
add_span (PsTimedDevice *device, gint64 from_ns, gint64 until_ns)
{
  PsSpan *last = device->spans + device->n_spans - 1;

  if (from_ns >= until_ns)
    return;
  if (device->n_spans == device->n_passed || last->until_ns < from_ns)
    device->spans[device->n_spans++] = (PsSpan){ from_ns, until_ns };
  else if (last->from_ns <= from_ns)
    last->until_ns = MAX (last->until_ns, until_ns);
  else
    insert_span (device, from_ns, until_ns);
}

static void
open_span (PsEvents *events, PsTransfer *transfer, guint side, guint index, gint64 from_ns)
{
  PsTimedDevice *device = &events->timed->devices[index];

  if (transfer->joined & 1U << side)
    return;
  transfer->joined |= (guint8)(1U << side);
  if (device->n_open++ == 0)
    device->open_ns = from_ns;
  if (events->timed->slows)
    schedule_end (events, index);
}

static G_NO_INLINE void
open_spans (PsEvents *events, PsTransfer *transfer)
{
  open_span (events, transfer, PS_SIDE_SENDER, transfer->sender, events->timed->now_ns);
  open_span (events, transfer, PS_SIDE_RECEIVER, transfer->receiver, events->timed->now_ns);
}

/* A device takes part in a transfer from its start on, or from when the device has come to it, until its end. An op
 * that ends before that stays as it is. */
static inline void
close_span (PsEvents *events, const PsTransfer *transfer, guint side, guint index)
{
  PsTimedDevice *device = &events->timed->devices[index];
  gint64 from_ns = transfer->start_ns;

  if (transfer->joined & 1U << side)
    {
      from_ns = device->open_ns;
      device->n_open--;
    }
  if (!events->timed->slows)
    return;
  add_span (device, from_ns, transfer->end_ns);
  if (from_ns < device->end_ns)
    schedule_end (events, index);
}

/* Whether it matters which devices take part in a transfer. */
static gboolean
occupies (const PsEvents *events, const PsTransfer *transfer)
{
  return events->timed->occupies && transfer->part != PS_TRANSFER_EAGER_RECEIVE;
}

static G_NO_INLINE void
take_part (PsEvents *events, const PsTransfer *transfer)
{
  close_span (events, transfer, PS_SIDE_SENDER, transfer->sender);
  close_span (events, transfer, PS_SIDE_RECEIVER, transfer->receiver);
}

/* With overlap_waiting a device takes part in the messages of the sends and receives before its next op from now on,
 * unless they have moved. */
static void
join_until_op (PsEvents *events, guint index, gint64 now_ns)
{
  const PsInstruction *end = &events->program->instructions[events->program->first[index + 1]];
  PsTimedDevice *device = &events->timed->devices[index];

  for (; device->next < end && device->next->type != PS_INSTRUCTION_COMPUTE; device->next++)
    {
      PsTransfer *transfer = &events->transfers[device->next->message - 1];

      if (!ps_instruction_is_post (device->next))
        continue;
      if (transfer->done)
        add_span (device, now_ns, transfer->end_ns);
      else
        open_span (events, transfer, ps_instruction_side (device->next), index, now_ns);
    }
  if (device->next < end)
    device->next++;
}

/* Ops */

void
ps_timed_start_op (PsEvents *events, guint index, guint32 i, gint64 start_ns)
{
  PsTimedDevice *device = &events->timed->devices[index];

  events->simulation->start_ns[events->items[i].step] = start_ns;
  device->item = i;
  device->start_ns = start_ns;
  device->queued = FALSE;
  while (device->n_passed < device->n_spans && device->spans[device->n_passed].until_ns <= start_ns)
    device->n_passed++;
  if (device->n_passed == device->n_spans)
    device->n_passed = device->n_spans = 0;
  schedule_end (events, index);
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
end_op (PsEvents *events, guint index)
{
  PsTimed *timed = events->timed;
  const PsItem *item = &events->items[timed->devices[index].item];

  events->devices[index].clock_ns = timed->now_ns;
  events->simulation->end_ns[item->step + 1] = timed->now_ns;
  timed->devices[index].item = PS_NO_ITEM;
  for (guint k = 0; k < G_N_ELEMENTS (item->send) && item->send[k] != 0; k++)
    ps_event_meet (events, item->send[k], timed->now_ns);
  if (events->setting.overlap_waiting && timed->slows)
    join_until_op (events, index, timed->now_ns);
}

/* An idle device in ready order */
static void
pick_op (PsEvents *events, guint index)
{
  PsTimedDevice *device = &events->timed->devices[index];
  guint32 i;

  device->queued = FALSE;
  if (!ps_timed_is_idle (events, index))
    return;
  i = ps_ready_pick (events, index);
  if (i != PS_NO_ITEM)
    ps_timed_start_op (events, index, i, events->timed->now_ns);
  else if (ps_ready_wake_ns (events) < G_MAXINT64)
    ps_due_set (events->timed->due, index, ps_ready_wake_ns (events));
}

/* Transfers */

/* Its end is known, at which nothing else happens than that its channel ends are free and its input is there. */
static void
complete_transfer (PsEvents *events, guint32 index, gint64 end_ns)
{
  PsTransfer *transfer = &events->transfers[index];

  transfer->end_ns = end_ns;
  ps_event_complete (events, index);
  if (events->ready != NULL)
    ps_ready_arrive (events, index);
  if (occupies (events, transfer))
    take_part (events, transfer);
}

/* An idle device looks for an op when an input arrives. */
static void
wake_at (PsEvents *events, guint index, gint64 time_ns)
{
  if (ps_timed_is_idle (events, index) && ps_due_time (events->timed->due, index) > time_ns)
    ps_due_set (events->timed->due, index, time_ns);
}

/* Its end is known when it begins. */
static G_NO_INLINE void
begin_and_complete (PsEvents *events, guint32 index)
{
  PsTransfer *transfer = &events->transfers[index];

  complete_transfer (events, index, transfer->start_ns + transfer->end_ns);
  wake_at (events, transfer->receiver, transfer->end_ns);
}

static void
begin_transfer (PsEvents *events, guint32 index)
{
  PsTimed *timed = events->timed;
  PsTransfer *transfer = &events->transfers[index];

  transfer->start_ns = timed->now_ns;
  if (events->ready != NULL && transfer->part == PS_TRANSFER_WHOLE && transfer->end_ns > 0 && !events->exclusive
      && !transfer->shares)
    {
      begin_and_complete (events, index);
      return;
    }
  if (events->ready != NULL)
    ps_ready_hold (events, index, G_MAXINT64);
  if (occupies (events, transfer))
    open_spans (events, transfer);
  if (timed->links != NULL)
    ps_links_start (events, index);
  else
    ps_due_set (timed->due, events->n_devices + index, timed->now_ns + transfer->end_ns);
}

static G_NO_INLINE void
begin_later (PsEvents *events, guint32 index)
{
  ps_due_set (events->timed->begins, index, events->transfers[index].start_ns);
}

void
ps_timed_start_transfer (PsEvents *events, guint32 index)
{
  const PsTransfer *transfer = &events->transfers[index];

  if (!transfer->shares)
    complete_transfer (events, index, transfer->start_ns + transfer->end_ns);
  else if (transfer->start_ns <= events->timed->now_ns)
    begin_transfer (events, index);
  else
    begin_later (events, index);
}

static void
end_transfer (PsEvents *events, guint32 index)
{
  const PsTransfer *transfer = &events->transfers[index];

  complete_transfer (events, index, events->timed->now_ns);
  if (events->ready == NULL)
    return;
  events->timed->retry_ns = events->timed->now_ns;
  wake (events, transfer->receiver);
  if (events->exclusive)
    wake (events, transfer->sender);
}

/* The loop */

static void
take_event (PsEvents *events, guint32 id)
{
  PsTimed *timed = events->timed;
  guint32 transfer = id - events->n_devices;

  if (id < events->n_devices)
    {
      if (timed->devices[id].item != PS_NO_ITEM)
        end_op (events, id);
      timed->devices[id].waiting = FALSE;
      wake (events, id);
    }
  else if (timed->links == NULL || ps_links_event (events, transfer))
    end_transfer (events, transfer);
}

/* Ops go first, but where messages need their devices. */
static void
go_on_ready (PsEvents *events)
{
  if (events->exclusive)
    ps_ready_start_transfers (events, begin_transfer);
  while (events->n_awake > 0)
    pick_op (events, events->awake[--events->n_awake]);
  ps_ready_start_transfers (events, begin_transfer);
}

static void
begin (PsEvents *events)
{
  PsTimed *timed = events->timed;

  timed->now_ns = 0;
  timed->retry_ns = G_MAXINT64;
  timed->occupies = timed->slows || events->exclusive;
  ps_due_clear (timed->due);
  ps_due_clear (timed->begins);
  if (timed->links != NULL)
    ps_links_begin (events);
  if (events->ready != NULL)
    ps_ready_begin (events);
  for (guint index = 0; index < events->n_devices; index++)
    {
      PsTimedDevice *device = &timed->devices[index];
      gint64 ready = events->devices[index].clock_ns;

      *device = (PsTimedDevice){ .item = PS_NO_ITEM,
                                 .spans = device->spans,
                                 .queued = events->ready != NULL,
                                 .waiting = events->ready != NULL && ready > 0,
                                 .next = &events->program->instructions[events->program->first[index]] };
      if (device->waiting)
        ps_due_set (timed->due, index, ready);
      if (events->setting.overlap_waiting && timed->slows)
        join_until_op (events, index, ready);
    }
}

static inline gboolean
take (PsEvents *events)
{
  PsTimed *timed = events->timed;
  guint32 id;
  gint64 due_ns = ps_due_first_ns (timed->due), begins_ns = ps_due_first_ns (timed->begins);

  due_ns = MIN (MIN (due_ns, begins_ns), timed->retry_ns);
  if (due_ns == G_MAXINT64)
    return FALSE;
  timed->now_ns = due_ns;
  timed->turn++;
  while (ps_due_take (timed->begins, due_ns, &id))
    begin_transfer (events, id);
  while (ps_due_take (timed->due, due_ns, &id))
    take_event (events, id);
  return TRUE;
}

/* Ends when nothing moves any more. */
void
ps_timed_run (PsEvents *events)
{
  begin (events);
  do
    {
      if (events->ready != NULL)
        go_on_ready (events);
      ps_follow_transfers (events, TRUE);
      while (events->n_awake > 0)
        ps_follow (events, events->awake[--events->n_awake], TRUE);
      if (events->timed->links != NULL)
        ps_links_settle (events);
    }
  while (take (events));
}

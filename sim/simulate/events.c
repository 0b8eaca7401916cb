/* events.c - the events engine. Where times follow from the order alone, devices are followed as far as they go, and
 * each transfer starts when the last of its conditions is met: no queue, no choice, so any order of doing this gives
 * the same times. Where times depend on other ops and transfers of the same instant, events are taken in the order of
 * time.
 *
 * An event is an end that others may still put off: of an op that transfers slow down, of a phase of a transfer that
 * shares links. In ready order also the end of any op, after which a device looks for the next one. Everything else
 * follows from the order alone, and is found as soon as the event before it is. Nothing is found to begin before the
 * first event that is due, so that its time is final. All events of one instant are taken before anything new begins:
 * it does not matter which comes first. */
#include "events-links.h"
#include "program/channels.h"
#include "simulate-private.h"

#include <math.h>
#include <string.h>

#define NO_ITEM G_MAXUINT32

/* One transfer and the conditions that it waits for: its data exists, it is the next one on each end, and in blocking
 * runs each device has come to it. An eager message has two transfers. The first holds the sender's end; the second is
 * over when the message has arrived and it is the next one on the receiver's end. */
typedef struct {
  gint64 start_ns;   /* when the last condition so far was met */
  gint64 end_ns;     /* until it starts: its duration */
  guint32 next[2];   /* 1 + transfers of which a condition is met when it ends; 0 = none */
  guint32 message;   /* of the program */
  guint32 consumer;  /* the message's */
  guint16 sender;    /* the message's */
  guint16 receiver;  /* the message's */
  guint8 missing;    /* conditions not yet met */
  guint8 conditions; /* in all */
  guint8 done;
  guint8 part : 2;   /* TransferPart */
  guint8 held : 2;   /* with channels: their ends that it holds, the sender's first */
  guint8 joined : 2; /* before its end is known: bit 0: the sender takes part, bit 1: the receiver does */
} Transfer;

typedef enum {
  TRANSFER_WHOLE,
  TRANSFER_EAGER_SEND,
  TRANSFER_EAGER_RECEIVE,
} TransferPart;

typedef enum {
  ITEM_OP,
  ITEM_SEND,    /* blocking runs only: the device comes to the transfer and goes on when it is over */
  ITEM_RECEIVE, /* the same */
} ItemType;

/* One thing that a device does. */
typedef struct {
  gint64 duration_ns;
  guint32 step;
  guint32 cost;    /* of an op: index into PsCosts.op */
  guint32 wait;    /* 1 + transfer that must be over first; 0 = none */
  guint32 send[2]; /* 1 + transfers whose data the op makes; 0 = none */
  guint8 type;     /* ItemType */
  guint8 pair;     /* PsPairRole */
} Item;

/* A time in which a device sends or receives. */
typedef struct {
  gint64 from_ns;
  gint64 until_ns;
} Span;

typedef struct {
  gint64 clock_ns; /* end of its last op, or of its last send or receive when blocking */
  guint32 next;    /* item */
  guint32 end;     /* after its last item */
  guint32 blocked; /* 1 + transfer that it waits for; 0 = none */
  gboolean posted; /* it has come to the send or receive that is its next item */
  /* Only where events are taken in the order of time: */
  guint32 item;     /* that it runs; NO_ITEM when idle */
  gint64 start_ns;  /* of the item's op */
  gint64 end_ns;    /* of the item's op as far as is known */
  gboolean waiting; /* for its ready_ns */
  gboolean queued;  /* among the awake */
  guint n_open;     /* transfers that it takes part in and whose end is not known */
  gint64 open_ns;   /* since when it takes part in any of these */
  guint n_passed;   /* spans that end before its op begins */
  guint n_spans;
  Span *spans; /* with slow-down: when it takes part in transfers whose end is known; in order, none touches
                  another */
  const PsInstruction *post; /* with overlap_waiting: after the op up to which it has come to sends and receives */
} Device;

typedef struct _Ready Ready;

struct _PsEvents {
  const PsProgram *program;
  PsEventsSetting setting;
  PsChannels *channels;
  guint n_devices;
  guint n_transfers; /* messages, then the second parts of eager ones */
  Transfer *transfers;
  guint n_items;
  Item *items; /* by device, in order */
  guint32 *item_of_step;
  guint *first_item; /* [n_devices + 1] */
  Device *devices;
  guint n_startable;
  guint32 *startable; /* [n_transfers] transfers whose conditions are all met */
  guint n_awake;
  guint16 *awake; /* [n_devices] devices that may go on */
  Ready *ready;   /* NULL: program order */
  /* Only where events are taken in the order of time: */
  gboolean by_time;
  PsQueue queue;            /* ids: transfers that begin later, devices, transfers that have begun */
  Span *spans;              /* of all devices */
  gboolean slows;           /* ends of ops are not known when they start */
  gint64 slowdown;          /* factor on ops that run during transfers, in thousandths; NO_SLOWDOWN: none */
  PsLinks *links;           /* NULL: transfers share none */
  const gint64 *urgency_ns; /* ps_events_rank_messages */
  gboolean exclusive;
  /* of the run */
  gint64 now_ns;
  gint64 retry_ns; /* in ready order: when a channel end comes free that a transfer waits for */
  const PsCosts *costs;
  PsSimulation *simulation;
};

/* Making the engine: the items of each device and the conditions of each transfer. */

/* The transfer that a consumer waits for: the part on the receiver's end if the message is eager, else the whole. */
static guint32 receive_part (const PsEvents *events, guint32 message)
{
  const Transfer *transfer = &events->transfers[message];

  return transfer->part == TRANSFER_EAGER_SEND ? transfer->next[1] - 1 : message;
}

static guint32 part_on (const PsEvents *events, guint32 message, guint device)
{
  return events->program->messages[message].receiver == device ? receive_part (events, message) : message;
}

/* A transfer for each message, and a second one for each eager message, which holds no channel end. */
static void build_transfers (PsEvents *events, const PsCosts *costs)
{
  const PsProgram *program = events->program;
  guint8 n_held = events->channels->n_ends > 0 ? PS_N_SIDES : 0;

  events->n_transfers = program->n_messages;
  events->transfers = g_new0 (Transfer, 2 * (gsize)events->program->n_messages + 1);
  for (guint i = 0; i < events->program->n_messages; i++) {
    const PsMessage *message = &program->messages[i];
    Transfer *transfer = &events->transfers[i], *receive = &events->transfers[events->n_transfers];

    *transfer = (Transfer){ .message = i,
                            .consumer = message->consumer,
                            .sender = message->sender,
                            .receiver = message->receiver,
                            .held = n_held };
    if (!ps_events_setting_is_eager (&events->setting,
                                     costs->message_bytes[program->steps[message->consumer].transfer]))
      continue;
    *receive = *transfer;
    receive->part = TRANSFER_EAGER_RECEIVE;
    receive->held = 0;
    transfer->part = TRANSFER_EAGER_SEND;
    transfer->held = MIN (n_held, 1);
    transfer->next[1] = ++events->n_transfers;
  }
}

/* Links each transfer to the next one on the same channel end. Of an eager message the send part holds the sender's
 * end, the receive part the receiver's. A transfer that is the next one on both ends waits for one condition, not two.
 */
static void link_ends (PsEvents *events, guint32 index)
{
  const PsMessage *message = &events->program->messages[index];
  const PsEndPlace *places = events->channels->on_end[index];
  Transfer *send = &events->transfers[index], *receive = &events->transfers[receive_part (events, index)];

  if (places[PS_SIDE_SENDER].next != 0)
    send->next[0] = 1 + part_on (events, places[PS_SIDE_SENDER].next - 1, message->sender);
  if (places[PS_SIDE_RECEIVER].next != 0)
    receive->next[1] = 1 + part_on (events, places[PS_SIDE_RECEIVER].next - 1, message->receiver);
  if (send == receive && send->next[0] != 0 && send->next[0] == send->next[1]) {
    events->transfers[send->next[0] - 1].conditions--;
    send->next[1] = 0;
  }
}

/* Counts the conditions of a transfer: its data exists or has arrived; the transfers before it on each channel end are
 * over; when blocking, both devices have reached the instruction. */
static void count_conditions (PsEvents *events, guint32 index)
{
  const PsEndPlace *places = events->channels->on_end[index];
  Transfer *send = &events->transfers[index], *receive = &events->transfers[receive_part (events, index)];
  gboolean in_order = events->setting.ready_order == 0;

  send->conditions++;
  send->conditions += in_order && places[PS_SIDE_SENDER].waits;
  if (send != receive)
    receive->conditions++;
  receive->conditions += in_order && places[PS_SIDE_RECEIVER].waits;
  receive->conditions += events->setting.blocking != 0;
}

static void append_op (PsEvents *events, guint step)
{
  const PsProgram *program = events->program;
  Item *item = &events->items[events->n_items];

  *item = (Item){ .type = ITEM_OP, .step = step, .cost = program->steps[step].cost };
  item->pair = program->pair != NULL ? program->pair[step] : PS_PAIR_NONE;
  if (program->message_of[step] != 0)
    item->wait = 1 + receive_part (events, program->message_of[step] - 1);
  events->item_of_step[step] = events->n_items++;
}

/* Blocking devices work through sends and receives, others through ops alone. */
static void append_items (PsEvents *events, guint device)
{
  const PsProgram *program = events->program;
  guint op = program->schedule->first[device];

  for (guint i = program->first[device]; i < program->first[device + 1]; i++) {
    const PsInstruction *instruction = &program->instructions[i];
    Item *item = &events->items[events->n_items];

    if (instruction->type == PS_INSTRUCTION_COMPUTE)
      append_op (events, program->step_of[op++]);
    if (!events->setting.blocking || !ps_instruction_is_post (instruction))
      continue;
    *item = (Item){ .type = instruction->type == PS_INSTRUCTION_SEND ? ITEM_SEND : ITEM_RECEIVE };
    item->wait = 1 + part_on (events, instruction->message - 1, device);
    events->n_items++;
  }
}

static void build_items (PsEvents *events)
{
  const PsProgram *program = events->program;

  events->items
      = g_new (Item, program->n_steps + (events->setting.blocking ? 2 * (gsize)events->program->n_messages : 0) + 1);
  events->item_of_step = g_new (guint32, program->n_steps);
  events->first_item = g_new0 (guint, events->n_devices + 1);
  for (guint device = 0; device < events->n_devices; device++) {
    append_items (events, device);
    events->first_item[device + 1] = events->n_items;
  }
  if (events->setting.blocking)
    return;
  for (guint32 i = 0; i < events->program->n_messages; i++) {
    guint32 *send = events->items[events->item_of_step[program->messages[i].producer]].send;

    send[send[0] != 0] = i + 1;
  }
}

static gboolean check_setting (const PsEventsSetting *setting, const PsProgram *program, GError **error)
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
static gboolean check_sums (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                            GError **error)
{
  double sum = 0, slowdown = MAX (setting->overlap_slowdown, 1);

  for (guint i = 0; i < program->n_steps; i++) {
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

/* Room for one span per message of each device: later ones touch earlier ones or lie apart. */
static void allot_spans (PsEvents *events)
{
  const PsProgram *program = events->program;
  Span *next = events->spans = g_new (Span, 2 * (gsize)program->n_messages + 1);
  g_autofree guint *n = g_new0 (guint, events->n_devices);

  for (guint i = 0; i < program->n_messages; i++) {
    n[program->messages[i].sender]++;
    n[program->messages[i].receiver]++;
  }
  for (guint device = 0; device < events->n_devices; device++) {
    events->devices[device].spans = next;
    next += n[device];
  }
}

/* Ids in the queue: a transfer that begins later has its index; devices and transfers that have begun follow. */
static guint32 device_id (const PsEvents *events, guint device)
{
  return events->n_transfers + device;
}

static guint32 transfer_id (const PsEvents *events, guint32 transfer)
{
  return events->n_transfers + events->n_devices + transfer;
}

#define NO_SLOWDOWN 1000

static Ready *ready_new (const PsEvents *events);
static void ready_free (Ready *ready);

PsEvents *ps_events_new (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting, GError **error)
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
  for (guint32 i = 0; i < program->n_messages; i++) {
    if (!setting->ready_order)
      link_ends (events, i);
    count_conditions (events, i);
  }
  build_items (events);
  events->devices = g_new0 (Device, events->n_devices);
  events->startable = g_new (guint32, events->n_transfers + 1);
  events->awake = g_new (guint16, events->n_devices);
  events->by_time = !ps_events_setting_is_fixed (setting);
  events->slows = setting->overlap_slowdown > 1;
  events->slowdown = events->slows ? llrint (setting->overlap_slowdown * NO_SLOWDOWN) : NO_SLOWDOWN;
  if (events->by_time)
    ps_queue_init (&events->queue, 2 * events->n_transfers + events->n_devices);
  if (events->slows)
    allot_spans (events);
  if (setting->links != NULL)
    events->links = ps_links_new (program, setting->links, &events->queue, transfer_id (events, 0));
  if (setting->ready_order)
    events->ready = ready_new (events);
  return g_steal_pointer (&events);
}

void ps_events_free (PsEvents *events)
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
  ready_free (events->ready);
  ps_queue_clear (&events->queue);
  g_free (events->spans);
  ps_links_free (events->links);
  g_free (events);
}

void ps_events_rank_messages (PsEvents *events, const gint64 *urgency_ns, gboolean exclusive)
{
  events->urgency_ns = urgency_ns;
  events->exclusive = exclusive;
}

/* Slow-down */

/* Follows a device's op that has `left` parts of its work to do at *now_ns to the end of a span. In a nanosecond it
 * does 1000 parts during a transfer, and `slowdown` parts without one: all of it in duration_ns alone. TRUE: it is
 * over.
 */
static gboolean pass_span (gint64 slowdown, gint64 duration_ns, Span span, gint64 *now_ns, gint64 *left)
{
  gint64 alone = MAX (span.from_ns - *now_ns, 0), slowed;

  if (alone >= duration_ns || alone * slowdown >= *left)
    return TRUE;
  *left -= alone * slowdown;
  *now_ns += alone;
  slowed = MAX (span.until_ns - *now_ns, 0);
  if (slowed > G_MAXINT64 / NO_SLOWDOWN || slowed * NO_SLOWDOWN >= *left) {
    *now_ns += (*left + NO_SLOWDOWN - 1) / NO_SLOWDOWN;
    *left = 0;
    return TRUE;
  }
  *left -= slowed * NO_SLOWDOWN;
  *now_ns += slowed;
  return FALSE;
}

/* The end of a device's op as far as is known. A transfer that has no end yet slows it down for ever. */
static gint64 find_end (const PsEvents *events, const Device *device)
{
  gint64 now = device->start_ns, duration = events->items[device->item].duration_ns, slowdown = events->slowdown;
  gint64 left = duration * slowdown;
  guint i = device->n_passed;
  gboolean open = device->n_open > 0, over = FALSE;

  if (i == device->n_spans && !open)
    return now + duration;
  for (; i < device->n_spans && !over && !(open && device->open_ns <= device->spans[i].until_ns); i++)
    over = pass_span (slowdown, duration, device->spans[i], &now, &left);
  if (open && !over) {
    Span span = { device->open_ns, G_MAXINT64 };

    if (i < device->n_spans)
      span.from_ns = MIN (span.from_ns, device->spans[i].from_ns);
    pass_span (slowdown, duration, span, &now, &left);
  }
  return now + (left + slowdown - 1) / slowdown;
}

static void schedule_end (PsEvents *events, guint index)
{
  Device *device = &events->devices[index];

  if (device->item == NO_ITEM)
    return;
  device->end_ns = find_end (events, device);
  ps_queue_set (&events->queue, device_id (events, index), device->end_ns);
}

/* Adds a span among those in order, and unites it with all that it touches. */
static void add_span (Device *device, gint64 from_ns, gint64 until_ns)
{
  Span *spans = device->spans;
  guint first = device->n_spans, end;

  if (from_ns >= until_ns)
    return;
  while (first > device->n_passed && spans[first - 1].until_ns >= from_ns)
    first--;
  for (end = first; end < device->n_spans && spans[end].from_ns <= until_ns; end++) {
    from_ns = MIN (from_ns, spans[end].from_ns);
    until_ns = MAX (until_ns, spans[end].until_ns);
  }
  memmove (&spans[first + 1], &spans[end], (device->n_spans - end) * sizeof *spans);
  device->n_spans = device->n_spans + 1 - (end - first);
  spans[first] = (Span){ from_ns, until_ns };
}

static void open_span (PsEvents *events, Transfer *transfer, guint side, guint index, gint64 from_ns)
{
  Device *device = &events->devices[index];

  if (transfer->joined & 1U << side)
    return;
  transfer->joined |= (guint8)(1U << side);
  if (device->n_open++ == 0)
    device->open_ns = from_ns;
  if (events->slows)
    schedule_end (events, index);
}

/* A device takes part in a transfer from its start on, or from when the device has come to it, until its end. An op
 * that ends before that stays as it is. */
static void close_span (PsEvents *events, const Transfer *transfer, guint side, guint index)
{
  Device *device = &events->devices[index];
  gint64 from_ns = transfer->start_ns;

  if (transfer->joined & 1U << side) {
    from_ns = device->open_ns;
    device->n_open--;
  }
  if (!events->slows)
    return;
  add_span (device, from_ns, transfer->end_ns);
  if (from_ns < device->end_ns)
    schedule_end (events, index);
}

/* Whether it matters which devices take part in a transfer. */
static gboolean occupies (const PsEvents *events, const Transfer *transfer)
{
  return (events->slows || events->exclusive) && transfer->part != TRANSFER_EAGER_RECEIVE;
}

/* With overlap_waiting a device takes part in the messages of the sends and receives before its next op from now on,
 * unless they have moved. */
static void join_until_op (PsEvents *events, guint index, gint64 now_ns)
{
  const PsInstruction *end = &events->program->instructions[events->program->first[index + 1]];
  Device *device = &events->devices[index];

  for (; device->post < end && device->post->type != PS_INSTRUCTION_COMPUTE; device->post++) {
    Transfer *transfer = &events->transfers[device->post->message - 1];

    if (!ps_instruction_is_post (device->post))
      continue;
    if (transfer->done)
      add_span (device, now_ns, transfer->end_ns);
    else
      open_span (events, transfer, ps_instruction_side (device->post), index, now_ns);
  }
  if (device->post < end)
    device->post++;
}

/* Following devices and transfers */

static void meet (PsEvents *events, guint32 transfer, gint64 time_ns)
{
  Transfer *met = &events->transfers[transfer - 1];

  met->start_ns = MAX (met->start_ns, time_ns);
  if (--met->missing == 0)
    events->startable[events->n_startable++] = transfer - 1;
}

/* A device that waits for the transfer goes on. */
static void wake_blocked (PsEvents *events, guint device, guint32 transfer)
{
  if (events->devices[device].blocked != transfer)
    return;
  events->devices[device].blocked = 0;
  events->awake[events->n_awake++] = (guint16)device;
}

static void ready_arrive (PsEvents *events, guint32 index);

/* Completes a transfer whose end time is known: frees its channel ends and delivers its data. */
static void complete_transfer (PsEvents *events, guint32 index, gint64 end_ns)
{
  Transfer *transfer = &events->transfers[index];

  transfer->end_ns = end_ns;
  transfer->done = TRUE;
  if (transfer->part != TRANSFER_EAGER_RECEIVE)
    events->simulation->transfer_start_ns[transfer->consumer] = transfer->start_ns;
  events->simulation->transfer_end_ns[transfer->consumer] = end_ns;
  for (guint i = 0; i < G_N_ELEMENTS (transfer->next); i++)
    if (transfer->next[i] != 0)
      meet (events, transfer->next[i], end_ns);
  wake_blocked (events, transfer->receiver, index + 1);
  if (events->setting.blocking)
    wake_blocked (events, transfer->sender, index + 1);
  if (events->ready != NULL)
    ready_arrive (events, index);
  if (!occupies (events, transfer))
    return;
  close_span (events, transfer, PS_SIDE_SENDER, transfer->sender);
  close_span (events, transfer, PS_SIDE_RECEIVER, transfer->receiver);
}

static void begin_transfer (PsEvents *events, guint32 index);

/* The conditions of transfers are met. They are over unless their ends depend on others. */
static void follow_transfers (PsEvents *events)
{
  while (events->n_startable > 0) {
    guint32 index = events->startable[--events->n_startable];
    const Transfer *transfer = &events->transfers[index];

    if (events->links == NULL || transfer->part == TRANSFER_EAGER_RECEIVE)
      complete_transfer (events, index, transfer->start_ns + transfer->end_ns);
    else if (transfer->start_ns <= events->now_ns)
      begin_transfer (events, index);
    else
      ps_queue_set (&events->queue, index, transfer->start_ns);
  }
}

/* An op starts, at any time from now on. Its end is an event. */
static void start_op (PsEvents *events, guint index, guint32 i, gint64 start_ns)
{
  Device *device = &events->devices[index];

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

/* An op has ended: notes it, and lets its messages go. */
static void end_item (PsEvents *events, const Item *item, gint64 end_ns)
{
  events->simulation->end_ns[item->step + 1] = end_ns;
  for (guint k = 0; k < G_N_ELEMENTS (item->send) && item->send[k] != 0; k++)
    meet (events, item->send[k], end_ns);
}

/* Runs a device until it waits for a transfer whose time is not known yet, or until it runs an op whose end is not. */
static void follow (PsEvents *events, guint index)
{
  Device *device = &events->devices[index];
  gint64 clock = device->clock_ns;
  guint i;

  for (i = device->next; i < device->end; i++) {
    const Item *item = &events->items[i];

    if (item->type != ITEM_OP) {
      /* A blocking device comes to its send or receive. */
      if (!device->posted)
        meet (events, item->wait, device->clock_ns);
      device->posted = TRUE;
      follow_transfers (events);
    }
    if (item->wait != 0) {
      const Transfer *transfer = &events->transfers[item->wait - 1];

      if (!transfer->done) {
        device->blocked = item->wait;
        break;
      }
      clock = MAX (clock, transfer->end_ns);
    }
    if (item->type == ITEM_OP && events->slows) {
      start_op (events, index, i++, clock);
      break;
    }
    if (item->type == ITEM_OP) {
      events->simulation->start_ns[item->step] = clock;
      clock += item->duration_ns;
      end_item (events, item, clock);
      follow_transfers (events);
    }
    device->posted = FALSE;
    device->clock_ns = clock;
  }
  device->next = i;
}

/* The order as a hint: devices start ready ops, and messages go by whichever channel is free. */

#define N_DEPENDS 4

typedef struct {
  guint8 missing; /* its input, and items of the same device that must start before it */
  guint8 passed;  /* it has started; or it is the second op of a pair, which the device starts after the first */
  guint8 last;    /* O: nothing overtakes it, and it overtakes nothing */
  guint8 pair;    /* the first op of a pair */
} Candidate;

struct _Ready {
  Candidate *initial;       /* [n_items] before a run */
  Candidate *candidates;    /* [n_items] */
  guint32 *first_dependent; /* [n_items + 1] */
  guint32 *dependents;      /* of item i: from first_dependent[i] to before first_dependent[i + 1] */
  guint32 *second;          /* [n_devices] 1 + second op of the pair that the device has begun; 0 = none */
  guint32 *sequence;        /* [n_items] items of a device in the order in which they started */
  guint *n_started;         /* [n_devices] */
  gint64 *kept_bytes;       /* [n_devices] with a memory limit: what the ops that have started keep */
  guint n_pending;
  guint32 *pending; /* [n_transfers] transfers that wait for a channel; the next to go is the first */
  gint64 *free_ns;  /* [n_ends] when the transfer that holds the channel end is over; G_MAXINT64: not known */
  gint64 wake_ns;   /* when the next input arrives that the last search missed; G_MAXINT64: not known */
};

/* The items that make the results of a stage, microbatch and slice, each counted from 1; 0 = none. */
typedef struct {
  guint32 forward;
  guint32 recompute;
  guint32 backward; /* B or BW */
} Makers;

static const PsOp *item_op (const PsEvents *events, guint32 i)
{
  return &events->program->schedule->ops[events->program->op_of[events->items[i].step]];
}

static void note_maker (Makers *makers, PsOp op, guint32 item)
{
  if (op.kind == PS_OP_F)
    makers->forward = item;
  else if (op.kind == PS_OP_R)
    makers->recompute = item;
  else if (ps_op_is_backward (op))
    makers->backward = item;
}

/* Adds a condition on an item. An item of another device hands over by a transfer, and a later item is no condition. */
static void depend_on (const PsEvents *events, guint32 *depends, guint *n, guint32 i, guint32 other)
{
  const PsStep *steps = events->program->steps;
  const Item *items = events->items;

  if (other != 0 && other - 1 < i && steps[items[other - 1].step].device == steps[items[i].step].device)
    depends[(*n)++] = other;
}

static void find_depends (const PsEvents *events, const Makers *makers, guint32 i, guint32 *depends)
{
  const PsSchedule *schedule = events->program->schedule;
  PsOp op = *item_op (events, i), producer;
  const Makers *own = &makers[ps_schedule_cell (schedule, op)];
  guint n = 0;

  if (op.kind == PS_OP_W)
    depend_on (events, depends, &n, i, own->backward);
  if (op.kind == PS_OP_R || ps_op_is_backward (op))
    depend_on (events, depends, &n, i, own->forward);
  if (ps_op_is_backward (op))
    depend_on (events, depends, &n, i, own->recompute);
  if (ps_op_input (op, schedule->placement->n_stages, &producer)) {
    const Makers *other = &makers[ps_schedule_cell (schedule, producer)];

    depend_on (events, depends, &n, i, producer.kind == PS_OP_F ? other->forward : other->backward);
  }
  if (op.kind == PS_OP_F && op.slice > 0)
    depend_on (events, depends, &n, i, own[-1].forward);
  if (ps_op_is_backward (op) && op.slice + 1U < schedule->n_slices)
    depend_on (events, depends, &n, i, own[1].backward);
}

/* The start of the first op of a pair is no condition of the second. */
static gboolean is_condition (const PsEvents *events, guint32 i, guint32 depends)
{
  return depends != 0 && !(events->items[i].pair == PS_PAIR_SECOND && depends == i);
}

static void build_dependents (const PsEvents *events, Ready *ready, const guint32 *depends)
{
  guint32 *first = ready->first_dependent = g_new0 (guint32, events->n_items + 1);
  guint32 n = events->n_items * N_DEPENDS;

  ready->dependents = g_new (guint32, (gsize)n + 1);
  for (guint32 i = 0; i < n; i++)
    first[depends[i] - (depends[i] != 0)] += is_condition (events, i / N_DEPENDS, depends[i]);
  for (guint32 i = 1; i <= events->n_items; i++)
    first[i] += first[i - 1];
  for (guint32 i = n; i-- > 0;)
    if (is_condition (events, i / N_DEPENDS, depends[i])) {
      ready->dependents[--first[depends[i] - 1]] = i / N_DEPENDS;
      ready->initial[i / N_DEPENDS].missing++;
    }
}

static void build_candidates (const PsEvents *events, Ready *ready)
{
  const PsSchedule *schedule = events->program->schedule;
  g_autofree Makers *makers = g_new0 (Makers, ps_schedule_n_cells (schedule));
  g_autofree guint32 *depends = g_new0 (guint32, (gsize)events->n_items * N_DEPENDS + 1);

  for (guint32 i = 0; i < events->n_items; i++)
    note_maker (&makers[ps_schedule_cell (schedule, *item_op (events, i))], *item_op (events, i), i + 1);
  ready->initial = g_new0 (Candidate, events->n_items + 1);
  ready->candidates = g_new (Candidate, events->n_items + 1);
  for (guint32 i = 0; i < events->n_items; i++) {
    find_depends (events, makers, i, &depends[(gsize)i * N_DEPENDS]);
    ready->initial[i] = (Candidate){ .missing = events->items[i].wait != 0,
                                     .passed = events->items[i].pair == PS_PAIR_SECOND,
                                     .last = item_op (events, i)->kind == PS_OP_O,
                                     .pair = events->items[i].pair == PS_PAIR_FIRST };
  }
  build_dependents (events, ready, depends);
}

static Ready *ready_new (const PsEvents *events)
{
  Ready *ready = g_new0 (Ready, 1);

  build_candidates (events, ready);
  ready->second = g_new0 (guint32, events->n_devices);
  ready->sequence = g_new (guint32, events->n_items + 1);
  ready->n_started = g_new0 (guint, events->n_devices);
  ready->kept_bytes = g_new0 (gint64, events->n_devices);
  ready->pending = g_new (guint32, events->n_transfers + 1);
  ready->free_ns = g_new0 (gint64, events->channels->n_ends + 1);
  return ready;
}

static void ready_free (Ready *ready)
{
  if (ready == NULL)
    return;
  g_free (ready->initial);
  g_free (ready->candidates);
  g_free (ready->first_dependent);
  g_free (ready->dependents);
  g_free (ready->second);
  g_free (ready->sequence);
  g_free (ready->n_started);
  g_free (ready->kept_bytes);
  g_free (ready->pending);
  g_free (ready->free_ns);
  g_free (ready);
}

static void ready_begin (PsEvents *events)
{
  Ready *ready = events->ready;

  memcpy (ready->candidates, ready->initial, events->n_items * sizeof *ready->initial);
  memset (ready->second, 0, events->n_devices * sizeof *ready->second);
  memset (ready->n_started, 0, events->n_devices * sizeof *ready->n_started);
  memset (ready->kept_bytes, 0, events->n_devices * sizeof *ready->kept_bytes);
  memset (ready->free_ns, 0, events->channels->n_ends * sizeof *ready->free_ns);
  ready->n_pending = 0;
}

/* A device is idle when it picks, so all ops that started on it have ended. */
static gboolean input_is_there (const PsEvents *events, guint32 i)
{
  guint32 wait = events->items[i].wait;

  if (events->ready->candidates[i].missing > 0)
    return FALSE;
  if (wait == 0 || events->transfers[wait - 1].end_ns <= events->now_ns)
    return TRUE;
  events->ready->wake_ns = MIN (events->ready->wake_ns, events->transfers[wait - 1].end_ns);
  return FALSE;
}

/* The bytes that an op, or both ops of a pair, take at the start and keep after the end. */
typedef struct {
  gint64 take_bytes;
  gint64 keep_bytes;
} Need;

static Need cell_need (const PsEvents *events, guint32 i)
{
  guint n = events->items[i].pair == PS_PAIR_FIRST ? 2 : 1;
  Need need = { 0 };

  for (guint k = 0; k < n; k++) {
    const PsOpCost *cost = &events->costs->op[events->items[i + k].cost];

    need.take_bytes += cost->take_bytes;
    need.keep_bytes += cost->take_bytes - cost->give_bytes;
  }
  return need;
}

/* The device's remaining list as the search for a ready op goes along it. */
typedef struct {
  gint64 limit_bytes;
  gint64 held_bytes;  /* now */
  gint64 level_bytes; /* when all that was passed over has run */
  gint64 room_bytes;  /* the level may rise by so much before an op that was passed over would no longer fit */
} Memory;

static void pass_over (Memory *memory, Need need)
{
  memory->room_bytes = MIN (memory->room_bytes, memory->limit_bytes - memory->level_bytes - need.take_bytes);
  memory->level_bytes += need.keep_bytes;
}

/* Whether an op fits now, and all that it overtakes still fits after it: so the list in its order always fits. */
static gboolean fits (const Memory *memory, Need need)
{
  return memory->held_bytes + need.take_bytes <= memory->limit_bytes
         && (need.keep_bytes <= 0 || need.keep_bytes <= memory->room_bytes);
}

static guint32 start_cell (PsEvents *events, guint device, guint32 i)
{
  Ready *ready = events->ready;

  ready->second[device] = ready->candidates[i].pair ? i + 2 : 0;
  ready->candidates[i].passed = TRUE;
  for (guint32 k = ready->first_dependent[i]; k < ready->first_dependent[i + 1]; k++)
    ready->candidates[ready->dependents[k]].missing--;
  ready->sequence[events->first_item[device] + ready->n_started[device]++] = i;
  return i;
}

/* A device that keeps its order may begin a pair while the input of the second op is still on its way. */
static gboolean cell_is_ready (const PsEvents *events, guint32 i)
{
  if (!input_is_there (events, i))
    return FALSE;
  return !events->ready->candidates[i].pair || events->setting.ready_order == 1 || input_is_there (events, i + 1);
}

static guint32 ready_pick (PsEvents *events, guint device)
{
  Device *state = &events->devices[device];
  Ready *ready = events->ready;
  const Candidate *candidates = ready->candidates;
  const gint64 *limit = events->setting.memory_limit;
  guint32 first, end = state->end, n_left = events->setting.ready_order;
  Memory memory = { .room_bytes = G_MAXINT64 / 4 };

  ready->wake_ns = G_MAXINT64;
  if (ready->second[device] != 0) {
    guint32 second = ready->second[device] - 1;

    return input_is_there (events, second) ? start_cell (events, device, second) : NO_ITEM;
  }
  for (first = state->next; first < end && candidates[first].passed; first++)
    ;
  state->next = first;
  if (limit != NULL) {
    memory.limit_bytes = limit[device];
    memory.held_bytes = events->simulation->memory[device].held_bytes + ready->kept_bytes[device];
    memory.level_bytes = memory.held_bytes;
  }
  for (guint32 i = first; i < end && n_left > 0; i++) {
    if (candidates[i].passed)
      continue;
    if (i > first && candidates[i].last)
      break;
    if (cell_is_ready (events, i) && (i == first || limit == NULL || fits (&memory, cell_need (events, i)))) {
      if (limit != NULL)
        ready->kept_bytes[device] += cell_need (events, i).keep_bytes;
      return start_cell (events, device, i);
    }
    if (candidates[i].last)
      break;
    if (limit != NULL)
      pass_over (&memory, cell_need (events, i));
    n_left--;
  }
  return NO_ITEM;
}

/* A device that may begin an op, or where messages need their devices alone, a message. */
static gboolean is_idle (const PsEvents *events, guint index)
{
  const Device *device = &events->devices[index];

  return device->item == NO_ITEM && !device->waiting && !(events->exclusive && device->n_open > 0);
}

static gboolean goes_before (const PsEvents *events, guint32 a, guint32 b)
{
  const Transfer *x = &events->transfers[a], *y = &events->transfers[b];

  if (events->urgency_ns != NULL && events->urgency_ns[x->consumer] != events->urgency_ns[y->consumer])
    return events->urgency_ns[x->consumer] > events->urgency_ns[y->consumer];
  if (x->start_ns != y->start_ns)
    return x->start_ns < y->start_ns;
  return events->program->places[x->message].receive < events->program->places[y->message].receive;
}

static void append_pending (PsEvents *events, guint32 transfer)
{
  Ready *ready = events->ready;
  guint place = ready->n_pending++;

  for (; place > 0 && goes_before (events, transfer, ready->pending[place - 1]); place--)
    ready->pending[place] = ready->pending[place - 1];
  ready->pending[place] = transfer;
}

static gboolean devices_are_idle (const PsEvents *events, guint32 transfer)
{
  const Transfer *moved = &events->transfers[transfer];

  return moved->part == TRANSFER_EAGER_RECEIVE
         || (is_idle (events, moved->sender)
             && (moved->part == TRANSFER_EAGER_SEND || is_idle (events, moved->receiver)));
}

/* When the channel ends of a transfer are free; G_MAXINT64: not known. */
static gint64 free_at (const PsEvents *events, guint32 transfer)
{
  const gint64 *free_ns = events->ready->free_ns;
  guint held = events->transfers[transfer].held;

  if (held == 0)
    return 0;
  const PsEndPlace *places = events->channels->on_end[transfer];
  gint64 first_ns = free_ns[places[PS_SIDE_SENDER].end];
  return held > 1 ? MAX (first_ns, free_ns[places[PS_SIDE_RECEIVER].end]) : first_ns;
}

static void ready_hold (PsEvents *events, guint32 transfer, gint64 until_ns)
{
  for (guint side = 0; side < events->transfers[transfer].held; side++)
    events->ready->free_ns[events->channels->on_end[transfer][side].end] = until_ns;
}

static void ready_arrive (PsEvents *events, guint32 transfer)
{
  const Transfer *input = &events->transfers[transfer];

  if (input->part != TRANSFER_EAGER_SEND)
    events->ready->candidates[events->item_of_step[input->consumer]].missing--;
  ready_hold (events, transfer, input->end_ns);
}

static void start_pending (PsEvents *events)
{
  Ready *ready = events->ready;
  guint kept = 0;

  if (events->n_startable == 0 && events->retry_ns > events->now_ns && !events->exclusive)
    return;
  while (events->n_startable > 0)
    append_pending (events, events->startable[--events->n_startable]);
  events->retry_ns = G_MAXINT64;
  for (guint i = 0; i < ready->n_pending; i++) {
    guint32 transfer = ready->pending[i];
    gint64 free_ns = free_at (events, transfer);

    if (free_ns <= events->now_ns && (!events->exclusive || devices_are_idle (events, transfer))) {
      begin_transfer (events, transfer);
      continue;
    }
    ready->pending[kept++] = transfer;
    if (free_ns > events->now_ns)
      events->retry_ns = MIN (events->retry_ns, free_ns);
  }
  ready->n_pending = kept;
}

/* Events in the order of time */

static void wake (PsEvents *events, guint index)
{
  Device *device = &events->devices[index];

  if (device->queued)
    return;
  device->queued = TRUE;
  events->awake[events->n_awake++] = (guint16)index;
}

static void end_op (PsEvents *events, guint index)
{
  Device *device = &events->devices[index];

  device->clock_ns = events->now_ns;
  end_item (events, &events->items[device->item], events->now_ns);
  device->item = NO_ITEM;
  if (events->setting.overlap_waiting && events->slows)
    join_until_op (events, index, events->now_ns);
}

/* A device looks for a ready op, if it is idle. */
static void pick_op (PsEvents *events, guint index)
{
  guint32 i;

  events->devices[index].queued = FALSE;
  if (!is_idle (events, index))
    return;
  i = ready_pick (events, index);
  if (i != NO_ITEM)
    start_op (events, index, i, events->now_ns);
  else if (events->ready->wake_ns < G_MAXINT64)
    ps_queue_set (&events->queue, device_id (events, index), events->ready->wake_ns);
}

static void begin_transfer (PsEvents *events, guint32 index)
{
  Transfer *transfer = &events->transfers[index];
  gboolean shares = events->links != NULL && transfer->part != TRANSFER_EAGER_RECEIVE;

  transfer->start_ns = events->now_ns;
  if (events->ready != NULL && transfer->part == TRANSFER_WHOLE && transfer->end_ns > 0 && !events->exclusive
      && !shares) {
    /* Its end is known when it begins. An idle device looks for an op when an input arrives. */
    guint32 receiver = device_id (events, transfer->receiver);

    complete_transfer (events, index, transfer->start_ns + transfer->end_ns);
    if (is_idle (events, transfer->receiver) && ps_queue_time (&events->queue, receiver) > transfer->end_ns)
      ps_queue_set (&events->queue, receiver, transfer->end_ns);
    return;
  }
  if (events->ready != NULL)
    ready_hold (events, index, G_MAXINT64);
  if (occupies (events, transfer)) {
    open_span (events, transfer, PS_SIDE_SENDER, transfer->sender, events->now_ns);
    open_span (events, transfer, PS_SIDE_RECEIVER, transfer->receiver, events->now_ns);
  }
  if (shares)
    ps_links_start (events->links, index,
                    events->costs->message_bytes[events->program->steps[transfer->consumer].transfer], transfer->end_ns,
                    events->now_ns);
  else
    ps_queue_set (&events->queue, transfer_id (events, index), events->now_ns + transfer->end_ns);
}

static void end_transfer (PsEvents *events, guint32 index)
{
  const Transfer *transfer = &events->transfers[index];

  complete_transfer (events, index, events->now_ns);
  if (events->ready == NULL)
    return;
  events->retry_ns = events->now_ns;
  wake (events, transfer->receiver);
  if (events->exclusive)
    wake (events, transfer->sender);
}

static void take_event (PsEvents *events, guint32 id)
{
  if (id < device_id (events, 0))
    begin_transfer (events, id);
  else if (id < transfer_id (events, 0)) {
    guint index = id - device_id (events, 0);

    if (events->devices[index].item != NO_ITEM)
      end_op (events, index);
    events->devices[index].waiting = FALSE;
    wake (events, index);
  } else {
    guint32 index = id - transfer_id (events, 0);

    if (events->links == NULL || events->transfers[index].part == TRANSFER_EAGER_RECEIVE
        || ps_links_event (events->links, index, events->now_ns))
      end_transfer (events, index);
  }
}

/* All that can go on goes on. Ops go first, but where messages need their devices. */
static void go_on (PsEvents *events)
{
  if (events->ready != NULL) {
    if (events->exclusive)
      start_pending (events);
    while (events->n_awake > 0)
      pick_op (events, events->awake[--events->n_awake]);
    start_pending (events);
  }
  follow_transfers (events);
  while (events->n_awake > 0)
    follow (events, events->awake[--events->n_awake]);
  if (events->links != NULL)
    ps_links_settle (events->links, events->now_ns);
}

/* Ends when nothing moves any more. */
static void run_by_time (PsEvents *events)
{
  while (ps_queue_first_ns (&events->queue) < G_MAXINT64)
    ps_queue_take (&events->queue);
  events->now_ns = 0;
  events->retry_ns = G_MAXINT64;
  if (events->links != NULL)
    ps_links_begin (events->links);
  if (events->ready != NULL)
    ready_begin (events);
  for (guint index = 0; index < events->n_devices; index++) {
    Device *device = &events->devices[index];

    device->queued = events->ready != NULL;
    device->waiting = events->ready != NULL && device->clock_ns > 0;
    device->post = &events->program->instructions[events->program->first[index]];
    if (device->waiting)
      ps_queue_set (&events->queue, device_id (events, index), device->clock_ns);
    if (events->setting.overlap_waiting && events->slows)
      join_until_op (events, index, device->clock_ns);
  }
  for (;;) {
    go_on (events);
    events->now_ns = MIN (ps_queue_first_ns (&events->queue), events->retry_ns);
    if (events->now_ns == G_MAXINT64)
      return;
    while (ps_queue_first_ns (&events->queue) == events->now_ns)
      take_event (events, ps_queue_take (&events->queue));
  }
}

/* A run */

/* Every transfer and op gets its duration under these costs. */
static void begin_transfers (PsEvents *events)
{
  const gint64 *times = events->setting.transfer_ns, *costs = events->costs->transfer_ns;
  const PsStep *steps = events->program->steps;
  const Transfer *end = events->transfers + events->n_transfers;

  for (Transfer *transfer = events->transfers; transfer < end; transfer++) {
    guint32 step = transfer->consumer;

    transfer->start_ns = 0;
    transfer->end_ns = times != NULL ? times[step] : costs[steps[step].transfer];
    if (transfer->part == TRANSFER_EAGER_RECEIVE)
      transfer->end_ns = 0;
    transfer->missing = transfer->conditions;
    transfer->done = FALSE;
    transfer->joined = 0;
  }
}

static void begin_items (PsEvents *events, guint device)
{
  const gint64 *times = events->setting.duration_ns;
  gboolean scales = events->setting.speed != NULL && events->setting.speed[device] != 1;
  const PsOpCost *costs = events->costs->op;
  const Item *end = events->items + events->first_item[device + 1];

  for (Item *item = events->items + events->first_item[device]; item < end; item++) {
    if (item->type != ITEM_OP)
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

gint64 ps_events_optimizer_ns (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                               guint device)
{
  const PsPlacement *placement = program->schedule->placement;
  gint64 sum = 0;

  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++)
    if (placement->device[i] == device)
      sum += ps_costs_op (costs, PS_OP_O, i % placement->n_stages)->duration_ns;
  return setting != NULL ? ps_event_at_speed (setting, device, sum) : sum;
}

static void begin (PsEvents *events, const PsCosts *costs, PsSimulation *simulation)
{
  events->costs = costs;
  events->simulation = simulation;
  events->n_startable = events->n_awake = 0;
  ps_simulation_begin (events->program, costs, simulation);
  ps_simulation_allot_times (simulation);
  begin_transfers (events);
  for (guint device = events->n_devices; device-- > 0;) {
    gint64 ready = events->setting.ready_ns != NULL ? events->setting.ready_ns[device] : 0;

    begin_items (events, device);
    simulation->device[device].optimizer_ns = ps_events_optimizer_ns (events->program, costs, &events->setting, device);
    events->devices[device] = (Device){ .clock_ns = ready,
                                        .next = events->first_item[device],
                                        .end = events->first_item[device + 1],
                                        .item = NO_ITEM,
                                        .spans = events->devices[device].spans };
    events->awake[events->n_awake++] = (guint16)device;
  }
}

/* The send, the receive or the wait at which a device cannot go on with its item. */
static guint find_instruction (const PsEvents *events, const Item *item)
{
  const PsProgram *program = events->program;
  guint32 index = events->transfers[item->wait - 1].message;
  const PsPlaces *places = &program->places[index];
  guint i = places->receive;

  if (item->type != ITEM_OP)
    return item->type == ITEM_SEND ? places->send : places->receive;
  while (program->instructions[i].type != PS_INSTRUCTION_WAIT || program->instructions[i].message != index + 1)
    i++;
  return i;
}

/* TRUE when every device has come to its end; else says who waits for whom. */
static gboolean check_finished (const PsEvents *events, GError **error)
{
  g_autofree guint *cursor = g_new (guint, events->n_devices);
  g_autofree guint8 *done = g_new0 (guint8, events->program->n_messages + 1),
                    *exists = g_new0 (guint8, events->program->n_messages + 1);
  gboolean finished = TRUE;

  for (guint device = 0; device < events->n_devices; device++) {
    const Device *state = &events->devices[device];

    cursor[device] = events->program->first[device + 1];
    if (state->next < state->end)
      cursor[device] = find_instruction (events, &events->items[state->next]);
    finished &= state->next == state->end;
  }
  if (finished)
    return TRUE;
  for (guint i = 0; i < events->program->n_messages; i++) {
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
static gint64 last_op_end (const PsEvents *events, guint device)
{
  const PsProgram *program = events->program;

  return events->simulation->end_ns[program->step_of[program->schedule->first[device + 1] - 1] + 1];
}

static gint64 host_time (const PsEvents *events, guint device)
{
  gint64 sum = 0;

  for (guint i = events->first_item[device]; events->costs->host_time != NULL && i < events->first_item[device + 1];
       i++)
    if (events->items[i].type == ITEM_OP)
      sum += ps_host_time_sum (ps_step_host_time (events->program, events->costs, events->items[i].step));
  return sum;
}

/* In the order of steps, as times lie in memory. */
static void count_busy (const PsEvents *events, PsSimulation *simulation)
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
static void count_memory (const PsEvents *events, guint device, PsSimulation *simulation)
{
  const guint32 *sequence = events->ready != NULL ? events->ready->sequence : NULL;
  const Item *items = events->items;
  const PsOpCost *costs = events->costs->op;
  PsMemoryLevel memory = simulation->memory[device];
  gint64 give_bytes = 0;

  for (guint i = events->first_item[device], end = events->first_item[device + 1]; i < end; i++) {
    const Item *item = &items[sequence != NULL ? sequence[i] : i];
    const PsOpCost *cost = &costs[item->cost];

    if (item->type != ITEM_OP)
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

static gint64 first_op_start (const PsEvents *events, guint device)
{
  const PsProgram *program = events->program;
  guint32 first = program->step_of[program->schedule->first[device]];

  if (events->ready != NULL)
    first = events->items[events->ready->sequence[events->first_item[device]]].step;
  return events->simulation->start_ns[first];
}

static void finish (PsEvents *events, PsSimulation *simulation)
{
  const guint *first = events->program->schedule->first;

  count_busy (events, simulation);
  for (guint device = 0; device < events->n_devices; device++) {
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

gboolean ps_events_run (PsEvents *events, const PsCosts *costs, PsSimulation *simulation, GError **error)
{
  g_return_val_if_fail (simulation->n_steps == events->program->n_steps, FALSE);
  begin (events, costs, simulation);
  if (events->by_time)
    run_by_time (events);
  else
    while (events->n_awake > 0)
      follow (events, events->awake[--events->n_awake]);
  if (!check_finished (events, error))
    return FALSE;
  finish (events, simulation);
  if (events->ready == NULL) /* else the program is not the order that has run */
    ps_simulation_count_buffers (events->program, costs, simulation);
  return TRUE;
}

gboolean ps_events_simulate (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                             PsSimulation *simulation, GError **error)
{
  g_autoptr (PsEvents) events = ps_events_new (program, costs, setting, error);

  return events != NULL && ps_events_run (events, costs, simulation, error);
}

/* The schedule with each device's ops in the order in which they started. */
static PsSchedule *realised_schedule (const PsEvents *events)
{
  const PsProgram *program = events->program;
  PsSchedule *schedule = ps_schedule_copy (program->schedule);

  g_clear_pointer (&schedule->posts, g_array_unref);
  for (guint i = 0; i < events->n_items; i++)
    schedule->ops[i] = *item_op (events, events->ready->sequence[i]);
  return schedule;
}

PsProgram *ps_events_realise (const PsEvents *events, PsSimulation **simulation)
{
  PsProgram *program;
  PsSimulation *old = *simulation, *new;

  g_return_val_if_fail (events->ready != NULL, NULL);
  program = ps_program_lower (realised_schedule (events), PS_COMM_ASAP, NULL);
  g_assert (program != NULL); /* it has run */
  new = ps_simulation_new (program);
  ps_simulation_allot_times (new);
  for (guint i = 0; i < events->n_items; i++) {
    guint from = events->items[events->ready->sequence[i]].step, to = program->step_of[i];

    new->end_ns[to + 1] = old->end_ns[from + 1];
    new->start_ns[to] = old->start_ns[from];
    new->transfer_start_ns[to] = old->transfer_start_ns[from];
    new->transfer_end_ns[to] = old->transfer_end_ns[from];
  }
  memcpy (new->device, old->device, new->n_devices * sizeof *new->device);
  memcpy (new->memory, old->memory, new->n_devices * sizeof *new->memory);
  new->makespan_ns = old->makespan_ns;
  new->max_span_ns = old->max_span_ns;
  new->optimizer_ns = old->optimizer_ns;
  ps_simulation_count_buffers (program, events->costs, new);
  ps_simulation_free (old);
  *simulation = new;
  return program;
}

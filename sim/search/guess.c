/* guess.c - guesses of prices: a run of an order in which messages go as soon as they can, and for blocking devices a
 * second run, which comes to sends and receives in the order that the first one has found. */
#include "guess.h"

#include <math.h>
#include <string.h>

#define NEVER G_MAXINT64

/* Thousandths of the work of an op that a device does in a nanosecond beside a transfer. */
#define BESIDE 1000

/* The message that an op of a chain waits for. */
typedef struct
{
  guint32 end[2]; /* of channels, numbered over all devices; the sender's and the receiver's */
  guint16 sender;
  guint16 receiver;
  gboolean moves; /* FALSE: there is none, its input is made on its device */
} Route;

typedef struct
{
  gint64 urgency; /* the longest path from the start of its consumer */
  guint32 producer;
  guint32 consumer;
  guint32 chain; /* of the op that waits for it */
} Message;

typedef struct
{
  gint64 clock_ns; /* in the order of transfers: when it has done all so far */
  gint64 since_ns; /* when the rest of its op was `left` */
  gint64 left;
  guint32 next; /* position in the sequence */
  guint n_moving;
  gboolean queued; /* among the awake */
} Device;

struct _PsGuess
{
  const PsProblem *problem;
  gboolean blocking;
  gboolean takes_turns; /* transfers go in the order of PS_COMM_ASAP */
  gboolean has_ends;
  gint64 slowdown; /* thousandths of an op's work that a device does in a nanosecond without a transfer; BESIDE: no
                      transfer slows it down */
  Route *routes;   /* [chains] */
  gint64 *free_ns; /* [2 * n_devices * n_devices] NEVER: it carries a transfer whose end has not come. Only ends of
                      routes are set: a device has few peers */
  Device *devices;
  gint64 *end_ns;   /* [n_devices] of its op; NEVER: it runs none */
  guint8 *n_inputs; /* [n_ops] messages that each op waits for */
  guint8 *missing;  /* [n_ops] of these the ones that have not come; of joined ops those of all */
  gint64 *when_ns;  /* [n_ops] when the op has ended; in turns: when its input has come */
  guint n_awake;
  guint16 *awake; /* [n_devices] whose next op may have come to its turn */
  guint n_pending;
  Message *pending; /* [n_ops] that wait to begin, the most urgent one first */
  guint n_moving;
  Message *moving;    /* [n_ops] under way */
  gint64 *arrival_ns; /* [n_ops] of those */
  guint n_begun;
  Message *begun; /* [n_ops] all that have begun, in their order; urgency: when they did */
  /* of the run */
  const PsOrder *order;
  gint64 enough;
  gint64 last_ns; /* end of the last op */
};

static void
set_route (PsGuess *guess, const PsChannelModel *model, guint chain)
{
  const PsProblem *problem = guess->problem;
  guint producer = producer_of (problem, chain * problem->m), p = problem->n_devices;
  Route *route = &guess->routes[chain];

  route->receiver = route->sender = (guint16)problem->device[chain / N_KINDS];
  if (producer != NO_OP)
    route->sender = (guint16)device_of (problem, producer);
  route->moves = route->sender != route->receiver;
  memset (guess->n_inputs + chain * problem->m, route->moves, problem->m);
  if (!guess->has_ends)
    return;
  route->end[0] = 2 * p * route->sender + model->end (route->receiver, TRUE);
  route->end[1] = 2 * p * route->receiver + model->end (route->sender, FALSE);
}

/* Guesses know neither shared links nor eager messages, nor devices that run ops out of their order. Where transfers
 * hold up nothing, a guess is the objective. */
static gboolean
can_guess (const PsProblem *problem, const PsSearchChannels *channels)
{
  const PsEventsSetting *events = channels != NULL ? &channels->events : NULL;

  if (events == NULL || events->links != NULL || events->eager_bytes > 0 || events->ready_order > 0
      || events->overlap_waiting || problem->objective != PS_OBJECTIVE_MAKESPAN)
    return FALSE;
  if (events->comm == PS_CHANNEL_LATENCY && !events->blocking && events->overlap_slowdown <= 1)
    return FALSE;
  return channels->order == PS_COMM_PLANNED || (channels->order == PS_COMM_ASAP && events->overlap_slowdown <= 1);
}

PsGuess *
ps_guess_new (const PsProblem *problem, const PsSearchChannels *channels)
{
  guint n_channels;
  const PsChannelModel *table = ps_channel_table (&n_channels);
  guint n = problem->n_ops, p = problem->n_devices;
  PsGuess *guess;

  if (!can_guess (problem, channels))
    return NULL;
  guess = g_new0 (PsGuess, 1);
  guess->problem = problem;
  guess->blocking = channels->events.blocking;
  guess->has_ends = table[channels->events.comm].end != NULL && !guess->blocking;
  guess->takes_turns = channels->order == PS_COMM_ASAP && (guess->has_ends || guess->blocking);
  guess->slowdown = MAX (llrint (channels->events.overlap_slowdown * BESIDE), BESIDE);
  guess->n_inputs = g_new (guint8, n);
  guess->routes = g_new0 (Route, problem->n_stages * N_KINDS);
  for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++)
    set_route (guess, &table[channels->events.comm], chain);
  guess->free_ns = g_new (gint64, guess->has_ends ? 2 * p * p : 0);
  guess->devices = g_new (Device, p);
  guess->end_ns = g_new (gint64, p);
  guess->missing = g_new (guint8, n);
  guess->awake = g_new (guint16, p);
  guess->when_ns = g_new (gint64, n);
  guess->pending = g_new (Message, n);
  guess->moving = g_new (Message, n);
  guess->arrival_ns = g_new (gint64, n);
  guess->begun = g_new (Message, n);
  return guess;
}

void
ps_guess_free (PsGuess *guess)
{
  if (guess == NULL)
    return;
  g_free (guess->routes);
  g_free (guess->free_ns);
  g_free (guess->devices);
  g_free (guess->end_ns);
  g_free (guess->n_inputs);
  g_free (guess->missing);
  g_free (guess->awake);
  g_free (guess->when_ns);
  g_free (guess->pending);
  g_free (guess->moving);
  g_free (guess->arrival_ns);
  g_free (guess->begun);
  g_free (guess);
}

/* The device's next op; NO_OP: none is left. */
static inline guint
next_op (const PsGuess *guess, guint device)
{
  guint at = guess->devices[device].next;

  return at < guess->order->stop[device] ? guess->order->sequence[at] : NO_OP;
}

static void
begin (PsGuess *guess)
{
  const PsProblem *problem = guess->problem;
  const PsOrder *order = guess->order;

  memcpy (guess->missing, guess->n_inputs, problem->n_ops * sizeof *guess->missing);
  for (guint d = 0; d < problem->n_devices; d++)
    {
      guess->devices[d] = (Device){ .next = problem->first[d] };
      guess->end_ns[d] = NEVER;
      for (guint i = problem->first[d]; problem->joins && i < order->stop[d]; i++)
        {
          guint partner = order->partner[order->sequence[i]];

          if (partner != problem->n_ops && partner != order->sequence[i])
            guess->missing[order->sequence[i]] += guess->n_inputs[partner];
        }
    }
  for (guint i = 0; guess->has_ends && i < 2 * N_KINDS * problem->n_stages; i++)
    guess->free_ns[guess->routes[i / 2].end[i % 2]] = 0;
  guess->n_awake = guess->n_pending = guess->n_moving = guess->n_begun = 0;
  guess->last_ns = 0;
}

/* Messages as they come */

/* The device has one transfer more or less, which changes how fast it works from now on. */
static void
count_moving (PsGuess *guess, guint index, gint change, gint64 now_ns)
{
  Device *device = &guess->devices[index];
  gboolean was = device->n_moving > 0;

  device->n_moving += (guint)change;
  if (was == (device->n_moving > 0) || guess->slowdown == BESIDE || guess->end_ns[index] == NEVER)
    return;
  gint64 rate = was ? guess->slowdown : BESIDE;
  device->left -= (now_ns - device->since_ns) * (was ? BESIDE : guess->slowdown);
  device->since_ns = now_ns;
  guess->end_ns[index] = now_ns + (MAX (device->left, 0) + rate - 1) / rate;
}

static inline void
wake (PsGuess *guess, guint index)
{
  if (guess->devices[index].queued)
    return;
  guess->devices[index].queued = TRUE;
  guess->awake[guess->n_awake++] = (guint16)index;
}

/* Starts the op of an idle device if its turn has come. FALSE: the longest path through it is above enough. */
static gboolean
start_op (PsGuess *guess, guint index, gint64 now_ns)
{
  Device *device = &guess->devices[index];
  guint op = next_op (guess, index);

  device->queued = FALSE;
  if (op == NO_OP || guess->end_ns[index] != NEVER || (guess->blocking && device->n_moving > 0)
      || guess->missing[op] > 0)
    return TRUE;
  const PsNode *node = &guess->order->nodes[op];
  if (now_ns + node->time[PS_TAIL] > guess->enough && !guess->blocking)
    return FALSE;
  device->since_ns = now_ns;
  device->left = node->duration * guess->slowdown;
  guess->end_ns[index]
      = now_ns
        + (device->n_moving > 0 && guess->slowdown != BESIDE ? (device->left + BESIDE - 1) / BESIDE : node->duration);
  return TRUE;
}

static inline void
append_pending (PsGuess *guess, Message message)
{
  guint place = guess->n_pending++;

  for (; place > 0 && guess->pending[place - 1].urgency < message.urgency; place--)
    guess->pending[place] = guess->pending[place - 1];
  guess->pending[place] = message;
}

/* The k-th message that a node makes, of at most two. */
static inline gboolean
make_message (const PsGuess *guess, guint op, guint k, Message *message)
{
  const PsNode *nodes = guess->order->nodes;
  guint consumer = nodes[op].across[PS_TAIL][k], chain = nodes[op].lag[PS_TAIL][k];

  if (consumer == guess->problem->n_ops || !guess->routes[chain].moves)
    return FALSE;
  *message = (Message){ nodes[consumer].time[PS_TAIL], op, consumer, chain };
  return TRUE;
}

static void
end_op (PsGuess *guess, guint index, gint64 now_ns)
{
  Device *device = &guess->devices[index];
  guint op = guess->order->sequence[device->next++];
  Message message;

  guess->end_ns[index] = NEVER;
  guess->when_ns[op] = guess->last_ns = now_ns;
  wake (guess, index);
  for (guint k = 0; k < 2; k++)
    if (make_message (guess, op, k, &message))
      append_pending (guess, message);
}

static void
end_transfer (PsGuess *guess, guint i, gint64 now_ns)
{
  Message message = guess->moving[i];
  const Route *route = &guess->routes[message.chain];

  guess->moving[i] = guess->moving[--guess->n_moving];
  guess->arrival_ns[i] = guess->arrival_ns[guess->n_moving];
  guess->missing[message.consumer]--;
  for (guint side = 0; side < 2 && guess->has_ends; side++)
    guess->free_ns[route->end[side]] = now_ns;
  count_moving (guess, route->sender, -1, now_ns);
  count_moving (guess, route->receiver, -1, now_ns);
  if (guess->blocking)
    wake (guess, route->sender);
  wake (guess, route->receiver);
}

static inline gboolean
is_idle (const PsGuess *guess, guint device)
{
  return guess->end_ns[device] == NEVER && guess->devices[device].n_moving == 0;
}

static inline gboolean
may_begin (const PsGuess *guess, const Route *route)
{
  if (guess->blocking)
    return is_idle (guess, route->sender) && is_idle (guess, route->receiver);
  return !guess->has_ends || (guess->free_ns[route->end[0]] != NEVER && guess->free_ns[route->end[1]] != NEVER);
}

static void
begin_transfer (PsGuess *guess, Message message, gint64 now_ns)
{
  const Route *route = &guess->routes[message.chain];

  guess->moving[guess->n_moving] = message;
  guess->arrival_ns[guess->n_moving++] = now_ns + guess->problem->lag[message.chain];
  for (guint side = 0; side < 2 && guess->has_ends; side++)
    guess->free_ns[route->end[side]] = NEVER;
  count_moving (guess, route->sender, 1, now_ns);
  count_moving (guess, route->receiver, 1, now_ns);
  if (!guess->blocking)
    return;
  guess->begun[guess->n_begun] = message;
  guess->begun[guess->n_begun++].urgency = now_ns;
}

static void
begin_transfers (PsGuess *guess, gint64 now_ns)
{
  guint n_kept = 0;

  for (guint i = 0; i < guess->n_pending; i++)
    if (may_begin (guess, &guess->routes[guess->pending[i].chain]))
      begin_transfer (guess, guess->pending[i], now_ns);
    else
      guess->pending[n_kept++] = guess->pending[i];
  guess->n_pending = n_kept;
}

static gint64
next_event (const PsGuess *guess)
{
  gint64 next_ns = NEVER;

  for (guint d = 0; d < guess->problem->n_devices; d++)
    next_ns = MIN (next_ns, guess->end_ns[d]);
  for (guint i = 0; i < guess->n_moving; i++)
    next_ns = MIN (next_ns, guess->arrival_ns[i]);
  return next_ns;
}

/* FALSE: the run takes longer than enough. */
static gboolean
run_free (PsGuess *guess)
{
  guint p = guess->problem->n_devices;

  for (guint d = 0; d < p; d++)
    wake (guess, d);
  for (gint64 now_ns = 0; now_ns != NEVER; now_ns = next_event (guess))
    {
      for (guint d = 0; d < p; d++)
        if (guess->end_ns[d] == now_ns)
          end_op (guess, d, now_ns);
      for (guint i = guess->n_moving; i-- > 0;)
        if (guess->arrival_ns[i] == now_ns)
          end_transfer (guess, i, now_ns);
      if (guess->n_pending > 0)
        begin_transfers (guess, now_ns);
      while (guess->n_awake > 0)
        if (!start_op (guess, guess->awake[--guess->n_awake], now_ns))
          return FALSE;
    }
  return TRUE;
}

/* Messages in an order that is known */

/* Runs the device's next op. FALSE: the longest path through it is above enough. */
static inline gboolean
run_op (PsGuess *guess, guint index)
{
  Device *device = &guess->devices[index];
  const PsNode *node = &guess->order->nodes[guess->order->sequence[device->next++]];

  if (device->clock_ns + node->time[PS_TAIL] > guess->enough)
    return FALSE;
  device->clock_ns += node->duration;
  guess->last_ns = MAX (guess->last_ns, device->clock_ns);
  return TRUE;
}

/* The device does all that comes before its part in a transfer: up to the producer of a message that it sends; or all
 * that had ended when the message that it receives began to move. */
static gboolean
come_to (PsGuess *guess, guint index, const Message *message, gboolean sends)
{
  const PsNode *nodes = guess->order->nodes;
  const Device *device = &guess->devices[index];
  guint until = sends ? nodes[message->producer].position + 1 : nodes[message->consumer].position;

  while (device->next < until
         && (sends
             || (guess->when_ns[next_op (guess, index)] <= message->urgency
                 && guess->missing[next_op (guess, index)] == 0)))
    if (!run_op (guess, index))
      return FALSE;
  return TRUE;
}

/* Blocking devices come to sends and receives in the order in which the messages have begun. A send follows its
 * producer (ps_program_arrange). */
static gboolean
run_begun (PsGuess *guess)
{
  guint n = guess->n_begun;

  begin (guess);
  for (guint i = 0; i < n; i++)
    {
      const Message *message = &guess->begun[i];
      const Route *route = &guess->routes[message->chain];
      Device *sender = &guess->devices[route->sender], *receiver = &guess->devices[route->receiver];

      if (!come_to (guess, route->sender, message, TRUE) || !come_to (guess, route->receiver, message, FALSE))
        return FALSE;
      sender->clock_ns = receiver->clock_ns
          = MAX (sender->clock_ns, receiver->clock_ns) + guess->problem->lag[message->chain];
      guess->missing[message->consumer]--;
    }
  for (guint d = 0; d < guess->problem->n_devices; d++)
    while (next_op (guess, d) != NO_OP)
      if (!run_op (guess, d))
        return FALSE;
  return TRUE;
}

/* A message goes when both its channel ends, or both devices if they block, have come to it in the order of messages.
 */
static void
move_in_turn (PsGuess *guess, const Message *message)
{
  const Route *route = &guess->routes[message->chain];
  Device *devices = guess->devices;
  gint64 made_ns = devices[route->sender].clock_ns;
  gint64 *sender = guess->blocking ? &devices[route->sender].clock_ns : &guess->free_ns[route->end[0]];
  gint64 *receiver = guess->blocking ? &devices[route->receiver].clock_ns : &guess->free_ns[route->end[1]];

  *sender = *receiver = MAX (made_ns, MAX (*sender, *receiver)) + guess->problem->lag[message->chain];
  guess->missing[message->consumer]--;
  guess->when_ns[message->consumer] = MAX (guess->when_ns[message->consumer], *receiver);
}

/* Devices take turns, as PS_COMM_ASAP lets them: one op each. */
static gboolean
run_in_turns (PsGuess *guess)
{
  guint n_left = guess->problem->n_devices;

  memset (guess->when_ns, 0, guess->problem->n_ops * sizeof *guess->when_ns);
  while (n_left > 0)
    {
      n_left = 0;
      for (guint d = 0; d < guess->problem->n_devices; d++)
        {
          guint op = next_op (guess, d);
          Message message;

          n_left += op != NO_OP;
          if (op == NO_OP || guess->missing[op] > 0)
            continue;
          if (!guess->blocking)
            guess->devices[d].clock_ns = MAX (guess->devices[d].clock_ns, guess->when_ns[op]);
          if (!run_op (guess, d))
            return FALSE;
          for (guint k = 0; k < 2; k++)
            if (make_message (guess, op, k, &message))
              move_in_turn (guess, &message);
        }
    }
  return TRUE;
}

gint64
ps_guess_price (PsGuess *guess, const PsOrder *order, gint64 enough)
{
  gboolean within;

  guess->order = order;
  guess->enough = enough;
  begin (guess);
  if (guess->takes_turns)
    within = run_in_turns (guess);
  else
    within = run_free (guess) && (!guess->blocking || run_begun (guess));
  return within ? guess->last_ns : G_MAXINT64;
}

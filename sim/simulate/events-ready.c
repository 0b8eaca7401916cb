/* events-ready.c - the order as a hint: devices start ready ops, and messages go by whichever channel is free. */
#include "events-timed.h"

#include <string.h>

#define N_DEPENDS 4

typedef struct
{
  guint8 missing; /* its input, and items of the same device that must start before it */
  guint8 passed;  /* it has started; or it is the second op of a pair, which the device starts after the first */
  guint8 last;    /* O: nothing overtakes it, and it overtakes nothing */
  guint8 pair;    /* the first op of a pair */
} Candidate;

struct _PsReady
{
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
typedef struct
{
  guint32 forward;
  guint32 recompute;
  guint32 backward; /* B or BW */
} Makers;

static const PsOp *
item_op (const PsEvents *events, guint32 i)
{
  return &events->program->schedule->ops[events->program->op_of[events->items[i].step]];
}

static void
note_maker (Makers *makers, PsOp op, guint32 item)
{
  if (op.kind == PS_OP_F)
    makers->forward = item;
  else if (op.kind == PS_OP_R)
    makers->recompute = item;
  else if (ps_op_is_backward (op))
    makers->backward = item;
}

/* Adds a condition on an item. An item of another device hands over by a transfer, and a later item is no condition. */
static void
depend_on (const PsEvents *events, guint32 *depends, guint *n, guint32 i, guint32 other)
{
  const PsStep *steps = events->program->steps;
  const PsItem *items = events->items;

  if (other != 0 && other - 1 < i && steps[items[other - 1].step].device == steps[items[i].step].device)
    depends[(*n)++] = other;
}

static void
find_depends (const PsEvents *events, const Makers *makers, guint32 i, guint32 *depends)
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
  if (ps_op_input (op, schedule->placement->n_stages, &producer))
    {
      const Makers *other = &makers[ps_schedule_cell (schedule, producer)];

      depend_on (events, depends, &n, i, producer.kind == PS_OP_F ? other->forward : other->backward);
    }
  if (op.kind == PS_OP_F && op.slice > 0)
    depend_on (events, depends, &n, i, own[-1].forward);
  if (ps_op_is_backward (op) && op.slice + 1U < schedule->n_slices)
    depend_on (events, depends, &n, i, own[1].backward);
}

/* The start of the first op of a pair is no condition of the second. */
static gboolean
is_condition (const PsEvents *events, guint32 i, guint32 depends)
{
  return depends != 0 && !(events->items[i].pair == PS_PAIR_SECOND && depends == i);
}

static void
build_dependents (const PsEvents *events, PsReady *ready, const guint32 *depends)
{
  guint32 *first = ready->first_dependent = g_new0 (guint32, events->n_items + 1);
  guint32 n = events->n_items * N_DEPENDS;

  ready->dependents = g_new (guint32, (gsize)n + 1);
  for (guint32 i = 0; i < n; i++)
    first[depends[i] - (depends[i] != 0)] += is_condition (events, i / N_DEPENDS, depends[i]);
  for (guint32 i = 1; i <= events->n_items; i++)
    first[i] += first[i - 1];
  for (guint32 i = n; i-- > 0;)
    if (is_condition (events, i / N_DEPENDS, depends[i]))
      {
        ready->dependents[--first[depends[i] - 1]] = i / N_DEPENDS;
        ready->initial[i / N_DEPENDS].missing++;
      }
}

static void
build_candidates (const PsEvents *events, PsReady *ready)
{
  const PsSchedule *schedule = events->program->schedule;
  g_autofree Makers *makers = g_new0 (Makers, ps_schedule_n_cells (schedule));
  g_autofree guint32 *depends = g_new0 (guint32, (gsize)events->n_items * N_DEPENDS + 1);

  for (guint32 i = 0; i < events->n_items; i++)
    note_maker (&makers[ps_schedule_cell (schedule, *item_op (events, i))], *item_op (events, i), i + 1);
  ready->initial = g_new0 (Candidate, events->n_items + 1);
  ready->candidates = g_new (Candidate, events->n_items + 1);
  for (guint32 i = 0; i < events->n_items; i++)
    {
      find_depends (events, makers, i, &depends[(gsize)i * N_DEPENDS]);
      ready->initial[i] = (Candidate){ .missing = events->items[i].wait != 0,
                                       .passed = events->items[i].pair == PS_PAIR_SECOND,
                                       .last = item_op (events, i)->kind == PS_OP_O,
                                       .pair = events->items[i].pair == PS_PAIR_FIRST };
    }
  build_dependents (events, ready, depends);
}

PsReady *
ps_ready_new (const PsEvents *events)
{
  PsReady *ready = g_new0 (PsReady, 1);

  build_candidates (events, ready);
  ready->second = g_new0 (guint32, events->n_devices);
  ready->sequence = g_new (guint32, events->n_items + 1);
  ready->n_started = g_new0 (guint, events->n_devices);
  ready->kept_bytes = g_new0 (gint64, events->n_devices);
  ready->pending = g_new (guint32, events->n_transfers + 1);
  ready->free_ns = g_new0 (gint64, events->channels->n_ends + 1);
  return ready;
}

void
ps_ready_free (PsReady *ready)
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

void
ps_ready_begin (PsEvents *events)
{
  PsReady *ready = events->ready;

  memcpy (ready->candidates, ready->initial, events->n_items * sizeof *ready->initial);
  memset (ready->second, 0, events->n_devices * sizeof *ready->second);
  memset (ready->n_started, 0, events->n_devices * sizeof *ready->n_started);
  memset (ready->kept_bytes, 0, events->n_devices * sizeof *ready->kept_bytes);
  memset (ready->free_ns, 0, events->channels->n_ends * sizeof *ready->free_ns);
  ready->n_pending = 0;
}

/* A device is idle when it picks, so all ops that started on it have ended. */
static gboolean
is_ready (const PsEvents *events, guint32 i)
{
  guint32 wait = events->items[i].wait;

  if (events->ready->candidates[i].missing > 0)
    return FALSE;
  if (wait == 0 || events->transfers[wait - 1].end_ns <= events->timed->now_ns)
    return TRUE;
  events->ready->wake_ns = MIN (events->ready->wake_ns, events->transfers[wait - 1].end_ns);
  return FALSE;
}

/* The bytes that an op, or both ops of a pair, take at the start and keep after the end. */
typedef struct
{
  gint64 take_bytes;
  gint64 keep_bytes;
} Need;

static Need
cell_need (const PsEvents *events, guint32 i)
{
  guint n = events->items[i].pair == PS_PAIR_FIRST ? 2 : 1;
  Need need = { 0 };

  for (guint k = 0; k < n; k++)
    {
      const PsOpCost *cost = &events->costs->op[events->items[i + k].cost];

      need.take_bytes += cost->take_bytes;
      need.keep_bytes += cost->take_bytes - cost->give_bytes;
    }
  return need;
}

/* The device's remaining list as the search for a ready op goes along it. */
typedef struct
{
  gint64 limit_bytes;
  gint64 held_bytes;  /* now */
  gint64 level_bytes; /* when all that was passed over has run */
  gint64 room_bytes;  /* the level may rise by so much before an op that was passed over would no longer fit */
} Memory;

static void
pass_over (Memory *memory, Need need)
{
  memory->room_bytes = MIN (memory->room_bytes, memory->limit_bytes - memory->level_bytes - need.take_bytes);
  memory->level_bytes += need.keep_bytes;
}

/* Whether an op fits now, and all that it overtakes still fits after it: so the list in its order always fits. */
static gboolean
fits (const Memory *memory, Need need)
{
  return memory->held_bytes + need.take_bytes <= memory->limit_bytes
         && (need.keep_bytes <= 0 || need.keep_bytes <= memory->room_bytes);
}

static guint32
start_cell (PsEvents *events, guint device, guint32 i)
{
  PsReady *ready = events->ready;

  ready->second[device] = ready->candidates[i].pair ? i + 2 : 0;
  ready->candidates[i].passed = TRUE;
  for (guint32 k = ready->first_dependent[i]; k < ready->first_dependent[i + 1]; k++)
    ready->candidates[ready->dependents[k]].missing--;
  ready->sequence[events->first_item[device] + ready->n_started[device]++] = i;
  return i;
}

/* A device that keeps its order may begin a pair while the input of the second op is still on its way. */
static gboolean
cell_is_ready (const PsEvents *events, guint32 i)
{
  if (!is_ready (events, i))
    return FALSE;
  return !events->ready->candidates[i].pair || events->setting.ready_order == 1 || is_ready (events, i + 1);
}

gint64
ps_ready_wake_ns (const PsEvents *events)
{
  return events->ready->wake_ns;
}

const guint32 *
ps_ready_sequence (const PsReady *ready)
{
  return ready->sequence;
}

guint32
ps_ready_pick (PsEvents *events, guint device)
{
  PsEventDevice *state = &events->devices[device];
  PsReady *ready = events->ready;
  const Candidate *candidates = ready->candidates;
  const gint64 *limit = events->setting.memory_limit;
  guint32 first, end = state->end, n_left = events->setting.ready_order;
  Memory memory = { .room_bytes = G_MAXINT64 / 4 };

  ready->wake_ns = G_MAXINT64;
  if (ready->second[device] != 0)
    {
      guint32 second = ready->second[device] - 1;

      return is_ready (events, second) ? start_cell (events, device, second) : PS_NO_ITEM;
    }
  for (first = state->next; first < end && candidates[first].passed; first++)
    ;
  state->next = first;
  if (limit != NULL)
    {
      memory.limit_bytes = limit[device];
      memory.held_bytes = events->simulation->memory[device].held_bytes + ready->kept_bytes[device];
      memory.level_bytes = memory.held_bytes;
    }
  for (guint32 i = first; i < end && n_left > 0; i++)
    {
      if (candidates[i].passed)
        continue;
      if (i > first && candidates[i].last)
        break;
      if (cell_is_ready (events, i) && (i == first || limit == NULL || fits (&memory, cell_need (events, i))))
        {
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
  return PS_NO_ITEM;
}

static gboolean
goes_before (const PsEvents *events, guint32 a, guint32 b)
{
  const PsTransfer *x = &events->transfers[a], *y = &events->transfers[b];

  if (events->urgency_ns != NULL && events->urgency_ns[x->consumer] != events->urgency_ns[y->consumer])
    return events->urgency_ns[x->consumer] > events->urgency_ns[y->consumer];
  if (x->start_ns != y->start_ns)
    return x->start_ns < y->start_ns;
  return events->program->places[x->message].receive < events->program->places[y->message].receive;
}

static void
append_pending (PsEvents *events, guint32 transfer)
{
  PsReady *ready = events->ready;
  guint place = ready->n_pending++;

  for (; place > 0 && goes_before (events, transfer, ready->pending[place - 1]); place--)
    ready->pending[place] = ready->pending[place - 1];
  ready->pending[place] = transfer;
}

static gboolean
devices_are_idle (const PsEvents *events, guint32 transfer)
{
  const PsTransfer *moved = &events->transfers[transfer];

  return moved->part == PS_TRANSFER_EAGER_RECEIVE
         || (ps_timed_is_idle (events, moved->sender)
             && (moved->part == PS_TRANSFER_EAGER_SEND || ps_timed_is_idle (events, moved->receiver)));
}

/* When the channel ends of a transfer are free; G_MAXINT64: not known. */
static gint64
free_at (const PsEvents *events, guint32 transfer)
{
  const gint64 *free_ns = events->ready->free_ns;
  guint held = events->transfers[transfer].held;

  if (held == 0)
    return 0;
  const PsTurn *turns = events->channels->turns[transfer];
  gint64 first_ns = free_ns[turns[PS_SIDE_SENDER].end];
  return held > 1 ? MAX (first_ns, free_ns[turns[PS_SIDE_RECEIVER].end]) : first_ns;
}

void
ps_ready_hold (PsEvents *events, guint32 transfer, gint64 until_ns)
{
  for (guint side = 0; side < events->transfers[transfer].held; side++)
    events->ready->free_ns[events->channels->turns[transfer][side].end] = until_ns;
}

void
ps_ready_arrive (PsEvents *events, guint32 transfer)
{
  const PsTransfer *input = &events->transfers[transfer];

  if (input->part != PS_TRANSFER_EAGER_SEND)
    events->ready->candidates[events->item_of_step[input->consumer]].missing--;
  ps_ready_hold (events, transfer, input->end_ns);
}

void
ps_ready_start_transfers (PsEvents *events, PsTransferBegin begin)
{
  PsReady *ready = events->ready;
  PsTimed *timed = events->timed;
  guint kept = 0;

  if (events->n_startable == 0 && timed->retry_ns > timed->now_ns && !events->exclusive)
    return;
  while (events->n_startable > 0)
    append_pending (events, events->startable[--events->n_startable]);
  timed->retry_ns = G_MAXINT64;
  for (guint i = 0; i < ready->n_pending; i++)
    {
      guint32 transfer = ready->pending[i];
      gint64 free_ns = free_at (events, transfer);

      if (free_ns <= timed->now_ns && (!events->exclusive || devices_are_idle (events, transfer)))
        {
          begin (events, transfer);
          continue;
        }
      ready->pending[kept++] = transfer;
      if (free_ns > timed->now_ns)
        timed->retry_ns = MIN (timed->retry_ns, free_ns);
    }
  ready->n_pending = kept;
}

/* The schedule with each device's ops in the order in which they started. */
static PsSchedule *
realised_schedule (const PsEvents *events)
{
  const PsProgram *program = events->program;
  PsSchedule *schedule = ps_schedule_copy (program->schedule);

  g_clear_pointer (&schedule->posts, g_array_unref);
  for (guint i = 0; i < events->n_items; i++)
    schedule->ops[i] = *item_op (events, events->ready->sequence[i]);
  return schedule;
}

PsProgram *
ps_events_realise (const PsEvents *events, PsSimulation **simulation)
{
  PsProgram *program;
  PsSimulation *old = *simulation, *new;

  g_return_val_if_fail (events->ready != NULL, NULL);
  program = ps_program_lower (realised_schedule (events), PS_COMM_ASAP, NULL);
  g_assert (program != NULL); /* it has run */
  new = ps_simulation_new (program);
  new->start_ns = g_new (gint64, new->n_steps);
  new->transfer_start_ns = g_new (gint64, new->n_steps);
  new->transfer_end_ns = g_new (gint64, new->n_steps);
  for (guint i = 0; i < events->n_items; i++)
    {
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

/* steady-recurrence.c - an event graph compiled to steps. Each event is a maximum over two arcs or a chain of such
 * maxima; its slot is free again once no event reads it. */
#include "steady-recurrence.h"

#include "rounds.h"

typedef struct
{
  PsSteadyRecurrence *recurrence;
  const PsProgram *program;
  const PsCosts *costs;
  PsReduce reduce;
  const PsEventGraph *graph;
  const PsEventOrder *order;
  PsRoundEvents events;
  GArray *steps;      /* PsScenarioStep */
  GArray *times;      /* PsSteadyTime */
  guint32 *slot;      /* [n_events] in this round */
  guint32 *carry;     /* [n_events] from the round before; 0: not needed that long */
  guint32 *readers;   /* [n_events] arcs of this round that still start at it */
  GArray *free_slots; /* guint32, used as a stack */
  guint n_slots;
} Builder;

static void
builder_init (Builder *builder)
{
  guint n = builder->order->n_events;

  builder->steps = g_array_new (FALSE, TRUE, sizeof (PsScenarioStep));
  builder->times = g_array_new (FALSE, TRUE, sizeof (PsSteadyTime));
  builder->slot = g_new0 (guint32, n);
  builder->carry = g_new0 (guint32, n);
  builder->readers = g_new0 (guint32, n);
  builder->free_slots = g_array_new (FALSE, FALSE, sizeof (guint32));
  builder->n_slots = 1;
}

/* Also safe on a zeroed builder. */
static void
builder_clear (Builder *builder)
{
  g_clear_pointer (&builder->steps, g_array_unref);
  g_clear_pointer (&builder->times, g_array_unref);
  g_free (builder->slot);
  g_free (builder->carry);
  g_free (builder->readers);
  g_clear_pointer (&builder->free_slots, g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Builder, builder_clear)

static guint32
take_slot (Builder *builder)
{
  guint n = builder->free_slots->len;

  if (n == 0)
    return builder->n_slots++;
  guint32 slot = g_array_index (builder->free_slots, guint32, n - 1);
  g_array_set_size (builder->free_slots, n - 1);
  return slot;
}

/* Slot at which an arc begins. Carried slots count from 1 until the number of other slots is known; see
 * place_carries. */
#define CARRY (1U << 31)

static guint32
read_arc (Builder *builder, const PsEventArc *arc)
{
  if (arc->tokens)
    return builder->carry[arc->from] | CARRY;
  if (--builder->readers[arc->from] == 0)
    g_array_append_val (builder->free_slots, builder->slot[arc->from]);
  return builder->slot[arc->from];
}

static guint32
update_event (const Builder *builder, guint device)
{
  return builder->events.first_update + 2 * device + 1;
}

/* The event at which all devices have handed over their state. */
static guint32
reduced_event (const Builder *builder)
{
  return builder->events.first_update + 2 * (builder->recurrence->n_updates - 1);
}

static guint32
carried_slot (const Builder *builder, guint event)
{
  return builder->recurrence->first_carry + builder->carry[event] - 1;
}

/* Carries an event over to the next round, so that the end of the round reads it too. */
static void
carry_over (Builder *builder, guint event, guint *n_carries)
{
  if (builder->carry[event])
    return;
  builder->carry[event] = ++*n_carries;
  builder->readers[event]++;
}

/* Counts readers. The events that say when an iteration is over are carried over even if no op waits for them. */
static void
count_readers (Builder *builder)
{
  const PsEventOrder *order = builder->order;
  guint n_carries = 0;

  for (guint a = 0; a < order->first[order->n_events]; a++)
    if (order->arcs[a].tokens)
      carry_over (builder, order->arcs[a].from, &n_carries);
    else
      builder->readers[order->arcs[a].from]++;
  for (guint i = 0; i < builder->recurrence->n_updates; i++)
    carry_over (builder, update_event (builder, i), &n_carries);
  carry_over (builder, reduced_event (builder), &n_carries);
}

/* The optimizer steps of asynchronous schedules have exposed all-reduces before them (ps_rounds_update_after). */
static void
set_update (const Builder *builder, guint event, PsSteadyTime *time)
{
  const PsRoundEvents *events = &builder->events;
  const PsSchedule *schedule = builder->program->schedule;

  time->kind = PS_STEADY_UPDATE;
  time->optimizer_ns = time->fixed_ns;
  time->step = (event - events->first_update) / 2;
  if (event < events->first_single)
    return;
  guint step = event - events->first_single;
  time->step = builder->program->steps[step].device;
  if (builder->reduce == PS_REDUCE_EXPOSED)
    time->optimizer_ns -= ps_costs_reduce_ns (builder->costs, schedule->ops[builder->program->op_of[step]].stage,
                                              schedule->placement->n_copies);
}

static PsSteadyTime
event_time (const Builder *builder, guint event)
{
  const PsRoundEvents *events = &builder->events;

  if (event < events->first_message)
    return (PsSteadyTime){ .kind = PS_STEADY_OP, .step = event };
  if (event < events->first_reduction && (event - events->first_message) % 2 == 0)
    return (PsSteadyTime){ .kind = PS_STEADY_MESSAGE, .step = (event - events->first_message) / 2 };
  PsSteadyTime time = { .kind = PS_STEADY_FIXED, .fixed_ns = ps_event_graph_duration (builder->graph, event) };
  if (event >= events->first_update && time.fixed_ns > 0)
    set_update (builder, event, &time);
  return time;
}

static void
append_step (Builder *builder, guint32 previous, guint32 input, guint32 output, PsSteadyTime time)
{
  const PsScenarioStep step = { .previous = previous, .input = input, .output = output };

  g_array_append_val (builder->steps, step);
  g_array_append_val (builder->times, time);
}

/* Adds the steps of an event; none if nothing reads it (a message that no step receives). A step is the maximum of two
 * slots, and the second may be delayed. Each further arc makes another step in the same slot. Only arcs between ops are
 * delayed, by the message that the later op waits for. */
static void
add_event (Builder *builder, guint event)
{
  const PsEventOrder *order = builder->order;
  guint32 previous = 0, held;
  PsSteadyTime time = event_time (builder, event);

  if (builder->readers[event] == 0)
    return;
  held = take_slot (builder);
  builder->slot[event] = held;
  for (guint a = order->first[event], left = order->first[event + 1] - a; left > 0; a++, left--)
    {
      const PsEventArc *arc = &order->arcs[a];
      gboolean delays = arc->delay_ns > 0;
      guint32 from = read_arc (builder, arc);

      if (previous == 0 && !delays && left > 1)
        previous = from;
      else
        {
          PsSteadyTime taken = left == 1 ? time : (PsSteadyTime){ .step = event };

          taken.delays = delays;
          append_step (builder, previous, from, held, taken);
          previous = held;
        }
    }
  if (order->first[event] == order->first[event + 1])
    append_step (builder, 0, 0, held, time);
}

/* Places carried slots at the end of a round: only then is the number of other slots known. */
static void
place_carries (Builder *builder)
{
  PsSteadyRecurrence *recurrence = builder->recurrence;
  guint n_carries = 0;

  for (guint i = 0; i < builder->order->n_events; i++)
    if (builder->carry[i])
      {
        append_step (builder, builder->slot[i], 0, builder->carry[i] | CARRY, (PsSteadyTime){ 0 });
        n_carries++;
      }
  recurrence->first_carry = builder->n_slots;
  recurrence->n_slots = builder->n_slots + n_carries;
  for (guint i = 0; i < builder->steps->len; i++)
    {
      PsScenarioStep *step = &g_array_index (builder->steps, PsScenarioStep, i);
      guint32 *slots[] = { &step->previous, &step->input, &step->output };

      for (guint k = 0; k < G_N_ELEMENTS (slots); k++)
        if (*slots[k] & CARRY)
          *slots[k] = recurrence->first_carry + (*slots[k] & ~CARRY) - 1;
    }
}

static void
finish (Builder *builder)
{
  PsSteadyRecurrence *recurrence = builder->recurrence;

  recurrence->update = g_new (guint32, recurrence->n_updates);
  for (guint i = 0; i < recurrence->n_updates; i++)
    recurrence->update[i] = carried_slot (builder, update_event (builder, i));
  recurrence->reduced = carried_slot (builder, reduced_event (builder));
  recurrence->n_steps = builder->steps->len;
  for (guint i = 0; i < recurrence->n_steps; i++)
    recurrence->sum_ns += g_array_index (builder->times, PsSteadyTime, i).fixed_ns;
  recurrence->steps = (PsScenarioStep *)(gpointer)g_array_free (g_steal_pointer (&builder->steps), FALSE);
  recurrence->times = (PsSteadyTime *)(gpointer)g_array_free (g_steal_pointer (&builder->times), FALSE);
}

PsSteadyRecurrence *
ps_steady_recurrence_new (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events,
                          PsReduce reduce, GError **error)
{
  g_autoptr (PsEventGraph) graph = NULL;
  g_autoptr (PsSteadyRecurrence) recurrence = NULL;
  g_auto (PsEventOrder) order = { 0 };
  g_auto (Builder) builder = { .program = program, .costs = costs, .reduce = reduce, .order = &order };

  if (!ps_iteration_check_fixed (program, events, error))
    return NULL;
  graph = ps_rounds_new (program, costs, NULL, events, reduce);
  if (!ps_event_order_init (&order, graph))
    return ps_refuse_null (error, PS_ERROR_SCHEDULE, "%s: its instructions wait for each other in a circle",
                           program->schedule->name);
  recurrence = g_new0 (PsSteadyRecurrence, 1);
  recurrence->n_updates = program->schedule->placement->n_devices;
  builder.recurrence = recurrence;
  builder.graph = graph;
  ps_round_events_init (&builder.events, program, events);
  builder_init (&builder);
  count_readers (&builder);
  for (guint k = 0; k < order.n_events; k++)
    add_event (&builder, order.order[k]);
  place_carries (&builder);
  finish (&builder);
  return g_steal_pointer (&recurrence);
}

void
ps_steady_recurrence_free (PsSteadyRecurrence *recurrence)
{
  if (recurrence == NULL)
    return;
  g_free (recurrence->steps);
  g_free (recurrence->times);
  g_free (recurrence->update);
  g_free (recurrence);
}

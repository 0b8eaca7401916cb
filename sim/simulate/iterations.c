/* iterations.c - the time of an iteration in steady state. Where all devices meet at the optimizer it follows from the
 * times of one iteration; else it is the period of rounds that follow each other for ever. */
#include "rounds.h"
#include "program/channels.h"
#include "program/program-private.h"
#include "simulate-private.h"
#include "base/names.h"

#include <math.h>
#include <string.h>

PS_DEFINE_NAMES (PsSync, ps_sync, "global", "bypass")
PS_DEFINE_NAMES (PsReduce, ps_reduce, "overlapped", "exposed")

/* The all-reduces of gradients: the steps that they wait for, and when a device is done with them. */

#define NO_STEP G_MAXUINT32

typedef struct {
  guint32 *last_step; /* [n_copies * n_stages] step at whose end the gradients of that copy are complete; NO_STEP: no
                         microbatch uses it */
  guint *first;       /* [n_devices + 1] into held */
  guint *held; /* [n_copies * n_stages] copy * n_stages + stage, by device, then in the order of their last ops */
} Reductions;

static void reductions_clear (Reductions *reductions)
{
  g_free (reductions->last_step);
  g_free (reductions->held);
  g_free (reductions->first);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Reductions, reductions_clear)

/* The step at whose end the op's result is there: of a pair, its second. */
static guint32 ending_step (const PsProgram *program, guint32 step)
{
  return step + (program->pair != NULL && program->pair[step] == PS_PAIR_FIRST);
}

static gboolean completes_gradients (PsOp op)
{
  return op.kind == PS_OP_W || op.kind == PS_OP_BW;
}

static guint held_index (const PsSchedule *schedule, PsOp op)
{
  return ps_schedule_weight_copy (schedule, op.microbatch) * schedule->placement->n_stages + op.stage;
}

/* Going through a device's order backwards meets the last W or BW of each of its n_held stages first: held is filled
 * from its end. */
static void order_device (Reductions *reductions, const PsProgram *program, guint device, guint n_held)
{
  const PsSchedule *schedule = program->schedule;
  guint fill = reductions->first[device + 1], all = fill - n_held;

  for (guint i = schedule->first[device + 1]; i-- > schedule->first[device] && fill > all;) {
    guint index = held_index (schedule, schedule->ops[i]);

    if (!completes_gradients (schedule->ops[i]) || reductions->last_step[index] != NO_STEP)
      continue;
    reductions->last_step[index] = ending_step (program, program->step_of[i]);
    reductions->held[--fill] = index;
  }
  reductions->first[device] = fill;
}

static void reductions_init (Reductions *reductions, const PsProgram *program)
{
  const PsPlacement *placement = program->schedule->placement;
  guint n = placement->n_copies * placement->n_stages;
  g_autofree guint *n_held = g_new0 (guint, placement->n_devices);

  reductions->last_step = g_new (guint32, n);
  reductions->held = g_new0 (guint, n);
  reductions->first = g_new0 (guint, (gsize)placement->n_devices + 1);
  reductions->first[placement->n_devices] = n;
  for (guint i = 0; i < n; i++) {
    reductions->last_step[i] = NO_STEP;
    n_held[placement->device[i]]++;
  }
  for (guint device = placement->n_devices; device-- > 0;)
    order_device (reductions, program, device, n_held[device]);
}

typedef struct {
  const Reductions *reductions;
  const PsSimulation *simulation;
} Ends;

static int compare_ends (gconstpointer a, gconstpointer b, gpointer data)
{
  const Ends *ends = data;
  guint i = *(const guint *)a, k = *(const guint *)b;
  guint32 x = ends->reductions->last_step[i], y = ends->reductions->last_step[k];
  int order = ps_compare_int64 (&ends->simulation->end_ns[x + 1], &ends->simulation->end_ns[y + 1]);

  return order != 0 ? order : x != y ? PS_COMPARE (x, y) : PS_COMPARE (i, k);
}

/* Takes the steps and the order from a simulation whose devices may have run their ops in another order than the
 * program's (ready order). */
static void reductions_follow (Reductions *reductions, const PsProgram *program, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  const gint64 *end_ns = simulation->end_ns;
  Ends ends = { reductions, simulation };

  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++) {
    guint32 *last = &reductions->last_step[held_index (schedule, schedule->ops[i])];
    guint32 step = ending_step (program, program->step_of[i]);

    if (completes_gradients (schedule->ops[i]) && end_ns[step + 1] > end_ns[*last + 1])
      *last = step;
  }
  for (guint device = 0; device < schedule->placement->n_devices; device++)
    qsort_r (reductions->held + reductions->first[device], reductions->first[device + 1] - reductions->first[device],
             sizeof *reductions->held, compare_ends, &ends);
}

/* When the gradients of a stage are complete: its last W or BW has ended on every copy that was used. */
static gint64 gradients_ns (const PsProgram *program, const PsSimulation *simulation, const Reductions *reductions,
                            guint stage)
{
  const PsPlacement *placement = program->schedule->placement;
  gint64 ready = 0;

  for (guint copy = 0; copy < placement->n_copies; copy++) {
    guint32 step = reductions->last_step[(gsize)copy * placement->n_stages + stage];

    if (step != NO_STEP)
      ready = MAX (ready, simulation->end_ns[step + 1]);
  }
  return ready;
}

/* When a device is done with its all-reduces. The last op of a device is a W or BW. */
static gint64 reductions_end_ns (const Reductions *reductions, const PsProgram *program, const PsCosts *costs,
                                 const PsSimulation *simulation, guint device, PsReduce reduce)
{
  const PsPlacement *placement = program->schedule->placement;
  gint64 time = reduce == PS_REDUCE_EXPOSED ? simulation->device[device].end_ns : 0;

  for (guint i = reductions->first[device]; i < reductions->first[device + 1]; i++) {
    guint stage = reductions->held[i] % placement->n_stages;

    time = MAX (time, gradients_ns (program, simulation, reductions, stage))
           + ps_costs_reduce_ns (costs, stage, placement->n_copies);
  }
  return time;
}

static PsIteration meet (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                         const PsEventsSetting *setting, PsReduce reduce)
{
  g_auto (Reductions) reductions = { 0 };
  gint64 last = 0, reduced = 0;

  reductions_init (&reductions, program);
  if (setting != NULL && setting->ready_order > 0)
    reductions_follow (&reductions, program, simulation);
  for (guint device = 0; device < simulation->n_devices; device++) {
    last = MAX (last, simulation->device[device].end_ns);
    reduced = MAX (reduced, reductions_end_ns (&reductions, program, costs, simulation, device, reduce));
  }
  return (PsIteration){ .period_ns = simulation->makespan_ns + MAX (reduced - last, 0) + simulation->optimizer_ns,
                        .n_iterations = 1 };
}

/* One iteration as a round of events. Each waits for events of its round or of the round before, and then takes its
 * time: the ops; the sending and the receiving of each message; the all-reduces of a device; the state that it hands on
 * for the optimizer, and its optimizer step, for which its next round waits. */

#define NO_EVENT G_MAXUINT

typedef struct {
  guint event;
  guint from;      /* event that it waits for */
  gboolean before; /* of the round before */
} Arc;

/* Events are numbered: first the steps by their ids. In asynchronous schedules the last ones are an optimizer step for
 * each step of the program; most of them do not exist, and wait for nothing. */
struct _PsRounds {
  const PsProgram *program;
  const PsCosts *costs;
  PsEventsSetting setting;
  PsReduce reduce;
  Reductions reductions;
  PsDrain drain;
  guint first_message;   /* 2 for each message: its sending takes its time, its receiving none */
  guint first_reduction; /* 1 for each of reductions.held */
  guint first_update;    /* 2 for each device: state and optimizer step */
  guint first_single;    /* 1 for each step */
  guint n_events;
  GArray *arcs;        /* Arc, by event */
  guint *first;        /* [n_events + 1] into arcs */
  guint *order;        /* [n_events] each after the events of its round that it waits for */
  gint64 *duration_ns; /* [n_events] */
  gint64 *end_ns;      /* [n_events] in the round that ran last */
  GArray *carried;     /* guint: events that the next round reads, by their column in a row */
  guint *column;       /* [n_events] of an event that is carried, 1 + its column; else 0 */
};

static guint sent_event (const PsRounds *rounds, guint message)
{
  return rounds->first_message + 2 * message;
}

static guint state_event (const PsRounds *rounds, guint device)
{
  return rounds->first_update + 2 * device;
}

static guint update_event (const PsRounds *rounds, guint device)
{
  return state_event (rounds, device) + 1;
}

/* The first and the last event that hold one end of a channel in a round. */
typedef struct {
  guint head; /* event; NO_EVENT: nothing yet */
  guint tail;
} End;

/* Rounds while they are built. */
typedef struct {
  PsRounds *rounds;
  PsChannels *channels;
  guint *last;    /* [n_devices] the device's last event in this round; NO_EVENT: none yet */
  guint *pending; /* [n_copies * n_stages] ends of microbatches on the stage since its last update */
  End *ends;      /* [n_ends] */
} Builder;

static void builder_clear (Builder *builder)
{
  ps_channels_free (builder->channels);
  g_free (builder->last);
  g_free (builder->pending);
  g_free (builder->ends);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Builder, builder_clear)

static void wait_for (const Builder *builder, guint event, guint from, gboolean before)
{
  const Arc arc = { event, from, before };

  g_array_append_val (builder->rounds->arcs, arc);
}

static void follow (Builder *builder, guint device, guint event)
{
  guint *last = &builder->last[device];

  if (*last != NO_EVENT)
    wait_for (builder, event, *last, FALSE);
  else
    wait_for (builder, event, update_event (builder->rounds, device), TRUE);
  *last = event;
}

/* In asynchronous schedules the last microbatch of an update is followed by the optimizer step of its stage. */
static void add_op (gpointer data, guint op)
{
  Builder *builder = data;
  const PsProgram *program = builder->rounds->program;
  const PsSchedule *schedule = program->schedule;
  guint step = program->step_of[op], device = program->steps[step].device;

  follow (builder, device, step);
  if (!schedule->asynchronous || !completes_gradients (schedule->ops[op]))
    return;
  guint *pending = &builder->pending[held_index (schedule, schedule->ops[op])];
  if (++*pending < ps_schedule_update_every (schedule) * schedule->n_slices)
    return;
  *pending = 0;
  follow (builder, device, builder->rounds->first_single + step);
}

/* The next send or receive of a device. The sending waits for it or, at the receiver of an eager message, the
 * receiving. */
static void add_post (Builder *builder, guint32 message, guint side)
{
  const PsRounds *rounds = builder->rounds;
  const PsProgram *program = rounds->program;
  const PsMessage *about = &program->messages[message - 1];
  guint sent = sent_event (rounds, message - 1), received = sent + 1;
  gboolean eager = ps_events_setting_is_eager (&rounds->setting,
                                               rounds->costs->message_bytes[program->steps[about->consumer].transfer]);
  guint holds = side == PS_SIDE_RECEIVER ? received : sent;
  guint waits = side == PS_SIDE_RECEIVER && eager ? received : sent;

  if (rounds->setting.blocking) {
    guint device = side == PS_SIDE_RECEIVER ? about->receiver : about->sender;

    follow (builder, device, waits);
    builder->last[device] = holds;
  }
  if (builder->channels->n_ends == 0)
    return;
  End *end = &builder->ends[builder->channels->on_end[message - 1][side].end];
  if (end->tail == NO_EVENT)
    end->head = waits;
  else
    wait_for (builder, waits, end->tail, FALSE);
  end->tail = holds;
}

static void add_posts (gpointer data, guint32 message)
{
  add_post (data, message, PS_SIDE_SENDER);
  add_post (data, message, PS_SIDE_RECEIVER);
}

/* As the program orders them. */
static void add_instructions (Builder *builder, guint device)
{
  const PsProgram *program = builder->rounds->program;
  guint op = program->schedule->first[device];

  for (guint i = program->first[device]; i < program->first[device + 1]; i++) {
    const PsInstruction *instruction = &program->instructions[i];

    if (instruction->type == PS_INSTRUCTION_COMPUTE)
      add_op (builder, op++);
    else if (ps_instruction_is_post (instruction))
      add_post (builder, instruction->message, ps_instruction_side (instruction));
  }
}

/* All ops and messages. A message between rounds belongs to its sender's if it may queue there, else to its consumer's.
 * The first to hold a channel end in a round waits for the last of the round before. */
static void add_ops (Builder *builder)
{
  const PsRounds *rounds = builder->rounds;
  const PsProgram *program = rounds->program;
  gboolean may_queue = rounds->setting.comm != PS_CHANNEL_LATENCY || rounds->setting.blocking;

  if (program->schedule->asynchronous)
    ps_drain_walk (&rounds->drain, program, add_op, add_posts, builder);
  else if (may_queue)
    for (guint device = 0; device < program->schedule->placement->n_devices; device++)
      add_instructions (builder, device);
  else
    for (guint i = 0; i < program->n_steps; i++)
      add_op (builder, program->op_of[i]);
  for (guint i = 0; i < program->n_messages; i++) {
    guint sent = sent_event (rounds, i), from = program->messages[i].producer, to = program->messages[i].consumer;
    gboolean before = rounds->drain.ahead[program->op_of[from]] > rounds->drain.ahead[program->op_of[to]];

    wait_for (builder, sent, from, before && !may_queue);
    wait_for (builder, sent + 1, sent, FALSE);
    wait_for (builder, to, sent + 1, before && may_queue);
  }
  for (guint i = 0; i < builder->channels->n_ends; i++)
    wait_for (builder, builder->ends[i].head, builder->ends[i].tail, TRUE);
}

/* Whether all-reduces overlap with the next round of an asynchronous schedule. Only those of the round before are done
 * when a round ends. They must not wait for each other without end, so the first waits for the last of the round
 * before. */
static gboolean reduces_late (const PsRounds *rounds)
{
  return rounds->program->schedule->asynchronous && rounds->reduce == PS_REDUCE_OVERLAPPED;
}

/* The all-reduces of a device, one after the other. */
static void add_reductions (Builder *builder, guint device)
{
  PsRounds *rounds = builder->rounds;
  const PsSchedule *schedule = rounds->program->schedule;
  guint n_stages = schedule->placement->n_stages, begin = rounds->reductions.first[device],
        end = rounds->reductions.first[device + 1];

  for (guint i = begin; i < end; i++) {
    guint stage = rounds->reductions.held[i] % n_stages, event = rounds->first_reduction + i;
    gint64 reduce_ns = ps_costs_reduce_ns (rounds->costs, stage, schedule->placement->n_copies);

    /* One for each optimizer step; exposed ones belong to their steps. */
    if (schedule->asynchronous)
      reduce_ns
          *= rounds->reduce == PS_REDUCE_EXPOSED ? 0 : schedule->n_microbatches / ps_schedule_update_every (schedule);
    rounds->duration_ns[event] = reduce_ns;
    for (guint copy = 0; copy < schedule->placement->n_copies; copy++)
      if (rounds->reductions.last_step[copy * n_stages + stage] != NO_STEP)
        wait_for (builder, event, rounds->reductions.last_step[copy * n_stages + stage], FALSE);
    if (rounds->reduce == PS_REDUCE_EXPOSED)
      wait_for (builder, event, builder->last[device], FALSE);
    if (i > begin)
      wait_for (builder, event, event - 1, FALSE);
  }
  if (begin < end && reduces_late (rounds))
    wait_for (builder, rounds->first_reduction + begin, rounds->first_reduction + end - 1, TRUE);
}

static void add_update (Builder *builder, guint device)
{
  const PsRounds *rounds = builder->rounds;
  const PsSchedule *schedule = rounds->program->schedule;
  guint state = state_event (rounds, device), n_reduced = rounds->reductions.first[device + 1];

  add_reductions (builder, device);
  if (builder->last[device] != NO_EVENT)
    wait_for (builder, state, builder->last[device], FALSE);
  if (n_reduced > rounds->reductions.first[device])
    wait_for (builder, state, rounds->first_reduction + n_reduced - 1, reduces_late (rounds));
  if (device > 0 && !schedule->asynchronous && !schedule->forward_only)
    wait_for (builder, state, state_event (rounds, device - 1), FALSE);
  wait_for (builder, update_event (rounds, device), state, FALSE);
}

static void build (PsRounds *rounds)
{
  const PsPlacement *placement = rounds->program->schedule->placement;
  g_auto (Builder) builder = { .rounds = rounds };

  builder.channels = ps_channels_new (rounds->program, rounds->setting.comm);
  builder.last = g_new (guint, placement->n_devices);
  builder.pending = g_new0 (guint, placement->n_copies * placement->n_stages);
  builder.ends = g_new (End, builder.channels->n_ends);
  for (guint device = 0; device < placement->n_devices; device++)
    builder.last[device] = NO_EVENT;
  for (guint i = 0; i < builder.channels->n_ends; i++)
    builder.ends[i] = (End){ NO_EVENT, NO_EVENT };
  add_ops (&builder);
  for (guint device = 0; device < placement->n_devices; device++)
    add_update (&builder, device);
}

static void sort_arcs (PsRounds *rounds)
{
  g_autoptr (GArray) arcs = g_steal_pointer (&rounds->arcs);
  guint n = rounds->n_events, *first = rounds->first = g_new0 (guint, (gsize)n + 2);

  rounds->arcs = g_array_sized_new (FALSE, FALSE, sizeof (Arc), arcs->len);
  g_array_set_size (rounds->arcs, arcs->len);
  for (guint a = 0; a < arcs->len; a++)
    first[g_array_index (arcs, Arc, a).event + 2]++;
  for (guint i = 2; i <= n + 1; i++)
    first[i] += first[i - 1];
  for (guint a = 0; a < arcs->len; a++) {
    Arc arc = g_array_index (arcs, Arc, a);

    g_array_index (rounds->arcs, Arc, first[arc.event + 1]++) = arc;
  }
}

static inline const Arc *arc_at (const PsRounds *rounds, guint a)
{
  return &g_array_index (rounds->arcs, Arc, a);
}

/* Goes down from each event to the events that it waits for, which come first. FALSE where that leads back to an event
 * from which it started: then no round ever ends. */
static gboolean order_events (PsRounds *rounds)
{
  guint n = rounds->n_events, n_ordered = 0;
  g_autofree guint *stack = g_new (guint, n), *next = g_new0 (guint, n); /* 1 + the next arc to look at */
  g_autofree gboolean *ordered = g_new0 (gboolean, n);

  for (guint event = 0; event < n; event++) {
    guint depth = 0;

    if (ordered[event])
      continue;
    stack[depth++] = event;
    next[event] = 1 + rounds->first[event];
    while (depth > 0) {
      guint i = stack[depth - 1], a = next[i] - 1;

      if (a == rounds->first[i + 1]) {
        rounds->order[n_ordered++] = i;
        ordered[i] = TRUE;
        depth--;
        continue;
      }
      next[i]++;
      guint from = arc_at (rounds, a)->from;
      if (arc_at (rounds, a)->before || ordered[from])
        continue;
      if (next[from] != 0)
        return FALSE;
      next[from] = 1 + rounds->first[from];
      stack[depth++] = from;
    }
  }
  return TRUE;
}

static void carry (PsRounds *rounds, guint event)
{
  if (rounds->column[event] > 0)
    return;
  g_array_append_val (rounds->carried, event);
  rounds->column[event] = rounds->carried->len;
}

static gboolean check_fixed (const PsProgram *program, const PsEventsSetting *setting, GError **error)
{
  if (setting == NULL || ps_events_setting_is_fixed (setting))
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_SCHEDULE,
      "%s: never drains: with shared links, overlap slow-down or ready order its steady state is not known",
      program->schedule->name);
}

PsRounds *ps_rounds_new (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                         PsReduce reduce, GError **error)
{
  const PsPlacement *placement = program->schedule->placement;
  g_autoptr (PsRounds) rounds = g_new0 (PsRounds, 1);

  *rounds = (PsRounds){ .program = program, .costs = costs, .reduce = reduce };
  if (!check_fixed (program, setting, error))
    return NULL;
  if (setting != NULL)
    rounds->setting = *setting;
  rounds->first_message = program->n_steps;
  rounds->first_reduction = sent_event (rounds, program->n_messages);
  rounds->first_update = rounds->first_reduction + placement->n_copies * placement->n_stages;
  rounds->first_single = state_event (rounds, placement->n_devices);
  rounds->n_events = rounds->first_single + (program->schedule->asynchronous ? program->n_steps : 0);
  rounds->arcs = g_array_sized_new (FALSE, FALSE, sizeof (Arc), 2 * rounds->n_events);
  rounds->order = g_new (guint, rounds->n_events);
  rounds->duration_ns = g_new0 (gint64, rounds->n_events);
  rounds->end_ns = g_new0 (gint64, rounds->n_events);
  rounds->carried = g_array_new (FALSE, FALSE, sizeof (guint));
  rounds->column = g_new0 (guint, rounds->n_events);
  reductions_init (&rounds->reductions, program);
  ps_drain_init (&rounds->drain, program);
  build (rounds);
  sort_arcs (rounds);
  if (!order_events (rounds))
    return ps_refuse_null (error, PS_ERROR_SCHEDULE, "%s: its instructions wait for each other in a circle",
                           program->schedule->name);
  for (guint device = 0; device < placement->n_devices; device++)
    carry (rounds, update_event (rounds, device));
  for (guint a = 0; a < rounds->arcs->len; a++)
    if (arc_at (rounds, a)->before)
      carry (rounds, arc_at (rounds, a)->from);
  ps_rounds_set_times (rounds, rounds->setting.duration_ns, rounds->setting.transfer_ns, NULL);
  return g_steal_pointer (&rounds);
}

void ps_rounds_free (PsRounds *rounds)
{
  if (rounds == NULL)
    return;
  reductions_clear (&rounds->reductions);
  ps_drain_clear (&rounds->drain);
  g_clear_pointer (&rounds->arcs, g_array_unref);
  g_free (rounds->first);
  g_free (rounds->order);
  g_free (rounds->duration_ns);
  g_free (rounds->end_ns);
  g_clear_pointer (&rounds->carried, g_array_unref);
  g_free (rounds->column);
  g_free (rounds);
}

static void set_update (PsRounds *rounds, guint event, guint device, gint64 optimizer_ns, const double *slowness)
{
  rounds->duration_ns[event] = slowness != NULL ? llrint ((double)optimizer_ns * slowness[device]) : optimizer_ns;
}

void ps_rounds_set_times (PsRounds *rounds, const gint64 *duration_ns, const gint64 *transfer_ns,
                          const double *slowness)
{
  const PsProgram *program = rounds->program;
  const PsSchedule *schedule = program->schedule;
  const PsCosts *costs = rounds->costs;

  for (guint i = 0; i < program->n_steps; i++) {
    guint single = rounds->first_single + i, device = program->steps[i].device;

    rounds->duration_ns[i]
        = ps_event_step_at_speed (&rounds->setting, program, costs, i,
                                  duration_ns != NULL ? duration_ns[i] : ps_step_duration (program, costs, i));
    if (!schedule->asynchronous || rounds->first[single] == rounds->first[single + 1])
      continue;
    guint stage = schedule->ops[program->op_of[i]].stage;
    set_update (rounds, single, device,
                ps_event_at_speed (&rounds->setting, device, ps_costs_op (costs, PS_OP_O, stage)->duration_ns),
                slowness);
    if (rounds->reduce == PS_REDUCE_EXPOSED)
      rounds->duration_ns[single] += ps_costs_reduce_ns (costs, stage, schedule->placement->n_copies);
  }
  for (guint i = 0; i < program->n_messages; i++) {
    guint step = program->messages[i].consumer;

    rounds->duration_ns[sent_event (rounds, i)]
        = transfer_ns != NULL ? transfer_ns[step] : costs->transfer_ns[program->steps[step].transfer];
  }
  for (guint device = 0; device < schedule->placement->n_devices && !schedule->asynchronous; device++)
    set_update (rounds, update_event (rounds, device), device,
                ps_events_optimizer_ns (program, costs, &rounds->setting, device), slowness);
}

guint ps_rounds_n_columns (const PsRounds *rounds)
{
  return rounds->carried->len;
}

/* Runs a round. Returns the moment that the new row counts from, counted like the old one. */
static gint64 advance (PsRounds *rounds, gint64 *row)
{
  gint64 *end_ns = rounds->end_ns, least = G_MAXINT64;

  for (guint i = 0; i < rounds->n_events; i++) {
    guint event = rounds->order[i];
    gint64 start_ns = 0;

    for (guint a = rounds->first[event]; a < rounds->first[event + 1]; a++) {
      const Arc *arc = arc_at (rounds, a);

      start_ns = MAX (start_ns, arc->before ? row[rounds->column[arc->from] - 1] : end_ns[arc->from]);
    }
    end_ns[event] = start_ns + rounds->duration_ns[event];
  }
  for (guint i = 0; i < rounds->carried->len; i++) {
    row[i] = end_ns[g_array_index (rounds->carried, guint, i)];
    least = MIN (least, row[i]);
  }
  for (guint i = 0; i < rounds->carried->len; i++)
    row[i] -= least;
  return least;
}

/* The optimizer steps of all devices are the first columns. */
static gint64 last_update (const PsRounds *rounds, const gint64 *row)
{
  gint64 last = 0;

  for (guint device = 0; device < rounds->program->schedule->placement->n_devices; device++)
    last = MAX (last, row[device]);
  return last;
}

gint64 ps_rounds_run (PsRounds *rounds, gint64 *row)
{
  gint64 begin_ns = last_update (rounds, row), moment_ns = advance (rounds, row);

  return moment_ns + last_update (rounds, row) - begin_ns;
}

/* The first of rows that equals the one at index; index itself when none does. */
static guint find_row (const gint64 *rows, guint n_columns, guint index)
{
  guint i = 0;

  while (memcmp (rows + (gsize)i * n_columns, rows + (gsize)index * n_columns, n_columns * sizeof *rows) != 0)
    i++;
  return i;
}

/* Times follow from max and + alone, so rounds that repeat each other once do so for ever. */
gint64 *ps_rounds_settle (PsRounds *rounds, guint n, gint64 *row, guint *n_cycle)
{
  guint n_columns = rounds->carried->len;
  gsize size = n_columns * sizeof *row;
  g_autofree gint64 *rows = g_new0 (gint64, (gsize)n_columns * (n + 1)), *time_ns = g_new (gint64, n);

  *n_cycle = 0;
  memset (row, 0, size);
  for (guint i = 1; i <= n; i++) {
    time_ns[i - 1] = ps_rounds_run (rounds, row);
    memcpy (rows + (gsize)i * n_columns, row, size);
    guint same = find_row (rows, n_columns, i);
    if (same == i)
      continue;
    guint start = same + (n - same) % (i - same);
    gint64 *cycle = g_new (gint64, i - same);
    memcpy (row, rows + (gsize)start * n_columns, size);
    *n_cycle = i - same;
    for (guint k = 0; k < *n_cycle; k++)
      cycle[k] = time_ns[same + (start - same + k) % *n_cycle];
    return cycle;
  }
  return NULL;
}

/* The period is the maximum cycle ratio of the events: a ratio is guessed from below, and arcs from the round before
 * are charged with it. A longest-path search then settles, which proves the guess. Or its predecessors close a circle,
 * whose ratio is a better guess. */

/* Sums over several rounds and their products with numbers of rounds. The sum of all durations over as many rounds as
 * there are arcs from the round before must stay below 2^100. */
__extension__ typedef __int128 Wide;

/* total / rounds */
typedef struct {
  Wide total;
  guint rounds;
} Ratio;

/* The longest path found so far to the end of an event. */
typedef struct {
  Wide length;
  guint rounds; /* arcs from the round before */
  guint arc;    /* 1 + the arc it came by; 0: it began here */
} Path;

typedef struct {
  const PsRounds *rounds;
  Path *paths;  /* [n_events] */
  guint *visit; /* [n_events] the walk over predecessors that came by last, counted from 1 */
  Ratio ratio;
  GArray *circle; /* guint: the arcs of a circle of that ratio, backwards */
} Search;

static void search_clear (Search *search)
{
  g_free (search->paths);
  g_free (search->visit);
  g_clear_pointer (&search->circle, g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Search, search_clear)

static gboolean is_longer (Wide length, gint64 rounds, Ratio ratio)
{
  return length * ratio.rounds > rounds * ratio.total;
}

/* Every event once, in order; FALSE when no path got longer. */
static gboolean lengthen (const Search *search)
{
  const PsRounds *rounds = search->rounds;
  gboolean longer = FALSE;

  for (guint k = 0; k < rounds->n_events; k++) {
    guint i = rounds->order[k];
    Path path = search->paths[i];

    for (guint a = rounds->first[i]; a < rounds->first[i + 1]; a++) {
      const Path *from = &search->paths[arc_at (rounds, a)->from];
      Wide length = from->length + rounds->duration_ns[i];
      guint n = from->rounds + (arc_at (rounds, a)->before ? 1 : 0);

      if (!is_longer (length - path.length, (gint64)n - path.rounds, search->ratio))
        continue;
      path = search->paths[i] = (Path){ length, n, a + 1 };
      longer = TRUE;
    }
  }
  return longer;
}

static const Arc *arc_to (const Search *search, guint event)
{
  return arc_at (search->rounds, search->paths[event].arc - 1);
}

/* Takes over the circle of predecessors that an event lies on, if its ratio is larger. */
static void take_circle (Search *search, guint event)
{
  Ratio found = { 0, 0 };
  guint i = event;

  do {
    found.total += search->rounds->duration_ns[i];
    found.rounds += arc_to (search, i)->before ? 1 : 0;
    i = arc_to (search, i)->from;
  } while (i != event);
  if (!is_longer (found.total, found.rounds, search->ratio))
    return;
  search->ratio = found;
  g_array_set_size (search->circle, 0);
  do {
    guint arc = search->paths[i].arc - 1;

    g_array_append_val (search->circle, arc);
    i = arc_to (search, i)->from;
  } while (i != event);
}

/* Looks at all circles of predecessors. */
static void improve_ratio (Search *search)
{
  memset (search->visit, 0, search->rounds->n_events * sizeof *search->visit);
  for (guint start = 0; start < search->rounds->n_events; start++) {
    guint i = start;

    while (search->visit[i] == 0 && search->paths[i].arc != 0) {
      search->visit[i] = start + 1;
      i = arc_to (search, i)->from;
    }
    if (search->visit[i] == start + 1)
      take_circle (search, i);
  }
}

/* Paths stay when the ratio grows: they are real ones whatever it is, and where none gets longer no circle exceeds it.
 */
static void search_ratio (Search *search, const PsRounds *rounds)
{
  *search = (Search){ .rounds = rounds, .ratio = { 0, 1 } };
  search->paths = g_new (Path, rounds->n_events);
  search->visit = g_new (guint, rounds->n_events);
  search->circle = g_array_new (FALSE, FALSE, sizeof (guint));
  for (guint i = 0; i < rounds->n_events; i++)
    search->paths[i] = (Path){ .length = rounds->duration_ns[i] };
  while (lengthen (search))
    improve_ratio (search);
}

/* The time of an iteration of which n take that long in all. */
static PsIteration per_iteration (Wide total, guint n)
{
  return (PsIteration){ .period_ns = (gint64)((2 * total + n) / (2 * (Wide)n)),
                        .n_iterations = n / (guint)ps_common_divisor (n, (gint64)(total % n)) };
}

/* Rounds that are run to see whether they repeat each other, before the search, which takes longer. */
#define SOON 8

PsIteration ps_rounds_period (PsRounds *rounds)
{
  g_autofree gint64 *row = g_new (gint64, rounds->carried->len), *cycle = NULL;
  g_auto (Search) search = { 0 };
  Wide total = 0;
  guint n;

  cycle = ps_rounds_settle (rounds, SOON, row, &n);
  for (guint i = 0; i < n; i++)
    total += cycle[i];
  if (n > 0)
    return per_iteration (total, n);
  search_ratio (&search, rounds);
  return per_iteration (search.ratio.total, search.ratio.rounds);
}

/* What an event of a round is. */
static PsCircleEvent describe_event (const PsRounds *rounds, const Arc *arc)
{
  const PsProgram *program = rounds->program;
  guint event = arc->event;
  PsCircleEvent found = { PS_ROUND_OP, event, arc->before, rounds->duration_ns[event] };

  if (event >= rounds->first_single) {
    found.kind = PS_ROUND_OPTIMIZER;
    found.step = event - rounds->first_single;
  } else if (event >= rounds->first_update) {
    guint device = (event - rounds->first_update) / 2;

    found.kind = PS_ROUND_OPTIMIZER;
    found.step = program->step_of[program->schedule->first[device + 1] - 1];
  } else if (event >= rounds->first_reduction) {
    found.kind = PS_ROUND_REDUCE;
    found.step = rounds->reductions.last_step[rounds->reductions.held[event - rounds->first_reduction]];
  } else if (event >= rounds->first_message) {
    found.kind = PS_ROUND_TRANSFER;
    found.step = program->messages[(event - rounds->first_message) / 2].consumer;
  }
  return found;
}

GArray *ps_rounds_circle (PsRounds *rounds)
{
  g_auto (Search) search = { 0 };

  search_ratio (&search, rounds);
  const guint *arcs = (const guint *)(gconstpointer)search.circle->data;
  guint n = search.circle->len, begin = 0;
  GArray *circle = g_array_sized_new (FALSE, FALSE, sizeof (PsCircleEvent), n);

  /* It begins at the lowest event that waits for the round before. */
  for (guint i = 1; i < n; i++) {
    const Arc *a = arc_at (rounds, arcs[i]), *best = arc_at (rounds, arcs[begin]);

    if (a->before != best->before ? a->before : a->event < best->event)
      begin = i;
  }
  for (guint i = 0; i < n; i++) {
    const PsCircleEvent event = describe_event (rounds, arc_at (rounds, arcs[(begin + n - i) % n]));

    g_array_append_val (circle, event);
  }
  return circle;
}

/* Rounds of the events engine, one after the other. */

gint64 ps_rounds_advance (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                          PsReduce reduce, gint64 *ready_ns)
{
  g_auto (Reductions) reductions = { 0 };
  gint64 state = 0, least = G_MAXINT64;

  reductions_init (&reductions, program);
  reductions_follow (&reductions, program, simulation);
  for (guint device = 0; device < simulation->n_devices; device++) {
    state = program->schedule->forward_only
                ? simulation->device[device].end_ns
                : MAX (state, reductions_end_ns (&reductions, program, costs, simulation, device, reduce));
    ready_ns[device] = state + simulation->device[device].optimizer_ns;
    least = MIN (least, ready_ns[device]);
  }
  for (guint device = 0; device < simulation->n_devices; device++)
    ready_ns[device] -= least;
  return least;
}

#define MAX_ROUNDS 64

/* Each round starts from the devices' ready times that the one before has left, until these come back. */
static gboolean repeat (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting, PsReduce reduce,
                        PsIteration *iteration, GError **error)
{
  guint p = program->schedule->placement->n_devices;
  g_autofree gint64 *ready = g_new0 (gint64, p), *rows = g_new0 (gint64, (gsize)p * (MAX_ROUNDS + 1));
  gint64 elapsed[MAX_ROUNDS + 1] = { 0 };
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  PsEventsSetting started = *setting;

  started.ready_ns = ready;
  simulation->times_only = TRUE;
  g_autoptr (PsEvents) events = ps_events_new (program, costs, &started, error);
  for (guint i = 1; events != NULL && i <= MAX_ROUNDS; i++) {
    if (!ps_events_run (events, costs, simulation, error))
      return FALSE;
    elapsed[i] = elapsed[i - 1] + ps_rounds_advance (program, costs, simulation, reduce, ready);
    memcpy (rows + (gsize)i * p, ready, p * sizeof *ready);
    guint same = find_row (rows, p, i), from = same < i ? same : i / 2;
    *iteration = per_iteration (elapsed[i] - elapsed[from], i - from);
    if (same < i)
      return TRUE;
    iteration->n_iterations = 0;
  }
  return events != NULL;
}

/* From a standing start the pattern repeats after some rounds for each device. */
#define ROUNDS_PER_DEVICE 4
#define LEAST_ROUNDS 16

void ps_iteration_times (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                         PsSimulation *simulation)
{
  guint n_rounds = MAX (LEAST_ROUNDS, ROUNDS_PER_DEVICE * program->schedule->placement->n_devices);
  g_autoptr (PsRounds) rounds = ps_rounds_new (program, costs, setting, PS_REDUCE_EXPOSED, NULL);
  gint64 origin_ns = G_MAXINT64, least = 0;

  g_return_if_fail (rounds != NULL && simulation->start_ns == NULL);
  g_autofree gint64 *row = g_new0 (gint64, rounds->carried->len);
  for (guint i = 1; i < n_rounds; i++)
    least = advance (rounds, row);
  /* Ops that run ahead belong to the iteration after the round in which they run. */
  for (guint i = 0; i < program->n_steps; i++)
    simulation->end_ns[i + 1] = rounds->end_ns[i] - least;
  advance (rounds, row);
  for (guint i = 0; i < program->n_steps; i++) {
    if (!rounds->drain.ahead[program->op_of[i]])
      simulation->end_ns[i + 1] = rounds->end_ns[i];
    origin_ns = MIN (origin_ns, simulation->end_ns[i + 1] - rounds->duration_ns[i]);
  }
  simulation->makespan_ns = 0;
  for (guint i = 0; i < program->n_steps; i++) {
    simulation->end_ns[i + 1] -= origin_ns;
    simulation->makespan_ns = MAX (simulation->makespan_ns, simulation->end_ns[i + 1]);
  }
}

PsIteration ps_iteration (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, PsSync sync,
                          PsReduce reduce)
{
  PsIteration iteration = { 0 };
  gboolean found = ps_iteration_events (program, costs, simulation, NULL, sync, reduce, &iteration, NULL);

  g_assert (found); /* nothing waits in a circle that ps_program_lower has let pass */
  return iteration;
}

gboolean ps_iteration_events (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                              const PsEventsSetting *setting, PsSync sync, PsReduce reduce, PsIteration *iteration,
                              GError **error)
{
  gboolean asynchronous = program->schedule->asynchronous;

  g_return_val_if_fail (costs->n_stages == program->schedule->placement->n_stages, FALSE);
  if (sync == PS_SYNC_GLOBAL && !asynchronous) {
    *iteration = meet (program, costs, simulation, setting, reduce);
    return TRUE;
  }
  if (!asynchronous && setting != NULL && !ps_events_setting_is_fixed (setting))
    return repeat (program, costs, setting, reduce, iteration, error);
  g_autoptr (PsRounds) rounds = ps_rounds_new (program, costs, setting, reduce, error);
  if (rounds == NULL)
    return FALSE;
  *iteration = ps_rounds_period (rounds);
  return TRUE;
}

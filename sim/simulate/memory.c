/* memory.c - the bytes that each device holds over time: the buffers of messages, the walk over all changes, peaks,
 * parts, and who was alive at a peak. */
#include "gathers.h"
#include "memory-walk.h"
#include "simulate-private.h"

#include <stdlib.h>
#include <string.h>

/* Buffers */

typedef struct {
  gint64 moment; /* twice the time, and 1 more for a take: at one instant gives come first */
  gint64 bytes;  /* more from then on, or less */
  PsMemoryPart part;
} Change;

/* Bytes that messages take (or give back: negative) where a step starts or ends. Of a pair its second step counts. */
typedef struct {
  gint64 at_start;
  gint64 at_end;
} StepBuffers;

/* A sender takes at its producer's end; a receiver takes at the end of the op after which it comes to the receive, and
 * gives back at its consumer. All else is in a list for each device, which ends with a change at G_MAXINT64. */
struct _PsMemoryBuffers {
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation;
  StepBuffers *steps; /* [n_steps] */
  Change *changes;    /* by device, then moment */
  Change **next;      /* [n_devices] next free change, while they are made */
};

/* Where the list of a device begins. A device has at most one change in its list for each of its sends and receives,
 * and two for each op, whose weights come and go; a step has at most four instructions together with its message. */
static guint first_change (const PsProgram *program, guint device)
{
  return program->first[device] + program->schedule->first[device] + 2 * device + 1;
}

/* Keeps a list in order. Messages come nearly so: few pass another, and most of these only one. */
static void insert (const PsMemoryBuffers *buffers, guint device, gint64 moment, gint64 bytes)
{
  Change *next = buffers->next[device]++;

  for (; next[-1].moment > moment; next--)
    next[0] = next[-1];
  *next = (Change){ moment, bytes, PS_MEMORY_BUFFERS };
}

/* The receiver's buffer is there when its stream has come to the receive, or when the transfer starts before that. */
static void add_message (const PsMemoryBuffers *buffers, const PsMessage *message)
{
  const PsProgram *program = buffers->program;
  const PsSimulation *simulation = buffers->simulation;
  guint step = message->consumer, last = step + (program->pair != NULL && program->pair[step] == PS_PAIR_FIRST);
  gint64 bytes = buffers->costs->message_bytes[program->steps[step].transfer];
  gint64 sent_ns, arrived_ns, posted_ns = simulation->end_ns[message->posted];

  if (bytes == 0)
    return;
  ps_simulation_transfer (program, buffers->costs, simulation, step, &sent_ns, &arrived_ns);
  buffers->steps[message->producer].at_end += bytes;
  insert (buffers, message->sender, 2 * arrived_ns, -bytes);
  if (message->posted == 0 || posted_ns > sent_ns)
    insert (buffers, message->receiver, 2 * MIN (posted_ns, sent_ns) + 1, bytes);
  else
    buffers->steps[message->posted - 1].at_end += bytes;
  *(message->op.kind == PS_OP_F ? &buffers->steps[last].at_start : &buffers->steps[last].at_end) -= bytes;
}

/* Adds gathered weights, and puts each device's list in order. */
static void add_weights (const PsMemoryBuffers *buffers)
{
  g_autoptr (GArray) held = ps_gathers_whole_weights (buffers->program, buffers->costs, buffers->simulation);

  for (guint i = 0; i < held->len; i++) {
    const PsWholeWeights *whole = &g_array_index (held, PsWholeWeights, i);

    *buffers->next[whole->device]++ = (Change){ 2 * whole->from_ns + 1, whole->bytes, PS_MEMORY_WEIGHTS };
    *buffers->next[whole->device]++ = (Change){ 2 * whole->until_ns, -whole->bytes, PS_MEMORY_WEIGHTS };
  }
  for (guint d = 0; d < buffers->simulation->n_devices; d++) {
    Change *changes = &buffers->changes[first_change (buffers->program, d)];

    /* The moment is their first member. */
    qsort (changes, (gsize)(buffers->next[d] - changes), sizeof *changes, ps_compare_int64);
  }
}

PsMemoryBuffers *ps_memory_buffers_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation)
{
  guint n_devices = simulation->n_devices;
  PsMemoryBuffers *buffers = g_new (PsMemoryBuffers, 1);

  *buffers = (PsMemoryBuffers){ .program = program,
                                .costs = costs,
                                .simulation = simulation,
                                .steps = g_new0 (StepBuffers, simulation->n_steps),
                                .changes = g_new (Change, 5 * (gsize)simulation->n_steps + 2 * n_devices),
                                .next = g_new (Change *, n_devices) };
  for (guint device = 0; device < n_devices; device++) {
    buffers->next[device] = &buffers->changes[first_change (program, device)];
    buffers->next[device][-1].moment = G_MININT64;
  }
  for (guint i = 0; i < program->n_messages; i++)
    add_message (buffers, &program->messages[i]);
  if (costs->zero == 3)
    add_weights (buffers);
  for (guint device = 0; device < n_devices; device++)
    buffers->next[device]->moment = G_MAXINT64;
  return buffers;
}

void ps_memory_buffers_free (PsMemoryBuffers *buffers)
{
  if (buffers == NULL)
    return;
  g_free (buffers->steps);
  g_free (buffers->changes);
  g_free (buffers->next);
  g_free (buffers);
}

/* The walk */

/* Visits the changes of a list up to a moment. */
static inline gboolean visit_list (const Change **next, gint64 moment, PsMemoryVisit visit, gpointer data)
{
  gboolean stop = FALSE;

  for (; !stop && (*next)->moment <= moment; (*next)++)
    stop = visit (data, &(PsMemoryChange){ .kind = PS_MEMORY_CHANGE_BUFFER,
                                           .time_ns = (*next)->moment >> 1,
                                           .bytes = (*next)->bytes,
                                           .part = (*next)->part });
  return stop;
}

/* Visits all changes of buffers up to an instant, at which steps change them by `bytes`. Allocations at this instant
 * are visited last, so that no level on the way is above those before and after. */
static inline gboolean visit_buffers (const Change **next, gint64 time_ns, gint64 bytes, PsMemoryVisit visit,
                                      gpointer data)
{
  const PsMemoryChange change
      = { .kind = PS_MEMORY_CHANGE_BUFFER, .time_ns = time_ns, .bytes = bytes, .part = PS_MEMORY_BUFFERS };

  return visit_list (next, 2 * time_ns, visit, data) || visit (data, &change)
         || visit_list (next, 2 * time_ns + 1, visit, data);
}

/* An op, or a pair. */
typedef struct {
  guint n_ops;
  guint last; /* step */
  gint64 start_ns;
  gint64 end_ns;
} WalkedOp;

static inline WalkedOp op_at (const PsMemoryBuffers *buffers, guint i)
{
  const PsProgram *program = buffers->program;
  guint n = program->schedule->ops[i].paired ? 2 : 1, last = program->step_of[i + n - 1];

  return (WalkedOp){ n, last, ps_simulation_start (program, buffers->costs, buffers->simulation, last),
                     buffers->simulation->end_ns[last + 1] };
}

/* Ops of no duration come after all changes of buffers at their instant. So the changes of that instant at op i, and at
 * the ops right after it, move to the start of op i; a second time nothing moves. Returns the next op. */
static guint move_to_start (PsMemoryBuffers *buffers, guint i, guint end)
{
  WalkedOp op = op_at (buffers, i);
  gint64 time_ns = op.start_ns, *sum = &buffers->steps[op.last].at_start;

  while (op.end_ns == time_ns) {
    *sum += buffers->steps[op.last].at_end;
    buffers->steps[op.last].at_end = 0;
    i += op.n_ops;
    if (i == end)
      break;
    op = op_at (buffers, i);
    if (op.start_ns > time_ns)
      break;
    *sum += buffers->steps[op.last].at_start;
    buffers->steps[op.last].at_start = 0;
  }
  return i;
}

static inline void walk_changes (PsMemoryBuffers *buffers, guint device, PsMemoryVisit visit, gpointer data)
{
  const PsProgram *program = buffers->program;
  const PsSchedule *schedule = program->schedule;
  const Change *next = &buffers->changes[first_change (program, device)];
  guint end = schedule->first[device + 1], moved = 0;
  gint64 now_ns = 0, bytes = 0; /* that the op before changes at its end */
  gint64 step_bytes = buffers->simulation->device[device].step_bytes;
  WalkedOp op;

  if (step_bytes > 0
      && (visit (data, &(PsMemoryChange){ .bytes = step_bytes, .part = PS_MEMORY_WORKSPACE })
          || visit (data, &(PsMemoryChange){ .bytes = -step_bytes, .part = PS_MEMORY_WORKSPACE })))
    return;
  for (guint i = schedule->first[device]; i < end; i += op.n_ops) {
    op = op_at (buffers, i);
    PsMemoryChange take = { .kind = PS_MEMORY_CHANGE_TAKE, op.n_ops, op.start_ns, 0, &schedule->ops[i] };
    PsMemoryChange give = { .kind = PS_MEMORY_CHANGE_GIVE, op.n_ops, op.end_ns, 0, &schedule->ops[i] };

    for (guint k = 0; k < op.n_ops; k++) {
      const PsOpCost *cost = &buffers->costs->op[program->steps[op.last - k].cost];

      take.bytes += cost->take_bytes;
      give.bytes -= cost->give_bytes;
    }
    if (op.start_ns == op.end_ns && i >= moved)
      moved = move_to_start (buffers, i, end);
    if (op.start_ns > now_ns) {
      if (visit_buffers (&next, now_ns, bytes, visit, data))
        return;
      bytes = 0;
    }
    if (visit_buffers (&next, op.start_ns, bytes + buffers->steps[op.last].at_start, visit, data) || visit (data, &take)
        || visit_list (&next, 2 * op.end_ns - 1, visit, data) || visit (data, &give))
      return;
    bytes = buffers->steps[op.last].at_end;
    now_ns = op.end_ns;
  }
  if (!visit_buffers (&next, now_ns, bytes, visit, data))
    visit_list (&next, G_MAXINT64 - 1, visit, data);
}

void ps_memory_walk (PsMemoryBuffers *buffers, guint device, PsMemoryVisit visit, gpointer data)
{
  walk_changes (buffers, device, visit, data);
}

/* Peaks */

typedef struct {
  gint64 bytes;
  gint64 peak_bytes;
} Level;

static gboolean raise_level (gpointer data, const PsMemoryChange *change)
{
  Level *level = data;

  level->bytes += change->bytes;
  level->peak_bytes = MAX (level->peak_bytes, level->bytes);
  return FALSE;
}

static gboolean knows_sizes (const PsCosts *costs)
{
  for (guint i = 1; i <= 2 * costs->n_lengths * costs->n_stages; i++)
    if (costs->message_bytes[i] != 0)
      return TRUE;
  return FALSE;
}

void ps_simulation_count_buffers (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  if (simulation->times_only || (!knows_sizes (costs) && costs->zero < 3))
    return;
  g_autoptr (PsMemoryBuffers) buffers = ps_memory_buffers_new (program, costs, simulation);
  for (guint device = 0; device < simulation->n_devices; device++) {
    PsDeviceResult *result = &simulation->device[device];
    Level level = { 0, 0 };

    /* held_bytes is the level after the last op. Less the sum of all changes it is the level before the first op. */
    walk_changes (buffers, device, raise_level, &level);
    result->peak_bytes = result->held_bytes - level.bytes + level.peak_bytes;
  }
}

/* Parts: every byte of a walk is sorted into its part; a second walk up to the peak tells who was alive there. */

static const char *const part_keys[PS_N_MEMORY_PARTS]
    = { "weights",       "gradients", "optimizer", "state",     "versions", "activations",
        "weight_inputs", "workspace", "buffers",   "framework", "context" };

const char *ps_memory_part_key (PsMemoryPart part)
{
  g_return_val_if_fail ((guint)part < PS_N_MEMORY_PARTS, NULL);
  return part_keys[part];
}

gint64 ps_memory_sum (const PsMemoryMoment *moment)
{
  gint64 sum = 0;

  for (guint part = 0; part < PS_N_MEMORY_PARTS; part++)
    sum += moment->bytes[part];
  return sum;
}

/* The bytes that an F left and no op has given back yet. */
typedef struct {
  gint64 bytes;
  guint8 part;
} Cell;

typedef struct {
  const PsProgram *program;
  const PsCosts *costs;
  PsMemoryBuffers *buffers;
  Cell *cells; /* [n_stages * n_microbatches * n_slices] */
  guint device;
  guint n_notes;
  guint peak_note; /* of the peak so far, counted from 1 */
  guint stop;      /* the note at which the walk ends; 0: the whole walk, which fills the result */
  PsMemoryMoment now;
  PsDeviceMemory *result;
} Walk;

static Cell *cell_of (const Walk *walk, PsOp op)
{
  return &walk->cells[ps_schedule_cell (walk->program->schedule, op)];
}

static const PsOpCost *op_cost (const Walk *walk, PsOp op)
{
  return &walk->costs->op[ps_program_cost (walk->program, op)];
}

static void add_state (Walk *walk, guint stage, guint versions)
{
  const PsStateBytes *state = &walk->costs->stage[stage].state;
  gint64 *bytes = walk->now.bytes;
  gint64 known = state->weight_bytes + state->gradient_bytes + state->optimizer_bytes + state->buffer_bytes
                 + state->context_bytes;

  bytes[PS_MEMORY_WEIGHTS] += state->weight_bytes;
  bytes[PS_MEMORY_GRADIENTS] += state->gradient_bytes;
  bytes[PS_MEMORY_OPTIMIZER] += state->optimizer_bytes;
  bytes[PS_MEMORY_FRAMEWORK] += state->buffer_bytes;
  bytes[PS_MEMORY_CONTEXT] += state->context_bytes;
  bytes[PS_MEMORY_STATE] += walk->costs->stage[stage].weight_bytes - known;
  bytes[PS_MEMORY_VERSIONS] += (versions - 1) * walk->costs->stage[stage].version_bytes;
}

static void begin (Walk *walk)
{
  const PsSchedule *schedule = walk->program->schedule;
  const PsPlacement *placement = schedule->placement;

  walk->now = (PsMemoryMoment){ 0 };
  walk->n_notes = 0;
  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++)
    if (placement->device[i] == walk->device)
      add_state (walk, i % placement->n_stages,
                 schedule->weight_versions != NULL ? schedule->weight_versions[walk->device] : 1);
  for (guint i = schedule->first[walk->device]; i < schedule->first[walk->device + 1]; i++)
    *cell_of (walk, schedule->ops[i]) = (Cell){ 0, PS_MEMORY_ACTIVATIONS };
}

/* Notes the level from `now` on; TRUE when the walk ends here. */
static gboolean note (Walk *walk)
{
  PsDeviceMemory *result = walk->result;
  gint64 sum = ps_memory_sum (&walk->now);

  walk->n_notes++;
  if (walk->stop)
    return walk->n_notes == walk->stop;
  if (result->curve->len > 0
      && g_array_index (result->curve, PsMemoryMoment, result->curve->len - 1).time_ns == walk->now.time_ns)
    g_array_set_size (result->curve, result->curve->len - 1);
  g_array_append_val (result->curve, walk->now);
  if (walk->n_notes > 1 && sum <= result->peak_bytes)
    return FALSE;
  result->peak = walk->now;
  result->peak_bytes = sum;
  walk->peak_note = walk->n_notes;
  return FALSE;
}

/* The bytes that an F keeps are activations from its start on. All that an op itself gives back is its workspace. Where
 * every op is an F, that of the last slice gives back what the slices before it have kept, too. */
static void take (Walk *walk, PsOp op)
{
  const PsOpCost *cost = op_cost (walk, op);
  gint64 kept = op.kind == PS_OP_F ? MAX (cost->take_bytes - cost->give_bytes, 0) : 0;

  cell_of (walk, op)->bytes += kept;
  walk->now.bytes[PS_MEMORY_ACTIVATIONS] += kept;
  walk->now.bytes[PS_MEMORY_WORKSPACE] += cost->take_bytes - kept;
}

static void give (Walk *walk, PsOp op)
{
  const PsOpCost *cost = op_cost (walk, op);
  Cell *cell = cell_of (walk, op);

  if (op.kind == PS_OP_F) {
    gint64 workspace = MIN (cost->give_bytes, cost->take_bytes);

    walk->now.bytes[PS_MEMORY_WORKSPACE] -= workspace;
    walk->now.bytes[PS_MEMORY_ACTIVATIONS] -= cost->give_bytes - workspace;
    for (guint i = 0; ps_schedule_ends_prompt (walk->program->schedule, op) && i <= op.slice; i++)
      cell[-(gint)i].bytes = 0;
    return;
  }
  walk->now.bytes[PS_MEMORY_WORKSPACE] -= cost->take_bytes;
  walk->now.bytes[cell->part] -= cell->bytes;
  cell->bytes -= cost->give_bytes - cost->take_bytes;
  if (op.kind == PS_OP_B)
    cell->part = PS_MEMORY_WEIGHT_INPUTS;
  walk->now.bytes[cell->part] += cell->bytes;
}

/* Sorts a change into the parts; TRUE when the walk ends here. */
static gboolean apply (gpointer data, const PsMemoryChange *change)
{
  Walk *walk = data;

  walk->now.time_ns = change->time_ns;
  if (change->kind == PS_MEMORY_CHANGE_BUFFER)
    walk->now.bytes[change->part] += change->bytes;
  for (guint i = 0; i < change->n_ops; i++)
    if (change->kind == PS_MEMORY_CHANGE_TAKE)
      take (walk, change->ops[i]);
    else
      give (walk, change->ops[i]);
  return note (walk);
}

static void run_device (Walk *walk)
{
  begin (walk);
  if (!note (walk))
    ps_memory_walk (walk->buffers, walk->device, apply, walk);
}

static int compare_holdings (gconstpointer a, gconstpointer b)
{
  const PsMemoryHolding *x = a, *y = b;

  return x->stage != y->stage             ? PS_COMPARE (x->stage, y->stage)
         : x->microbatch != y->microbatch ? PS_COMPARE (x->microbatch, y->microbatch)
                                          : PS_COMPARE (x->slice, y->slice);
}

/* Every cell of the device has one F. */
static void list_alive (const Walk *walk, GArray *alive)
{
  const PsSchedule *schedule = walk->program->schedule;

  for (guint i = schedule->first[walk->device]; i < schedule->first[walk->device + 1]; i++) {
    PsOp op = schedule->ops[i];
    const Cell *cell = cell_of (walk, op);
    const PsMemoryHolding holding = {
      .microbatch = op.microbatch, .stage = op.stage, .slice = op.slice, .part = cell->part, .bytes = cell->bytes
    };

    if (op.kind == PS_OP_F && cell->bytes != 0)
      g_array_append_val (alive, holding);
  }
  g_array_sort (alive, compare_holdings);
}

PsMemory *ps_memory_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  PsMemory *memory = g_new (PsMemory, 1);
  g_autoptr (PsMemoryBuffers) buffers = ps_memory_buffers_new (program, costs, simulation);
  g_autofree Cell *cells = g_new (Cell, ps_schedule_n_cells (schedule));

  *memory = (PsMemory){ .n_devices = n_devices, .device = g_new0 (PsDeviceMemory, n_devices) };
  for (guint device = 0; device < n_devices; device++) {
    PsDeviceMemory *result = &memory->device[device];
    Walk walk = {
      .program = program, .costs = costs, .buffers = buffers, .cells = cells, .device = device, .result = result
    };

    result->alive = g_array_new (FALSE, FALSE, sizeof (PsMemoryHolding));
    result->curve = g_array_new (FALSE, FALSE, sizeof (PsMemoryMoment));
    run_device (&walk);
    walk.stop = walk.peak_note;
    run_device (&walk);
    list_alive (&walk, result->alive);
  }
  return memory;
}

void ps_memory_free (PsMemory *memory)
{
  if (memory == NULL)
    return;
  for (guint device = 0; device < memory->n_devices; device++) {
    g_array_unref (memory->device[device].alive);
    g_array_unref (memory->device[device].curve);
  }
  g_free (memory->device);
  g_free (memory);
}

/* In words */

typedef struct {
  GString *text;
  guint stage;
  guint from; /* microbatches of a run that is not yet written */
  guint to;
  guint8 part;
  gboolean open;
} Sentence;

static void close_run (Sentence *sentence)
{
  if (sentence->open)
    g_string_append_printf (sentence->text, "%u", sentence->from);
  if (sentence->open && sentence->to > sentence->from)
    g_string_append_printf (sentence->text, "-%u", sentence->to);
  sentence->open = FALSE;
}

/* Slices of one microbatch count as one. */
static void add_holding (Sentence *sentence, const PsMemoryHolding *holding)
{
  gboolean same = sentence->text->len > 0 && sentence->stage == holding->stage && sentence->part == holding->part;

  if (same && sentence->open && holding->microbatch <= sentence->to + 1) {
    sentence->to = holding->microbatch;
    return;
  }
  gboolean new_stage = sentence->text->len == 0 || sentence->stage != holding->stage;
  close_run (sentence);
  if (new_stage)
    g_string_append_printf (sentence->text, "%sstage %u: ", sentence->text->len ? "; " : "", (guint)holding->stage);
  else
    g_string_append (sentence->text, ", ");
  if (holding->part == PS_MEMORY_WEIGHT_INPUTS && (new_stage || !same))
    g_string_append (sentence->text, "W ");
  sentence->stage = holding->stage;
  sentence->part = holding->part;
  sentence->from = sentence->to = holding->microbatch;
  sentence->open = TRUE;
}

static void add_part (Sentence *sentence, const GArray *alive, guint stage, PsMemoryPart part)
{
  for (guint i = 0; i < alive->len; i++) {
    const PsMemoryHolding *holding = &g_array_index (alive, PsMemoryHolding, i);

    if (holding->stage == stage && holding->part == part)
      add_holding (sentence, holding);
  }
}

char *ps_memory_describe_alive (const PsDeviceMemory *memory)
{
  g_autoptr (GString) text = g_string_new (NULL);
  Sentence sentence = { .text = text };

  for (guint i = 0; i < memory->alive->len; i++) {
    guint stage = g_array_index (memory->alive, PsMemoryHolding, i).stage;

    if (i > 0 && stage == g_array_index (memory->alive, PsMemoryHolding, i - 1).stage)
      continue;
    add_part (&sentence, memory->alive, stage, PS_MEMORY_ACTIVATIONS);
    add_part (&sentence, memory->alive, stage, PS_MEMORY_WEIGHT_INPUTS);
  }
  close_run (&sentence);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

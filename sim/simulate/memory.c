/* memory.c - sorts every byte of a device's walk (memory-walk.h) into its part; a second walk up to the peak tells who
 * was alive there. */
#include "memory-walk.h"

static const char *const part_keys[PS_N_MEMORY_PARTS]
    = { "weights",       "gradients", "optimizer", "state",     "versions", "activations",
        "weight_inputs", "workspace", "buffers",   "framework", "context" };

const char *
ps_memory_part_key (PsMemoryPart part)
{
  g_return_val_if_fail ((guint)part < PS_N_MEMORY_PARTS, NULL);
  return part_keys[part];
}

gint64
ps_memory_sum (const PsMemoryMoment *moment)
{
  gint64 sum = 0;

  for (guint part = 0; part < PS_N_MEMORY_PARTS; part++)
    sum += moment->bytes[part];
  return sum;
}

/* The bytes that an F left and no op has given back yet. */
typedef struct
{
  gint64 bytes;
  guint8 part;
} Cell;

typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation;
  const PsMemoryBuffers *buffers;
  Cell *cells; /* [n_stages * n_microbatches * n_slices] */
  guint device;
  guint n_notes;
  guint peak_note; /* of the peak so far, counted from 1 */
  guint stop;      /* the note at which the walk ends; 0: the whole walk, which fills the result */
  PsMemoryMoment now;
  PsDeviceMemory *result;
} Walk;

static Cell *
cell_of (const Walk *walk, PsOp op)
{
  return &walk->cells[ps_schedule_cell (walk->program->schedule, op)];
}

static const PsOpCost *
op_cost (const Walk *walk, PsOp op)
{
  return &walk->costs->op[ps_program_cost (walk->program, op)];
}

static void
add_state (Walk *walk, guint stage, guint versions)
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

static void
begin (Walk *walk)
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
static gboolean
note (Walk *walk)
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

/* The bytes that an F keeps are activations from its start on. All that an op itself gives back is its workspace. */
static void
take (Walk *walk, PsOp op)
{
  const PsOpCost *cost = op_cost (walk, op);
  gint64 kept = op.kind == PS_OP_F ? cost->take_bytes - cost->give_bytes : 0;

  cell_of (walk, op)->bytes += kept;
  walk->now.bytes[PS_MEMORY_ACTIVATIONS] += kept;
  walk->now.bytes[PS_MEMORY_WORKSPACE] += cost->take_bytes - kept;
}

static void
give (Walk *walk, PsOp op)
{
  const PsOpCost *cost = op_cost (walk, op);
  Cell *cell = cell_of (walk, op);

  if (op.kind == PS_OP_F)
    {
      walk->now.bytes[PS_MEMORY_WORKSPACE] -= cost->give_bytes;
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
static gboolean
apply (gpointer data, const PsMemoryChange *change)
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

static void
run_device (Walk *walk)
{
  begin (walk);
  if (!note (walk))
    ps_memory_walk (walk->program, walk->costs, walk->simulation, walk->buffers, walk->device, apply, walk);
}

static int
compare_holdings (gconstpointer a, gconstpointer b)
{
  const PsMemoryHolding *x = a, *y = b;

  return x->stage != y->stage             ? PS_COMPARE (x->stage, y->stage)
         : x->microbatch != y->microbatch ? PS_COMPARE (x->microbatch, y->microbatch)
                                          : PS_COMPARE (x->slice, y->slice);
}

/* Every cell of the device has one F. */
static void
list_alive (const Walk *walk, GArray *alive)
{
  const PsSchedule *schedule = walk->program->schedule;

  for (guint i = schedule->first[walk->device]; i < schedule->first[walk->device + 1]; i++)
    {
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

PsMemory *
ps_memory_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  PsMemory *memory = g_new (PsMemory, 1);
  g_auto (PsMemoryBuffers) buffers = { 0 };
  g_autofree Cell *cells = g_new (Cell, ps_schedule_n_cells (schedule));

  ps_memory_buffers_init (&buffers, program, costs, simulation);
  *memory = (PsMemory){ .n_devices = n_devices, .device = g_new0 (PsDeviceMemory, n_devices) };
  for (guint device = 0; device < n_devices; device++)
    {
      PsDeviceMemory *result = &memory->device[device];
      Walk walk = { .program = program,
                    .costs = costs,
                    .simulation = simulation,
                    .buffers = &buffers,
                    .cells = cells,
                    .device = device,
                    .result = result };

      result->alive = g_array_new (FALSE, FALSE, sizeof (PsMemoryHolding));
      result->curve = g_array_new (FALSE, FALSE, sizeof (PsMemoryMoment));
      run_device (&walk);
      walk.stop = walk.peak_note;
      run_device (&walk);
      list_alive (&walk, result->alive);
    }
  return memory;
}

void
ps_memory_free (PsMemory *memory)
{
  if (memory == NULL)
    return;
  for (guint device = 0; device < memory->n_devices; device++)
    {
      g_array_unref (memory->device[device].alive);
      g_array_unref (memory->device[device].curve);
    }
  g_free (memory->device);
  g_free (memory);
}

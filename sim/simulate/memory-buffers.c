/* memory-buffers.c - the messages of a program as changes of memory at sender and receiver, and the peaks with them. */
#include "memory-walk.h"
#include "simulate-private.h"

#include <stdlib.h>

typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation;
  gint64 *posted_ns; /* [2][cell] when the receive of a forward, of a backward was posted, by its producer */
  guint n_cells;
  guint *fill; /* [n_devices] next free change */
  PsBufferChange *changes;
} Messages;

static gint64 *
posted (const Messages *messages, PsOp producer)
{
  const PsSchedule *schedule = messages->program->schedule;
  gsize cell
      = ((gsize)producer.stage * schedule->n_microbatches + producer.microbatch) * schedule->n_slices + producer.slice;
  return &messages->posted_ns[(producer.kind != PS_OP_F) * (gsize)messages->n_cells + cell];
}

/* A receive is posted when the device's stream has come there: at the end of the op in front of it. */
static void
post_receives (const Messages *messages, guint device)
{
  const PsProgram *program = messages->program;
  guint op = program->schedule->first[device];
  gint64 now = 0;
  for (guint i = program->first[device]; i < program->first[device + 1]; i++)
    {
      const PsInstruction *instruction = &program->instructions[i];
      if (instruction->type == PS_INSTRUCTION_COMPUTE)
        now = messages->simulation->end_ns[program->step_of[op++] + 1];
      else if (instruction->type == PS_INSTRUCTION_RECEIVE)
        *posted (messages, instruction->op) = now;
    }
}

/* Two changes each, also where they come to nothing: the table has room for exactly that. */
static void
occupy (const Messages *messages, guint device, gint64 from_ns, gint64 until_ns, gint64 bytes)
{
  PsBufferChange *change = &messages->changes[messages->fill[device]];
  gint64 held = until_ns > from_ns ? bytes : 0;
  change[0] = (PsBufferChange){ MIN (from_ns, until_ns), held };
  change[1] = (PsBufferChange){ until_ns, -held };
  messages->fill[device] += 2;
}

/* The message that a step waits for. */
static void
add_message (const Messages *messages, guint step)
{
  const PsProgram *program = messages->program;
  const PsSimulation *simulation = messages->simulation;
  guint producer = program->steps[step].input - 1, device = program->steps[step].device;
  guint last = step + (program->pair && program->pair[step] == PS_PAIR_FIRST);
  gint64 bytes = messages->costs->message_bytes[program->steps[step].transfer];
  gint64 sent_ns, arrived_ns, posted_ns = *posted (messages, ps_program_producer (program, step));
  gboolean forward = program->schedule->ops[program->op_of[step]].kind == PS_OP_F;
  ps_simulation_transfer (program, messages->costs, simulation, step, &sent_ns, &arrived_ns);
  occupy (messages, program->steps[producer].device, simulation->end_ns[producer + 1], arrived_ns, bytes);
  occupy (messages, device, MIN (posted_ns, sent_ns),
          forward ? ps_simulation_start (program, messages->costs, simulation, last) : simulation->end_ns[last + 1],
          bytes);
}

static int
compare_changes (const void *a, const void *b)
{
  const PsBufferChange *x = a, *y = b;
  if (x->time_ns != y->time_ns)
    return x->time_ns < y->time_ns ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Messages come nearly in the order of time, and then insertion is several times as fast as qsort. */
static void
sort_changes (PsBufferChange *changes, guint n)
{
  guint n_moves = 0;
  for (guint i = 1; i < n && n_moves <= 16 * n; i++)
    {
      PsBufferChange change = changes[i];
      guint k = i;
      for (; k > 0 && compare_changes (&changes[k - 1], &change) > 0; k--, n_moves++)
        changes[k] = changes[k - 1];
      changes[k] = change;
    }
  if (n_moves > 16 * n)
    qsort (changes, n, sizeof *changes, compare_changes);
}

/* Room for two changes at either end of every message. */
static void
count_changes (const PsProgram *program, guint *first)
{
  for (guint i = 0; i < program->n_steps; i++)
    if (program->steps[i].input)
      {
        first[program->steps[i].device + 1] += 2;
        first[program->steps[program->steps[i].input - 1].device + 1] += 2;
      }
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    first[device + 1] += first[device];
}

static gboolean
knows_sizes (const PsCosts *costs)
{
  gint64 all = 0;
  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    all |= costs->message_bytes[i];
  return all != 0;
}

gboolean
ps_memory_buffers_init (PsMemoryBuffers *buffers, const PsProgram *program, const PsCosts *costs,
                        const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  guint n_cells = schedule->placement->n_stages * schedule->n_microbatches * schedule->n_slices;
  *buffers = (PsMemoryBuffers){ .first = g_new0 (guint, (gsize)n_devices + 1) };
  if (!knows_sizes (costs))
    return FALSE;
  g_autofree gint64 *posted_ns = g_new0 (gint64, 2 * (gsize)n_cells);
  count_changes (program, buffers->first);
  buffers->changes = g_new (PsBufferChange, buffers->first[n_devices]);
  g_autofree guint *fill = g_memdup2 (buffers->first, n_devices * sizeof *fill);
  const Messages messages = { program, costs, simulation, posted_ns, n_cells, fill, buffers->changes };
  for (guint device = 0; device < n_devices; device++)
    post_receives (&messages, device);
  for (guint i = 0; i < program->n_steps; i++)
    if (program->steps[i].input)
      add_message (&messages, i);
  for (guint device = 0; device < n_devices; device++)
    sort_changes (&buffers->changes[buffers->first[device]], buffers->first[device + 1] - buffers->first[device]);
  return TRUE;
}

void
ps_memory_buffers_clear (PsMemoryBuffers *buffers)
{
  g_free (buffers->first);
  g_free (buffers->changes);
}

/* At its end a device holds what it did before its first op, more or less what its ops leave. */
static void
count_device (const PsMemoryBuffers *buffers, const PsProgram *program, const PsCosts *costs, guint device,
              PsSimulation *simulation)
{
  PsDeviceResult *result = &simulation->device[device];
  PsMemoryWalk walk;
  PsMemoryChange change;
  gint64 level = 0, peak = 0;
  ps_memory_walk_init (&walk, program, costs, simulation, buffers, device);
  while (ps_memory_walk_next (&walk, &change))
    {
      level += change.bytes;
      peak = MAX (peak, level);
    }
  result->peak_bytes = result->held_bytes - level + peak;
}

void
ps_simulation_count_buffers (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  g_auto (PsMemoryBuffers) buffers = { 0 };
  if (!ps_memory_buffers_init (&buffers, program, costs, simulation))
    return;
  for (guint device = 0; device < simulation->n_devices; device++)
    count_device (&buffers, program, costs, device, simulation);
}

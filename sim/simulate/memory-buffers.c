/* memory-buffers.c - the messages of a program as changes of memory at sender and receiver. */
#include "memory-buffers.h"

#include "gathers.h"

#include <stdlib.h>
#include <string.h>

typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation;
  PsStepBuffers *steps;
  PsBufferChange **next; /* [n_devices] next free change */
} Messages;

/* Keeps a list in order. Messages come nearly so: few pass another, and most of these only one. */
static inline void
insert (const Messages *messages, guint device, gint64 moment, gint64 bytes)
{
  PsBufferChange *next = messages->next[device]++;

  for (; next[-1].moment > moment; next--)
    next[0] = next[-1];
  *next = (PsBufferChange){ moment, bytes, PS_MEMORY_BUFFERS };
}

/* The receiver's buffer is there when its stream has come to the receive, or when the transfer starts before that. */
static inline void
add_message (const Messages *messages, const PsMessage *message)
{
  const PsProgram *program = messages->program;
  const PsSimulation *simulation = messages->simulation;
  guint step = message->consumer, last = step + (program->pair != NULL && program->pair[step] == PS_PAIR_FIRST);
  gint64 bytes = messages->costs->message_bytes[program->steps[step].transfer];
  gint64 sent_ns, arrived_ns, posted_ns = simulation->end_ns[message->posted];

  if (bytes == 0)
    return;
  ps_simulation_transfer (program, messages->costs, simulation, step, &sent_ns, &arrived_ns);
  messages->steps[message->producer].at_end += bytes;
  insert (messages, message->sender, 2 * arrived_ns, -bytes);
  if (message->posted == 0 || posted_ns > sent_ns)
    insert (messages, message->receiver, 2 * MIN (posted_ns, sent_ns) + 1, bytes);
  else
    messages->steps[message->posted - 1].at_end += bytes;
  *(message->op.kind == PS_OP_F ? &messages->steps[last].at_start : &messages->steps[last].at_end) -= bytes;
}

/* Weights are dropped when the op before has ended. Each device's list is then put in order. */
static void
hold_weights (const Messages *messages, const PsMemoryBuffers *buffers)
{
  const PsProgram *program = messages->program;
  g_auto (PsGathers) gathers = { 0 };

  ps_gathers_init (&gathers, program);
  ps_gathers_follow (&gathers, program, messages->costs, messages->simulation);
  for (guint d = 0; d < gathers.n_devices; d++)
    {
      PsBufferChange *changes = &buffers->changes[ps_memory_buffers_first (program, d)];

      for (guint i = gathers.first[d]; i < gathers.first[d + 1]; i++)
        {
          const PsGather *gather = &g_array_index (gathers.gather, PsGather, i);
          gint64 bytes = messages->costs->stage[gather->stage].whole_bytes;
          gint64 until_ns = messages->simulation->end_ns[program->step_of[gather->until - 1] + 1];

          *messages->next[d]++ = (PsBufferChange){ 2 * gather->start_ns + 1, bytes, PS_MEMORY_WEIGHTS };
          *messages->next[d]++ = (PsBufferChange){ 2 * until_ns, -bytes, PS_MEMORY_WEIGHTS };
        }
      qsort (changes, (gsize)(messages->next[d] - changes), sizeof *changes, ps_compare_int64); /* their first member */
    }
}

/* A device has at most one change in its list for each of its sends and receives, and two for each op, whose
 * weights come and go; a step has at most four instructions together with its message. */
void
ps_memory_buffers_init (PsMemoryBuffers *buffers, const PsProgram *program, const PsCosts *costs,
                        const PsSimulation *simulation)
{
  guint n_devices = simulation->n_devices;
  gsize n = 5 * (gsize)simulation->n_steps + 2 * n_devices, steps_size = simulation->n_steps * sizeof *buffers->steps;
  g_autofree PsBufferChange **next = g_new (PsBufferChange *, n_devices);

  if (buffers->steps == NULL)
    buffers->steps = g_malloc (steps_size + n * sizeof *buffers->changes);
  buffers->changes = (PsBufferChange *)&buffers->steps[simulation->n_steps];
  memset (buffers->steps, 0, steps_size);
  for (guint device = 0; device < n_devices; device++)
    {
      next[device] = &buffers->changes[ps_memory_buffers_first (program, device)];
      next[device][-1].moment = G_MININT64;
    }
  const Messages messages = { program, costs, simulation, buffers->steps, next };
  for (guint i = 0; i < program->n_messages; i++)
    add_message (&messages, &program->messages[i]);
  if (costs->zero == 3)
    hold_weights (&messages, buffers);
  for (guint device = 0; device < n_devices; device++)
    next[device]->moment = G_MAXINT64;
}

void
ps_memory_buffers_clear (PsMemoryBuffers *buffers)
{
  g_free (buffers->steps);
}

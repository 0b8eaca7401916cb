/* memory-buffers.c - the messages of a program as changes of memory at sender and receiver. */
#include "memory-buffers.h"

#include "gathers.h"

#include <stdlib.h>

typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation;
  PsBufferChange **next; /* [n_devices] next free give */
  gsize takes;           /* from a give to its take */
} Messages;

/* Keeps a list in the order of time. Messages come nearly so: few pass another, and most of these only one. */
static inline void
insert (PsBufferChange *next, gint64 time_ns, gint64 bytes)
{
  for (; next[-1].time_ns > time_ns; next--)
    next[0] = next[-1];
  *next = (PsBufferChange){ time_ns, bytes, PS_MEMORY_BUFFERS };
}

static inline void
occupy (const Messages *messages, guint device, gint64 from_ns, gint64 until_ns, gint64 bytes)
{
  PsBufferChange *give = messages->next[device];

  if (from_ns >= until_ns || bytes == 0)
    return;
  messages->next[device] = give + 1;
  insert (give + messages->takes, from_ns, bytes);
  insert (give, until_ns, -bytes);
}

/* The receiver's buffer is there when its stream has come to the receive. */
static inline void
add_message (const Messages *messages, const PsMessage *message)
{
  const PsProgram *program = messages->program;
  const PsSimulation *simulation = messages->simulation;
  guint step = message->consumer, last = step + (program->pair != NULL && program->pair[step] == PS_PAIR_FIRST);
  gint64 bytes = messages->costs->message_bytes[program->steps[step].transfer];
  gint64 sent_ns, arrived_ns, posted_ns = simulation->end_ns[message->posted];
  gboolean forward = message->op.kind == PS_OP_F;

  ps_simulation_transfer (program, messages->costs, simulation, step, &sent_ns, &arrived_ns);
  occupy (messages, message->sender, simulation->end_ns[message->producer + 1], arrived_ns, bytes);
  occupy (messages, message->receiver, MIN (posted_ns, sent_ns),
          forward ? ps_simulation_start (program, messages->costs, simulation, last) : simulation->end_ns[last + 1],
          bytes);
}

/* Weights or gradients of a stage: in no order yet. */
static void
hold (const Messages *messages, guint device, PsMemoryPart part, guint stage, gint64 from_ns, gint64 until_ns)
{
  gint64 bytes = messages->costs->stage[stage].whole_bytes;
  PsBufferChange *give = messages->next[device]++;

  give[messages->takes] = (PsBufferChange){ from_ns, bytes, part };
  give[0] = (PsBufferChange){ until_ns, -bytes, part };
}

typedef struct
{
  const Messages *messages;
  guint device;
} Holder;

static void
hold_gradients (gpointer data, guint stage, gint64 from_ns, gint64 until_ns)
{
  const Holder *holder = data;

  hold (holder->messages, holder->device, PS_MEMORY_GRADIENTS, stage, from_ns, until_ns);
}

/* Weights are dropped when the op before has ended. */
static void
hold_weights (const Messages *messages)
{
  const PsProgram *program = messages->program;
  g_auto (PsGathers) gathers = { 0 };

  ps_gathers_init (&gathers, program);
  ps_gathers_follow (&gathers, program, messages->costs, messages->simulation);
  for (guint d = 0; d < gathers.n_devices; d++)
    for (guint i = gathers.first[d]; i < gathers.first[d + 1]; i++)
      {
        const PsGather *gather = &g_array_index (gathers.gather, PsGather, i);

        hold (messages, d, PS_MEMORY_WEIGHTS, gather->stage, gather->start_ns,
              messages->simulation->end_ns[program->step_of[gather->until - 1] + 1]);
      }
}

static void
add_spread_state (const Messages *messages, const PsMemoryBuffers *buffers)
{
  for (guint d = 0; messages->costs->zero == 2 && d < messages->simulation->n_devices; d++)
    ps_scatters_visit (messages->program, messages->costs, messages->simulation, d, hold_gradients,
                       &(Holder){ messages, d });
  if (messages->costs->zero == 3)
    hold_weights (messages);
  for (guint d = 0; d < messages->simulation->n_devices; d++)
    {
      PsBufferChange *gives = &buffers->gives[ps_memory_buffers_first (messages->program, d)];
      gsize n = (gsize)(messages->next[d] - gives);

      qsort (&gives[messages->takes], n, sizeof *gives, ps_compare_int64); /* their first member */
      qsort (gives, n, sizeof *gives, ps_compare_int64);
    }
}

/* A device has at most one give and one take for each of its sends and receives, and one for each op, whose gradients
 * or weights come and go; a step has at most four instructions together with its message. */
void
ps_memory_buffers_init (PsMemoryBuffers *buffers, const PsProgram *program, const PsCosts *costs,
                        const PsSimulation *simulation)
{
  const PsBufferChange before = { .time_ns = G_MININT64 }, after = { .time_ns = G_MAXINT64 };
  guint n_devices = simulation->n_devices;
  gsize n = 4 * (gsize)simulation->n_steps + 2 * n_devices + 1;
  g_autofree PsBufferChange **next = g_new (PsBufferChange *, n_devices);
  const Messages messages = { program, costs, simulation, next, n };

  if (buffers->gives == NULL)
    buffers->gives = g_new (PsBufferChange, 2 * n);
  buffers->takes = buffers->gives + n;
  for (guint device = 0; device < n_devices; device++)
    {
      next[device] = &buffers->gives[ps_memory_buffers_first (program, device)];
      next[device][-1] = next[device][(gssize)n - 1] = before;
    }
  for (guint i = 0; i < program->n_messages; i++)
    add_message (&messages, &program->messages[i]);
  if (costs->zero >= 2)
    add_spread_state (&messages, buffers);
  for (guint device = 0; device < n_devices; device++)
    next[device][0] = next[device][n] = after;
}

void
ps_memory_buffers_clear (PsMemoryBuffers *buffers)
{
  g_free (buffers->gives);
}

/* memory-buffers.c - the messages of a program as changes of memory at sender and receiver. */
#include "memory-buffers.h"

typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation;
  const PsMemoryBuffers *buffers;
  guint *fill; /* [n_devices] next free give and take */
} Messages;

/* Keeps a list in the order of time. Messages come nearly so: few pass another, and most of these only one. */
static inline void
insert (PsBufferChange *next, gint64 time_ns, gint64 bytes)
{
  for (; next[-1].time_ns > time_ns; next--)
    next[0] = next[-1];
  *next = (PsBufferChange){ time_ns, bytes };
}

static inline void
occupy (const Messages *messages, guint device, gint64 from_ns, gint64 until_ns, gint64 bytes)
{
  guint i = messages->fill[device];

  if (from_ns >= until_ns || bytes == 0)
    return;
  messages->fill[device]++;
  insert (&messages->buffers->takes[i], from_ns, bytes);
  insert (&messages->buffers->gives[i], until_ns, -bytes);
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

/* A device has at most one give and one take for each of its sends and receives; a step has at most four instructions
 * together with its message. */
void
ps_memory_buffers_init (PsMemoryBuffers *buffers, const PsProgram *program, const PsCosts *costs,
                        const PsSimulation *simulation)
{
  const PsBufferChange before = { G_MININT64, 0 }, after = { G_MAXINT64, 0 };
  guint n_devices = simulation->n_devices;
  gsize n = 4 * (gsize)simulation->n_steps + 2 * n_devices + 1;
  g_autofree guint *fill = g_new (guint, n_devices);
  const Messages messages = { program, costs, simulation, buffers, fill };

  if (buffers->gives == NULL)
    buffers->gives = g_new (PsBufferChange, 2 * n);
  buffers->takes = buffers->gives + n;
  for (guint device = 0; device < n_devices; device++)
    {
      fill[device] = ps_memory_buffers_first (program, device);
      buffers->gives[fill[device] - 1] = buffers->takes[fill[device] - 1] = before;
    }
  for (guint i = 0; i < program->n_messages; i++)
    add_message (&messages, &program->messages[i]);
  for (guint device = 0; device < n_devices; device++)
    buffers->gives[fill[device]] = buffers->takes[fill[device]] = after;
}

void
ps_memory_buffers_clear (PsMemoryBuffers *buffers)
{
  g_free (buffers->gives);
}

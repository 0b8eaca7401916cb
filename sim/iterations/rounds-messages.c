/* rounds-messages.c - a round in which transfers queue on channels, are eager, or hold up devices: the conditions of
 * events.h as arcs. The message that a step waits for has two events: it is sent, which takes its time, and it is
 * received, which takes none. */
#include "rounds-private.h"

/* One end of a channel, as a device sees it: what is the first and the last to hold it in this round. */
typedef struct
{
  guint peer;             /* G_MAXUINT: any */
  PsInstructionType type; /* PS_INSTRUCTION_COMPUTE: both sends and receives */
  guint head;
  guint tail;
} End;

typedef struct
{
  PsRounds *rounds;
  guint32 *consumer; /* [2 * n_cells] 1 + step that waits for the message of a forward, of a backward; 0: none */
  gsize n_cells;
  GArray **ends; /* [n_devices] End */
} Walk;

static void
walk_clear (Walk *walk)
{
  for (guint device = 0; device < walk->rounds->program->schedule->placement->n_devices; device++)
    g_array_unref (walk->ends[device]);
  g_free (walk->ends);
  g_free (walk->consumer);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Walk, walk_clear)

static guint32 *
consumer_of (const Walk *walk, PsOp producer)
{
  const PsSchedule *schedule = walk->rounds->program->schedule;
  gsize cell
      = ((gsize)producer.stage * schedule->n_microbatches + producer.microbatch) * schedule->n_slices + producer.slice;
  return &walk->consumer[(producer.kind != PS_OP_F) * walk->n_cells + cell];
}

static guint
sent_event (const Walk *walk, guint step)
{
  return walk->rounds->events.first_message + 2 * step;
}

static guint
received_event (const Walk *walk, guint step)
{
  return sent_event (walk, step) + 1;
}

static gboolean
is_eager (const Walk *walk, guint step)
{
  const PsRounds *rounds = walk->rounds;
  gint64 bytes = rounds->costs->message_bytes[rounds->program->steps[step].transfer];
  return bytes > 0 && bytes <= rounds->setting->eager_bytes;
}

/* Data, duration and arrival; who waits for what on the ends comes with the instructions. */
static void
add_message (Walk *walk, guint step)
{
  PsRounds *rounds = walk->rounds;
  const PsProgram *program = rounds->program;
  const PsStep *what = &program->steps[step];
  const gint64 *transfer_ns = rounds->setting->transfer_ns;
  guint sent = sent_event (walk, step), received = received_event (walk, step), producer = what->input - 1;
  guint tokens = rounds->drain.ahead[program->op_of[producer]] - rounds->drain.ahead[program->op_of[step]];
  *consumer_of (walk, ps_program_producer (program, step)) = step + 1;
  ps_event_graph_set_duration (rounds->graph, sent,
                               transfer_ns ? transfer_ns[step] : rounds->costs->transfer_ns[what->transfer]);
  ps_event_graph_wait (rounds->graph, sent, producer, 0, 0);
  ps_event_graph_wait (rounds->graph, received, sent, 0, 0);
  ps_event_graph_wait (rounds->graph, step, received, tokens, 0);
}

static End *
find_end (Walk *walk, guint device, guint peer, PsInstructionType type)
{
  PsChannel channel = walk->rounds->setting->comm;
  const End wanted = { .peer = channel == PS_CHANNEL_RANK ? G_MAXUINT : peer,
                       .type = channel == PS_CHANNEL_DIRECTION ? type : PS_INSTRUCTION_COMPUTE,
                       .head = PS_NO_EVENT,
                       .tail = PS_NO_EVENT };
  GArray *ends = walk->ends[device];
  for (guint i = 0; i < ends->len; i++)
    {
      End *end = &g_array_index (ends, End, i);
      if (end->peer == wanted.peer && end->type == wanted.type)
        return end;
    }
  g_array_append_val (ends, wanted);
  return &g_array_index (ends, End, ends->len - 1);
}

/* The device's next send or receive. What waits for its turn is the sending, unless the receiver of an eager message
 * takes it from where it has arrived. */
static void
add_instruction (Walk *walk, guint device, guint peer, PsInstructionType type, guint step)
{
  PsRounds *rounds = walk->rounds;
  gboolean receives = type == PS_INSTRUCTION_RECEIVE;
  guint holds = receives ? received_event (walk, step) : sent_event (walk, step);
  guint waits = receives && is_eager (walk, step) ? holds : sent_event (walk, step);
  if (rounds->setting->blocking)
    {
      ps_rounds_follow (rounds, device, waits);
      rounds->last[device] = holds;
    }
  if (rounds->setting->comm == PS_CHANNEL_LATENCY)
    return;
  End *end = find_end (walk, device, peer, type);
  if (end->tail == PS_NO_EVENT)
    end->head = waits;
  else
    ps_event_graph_wait (rounds->graph, waits, end->tail, 0, 0);
  end->tail = holds;
}

/* As the program orders them. */
static void
walk_instructions (Walk *walk, guint device)
{
  const PsProgram *program = walk->rounds->program;
  guint op = program->schedule->first[device];
  for (guint i = program->first[device]; i < program->first[device + 1]; i++)
    {
      const PsInstruction *instruction = &program->instructions[i];
      if (instruction->type == PS_INSTRUCTION_COMPUTE)
        ps_rounds_add_op (walk->rounds, op++);
      else if (instruction->type != PS_INSTRUCTION_WAIT)
        add_instruction (walk, device, instruction->peer, (PsInstructionType)instruction->type,
                         *consumer_of (walk, instruction->op) - 1);
    }
}

/* As PS_COMM_ASAP would order them were the round a schedule: its ops stand otherwise than in the program. */
static void
walk_drain (Walk *walk)
{
  const PsProgram *program = walk->rounds->program;
  for (guint i = 0; i < program->n_steps; i++)
    {
      guint op = walk->rounds->drain.sequence[i];
      guint device = program->steps[program->step_of[op]].device;
      gboolean makes = program->schedule->ops[op].kind != PS_OP_W;
      guint32 consumer = makes ? *consumer_of (walk, program->schedule->ops[op]) : 0;
      ps_rounds_add_op (walk->rounds, op);
      if (consumer == 0)
        continue;
      guint peer = program->steps[consumer - 1].device;
      add_instruction (walk, device, peer, PS_INSTRUCTION_SEND, consumer - 1);
      add_instruction (walk, peer, device, PS_INSTRUCTION_RECEIVE, consumer - 1);
    }
}

/* The first in a round comes behind the last of the round before. */
static void
close_ends (Walk *walk, guint device)
{
  for (guint i = 0; i < walk->ends[device]->len; i++)
    {
      const End *end = &g_array_index (walk->ends[device], End, i);
      ps_event_graph_wait (walk->rounds->graph, end->head, end->tail, 1, 0);
    }
}

void
ps_rounds_add_messages (PsRounds *rounds)
{
  const PsProgram *program = rounds->program;
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  g_auto (Walk) walk = { .rounds = rounds };
  walk.n_cells = (gsize)schedule->placement->n_stages * schedule->n_microbatches * schedule->n_slices;
  walk.consumer = g_new0 (guint32, 2 * walk.n_cells);
  walk.ends = g_new (GArray *, n_devices);
  for (guint device = 0; device < n_devices; device++)
    walk.ends[device] = g_array_new (FALSE, FALSE, sizeof (End));
  for (guint i = 0; i < program->n_steps; i++)
    if (program->steps[i].input)
      add_message (&walk, i);
  if (schedule->asynchronous)
    walk_drain (&walk);
  else
    for (guint device = 0; device < n_devices; device++)
      walk_instructions (&walk, device);
  for (guint device = 0; device < n_devices; device++)
    close_ends (&walk, device);
}

/* program-order.c - where sends and receives stand in the streams. Every device keeps to one order of all transfers, or
 * the schedule has an order of its own, or receives stand right before they are needed. */
#include "names.h"
#include "program-private.h"

PS_DEFINE_NAMES (PsCommOrder, ps_comm_order, "asap", "deferred", "planned")

/* Notes that a send or receive stands at `place`. last: 1 + step of the op before it; 0: none. */
static inline void
note_place (PsProgram *program, const PsInstruction *instruction, guint place, guint32 last)
{
  guint index = instruction->message - 1;

  if (instruction->type == PS_INSTRUCTION_SEND)
    {
      program->places[index].send = place;
      return;
    }
  program->places[index].receive = place;
  program->messages[index].posted = last;
}

void
ps_program_note_places (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;

  for (guint device = 0; device < schedule->placement->n_devices; device++)
    {
      guint32 last = 0;
      guint op = schedule->first[device];

      for (guint i = program->first[device]; i < program->first[device + 1]; i++)
        {
          const PsInstruction *instruction = &program->instructions[i];

          if (instruction->type == PS_INSTRUCTION_COMPUTE)
            last = program->step_of[op++] + 1;
          else if (ps_instruction_is_post (instruction))
            note_place (program, instruction, i, last);
        }
    }
}

/* The streams while they are written from the table, all at once. */
typedef struct
{
  PsProgram *program;
  guint *fill;   /* [n_devices] next free instruction */
  guint32 *last; /* [n_devices] 1 + last step; 0: none */
} Streams;

static inline void
emit (const Streams *streams, guint device, PsInstruction instruction)
{
  guint place = streams->fill[device]++;

  streams->program->instructions[place] = instruction;
  if (ps_instruction_is_post (&instruction))
    note_place (streams->program, &instruction, place, streams->last[device]);
}

static inline void
emit_wait (const Streams *streams, guint device, guint32 message)
{
  const PsProgram *program = streams->program;

  if (message == 0)
    return;
  if (program->order == PS_COMM_DEFERRED)
    emit (streams, device, ps_program_instruction (program, PS_INSTRUCTION_RECEIVE, message));
  emit (streams, device, ps_program_instruction (program, PS_INSTRUCTION_WAIT, message));
}

static inline void
emit_transfer (const Streams *streams, guint32 message)
{
  const PsProgram *program = streams->program;
  const PsMessage *about = &program->messages[message - 1];

  emit (streams, about->sender, ps_program_instruction (program, PS_INSTRUCTION_SEND, message));
  if (program->order != PS_COMM_DEFERRED)
    emit (streams, about->receiver, ps_program_instruction (program, PS_INSTRUCTION_RECEIVE, message));
}

/* Messages stand in the order of their producers, and steps in that in which devices came to them. */
void
ps_program_stream (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  g_autofree guint *fill = g_memdup2 (program->first, n_devices * sizeof *fill);
  g_autofree guint32 *last = g_new0 (guint32, n_devices);
  const Streams streams = { program, fill, last };
  guint32 message = 1;

  for (guint i = 0, n; i < program->n_steps; i += n)
    {
      guint device = program->steps[i].device;

      n = program->pair != NULL && program->pair[i] == PS_PAIR_FIRST ? 2 : 1;
      for (guint k = i; k < i + n; k++)
        emit_wait (&streams, device, program->message_of[k]);
      for (guint k = i; k < i + n; k++)
        emit (&streams, device,
              (PsInstruction){
                  .type = PS_INSTRUCTION_COMPUTE, .peer = (guint16)device, .op = schedule->ops[program->op_of[k]] });
      last[device] = i + n;
      for (; message <= program->n_messages && program->messages[message - 1].producer < i + n; message++)
        emit_transfer (&streams, message);
    }
}

typedef struct
{
  gint64 start_ns;
  gint64 end_ns;
  guint32 consumer;
  guint32 message; /* counted from 1 */
} Transfer;

static int
compare_transfers (gconstpointer a, gconstpointer b)
{
  const Transfer *x = a, *y = b;

  return x->start_ns != y->start_ns ? PS_COMPARE (x->start_ns, y->start_ns)
         : x->end_ns != y->end_ns   ? PS_COMPARE (x->end_ns, y->end_ns)
                                    : PS_COMPARE (x->consumer, y->consumer);
}

static GArray *
order_transfers (const PsProgram *program, const gint64 *start_ns, const gint64 *end_ns)
{
  GArray *transfers = g_array_sized_new (FALSE, FALSE, sizeof (Transfer), program->n_messages);

  for (guint i = 0; i < program->n_messages; i++)
    {
      guint32 consumer = program->messages[i].consumer;
      Transfer transfer = { start_ns[consumer], end_ns[consumer], consumer, i + 1 };

      g_array_append_val (transfers, transfer);
    }
  g_array_sort (transfers, compare_transfers);
  return transfers;
}

/* The stream of one device while it is written again. */
typedef struct
{
  PsProgram *program;
  const gint64 *op_end_ns;
  guint8 *received; /* [n_messages] whether the receive is in its stream */
  guint next;       /* op of the schedule */
  guint fill;       /* instruction */
} Stream;

static void
append (Stream *stream, PsInstructionType type, guint32 message)
{
  stream->program->instructions[stream->fill++] = ps_program_instruction (stream->program, type, message);
}

/* The next op, or pair, after the waits for its inputs. */
static void
append_ops (Stream *stream, guint device)
{
  const PsProgram *program = stream->program;
  const PsOp *ops = &program->schedule->ops[stream->next];
  guint n = ops->paired ? 2 : 1;

  for (guint i = 0; i < n; i++)
    {
      guint32 message = program->message_of[program->step_of[stream->next + i]];

      if (message != 0)
        append (stream, PS_INSTRUCTION_WAIT, message);
    }
  for (guint i = 0; i < n; i++)
    program->instructions[stream->fill++]
        = (PsInstruction){ .type = PS_INSTRUCTION_COMPUTE, .peer = (guint16)device, .op = ops[i] };
  stream->next += n;
}

static void
append_send (Stream *stream, guint32 message)
{
  const PsProgram *program = stream->program;
  const PsMessage *sent = &program->messages[message - 1];

  while (stream->next <= program->op_of[sent->producer])
    append_ops (stream, sent->sender);
  append (stream, PS_INSTRUCTION_SEND, message);
}

/* Whether the next op, or pair, comes before the receive: it had ended. Ops and transfers that take no time may all
 * fall into one instant. Then the messages that the op waits for must have been received before. */
static gboolean
goes_first (const Stream *stream, const Transfer *transfer)
{
  const PsProgram *program = stream->program;
  guint last = stream->next + (program->schedule->ops[stream->next].paired ? 1 : 0);

  if (last >= program->op_of[transfer->consumer] || stream->op_end_ns[program->step_of[last] + 1] > transfer->start_ns)
    return FALSE;
  for (guint i = stream->next; i <= last; i++)
    {
      guint32 message = program->message_of[program->step_of[i]];

      if (message != 0 && !stream->received[message - 1])
        return FALSE;
    }
  return TRUE;
}

static void
append_receive (Stream *stream, const Transfer *transfer)
{
  while (stream->op_end_ns != NULL && goes_first (stream, transfer))
    append_ops (stream, stream->program->messages[transfer->message - 1].receiver);
  append (stream, PS_INSTRUCTION_RECEIVE, transfer->message);
  stream->received[transfer->message - 1] = TRUE;
}

void
ps_program_arrange (PsProgram *program, const gint64 *start_ns, const gint64 *end_ns, const gint64 *op_end_ns)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  g_autoptr (GArray) transfers = order_transfers (program, start_ns, end_ns);
  g_autofree Stream *streams = g_new (Stream, n_devices);
  g_autofree guint8 *received = g_new0 (guint8, program->n_messages + 1);

  for (guint device = 0; device < n_devices; device++)
    streams[device] = (Stream){ program, op_end_ns, received, schedule->first[device], program->first[device] };
  for (guint i = 0; i < transfers->len; i++)
    {
      const Transfer *transfer = &g_array_index (transfers, Transfer, i);
      const PsMessage *message = &program->messages[transfer->message - 1];

      append_send (&streams[message->sender], transfer->message);
      append_receive (&streams[message->receiver], transfer);
    }
  for (guint device = 0; device < n_devices; device++)
    {
      while (streams[device].next < schedule->first[device + 1])
        append_ops (&streams[device], device);
      g_assert (streams[device].fill == program->first[device + 1]);
    }
  ps_program_note_places (program);
}

void
ps_program_arrange_units (PsProgram *program)
{
  g_autofree gint64 *end = g_new (gint64, (gsize)program->n_steps + 1);
  g_autofree gint64 *arrival = g_new (gint64, program->n_steps);
  const PsOp *ops = program->schedule->ops;

  end[0] = 0;
  for (guint i = 0; i < program->n_steps; i++)
    {
      const PsStep *step = &program->steps[i];
      gint64 length = ops[program->op_of[i]].kind == PS_OP_BW ? 2 : 1;

      arrival[i] = end[step->input];
      end[i + 1] = MAX (end[step->previous], arrival[i]) + length;
    }
  ps_program_arrange (program, arrival, arrival, NULL);
}

/* The message that carries each result (ps_schedule_result), counted from 1; 0: no message. */
static guint32 *
index_messages (const PsProgram *program)
{
  guint32 *index = g_new0 (guint32, 2 * ps_schedule_n_cells (program->schedule));

  for (guint i = 0; i < program->n_messages; i++)
    index[ps_schedule_result (program->schedule, program->messages[i].op)] = i + 1;
  return index;
}

void
ps_program_follow (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  g_autofree guint32 *messages = index_messages (program);
  guint n = 0;

  for (guint device = 0; device < schedule->placement->n_devices; device++)
    {
      Stream stream = { .program = program, .next = schedule->first[device], .fill = program->first[device] };

      for (; n < schedule->posts->len && g_array_index (schedule->posts, PsPost, n).device == device; n++)
        {
          const PsPost *post = &g_array_index (schedule->posts, PsPost, n);

          while (stream.next < post->place)
            append_ops (&stream, device);
          if (post->type < PS_POST_OTHER)
            append (&stream, post->type == PS_POST_SEND ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE,
                    messages[ps_schedule_result (schedule, post->op)]);
        }
      while (stream.next < schedule->first[device + 1])
        append_ops (&stream, device);
      g_assert (stream.fill == program->first[device + 1]);
    }
  ps_program_note_places (program);
}

/* Writes the held receive of the message waited for, and before it all earlier ones from the same sender. Returns where
 * the stream goes on. */
static guint
release (GArray *held, const PsInstruction *wait, PsInstruction *stream, guint fill)
{
  const PsInstruction *receives = (const PsInstruction *)(gconstpointer)held->data;
  guint end = held->len, n_kept = 0;

  while (end > 0 && receives[end - 1].message != wait->message)
    end--;
  for (guint i = 0; i < held->len; i++)
    if (i < end && receives[i].peer == wait->peer)
      stream[fill++] = receives[i];
    else
      g_array_index (held, PsInstruction, n_kept++) = receives[i];
  g_array_set_size (held, n_kept);
  return fill;
}

void
ps_program_hold_receives (PsProgram *program)
{
  g_autoptr (GArray) held = g_array_new (FALSE, FALSE, sizeof (PsInstruction));

  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    {
      guint fill = program->first[device];

      for (guint i = fill; i < program->first[device + 1]; i++)
        {
          PsInstruction instruction = program->instructions[i];

          if (instruction.type == PS_INSTRUCTION_WAIT)
            fill = release (held, &instruction, program->instructions, fill);
          if (instruction.type == PS_INSTRUCTION_RECEIVE)
            g_array_append_val (held, instruction);
          else
            program->instructions[fill++] = instruction;
        }
    }
  ps_program_note_places (program);
}

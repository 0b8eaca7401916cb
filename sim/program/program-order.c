/* program-order.c - where sends and receives stand in the streams: one order of all transfers that every device keeps
 * to, the order of a schedule's own, or receives right before they are needed. */
#include "names.h"
#include "program-private.h"

#include <string.h>

PS_DEFINE_NAMES (PsCommOrder, ps_comm_order, "asap", "deferred", "planned")

/* One transfer: the input of step. */
typedef struct
{
  gint64 start_ns;
  gint64 end_ns;
  guint32 producer; /* step */
  guint32 step;
} Transfer;

static int
compare_transfers (gconstpointer a, gconstpointer b)
{
  const Transfer *x = a, *y = b;

  if (x->start_ns != y->start_ns)
    return x->start_ns < y->start_ns ? -1 : 1;
  if (x->end_ns != y->end_ns)
    return x->end_ns < y->end_ns ? -1 : 1;
  return x->step < y->step ? -1 : x->step > y->step;
}

static GArray *
order_transfers (const PsProgram *program, const gint64 *start_ns, const gint64 *end_ns)
{
  GArray *transfers = g_array_new (FALSE, FALSE, sizeof (Transfer));

  for (guint i = 0; i < program->n_steps; i++)
    if (program->steps[i].input != 0)
      {
        Transfer transfer = { start_ns[i], end_ns[i], program->steps[i].input - 1, i };

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
  guint8 *received; /* [n_steps] the receive of the step's input is in its stream */
  guint next;       /* op of the schedule */
  guint fill;       /* instruction */
} Stream;

static void
append (Stream *stream, PsInstructionType type, guint peer, PsOp op)
{
  stream->program->instructions[stream->fill++]
      = (PsInstruction){ .type = (guint8)type, .peer = (guint16)peer, .op = op };
}

/* The next op, or pair, behind the waits for its inputs. */
static void
append_ops (Stream *stream, guint device)
{
  const PsProgram *program = stream->program;
  const PsOp *ops = &program->schedule->ops[stream->next];
  guint n = ops->paired ? 2 : 1;

  for (guint i = 0; i < n; i++)
    {
      guint step = program->step_of[stream->next + i], input = program->steps[step].input;

      if (input != 0)
        append (stream, PS_INSTRUCTION_WAIT, program->steps[input - 1].device, ps_program_producer (program, step));
    }
  for (guint i = 0; i < n; i++)
    append (stream, PS_INSTRUCTION_COMPUTE, device, ops[i]);
  stream->next += n;
}

static void
append_send (Stream *stream, guint device, const Transfer *transfer)
{
  const PsProgram *program = stream->program;

  while (stream->next <= program->op_of[transfer->producer])
    append_ops (stream, device);
  append (stream, PS_INSTRUCTION_SEND, program->steps[transfer->step].device,
          ps_program_producer (program, transfer->step));
}

/* Whether the next op, or pair, stands in front of the receive: it had ended. Ops and transfers that take no time may
 * all fall into one instant: then what it waits for itself must be in front already. */
static gboolean
goes_first (const Stream *stream, const Transfer *transfer)
{
  const PsProgram *program = stream->program;
  guint last = stream->next + (program->schedule->ops[stream->next].paired ? 1 : 0);

  if (last >= program->op_of[transfer->step] || stream->op_end_ns[program->step_of[last] + 1] > transfer->start_ns)
    return FALSE;
  for (guint i = stream->next; i <= last; i++)
    if (program->steps[program->step_of[i]].input != 0 && !stream->received[program->step_of[i]])
      return FALSE;
  return TRUE;
}

static void
append_receive (Stream *stream, guint device, const Transfer *transfer)
{
  const PsProgram *program = stream->program;

  while (stream->op_end_ns && goes_first (stream, transfer))
    append_ops (stream, device);
  append (stream, PS_INSTRUCTION_RECEIVE, program->steps[transfer->producer].device,
          ps_program_producer (program, transfer->step));
  stream->received[transfer->step] = TRUE;
}

void
ps_program_arrange (PsProgram *program, const gint64 *start_ns, const gint64 *end_ns, const gint64 *op_end_ns)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  g_autoptr (GArray) transfers = order_transfers (program, start_ns, end_ns);
  g_autofree Stream *streams = g_new (Stream, n_devices);
  g_autofree guint8 *received = g_new0 (guint8, program->n_steps);

  for (guint device = 0; device < n_devices; device++)
    streams[device] = (Stream){ program, op_end_ns, received, schedule->first[device], program->first[device] };
  for (guint i = 0; i < transfers->len; i++)
    {
      const Transfer *transfer = &g_array_index (transfers, Transfer, i);
      guint from = program->steps[transfer->producer].device, to = program->steps[transfer->step].device;

      append_send (&streams[from], from, transfer);
      append_receive (&streams[to], to, transfer);
    }
  for (guint device = 0; device < n_devices; device++)
    {
      while (streams[device].next < schedule->first[device + 1])
        append_ops (&streams[device], device);
      g_assert (streams[device].fill == program->first[device + 1]);
    }
  ps_program_note_posts (program);
}

void
ps_program_arrange_units (PsProgram *program)
{
  g_autofree gint64 *end = g_new (gint64, (gsize)program->n_steps + 1);
  g_autofree gint64 *arrival = g_new (gint64, program->n_steps);
  guint n_stages = program->schedule->placement->n_stages;

  end[0] = 0;
  for (guint i = 0; i < program->n_steps; i++)
    {
      const PsStep *step = &program->steps[i];
      gint64 length = step->cost / n_stages == PS_OP_BW ? 2 : 1;

      arrival[i] = end[step->input];
      end[i + 1] = MAX (end[step->previous], arrival[i]) + length;
    }
  ps_program_arrange (program, arrival, arrival, NULL);
}

/* The device at the other end of a post: the consumer's or the producer's. */
static guint
post_peer (const PsSchedule *schedule, const PsPost *post)
{
  guint consumer = post->op.kind == PS_OP_F ? post->op.stage + 1U : post->op.stage - 1U;

  return ps_schedule_device (schedule, post->type == PS_POST_SEND ? consumer : post->op.stage, post->op.microbatch);
}

void
ps_program_follow (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
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
                    post_peer (schedule, post), post->op);
        }
      while (stream.next < schedule->first[device + 1])
        append_ops (&stream, device);
      g_assert (stream.fill == program->first[device + 1]);
    }
  ps_program_note_posts (program);
}

/* Writes the held receive of the message waited for, and before it all of its sender's that were held before; returns
 * where the stream goes on. */
static guint
release (GArray *held, const PsInstruction *wait, PsInstruction *stream, guint fill)
{
  const PsInstruction *receives = (const PsInstruction *)(gconstpointer)held->data;
  guint end = held->len, n_kept = 0;

  while (end > 0 && memcmp (&receives[end - 1].op, &wait->op, sizeof wait->op) != 0)
    end--;
  for (guint i = 0; i < held->len; i++)
    if (i < end && receives[i].peer == wait->peer)
      stream[fill++] = receives[i];
    else
      g_array_index (held, PsInstruction, n_kept++) = receives[i];
  g_array_set_size (held, n_kept);
  return fill;
}

PsProgram *
ps_program_lower_untagged (PsSchedule *schedule, GError **error)
{
  PsProgram *program = ps_program_lower (schedule, PS_COMM_ASAP, error);
  g_autoptr (GArray) held = g_array_new (FALSE, FALSE, sizeof (PsInstruction));

  for (guint device = 0; program != NULL && device < program->schedule->placement->n_devices; device++)
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
  if (program != NULL)
    ps_program_note_posts (program);
  return program;
}

/* drain.c - interleaves the drain of one iteration with the warm-up of the next, and makes the streams of such a round.
 */
#include "drain.h"

#include <string.h>

/* Whether a backward begins there: with its R, where that stands before it. */
static gboolean
begins_backward (const PsOp *op)
{
  return (ps_op_is_backward (op[0]) || op[0].kind == PS_OP_R) && op[-1].kind != PS_OP_R;
}

/* The order of one device in a round, as indices into the schedule's ops. It begins with the device's first backward.
 * In its drain a forward of the warm-up stands after every backward and its W. */
static void
interleave (PsDrain *drain, const PsSchedule *schedule, guint device, guint32 *order)
{
  guint begin = schedule->first[device], end = schedule->first[device + 1], fill = begin;
  guint warm = begin, next, last = begin;

  for (next = begin; next < end && schedule->ops[next].kind == PS_OP_F; next++)
    drain->ahead[next] = 1;
  for (guint i = begin; i < end; i++)
    if (schedule->ops[i].kind == PS_OP_F)
      last = i;
  guint warm_end = next, drain_start = MAX (next, last + 1);
  for (guint i = next; i < end; i++)
    {
      if (i > drain_start && begins_backward (&schedule->ops[i]) && warm < warm_end)
        order[fill++] = warm++;
      order[fill++] = i;
    }
  while (warm < warm_end)
    order[fill++] = warm++;
}

/* Whether the op's input from another device is there, or comes from the round before. *possible turns FALSE where
 * it would come from the next round. */
static gboolean
is_ready (const PsDrain *drain, const PsProgram *program, const guint8 *placed, guint op, gboolean *possible)
{
  const PsStep *step = &program->steps[program->step_of[op]];

  if (step->input == 0)
    return TRUE;
  guint producer = program->op_of[step->input - 1];
  if (drain->ahead[producer] == drain->ahead[op])
    return placed[producer];
  *possible &= drain->ahead[producer] > drain->ahead[op];
  return TRUE;
}

/* Merges the devices' orders, which take turns; FALSE when they wait for each other in a circle. */
static gboolean
merge (PsDrain *drain, const PsProgram *program, const guint32 *order)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices, n = program->n_steps, fill = 0, before;
  g_autofree guint *next = g_memdup2 (schedule->first, n_devices * sizeof *next);
  g_autofree guint8 *placed = g_new0 (guint8, n);
  gboolean possible = TRUE;

  do
    {
      before = fill;
      for (guint device = 0; device < n_devices; device++)
        if (next[device] < schedule->first[device + 1]
            && is_ready (drain, program, placed, order[next[device]], &possible))
          {
            guint op = order[next[device]++];

            placed[op] = TRUE;
            drain->sequence[fill++] = op;
          }
    }
  while (possible && fill > before && fill < n);
  return possible && fill == n;
}

void
ps_drain_init (PsDrain *drain, const PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  guint n = program->n_steps;

  drain->sequence = g_new (guint32, n);
  drain->ahead = g_new0 (guint8, n);
  if (schedule->asynchronous && program->pair == NULL)
    {
      g_autofree guint32 *order = g_new (guint32, n);

      for (guint device = 0; device < schedule->placement->n_devices; device++)
        interleave (drain, schedule, device, order);
      if (merge (drain, program, order))
        return;
      memset (drain->ahead, 0, n);
    }
  memcpy (drain->sequence, program->op_of, n * sizeof *drain->sequence);
}

void
ps_drain_clear (PsDrain *drain)
{
  g_free (drain->sequence);
  g_free (drain->ahead);
}

void
ps_drain_walk (const PsDrain *drain, const PsProgram *program, PsDrainOp op, PsDrainMessage message, gpointer data)
{
  g_autofree guint32 *made = g_new0 (guint32, program->n_steps); /* 1 + the first message of each producer */

  for (guint32 i = program->n_messages; i-- > 0;)
    made[program->messages[i].producer] = i + 1;
  for (guint i = 0; i < program->n_steps; i++)
    {
      guint32 step = program->step_of[drain->sequence[i]], next = made[step];

      op (data, drain->sequence[i]);
      for (; next != 0 && next <= program->n_messages && program->messages[next - 1].producer == step; next++)
        message (data, next);
    }
}

/* The streams of a round while they are made. */
typedef struct
{
  const PsProgram *program;
  const PsDrain *drain;
  GArray **instructions; /* [n_devices] of PsInstruction */
  GByteArray **ahead;    /* [n_devices] */
} Streams;

static void
append (const Streams *streams, guint device, PsInstruction instruction, guint8 ahead)
{
  g_array_append_val (streams->instructions[device], instruction);
  g_byte_array_append (streams->ahead[device], &ahead, 1);
}

/* The op after the wait for its input. */
static void
append_op (gpointer data, guint op)
{
  const Streams *streams = data;
  const PsProgram *program = streams->program;
  guint32 step = program->step_of[op], waited = program->message_of[step];
  guint device = program->steps[step].device;
  guint8 ahead = streams->drain->ahead[op];

  if (waited != 0)
    {
      const PsMessage *message = &program->messages[waited - 1];

      append (streams, device,
              (PsInstruction){ PS_INSTRUCTION_WAIT, message->sender, .message = waited, .op = message->op }, ahead);
    }
  append (streams, device, (PsInstruction){ PS_INSTRUCTION_COMPUTE, (guint16)device, .op = program->schedule->ops[op] },
          ahead);
}

static void
append_message (gpointer data, guint32 number)
{
  const Streams *streams = data;
  const PsMessage *message = &streams->program->messages[number - 1];
  guint8 ahead = streams->drain->ahead[streams->program->op_of[message->producer]];

  append (streams, message->sender,
          (PsInstruction){ PS_INSTRUCTION_SEND, message->receiver, .message = number, .op = message->op }, ahead);
  append (streams, message->receiver,
          (PsInstruction){ PS_INSTRUCTION_RECEIVE, message->sender, .message = number, .op = message->op }, ahead);
}

/* Takes the device's streams over. */
static void
join (PsRound *round, const Streams *streams, guint device)
{
  GArray *instructions = streams->instructions[device];
  GByteArray *ahead = streams->ahead[device];
  guint first = round->first[device];

  g_assert (instructions->len == round->first[device + 1] - first);
  memcpy (round->instructions + first, instructions->data, instructions->len * sizeof (PsInstruction));
  memcpy (round->ahead + first, ahead->data, ahead->len);
  g_array_unref (instructions);
  g_byte_array_unref (ahead);
}

static void
drain_round (PsRound *round, const PsProgram *program, const PsDrain *drain)
{
  guint n_devices = program->schedule->placement->n_devices;
  g_autofree GArray **instructions = g_new (GArray *, n_devices);
  g_autofree GByteArray **ahead = g_new (GByteArray *, n_devices);
  Streams streams = { program, drain, instructions, ahead };

  for (guint i = 0; i < n_devices; i++)
    {
      instructions[i] = g_array_new (FALSE, FALSE, sizeof (PsInstruction));
      ahead[i] = g_byte_array_new ();
    }
  ps_drain_walk (drain, program, append_op, append_message, &streams);
  for (guint i = 0; i < n_devices; i++)
    join (round, &streams, i);
}

PsRound *
ps_round_new (const PsProgram *program)
{
  guint n_devices = program->schedule->placement->n_devices, n = program->first[n_devices];
  PsRound *round = g_new (PsRound, 1);
  g_auto (PsDrain) drain = { 0 };

  round->first = g_memdup2 (program->first, (n_devices + 1) * sizeof *round->first);
  round->instructions = g_memdup2 (program->instructions, n * sizeof *round->instructions);
  round->ahead = g_new0 (guint8, n);
  ps_drain_init (&drain, program);
  if (memchr (drain.ahead, 1, program->n_steps) != NULL)
    drain_round (round, program, &drain);
  return round;
}

void
ps_round_free (PsRound *round)
{
  if (round == NULL)
    return;
  g_free (round->first);
  g_free (round->instructions);
  g_free (round->ahead);
  g_free (round);
}

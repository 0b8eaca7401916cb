/* program.c - programs: the room that lowering fills, and the streams that follow. */
#include "large.h"
#include "program-private.h"

#include <string.h>

/* Counts the ops of each kind and stage. TRUE: there are pairs. */
static gboolean
count_ops (const PsSchedule *schedule, guint32 *count)
{
  guint n_ops = ps_schedule_n_ops (schedule), n_stages = schedule->placement->n_stages;
  gboolean pairs = FALSE;

  for (guint i = 0; i < n_ops; i++)
    {
      const PsOp *op = &schedule->ops[i];

      count[(ps_schedule_weight_copy (schedule, op->microbatch) * PS_N_OP_KINDS + op->kind) * n_stages + op->stage]++;
      pairs |= op->paired;
    }
  return pairs;
}

/* Counts the instructions of each device: its ops, a send for each result that leaves, a receive and a wait for each
 * that comes. Returns the number of messages. */
static guint
count_instructions (PsProgram *program)
{
  const PsPlacement *placement = program->schedule->placement;
  guint n_stages = placement->n_stages, n_kinds = placement->n_copies * PS_N_OP_KINDS, n_messages = 0;

  for (guint i = 0; i < n_kinds * n_stages; i++)
    {
      PsOp op = { .kind = (guint8)(i / n_stages % PS_N_OP_KINDS), .stage = (guint16)(i % n_stages) }, producer;
      guint copy = i / n_stages / PS_N_OP_KINDS, device = ps_placement_device (placement, copy, op.stage);
      gboolean has_input = ps_op_input (op, n_stages, &producer);

      program->first[device + 1] += program->count[i];
      if (!has_input || ps_placement_device (placement, copy, producer.stage) == device)
        continue;
      program->first[device + 1] += 2 * program->count[i];
      program->first[ps_placement_device (placement, copy, producer.stage) + 1] += program->count[i];
      n_messages += program->count[i];
    }
  for (guint device = 0; device < placement->n_devices; device++)
    program->first[device + 1] += program->first[device];
  return n_messages;
}

/* One block for all arrays whose length grows with the number of ops. The C library keeps a freed block for the next
 * program, where it would give several of this size back to the system. */
static void
allot (PsProgram *program, guint n_ops, guint n_messages, gboolean pairs)
{
  gsize per_op = sizeof (PsStep) + 3 * sizeof (guint32) + (pairs ? sizeof (guint8) : 0);

  gsize n_bytes = n_ops * per_op + n_messages * sizeof (PsMessage);

  program->steps = ps_large (g_malloc (n_bytes), n_bytes);
  program->messages = (PsMessage *)(program->steps + n_ops);
  program->step_of = (guint32 *)(program->messages + n_messages);
  program->op_of = program->step_of + n_ops;
  program->message_of = program->op_of + n_ops;
  program->pair = pairs ? memset (program->message_of + n_ops, PS_PAIR_NONE, n_ops) : NULL;
}

static void
allot_streams (PsProgram *program)
{
  guint n = program->first[program->schedule->placement->n_devices];
  gsize n_bytes = n * sizeof *program->instructions + program->n_messages * sizeof *program->places;

  program->instructions = ps_large (g_malloc (n_bytes), n_bytes);
  program->places = (PsPlaces *)(program->instructions + n);
}

static PsProgram *
program_new (PsSchedule *schedule, PsCommOrder order)
{
  guint n_ops = ps_schedule_n_ops (schedule);
  PsProgram *program = g_new0 (PsProgram, 1);

  program->schedule = schedule;
  program->order = order;
  program->n_lengths = 1;
  program->count
      = g_new0 (guint32, (gsize)schedule->placement->n_copies * PS_N_OP_KINDS * schedule->placement->n_stages);
  program->peak_activations = g_new0 (guint, schedule->placement->n_devices);
  program->first = g_new0 (guint, (gsize)schedule->placement->n_devices + 1);
  gboolean pairs = count_ops (schedule, program->count);
  guint n_messages = count_instructions (program);
  allot (program, n_ops, n_messages, pairs);
  return program;
}

/* A message has the number of its transfer among those of the first length. */
void
ps_program_set_lengths (PsProgram *program, guint n_lengths, const guint16 *length)
{
  PsSchedule *schedule = program->schedule;
  guint n_stages = schedule->placement->n_stages, n_ops = PS_N_OP_KINDS * n_lengths * n_stages;
  guint16 *lengths = g_memdup2 (length, ps_schedule_n_cells (schedule) * sizeof *length);

  g_free (schedule->length);
  schedule->length = lengths;
  schedule->n_lengths = program->n_lengths = n_lengths;
  program->count = g_renew (guint32, program->count, (gsize)schedule->placement->n_copies * n_ops);
  memset (program->count, 0, schedule->placement->n_copies * n_ops * sizeof *program->count);
  for (guint i = 0; i < program->n_steps; i++)
    {
      PsStep *step = &program->steps[i];
      PsOp op = schedule->ops[program->op_of[i]];

      step->cost = ps_program_cost (program, op);
      program->count[ps_schedule_weight_copy (schedule, op.microbatch) * n_ops + step->cost]++;
      if (step->transfer > 0)
        step->transfer = (guint16)(1 + (step->transfer - 1) % (2 * n_stages)
                                   + 2 * n_stages * lengths[ps_schedule_cell (schedule, op)]);
    }
}

/* `posted` of the messages is that of PS_COMM_ASAP so far. In other orders it follows from the streams. */
PsProgram *
ps_program_lower_steps (PsSchedule *schedule, PsCommOrder order, GError **error)
{
  g_autoptr (PsProgram) program = program_new (schedule, order);

  if (!ps_program_walk (program, error))
    return NULL;
  if (schedule->length != NULL)
    ps_program_set_lengths (program, schedule->n_lengths, schedule->length);
  if (order != PS_COMM_ASAP || schedule->posts != NULL)
    ps_program_add_streams (program);
  return g_steal_pointer (&program);
}

void
ps_program_add_streams (PsProgram *program)
{
  if (program->instructions != NULL)
    return;
  allot_streams (program);
  if (program->schedule->posts != NULL)
    ps_program_follow (program);
  else if (program->order == PS_COMM_PLANNED)
    ps_program_arrange_units (program);
  else
    ps_program_stream (program);
}

PsProgram *
ps_program_lower (PsSchedule *schedule, PsCommOrder order, GError **error)
{
  PsProgram *program = ps_program_lower_steps (schedule, order, error);

  if (program != NULL)
    ps_program_add_streams (program);
  return program;
}

PsProgram *
ps_program_lower_untagged (PsSchedule *schedule, GError **error)
{
  PsProgram *program = ps_program_lower (schedule, PS_COMM_ASAP, error);

  if (program != NULL)
    ps_program_hold_receives (program);
  return program;
}

void
ps_program_free (PsProgram *program)
{
  if (program == NULL)
    return;
  ps_schedule_free (program->schedule);
  g_free (program->steps);
  g_free (program->instructions);
  g_free (program->count);
  g_free (program->first);
  g_free (program->peak_activations);
  g_free (program);
}

const char *
ps_instruction_verb (PsInstructionType type)
{
  static const char *const verbs[] = { "", "SEND", "RECEIVE", "WAIT" };

  return verbs[type];
}

char *
ps_instruction_format (const PsInstruction *instruction)
{
  char name[48];

  ps_op_format (instruction->op, name);
  if (instruction->type == PS_INSTRUCTION_COMPUTE)
    return g_strdup (name);
  return g_strdup_printf ("%s %s %s device %u", ps_instruction_verb (instruction->type), name,
                          instruction->type == PS_INSTRUCTION_SEND ? "to" : "from", (guint)instruction->peer);
}

/* program-check.c - runs a program's instruction streams without time, under rendezvous semantics. */
#include <pipesim/program.h>

/* One end of a channel on one device: the communication instructions that it carries, in stream order. */
typedef struct
{
  GArray *queue; /* guint: instruction indices */
  guint head;
} End;

typedef struct
{
  const PsProgram *program;
  PsChannel channel;
  guint32 *partner; /* [n_instructions] 1 + the other end of a SEND or RECEIVE; the RECEIVE of a WAIT */
  End **end_of;     /* [n_instructions] NULL for compute and wait */
  GPtrArray *ends;
  guint *cursor;  /* [n_devices] instruction that the device has reached */
  gboolean *done; /* [n_instructions] transfers that took place */
} Run;

static void
end_free (gpointer data)
{
  End *end = data;
  g_array_unref (end->queue);
  g_free (end);
}

static void
run_clear (Run *run)
{
  g_free (run->partner);
  g_free (run->end_of);
  g_ptr_array_unref (run->ends);
  g_free (run->cursor);
  g_free (run->done);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

static guint
device_of (const PsProgram *program, guint index)
{
  guint low = 0, high = program->schedule->placement->n_devices;
  while (high - low > 1)
    {
      guint middle = (low + high) / 2;
      *(program->first[middle] <= index ? &low : &high) = middle;
    }
  return low;
}

static gboolean
fail (const PsProgram *program, guint index, const char *problem, GError **error)
{
  guint device = device_of (program, index);
  g_autofree char *text = ps_instruction_format (&program->instructions[index]);
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "device %u: instruction %u (%s): %s", device,
               index - program->first[device], text, problem);
  return FALSE;
}

/* Where the instruction of that type for that message is noted in index. */
static guint32 *
index_entry (const PsProgram *program, guint32 *index, PsOp op, guint type)
{
  const PsSchedule *schedule = program->schedule;
  gsize cell = ((gsize)op.stage * schedule->n_microbatches + op.microbatch) * schedule->n_slices + op.slice;
  return &index[(cell * 2 + (op.kind != PS_OP_F)) * 3 + type - PS_INSTRUCTION_SEND];
}

/* Notes 1 + index of every send, receive and wait; there may be one of each per message. */
static gboolean
index_messages (const PsProgram *program, guint32 *index, guint n, GError **error)
{
  for (guint i = 0; i < n; i++)
    {
      const PsInstruction *instruction = &program->instructions[i];
      if (instruction->type == PS_INSTRUCTION_COMPUTE)
        continue;
      guint32 *entry = index_entry (program, index, instruction->op, instruction->type);
      if (*entry != 0)
        return fail (program, i, "is there twice", error);
      *entry = i + 1;
    }
  return TRUE;
}

static gboolean
match (Run *run, guint32 *index, guint i, GError **error)
{
  static const guint partner_type[] = { 0, PS_INSTRUCTION_RECEIVE, PS_INSTRUCTION_SEND, PS_INSTRUCTION_RECEIVE };
  const PsProgram *program = run->program;
  const PsInstruction *instruction = &program->instructions[i];
  guint partner = *index_entry (program, index, instruction->op, partner_type[instruction->type]);
  if (partner == 0)
    return fail (program, i, instruction->type == PS_INSTRUCTION_RECEIVE ? "has no SEND" : "has no RECEIVE", error);
  guint other = device_of (program, partner - 1), own = device_of (program, i);
  if (instruction->type == PS_INSTRUCTION_WAIT)
    {
      if (other != own || partner - 1 > i)
        return fail (program, i, "has no RECEIVE in front of it", error);
    }
  else if (other != instruction->peer || program->instructions[partner - 1].peer != own)
    return fail (program, i, "does not meet its other end", error);
  run->partner[i] = partner;
  return TRUE;
}

/* Which of a device's channels a send or receive uses. */
static guint
channel_of (PsChannel channel, const PsInstruction *instruction)
{
  switch (channel)
    {
    case PS_CHANNEL_RANK:
      return 0;
    case PS_CHANNEL_PAIR:
      return instruction->peer;
    default:
      return 2U * instruction->peer + (instruction->type == PS_INSTRUCTION_SEND);
    }
}

static void
build_ends (Run *run, guint device)
{
  g_autoptr (GHashTable) ends = g_hash_table_new (NULL, NULL);
  for (guint i = run->program->first[device]; i < run->program->first[device + 1]; i++)
    {
      const PsInstruction *instruction = &run->program->instructions[i];
      if (instruction->type != PS_INSTRUCTION_SEND && instruction->type != PS_INSTRUCTION_RECEIVE)
        continue;
      gpointer key = GUINT_TO_POINTER (channel_of (run->channel, instruction));
      End *end = g_hash_table_lookup (ends, key);
      if (!end)
        {
          end = g_new0 (End, 1);
          end->queue = g_array_new (FALSE, FALSE, sizeof (guint));
          g_hash_table_insert (ends, key, end);
          g_ptr_array_add (run->ends, end);
        }
      g_array_append_val (end->queue, i);
      run->end_of[i] = end;
    }
}

/* Whether the instruction was reached by its device and is the next of its channel. */
static gboolean
at_head (const Run *run, guint i)
{
  const End *end = run->end_of[i];
  if (i >= run->cursor[device_of (run->program, i)])
    return FALSE;
  return run->channel == PS_CHANNEL_LATENCY || g_array_index (end->queue, guint, end->head) == i;
}

static void
complete (Run *run, guint i)
{
  run->done[i] = run->done[run->partner[i] - 1] = TRUE;
  run->end_of[i]->head++;
  run->end_of[run->partner[i] - 1]->head++;
}

/* Lets transfers happen from instruction i on along its channel, as far as they go. */
static gboolean
progress_end (Run *run, End *end)
{
  gboolean moved = FALSE;
  while (end->head < end->queue->len)
    {
      guint i = g_array_index (end->queue, guint, end->head);
      if (!at_head (run, i) || !at_head (run, run->partner[i] - 1))
        break;
      complete (run, i);
      moved = TRUE;
    }
  return moved;
}

/* Transfers of the latency model do not queue: each is done as soon as both ends were reached. */
static void
progress_message (Run *run, guint i)
{
  if (run->channel == PS_CHANNEL_LATENCY && !run->done[i] && at_head (run, i) && at_head (run, run->partner[i] - 1))
    run->done[i] = run->done[run->partner[i] - 1] = TRUE;
}

static gboolean
progress_device (Run *run, guint device)
{
  const PsProgram *program = run->program;
  gboolean moved = FALSE;
  for (guint i = run->cursor[device]; i < program->first[device + 1]; i = run->cursor[device])
    {
      guint type = program->instructions[i].type;
      if (type == PS_INSTRUCTION_WAIT && !run->done[run->partner[i] - 1])
        break;
      run->cursor[device]++;
      moved = TRUE;
      if (type == PS_INSTRUCTION_SEND || type == PS_INSTRUCTION_RECEIVE)
        progress_message (run, i);
    }
  return moved;
}

static gboolean
progress (Run *run)
{
  gboolean moved = FALSE;
  for (guint device = 0; device < run->program->schedule->placement->n_devices; device++)
    moved |= progress_device (run, device);
  if (run->channel != PS_CHANNEL_LATENCY)
    for (guint i = 0; i < run->ends->len; i++)
      moved |= progress_end (run, g_ptr_array_index (run->ends, i));
  return moved;
}

#define MAX_NAMED 4

static gboolean
report_stuck (const Run *run, GError **error)
{
  const PsProgram *program = run->program;
  g_autoptr (GString) text = g_string_new (NULL);
  guint stuck = 0;
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    {
      guint i = run->cursor[device];
      if (i == program->first[device + 1] || stuck++ >= MAX_NAMED)
        continue;
      g_autofree char *name = ps_instruction_format (&program->instructions[i]);
      g_string_append_printf (text, "%s device %u waits at instruction %u (%s)", text->len ? "," : "", device,
                              i - program->first[device], name);
    }
  if (stuck > MAX_NAMED)
    g_string_append_printf (text, " and %u more", stuck - MAX_NAMED);
  if (stuck == 0)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "%s: deadlock:%s", program->schedule->name, text->str);
  return FALSE;
}

gboolean
ps_program_check (const PsProgram *program, PsChannel channel, GError **error)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices, n = program->first[n_devices];
  g_autofree guint32 *index
      = g_new0 (guint32, (gsize)schedule->placement->n_stages * schedule->n_microbatches * schedule->n_slices * 2 * 3);
  if (!index_messages (program, index, n, error))
    return FALSE;
  g_auto (Run) run = { .program = program, .channel = channel };
  run.partner = g_new0 (guint32, n);
  run.end_of = g_new0 (End *, n);
  run.done = g_new0 (gboolean, n);
  run.ends = g_ptr_array_new_with_free_func (end_free);
  run.cursor = g_memdup2 (program->first, n_devices * sizeof *program->first);
  for (guint i = 0; i < n; i++)
    if (program->instructions[i].type != PS_INSTRUCTION_COMPUTE && !match (&run, index, i, error))
      return FALSE;
  for (guint device = 0; device < n_devices; device++)
    build_ends (&run, device);
  while (progress (&run))
    ;
  return report_stuck (&run, error);
}

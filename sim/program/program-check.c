/* program-check.c - whether every send, receive and wait has its counterparts, and a run of the streams without time,
 * under rendezvous semantics. */
#include "channels.h"

/* Whether the instruction at `place` has that type and message. */
static gboolean
stands (const PsProgram *program, guint place, PsInstructionType type, guint32 message)
{
  return program->instructions[place].type == type && program->instructions[place].message == message;
}

/* NULL: instruction i of a device has its counterparts where they belong. */
static const char *
find_problem (const PsProgram *program, guint i, guint device)
{
  const PsInstruction *instruction = &program->instructions[i];
  const PsMessage *message;
  const PsPlaces *places;
  gboolean sends = instruction->type == PS_INSTRUCTION_SEND, received;

  if (instruction->type == PS_INSTRUCTION_COMPUTE)
    return NULL;
  message = &program->messages[instruction->message - 1];
  places = &program->places[instruction->message - 1];
  received = stands (program, places->receive, PS_INSTRUCTION_RECEIVE, instruction->message);
  if (instruction->type == PS_INSTRUCTION_WAIT)
    return received && places->receive < i && message->receiver == device ? NULL : "has no RECEIVE before it";
  if (i != (sends ? places->send : places->receive))
    return "is there twice";
  if (sends && !received)
    return "has no RECEIVE";
  if (!stands (program, places->send, PS_INSTRUCTION_SEND, instruction->message))
    return "has no SEND";
  if (device != (sends ? message->sender : message->receiver)
      || instruction->peer != (sends ? message->receiver : message->sender))
    return "does not meet its other end";
  return NULL;
}

static gboolean
check_counterparts (const PsProgram *program, GError **error)
{
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    for (guint i = program->first[device]; i < program->first[device + 1]; i++)
      {
        const char *problem = find_problem (program, i, device);
        g_autofree char *text = problem != NULL ? ps_instruction_format (&program->instructions[i]) : NULL;

        if (problem == NULL)
          continue;
        return ps_refuse (error, PS_ERROR_SCHEDULE, "device %u: instruction %u (%s): %s", device,
                          i - program->first[device], text, problem);
      }
  return TRUE;
}

typedef struct
{
  const PsChannels *channels;
  guint *cursor;   /* [n_devices] instruction that the device has come to */
  guint8 *missing; /* [n_messages] of send reached, receive reached, next on the sender's end, next on the receiver's */
  guint8 *done;    /* [n_messages] */
  GArray *met;     /* guint32: messages, counted from 1, of which a condition was met */
  GArray *awake;   /* guint16: devices that may go on */
} Run;

static void
run_clear (Run *run)
{
  g_free (run->cursor);
  g_free (run->missing);
  g_free (run->done);
  g_array_unref (run->met);
  g_array_unref (run->awake);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

static void
run_init (Run *run, const PsChannels *channels)
{
  const PsProgram *program = channels->program;
  guint n_devices = program->schedule->placement->n_devices;

  run->channels = channels;
  run->cursor = g_memdup2 (program->first, n_devices * sizeof *program->first);
  run->missing = g_new (guint8, program->n_messages + 1);
  run->done = g_new0 (guint8, program->n_messages + 1);
  run->met = g_array_new (FALSE, FALSE, sizeof (guint32));
  run->awake = g_array_new (FALSE, FALSE, sizeof (guint16));
  for (guint i = 0; i < program->n_messages; i++)
    run->missing[i]
        = (guint8)(2 + channels->turns[i][PS_SIDE_SENDER].waits + channels->turns[i][PS_SIDE_RECEIVER].waits);
  for (guint device = n_devices; device-- > 0;)
    g_array_append_val (run->awake, ((guint16[]){ (guint16)device })[0]);
}

/* Meets one more condition of a message. A transfer that takes place meets a condition of the next on each end. */
static void
meet (Run *run, guint32 message)
{
  g_array_append_val (run->met, message);
  while (run->met->len > 0)
    {
      const PsTurn *turns;

      message = g_array_index (run->met, guint32, run->met->len - 1);
      g_array_set_size (run->met, run->met->len - 1);
      if (message == 0 || --run->missing[message - 1] > 0)
        continue;
      turns = run->channels->turns[message - 1];
      run->done[message - 1] = TRUE;
      g_array_append_val (run->awake, run->channels->program->messages[message - 1].receiver);
      g_array_append_val (run->met, turns[PS_SIDE_SENDER].next);
      g_array_append_val (run->met, turns[PS_SIDE_RECEIVER].next);
    }
}

static void
run_device (Run *run, guint device)
{
  const PsProgram *program = run->channels->program;

  for (; run->cursor[device] < program->first[device + 1]; run->cursor[device]++)
    {
      const PsInstruction *instruction = &program->instructions[run->cursor[device]];

      if (instruction->type == PS_INSTRUCTION_WAIT && !run->done[instruction->message - 1])
        return;
      if (ps_instruction_is_post (instruction))
        meet (run, instruction->message);
    }
}

static gboolean
check (const PsChannels *channels, GError **error)
{
  const PsProgram *program = channels->program;
  g_auto (Run) run = { 0 };

  run_init (&run, channels);
  while (run.awake->len > 0)
    {
      guint16 device = g_array_index (run.awake, guint16, run.awake->len - 1);

      g_array_set_size (run.awake, run.awake->len - 1);
      run_device (&run, device);
    }
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    if (run.cursor[device] < program->first[device + 1])
      {
        ps_channels_explain (
            channels, &(PsChannelsStuck){ .cursor = run.cursor, .done = run.done, .receives_wait = TRUE }, error);
        return FALSE;
      }
  return TRUE;
}

gboolean
ps_program_check (const PsProgram *program, PsChannel channel, GError **error)
{
  if (!check_counterparts (program, error))
    return FALSE;
  g_autoptr (PsChannels) channels = ps_channels_new (program, channel);
  return check (channels, error);
}

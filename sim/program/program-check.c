/* program-check.c - runs a program's instruction streams without time, under rendezvous semantics. */
#include "channels.h"

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
  run->missing = g_new (guint8, channels->n_messages);
  run->done = g_new0 (guint8, channels->n_messages);
  run->met = g_array_new (FALSE, FALSE, sizeof (guint32));
  run->awake = g_array_new (FALSE, FALSE, sizeof (guint16));
  for (guint i = 0; i < channels->n_messages; i++)
    run->missing[i]
        = (guint8)(channels->channel == PS_CHANNEL_LATENCY ? 2 : 4 - __builtin_popcount (channels->messages[i].heads));
  for (guint device = n_devices; device-- > 0;)
    g_array_append_val (run->awake, ((guint16[]){ (guint16)device })[0]);
}

/* One more condition of a message is met; what follows it on its ends comes next. */
static void
meet (Run *run, guint32 message)
{
  g_array_append_val (run->met, message);
  while (run->met->len > 0)
    {
      const PsMessage *taken;

      message = g_array_index (run->met, guint32, run->met->len - 1);
      g_array_set_size (run->met, run->met->len - 1);
      if (message == 0 || --run->missing[message - 1] > 0)
        continue;
      taken = &run->channels->messages[message - 1];
      run->done[message - 1] = TRUE;
      g_array_append_val (run->awake, taken->receiver);
      g_array_append_val (run->met, taken->next_send);
      g_array_append_val (run->met, taken->next_receive);
    }
}

static void
run_device (Run *run, guint device)
{
  const PsProgram *program = run->channels->program;

  for (; run->cursor[device] < program->first[device + 1]; run->cursor[device]++)
    {
      guint i = run->cursor[device];
      guint type = program->instructions[i].type;

      if (type == PS_INSTRUCTION_WAIT && !run->done[run->channels->message_of[i] - 1])
        return;
      if (type == PS_INSTRUCTION_SEND || type == PS_INSTRUCTION_RECEIVE)
        meet (run, run->channels->message_of[i]);
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
  g_autoptr (PsChannels) channels = ps_channels_new (program, channel, error);

  return channels && check (channels, error);
}

/* channels.c - matches sends with receives, links what follows on each end of a channel, and explains deadlocks. */
#include "channels.h"
#include "names.h"

PS_DEFINE_NAMES (PsChannel, ps_channel, "latency", "direction", "pair", "rank")

void
ps_channels_free (PsChannels *channels)
{
  if (!channels)
    return;
  g_free (channels->messages);
  g_free (channels->message_of);
  g_free (channels->places);
  g_free (channels);
}

static guint
n_instructions (const PsProgram *program)
{
  return program->first[program->schedule->placement->n_devices];
}

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

static gsize
message_cell (const PsSchedule *schedule, PsOp op)
{
  gsize cell = ((gsize)op.stage * schedule->n_microbatches + op.microbatch) * schedule->n_slices + op.slice;

  return cell * 2 + (op.kind != PS_OP_F);
}

#define N_PLACES 3
#define PLACE(type) ((type)-PS_INSTRUCTION_SEND)

static gboolean
find_places (PsChannels *channels, GError **error)
{
  const PsProgram *program = channels->program;

  for (guint i = 0; i < n_instructions (program); i++)
    {
      const PsInstruction *instruction = &program->instructions[i];
      guint32 *place;

      if (instruction->type == PS_INSTRUCTION_COMPUTE)
        continue;
      place
          = &channels->places[N_PLACES * message_cell (program->schedule, instruction->op) + PLACE (instruction->type)];
      if (*place != 0)
        return fail (program, i, "is there twice", error);
      *place = i + 1;
    }
  return TRUE;
}

/* Whether instruction i of a device has its counterparts where they belong. */
static gboolean
check_places (const PsProgram *program, const guint32 *places, guint i, guint device, GError **error)
{
  const PsInstruction *instruction = &program->instructions[i];
  guint send = places[PLACE (PS_INSTRUCTION_SEND)], receive = places[PLACE (PS_INSTRUCTION_RECEIVE)];
  guint other = instruction->type == PS_INSTRUCTION_RECEIVE ? send : receive;

  if (other == 0)
    return fail (program, i, instruction->type == PS_INSTRUCTION_RECEIVE ? "has no SEND" : "has no RECEIVE", error);
  if (instruction->type == PS_INSTRUCTION_WAIT)
    {
      if (receive - 1 > i || receive - 1 < program->first[device])
        return fail (program, i, "has no RECEIVE in front of it", error);
    }
  else if (other - 1 < program->first[instruction->peer] || other - 1 >= program->first[instruction->peer + 1]
           || program->instructions[other - 1].peer != device)
    return fail (program, i, "does not meet its other end", error);
  return TRUE;
}

static gboolean
match (PsChannels *channels, GError **error)
{
  const PsProgram *program = channels->program;

  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    for (guint i = program->first[device]; i < program->first[device + 1]; i++)
      {
        const PsInstruction *instruction = &program->instructions[i];
        const guint32 *place;

        if (instruction->type == PS_INSTRUCTION_COMPUTE)
          continue;
        place = &channels->places[N_PLACES * message_cell (program->schedule, instruction->op)];
        if (!check_places (program, place, i, device, error))
          return FALSE;
        if (instruction->type != PS_INSTRUCTION_RECEIVE)
          continue;
        channels->messages[channels->n_messages++] = (PsMessage){ .send = place[PLACE (PS_INSTRUCTION_SEND)] - 1,
                                                                  .receive = i,
                                                                  .sender = instruction->peer,
                                                                  .receiver = (guint16)device };
        for (guint k = 0; k < N_PLACES; k++)
          if (place[k] != 0)
            channels->message_of[place[k] - 1] = channels->n_messages;
      }
  return TRUE;
}

/* Which of a device's channels a send or receive uses. */
static guint
channel_key (PsChannel channel, const PsInstruction *instruction)
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

static gboolean
is_transfer (const PsInstruction *instruction)
{
  return instruction->type == PS_INSTRUCTION_SEND || instruction->type == PS_INSTRUCTION_RECEIVE;
}

/* Hangs each message of a device behind the one before it on the same end. `last` is the last instruction of each
 * channel, counted from 1 and from all devices. */
static void
link_device (PsChannels *channels, guint device, guint32 *last)
{
  const PsProgram *program = channels->program;

  for (guint i = program->first[device]; i < program->first[device + 1]; i++)
    {
      const PsInstruction *instruction = &program->instructions[i];
      guint32 *before, message;

      if (!is_transfer (instruction))
        continue;
      before = &last[channel_key (channels->channel, instruction)];
      message = channels->message_of[i];
      if (*before <= program->first[device])
        channels->messages[message - 1].heads
            |= instruction->type == PS_INSTRUCTION_SEND ? PS_HEAD_SEND : PS_HEAD_RECEIVE;
      else if (program->instructions[*before - 1].type == PS_INSTRUCTION_SEND)
        channels->messages[channels->message_of[*before - 1] - 1].next_send = message;
      else
        channels->messages[channels->message_of[*before - 1] - 1].next_receive = message;
      *before = i + 1;
    }
}

PsChannels *
ps_channels_new (const PsProgram *program, PsChannel channel, GError **error)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices, n = n_instructions (program);
  gsize n_cells = (gsize)schedule->placement->n_stages * schedule->n_microbatches * schedule->n_slices * 2;
  g_autofree guint32 *last = g_new0 (guint32, 2 * (gsize)n_devices);
  g_autoptr (PsChannels) channels = g_new0 (PsChannels, 1);

  channels->program = program;
  channels->channel = channel;
  channels->messages = g_new0 (PsMessage, n / 3 + 1);
  channels->message_of = g_new0 (guint32, n);
  channels->places = g_new0 (guint32, N_PLACES * n_cells);
  if (!find_places (channels, error) || !match (channels, error))
    return NULL;
  if (channel != PS_CHANNEL_LATENCY)
    for (guint device = 0; device < n_devices; device++)
      link_device (channels, device, last);
  return g_steal_pointer (&channels);
}

guint32
ps_channels_find (const PsChannels *channels, PsOp op)
{
  guint32 receive
      = channels->places[N_PLACES * message_cell (channels->program->schedule, op) + PLACE (PS_INSTRUCTION_RECEIVE)];

  return receive ? channels->message_of[receive - 1] : 0;
}

/* The first transfer on the end of instruction i that has not taken place. */
static guint
head_of_end (const PsChannels *channels, const PsChannelsStuck *stuck, guint i)
{
  const PsProgram *program = channels->program;
  guint key = channel_key (channels->channel, &program->instructions[i]);
  guint first = program->first[device_of (program, i)];

  if (channels->channel == PS_CHANNEL_LATENCY)
    return i;
  while (first < i
         && (!is_transfer (&program->instructions[first])
             || channel_key (channels->channel, &program->instructions[first]) != key
             || stuck->done[channels->message_of[first] - 1]))
    first++;
  return first;
}

/* The instruction in front of i, on the same device, that keeps the transfer of i from taking part; i when none does.
 */
static guint
held_up_by (const PsChannels *channels, const PsChannelsStuck *stuck, guint i)
{
  guint cursor = stuck->cursor[device_of (channels->program, i)];
  gboolean waits = i > cursor;

  if (channels->program->instructions[i].type == PS_INSTRUCTION_RECEIVE)
    waits &= stuck->receives_wait;
  else if (stuck->exists)
    waits = !stuck->exists[channels->message_of[i] - 1];
  return waits ? cursor : head_of_end (channels, stuck, i);
}

/* What an instruction that cannot go on waits for. */
static guint
waits_for (const PsChannels *channels, const PsChannelsStuck *stuck, guint i)
{
  const PsMessage *message = &channels->messages[channels->message_of[i] - 1];
  guint front;

  if (channels->program->instructions[i].type == PS_INSTRUCTION_WAIT)
    return held_up_by (channels, stuck, message->send) != message->send ? message->send : message->receive;
  front = held_up_by (channels, stuck, i);
  if (front != i)
    return front;
  return i == message->send ? message->receive : message->send;
}

static void
append_instruction (const PsProgram *program, guint i, GString *text)
{
  guint device = device_of (program, i);
  g_autofree char *name = ps_instruction_format (&program->instructions[i]);

  g_string_append_printf (text, "device %u instruction %u (%s)", device, i - program->first[device], name);
}

void
ps_channels_explain (const PsChannels *channels, const PsChannelsStuck *stuck, GError **error)
{
  const PsProgram *program = channels->program;
  g_autofree guint8 *seen = g_new0 (guint8, n_instructions (program));
  g_autoptr (GString) text = g_string_new (NULL);
  guint device = 0, i, next;

  while (stuck->cursor[device] == program->first[device + 1])
    device++;
  for (i = stuck->cursor[device]; !seen[i]; i = waits_for (channels, stuck, i))
    seen[i] = TRUE;
  append_instruction (program, i, text);
  for (guint at = i; at != i || seen[i]; at = next)
    {
      seen[i] = FALSE;
      next = waits_for (channels, stuck, at);
      g_string_append (text, device_of (program, at) == device_of (program, next)
                                     && program->instructions[at].type != PS_INSTRUCTION_WAIT
                                 ? " behind "
                                 : " waits for ");
      append_instruction (program, next, text);
    }
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "%s: deadlock: %s", program->schedule->name, text->str);
}

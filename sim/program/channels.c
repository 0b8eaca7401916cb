/* channels.c - the models of channels, the order of messages on each end, explanations of deadlocks, and the check that
 * the streams can run: without time, under rendezvous semantics. */
#include "channels.h"

static guint direction_end (guint peer, gboolean sends)
{
  return 2 * peer + (sends != 0);
}

static guint pair_end (guint peer, gboolean sends)
{
  return peer;
}

static guint rank_end (guint peer, gboolean sends)
{
  return 0;
}

static const PsChannelModel models[] = {
  [PS_CHANNEL_LATENCY] = { .name = "latency", .description = "transfers never queue" },
  [PS_CHANNEL_DIRECTION] = { .name = "direction",
                             .description = "one in-order channel for each pair of devices and direction",
                             .pytorch = "one communicator per direction (TORCH_DISTRIBUTED_PIPELINE_PER_EDGE_P2P=1)",
                             .end = direction_end },
  [PS_CHANNEL_PAIR] = { .name = "pair",
                        .description = "one in-order channel for each pair of devices, as NCCL's 2-rank communicators",
                        .pytorch = "one communicator per pair of ranks (the default)",
                        .end = pair_end },
  [PS_CHANNEL_RANK] = { .name = "rank",
                        .description = "one in-order channel for each device",
                        .pytorch = "one in-order stream per rank",
                        .end = rank_end },
};

const PsChannelModel *ps_channel_table (guint *n)
{
  *n = G_N_ELEMENTS (models);
  return models;
}

void ps_channel_add_models (GString *text)
{
  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    g_string_append_printf (text, "%s %s (%s)",
                            i == 0                          ? ""
                            : i + 1 < G_N_ELEMENTS (models) ? ","
                                                            : " or",
                            models[i].name, models[i].description);
}

const char *ps_channel_name (PsChannel channel)
{
  g_return_val_if_fail ((guint)channel < G_N_ELEMENTS (models), NULL);
  return models[channel].name;
}

gboolean ps_channel_parse (const char *where, const char *text, PsChannel *channel, GError **error)
{
  const char *names[G_N_ELEMENTS (models)];

  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    names[i] = models[i].name;
  return ps_parse_name (where, text, names, G_N_ELEMENTS (models), channel, error);
}

void ps_channels_free (PsChannels *channels)
{
  if (channels == NULL)
    return;
  g_free (channels->on_end);
  g_free (channels);
}

static guint device_of (const PsProgram *program, guint index)
{
  guint low = 0, high = program->schedule->placement->n_devices;

  while (high - low > 1) {
    guint middle = (low + high) / 2;

    *(program->first[middle] <= index ? &low : &high) = middle;
  }
  return low;
}

static PsEndPlace *place_of (const PsChannels *channels, guint post)
{
  const PsInstruction *instruction = &channels->program->instructions[post];

  return &channels->on_end[instruction->message - 1][ps_instruction_side (instruction)];
}

/* Links each message of a device to the next one on the same end. `last` holds 1 + the last instruction on each end, of
 * this device or of an earlier one. */
static void link_device (PsChannels *channels, const PsChannelModel *model, guint device, guint32 *last)
{
  const PsProgram *program = channels->program;

  for (guint i = program->first[device]; i < program->first[device + 1]; i++) {
    const PsInstruction *instruction = &program->instructions[i];
    PsEndPlace *place, *before;
    guint end;

    if (!ps_instruction_is_post (instruction))
      continue;
    end = model->end (instruction->peer, instruction->type == PS_INSTRUCTION_SEND);
    place = place_of (channels, i);
    if (last[end] <= program->first[device])
      place->end = channels->n_ends++;
    else {
      before = place_of (channels, last[end] - 1);
      before->next = instruction->message;
      *place = (PsEndPlace){ .end = before->end, .waits = TRUE };
    }
    last[end] = i + 1;
  }
}

PsChannels *ps_channels_new (const PsProgram *program, PsChannel channel)
{
  guint n_devices = program->schedule->placement->n_devices;
  g_autofree guint32 *last = g_new0 (guint32, 2 * (gsize)n_devices);
  PsChannels *channels = g_new0 (PsChannels, 1);

  channels->program = program;
  channels->on_end = g_malloc0 ((program->n_messages + (gsize)1) * sizeof *channels->on_end);
  for (guint device = 0; models[channel].end != NULL && device < n_devices; device++)
    link_device (channels, &models[channel], device, last);
  return channels;
}

/* The first transfer on the end of instruction i that has not taken place. */
static guint head_of_end (const PsChannels *channels, const PsChannelsStuck *stuck, guint i)
{
  const PsProgram *program = channels->program;
  guint end = place_of (channels, i)->end, first = program->first[device_of (program, i)];

  if (channels->n_ends == 0)
    return i;
  while (first < i
         && (!ps_instruction_is_post (&program->instructions[first]) || place_of (channels, first)->end != end
             || stuck->done[program->instructions[first].message - 1]))
    first++;
  return first;
}

/* The earlier instruction on the same device that keeps the transfer of i from taking part; i when none does. */
static guint held_up_by (const PsChannels *channels, const PsChannelsStuck *stuck, guint i)
{
  guint cursor = stuck->cursor[device_of (channels->program, i)];
  gboolean waits = i > cursor;

  if (channels->program->instructions[i].type == PS_INSTRUCTION_RECEIVE)
    waits &= stuck->receives_wait;
  else if (stuck->exists != NULL)
    waits = !stuck->exists[channels->program->instructions[i].message - 1];
  return waits ? cursor : head_of_end (channels, stuck, i);
}

/* The instruction that a stuck instruction waits for. */
static guint waits_for (const PsChannels *channels, const PsChannelsStuck *stuck, guint i)
{
  const PsProgram *program = channels->program;
  const PsPlaces *places = &program->places[program->instructions[i].message - 1];

  if (program->instructions[i].type == PS_INSTRUCTION_WAIT)
    return held_up_by (channels, stuck, places->send) != places->send ? places->send : places->receive;
  guint front = held_up_by (channels, stuck, i);
  if (front != i)
    return front;
  return i == places->send ? places->receive : places->send;
}

static void append_instruction (const PsProgram *program, guint i, GString *text)
{
  guint device = device_of (program, i);
  g_autofree char *name = ps_instruction_format (&program->instructions[i]);

  g_string_append_printf (text, "device %u instruction %u (%s)", device, i - program->first[device], name);
}

void ps_channels_explain (const PsChannels *channels, const PsChannelsStuck *stuck, GError **error)
{
  const PsProgram *program = channels->program;
  g_autofree guint8 *seen = g_new0 (guint8, program->first[program->schedule->placement->n_devices]);
  g_autoptr (GString) text = g_string_new (NULL);
  guint device = 0, i, next;

  while (stuck->cursor[device] == program->first[device + 1])
    device++;
  for (i = stuck->cursor[device]; !seen[i]; i = waits_for (channels, stuck, i))
    seen[i] = TRUE;
  append_instruction (program, i, text);
  for (guint at = i; at != i || seen[i]; at = next) {
    seen[i] = FALSE;
    next = waits_for (channels, stuck, at);
    g_string_append (text, device_of (program, at) == device_of (program, next)
                                   && program->instructions[at].type != PS_INSTRUCTION_WAIT
                               ? " after "
                               : " waits for ");
    append_instruction (program, next, text);
  }
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "%s: deadlock: %s", program->schedule->name, text->str);
}

/* Whether every send, receive and wait has its counterparts, and a run without time. */

/* Whether the instruction at `place` has that type and message. */
static gboolean stands (const PsProgram *program, guint place, PsInstructionType type, guint32 message)
{
  return program->instructions[place].type == type && program->instructions[place].message == message;
}

/* NULL: instruction i of a device has its counterparts where they belong. n_done: ops of the device before it. */
static const char *find_problem (const PsProgram *program, guint i, guint device, guint n_done)
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
    return received && places->receive < i && message->receiver == device ? NULL : "has no receive before it";
  if (i != (sends ? places->send : places->receive))
    return "is there twice";
  if (sends && !received)
    return "has no receive on the other device";
  if (!stands (program, places->send, PS_INSTRUCTION_SEND, instruction->message))
    return "has no send on the other device";
  if (device != (sends ? message->sender : message->receiver)
      || instruction->peer != (sends ? message->receiver : message->sender))
    return "does not meet its other end";
  return sends && program->schedule->first[device] + n_done <= program->op_of[message->producer]
             ? "comes before the op that makes what it sends"
             : NULL;
}

const char *ps_program_find_fault (const PsProgram *program, guint *device, guint *instruction)
{
  for (*device = 0; *device < program->schedule->placement->n_devices; ++*device) {
    guint first = program->first[*device], n_done = 0;

    for (*instruction = 0; first + *instruction < program->first[*device + 1]; ++*instruction) {
      const char *problem = find_problem (program, first + *instruction, *device, n_done);

      if (problem != NULL)
        return problem;
      n_done += program->instructions[first + *instruction].type == PS_INSTRUCTION_COMPUTE;
    }
  }
  return NULL;
}

typedef struct {
  const PsChannels *channels;
  guint *cursor;   /* [n_devices] instruction that the device has come to */
  guint8 *missing; /* [n_messages] of send reached, receive reached, next on the sender's end, next on the receiver's */
  guint8 *done;    /* [n_messages] */
  GArray *met;     /* guint32: messages, counted from 1, of which a condition was met */
  GArray *awake;   /* guint16: devices that may go on */
} Run;

static void run_clear (Run *run)
{
  g_free (run->cursor);
  g_free (run->missing);
  g_free (run->done);
  g_array_unref (run->met);
  g_array_unref (run->awake);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

static void run_init (Run *run, const PsChannels *channels)
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
        = (guint8)(2 + channels->on_end[i][PS_SIDE_SENDER].waits + channels->on_end[i][PS_SIDE_RECEIVER].waits);
  for (guint device = n_devices; device-- > 0;)
    g_array_append_val (run->awake, ((guint16[]){ (guint16)device })[0]);
}

/* Meets one more condition of a message. A transfer that takes place meets a condition of the next on each end. */
static void meet (Run *run, guint32 message)
{
  g_array_append_val (run->met, message);
  while (run->met->len > 0) {
    const PsEndPlace *places;

    message = g_array_index (run->met, guint32, run->met->len - 1);
    g_array_set_size (run->met, run->met->len - 1);
    if (message == 0 || --run->missing[message - 1] > 0)
      continue;
    places = run->channels->on_end[message - 1];
    run->done[message - 1] = TRUE;
    g_array_append_val (run->awake, run->channels->program->messages[message - 1].receiver);
    g_array_append_val (run->met, places[PS_SIDE_SENDER].next);
    g_array_append_val (run->met, places[PS_SIDE_RECEIVER].next);
  }
}

static void run_device (Run *run, guint device)
{
  const PsProgram *program = run->channels->program;

  for (; run->cursor[device] < program->first[device + 1]; run->cursor[device]++) {
    const PsInstruction *instruction = &program->instructions[run->cursor[device]];

    if (instruction->type == PS_INSTRUCTION_WAIT && !run->done[instruction->message - 1])
      return;
    if (ps_instruction_is_post (instruction))
      meet (run, instruction->message);
  }
}

static gboolean check (const PsChannels *channels, GError **error)
{
  const PsProgram *program = channels->program;
  g_auto (Run) run = { 0 };

  run_init (&run, channels);
  while (run.awake->len > 0) {
    guint16 device = g_array_index (run.awake, guint16, run.awake->len - 1);

    g_array_set_size (run.awake, run.awake->len - 1);
    run_device (&run, device);
  }
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    if (run.cursor[device] < program->first[device + 1]) {
      ps_channels_explain (channels,
                           &(PsChannelsStuck){ .cursor = run.cursor, .done = run.done, .receives_wait = TRUE }, error);
      return FALSE;
    }
  return TRUE;
}

gboolean ps_program_check (const PsProgram *program, PsChannel channel, GError **error)
{
  guint device, i;
  const char *fault = ps_program_find_fault (program, &device, &i);

  if (fault != NULL) {
    g_autofree char *text = ps_instruction_format (&program->instructions[program->first[device] + i]);

    return ps_refuse (error, PS_ERROR_SCHEDULE, "device %u: instruction %u (%s): %s", device, i, text, fault);
  }
  g_autoptr (PsChannels) channels = ps_channels_new (program, channel);
  return check (channels, error);
}

/* program.c - lowering: the orders of all devices are walked together, one op per device and round, and every op that
 * may run is appended to the table; sends follow their producer, receives are posted at the same moment. */
#include "program-private.h"
#include "weight-window.h"

/* The result of an F, B or BW. */
typedef struct
{
  guint32 step;    /* 1 + step at whose end it exists; 0 = not yet */
  guint32 message; /* 1 + message that carries it; 0: its consumer is on the same device */
} Result;

typedef struct
{
  PsProgram *program;
  const PsSchedule *schedule;
  PsCommOrder order;
  guint8 *turns;   /* [n_ops] turns that weights still take before an op */
  Result *results; /* [2 * n_cells] by ps_schedule_result */
  guint *next;     /* [n_devices] next op of the schedule */
  guint *fill;     /* [n_devices] next free instruction */
  guint *alive;    /* [n_devices] activations alive */
  guint64 *awake;  /* bit per device: an input of its next op may have been made since it was last asked */
} Lowering;

static void
lowering_clear (Lowering *lowering)
{
  g_free (lowering->turns);
  g_free (lowering->results);
  g_free (lowering->next);
  g_free (lowering->fill);
  g_free (lowering->alive);
  g_free (lowering->awake);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Lowering, lowering_clear)

/* The result of another stage that op needs; NULL: it needs none. */
static inline const Result *
find_input (const Lowering *lowering, PsOp op)
{
  const PsSchedule *schedule = lowering->schedule;
  PsOp producer;

  return ps_op_input (op, schedule->placement->n_stages, &producer)
             ? &lowering->results[ps_schedule_result (schedule, producer)]
             : NULL;
}

static inline gboolean
is_missing (const Result *input)
{
  return input != NULL && input->step == 0;
}

static inline void
wake (Lowering *lowering, guint device)
{
  lowering->awake[device / 64] |= G_GUINT64_CONSTANT (1) << device % 64;
}

static inline void
put_to_sleep (Lowering *lowering, guint device)
{
  lowering->awake[device / 64] &= ~(G_GUINT64_CONSTANT (1) << device % 64);
}

static inline void
emit (Lowering *lowering, guint device, PsInstruction instruction)
{
  lowering->program->instructions[lowering->fill[device]++] = instruction;
}

/* Emits a send or receive. Its message notes where it stands. */
static inline void
emit_post (Lowering *lowering, guint device, PsInstruction instruction)
{
  PsProgram *program = lowering->program;
  guint next = lowering->next[device];
  guint32 last = next == lowering->schedule->first[device] ? 0 : program->step_of[next - 1] + 1;

  ps_program_note_place (program, &instruction, lowering->fill[device], last);
  emit (lowering, device, instruction);
}

static inline void
emit_wait (Lowering *lowering, guint device, const Result *input)
{
  if (input == NULL || input->message == 0)
    return;
  if (lowering->order == PS_COMM_DEFERRED)
    emit_post (lowering, device, ps_program_instruction (lowering->program, PS_INSTRUCTION_RECEIVE, input->message));
  emit (lowering, device, ps_program_instruction (lowering->program, PS_INSTRUCTION_WAIT, input->message));
}

static void
emit_transfer (Lowering *lowering, guint device, PsOp op)
{
  PsProgram *program = lowering->program;
  PsInstruction post;
  guint stage, peer;
  Result *result;

  if (!ps_op_output (op, lowering->schedule->placement->n_stages, &stage))
    return;
  peer = ps_schedule_device (lowering->schedule, stage, op.microbatch);
  wake (lowering, peer);
  if (peer == device)
    return;
  if (ps_op_is_backward (op))
    op.kind = PS_OP_B;
  op.paired = 0;
  result = &lowering->results[ps_schedule_result (lowering->schedule, op)];
  program->messages[program->n_messages++]
      = (PsMessage){ .op = op, .producer = result->step - 1, .sender = (guint16)device, .receiver = (guint16)peer };
  result->message = program->n_messages;
  /* ps_program_instruction would read what was just written, and wait for all writes before it. */
  post = (PsInstruction){ PS_INSTRUCTION_SEND, (guint16)peer, result->message, op };
  emit_post (lowering, device, post);
  if (lowering->order == PS_COMM_DEFERRED)
    return;
  post.type = PS_INSTRUCTION_RECEIVE;
  post.peer = (guint16)device;
  emit_post (lowering, peer, post);
}

/* The step waits for the message. */
static inline void
add_input (PsProgram *program, guint id, const Result *input)
{
  PsMessage *message = &program->messages[input->message - 1];
  PsStep *step = &program->steps[id];

  message->consumer = id;
  program->message_of[id] = input->message;
  step->input = input->step;
  step->transfer
      = (guint16)(1 + message->op.stage + (message->op.kind == PS_OP_F ? 0 : program->schedule->placement->n_stages));
}

static void
append_step (Lowering *lowering, guint device, guint index, const Result *input, PsPairRole pair)
{
  const PsSchedule *schedule = lowering->schedule;
  PsProgram *program = lowering->program;
  PsOp op = schedule->ops[index];
  guint id = program->n_steps++;
  guint n_stages = schedule->placement->n_stages;
  PsStep *step = &program->steps[id];

  *step = (PsStep){ .device = (guint16)device, .cost = op.kind * n_stages + op.stage };
  step->previous = index == schedule->first[device] ? 0 : program->step_of[index - 1] + 1;
  program->message_of[id] = 0;
  if (input != NULL && input->message != 0)
    add_input (program, id, input);
  if (program->pair != NULL)
    program->pair[id] = (guint8)pair;
  program->count[(gsize)ps_schedule_weight_copy (schedule, op.microbatch) * PS_N_OP_KINDS * n_stages + step->cost]++;
  program->step_of[index] = id;
  program->op_of[id] = index;
  /* Both results of a pair exist at the end of its second step. */
  if (op.kind == PS_OP_F || ps_op_is_backward (op))
    lowering->results[ps_schedule_result (schedule, op)].step = id + 1 + (pair == PS_PAIR_FIRST);
  emit (lowering, device,
        (PsInstruction){ .type = PS_INSTRUCTION_COMPUTE, .peer = (guint16)device, .op = schedule->ops[index] });
}

/* An activation lives from the start of its F to the end of its W or BW, so that both ops of a pair start before either
 * ends. */
static void
count_alive (Lowering *lowering, guint device, const PsOp *ops, guint n)
{
  guint *peak = &lowering->program->peak_activations[device];

  for (guint i = 0; i < n; i++)
    lowering->alive[device] += ops[i].kind == PS_OP_F;
  *peak = MAX (*peak, lowering->alive[device]);
  for (guint i = 0; i < n; i++)
    lowering->alive[device] -= ops[i].kind == PS_OP_W || ops[i].kind == PS_OP_BW;
}

/* Appends the device's next op, or pair, if its inputs have been made and its weights take no more turns. */
static void
advance (Lowering *lowering, guint device)
{
  const PsSchedule *schedule = lowering->schedule;
  guint index = lowering->next[device];
  const Result *input[2];
  guint n = index < schedule->first[device + 1] && schedule->ops[index].paired ? 2 : 1;
  gboolean missing = index == schedule->first[device + 1];

  /* All devices take turns, and the processor follows fewer streams than there are devices. In a function of their own
   * gcc drops these lines. */
  __builtin_prefetch (&schedule->ops[index + 8]);
  __builtin_prefetch (&lowering->program->step_of[index + 16], 1);
  __builtin_prefetch (&lowering->program->instructions[lowering->fill[device] + 8], 1);
  if (!missing && lowering->turns[index] > 0)
    {
      lowering->turns[index]--;
      return;
    }
  for (guint i = 0; i < n && !missing; i++)
    {
      input[i] = find_input (lowering, schedule->ops[index + i]);
      missing = is_missing (input[i]);
    }
  if (missing)
    {
      put_to_sleep (lowering, device);
      return;
    }
  for (guint i = 0; i < n; i++)
    emit_wait (lowering, device, input[i]);
  for (guint i = 0; i < n; i++)
    append_step (lowering, device, index + i, input[i], n == 1 ? PS_PAIR_NONE : PS_PAIR_FIRST + i);
  for (guint i = 0; i < n; i++)
    emit_transfer (lowering, device, schedule->ops[index + i]);
  count_alive (lowering, device, &schedule->ops[index], n);
  lowering->next[device] += n;
}

/* The first op of a stuck device's next op or pair that lacks its input, and the device that should make it. */
static guint
blocked_on (const Lowering *lowering, guint device, PsOp *op, PsOp *producer)
{
  const PsSchedule *schedule = lowering->schedule;
  guint index = lowering->next[device];

  if (!is_missing (find_input (lowering, schedule->ops[index])))
    index++;
  *op = schedule->ops[index];
  ps_op_input (*op, schedule->placement->n_stages, producer);
  return ps_schedule_device (schedule, producer->stage, producer->microbatch);
}

/* Every stuck device waits for another stuck one, so following them ends in a circle. */
static void
set_circle_error (const Lowering *lowering, GError **error)
{
  const PsSchedule *schedule = lowering->schedule;
  guint n_devices = schedule->placement->n_devices, device = 0;
  PsOp op, producer;
  char name[48], needed[48];

  while (lowering->next[device] == schedule->first[device + 1])
    device++;
  for (guint i = 0; i < n_devices; i++)
    device = blocked_on (lowering, device, &op, &producer);
  g_autoptr (GString) text = g_string_new ("deadlock: ");
  guint start = device;
  do
    {
      guint index = lowering->next[device] - schedule->first[device];
      guint other = blocked_on (lowering, device, &op, &producer);

      g_string_append_printf (text, "%sdevice %u waits at op %u (%s) for %s of device %u", text->len > 10 ? ", " : "",
                              device, index, ps_op_format (op, name), ps_op_format (producer, needed), other);
      device = other;
    }
  while (device != start);
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "%s: %s", schedule->name, text->str);
}

/* One op of every device that may go on. Later devices that are woken meanwhile take part. */
static void
run_round (Lowering *lowering)
{
  guint n_words = (lowering->schedule->placement->n_devices + 63) / 64;

  for (guint word = 0; word < n_words; word++)
    for (guint64 left = lowering->awake[word]; left != 0; left &= lowering->awake[word])
      {
        guint bit = (guint)__builtin_ctzll (left);

        advance (lowering, 64 * word + bit);
        left = bit == 63 ? 0 : G_MAXUINT64 << (bit + 1);
      }
}

static gboolean
all_sleep (const Lowering *lowering)
{
  for (guint word = 0; word < (lowering->schedule->placement->n_devices + 63) / 64; word++)
    if (lowering->awake[word] != 0)
      return FALSE;
  return TRUE;
}

static gboolean
lower_all (Lowering *lowering, GError **error)
{
  guint n_ops = ps_schedule_n_ops (lowering->schedule);

  while (lowering->program->n_steps < n_ops)
    {
      run_round (lowering);
      if (lowering->program->n_steps < n_ops && all_sleep (lowering))
        {
          set_circle_error (lowering, error);
          return FALSE;
        }
    }
  return TRUE;
}

/* Counts the instructions of each device: its ops, a send for each result that leaves, a receive and a wait for each
 * that comes. Returns the number of messages. */
static guint
count_instructions (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices, n_messages = 0;

  for (guint device = 0; device < n_devices; device++)
    for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
      {
        PsOp producer;

        program->first[device + 1]++;
        if (!ps_op_input (schedule->ops[i], schedule->placement->n_stages, &producer))
          continue;
        guint peer = ps_schedule_device (schedule, producer.stage, producer.microbatch);
        if (peer == device)
          continue;
        program->first[device + 1] += 2;
        program->first[peer + 1]++;
        n_messages++;
      }
  for (guint device = 0; device < n_devices; device++)
    program->first[device + 1] += program->first[device];
  return n_messages;
}

static gboolean
has_pairs (const PsSchedule *schedule)
{
  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    if (schedule->ops[i].paired)
      return TRUE;
  return FALSE;
}

/* One block for all arrays whose length grows with the number of ops. The C library keeps a freed block for the next
 * program, where it would give several of this size back to the system. */
static void
allot (PsProgram *program, guint n_ops, guint n_messages)
{
  guint n_instructions = program->first[program->schedule->placement->n_devices];
  gboolean pairs = has_pairs (program->schedule);
  gsize per_op = sizeof (PsStep) + 3 * sizeof (guint32) + (pairs ? sizeof (guint8) : 0);

  program->steps
      = g_malloc (n_ops * per_op + n_instructions * sizeof (PsInstruction) + n_messages * sizeof (PsMessage));
  program->instructions = (PsInstruction *)(program->steps + n_ops);
  program->messages = (PsMessage *)(program->instructions + n_instructions);
  program->step_of = (guint32 *)(program->messages + n_messages);
  program->op_of = program->step_of + n_ops;
  program->message_of = program->op_of + n_ops;
  program->pair = pairs ? (guint8 *)(program->message_of + n_ops) : NULL;
}

static PsProgram *
program_new (PsSchedule *schedule)
{
  guint n_ops = ps_schedule_n_ops (schedule);
  PsProgram *program = g_new0 (PsProgram, 1);

  program->schedule = schedule;
  program->count
      = g_new0 (guint32, (gsize)schedule->placement->n_copies * PS_N_OP_KINDS * schedule->placement->n_stages);
  program->peak_activations = g_new0 (guint, schedule->placement->n_devices);
  program->first = g_new0 (guint, (gsize)schedule->placement->n_devices + 1);
  allot (program, n_ops, count_instructions (program));
  return program;
}

PsProgram *
ps_program_lower (PsSchedule *schedule, PsCommOrder order, GError **error)
{
  guint n_devices = schedule->placement->n_devices;
  g_autoptr (PsProgram) program = program_new (schedule);
  g_auto (Lowering) lowering = { .program = program, .schedule = schedule, .order = order };

  lowering.turns = ps_weight_turns (schedule);
  lowering.results = g_new0 (Result, 2 * ps_schedule_n_cells (schedule));
  lowering.next = g_memdup2 (schedule->first, n_devices * sizeof *schedule->first);
  lowering.fill = g_memdup2 (program->first, n_devices * sizeof *program->first);
  lowering.alive = g_new0 (guint, n_devices);
  lowering.awake = g_new0 (guint64, (n_devices + 63) / 64);
  for (guint device = 0; device < n_devices; device++)
    wake (&lowering, device);
  if (!lower_all (&lowering, error))
    return NULL;
  if (schedule->posts != NULL)
    ps_program_follow (program);
  else if (order == PS_COMM_PLANNED)
    ps_program_arrange_units (program);
  return g_steal_pointer (&program);
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

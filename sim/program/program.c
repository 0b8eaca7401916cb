/* program.c - programs: the table that lowering fills, the streams of instructions that follow from it, and the streams
 * of one round of an endless run. */
#include "program-private.h"
#include "base/names.h"
#include "weight-window.h"

#include <string.h>

/* Where sends and receives stand in the streams. Every device keeps to one order of all transfers, or the schedule has
 * an order of its own, or receives stand right before they are needed. */

PS_DEFINE_NAMES (PsCommOrder, ps_comm_order, "asap", "deferred", "planned")

/* The SEND, RECEIVE or WAIT of a message, counted from 1. */
static inline PsInstruction instruction_of (const PsProgram *program, PsInstructionType type, guint32 message)
{
  const PsMessage *about = &program->messages[message - 1];

  return (PsInstruction){ .type = (guint16)type,
                          .peer = type == PS_INSTRUCTION_SEND ? about->receiver : about->sender,
                          .message = message,
                          .op = about->op };
}

static inline PsInstruction compute_of (const PsProgram *program, guint device, guint op)
{
  return (PsInstruction){ .type = PS_INSTRUCTION_COMPUTE, .peer = (guint16)device, .op = program->schedule->ops[op] };
}

void ps_program_note_places (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;

  for (guint device = 0; device < schedule->placement->n_devices; device++) {
    guint32 last = 0;
    guint op = schedule->first[device];

    for (guint i = program->first[device]; i < program->first[device + 1]; i++) {
      const PsInstruction *instruction = &program->instructions[i];

      if (instruction->type == PS_INSTRUCTION_COMPUTE)
        last = program->step_of[op++] + 1;
      else if (instruction->type == PS_INSTRUCTION_SEND)
        program->places[instruction->message - 1].send = i;
      else if (instruction->type == PS_INSTRUCTION_RECEIVE) {
        program->places[instruction->message - 1].receive = i;
        program->messages[instruction->message - 1].posted = last;
      }
    }
  }
}

/* Messages stand in the order of their producers, and steps in that in which devices came to them. */
void ps_program_stream (PsProgram *program)
{
  gboolean deferred = program->order == PS_COMM_DEFERRED;
  PsInstruction *stream = program->instructions;
  g_autofree guint *fill = g_memdup2 (program->first, program->schedule->placement->n_devices * sizeof *fill);
  guint32 message = 1;

  for (guint i = 0, n; i < program->n_steps; i += n) {
    guint device = program->steps[i].device, *next = &fill[device];

    n = program->pair != NULL && program->pair[i] == PS_PAIR_FIRST ? 2 : 1;
    for (guint k = i; k < i + n; k++) {
      if (program->message_of[k] == 0)
        continue;
      if (deferred)
        stream[(*next)++] = instruction_of (program, PS_INSTRUCTION_RECEIVE, program->message_of[k]);
      stream[(*next)++] = instruction_of (program, PS_INSTRUCTION_WAIT, program->message_of[k]);
    }
    for (guint k = i; k < i + n; k++)
      stream[(*next)++] = compute_of (program, device, program->op_of[k]);
    for (; message <= program->n_messages && program->messages[message - 1].producer < i + n; message++) {
      stream[(*next)++] = instruction_of (program, PS_INSTRUCTION_SEND, message);
      if (!deferred)
        stream[fill[program->messages[message - 1].receiver]++]
            = instruction_of (program, PS_INSTRUCTION_RECEIVE, message);
    }
  }
  ps_program_note_places (program);
}

typedef struct {
  gint64 start_ns;
  gint64 end_ns;
  guint32 consumer;
  guint32 message; /* counted from 1 */
} Transfer;

static int compare_transfers (gconstpointer a, gconstpointer b)
{
  const Transfer *x = a, *y = b;

  return x->start_ns != y->start_ns ? PS_COMPARE (x->start_ns, y->start_ns)
         : x->end_ns != y->end_ns   ? PS_COMPARE (x->end_ns, y->end_ns)
                                    : PS_COMPARE (x->consumer, y->consumer);
}

static GArray *order_transfers (const PsProgram *program, const gint64 *start_ns, const gint64 *end_ns)
{
  GArray *transfers = g_array_sized_new (FALSE, FALSE, sizeof (Transfer), program->n_messages);

  for (guint i = 0; i < program->n_messages; i++) {
    guint32 consumer = program->messages[i].consumer;
    Transfer transfer = { start_ns[consumer], end_ns[consumer], consumer, i + 1 };

    g_array_append_val (transfers, transfer);
  }
  g_array_sort (transfers, compare_transfers);
  return transfers;
}

/* The stream of one device while it is written again. */
typedef struct {
  PsProgram *program;
  const gint64 *op_end_ns;
  guint8 *received; /* [n_messages] whether the receive is in its stream */
  guint next;       /* op of the schedule */
  guint fill;       /* instruction */
} Stream;

static void append (Stream *stream, PsInstructionType type, guint32 message)
{
  stream->program->instructions[stream->fill++] = instruction_of (stream->program, type, message);
}

/* The next op, or pair, after the waits for its inputs. */
static void append_ops (Stream *stream, guint device)
{
  const PsProgram *program = stream->program;
  const PsOp *ops = &program->schedule->ops[stream->next];
  guint n = ops->paired ? 2 : 1;

  for (guint i = 0; i < n; i++) {
    guint32 message = program->message_of[program->step_of[stream->next + i]];

    if (message != 0)
      append (stream, PS_INSTRUCTION_WAIT, message);
  }
  for (guint i = 0; i < n; i++)
    program->instructions[stream->fill++] = compute_of (program, device, stream->next + i);
  stream->next += n;
}

static void append_send (Stream *stream, guint32 message)
{
  const PsProgram *program = stream->program;
  const PsMessage *sent = &program->messages[message - 1];

  while (stream->next <= program->op_of[sent->producer])
    append_ops (stream, sent->sender);
  append (stream, PS_INSTRUCTION_SEND, message);
}

/* Whether the next op, or pair, comes before the receive: it had ended. Ops and transfers that take no time may all
 * fall into one instant. Then the messages that the op waits for must have been received before. */
static gboolean goes_first (const Stream *stream, const Transfer *transfer)
{
  const PsProgram *program = stream->program;
  guint last = stream->next + (program->schedule->ops[stream->next].paired ? 1 : 0);

  if (last >= program->op_of[transfer->consumer] || stream->op_end_ns[program->step_of[last] + 1] > transfer->start_ns)
    return FALSE;
  for (guint i = stream->next; i <= last; i++) {
    guint32 message = program->message_of[program->step_of[i]];

    if (message != 0 && !stream->received[message - 1])
      return FALSE;
  }
  return TRUE;
}

static void append_receive (Stream *stream, const Transfer *transfer)
{
  while (stream->op_end_ns != NULL && goes_first (stream, transfer))
    append_ops (stream, stream->program->messages[transfer->message - 1].receiver);
  append (stream, PS_INSTRUCTION_RECEIVE, transfer->message);
  stream->received[transfer->message - 1] = TRUE;
}

void ps_program_arrange (PsProgram *program, const gint64 *start_ns, const gint64 *end_ns, const gint64 *op_end_ns)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  g_autoptr (GArray) transfers = order_transfers (program, start_ns, end_ns);
  g_autofree Stream *streams = g_new (Stream, n_devices);
  g_autofree guint8 *received = g_new0 (guint8, program->n_messages + 1);

  for (guint device = 0; device < n_devices; device++)
    streams[device] = (Stream){ program, op_end_ns, received, schedule->first[device], program->first[device] };
  for (guint i = 0; i < transfers->len; i++) {
    const Transfer *transfer = &g_array_index (transfers, Transfer, i);
    const PsMessage *message = &program->messages[transfer->message - 1];

    append_send (&streams[message->sender], transfer->message);
    append_receive (&streams[message->receiver], transfer);
  }
  for (guint device = 0; device < n_devices; device++) {
    while (streams[device].next < schedule->first[device + 1])
      append_ops (&streams[device], device);
    g_assert (streams[device].fill == program->first[device + 1]);
  }
  ps_program_note_places (program);
}

/* The same for ops of one length (BW two) and transfers that take no time and do not queue. */
static void program_arrange_units (PsProgram *program)
{
  g_autofree gint64 *end = g_new (gint64, (gsize)program->n_steps + 1);
  g_autofree gint64 *arrival = g_new (gint64, program->n_steps);
  const PsOp *ops = program->schedule->ops;

  end[0] = 0;
  for (guint i = 0; i < program->n_steps; i++) {
    const PsStep *step = &program->steps[i];
    gint64 length = ops[program->op_of[i]].kind == PS_OP_BW ? 2 : 1;

    arrival[i] = end[step->input];
    end[i + 1] = MAX (end[step->previous], arrival[i]) + length;
  }
  ps_program_arrange (program, arrival, arrival, NULL);
}

/* The message that carries each result (ps_schedule_result), counted from 1; 0: no message. */
static guint32 *index_messages (const PsProgram *program)
{
  guint32 *index = g_new0 (guint32, 2 * ps_schedule_n_cells (program->schedule));

  for (guint i = 0; i < program->n_messages; i++)
    index[ps_schedule_result (program->schedule, program->messages[i].op)] = i + 1;
  return index;
}

/* Writes the streams with the sends and receives of the schedule's posts. A post that the schedule lacks has place 0.
 */
static void program_follow (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  g_autofree guint32 *messages = index_messages (program);
  guint n = 0;

  memset (program->places, 0, program->n_messages * sizeof *program->places);
  for (guint device = 0; device < schedule->placement->n_devices; device++) {
    Stream stream = { .program = program, .next = schedule->first[device], .fill = program->first[device] };

    for (; n < schedule->posts->len && g_array_index (schedule->posts, PsPost, n).device == device; n++) {
      const PsPost *post = &g_array_index (schedule->posts, PsPost, n);

      while (stream.next < post->place)
        append_ops (&stream, device);
      if (post->type < PS_POST_OTHER)
        append (&stream, post->type == PS_POST_SEND ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE,
                messages[ps_schedule_result (schedule, post->op)]);
    }
    while (stream.next < schedule->first[device + 1])
      append_ops (&stream, device);
  }
  ps_program_note_places (program);
}

/* Writes the held receive of the message waited for, and before it all earlier ones from the same sender. Returns where
 * the stream goes on. */
static guint release (GArray *held, const PsInstruction *wait, PsInstruction *stream, guint fill)
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

/* Moves every receive down to its wait, or to the wait of a later message of the same sender that comes first. */
static void program_hold_receives (PsProgram *program)
{
  g_autoptr (GArray) held = g_array_new (FALSE, FALSE, sizeof (PsInstruction));

  for (guint device = 0; device < program->schedule->placement->n_devices; device++) {
    guint fill = program->first[device];

    for (guint i = fill; i < program->first[device + 1]; i++) {
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

/* Lowering: the orders of all devices are walked together, one op per device and round, and every op that
 * may run is appended to the table, with the messages that it sends. */

/* A device whose order is being walked. */
typedef struct {
  guint32 next;   /* op of the schedule */
  guint32 last;   /* 1 + its last step so far; 0: none */
  guint32 alive;  /* activations */
  guint32 peak;   /* most of them so far */
  gboolean awake; /* its next op may have its inputs, or weights take an action before it */
} Walk;

/* Values of Lowering.results. */
enum {
  RESULT_MISSING,
  RESULT_AWAITED, /* missing, and the device of its consumer sleeps */
  RESULT_HERE,    /* its consumer is on the same device */
  RESULT_MESSAGE  /* this + the index of the message that carries it */
};

typedef struct {
  PsProgram *program;
  const PsSchedule *schedule;
  guint n_stages;
  guint n_steps; /* so far */
  guint n_messages;
  guint8 *weight_actions; /* [n_ops] actions that weights still take before an op */
  guint8 *left;           /* see ps_program_lower_noting; NULL: not wanted */
  guint32 *results;       /* [2 * n_cells] by ps_schedule_result */
  Walk *walks;            /* [n_devices] */
} Lowering;

static void lowering_clear (Lowering *lowering)
{
  g_free (lowering->weight_actions);
  g_free (lowering->results);
  g_free (lowering->walks);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Lowering, lowering_clear)

/* The result of another stage that an op needs; NULL: it needs none. */
static inline guint32 *input_of (const Lowering *lowering, PsOp op)
{
  PsOp producer;

  return ps_op_input (op, lowering->n_stages, &producer)
             ? &lowering->results[ps_schedule_result (lowering->schedule, producer)]
             : NULL;
}

/* Appends the device's next op. */
static inline void append_step (Lowering *lowering, guint device)
{
  PsProgram *program = lowering->program;
  Walk *walk = &lowering->walks[device];
  PsOp op = lowering->schedule->ops[walk->next];
  const guint32 *input = input_of (lowering, op);
  guint id = lowering->n_steps++;
  PsStep *step = &program->steps[id];

  *step
      = (PsStep){ .previous = walk->last, .cost = op.kind * lowering->n_stages + op.stage, .device = (guint16)device };
  program->message_of[id] = 0;
  if (input != NULL && *input >= RESULT_MESSAGE) {
    PsMessage *waited = &program->messages[*input - RESULT_MESSAGE];

    program->message_of[id] = *input - RESULT_MESSAGE + 1;
    waited->consumer = id;
    step->input = waited->producer + 1;
    step->transfer = (guint16)(1 + waited->op.stage + (waited->op.kind == PS_OP_F ? 0 : lowering->n_stages));
  }
  program->op_of[id] = walk->next;
  program->step_of[walk->next++] = id;
  walk->last = id + 1;
}

/* Makes an op's result, which exists at the end of the step. Its receive stands where the receiver has come to. */
static inline void add_result (Lowering *lowering, guint device, PsOp op, guint step)
{
  guint stage;

  if (!ps_op_output (op, lowering->n_stages, &stage))
    return;
  guint32 *result = &lowering->results[ps_schedule_result (lowering->schedule, op)];
  guint peer = ps_schedule_device (lowering->schedule, stage, op.microbatch);
  Walk *consumer = &lowering->walks[peer];
  if (*result == RESULT_AWAITED)
    consumer->awake = TRUE;
  *result = RESULT_HERE;
  if (peer == device)
    return;
  *result = RESULT_MESSAGE + lowering->n_messages;
  if (lowering->left != NULL)
    lowering->left[lowering->n_messages] = lowering->weight_actions[consumer->next];
  PsMessage *message = &lowering->program->messages[lowering->n_messages++];
  message->op = op;
  message->op.kind = op.kind == PS_OP_F ? PS_OP_F : PS_OP_B;
  message->op.paired = 0;
  message->producer = step;
  message->posted = consumer->last;
  message->sender = (guint16)device;
  message->receiver = (guint16)peer;
}

/* Appends the next op of the device, or both of a pair, if their inputs have been made. Both results of a pair exist at
 * the end of its second step. An activation lives from the start of its F to the end of its W or BW, so that both ops
 * of a pair start before either ends. */
static void append_ops_of (Lowering *lowering, guint device)
{
  Walk *walk = &lowering->walks[device];
  const PsOp *ops = &lowering->schedule->ops[walk->next];
  guint n = ops->paired ? 2 : 1;

  for (guint i = 0; i < n; i++) {
    guint32 *input = input_of (lowering, ops[i]);

    if (input == NULL || *input >= RESULT_HERE)
      continue;
    *input = RESULT_AWAITED;
    walk->awake = FALSE;
    return;
  }
  for (guint i = 0; i < n; i++) {
    if (n == 2)
      lowering->program->pair[lowering->n_steps] = (guint8)(PS_PAIR_FIRST + i);
    append_step (lowering, device);
    walk->alive += ops[i].kind == PS_OP_F;
  }
  walk->peak = MAX (walk->peak, walk->alive);
  for (guint i = 0; i < n; i++) {
    add_result (lowering, device, ops[i], walk->last - 1);
    walk->alive -= ops[i].kind == PS_OP_W || ops[i].kind == PS_OP_BW ? 1
                   : ps_schedule_ends_prompt (lowering->schedule, ops[i])
                       ? ps_schedule_slices (lowering->schedule, ops[i].microbatch)
                       : 0;
  }
}

/* The first op of a stuck device's next op or pair that lacks its input, and the device that should make it. */
static guint blocked_on (const Lowering *lowering, guint device, PsOp *op, PsOp *producer)
{
  const PsSchedule *schedule = lowering->schedule;
  guint index = lowering->walks[device].next;
  const guint32 *input = input_of (lowering, schedule->ops[index]);

  if (input == NULL || *input >= RESULT_HERE)
    index++;
  *op = schedule->ops[index];
  ps_op_input (*op, schedule->placement->n_stages, producer);
  return ps_schedule_device (schedule, producer->stage, producer->microbatch);
}

/* Every stuck device waits for another stuck one, so following them ends in a circle. */
static void set_circle_error (const Lowering *lowering, GError **error)
{
  const PsSchedule *schedule = lowering->schedule;
  guint n_devices = schedule->placement->n_devices, device = 0;
  PsOp op, producer;
  char name[48], needed[48];

  while (lowering->walks[device].next == schedule->first[device + 1])
    device++;
  for (guint i = 0; i < n_devices; i++)
    device = blocked_on (lowering, device, &op, &producer);
  g_autoptr (GString) text = g_string_new ("deadlock: ");
  guint start = device;
  do {
    guint index = lowering->walks[device].next - schedule->first[device];
    guint other = blocked_on (lowering, device, &op, &producer);

    g_string_append_printf (text, "%sdevice %u waits at op %u (%s) for %s of device %u", text->len > 10 ? ", " : "",
                            device, index, ps_op_format (op, name), ps_op_format (producer, needed), other);
    device = other;
  } while (device != start);
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "%s: %s", schedule->name, text->str);
}

/* One op or pair of every device that may go on; a device that another one wakes before takes part. FALSE: all devices
 * sleep. */
static gboolean run_round (Lowering *lowering)
{
  const PsSchedule *schedule = lowering->schedule;
  gboolean moved = FALSE;

  for (guint device = 0; device < schedule->placement->n_devices; device++) {
    Walk *walk = &lowering->walks[device];

    if (!walk->awake)
      continue;
    moved = TRUE;
    if (walk->next == schedule->first[device + 1])
      walk->awake = FALSE;
    else if (lowering->weight_actions[walk->next] > 0)
      lowering->weight_actions[walk->next]--;
    else
      append_ops_of (lowering, device);
  }
  return moved;
}

/* Writes the steps, messages and peaks of a new program, whose instructions are counted. n_reduce: actions that reduce
 * the gradients of a stage. */
static gboolean program_walk (PsProgram *program, guint n_reduce, guint8 *left, GError **error)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices, n_ops = ps_schedule_n_ops (schedule);
  g_auto (Lowering) lowering = { .program = program, .schedule = schedule, .n_stages = schedule->placement->n_stages };

  lowering.left = left;
  lowering.weight_actions = ps_weight_actions (schedule, n_reduce);
  lowering.results = g_new0 (guint32, 2 * ps_schedule_n_cells (schedule));
  lowering.walks = g_new (Walk, n_devices);
  for (guint device = 0; device < n_devices; device++)
    lowering.walks[device] = (Walk){ .next = schedule->first[device], .awake = TRUE };
  while (lowering.n_steps < n_ops)
    if (!run_round (&lowering)) {
      set_circle_error (&lowering, error);
      return FALSE;
    }
  for (guint device = 0; device < n_devices; device++)
    program->peak_activations[device] = lowering.walks[device].peak;
  program->n_steps = lowering.n_steps;
  program->n_messages = lowering.n_messages;
  return TRUE;
}

/* Counts the ops of each kind and stage. TRUE: there are pairs. */
static gboolean count_ops (const PsSchedule *schedule, guint32 *count)
{
  guint n_ops = ps_schedule_n_ops (schedule), n_stages = schedule->placement->n_stages;
  gboolean pairs = FALSE;

  for (guint i = 0; i < n_ops; i++) {
    const PsOp *op = &schedule->ops[i];

    count[(ps_schedule_weight_copy (schedule, op->microbatch) * PS_N_OP_KINDS + op->kind) * n_stages + op->stage]++;
    pairs |= op->paired;
  }
  return pairs;
}

/* Counts the instructions of each device: its ops, a send for each result that leaves, a receive and a wait for each
 * that comes. Returns the number of messages. */
static guint count_instructions (PsProgram *program)
{
  const PsPlacement *placement = program->schedule->placement;
  guint n_stages = placement->n_stages, n_kinds = placement->n_copies * PS_N_OP_KINDS, n_messages = 0;

  for (guint i = 0; i < n_kinds * n_stages; i++) {
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
static void allot (PsProgram *program, guint n_ops, guint n_messages, gboolean pairs)
{
  gsize per_op = sizeof (PsStep) + 3 * sizeof (guint32) + (pairs ? sizeof (guint8) : 0);

  program->steps = g_malloc (n_ops * per_op + n_messages * sizeof (PsMessage));
  program->messages = (PsMessage *)(program->steps + n_ops);
  program->step_of = (guint32 *)(program->messages + n_messages);
  program->op_of = program->step_of + n_ops;
  program->message_of = program->op_of + n_ops;
  program->pair = pairs ? memset (program->message_of + n_ops, PS_PAIR_NONE, n_ops) : NULL;
}

/* Counts the posts of the schedule, not the posts that its ops need: a file may lack some. */
static void count_posts (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;

  memset (program->first, 0, (schedule->placement->n_devices + (gsize)1) * sizeof *program->first);
  for (guint i = 0; i < program->n_steps; i++)
    program->first[program->steps[i].device + 1] += program->message_of[i] != 0 ? 2 : 1;
  for (guint i = 0; i < schedule->posts->len; i++) {
    const PsPost *post = &g_array_index (schedule->posts, PsPost, i);

    program->first[post->device + 1] += post->type < PS_POST_OTHER;
  }
  for (guint device = 0; device < schedule->placement->n_devices; device++)
    program->first[device + 1] += program->first[device];
}

static void allot_streams (PsProgram *program)
{
  guint n = program->first[program->schedule->placement->n_devices];

  program->instructions = g_malloc (n * sizeof *program->instructions + program->n_messages * sizeof *program->places);
  program->places = (PsPlaces *)(program->instructions + n);
}

static PsProgram *program_new (PsSchedule *schedule, PsCommOrder order)
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
void ps_program_set_lengths (PsProgram *program, guint n_lengths, const guint16 *length)
{
  PsSchedule *schedule = program->schedule;
  guint n_stages = schedule->placement->n_stages, n_ops = PS_N_OP_KINDS * n_lengths * n_stages;
  guint16 *lengths = g_memdup2 (length, ps_schedule_n_cells (schedule) * sizeof *length);

  g_free (schedule->length);
  schedule->length = lengths;
  schedule->n_lengths = program->n_lengths = n_lengths;
  program->count = g_renew (guint32, program->count, (gsize)schedule->placement->n_copies * n_ops);
  memset (program->count, 0, schedule->placement->n_copies * n_ops * sizeof *program->count);
  for (guint i = 0; i < program->n_steps; i++) {
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
PsProgram *ps_program_lower_steps (PsSchedule *schedule, PsCommOrder order, GError **error)
{
  g_autoptr (PsProgram) program = program_new (schedule, order);

  if (!program_walk (program, 1, NULL, error))
    return NULL;
  if (schedule->length != NULL)
    ps_program_set_lengths (program, schedule->n_lengths, schedule->length);
  if (order != PS_COMM_ASAP || schedule->posts != NULL)
    ps_program_add_streams (program);
  return g_steal_pointer (&program);
}

void ps_program_add_streams (PsProgram *program)
{
  if (program->instructions != NULL)
    return;
  if (program->schedule->posts != NULL)
    count_posts (program);
  allot_streams (program);
  if (program->schedule->posts != NULL)
    program_follow (program);
  else if (program->order == PS_COMM_PLANNED)
    program_arrange_units (program);
  else
    ps_program_stream (program);
}

PsProgram *ps_program_lower (PsSchedule *schedule, PsCommOrder order, GError **error)
{
  PsProgram *program = ps_program_lower_steps (schedule, order, error);

  if (program != NULL)
    ps_program_add_streams (program);
  return program;
}

PsProgram *ps_program_lower_noting (PsSchedule *schedule, guint n_reduce, guint8 *left, GError **error)
{
  g_autoptr (PsProgram) program = program_new (schedule, PS_COMM_ASAP);

  if (!program_walk (program, n_reduce, left, error))
    return NULL;
  ps_program_add_streams (program);
  return g_steal_pointer (&program);
}

PsProgram *ps_program_lower_untagged (PsSchedule *schedule, GError **error)
{
  PsProgram *program = ps_program_lower (schedule, PS_COMM_ASAP, error);

  if (program != NULL)
    program_hold_receives (program);
  return program;
}

void ps_program_free (PsProgram *program)
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

const char *ps_instruction_verb (PsInstructionType type)
{
  static const char *const verbs[] = { "", "SEND", "RECEIVE", "WAIT" };

  return verbs[type];
}

char *ps_instruction_format (const PsInstruction *instruction)
{
  char name[48];

  ps_op_format (instruction->op, name);
  if (instruction->type == PS_INSTRUCTION_COMPUTE)
    return g_strdup (name);
  return g_strdup_printf ("%s %s %s device %u", ps_instruction_verb (instruction->type), name,
                          instruction->type == PS_INSTRUCTION_SEND ? "to" : "from", (guint)instruction->peer);
}

/* One round of an endless run: the drain of one iteration interleaved with the warm-up of the next. */

/* Whether a backward begins there: with its R, where that stands before it. */
static gboolean begins_backward (const PsOp *op)
{
  return (ps_op_is_backward (op[0]) || op[0].kind == PS_OP_R) && op[-1].kind != PS_OP_R;
}

/* The order of one device in a round, as indices into the schedule's ops. It begins with the device's first backward.
 * In its drain a forward of the warm-up stands after every backward and its W. */
static void interleave (PsDrain *drain, const PsSchedule *schedule, guint device, guint32 *order)
{
  guint begin = schedule->first[device], end = schedule->first[device + 1], fill = begin;
  guint warm = begin, next, last = begin;

  for (next = begin; next < end && schedule->ops[next].kind == PS_OP_F; next++)
    drain->ahead[next] = 1;
  for (guint i = begin; i < end; i++)
    if (schedule->ops[i].kind == PS_OP_F)
      last = i;
  guint warm_end = next, drain_start = MAX (next, last + 1);
  for (guint i = next; i < end; i++) {
    if (i > drain_start && begins_backward (&schedule->ops[i]) && warm < warm_end)
      order[fill++] = warm++;
    order[fill++] = i;
  }
  while (warm < warm_end)
    order[fill++] = warm++;
}

/* Whether the op's input from another device is there, or comes from the round before. *possible becomes FALSE where
 * it would come from the next round. */
static gboolean is_ready (const PsDrain *drain, const PsProgram *program, const guint8 *placed, guint op,
                          gboolean *possible)
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

/* Merges the devices' orders, which take actions; FALSE when they wait for each other in a circle. */
static gboolean merge (PsDrain *drain, const PsProgram *program, const guint32 *order)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices, n = program->n_steps, fill = 0, before;
  g_autofree guint *next = g_memdup2 (schedule->first, n_devices * sizeof *next);
  g_autofree guint8 *placed = g_new0 (guint8, n);
  gboolean possible = TRUE;

  do {
    before = fill;
    for (guint device = 0; device < n_devices; device++)
      if (next[device] < schedule->first[device + 1]
          && is_ready (drain, program, placed, order[next[device]], &possible)) {
        guint op = order[next[device]++];

        placed[op] = TRUE;
        drain->sequence[fill++] = op;
      }
  } while (possible && fill > before && fill < n);
  return possible && fill == n;
}

void ps_drain_init (PsDrain *drain, const PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  guint n = program->n_steps;

  drain->sequence = g_new (guint32, n);
  drain->ahead = g_new0 (guint8, n);
  if (schedule->asynchronous && program->pair == NULL) {
    g_autofree guint32 *order = g_new (guint32, n);

    for (guint device = 0; device < schedule->placement->n_devices; device++)
      interleave (drain, schedule, device, order);
    if (merge (drain, program, order))
      return;
    memset (drain->ahead, 0, n);
  }
  memcpy (drain->sequence, program->op_of, n * sizeof *drain->sequence);
}

void ps_drain_clear (PsDrain *drain)
{
  g_free (drain->sequence);
  g_free (drain->ahead);
}

void ps_drain_walk (const PsDrain *drain, const PsProgram *program, PsDrainOp op, PsDrainMessage message, gpointer data)
{
  g_autofree guint32 *made = g_new0 (guint32, program->n_steps); /* 1 + the first message of each producer */

  for (guint32 i = program->n_messages; i-- > 0;)
    made[program->messages[i].producer] = i + 1;
  for (guint i = 0; i < program->n_steps; i++) {
    guint32 step = program->step_of[drain->sequence[i]], next = made[step];

    op (data, drain->sequence[i]);
    for (; next != 0 && next <= program->n_messages && program->messages[next - 1].producer == step; next++)
      message (data, next);
  }
}

/* The streams of a round while they are made. */
typedef struct {
  const PsProgram *program;
  const PsDrain *drain;
  PsRound *round;
  guint *fill; /* [n_devices] next free instruction */
} RoundStreams;

static void put (const RoundStreams *streams, guint device, PsInstruction instruction, guint8 ahead)
{
  guint place = streams->fill[device]++;

  streams->round->instructions[place] = instruction;
  streams->round->ahead[place] = ahead;
}

/* The op after the wait for its input. */
static void put_op (gpointer data, guint op)
{
  const RoundStreams *streams = data;
  const PsProgram *program = streams->program;
  guint32 step = program->step_of[op], waited = program->message_of[step];
  guint device = program->steps[step].device;
  guint8 ahead = streams->drain->ahead[op];

  if (waited != 0)
    put (streams, device, instruction_of (program, PS_INSTRUCTION_WAIT, waited), ahead);
  put (streams, device, compute_of (program, device, op), ahead);
}

static void put_message (gpointer data, guint32 number)
{
  const RoundStreams *streams = data;
  const PsProgram *program = streams->program;
  const PsMessage *message = &program->messages[number - 1];
  guint8 ahead = streams->drain->ahead[program->op_of[message->producer]];

  put (streams, message->sender, instruction_of (program, PS_INSTRUCTION_SEND, number), ahead);
  put (streams, message->receiver, instruction_of (program, PS_INSTRUCTION_RECEIVE, number), ahead);
}

PsRound *ps_round_new (const PsProgram *program)
{
  guint n_devices = program->schedule->placement->n_devices, n = program->first[n_devices];
  PsRound *round = g_new (PsRound, 1);
  g_auto (PsDrain) drain = { 0 };

  round->first = g_memdup2 (program->first, (n_devices + 1) * sizeof *round->first);
  round->instructions = g_memdup2 (program->instructions, n * sizeof *round->instructions);
  round->ahead = g_new0 (guint8, n);
  ps_drain_init (&drain, program);
  if (memchr (drain.ahead, 1, program->n_steps) == NULL)
    return round;
  g_autofree guint *fill = g_memdup2 (program->first, n_devices * sizeof *fill);
  RoundStreams streams = { program, &drain, round, fill };
  ps_drain_walk (&drain, program, put_op, put_message, &streams);
  return round;
}

void ps_round_free (PsRound *round)
{
  if (round == NULL)
    return;
  g_free (round->first);
  g_free (round->instructions);
  g_free (round->ahead);
  g_free (round);
}

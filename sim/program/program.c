/* program.c - programs: the room that lowering fills, and the streams that follow. */
#include "program-private.h"
#include "base/names.h"
#include "base/large.h"
#include "weight-window.h"

#include <pipesim/program.h>

#include <string.h>

/* The SEND, RECEIVE or WAIT of a message, counted from 1. */
static inline PsInstruction
ps_program_instruction (const PsProgram *program, PsInstructionType type, guint32 message)
{
  const PsMessage *about = &program->messages[message - 1];

  return (PsInstruction){ .type = (guint16)type,
                          .peer = type == PS_INSTRUCTION_SEND ? about->receiver : about->sender,
                          .message = message,
                          .op = about->op };
}

/* Where sends and receives stand in the streams. Every device keeps to one order of all transfers, or
 * the schedule has an order of its own, or receives stand right before they are needed. */

PS_DEFINE_NAMES (PsCommOrder, ps_comm_order, "asap", "deferred", "planned")

/* Notes that a send or receive stands at `place`. last: 1 + step of the op before it; 0: none. */
static inline void
note_place (PsProgram *program, const PsInstruction *instruction, guint place, guint32 last)
{
  guint index = instruction->message - 1;

  if (instruction->type == PS_INSTRUCTION_SEND)
    {
      program->places[index].send = place;
      return;
    }
  program->places[index].receive = place;
  program->messages[index].posted = last;
}

void
ps_program_note_places (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;

  for (guint device = 0; device < schedule->placement->n_devices; device++)
    {
      guint32 last = 0;
      guint op = schedule->first[device];

      for (guint i = program->first[device]; i < program->first[device + 1]; i++)
        {
          const PsInstruction *instruction = &program->instructions[i];

          if (instruction->type == PS_INSTRUCTION_COMPUTE)
            last = program->step_of[op++] + 1;
          else if (ps_instruction_is_post (instruction))
            note_place (program, instruction, i, last);
        }
    }
}

/* The streams while they are written from the table, all at once. */
typedef struct
{
  PsProgram *program;
  guint *fill;   /* [n_devices] next free instruction */
  guint32 *last; /* [n_devices] 1 + last step; 0: none */
} Streams;

static inline void
emit (const Streams *streams, guint device, PsInstruction instruction)
{
  guint place = streams->fill[device]++;

  streams->program->instructions[place] = instruction;
  if (ps_instruction_is_post (&instruction))
    note_place (streams->program, &instruction, place, streams->last[device]);
}

static inline void
emit_wait (const Streams *streams, guint device, guint32 message)
{
  const PsProgram *program = streams->program;

  if (message == 0)
    return;
  if (program->order == PS_COMM_DEFERRED)
    emit (streams, device, ps_program_instruction (program, PS_INSTRUCTION_RECEIVE, message));
  emit (streams, device, ps_program_instruction (program, PS_INSTRUCTION_WAIT, message));
}

static inline void
emit_transfer (const Streams *streams, guint32 message)
{
  const PsProgram *program = streams->program;
  const PsMessage *about = &program->messages[message - 1];

  emit (streams, about->sender, ps_program_instruction (program, PS_INSTRUCTION_SEND, message));
  if (program->order != PS_COMM_DEFERRED)
    emit (streams, about->receiver, ps_program_instruction (program, PS_INSTRUCTION_RECEIVE, message));
}

/* Messages stand in the order of their producers, and steps in that in which devices came to them. */
void
ps_program_stream (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  g_autofree guint *fill = g_memdup2 (program->first, n_devices * sizeof *fill);
  g_autofree guint32 *last = g_new0 (guint32, n_devices);
  const Streams streams = { program, fill, last };
  guint32 message = 1;

  for (guint i = 0, n; i < program->n_steps; i += n)
    {
      guint device = program->steps[i].device;

      n = program->pair != NULL && program->pair[i] == PS_PAIR_FIRST ? 2 : 1;
      for (guint k = i; k < i + n; k++)
        emit_wait (&streams, device, program->message_of[k]);
      for (guint k = i; k < i + n; k++)
        emit (&streams, device,
              (PsInstruction){
                  .type = PS_INSTRUCTION_COMPUTE, .peer = (guint16)device, .op = schedule->ops[program->op_of[k]] });
      last[device] = i + n;
      for (; message <= program->n_messages && program->messages[message - 1].producer < i + n; message++)
        emit_transfer (&streams, message);
    }
}

typedef struct
{
  gint64 start_ns;
  gint64 end_ns;
  guint32 consumer;
  guint32 message; /* counted from 1 */
} Transfer;

static int
compare_transfers (gconstpointer a, gconstpointer b)
{
  const Transfer *x = a, *y = b;

  return x->start_ns != y->start_ns ? PS_COMPARE (x->start_ns, y->start_ns)
         : x->end_ns != y->end_ns   ? PS_COMPARE (x->end_ns, y->end_ns)
                                    : PS_COMPARE (x->consumer, y->consumer);
}

static GArray *
order_transfers (const PsProgram *program, const gint64 *start_ns, const gint64 *end_ns)
{
  GArray *transfers = g_array_sized_new (FALSE, FALSE, sizeof (Transfer), program->n_messages);

  for (guint i = 0; i < program->n_messages; i++)
    {
      guint32 consumer = program->messages[i].consumer;
      Transfer transfer = { start_ns[consumer], end_ns[consumer], consumer, i + 1 };

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
  guint8 *received; /* [n_messages] whether the receive is in its stream */
  guint next;       /* op of the schedule */
  guint fill;       /* instruction */
} Stream;

static void
append (Stream *stream, PsInstructionType type, guint32 message)
{
  stream->program->instructions[stream->fill++] = ps_program_instruction (stream->program, type, message);
}

/* The next op, or pair, after the waits for its inputs. */
static void
append_ops (Stream *stream, guint device)
{
  const PsProgram *program = stream->program;
  const PsOp *ops = &program->schedule->ops[stream->next];
  guint n = ops->paired ? 2 : 1;

  for (guint i = 0; i < n; i++)
    {
      guint32 message = program->message_of[program->step_of[stream->next + i]];

      if (message != 0)
        append (stream, PS_INSTRUCTION_WAIT, message);
    }
  for (guint i = 0; i < n; i++)
    program->instructions[stream->fill++]
        = (PsInstruction){ .type = PS_INSTRUCTION_COMPUTE, .peer = (guint16)device, .op = ops[i] };
  stream->next += n;
}

static void
append_send (Stream *stream, guint32 message)
{
  const PsProgram *program = stream->program;
  const PsMessage *sent = &program->messages[message - 1];

  while (stream->next <= program->op_of[sent->producer])
    append_ops (stream, sent->sender);
  append (stream, PS_INSTRUCTION_SEND, message);
}

/* Whether the next op, or pair, comes before the receive: it had ended. Ops and transfers that take no time may all
 * fall into one instant. Then the messages that the op waits for must have been received before. */
static gboolean
goes_first (const Stream *stream, const Transfer *transfer)
{
  const PsProgram *program = stream->program;
  guint last = stream->next + (program->schedule->ops[stream->next].paired ? 1 : 0);

  if (last >= program->op_of[transfer->consumer] || stream->op_end_ns[program->step_of[last] + 1] > transfer->start_ns)
    return FALSE;
  for (guint i = stream->next; i <= last; i++)
    {
      guint32 message = program->message_of[program->step_of[i]];

      if (message != 0 && !stream->received[message - 1])
        return FALSE;
    }
  return TRUE;
}

static void
append_receive (Stream *stream, const Transfer *transfer)
{
  while (stream->op_end_ns != NULL && goes_first (stream, transfer))
    append_ops (stream, stream->program->messages[transfer->message - 1].receiver);
  append (stream, PS_INSTRUCTION_RECEIVE, transfer->message);
  stream->received[transfer->message - 1] = TRUE;
}

void
ps_program_arrange (PsProgram *program, const gint64 *start_ns, const gint64 *end_ns, const gint64 *op_end_ns)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  g_autoptr (GArray) transfers = order_transfers (program, start_ns, end_ns);
  g_autofree Stream *streams = g_new (Stream, n_devices);
  g_autofree guint8 *received = g_new0 (guint8, program->n_messages + 1);

  for (guint device = 0; device < n_devices; device++)
    streams[device] = (Stream){ program, op_end_ns, received, schedule->first[device], program->first[device] };
  for (guint i = 0; i < transfers->len; i++)
    {
      const Transfer *transfer = &g_array_index (transfers, Transfer, i);
      const PsMessage *message = &program->messages[transfer->message - 1];

      append_send (&streams[message->sender], transfer->message);
      append_receive (&streams[message->receiver], transfer);
    }
  for (guint device = 0; device < n_devices; device++)
    {
      while (streams[device].next < schedule->first[device + 1])
        append_ops (&streams[device], device);
      g_assert (streams[device].fill == program->first[device + 1]);
    }
  ps_program_note_places (program);
}

/* The same for ops of one length (BW two) and transfers that take no time and do not queue. */
static void
program_arrange_units (PsProgram *program)
{
  g_autofree gint64 *end = g_new (gint64, (gsize)program->n_steps + 1);
  g_autofree gint64 *arrival = g_new (gint64, program->n_steps);
  const PsOp *ops = program->schedule->ops;

  end[0] = 0;
  for (guint i = 0; i < program->n_steps; i++)
    {
      const PsStep *step = &program->steps[i];
      gint64 length = ops[program->op_of[i]].kind == PS_OP_BW ? 2 : 1;

      arrival[i] = end[step->input];
      end[i + 1] = MAX (end[step->previous], arrival[i]) + length;
    }
  ps_program_arrange (program, arrival, arrival, NULL);
}

/* The message that carries each result (ps_schedule_result), counted from 1; 0: no message. */
static guint32 *
index_messages (const PsProgram *program)
{
  guint32 *index = g_new0 (guint32, 2 * ps_schedule_n_cells (program->schedule));

  for (guint i = 0; i < program->n_messages; i++)
    index[ps_schedule_result (program->schedule, program->messages[i].op)] = i + 1;
  return index;
}

/* Rewrites the streams with the sends and receives of the schedule's posts. */
static void
program_follow (PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  g_autofree guint32 *messages = index_messages (program);
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
                    messages[ps_schedule_result (schedule, post->op)]);
        }
      while (stream.next < schedule->first[device + 1])
        append_ops (&stream, device);
      g_assert (stream.fill == program->first[device + 1]);
    }
  ps_program_note_places (program);
}

/* Writes the held receive of the message waited for, and before it all earlier ones from the same sender. Returns where
 * the stream goes on. */
static guint
release (GArray *held, const PsInstruction *wait, PsInstruction *stream, guint fill)
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
static void
program_hold_receives (PsProgram *program)
{
  g_autoptr (GArray) held = g_array_new (FALSE, FALSE, sizeof (PsInstruction));

  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
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
  ps_program_note_places (program);
}

/* Lowering: the orders of all devices are walked together, one op per device and round, and every op that
 * may run is appended to the table, with the messages that it sends. */

#define N_COPIED 8

/* A device whose order is being walked. Orders of a thousand devices lie so regularly in memory that their next ops
 * would drive each other out of the caches. So a walk has copies of them, and keeps the steps for a while. */
typedef struct
{
  guint32 begin; /* op of the schedule: those from here on are copied */
  guint16 n;     /* copied */
  guint16 place; /* of the next op among them */
  guint16 stop;  /* up to this place, ops and pairs are copied whole, and weights take no turns before them */
  guint32 last;  /* 1 + its last step so far; 0: none */
  guint32 alive; /* activations */
  guint32 peak;  /* most of them so far */
  PsOp ops[N_COPIED];
  guint32 steps[N_COPIED]; /* of the ops before the next one */
  guint8 turns[N_COPIED];
} Walk;

/* Values of Lowering.results. */
enum
{
  RESULT_MISSING,
  RESULT_AWAITED, /* missing, and the device of its consumer sleeps */
  RESULT_HERE,    /* its consumer is on the same device */
  RESULT_MESSAGE  /* this + the index of the message that carries it */
};

#define NONE G_MAXUINT32

/* What all ops of a kind and stage have in common, for each weight copy. */
typedef struct
{
  guint32 input;    /* the result that it needs: index into results for cell 0; NONE: of no other stage */
  guint32 output;   /* its own result; NONE: no other stage needs it */
  guint16 transfer; /* of a message that carries the input: PsStep.transfer */
  guint16 peer;     /* device that needs the output */
  guint8 begins;    /* 1: an activation lives from its start on */
  guint8 ends;      /* 1: until its end */
} Route;

typedef struct
{
  PsProgram *program;
  const PsSchedule *schedule;
  const guint8 *copy; /* PsSchedule.copy */
  guint n_stages;
  guint n_slices;
  guint n_steps; /* so far */
  guint n_messages;
  guint8 *turns;    /* [n_ops] turns that weights still take before an op */
  guint32 *results; /* [2 * n_stages * row] forwards and backwards of a cell in turn */
  gsize row;        /* cells of a stage, and some more, so that stages do not share places in caches */
  Route *routes;    /* [n_copies * PS_N_OP_KINDS * n_stages] as PsProgram.count */
  Walk *walks;      /* [n_devices] */
  gboolean *awake;  /* [n_devices] its next op may have its inputs, or weights take a turn before it */
} Lowering;

static void
lowering_clear (Lowering *lowering)
{
  g_free (lowering->turns);
  g_free (lowering->results);
  g_free (lowering->routes);
  g_free (lowering->walks);
  g_free (lowering->awake);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Lowering, lowering_clear)

/* As ps_schedule_result tells results apart. */
static guint32
first_result (const Lowering *lowering, PsOp op)
{
  return (guint32)(2 * op.stage * lowering->row + (op.kind != PS_OP_F));
}

static Route
make_route (const Lowering *lowering, guint copy, PsOp op)
{
  guint n_stages = lowering->n_stages, stage;
  Route route = { .input = NONE, .output = NONE };
  PsOp producer;

  route.begins = op.kind == PS_OP_F;
  route.ends = op.kind == PS_OP_W || op.kind == PS_OP_BW;
  if (ps_op_input (op, n_stages, &producer))
    {
      route.input = first_result (lowering, producer);
      route.transfer = (guint16)(1 + producer.stage + (producer.kind == PS_OP_F ? 0 : n_stages));
    }
  if (ps_op_output (op, n_stages, &stage))
    {
      route.output = first_result (lowering, op);
      route.peer = (guint16)ps_placement_device (lowering->schedule->placement, copy, stage);
    }
  return route;
}

static void
make_routes (Lowering *lowering)
{
  guint n_copies = lowering->schedule->placement->n_copies;
  Route *route = lowering->routes = g_new (Route, (gsize)n_copies * PS_N_OP_KINDS * lowering->n_stages);

  for (guint copy = 0; copy < n_copies; copy++)
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      for (guint stage = 0; stage < lowering->n_stages; stage++)
        *route++ = make_route (lowering, copy, (PsOp){ .kind = (guint8)kind, .stage = (guint16)stage });
}

/* An op that a device has come to. */
typedef struct
{
  const PsOp *op;
  const Route *route;
  gsize cell;    /* results of its cell lie that far from those of cell 0 */
  guint32 cost;  /* PsStep.cost */
  guint32 input; /* the result of another stage that it needs; RESULT_HERE: it needs none */
} Next;

static inline Next
look_at (const Lowering *lowering, const PsOp *op, gboolean plain)
{
  Next next = { .op = op, .cost = op->kind * lowering->n_stages + op->stage };

  next.cell = 2 * (plain ? (gsize)op->microbatch : (gsize)op->microbatch * lowering->n_slices + op->slice);
  next.route = &lowering->routes[next.cost];
  if (!plain && lowering->copy != NULL)
    next.route += (gsize)lowering->copy[op->microbatch] * PS_N_OP_KINDS * lowering->n_stages;
  next.input = next.route->input != NONE ? lowering->results[next.route->input + next.cell] : RESULT_HERE;
  return next;
}

static inline void
append_step (Lowering *lowering, guint device, const Next *next)
{
  PsProgram *program = lowering->program;
  Walk *walk = &lowering->walks[device];
  guint id = lowering->n_steps++;
  PsStep *step = &program->steps[id];
  guint32 message = 0;

  step->previous = walk->last;
  step->input = 0;
  step->cost = next->cost;
  step->transfer = 0;
  step->device = (guint16)device;
  if (next->input >= RESULT_MESSAGE)
    {
      PsMessage *waited = &program->messages[next->input - RESULT_MESSAGE];

      message = next->input - RESULT_MESSAGE + 1;
      waited->consumer = id;
      step->input = waited->producer + 1;
      step->transfer = next->route->transfer;
    }
  program->message_of[id] = message;
  program->op_of[id] = walk->begin + walk->place;
  walk->steps[walk->place++] = id;
  walk->last = id + 1;
}

/* Makes the op's result, which exists at the end of the step. Its receive stands where the receiver has come to. */
static inline void
add_result (Lowering *lowering, guint device, const Next *next, guint step)
{
  const Route *route = next->route;

  if (route->output == NONE)
    return;
  guint32 *result = &lowering->results[route->output + next->cell];
  if (*result == RESULT_AWAITED)
    lowering->awake[route->peer] = TRUE;
  if (route->peer == device)
    {
      *result = RESULT_HERE;
      return;
    }
  *result = RESULT_MESSAGE + lowering->n_messages;
  PsMessage *message = &lowering->program->messages[lowering->n_messages++];
  message->op = *next->op;
  message->op.kind = next->op->kind == PS_OP_F ? PS_OP_F : PS_OP_B;
  message->op.paired = 0;
  message->producer = step;
  message->posted = lowering->walks[route->peer].last;
  message->sender = (guint16)device;
  message->receiver = route->peer;
}

/* An activation lives from the start of its F to the end of its W or BW, so that both ops of a pair start before either
 * ends. */
static inline void
count_alive (Walk *walk, const Next *next, guint n)
{
  for (guint i = 0; i < n; i++)
    walk->alive += next[i].route->begins;
  walk->peak = MAX (walk->peak, walk->alive);
  for (guint i = 0; i < n; i++)
    walk->alive -= next[i].route->ends;
}

/* Appends the next n ops of the device, one or a pair, if their inputs have been made. Both results of a pair exist at
 * the end of its second step. */
static inline G_ALWAYS_INLINE void
append_device_ops (Lowering *lowering, guint device, guint n, gboolean plain)
{
  Walk *walk = &lowering->walks[device];
  Next next[2];

  for (guint i = 0; i < n; i++)
    {
      next[i] = look_at (lowering, &walk->ops[walk->place + i], plain);
      if (next[i].input < RESULT_HERE)
        {
          lowering->results[next[i].route->input + next[i].cell] = RESULT_AWAITED;
          lowering->awake[device] = FALSE;
          return;
        }
    }
  for (guint i = 0; i < n; i++)
    append_step (lowering, device, &next[i]);
  for (guint i = 0; i < n; i++)
    add_result (lowering, device, &next[i], walk->last - 1);
  count_alive (walk, next, n);
}

static void
append_pair (Lowering *lowering, guint device)
{
  guint id = lowering->n_steps;

  append_device_ops (lowering, device, 2, FALSE);
  for (guint i = id; i < lowering->n_steps; i++)
    lowering->program->pair[i] = (guint8)(PS_PAIR_FIRST + i - id);
}

/* The device's next op. */
static guint
next_op (const Lowering *lowering, guint device)
{
  return lowering->walks[device].begin + lowering->walks[device].place;
}

static void
write_steps (const Lowering *lowering, const Walk *walk)
{
  memcpy (&lowering->program->step_of[walk->begin], walk->steps, walk->place * sizeof *walk->steps);
}

/* Copies the ops from the next one on. */
static void
copy_ops (const Lowering *lowering, Walk *walk, guint end)
{
  write_steps (lowering, walk);
  walk->begin += walk->place;
  walk->place = walk->stop = 0;
  walk->n = (guint16)MIN (N_COPIED, end - walk->begin);
  if (walk->n == N_COPIED)
    {
      memcpy (walk->ops, &lowering->schedule->ops[walk->begin], sizeof walk->ops);
      memcpy (walk->turns, &lowering->turns[walk->begin], sizeof walk->turns);
      return;
    }
  memcpy (walk->ops, &lowering->schedule->ops[walk->begin], walk->n * sizeof *walk->ops);
  memcpy (walk->turns, &lowering->turns[walk->begin], walk->n * sizeof *walk->turns);
}

/* Makes sure that the next op, or pair, is copied, and lets weights take their turn. FALSE: they took it, or no op is
 * left. */
static gboolean
go_on (Lowering *lowering, guint device)
{
  static const guint8 no_turns[N_COPIED];
  Walk *walk = &lowering->walks[device];
  guint end = lowering->schedule->first[device + 1];

  if (walk->begin + walk->place == end)
    {
      lowering->awake[device] = FALSE;
      return FALSE;
    }
  if (walk->place + 2 > walk->n && walk->begin + walk->n < end)
    copy_ops (lowering, walk, end);
  if (walk->turns[walk->place] > 0)
    {
      walk->turns[walk->place]--;
      return FALSE;
    }
  /* The last copy may be half of a pair. */
  guint until = walk->n - (walk->begin + walk->n < end);
  walk->stop = (guint16)(memcmp (walk->turns, no_turns, sizeof no_turns) == 0 ? until : walk->place + 1U);
  while (walk->stop < until && walk->turns[walk->stop] == 0)
    walk->stop++;
  return TRUE;
}

/* The first op of a stuck device's next op or pair that lacks its input, and the device that should make it. */
static guint
blocked_on (const Lowering *lowering, guint device, PsOp *op, PsOp *producer)
{
  const PsSchedule *schedule = lowering->schedule;
  guint index = next_op (lowering, device);

  if (look_at (lowering, &schedule->ops[index], FALSE).input >= RESULT_HERE)
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

  while (next_op (lowering, device) == schedule->first[device + 1])
    device++;
  for (guint i = 0; i < n_devices; i++)
    device = blocked_on (lowering, device, &op, &producer);
  g_autoptr (GString) text = g_string_new ("deadlock: ");
  guint start = device;
  do
    {
      guint index = next_op (lowering, device) - schedule->first[device];
      guint other = blocked_on (lowering, device, &op, &producer);

      g_string_append_printf (text, "%sdevice %u waits at op %u (%s) for %s of device %u", text->len > 10 ? ", " : "",
                              device, index, ps_op_format (op, name), ps_op_format (producer, needed), other);
      device = other;
    }
  while (device != start);
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "%s: %s", schedule->name, text->str);
}

/* One op or pair of every device that may go on; a device that another one wakes before takes part. plain: there are no
 * pairs, slices and copies. FALSE: all devices sleep. */
static inline G_ALWAYS_INLINE gboolean
run_round (Lowering *lowering, gboolean plain)
{
  guint n_devices = lowering->schedule->placement->n_devices;
  gboolean moved = FALSE;

  for (guint device = 0; device < n_devices; device++)
    {
      const Walk *walk = &lowering->walks[device];

      if (!lowering->awake[device])
        continue;
      moved = TRUE;
      if (walk->place >= walk->stop && !go_on (lowering, device))
        continue;
      if (!plain && walk->ops[walk->place].paired)
        append_pair (lowering, device);
      else
        append_device_ops (lowering, device, 1, plain);
    }
  return moved;
}

static gboolean
lower_all (Lowering *lowering, GError **error)
{
  const PsSchedule *schedule = lowering->schedule;
  gboolean plain = lowering->program->pair == NULL && schedule->n_slices == 1 && schedule->copy == NULL;
  guint n_ops = ps_schedule_n_ops (schedule);

  while (lowering->n_steps < n_ops)
    if (!(plain ? run_round (lowering, TRUE) : run_round (lowering, FALSE)))
      {
        set_circle_error (lowering, error);
        return FALSE;
      }
  return TRUE;
}

/* Writes the steps, messages and peaks of a new program, whose instructions are counted. */
static gboolean
program_walk (PsProgram *program, GError **error)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices, n_stages = schedule->placement->n_stages;
  gsize row = (gsize)schedule->n_microbatches * schedule->n_slices + N_COPIED;
  gsize results_bytes = 2 * n_stages * row * sizeof (guint32);
  g_auto (Lowering) lowering = { .program = program,
                                 .schedule = schedule,
                                 .copy = schedule->copy,
                                 .n_stages = n_stages,
                                 .n_slices = schedule->n_slices,
                                 .row = row };

  lowering.turns = ps_weight_turns (schedule);
  lowering.results = ps_large (g_malloc0 (results_bytes), results_bytes);
  make_routes (&lowering);
  lowering.walks = g_new0 (Walk, n_devices);
  lowering.awake = g_new (gboolean, n_devices);
  for (guint device = 0; device < n_devices; device++)
    {
      Walk *walk = &lowering.walks[device];

      walk->begin = schedule->first[device];
      copy_ops (&lowering, walk, schedule->first[device + 1]);
      lowering.awake[device] = TRUE;
    }
  if (!lower_all (&lowering, error))
    return FALSE;
  for (guint device = 0; device < n_devices; device++)
    {
      write_steps (&lowering, &lowering.walks[device]);
      program->peak_activations[device] = lowering.walks[device].peak;
    }
  program->n_steps = lowering.n_steps;
  program->n_messages = lowering.n_messages;
  return TRUE;
}

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

  if (!program_walk (program, error))
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
    program_follow (program);
  else if (program->order == PS_COMM_PLANNED)
    program_arrange_units (program);
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
    program_hold_receives (program);
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

/* lowering.c - lowering: the orders of all devices are walked together, one op per device and round, and every op that
 * may run is appended to the table, with the messages that it sends. */
#include "large.h"
#include "program-private.h"
#include "weight-window.h"

#include <string.h>

#define N_COPIED 8

/* A device whose order is being walked. Orders of a thousand devices lie so regularly in memory that their next ops
 * would drive each other out of the caches. So a walk has copies of them, and keeps the steps for a while. */
typedef struct
{
  guint32 next;  /* op of the schedule */
  guint32 end;   /* of its order */
  guint32 last;  /* 1 + its last step so far; 0: none */
  guint32 alive; /* activations */
  guint32 begin; /* the ops from here on to `until` are copied */
  guint32 until;
  PsOp ops[N_COPIED];
  guint32 steps[N_COPIED]; /* of the ops before next */
  guint8 turns[N_COPIED];
} Walk;

/* Values of Lowering.results. */
enum
{
  RESULT_MISSING,
  RESULT_HERE,   /* its consumer is on the same device */
  RESULT_MESSAGE /* this + the index of the message that carries it */
};

typedef struct
{
  PsProgram *program;
  const PsSchedule *schedule;
  guint8 *turns;    /* [n_ops] turns that weights still take before an op */
  guint32 *results; /* [2 * n_stages * row] by result_of */
  gsize row;        /* cells of a stage, and some more, so that stages do not share places in caches */
  Walk *walks;      /* [n_devices] */
  guint64 *awake;   /* bit per device: an input of its next op may have been made since it was last asked */
} Lowering;

static void
lowering_clear (Lowering *lowering)
{
  g_free (lowering->turns);
  g_free (lowering->results);
  g_free (lowering->walks);
  g_free (lowering->awake);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Lowering, lowering_clear)

/* As ps_schedule_result tells results apart. */
static inline guint32 *
result_of (const Lowering *lowering, PsOp op)
{
  gsize cell = op.stage * lowering->row + (gsize)op.microbatch * lowering->schedule->n_slices + op.slice;

  return &lowering->results[2 * cell + (op.kind != PS_OP_F)];
}

/* The result of another stage that op needs; RESULT_HERE: it needs none. */
static inline guint32
find_input (const Lowering *lowering, PsOp op)
{
  PsOp producer;

  return ps_op_input (op, lowering->schedule->placement->n_stages, &producer) ? *result_of (lowering, producer)
                                                                              : RESULT_HERE;
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

/* Makes op's result, which exists at the end of the step. Its receive stands where the receiver has come to. */
static inline void
add_result (Lowering *lowering, guint device, PsOp op, guint step)
{
  PsProgram *program = lowering->program;
  guint stage, peer;

  if (!ps_op_output (op, lowering->schedule->placement->n_stages, &stage))
    return;
  peer = ps_schedule_device (lowering->schedule, stage, op.microbatch);
  wake (lowering, peer);
  *result_of (lowering, op) = peer == device ? RESULT_HERE : RESULT_MESSAGE + program->n_messages;
  if (peer == device)
    return;
  if (ps_op_is_backward (op))
    op.kind = PS_OP_B;
  op.paired = 0;
  program->messages[program->n_messages++] = (PsMessage){ .op = op,
                                                          .producer = step,
                                                          .posted = lowering->walks[peer].last,
                                                          .sender = (guint16)device,
                                                          .receiver = (guint16)peer };
}

/* The step waits for the message. */
static inline void
add_input (PsProgram *program, guint id, PsStep *step, guint32 message)
{
  PsMessage *waited = &program->messages[message];

  waited->consumer = id;
  program->message_of[id] = message + 1;
  step->input = waited->producer + 1;
  step->transfer
      = (guint16)(1 + waited->op.stage + (waited->op.kind == PS_OP_F ? 0 : program->schedule->placement->n_stages));
}

static inline void
append_step (Lowering *lowering, guint device, guint index, guint32 input, PsPairRole pair)
{
  const PsSchedule *schedule = lowering->schedule;
  PsProgram *program = lowering->program;
  Walk *walk = &lowering->walks[device];
  PsOp op = walk->ops[index - walk->begin];
  guint id = program->n_steps++, n_stages = schedule->placement->n_stages;
  PsStep *step = &program->steps[id];

  *step = (PsStep){ .previous = walk->last, .cost = op.kind * n_stages + op.stage, .device = (guint16)device };
  program->message_of[id] = 0;
  if (input >= RESULT_MESSAGE)
    add_input (program, id, step, input - RESULT_MESSAGE);
  if (program->pair != NULL)
    program->pair[id] = (guint8)pair;
  program->count[(gsize)ps_schedule_weight_copy (schedule, op.microbatch) * PS_N_OP_KINDS * n_stages + step->cost]++;
  program->op_of[id] = index;
  walk->steps[index - walk->begin] = id;
  walk->last = id + 1;
}

/* An activation lives from the start of its F to the end of its W or BW, so that both ops of a pair start before either
 * ends. */
static inline void
count_alive (Lowering *lowering, guint device, const PsOp *ops, guint n)
{
  guint *peak = &lowering->program->peak_activations[device], alive = lowering->walks[device].alive;

  for (guint i = 0; i < n; i++)
    alive += ops[i].kind == PS_OP_F;
  *peak = MAX (*peak, alive);
  for (guint i = 0; i < n; i++)
    alive -= ops[i].kind == PS_OP_W || ops[i].kind == PS_OP_BW;
  lowering->walks[device].alive = alive;
}

/* Appends the next n ops of the device: one, or a pair. Both results of a pair exist at the end of its second step. */
static inline void
append_ops (Lowering *lowering, guint device, const guint32 *input, guint n)
{
  Walk *walk = &lowering->walks[device];
  const PsOp *ops = &walk->ops[walk->next - walk->begin];

  for (guint i = 0; i < n; i++)
    append_step (lowering, device, walk->next + i, input[i], n == 1 ? PS_PAIR_NONE : PS_PAIR_FIRST + i);
  for (guint i = 0; i < n; i++)
    add_result (lowering, device, ops[i], walk->last - 1);
  count_alive (lowering, device, ops, n);
  walk->next += n;
}

static void
write_steps (const Lowering *lowering, const Walk *walk)
{
  memcpy (&lowering->program->step_of[walk->begin], walk->steps, (walk->next - walk->begin) * sizeof *walk->steps);
}

static void
copy_ops (const Lowering *lowering, Walk *walk)
{
  guint n = MIN (N_COPIED, walk->end - walk->next);

  write_steps (lowering, walk);
  walk->begin = walk->next;
  walk->until = walk->next + n;
  if (n == N_COPIED)
    {
      memcpy (walk->ops, &lowering->schedule->ops[walk->next], sizeof walk->ops);
      memcpy (walk->turns, &lowering->turns[walk->next], sizeof walk->turns);
      return;
    }
  memcpy (walk->ops, &lowering->schedule->ops[walk->next], n * sizeof *walk->ops);
  memcpy (walk->turns, &lowering->turns[walk->next], n * sizeof *walk->turns);
}

/* Appends the device's next op, or pair, if its inputs have been made and its weights take no more turns. */
static inline void
advance (Lowering *lowering, guint device)
{
  Walk *walk = &lowering->walks[device];
  const PsOp *ops;
  guint32 input[2] = { RESULT_MISSING };
  guint8 *turns;
  guint n = 1;

  if (walk->next + 2 > walk->until && walk->until < walk->end)
    copy_ops (lowering, walk);
  ops = &walk->ops[walk->next - walk->begin];
  turns = &walk->turns[walk->next - walk->begin];
  if (walk->next<walk->end && * turns> 0)
    {
      --*turns;
      return;
    }
  if (walk->next < walk->end)
    input[0] = find_input (lowering, ops[0]);
  if (input[0] != RESULT_MISSING && ops[0].paired)
    input[n++] = find_input (lowering, ops[1]);
  if (input[n - 1] == RESULT_MISSING)
    put_to_sleep (lowering, device);
  else
    append_ops (lowering, device, input, n);
}

/* The first op of a stuck device's next op or pair that lacks its input, and the device that should make it. */
static guint
blocked_on (const Lowering *lowering, guint device, PsOp *op, PsOp *producer)
{
  const PsSchedule *schedule = lowering->schedule;
  guint index = lowering->walks[device].next;

  if (find_input (lowering, schedule->ops[index]) != RESULT_MISSING)
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

  while (lowering->walks[device].next == lowering->walks[device].end)
    device++;
  for (guint i = 0; i < n_devices; i++)
    device = blocked_on (lowering, device, &op, &producer);
  g_autoptr (GString) text = g_string_new ("deadlock: ");
  guint start = device;
  do
    {
      guint index = lowering->walks[device].next - schedule->first[device];
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

gboolean
ps_program_walk (PsProgram *program, GError **error)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices;
  gsize row = (gsize)schedule->n_microbatches * schedule->n_slices + N_COPIED;
  gsize results_bytes = 2 * schedule->placement->n_stages * row * sizeof (guint32);
  g_auto (Lowering) lowering = { .program = program, .schedule = schedule, .row = row };

  lowering.turns = ps_weight_turns (schedule);
  lowering.results = ps_large (g_malloc0 (results_bytes), results_bytes);
  lowering.walks = g_new0 (Walk, n_devices);
  lowering.awake = g_new0 (guint64, (n_devices + 63) / 64);
  for (guint device = 0; device < n_devices; device++)
    {
      Walk *walk = &lowering.walks[device];

      walk->next = walk->begin = walk->until = schedule->first[device];
      walk->end = schedule->first[device + 1];
      wake (&lowering, device);
    }
  if (!lower_all (&lowering, error))
    return FALSE;
  for (guint device = 0; device < n_devices; device++)
    write_steps (&lowering, &lowering.walks[device]);
  return TRUE;
}

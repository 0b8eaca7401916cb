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

#define NONE G_MAXUINT32

/* What all ops of a kind and stage have in common, for each weight copy. */
typedef struct
{
  guint32 input;    /* the result that it needs: index into results for cell 0; NONE: of no other stage */
  guint32 output;   /* its own result; NONE: no other stage needs it */
  guint32 cost;     /* PsStep.cost */
  guint32 n;        /* ops so far */
  guint16 transfer; /* of a message that carries the input: PsStep.transfer */
  guint16 peer;     /* device that needs the output */
  guint8 begins;    /* 1: an activation lives from its start on */
  guint8 ends;      /* 1: until its end */
} Route;

typedef struct
{
  PsProgram *program;
  const PsSchedule *schedule;
  guint8 *turns;    /* [n_ops] turns that weights still take before an op */
  guint32 *results; /* [2 * n_stages * row] forwards and backwards of a cell in turn */
  gsize row;        /* cells of a stage, and some more, so that stages do not share places in caches */
  Route *routes;    /* [n_copies * PS_N_OP_KINDS * n_stages] as PsProgram.count */
  Walk *walks;      /* [n_devices] */
  guint64 *awake;   /* bit per device: an input of its next op may have been made since it was last asked */
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
  const PsPlacement *placement = lowering->schedule->placement;
  guint n_stages = placement->n_stages, stage;
  Route route = { .input = NONE, .output = NONE, .cost = op.kind * n_stages + op.stage };
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
      route.peer = (guint16)ps_placement_device (placement, copy, stage);
    }
  return route;
}

static void
make_routes (Lowering *lowering)
{
  const PsPlacement *placement = lowering->schedule->placement;
  gsize n = (gsize)placement->n_copies * PS_N_OP_KINDS * placement->n_stages;
  Route *route = lowering->routes = g_new (Route, n);

  for (guint copy = 0; copy < placement->n_copies; copy++)
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      for (guint stage = 0; stage < placement->n_stages; stage++)
        *route++ = make_route (lowering, copy, (PsOp){ .kind = (guint8)kind, .stage = (guint16)stage });
}

static inline Route *
route_of (const Lowering *lowering, PsOp op)
{
  guint row = ps_schedule_weight_copy (lowering->schedule, op.microbatch) * PS_N_OP_KINDS + op.kind;

  return &lowering->routes[(gsize)row * lowering->schedule->placement->n_stages + op.stage];
}

/* The results of op's cell lie that far from those of cell 0. */
static inline gsize
cell_of (const Lowering *lowering, PsOp op)
{
  return 2 * ((gsize)op.microbatch * lowering->schedule->n_slices + op.slice);
}

/* The result of another stage that op needs; RESULT_HERE: it needs none. */
static inline guint32
find_input (const Lowering *lowering, const Route *route, PsOp op)
{
  return route->input != NONE ? lowering->results[route->input + cell_of (lowering, op)] : RESULT_HERE;
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
add_result (Lowering *lowering, guint device, const Route *route, PsOp op, guint step)
{
  PsProgram *program = lowering->program;

  if (route->output == NONE)
    return;
  wake (lowering, route->peer);
  guint32 *result = &lowering->results[route->output + cell_of (lowering, op)];
  if (route->peer == device)
    {
      *result = RESULT_HERE;
      return;
    }
  *result = RESULT_MESSAGE + program->n_messages;
  op.kind = op.kind == PS_OP_F ? PS_OP_F : PS_OP_B;
  op.paired = 0;
  program->messages[program->n_messages++] = (PsMessage){ .op = op,
                                                          .producer = step,
                                                          .posted = lowering->walks[route->peer].last,
                                                          .sender = (guint16)device,
                                                          .receiver = route->peer };
}

static inline void
append_step (Lowering *lowering, guint device, guint index, Route *route, guint32 input, PsPairRole pair)
{
  PsProgram *program = lowering->program;
  Walk *walk = &lowering->walks[device];
  guint id = program->n_steps++;
  PsStep step = { .previous = walk->last, .cost = route->cost, .device = (guint16)device };

  program->message_of[id] = 0;
  if (input >= RESULT_MESSAGE)
    {
      PsMessage *waited = &program->messages[input - RESULT_MESSAGE];

      waited->consumer = id;
      program->message_of[id] = input - RESULT_MESSAGE + 1;
      step.input = waited->producer + 1;
      step.transfer = route->transfer;
    }
  program->steps[id] = step;
  if (program->pair != NULL)
    program->pair[id] = (guint8)pair;
  program->op_of[id] = index;
  walk->steps[index - walk->begin] = id;
  walk->last = id + 1;
  route->n++;
}

/* An activation lives from the start of its F to the end of its W or BW, so that both ops of a pair start before either
 * ends. */
static inline void
count_alive (Lowering *lowering, guint device, Route *const *route, guint n)
{
  guint *peak = &lowering->program->peak_activations[device], alive = lowering->walks[device].alive;

  for (guint i = 0; i < n; i++)
    alive += route[i]->begins;
  *peak = MAX (*peak, alive);
  for (guint i = 0; i < n; i++)
    alive -= route[i]->ends;
  lowering->walks[device].alive = alive;
}

/* Appends the next n ops of the device, one or a pair, if their inputs have been made. Both results of a pair exist at
 * the end of its second step. */
static inline G_ALWAYS_INLINE void
append_ops (Lowering *lowering, guint device, guint n)
{
  Walk *walk = &lowering->walks[device];
  const PsOp *ops = &walk->ops[walk->next - walk->begin];
  Route *route[2];
  guint32 input[2];

  for (guint i = 0; i < n; i++)
    {
      route[i] = route_of (lowering, ops[i]);
      input[i] = find_input (lowering, route[i], ops[i]);
      if (input[i] == RESULT_MISSING)
        {
          put_to_sleep (lowering, device);
          return;
        }
    }
  for (guint i = 0; i < n; i++)
    append_step (lowering, device, walk->next + i, route[i], input[i], n == 1 ? PS_PAIR_NONE : PS_PAIR_FIRST + i);
  for (guint i = 0; i < n; i++)
    add_result (lowering, device, route[i], ops[i], walk->last - 1);
  count_alive (lowering, device, route, n);
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

/* Appends the device's next op, or pair, if its weights take no more turns. */
static inline void
advance (Lowering *lowering, guint device)
{
  Walk *walk = &lowering->walks[device];
  guint8 *turns;

  if (walk->next + 2 > walk->until && walk->until < walk->end)
    copy_ops (lowering, walk);
  turns = &walk->turns[walk->next - walk->begin];
  if (walk->next == walk->end)
    put_to_sleep (lowering, device);
  else if (*turns > 0)
    --*turns;
  else if (walk->ops[walk->next - walk->begin].paired)
    append_ops (lowering, device, 2);
  else
    append_ops (lowering, device, 1);
}

/* The first op of a stuck device's next op or pair that lacks its input, and the device that should make it. */
static guint
blocked_on (const Lowering *lowering, guint device, PsOp *op, PsOp *producer)
{
  const PsSchedule *schedule = lowering->schedule;
  guint index = lowering->walks[device].next;

  if (find_input (lowering, route_of (lowering, schedule->ops[index]), schedule->ops[index]) != RESULT_MISSING)
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
        left = (G_MAXUINT64 - 1) << bit;
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
  make_routes (&lowering);
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
  for (guint i = 0; i < schedule->placement->n_copies * PS_N_OP_KINDS * schedule->placement->n_stages; i++)
    program->count[i] = lowering.routes[i].n;
  return TRUE;
}

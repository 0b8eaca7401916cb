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
append_ops (Lowering *lowering, guint device, guint n, gboolean plain)
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

  append_ops (lowering, device, 2, FALSE);
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
        append_ops (lowering, device, 1, plain);
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

gboolean
ps_program_walk (PsProgram *program, GError **error)
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

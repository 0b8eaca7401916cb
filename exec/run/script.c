/* script.c - looks up slots and delays once, so that a device thread only indexes while it runs; and finds where a
 * device can still take a step back. */
#include "run.h"

/* The actions of one device while they are made. */
typedef struct {
  const PsProgram *program;
  const PsCosts *costs; /* NULL: messages have no delay */
  PsScript *script;
  guint *pending; /* [n_stages] ends of microbatches on the stage since its last O */
  guint32 *slots; /* [2 * n_cells] by ps_schedule_result: 1 + slot of its tensor; 0: none yet */
} Draft;

/* The slot of op's result. */
static guint slot_of (const Draft *draft, PsOp op)
{
  guint32 *slot = &draft->slots[ps_schedule_result (draft->program->schedule, op)];

  if (*slot == 0)
    *slot = ++draft->script->n_slots;
  return *slot - 1;
}

/* Whether O follows each op that completes an update, without a meeting of all devices. */
static gboolean updates_inside (const PsSchedule *schedule)
{
  return schedule->asynchronous || schedule->update_every > 0;
}

/* Whether the instruction completes the gradients of an update. */
static gboolean completes_update (const Draft *draft, const PsInstruction *instruction)
{
  const PsSchedule *schedule = draft->program->schedule;
  const PsOp op = instruction->op;

  if (instruction->type != PS_INSTRUCTION_COMPUTE || (op.kind != PS_OP_W && op.kind != PS_OP_BW)
      || ++draft->pending[op.stage] < ps_schedule_update_every (schedule) * schedule->n_slices)
    return FALSE;
  draft->pending[op.stage] = 0;
  return TRUE;
}

/* Adds an action. */
static PsAction *script_add (PsScript *script, const PsInstruction *instruction, guint8 ahead)
{
  PsAction *action = &script->actions[script->n_actions++];

  *action = (PsAction){ .instruction = *instruction, .take = PS_NO_SLOT, .put = PS_NO_SLOT, .ahead = ahead };
  return action;
}

static void script_action (const Draft *draft, const PsInstruction *instruction, guint8 ahead)
{
  const PsProgram *program = draft->program;
  const guint n_stages = program->schedule->placement->n_stages;
  PsAction *action = script_add (draft->script, instruction, ahead);
  PsOp op = instruction->op, producer;
  guint next;

  switch ((PsInstructionType)instruction->type) {
  case PS_INSTRUCTION_COMPUTE:
    if (ps_op_input (op, n_stages, &producer))
      action->take = slot_of (draft, producer);
    if (ps_op_output (op, n_stages, &next))
      action->put = slot_of (draft, op);
    action->index = draft->script->n_ops++;
    break;
  case PS_INSTRUCTION_SEND:
    action->take = slot_of (draft, op);
    if (draft->costs != NULL)
      action->delay_ns
          = draft->costs->transfer_ns[program->steps[program->messages[instruction->message - 1].consumer].transfer];
    action->index = draft->script->n_posts++;
    break;
  case PS_INSTRUCTION_RECEIVE:
    action->index = draft->script->n_posts++;
    break;
  case PS_INSTRUCTION_WAIT:
    action->put = slot_of (draft, op);
    action->index = draft->script->n_waits++;
  }
}

/* Every op may be followed by an O, which comes after the op's sends. */
static void script_actions (const Draft *draft, const PsRound *round, guint device)
{
  gboolean inside = updates_inside (draft->program->schedule);
  guint first = round->first[device], end = round->first[device + 1], completed = G_MAXUINT;
  PsScript *script = draft->script;

  script->actions = g_new0 (PsAction, (end - first) * (inside ? 2 : 1));
  for (guint i = first; i < end; i++) {
    script_action (draft, &round->instructions[i], round->ahead[i]);
    if (inside && completes_update (draft, &round->instructions[i]))
      completed = i;
    if (completed == G_MAXUINT || (i + 1 < end && ps_instruction_is_post (&round->instructions[i + 1])))
      continue;
    PsAction *update = script_add (script, &round->instructions[completed], round->ahead[completed]);
    update->instruction.op.kind = PS_OP_O;
    update->index = script->n_ops++;
    completed = G_MAXUINT;
  }
  for (guint i = 0; i < script->n_actions; i++)
    if (script->actions[i].instruction.type == PS_INSTRUCTION_COMPUTE && !script->actions[i].ahead)
      script->end = i;
}

static void script_device (PsScript *script, const PsProgram *program, const PsRound *round, guint device,
                           const PsCosts *costs)
{
  const PsPlacement *placement = program->schedule->placement;
  g_autofree guint32 *slots = g_new0 (guint32, 2 * ps_schedule_n_cells (program->schedule));
  g_autofree guint *pending = g_new0 (guint, placement->n_stages);
  const Draft draft = { .program = program, .costs = costs, .script = script, .pending = pending, .slots = slots };

  script->stages = g_new (guint, placement->n_copies * placement->n_stages);
  for (guint stage = 0; stage < placement->n_stages; stage++)
    for (guint copy = 0; copy < placement->n_copies; copy++)
      if (ps_placement_device (placement, copy, stage) == device)
        script->stages[script->n_stages++] = stage;
  script_actions (&draft, round, device);
  script->n_updates = updates_inside (program->schedule) || program->schedule->forward_only ? 0 : script->n_stages;
}

/* A stream as it is. The device holds the stages that it runs ops of. */
static void script_measured (PsScript *script, const PsProgram *program, guint device, guint n_sums)
{
  const PsInstruction *stream = &program->instructions[program->first[device]];
  guint n = program->first[device + 1] - program->first[device];

  script->actions = g_new0 (PsAction, n);
  script->stages = g_new (guint, program->schedule->placement->n_stages);
  script->n_actions = n;
  script->n_updates = n_sums;
  for (guint i = 0; i < n; i++) {
    guint *index = stream[i].type == PS_INSTRUCTION_COMPUTE ? &script->n_ops
                   : stream[i].type == PS_INSTRUCTION_WAIT  ? &script->n_waits
                                                            : &script->n_posts;

    script->actions[i]
        = (PsAction){ .instruction = stream[i], .take = PS_NO_SLOT, .put = PS_NO_SLOT, .index = (*index)++ };
  }
  for (guint stage = 0; stage < program->schedule->placement->n_stages; stage++) {
    guint i = 0;

    while (i < n && (stream[i].type != PS_INSTRUCTION_COMPUTE || stream[i].op.stage != stage))
      i++;
    if (i < n)
      script->stages[script->n_stages++] = stage;
  }
}

PsScript *ps_scripts_new (const PsProgram *program, const PsCosts *costs, const PsMeasuring *measuring)
{
  guint n_devices = program->schedule->placement->n_devices;
  PsScript *scripts = g_new0 (PsScript, n_devices);
  g_autoptr (PsRound) round = measuring == NULL ? ps_round_new (program) : NULL;

  for (guint i = 0; i < n_devices; i++)
    if (measuring != NULL)
      script_measured (&scripts[i], program, i, measuring->n_sums);
    else
      script_device (&scripts[i], program, round, i, costs);
  return scripts;
}

void ps_scripts_free (PsScript *scripts, guint n_devices)
{
  if (scripts == NULL)
    return;
  for (guint i = 0; i < n_devices; i++) {
    g_free (scripts[i].actions);
    g_free (scripts[i].stages);
  }
  g_free (scripts);
}

/* Where a message stands in the scripts of its devices. */
typedef struct {
  guint sender, receiver; /* devices */
  guint send, receive, wait;
} Places;

static Places *find_places (const PsScript *scripts, const PsProgram *program)
{
  Places *places = g_new0 (Places, program->n_messages + 1);

  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    for (guint i = 0; i < scripts[device].n_actions; i++) {
      const PsInstruction *instruction = &scripts[device].actions[i].instruction;
      Places *at = instruction->message > 0 ? &places[instruction->message - 1] : NULL;

      if (instruction->type == PS_INSTRUCTION_SEND)
        *at = (Places){ device, at->receiver, i, at->receive, at->wait };
      else if (instruction->type == PS_INSTRUCTION_RECEIVE)
        *at = (Places){ at->sender, device, at->send, i, at->wait };
      else if (instruction->type == PS_INSTRUCTION_WAIT)
        at->wait = i;
    }
  return places;
}

/* Moves the place to the first op of a pair that it would cut. */
static guint before_pair (const PsScript *script, guint place)
{
  guint i = place;

  while (i > 0 && script->actions[i - 1].instruction.type != PS_INSTRUCTION_COMPUTE)
    i--;
  return i > 0 && script->actions[i - 1].instruction.op.paired ? i - 1 : place;
}

/* No device may wait for a message before its place that is sent only after the sender's: the sender may take all back
 * at its place. Moves places to the front until that holds. */
static void close_places (PsBypassPlan *plans, const PsScript *scripts, const PsProgram *program, const Places *places)
{
  gboolean moved = TRUE;

  while (moved) {
    moved = FALSE;
    for (guint i = 0; i < program->n_messages; i++) {
      const Places *at = &places[i];
      guint *place = &plans[at->receiver].validate;

      if (at->wait >= *place || at->send < plans[at->sender].validate)
        continue;
      *place = before_pair (&scripts[at->receiver], at->wait);
      moved = TRUE;
    }
  }
}

PsBypassPlan *ps_bypass_plans_new (const PsScript *scripts, const PsProgram *program)
{
  guint n_devices = program->schedule->placement->n_devices;
  PsBypassPlan *plans = g_new0 (PsBypassPlan, n_devices);
  g_autofree Places *places = find_places (scripts, program);

  for (guint i = 0; i < n_devices; i++) {
    const PsAction *actions = scripts[i].actions;
    guint place = 0;

    /* The first backward of a device, or the wait for its gradient. */
    while (place < scripts[i].n_actions
           && (actions[place].instruction.op.kind == PS_OP_F || ps_instruction_is_post (&actions[place].instruction)))
      place++;
    plans[i].validate = before_pair (&scripts[i], place);
    plans[i].posted = g_new0 (guint8, scripts[i].n_actions);
    plans[i].stray = g_array_new (FALSE, FALSE, sizeof (PsInstruction));
  }
  close_places (plans, scripts, program, places);
  for (guint i = 0; i < program->n_messages; i++) {
    const Places *at = &places[i];
    PsBypassPlan *plan = &plans[at->receiver];
    gboolean sent = at->send < plans[at->sender].validate;

    if (sent && at->wait >= plan->validate)
      g_array_append_val (
          plan->stray,
          scripts[at->receiver].actions[at->receive < plan->validate ? at->wait : at->receive].instruction);
    plan->posted[at->receive] = at->receive < plan->validate && !sent;
  }
  return plans;
}

void ps_bypass_plans_free (PsBypassPlan *plans, guint n_devices)
{
  if (plans == NULL)
    return;
  for (guint i = 0; i < n_devices; i++) {
    g_free (plans[i].posted);
    g_array_unref (plans[i].stray);
  }
  g_free (plans);
}

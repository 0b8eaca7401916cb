/* script.c - looks up slots and delays once, so that a device thread only indexes while it runs. */
#include "script.h"

/* The actions of one device while they are made. */
typedef struct
{
  const PsProgram *program;
  const PsCosts *costs; /* NULL: messages have no delay */
  PsScript *script;
  guint32 *slots; /* [2 * n_cells] by ps_schedule_result: 1 + slot of its tensor; 0: none yet */
} Draft;

/* The slot of op's result. */
static guint
slot_of (const Draft *draft, PsOp op)
{
  guint32 *slot = &draft->slots[ps_schedule_result (draft->program->schedule, op)];

  if (*slot == 0)
    *slot = ++draft->script->n_slots;
  return *slot - 1;
}

static void
script_compute (const Draft *draft, PsAction *action)
{
  guint n_stages = draft->program->schedule->placement->n_stages, next;
  PsOp op = action->instruction.op, producer;

  if (ps_op_input (op, n_stages, &producer))
    action->take = slot_of (draft, producer);
  if (ps_op_output (op, n_stages, &next))
    action->put = slot_of (draft, op);
  draft->script->n_ops++;
}

static void
script_send (const Draft *draft, PsAction *action)
{
  const PsProgram *program = draft->program;
  guint32 consumer = program->messages[action->instruction.message - 1].consumer;

  action->take = slot_of (draft, action->instruction.op);
  if (draft->costs != NULL)
    action->delay_ns = draft->costs->transfer_ns[program->steps[consumer].transfer];
  draft->script->n_posts++;
}

static void
script_action (const Draft *draft, PsAction *action)
{
  switch ((PsInstructionType)action->instruction.type)
    {
    case PS_INSTRUCTION_COMPUTE:
      script_compute (draft, action);
      break;
    case PS_INSTRUCTION_SEND:
      script_send (draft, action);
      break;
    case PS_INSTRUCTION_RECEIVE:
      draft->script->n_posts++;
      break;
    case PS_INSTRUCTION_WAIT:
      action->put = slot_of (draft, action->instruction.op);
      draft->script->n_waits++;
      break;
    }
}

static void
script_stages (PsScript *script, const PsPlacement *placement, guint device)
{
  script->stages = g_new (guint, placement->n_copies * placement->n_stages);
  for (guint stage = 0; stage < placement->n_stages; stage++)
    for (guint copy = 0; copy < placement->n_copies; copy++)
      if (ps_placement_device (placement, copy, stage) == device)
        script->stages[script->n_stages++] = stage;
}

static void
script_device (PsScript *script, const PsProgram *program, guint device, const PsCosts *costs)
{
  g_autofree guint32 *slots = g_new0 (guint32, 2 * ps_schedule_n_cells (program->schedule));
  const Draft draft = { .program = program, .costs = costs, .script = script, .slots = slots };
  guint first = program->first[device];

  script->n_actions = program->first[device + 1] - first;
  script->actions = g_new0 (PsAction, script->n_actions);
  for (guint i = 0; i < script->n_actions; i++)
    {
      script->actions[i]
          = (PsAction){ .instruction = program->instructions[first + i], .take = PS_NO_SLOT, .put = PS_NO_SLOT };
      script_action (&draft, &script->actions[i]);
    }
  script_stages (script, program->schedule->placement, device);
}

PsScript *
ps_scripts_new (const PsProgram *program, const PsCosts *costs)
{
  guint n_devices = program->schedule->placement->n_devices;
  PsScript *scripts = g_new0 (PsScript, n_devices);

  for (guint i = 0; i < n_devices; i++)
    script_device (&scripts[i], program, i, costs);
  return scripts;
}

void
ps_scripts_free (PsScript *scripts, guint n_devices)
{
  if (scripts == NULL)
    return;
  for (guint i = 0; i < n_devices; i++)
    {
      g_free (scripts[i].actions);
      g_free (scripts[i].stages);
    }
  g_free (scripts);
}

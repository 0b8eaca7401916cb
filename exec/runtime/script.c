/* script.c - looks up slots and delays once, so that a device thread only indexes while it runs. */
#include "script.h"

/* Of the tensor that an op hands on; B and BW hand on the same thing. */
static gint64
tensor_key (PsOpKind kind, guint stage, PsOp op)
{
  return (gint64)(kind == PS_OP_F) << 56 | (gint64)op.slice << 48 | (gint64)stage << 32 | op.microbatch;
}

static guint
slot_of (GHashTable *slots, PsOpKind kind, guint stage, PsOp op)
{
  gint64 key = tensor_key (kind, stage, op);
  gpointer found;
  gint64 *kept;

  if (g_hash_table_lookup_extended (slots, &key, NULL, &found))
    return GPOINTER_TO_UINT (found);
  kept = g_new (gint64, 1);
  *kept = key;
  g_hash_table_insert (slots, kept, GUINT_TO_POINTER (g_hash_table_size (slots)));
  return g_hash_table_size (slots) - 1;
}

static void
script_compute (PsAction *action, GHashTable *slots, guint n_stages)
{
  PsOp op = action->instruction.op;

  if (op.kind == PS_OP_F)
    {
      if (op.stage > 0)
        action->take = slot_of (slots, PS_OP_F, op.stage - 1, op);
      if (op.stage + 1u < n_stages)
        action->put = slot_of (slots, PS_OP_F, op.stage, op);
    }
  else if (op.kind == PS_OP_B || op.kind == PS_OP_BW)
    {
      if (op.stage + 1u < n_stages)
        action->take = slot_of (slots, PS_OP_B, op.stage + 1, op);
      if (op.stage > 0)
        action->put = slot_of (slots, PS_OP_B, op.stage, op);
    }
}

static void
script_action (PsScript *script, PsAction *action, GHashTable *slots, guint n_stages, const PsCosts *costs)
{
  PsOp op = action->instruction.op;

  switch ((PsInstructionType)action->instruction.type)
    {
    case PS_INSTRUCTION_COMPUTE:
      script_compute (action, slots, n_stages);
      script->n_ops++;
      break;
    case PS_INSTRUCTION_SEND:
      action->take = slot_of (slots, op.kind, op.stage, op);
      script->n_posts++;
      if (costs != NULL)
        action->delay_ns = costs->transfer_ns[op.kind == PS_OP_F ? ps_transfer_forward (costs, op.stage)
                                                                 : ps_transfer_backward (costs, op.stage)];
      break;
    case PS_INSTRUCTION_RECEIVE:
      script->n_posts++;
      break;
    case PS_INSTRUCTION_WAIT:
      action->put = slot_of (slots, op.kind, op.stage, op);
      script->n_waits++;
      break;
    }
}

static void
script_stages (PsScript *script, const PsPlacement *placement, guint device)
{
  guint n = placement->n_copies * placement->n_stages;

  script->stages = g_new (guint, n);
  for (guint i = 0; i < n; i++)
    if (placement->device[i] == device)
      script->stages[script->n_stages++] = i % placement->n_stages;
}

static void
script_device (PsScript *script, const PsProgram *program, guint device, const PsCosts *costs)
{
  g_autoptr (GHashTable) slots = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  const PsPlacement *placement = program->schedule->placement;
  guint first = program->first[device];

  script->n_actions = program->first[device + 1] - first;
  script->actions = g_new0 (PsAction, script->n_actions);
  for (guint i = 0; i < script->n_actions; i++)
    {
      script->actions[i]
          = (PsAction){ .instruction = program->instructions[first + i], .take = PS_NO_SLOT, .put = PS_NO_SLOT };
      script_action (script, &script->actions[i], slots, placement->n_stages, costs);
    }
  script->n_slots = g_hash_table_size (slots);
  script_stages (script, placement, device);
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

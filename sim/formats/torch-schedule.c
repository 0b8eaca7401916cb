/* torch-schedule.c - action lists become schedules and the other way round. */
#include "torch-actions.h"

static gboolean
refuse (const char *what, GError **error)
{
  g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "PyTorch's formats cannot hold %s", what);
  return FALSE;
}

static gboolean
can_hold (const PsSchedule *schedule, GError **error)
{
  if (schedule->placement->n_copies > 1)
    return refuse ("a stage on two devices (two weight copies)", error);
  return schedule->n_slices == 1 || refuse ("sequence slices", error);
}

static gboolean
append_device (const PsSchedule *schedule, guint device, GArray *list, GError **error)
{
  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
    {
      PsOp op = schedule->ops[i];
      TorchType type = torch_type_of (op.kind);
      TorchAction action
          = { .type = (guint8)type, .paired = op.paired, .stage = op.stage, .microbatch = op.microbatch & G_MAXINT32 };

      if (type == TORCH_N_TYPES)
        return refuse (op.kind == PS_OP_R ? "recomputation (R)" : "optimizer steps (O)", error);
      g_array_append_val (list, action);
    }
  return TRUE;
}

TorchLists *
torch_lists_from_schedule (const PsSchedule *schedule, GError **error)
{
  const PsPlacement *placement = schedule->placement;
  g_autoptr (TorchLists) lists = NULL;

  if (!can_hold (schedule, error))
    return NULL;
  lists = torch_lists_new (placement->n_devices, placement->n_stages, schedule->n_microbatches);
  for (guint stage = 0; stage < placement->n_stages; stage++)
    lists->rank[stage] = (guint16)ps_placement_device (placement, 0, stage);
  for (guint device = 0; device < placement->n_devices; device++)
    if (!append_device (schedule, device, lists->actions[device], error))
      return NULL;
  return g_steal_pointer (&lists);
}

/* "runs/1F1B_p4.csv" is called 1F1B_p4. */
static char *
name_of (const char *where)
{
  char *name = g_path_get_basename (where);
  char *dot = g_strrstr (name, ".");

  if (dot && dot > name)
    *dot = '\0';
  return name;
}

PsSchedule *
torch_lists_to_schedule (const char *where, const TorchLists *lists)
{
  g_autofree char *name = name_of (where);
  PsPlacement *placement = ps_placement_new_custom (lists->n_ranks, lists->n_stages, 1, lists->rank);
  PsScheduleBuilder *builder = ps_schedule_builder_new (name, placement, lists->n_microbatches);

  for (guint r = 0; r < lists->n_ranks; r++)
    {
      for (guint i = 0; i < lists->actions[r]->len; i++)
        {
          const TorchAction *action = torch_lists_action (lists, r, i);
          PsOp op = { .stage = action->stage,
                      .microbatch = action->microbatch & G_MAXINT32,
                      .paired = action->paired & 1U };

          if (action->type >= TORCH_N_COMPUTE)
            continue;
          op.kind = (guint8)torch_op_kind (action->type);
          ps_schedule_builder_add_op (builder, op);
        }
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

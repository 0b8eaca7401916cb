/* torch-schedule.c - schedules from action lists, and action lists from schedules. */
#include "torch-actions.h"

static gboolean
refuse (const char *what, GError **error)
{
  return ps_refuse (error, PS_ERROR_SCHEDULE, "PyTorch's formats cannot hold %s", what);
}

static gboolean
can_hold (const PsSchedule *schedule, GError **error)
{
  if (schedule->placement->n_copies > 1)
    return refuse ("a stage on two devices (two weight copies)", error);
  return schedule->n_slices == 1 || refuse ("sequence slices", error);
}

PsTorchAction
ps_torch_action_of_message (gboolean send, PsOp op)
{
  gboolean forward = op.kind == PS_OP_F;
  PsTorchAction action = { .stage = op.stage, .microbatch = op.microbatch };

  if (send)
    action.type = forward ? TORCH_SEND_F : TORCH_SEND_B;
  else
    {
      action.type = forward ? TORCH_RECV_F : TORCH_RECV_B;
      action.stage = (guint16)(forward ? op.stage + 1 : op.stage - 1);
    }
  return action;
}

/* Appends, from *next on, the posts of a device that stand before ops[place]. */
static void
append_posts (const GArray *posts, guint *next, guint device, guint place, PsTorchLists *lists)
{
  for (; posts != NULL && *next < posts->len; ++*next)
    {
      const PsPost *post = &g_array_index (posts, PsPost, *next);
      PsTorchAction action = { .stage = post->op.stage, .microbatch = post->op.microbatch };

      if (post->device > device || post->place > place)
        return;
      if (post->type < PS_POST_OTHER)
        action = ps_torch_action_of_message (post->type == PS_POST_SEND, post->op);
      else
        action.type = (guint8)(post->type - PS_POST_OTHER);
      lists->waits |= ps_torch_is_wait (action.type);
      g_array_append_val (lists->actions[device], action);
    }
}

static gboolean
append_device (const PsSchedule *schedule, const GArray *posts, guint *next, guint device, PsTorchLists *lists,
               GError **error)
{
  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
    {
      PsOp op = schedule->ops[i];
      PsTorchType type = ps_torch_type_of (op.kind);
      PsTorchAction action
          = { .type = (guint8)type, .paired = op.paired, .stage = op.stage, .microbatch = op.microbatch & G_MAXINT32 };

      if (type == TORCH_N_TYPES)
        return refuse (op.kind == PS_OP_R ? "recomputation (R)" : "optimizer steps (O)", error);
      append_posts (posts, next, device, i, lists);
      g_array_append_val (lists->actions[device], action);
    }
  append_posts (posts, next, device, schedule->first[device + 1], lists);
  return TRUE;
}

PsTorchLists *
ps_torch_lists_from_schedule (const PsSchedule *schedule, gboolean posts, GError **error)
{
  const PsPlacement *placement = schedule->placement;
  guint next = 0;

  if (!can_hold (schedule, error))
    return NULL;
  g_autoptr (PsTorchLists) lists
      = ps_torch_lists_new (placement->n_devices, placement->n_stages, schedule->n_microbatches);
  for (guint stage = 0; stage < placement->n_stages; stage++)
    lists->rank[stage] = (guint16)ps_placement_device (placement, 0, stage);
  for (guint device = 0; device < placement->n_devices; device++)
    if (!append_device (schedule, posts ? schedule->posts : NULL, &next, device, lists, error))
      return NULL;
  return g_steal_pointer (&lists);
}

/* The name of a schedule: 1F1B_p4 for "runs/1F1B_p4.csv". */
static char *
name_of (const char *where)
{
  char *name = g_path_get_basename (where);
  char *dot = g_strrstr (name, ".");

  if (dot != NULL && dot > name)
    *dot = '\0';
  return name;
}

static void
add_action (PsScheduleBuilder *builder, const PsTorchLists *lists, const PsTorchAction *action)
{
  PsOp op = { .stage = action->stage, .microbatch = action->microbatch & G_MAXINT32, .paired = action->paired & 1U };
  guint peer;

  if (action->type < TORCH_N_COMPUTE)
    {
      op.kind = (guint8)ps_torch_op_kind (action->type);
      ps_schedule_builder_add_op (builder, op);
      return;
    }
  if (!ps_torch_is_send (action->type) && !ps_torch_is_receive (action->type))
    {
      ps_schedule_builder_add_post (builder, PS_POST_OTHER + action->type, op);
      return;
    }
  op.kind = action->type == TORCH_SEND_F || action->type == TORCH_RECV_F ? PS_OP_F : PS_OP_B;
  if (ps_torch_is_receive (action->type) && ps_torch_action_peer (lists, action, &peer))
    op.stage = (guint16)peer;
  ps_schedule_builder_add_post (builder, ps_torch_is_send (action->type) ? PS_POST_SEND : PS_POST_RECEIVE, op);
}

PsSchedule *
ps_torch_lists_to_schedule (const char *where, const PsTorchLists *lists)
{
  g_autofree char *name = name_of (where);
  PsPlacement *placement = ps_placement_new_custom (lists->n_ranks, lists->n_stages, 1, lists->rank);
  PsScheduleBuilder *builder = ps_schedule_builder_new (name, placement, lists->n_microbatches);

  for (guint r = 0; r < lists->n_ranks; r++)
    {
      for (guint i = 0; i < lists->actions[r]->len; i++)
        add_action (builder, lists, ps_torch_lists_action (lists, r, i));
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

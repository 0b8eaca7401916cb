/* torch-check.c - what must hold for the actions of each rank: all computing actions there, once, in order, and every
 * message with both its ends. */
#include "torch-actions.h"

typedef struct
{
  const char *where;
  const TorchLists *lists;
  guint8 *seen; /* [stage * n_microbatches + microbatch] bit per computing type */
} Check;

#define BIT(type) (1U << (type))
#define BACKWARD (BIT (TORCH_I) | BIT (TORCH_B))

static gsize
cell_of (const TorchLists *lists, guint stage, guint microbatch)
{
  return (gsize)stage * lists->n_microbatches + microbatch;
}

static const char *
order_problem (const TorchAction *action, guint seen)
{
  if (seen & BIT (action->type))
    return "is there twice";
  switch (action->type)
    {
    case TORCH_F:
      return NULL;
    case TORCH_W:
      if (seen & BIT (TORCH_B))
        return "its weights are done by the full backward B already";
      return seen & BIT (TORCH_I) ? NULL : "comes before its I";
    default:
      if (seen & BACKWARD)
        return "its backward is there already";
      return seen & BIT (TORCH_F) ? NULL : "comes before its F";
    }
}

static gboolean
check_orders (const Check *check, GError **error)
{
  const TorchLists *lists = check->lists;

  for (guint r = 0; r < lists->n_ranks; r++)
    for (guint i = 0; i < lists->actions[r]->len; i++)
      {
        const TorchAction *action = torch_lists_action (lists, r, i);
        guint8 *seen;
        const char *problem;

        if (action->type >= TORCH_N_COMPUTE)
          continue;
        seen = &check->seen[cell_of (lists, action->stage, action->microbatch)];
        problem = order_problem (action, *seen);
        if (problem)
          return torch_refuse (check->where, r, action, error, "%s", problem);
        *seen |= (guint8)BIT (action->type);
      }
  return TRUE;
}

static gboolean
check_complete (const Check *check, GError **error)
{
  const TorchLists *lists = check->lists;

  for (guint stage = 0; stage < lists->n_stages; stage++)
    for (guint m = 0; m < lists->n_microbatches; m++)
      {
        guint seen = check->seen[cell_of (lists, stage, m)];
        const char *missing = !(seen & BIT (TORCH_F))                                         ? "F"
                              : !(seen & BACKWARD)                                            ? "B (or I and W)"
                              : (seen & BACKWARD) == BIT (TORCH_I) && !(seen & BIT (TORCH_W)) ? "W"
                                                                                              : NULL;

        if (missing == NULL)
          continue;
        g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
                     "%s:%u: has no %s of microbatch %u on stage %u; microbatches go up to %u", check->where,
                     lists->rank[stage] + 1U, missing, m, stage, lists->n_microbatches - 1);
        return FALSE;
      }
  return TRUE;
}

/* Every microbatch has at least two actions on every stage, so a file with fewer is incomplete, whatever its ids:
 * tables never grow beyond the text. */
static gboolean
check_count (const Check *check, GError **error)
{
  const TorchLists *lists = check->lists;
  gsize n = 0, wanted = cell_of (lists, lists->n_stages, 0);

  for (guint r = 0; r < lists->n_ranks; r++)
    n += lists->actions[r]->len;
  if (wanted <= n)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
               "%s: has %" G_GSIZE_FORMAT " actions, but %u stages and microbatches up to %u want %" G_GSIZE_FORMAT
               " forwards",
               check->where, n, lists->n_stages, lists->n_microbatches - 1, wanted);
  return FALSE;
}

gboolean
torch_check_compute (const char *where, const TorchLists *lists, GError **error)
{
  g_autofree guint8 *seen = NULL;
  Check check = { .where = where, .lists = lists };

  if (!check_count (&check, error))
    return FALSE;
  seen = g_malloc0 (cell_of (lists, lists->n_stages, 0));
  check.seen = seen;
  return check_orders (&check, error) && check_complete (&check, error);
}

/* Messages: what has been seen of each. */
enum
{
  MADE = 1,
  SENT = 2,
  RECEIVED = 4,
  USED = 8,
};

static guint8 *
message_at (const Check *check, const TorchAction *action, TorchType as)
{
  TorchAction message = *action;

  message.type = (guint8)as;
  return &check->seen[torch_action_message (check->lists, &message)];
}

static gboolean
check_transfer (const Check *check, guint r, const TorchAction *action, GError **error)
{
  gboolean send = action->type == TORCH_SEND_F || action->type == TORCH_SEND_B;
  guint8 *message, bit = send ? SENT : RECEIVED;
  guint peer;

  if (!torch_action_peer (check->lists, action, &peer))
    return torch_refuse (check->where, r, action, error, "stage %u is an end of the model and has no such neighbour",
                         action->stage);
  if (check->lists->rank[peer] == r)
    return torch_refuse (check->where, r, action, error, "stage %u is on this rank too; nothing is sent", peer);
  message = message_at (check, action, action->type);
  if (*message & bit)
    return torch_refuse (check->where, r, action, error, "is there twice");
  if (send && !(*message & MADE))
    return torch_refuse (check->where, r, action, error, "comes before the action that makes what it sends");
  if (!send && *message & USED)
    return torch_refuse (check->where, r, action, error, "comes behind the action that needs it");
  *message |= bit;
  return TRUE;
}

static void
note_compute (const Check *check, guint r, const TorchAction *action)
{
  const TorchLists *lists = check->lists;
  TorchType receive;
  guint from, to;
  TorchAction send = *action;

  if (torch_action_input (lists, action, &from, &receive) && lists->rank[from] != r)
    *message_at (check, action, receive) |= USED;
  if (action->type == TORCH_W)
    return;
  send.type = action->type == TORCH_F ? TORCH_SEND_F : TORCH_SEND_B;
  if (torch_action_peer (lists, &send, &to) && lists->rank[to] != r)
    *message_at (check, action, send.type) |= MADE;
}

static gboolean
walk_messages (const Check *check, GError **error)
{
  for (guint r = 0; r < check->lists->n_ranks; r++)
    for (guint i = 0; i < check->lists->actions[r]->len; i++)
      {
        const TorchAction *action = torch_lists_action (check->lists, r, i);

        if (action->type < TORCH_N_COMPUTE)
          note_compute (check, r, action);
        else if (action->type >= TORCH_SEND_F && !check_transfer (check, r, action, error))
          return FALSE;
      }
  return TRUE;
}

/* Behind all actions, those are left out that nobody sent or received. */
static gboolean
find_missing (const Check *check, guint r, const TorchAction *action, GError **error)
{
  const TorchLists *lists = check->lists;
  TorchType receive;
  guint from;

  if (action->type < TORCH_N_COMPUTE)
    {
      if (torch_action_input (lists, action, &from, &receive) && lists->rank[from] != r
          && !(*message_at (check, action, receive) & RECEIVED))
        return torch_refuse (check->where, r, action, error, "has no RECV of what stage %u makes", from);
    }
  else if (action->type >= TORCH_SEND_F && (~*message_at (check, action, action->type) & (SENT | RECEIVED)) != 0)
    return torch_refuse (check->where, r, action, error, "has no %s on the other rank",
                         action->type == TORCH_SEND_F || action->type == TORCH_SEND_B ? "RECV" : "SEND");
  return TRUE;
}

gboolean
torch_check_messages (const char *where, const TorchLists *lists, GError **error)
{
  g_autofree guint8 *seen = g_malloc0 (2 * cell_of (lists, lists->n_stages, 0));
  Check check = { .where = where, .lists = lists, .seen = seen };

  if (!walk_messages (&check, error))
    return FALSE;
  for (guint r = 0; r < lists->n_ranks; r++)
    for (guint i = 0; i < lists->actions[r]->len; i++)
      if (!find_missing (&check, r, torch_lists_action (lists, r, i), error))
        return FALSE;
  return TRUE;
}

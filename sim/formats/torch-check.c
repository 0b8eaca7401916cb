/* torch-check.c - what must hold for the actions of each rank: all computing actions there, once, in order, and every
 * message with both its ends. */
#include "text.h"
#include "torch-actions.h"

#include <string.h>

typedef struct
{
  const char *where;
  const PsTorchLists *lists;
  guint8 *seen; /* [stage * n_microbatches + microbatch] bit per computing type */
} Check;

#define BIT(type) (1U << (type))
#define BACKWARD (BIT (TORCH_I) | BIT (TORCH_B))

static gsize
cell_of (const PsTorchLists *lists, guint stage, guint microbatch)
{
  return (gsize)stage * lists->n_microbatches + microbatch;
}

static const char *
order_problem (const PsTorchAction *action, guint seen)
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
  const PsTorchLists *lists = check->lists;

  for (guint r = 0; r < lists->n_ranks; r++)
    for (guint i = 0; i < lists->actions[r]->len; i++)
      {
        const PsTorchAction *action = ps_torch_lists_action (lists, r, i);
        guint8 *seen;

        if (action->type >= TORCH_N_COMPUTE)
          continue;
        seen = &check->seen[cell_of (lists, action->stage, action->microbatch)];
        const char *problem = order_problem (action, *seen);
        if (problem != NULL)
          return ps_refuse_at (ps_torch_place (check->where, r, action), error, "%s", problem);
        *seen |= (guint8)BIT (action->type);
      }
  return TRUE;
}

static gboolean
check_complete (const Check *check, GError **error)
{
  const PsTorchLists *lists = check->lists;

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
        return ps_refuse (error, PS_ERROR_INPUT,
                          "%s:%u: has no %s of microbatch %u on stage %u; microbatches go up to %u", check->where,
                          lists->rank[stage] + 1U, missing, m, stage, lists->n_microbatches - 1);
      }
  return TRUE;
}

/* Every microbatch has at least two actions on every stage, so a file with fewer is incomplete, whatever its ids:
 * tables never grow beyond the text. */
static gboolean
check_count (const Check *check, GError **error)
{
  const PsTorchLists *lists = check->lists;
  gsize n = 0, wanted = cell_of (lists, lists->n_stages, 0);

  for (guint r = 0; r < lists->n_ranks; r++)
    n += lists->actions[r]->len;
  if (wanted <= n)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT,
                    "%s: has %" G_GSIZE_FORMAT " actions, but %u stages and microbatches up to %u want %" G_GSIZE_FORMAT
                    " forwards",
                    check->where, n, lists->n_stages, lists->n_microbatches - 1, wanted);
}

gboolean
ps_torch_check_compute (const char *where, const PsTorchLists *lists, GError **error)
{
  Check check = { .where = where, .lists = lists };

  if (!check_count (&check, error))
    return FALSE;
  g_autofree guint8 *seen = g_malloc0 (cell_of (lists, lists->n_stages, 0));
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
  WAITED = 16,
};

static guint8 *
message_at (const Check *check, const PsTorchAction *action, PsTorchType as)
{
  PsTorchAction message = *action;

  message.type = (guint8)as;
  return &check->seen[ps_torch_action_message (check->lists, &message)];
}

static gboolean
check_transfer (const Check *check, guint r, const PsTorchAction *action, GError **error)
{
  gboolean send = ps_torch_is_send (action->type);
  guint8 *message, bit = send ? SENT : RECEIVED;
  guint peer;

  if (!ps_torch_action_peer (check->lists, action, &peer))
    return ps_refuse_at (ps_torch_place (check->where, r, action), error,
                         "stage %u is an end of the model and has no such neighbour", action->stage);
  if (check->lists->rank[peer] == r)
    return ps_refuse_at (ps_torch_place (check->where, r, action), error,
                         "stage %u is on this rank too; nothing is sent", peer);
  message = message_at (check, action, action->type);
  if (*message & bit)
    return ps_refuse_at (ps_torch_place (check->where, r, action), error, "is there twice");
  if (send && !(*message & MADE))
    return ps_refuse_at (ps_torch_place (check->where, r, action), error,
                         "comes before the action that makes what it sends");
  if (!send && *message & USED)
    return ps_refuse_at (ps_torch_place (check->where, r, action), error, "comes after the action that needs it");
  *message |= bit;
  return TRUE;
}

static gboolean
check_wait (const Check *check, guint r, const PsTorchAction *action, GError **error)
{
  guint8 *message = message_at (check, action, action->type);

  if (!(*message & SENT) || *message & WAITED)
    return ps_refuse_at (ps_torch_place (check->where, r, action), error, "waits for a send that is not under way");
  *message |= WAITED;
  return TRUE;
}

/* Also: one reduction at a time, each with its wait. */
static gboolean
check_reductions (const Check *check, guint r, GError **error)
{
  const PsTorchAction *open = NULL;

  for (guint i = 0; i < check->lists->actions[r]->len; i++)
    {
      const PsTorchAction *action = ps_torch_lists_action (check->lists, r, i);

      if (action->type == TORCH_REDUCE_GRAD && open != NULL)
        return ps_refuse_at (ps_torch_place (check->where, r, action), error,
                             "comes before the wait for the reduction of stage %u", open->stage);
      if (action->type == TORCH_WAIT_REDUCE_GRAD && (open == NULL || open->stage != action->stage))
        return ps_refuse_at (ps_torch_place (check->where, r, action), error,
                             "waits for a reduction that is not under way");
      if (action->type == TORCH_REDUCE_GRAD || action->type == TORCH_WAIT_REDUCE_GRAD)
        open = action->type == TORCH_REDUCE_GRAD ? action : NULL;
    }
  return open == NULL
         || ps_refuse_at (ps_torch_place (check->where, r, open), error,
                          "has no %uWAIT_REDUCE_GRAD after it, which PyTorch 2.15 wants", open->stage);
}

static void
note_compute (const Check *check, guint r, const PsTorchAction *action)
{
  const PsTorchLists *lists = check->lists;
  PsTorchType receive;
  guint from, to;
  PsTorchAction send = *action;

  if (ps_torch_action_input (lists, action, &from, &receive) && lists->rank[from] != r)
    *message_at (check, action, receive) |= USED;
  if (action->type == TORCH_W)
    return;
  send.type = action->type == TORCH_F ? TORCH_SEND_F : TORCH_SEND_B;
  if (ps_torch_action_peer (lists, &send, &to) && lists->rank[to] != r)
    *message_at (check, action, send.type) |= MADE;
}

static gboolean
walk_messages (const Check *check, GError **error)
{
  for (guint r = 0; r < check->lists->n_ranks; r++)
    for (guint i = 0; i < check->lists->actions[r]->len; i++)
      {
        const PsTorchAction *action = ps_torch_lists_action (check->lists, r, i);
        gboolean right = TRUE;

        if (action->type < TORCH_N_COMPUTE)
          note_compute (check, r, action);
        else if (ps_torch_is_send (action->type) || ps_torch_is_receive (action->type))
          right = check_transfer (check, r, action, error);
        else if (action->type >= TORCH_WAIT_SEND_F)
          right = check_wait (check, r, action, error);
        if (!right)
          return FALSE;
      }
  return TRUE;
}

/* Once all actions are noted: messages that were not sent, received or waited for. */
static gboolean
find_missing (const Check *check, guint r, const PsTorchAction *action, GError **error)
{
  const PsTorchLists *lists = check->lists;
  gboolean send = ps_torch_is_send (action->type);
  PsTorchType receive;
  guint from;

  if (action->type < TORCH_N_COMPUTE)
    {
      if (ps_torch_action_input (lists, action, &from, &receive) && lists->rank[from] != r
          && !(*message_at (check, action, receive) & RECEIVED))
        return ps_refuse_at (ps_torch_place (check->where, r, action), error, "has no RECV of what stage %u makes",
                             from);
    }
  else if ((send || ps_torch_is_receive (action->type))
           && (~*message_at (check, action, action->type) & (SENT | RECEIVED)) != 0)
    return ps_refuse_at (ps_torch_place (check->where, r, action), error, "has no %s on the other rank",
                         send ? "RECV" : "SEND");
  else if (send && lists->waits && !(*message_at (check, action, action->type) & WAITED))
    return ps_refuse_at (ps_torch_place (check->where, r, action), error,
                         "has no WAIT_SEND after it, which PyTorch 2.15 wants");
  return TRUE;
}

static const char *
ordinal_end (guint n)
{
  guint tens = n / 10 % 10, ones = n % 10;

  return tens == 1 || ones == 0 || ones > 3 ? "th" : ones == 1 ? "st" : ones == 2 ? "nd" : "rd";
}

/* The rank at the other end of a SEND or RECV. */
static guint
peer_rank (const PsTorchLists *lists, const PsTorchAction *action)
{
  guint stage = 0;

  ps_torch_action_peer (lists, action, &stage);
  return lists->rank[stage];
}

/* Names the n-th send of one rank to another and its n-th receive from there. */
static gboolean
refuse_mispaired (const Check *check, guint to, const PsTorchAction *receive, guint n, const guint32 *ordinal,
                  GError **error)
{
  const PsTorchLists *lists = check->lists;
  guint from = peer_rank (lists, receive);
  g_autoptr (GString) sent = g_string_new (NULL), received = g_string_new (NULL);

  for (guint i = 0; i < lists->actions[from]->len; i++)
    {
      const PsTorchAction *send = ps_torch_lists_action (lists, from, i);

      if (ps_torch_is_send (send->type) && peer_rank (lists, send) == to
          && ordinal[ps_torch_action_message (lists, send)] == n)
        ps_torch_action_append (sent, send);
    }
  ps_torch_action_append (received, receive);
  return ps_refuse_at (ps_torch_place (check->where, to, receive), error,
                       "rank %u's %u%s send to rank %u is %s, rank %u's %u%s receive from rank %u is %s: PyTorch would "
                       "hand one to the other",
                       from, n, ordinal_end (n), to, sent->str, to, n, ordinal_end (n), from, received->str);
}

/* Numbers the sends of each rank to each other, from 1, by their messages; then holds the receives against it. */
static gboolean
check_ordinals (const Check *check, gboolean sends, guint32 *ordinal, GError **error)
{
  const PsTorchLists *lists = check->lists;
  g_autofree guint32 *n = g_new (guint32, lists->n_ranks);

  for (guint r = 0; r < lists->n_ranks; r++)
    {
      memset (n, 0, lists->n_ranks * sizeof *n);
      for (guint i = 0; i < lists->actions[r]->len; i++)
        {
          const PsTorchAction *action = ps_torch_lists_action (lists, r, i);
          guint32 *of_message, of_peer;

          if (sends ? !ps_torch_is_send (action->type) : !ps_torch_is_receive (action->type))
            continue;
          of_message = &ordinal[ps_torch_action_message (lists, action)];
          of_peer = ++n[peer_rank (lists, action)];
          if (sends)
            *of_message = of_peer;
          else if (*of_message != of_peer)
            return refuse_mispaired (check, r, action, of_peer, ordinal, error);
        }
    }
  return TRUE;
}

/* Messages carry no tag: of what one rank sends to another the n-th send meets the n-th receive. */
static gboolean
check_pairing (const Check *check, GError **error)
{
  g_autofree guint32 *ordinal = g_new (guint32, 2 * cell_of (check->lists, check->lists->n_stages, 0));

  return check_ordinals (check, TRUE, ordinal, error) && check_ordinals (check, FALSE, ordinal, error);
}

gboolean
ps_torch_check_messages (const char *where, const PsTorchLists *lists, GError **error)
{
  g_autofree guint8 *seen = g_malloc0 (2 * cell_of (lists, lists->n_stages, 0));
  Check check = { .where = where, .lists = lists, .seen = seen };

  if (!walk_messages (&check, error))
    return FALSE;
  for (guint r = 0; r < lists->n_ranks; r++)
    {
      for (guint i = 0; i < lists->actions[r]->len; i++)
        if (!find_missing (&check, r, ps_torch_lists_action (lists, r, i), error))
          return FALSE;
      if (lists->waits && !check_reductions (&check, r, error))
        return FALSE;
    }
  return check_pairing (&check, error);
}

/* torch-waits.c - the waits for sends and reductions that PyTorch 2.15 needs and 2.14 does not have. */
#include "torch-actions.h"

static void
append_wait (GArray *list, PsTorchAction action)
{
  action.type = action.type == TORCH_REDUCE_GRAD ? TORCH_WAIT_REDUCE_GRAD
                : action.type == TORCH_SEND_F    ? TORCH_WAIT_SEND_F
                                                 : TORCH_WAIT_SEND_B;
  action.paired = FALSE;
  g_array_append_val (list, action);
}

/* Appends the wait for a send if it is under way. */
static void
end_send (const PsTorchLists *lists, guint8 *pending, PsTorchAction send, GArray *list)
{
  guint8 *message = &pending[ps_torch_action_message (lists, &send)];

  if (*message)
    append_wait (list, send);
  *message = FALSE;
}

/* pending: [2 * n_stages * n_microbatches] whether a message is being sent; all FALSE. */
static GArray *
wait_for_sends (const PsTorchLists *lists, const GArray *actions, guint8 *pending)
{
  const PsTorchAction *all = (const PsTorchAction *)(gconstpointer)actions->data;
  GArray *list = g_array_new (FALSE, FALSE, sizeof *all);

  for (guint i = 0, n; i < actions->len; i += n)
    {
      n = all[i].paired ? 2 : 1;
      g_array_append_vals (list, &all[i], n);
      if (ps_torch_is_send (all[i].type))
        pending[ps_torch_action_message (lists, &all[i])] = TRUE;
      for (guint k = i; k < i + n; k++)
        {
          PsTorchAction send = all[k];

          send.type = TORCH_SEND_F;
          if (all[k].type == TORCH_I || all[k].type == TORCH_B)
            end_send (lists, pending, send, list);
        }
    }
  for (guint i = 0; i < actions->len; i++)
    if (ps_torch_is_send (all[i].type))
      end_send (lists, pending, all[i], list);
  return list;
}

void
ps_torch_lists_wait_for_sends (PsTorchLists *lists)
{
  g_autofree guint8 *pending = g_malloc0 (2 * (gsize)lists->n_stages * lists->n_microbatches);

  for (guint r = 0; r < lists->n_ranks; r++)
    {
      GArray *list = wait_for_sends (lists, lists->actions[r], pending);

      g_array_unref (lists->actions[r]);
      lists->actions[r] = list;
    }
}

void
ps_torch_lists_set_waits (PsTorchLists *lists, gboolean waits)
{
  if (lists->waits == waits)
    return;
  for (guint r = 0; r < lists->n_ranks; r++)
    {
      GArray *list = g_array_new (FALSE, FALSE, sizeof (PsTorchAction));

      for (guint i = 0; i < lists->actions[r]->len; i++)
        {
          PsTorchAction action = *ps_torch_lists_action (lists, r, i);

          if (!ps_torch_is_wait (action.type))
            g_array_append_val (list, action);
          if (waits && action.type == TORCH_REDUCE_GRAD)
            append_wait (list, action);
        }
      g_array_unref (lists->actions[r]);
      lists->actions[r] = list;
    }
  if (waits)
    ps_torch_lists_wait_for_sends (lists);
  lists->waits = waits;
}

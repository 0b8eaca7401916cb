/* torch-lower.c - lists of computing actions become what PyTorch's runtime executes. Three passes, in its order:
 * weights are gathered and dropped, gradients are reduced, results are sent. */
#include "torch-actions.h"

/* At most so many stages of a rank have their weights gathered at a time. */
#define MAX_ACTIVE 3

/* The next stages that a rank computes on. A pair that fills the window brings both its stages, so there may be one
 * more. */
typedef struct
{
  guint n;
  guint16 stage[MAX_ACTIVE + 1];
  guint32 used[MAX_ACTIVE + 1]; /* place of its first action from here on */
} Window;

static gboolean
holds (const guint16 *stages, guint n, guint stage)
{
  for (guint i = 0; i < n; i++)
    if (stages[i] == stage)
      return TRUE;
  return FALSE;
}

/* Puts the stages of the cell at place in front; what falls out behind is never needed again to fill the window. */
static void
window_front (Window *window, const TorchAction *cell, guint n, guint place)
{
  Window old = *window;

  window->n = 0;
  for (guint i = 0; i < n; i++)
    if (!holds (window->stage, window->n, cell[i].stage))
      {
        window->used[window->n] = place;
        window->stage[window->n++] = cell[i].stage;
      }
  for (guint i = 0; i < old.n && window->n <= MAX_ACTIVE; i++)
    if (!holds (window->stage, window->n, old.stage[i]))
      {
        window->used[window->n] = old.used[i];
        window->stage[window->n++] = old.stage[i];
      }
}

static guint
window_size (const Window *window)
{
  if (window->n <= MAX_ACTIVE)
    return window->n;
  return window->used[MAX_ACTIVE] == window->used[MAX_ACTIVE - 1] ? MAX_ACTIVE + 1 : MAX_ACTIVE;
}

static void
append (GArray *list, TorchType type, guint stage, guint microbatch)
{
  TorchAction action = { .type = (guint8)type, .stage = (guint16)stage, .microbatch = microbatch };

  g_array_append_val (list, action);
}

/* The windows of all cells, found from the end; a pair's is at its first action. */
static Window *
find_windows (const GArray *actions)
{
  const TorchAction *all = (const TorchAction *)(gconstpointer)actions->data;
  Window *windows = g_new (Window, actions->len + 1);
  Window window = { 0 };

  for (guint i = actions->len; i-- > 0;)
    {
      guint first = i > 0 && all[i - 1].paired ? i - 1 : i;

      window_front (&window, &all[first], i - first + 1, first);
      windows[first] = window;
      i = first;
    }
  return windows;
}

/* Drops the active stages that are not in the window, the lowest first, and gathers those that are new in it. PyTorch
 * keeps the active ones in a set, so that only the window's order is its own. */
static void
change_active (GArray *list, guint16 *active, guint *n_active, const guint16 *wanted, guint n_wanted)
{
  guint kept = 0;

  for (guint i = 1; i < *n_active; i++)
    for (guint j = i; j > 0 && active[j] < active[j - 1]; j--)
      {
        guint16 stage = active[j];

        active[j] = active[j - 1];
        active[j - 1] = stage;
      }
  for (guint i = 0; i < *n_active; i++)
    if (holds (wanted, n_wanted, active[i]))
      active[kept++] = active[i];
    else
      append (list, TORCH_RESHARD, active[i], 0);
  *n_active = kept;
  for (guint i = 0; i < n_wanted; i++)
    if (!holds (active, *n_active, wanted[i]))
      {
        append (list, TORCH_UNSHARD, wanted[i], 0);
        active[(*n_active)++] = wanted[i];
      }
}

/* Reduces the gradients of a stage behind the cell with its last backward. */
static void
append_reduce (GArray *list, const TorchAction *cell, guint n, guint *left)
{
  for (guint i = 0; i < n; i++)
    if ((cell[i].type == TORCH_W || cell[i].type == TORCH_B) && --left[cell[i].stage] == 0)
      append (list, TORCH_REDUCE_GRAD, cell[i].stage, 0);
}

static GArray *
add_weights (const GArray *actions, guint *left)
{
  g_autofree Window *windows = find_windows (actions);
  GArray *list = g_array_new (FALSE, FALSE, sizeof (TorchAction));
  guint16 active[2 * (MAX_ACTIVE + 1)];
  guint n_active = 0, n;

  for (guint i = 0; i < actions->len; i += n)
    {
      const TorchAction *cell = &g_array_index (actions, TorchAction, i);

      n = cell->paired ? 2 : 1;
      change_active (list, active, &n_active, windows[i].stage, window_size (&windows[i]));
      g_array_append_vals (list, cell, n);
      append_reduce (list, cell, n, left);
    }
  change_active (list, active, &n_active, NULL, 0);
  return list;
}

/* The third pass: ranks take turns. */
typedef struct
{
  const TorchLists *from;
  TorchLists *to;
  guint *next;      /* [n_ranks] */
  guint8 *produced; /* [stage * n_microbatches + microbatch] bit 0 forward, bit 1 backward */
} Lowering;

static guint8 *
produced_at (const Lowering *lowering, guint stage, guint microbatch)
{
  return &lowering->produced[(gsize)stage * lowering->from->n_microbatches + microbatch];
}

static gboolean
is_ready (const Lowering *lowering, const TorchAction *action)
{
  TorchType receive;
  guint from;

  if (!torch_action_input (lowering->from, action, &from, &receive))
    return TRUE;
  return (*produced_at (lowering, from, action->microbatch) & (receive == TORCH_RECV_F ? 1 : 2)) != 0;
}

static void
produce (Lowering *lowering, guint rank, const TorchAction *action)
{
  TorchAction send = *action;
  guint to;

  if (action->type != TORCH_F && action->type != TORCH_I && action->type != TORCH_B)
    return;
  *produced_at (lowering, action->stage, action->microbatch) |= action->type == TORCH_F ? 1 : 2;
  send.type = action->type == TORCH_F ? TORCH_SEND_F : TORCH_SEND_B;
  if (!torch_action_peer (lowering->from, &send, &to) || lowering->from->rank[to] == rank)
    return;
  append (lowering->to->actions[rank], send.type, send.stage, send.microbatch);
  append (lowering->to->actions[lowering->from->rank[to]], send.type + TORCH_RECV_F - TORCH_SEND_F, to,
          send.microbatch);
}

/* Appends the next cell of a rank if what it needs was sent. */
static gboolean
advance (Lowering *lowering, guint rank)
{
  const GArray *actions = lowering->from->actions[rank];
  const TorchAction *cell;
  guint n;

  if (lowering->next[rank] == actions->len)
    return FALSE;
  cell = &g_array_index (actions, TorchAction, lowering->next[rank]);
  n = cell->paired ? 2 : 1;
  for (guint i = 0; i < n; i++)
    if (!is_ready (lowering, &cell[i]))
      return FALSE;
  g_array_append_vals (lowering->to->actions[rank], cell, n);
  for (guint i = 0; i < n; i++)
    produce (lowering, rank, &cell[i]);
  lowering->next[rank] += n;
  return TRUE;
}

static gboolean
is_complete (const Lowering *lowering, GError **error)
{
  for (guint r = 0; r < lowering->from->n_ranks; r++)
    if (lowering->next[r] < lowering->from->actions[r]->len)
      {
        g_autoptr (GString) name = g_string_new (NULL);

        torch_action_append (name, torch_lists_action (lowering->from, r, lowering->next[r]));
        g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE,
                     "rank %u: %s: deadlock: the orders of the ranks wait for each other in a circle", r, name->str);
        return FALSE;
      }
  return TRUE;
}

static TorchLists *
add_transfers (const TorchLists *from, GError **error)
{
  g_autoptr (TorchLists) to = torch_lists_new (from->n_ranks, from->n_stages, from->n_microbatches);
  g_autofree guint *next = g_new0 (guint, from->n_ranks);
  g_autofree guint8 *produced = g_malloc0 ((gsize)from->n_stages * from->n_microbatches);
  Lowering lowering = { .from = from, .to = to, .next = next, .produced = produced };
  gboolean moved;

  for (guint stage = 0; stage < from->n_stages; stage++)
    to->rank[stage] = from->rank[stage];
  do
    {
      moved = FALSE;
      for (guint r = 0; r < from->n_ranks; r++)
        moved |= advance (&lowering, r);
    }
  while (moved);
  return is_complete (&lowering, error) ? g_steal_pointer (&to) : NULL;
}

TorchLists *
torch_lists_lower (const TorchLists *compute, GError **error)
{
  g_autoptr (TorchLists) weights = torch_lists_new (compute->n_ranks, compute->n_stages, compute->n_microbatches);
  g_autofree guint *left = g_new (guint, compute->n_stages);

  for (guint stage = 0; stage < compute->n_stages; stage++)
    {
      weights->rank[stage] = compute->rank[stage];
      left[stage] = compute->n_microbatches;
    }
  for (guint r = 0; r < compute->n_ranks; r++)
    {
      g_array_unref (weights->actions[r]);
      weights->actions[r] = add_weights (compute->actions[r], left);
    }
  return add_transfers (weights, error);
}

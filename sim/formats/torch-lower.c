/* torch-lower.c - lists of computing actions become what PyTorch's runtime executes. Passes in its order: weights are
 * gathered and dropped, gradients are reduced, results are sent, sends are waited for. */
#include "torch-actions.h"
#include "program/weight-window.h"

static void
append (GArray *list, PsTorchType type, guint stage, guint microbatch)
{
  PsTorchAction action = { .type = (guint8)type, .stage = (guint16)stage, .microbatch = microbatch };

  g_array_append_val (list, action);
}

/* The windows of all cells, found from the end; a pair's is at its first action. */
static PsWeightWindow *
find_windows (const GArray *actions)
{
  const PsTorchAction *all = (const PsTorchAction *)(gconstpointer)actions->data;
  PsWeightWindow *windows = g_new (PsWeightWindow, actions->len + 1);
  PsWeightWindow window = { 0 };

  for (guint i = actions->len; i-- > 0;)
    {
      guint first = i > 0 && all[i - 1].paired ? i - 1 : i;
      const guint16 stages[] = { all[first].stage, all[i].stage };

      ps_weight_window_front (&window, stages, i - first + 1, first);
      windows[first] = window;
      i = first;
    }
  return windows;
}

static void
sort_stages (guint16 *stages, guint n)
{
  for (guint i = 1; i < n; i++)
    for (guint j = i; j > 0 && stages[j] < stages[j - 1]; j--)
      {
        guint16 stage = stages[j];

        stages[j] = stages[j - 1];
        stages[j - 1] = stage;
      }
}

/* Drops active stages outside the window, in the order in which they were gathered, then gathers the stages new in it.
 * PyTorch 2.14 (`waits` is FALSE) keeps active stages in a set: the lowest goes first. */
static void
change_active (GArray *list, gboolean waits, guint16 *active, guint *n_active, const guint16 *wanted, guint n_wanted)
{
  guint kept = 0;

  if (!waits)
    sort_stages (active, *n_active);
  for (guint i = 0; i < *n_active; i++)
    if (ps_weight_window_holds (wanted, n_wanted, active[i]))
      active[kept++] = active[i];
    else
      append (list, TORCH_RESHARD, active[i], 0);
  *n_active = kept;
  for (guint i = 0; i < n_wanted; i++)
    if (!ps_weight_window_holds (active, *n_active, wanted[i]))
      {
        append (list, TORCH_UNSHARD, wanted[i], 0);
        active[(*n_active)++] = wanted[i];
      }
}

/* Reduces the gradients of a stage after the cell with its last backward. */
static void
append_reduce (GArray *list, gboolean waits, const PsTorchAction *cell, guint n, guint *left)
{
  for (guint i = 0; i < n; i++)
    if ((cell[i].type == TORCH_W || cell[i].type == TORCH_B) && --left[cell[i].stage] == 0)
      {
        append (list, TORCH_REDUCE_GRAD, cell[i].stage, 0);
        if (waits)
          append (list, TORCH_WAIT_REDUCE_GRAD, cell[i].stage, 0);
      }
}

static GArray *
add_weights (const GArray *actions, gboolean waits, guint *left)
{
  g_autofree PsWeightWindow *windows = find_windows (actions);
  GArray *list = g_array_new (FALSE, FALSE, sizeof (PsTorchAction));
  guint16 active[2 * (PS_WEIGHT_WINDOW + 1)];
  guint n_active = 0, n;

  for (guint i = 0; i < actions->len; i += n)
    {
      const PsTorchAction *cell = &g_array_index (actions, PsTorchAction, i);

      n = cell->paired ? 2 : 1;
      change_active (list, waits, active, &n_active, windows[i].stage, ps_weight_window_size (&windows[i]));
      g_array_append_vals (list, cell, n);
      append_reduce (list, waits, cell, n, left);
    }
  change_active (list, waits, active, &n_active, NULL, 0);
  return list;
}

/* The third pass: ranks take turns. */
typedef struct
{
  const PsTorchLists *from;
  PsTorchLists *to;
  guint *next;      /* [n_ranks] */
  guint8 *produced; /* [stage * n_microbatches + microbatch] bit 0 forward, bit 1 backward */
} Lowering;

static guint8 *
produced_at (const Lowering *lowering, guint stage, guint microbatch)
{
  return &lowering->produced[(gsize)stage * lowering->from->n_microbatches + microbatch];
}

static gboolean
is_ready (const Lowering *lowering, const PsTorchAction *action)
{
  PsTorchType receive;
  guint from;

  if (!ps_torch_action_input (lowering->from, action, &from, &receive))
    return TRUE;
  return (*produced_at (lowering, from, action->microbatch) & (receive == TORCH_RECV_F ? 1 : 2)) != 0;
}

static void
produce (Lowering *lowering, guint rank, const PsTorchAction *action)
{
  PsTorchAction send = *action;
  guint to;

  if (action->type != TORCH_F && action->type != TORCH_I && action->type != TORCH_B)
    return;
  *produced_at (lowering, action->stage, action->microbatch) |= action->type == TORCH_F ? 1 : 2;
  send.type = action->type == TORCH_F ? TORCH_SEND_F : TORCH_SEND_B;
  if (!ps_torch_action_peer (lowering->from, &send, &to) || lowering->from->rank[to] == rank)
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

  if (lowering->next[rank] == actions->len)
    return FALSE;
  const PsTorchAction *cell = &g_array_index (actions, PsTorchAction, lowering->next[rank]);
  guint n = cell->paired ? 2 : 1;
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

        ps_torch_action_append (name, ps_torch_lists_action (lowering->from, r, lowering->next[r]));
        return ps_refuse (error, PS_ERROR_SCHEDULE,
                          "rank %u: %s: deadlock: the orders of the ranks wait for each other in a circle", r,
                          name->str);
      }
  return TRUE;
}

static PsTorchLists *
add_transfers (const PsTorchLists *from, GError **error)
{
  g_autoptr (PsTorchLists) to = ps_torch_lists_new (from->n_ranks, from->n_stages, from->n_microbatches);
  g_autofree guint *next = g_new0 (guint, from->n_ranks);
  g_autofree guint8 *produced = g_malloc0 ((gsize)from->n_stages * from->n_microbatches);
  Lowering lowering = { .from = from, .to = to, .next = next, .produced = produced };
  gboolean moved;

  to->waits = from->waits;
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

static PsTorchLists *
add_all_weights (const PsTorchLists *compute, gboolean waits)
{
  PsTorchLists *weights = ps_torch_lists_new (compute->n_ranks, compute->n_stages, compute->n_microbatches);
  g_autofree guint *left = g_new (guint, compute->n_stages);

  weights->waits = waits;
  for (guint stage = 0; stage < compute->n_stages; stage++)
    {
      weights->rank[stage] = compute->rank[stage];
      left[stage] = compute->n_microbatches;
    }
  for (guint r = 0; r < compute->n_ranks; r++)
    {
      g_array_unref (weights->actions[r]);
      weights->actions[r] = add_weights (compute->actions[r], waits, left);
    }
  return weights;
}

PsTorchLists *
ps_torch_lists_lower (const PsTorchLists *compute, gboolean waits, GError **error)
{
  g_autoptr (PsTorchLists) weights = add_all_weights (compute, waits);
  PsTorchLists *lists = add_transfers (weights, error);

  if (lists != NULL && waits)
    ps_torch_lists_wait_for_sends (lists);
  return lists;
}

/* Actions of a rank up to its next computation, that included. Both of a pair share a cell, so they stay together. */
static void
append_computation (const GArray *from, guint *next, GArray *to)
{
  gboolean found = FALSE;

  while (*next < from->len && !found)
    {
      const PsTorchAction *action = &g_array_index (from, PsTorchAction, (*next)++);

      g_array_append_vals (to, action, 1);
      found = action->type < TORCH_N_COMPUTE;
    }
}

static void
append_instruction (const PsInstruction *instruction, GArray *to)
{
  PsTorchAction action = ps_torch_action_of_message (instruction->type == PS_INSTRUCTION_SEND, instruction->op);

  g_array_append_val (to, action);
}

PsTorchLists *
ps_torch_lists_follow (const PsTorchLists *compute, const PsProgram *program, gboolean waits)
{
  g_autoptr (PsTorchLists) weights = add_all_weights (compute, waits);
  PsTorchLists *to = ps_torch_lists_new (compute->n_ranks, compute->n_stages, compute->n_microbatches);

  to->waits = waits;
  for (guint stage = 0; stage < compute->n_stages; stage++)
    to->rank[stage] = compute->rank[stage];
  for (guint r = 0; r < compute->n_ranks; r++)
    {
      guint next = 0;

      for (guint i = program->first[r]; i < program->first[r + 1]; i++)
        if (program->instructions[i].type == PS_INSTRUCTION_COMPUTE)
          append_computation (weights->actions[r], &next, to->actions[r]);
        else if (program->instructions[i].type != PS_INSTRUCTION_WAIT)
          append_instruction (&program->instructions[i], to->actions[r]);
      append_computation (weights->actions[r], &next, to->actions[r]);
    }
  if (waits)
    ps_torch_lists_wait_for_sends (to);
  return to;
}

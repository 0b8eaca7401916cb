/* weight-window.c - which stages of a device have their weights gathered, and the actions that this takes. */
#include "weight-window.h"

static gboolean holds (const guint16 *stages, guint n, guint stage)
{
  for (guint i = 0; i < n; i++)
    if (stages[i] == stage)
      return TRUE;
  return FALSE;
}

/* The place of the cell before `next`. */
static guint cell_before (const PsSchedule *schedule, guint first, guint next)
{
  return next - (next - first > 1 && schedule->ops[next - 2].paired ? 2 : 1);
}

/* A stage that falls out at the back is never needed again to fill the window. */
static void move_to_front (PsWeightWindow *window, guint16 stage, guint place)
{
  guint n = 0;

  while (n < window->n && window->stage[n] != stage)
    n++;
  if (n == window->n && n <= PS_WEIGHT_WINDOW)
    window->n++;
  for (guint i = MIN (n, PS_WEIGHT_WINDOW); i > 0; i--) {
    window->stage[i] = window->stage[i - 1];
    window->used[i] = window->used[i - 1];
  }
  window->stage[0] = stage;
  window->used[0] = place;
}

/* Goes one cell back from `next` in the order of the device whose first op is `first`. Returns the cell's place. */
static guint go_back (PsWeightWindow *window, const PsSchedule *schedule, guint first, guint next)
{
  guint place = cell_before (schedule, first, next);

  while (next > place)
    move_to_front (window, schedule->ops[--next].stage, place);
  return place;
}

guint ps_weight_window_size (const PsWeightWindow *window)
{
  if (window->n <= PS_WEIGHT_WINDOW)
    return window->n;
  return window->used[PS_WEIGHT_WINDOW] == window->used[PS_WEIGHT_WINDOW - 1] ? PS_WEIGHT_WINDOW + 1 : PS_WEIGHT_WINDOW;
}

PsWeightWindow *ps_weight_windows (const PsSchedule *schedule, guint device)
{
  guint first = schedule->first[device], last = schedule->first[device + 1];
  PsWeightWindow *windows = g_new0 (PsWeightWindow, last - first + 1), window = { 0 };

  for (guint next = last, place; next > first; next = place) {
    place = go_back (&window, schedule, first, next);
    windows[place - first] = window;
  }
  return windows;
}

void ps_gathered_change (PsGathered *gathered, const PsWeightWindow *window, PsWeightAction act, gpointer data)
{
  guint n = ps_weight_window_size (window), kept = 0;

  for (guint i = 0; i < gathered->n; i++)
    if (holds (window->stage, n, gathered->stage[i]))
      gathered->stage[kept++] = gathered->stage[i];
    else
      act (data, gathered->stage[i], FALSE);
  gathered->n = kept;
  for (guint i = 0; i < n; i++)
    if (!holds (gathered->stage, gathered->n, window->stage[i])) {
      act (data, window->stage[i], TRUE);
      gathered->stage[gathered->n++] = window->stage[i];
    }
}

/* Stages that are in only one of the windows of two cells in a row. Where the back of both is the same stage, or a
 * window with room got no new one, all others differ in their order alone. */
static guint count_changes (const PsWeightWindow *a, const PsWeightWindow *b)
{
  guint n_a = ps_weight_window_size (a), n_b = ps_weight_window_size (b), n = n_a + n_b;

  if (a->n == b->n && a->stage[PS_WEIGHT_WINDOW] == b->stage[PS_WEIGHT_WINDOW])
    return n_a != n_b;
  for (guint i = 0; i < n_a; i++)
    n -= holds (b->stage, n_b, a->stage[i]) ? 2 : 0;
  return n;
}

/* Ops of a stage that a walk from a device's last op to its first has seen. */
enum {
  SEEN_OP = 1,
  SEEN_BACKWARD = 2, /* W or BW: its gradients are complete */
};

static guint count_reduced (const PsOp *cell, guint n, guint8 *seen)
{
  guint n_reduced = 0;

  for (guint i = 0; i < n; i++)
    if ((cell[i].kind == PS_OP_W || cell[i].kind == PS_OP_BW) && !(seen[cell[i].stage] & SEEN_BACKWARD)) {
      seen[cell[i].stage] |= SEEN_BACKWARD;
      n_reduced++;
    }
  return n_reduced;
}

/* If all n_held stages of the device fit into the window, each is gathered at the start and dropped after its last op.
 */
static void count_all_gathered (const PsSchedule *schedule, guint device, guint n_held, guint n_reduce, guint8 *seen,
                                guint8 *actions)
{
  guint first = schedule->first[device], last = schedule->first[device + 1], n_stages = 0, n_turns = 0;

  for (guint next = last, place; next > first && n_turns < 2 * n_held; next = place) {
    guint n_new = 0;

    place = cell_before (schedule, first, next);
    for (guint i = place; i < next; i++)
      if (!(seen[schedule->ops[i].stage] & SEEN_OP)) {
        seen[schedule->ops[i].stage] |= SEEN_OP;
        n_new++;
      }
    n_stages += n_new;
    guint n_reduced = count_reduced (&schedule->ops[place], next - place, seen);
    n_turns += n_new + n_reduced;
    if (next < last)
      actions[next] = (guint8)(n_new + n_reduce * n_reduced);
  }
  if (first < last)
    actions[first] = (guint8)n_stages;
}

static void count_windows (const PsSchedule *schedule, guint device, guint n_reduce, guint8 *seen, guint8 *actions)
{
  PsWeightWindow window = { 0 };
  guint first = schedule->first[device], last = schedule->first[device + 1];

  for (guint next = last, place; next > first; next = place) {
    PsWeightWindow later = window;

    place = go_back (&window, schedule, first, next);
    guint n_reduced = count_reduced (&schedule->ops[place], next - place, seen);
    if (next < last)
      actions[next] = (guint8)(count_changes (&window, &later) + n_reduce * n_reduced);
  }
  if (first < last)
    actions[first] = (guint8)ps_weight_window_size (&window);
}

guint8 *ps_weight_actions (const PsSchedule *schedule, guint n_reduce)
{
  const PsPlacement *placement = schedule->placement;
  guint n_places = placement->n_copies * placement->n_stages;
  g_autofree guint8 *seen = g_new0 (guint8, placement->n_stages);
  g_autofree guint *n_stages = g_new0 (guint, placement->n_devices);
  guint8 *actions = g_new0 (guint8, (gsize)ps_schedule_n_ops (schedule) + 1);

  for (guint i = 0; i < n_places; i++)
    n_stages[placement->device[i]]++;
  for (guint device = 0; device < placement->n_devices; device++) {
    if (n_stages[device] <= PS_WEIGHT_WINDOW)
      count_all_gathered (schedule, device, n_stages[device], n_reduce, seen, actions);
    else
      count_windows (schedule, device, n_reduce, seen, actions);
    for (guint i = 0; i < n_places; i++)
      if (placement->device[i] == device)
        seen[i % placement->n_stages] = 0;
  }
  return actions;
}

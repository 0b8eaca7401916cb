/* split.c - refutes targets, by narrowing or by cases: a microbatch turns around before a moment, or after it. */
#include "windows-private.h"

/* The part of a window that is tried as a case of its own, at each of its ends: 1 / SHAVED_PART. */
#define SHAVED_PART 8

/* Dead ends of a descent until it stops. */
#define MAX_FAILS 20

typedef struct
{
  PsWindows *windows;
  guint n_cases;   /* left */
  gboolean shaved; /* some window, in the sweep under way */
  PsOrder *order;  /* takes better ones; NULL: none is wanted */
} Cases;

static gboolean
may_go_on (const Cases *cases)
{
  return cases->n_cases > 0 && !cases->windows->stopped;
}

/* How far an op can move. 0 if nothing is known of its start, or of its end, because the span of another device counts.
 */
static gint64
room_of (const PsWindows *windows, guint op)
{
  if (windows->start[op] < 0 || windows->end[op] > windows->target)
    return 0;
  return windows->end[op] - windows->start[op] - windows->problem->duration[chain_of (windows->problem, op)];
}

/* The F of a microbatch in the last stage of its copy: microbatches of both copies in turn. */
static guint
turn_at (const PsProblem *problem, guint i)
{
  guint copy = i % problem->n_copies;

  return op_at (problem, (copy + 1) * problem->n_copy_stages - 1, PS_OP_F, i / problem->n_copies);
}

/* The turn with the widest window; n_ops: none has room to move. */
static guint
widest_turn (const PsWindows *windows)
{
  const PsProblem *problem = windows->problem;
  guint best = problem->n_ops;
  gint64 most = 0;

  for (guint i = 0; i < problem->m * problem->n_copies; i++)
    {
      guint op = turn_at (problem, i);

      if (room_of (windows, op) <= most)
        continue;
      most = room_of (windows, op);
      best = op;
    }
  return best;
}

/* Cuts a part off the window of an op, at the front or at the back, as often as narrowing refutes that the op runs
 * there. TRUE: the target is refuted. */
static gboolean
shave_end (Cases *cases, guint op, gboolean front)
{
  PsWindows *windows = cases->windows;
  gint64 time = windows->problem->duration[chain_of (windows->problem, op)];

  while (may_go_on (cases) && room_of (windows, op) > 0)
    {
      gint64 part = room_of (windows, op) / SHAVED_PART, start = windows->start[op], end = windows->end[op];
      guint place = ps_windows_mark (windows);
      gboolean refuted;

      cases->n_cases--;
      ps_windows_limit (windows, op, front ? start : end - part - time, front ? start + part + time : end);
      refuted = !ps_windows_narrow (windows);
      ps_windows_undo (windows, place);
      if (!refuted)
        return FALSE;
      cases->shaved = TRUE;
      ps_windows_limit (windows, op, front ? start + part + 1 : start, front ? end : end - part - 1);
      if (!ps_windows_narrow (windows))
        return TRUE;
    }
  return FALSE;
}

/* Shaves the windows of all turns: starts up the microbatches, ends down. TRUE: the target is refuted. */
static gboolean
shave (Cases *cases)
{
  const PsProblem *problem = cases->windows->problem;
  guint n = problem->m * problem->n_copies;

  do
    {
      cases->shaved = FALSE;
      for (guint i = 0; i < 2 * n; i++)
        if (shave_end (cases, turn_at (problem, i < n ? i : 2 * n - 1 - i), i < n))
          return TRUE;
    }
  while (may_go_on (cases) && cases->shaved);
  return FALSE;
}

/* Looks for an order where no turn can move. TRUE: there is none. */
static gboolean
finish (Cases *cases)
{
  PsWindows *windows = cases->windows;
  g_autoptr (PsOrder) order = ps_order_new (windows->problem);
  PsRandom random = { 0 };
  const PsDescent descent = { .order = order, .target = windows->target, .max_fails = MAX_FAILS, .random = &random };
  PsDescended result = ps_windows_can_descend (windows) ? ps_windows_explore (windows, &descent) : PS_DESCENDED_STOPPED;

  if (result == PS_DESCENDED_FOUND && cases->order != NULL && order->objective < cases->order->objective)
    ps_order_assign (cases->order, order);
  return result == PS_DESCENDED_REFUTED;
}

/* Narrows the windows, and splits them into cases. TRUE: each case is refuted. */
static gboolean
split (Cases *cases, gboolean is_root)
{
  PsWindows *windows = cases->windows;

  if (!ps_windows_narrow (windows) || (is_root && cases->n_cases > 0 && shave (cases)))
    return TRUE;
  if (!may_go_on (cases))
    return FALSE;
  guint op = widest_turn (windows);

  if (op == windows->problem->n_ops)
    return finish (cases);
  gint64 half = windows->start[op] + room_of (windows, op) / 2;
  guint place = ps_windows_mark (windows);
  gboolean refuted;

  cases->n_cases--;
  ps_windows_limit (windows, op, windows->start[op],
                    half + windows->problem->duration[chain_of (windows->problem, op)]);
  refuted = split (cases, FALSE);
  ps_windows_undo (windows, place);
  if (!refuted)
    return FALSE;
  ps_windows_limit (windows, op, half + 1, windows->end[op]);
  return split (cases, FALSE);
}

/* Whether no order meets the target: of all devices, or of the span of one, first the one that refuted the last target.
 */
static gboolean
refute (PsWindows *windows, gint64 target, guint n_cases, PsOrder *order)
{
  guint n = windows->problem->n_devices;
  gboolean spans = windows->problem->objective == PS_OBJECTIVE_SPAN;

  for (guint i = 0; i < (spans ? n : 1) && !windows->stopped; i++)
    {
      guint d = spans ? (windows->refuter + i) % n : n;
      Cases cases = { .windows = windows, .n_cases = n_cases, .order = order };

      ps_windows_open (windows, d, target);
      if (!split (&cases, TRUE))
        continue;
      windows->refuter = d;
      return TRUE;
    }
  return FALSE;
}

gint64
ps_windows_bound (PsWindows *windows, gint64 lower, gint64 upper, guint n_cases, PsOrder *order,
                  gboolean (*go_on) (gpointer data), gpointer data)
{
  gint64 least, target, step;

  if (n_cases > windows->n_cases)
    windows->open = NEVER;
  windows->n_cases = n_cases;
  upper = MIN (upper, windows->open);
  least = MAX ((upper - lower) / 128, 1);
  /* Narrowing takes as long for all targets; cases go on from targets that few of them refute. */
  step = n_cases == 0 ? upper - 1 - lower : (upper - lower) / 16;
  target = lower + step;
  windows->go_on = go_on;
  windows->data = data;
  windows->stopped = FALSE;
  while (upper - lower >= least && lower <= target)
    {
      gboolean refuted = refute (windows, target, n_cases, order);

      if (!refuted && windows->stopped)
        break;
      if (refuted)
        lower = target + 1;
      else
        upper = windows->open = target;
      if (order != NULL)
        upper = MIN (upper, order->objective);
      step = MIN (refuted && n_cases > 0 ? 2 * step + 1 : upper - lower, (upper - lower) / 2);
      target = lower + step;
    }
  return lower;
}

/* split.c - refutes targets, by narrowing or by cases: a microbatch turns around before a moment, or after it. */
#include "windows-private.h"

#include <string.h>

/* The F of a last stage with the widest window; n_ops: none has room to move. */
static guint
widest_turn (const PsWindows *windows)
{
  const PsProblem *problem = windows->problem;
  guint best = problem->n_ops;
  gint64 most = 0;

  for (guint s = problem->n_copy_stages - 1; s < problem->n_stages; s += problem->n_copy_stages)
    for (guint k = 0; k < problem->m; k++)
      {
        guint op = op_at (problem, s, PS_OP_F, k);
        gint64 room = windows->end[op] - windows->start[op] - problem->duration[s * N_KINDS + PS_OP_F];

        /* Nothing is known of its start if its device is not that of the span, or of its end. */
        if (room <= most || windows->start[op] < 0 || windows->end[op] > windows->target)
          continue;
        most = room;
        best = op;
      }
  return best;
}

/* Narrows the windows, and splits them into at most *n_cases cases, which it takes off. TRUE: each case is refuted. */
static gboolean
split (PsWindows *windows, guint *n_cases)
{
  const PsProblem *problem = windows->problem;
  gsize size = problem->n_ops * sizeof *windows->start;
  gboolean refuted = !ps_windows_narrow (windows);
  guint op = refuted || windows->stopped || *n_cases == 0 ? problem->n_ops : widest_turn (windows);

  if (op == problem->n_ops)
    return refuted;
  g_autofree gint64 *start = g_memdup2 (windows->start, size), *end = g_memdup2 (windows->end, size);
  gint64 time = problem->duration[chain_of (problem, op)], half = start[op] + (end[op] - start[op] - time) / 2;

  *n_cases -= 1;
  windows->end[op] = half + time;
  windows->touched[device_of (problem, op)] = TRUE;
  if (!split (windows, n_cases))
    return FALSE;
  memcpy (windows->start, start, size);
  memcpy (windows->end, end, size);
  windows->start[op] = half + 1;
  windows->touched[device_of (problem, op)] = TRUE;
  return split (windows, n_cases);
}

/* Whether no order meets the target: of all devices, or of the span of one. */
static gboolean
refute (PsWindows *windows, gint64 target, guint n_cases)
{
  guint n = windows->problem->n_devices;
  gboolean spans = windows->problem->objective == PS_OBJECTIVE_SPAN;

  for (guint d = spans ? 0 : n; d < (spans ? n : n + 1) && !windows->stopped; d++)
    {
      guint left = n_cases;

      ps_windows_open (windows, d, target);
      if (split (windows, &left))
        return TRUE;
    }
  return FALSE;
}

gint64
ps_windows_bound (PsWindows *windows, gint64 lower, gint64 upper, guint n_cases, gboolean (*go_on) (gpointer data),
                  gpointer data)
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
      gboolean refuted = refute (windows, target, n_cases);

      if (!refuted && windows->stopped)
        break;
      if (refuted)
        lower = target + 1;
      else
        upper = windows->open = target;
      step = refuted && n_cases > 0 ? 2 * step + 1 : upper - lower;
      target = lower + MIN (step, (upper - lower) / 2);
    }
  return lower;
}

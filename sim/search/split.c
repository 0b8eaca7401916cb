/* split.c - refutes a target by cases: a microbatch turns around before a moment, or after it. */
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

gboolean
ps_windows_split (PsWindows *windows, guint *n_cases)
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
  if (!ps_windows_split (windows, n_cases))
    return FALSE;
  memcpy (windows->start, start, size);
  memcpy (windows->end, end, size);
  windows->start[op] = half + 1;
  windows->touched[device_of (problem, op)] = TRUE;
  return ps_windows_split (windows, n_cases);
}

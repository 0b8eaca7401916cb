/* drain.c - interleaves the drain of one iteration with the warm-up of the next. */
#include "drain.h"

#include <string.h>

/* The order of one device in a round, as indices into the schedule's ops. It begins with the device's first backward.
 * In its drain a forward of the warm-up stands after every backward and its W. */
static void
interleave (PsDrain *drain, const PsSchedule *schedule, guint device, guint32 *order)
{
  guint begin = schedule->first[device], end = schedule->first[device + 1], fill = begin;
  guint warm = begin, next, last = begin;

  for (next = begin; next < end && schedule->ops[next].kind == PS_OP_F; next++)
    drain->ahead[next] = 1;
  for (guint i = begin; i < end; i++)
    if (schedule->ops[i].kind == PS_OP_F)
      last = i;
  guint warm_end = next, drain_start = MAX (next, last + 1);
  for (guint i = next; i < end; i++)
    {
      if (i > drain_start && ps_op_is_backward (schedule->ops[i]) && warm < warm_end)
        order[fill++] = warm++;
      order[fill++] = i;
    }
  while (warm < warm_end)
    order[fill++] = warm++;
}

/* Whether the op's input from another device is there, or comes from the round before. *possible turns FALSE where
 * it would come from the next round. */
static gboolean
is_ready (const PsDrain *drain, const PsProgram *program, const guint8 *placed, guint op, gboolean *possible)
{
  const PsStep *step = &program->steps[program->step_of[op]];

  if (step->input == 0)
    return TRUE;
  guint producer = program->op_of[step->input - 1];
  if (drain->ahead[producer] == drain->ahead[op])
    return placed[producer];
  *possible &= drain->ahead[producer] > drain->ahead[op];
  return TRUE;
}

/* Merges the devices' orders, which take turns; FALSE when they wait for each other in a circle. */
static gboolean
merge (PsDrain *drain, const PsProgram *program, const guint32 *order)
{
  const PsSchedule *schedule = program->schedule;
  guint n_devices = schedule->placement->n_devices, n = program->n_steps, fill = 0, before;
  g_autofree guint *next = g_memdup2 (schedule->first, n_devices * sizeof *next);
  g_autofree guint8 *placed = g_new0 (guint8, n);
  gboolean possible = TRUE;

  do
    {
      before = fill;
      for (guint device = 0; device < n_devices; device++)
        if (next[device] < schedule->first[device + 1]
            && is_ready (drain, program, placed, order[next[device]], &possible))
          {
            guint op = order[next[device]++];

            placed[op] = TRUE;
            drain->sequence[fill++] = op;
          }
    }
  while (possible && fill > before && fill < n);
  return possible && fill == n;
}

void
ps_drain_init (PsDrain *drain, const PsProgram *program)
{
  const PsSchedule *schedule = program->schedule;
  guint n = program->n_steps;

  drain->sequence = g_new (guint32, n);
  drain->ahead = g_new0 (guint8, n);
  if (schedule->asynchronous && program->pair == NULL)
    {
      g_autofree guint32 *order = g_new (guint32, n);

      for (guint device = 0; device < schedule->placement->n_devices; device++)
        interleave (drain, schedule, device, order);
      if (merge (drain, program, order))
        return;
      memset (drain->ahead, 0, n);
    }
  memcpy (drain->sequence, program->op_of, n * sizeof *drain->sequence);
}

void
ps_drain_clear (PsDrain *drain)
{
  g_free (drain->sequence);
  g_free (drain->ahead);
}

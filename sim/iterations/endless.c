/* endless.c - the rounds of rounds.c one after the other, under pure latency. A row holds all that the next round reads
 * of one. */
#include "rounds.h"

#include "program/drain.h"
#include "simulate/simulate-private.h"
#include <pipesim/events.h>

#include <string.h>

struct _PsEndless
{
  const PsProgram *program;
  const PsCosts *costs;
  PsReduce reduce;
  PsReductions reductions;
  PsSimulation *simulation; /* of a round; NULL: asynchronous, and the rest is used */
  PsDrain drain;
  guint n_columns; /* of a row: when each device is free; when it has reduced; the ends of the ops that run ahead */
  guint32 *column; /* [n_ops] of an op that runs ahead */
  guint *pending;  /* [n_copies * n_stages] as in rounds.c */
  gint64 *end_ns;  /* [n_steps] of this round */
};

static void
init_drain (PsEndless *endless)
{
  const PsProgram *program = endless->program;
  const PsPlacement *placement = program->schedule->placement;

  ps_drain_init (&endless->drain, program);
  endless->n_columns = 2 * placement->n_devices;
  endless->column = g_new (guint32, program->n_steps);
  for (guint op = 0; op < program->n_steps; op++)
    if (endless->drain.ahead[op])
      endless->column[op] = endless->n_columns++;
  endless->pending = g_new (guint, placement->n_copies * placement->n_stages);
  endless->end_ns = g_new (gint64, program->n_steps);
}

PsEndless *
ps_endless_new (const PsProgram *program, const PsCosts *costs, PsReduce reduce)
{
  PsEndless *endless = g_new0 (PsEndless, 1);

  *endless = (PsEndless){ .program = program, .costs = costs, .reduce = reduce };
  endless->n_columns = program->schedule->placement->n_devices;
  ps_reductions_init (&endless->reductions, program);
  if (program->schedule->asynchronous)
    init_drain (endless);
  else
    endless->simulation = ps_simulation_new (program);
  return endless;
}

void
ps_endless_free (PsEndless *endless)
{
  if (endless == NULL)
    return;
  ps_reductions_clear (&endless->reductions);
  ps_drain_clear (&endless->drain);
  ps_simulation_free (endless->simulation);
  g_free (endless->column);
  g_free (endless->pending);
  g_free (endless->end_ns);
  g_free (endless);
}

guint
ps_endless_n_columns (const PsEndless *endless)
{
  return endless->n_columns;
}

/* When the input of an op is there: of this round, or of the one before where its producer runs ahead. */
static gint64
arrival (const PsEndless *endless, guint op, const PsStep *step, const gint64 *before)
{
  guint producer = step->input - 1, other = endless->program->op_of[producer];
  gboolean earlier = endless->drain.ahead[other] > endless->drain.ahead[op];

  return (earlier ? before[endless->column[other]] : endless->end_ns[producer])
         + endless->costs->transfer_ns[step->transfer];
}

static void
run_ops (const PsEndless *endless, const gint64 *before, gint64 *after)
{
  static const PsEventsSetting latency = { .comm = PS_CHANNEL_LATENCY };
  const PsProgram *program = endless->program;
  const PsPlacement *placement = program->schedule->placement;

  memset (endless->pending, 0, placement->n_copies * placement->n_stages * sizeof *endless->pending);
  memcpy (after, before, placement->n_devices * sizeof *after);
  for (guint i = 0; i < program->n_steps; i++)
    {
      guint op = endless->drain.sequence[i], id = program->step_of[op];
      const PsStep *step = &program->steps[id];
      gint64 *free_ns = &after[step->device];
      gint64 update_ns;

      if (step->input != 0)
        *free_ns = MAX (*free_ns, arrival (endless, op, step, before));
      *free_ns += ps_step_duration (program, endless->costs, id);
      endless->end_ns[id] = *free_ns;
      if (endless->drain.ahead[op])
        after[endless->column[op]] = *free_ns;
      if (ps_rounds_update_after (program, id, endless->costs, &latency, endless->reduce, endless->pending, &update_ns))
        *free_ns += update_ns;
    }
}

/* The all-reduces of a device, which overlap with the next round. Exposed ones belong to its steps. */
static void
reduce (const PsEndless *endless, guint device, const gint64 *before, gint64 *after)
{
  const PsProgram *program = endless->program;
  const PsReductions *reductions = &endless->reductions;
  const PsPlacement *placement = program->schedule->placement;
  gint64 *reduced = &after[placement->n_devices + device];
  gint64 updates = program->schedule->n_microbatches / ps_schedule_update_every (program->schedule);

  *reduced = before[placement->n_devices + device];
  for (guint i = reductions->first[device]; i < reductions->first[device + 1]; i++)
    {
      guint stage = reductions->held[i] % placement->n_stages;

      for (guint copy = 0; copy < placement->n_copies; copy++)
        if (reductions->last_step[copy * placement->n_stages + stage] != PS_NO_STEP)
          *reduced = MAX (*reduced, endless->end_ns[reductions->last_step[copy * placement->n_stages + stage]]);
      *reduced += updates * ps_costs_reduce_ns (endless->costs, stage, placement->n_copies);
    }
  after[device] = MAX (after[device], before[placement->n_devices + device]);
}

static gint64
run_drain (const PsEndless *endless, const gint64 *before, gint64 *after)
{
  guint n_devices = endless->program->schedule->placement->n_devices;
  gint64 least = G_MAXINT64;

  run_ops (endless, before, after);
  for (guint device = 0; device < n_devices; device++)
    {
      after[n_devices + device] = after[device];
      if (endless->reduce == PS_REDUCE_OVERLAPPED)
        reduce (endless, device, before, after);
      least = MIN (least, after[device]);
    }
  for (guint i = 0; i < endless->n_columns; i++)
    after[i] -= least;
  return least;
}

gint64
ps_endless_run (PsEndless *endless, const gint64 *before, gint64 *after)
{
  if (endless->simulation == NULL)
    return run_drain (endless, before, after);
  ps_simulate_from (endless->program, endless->costs, before, endless->simulation);
  return ps_rounds_end (&endless->reductions, endless->program, endless->costs, endless->simulation, endless->reduce,
                        after);
}

/* reductions.c - the all-reduces of gradients: the steps that they wait for, and when a device is done with them. */
#include "reductions.h"

/* The step at whose end the op's result is there: of a pair, its second. */
static guint32
ending_step (const PsProgram *program, guint32 step)
{
  return step + (program->pair != NULL && program->pair[step] == PS_PAIR_FIRST);
}

static guint
held_index (const PsSchedule *schedule, PsOp op)
{
  return ps_schedule_weight_copy (schedule, op.microbatch) * schedule->placement->n_stages + op.stage;
}

/* Walking a device's order backwards meets the last W or BW of each of its n_held stages first: held is filled from its
 * end. */
static void
order_device (PsReductions *reductions, const PsProgram *program, guint device, guint n_held)
{
  const PsSchedule *schedule = program->schedule;
  guint fill = reductions->first[device + 1], all = fill - n_held;

  for (guint i = schedule->first[device + 1]; i-- > schedule->first[device] && fill > all;)
    {
      PsOp op = schedule->ops[i];
      guint index = held_index (schedule, op);

      if ((op.kind != PS_OP_W && op.kind != PS_OP_BW) || reductions->last_step[index] != PS_NO_STEP)
        continue;
      reductions->last_step[index] = ending_step (program, program->step_of[i]);
      reductions->held[--fill] = index;
    }
  reductions->first[device] = fill;
}

void
ps_reductions_init (PsReductions *reductions, const PsProgram *program)
{
  const PsPlacement *placement = program->schedule->placement;
  guint n = placement->n_copies * placement->n_stages;

  reductions->last_step = g_new (guint32, n);
  reductions->held = g_new0 (guint, n);
  reductions->first = g_new0 (guint, (gsize)placement->n_devices + 1);
  for (guint i = 0; i < n; i++)
    reductions->last_step[i] = PS_NO_STEP;
  reductions->first[placement->n_devices] = n;
  g_autofree guint *n_held = g_new0 (guint, placement->n_devices);
  for (guint i = 0; i < n; i++)
    n_held[placement->device[i]]++;
  for (guint device = placement->n_devices; device-- > 0;)
    order_device (reductions, program, device, n_held[device]);
}

typedef struct
{
  const PsReductions *reductions;
  const PsSimulation *simulation;
} Ends;

static int
compare_ends (gconstpointer a, gconstpointer b, gpointer data)
{
  const Ends *ends = data;
  guint i = *(const guint *)a, k = *(const guint *)b;
  guint32 x = ends->reductions->last_step[i], y = ends->reductions->last_step[k];
  int order = ps_compare_int64 (&ends->simulation->end_ns[x + 1], &ends->simulation->end_ns[y + 1]);

  return order != 0 ? order : x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

void
ps_reductions_follow (PsReductions *reductions, const PsProgram *program, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  const gint64 *end_ns = simulation->end_ns;
  Ends ends = { reductions, simulation };

  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    {
      guint32 *last = &reductions->last_step[held_index (schedule, schedule->ops[i])];
      guint32 step = ending_step (program, program->step_of[i]);

      if ((schedule->ops[i].kind == PS_OP_W || schedule->ops[i].kind == PS_OP_BW)
          && end_ns[step + 1] > end_ns[*last + 1])
        *last = step;
    }
  for (guint device = 0; device < schedule->placement->n_devices; device++)
    qsort_r (reductions->held + reductions->first[device], reductions->first[device + 1] - reductions->first[device],
             sizeof *reductions->held, compare_ends, &ends);
}

void
ps_reductions_clear (PsReductions *reductions)
{
  g_free (reductions->last_step);
  g_free (reductions->held);
  g_free (reductions->first);
}

/* When the gradients of a stage are complete: its last W or BW has ended on every copy that was used. */
static gint64
gradients_ns (const PsProgram *program, const PsSimulation *simulation, const PsReductions *reductions, guint stage)
{
  const PsPlacement *placement = program->schedule->placement;
  gint64 ready = 0;

  for (guint copy = 0; copy < placement->n_copies; copy++)
    {
      guint32 step = reductions->last_step[(gsize)copy * placement->n_stages + stage];

      if (step != PS_NO_STEP)
        ready = MAX (ready, simulation->end_ns[step + 1]);
    }
  return ready;
}

/* Whatever ran on a device, a W or BW was its last: with its all-reduces it is done. */
gint64
ps_reductions_end_ns (const PsReductions *reductions, const PsProgram *program, const PsCosts *costs,
                      const PsSimulation *simulation, guint device, PsReduce reduce)
{
  const PsPlacement *placement = program->schedule->placement;
  gint64 time = reduce == PS_REDUCE_EXPOSED ? simulation->device[device].end_ns : 0;

  for (guint i = reductions->first[device]; i < reductions->first[device + 1]; i++)
    {
      guint stage = reductions->held[i] % placement->n_stages;

      time = MAX (time, gradients_ns (program, simulation, reductions, stage))
             + ps_costs_reduce_ns (costs, stage, placement->n_copies);
    }
  return time;
}

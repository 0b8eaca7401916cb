/* steady.c - rounds through the steps of a recurrence, tile by tile. */
#include "steady.h"

#include "simulate/scenarios-kernel.h"

#include <string.h>

#define LANES PS_SCENARIO_LANES
#define TILE 64    /* steps per tile of times */
#define SETTLE 256 /* most iterations at mean times with which all runs begin */
#define WARM_UP 16 /* further iterations of every run, which are no samples */

/* A block of runs. */
typedef struct
{
  const PsSteady *steady;
  PsLuck *luck;
  PsScenarioWalk walk;
  gint64 *slots; /* [n_slots][LANES] */
  gint64 durations[TILE * LANES];
  gint64 delays[TILE * LANES];
} Block;

static Block *
block_new (const PsSteady *steady, PsLuck *luck)
{
  Block *block = g_new (Block, 1);

  block->steady = steady;
  block->luck = luck;
  block->walk = ps_scenario_kernel (ps_kernel_best ())->walk_steps_64;
  block->slots = g_new0 (gint64, (gsize)steady->recurrence->n_slots * LANES);
  return block;
}

static void
block_free (Block *block)
{
  g_free (block->slots);
  g_free (block);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Block, block_free)

static void
make_op (const Block *block, guint step, gint64 *ns)
{
  const double *speed = block->steady->speed;
  const PsDraws *draws = block->luck->draws;
  guint device = draws->recurrence->program->steps[step].device;
  gint64 host_ns = draws->op[draws->recurrence->steps[step].op].host_ns;

  ps_luck_op (block->luck, step, ns);
  if (speed == NULL || speed[device] == 1)
    return;
  ps_luck_flush (block->luck);
  for (guint lane = 0; lane < LANES; lane++)
    {
      gint64 host = MIN (host_ns, ns[lane]);

      ns[lane] = host + llrint ((double)(ns[lane] - host) / speed[device]);
    }
}

static void
make_times (Block *block, guint begin, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      const PsSteadyTime *time = &block->steady->recurrence->times[begin + i];
      gint64 *duration = &block->durations[i * LANES], *delay = &block->delays[i * LANES];

      if (time->kind == PS_STEADY_OP)
        make_op (block, time->step, duration);
      else if (time->kind == PS_STEADY_MESSAGE)
        ps_luck_transfer (block->luck, time->step, duration);
      else
        for (guint lane = 0; lane < LANES; lane++)
          duration[lane] = time->fixed_ns - time->optimizer_ns
                           + (time->kind == PS_STEADY_UPDATE
                                  ? ps_luck_optimizer (block->luck, time->step, lane, time->optimizer_ns)
                                  : 0);
      if (time->delays)
        ps_luck_transfer (block->luck, time->step, delay);
      else
        memset (delay, 0, LANES * sizeof *delay);
    }
  ps_luck_flush (block->luck);
}

static void
run_round (Block *block)
{
  const PsSteadyRecurrence *recurrence = block->steady->recurrence;

  for (guint begin = 0, n; begin < recurrence->n_steps; begin += n)
    {
      n = MIN (recurrence->n_steps - begin, TILE);
      make_times (block, begin, n);
      block->walk (&recurrence->steps[begin], n, block->slots, block->durations, block->delays);
    }
}

/* When the last device has finished the iteration. */
static void
find_ends (const Block *block, gint64 *ends_ns)
{
  const PsSteadyRecurrence *recurrence = block->steady->recurrence;

  memset (ends_ns, 0, LANES * sizeof *ends_ns);
  for (guint device = 0; device < recurrence->n_updates; device++)
    for (guint lane = 0; lane < LANES; lane++)
      ends_ns[lane] = MAX (ends_ns[lane], block->slots[(gsize)recurrence->update[device] * LANES + lane]);
}

/* Takes over the carried slots of a round, relative to the least of them. */
static void
take_carried (PsSteady *steady, const Block *block)
{
  const PsSteadyRecurrence *recurrence = steady->recurrence;
  const gint64 *slots = &block->slots[(gsize)recurrence->first_carry * LANES];
  guint n_carries = recurrence->n_slots - recurrence->first_carry;
  gint64 least = G_MAXINT64;

  for (guint i = 0; i < n_carries; i++)
    least = MIN (least, slots[(gsize)i * LANES]);
  for (guint i = 0; i < n_carries; i++)
    steady->carried_ns[i] = slots[(gsize)i * LANES] - least;
}

static void
begin_runs (Block *block)
{
  const PsSteadyRecurrence *recurrence = block->steady->recurrence;

  for (gsize slot = recurrence->first_carry; slot < recurrence->n_slots; slot++)
    for (guint lane = 0; lane < LANES; lane++)
      block->slots[slot * LANES + lane] = block->steady->carried_ns[slot - recurrence->first_carry];
}

/* Iterations from first to before `last` come again and again; runs begin with the one after SETTLE of them. */
static guint
set_cycle (PsSteady *steady, const gint64 *iteration_ns, guint first, guint last)
{
  guint n = steady->n_cycle = last - first, start = (SETTLE - first) % n;
  gint64 total = 0;

  steady->missing_ns = g_new (gint64, n);
  for (guint i = first; i < last; i++)
    total += iteration_ns[i];
  for (guint i = 0; i < n; i++)
    steady->missing_ns[i] = (2 * total + n) / (2 * n) - iteration_ns[first + (start + i) % n];
  return first + start;
}

static void
settle (PsSteady *steady)
{
  gsize n = steady->recurrence->n_slots - steady->recurrence->first_carry;
  g_autofree gint64 *rows = g_new0 (gint64, n * (SETTLE + 1));
  gint64 iteration_ns[SETTLE], ends[2][LANES] = { 0 };
  g_auto (PsLuck) luck = { 0 };

  ps_luck_init (&luck, steady->draws);
  ps_luck_begin_mean (&luck);
  g_autoptr (Block) block = block_new (steady, &luck);
  for (guint round = 1, same; round <= SETTLE; round++)
    {
      begin_runs (block);
      find_ends (block, ends[0]);
      run_round (block);
      find_ends (block, ends[1]);
      iteration_ns[round - 1] = ends[1][0] - ends[0][0];
      take_carried (steady, block);
      memcpy (&rows[round * n], steady->carried_ns, n * sizeof *rows);
      for (same = 0; memcmp (&rows[same * n], &rows[round * n], n * sizeof *rows) != 0;)
        same++;
      if (same == round)
        continue;
      memcpy (steady->carried_ns, &rows[set_cycle (steady, iteration_ns, same, round) * n], n * sizeof *rows);
      return;
    }
}

/* Checks that integers can hold all iterations of a run with each op and transfer at its longest. */
static gboolean
check_sums (const PsSteady *steady, const PsEventsSetting *events, gboolean single, GError **error)
{
  const guint n_iterations = single ? 1 : 1 + WARM_UP + PS_STEADY_ITERATIONS;
  double longest = ps_draws_longest (steady->draws, events) + (double)steady->recurrence->sum_ns;

  if (longest * n_iterations < PS_MAX_SUM_NS)
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_USAGE,
      "%s: all ops of %u iteration%s together take up to %.3g s with the slowness and jitter asked for; at most "
      "4e9 s can be added up",
      steady->draws->recurrence->program->schedule->name, n_iterations, n_iterations == 1 ? "" : "s",
      longest * n_iterations / 1e9);
}

gboolean
ps_steady_init (PsSteady *steady, const PsDraws *draws, const PsSteadyRecurrence *recurrence,
                const PsEventsSetting *events, gboolean single, GError **error)
{
  *steady = (PsSteady){ .draws = draws, .recurrence = recurrence, .speed = events != NULL ? events->speed : NULL };
  steady->carried_ns = g_new0 (gint64, recurrence->n_slots - recurrence->first_carry);
  if (!check_sums (steady, events, single, error))
    return FALSE;
  if (!single)
    settle (steady);
  return TRUE;
}

void
ps_steady_clear (PsSteady *steady)
{
  g_free (steady->carried_ns);
  g_free (steady->missing_ns);
}

void
ps_steady_run (const PsSteady *steady, PsLuck *luck, guint first, gint64 *iteration_ns)
{
  g_autoptr (Block) block = block_new (steady, luck);
  gint64 ends[2][LANES];

  begin_runs (block);
  for (guint before = WARM_UP; before > 0; before--)
    {
      ps_luck_begin (luck, first, before);
      run_round (block);
    }
  find_ends (block, ends[0]);
  for (guint i = 0; i < PS_STEADY_ITERATIONS; i++)
    {
      ps_luck_begin (luck, first + i * LANES, 0);
      run_round (block);
      find_ends (block, ends[1]);
      for (guint lane = 0; lane < LANES; lane++)
        iteration_ns[i * LANES + lane]
            = ends[1][lane] - ends[0][lane]
              + (steady->n_cycle > 0 ? steady->missing_ns[(WARM_UP + i) % steady->n_cycle] : 0);
      memcpy (ends[0], ends[1], sizeof ends[0]);
    }
}

void
ps_steady_run_single (const PsSteady *steady, PsLuck *luck, guint first, gint64 *reduced_ns)
{
  g_autoptr (Block) block = block_new (steady, luck);

  ps_luck_begin (luck, first, 0);
  run_round (block);
  memcpy (reduced_ns, &block->slots[(gsize)steady->recurrence->reduced * LANES], LANES * sizeof *reduced_ns);
}

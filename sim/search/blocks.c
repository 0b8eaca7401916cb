/* blocks.c - a local search over the waits of a repeated block. */
#include "blocks.h"

#include "inject.h"

#include <pipesim/families.h>

#include <string.h>

/* One search in FRESH_SEARCHES begins with a block of its own. On a V, one wait in LONG_WAITS is of two slots. Else a
 * wait is up to MAX_WAIT parts of its op, of which there are WAITS_PER_OP. */
#define FRESH_SEARCHES 3
#define LONG_WAITS 8
#define WAITS_PER_OP 4
#define MAX_WAIT 8

/* Smaller problems without slots have no blocks: local search does better. */
#define LEAST_OPS 2048

/* A fresh grid has no waits. PACE_SPREAD is how much faster than memory allows microbatches may come, MAX_BURST how
 * many of them may be ahead, and GRID_SPREAD how much wider than the least one a grid may be. */
#define PACE_SPREAD 0.1
#define MAX_BURST 3
#define GRID_SPREAD 0.3

/* Stretches of stages that a change concerns, at most, and changes that are estimated for each that is tried. */
#define MAX_CHANGES 3
#define ESTIMATES 400

/* Periods to try, each long enough for the memory that the one before it takes. */
#define MAX_PERIODS 4

typedef struct
{
  const PsProblem *problem;
  gboolean on_grid; /* the period is that of a grid, not of microbatches */
  gint64 work;      /* of a microbatch of each copy at the busiest device: the shortest period of microbatches */
  gint64 period;
  gint64 length; /* from the first F of a microbatch to its last B */
  gint64 *start; /* [2 * n_stages] of microbatch 0: F of each stage, then B; -1: not placed */
} Plan;

static guint
chain_at (const PsProblem *problem, guint hop)
{
  guint n = problem->n_stages;

  return hop % n * N_KINDS + (hop < n ? PS_OP_F : PS_OP_B);
}

/* The earliest start at `now` or later at which an op never meets those of its device that are placed. On a grid all F
 * of a device start at the same time, and so do all B: their microbatches do not come together. */
static gint64
find_free (const Plan *plan, guint device, guint kind, gint64 now, gint64 duration)
{
  const PsProblem *problem = plan->problem;
  guint begin = problem->first_stage[device], n = problem->first_stage[device + 1] - begin, clear = 0;

  for (guint i = 0; clear < 2 * n && i < 8 * n * n; i++)
    {
      guint hop = problem->stages[begin + i % n] + (i / n % 2) * problem->n_stages;
      gint64 other = problem->duration[chain_at (problem, hop)], after;
      gboolean joins = plan->on_grid && i / n % 2 == kind;

      clear++;
      if (plan->start[hop] < 0)
        continue;
      after = (now - plan->start[hop]) % plan->period;
      after += after < 0 ? plan->period : 0;
      if (joins ? after == 0 : after >= other && plan->period - after >= duration)
        continue;
      now += !joins && after < other ? other - after : plan->period - after + (joins ? 0 : other);
      clear = 0;
    }
  return now;
}

/* Places the F and B of a microbatch of each copy one after the other. */
static void
place (Plan *plan, const guint8 *wait)
{
  const PsProblem *problem = plan->problem;
  guint n = problem->n_copy_stages;

  for (guint hop = 0; hop < 2 * problem->n_stages; hop++)
    plan->start[hop] = -1;
  plan->length = 0;
  for (guint copy = 0; copy < problem->n_copies; copy++)
    {
      gint64 now = 0;

      for (guint i = 0; i < 2 * n; i++)
        {
          guint hop = copy * n + (i < n ? i : problem->n_stages + 2 * n - 1 - i), chain = chain_at (problem, hop);
          gint64 duration = problem->duration[chain];

          now += problem->lag[chain] + wait[hop] * duration / WAITS_PER_OP;
          now = plan->start[hop] = find_free (plan, problem->device[chain / N_KINDS], chain % N_KINDS, now, duration);
          now += duration;
        }
      plan->length = MAX (plan->length, now);
    }
}

/* The shortest period in which the device can have the bytes that its ops take; a W runs right after its B. */
static gint64
period_for (const Plan *plan, guint device)
{
  const PsProblem *problem = plan->problem;
  double bytes = 0, room = (double)(problem->limit[device] - problem->held[device]);

  if (problem->limit[device] == G_MAXINT64)
    return 0;
  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    {
      guint s = problem->stages[i];
      const gint64 *duration = problem->duration + (gsize)s * N_KINDS, *take = problem->take + (gsize)s * N_KINDS;
      const gint64 *give = problem->give + (gsize)s * N_KINDS;
      double kept = (double)(take[PS_OP_F] - give[PS_OP_F]), left = kept + (double)(take[PS_OP_B] - give[PS_OP_B]);

      bytes += kept * (double)(plan->start[problem->n_stages + s] + duration[PS_OP_B] - plan->start[s])
               + left * (double)duration[PS_OP_W];
    }
  return (gint64)(bytes / MAX (room, 1));
}

/* The shortest period in which all devices have the time and the bytes. */
static gint64
least_period (const Plan *plan)
{
  gint64 least = plan->work;

  for (guint d = 0; d < plan->problem->n_devices; d++)
    least = MAX (least, period_for (plan, d));
  return least;
}

/* The least period of a grid on which no op waits, if all stages are alike. */
static gint64
least_grid (const PsProblem *problem)
{
  gint64 grid = 1;

  for (guint s = 0; s < problem->n_stages; s++)
    {
      const gint64 *duration = problem->duration + (gsize)s * N_KINDS, *lag = problem->lag + (gsize)s * N_KINDS;

      grid = MAX (grid, duration[PS_OP_F] + duration[PS_OP_B]);
      if (!is_last_stage (problem, s))
        grid = MAX (grid, duration[PS_OP_F] + lag[N_KINDS + PS_OP_F] + duration[N_KINDS + PS_OP_B] + lag[PS_OP_B]);
    }
  return grid;
}

/* The work of a microbatch of each copy at the busiest device. */
static gint64
most_work (const PsProblem *problem)
{
  gint64 most = 1;

  for (guint d = 0; d < problem->n_devices; d++)
    {
      gint64 work = 0;

      for (guint i = problem->first_stage[d]; i < problem->first_stage[d + 1]; i++)
        for (guint kind = 0; kind < N_KINDS; kind++)
          work += problem->duration[problem->stages[i] * N_KINDS + kind];
      most = MAX (most, work);
    }
  return most;
}

/* Plans a block; returns how long all microbatches take by it, about. */
static gint64
estimate (Plan *plan, const guint8 *wait)
{
  const PsProblem *problem = plan->problem;

  plan->period = plan->work;
  for (guint i = 0; i < MAX_PERIODS; i++)
    {
      place (plan, wait);
      gint64 least = least_period (plan);
      if (least <= plan->period)
        break;
      plan->period = least;
    }
  return plan->period * problem->m + plan->length;
}

gboolean
ps_blocks_have_slots (const PsProblem *problem)
{
  guint p = problem->n_devices;

  if (problem->n_copies > 1 || problem->n_stages != 2 * p)
    return FALSE;
  for (guint d = 0; d < p; d++)
    if (problem->device[d] != d || problem->device[2 * p - 1 - d] != d)
      return FALSE;
  return TRUE;
}

static guint8
draw_wait (const PsProblem *problem, PsRandom *random)
{
  return (guint8)(1
                  + (ps_blocks_have_slots (problem) ? ps_random_below (random, LONG_WAITS) == 0
                                                    : ps_random_below (random, MAX_WAIT)));
}

/* Hops of a way of a microbatch: down or up a V, else all F or B of a copy. */
static guint
way_length (const PsProblem *problem)
{
  return ps_blocks_have_slots (problem) ? problem->n_devices : problem->n_copy_stages;
}

/* Each way waits at a part of its hops. */
static void
draw_waits (const PsProblem *problem, guint8 *wait, PsRandom *random)
{
  guint n = way_length (problem);

  for (guint way = 0; way < 2 * problem->n_stages / n; way++)
    {
      double part = ps_random_below (random, 2) ? ps_random_unit (random) : 0;

      for (guint i = 0; i < n; i++)
        wait[way * n + i] = ps_random_unit (random) < part ? draw_wait (problem, random) : 0;
    }
}

static void
change_waits (const PsProblem *problem, guint8 *wait, PsRandom *random)
{
  guint n = way_length (problem), n_ways = 2 * problem->n_stages / n;

  for (guint i = 1 + ps_random_below (random, MAX_CHANGES); i > 0; i--)
    {
      guint first = ps_random_below (random, n), length = 1 + ps_random_below (random, MIN (n - first, MAX_CHANGES));
      guint8 value = ps_random_below (random, 2) ? draw_wait (problem, random) : 0;

      memset (wait + ps_random_below (random, n_ways) * n + first, value, length);
    }
}

/* Lists the F and B of each device in the order of their planned starts. */
static void
list_plan (const Plan *plan, guint32 *list)
{
  const PsProblem *problem = plan->problem;
  g_autofree guint *next = g_new0 (guint, 2 * (gsize)problem->n_stages);

  for (guint d = 0; d < problem->n_devices; d++)
    {
      guint begin = problem->first_stage[d], n = problem->first_stage[d + 1] - begin;

      for (guint i = 0; i < 2 * n * problem->m; i++)
        {
          guint best = G_MAXUINT;
          gint64 best_ns = G_MAXINT64;

          for (guint k = 0; k < 2 * n; k++)
            {
              guint hop = problem->stages[begin + k % n] + k / n * problem->n_stages;
              gint64 start = plan->start[hop] + next[hop] * plan->period;

              if (next[hop] == problem->m || start >= best_ns)
                continue;
              best = hop;
              best_ns = start;
            }
          list[problem->first[d] + i] = chain_at (problem, best) * problem->m + next[best]++;
        }
    }
}

/* Changes waits while the estimate falls. */
static void
descend (Plan *plan, guint8 *wait, PsRandom *random)
{
  guint n = 2 * plan->problem->n_stages;
  g_autofree guint8 *before = g_memdup2 (wait, n);
  gint64 best = estimate (plan, wait);

  for (guint i = 0; i < ESTIMATES; i++)
    {
      gint64 ns;

      change_waits (plan->problem, wait, random);
      ns = estimate (plan, wait);
      memcpy (ns <= best ? before : wait, ns <= best ? wait : before, n);
      best = MIN (best, ns);
    }
  estimate (plan, wait);
}

/* Makes the grid's list; FALSE: its plan ends after `enough`. */
static gboolean
list_grid (Plan *plan, const PsBlock *block, gint64 enough, guint32 *list)
{
  const PsProblem *problem = plan->problem;

  plan->period = (gint64)((double)least_grid (problem) * block->width);
  place (plan, block->wait);
  const PsInjection injection = { .way = plan->start,
                                  .pace = (gint64)((double)least_period (plan) * block->pace),
                                  .burst = block->burst,
                                  .enough = enough };
  return ps_inject (problem, &injection, list);
}

static gboolean
fill_v (PsOrder *order, const guint8 *wait, PsRandom *random)
{
  const PsProblem *problem = order->problem;
  const PsFamilySetting setting
      = { .n_devices = problem->n_devices, .n_microbatches = problem->m, .n_chunks = 2, .n_slices = 1 };
  g_autoptr (PsSchedule) schedule = ps_family_v_hops (&setting, wait, ps_random_below (random, 2));

  return ps_order_from_schedule (order, schedule);
}

/* Fills the order by the plan, with W wherever a device would wait. */
static gboolean
fill_planned (PsOrder *order, Plan *plan, PsBlock *block, gint64 enough, PsRandom *random)
{
  g_autofree guint32 *list = g_new (guint32, order->problem->n_ops);
  double bias = ps_random_unit (random);
  const PsPolicy policy = { .bias[PS_OP_W] = { .base = plan->on_grid ? 1 - bias / 2 : bias },
                            .ahead = { .base = order->problem->m },
                            .planned = list };

  if (plan->on_grid && !list_grid (plan, block, enough, list))
    return FALSE;
  if (!plan->on_grid)
    {
      descend (plan, block->wait, random);
      list_plan (plan, list);
    }
  return ps_greedy_build (order, &policy, NULL);
}

/* Fills and evaluates the order; returns its objective, G_MAXINT64 where it is no solution or its plan ends after
 * `enough`. */
static gint64
build (PsOrder *order, Plan *plan, PsBlock *block, gint64 enough, PsRandom *random)
{
  gboolean fills = ps_blocks_have_slots (order->problem) ? fill_v (order, block->wait, random)
                                                         : fill_planned (order, plan, block, enough, random);

  return fills && ps_order_evaluate (order) && order->excess == 0 ? order->objective : G_MAXINT64;
}

gboolean
ps_blocks_suit (const PsProblem *problem)
{
  return !problem->joins && problem->n_slices == 1 && (ps_blocks_have_slots (problem) || problem->n_ops >= LEAST_OPS);
}

/* Whether blocks with a period may help: with one stage to a device they take the memory of 1F1B. */
static gboolean
suits_period (const PsProblem *problem)
{
  return problem->n_stages > problem->n_devices;
}

/* Whether a grid may help: the ways of two copies cross each other, and so do those of a V. */
static gboolean
suits_grid (const PsProblem *problem)
{
  return problem->n_copies == 1 && !ps_blocks_have_slots (problem);
}

static void
draw_block (const PsProblem *problem, PsBlock *block, gboolean on_grid, PsRandom *random)
{
  if (!on_grid)
    {
      draw_waits (problem, block->wait, random);
      return;
    }
  memset (block->wait, 0, 2 * (gsize)problem->n_stages);
  block->width = 1;
  block->pace = 1 - PACE_SPREAD * ps_random_unit (random);
  block->burst = 0;
}

static void
change_block (const PsProblem *problem, PsBlock *block, gboolean on_grid, PsRandom *random)
{
  guint which = on_grid ? ps_random_below (random, 8) : 0;

  if (which < 3)
    change_waits (problem, block->wait, random);
  else if (which < 6)
    block->pace = 1 - PACE_SPREAD * ps_random_unit (random);
  else if (which < 7)
    block->burst = ps_random_below (random, MAX_BURST + 1);
  else
    block->width = 1 + (ps_random_below (random, 2) ? GRID_SPREAD * ps_random_unit (random) : 0);
}

static PsBlock
block_copy (const PsBlock *block, guint n)
{
  PsBlock copy = *block;

  copy.wait = g_memdup2 (block->wait, n);
  return copy;
}

static void
block_assign (PsBlock *block, const PsBlock *from, guint n)
{
  guint8 *wait = memcpy (block->wait, from->wait, n);

  *block = *from;
  block->wait = wait;
}

/* A local search over blocks of one kind. */
static void
search_kind (PsBlocks *blocks, PsOrder *scratch, gboolean on_grid)
{
  const PsProblem *problem = scratch->problem;
  PsRandom *random = &blocks->random;
  PsBlock *best = &blocks->best[on_grid];
  guint n = 2 * problem->n_stages;
  PsBlock block = block_copy (best, n), current = block_copy (best, n);
  g_autofree gint64 *start = g_new (gint64, n);
  Plan plan = { .problem = problem, .on_grid = on_grid, .work = most_work (problem), .start = start };
  gint64 current_ns = ps_random_below (random, FRESH_SEARCHES) == 0 ? G_MAXINT64 : blocks->best_ns[on_grid];

  for (guint64 i = 0; i < blocks->n_tries && blocks->go_on (blocks->data); i++)
    {
      if (current_ns == G_MAXINT64)
        draw_block (problem, &block, on_grid, random);
      else
        change_block (problem, &block, on_grid, random);
      gint64 objective = build (scratch, &plan, &block, current_ns, random);
      gboolean takes = objective <= current_ns && objective < G_MAXINT64;

      if (takes)
        {
          current_ns = objective;
          blocks->offer (scratch, blocks->data);
        }
      block_assign (takes ? &current : &block, takes ? &block : &current, n);
    }
  if (current_ns < blocks->best_ns[on_grid])
    {
      blocks->best_ns[on_grid] = current_ns;
      block_assign (best, &current, n);
    }
  g_free (block.wait);
  g_free (current.wait);
}

void
ps_blocks_init (PsBlocks *blocks, const PsProblem *problem)
{
  for (guint i = 0; i < 2; i++)
    {
      blocks->best[i] = (PsBlock){ .wait = g_new0 (guint8, 2 * (gsize)problem->n_stages), .width = 1, .pace = 1 };
      blocks->best_ns[i] = G_MAXINT64;
    }
}

void
ps_blocks_clear (PsBlocks *blocks)
{
  g_free (blocks->best[0].wait);
  g_free (blocks->best[1].wait);
}

void
ps_blocks_search (PsBlocks *blocks, PsOrder *scratch)
{
  if (suits_grid (scratch->problem))
    search_kind (blocks, scratch, TRUE);
  if (suits_period (scratch->problem))
    search_kind (blocks, scratch, FALSE);
}

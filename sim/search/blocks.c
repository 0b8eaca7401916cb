/* blocks.c - a local search over repeated blocks. */
#include "blocks.h"

#include "inject.h"

#include <pipesim/families.h>

#include <string.h>

/* One search in FRESH_SEARCHES begins with a block of its own. On a V, one wait in LONG_WAITS is of two slots. */
#define FRESH_SEARCHES 3
#define LONG_WAITS 8

/* Smaller problems have no cells: local search does better. */
#define LEAST_OPS 2048

/* PACE_SPREAD is how much faster than memory allows microbatches may come, MAX_BURST how many of them may be ahead, and
 * STRETCH_SPREAD how much longer than the work in it a period may be. */
#define PACE_SPREAD 0.1
#define MAX_BURST 3
#define STRETCH_SPREAD 0.25

/* Shapes of cells that a fresh search tries first: where lanes go both ways, and else. */
#define N_SHAPES 4
#define N_SHAPES_ONE_WAY 2

/* At its end, one in LAST_PART of the microbatches in a pipeline go as soon as they can, for a fresh search. */
#define LAST_PART 8

/* Units of time in a turn of a cell. */
#define MIN_UNITS 24
#define MAX_UNITS 60
#define UNITS_STEP 6
#define UNITS_DRAWS 3

/* Stretches of stages that a change of waits concerns, at most. */
#define MAX_CHANGES 3

/* Whether the placement is a V of two chunks. */
static gboolean
is_v (const PsProblem *problem)
{
  guint p = problem->n_devices;

  if (problem->n_copies > 1 || problem->n_stages != 2 * p)
    return FALSE;
  for (guint d = 0; d < p; d++)
    if (problem->device[d] != d || problem->device[2 * p - 1 - d] != d)
      return FALSE;
  return TRUE;
}

gboolean
ps_blocks_suit (const PsProblem *problem, gboolean have_slots)
{
  return !problem->joins && problem->n_slices == 1
         && (have_slots ? is_v (problem) : problem->n_ops >= LEAST_OPS && ps_cell_suits (problem));
}

static guint8
draw_wait (PsRandom *random)
{
  return (guint8)(1 + (ps_random_below (random, LONG_WAITS) == 0));
}

/* Each way down or up the V waits at a part of its hops. */
static void
draw_waits (const PsProblem *problem, guint8 *wait, PsRandom *random)
{
  guint n = problem->n_devices;

  for (guint way = 0; way < 2 * problem->n_stages / n; way++)
    {
      double part = ps_random_below (random, 2) ? ps_random_unit (random) : 0;

      for (guint i = 0; i < n; i++)
        wait[way * n + i] = ps_random_unit (random) < part ? draw_wait (random) : 0;
    }
}

static void
change_waits (const PsProblem *problem, guint8 *wait, PsRandom *random)
{
  guint n = problem->n_devices, n_ways = 2 * problem->n_stages / n;

  for (guint i = 1 + ps_random_below (random, MAX_CHANGES); i > 0; i--)
    {
      guint first = ps_random_below (random, n), length = 1 + ps_random_below (random, MIN (n - first, MAX_CHANGES));
      guint8 value = ps_random_below (random, 2) ? draw_wait (random) : 0;

      memset (wait + ps_random_below (random, n_ways) * n + first, value, length);
    }
}

/* The shortest time between microbatches of a copy in which the device can have the bytes that its ops take; a W runs
 * right after its B. */
static gint64
pace_for (const PsProblem *problem, const PsCell *cell, guint device)
{
  double bytes = 0, room = (double)(problem->limit[device] - problem->held[device]);

  if (problem->limit[device] == G_MAXINT64)
    return 0;
  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    {
      guint s = problem->stages[i];
      const gint64 *duration = problem->duration + (gsize)s * N_KINDS;
      double kept = (double)ps_problem_kept (problem, s, PS_OP_F), left = (double)ps_problem_kept (problem, s, PS_OP_B);

      for (guint wave = 0; wave < cell->n_waves; wave++)
        {
          const gint64 *start = cell->start + (gsize)wave * 2 * problem->n_stages;

          bytes += kept * (double)(start[problem->n_stages + s] + duration[PS_OP_B] - start[s])
                   + left * (double)duration[PS_OP_W];
        }
    }
  return (gint64)(bytes / MAX (room, 1)) / cell->n_waves;
}

/* The shortest time between microbatches of a copy for which all devices have the time and the bytes. */
static gint64
least_pace (const PsProblem *problem, const PsCell *cell)
{
  gint64 least = cell->period / cell->n_waves;

  for (guint d = 0; d < problem->n_devices; d++)
    least = MAX (least, pace_for (problem, cell, d));
  return least;
}

/* The first tries are of the cells that are best most often: those without waits, with room for all W and for none;
 * then a slightly longer one with room for all W, which waits much less where lanes go both ways; then one like that
 * whose plan says where W run. */
static void
set_shape (const PsProblem *problem, PsBlock *block, guint64 n_tries)
{
  static const double longer[N_SHAPES] = { 0, 0, 0.02, 0.02 };

  block->n_w = n_tries == 1 ? 0 : 2;
  block->stretch = longer[n_tries] > 0 ? 1 + longer[n_tries] : ps_cell_no_wait (problem, block->n_w);
  block->has_w = n_tries == N_SHAPES - 1;
  block->n_last = block->has_w ? MIN (problem->n_devices, problem->m) / LAST_PART : 0;
}

static void
draw_shape (const PsProblem *problem, PsBlock *block, PsRandom *random)
{
  double part = ps_random_unit (random);

  block->n_w = ps_random_below (random, 3);
  block->stretch = 1;
  if (ps_random_below (random, 2))
    block->stretch = ps_cell_no_wait (problem, block->n_w);
  else if (ps_random_below (random, 2))
    block->stretch += STRETCH_SPREAD * part * part;
}

/* Makes a plan; FALSE: there is none, it takes `enough` or longer, or the search ends. */
static gboolean
make_plan (const PsBlocks *blocks, const PsProblem *problem, const PsBlock *block, gint64 enough, PsPlan *plan)
{
  gint64 least = least_pace (problem, &block->cell);
  const PsInjection injection
      = { &block->cell, (gint64)((double)least * block->pace), block->burst, blocks->spend, blocks->data };

  return least * problem->m < enough && ps_inject (problem, &injection, plan);
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

/* Fills the order by the plan. */
static gboolean
fill_planned (PsBlocks *blocks, PsOrder *order, const PsBlock *block, gint64 enough)
{
  g_autofree guint32 *list = g_new (guint32, order->problem->n_ops);
  g_autofree guint8 *n_w = block->has_w ? g_new (guint8, order->problem->n_ops) : NULL;
  PsPlan plan = { list, n_w, block->n_last };
  const PsPolicy policy = { .bias[PS_OP_W] = { .base = 1 - ps_random_unit (&blocks->random) / 2 }, .plan = &plan };

  return make_plan (blocks, order->problem, block, enough, &plan) && ps_greedy_build (order, &policy, NULL);
}

/* Fills and evaluates the order; returns its objective, G_MAXINT64 where it is no solution or its plan takes `enough`
 * or longer. */
static gint64
build (PsBlocks *blocks, PsOrder *order, const PsBlock *block, gint64 enough)
{
  gboolean fills
      = blocks->have_slots ? fill_v (order, block->wait, &blocks->random) : fill_planned (blocks, order, block, enough);

  return fills && ps_order_evaluate (order) && order->excess == 0 ? order->objective : G_MAXINT64;
}

/* Where lanes go one way, two or three hops to the next device and back fit a turn: they have whole units. A plan that
 * says where W run takes the number whose units fit the ops best, of several. */
static guint
draw_units (const PsProblem *problem, const PsBlock *block, PsRandom *random)
{
  gboolean both_ways = ps_cell_goes_both_ways (problem);
  guint step = both_ways ? 1 : UNITS_STEP, best = 0;
  double least = G_MAXDOUBLE;

  for (guint i = block->has_w ? UNITS_DRAWS : 1; i > 0; i--)
    {
      guint n = step * (MIN_UNITS / step + ps_random_below (random, (MAX_UNITS - MIN_UNITS) / step + 1));
      double rounding = ps_cell_rounding (problem, block->n_w, block->stretch, n);

      best = rounding < least ? n : best;
      least = MIN (least, rounding);
    }
  return best;
}

/* Draws whether a plan says where W run; then a part of the last microbatches in the pipeline goes as soon as it can.
 */
static void
draw_w (const PsProblem *problem, PsBlock *block, PsRandom *random)
{
  block->has_w = ps_random_below (random, 2);
  block->n_last = block->has_w ? ps_random_below (random, MIN (problem->n_devices, problem->m)) : 0;
}

/* Changes a block, or makes a new one for the first tries. FALSE: it has no plan. */
static gboolean
change_cell (PsBlocks *blocks, const PsProblem *problem, PsBlock *block, guint64 n_tries)
{
  PsRandom *random = &blocks->random;
  guint which = ps_random_below (random, 10);
  gboolean given = n_tries < (ps_cell_goes_both_ways (problem) ? N_SHAPES : N_SHAPES_ONE_WAY);

  if (given)
    set_shape (problem, block, n_tries);
  else if (which == 0 || block->cell.n_waves == 0)
    draw_shape (problem, block, random);
  if (which < 5 || given || block->cell.n_waves == 0)
    return ps_cell_plan (&block->cell, problem, block->n_w, block->stretch, draw_units (problem, block, random),
                         blocks->spend, blocks->data);
  if (which < 7)
    block->pace = 1 - PACE_SPREAD * ps_random_unit (random);
  else if (which < 8)
    block->burst = ps_random_below (random, MAX_BURST + 1);
  else
    draw_w (problem, block, random);
  return TRUE;
}

/* A search that has found none yet draws waits anew: changes of a block that is over the limit rarely hold it. */
static gboolean
change_block (PsBlocks *blocks, const PsProblem *problem, PsBlock *block, gboolean anew, gboolean has_found,
              guint64 n_tries)
{
  if (!blocks->have_slots)
    return change_cell (blocks, problem, block, anew ? n_tries : N_SHAPES);
  if (!has_found)
    draw_waits (problem, block->wait, &blocks->random);
  else
    change_waits (problem, block->wait, &blocks->random);
  return TRUE;
}

static gsize
count_starts (const PsProblem *problem)
{
  return 2 * (gsize)problem->n_stages * ps_cell_n_waves (problem);
}

static PsBlock
block_new (const PsProblem *problem)
{
  return (PsBlock){ .wait = g_new0 (guint8, 2 * (gsize)problem->n_stages),
                    .cell.start = g_new0 (gint64, count_starts (problem)),
                    .pace = 1 };
}

static void
block_clear (PsBlock *block)
{
  g_free (block->wait);
  g_free (block->cell.start);
}

static void
block_assign (PsBlock *block, const PsBlock *from, const PsProblem *problem)
{
  guint8 *wait = memcpy (block->wait, from->wait, 2 * (gsize)problem->n_stages);
  gint64 *start = memcpy (block->cell.start, from->cell.start, count_starts (problem) * sizeof *start);

  *block = *from;
  block->wait = wait;
  block->cell.start = start;
}

void
ps_blocks_search (PsBlocks *blocks, PsOrder *scratch)
{
  const PsProblem *problem = scratch->problem;
  PsRandom *random = &blocks->random;
  PsBlock block = block_new (problem), current = block_new (problem);
  gint64 current_ns = ps_random_below (random, FRESH_SEARCHES) == 0 ? G_MAXINT64 : blocks->best_ns;
  gboolean anew = current_ns == G_MAXINT64;

  block_assign (&current, &blocks->best, problem);
  block_assign (&block, &current, problem);
  for (guint64 i = 0; i < blocks->n_tries && blocks->spend (blocks->n_moves, blocks->data); i++)
    {
      gboolean has_plan = change_block (blocks, problem, &block, anew, current_ns < G_MAXINT64, i);
      gint64 objective = has_plan ? build (blocks, scratch, &block, current_ns) : G_MAXINT64;
      gboolean takes = objective <= current_ns && objective < G_MAXINT64;

      if (takes)
        {
          current_ns = objective;
          blocks->offer (scratch, blocks->data);
        }
      block_assign (takes ? &current : &block, takes ? &block : &current, problem);
    }
  if (current_ns < blocks->best_ns)
    {
      blocks->best_ns = current_ns;
      block_assign (&blocks->best, &current, problem);
    }
  block_clear (&block);
  block_clear (&current);
}

void
ps_blocks_init (PsBlocks *blocks, const PsProblem *problem)
{
  blocks->best = block_new (problem);
  blocks->best_ns = G_MAXINT64;
}

void
ps_blocks_clear (PsBlocks *blocks)
{
  block_clear (&blocks->best);
}

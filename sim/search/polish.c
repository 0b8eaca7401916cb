/* polish.c - local search by the price itself, which the objective only resembles. */
#include "polish.h"

#include <math.h>

/* A price counts as PRICE_FACTOR times the moves of making an order: it lowers, plans and simulates a program. */
#define PRICE_FACTOR 4

/* How far a single op is moved. The temperature, in mean durations of an op, falls from HOT or less to COLD. */
#define REACH 6
#define HOT 0.3
#define COLD 0.01

gboolean
ps_order_move_one (PsOrder *order, PsRandom *random)
{
  const PsProblem *problem = order->problem;
  guint at = order->nodes[order->node[ps_random_below (random, problem->n_ops)]].position;
  guint device = device_of (problem, order->sequence[at]), distance = 1 + ps_random_below (random, REACH);
  guint first = problem->first[device], last = order->stop[device] - 1;
  PsMove move = { at, ps_random_below (random, 2) ? MAX (at, first + distance) - distance : MIN (at + distance, last) };
  gint64 excess;

  if (move.to == move.from || !ps_order_allows (order, move))
    return FALSE;
  excess = ps_order_excess_change (order, move);
  if (excess > 0 || !ps_order_apply (order, move))
    return FALSE;
  ps_order_keep (order, move, excess);
  return TRUE;
}

void
ps_runner_polish (PsRunner *runner, guint64 n_moves)
{
  PsSearchWorker *worker = &runner->worker;
  const PsProblem *problem = worker->problem;
  const PsSearchSetting *setting = runner->shared->setting;
  g_autoptr (PsOrder) order = ps_order_new (problem), kept = ps_order_new (problem);
  double current = (double)runner->best.price_ns;
  double hot = COLD + (HOT - COLD) * ps_random_unit (&runner->random);
  guint64 begin = runner->n_moves, until = begin + n_moves;

  if (!ps_order_from_schedule (kept, runner->best.schedule) || !ps_order_evaluate (kept) || kept->excess > 0)
    return;
  ps_order_assign (order, kept);
  while (runner->n_moves < until && ps_search_worker_spend (worker, 1))
    {
      if (!ps_order_move_one (order, &runner->random))
        continue;
      double price = (double)ps_priced_take (&runner->best, setting, ps_order_to_schedule (order, setting->placement),
                                             "local search by price");
      ps_search_worker_spend (worker, PRICE_FACTOR * (problem->n_ops / OPS_PER_MOVE));
      double part = (double)(runner->n_moves - begin) / (double)n_moves;
      double temperature = worker->unit_ns * hot * pow (COLD / hot, part);
      gboolean better = price <= current + temperature * ps_random_exponential (&runner->random);
      if (better)
        current = price;
      ps_order_assign (better ? kept : order, better ? order : kept);
    }
}

/* polish.c - local search by the price itself, which the objective only resembles. */
#include "polish.h"

#include "guess.h"

#include <math.h>

/* A price counts as PRICE_FACTOR times the moves of making an order: it lowers, plans and simulates a program. */
#define PRICE_FACTOR 4

/* Guesses that take as long as making an order. */
#define GUESSES_PER_ORDER 4

/* How far a single op is moved. The temperature, in mean durations of an op, falls from HOT or less to COLD. */
#define REACH 6
#define HOT 0.3
#define COLD 0.01

gboolean
ps_order_move_one (PsOrder *order, gint64 enough, PsRandom *random)
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
  if (order->objective > enough)
    {
      ps_order_revert (order, move);
      return FALSE;
    }
  ps_order_keep (order, move, excess);
  return TRUE;
}

/* Local search by price under way. */
typedef struct
{
  PsRunner *runner;
  PsGuess *guess; /* NULL: every order is priced */
  gint64 least;   /* the least guess of an order that was priced and whose buffers fit */
} Polish;

/* The price of an order, or a guess of it; any value above enough as soon as it is certain to exceed that. Prices an
 * order whose guess is less than all before or less than the best price. A guess does not tell whether buffers fit. */
static gint64
evaluate (Polish *polish, const PsOrder *order, gint64 enough)
{
  PsRunner *runner = polish->runner;
  const PsSearchSetting *setting = runner->shared->setting;
  guint64 n_moves = order->problem->n_ops / OPS_PER_MOVE;
  gint64 value = 0;

  if (polish->guess != NULL)
    {
      ps_search_worker_spend (&runner->worker, n_moves / GUESSES_PER_ORDER);
      value = ps_guess_price (polish->guess, order, enough);
      if (value >= polish->least && value >= runner->best.price_ns)
        return value;
    }
  ps_search_worker_spend (&runner->worker, PRICE_FACTOR * n_moves);
  gint64 price = ps_priced_take (&runner->best, setting, ps_order_to_schedule (order, setting->placement),
                                 "local search by price");
  if (polish->guess == NULL || price == G_MAXINT64)
    return price;
  polish->least = MIN (polish->least, value);
  return value;
}

void
ps_runner_polish (PsRunner *runner, guint64 n_moves)
{
  PsSearchWorker *worker = &runner->worker;
  const PsProblem *problem = worker->problem;
  g_autoptr (PsGuess) guess = ps_guess_new (problem, runner->shared->setting->channels);
  g_autoptr (PsOrder) order = ps_order_new (problem), kept = ps_order_new (problem);
  double hot = COLD + (HOT - COLD) * ps_random_unit (&runner->random);
  guint64 begin = runner->n_moves, until = begin + n_moves;

  if (!ps_order_from_schedule (kept, runner->best.schedule) || !ps_order_evaluate (kept) || kept->excess > 0)
    return;
  Polish polish = { runner, guess, guess != NULL ? ps_guess_price (guess, kept, G_MAXINT64) : runner->best.price_ns };
  double current = (double)polish.least;
  ps_order_assign (order, kept);
  while (runner->n_moves < until && ps_search_worker_spend (worker, 1))
    {
      double part = (double)(runner->n_moves - begin) / (double)n_moves;
      double temperature = worker->unit_ns * hot * pow (COLD / hot, part);
      double enough = current + temperature * ps_random_exponential (&runner->random);

      /* A guess is never below the objective. */
      if (!ps_order_move_one (order, guess != NULL ? (gint64)enough : G_MAXINT64, &runner->random))
        continue;
      double value = (double)evaluate (&polish, order, (gint64)enough);
      if (value <= enough)
        current = value;
      ps_order_assign (value <= enough ? kept : order, value <= enough ? order : kept);
    }
}

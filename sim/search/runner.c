/* runner.c - one thread of a search. */
#include "runner.h"

#include "partial.h"
#include "polish.h"
#include "stretch.h"

/* Part of the moves for the easier problem. */
#define EASIER_PART 0.4

/* Moves of a local search by price, for each move of the round before it. */
#define POLISH_PART 6

/* Part of the moves for the problem with slower transfers: a round for each on the problem asked for. */
#define SLOWER_PART (1.0 / (2 + POLISH_PART))

/* Branch and bound, and the windows of ops, take at most DECISION_PART of the moves made before; the first call of
 * go_on is free. What is not decided is tried again at DECISION_FACTOR times the moves, but never before
 * LEAST_DECISION. HELPFUL_PART and HELPFUL_FACTOR are for windows that made the gap smaller the last time. */
#define DECISION_PART 0.4
#define DECISION_FACTOR 3
#define HELPFUL_PART 1
#define HELPFUL_FACTOR 1.5
#define LEAST_DECISION 25000

/* Moves that one call of go_on by branch and bound counts as. */
#define MOVES_PER_QUESTION 8192

/* Steps between states of windows that count as one move, and the most states. */
#define STEPS_PER_MOVE 512
#define MAX_STATES 1000000

/* A descent asks for 1 / 2^0 to 1 / 2^(MAX_SHIFT - 1) of the gap, and looks up to 2^(MAX_REACH - 1) ops away. It has
 * FIRST_FAILS dead ends at first. */
#define MAX_SHIFT 8
#define MAX_REACH 6
#define FIRST_FAILS 64

/* Cases that a target is split into at first, and how their number grows. They take 1 / CASES_PART of what windows may
 * take. */
#define FIRST_CASES 16
#define CASES_FACTOR 4
#define CASES_PART 2

/* A proof under way, and the moves that it may take. */
typedef struct
{
  PsSearchWorker *worker;
  guint64 stop_at; /* moves */
  guint64 n_moves; /* that a question counts as */
  gboolean refused;
} Decision;

static Decision
decision_of (PsRunner *runner, guint64 n_moves, double part)
{
  return (Decision){ .worker = &runner->worker,
                     .stop_at = runner->n_moves + (guint64)((double)runner->n_moves * part),
                     .n_moves = n_moves };
}

/* Moves after which an undecided question is asked again. */
static guint64
again_at (const PsRunner *runner, double factor)
{
  return MAX ((guint64)((double)runner->n_moves * factor), LEAST_DECISION);
}

static gboolean
go_on_deciding (gpointer data)
{
  Decision *decision = data;
  const PsRunner *runner = decision->worker->runner;

  decision->refused
      = runner->n_moves >= decision->stop_at || !ps_search_worker_spend (decision->worker, decision->n_moves);
  return !decision->refused;
}

static void
decide (PsRunner *runner)
{
  PsSearchWorker *worker = &runner->worker;
  Decision decision = decision_of (runner, MOVES_PER_QUESTION, DECISION_PART);
  gboolean decided;

  ps_order_assign (worker->scratch, worker->best);
  decided = ps_exact_solve (worker->scratch, go_on_deciding, &decision);
  if (ps_runner_is_over (runner))
    return;
  if (decided)
    worker->lower_bound_ns = worker->scratch->objective;
  runner->decide_at = decision.refused ? again_at (runner, DECISION_FACTOR) : G_MAXUINT64;
  ps_search_worker_offer (worker, worker->scratch, "branch and bound");
}

/* Asks for an order by part of the gap better, by windows: anywhere or, more often, near the best. */
static void
descend (PsRunner *runner, Decision *decision)
{
  PsSearchWorker *worker = &runner->worker;
  gint64 gap = worker->best->objective - worker->lower_bound_ns;
  gboolean near = ps_random_below (&runner->random, 3) > 0;
  PsDescent descent
      = { .order = worker->scratch,
          .target = worker->best->objective - MAX (gap >> ps_random_below (&runner->random, MAX_SHIFT), 1),
          .near = near ? worker->best : NULL,
          .reach = (gint64)(worker->unit_ns * (1 << ps_random_below (&runner->random, MAX_REACH))),
          .max_fails = runner->max_fails,
          .random = &runner->random,
          .go_on = go_on_deciding,
          .data = decision };

  switch (ps_windows_descend (runner->windows, &descent))
    {
    case PS_DESCENDED_FOUND:
      ps_search_worker_offer (worker, worker->scratch, "windows of ops");
      return;
    case PS_DESCENDED_REFUTED:
      if (!near)
        worker->lower_bound_ns = descent.target + 1;
      return;
    case PS_DESCENDED_STOPPED:
      runner->max_fails += runner->max_fails / 16;
    }
}

static void
raise_bound (PsRunner *runner, guint n_cases, Decision *decision)
{
  PsSearchWorker *worker = &runner->worker;

  ps_order_assign (worker->scratch, worker->best);
  worker->lower_bound_ns = ps_windows_bound (runner->windows, worker->lower_bound_ns, worker->best->objective, n_cases,
                                             worker->scratch, go_on_deciding, decision);
  if (worker->scratch->objective < worker->best->objective)
    ps_search_worker_offer (worker, worker->scratch, "windows of ops");
}

/* Raises the lower bound by splitting windows into more and more cases. */
static void
split (PsRunner *runner, const Decision *decision)
{
  Decision part = *decision;

  part.stop_at = runner->n_moves + (decision->stop_at - runner->n_moves) / CASES_PART;
  for (;;)
    {
      raise_bound (runner, runner->n_cases, &part);
      if (part.refused || runner->worker.lower_bound_ns >= runner->worker.best->objective
          || runner->n_cases > G_MAXUINT / CASES_FACTOR)
        break;
      runner->n_cases *= CASES_FACTOR;
    }
}

/* Raises the lower bound by the windows of ops, and looks for better orders in them. */
static void
narrow (PsRunner *runner)
{
  PsSearchWorker *worker = &runner->worker;
  gint64 gap = worker->best->objective - worker->lower_bound_ns;

  if (runner->windows == NULL)
    runner->windows = ps_windows_new (worker->problem, MAX_STATES);
  runner->narrow_at = G_MAXUINT64;
  if (runner->windows == NULL)
    return;
  Decision decision = decision_of (runner, ps_windows_steps (runner->windows) / STEPS_PER_MOVE + 1,
                                   runner->windows_help ? HELPFUL_PART : DECISION_PART);
  raise_bound (runner, 0, &decision);
  if (!decision.refused)
    split (runner, &decision);
  while (ps_windows_can_descend (runner->windows) && !decision.refused
         && worker->best->objective > worker->lower_bound_ns)
    descend (runner, &decision);
  runner->windows_help = worker->best->objective - worker->lower_bound_ns < gap;
  runner->narrow_at = again_at (runner, runner->windows_help ? HELPFUL_FACTOR : DECISION_FACTOR);
}

static gboolean
go_on_stretching (gpointer data)
{
  PsSearchWorker *worker = data;

  return ps_search_worker_spend (worker, moves_per_repeat (worker->problem));
}

/* Makes an order of another problem one of the worker's problem: as it is, or stretched to more microbatches. */
static void
carry_over (PsSearchWorker *worker, const PsOrder *from, const char *found_by)
{
  PsOrder *order = worker->scratch;
  gboolean carried;

  if (from->problem->m < order->problem->m)
    carried = ps_order_stretch (order, from, go_on_stretching, worker);
  else
    {
      ps_order_copy (order, from);
      carried = ps_order_evaluate (order) && order->excess == 0;
    }
  if (carried)
    ps_search_worker_offer (worker, order, found_by);
}

/* Works on the easier problem and carries its best order over. That order need not be the best here, so another one of
 * the pool is carried over too, and all good policies are tried. */
static void
ease (PsRunner *runner)
{
  PsSearchWorker *easier = &runner->easier;
  const PsOrder *other;

  ps_search_worker_round (easier);
  if (ps_runner_is_over (runner))
    return;
  carry_over (&runner->worker, easier->best, "an easier problem");
  other = ps_search_worker_draw (easier)->order;
  if (other->objective != G_MAXINT64 && !ps_runner_is_over (runner))
    carry_over (&runner->worker, other, "an easier problem");
  for (guint i = 0; i < POOL_SIZE && !ps_runner_is_over (runner); i++)
    if (easier->pool[i].order->objective != G_MAXINT64)
      ps_search_worker_try_policy (&runner->worker, &easier->pool[i].policy);
}

/* Whether a worker on another problem than the one asked for is due: it is to have `part` of all moves. */
static gboolean
is_due (const PsRunner *runner, const PsSearchWorker *worker, double part)
{
  return worker->problem != NULL && worker->best->objective > worker->lower_bound_ns
         && (double)worker->n_moves <= part * (double)runner->n_moves;
}

/* Whether the price of the best schedule has more in it than the objective. */
static gboolean
prices_differ (const PsRunner *runner)
{
  return runner->shared->setting->price != NULL && runner->best.price_ns > runner->worker.best->objective
         && runner->best.price_ns != G_MAXINT64;
}

static void
take_turn (PsRunner *runner)
{
  if (is_due (runner, &runner->easier, EASIER_PART))
    ease (runner);
  else if (is_due (runner, &runner->slower, SLOWER_PART))
    {
      carry_over (&runner->slower, runner->worker.best, "local search");
      ps_search_worker_round (&runner->slower);
    }
  else
    {
      guint64 before = runner->n_moves;

      ps_search_worker_round (&runner->worker);
      if (prices_differ (runner) && !ps_runner_is_over (runner))
        ps_runner_polish (runner, (runner->n_moves - before) * POLISH_PART);
    }
}

void
ps_runner_init (PsRunner *runner, PsSearchShared *shared, guint index)
{
  const PsStart *start = &shared->start;

  *runner
      = (PsRunner){ .shared = shared,
                    .index = index,
                    .random = { shared->setting->seed * 1000003 + index },
                    .best = { ps_schedule_copy (shared->seed.schedule), shared->seed.price_ns, shared->seed.found_by },
                    .decide_at = index == 0 && ps_exact_can_decide (start->problem) ? 0 : G_MAXUINT64,
                    .max_fails = FIRST_FAILS,
                    .n_cases = FIRST_CASES,
                    .narrow_at = index == 0 ? LEAST_DECISION : G_MAXUINT64 };
  ps_search_worker_init (&runner->worker, runner, start);
  ps_search_worker_init (&runner->easier, runner, &shared->easier);
  ps_search_worker_init (&runner->slower, runner, &shared->slower);
}

void
ps_runner_clear (PsRunner *runner)
{
  ps_search_worker_clear (&runner->worker);
  ps_search_worker_clear (&runner->easier);
  ps_search_worker_clear (&runner->slower);
  ps_schedule_free (runner->best.schedule);
  ps_windows_free (runner->windows);
}

/* Whether proofs about the objective may raise the bound. They end at the best objective. */
static gboolean
proofs_matter (const PsRunner *runner)
{
  return runner->worker.best->objective > runner->shared->setting->price_bound_ns;
}

gpointer
ps_runner_run (gpointer data)
{
  PsRunner *runner = data;

  while (!ps_runner_is_over (runner))
    {
      if (runner->n_moves >= runner->decide_at && proofs_matter (runner))
        decide (runner);
      else if (runner->n_moves >= runner->narrow_at && proofs_matter (runner))
        narrow (runner);
      else
        take_turn (runner);
      ps_runner_report (runner);
    }
  ps_runner_mark_done (runner);
  return NULL;
}

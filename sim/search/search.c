/* search.c - the threads of a search, the methods that each of them runs one after the other, and the result. */
#include "methods.h"
#include "windows.h"

#include <pipesim/simulate.h>

#include <math.h>

/* Data that all threads of a search share. */
typedef struct {
  const PsSearchSetting *setting;
  PsStart start;
  PsStart easier;     /* fewer microbatches, or the makespan instead of spans */
  PsPriced seed;      /* the best of all starts */
  gint64 begin_ns;    /* monotonic */
  gint64 reported_ns; /* when the first runner last showed progress */
  gint done_below;    /* atomic: smallest index of a runner whose best is optimal */
  gint64 best_ns;     /* under lock, for progress only */
  guint64 n_moves;    /* under lock */
  GMutex lock;
} Shared;

#define POOL_SIZE 8

/* Making a list schedule counts as n_ops / OPS_PER_MOVE moves. */
#define OPS_PER_MOVE 4

typedef struct Runner Runner;

/* A list schedule and the policy that made it. */
typedef struct {
  PsOrder *order; /* objective G_MAXINT64: none yet */
  PsPolicy policy;
} Candidate;

typedef struct {
  Runner *runner;
  const PsProblem *problem;
  PsOrder *best;
  PsOrder *scratch;
  gint64 lower_bound_ns;     /* on the objective */
  Candidate pool[POOL_SIZE]; /* good list schedules */
  guint64 n_moves;
  guint64 n_policy_moves; /* of these, for list scheduling */
  guint64 n_policies;     /* tried */
  guint64 length;         /* of the next local search, moves */
  PsBlocks cells;         /* where ps_blocks_suit */
  PsBlocks slots;
  double unit_ns;    /* mean duration of an op */
  double unit_bytes; /* mean of what an F takes */
} Worker;

struct Runner {
  Shared *shared;
  guint index;
  PsRandom random;
  Worker worker;
  Worker easier;
  PsPriced best;
  gint64 objective; /* of the order priced last */
  gint64 end_sum;   /* of the same order */
  gint64 price_ns;  /* of the same order */
  guint64 n_moves;
  guint64 n_reported;
  guint64 narrow_at;  /* moves after which windows are narrowed; G_MAXUINT64: never */
  PsWindows *windows; /* NULL: not yet */
  guint max_fails;    /* of the next descent */
  gboolean windows_help;
  guint n_cases; /* of the next target of windows */
};

/* The account of one thread: prices of schedules, moves made, and when it is over. */

/* Least time between two progress reports. */
#define REPORT_EVERY_NS G_GINT64_CONSTANT (250000000)

/* Prices a solution, written as a schedule, and keeps the best. Returns the price; that of the solution priced last, if
 * both seem equal. */
static gint64 price_order (Runner *runner, const PsOrder *order, const char *found_by)
{
  const PsSearchSetting *setting = runner->shared->setting;

  if (order->objective == runner->objective && order->end_sum == runner->end_sum)
    return runner->price_ns;
  runner->objective = order->objective;
  runner->end_sum = order->end_sum;
  runner->n_moves += order->problem->n_ops / OPS_PER_MOVE;
  runner->price_ns
      = ps_priced_take (&runner->best, setting, ps_order_to_schedule (order, setting->placement), found_by);
  return runner->price_ns;
}

/* No price is lower. */
static gint64 bound_of (const Runner *runner)
{
  return MAX (runner->worker.lower_bound_ns, runner->shared->setting->price_bound_ns);
}

/* Whether no schedule can be better. */
static gboolean is_proved (const Runner *runner)
{
  return !runner->shared->setting->price_is_free && runner->best.price_ns <= bound_of (runner);
}

/* Adds the runner's moves and best price to those of the search. Where elapsed_ns is not 0, it shows progress. */
static void report (Runner *runner, gint64 elapsed_ns)
{
  Shared *shared = runner->shared;
  PsSearchProgress progress = { .elapsed_ns = elapsed_ns, .lower_bound_ns = bound_of (runner) };

  g_mutex_lock (&shared->lock);
  shared->n_moves += runner->n_moves - runner->n_reported;
  runner->n_reported = runner->n_moves;
  progress.n_moves = shared->n_moves;
  progress.best_ns = shared->best_ns = MIN (shared->best_ns, runner->best.price_ns);
  if (is_proved (runner) && (guint)shared->done_below > runner->index)
    g_atomic_int_set (&shared->done_below, (gint)runner->index);
  g_mutex_unlock (&shared->lock);
  if (elapsed_ns == 0 || progress.best_ns == G_MAXINT64)
    return;
  shared->reported_ns = elapsed_ns;
  shared->setting->progress (&progress, shared->setting->progress_data);
}

/* Whether the runner has to stop. It stops if a runner with a lower index has met the bound: the result is then that
 * one's or a lower one's. */
static gboolean is_over (Runner *runner)
{
  const PsSearchSetting *setting = runner->shared->setting;
  gint64 elapsed_ns = g_get_monotonic_time () * 1000 - runner->shared->begin_ns;

  if (runner->index == 0 && setting->progress != NULL && elapsed_ns - runner->shared->reported_ns > REPORT_EVERY_NS)
    report (runner, elapsed_ns);
  return is_proved (runner) || (guint)g_atomic_int_get (&runner->shared->done_below) < runner->index
         || (setting->move_limit > 0 && runner->n_moves >= setting->move_limit)
         || (setting->time_limit_ns > 0 && elapsed_ns >= setting->time_limit_ns)
         || (setting->stop != NULL && g_atomic_int_get (setting->stop));
}

/* The methods of a search, and their rounds. */

/* Part of the moves for list scheduling, and the policies drawn before good ones are changed. */
#define POLICY_PART 0.2
#define N_FRESH_POLICIES 32

/* Local searches of a round that start from list schedules of their own. */
#define FRESH_STARTS 3

/* Orders of slots that a round tries take the moves of this number of local searches. Orders of cells take this part of
 * one, the cells' own moves come on top, and they come first. */
#define BLOCKS_PER_SEARCH 2
#define BLOCK_PART 2

/* Length of the first local search: LENGTH_PER_OP per op between MIN_LENGTH and SMALL_LENGTH, or LARGE_LENGTH_PER_OP
 * per op if that is more. Later ones are at most MAX_LENGTH. */
#define LENGTH_PER_OP 64
#define MIN_LENGTH 10000
#define SMALL_LENGTH 50000
#define LARGE_LENGTH_PER_OP 20
#define MAX_LENGTH 4000000

/* Adds to the moves of a worker. FALSE: the runner has to stop. */
static gboolean spend (guint64 n_moves, gpointer data)
{
  Worker *worker = data;

  worker->n_moves += n_moves;
  worker->runner->n_moves += n_moves;
  return !is_over (worker->runner);
}

/* Moves that making and evaluating a whole order count as. */
static guint64 moves_per_order (const Worker *worker)
{
  return worker->problem->n_ops / OPS_PER_MOVE + 1;
}

/* Offers a solution that may be the best. */
static void offer (Worker *worker, const PsOrder *order, const char *found_by)
{
  if (worker != &worker->runner->easier)
    price_order (worker->runner, order, found_by);
  if (order->objective < worker->best->objective
      || (order->objective == worker->best->objective && order->end_sum < worker->best->end_sum))
    ps_order_assign (worker->best, order);
}

/* Offers an order of a method that comes upon very many: only if it is better. */
static void offer_better (const PsOrder *order, const char *found_by, gpointer data)
{
  Worker *worker = data;

  if (order->objective < worker->best->objective)
    offer (worker, order, found_by);
}

/* Puts a good list schedule into the pool, where it replaces the worst one. */
static gboolean pool_add (Worker *worker, const PsOrder *order, const PsPolicy *policy)
{
  Candidate *pool = worker->pool;
  guint worst = 0;

  for (guint i = 0; i < POOL_SIZE; i++) {
    if (pool[i].order->objective == order->objective && pool[i].order->end_sum == order->end_sum)
      return FALSE;
    if (pool[i].order->objective > pool[worst].order->objective)
      worst = i;
  }
  if (order->objective >= pool[worst].order->objective)
    return FALSE;
  ps_order_assign (pool[worst].order, order);
  pool[worst].policy = *policy;
  return TRUE;
}

/* A good list schedule, drawn at random; better ones are likelier. */
static const Candidate *draw_candidate (Worker *worker)
{
  PsRandom *random = &worker->runner->random;
  const Candidate *a = &worker->pool[ps_random_below (random, POOL_SIZE)];
  const Candidate *b = &worker->pool[ps_random_below (random, POOL_SIZE)];

  return a->order->objective <= b->order->objective ? a : b;
}

/* List scheduling under one policy. */
static void try_policy (Worker *worker, const PsPolicy *policy)
{
  PsOrder *order = worker->scratch;

  worker->n_policies++;
  worker->n_policy_moves += moves_per_order (worker);
  spend (moves_per_order (worker), worker);
  if (ps_list_schedule (order, policy) && ps_order_evaluate (order) && order->excess == 0
      && pool_add (worker, order, policy))
    offer (worker, order, "list scheduling");
}

static void draw_policy (Worker *worker, PsPolicy *policy)
{
  PsRandom *random = &worker->runner->random;
  const Candidate *parent = draw_candidate (worker);

  if (worker->n_policies < N_FRESH_POLICIES || parent->order->objective == G_MAXINT64
      || ps_random_below (random, 4) == 0) {
    ps_policy_draw (policy, worker->problem, random);
    return;
  }
  *policy = parent->policy;
  ps_policy_change (policy, random, ps_random_below (random, 2) ? 0.4 : 0.1);
}

/* Tries policies until they have had their part of all moves up to the end of the round. */
static void try_policies (Worker *worker)
{
  guint64 moves = worker->n_moves + (FRESH_STARTS + 2) * worker->length;
  PsPolicy policy;

  while ((double)worker->n_policy_moves < POLICY_PART * (double)moves && !is_over (worker->runner)) {
    draw_policy (worker, &policy);
    try_policy (worker, &policy);
  }
}

static void try_blocks (Worker *worker, PsBlocks *blocks, guint64 n_moves)
{
  if (!ps_blocks_suit (worker->problem, blocks->have_slots))
    return;
  blocks->n_tries = n_moves / blocks->n_moves;
  ps_blocks_search (blocks, worker->scratch);
}

static void init_blocks (Worker *worker, PsBlocks *blocks, gboolean have_slots)
{
  *blocks = (PsBlocks){ .have_slots = have_slots,
                        .random = &worker->runner->random,
                        .n_moves = moves_per_order (worker),
                        .spend = spend,
                        .offer = offer_better,
                        .data = worker };
  if (ps_blocks_suit (worker->problem, have_slots))
    ps_blocks_init (blocks, worker->problem);
}

/* Sets the units of temperatures and prices: mean time of an op, and mean bytes that an F takes. */
static void set_units (Worker *worker)
{
  const PsProblem *problem = worker->problem;
  guint n = problem->n_stages * N_KINDS;

  worker->unit_ns = worker->unit_bytes = 1;
  for (guint chain = 0; chain < n; chain++) {
    worker->unit_ns += (double)problem->duration[chain] / n;
    worker->unit_bytes += (double)problem->take[chain] / problem->n_stages;
  }
}

/* Local search from an order (NULL: from a fresh list schedule), with a random temperature, pull and price. */
static void improve (Worker *worker, const PsOrder *from)
{
  static const double pulls[] = { 0.1, 0.5, 0.5 };
  PsRandom *random = &worker->runner->random;
  PsOrder *order = worker->scratch;
  double heat = ps_random_unit (random),
         price = worker->unit_ns / worker->unit_bytes * 0.1 * (1 + 4 * ps_random_unit (random));
  const PsAnnealing annealing = { .random = random,
                                  .hot = worker->unit_ns * (0.1 + 0.25 * heat),
                                  .cold = worker->unit_ns * 0.02,
                                  .price = ps_random_below (random, 4) == 0 ? price : -1,
                                  .pull = pulls[ps_random_below (random, G_N_ELEMENTS (pulls))],
                                  .n_moves = worker->length,
                                  .stop_at_ns = worker->lower_bound_ns,
                                  .spend = spend,
                                  .offer = offer_better,
                                  .data = worker };
  PsPolicy policy;

  if (from != NULL && from->objective != G_MAXINT64)
    ps_order_assign (order, from);
  else {
    ps_policy_draw (&policy, worker->problem, random);
    if (!ps_list_schedule (order, &policy) || !ps_order_evaluate (order) || order->excess > 0)
      return;
  }
  ps_anneal (order, &annealing);
  if (!is_over (worker->runner))
    offer (worker, order, "local search");
}

/* One round of all methods, one after the other. It takes at least one move, so that rounds end even if no method has
 * anything to do. */
static void run_round (Worker *worker)
{
  spend (1, worker);
  try_blocks (worker, &worker->cells, worker->length / BLOCK_PART);
  try_policies (worker);
  try_blocks (worker, &worker->slots, BLOCKS_PER_SEARCH * worker->length);
  improve (worker, worker->best);
  improve (worker, draw_candidate (worker)->order);
  for (guint i = 0; i < FRESH_STARTS; i++)
    improve (worker, NULL);
  worker->length = MIN (worker->length * 3 / 2, MAX_LENGTH);
}

/* A start without a problem makes a worker without one, which must not be given work. */
static void worker_init (Worker *worker, Runner *runner, const PsStart *start)
{
  const PsProblem *problem = start->problem;

  *worker = (Worker){ .runner = runner, .problem = problem };
  if (problem == NULL)
    return;
  worker->best = ps_order_new (problem);
  worker->scratch = ps_order_new (problem);
  worker->lower_bound_ns = start->lower_bound_ns;
  worker->length
      = MAX (CLAMP (LENGTH_PER_OP * problem->n_ops, MIN_LENGTH, SMALL_LENGTH), LARGE_LENGTH_PER_OP * problem->n_ops);
  init_blocks (worker, &worker->cells, FALSE);
  init_blocks (worker, &worker->slots, TRUE);
  ps_order_assign (worker->best, start->order);
  for (guint i = 0; i < POOL_SIZE; i++) {
    worker->pool[i].order = ps_order_new (problem);
    worker->pool[i].order->objective = G_MAXINT64;
  }
  set_units (worker);
}

static void worker_clear (Worker *worker)
{
  for (guint i = 0; i < POOL_SIZE; i++)
    ps_order_free (worker->pool[i].order);
  ps_order_free (worker->best);
  ps_order_free (worker->scratch);
  ps_blocks_clear (&worker->cells);
  ps_blocks_clear (&worker->slots);
}

/* Local search by the price itself, which the objective only resembles. */

/* A price counts as PRICE_FACTOR times the moves of making an order: it lowers, plans and simulates a program. */
#define PRICE_FACTOR 4

/* The temperature, in mean durations of an op, falls from HOT or less to COLD. */
#define HOT 0.3
#define COLD 0.01

/* Moves single ops of the runner's best schedule and keeps what lowers its price, for about n_moves. */
static void search_by_price (Runner *runner, guint64 n_moves)
{
  const PsSearchSetting *setting = runner->shared->setting;
  Worker *worker = &runner->worker;
  const PsProblem *problem = worker->problem;
  g_autoptr (PsOrder) order = ps_order_new (problem), kept = ps_order_new (problem);
  double hot = COLD + (HOT - COLD) * ps_random_unit (&runner->random), current = (double)runner->best.price_ns;
  guint64 begin = runner->n_moves, until = begin + n_moves;

  if (!ps_order_from_schedule (kept, runner->best.schedule) || !ps_order_evaluate (kept) || kept->excess > 0)
    return;
  ps_order_assign (order, kept);
  while (runner->n_moves < until && spend (1, worker)) {
    double part = (double)(runner->n_moves - begin) / (double)n_moves;
    double temperature = worker->unit_ns * hot * pow (COLD / hot, part);
    double enough = current + temperature * ps_random_exponential (&runner->random), price;

    /* A price is never below the objective, unless it is free. */
    if (!ps_order_move_one (order, setting->price_is_free ? G_MAXINT64 : (gint64)enough, &runner->random))
      continue;
    spend (PRICE_FACTOR * problem->n_ops / OPS_PER_MOVE, worker);
    price = (double)ps_priced_take (&runner->best, setting, ps_order_to_schedule (order, setting->placement),
                                    "local search by price");
    if (price <= enough)
      current = price;
    ps_order_assign (price <= enough ? kept : order, price <= enough ? order : kept);
  }
}

/* One thread of a search. */

/* Part of the moves for the easier problem. */
#define EASIER_PART 0.4

/* Moves of a local search by price, for each move of the round before it. */
#define BY_PRICE_PART 6

/* The windows of ops take at most DECISION_PART of the moves made before; the first call of
 * go_on is free. What is not decided is tried again at DECISION_FACTOR times the moves, but never before
 * LEAST_DECISION or, if that is less, DECISION_MOVES_PER_OP for each op. HELPFUL_PART and HELPFUL_FACTOR are for
 * windows that made the gap smaller the last time. */
#define DECISION_PART 0.4
#define DECISION_FACTOR 3
#define HELPFUL_PART 1
#define HELPFUL_FACTOR 1.5
#define LEAST_DECISION 25000
#define DECISION_MOVES_PER_OP 8

/* Steps between states of windows that count as one move, and the most states. */
#define STEPS_PER_MOVE 512
#define MAX_STATES 1000000

/* A descent asks for 1 / 2^0 to 1 / 2^(MAX_SHIFT - 1) of the gap. It has FIRST_FAILS dead ends at first. */
#define MAX_SHIFT 8
#define FIRST_FAILS 64

/* Cases that a target is split into at first, and how their number grows. They take 1 / CASES_PART of what windows may
 * take. */
#define FIRST_CASES 16
#define CASES_FACTOR 4
#define CASES_PART 2

/* A proof under way, and the moves that it may take. */
typedef struct {
  Worker *worker;
  guint64 stop_at; /* moves */
  guint64 n_moves; /* that a question counts as */
  gboolean refused;
} Decision;

static guint64 least_decision (const PsProblem *problem)
{
  return MIN (LEAST_DECISION, DECISION_MOVES_PER_OP * problem->n_ops);
}

static gboolean go_on_deciding (gpointer data)
{
  Decision *decision = data;
  const Runner *runner = decision->worker->runner;

  decision->refused = runner->n_moves >= decision->stop_at || !spend (decision->n_moves, decision->worker);
  return !decision->refused;
}

/* Asks for an order by part of the gap better, by windows. */
static void descend (Runner *runner, Decision *decision)
{
  Worker *worker = &runner->worker;
  gint64 gap = worker->best->objective - worker->lower_bound_ns;
  PsDescent descent
      = { .order = worker->scratch,
          .target = worker->best->objective - MAX (gap >> ps_random_below (&runner->random, MAX_SHIFT), 1),
          .max_fails = runner->max_fails,
          .random = &runner->random,
          .go_on = go_on_deciding,
          .data = decision };

  switch (ps_windows_descend (runner->windows, &descent)) {
  case PS_DESCENDED_FOUND:
    offer (worker, worker->scratch, "windows of ops");
    return;
  case PS_DESCENDED_REFUTED:
    worker->lower_bound_ns = descent.target + 1;
    return;
  case PS_DESCENDED_STOPPED:
    runner->max_fails += runner->max_fails / 16;
  }
}

static void raise_bound (Runner *runner, guint n_cases, Decision *decision)
{
  Worker *worker = &runner->worker;

  ps_order_assign (worker->scratch, worker->best);
  worker->lower_bound_ns = ps_windows_bound (runner->windows, worker->lower_bound_ns, worker->best->objective, n_cases,
                                             worker->scratch, go_on_deciding, decision);
  if (worker->scratch->objective < worker->best->objective)
    offer (worker, worker->scratch, "windows of ops");
}

/* Raises the lower bound by splitting windows into more and more cases. */
static void split (Runner *runner, const Decision *decision)
{
  Decision part = *decision;

  part.stop_at = runner->n_moves + (decision->stop_at - runner->n_moves) / CASES_PART;
  for (;;) {
    raise_bound (runner, runner->n_cases, &part);
    if (part.refused || runner->worker.lower_bound_ns >= runner->worker.best->objective
        || runner->n_cases > G_MAXUINT / CASES_FACTOR)
      break;
    runner->n_cases *= CASES_FACTOR;
  }
}

/* Raises the lower bound by the windows of ops, and looks for better orders in them. */
static void narrow (Runner *runner)
{
  Worker *worker = &runner->worker;
  gint64 gap = worker->best->objective - worker->lower_bound_ns;

  if (runner->windows == NULL)
    runner->windows = ps_windows_new (worker->problem, MAX_STATES);
  runner->narrow_at = G_MAXUINT64;
  if (runner->windows == NULL)
    return;
  Decision decision = { .worker = worker, .n_moves = ps_windows_steps (runner->windows) / STEPS_PER_MOVE + 1 };
  decision.stop_at = (guint64)((double)runner->n_moves * (1 + (runner->windows_help ? HELPFUL_PART : DECISION_PART)));
  raise_bound (runner, 0, &decision);
  if (!decision.refused)
    split (runner, &decision);
  while (ps_windows_can_descend (runner->windows) && !decision.refused
         && worker->best->objective > worker->lower_bound_ns)
    descend (runner, &decision);
  runner->windows_help = worker->best->objective - worker->lower_bound_ns < gap;
  runner->narrow_at
      = MAX ((guint64)((double)runner->n_moves * (runner->windows_help ? HELPFUL_FACTOR : DECISION_FACTOR)),
             least_decision (worker->problem));
}

/* Makes an order of another problem one of the worker's problem: as it is, or made longer for more microbatches. */
static void carry_over (Worker *worker, const PsOrder *from, const char *found_by)
{
  PsOrder *order = worker->scratch;
  gboolean carried;

  if (from->problem->m < order->problem->m)
    carried = ps_order_lengthen (order, from, spend, worker);
  else {
    ps_order_copy (order, from);
    carried = ps_order_evaluate (order) && order->excess == 0;
  }
  if (carried)
    offer (worker, order, found_by);
}

/* Works on the easier problem and carries its best order over. That order need not be the best here, so another one of
 * the pool is carried over too, and all good policies are tried. */
static void ease (Runner *runner)
{
  Worker *easier = &runner->easier;
  const PsOrder *other;

  run_round (easier);
  if (is_over (runner))
    return;
  carry_over (&runner->worker, easier->best, "an easier problem");
  other = draw_candidate (easier)->order;
  if (other->objective != G_MAXINT64 && !is_over (runner))
    carry_over (&runner->worker, other, "an easier problem");
  for (guint i = 0; i < POOL_SIZE && !is_over (runner); i++)
    if (easier->pool[i].order->objective != G_MAXINT64)
      try_policy (&runner->worker, &easier->pool[i].policy);
}

/* Whether the easier problem is due: it is to have EASIER_PART of all moves. */
static gboolean easier_is_due (const Runner *runner)
{
  const Worker *easier = &runner->easier;

  return easier->problem != NULL && easier->best->objective > easier->lower_bound_ns
         && (double)easier->n_moves <= EASIER_PART * (double)runner->n_moves;
}

/* A round on the problem asked for; then by price, where the price of the best schedule has more in it than the
 * objective. */
static void run_round_by_price (Runner *runner)
{
  guint64 before = runner->n_moves;

  run_round (&runner->worker);
  if (runner->shared->setting->price != NULL && runner->best.price_ns > runner->worker.best->objective
      && runner->best.price_ns != G_MAXINT64 && !is_over (runner))
    search_by_price (runner, (runner->n_moves - before) * BY_PRICE_PART);
}

static void runner_init (Runner *runner, Shared *shared, guint index)
{
  const PsStart *start = &shared->start;

  *runner
      = (Runner){ .shared = shared,
                  .index = index,
                  .random = { shared->setting->seed * 1000003 + index },
                  .best = { ps_schedule_copy (shared->seed.schedule), shared->seed.price_ns, shared->seed.found_by },
                  .max_fails = FIRST_FAILS,
                  .n_cases = FIRST_CASES,
                  .narrow_at = index == 0 ? least_decision (start->problem) : G_MAXUINT64 };
  worker_init (&runner->worker, runner, start);
  worker_init (&runner->easier, runner, &shared->easier);
}

static void runner_clear (Runner *runner)
{
  worker_clear (&runner->worker);
  worker_clear (&runner->easier);
  ps_schedule_free (runner->best.schedule);
  ps_windows_free (runner->windows);
}

/* Thread function; data is a Runner. Proofs about the objective end at the best objective. */
static gpointer runner_run (gpointer data)
{
  Runner *runner = data;

  while (!is_over (runner)) {
    if (runner->n_moves >= runner->narrow_at
        && runner->worker.best->objective > runner->shared->setting->price_bound_ns)
      narrow (runner);
    else if (easier_is_due (runner))
      ease (runner);
    else
      run_round_by_price (runner);
    report (runner, 0);
  }
  report (runner, 0);
  return NULL;
}

/* A problem with many microbatches is first searched with this many or 3 p. */
#define LEAST_MICROBATCHES 12

void ps_search_result_free (PsSearchResult *result)
{
  if (result == NULL)
    return;
  ps_schedule_free (result->schedule);
  g_free (result);
}

static gboolean check_setting (const PsSearchSetting *setting, GError **error)
{
  if (setting->n_microbatches % setting->placement->n_copies != 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-m/--microbatches: '%u' does not divide by two weight copies; %u would",
                      setting->n_microbatches, setting->n_microbatches + 1);
  for (guint d = 0; d < setting->placement->n_devices && setting->memory_limit != NULL; d++) {
    gint64 least = ps_search_least_memory (setting->placement, setting->costs, setting->n_slices, d);

    if (setting->memory_limit[d] >= least)
      continue;
    g_autofree char *limit = ps_format_size (setting->memory_limit[d]), *needed = ps_format_size (least);
    return ps_refuse (error, PS_ERROR_SCHEDULE,
                      "--memory-limit: infeasible: needs at least %s (%" G_GINT64_FORMAT " bytes) on device %u, not %s",
                      needed, least, d, limit);
  }
  return TRUE;
}

/* Fails if a thread cannot be made; the threads already running are stopped. */
static gboolean run_threads (Shared *shared, Runner *runners, guint n, GError **error)
{
  g_autofree GThread **threads = g_new0 (GThread *, n);
  gboolean ok = TRUE;

  for (guint i = 1; i < n && ok; i++) {
    threads[i] = g_thread_try_new ("search", runner_run, &runners[i], error);
    ok = threads[i] != NULL;
  }
  if (ok)
    runner_run (&runners[0]);
  else {
    g_prefix_error (error, "--jobs: %u threads: ", n);
    g_atomic_int_set (&shared->done_below, 0);
  }
  for (guint i = 1; i < n && threads[i] != NULL; i++)
    g_thread_join (threads[i]);
  return ok;
}

/* Makes an easier setting: fewer microbatches, because long schedules repeat themselves; makespans, because good ones
 * are near good spans. FALSE: the setting is already as easy. */
static gboolean make_easier (const PsSearchSetting *setting, PsSearchSetting *easier)
{
  guint few = (MAX (3 * setting->placement->n_devices, LEAST_MICROBATCHES) - 1) / setting->n_slices + 1;

  few += few % setting->placement->n_copies;
  *easier = *setting;
  if (setting->n_microbatches >= 2 * few)
    easier->n_microbatches = few;
  easier->objective = PS_OBJECTIVE_MAKESPAN;
  return easier->n_microbatches != setting->n_microbatches || easier->objective != setting->objective;
}

static void shared_init (Shared *shared, const PsSearchSetting *setting)
{
  PsSearchSetting easier;

  *shared = (Shared){
    .setting = setting, .begin_ns = g_get_monotonic_time () * 1000, .done_below = G_MAXINT, .best_ns = G_MAXINT64
  };
  ps_start_init (&shared->start, setting, &shared->seed);
  if (make_easier (setting, &easier))
    ps_start_init (&shared->easier, &easier, NULL);
  g_mutex_init (&shared->lock);
}

static void shared_clear (Shared *shared)
{
  ps_start_clear (&shared->start);
  ps_start_clear (&shared->easier);
  ps_schedule_free (shared->seed.schedule);
  g_mutex_clear (&shared->lock);
}

/* Ties go to the first runner, so that the result does not depend on which was faster. */
static PsSearchResult *choose_best (const Shared *shared, Runner *runners)
{
  PsSearchResult *result = g_new0 (PsSearchResult, 1);
  Runner *best = &runners[0];

  result->n_moves = shared->n_moves;
  for (guint i = 0; i < shared->setting->n_threads; i++) {
    result->lower_bound_ns = MAX (result->lower_bound_ns, bound_of (&runners[i]));
    if (runners[i].best.price_ns < best->best.price_ns)
      best = &runners[i];
  }
  result->schedule = g_steal_pointer (&best->best.schedule);
  result->price_ns = best->best.price_ns;
  result->proved_optimal = !shared->setting->price_is_free && result->price_ns <= result->lower_bound_ns;
  result->found_by = best->best.found_by;
  g_free (result->schedule->name);
  result->schedule->name = g_strdup ("search");
  return result;
}

static PsSearchResult *finish_result (const PsSearchSetting *setting, PsSearchResult *taken, GError **error)
{
  g_autoptr (PsSearchResult) result = taken;
  g_autoptr (PsSimulation) simulation = NULL;

  if (ps_schedule_validate (result->schedule, error))
    simulation = ps_simulate_schedule (result->schedule, setting->costs, error);
  if (simulation == NULL)
    return NULL;
  result->makespan_ns = simulation->makespan_ns;
  result->max_span_ns = simulation->max_span_ns;
  return g_steal_pointer (&result);
}

static PsSearchResult *search (const PsSearchSetting *setting, GError **error)
{
  g_autofree Runner *runners = g_new0 (Runner, setting->n_threads);
  PsSearchResult *result = NULL;
  Shared shared;

  if (!check_setting (setting, error))
    return NULL;
  shared_init (&shared, setting);
  for (guint i = 0; i < setting->n_threads; i++)
    runner_init (&runners[i], &shared, i);
  if (run_threads (&shared, runners, setting->n_threads, error))
    result = choose_best (&shared, runners);
  for (guint i = 0; i < setting->n_threads; i++)
    runner_clear (&runners[i]);
  shared_clear (&shared);
  return result != NULL ? finish_result (setting, result, error) : NULL;
}

/* The same setting with the costs of a slice. */
static PsSearchSetting slice_setting (const PsSearchSetting *setting, const PsCosts *costs)
{
  PsSearchSetting of_slices = *setting;

  of_slices.n_slices = MAX (setting->n_slices, 1);
  of_slices.costs = costs;
  return of_slices;
}

gint64 ps_search_bound (const PsSearchSetting *setting)
{
  g_autoptr (PsCosts) costs = ps_costs_least_slice (setting->costs, MAX (setting->n_slices, 1));
  const PsSearchSetting of_slices = slice_setting (setting, costs);
  g_autoptr (PsProblem) problem = NULL;

  if (!ps_problem_is_possible (&of_slices))
    return G_MAXINT64;
  problem = ps_problem_new (&of_slices);
  return ps_start_bound (&of_slices, problem);
}

PsSearchResult *ps_search (const PsSearchSetting *setting, GError **error)
{
  g_autoptr (PsCosts) costs = ps_costs_slice (setting->costs, MAX (setting->n_slices, 1));
  const PsSearchSetting of_slices = slice_setting (setting, costs);

  g_return_val_if_fail (setting->n_threads >= 1, NULL);
  g_return_val_if_fail (setting->time_limit_ns > 0 || setting->move_limit > 0, NULL);

  return search (&of_slices, error);
}

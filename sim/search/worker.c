/* worker.c - one thread of a search. */
#include "worker.h"

#include "anneal.h"
#include "beam.h"
#include "exact.h"
#include "greedy.h"
#include "seeds.h"
#include "stretch.h"

/* Part of the budget that goes into policies. */
#define POLICY_PART 0.2

/* Parts of the budget between which the first worker tries to decide a small problem. */
#define EXACT_BEGIN 0.5
#define EXACT_END 0.7

/* What a question of the branch and bound stands for in moves. */
#define MOVES_PER_QUESTION 8192

/* A list schedule costs about as much as this part of its ops in moves. */
#define OPS_PER_MOVE 4

/* Scores changed at once at most, and over how many microbatches. */
#define MAX_NUDGES 6
#define NUDGE_REACH 5

/* Local searches of a round that start from list schedules of their own. */
#define FRESH_STARTS 3

/* How many repetitions of a part are tried in a round. */
#define REPEATS_PER_ROUND 100

/* What a state of a beam costs in moves. */
#define MOVES_PER_STATE 40

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

static void
report (Worker *worker)
{
  Shared *shared = worker->shared;

  g_mutex_lock (&shared->lock);
  shared->n_moves += worker->n_moves - worker->n_reported;
  worker->n_reported = worker->n_moves;
  if (worker->best->objective < shared->best_ns)
    shared->best_ns = worker->best->objective;
  g_cond_signal (&shared->changed);
  g_mutex_unlock (&shared->lock);
}

/* Part of the budget that is used up; 1 when the search is over. A worker with a higher index than one that has met the
 * bound cannot be the one that is asked for the result. */
static double
used (const Worker *worker)
{
  const PsSearchSetting *setting = worker->shared->setting;
  double part = 0;

  if (worker->best->objective <= worker->shared->lower_bound_ns
      || (guint)g_atomic_int_get (&worker->shared->done_below) < worker->index)
    return 1;
  if (setting->move_limit > 0)
    part = (double)worker->n_moves / (double)setting->move_limit;
  if (setting->time_limit_ns > 0)
    part = MAX (part, (double)(now_ns () - worker->shared->start_ns) / (double)setting->time_limit_ns);
  return MIN (part, 1);
}

static void
take_best (Worker *worker, const Order *order, const char *found_by)
{
  if (order->objective > worker->best->objective
      || (order->objective == worker->best->objective && order->weight >= worker->best->weight))
    return;
  if (order->objective < worker->best->objective)
    worker->found_by = found_by;
  order_assign (worker->best, order);
}

/* Puts a good list schedule into the pool in place of the worst there. */
static void
pool_add (Worker *worker, const Order *order, const Policy *policy)
{
  Candidate *pool = worker->pool;
  guint worst = 0;

  for (guint i = 0; i < POOL_SIZE; i++)
    {
      if (pool[i].order->objective == order->objective && pool[i].order->weight == order->weight)
        return;
      if (pool[i].order->objective > pool[worst].order->objective)
        worst = i;
    }
  if (order->objective >= pool[worst].order->objective)
    return;
  order_assign (pool[worst].order, order);
  pool[worst].policy = *policy;
}

static const Candidate *
pool_draw (Worker *worker)
{
  const Candidate *a = &worker->pool[random_below (&worker->random, POOL_SIZE)];
  const Candidate *b = &worker->pool[random_below (&worker->random, POOL_SIZE)];

  return a->order->objective <= b->order->objective ? a : b;
}

static void
try_policy (Worker *worker, const Policy *policy, Order *scratch)
{
  worker->n_moves += scratch->problem->n_ops / OPS_PER_MOVE + 1;
  if (!greedy_build (scratch, policy, NULL) || !order_evaluate (scratch) || scratch->excess > 0)
    return;
  pool_add (worker, scratch, policy);
  take_best (worker, scratch, "list scheduling");
}

/* Where no family fits there is something all the same, however small the budget. */
static void
build_any (Worker *worker, Order *scratch)
{
  static const Policy plain = { .bias[PS_OP_W] = { .base = 1 }, .ahead = { .base = 1 }, .fuses = TRUE };

  if (worker->best->objective == G_MAXINT64)
    try_policy (worker, &plain, scratch);
  if (worker->best->objective < G_MAXINT64)
    return;
  one_by_one (scratch);
  if (order_evaluate (scratch) && scratch->excess == 0)
    take_best (worker, scratch, "one microbatch at a time");
}

static void
draw_policy (Worker *worker, Policy *policy, gboolean fresh)
{
  const Candidate *parent = pool_draw (worker);

  if (fresh || parent->order->objective == G_MAXINT64 || random_below (&worker->random, 4) == 0)
    {
      policy_draw (policy, worker->shared->problem, &worker->random);
      return;
    }
  *policy = parent->policy;
  policy_change (policy, &worker->random, random_below (&worker->random, 2) ? 0.4 : 0.1);
}

static void
try_policies (Worker *worker, Order *scratch)
{
  const Shared *shared = worker->shared;

  for (guint i = 0; i < shared->n_policies && used (worker) < POLICY_PART; i++)
    try_policy (worker, &shared->policies[i], scratch);
  for (guint i = 0; used (worker) < POLICY_PART; i++)
    {
      Policy policy;

      draw_policy (worker, &policy, i < 4 * POOL_SIZE && shared->n_policies == 0);
      try_policy (worker, &policy, scratch);
      if (i % 64 == 0)
        report (worker);
    }
}

static gboolean
go_on (gpointer data)
{
  Worker *worker = data;

  worker->n_moves += ANNEAL_ROUND;
  return used (worker) < 1;
}

/* Scores that a try changes, to take back. */
typedef struct
{
  guint n;
  guint op[MAX_NUDGES];
  gint64 before[MAX_NUDGES];
} Nudges;

/* Changes the scores of a few ops of neighbouring microbatches. */
static void
draw_nudges (Worker *worker, gint64 *nudge, Nudges *nudges)
{
  const Problem *problem = worker->shared->problem;
  Random *random = &worker->random;
  guint first = random_below (random, problem->m);

  nudges->n = 1 + random_below (random, MAX_NUDGES);
  for (guint i = 0; i < nudges->n; i++)
    {
      guint chain = random_below (random, problem->n_stages * N_KINDS), last = problem->m - 1;
      guint microbatch = first + random_below (random, NUDGE_REACH);
      double size = 3 * (random_unit (random) - 0.5) * (double)problem->duration[chain];

      nudges->op[i] = chain * problem->m + MIN (microbatch, last);
      nudges->before[i] = nudge[nudges->op[i]];
      nudge[nudges->op[i]] = random_below (random, 3) == 0 ? 0 : (gint64)size;
    }
}

static void
undo_nudges (gint64 *nudge, const Nudges *nudges)
{
  for (guint i = nudges->n; i-- > 0;)
    nudge[nudges->op[i]] = nudges->before[i];
}

/* List scheduling again and again, with a few scores changed each time: what follows rearranges itself. */
static void
nudge_ops (Worker *worker, const Candidate *candidate, Order *scratch, guint64 n_tries)
{
  const Problem *problem = scratch->problem;
  g_autofree gint64 *nudge = g_new0 (gint64, problem->n_ops);
  double current = G_MAXDOUBLE;
  Nudges nudges = { 0 };

  for (guint64 i = 0; i < n_tries && used (worker) < 1 && candidate->order->objective != G_MAXINT64; i++)
    {
      double cost = G_MAXDOUBLE, temperature = worker->unit_ns * 0.3 * (1 - (double)i / (double)n_tries);

      if (i > 0)
        draw_nudges (worker, nudge, &nudges);
      worker->n_moves += problem->n_ops / OPS_PER_MOVE + 1;
      if (greedy_build (scratch, &candidate->policy, nudge) && order_evaluate (scratch) && scratch->excess == 0)
        {
          cost = (double)scratch->objective + 0.1 * (double)scratch->weight / problem->n_devices;
          take_best (worker, scratch, "list scheduling with single ops nudged");
        }
      if (cost <= current + temperature * random_exponential (&worker->random))
        current = cost;
      else
        undo_nudges (nudge, &nudges);
    }
}

static gboolean
go_on_deciding (gpointer data)
{
  Worker *worker = data;

  worker->n_moves += MOVES_PER_QUESTION;
  return used (worker) < EXACT_END;
}

static gboolean
go_on_widening (gpointer data)
{
  Worker *worker = data;

  worker->n_moves += MOVES_PER_STATE * worker->width;
  return used (worker) < 1;
}

static void
widen (Worker *worker, Order *scratch, guint width)
{
  Beam beam = { .width = width,
                .blend = random_unit (&worker->random),
                .noise = worker->unit_ns * 0.5 * random_unit (&worker->random),
                .random = worker->random,
                .stop_at_ns = worker->best->objective,
                .go_on = go_on_widening,
                .data = worker };

  worker->width = width;
  if (beam_search (scratch, &beam))
    take_best (worker, scratch, "beam search");
  worker->random = beam.random;
}

static void
decide (Worker *worker)
{
  gint64 before = worker->best->objective;

  worker->proved = exact_solve (worker->best, go_on_deciding, worker);
  if (worker->best->objective < before)
    worker->found_by = "branch and bound";
}

/* Where many microbatches follow the same pattern: a good piece of the best order in place of what is around it. */
static void
repeat_parts (Worker *worker, Order *scratch, guint n_tries)
{
  const Problem *problem = scratch->problem;
  guint most = MIN (problem->m / 4, MAX_PIECE);

  for (guint i = 0; i < n_tries && most > 0 && used (worker) < 1; i++)
    {
      gint64 moment = (gint64)((double)worker->best->objective * random_unit (&worker->random));
      guint piece = 1 + random_below (&worker->random, most);
      guint n_times = 2 + random_below (&worker->random, problem->m / piece);

      worker->n_moves += problem->n_ops / OPS_PER_MOVE + 1;
      if (order_repeat (scratch, worker->best, moment, piece, n_times) && order_evaluate (scratch)
          && scratch->excess == 0)
        take_best (worker, scratch, "repetition of a part");
    }
}

/* Mean time of an op and bytes that a forward takes: what temperatures and prices are measured by. */
static void
set_units (Worker *worker)
{
  const Problem *problem = worker->shared->problem;
  guint n = problem->n_stages * N_KINDS;

  worker->unit_ns = worker->unit_bytes = 1;
  for (guint chain = 0; chain < n; chain++)
    {
      worker->unit_ns += (double)problem->duration[chain] / n;
      worker->unit_bytes += (double)problem->take[chain] / problem->n_stages;
    }
}

/* Local search from an order (NULL: a fresh list schedule), at a temperature, pull and price of chance. */
static void
improve (Worker *worker, const Order *from, Order *scratch, guint64 length)
{
  static const double pulls[] = { 0.1, 0.5, 0.5 };
  Random *random = &worker->random;
  double heat = random_unit (random),
         price = worker->unit_ns / worker->unit_bytes * 0.1 * (1 + 4 * random_unit (random));
  Annealing annealing = { .hot = worker->unit_ns * (0.1 + 0.25 * heat),
                          .cold = worker->unit_ns * 0.02,
                          .price = random_below (random, 4) == 0 ? price : -1,
                          .pull = pulls[random_below (random, G_N_ELEMENTS (pulls))],
                          .n_moves = length,
                          .stop_at_ns = worker->shared->lower_bound_ns,
                          .go_on = go_on,
                          .data = worker };
  Policy policy;

  if (from != NULL && from->objective != G_MAXINT64)
    order_assign (scratch, from);
  else
    {
      policy_draw (&policy, worker->shared->problem, random);
      if (!greedy_build (scratch, &policy, NULL) || !order_evaluate (scratch) || scratch->excess > 0)
        return;
    }
  annealing.random = worker->random;
  anneal (scratch, &annealing);
  worker->random = annealing.random;
  take_best (worker, scratch, "local search");
}

/* Rounds of all methods in turn, each longer than the one before. */
static void
search_locally (Worker *worker, Order *scratch)
{
  guint64 length = MAX (50000, 20 * (guint64)scratch->problem->n_ops);
  gboolean tried = FALSE;
  guint width = 8;

  for (guint round = 0; used (worker) < 1 && !worker->proved; round++)
    {
      if (!scratch->problem->joins)
        widen (worker, scratch, width);
      improve (worker, worker->best, scratch, length);
      nudge_ops (worker, pool_draw (worker), scratch, length * OPS_PER_MOVE / scratch->problem->n_ops / 2);
      improve (worker, pool_draw (worker)->order, scratch, length);
      for (guint i = 0; i < FRESH_STARTS; i++)
        improve (worker, NULL, scratch, length);
      repeat_parts (worker, scratch, REPEATS_PER_ROUND);
      report (worker);
      length = MIN (length * 3 / 2, 4000000);
      width = MIN (width * 3 / 2, 20000);
      if (worker->index == 0 && exact_can_decide (scratch->problem) && !tried && used (worker) >= EXACT_BEGIN
          && (tried = TRUE))
        decide (worker);
    }
}

static void
mark_done (Worker *worker)
{
  Shared *shared = worker->shared;

  report (worker);
  g_mutex_lock (&shared->lock);
  if ((worker->proved || worker->best->objective <= shared->lower_bound_ns)
      && (guint)shared->done_below > worker->index)
    g_atomic_int_set (&shared->done_below, (gint)worker->index);
  shared->n_running--;
  g_cond_signal (&shared->changed);
  g_mutex_unlock (&shared->lock);
}

void
worker_init (Worker *worker, Shared *shared, guint index)
{
  *worker = (Worker){ .shared = shared, .index = index, .random = { shared->setting->seed * 1000003 + index } };
  worker->best = order_new (shared->problem);
  worker->best->objective = G_MAXINT64;
  for (guint i = 0; i < POOL_SIZE; i++)
    {
      worker->pool[i].order = order_new (shared->problem);
      worker->pool[i].order->objective = G_MAXINT64;
    }
}

void
worker_clear (Worker *worker)
{
  for (guint i = 0; i < POOL_SIZE; i++)
    order_free (worker->pool[i].order);
  order_free (worker->best);
}

gpointer
worker_run (gpointer data)
{
  Worker *worker = data;
  const Shared *shared = worker->shared;
  g_autoptr (Order) scratch = order_new (shared->problem);

  set_units (worker);
  if (shared->seed != NULL)
    take_best (worker, shared->seed, shared->seed_name);
  build_any (worker, scratch);
  try_policies (worker, scratch);
  search_locally (worker, scratch);
  mark_done (worker);
  return NULL;
}

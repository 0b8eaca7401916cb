/* worker.c - the methods of a search, and their rounds. */
#include "runner.h"

#include "anneal.h"
#include "partial.h"
#include "stretch.h"

/* Part of the moves for list scheduling, and the policies drawn before good ones are changed. */
#define POLICY_PART 0.2
#define N_FRESH_POLICIES 32

/* Most scores changed at once, and the microbatches that they spread over. */
#define MAX_NUDGES 6
#define NUDGE_REACH 5

/* Local searches of a round that start from list schedules of their own. */
#define FRESH_STARTS 3

/* Orders of slots that a round tries take the moves of this number of local searches. Orders of cells take this part of
 * one, the cells' own moves come on top, and they come first. */
#define BLOCKS_PER_SEARCH 2
#define BLOCK_PART 2

/* Repetitions of a part that a round tries. */
#define REPEATS_PER_ROUND 100

/* Length of the first local search: LENGTH_PER_OP per op between MIN_LENGTH and SMALL_LENGTH, or LARGE_LENGTH_PER_OP
 * per op if that is more. Later ones are at most MAX_LENGTH. */
#define LENGTH_PER_OP 64
#define MIN_LENGTH 10000
#define SMALL_LENGTH 50000
#define LARGE_LENGTH_PER_OP 20
#define MAX_LENGTH 4000000

/* Width of the first beam, and the widest. A round has a beam if it costs at most BEAM_PART local searches. */
#define MIN_WIDTH 8
#define MAX_WIDTH 20000
#define BEAM_PART 10

/* A state of a beam counts as MOVES_PER_STATE moves, and copying it as one move per OPS_PER_STATE_MOVE ops. */
#define MOVES_PER_STATE 40
#define OPS_PER_STATE_MOVE 128

gboolean
ps_search_worker_spend (PsSearchWorker *worker, guint64 n_moves)
{
  worker->n_moves += n_moves;
  worker->runner->n_moves += n_moves;
  return !ps_runner_is_over (worker->runner);
}

static gboolean
is_over (const PsSearchWorker *worker)
{
  return ps_runner_is_over (worker->runner);
}

/* Moves that making and evaluating a whole order count as. */
static guint64
moves_per_order (const PsSearchWorker *worker)
{
  return worker->problem->n_ops / OPS_PER_MOVE + 1;
}

void
ps_search_worker_offer (PsSearchWorker *worker, const PsOrder *order, const char *found_by)
{
  if (worker != &worker->runner->easier)
    ps_runner_price (worker->runner, order, found_by);
  if (order->objective < worker->best->objective
      || (order->objective == worker->best->objective && order->weight < worker->best->weight))
    ps_order_assign (worker->best, order);
}

/* Offers an order of a method that comes upon very many: only if it is better. */
static void
offer_better (PsSearchWorker *worker, const PsOrder *order, const char *found_by)
{
  if (order->objective < worker->best->objective)
    ps_search_worker_offer (worker, order, found_by);
}

/* Puts a good list schedule into the pool in place of the worst one. */
static gboolean
pool_add (PsSearchWorker *worker, const PsOrder *order, const PsPolicy *policy)
{
  PsCandidate *pool = worker->pool;
  guint worst = 0;

  for (guint i = 0; i < POOL_SIZE; i++)
    {
      if (pool[i].order->objective == order->objective && pool[i].order->weight == order->weight)
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

const PsCandidate *
ps_search_worker_draw (PsSearchWorker *worker)
{
  PsRandom *random = &worker->runner->random;
  const PsCandidate *a = &worker->pool[ps_random_below (random, POOL_SIZE)];
  const PsCandidate *b = &worker->pool[ps_random_below (random, POOL_SIZE)];

  return a->order->objective <= b->order->objective ? a : b;
}

void
ps_search_worker_try_policy (PsSearchWorker *worker, const PsPolicy *policy)
{
  PsOrder *order = worker->scratch;

  worker->n_policies++;
  worker->n_policy_moves += moves_per_order (worker);
  ps_search_worker_spend (worker, moves_per_order (worker));
  if (ps_greedy_build (order, policy, NULL) && ps_order_evaluate (order) && order->excess == 0
      && pool_add (worker, order, policy))
    ps_search_worker_offer (worker, order, "list scheduling");
}

static void
draw_policy (PsSearchWorker *worker, PsPolicy *policy)
{
  PsRandom *random = &worker->runner->random;
  const PsCandidate *parent = ps_search_worker_draw (worker);

  if (worker->n_policies < N_FRESH_POLICIES || parent->order->objective == G_MAXINT64
      || ps_random_below (random, 4) == 0)
    {
      ps_policy_draw (policy, worker->problem, random);
      return;
    }
  *policy = parent->policy;
  ps_policy_change (policy, random, ps_random_below (random, 2) ? 0.4 : 0.1);
}

/* Tries policies until they have had their part of all moves up to the end of the round. */
static void
try_policies (PsSearchWorker *worker)
{
  guint64 moves = worker->n_moves + (FRESH_STARTS + 2) * worker->length;
  PsPolicy policy;

  while ((double)worker->n_policy_moves < POLICY_PART * (double)moves && !is_over (worker))
    {
      draw_policy (worker, &policy);
      ps_search_worker_try_policy (worker, &policy);
    }
}

static gboolean
go_on (gpointer data)
{
  return ps_search_worker_spend (data, ANNEAL_ROUND);
}

/* Scores that a try has changed, to undo it. */
typedef struct
{
  guint n;
  guint op[MAX_NUDGES];
  gint64 before[MAX_NUDGES];
} Nudges;

/* Changes the scores of a few ops of neighbouring microbatches. */
static void
draw_nudges (PsSearchWorker *worker, gint64 *nudge, Nudges *nudges)
{
  const PsProblem *problem = worker->problem;
  PsRandom *random = &worker->runner->random;
  guint first = ps_random_below (random, problem->m);

  nudges->n = 1 + ps_random_below (random, MAX_NUDGES);
  for (guint i = 0; i < nudges->n; i++)
    {
      guint chain = ps_random_below (random, problem->n_stages * N_KINDS), last = problem->m - 1;
      guint microbatch = first + ps_random_below (random, NUDGE_REACH);
      double size = 3 * (ps_random_unit (random) - 0.5) * (double)problem->duration[chain];

      nudges->op[i] = chain * problem->m + MIN (microbatch, last);
      nudges->before[i] = nudge[nudges->op[i]];
      nudge[nudges->op[i]] = ps_random_below (random, 3) == 0 ? 0 : (gint64)size;
    }
}

static void
undo_nudges (gint64 *nudge, const Nudges *nudges)
{
  for (guint i = nudges->n; i-- > 0;)
    nudge[nudges->op[i]] = nudges->before[i];
}

/* List scheduling many times, with a few scores changed each time; all later ops rearrange themselves. */
static void
nudge_ops (PsSearchWorker *worker, const PsCandidate *candidate, guint64 n_tries)
{
  const PsProblem *problem = worker->problem;
  PsOrder *order = worker->scratch;
  g_autofree gint64 *nudge = g_new0 (gint64, problem->n_ops);
  double current = G_MAXDOUBLE;
  Nudges nudges = { 0 };

  for (guint64 i = 0; i < n_tries && !is_over (worker) && candidate->order->objective != G_MAXINT64; i++)
    {
      double cost = G_MAXDOUBLE, temperature = worker->unit_ns * 0.3 * (1 - (double)i / (double)n_tries);

      if (i > 0)
        draw_nudges (worker, nudge, &nudges);
      ps_search_worker_spend (worker, moves_per_order (worker));
      if (ps_greedy_build (order, &candidate->policy, nudge) && ps_order_evaluate (order) && order->excess == 0)
        {
          cost = (double)order->objective + 0.1 * (double)order->weight / problem->n_devices;
          offer_better (worker, order, "list scheduling with single ops nudged");
        }
      if (cost <= current + temperature * ps_random_exponential (&worker->runner->random))
        current = cost;
      else
        undo_nudges (nudge, &nudges);
    }
}

static guint64
moves_per_state (const PsProblem *problem)
{
  return MOVES_PER_STATE + problem->n_ops / OPS_PER_STATE_MOVE;
}

static gboolean
go_on_widening (gpointer data)
{
  PsSearchWorker *worker = data;

  return ps_search_worker_spend (worker, moves_per_state (worker->problem));
}

static void
widen (PsSearchWorker *worker)
{
  const PsProblem *problem = worker->problem;
  PsRandom *random = &worker->runner->random;
  PsBeam beam = { .width = worker->width,
                  .blend = ps_random_unit (random),
                  .noise = worker->unit_ns * 0.5 * ps_random_unit (random),
                  .random = *random,
                  .stop_at_ns = worker->best->objective,
                  .go_on = go_on_widening,
                  .data = worker };

  if (problem->joins || problem->n_slices > 1
      || moves_per_state (problem) * problem->n_ops * beam.width > BEAM_PART * worker->length)
    return;
  if (ps_beam_search (worker->scratch, &beam))
    ps_search_worker_offer (worker, worker->scratch, "beam search");
  *random = beam.random;
  worker->width = MIN (worker->width * 3 / 2, MAX_WIDTH);
}

static gboolean
spend (guint64 n_moves, gpointer data)
{
  return ps_search_worker_spend (data, n_moves);
}

static void
offer_block (const PsOrder *order, gpointer data)
{
  offer_better (data, order, "a repeated block");
}

static void
try_blocks (PsSearchWorker *worker, PsBlocks *blocks, guint64 n_moves)
{
  if (!ps_blocks_suit (worker->problem, blocks->have_slots))
    return;
  blocks->random = worker->runner->random;
  blocks->n_tries = n_moves / blocks->n_moves;
  ps_blocks_search (blocks, worker->scratch);
  worker->runner->random = blocks->random;
}

static void
init_blocks (PsSearchWorker *worker, PsBlocks *blocks, gboolean have_slots)
{
  *blocks = (PsBlocks){
    .have_slots = have_slots, .n_moves = moves_per_order (worker), .spend = spend, .offer = offer_block, .data = worker
  };
  if (ps_blocks_suit (worker->problem, have_slots))
    ps_blocks_init (blocks, worker->problem);
}

/* Puts a piece of the best order in place of its surroundings, which helps if many microbatches follow the same
 * pattern. */
static void
repeat_parts (PsSearchWorker *worker)
{
  PsRandom *random = &worker->runner->random;
  PsOrder *order = worker->scratch;
  guint m = worker->problem->m, q = worker->problem->n_slices, most = MIN (m / 4, MAX_PIECE) / q;

  for (guint i = 0; i < REPEATS_PER_ROUND && most > 0 && !is_over (worker); i++)
    {
      gint64 moment = (gint64)((double)worker->best->objective * ps_random_unit (random));
      guint piece = q * (1 + ps_random_below (random, most));
      guint n_times = 2 + ps_random_below (random, m / piece);

      ps_search_worker_spend (worker, moves_per_repeat (worker->problem));
      if (ps_order_repeat (order, worker->best, moment, piece, n_times) && ps_order_evaluate (order)
          && order->excess == 0)
        offer_better (worker, order, "repetition of a part");
    }
}

/* Sets the units of temperatures and prices: mean time of an op, and mean bytes that an F takes. */
static void
set_units (PsSearchWorker *worker)
{
  const PsProblem *problem = worker->problem;
  guint n = problem->n_stages * N_KINDS;

  worker->unit_ns = worker->unit_bytes = 1;
  for (guint chain = 0; chain < n; chain++)
    {
      worker->unit_ns += (double)problem->duration[chain] / n;
      worker->unit_bytes += (double)problem->take[chain] / problem->n_stages;
    }
}

static void
offer_part (const PsOrder *order, gpointer data)
{
  offer_better (data, order, "local search");
}

/* Local search from an order (NULL: from a fresh list schedule), with a random temperature, pull and price. */
static void
improve (PsSearchWorker *worker, const PsOrder *from)
{
  static const double pulls[] = { 0.1, 0.5, 0.5 };
  PsRandom *random = &worker->runner->random;
  PsOrder *order = worker->scratch;
  double heat = ps_random_unit (random),
         price = worker->unit_ns / worker->unit_bytes * 0.1 * (1 + 4 * ps_random_unit (random));
  PsAnnealing annealing = { .hot = worker->unit_ns * (0.1 + 0.25 * heat),
                            .cold = worker->unit_ns * 0.02,
                            .price = ps_random_below (random, 4) == 0 ? price : -1,
                            .pull = pulls[ps_random_below (random, G_N_ELEMENTS (pulls))],
                            .n_moves = worker->length,
                            .stop_at_ns = worker->lower_bound_ns,
                            .go_on = go_on,
                            .offer = offer_part,
                            .data = worker };
  PsPolicy policy;

  if (from != NULL && from->objective != G_MAXINT64)
    ps_order_assign (order, from);
  else
    {
      ps_policy_draw (&policy, worker->problem, random);
      if (!ps_greedy_build (order, &policy, NULL) || !ps_order_evaluate (order) || order->excess > 0)
        return;
    }
  annealing.random = *random;
  ps_anneal (order, &annealing);
  *random = annealing.random;
  if (!is_over (worker))
    ps_search_worker_offer (worker, order, "local search");
}

/* Every round takes at least one move, so that rounds end even if no method has anything to do. */
void
ps_search_worker_round (PsSearchWorker *worker)
{
  ps_search_worker_spend (worker, 1);
  try_blocks (worker, &worker->cells, worker->length / BLOCK_PART);
  try_policies (worker);
  widen (worker);
  improve (worker, worker->best);
  nudge_ops (worker, ps_search_worker_draw (worker), worker->length / moves_per_order (worker) / 2);
  try_blocks (worker, &worker->slots, BLOCKS_PER_SEARCH * worker->length);
  improve (worker, ps_search_worker_draw (worker)->order);
  for (guint i = 0; i < FRESH_STARTS; i++)
    improve (worker, NULL);
  repeat_parts (worker);
  worker->length = MIN (worker->length * 3 / 2, MAX_LENGTH);
}

void
ps_search_worker_init (PsSearchWorker *worker, PsRunner *runner, const PsStart *start)
{
  const PsProblem *problem = start->problem;

  *worker = (PsSearchWorker){ .runner = runner, .problem = problem };
  if (problem == NULL)
    return;
  worker->best = ps_order_new (problem);
  worker->scratch = ps_order_new (problem);
  worker->lower_bound_ns = start->lower_bound_ns;
  worker->length
      = MAX (CLAMP (LENGTH_PER_OP * problem->n_ops, MIN_LENGTH, SMALL_LENGTH), LARGE_LENGTH_PER_OP * problem->n_ops);
  worker->width = MIN_WIDTH;
  init_blocks (worker, &worker->cells, FALSE);
  init_blocks (worker, &worker->slots, TRUE);
  ps_order_assign (worker->best, start->order);
  for (guint i = 0; i < POOL_SIZE; i++)
    {
      worker->pool[i].order = ps_order_new (problem);
      worker->pool[i].order->objective = G_MAXINT64;
    }
  set_units (worker);
}

void
ps_search_worker_clear (PsSearchWorker *worker)
{
  for (guint i = 0; i < POOL_SIZE; i++)
    ps_order_free (worker->pool[i].order);
  ps_order_free (worker->best);
  ps_order_free (worker->scratch);
  ps_blocks_clear (&worker->cells);
  ps_blocks_clear (&worker->slots);
}

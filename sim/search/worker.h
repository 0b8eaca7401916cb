/* worker.h - one thread's work on one problem: list scheduling under many policies, beams, repeated blocks, and local
 * search from the best orders, in rounds that grow longer. */
#pragma once

#include "blocks.h"
#include "greedy.h"

#define POOL_SIZE 8

/* Making a list schedule counts as n_ops / OPS_PER_MOVE moves, repeating another as n_ops / OPS_PER_REPEAT_MOVE. */
#define OPS_PER_MOVE 4
#define OPS_PER_REPEAT_MOVE 16

typedef struct PsRunner PsRunner;

/* A problem and where to start. */
typedef struct
{
  PsProblem *problem; /* NULL: none */
  PsOrder *order;     /* an evaluated solution */
  gint64 lower_bound_ns;
} PsStart;

/* A list schedule and the policy that made it. */
typedef struct
{
  PsOrder *order; /* objective G_MAXINT64: none yet */
  PsPolicy policy;
} PsCandidate;

typedef struct
{
  PsRunner *runner;
  const PsProblem *problem;
  PsOrder *best;
  PsOrder *scratch;
  gint64 lower_bound_ns;       /* on the objective */
  PsCandidate pool[POOL_SIZE]; /* good list schedules */
  guint64 n_moves;
  guint64 n_policy_moves; /* of these, for list scheduling */
  guint64 n_policies;     /* tried */
  guint64 length;         /* of the next local search, moves */
  guint width;            /* of the next beam */
  PsBlocks cells;         /* where ps_blocks_suit */
  PsBlocks slots;
  double unit_ns;    /* mean duration of an op */
  double unit_bytes; /* mean of what an F takes */
} PsSearchWorker;

/* A start without a problem makes a worker without one, which must not be given work. */
void ps_search_worker_init (PsSearchWorker *worker, PsRunner *runner, const PsStart *start);
void ps_search_worker_clear (PsSearchWorker *worker);

static inline guint64
moves_per_repeat (const PsProblem *problem)
{
  return problem->n_ops / OPS_PER_REPEAT_MOVE + 1;
}

/* One round of all methods in turn. */
void ps_search_worker_round (PsSearchWorker *worker);

/* List scheduling under one policy. */
void ps_search_worker_try_policy (PsSearchWorker *worker, const PsPolicy *policy);

/* A good list schedule, drawn at random; better ones are likelier. */
const PsCandidate *ps_search_worker_draw (PsSearchWorker *worker);

/* Offers a solution that may be the best. */
void ps_search_worker_offer (PsSearchWorker *worker, const PsOrder *order, const char *found_by);

/* Adds to the moves. FALSE: the runner has to stop. */
gboolean ps_search_worker_spend (PsSearchWorker *worker, guint64 n_moves);

/* worker.h - one thread's work on one problem: list scheduling under many policies, beams, and local search from the
 * best of them, in rounds that grow longer. */
#ifndef PS_SEARCH_WORKER_H
#define PS_SEARCH_WORKER_H

#include "greedy.h"

G_BEGIN_DECLS

#define POOL_SIZE 8

/* A list schedule costs about as much as this part of its ops in moves, one that repeats another less. */
#define OPS_PER_MOVE 4
#define OPS_PER_REPEAT_MOVE 16

typedef struct Runner Runner;

/* A problem and where to start. */
typedef struct
{
  Problem *problem; /* NULL: none */
  Order *order;     /* an evaluated solution */
  gint64 lower_bound_ns;
} Start;

/* A list schedule and the policy that made it. */
typedef struct
{
  Order *order; /* its objective is G_MAXINT64 where there is none yet */
  Policy policy;
} Candidate;

typedef struct
{
  Runner *runner;
  const Problem *problem;
  Order *best;
  Order *scratch;
  gint64 lower_bound_ns;     /* on the objective */
  Candidate pool[POOL_SIZE]; /* good list schedules */
  guint64 n_moves;
  guint64 n_policy_moves; /* of these, for list scheduling */
  guint64 n_policies;     /* tried */
  guint64 length;         /* of the next local search, moves */
  guint width;            /* of the next beam */
  double unit_ns;         /* mean duration of an op */
  double unit_bytes;      /* mean of what an F takes */
} Worker;

/* A start without a problem makes a worker without one, which is never to work. */
void worker_init (Worker *worker, Runner *runner, const Start *start);
void worker_clear (Worker *worker);

static inline guint64
moves_per_repeat (const Problem *problem)
{
  return problem->n_ops / OPS_PER_REPEAT_MOVE + 1;
}

/* One round of all methods in turn. */
void worker_round (Worker *worker);

/* List scheduling under one policy. */
void worker_try_policy (Worker *worker, const Policy *policy);

/* A good list schedule, by chance the better the likelier. */
const Candidate *worker_draw (Worker *worker);

/* A solution that may be the best. */
void worker_offer (Worker *worker, const Order *order, const char *found_by);

/* Adds to the moves; FALSE: the runner has to stop. */
gboolean worker_spend (Worker *worker, guint64 n_moves);

/* Prices a solution with all microbatches. */
void runner_price (Runner *runner, const Order *order, const char *found_by);

/* Whether the runner has to stop. */
gboolean runner_is_over (Runner *runner);

G_END_DECLS

#endif

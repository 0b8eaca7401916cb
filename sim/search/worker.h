/* worker.h - one thread's search: list scheduling under many policies, then local search from the best of them. */
#ifndef PS_SEARCH_WORKER_H
#define PS_SEARCH_WORKER_H

#include "greedy.h"

G_BEGIN_DECLS

#define POOL_SIZE 8

/* A list schedule and the policy that made it. */
typedef struct
{
  Order *order; /* its objective is G_MAXINT64 where there is none yet */
  Policy policy;
} Candidate;

/* What all threads of a search share. */
typedef struct
{
  const Problem *problem;
  const PsSearchSetting *setting;
  const Order *seed; /* the best published schedule; NULL: none fits */
  const char *seed_name;
  const Policy *policies; /* that were good for a similar problem */
  guint n_policies;
  gint64 lower_bound_ns;
  gint64 start_ns; /* monotonic */
  gint done_below; /* atomic: smallest index of a worker whose best is optimal */
  gint64 best_ns;  /* under lock, for progress only */
  guint64 n_moves; /* under lock */
  guint n_running; /* under lock */
  GMutex lock;
  GCond changed;
} Shared;

typedef struct
{
  Shared *shared;
  guint index;
  Random random;
  Order *best;
  Candidate pool[POOL_SIZE]; /* good list schedules */
  const char *found_by;
  gboolean proved; /* best is optimal */
  guint64 n_moves;
  guint64 n_reported;
  double unit_ns;    /* mean duration of an op */
  double unit_bytes; /* mean of what an F takes */
  guint width;       /* of the beam under way */
} Worker;

void worker_init (Worker *worker, Shared *shared, guint index);
void worker_clear (Worker *worker);

/* Thread function; data is a Worker. */
gpointer worker_run (gpointer data);

G_END_DECLS

#endif

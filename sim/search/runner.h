/* runner.h - one thread's search: it works on the problem, an easier one and one with slower transfers in turn, and
 * keeps the schedule of the lowest price.
 *
 * A runner knows its budget only as the moment to stop, so that one with more budget does the same and then goes on.
 * The step that it has to break off does not count. */
#ifndef PS_SEARCH_RUNNER_H
#define PS_SEARCH_RUNNER_H

#include "random.h"
#include "worker.h"

G_BEGIN_DECLS

/* A schedule and what it is worth. */
typedef struct
{
  PsSchedule *schedule; /* NULL: none */
  gint64 price_ns;      /* G_MAXINT64: it is none to return */
  const char *found_by;
} Priced;

/* What all threads of a search share. */
typedef struct
{
  const PsSearchSetting *setting;
  Start start;
  Start easier;    /* fewer microbatches, or the makespan in place of spans */
  Start slower;    /* slower transfers */
  Priced seed;     /* the best of all starts */
  gint64 begin_ns; /* monotonic */
  gint64 told_ns;  /* when progress was told last; of the first runner */
  gint done_below; /* atomic: smallest index of a runner whose best is optimal */
  gint64 best_ns;  /* under lock, for progress only */
  guint64 n_moves; /* under lock */
  GMutex lock;
} Shared;

struct Runner
{
  Shared *shared;
  guint index;
  Random random;
  Worker worker;
  Worker easier;
  Worker slower;
  Priced best;
  gint64 objective; /* of the order priced last, */
  gint64 weight;    /* and its weight */
  guint64 n_moves;
  guint64 n_reported;
  guint64 decide_at; /* moves after which branch and bound is tried; G_MAXUINT64: it is not */
};

void runner_init (Runner *runner, Shared *shared, guint index);
void runner_clear (Runner *runner);

/* Thread function; data is a Runner. The first runner tells progress. */
gpointer runner_run (gpointer data);

/* Prices a schedule, which is taken over, and keeps it where it is the first or better. */
void priced_take (Priced *best, const PsSearchSetting *setting, PsSchedule *schedule, const char *found_by);

G_END_DECLS

#endif

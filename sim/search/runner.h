/* runner.h - one thread's search. It works in turn on the problem, an easier one, and one with slower transfers, and
 * keeps the schedule of the lowest price.
 *
 * A runner uses its budget only to decide when to stop. So with more budget it does the same first, and then goes on. A
 * step that it breaks off does not count. */
#pragma once

#include "random.h"
#include "windows.h"
#include "worker.h"

/* A schedule and its price. */
typedef struct
{
  PsSchedule *schedule; /* NULL: none */
  gint64 price_ns;      /* G_MAXINT64: it is not to be returned */
  const char *found_by;
} PsPriced;

/* Data that all threads of a search share. */
typedef struct
{
  const PsSearchSetting *setting;
  PsStart start;
  PsStart easier;  /* fewer microbatches, or the makespan in place of spans */
  PsStart slower;  /* with slower transfers */
  PsPriced seed;   /* the best of all starts */
  gint64 begin_ns; /* monotonic */
  gint64 told_ns;  /* when the first runner last told progress */
  gint done_below; /* atomic: smallest index of a runner whose best is optimal */
  gint64 best_ns;  /* under lock, for progress only */
  guint64 n_moves; /* under lock */
  GMutex lock;
} PsSearchShared;

struct PsRunner
{
  PsSearchShared *shared;
  guint index;
  PsRandom random;
  PsSearchWorker worker;
  PsSearchWorker easier;
  PsSearchWorker slower;
  PsPriced best;
  gint64 objective; /* of the order priced last */
  gint64 weight;    /* of the same order */
  gint64 price_ns;  /* of the same order */
  guint64 n_moves;
  guint64 n_reported;
  guint64 decide_at;  /* moves after which branch and bound is tried; G_MAXUINT64: never */
  guint64 narrow_at;  /* moves after which windows are narrowed; G_MAXUINT64: never */
  PsWindows *windows; /* NULL: not yet */
  guint max_fails;    /* of the next descent */
  gboolean windows_help;
  guint n_cases; /* of the next target of windows */
};

void ps_runner_init (PsRunner *runner, PsSearchShared *shared, guint index);
void ps_runner_clear (PsRunner *runner);

/* Thread function; data is a PsRunner. The first runner tells progress. */
gpointer ps_runner_run (gpointer data);

/* Prices a solution, written as a schedule, and keeps the best. Returns the price; that of the solution priced last, if
 * both seem equal. */
gint64 ps_runner_price (PsRunner *runner, const PsOrder *order, const char *found_by);

/* No price is lower. */
gint64 ps_runner_bound (const PsRunner *runner);

/* Whether the runner has to stop. */
gboolean ps_runner_is_over (PsRunner *runner);

/* Adds the runner's moves and best price to those of the search. */
void ps_runner_report (PsRunner *runner);

/* Reports. If the runner's best is optimal, all runners with a higher index may stop. */
void ps_runner_mark_done (PsRunner *runner);

/* Prices a schedule, takes it over, and keeps it if it is the first or better. Returns its price. */
gint64 ps_priced_take (PsPriced *best, const PsSearchSetting *setting, PsSchedule *schedule, const char *found_by);

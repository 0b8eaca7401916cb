/* search.h - better schedules than the published ones, for given costs, placement and memory limit, with a proof of how
 * far from optimal they can be at most.
 *
 * A schedule with split backwards is, per device, an interleaving of the chains F0 F1 .., B0 B1 .., W0 W1 .. of its
 * stages. Microbatches are alike, so some optimal schedule keeps them in order. The search starts from the published
 * families and from list scheduling under many priority rules, and improves the best by moving single ops. Long
 * schedules on a V, and those of many ops, also repeat a block of ops of one or a few microbatches. The longest paths
 * to and from each op evaluate a move, so that it costs no more than it changes. Other changes join a B and its W to
 * BW, and an F with them to a pair, and split them again. They count where BW or a pair costs less than its parts, or
 * where memory is short and BW takes less. Problems without them are also searched depth first, by the windows of time
 * in which each op can run, which raises the bound and decides small problems. Two weight copies are two pipelines on
 * the same devices, each with half of the microbatches.
 */
#ifndef PIPESIM_SEARCH_H
#define PIPESIM_SEARCH_H

#include <pipesim/bound.h>
#include <pipesim/simulate.h>
#include <pipesim/schedule.h>

G_BEGIN_DECLS

/* The state of a search. */
typedef struct {
  gint64 best_ns;        /* price of the best schedule so far */
  gint64 lower_bound_ns; /* proven for every schedule of the problem */
  guint64 n_moves;       /* tried so far, all threads */
  gint64 elapsed_ns;
} PsSearchProgress;

typedef struct {
  const PsPlacement *placement; /* any */
  guint n_microbatches;         /* even where there are two weight copies */
  guint n_slices;               /* equal sequence slices of each; 0: 1. They go forward in order and back in reverse */
  const PsCosts *costs;         /* costs of whole microbatches; lack no host time (ps_costs_add_host_time) */
  const gint64 *memory_limit;   /* [n_devices] bytes, weights included; NULL: none */
  PsObjective objective;
  /* The time that really counts, such as the time under shared channels. Never below lower_bound_ns; G_MAXINT64: the
   * schedule does not fit. The search returns the schedule of the lowest price among the published ones and the results
   * of each method; where prices differ from the objective, the best is then improved by price. Called from all
   * threads. NULL: the objective. */
  gint64 (*price) (const PsSchedule *schedule, gpointer data);
  /* Generates a family that looks at costs as suits the price: with room for buffers, for example. NULL with
   * error where it has no schedule. NULL hook: ps_family_generate. */
  PsSchedule *(*generate) (const PsFamily *family, gpointer data, GError **error);
  gpointer price_data;     /* for both */
  gboolean price_is_free;  /* prices may be below lower_bound_ns, so none ends the search or is proved optimal */
  gint64 price_bound_ns;   /* no price is lower, as the caller knows; 0: unknown */
  const PsSchedule *start; /* the search begins with the best of this one and the published ones; NULL: these alone */
  guint64 seed;
  /* A larger limit continues where a smaller one has stopped, and is never worse. */
  gint64 time_limit_ns; /* 0: none; with one, the result depends on the machine's speed */
  guint64 move_limit;   /* per thread; 0: none. One of both limits must be given */
  const gint *stop;     /* atomic: the search ends as soon as it is not 0; NULL: never */
  guint n_threads;      /* >= 1, the calling one too. The result depends on this number, and not on timing where only
                           move_limit is given */
  void (*progress) (const PsSearchProgress *progress, gpointer data); /* from the calling thread; NULL: none */
  gpointer progress_data;
} PsSearchSetting;

typedef struct {
  PsSchedule *schedule; /* named "search"; valid, within the limit */
  gint64 makespan_ns;
  gint64 max_span_ns;
  gint64 price_ns;
  gint64 lower_bound_ns;   /* on the objective, and so on the price; price_bound_ns if that is higher */
  gboolean proved_optimal; /* no schedule has a lower price */
  guint64 n_moves;
  const char *found_by; /* a family's name, "list scheduling", "local search", ... */
} PsSearchResult;

/* Searches. The result never has a higher price than a family of that placement within that limit (families with other
 * numbers of slices or without a flush do not count), however short the limits. Errors: PS_ERROR_USAGE (an odd number
 * of microbatches for two copies), PS_ERROR_SCHEDULE "infeasible: device 2 needs at least X" when a limit is below
 * ps_search_least_memory, and G_THREAD_ERROR. Free with ps_search_result_free. */
PsSearchResult *ps_search (const PsSearchSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_search_result_free (PsSearchResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSearchResult, ps_search_result_free)

/* A lower bound on the objective, the one that a search begins with; threads, limits of time and moves, prices and a
 * schedule to start from do not count. G_MAXINT64: infeasible. */
gint64 ps_search_bound (const PsSearchSetting *setting);

/* The smallest memory with which a device can take part: its weights and one microbatch, of n_slices slices with these
 * costs, in every one of its stages. Backwards follow at once, fused where that takes less; of two copies, one runs
 * after the other. Every larger limit is feasible. */
gint64 ps_search_least_memory (const PsPlacement *placement, const PsCosts *costs, guint n_slices, guint device);

G_END_DECLS

#endif

/* search.h - schedules that are better than the published ones, for given costs, placement and memory limit, with a
 * proof of how far from optimal they can be.
 *
 * Microbatches are alike, so some optimal schedule keeps them in order. A schedule with split backwards then
 * interleaves, on each device, the chains F0 F1 .., B0 B1 .., W0 W1 .. of its stages. The search starts from the
 * published families and from list scheduling under many priority rules. It improves the best order by moving single
 * ops. Heads and tails (longest paths to and from an op) make the work of a move proportional to what it changes.
 *
 * BW or pairs may cost less than their parts, and BW may take less memory where that is short. Then other moves join a
 * B and its W to BW, join an F with them to a pair, and split them again. Small problems without such joins are decided
 * by branch and bound. Two weight copies are two pipelines on the same devices, each with half of the microbatches.
 */
#ifndef PIPESIM_SEARCH_H
#define PIPESIM_SEARCH_H

#include <pipesim/bound.h>
#include <pipesim/families.h>

G_BEGIN_DECLS

/* The progress of a search. */
typedef struct
{
  gint64 best_ns;        /* price of the best schedule so far */
  gint64 lower_bound_ns; /* proven for every schedule of the problem */
  guint64 n_moves;       /* tried so far, all threads */
  gint64 elapsed_ns;
} PsSearchProgress;

typedef struct
{
  const PsPlacement *placement; /* any */
  guint n_microbatches;         /* even if there are two weight copies */
  const PsCosts *costs;
  const gint64 *memory_limit; /* [n_devices] bytes, weights included; NULL: none */
  PsObjective objective;
  /* The time that counts, for example with shared channels. The schedule of the lowest price is returned, among the
   * published ones and all that any method ends with. Never below lower_bound_ns; G_MAXINT64: it does not fit. Called
   * from all threads. NULL: the objective. */
  gint64 (*price) (const PsSchedule *schedule, gpointer data);
  /* Generates a schedule of a family that looks at costs, in the way that suits the price: with room for buffers, for
   * example. NULL with error: it has no schedule. NULL hook: ps_family_generate. */
  PsSchedule *(*generate) (const PsFamily *family, gpointer data, GError **error);
  gpointer price_data;   /* for both */
  guint transfer_factor; /* part of the search lengthens transfers by this factor, to leave room for queueing; 0 or 1:
                            no part does */
  guint64 seed;
  /* A search with a larger limit continues one with a smaller limit, and is never worse. */
  gint64 time_limit_ns; /* 0: none; with one, the result depends on the machine's speed */
  guint64 move_limit;   /* per thread; 0: none. At least one of both limits must be given */
  const gint *stop;     /* atomic: the search ends as soon as it is not 0; NULL: never */
  guint n_threads; /* >= 1, the calling one included; with move_limit alone the result depends on this, not on timing */
  void (*progress) (const PsSearchProgress *progress, gpointer data); /* from the calling thread; NULL: none */
  gpointer progress_data;
} PsSearchSetting;

typedef struct
{
  PsSchedule *schedule; /* named "search"; valid, within the limit */
  gint64 makespan_ns;
  gint64 max_span_ns;
  gint64 price_ns;
  gint64 lower_bound_ns;   /* on the objective */
  gboolean proved_optimal; /* TRUE: no schedule has a lower price */
  guint64 n_moves;
  const char *found_by; /* a family's name, "list scheduling", "local search", ... */
} PsSearchResult;

/* Searches. However short the limits, the price is never above that of a family with this placement within the memory
 * limit (families with slices or without a flush are not counted). Errors: PS_ERROR_USAGE (an odd number of
 * microbatches for two copies), PS_ERROR_SCHEDULE "infeasible: device 2 needs at least X" if a limit is below
 * ps_search_least_memory, and G_THREAD_ERROR. Free with ps_search_result_free. */
PsSearchResult *ps_search (const PsSearchSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_search_result_free (PsSearchResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSearchResult, ps_search_result_free)

/* The smallest memory with which a device can take part: its weights and one microbatch in each of its stages (of each
 * copy), each backward as soon as possible, fused where that takes less. Every limit from there on is feasible. */
gint64 ps_search_least_memory (const PsPlacement *placement, const PsCosts *costs, guint device);

G_END_DECLS

#endif

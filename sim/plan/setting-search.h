/* setting-search.h - searches under a setting: what is tried, what a schedule's price is, the joint search of
 * schedule, cut of the model, recomputation and offload, and all choices of a search (search-all.c). */
#pragma once

#include <pipesim/answer.h>
#include <pipesim/search.h>
#include <pipesim/setting.h>

/* Prices: the least iteration time under the setting, just as predict has it. */

/* Figures of the iteration time that a search makes small. */
typedef enum {
  PS_SEARCH_TIME, /* at the costs as they are */
  PS_SEARCH_MEAN, /* over samples of the costs */
  PS_SEARCH_P90,  /* what 9 of 10 samples do not exceed */
} PsSearchObjective;

const char *ps_search_objective_name (PsSearchObjective objective); /* "time", "mean", "p90" */
gboolean ps_search_objective_parse (const char *where, const char *text, PsSearchObjective *objective, GError **error);

/* The samples that mean and p90 are of. All schedules have the same luck in the same sample. */
typedef struct {
  PsSearchObjective objective;
  PsUncertainty uncertainty;
  guint n_samples;
  guint64 seed;
} PsSearchSamples;

typedef struct {
  const PsSetting *setting;
  const PsCosts *given;           /* what ps_setting_costs has for it */
  const PsCosts *recomputed;      /* what ps_setting_recomputed has; NULL: it is made for each schedule with an R */
  const PsSearchSamples *samples; /* of no concern where the objective is PS_SEARCH_TIME; NULL: that one */
  gint64 plan_until_us;           /* monotonic: sends and receives are planned up to then; 0: for ever */
} PsSearchPricing;

/* The better of the orders of sends and receives that the setting allows. Free with ps_prediction_free. */
PsPrediction *ps_search_predict (const PsSearchPricing *pricing, const PsSchedule *schedule, PsCommOrder *comm_order,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The iteration time less the optimizer step that every schedule of the placement has: what the lower bound of a search
 * is below. */
gint64 ps_search_time (const PsSetting *setting, const PsPrediction *prediction);

/* Whether microbatches or measured slices differ, so that bounds of what they cost on average do not hold. */
gboolean ps_search_has_lengths (const PsSearchPricing *pricing);

/* A bound that no price is below, as far as channels say; for PsSearchSetting.price_bound_ns. The costs are those of
 * the fastest device. */
gint64 ps_search_price_bound (const PsSearchPricing *pricing, const PsPlacement *placement, const PsCosts *costs);

/* For PsSearchSetting.price and .generate; data is a PsSearchPricing. */
gint64 ps_search_price (const PsSchedule *schedule, gpointer data);
PsSchedule *ps_search_generate (const PsFamily *family, gpointer data, GError **error);

/* Choices: what pipesim search tries, one after the other. */

/* "V v=2 b=4 recompute=full", the placement and cuts of a choice. Free with g_free. */
char *ps_search_choice_describe (const PsSetting *choice);

/* Array of PsSetting, at least one, with the placement to search: all that the setting leaves open, with up to
 * most_chunks stages per device, 2 at least, and a single stage with up to most_slices slices. has_placement stays what
 * was asked for. Microbatches hold `size` sequences (0: as many as the model says), or every power of two that divides
 * the batch (any_size). They share what the setting points to, and are never cleared. Errors: PS_ERROR_USAGE where
 * nothing is left to try, and those of reading the model. */
GArray *ps_search_choices (const PsSetting *setting, guint size, gboolean any_size, guint most_chunks,
                           guint most_slices, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* One choice: searched, then predicted. */

typedef struct {
  gint64 time_limit_ns; /* 0: none */
  gint64 moves;         /* per thread; 0: not limited */
  gint64 seed;
  const PsSchedule *start;      /* as in PsSearchSetting */
  const PsPlacement *placement; /* of the given costs; NULL: the choice's */
  guint n_threads;
  const gint *stop;               /* as in PsSearchSetting */
  const PsSearchSamples *samples; /* as in PsSearchPricing */
  gboolean measured;              /* their jitter is that of the samples in the database */
} PsSearchLimits;

typedef struct {
  PsSearchResult *result;   /* its price is that of the prediction */
  PsPrediction *prediction; /* of its schedule */
  PsCommOrder comm_order;   /* that the prediction has */
  gint64 figure_ns;         /* of the objective */
} PsSearchFound;

void ps_search_found_clear (PsSearchFound *found);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsSearchFound, ps_search_found_clear)

/* Searches with a choice. given: costs for as many stages as it has.
 * Shows progress on a terminal. Errors: those of ps_search and predictions, and PS_ERROR_SCHEDULE where messages leave
 * too little memory. */
gboolean ps_search_try (const PsSetting *setting, const PsSearchLimits *limits, const PsCosts *given,
                        PsSearchFound *found, GError **error);

/* Predicts the schedule of found->result, and sets all but a bound. FALSE: there is no prediction, or it does not fit.
 */
gboolean ps_search_take (const PsSearchPricing *pricing, PsSearchFound *found, GError **error);

/* Goes on from a schedule of the setting, a choice, that its costs have given. Stages change what they recompute, of
 * all or of some microbatches, and offload, and layers move to a neighbour. Without --placement stages change places
 * with each other, and with any_chunks they also move to other devices alone. Each change is searched for a while and
 * kept if the objective's figure is lower. FALSE: nothing better was found. *found is the best, with a lower bound for
 * its stages on its devices, whatever they recompute and offload; the setting says then what each of them does. */
gboolean ps_search_joint (PsSetting *setting, gboolean any_chunks, const PsSearchLimits *limits,
                          const PsSearchFound *from, PsSearchFound *found);

/* All choices of a search, one after the other, and then the best of them jointly. */

#define PS_SEARCH_MOST_COPIES 2

/* What was found with a choice. */
typedef struct {
  PsSearchFound found; /* no result: nothing yet */
  PsSetting setting;   /* the choice; of what it points to, only what each stage does is its own */
} PsSearchBest;

typedef struct {
  const GArray *choices;                                  /* PsSetting */
  PsSearchLimits limits;                                  /* for all of them */
  gboolean joint;                                         /* half of the time is for ps_search_joint */
  gboolean any_chunks;                                    /* as there */
  void (*note) (const PsSearchBest *made, gpointer data); /* called with each result */
  gpointer data;
  GString *skipped;                         /* choices that cannot be, with the reasons */
  PsSearchBest best[PS_SEARCH_MOST_COPIES]; /* of the lowest figure, by weight copies less 1 */
} PsSearchAll;

/* Tries all choices; time that one leaves goes to those after it. An open layout is the best or the even one. joint:
 * goes on from the best of one copy, whose stages may change places, and from that of two. Errors: the first choice's,
 * where none can be. Clear *all in any case. */
gboolean ps_search_all (PsSearchAll *all, GError **error);
void ps_search_all_clear (PsSearchAll *all);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsSearchAll, ps_search_all_clear)

/* The better of the best ones; without a result where there is none. */
const PsSearchBest *ps_search_all_best (const PsSearchAll *all);

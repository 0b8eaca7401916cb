/* search-price.h - what a search looks for: the least iteration time under the setting, just as predict would tell. */
#pragma once

#include <pipesim/setting.h>
#include <pipesim/search.h>
#include <pipesim/answer.h>

/* Figures of the iteration time that a search makes small. */
typedef enum
{
  SEARCH_TIME, /* at the costs as they are */
  SEARCH_MEAN, /* over samples of the costs */
  SEARCH_P90,  /* what 9 of 10 samples do not exceed */
} SearchObjective;

const char *search_objective_name (SearchObjective objective); /* "time", "mean", "p90" */
gboolean search_objective_parse (const char *where, const char *text, SearchObjective *objective, GError **error);

/* The samples that mean and p90 are of. All schedules have the same luck in the same sample. */
typedef struct
{
  SearchObjective objective;
  PsUncertainty uncertainty;
  guint n_samples;
  guint64 seed;
} SearchSamples;

typedef struct
{
  const PsSetting *setting;
  const PsCosts *given;         /* what ps_setting_costs has for it */
  const PsCosts *recomputed;    /* what ps_setting_recomputed has; NULL: it is made for each schedule with an R */
  const SearchSamples *samples; /* of no concern where the objective is SEARCH_TIME; NULL: that one */
  gint64 plan_until_us;         /* monotonic: sends and receives are planned up to then; 0: for ever */
} SearchPricing;

/* The better of the orders of sends and receives that the setting allows. Free with ps_prediction_free. */
PsPrediction *search_predict (const SearchPricing *pricing, const PsSchedule *schedule, PsCommOrder *comm_order,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The iteration time less the optimizer step that every schedule of the placement has: what the lower bound of a search
 * is below. */
gint64 search_time (const PsSetting *setting, const PsPrediction *prediction);

/* The objective's figure of an iteration; G_MAXINT64 where the samples' times are too long to add up. */
gint64 search_figure (const SearchPricing *pricing, const PsPrediction *prediction);

/* Whether microbatches or measured slices differ, so that bounds of what they cost on average do not hold. */
gboolean search_has_lengths (const SearchPricing *pricing);

/* A bound that no price is below, as far as channels tell; for PsSearchSetting.price_bound_ns. The costs are those of
 * the fastest device. */
gint64 search_price_bound (const SearchPricing *pricing, const PsPlacement *placement, const PsCosts *costs);

/* For PsSearchSetting.price and .generate; data is a SearchPricing. */
gint64 search_price (const PsSchedule *schedule, gpointer data);
PsSchedule *search_generate (const PsFamily *family, gpointer data, GError **error);

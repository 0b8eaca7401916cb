/* search-try.h - one choice of a search: searched, then predicted. */
#pragma once

#include "search-choices.h"
#include "search-price.h"

#include <pipesim/setting.h>
#include <pipesim/search.h>

typedef struct
{
  gint64 time_limit_ns; /* 0: none */
  gint64 moves;         /* per thread; 0: not limited */
  gint64 seed;
  const PsSchedule *start;      /* as in PsSearchSetting */
  const PsPlacement *placement; /* of the given costs; NULL: the choice's */
  guint n_threads;
  const gint *stop;             /* as in PsSearchSetting */
  const SearchSamples *samples; /* as in SearchPricing */
  gboolean measured;            /* their jitter is that of the samples in the database */
} SearchLimits;

typedef struct
{
  PsSearchResult *result;   /* its price is that of the prediction */
  PsPrediction *prediction; /* of its schedule */
  PsCommOrder comm_order;   /* that the prediction has */
  gint64 figure_ns;         /* of the objective */
} SearchFound;

void search_found_clear (SearchFound *found);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SearchFound, search_found_clear)

/* Searches with the setting, which takes over what the choice says. given: costs for as many stages as the choice has;
 * NULL: the setting's. Shows progress on a terminal. Errors: those of ps_setting_costs, ps_search and predictions, and
 * PS_ERROR_SCHEDULE where messages leave too little memory. */
gboolean search_try (PsSetting *setting, const SearchChoice *choice, const SearchLimits *limits, const PsCosts *given,
                     SearchFound *found, GError **error);

/* The schedule that was found without its R, on the devices of a placement of as many copies. Where it has an R or the
 * devices are others, they run their ops, without pairs, in the order in which they have ended. Free with
 * ps_schedule_free. */
PsSchedule *search_carry_over (const SearchFound *found, const PsPlacement *placement) G_GNUC_WARN_UNUSED_RESULT;

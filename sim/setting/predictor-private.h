/* predictor-private.h - a predictor, and its costs. Private to libpipesim. */
#pragma once

#include "cache.h"
#include "setting-lengths.h"

#include <pipesim/setting.h>

struct _PsPredictor
{
  const PsSetting *setting;
  const PsCosts *given;
  const PsCosts *recomputed; /* the same of microbatches with an R; NULL: they are made for each schedule */
  PsKeyFunction key;         /* NULL: the setting stays as it is */
  gpointer data;
  gboolean even; /* in place of an open layout */
  PsMicrobatchOrder order;
  gboolean times_only; /* predictions find no memory of messages */
  PsCache *sized;      /* the costs of each size, by ps_predictor_costs */
};

/* Frees an entry of `sized`. */
void ps_sized_costs_free (gpointer sized);

/* Whether the setting leaves the layout of a model open. */
gboolean ps_predictor_is_layout_open (const PsPredictor *predictor);

/* Finds the costs of the schedule's slices, with host times, and checks them. lengths may be NULL. fastest: the least
 * that its ops take in any order (ps_setting_fastest_costs), NULL where that is the costs. */
PsCosts *ps_predictor_schedule_costs (PsPredictor *predictor, const PsSchedule *schedule, const PsLengths *lengths,
                                      PsCosts **fastest, GError **error);

/* The samples of a prediction's costs; the predictor owns them. */
const PsCostSpread *ps_predictor_spread (PsPredictor *predictor, const PsPrediction *prediction, GError **error);

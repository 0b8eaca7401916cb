/* doubt.h - how far errors of measured times move predictions, so that time for measuring goes where it helps most. */
#pragma once

#include "cut.h"

#include <pipesim/costdb.h>

/* Relative standard errors of predicted iteration times, from the errors of the medians of all ops, and from that of
 * the transfer. */
typedef struct {
  double ops;
  double transfers;
} PsDoubt;

/* Each family that runs on the cut, with twice as many microbatches as devices, is simulated once more for each
 * measured row, the row a little longer. This derivative times the row's error (PsCostSpread.deviation) is the row's
 * part. Parts are independent of each other. The result is the root of the mean square over the families. Errors: those
 * of ps_costdb_stage_costs. */
gboolean ps_doubt_find (PsDoubt *doubt, PsCostDb *db, const char *profile, const PsModel *model, const PsCut *cut,
                        GError **error);

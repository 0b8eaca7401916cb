/* search-recompute.h - which microbatches of a schedule recompute. */
#pragma once

#include "search-try.h"

/* Adds R ops to the schedule that was found, on stages where some[stage] is not 0: as few as keep it within the memory
 * limit, each right before its backward. given: the costs of its stages without R. The time limit of limits holds for
 * all predictions together. *found becomes the result; its lower bound is G_MAXINT64, as none is known. FALSE:
 * no choice of R ops fits. */
gboolean search_recompute (const PsSetting *setting, const SearchLimits *limits, const PsCosts *given,
                           const guint8 *some, SearchFound *found);

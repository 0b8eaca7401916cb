/* search-joint.h - schedule, cut of the model, recomputation and offload together. */
#pragma once

#include "search-try.h"

/* Goes on from a schedule of the choice that costs of the setting have given. Stages change what they recompute, of all
 * or of some microbatches, and offload, and layers move to a neighbour. Without --placement stages change places with
 * each other, and with any_chunks they also move to other devices alone. Each change is searched for a while and kept
 * if the objective's figure is lower. FALSE: nothing better was found. *found is the best, with a lower bound for
 * its stages on its devices, whatever they recompute and offload; the setting says then what each of them does. */
gboolean search_joint (PsSetting *setting, const SearchChoice *choice, gboolean any_chunks, const SearchLimits *limits,
                       const SearchFound *from, SearchFound *found);

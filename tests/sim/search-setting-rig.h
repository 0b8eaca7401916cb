/* search-setting-rig.h - searches under a setting, as the command makes them. */
#pragma once

#include <pipesim/search.h>

#include "plan/setting-search.h"
#include "setting-rig.h"

#define MOVES 2000

/* NULL: a limit that nothing keeps to. */
static inline PsSearchResult *
search (SearchPricing *pricing, const PsPlacement *placement, guint64 moves)
{
  const PsSetting *setting = pricing->setting;
  g_autofree gint64 *limit = NULL;

  g_assert_true (ps_setting_memory_limit (setting, placement->n_devices, &limit, NULL, NULL));
  PsSearchSetting search = { .placement = placement,
                             .n_microbatches = setting->n_microbatches,
                             .costs = pricing->given,
                             .memory_limit = limit,
                             .objective = setting->sync == PS_SYNC_BYPASS ? PS_OBJECTIVE_SPAN : PS_OBJECTIVE_MAKESPAN,
                             .price = search_price,
                             .generate = search_generate,
                             .price_data = pricing,
                             .price_is_free = pricing->samples != NULL,
                             .price_bound_ns = search_price_bound (pricing, placement, pricing->given),
                             .seed = 1,
                             .move_limit = moves,
                             .n_threads = 1 };

  return ps_search (&search, NULL);
}

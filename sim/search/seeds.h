/* seeds.h - the published schedules as starting points. */
#ifndef PS_SEARCH_SEEDS_H
#define PS_SEARCH_SEEDS_H

#include "order.h"

G_BEGIN_DECLS

/* The best order among the families that place their stages so and keep to the limit; NULL when none does. *name is the
 * family's. */
Order *best_family (const Problem *problem, const PsSearchSetting *setting, const char **name);

/* Fills the order: one microbatch (of each copy) after the other through all stages and back, fused where that takes
 * less memory. It fits wherever each device has ps_search_least_memory. */
void one_by_one (Order *order);

G_END_DECLS

#endif

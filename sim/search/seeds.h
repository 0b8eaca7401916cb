/* seeds.h - the published schedules as starting points. */
#ifndef PS_SEARCH_SEEDS_H
#define PS_SEARCH_SEEDS_H

#include "order.h"

G_BEGIN_DECLS

/* The best order among the families that place their stages so and keep to the limit; NULL when none does. *name is the
 * family's. */
Order *best_family (const Problem *problem, const PsSearchSetting *setting, const char **name);

G_END_DECLS

#endif

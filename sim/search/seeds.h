/* seeds.h - what a search starts from: the published schedules. */
#ifndef PS_SEARCH_SEEDS_H
#define PS_SEARCH_SEEDS_H

#include "runner.h"

G_BEGIN_DECLS

/* Fills the start of a problem with the best order among the families that place their stages so and keep to the limit,
 * and a plain one. Those of whole microbatches and with a flush are priced just as they are generated,
 * and the order too; priced NULL: nothing is priced. */
void ps_start_init (PsStart *start, const PsSearchSetting *setting, PsPriced *priced);
void ps_start_clear (PsStart *start);

/* Fills the order: one microbatch (of each copy) after the other through all stages and back, fused where that takes
 * less memory. It fits wherever each device has ps_search_least_memory. */
void ps_order_one_by_one (PsOrder *order);

G_END_DECLS

#endif

/* stretch.h - a long schedule from a short one: its steady middle is repeated. */
#ifndef PS_SEARCH_STRETCH_H
#define PS_SEARCH_STRETCH_H

#include "order.h"

G_BEGIN_DECLS

/* Makes `order` (of more microbatches than `from`, an evaluated solution of a problem that is otherwise the same) the
 * best of the orders that repeat the ops between a cut and the same cut some microbatches later. A cut is what has
 * started at some moment, so that every device repeats the same microbatches. FALSE when no such order is a solution;
 * order is evaluated otherwise. */
gboolean order_stretch (Order *order, const Order *from);

G_END_DECLS

#endif

/* stretch.h - a long schedule from a short one: its steady middle is repeated. */
#pragma once

#include "order.h"

/* The longest part that is repeated, in microbatches. */
#define MAX_PIECE 16

/* Makes `order` the best of the orders that repeat a part of `from`: the ops between a cut and the same cut some
 * microbatches later. `from` is an evaluated solution of the same problem with fewer microbatches. A cut is the set of
 * ops that have started at some moment, so every device repeats the same microbatches. go_on is called before each try.
 * FALSE: no such order is a solution, or go_on returned FALSE; else `order` is evaluated. */
gboolean ps_order_stretch (PsOrder *order, const PsOrder *from, gboolean (*go_on) (gpointer data), gpointer data);

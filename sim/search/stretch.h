/* stretch.h - a long schedule from a short one: its steady middle is repeated. */
#ifndef PS_SEARCH_STRETCH_H
#define PS_SEARCH_STRETCH_H

#include "order.h"

G_BEGIN_DECLS

/* The longest part that is repeated, in microbatches. */
#define MAX_PIECE 16

/* Makes `order` (of more microbatches than `from`, an evaluated solution of a problem that is otherwise the same) the
 * best of the orders that repeat the ops between a cut and the same cut some microbatches later. A cut is what has
 * started at some moment, so that every device repeats the same microbatches. FALSE when no such order is a solution,
 * or go_on, which is asked before each, said no; order is evaluated otherwise. */
gboolean ps_order_stretch (PsOrder *order, const PsOrder *from, gboolean (*go_on) (gpointer data), gpointer data);

/* Fills the sequence of `order` (of as many microbatches as `from` or more): the ops of `from` in front of what has
 * started at a moment, then `piece` microbatches of every chain n_times over, then the last ones of `from`, as many as
 * are missing. FALSE when `from` has not got so many. order is not evaluated. */
gboolean ps_order_repeat (PsOrder *order, const PsOrder *from, gint64 moment, guint piece, guint n_times);

G_END_DECLS

#endif

/* what-if-private.h - what the two ways of evaluating a saving share. Private to libpipesim. */
#ifndef PIPESIM_WHAT_IF_PRIVATE_H
#define PIPESIM_WHAT_IF_PRIVATE_H

#include <pipesim/explain.h>

/* The n_best of parts by the makespan [n parts] that each brings, best first, without change_point and least_ns. */
GArray *ps_what_if_rank (const GArray *parts, const gint64 *makespan_ns, gint64 base_ns, gint64 rest_ns, guint n_best);

/* Times of each step's op and transfer [n_steps] with a part (NULL: none) saving, in units of 1 / scale ns. */
void ps_what_if_times (const PsScenarioPlan *plan, const PsCosts *costs, const PsPart *part, double saving,
                       gint64 scale, gint64 *duration, gint64 *transfer);

#endif

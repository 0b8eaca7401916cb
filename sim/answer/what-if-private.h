/* what-if-private.h - parts shared by the ways of evaluating a saving. Private to libpipesim. */
#pragma once

#include <pipesim/answer.h>

/* Ranks parts by the makespan [n parts] that each leads to: the n_best, best first, without change_point and
 * least_ns. */
GArray *ps_what_if_rank (const GArray *parts, const gint64 *makespan_ns, gint64 base_ns, gint64 rest_ns, guint n_best);

/* Times of each step's op and transfer [n_steps] with a saving on `part` (NULL: none), in units of 1 / scale ns. */
void ps_what_if_times (const PsRecurrence *recurrence, const PsCosts *costs, const PsPart *part, double saving,
                       gint64 scale, gint64 *duration, gint64 *transfer);

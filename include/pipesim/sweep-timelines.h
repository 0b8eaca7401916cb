/* sweep-timelines.h - the timelines of the settings in a database of results. The database holds settings and their
 * figures, and no timelines; the settings say all that is needed to simulate them again. */
#ifndef PIPESIM_SWEEP_TIMELINES_H
#define PIPESIM_SWEEP_TIMELINES_H

#include <pipesim/questions.h>
#include <pipesim/sweep.h>

G_BEGIN_DECLS

/* The sweep of a database, read back from its own record. Files that the spec names are looked for where they were
 * then, seen from the current folder. Errors: PS_ERROR_INPUT "PATH: ..." when another version of pipesim made the
 * database, or when those files have changed (another digest); PS_ERROR_IO when they are gone. */
PsSweep *ps_sweep_from_results (PsResults *results, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The timelines (of PsTimeline, all simulated) of the fastest setting of each group, by the columns of `per`; `top` and
 * limits count for nothing. Each takes exactly the iteration time that the database says, else PS_ERROR_INPUT. When the
 * settings have more than max_ops ops together the rest is left out; *n_left is its number. Other errors: those of
 * ps_sweep_from_results, PS_ERROR_USAGE for unknown columns and values. */
GPtrArray *ps_results_timelines (PsResults *results, const PsQuestion *question, guint max_ops, guint *n_left,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif

/* memory-plot.h - the memory of every device over time. */
#pragma once

#include "gnuplot.h"

#include <pipesim/timeline.h>

/* Draws the memory curves of n = 1 or 2 timelines, the first above the second, on the same axes. limit_bytes 0: no
 * limit line. For a coarse timeline (timeline-plot.h) it draws the largest of every 2 pixels, and the caption says so.
 * Fails with PS_ERROR_INPUT if a timeline knows no memory. */
gboolean ps_memory_plot (const PsPicture *picture, PsTimeline *const *timelines, guint n, gint64 limit_bytes,
                         GError **error);

/* timeline-plot.h - one or two timelines as rows of boxes, one row per device, and their memory. */
#pragma once

#include "plots.h"

#include <pipesim/timeline.h>

/* Draws n = 1 or 2 timelines, the first above the second, on one time axis. Below each is the memory of its devices, if
 * known. picture->transfers adds a line for each transfer, from the sender's row at its start to the receiver's at its
 * end.
 *
 * The size of SVG grows with everything that is drawn, and the time for any picture does. A timeline of thousands of
 * ops in SVG, of ten times as many elsewhere, is therefore coarser where the difference cannot be seen, and its caption
 * says so. Ops below a pixel become columns in their mean colour. One of the transfers between two rows that begin
 * within 3 pixels is drawn. Memory shows the largest of every 2 pixels.
 *
 * A page has title, key and caption in its text and enlarges the picture: so this one has none of them, every op is
 * drawn, and every box has its number. */
gboolean ps_timeline_plot (const PsPicture *picture, PsTimeline *const *timelines, guint n, GError **error);

/* Places in the picture of a page, in pixels: the left end of the time axis, the right end, the upper edge of the first
 * row, and the height of a row. */
#define PS_TIMELINE_LEFT 74
#define PS_TIMELINE_RIGHT 1182
#define PS_TIMELINE_TOP 1
double ps_timeline_row_height (const PsTimeline *timeline);

/* The kinds of ops that occur, as bits. */
guint ps_timeline_kinds (const PsTimeline *timeline);

/* Draws the memory curves of n = 1 or 2 timelines, the first above the second, on the same axes. limit_bytes 0: no
 * limit line. For a coarse timeline it draws the largest of every 2 pixels, and the caption says so. Fails with
 * PS_ERROR_INPUT if a timeline knows no memory. */
gboolean ps_memory_plot (const PsPicture *picture, PsTimeline *const *timelines, guint n, gint64 limit_bytes,
                         GError **error);

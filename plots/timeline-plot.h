/* timeline-plot.h - one or two timelines as rows of boxes, one row per device. */
#pragma once

#include "gnuplot.h"

#include <pipesim/timeline.h>

/* Draws n = 1 or 2 timelines, the first above the second, on one time axis. Below each is the memory of its devices, if
 * known. picture->transfers adds a line for each transfer, from the sender's row at its start to the receiver's at its
 * end.
 *
 * The size of SVG grows with everything that is drawn, and the time for any picture does. A timeline of thousands of
 * ops in SVG, of ten times as many elsewhere, is therefore coarser where the difference cannot be seen, and its caption
 * says so. Ops below a pixel become columns in their mean colour. One of the transfers between two rows that begin
 * within 3 pixels is drawn. Memory shows the largest of every 2 pixels. */
gboolean ps_timeline_plot (const PsPicture *picture, PsTimeline *const *timelines, guint n, GError **error);

/* The caption above a timeline's panel: "simulated 1f1b: iteration 33 ms, bubble 27.3 % of it, peak memory 8 MiB". Free
 * with g_free. */
char *ps_timeline_caption (const PsTimeline *timeline);

/* The meaning of paler shades and of letters after numbers in a timeline whose devices have up to n_chunks: "2
 * chunks, later ones lighter", "2 directions, the second lighter", "4 slices of a microbatch: 0a, 0b, ..."; "" for
 * nothing. Free with g_free. */
char *ps_timeline_shades (const PsTimeline *timeline, guint n_chunks);

/* The picture's own title: the schedule and its size. Free with g_free. */
char *ps_timeline_title (PsTimeline *const *timelines, guint n);

/* Appends the devices' memory up to end_ns as step lines "x y 0xrrggbb", with blank lines between devices. With
 * grain_ns > 0 it draws the largest in each grain of the time axis; with 0, everything. */
void ps_timeline_append_memory (GString *script, const PsTimeline *timeline, double x_unit, double y_unit,
                                gint64 end_ns, gint64 grain_ns);

/* TRUE if a picture leaves out details that cannot be seen, because it would draw too many ops. */
gboolean ps_timeline_is_coarse (const PsPicture *picture, const PsTimeline *timeline);

/* The last moment about which anything is known. */
gint64 ps_timeline_end (const PsTimeline *timeline);

/* The highest and the lowest point of all memory curves; 0 and G_MAXINT64 if unknown. */
gint64 ps_timeline_max_memory (const PsTimeline *timeline);
gint64 ps_timeline_min_memory (const PsTimeline *timeline);

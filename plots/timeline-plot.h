/* timeline-plot.h - one or two timelines as rows of boxes, one row per device. */
#ifndef PS_TIMELINE_PLOT_H
#define PS_TIMELINE_PLOT_H

#include "gnuplot.h"

#include <pipesim/timeline.h>

G_BEGIN_DECLS

/* Draws n = 1 or 2 timelines, the first above the second, on one time axis; below each the memory of its devices, where
 * known. With picture->transfers a line for each, from the sender's row at its start to the receiver's at its end.
 *
 * In SVG, which grows with everything that is drawn, a timeline of thousands of ops is coarser where nobody could see
 * the difference, and its caption says so: ops below a pixel become columns in their mean colour, of transfers between
 * two rows that begin within 3 pixels one is drawn, and memory shows the largest of every 2 pixels. */
gboolean ps_timeline_plot (const PsPicture *picture, PsTimeline *const *timelines, guint n, GError **error);

/* "simulated 1f1b: iteration 33 ms, bubble 27.3 % of it, peak memory 8 MiB": what stands above a timeline's panel. Free
 * with g_free. */
char *ps_timeline_caption (const PsTimeline *timeline);

/* The picture's own title: the schedule and its size. Free with g_free. */
char *ps_timeline_title (PsTimeline *const *timelines, guint n);

/* Devices' memory as step lines "x y 0xrrggbb", devices parted by blank lines, to end_ns. Of what is there in each
 * grain_ns of the time axis the largest is drawn; 0: everything is. */
void ps_timeline_append_memory (GString *script, const PsTimeline *timeline, double x_unit, double y_unit,
                                gint64 end_ns, gint64 grain_ns);

/* Whether a picture of it leaves out what nobody could see: only SVG grows with everything that is drawn, and of few
 * ops all are. */
gboolean ps_timeline_is_coarse (const PsPicture *picture, const PsTimeline *timeline);

/* The last moment that anything is known of. */
gint64 ps_timeline_end (const PsTimeline *timeline);

/* The highest and the lowest point of all memory curves; 0 and G_MAXINT64 when not known. */
gint64 ps_timeline_max_memory (const PsTimeline *timeline);
gint64 ps_timeline_min_memory (const PsTimeline *timeline);

G_END_DECLS

#endif

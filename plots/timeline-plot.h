/* timeline-plot.h - one or two timelines as rows of boxes, one row per device. */
#pragma once

#include <glib.h>
#include "gnuplot.h"
#include <pipesim/timeline.h>

/* Lines of one colour and width each. */
typedef struct _PsPlotStrokes PsPlotStrokes;

PsPlotStrokes *ps_plot_strokes_new (void);

void ps_plot_strokes_free (PsPlotStrokes *strokes);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPlotStrokes, ps_plot_strokes_free)

/* Appends the blocks $strokes1.. and the arrays stroke_colour and stroke_width. */
void ps_plot_strokes_append (const PsPlotStrokes *strokes, GString *script);

typedef struct _PsPlotMix PsPlotMix;

/* Makes n_columns from 0 on, each `column` wide, in the coordinates of the boxes. Free with ps_plot_mix_free. */
PsPlotMix *ps_plot_mix_new (guint n_columns, double column);

void ps_plot_mix_free (PsPlotMix *mix);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPlotMix, ps_plot_mix_free)

void ps_plot_mix_add (PsPlotMix *mix, guint32 colour, double left, double right);

/* Adds the touched columns to strokes and empties them. Free parts of a column count as white. Shades are coarse, so
 * that similar neighbours become one piece. */
void ps_plot_mix_flush (PsPlotMix *mix, PsPlotStrokes *strokes, double y, double width);

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

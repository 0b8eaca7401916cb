/* strokes.h - many thin boxes as pieces of few broad lines. In SVG each box is an element of its own and takes some 110
 * bytes, a piece of a line takes some 30. */
#ifndef PS_PLOT_STROKES_H
#define PS_PLOT_STROKES_H

#include <glib.h>

G_BEGIN_DECLS

/* Lines of one colour and width each. */
typedef struct _PsPlotStrokes PsPlotStrokes;

PsPlotStrokes *ps_plot_strokes_new (void);
void ps_plot_strokes_free (PsPlotStrokes *strokes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPlotStrokes, ps_plot_strokes_free)

/* A box from left to right around y; boxes of one colour that touch become one piece. width is its height in pixels.
 * Boxes of one row come from left to right. */
void ps_plot_strokes_add (PsPlotStrokes *strokes, guint32 colour, double left, double right, double y, double width);

/* From here on new lines: pieces of the next panel. */
void ps_plot_strokes_begin (PsPlotStrokes *strokes);

/* How many lines there are so far. */
guint ps_plot_strokes_n (const PsPlotStrokes *strokes);

/* Appends the blocks $strokes1.. and the arrays stroke_colour and stroke_width. */
void ps_plot_strokes_append (const PsPlotStrokes *strokes, GString *script);

G_END_DECLS

#endif

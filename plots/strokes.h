/* strokes.h - many thin boxes as pieces of a few broad lines. In SVG a box is an element of some 110 bytes, a piece of
 * a line takes some 30. */
#pragma once

#include <glib.h>

/* Lines of one colour and width each. */
typedef struct _PsPlotStrokes PsPlotStrokes;

PsPlotStrokes *ps_plot_strokes_new (void);
void ps_plot_strokes_free (PsPlotStrokes *strokes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPlotStrokes, ps_plot_strokes_free)

/* Adds a box from left to right around y, with `width` pixels of height. Boxes of one colour that touch become one
 * piece. Boxes of one row come from left to right. */
void ps_plot_strokes_add (PsPlotStrokes *strokes, guint32 colour, double left, double right, double y, double width);

/* Begins new lines for the next panel. */
void ps_plot_strokes_begin (PsPlotStrokes *strokes);

/* The number of lines so far. */
guint ps_plot_strokes_n (const PsPlotStrokes *strokes);

/* Appends the blocks $strokes1.. and the arrays stroke_colour and stroke_width. */
void ps_plot_strokes_append (const PsPlotStrokes *strokes, GString *script);
